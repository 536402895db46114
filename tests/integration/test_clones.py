"""A LUN that was copied, with all that says who it is, and listed beside the device it was copied from.

An array's clone or snapshot that is exported under a name of its own, say.  Nobody may take it for a member or a spare;
it is named with what it is a copy of, and the volume serves on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_members import Command, by_member, fill, prepare, wait_configured, wait_in_sync

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Served

pytestmark = pytest.mark.once

CLONE = 5


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    """Four members, a spare, and a LUN that becomes somebody's copy."""
    return make_farm(6)


def clone(farm: TargetFarm, number: int) -> None:
    """Nobody uses it meanwhile.  In place, for the clone's target has its file open."""
    content = farm.backing(number).read_bytes()
    with farm.backing(CLONE).open("r+b") as file:
        file.write(content)


def of_clone(farm: TargetFarm, status: dict[str, Any]) -> dict[str, Any]:
    return by_member(status)[farm.member(CLONE)]


def wait_named(volume: Served, farm: TargetFarm, text: str) -> None:
    volume.wait_status(lambda status: text in of_clone(farm, status)["reason"], f"the clone to be named: {text}")
    found = of_clone(farm, volume.status())
    assert found["role"] is None and found["state"] == "unknown", found


def check_content(volume: Served, content: bytearray) -> None:
    handle = volume.connect()
    assert b"".join(handle.pread(1 << 20, at) for at in range(0, len(content), 1 << 20)) == content


def test_a_spare_that_is_a_copy_of_a_member_is_not_taken(gateway: Gateway, farm: TargetFarm) -> None:
    """It was copied while the member was a spare still, so its mark names somebody who has a place now."""
    reader = prepare(gateway, farm, "--spare", farm.member(4))
    clone(farm, 4)
    with gateway.serve("v0") as volume:
        content = fill(volume.connect(), reader.size)
        Command(gateway, volume).must("replace", "v0", farm.member(3), farm.member(4), "--wait")
        wait_configured(gateway, {farm.member(n) for n in (0, 1, 2, 4)})
    gateway.configure("v0", members=[farm.member(n) for n in (0, 1, 2, 4, CLONE)])

    for _ in range(2):  # it is refused at each start
        with gateway.serve("v0") as volume:
            iraid = Command(gateway, volume)
            wait_in_sync(volume)
            wait_named(volume, farm, f"has the UUID of {farm.member(4)}")
            ran = iraid("replace", "v0", farm.member(0), farm.member(CLONE))
            assert ran.status == 1 and farm.member(CLONE) in ran.err, ran
            # Nor where a place is empty; least of all that of the device it is a copy of.
            for number in (1, 4):
                farm.kill(number)
                volume.wait_status(lambda status: status["state"] == "degraded", "a member to be given up")
                check_content(volume, content)
                wait_named(volume, farm, "UUID of")
                assert volume.status()["rebuild"]["member"] is None
                farm.restart(number)
                wait_in_sync(volume)
            check_content(volume, content)


@pytest.mark.parametrize("late", [CLONE, 2, 3])
def test_of_a_member_and_its_copy_one_at_most_is_taken(gateway: Gateway, farm: TargetFarm, late: int) -> None:
    """Who is there first is the member: they hold the same.  Are both there before the volume starts, nobody can tell which is
    the real one, and neither is taken before one is removed."""
    reader = prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        content = fill(volume.connect(), reader.size)
    clone(farm, 2)
    gateway.configure("v0", members=[farm.member(n) for n in (0, 1, 2, 3, CLONE)])
    pair = {farm.member(2), farm.member(CLONE)}

    farm.kill(late)
    with gateway.serve("v0") as volume:
        iraid = Command(gateway, volume)
        if late == 3:
            volume.wait_status(lambda status: "are there twice" in status["reason"], "it to be said that it waits")
            refused = pair
        else:
            volume.wait_status(lambda status: status["state"] == "active", "the volume to start")
            refused = {farm.member(late)}
        farm.restart(late)
        for one in refused:
            volume.wait_status(
                lambda status, one=one: any(
                    text in by_member(status)[one]["reason"]
                    for text in ("has the UUID of", "is the same member as another")
                ),
                f"{one} to be named",
            )
        volume.wait_status(
            lambda status: status["state"] == ("degraded" if late == 3 else "active"), "the volume to serve"
        )
        check_content(volume, content)
        content[: 1 << 20] = bytes(range(256)) * 4096
        handle = volume.connect()
        handle.pwrite(bytes(content[: 1 << 20]), 0)
        handle.flush()
        iraid.must("remove", "v0", farm.member(CLONE) if late == 3 else farm.member(late))
        wait_in_sync(volume)
        farm.kill(0)  # what is on the one that stayed is needed
        check_content(volume, content)
        farm.restart(0)
        wait_in_sync(volume)


def test_a_copy_of_a_member_is_not_added(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm)
    clone(farm, 2)
    with gateway.serve("v0") as volume:
        content = fill(volume.connect(), reader.size)
        ran = Command(gateway, volume)("add-spare", "v0", farm.member(CLONE))
        assert ran.status == 1, ran
        assert (
            f'{farm.member(2)}, a device of volume "v0", are the same LUN, or one is a copy of the other' in ran.err
        ), ran
        assert farm.member(CLONE) not in by_member(volume.status())
        assert farm.member(CLONE) not in gateway.configuration("v0")["members"]
        check_content(volume, content)
