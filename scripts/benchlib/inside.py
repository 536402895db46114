#!/usr/bin/python3
"""The part of scripts/bench that runs inside scripts/lab.

Each cell is measured on all systems of a group before the next one, and each round begins with another system, so that a
machine that is busy for a while favours none of them.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS.parent / "tests" / "end_to_end")]

from benchlib import load, processor  # noqa: E402
from benchlib.cells import Cell, Shape  # noqa: E402
from benchlib.plan import Plan  # noqa: E402
from benchlib.row import Row  # noqa: E402
from benchlib.systems import KINDS, System  # noqa: E402
from demolib.progress import Progress, progress_inside  # noqa: E402
from demolib.stack import Stack  # noqa: E402
from runner import handler_folder  # noqa: E402
from tools import StackError, run  # noqa: E402

RESULTS = Path(os.environ["IRAID_DEMO_RESULTS"])
ROWS = RESULTS / "rows"
PLAN = RESULTS / "plan.json"
HANDLERS = Path("/run/iraid-bench-handlers")
GIB = 1 << 30


def main() -> int:
    progress = progress_inside()
    plan = Plan.from_json(PLAN.read_text())
    with progress.step("A kernel with LIO and TCMU") as step:
        step.detail = f"Linux {os.uname().release}, {os.environ['IRAID_LAB']}, {os.cpu_count()} CPU"
        progress.report.figures["lab"] = {"kernel": os.uname().release, "cpus": os.cpu_count(),
                                          "fio": run("fio", "--version").strip().removeprefix("fio-")}
    stack = Stack(progress, HANDLERS)
    try:
        if {"iraid", "ceiling"} & set(plan.systems):
            with progress.step("tcmu-runner"):
                collect_handlers()
                stack.start_runner()
        for group in plan.groups():
            measure(progress, stack, plan, group)
        progress.report.ok = True
    except Exception:  # noqa: BLE001 - the step has it already; the log gets where it was
        Path(progress.report.logs, "log", "bench.traceback").write_text(traceback.format_exc())
    finally:
        for fault in stack.take_down():
            progress.line(f"tear-down: {fault}")
        progress.keep()
    return 0 if progress.report.ok else 1


def collect_handlers() -> None:
    """Ours and the ceiling's in one folder: the runner takes its handlers from one."""
    HANDLERS.mkdir(exist_ok=True)
    for name in ("handler_iraid.so", "handler_ceiling.so"):
        link = HANDLERS / name
        link.unlink(missing_ok=True)
        link.symlink_to(handler_folder(name) / name)


def measure(progress: Progress, stack: Stack, plan: Plan, group: list[tuple[str, Shape | None]]) -> None:
    shape = next((shape for _, shape in group if shape), None)
    title = f"Level {shape.level}, {shape.members} members" if shape else "Without a level"
    systems = [KINDS[name](stack, name, shape) for name, shape in group]
    stack.peers += systems
    for system in systems:
        with progress.step(f"{title}: {system.name}"):
            system.put_up()
            load.fill(system.disk)
    with progress.step(f"{title}: measured") as step:
        for number in range(plan.rounds):
            progress.say(f"round {number + 1} of {plan.rounds}")
            for cell in plan.cells:
                turn = number % len(systems)
                found = {system: figure(stack, system, cell, plan.seconds, number)
                         for system in systems[turn:] + systems[:turn]}
                progress.say(f"{cell}: " + ", ".join(f"{system.name} {found[system].mb_per_s:.1f}"
                                                     for system in systems) + " MB/s")
        step.detail = f"{plan.rounds} rounds of {len(plan.cells)} cells, {plan.seconds:g} s on each of {len(systems)}"
    with progress.step(f"{title}: taken down"):
        for system in reversed(systems):
            system.close()
            stack.peers.remove(system)


def figure(stack: Stack, system: System, cell: Cell, seconds: float, number: int) -> Row:
    """Measures, and adds the row to the file, so that a run that is cut short leaves what it has."""
    before = processor.snapshot()
    done = load.run(system.disk, cell, seconds)
    after = processor.snapshot()
    lab, gib = os.environ["IRAID_LAB"], done.data_bytes / GIB
    spent, of_runner = processor.spent(before, after), None
    if system.runner_serves:
        of_runner = round(processor.spent_by(stack.runner_pid, before, after).seconds / gib, 3)
    row = Row(lab, system.name, system.shape.level if system.shape else None, system.members,
              cell.pattern, cell.block_bytes, round(done.mb_per_s, 2), round(done.iops, 1),
              **{name: round(value, 3) for name, value in done.latency_ms.items()},
              cpu_s_per_gib=round(spent.seconds / gib, 3),
              # User-mode Linux counts the time of a process in the kernel as its own.
              cpu_user_s_per_gib=None if lab == "uml" else round(spent.user_seconds / gib, 3),
              process_cpu_s_per_gib=of_runner, round=number, depth=load.DEPTH)
    with ROWS.open("a") as rows:
        rows.write(json.dumps(asdict(row)) + "\n")
    return row


if __name__ == "__main__":
    sys.exit(main())
