"""A gateway that is killed while a member is out, on real targets, with a client that checks every block.

Without the write log the missing member's chunks of rows in flight can't be known (test_restart.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from test_restart import crash_under_load, prepare, unreadable_chunks

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = pytest.mark.once

MIB = 1 << 20


def lives() -> list[object]:
    """One life of half of the cases always; eight of each with scripts/test --all."""
    return [
        pytest.param(
            log, level, chunk, seed, marks=pytest.mark.long if seed or (level == 6) != (chunk == "64K") else ()
        )
        for log, level, chunk, seed in product(("degraded", "always"), (5, 6), ("4K", "64K"), range(8))
    ]


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(4)


@pytest.mark.parametrize("log, level, chunk, seed", lives())
def test_nothing_is_unreadable_after_a_crash_while_a_member_is_out(
    gateway: Gateway, farm: TargetFarm, log: str, level: int, chunk: str, seed: int, figure: Callable[[str, str], None]
) -> None:
    """Twice in a row; the second time another member of level 6 dies with the gateway."""
    reader = prepare(gateway, farm, level, chunk)
    gateway.configure("v0", log=log)
    shadow = Shadow(reader.size)
    out = seed % 4
    lost: list[int] = []
    with gateway.serve("v0") as volume:
        load = Load(volume.connect(), shadow, seed=100 + seed)
        load.run(100)
        load.check()
        farm.kill(out)
        volume.wait_status(lambda status: status["log"]["open"], "the write log to be open")
        crash_under_load(volume, shadow, seed, (0, reader.size // 2 // MIB * MIB))
    for other in (None, (out + 1) % 4 if level == 6 else None):
        with gateway.serve("v0") as volume:
            handle = volume.connect()
            lost.append(len(unreadable_chunks(handle, shadow, reader)))
            shadow.check_and_settle(read_all(handle))
            volume.wait_status(lambda status: status["log"]["open"], "the write log to be open again")
            crash_under_load(
                volume,
                shadow,
                50 + seed,
                (0, reader.size // 2 // MIB * MIB),
                also=lambda other=other: farm.kill(other) if other is not None else None,
            )
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        lost.append(len(unreadable_chunks(handle, shadow, reader)))
        shadow.check_and_settle(read_all(handle))
    figure(
        f"log = {log}, level {level}, chunk {chunk}, life {seed}: chunks that are unreadable after each of three crashes",
        str(lost),
    )
    assert lost == [0, 0, 0]


def test_without_the_log_something_is_unreadable(gateway: Gateway, farm: TargetFarm) -> None:
    """The same, so that it is known that the load can tell."""
    reader = prepare(gateway, farm, 5, "4K")
    gateway.configure("v0", log="off")
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        volume.connect()
        farm.kill(1)
        wait_until(lambda: volume.status()["state"] == "degraded", "the volume to do without the member")
        crash_under_load(volume, shadow, 3, (0, reader.size // 2 // MIB * MIB))
    with gateway.serve("v0") as volume:
        assert unreadable_chunks(volume.connect(), shadow, reader)
