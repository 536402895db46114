"""The part of scripts/bench that runs inside scripts/lab.

Each cell is measured on all systems of a group before the next one, and each round begins with another system, so that a
machine that is busy for a while favours none of them.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from iraid_dev.stack.runner import handler_folder
from iraid_dev.stack.tools import run
from iraid_dev.stack.typed_stack import Stack
from iraid_dev.steps.progress import Progress, progress_inside

from . import load, processor
from .cells import GIB, Cell, Shape
from .plan import Plan
from .row import Row
from .systems import KINDS, System

RESULTS = Path(os.environ["IRAID_DEMO_RESULTS"])
ROWS = RESULTS / "rows"
PLAN = RESULTS / "plan.json"
HANDLERS = Path("/run/iraid-bench-handlers")


def main() -> int:
    plan = Plan.from_json(PLAN.read_text())

    def measure_all(progress: Progress, stack: Stack) -> None:
        if {"iraid", "ceiling"} & set(plan.systems):
            start_runner(progress, stack)
        for group in plan.groups():
            measure(progress, stack, plan, group)

    return carry_out(measure_all)


def carry_out(measure_all: Callable[[Progress, Stack], None]) -> int:
    """Exit status.  The stack goes down again whatever became of it, and the report says what."""
    progress = progress_inside()
    with progress.step("A kernel with LIO and TCMU") as step:
        step.detail = f"Linux {os.uname().release}, {os.environ['IRAID_LAB']}, {os.cpu_count()} CPU"
        progress.report.figures["lab"] = {
            "kernel": os.uname().release,
            "cpus": os.cpu_count(),
            "fio": run("fio", "--version").strip().removeprefix("fio-"),
        }
    stack = Stack(progress, HANDLERS)
    try:
        measure_all(progress, stack)
        progress.report.ok = True
    except Exception:  # noqa: BLE001 - the step has it already; the log gets where it was
        Path(progress.report.logs, "log", "bench.traceback").write_text(traceback.format_exc())
    finally:
        for fault in stack.take_down():
            progress.line(f"tear-down: {fault}")
        progress.keep()
    return 0 if progress.report.ok else 1


def start_runner(progress: Progress, stack: Stack) -> None:
    """With our handler and the ceiling's in one folder: the runner takes its handlers from one."""
    with progress.step("tcmu-runner"):
        HANDLERS.mkdir(exist_ok=True)
        for name in ("handler_iraid.so", "handler_ceiling.so"):
            link = HANDLERS / name
            link.unlink(missing_ok=True)
            link.symlink_to(handler_folder(name) / name)
        stack.start_runner()


def measure(progress: Progress, stack: Stack, plan: Plan, group: list[tuple[str, Shape | None]]) -> None:
    shape = next((shape for _, shape in group if shape), None)
    title = f"Level {shape.level}, {shape.members} members" if shape else "Without a level"
    systems = [KINDS[name](stack, name, shape) for name, shape in group]
    with put_up(progress, stack, title, systems), progress.step(f"{title}: measured") as step:
        for number in range(plan.rounds):
            progress.say(f"round {number + 1} of {plan.rounds}")
            measure_round(
                progress, systems, plan.cells, number, partial(figure, stack, seconds=plan.seconds, number=number)
            )
        step.detail = f"{plan.rounds} rounds of {len(plan.cells)} cells, {plan.seconds:g} s on each of {len(systems)}"


@contextmanager
def put_up(
    progress: Progress,
    stack: Stack,
    title: str,
    systems: list[System],
    before_fill: Callable[[System], object] = lambda _: None,
) -> Iterator[None]:
    """What is there when something fails, stack.take_down() takes away."""
    for system in systems:
        put_up_one(progress, stack, title, system, before_fill)
    yield
    take_down(progress, stack, title, systems)


def put_up_one(
    progress: Progress,
    stack: Stack,
    title: str,
    system: System,
    before_fill: Callable[[System], object] = lambda _: None,
) -> None:
    stack.peers.append(system)
    with progress.step(f"{title}: {system.name}"):
        system.put_up()
        before_fill(system)
        load.fill(system.disk)


def take_down(progress: Progress, stack: Stack, title: str, systems: list[System]) -> None:
    with progress.step(f"{title}: taken down"):
        for system in reversed(systems):
            system.close()
            stack.peers.remove(system)


def measure_round(
    progress: Progress, systems: list[System], cells: Iterable[Cell], number: int, one: Callable[[System, Cell], Row]
) -> None:
    """Each cell on all systems before the next one; each round begins with another system."""
    turn = number % len(systems)
    for cell in cells:
        found = {system: one(system, cell) for system in systems[turn:] + systems[:turn]}
        progress.say(
            f"{cell}: " + ", ".join(f"{system.label} {found[system].mb_per_s:.1f}" for system in systems) + " MB/s"
        )


def figure(
    stack: Stack,
    system: System,
    cell: Cell,
    seconds: float,
    number: int,
    jobs: load.Jobs = load.ONE_JOB,
    conditions: Callable[[], dict[str, Any]] = dict,
) -> Row:
    """Measures, and adds the row to the file, so that a run that is cut short leaves what it has.

    conditions() is asked after the load: some of them are what it left behind.
    """
    return figure_together(stack, [system], cell, seconds, number, jobs, lambda _: conditions())


def figure_together(
    stack: Stack,
    systems: list[System],
    cell: Cell,
    seconds: float,
    number: int,
    jobs: load.Jobs,
    conditions: Callable[[list[load.Load]], dict[str, Any]],
) -> Row:
    """Of systems that are alike and loaded at the same time: throughput is their sum, latency that of the slowest."""
    system = systems[0]
    load.settle()  # outside of the processor time, too
    before = processor.snapshot()
    done = load.run_together([each.disk for each in systems], cell, seconds, jobs)  # type: ignore[misc]  # they are put up
    after = processor.snapshot()
    lab, gib = os.environ["IRAID_LAB"], sum(each.data_bytes for each in done) / GIB
    spent, of_runner = processor.spent(before, after), None
    if system.runner_serves:
        of_runner = round(processor.spent_by(stack.runner_pid, before, after).seconds / gib, 3)
    row = Row(
        lab,
        system.name,
        system.shape.level if system.shape else None,
        system.members,
        cell.pattern,
        cell.block_bytes,
        round(sum(each.mb_per_s for each in done), 4),
        round(sum(each.iops for each in done), 1),
        **{name: round(max(each.latency_ms[name] for each in done), 3) for name in load.PERCENTILES},
        cpu_s_per_gib=round(spent.seconds / gib, 3),
        # User-mode Linux counts the time of a process in the kernel as its own.
        cpu_user_s_per_gib=None if lab == "uml" else round(spent.user_seconds / gib, 3),
        process_cpu_s_per_gib=of_runner,
        round=number,
        depth=jobs.depth,
        conditions=conditions(done),
    )
    with ROWS.open("a") as rows:
        rows.write(json.dumps(asdict(row)) + "\n")
    return row


if __name__ == "__main__":
    sys.exit(main())
