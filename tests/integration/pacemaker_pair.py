"""Two nodes of a Pacemaker cluster on this machine, in namespaces: each has its own network, processes, /run and files of
the cluster, and a private gateway whose iraid-engine is started again when it ends, as systemd does with tcmu-runner.

    hub     targets, and a bridge for each of the two networks
    node    10.77.0.N for the cluster, 10.78.0.N for the members

All of it ends with the process that made it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from iraid_dev.places import ROOT
from iraid_dev.stack.private_gateway import Gateway, build_folder, call, die_with_parent, wait_until

CLUSTER, STORAGE = "c", "s"
NETWORKS = {CLUSTER: "10.77.0", STORAGE: "10.78.0"}
HUB = 100
ADDRESS = "10.77.0.50"  # of initiators: it follows the volume
RESOURCE = "v0"
SLOW_SECONDS = 120.0
PROGRAMS = ("corosync", "pacemakerd", "pcs", "crm_mon", "unshare", "nsenter", "ip")

# The runner: started again after a second, as config/systemd/tcmu-runner.service.d says.
INIT = """#!/bin/bash
set -eu
hostname $NODE
ip link set lo up
mount --make-rprivate /
for pair in etc-corosync:/etc/corosync lib-corosync:/var/lib/corosync lib-pacemaker:/var/lib/pacemaker \\
	log:/var/log ocf:/usr/lib/ocf/resource.d; do
	mkdir -p "${pair#*:}"
	mount --bind "$FOLDER/${pair%%:*}" "${pair#*:}"
done
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir -p /run/lock /run/corosync /run/crm /run/resource-agents
chown hacluster:haclient /run/crm
touch "$FOLDER/ready"
while ! ip -4 -o address show dev s 2>/dev/null | grep -q 10.78; do sleep 0.05; done
(
	while [ ! -e "$FOLDER/dead" ]; do
		"$ENGINE" --start-all >>"$FOLDER/engine.log" 2>&1 </dev/null &
		echo $! >"$FOLDER/engine.pid"
		wait $! || true
		sleep 1
	done
) &
corosync -f >>"$FOLDER/corosync.out" 2>&1 </dev/null &
until corosync-cfgtool -s >/dev/null 2>&1; do sleep 0.1; done
pacemakerd >>"$FOLDER/pacemakerd.out" 2>&1 </dev/null &
while :; do wait -n || sleep 0.1; done
"""

# Pacemaker's executor gives agents an environment of its own.
WRAPPER = """#!/bin/sh
{exports}
begun=$(date +%s%3N)
"{agent}" "$@"
status=$?
[ "$1" = monitor ] || echo "$1 $status $(($(date +%s%3N) - begun))" >>"{folder}/actions"
exit $status
"""

COROSYNC = """totem {{
	version: 2
	cluster_name: pair
	transport: knet
	crypto_cipher: none
	crypto_hash: none
	token: 3000
}}
logging {{
	to_logfile: yes
	logfile: {folder}/log/corosync.log
	to_syslog: no
	to_stderr: no
	timestamp: hires
}}
quorum {{
	provider: corosync_votequorum
	{quorum}
}}
nodelist {{
{nodes}}}
"""


def listed(number: int) -> str:
    return (
        f"\tnode {{\n\t\tname: gw{number}\n\t\tnodeid: {number}\n\t\tring0_addr: {NETWORKS[CLUSTER]}.{number}\n\t}}\n"
    )


def namespaces(
    words: list[str | Path], environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """A process that holds them, and the pid of its child, which they are entered by."""
    process = subprocess.Popen(
        [*map(str, words)],
        stdin=subprocess.DEVNULL,
        env=environment,
        preexec_fn=die_with_parent,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return process, int(wait_until(lambda: children.read_text().split(), f"{words[0]} to have a child")[0])


class Hub:
    def __init__(self) -> None:
        self.process, self.pid = namespaces(["unshare", "--net", "--fork", "--kill-child", "sleep", "infinity"])
        wait_until(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "a network")
        self.run("ip", "link", "set", "lo", "up")
        for name, network in NETWORKS.items():
            self.run("ip", "link", "add", name, "type", "bridge")
            self.run("ip", "address", "add", f"{network}.{HUB}/24", "dev", name)
            self.run("ip", "link", "set", name, "up")

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net")

    def run(self, *words: str) -> None:
        subprocess.run([*self.prefix, *words], check=True)

    def link(self, number: int, name: str, up: bool) -> None:
        self.run("ip", "link", "set", f"{name}{number}", "up" if up else "down")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Node:
    def __init__(self, number: int, gateway: Gateway, folder: Path, hub: Hub, quorum: str, count: int):
        self.number, self.gateway, self.folder, self.hub = number, gateway, folder, hub
        self.name = f"gw{number}"
        for name in (
            "etc-corosync",
            "lib-corosync",
            "lib-pacemaker",
            "log",
            "log/pacemaker",
            "ocf/iraid",
            "bin",
            "libexec",
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("cib", "pengine", "blackbox", "cores"):
            (folder / "lib-pacemaker" / name).mkdir(exist_ok=True)
        for name in ("lib-pacemaker", "log/pacemaker"):
            subprocess.run(["chown", "-R", "hacluster:haclient", folder / name], check=True)
        nodes = "".join(map(listed, range(1, count + 1)))
        (folder / "etc-corosync/corosync.conf").write_text(COROSYNC.format(folder=folder, quorum=quorum, nodes=nodes))
        if not (folder / "ocf/heartbeat").exists():
            for kind in ("heartbeat", "pacemaker"):
                shutil.copytree(f"/usr/lib/ocf/resource.d/{kind}", folder / "ocf" / kind, symlinks=True)
            self._install_agent()
        (folder / "init").write_text(INIT)
        (folder / "ready").unlink(missing_ok=True)
        self.environment = self.gateway.environment() | {
            "NODE": self.name,
            "FOLDER": str(folder),
            "ENGINE": str(folder / "libexec/iraid-engine"),
        }
        self.process, self.pid = namespaces(
            ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--mount-proc", "--fork", "--kill-child",
             "bash", folder / "init"],
            self.environment)  # fmt: skip
        wait_until((folder / "ready").exists, f"{self.name}'s namespaces")
        self._join()

    def _install_agent(self) -> None:
        (self.folder / "bin/iraid").symlink_to(ROOT / "scripts/iraid")
        (self.folder / "libexec/volume-standing").symlink_to(ROOT / "scripts/volume-standing")
        for name in ("iraid-engine", "iraid-look"):
            (self.folder / "libexec" / name).symlink_to(build_folder().resolve() / "handler/adapters" / name)
        wanted = {name: value for name, value in self.gateway.environment().items() if name.startswith("IRAID_")} | {
            "IRAID_LIBEXEC_DIR": str(self.folder / "libexec"),
            "PYTHONPYCACHEPREFIX": str(build_folder() / "tests/pycache"),
        }
        exports = "\n".join(f"export {name}='{value}'" for name, value in wanted.items())
        exports += f"\nexport PATH={self.folder}/bin:$PATH"
        wrapper = self.folder / "ocf/iraid/volume"
        wrapper.write_text(WRAPPER.format(exports=exports, agent=ROOT / "packaging/ocf/volume", folder=self.folder))
        wrapper.chmod(0o755)

    def _join(self) -> None:
        for name, network in NETWORKS.items():
            port = f"{name}{self.number}"
            self.hub.run("ip", "link", "add", port, "type", "veth", "peer", "name", f"p{port}")
            self.hub.run("ip", "link", "set", port, "master", name, "up")
            self.hub.run("ip", "link", "set", f"p{port}", "netns", str(self.pid))
            self.run("ip", "link", "set", f"p{port}", "name", name)
            self.run("ip", "address", "add", f"{network}.{self.number}/24", "dev", name)
            self.run("ip", "link", "set", name, "up")

    def run(self, *words: str | Path, check: bool = True, seconds: float = SLOW_SECONDS) -> str:
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid), "--all", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{self.name}: {words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    # its runner

    @property
    def engine_pid(self) -> str:
        return (self.folder / "engine.pid").read_text().strip()

    def signal_runner(self, name: str) -> None:
        self.run("kill", f"-{name}", self.engine_pid)

    def status(self) -> dict[str, Any] | None:
        """None: the runner does not answer."""
        with contextlib.suppress(OSError):
            return call(self.gateway.socket, "volume.status", name="v0")
        return None

    def role(self) -> str:
        status = self.status()
        return (status["role"] or "none") if status else "dead"

    # its cluster

    def online(self) -> list[str]:
        shown = self.run("crm_node", "-p", check=False)
        return shown.split()

    def promoted(self) -> list[str]:
        """Nodes on which this one believes that the volume is promoted."""
        shown = self.run("crm_resource", "--resource", f"{RESOURCE}-clone", "--locate", check=False)
        return re.findall(r"is running on: (\S+) (?:Promoted|Master)", shown)

    def actions(self) -> list[tuple[str, int, int]]:
        """All but monitor: action, status, milliseconds."""
        path = self.folder / "actions"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(action, int(status), int(ms)) for action, status, ms in (line.split() for line in lines)]

    def did(self) -> list[str]:
        return [action for action, _, _ in self.actions()]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def logs(self) -> str:
        parts = []
        for path in (
            "engine.log",
            "corosync.out",
            "pacemakerd.out",
            "log/corosync.log",
            "log/pacemaker/pacemaker.log",
            "actions",
        ):
            if (self.folder / path).exists():
                parts.append(f"--- {self.name} {path}\n{(self.folder / path).read_text(errors='replace')[-12000:]}")
        return "\n".join(parts)


class Pair:
    """Node n has gateway n.  Further nodes, if any, only vote."""

    def __init__(self, hub: Hub, gateways: list[Gateway], folder: Path, votes: int = 2):
        self.hub, self.gateways, self.folder, self.votes = hub, gateways, folder, votes
        self.nodes: dict[int, Node] = {}
        for number in range(1, votes + 1):
            self.boot(number)
        self.wait_online()

    def boot(self, number: int) -> Node:
        quorum = "two_node: 1" if self.votes == 2 else ""
        self.nodes[number] = Node(
            number, self.gateways[number - 1], self.folder / f"node{number}", self.hub, quorum, self.votes
        )
        return self.nodes[number]

    @property
    def first(self) -> Node:
        return self.nodes[1]

    @property
    def second(self) -> Node:
        return self.nodes[2]

    def wait_online(self) -> None:
        names = sorted(node.name for node in self.nodes.values())
        for node in self.nodes.values():
            wait_until(lambda: sorted(node.online()) == names, f"{node.name} to see {names}", SLOW_SECONDS)

    def wait_promoted(self, node: Node, seen_by: Node | None = None) -> None:
        """Until the cluster says so, its gateway too, and nothing more is to be done."""
        witness = seen_by or node

        def promoted() -> bool:
            status = node.status()
            return witness.promoted() == [node.name] and status is not None and status["state"] == "active"

        wait_until(promoted, f"{node.name} to be promoted", SLOW_SECONDS)
        witness.run("crm_resource", "--wait", "--timeout=60", check=False)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.hub.close()

    def logs(self) -> str:
        return "\n".join(node.logs() for node in self.nodes.values())
