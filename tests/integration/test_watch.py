"""What a person sees of a real volume: its verdict, top while it works, a mail when a member dies, an archive of it."""

from __future__ import annotations

import json
import subprocess
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import IRAID, PYTHON, Gateway, Served, wait_until


def verdict(gateway: Gateway, volume: Served) -> dict[str, object]:
    return gateway.must("status", "v0", "--json", "--socket", volume.control).json["health"]


@pytest.mark.once
def test_a_member_dies_and_returns_before_the_eyes_of_who_watches(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    farm = make_farm(4)
    gateway.create("v0", farm.members(), 5, "64K", "--give-up", "1")
    gateway.must("wait", "v0")
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        assert verdict(gateway, volume)["word"] == "OK"
        check_top(gateway, volume, handle)
        mails, monitor = start_monitor(gateway, volume, tmp_path)
        farm.kill(1)
        handle.pwrite(b"x" * 65536, 0)  # shows that the member is gone
        volume.wait_status(lambda status: status["state"] == "degraded", "the member's eviction")
        found = verdict(gateway, volume)
        assert found["word"] == "DEGRADED" and "member 1 is" in str(found["text"])
        assert gateway.iraid("status", "--health", "--socket", volume.control).status == 1
        # The first one may have gone while the member was only silent.
        wait_until(lambda: any("v0 now: DEGRADED" in mail.read_text() for mail in mails.iterdir()), "mail of it")
        assert all("Subject: [iraid" in mail.read_text() for mail in mails.iterdir())
        doctor = gateway.iraid("doctor", "--json", "--socket", volume.control)
        assert doctor.status == 2 and any(
            farm.portal(1) in one["text"]
            for one in doctor.json["findings"]
            if (one["check"], one["grade"]) == ("portals", "bad")
        )
        check_support(gateway, volume, farm, tmp_path)
        farm.restart(1)
        volume.wait_status(
            lambda status: status["state"] == "active" and not status["regions"]["suspect"], "the member's return"
        )
        assert verdict(gateway, volume)["word"] == "OK"
        monitor.terminate()
        assert monitor.wait(20) == 0
        handle.shutdown()
        volume.handles.clear()


def test_a_volume_whose_file_has_a_fault_blinds_nobody_for_the_others(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    farm = make_farm(6)
    gateway.create("v0", farm.members()[:3])
    gateway.create("v1", farm.members()[3:])
    gateway.must("stop", "v1")
    gateway.kill()  # all events are gone: there is only what is seen
    farm.kill(0)
    conf = gateway.config / "volumes/v1.conf"
    conf.write_text(f"{conf.read_text()}\ngive_upp = 1\n")
    gateway.start()
    gateway.must("start", "v0")
    shown = gateway.must("status", "--json").json["volumes"]
    assert [(one["name"], one["health"]["word"]) for one in shown] == [("v0", "DEGRADED"), ("v1", "FAILED")]
    assert "give_upp" in shown[1]["reason"]
    health = gateway.iraid("status", "--health")
    assert health.status == 2 and "DEGRADED" in health.out and "give_upp" in health.out
    assert gateway.iraid("status", "v0", "--health").status == 1
    assert gateway.iraid("status", "v1", "--health").status == 2
    found = [
        (one["grade"], one["text"])
        for one in gateway.iraid("doctor", "--json").json["findings"]
        if one["check"] == "volumes"
    ]
    assert [grade for grade, _ in found] == ["warning", "bad"]
    assert "v0 is DEGRADED" in found[0][1] and "v1 is FAILED" in found[1][1]
    check_told(gateway, tmp_path)
    top = gateway.must("top", "--json", "--count", "1", "--interval", "0.2").json
    assert [(one["name"], one["state"]) for one in top["volumes"]] == [("v0", "degraded"), ("v1", "failed")]


def check_told(gateway: Gateway, folder: Path) -> None:
    program = folder / "tell"
    program.write_text(f'#!/bin/sh\necho "$1 of $2" >> {folder}/told\n')
    program.chmod(0o755)
    gateway.must("monitor", "--once", "--command", program)
    assert (folder / "told").read_text().splitlines() == ["volume degraded of v0", "volume failed of v1"]


def check_top(gateway: Gateway, volume: Served, handle: object) -> None:
    """While 64 KiB are written again and again; what is shown is no more than what was done."""
    over = threading.Event()
    written = [0]

    def write() -> None:
        while not over.is_set():
            handle.pwrite(b"y" * 65536, (written[0] % 64) * 65536)  # type: ignore[attr-defined]
            written[0] += 1

    load = threading.Thread(target=write)
    load.start()
    try:
        shown = gateway.must("top", "--json", "--count", "2", "--interval", "0.5", "--socket", volume.control)
        lines = gateway.must("top", "--batch", "--count", "1", "--socket", volume.control).out.splitlines()
    finally:
        over.set()
        load.join(30)
    intervals = [json.loads(line) for line in shown.out.splitlines()]
    for interval in intervals:
        (one,) = interval["volumes"]
        assert one["write"]["per_second"] > 0 and one["read"]["per_second"] == 0
        assert abs(one["write"]["bytes_per_second"] - 65536 * one["write"]["per_second"]) <= 2 * 65536
        assert 0 < one["write"]["mean_us"] and 0 < one["write"]["p99_us"]
        assert [member["role"] for member in one["members"]] == [0, 1, 2, 3]
        assert all(member["rtt_us"] > 0 and member["cwnd_bytes"] > 0 for member in one["members"])
        assert sum(member["write"]["bytes_per_second"] for member in one["members"]) > 0
    assert sum(round(i["volumes"][0]["write"]["per_second"] * i["seconds"]) for i in intervals) <= written[0]
    assert lines[1].startswith("NAME") and lines[2].startswith("v0") and len(lines) == 8


def start_monitor(gateway: Gateway, volume: Served, folder: Path) -> tuple[Path, subprocess.Popen[str]]:
    """Its mail program puts mails into a folder."""
    mails = folder / "mails"
    mails.mkdir()
    sendmail = folder / "sendmail"
    sendmail.write_text(f"#!/bin/sh\ncat > {folder}/mail && mv {folder}/mail {mails}/$$\n")
    sendmail.chmod(0o755)
    monitor = subprocess.Popen(
        [
            PYTHON,
            str(IRAID),
            "monitor",
            "--socket",
            str(volume.control),
            "--mail",
            "root",
            "--sendmail",
            str(sendmail),
            "--burst",
            "0.2",
        ],
        env=gateway.environment(),
        text=True,
    )
    state = gateway.state / "monitor.json"
    wait_until(lambda: state.exists() and json.loads(state.read_text())["instance"], "the monitor to have begun")
    return mails, monitor


def check_support(gateway: Gateway, volume: Served, farm: TargetFarm, folder: Path) -> None:
    archive = folder / "support.tar.xz"
    made = gateway.must("support", "--output", archive, "--json", "--socket", volume.control).json
    missing = {part["path"] for part in made["parts"] if part["error"]}
    assert not missing & {"status.json", "stats.json", "events.txt", "superblocks.json", "doctor.json", "paths.json"}
    with tarfile.open(archive) as opened:
        texts = {
            Path(one.name).name: opened.extractfile(one).read().decode()  # type: ignore[union-attr]
            for one in opened
            if one.isfile()
        }
    blocks = json.loads(texts["superblocks.json"])
    roles = {name: one["superblock"]["role"] for name, one in blocks.items() if "superblock" in one}
    assert roles == {farm.member(number): number for number in (0, 2, 3)}
    assert "no session" in blocks[farm.member(1)]["error"]
    assert f"{farm.member(1)} (role 1) is evicted" in texts["events.txt"]
    assert f"member = {farm.member(1)}\n" in texts["v0.conf"]
