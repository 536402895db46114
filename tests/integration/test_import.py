"""A volume whose configuration is gone is had back from its members."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_members import fill

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, call, wait_until
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.shadow import read_all


pytestmark = pytest.mark.once


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(6)


def made(gateway: Gateway, farm: TargetFarm, *more: str) -> bytearray:
    """Volume v0 of the first four, with content, stopped in order."""
    gateway.create("v0", farm.members()[:4], 5, "16K", "--give-up", "2", *more)
    wait_until(lambda: gateway.status("v0")["regions"]["suspect"] == 0, "the first resync")
    gateway.must("stop", "v0")
    reader = VolumeReader([farm.backing(number) for number in range(4)])
    with gateway.serve("v0") as volume:
        return fill(volume.connect(), reader.size)


def content(gateway: Gateway, name: str = "v0") -> bytes:
    with gateway.serve(name) as volume:
        return read_all(volume.connect())


def test_the_configuration_is_written_again_in_any_order_of_members(gateway: Gateway, farm: TargetFarm) -> None:
    written = made(gateway, farm, "--spare", farm.member(4))
    uuid = gateway.status("v0")["uuid"]
    before = farm.digests()
    gateway.must("delete", "v0", "--yes", "--no-wipe")

    done = gateway.must("import", *(farm.member(number) for number in (3, 4, 0, 2, 1)))
    assert "P-iRAID" in done.out and uuid in done.out and "iraid start v0\n" in done.out
    assert farm.digests() == before, "import wrote to members"
    assert gateway.status("v0")["state"] == "stopped"

    assert "active" in gateway.must("start", "v0").out
    status = gateway.status("v0")
    assert status["uuid"] == uuid
    assert {m["member"]: (m["role"], m["state"]) for m in status["members"]} == {
        **{farm.member(n): (n, "in sync") for n in range(4)},
        farm.member(4): (None, "spare"),
    }
    gateway.must("stop", "v0")
    assert content(gateway) == written


def test_one_lun_by_two_addresses_is_no_two_members(gateway: Gateway, farm: TargetFarm) -> None:
    """The start would refuse both, and only an editor could take one out again."""
    made(gateway, farm)
    gateway.must("delete", "v0", "--yes", "--no-wipe")
    again = farm.member(1).replace("127.0.0.1", "localhost")
    ran = gateway.iraid("import", *farm.members()[:4], again)
    assert (
        ran.status == 1
        and f"{farm.member(1)} and {again} are the same LUN" in ran.err
        and "remedy: name only one" in ran.err
    ), ran
    assert not list((gateway.config / "volumes").glob("v0*"))


@pytest.mark.long
def test_another_gateway_imports_and_takes_over(make_gateway: Callable[[], Gateway], farm: TargetFarm) -> None:
    first, second = make_gateway(), make_gateway()
    first.start()
    second.start()
    written = made(first, farm)
    first.must("start", "v0")
    first.kill()  # its members are still its own

    done = second.must("import", *farm.members()[:4])
    assert "--take-over" in done.out
    refused = second.iraid("start", "v0", "--timeout", "30")
    assert refused.status == 1 and "take-over" in refused.err
    assert "active" in second.must("start", "v0", "--take-over").out
    second.must("stop", "v0")
    assert content(second) == written


@pytest.mark.long
def test_a_dead_member_is_listed_and_comes_back_later(gateway: Gateway, farm: TargetFarm) -> None:
    written = made(gateway, farm)
    gateway.must("delete", "v0", "--yes", "--no-wipe")
    farm.kill(2)
    done = gateway.must("import", *farm.members()[:4])
    assert farm.member(2) in done.err and "listed as a member" in done.err
    assert "No device that answered has role 2." in done.out
    assert "degraded" in gateway.must("start", "v0").out
    farm.restart(2)
    gateway.must("wait", "v0", "--timeout", "30")
    gateway.must("stop", "v0")
    assert content(gateway) == written


def test_what_is_no_device_of_the_volume_is_refused_and_nothing_is_written(gateway: Gateway, farm: TargetFarm) -> None:
    made(gateway, farm)
    members = farm.members()[:4]
    call(gateway.socket, "volume.create", name="v1", level=0, members=[farm.member(4), farm.member(5)])
    gateway.must("delete", "v1", "--yes", "--no-wipe")
    for given, words in [
        (members, 'already a volume "v0"'),
        (["--name", "other", *members], 'is a member of volume "v0"'),
        ([farm.member(4), farm.member(4)], "given twice"),
        ([farm.member(4)], "2 to 40 devices"),
        ([farm.member(4), "10.0.0.1"], "10.0.0.1"),
    ]:
        ran = gateway.iraid("import", *given)
        assert ran.status == 1 and words in ran.err and "remedy" in ran.err, ran
    gateway.must("delete", "v0", "--yes", "--no-wipe")
    with pytest.raises(RpcError, match="belongs to volume .*v1"):
        call(gateway.socket, "volume.import", members=[*members, farm.member(4)])
    gateway.must("import", *members)
    ran = gateway.iraid("import", "--name", "v0", farm.member(4), farm.member(5))
    assert ran.status == 1 and "already a volume" in ran.err
    for number in (4, 5):
        farm.kill(number)
    ran = gateway.iraid("import", farm.member(4), farm.member(5))
    assert ran.status == 1 and "none of the 2 devices" in ran.err
    assert [volume["name"] for volume in gateway.must("list", "--json").json["volumes"]] == ["v0"]
    gateway.must("delete", "v0", "--yes")
    for number in (4, 5):
        farm.restart(number)
    ran = gateway.iraid("import", *members[:2], farm.member(4), farm.member(5))
    assert ran.status == 1 and "has no superblock" in ran.err
    assert "known here" in gateway.must("import", "--name", "other", farm.member(4), farm.member(5)).out
    assert gateway.status("other")["state"] == "stopped"
