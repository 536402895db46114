"""The stack inside the lab as an administrator would put it up: commands, shown before they run.

    targets (LIO of the same kernel)  <- tcmu-runner + handler  <- LIO, by targetcli  <- open-iscsi

Everything below is the real thing.  What the end-to-end tests have for it is used here as well.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from iraid.control.client import Client
from iraid.control.model import Volume
from iraid.lio import export_plan
from iraid_dev.steps.progress import Progress

from . import initiator
from .initiator import Disk, Initiator
from .lio_targets import LioTargets
from .runner import Runner
from .tools import COMMAND_SECONDS_MAX, IRAID, StackError, free_port, run, wait_for

TARGETS = Path("/sys/kernel/config/target/iscsi")
MEMORY = Path("/dev/shm")  # a plain tmpfs: the disks behind the backend targets lie here
RESYNC_SECONDS_MAX = 120
RESYNC_SHOWN_SECONDS = 2.0
BLOCK_512 = 512
USED_BYTES = 4 << 20  # random bytes cost, so the same are repeated


@dataclass
class Export:
    """One volume's LUN: what it is called, where it listens.  The same again after a restart."""

    volume: str
    size_bytes: int
    iqn: str
    port: int

    @property
    def portal(self) -> str:
        return f"127.0.0.1:{self.port}"


class Closing(Protocol):
    def close(self) -> None: ...


class Stack:
    def __init__(self, progress: Progress, handlers: Path | None = None):
        """`handlers`: the folder of tcmu-runner's handlers, if not only ours is wanted."""
        self.progress = progress
        self.log_folder = Path(progress.report.logs) / "log"
        self._handlers = handlers
        self._runner: Runner | None = None
        self.initiator = Initiator()
        self.client = Client()
        self._targets: list[LioTargets] = []
        self._exports: list[Export] = []
        self._disks: list[Disk] = []
        self.peers: list[Closing] = []  # what has to go before what is listed here
        self.networks: list[Closing] = []  # and what after it

    # --- backends ---

    def targets(
        self, name: str, count: int, size_bytes: int, *, used: bool = False, kind: type[LioTargets] = LioTargets
    ) -> LioTargets:
        """`used`: with random contents, as disks have that were something else before."""
        made = kind(MEMORY / f"iraid-{name}", count, size_bytes)
        if used:
            made.directory.mkdir(parents=True)
            for number in range(count):
                piece = os.urandom(USED_BYTES)
                with made.backing(number).open("wb") as file:
                    for _ in range(size_bytes // USED_BYTES):
                        file.write(piece)
        self._targets.append(made.__enter__())
        return made

    def remove_targets(self, targets: LioTargets) -> None:
        targets.close()
        self._targets.remove(targets)

    # --- tcmu-runner ---

    def start_runner(self) -> None:
        if self._runner is None:
            self._runner = Runner(self.log_folder, self._handlers)
        self._runner.start()

    def stop_runner(self) -> None:
        if self._runner is not None:
            self._runner.stop()

    @property
    def runner_pid(self) -> int:
        assert self._runner is not None and self._runner.process is not None
        return self._runner.process.pid

    # --- volumes ---

    def command(self, *words: str | Path, seconds: float = COMMAND_SECONDS_MAX) -> str:
        shown = [Path(word).name if isinstance(word, Path) else word for word in words]
        self.progress.say("$ " + shlex.join(shown))
        return run(*words, seconds=seconds)

    def create(self, name: str, level: str, members: list[str]) -> int:
        """Makes a volume.  Returns its size."""
        answer = json.loads(self.command(IRAID, "create", name, "--level", level, "--chunk", "64K", "--json", *members))
        for warning in answer["warnings"]:
            self.progress.say(f"warning: {warning}")
        return int(answer["size_bytes"])

    def status(self, name: str) -> Volume:
        return self.client.status(name)

    def say_resync(self, name: str) -> None:
        resync = self.status(name).resync
        state = "running" if resync.running else "complete"
        self.progress.say(f"resync of {name}: {state}, {resync.done_rows} of {resync.total_rows} rows")

    def wait_resynced(self, name: str) -> None:
        """Until the parity of every row is known to be right."""
        shown = [0.0]

        def done() -> bool:
            status = self.status(name)
            if not status.resync.running and status.regions.suspect == 0:
                return True
            now = time.monotonic()
            if now - shown[0] >= RESYNC_SHOWN_SECONDS:
                shown[0] = now
                self.say_resync(name)
            return False

        wait_for(done, f"the resync of volume {name}", RESYNC_SECONDS_MAX)

    # --- LIO, by targetcli alone ---

    def new_export(self, volume: str, size_bytes: int) -> Export:
        return Export(volume, size_bytes, f"iqn.2026-01.org.iraid.demo:{volume}", free_port())

    def export(self, export: Export, *, shown: bool = True) -> None:
        group = f"/iscsi/{export.iqn}/tpg1"
        parameters = " ".join(f"{name}={value}" for name, value in export_plan.GROUP_PARAMETERS.items())
        sectors = export_plan.TRANSFER_BYTES_MAX // BLOCK_512
        control = (
            f"max_data_area_mb={export_plan.DATA_AREA_MIB},"
            f"data_pages_per_blk={export_plan.DATA_PAGES_PER_BLOCK},"
            f"cmd_ring_size_mb={export_plan.COMMAND_RING_MIB}"
        )
        output = self.targetcli(
            f"/backstores/user:iraid create name={export.volume} size={export.size_bytes} "
            f"cfgstring={export.volume} hw_max_sectors={sectors} control={control}",
            f"/iscsi create {export.iqn}",
            f"{group} set parameter {parameters}",
            f"{group} set attribute default_cmdsn_depth={export_plan.QUEUE_DEPTH}",
            f"{group}/luns create /backstores/user:iraid/{export.volume}",
            f"{group}/acls create {initiator.name()}",
            f"{group}/portals create 127.0.0.1 {export.port}",
            shown=shown,
        )
        made = TARGETS / export.iqn / "tpgt_1"
        for path in (made / "lun/lun_0", made / "acls" / initiator.name() / "lun_0", made / "np" / export.portal):
            if not path.exists():
                raise StackError(f"targetcli did not make {path.relative_to(TARGETS)}:\n{output}")
        self._exports.append(export)

    def unexport(self, export: Export) -> None:
        output = self.targetcli(f"/iscsi delete {export.iqn}", f"/backstores/user:iraid delete {export.volume}")
        if (TARGETS / export.iqn).exists():
            raise StackError(f"targetcli did not delete {export.iqn}:\n{output}")
        self._exports.remove(export)

    def targetcli(self, *lines: str, shown: bool = True) -> str:
        """All lines in one go: a start of targetcli takes seconds in user-mode Linux.

        The shell goes on after a line that failed and exits with 0, so callers look at what
        is there afterwards.
        """
        for line in lines if shown else ():
            self.progress.say(f"targetcli> {line}")
        text = (
            "\n".join(["set global auto_add_default_portal=false", "set global auto_save_on_exit=false", *lines]) + "\n"
        )
        done = subprocess.run(
            ["targetcli"],
            input=text,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        with (self.log_folder / "targetcli").open("a") as log:
            log.write(f"{text}\n{done.stdout}\n")
        if done.returncode != 0:
            raise StackError(f"targetcli ended with status {done.returncode}:\n{done.stdout}")
        return done.stdout

    # --- initiator ---

    def login(self, export: Export) -> Disk:
        disk = self.login_to(export.iqn, export.portal)
        if disk.size_bytes != export.size_bytes:
            raise StackError(f"{disk.path} has {disk.size_bytes} bytes, volume {export.volume} has {export.size_bytes}")
        return disk

    def login_to(self, iqn: str, portal: str) -> Disk:
        self.progress.say(f"$ iscsiadm -m node -T {iqn} -p {portal} --login")
        self._disks.append(self.initiator.login(iqn, portal))
        return self._disks[-1]

    def logout(self, disk: Disk) -> None:
        self.initiator.logout(disk)
        self._disks.remove(disk)

    # --- the end, wherever it went wrong ---

    def take_down(self) -> list[str]:
        """Everything away, in the order that hangs nothing.  Returns what did not go."""
        faults = []

        def go(action: Callable[..., None], *arguments: object) -> None:
            try:
                action(*arguments)
            except Exception as error:  # noqa: BLE001 - the rest has to go all the same
                faults.append(f"{type(error).__name__}: {error}")

        for peer in reversed(self.peers):
            go(peer.close)
        for disk in list(self._disks):
            go(self.logout, disk)
        for export in list(self._exports):
            go(self.unexport, export)
        go(self.stop_runner)
        for targets in self._targets:
            go(targets.close)
        for network in self.networks:
            go(network.close)
        return faults
