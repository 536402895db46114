"""Members become larger while the volume is in use; after `iraid grow` initiators have the room, nothing is lost."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import rtslib_fb as rtslib
from exported_lun import exported_volume
from test_levels import mounted
from test_lio_export import SAVED
from test_member_loss import STALL_SECONDS_MAX

from iraid_dev.stack.gateway import Volume, attempt_iraid, iraid
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.lio_targets import OPEN_TO_ALL
from iraid_dev.stack.load import AckWriter, Fio
from iraid_dev.stack.tools import free_port, run, wait_for

KIB, MIB = 1 << 10, 1 << 20
OLD, NEW = 64 * MIB, 128 * MIB  # of each member
CONFIGFS = Path("/sys/kernel/config/target/core")
RUNNER_LOG = Path("/var/log/tcmu-runner.log")


def size_attribute(name: str) -> Path:
    (path,) = CONFIGFS.glob(f"user_*/{name}/attrib/dev_size")
    return path


def set_lun_size(name: str, size_bytes: int) -> None:
    """In one write: Python's text files write again when they are closed."""
    file = os.open(size_attribute(name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(size_bytes).encode())
    finally:
        os.close(file)


def attentions() -> int:
    """How often this kernel, as the initiator, was told by UNIT ATTENTION 2A/09."""
    return run("dmesg").count("Capacity data has changed")


def look_again(disk: Disk, size_bytes: int) -> None:
    """What the administrator of a Linux initiator does."""
    run("iscsiadm", "-m", "node", "-T", disk.iqn, "-R")
    wait_for(lambda: disk.size_bytes == size_bytes, f"{disk.path} to have {size_bytes} bytes, not {disk.size_bytes}")


def grow(volume: Volume) -> dict:
    return json.loads(iraid("grow", volume.name, "--json"))


def saved_size(volume: Volume) -> int:
    (storage,) = (s for s in json.loads(SAVED.read_text())["storage_objects"] if s["name"] == volume.name)
    assert storage["attributes"]["dev_size"] == storage["size"]
    return storage["size"]


# --- under load ---


@pytest.mark.parametrize(
    ("level", "count"),
    [pytest.param(0, 3, marks=pytest.mark.long), (5, 4), pytest.param(10, 4, marks=pytest.mark.long)],
    ids=["level 0", "level 5", "level 10"],
)
@pytest.mark.timeout(400)
def test_members_that_grew_are_used_without_an_interruption(
    gateway, growing_targets, memory_folder, level, count, capsys
):
    """And all that was written, before and after, in the old part and the new, outlives the runner, a restore of LIO's
    configuration and the loss of a member."""
    targets = growing_targets(count, OLD)
    volume = gateway.create(level, targets.members())
    disk = volume.login()
    old_bytes = disk.size_bytes
    told = attentions()
    writer = AckWriter(disk, memory_folder / "journal", slot_bytes=20 * KIB, slots=1024, seconds=8, depth=4)

    for number in range(count):
        targets.grow(number, NEW)
    done = grow(volume)

    new_bytes = done["size_bytes"]
    assert done["before_bytes"] == old_bytes and new_bytes > 1.8 * old_bytes
    assert [m["before_bytes"] for m in done["members"]] == [OLD] * count
    assert [m["size_bytes"] for m in done["members"]] == [NEW] * count
    assert done["luns"] == [
        {"storage_object": volume.name, "iqns": [volume.iqn], "before_bytes": old_bytes, "size_bytes": new_bytes}
    ]
    assert done["initiators"] and saved_size(volume) == new_bytes == volume.status()["size_bytes"]
    assert wait_for(lambda: attentions() - told, "the initiator to be told") == 1
    look_again(disk, new_bytes)
    # From before the old end to the last block, while the writer goes on.
    shape = dict(rw="write", bs="64k", iodepth=8, offset=old_bytes - MIB, size=16 * MIB)
    last = dict(rw="write", bs="4k", offset=new_bytes - MIB, size=MIB)
    for part in (shape, last):
        Fio(disk, **part).result()
    result = writer.result()
    with capsys.disabled():
        print(
            f"\n    grown from {old_bytes >> 20} to {new_bytes >> 20} MiB: longest stall of a write "
            f"{result['longest_seconds']:.1f} s, {result['writes']} writes acknowledged"
        )
    assert result["errors"] == [] and result["longest_seconds"] < STALL_SECONDS_MAX

    def check() -> None:
        for part in (shape, last):
            Fio(disk, verify_only=None, **part).result()
        assert writer.check()["lost"] == []

    check()
    gateway.runner.kill()
    gateway.runner.start()
    wait_for(lambda: volume.status()["state"] == "active", "the volume to be assembled again")
    assert volume.status()["size_bytes"] == new_bytes == int(size_attribute(volume.name).read_text())
    check()

    volume.logout()
    iraid("unexport", volume.name, "--no-save")
    faults = rtslib.RTSRoot().restore_from_file(str(SAVED), clear_existing=False)
    assert not [fault for fault in faults if volume.name in fault], faults
    disk = volume.login()
    assert disk.size_bytes == new_bytes
    if level != 0:
        volume.wait_resynced()
        targets.lose(1)
        Fio(disk, rw="read", bs="4k", offset=old_bytes + 32 * MIB, size=64 * KIB, verify=0).result()
        volume.wait_until("degraded")
    check()
    assert json.loads(iraid("status", volume.name, "--json"))["lost"]["extents"] == 0


def fill(folder: Path, name: str, size_bytes: int) -> tuple[Path, str]:
    data = os.urandom(MIB) * (size_bytes // MIB)
    path = folder / name
    path.write_bytes(data)
    return path, hashlib.sha256(data).hexdigest()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_mounted_file_system_grows_with_targets_that_must_be_restarted(gateway, farm, memory_folder, tmp_path):
    """tgt knows a file's size from its start: one target after another is restarted with a larger one."""
    targets = farm(4, OLD)
    volume = gateway.create(5, targets.members())
    disk = volume.login()
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,nodiscard", disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        old = fill(folder, "old", 32 * MIB)
        slots = folder / "slots"
        with slots.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 512 * 20 * KIB)
        writer = AckWriter(
            replace(disk, path=str(slots)),
            memory_folder / "journal",
            slot_bytes=20 * KIB,
            slots=512,
            seconds=25,
            depth=2,
        )
        for number in range(4):
            targets.kill(number)
            targets.resize_file(number, NEW)
            volume.wait_until("degraded")
            still = attempt_iraid("grow", volume.name)
            assert still[0] == 1 and "remedy: " in still[1], still
            targets.restart(number)
            volume.wait_until("active")
            if number == 0:
                early = grow(volume)
                assert early["size_bytes"] == early["before_bytes"] == disk.size_bytes
                assert early["note"]
        done = grow(volume)
        look_again(disk, done["size_bytes"])
        free = os.statvfs(folder).f_bavail
        run("resize2fs", disk.path)
        assert os.statvfs(folder).f_bavail > 1.8 * free
        new = fill(folder, "new", 160 * MIB)  # more than there was room for
        result = writer.result()
        assert result["errors"] == [] and writer.check()["lost"] == []
    run("e2fsck", "-f", "-n", disk.path)
    volume.wait_resynced()
    targets.kill(2)
    with mounted(disk.path, tmp_path / "mnt"):
        for path, digest in (old, new):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        assert writer.check()["lost"] == []


def test_of_two_sessions_one_is_told_and_both_see_it_when_they_look_again(gateway, growing_targets):
    """tcmu-runner keeps one unit attention for a LUN, not one for each session: docs/operating/grow.md relies on it."""
    targets = growing_targets(3, OLD)
    with exported_volume(gateway, 5, targets.members()) as lun:
        disks = [lun.login(), lun.login_as_second()]
        for number in range(3):
            targets.grow(number, NEW)
        told = attentions()
        size = json.loads(iraid("grow", gateway.volumes[-1].name, "--json"))["size_bytes"]
        for disk in disks:
            Fio(disk, rw="read", bs="4k", size=64 * KIB, verify=0).result()
        assert attentions() - told == 1
        look_again(disks[0], size)
        wait_for(lambda: disks[1].size_bytes == size, "the second session's disk")
        Fio(disks[1], rw="write", bs="64k", offset=size - MIB, size=MIB).result()


# --- the LUN alone ---


@contextlib.contextmanager
def lun_made_by_hand(volume: Volume, size_bytes: int) -> Iterator[Disk]:
    """Any size: as a growth that was interrupted leaves it, or an export on another gateway."""
    iqn, port = f"iqn.2026-01.org.iraid.test:{volume.name}", free_port()
    storage = rtslib.UserBackedStorageObject(volume.name, config=f"iraid/{volume.name}", size=size_bytes)
    target = None
    try:
        target = rtslib.Target(rtslib.FabricModule("iscsi"), iqn)
        group = rtslib.TPG(target, 1)
        for name, value in OPEN_TO_ALL.items():
            group.set_attribute(name, value)
        rtslib.LUN(group, 0, storage_object=storage)
        rtslib.NetworkPortal(group, "127.0.0.1", port)
        group.enable = True
        yield volume.gateway.initiator.login(iqn, f"127.0.0.1:{port}")
    finally:
        volume.gateway.initiator.logout_all(iqn)
        if target is not None:
            target.delete()
        storage.delete()


def test_a_lun_takes_no_size_that_its_volume_has_not_and_is_never_made_smaller(gateway, lio_members):
    volume = gateway.create(5, lio_members(3))
    size = volume.status()["size_bytes"]
    with lun_made_by_hand(volume, size // 2) as disk:
        told = attentions()
        for wrong, words in (
            (size // 2 - 64 * KIB, "can't shrink"),
            (size + 64 * KIB, f"the volume has {size}"),
            (size - 1, "multiple of 512"),
        ):
            log_end = RUNNER_LOG.stat().st_size
            with pytest.raises(OSError):
                set_lun_size(volume.name, wrong)
            assert words in RUNNER_LOG.read_text()[log_end:]
            assert size_attribute(volume.name).read_text().strip() == str(size // 2)
        look_again(disk, size // 2)
        set_lun_size(volume.name, size // 2)  # as a restore does
        Fio(disk, rw="write", bs="64k", size=MIB).result()
        assert attentions() == told


def test_iraid_grow_finishes_a_lun_that_is_smaller_than_its_volume(gateway, lio_members):
    volume = gateway.create(5, lio_members(3))
    size = volume.status()["size_bytes"]
    with lun_made_by_hand(volume, size // 2) as disk:
        shape = dict(rw="write", bs="64k", size=4 * MIB)
        Fio(disk, **shape).result()
        done = grow(volume)
        assert done["before_bytes"] == done["size_bytes"] == size
        assert [(lun["before_bytes"], lun["size_bytes"]) for lun in done["luns"]] == [(size // 2, size)]
        assert done["note"] and done["saved"] is None  # it was not saved before
        look_again(disk, size)
        Fio(disk, rw="write", bs="64k", offset=size - 4 * MIB, size=4 * MIB).result()
        Fio(disk, verify_only=None, **shape).result()
        again = grow(volume)
        assert [(lun["before_bytes"], lun["size_bytes"]) for lun in again["luns"]] == [(size, size)]


def test_a_volume_that_is_stopped_is_not_grown(gateway, lio_members):
    volume = gateway.create(5, lio_members(3))
    iraid("stop", volume.name)
    status, text = attempt_iraid("grow", volume.name)
    assert status == 1 and "is not running" in text and "iraid start" in text
