"""Members become larger while the volume is in use; after `iraid grow` initiators have the room, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import initiator
import pytest
import rtslib_fb as rtslib
from exported_lun import exported_volume
from gateway import Volume, attempt_iraid, iraid
from initiator import Disk
from load import AckWriter, Fio
from test_lio_export import SAVED
from tools import StackError, free_port, run, wait_for

KIB, MIB = 1 << 10, 1 << 20
OLD, NEW = 128 * MIB, 256 * MIB  # of each member
CONFIGFS = Path("/sys/kernel/config/target/core")
RUNNER_LOG = Path("/var/log/tcmu-runner.log")


def size_attribute(volume: Volume) -> Path:
    path, = CONFIGFS.glob(f"user_*/{volume.name}/attrib/dev_size")
    return path


def attentions() -> int:
    """How often this kernel, as the initiator, was told so by UNIT ATTENTION 2A/09."""
    return run("dmesg").count("Capacity data has changed")


def rescan(disk: Disk) -> None:
    """What the administrator of a Linux initiator does."""
    run("iscsiadm", "-m", "node", "-T", disk.iqn, "-R")


def grow(volume: Volume) -> dict:
    return json.loads(iraid("grow", volume.name, "--json"))


# --- the LUN alone ---


@contextlib.contextmanager
def small_lun(gateway, volume: Volume, size_bytes: int) -> Iterator[None]:
    """The volume's LUN made by hand, smaller than the volume: as an interrupted growth leaves it, or one on another
    gateway."""
    storage = rtslib.UserBackedStorageObject(volume.name, config=f"iraid/{volume.name}", size=size_bytes)
    volume.export_of = storage
    try:
        yield
    finally:
        volume.gateway.initiator.logout_all(volume.iqn)
        storage.delete()


def test_try(gateway, lio_members):
    volume = gateway.create(5, lio_members(3))
    size = volume.status()["size_bytes"]
    storage = rtslib.UserBackedStorageObject(volume.name, config=f"iraid/{volume.name}", size=size // 2)
    iqn = f"iqn.2026-01.org.iraid.test:{volume.name}"
    try:
        volume.iqn = iqn
        target = rtslib.Target(rtslib.FabricModule("iscsi"), iqn)
        group = rtslib.TPG(target, 1)
        for name, value in dict(authentication="0", generate_node_acls="1", demo_mode_write_protect="0", cache_dynamic_acls="1").items():
            group.set_attribute(name, value)
        rtslib.LUN(group, 0, storage_object=storage)
        port = free_port()
        rtslib.NetworkPortal(group, "127.0.0.1", port)
        group.enable = True
        print(json.dumps(storage.dump(), indent=1))
        disk = gateway.initiator.login(iqn, f"127.0.0.1:{port}")
        assert disk.size_bytes == size // 2
        for wrong in (size // 2 - 65536, size + 65536, size - 1):
            try:
                size_attribute(volume).write_text(str(wrong))
                print("accepted", wrong)
            except OSError as error:
                print(wrong, error)
        before = attentions()
        size_attribute(volume).write_text(str(size))
        Fio(disk, rw="randwrite", bs="16k", size="1M", iodepth=8).result()
        print("attentions", attentions() - before, disk.size_bytes, size)
        rescan(disk)
        print("attentions", attentions() - before, disk.size_bytes, size)
        Fio(disk, rw="write", bs="64k", offset=size - MIB, size="1M").result()
        print(RUNNER_LOG.read_text()[-3000:])
        print(json.dumps(storage.dump(), indent=1))
        print(run("dmesg")[-1500:])
    finally:
        gateway.initiator.logout_all(iqn)
        for t in rtslib.FabricModule("iscsi").targets:
            if t.wwn == iqn:
                t.delete()
        storage.delete()
        volume.iqn = ""
    assert 0
