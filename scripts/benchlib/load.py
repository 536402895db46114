"""fio on a disk that the initiator sees: direct, asynchronous, a fixed depth and time."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from initiator import Disk
from tools import PATIENCE, StackError

from .cells import Cell

DEPTH = 16
MARGIN_SECONDS = 90 * PATIENCE
PERCENTILES = {"p50_ms": "50.000000", "p99_ms": "99.000000", "p999_ms": "99.900000"}


@dataclass(frozen=True)
class Load:
    """What fio says of one job."""

    data_bytes: int
    mb_per_s: float
    iops: float
    latency_ms: dict[str, float]  # from submission to completion; keys of PERCENTILES


def settle() -> None:
    """A disk that was closed after writing is looked at by udev's rules (blkid, multipath, sg_inq): for seconds where programs
    are slow to start, and in the figure of whoever is measured next."""
    subprocess.run(["udevadm", "settle", "--timeout=60"], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _fio(disk: Disk, words: list[str], seconds: float) -> dict:
    settle()
    command = ["fio", "--name=figure", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
               f"--iodepth={DEPTH}", "--disk_util=0", "--lat_percentiles=1", "--clat_percentiles=0",
               "--percentile_list=50:99:99.9", "--output-format=json", *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds + MARGIN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise StackError(f"fio on {disk.path} ({' '.join(words)}) did not end within "
                         f"{seconds + MARGIN_SECONDS:.0f} s") from None
    if done.returncode != 0:
        raise StackError(f"fio on {disk.path} ({' '.join(words)}): status {done.returncode}\n"
                         f"{done.stderr}{done.stdout[-1500:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]


def fill(disk: Disk) -> None:
    """Writes the whole disk once, so that no figure has the first touch of a block in it."""
    _fio(disk, ["--rw=write", "--bs=1M"], 0)


def run(disk: Disk, cell: Cell, seconds: float) -> Load:
    # In ms: fio takes whole seconds only, and half a second for no limit.
    job = _fio(disk, [f"--rw={cell.pattern}", f"--bs={cell.block_bytes}", "--time_based", "--norandommap",
                      f"--runtime={round(seconds * 1000)}ms"], seconds)
    way = job[cell.pattern.removeprefix("rand")]
    if way["total_ios"] == 0:
        raise StackError(f"fio on {disk.path} ({cell}): no command was completed in {seconds:g} s")
    percentiles = way["lat_ns"]["percentile"]
    return Load(way["io_bytes"], way["bw_bytes"] / 1e6, way["iops"],
                {name: percentiles[key] / 1e6 for name, key in PERCENTILES.items()})
