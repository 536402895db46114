"""What a device tells of its volatile cache: lost, failed, or switched on; the target is fake_target.py."""

from __future__ import annotations

import re

import fake_target as fake
import pytest
from backend_probe import result
from fake_target import ILLEGAL, FakeTarget, sense
from test_backend_statuses import EIO, ENOTCONN, first, opened

pytestmark = pytest.mark.timeout(60)
DEFERRED = sense(3, 0x0C00, response_code=0x71)
POWER_ON, INTERNAL_RESET, MODE_CHANGED = sense(6, 0x2901), sense(6, 0x2904), sense(6, 0x2A01)
WANTED = {
    "read": lambda command: command.is_read,
    "write": lambda command: command.is_write,
    "flush": lambda command: command.is_sync,
    # TEST UNIT READY, or READ RESERVATION where there is one
    "keep-alive": lambda command: command.opcode == 0 or (command.opcode == 0x5E and command.cdb[1] & 0x1F == 1),
}  # fmt: skip
IOS = {"read": "read 0 4096 1", "write": "write 0 4096 1", "flush": "flush"}


def held(start, target: FakeTarget):
    target.rules.append(fake.Reservations())
    probe = opened(start, target, "key=1")
    assert result(probe.ask("write 0 4096 1")) == 0
    return probe


def tell(target: FakeTarget, reply: fake.Reply, command: str) -> None:
    target.rules.insert(0, first(1, reply, WANTED[command]))


def ended(probe, command: str) -> str:
    """The line that says why; the command does not count as done."""
    if command in IOS:
        assert str(ENOTCONN) in probe.ask(IOS[command])
    return probe.line()


def test_a_cache_is_kept_where_only_the_session_was_lost(start) -> None:
    with FakeTarget() as target:
        probe = held(start, target)
        target.connections[-1].close()
        assert probe.line().startswith("closed ")
        assert " kept=1" in probe.open()


@pytest.mark.parametrize("command", WANTED)
def test_a_write_that_fails_after_its_answer_is_a_lost_cache(start, command) -> None:
    """Told once, with whatever command comes next.  A read that failed would be mended, and the write forgotten."""
    with FakeTarget() as target:
        probe = held(start, target)
        tell(target, DEFERRED, command)
        assert re.match(r"closed ECONNRESET .*deferred error.* lost=1", ended(probe, command))
        assert " kept=0" in probe.open()
        target.connections[-1].close()
        assert probe.line().startswith("closed ")
        assert " kept=1" in probe.open()  # since then it was


FAILED_FLUSHES = {
    "medium error": sense(3, 0x0C00),
    "hardware error": sense(4, 0x4400),
    "no sense": fake.Reply(status=2),
    "LIO's not ready 08/00": sense(2, 0x0800),
    "aborted, and no more": sense(0xB, 0x0000),
    "target failure": fake.Reply(response=1),
    "no space allocated": sense(7, 0x2707),
    "address not found, behind ATA": sense(5, 0x2100),
}


@pytest.mark.parametrize("fua", ["", " fua"], ids=["flush", "write with FUA"])
@pytest.mark.parametrize("reply", FAILED_FLUSHES.values(), ids=FAILED_FLUSHES)
def test_a_flush_that_fails_is_a_lost_cache(start, reply, fua) -> None:
    """The device gave up what it could not write: its next flush is GOOD."""
    with FakeTarget(fua=False) as target:
        probe = held(start, target)
        tell(target, reply, "flush")
        assert result(probe.ask("write 0 4096 1 fua" if fua else "flush")) == EIO
        assert re.match(r"closed ECONNRESET .*flush failed.* lost=1", probe.line())
        assert " kept=0" in probe.open()
        assert result(probe.ask("flush")) == 0


def test_a_flush_that_is_not_done_yet_has_lost_nothing(start) -> None:
    with FakeTarget(fua=False) as target:
        probe = held(start, target)
        tell(target, sense(2, 0x0401), "flush")
        assert result(probe.ask("flush")) == 0
        target.connections[-1].close()
        assert probe.line().startswith("closed ")
        line = probe.open()
        assert " kept=1" in line and " lost=1" not in line


def test_it_is_a_lost_cache_also_where_it_is_told_while_the_next_session_opens(start) -> None:
    with FakeTarget() as target:
        probe = held(start, target)
        target.connections[-1].close()
        assert probe.line().startswith("closed ")
        tell(target, DEFERRED, "keep-alive")
        line = probe.open()
        assert " kept=0" in line and " lost=1" in line


@pytest.mark.parametrize("holder", [0, 2], ids=["nobody", "another"])
@pytest.mark.parametrize("opcode", [0, 0x1A, 0x5E], ids=["reset", "mode sense", "read reservation"])
def test_a_power_on_while_a_session_opens_takes_its_reservation_along(start, opcode, holder) -> None:
    """Told as 29/00 when that is expected of our own reset: only the reservation, read once more, shows it."""
    with FakeTarget() as target:
        probe = held(start, target)
        reservations = target.rules[-1]
        target.connections[-1].close()
        assert probe.line().startswith("closed ")
        reset, told = [], []

        def rule(command: fake.Command) -> fake.Reply | None:
            if not reset or told or command.opcode != opcode:
                return None
            told.append(command)
            reservations.holder = holder.to_bytes(8, "big")
            return sense(6, 0x2900)

        target.on_reset = lambda: reset.append(True)
        target.rules.insert(0, rule)
        why = "closed EBUSY .*another gateway" if holder else "closed ECONNRESET .*reservation was lost"
        closed = probe.ask("open")
        assert re.match(why, closed), closed
        reservations.holder = bytes(8)
        opened_again = probe.open()
        assert " reservation=1 " in opened_again and " kept=0" in opened_again


@pytest.mark.parametrize("command", WANTED)
@pytest.mark.parametrize("reply", [POWER_ON, INTERNAL_RESET], ids=["power on", "internal reset"])
def test_a_reservation_that_is_still_there_does_not_make_up_for_lost_power(start, command, reply) -> None:
    with FakeTarget() as target:
        probe = held(start, target)
        tell(target, reply, command)
        assert re.match(r"closed ECONNRESET .*was reset", ended(probe, command))
        assert " kept=0" in probe.open()


@pytest.mark.parametrize("code", [0x2900, 0x2903], ids=["any of them", "bus device reset"])
def test_a_reset_leaves_the_cache_alone(start, code) -> None:
    with FakeTarget() as target:
        probe = held(start, target)
        tell(target, sense(6, code), "write")
        assert ended(probe, "write").startswith("closed ECONNRESET")
        assert " kept=1" in probe.open()


@pytest.mark.parametrize("command", WANTED)
def test_a_device_without_a_cache_that_loses_a_write_has_one_from_then_on(start, command) -> None:
    """It lies of its cache: flushes have to be sent to it."""
    with FakeTarget(write_cache=False) as target:
        probe = held(start, target)
        tell(target, DEFERRED, command)
        line = ended(probe, command)
        assert re.match(r"closed ECONNRESET .*deferred error.* lost=1", line), line
        opened_again = probe.open()
        assert " write_cache=1 " in opened_again and " kept=0" in opened_again


@pytest.mark.parametrize("command", WANTED)
def test_a_cache_that_is_switched_on_is_seen_at_once(start, command) -> None:
    with FakeTarget(write_cache=False) as target:
        probe = held(start, target)
        target.write_cache = True
        tell(target, MODE_CHANGED, command)
        assert re.match(r"closed ECONNRESET .*mode parameters", ended(probe, command))
        assert " write_cache=1 " in probe.open()


def test_a_cache_that_is_switched_on_while_a_session_opens_is_seen(start) -> None:
    """After it was asked for, so the next session asks again."""
    with FakeTarget(write_cache=False) as target:
        target.rules.append(fake.Reservations())
        told = []

        def switched_on(command: fake.Command) -> fake.Reply | None:
            if command.opcode != 0x5E or told or command.cdb[1] & 0x1F != 1 or not target.asked_mode:
                return None
            told.append(command)
            target.write_cache = True
            return MODE_CHANGED

        target.asked_mode = []

        def mode_sense(command: fake.Command) -> None:
            target.asked_mode += [command] if command.opcode == 0x1A else []

        target.rules[:0] = [mode_sense, switched_on]
        probe = start(target.member, "key=1")
        assert probe.ask("open").startswith("closed ECONNRESET ")
        assert " write_cache=1 " in probe.open()


def test_fua_is_not_believed_of_a_lio_with_a_cache(start) -> None:
    """Its file backstore says GOOD whatever became of such a write; a flush tells."""
    for vendor, flushes in ((b"LIO-ORG ", 1), (b"IRAID   ", 0)):
        with FakeTarget() as target:
            target.rules.append(fake.vendor(vendor))
            probe = held(start, target)
            assert result(probe.ask("write 0 4096 1 fua")) == 0
            assert sum(command.is_sync for command in target.commands) == flushes


def test_nor_of_one_that_lost_a_write_and_says_that_it_has_none(start) -> None:
    with FakeTarget(write_cache=False) as target:
        target.rules.append(fake.vendor(b"LIO-ORG "))
        probe = held(start, target)
        tell(target, sense(2, 0x0800), "flush")
        assert result(probe.ask("flush")) == EIO
        assert " lost=1" in probe.line()
        assert " write_cache=1 " in probe.open()
        before = sum(command.is_sync for command in target.commands)
        assert result(probe.ask("write 0 4096 1 fua")) == 0
        assert sum(command.is_sync for command in target.commands) == before + 1


def test_a_reset_that_the_keep_alive_hears_of_leaves_the_cache_alone(start) -> None:
    with FakeTarget() as target:
        probe = held(start, target)
        tell(target, sense(6, 0x2903), "keep-alive")
        assert probe.line().startswith("closed ECONNRESET")
        assert " kept=1" in probe.open()


def test_other_mode_parameters_cost_no_session(start) -> None:
    with FakeTarget() as target:
        probe = held(start, target)
        tell(target, MODE_CHANGED, "write")
        assert result(probe.ask("write 0 4096 1")) == 0


def test_flushes_that_were_sent_before_it_was_known_how_are_repeated_too(start) -> None:
    """A target that knows only SYNCHRONIZE CACHE(16), and is asked for several at once: none is a refusal."""
    with FakeTarget(fua=False) as target:
        target.rules.append(lambda command: ILLEGAL if command.opcode == 0x35 else None)
        probe = opened(start, target)
        target.reading.clear()
        for number in range(4):
            probe.say(f"write {number * 4096} 4096 1 fua")
        for _ in range(2):
            probe.say("flush")
        target.reading.set()
        assert [result(probe.line()) for _ in range(6)] == [0] * 6
