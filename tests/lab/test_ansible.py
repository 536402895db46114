"""The Ansible role in a booted Debian with systemd and LIO: from nothing to a file system, then changes under it.

    scripts/test tests/lab/test_ansible.py -m long

Ansible runs on this machine; one guest is gateway, initiator and five backend hosts (four of LIO, one of tgt).  The
gateway is installed from the package: that of IRAID_PACKAGES, a folder, or one that is made first.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agent
import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
GUEST = HERE / "guest"
PROGRAMS = ("linux.uml", "ansible-playbook", "dh")
BOOT_SECONDS_MAX, LAB_SECONDS_MAX, PACKAGE_SECONDS_MAX = 120, 1800, 900
BACKENDS = tuple(f"backend{number}" for number in range(1, 6))
SECRETS = ("wolf-howls-42", "moon-rises-17", "deer-hides-23")
IQN = "iqn.2026-01.org.iraid.test:v0"
OLD = "127.0.0.4:3261/iqn.2026-01.org.iraid.test:backend4/0"
NEW = "127.0.0.5:3260/iqn.2026-01.org.iraid.test:backend5/1"
NODE = f"iscsiadm -m node -T {IQN} -p 127.0.0.9:3261"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)),
        reason=f"one of {', '.join(PROGRAMS)} is not installed; run scripts/deps --long",
    ),
    pytest.mark.timeout(PACKAGE_SECONDS_MAX + LAB_SECONDS_MAX),
]


@dataclass
class Guest:
    share: Path
    lab: subprocess.Popen[bytes]

    def alive(self) -> bool:
        return self.lab.poll() is None

    def attempt(self, command: str, seconds: float = 120) -> tuple[int, str]:
        status, out, errors = agent.call(self.share, command, seconds=seconds, alive=self.alive)
        return status, (out + errors).decode(errors="replace")

    def run(self, command: str, seconds: float = 120) -> str:
        status, said = self.attempt(f"set -e\n{command}", seconds)
        assert status == 0, f"{command}: {status}\n{said}"
        return said.strip()

    def status(self) -> dict[str, Any]:
        return json.loads(self.run("iraid status v0 --json"))

    def wait_until(self, good: Callable[[dict[str, Any]], bool], what: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not good(self.status()):
            assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}: {self.status()}"
            time.sleep(0.5)


@dataclass
class Controller:
    """This machine, with the inventory of tests/lab/ansible."""

    guest: Guest
    folder: Path
    variables: dict[str, Any]
    said: list[str] = field(default_factory=list)

    def play(self, step: str, *options: str, **changed: Any) -> int:
        """The sum of changed= of all hosts."""
        self.variables |= changed
        file = self.folder / "vars.json"
        file.write_text(json.dumps(self.variables))
        environment = os.environ | {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "packaging/ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": "/tmp/ansible",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "ansible/connection_plugins"),
            "IRAID_LAB_SHARE": str(self.guest.share),
        }
        begin = time.monotonic()
        done = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                str(HERE / "ansible/inventory.yml"),
                str(HERE / "ansible/site.yml"),
                "-e",
                f"@{file}",
                *options,
            ],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.said.append(done.stdout)
        assert done.returncode == 0, done.stdout
        changes = sum(map(int, re.findall(r" changed=(\d+)", done.stdout)))
        print(f"{step}: {time.monotonic() - begin:.1f} s, changed={changes}", flush=True)
        return changes


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get("IRAID_PACKAGES") or tmp_path_factory.mktemp("packages"))
    if not list(folder.glob("iraid_*.deb")):
        subprocess.run([str(ROOT / "scripts/package"), "deb", "--output", str(folder)], cwd=ROOT, check=True)
    (found,) = folder.glob("iraid_*.deb")
    return found


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    share = tmp_path / "share"
    share.mkdir()
    with (tmp_path / "lab.log").open("wb") as log:
        lab = subprocess.Popen(
            [
                str(ROOT / "scripts/lab"),
                "--systemd",
                "--memory",
                "2G",
                "--state",
                str(tmp_path / "lab"),
                "--share",
                str(share),
                "--timeout",
                str(LAB_SECONDS_MAX),
                "--",
                str(GUEST / "agent"),
                str(share),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
        )
    made = Guest(share, lab)
    try:
        agent.wait_for(share / "up", "the agent's start", BOOT_SECONDS_MAX, made.alive)
        yield made
    finally:
        (share / "end").touch()
        try:
            lab.wait(60)
        except subprocess.TimeoutExpired:
            lab.terminate()
            lab.wait()


@pytest.fixture
def controller(guest: Guest, package: Path, tmp_path: Path) -> Controller:
    client = guest.run("sed -n 's/^InitiatorName=//p' /etc/iscsi/initiatorname.iscsi")
    folder = tmp_path / "controller"
    folder.mkdir()
    return Controller(guest, folder, {"client_iqn": client, "package": str(package)})


def make_disks(guest: Guest) -> None:
    """Block devices of the backend hosts, which can be enlarged.

    What forbids packages to start services (containers have such a file) goes: it would leave tcmu-runner without its
    handler.
    """
    guest.run("rm -f /usr/sbin/policy-rc.d")
    guest.run("systemctl is-active --quiet tgt || systemctl start tgt; modprobe loop; mkdir -p /var/lib/members")
    for number in range(1, 5):
        guest.run(
            f"truncate -s 128M /var/lib/members/{number}.img; "
            f"[ -b /dev/loop{number} ] || mknod /dev/loop{number} b 7 {number}; "
            f"losetup /dev/loop{number} /var/lib/members/{number}.img"
        )


def check_discovery(guest: Guest) -> None:
    """It is for those who have its secret; LIO itself has it, for all targets."""
    discovery = "iscsiadm -m discoverydb -t st -p 127.0.0.9:3261"
    guest.run(f"{discovery} -o new")
    status, said = guest.attempt(f"{discovery} --discover")
    assert status != 0 and IQN not in said, said
    for name, value in (("authmethod", "CHAP"), ("username", "finders"), ("password", SECRETS[2])):
        guest.run(f"{discovery} -o update -n discovery.sendtargets.auth.{name} -v {value}")
    assert IQN in guest.run(f"{discovery} --discover -o nonpersistent")


def log_in(guest: Guest) -> str:
    """The disk; initiators are let in with the secret only."""
    guest.run(f"{NODE} -o new")
    status, said = guest.attempt(f"{NODE} --login")
    assert status != 0, said
    for name, value in (("authmethod", "CHAP"), ("username", "clients"), ("password", SECRETS[1])):
        guest.run(f"{NODE} -o update -n node.session.auth.{name} -v {value}")
    guest.run(f"{NODE} --login")
    deadline = time.monotonic() + 60
    find = (
        f"for s in /sys/class/iscsi_session/session*; do [ $(cat $s/targetname) != {IQN} ] || "
        "ls $s/device/target*/*/block; done"
    )
    while not (found := guest.attempt(find)[1].strip()).startswith("sd"):
        assert time.monotonic() < deadline, f"no disk of {IQN}: {found}"
    return f"/dev/{found}"


def check_sums(guest: Guest) -> None:
    guest.run("cd /mnt/v0 && sha256sum --quiet -c /tmp/sums")


def test_from_nothing_to_a_file_system_and_changes_under_it(controller: Controller, guest: Guest) -> None:
    play = controller.play
    make_disks(guest)

    # Check mode on machines with nothing: something is to do, and nothing is done.
    assert play("check of nothing", "--check", "--diff") >= len(BACKENDS) + len(("secrets", "volume", "export"))
    for path in ("/usr/sbin/iraid", "/var/lib/members/5.img", "/etc/iraid/secrets/v0"):
        assert guest.attempt(f"ls {path}")[0] != 0, path
    assert guest.attempt("find /etc/tgt /sys/kernel/config/target -name '*iraid*'")[1] == ""

    begin = time.monotonic()
    assert play("first") >= len(BACKENDS) + len(("package", "secrets", "volume", "export"))
    print(f"from nothing to an export: {time.monotonic() - begin:.1f} s")
    assert play("second") == 0
    units = "tcmu-runner rtslib-fb-targetctl iraid-scrub.timer"
    assert guest.run(f"systemctl is-enabled {units}").split() == ["enabled"] * 3

    keys = json.loads(guest.run("iraid config show v0 --json"))["keys"]
    assert {"40s"} == {key["value"] for key in keys if key["key"] == "queue_limit"}

    check_discovery(guest)
    digest = f"/sys/kernel/config/target/iscsi/{IQN}/tpgt_1/param/DataDigest"
    assert guest.run(f"cat {digest}") == "None"  # LIO's own is CRC32C,None

    disk = log_in(guest)
    guest.run(
        f"mkfs.ext4 -q -E nodiscard {disk} && mkdir -p /mnt/v0 && mount {disk} /mnt/v0 && "
        f"cp -r {ROOT}/handler {ROOT}/docs /mnt/v0/ && cd /mnt/v0 && "
        "find . -type f -print0 | sort -z | xargs -0 sha256sum >/tmp/sums && sync -f /mnt/v0"
    )

    # What was just seen to be unchanged is left out from here on: each module takes seconds in the guest.
    controller.variables |= {"iraid_packages": [], "iraid_manage_services": False}

    # A rate: seen, then made.
    assert play("check of a rate", "--check", "--diff", "--limit", "gateways", rate_min="20M") == 1
    assert guest.status()["sync_rate_min_bytes"] == 10 << 20 and str(20 << 20) in controller.said[-1]
    assert play("a rate", "--limit", "gateways") == 1
    assert guest.status()["sync_rate_min_bytes"] == 20 << 20

    # A member of LIO is replaced by one of tgt, under the mounted file system.
    guest.run("iraid wait v0 --timeout 100")
    replacing = {
        "members": "{{ lio_members + ['" + NEW + "'] }}",
        "iraid_wait": True,
        "iraid_replace": [{"volume": "v0", "old": OLD, "new": NEW}],
    }
    assert play("check of replacing", "--check", "--limit", "gateways", **replacing) == 1
    assert OLD in [one["member"] for one in guest.status()["members"]]
    assert play("replacing", "--limit", "gateways") == 1
    status = guest.status()
    states = {one["member"]: one["state"] for one in status["members"]}
    assert status["state"] == "active" and states[NEW] == "in sync" and OLD not in states
    assert play("replaced", "--limit", "gateways") == 0
    check_sums(guest)

    # Larger members: block devices show it at once, a file of tgt when that was started anew.
    for number in range(1, 4):
        guest.run(f"truncate -s 192M /var/lib/members/{number}.img && losetup --set-capacity /dev/loop{number}")
    assert play("a larger file", "--limit", "backend5", tgt_size="192M") == 1
    guest.run("systemctl restart tgt")
    guest.wait_until(
        lambda now: now["state"] == "active" and all(one["link"] == "open" for one in now["members"]),
        "the restarted member to be back",
    )
    before = guest.status()["size_bytes"]
    assert play("check of growing", "--check", "--limit", "gateways", iraid_grow=True) == 1
    assert guest.status()["size_bytes"] == before
    assert play("growing", "--limit", "gateways") == 1
    after = guest.status()["size_bytes"]
    assert after > before
    assert play("grown", "--limit", "gateways") == 0
    guest.run(f"iscsiadm -m node -T {IQN} -R && resize2fs {disk}")
    assert int(guest.run(f"blockdev --getsize64 {disk}")) == after
    check_sums(guest)

    # Secrets are nowhere but in root's own files.
    guest.run(f"umount /mnt/v0 && {NODE} --logout")
    journal = guest.run("journalctl -b --no-pager")
    for secret in SECRETS:
        assert secret not in journal and not any(secret in said for said in controller.said)
    modes = guest.run(
        "stat -c %a:%U /etc/iraid/secrets/* /etc/rtslib-fb-target/saveconfig.json "
        "/etc/tgt/conf.d/iraid-*.conf | sort -u"
    )
    assert modes == "600:root"

    # No longer the inventory's, it stays; deleted with the word only.
    assert play("forgotten", "--limit", "gateways", iraid_volumes=[], iraid_replace=[]) == 0
    assert guest.status()["state"] == "active"
    gone = {"iraid_volumes": [{"name": "v0", "state": "absent"}], "iraid_confirm_delete": ["v0"]}
    assert play("deleted", "--limit", "gateways", **gone) == 2
    assert json.loads(guest.run("iraid list --json"))["volumes"] == []
    assert play("deleted again", "--limit", "gateways") == 0
