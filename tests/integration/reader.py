"""Reads members without the product: a second implementation of docs/design/format.md.

    volume = VolumeReader([farm.backing(n) for n in range(4)])
    volume.content()              # what an initiator must read
    volume.wrong_rows()           # rows whose XOR is not zero
    volume.place(byte)            # (role, byte of that member's file)
    volume.superblocks()[2].states

Works on the backing files of the targets, in any order, also while the volume runs.  Made from the
page alone, so that an error in pure/layout.c or pure/geometry.c can't hide in here too.
"""

from __future__ import annotations

import mmap
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
SUPERBLOCK_BYTES = 4096
COPIES = {"A": 8 << 10, "B": 512 << 10}
STATES = {1: "in sync", 2: "faulty", 3: "missing"}
GRANULE_BYTES, GRANULE_REGIONS = 512, 500
DIRTY, UNWRITTEN, STALE = 1, 2, 4


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class NotAMember(Exception):
    """The text says what is wrong with a copy, or with both."""


@dataclass(frozen=True)
class Area:
    offset: int
    length: int


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
    areas: tuple[Area, Area, Area, Area]  # map, log, checksums, data
    states: tuple[str, ...]  # by role

    @property
    def rows(self) -> int:
        return self.data_bytes // self.chunk

    @property
    def regions(self) -> int:
        return -(-self.rows // self.region_rows)

    @property
    def data(self) -> Area:
        return self.areas[3]

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.event


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("ascii")


def parse_superblock(block: bytes) -> Superblock:
    """One copy.  Raises NotAMember."""
    if block[:8] != b"IRAID-SB":
        raise NotAMember("no magic")
    stored, version = struct.unpack_from("<II", block, 8)
    if crc32c(block[:8] + bytes(4) + block[12:SUPERBLOCK_BYTES]) != stored:
        raise NotAMember("wrong CRC")
    if version != 1 or any(struct.unpack_from("<QQQ", block, 16)[1:]):
        raise NotAMember(f"version {version} or a feature that is not known")
    level, count, role, flags = struct.unpack_from("<4B", block, 144)
    chunk, block_bytes, region_rows = struct.unpack_from("<3I", block, 148)
    member_bytes, data_bytes, epoch, event = struct.unpack_from("<4Q", block, 160)
    areas = []
    for number in range(4):
        kind, _, offset, length = struct.unpack_from("<IIQQ", block, 384 + 24 * number)
        if kind != number + 1:
            raise NotAMember(f"area {number} is of type {kind}")
        areas.append(Area(offset, length))
    return Superblock(
        write_count=struct.unpack_from("<Q", block, 40)[0],
        volume_uuid=str(uuid.UUID(bytes=block[48:64])),
        member_uuid=str(uuid.UUID(bytes=block[64:80])),
        name=_text(block[80:144]), level=level, count=count, role=role, clean=bool(flags & 1),
        chunk=chunk, block=block_bytes, region_rows=region_rows, member_bytes=member_bytes,
        data_bytes=data_bytes, epoch=epoch, event=event, owner=_text(block[256:320]),
        areas=(areas[0], areas[1], areas[2], areas[3]),
        states=tuple(STATES[state] for state in block[1280 : 1280 + count]),
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

    def flags(self) -> list[int]:
        """Of every region; one in a damaged granule is dirty and stale."""
        superblock = self.superblock()
        identity = uuid.UUID(superblock.volume_uuid).bytes
        flags: list[int] = []
        for number in range(-(-superblock.regions // GRANULE_REGIONS)):
            offset = superblock.areas[0].offset + GRANULE_BYTES * number
            granule = self.read(offset, GRANULE_BYTES)
            summed = crc32c(identity + struct.pack("<I", number) + granule[4:])
            good = summed == struct.unpack_from("<I", granule)[0]
            flags += granule[12:] if good else [DIRTY | STALE] * GRANULE_REGIONS
        return flags[: superblock.regions]


class VolumeReader:
    """The volume of these files.  The newest superblock tells the truth about the shape."""

    def __init__(self, paths: Sequence[Path]):
        self.files = [Member(Path(path)) for path in paths]
        found = [(member, member.superblock()) for member in self.files]
        self.truth = max((superblock for _, superblock in found), key=lambda s: s.order)
        self.by_role = {superblock.role: member for member, superblock in found
                        if superblock.volume_uuid == self.truth.volume_uuid}
        self.data_chunks = self.truth.count - (1 if self.truth.level == 5 else 0)

    @property
    def size(self) -> int:
        return self.truth.rows * self.data_chunks * self.truth.chunk

    def superblocks(self) -> dict[int, Superblock]:
        """By role, read anew."""
        return {role: member.superblock() for role, member in sorted(self.by_role.items())}

    def parity_role(self, row: int) -> int | None:
        count = self.truth.count
        return count - 1 - row % count if self.truth.level == 5 else None

    def role_of_chunk(self, number: int) -> int:
        if self.truth.level == 0:
            return number % self.truth.count
        parity = self.parity_role(number // self.data_chunks)
        assert parity is not None
        return (parity + 1 + number % self.data_chunks) % self.truth.count

    def place(self, byte: int) -> tuple[int, int]:
        """(role, offset in that member's file) of a byte of the volume."""
        number, inside = divmod(byte, self.truth.chunk)
        row = number // self.data_chunks
        return (self.role_of_chunk(number),
                self.truth.data.offset + row * self.truth.chunk + inside)

    def _maps(self) -> dict[int, mmap.mmap]:
        maps = {}
        for role, member in self.by_role.items():
            with member.path.open("rb") as file:
                maps[role] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return maps

    def content(self, without: int | None = None) -> bytearray:
        """The whole volume.  `without`: that member's chunks are the XOR of the others' instead."""
        maps, chunk = self._maps(), self.truth.chunk
        out = bytearray(self.size)
        for number in range(self.size // chunk):
            role, offset = self.role_of_chunk(number), self._offset(number // self.data_chunks)
            if role == without:
                value = self._xor(maps, offset, chunk, leave_out=role).to_bytes(chunk, "little")
            else:
                value = maps[role][offset : offset + chunk]
            out[number * chunk : (number + 1) * chunk] = value
        return out

    def _offset(self, row: int) -> int:
        return self.truth.data.offset + row * self.truth.chunk

    @staticmethod
    def _xor(maps: dict[int, mmap.mmap], offset: int, length: int, leave_out: int = -1) -> int:
        total = 0
        for role, content in maps.items():
            if role != leave_out:
                total ^= int.from_bytes(content[offset : offset + length], "little")
        return total

    def wrong_rows(self) -> list[int]:
        """Rows of level 5 whose chunks, parity included, don't XOR to zero."""
        maps, chunk, rows = self._maps(), self.truth.chunk, self.truth.rows
        if len(maps) != self.truth.count:
            raise NotAMember(f"only roles {sorted(maps)} are there, parity can't be checked")
        step = max(1, MIB // chunk)
        wrong: list[int] = []
        for first in range(0, rows, step):
            count = min(step, rows - first)
            if self._xor(maps, self._offset(first), count * chunk) != 0:
                wrong += [row for row in range(first, first + count)
                          if self._xor(maps, self._offset(row), chunk) != 0]
        return wrong

    def regions_of_rows(self, rows: Sequence[int]) -> set[int]:
        return {row // self.truth.region_rows for row in rows}

    def regions_of_bytes(self, offset: int, length: int) -> set[int]:
        row_bytes = self.data_chunks * self.truth.chunk
        return self.regions_of_rows(range(offset // row_bytes, (offset + length - 1) // row_bytes + 1))

    def flagged(self, flag: int, roles: Sequence[int] | None = None) -> set[int]:
        """Regions that have the flag on any of these members."""
        chosen = self.by_role if roles is None else roles
        return {region for role in chosen
                for region, flags in enumerate(self.by_role[role].flags()) if flags & flag}
