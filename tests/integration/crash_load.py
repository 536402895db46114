"""The load of the exhaustive crash test: writes whose every sector says which write it is, noted in the
recorder's journal when they are submitted and when they were acknowledged.

No sector is in two writes at a time, so the newest acknowledged write of each is known exactly; rows are.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

import nbd

from recorder import (
    FAILED, FUA, LOAD_FLUSH_BEGINS, LOAD_FLUSH_ENDS, LOAD_SAW, LOAD_WRITE_BEGINS, LOAD_WRITE_ENDS, Journal,
)  # fmt: skip

SECTOR = 512
MASK = (1 << 64) - 1
DEPTH = 8
QUIET_MS_MAX = 60000
READ_BYTES_MAX = 1 << 20


def stamp(sector: int, number: int) -> bytes:
    """What a sector of write `number` holds; crash_replay_record.c has the same."""
    x = (sector * 0x9E3779B97F4A7C15 + number * 0xC2B2AE3D27D4EB4F) & MASK
    mixed = ((x ^ x >> 29) * 0xBF58476D1CE4E5B9 & MASK) >> 32
    return struct.pack("<II", mixed, number) * (SECTOR // 8)


class CrashLoad:
    """`windows`: (first byte, length) of where it goes, each in a region of its own."""

    def __init__(
        self,
        journal: Journal,
        windows: Sequence[tuple[int, int]],
        row_bytes: int,
        chunk: int,
        seed: int,
        block: int = SECTOR,
    ):
        self.journal, self.windows, self.row_bytes, self.chunk = journal, windows, row_bytes, chunk
        self.block = block
        self.random = random.Random(seed)
        self.numbers = self.flushes = self.in_flight = self.failed = 0
        self.busy: set[int] = set()  # sectors in a write

    # Content to begin with

    def fill(self, handle: nbd.NBD) -> list[tuple[int, int, int]]:
        """Before the record begins: every sector of the windows has a stamp.  note_fill() tells the journal."""
        written = []
        for begin, length in self.windows:
            self.numbers += 1
            content = b"".join(
                stamp(sector, self.numbers) for sector in range(begin // SECTOR, (begin + length) // SECTOR)
            )
            handle.pwrite(content, begin)
            written.append((self.numbers, begin, length))
        handle.flush()
        return written

    def note_fill(self, written: list[tuple[int, int, int]]) -> None:
        for number, begin, length in written:
            self.journal.note(LOAD_WRITE_BEGINS, number=number, offset=begin, length=length)
        for number, _, _ in written:
            self.journal.note(LOAD_WRITE_ENDS, number=number)
        self.journal.note(LOAD_FLUSH_BEGINS, number=self.flushes)
        self.journal.note(LOAD_FLUSH_ENDS, number=self.flushes)

    def saw(self, handle: nbd.NBD) -> None:
        """Read all; what is there after a crash must stay."""
        for begin, length in self.windows:
            for at in range(begin, begin + length, READ_BYTES_MAX):
                content = handle.pread(min(READ_BYTES_MAX, begin + length - at), at)
                for place in range(0, len(content), SECTOR):
                    sector = (at + place) // SECTOR
                    (number,) = struct.unpack_from("<I", content, place + 4)
                    assert content[place : place + SECTOR] == stamp(sector, number), (
                        f"sector {sector} holds rubbish after the restart"
                    )
                    self.journal.note(LOAD_SAW, number=number, offset=at + place)

    # Requests

    def run(
        self,
        handle: nbd.NBD,
        requests: int,
        windows: Sequence[int],
        until: Callable[[], object] | None = None,
        midway: Callable[[], None] | None = None,
    ) -> None:
        """So many, and on until `until` says so, which is asked now and then.  `midway`: done with as
        many writes in flight as there may be."""
        if midway is not None:
            self.run_on(handle, requests // 2, windows)
            while self.in_flight < DEPTH:
                self._write(handle, windows)
            midway()
        done = 0
        while done < requests or (until is not None and not until()):
            for _ in range(4 if done >= requests else 1):
                self._one(handle, windows)
                done += 1
        self.drain(handle)

    def run_on(self, handle: nbd.NBD, requests: int, windows: Sequence[int]) -> None:
        """So many, and on return some of them are in flight."""
        for _ in range(requests):
            self._one(handle, windows)

    def run_until_broken(
        self, handle: nbd.NBD, requests: int, windows: Sequence[int], action: Callable[[], None]
    ) -> None:
        """`action` ends the connection, with requests in flight."""
        self.run_on(handle, requests, windows)
        while self.in_flight < DEPTH:
            self._write(handle, windows)
        action()
        try:
            while self.in_flight and not (handle.aio_is_dead() or handle.aio_is_closed()):
                self._turn(handle)
        except nbd.Error:
            pass
        # Sectors of writes that were never answered are free again: their outcome is settled by saw().
        self.in_flight = 0
        self.busy.clear()

    def drain(self, handle: nbd.NBD) -> None:
        while self.in_flight:
            self._turn(handle)

    def _turn(self, handle: nbd.NBD) -> None:
        assert handle.poll(QUIET_MS_MAX) != 0, f"{self.in_flight} requests hang"

    def _one(self, handle: nbd.NBD, windows: Sequence[int]) -> None:
        while self.in_flight >= DEPTH:
            self._turn(handle)
        if self.random.random() < 0.07:
            self._flush(handle)
        else:
            self._write(handle, windows)

    def _place(self, windows: Sequence[int]) -> tuple[int, int]:
        begin, length = self.windows[self.random.choice(windows)]
        kind = self.random.random()
        if kind < 0.5:  # part of a chunk, or over its edge
            size, grain = self.random.randint(1, 3 * self.chunk // 2 // self.block) * self.block, self.block
        elif kind < 0.7:
            size, grain = self.chunk * self.random.randint(1, 2), self.chunk
        elif kind < 0.85:
            size, grain = self.row_bytes * self.random.randint(1, 2), self.row_bytes
        else:
            size, grain = self.random.randint(1, 2 * self.row_bytes // self.block) * self.block, self.block
        size = min(size, length)
        return begin + self.random.randint(0, (length - size) // grain) * grain, size

    def _write(self, handle: nbd.NBD, windows: Sequence[int]) -> None:
        while True:
            offset, length = self._place(windows)
            sectors = range(offset // SECTOR, (offset + length) // SECTOR)
            if self.busy.isdisjoint(sectors):
                break
        self.numbers += 1
        number, fua = self.numbers, self.random.random() < 0.1
        content = b"".join(stamp(sector, number) for sector in sectors)
        self.busy.update(sectors)
        self.in_flight += 1

        def done(error: nbd.ctypes.c_int) -> int:
            self._ended(LOAD_WRITE_ENDS, number, error.value)
            self.busy.difference_update(sectors)
            return 1

        self.journal.note(LOAD_WRITE_BEGINS, flags=FUA if fua else 0, number=number, offset=offset, length=length)
        handle.aio_pwrite(content, offset, completion=done, flags=nbd.CMD_FLAG_FUA if fua else 0)

    def _flush(self, handle: nbd.NBD) -> None:
        self.flushes += 1
        number = self.flushes
        self.in_flight += 1

        def done(error: nbd.ctypes.c_int) -> int:
            self._ended(LOAD_FLUSH_ENDS, number, error.value)
            return 1

        self.journal.note(LOAD_FLUSH_BEGINS, number=number)
        handle.aio_flush(completion=done)

    def _ended(self, kind: int, number: int, error: int) -> None:
        self.in_flight -= 1
        self.failed += error != 0
        self.journal.note(kind, flags=FAILED if error else 0, number=number)
