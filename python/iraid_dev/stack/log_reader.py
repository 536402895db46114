"""Reads the write log of members without the product: a second implementation of docs/design/format.md.

    copies = [record for log in logs for record in records_of(log, volume_uuid, key)]
    replay = decide(copies)
    replay.records                # what a start writes to rows, in order; nothing if there is a hole
    replay.missing                # the hole: some of these were durable, and are gone
    pending_of(replay)            # what is acknowledged and in no row yet

`log` is the bytes of one member's log area.  Made from the page alone, so that an error in
pure/log_record.c or state/log_replay.c can't hide in here too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .checksum import crc32c

BLOCK_BYTES = 4096
MAGIC = b"IRAID-LG"
PIECES_AT, PIECE_BYTES, SUMS_AT = 128, 24, 2048
PIECES_MAX, PAYLOAD_BLOCKS_MAX = 64, 255
WRITTEN, PENDING, ZERO_ROWS = 1, 2, 3


@dataclass(frozen=True)
class Piece:
    """`content` belongs to the chunk of `role` in `row`, from byte `column` of the chunk on.

    Of kind ZERO_ROWS: so many rows as `column` says are zeros on all roles, the first is `row`; `role` is 0 and
    `content` is empty.
    """

    row: int
    column: int
    role: int
    kind: int
    content: bytes


@dataclass(frozen=True)
class Record:
    """One copy.  `whole`: the payload is as it was written."""

    sequence: int
    tail: int
    durable: int
    predecessor: int
    copies: int
    digest: int
    pieces: tuple[Piece, ...]
    whole: bool
    offset: int
    epoch: int = 1
    run_first: int = 1


@dataclass(frozen=True)
class Replay:
    records: tuple[Record, ...]
    missing: range


class Unsupported(Exception):
    """A later release wrote it."""


def record_at(log: bytes, offset: int, volume_uuid: bytes, key: int) -> Record | None:
    """What stands at this byte of the log area, if its header is good."""
    header = log[offset : offset + BLOCK_BYTES]
    if len(header) < BLOCK_BYTES or header[:8] != MAGIC:
        return None
    crc, version, uuid = struct.unpack_from("<II16s", header, 8)
    found_key, sequence, tail, durable, predecessor, copies, count, blocks = struct.unpack_from("<QQQQIIHH", header, 32)
    if (uuid, found_key) != (volume_uuid, key) or crc32c(header[:8] + bytes(4) + header[12:]) != crc:
        return None
    epoch, run_first = struct.unpack_from("<QQ", header, 80)
    if version > 1:
        raise Unsupported(f"byte {offset} of the log: a record of version {version}")
    if not (
        1 <= tail <= sequence
        and tail - 1 <= durable < sequence
        and 1 <= run_first <= sequence
        and copies > 0
        and count <= PIECES_MAX
        and blocks <= PAYLOAD_BLOCKS_MAX
    ):
        return None
    payload = log[offset + BLOCK_BYTES : offset + BLOCK_BYTES * (1 + blocks)]
    sums = struct.unpack_from(f"<{blocks}I", header, SUMS_AT)
    whole = len(payload) == blocks * BLOCK_BYTES and all(
        crc32c(payload[BLOCK_BYTES * i : BLOCK_BYTES * (i + 1)]) == sums[i] for i in range(blocks)
    )
    pieces, at = [], 0
    for i in range(count):
        row, column, length, role, kind = struct.unpack_from("<QIIBB", header, PIECES_AT + PIECE_BYTES * i)
        pieces.append(Piece(row, column, role, kind, payload[at : at + length]))
        at += length
    return Record(sequence, tail, durable, predecessor, copies, crc, tuple(pieces), whole, offset, epoch, run_first)


def records_of(log: bytes, volume_uuid: bytes, key: int) -> list[Record]:
    """All records of this opening, wherever they stand."""
    found = (record_at(log, offset, volume_uuid, key) for offset in range(0, len(log), BLOCK_BYTES))
    return [record for record in found if record is not None]


def pending_of(replay: Replay) -> dict[tuple[int, int, int], int]:
    """Bytes that are to come to their rows, and are in none: (row, role, byte of the chunk) to the byte.

    A later piece of the same bytes takes the place of one that is pending, written or not.
    """
    pending: dict[tuple[int, int, int], int] = {}
    for record in replay.records:
        for piece in record.pieces:
            if piece.kind == ZERO_ROWS:
                rows = range(piece.row, piece.row + piece.column)
                pending = {place: byte for place, byte in pending.items() if place[0] not in rows}
                continue
            for at, byte in enumerate(piece.content, piece.column):
                pending.pop((piece.row, piece.role, at), None)
                if piece.kind == PENDING:
                    pending[piece.row, piece.role, at] = byte
    return pending


def is_stale(record: Record, copies: Iterable[Record]) -> bool:
    """A later run found a gap before it."""
    return any(other.epoch > record.epoch and other.run_first <= record.sequence for other in copies)


def decide(copies: Iterable[Record], may_hide: bool = False) -> Replay:
    """What a start replays, of what all members hold.  `may_hide`: the newest record may be in blocks that can't be
    read."""
    found = list(copies)
    copies = [record for record in found if not is_stale(record, found)]
    sequence = max((record.tail for record in copies), default=1)
    durable = max((record.durable for record in copies), default=0)
    replayed: list[Record] = []
    while True:
        fitting = [
            record
            for record in copies
            if record.sequence == sequence
            and record.whole
            and (not replayed or record.predecessor == replayed[-1].digest)
        ]
        if not fitting:
            missing = range(sequence, max(durable, sequence if may_hide else 0) + 1)
            return Replay((), missing) if missing else Replay(tuple(replayed), range(0))
        replayed.append(fitting[0])
        sequence += 1
