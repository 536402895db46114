"""The soak's stage inside the lab: targets behind links, tcmu-runner, LIO, open-iscsi, fio and the prober.

Started by cli.py as a program, with MINUTES SEED COMMIT DATE LEVEL LOG HOSTILE RESULT
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from iraid_dev.stack.command_window import window_of
from iraid_dev.stack.faults import FAULTS, FaultFarm, Mark, Watch
from iraid_dev.stack.gateway import Gateway, attempt_iraid, iraid
from iraid_dev.stack.runner import Runner
from iraid_dev.stack.tools import StackError

from .driver import LOGS, MEMBERS, Wrong, at_rest, drive, say
from .report import Run

MEMBER_BYTES = 96 << 20
SETTLE_SECONDS_MAX = 400.0
POLL_SECONDS = 0.2
REST_SECONDS = 6.0  # longer than it takes to give a silent member up
TOLD_SECONDS_MAX = 75  # a lost cache is told to flushes for 60 s
SYSRQ = Path("/proc/sysrq-trigger")
PROBES = 20  # that the load must make before and after the gateway is killed


class LabStage:
    def __init__(self, run: Run) -> None:
        self.level, self.log = run.level, run.log
        self.watch: Watch | None = None
        self.gateway: Gateway | None = None
        self.caches_lost = False  # two at once, since the last flush that succeeded
        self.farm: FaultFarm | None = None
        self.begin: Mark | None = None
        self.faults: dict[str, tuple[int, Callable[[random.Random], None]]] = {
            "member killed": (4, self.killed), "member stopped": (3, self.stopped),
            "member cut off": (3, self.cut), "member slowed": (2, self.slowed),
            "member wiped and replaced": (3, self.wiped), "gateway killed": (3, self.gateway_killed),
            "gateway killed without a member": (2, self.gateway_killed_degraded),
            "two members away": (2, self.two_away), "scrub": (2, self.scrub), "flush": (1, self.flush),
        }  # fmt: skip
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        log = Path(os.environ["IRAID_LAB_STATE"]) / "log"
        self.farm = self.make_farm(MEMBERS[self.level] + 1).__enter__()
        runner = Runner(log)
        runner.start()
        self.gateway = Gateway(runner)
        self.roles = list(range(MEMBERS[self.level]))  # target by role
        self.free = len(self.roles)  # one that is empty
        self.volume = self.gateway.create(self.level, [self.farm.member(number) for number in self.roles])
        if self.log != LOGS[0]:
            iraid("set", self.volume.name, "--log", self.log)
        self.prepare()
        self.watch = Watch(self.volume.login(), size_bytes=8 << 20, rate="3m")
        self.mark()

    def make_farm(self, count: int) -> FaultFarm:
        return FaultFarm(Path("/dev/shm/soak"), count, MEMBER_BYTES)

    def prepare(self) -> None:
        """What is to be done to the volume before anybody uses it."""

    # What the driver asks

    def mark(self) -> None:
        self.begin = self.watch.mark()

    def longest_stall(self) -> float:
        return self.watch.since(self.begin).stall_seconds

    def counts(self) -> tuple[int, int]:
        return self.watch.fio.verified, self.watch.fio.written

    def settle(self) -> None:
        """A member that hung is noticed only when the load has asked it, and one that is back may be evicted yet,
        for its cache: so rest must last while the load goes on."""
        while True:
            self.wait(lambda: at_rest(self.status()), "all members to be in sync", SETTLE_SECONDS_MAX)
            end, rounds = time.monotonic() + REST_SECONDS, self.watch.prober.rounds + PROBES
            self.wait(
                lambda: not at_rest(self.status()) or (time.monotonic() > end and self.watch.prober.rounds >= rounds),  # noqa: B023
                "the load to go on",
                200,
            )
            if at_rest(self.status()):
                return

    def tend(self) -> str:
        return ""

    def finish(self) -> None:
        self.watch.fio.close()
        self.check()
        status, text = attempt_iraid("scrub", "start", self.volume.name, "--wait")
        if status != 0:
            raise Wrong(f"the last scrub ended with status {status}: {text}")

    def close(self, good: bool = False) -> None:
        if self.watch is not None:
            self.watch.__exit__(RuntimeError)
        if self.gateway is not None:
            if self.gateway.runner.process is None:
                self.gateway.runner.start()
            try:
                self.gateway.remove(list(self.gateway.volumes))
            finally:
                self.gateway.runner.stop()
        if self.farm is not None:
            self.farm.close()

    # Waiting

    def check(self) -> None:
        errors = [text for _, text in (*self.watch.prober.errors, *self.watch.fio.errors)]
        if errors:
            raise Wrong("; ".join(errors))

    def status(self) -> dict:
        return self.volume.status()

    def wait(self, reached: Callable[[], object], what: str, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not reached():
            self.check()
            if time.monotonic() > end:
                show_blocked_tasks()
                raise Wrong(
                    f"waited {seconds:.0f} s for {what}; {self.window_text()}; the volume's status: {self.status()}"
                )
            time.sleep(POLL_SECONDS)
        self.check()

    def window_text(self) -> str:
        """Of the load's session."""
        try:
            window = window_of(self.volume.iqn)
        except (OSError, StackError) as error:
            return f"the load's session: {error}"
        return f"{window.left} of {window.granted} places left in the window of the load's session"

    def last(self, chance: random.Random, low: float, high: float) -> None:
        """For as long as a fault is to last."""
        end = time.monotonic() + chance.uniform(low, high)
        self.wait(lambda: time.monotonic() > end, "time to pass", high + 60)

    def wait_degraded(self) -> None:
        self.wait(lambda: self.status()["state"] == "degraded", "the volume to go on without a member")

    def wait_probes(self) -> None:
        """The load runs, or runs again."""
        rounds = self.watch.prober.rounds + PROBES
        self.wait(lambda: self.watch.prober.rounds >= rounds, "the load to run", 200)

    # Faults

    def _one(self, chance: random.Random, fault: str, low: float, high: float) -> None:
        number = chance.choice(self.roles)
        FAULTS[fault].begin(self.farm, number)
        self.last(chance, low, high)
        FAULTS[fault].end(self.farm, number)

    def killed(self, chance: random.Random) -> None:
        self._one(chance, "kill", 0.1, 8)

    def stopped(self, chance: random.Random) -> None:
        self._one(chance, "hang", 0.5, 22)

    def cut(self, chance: random.Random) -> None:
        self._one(chance, "cut", 0.5, 15)

    def slowed(self, chance: random.Random) -> None:
        self._one(chance, "slow", 3, 15)

    def wiped(self, chance: random.Random) -> None:
        role = chance.randrange(len(self.roles))
        old, new = self.roles[role], self.free
        self.farm.kill(old)
        self.wait_degraded()
        self.farm.wipe(old)
        self.farm.restart(old)
        place = self._place_of(old)
        iraid("replace", self.volume.name, place, self.farm.member(new))
        self.roles[role], self.free = new, old

    def _place_of(self, number: int) -> str:
        return self.farm.member(number)

    def _kill_gateway(self) -> None:
        self.caches_lost = True
        self.gateway.runner.kill()
        self.gateway.runner.start()

    def gateway_killed(self, chance: random.Random) -> None:
        self.wait_probes()
        self._kill_gateway()
        self.wait_probes()

    def gateway_killed_degraded(self, chance: random.Random) -> None:
        """The chunks that nobody knows then were never acknowledged, so the load doesn't read them before it
        has written them again; but fio's verification may: so the load rests while the gateway dies."""
        number = chance.choice(self.roles)
        self.farm.kill(number)
        self.wait_degraded()
        self.wait(lambda: self.status()["state"] == "degraded", "a member to be out")
        self._rest()
        self._kill_gateway()
        self._resume()
        self.wait_probes()
        self.farm.restart(number)

    def _rest(self) -> None:
        """No write in flight, and no region dirty."""
        self.watch.pause()
        self.wait(lambda: self.status()["regions"]["dirty"] == 0, "all marks to be cleared")

    def _resume(self) -> None:
        self.watch.resume()

    def two_away(self, chance: random.Random) -> None:
        """Longer than it takes to notice, shorter than I/O waits for them."""
        self.caches_lost = True
        first, second = chance.sample(self.roles, 2)
        for number in (first, second):  # silent both, before either is dead
            self.farm.stop(number)
        dead = chance.random() < 0.5
        for number in (first, second) if dead else ():
            self.farm.kill(number)
        self.last(chance, 2, 12)
        for number in (first, second):
            self.farm.restart(number) if dead else self.farm.cont(number)

    def scrub(self, chance: random.Random) -> None:
        iraid("scrub", "start", self.volume.name)
        self.wait(lambda: not self.status()["scrub"]["active"], "the scrub's end", SETTLE_SECONDS_MAX)
        mismatches = self.status()["scrub"]["mismatches"]
        if mismatches:
            raise Wrong(f"a scrub found {mismatches} rows whose parity did not fit")

    def flush(self, chance: random.Random) -> None:
        """Caches of two members may have been lost since the last one: flushes say so for a minute, then no more."""
        disk = os.open(self.volume.disk.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if self._flushed(disk):
                return
            if not self.caches_lost:
                raise Wrong("a flush failed though no two members were away, nor the gateway, since the last one")
            self.wait(lambda: self._flushed(disk), "flushes to succeed again", TOLD_SECONDS_MAX)
        finally:
            os.close(disk)

    def _flushed(self, disk: int) -> bool:
        try:
            os.fsync(disk)
        except OSError:
            return False
        self.caches_lost = False
        return True


def show_blocked_tasks() -> None:
    """Into the kernel's log, which a run that is not clean keeps."""
    with contextlib.suppress(OSError):
        SYSRQ.write_text("w")


def stage(run: Run) -> LabStage:
    if run.hostile:
        from .hostile import HostileStage  # which is made of this one

        return HostileStage(run)
    return LabStage(run)


def main(words: list[str]) -> int:
    minutes, seed, commit, date, level, log, hostile, result = words
    run = Run(date, commit, int(seed), "lab", level=int(level), log=log, hostile=hostile == "hostile")
    say(f"soak: {minutes} minutes in the lab, level {level}, log = {log}, {hostile}, commit {commit}, seed {seed}")
    return 0 if drive(lambda: stage(run), run, float(minutes), Path(result)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
