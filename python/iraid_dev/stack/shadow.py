"""What a volume must hold, and a load that checks it.

Shadow keeps, for every range of the volume, the writes that may be its content.  The rule is that of a
register that several write at a time, for each block of 512 bytes by itself:

    a read may return write V unless some write W began after V had ended, and W had ended before
    the read began.

So writes in flight may overlap each other and reads, either order being legal; one that was never
answered (the gateway was killed) may be there or not, in each block; and all else is exact.

    starts   0        4096      8192              ranges, sorted; range i ends where i + 1 starts
    writes   (zero)   (w1)      (w1, w2) ...      candidates of each

Load drives libnbd's asynchronous calls from one thread: random requests, up to `depth` in flight, and
actions (kill a target) at chosen numbers of requests.

Asynchronous calls get plain buffers (bytes, bytearray, memoryview), never an nbd.Buffer: libnbd 1.14
counts a reference to what is in that once too often with each call, so that it is never freed.
"""

from __future__ import annotations

import bisect
import functools
import math
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import nbd

BLOCK_BYTES = 512
REQUEST_BYTES_MAX = 4 << 20
USUAL_BYTES_MAX = 256 << 10
POOL_BYTES = 8 << 20
QUIET_SECONDS_MAX = 60.0  # a request that takes longer is one that hangs


class Write:
    __slots__ = ("begin", "data", "submitted", "done")

    def __init__(self, begin: int, data: memoryview, submitted: int):
        self.begin, self.data, self.submitted = begin, data, submitted
        self.done: int | None = None

    def part(self, begin: int, end: int) -> memoryview:
        return self.data[begin - self.begin : end - self.begin]

    def replaced_by(self, other: Write, before: int) -> bool:
        """`other` began after this one had ended, and had itself ended before `before`."""
        return self.done is not None and self.done < other.submitted and other.done is not None and other.done < before


class Shadow:
    """Of `size` bytes, zero at first (the files of a new farm are), or as `content` says."""

    def __init__(self, size: int, content: bytes | bytearray | None = None):
        self.size = size
        self._moment = 0
        self._reads: set[int] = set()  # moments at which reads in flight began
        self._settle(bytes(size) if content is None else content)

    def _now(self) -> int:
        self._moment += 1
        return self._moment

    def _settle(self, content: bytes | bytearray) -> None:
        write = Write(0, memoryview(bytes(content)), self._now())
        write.done = self._now()
        self._starts = [0]
        self._writes: list[tuple[Write, ...]] = [(write,)]

    def _split(self, at: int) -> int:
        """Index of the range that begins at `at`."""
        index = bisect.bisect_left(self._starts, at)
        if at < self.size and (index == len(self._starts) or self._starts[index] != at):
            self._starts.insert(index, at)
            self._writes.insert(index, self._writes[index - 1])
        return index

    def _ranges(self, begin: int, end: int) -> list[tuple[int, int, tuple[Write, ...]]]:
        index = bisect.bisect_right(self._starts, begin) - 1
        found: list[tuple[int, int, tuple[Write, ...]]] = []
        while index < len(self._starts) and self._starts[index] < end:
            after = self._starts[index + 1] if index + 1 < len(self._starts) else self.size
            found.append((max(begin, self._starts[index]), min(end, after), self._writes[index]))
            index += 1
        return found

    def write_begins(self, offset: int, data: memoryview) -> Write:
        write = Write(offset, data, self._now())
        oldest = min(self._reads, default=write.submitted)
        first, last = self._split(offset), self._split(offset + len(data))
        for index in range(first, last):
            kept = [
                old
                for old in self._writes[index]
                if not any(old.replaced_by(other, oldest) for other in self._writes[index])
            ]
            self._writes[index] = (*kept, write)
        return write

    def write_ends(self, write: Write) -> None:
        write.done = self._now()

    def read_begins(self) -> int:
        moment = self._now()
        self._reads.add(moment)
        return moment

    def read_ends(self, began: int, offset: int, data: bytearray) -> str | None:
        """None, or what is wrong with what was read."""
        self._reads.discard(began)
        for begin, end, writes in self._ranges(offset, offset + len(data)):
            legal = [write for write in writes if not any(write.replaced_by(other, began) for other in writes)]
            # Compares as memory does, and without a copy; two memoryviews compare item by item.
            if any(data.startswith(write.part(begin, end), begin - offset) for write in legal):
                continue
            fault = self._blocks_fault(begin, data[begin - offset : end - offset], legal, writes)
            if fault:
                return fault
        return None

    @staticmethod
    def _blocks_fault(begin: int, got: bytearray, legal: list[Write], writes: tuple[Write, ...]) -> str | None:
        for at in range(0, len(got), BLOCK_BYTES):
            block = memoryview(got)[at : at + BLOCK_BYTES]
            place = begin + at
            if any(write.part(place, place + BLOCK_BYTES) == block for write in legal):
                continue
            old = any(write.part(place, place + BLOCK_BYTES) == block for write in writes)
            what = "an older write" if old else "zeros" if not any(block) else "nothing known"
            return f"byte {place} holds {what}, {len(legal)} contents are legal there"
        return None

    def check(self, content: bytearray) -> None:
        """Of the whole volume, now."""
        assert len(content) == self.size
        fault = self.read_ends(self.read_begins(), 0, content)
        assert fault is None, fault

    def check_and_settle(self, content: bytearray) -> None:
        """After a crash: what is there now, if it is legal, must stay."""
        self.check(content)
        self._reads.clear()
        self._settle(content)


def read_all(handle: nbd.NBD, step: int = REQUEST_BYTES_MAX) -> bytearray:
    """The whole volume through libnbd, four requests in flight."""
    size = handle.get_size()
    out = bytearray(size)
    pending: list[int] = []

    def finish() -> None:
        cookie = pending.pop(0)
        while not handle.aio_command_completed(cookie):
            handle.poll(-1)

    for offset in range(0, size, step):
        pending.append(handle.aio_pread(memoryview(out)[offset : offset + step], offset))
        if len(pending) == 4:
            finish()
    while pending:
        finish()
    return out


@dataclass
class Stats:
    reads: int = 0
    writes: int = 0
    flushes: int = 0
    longest_seconds: float = 0.0
    longest: str = ""
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.reads + self.writes + self.flushes

    def __str__(self) -> str:
        return (
            f"{self.longest_seconds:.2f} s ({self.longest}) of {self.reads} reads, "
            f"{self.writes} writes, {self.flushes} flushes"
        )


@functools.cache
def _pool() -> memoryview:
    """What is written is cut out of this at random places: to make it takes longer than many a load."""
    return memoryview(random.Random(0).randbytes(POOL_BYTES + REQUEST_BYTES_MAX))


class Load:
    """Random requests against a volume and its shadow.

    A quarter of them falls into a window of 1 MiB, so that they overlap.  `span` limits where they go.
    """

    def __init__(
        self,
        handle: nbd.NBD,
        shadow: Shadow,
        seed: int,
        *,
        depth: int = 32,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        read_share: float = 0.4,
        fua_share: float = 0.1,
        flush_share: float = 0.03,
        span: tuple[int, int] | None = None,
    ):
        self.handle, self.shadow, self.depth = handle, shadow, depth
        self.random = random.Random(seed)
        self.pool = _pool()
        self.request_bytes_max = request_bytes_max
        self.read_share, self.fua_share, self.flush_share = read_share, fua_share, flush_share
        self.span = span or (0, shadow.size)
        self.window = self._place(1 << 20, self.span)
        self.block = handle.get_block_size(nbd.SIZE_MINIMUM) or BLOCK_BYTES
        self.stats = Stats()
        self.in_flight = 0
        self._actions: list[tuple[int, Callable[[], None]]] = []

    def at(self, request: int, action: Callable[[], None]) -> Load:
        """Do something when so many requests have been submitted."""
        self._actions.append((request, action))
        self._actions.sort(key=lambda entry: entry[0])
        return self

    def run(self, requests: int, seconds_min: float = 0.0) -> Stats:
        """So many requests, and on until `seconds_min` are over; all are answered on return.  Raises
        nbd.Error when the connection ends."""
        submitted, begin = 0, time.monotonic()
        while submitted < requests or time.monotonic() - begin < seconds_min:
            while self._actions and self._actions[0][0] <= submitted:
                self._actions.pop(0)[1]()
            if self.in_flight < self.depth:
                self._submit()
                submitted += 1
            else:
                self._turn()
        assert not self._actions, "an action's request was never reached"
        self.drain()
        return self.stats

    def run_until_broken(self, requests: int, action: Callable[[], None]) -> Stats:
        """As run(), with an action at the end that ends the connection with requests in flight."""
        while self.stats.requests < requests or self.in_flight < self.depth:
            if self.in_flight < self.depth:
                self._submit()
            else:
                self._turn()
        action()
        while not (self.handle.aio_is_dead() or self.handle.aio_is_closed()):
            try:
                self._turn()
            except nbd.Error:
                break
        return self.stats

    def drain(self) -> None:
        while self.in_flight:
            self._turn()

    def check(self, may_fail: str = r"\Z") -> Stats:
        """No request failed, but for those that `may_fail` describes; none returned wrong data."""
        failed = [text for text in self.stats.failed if not re.match(may_fail, text)]
        assert not failed, failed[:5]
        assert not self.stats.wrong, self.stats.wrong[:5]
        return self.stats

    def _turn(self) -> None:
        if self.handle.poll(int(QUIET_SECONDS_MAX * 1000)) == 0:
            raise AssertionError(f"{self.in_flight} requests, no answer for {QUIET_SECONDS_MAX:g} s")

    def _length(self) -> int:
        """Each power of two is as likely as another, but for a few that carry most of the bytes."""
        usual = min(self.request_bytes_max, USUAL_BYTES_MAX)
        longest = self.request_bytes_max if self.random.random() < 0.15 else usual
        low, high = math.log2(self.block), math.log2(longest)
        length = int(2 ** self.random.uniform(low, high)) // self.block * self.block
        return max(self.block, length)

    def _place(self, length: int, within: tuple[int, int]) -> tuple[int, int]:
        first, end = within
        blocks = max(0, end - first - length) // BLOCK_BYTES
        begin = first + self.random.randint(0, blocks) * BLOCK_BYTES
        return begin, min(end, begin + length)

    def _submit(self) -> None:
        choice = self.random.random()
        if choice < self.flush_share:
            self._submit_flush()
            return
        length = self._length()
        if self.random.random() < 0.25:
            offset = self._place(min(length, 1 << 20), self.window)[0]
        else:
            offset = self._place(length, self.span)[0]
        offset -= offset % self.block
        length = min(length, self.span[1] - offset)
        if choice < self.flush_share + self.read_share:
            self._submit_read(offset, length)
        else:
            self._submit_write(offset, length, self.random.random() < self.fua_share)

    def _ended(self, what: str, begin: float, error: int) -> bool:
        self.in_flight -= 1
        seconds = time.monotonic() - begin
        if seconds > self.stats.longest_seconds:
            self.stats.longest_seconds, self.stats.longest = seconds, what
        if error:
            self.stats.failed.append(f"{what}: error {error} after {seconds:.2f} s")
        return not error

    def _submit_flush(self) -> None:
        begin = time.monotonic()

        def done(error: nbd.ctypes.c_int) -> int:
            self._ended("flush", begin, error.value)
            return 1

        self.stats.flushes += 1
        self.in_flight += 1
        self.handle.aio_flush(completion=done)

    def _submit_read(self, offset: int, length: int) -> None:
        begin, buffer = time.monotonic(), bytearray(length)
        what = f"read of {length} at {offset}"
        began = self.shadow.read_begins()

        def done(error: nbd.ctypes.c_int) -> int:
            if self._ended(what, begin, error.value):
                fault = self.shadow.read_ends(began, offset, buffer)
                if fault:
                    self.stats.wrong.append(f"{what}: {fault}")
            return 1

        self.stats.reads += 1
        self.in_flight += 1
        self.handle.aio_pread(buffer, offset, completion=done)

    def _submit_write(self, offset: int, length: int, fua: bool) -> None:
        begin = time.monotonic()
        what = f"{'FUA ' if fua else ''}write of {length} at {offset}"
        source = self.random.randrange(POOL_BYTES)
        write = self.shadow.write_begins(offset, self.pool[source : source + length])

        def done(error: nbd.ctypes.c_int) -> int:
            if self._ended(what, begin, error.value):
                self.shadow.write_ends(write)
            return 1

        self.stats.writes += 1
        self.in_flight += 1
        self.handle.aio_pwrite(write.data, offset, completion=done, flags=nbd.CMD_FLAG_FUA if fua else 0)
