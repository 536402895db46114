"""What a volume could not write, or lost with the caches of its members, fails at the program that wrote it.

Linux's SCSI layer repeats some errors by itself, and who repeats a flush that tells of lost caches for long enough hears GOOD.
And dm-multipath takes some for the path's, and goes from path to path."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.tools import attempt, run, wait_for

pytestmark = pytest.mark.timeout(280)
MIB = 1 << 20
SECTOR = b"acknowledged, not flushed".ljust(512, b"!")
WRITTEN = SECTOR * 256  # chunks of two members


def direct(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_DIRECT)


def write(fd: int) -> int:
    """0, or why it failed."""
    with mmap.mmap(-1, len(WRITTEN)) as buffer:
        buffer.write(WRITTEN)
        try:
            assert os.pwrite(fd, buffer, 8 * MIB) == len(WRITTEN)
        except OSError as error:
            return error.errno
    return 0


def write_to(path: str) -> int:
    fd = direct(path)
    try:
        return write(fd)
    finally:
        os.close(fd)


def lose_power(targets: TargetFarm, number: int) -> None:
    """The target is gone, and with it what its cache held."""
    targets.kill(number)
    backing = targets.backing(number)
    content = backing.read_bytes()
    with backing.open("r+b") as file:
        at = content.find(SECTOR)
        assert at >= 0
        while at >= 0:
            file.seek(at)
            file.write(bytes(len(SECTOR)))
            at = content.find(SECTOR, at + len(SECTOR))
    targets.restart(number)


def commands_sent(disk: Disk) -> int:
    return int(Path("/sys/block", Path(disk.path).name, "device/iorequest_cnt").read_text(), 16)


def test_fsync_fails_when_caches_took_along_what_was_acknowledged(gateway, farm):
    targets = farm(2)
    volume = gateway.create(0, targets.members())
    disk = volume.login()
    fd = direct(disk.path)
    try:
        assert write(fd) == 0
        for number in range(2):
            lose_power(targets, number)
        volume.wait_until("active")
        before = commands_sent(disk)
        with pytest.raises(OSError, match="Remote I/O error") as failed:
            os.fsync(fd)
        assert failed.value.errno == errno.EREMOTEIO
        assert commands_sent(disk) == before + 1, "the flush was repeated"
        with mmap.mmap(-1, len(WRITTEN)) as buffer:
            os.preadv(fd, [buffer], 8 * MIB)
            assert buffer[:].count(SECTOR) == 0  # or nothing was shown
    finally:
        os.close(fd)


@pytest.fixture
def one_path() -> Iterator[object]:
    """one_path(disk): a multipath device that waits for a path when it has none, as multipathd would make it."""
    name = "iraid-one-path"

    def make(disk: Disk) -> str:
        for module in ("dm-multipath", "dm-round-robin"):
            status, text = attempt("modprobe", module)
            if status != 0:
                pytest.skip(f"this kernel has no {module}: {text}")
        run(
            "dmsetup",
            "create",
            name,
            "--table",
            f"0 {disk.size_bytes // 512} multipath 1 queue_if_no_path 0 1 1 round-robin 0 1 1 {disk.path} 1",
        )
        run("dmsetup", "mknodes")
        return f"/dev/mapper/{name}"

    yield make
    attempt("dmsetup", "message", name, "0", "fail_if_no_path")
    attempt("dmsetup", "remove", "--retry", name)


def test_a_write_that_the_volume_refuses_fails_and_costs_multipath_no_path(gateway, farm, one_path):
    """Level 0 can't do without the member that refuses it; no other path would lead to more."""
    targets = farm(2)
    path = one_path(gateway.create(0, targets.members()).login())
    assert write_to(path) == 0
    targets.set_readonly(0)
    told = []
    writer = threading.Thread(target=lambda: told.append(write_to(path)), daemon=True)
    writer.start()
    wait_for(lambda: told, "the write to fail", seconds=15)
    writer.join()
    assert told == [errno.EREMOTEIO]
    assert run("dmsetup", "status", path).split()[-2:] == ["A", "0"]  # the path's state, and how often it failed
    targets.set_readonly(0, False)
    assert write_to(path) == 0
