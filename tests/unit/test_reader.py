"""The independent reader of members (tests/integration/reader.py) on files that the C codec made."""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from pathlib import Path

import pytest

from pure_library import KIB, MIB, Area, SpareMark, Superblock, TrackedMember, lib, ref

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
from reader import DIRTY, LostExtent, Member, NotAMember, VolumeReader  # noqa: E402

CHUNK, COUNT = 4 * KIB, 4
VOLUME = bytes(range(16))
IN_SYNC, FAULTY, REBUILDING, OUT_OF_DATE = 1, 2, 4, 5


def uuid_of(number: int) -> bytes:
    return bytes([0x40 + number]) * 16


def record(**changes) -> Superblock:
    areas, data, region_rows = (Area * 4)(), ctypes.c_uint64(), ctypes.c_uint32()
    assert lib().layout_compute(16 * MIB, CHUNK, areas, ref(data), ref(region_rows)) == 0
    superblock = Superblock(
        name=b"v0", level=5, member_count=COUNT, chunk_bytes=CHUNK, block_bytes=512,
        region_rows=region_rows.value, member_bytes=16 * MIB, data_bytes=data.value, epoch=3,
        event=9, areas=areas, scrub_mode=2, scrub_running=True, scrub_row=7, scrub_mismatches=5)
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


def write_member(path: Path, superblock: Superblock, member: int, role: int, data: bytes = b"",
                 flags: dict[int, int] | None = None, write_count: int = 4) -> Path:
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
        for offset, raw in ((8 * KIB if write_count % 2 == 0 else 512 * KIB, block.raw),
                            (MIB, flag_block.raw), (superblock.areas[3].offset_bytes, data)):
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
    assert (read.scrub_mode, read.scrub_running, read.scrub_row, read.scrub_mismatches) == (
        "repair", True, 7, 5)
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


def test_content_and_lost_bytes_with_a_target_beside_the_members(tmp_path):
    """Member 2 is faulty, member 9 is being filled for its place: neither's chunks count."""
    superblock, rng = record(), random.Random(1)
    superblock.member_states[2] = FAULTY
    track(superblock, 0, 2, 2, FAULTY)
    track(superblock, 1, 9, 2, REBUILDING)
    rows, chunks = 8, [rng.randbytes(8 * CHUNK) for _ in range(3)]
    chunks.insert(2, bytes(a ^ b ^ c for a, b, c in zip(*chunks)))
    on_disk = [chunks[0], chunks[1], rng.randbytes(8 * CHUNK), chunks[3]]
    flags = [{0: DIRTY}, {1: 8}, {}, {}]
    paths = [write_member(tmp_path / str(role), superblock, role, role, on_disk[role], flags[role])
             for role in range(COUNT)]
    paths.append(write_member(tmp_path / "target", superblock, 9, 2, rng.randbytes(8 * CHUNK)))
    reader = VolumeReader(paths)
    assert sorted(reader.in_sync()) == [0, 1, 3] and len(reader.members) == 5
    content = reader.content()
    for number in range(rows * 3):
        row, role = number // 3, number % 4
        assert content[number * CHUNK:(number + 1) * CHUNK] == chunks[role][row * CHUNK:][:CHUNK]
    assert (reader.stale(0), reader.stale(1)) == ({0}, {0, 1})

    # rows 0 to 3 of role 2: chunks 2, 6, 10 of the volume, its parity in row 1
    put_lost(paths[0], 0, 3, (0, 4, 512, 1024, 2, 1))
    put_lost(paths[3], 255, 19, (2, 2, 1024, 2048, 2, 0))
    put_lost(paths[2], 9, 0, (0, 1, 0, 512, 0, 0))      # out of sync: does not count
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
    paths = [write_member(tmp_path / str(role), ran if role else crashed, role, role)
             for role in range(COUNT)]
    assert VolumeReader(paths).truth.states[0] == "faulty"
    assert sorted(VolumeReader(paths).in_sync()) == [1, 2, 3]
