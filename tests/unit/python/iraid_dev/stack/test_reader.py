"""The independent reader of members (python/iraid_dev/stack/reader.py) on files that the C codec made."""

from __future__ import annotations

import ctypes
import itertools
import random
import struct
from pathlib import Path

import pytest
from pure_library import ALL_SHAPES, BLOCK, KIB, MIB, Area, Geometry, SpareMark, Superblock, TrackedMember, lib, ref

from iraid_dev.stack.reader import DIRTY, LostExtent, Member, NotAMember, VolumeReader, digest
from iraid_dev.stack.rows import Shape, Unknown

CHUNK, COUNT = 4 * KIB, 4
VOLUME = bytes(range(16))
IN_SYNC, FAULTY, REBUILDING, OUT_OF_DATE = 1, 2, 4, 5


def uuid_of(number: int) -> bytes:
    return bytes([0x40 + number]) * 16


def record(**changes) -> Superblock:
    areas, data, region_rows = (Area * 5)(), ctypes.c_uint64(), ctypes.c_uint32()
    assert lib().layout_compute(16 * MIB, CHUNK, areas, ref(data), ref(region_rows)) == 0
    superblock = Superblock(
        name=b"v0",
        level=5,
        member_count=COUNT,
        chunk_bytes=CHUNK,
        block_bytes=512,
        region_rows=region_rows.value,
        member_bytes=16 * MIB,
        data_bytes=data.value,
        epoch=3,
        event=9,
        areas=areas,
        scrub_mode=2,
        scrub_running=True,
        scrub_row=7,
        scrub_mismatches=5,
    )
    superblock.volume_uuid[:] = VOLUME
    for role in range(COUNT):
        superblock.member_uuids[role][:] = uuid_of(role)
        superblock.member_states[role] = IN_SYNC
    for name, value in changes.items():
        setattr(superblock, name, value)
    return superblock


def track(superblock: Superblock, number: int, member: int, role: int, state: int) -> None:
    superblock.tracked[number] = TrackedMember(role=role, state=state)
    superblock.tracked[number].member_uuid[:] = uuid_of(member)


def write_member(
    path: Path,
    superblock: Superblock,
    member: int,
    role: int,
    data: bytes = b"",
    flags: dict[int, int] | None = None,
    write_count: int = 4,
) -> Path:
    superblock.role, superblock.write_count = role, write_count
    superblock.member_uuid[:] = uuid_of(member)
    block = ctypes.create_string_buffer(4096)
    lib().superblock_encode(ref(superblock), block)
    regions = -(-superblock.data_bytes // CHUNK // superblock.region_rows)
    content = bytearray(regions)
    for region, value in (flags or {}).items():
        content[region] = value
    flag_block = ctypes.create_string_buffer(4096)
    lib().map_block_encode(bytes(content), regions, 0, 1, VOLUME, flag_block)
    with path.open("wb") as file:
        file.truncate(16 * MIB)
        for offset, raw in (
            (8 * KIB if write_count % 2 == 0 else 512 * KIB, block.raw),
            (MIB, flag_block.raw),
            (superblock.areas[3].offset_bytes, data),
        ):
            file.seek(offset)
            file.write(raw)
    return path


def put_lost(path: Path, granule: int, slot: int, entry: tuple) -> None:
    """One entry (row, rows, begin, end, role, flags) in an else empty granule."""
    body = bytearray(508)
    struct.pack_into("<QIIIBB", body, 12 + 24 * slot, *entry)
    summed = VOLUME + struct.pack("<I", granule) + bytes(body)
    with path.open("r+b") as file:
        file.seek(MIB + 512 * KIB + 512 * granule)
        file.write(struct.pack("<I", lib().crc32c(0, summed, len(summed))) + body)


def test_a_superblock_is_read_field_by_field(tmp_path):
    superblock = record()
    track(superblock, 1, 8, 2, OUT_OF_DATE)
    track(superblock, 3, 9, 0, REBUILDING)
    read = Member(write_member(tmp_path / "m", superblock, 9, 0)).superblock()
    assert (read.role, read.member_uuid[:2], read.uuids[3][:2]) == (0, "49", "43")
    assert read.tracked[0] is read.tracked[2] is None
    assert (read.tracked[1].role, read.tracked[1].state) == (2, "out of date")
    assert (read.tracked[3].member_uuid, read.tracked[3].state) == (read.member_uuid, "rebuilding")
    assert (read.scrub_mode, read.scrub_running, read.scrub_row, read.scrub_mismatches) == ("repair", True, 7, 5)
    assert read.trusts(read.uuids[1]) and not read.trusts(read.member_uuid)


def test_spares_are_told_from_members(tmp_path):
    mark = SpareMark(member_bytes=64 * MIB, block_bytes=4096)
    mark.member_uuid[:] = uuid_of(5)
    block = ctypes.create_string_buffer(4096)
    lib().spare_encode(ref(mark), block)
    for offset in (8 * KIB, 512 * KIB):
        path = tmp_path / "spare"
        path.write_bytes(bytes(offset) + block.raw + bytes(MIB))
        spare = Member(path).spare()
        assert (spare.volume_uuid, spare.member_bytes, spare.block) == (None, 64 * MIB, 4096)
    with pytest.raises(NotAMember, match="is a member"):
        Member(write_member(tmp_path / "m", record(), 1, 1)).spare()
    paths = [write_member(tmp_path / str(role), record(), role, role) for role in range(COUNT)]
    assert sorted(VolumeReader([*paths, path]).by_role) == [0, 1, 2, 3]


def test_neither_a_faulty_member_nor_a_target_counts_for_content_and_lost_bytes(tmp_path):
    """Member 2 is faulty, member 9 is being filled for its place: neither's chunks count."""
    superblock, rng = record(), random.Random(1)
    superblock.member_states[2] = FAULTY
    track(superblock, 0, 2, 2, FAULTY)
    track(superblock, 1, 9, 2, REBUILDING)
    rows, chunks = 8, [rng.randbytes(8 * CHUNK) for _ in range(3)]
    chunks.insert(2, bytes(a ^ b ^ c for a, b, c in zip(*chunks)))
    on_disk = [chunks[0], chunks[1], rng.randbytes(8 * CHUNK), chunks[3]]
    flags = [{0: DIRTY}, {1: 8}, {}, {}]
    paths = [
        write_member(tmp_path / str(role), superblock, role, role, on_disk[role], flags[role]) for role in range(COUNT)
    ]
    paths.append(write_member(tmp_path / "target", superblock, 9, 2, rng.randbytes(8 * CHUNK)))
    reader = VolumeReader(paths)
    assert sorted(reader.in_sync()) == [0, 1, 3] and len(reader.members) == 5
    content = reader.content()
    for number in range(rows * 3):
        row, role = number // 3, number % 4
        assert content[number * CHUNK : (number + 1) * CHUNK] == chunks[role][row * CHUNK :][:CHUNK]
    assert (reader.stale(0), reader.stale(1)) == ({0}, {0, 1})

    # rows 0 to 3 of role 2: chunks 2, 6, 10 of the volume, its parity in row 1
    put_lost(paths[0], 0, 3, (0, 4, 512, 1024, 2, 1))
    put_lost(paths[3], 255, 19, (2, 2, 1024, 2048, 2, 0))
    put_lost(paths[2], 9, 0, (0, 1, 0, 512, 0, 0))  # out of sync: does not count
    assert reader.files[0].lost() == [LostExtent(0, 4, 512, 1024, 2, True)]
    assert reader.lost() == [(2 * CHUNK + 512, 512), (6 * CHUNK + 512, 1536), (10 * CHUNK + 512, 1536)]
    with paths[3].open("r+b") as file:
        file.seek(MIB + 512 * KIB + 512 * 255 + 100)
        file.write(b"!")
    with pytest.raises(NotAMember, match="granule 255"):
        reader.lost()


def test_a_record_that_was_never_in_force_is_passed_over(tmp_path):
    crashed, ran = record(event=10), record(event=9)
    crashed.member_states[3], ran.member_states[0] = FAULTY, FAULTY
    paths = [write_member(tmp_path / str(role), ran if role else crashed, role, role) for role in range(COUNT)]
    assert VolumeReader(paths).truth.states[0] == "faulty"
    assert sorted(VolumeReader(paths).in_sync()) == [1, 2, 3]


def test_a_record_of_starts_that_never_ran_is_passed_over(tmp_path):
    crashed, ran = record(event=10, epoch=5), record(event=9)
    ran.member_states[0] = FAULTY
    for known, count, epoch in ((4, 7, 5), (0, 7, 5), (4, 5, 5), (4, 3, 3)):
        for role in range(COUNT):
            crashed.write_counts[role] = known
        crashed.epoch = epoch
        paths = [
            write_member(tmp_path / str(role), ran if role else crashed, role, role, write_count=count)
            for role in range(COUNT)
        ]
        denied = known != 0 and count > known + 1
        assert VolumeReader(paths).truth.states[0] == ("faulty" if denied else "in sync")


def test_a_record_of_starts_that_never_ran_is_passed_over_for_one_that_is_dead(tmp_path):
    crashed, ran = record(event=10, epoch=5), record(event=9)
    crashed.member_states[3] = ran.member_states[0] = FAULTY
    for known, later, denied in ((4, 5, True), (4, 4, False), (0, 5, False)):
        crashed.write_counts[1], ran.write_counts[1] = known, later
        paths = [
            write_member(tmp_path / str(role), ran if role else crashed, role, role, write_count=9) for role in (0, 3)
        ]
        assert VolumeReader(paths).truth.states[0] == ("faulty" if denied else "in sync")


# Rows: what python/iraid_dev/stack/rows.py makes of format.md, and what the product does


def geometry_of(shape: Shape) -> Geometry:
    geometry = Geometry()
    assert lib().geometry_init(ref(geometry), shape.level, shape.count, CHUNK, BLOCK, shape.member_chunks * CHUNK) == 0
    return geometry


def made_in_c(geometry: Geometry, data: list[bytes]) -> list[bytes]:
    """The chunks behind the data."""
    length = len(data[0])
    buffers = [ctypes.create_string_buffer(chunk, length) for chunk in data]
    buffers += [ctypes.create_string_buffer(length) for _ in range(geometry.redundancy)]
    wanted = (1 << geometry.width) - (1 << geometry.data_chunks)
    chunks = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    lib().code_make(ref(geometry), wanted, wanted, chunks, length)
    return [buffer.raw for buffer in buffers[geometry.data_chunks :]]


@pytest.mark.parametrize("level,count", ALL_SHAPES)
def test_rows_are_the_same_as_the_products(level, count):
    shape, rng = Shape(level, count, 2 * count + 1), random.Random(100 * level + count)
    geometry = geometry_of(shape)
    assert (shape.rows, shape.width, shape.data_chunks) == (geometry.rows, geometry.width, geometry.data_chunks)
    for row in range(shape.rows):
        for position, (role, chunk) in enumerate(shape.places(row)):
            assert lib().geometry_role(ref(geometry), row, position) == role
            assert lib().geometry_offset(ref(geometry), row, role) == chunk * CHUNK
            assert shape.position(row, role) == position
    for gone in itertools.chain.from_iterable(itertools.combinations(range(min(count, 6)), n) for n in range(5)):
        assert shape.bears(gone) == lib().geometry_bears(ref(geometry), sum(1 << role for role in gone)), gone
    data = [rng.randbytes(64) for _ in range(shape.data_chunks)]
    if level != 0:
        assert shape.redundant(data) == made_in_c(geometry, data)


@pytest.mark.parametrize("level,count", [(1, 2), (1, 4), (5, 3), (5, 5), (6, 4), (6, 7), (6, 32), (10, 3)])
def test_what_is_missing_of_a_row_is_made_again_or_said_to_be_unknown(level, count):
    shape, rng = Shape(level, count, count), random.Random(7 * level + count)
    data = [rng.randbytes(48) for _ in range(shape.data_chunks)]
    chunks = data + shape.redundant(data)
    assert shape.fits(chunks)
    for missing in itertools.chain.from_iterable(itertools.combinations(range(shape.width), n) for n in range(4)):
        left = [None if position in missing else chunk for position, chunk in enumerate(chunks)]
        if len(missing) <= shape.redundancy:
            assert shape.data(left) == data
        elif any(position < shape.data_chunks for position in missing):
            with pytest.raises(Unknown):
                shape.data(left)
    for position in range(shape.width):
        wrong = list(chunks)
        wrong[position] = bytes([wrong[position][0] ^ 1]) + wrong[position][1:]
        assert not shape.fits(wrong)


@pytest.mark.parametrize("level,count", [(1, 3), (6, 5), (10, 5), (10, 4)])
def test_content_is_read_and_wrong_rows_are_found(tmp_path, level, count):
    """Made row by row, then with each member, and for level 6 each pair, left out."""
    rng = random.Random(level + count)
    superblock = record(level=level, member_count=count)
    for role in range(count, 32):
        superblock.member_states[role] = 0
    for role in range(count):
        superblock.member_uuids[role][:], superblock.member_states[role] = uuid_of(role), IN_SYNC
    shape = Shape(level, count, 10)
    disks = [bytearray(10 * CHUNK) for _ in range(count)]
    content = b""
    for row in range(shape.rows):
        data = [rng.randbytes(CHUNK) for _ in range(shape.data_chunks)]
        content += b"".join(data)
        for (role, chunk), value in zip(shape.places(row), data + shape.redundant(data)):
            disks[role][chunk * CHUNK : (chunk + 1) * CHUNK] = value
    paths = [write_member(tmp_path / str(role), superblock, role, role, bytes(disks[role])) for role in range(count)]
    reader = VolumeReader(paths)
    assert reader.size == Shape(level, count, superblock.data_bytes // CHUNK).rows * shape.data_chunks * CHUNK
    assert reader.wrong_rows() == []
    pairs = itertools.combinations(range(count), 2) if level == 6 else ()
    for gone in [(), *((role,) for role in range(count)), *pairs]:
        assert reader.content(without=gone)[: len(content)] == content, gone
    row = shape.rows - 1
    for position, role in enumerate([role for role, _ in shape.places(row)]):
        at = reader.offset(row, role) + 5
        with reader.by_role[role].path.open("r+b") as file:
            file.seek(at)
            file.write(b"\xff")
        assert reader.wrong_rows() == [row], position
        with reader.by_role[role].path.open("r+b") as file:
            file.seek(at)
            file.write(disks[role][at - superblock.areas[3].offset_bytes :][:1])
    if level == 6:
        with pytest.raises(Unknown):
            reader.content(without=(0, 1, 2))


def test_the_digest_is_that_of_the_content_wherever_holes_are(tmp_path):
    sparse, dense = tmp_path / "sparse", tmp_path / "dense"
    with sparse.open("wb") as file:
        for offset in (70_000, 2 * MIB - 1, 3 * MIB):
            file.seek(offset)
            file.write(b"data")
        file.truncate(5 * MIB + 100)
    dense.write_bytes(sparse.read_bytes())
    assert sparse.stat().st_blocks < dense.stat().st_blocks
    of_all = digest(sparse)
    assert digest(dense) == of_all
    for offset in (0, 70_003, 2 * MIB, 4 * MIB, 5 * MIB + 99):
        with sparse.open("r+b") as file:
            file.seek(offset)
            before = file.read(1)
            file.seek(offset)
            file.write(b"\x01")
            file.flush()
            assert digest(sparse) != of_all, offset
            file.seek(offset)
            file.write(before)
        assert digest(sparse) == of_all
    with sparse.open("r+b") as file:
        file.truncate(5 * MIB + 101)
    assert digest(sparse) != of_all
    with dense.open("r+b") as file:  # as much data, elsewhere
        content = dense.read_bytes()
        file.write(content[64 * KIB : 128 * KIB] + content[: 64 * KIB])
    assert digest(dense) != of_all
