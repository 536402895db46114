"""scripts/bench --profile growth, on the host: what a volume costs as members, volumes, jobs and bytes become more."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from iraid_dev.bench.core import plan, report, row
from iraid_dev.bench.core import run as runs
from iraid_dev.bench.core.cells import MIB, ValueFault
from iraid_dev.bench.core.plan import KERNELS, Plan
from iraid_dev.bench.core.row import Row, RowError

from . import plan as growth_plan
from . import report as growth_report
from .plan import EXPERIMENTS, FOUR, JOB_DEPTH, Settings

MODULE = "iraid_dev.bench.growth.inside"
DEFAULTS = Settings(only=tuple(EXPERIMENTS))
MEASURED_BY = ("only", "kernel", "levels", "members", "volumes", "jobs", "sizes", "seconds", "rounds")


def _parser() -> argparse.ArgumentParser:
    def some(values: tuple[int, ...]) -> str:
        return f"(default: {','.join(map(str, values))})"

    parser = argparse.ArgumentParser(
        prog="scripts/bench --profile growth",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Throughput, processor time and memory against members, volumes, jobs and size: docs/design/growth.md.",
        epilog="experiments:\n" + "\n".join(f"  {name:<15} {each.about}" for name, each in EXPERIMENTS.items()),
    )
    add = parser.add_argument
    add("--profile", choices=("growth",))
    add("--only", metavar="NAME,...", help="run only these experiments (default: all)")
    add("--kernel", choices=KERNELS[:3], help=f"the lab's kernel (default: {DEFAULTS.kernel})")
    add(
        "--levels",
        metavar="LEVEL,...",
        help=f"for members {some(DEFAULTS.levels)}; else level {FOUR.level} on {FOUR.members}",
    )
    add("--members", metavar="N,...", help=f"for members {some(DEFAULTS.members)}")
    add("--volumes", metavar="N,...", help=f"for volumes {some(DEFAULTS.volumes)}")
    add("--jobs", metavar="N,...", help=f"for jobs {some(DEFAULTS.jobs)}")
    add("--sizes", metavar="SIZE,...", help="for sizes, such as 64G,16T (default: 1G to 64T)")
    add(
        "--seconds",
        type=float,
        metavar="N",
        help=f"seconds for each cell in each round (default: {DEFAULTS.seconds:g})",
    )
    add("--rounds", type=int, metavar="N", help=f"number of measurements of each cell (default: {DEFAULTS.rounds})")
    add("--json", type=Path, metavar="FILE", help="write the figures to FILE, also those of a run that was interrupted")
    add("--out", type=Path, metavar="DIR", help="write tables to DIR/growth.md; the folder is made")
    add(
        "--report",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing; make the tables in --out from files that --json wrote",
    )
    add("--keep", action="store_true", help="keep the lab's logs and state even after a good run")
    add("--no-deps", action="store_true", help="do not install packages")
    add("--no-build", action="store_true", help="do not build")
    return parser


def parse(words: list[str]) -> tuple[argparse.Namespace, Settings]:
    parser = _parser()
    given = parser.parse_args(words)
    typed = {name: getattr(given, name) for name in MEASURED_BY}
    try:
        if given.report:
            if not given.out:
                raise ValueFault("--report needs --out DIR, where the tables go")
            for name in (*MEASURED_BY, "json"):
                if getattr(given, name) is not None:
                    raise ValueFault(f"--report measures nothing: leave --{name} out")
        runs.check_files(given)
        settings = growth_plan.settings_of(typed)
        if not given.report:
            settings.check_memory(runs.available_bytes())
    except ValueFault as fault:
        parser.error(str(fault))
    return given, settings


class GrowthRun(runs.Run):
    def summary(self) -> str:
        return growth_report.tables(self.rows)

    def write_report(self) -> None:
        _write(self.given.out, [self.head], self.rows)


def _write(folder: Path, heads: list[dict[str, Any]], rows: list[Row]) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / "growth.md"
    path.write_text(growth_report.markdown(heads, rows))
    print(f"bench: {path}")


def _measure(run: GrowthRun, settings: Settings) -> None:
    run.head |= {"profile": "growth", "plan": json.loads(settings.to_json())}
    seconds = growth_plan.estimate_seconds(settings)
    run.progress.line(f"{', '.join(settings.only)}: about {plan.duration_text(seconds)} to measure, on a quiet machine")
    run.prepare()
    if settings.in_lab:
        run.in_lab(
            MODULE,
            settings.kernel,
            runs.memory_mib(settings.disk_bytes()),
            runs.LAB_SECONDS_SPARE + runs.LAB_TIMES * seconds,
            {"plan.json": settings.to_json()},
        )
    for name in settings.native:
        _natively(run, settings, name)


def _natively(run: GrowthRun, settings: Settings, name: str) -> None:
    options: list[object] = ["--member-mib", growth_plan.NATIVE_MEMBER_BYTES // MIB, "--filled"]
    if name == "members-native":
        for shape in settings.shapes():
            alone = Plan("uml", plan.NATIVE, (shape,), growth_plan.cells_of(shape), settings.seconds, settings.rounds)
            run.natively(alone, options, {"experiment": name})
        return
    alone = Plan("uml", plan.NATIVE, (FOUR,), growth_plan.cells_of(FOUR), settings.seconds, settings.rounds)
    for count in settings.jobs:
        run.natively(alone, [*options, "--depth", count * JOB_DEPTH], {"experiment": name, "jobs": count})


def _only_report(given: argparse.Namespace) -> int:
    try:
        files = [row.read(path) for path in given.report]
    except RowError as error:
        print(f"scripts/bench: --report {error}", file=sys.stderr)
        return 1
    rows = [
        one
        for one in report.pooled([rows for _, rows in files])
        if one.conditions.get("experiment") in growth_report.SECTIONS
    ]
    if not rows:
        print(
            f"scripts/bench: --report {' '.join(map(str, given.report))}: no figures of --profile growth in there",
            file=sys.stderr,
        )
        return 1
    _write(given.out, [head for head, _ in files], rows)
    return 0


def main(words: list[str]) -> int:
    given, settings = parse(words)
    if given.report:
        return _only_report(given)
    run = GrowthRun(given, words, runs.begin())
    return runs.carry_out(run, lambda: _measure(run, settings))
