"""backend_probe, a member's backend without an engine, driven by lines (integration/backend_probe.c says its commands).

start(member, "deadline_ms=5000").ask("read 0 4096 1")      start is a fixture of both conftest.py that want it
"""

from __future__ import annotations

import array
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
DEADLINE_MS = 2000
ANSWER_SECONDS_MAX = 40.0
SECOND = ("key=bb22", "isid=2", "initiator=iqn.2026-01.org.iraid.test:second")  # another gateway


class Probe:
    """A running backend_probe; what it prints is taken line by line."""

    def __init__(self, member: str, *options: str) -> None:
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [str(BUILD / "tests/integration/backend_probe"), member, f"deadline_ms={DEADLINE_MS}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """The next line it prints."""
        line = self.lines.get(timeout=ANSWER_SECONDS_MAX)
        assert line is not None, f"backend_probe ended with {self.process.wait()}"
        return line

    def ask(self, command: str) -> str:
        self.say(command)
        return self.line()

    def open(self) -> str:
        answer = self.ask("open")
        assert answer.startswith("opened "), answer
        return answer

    def end(self) -> int:
        """Closes the session if there is one; a crash or a sanitizer's report is not 0."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=ANSWER_SECONDS_MAX)


@pytest.fixture
def start() -> Iterator:
    """Starts probes and sees to it that each ends well."""
    probes: list[Probe] = []

    def start(member: str, *options: str) -> Probe:
        probe = Probe(member, *options)
        probes.append(probe)
        return probe

    try:
        yield start
        assert [probe.end() for probe in probes] == [0] * len(probes)
    finally:
        for probe in probes:
            probe.process.kill()
            probe.process.wait()


def pattern(offset: int, length: int, seed: int) -> bytes:
    """What backend_probe writes: 8-byte words, the seed above the word's offset on the member."""
    start = (seed << 48) + offset
    return array.array("Q", range(start, start + length, 8)).tobytes()


def on_disk(farm: TargetFarm, offset: int, length: int, number: int = 0) -> bytes:
    with farm.backing(number).open("rb") as backing:
        backing.seek(offset)
        return backing.read(length)


def result(line: str) -> int:
    """0 or a negative errno, of the line that answers a read or write."""
    return int(line.split()[3])
