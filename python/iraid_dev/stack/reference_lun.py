"""LIO's own fileio LUN, exported as ours are: what other LUNs are measured by.

UNMAP and WRITE SAME with UNMAP are switched on (LIO has them off by default), so that it has all that LIO has.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import rtslib_fb as rtslib

from iraid.lio.export_plan import GROUP_PARAMETERS, QUEUE_DEPTH

from .tools import free_port

PORTALS = 2


class ReferenceLun:
    """Context manager: one target, one LUN, two portals, ACLs of the initiators named."""

    def __init__(self, directory: Path, size_bytes: int, initiators: tuple[str, ...], *, block_bytes: int = 512):
        self.directory = directory
        self.size_bytes = size_bytes
        self.initiators = initiators
        self.block_bytes = block_bytes
        self.iqn = f"iqn.2026-01.org.iraid.reference:{directory.name}"
        self.portals: tuple[str, ...] = ()
        self._made: list[Any] = []  # of rtslib

    def __enter__(self) -> ReferenceLun:
        self.directory.mkdir(parents=True)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        storage = rtslib.FileIOStorageObject(
            self.directory.name, str(self.directory / "reference.img"), size=self.size_bytes, write_back=True
        )
        self._made.append(storage)
        storage.set_attribute("block_size", str(self.block_bytes))
        for attribute in ("emulate_tpu", "emulate_tpws"):
            storage.set_attribute(attribute, "1")
        target = rtslib.Target(rtslib.FabricModule("iscsi"), self.iqn)
        self._made.append(target)
        group = rtslib.TPG(target, 1)
        group.set_attribute("authentication", "0")
        group.set_attribute("default_cmdsn_depth", str(QUEUE_DEPTH))
        group.set_attribute("prod_mode_write_protect", "0")
        for name, value in GROUP_PARAMETERS.items():
            group.set_parameter(name, value)
        lun = rtslib.LUN(group, 0, storage_object=storage)
        ports = []
        for _ in range(PORTALS):
            ports.append(free_port())
            rtslib.NetworkPortal(group, "127.0.0.1", ports[-1])
        for name in self.initiators:
            rtslib.MappedLUN(rtslib.NodeACL(group, name), 0, lun)
        group.enable = True
        self.portals = tuple(f"127.0.0.1:{port}" for port in ports)

    def close(self) -> None:
        for made in reversed(self._made):
            made.delete()
        self._made.clear()
        shutil.rmtree(self.directory, ignore_errors=True)
