"""The part of scripts/bench --profile silent that runs inside scripts/lab.  Each system is put up anew for each round."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iraid_dev.bench.core import inside, load
from iraid_dev.bench.core.initiator_settings import changed
from iraid_dev.bench.core.network import Link, Network
from iraid_dev.bench.core.row import Row
from iraid_dev.bench.core.systems import System
from iraid_dev.stack.tools import wait_for
from iraid_dev.stack.typed_stack import Stack
from iraid_dev.steps.progress import Progress

from .plan import BEFORE_SECONDS, DEPTH, IMPATIENT, IOPS, JOBS, SHAPE, SILENT, Settings
from .systems import KINDS

LOST = Link(loss_percent=100)
SESSIONS = Path("/sys/class/iscsi_session")
BACK_SECONDS_MAX = 120


def sessions_are_back() -> bool:
    return all(path.read_text().strip() == "LOGGED_IN" for path in SESSIONS.glob("session*/state"))


class SilentBench:
    def __init__(self, settings: Settings, progress: Progress, stack: Stack):
        self.settings = settings
        self.progress = progress
        self.stack = stack
        self.network = Network(SHAPE.members)

    def measure_all(self) -> None:
        inside.start_runner(self.progress, self.stack)
        self.stack.networks.append(self.network.__enter__())
        for number in range(self.settings.rounds):
            turn = number % len(self.settings.systems)
            for name in self.settings.systems[turn:] + self.settings.systems[:turn]:
                self.measure(name, number)

    def measure(self, name: str, number: int) -> None:
        kind, _, impatient = name.partition("-")
        title = f"round {number + 1}, {name}"
        system = KINDS[kind](self.stack, kind, SHAPE)
        with changed(IMPATIENT if impatient else {}):
            inside.put_up_one(self.progress, self.stack, title, system)
        with self.progress.step(f"{title}: a target is silent") as step:
            found = [self.row(name, number, job) for job in self.loaded(system)]
            step.detail = ", ".join(
                f"{one.pattern} {one.conditions['measured']['longest_s']:g} s, "
                f"{one.conditions['measured']['errors']} errors"
                for one in found
            )
        wait_for(sessions_are_back, "open-iscsi's sessions", BACK_SECONDS_MAX)
        inside.take_down(self.progress, self.stack, title, [system])

    def loaded(self, system: System) -> list[dict[str, Any]]:
        """What fio says of each of the jobs."""
        assert system.disk is not None
        seconds = self.settings.load_seconds
        words = [
            "--time_based",
            "--norandommap",
            f"--runtime={seconds:g}s",
            f"--iodepth={DEPTH}",
            f"--rate_iops={IOPS}",
            "--continue_on_error=all",
        ]
        jobs = [(system.disk, [f"--rw={cell.pattern}", f"--bs={cell.block_bytes}"]) for cell in JOBS]
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(load.fio, jobs, words, seconds + self.settings.seconds)
            with self.silence():
                time.sleep(self.settings.seconds)
            return loading.result()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Begins when the load has gone on for a while."""
        time.sleep(BEFORE_SECONDS)
        self.network.shape_one(SILENT, LOST)
        try:
            yield
        finally:
            self.network.shape_one(SILENT, Link())

    def row(self, name: str, number: int, job: dict[str, Any]) -> Row:
        cell = JOBS[[cell.pattern for cell in JOBS].index(job["job options"]["rw"])]
        way = job[cell.pattern.removeprefix("rand")]
        row = Row(
            os.environ["IRAID_LAB"],
            name,
            SHAPE.level,
            SHAPE.members,
            cell.pattern,
            cell.block_bytes,
            round(way["bw_bytes"] / 1e6, 4),
            round(way["iops"], 1),
            **{key: round(way["lat_ns"]["percentile"][value] / 1e6, 3) for key, value in load.PERCENTILES.items()},
            cpu_s_per_gib=None,
            round=number,
            depth=DEPTH,
            conditions={
                "experiment": "silent",
                "seconds": self.settings.seconds,
                "measured": {"longest_s": round(way["lat_ns"]["max"] / 1e9, 2), "errors": job["total_err"]},
            },
        )
        with inside.ROWS.open("a") as rows:
            rows.write(json.dumps(asdict(row)) + "\n")
        return row


def main() -> int:
    settings = Settings.from_json(inside.PLAN.read_text())
    return inside.carry_out(lambda progress, stack: SilentBench(settings, progress, stack).measure_all())


if __name__ == "__main__":
    sys.exit(main())
