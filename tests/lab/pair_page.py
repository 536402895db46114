#!/usr/bin/python3
"""Beside the machines gw1 and gw2: types docs/operating/pair.md on two gateways with LIO, as it stands, and has happen what
its sections are for.

    scripts/lab --machines gw1,gw2 -- tests/lab/pair_page.py

Not as shown: LUN 0 of a target is LUN 1, for tgtd keeps 0.  "ssh gw1 COMMAND" is carried out by the lab, not by ssh.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from iraid_dev.lab.machines import Done, Machine, Machines
from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.reader import VolumeReader

sys.path.insert(0, str(ROOT / "tests/docs"))
from shown import blocks

PAGE = ROOT / "docs/operating/pair.md"
GUEST = ROOT / "tests/lab/guest"
IQN = "iqn.2026-01.org.example:disk"
ADDRESSES = [f"10.0.0.{number}" for number in range(1, 5)]
MEMBER_BYTES = 64 << 20
TYPED = ("native", "other")  # the others are examples


class Page:
    def __init__(self, machines: Machines):
        self.machines = {name: machines[name] for name in ("gw1", "gw2")}

    def prepare(self) -> None:
        for address in ADDRESSES:
            subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "back"], check=True)
        for number, name in enumerate(self.machines, 1):
            self.machines[name].run(
                f"printf '#!/bin/sh\\nexec {ROOT}/scripts/iraid \"$@\"\\n' >/usr/local/bin/iraid && "
                f"cp {GUEST}/ssh /usr/local/bin/ssh && chmod +x /usr/local/bin/* && "
                "install -d -m 0700 /etc/iraid/volumes /etc/iraid/secrets"  # as the package does
            ).good()
            self.connect(name, number)
            self.machines[name].run(f"{GUEST}/runner").good()

    def connect(self, name: str, number: int) -> None:
        for address, net in ((f"10.0.0.{10 + number}", "back"), (f"10.1.0.{number}", "front")):
            self.machines[name].run(f"ip address add {address}/24 dev {net}").good()

    def boot(self, name: str, number: int) -> None:
        """And what systemd starts."""
        self.machines[name].boot()
        self.connect(name, number)
        self.machines[name].run(f"{GUEST}/runner && targetctl restore").good()

    def follow(self, heading: str) -> None:
        shown = [block for block in blocks(PAGE) if block.heading == heading and block.where in TYPED]
        assert shown, f"{PAGE} has no section '{heading}' with commands"
        for block in shown:
            for line in block.lines():
                self.type(line)
        print(heading, flush=True)

    def type(self, line: str) -> Done:
        done = self._typed(line.replace(f"{IQN}/0", f"{IQN}/1"))
        print(f"$ {line}\n{done.output}{done.errors}", file=sys.stderr, flush=True)
        assert done.status == 0, f"{line}: status {done.status}"
        return done

    def _typed(self, line: str) -> Done:
        if copy := re.fullmatch(r"scp (\w+):(\S+) (\w+):(\S+)", line):
            source, path, target, folder = copy.groups()
            text = self.machines[source].run(f"cat {path}").good().output
            return self.machines[target].run(f"cat >{folder}{Path(path).name}", given=text)
        there = re.fullmatch(r"ssh (\w+) (.*)", line)
        assert there, f"{line}: it is not said on which gateway"
        return self.machines[there[1]].run(there[2])


def is_whole(gateway: Machine) -> bool:
    status = json.loads(gateway.run("iraid status v0 --json").good().output)
    return bool(status["state"] == "active" and status["regions"]["suspect"] == 0)


def wait_whole(gateway: Machine) -> None:
    deadline = time.monotonic() + 120
    while not is_whole(gateway):
        assert time.monotonic() < deadline, "v0 is not whole after two minutes"
        time.sleep(0.2)


def main() -> None:
    options = [TargetOptions(size_bytes=MEMBER_BYTES, address=address, port=3260, iqn=IQN) for address in ADDRESSES]
    page = Page(Machines.of_this_lab())
    page.prepare()
    with TargetFarm(Path(os.environ["IRAID_LAB_STATE"]) / "members", options=options) as farm:
        page.follow("Set-up")
        page.type("ssh gw2 iraid standby v0")
        page.type("ssh gw1 iraid activate v0")
        page.follow("A planned move")
        page.type("ssh gw2 iraid standby v0")
        page.type("ssh gw1 iraid activate v0")
        page.machines["gw1"].kill()
        page.follow("Fail-over by hand")
        page.boot("gw1", 1)
        page.follow("The other gateway is back")
        wait_whole(page.machines["gw2"])
        page.type("ssh gw2 iraid standby v0")
        assert not VolumeReader([farm.backing(number) for number in range(len(ADDRESSES))]).wrong_rows()


if __name__ == "__main__":
    main()
