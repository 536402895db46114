"""Volumes of many TiB, on members whose files are sparse, and members with blocks of 4096 bytes.

Nothing here waits for the resync of a large volume: it runs in the background of all that is tested.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_levels import check_files, mounted, write_files

from iraid_dev.stack.gateway import Volume, attempt_iraid, iraid
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.load import Fio
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.tools import PATIENCE, attempt, run, wait_for

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
SECTOR_BYTES = 512
PIECE_BYTES = 256 * KIB


# --- direct I/O at any place ---


def stamped(offset: int, length: int, seed: int) -> bytes:
    """Each 512 bytes tell where they belong: what lands elsewhere, or comes from there, is seen."""
    return b"".join(struct.pack("<QQ", seed, place) * 32 for place in range(offset, offset + length, SECTOR_BYTES))


def put(disk: Disk, offset: int, content: bytes) -> None:
    """Past the page cache."""
    buffer = mmap.mmap(-1, len(content))
    buffer[:] = content
    fd = os.open(disk.path, os.O_WRONLY | os.O_DIRECT)
    try:
        assert os.pwritev(fd, [buffer], offset) == len(content)
    finally:
        os.close(fd)
        buffer.close()


def get(disk: Disk, offset: int, length: int) -> bytes:
    """Past the page cache."""
    buffer = mmap.mmap(-1, length)
    fd = os.open(disk.path, os.O_RDONLY | os.O_DIRECT)
    try:
        assert os.preadv(fd, [buffer], offset) == length
        return bytes(buffer)
    finally:
        os.close(fd)
        buffer.close()


@dataclass
class Places:
    """Ranges of a disk and what was last written there."""

    ranges: list[tuple[int, int]]
    seed: int = 0

    def write(self, disk: Disk, seed: int) -> None:
        self.seed = seed
        for offset, length in self.ranges:
            put(disk, offset, stamped(offset, length, seed))

    def check(self, disk: Disk) -> None:
        for offset, length in self.ranges:
            assert get(disk, offset, length) == stamped(offset, length, self.seed), f"at byte {offset}"

    def check_on_members(self, reader: VolumeReader) -> None:
        """The first and the last block of each stand where the format says."""
        for offset, length in self.ranges:
            for byte in (offset, offset + length - SECTOR_BYTES):
                role, place = reader.place(byte)
                found = reader.by_role[role].read(place, SECTOR_BYTES)
                assert found == stamped(byte, SECTOR_BYTES, self.seed), f"byte {byte}, at {place} of role {role}"


def places(size_bytes: int, row_bytes: int) -> Places:
    """The ends, and both sides of what fits no more into 32 bits: blocks, pages, rows."""
    edges = [2 * TIB, 4 * TIB, 8 * TIB, 16 * TIB, row_bytes << 31, row_bytes << 32]
    ranges = [(0, PIECE_BYTES), (size_bytes - PIECE_BYTES, PIECE_BYTES)]
    for edge in sorted({edge // 4096 * 4096 for edge in edges if edge + PIECE_BYTES < size_bytes}):
        ranges += [(edge - PIECE_BYTES // 2, PIECE_BYTES), (edge - PIECE_BYTES, 4 * KIB), (edge + PIECE_BYTES, 4 * KIB)]
    return Places(ranges)


# --- what is asked of the LUN ---


def read_capacity(disk: Disk, folder: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """(last block, bytes of a block) by READ CAPACITY(10), and by (16)."""
    answer = folder / "capacity"
    run("sg_raw", "-r", "8", "-o", answer, disk.path, *"25 00 00 00 00 00 00 00 00 00".split())
    ten = struct.unpack_from(">II", answer.read_bytes())
    run("sg_raw", "-r", "32", "-o", answer, disk.path, *"9e 10 00 00 00 00 00 00 00 00 00 00 00 20 00 00".split())
    sixteen = struct.unpack_from(">QI", answer.read_bytes())
    return ten, sixteen


def check_resync_figures(volume: Volume) -> None:
    """Days to go, and said so."""
    status = wait_for(
        lambda: (s := volume.status())["resync"]["running"] and s["resync"]["bytes_per_second"] and s,
        f"the resync of {volume.name} to tell its rate",
    )
    resync = status["resync"]
    assert 0 <= resync["done_rows"] < resync["total_rows"] // 100
    left = (resync["total_rows"] - resync["done_rows"]) * status["chunk_bytes"]
    assert resync["seconds_left"] == pytest.approx(left / resync["bytes_per_second"], rel=0.2)
    lines = dict(
        re.match(r"(\S[\w ]*?)  +(.*)", line).groups()
        for line in iraid("status", volume.name).splitlines()
        if re.match(r"\S[\w ]*?  +.", line)
    )
    assert re.fullmatch(r"\d+(\.\d)? TiB", lines["Size"]), lines
    assert re.search(
        r" 0\.\d %, [\d.]+ [KM]iB/s of each member, (\d+ d )?\d+ h( \d+ min)? left", lines["Parity"]
    ) or re.search(r" 0\.\d %, .* d left", lines["Parity"]), lines


def restart(volume: Volume, reader: VolumeReader) -> Disk:
    """Out of LIO, stopped in order, assembled anew, exported again."""
    volume.logout()
    volume.unexport()
    iraid("stop", volume.name)
    assert all(member.superblock().clean for member in reader.in_sync().values())
    iraid("start", volume.name)
    return volume.login()


def lose_member(targets: object, volume: Volume, where: Places, disk: Disk) -> None:
    targets.kill(1)
    where.check(disk)
    volume.wait_until("degraded")
    where.write(disk, seed=2)
    where.check(disk)


def wait_until_written_is_proven(volume: Volume, reader: VolumeReader, where: Places) -> None:
    """Regions that hold something come first, so as many regions as that have been done then."""
    regions = set().union(*(reader.regions_of_bytes(offset, length) for offset, length in where.ranges))
    wait_for(
        lambda: volume.status()["resync"]["done_rows"] >= len(regions) * reader.truth.region_rows,
        f"{len(regions)} regions of {volume.name} to be proven",
        120,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "level, count, member_bytes, chunk",
    [
        (5, 4, 7 * TIB, "64K"),
        pytest.param(5, 3, 17 * TIB, "4K", marks=pytest.mark.long),
        pytest.param(0, 3, 8 * TIB, "1M", marks=pytest.mark.long),
        pytest.param(6, 4, 2 * TIB, "64K", marks=pytest.mark.long),
        pytest.param(10, 4, 2 * TIB, "64K", marks=pytest.mark.long),
    ],
    ids=["level 5, 21 TiB", "level 5, rows over 32 bits", "level 0, 24 TiB", "level 6, 4 TiB", "level 10, 4 TiB"],
)
def test_blocks_beyond_32_bits_are_what_was_written(gateway, farm, tmp_path, level, count, member_bytes, chunk):
    targets = farm(count, size_bytes=member_bytes)
    volume = gateway.create(level, targets.members(), "--chunk", chunk)
    reader = VolumeReader([targets.backing(number) for number in range(count)])
    size = volume.status()["size_bytes"]
    assert size == reader.size

    disk = volume.login()
    assert disk.size_bytes == size
    assert read_capacity(disk, tmp_path) == ((0xFFFFFFFF, SECTOR_BYTES), (size // SECTOR_BYTES - 1, SECTOR_BYTES))

    row_bytes = reader.data_chunks * reader.truth.chunk
    where = places(size, row_bytes)
    where.write(disk, seed=1)
    where.check(disk)
    where.check_on_members(reader)
    if level != 0:
        check_resync_figures(volume)

    if chunk == "4K":  # the resync would need minutes here after a start; which rows are proven is known before
        lose_member(targets, volume, where, disk)
    disk = restart(volume, reader)
    where.check(disk)
    if level != 0:
        if chunk != "4K":
            wait_until_written_is_proven(volume, reader, where)
            lose_member(targets, volume, where, disk)
        targets.restart(1)
        wait_for(lambda: volume.status()["members"][1]["state"] != "faulty", "member 1 to be taken back")
        where.check(disk)
    last = size - PIECE_BYTES
    run("blkdiscard", "-o", str(last), "-l", str(PIECE_BYTES // 2), disk.path)
    assert not any(get(disk, last, PIECE_BYTES // 2))
    run("blkdiscard", "-z", "-o", str(size - 4096), "-l", "4096", disk.path)
    expected = stamped(last + PIECE_BYTES // 2, PIECE_BYTES // 2 - 4096, where.seed) + bytes(4096)
    assert get(disk, last + PIECE_BYTES // 2, PIECE_BYTES // 2) == expected


@pytest.mark.long
@pytest.mark.timeout(200)
def test_the_resync_of_tebibytes_gives_way_to_initiators(gateway, lio_members):
    volume = gateway.create(5, lio_members(4, size_bytes=7 * TIB))
    disk = volume.login()
    iraid("set", volume.name, "--rate-min", "4M", "--rate-max", "1G")
    rate = lambda: volume.status()["resync"]["bytes_per_second"]  # noqa: E731
    wait_for(lambda: rate() > 20 * MIB, "the resync to be fast while nobody else is there")
    fio = Fio(disk, rw="randwrite", bs="64k", iodepth=4, offset=16 * TIB - 96 * MIB, size="192M", rate="12m")
    try:
        wait_for(lambda: fio.running() and 0 < rate() < 5 * MIB, "the resync to be slow beside a load")
        result = fio.result()
    finally:
        fio.end()
    assert result.longest_seconds < 2.0 * PATIENCE
    wait_for(lambda: rate() > 20 * MIB, "the resync to be fast again")


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_file_system_on_21_tebibytes_keeps_its_files(gateway, lio_members, tmp_path):
    """Its groups begin all over the LUN, their headers are written at once."""
    assert attempt("modprobe", "xfs")[0] == 0
    disk = gateway.create(5, lio_members(4, size_bytes=7 * TIB)).login()
    # Not discarded, which takes hours where members have to make zeros.
    run("mkfs.xfs", "-q", "-f", "-K", "-l", "size=64m", disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        assert os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize > 20 * TIB
        # Directories go to different groups each.
        for number in range(24):
            (folder / f"d{number}").mkdir()
        digests = {}
        for number in range(24):
            digests |= {
                f"d{number}/{name}": digest
                for name, digest in write_files(folder / f"d{number}", number, count=1).items()
            }
    run("blockdev", "--flushbufs", disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        check_files(folder, digests)
    run("xfs_repair", "-n", disk.path)


# --- blocks of 4096 bytes ---


def queue(disk: Disk, name: str) -> int:
    return int(Path("/sys/block", Path(disk.path).name, "queue", name).read_text())


def check_alignment(disk: Disk, volume: Volume, data_chunks: int, block_bytes: int) -> None:
    """What Linux, and so mkfs and parted, make of the limits."""
    chunk = volume.status()["chunk_bytes"]
    assert queue(disk, "logical_block_size") == block_bytes
    assert queue(disk, "physical_block_size") == 4096
    asked = run("blockdev", "--getss", "--getpbsz", "--getiomin", "--getioopt", "--getalignoff", disk.path)
    sector, physical, minimum, optimal, misaligned = (int(word) for word in asked.split())
    assert (sector, physical, minimum, misaligned) == (block_bytes, 4096, chunk, 0)
    assert optimal > 0 and optimal % (data_chunks * chunk) == 0
    columns = run(
        "lsblk",
        "--nodeps",
        "--noheadings",
        "--bytes",
        "--output",
        "ALIGNMENT,MIN-IO,OPT-IO,PHY-SEC,LOG-SEC,DISC-ALN,DISC-GRAN",
        disk.path,
    )
    row = data_chunks * chunk
    discarded = row & -row  # the largest power of 2 that divides a row: ESXi wants one that divides 1 MiB
    assert [int(word) for word in columns.split()] == [0, chunk, optimal, 4096, block_bytes, 0, discarded]


@pytest.mark.parametrize(
    "level, count, data_chunks", [(5, 4, 3), (6, 5, 3), (10, 4, 2)], ids=["level 5", "level 6", "level 10"]
)
def test_the_stripe_is_what_initiators_align_to(gateway, lio_members, tmp_path, level, count, data_chunks):
    volume = gateway.create(level, lio_members(count))
    disk = volume.login()
    check_alignment(disk, volume, data_chunks, SECTOR_BYTES)
    blocks = disk.size_bytes // SECTOR_BYTES
    assert read_capacity(disk, tmp_path) == ((blocks - 1, SECTOR_BYTES), (blocks - 1, SECTOR_BYTES))


def make_4kn(kind: str, farm: object, lio_members: object, count: int) -> tuple[list[str], object]:
    if kind == "LIO":
        return lio_members(count, size_bytes=64 * MIB, block_bytes=4096), None
    targets = farm(count, size_bytes=32 * MIB, block_bytes=4096)
    return targets.members(), targets


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind, level, count, data_chunks",
    [
        pytest.param("tgt", 5, 4, 3, marks=pytest.mark.long),
        ("LIO", 5, 4, 3),
        pytest.param("tgt", 6, 5, 3, marks=pytest.mark.long),
    ],
    ids=["tgt, level 5", "LIO, level 5", "tgt, level 6"],
)
def test_members_with_blocks_of_4096_bytes_make_a_lun_of_such_blocks(
    gateway, farm, lio_members, tmp_path, kind, level, count, data_chunks
):
    members, targets = make_4kn(kind, farm, lio_members, count)
    volume = gateway.create(level, members)
    assert volume.status()["block_bytes"] == 4096
    disk = volume.login()
    check_alignment(disk, volume, data_chunks, 4096)
    blocks = disk.size_bytes // 4096
    assert read_capacity(disk, tmp_path) == ((blocks - 1, 4096), (blocks - 1, 4096))

    Fio(disk, rw="randwrite", bs="4k", size="6M", iodepth=8).result()
    Fio(disk, rw="randwrite", bsrange="4k-300k", size="12M", iodepth=4).result()
    run("mkfs.ext4", "-q", "-F", disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        digests = write_files(folder, 1)
        if targets is not None:
            targets.kill(1)
        digests |= write_files(folder, 2)
    if targets is not None:
        volume.wait_until("degraded")
    run("blockdev", "--flushbufs", disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        check_files(folder, digests)
    run("e2fsck", "-fn", disk.path)
    if targets is not None:
        targets.restart(1)
        volume.wait_until("active", seconds=90)
    volume.wait_resynced()
    iraid("scrub", "start", volume.name, "--wait")
    assert volume.status()["scrub"]["mismatches"] == 0


def test_members_whose_blocks_differ_are_refused(gateway, lio_members, memory_folder):
    members = lio_members(2) + lio_members(1, block_bytes=4096)
    before = {path: path.read_bytes() for path in memory_folder.rglob("*.img")}
    assert len(before) == 3
    status, text = attempt_iraid("create", "mixed", "--level", "5", *members)
    assert status != 0
    assert f"{members[2]} has blocks of 4096 bytes, but {members[0]} has blocks of 512" in text, text
    assert "same block size" in text, text
    assert "mixed" not in iraid("list")
    assert {path: path.read_bytes() for path in memory_folder.rglob("*.img")} == before
