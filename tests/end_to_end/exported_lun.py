"""LUNs that the same checks run on: LIO's own fileio LUN as the reference, and a volume of each level.

IRAID_CONFORMANCE_LUNS names them, "reference,0,5" for example; scripts/conformance --tools sets it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from iraid_dev.stack import initiator
from iraid_dev.stack.gateway import Gateway, iraid
from iraid_dev.stack.initiator import Disk, _block_devices
from iraid_dev.stack.lio_targets import LioTargets
from iraid_dev.stack.reference_lun import ReferenceLun
from iraid_dev.stack.tools import attempt, free_port, run, wait_for

MEMORY = Path("/dev/shm")
LUN_BYTES = 384 << 20  # mkfs.xfs wants 300 MiB
SECOND = "iqn.2026-01.org.iraid.test:second-initiator"
SECOND_INTERFACE = "second"
# Members, and how many of them hold data.
SHAPES = {0: (3, 3), 1: (2, 1), 5: (4, 3), 6: (5, 3), 10: (4, 2)}
OVERHEAD_BYTES = 8 << 20  # of each member: superblocks, bitmap, log, checksums


def names() -> list[str]:
    words = os.environ.get("IRAID_CONFORMANCE_LUNS", "5").split(",")
    return [word if word == "reference" else f"level {int(word)}" for word in words]


def initiators() -> tuple[str, str]:
    return initiator.name(), SECOND


def _opens(path: Path) -> bool:
    """The node is there a moment before the disk behind it is."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@dataclass
class ExportedLun:
    """A LUN with two portals, which initiator.name() and SECOND may use."""

    name: str
    iqn: str
    portals: tuple[str, ...]
    sessions: list[tuple[str, ...]] = field(default_factory=list)  # iscsiadm's words for each

    @property
    def url(self) -> str:
        return f"iscsi://{self.portals[0]}/{self.iqn}/0"

    def login(self, portal_index: int = 0, interface: str = "default") -> Disk:
        """Another session, and the disk it brings."""
        portal = self.portals[portal_index]
        before = set(_block_devices(self.iqn))
        node = ("iscsiadm", "-m", "node", "-T", self.iqn, "-p", portal, "-I", interface)
        run(*node, "-o", "new")
        run(*node, "--login")
        self.sessions.append(node)
        (device,) = wait_for(lambda: set(_block_devices(self.iqn)) - before, f"a disk of {self.iqn} at {portal}")
        path = Path("/dev", device.name)
        wait_for(lambda: _opens(path), f"{path} to be ready")
        return Disk(self.iqn, portal, str(path))

    def login_as_second(self) -> Disk:
        """As another initiator, with a name of its own."""
        interface = ("iscsiadm", "-m", "iface", "-I", SECOND_INTERFACE)
        attempt(*interface, "-o", "new")  # it may be there
        run(*interface, "-o", "update", "-n", "iface.initiatorname", "-v", SECOND)
        return self.login(interface=SECOND_INTERFACE)

    def logout_last(self) -> None:
        node = self.sessions.pop()
        run(*node, "--logout")
        attempt(*node, "-o", "delete")  # deletes the records of the portal's other sessions as well

    def logout_all(self) -> None:
        while self.sessions:
            self.logout_last()


@contextlib.contextmanager
def exported(name: str, gateway: Gateway, size_bytes: int = LUN_BYTES) -> Iterator[ExportedLun]:
    if name == "reference":
        with ReferenceLun(MEMORY / "stock-reference", size_bytes, initiators()) as reference:
            lun = ExportedLun(name, reference.iqn, reference.portals)
            try:
                yield lun
            finally:
                lun.logout_all()
        return
    level = int(name.removeprefix("level "))
    count, with_data = SHAPES.get(level, (4, 2))
    with LioTargets(MEMORY / f"stock-level{level}", count, size_bytes // with_data + OVERHEAD_BYTES) as targets:
        with exported_volume(gateway, level, targets.members()) as lun:
            yield lun


@contextlib.contextmanager
def exported_volume(gateway: Gateway, level: int, members: list[str], *options: str) -> Iterator[ExportedLun]:
    volume = gateway.create(level, members, *options)
    try:
        portals = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
        volume.iqn = f"iqn.2026-01.org.iraid.test:{volume.name}"
        iraid(
            "export",
            volume.name,
            "--iqn",
            volume.iqn,
            *(word for portal in portals for word in ("--portal", portal)),
            *(word for one in initiators() for word in ("--acl", one)),
            "--no-chap",
        )
        lun = ExportedLun(f"level {level}", volume.iqn, portals)
        try:
            yield lun
        finally:
            lun.logout_all()
    finally:
        gateway.remove([volume])
