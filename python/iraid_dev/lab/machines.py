"""The machines of `scripts/lab --machines a,b`, for the command that runs beside them:

    machines = Machines.of_this_lab()
    machines["a"].run("ping -c 1 b", seconds=10).good()
    machines["a"].cut("peer")

Every call ends: by its own time limit, or with the lab.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import shutil
import signal
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from . import network
from .run import GUEST, LabError, Options, RunDirectory
from .supervise import kill_session, lives
from .uml import Uml, make_image, parse_size

AGENT_PORT = 77
FIRST_HOST = 11
BOOT_SECONDS, SYSTEMD_BOOT_SECONDS = 120.0, 400.0  # on a busy machine


class MachineGone(Exception):
    """A machine gave no answer: it stands still, is dead, or its command took too long."""


@dataclass(frozen=True)
class Done:
    status: int
    output: str
    errors: str

    def good(self) -> Done:
        assert self.status == 0, f"exit status {self.status}\n{self.output}{self.errors}"
        return self


class Background(threading.Thread):
    """A command that goes on in a machine."""

    def __init__(self, machine: Machine, command: str, seconds: float):
        super().__init__(daemon=True)
        self._given = (machine, command, seconds)
        self._done: Done | Exception = MachineGone(f"{command[:200]} has not ended")
        self.start()

    def run(self) -> None:
        machine, command, seconds = self._given
        try:
            self._done = machine.run(command, seconds=seconds)
        except MachineGone as gone:
            self._done = gone

    def wait(self, seconds: float) -> Done:
        self.join(seconds)
        if isinstance(self._done, Exception):
            raise self._done
        return self._done


class Machine:
    def __init__(self, name: str, number: int, lab: Path):
        self.name = name
        self.host = FIRST_HOST + number
        self.state = lab / name
        self._lab = lab

    def address(self, net: str) -> str:
        """In one of the networks front, back and peer."""
        return network.address(net, self.host)

    def run(self, command: str, given: str = "", seconds: float = 60.0) -> Done:
        """By bash, as root, in the directory of the lab's caller."""
        asked = json.dumps({"command": command, "input": given, "seconds": seconds}).encode() + b"\n"
        address = (self.address(network.CONTROL), AGENT_PORT)
        try:
            with socket.create_connection(address, timeout=min(seconds, 10.0)) as connection:
                connection.settimeout(seconds + 10.0)
                connection.sendall(asked)
                with connection.makefile("rb") as answers:
                    line = answers.readline()
        except OSError as error:
            raise MachineGone(f"machine {self.name}: {error} for: {command[:200]}") from None
        if not line:
            raise MachineGone(f"machine {self.name} ended during: {command[:200]}")
        answer = json.loads(line)
        return Done(answer["status"], answer["output"], answer["errors"])

    def start(self, command: str, seconds: float = 3600.0) -> Background:
        return Background(self, command, seconds)

    def wait_until(self, command: str, seconds: float = 120.0) -> None:
        """Until it exits with 0, asked again and again."""
        deadline = time.monotonic() + seconds
        while (done := self.run(command)).status != 0:
            assert time.monotonic() < deadline, f"waited {seconds:g} s on {self.name} for: {command}\n{done.errors}"
            time.sleep(0.2)

    # Its cables

    def cut(self, net: str) -> None:
        network.cut(net, self.name)

    def heal(self, net: str) -> None:
        network.heal(net, self.name)

    def cut_from(self, net: str, address: str) -> None:
        """From one address of this machine's (the lab's), in both directions."""
        network.cut_pair(self.address(net), address)

    def heal_from(self, net: str, address: str) -> None:
        network.heal_pair(self.address(net), address)

    def slow(self, net: str, how: str) -> None:
        """What it sends; how: as tc-netem(8) has it, "delay 50ms", "loss 10%", "rate 10mbit"."""
        self.run(f"modprobe sch_netem && tc qdisc replace dev {net} root netem {how}").good()

    def quick(self, net: str) -> None:
        """No longer slow."""
        self.run(f"tc qdisc del dev {net} root").good()

    # Its kernel

    def freeze(self) -> None:
        """It stands still, with all its programs, until thaw()."""
        os.kill(self._pid(), signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._pid(), signal.SIGCONT)

    def kill(self) -> None:
        """A power failure.  What it had not written to its disk is lost."""
        kill_session(self._pid())

    def lives(self) -> bool:
        """Its kernel runs, or stands still."""
        return lives(self._pid())

    def boot(self) -> None:
        """After kill(), or another end."""
        self.begin_boot()
        self.wait_up()

    def begin_boot(self) -> None:
        run = RunDirectory(self._options())
        if run.kernel_log.exists():
            lives = len(list(self.state.glob("kernel*.log")))
            run.kernel_log.rename(self.state / f"kernel-{lives}.log")
        run.write_settings()
        run.write_command()
        with (self.state / "output.log").open("ab") as out, (self.state / "output.log").open("ab") as err:
            process = Uml().start(run.options, run, out.fileno(), err.fileno())
        (self.state / "pid").write_text(f"{process.pid}\n")

    def wait_up(self) -> None:
        seconds = SYSTEMD_BOOT_SECONDS if description(self._lab).systemd else BOOT_SECONDS
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.run("true", seconds=5.0).good()
                return
            except MachineGone:
                log = self.state / "kernel.log"
                if not self.lives():
                    raise LabError(f"the kernel of machine {self.name} ended in its boot; see {log}") from None
                if time.monotonic() > deadline:
                    raise LabError(f"machine {self.name} was not up after {seconds:g} s; see {log}") from None
                time.sleep(0.1)

    def _pid(self) -> int:
        return int((self.state / "pid").read_text())

    def _options(self) -> Options:
        lab = description(self._lab)
        return dataclasses.replace(
            lab,
            command=[
                "/usr/bin/python3",
                "-SE",
                str(GUEST / "agent.py"),
                self.address(network.CONTROL),
                str(AGENT_PORT),
            ],
            state=self.state,
            disk=_disk(self._lab, self.name).parent,
            machines=[],
            name=self.name,
            nics=[network.nic(net, self.name, self.host) for net in network.NETWORKS],
            hosts={name: network.address("peer", FIRST_HOST + number) for number, name in enumerate(lab.machines)},
        )


class Machines(dict[str, Machine]):
    def __init__(self, lab: Path):
        super().__init__({name: Machine(name, number, lab) for number, name in enumerate(description(lab).machines)})

    @classmethod
    def of_this_lab(cls) -> Machines:
        if not os.environ.get("IRAID_LAB_MACHINES"):
            raise LabError("not in a lab of several machines; run it with scripts/lab --machines a,b,i -- ...")
        return cls(Path(os.environ["IRAID_LAB_STATE"]))


def describe(options: Options, lab: Path) -> None:
    (lab / "machines.pickle").write_bytes(pickle.dumps(options))


def description(lab: Path) -> Options:
    options = pickle.loads((lab / "machines.pickle").read_bytes())
    assert isinstance(options, Options)
    return options


def _disk(lab: Path, machine: str) -> Path:
    return lab / f"{machine}.disk" / "disk.img"


def make_disks(lab: Path) -> None:
    """New ones, and nothing else of an earlier run with the same --state."""
    remove_disks(lab)
    options = description(lab)
    for name in options.machines:
        shutil.rmtree(lab / name, ignore_errors=True)
        _disk(lab, name).parent.mkdir()
        make_image(_disk(lab, name), parse_size(options.persist_size))


def remove_disks(lab: Path) -> None:
    for name in description(lab).machines:
        shutil.rmtree(_disk(lab, name).parent, ignore_errors=True)


def collect_state(machines: Machines) -> None:
    """Of those that answer; at the same time, because a stuck one is waited for."""
    waiting = []
    for machine in machines.values():
        command = f". {machine.state}/settings; . {GUEST}/common; collect_state; sync -f {machine.state}/after"
        waiting.append(machine.start(command, seconds=30.0))
    for one in waiting:
        with contextlib.suppress(MachineGone):
            one.wait(45.0)
