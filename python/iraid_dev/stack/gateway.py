"""The whole stack as a test uses it: runner, iraid command, LIO, initiator; and its tear-down.

The order of the tear-down matters: initiators log out, LUNs go, volumes go, then the runner, then
the backends.  A runner that ends while a LUN is there leaves tasks that nothing can kill.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from dataclasses import dataclass, field

from iraid.cli.main import main as iraid_main

from . import initiator
from .initiator import Disk, Initiator
from .runner import Runner
from .tools import StackError, free_port, wait_for

_names = itertools.count()


def attempt_iraid(*words: str) -> tuple[int, str]:
    """Status and output of the iraid command, run inside this process: to start a Python with all
    its modules takes seconds in user-mode Linux.  test_lio_export.py starts the real one."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = iraid_main(list(words))
    return status, output.getvalue()


def iraid(*words: str) -> str:
    status, output = attempt_iraid(*words)
    if status != 0:
        raise StackError(f"iraid {' '.join(words)}: status {status}\n{output}")
    return output


@dataclass
class Volume:
    """One volume of the gateway; exported and logged in to when a test asks for it."""

    name: str
    gateway: Gateway
    iqn: str = ""
    portal: str = ""
    disk: Disk | None = None

    def status(self) -> dict:
        return json.loads(iraid("status", self.name, "--json"))

    def export(self, *options: str) -> None:
        self.iqn = f"iqn.2026-01.org.iraid.test:{self.name}"
        self.portal = f"127.0.0.1:{free_port()}"
        iraid(
            "export",
            self.name,
            "--iqn",
            self.iqn,
            "--portal",
            self.portal,
            "--acl",
            initiator.name(),
            "--no-chap",
            *options,
        )

    def login(self) -> Disk:
        if not self.iqn:
            self.export()
        self.disk = self.gateway.initiator.login(self.iqn, self.portal)
        return self.disk

    def logout(self) -> None:
        assert self.disk is not None
        self.gateway.initiator.logout(self.disk)
        self.disk = None

    def unexport(self) -> None:
        iraid("unexport", self.name)
        self.iqn = ""

    def wait_until(self, state: str, seconds: float = 60) -> dict:
        def reached() -> dict | None:
            status = self.status()
            return status if status["state"] == state else None

        return wait_for(reached, f"volume {self.name} to be {state}", seconds)

    def wait_resynced(self, seconds: float = 120) -> None:
        def done() -> bool:
            status = self.status()
            return not status["resync"]["running"] and status["regions"]["suspect"] == 0

        wait_for(done, f"the resync of volume {self.name}", seconds)


@dataclass
class Gateway:
    runner: Runner
    initiator: Initiator = field(default_factory=Initiator)
    volumes: list[Volume] = field(default_factory=list)

    def create(self, level: int, members: list[str], *options: str) -> Volume:
        volume = Volume(f"v{next(_names)}", self)
        iraid("create", volume.name, "--level", str(level), *options, *members)
        self.volumes.append(volume)
        iraid("start", volume.name)  # create returns before the volume is assembled
        return volume

    def remove(self, volumes: list[Volume]) -> None:
        """Takes volumes down, whatever state a test left them in; complains about what stays."""
        faults = []
        for volume in reversed(volumes):
            faults += self.initiator.logout_all(volume.iqn)
            orders = [["unexport", volume.name, "--force"]] if volume.iqn else []
            for words in (*orders, ["delete", volume.name, "--yes"]):
                status, text = attempt_iraid(*words)
                if status != 0:
                    faults.append(f"iraid {' '.join(words)}: {text}")
            self.volumes.remove(volume)
        if faults:
            raise StackError("tear-down: " + "\n".join(faults))
