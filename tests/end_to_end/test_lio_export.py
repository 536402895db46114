"""LUNs made by `iraid export` and by targetcli alone."""

from __future__ import annotations

import json
from pathlib import Path

import initiator
from load import Fio
from tools import IRAID, free_port, run

SAVED = Path("/etc/rtslib-fb-target/saveconfig.json")


def saved_names() -> set[str]:
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return ({s["name"] for s in saved.get("storage_objects", [])}
            | {t["wwn"] for t in saved.get("targets", [])})


def lio_tree() -> str:
    """targetcli's picture, without the warning it gives when HOME is new."""
    return "\n".join(line for line in run("targetcli", "ls").splitlines()
                     if not line.startswith("Warning:"))


def test_export_and_unexport_are_a_round_trip(gateway, lio_members):
    volume = gateway.create(5, lio_members(3))
    before = lio_tree()
    names_before = saved_names()

    volume.iqn = "iqn.2026-01.org.iraid.test:round-trip"
    volume.portal = f"127.0.0.1:{free_port()}"
    run(IRAID, "export", volume.name, "--iqn", volume.iqn, "--portal", volume.portal,
        "--acl", initiator.name())
    assert volume.iqn in run("targetcli", "ls", "/iscsi")
    assert volume.iqn in saved_names()
    Fio(volume.login(), rw="write", bs="64k", size="4M").result()
    iqn = volume.iqn
    volume.logout()
    run(IRAID, "unexport", volume.name)
    volume.iqn = ""

    assert lio_tree() == before
    assert iqn not in saved_names() and saved_names() == names_before
    run(IRAID, "stop", volume.name)
    run(IRAID, "start", volume.name)


def test_targetcli_alone_makes_a_lun_that_works_and_goes(gateway, lio_members):
    """As the manual says it: backstore, target, LUN, ACL, saveconfig."""
    volume = gateway.create(5, lio_members(3))
    size = volume.status()["size_bytes"]
    iqn, port = "iqn.2026-01.org.iraid.test:by-hand", free_port()

    run("targetcli", "/backstores/user:iraid", "create", f"name={volume.name}", f"size={size}",
        f"cfgstring={volume.name}", "hw_max_sectors=2048")
    try:
        run("targetcli", "set", "global", "auto_add_default_portal=false")
        run("targetcli", "/iscsi", "create", iqn)
        group = f"/iscsi/{iqn}/tpg1"
        run("targetcli", f"{group}/luns", "create", f"/backstores/user:iraid/{volume.name}")
        run("targetcli", f"{group}/acls", "create", initiator.name())
        run("targetcli", f"{group}/portals", "create", "127.0.0.1", str(port))
        run("targetcli", "saveconfig")
        assert {volume.name, iqn} <= saved_names()

        disk = gateway.initiator.login(iqn, f"127.0.0.1:{port}")
        assert disk.size_bytes == size
        Fio(disk, rw="randwrite", bs="16k", size="8M", iodepth=8).result()
        gateway.initiator.logout(disk)
    finally:
        gateway.initiator.logout_all(iqn)
        if iqn in run("targetcli", "ls", "/iscsi"):
            run("targetcli", "/iscsi", "delete", iqn)
        run("targetcli", "/backstores/user:iraid", "delete", volume.name)
