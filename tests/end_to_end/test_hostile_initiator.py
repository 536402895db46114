"""An initiator that may log in, and means harm: parameter lists that lie, commands at the window's full depth that are
aborted and reset at random, storms of log-ins.  Other LUNs and the runner do not notice.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from disk_bytes import get, put

from iraid_dev.stack import initiator
from iraid_dev.stack.raw_initiator import (
    ABORT_TASK,
    FUNCTION_COMPLETE,
    LUN_RESET,
    TASK_DOES_NOT_EXIST,
    RawInitiator,
)

KIB, MIB = 1 << 10, 1 << 20
LUN_BYTES = 64 * MIB
LIMITS = [0, 1, 2, 7, 8, 0x10, 0x7F, 0x80, 0xFE, 0xFF]
GROWTH_BYTES_MAX = 64 * MIB
FLOOD_COMMANDS = 2000


def session_with(volume: object) -> RawInitiator:
    return RawInitiator(volume.portal, volume.iqn, initiator.name())


def resident_bytes(gateway: object) -> int:
    status = Path(f"/proc/{gateway.runner.process.pid}/status").read_text()
    return KIB * int(status.partition("VmRSS:")[2].split()[0])


@pytest.fixture
def two_volumes(gateway: object, lio_members: object) -> Iterator[tuple[object, object]]:
    """One for the attacker; the other's content is known afterwards."""
    volumes = [gateway.create(5, lio_members(3, size_bytes=LUN_BYTES)) for _ in range(2)]
    for volume in volumes:
        volume.export()
    yield volumes[0], volumes[1]


# --- parameter lists ---


def naa(volume: object) -> bytes:
    """The LUN's own designator (VPD 83), with its length before it."""
    with session_with(volume) as session:
        page = session.ask(bytes([0x12, 1, 0x83, 1, 0, 0]), read_bytes=256).data
    at = page.index(b"\x01\x03\0") + 3
    return page[at : at + 1 + page[at]]


def copy_list(draw: random.Random, own: bytes, other: bytes) -> bytes:
    """EXTENDED COPY (SPC-4, 6.4): descriptors of LUNs and segments that may name the other one."""
    devices = draw.choice([(own, other), (other, own), (other, other), (own, own), (b"\x10" + bytes(16), other)])
    targets = b"".join(
        b"\xe4\0\0\0\x01\x03\0" + device.ljust(21, b"\0") + b"\0" + (512).to_bytes(3, "big") for device in devices
    )
    ends = draw.choice([(0, 1), (1, 0), (0, 0), (1, 1), (2, 0), (0xFFFF, 1)])
    segment = struct.pack(
        ">BBHHHHHQQ", 2, draw.choice([0, 2]), 0x18, *ends, 0, draw.choice([0, 1, 8, 0xFFFF]),
        draw.choice([0, 8, 1 << 40, (1 << 64) - 1]), draw.choice([0, 1, 1 << 40, (1 << 64) - 1]),
    )  # fmt: skip
    segments = segment * draw.choice([1, 1, 2, 40])
    lengths = [len(targets), len(segments)]
    if draw.random() < 0.3:
        lengths[draw.randrange(2)] = draw.choice([0, 1, 31, 64, 0xFFFF])
    head = struct.pack(">BBHIII", 1, 0, lengths[0], 0, lengths[1], 0)
    return head + targets + segments


def unmap_list(draw: random.Random) -> bytes:
    count = draw.choice([0, 1, 3, 40, 4000])
    ranges = b"".join(
        struct.pack(">QII", draw.choice([0, 8, LUN_BYTES // 512 - 1, 1 << 40, (1 << 64) - 1]),
                    draw.choice([0, 1, 8, 0xFFFFFFFF]), 0)
        for _ in range(count)
    )  # fmt: skip
    told = draw.choice([len(ranges), len(ranges), 0, 15, 16, 0xFFFF]) & 0xFFFF
    return struct.pack(">HHI", min(told + 6, 0xFFFF), told, 0) + ranges


def numbers(draw: random.Random, count: int) -> bytes:
    return bytes(draw.choice(LIMITS) if draw.random() < 0.7 else draw.randrange(256) for _ in range(count))


def lies(draw: random.Random, own: bytes, other: bytes) -> tuple[bytes, bytes]:
    """A CDB that sends parameters, and the parameters."""
    kind = draw.choice(["unmap", "copy", "copy", "compare", "same", "reserve", "mode"])
    length = draw.choice([0, 1, 7, 8, 24, 512, 1024, 4096, 70000])
    data = {"unmap": lambda: unmap_list(draw), "copy": lambda: copy_list(draw, own, other)}.get(
        kind, lambda: draw.randbytes(length)
    )()
    told = len(data) if draw.random() < 0.7 else draw.choice([0, 1, 8, 0xFFFF])
    block = draw.choice([0, 1, LUN_BYTES // 512, 1 << 40, (1 << 64) - 1])
    blocks = draw.choice([0, 1, 2, 255])
    cdb = {
        "unmap": struct.pack(">BBIBHB", 0x42, 0, 0, 0, told & 0xFFFF, 0),
        "copy": bytes([0x83, draw.choice([0, 0, 0, 1, 0x1F])]) + bytes(8) + struct.pack(">IH", told, 0),
        "compare": struct.pack(">BBQ3xBBB", 0x89, 0, block, blocks, 0, 0),
        "same": struct.pack(
            ">BBQIBB", 0x93, draw.choice([0, 1, 8, 9, 16]), block, draw.choice([0, 1, 8, 1 << 31]), 0, 0
        ),
        "reserve": struct.pack(">BBBHIB", 0x5F, draw.randrange(32), draw.choice(LIMITS), 0, told, 0),
        "mode": struct.pack(">BB5xHB", 0x55, draw.choice([0, 1, 16, 17]), told & 0xFFFF, 0),
    }[kind]
    return cdb, data


def any_cdb(draw: random.Random) -> bytes:
    """A known opcode, and each field at its limits.  Not PERSISTENT RESERVE OUT by which the attacker locks itself out."""
    opcode = draw.choice(
        [0x00, 0x03, 0x08, 0x0A, 0x12, 0x15, 0x1A, 0x1B, 0x25, 0x28, 0x2A, 0x2E, 0x2F, 0x34, 0x35, 0x41, 0x42, 0x55,
         0x5A, 0x5E, 0x83, 0x84, 0x88, 0x89, 0x8A, 0x8E, 0x8F, 0x90, 0x91, 0x93, 0x9E, 0xA0, 0xA3, 0xA4, 0xA8, 0xAA]
    )  # fmt: skip
    return bytes([opcode]) + numbers(draw, 15)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_parameter_lists_that_lie_are_answered_and_touch_no_other_lun(gateway, two_volumes, seed, capsys):
    """CVE-2020-28374 and CVE-2021-3139 were such: EXTENDED COPY reached LUNs that the initiator may not see."""
    attacked, neighbour = two_volumes
    draw = random.Random(seed)
    before = os.urandom(MIB)
    disk = neighbour.login().path
    put(disk, before, 0)
    own, other = naa(attacked), naa(neighbour)
    assert own != other
    resident = resident_bytes(gateway)
    statuses: dict[int, int] = {}
    with session_with(attacked) as session:
        for _ in range(3000):
            cdb, data = lies(draw, own, other) if draw.random() < 0.6 else (any_cdb(draw), b"")
            read_bytes = 0 if data else draw.choice([0, 1, 36, 512, 4096, 65536])
            if not data and draw.random() < 0.3:
                data = draw.randbytes(draw.choice([1, 512, 4096]))
            answer = session.ask(cdb, data, read_bytes)  # TimeoutError: none came within the initiator's patience
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
        if session.ask(bytes(6)).status == 0x18:  # it reserved its LUN under a key that nobody knows any more
            pytest.fail("the attacker locked itself out: draw less")
    growth = resident_bytes(gateway) - resident
    assert get(disk, MIB, 0) == before
    assert growth < GROWTH_BYTES_MAX, f"the runner grew by {growth >> 10} KiB"
    with capsys.disabled():
        print(f"\n3000 commands, statuses {statuses}, growth {growth >> 10} KiB")


# --- floods ---


class Flood:
    """What became of each command: answered once, or aborted."""

    def __init__(self, session: RawInitiator, draw: random.Random) -> None:
        self.session, self.draw = session, draw
        self.answers: dict[int, int] = {}  # of commands, by tag
        self.aborted: set[int] = set()  # by a function that was complete
        self.functions: dict[int, tuple[int, set[int]]] = {}  # under way: what it is, which commands it is for
        self.sent = self.managed = 0

    def send(self) -> None:
        block = self.draw.randrange(LUN_BYTES // 512)
        opcode = self.draw.choice([0x88, 0x8A, 0x8A, 0x91])
        # No write needs an R2T: a reset of what waits for data seems to hang LIO (6.1) once the session ends.
        blocks = self.draw.choice([1, 8, 16] if opcode == 0x8A else [1, 8, 64, 128])
        cdb = bytes([opcode, 0]) + struct.pack(">QIH", block, blocks if opcode != 0x91 else 0, 0)
        data = self.draw.randbytes(blocks * 512) if opcode == 0x8A else b""
        self.session.send(cdb, data, blocks * 512 if opcode == 0x88 else 0)
        self.sent += 1

    @property
    def resetting(self) -> bool:
        """LIO ends without an answer also what comes behind the reset before it is carried out."""
        return any(function == LUN_RESET for function, _ in self.functions.values())

    def manage(self) -> None:
        waiting = list(self.session.tasks)
        if self.functions or not waiting:  # one at a time, as drivers do it
            return
        self.managed += 1
        if self.draw.random() < 0.1:
            self.functions[self.session.manage(LUN_RESET)] = (LUN_RESET, set(waiting))
        else:
            task = self.draw.choice(waiting)
            self.functions[self.session.manage(ABORT_TASK, task)] = (ABORT_TASK, {task})

    def receive(self) -> None:
        try:
            answer = self.session.receive()
        except TimeoutError:
            waiting = {tag: task.cdb.hex() for tag, task in self.session.tasks.items()}
            pytest.fail(f"no answer as long as an initiator waits: commands {waiting}, functions {self.functions}")
        if not answer.is_management:
            self.answers[answer.tag] = self.answers.get(answer.tag, 0) + 1
            assert self.answers[answer.tag] == 1, f"command {answer.tag} was answered twice"
            assert answer.tag not in self.aborted, f"command {answer.tag} was answered after its abort"
            return
        function, tasks = self.functions.pop(answer.tag)
        allowed = {FUNCTION_COMPLETE} if function == LUN_RESET else {FUNCTION_COMPLETE, TASK_DOES_NOT_EXIST}
        assert answer.response in allowed, answer
        if answer.response == FUNCTION_COMPLETE:
            gone = tasks & set(self.session.tasks)
            self.aborted |= gone
            for tag in gone:
                del self.session.tasks[tag]

    def run(self, commands: int) -> None:
        while self.sent < commands:
            if self.session.room and not self.resetting and self.draw.random() < 0.7:
                self.send()
            elif self.draw.random() < 0.15:
                self.manage()
            elif self.session.tasks or self.functions:
                self.receive()
            elif not self.session.room:  # LIO (6.1) opens its window for answers only
                return
        while self.session.tasks or self.functions:
            self.receive()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_a_flood_with_aborts_and_resets_loses_no_command_and_answers_none_twice(gateway, two_volumes, seed, capsys):
    volume = two_volumes[0]
    resident = resident_bytes(gateway)
    draw = random.Random(seed)
    sent = answered = aborted = managed = 0
    while sent < FLOOD_COMMANDS:
        with session_with(volume) as session:
            flood = Flood(session, draw)
            flood.run(FLOOD_COMMANDS - sent)
        assert len(flood.answers) + len(flood.aborted) == flood.sent
        sent, managed = sent + flood.sent, managed + flood.managed
        answered, aborted = answered + len(flood.answers), aborted + len(flood.aborted)
    assert resident_bytes(gateway) - resident < GROWTH_BYTES_MAX
    disk = volume.login().path
    put(disk, b"\xa5" * MIB, 0)
    assert get(disk, MIB, 0) == b"\xa5" * MIB
    with capsys.disabled():
        print(f"\n{sent} commands: {answered} answered, {aborted} aborted by {managed} requests")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_storm_of_logins_costs_nobody_else_anything(gateway, two_volumes, capsys):
    """Sessions that end without a word, with commands under way."""
    attacked, neighbour = two_volumes
    disk = neighbour.login().path
    put(disk, b"\xa5" * MIB, 0)
    draw = random.Random(7)
    resident = resident_bytes(gateway)
    for _ in range(150):
        with session_with(attacked) as session:
            for _ in range(draw.randrange(9)):
                session.send(bytes([0x8A, 0]) + struct.pack(">QIH", draw.randrange(1 << 16), 64, 0), bytes(32 * KIB))
    with session_with(attacked) as session:
        while session.ask(bytes(6)).status:
            pass
        read = session.ask(bytes([0x88, 0]) + struct.pack(">QIH", 0, 8, 0), read_bytes=4096)
        assert read.status == 0
    growth = resident_bytes(gateway) - resident
    assert get(disk, MIB, 0) == b"\xa5" * MIB
    assert growth < GROWTH_BYTES_MAX
    with capsys.disabled():
        print(f"\n150 log-ins, growth {growth >> 10} KiB")


def test_a_command_that_is_aborted_is_answered_by_the_abort_alone(shared_volume):
    """The short form of the flood, with each run."""
    with session_with(shared_volume(5, 4)) as session:
        flood = Flood(session, random.Random(3))
        flood.run(150)
    assert len(flood.answers) + len(flood.aborted) == flood.sent
