"""A LUN of a pair of gateways, on the one that this machine is: what LIO has of it, and what initiators are told."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from disk_bytes import get, put
from scsi_answers import IDENTIFICATION, ask_whether_ready, is_not_ready, page, port_numbers, raw, tpgs

from iraid_dev.stack.gateway import attempt_iraid, iraid
from iraid_dev.stack.private_gateway import Gateway as PrivateGateway
from iraid_dev.stack.tools import attempt, run, wait_for

SAVED = Path("/etc/rtslib-fb-target/saveconfig.json")
TARGETS = Path("/sys/kernel/config/target")
OPTIMIZED, STANDBY = 0, 2
UNIT_ATTENTION = 6  # exit status of sg3-utils
TEST_UNIT_READY, READ_10 = "00 00 00 00 00 00", "28 00 00 00 00 00 00 00 08 00"


def pair_of(volume: str) -> Path:
    (core,) = TARGETS.glob(f"core/user_*/{volume}/alua")
    return core


def number(group: Path) -> int:
    return int((group / "tg_pt_gp_id").read_text())


def port_ids(iqn: str) -> list[int]:
    """Relative target port identifiers of tpg1 and tpg2 that the kernel gave them for this volume's sake; none where it
    numbers enabled portal groups (from 6.4 on), for all targets of a machine have a share in those numbers.
    """
    if (TARGETS / f"iscsi/{iqn}/tpgt_1/rtpi").exists():
        return []
    return [
        int((TARGETS / f"iscsi/{iqn}/tpgt_{tag}/lun/lun_0/statistics/scsi_port/indx").read_text()) for tag in (1, 2)
    ]


def tree(iqn: str) -> dict[int, tuple[str, list[str], str]]:
    """Of each portal group: enabled, portals, the target port group of its LUN."""
    return {
        tag: (
            (TARGETS / f"iscsi/{iqn}/tpgt_{tag}/enable").read_text().strip(),
            sorted(path.name for path in TARGETS.glob(f"iscsi/{iqn}/tpgt_{tag}/np/*")),
            (TARGETS / f"iscsi/{iqn}/tpgt_{tag}/lun/lun_0/alua_tg_pt_gp").read_text().splitlines()[0].split()[-1],
        )
        for tag in (1, 2)
    }


@pytest.mark.timeout(600)
def test_a_pair_comes_back_from_the_saved_configuration_as_it_was(gateway, farm):
    """As at a boot, from which both groups come up on standby, whatever was saved."""
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "2")
    before = tree(volume.iqn)
    assert before == {1: ("0", [], "iraid_peer"), 2: ("1", [volume.portal], "iraid_here")}
    assert [number(pair_of(volume.name) / name) for name in ("iraid_here", "iraid_peer")] == [2, 1]
    ids = port_ids(volume.iqn)
    assert ids == sorted(set(ids))
    saved = json.loads(SAVED.read_text())
    (storage,) = (s for s in saved["storage_objects"] if s["name"] == volume.name)
    states = {group["name"]: group["alua_access_state"] for group in storage["alua_tpgs"]}
    assert states["iraid_here"] == states["iraid_peer"] == STANDBY
    assert storage["attributes"]["emulate_pr"] == 0
    (target,) = (t for t in saved["targets"] if t["wwn"] == volume.iqn)
    assert [group["tag"] for group in target["tpgs"]] == [1, 2]  # the order in which they are made again

    run("targetctl", "clear")
    assert not list(TARGETS.glob("core/user_*/*/alua"))
    run("targetctl", "restore")

    assert tree(volume.iqn) == before
    assert [number(pair_of(volume.name) / name) for name in ("iraid_here", "iraid_peer")] == [2, 1]
    assert port_ids(volume.iqn) == ids
    for name in ("iraid_here", "iraid_peer"):
        assert (pair_of(volume.name) / name / "alua_access_type").read_text().strip() == "Implicit"
    disk = volume.login().path
    ask_whether_ready(disk)
    assert port_numbers(disk) == ([2], [2])  # whatever the kernel has
    assert set(reported(disk)) == {1, 2}
    status, text = attempt_iraid("doctor")
    assert "tpg1" not in text and "is disabled" not in text, text
    again = json.loads(iraid("export", volume.name, "--iqn", volume.iqn, "--no-chap", "--json"))
    assert again["changes"] == [] and again["pair"] == 2 and not again["reservations"]
    volume.logout()
    volume.unexport()
    assert not list(TARGETS.glob(f"core/user_*/{volume.name}"))


# --- by whose paths initiators come ---


def states(volume: str) -> tuple[int, int]:
    """Of this gateway's group, and of the other one's, as the kernel has them."""
    return tuple(
        int((pair_of(volume) / name / "alua_access_state").read_text()) for name in ("iraid_here", "iraid_peer")
    )


def reported(disk: str) -> dict[int, str]:
    """State of each target port group, by REPORT TARGET PORT GROUPS; with the identifier of its one port."""
    text = run("sg_rtpg", "--decode", disk)
    found = re.findall(
        r"target port group id : 0x(\d) , Pref=0.*?asymmetric access state : 0x[0-9a-f]+\s+\((.*?)\)"
        r".*?Relative target port ids:\s+0x0?(\d)",
        text,
        re.DOTALL,
    )
    assert found, text
    assert all(group == port for group, _, port in found), text
    return {int(group): state for group, state, _ in found}


def hear_of_the_change_once(disk: str) -> None:
    status, text = ask_whether_ready(disk)
    assert status == UNIT_ATTENTION and "symmetric access state changed" in text, (status, text)
    assert ask_whether_ready(disk)[0] != UNIT_ATTENTION


def is_refused(disk: str) -> None:
    for cdb, options in ((TEST_UNIT_READY, ()), (READ_10, ("-r", "4096"))):
        status, text = raw(disk, cdb, *options)
        assert is_not_ready(status) and "standby" in text.lower(), (cdb, status, text)


@pytest.mark.timeout(600)
def test_initiators_are_told_who_serves_a_volume_and_of_each_change_once(gateway, farm):
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "1")
    disk = volume.login().path
    ask_whether_ready(disk)  # hears of the new session, or of what came before it
    ask_whether_ready(disk)
    assert tpgs(disk) == 1
    identity = page(disk, IDENTIFICATION)
    assert port_numbers(disk) == ([1], [1])
    assert states(volume.name) == (OPTIMIZED, STANDBY)
    here, peer = "active/optimized", "standby"
    assert reported(disk) == {1: here, 2: peer}

    iraid("standby", volume.name)
    assert states(volume.name) == (STANDBY, OPTIMIZED)
    hear_of_the_change_once(disk)
    is_refused(disk)
    assert reported(disk) == {1: peer, 2: here}
    assert page(disk, IDENTIFICATION) == identity

    gateway.runner.kill()
    gateway.runner.start()
    wait_for(lambda: volume.status()["role"] == "standby", "the runner to have the volume")
    wait_for(lambda: is_not_ready(ask_whether_ready(disk)[0]), "the LUN to be back")
    is_refused(disk)
    assert states(volume.name) == (STANDBY, OPTIMIZED)

    iraid("activate", volume.name)
    assert states(volume.name) == (OPTIMIZED, STANDBY)
    hear_of_the_change_once(disk)
    assert reported(disk) == {1: here, 2: peer}
    put(disk, b"active" * 1000, 0)
    assert get(disk, 6000, 0) == b"active" * 1000

    gateway.runner.kill()  # an active one stays so: no path changes
    gateway.runner.start()
    wait_for(lambda: ask_whether_ready(disk)[0] == 0, "the LUN to be back")
    assert states(volume.name) == (OPTIMIZED, STANDBY)


@pytest.mark.timeout(600)
def test_a_gateway_that_is_fenced_off_sends_initiators_away(gateway, farm, memory_folder):
    """The other one is of this kernel, too, but has no LUN."""
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "1")
    disk = volume.login().path
    ask_whether_ready(disk)
    ask_whether_ready(disk)
    other = PrivateGateway(memory_folder / "other", memory_folder / "sockets")
    try:
        other.machine = other.folder / "machine-id"
        other.machine.write_text("5b1c6a3f0d2e4c7f9a8b7c6d5e4f3a2b\n")
        lines = Path(f"/etc/iraid/volumes/{volume.name}.conf").read_text().splitlines(keepends=True)
        (other.config / "volumes").mkdir(mode=0o700)
        (other.config / f"volumes/{volume.name}.conf").write_text(
            "".join(line for line in lines if not line.startswith("initiator"))
        )
        other.start()
        other.must("standby", volume.name)
        other.must("activate", volume.name, "--take-over", seconds=120)

        def is_fenced() -> bool:
            raw(disk, READ_10, "-r", "4096")  # it finds out by what it asks of the members
            return states(volume.name) == (STANDBY, OPTIMIZED)

        wait_for(is_fenced, "the paths to be those of the other gateway")
        ask_whether_ready(disk)  # hears of it, if the read did not
        is_refused(disk)
        assert reported(disk) == {1: "standby", 2: "active/optimized"}
        wait_for(lambda: volume.status()["role"] == "standby", "it to be on standby")
        other.must("standby", volume.name)
    finally:
        other.stop()
        shutil.rmtree(other.folder), shutil.rmtree(other.sockets)
    assert states(volume.name) == (STANDBY, OPTIMIZED)
    iraid("activate", volume.name)
    assert states(volume.name) == (OPTIMIZED, STANDBY)
    hear_of_the_change_once(disk)


@pytest.mark.timeout(600)
def test_groups_follow_the_role_also_where_somebody_else_wrote_them(gateway, farm):
    """A restore at boot makes them after the LUN was opened; targetcli may write what it likes."""
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "2")
    assert states(volume.name) == (OPTIMIZED, STANDBY)  # export waits for that
    (pair_of(volume.name) / "iraid_here/alua_access_state").write_text("2\n")
    wait_for(lambda: states(volume.name) == (OPTIMIZED, STANDBY), "the state to be written again")
    iraid("standby", volume.name)
    run("targetctl", "clear")
    run("targetctl", "restore")
    wait_for(lambda: states(volume.name) == (STANDBY, OPTIMIZED), "the state of standby")
    iraid("activate", volume.name)
    assert states(volume.name) == (OPTIMIZED, STANDBY)
    run("targetctl", "clear")
    run("targetctl", "restore")
    wait_for(lambda: states(volume.name) == (OPTIMIZED, STANDBY), "the state of an active volume")


@pytest.mark.timeout(600)
def test_what_a_pair_refuses_and_what_standby_answers(gateway, farm):
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "1")
    disk = volume.login().path
    ask_whether_ready(disk)
    ask_whether_ready(disk)
    for words in (("--out", "--register", "--param-sark=0x1234"), ("--in", "--read-keys")):
        status, text = attempt("sg_persist", "--no-inquiry", *words, disk)
        assert status != 0 and "Invalid opcode" in text, text
    _, text = attempt("sg_stpg", "--tp=1,2", "--state=s,o", disk)  # its status is 0 whatever happens
    assert "Invalid opcode" in text
    assert states(volume.name) == (OPTIMIZED, STANDBY)
    mode = raw(disk, "1a 00 0a 00 40 00", "-r", "64")
    iraid("standby", volume.name)
    hear_of_the_change_once(disk)
    assert raw(disk, "1a 00 0a 00 40 00", "-r", "64") == mode
    for cdb in ("15 10 00 00 00 00", "12 00 00 00 60 00", "03 00 00 00 12 00", "25 00 00 00 00 00 00 00 00 00"):
        status, text = raw(disk, cdb, "-r", "96") if cdb[:2] != "15" else raw(disk, cdb)
        assert status == 0, (cdb, status, text)
    assert raw(disk, "a0 00 00 00 00 00 00 00 00 40 00 00", "-r", "64")[0] == 0


@pytest.mark.timeout(600)
def test_a_state_that_the_kernel_refuses_is_told_once_with_a_remedy(gateway, farm):
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "1")

    def told() -> list[str]:
        return [e["text"] for e in json.loads(iraid("events", "--json"))["events"] if e["kind"] == "paths"]

    (pair_of(volume.name) / "iraid_here/alua_access_type").write_text("0\n")  # by somebody's hand
    iraid("standby", volume.name)
    (text,) = wait_for(told, "an event")
    assert f"iraid unexport {volume.name}" in text and "dmesg" in text
    iraid("standby", volume.name)  # looks again
    assert told() == [text]
    (pair_of(volume.name) / "iraid_here/alua_access_type").write_text("1\n")
    wait_for(lambda: states(volume.name) == (STANDBY, OPTIMIZED), "the state to be written after all")


@pytest.mark.timeout(600)
def test_a_lun_without_groups_tells_of_none(gateway, farm):
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    disk = volume.login().path
    assert tpgs(disk) == 0
    assert port_numbers(disk) == ([], [])
    assert attempt("sg_rtpg", disk)[0] != 0
