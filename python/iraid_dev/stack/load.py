"""Loads for a disk: fio with verification, and ack_writer.py, which knows what was acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .initiator import Disk
from .tools import StackError

WRITER = Path(__file__).with_name("ack_writer.py")


def fio_words(disk: Disk, **options: object) -> list[str]:
    """`bs="4k"`, `rw="randwrite"`, ...: underscores stay, None leaves an option without a value."""
    words = [
        "fio",
        "--name=load",
        f"--filename={disk.path}",
        "--ioengine=libaio",
        "--direct=1",
        "--group_reporting=1",
        "--output-format=json",
        "--verify=crc32c",
        "--verify_fatal=1",
    ]
    words += [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]
    return words


@dataclass(frozen=True)
class FioResult:
    written_bytes: int
    read_bytes: int
    longest_seconds: float  # a single command, of either direction


class Fio:
    """A fio that runs in the background; result() waits, and fails on any error or bad block."""

    def __init__(self, disk: Disk, **options: object):
        self.words = fio_words(disk, **options)
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def running(self) -> bool:
        return self.process.poll() is None

    def result(self, seconds: float = 200) -> FioResult:
        try:
            output, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise StackError(f"fio did not end within {seconds:.0f} s") from None
        if self.process.returncode != 0:
            said = output.partition("{")[0]  # what follows are figures
            raise StackError(f"{' '.join(self.words)}: status {self.process.returncode}\n{errors}{said}")
        job = json.loads(output[output.index("{") :])["jobs"][0]
        if job["error"] or errors.strip():
            raise StackError(f"fio: error {job['error']}\n{errors}")
        longest = max(job[way]["clat_ns"]["max"] for way in ("read", "write")) / 1e9
        return FioResult(job["write"]["io_bytes"], job["read"]["io_bytes"], longest)

    def end(self) -> None:
        if self.running():
            self.process.kill()
        self.process.wait(timeout=60)


class AckWriter:
    """ack_writer.py in the background: writes, and keeps a journal of what was acknowledged."""

    def __init__(self, disk: Disk, journal: Path, *, slot_bytes: int, slots: int, seconds: float, depth: int = 8):
        self.disk, self.journal = disk, journal
        self.shape = [
            "--device",
            disk.path,
            "--journal",
            str(journal),
            "--slot-bytes",
            str(slot_bytes),
            "--slots",
            str(slots),
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(WRITER), "write", *self.shape, "--depth", str(depth), "--seconds", str(seconds)],
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if first.strip() != "writing":
            raise StackError(f"ack_writer.py: {first}{self.process.communicate()[1]}")

    def result(self, seconds: float = 200) -> dict[str, Any]:
        """{"writes", "errors": [...], "longest_seconds", "gap_seconds"}"""
        return self._answer(self.process, seconds)

    def check(self, seconds: float = 200) -> dict[str, Any]:
        """Reads all back: {"slots", "checked", "lost": [...]}"""
        process = subprocess.Popen(
            [sys.executable, str(WRITER), "check", *self.shape],
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self._answer(process, seconds)

    @staticmethod
    def _answer(process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise StackError(f"ack_writer.py did not end within {seconds:.0f} s") from None
        if process.returncode != 0:
            raise StackError(f"ack_writer.py: status {process.returncode}\n{errors}")
        answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        return answer

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
