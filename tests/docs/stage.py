"""A volume as the recovery guide has it, disasters, and the guide's commands.

    stage.make_volume()                 # v0, level 5 on 10.0.0.1 to 10.0.0.4, full of known bytes
    stage.serve()                       # an initiator uses it (nbdkit), or:
    stage.start()                       # it runs without one (iraid-engine)
    stage.lose(1)                       # 10.0.0.2 is dead and given up
    stage.follow("A member is dead")    # what the section's blocks show, typed line by line
    stage.check({0, 4, 2, 3})           # by role; all is there, and redundant

What is typed is what is shown, but for two things: LUN 0 of a target is LUN 1, for tgtd keeps 0 for its controller, and
the folders are those of a private gateway.  Here iraid-engine stands in tcmu-runner's place, so `systemctl` is done by us.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbd
from shown import ROOT, Block, blocks

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import IRAID, PYTHON, Gateway, Served, wait_until
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.shadow import read_all

IQN = "iqn.2026-01.org.example:disk"
MIB = 1 << 20
GUIDE = ROOT / "docs/operating/recovery.md"
COMMAND_SECONDS_MAX = 60.0
STATUS = re.compile(r"#.*\(exit status (\d)\)$")  # a comment that foretells it
STARTED = re.compile(r"systemctl (re)?start tcmu-runner")


class Stage:
    def __init__(self, farm: TargetFarm, make_gateway: Callable[[], Gateway]):
        self.farm, self._make_gateway = farm, make_gateway
        self.gateway = make_gateway()
        self.gateway.start()
        self.served: Served | None = None
        self.content = bytearray()
        self.typed: list[str] = []
        self._bin = self.gateway.folder / "bin"
        self._bin.mkdir()
        command = self._bin / "iraid"
        command.write_text(f'#!/bin/sh\nexec {PYTHON} {IRAID} "$@"\n')
        command.chmod(0o755)

    # The volume

    def member(self, number: int) -> str:
        return self.farm.member(number)

    def make_volume(self, *more: str, numbers: Sequence[int] = (0, 1, 2, 3), level: int = 5, **configured: Any) -> None:
        """Its parity proven, filled, stopped in order.  It gives members up sooner than usual."""
        self.gateway.create("v0", [self.member(n) for n in numbers], level, "64K", "--give-up", "2", *more)
        wait_until(lambda: self._proven(self.gateway.status("v0")), "the first resync")
        self.gateway.must("stop", "v0")
        self.gateway.configure("v0", **({"assembly_wait_seconds": 1, "spare_wait_seconds": 1} | configured))
        self.content = bytearray(random.Random(8).randbytes(self.reader(numbers).size))
        with self.gateway.serve("v0") as volume:
            self._write(volume.connect(), 0, self.content)

    @staticmethod
    def _proven(status: dict[str, Any]) -> bool:
        return status["state"] == "active" and status["regions"]["suspect"] == 0

    @staticmethod
    def _write(handle: nbd.NBD, offset: int, data: bytes | bytearray) -> None:
        for begin in range(0, len(data), MIB):
            handle.pwrite(bytes(data[begin : begin + MIB]), offset + begin)
        handle.flush()

    def serve(self) -> None:
        self.served = self.gateway.serve("v0")
        self.handle = self.served.connect()

    def start(self) -> None:
        self.gateway.must("start", "v0")

    def write(self, offset: int, length: int = MIB, seed: int = 9) -> None:
        """By the initiator, and flushed."""
        data = random.Random(seed).randbytes(length)
        self._write(self.handle, offset, data)
        self.content[offset : offset + length] = data

    def status(self) -> dict[str, Any]:
        return self.served.status() if self.served else self.gateway.status("v0")

    def wait(self, good: Callable[[dict[str, Any]], object], what: str, seconds: float = 30.0) -> dict[str, Any]:
        wait_until(lambda: good(self.status()), what, seconds)
        return self.status()

    def state_of(self, number: int) -> str:
        return next((m["state"] for m in self.status()["members"] if m["member"] == self.member(number)), "none")

    def reader(self, numbers: Sequence[int]) -> VolumeReader:
        return VolumeReader([self.farm.backing(number) for number in numbers])

    # Disasters

    def lose(self, number: int) -> None:
        """Dead, and given up by the volume."""
        self.farm.kill(number)
        self.wait(lambda _: self.state_of(number) == "faulty", f"{self.member(number)} to be given up")

    def overwrite(self, number: int) -> None:
        path = self.farm.backing(number)
        noise = random.Random(number)
        with path.open("r+b") as file:
            for _ in range(path.stat().st_size // MIB):
                file.write(noise.randbytes(MIB))

    def damage(self, number: int, offset: int, length: int) -> None:
        """A part of the device holds something else."""
        with self.farm.backing(number).open("r+b") as file:
            file.seek(offset)
            file.write(b"\xa5" * length)

    def move(self, number: int, address: str) -> None:
        """The target is dead at its old address; the same LUN is at another one."""
        self.farm.kill(number)
        moved = len(self.farm)
        os.link(self.farm.backing(number), self.farm.directory / f"member{moved}.img")
        self.farm.add(
            TargetOptions(size_bytes=self.farm.backing(number).stat().st_size, address=address, port=3260, iqn=IQN)
        )

    def end_serving(self) -> None:
        assert self.served is not None
        self.served.stop()
        self.served = None

    def another_gateway(self) -> None:
        """The commands that follow are typed on another machine."""
        self.gateway = self._make_gateway()
        self.gateway.start()

    # The guide

    def follow(self, heading: str, page: Path = GUIDE) -> None:
        """Every native block of the section, in order."""
        shown = [block for block in blocks(page) if block.heading == heading and block.where == "native"]
        assert shown, f"{page} has no section '{heading}' with commands for here"
        for block in shown:
            self.type(block)

    def type(self, block: Block) -> None:
        for line in block.lines():
            if STARTED.fullmatch(line.strip()):
                self._restart_runner()
                continue
            self.run(line, str(block))

    def _restart_runner(self) -> None:
        """As systemd starts it anew, and LIO opens the volumes that are exported."""
        self.gateway.stop()
        self.gateway.start("--start-all")

    def run(self, line: str, where: str) -> None:
        typed = (
            line.replace(f"{IQN}/0", f"{IQN}/1")
            .replace("/etc/iraid", str(self.gateway.config))
            .replace("/run/iraid", str(self.gateway.sockets))
        )
        environment = self.gateway.environment() | {"PATH": f"{self._bin}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        if self.served:
            environment["IRAID_SOCKET"] = str(self.served.control)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", typed],
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        self.typed.append(f"$ {line}\n{done.stdout}{done.stderr}")
        said = STATUS.search(line)
        assert done.returncode == (int(said[1]) if said else 0), f"{where}: status {done.returncode}\n" + "\n".join(
            self.typed
        )

    def said(self) -> str:
        return "\n".join(self.typed)

    # What must be true at the end

    def check(self, numbers: Sequence[int] = (0, 1, 2, 3), but: tuple[int, int] = (0, 0)) -> None:
        """These devices, by role, are in sync; an initiator reads what was written (`but` for a range), and every
        member alone could be lost."""
        status = self.wait(self._in_sync, "all members to be in sync")
        places = {m["role"]: m["member"] for m in status["members"] if m["role"] is not None}
        assert places == {role: self.member(number) for role, number in enumerate(numbers)}, self.said()
        if self.served:
            self._compare(read_all(self.handle), but)
            self.end_serving()
        else:
            self.gateway.must("stop", "v0")
            with self.gateway.serve("v0") as volume:
                self._compare(read_all(volume.connect()), but)
        reader = self.reader(numbers)
        assert reader.wrong_rows() == []
        for role in range(len(numbers)):
            self._compare(reader.content(without=role), but)

    @staticmethod
    def _in_sync(status: dict[str, Any]) -> bool:
        return (
            status["state"] == "active"
            and status["regions"]["suspect"] == 0
            and all(m["state"] == "in sync" for m in status["members"] if m["role"] is not None)
        )

    def _compare(self, found: bytearray, but: tuple[int, int]) -> None:
        begin, end = but
        wrong = [
            at
            for at in range(0, len(found), 4096)
            if not begin <= at < end and found[at : at + 4096] != self.content[at : at + 4096]
        ]
        assert len(found) == len(self.content) and not wrong, (
            f"{len(wrong)} blocks of 4 KiB hold something else than was written, from byte {wrong[:1]} on to "
            f"{wrong[-1:]}\n{self.said()}"
        )


def configuration_of(gateway: Gateway) -> Path:
    return next((gateway.config / "volumes").glob("v0.*"))
