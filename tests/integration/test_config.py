"""Configuration files: what iraid config says of them, and a reload while I/O is under way."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import IRAID, Gateway, Ran, Served, call, wait_until

SECRET = "A1b2C3d4E5f6G7"
BLOCK = 64 << 10


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(4)


def create(gateway: Gateway, farm: TargetFarm, *more: str) -> Path:
    """A volume of the first three, stopped, so that nbdkit can have it; returns its file."""
    gateway.create("v0", farm.members()[:3], 5, "64K", *more)
    gateway.must("stop", "v0")
    return gateway.config / "volumes/v0.conf"


def edit(path: Path, *lines: str) -> None:
    """Add lines at the end, in the place of what they were set to before."""
    keys = [line.split("=")[0].strip() for line in lines]
    kept = [line for line in path.read_text().splitlines() if line.split("=")[0].strip() not in keys]
    path.write_text("\n".join([*kept, *lines]) + "\n")


def reload(gateway: Gateway, volume: Served, *words: str) -> Ran:
    return gateway.iraid("config", "reload", "v0", "--json", *words, "--socket", volume.control)


def changes(listed: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {change["key"]: (change["before"], change["after"]) for change in listed}


@contextmanager
def writing(volume: Served) -> Iterator[Callable[[int], None]]:
    """Writes and verifies without a pause; what it yields waits until so many more were done.  An error ends it."""
    handle, stop, done, failure = volume.connect(), threading.Event(), 0, None

    def work() -> None:
        nonlocal done, failure
        try:
            while not stop.is_set():
                offset, data = done % 64 * BLOCK, bytes([done % 251]) * BLOCK
                handle.pwrite(data, offset)
                assert handle.pread(BLOCK, offset) == data
                done += 1
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failure = error

    def more(count: int) -> None:
        until = done + count
        wait_until(lambda: failure is not None or done >= until, f"{count} more writes")
        if failure is not None:
            raise failure

    thread = threading.Thread(target=work)
    thread.start()
    try:
        more(10)
        yield more
        more(10)
    finally:
        stop.set()
        thread.join(60)


def test_a_reload_applies_what_it_can_while_io_goes_on(gateway: Gateway, farm: TargetFarm) -> None:
    path = create(gateway, farm)
    edit(path, "# mine", "give_up = 4s")
    with gateway.serve("v0") as volume, writing(volume) as more:
        assert reload(gateway, volume).json["volumes"][0]["applied"] == []
        edit(path, "give_up = 1s", "hedge = 0", "sync_rate_max = 2M", "sync_rate_min = 1M", "queue_limit = 3s")
        ran = reload(gateway, volume)
        assert ran.status == 0, ran
        answer = ran.json["volumes"][0]
        assert answer["running"] and not answer["pending"]
        assert changes(answer["applied"]) == {
            "give_up": ("4s", "1s"),
            "hedge": ("500ms", "0"),
            "queue_limit": ("25s", "3s"),
            "sync_rate_max": ("1G", "2M"),
            "sync_rate_min": ("10M", "1M"),
        }
        more(20)
        status = volume.status()
        assert (status["sync_rate_min_bytes"], status["sync_rate_max_bytes"]) == (1 << 20, 2 << 20)
        # The sessions are those of before: none was lost, none logged in again.
        assert all(member["errors"] == 0 and member["link"] == "open" for member in status["members"])
        # It is the engine that has it: the wait for a silent member is a second now, not four.
        farm.stop(2)
        volume.wait_status(lambda status: status["state"] == "degraded", "the silent member to be left out", 3.5)
        farm.cont(2)
    assert "# mine" in path.read_text()


def test_a_file_with_a_fault_changes_nothing_and_is_named(gateway: Gateway, farm: TargetFarm) -> None:
    path = create(gateway, farm)
    with gateway.serve("v0") as volume:
        volume.connect()
        edit(path, "sync_rate_max = 20M", "give_up = 5")
        line = len(path.read_text().splitlines())
        ran = reload(gateway, volume)
        assert ran.status == 1
        assert f'{path}:{line}: give_up: "5" has no unit' in ran.err and "nothing was changed" in ran.err
        assert "remedy: write 500ms, 5s" in ran.err
        assert volume.status()["sync_rate_max_bytes"] == 1 << 30
        checked = gateway.iraid("config", "check")
        assert (checked.status, checked.out) == (
            1,
            f'{path}:{line}: give_up: "5" has no unit; write 500ms, 5s, 2min, 1h or 1d\n',
        )
        # A reload of all looks at all files first.
        edit(path, "give_up = 5s")
        (gateway.config / "gateway.conf").write_text("[volumes]\nhegde = 1s\n")
        ran = gateway.iraid("config", "reload", "--socket", volume.control)
        assert ran.status == 1 and "gateway.conf:2: hegde: " in ran.err and "did you mean hedge?" in ran.err
        assert volume.status()["sync_rate_max_bytes"] == 1 << 30
        (gateway.config / "gateway.conf").write_text("[volumes]\nhedge = 1s\n")
        ran = gateway.must("config", "reload", "--socket", volume.control)
        assert "sync_rate_max is 20M, was 1G." in ran.out and "hedge is 1s, was 500ms." in ran.out
    shown = gateway.must("config", "show", "v0").out
    assert "gateway.conf:2" in next(line for line in shown.splitlines() if line.startswith("hedge"))


def test_what_can_not_be_applied_is_named_with_what_to_do(gateway: Gateway, farm: TargetFarm) -> None:
    path = create(gateway, farm)
    with gateway.serve("v0") as volume, writing(volume):
        edit(path, "initiator = iqn.2026-01.org.iraid:other", "error_limit = 3")
        path.write_text(path.read_text().replace(f"member = {farm.member(2)}\n", f"member = {farm.member(3)}\n"))
        for again in (False, True):  # it stays on the list
            ran = reload(gateway, volume)
            assert ran.status == 3, ran
            answer = ran.json["volumes"][0]
            assert changes(answer["applied"]) == ({} if again else {"error_limit": ("64", "3")})
            pending = {
                (change["key"], change["before"] or change["after"]): change["remedy"] for change in answer["pending"]
            }
            assert "iraid stop" in pending.pop(("initiator", gateway_initiator(volume)))
            assert "iraid remove" in pending.pop(("member", farm.member(2)))
            assert "iraid add-spare" in pending.pop(("member", farm.member(3)))
            assert not pending
        assert {member["member"] for member in volume.status()["members"]} == set(farm.members()[:3])
        events = [
            event
            for event in call(volume.control, "events", name="v0")["events"]
            if event["kind"].startswith("configuration")
        ]
        assert {(event["kind"], event["severity"]) for event in events} == {
            ("configuration changed", "notice"),
            ("configuration differs", "warning"),
        }
        assert any('error_limit: "64" is now "3"' in event["text"] for event in events)
        shown = gateway.iraid("config", "reload", "v0", "--socket", volume.control).out
        assert f"member {farm.member(3)} was added: not applied; remove the line" in shown


def gateway_initiator(volume: Served) -> str:
    return call(volume.control, "volume.path", name="v0")["initiator"]


def test_a_new_secret_is_used_from_the_next_login_on(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    farm = make_farm(3)
    path = create(gateway, farm)
    chap = tmp_path / "chap"
    chap.write_text(f"operator\n{SECRET}\n")
    chap.chmod(0o644)
    with gateway.serve("v0") as volume, writing(volume) as more:
        edit(path, f"chap_file = {chap}")
        ran = reload(gateway, volume)
        assert ran.status == 1 and str(chap) in ran.err and SECRET not in ran.err
        chap.chmod(0o600)
        ran = reload(gateway, volume)
        assert ran.status == 0, ran
        assert ran.json["volumes"][0]["applied"][0]["when"] == "at the next login to each member"
        more(10)
        assert all(member["errors"] == 0 for member in volume.status()["members"])
        # The target wants the secret from now on, and loses its session.
        farm.set_chap(1, "operator", SECRET)
        farm.kill(1)
        volume.wait_status(lambda status: status["state"] == "degraded", "the member to be left out")
        farm.restart(1)
        volume.wait_status(lambda status: status["state"] == "active", "the member to be back with its secret")
    assert SECRET not in gateway.logs()


def test_a_further_portal_is_tried_from_the_next_login_on(gateway: Gateway, farm: TargetFarm) -> None:
    path = create(gateway, farm)
    nowhere = f"127.0.0.9:{farm.portal(0).rpartition(':')[2]}"
    there, iqn_and_lun = farm.member(0).split("/", 1)
    edit(path, "assembly_wait = 1s")
    path.write_text(path.read_text().replace(f"{there}/", f"{nowhere}/"))
    with gateway.serve("v0") as volume, writing(volume) as more:
        assert volume.status()["state"] == "degraded"
        path.write_text(path.read_text().replace(f"{nowhere}/", f"{nowhere},{there}/"))
        ran = reload(gateway, volume)
        assert changes(ran.json["volumes"][0]["applied"]) == {
            "member": (f"{nowhere}/{iqn_and_lun}", f"{nowhere},{there}/{iqn_and_lun}")
        }
        status = volume.wait_status(lambda status: status["state"] == "active", "the member to be reached")
        assert status["members"][0]["portals"] == [nowhere, there]
        more(10)


def test_a_new_volume_has_what_the_gateway_says_of_all(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    farm = make_farm(3)
    chap = tmp_path / "chap"
    chap.write_text(f"operator\n{SECRET}\n")
    chap.chmod(0o600)
    for number in range(3):
        farm.set_chap(number, "operator", SECRET)
    refused = gateway.iraid("create", "v0", "--level", "5", *farm.members())
    assert refused.status == 1, refused
    (gateway.config / "gateway.conf").write_text(f"[volumes]\nchap_file = {chap}\ngive_up = 8s\n")
    assert farm.iqn(0) in gateway.must("discover", farm.portal(0)).out
    gateway.create("v0", farm.members())
    assert gateway.status("v0")["state"] == "active"
    values = gateway.configuration("v0")
    assert (values["chap_file"], values["give_up_seconds"]) == (str(chap), 8)
    # It is the gateway's still, not copied into the file.
    (gateway.config / "gateway.conf").write_text(f"[volumes]\nchap_file = {chap}\ngive_up = 9s\n")
    assert "give_up is 9s, was 8s." in gateway.must("config", "reload").out


@pytest.mark.parametrize("running", [True, False])
def test_the_handler_keeps_what_is_written_under_the_lock_of_the_files(
    gateway: Gateway, farm: TargetFarm, running: bool
) -> None:
    file = create(gateway, farm)
    if running:
        gateway.must("start", "v0")
    with (gateway.folder / "run/volumes.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = file.read_text()
        words = [IRAID, "set", "v0", "--rate-min", "20M"]
        setting = subprocess.Popen(words, env=gateway.environment(), stdout=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            setting.wait(2)
        file.write_text(text + "give_up = 7s\n")
    assert setting.wait(30) == 0
    lines = file.read_text().splitlines()
    assert "give_up = 7s" in lines and any(line.startswith("sync_rate_min = 20") for line in lines)


def test_show_and_check_need_no_handler(gateway: Gateway, farm: TargetFarm) -> None:
    path = create(gateway, farm)
    gateway.stop()
    assert gateway.must("config", "check").out == "No faults in 1 file.\n"
    shown = gateway.must("config", "show", "v0", "--json").json
    assert shown["values"]["members"] == farm.members()[:3]
    assert gateway.must("config", "show", "--json").json["exporter"] == {"address": "127.0.0.1", "port": 9723}
    missing = gateway.iraid("config", "show", "v9")
    assert missing.status == 1 and 'there is no volume "v9"' in missing.err
    assert gateway.iraid("config", "check", "v9").status == 1
    # A copy is a volume with somebody else's members.
    (gateway.config / "volumes/v1.conf").write_bytes(path.read_bytes())
    path.chmod(0o666)
    faults = gateway.iraid("config", "check", "--json").json["faults"]
    assert {fault["key"] for fault in faults} == {"uuid", "member", ""}
    assert any("mode 0666" in fault["what"] for fault in faults)
    assert {os.path.basename(fault["file"]) for fault in faults} == {"v0.conf", "v1.conf"}
    (gateway.config / "gateway.conf").write_text("[notify]\nmail = a b\n")
    ran = gateway.iraid("config", "show")
    assert ran.status == 1 and "gateway.conf:2: mail: " in ran.err
    reloaded = gateway.iraid("config", "reload")  # the handler is not there
    assert reloaded.status == 1 and "control socket" in reloaded.err


@pytest.mark.parametrize("name", ["x" * 64, "x" * 5000, "", "a b", "../v0", "none"], ids=lambda name: name[:8])
def test_a_check_of_a_name_that_no_volume_has_is_an_error(gateway: Gateway, name: str) -> None:
    ran = gateway.iraid("config", "check", name)
    assert ran.status == 1 and len(ran.out) < 300
    assert name[:80] in ran.out and "; " in ran.out
    faults = gateway.iraid("config", "check", name, "--json").json["faults"]
    assert len(faults) == 1
