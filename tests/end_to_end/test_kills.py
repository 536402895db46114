"""tcmu-runner and a target are killed in the same instant, again and again, under two loads that verify.

    fio       goes on over the kill: the initiator repeats what was answered BUSY. Verifies by crc32c, as it goes
              and at the end of each run
    ledger    another session, which is switched off with the kill: what was in flight is not repeated. Verifies
              all of its part of the disk after each kill, and reads fio's part, too

IRAID_KILLS: how many of each case, half of them with each size of a chunk; 100 unless it says otherwise.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from exported_lun import exported_volume

from iraid_dev.places import commit
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.faults import FioLoop
from iraid_dev.stack.gateway import Gateway, Volume, attempt_iraid, iraid
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.ledger import BLOCK_BYTES, Ledger
from iraid_dev.stack.tools import PATIENCE, wait_for

CHUNKS = ("4K", "64K")
KILLS = int(os.environ.get("IRAID_KILLS", "100")) // len(CHUNKS)
pytestmark = [pytest.mark.long, pytest.mark.timeout((300 + 30 * KILLS) * PATIENCE)]

MEMBERS = 4
MEMBER_BYTES = 16 << 20
FIO_BYTES, LEDGER_BYTES = 2 << 20, 10 << 20
LOAD_SECONDS = (0.2, 1.2)  # until the kill
OUT = 0  # the target that is not there when one has to be out


@dataclass(frozen=True)
class Case:
    level: int
    log: str
    out: bool  # a member is out already
    dies: bool  # one dies with the runner

    def __str__(self) -> str:
        out = ", a member out" if self.out else ""
        return f"level {self.level}, log = {self.log}{out}, killed: the runner{' and a target' if self.dies else ''}"


CASES = [
    Case(5, "degraded", out=True, dies=False),
    Case(6, "degraded", out=True, dies=True),
    Case(5, "always", out=False, dies=True),
    Case(6, "always", out=False, dies=True),
]


@dataclass
class Tally:
    kills: int = 0
    blocks: int = 0  # verified
    wrong: list[str] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)

    def good(self) -> bool:
        return not self.wrong and not self.unreadable

    def line(self) -> str:
        return (
            f"{self.kills} kills, {self.blocks} blocks verified, {len(self.wrong)} wrong, "
            f"{len(self.unreadable)} unreadable; {(time.monotonic() - self.begin) / max(1, self.kills):.1f} s each; "
            f"{time.strftime('%Y-%m-%d')}, commit {commit()}"
        )


class Stage:
    """A volume under both loads."""

    def __init__(self, case: Case, gateway: Gateway, farm: TargetFarm, volume: Volume, disks: list[Disk]):
        self.case, self.runner, self.farm, self.volume = case, gateway.runner, farm, volume
        self.chance = random.Random(f"{case}")
        self.there = [number for number in range(MEMBERS) if not (case.out and number == OUT)]
        self.tally = Tally()
        self.ledger = Ledger(disks[1], FIO_BYTES, LEDGER_BYTES, seed=case.level)
        self.fio = FioLoop(disks[0], FIO_BYTES, rate="1g")
        self.fio.pause()

    def close(self) -> None:
        if self.runner.process is None:
            self.runner.start()
        self.ledger.close()
        self.fio.kill()

    def round(self) -> None:
        wait_for(self._ready, f"volume {self.volume.name} to be ready for a crash", 90)
        self.fio.resume()
        self.ledger.start()
        time.sleep(self.chance.uniform(*LOAD_SECONDS))
        victim = self._kill()
        self.runner.start()
        self.ledger.stop()
        self._look()
        if victim is not None:
            self.farm.restart(victim)
        self.fio.pause()
        self._count_fio()

    def _ready(self) -> bool:
        status = self.volume.status()
        there = [member for member in status["members"] if (member["state"], member["link"]) == ("in sync", "open")]
        logs = status["log"]["open"] or self.case.log == "off"
        return len(there) == len(self.there) and status["regions"]["suspect"] == 0 and logs

    def _kill(self) -> int | None:
        """In either order, with nothing between them."""
        victim = self.chance.choice(self.there) if self.case.dies else None
        dying = [self.runner.process] + ([] if victim is None else [self.farm.targets[victim].process])
        self.chance.shuffle(dying)
        for process in dying:
            process.kill()
        self.tally.kills += 1
        self.runner.kill()
        if victim is not None:
            self.farm.kill(victim)
        self.ledger.switch_off()
        return victim

    def _look(self) -> None:
        found = self.ledger.check()
        self.tally.blocks += found.blocks
        self.tally.wrong += found.wrong
        self.tally.unreadable += found.unreadable

    def _count_fio(self) -> None:
        self.tally.blocks += self.fio.verified // BLOCK_BYTES
        self.fio.verified = 0
        self.tally.wrong += [text for _, text in self.fio.errors]


@contextmanager
def staged(case: Case, chunk: str, gateway: Gateway, farm: TargetFarm) -> Iterator[Stage]:
    with exported_volume(gateway, case.level, farm.members(), "--chunk", chunk) as lun:
        volume = gateway.volumes[-1]
        set_log(volume, case.log)
        volume.wait_resynced()
        stage = Stage(case, gateway, farm, volume, [lun.login(0), lun.login(1)])
        try:
            if case.out:
                farm.kill(OUT)
            yield stage
        finally:
            stage.close()


def set_log(volume: Volume, log: str) -> None:
    status, text = attempt_iraid("set", volume.name, "--log", log)
    if status != 0:
        pytest.skip(f"no log = {log}: {text}")
    # A start is not to wait 10 s for the target that was killed.
    file = Path("/etc/iraid/volumes", f"{volume.name}.conf")
    file.write_text(file.read_text() + "assembly_wait = 1s\n")


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_block_is_wrong_or_unreadable(running_gateway, farm, case, chunk, capsys):
    with staged(case, chunk, running_gateway, farm(MEMBERS, size_bytes=MEMBER_BYTES)) as stage:
        try:
            while stage.tally.kills < KILLS and stage.tally.good():
                stage.round()
        finally:
            with capsys.disabled():
                print(f"\n    {case}, chunk {chunk}: {stage.tally.line()}")
        assert (stage.tally.wrong, stage.tally.unreadable) == ([], [])
        assert stage.ledger.unanswered > KILLS, "hardly anything was in flight"
        assert stage.volume.status()["lost"]["bytes"] == 0
        if case.out:
            stage.farm.restart(OUT)
        stage.volume.wait_until("active")
        iraid("scrub", "start", stage.volume.name, "--wait")


@pytest.mark.parametrize("case", [replace(case, log="off") for case in CASES if case.out], ids=str)
def test_without_the_log_blocks_are_unreadable(running_gateway, farm, case):
    """So that it is known that the loads can tell."""
    with staged(case, "4K", running_gateway, farm(MEMBERS, size_bytes=MEMBER_BYTES)) as stage:
        for _ in range(10):
            stage.round()
            if stage.tally.unreadable:
                break
        assert stage.tally.unreadable
