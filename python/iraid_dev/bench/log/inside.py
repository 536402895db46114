"""The part of scripts/bench --profile log that runs inside scripts/lab.

What a cell left to be written when its load ended (md's journal in write-back, a log whose rows are behind) is waited for,
so that it isn't in the next system's figure, and counted.  md destages a journal when room gets scarce, so that part stays.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from iraid_dev.bench.core import inside, load
from iraid_dev.bench.core.cells import MIB
from iraid_dev.bench.core.initiator_settings import deepen_queues
from iraid_dev.bench.core.network import BUFFER_BYTES_MAX, Link, Network, NetworkTargets
from iraid_dev.bench.core.row import Row
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.tools import StackError
from iraid_dev.stack.typed_stack import Stack
from iraid_dev.steps.progress import Progress

from .plan import AREA_BYTES, LINKS, Settings, Workload
from .systems import Logged, Refused, make

QUIET_LOOK_SECONDS = 0.5
QUIET_BYTES = 256 * 1024  # in that time: questions whether somebody is there, marks of regions
QUIET_SECONDS_MAX = 30


def write_cache(disk: Disk) -> str:
    """As the initiator's kernel sees it: only with "write back" does it send flushes."""
    return Path("/sys/block", Path(disk.path).name, "queue/write_cache").read_text().strip()


class LogBench:
    def __init__(self, settings: Settings, progress: Progress, stack: Stack):
        self.settings = settings
        self.progress = progress
        self.stack = stack
        self.network = Network(LINKS)

    def measure_all(self) -> None:
        deepen_queues()
        NetworkTargets.write_back = self.settings.cache == "back"
        inside.start_runner(self.progress, self.stack)
        self.stack.networks.append(self.network.__enter__())
        self.network.set_buffers(BUFFER_BYTES_MAX)
        systems = [system for name in self.settings.systems if (system := self.put_up(name))]
        if not systems:
            raise StackError(f"none of {', '.join(self.settings.systems)} could be put up")
        for rtt_ms in self.settings.rtts_ms:
            self.at_distance(systems, rtt_ms)
        inside.take_down(self.progress, self.stack, "Systems", systems)

    def at_distance(self, systems: list[Logged], rtt_ms: float) -> None:
        title, link = f"RTT {rtt_ms:g} ms", Link(rtt_ms=rtt_ms, slots=False) if rtt_ms else Link()
        if link != self.network.link:
            with self.progress.step(f"{title}: new sessions"):
                self.network.shape(link)
                for system in systems:
                    system.reconnect()
        seen_ms = round(self.network.round_trip_ms(0), 2)
        with self.progress.step(f"{title}: measured") as step:
            for number in range(self.settings.rounds):
                self.progress.say(f"round {number + 1} of {self.settings.rounds}")
                one = partial(self.one, number=number, rtt_ms=rtt_ms, seen_ms=seen_ms)
                inside.measure_round(self.progress, systems, self.settings.workloads, number, one)
            step.detail = f"a round trip took {seen_ms:g} ms; {self.settings.seconds:g} s for each cell and system"

    def put_up(self, name: str) -> Logged | None:
        """Filled, and as it is to be measured.  None: this handler doesn't have it."""
        system = make(self.stack, name, self.settings.member_mib * MIB)
        self.stack.peers.append(system)
        with self.progress.step(f"{name} is put up") as step:
            try:
                system.put_up()
            except Refused as refused:
                step.detail = f"left out, {refused}"
                system.close()
                self.stack.peers.remove(system)
                return None
            load.fill(system.disk, load.Jobs(size_bytes=AREA_BYTES))
            system.get_ready()
            step.detail = f"{system.describe()}; cache: {write_cache(system.disk)}"
        return system

    def one(self, system: Logged, cell: Workload, number: int, rtt_ms: float, seen_ms: float) -> Row:
        return inside.figure(
            self.stack,
            system,
            cell,
            self.settings.seconds,
            number,
            load.Jobs(depth=cell.depth, size_bytes=cell.size_bytes, options=cell.options),
            lambda: {
                "experiment": "log",
                "cell": cell.name,
                "rtt_ms": rtt_ms,
                "measured": {"rtt_ms": seen_ms, "left_mib": self.left_mib()},
            },
        )

    def left_mib(self) -> float:
        """What the gateway sends to targets from now on until it is quiet."""
        first = before = self._sent_bytes()
        deadline = time.monotonic() + QUIET_SECONDS_MAX
        while time.monotonic() < deadline:
            time.sleep(QUIET_LOOK_SECONDS)
            now = self._sent_bytes()
            if now - before < QUIET_BYTES:
                break
            before = now
        return round((self._sent_bytes() - first) / MIB, 2)

    def _sent_bytes(self) -> int:
        return sum(self.network.bytes_moved(number)[0] for number in range(LINKS))


def main() -> int:
    settings = Settings.from_json(inside.PLAN.read_text())
    return inside.carry_out(lambda progress, stack: LogBench(settings, progress, stack).measure_all())


if __name__ == "__main__":
    sys.exit(main())
