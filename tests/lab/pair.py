"""Two gateways, a and b, an initiator i, and four members on the machine that they run on: for programs beside the
machines of `scripts/lab --machines a,b,i`.

    with Pair(folder, "multipath") as pair:
        pair.begin_writing()
        pair.fault("killed kernel")
        pair.a.machine.kill()
        pair.take_over(pair.b)
        pair.wait_writes(pair.b)
        print(pair.end_writing())

Roles are moved by hand: what a cluster manager would decide, and the time that it takes to decide, is not part of it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from member_spy import MemberSpy

from iraid_dev.lab.machines import Background, Done, Machine, MachineGone, Machines
from iraid_dev.lab.run import INITIATOR
from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.reader import VolumeReader

GUEST = ROOT / "tests/lab/guest"
WRITER = ROOT / "python/iraid_dev/stack/ack_writer.py"
IRAID = ROOT / "scripts/iraid"
VOLUME, IQN = "v0", "iqn.2026-01.org.iraid.test:v0"
MOVING_ADDRESS = "10.77.0.50"
MEMBERS = 4
MEMBER_ADDRESSES = [f"10.77.1.{101 + number}" for number in range(MEMBERS)]
MEMBER_BYTES = 64 << 20
SLOTS, SLOT_BYTES = 4096, 20480
FIO_OFFSET, FIO_BYTES = 100 << 20, 24 << 20  # behind the slots
WRITES_GO_ON = 50  # so many writes at the members say that they do
MULTIPATH, ADDRESS = "multipath", "address"
PATHS = (MULTIPATH, ADDRESS)

# Writes a part of the disk and reads what it wrote, again and again: what it read must be of this turn.
FIO = (
    f"fio --name=verify --offset={FIO_OFFSET} --size={FIO_BYTES} --bs=16k --rw=randwrite --ioengine=libaio --iodepth=4 "
    "--direct=1 --randrepeat=0 --verify=crc32c --verify_backlog=32 --verify_fatal=1 --output-format=terse --filename="
)

# Beside what the package ships.  This machine has no other disks, so every path is one of ours.
MULTIPATH_CONFIGURATION = """
defaults {
	find_multipaths no
	user_friendly_names yes
}
"""
PACKAGED_CONFIGURATION = ROOT / "config/multipath/iraid.conf"
# User-mode Linux lacks scsi_dh_alua, which other kernels attach by themselves.
NO_HANDLER = 's/^\\t*vendor .*/&\\nhardware_handler "0"/'
# Seconds until a silent path is given up: dm-multipath has another one; a single path must wait.
ISCSI_TIMES = {MULTIPATH: (2, 2, 2), ADDRESS: (2, 2, 600)}


class PairError(Exception):
    """Something did not come to pass; the text says what."""


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise PairError(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


@dataclass
class Seen:
    """What a fault did to the initiator, and to the media."""

    fault: str
    path: str
    stall_seconds: float = 0.0
    promote_ms: int = 0  # of the new gateway: from the order to the first answer
    errors: list[str] = field(default_factory=list)
    writes: int = 0
    fio_turns: int = 0
    checked: int = 0
    lost: list[str] = field(default_factory=list)
    late_writes: int = 0
    late_reads: int = 0
    wrong_rows: int = 0
    steps: list[tuple[str, float]] = field(default_factory=list)

    def clean(self) -> bool:
        return not (self.errors or self.lost or self.late_writes or self.late_reads or self.wrong_rows)


HERE = "/sys/kernel/config/target/core/user_*/*/alua/iraid_here/alua_access_state"
STANDBY = "2"


class Gateway:
    """One of the two, with its runner."""

    def __init__(self, machine: Machine, number: int):
        self.machine, self.number = machine, number
        self.members_see = machine.address("back")

    def iraid(self, *words: str, seconds: float = 60.0) -> Done:
        return self.machine.run(f"{IRAID} {' '.join(words)}", seconds=seconds)

    def status(self) -> dict[str, Any]:
        status = json.loads(self.iraid("status", VOLUME, "--json").output)
        assert isinstance(status, dict)
        return status

    def role(self) -> str:
        """Empty where nobody tells it."""
        try:
            return str(self.status()["role"])
        except (MachineGone, ValueError, KeyError):
            return ""

    def start_runner(self) -> None:
        self.machine.run(str(GUEST / "runner")).good()

    def kill_runner(self) -> None:
        self.machine.run("kill -9 $(cat /run/runner.pid)").good()

    def come_back(self) -> None:
        """After a boot, as the services of systemd do it; then the cluster manager's start."""
        self.start_runner()
        self.machine.run("targetctl restore").good()
        if self._is_pair():
            wait_until(self._sends_away, f"{self.machine.name} to send initiators to the other one, untold", 60.0)
        self.iraid("standby", VOLUME).good()

    def _is_pair(self) -> bool:
        return self.machine.run(f"cat {HERE}").status == 0

    def _sends_away(self) -> bool:
        return self.machine.run(f"cat {HERE}").output.strip() == STANDBY

    def export(self, path: str) -> None:
        words = ["--iqn", IQN, "--portal", "0.0.0.0:3260", "--acl", f"{INITIATOR}-i", "--no-chap"]
        self.iraid("export", VOLUME, *words, *(["--pair", str(self.number)] if path == MULTIPATH else [])).good()

    def take_address(self) -> None:
        self.machine.run(f"{GUEST}/take-address {MOVING_ADDRESS} front").good()

    def give_address(self) -> None:
        self.machine.run(f"ip address delete {MOVING_ADDRESS}/24 dev front 2>/dev/null")


class Pair:
    def __init__(self, folder: Path, path: str):
        machines = Machines.of_this_lab()
        self.a, self.b = Gateway(machines["a"], 1), Gateway(machines["b"], 2)
        self.initiator = machines["i"]
        self.path = path
        shutil.rmtree(folder / "members", ignore_errors=True)
        self.farm = TargetFarm(folder / "members", options=[TargetOptions(size_bytes=MEMBER_BYTES)] * MEMBERS)
        self.spy: MemberSpy
        self.device = ""
        self.active = self.a
        self._writer: Background | None = None
        self._verifier: Background | None = None
        self._runs = 0
        self.seen = Seen("", path)
        self._fault_at = 0.0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for address in MEMBER_ADDRESSES:
            subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "back"], check=True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.farm)
            self.spy = stack.enter_context(MemberSpy(self.farm, MEMBER_ADDRESSES))
            self._make_volume()
            self._log_in()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make_volume(self) -> None:
        for gateway in (self.a, self.b):
            gateway.start_runner()
        self.a.iraid("create", VOLUME, "--level", "5", "--wait", *self.spy.members()).good()
        configuration = self.a.machine.run("tar -C /etc/iraid -c . | base64").good().output
        self.b.machine.run("base64 -d | tar -C /etc/iraid -x", given=configuration).good()
        # LIO tells gateways apart by their initiator names alone: b has one of its own.
        self.b.machine.run(f"sed -i /^initiator/d /etc/iraid/volumes/{VOLUME}.conf").good()
        self.b.iraid("standby", VOLUME).good()
        self.a.export(self.path)
        self.move(self.b)
        self.b.export(self.path)
        self.move(self.a)

    def _log_in(self) -> None:
        interval, timeout, replacement = ISCSI_TIMES[self.path]
        changes = {
            "node.conn\\[0\\].timeo.noop_out_interval": interval,
            "node.conn\\[0\\].timeo.noop_out_timeout": timeout,
            "node.session.timeo.replacement_timeout": replacement,
        }
        edit = ";".join(f"s/^\\({name}\\) *=.*/\\1 = {value}/" for name, value in changes.items())
        self.initiator.run(f"sed -i '{edit}' /etc/iscsi/iscsid.conf").good()
        self.initiator.run("/lib/systemd/systemd-udevd --daemon").good()
        if self.path == MULTIPATH:
            self.initiator.run("cat >/etc/multipath.conf", given=MULTIPATH_CONFIGURATION).good()
            shown = f"sed '{NO_HANDLER}' {PACKAGED_CONFIGURATION} >/etc/multipath/conf.d/iraid.conf"
            self.initiator.run(f"mkdir -p /etc/multipath/conf.d && {shown}").good()
            self.initiator.run("modprobe -a dm-multipath dm-service-time && multipathd").good()
            portals = [gateway.machine.address("front") for gateway in (self.a, self.b)]
            self.device = "/dev/mapper/mpatha"
        else:
            portals = [MOVING_ADDRESS]
            self.device = "/dev/sda"
        for portal in portals:
            node = f"iscsiadm -m node -T {IQN} -p {portal}"
            self.initiator.run(f"{node} -o new && {node} --login").good()
        wait_until(lambda: self.initiator.run(f"test -b {self.device}").status == 0, f"{self.device} on the initiator")

    # Roles

    def other(self, gateway: Gateway) -> Gateway:
        return self.b if gateway is self.a else self.a

    def move(self, to: Gateway) -> None:
        """As planned: nobody is fenced."""
        self._leave(self.other(to))
        self.other(to).iraid("standby", VOLUME).good()
        self.step(f"{self.other(to).machine.name} on standby")
        self._activate(to)

    def take_over(self, to: Gateway, reaches_other: bool = False) -> None:
        """reaches_other: what is told to the one whose turn is over comes there; it may not be able to do it."""
        if reaches_other:
            self._leave(self.other(to))
            self.other(to).iraid("standby", VOLUME, seconds=30.0)
            self.step(f"{self.other(to).machine.name} told")
        self._activate(to, "--take-over")

    def _leave(self, gateway: Gateway) -> None:
        if self.path == ADDRESS:
            gateway.give_address()

    def _activate(self, to: Gateway, *options: str) -> None:
        self.spy.forgive(to.members_see)
        to.iraid("activate", VOLUME, "--timeout", "30", *options).good()
        self.active = to
        self.step(f"{to.machine.name} active")
        if self.path == ADDRESS:
            to.take_address()
            self.step("address moved")

    def wait_role(self, gateway: Gateway, role: str, seconds: float = 60.0) -> None:
        wait_until(lambda: gateway.role() == role, f"{gateway.machine.name} to be {role}", seconds)

    # Load

    def begin_writing(self) -> None:
        self._runs += 1
        before = self._written()
        words = f"--journal /root/journal --slot-bytes {SLOT_BYTES} --slots {SLOTS} --until /root/end{self._runs}"
        self._writer = self.initiator.start(
            f"python3 {WRITER} write --device {self.device} {words} --seconds 1000", seconds=1100.0
        )
        turns = (
            f"n=0; until [ -e /root/end{self._runs} ]; do {FIO}{self.device} >&2 || exit 1; n=$((n + 1)); done; echo $n"
        )
        self._verifier = self.initiator.start(turns, seconds=1100.0)
        wait_until(lambda: self._written() > before + WRITES_GO_ON, "the first writes at the members")

    def _written(self) -> int:
        return sum(self.spy.writes.values())

    def wait_writes(self, gateway: Gateway, seconds: float = 120.0) -> None:
        before = self.spy.writes[gateway.members_see]
        wait_until(
            lambda: self.spy.writes[gateway.members_see] > before + WRITES_GO_ON,
            f"writes through {gateway.machine.name}",
            seconds,
        )
        self.step(f"writes through {gateway.machine.name}")

    def fault(self, name: str) -> None:
        """From now on steps are timed."""
        self.seen = Seen(name, self.path)
        self._fault_at = time.monotonic()

    def seconds(self) -> float:
        """Since the fault."""
        return time.monotonic() - self._fault_at

    def step(self, name: str) -> None:
        self.seen.steps.append((name, round(self.seconds(), 2)))

    def note_promotion(self) -> None:
        """As the active gateway's own events have it."""
        events = json.loads(self.active.iraid("events", VOLUME, "--json").good().output)["events"]
        activated = max(number for number, event in enumerate(events) if event["kind"] == "activated")
        assembled = next(event for event in events[activated:] if event["kind"] == "assembled")
        self.seen.promote_ms = assembled["time_ms"] - events[activated]["time_ms"]

    def end_writing(self) -> Seen:
        """And what there is to see, when the media are as the volume wants them."""
        assert self._writer is not None and self._verifier is not None
        self.note_promotion()
        self.initiator.run(f"touch /root/end{self._runs}").good()
        wrote = json.loads(self._writer.wait(180.0).good().output.splitlines()[-1])
        seen = self.seen
        seen.stall_seconds, seen.errors, seen.writes = wrote["gap_seconds"], wrote["errors"], wrote["writes"]
        verified = self._verifier.wait(180.0)
        if verified.status == 0:
            seen.fio_turns = int(verified.output)
        else:
            seen.errors.append(f"fio: {verified.errors[-500:]}")
        words = f"--journal /root/journal --slot-bytes {SLOT_BYTES} --slots {SLOTS}"
        checked = self.initiator.run(f"python3 {WRITER} check --device {self.device} {words}", seconds=180.0)
        found = json.loads(checked.good().output)
        seen.checked, seen.lost = found["checked"], found["lost"]
        for gateway in (self.a, self.b):
            for late in self.spy.late(gateway.members_see):
                seen.late_writes += late.is_write
                seen.late_reads += not late.is_write
                seen.steps.append((f"LATE {gateway.machine.name} {late}", 0.0))
        self.seen = Seen("", self.path)
        return seen

    def wait_resynced(self) -> None:
        def resynced() -> bool:
            status = self.active.status()
            return status["state"] == "active" and not status["resync"]["running"] and status["regions"]["suspect"] == 0

        wait_until(resynced, "the volume to be whole", 120.0)

    def wrong_rows(self) -> int:
        """Of a volume that nobody writes to."""
        return len(VolumeReader([self.farm.backing(number) for number in range(MEMBERS)]).wrong_rows())
