"""scripts/bench --profile growth, on the host: what a volume costs as members, volumes, jobs and bytes become more."""

from __future__ import annotations

import argparse
import json

from iraid_dev.bench.core import plan
from iraid_dev.bench.core import run as runs
from iraid_dev.bench.core.cells import MIB, ValueFault
from iraid_dev.bench.core.own_profile import OwnProfile, OwnRun
from iraid_dev.bench.core.plan import KERNELS, Plan

from . import plan as growth_plan
from . import report as growth_report
from .plan import EXPERIMENTS, FOUR, JOB_DEPTH, Settings

MODULE = "iraid_dev.bench.growth.inside"
DEFAULTS = Settings(only=tuple(EXPERIMENTS))
GROWTH = OwnProfile(
    "growth",
    ("only", "kernel", "levels", "members", "volumes", "jobs", "sizes", "seconds", "rounds"),
    tuple(growth_report.SECTIONS),
    growth_report.tables,
    growth_report.markdown,
)


def _parser() -> argparse.ArgumentParser:
    def some(values: tuple[int, ...]) -> str:
        return f"(default: {','.join(map(str, values))})"

    parser = GROWTH.parser(
        "Throughput, processor time and memory against members, volumes, jobs and size: docs/design/growth.md.",
        "experiments:\n" + "\n".join(f"  {name:<15} {each.about}" for name, each in EXPERIMENTS.items()),
    )
    add = parser.add_argument
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
    GROWTH.add_options(parser, DEFAULTS.seconds, DEFAULTS.rounds)
    return parser


def parse(words: list[str]) -> tuple[argparse.Namespace, Settings]:
    parser = _parser()
    given = parser.parse_args(words)
    try:
        settings = growth_plan.settings_of(GROWTH.typed(given))
        if not given.report:
            settings.check_memory(runs.available_bytes())
    except ValueFault as fault:
        parser.error(str(fault))
    return given, settings


def _measure(run: OwnRun, settings: Settings) -> None:
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


def _natively(run: OwnRun, settings: Settings, name: str) -> None:
    options: list[object] = ["--member-mib", growth_plan.NATIVE_MEMBER_BYTES // MIB, "--filled"]
    if name == "members-native":
        for shape in settings.shapes():
            alone = Plan("uml", plan.NATIVE, (shape,), growth_plan.cells_of(shape), settings.seconds, settings.rounds)
            run.natively(alone, options, {"experiment": name})
        return
    alone = Plan("uml", plan.NATIVE, (FOUR,), growth_plan.cells_of(FOUR), settings.seconds, settings.rounds)
    for count in settings.jobs:
        run.natively(alone, [*options, "--depth", count * JOB_DEPTH], {"experiment": name, "jobs": count})


def main(words: list[str]) -> int:
    given, settings = parse(words)
    if given.report:
        return GROWTH.only_report(given)
    run = OwnRun(GROWTH, given, words)
    return runs.carry_out(run, lambda: _measure(run, settings))
