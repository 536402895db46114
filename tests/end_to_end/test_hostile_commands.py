"""What one initiator can do to the others, to the log and to the blocks by commands that no driver sends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from disk_bytes import get, put
from scsi_answers import raw

from iraid_dev.stack import initiator
from iraid_dev.stack.tools import attempt

LOG = Path("/var/log/tcmu-runner.log")
ILLEGAL_REQUEST, DATA_PROTECT, INVALID_OPCODE = 5, 7, 9  # exit statuses of sg3-utils
KIB, MIB = 1 << 10, 1 << 20
# Groups 6, 7 and 3: libtcmu knows no length of theirs.
UNKNOWN = ["c0 00 00 00 00 00", "df 00 00 00 00 00", "e0 00 00 00 00 00", "ff 00 00 00 00 00", "60" + 11 * " 00"]


@pytest.fixture
def disk(shared_volume) -> str:
    return shared_volume(5, 4).disk.path


@pytest.mark.timeout(600)
def test_opcodes_of_vendors_are_refused_at_once_and_cost_the_lun_nothing(gateway, lio_members, tmp_path):
    """More of them than the LUN has room for, had each kept its place; afterwards the runner ends in order."""
    volume = gateway.create(5, lio_members(3, size_bytes=64 << 20))
    disk = volume.login().path
    data = tmp_path / "data"
    data.write_bytes(os.urandom(MIB))
    for round_ in range(21):
        for cdb in UNKNOWN:
            transfer = (
                (),
                ("-r", str(MIB), "-o", tmp_path / "read"),
                ("-s", str(MIB), "-i", data),
            )[round_ % 3]
            status, text = raw(disk, cdb, *transfer)
            assert status in (ILLEGAL_REQUEST, INVALID_OPCODE), (cdb, status, text)
            assert "Invalid command operation code" in text, text
    put(disk, data.read_bytes(), 0)
    assert get(disk, MIB, 0) == data.read_bytes()
    volume.logout()
    volume.unexport()
    gateway.runner.stop()  # fails if it takes long, as it does while a command of a LUN is not answered
    gateway.runner.start()


def test_a_transfer_that_the_command_does_not_mean_is_refused_and_not_logged(disk, tmp_path):
    """The runner logs a line for each, and its log has no limit."""
    put(disk, b"\xa5" * 64 * KIB, 0)
    data = tmp_path / "data"
    data.write_bytes(b"\x5a" * 4 * KIB)
    reads = [f"{opcode} 00 00 00 00 00 00 00 0{blocks} 00" for opcode in ("28", "2a") for blocks in (0, 2, 9)]
    raw(disk, reads[0], "-r", "4096")
    before = LOG.stat().st_size
    for cdb in reads * 3:
        status, text = raw(disk, cdb, "-r", "4096")
        assert status == ILLEGAL_REQUEST and "Invalid field in cdb" in text, (cdb, status, text)
        if cdb.startswith("2a"):
            status, text = raw(disk, cdb, "-s", "4096", "-i", data)
            assert status == ILLEGAL_REQUEST and "Invalid field in cdb" in text, (cdb, status, text)
    status, text = raw(disk, "2a 00 00 00 00 00 00 00 08 00")  # no data at all
    assert status == ILLEGAL_REQUEST, text
    status, text = raw(disk, "c0 00 00 00 00 00")
    assert status in (ILLEGAL_REQUEST, INVALID_OPCODE), text
    assert LOG.read_bytes()[before:] == b""
    assert get(disk, 64 * KIB, 0) == b"\xa5" * 64 * KIB


def test_a_read_only_mapping_is_not_passed_by_zeros_without_data(shared_volume, disk):
    """LIO takes for a write what says it sends data.  (A WRITE that says it reads passes: sense.md warns of it.)"""
    acls = Path("/sys/kernel/config/target/iscsi", shared_volume(5, 4).iqn, "tpgt_1/acls")
    protection = acls / initiator.name() / "lun_0/write_protect"
    put(disk, b"\xa5" * 64 * KIB, 0)
    protection.write_text("1")
    try:
        for unmaps in ((), ("--unmap",)):
            status, text = attempt("sg_write_same", "--16", *unmaps, "--lba=0", "--num=8", disk)
            assert status == DATA_PROTECT, text
            status, text = attempt("sg_write_same", "--16", "--ndob", *unmaps, "--lba=0", "--num=8", disk)
            assert status == ILLEGAL_REQUEST, text
    finally:
        protection.write_text("0")
    assert get(disk, 64 * KIB, 0) == b"\xa5" * 64 * KIB


@pytest.mark.parametrize(
    "cdb",
    [
        "00 00 00 00 00 00",
        "35 00 00 00 00 00 00 00 00 00",
        "91 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
        "42 00 00 00 00 00 00 00 00 00",
        "2f 00 00 00 00 00 00 00 08 00",
        "2f 00 00 00 00 00 00 00 00 00",
        "34 00 00 00 00 00 00 00 08 00",
        "41 00 00 00 00 40 00 00 08 00",
        "83 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    ],
    ids=["TEST UNIT READY", "SYNCHRONIZE CACHE(10)", "SYNCHRONIZE CACHE(16)", "UNMAP", "VERIFY(10)",
         "VERIFY(10) of nothing", "PRE-FETCH", "WRITE SAME(10)", "EXTENDED COPY"],
)  # fmt: skip
def test_what_was_moved_before_is_not_read_by_a_command_that_reads_nothing(disk, tmp_path, cdb):
    put(disk, os.urandom(1024 * KIB), 0)  # lies in the ring's memory
    got = tmp_path / "got"
    size = 512 if cdb.startswith("41") else 64 * KIB
    status, text = raw(disk, cdb, "-r", str(size), "-o", got)
    assert status == 0, text
    assert not got.exists() or got.read_bytes() in (b"", bytes(size))
