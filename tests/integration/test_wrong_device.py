"""Commands that could meet another device, or another volume, than the one they were given: nothing is lost by them.

What counts is on the members: who was not named keeps its superblock, or its bytes.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_target import FakeTarget, sense

from iraid_dev.stack.farm import LUN, TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until
from iraid_dev.stack.reader import Member, NotAMember

pytestmark = pytest.mark.once

PROBE_OFFSET = 512 << 10  # of superblock B
MEDIUM_ERROR = sense(3, 0x0C00)


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(6)


def create(gateway: Gateway, farm: TargetFarm, *more: str) -> None:
    """v0 of the first three, its parity made."""
    gateway.create("v0", farm.members()[:3], 5, "16K", *more)
    wait_until(lambda: gateway.status("v0")["regions"]["suspect"] == 0, "the first resync")


def devices(gateway: Gateway) -> dict[str, dict[str, Any]]:
    return {member["member"]: member for member in gateway.status("v0")["members"]}


def has_superblock(path: Path) -> bool:
    try:
        Member(path).superblock()
    except NotAMember:
        return False
    return True


def scribble(path: Path) -> bytes:
    """What is to be there afterwards; no signature of anything."""
    with path.open("r+b") as file:
        file.write(bytes(range(1, 256)) * 4112)
    return path.read_bytes()


def second_name(farm: TargetFarm, number: int) -> str:
    return f"{farm.portal(number)}/{farm.iqn(number)}-b/{LUN}"


def present_by_second_name(farm: TargetFarm, number: int) -> None:
    """One more target of the same tgtd, with the same LUN."""
    target = farm.targets[number]
    tid = ("--tid", str(target.tid + 1))
    farm.admin(number, "--mode", "target", "--op", "new", *tid, "--targetname", f"{target.iqn}-b")
    farm.admin(
        number, "--mode", "logicalunit", "--op", "new", *tid, "--lun", str(LUN), "--backing-store", str(target.backing)
    )
    farm.admin(number, "--mode", "target", "--op", "bind", *tid, "--initiator-address", "ALL")


def present_disk_of(farm: TargetFarm, number: int, other: int) -> None:
    """Target `number` has another's disk from now on.  Its sessions stay, and no initiator is told."""
    for parameters in ("removable=1,online=0", f"path={farm.backing(other)},removable=0,online=1"):
        farm.admin(number, "--mode", "logicalunit", "--op", "update", "--tid", str(farm.targets[number].tid),
                   "--lun", str(LUN), "--params", parameters)  # fmt: skip


@contextmanager
def busy(gateway: Gateway) -> Iterator[None]:
    """A command waits for a target that doesn't answer, and others wait for that command."""
    go_on = threading.Event()
    with FakeTarget() as target:
        target.rules.append(lambda command: None if go_on.wait() else None)
        thread = threading.Thread(target=gateway.iraid, args=("add-spare", "v0", target.member))
        thread.start()
        try:
            wait_until(lambda: target.commands, "the command to look at its device")
            yield
        finally:
            go_on.set()
            thread.join()


class Request:
    """One that the gateway has read, and answers when it may."""

    def __init__(self, gateway: Gateway, method: str, **parameters: Any) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(gateway.socket))
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "v0"} | parameters}
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        wait_until(lambda: self._unread_bytes() == 0, "the request to be read")

    def _unread_bytes(self) -> int:
        return struct.unpack("i", fcntl.ioctl(self.connection, termios.TIOCOUTQ, bytes(4)))[0]

    def succeeded(self) -> bool:
        with self.connection, self.connection.makefile("rb") as file:
            return "result" in json.loads(file.readline())


def test_removing_another_name_of_a_member_does_not_wipe_the_member(gateway: Gateway, farm: TargetFarm) -> None:
    """An administrator listed the second names of two LUNs, which answer only once the volume runs."""
    create(gateway, farm)
    gateway.must("stop", "v0")
    names = [second_name(farm, number) for number in (0, 1)]
    gateway.configure("v0", members=[*farm.members()[:3], *names], assembly_wait_seconds=1)
    gateway.must("start", "v0", "--timeout", "15")
    for number in (0, 1):
        present_by_second_name(farm, number)
    wait_until(
        lambda: all("UUID" in devices(gateway)[name]["reason"] for name in names), "the other names to be looked at"
    )

    for name in names:
        ran = gateway.must("remove", "v0", name, "--wipe")
        assert f"{name} was not wiped" in ran.out + ran.err, ran
    assert set(devices(gateway)) == set(farm.members()[:3])
    assert all(has_superblock(farm.backing(number)) for number in range(3))


def test_removing_a_spare_whose_address_leads_to_a_member_does_not_wipe_the_member(
    gateway: Gateway, farm: TargetFarm,
) -> None:  # fmt: skip
    create(gateway, farm, "--spare", farm.member(3))
    present_disk_of(farm, 3, 2)
    ran = gateway.must("remove", "v0", farm.member(3))
    assert f"{farm.member(3)} was not wiped" in ran.out + ran.err, ran
    assert farm.member(3) not in devices(gateway)
    assert has_superblock(farm.backing(2))


def test_deleting_a_copy_of_a_volumes_file_does_not_wipe_the_volume(gateway: Gateway, farm: TargetFarm) -> None:
    create(gateway, farm)
    gateway.must("stop", "v0")
    folder = gateway.config / "volumes"
    shutil.copy(folder / "v0.conf", folder / "v1.conf")
    ran = gateway.iraid("delete", "v1", "--yes")
    assert ran.status == 1 and 'volumes "v1" and "v0" have the same UUID' in ran.err, ran
    gateway.must("delete", "v1", "--yes", "--no-wipe")
    assert not (folder / "v1.conf").exists()
    gateway.must("start", "v0", "--timeout", "15")
    assert gateway.status("v0")["state"] == "active"


def test_deleting_by_a_file_that_was_overwritten_wipes_no_other_volume(gateway: Gateway, farm: TargetFarm) -> None:
    """v0 runs, and v1's file was copied over its own: what would be deleted?"""
    create(gateway, farm)
    gateway.create("v1", farm.members()[3:6], 5, "16K")
    gateway.must("stop", "v1")
    folder = gateway.config / "volumes"
    shutil.copy(folder / "v1.conf", folder / "v0.conf")
    for has_copy in (True, False):
        if not has_copy:
            (folder / "v1.conf").unlink()
        ran = gateway.iraid("delete", "v0", "--yes")
        assert ran.status == 1 and 'volume "v0" runs with UUID' in ran.err, ran
        assert gateway.status("v0")["state"] == "active"
    assert all(has_superblock(farm.backing(number)) for number in range(6))


@pytest.mark.parametrize("state", ["assembling", "failed"])
def test_a_member_that_a_start_waits_for_is_not_made_a_spare(gateway: Gateway, farm: TargetFarm, state: str) -> None:
    """Target 0 has moved, and target 2 is down, or empty disks answer for both: with 0 by its address the volume would start."""
    create(gateway, farm)
    gateway.must("stop", "v0")
    names = farm.members()[:3]
    former, wait_seconds = farm.member(5), 1
    if state == "assembling":
        former, wait_seconds = names[0].replace("127.0.0.1:", "127.0.0.9:"), 60
        farm.kill(2)
    else:
        present_disk_of(farm, 2, 4)
    gateway.configure("v0", members=[former, *names[1:]], assembly_wait_seconds=wait_seconds)
    gateway.iraid("start", "v0", "--timeout", "1")
    wait_until(lambda: gateway.status("v0")["state"] == state, f"a volume that is {state}")

    ran = gateway.iraid("add-spare", "v0", names[0], "--force")
    assert ran.status == 1 and 'holds a member of volume "v0", which' in ran.err, ran
    gateway.must("stop", "v0")
    gateway.configure("v0", members=names, assembly_wait_seconds=1)
    gateway.must("start", "v0", "--timeout", "15")
    assert gateway.status("v0")["state"] == "degraded"


def test_two_removals_of_one_spare_take_no_other(gateway: Gateway, farm: TargetFarm) -> None:
    """Between the two, another spare gets the place of the first."""
    create(gateway, farm, "--spare", farm.member(3))
    with busy(gateway):
        requests = [
            Request(gateway, "member.remove", member=farm.member(3)),
            Request(gateway, "spare.add", device=farm.member(4)),
            Request(gateway, "member.remove", member=farm.member(3)),
        ]
    removed, added, removed_too = [request.succeeded() for request in requests]
    assert added and removed != removed_too
    assert set(devices(gateway)) == {*farm.members()[:3], farm.member(4)}


def test_a_replacement_is_not_thrown_out_by_its_own_command(gateway: Gateway, farm: TargetFarm) -> None:
    """While it waits, the member that it is to replace is removed; the new one gets the place of that."""
    create(gateway, farm)
    gateway.must("fail", "v0", farm.member(2))
    with busy(gateway):
        requests = [
            Request(gateway, "member.remove", member=farm.member(2)),
            Request(gateway, "member.replace", member=farm.member(2), device=farm.member(4)),
        ]
    _, replaced = [request.succeeded() for request in requests]
    assert (farm.member(4) in devices(gateway)) == replaced
    assert farm.member(2) not in devices(gateway)


def test_a_refused_spare_keeps_its_content(gateway: Gateway, farm: TargetFarm) -> None:
    """Another program runs the volume."""
    create(gateway, farm)
    gateway.must("stop", "v0")
    before = scribble(farm.backing(4))
    with gateway.serve("v0") as served:
        served.connect()
        ran = gateway.iraid("add-spare", "v0", farm.member(4))
        assert ran.status == 1 and "nbdkit" in ran.err, ran
    assert farm.backing(4).read_bytes() == before


@pytest.mark.parametrize("role", ["member", "spare"])
def test_a_create_that_fails_puts_back_what_it_has_not_formatted(gateway: Gateway, farm: TargetFarm, role: str) -> None:
    """One LUN refuses to be written at its beginning, which is found out after all were probed further behind."""
    before = [scribble(farm.backing(number)) for number in range(3)]
    with FakeTarget(size_bytes=64 << 20) as refusing:
        refusing.disk[PROBE_OFFSET : PROBE_OFFSET + 4096] = content = bytes(range(128)) * 32
        refusing.rules.append(lambda command: MEDIUM_ERROR if command.is_write and command.offset == 0 else None)
        refuses = [refusing.member] if role == "member" else ["--spare", refusing.member]
        ran = gateway.iraid("create", "v0", "--level", "1", *refuses, *farm.members()[:2], "--spare", farm.member(2))
        assert ran.status == 1 and refusing.member in ran.err, ran
        assert refusing.disk[PROBE_OFFSET : PROBE_OFFSET + 4096] == content
    untouched = range(3) if role == "member" else [2]
    assert all(farm.backing(number).read_bytes() == before[number] for number in untouched)
