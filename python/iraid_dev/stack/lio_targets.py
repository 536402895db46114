"""Backend targets in the kernel that is under test: no process each, and far faster than tgtd there.

They can't be killed or stopped; where a member must die, farm.py has tgtd.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import rtslib_fb as rtslib

from .tools import free_port, run

PARAMETERS = {
    "InitialR2T": "No",
    "ImmediateData": "Yes",
    "MaxRecvDataSegmentLength": "262144",
    "MaxXmitDataSegmentLength": "262144",
    "FirstBurstLength": "262144",
    "MaxBurstLength": "1048576",
}
OPEN_TO_ALL = {
    "authentication": "0",
    "generate_node_acls": "1",
    "demo_mode_write_protect": "0",
    "cache_dynamic_acls": "1",
}


class LioTargets:
    """Context manager over `count` targets with one LUN each, files in `directory` behind them."""

    write_back = True  # a volatile cache, which iraid flushes instead of using FUA (docs/design/iscsi.md)

    def __init__(
        self,
        directory: Path,
        count: int,
        size_bytes: int,
        *,
        block_bytes: int = 512,
        parameters: dict[str, str] | None = None,
        attributes: dict[str, str] | None = None,
        chap: tuple[str, str] | None = None,
        proof: tuple[str, str] | None = None,
    ):
        """chap: user and secret of whoever logs in; proof: the targets' own, of mutual CHAP."""
        self.directory = directory
        self.block_bytes = block_bytes
        self.parameters = PARAMETERS | (parameters or {})
        self.attributes = OPEN_TO_ALL | ({"authentication": "1"} if chap else {}) | (attributes or {})
        self.chap, self.proof = chap, proof
        self.size_bytes = size_bytes
        self.ports = [0] * count
        self._made: list[Any] = []  # of rtslib

    def __enter__(self) -> LioTargets:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def iqn(self, number: int) -> str:
        return f"iqn.2026-01.org.iraid.backend:{self.directory.name}-m{number}"

    def address(self, number: int) -> str:
        return "127.0.0.1"

    def portal(self, number: int) -> str:
        return f"{self.address(number)}:{self.ports[number]}"

    def member(self, number: int) -> str:
        return f"{self.portal(number)}/{self.iqn(number)}/0"

    def members(self) -> list[str]:
        return [self.member(number) for number in range(len(self.ports))]

    def backing(self, number: int) -> Path:
        return self.directory / f"member{number}.img"

    def _storage(self, number: int) -> object:
        return rtslib.FileIOStorageObject(
            f"{self.directory.name}-m{number}",
            str(self.backing(number)),
            size=self.size_bytes,
            write_back=self.write_back,
        )

    def _make(self, number: int) -> None:
        storage: Any = self._storage(number)
        self._made.append(storage)
        storage.set_attribute("block_size", str(self.block_bytes))
        target = rtslib.Target(rtslib.FabricModule("iscsi"), self.iqn(number))
        self._made.append(target)
        group = rtslib.TPG(target, 1)
        for name, value in self.attributes.items():
            group.set_attribute(name, value)
        for name, value in self.parameters.items():
            group.set_parameter(name, value)
        if self.chap:
            group.chap_userid, group.chap_password = self.chap
        if self.proof:
            group.chap_mutual_userid, group.chap_mutual_password = self.proof
        rtslib.LUN(group, 0, storage_object=storage)
        self.ports[number] = self.ports[number] or free_port()
        self._listen(group, number)
        group.enable = True

    def _listen(self, group: rtslib.TPG, number: int) -> None:
        rtslib.NetworkPortal(group, self.address(number), self.ports[number])

    def start(self) -> None:
        """Serves the files that are there, after a stop() at the same ports."""
        for number in range(len(self.ports)):
            self._make(number)

    def stop(self) -> None:
        """The targets go, the files behind them stay."""
        for made in reversed(self._made):
            made.delete()
        self._made.clear()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class GrowingTargets(LioTargets):
    """Targets whose LUNs become larger while they are in use, as a disk array's do: of a file LIO keeps the size
    that it had at the start, of a block device it asks each time.  So there is a loop device between."""

    def __init__(self, directory: Path, count: int, size_bytes: int, *, block_bytes: int = 512):
        super().__init__(directory, count, size_bytes, block_bytes=block_bytes)
        self._loops: list[str] = []

    def _storage(self, number: int) -> object:
        with self.backing(number).open("ab") as backing:
            os.ftruncate(backing.fileno(), self.size_bytes)
        self._loops.append(run("losetup", "--find", "--show", self.backing(number)).strip())
        return rtslib.FileIOStorageObject(
            f"{self.directory.name}-m{number}", self._loops[-1], write_back=self.write_back
        )

    def start(self) -> None:
        run("modprobe", "loop")
        super().start()

    def grow(self, number: int, size_bytes: int) -> None:
        os.truncate(self.backing(number), size_bytes)
        run("losetup", "--set-capacity", self._loops[number])

    def lose(self, number: int) -> None:
        """The target goes, with the sessions that it has."""
        # Not remove(): rtslib's objects can't be compared with those of another kind.
        index = next(i for i, made in enumerate(self._made) if getattr(made, "wwn", "") == self.iqn(number))
        self._made.pop(index).delete()

    def stop(self) -> None:
        super().stop()
        while self._loops:
            run("losetup", "--detach", self._loops.pop())
