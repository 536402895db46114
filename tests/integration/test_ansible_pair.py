"""The Ansible role with a pair of gateways: two real engines and targets on this machine, without a kernel.

    scripts/test tests/integration/test_ansible_pair.py -m long

LIO's part is played: `iraid export` is recorded, and refused while the volume was never active here, as the real one does.  What
is decided: tests/unit/packaging/test_ansible_pair.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pacemaker_pair
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import IRAID, PYTHON, ROOT, Gateway

COLLECTIONS = ROOT / "packaging/ansible"
PLAYBOOKS = COLLECTIONS / "ansible_collections/iraid/iraid/playbooks"
PAIR = ("gateway1", "gateway2")
ONE, TWO = PAIR
IQN = "iqn.2026-01.org.example:v0"

pytestmark = [
    pytest.mark.long,
    pytest.mark.no_sanitizer,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("ansible-playbook") is None, reason="ansible-core is not installed; run scripts/deps --long"
    ),
]

# The iraid command of a gateway whose LIO is a file of the options that it was exported with.
COMMAND = f"""#!{PYTHON}
import json, os, pathlib, subprocess, sys

real, words = ["{PYTHON}", "{IRAID}"], sys.argv[1:]
lio = pathlib.Path(__file__).with_suffix(".lio")
log = pathlib.Path(__file__).with_suffix(".log")

def answer(value, status=0):
    print(json.dumps(value))
    sys.exit(status)

with log.open("a") as file:
    print(*words, file=file)
if words[0] == "status" and len(words) == 3 and words[2] == "--json":
    ran = subprocess.run([*real, *words], stdout=subprocess.PIPE, check=False)
    status = json.loads(ran.stdout)
    if ran.returncode == 0 and lio.exists():
        status["users"] = ["tcmu: " + words[1]]
    answer(status, ran.returncode)
if words[0] == "export":
    ran = subprocess.run([*real, "status", words[1], "--json"], stdout=subprocess.PIPE, check=False)
    status = json.loads(ran.stdout)
    if ran.returncode != 0:
        answer(status, 1)
    if status["state"] not in ("active", "degraded") and not lio.exists():
        answer({{"error": {{"message": "volume is " + status["state"], "type": "busy"}}}}, 1)
    wanted = [word for word in words if word not in ("--dry-run", "--json", "--lun", "0")]
    changes = [] if lio.exists() and json.loads(lio.read_text()) == wanted else ["export made"]
    if "--dry-run" not in words:
        lio.write_text(json.dumps(wanted))
    answer({{"changes": changes, "iqn": words[3], "lun": 0, "initiators": [], "portals": []}})
if words[0] == "unexport":
    if not lio.exists():
        answer({{"error": {{"message": "not exported", "type": "not_found"}}}}, 1)
    lio.unlink()
    answer({{"changes": ["export ended"]}})
os.execv(real[0], [*real, *words])
"""


@dataclass(frozen=True)
class Played:
    status: int
    out: str

    def counted(self, word: str) -> int:
        return sum(map(int, re.findall(rf" {word}=(\d+)", self.out)))

    @property
    def changed(self) -> int:
        assert self.status == 0, self.out
        return self.counted("changed")

    @property
    def refusal(self) -> str:
        assert self.status != 0 and self.counted("failed") > 0, self.out
        return " ".join(self.out.split())


@dataclass
class Pair:
    """Two gateways, and the machine with their inventory."""

    folder: Path
    gateways: dict[str, Gateway]
    variables: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "ansible.cfg").write_text("[defaults]\n")
        hosts = {}
        for number, (name, gateway) in enumerate(self.gateways.items(), 1):
            command = self.command(name)
            command.write_text(COMMAND)
            command.chmod(0o755)
            keys = ("IRAID_CONFIG_DIR", "IRAID_STATE_DIR", "IRAID_RUN_DIR", "IRAID_SOCKET")
            environment = {key: gateway.environment()[key] for key in keys}
            environment |= {
                "IRAID_MACHINE_ID": str(gateway.folder / "machine-id"),
                "CIB_file": str(self.cib),
                "PATH": f"{self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            }
            hosts[name] = {
                "iraid_command": str(command),
                "iraid_config_dir": str(gateway.config),
                "folders": environment,
                "address": f"10.1.0.{number}",
            }
        (self.folder / "inventory.yml").write_text(
            json.dumps(
                {
                    "all": {
                        "hosts": hosts,
                        "vars": {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"},
                    }
                }
            )
        )
        play = {"hosts": "all", "gather_facts": False, "environment": "{{ folders }}"}
        (self.folder / "site.yml").write_text(json.dumps([play | {"roles": [{"role": "iraid.iraid.iraid"}]}]))
        for name in ("move", "upgrade"):
            (shown,) = json.loads(json.dumps(read_yaml(PLAYBOOKS / f"{name}.yml")))
            (self.folder / f"{name}.yml").write_text(json.dumps([shown | play]))
        self.variables |= {"iraid_packages": [], "iraid_manage_services": False, "iraid_pair": list(PAIR)}

    @property
    def cib(self) -> Path:
        return self.folder / "cib.xml"

    def command(self, name: str) -> Path:
        return self.folder / name

    def asked(self, name: str) -> list[str]:
        log = self.command(name).with_suffix(".log")
        return log.read_text().splitlines() if log.exists() else []

    def exported(self, name: str) -> list[str]:
        return json.loads(self.command(name).with_suffix(".lio").read_text())

    def forget_questions(self) -> None:
        for name in self.gateways:
            self.command(name).with_suffix(".log").unlink(missing_ok=True)

    def changes_asked(self) -> list[str]:
        """Commands that change who serves a volume, or what is on its members."""
        verbs = ("create", "activate", "standby", "delete", "import", "start", "stop")
        return [f"{name}: {words}" for name in PAIR for words in self.asked(name) if words.split()[0] in verbs]

    def roles(self) -> list[str]:
        return [gateway.status("v0")["role"] for gateway in self.gateways.values()]

    def play(self, *options: str, book: str = "site", **variables: Any) -> Played:
        (self.folder / "vars.json").write_text(json.dumps(self.variables | variables))
        environment = self.gateways[ONE].environment() | {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": str(self.folder),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_PIPELINING": "1",
        }
        done = subprocess.run(
            ["ansible-playbook", "-i", "inventory.yml", f"{book}.yml", "-e", "@vars.json", *options],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )
        assert "Traceback" not in done.stdout, done.stdout
        return Played(done.returncode, done.stdout)


def read_yaml(path: Path) -> Any:
    import yaml

    return yaml.safe_load(path.read_text())


@pytest.fixture
def pair(make_gateway: Callable[[], Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    gateways = {}
    for number, name in enumerate(PAIR, 1):
        gateways[name] = made = make_gateway()
        machine = made.folder / "machine-id"
        machine.write_text(f"{number:032x}\n")
        with monkeypatch.context() as here:
            here.setenv("IRAID_MACHINE_ID", str(machine))
            made.start()
    return Pair(tmp_path / "controller", gateways)


def volume(farm: TargetFarm, **more: Any) -> dict[str, Any]:
    return {
        "name": "v0",
        "level": 5,
        "members": farm.members()[:3],
        "initiator": "iqn.2026-01.org.example:{{ inventory_hostname }}",
        "export": {"iqn": IQN, "portals": ["{{ address }}:3260"], "demo_mode": True, "no_chap": True},
    } | more


def test_a_volume_is_made_once_and_then_left_where_it_is(pair: Pair, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4)
    pair.variables["iraid_volumes"] = [volume(farm, preferred=TWO)]
    first, second = pair.gateways.values()

    assert pair.play("--check", "--diff").changed > 0 and pair.changes_asked() == []
    assert pair.play().changed > 0
    assert pair.roles() == ["standby", "active"]
    uuids = {gateway.status("v0")["uuid"] for gateway in pair.gateways.values()}
    assert len(uuids) == 1
    assert [words for words in pair.changes_asked() if " create " in words] == [
        words for words in pair.changes_asked() if words.startswith("gateway2: create ")
    ]
    for number, name in enumerate(PAIR, 1):
        words = " ".join(pair.exported(name))
        assert f"--pair {number} " in words and f"--portal 10.1.0.{number}:3260" in words
        shown = (pair.gateways[name].config / "volumes/v0.conf").read_text()
        assert f"initiator = iqn.2026-01.org.example:{name}\n" in shown
    # Active on its gateway at the end, after a turn of the other.
    assert pair.play().changed == 0

    # No matter where it is.
    second.must("standby", "v0")
    first.must("activate", "v0")
    pair.forget_questions()
    assert pair.play().changed == 0 and pair.changes_asked() == []
    assert pair.roles() == ["active", "standby"]

    # Another portal: on both, and nobody moves.
    listening = volume(farm, preferred=TWO)
    listening["export"]["portals"].append("{{ address }}:3261")
    assert pair.play(iraid_volumes=[listening]).changed == 2 and pair.changes_asked() == []
    assert all(":3261" in " ".join(pair.exported(name)) for name in PAIR)
    assert pair.play().changed == 2  # its own export again

    # A change is made where it is active, and the file follows.
    more = {"iraid_volumes": [volume(farm, preferred=TWO, rate_min="20M", spares=[farm.member(3)])]}
    assert pair.play("--check", **more).changed > 0
    assert pair.play(**more).changed > 0
    assert pair.play(**more).changed == 0 and pair.changes_asked() == []
    text = (second.config / "volumes/v0.conf").read_text()
    assert farm.member(3) in text and "sync_rate_min = 20" in text
    first.must("standby", "v0")
    second.must("activate", "v0")
    assert farm.member(3) in [one["member"] for one in second.status("v0")["members"]]


def test_a_gateway_that_lost_its_configuration_gets_it_back(pair: Pair, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    pair.variables["iraid_volumes"] = [volume(farm, overwrite=True)]
    first, second = pair.gateways.values()
    assert pair.play().changed > 0
    uuid = first.status("v0")["uuid"]
    second.must("activate", "v0", "--take-over")
    first.must("delete", "v0", "--yes", "--no-wipe")
    pair.command(ONE).with_suffix(".lio").unlink()
    pair.forget_questions()
    assert pair.play().changed > 0
    assert not [words for words in pair.changes_asked() if " create " in words or " delete " in words]
    assert [gateway.status("v0")["uuid"] for gateway in (first, second)] == [uuid, uuid]
    assert pair.roles() == ["standby", "active"]
    assert pair.play().changed == 0

    # One that has another volume of that name: nothing is decided.
    first.must("delete", "v0", "--yes", "--no-wipe")
    other = make_farm(3)
    first.must("create", "v0", "--level", "5", *other.members())
    refusal = pair.play().refusal
    assert uuid in refusal and first.status("v0")["uuid"] in refusal and "two volumes of one name" in refusal


def test_pacemaker_s_volume_is_changed_and_never_moved(pair: Pair, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    pair.variables["iraid_volumes"] = [volume(farm)]
    assert pair.play().changed > 0
    pair.cib.write_text("""<cib><configuration><resources><clone id="v0-clone">
        <primitive id="v0" class="ocf" provider="iraid" type="volume"><instance_attributes id="a">
        <nvpair id="n" name="volume" value="v0"/></instance_attributes></primitive></clone></resources>
        </configuration></cib>""")
    pair.forget_questions()
    assert pair.play().changed == 0
    assert pair.play(iraid_volumes=[volume(farm, rate_min="20M")]).changed > 0
    assert pair.changes_asked() == [] and pair.roles() == ["active", "standby"]
    pair.gateways[ONE].must("standby", "v0")
    played = pair.play()
    assert played.changed == 0 and pair.changes_asked() == [] and "active on neither gateway" in played.out

    # Pacemaker is asked to move it; its answer is awaited.
    pair.gateways[ONE].must("activate", "v0")
    pcs = pair.folder / "bin/pcs"
    pcs.parent.mkdir()
    sockets = {name: pair.gateways[name].socket for name in PAIR}
    pcs.write_text(f"""#!/bin/sh -e
echo "$@" >>{pair.folder}/pcs.log
[ "$1 $2" = "resource move" ] || exit 0
case $4 in gateway1) to={sockets[ONE]} from={sockets[TWO]};; *) to={sockets[TWO]} from={sockets[ONE]};; esac
IRAID_SOCKET=$from {PYTHON} {IRAID} standby v0 >&2
IRAID_SOCKET=$to {PYTHON} {IRAID} activate v0 >&2
""")
    pcs.chmod(0o755)
    log = pair.folder / "pcs.log"
    assert pair.play(book="move", iraid_move_to=TWO).changed == 1
    assert log.read_text() == "resource move v0-clone gateway2 --promoted\n"
    assert pair.changes_asked() == [] and pair.roles() == ["standby", "active"]
    log.unlink()
    assert pair.play(book="upgrade", iraid_restart_command=["true"]).changed == 7
    assert log.read_text().splitlines() == [
        "node standby gateway1 --wait",
        "node unstandby gateway1 --wait",
        "resource move v0-clone gateway1 --promoted",
        "node standby gateway2 --wait",
        "node unstandby gateway2 --wait",
    ]
    assert pair.changes_asked() == []
    refusal = pair.play(iraid_volumes=[{"name": "v0", "state": "absent"}], iraid_confirm_delete=["v0"]).refusal
    assert "pcs resource delete" in refusal


@pytest.mark.skipif(
    not all(map(shutil.which, pacemaker_pair.PROGRAMS)),
    reason="Pacemaker or what its test needs is not installed; run scripts/deps --long",
)
def test_a_live_cluster_takes_what_is_pushed_to_it(
    make_gateway: Callable[[], Gateway], make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    """A real Pacemaker on two nodes in namespaces, which has no resource yet."""
    hub = pacemaker_pair.Hub()
    cluster = None
    try:
        address = f"{pacemaker_pair.NETWORKS[pacemaker_pair.STORAGE]}.{pacemaker_pair.HUB}"
        farm = make_farm(3, address=address, prefix=hub.prefix)
        first, second = make_gateway(), make_gateway()
        first.start(prefix=hub.prefix)
        first.create("v0", farm.members())
        first.must("standby", "v0")
        first.stop()
        shutil.copytree(first.config, second.config, dirs_exist_ok=True)
        second.configure("v0", initiator="iqn.2026-01.org.example:gateway2")
        shutil.copytree(first.state / "standby", second.state / "standby")
        cluster = pacemaker_pair.Pair(hub, [first, second], tmp_path)
        node, other = cluster.first, cluster.second

        def play(preferred: str) -> str:
            volume = {"name": "v0", "preferred": preferred, "address": "10.77.0.9/24"}
            task = {"iraid.iraid.iraid_cluster": {"volumes": [volume]}}
            book = tmp_path / "cluster.json"
            book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
            settings = {"COLLECTIONS_PATH": COLLECTIONS, "HOME": tmp_path, "NOCOLOR": 1}
            words = [f"ANSIBLE_{name}={value}" for name, value in settings.items()]
            python = "ansible_python_interpreter=/usr/bin/python3"
            return node.run("env", *words, "ansible-playbook", "-i", "localhost,", "-c", "local", "-e", python, book)

        assert "changed=1" in play(node.name)
        cluster.wait_promoted(node)
        assert "changed=0" in play(node.name)
        # Preferred from now on by the other one, and not moved.
        assert "changed=1" in play(other.name)
        assert "changed=0" in play(other.name)
        cluster.wait_promoted(node)
        node.run("pcs", "resource", "move", "v0-clone", other.name, "--promoted")
        cluster.wait_promoted(other)
    finally:
        if cluster is not None:
            print(cluster.logs())  # shown if the test fails
            cluster.close()
        hub.close()


def test_moves(pair: Pair, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    pair.variables["iraid_volumes"] = [volume(farm)]
    first, second = pair.gateways.values()
    assert "neither gateway has it" in pair.play(book="move", iraid_move_to=TWO).refusal
    pair.play()

    assert "'gateway9'" in pair.play(book="move", iraid_move_to="gateway9").refusal
    assert "forks is 1" in pair.play("--forks", "1", book="move", iraid_move_to=TWO).refusal
    assert "does not take part" in pair.play("--limit", ONE, book="move", iraid_move_to=TWO).refusal
    assert pair.play("--check", book="move", iraid_move_to=TWO).changed == 2 and pair.roles() == ["active", "standby"]
    assert pair.play(book="move", iraid_move_to=TWO).changed == 2
    assert pair.roles() == ["standby", "active"]
    assert pair.play(book="move", iraid_move_to=TWO).changed == 0
    assert pair.play(book="move", iraid_move_to=ONE, iraid_move=["v0"]).changed == 2

    # No standby there.
    second.must("stop", "v0")
    refusal = pair.play(book="move", iraid_move_to=TWO).refusal
    assert "on gateway2 it is stopped, not on standby" in refusal and first.status("v0")["role"] == "active"
    second.must("standby", "v0")

    # It can't be activated there: it comes back.
    second.configure("v0", initiator="iqn.2026-01.org.example:gateway2", assembly_wait_seconds=1)
    (second.config / "volumes/v0.conf").write_text(
        re.sub(r"127\.0\.0\.1:\d+/", "127.0.0.1:1/", (second.config / "volumes/v0.conf").read_text())
    )
    refusal = pair.play(book="move", iraid_move_to=TWO, iraid_move_timeout=3).refusal
    assert "volume v0 was not moved" in refusal
    assert pair.roles() == ["active", "standby"]


def test_an_upgrade_goes_from_one_gateway_to_the_other(pair: Pair, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    pair.variables["iraid_volumes"] = [volume(farm)]
    pair.play()
    upgrade = pair.folder / "upgrade-runner"
    log = pair.folder / "upgrades"
    upgrade.write_text(
        f'#!/bin/sh\n{PYTHON} {IRAID} status v0 --json | grep -c \'"role": "standby"\' >>{log}\n[ ! -e {log}.bad ]\n'
    )
    upgrade.chmod(0o755)
    given = {"iraid_restart_command": [str(upgrade)]}
    # Away and back; the second one has nothing by then.
    assert pair.play(book="upgrade", **given).changed == 2 + 1 + 2 + 1
    assert log.read_text() == "1\n1\n" and pair.roles() == ["active", "standby"]

    # It stops at the first one that fails, and the other one serves.
    Path(f"{log}.bad").touch()
    assert "upgrade-runner" in pair.play(book="upgrade", **given).refusal
    assert log.read_text() == "1\n1\n1\n" and pair.roles() == ["standby", "active"]
    Path(f"{log}.bad").unlink()

    # And begins with no pair that can't spare a gateway.
    farm.kill(0)
    pair.gateways[TWO].must("fail", "v0", farm.member(0))
    refusal = pair.play(book="upgrade", **given).refusal
    assert "DEGRADED" in refusal and log.read_text() == "1\n1\n1\n" and pair.roles() == ["standby", "active"]
