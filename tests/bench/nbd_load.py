"""Commands through one libnbd handle, a number of them in flight; for the benchmarks that need no kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

Command = tuple[bool, int]  # is it a write, offset in bytes


class NbdLoad:
    """Commands of one size, `depth` at a time, drawn one by one."""

    def __init__(self, handle, draw: Callable[[], Command], command_bytes: int, depth: int = 16):
        import nbd

        self.handle = handle
        self.draw = draw
        self.command_bytes = command_bytes
        self.depth = depth
        self.data = nbd.Buffer.from_bytearray(bytearray(os.urandom(command_bytes)))
        self.inside = [nbd.Buffer(command_bytes) for _ in range(depth)]
        self.flying = 0
        self.done = 0

    def _finished(self, error) -> int:
        if error.value:
            raise SystemExit(f"a command failed: {os.strerror(error.value)}")
        self.flying -= 1
        self.done += 1
        return 1

    def run(self, until: Callable[[], bool]) -> float:
        """MB/s until until() is true; what is in flight then ends, uncounted."""
        self.done = 0
        start = time.monotonic()
        while not until():
            for _ in range(16):
                while self.flying < self.depth:
                    self.flying += 1
                    write, offset = self.draw()
                    if write:
                        self.handle.aio_pwrite(self.data, offset, self._finished)
                    else:
                        self.handle.aio_pread(self.inside[self.flying % self.depth], offset, self._finished)
                self.handle.poll(-1)
        rate = self.done * self.command_bytes / (time.monotonic() - start) / 1e6
        while self.flying:
            self.handle.poll(-1)
        return rate


def after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
