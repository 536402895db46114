"""The soak's stage without a kernel: targets on loopback, the volume served by nbdkit, libnbd's load with its
shadow copy (python/iraid_dev/stack/shadow.py).  Quicker than the lab, and without links that could be cut.

Started by cli.py as a program, with MINUTES SEED COMMIT DATE LEVEL LOG peaceful RESULT FOLDER
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Served, call
from iraid_dev.stack.shadow import Load, Shadow, Stats, read_all

from .driver import LOGS, MEMBERS, Wrong, at_rest, drive, say
from .report import Run

MEMBER_BYTES = 32 << 20
SETTLE_SECONDS_MAX = 200.0
REST_SECONDS = 2.5  # longer than it takes to give a silent member up
# A lost session may have been a lost cache of more members than the level bears: flushes say so for a minute.
MAY_FAIL = "flush|FUA write"


class NativeStage:
    def __init__(self, folder: Path, run: Run):
        self.folder, self.seed, self.level, self.log = folder, run.seed, run.level, run.log
        self.loads = self.verified = self.written = self.written_by_this = 0
        self.served: Served | None = None
        self.gateway: Gateway | None = None
        self.farm: TargetFarm | None = None
        self.stats = Stats()
        self.faults: dict[str, tuple[int, Callable[[random.Random], None]]] = {
            "member killed": (4, self.killed), "member stopped": (3, self.stopped),
            "member wiped and replaced": (3, self.wiped), "gateway killed": (4, self.gateway_killed),
            "two members away": (2, self.two_away), "scrub": (2, self.scrub), "flush": (1, self.flush),
        }  # fmt: skip
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        memory = Path("/dev/shm")
        self.disks = Path(tempfile.mkdtemp(prefix="iraid-soak-", dir=memory if memory.is_dir() else None))
        self.sockets = Path(tempfile.mkdtemp(prefix="iraid-soak-"))
        self.farm = TargetFarm(self.disks, MEMBERS[self.level] + 1, MEMBER_BYTES).__enter__()
        self.gateway = Gateway(self.folder / "gateway", self.sockets)
        self.gateway.start()
        self.roles, self.free = list(range(MEMBERS[self.level])), MEMBERS[self.level]
        self.gateway.create(
            "soak", [self.farm.member(number) for number in self.roles], self.level, "16K", "--give-up", "2"
        )
        self.gateway.configure("soak", assembly_wait_seconds=2)
        if self.log != LOGS[0]:
            self.gateway.must("set", "soak", "--log", self.log)
        self.gateway.must("stop", "soak")
        self._serve()
        self.shadow = Shadow(self.handle.get_size())
        self._new_load()

    def _serve(self) -> None:
        self.served = self.gateway.serve("soak")
        self.handle = self.served.connect()

    def _new_load(self) -> None:
        self.loads += 1
        self.load = Load(self.handle, self.shadow, seed=self.seed * 1000 + self.loads)

    # What the driver asks

    def mark(self) -> None:
        self.load.stats = Stats()

    def tend(self) -> str:
        return ""

    def longest_stall(self) -> float:
        return self.load.stats.longest_seconds

    def counts(self) -> tuple[int, int]:
        return self.verified, self.written + self.written_by_this

    def status(self) -> dict:
        status = self.served.status()
        self.written_by_this = sum(member["written_bytes"] for member in status["members"])
        return status

    def work(self, until: Callable[[], object], what: str, seconds: float = SETTLE_SECONDS_MAX) -> None:
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                raise Wrong(f"waited {seconds:.0f} s for {what}; the volume's status: {self.status()}")
            self.load.run(50)
            self.check()

    def last(self, chance: random.Random, low: float, high: float) -> None:
        self.load.run(50, seconds_min=chance.uniform(low, high))
        self.check()

    def check(self) -> None:
        try:
            self.load.check(may_fail=MAY_FAIL)
        except AssertionError as wrong:
            raise Wrong(str(wrong)) from None

    def settle(self) -> None:
        """A member that hung is noticed only when the load has asked it, and one that is back may be evicted yet,
        for its cache: so rest must last while the load goes on."""
        while True:
            self.work(lambda: at_rest(self.status()), "all members to be in sync")
            self.load.run(50, seconds_min=REST_SECONDS)
            self.check()
            if at_rest(self.status()):
                break
        self._verify()

    def _verify(self) -> None:
        content = read_all(self.handle)
        self.verified += len(content)
        try:
            self.shadow.check(content)
        except AssertionError as wrong:
            raise Wrong(str(wrong)) from None

    def finish(self) -> None:
        self._verify()
        self.scrub(random.Random(0))
        self.served.stop()

    def close(self, good: bool = False) -> None:
        if self.gateway is not None:
            self.gateway.close()
        if self.farm is not None:
            self.farm.close()
            if not good:
                shutil.copytree(self.disks, self.folder / "targets", dirs_exist_ok=True)
            shutil.rmtree(self.disks, ignore_errors=True)
            shutil.rmtree(self.sockets, ignore_errors=True)

    # Faults

    def killed(self, chance: random.Random) -> None:
        number = chance.choice(self.roles)
        self.farm.kill(number)
        self.last(chance, 0.1, 4)
        self.farm.restart(number)

    def stopped(self, chance: random.Random) -> None:
        number = chance.choice(self.roles)
        self.farm.stop(number)
        self.last(chance, 0.1, 6)
        self.farm.cont(number)

    def wiped(self, chance: random.Random) -> None:
        role = chance.randrange(len(self.roles))
        old, new = self.roles[role], self.free
        self.farm.kill(old)
        self.work(lambda: self.status()["state"] == "degraded", "the volume to go on without a member")
        self.farm.resize_file(old, 0)
        self.farm.resize_file(old, MEMBER_BYTES)
        self.farm.restart(old)
        call(
            self.served.control,
            "member.replace",
            name="soak",
            member=self.farm.member(old),
            device=self.farm.member(new),
        )
        self.roles[role], self.free = new, old

    def gateway_killed(self, chance: random.Random) -> None:
        self.load.run_until_broken(chance.randint(20, 300), self.served.process.kill)
        if self.load.stats.wrong:
            raise Wrong(str(self.load.stats.wrong[:3]))
        stats = self.load.stats
        self.written, self.written_by_this = self.written + self.written_by_this, 0
        self._serve()
        content = read_all(self.handle)
        self.verified += len(content)
        try:
            self.shadow.check_and_settle(content)
        except AssertionError as wrong:
            raise Wrong(f"after the gateway was killed: {wrong}") from None
        self._new_load()
        self.load.stats.longest_seconds = stats.longest_seconds

    def two_away(self, chance: random.Random) -> None:
        first, second = chance.sample(self.roles, 2)
        dead = chance.random() < 0.5
        seconds = chance.uniform(1, 6)

        def away() -> None:
            for number in (first, second):
                self.farm.stop(number)
            for number in (first, second) if dead else ():
                self.farm.kill(number)
            time.sleep(seconds)  # how long the fault lasts; the requests in flight wait
            for number in (first, second):
                self.farm.restart(number) if dead else self.farm.cont(number)

        self.load.at(50, away).run(100)
        self.check()

    def scrub(self, chance: random.Random) -> None:
        call(self.served.control, "scrub.start", name="soak")
        self.work(lambda: not self.status()["scrub"]["active"], "the scrub's end")
        mismatches = self.status()["scrub"]["mismatches"]
        if mismatches:
            raise Wrong(f"a scrub found {mismatches} rows whose parity did not fit")

    def flush(self, chance: random.Random) -> None:
        self.load.flush_share, before = 0.3, self.load.flush_share
        self.last(chance, 0.2, 1)
        self.load.flush_share = before


def main(words: list[str]) -> int:
    minutes, seed, commit, date, level, log, _, result, folder = words
    run = Run(date, commit, int(seed), "native", level=int(level), log=log)
    say(f"soak: {minutes} minutes without a kernel, level {level}, log = {log}, commit {commit}, seed {seed}")
    good = drive(lambda: NativeStage(Path(folder), run), run, float(minutes), Path(result))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
