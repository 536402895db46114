"""fio on a disk that the initiator sees: direct, asynchronous, a fixed depth and time."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.tools import PATIENCE, StackError

from .cells import Cell

DEPTH = 16
MARGIN_SECONDS = 90 * PATIENCE
PERCENTILES = {"p50_ms": "50.000000", "p99_ms": "99.000000", "p999_ms": "99.900000"}


@dataclass(frozen=True)
class Load:
    """What fio says of one disk's jobs."""

    data_bytes: int
    mb_per_s: float
    iops: float
    # From submission to completion; keys of PERCENTILES.  Where each write is flushed: the write's and the flush's, added up.
    latency_ms: dict[str, float]


@dataclass(frozen=True)
class Jobs:
    """Who loads a disk, and where: in sequence each job has a part of its own, at random all have the whole."""

    count: int = 1
    depth: int = DEPTH  # of each
    offset_bytes: int = 0
    size_bytes: int | None = None  # None: up to the end
    options: tuple[str, ...] = ()  # more words for fio

    def words(self, disk_bytes: int, cell: Cell) -> list[str]:
        size = self.size_bytes or disk_bytes - self.offset_bytes
        words = [*self.options, f"--iodepth={self.depth}", f"--offset={self.offset_bytes}"]
        if self.count == 1:
            return [*words, f"--size={size}"]
        words += [f"--numjobs={self.count}", "--thread", "--group_reporting"]
        if cell.pattern.startswith("rand"):
            return [*words, f"--size={size}"]
        part = size // self.count // cell.block_bytes * cell.block_bytes
        if part == 0:
            raise StackError(f"{size} bytes are too few for {self.count} jobs of {cell}")
        return [*words, f"--size={part}", f"--offset_increment={part}"]


ONE_JOB = Jobs()


def settle() -> None:
    """A disk that was closed after writing is looked at by udev's rules (blkid, multipath, sg_inq): for seconds where programs
    are slow to start, and in the figure of whoever is measured next."""
    subprocess.run(["udevadm", "settle", "--timeout=60"], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def fio(jobs: list[tuple[Disk, list[str]]], words: list[str], seconds: float) -> list[dict[str, Any]]:
    """words: for all of them; seconds: how long they take.  What fio says of each job, in their order."""
    settle()
    paths = " ".join(disk.path for disk, _ in jobs)
    command = [
        "fio",
        "--ioengine=libaio",
        "--direct=1",
        "--disk_util=0",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--percentile_list=50:99:99.9",
        "--output-format=json",
        *words,
    ]
    for disk, own in jobs:
        command += [f"--name={disk.path}", f"--filename={disk.path}", *own]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds + MARGIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StackError(
            f"fio on {paths} ({' '.join(words)}) did not end within {seconds + MARGIN_SECONDS:.0f} s"
        ) from None
    if done.returncode != 0:
        raise StackError(
            f"fio on {paths} ({' '.join(words)}): status {done.returncode}\n{done.stderr}{done.stdout[-1500:]}"
        )
    found: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    if len(found) != len(jobs):
        raise StackError(f"fio on {paths}: {len(found)} results of {len(jobs)} jobs")
    return found


def fill(disk: Disk, jobs: Jobs = ONE_JOB) -> None:
    """Writes the whole disk, or what the jobs have of it, once, so that no figure has the first touch of a block in it."""
    size = jobs.size_bytes or disk.size_bytes - jobs.offset_bytes
    fio(
        [(disk, [f"--offset={jobs.offset_bytes}", f"--size={size}"])],
        ["--rw=write", "--bs=1M", f"--iodepth={DEPTH}"],
        0,
    )


def run(disk: Disk, cell: Cell, seconds: float, jobs: Jobs = ONE_JOB) -> Load:
    return run_together([disk], cell, seconds, jobs)[0]


def run_together(disks: list[Disk], cell: Cell, seconds: float, jobs: Jobs = ONE_JOB) -> list[Load]:
    """On each disk the same jobs, all at the same time."""
    # In ms: fio takes whole seconds only, and half a second for no limit.
    words = [
        f"--rw={cell.pattern}",
        f"--bs={cell.block_bytes}",
        "--time_based",
        "--norandommap",
        f"--runtime={round(seconds * 1000)}ms",
    ]
    return [
        _load(disk, cell, seconds, job)
        for disk, job in zip(
            disks, fio([(disk, jobs.words(disk.size_bytes, cell)) for disk in disks], words, seconds), strict=True
        )
    ]


def _load(disk: Disk, cell: Cell, seconds: float, job: dict) -> Load:
    way = job[cell.pattern.removeprefix("rand")]
    if way["total_ios"] == 0:
        raise StackError(f"fio on {disk.path} ({cell}): no command was completed in {seconds:g} s")
    timed = [each["lat_ns"]["percentile"] for each in (way, job.get("sync", {})) if each.get("total_ios", 0) > 0]
    return Load(
        way["io_bytes"],
        way["bw_bytes"] / 1e6,
        way["iops"],
        {name: sum(each[key] for each in timed) / 1e6 for name, key in PERCENTILES.items()},
    )
