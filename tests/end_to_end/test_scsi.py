"""What stock tools make of the LUN: limits, discards, zeros, compare and write, copies, and file systems that trim."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
import scsi_answers
from disk_bytes import get, put
from scsi_answers import naa, raw

from iraid_dev.stack import initiator
from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.tools import ROOT, attempt, run, wait_for

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
MIB = 1 << 20
MISCOMPARE, ILLEGAL_REQUEST, MEDIUM_OR_HARDWARE_ERROR, NOT_READY = 14, 5, 3, 2  # exit statuses of sg3-utils


@pytest.fixture
def disk(shared_volume) -> str:
    return shared_volume(5, 4).disk.path


def queue(disk: str, name: str) -> int:
    return int(Path("/sys/block", Path(disk).name, "queue", name).read_text())


def test_linux_sees_what_the_lun_says(disk):
    assert queue(disk, "physical_block_size") == 4096
    assert queue(disk, "rotational") == 0
    assert queue(disk, "minimum_io_size") == 65536
    assert queue(disk, "optimal_io_size") % (3 * 65536) == 0
    assert queue(disk, "discard_granularity") == 65536
    assert queue(disk, "discard_max_hw_bytes") == 32 * MIB
    assert queue(disk, "write_zeroes_max_bytes") > 0
    assert queue(disk, "fua") == 1
    limits = scsi_answers.block_limits(disk)
    assert limits.compare_and_write == 128 and limits.unmap_alignment_valid
    assert scsi_answers.provisioning(disk) == scsi_answers.Provisioning(unmaps=True, reads_zeros=True, is_thin=True)
    extended = scsi_answers.page(disk, scsi_answers.EXTENDED_INQUIRY)
    assert extended[5] & 1 and extended[6] & 1  # SIMPSUP, V_SUP
    assert naa(disk)[0] >> 4 == 3 and len(naa(disk)) == 8
    names = [d.value for d in scsi_answers.designators(disk) if d.kind == scsi_answers.NAME_STRING]
    assert f"naa.{naa(disk).hex()}" in [name.rstrip(b"\0").decode() for name in names]
    assert "mapped (or unknown)" in run("sg_get_lba_status", "--lba=4096", disk)
    rotation_rate = scsi_answers.page(disk, scsi_answers.CHARACTERISTICS)[4:6]
    assert rotation_rate == b"\0\1"  # does not rotate


@pytest.mark.parametrize("tool", [
    ("blkdiscard",), ("blkdiscard", "-z"), ("blkdiscard", "-p", "1MiB"), ("blkdiscard", "-z", "-p", "700KiB"),
], ids=" ".join)  # fmt: skip
def test_blkdiscard_leaves_zeros_where_it_was_told_to(disk, tool):
    put(disk, os.urandom(8 * MIB), 0)
    around = get(disk, 8 * MIB, 0)
    begin, length = MIB + 4096, 5 * MIB + 12288
    run(*tool, "-o", str(begin), "-l", str(length), disk)
    assert get(disk, 8 * MIB, 0) == around[:begin] + bytes(length) + around[begin + length :]
    if tool == ("blkdiscard",):
        run(*tool, "-f", disk)
        assert not any(get(disk, 8 * MIB, 0))


def test_parity_is_true_after_all_of_it(shared_volume, disk):
    for number in range(12):
        put(disk, os.urandom(300 * 1024), number * MIB)
        run("blkdiscard", "-o", str(number * MIB + 4096 * number), "-l", str(640 * 1024), disk)
    volume = shared_volume(5, 4)
    iraid("scrub", "start", volume.name, "--wait")
    assert volume.status()["scrub"]["mismatches"] == 0


def test_sg_tools_can_unmap_write_same_and_verify(disk, tmp_path):
    block = tmp_path / "block"
    block.write_bytes(os.urandom(512))
    put(disk, os.urandom(MIB), 0)
    run("sg_unmap", "--lba=8,16,100", "--num=8,4,1", disk)
    data = get(disk, MIB, 0)
    assert not any(data[8 * 512 : 20 * 512]) and not any(data[100 * 512 : 101 * 512])
    assert any(data[20 * 512 : 21 * 512]) and any(data[7 * 512 : 8 * 512])
    for ten_or_sixteen, lba in (("--10", 200), ("--16", 400)):
        run("sg_write_same", ten_or_sixteen, f"--lba={lba}", "--num=100", f"--in={block}", "--xferlen=512", disk)
        assert get(disk, 51200, lba * 512) == block.read_bytes() * 100
        run("sg_verify", f"--lba={lba}", "--count=100", disk)
    run("sg_write_same", "--16", "--unmap", "--lba=400", "--num=50", disk)
    run("sg_write_same", "--16", "--lba=200", "--num=50", disk)
    assert not any(get(disk, 25600, 400 * 512)) and not any(get(disk, 25600, 200 * 512))
    status, text = attempt("sg_write_same", "--16", "--anchor", "--unmap", "--lba=0", "--num=1", disk)
    assert status == ILLEGAL_REQUEST, text
    status, text = attempt("sg_unmap", f"--lba={1 << 40}", "--num=1", disk)
    assert status != 0 and ("out of range" in text.lower() or status == ILLEGAL_REQUEST), text
    (tmp_path / "wrong").write_bytes(bytes(51199) + b"\1")
    status, text = attempt(
        "sg_verify", "--lba=200", "--count=100", "--ebytchk=1", "--ndo=51200", f"--in={tmp_path / 'wrong'}", disk
    )
    assert status == MISCOMPARE, text


def write_mode_page(disk: str, page: bytes, folder: Path, six: bool = False) -> tuple[int, str]:
    """By MODE SELECT of what MODE SENSE answers, but for the page itself; as sg_wr_mode does it."""
    answer, order = folder / "modes", folder / "new-modes"
    sense, length_bytes, head_bytes = (
        (f"1a 00 {page[0]:02x} 00 fc 00", 1, 4) if six else (f"5a 00 {page[0]:02x} 00 00 00 00 00 fc 00", 2, 8)
    )
    status, text = raw(disk, sense, "-r", "252", "-o", answer)
    assert status == 0, text
    modes = bytearray(answer.read_bytes())
    del modes[int.from_bytes(modes[:length_bytes], "big") + length_bytes :]
    begin = head_bytes + int.from_bytes(modes[head_bytes - length_bytes : head_bytes], "big")
    there = modes[begin:]
    assert there[0] & 0x3F == page[0] and there[1] == page[1] and len(there) == len(page), modes.hex(" ")
    modes[:length_bytes] = bytes(length_bytes)  # reserved
    modes[length_bytes + 1] &= 0xEF  # DPOFUA, which is told only
    modes[begin:] = page
    order.write_bytes(modes)
    select = f"15 10 00 00 {len(modes):02x} 00" if six else f"55 10 00 00 00 00 00 00 {len(modes):02x} 00"
    return raw(disk, select, "-s", str(len(modes)), "-i", order)


def test_modes_can_be_written_back_and_not_changed(disk, tmp_path):
    caching, exceptions = bytes([0x08, 0x12, 4, *bytes(17)]), bytes([0x1C, 0x0A, 8, *bytes(9)])
    for page in (caching, exceptions):
        for six in (False, True):
            status, text = write_mode_page(disk, page, tmp_path, six)
            assert status == 0, text
    without_cache = bytes([0x08, 0x12, 0, *bytes(17)])
    status, text = write_mode_page(disk, without_cache, tmp_path)
    assert scsi_answers.is_illegal_request(status) and "Invalid field in parameter list" in text, (status, text)
    assert cached(disk) == "write back"


def cached(disk: str) -> str:
    return (Path("/sys/block") / Path(disk).name / "queue/write_cache").read_text().strip()


def test_compare_and_write_tells_where_it_differs(disk, tmp_path):
    old, new = os.urandom(4096), os.urandom(4096)
    put(disk, old, 64 * 512)
    both = tmp_path / "both"
    both.write_bytes(old + new)
    order = ("sg_compare_and_write", "--lba=64", "--num=8", "--xferlen=8192", f"--in={both}", disk)
    run(*order)
    assert get(disk, 4096, 64 * 512) == new
    both.write_bytes(new[:1234] + bytes([new[1234] ^ 1]) + new[1235:] + old)
    status, text = attempt(*order, "-v")
    assert status == MISCOMPARE, text
    assert "1234" in text or "0x4d2" in text, text
    assert get(disk, 4096, 64 * 512) == new


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dies", [pytest.param(False, marks=pytest.mark.long), True], ids=["all well", "a member dies"])
def test_a_counter_raced_from_two_sessions_loses_no_increment(gateway, farm, dies):
    """Two sessions of 32 commands each, all on one block, until enough has happened, however long that takes."""
    targets = farm(4, size_bytes=64 << 20)
    volume = gateway.create(5, targets.members(), "--give-up", "2")
    volume.export()
    session = f"{initiator.name()}:iscsi://{volume.portal}/{volume.iqn}/0"
    before = written(volume)
    racer = subprocess.Popen(
        [str(BUILD / "tests/caw_race"), "--seconds", "240", "--until-told", "--lba", "4096", session, session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for(lambda: written(volume) > before + 20, "the race to be on", 60)
        if dies:
            targets.kill(1)
            volume.wait_until("degraded")
        going = written(volume)
        # An increment is two writes, or one where a member is gone; and marks are up to four.
        wait_for(lambda: written(volume) > going + 150, "the race to go on", 120)
        said = racer.communicate("enough\n", timeout=60)[0]
    finally:
        racer.kill()
        racer.wait()
    assert racer.returncode == 0, said
    assert int(re.search(r"held: counter (\d+)", said).group(1)) > 20, said
    assert int(re.search(r"(\d+) miscompares", said).group(1)) > 20, said
    assert volume.status()["state"] == ("degraded" if dies else "active")


def written(volume) -> int:
    return sum(member["writes"] for member in volume.status()["members"])


def copy(disk: str, name: bytes, folder: Path, source: int, target: int, blocks: int) -> tuple[int, str]:
    """EXTENDED COPY as sg_xcopy sends it; sg_xcopy itself needs a driver that the lab's kernel lacks."""
    cscd = struct.pack(">BBHBBBB20sB3s", 0xE4, 0, 0, 1, 3, 0, len(name), name, 0, (512).to_bytes(3, "big"))
    segment = struct.pack(">BBHHHHHQQ", 2, 0, 0x18, 0, 0, 0, blocks, source, target)
    head = struct.pack(">BBHIII", 0, 0, len(cscd), 0, len(segment), 0)
    order = folder / "list"
    order.write_bytes(head + cscd + segment)
    cdb = struct.pack(">B9xI2x", 0x83, order.stat().st_size)
    return attempt("sg_raw", "-s", str(order.stat().st_size), "-i", order, disk, *(f"{byte:02x}" for byte in cdb))


def test_extended_copy_copies_within_the_lun_only(disk, tmp_path):
    data = os.urandom(3 * MIB)
    put(disk, data, MIB)
    status, text = copy(disk, naa(disk), tmp_path, MIB // 512, 10 * MIB // 512, len(data) // 512)
    assert status == 0, text
    assert get(disk, len(data), 10 * MIB) == data
    status, text = copy(disk, bytes.fromhex("6001405000000000"), tmp_path, 0, 8, 8)
    assert status != 0 and "Copy target device not reachable" in text, text
    assert "Extended copy" in run("sg_opcodes", disk)


def test_ext4_and_xfs_trim_and_are_sound_afterwards(disk, tmp_path):
    for kind, check in (("ext4", ("fsck.ext4", "-fn")), ("xfs", ("xfs_repair", "-n"))):
        if attempt("modprobe", kind)[0] != 0:
            continue
        force = "-F" if kind == "ext4" else "-f"
        run(f"mkfs.{kind}", force, disk)
        mount = tmp_path / kind
        mount.mkdir()
        run("mount", "-t", kind, disk, mount)
        try:
            for number in range(20):
                (mount / f"file{number}").write_bytes(os.urandom(MIB))
            kept = (mount / "file7").read_bytes()
            for number in range(20):
                if number != 7:
                    (mount / f"file{number}").unlink()
            run("sync")
            assert "trimmed" in run("fstrim", "-v", mount)
            run("umount", mount)
            run("mount", "-t", kind, disk, mount)
            assert (mount / "file7").read_bytes() == kept
        finally:
            attempt("umount", mount)
        run(*check, disk)


def test_thin_members_get_back_what_an_initiator_discards(gateway, farm):
    targets = farm(4, size_bytes=64 << 20)
    for number, target in enumerate(targets.targets):
        targets.admin(number, "--mode", "logicalunit", "--op", "update", "--tid", str(target.tid),
                      "--lun", "1", "--params", "thin_provisioning=1")  # fmt: skip

    def space() -> int:
        return sum(targets.backing(number).stat().st_blocks * 512 for number in range(4))

    disk = gateway.create(5, targets.members()).login().path
    put(disk, os.urandom(48 * MIB), 0)
    full = space()
    run("blkdiscard", "-f", disk)
    assert space() < full // 4
    assert not any(get(disk, MIB, 7 * MIB))


def test_what_a_member_refuses_is_an_error_to_the_initiator(gateway, farm):
    """Level 0 can't do without it.  The runner itself would swallow the error of an UNMAP."""
    targets = farm(2, size_bytes=64 << 20)
    disk = gateway.create(0, targets.members()).login().path
    run("sg_unmap", "--lba=0", "--num=4096", disk)
    targets.admin(1, "--mode", "logicalunit", "--op", "update", "--tid", str(targets.targets[1].tid),
                  "--lun", "1", "--params", "readonly=1")  # fmt: skip
    for order in (
        ("sg_unmap", "--lba=0", "--num=4096"),
        ("sg_write_same", "--16", "--lba=0", "--num=4096"),
        ("sg_write_same", "--16", "--unmap", "--lba=0", "--num=4096"),
    ):
        status, text = attempt(*order, disk)
        assert status in (MEDIUM_OR_HARDWARE_ERROR, NOT_READY), (order, status, text)
