"""The life of a volume by the command alone, against the real engine."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable

import nbd
import pytest

from iraid_dev.stack.farm import TUNED, TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, call, wait_until
from iraid_dev.stack.reader import NotAMember, VolumeReader


@pytest.mark.parametrize(
    "level, name",
    [
        (5, "P-iRAID"),
        (0, "S-iRAID"),
        (1, "mirror"),
        (6, "P+Q-iRAID"),
        pytest.param(10, "striped mirror", marks=pytest.mark.long),
    ],
)
def test_a_volume_lives_from_discover_to_delete(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, name: str
) -> None:
    farm = make_farm(4)
    members = farm.members()

    found = gateway.must("discover", farm.portal(0), "--json").json
    assert [target["iqn"] for target in found["targets"]] == [farm.iqn(0)]
    lun = next(lun for lun in found["targets"][0]["luns"] if lun["lun"] == 1)
    assert (lun["size_bytes"], lun["block_bytes"], lun["writable"]) == (farm.targets[0].options.size_bytes, 512, True)
    assert lun["signature"] is None
    text = gateway.must("discover", farm.portal(0)).out
    assert farm.iqn(0) in text and "nothing known" in text

    created = gateway.must("create", "v0", "--level", str(level), "--chunk", "32K", *members)
    assert "Volume v0 is made and started" in created.out and name in created.out and not created.err
    reader = VolumeReader([farm.backing(number) for number in range(4)])
    truth = reader.truth
    assert (truth.name, truth.level, truth.count, truth.chunk) == ("v0", level, 4, 32 << 10)
    assert [member.superblock().role for member in reader.files] == [0, 1, 2, 3]

    assert level == 0 or ("copies" if level in (1, 10) else "parity") in created.out

    status = wait_for_parity(gateway)
    assert (status["name"], status["uuid"]) == ("v0", truth.volume_uuid)
    assert (status["level"], status["chunk_bytes"], status["block_bytes"]) == (level, 32 << 10, 512)
    assert status["size_bytes"] == reader.size
    assert [member["member"] for member in status["members"]] == members
    assert {member["state"] for member in status["members"]} == {"in sync"}
    text = gateway.must("status", "v0").out
    assert name in text and all(member in text for member in members)
    listed = gateway.must("list", "--json").json["volumes"]
    assert [(volume["name"], volume["state"]) for volume in listed] == [("v0", "active")]
    assert "v0" in gateway.must("list").out

    seen = gateway.must("examine", *members, "--json").json["members"]
    assert [one["superblock"]["role"] for one in seen] == [0, 1, 2, 3]
    assert {one["superblock"]["volume_uuid"] for one in seen} == {truth.volume_uuid}
    assert all(one["copies"] == {"a": "ok", "b": "ok"} for one in seen)
    own = [one["superblock"]["write_count"] for one in seen]
    known = [[member["write_count"] for member in one["superblock"]["members"]] for one in seen]
    assert all(0 < count <= own[role] for counts in known for role, count in enumerate(counts)), (known, own)
    assert seen[0]["superblock"]["tracked"] == []
    assert all(one["session"]["first_burst_bytes"] == TUNED["FirstBurstLength"] for one in seen)
    assert all(one["session"]["advice"] == [] for one in seen)
    shown = gateway.must("examine", members[0]).out
    assert truth.volume_uuid in shown and "write_count" in shown

    gateway.must("stop", "v0")
    assert gateway.must("status", "v0", "--json").json["state"] == "stopped"
    assert gateway.must("list", "--json").json["volumes"][0]["state"] == "stopped"
    assert all(superblock.clean for superblock in reader.superblocks().values())
    gateway.must("stop", "v0")  # it is stopped: nothing to do, and no error
    assert "active" in gateway.must("start", "v0").out
    assert gateway.must("start", "v0", "--json").json["state"] == "active"

    ran = gateway.iraid("delete", "v0")
    assert ran.status == 2 and "--yes" in ran.err  # nobody at a terminal could say yes
    assert gateway.status("v0")["state"] == "active"
    gateway.must("delete", "v0", "--yes")
    assert gateway.must("list", "--json").json == {"volumes": []}
    assert not list(gateway.config.glob("volumes/*"))
    for number in range(4):
        with pytest.raises(NotAMember, match="copy A: no magic, copy B: no magic"):
            reader.files[number].superblock()
    gateway.create("v0", members, level)  # they are free again, without --force


def wait_for_parity(gateway: Gateway) -> dict:
    def found() -> dict | None:
        status = gateway.must("status", "v0", "--json").json
        done = status["state"] == "active" and status["regions"]["suspect"] == 0
        return status if done else None

    return wait_until(found, "an active volume with proven parity", 60)


def test_delete_without_wiping_keeps_the_members(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """So that the volume can be moved to another gateway."""
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    reader = VolumeReader([farm.backing(number) for number in range(3)])
    gateway.must("delete", "v0", "--yes", "--no-wipe")
    assert gateway.must("list", "--json").json == {"volumes": []}
    assert [superblock.name for superblock in reader.superblocks().values()] == ["v0"] * 3


def test_delete_says_which_members_were_not_wiped(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    gateway.must("stop", "v0")
    farm.kill(2)
    ran = gateway.must("delete", "v0", "--yes", "--json")
    assert f"iraid: warning: the superblock of {farm.member(2)} was not wiped" in ran.err
    assert ran.json["deleted"] and not ran.json["wiped"]
    assert [farm.member(2) in text for text in ran.json["warnings"]] == [True]
    farm.restart(2)
    blocks = [one["superblock"] for one in gateway.must("examine", *farm.members(), "--json").json["members"]]
    assert [block is not None for block in blocks] == [False, False, True]


def test_start_all_starts_what_is_enabled_and_no_volume_disturbs_another(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """A new process starts what is enabled; volumes of one process don't disturb each other."""
    farms = [make_farm(3) for _ in range(3)]
    for number, farm in enumerate(farms):
        gateway.create(f"v{number}", farm.members())
    gateway.stop()
    gateway.configure("v2", enabled=False)
    gateway.start("--start-all")
    for name in ("v0", "v1"):
        wait_until(lambda name=name: gateway.status(name)["state"] == "active", f"{name} to be active")
    assert gateway.status("v2")["state"] == "stopped"
    farms[0].kill(0)
    wait_until(lambda: gateway.status("v0")["state"] == "degraded", "v0 to be degraded")
    assert gateway.status("v1")["state"] == "active"
    listed = gateway.must("list", "--json").json["volumes"]
    assert [(one["name"], one["state"]) for one in listed] == [("v0", "degraded"), ("v1", "active"), ("v2", "stopped")]
    gateway.must("delete", "v1", "--yes")
    assert gateway.status("v0")["state"] == "degraded"


def test_a_volume_without_enough_members_says_what_it_waits_for(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """It comes up by itself when they are there."""
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    gateway.must("stop", "v0")
    for number in (0, 2):
        farm.kill(number)
    ran = gateway.iraid("start", "v0", "--timeout", "2")
    assert ran.status == 1
    assert "assembling" in ran.err and "1 of 3 members" in ran.err and "2 are needed" in ran.err
    status = gateway.must("status", "v0", "--json").json
    for number in (0, 2):
        assert "refused" in status["members"][number]["reason"]
        farm.restart(number)
    wait_until(lambda: gateway.status("v0")["state"] == "active", "the volume to come up")


def test_mistuned_targets_are_named(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3, tuned=False)
    ran = gateway.must("create", "v0", "--level", "5", *farm.members())
    assert "warning" in ran.err and "3 of 3 targets" in ran.err and "InitialR2T=No" in ran.err
    assert "advice:" in gateway.must("examine", farm.member(0)).out
    with_data = b"mistuned" * 64
    wait_until(lambda: gateway.status("v0")["state"] == "active", "the volume")
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        handle.pwrite(with_data * 8192, 512)  # 4 MiB in pieces that such targets take
        assert handle.pread(len(with_data) * 8192, 512) == with_data * 8192


def test_nbdkit_is_a_user_that_status_shows(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        handle: nbd.NBD = volume.connect()
        assert handle.can_fua() and handle.can_flush() and handle.can_multi_conn()
        assert handle.get_block_size(nbd.SIZE_MINIMUM) == 512
        status = gateway.must("--socket", volume.control, "status", "v0", "--json").json
        assert status["users"] == ["nbdkit: v0"]
        assert "nbdkit: v0" in gateway.must("status", "v0", "--socket", volume.control).out
        assert gateway.must("version", "--json", "--socket", volume.control).json["handler"]["program"] == "nbdkit"
        assert stat.S_IMODE(volume.control.stat().st_mode) == 0o600
    assert not volume.control.exists()
    with pytest.raises(RpcError) as refused:
        call(gateway.socket, "volume.create", name="v1", level=5, members=farm.members(), chunk=4096)
    assert refused.value.kind == "params" and "chunk" in str(refused.value)
    assert json.loads(gateway.iraid("status", "v9", "--json").out)["error"]["type"] == "not_found"
