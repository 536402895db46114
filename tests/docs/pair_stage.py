"""Two gateways as docs/operating/pair.md has them: `ssh gw1 COMMAND` and `scp gw1:FILE gw2:FOLDER` are typed as shown,
and what they run finds the folders and the handler of that gateway.

    pair.make_volume()          # v0 on gw1, as the page makes it
    pair.follow("A planned move")
    pair.die("gw1")             # its handler is killed
    pair.check("gw2")           # which has it, and every block is what was written
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shown import ROOT, blocks
from stage import COMMAND_SECONDS_MAX, IQN, MIB, STATUS

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import IRAID, PYTHON, Gateway, wait_until
from iraid_dev.stack.reader import VolumeReader

PAGE = ROOT / "docs/operating/pair.md"
NAMES = ("gw1", "gw2")
# What stands where ssh and scp are looked for.  The words of a command are joined, as ssh does it.
REMOTE = """#!/usr/bin/python3
import json, os, subprocess, sys

gateways = json.load(open({table!r}))


def there(name, text):
    return text.replace({iqn!r} + "/0", {iqn!r} + "/1").replace("/etc/iraid", gateways[name]["config"])


words = sys.argv[1:]
if os.path.basename(sys.argv[0]) == "scp":
    places = [there(*word.split(":", 1)) for word in words]
    sys.exit(subprocess.run(["cp", "-p", *places]).returncode)
while words[0].startswith("-"):
    words = words[2 if words[0] == "-o" else 1 :]
name, *command = words
os.execve("/bin/bash", ["bash", "-euo", "pipefail", "-c", there(name, " ".join(command))], gateways[name]["environment"])
"""


class PairStage:
    def __init__(self, farm: TargetFarm, make_gateway: Callable[[], Gateway], folder: Path):
        self.farm, self._make_gateway, self.folder = farm, make_gateway, folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.gateways: dict[str, Gateway] = {}
        self.content = bytearray()
        self.typed: list[str] = []
        self.table = folder / "gateways.json"
        (self.bin / "iraid").write_text(f'#!/bin/sh\nexec {PYTHON} {IRAID} "$@"\n')
        for program in {"ssh", "scp"}:
            (self.bin / program).write_text(REMOTE.format(table=str(self.table), iqn=IQN))
        for path in self.bin.iterdir():
            path.chmod(0o755)
        for name in NAMES:
            self.new_gateway(name)

    def new_gateway(self, name: str) -> None:
        """A machine of this name, on which iraid is installed and runs, and that knows of nothing."""
        gateway = self._make_gateway()
        machine = gateway.folder / "machine-id"
        machine.write_text(f"{random.Random(str(gateway.folder)).getrandbits(128):032x}\n")
        gateway.machine = machine
        self.gateways[name] = gateway
        (gateway.config / "volumes").mkdir(exist_ok=True)
        gateway.start()
        path = f"{self.bin}:{os.environ['PATH']}:/usr/sbin:/sbin"
        self.table.write_text(
            json.dumps(
                {
                    one: {"config": str(made.config), "environment": made.environment() | {"PATH": path}}
                    for one, made in self.gateways.items()
                }
            )
        )

    # What happens

    def die(self, name: str) -> None:
        self.gateways[name].kill()

    def boot(self, name: str) -> None:
        """LIO opens the volumes that are exported: those which it has."""
        self.gateways[name].start("--start-all")

    def make_volume(self) -> None:
        """As the page does it; then an initiator fills it, by nbdkit: there is no kernel here."""
        self.follow("Set-up")
        gateway = self.gateways["gw1"]
        wait_until(lambda: gateway.status("v0")["regions"]["suspect"] == 0, "the first resync")
        gateway.must("stop", "v0")
        self.content = bytearray(random.Random(5).randbytes(self.reader().size))
        with gateway.serve("v0") as volume:
            handle = volume.connect()
            for begin in range(0, len(self.content), MIB):
                handle.pwrite(bytes(self.content[begin : begin + MIB]), begin)
            handle.flush()
        gateway.must("start", "v0")

    def reader(self) -> VolumeReader:
        return VolumeReader([self.farm.backing(number) for number in range(4)])

    # The page

    def follow(self, heading: str) -> None:
        shown = [block for block in blocks(PAGE) if block.heading == heading and block.where == "native"]
        assert shown, f"{PAGE} has no section '{heading}' with commands for here"
        for block in shown:
            for line in block.lines():
                self.must(line, str(block))

    def must(self, line: str, where: str = "") -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            env=os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        self.typed.append(f"$ {line}\n{done.stdout}{done.stderr}")
        said = STATUS.search(line)
        assert done.returncode == (int(said[1]) if said else 0), f"{where}: status {done.returncode}\n{self.said()}"
        return done.stdout

    def said(self) -> str:
        return "\n".join(self.typed)

    def last(self) -> str:
        return self.typed[-1]

    def wait_role(self, name: str, role: str) -> None:
        wait_until(
            lambda: self.gateways[name].status("v0")["role"] == role,
            f"{name} to be {role}; it has {self.gateways[name].status('v0')['role']}",
        )

    def check(self, name: str) -> None:
        """The gateway has it, with all that was written, and redundant."""
        gateway = self.gateways[name]
        status = wait_until(lambda: self._whole(gateway.status("v0")), f"v0 to be whole on {name}")
        assert status["role"] == "active", self.said()
        gateway.must("standby", "v0")
        assert self.reader().content() == self.content, self.said()
        assert self.reader().wrong_rows() == []

    @staticmethod
    def _whole(status: dict[str, Any]) -> dict[str, Any] | None:
        return status if status["state"] == "active" and status["regions"]["suspect"] == 0 else None
