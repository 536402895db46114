"""What there is without us: md over open-iscsi disks, given on by LIO as a disk of its own.

    targets  <- open-iscsi  <- md, with its bitmap  <- LIO iblock  <- open-iscsi, the same initiator as ours
"""

from __future__ import annotations

from pathlib import Path

import rtslib_fb as rtslib

from initiator import Disk
from iraidlib import export_plan
from lio_targets import OPEN_TO_ALL, LioTargets
from tools import free_port, run

from .stack import Stack

ARRAY = Path("/dev/md0")
IQN = "iqn.2026-01.org.iraid.demo:md"


class MdPeer:
    """Context manager: an array over the targets' disks.  Level as md has it, chunk as our volumes."""

    def __init__(self, stack: Stack, targets: LioTargets, level: int = 5, chunk_kib: int = 64):
        self.stack = stack
        self.targets = targets
        self.level = level
        self.chunk_kib = chunk_kib
        self._members: list[Disk] = []
        self._made: list[object] = []
        self._disk: Disk | None = None

    def __enter__(self) -> MdPeer:
        try:
            self._assemble()
            self._export()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def disk(self) -> Disk:
        assert self._disk is not None
        return self._disk

    def _assemble(self) -> None:
        for number, port in enumerate(self.targets.ports):
            self._members.append(self.stack.login_to(self.targets.iqn(number), f"127.0.0.1:{port}"))
        run("modprobe", "raid456")
        self.stack.command(
            "mdadm", "--create", ARRAY, "--run", "--metadata=1.2", f"--level={self.level}", f"--chunk={self.chunk_kib}K",
            "--bitmap=internal", "--assume-clean", f"--raid-devices={len(self._members)}",
            *(disk.path for disk in self._members))

    def _export(self) -> None:
        storage = rtslib.BlockStorageObject("md0", str(ARRAY))
        self._made.append(storage)
        target = rtslib.Target(rtslib.FabricModule("iscsi"), IQN)
        self._made.append(target)
        group = rtslib.TPG(target, 1)
        for name, value in OPEN_TO_ALL.items():
            group.set_attribute(name, value)
        group.set_attribute("default_cmdsn_depth", str(export_plan.QUEUE_DEPTH))
        for name, value in export_plan.GROUP_PARAMETERS.items():
            group.set_parameter(name, str(value))
        rtslib.LUN(group, 0, storage_object=storage)
        port = free_port()
        rtslib.NetworkPortal(group, "127.0.0.1", port)
        group.enable = True
        self._disk = self.stack.login_to(IQN, f"127.0.0.1:{port}")

    def close(self) -> None:
        if self._disk is not None:
            self.stack.logout(self._disk)
            self._disk = None
        for made in reversed(self._made):
            made.delete()
        self._made.clear()
        if ARRAY.exists():
            run("mdadm", "--stop", ARRAY)
        for disk in self._members:
            self.stack.logout(disk)
        self._members.clear()
