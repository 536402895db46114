"""Every io of a member ends in time, whatever the target does to stretch it (backend.h: BACKEND_IO_DEADLINES).

What ends it is told by the reason of closed(), so nothing here measures time: "no progress" is one deadline,
"is not complete" is the bound on all repeats, queueing and dripping together.
"""

from __future__ import annotations

import itertools
import re
import signal
import struct
import threading
import time

import fake_target as fake
import pytest
from backend_probe import pattern, result
from fake_target import NO_TAG, FakeTarget, Reply, Reservations, after, sense, to_reads
from test_backend_statuses import EIO, ENOTCONN, opened
from test_iscsi_admin import LOGIN, UNREACHABLE, admin

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(60)]
DEADLINE = 0.4  # seconds; the bound is six of them
SHORT = f"deadline_ms={int(DEADLINE * 1000)}"
STALLED = r"closed ETIMEDOUT .*no progress"
OVERDUE = r"closed ETIMEDOUT .* is not complete after \d+ ms, although the target answers"


def wait_for(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def ends(probe, ios: int, reason: str) -> None:
    assert [result(probe.line()) for _ in range(ios)] == [ENOTCONN] * ios
    closed = probe.line()
    assert re.match(reason, closed), closed


def write_in_parts(start, part_bytes: int, pause_seconds: float, reason: str) -> None:
    """256 KiB, of which the target asks for a part at a time."""
    with FakeTarget(keys=fake.ONLY_WHAT_IS_ASKED_FOR, r2t_bytes=(part_bytes,)) as target:
        target.r2t_pause_seconds = pause_seconds
        probe = opened(start, target, SHORT)
        probe.say("write 0 262144 1")
        ends(probe, 1, reason)


# Bytes that are no progress


@pytest.mark.parametrize(
    "opcode", [0x20, 0x32, 0x3F, 0x21, 0x22],
    ids=["NOP-In", "asynchronous message", "Reject", "SCSI response", "task management"],
)  # fmt: skip
@pytest.mark.parametrize("io", ["read 0 4096 1", "write 0 4096 1", "flush"])
def test_a_pdu_that_drips_is_no_progress(start, opcode, io) -> None:
    with FakeTarget() as target:
        probe = opened(start, target, SHORT)
        target.rules.append(lambda command: fake.SILENCE if command.opcode != 0 else None)
        probe.say(io)
        wait_for(lambda: target.commands)
        connection = target.connections[-1]
        tag = connection.last_tag if opcode == 0x21 else NO_TAG
        threading.Thread(target=connection.drip, args=(opcode, tag, 200000, 1, DEADLINE / 20), daemon=True).start()
        ends(probe, 1, STALLED)


def test_an_idle_session_whose_target_only_drips_a_ping_is_closed(start) -> None:
    """The keep-alive is a command as any other."""
    with FakeTarget() as target:
        probe = opened(start, target, SHORT)
        target.rules.append(lambda command: fake.SILENCE)
        target.connections[-1].drip(0x20, NO_TAG, 200000, 1000, DEADLINE / 20)
        assert re.match(STALLED, probe.line())


def test_data_that_drips_is_no_progress(start) -> None:
    """Sixteen bytes at a time: far below any link."""
    with FakeTarget() as target:
        probe = opened(start, target, SHORT)
        slow = Reply(data=pattern(0, 262144, 1), chunk_bytes=16, pause_seconds=DEADLINE / 20)
        target.rules.append(to_reads(slow))
        probe.say("read 0 262144 1")
        ends(probe, 1, STALLED)


@pytest.mark.parametrize("status", [False, True])
def test_empty_data_is_no_progress(start, status) -> None:
    with FakeTarget() as target:
        probe = opened(start, target, SHORT)
        empty = Reply(places=((0, 0),) * 100000, pause_seconds=DEADLINE / 40, data=b"x", status_apart=status)
        target.rules.append(to_reads(empty))
        probe.say("read 0 4096 1")
        ends(probe, 1, STALLED)


@pytest.mark.parametrize("target_tag", [NO_TAG, 1], ids=["asks for nothing", "wants an answer"])
@pytest.mark.parametrize("closed", [False, True], ids=["window open", "window closed"])
def test_pings_are_no_progress(start, target_tag, closed) -> None:
    """Nor are the answers to them, which the target's kernel takes; also where no command may be sent."""
    with FakeTarget() as target:
        target.window = 8
        probe = opened(start, target, SHORT)
        connection = target.connections[-1]
        over = threading.Event()
        if closed:
            target.window = None
            for number in range(8):
                assert result(probe.ask("write 0 4096 1")) == 0, number
        else:
            target.rules.append(lambda command: fake.SILENCE)
        header = connection._header(0x20, 0x80, NO_TAG)
        ping = header[:20] + struct.pack(">I", target_tag) + header[24:]

        def pings() -> None:
            """Never more than it takes answers: 16 are under way."""
            sent, answered = 0, target.pings_answered
            try:
                while not over.wait(0.0004):
                    if target_tag == NO_TAG or sent - (target.pings_answered - answered) < 16:
                        connection.send(ping)
                        sent += 1
            except OSError:
                pass

        threading.Thread(target=pings, daemon=True).start()
        for _ in range(3):
            probe.say("write 0 4096 1")
        ends(probe, 3, STALLED)
        over.set()


def test_requests_for_single_bytes_are_no_progress(start) -> None:
    write_in_parts(start, 1, DEADLINE / 20, STALLED)


def test_a_window_that_never_opens_again_ends_the_session(start) -> None:
    with FakeTarget() as target:
        target.window = 4
        probe = opened(start, target, SHORT)
        target.window = None
        for _ in range(100):
            probe.say("write 0 4096 1")
        assert [result(probe.line()) for _ in range(4)] == [0] * 4
        ends(probe, 96, STALLED)


# Progress that leads nowhere


def drips(command: fake.Command) -> Reply | None:
    """4 KiB three times a deadline: a slow link, but a command of 1 MiB does not end on it."""
    if not command.is_read:
        return None
    return Reply(data=bytes(command.expected_bytes), chunk_bytes=4096, pause_seconds=DEADLINE / 3)


def one_after_another(*replies: Reply):
    """Each after most of a deadline."""
    waiting = itertools.cycle(replies)

    def rule(command: fake.Command) -> Reply | None:
        if not (command.is_read or command.is_write or command.is_sync or command.is_capacity):
            return None
        threading.Event().wait(DEADLINE * 0.6)
        return next(waiting)

    return rule


def test_data_that_trickles_ends_by_the_bound(start) -> None:
    with FakeTarget(size_bytes=4 << 20) as target:
        probe = opened(start, target, SHORT)
        target.rules.append(drips)
        probe.say("read 0 1048576 0")
        ends(probe, 1, OVERDUE)


@pytest.mark.parametrize("io", ["read 0 4096 1", "write 0 4096 1", "flush", "measure"])
@pytest.mark.parametrize(
    "replies",
    [(sense(6, 0x2A01),), (sense(6, 0x2A01), sense(6, 0x3F0E), fake.BUSY), (sense(6, 0x2907),)],
    ids=["attentions", "attentions and busy", "nexus losses"],
)
def test_repeats_do_not_start_the_clock_again(start, io, replies) -> None:
    with FakeTarget() as target:
        probe = opened(start, target, SHORT)
        target.rules.append(one_after_another(*replies))
        probe.say(io)
        error = int(probe.line().split()[1 if io == "measure" else 3])
        assert len(target.commands) <= 12
        if fake.BUSY in replies:
            assert error in (EIO, ENOTCONN)  # busy has a deadline of its own
        else:
            assert error == ENOTCONN
            assert re.match(OVERDUE, probe.line())


def test_what_waits_behind_slow_commands_ends_by_the_bound_too(start) -> None:
    """64 commands are under way; what was given to the adapter with them counts from the same moment."""
    with FakeTarget(size_bytes=4 << 20) as target:
        probe = opened(start, target, SHORT)
        target.rules.append(drips)
        for _ in range(80):
            probe.say("read 0 65536 0")
        lines = [probe.line() for _ in range(81)]
        assert re.match(OVERDUE, lines[-1]), lines[-1]
        assert {result(line) for line in lines[:-1]} <= {0, ENOTCONN}


def test_a_read_whose_memory_was_taken_back_ends_by_the_bound_too(start) -> None:
    with FakeTarget(size_bytes=4 << 20) as target:
        probe = opened(start, target, SHORT)
        target.rules.append(drips)
        probe.say("read 0 1048576 0")
        wait_for(target.data_commands)
        probe.say("divert")
        ends(probe, 1, OVERDUE)
        assert probe.ask("poisoned") == "poisoned 1 touched 0"


def test_a_write_that_is_asked_for_bit_by_bit_ends_by_the_bound(start) -> None:
    write_in_parts(start, 4096, DEADLINE / 3, OVERDUE)


# What is no fault of the target


def test_a_slow_link_is_still_none(start) -> None:
    """4 KiB of each of 8 reads in turn: none is answered within a deadline, all within the bound."""
    with FakeTarget() as target:
        probe = opened(start, target, "deadline_ms=1000")
        slow = Reply(data=pattern(0, 32768, 3), chunk_bytes=4096, pause_seconds=0.2)
        target.rules.append(to_reads(slow))
        for _ in range(2):
            probe.say("read 0 32768 3")
        assert [probe.line() for _ in range(2)] == ["read 0 32768 0 same"] * 2


def test_time_in_which_the_gateway_stood_still_is_not_held_against_the_target(start) -> None:
    """What the target answered meanwhile fills the socket's buffer, and goes on to come."""
    with FakeTarget(size_bytes=4 << 20) as target:
        probe = opened(start, target, "deadline_ms=1000")  # longer: it is the machine that must not stand still
        target.rules.append(to_reads(Reply(data=pattern(0, 1 << 18, 3))))
        target.rules.insert(0, lambda command: target.reading.wait() and None)
        target.reading.clear()
        for _ in range(60):
            probe.say("read 0 262144 3")
        assert probe.ask("poisoned") == "poisoned 0 touched 0"  # they were submitted
        probe.process.send_signal(signal.SIGSTOP)
        target.reading.set()
        time.sleep(7)  # more than the bound: that is what is tested
        probe.process.send_signal(signal.SIGCONT)
        assert [probe.line() for _ in range(60)] == ["read 0 262144 0 same"] * 60


@pytest.mark.parametrize("busy", [False, True])
def test_a_target_that_answers_after_the_gateway_stood_still_is_in_time(start, busy) -> None:
    """Nothing has come yet when the gateway goes on: its own pause does not count as the target's silence."""
    with FakeTarget() as target:
        probe = opened(start, target, "deadline_ms=1000")
        stood_still, goes_on = threading.Event(), threading.Event()

        def rule(_: fake.Command) -> Reply | None:
            asked = len(target.data_commands())
            if busy and asked <= 2:
                return (asked == 1 or stood_still.wait()) and fake.BUSY
            return goes_on.wait() and None

        target.rules.append(rule)
        probe.say("read 0 4096 0")
        wait_for(lambda: len(target.data_commands()) == 1 + busy)
        time.sleep(0.3)  # its answers of before were progress: that is noted once
        probe.process.send_signal(signal.SIGSTOP)
        stood_still.set()
        time.sleep(2)  # that is what is tested
        probe.process.send_signal(signal.SIGCONT)
        time.sleep(0.4)
        goes_on.set()
        assert result(probe.line()) == 0


@pytest.mark.parametrize("jump", [1, 1000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_odd_status_numbers_harm_nobody(start, jump) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        for number in range(20):
            target.connections[-1].stat_sn += jump
            assert result(probe.ask(f"write {4096 * number} 4096 {number}")) == 0
        assert probe.ask("read 0 4096 0") == "read 0 4096 0 same"


# Before and after


def test_a_target_daemon_that_restarts_is_open_again_as_soon_as_it_can_be(farm, start) -> None:
    """Each attempt before that ends at once and costs nothing; it is met in all its half-ready states."""
    probe = start(farm.member(0), "key=7", "connect_ms=20000")
    probe.open()
    for _ in range(3):
        probe.say("load 8 4096")
        farm.kill(0)
        while not (line := probe.line()).startswith("closed"):
            assert re.match(r"load \d+ done 8 failed", line), line
        assert re.match("closed E(CONNRESET|PIPE) ", line), line
        back = threading.Thread(target=farm.restart, args=(0,))
        for attempt in range(10000):
            if attempt == 3:
                back.start()
            elif attempt > 3 and not back.is_alive():
                break
            line = probe.ask("open")
            if line.startswith("opened"):
                break
            assert re.match("closed E(CONNREFUSED|CONNRESET|INVAL|PIPE) ", line), line
        back.join()
        if line.startswith("closed"):
            probe.open()
        assert result(probe.ask("write 0 4096 1")) == 0
        assert probe.ask("read 0 4096 1") == "read 0 4096 0 same"


def pdu(opcode: int, flags: int = 0x80, length: int = 0, more: bytes = bytes(28)):
    """One that carries the tag of the login request."""

    def of_tag(tag: int) -> bytes:
        header = struct.pack(">BB2xI8xI", opcode, flags, length, tag) + more
        return header + bytes(length)

    return of_tag


HUGE_R2T = bytes(4) + struct.pack(">IIIIII", 1, 0, 64, 0, 0, 0xFFFFFFFF)


@pytest.mark.parametrize("behind", [False, True], ids=["instead of the answer", "behind the answer"])
@pytest.mark.parametrize(
    "intruder",
    [
        pdu(0x25, 0x80, 512), pdu(0x25, 0x81, 0), pdu(0x31, 0x80, 0, HUGE_R2T), pdu(0x31), pdu(0x21), pdu(0x20),
        pdu(0x22), pdu(0x24), pdu(0x26), pdu(0x32, more=bytes(16) + b"\1" + bytes(11)), pdu(0x3F, 0x80, 48), pdu(0x01), pdu(0x23, 0x40, 8192),
    ],
    ids=[
        "data", "empty data", "R2T of 4 GiB", "R2T", "SCSI response", "ping", "task management", "text", "logout",
        "message", "Reject", "command", "text without end",
    ],
)  # fmt: skip
def test_what_does_not_belong_into_a_login_ends_the_attempt(start, intruder, behind) -> None:
    """libiscsi would follow a NULL pointer for some, and never come back for others."""
    with FakeTarget() as target:
        target.login_postscript, target.login_instead = intruder, not behind
        probe = start(target.member, "connect_ms=3000")
        closed = probe.ask("open")
        assert re.match(r"closed E(PROTO|TIMEDOUT|CONNRESET) ", closed), closed
        assert admin("timeout_ms=3000", "open", target.member)["error"] in (LOGIN, UNREACHABLE)
        target.login_postscript, target.login_instead = lambda tag: b"", False
        probe.open()


@pytest.mark.parametrize("what", ["login", "redirections", "questions", "attentions", "data"])
def test_an_opening_ends_in_time_whatever_drips(start, what) -> None:
    with FakeTarget() as target, FakeTarget() as other:
        if what == "login":
            target.login_pause_seconds = 0.15
        elif what == "redirections":
            target.redirect, other.redirect = other.portal, target.portal
            target.login_pause_seconds = other.login_pause_seconds = 0.02
        elif what == "questions":
            target.rules.append(lambda command: time.sleep(0.4))  # that is what is tested
        elif what == "attentions":
            target.rules.append(after(0.1, sense(6, 0x2900)))
        else:
            target.rules.append(lambda command: Reply(data=bytes(96), chunk_bytes=1, pause_seconds=0.1))
        closed = start(target.member, "connect_ms=1000", "redirects=yes").ask("open")
        # Whichever comes first: its time, or as many redirections as are followed.
        many = what == "redirections" and re.match(r"closed ECONNREFUSED .*from portal to portal", closed)
        assert many or re.match(r"closed ETIMEDOUT .*1000 ms", closed), closed


@pytest.mark.parametrize("what", ["silent", "drips", "attentions"])
def test_a_release_ends_in_time_whatever_drips(start, what) -> None:
    """Deadlines are far away, so that only the release's own bound can end it."""
    with FakeTarget() as target:
        target.rules.append(Reservations())
        probe = start(target.member, "deadline_ms=600000", "connect_ms=600000", "key=1")
        probe.open()
        if what == "silent":
            target.rules.insert(0, lambda command: fake.SILENCE)
        elif what == "attentions":
            target.rules.insert(0, after(0.1, sense(6, 0x2900)))
        else:
            connection = target.connections[-1]
            target.rules.insert(0, lambda command: connection.drip(0x20, NO_TAG, 200000, 1, 0.05) or fake.SILENCE)
        assert probe.ask("release").startswith("closed ECANCELED")


@pytest.mark.parametrize("what", ["login", "answer", "attentions", "ping"])
def test_an_administrator_waits_no_longer_than_told_whatever_drips(what) -> None:
    with FakeTarget() as target:
        if what == "login":
            target.login_pause_seconds = 0.15
        elif what == "answer":
            target.rules.append(lambda command: Reply(data=bytes(96), chunk_bytes=1, pause_seconds=0.1))
        elif what == "attentions":
            target.rules.append(after(0.4, sense(6, 0x2900)))
        else:
            target.rules.append(
                lambda command: target.connections[-1].drip(0x20, NO_TAG, 200000, 1, 0.05) or fake.SILENCE
            )
        assert admin("timeout_ms=1000", "open", target.member)["error"] == UNREACHABLE
