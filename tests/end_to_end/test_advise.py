"""iraid advise with LIO's targets: targetcli's words as printed, beside an initiator; and a long way."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import rtslib_fb as rtslib

from iraid_dev.stack import lio_targets
from iraid_dev.stack.gateway import Gateway, iraid
from iraid_dev.stack.tools import run

TUNING = {"segment", "data-in", "r2t", "immediate", "max-burst", "first-burst", "depth", "data-digest"}
INITIATOR = "iqn.2026-01.org.iraid.test:advised"
DEPTH = "16"
PATTERN = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def mistuned(monkeypatch: pytest.MonkeyPatch, memory_folder: Path) -> Iterator[lio_targets.LioTargets]:
    """LIO's usual limits but for two: a short queue of our ACL, and segments, which it declares by its
    MaxXmitDataSegmentLength."""
    monkeypatch.setattr(lio_targets, "PARAMETERS", {"MaxXmitDataSegmentLength": "8192"})
    with lio_targets.LioTargets(memory_folder / "mistuned", 2, 128 << 20) as targets:
        for number in range(2):
            group = rtslib.TPG(rtslib.Target(rtslib.FabricModule("iscsi"), targets.iqn(number)), 1)
            acl = rtslib.NodeACL(group, INITIATOR)
            rtslib.MappedLUN(acl, 0, 0)
            acl.tcq_depth = DEPTH
        yield targets


def advise(name: str) -> dict:
    return json.loads(iraid("advise", name, "--seconds", "0.5", "--json"))


def tuning(advice: dict) -> dict[str, list[str]]:
    return {one["kind"]: sorted(one["members"]) for one in advice["findings"] if one["kind"] in TUNING}


@pytest.mark.timeout(240)
def test_what_it_prints_for_lio_ends_what_it_found(mistuned: lio_targets.LioTargets, gateway: Gateway) -> None:
    members = mistuned.members()
    volume = gateway.create(1, members, "--initiator", INITIATOR)
    disk = volume.login()
    Path(disk.path).write_bytes(PATTERN)
    volume.wait_resynced()

    before = advise(volume.name)
    assert {one["target"] for one in before["members"]} == {"LIO"}
    assert {one["path"]["window_commands"] for one in before["members"]} == {int(DEPTH)}
    assert tuning(before) == dict.fromkeys(["segment", "r2t", "first-burst", "depth"], sorted(members))

    for remedy in before["remedies"]:
        if remedy["where"].startswith("target"):
            done = subprocess.run(
                ["sh", "-eu"],
                input="\n".join(remedy["commands"]),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (remedy["commands"], done.stdout, done.stderr)
            iraid("wait", volume.name, "--timeout", "60")
        elif remedy["findings"] == ["login"]:
            assert [command.split()[1] for command in remedy["commands"]] == ["fail", "rebuild", "wait"] * 2
            for command in remedy["commands"]:
                iraid(*shlex.split(command)[1:])

    after = advise(volume.name)
    assert tuning(after) == {}
    for one in after["members"]:
        assert one["path"]["negotiated"]["target_segment_bytes"] == 262144
        assert one["path"]["window_commands"] >= 64
    assert volume.status()["state"] == "active"
    volume.logout()
    with Path(volume.login().path).open("rb") as file:
        assert file.read(len(PATTERN)) == PATTERN


@pytest.fixture
def long_way() -> Iterator[float]:
    """8 ms there and back, for whatever is sent inside of this kernel."""
    run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "4ms", "limit", "100000")
    yield 8e-3
    run("tc", "qdisc", "del", "dev", "lo", "root")


@pytest.mark.timeout(240)
def test_a_long_way_is_told_from_a_slow_target(long_way: float, gateway: Gateway, lio_members) -> None:
    volume = gateway.create(0, lio_members(2))

    found = advise(volume.name)

    for one in found["members"]:
        assert long_way <= one["round_trip_us"] / 1e6 < 1.5 * long_way
        assert one["small_read_us"] >= one["round_trip_us"]
    alone, deep = (
        row["bytes_per_second"] for row in found["model"] if (row["operation"], row["block_bytes"]) == ("read", 4096)
    )
    assert alone <= 4096 / long_way  # one round trip for each
    assert deep > 4 * alone
    assert "slow-start" in {one["kind"] for one in found["findings"]}
    assert not {"target-time", "slow-latency"} & {one["kind"] for one in found["findings"]}
