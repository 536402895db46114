"""What an administrator sees and sets of the write log, on real targets.  What it is worth after a crash: the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Ran, Served, wait_until

BLOCK = 4096


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(4)


def prepare(gateway: Gateway, farm: TargetFarm, level: int = 5) -> None:
    """A volume with proven parity, stopped, so that nbdkit can have it."""
    gateway.create("v0", farm.members()[:4], level, "16K", "--give-up", "2")
    wait_until(
        lambda: (status := gateway.status("v0"))["state"] == "active" and status["regions"]["suspect"] == 0,
        "the first resync",
    )
    gateway.must("stop", "v0")


def iraid(gateway: Gateway, volume: Served, *words: str) -> Ran:
    return gateway.iraid(*words, "--socket", volume.control)


def log_of(volume: Served) -> dict[str, Any]:
    return volume.status()["log"]


def wait_log(volume: Served, what: str, **expected: Any) -> None:
    wait_until(lambda: {key: log_of(volume)[key] for key in expected} == expected, what)


def lines_of(gateway: Gateway) -> list[str]:
    return [line for line in (gateway.config / "volumes/v0.conf").read_text().splitlines() if "log =" in line]


def test_writes_are_logged_while_a_member_is_out_and_it_is_shown(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert log_of(volume)["mode"] == "degraded" and not log_of(volume)["open"]
        assert "Write log" not in iraid(gateway, volume, "status", "v0").out
        assert iraid(gateway, volume, "fail", "v0", "2").status == 0
        wait_log(volume, "the log to be open", open=True)
        for block in range(16):
            handle.pwrite(bytes([block + 1]) * BLOCK, block * BLOCK)
        log = log_of(volume)
        assert log["records"] > 0 and log["bytes"] > 0 and not log["given_up"] and not log["too_small"]
        assert log["replay"] == {"step": None, "done_chunks": 0, "total_chunks": 0}
        assert "writes are logged: " in iraid(gateway, volume, "status", "v0").out
        assert iraid(gateway, volume, "rebuild", "v0", "2", "--wait").status == 0
        wait_log(volume, "the log to be closed", open=False)
        kinds = [event["kind"] for event in iraid(gateway, volume, "events", "v0", "--json").json["events"]]
        assert [kind for kind in kinds if kind.startswith("log ")] == ["log opened", "log closed"]


def test_a_gateway_that_dies_while_a_member_is_out_loses_nothing(gateway: Gateway, farm: TargetFarm) -> None:
    """tests/docs/test_recovery.py has the same without the log: there it costs data."""
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        handle.pwrite(b"\1" * (1 << 20), 0)
        handle.flush()
        assert iraid(gateway, volume, "fail", "v0", "2").status == 0
        wait_log(volume, "the log to be open", open=True)
        for block in range(0, 64, 5):
            handle.pwrite(b"\2" * BLOCK, block * BLOCK)
        volume.kill()
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_status(lambda status: status["state"] == "degraded", "the start")
        assert volume.status()["lost"]["bytes"] == 0
        for block in range(64):
            assert handle.pread(BLOCK, block * BLOCK) == (b"\1", b"\2")[block % 5 == 0] * BLOCK, block
        wait_log(volume, "the log to be open again", open=True, given_up=False)


def test_the_log_is_switched_off_and_on_while_a_member_is_out_and_that_stays(
    gateway: Gateway, farm: TargetFarm
) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert iraid(gateway, volume, "fail", "v0", "2").status == 0
        wait_log(volume, "the log to be open", open=True)
        handle.pwrite(b"1" * BLOCK, 0)
        ran = iraid(gateway, volume, "set", "v0", "--log", "off")
        assert ran.status == 0 and "Write log of volume v0: off, no write is logged." in ran.out
        wait_log(volume, "the log to be closed", open=False, mode="off")
        assert "off: writes are not logged" in iraid(gateway, volume, "status", "v0").out
        handle.pwrite(b"2" * BLOCK, 0)
        assert iraid(gateway, volume, "set", "v0", "--rate-max", "2G", "--json").json["log"] == "off"
        assert "log = off" in lines_of(gateway)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert handle.pread(BLOCK, 0) == b"2" * BLOCK
        assert log_of(volume)["mode"] == "off" and not log_of(volume)["open"]
        shown = iraid(gateway, volume, "set", "v0", "--log", "degraded", "--json").json
        assert shown["log"] == "degraded" and "log = degraded" in lines_of(gateway)
        wait_log(volume, "the log to be open", open=True, mode="degraded")


def test_always_is_open_while_all_members_are_there_and_is_set_while_in_use(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        ran = iraid(gateway, volume, "set", "v0", "--log", "always")
        assert ran.status == 0 and "Write log of volume v0: always, " in ran.out
        wait_log(volume, "the log to be open", open=True, mode="always")
        for block in range(16):
            handle.pwrite(bytes([block + 1]) * BLOCK, block * BLOCK)
        assert volume.status()["state"] == "active" and log_of(volume)["records"] > 0
        assert "writes are logged: " in iraid(gateway, volume, "status", "v0").out
        assert iraid(gateway, volume, "fail", "v0", "2").status == 0
        handle.pwrite(b"\1" * BLOCK, 0)
        assert iraid(gateway, volume, "rebuild", "v0", "2", "--wait").status == 0
        wait_log(volume, "the log to be open with all members again", open=True)
        assert iraid(gateway, volume, "set", "v0", "--log", "off").status == 0
        wait_log(volume, "the log to be closed", open=False, mode="off")
        assert "Write log" not in iraid(gateway, volume, "status", "v0").out and "log = off" in lines_of(gateway)
        for block in range(16):
            assert handle.pread(BLOCK, block * BLOCK) == bytes([block + 1]) * BLOCK, block


def test_a_gateway_and_a_member_that_go_at_once_lose_nothing_with_always(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert iraid(gateway, volume, "set", "v0", "--log", "always").status == 0
        wait_log(volume, "the log to be open", open=True)
        for block in range(0, 64, 5):
            handle.pwrite(b"\2" * BLOCK, block * BLOCK)
        volume.kill()
        farm.kill(2)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_status(lambda status: status["state"] == "degraded", "the start")
        assert volume.status()["lost"]["bytes"] == 0
        for block in range(0, 64, 5):
            assert handle.pread(BLOCK, block * BLOCK) == b"\2" * BLOCK, block


def test_a_reload_applies_what_the_file_says(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    path = gateway.config / "volumes/v0.conf"
    with gateway.serve("v0") as volume:
        volume.connect()
        assert iraid(gateway, volume, "fail", "v0", "2").status == 0
        wait_log(volume, "the log to be open", open=True)
        path.write_text(path.read_text() + "log = off\n")
        answer = iraid(gateway, volume, "config", "reload", "v0", "--json").json["volumes"][0]
        assert [(one["key"], one["before"], one["after"]) for one in answer["applied"]] == [("log", "degraded", "off")]
        wait_log(volume, "the log to be closed", open=False, mode="off")
        path.write_text(path.read_text().replace("\nlog = off", "\nlog = sometimes"))
        ran = iraid(gateway, volume, "config", "reload", "v0")
        assert ran.status == 1 and 'log: "sometimes" is none of off, degraded and always' in ran.err
        assert "remedy: write off, degraded or always" in ran.err
        assert log_of(volume)["mode"] == "off"


def test_gateway_conf_sets_it_for_all_volumes_that_do_not_say_otherwise(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm)
    (gateway.config / "gateway.conf").write_text("[volumes]\nlog = off\n")
    with gateway.serve("v0") as volume:
        volume.connect()
        assert log_of(volume)["mode"] == "off"
        assert iraid(gateway, volume, "set", "v0", "--log", "degraded").status == 0
        assert log_of(volume)["mode"] == "degraded"


def test_other_levels_have_no_log_and_say_so(gateway: Gateway, farm: TargetFarm) -> None:
    prepare(gateway, farm, level=10)
    # Of a volume that is stopped the level is not known.
    assert gateway.must("set", "v0", "--log", "degraded", "--json").json["log"] == "degraded"
    with gateway.serve("v0") as volume:
        volume.connect()
        assert log_of(volume) == {
            "mode": "off",
            "open": False,
            "given_up": False,
            "too_small": False,
            "records": 0,
            "bytes": 0,
            "replay": {"step": None, "done_chunks": 0, "total_chunks": 0},
        }
        for mode in ("degraded", "always"):
            ran = iraid(gateway, volume, "set", "v0", "--log", mode, "--rate-max", "2G")
            assert ran.status == 1 and f'"log" is "{mode}", but volume "v0" has level 10' in ran.err
            assert "only levels 5 and 6 have a write log" in ran.err and "remedy: give off" in ran.err
        assert volume.status()["sync_rate_max_bytes"] == 1 << 30
        assert iraid(gateway, volume, "set", "v0", "--log", "off").status == 0
