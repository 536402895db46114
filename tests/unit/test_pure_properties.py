"""Geometry, parity and plan against slow models written from their headers.

The models share no formula with the C code where another one exists: chunk n of a left-symmetric
volume is on member n mod N; the cheapest reads of a write are found by trying all sets of members.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import itertools
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pure_library import (ALL_SHAPES, BLOCK, CHUNK_SIZES, DATA_ONLY, FULL, MIB, READ_ALL,
                          RECONSTRUCT, RMW, Columns, Extent, Geometry, IovRun, Iovec,
                          RowPlan, lib, ref)


# --- geometry ---

def make_geometry(level: int, members: int, chunk: int, rows: int) -> Geometry:
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), level, members, chunk, BLOCK, rows * chunk) == 0
    return geometry


@dataclass
class ModelVolume:
    """A volume as a table row x member -> chunk number of the volume, or "P"."""
    level: int
    members: int
    rows: int
    table: list[dict[int, object]] = field(default_factory=list)

    def __post_init__(self):
        chunks = itertools.count()
        for _ in range(self.rows):
            row: dict[int, object] = {}
            for _ in range(self.members - (self.level == 5)):
                n = next(chunks)
                assert n % self.members not in row
                row[n % self.members] = n
            for member in range(self.members):
                row.setdefault(member, "P")     # the one that is left over
            self.table.append(row)

    def place_of(self, chunk: int) -> tuple[int, int]:
        row = chunk // (self.members - (self.level == 5))
        return row, next(m for m, n in self.table[row].items() if n == chunk)


@pytest.mark.parametrize("level,members", ALL_SHAPES)
def test_chunks_and_parity_stand_where_the_model_has_them(level, members):
    rows = 2 * members + 3
    model = ModelVolume(level, members, rows)
    for chunk_bytes in CHUNK_SIZES:
        geometry = make_geometry(level, members, chunk_bytes, rows)
        data_chunks = members - (level == 5)
        assert lib().geometry_row_bytes(ref(geometry)) == data_chunks * chunk_bytes
        assert lib().geometry_volume_bytes(ref(geometry)) == rows * data_chunks * chunk_bytes
        for row in range(rows):
            parity = [m for m, n in model.table[row].items() if n == "P"]
            assert lib().geometry_parity_member(ref(geometry), row) == (parity or [-1])[0]
            for member, n in model.table[row].items():
                chunk = -1 if n == "P" else n - row * data_chunks
                assert lib().geometry_chunk_on_member(ref(geometry), row, member) == chunk
                if chunk >= 0:
                    assert lib().geometry_data_member(ref(geometry), row, chunk) == member


def locate(geometry: Geometry, offset: int, length: int) -> Extent:
    extent = Extent()
    assert lib().geometry_locate(ref(geometry), offset, length, ref(extent)) == 0
    return extent


@pytest.mark.parametrize("level,members", ALL_SHAPES)
def test_every_byte_of_a_small_volume_goes_to_the_models_place_and_comes_back(level, members):
    """Written through locate() in cuts of random length, found by the model, read by other cuts."""
    rng = random.Random(1000 * level + members)
    rows = min(members + 1, 12)
    chunk = rng.choice([4096, 8192])
    model = ModelVolume(level, members, rows)
    geometry = make_geometry(level, members, chunk, rows)
    size = lib().geometry_volume_bytes(ref(geometry))
    content = rng.randbytes(size)
    disks = [bytearray(rows * chunk) for _ in range(members)]
    touched = [bytearray(rows * chunk) for _ in range(members)]

    offset = 0
    while offset < size:
        wanted = min(size - offset, rng.choice([1, 511, 512, chunk, 3 * chunk, size]))
        extent = locate(geometry, offset, wanted)
        assert 1 <= extent.length_bytes <= wanted
        assert extent.column_bytes + extent.length_bytes <= chunk
        assert extent.length_bytes == min(wanted, chunk - extent.column_bytes)
        at, end = extent.member_offset_bytes, extent.member_offset_bytes + extent.length_bytes
        assert at == extent.row * chunk + extent.column_bytes
        assert not any(touched[extent.member][at:end]), "two volume bytes in one place"
        touched[extent.member][at:end] = b"\1" * extent.length_bytes
        disks[extent.member][at:end] = content[offset:offset + extent.length_bytes]
        offset += extent.length_bytes

    for n in range(size // chunk):
        row, member = model.place_of(n)
        assert disks[member][row * chunk:(row + 1) * chunk] == content[n * chunk:(n + 1) * chunk]
    for row, member in itertools.product(range(rows), range(members)):
        is_data = model.table[row][member] != "P"
        assert set(touched[member][row * chunk:(row + 1) * chunk]) == {int(is_data)}
    for _ in range(50):
        offset = rng.randrange(size)
        extent = locate(geometry, offset, size - offset)
        at = extent.member_offset_bytes
        assert (disks[extent.member][at:at + extent.length_bytes]
                == content[offset:offset + extent.length_bytes])


@given(st.sampled_from(ALL_SHAPES), st.sampled_from(CHUNK_SIZES), st.integers(1, 2**38 - 1), st.data())
def test_locate_in_volumes_of_any_size(shape, chunk, rows, data):
    level, members = shape
    geometry = make_geometry(level, members, chunk, rows)
    data_chunks = members - (level == 5)
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
    assert result == 0
    assert (extent.row, extent.chunk) == (n // data_chunks, n % data_chunks)
    assert extent.member == n % members
    assert extent.member_offset_bytes == n // data_chunks * chunk + offset % chunk
    assert extent.length_bytes == min(length, chunk - offset % chunk)


@given(st.sampled_from([0, 5]) | st.integers(-2, 12), st.integers(0, 4) | st.integers(-1, 300),
       st.sampled_from(CHUNK_SIZES)
       | st.sampled_from([0, 1, 2048, 4097, 12288, 2 * MIB, 2**31]) | st.integers(0, 2**32 - 1),
       st.sampled_from([512, 4096]) | st.sampled_from([0, 256, 520, 1024]),
       st.integers(2**20, 2**30) | st.integers(0, 2**64 - 1) | st.integers(0, 2**22))
def test_init_accepts_what_is_in_bounds_and_nothing_else(level, members, chunk, block, data_bytes):
    good = (level in (0, 5) and (3 if level == 5 else 2) <= members <= 32 and chunk in CHUNK_SIZES
            and block in (512, 4096) and chunk <= data_bytes < 2**58)
    geometry = Geometry()
    result = lib().geometry_init(ref(geometry), level, members, chunk, block, data_bytes)
    assert result == (0 if good else -errno.EINVAL)
    if good:
        assert geometry.rows == data_bytes // chunk


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


@given(st.integers(0, 66), st.integers(0, 3000), st.sampled_from([0, 0, 32, 1, 8]), st.booleans(),
       st.randoms(use_true_random=False))
def test_xor_of_plain_memory(count, length, misalignment, aliased, rng):
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
    whole = b"".join(ctypes.string_at(run.iov[i].base, run.iov[i].length)
                     for i in range(run.count) if run.iov[i].length)
    return whole[run.skip_bytes:run.skip_bytes + length]


@given(st.integers(0, 9), st.integers(0, 12), st.sampled_from([512, 64, 13, 1]), st.booleans(),
       st.randoms(use_true_random=False))
def test_xor_of_scattered_memory(count, units, unit, aliased, rng):
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


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=8), st.integers(0, 60),
       st.integers(0, 60), st.integers(0, 8))
def test_slices_of_iovecs(pieces, skip, length, out_max):
    """Addresses are numbers here: nothing is read.  A gap of 0 makes neighbours touch."""
    address, iov, addresses = 4096, [], []
    for gap, size in pieces:
        address += gap if gap < 30 else 0
        iov.append((address, size))
        addresses += range(address, address + size)
        address += size
    expected = addresses[skip:skip + length]
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


# --- plan ---

PARITY = "P"
PLAN_CHUNK = 4096
PLAN_BLOCKS = PLAN_CHUNK // BLOCK


def plan_write(members: int, row: int, begin: int, end: int, missing: int, suspect: bool,
               level: int = 5) -> tuple[int, RowPlan]:
    geometry = make_geometry(level, members, PLAN_CHUNK, 64)
    plan = RowPlan()
    return lib().plan_row_write(ref(geometry), row, begin, end, missing, suspect, ref(plan)), plan


def written_columns(data_chunks: int, begin: int, end: int) -> list[set[int]]:
    """Per data chunk the blocks (columns in units of 512 bytes) that the write covers."""
    written: list[set[int]] = [set() for _ in range(data_chunks)]
    for block in range(begin // BLOCK, end // BLOCK):
        written[block // PLAN_BLOCKS].add(block % PLAN_BLOCKS)
    return written


def missing_device(members: int, row: int, missing: int):
    """None, PARITY, or the data chunk whose member is missing."""
    if missing < 0:
        return None
    content = ModelVolume(5, members, row + 1).table[row][missing]
    return PARITY if content == "P" else content - row * (members - 1)


def in_span(vectors: list[int], target: int) -> bool:
    """Is target a XOR of some of the vectors (bit masks)?"""
    basis: list[int] = []
    for vector in vectors:
        for b in basis:
            vector = min(vector, vector ^ b)
        if vector:
            basis.append(vector)
    for b in sorted(basis, reverse=True):
        target = min(target, target ^ b)
    return target == 0


def fewest_reads(data_chunks: int, written: list[set[int]], missing, suspect: bool) -> int:
    """Size of the smallest set of surviving members from which the new parity can be had.

    Old bytes of a column are unknowns, one bit each; reading a data chunk gives its bit, reading
    parity the sum of all.  Wanted is the sum of those that are not overwritten, on every column
    that is written at all (on a suspect row: on every column, and parity tells nothing).
    """
    everything = (1 << data_chunks) - 1
    wanted = set()
    for column in range(PLAN_BLOCKS):
        stays = sum(1 << k for k in range(data_chunks) if column not in written[k])
        if suspect or stays != everything:
            wanted.add(stays)
    devices = [k for k in range(data_chunks) if k != missing] + ([] if suspect else [PARITY])
    for count in range(len(devices) + 1):
        for read in itertools.combinations(devices, count):
            vectors = [everything if d == PARITY else 1 << d for d in read]
            if all(in_span(vectors, target) for target in wanted):
                return count
    raise AssertionError("no way at all")


def check_fewest_reads(members: int, row: int, begin: int, end: int, missing: int, suspect: bool):
    result, plan = plan_write(members, row, begin, end, missing, suspect)
    data_chunks = members - 1
    written = written_columns(data_chunks, begin, end)
    gone = missing_device(members, row, missing)
    touches_gone = gone not in (None, PARITY) and written[gone]
    if suspect and touches_gone and written[gone] != set(range(PLAN_BLOCKS)):
        assert result == -errno.ENODATA
        return
    assert result == 0
    writes = sum(1 for k in range(data_chunks) if written[k] and k != gone)
    for k in range(data_chunks):
        assert {c // BLOCK for c in plan.write[k].range()} == written[k]
    if gone == PARITY or (suspect and gone is not None and not touches_gone):
        assert (plan.way, plan.reads, plan.writes) == (DATA_ONLY, 0, writes)
        return
    assert plan.reads == fewest_reads(data_chunks, written, gone, suspect)
    assert plan.writes == writes + 1
    if gone is None and not suspect:
        check_fewest_bytes(plan, written)


def check_fewest_bytes(plan: RowPlan, written: list[set[int]]):
    """Of the two ways with the same number of reads the one with fewer bytes, then RECONSTRUCT."""
    columns = set.union(*written)
    hull = set(range(min(columns), max(columns) + 1))
    rmw = (sum(1 for w in written if w) + 1, sum(map(len, written)) + len(hull), 1)
    reconstruct = (sum(1 for w in written if hull - w), sum(len(hull - w) for w in written), 0)
    if reconstruct[0] == 0:
        assert plan.way == FULL
    else:
        assert plan.way == (RMW if rmw < reconstruct else RECONSTRUCT)
    read = sum(len(c.range()) for c in plan.read)
    read += len(plan.hull.range()) if plan.read_parity else 0
    assert read // BLOCK == (rmw if plan.way == RMW else reconstruct)[1]


@pytest.mark.parametrize("members", [3, 4, 5])
@pytest.mark.parametrize("suspect", [False, True])
def test_reads_are_minimal_for_every_write_of_a_small_row(members, suspect):
    blocks = (members - 1) * PLAN_BLOCKS
    borders = {k * PLAN_BLOCKS + d for k in range(1, members - 1) for d in (-1, 0, 1, 4)}
    borders |= {0, 1, 2, 7, blocks - 1, blocks}
    for begin, end in itertools.combinations(sorted(borders), 2):
        for missing in range(-1, members):
            check_fewest_reads(members, members - 2, begin * BLOCK, end * BLOCK, missing, suspect)


@st.composite
def row_writes(draw, members_max: int, members_min: int = 3):
    """(members, row, begin, end, missing, suspect), often near the borders of chunks."""
    members = draw(st.integers(members_min, members_max))
    row = draw(st.integers(0, 40))
    blocks = (members - 1) * PLAN_BLOCKS
    near_border = st.builds(lambda k, d: k * PLAN_BLOCKS + d, st.integers(0, members - 1),
                            st.integers(-1, 1)).filter(lambda b: 0 <= b <= blocks)
    border = st.integers(0, blocks) | near_border
    begin, end = sorted(draw(st.lists(border, min_size=2, max_size=2, unique=True)))
    missing = draw(st.integers(-1, members - 1) | st.just(-1))
    return members, row, begin * BLOCK, end * BLOCK, missing, draw(st.booleans())


@given(row_writes(members_max=9))
def test_reads_are_minimal(write):
    check_fewest_reads(*write)


def blocks_of(columns: Columns) -> range:
    """Columns in blocks of 512 bytes: a plan for whole blocks has no other borders."""
    assert columns.begin % BLOCK == 0 and columns.end % BLOCK == 0
    return range(columns.begin // BLOCK, columns.end // BLOCK)


class Row:
    """A row on its members, in blocks by (device, column); a missing member has none.

    parity_wrong: parity is random, as it may be in a suspect row.
    """

    def __init__(self, members: int, row: int, missing: int, rng: random.Random,
                 parity_wrong: bool):
        self.data_chunks = members - 1
        self.gone = missing_device(members, row, missing)
        self.logical = {(k, c): rng.randbytes(BLOCK)
                        for k in range(self.data_chunks) for c in range(PLAN_BLOCKS)}
        self.stored = {key: block for key, block in self.logical.items() if key[0] != self.gone}
        if self.gone != PARITY:
            for c in range(PLAN_BLOCKS):
                wrong = rng.randbytes(BLOCK)
                self.stored[PARITY, c] = wrong if parity_wrong else self.true_parity(c)

    def true_parity(self, column: int) -> bytes:
        return xor_bytes([self.logical[k, column] for k in range(self.data_chunks)], BLOCK)

    def parity_right(self) -> bool:
        return all(self.stored[PARITY, c] == self.true_parity(c) for c in range(PLAN_BLOCKS))


def read_planned(row: Row, plan: RowPlan) -> dict[tuple[object, int], bytes]:
    """What the plan reads, by (device, column); a read of the missing member is a KeyError."""
    ios = [(k, blocks_of(plan.read[k])) for k in range(32)]
    if plan.read_parity:
        ios.append((PARITY, blocks_of(plan.hull)))
    assert sum(1 for _, columns in ios if columns) == plan.reads
    return {(device, c): row.stored[device, c] for device, columns in ios for c in columns}


def new_parity(row: Row, plan: RowPlan, read: dict, new: dict) -> dict[int, bytes]:
    """As plan.h says it for each way, from what was read and the new bytes alone."""
    chunks = range(row.data_chunks)
    result = {}
    for c in blocks_of(plan.hull):
        if plan.way == RMW:
            terms = [read[PARITY, c]]
            terms += [block[k, c] for k in chunks if (k, c) in new for block in (read, new)]
        else:
            terms = []
            for k in chunks:
                if (k, c) in new:
                    terms.append(new[k, c])
                elif plan.way == READ_ALL and k == row.gone:
                    terms += [read[other, c] for other in [*chunks, PARITY] if other != k]
                else:
                    terms.append(read[k, c])
        result[c] = xor_bytes(terms, BLOCK)
    return result


def apply(row: Row, plan: RowPlan, begin: int, end: int, rng: random.Random):
    """Carry the plan out with random new bytes."""
    read = read_planned(row, plan)
    new = {divmod(at // BLOCK, PLAN_BLOCKS): rng.randbytes(BLOCK)
           for at in range(begin, end, BLOCK)}
    assert new.keys() == {(k, c) for k in range(32) for c in blocks_of(plan.write[k])}
    parity = new_parity(row, plan, read, new) if plan.write_parity else {}
    row.logical.update(new)
    row.stored.update({key: block for key, block in new.items() if key[0] != row.gone})
    row.stored.update({(PARITY, c): block for c, block in parity.items()})
    written = {k for k, _ in new} - {row.gone}
    assert plan.writes == len(written) + plan.write_parity


def check_row(row: Row, parity_trusted: bool):
    """Every surviving chunk reads back, and the missing one is rebuilt from parity."""
    for (k, c), block in row.logical.items():
        if k != row.gone:
            assert row.stored[k, c] == block
    if row.gone == PARITY or not parity_trusted:
        return
    assert row.parity_right()
    if row.gone is not None:
        for c in range(PLAN_BLOCKS):
            others = [row.stored[d, c] for d in [*range(row.data_chunks), PARITY] if d != row.gone]
            assert xor_bytes(others, BLOCK) == row.logical[row.gone, c]


@settings(max_examples=500)
@given(row_writes(members_max=32), st.integers(0, 2**32))
def test_plans_are_sufficient_on_real_bytes(write, seed):
    members, row_number, begin, end, missing, suspect = write
    rng = random.Random(seed)
    result, plan = plan_write(members, row_number, begin, end, missing, suspect)
    if result != 0:
        assert result == -errno.ENODATA and suspect
        return
    row = Row(members, row_number, missing, rng, parity_wrong=suspect)
    apply(row, plan, begin, end, rng)
    assert plan.proves_row or not (suspect and missing < 0), "a suspect row must become right"
    check_row(row, parity_trusted=not suspect or plan.proves_row)


@given(row_writes(members_max=8), st.integers(0, 2**32))
def test_a_row_is_said_to_be_proven_exactly_when_wrong_parity_becomes_right(write, seed):
    members, row_number, begin, end, missing, _ = write
    rng = random.Random(seed)
    for suspect in (False, True):
        result, plan = plan_write(members, row_number, begin, end, missing, suspect)
        if result != 0:
            continue
        row = Row(members, row_number, missing, rng, parity_wrong=True)
        apply(row, plan, begin, end, rng)
        assert plan.proves_row == (row.gone != PARITY and row.parity_right())


@given(st.integers(2, 32), st.integers(0, 40), st.data())
def test_level_0_writes_data_only_and_fails_on_the_missing_member(members, row, data):
    blocks = members * PLAN_BLOCKS
    ends = st.lists(st.integers(0, blocks), min_size=2, max_size=2, unique=True)
    begin, end = sorted(data.draw(ends))
    missing = data.draw(st.integers(-1, members - 1))
    written = written_columns(members, begin * BLOCK, end * BLOCK)
    result, plan = plan_write(members, row, begin * BLOCK, end * BLOCK, missing, False, level=0)
    if missing >= 0 and written[missing]:
        assert result == -errno.EIO
        return
    assert result == 0
    assert (plan.way, plan.reads, plan.writes) == (DATA_ONLY, 0, sum(1 for w in written if w))
    assert not plan.read_parity and not plan.write_parity and not plan.hull.range()
