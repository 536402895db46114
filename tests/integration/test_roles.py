"""A volume moves between two gateways: one serves it, the other is on standby or fenced off."""

from __future__ import annotations

import errno
import random
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbd
import pytest
from fake_target import FakeTarget, Reply, Reservations

from iraid.control.client import Client
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Ran, Served, wait_until
from iraid_dev.stack.reader import NotAMember, VolumeReader
from iraid_dev.stack.shadow import read_all

MIB = 1 << 20
MOVES = 10
WRITES_A_MOVE = 40
BLOCK = 4096
LATE = b"written by the gateway whose turn was over " * 96
LATE = LATE[:BLOCK]


class Node:
    """A gateway and the process that serves the volume there, which keeps the id of a machine of its own."""

    def __init__(self, gateway: Gateway, machine: str, monkeypatch: pytest.MonkeyPatch):
        self.gateway, self.monkeypatch = gateway, monkeypatch
        self.machine = gateway.folder / "machine-id"
        self.machine.write_text(f"{machine}\n")
        self.served: Served | None = None
        self.handle: nbd.NBD | None = None

    def begin(self) -> Served:
        with self.monkeypatch.context() as here:
            here.setenv("IRAID_MACHINE_ID", str(self.machine))
            self.served = self.gateway.serve("v0")
        self.served.status()
        return self.served

    def without_users(self) -> Gateway:
        """Its volumes are another process's from now on, which nobody uses them in."""
        if self.served is not None:
            self.served.stop()
        self.served = self.handle = None
        with self.monkeypatch.context() as here:
            here.setenv("IRAID_MACHINE_ID", str(self.machine))
            self.gateway.start()
        return self.gateway

    def iraid(self, *words: str) -> Ran:
        assert self.served is not None
        return self.gateway.iraid("--socket", self.served.control, *words)

    def must(self, *words: str) -> Ran:
        ran = self.iraid(*words)
        assert ran.status == 0, ran
        return ran

    def status(self) -> dict[str, Any]:
        assert self.served is not None
        return self.served.status()

    def wait_role(self, role: str) -> dict[str, Any]:
        assert self.served is not None
        return self.served.wait_status(lambda status: status["role"] == role, f"it to be {role}")

    def disk(self) -> nbd.NBD:
        """One connection over all roles, as a LUN is."""
        assert self.served is not None
        if self.handle is None:
            self.handle = self.served.connect()
        return self.handle

    def refuses(self) -> None:
        for attempt in (
            lambda: self.disk().pread(BLOCK, 0),
            lambda: self.disk().pwrite(LATE, 0, nbd.CMD_FLAG_FUA),
            lambda: self.disk().flush(),
            lambda: self.disk().zero(BLOCK, 0),
        ):
            with pytest.raises(nbd.Error) as refused:
                attempt()
            assert refused.value.errnum == errno.ESHUTDOWN, refused.value


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(3)


@pytest.fixture
def reader(farm: TargetFarm, gateway: Gateway) -> VolumeReader:
    """Of volume v0, made and stopped."""
    gateway.create("v0", farm.members(), 5, "64K", "--give-up", "2")
    gateway.must("wait", "v0")
    gateway.must("stop", "v0")
    gateway.stop()
    return VolumeReader([farm.backing(number) for number in range(len(farm))])


@pytest.fixture
def nodes(
    gateway: Gateway, make_gateway: Callable[[], Gateway], reader: VolumeReader, monkeypatch: pytest.MonkeyPatch
) -> tuple[Node, Node]:
    """The first one is active, the other on standby."""
    second = make_gateway()
    shutil.copytree(gateway.config, second.config, dirs_exist_ok=True)
    second.configure("v0", initiator="iqn.2026-01.org.iraid:other:v0")
    made = Node(gateway, f"{1:032x}", monkeypatch), Node(second, f"{2:032x}", monkeypatch)
    (second.state / "standby").mkdir()
    (second.state / "standby" / gateway.configuration("v0")["uuid"]).write_text("1700000000000\n")
    for node in made:
        node.begin()
    made[0].wait_role("active")
    made[0].disk()
    return made


def is_stopped(pid: int) -> bool:
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(state == "T" for state in states)


def test_standby_assembles_nothing_and_lasts_over_a_restart(nodes: tuple[Node, Node], reader: VolumeReader) -> None:
    first, second = nodes
    before = reader.superblocks()
    status = second.status()
    assert (status["role"], status["state"], status["role_since_ms"]) == ("standby", "standby", 1700000000000)
    assert "iraid activate" in status["reason"]
    assert {member["link"] for member in status["members"]} == {"closed"}
    assert first.status()["role"] == "active" and first.status()["role_since_ms"] > 1700000000000
    # Whoever has it is told from where it is looked for.
    assert "standby" in second.must("list").out
    shown = second.must("status", "v0").out
    assert "standby" in shown and "since" in shown, shown
    assert second.iraid("status", "--health").status == 0
    # Put there, it stays when its process is another one; what is nobody's now takes no permission.
    first.must("standby", "v0")
    first.must("standby", "v0")
    assert all(superblock.clean for superblock in reader.superblocks().values())
    assert first.served is not None
    first.served.stop()
    first.handle = None
    first.begin()
    assert first.status()["role"] == "standby"
    assert [s.epoch for s in reader.superblocks().values()] == [s.epoch for s in before.values()]
    first.must("activate", "v0")
    first.must("activate", "v0")
    assert first.status()["role"] == "active"
    first.served.stop()
    first.handle = None
    first.begin()
    assert first.wait_role("active")["role"] == "active"


def test_a_fault_in_its_file_keeps_no_volume_from_standing_by(nodes: tuple[Node, Node], farm: TargetFarm) -> None:
    first, second = nodes
    file = first.gateway.config / "volumes" / "v0.conf"
    good = file.read_text()
    file.write_text(good + "hegde = 1\n")
    assert first.iraid("activate", "v0").status == 1  # which is what looks at it
    first.must("standby", "v0")
    assert first.status()["role"] == "standby"
    second.must("activate", "v0")
    second.wait_role("active")


def test_bad_input_and_wrong_turns_are_told_with_a_remedy(nodes: tuple[Node, Node], reader: VolumeReader) -> None:
    first, second = nodes
    before = reader.superblocks()
    for words in (("standby", "v9"), ("activate", "v9")):
        ran = second.iraid(*words)
        assert ran.status == 1 and '"v9"' in ran.err and "remedy:" in ran.err, ran
    for words in (("standby",), ("activate", "v0", "v1"), ("activate", "v0", "--timeout", "0")):
        assert second.iraid(*words).status == 2, words
    refused = second.iraid("activate", "v0")
    assert refused.status == 1, refused
    for word in ('"v0"', "on standby", "another gateway", "iraid standby v0", "--take-over"):
        assert word in refused.err, refused
    assert second.status()["role"] == "standby"
    assert "another gateway" in second.status()["reason"]
    # A start does not change the role, and says what does.
    for more in ((), ("--take-over",)):
        started = second.iraid("start", "v0", *more)
        assert started.status == 1 and "standby" in started.err and "iraid activate v0" in started.err, started
    assert first.status()["state"] == "active"
    after = reader.superblocks()
    assert [(s.epoch, s.owner) for s in after.values()] == [(s.epoch, s.owner) for s in before.values()]
    first.disk().pwrite(LATE, 0, nbd.CMD_FLAG_FUA)


def owners(reader: VolumeReader) -> dict[int, str]:
    return {role: superblock.owner for role, superblock in reader.superblocks().items()}


def test_who_has_not_got_the_volume_wipes_nothing(nodes: tuple[Node, Node], reader: VolumeReader) -> None:
    first, second = nodes
    before = owners(reader)
    other = second.without_users()
    for _ in range(2):  # on standby, then stopped
        refused = other.iraid("delete", "v0", "--yes")
        assert refused.status == 1, refused
        for word in ('"v0"', "another gateway", before[0], "--no-wipe", "iraid activate --take-over"):
            assert word in refused.err, refused
        assert owners(reader) == before
        other.must("stop", "v0")
    other.must("delete", "v0", "--yes", "--no-wipe")
    assert owners(reader) == before
    first.disk().pwrite(LATE, 0, nbd.CMD_FLAG_FUA)


def test_a_volume_that_nobody_has_is_deleted_from_standby(nodes: tuple[Node, Node], reader: VolumeReader) -> None:
    first, second = nodes
    first.must("standby", "v0")
    other = second.without_users()
    assert other.status("v0")["role"] == "standby"
    other.must("delete", "v0", "--yes")
    for member in reader.by_role.values():
        with pytest.raises(NotAMember, match="no magic, copy B: no magic"):
            member.superblock()
    first.without_users().must("delete", "v0", "--yes")


class Writer(threading.Thread):
    """Writes and reads through whoever has the volume: on the other one it is refused, and tries the first again."""

    def __init__(self, nodes: tuple[Node, Node], shadow: bytearray):
        super().__init__()
        self.nodes, self.shadow = nodes, shadow
        self.random = random.Random(19)
        self.done, self.refused = 0, 0
        self.end = threading.Event()
        self.wrong: Exception | None = None

    def run(self) -> None:
        try:
            while not self.end.is_set():
                self.one()
        except (nbd.Error, AssertionError) as error:  # told by the test's own thread
            self.wrong = error

    def somewhere(self, act: Callable[[nbd.NBD], Any]) -> Any:
        """As multipath does: the other path, when one says that it is not its turn."""
        while True:
            for node in self.nodes:
                if node.handle is None:
                    continue
                try:
                    return act(node.handle)
                except nbd.Error as error:
                    assert error.errnum == errno.ESHUTDOWN, error
                    self.refused += 1

    def one(self) -> None:
        length = BLOCK * self.random.randint(1, 40)
        offset = BLOCK * self.random.randrange((len(self.shadow) - length) // BLOCK)
        if self.random.random() < 0.3:
            found = self.somewhere(lambda handle: handle.pread(length, offset))
            assert found == self.shadow[offset : offset + length], f"wrong data at {offset}"
        else:
            data = self.random.randbytes(length)
            self.somewhere(lambda handle: handle.pwrite(data, offset))
            self.shadow[offset : offset + length] = data
        self.done += 1

    def more(self, count: int) -> None:
        wanted = self.done + count
        wait_until(lambda: self.done >= wanted or not self.is_alive(), "writes to go on", 60)
        if self.wrong is not None:
            raise self.wrong


def test_ten_moves_under_load_and_no_error_but_not_ready(
    nodes: tuple[Node, Node], reader: VolumeReader, figure: Callable[[str, str], None]
) -> None:
    here, there = nodes
    shadow = bytearray(read_all(here.disk()))
    writer = Writer(nodes, shadow)
    writer.start()
    try:
        for move in range(MOVES):
            writer.more(WRITES_A_MOVE)
            if move % 2:  # the other way: taken, without asking
                there.must("activate", "v0", "--take-over")
                here.wait_role("standby")
            else:
                here.must("standby", "v0")
                there.must("activate", "v0")
            there.disk()
            here.refuses()
            here, there = there, here
        writer.more(WRITES_A_MOVE)
    finally:
        writer.end.set()
        writer.join()
    if writer.wrong is not None:
        raise writer.wrong
    figure("moves", f"{MOVES}, requests {writer.done}, refused by the passive gateway {writer.refused}")
    assert writer.refused > 0
    assert here.served is not None
    here.served.wait_resynced()  # what was dirty at the take-overs
    here.must("standby", "v0")
    content = reader.content()
    assert LATE not in bytes(content)
    assert content == shadow
    assert reader.wrong_rows() == []


def test_the_fenced_gateway_goes_to_standby_and_its_late_writes_go_nowhere(
    nodes: tuple[Node, Node], reader: VolumeReader
) -> None:
    """It stands still with writes on their way, and continues when another has written the same places."""
    first, second = nodes
    assert first.served is not None
    handle = first.disk()
    errors: list[int] = []
    first.served.process.popen.send_signal(signal.SIGSTOP)
    pid = first.served.process.pid
    wait_until(lambda: is_stopped(pid), "all of its threads to stop")
    for number in range(8):
        handle.aio_pwrite(LATE * 16, number * MIB, completion=lambda e: errors.append(e.value) or 1)
    while handle.poll(0) > 0:
        pass  # as much as goes into the socket
    second.must("activate", "v0", "--take-over")
    fresh = random.Random(3).randbytes(8 * MIB)
    second.disk().pwrite(fresh, 0)
    second.disk().flush()
    first.served.process.popen.send_signal(signal.SIGCONT)
    wait_until(lambda: handle.poll(100) >= 0 and len(errors) == 8, "its writes' answers")
    assert set(errors) == {errno.ESHUTDOWN}, errors
    status = first.wait_role("standby")
    assert "another gateway" in status["reason"]
    first.refuses()
    # Nothing of it remains in the way, and it says whose the volume is.
    assert {member["link"] for member in status["members"]} == {"closed"}
    refused = first.iraid("activate", "v0")
    assert refused.status == 1 and "another gateway" in refused.err and "--take-over" in refused.err, refused
    kinds = [event["kind"] for event in first.must("events", "v0", "--json").json["events"]]
    assert kinds.index("fenced") < kinds.index("standby"), kinds
    # Also after a restart it does not ask for the volume by itself.
    first.served.stop()
    first.handle = None
    first.begin()
    assert first.status()["role"] == "standby"
    assert second.disk().pread(8 * MIB, 0) == fresh
    assert second.served is not None
    second.served.wait_resynced()
    second.must("standby", "v0")
    assert reader.content()[: 8 * MIB] == fresh
    assert reader.wrong_rows() == []
    first.must("activate", "v0")
    assert first.disk().pread(8 * MIB, 0) == fresh


def holder_of(node: Node) -> dict[str, Any]:
    return node.must("status", "v0", "--json").json["holder"]


def test_standby_says_which_gateway_has_the_volume(nodes: tuple[Node, Node], farm: TargetFarm) -> None:
    """By the members' reservations: nobody else knows, and they may change while nobody looks."""
    first, second = nodes
    assert holder_of(first)["members"] == []  # it runs here, and nobody is asked
    assert f"this gateway, with key {holder_of(first)['own_key']}" in first.must("status", "v0").out
    key = second.must("status", "v0", "--json").json["holder"]["members"][0]["key"]
    assert int(key, 16) and key != holder_of(second)["own_key"]
    assert key == holder_of(first)["own_key"]
    assert f"the gateway with key {key}, say 3 of 3 members" in second.must("status", "v0").out
    second.must("activate", "v0", "--take-over")
    first.wait_role("standby")
    seen = holder_of(first)
    assert seen["own_key"] == key and {one["key"] for one in seen["members"]} == {holder_of_key(second)}
    second.must("standby", "v0")
    assert {one["key"] for one in holder_of(first)["members"]} == {None}
    assert "Active on" in first.must("status", "v0").out and "nobody, say 3 of 3" in first.must("status", "v0").out
    farm.kill(0)
    assert "nobody, say 2 of 3" in first.must("status", "v0").out
    for number in (1, 2):
        farm.kill(number)
    assert "unknown: no member could be asked (" in first.must("status", "v0").out
    # What is asked for many volumes at once waits for no target.
    assert "holder" not in first.must("status", "--json").json["volumes"][0]


def holder_of_key(node: Node) -> str:
    """Of one that has the volume.  It asks nobody: LIO tells a reset to one session of each name only."""
    assert node.served is not None
    seen = Client(node.served.control).holder("v0")
    assert seen.members == []
    return seen.own_key


def test_who_only_asks_registers_nothing_and_waits_for_nobody(nodes: tuple[Node, Node]) -> None:
    _, second = nodes
    assert second.served is not None
    with FakeTarget() as held, FakeTarget() as silent, FakeTarget() as without:
        reservations = Reservations()
        reservations.holder = bytes(range(8))
        held.rules.append(reservations)
        silent.rules.append(lambda command: threading.Event().wait() or Reply())
        second.served.stop()
        second.gateway.configure("v0", members=[silent.member, held.member, without.member])
        second.handle = None
        second.begin()
        members = holder_of(second)["members"]
        assert [one["key"] for one in members] == [None, "0x1020304050607", None]
        assert "no answer within" in members[0]["error"] and members[1]["error"] is None
        assert "READ RESERVATION" in members[2]["error"]
        for target in (held, silent, without):
            assert {command.opcode for command in target.commands} == {0x5E}, target.commands


def test_turns_are_counted(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    assert (first.status()["role_changes"], second.status()["role_changes"]) == (0, 0)
    for giver, taker in ((first, second), (second, first)):
        giver.must("standby", "v0")
        taker.must("activate", "v0")
    for node in nodes:
        status = node.status()
        assert (status["role_changes"], status["role_changes_hour"]) == (2, 2)
    second.must("activate", "v0", "--take-over")
    # Fenced off, and then on standby: it lost its turn once.
    assert first.wait_role("standby")["role_changes"] == 3
    assert "3 changes in the last hour" in first.must("status", "v0").out
    assert " standby " in first.must("list").out and "ROLE" in first.must("list").out
    look = first.must("top", "v0", "--json", "--count", "1", "--interval", "0.1").json["volumes"][0]
    assert (look["role"], look["role_changes_hour"]) == ("standby", 3)


def test_who_was_away_at_a_take_over_is_taken_after_a_restart_too(nodes: tuple[Node, Node], farm: TargetFarm) -> None:
    """It has the key of the gateway before, which is remembered."""
    _, second = nodes
    farm.stop(2)
    second.must("activate", "v0", "--take-over")
    assert second.status()["state"] == "degraded"
    assert second.served is not None
    uuid = second.gateway.configuration("v0")["uuid"]
    wait_until((second.gateway.state / "predecessors" / uuid).exists, "the other one's key to be on record")
    second.served.stop()
    second.begin()
    assert second.served.wait_status(lambda status: status["state"] == "degraded", "it to be there again")
    farm.cont(2)
    second.served.wait_status(lambda status: status["state"] == "active", "the member to be back")
