"""LUNs made by `iraid export` and by targetcli alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from scsi_answers import ask_whether_ready

from iraid_dev.stack import initiator
from iraid_dev.stack.load import Fio
from iraid_dev.stack.tools import IRAID, attempt, free_port, run

SAVED = Path("/etc/rtslib-fb-target/saveconfig.json")


def saved_names() -> set[str]:
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return {s["name"] for s in saved.get("storage_objects", [])} | {t["wwn"] for t in saved.get("targets", [])}


def lio_tree() -> str:
    """targetcli's picture, without the warning it gives when HOME is new."""
    return "\n".join(line for line in run("targetcli", "ls").splitlines() if not line.startswith("Warning:"))


def targetcli(*orders: str) -> None:
    """One targetcli for all orders; it starts slowly, and tells mistakes by words only."""
    done = subprocess.run(
        ["targetcli"], input="\n".join(orders) + "\n", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and not done.stderr.strip(), done.stdout + done.stderr


def test_export_and_unexport_are_a_round_trip(gateway, lio_members):
    volume = gateway.create(5, lio_members(3))
    before = lio_tree()
    names_before = saved_names()

    volume.iqn = "iqn.2026-01.org.iraid.test:round-trip"
    volume.portal = f"127.0.0.1:{free_port()}"
    run(
        IRAID,
        "export",
        volume.name,
        "--iqn",
        volume.iqn,
        "--portal",
        volume.portal,
        "--acl",
        initiator.name(),
        "--no-chap",
    )
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

    group = f"/iscsi/{iqn}/tpg1"
    targetcli(
        "set global auto_add_default_portal=false",
        f"/backstores/user:iraid create name={volume.name} size={size} cfgstring={volume.name} hw_max_sectors=2048",
        f"/iscsi create {iqn}",
        f"{group}/luns create /backstores/user:iraid/{volume.name}",
        f"{group}/acls create {initiator.name()}",
        f"{group}/portals create 127.0.0.1 {port}",
        "saveconfig",
    )
    try:
        assert {volume.name, iqn} <= saved_names()
        disk = gateway.initiator.login(iqn, f"127.0.0.1:{port}")
        assert disk.size_bytes == size
        Fio(disk, rw="randwrite", bs="16k", size="8M", iodepth=8).result()
    finally:
        gateway.initiator.logout_all(iqn)
        targetcli(f"/iscsi delete {iqn}", f"/backstores/user:iraid delete {volume.name}")
    assert not {volume.name, iqn} & saved_names()


def test_a_registration_that_outlives_a_power_loss_is_taken(gateway, lio_members):
    """LIO keeps it in a file, in a folder that it does not make."""
    volume = gateway.create(5, lio_members(3))
    disk = volume.login()
    ask_whether_ready(disk.path)  # hears of the new session
    register = ("sg_persist", "--no-inquiry", "--out", "--register", "--param-aptpl")

    run(*register, "--param-sark=0x1234abcd", disk.path)

    assert "0x1234abcd" in run("sg_persist", "--no-inquiry", "--in", "--read-keys", disk.path)
    kept = Path("/etc/rtslib-fb-target/pr", f"aptpl_{volume.status()['uuid']}")
    assert "sa_res_key=" in kept.read_text()
    run(*register, "--param-rk=0x1234abcd", "--param-sark=0", disk.path)


def test_digests_that_are_required_are_used_or_nobody_gets_in(gateway, lio_members):
    """open-iscsi offers none, then both; the session says what was agreed on."""
    volume = gateway.create(5, lio_members(3))
    volume.iqn = "iqn.2026-01.org.iraid.test:digests"
    volume.portal = f"127.0.0.1:{free_port()}"
    target = ("--iqn", volume.iqn, "--portal", volume.portal, "--acl", initiator.name(), "--no-chap")
    shown = run(IRAID, "export", volume.name, *target, "--header-digest", "required", "--data-digest", "required")
    assert "header required, data required" in shown
    node = ("iscsiadm", "-m", "node", "-T", volume.iqn, "-p", volume.portal)
    try:
        run(*node, "-o", "new")
        assert attempt(*node, "--login", seconds=60)[0] != 0
        for digest in ("HeaderDigest", "DataDigest"):
            run(*node, "-o", "update", "-n", f"node.conn[0].iscsi.{digest}", "-v", "CRC32C")
        run(*node, "--login")
        agreed = run("iscsiadm", "-m", "session", "-P", "2")
        assert "HeaderDigest: CRC32C" in agreed and "DataDigest: CRC32C" in agreed
        run(*node, "--logout")
    finally:
        attempt(*node, "--logout", seconds=60)
        attempt(*node, "-o", "delete")
        run(IRAID, "unexport", volume.name)
        volume.iqn = ""
