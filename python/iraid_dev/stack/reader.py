"""Reads members without the product: a second implementation of docs/design/format.md.

    volume = VolumeReader([farm.backing(n) for n in range(4)])
    volume.content()              # what an initiator must read
    volume.content(without=(1, 3))  # the same, made of what the others hold
    volume.wrong_rows()           # rows whose copies, P or Q don't fit
    volume.place(byte)            # (role, byte of that member's file)
    volume.superblocks()[2].states
    volume.lost()                 # [(offset, length)] of bytes that read as medium errors
    volume.stale(0)               # regions the member of tracked set 0 lacks
    digest(farm.backing(0))       # to see whether anything was written

Works on the backing files of the targets, in any order, also while the volume runs.  Made from the
page alone, so that an error in pure/layout.c or pure/geometry.c can't hide in here too.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import struct
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .checksum import crc32c
from .rows import Chunk, Shape

MIB = 1 << 20
SUPERBLOCK_BYTES = 4096
COPIES = {"A": 8 << 10, "B": 512 << 10}
STATES = {1: "in sync", 2: "faulty", 3: "missing"}
TRACKED_STATES = {2: "faulty", 4: "rebuilding", 5: "out of date"}
SCRUB_MODES = {0: "none", 1: "check", 2: "repair"}
GRANULE_BYTES, GRANULE_REGIONS = 512, 500
DIRTY, UNWRITTEN = 1, 2
STALE = (4, 8, 16, 32)  # by tracked set
STALE_ANY = sum(STALE)
LOST_OFFSET, LOST_GRANULES, LOST_ENTRIES = 3 * MIB // 2, 256, 20


def digest(path: Path) -> str:
    """Of a file's size and content, wherever its holes are, which are most of a member and not read."""
    piece_bytes = 64 << 10
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        found, at = hashlib.sha256(b"%d" % size), 0
        while at < size:
            try:
                data = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # a hole up to its end
            end = os.lseek(file.fileno(), data, os.SEEK_HOLE)
            for at in range(data // piece_bytes * piece_bytes, end, piece_bytes):
                piece = os.pread(file.fileno(), piece_bytes, at)
                if piece.count(0) < len(piece):
                    found.update(b"%d " % at)
                    found.update(piece)
            at += piece_bytes
    return found.hexdigest()


class NotAMember(Exception):
    """The text says what is wrong with a copy, or with both."""


@dataclass(frozen=True)
class Area:
    offset: int
    length: int


@dataclass(frozen=True)
class Tracked:
    member_uuid: str
    role: int
    state: str


@dataclass(frozen=True)
class Spare:
    member_uuid: str
    volume_uuid: str | None  # None: of every volume
    member_bytes: int
    block: int


@dataclass(frozen=True)
class LostExtent:
    row: int
    rows: int
    begin: int  # columns of the chunk
    end: int
    role: int
    held: bool


@dataclass(frozen=True)
class Superblock:
    write_count: int
    volume_uuid: str
    member_uuid: str
    name: str
    level: int
    count: int
    role: int
    clean: bool
    chunk: int
    block: int
    region_rows: int
    member_bytes: int
    data_bytes: int
    epoch: int
    event: int
    owner: str
    areas: tuple[Area, ...]  # map, log, checksums, data; of a volume that has grown far, more checksums
    states: tuple[str, ...]  # by role
    uuids: tuple[str, ...]  # by role
    tracked: tuple[Tracked | None, ...]  # by set
    write_counts: tuple[int, ...]  # by role; 0: not known
    scrub_mode: str
    scrub_running: bool
    scrub_row: int
    scrub_mismatches: int
    log_key: int  # 0: no record of the write log counts
    log_roles: int  # bits, of those that were missing
    log_proven: bool
    undecided_roles: int  # bits, of those that are out
    other_holder: str  # UUID; zeros: none

    def trusts(self, member_uuid: str) -> bool:
        return any(uuid_ == member_uuid and state == "in sync" for uuid_, state in zip(self.uuids, self.states))

    @property
    def shape(self) -> Shape:
        return Shape(self.level, self.count, self.data_bytes // self.chunk)

    @property
    def rows(self) -> int:
        return self.shape.rows

    @property
    def regions(self) -> int:
        return -(-self.rows // self.region_rows)

    @property
    def data(self) -> Area:
        return self.areas[3]

    def areas_fault(self) -> str | None:
        """What is wrong with where its areas are, if anything."""
        end = MIB
        for number, area in enumerate(self.areas):
            if area.offset % MIB or area.offset < end or not area.length:
                return f"area {number} stands at {area.offset}, what is before it ends at {end}"
            end = area.offset + area.length
        if end > self.member_bytes:
            return f"the areas end at {end}, the member at {self.member_bytes}"
        if self.areas[0] != Area(MIB, MIB) or self.areas[1].length % MIB:
            return "map or log are not as long as they must be, or where"
        if self.data_bytes % self.chunk or self.data.length < self.data_bytes:
            return f"{self.data_bytes} bytes of data in an area of {self.data.length}"
        checksums = sum(area.length for area in (self.areas[2], *self.areas[4:]))
        if checksums < self.data_bytes // 1024:
            return f"{checksums} bytes for the checksums of {self.data_bytes} bytes of data"
        return None

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.event


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("ascii")


def _uuid(block: bytes, offset: int) -> str:
    return str(uuid.UUID(bytes=block[offset : offset + 16]))


def _check_sum(block: bytes) -> int:
    """The version, if the block's CRC is right."""
    stored, version = struct.unpack_from("<II", block, 8)
    if crc32c(block[:8] + bytes(4) + block[12:SUPERBLOCK_BYTES]) != stored:
        raise NotAMember("wrong CRC")
    return version


def _parse_tracked(block: bytes) -> tuple[Tracked | None, ...]:
    sets: list[Tracked | None] = []
    for offset in range(1312, 1312 + 4 * 24, 24):
        role, state = block[offset + 16], block[offset + 17]
        sets.append(Tracked(_uuid(block, offset), role, TRACKED_STATES[state]) if state else None)
    return tuple(sets)


def parse_spare(block: bytes) -> Spare:
    """A spare's mark.  Raises NotAMember."""
    if block[:8] != b"IRAID-SP":
        raise NotAMember("no spare's mark")
    if (version := _check_sum(block)) != 1:
        raise NotAMember(f"version {version} of a spare's mark")
    member_bytes, block_bytes = struct.unpack_from("<QI", block, 48)
    volume = _uuid(block, 32) if any(block[32:48]) else None
    return Spare(_uuid(block, 16), volume, member_bytes, block_bytes)


def parse_superblock(block: bytes) -> Superblock:
    """One copy.  Raises NotAMember."""
    if block[:8] != b"IRAID-SB":
        raise NotAMember("no magic")
    version = _check_sum(block)
    _, ro_compat, incompat = struct.unpack_from("<QQQ", block, 16)
    if version != 1 or ro_compat or incompat & ~1:
        raise NotAMember(f"version {version} or a feature that is not known")
    level, count, role, flags = struct.unpack_from("<4B", block, 144)
    chunk, block_bytes, region_rows = struct.unpack_from("<3I", block, 148)
    member_bytes, data_bytes, epoch, event = struct.unpack_from("<4Q", block, 160)
    areas = []
    (area_count,) = struct.unpack_from("<I", block, 320)
    if area_count not in (4, 5):
        raise NotAMember(f"{area_count} areas")
    for number in range(area_count):
        kind, _, offset, length = struct.unpack_from("<IIQQ", block, 384 + 24 * number)
        if kind != number + 1:
            raise NotAMember(f"area {number} is of type {kind}")
        areas.append(Area(offset, length))
    return Superblock(
        write_count=struct.unpack_from("<Q", block, 40)[0],
        volume_uuid=_uuid(block, 48), member_uuid=_uuid(block, 64),
        name=_text(block[80:144]), level=level, count=count, role=role, clean=bool(flags & 1),
        chunk=chunk, block=block_bytes, region_rows=region_rows, member_bytes=member_bytes,
        data_bytes=data_bytes, epoch=epoch, event=event, owner=_text(block[256:320]),
        areas=tuple(areas),
        states=tuple(STATES[state] for state in block[1280 : 1280 + count]),
        uuids=tuple(_uuid(block, 768 + 16 * role) for role in range(count)),
        tracked=_parse_tracked(block), write_counts=struct.unpack_from(f"<{count}Q", block, 1408),
        scrub_mode=SCRUB_MODES[block[232]],
        scrub_running=bool(block[233]), scrub_row=struct.unpack_from("<Q", block, 224)[0],
        scrub_mismatches=struct.unpack_from("<Q", block, 240)[0],
        log_key=struct.unpack_from("<Q", block, 1712)[0],
        log_roles=struct.unpack_from("<I", block, 1720)[0], log_proven=bool(block[1724]),
        undecided_roles=struct.unpack_from("<I", block, 1728)[0], other_holder=_uuid(block, 1736),
    )  # fmt: skip


class Member:
    """One backing file."""

    def __init__(self, path: Path):
        self.path = path

    def read(self, offset: int, length: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def copy(self, which: str) -> Superblock:
        return parse_superblock(self.read(COPIES[which], SUPERBLOCK_BYTES))

    def superblock(self) -> Superblock:
        """The copy that counts."""
        good, faults = [], []
        for which in COPIES:
            try:
                good.append(self.copy(which))
            except NotAMember as fault:
                faults.append(f"copy {which}: {fault}")
        if not good:
            raise NotAMember(f"{self.path}: {', '.join(faults)}")
        return max(good, key=lambda copy: copy.write_count)  # of equals the first, A

    def spare(self) -> Spare:
        """What it is the spare of.  Raises NotAMember, also if it is a member."""
        for which in COPIES:
            if self.read(COPIES[which], 8) == b"IRAID-SB":
                raise NotAMember(f"{self.path}: is a member, copy {which} is a superblock")
        for which in COPIES:
            try:
                return parse_spare(self.read(COPIES[which], SUPERBLOCK_BYTES))
            except NotAMember as found:
                fault = found
        raise NotAMember(f"{self.path}: {fault}")

    def lost(self) -> list[LostExtent]:
        """Its table of lost extents.  Raises NotAMember if a granule is damaged."""
        identity = uuid.UUID(self.superblock().volume_uuid).bytes
        extents: list[LostExtent] = []
        for number in range(LOST_GRANULES):
            granule = self.read(LOST_OFFSET + GRANULE_BYTES * number, GRANULE_BYTES)
            if not any(granule):
                continue
            summed = crc32c(identity + struct.pack("<I", number) + granule[4:])
            if summed != struct.unpack_from("<I", granule)[0]:
                raise NotAMember(f"{self.path}: granule {number} of the lost extents: wrong CRC")
            for offset in range(16, 16 + 24 * LOST_ENTRIES, 24):
                row, rows, begin, end, role, flags = struct.unpack_from("<QIIIBB", granule, offset)
                if rows:
                    extents.append(LostExtent(row, rows, begin, end, role, bool(flags & 1)))
        return extents

    def flags(self) -> list[int]:
        """Of every region; one in a damaged granule is dirty, and stale on everybody."""
        superblock = self.superblock()
        identity = uuid.UUID(superblock.volume_uuid).bytes
        flags: list[int] = []
        for number in range(-(-superblock.regions // GRANULE_REGIONS)):
            offset = superblock.areas[0].offset + GRANULE_BYTES * number
            granule = self.read(offset, GRANULE_BYTES)
            summed = crc32c(identity + struct.pack("<I", number) + granule[4:])
            good = summed == struct.unpack_from("<I", granule)[0]
            flags += granule[12:] if good else [DIRTY | STALE_ANY] * GRANULE_REGIONS
        return flags[: superblock.regions]


def _denies(other: Superblock, one: Superblock) -> bool:
    """Does the other's own, or what it knows of a third, show that `one` was never in force (format.md, "Reading it")?"""
    if other.trusts(one.member_uuid) or other.epoch > one.epoch:
        return False
    if not one.trusts(other.member_uuid):
        return other.trusts(other.member_uuid) and any(
            0 < known < other.write_counts[other.uuids.index(member)]
            for member, known in zip(one.uuids, one.write_counts)
            if one.trusts(member) and other.trusts(member)
        )
    known = one.write_counts[one.uuids.index(other.member_uuid)]
    if known == 0:
        return other.epoch == one.epoch
    surely = other.epoch == one.epoch or (one.member_uuid, "missing") in zip(other.uuids, other.states)
    return other.write_count > known + (not surely)


def _ruling(superblocks: Sequence[Superblock]) -> Superblock:
    """The newest, but not one that a member it relies on never took."""

    def in_force(one: Superblock) -> bool:
        return not one.trusts(one.member_uuid) or not any(_denies(other, one) for other in superblocks)

    return max([one for one in superblocks if in_force(one)] or superblocks, key=lambda s: s.order)


class VolumeReader:
    """The volume of these files; spares among them are passed over.  The ruling superblock tells
    the truth about shape and places; who has no place is not in by_role."""

    def __init__(self, paths: Sequence[Path]):
        self.files = [Member(Path(path)) for path in paths]
        found = [(member, member.superblock()) for member in self.files if not self._is_spare(member)]
        newest = max((superblock for _, superblock in found), key=lambda s: s.order)
        ours = [(member, superblock) for member, superblock in found if superblock.volume_uuid == newest.volume_uuid]
        self.members = [member for member, _ in ours]
        self.truth = _ruling([superblock for _, superblock in ours])
        self.by_role = {
            self.truth.uuids.index(superblock.member_uuid): member
            for member, superblock in ours
            if superblock.member_uuid in self.truth.uuids
        }
        self.shape = self.truth.shape
        self.data_chunks = self.shape.data_chunks

    @staticmethod
    def _is_spare(member: Member) -> bool:
        try:
            member.spare()
        except NotAMember:
            return False
        return True

    def record(self) -> Superblock:
        """The ruling superblock, read anew."""
        return _ruling([member.superblock() for member in self.members])

    def in_sync(self) -> dict[int, Member]:
        states = self.record().states
        return {role: member for role, member in self.by_role.items() if states[role] == "in sync"}

    def stale(self, number: int) -> set[int]:
        """Regions that the member of this tracked set lacks: those that are dirty count too."""
        return self.flagged(STALE[number] | DIRTY, list(self.in_sync()))

    def lost(self) -> list[tuple[int, int]]:
        """(offset, length) of the volume's bytes that can't be known, merged, ascending."""
        chunk, ranges = self.truth.chunk, set()
        for member in self.in_sync().values():
            for extent in member.lost():
                for row in range(extent.row, extent.row + extent.rows):
                    position = self.shape.position(row, extent.role)
                    if position is not None and position < self.data_chunks:
                        begin = (row * self.data_chunks + position) * chunk
                        ranges.add((begin + extent.begin, begin + extent.end))
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(ranges):
            if merged and begin <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((begin, end))
        return [(begin, end - begin) for begin, end in merged]

    @property
    def size(self) -> int:
        return self.truth.rows * self.data_chunks * self.truth.chunk

    def superblocks(self) -> dict[int, Superblock]:
        """By role, read anew."""
        return {role: member.superblock() for role, member in sorted(self.by_role.items())}

    def redundant_roles(self, row: int) -> list[int]:
        """Who holds the row's copies, or P, or P and Q."""
        return [role for role, _ in self.shape.places(row)[self.data_chunks :]]

    def role_of_chunk(self, number: int) -> int:
        """Of the first copy, on levels 1 and 10."""
        row, position = divmod(number, self.data_chunks)
        return self.shape.places(row)[position][0]

    def place(self, byte: int) -> tuple[int, int]:
        """(role, offset in that member's file) of a byte of the volume; of its first copy."""
        number, inside = divmod(byte, self.truth.chunk)
        row, position = divmod(number, self.data_chunks)
        role, _ = self.shape.places(row)[position]
        return role, self.offset(row, role) + inside

    def offset(self, row: int, role: int) -> int:
        """Where the row's chunk begins in that member's file."""
        chunk = dict(self.shape.places(row))[role]
        return self.truth.data.offset + chunk * self.truth.chunk

    def _maps(self) -> dict[int, mmap.mmap]:
        maps = {}
        for role, member in self.by_role.items():
            with member.path.open("rb") as file:
                maps[role] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return maps

    def _row(self, maps: dict[int, mmap.mmap], row: int, gone: Collection[int] = ()) -> list[Chunk]:
        """Its chunks by position; None for those of members that are gone."""
        chunk, begin = self.truth.chunk, self.truth.data.offset
        return [
            None
            if role in gone or role not in maps
            else maps[role][begin + number * chunk : begin + (number + 1) * chunk]
            for role, number in self.shape.places(row)
        ]

    def content(self, without: int | Collection[int] | None = None) -> bytearray:
        """The whole volume.  `without`: these members' chunks are made from the others'; by default those
        of all places whose member is not in sync.  Raises rows.Unknown if that can't be."""
        if without is None:
            states = self.record().states
            gone = {role for role, state in enumerate(states) if state != "in sync"}
            if self.shape.redundancy == 0:
                gone = set()
        else:
            gone = {without} if isinstance(without, int) else set(without)
        maps, row_bytes = self._maps(), self.data_chunks * self.truth.chunk
        out = bytearray(self.size)
        for row in range(self.truth.rows):
            out[row * row_bytes : (row + 1) * row_bytes] = b"".join(self.shape.data(self._row(maps, row, gone)))
        return out

    def wrong_rows(self) -> list[int]:
        """Rows whose copies, P or Q are not what the data makes of them."""
        maps = self._maps()
        if len(maps) != self.truth.count:
            raise NotAMember(f"only roles {sorted(maps)} are there, rows can't be checked")
        wrong = []
        for row in range(self.truth.rows):
            chunks = [chunk for chunk in self._row(maps, row) if chunk is not None]
            if not self.shape.fits(chunks):
                wrong.append(row)
        return wrong

    def regions_of_rows(self, rows: Sequence[int]) -> set[int]:
        return {row // self.truth.region_rows for row in rows}

    def regions_of_bytes(self, offset: int, length: int) -> set[int]:
        row_bytes = self.data_chunks * self.truth.chunk
        return self.regions_of_rows(range(offset // row_bytes, (offset + length - 1) // row_bytes + 1))

    def flagged(self, flag: int, roles: Sequence[int] | None = None) -> set[int]:
        """Regions that have the flag on any of these members."""
        chosen = self.by_role if roles is None else roles
        return {region for role in chosen for region, flags in enumerate(self.by_role[role].flags()) if flags & flag}
