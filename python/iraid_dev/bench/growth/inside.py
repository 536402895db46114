"""The part of scripts/bench --profile growth that runs inside scripts/lab.

A runner keeps the memory that it once had, so each number of members has a fresh one; volumes, and sizes, are added to one
runner.  What a row's conditions have as "measured" is not what was set but what was seen: memory of the runner when it had no
volume, before the load, and after it; times of commands.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from iraid_dev.bench.core import inside, load
from iraid_dev.bench.core.cells import CHUNK_BYTES, Cell
from iraid_dev.bench.core.initiator_settings import deepen_queues
from iraid_dev.bench.core.row import Row
from iraid_dev.bench.core.systems import Iraid, Md, Plain, System
from iraid_dev.stack.tools import wait_for
from iraid_dev.stack.typed_stack import Stack
from iraid_dev.steps.progress import Progress

from . import memory
from . import plan as growth_plan
from .plan import AREA_BYTES, FOUR, JOB_DEPTH, MEMBER_BYTES, Settings

ASSEMBLY_SECONDS_MAX = 60
STATUS_CALLS = 15
RESYNC_FAST, RESYNC_SLOW = 1 << 30, 1 << 16  # bytes a second
PROOF_SECONDS_MAX = 120


class Growth:
    def __init__(self, settings: Settings, progress: Progress, stack: Stack):
        self.settings = settings
        self.progress = progress
        self.stack = stack
        self._empty: dict[str, int] = {}
        self._idle: dict[str, int] = {}

    def fresh_runner(self) -> None:
        self.stack.stop_runner()
        inside.start_runner(self.progress, self.stack)
        self._empty = self.memory()

    def note_idle(self, system: System) -> None:
        """With a volume that has served nothing yet."""
        if system.runner_serves:
            self._idle = self.memory()

    def memory(self) -> dict[str, int]:
        return memory.of(self.stack.runner_pid).to_json()

    def measured(self, systems: list[System]) -> dict[str, Any]:
        """After a load."""
        if not systems[0].runner_serves:
            return {}
        buffers = sum(self.stack.status(system.volume).memory.buffer_bytes for system in systems)
        return {
            "measured": {
                "empty": self._empty,
                "idle": self._idle,
                "after": self.memory() | {"buffers_kib": buffers >> 10},
            }
        }

    def rounds(
        self,
        title: str,
        systems: list[System],
        cells: tuple[Cell, ...],
        conditions: dict[str, Any],
        jobs: load.Jobs = load.ONE_JOB,
    ) -> None:
        def one(system: System, cell: Cell, number: int) -> Row:
            return inside.figure(
                self.stack,
                system,
                cell,
                self.settings.seconds,
                number,
                jobs,
                lambda: conditions | self.measured([system]),
            )

        with self.progress.step(f"{title}: measured"):
            for number in range(self.settings.rounds):
                inside.measure_round(self.progress, systems, cells, number, partial(one, number=number))


def members(growth: Growth) -> None:
    for shape in growth.settings.shapes():
        growth.fresh_runner()
        title = f"Level {shape.level}, {shape.members} members"
        systems = [
            kind(growth.stack, name, shape, member_bytes=MEMBER_BYTES) for kind, name in ((Iraid, "iraid"), (Md, "md"))
        ]
        with inside.put_up(growth.progress, growth.stack, title, systems, growth.note_idle):
            growth.rounds(title, systems, growth_plan.cells_of(shape), {"experiment": "members"})


def volumes(growth: Growth) -> None:
    growth.fresh_runner()
    there: list[System] = []
    for count in growth.settings.volumes:
        title = f"{count} volumes"
        while len(there) < count:
            system = Iraid(growth.stack, "iraid", FOUR, member_bytes=MEMBER_BYTES, number=len(there) + 1)
            inside.put_up_one(growth.progress, growth.stack, title, system, growth.note_idle)
            there.append(system)
        with growth.progress.step(f"{title}: measured"):
            for number in range(growth.settings.rounds):
                for cell in growth_plan.cells_of(FOUR):
                    _loaded_together(growth, there, cell, number)
    inside.take_down(growth.progress, growth.stack, "Volumes", there)


def _loaded_together(growth: Growth, systems: list[System], cell: Cell, number: int) -> None:
    def conditions(done: list[load.Load]) -> dict[str, Any]:
        seen = growth.measured(systems)
        seen["measured"]["each_mb_per_s"] = [round(each.mb_per_s, 2) for each in done]
        return {"experiment": "volumes", "volumes": len(systems)} | seen

    row = inside.figure_together(growth.stack, systems, cell, growth.settings.seconds, number, load.ONE_JOB, conditions)
    each = row.conditions["measured"]["each_mb_per_s"]
    growth.progress.say(f"{cell}: {row.mb_per_s:.1f} MB/s, each {min(each):.1f} to {max(each):.1f}")


def jobs(growth: Growth) -> None:
    deepen_queues()
    growth.fresh_runner()
    systems = [
        Plain(growth.stack, "plain", None, member_bytes=MEMBER_BYTES),
        *(kind(growth.stack, name, FOUR, member_bytes=MEMBER_BYTES) for kind, name in ((Iraid, "iraid"), (Md, "md"))),
    ]
    with inside.put_up(growth.progress, growth.stack, "Jobs", systems, growth.note_idle):
        for count in growth.settings.jobs:
            growth.rounds(
                f"{count} jobs",
                systems,
                growth_plan.cells_of(FOUR),
                {"experiment": "jobs", "jobs": count},
                load.Jobs(count, JOB_DEPTH),
            )


# --- sizes ---


class Large(Iraid):
    """A volume of many TiB: nobody waits until all of it is proven."""

    def __init__(self, stack: Stack, volume_bytes: int, number: int):
        super().__init__(stack, "iraid", FOUR, member_bytes=growth_plan.member_bytes_of(volume_bytes), number=number)
        self.volume_bytes = volume_bytes
        self.times: dict[str, float] = {}
        self.places: dict[str, int] = {}
        self.added_kib = 0  # of the runner's own memory, before any load

    @property
    def label(self) -> str:
        return growth_plan.size_text(self.volume_bytes)

    def put_up(self) -> None:
        client, name = self.stack.client, self.volume
        targets = self._targets(self.shape.members, self.member_bytes)

        def start() -> None:
            client.start(name, False, False, ASSEMBLY_SECONDS_MAX)

        self._timed(
            "create",
            lambda: client.create(
                name=name, level=self.shape.level, chunk_bytes=CHUNK_BYTES, members=targets.members()
            ),
        )
        self._undo.append(lambda: client.delete(name, False))
        self._timed("create_assemble", start)
        self._timed("stop", lambda: client.stop(name))
        self._timed("assemble", start)
        self.times["status"] = self.status_seconds()
        client.set_rates(name, RESYNC_SLOW, RESYNC_FAST)
        self._serve("iraid", client.status(name).size_bytes)

    def _timed(self, name: str, action: Callable[[], object]) -> None:
        begin = time.monotonic()
        action()
        self.times[name] = round(time.monotonic() - begin, 4)

    def status_seconds(self) -> float:
        found = []
        for _ in range(STATUS_CALLS):
            begin = time.monotonic()
            self.stack.client.status(self.volume)
            found.append(time.monotonic() - begin)
        return round(statistics.median(found), 5)

    def describe(self) -> dict[str, Any]:
        now = self.stack.status(self.volume)
        return {
            "times": self.times | {"status_after": self.status_seconds()},
            "regions": now.regions.total,
            "region_bytes": now.regions.region_bytes,
            "added_kib": self.added_kib,
            "buffers_kib": now.memory.buffer_bytes >> 10,
        }

    def prove_areas(self) -> None:
        """Fills them, and waits until their parity is proven: regions that were just written come first."""
        self.places = growth_plan.places_of(self.disk.size_bytes)
        for offset in self.places.values():
            load.fill(self.disk, load.Jobs(offset_bytes=offset, size_bytes=AREA_BYTES))
        begin = self.stack.status(self.volume)
        region_bytes = begin.regions.region_bytes * self.shape.data_chunks
        regions = len(self.places) * (AREA_BYTES // region_bytes + 2)
        rows = begin.resync.done_rows + regions * begin.regions.region_bytes // CHUNK_BYTES

        def proven() -> bool:
            resync = self.stack.status(self.volume).resync
            return not resync.running or resync.done_rows >= rows

        wait_for(proven, f"{regions} regions of volume {self.volume} to be proven", PROOF_SECONDS_MAX)
        self.stack.client.set_rates(self.volume, None, RESYNC_SLOW)  # from here on it is not in the way


def sizes(growth: Growth) -> None:
    """All of them are there at the same time and measured in turn: a machine that is busy for a while favours none."""
    growth.fresh_runner()
    volumes_: list[Large] = []
    for number, size in enumerate(growth.settings.sizes):
        large = Large(growth.stack, size, number)
        title = growth_plan.size_text(size)
        growth.stack.peers.append(large)
        with growth.progress.step(f"{title}: created, assembled, exported") as step:
            before = growth.memory()
            large.put_up()
            large.added_kib = growth.memory()["own_kib"] - before["own_kib"]
            step.detail = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in large.times.items())
        with growth.progress.step(f"{title}: three places filled and proven"):
            large.prove_areas()
        volumes_.append(large)
    small = growth_plan.cells_of(FOUR)[:-1]
    at_random = tuple(cell for cell in small if cell.pattern.startswith("rand"))
    for place in volumes_[0].places:
        _at(growth, volumes_, place, small)
    _at(growth, volumes_, "all over", at_random)
    inside.take_down(growth.progress, growth.stack, "Sizes", volumes_)


def _at(growth: Growth, volumes_: list[Large], place: str, cells: tuple[Cell, ...]) -> None:
    def one(large: Large, cell: Cell, number: int) -> Row:
        where = (
            load.Jobs(offset_bytes=large.places[place], size_bytes=AREA_BYTES)
            if place in large.places
            else load.ONE_JOB
        )
        return inside.figure(
            growth.stack,
            large,
            cell,
            growth.settings.seconds,
            number,
            where,
            lambda: {
                "experiment": "sizes",
                "size_bytes": large.volume_bytes,
                "place": place,
                "measured": large.describe(),
            },
        )

    with growth.progress.step(f"{place}: measured"):
        for number in range(growth.settings.rounds):
            inside.measure_round(growth.progress, volumes_, cells, number, partial(one, number=number))


EXPERIMENTS = {"members": members, "volumes": volumes, "jobs": jobs, "sizes": sizes}


def main() -> int:
    settings = Settings.from_json(inside.PLAN.read_text())

    def measure_all(progress: Progress, stack: Stack) -> None:
        growth = Growth(settings, progress, stack)
        for name in settings.in_lab:
            EXPERIMENTS[name](growth)

    return inside.carry_out(measure_all)


if __name__ == "__main__":
    sys.exit(main())
