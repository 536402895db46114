"""Levels 6 and 10 under a file system of the stock initiator: members are killed, return, and others are killed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iraid_dev.stack.tools import run, wait_for

MIB = 1 << 20
FILES = 8


@contextmanager
def mounted(device: str, folder: Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    run("mount", device, folder)
    try:
        yield folder
    finally:
        run("umount", folder)


def write_files(folder: Path, seed: int, count: int = FILES) -> dict[str, str]:
    """Files of odd sizes, synced; name and digest of each."""
    rng, digests = random.Random(seed), {}
    for number in range(count):
        content = rng.randbytes(rng.randrange(MIB // 8, 2 * MIB))
        name = f"file{seed}-{number}"
        (folder / name).write_bytes(content)
        digests[name] = hashlib.sha256(content).hexdigest()
    run("sync", "-f", folder)
    return digests


def check_files(folder: Path, digests: dict[str, str]) -> None:
    for name, digest in digests.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def wait_states(volume: object, states: list[str]) -> None:
    def reached() -> bool:
        return [member["state"] for member in volume.status()["members"]] == states

    wait_for(reached, f"members of {volume.name} to be {states}", 30)


# Members lost in the midst of it, and who is lost when those are back.
@pytest.mark.parametrize(
    "level, count, lost, then",
    [(6, 5, (0, 3), (1, 2)), pytest.param(10, 4, (1, 2), (0, 3), marks=pytest.mark.long)],
    ids=["level 6", "level 10"],
)
@pytest.mark.timeout(400)
def test_a_file_system_outlives_the_loss_of_two_members_twice(
    gateway, farm, memory_folder, tmp_path, level, count, lost, then
):
    targets = farm(count, size_bytes=64 * MIB)
    volume = gateway.create(level, targets.members())
    volume.wait_resynced()
    disk = volume.login()
    # tgt makes zeros block by block, which takes minutes in a slow kernel, and is no part of this.
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,nodiscard", disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        digests = write_files(folder, 1)
        for number in lost:
            targets.kill(number)
        digests |= write_files(folder, 2)
        check_files(folder, digests)
        wait_states(volume, ["faulty" if number in lost else "in sync" for number in range(count)])
    # Nothing comes from the page cache from here on.
    run("blockdev", "--flushbufs", disk.path)
    run("e2fsck", "-fn", disk.path)
    for number in lost:
        targets.restart(number)
    volume.wait_until("active", seconds=90)
    volume.wait_resynced()
    for number in then:
        targets.kill(number)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        check_files(folder, digests)
        digests |= write_files(folder, 3)
        check_files(folder, digests)
        wait_states(volume, ["faulty" if number in then else "in sync" for number in range(count)])
    run("e2fsck", "-fn", disk.path)
