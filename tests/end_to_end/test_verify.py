"""What a stock initiator writes through the whole stack is what it reads."""

from __future__ import annotations

import pytest

from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.load import Fio

MIB = 1 << 20
LEVELS = [pytest.param(0, 3, id="level 0 on 3"), pytest.param(5, 4, id="level 5 on 4")]


@pytest.mark.parametrize(("level", "count"), LEVELS)
@pytest.mark.parametrize(
    "shape",
    [
        dict(rw="write", bs="1M", size="192M"),
        dict(rw="randwrite", bsrange="512-256k", blockalign=512, size="32M"),
        dict(rw="randrw", bs="4k", size="12M"),
    ],
    ids=["sequential 1M", "random 512 to 256k, unaligned", "random 4k, mixed"],
)
def test_fio_verifies_what_it_wrote(shared_volume, level, count, shape):
    volume = shared_volume(level, count)

    result = Fio(volume.disk, iodepth=16, **shape).result()

    assert result.written_bytes > 0 and result.read_bytes > 0
    assert volume.status()["state"] == "active"


@pytest.mark.parametrize(("level", "count"), LEVELS)
def test_the_disk_is_as_large_as_the_volume_and_its_last_block_works(shared_volume, level, count):
    volume = shared_volume(level, count)
    disk = volume.disk
    assert disk.size_bytes == volume.status()["size_bytes"]

    Fio(disk, rw="write", bs="512", offset=disk.size_bytes - 4096, size="4096").result()


def test_two_volumes_in_one_runner_do_not_mix(gateway, lio_members):
    disks = [gateway.create(0, lio_members(2)).login(), gateway.create(5, lio_members(3)).login()]

    loads = [
        Fio(disk, rw="randwrite", bs="16k", size="16M", iodepth=8, randseed=number)
        for number, disk in enumerate(disks, start=1)
    ]

    for load in loads:
        assert load.result().read_bytes > 0


def test_data_survives_an_ordered_restart_of_the_volume(gateway, lio_members):
    volume = gateway.create(5, lio_members(4))
    shape = dict(rw="write", bs="64k", size="32M", iodepth=8)
    Fio(volume.login(), do_verify=0, **shape).result()
    volume.logout()
    volume.unexport()

    iraid("stop", volume.name)
    iraid("start", volume.name)

    Fio(volume.login(), verify_only=None, **shape).result()
