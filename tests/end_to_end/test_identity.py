"""What an initiator is told about the disk, asked with sg3-utils."""

from __future__ import annotations

from pathlib import Path

import pytest
import scsi_answers

from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.tools import attempt, run

MIB = 1 << 20


def inquiry(disk) -> dict[str, str]:
    data = scsi_answers.inquiry(disk.path)
    return {
        "vendor": data[8:16].decode("ascii").strip(),
        "product": data[16:32].decode("ascii").strip(),
        "serial": scsi_answers.serial_number(disk.path),
    }


def names(disk) -> set[tuple[int, bytes]]:
    """Of the LUN, from VPD page 83: NAA and T10 names, and the name string."""
    found = {(d.kind, d.value) for d in scsi_answers.designators(disk.path) if d.of == scsi_answers.LOGICAL_UNIT}
    kinds = {kind for kind, _ in found}
    assert kinds >= {scsi_answers.NAA, scsi_answers.T10}, found
    return found


def cache_type(disk) -> str:
    found = list(Path("/sys/block", Path(disk.path).name, "device/scsi_disk").glob("*/cache_type"))
    return found[0].read_text().strip()


@pytest.fixture
def volume(shared_volume):
    return shared_volume(5, 4)


def test_vendor_product_serial_and_naa_stay_when_the_volume_is_exported_again(volume):
    disk = volume.disk
    before, called = inquiry(disk), names(disk)
    assert (before["vendor"], before["product"]) == ("IRAID", "P-iRAID volume")
    assert before["serial"].replace("-", "") == volume.status()["uuid"].replace("-", "")
    volume.logout()
    volume.unexport()
    iraid("stop", volume.name)
    iraid("start", volume.name)

    disk = volume.login()

    assert called and (inquiry(disk), names(disk)) == (before, called)


def test_block_limits_allow_whole_stripes(volume):
    disk = volume.disk
    limits = scsi_answers.block_limits(disk.path)
    stripe_blocks = 3 * 64 * 1024 // 512
    assert limits.transfer >= 1 * MIB // 512
    assert limits.optimal_transfer % stripe_blocks == 0
    assert limits.unmap_granularity == 64 * 1024 // 512  # of stripes, and of 1 MiB
    assert limits.unmap >= stripe_blocks


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["sg_format", "--format", "--quick"], id="FORMAT UNIT"),
        pytest.param(["sg_sanitize", "--block", "--quick"], id="SANITIZE"),
    ],
)
def test_what_would_be_emulated_wrongly_is_refused_as_illegal(volume, command):
    disk = volume.disk
    status, text = attempt(*command, disk.path)
    # sg3-utils: 5 is ILLEGAL REQUEST, 9 is its INVALID COMMAND OPERATION CODE
    assert status in (5, 9), text


def test_the_write_cache_of_the_members_is_told_and_can_be_flushed(volume):
    """The members are files behind a page cache, so the truth is: there is one."""
    assert cache_type(volume.disk) == "write back"
    run("sg_sync", volume.disk.path)
