"""The codec of the write log against a second one, made from docs/design/format.md alone."""

from __future__ import annotations

import ctypes
import random
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pure_library import (
    CHUNK_SIZES,
    KIB,
    LOG_BROKEN,
    LOG_NOTHING,
    LOG_PAYLOAD_BLOCKS_MAX,
    LOG_PIECES_MAX,
    LOG_RECORD,
    MIB,
    Geometry,
    Iovec,
    LogHeader,
    LogPiece,
    lib,
    ref,
)

from iraid_dev.stack.checksum import crc32c
from iraid_dev.stack.log_reader import BLOCK_BYTES, KNOWN, WRITTEN, decide, record_at, records_of

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
        durable=draw(st.integers(0, sequence - 1)),
        predecessor=0 if sequence == 1 else rng.getrandbits(32),
        copies=draw(st.integers(1, 2**members - 1)),
    )
    header.volume_uuid[:] = rng.randbytes(16)
    pieces: list[LogPiece] = []
    room = LOG_PAYLOAD_BLOCKS_MAX * BLOCK_BYTES
    for _ in range(draw(st.integers(0, LOG_PIECES_MAX))):
        row, position = rng.randrange(geometry.rows), rng.randrange(geometry.width)
        column = rng.randrange(chunk // block) * block
        length = min(rng.randint(1, (chunk - column) // block), rng.choice([1, 2, 9, 10**6])) * block
        if length > room:
            break
        room -= length
        kind = rng.choice([WRITTEN, KNOWN]) if position < geometry.data_chunks else WRITTEN
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
    for field in ("sequence", "tail", "durable", "predecessor", "copies"):
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


ABSURD = [
    (40, "<Q", 0, "sequence 0"),
    (48, "<Q", 0, "tail 0"),
    (48, "<Q", 2**64 - 1, "a tail behind the sequence"),
    (56, "<Q", 2**64 - 1, "a record durable by its own word"),
    (68, "<I", 0, "no copies"),
    (68, "<I", 1 << 31, "a copy on a role that is not there"),
    (72, "<H", 65, "too many pieces"),
    (74, "<H", 256, "too long a payload"),
    (128, "<Q", 2**40, "a row behind the last"),
    (136, "<I", 1, "a column that is no whole block"),
    (140, "<I", 0, "an empty piece"),
    (140, "<I", 1 << 30, "a piece that leaves its chunk"),
    (144, "<B", 31, "a role that is not there"),
    (145, "<B", 3, "a kind that is not known"),
]


@pytest.mark.parametrize("at, form, value, what", ABSURD, ids=[case[3] for case in ABSURD])
def test_a_header_that_contradicts_itself_is_refused(at: int, form: str, value: int, what: str) -> None:
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), 5, 4, 64 * KIB, 512, 64 * MIB) == 0
    role = lib().geometry_role(ref(geometry), 7, 0)
    header = LogHeader(key=9, sequence=20, tail=18, durable=17, predecessor=5, copies=3)
    header.piece_count, header.payload_blocks = 1, 1
    record = encode(geometry, header, [LogPiece(7, 512, 1024, role, WRITTEN)], bytes(1024), [])
    assert decode(record, record.block)[0] == LOG_RECORD
    block = bytearray(record.block)
    struct.pack_into(form, block, at, value)
    assert decode(record, sealed(block))[0] == LOG_BROKEN, what


def test_segments_are_a_sixteenth_of_the_log_and_at_most_a_mebibyte() -> None:
    for log_mib, segment in ((1, 64 * KIB), (2, 128 * KIB), (15, 960 * KIB), (16, MIB), (256, MIB)):
        assert lib().log_segment_bytes(log_mib * MIB) == segment


@given(st.integers(2, 6), st.integers(0, 2**32), st.integers(0, 9))
def test_a_log_is_replayed_up_to_the_first_record_that_is_torn_everywhere(count: int, seed: int, torn: int) -> None:
    """Records 1 to `count` on two members, in segments of their own; one is torn on both, or none."""
    rng = random.Random(seed)
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), 5, 4, 64 * KIB, 512, 64 * MIB) == 0
    logs, predecessor, uuid = [bytearray(MIB), bytearray(MIB)], 0, rng.randbytes(16)
    for sequence in range(1, count + 1):
        header = LogHeader(key=7, sequence=sequence, tail=1, predecessor=predecessor, copies=3)
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
