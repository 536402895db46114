"""Random writes to a part of a disk, a record of which were acknowledged, and a check of all that is there.

    ledger = Ledger(disk, offset=8 << 20, size_bytes=16 << 20, seed=1)
    ledger.start()
    ...                    # something is killed
    ledger.switch_off()    # what is in flight fails when it is answered: the initiator does not repeat it
    ...                    # and started again
    ledger.stop()
    ledger.check()         # what was acknowledged is there; what was not is old or new, but can be read

What is right where writes overlap or were never acknowledged: shadow.py.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .initiator import Disk
from .shadow import Shadow, Write
from .tools import StackError

BLOCK_BYTES = 4096
WRITE_BLOCKS_MAX = 16
SECTOR_BYTES = 512
POOL_BYTES = 8 << 20
READ_BYTES = 256 << 10
READERS = 8
END_SECONDS_MAX = 90.0


@dataclass
class Found:
    """In one look at the disk."""

    blocks: int  # whose content was checked
    unreadable: list[int] = field(default_factory=list)  # bytes at which such blocks begin
    wrong: list[str] = field(default_factory=list)  # the first, if there is any


class Ledger:
    """Of `size_bytes` zeros at the byte `offset` of a disk; what is before that, check() only reads."""

    def __init__(self, disk: Disk, offset: int, size_bytes: int, seed: int, depth: int = 16):
        self.disk, self.offset, self.depth = disk, offset, depth
        self.shadow = Shadow(size_bytes)
        self.acknowledged = self.unanswered = 0
        self._chance = random.Random(seed)
        self._pool = mmap.mmap(-1, POOL_BYTES)
        self._pool.write(self._chance.randbytes(POOL_BYTES))
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._workers: list[threading.Thread] = []
        self._file = os.open(disk.path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)

    def close(self) -> None:
        self._stop.set()
        os.close(self._file)

    # Writing

    def start(self) -> None:
        self._stop.clear()
        self._workers = [threading.Thread(target=self._work, name="ledger", daemon=True) for _ in range(self.depth)]
        for worker in self._workers:
            worker.start()

    def switch_off(self) -> None:
        self._state("offline")

    def stop(self) -> None:
        """When all that is in flight was answered."""
        self._stop.set()
        for worker in self._workers:
            worker.join(END_SECONDS_MAX)
            if worker.is_alive():
                raise StackError(f"a write was not answered within {END_SECONDS_MAX:.0f} s")
        self._state("running")

    def _state(self, state: str) -> None:
        Path("/sys/block", Path(self.disk.path).name, "device/state").write_text(f"{state}\n")

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                write = self._drawn()
            done = self._written(write)
            with self._lock:
                self.acknowledged += done
                self.unanswered += not done
                if done:
                    self.shadow.write_ends(write)
            if not done:
                return

    def _drawn(self) -> Write:
        length = BLOCK_BYTES * self._chance.randint(1, WRITE_BLOCKS_MAX)
        place = BLOCK_BYTES * self._chance.randrange((self.shadow.size - length) // BLOCK_BYTES)
        source = SECTOR_BYTES * self._chance.randrange((POOL_BYTES - length) // SECTOR_BYTES)
        return self.shadow.write_begins(place, memoryview(self._pool)[source : source + length])

    def _written(self, write: Write) -> bool:
        try:
            return os.pwrite(self._file, write.data, self.offset + write.begin) == len(write.data)
        except OSError:
            return False

    # Checking

    def check(self) -> Found:
        """While nothing writes here.  What is there, if it may be there, must stay."""
        content = mmap.mmap(-1, self.offset + self.shadow.size)  # aligned, as O_DIRECT wants it
        with ThreadPoolExecutor(READERS) as readers:
            parts = readers.map(lambda begin: self._read(content, begin), range(0, len(content), READ_BYTES))
        found = Found(self.shadow.size // BLOCK_BYTES, [at for part in parts for at in part])
        if not found.unreadable:
            try:
                self.shadow.check_and_settle(bytearray(memoryview(content)[self.offset :]))
            except AssertionError as wrong:
                found.wrong.append(str(wrong))
        return found

    def _read(self, content: mmap.mmap, begin: int) -> list[int]:
        """Fills a part of `content`; returns where blocks begin that can't be read."""
        end = min(begin + READ_BYTES, len(content))
        if self._reads(content, begin, end):
            return []
        return [at for at in range(begin, end, BLOCK_BYTES) if not self._reads(content, at, at + BLOCK_BYTES)]

    def _reads(self, content: mmap.mmap, begin: int, end: int) -> bool:
        with memoryview(content)[begin:end] as part:
            try:
                return os.preadv(self._file, [part], begin) == end - begin
            except OSError:
                return False
