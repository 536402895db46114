"""scripts/bench --profile log, on the host: what the write log costs, beside md's bitmap, PPL and journal."""

from __future__ import annotations

import argparse

from iraid_dev.bench.core import run as runs
from iraid_dev.bench.core.cells import ValueFault
from iraid_dev.bench.core.own_profile import OwnProfile, OwnRun
from iraid_dev.bench.core.plan import KERNELS

from . import plan as log_plan
from . import report as log_report
from .plan import CELLS, SYSTEMS, Settings

MODULE = "iraid_dev.bench.log.inside"
DEFAULTS = Settings()
LOG = OwnProfile(
    "log",
    ("kernel", "systems", "rtt", "cells", "member_mib", "cache", "seconds", "rounds"),
    ("log",),
    log_report.tables,
    log_report.markdown,
)


def _parser() -> argparse.ArgumentParser:
    def listed(title: str, pairs: list[tuple[str, str]]) -> str:
        return f"{title}:\n" + "".join(f"  {name:<19} {about}\n" for name, about in pairs)

    parser = LOG.parser(
        "Small writes on iraid with its write log off, degraded and always, beside md with a bitmap, PPL and a journal;\n"
        "all of them up at the same time and measured in turn, cell by cell.  A mode that the handler doesn't have is\n"
        "left out, with a line that says so.",
        listed("systems", list(SYSTEMS.items())) + listed("cells", [(cell.name, cell.about) for cell in CELLS]),
    )
    add = parser.add_argument
    add("--kernel", choices=KERNELS, help=f"the lab's kernel (default: {DEFAULTS.kernel})")
    add("--systems", metavar="NAME,...", help=f"systems to measure (default: {','.join(DEFAULTS.systems)})")
    add(
        "--rtt",
        metavar="MS,...",
        help="round trips to the targets, one after the other; 0: as the machine has it (default)",
    )
    add("--cells", metavar="NAME,...", help="cells to measure (default: all)")
    add(
        "--member-mib",
        type=int,
        metavar="N",
        help=f"size of a member, of which iraid's log has 1/256; sparse (default: {DEFAULTS.member_mib})",
    )
    add(
        "--cache",
        choices=("back", "through"),
        help="the targets' caches: volatile, and flushed where data must last, or none, as of an array with a battery "
        f"(default: {DEFAULTS.cache})",
    )
    LOG.add_options(parser, DEFAULTS.seconds, DEFAULTS.rounds)
    return parser


def parse(words: list[str]) -> tuple[argparse.Namespace, Settings]:
    parser = _parser()
    given = parser.parse_args(words)
    try:
        settings = log_plan.settings_of(LOG.typed(given))
        if not given.report:
            settings.check_memory(runs.available_bytes())
    except ValueFault as fault:
        parser.error(str(fault))
    return given, settings


def _measure(run: OwnRun, settings: Settings) -> None:
    seconds = log_plan.estimate_seconds(settings)
    run.measure(MODULE, settings.kernel, settings.disk_bytes(), seconds, settings.to_json())


def main(words: list[str]) -> int:
    given, settings = parse(words)
    if given.report:
        return LOG.only_report(given)
    run = OwnRun(LOG, given, words)
    return runs.carry_out(run, lambda: _measure(run, settings))
