"""GOOD is believed as far as data came: what a target says of lengths is never more than a claim."""

from __future__ import annotations

import re
import struct

import fake_target as fake
import pytest
from backend_probe import pattern, result
from fake_target import OVERFLOW, UNDERFLOW, FakeTarget, Reply, Reservations, to_reads
from test_backend_statuses import EIO, ENOTCONN, opened
from test_iscsi_admin import IO, UNFIT, admin

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(60)]
SIZE = 1 << 20
CLAIMS = {
    "overflow": (OVERFLOW, 32), "overflow of nothing": (OVERFLOW, 0), "overflow of all": (OVERFLOW, 0xFFFFFFFF),
    "underflow of nothing": (UNDERFLOW, 0), "underflow": (UNDERFLOW, 4096), "both": (OVERFLOW | UNDERFLOW, 0),
    "nothing claimed": (0, 0), "no flag": (0, 4096),
}  # fmt: skip
claims = pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
apart = pytest.mark.parametrize("status_apart", [False, True], ids=["status with data", "status apart"])


def measured(line: str) -> tuple[int, int]:
    word, error, size = line.split()
    assert word == "measure", line
    return int(error), int(size)


# Data


@claims
@apart
@pytest.mark.parametrize("length", [0, 512, 65024], ids=["nothing", "a block", "all but one"])
def test_a_read_that_is_short_is_no_success_whatever_is_claimed(start, claim, status_apart, length) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 65536 3")) == 0
        short = Reply(data=pattern(0, 65536, 3)[:length], chunk_bytes=4096, residual=claim, status_apart=status_apart)
        target.rules.append(to_reads(short))
        assert probe.ask("read 0 65536 3") == f"read 0 65536 {EIO}"
        target.rules.clear()
        assert probe.ask("read 0 65536 3") == "read 0 65536 0 same"


@apart
@pytest.mark.parametrize("claim", [(UNDERFLOW, 512), (UNDERFLOW, 0), (OVERFLOW, 512)], ids=["under", "under 0", "over"])
def test_a_read_that_is_whole_but_said_to_be_short_is_no_success(start, claim, status_apart) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        whole = Reply(data=pattern(0, 65536, 3), residual=claim, status_apart=status_apart)
        target.rules.append(to_reads(whole))
        assert probe.ask("read 0 65536 3") == f"read 0 65536 {EIO}"


@apart
@pytest.mark.parametrize(
    "places",
    [
        ((0, 4096), (0, 4096)),
        ((0, 4096), (2048, 4096)),
        ((4096, 4096), (0, 4096)),
        ((0, 4096), (4608, 3584)),
        ((4096, 4096),),
        ((0, 4096), (4096, 4096), (4096, 512)),
        ((0, 8192), (8192, 0), (8192, 512)),
        ((0, 4096), (0xFFFFF000, 4096)),
    ],
    ids=["twice", "overlapping", "turned round", "a hole", "the end only", "the end twice", "behind the end", "far away"],
)  # fmt: skip
def test_data_that_adds_up_but_leaves_a_hole_ends_the_session(start, places, status_apart) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        torn = Reply(data=pattern(0, 8192, 3), extra=bytes(512), places=places, status_apart=status_apart)
        target.rules.append(to_reads(torn))
        probe.say("read 0 8192 3")
        assert result(probe.line()) == ENOTCONN
        assert re.match(r"closed EPROTO .*(out of order|more data than)", probe.line())
        assert probe.ask("poisoned").endswith("touched 0")


def test_an_empty_data_in_costs_nothing(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        places = ((0, 0), (0, 4096), (4096, 0), (4096, 4096), (8192, 0))
        target.rules.append(to_reads(Reply(data=pattern(0, 8192, 3), places=places)))
        assert probe.ask("read 0 8192 3") == "read 0 8192 0 same"


@claims
@pytest.mark.parametrize("io", ["write 0 65536 1", "zero 0 4096"])
def test_a_write_whose_data_nobody_asked_for_is_no_success(start, io, claim) -> None:
    with FakeTarget(keys=fake.ONLY_WHAT_IS_ASKED_FOR, asks_for_data=False) as target:
        probe = opened(start, target)
        target.rules.append(
            lambda command: Reply(residual=claim) if command.is_write or command.opcode == 0x93 else None
        )
        assert result(probe.ask(io)) == EIO


# Answers to questions


@claims
@apart
@pytest.mark.parametrize("ten", [False, True], ids=["READ CAPACITY(16)", "READ CAPACITY(10)"])
@pytest.mark.parametrize("length", [0, 4, 7])
def test_a_size_that_did_not_come_is_not_believed(start, capfd, claim, status_apart, ten, length) -> None:
    """Also not the one that stands where the answer of the last time was."""
    with FakeTarget(size_bytes=SIZE) as target:
        if ten:
            target.rules.append(lambda command: fake.ILLEGAL if command.opcode >= 0x80 else None)
        probe = opened(start, target)
        target.resize(2 * SIZE)
        assert measured(probe.ask("measure")) == (0, 2 * SIZE)
        target.resize(4 * SIZE)
        whole = struct.pack(">II", 4 * SIZE // 512 - 1, 512) if ten else struct.pack(">QI20x", 4 * SIZE // 512 - 1, 512)
        short = Reply(data=whole[:length], residual=claim, status_apart=status_apart)
        target.rules.insert(0, lambda command: short if command.is_capacity else None)
        assert measured(probe.ask("measure")) == (EIO, 0)
        assert "is invalid" in capfd.readouterr().err
        assert result(probe.ask(f"write {2 * SIZE} 4096 1")) == EIO
        target.rules.pop(0)
        assert measured(probe.ask("measure")) == (0, 4 * SIZE)


QUESTIONS = {
    "INQUIRY": (0x12, 35, "INQUIRY is too short"),
    "READ CAPACITY": (0x9E, 11, r"READ CAPACITY.16. is invalid"),
    "READ RESERVATION": (0x5E, 7, "READ RESERVATION (is too short|is invalid)"),
    "MODE SENSE": (0x1A, 3, "MODE SENSE (is too short|is invalid)"),
}  # fmt: skip


@claims
@apart
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("nothing", [True, False], ids=["nothing", "one byte less"])
def test_a_device_that_does_not_answer_is_not_used(start, claim, status_apart, question, nothing) -> None:
    opcode, enough, words = QUESTIONS[question]
    with FakeTarget() as target:
        reservations = Reservations()

        def rule(command: fake.Command) -> Reply | None:
            if command.opcode != opcode or (opcode == 0x12 and command.cdb[1] & 1):
                return None
            whole = reservations(command) or target._disk_answer(command)
            return Reply(data=b"" if nothing else whole.data[:enough], residual=claim, status_apart=status_apart)

        target.rules += [rule, reservations]
        closed = start(target.member, "key=1").ask("open")
        assert re.match(f"closed EINVAL .*{words}", closed), closed


@pytest.mark.parametrize("action", [6, 1], ids=["REGISTER", "RESERVE"])
def test_a_reservation_is_not_believed_before_the_key_was_asked_for(start, action) -> None:
    with FakeTarget(keys=fake.ONLY_WHAT_IS_ASKED_FOR) as target:
        reservations = Reservations()

        def rule(command: fake.Command) -> Reply | None:
            if command.opcode == 0x5E:  # the next command is REGISTER, the one behind it RESERVE
                target.asks_for_data = action != 6
            elif command.opcode == 0x5F:
                target.asks_for_data = False
            return reservations(command)

        target.rules.append(rule)
        closed = start(target.member, "key=1").ask("open")
        assert re.match(r"closed EINVAL .*(REGISTER|RESERVE).* ignored its parameters", closed), closed


# The administrator's


@claims
@apart
def test_a_list_of_luns_that_did_not_come_is_an_error(claim, status_apart) -> None:
    listed = struct.pack(">I4x", 24) + bytes([0, 0]) + bytes(6) + bytes([0, 1]) + bytes(6) + bytes([0, 2]) + bytes(6)
    for length in (0, 7, 8, 16, 31):
        with FakeTarget() as target:
            short = Reply(data=listed[:length], residual=claim, status_apart=status_apart)
            target.rules.append(lambda command: short if command.opcode == 0xA0 else None)
            assert admin("luns", target.member)["error"] == IO, length
    with FakeTarget() as target:
        target.rules.append(lambda command: Reply(data=listed) if command.opcode == 0xA0 else None)
        assert "error" not in admin("luns", target.member)


@claims
@pytest.mark.parametrize(
    "opcode", [0x12, 0x9E, 0x1A, 0x5E], ids=["INQUIRY", "READ CAPACITY", "MODE SENSE", "READ RESERVATION"]
)
def test_an_administrator_is_told_of_an_answer_that_is_none(claim, opcode) -> None:
    with FakeTarget() as target:
        target.rules.append(lambda command: Reply(residual=claim) if command.opcode in (opcode, 0x25) else None)
        assert admin("open", target.member)["error"] == UNFIT


@claims
def test_an_administrator_reads_all_or_is_told(claim) -> None:
    with FakeTarget() as target:
        target.rules.append(to_reads(Reply(data=bytes(512), residual=claim)))
        assert admin("read", target.member, "0", "4096")["error"] == IO


@pytest.mark.parametrize("block_bytes", [1, 8, 16, 256, 1024, 2048, 8192, 1 << 31])
def test_blocks_of_no_use_are_refused_and_nothing_is_asked_for_in_them(start, block_bytes) -> None:
    with FakeTarget() as target:
        target.rules.append(
            lambda command: (
                fake.ILLEGAL
                if command.opcode == 0x9E
                else Reply(data=struct.pack(">II", 0xFFFF, block_bytes))
                if command.opcode == 0x25
                else None
            )
        )
        for action in (["open"], ["read"], ["signature"]):
            said = admin(*action, target.member, *(["0", "4096"] if action == ["read"] else []))
            assert said["error"] == UNFIT and str(block_bytes) in said["message"], said
        assert f"blocks of {block_bytes} bytes" in start(target.member).ask("open")
        assert target.data_commands() == []
