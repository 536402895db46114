"""What an initiator is told about the disk, asked with sg3-utils."""

from __future__ import annotations

import re

import pytest
from gateway import iraid
from tools import attempt, run

MIB = 1 << 20


def inquiry(disk) -> dict[str, str]:
    text = run("sg_inq", disk.path)
    fields = dict(re.findall(r"^ *([A-Z][A-Za-z ]+): +(.*?) *$", text, re.MULTILINE))
    return {"vendor": fields["Vendor identification"], "product": fields["Product identification"],
            "serial": fields["Unit serial number"]}


def naa(disk) -> str:
    found = re.search(r"naa\.([0-9a-f]{32})", run("sg_vpd", "-q", "-i", disk.path).lower()) or \
        re.search(r"0x([0-9a-f]{32})", run("sg_vpd", "-i", disk.path).lower())
    assert found, "VPD page 83 has no NAA name"
    return found.group(1)


@pytest.fixture
def volume(gateway, lio_members):
    return gateway.create(5, lio_members(4))


def test_vendor_product_serial_and_naa_stay_when_the_volume_is_exported_again(volume):
    disk = volume.login()
    before, name = inquiry(disk), naa(disk)
    assert (before["vendor"], before["product"]) == ("iRAID", "P-iRAID")
    assert before["serial"].replace("-", "") == volume.status()["uuid"].replace("-", "")
    volume.logout()
    volume.unexport()
    iraid("stop", volume.name)
    iraid("start", volume.name)

    disk = volume.login()

    assert (inquiry(disk), naa(disk)) == (before, name)


def test_block_limits_allow_whole_stripes(volume):
    disk = volume.login()
    text = run("sg_vpd", "--page=bl", disk.path)
    limits = {name: int(value) for name, value in
              re.findall(r"^ *([A-Z][A-Za-z ]+): (\d+)", text, re.MULTILINE)}
    stripe_blocks = 3 * 64 * 1024 // 512
    assert limits["Maximum transfer length"] >= 1 * MIB // 512
    assert limits["Optimal transfer length"] % stripe_blocks == 0
    assert limits["Maximum compare and write length"] == 0
    assert limits["Maximum unmap LBA count"] == 0


@pytest.mark.parametrize("command", [
    pytest.param(["sg_compare_and_write", "--in=/dev/zero", "--lba=0", "--num=1", "--xferlen=1024"],
                 id="COMPARE AND WRITE"),
    pytest.param(["sg_unmap", "--lba=0", "--num=8", "--force"], id="UNMAP"),
    pytest.param(["sg_write_same", "--unmap", "--16", "--lba=0", "--num=8", "--xferlen=512"],
                 id="WRITE SAME with UNMAP"),
])
def test_what_would_be_emulated_wrongly_is_refused_as_illegal(volume, command):
    disk = volume.login()
    status, text = attempt(*command, disk.path)
    # sg3-utils: 5 is ILLEGAL REQUEST, 9 is its INVALID COMMAND OPERATION CODE
    assert status in (5, 9), text


def test_write_cache_and_flush(volume):
    disk = volume.login()
    run("sg_sync", disk.path)
    assert "WCE" in run("sg_modes", "--page=8", disk.path) or run("sdparm", disk.path)
