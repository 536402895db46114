"""The systems that are compared, each as one disk of the same initiator.

    plain        a target
    iraid        targets  <- tcmu-runner + handler_iraid.so  <- LIO
    ceiling                  tcmu-runner + handler_ceiling.so  <- LIO
    md           targets  <- open-iscsi  <- md, with its bitmap  <- LIO iblock
    md-nobitmap  the same without the bitmap
    md-ppl       with a partial parity log instead
    md-journal   with a journal on a target of its own instead
    lvm          targets  <- open-iscsi  <- LVM's RAID (dm-raid)  <- LIO iblock

Targets are LIO's, a file on a tmpfs behind each.  What LIO gives on has the same parameters in all cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rtslib_fb as rtslib

from iraid.lio import export_plan
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.lio_targets import OPEN_TO_ALL, LioTargets
from iraid_dev.stack.tools import IRAID, free_port, run, wait_for
from iraid_dev.stack.typed_stack import Stack

from .cells import CHUNK_BYTES, KIB, Shape
from .plan import JOURNAL_BYTES, MEMBER_BYTES

CEILING_BYTES = 3 * MEMBER_BYTES  # nothing is stored, so they cost no memory
SECTOR_BYTES = 512
IN_SYNC_SECONDS_MAX = 120
IQN = "iqn.2026-01.org.iraid.bench"
MD_MODULES = {0: "raid0", 1: "raid1", 5: "raid456", 6: "raid456", 10: "raid10"}
# No device but those that are named is looked at, nothing is written below /etc, and no udev is waited for.
LVM_CONFIG = (
    'devices {{ use_devicesfile=0 global_filter=[ {accepted}, "r|.*|" ] }} '
    "backup {{ backup=0 archive=0 }} activation {{ udev_sync=0 udev_rules=0 monitoring=0 }}"
)


class System(ABC):
    """One disk.  What put_up() made, close() takes away again, in the opposite order.

    number: which of several that are alike and there at the same time.
    """

    target_kind: type[LioTargets] = LioTargets

    def __init__(
        self, stack: Stack, name: str, shape: Shape | None, *, member_bytes: int = MEMBER_BYTES, number: int = 0
    ):
        self.stack = stack
        self.name = name  # one of row.SYSTEMS
        self.shape = shape
        self.member_bytes = member_bytes
        self.number = number
        self.disk: Disk | None = None
        self._undo: list[Callable[[], object]] = []

    @abstractmethod
    def put_up(self) -> None:
        """Up to a disk that can be loaded."""

    def close(self) -> None:
        faults = []
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:  # noqa: BLE001 - the rest has to go all the same
                faults.append(error)
        if faults:
            raise faults[0]

    @property
    def members(self) -> int:
        return self.shape.members if self.shape else 1

    @property
    def runner_serves(self) -> bool:
        """Whether tcmu-runner's processor time is this system's."""
        return False

    @property
    def label(self) -> str:
        """For people."""
        return self.name

    @property
    def volume(self) -> str:
        """Of iraid's: its name."""
        return self._identity

    @property
    def _identity(self) -> str:
        name = f"{self.name}{self.shape.level}" if self.shape else self.name
        return f"{name}-{self.number}" if self.number else name

    def _targets(self, count: int, size_bytes: int) -> LioTargets:
        targets = self.stack.targets(self._identity, count, size_bytes, kind=self.target_kind)
        self._undo.append(lambda: self.stack.remove_targets(targets))
        return targets

    def _login(self, iqn: str, portal: str) -> Disk:
        disk = self.stack.login_to(iqn, portal)
        self._undo.append(lambda: self.stack.logout(disk))
        return disk


class Plain(System):
    def put_up(self) -> None:
        targets = self._targets(1, 2 * self.member_bytes)
        self.disk = self._login(targets.iqn(0), f"127.0.0.1:{targets.ports[0]}")


class _GivenOn(System):
    """A disk of the gateway's, given on by LIO."""

    def _logins(self, targets: LioTargets) -> list[Disk]:
        return [self._login(targets.iqn(number), targets.portal(number)) for number in range(len(targets.ports))]

    def _give_on(self, storage: Any) -> None:
        self._undo.append(storage.delete)
        iqn, port = f"{IQN}:{self._identity}", free_port()
        target = rtslib.Target(rtslib.FabricModule("iscsi"), iqn)
        self._undo.append(target.delete)
        group = rtslib.TPG(target, 1)
        for name, value in OPEN_TO_ALL.items():
            group.set_attribute(name, value)
        group.set_attribute("default_cmdsn_depth", str(export_plan.QUEUE_DEPTH))
        for name, value in export_plan.GROUP_PARAMETERS.items():
            group.set_parameter(name, str(value))
        rtslib.LUN(group, 0, storage_object=storage)
        rtslib.NetworkPortal(group, "127.0.0.1", port)
        group.enable = True
        self.disk = self._login(iqn, f"127.0.0.1:{port}")


class _OfRunner(_GivenOn):
    """A LUN that tcmu-runner serves, with the settings of `iraid export`."""

    @property
    def runner_serves(self) -> bool:
        return True

    def _serve(self, handler: str, size_bytes: int) -> None:
        control = (
            f"max_data_area_mb={export_plan.DATA_AREA_MIB},"
            f"data_pages_per_blk={export_plan.DATA_PAGES_PER_BLOCK},"
            f"cmd_ring_size_mb={export_plan.COMMAND_RING_MIB}"
        )
        self._give_on(
            rtslib.UserBackedStorageObject(
                self._identity,
                config=f"{handler}/{self._identity}",
                size=size_bytes,
                hw_max_sectors=export_plan.TRANSFER_BYTES_MAX // SECTOR_BYTES,
                control=control,
            )
        )


class Iraid(_OfRunner):
    def put_up(self) -> None:
        name, level = self._identity, self.shape.level
        targets = self._targets(self.shape.members, self.member_bytes)
        size_bytes = self.stack.create(name, str(level), targets.members())
        self._undo.append(lambda: self.stack.command(IRAID, "delete", name, "--yes"))
        self._created()
        self._serve("iraid", size_bytes)
        if level != 0:
            self.stack.wait_resynced(name)

    def _created(self) -> None:
        """Nobody has read or written the volume yet."""


class Ceiling(_OfRunner):
    def put_up(self) -> None:
        self._serve("ceiling", CEILING_BYTES)


class Md(_GivenOn):
    """With the same chunk, over targets that hold zeros: so parity is right from the start (--assume-clean)."""

    array: Path
    disks: list[Disk]  # its members
    journal: Disk | None = None
    journal_kind: type[LioTargets] = LioTargets

    @property
    def means(self) -> str:
        """How a crash while rows are written is made good: "" by the bitmap, "nobitmap", "ppl", "journal"."""
        return self.name.removeprefix("md").removeprefix("-")

    @property
    def settings(self) -> Path:
        return Path("/sys/block", self.array.name, "md")

    def put_up(self) -> None:
        if self.means == "journal":
            targets = self.stack.targets(f"{self._identity}-journal", 1, JOURNAL_BYTES, kind=self.journal_kind)
            self._undo.append(lambda: self.stack.remove_targets(targets))
            (self.journal,) = self._logins(targets)
        self.disks = self._logins(self._targets(self.shape.members, self.member_bytes))
        self.array = self._free_array()
        run("modprobe", MD_MODULES[self.shape.level])
        self.stack.command("mdadm", "--create", self.array, *self._options(), *(disk.path for disk in self.disks))
        self._undo.append(lambda: run("mdadm", "--stop", self.array))
        if self.journal:
            (self.settings / "journal_mode").write_text("write-back")
        self._give_on(rtslib.BlockStorageObject(self._identity, str(self.array)))

    @staticmethod
    def _free_array() -> Path:
        taken = {path.name for path in Path("/sys/block").glob("md*")}
        return Path("/dev", next(name for number in range(128) if (name := f"md{number}") not in taken))

    def _options(self) -> list[str]:
        level = self.shape.level
        words = ["--run", "--metadata=1.2", f"--level={level}", f"--raid-devices={self.shape.members}"]
        if level != 1:  # mdadm wants no chunk there
            words.append(f"--chunk={CHUNK_BYTES // KIB}K")
        if level != 0:  # where there is nothing to be in sync, and no bitmap
            words += ["--assume-clean", self._consistency()]
        return words

    def _consistency(self) -> str:
        if self.journal:
            return f"--write-journal={self.journal.path}"
        return {"": "--bitmap=internal", "nobitmap": "--bitmap=none", "ppl": "--consistency-policy=ppl"}[self.means]


class Lvm(_GivenOn):
    """With the same chunk and LVM's own bitmap, over targets that hold zeros, as md's."""

    def put_up(self) -> None:
        disks = self._logins(self._targets(self.shape.members, self.member_bytes))
        paths = [str(disk.path) for disk in disks]
        config = LVM_CONFIG.format(accepted=", ".join(f'"a|^{path}$|"' for path in paths))
        group, level = f"bench-{self._identity}", self.shape.level

        def lvm(command: str, *words: str) -> str:
            return self.stack.command(command, "--config", config, *words)

        run("modprobe", "dm-raid")
        lvm("vgcreate", "--yes", group, *paths)
        self._undo.append(lambda: lvm("vgremove", "--yes", "--force", group))
        stripes = ["--stripes", str(int(self.shape.data_chunks)), "--stripesize", f"{CHUNK_BYTES // KIB}k"]
        known = ["--nosync"] if level == 5 else []  # lvcreate has it not for level 6
        lvm("lvcreate", "--yes", "--type", f"raid{level}", *stripes, *known, "-l", "100%FREE", "-n", "lun", group)
        wait_for(
            lambda: lvm("lvs", "--noheadings", "-o", "sync_percent", f"{group}/lun").strip() == "100.00",
            f"LVM's {group}/lun to be in sync",
            IN_SYNC_SECONDS_MAX,
        )
        name = f"{group.replace('-', '--')}-lun"  # device mapper doubles what is no separator
        self._give_on(rtslib.BlockStorageObject(self._identity, f"/dev/mapper/{name}"))


KINDS: dict[str, type[System]] = {"plain": Plain, "iraid": Iraid, "lvm": Lvm, "ceiling": Ceiling} | dict.fromkeys(
    ("md", "md-nobitmap", "md-ppl", "md-journal"), Md
)
