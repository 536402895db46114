"""scripts/bench --profile silent, on the host."""

from __future__ import annotations

import argparse

from iraid_dev.bench.core import run as runs
from iraid_dev.bench.core.cells import ValueFault
from iraid_dev.bench.core.own_profile import OwnProfile, OwnRun
from iraid_dev.bench.core.plan import KERNELS

from . import plan as silent_plan
from . import report as silent_report
from .plan import SYSTEMS, Settings

MODULE = "iraid_dev.bench.silent.inside"
DEFAULTS = Settings()
SILENT = OwnProfile(
    "silent", ("kernel", "systems", "seconds", "rounds"), ("silent",), silent_report.tables, silent_report.markdown
)


def _parser() -> argparse.ArgumentParser:
    parser = SILENT.parser(
        "The longest command of a disk of level 5 while one of its four targets answers nothing, and errors, beside md\n"
        "and LVM's RAID.  Packets are lost on the target's link for --seconds; then it is there again.",
        "systems:\n" + "".join(f"  {name:<14} {about}\n" for name, about in SYSTEMS.items()),
    )
    parser.add_argument("--kernel", choices=KERNELS, help=f"the lab's kernel (default: {DEFAULTS.kernel})")
    parser.add_argument("--systems", metavar="NAME,...", help="systems to measure (default: all)")
    SILENT.add_options(parser, DEFAULTS.seconds, DEFAULTS.rounds)
    return parser


def parse(words: list[str]) -> tuple[argparse.Namespace, Settings]:
    parser = _parser()
    given = parser.parse_args(words)
    try:
        return given, silent_plan.settings_of(SILENT.typed(given))
    except ValueFault as fault:
        parser.error(str(fault))


def _measure(run: OwnRun, settings: Settings) -> None:
    seconds = silent_plan.estimate_seconds(settings)
    run.measure(MODULE, settings.kernel, settings.disk_bytes(), seconds, settings.to_json())


def main(words: list[str]) -> int:
    given, settings = parse(words)
    if given.report:
        return SILENT.only_report(given)
    run = OwnRun(SILENT, given, words)
    return runs.carry_out(run, lambda: _measure(run, settings))
