"""What test_ansible_pair.py runs beside three machines: the gateways a and b, the initiator i.  Targets are on this one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.lab.machines import Background, Machine, Machines
from iraid_dev.lab.run import INITIATOR
from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm, TargetOptions

HERE = Path(__file__).parent
IQN = "iqn.2026-01.org.iraid.test:v0"
MEMBERS = [f"10.77.1.{101 + number}" for number in range(3)]
GATEWAYS = ("a", "b")
IRAID = ROOT / "scripts/iraid"
RESTART = HERE / "guest/restart-runner"
WRITER = ROOT / "python/iraid_dev/stack/ack_writer.py"
SLOTS = "--slot-bytes 20480 --slots 1024"
DISK = "/dev/mapper/mpatha"

# As an administrator has it: the hardware handler is what user-mode Linux lacks.
MULTIPATH = """
defaults {
	find_multipaths no
	user_friendly_names yes
	polling_interval 1
	max_polling_interval 2
}
devices {
	device {
		vendor IRAID
		product ".*"
		path_grouping_policy group_by_prio
		prio alua
		failback immediate
		no_path_retry queue
		hardware_handler "0"
	}
}
"""

pytestmark = pytest.mark.timeout(1700)


@pytest.fixture
def machines() -> Machines:
    return Machines.of_this_lab()


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[TargetFarm]:
    for address in MEMBERS:
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "back"], check=True)
    options = [TargetOptions(address=address, size_bytes=64 << 20) for address in MEMBERS]
    with TargetFarm(tmp_path / "members", options=options) as made:
        yield made


@dataclass
class Controller:
    folder: Path
    machines: Machines
    variables: dict[str, Any]
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        hosts = {name: {"address": self.machines[name].address("front")} for name in GATEWAYS}
        inventory = {
            "hosts": hosts,
            "vars": {"ansible_connection": "machine", "ansible_python_interpreter": "/usr/bin/python3"},
        }
        play = {
            "hosts": "all",
            "gather_facts": False,
            "environment": {"IRAID_LIBEXEC_DIR": str(ROOT / "build/handler/adapters")},
        }
        (self.folder / "inventory.yml").write_text(json.dumps({"all": inventory}))
        for name in ("main", "move", "upgrade"):
            tasks = [{"ansible.builtin.include_role": {"name": "iraid.iraid.iraid", "tasks_from": name}}]
            (self.folder / f"{name}.yml").write_text(json.dumps([play | {"tasks": tasks}]))

    def play(self, book: str, **variables: Any) -> int:
        """The sum of changed= of both."""
        (self.folder / "vars.json").write_text(json.dumps(self.variables | variables))
        environment = os.environ | {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "packaging/ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": "/tmp/ansible",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "ansible/connection_plugins"),
        }
        begin = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", "-i", "inventory.yml", f"{book}.yml", "-e", "@vars.json"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        changes = sum(map(int, re.findall(r" changed=(\d+)", done.stdout)))
        print(f"{book}: {time.monotonic() - begin:.1f} s, changed={changes}", flush=True)
        return changes

    def roles(self) -> list[str]:
        shown = [self.machines[name].run(f"{IRAID} status v0 --json").good().output for name in GATEWAYS]
        return [json.loads(text)["role"] for text in shown]


def log_in(initiator: Machine, portals: list[str]) -> None:
    initiator.run("/lib/systemd/systemd-udevd --daemon").good()
    initiator.run("cat >/etc/multipath.conf", given=MULTIPATH).good()
    initiator.run("modprobe -a dm-multipath dm-service-time && multipathd").good()
    for portal in portals:
        node = f"iscsiadm -m node -T {IQN} -p {portal}"
        initiator.run(f"{node} -o new && {node} --login").good()
    initiator.wait_until(f"test -b {DISK}")


def write(initiator: Machine) -> Background:
    """Until /root/end is there; a line of JSON for each few seconds."""
    words = f"--device {DISK} --journal /root/journal {SLOTS}"
    return initiator.start(
        f"while [ ! -e /root/end ]; do python3 {WRITER} write {words} --seconds 5 || exit 1; done", seconds=1500.0
    )


def test_a_pair_is_made_moved_and_upgraded_under_an_initiator(
    machines: Machines, farm: TargetFarm, tmp_path: Path
) -> None:
    initiator = machines["i"]
    for name in GATEWAYS:
        machines[name].run(str(RESTART), seconds=120).good()
    volume = {
        "name": "v0",
        "level": 5,
        "members": farm.members(),
        "initiator": "iqn.2026-01.org.iraid.test:{{ inventory_hostname }}",
        "export": {
            "iqn": IQN,
            "portals": ["{{ address }}:3260"],
            "initiators": [f"{INITIATOR}-i"],
            "no_chap": True,
        },
    }
    controller = Controller(
        tmp_path / "controller",
        machines,
        {
            "iraid_packages": [],
            "iraid_manage_services": False,
            "iraid_command": str(IRAID),
            "iraid_pair": list(GATEWAYS),
            "iraid_volumes": [volume],
            "iraid_restart_command": [str(RESTART)],
        },
    )
    play = controller.play
    assert play("main") > 0
    assert controller.roles() == ["active", "standby"]
    assert play("main") == 0

    log_in(initiator, [machines[name].address("front") for name in GATEWAYS])
    writer = write(initiator)
    initiator.wait_until("test -s /root/journal")
    # Another initiator, without a move.
    volume["export"]["initiators"].append(f"{INITIATOR}-j")
    assert play("main") == 2

    assert play("move", iraid_move_to="b") == 2
    assert controller.roles() == ["standby", "active"]
    # The first one has nothing to give away; what prefers it comes back; then the second one has nothing.
    assert play("upgrade") == 1 + 2 + 1
    assert controller.roles() == ["active", "standby"]

    initiator.run("touch /root/end").good()
    lines = [json.loads(line) for line in writer.wait(300.0).good().output.splitlines() if line.startswith("{")]
    errors = [error for line in lines for error in line["errors"]]
    print(
        f"writes: {sum(line['writes'] for line in lines)}, longest stall: {max(line['gap_seconds'] for line in lines)} s"
    )
    assert lines and errors == []
    found = initiator.run(f"python3 {WRITER} check --device {DISK} --journal /root/journal {SLOTS}", seconds=180).good()
    shown = json.loads(found.output)
    assert shown["lost"] == [] and shown["checked"] > 0

    initiator.run(f"multipath -f mpatha; iscsiadm -m node -T {IQN} --logout").good()
    gone = {"iraid_volumes": [{"name": "v0", "state": "absent"}], "iraid_confirm_delete": ["v0"]}
    assert play("main", **gone) == 4  # unexported and deleted on one, unexported and forgotten on the other
    for name in GATEWAYS:
        assert json.loads(machines[name].run(f"{IRAID} list --json").good().output)["volumes"] == []
    assert play("main", **gone) == 0
