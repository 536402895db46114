"""One member of a volume lies; the volume works, and so does the other volume of the same process.

For each kind of lie (hostile_member.py): the process lives, a load finds no wrong byte and no failed request, the
neighbour's members answer all the while, memory stays bounded, and the liar comes back when it is honest.  The figures
are the rows of the table in docs/lab-notes/hostile-2026-11-29.md:

    scripts/test --all tests/integration/test_hostile_targets.py
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_member import KINDS, HostileMember

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, RpcError, Served, call, wait_until
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(400)]
SEED = int(os.environ.get("IRAID_SEED", "18"))
MEMBER_BYTES = 16 << 20
REQUEST_BYTES_MAX = 256 << 10  # each of nbdkit's threads keeps a buffer as large as its largest request
GROWTH_BYTES_MAX = 32 << 20
GRACE_SECONDS = 10  # a member that is out is looked at each 3 s only, and could tell few lies
BACK_SECONDS_MAX = 90.0
# How many lies of kinds that a session hears at once; those for which a member is given up come last
SAMPLE = {
    "Data-In in wrong places": 40, "R2T": 20, "NOP-In floods": 5, "asynchronous messages": 5, "residuals": 3,
    "sense data, statuses": 10,
}  # fmt: skip


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) << 10


class Neighbour:
    """A volume of honest members in the same process: is it asked without a pause, and does it always answer?"""

    def __init__(self, control: Path, name: str) -> None:
        self.control, self.name = control, name
        self.reads = 0
        self.faults: list[Any] = []
        self.slowest_seconds = 0.0
        self._ending = threading.Event()
        call(control, "volume.start", name=name)
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._ending.is_set():
            begun = time.monotonic()
            try:
                answer = call(self.control, "volume.probe", name=self.name, duration_ms=200, rate_max_bytes=1 << 20)
            except (RpcError, OSError) as error:
                self.faults.append(error)
                return
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - begun)
            self.reads += sum(member["reads"] for member in answer["members"])
            self.faults += [one for one in answer["members"] if one["error"] or one["unanswered"] or not one["reads"]]

    def end(self) -> None:
        self._ending.set()
        self._thread.join()


class Rig:
    def __init__(self, served: Served, target: HostileMember) -> None:
        self.served, self.target = served, target
        self.handle = served.connect()
        served.wait_resynced()
        self.shadow = Shadow(self.handle.get_size())
        self.load = Load(self.handle, self.shadow, seed=SEED, request_bytes_max=REQUEST_BYTES_MAX)
        self.load.run(1000)  # nbdkit has its buffers then, and the volume most of its own
        self.neighbour = Neighbour(served.control, "v1")
        self.before = self._unbounded_bytes()

    def hear(self, kind: str, lies: int, seconds: float) -> int:
        """So many lies of a kind, or as many as come in that time, but one; returns how many.  The load goes on."""
        self.target.tell(kind)
        deadline = time.monotonic() + seconds

        def enough() -> bool:
            self._go_on()
            return self.target.told >= lies or (self.target.told > 0 and time.monotonic() > deadline)

        wait_until(enough, f"lies about {kind}", seconds + BACK_SECONDS_MAX)
        return self.target.told

    def _go_on(self) -> bool:
        """Some requests; a member that was given up is taken back by `iraid rebuild`.  Is it in sync?"""
        self.load.run(20)
        self.served.process.check_running()
        status = self.served.status()
        assert status["state"] in ("active", "degraded"), status
        liar = next(member for member in status["members"] if member["member"] == self.target.member)
        if liar["state"] == "faulty" and liar["link"] == "open":
            call(self.served.control, "member.rebuild", name="v0", member=self.target.member)
        return liar["state"] == "in sync" and liar["link"] == "open"

    def reconcile(self) -> None:
        """The member is honest now, and comes back."""
        self.target.honest()
        wait_until(self._go_on, "the member to be back", BACK_SECONDS_MAX)

    def _unbounded_bytes(self) -> int:
        """Resident, without the volume's buffers, which have a bound of their own (docs/design/memory.md)."""
        return resident_bytes(self.served.process.pid) - self.served.status()["memory"]["buffer_bytes"]

    def grown_bytes(self) -> int:
        return self._unbounded_bytes() - self.before

    def check(self) -> None:
        self.neighbour.end()
        self.load.check()
        self.shadow.check_and_settle(read_all(self.handle, REQUEST_BYTES_MAX))
        assert not self.neighbour.faults, self.neighbour.faults[:3]
        assert self.neighbour.reads
        # A sanitizer keeps what was freed.
        assert SANITIZED or self.grown_bytes() < GROWTH_BYTES_MAX


@pytest.fixture
def rig(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> Iterator[Rig]:
    honest = make_farm(6, size_bytes=MEMBER_BYTES).members()
    with HostileMember(size_bytes=MEMBER_BYTES, seed=SEED) as target:
        gateway.create("v0", [*honest[:3], target.member], 5, "64K", "--give-up", "2")
        gateway.create("v1", honest[3:], 5, "64K")
        gateway.must("stop", "v0")
        gateway.must("stop", "v1")
        gateway.configure("v0", grace_seconds=GRACE_SECONDS)
        with gateway.serve("v0") as served:
            made = Rig(served, target)
            try:
                yield made
            finally:
                made.neighbour.end()


def test_a_member_that_lies_in_many_ways_costs_itself_only(rig: Rig, figure: Callable[[str, str], None]) -> None:
    """A sample: the rest is long."""
    told = {kind: rig.hear(kind, lies, 5) for kind, lies in SAMPLE.items()}
    rig.reconcile()
    rig.check()
    figure("lies", f"{told}; neighbour: {rig.neighbour.reads} reads, {rig.neighbour.slowest_seconds:.1f} s at most")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_member_lies_about_costs_itself_only(
    rig: Rig, kind: str, figure: Callable[[str, str], None]
) -> None:
    """Three times, so that it also lies to a volume that has just taken it back."""
    told = 0
    lies, seconds = (1000, 90) if kind == "hanging up" else (400, 12)
    for _ in range(3):
        told += rig.hear(kind, lies, seconds)
        rig.reconcile()
    rig.check()
    stats = rig.load.stats
    figure(
        "row",
        f"| {kind} | {told} | 0 | 0 | {rig.grown_bytes() / (1 << 20):.1f} MiB | {stats.requests} | "
        f"{stats.longest_seconds:.1f} s | {rig.neighbour.reads} | {rig.neighbour.slowest_seconds:.1f} s |",
    )
