"""fio on a disk that the initiator sees: direct, asynchronous, a fixed depth and time."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from initiator import Disk
from tools import PATIENCE, StackError

DEPTH = 16
MARGIN_SECONDS = 90 * PATIENCE


@dataclass(frozen=True)
class Cell:
    pattern: str  # "sequential" or "random"
    block: str  # "4k", "64k", "1M"
    way: str  # "write" or "read"

    @property
    def fio_rw(self) -> str:
        return ("rand" if self.pattern == "random" else "") + self.way


def _fio(disk: Disk, words: list[str], seconds: float) -> dict:
    command = ["fio", "--name=figure", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
               f"--iodepth={DEPTH}", "--output-format=json", *words]
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


def measure(disk: Disk, cell: Cell, seconds: float) -> float:
    """MB/s (10^6 bytes)."""
    job = _fio(disk, [f"--rw={cell.fio_rw}", f"--bs={cell.block}", "--time_based", "--norandommap",
                      f"--runtime={seconds:g}"], seconds)
    return round(job[cell.way]["bw_bytes"] / 1e6, 1)
