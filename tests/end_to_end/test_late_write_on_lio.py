"""A write that LIO holds while it closes the session it came by: it must land before another gateway uses the member.

Neither PREEMPT AND ABORT nor LOGICAL UNIT RESET waits for it.  A device that is suspended holds the write."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rtslib_fb as rtslib
from backend_probe import SECOND, Probe

from iraid_dev.stack.lio_targets import LioTargets
from iraid_dev.stack.private_gateway import wait_until
from iraid_dev.stack.tools import run

pytestmark = pytest.mark.timeout(180)
SIZE_BYTES = 64 << 20
OLD, LATE, NEW = 1, 2, 3  # seeds
HELD = "iraid-held"


class HeldTarget(LioTargets):
    """One target, whose block device can be told to hold what it is given."""

    def _storage(self, number: int) -> Any:
        with self.backing(number).open("ab") as backing:
            os.ftruncate(backing.fileno(), self.size_bytes)
        self.loop = run("losetup", "--find", "--show", self.backing(number)).strip()
        run("dmsetup", "create", HELD, "--table", f"0 {self.size_bytes // 512} linear {self.loop} 0")
        run("dmsetup", "mknodes")
        return rtslib.BlockStorageObject(HELD, f"/dev/mapper/{HELD}")

    def hold(self) -> None:
        run("dmsetup", "suspend", "--noflush", "--nolockfs", HELD)

    def go_on(self) -> None:
        run("dmsetup", "resume", HELD)

    def seed(self) -> int:
        """With which the first words on the disk itself were written."""
        with self.backing(0).open("rb") as backing:
            return backing.read(8)[6]

    def commands(self) -> int:
        """That have come by now."""
        group = Path(f"/sys/kernel/config/target/iscsi/{self.iqn(0)}/tpgt_1/lun/lun_0/statistics/scsi_tgt_port")
        return int((group / "in_cmds").read_text())

    def stop(self) -> None:
        super().stop()
        subprocess.run(["dmsetup", "remove", "--retry", HELD], check=False)
        subprocess.run(["losetup", "--detach", self.loop], check=False)


@pytest.fixture
def target(memory_folder: Path) -> Iterator[HeldTarget]:
    for module in ("dm-mod", "loop"):
        run("modprobe", module)
    with HeldTarget(memory_folder / "held", 1, SIZE_BYTES) as made:
        try:
            yield made
        finally:
            with contextlib.suppress(Exception):
                made.go_on()


def closing() -> bool:
    """Whether LIO waits for a command of a session that it closes."""
    for stack in Path("/proc").glob("[0-9]*/stack"):
        if "transport_generic_free_cmd" in subprocess.run(["cat", stack], capture_output=True, text=True).stdout:
            return True
    return False


def test_a_write_of_a_killed_gateway_lands_before_another_one_has_the_member(target: HeldTarget, start) -> None:
    first = Probe(target.member(0), "key=aa11", "isid=1", "deadline_ms=60000")
    first.open()
    assert first.ask(f"write 0 4096 {OLD}") == "write 0 4096 0"
    target.hold()
    before = target.commands()
    first.say(f"write 0 4096 {LATE}")
    wait_until(lambda: target.commands() > before, "LIO to have the write")
    first.process.kill()
    first.process.wait()
    wait_until(closing, "LIO to close its session")

    second = start(target.member(0), *SECOND, "take_over_ms=100000", "deadline_ms=30000", "connect_ms=3000")
    closed = second.ask("open")
    assert closed.startswith("closed ETIMEDOUT") and "the wait for the end of the session" in closed, closed
    assert target.seed() == OLD
    target.go_on()
    while not (opened := second.ask("open")).startswith("opened "):
        assert opened.startswith("closed "), opened  # the log-in that it gave up is ending still
    assert opened.endswith("taken=1 predecessor=aa11")
    assert target.seed() == LATE
    assert second.ask(f"write 0 4096 {NEW}") == "write 0 4096 0"
    assert second.ask("flush") == "flush 0 0 0"
    assert target.seed() == NEW
