"""CERN's and Aiken's experiments: processor time beside throughput, file systems, latency; iraid beside md of the same level.

    iraid   on targets 0 to 3    LIO - tcmu-runner, handler - shaped links
    md      on targets 4 to 7    LIO iblock - md - open-iscsi - links of the same kind
    plain   target 8

All are up at the same time, and each job is measured on one after the other.  What is read through the page cache is larger than
the memory that the load may use, or is dropped from it first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iraid_dev.bench.core.network import Link
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.tools import run

from . import model
from .rig import MARGIN_SECONDS, Figure, Job, fill, measure_fio, run_load

if TYPE_CHECKING:
    from .experiments import Run

KIB = 1024
MIB = 1024 * KIB
OURS, MD, PLAIN = [0, 1, 2, 3], [4, 5, 6, 7], 8
TARGETS = 9
LEVELS = (0, 5, 10)
# CERN's disks were the limit, not their machine; here links of a speed that all volumes of four reach with the processor half idle.
CERN_LINK = Link(rate_mbit=40)
CERN_REQUEST_BYTES = 1536 * KIB  # whole rows on four members of each level
CERN_DEPTH = 4  # a file read in order through a page cache is asked for ahead of time as well
BONNIE_BLOCK_BYTES = 8 * KIB  # what bonnie++ reads and writes at a time
BONNIE_FILE_BYTES = 64 * MIB
FILE_LINK = Link(rate_mbit=100)
FILE_SIZES = [MIB, 4 * MIB, 16 * MIB, 64 * MIB]
FILE_BYTES = 64 * MIB  # of all files of a size
LATENCY_BLOCKS = [4 * KIB, 32 * KIB, 256 * KIB, MIB]
LATENCY_RTTS_MS = (0.0, 8.0)
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
CONTROL_GROUPS = Path("/run/papers-cgroup")
MOUNT = Path("/run/papers-ext4")


@dataclass(frozen=True)
class Side:
    system: str
    level: int | None
    members: list[int]
    disk: Disk


@contextmanager
def _both(run_: Run, level: int) -> Iterator[list[Side]]:
    """A volume and an md array of a level, filled; links unshaped."""
    with run_.volume(level, OURS) as volume, run_.rig.md(level, MD) as array:
        fill(array)
        yield [Side("iraid", level, OURS, volume.disk), Side("md", level, MD, array)]


# --- CERN ---


def cern(run_: Run) -> None:
    """bonnie++'s sequential output and input (with fio on the disk, and bonnie++ itself on ext4), and requests of 1.5 MB: sequential
    write, sequential read, random read; processor time beside each; levels 0, 5 and 10, md beside iraid; links of 40 Mbit/s."""
    for level in run_.settings.levels_of(LEVELS):
        with _both(run_, level) as sides:
            run_.network.shape(CERN_LINK)
            for name, pattern in (("block output", "write"), ("block input", "read")):
                job = Job(pattern, BONNIE_BLOCK_BYTES, depth=1, buffered=True, size_bytes=BONNIE_FILE_BYTES, seconds=0)
                for side in sides:
                    drop_caches()
                    _cell(run_, side, job, name)
            for name, pattern in (
                ("write, 1.5 MB", "write"),
                ("read, 1.5 MB", "read"),
                ("random read, 1.5 MB", "randread"),
            ):
                job = Job(pattern, CERN_REQUEST_BYTES, depth=CERN_DEPTH, seconds=run_.settings.seconds)
                for side in sides:
                    _cell(run_, side, job, name)
            for side in sides:
                _bonnie(run_, side)


def _cell(run_: Run, side: Side, job: Job, name: str) -> None:
    run_.measure(side.system, side.level, side.members, side.disk, job, job=name)


def _bonnie(run_: Run, side: Side) -> None:
    with file_system(run_, side.disk, CERN_LINK) as folder, little_memory(BONNIE_FILE_BYTES // 2) as enter:
        mib = BONNIE_FILE_BYTES // MIB
        words = [
            "bonnie++",
            "-d",
            str(folder),
            "-s",
            f"{mib}:{BONNIE_BLOCK_BYTES // KIB}k",
            "-r",
            str(mib // 2),
            "-n",
            "0",
            "-f",
            "-u",
            "root",
            "-q",
            "-x",
            "1",
        ]
        printed = run_load(words, 4 * MARGIN_SECONDS, enter)
    for name, (mb_per_s, cpu_percent) in model.read_bonnie(printed).items():
        job = Job("read" if name == "input" else "write", BONNIE_BLOCK_BYTES, depth=1)
        figure = Figure(mb_per_s, round(mb_per_s * 1e6 / BONNIE_BLOCK_BYTES, 1), 0, 0, 0, 0)
        run_.note(
            side.system,
            side.level,
            len(side.members),
            job,
            figure,
            {"bonnie_cpu_percent": cpu_percent},
            job=f"bonnie++ {name}",
        )


def drop_caches() -> None:
    run("sync")
    DROP_CACHES.write_text("3")


@contextmanager
def little_memory(bytes_max: int) -> Iterator[Callable[[], object]]:
    """A control group; what a process that called the function uses, its files' pages included, is no more than that."""
    CONTROL_GROUPS.mkdir(exist_ok=True)
    run("mount", "-t", "cgroup2", "none", CONTROL_GROUPS)
    group = CONTROL_GROUPS / "load"
    try:
        (CONTROL_GROUPS / "cgroup.subtree_control").write_text("+memory")
        group.mkdir(exist_ok=True)
        (group / "memory.max").write_text(str(bytes_max))
        yield lambda: (group / "cgroup.procs").write_text("0")
    finally:
        with contextlib.suppress(FileNotFoundError):
            group.rmdir()
        run("umount", CONTROL_GROUPS)


@contextmanager
def file_system(run_: Run, disk: Disk, link: Link) -> Iterator[Path]:
    """ext4, made on links as fast as the machine moves them, mounted on such as are given."""
    run_.network.shape(Link())
    run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", disk.path)
    MOUNT.mkdir(exist_ok=True)
    run("mount", disk.path, MOUNT)
    try:
        run_.network.shape(link)
        yield MOUNT
    finally:
        run_.network.shape(Link())
        run("umount", MOUNT)
        run_.network.shape(link)


# --- Aiken: size of files ---


def file_size(run_: Run) -> None:
    """ext4 by size of the files (aiken): 64 MiB in files of 1 to 64 MiB written, each with an fsync at its end, and read again with
    nothing in the page cache; level 5, md beside iraid; links of 100 Mbit/s."""
    with _both(run_, 5) as sides:
        for side in sides:
            with file_system(run_, side.disk, FILE_LINK) as folder:
                for size in FILE_SIZES:
                    for pattern in ("write", "read"):
                        drop_caches()
                        figure = measure_fio(file_words(folder, pattern, size), pattern, 4 * MARGIN_SECONDS)
                        run_.note(
                            side.system,
                            side.level,
                            len(side.members),
                            Job(pattern, 64 * KIB, depth=1),
                            figure,
                            {"busy_percent": figure.busy_percent},
                            file_bytes=size,
                        )


def file_words(folder: Path, pattern: str, file_bytes: int) -> list[str]:
    count = FILE_BYTES // file_bytes
    words = [
        "fio",
        f"--name=size{file_bytes // MIB}m",
        f"--directory={folder}",
        "--output-format=json",
        f"--rw={pattern}",
        f"--bs={64 * KIB}",
        "--ioengine=psync",
        "--direct=0",
        f"--nrfiles={count}",
        f"--filesize={file_bytes}",
        f"--size={FILE_BYTES}",
        "--openfiles=1",
        "--file_service_type=sequential",
    ]
    # Files that a job of fio lays out beforehand would be there already when they are timed.
    return words + (["--create_on_open=1", "--fallocate=none", "--fsync_on_close=1"] if pattern == "write" else [])


# --- latency ---


def latency(run_: Run) -> None:
    """No paper's (chadda: "not measured"): one command in flight, 4 KiB to 1 MiB, random; level 5, md and a plain target beside
    iraid; unshaped, where it is the machine's, and at RTT 8 ms with 1 Gbit/s, where it is that of round trips."""
    with run_.volume(5, OURS) as volume, run_.rig.md(5, MD) as array, run_.rig.plain(PLAIN) as disk:
        fill(array)
        fill(disk)
        for rtt in LATENCY_RTTS_MS:
            run_.network.shape(Link(rtt_ms=rtt, rate_mbit=1000) if rtt else Link())
            run_.rig.reconnect(volume)  # its windows are for the round trip that a login finds
            sides = [Side("iraid", 5, OURS, volume.disk), Side("md", 5, MD, array), Side("plain", None, [PLAIN], disk)]
            for block in LATENCY_BLOCKS:
                for pattern in ("randread", "randwrite"):
                    for side in sides:
                        run_.measure(side.system, side.level, side.members, side.disk, run_.job(pattern, block, 1))
