"""Draws faults and has a stage carry them out, until the time is over or something is wrong."""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from .report import Run, write


MEMBERS = {1: 2, 10: 4, 5: 4, 6: 4}  # by level
LOGS = ("degraded", "off", "always")  # the first is what a volume has


class Wrong(Exception):
    """A byte that is not what was written, or I/O that failed."""


class Stage(Protocol):
    """The stack that faults are done to.  Every wait of it raises Wrong as soon as the load has seen something."""

    faults: dict[str, tuple[int, Callable[[random.Random], None]]]  # how often; what

    def mark(self) -> None: ...
    def longest_stall(self) -> float: ...  # since the mark
    def counts(self) -> tuple[int, int]: ...  # bytes verified and written so far
    def settle(self) -> None: ...  # until the next fault can be borne: see at_rest
    def tend(self) -> str: ...  # between faults; what the last one's line says of it
    def finish(self) -> None: ...  # verify all that was written
    def close(self, good: bool = False) -> None: ...  # end everything it started; keep the wreckage if not good


def at_rest(status: dict) -> bool:
    """All members are in sync and connected, and all parity is proven: after a crash, or the silence of more
    members than the level bears, the next one may only go when resync has ended."""
    connected = all(member["link"] == "open" for member in status["members"] if member["state"] == "in sync")
    return status["state"] == "active" and connected and status["regions"]["suspect"] == 0


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def drawn(stage: Stage, chance: random.Random) -> str:
    names = list(stage.faults)
    return chance.choices(names, [stage.faults[name][0] for name in names])[0]


def step(stage: Stage, name: str, chance: random.Random, run: Run) -> None:
    stage.mark()
    stage.faults[name][1](chance)
    stage.settle()
    stall = stage.longest_stall()
    run.survived(name, stall)
    run.verified_bytes, run.written_bytes = stage.counts()
    tended = "".join(f"; {text}" for text in (stage.tend(),) if text)
    say(f"{name}: longest stall {stall:.2f} s; {run.verified_bytes / 1e6:.0f} MB verified so far{tended}")


def drive(make: Callable[[], Stage], run: Run, minutes: float, result: Path) -> bool:
    """True if all went well.  The report is written after each fault, so a crash loses one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chance = random.Random(run.seed)
    begin = time.monotonic()
    stage = None
    try:
        stage = make()
        stage.settle()
        begin = time.monotonic()
        while time.monotonic() - begin < minutes * 60:
            step(stage, drawn(stage, chance), chance, run)
            run.seconds = time.monotonic() - begin
            write(result, [run])
        stage.finish()
        run.verified_bytes, run.written_bytes = stage.counts()
        run.ended = True
    except Exception as error:  # noqa: BLE001 whatever it is, the run was not clean
        if not isinstance(error, Wrong):
            traceback.print_exc()
        run.errors.append(f"{type(error).__name__}: {error}")
        say(f"NOT CLEAN: {error}")
    finally:
        run.seconds = time.monotonic() - begin
        write(result, [run])
        if stage is not None:
            close(stage, run, result)
            write(result, [run])  # what the stage has counted is told when it ends
    return run.good


def close(stage: Stage, run: Run, result: Path) -> None:
    try:
        stage.close(run.good)
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        run.errors.append(f"at the end: {type(error).__name__}: {error}")
        write(result, [run])
