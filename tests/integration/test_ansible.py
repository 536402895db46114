"""The Ansible role against the real engine and real targets, without a kernel: all but LIO and systemd.

    scripts/test tests/integration/test_ansible.py -m long

Its decisions are tests/unit/packaging/test_ansible_plan.py's; here is what Ansible makes of the role.  From nothing to a mounted
file system, with LIO and systemd: tests/lab/test_ansible.py.  Of a built and installed collection: test_ansible_collection.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import IRAID, ROOT, Gateway, call, wait_until

COLLECTIONS = ROOT / "packaging/ansible"
LINTED = ("example/site.yml", "example-pair/site.yml", "ansible_collections/iraid/iraid")
MIB = 1 << 20
USER, SECRET = "gateway1", "wolf-howls-42"
TARGET_SECRET = "secret-of-the-targets"

pytestmark = [
    pytest.mark.long,
    pytest.mark.no_sanitizer,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("ansible-playbook") is None, reason="ansible-core is not installed; run scripts/deps --long"
    ),
]


@dataclass(frozen=True)
class Played:
    status: int
    out: str

    @property
    def recap(self) -> dict[str, int]:
        line = re.search(r"^gateway1 +: (.*)$", self.out, re.MULTILINE)
        assert line, self.out
        return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line[1])}

    @property
    def changed(self) -> int:
        assert self.status == 0 and self.recap["failed"] == 0, self.out
        return self.recap["changed"]

    @property
    def refusal(self) -> str:
        """Its text in one line; what was asked for failed."""
        assert self.status != 0 and self.recap["failed"] == 1, self.out
        return " ".join(self.out.split())


@dataclass
class Controller:
    """A machine with an inventory of one gateway, which is this machine."""

    folder: Path
    gateway: Gateway
    variables: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.variables |= {
            "iraid_packages": [],
            "iraid_manage_services": False,
            "iraid_command": str(IRAID),
            "iraid_config_dir": str(self.gateway.config),
        }
        (self.folder / "ansible.cfg").write_text("[defaults]\n")  # not the machine's own
        (self.folder / "inventory.yml").write_text(
            json.dumps(
                {
                    "all": {
                        "hosts": {"gateway1": {}},
                        "vars": {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"},
                    }
                }
            )
        )
        (self.folder / "site.yml").write_text(
            json.dumps([{"hosts": "all", "gather_facts": False, "roles": [{"role": "iraid.iraid.iraid"}]}])
        )

    def play(self, *options: str, **variables: Any) -> Played:
        (self.folder / "vars.json").write_text(json.dumps(self.variables | variables))
        environment = self.gateway.environment() | {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": str(self.folder),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_PIPELINING": "1",
        }
        done = subprocess.run(
            ["ansible-playbook", "-i", "inventory.yml", "site.yml", "-e", "@vars.json", *options],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert SECRET not in done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        return Played(done.returncode, done.stdout)


@pytest.fixture
def controller(gateway: Gateway, tmp_path: Path) -> Controller:
    return Controller(tmp_path / "controller", gateway)


def volumes(gateway: Gateway) -> list[str]:
    return [one["name"] for one in gateway.must("list", "--json").json["volumes"]]


def members(gateway: Gateway) -> list[str]:
    status = gateway.status("v0")
    return [one["member"] for one in status["members"] if one["role"] is not None and one["state"] == "in sync"]


def wait_in_sync(gateway: Gateway) -> None:
    wait_until(lambda: gateway.status("v0")["regions"]["suspect"] == 0, "the resync's end", 60)


def test_a_volume_is_made_kept_changed_replaced_and_grown(
    controller: Controller, make_farm: Callable[..., TargetFarm]
) -> None:
    gateway, farm = controller.gateway, make_farm(5)
    volume = {"name": "v0", "level": 5, "chunk": "32K", "members": farm.members()[:4], "rate_min": "20M"}
    controller.variables["iraid_volumes"] = [volume]

    predicted = controller.play("--check", "--diff")
    assert predicted.changed == 1 and volumes(gateway) == []
    assert farm.member(0) in predicted.out  # the difference names what would come

    assert controller.play().changed == 1
    status = gateway.status("v0")
    assert (status["state"], status["level"], status["chunk_bytes"]) == ("active", 5, 32 << 10)
    assert status["sync_rate_min_bytes"] == 20 << 20
    assert controller.play().changed == 0

    # A change: seen, then made.
    volume["rate_min"] = "30M"
    predicted = controller.play("--check", "--diff")
    assert predicted.changed == 1 and str(30 << 20) in predicted.out
    assert gateway.status("v0")["sync_rate_min_bytes"] == 20 << 20
    assert controller.play().changed == 1
    assert gateway.status("v0")["sync_rate_min_bytes"] == 30 << 20

    # Keys of files: the handler's parser says what is wrong, the running engine takes what is right.
    wrong = controller.play(iraid_gateway_settings={"volumes": {"queue_limit": "soon"}})
    assert "queue_limit" in wrong.refusal and '"soon\\" is not a time' in wrong.refusal
    assert not (gateway.config / "gateway.conf").exists()
    volume["settings"] = {"give_up": "8s"}
    keys = {"iraid_gateway_settings": {"volumes": {"queue_limit": "40s"}, "notify": {"mail": ["a@example.org"]}}}
    assert controller.play("--check", **keys).changed == 2
    assert controller.play(**keys).changed == 2
    shown = {key["key"]: key["value"] for key in gateway.must("config", "show", "v0", "--json").json["keys"]}
    assert (shown["give_up"], shown["queue_limit"]) == ("8s", "40s")
    assert controller.play(**keys).changed == 0

    # Another member: only with a word more.
    old, new = volume["members"][3], farm.member(4)
    volume["members"][3] = new
    assert "iraid_replace" in controller.play().refusal
    entry = {"iraid_replace": [{"volume": "v0", "old": old, "new": new}]}
    assert controller.play("--check", **entry).changed == 1
    assert members(gateway) == farm.members()[:4]
    wait_in_sync(gateway)
    assert controller.play(iraid_wait=True, **entry).changed == 1
    assert sorted(members(gateway)) == sorted(volume["members"])
    assert controller.play(**entry).changed == 0  # the entry may stay
    assert controller.play().changed == 0

    # Larger members.
    size_bytes = gateway.status("v0")["size_bytes"]
    assert controller.play(iraid_grow=True).changed == 0
    for number in (0, 1, 2, 4):
        farm.resize(number, 96 * MIB)
    assert controller.play("--check", iraid_grow=True).changed == 1
    assert gateway.status("v0")["size_bytes"] == size_bytes
    assert controller.play(iraid_grow=True).changed == 1
    assert gateway.status("v0")["size_bytes"] > size_bytes
    assert controller.play(iraid_grow=True).changed == 0


def test_a_member_that_is_replaced_while_a_key_is_set_stays(
    controller: Controller, make_farm: Callable[..., TargetFarm]
) -> None:
    gateway, farm = controller.gateway, make_farm(4)
    old, new = farm.member(2), farm.member(3)
    gateway.must("create", "v0", "--level", "5", *farm.members()[:3], "--wait")
    command, once = controller.folder / "iraid", controller.folder / "once"
    command.write_text(f"""#!/bin/sh
if [ "$1 $2" = "config check" ] && mkdir {once} 2>/dev/null; then
    IRAID_CONFIG_DIR={gateway.config} {IRAID} replace v0 {old} {new} --wait >&2
fi
exec {IRAID} "$@"
""")
    command.chmod(0o755)
    volume = {"name": "v0", "members": farm.members()[:3], "settings": {"give_up": "7s"}}
    assert controller.play(iraid_volumes=[volume], iraid_command=str(command)).changed == 1
    file = (gateway.config / "volumes/v0.conf").read_text()
    assert once.is_dir() and new in file and old not in file and "give_up = 7s" in file
    gateway.stop()
    gateway.start()
    gateway.must("start", "v0")
    assert sorted(members(gateway)) == sorted([*farm.members()[:2], new])


def test_nothing_is_destroyed_without_a_word_more(controller: Controller, make_farm: Callable[..., TargetFarm]) -> None:
    gateway, farm = controller.gateway, make_farm(4)
    volume = {"name": "v0", "members": farm.members()}
    subprocess.run(["mkfs.ext4", "-q", "-F", farm.backing(0)], check=True)
    refusal = controller.play(iraid_volumes=[volume]).refusal
    assert "ext4" in refusal and "overwrite: true" in refusal
    assert controller.play(iraid_volumes=[volume | {"overwrite": True}]).changed == 1
    uuid = gateway.status("v0")["uuid"]
    assert controller.play(iraid_volumes=[volume | {"overwrite": True}]).changed == 0

    assert controller.play(iraid_volumes=[]).changed == 0
    assert "iraid_confirm_delete" in controller.play(iraid_volumes=[volume | {"state": "absent"}]).refusal
    assert "level 5" in controller.play(iraid_volumes=[volume | {"level": 6}]).refusal
    assert gateway.status("v0")["uuid"] == uuid

    # A gateway that lost its configuration does not make its volumes anew over their data.
    lost = {"iraid_volumes": [volume | {"overwrite": True}]}
    gateway.must("delete", "v0", "--yes", "--no-wipe")
    assert uuid in controller.play("--check", **lost).refusal
    refusal = controller.play(**lost).refusal
    assert uuid in refusal and "iraid import" in refusal and "iraid_confirm_overwrite" in refusal
    gateway.must("import", *farm.members())
    assert controller.play(**lost).changed == 1 and gateway.status("v0")["uuid"] == uuid
    gateway.must("delete", "v0", "--yes", "--no-wipe")
    assert controller.play(iraid_confirm_overwrite=["v0"], **lost).changed == 1
    assert gateway.status("v0")["uuid"] != uuid

    gone = {"iraid_volumes": [{"name": "v0", "state": "absent"}], "iraid_confirm_delete": ["v0"]}
    stopped = controller.play(iraid_volumes=[volume | {"state": "stopped"}])
    assert stopped.changed == 1 and gateway.status("v0")["state"] == "stopped"
    assert controller.play(iraid_volumes=[volume]).changed == 1 and gateway.status("v0")["state"] == "active"
    # Where it can't be known whether initiators have it (here is no LIO), it is not deleted.
    assert "iraid unexport v0" in controller.play(**gone).refusal
    assert volumes(gateway) == ["v0"]


def test_secrets_are_private_files_and_spares_are_added(
    controller: Controller, make_farm: Callable[..., TargetFarm]
) -> None:
    gateway = controller.gateway
    farm = make_farm(6, chap=(USER, SECRET), proof=("target", TARGET_SECRET))
    chap = {"user": USER, "secret": SECRET, "target_user": "target", "target_secret": TARGET_SECRET}
    text = f"{USER}\n{SECRET}\ntarget\n{TARGET_SECRET}\n"
    name = "iqn.2026-01.org.example:gateway1"
    everything = {
        "iraid_volumes": [
            {"name": "v0", "members": farm.members()[:4], "spares": [farm.member(4)], "chap": chap, "initiator": name}
        ],
        "iraid_gateway_spares": [{"device": farm.member(5), "chap": chap, "initiator": name}],
    }
    assert controller.play("--check", "--diff", "-vvv", **everything).changed == 3
    assert not list((gateway.config / "secrets").glob("*"))
    assert controller.play("--diff", "-vvv", **everything).changed == 3
    assert controller.play("--diff", "-vvv", **everything).changed == 0
    files = sorted((gateway.config / "secrets").iterdir())
    assert [path.name for path in files] == ["gateway+spare0", "v0"]
    assert all(path.stat().st_mode & 0o777 == 0o600 and path.read_text() == text for path in files)
    states = {one["member"]: one["state"] for one in gateway.status("v0")["members"]}
    assert states[farm.member(4)] == "spare"
    assert [one["device"] for one in gateway.must("status", "--json").json["spares"]] == [farm.member(5)]

    wrong = everything | {"iraid_gateway_spares": [{"device": farm.member(0), "chap": chap}]}
    assert farm.member(0) in controller.play("-vvv", **wrong).refusal


def digest_farm(farm: TargetFarm) -> TargetFarm:
    for number, one in enumerate(farm.targets):
        for key in ("HeaderDigest", "DataDigest"):
            farm.admin(
                number, "--mode", "target", "--op", "update", "--tid", str(one.tid), "--name", key, "--value", "CRC32C"
            )  # fmt: skip
    return farm


def has_digests(gateway: Gateway, count: int) -> bool:
    agreed = [one["path"]["negotiated"] for one in call(gateway.socket, "volume.path", name="v0")["members"][:count]]
    return all(one["header_digest"] and one["data_digest"] for one in agreed)


def test_a_new_volume_logs_in_with_digests_at_once(
    controller: Controller, make_farm: Callable[..., TargetFarm]
) -> None:
    gateway, farm = controller.gateway, digest_farm(make_farm(3))
    volume = {"name": "v0", "members": farm.members(), "header_digest": "required", "data_digest": "required"}
    assert controller.play(iraid_volumes=[volume]).changed == 1
    assert gateway.status("v0")["state"] == "active" and has_digests(gateway, 3)
    assert controller.play(iraid_volumes=[volume]).changed == 0


def test_a_volume_that_exists_takes_a_login_digests_and_redirects_given_later(
    controller: Controller, make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    gateway, farm = controller.gateway, digest_farm(make_farm(4, chap=(USER, SECRET)))
    mine = tmp_path / "mine"
    mine.write_text(f"{USER}\n{SECRET}\n")
    mine.chmod(0o600)
    gateway.must("create", "v0", "--level", "5", "--chap-file", str(mine), *farm.members()[:3], "--wait")
    volume: dict[str, Any] = {"name": "v0", "members": farm.members()[:3]}
    assert controller.play(iraid_volumes=[volume]).changed == 0

    name = "iqn.2026-01.org.example:later"
    volume |= {"chap": {"user": USER, "secret": SECRET}, "initiator": name, "spares": [farm.member(3)]}
    volume |= {"header_digest": "required", "data_digest": "required", "redirects": False}
    given = {"iraid_volumes": [volume]}
    before = (gateway.config / "volumes/v0.conf").read_text()
    assert controller.play("--check", "--diff", "-vvv", **given).changed == 4  # secrets, login, spare, keys
    assert (gateway.config / "volumes/v0.conf").read_text() == before
    played = controller.play("--diff", "-vvv", **given)
    assert played.changed == 4 and "not applied yet: volume v0: initiator: " in " ".join(played.out.split())
    assert controller.play(**given).changed == 0

    mine.unlink()
    shown = {key["key"]: key["value"] for key in gateway.must("config", "show", "v0", "--json").json["keys"]}
    assert shown["chap_file"] == str(gateway.config / "secrets/v0") and shown["initiator"] == name
    assert (shown["header_digest"], shown["data_digest"], shown["redirects"]) == ("required", "required", "no")
    gateway.must("stop", "v0")
    gateway.must("start", "v0")
    assert has_digests(gateway, 3)


@pytest.mark.parametrize(
    "volume, words",
    [
        ({"name": "v0", "level": 7, "members": []}, ["level", "7", "0, 1, 5, 6, 10"]),
        ({"level": 5}, ["name"]),
        ({"name": "v0", "membres": []}, ["membres"]),
        ({"name": "v0", "members": ["disk"] * 3}, ["iraid_volumes[0] (v0).members[0]", "'disk'", "PORTAL/IQN/LUN"]),
        (
            {
                "name": "v0",
                "chap": {"user": USER, "secret": f"{SECRET}\t"},
                "members": [
                    "10.0.0.1/iqn.2026-01.org.e:a/0",
                    "10.0.0.2/iqn.2026-01.org.e:a/0",
                    "10.0.0.3/iqn.2026-01.org.e:a/0",
                ],
            },
            ["chap.secret", "blank"],
        ),
    ],
)
def test_bad_variables_are_named_and_nothing_is_done(
    controller: Controller, volume: dict[str, Any], words: list[str]
) -> None:
    refusal = controller.play("-vvv", iraid_volumes=[volume]).refusal
    assert all(word in refusal for word in words), refusal
    assert volumes(controller.gateway) == []


@pytest.mark.skipif(
    shutil.which("ansible-lint") is None, reason="ansible-lint is not installed; run scripts/deps --long"
)
def test_ansible_lint_has_nothing_to_say(tmp_path: Path) -> None:
    """In a copy: it writes caches beside what it looks at."""
    shutil.copytree(COLLECTIONS, tmp_path / "ansible", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"HOME": str(tmp_path), "ANSIBLE_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(tmp_path / "ansible")
    less = ["--skip-list", "galaxy[version-incorrect]"]  # it wants 1.0.0 or later, and the version is the project's
    done = subprocess.run(
        ["ansible-lint", "--offline", "--profile", "production", "--strict", *less, *LINTED],
        cwd=tmp_path / "ansible",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "profile that was required" not in done.stdout, done.stdout
