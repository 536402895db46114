"""A LUN whose volume is another gateway's turn: there, named and sized, and NOT READY; also after the runner's end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from disk_bytes import get, put
from scsi_answers import IDENTIFICATION, ask_whether_ready, is_not_ready, page, raw

from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.tools import run, wait_for

UNIT_ATTENTION = 6  # exit status of sg3-utils
KIB, MIB = 1 << 10, 1 << 20
TEST_UNIT_READY, READ_10 = "00 00 00 00 00 00", "28 00 00 00 00 00 00 00 08 00"
FLUSH, START = "35 00 00 00 00 00 00 00 00 00", "1b 00 00 00 01 00"


def hear_of_the_change(disk: str) -> None:
    status, text = ask_whether_ready(disk)
    assert status == UNIT_ATTENTION and "symmetric access state changed" in text, (status, text)


def is_on_standby(disk: str) -> None:
    for cdb, options in ((TEST_UNIT_READY, ()), (READ_10, ("-r", "4096")), (FLUSH, ()), (START, ())):
        status, text = raw(disk, cdb, *options)
        assert is_not_ready(status) and "standby" in text.lower(), (cdb, status, text)


def commands_sent(disk: str) -> int:
    """One that is BUSY is not in flight for most of the time: the kernel waits before it repeats it."""
    return int(Path("/sys/class/block", Path(os.path.realpath(disk)).name, "device/iorequest_cnt").read_text(), 16)


@pytest.mark.timeout(600)
def test_what_is_asked_while_an_address_moves_is_busy_and_fails_nothing(gateway, lio_members):
    """One address that a cluster moves: the initiator asks the gateway that has just lost its turn."""
    volume = gateway.create(5, lio_members(3, size_bytes=64 << 20))
    disk = volume.login().path
    content = os.urandom(64 * KIB)
    put(disk, content, 0)
    iraid("standby", volume.name)
    hear_of_the_change(disk)
    sent = commands_sent(disk)
    with subprocess.Popen(
        ["dd", f"if={disk}", "bs=64K", "count=1", "iflag=direct", "status=none"], stdout=subprocess.PIPE
    ) as reader:
        wait_for(lambda: commands_sent(disk) > sent, "the read to be under way")
        assert is_not_ready(ask_whether_ready(disk)[0])
        assert reader.poll() is None
        iraid("activate", volume.name)
        assert reader.communicate(timeout=60)[0] == content
    assert reader.returncode == 0


@pytest.mark.timeout(600)
def test_a_lun_on_standby_stays_and_is_not_ready_until_its_volume_is_active(gateway, lio_members):
    volume = gateway.create(5, lio_members(3, size_bytes=64 << 20))
    disk = volume.login().path
    content = os.urandom(256 * KIB)
    put(disk, content, 0)
    name, size = page(disk, IDENTIFICATION), run("sg_readcap", "--long", disk)
    iraid("standby", volume.name)
    hear_of_the_change(disk)
    wait_for(
        lambda: is_not_ready(raw(disk, READ_10, "-r", "4096")[0]), "the time for an address to move to be over", 90
    )
    is_on_standby(disk)
    assert page(disk, IDENTIFICATION) == name
    assert run("sg_readcap", "--long", disk) == size
    gateway.runner.kill()
    gateway.runner.start()
    wait_for(lambda: volume.status()["role"] == "standby", "the runner to have the volume")
    wait_for(lambda: is_not_ready(ask_whether_ready(disk)[0]), "the LUN to be back")
    is_on_standby(disk)
    iraid("activate", volume.name)
    hear_of_the_change(disk)
    assert get(disk, len(content), 0) == content
    put(disk, content[::-1], MIB)
    assert get(disk, len(content), MIB) == content[::-1]
