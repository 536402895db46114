"""The proxy that counts what a fenced gateway still does to the members: what it must see is seen."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from member_spy import LOGICAL_UNIT_RESET, SCSI_COMMAND, SCSI_RESPONSE, TASK_REQUEST, TASK_RESPONSE, MemberSpy, _Session

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.raw_initiator import RawInitiator

OLD, NEW = "127.0.0.2", "127.0.0.3"
KEYS = {OLD: 0xA, NEW: 0xB}
REGISTER, RESERVE, PREEMPT = 0, 1, 4
EXCLUSIVE_REGISTRANTS_ONLY = 6
CONFLICT = 0x18
BLOCK = bytes(512)

pytestmark = [
    pytest.mark.skipif(shutil.which("tgtd") is None, reason="tgt is not installed; run scripts/deps"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: no tgtd"),
]

WRITE_CDB = bytes.fromhex("2a000000000900000100")

LogIn = Callable[[str], RawInitiator]


def write(session: RawInitiator) -> int:
    return session.ask(WRITE_CDB, BLOCK, lun=1).status


def read(session: RawInitiator) -> int:
    return session.ask(bytes.fromhex("28000000000900000100"), read_bytes=512, lun=1).status


def reserve_out(session: RawInitiator, action: int, key: int, other: int) -> None:
    cdb = bytes([0x5F, action, EXCLUSIVE_REGISTRANTS_ONLY, 0, 0, 0, 0, 0, 24, 0])
    answer = session.ask(cdb, key.to_bytes(8, "big") + other.to_bytes(8, "big") + bytes(8), lun=1)
    assert answer.status == 0, answer


@pytest.fixture
def spy(tmp_path: Path) -> Iterator[MemberSpy]:
    with TargetFarm(tmp_path, count=1, size_bytes=1 << 20) as farm, MemberSpy(farm, ["127.0.0.1"], port=0) as spy:
        yield spy


@pytest.fixture
def log_in(spy: MemberSpy) -> Iterator[LogIn]:
    sessions = []

    def from_address(address: str) -> RawInitiator:
        portal, iqn, _ = spy.members()[0].split("/")
        session = RawInitiator(portal, iqn, f"iqn.2026-01.org.iraid.test:{address}", source=address).__enter__()
        sessions.append(session)
        write(session)  # tgtd tells first that it was powered on
        return session

    yield from_address
    for session in sessions:
        session.__exit__(None)


def test_a_fenced_gateway_that_is_refused_is_not_late(spy, log_in):
    old, new = log_in(OLD), log_in(NEW)
    for session, address in ((old, OLD), (new, NEW)):
        reserve_out(session, REGISTER, 0, KEYS[address])
    reserve_out(old, RESERVE, KEYS[OLD], 0)
    assert write(old) == read(old) == 0
    reserve_out(new, PREEMPT, KEYS[NEW], KEYS[OLD])
    write(old)  # a unit attention may be told first
    assert write(old) == read(old) == CONFLICT
    assert write(new) == 0
    assert spy.fenced_at(OLD) == 1 and spy.fenced_at(NEW) == 0
    assert spy.late(OLD) == spy.late(NEW) == []


def test_one_whose_commands_still_pass_is_seen_until_it_is_forgiven(spy, log_in):
    old, new = log_in(OLD), log_in(NEW)
    for session, address in ((old, OLD), (new, NEW)):
        reserve_out(session, REGISTER, 0, KEYS[address])
    reserve_out(new, PREEMPT, KEYS[NEW], KEYS[OLD])  # and no reservation: anybody may write
    write(old)  # a unit attention
    before = spy.late(OLD)
    assert write(old) == read(old) == 0
    late = spy.late(OLD)[len(before) :]
    assert [(one.member, one.block, one.is_write, one.sent_before) for one in late] == [
        (0, 9, True, False),
        (0, 9, False, False),
    ]
    spy.forgive(OLD)
    assert write(old) == 0 and spy.late(OLD) == []


def pdu(opcode: int, tag: int, flags: int = 0, cdb: bytes = b"") -> bytes:
    return bytes([opcode, flags, 0, 0]).ljust(16, b"\0") + tag.to_bytes(4, "big") + bytes(12) + cdb.ljust(16, b"\0")


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of one: a target's, and the proxy's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield far, near


def test_what_was_under_way_is_late_behind_the_reset_only(spy, connection):
    """In an order that no target can be held to."""
    target, far = connection
    spy._gateways |= {OLD, NEW}
    old, new = (_Session(spy, 0, gateway, far) for gateway in (OLD, NEW))
    spy._sessions.add(old)
    for tag in (1, 2, 3):
        old._request(pdu(SCSI_COMMAND, tag, cdb=WRITE_CDB))
    new._request(pdu(SCSI_COMMAND, 1, cdb=bytes([0x5F, PREEMPT])))
    new._answer(pdu(SCSI_RESPONSE, 1))
    target.sendall(pdu(SCSI_RESPONSE, 1))
    old._answer(far.recv(48))
    assert spy.fenced_at(OLD) == 1 and spy.late(OLD) == []
    target.sendall(pdu(SCSI_RESPONSE, 2))  # before the reset, and looked at behind it
    new._request(pdu(TASK_REQUEST, 2, flags=0x80 | LOGICAL_UNIT_RESET))
    new._answer(pdu(TASK_RESPONSE, 2))
    old._answer(far.recv(48))
    assert spy.late(OLD) == []
    target.sendall(pdu(SCSI_RESPONSE, 3))
    old._answer(far.recv(48))
    assert [one.sent_before for one in spy.late(OLD)] == [True]
    spy.forgive(OLD)
    old._request(pdu(SCSI_COMMAND, 4, cdb=WRITE_CDB))
    old._answer(pdu(SCSI_RESPONSE, 4))
    assert spy.late(OLD) == []
