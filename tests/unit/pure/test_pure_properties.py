"""Geometry and XOR against slow models written from their headers.

The models share no formula with the C code where another one exists: a volume is dealt out chunk by
chunk into a table.  Codes and plans are tested in C: test_code.c, test_plan.c, test_plan_bytes.c.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_library import ALL_SHAPES, BLOCK, CHUNK_SIZES, MEMBERS, MIB, Extent, Geometry, IovRun, Iovec, lib, ref


# --- geometry ---


def make_geometry(level: int, members: int, chunk: int, member_chunks: int) -> Geometry:
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), level, members, chunk, BLOCK, member_chunks * chunk) == 0
    return geometry


def data_chunks_of(level: int, members: int) -> int:
    return {0: members, 1: 1, 5: members - 1, 6: members - 2, 10: 1}[level]


class Model:
    """Places (member, chunk on it) of each row, by position."""

    def __init__(self, level: int, members: int, member_chunks: int):
        self.rows: list[list[tuple[int, int]]] = []
        if level == 10:  # deal two copies of each chunk to the members in turn
            places = ((m, chunk) for chunk in range(member_chunks) for m in range(members))
            self.rows = [list(pair) for pair in zip(places, places)]
            return
        turns = list(range(members))  # of one row: data in turn, then P and Q
        if level in (5, 6):
            turns = turns[level == 6 :] + turns[: level == 6]  # D..., P of row 0, Q before D0
        for row in range(member_chunks):
            self.rows.append([(m, row) for m in turns])
            if level in (5, 6):
                turns = [(m - 1) % members for m in turns]


@pytest.mark.parametrize("level,members", ALL_SHAPES)
def test_chunks_stand_where_the_model_has_them(level, members):
    member_chunks = 2 * members + 3
    model = Model(level, members, member_chunks)
    for chunk_bytes in CHUNK_SIZES[::4]:
        geometry = make_geometry(level, members, chunk_bytes, member_chunks)
        row_bytes = data_chunks_of(level, members) * chunk_bytes
        assert geometry.rows == len(model.rows)
        assert lib().geometry_row_bytes(ref(geometry)) == row_bytes
        assert lib().geometry_volume_bytes(ref(geometry)) == len(model.rows) * row_bytes
        for row, places in enumerate(model.rows):
            assert geometry.width == len(places)
            for position, (member, chunk) in enumerate(places):
                assert lib().geometry_role(ref(geometry), row, position) == member
                assert lib().geometry_offset(ref(geometry), row, member) == chunk * chunk_bytes
            positions = {member: position for position, (member, _) in enumerate(places)}
            for member in range(members):
                expected = positions.get(member, -1)
                assert lib().geometry_position(ref(geometry), row, member) == expected


@pytest.mark.parametrize("level,members", ALL_SHAPES)
def test_every_byte_of_a_small_volume_goes_to_the_models_place(level, members):
    """Written through geometry_locate() in cuts of random length, found by the model."""
    rng = random.Random(1000 * level + members)
    member_chunks = min(members + 1, 12)
    chunk = rng.choice([4096, 8192])
    data_chunks = data_chunks_of(level, members)
    model = Model(level, members, member_chunks)
    geometry = make_geometry(level, members, chunk, member_chunks)
    size = lib().geometry_volume_bytes(ref(geometry))
    content = rng.randbytes(size)
    disks = [bytearray(member_chunks * chunk) for _ in range(members)]

    offset = 0
    while offset < size:
        wanted = min(size - offset, rng.choice([1, 511, 512, chunk, 3 * chunk, size]))
        extent = Extent()
        assert lib().geometry_locate(ref(geometry), offset, wanted, ref(extent)) == 0
        assert extent.length_bytes == min(wanted, chunk - extent.column_bytes)
        at, end = extent.member_offset_bytes, extent.member_offset_bytes + extent.length_bytes
        disks[extent.role][at:end] = content[offset : offset + extent.length_bytes]
        offset += extent.length_bytes

    for row, position in itertools.product(range(len(model.rows)), range(data_chunks)):
        member, place = model.rows[row][position]
        n = row * data_chunks + position
        assert disks[member][place * chunk : (place + 1) * chunk] == content[n * chunk : (n + 1) * chunk]


@given(st.sampled_from(ALL_SHAPES), st.sampled_from(CHUNK_SIZES), st.integers(1, 2**38 - 1), st.data())
def test_locate_agrees_with_the_model_in_volumes_of_any_size(shape, chunk, member_chunks, data):
    level, members = shape
    geometry = make_geometry(level, members, chunk, member_chunks)
    data_chunks = data_chunks_of(level, members)
    rows = member_chunks * members // 2 if level == 10 else member_chunks
    size = rows * chunk * data_chunks
    offset = data.draw(st.integers(0, size + 2 * chunk) | st.integers(0, 2**64 - 1))
    wrapping = st.integers(0, chunk).map(lambda over: (2**64 - offset + over) % 2**64)
    length = data.draw(st.integers(0, 4 * chunk) | st.integers(0, 2**64 - 1) | wrapping)
    extent = Extent()
    result = lib().geometry_locate(ref(geometry), offset, length, ref(extent))
    if length == 0 or offset + length > size:
        assert result == -errno.ERANGE
        return
    n = offset // chunk
    row = n // data_chunks
    assert result == 0
    assert (extent.row, extent.chunk) == (row, n % data_chunks)
    assert extent.column_bytes == offset % chunk
    place = 2 * row // members if level == 10 else row
    assert extent.member_offset_bytes == place * chunk + offset % chunk
    assert extent.length_bytes == min(length, chunk - offset % chunk)
    # P of row r is on member -1 - r; Q and then the data follow it
    after_p = {5: 1, 6: 2}
    if level in after_p:
        assert extent.role == (-1 - row + after_p[level] + extent.chunk) % members
    else:
        assert extent.role == {0: extent.chunk, 1: 0, 10: 2 * row % members}[level]


@given(
    st.sampled_from([*MEMBERS]) | st.integers(-2, 12),
    st.integers(0, 6) | st.integers(-1, 300),
    st.sampled_from(CHUNK_SIZES)
    | st.sampled_from([0, 1, 2048, 4097, 12288, 2 * MIB, 2**31])
    | st.integers(0, 2**32 - 1),
    st.sampled_from([512, 4096]) | st.sampled_from([0, 256, 520, 1024]),
    st.integers(2**20, 2**30) | st.integers(0, 2**64 - 1) | st.integers(0, 2**22),
)
def test_init_accepts_what_is_in_bounds_and_nothing_else(level, members, chunk, block, data_bytes):
    good = (
        members in MEMBERS.get(level, ())
        and chunk in CHUNK_SIZES
        and block in (512, 4096)
        and chunk <= data_bytes < 2**58
    )
    geometry = Geometry()
    result = lib().geometry_init(ref(geometry), level, members, chunk, block, data_bytes)
    assert result == (0 if good else -errno.EINVAL)
    if good:
        chunks = data_bytes // chunk
        assert geometry.rows == (chunks * members // 2 if level == 10 else chunks)


# --- parity ---


def xor_bytes(parts: list[bytes], length: int) -> bytes:
    total = functools.reduce(lambda a, b: a ^ int.from_bytes(b, "little"), parts, 0)
    return total.to_bytes(length, "little")


class Memory:
    """One buffer of C memory in which pieces at chosen alignments are handed out."""

    def __init__(self, size: int):
        self.buffer = (ctypes.c_uint8 * (size + 4096))()
        self.next = -(-ctypes.addressof(self.buffer) // 4096) * 4096

    def place(self, content: bytes, misalignment: int) -> int:
        address = -(-self.next // 64) * 64 + misalignment
        ctypes.memmove(address, content, len(content))
        self.next = address + len(content)
        return address


@given(
    st.integers(0, 66),
    st.integers(0, 3000),
    st.sampled_from([0, 0, 32, 1, 8]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_xor_of_plain_memory_agrees_with_the_model(count, length, misalignment, aliased, rng):
    memory = Memory(70 * (length + 256))
    parts = [rng.randbytes(length) for _ in range(count)]
    addresses = [memory.place(part, misalignment) for part in parts]
    if aliased and count:
        destination = rng.choice(addresses)
    else:
        destination = memory.place(rng.randbytes(length), misalignment)
    sources = (ctypes.c_void_p * max(count, 1))(*addresses)
    lib().parity_xor(destination, sources, count, length)
    assert ctypes.string_at(destination, length) == xor_bytes(parts, length)


def scatter(memory: Memory, content: bytes, rng: random.Random, unit: int) -> IovRun:
    """content in pieces anywhere, behind some bytes that are skipped."""
    skip = rng.choice([0, 0, unit, 3 * unit])
    whole = rng.randbytes(skip) + content
    pieces = []
    while whole:
        step = min(len(whole), unit * rng.choice([1, 2, 3, 100]))
        pieces.append((memory.place(whole[:step], rng.choice([0, unit % 64])), step))
        whole = whole[step:]
        if rng.random() < 0.2:
            pieces.append((None, 0))
    array = (Iovec * max(len(pieces), 1))(*pieces)
    return IovRun(ctypes.cast(array, ctypes.POINTER(Iovec)), len(pieces), skip)


def gather(run: IovRun, length: int) -> bytes:
    whole = b"".join(
        ctypes.string_at(run.iov[i].base, run.iov[i].length) for i in range(run.count) if run.iov[i].length
    )
    return whole[run.skip_bytes : run.skip_bytes + length]


@given(
    st.integers(0, 9),
    st.integers(0, 12),
    st.sampled_from([512, 64, 13, 1]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_xor_of_scattered_memory_agrees_with_the_model(count, units, unit, aliased, rng):
    length = units * unit
    memory = Memory((count + 2) * 64 * (length + 4 * unit + 256))
    parts = [rng.randbytes(length) for _ in range(count)]
    runs = [scatter(memory, part, rng, unit) for part in parts]
    if aliased and count:
        destination = runs[rng.randrange(count)]
    else:
        destination = scatter(memory, rng.randbytes(length), rng, unit)
    lib().parity_xor_runs(destination, (IovRun * max(count, 1))(*runs), count, length)
    assert gather(destination, length) == xor_bytes(parts, length)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=8),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(0, 8),
)
def test_slices_of_iovecs_agree_with_the_model(pieces, skip, length, out_max):
    """Addresses are numbers here: nothing is read.  A gap of 0 makes neighbours touch."""
    address, iov, addresses = 4096, [], []
    for gap, size in pieces:
        address += gap if gap < 30 else 0
        iov.append((address, size))
        addresses += range(address, address + size)
        address += size
    expected = addresses[skip : skip + length]
    runs = []
    for a in expected:
        if runs and sum(runs[-1]) == a:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((a, 1))
    out = (Iovec * 9)()
    result = lib().iov_slice((Iovec * max(len(iov), 1))(*iov), len(iov), skip, length, out, out_max)
    if len(runs) > out_max:
        assert result == -errno.ENOSPC or (len(expected) < length and result == -errno.EINVAL)
    elif len(expected) < length:
        assert result == -errno.EINVAL
    else:
        assert [(out[i].base, out[i].length) for i in range(result)] == runs
