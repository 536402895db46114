"""open-iscsi, the stock initiator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .tools import attempt, run, wait_for


@dataclass(frozen=True)
class Disk:
    iqn: str
    portal: str
    path: str  # /dev/sdX

    @property
    def size_bytes(self) -> int:
        return 512 * int(Path("/sys/block", Path(self.path).name, "size").read_text())


def name() -> str:
    for line in Path("/etc/iscsi/initiatorname.iscsi").read_text().splitlines():
        if line.startswith("InitiatorName="):
            return line.partition("=")[2].strip()
    raise AssertionError("/etc/iscsi/initiatorname.iscsi names no initiator")


def _block_devices(iqn: str) -> list[Path]:
    """The block devices of a session's LUNs, in the order of LUNs."""
    found: list[Path] = []
    for session in Path("/sys/class/iscsi_session").glob("session*"):
        if (session / "targetname").read_text().strip() == iqn:
            found += (session / "device").glob("target*/*:*:*:*/block/*")
    return sorted(found, key=lambda path: int(path.parents[1].name.split(":")[3]))


def disk_of(iqn: str, lun_index: int = 0) -> str:
    """The path of a LUN of a session that is there."""
    devices = wait_for(lambda: (found := _block_devices(iqn))[lun_index:] and found, f"a disk of {iqn}")
    path = f"/dev/{devices[lun_index].name}"
    # The kernel makes the node first, and the entry that tells the size last.
    wait_for(
        lambda: Path(path).is_block_device() and Path("/sys/block", devices[lun_index].name, "size").exists(), path
    )
    return path


class Initiator:
    """Logs in and out.  What is still logged in at the end, logout_all() takes down."""

    def __init__(self) -> None:
        self._disks: list[Disk] = []

    def login(self, iqn: str, portal: str, lun_index: int = 0) -> Disk:
        node = ("iscsiadm", "-m", "node", "-T", iqn, "-p", portal)
        run(*node, "-o", "new")
        run(*node, "--login")
        disk = Disk(iqn, portal, disk_of(iqn, lun_index))
        self._disks.append(disk)
        return disk

    def logout(self, disk: Disk) -> None:
        node = ("iscsiadm", "-m", "node", "-T", disk.iqn, "-p", disk.portal)
        run(*node, "--logout")
        run(*node, "-o", "delete")
        self._disks.remove(disk)

    def logout_all(self, iqn: str) -> list[str]:
        """Out of every session with a target; what would not end, with the reason."""
        faults = []
        for disk in [disk for disk in self._disks if disk.iqn == iqn]:
            status, text = attempt("iscsiadm", "-m", "node", "-T", iqn, "--logout", seconds=60)
            if status != 0:
                faults.append(f"{iqn}: {text}")
            attempt("iscsiadm", "-m", "node", "-T", iqn, "-o", "delete")
            self._disks.remove(disk)
        return faults
