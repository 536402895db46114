"""scripts/bench: what was asked for, on the host; measuring in the lab is inside.py's."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from iraid_dev.bench.core.cells import MEMBERS_DEFAULT, ValueFault, parse_cells, parse_shapes
from iraid_dev.bench.core.plan import KERNELS, PROFILES, Plan
from iraid_dev.bench.core.row import RowError
from iraid_dev.bench.core.run import Run

from .core import plan as plans
from .core import report, row
from .core import run as runs
from .growth import run as growth_run
from .log import run as log_run
from .papers import run as papers_run
from .silent import run as silent_run

SECONDS_MAX, ROUNDS_MAX = 600, 100
SYSTEMS = plans.IN_LAB + plans.NATIVE  # row.SYSTEMS without what only tests/bench/native.py measures
WITH_OPTIONS = {  # profiles that are not a list of cells
    "papers": (papers_run, "the papers' experiments on shaped links"),
    "growth": (growth_run, "cost against members, volumes, jobs, size"),
    "log": (log_run, "the write log beside md's bitmap, PPL and journal"),
    "silent": (silent_run, "the longest command while a target is silent, beside md and LVM"),
}

EPILOG = f"""\
systems:
{{systems}}
profiles:
{{profiles}}
A level is LEVEL or LEVEL:MEMBERS ({", ".join(f"{level}:{members}" for level, members in MEMBERS_DEFAULT.items())} are the
defaults).  A cell is SIZE:PATTERN, or only one of them.  docs/design/benchmarks.md says what is measured, and how.

examples:
  scripts/bench
  scripts/bench --profile quick --json quick.json --out quick
  scripts/bench --profile papers --only distance --out distance
  scripts/bench --profile growth --help
  scripts/bench --profile log --rtt 0,1,8 --json log.json
  scripts/bench --systems iraid,md --levels 6:5 --cells 4k:randwrite,1M --rounds 5
  scripts/bench --report quick.json full.json --out figures
"""


# --- what was typed ---


def _parser() -> argparse.ArgumentParser:
    text = EPILOG.format(
        systems="".join(f"  {name:<12} {row.SYSTEMS[name]}\n" for name in SYSTEMS),
        profiles="".join(
            f"  {name:<6} {one.about}; {one.kernel}, levels {one.levels}, {len(one.cells)} cells, {one.rounds} rounds "
            f"of {one.seconds:g} s\n"
            for name, one in PROFILES.items()
        )
        + "".join(
            f"  {name:<6} {about}; has options of its own: scripts/bench --profile {name} --help\n"
            for name, (_, about) in WITH_OPTIONS.items()
        ),
    )
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=text,
        description="Measures iraid and other systems with fio at depth 16, in turn cell by cell, with the same kind of\n"
        "targets, the same kernel and the same initiator.  First installs packages (as root) and builds.",
    )
    add = parser.add_argument
    add(
        "--profile",
        choices=(*PROFILES, *WITH_OPTIONS),
        default="short",
        help="set of defaults for the options below (default: short)",
    )
    add("--kernel", choices=KERNELS, help="the lab's kernel: see scripts/lab --help")
    add("--systems", metavar="NAME,...", help="systems to measure")
    add("--levels", metavar="LEVEL[:MEMBERS],...", help="levels to measure")
    add("--cells", metavar="CELL,...", help="cells to measure")
    add("--seconds", type=float, metavar="N", help="seconds for each cell in each round")
    add("--rounds", type=int, metavar="N", help="number of measurements of each cell")
    add("--json", type=Path, metavar="FILE", help="write the figures to FILE, also those of a run that was interrupted")
    add("--out", type=Path, metavar="DIR", help="write a report with plots to DIR; the folder is made")
    add(
        "--report",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing; make the report in --out from files that --json wrote",
    )
    add("--keep", action="store_true", help="keep the lab's logs and state even after a good run")
    add("--no-deps", action="store_true", help="do not install packages")
    add("--no-build", action="store_true", help="do not build")
    return parser


def parse(words: list[str]) -> tuple[argparse.Namespace, Plan]:
    parser = _parser()
    given = parser.parse_args(words)
    if given.profile in WITH_OPTIONS:  # the option was abbreviated, or it would not have come here (own_options)
        parser.error(f"--profile {given.profile} has options of its own; write --profile in full")
    try:
        if given.report:
            _check_report(given)
        plan = _plan(given)
        runs.check_files(given)
        runs.check_plots(given)
    except ValueFault as fault:
        parser.error(str(fault))
    return given, plan


def _plan(given: argparse.Namespace) -> Plan:
    profile = PROFILES[given.profile]
    systems, shapes, cells = profile.systems, profile.shapes(), profile.cells
    try:
        option = "--systems"
        if given.systems is not None:
            systems = tuple(dict.fromkeys(given.systems.split(",")))
            if unknown := [name for name in systems if name not in SYSTEMS]:
                raise ValueFault(f"{unknown[0]!r} is no system; choose from {', '.join(SYSTEMS)}")
        option = "--levels"
        if given.levels is not None:
            shapes = parse_shapes(given.levels)
        option = "--cells"
        if given.cells is not None:
            cells = parse_cells(given.cells)
    except ValueFault as fault:
        raise ValueFault(f"{option} {fault}") from None
    seconds = profile.seconds if given.seconds is None else given.seconds
    rounds = profile.rounds if given.rounds is None else given.rounds
    if not 0.1 <= seconds <= SECONDS_MAX:
        raise ValueFault(f"--seconds {seconds:g} is not in 0.1..{SECONDS_MAX}")
    if not 1 <= rounds <= ROUNDS_MAX:
        raise ValueFault(f"--rounds {rounds} is not in 1..{ROUNDS_MAX}")
    plan = Plan(given.kernel or profile.kernel, systems, shapes, cells, seconds, rounds)
    plan.check()
    if not given.report:
        plan.check_memory(runs.available_bytes())
    return plan


def _check_report(given: argparse.Namespace) -> None:
    if not given.out:
        raise ValueFault("--report needs --out DIR, where the report goes")
    for name in ("kernel", "systems", "levels", "cells", "seconds", "rounds", "json"):
        if getattr(given, name) is not None:
            raise ValueFault(f"--report measures nothing: leave --{name} out")


# --- a run, or a report ---


def only_report(given: argparse.Namespace) -> int:
    try:
        files = [row.read(path) for path in given.report]
    except RowError as error:
        print(f"scripts/bench: --report {error}", file=sys.stderr)
        return 1
    rows = report.pooled([rows for _, rows in files])
    if not rows:
        print(
            f"scripts/bench: --report {' '.join(map(str, given.report))}: no figures in there; was the run ended "
            "before its first?",
            file=sys.stderr,
        )
        return 1
    runs.write_report(given.out, [head for head, _ in files], rows)
    return 0


def measure(run: Run, plan: Plan) -> None:
    run.head |= {"profile": run.given.profile, "plan": json.loads(plan.to_json())}
    seconds = plans.estimate_seconds(plan)
    run.progress.line(f"about {plans.duration_text(seconds)} to measure, on a quiet machine")
    run.prepare()
    if plan.in_lab:
        run.in_lab(
            "iraid_dev.bench.core.inside",
            plan.kernel,
            runs.memory_mib(plan.disk_bytes()),
            runs.LAB_SECONDS_SPARE + runs.LAB_TIMES * seconds,
            {"plan.json": plan.to_json()},
        )
    if plan.native:
        run.natively(plan)


def own_options(words: list[str]) -> str | None:
    """The profile that was asked for, if it is one with options of its own."""
    pairs = list(zip(words, words[1:], strict=False))
    return next((name for name in WITH_OPTIONS if ("--profile", name) in pairs or f"--profile={name}" in words), None)


def main(words: list[str]) -> int:
    if name := own_options(words):
        program, _ = WITH_OPTIONS[name]
        return program.main(words)
    given, plan = parse(words)
    if given.report:
        return only_report(given)
    run = Run(given, words, runs.begin())
    return runs.carry_out(run, lambda: measure(run, plan))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
