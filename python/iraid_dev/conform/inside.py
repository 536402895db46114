"""The part of scripts/conformance inside the lab: LUNs, the tests against each of them.

Started by cli.py as a program, with SETTINGS, a JSON file; results.json and logs/ are left beside it.

    members (LIO of this kernel) <- tcmu-runner <- LIO, by `iraid export`, two portals <- iscsi-test-cu
                          fileio of this kernel <- LIO, the same settings, two portals <- iscsi-test-cu
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from iraid_dev.stack.gateway import Gateway, Volume, attempt_iraid, iraid
from iraid_dev.stack.lio_targets import LioTargets
from iraid_dev.stack.reference_lun import ReferenceLun
from iraid_dev.stack.runner import Runner
from iraid_dev.stack.tools import PATIENCE, StackError, free_port

from .cu_run import INITIATORS, Address, Suite, all_tests, select
from .results import Lun, Run

MEMORY = Path("/dev/shm")
# Members, and how many of them hold data.
SHAPES = {0: (3, 3), 1: (2, 1), 5: (4, 3), 6: (5, 3), 10: (4, 2)}
OVERHEAD_BYTES = 4 << 20  # superblocks, bitmap, log, checksums: about
_begin = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - _begin:7.1f} s  {text}", flush=True)


class Stage:
    def __init__(self, settings: dict, folder: Path):
        self.settings = settings
        self.run = Run(
            settings["date"],
            settings["commit"],
            f"Linux {os.uname().release}, {os.environ['IRAID_LAB']}",
            settings["tool"],
        )
        self.results = folder / "results.json"
        scratch = MEMORY / "conformance"
        scratch.mkdir(exist_ok=True)
        limit = settings["limit_seconds"] * PATIENCE
        self.names = select(all_tests(), settings["families"])
        self.suite = Suite(self.names, limit, scratch, folder / "logs", say)

    def keep(self) -> None:
        self.run.write(self.results)

    def everything(self) -> None:
        log = Path(os.environ["IRAID_LAB_STATE"]) / "log"
        runner = Runner(log)
        runner.start()
        try:
            gateway = Gateway(runner)
            size = self._size_of(gateway, self.settings["levels"][0])
            self._reference(size)
            for level in self.settings["levels"]:
                self._level(gateway, level)
        finally:
            runner.stop()
        self.run.ended = True
        self.keep()

    def _lun(self, name: str, size_bytes: int) -> Lun:
        lun = Lun(name, size_bytes, self.settings["block_bytes"])
        self.run.luns.append(lun)
        say(f"{name}: {size_bytes >> 20} MiB, {lun.block_bytes}-byte blocks, {len(self.names)} tests")
        return lun

    def _reference(self, size_bytes: int) -> None:
        with ReferenceLun(
            MEMORY / "reference", size_bytes, INITIATORS, block_bytes=self.settings["block_bytes"]
        ) as reference:
            lun = self._lun("LIO fileio", reference.size_bytes)
            self.suite.run(lun.name, Address(reference.portals, reference.iqn), lun.results, self.keep)

    def _size_of(self, gateway: Gateway, level: int) -> int:
        """Of a volume of this level, so that the reference is as large as the first one."""
        with self._volume(gateway, level, self.settings["size_bytes"]) as volume:
            return volume.status()["size_bytes"]

    @contextlib.contextmanager
    def _volume(self, gateway: Gateway, level: int, size_bytes: int) -> Iterator[Volume]:
        """About as large as that."""
        count, with_data = SHAPES.get(level, (4, 2))
        member_bytes = -(-size_bytes // with_data >> 20 << 20) + OVERHEAD_BYTES
        with LioTargets(
            MEMORY / f"level{level}", count, member_bytes, block_bytes=self.settings["block_bytes"]
        ) as targets:
            volume = gateway.create(level, targets.members())
            try:
                yield volume
            finally:
                gateway.remove([volume])

    def _level(self, gateway: Gateway, level: int) -> None:
        with self._volume(gateway, level, self.settings["size_bytes"]) as volume:
            address = self._export(volume)
            lun = self._lun(f"level {level}", volume.status()["size_bytes"])
            self.suite.run(lun.name, address, lun.results, self.keep)
            lun.faults = self._faults(volume, level)
            for fault in lun.faults:
                say(f"{lun.name}: after the tests: {fault}")
            self.keep()

    @staticmethod
    def _export(volume: Volume) -> Address:
        portals = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
        volume.iqn = f"iqn.2026-01.org.iraid.test:{volume.name}"
        iraid(
            "export",
            volume.name,
            "--iqn",
            volume.iqn,
            *(word for portal in portals for word in ("--portal", portal)),
            *(word for name in INITIATORS for word in ("--acl", name)),
            "--no-chap",
        )
        return Address(portals, volume.iqn)

    @staticmethod
    def _faults(volume: Volume, level: int) -> list[str]:
        """The tests must leave a volume that is whole, and whose parity is right."""
        faults = []
        status = volume.status()
        if status["state"] != "active":
            faults.append(f"the volume is {status['state']}, not active")
        if level != 0 and not faults:
            volume.wait_resynced()
            code, text = attempt_iraid("scrub", "start", volume.name, "--wait")
            mismatches = volume.status()["scrub"]["mismatches"]
            if code != 0 or mismatches:
                faults.append(
                    f"a scrub ended with status {code} and found {mismatches} rows that do not fit: {text.strip()}"
                )
        return faults


def main(words: list[str]) -> int:
    settings = Path(words[0])
    stage = Stage(json.loads(settings.read_text()), settings.parent)
    try:
        stage.everything()
    except StackError as error:
        say(f"the stack failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
