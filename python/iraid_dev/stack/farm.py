"""A farm of real iSCSI targets on loopback: one tgtd process, port and backing file each.

    with TargetFarm(tmp_path, count=4, size_bytes=64 << 20) as farm:
        farm.member(0)      # "127.0.0.1:21001/iqn.2026-01.org.iraid.test:t0-21001/1"
        farm.kill(0)        # SIGKILL: the session sees a dead peer
        farm.restart(0)     # same port, same file
        farm.stop(1)        # SIGSTOP: the connection stays, nothing answers
        farm.cont(1)

Each target is a process of its own so that a test can kill or stop exactly one.  Ports are taken
below the range of ephemeral ports: an initiator that keeps connecting to a dead port inside
that range can in the end connect to itself.  tgtd's control port is the TCP port's number, so it
is as unique as the port is.  Serial number, SCSI id and target number (which the NAA name is made
of) are set, because tgtd gives the first LUN of every process the same ones.

Nothing survives the farm: leaving the context kills and reaps every tgtd, and a tgtd dies with the
farm's process where that is started from the main thread.  Standard library only; needs root
(tgtd's control socket) and the package tgt.

As a program it runs a farm until its standard input ends:

    python3 python/iraid_dev/stack/farm.py --directory /dev/shm/farm --count 4 --size 256M
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

LUN = 1  # tgtd keeps LUN 0 for its controller
READY_SECONDS_MAX = 60.0 if os.environ.get("IRAID_LAB") == "qemu" else 10.0  # software emulation is slower by far
CONTROL_DIRECTORY = Path("/var/run/tgtd")
START_ATTEMPTS_MAX = 3
PR_SET_PDEATHSIG = 1

# What a target must allow for large commands to go out without R2T round trips.
TUNED = {
    "MaxRecvDataSegmentLength": 262144,
    "MaxXmitDataSegmentLength": 262144,
    "FirstBurstLength": 262144,
    "MaxBurstLength": 1048576,
    "InitialR2T": "No",
    "ImmediateData": "Yes",
    "MaxOutstandingR2T": 16,
    "MaxQueueCmd": 512,
}


class FarmError(Exception):
    """A target could not be started or told something; the text has tgtd's own words."""


CACHING_PAGE_WITHOUT_CACHE = "mode_page=8:0:18:0x10:0:0xff:0xff:0:0:0xff:0xff:0xff:0xff:0x80:0x14:0:0:0:0:0:0"


@dataclasses.dataclass(frozen=True)
class TargetOptions:
    """How one target looks to its initiators."""

    size_bytes: int = 64 << 20
    block_bytes: int = 512
    readonly: bool = False
    device_type: str = "disk"  # "cd" for a LUN that is no disk
    chap: tuple[str, str] | None = None  # user and secret
    proof: tuple[str, str] | None = None  # the target's own, of mutual CHAP
    tuned: bool = True  # False leaves tgtd's own limits
    address: str = "127.0.0.1"
    write_cache: bool = True  # False: what was answered is on the medium
    portals: int = 1  # more give the same LUN further ports
    nop_seconds: int = 0  # the target pings idle sessions
    io_threads: int = 4
    prefix: tuple[str, ...] = ()  # for example ("ip", "netns", "exec", "t0")
    port: int = 0  # this one, instead of a free one, at an address that no other target has
    iqn: str = ""  # this one, instead of one made of number and port
    digests: bool = False  # agrees to CRC32C of headers and data


@dataclasses.dataclass
class Target:
    """One tgtd with one LUN."""

    number: int
    options: TargetOptions
    backing: Path
    ports: list[int] = dataclasses.field(default_factory=list)
    control_port: int = 0  # no other tgtd's, whatever the portals are
    identity: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex[:16])
    process: subprocess.Popen[bytes] | None = None
    stopped: bool = False

    @property
    def iqn(self) -> str:
        return self.options.iqn or f"iqn.2026-01.org.iraid.test:t{self.number}-{self.ports[0]}"

    @property
    def tid(self) -> int:
        """tgtd makes the LUN's NAA name of this number, so it differs between the targets."""
        return self.control_port

    @property
    def log(self) -> Path:
        return self.backing.with_suffix(".log")


class TargetFarm:
    """Context manager over `count` targets, alike unless `options` names each one's own."""

    def __init__(
        self,
        directory: Path | str,
        count: int = 1,
        size_bytes: int = 64 << 20,
        *,
        options: Sequence[TargetOptions] | None = None,
        **common: object,
    ) -> None:
        """`common` are fields of TargetOptions for all targets; `options` replaces count, size and common."""
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        alike = TargetOptions(size_bytes=size_bytes, **common)  # type: ignore[arg-type]
        chosen = list(options) if options is not None else [alike] * count
        self.targets = [
            Target(number, option, self.directory / f"member{number}.img") for number, option in enumerate(chosen)
        ]

    def __enter__(self) -> Self:
        try:
            self._create(self.targets)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.targets)

    # What a test asks for

    def portal(self, number: int, which: int = 0) -> str:
        target = self.targets[number]
        return f"{target.options.address}:{target.ports[which]}"

    def iqn(self, number: int) -> str:
        return self.targets[number].iqn

    def member(self, number: int, which: int = 0) -> str:
        """PORTAL/IQN/LUN as `iraid create` wants it; `which` chooses among several portals."""
        return f"{self.portal(number, which)}/{self.iqn(number)}/{LUN}"

    def members(self) -> list[str]:
        return [self.member(number) for number in range(len(self))]

    def backing(self, number: int) -> Path:
        """The LUN's content: byte n of the file is byte n of the LUN."""
        return self.targets[number].backing

    def digests(self) -> list[str]:
        """SHA-256 of each LUN: short enough to be shown when two differ."""
        return [hashlib.sha256(target.backing.read_bytes()).hexdigest() for target in self.targets]

    def log(self, number: int) -> str:
        return self.targets[number].log.read_text(errors="replace")

    # What a test does to a target

    def kill(self, number: int) -> None:
        """SIGKILL, and wait for the end: afterwards the port refuses connections."""
        self._end(self.targets[number])

    def stop(self, number: int) -> None:
        """SIGSTOP: a hung target; the kernel goes on acknowledging bytes until its buffers are full."""
        target = self.targets[number]
        self._signal(target, signal.SIGSTOP)
        _wait_for(lambda: _process_state(target) == "T", f"target {number} to stop")
        target.stopped = True

    def cont(self, number: int) -> None:
        target = self.targets[number]
        self._signal(target, signal.SIGCONT)
        target.stopped = False

    def restart(self, number: int) -> None:
        """Start again after kill(), or kill first: same portal, name, content and options."""
        target = self.targets[number]
        self._end(target)
        self._launch(target)
        self._set_up(target)

    def add(self, options: TargetOptions | None = None) -> int:
        """One target more; returns its number."""
        number = len(self.targets)
        target = Target(number, options or self.targets[0].options, self.directory / f"member{number}.img")
        self.targets.append(target)
        self._create([target])
        return number

    def set_chap(self, number: int, user: str, secret: str) -> None:
        """From now on logins need this user and secret; sessions that exist stay."""
        target = self.targets[number]
        target.options = dataclasses.replace(target.options, chap=(user, secret))
        self._apply_chap(target)

    def change_chap(self, number: int, user: str, secret: str) -> None:
        """After a restart logins need this user and secret."""
        target = self.targets[number]
        target.options = dataclasses.replace(target.options, chap=(user, secret))

    def forget_chap(self, number: int) -> None:
        """After a restart logins are asked for nothing."""
        target = self.targets[number]
        target.options = dataclasses.replace(target.options, chap=None, proof=None)

    def set_readonly(self, number: int, readonly: bool = True) -> None:
        target = self.targets[number]
        target.options = dataclasses.replace(target.options, readonly=readonly)
        self._lun_parameters(target, f"readonly={int(readonly)}")

    def resize_file(self, number: int, size_bytes: int) -> None:
        """Change the size of the backing file of a target that is not running; restart() shows it."""
        target = self.targets[number]
        if target.process is not None:
            raise FarmError(f"target {number} is running: kill it before changing its size")
        os.truncate(target.backing, size_bytes)

    def resize(self, number: int, size_bytes: int) -> None:
        """Give the LUN another size while its sessions and reservations stay.

        tgtd looks at a file's size when it opens it, and opens it anew only for a LUN that is offline; it refuses I/O
        of one that is offline only if it is removable (NOT READY, so initiators wait).  No initiator is told.
        """
        target = self.targets[number]
        self._lun_parameters(target, "removable=1,online=0")
        # tgtd would close the file under what its threads still do with it.
        _wait_for(lambda: _idle(target), f"target {number} to finish its I/O")
        os.truncate(target.backing, size_bytes)
        self._lun_parameters(target, f"path={target.backing},removable=0")

    def admin(self, number: int, *arguments: str) -> str:
        """Run tgtadm against this target; returns what it printed."""
        target = self.targets[number]
        if target.stopped:
            raise FarmError(f"target {number} is stopped and cannot be administered")
        command = ["tgtadm", "-C", str(target.control_port), "--lld", "iscsi", *arguments]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=READY_SECONDS_MAX, check=False,
            env=_plain_environment(),
        )  # fmt: skip
        if ran.returncode != 0:
            said = (ran.stderr or ran.stdout).strip()
            raise FarmError(f"target {number}: {' '.join(command)}: {said}\n{self.log(number)}")
        return ran.stdout

    def close(self) -> None:
        for target in self.targets:
            self._end(target)

    # How it is done

    def _create(self, targets: Sequence[Target]) -> None:
        for target in targets:
            if not target.backing.exists():
                target.backing.touch()
                os.truncate(target.backing, target.options.size_bytes)
        for attempt in range(START_ATTEMPTS_MAX):
            taken = {port for target in self.targets for port in (*target.ports, target.control_port)}
            try:
                for target in targets:
                    free = _free_ports(target.options, taken)
                    target.control_port = free[0]
                    target.ports = [target.options.port] if target.options.port else free
                    taken.update(free)
                    self._launch(target)
                with ThreadPoolExecutor(len(targets) or 1) as pool:  # each waits for its tgtd most of the time
                    list(pool.map(self._set_up, targets))
                return
            except FarmError:
                for target in targets:  # perhaps somebody took a port between our look and tgtd's bind
                    self._end(target)
                if attempt + 1 == START_ATTEMPTS_MAX:
                    raise

    def _launch(self, target: Target) -> None:
        """In the caller's own thread: tgtd dies with that."""
        options = target.options
        portals = ",".join(f"portal={options.address}:{port}" for port in target.ports)
        command = [
            *options.prefix, "tgtd", "-f", "-C", str(target.control_port),
            "-t", str(options.io_threads), "--iscsi", portals,
        ]  # fmt: skip
        with target.log.open("ab") as log:
            target.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_plain_environment(),
                preexec_fn=_die_with_parent(),
                start_new_session=True,
            )
        target.stopped = False

    def _set_up(self, target: Target) -> None:
        self._wait_until_ready(target)
        self._configure(target)

    def _wait_until_ready(self, target: Target) -> None:
        """The control socket belongs to this process (tgtd locks it); the portal must be its own too."""
        number = target.number

        def ready() -> bool:
            assert target.process is not None
            if target.process.poll() is not None:
                raise FarmError(f"target {number}: tgtd ended with {target.process.returncode}: {self.log(number)}")
            try:
                shown = self.admin(number, "--mode", "portal", "--op", "show")
            except FarmError:
                return False
            return all(str(port) in shown for port in target.ports)

        _wait_for(ready, f"target {number} on {self.portal(number)}")
        if not target.options.prefix:
            for port in target.ports:
                with socket.create_connection((target.options.address, port), READY_SECONDS_MAX):
                    pass

    def _configure(self, target: Target) -> None:
        number, options = target.number, target.options
        tid = ("--tid", str(target.tid))
        self.admin(number, "--mode", "target", "--op", "new", *tid, "--targetname", target.iqn)
        parameters: dict[str, object] = dict(TUNED) if options.tuned else {}
        if options.digests:
            parameters |= {"HeaderDigest": "CRC32C", "DataDigest": "CRC32C"}
        if options.nop_seconds:
            parameters |= {"nop_interval": options.nop_seconds, "nop_count": 5}
        for name, value in parameters.items():
            self.admin(number, "--mode", "target", "--op", "update", *tid, "--name", name, "--value", str(value))
        self.admin(
            number, "--mode", "logicalunit", "--op", "new", *tid, "--lun", str(LUN),
            "--device-type", options.device_type, "--backing-store", str(target.backing),
            *(("--blocksize", str(options.block_bytes)) if options.device_type == "disk" else ()),
        )  # fmt: skip
        self._lun_parameters(target, f"scsi_sn={target.identity},scsi_id=iraid-{target.identity}")
        if options.readonly:
            self._lun_parameters(target, "readonly=1")
        if not options.write_cache:
            self._lun_parameters(target, CACHING_PAGE_WITHOUT_CACHE)
        if options.chap:
            self._apply_chap(target)
        # Last: until here no initiator gets in, so none sees a half-made target.
        self.admin(number, "--mode", "target", "--op", "bind", *tid, "--initiator-address", "ALL")

    def _lun_parameters(self, target: Target, parameters: str) -> None:
        self.admin(
            target.number, "--mode", "logicalunit", "--op", "update", "--tid", str(target.tid),
            "--lun", str(LUN), "--params", parameters,
        )  # fmt: skip

    def _apply_chap(self, target: Target) -> None:
        assert target.options.chap is not None
        self._bind_account(target, *target.options.chap)
        if target.options.proof is not None:
            self._bind_account(target, *target.options.proof, "--outgoing")

    def _bind_account(self, target: Target, user: str, secret: str, *direction: str) -> None:
        account = ("--mode", "account", "--op")
        self.admin(target.number, *account, "new", "--user", user, "--password", secret)
        self.admin(target.number, *account, "bind", "--tid", str(target.tid), "--user", user, *direction)

    def _signal(self, target: Target, number: signal.Signals) -> None:
        if target.process is None:
            raise FarmError(f"target {target.number} is not running: it got no {number.name}")
        target.process.send_signal(number)

    def _end(self, target: Target) -> None:
        if target.process is None:
            return
        target.process.kill()
        target.process.wait()
        target.process = None
        target.stopped = False
        for name in (f"socket.{target.control_port}", f"socket.{target.control_port}.lock"):
            (CONTROL_DIRECTORY / name).unlink(missing_ok=True)


def _plain_environment() -> dict[str, str]:
    """Without what a sanitized test run preloads: tgtd is not what is tested."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def _die_with_parent() -> Callable[[], None] | None:
    """For Popen: the child gets SIGKILL when the thread that made it ends, so only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def before_the_program() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return before_the_program


def _process_state(target: Target) -> str:
    assert target.process is not None
    return Path(f"/proc/{target.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _idle(target: Target) -> bool:
    """Do all threads but the main one sleep?  Those that do I/O wait for work then."""
    assert target.process is not None
    pid = target.process.pid
    stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir() if task.name != str(pid)]
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


def _wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            raise FarmError(f"waited {READY_SECONDS_MAX:.0f} s for {what}")
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def _port_candidates() -> Iterator[int]:
    """Below the ephemeral range, and below 32768 because tgtd's control port is a short."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    highest = min(ephemeral, 32768)
    lowest = 10240 if highest > 12288 else 1024
    chosen = random.SystemRandom()
    while True:
        yield chosen.randrange(lowest, highest)


def _free_ports(options: TargetOptions, taken: Collection[int]) -> list[int]:
    ports: list[int] = []
    for port in _port_candidates():
        if (CONTROL_DIRECTORY / f"socket.{port}.lock").exists() or port in ports or port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("" if options.prefix else options.address, port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == options.portals:
            break
    return ports


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run iSCSI targets until standard input ends.")
    parser.add_argument("--directory", type=Path, required=True, help="for backing files and logs")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--size", type=_size, default=64 << 20, help="of each LUN: 64M, 1G")
    parser.add_argument("--block", type=int, default=512, help="bytes of a block: 512 or 4096")
    parser.add_argument("--untuned", action="store_true", help="leave tgtd's own limits")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with TargetFarm(
        chosen.directory, chosen.count, chosen.size, block_bytes=chosen.block, tuned=not chosen.untuned
    ) as farm:
        print("\n".join(farm.members()), flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
