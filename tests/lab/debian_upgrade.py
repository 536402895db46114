#!/usr/bin/python3
"""Two gateways go from one release of Debian to the next, one after the other, under load: beside the machines of

    root=$(scripts/clean-debian --suite bookworm --with open-iscsi --with multipath-tools --install --next trixie \\
        $(printf -- '--next-deb %s ' NEXT/iraid*.deb) PACKAGES/iraid_*.deb PACKAGES/iraid-exporter_*.deb)
    scripts/lab --machines a,b,i --systemd --root "$root" --timeout 7000 -- tests/lab/debian_upgrade.py NEXT

NEXT: the folder with the packages of the next release (scripts/package --suite).  The volume v0 is the pair's, and
moves to the one that is not upgraded; v1 is a's alone, with CHAP on both sides, and its initiator waits.  What an
administrator types is typed: apt-get full-upgrade, a reboot, iraid standby and activate.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from iraid_dev.lab.clean_debian import index_packages
from iraid_dev.lab.machines import Background, Machine, MachineGone, Machines
from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.reader import VolumeReader

PAIR, ALONE = "v0", "v1"
IQN = "iqn.2026-01.org.iraid.test"
TARGETS, CLIENTS = ("targets", "secret-of-targets"), ("clients", "secret-of-clients")
SLOTS = "--slot-bytes 20480 --slots 1024"
UPGRADE_SECONDS, BOOT_SECONDS = 2400, 400
GATEWAY_PACKAGES = ("iraid", "iraid-exporter")

# As docs/operating/deploy.md has it; the hardware handler is what user-mode Linux lacks.
MULTIPATH = """
defaults {
	find_multipaths yes
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
# A gateway that is started anew is away for longer than an initiator waits if nobody has told it to.
WAITS = "s/^node.session.timeo.replacement_timeout *=.*/node.session.timeo.replacement_timeout = 3600/"
# What an upgrade of Debian has to leave as it is.
KEPT = {
    "configuration": "find /etc/iraid -type f ! -name '*.sample' -exec sha256sum {} + -exec stat -c '%n %a %U' {} + | sort",
    "gateway": "cd /var/lib/iraid && sha256sum gateway-id",
    "exports": "cat /etc/rtslib-fb-target/saveconfig.json",
    "services": "systemctl is-enabled tcmu-runner rtslib-fb-targetctl iraid-scrub.timer iraid-exporter",
    "volumes": "iraid list --json",
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Upgrade:
    def __init__(self, machines: Machines, following: Path):
        self.machines = machines
        self.a, self.b, self.i = (machines[name] for name in "abi")
        self.following = following
        self.rows: list[tuple[str, float]] = []

    def step(self, name: str, began: float) -> None:
        self.rows.append((name, round(time.monotonic() - began, 1)))
        say(f"{name}: {self.rows[-1][1]} s")

    # Packages

    def give(self, machine: Machine) -> Path:
        """A repository of our packages where the machine sees it."""
        folder = machine.state / "next"
        folder.mkdir()
        for package in GATEWAY_PACKAGES:
            (deb,) = self.following.glob(f"{package}_*.deb")
            shutil.copy(deb, folder)
        index_packages(folder)
        return folder

    def apt(self, machine: Machine, words: str, seconds: float) -> Background:
        return machine.start(
            f"export DEBIAN_FRONTEND=noninteractive; apt-get -y -o Dpkg::Options::=--force-unsafe-io {words} >&2",
            seconds,
        )

    def begin(self) -> None:
        """They are one system, so they have one initiator's name."""
        for machine in self.machines.values():
            name = f"InitiatorName={IQN}:{machine.name}"
            machine.run(f"echo {name} >/etc/iscsi/initiatorname.iscsi && systemctl restart iscsid", seconds=120).good()
        for machine in (self.a, self.b):
            machine.run("systemctl enable --now tcmu-runner rtslib-fb-targetctl", seconds=120).good()

    def upgrade(self, machine: Machine) -> None:
        """As Debian's release notes have it, in short."""
        began = time.monotonic()
        before = self.kept(machine)
        folder = self.give(machine)
        sources = "".join(f"deb [trusted=yes] file:{path} ./\n" for path in ("/srv/next", folder))
        machine.run("cat >/etc/apt/sources.list", given=sources).good()
        self.apt(machine, "update", 120).wait(180).good()
        log = self.apt(machine, "full-upgrade", UPGRADE_SECONDS).wait(UPGRADE_SECONDS).good().errors
        (machine.state / "full-upgrade.log").write_text(log)
        self.check_release(machine)
        self.step(f"{machine.name}: full-upgrade", began)
        began = time.monotonic()
        self.reboot(machine)
        self.step(f"{machine.name}: rebooted", began)
        self.check_kept(machine, before)

    def check_release(self, machine: Machine) -> None:
        assert machine.run("dpkg --audit").good().output == ""
        release = machine.run("cat /etc/debian_version").good().output
        assert release.startswith("13"), release
        versions = (
            machine.run("dpkg-query -W -f '${Package} ${Version}\\n' iraid iraid-exporter tcmu-runner").good().output
        )
        say(versions)
        assert versions.count("~deb13u1") == len(GATEWAY_PACKAGES), versions

    def reboot(self, machine: Machine) -> None:
        machine.run("systemctl poweroff --no-block").good()
        deadline = time.monotonic() + BOOT_SECONDS
        while machine.lives():
            assert time.monotonic() < deadline, f"{machine.name} is not off"
            time.sleep(0.2)
        machine.boot()
        machine.run("systemctl is-system-running --wait", seconds=BOOT_SECONDS)
        assert machine.run("systemctl --failed --no-legend").good().output == ""

    # What is kept

    def kept(self, machine: Machine) -> dict[str, Any]:
        seen: dict[str, Any] = {name: machine.run(command).good().output for name, command in KEPT.items()}
        seen["exports"] = exports(json.loads(seen["exports"]))
        seen["volumes"] = volumes(json.loads(seen["volumes"]))
        return seen

    def check_kept(self, machine: Machine, before: dict[str, Any]) -> None:
        after = self.kept(machine)
        for name in before:
            assert after[name] == before[name], f"{machine.name}: {name}: {before[name]}\nis now\n{after[name]}"

    # Volumes

    def make_pair(self, members: list[str]) -> None:
        self.a.run(f"iraid create {PAIR} --level 5 --wait {' '.join(members)}").good()
        configuration = self.a.run(f"cat /etc/iraid/volumes/{PAIR}.conf").good().output
        self.b.run(f"umask 077; cat >/etc/iraid/volumes/{PAIR}.conf", given=configuration).good()
        self.b.run(f"sed -i /^initiator/d /etc/iraid/volumes/{PAIR}.conf").good()
        self.b.run(f"iraid standby {PAIR}").good()
        for number, (machine, other) in enumerate(((self.a, self.b), (self.b, self.a)), 1):
            if machine is self.b:
                self.move(self.b, other)
            words = f"--iqn {IQN}:{PAIR} --portal {machine.address('front')}:3260 --acl {IQN}:i --no-chap"
            machine.run(f"iraid export {PAIR} --pair {number} {words}").good()
        self.move(self.a, self.b)

    def make_alone(self, members: list[str]) -> None:
        for name, (user, secret) in (("targets", TARGETS), ("clients", CLIENTS)):
            self.a.run(f"umask 077; cat >/etc/iraid/secrets/{name}", given=f"{user}\n{secret}\n").good()
        self.a.run(
            f"iraid create {ALONE} --level 6 --wait --chap-file /etc/iraid/secrets/targets {' '.join(members)}"
        ).good()
        self.a.run(
            f"iraid export {ALONE} --iqn {IQN}:{ALONE} --portal {self.a.address('front')}:3261 --acl {IQN}:i "
            "--chap-file /etc/iraid/secrets/clients"
        ).good()

    def move(self, to: Machine, other: Machine) -> None:
        other.run(f"iraid standby {PAIR}").good()
        to.run(f"iraid activate {PAIR} --timeout 60", seconds=90).good()

    def role(self, machine: Machine) -> str:
        return str(json.loads(machine.run(f"iraid status {PAIR} --json").good().output)["role"])

    # The initiator

    def log_in(self) -> None:
        self.i.run(f"sed -i '{WAITS}' /etc/iscsi/iscsid.conf").good()
        self.i.run("cat >/etc/multipath.conf && systemctl restart multipathd", given=MULTIPATH).good()
        for machine in (self.a, self.b):
            node = f"iscsiadm -m node -T {IQN}:{PAIR} -p {machine.address('front')}"
            self.i.run(f"{node} -o new && {node} --login").good()
        node = f"iscsiadm -m node -T {IQN}:{ALONE} -p {self.a.address('front')}:3261"
        self.i.run(f"{node} -o new").good()
        user, secret = CLIENTS
        for name, value in (("authmethod", "CHAP"), ("username", user), ("password", secret)):
            self.i.run(f"{node} -o update -n node.session.auth.{name} -v {value}").good()
        self.i.run(f"{node} --login").good()
        self.i.wait_until(f"test -b {self.disk(PAIR)} && test -b $(readlink -f {self.disk(ALONE)})")

    def disk(self, volume: str) -> str:
        if volume == PAIR:
            return "/dev/mapper/mpatha"
        return f"/dev/disk/by-path/ip-{self.a.address('front')}:3261-iscsi-{IQN}:{ALONE}-lun-0"

    def write(self, volume: str) -> Background:
        words = f"--device {self.disk(volume)} --journal /root/journal-{volume} {SLOTS} --until /root/end"
        return self.i.start(f"python3 {self.i.state}/ack_writer.py write {words} --seconds 6500", 6600.0)

    def identity(self) -> str:
        return self.i.run("cat /sys/class/scsi_device/*/device/wwid").good().output

    def finish(self, writers: dict[str, Background]) -> list[dict[str, Any]]:
        self.i.run("touch /root/end").good()
        seen = []
        for volume, writer in writers.items():
            wrote = json.loads(writer.wait(300.0).good().output.splitlines()[-1])
            words = f"--device {self.disk(volume)} --journal /root/journal-{volume} {SLOTS}"
            check = self.i.run(f"python3 {self.i.state}/ack_writer.py check {words}", seconds=300).good()
            found = json.loads(check.output)
            row = {
                "volume": volume,
                "writes": wrote["writes"],
                "errors": wrote["errors"],
                "longest_stall_seconds": wrote["gap_seconds"],
                "slots_checked": found["checked"],
                "lost": found["lost"],
            }
            print(json.dumps(row), flush=True)
            seen.append(row)
        return seen


def exports(saved: dict[str, Any]) -> dict[str, Any]:
    """What of LIO's saved configuration is ours to keep: devices, names, LUNs, portals, who is admitted and with what."""
    devices = {
        one["name"]: [one.get(key) for key in ("plugin", "wwn", "config", "size")] for one in saved["storage_objects"]
    }
    keys = ("tag", "luns", "portals", "node_acls")
    targets = {one["wwn"]: [{key: group.get(key) for key in keys} for group in one["tpgs"]] for one in saved["targets"]}
    return {"devices": devices, "targets": targets}


def volumes(listed: dict[str, Any]) -> list[Any]:
    keys = ("name", "uuid", "level", "role", "size_bytes")
    return [{key: volume.get(key) for key in keys} for volume in listed["volumes"]]


def farms(stack: ExitStack) -> tuple[TargetFarm, TargetFarm]:
    """The members of v0, and of v1."""
    made = []
    for name, first, count, chap in (("pair", 101, 4, None), ("alone", 111, 5, TARGETS)):
        addresses = [f"10.77.1.{first + number}" for number in range(count)]
        for address in addresses:
            subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "back"], check=True)
        options = [TargetOptions(address=address, size_bytes=64 << 20, chap=chap) for address in addresses]
        made.append(stack.enter_context(TargetFarm(Path(os.environ["IRAID_LAB_STATE"]) / name, options=options)))
    return made[0], made[1]


def main() -> None:
    (following,) = map(Path, sys.argv[1:])
    with ExitStack() as stack:
        pair, alone = farms(stack)
        up = Upgrade(Machines.of_this_lab(), following)
        up.begin()
        up.make_pair(pair.members())
        up.make_alone(alone.members())
        shutil.copy(ROOT / "python/iraid_dev/stack/ack_writer.py", up.i.state)
        up.log_in()
        identity = up.identity()
        writers = {volume: up.write(volume) for volume in (PAIR, ALONE)}
        up.i.wait_until(f"test -s /root/journal-{PAIR} && test -s /root/journal-{ALONE}")

        up.upgrade(up.b)
        assert up.role(up.b) == "standby"
        began = time.monotonic()
        up.move(up.b, up.a)
        up.step("moved to b", began)
        up.upgrade(up.a)
        assert up.role(up.a) == "standby"
        began = time.monotonic()
        up.move(up.a, up.b)
        up.step("moved to a", began)

        assert up.identity() == identity
        seen = up.finish(writers)
        for machine in (up.a, up.b):
            print(machine.run("iraid doctor", seconds=120).output, file=sys.stderr)
        up.i.run("multipath -f mpatha; iscsiadm -m node --logout").good()
        up.a.run(
            f"iraid unexport {PAIR}; iraid unexport {ALONE}; iraid stop {PAIR}; iraid stop {ALONE}", seconds=120
        ).good()
        for farm in (pair, alone):
            assert not VolumeReader([farm.backing(number) for number in range(len(farm))]).wrong_rows()
        print("\n".join(f"{name}: {seconds} s" for name, seconds in up.rows))
        assert all(row["errors"] == [] and row["lost"] == [] and row["slots_checked"] > 0 for row in seen), seen


if __name__ == "__main__":
    try:
        main()
    except MachineGone as gone:
        sys.exit(f"debian_upgrade: {gone}")
