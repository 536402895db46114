"""Members that fail, return, are replaced; spares; scrub; lost extents: by the commands, against real targets.

What counts is on the members: after a rebuild another member is taken away, and all that was written must
still be there.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbd
import pytest
from fake_target import FakeTarget

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import IRAID, PYTHON, Gateway, Ran, Served, call, wait_until
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = pytest.mark.once

MIB = 1 << 20
CHUNK = 16 << 10
ROW = 3 * CHUNK
REGION = 64 * CHUNK  # of one member
MEMBER_BYTES = 24 << 20


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    """Four members and two more LUNs."""
    return make_farm(6)


def prepare(
    gateway: Gateway,
    farm: TargetFarm,
    *more: str,
    name: str = "v0",
    numbers: tuple[int, ...] = (0, 1, 2, 3),
    level: int = 5,
    **configured: Any,
) -> VolumeReader:
    """A volume of the first four, its parity proven, stopped in order.  Of iraid-engine only the command is used."""
    members = [farm.member(number) for number in numbers]
    gateway.create(name, members, level, "16K", "--give-up", "2", *more)
    wait_until(
        lambda: (status := gateway.status(name))["state"] == "active" and status["regions"]["suspect"] == 0,
        "the first resync",
    )
    gateway.must("stop", name)
    gateway.configure(name, **({"assembly_wait_seconds": 1, "spare_wait_seconds": 1} | configured))
    return VolumeReader([farm.backing(number) for number in numbers])


class Command:
    """iraid against the control socket of one nbdkit."""

    def __init__(self, gateway: Gateway, served: Served):
        self.gateway, self.served = gateway, served

    def __call__(self, *words: str, seconds: float = 60.0) -> Ran:
        return self.gateway.iraid(*words, "--socket", self.served.control, seconds=seconds)

    def must(self, *words: str, seconds: float = 60.0) -> Ran:
        ran = self(*words, seconds=seconds)
        assert ran.status == 0, ran
        return ran


def fill(handle: nbd.NBD, size: int, seed: int = 1) -> bytearray:
    content = bytearray(random.Random(seed).randbytes(size))
    for offset in range(0, size, MIB):
        handle.pwrite(bytes(content[offset : offset + MIB]), offset)
    handle.flush()
    return content


def by_member(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {member["member"]: member for member in status["members"]}


def all_in_sync(status: dict[str, Any]) -> bool:
    return status["state"] == "active" and all(
        member["state"] == "in sync" for member in status["members"] if member["role"] is not None
    )


def wait_in_sync(volume: Served, seconds: float = 60.0) -> dict[str, Any]:
    return volume.wait_status(all_in_sync, "all members to be in sync", seconds)


def lose(volume: Served, farm: TargetFarm, number: int) -> None:
    farm.kill(number)
    label = farm.member(number)
    volume.wait_status(lambda status: by_member(status)[label]["state"] == "faulty", f"{label} to be given up")


def wait_configured(gateway: Gateway, devices: set[str], name: str = "v0") -> None:
    """The file is changed a moment after the volume."""
    wait_until(lambda: set(gateway.configuration(name)["members"]) == devices, f"{devices} in the file")


# Fail, and what takes its place


def test_a_failed_member_is_rebuilt_onto_the_spare_and_the_content_survives_the_next_loss(
    gateway: Gateway, farm: TargetFarm
) -> None:
    reader = prepare(gateway, farm, "--spare", farm.member(4))
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        assert by_member(volume.status())[farm.member(4)]["state"] == "spare"

        failed = iraid.must("fail", "v0", farm.member(1))
        assert farm.member(1) in failed.out
        assert "active" in iraid.must("wait", "v0", "--timeout", "60").out

        members = by_member(wait_in_sync(volume))
        assert members[farm.member(4)]["role"] == 1
        assert members[farm.member(4)]["state"] == "in sync"
        assert members[farm.member(1)]["role"] is None
        assert VolumeReader([farm.backing(n) for n in (0, 4, 2, 3)]).wrong_rows() == []
        iraid.must("remove", "v0", farm.member(1))
        wait_configured(gateway, {farm.member(n) for n in (0, 2, 3, 4)})
        lose(volume, farm, 3)
        assert read_all(handle) == content


def test_a_dead_member_is_rebuilt_under_load_without_a_command(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm, "--spare", farm.member(4))
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        load = Load(handle, shadow, seed=3)
        load.at(300, lambda: farm.kill(2)).run(1500, seconds_min=3.0)
        load.check()
        wait_in_sync(volume)
        Load(handle, shadow, seed=4).run(500)
        lose(volume, farm, 0)
        shadow.check(read_all(handle))


def test_a_member_failed_by_hand_stays_out_until_it_is_taken_back(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        iraid.must("fail", "v0", "2")
        volume.wait_status(
            lambda s: s["state"] == "degraded" and by_member(s)[farm.member(2)]["state"] == "faulty", "the failure"
        )
        content[:MIB] = random.Random(5).randbytes(MIB)
        handle.pwrite(bytes(content[:MIB]), 0)
    # Not even a restart takes it back.
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        volume.wait_status(
            lambda s: s["state"] == "degraded" and by_member(s)[farm.member(2)]["state"] == "faulty", "the failure"
        )
        assert iraid("rebuild", "v0", "1").status == 1  # is in sync
        done = iraid.must("rebuild", "v0", "2", "--wait")
        assert f"{farm.member(2)} is in sync again" in done.out
        assert volume.status()["state"] == "active"
        lose(volume, farm, 0)
        assert read_all(handle) == content


def test_a_member_that_returns_is_sent_only_what_it_lacks(
    gateway: Gateway, farm: TargetFarm, figure: Callable[[str, str], None]
) -> None:
    reader = prepare(gateway, farm)
    regions = [2, 7]
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        content = fill(handle, reader.size)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        lose(volume, farm, 3)
        for region in regions:  # a few rows of each
            place = slice(region * 64 * ROW, region * 64 * ROW + 2 * ROW)
            content[place] = random.Random(region).randbytes(2 * ROW)
            handle.pwrite(bytes(content[place]), place.start)
        stale = by_member(volume.status())[farm.member(3)]["stale_rows"]
        assert stale in (0, 128)  # told when it is back, or known already
        before = by_member(volume.status())[farm.member(3)]["written_bytes"]
        farm.restart(3)
        status = wait_in_sync(volume)
        written = by_member(status)[farm.member(3)]["written_bytes"] - before
        figure("written to the member that returned", f"{written} bytes for {len(regions)} regions of {REGION}")
        assert len(regions) * 2 * CHUNK <= written <= len(regions) * REGION + MIB
        lose(volume, farm, 0)
        assert read_all(handle) == content


def test_a_member_that_hangs_is_given_up_and_catches_up_when_it_goes_on(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        farm.stop(1)
        content[:MIB] = random.Random(6).randbytes(MIB)
        handle.pwrite(bytes(content[:MIB]), 0)  # waits for the eviction, not for the member
        assert by_member(volume.status())[farm.member(1)]["state"] == "faulty"
        assert volume.status()["state"] == "degraded"
        assert f"{farm.member(1)} is faulty: " in iraid.must("status", "v0").out
        farm.cont(1)
        iraid.must("wait", "v0", "--timeout", "60")
        kinds = [event["kind"] for event in iraid.must("events", "v0", "--json").json["events"]]
        assert [kind for kind in kinds if kind in ("member silent", "member evicted", "rebuild finished")] == [
            "member silent",
            "member evicted",
            "rebuild finished",
        ]
        lose(volume, farm, 0)
        assert read_all(handle) == content


# Replace


def test_a_working_member_is_replaced_under_load_and_leaves_the_configuration(
    gateway: Gateway, farm: TargetFarm
) -> None:
    reader = prepare(gateway, farm)
    shadow = Shadow(reader.size)
    devices = {farm.member(n) for n in (0, 1, 5, 3)}
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        states: list[str] = []

        def replace() -> None:
            shown = iraid.must("replace", "v0", "2", farm.member(5), "--json").json
            assert (shown["member"], shown["role"], shown["device"]) == (farm.member(2), 2, farm.member(5))
            states.append(volume.status()["state"])

        Load(handle, shadow, seed=8).at(200, replace).run(1500, seconds_min=2.0)
        assert states == ["active"]  # never less redundant
        iraid.must("wait", "v0", "--for", "rebuild")  # begun it has, whenever the load let it
        assert by_member(volume.status())[farm.member(5)]["state"] == "in sync"
        volume.wait_status(lambda s: set(by_member(s)) == devices, "the old member to leave")
        wait_configured(gateway, devices)
        assert VolumeReader([farm.backing(n) for n in (0, 1, 5, 3)]).wrong_rows() == []
    farm.kill(2)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert volume.status()["state"] == "active"
        lose(volume, farm, 1)
        shadow.check(read_all(handle))


def test_replace_goes_on_after_a_crash_of_the_gateway(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm, sync_rate_max_bytes=4 * MIB, sync_rate_min_bytes=MIB)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        iraid.must("replace", "v0", "1", farm.member(4))
        volume.wait_status(lambda s: s["rebuild"]["done_rows"] > s["rebuild"]["total_rows"] * 3 // 4 > 0, "most of it")
        volume.kill()
    assert set(gateway.configuration("v0")["members"]) == {farm.member(n) for n in (0, 1, 2, 3, 4)}
    with gateway.serve("v0") as volume:  # by itself, from where it was
        iraid, handle = Command(gateway, volume), volume.connect()
        status = volume.wait_status(lambda s: s["rebuild"]["total_rows"], "the copying to go on")["rebuild"]
        assert status["total_rows"] <= reader.truth.rows * 3 // 4, status
        iraid.must("set", "v0", "--rate-max", "1G")
        wait_configured(gateway, {farm.member(n) for n in (0, 2, 3, 4)})
        assert volume.status()["state"] == "active"
        lose(volume, farm, 2)
        assert read_all(handle) == content


def test_a_replacement_is_called_off_and_can_be_begun_again(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm, sync_rate_max_bytes=2 * MIB, sync_rate_min_bytes=MIB)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        iraid.must("replace", "v0", "1", farm.member(4))
        volume.wait_status(lambda s: s["rebuild"]["done_rows"] > 0, "a part of it")
        ambiguous = iraid("fail", "v0", "1")  # both hold the role
        assert ambiguous.status == 1
        assert all(farm.member(n) in ambiguous.err for n in (1, 4)) and "rebuilding" in ambiguous.err
        other = iraid("replace", "v0", "2", farm.member(5))
        assert other.status == 1 and "another member is being filled" in other.err, other
        iraid.must("remove", "v0", farm.member(5))
        iraid.must("remove", "v0", farm.member(4))
        assert set(gateway.configuration("v0")["members"]) == {farm.member(n) for n in range(4)}
        status = volume.status()
        assert status["state"] == "active" and status["rebuild"]["member"] is None
        assert by_member(status)[farm.member(1)]["state"] == "in sync"
        assert iraid("replace", "v0", "1", farm.member(4)).status == 1  # half of a member stands there
        iraid.must("set", "v0", "--rate-max", "1G")
        iraid.must("replace", "v0", "1", farm.member(4), "--force", "--wait")
        lose(volume, farm, 3)
        assert read_all(handle) == content


def test_a_dead_member_is_replaced_at_once_and_forgotten(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm, spare_wait_seconds=86400)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        lose(volume, farm, 0)
        done = iraid.must("replace", "v0", "0", farm.member(4), "--wait")
        assert f"{farm.member(4)} has taken the place of {farm.member(0)}" in done.out
        wait_configured(gateway, {farm.member(n) for n in (1, 2, 3, 4)})
        assert set(by_member(volume.status())) == {farm.member(n) for n in (1, 2, 3, 4)}
        lose(volume, farm, 2)
        assert read_all(handle) == content


def test_a_spare_of_the_volume_can_be_the_replacement(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm, "--spare", farm.member(4))
    with gateway.serve("v0") as volume:
        iraid = Command(gateway, volume)
        volume.connect()
        iraid.must("replace", "v0", farm.member(3), farm.member(4), "--wait")
        wait_configured(gateway, {farm.member(n) for n in (0, 1, 2, 4)})
        # The former member holds a superblock still: it is taken only by force, and never while it is in use.
        ran = iraid("add-spare", "v0", farm.member(3))
        assert ran.status == 1 and "holds member 3 of the iraid volume" in ran.err and "--force" in ran.err
        iraid.must("add-spare", "v0", farm.member(3), "--force")
        assert by_member(volume.status())[farm.member(3)]["state"] == "spare"
        iraid.must("remove", "v0", farm.member(3))
        iraid.must("add-spare", "v0", farm.member(3))  # removed spares are blank again


def test_a_member_that_was_removed_while_it_hung_can_come_back_as_a_spare(gateway: Gateway, farm: TargetFarm) -> None:
    """It could not be told that its reservation has ended."""
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        farm.stop(1)
        handle.pwrite(bytes(MIB), 0)
        iraid.must("remove", "v0", farm.member(1))
        assert farm.member(1) not in gateway.configuration("v0")["members"]
        farm.cont(1)
        ran = iraid("add-spare", "v0", farm.member(1))
        assert ran.status == 1 and "holds member 1 of the iraid volume" in ran.err, ran
        iraid.must("add-spare", "v0", farm.member(1), "--force")
        volume.wait_status(lambda status: status["state"] == "active", "the spare to have taken the place")
        assert volume.status()["empty_roles"] == []


# The gateway's spares


def pooled(gateway: Gateway) -> list[str]:
    return [spare["device"] for spare in call(gateway.socket, "pool.list")["spares"]]


def test_two_volumes_in_need_at_once_get_a_shared_spare_each(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """In two processes: the pool is the gateway's, not a process's."""
    farm = make_farm(10)
    numbers = {"v0": (0, 1, 2, 3), "v1": (4, 5, 6, 7)}
    readers = {name: prepare(gateway, farm, name=name, numbers=of) for name, of in numbers.items()}
    for number in (8, 9):
        gateway.must("add-spare", "--gateway", farm.member(number))
    assert pooled(gateway) == [farm.member(8), farm.member(9)]
    assert farm.member(9) in gateway.must("status").out
    with gateway.serve("v0") as first, gateway.serve("v1") as second:
        handles = {"v0": first.connect(), "v1": second.connect()}
        contents = {name: fill(handles[name], readers[name].size) for name in numbers}
        farm.kill(0)
        farm.kill(4)
        for volume, dead in ((first, 0), (second, 4)):
            volume.wait_status(lambda s, dead=dead: by_member(s)[farm.member(dead)]["state"] != "in sync", "the loss")
            wait_in_sync(volume, 90)
        assert pooled(gateway) == []
        taken = [set(gateway.configuration(name)["members"]) & {farm.member(8), farm.member(9)} for name in numbers]
        assert sorted(map(len, taken)) == [1, 1] and taken[0] != taken[1]
        lose(first, farm, 1)
        lose(second, farm, 5)
        for name, handle in handles.items():
            assert read_all(handle) == contents[name]
    # It is the volume's for good.
    with gateway.serve("v0") as first:
        handle = first.connect()
        assert read_all(handle) == contents["v0"]


def test_two_volumes_of_one_process_get_a_shared_spare_each(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    farm = make_farm(8)
    for name, numbers in (("v0", (0, 1, 2)), ("v1", (3, 4, 5))):
        prepare(gateway, farm, name=name, numbers=numbers)
        gateway.must("start", name)
    for number in (6, 7):
        gateway.must("add-spare", "--gateway", farm.member(number))
    gateway.must("fail", "v0", "0")
    gateway.must("fail", "v1", "0")
    for name in ("v0", "v1"):
        gateway.must("wait", name, "--timeout", "90", seconds=100)
    assert pooled(gateway) == []
    held = [set(gateway.configuration(name)["members"]) & {farm.member(6), farm.member(7)} for name in ("v0", "v1")]
    assert sorted(map(len, held)) == [1, 1] and held[0] != held[1]
    kinds = [event["kind"] for event in gateway.must("events", "--json").json["events"]]
    assert kinds.count("spare taken") == 2


def test_the_smallest_shared_spare_that_fits_is_taken_and_dead_ones_are_passed_over(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    sizes = [24, 24, 24, 48, 24, 32, 17]
    farm = make_farm(options=[TargetOptions(size_bytes=size * MIB) for size in sizes])
    prepare(gateway, farm, numbers=(0, 1, 2))
    for number in (3, 4, 5, 6):
        gateway.must("add-spare", "--gateway", farm.member(number))
    gateway.must("start", "v0")
    farm.kill(4)  # the best fit does not answer
    gateway.must("fail", "v0", "1")
    gateway.must("wait", "v0", "--timeout", "90", seconds=100)
    assert farm.member(5) in gateway.configuration("v0")["members"]
    assert sorted(pooled(gateway)) == sorted(farm.member(n) for n in (3, 4, 6))
    events = gateway.must("events", "v0", "--json").json["events"]
    assert [e["member"] for e in events if e["kind"] == "spare unfit"] == [farm.member(4)]
    # Taking one away by hand wipes its mark, if it answers.
    assert "was not wiped" in gateway.must("remove", "--gateway", farm.member(4)).err
    assert not gateway.must("remove", "--gateway", farm.member(6)).err
    assert gateway.must("examine", farm.member(6), "--json").json["members"][0]["signature"] is None
    assert gateway.must("examine", farm.member(3), "--json").json["members"][0]["signature"] == (
        "iraid spare of a gateway"
    )
    assert pooled(gateway) == [farm.member(3)]


def test_a_shared_spare_can_be_named_as_a_replacement(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    gateway.must("start", "v0")
    gateway.must("add-spare", "--gateway", farm.member(5))
    assert gateway.must("replace", "v0", "3", farm.member(5), "--wait", "--json").json["in_sync"]
    assert pooled(gateway) == []
    wait_configured(gateway, {farm.member(n) for n in (0, 1, 2, 5)})


# Scrub


def spoil(path: Path, offset: int) -> None:
    """One byte, behind everybody's back."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x55]))


def test_scrub_finds_a_changed_byte_and_repair_corrects_it(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        fill(handle, reader.size)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        assert iraid("scrub", "start", "v0", "--wait").status == 0
        rows = [5, 600]
        for row in rows:
            (parity,) = reader.redundant_roles(row)
            spoil(reader.by_role[parity].path, reader.truth.data.offset + row * CHUNK + 77)
        found = iraid("scrub", "start", "v0", "--wait", "--json")
        assert found.status == 3, found
        scrub = found.json["scrub"]
        assert (scrub["mode"], scrub["mismatches"]) == ("check", 2)
        assert scrub["mismatch_offsets"] == [row * ROW for row in rows]
        assert reader.wrong_rows() == rows  # a check changes nothing
        text = iraid("scrub", "status", "v0")
        assert text.status == 3 and "2 rows did not match" in text.out and str(5 * ROW) in text.out
        repaired = iraid.must("scrub", "start", "v0", "--repair", "--wait")
        assert "2 rows did not match and were corrected" in repaired.out
        assert reader.wrong_rows() == []
        assert iraid("scrub", "start", "v0", "--wait", "--json").json["scrub"]["mismatches"] == 0
        assert iraid.must("scrub", "status", "v0").out.count("all rows match") == 1
        kinds = [event["kind"] for event in iraid.must("events", "v0", "--json").json["events"]]
        assert kinds.count("scrub mismatch") >= 2 and "scrub finished" in kinds


def test_scrub_is_stopped_resumed_and_throttled(
    gateway: Gateway, farm: TargetFarm, figure: Callable[[str, str], None]
) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        iraid = Command(gateway, volume)
        volume.connect()
        shown = iraid.must("set", "v0", "--rate-min", "512K", "--rate-max", "2M", "--json").json
        assert shown == {
            "name": "v0",
            "sync_rate_min_bytes": 512 << 10,
            "sync_rate_max_bytes": 2 * MIB,
            "log": "degraded",
            "header_digest": "none",
            "data_digest": "none",
        }
        iraid.must("scrub", "start", "v0")
        again = iraid("scrub", "start", "v0")
        assert again.status == 1 and "running already" in again.err and "v0" in again.err
        status = volume.wait_status(
            lambda s: s["scrub"]["bytes_per_second"] > 0 and s["scrub"]["done_rows"] > 250, "a rate"
        )
        figure("scrub of at most 2 MiB/s", f"{status['scrub']['bytes_per_second']} bytes/s")
        assert status["scrub"]["bytes_per_second"] <= 2.4 * MIB
        assert status["scrub"]["seconds_left"] >= 4
        iraid.must("scrub", "stop", "v0")
        stopped = volume.status()["scrub"]
        assert not stopped["active"] and 0 < stopped["done_rows"] < stopped["total_rows"]
        assert "stopped at" in iraid.must("scrub", "status", "v0").out
        none = iraid("scrub", "stop", "v0")
        assert none.status == 1 and "no scrub is running" in none.err
    assert gateway.configuration("v0")["sync_rate_max_bytes"] == 2 * MIB
    with gateway.serve("v0") as volume:  # both survive a restart
        iraid = Command(gateway, volume)
        volume.connect()
        assert volume.status()["sync_rate_max_bytes"] == 2 * MIB
        resumed = iraid.must("scrub", "start", "v0", "--resume", "--json").json["scrub"]
        assert resumed["done_rows"] >= stopped["done_rows"]
        iraid.must("set", "v0", "--rate-max", "1G")
        iraid.must("wait", "v0", "--for", "scrub", "--timeout", "20")


def test_scrub_of_all_volumes(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(9)
    gateway.create("a", [farm.member(n) for n in range(3)])
    gateway.create("b", [farm.member(n) for n in range(3, 6)])
    gateway.create("c", [farm.member(n) for n in range(6, 8)], 0)
    for name in "ab":
        gateway.must("wait", name)
    gateway.must("fail", "b", "0")
    wait_until(lambda: gateway.status("b")["state"] == "degraded", "the failure")
    shown = gateway.must("scrub", "start", "--all", "--wait", "--json").json
    assert shown["started"] == ["a"]
    assert {one["name"]: one["reason"] for one in shown["passed_over"]} == {
        "b": "it is degraded",
        "c": "level 0 has no redundancy",
    }
    assert [one["scrub"]["mismatches"] for one in shown["ended"]] == [0]


# Lost extents


def test_what_can_not_be_known_is_listed_and_accepted(gateway: Gateway, farm: TargetFarm) -> None:
    """Degraded, written to without a log, then the gateway is killed: the missing member's chunks can't be rebuilt."""
    reader = prepare(gateway, farm, log="off")
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        fill(handle, reader.size)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        lose(volume, farm, 2)
        handle.pwrite(b"\1" * CHUNK, 3 * 64 * ROW)
        volume.kill()
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        lost = volume.wait_status(lambda s: s["lost"]["extents"] > 0, "the lost extents")["lost"]
        shown = iraid.must("lost", "v0", "--json").json
        assert shown["bytes"] == lost["bytes"] > 0
        extents = shown["extents"]
        assert all(3 * 64 * ROW <= e["offset_bytes"] < 4 * 64 * ROW for e in extents)
        text = iraid.must("lost", "v0").out
        assert str(extents[0]["offset_bytes"]) in text and "--accept" in text
        assert "iraid lost v0" in iraid.must("status", "v0").out
        first, last = extents[0], extents[-1]
        with pytest.raises(nbd.Error):
            handle.pread(512, first["offset_bytes"])
        # Overwritten, it is known again.
        handle.pwrite(b"\2" * first["length_bytes"], first["offset_bytes"])
        assert handle.pread(512, first["offset_bytes"]) == b"\2" * 512
        part = iraid.must(
            "lost", "v0", "--accept", "--yes", "--offset", str(last["offset_bytes"]), "--length", "512", "--json"
        ).json
        assert part["accepted_bytes"] == 512
        handle.pread(512, last["offset_bytes"])
        refused = iraid("lost", "v0", "--accept")
        assert refused.status == 2 and "--yes" in refused.err
        left = volume.status()["lost"]["bytes"]
        assert left == lost["bytes"] - first["length_bytes"] - 512
        assert iraid.must("lost", "v0", "--accept", "--yes", "--json").json["accepted_bytes"] == left
        assert iraid.must("lost", "v0", "--json").json == {"name": "v0", "extents": [], "bytes": 0}
        assert len(read_all(handle)) == reader.size
    with gateway.serve("v0") as volume:
        assert len(read_all(volume.connect())) == reader.size  # for good


# Events


def test_events_are_followed_as_they_happen(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm, "--spare", farm.member(4))
    gateway.must("start", "v0")
    output = gateway.folder / "events.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [PYTHON, IRAID, "events", "v0", "--follow", "--json"], stdout=out, env=gateway.environment()
        )

    def kinds() -> list[str]:
        return [json.loads(line)["kind"] for line in output.read_text().splitlines()]

    try:
        wait_until(lambda: "assembled" in kinds(), "the past")
        gateway.must("fail", "v0", "1")
        wait_until(lambda: "rebuild finished" in kinds(), "the rebuild's end")
        seen = kinds()
        order = ["assembled", "failed by hand", "rebuild started", "rebuild finished"]
        assert [kind for kind in seen if kind in order][-3:] == order[1:]
        assert seen.index("member evicted") < seen.index("rebuild started")
        numbers = [json.loads(line)["number"] for line in output.read_text().splitlines()]
        assert numbers == sorted(set(numbers))
        event = next(
            json.loads(line) for line in output.read_text().splitlines() if json.loads(line)["kind"] == "member evicted"
        )
        assert event["member"] == farm.member(1) and event["volume"] == "v0"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def test_what_follows_from_a_command_comes_after_it_in_the_events(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        iraid = Command(gateway, volume)
        iraid.must("fail", "v0", "2")
        iraid.must("rebuild", "v0", "2", "--wait")
        iraid.must("replace", "v0", "1", farm.member(4), "--wait")
        kinds = [event["kind"] for event in iraid.must("events", "v0", "--json").json["events"]]
        order = ["failed by hand", "readmitted", "replace", "rebuild started", "rebuild finished"]
        assert [kind for kind in kinds if kind in order] == [
            "failed by hand",
            "readmitted",
            "rebuild started",
            "rebuild finished",
            "replace",
            "rebuild started",
            "rebuild finished",
        ]


def test_the_engine_ends_at_once_while_somebody_waits_for_events(gateway: Gateway) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(gateway.socket))
        lines = connection.makefile("rb")
        for wait_seconds in (0, 60):  # in turn: the second is waiting once the first is answered, or soon
            request = {"jsonrpc": "2.0", "id": 1, "method": "events", "params": {"wait_seconds": wait_seconds}}
            connection.sendall(json.dumps(request).encode() + b"\n")
        assert json.loads(lines.readline())["result"]["events"] == []
        begin = time.monotonic()
        gateway.stop()
        assert time.monotonic() - begin < 10
        assert json.loads(lines.readline() or b'{"result": {"events": []}}')["result"]["events"] == []


# What is refused, and changes nothing


def state_of(gateway: Gateway) -> tuple[Any, Any, list[str]]:
    status = gateway.status("v0")
    return (
        {label: (m["role"], m["state"]) for label, m in by_member(status).items()},
        gateway.configuration("v0"),
        pooled(gateway),
    )


def test_what_is_refused_names_the_thing_and_changes_nothing(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    farm = make_farm(
        options=[
            *[TargetOptions(size_bytes=MEMBER_BYTES)] * 5,
            TargetOptions(size_bytes=17 * MIB),
            TargetOptions(size_bytes=MEMBER_BYTES, block_bytes=4096),
            TargetOptions(size_bytes=MEMBER_BYTES, readonly=True),
            TargetOptions(size_bytes=MEMBER_BYTES),
        ]
    )
    small, blocks, readonly, full = (farm.member(n) for n in (5, 6, 7, 8))
    gateway.create("v0", [farm.member(n) for n in range(4)])
    gateway.create("other", [farm.member(4), full], 0)
    gateway.must("wait", "v0")
    gateway.must("delete", "other", "--yes", "--no-wipe")
    subprocess.run(["mkfs.ext4", "-Fq", farm.backing(8)], check=False, capture_output=True)
    before = state_of(gateway)
    nothing = "127.0.0.1:1/iqn.2026-01.org.example:none/0"

    for words, status, said in [
        (["fail", "v0", "4"], 1, 'no member "4"'),
        (["fail", "v0", "127.0.0.1"], 1, "ambiguous"),
        (["fail", "v0", farm.member(0).split("/")[0][:-1]], 1, "no member"),  # not all of a number
        (["fail", "v9", "1"], 1, 'no volume "v9"'),
        (["fail", "v0", nothing], 1, "no member"),
        (["remove", "v0", "1"], 1, "is in sync"),
        (["rebuild", "v0", "1"], 1, "is in sync"),
        (["replace", "v0", "1", farm.member(2)], 1, "is already a member of volume"),
        (["replace", "v0", "7", farm.member(4)], 1, 'no member "7"'),
        (["replace", "v0", "1", nothing], 1, "127.0.0.1:1"),
        (["replace", "v0", "1", "nonsense"], 1, "nonsense"),
        (["add-spare", "v0", small], 1, f"{small} has {17 * MIB} bytes"),
        (["add-spare", "v0", blocks], 1, "blocks of 4096"),
        (["add-spare", "v0", readonly], 1, "read-only"),
        (["add-spare", "v0", farm.member(4)], 1, 'holds member 0 of the iraid volume "other"'),
        (["add-spare", "v0", farm.member(0)], 1, "already"),
        (["add-spare", "--gateway", farm.member(0), "--force"], 1, 'is a member of volume "v0"'),
        (["add-spare", "--gateway", readonly], 1, "read-only"),
        (["remove", "--gateway", farm.member(0)], 1, "is not a spare of this gateway"),
        (["scrub", "stop", "v0"], 1, "no scrub is running"),
        (["scrub", "start", "v9"], 1, 'no volume "v9"'),
        (["lost", "v9"], 1, 'no volume "v9"'),
        (["set", "v0", "--rate-min", "2G"], 1, "above the upper limit"),
        (["set", "v0", "--rate-max", "1"], 1, "not between"),
        (["set", "v9", "--rate-max", "1G"], 1, 'no volume "v9"'),
        (["wait", "v9"], 1, 'no volume "v9"'),
    ]:
        ran = gateway.iraid(*words)
        assert ran.status == status and said in ran.err, ran
        assert "remedy: " in ran.err, ran
        assert state_of(gateway) == before, ran

    gateway.must("fail", "v0", "1")
    wait_until(lambda: gateway.status("v0")["state"] == "degraded", "the failure")
    ran = gateway.iraid("fail", "v0", "2")
    assert ran.status == 1 and "can't bear another" in ran.err, ran
    ran = gateway.iraid("replace", "v0", "2", farm.member(4), "--force")
    assert ran.status == 1 and "role 1 has no member in sync" in ran.err, ran
    assert farm.member(4) not in gateway.configuration("v0")["members"]
    gateway.must("stop", "v0")
    for words in (
        ["fail", "v0", "2"],
        ["scrub", "start", "v0"],
        ["lost", "v0"],
        ["remove", "v0", "1"],
        ["replace", "v0", "1", farm.member(4)],
    ):
        ran = gateway.iraid(*words)
        assert ran.status == 1 and "is not running" in ran.err, ran


def test_one_lun_by_two_names_is_never_taken_twice(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4, portals=2)
    gateway.create("v0", [farm.member(n) for n in range(3)])
    gateway.must("wait", "v0")
    reader = VolumeReader([farm.backing(n) for n in range(3)])
    before = [superblock.member_uuid for superblock in reader.superblocks().values()]
    for words in (
        ["add-spare", "v0", farm.member(1, 1), "--force"],
        ["replace", "v0", "0", farm.member(1, 1), "--force"],
    ):
        ran = gateway.iraid(*words)
        assert ran.status == 1 and "are the same LUN" in ran.err, ran
    ran = gateway.iraid("add-spare", "--gateway", farm.member(1, 1), "--force")
    assert ran.status == 1 and 'is a member of volume "v0"' in ran.err, ran
    assert [superblock.member_uuid for superblock in reader.superblocks().values()] == before
    assert reader.wrong_rows() == []
    gateway.must("add-spare", "v0", farm.member(3))
    ran = gateway.iraid("add-spare", "v0", farm.member(3, 1), "--force")
    assert ran.status == 1 and "are the same LUN" in ran.err, ran
    gateway.must("stop", "v0")
    ran = gateway.iraid("add-spare", "v0", farm.member(1, 1), "--force")
    assert ran.status == 1 and "first start the volume" in ran.err, ran


def test_nobody_ends_a_session_by_looking_at_its_lun_by_another_name(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """Who logs in with a session's own ISID ends it (RFC 7143, 6.3.5)."""
    farm = make_farm(2)
    with FakeTarget(size_bytes=farm.backing(0).stat().st_size) as target:
        gateway.create("v0", [*farm.members(), target.member])
        gateway.must("wait", "v0")
        working = target.isids[-1]
        assert working not in target.isids[:-1]
        other = target.member.replace("127.0.0.1", "[::ffff:127.0.0.1]")
        for words in (["add-spare", "v0", other, "--force"], ["replace", "v0", "0", other, "--force"]):
            ran = gateway.iraid(*words)
            assert ran.status == 1 and "are the same LUN" in ran.err, ran
        assert target.isids.count(working) == 1


def test_a_spare_is_added_to_a_volume_that_does_not_run(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    shown = gateway.must("add-spare", "v0", farm.member(4), "--json").json
    assert shown["state"] == "spare"
    gateway.must("start", "v0")
    assert by_member(gateway.status("v0"))[farm.member(4)]["state"] == "spare"


def test_a_volume_run_by_another_process_is_left_alone(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        volume.connect()
        for words in (["add-spare", "v0", farm.member(4)], ["set", "v0", "--rate-max", "1G"]):
            ran = gateway.iraid(*words)
            assert ran.status == 1 and "in use by nbdkit" in ran.err, ran
        ran = gateway.iraid("fail", "v0", "1")
        assert ran.status == 1 and "not running in this process" in ran.err, ran
    assert gateway.must("examine", farm.member(4), "--json").json["members"][0]["signature"] is None


# Several portals


def test_a_member_with_two_portals_is_reached_by_the_other_one(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """The first portal of one member leads nowhere."""
    farm = make_farm(3, portals=2)
    dead = unused_portal()
    iqn_and_lun = farm.member(0).partition("/")[2]
    several = f"{dead},{farm.portal(0, 1)}/{iqn_and_lun}"
    gateway.create("v0", [several, farm.member(1), farm.member(2)])
    gateway.must("wait", "v0", "--timeout", "30")
    assert gateway.configuration("v0")["members"][0] == several
    member = gateway.status("v0")["members"][0]
    assert (member["member"], member["portals"]) == (f"{dead}/{iqn_and_lun}", [dead, farm.portal(0, 1)])
    assert gateway.must("examine", several, "--json").json["members"][0]["superblock"]["role"] == 0
    gateway.must("stop", "v0")
    gateway.must("start", "v0")
    assert all_in_sync(gateway.status("v0"))


def unused_portal() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


# Region size


def test_the_region_size_is_as_asked_for(gateway: Gateway, farm: TargetFarm) -> None:
    shown = gateway.create("v0", [farm.member(n) for n in range(4)], 5, "16K", "--region-size", "128K")
    assert shown["region_bytes"] == 128 << 10
    assert VolumeReader([farm.backing(n) for n in range(4)]).truth.region_rows == 8
    status = gateway.status("v0")
    assert status["regions"]["region_bytes"] == 128 << 10
    ran = gateway.iraid("create", "v1", "--level", "5", "--region-size", "4K", *farm.members()[:4])
    assert ran.status == 1 and "less than one chunk" in ran.err
