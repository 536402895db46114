"""The codec of the write log against a second one, made from docs/design/format.md alone."""

from __future__ import annotations

import ctypes
import random
import struct
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pure_library import (
    CHUNK_SIZES,
    KIB,
    LOG_BROKEN,
    LOG_NOTHING,
    LOG_PAYLOAD_BLOCKS_MAX,
    LOG_PIECES_MAX,
    LOG_RECORD,
    LOG_UNSUPPORTED,
    MIB,
    Geometry,
    Iovec,
    LogCopy,
    LogHeader,
    LogPiece,
    LogReplay,
    lib,
    ref,
)

from iraid_dev.stack.checksum import crc32c
from iraid_dev.stack.log_reader import (
    BLOCK_BYTES,
    PENDING,
    WRITTEN,
    ZERO_ROWS,
    Record,
    Unsupported,
    decide,
    record_at,
    records_of,
)

SHAPES = [(5, 3), (5, 4), (6, 4), (6, 7), (1, 3), (10, 5)]


class Written(NamedTuple):
    """A record as the product encodes it."""

    geometry: Geometry
    header: LogHeader
    pieces: ctypes.Array[LogPiece]
    payload: bytes
    digest: int
    block: bytes

    @property
    def volume_uuid(self) -> bytes:
        return bytes(self.header.volume_uuid)

    def all(self) -> bytes:
        return self.block + self.payload.ljust(self.header.payload_blocks * BLOCK_BYTES, b"\0")


def encode(geometry: Geometry, header: LogHeader, pieces: list[LogPiece], payload: bytes, cuts: list[int]) -> Written:
    """The payload is handed over in parts that end at `cuts`."""
    array = (LogPiece * max(len(pieces), 1))(*pieces)
    memory = ctypes.create_string_buffer(payload, max(len(payload), 1))
    ends = [*sorted(cut % (len(payload) + 1) for cut in cuts), len(payload)]
    parts = (Iovec * len(ends))()
    for i, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        parts[i] = Iovec(ctypes.addressof(memory) + begin, end - begin)
    block = ctypes.create_string_buffer(BLOCK_BYTES)
    digest = lib().log_encode(ref(header), array, ref(geometry), parts, len(ends), block)
    return Written(geometry, header, array, payload, digest, block.raw)


@st.composite
def written(draw: st.DrawFn) -> Written:
    level, members = draw(st.sampled_from(SHAPES))
    chunk, block = draw(st.sampled_from(CHUNK_SIZES)), draw(st.sampled_from([512, 4096]))
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), level, members, chunk, block, 64 * MIB) == 0
    rng = random.Random(draw(st.integers(0, 2**32)))
    sequence = draw(st.integers(1, 2**64 - 1))
    header = LogHeader(
        key=draw(st.integers(1, 2**64 - 1)),
        sequence=sequence,
        tail=draw(st.integers(1, sequence)),
        predecessor=0 if sequence == 1 else rng.getrandbits(32),
        copies=draw(st.integers(1, 2**members - 1)),
        epoch=draw(st.integers(0, 2**64 - 1)),
        run_first=draw(st.integers(1, sequence)),
    )
    header.durable = draw(st.integers(header.tail - 1, sequence - 1))
    header.volume_uuid[:] = rng.randbytes(16)
    pieces: list[LogPiece] = []
    room = LOG_PAYLOAD_BLOCKS_MAX * BLOCK_BYTES
    kinds: dict[int, int] = {}  # of rows
    ends: dict[tuple[int, int], int] = {}  # of rows and positions: where the last piece ends
    zeros: list[range] = []  # rows
    how_often_zeros = rng.choice([0, 0.1, 0.5])
    for _ in range(draw(st.integers(0, LOG_PIECES_MAX))):
        row, position = rng.randrange(rng.choice([3, geometry.rows])), rng.randrange(geometry.width)
        if any(row in rows for rows in zeros):
            continue
        if row not in kinds and rng.random() < how_often_zeros:
            behind = [*kinds, *(rows.start for rows in zeros), geometry.rows]
            most = min(taken for taken in behind if taken > row) - row
            count = min(rng.randint(1, most), rng.choice([1, 2, 9, most]))
            zeros.append(range(row, row + count))
            pieces.append(LogPiece(row, count, 0, 0, ZERO_ROWS))
            continue
        first = ends.get((row, position), 0)
        if first == chunk:
            continue
        column = rng.randrange(first // block, chunk // block) * block
        length = min(rng.randint(1, (chunk - column) // block), rng.choice([1, 2, 9, 10**6])) * block
        if length > room:
            break
        room -= length
        kind = kinds.get(row) or (rng.choice([WRITTEN, PENDING]) if position < geometry.data_chunks else WRITTEN)
        if kind == PENDING and position >= geometry.data_chunks:
            continue
        kinds[row], ends[row, position] = kind, column + length
        pieces.append(LogPiece(row, column, length, lib().geometry_role(ref(geometry), row, position), kind))
    payload = rng.randbytes(sum(piece.length_bytes for piece in pieces))
    header.piece_count, header.payload_blocks = len(pieces), -(-len(payload) // BLOCK_BYTES)
    return encode(geometry, header, pieces, payload, draw(st.lists(st.integers(0, 2**20), max_size=5)))


def decode(record: Written, block: bytes, key: int | None = None) -> tuple[int, LogHeader, ctypes.Array[LogPiece], int]:
    header, pieces, digest = LogHeader(), (LogPiece * LOG_PIECES_MAX)(), ctypes.c_uint32()
    uuid = (ctypes.c_uint8 * 16)(*record.header.volume_uuid)
    verdict = lib().log_decode(
        ctypes.create_string_buffer(block, BLOCK_BYTES),
        uuid,
        record.header.key if key is None else key,
        ref(record.geometry),
        ref(header),
        pieces,
        ref(digest),
    )
    return verdict, header, pieces, digest.value


def sealed(block: bytes | bytearray) -> bytes:
    block = bytearray(block)
    struct.pack_into("<I", block, 8, 0)
    struct.pack_into("<I", block, 8, crc32c(bytes(block)))
    return bytes(block)


@given(written())
def test_the_reader_finds_what_was_written(record: Written) -> None:
    found = record_at(record.all(), 0, record.volume_uuid, record.header.key)
    assert found is not None and found.whole and found.digest == record.digest
    for field in ("sequence", "tail", "durable", "predecessor", "copies", "epoch", "run_first"):
        assert getattr(found, field) == getattr(record.header, field), field
    assert len(found.pieces) == record.header.piece_count
    at = 0
    for piece, was in zip(found.pieces, record.pieces, strict=False):
        assert (piece.row, piece.column, piece.role, piece.kind) == (was.row, was.column_bytes, was.role, was.kind)
        assert piece.content == record.payload[at : at + was.length_bytes]
        at += was.length_bytes


@given(written())
def test_the_product_reads_back_what_it_wrote(record: Written) -> None:
    verdict, header, pieces, digest = decode(record, record.block)
    assert (verdict, digest) == (LOG_RECORD, record.digest)
    assert bytes(header) == bytes(record.header)
    for i in range(header.piece_count):
        for field, _ in LogPiece._fields_:
            assert getattr(pieces[i], field) == getattr(record.pieces[i], field), field
    assert lib().log_payload_is_whole(record.block, record.all()[BLOCK_BYTES:])
    assert sealed(record.block) == record.block


@given(written(), st.integers(0, BLOCK_BYTES - 1), st.integers(1, 255))
def test_a_header_with_any_byte_changed_is_no_record(record: Written, at: int, by: int) -> None:
    block = bytearray(record.block)
    block[at] ^= by
    expected = LOG_NOTHING if at < 8 or 16 <= at < 40 else LOG_BROKEN
    assert decode(record, bytes(block))[0] == expected
    assert record_at(bytes(block) + record.all()[BLOCK_BYTES:], 0, record.volume_uuid, record.header.key) is None


@given(written(), st.integers(0), st.integers(1, 255))
def test_a_payload_with_any_byte_changed_is_not_whole(record: Written, at: int, by: int) -> None:
    if not record.payload:
        return
    whole = bytearray(record.all())
    whole[BLOCK_BYTES + at % (len(whole) - BLOCK_BYTES)] ^= by
    assert not lib().log_payload_is_whole(record.block, bytes(whole[BLOCK_BYTES:]))
    found = record_at(bytes(whole), 0, record.volume_uuid, record.header.key)
    assert found is not None and not found.whole


@given(written())
def test_a_record_of_another_opening_is_nothing(record: Written) -> None:
    assert decode(record, record.block, key=record.header.key ^ 1)[0] == LOG_NOTHING


# (field of the header or of the second piece, its value): all else stays right, the payload's length too.
ABSURD = {
    "key 0": ("key", 0),
    "sequence 0": ("sequence", 0),
    "tail 0": ("tail", 0),
    "a tail behind the sequence": ("tail", 21),
    "a record durable by its own word": ("durable", 20),
    "records in their rows that were not durable": ("durable", 16),
    "no copies": ("copies", 0),
    "a copy on a role that is not there": ("copies", 1 << 31),
    "a first record with a predecessor": ("first", 1),
    "a run that began behind it": ("run_first", 21),
    "a run that began nowhere": ("run_first", 0),
    "too short a payload": ("payload_blocks", 1),
    "too long a payload": ("payload_blocks", 3),
    "a row behind the last": ("row", 2**40),
    "a column that is no whole block": ("column_bytes", 1),
    "a length that is no whole block": ("length_bytes", 5000),
    "an empty piece": ("length_bytes", 0),
    "a piece that leaves its chunk": ("column_bytes", 62 * KIB),
    "a role that is not there": ("role", 31),
    "a kind that is not known": ("kinds", 4),
    "too many pieces": ("piece_count", LOG_PIECES_MAX + 1),
    "redundancy that is known": ("known", 3),
    "two pieces of the same bytes": ("again", 0),
    "two kinds in a row": ("kind", PENDING),
}

# The volume below has this many rows.
ROWS = 1024

# Pieces in place of the second: row, number of rows, length, role.
ABSURD_ZEROS = {
    "no rows": [(9, 0, 0, 0)],
    "rows that begin behind the last": [(ROWS, 1, 0, 0)],
    "rows that begin far behind the last": [(2**64 - 1, 2, 0, 0)],
    "rows that end behind the last": [(ROWS - 1, 2, 0, 0)],
    "rows that end far behind the last": [(9, 2**32 - 1, 0, 0)],
    "a role": [(9, 3, 0, 1)],
    "a length": [(9, 3, 512, 0)],
    "rows that begin with another piece's": [(7, 3, 0, 0)],
    "rows that end with another piece's": [(5, 3, 0, 0)],
    "rows around another piece's": [(5, 5, 0, 0)],
    "another piece's row": [(7, 1, 0, 0)],
    "the same rows twice": [(9, 3, 0, 0), (9, 3, 0, 0)],
    "a last row that another range begins with": [(9, 3, 0, 0), (11, 3, 0, 0)],
    "rows inside another range": [(9, 5, 0, 0), (11, 1, 0, 0)],
}


def record_and_pieces() -> tuple[Geometry, LogHeader, list[LogPiece]]:
    """Level 5 of four: 4 KiB of the first data chunk of row 7, and of its second."""
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), 5, 4, 64 * KIB, 512, 64 * MIB) == 0
    roles = [lib().geometry_role(ref(geometry), 7, position) for position in range(2)]
    header = LogHeader(key=9, sequence=20, tail=18, durable=17, predecessor=5, copies=3, run_first=1)
    header.piece_count, header.payload_blocks = 2, 2
    return geometry, header, [LogPiece(7, 512, 4096, role, WRITTEN) for role in roles]


@pytest.mark.parametrize("what", ABSURD)
def test_a_header_that_contradicts_itself_is_refused(what: str) -> None:
    geometry, header, pieces = record_and_pieces()
    good = encode(geometry, header, pieces, bytes(8192), [])
    assert decode(good, good.block)[0] == LOG_RECORD
    field, value = ABSURD[what]
    if field == "first":
        header.sequence = header.tail = 1
        header.durable = 0
    elif field == "known":
        pieces = [LogPiece(7, 512, 8192, lib().geometry_role(ref(geometry), 7, value), PENDING)]
        header.piece_count = 1
    elif field == "kinds":
        pieces[0].kind = pieces[1].kind = value
    elif field == "again":
        pieces[1].role, pieces[1].column_bytes = pieces[0].role, pieces[0].column_bytes + 3584
    else:
        setattr(header if hasattr(header, field) else pieces[1], field, value)
    if field == "length_bytes":  # the sum stays what the payload is
        pieces[0].length_bytes = 8192 - value
    check_refused(good, header, pieces)


@pytest.mark.parametrize("other", [WRITTEN, PENDING])
@pytest.mark.parametrize("what", ABSURD_ZEROS)
def test_rows_of_zeros_that_make_no_sense_are_refused(what: str, other: int) -> None:
    geometry, header, pieces = record_and_pieces()
    good = encode(geometry, header, pieces, bytes(8192), [])
    pieces[0].kind = other
    pieces[1:] = [LogPiece(*fields, ZERO_ROWS) for fields in ABSURD_ZEROS[what]]
    header.piece_count = len(pieces)
    header.payload_blocks = -(-sum(piece.length_bytes for piece in pieces) // BLOCK_BYTES)
    check_refused(good, header, pieces)
    check_refused(good, header, pieces[::-1])


def test_rows_of_zeros_may_touch_other_pieces_and_the_last_row() -> None:
    """All rows but row 7, which has a piece of its own."""
    geometry, header, pieces = record_and_pieces()
    assert geometry.rows == ROWS
    zeros = [(0, 7, 0, 0), (8, 1, 0, 0), (9, ROWS - 10, 0, 0), (ROWS - 1, 1, 0, 0)]
    pieces[1:] = [LogPiece(*fields, ZERO_ROWS) for fields in zeros]
    header.piece_count, header.payload_blocks = len(pieces), 1
    for order in (pieces, pieces[::-1]):
        record = encode(geometry, header, order, bytes(4096), [])
        assert decode(record, record.block)[0] == LOG_RECORD


def check_refused(good: Written, header: LogHeader, pieces: list[LogPiece]) -> None:
    array = (LogPiece * (LOG_PIECES_MAX + 1))(*pieces)
    assert lib().log_fault(ref(header), array, ref(good.geometry)) is not None
    # by hand, for the product would not write it
    block = bytearray(good.block)
    fields = [getattr(header, name) for name, _ in LogHeader._fields_[1:]]
    struct.pack_into("<QQQQIIHH4xQQ", block, 32, *fields)
    for i, piece in enumerate(pieces[: header.piece_count]):
        struct.pack_into(
            "<QIIBB", block, 128 + 24 * i, piece.row, piece.column_bytes, piece.length_bytes, piece.role, piece.kind
        )
    assert decode(good, sealed(block), key=header.key)[0] == LOG_BROKEN


def test_a_record_of_a_later_release_is_not_taken_for_a_torn_one() -> None:
    geometry, header, pieces = record_and_pieces()
    good = encode(geometry, header, pieces, bytes(8192), [])
    block = bytearray(good.block)
    struct.pack_into("<I", block, 12, 2)
    assert decode(good, sealed(block))[0] == LOG_UNSUPPORTED
    with pytest.raises(Unsupported):
        record_at(sealed(block) + good.payload, 0, good.volume_uuid, 9)
    struct.pack_into("<I", block, 12, 0)
    assert decode(good, sealed(block))[0] == LOG_BROKEN


@pytest.mark.parametrize(
    "length, most", [(64 * KIB, LOG_PAYLOAD_BLOCKS_MAX * BLOCK_BYTES // (64 * KIB)), (512, LOG_PIECES_MAX)]
)
def test_a_record_has_no_more_than_its_header_has_room_for(length: int, most: int) -> None:
    """One piece of this length in each row."""
    geometry, header, _ = record_and_pieces()
    for count in (most, most + 1):
        pieces = (LogPiece * count)()
        for row in range(count):
            pieces[row] = LogPiece(row, 0, length, lib().geometry_role(ref(geometry), row, 0), WRITTEN)
        header.piece_count, header.payload_blocks = count, -(-count * length // BLOCK_BYTES)
        assert (lib().log_fault(ref(header), pieces, ref(geometry)) is None) == (count == most)


def test_a_role_without_a_part_in_the_row_has_no_piece() -> None:
    """Level 10 of four: row 0 is on roles 0 and 1."""
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), 10, 4, 64 * KIB, 512, 64 * MIB) == 0
    header = LogHeader(key=9, sequence=1, tail=1, copies=3, piece_count=1, payload_blocks=1, run_first=1)
    for role in range(4):
        pieces = (LogPiece * 1)(LogPiece(0, 0, 512, role, WRITTEN))
        assert (lib().log_fault(ref(header), pieces, ref(geometry)) is None) == (role < 2)


def test_segments_are_a_sixteenth_of_the_log_within_their_bounds() -> None:
    for log_mib, segment in ((1, 256 * KIB), (4, 256 * KIB), (5, 320 * KIB), (15, 960 * KIB), (16, MIB), (256, MIB)):
        assert lib().log_segment_bytes(log_mib * MIB) == segment


@given(st.integers(2, 6), st.integers(0, 2**32), st.integers(0, 9))
def test_a_log_is_replayed_up_to_the_first_record_that_is_torn_everywhere(count: int, seed: int, torn: int) -> None:
    """Records 1 to `count` on two members, in segments of their own; one is torn on both, or none."""
    rng = random.Random(seed)
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), 5, 4, 64 * KIB, 512, 64 * MIB) == 0
    logs, predecessor, uuid = [bytearray(MIB), bytearray(MIB)], 0, rng.randbytes(16)
    for sequence in range(1, count + 1):
        header = LogHeader(key=7, sequence=sequence, tail=1, predecessor=predecessor, copies=3, run_first=1)
        header.volume_uuid[:] = uuid
        header.piece_count, header.payload_blocks = 1, 1
        role = lib().geometry_role(ref(geometry), sequence, 0)
        record = encode(geometry, header, [LogPiece(sequence, 0, 512, role, WRITTEN)], rng.randbytes(512), [])
        predecessor = record.digest
        for log, place in zip(logs, (sequence, 15 - sequence), strict=True):
            whole = bytearray(record.all())
            if sequence == torn:
                whole[BLOCK_BYTES + 100] ^= 1
            log[place * 64 * KIB : place * 64 * KIB + len(whole)] = whole
    replay = decide(record for log in logs for record in records_of(bytes(log), uuid, 7))
    replayed = torn - 1 if 1 <= torn <= count else count
    assert [record.sequence for record in replay.records] == list(range(1, replayed + 1))
    assert not replay.missing


@st.composite
def copies(draw: st.DrawFn) -> list[Record]:
    """Of up to twelve records on three members, of several runs; some are nowhere, torn, or follow on something else."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    runs = [(epoch, rng.randint(1, 12)) for epoch in range(1, rng.randint(1, 4) + 1)]
    holes, torn, strangers = (rng.choice([0, 0, 0.1, 0.4]) for _ in range(3))
    found = []
    for sequence in range(1, rng.randint(1, 12) + 1):
        tail = rng.randint(1, sequence) if rng.random() < 0.2 else 1
        durable = rng.randint(tail - 1, sequence - 1) if rng.random() < 0.3 else tail - 1
        for _ in range(rng.randint(1, 3)):
            if rng.random() < holes:
                continue
            predecessor = 77 if rng.random() < strangers else sequence - 1
            whole = rng.random() >= torn
            epoch, first = rng.choice([run for run in runs if run[1] <= sequence] or [(0, 1)])
            found.append(Record(sequence, tail, durable, predecessor, 7, sequence, (), whole, len(found), epoch, first))
    rng.shuffle(found)
    return found


@given(copies(), st.booleans())
@example([], False)
@example([], True)
def test_the_product_replays_what_the_reader_does(found: list[Record], may_hide: bool) -> None:
    array = (LogCopy * max(len(found), 1))()
    for copy, record in zip(array, found, strict=False):
        copy.header.sequence, copy.header.tail, copy.header.durable = record.sequence, record.tail, record.durable
        copy.header.predecessor, copy.digest, copy.whole = record.predecessor, record.digest, record.whole
        copy.header.epoch, copy.header.run_first = record.epoch, record.run_first
    decided, replay = LogReplay(), decide(found, may_hide)
    count = lib().log_replay_drop_stale(array, len(found))
    lib().log_replay_decide(array, count, may_hide, ref(decided))
    assert list(range(decided.first, decided.end)) == [record.sequence for record in replay.records]
    assert (decided.missing_from, decided.missing_to) == (
        (replay.missing[0], replay.missing[-1]) if replay.missing else (0, 0)
    )
