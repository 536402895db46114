"""The disk under the state folder is full, and a member goes: that is no outage."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Process

BLOCK = 4096


def small_disk(folder: Path, options: str = "size=128k") -> tuple[str, ...]:
    """Words before a program's: its own small disk, in a mount namespace, with what the folder holds."""
    return (
        "unshare", "--mount", "sh", "-ec",
        f'rm -rf "$0.copy"; cp -a "$0" "$0.copy"; mount -t tmpfs -o {options},mode=700 tmpfs "$0"; '
        'cp -a "$0.copy/." "$0"; exec "$@"',
        str(folder),
    )  # fmt: skip


def fill(process: Process, folder: Path) -> Path:
    """Not one byte is left, nor room for a file; the file that takes it all."""
    filler = Path(f"/proc/{process.pid}/root{folder}/filler")
    with pytest.raises(OSError) as full, filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(BLOCK))
    assert full.value.errno == errno.ENOSPC
    return filler


@pytest.mark.parametrize("level, count", [(1, 2), (10, 4)])
def test_a_member_goes_while_the_disk_is_full(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int
) -> None:
    """On these levels an eviction waits until this gateway has its epoch on record."""
    farm = make_farm(count)
    gateway.create("v0", farm.members(), level, "64K", "--give-up", "2")
    gateway.must("stop", "v0")
    with gateway.serve("v0", prefix=small_disk(gateway.state)) as volume:
        handle = volume.connect()
        filler = fill(volume.process, gateway.state)
        epoch = volume.status()["epoch"]
        farm.kill(1)
        written = os.urandom(BLOCK)
        handle.pwrite(written, 0)
        assert handle.pread(BLOCK, 0) == written
        status = volume.wait_status(lambda status: status["state"] == "degraded", "the eviction")
        assert status["epoch"] > epoch
        kept = next((filler.parent / "epochs").glob("*.kept")).read_text()
        assert f" {status['epoch']} " in kept
        assert "recorded" not in status["reason"]
