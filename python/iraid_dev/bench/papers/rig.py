"""What the papers' experiments stand on: targets behind shaped links, volumes on them, fio.

    fio - open-iscsi - LIO - tcmu-runner, handler ==== shaped link ==== LIO target in its namespace (fileio on tmpfs)
    fio - open-iscsi ================================= shaped link ==== the same: the plain target

Only the links to the targets are shaped; the initiator sits beside the gateway, as in the paper, whose gateway was in the
initiator.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtslib_fb as rtslib

from iraid_dev.bench.core import processor
from iraid_dev.bench.core.cells import Shape
from iraid_dev.bench.core.initiator_settings import deepen_queues
from iraid_dev.bench.core.load import settle
from iraid_dev.bench.core.network import Network, NetworkTargets
from iraid_dev.bench.core.systems import Md
from iraid_dev.stack.gateway import Gateway, Volume, iraid
from iraid_dev.stack.initiator import Disk, Initiator
from iraid_dev.stack.runner import Runner
from iraid_dev.stack.tools import PATIENCE, StackError, run, wait_for

MEMORY = Path("/dev/shm")
LOG = Path("/var/log")
MARGIN_SECONDS = 90 * PATIENCE
SAMPLE_SECONDS = 0.5
GIB = 1 << 30
VOLUMES = Path("/etc/iraid/volumes")
CONFIGFS = Path("/sys/kernel/config/target/iscsi")
LOOPBACK = Path("/sys/kernel/config/target/loopback")
SCSI_DEVICES = Path("/sys/class/scsi_device")


@dataclass(frozen=True)
class Job:
    """One fio job."""

    pattern: str  # row.PATTERNS
    block_bytes: int
    depth: int = 16
    seconds: float = 4.0
    warm_up_seconds: float = 0.0
    verify: bool = False  # writes `size_bytes` once and reads them back, each block with its checksum
    size_bytes: int = 0  # 0: all of the disk, for `seconds`
    buffered: bool = False  # `size_bytes` once, through the page cache, as bonnie++ does it; with an fsync at its end

    def words(self, path: str) -> list[str]:
        words = [
            "fio",
            "--name=papers",
            f"--filename={path}",
            "--output-format=json",
            f"--rw={self.pattern}",
            f"--bs={self.block_bytes}",
            "--norandommap",
            "--randrepeat=0",
        ]
        if self.buffered:
            words += ["--ioengine=psync", "--direct=0", f"--size={self.size_bytes}"]
            return words + ["--end_fsync=1"] * ("write" in self.pattern)
        words += ["--ioengine=libaio", "--direct=1", f"--iodepth={self.depth}"]
        if self.size_bytes:
            words += [f"--size={self.size_bytes}"]
        if self.verify:
            words.remove("--norandommap")  # each block once, or an older one would be taken for a wrong one
            return words + ["--verify=crc32c", "--do_verify=1", "--verify_fatal=1"]
        return words + ["--time_based", f"--runtime={self.seconds:g}", f"--ramp_time={self.warm_up_seconds:g}"]


@dataclass(frozen=True)
class Figure:
    mb_per_s: float
    iops: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    busy_percent: float  # of the machine: load, gateway and targets are all in it
    # Of all tasks but the load (processor.py); None after a warm-up, which would be in it.
    cpu_s_per_gib: float | None = None
    cpu_percent: float | None = None  # the same, of the time that was measured


def busy_and_all_ticks() -> tuple[int, int]:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def figure_of(output: dict, way: str, busy_percent: float, cpu_seconds: float | None = None) -> Figure:
    """output: fio's JSON; way: "read" or "write"; cpu_seconds: what all others spent meanwhile."""
    side = output["jobs"][0][way]
    percentile = side["clat_ns"].get("percentile", {})

    def ms(key: str) -> float:
        return round(percentile.get(key, 0) / 1e6, 3)

    per_gib = percent = None
    if cpu_seconds is not None and side["io_bytes"] and side["runtime"]:
        per_gib = round(cpu_seconds * GIB / side["io_bytes"], 3)
        percent = round(100 * cpu_seconds / (side["runtime"] / 1e3) / (os.cpu_count() or 1), 1)
    return Figure(
        round(side["bw_bytes"] / 1e6, 2),
        round(side["iops"], 1),
        ms("50.000000"),
        ms("99.000000"),
        ms("99.900000"),
        round(busy_percent, 1),
        per_gib,
        percent,
    )


def measure(disk: Disk, job: Job) -> Figure:
    seconds_max = job.seconds + job.warm_up_seconds + 4 * MARGIN_SECONDS
    return measure_fio(
        job.words(disk.path), "write" if "write" in job.pattern else "read", seconds_max, warm=job.warm_up_seconds == 0
    )


def measure_fio(words: list[str], way: str, seconds_max: float, *, warm: bool = True) -> Figure:
    """words: a command of fio with one job; warm: it has no warm-up, so that processor time belongs to what it moved."""
    settle()
    before, tasks_before = busy_and_all_ticks(), processor.snapshot() if warm else {}
    printed = run_load(words, seconds_max)
    after = busy_and_all_ticks()
    spent = processor.spent(tasks_before, processor.snapshot()).seconds if warm else None
    busy = 100 * (after[0] - before[0]) / max(1, after[1] - before[1])
    return figure_of(json.loads(printed[printed.index("{") :]), way, busy, spent)


def run_load(words: list[str], seconds_max: float, enter: Callable[[], object] | None = None) -> str:
    """What it printed; enter: called in the new process first."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds_max,
            preexec_fn=enter,
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"{' '.join(words)}: not done after {error.timeout:.0f} s") from None
    if done.returncode != 0:
        raise StackError(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}{done.stdout[-1500:]}")
    return done.stdout


def fill(disk: Disk) -> None:
    """The whole disk once, so that no figure has the first touch of a block in it."""
    measure(disk, Job("write", 1 << 20, depth=16, size_bytes=disk.size_bytes, verify=False, seconds=0))


class Watch:
    """Context manager beside a job: how full the links are, and TCP's state in the middle of it.

    Half-second samples, of which the median counts: fio's start and end, and a warm-up, don't move it.
    """

    def __init__(self, network: Network, members: list[int], job: Job):
        self._network = network
        self._members = members
        self._job = job
        self._samples: list[tuple[float, tuple[int, int]]] = []
        self._windows: list[dict[str, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        middle = time.monotonic() + self._job.warm_up_seconds + self._job.seconds / 2
        while not self._end.wait(SAMPLE_SECONDS):
            moved = [self._network.bytes_moved(number) for number in self._members]
            self._samples.append((time.monotonic(), (sum(each[0] for each in moved), sum(each[1] for each in moved))))
            if not self._windows and time.monotonic() >= middle:
                self._windows = windows_of(self._network.connections(), [Network.address(n) for n in self._members])

    def seen(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        pairs = list(zip(self._samples, self._samples[1:]))
        rate = self._network.link.rate_mbit
        if pairs and rate:
            used = max(
                statistics.median((after[1][way] - before[1][way]) / (after[0] - before[0]) for before, after in pairs)
                for way in (0, 1)
            )
            result["utilisation"] = round(used / (rate * 1e6 / 8) / len(self._members), 3)
        if self._windows:
            for key in ("cwnd", "rtt"):
                values = [each[key] for each in self._windows if key in each]
                if values:
                    result[key] = round(statistics.mean(values), 1)
            result["retransmitted"] = int(sum(each.get("retransmitted", 0) for each in self._windows))
        return result


def windows_of(text: str, addresses: list[str]) -> list[dict[str, float]]:
    """cwnd (segments), rtt (ms) and retransmitted segments of each connection to one of the addresses, of `ss -tinO`."""
    found = []
    for line in text.splitlines():
        if not any(f" {address}:" in line for address in addresses):
            continue
        one: dict[str, float] = {}
        for key, pattern in (
            ("cwnd", r"\bcwnd:(\d+)"),
            ("rtt", r"\brtt:([\d.]+)/"),
            ("retransmitted", r"\bretrans:\d+/(\d+)"),
        ):
            matched = re.search(pattern, line)
            if matched:
                one[key] = float(matched[1])
        found.append(one)
    return found


class _Sessions:
    """What a system of systems.py asks of a Stack, from what the rig has."""

    def __init__(self, initiator: Initiator):
        self.login_to = initiator.login
        self.logout = initiator.logout

    @staticmethod
    def command(*words: str | Path) -> str:
        return run(*words)


class MdOnLinks(Md):
    """md with its bitmap over open-iscsi disks, given on by LIO, as in systems.py; on targets of the rig."""

    def __init__(self, rig: Rig, level: int, members: list[int]):
        super().__init__(_Sessions(rig.gateway.initiator), "md", Shape(level, len(members)))
        self._rig = rig
        self._numbers = members

    def _member_disks(self) -> list[Disk]:
        targets = self._rig.targets
        for number in self._numbers:
            self._rig.zero(number)
        return [self._login(targets.iqn(number), targets.portal(number)) for number in self._numbers]


class Rig:
    """Context manager: network, targets, tcmu-runner; volumes and sessions are made as they are asked for."""

    def __init__(self, count: int, member_bytes: int, parameters: dict[str, str] | None = None):
        self.network = Network(count)
        self.targets = NetworkTargets(
            MEMORY / "papers", count, member_bytes, parameters=parameters, attributes={"default_cmdsn_depth": "128"}
        )
        self.gateway = Gateway(Runner(LOG))

    def __enter__(self) -> Rig:
        deepen_queues()
        self.network.__enter__()
        try:
            self.targets.__enter__()
            self.gateway.runner.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        faults = []
        actions: tuple[Callable[[], object], ...] = (
            lambda: self.gateway.remove(list(self.gateway.volumes)),
            self.gateway.runner.stop,
            self.targets.close,
            self.network.close,
        )
        for action in actions:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - the rest has to go all the same
                faults.append(f"{type(error).__name__}: {error}")
        if faults:
            raise StackError("tear-down: " + "\n".join(faults))

    def set_parameters(self, parameters: Mapping[str, str]) -> None:
        """Of all targets, for sessions that begin from now on."""
        for number in range(len(self.targets.ports)):
            for name, value in parameters.items():
                (CONFIGFS / self.targets.iqn(number) / "tpgt_1/param" / name).write_text(value)

    @contextmanager
    def volume(self, level: int, members: list[int], *options: str) -> Iterator[Volume]:
        """A volume on these targets, synchronised, exported and logged in to; made and filled while the links are
        as they are."""
        volume = self.gateway.create(level, [self.targets.member(number) for number in members], *options)
        try:
            volume.wait_resynced()
            volume.login()
            yield volume
        finally:
            self.gateway.remove([volume])

    def reconnect(self, volume: Volume, **keys: str) -> None:
        """New connections to the members: what was set for new ones counts from here on.  keys: of the volume's file, changed
        before it starts again."""
        volume.logout()
        volume.unexport()
        iraid("stop", volume.name)
        if keys:
            path = VOLUMES / f"{volume.name}.conf"
            others = re.sub(rf"^({'|'.join(keys)})\b.*\n", "", path.read_text(), flags=re.MULTILINE)
            path.write_text(others + "".join(f"{key} = {value}\n" for key, value in keys.items()))
        iraid("start", volume.name)
        volume.wait_until("active")
        volume.login()

    @contextmanager
    def loop(self, volume: Volume) -> Iterator[Disk]:
        """The LUN of an exported volume for this machine, without iSCSI in front of it: an initiator inside the gateway, as
        the paper's was.  It spares the processor what an initiator elsewhere would do elsewhere."""
        run("modprobe", "tcm_loop")
        storage = next(
            each
            for each in rtslib.RTSRoot().storage_objects
            if each.plugin == "user" and each.config == f"iraid/{volume.name}"
        )
        target = rtslib.Target(rtslib.FabricModule("loopback"))
        try:
            rtslib.LUN(rtslib.TPG(target, 1), 0, storage_object=storage)
            address = (LOOPBACK / target.wwn / "tpgt_1/address").read_text().strip()
            devices = wait_for(
                lambda: list((SCSI_DEVICES / f"{address}:0/device/block").glob("*")), f"the disk at {address}"
            )
            yield Disk("", "", f"/dev/{devices[0].name}")
        finally:
            target.delete()

    @contextmanager
    def plain(self, number: int) -> Iterator[Disk]:
        """A target's own LUN, by the same initiator over the same link.  Its target must be in no volume."""
        disk = self.gateway.initiator.login(self.targets.iqn(number), self.targets.portal(number))
        try:
            yield disk
        finally:
            self.gateway.initiator.logout(disk)

    def zero(self, number: int) -> None:
        """What was on a target is gone.  Its LUN must be in use by nobody."""
        run(
            "fallocate",
            "--punch-hole",
            "--offset",
            "0",
            "--length",
            str(self.targets.size_bytes),
            self.targets.backing(number),
        )

    @contextmanager
    def md(self, level: int, members: list[int]) -> Iterator[Disk]:
        array = MdOnLinks(self, level, members)
        try:
            array.put_up()
            assert array.disk is not None
            yield array.disk
        finally:
            array.close()
