"""Ranges of zeros over NBD: the whole way down to what stands on the members, and to the space they give back."""

from __future__ import annotations

import random
from collections.abc import Callable

import nbd
import pytest
from test_random_io import prepare, reader_of

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway

pytestmark = pytest.mark.once

MIB = 1 << 20
ROUNDS = 120


def make_thin(farm: TargetFarm) -> None:
    for number, target in enumerate(farm.targets):
        farm.admin(number, "--mode", "logicalunit", "--op", "update", "--tid", str(target.tid),
                   "--lun", "1", "--params", "thin_provisioning=1")  # fmt: skip


def space(farm: TargetFarm) -> int:
    return sum(farm.backing(number).stat().st_blocks * 512 for number in range(len(farm)))


def one_request(handle: nbd.NBD, wanted: bytearray, draw: random.Random, block: int) -> None:
    length = draw.choice([block, 8 * block, 65536, 300 * block, 2 * MIB]) // block * block
    offset = draw.randrange(len(wanted) - length) // block * block
    kind = draw.randrange(4)
    if kind < 2:
        data = draw.randbytes(length)
        handle.pwrite(data, offset, nbd.CMD_FLAG_FUA if draw.random() < 0.1 else 0)
    elif kind == 2:
        flags = draw.choice([0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FUA, nbd.CMD_FLAG_FAST_ZERO])
        data = bytes(length)
        handle.zero(length, offset, flags)
    else:
        data = bytes(length)
        handle.trim(length, offset)
    wanted[offset : offset + length] = data


@pytest.mark.parametrize("thin", [False, True], ids=["thick", "thin"])
@pytest.mark.parametrize(
    ("level", "chunk", "count", "block"), [(5, "64K", 4, 512), (5, "16K", 3, 4096), (0, "4K", 2, 512)]
)
def test_what_is_zeroed_reads_as_zeros_and_parity_stays_true(
    gateway: Gateway,
    make_farm: Callable[..., TargetFarm],
    level: int,
    chunk: str,
    count: int,
    block: int,
    thin: bool,
) -> None:
    farm = make_farm(count, block_bytes=block)
    if thin:
        make_thin(farm)
    prepare(gateway, farm, level, chunk)
    reader = reader_of(farm)
    draw = random.Random(count)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert handle.can_trim() and handle.can_zero() and handle.can_fast_zero() and handle.can_fua()
        wanted = bytearray(handle.pread(reader.size, 0) if reader.size <= 32 * MIB else b"")
        if not wanted:
            handle.zero(reader.size, 0)
            wanted = bytearray(reader.size)
        for _ in range(ROUNDS):
            one_request(handle, wanted, draw, block)
        for at in range(0, reader.size, 8 * MIB):
            length = min(8 * MIB, reader.size - at)
            assert handle.pread(length, at) == wanted[at : at + length]
        volume.wait_resynced()
    assert reader.content() == bytes(wanted)
    assert level == 0 or reader.wrong_rows() == []


def test_a_member_may_go_in_the_midst_of_it(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4)
    prepare(gateway, farm, resynced=True)
    reader = reader_of(farm)
    role = reader.files[2].superblock().role
    draw = random.Random(7)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        wanted = bytearray(reader.size)
        handle.zero(reader.size, 0)
        for turn in range(ROUNDS):
            if turn == ROUNDS // 3:
                farm.kill(2)
            one_request(handle, wanted, draw, 512)
        handle.flush()
        assert volume.status()["state"] == "degraded"
        for at in range(0, reader.size, 8 * MIB):
            length = min(8 * MIB, reader.size - at)
            assert handle.pread(length, at) == wanted[at : at + length]
    assert reader.content(without=role) == bytes(wanted)


def test_thin_members_get_their_space_back(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4)
    make_thin(farm)
    prepare(gateway, farm, resynced=True)
    reader = reader_of(farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        for at in range(0, reader.size // MIB * MIB, MIB):
            handle.pwrite(b"\x5a" * MIB, at)
        full = space(farm)
        handle.zero(reader.size, 0, nbd.CMD_FLAG_NO_HOLE)
        assert space(farm) > full - 4 * MIB  # zeros, but in their place
        handle.trim(reader.size, 0)
        assert space(farm) < full // 4
        assert handle.pread(2 * MIB, 0) == bytes(2 * MIB)


def test_what_members_refuse_is_an_error(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """Level 0 can't do without any of them."""
    farm = make_farm(2)
    prepare(gateway, farm, level=0)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        handle.zero(4 * MIB, 0)
        farm.admin(1, "--mode", "logicalunit", "--op", "update", "--tid", str(farm.targets[1].tid),
                   "--lun", "1", "--params", "readonly=1")  # fmt: skip
        for call in (handle.zero, handle.trim):
            with pytest.raises(nbd.Error):
                call(4 * MIB, 0)
