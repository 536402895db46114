"""A LUN of a pair of gateways, on the one that this machine is: what LIO has of it, and what initiators are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iraid_dev.stack.gateway import attempt_iraid, iraid
from iraid_dev.stack.tools import run

SAVED = Path("/etc/rtslib-fb-target/saveconfig.json")
TARGETS = Path("/sys/kernel/config/target")
OPTIMIZED, STANDBY = 0, 2


def pair_of(volume: str) -> Path:
    (core,) = TARGETS.glob(f"core/user_*/{volume}/alua")
    return core


def number(group: Path) -> int:
    return int((group / "tg_pt_gp_id").read_text())


def port_ids(iqn: str) -> list[int]:
    """Relative target port identifiers of tpg1 and tpg2, as this kernel gave them."""
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
    assert ids[0] < ids[1]
    saved = json.loads(SAVED.read_text())
    (storage,) = (s for s in saved["storage_objects"] if s["name"] == volume.name)
    states = {group["name"]: group["alua_access_state"] for group in storage["alua_tpgs"]}
    assert states["iraid_here"] == states["iraid_peer"] == STANDBY
    assert storage["attributes"]["emulate_pr"] == 0

    run("targetctl", "clear")
    assert not list(TARGETS.glob("core/user_*/*/alua"))
    run("targetctl", "restore")

    assert tree(volume.iqn) == before
    assert [number(pair_of(volume.name) / name) for name in ("iraid_here", "iraid_peer")] == [2, 1]
    assert port_ids(volume.iqn) == ids
    for name in ("iraid_here", "iraid_peer"):
        assert (pair_of(volume.name) / name / "alua_access_type").read_text().strip() == "Implicit"
    volume.login()
    status, text = attempt_iraid("doctor")
    assert "tpg1" not in text and "is disabled" not in text, text
    again = json.loads(iraid("export", volume.name, "--iqn", volume.iqn, "--no-chap", "--json"))
    assert again["changes"] == [] and again["pair"] == 2 and not again["reservations"]
    volume.logout()
    volume.unexport()
    assert not list(TARGETS.glob(f"core/user_*/{volume.name}"))
