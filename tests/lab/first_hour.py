#!/usr/bin/python3
"""The first hour of somebody who has the manual: a gateway g, an initiator i, and targets on t, each a whole Debian.

    root=$(scripts/clean-debian --install --suite trixie --with open-iscsi --with tgt PACKAGES/iraid_*.deb)
    scripts/lab --machines g,i,t --systemd --root "$root" -- tests/lab/first_hour.py

What docs/operating/deploy.md and members.md say is typed as they say it: a volume on level 6 with CHAP on both sides, a
secret that is wrong, a member that is lost and replaced, a disk that rots, a gateway that dies, and all of it taken down.
Everything that was typed and answered is printed: for a reader who looks for what a newcomer would stumble over.
"""

from __future__ import annotations

import re
import sys
import time

from iraid_dev.lab.machines import Machine, MachineGone, Machines

IQN = "iqn.2026-01.org.example"
TARGET_ADDRESSES = [f"10.77.1.{101 + number}" for number in range(6)]
MEMBERS = [f"{address}/{IQN}:disk{number}/1" for number, address in enumerate(TARGET_ADDRESSES, 1)]
DISK_BYTES = 256 << 20
TARGETS_SECRETS = "gateway\nsecret-of-gateway\ndisks\nsecret-of-disks\n"
CLIENTS_SECRETS = "clients\nsecret-of-clients\n"
TGT_TARGET = """
<target {iqn}:disk{number}>
    backing-store /srv/iraid/disk{number}.img
    incominguser gateway secret-of-gateway
    outgoinguser disks secret-of-disks
    MaxRecvDataSegmentLength 262144
    MaxXmitDataSegmentLength 262144
    FirstBurstLength 262144
    MaxBurstLength 1048576
    InitialR2T No
    ImmediateData Yes
    MaxQueueCmd 512
</target>
"""
ROT_MIB, ROTS = 48, 5  # from there on, each with a MiB in between
BOOT_SECONDS = 300
SCRUB_FOUND = 3
SUMS = "echo 3 >/proc/sys/vm/drop_caches; md5sum --quiet -c /root/sums"


class Typist:
    """Types as root, and shows what was answered."""

    def __init__(self, machine: Machine):
        self.machine = machine

    def types(self, command: str, status: int | None = 0, seconds: float = 300.0, given: str = "") -> str:
        """status: what it has to exit with; None: any."""
        began = time.monotonic()
        done = self.machine.run(command, given=given, seconds=seconds)
        text = (done.output + done.errors).rstrip()
        took = time.monotonic() - began
        print(f"\n{self.machine.name}# {command}    [{took:.1f} s, exit status {done.status}]\n{text}", flush=True)
        assert status is None or done.status == status, f"exit status {done.status}, not {status}"
        return text


class FirstHour:
    def __init__(self, machines: Machines):
        self.machines = machines
        self.gateway, self.initiator, self.targets = (Typist(machines[name]) for name in "git")
        self.portal = machines["g"].address("front")
        self.disk = f"/dev/disk/by-path/ip-{self.portal}:3260-iscsi-{IQN}:v0-lun-0"

    def steps(self) -> None:
        for step in (
            self.set_up_targets,
            self.install,
            self.make_volume,
            self.export,
            self.log_in,
            self.lose_a_member,
            self.let_a_disk_rot,
            self.let_the_gateway_die,
            self.take_down,
        ):
            began = time.monotonic()
            print(f"\n=== {step.__name__.replace('_', ' ')}")
            step()
            print(f"\n=== {step.__name__.replace('_', ' ')}: {time.monotonic() - began:.1f} s", flush=True)

    def set_up_targets(self) -> None:
        for address in TARGET_ADDRESSES:
            self.targets.types(f"ip address add {address}/24 dev back")
        self.targets.types(f"mkdir -p /srv/iraid && truncate -s {DISK_BYTES} /srv/iraid/disk{{1..6}}.img")
        wanted = "".join(TGT_TARGET.format(iqn=IQN, number=number) for number in range(1, 7))
        self.targets.types("umask 077; cat >/etc/tgt/conf.d/iraid.conf", given=wanted)
        self.targets.types("systemctl restart tgt")

    def install(self) -> None:
        # One system for all three: here it has no business with targets.
        self.gateway.types("systemctl disable --now tgt")
        self.gateway.types("systemctl enable --now tcmu-runner rtslib-fb-targetctl")
        self.gateway.types("systemctl enable --now iraid-scrub.timer")
        self.gateway.types("iraid version")
        self.gateway.types("iraid")

    def make_volume(self) -> None:
        types, first = self.gateway.types, TARGET_ADDRESSES[0]
        types("install -d -m 0700 /etc/iraid/secrets")
        types("umask 077; cat >/etc/iraid/secrets/targets", given=TARGETS_SECRETS)
        types("umask 077; cat >/root/wrong", given=TARGETS_SECRETS.replace("secret-of-gateway", "secret-of-nobody"))
        types(f"iraid discover {first}")
        assert "compare user and secret" in types(f"iraid examine {MEMBERS[0]} --chap-file /root/wrong", status=1)
        types(f"iraid discover {first} --chap-file /etc/iraid/secrets/targets")
        types(f"iraid examine {MEMBERS[0]} --chap-file /etc/iraid/secrets/targets")
        types(f"iraid create v0 --level 6 --chap-file /etc/iraid/secrets/targets {' '.join(MEMBERS[:5])}")
        types("iraid status v0")
        types("iraid advise v0")
        types("iraid wait v0 --timeout 600", seconds=660)
        types("ls -lR /etc/iraid; ps -ef | grep -c '[s]ecret-of'", status=1)

    def export(self) -> None:
        types, name = self.gateway.types, f"{IQN}:i"
        types("umask 077; cat >/etc/iraid/secrets/clients", given=CLIENTS_SECRETS)
        types(
            f"iraid export v0 --iqn {IQN}:v0 --portal {self.portal}:3260 --acl {name} "
            "--chap-file /etc/iraid/secrets/clients"
        )
        types("targetcli ls /iscsi")
        types("iraid doctor", status=None)

    def log_in(self) -> None:
        types, wanted = self.initiator.types, {"authmethod": "CHAP"}
        wanted |= dict(zip(("username", "password"), CLIENTS_SECRETS.split(), strict=True))
        types(f"echo InitiatorName={IQN}:i >/etc/iscsi/initiatorname.iscsi; systemctl restart iscsid")
        types(
            "cat >>/etc/iscsi/iscsid.conf",
            given="".join(f"node.session.auth.{name} = {value}\n" for name, value in wanted.items()),
        )
        types(f"iscsiadm -m discovery -t st -p {self.portal}")
        types(f"iscsiadm -m node -T {IQN}:v0 --login")
        self.initiator.machine.wait_until(f"test -b {self.disk}")
        types("lsblk -o NAME,SIZE,VENDOR,MODEL")
        types(
            f"mkfs.ext4 -q {self.disk} && mount {self.disk} /mnt && cp -r /usr/share/doc/iraid /usr/lib/python3 /mnt/"
        )
        types("find /mnt -type f -exec md5sum {} + >/root/sums; wc -l /root/sums")

    def lose_a_member(self) -> None:
        self.targets.types(f"ip address del {TARGET_ADDRESSES[1]}/24 dev back")
        self.initiator.types("cp -r /usr/share/man /mnt/ && sync")
        self.initiator.types(SUMS)
        self.gateway.types("iraid status v0")
        self.gateway.types("iraid status --health", status=None)
        self.gateway.types(f"iraid replace v0 1 {MEMBERS[5]} --wait", seconds=600)
        self.gateway.types("iraid status v0")
        self.gateway.types("iraid events v0")
        self.targets.types(f"ip address add {TARGET_ADDRESSES[1]}/24 dev back")
        self.gateway.types(f"iraid remove v0 {TARGET_ADDRESSES[1]}", status=None)

    def let_a_disk_rot(self) -> None:
        for mib in range(ROT_MIB, ROT_MIB + 2 * ROTS, 2):
            self.targets.types(
                f"dd if=/dev/urandom of=/srv/iraid/disk3.img bs=64K count=1 seek={16 * mib} conv=notrunc status=none"
            )
        types = self.gateway.types
        types("iraid scrub start v0 --wait", status=SCRUB_FOUND, seconds=600)
        types("iraid scrub status v0", status=SCRUB_FOUND)
        types("iraid scrub start v0 --repair --wait", status=None, seconds=600)
        types("iraid scrub start v0 --wait", seconds=600)
        self.initiator.types(SUMS)

    def let_the_gateway_die(self) -> None:
        machine = self.gateway.machine
        machine.kill()
        machine.boot()
        self.gateway.types("systemctl is-system-running --wait", seconds=BOOT_SECONDS)
        self.gateway.types("iraid status v0")
        self.initiator.types("cp -r /usr/share/man /mnt/again && sync")
        self.initiator.types(SUMS)
        self.gateway.types("iraid wait v0 --timeout 600", seconds=660)
        self.gateway.types("iraid doctor", status=None)
        log = self.initiator.types("dmesg | grep -iE 'i/o error|ext4-fs error' || true")
        assert log == "", "the initiator had errors"

    def take_down(self) -> None:
        self.initiator.types(f"umount /mnt; iscsiadm -m node -T {IQN}:v0 --logout && iscsiadm -m node -o delete")
        types = self.gateway.types
        types("iraid delete v0 --yes", status=1)
        types("iraid unexport v0")
        types("iraid delete v0 --yes")
        types("iraid")
        for member in MEMBERS[:1]:
            types(f"iraid examine {member} --chap-file /etc/iraid/secrets/targets")
        types("DEBIAN_FRONTEND=noninteractive apt-get -y purge iraid", seconds=600)
        left = types("ls -d /etc/iraid /var/lib/iraid /run/iraid; systemctl --failed --no-legend", status=None)
        assert not re.search(r"^/", left, re.MULTILINE), left


def main() -> None:
    began = time.monotonic()
    FirstHour(Machines.of_this_lab()).steps()
    print(f"first hour: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except MachineGone as gone:
        sys.exit(f"first_hour: {gone}")
