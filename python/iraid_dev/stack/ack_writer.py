#!/usr/bin/python3
"""Writes to a disk and remembers, outside of it, what was acknowledged.

    ack_writer.py write --device /dev/sda --journal FILE --slot-bytes 20480 --slots 1024
                        --depth 8 --seconds 30 [--until FILE]
    ack_writer.py check --device /dev/sda --journal FILE --slot-bytes 20480 --slots 1024

The disk is cut into slots.  A write fills one slot; every 512-byte sector of it says which slot
and sector it is and the sequence number of the write, and has a checksum.  The journal holds two
numbers a slot: `issued`, stored before a write is sent, and `acknowledged`, stored after it
returned.  So, whatever died when, a sector must hold

    a sequence number from `acknowledged` to `issued`

and anything else is a lost acknowledged write, a write that came from nowhere, or damage.  Sectors
of one slot may differ only in a write that was not acknowledged.  A slot is written by one worker,
one write at a time, so the numbers have an order.

`write` prints "writing" once the first write is acknowledged, and at its end a line of JSON; both
go on through stalls.  Standard library only.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import struct
import sys
import threading
import time
import zlib

SECTOR = 512
HEADER = struct.Struct("<8sIIQQ")  # magic, slot, sector of the slot, sequence, run
CHECKSUM = struct.Struct("<I")
MAGIC = b"ACKWRITE"
ENTRY = struct.Struct("<QQ")  # issued, acknowledged
LOST_SHOWN_MAX = 20


class Journal:
    """Numbers of all slots in a shared mapping: what was stored is there whoever is killed."""

    def __init__(self, path: str, slots: int, create: bool):
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
        if create and os.fstat(descriptor).st_size == 0:
            os.truncate(descriptor, slots * ENTRY.size)
        if os.fstat(descriptor).st_size != slots * ENTRY.size:
            sys.exit(f"ack_writer: journal {path} is not one of {slots} slots")
        self._map = mmap.mmap(descriptor, slots * ENTRY.size)
        os.close(descriptor)

    def get(self, slot: int) -> tuple[int, int]:
        issued, acknowledged = ENTRY.unpack_from(self._map, slot * ENTRY.size)
        return issued, acknowledged

    def set(self, slot: int, issued: int, acknowledged: int) -> None:
        ENTRY.pack_into(self._map, slot * ENTRY.size, issued, acknowledged)


def fill(buffer: mmap.mmap, slot: int, sequence: int, body: bytes) -> None:
    run = random.getrandbits(64)
    for sector in range(len(buffer) // SECTOR):
        start = sector * SECTOR
        HEADER.pack_into(buffer, start, MAGIC, slot, sector, sequence, run)
        buffer[start + HEADER.size : start + SECTOR - CHECKSUM.size] = body
        checksum = zlib.crc32(buffer[start : start + SECTOR - CHECKSUM.size])
        CHECKSUM.pack_into(buffer, start + SECTOR - CHECKSUM.size, checksum)


class Load:
    def __init__(self, given: argparse.Namespace):
        self.given = given
        self.journal = Journal(given.journal, given.slots, create=True)
        self.device = os.open(given.device, os.O_RDWR | os.O_DIRECT)
        self.lock = threading.Lock()
        self.first = threading.Event()
        self.stop_at = time.monotonic() + given.seconds
        self.writes = 0
        self.longest = self.gap = 0.0
        self.last = time.monotonic()
        self.errors: list[str] = []

    def worker(self, number: int) -> None:
        slot_bytes, depth = self.given.slot_bytes, self.given.depth
        chosen = random.Random(number)
        body = chosen.randbytes(SECTOR - HEADER.size - CHECKSUM.size)
        buffer = mmap.mmap(-1, slot_bytes)
        mine = range(number, self.given.slots, depth)
        while time.monotonic() < self.stop_at and not (self.given.until and os.path.exists(self.given.until)):
            slot = chosen.choice(mine)
            issued, acknowledged = self.journal.get(slot)
            fill(buffer, slot, issued + 1, body)
            self.journal.set(slot, issued + 1, acknowledged)
            begin = time.monotonic()
            try:
                written = os.pwrite(self.device, buffer, slot * slot_bytes)
            except OSError as error:
                self.fault(f"slot {slot}: {error.strerror} after {time.monotonic() - begin:.1f} s")
                return
            if written != slot_bytes:
                self.fault(f"slot {slot}: {written} bytes of {slot_bytes} written")
                return
            self.journal.set(slot, issued + 1, issued + 1)
            self.account(begin)

    def account(self, begin: float) -> None:
        now = time.monotonic()
        with self.lock:
            self.writes += 1
            self.longest = max(self.longest, now - begin)
            self.gap = max(self.gap, now - self.last)
            self.last = now
        self.first.set()

    def fault(self, text: str) -> None:
        with self.lock:
            self.errors.append(text)
        self.first.set()

    def run(self) -> dict[str, object]:
        workers = [threading.Thread(target=self.worker, args=(number,)) for number in range(self.given.depth)]
        self.last = time.monotonic()
        for worker in workers:
            worker.start()
        self.first.wait()
        print("writing", flush=True)
        for worker in workers:
            worker.join()
        return {
            "writes": self.writes,
            "errors": self.errors,
            "longest_seconds": round(self.longest, 3),
            "gap_seconds": round(self.gap, 3),
        }


def sector_fault(data: memoryview, slot: int, sector: int, issued: int, acknowledged: int) -> str | None:
    """What is wrong with one sector."""
    magic, its_slot, its_sector, sequence, _ = HEADER.unpack_from(data)
    if acknowledged == 0 and issued == 0:
        return None
    if acknowledged == 0 and magic != MAGIC:
        return None  # the first write of this slot was never acknowledged
    if magic != MAGIC:
        return f"holds no write, acknowledged was {acknowledged}"
    if CHECKSUM.unpack_from(data, SECTOR - CHECKSUM.size)[0] != zlib.crc32(data[: SECTOR - CHECKSUM.size]):
        return f"is damaged (says sequence {sequence})"
    if (its_slot, its_sector) != (slot, sector):
        return f"holds slot {its_slot} sector {its_sector}"
    if not acknowledged <= sequence <= issued:
        return f"holds write {sequence}, acknowledged was {acknowledged}, issued {issued}"
    return None


def check(given: argparse.Namespace) -> dict[str, object]:
    journal = Journal(given.journal, given.slots, create=False)
    device = os.open(given.device, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, given.slot_bytes)
    lost: list[str] = []
    checked = 0
    for slot in range(given.slots):
        issued, acknowledged = journal.get(slot)
        if issued == 0:
            continue
        checked += 1
        if os.preadv(device, [buffer], slot * given.slot_bytes) != given.slot_bytes:
            lost.append(f"slot {slot}: short read")
            continue
        view = memoryview(buffer)
        for sector in range(given.slot_bytes // SECTOR):
            at = view[sector * SECTOR : (sector + 1) * SECTOR]
            if fault := sector_fault(at, slot, sector, issued, acknowledged):
                lost.append(f"slot {slot} sector {sector} {fault}")
    return {"slots": given.slots, "checked": checked, "lost_count": len(lost), "lost": lost[:LOST_SHOWN_MAX]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("--device", required=True)
    parser.add_argument("--journal", required=True)
    parser.add_argument("--slot-bytes", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--until", metavar="FILE", help="end also when this file is there")
    given = parser.parse_args()
    if given.slot_bytes % SECTOR or given.slot_bytes <= 0:
        parser.error(f"--slot-bytes {given.slot_bytes} is no multiple of {SECTOR}")
    result = Load(given).run() if given.what == "write" else check(given)
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
