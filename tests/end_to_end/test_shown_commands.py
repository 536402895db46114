"""Commands of the documentation that need LIO, tcmu-runner and open-iscsi, typed as they are shown.

The addresses are those of the pages, on this machine's loopback; the members are four portal groups of one LIO
target, each with its own address, so that 10.0.0.1/iqn.2026-01.org.example:disk/0 means what it says.

    scripts/lab tests/end_to_end/test_shown_commands.py -m long
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docs.shown import Block, blocks

from iraid_dev.stack import initiator
from iraid_dev.stack.tools import IRAID, ROOT, attempt, run


pytestmark = [pytest.mark.long, pytest.mark.timeout(420)]

MEMBERS, DEVICES = 4, 6
TARGET = "iqn.2026-01.org.example:disk"
EXPORTED = "iqn.2026-01.org.example:v0"
INITIATOR = "iqn.1993-08.org.debian:01:abc"
ADDRESSES = [*(f"10.0.0.{number}/32" for number in range(1, DEVICES + 1)), "10.1.0.9/32"]
BLOCK_SECONDS_MAX = 180


@pytest.fixture(scope="module")
def network() -> Iterator[None]:
    for address in ADDRESSES:
        run("ip", "address", "add", address, "dev", "lo")
    run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth1-peer")
    yield
    run("ip", "link", "delete", "eth1")
    for address in ADDRESSES:
        run("ip", "address", "delete", address, "dev", "lo")


@pytest.fixture
def members(network: None, memory_folder: Path) -> Iterator[None]:
    import rtslib_fb as rtslib

    from iraid_dev.stack.lio_targets import OPEN_TO_ALL, PARAMETERS

    made = [rtslib.Target(rtslib.FabricModule("iscsi"), TARGET)]
    for number in range(1, DEVICES + 1):
        storage = rtslib.FileIOStorageObject(
            f"shown{number}", str(memory_folder / f"{number}.img"), size=96 << 20, write_back=True
        )
        group = rtslib.TPG(made[0], number)
        for name, value in OPEN_TO_ALL.items():
            group.set_attribute(name, value)
        for name, value in PARAMETERS.items():
            group.set_parameter(name, value)
        rtslib.LUN(group, 0, storage_object=storage)
        rtslib.NetworkPortal(group, f"10.0.0.{number}", 3260)
        group.enable = True
        made.append(storage)
    yield
    for one in made:
        one.delete()


@pytest.fixture
def type_block(tmp_path: Path) -> Callable[[Block], str]:
    """Type a block as root's shell would; returns what was said."""
    command = tmp_path / "iraid"
    command.write_text(f'#!/bin/sh\nexec /usr/bin/python3 {IRAID} "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin"}

    def typed(block: Block) -> str:
        done = subprocess.run(
            ["bash", "-exuo", "pipefail", "-c", block.text],
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BLOCK_SECONDS_MAX,
            check=False,
        )
        print(f"--- {block}\n{done.stdout}")
        assert done.returncode == 0, f"{block}: status {done.returncode}\n{done.stdout}"
        return done.stdout

    return typed


@pytest.fixture
def nothing_left(running_gateway: object, members: None) -> Iterator[None]:
    """Whatever a page made goes before the members do."""
    yield
    attempt("iscsiadm", "-m", "node", "-T", EXPORTED, "--logout")
    attempt("iscsiadm", "-m", "node", "-o", "delete")
    for words in (
        ["unexport", "v0", "--force"],
        ["remove", "--gateway", f"10.0.0.6/{TARGET}/0"],
        ["delete", "v0", "--yes"],
    ):
        attempt(IRAID, *words)


def lab_blocks(page: str, *headings: str) -> list[Block]:
    """Of these sections, or of all."""
    found = [block for block in blocks(ROOT / page) if block.where == "lab"]
    chosen = [block for block in found if not headings or block.heading in headings]
    assert chosen and {block.heading for block in chosen} >= set(headings), f"{page} has no such blocks"
    return chosen


def log_in(portal: str = "10.1.0.9") -> int:
    """As the page's initiator would, which here has another name; returns the LUN's size."""
    run(IRAID, "export", "v0", "--iqn", EXPORTED, "--acl", initiator.name(), "--portal", f"{portal}:3260", "--no-chap")
    return initiator.Initiator().login(EXPORTED, f"{portal}:3260").size_bytes


def test_what_the_readme_shows_works(running_gateway, members, nothing_left, type_block):
    page = lab_blocks("README.md")
    assert len(page) == 2
    said = type_block(page[0])
    assert "Volume v0 is made and started" in said
    # The gateway's own commands for a spare, a replacement, a scrub; the volume is in use.
    assert log_in() > 0
    type_block(page[1])
    volume = json.loads(run(IRAID, "status", "v0", "--json"))
    states = {member["member"].split(":")[0]: member["state"] for member in volume["members"]}
    assert states == {
        "10.0.0.1": "in sync",
        "10.0.0.6": "in sync",
        "10.0.0.3": "in sync",
        "10.0.0.4": "in sync",
        "10.0.0.5": "spare",
    }


def test_the_deployment_guide_sets_up_network_and_targets(network, type_block, tmp_path):
    for block in lab_blocks("docs/operating/deploy.md", "2. Network"):
        type_block(block)
    assert run("sysctl", "-n", "net.ipv4.tcp_slow_start_after_idle").strip() == "0"
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("modprobe", "loop")
    loop = run("losetup", "--find", "--show", image).strip()
    Path("/dev/vg0").mkdir(exist_ok=True)
    Path("/dev/vg0/iraid").symlink_to(loop)
    try:
        for block in lab_blocks("docs/operating/deploy.md", "4. Targets"):
            type_block(block)
        shown = run("targetcli", "ls", f"/iscsi/{TARGET}")
        assert "iqn.2026-01.org.example:gateway" in shown and "block/iraid" in shown
    finally:
        attempt("targetcli", "/iscsi", "delete", TARGET)
        attempt("targetcli", "/backstores/block", "delete", "iraid")
        attempt("targetcli", "saveconfig")
        Path("/dev/vg0/iraid").unlink()
        run("losetup", "-d", loop)


def use_chap(secrets: Path) -> None:
    """What the guide asks for in words, in iscsid.conf."""
    user, secret = secrets.read_text().split()
    path = Path("/etc/iscsi/iscsid.conf")
    settings = {"authmethod": "CHAP", "username": user, "password": secret}
    path.write_text(
        path.read_text() + "".join(f"node.session.auth.{key} = {value}\n" for key, value in settings.items())
    )


def test_the_deployment_guide_leads_from_volume_to_initiator(running_gateway, members, nothing_left, type_block):
    made = lab_blocks("docs/operating/deploy.md", "6. Make a volume", "7. Export it")
    said = "".join(type_block(block) for block in made)
    assert "Volume v0 is made and started" in said and EXPORTED in said and INITIATOR in said
    before = Path("/etc/iscsi/iscsid.conf").read_text()
    use_chap(Path("/etc/iraid/secrets/clients"))
    # The lab's initiator has a name of its own: one more, as the guide says.
    run(
        IRAID,
        "export",
        "v0",
        "--iqn",
        EXPORTED,
        "--portal",
        "10.1.0.9:3260",
        "--acl",
        initiator.name(),
        "--chap-file",
        "/etc/iraid/secrets/clients",
    )
    configuration = Path("/etc/multipath/conf.d/iraid.conf")
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text((ROOT / "config/multipath/iraid.conf").read_text())
    try:
        said = "".join(type_block(block) for block in lab_blocks("docs/operating/deploy.md", "8. Initiators"))
        assert "P-iRAID volume" in said and "group_by_prio" in said
    finally:
        configuration.unlink()
        Path("/etc/iscsi/iscsid.conf").write_text(before)


@pytest.mark.parametrize("heading", ["The gateway is dead, another one takes over", "LIO's configuration is lost"])
def test_what_recovery_exports_again_is_the_same_disk(running_gateway, members, nothing_left, type_block, heading):
    """The LUN is the same disk to an initiator: its serial number is the volume's."""
    run(IRAID, "create", "v0", "--level", "5", *(f"10.0.0.{number}/{TARGET}/0" for number in range(1, MEMBERS + 1)))
    run(IRAID, "export", "v0", "--iqn", EXPORTED, "--portal", "10.1.0.9:3260", "--acl", INITIATOR, "--no-chap")
    before = run("targetcli", "ls", f"/iscsi/{EXPORTED}")
    run(IRAID, "unexport", "v0")
    for block in lab_blocks("docs/operating/recovery.md", heading):
        type_block(block)
    assert run("targetcli", "ls", f"/iscsi/{EXPORTED}") == before
    disk_bytes = log_in()
    assert f'"size_bytes": {disk_bytes}' in run(IRAID, "status", "v0", "--json")


def test_all_pages_with_such_blocks_are_here():
    pages = {
        block.page for path in (ROOT / "docs/operating").glob("*.md") for block in blocks(path) if block.where == "lab"
    }
    assert pages == {"docs/operating/deploy.md", "docs/operating/recovery.md"}
    headings = {block.heading for block in lab_blocks("docs/operating/deploy.md")}
    assert headings == {"2. Network", "4. Targets", "6. Make a volume", "7. Export it", "8. Initiators"}
