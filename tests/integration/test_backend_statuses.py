"""What the backend makes of each answer a target may give; the target is fake_target.py."""

from __future__ import annotations

import queue
import re
import threading
import time

import fake_target as fake
import pytest
from backend_probe import pattern, result
from fake_target import FakeTarget, sense

pytestmark = pytest.mark.timeout(60)
DEADLINE_MS = 1000
EIO, EACCES, EROFS, ENODATA, ENOTCONN, ECANCELED = -5, -13, -30, -61, -107, -125


def first(count: int, reply: fake.Reply, wanted=lambda command: command.is_write):
    """A rule: the first so many of the wanted commands get this reply."""
    left = count

    def rule(command: fake.Command) -> fake.Reply | None:
        nonlocal left
        if left == 0 or not wanted(command):
            return None
        left -= 1
        return reply

    return rule


ALWAYS = 1 << 30
PREFERRED = ("header_digest=preferred", "data_digest=preferred")
REGISTER, RESERVE, RELEASE, REGISTER_AND_IGNORE = 0, 1, 2, 6  # PERSISTENT RESERVE OUT


def opened(start, target: FakeTarget, *options: str):
    probe = start(target.member, f"deadline_ms={DEADLINE_MS}", *options)
    probe.open()
    target.commands.clear()
    return probe


# Answers that are no failures


@pytest.mark.parametrize("reply", [fake.BUSY, fake.QUEUE_FULL, fake.NOT_READY], ids=["busy", "full", "not ready"])
def test_busy_is_repeated_after_growing_pauses(start, reply) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(first(3, reply))
        begun = time.monotonic()
        assert result(probe.ask("write 0 4096 1")) == 0
        assert 0.3 <= time.monotonic() - begun < 2  # 50 + 100 + 200 ms, counted in whole milliseconds
        assert len(target.data_commands()) == 4
        assert target.disk[:4096] == pattern(0, 4096, 1)


def test_busy_for_ever_fails_the_io_at_the_deadline_and_not_the_session(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(first(ALWAYS, fake.BUSY))
        begun = time.monotonic()
        assert result(probe.ask("write 0 4096 1")) == EIO
        assert DEADLINE_MS / 1000 - 0.01 <= time.monotonic() - begun < 2 * DEADLINE_MS / 1000
        assert probe.ask("read 0 4096 0").startswith("read 0 4096 0")


@pytest.mark.parametrize(
    "reply", [sense(6, 0x2A09), sense(6, 0x2907), sense(0xB, 0x4700), fake.Reply(status=0x40)],
    ids=["capacity changed", "nexus loss", "aborted command", "task aborted"],
)  # fmt: skip
def test_attentions_and_aborts_are_repeated_at_once(start, reply) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(first(2, reply))
        assert result(probe.ask("write 0 4096 1")) == 0
        assert len(target.data_commands()) == 3


def test_recovered_errors_are_successes(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(lambda command: sense(1, 0x0C01) if command.is_write else None)
        assert result(probe.ask("write 0 4096 1")) == 0


# Answers that are


@pytest.mark.parametrize(
    ("io", "reply", "error"),
    [
        ("read", sense(3, 0x1100), ENODATA),
        ("write", sense(3, 0x0C00), EIO),
        ("write", sense(7, 0x2700), EROFS),
        ("write", fake.RESERVED, EACCES),
        ("write", sense(6, 0x2A03), EACCES),
        ("write", sense(6, 0x2A05), EACCES),
        ("write", sense(4, 0x4400), EIO),
        ("write", fake.ILLEGAL, EIO),
        ("write", sense(0xB, 0x4700), EIO),
        ("write", fake.Reply(status=0x22), EIO),
        ("write", fake.Reply(status=0x04), EIO),  # CONDITION MET: of PRE-FETCH alone
        ("read", fake.Reply(data=b"x" * 2048), EIO),
        ("read", fake.Reply(response=1), EIO),
    ],
    ids=[
        "medium error on read", "medium error on write", "protected", "reservation conflict",
        "reservation preempted", "registration preempted", "hardware error", "illegal request", "aborted again and again", "unknown status",
        "condition met",
        "short read", "read without data, response code 1",
    ],
)  # fmt: skip
def test_refusals_have_their_errors_and_the_session_lives(start, io, reply, error) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(lambda command: reply if command.is_read or command.is_write else None)
        assert result(probe.ask(f"{io} 0 4096 1")) == error
        target.rules.clear()
        assert result(probe.ask("write 4096 4096 1")) == 0


def test_one_refused_part_fails_the_whole_io_once(start) -> None:
    with FakeTarget(transfer_blocks_max=8) as target:
        probe = opened(start, target)
        target.rules.append(lambda command: sense(3, 0x1100) if command.is_read and command.offset == 8192 else None)
        assert result(probe.ask("read 0 65536 0")) == ENODATA
        assert result(probe.ask("read 65536 4096 0")) == 0  # nothing of the first came twice


@pytest.mark.parametrize("code", [0x2900, 0x2903], ids=["power on", "reset"])
def test_a_reset_by_somebody_else_ends_the_session(start, code) -> None:
    """Commands may have vanished, and the cache with them: to the engine it is a lost session."""
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(first(1, sense(6, code)))
        assert result(probe.ask("write 0 4096 1")) == ENOTCONN
        assert re.match(r"closed ECONNRESET .* was reset", probe.line())


# Durability


@pytest.mark.parametrize(
    ("fua", "write_cache", "expected"),
    [(True, True, ["write fua"]), (False, True, ["write", "sync"]), (False, False, ["write"])],
    ids=["FUA known", "FUA unknown", "no cache"],
)
def test_fua_reaches_the_medium(start, fua, write_cache, expected) -> None:
    with FakeTarget(fua=fua, write_cache=write_cache) as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 4096 1 fua")) == 0
        asked = [
            "sync" if command.is_sync else "write fua" if command.cdb[1] & 8 else "write" for command in target.commands
        ]
        assert asked == expected


def test_a_flush_that_fails_after_a_write_fails_the_fua_write(start) -> None:
    with FakeTarget(fua=False) as target:
        probe = opened(start, target)
        target.rules.append(lambda command: sense(4, 0x4400) if command.is_sync else None)
        for io in ("write 0 4096 1 fua", "flush"):
            assert result(probe.ask(io)) == EIO
            assert probe.line().startswith("closed ECONNRESET")  # test_backend_cache.py says why
            probe.open()
        assert result(probe.ask("write 0 4096 1")) == 0


@pytest.mark.parametrize(("write_cache", "error"), [(False, 0), (True, EIO)])
def test_without_synchronize_cache_a_flush_fails_only_where_there_is_a_cache(start, write_cache, error) -> None:
    with FakeTarget(write_cache=write_cache) as target:
        probe = opened(start, target)
        target.rules.append(lambda command: fake.ILLEGAL if command.is_sync else None)
        assert result(probe.ask("flush")) == error
        assert [command.opcode for command in target.commands] == [0x35, 0x91]


# Sizes


def test_commands_are_no_longer_than_the_device_takes(start) -> None:
    with FakeTarget(transfer_blocks_max=16) as target:
        probe = opened(start, target)
        assert result(probe.ask("write 512 65536 1 iov=9")) == 0
        assert probe.ask("read 512 65536 1").endswith("0 same")
        assert {len(command.data) for command in target.commands if command.is_write} == {8192}
        assert len(target.data_commands()) == 16


def test_targets_without_16_byte_commands_get_10_byte_ones(start) -> None:
    with FakeTarget() as target:
        target.rules.append(lambda command: fake.ILLEGAL if command.opcode >= 0x80 else None)
        probe = opened(start, target)
        assert result(probe.ask("write 1024 8192 1")) == 0
        assert probe.ask("read 1024 8192 1").endswith("0 same")
        assert [command.opcode for command in target.commands] == [0x2A, 0x28]


@pytest.mark.parametrize(
    "keys",
    [{"ImmediateData": "No", "InitialR2T": "Yes"}, {"ImmediateData": "No", "InitialR2T": "No"}],
    ids=["R2T", "unsolicited"],
)
def test_targets_that_take_no_immediate_data_get_it_all_the_same(start, keys) -> None:
    with FakeTarget(keys=keys) as target:
        probe = opened(start, target)
        assert result(probe.ask("write 4096 262144 5")) == 0
        assert target.disk[4096 : 4096 + 262144] == pattern(4096, 262144, 5)


def test_a_write_longer_than_what_goes_with_the_command_is_one_command_all_the_same(start) -> None:
    keys = {"MaxRecvDataSegmentLength": "8192", "FirstBurstLength": "65536", "InitialR2T": "No"}
    with FakeTarget(keys=keys) as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 65536 5")) == 0
        assert [len(command.data) for command in target.data_commands()] == [65536]
        assert target.disk[:65536] == pattern(0, 65536, 5)


# Sessions


def test_a_device_that_becomes_ready_is_waited_for(start) -> None:
    with FakeTarget() as target:
        target.rules.append(first(2, fake.NOT_READY, lambda command: command.opcode == 0))
        opened(start, target)


def test_a_device_that_does_not_become_ready_is_given_up(start) -> None:
    with FakeTarget() as target:
        target.rules.append(lambda command: fake.NOT_READY if command.opcode == 0 else None)
        closed = start(target.member, "connect_ms=700").ask("open")
        assert re.match(r"closed ETIMEDOUT .*not ready within 700 ms: check condition, NOT READY 04/01", closed), closed


def test_a_target_that_cannot_reset_is_unfit(start) -> None:
    with FakeTarget(reset_response=5) as target:
        closed = start(target.member).ask("open")
        assert re.match(r"closed EINVAL .*LOGICAL UNIT RESET.*fenced", closed), closed


def test_a_target_without_reservations_is_used_without(start) -> None:
    with FakeTarget() as target:
        probe = start(target.member, "key=1")
        assert "reservation=0" in probe.open()
        assert probe.ask("release").startswith("closed ECANCELED")


def test_a_release_waits_for_what_is_under_way(start) -> None:
    """Dropped with a write unanswered, the session would leave its reservation behind."""
    actions = []
    reservations = fake.Reservations()

    def rule(command: fake.Command) -> fake.Reply | None:
        if command.is_write:
            time.sleep(0.2)  # it is under way
        elif command.opcode == 0x5F:
            actions.append(command.cdb[1] & 0x1F)
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        probe = start(target.member, "key=1")
        probe.open()
        probe.say("write 0 4096 3")
        assert probe.ask("release") == "write 0 4096 0"
        assert probe.line().startswith("closed ECANCELED")
        assert actions == [REGISTER_AND_IGNORE, RESERVE, RELEASE, REGISTER]


@pytest.mark.parametrize("step", ["reserve", "reset", "mode sense"])
def test_a_release_gives_back_what_a_session_that_is_being_opened_has_reserved(start, step) -> None:
    """Whether the reservation is on its way, or is held and the session not open yet."""
    reservations, reached, go_on = fake.Reservations(), threading.Event(), threading.Event()

    def stop_at(name: str) -> None:
        if name == step and not reached.is_set():
            reached.set()
            assert go_on.wait(20)

    def rule(command: fake.Command) -> fake.Reply | None:
        if command.opcode == 0x5F and command.cdb[1] & 0x1F == RESERVE:
            stop_at("reserve")
        elif command.opcode == 0x1A:
            stop_at("mode sense")
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        target.on_reset = lambda: stop_at("reset")
        probe = start(target.member, "key=1")
        probe.say("open")
        assert reached.wait(20)
        probe.say("release")
        probe.say("release")  # twice is once
        go_on.set()
        assert probe.line().startswith("closed ECANCELED")
        assert reservations.holder == bytes(8)
        assert " reservation=1 " in probe.open()


@pytest.mark.parametrize("opcode", [0x12, 0x00, 0x5E], ids=["inquiry", "test unit ready", "read reservation"])
def test_a_release_gives_back_what_a_session_before_has_reserved(start, opcode) -> None:
    """It was closed, not released, and the next one has not come to its reservation yet."""
    reservations, reached, go_on, again = fake.Reservations(), threading.Event(), threading.Event(), threading.Event()

    def rule(command: fake.Command) -> fake.Reply | None:
        if again.is_set() and command.opcode == opcode and not reached.is_set():
            reached.set()
            assert go_on.wait(20)
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        probe = start(target.member, "key=1")
        probe.open()
        assert probe.ask("close").startswith("closed ECANCELED")
        assert reservations.holder != bytes(8)
        again.set()
        probe.say("open")
        assert reached.wait(20)
        probe.say("release")
        go_on.set()
        assert probe.line().startswith("closed ECANCELED")
        assert reservations.holder == bytes(8)


def test_a_release_waits_no_longer_than_told(start) -> None:
    with FakeTarget() as target:
        target.rules.append(fake.Reservations())
        probe = start(target.member, "deadline_ms=600000", "key=1")
        probe.open()
        target.rules.insert(0, lambda command: fake.SILENCE)
        probe.say("write 0 4096 3")
        begun = time.monotonic()
        assert probe.ask("release").startswith("write 0 4096 -")
        assert probe.line().startswith("closed ECANCELED")
        assert 0.9 < time.monotonic() - begun < 3


@pytest.mark.parametrize("in_force", [True, False])
def test_a_key_that_lio_could_not_write_to_its_file_is_in_force(start, in_force) -> None:
    """LIO whose directory for reservations is not there takes the key, and answers 2/0800."""
    actions = []
    reservations = fake.Reservations()

    def rule(command: fake.Command) -> fake.Reply | None:
        if command.opcode != 0x5F:
            return reservations(command)
        actions.append(command.cdb[1] & 0x1F)
        if actions[-1] in (REGISTER, REGISTER_AND_IGNORE):
            return sense(2, 0x0800)
        return reservations(command) if in_force else fake.RESERVED

    with FakeTarget() as target:
        target.rules.append(rule)
        probe = start(target.member, "key=1", "connect_ms=700")
        if not in_force:
            assert probe.ask("open").startswith("closed ")
            return
        assert "reservation=1" in probe.open()
        assert probe.ask("release").startswith("closed ECANCELED")
        assert actions == [REGISTER_AND_IGNORE, RESERVE, RELEASE, REGISTER]


def test_an_idle_session_says_that_its_reservation_was_taken(start) -> None:
    with FakeTarget() as target:
        reservations = fake.Reservations()
        target.rules.append(reservations)
        probe = start(target.member, "key=1")
        assert "reservation=1" in probe.open()
        reservations.holder = (0xAA11).to_bytes(8, "big")
        assert re.match(r"closed EACCES .*another gateway took the reservation", probe.line())


def test_an_idle_session_says_that_its_reservation_is_gone(start) -> None:
    """Its LUN was unmapped and mapped again (LIO): no unit attention says so."""
    with FakeTarget() as target:
        reservations = fake.Reservations()
        target.rules.append(reservations)
        probe = start(target.member, "key=1")
        assert "reservation=1" in probe.open()
        reservations.holder, reservations.own = bytes(8), bytes(8)
        assert re.match(r"closed ECONNRESET .*its reservation is gone", probe.line())
        assert "reservation=1" in probe.open()


def test_a_lost_command_is_found_while_others_are_answered(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target, "deadline_ms=200")
        target.rules.append(lambda command: fake.SILENCE if command.is_write and command.offset == 4096 else None)
        probe.say("write 4096 4096 1")
        begun = time.monotonic()
        probe.say("load 2 512 read")
        assert result(probe.line()) == ENOTCONN
        lines = [probe.line(), probe.line()]
        assert re.match(r"closed ETIMEDOUT .*a write is not complete after", lines[1]), lines
        assert 1.0 < time.monotonic() - begun < 3  # six deadlines


def test_a_slow_link_is_no_hung_target(start) -> None:
    """16 pieces, 100 ms apart: the command is older than the deadline and the session goes on."""
    with FakeTarget() as target:
        probe = opened(start, target, "deadline_ms=500")
        slow = fake.Reply(data=pattern(0, 65536, 3), chunk_bytes=4096, pause_seconds=0.1)
        target.rules.append(lambda command: slow if command.is_read else None)
        begun = time.monotonic()
        assert probe.ask("read 0 65536 3") == "read 0 65536 0 same"
        assert time.monotonic() - begun > 1.0


def test_a_logout_that_the_target_asks_for_ends_every_io(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(lambda command: fake.SILENCE if command.is_write else None)
        for _ in range(3):
            probe.say("write 0 4096 1")
        while len(target.data_commands()) < 3:
            time.sleep(0.01)  # until they are there
        target.connections[-1].ask_for_logout()
        assert [result(probe.line()) for _ in range(3)] == [ENOTCONN] * 3
        assert probe.line().startswith("closed E")


@pytest.mark.parametrize(
    "bytes_sent",
    [b"\xff" * 48, b"\x25\x80" + b"\0" * 46, b"\x25\x00\0\0\x00\xff\xff\xff" + b"\0" * 40, b"\x3f" + b"\0" * 47],
    ids=["ones", "data for nobody", "longest data", "reject without data"],
)
def test_garbage_ends_or_leaves_the_session_but_never_the_program(start, bytes_sent) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(lambda command: fake.SILENCE if command.is_read else None)
        probe.say("read 0 4096 0")
        while not target.data_commands():
            time.sleep(0.01)  # until it is there
        target.connections[-1].peer.sendall(bytes_sent)
        assert result(probe.line()) == ENOTCONN
        assert probe.line().startswith("closed E")
        target.rules.clear()
        probe.open()


# The full-feature phase


@pytest.mark.parametrize("digest", ["None", "CRC32C"])
@pytest.mark.parametrize(("immediate", "initial_r2t"), [("Yes", "Yes"), ("No", "Yes"), ("Yes", "No"), ("No", "No")])
@pytest.mark.parametrize(("sizes", "at_once"), [((), 1), ((1, 4095, 513), 1), ((8192, 3), 4)])
def test_data_goes_out_as_it_is_asked_for(start, digest, immediate, initial_r2t, sizes, at_once) -> None:
    """R2Ts of odd sizes, several at once, pings in between; the target checks tags, places and digests."""
    keys = {
        "ImmediateData": immediate, "InitialR2T": initial_r2t, "HeaderDigest": digest, "DataDigest": digest,
        "MaxRecvDataSegmentLength": "4096", "FirstBurstLength": "12288",
    }  # fmt: skip
    with FakeTarget(keys=keys, r2t_bytes=sizes, r2ts_at_once=at_once, ping_in_writes=True) as target:
        probe = opened(start, target, *PREFERRED)
        assert result(probe.ask("write 512 65536 5 iov=37")) == 0
        assert target.disk[512 : 512 + 65536] == pattern(512, 65536, 5)
        assert probe.ask("read 512 65536 5 iov=11") == "read 512 65536 0 same"
        assert target.pings_sent == target.pings_answered > 0
        assert target.data_outs >= target.r2ts_sent > 0


def test_many_writes_with_r2t_at_once_land_where_they_belong(start) -> None:
    keys = {"MaxRecvDataSegmentLength": "8192"}
    with FakeTarget(size_bytes=4 << 20, keys=keys, r2t_bytes=(20000, 512), ping_in_writes=True) as target:
        probe = opened(start, target)
        for number in range(16):
            probe.say(f"write {number * 204800} 204800 {number} iov=9")
        assert [result(probe.line()) for _ in range(16)] == [0] * 16
        for number in range(16):
            place = number * 204800
            assert target.disk[place : place + 204800] == pattern(place, 204800, number)


@pytest.mark.parametrize("io", ["write 0 4096 1", "write 0 262144 1", "write 0 4096 1 fua", "flush"])
@pytest.mark.parametrize("response", [1, 2, 0x80])
def test_good_with_a_response_code_is_no_success(start, io, response) -> None:
    """The iSCSI layer of the target failed, and the SCSI status, which then means nothing, is zero."""
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(
            lambda command: fake.Reply(response=response) if command.is_write or command.is_sync else None
        )
        assert result(probe.ask(io)) == EIO
        target.rules.clear()
        if io == "flush":  # what the cache held may be lost, and the next flush would not tell
            assert probe.line().startswith("closed ECONNRESET ")
            probe.open()
        assert result(probe.ask(io)) == 0


@pytest.mark.parametrize("chunk", [512, 1536, 8192])
def test_data_comes_in_many_small_pieces(start, chunk) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 262144 3")) == 0
        small = fake.Reply(data=pattern(0, 262144, 3), chunk_bytes=chunk)
        target.rules.append(lambda command: small if command.is_read else None)
        for _ in range(4):
            probe.say("read 0 262144 3 iov=700")
        assert [probe.line() for _ in range(4)] == ["read 0 262144 0 same"] * 4


DATA = pattern(0, 4096, 1)
CRC = {"HeaderDigest": "CRC32C", "DataDigest": "CRC32C"}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (fake.Reply(data=DATA, chunk_bytes=512, skipped_sequence=1), "DataSN"),
        (fake.Reply(data=DATA, tag_flip=0x100), "data that was not requested"),
        (fake.Reply(data=DATA, extra=bytes(512)), "more data than was requested"),
        (fake.Reply(data=DATA, wrong_header_digest=True), "wrong header digest"),
        (fake.Reply(data=DATA, wrong_data_digest=True), "wrong digest"),
        (fake.Reply(data=DATA, cut_off_bytes=20), "closed the connection"),
        (fake.Reply(data=DATA, cut_off_bytes=2000), "closed the connection"),
    ],
    ids=["gap", "wrong tag", "too much", "header digest", "data digest", "cut header", "cut data"],
)  # fmt: skip
def test_damaged_data_ends_the_session_and_is_never_good(start, reply, reason) -> None:
    with FakeTarget(keys=CRC) as target:
        probe = opened(start, target, *PREFERRED)
        target.rules.append(lambda command: reply if command.is_read else None)
        probe.say("read 0 4096 1")
        assert result(probe.line()) == ENOTCONN
        closed = probe.line()
        assert re.match(r"closed E(PROTO|CONNRESET) ", closed) and reason in closed, closed
        target.rules.clear()
        probe.open()
        assert result(probe.ask("write 0 4096 1")) == 0


def test_a_rejected_pdu_ends_the_session(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.connections[-1].reject()
        assert re.match(r"closed EPROTO .*rejected a PDU, reason 0x04", probe.line())


@pytest.mark.parametrize("length", [4096, 262144])
def test_a_target_that_stops_reading_is_noticed_in_time(start, length) -> None:
    """Sockets fill up, with commands and with Data-Out half way; nothing is lost but the session."""
    with FakeTarget(keys={"MaxRecvDataSegmentLength": "8192"}, r2t_bytes=(65536,)) as target:
        probe = opened(start, target)
        target.rules.append(lambda command: target.reading.clear() if command.is_write else None)
        begun = time.monotonic()
        for _ in range(100):
            probe.say(f"write 0 {length} 1")
        lines = [probe.line() for _ in range(101)]
        assert lines[-1].startswith("closed ETIMEDOUT"), lines[-1]
        assert {result(line) for line in lines[:-1]} <= {0, ENOTCONN}
        assert time.monotonic() - begun < 3 * DEADLINE_MS / 1000 + 1
        target.rules.clear()
        target.reading.set()
        probe.open()


@pytest.mark.parametrize("chunk", [4096, 262144], ids=["in the buffer", "straight to memory"])
def test_memory_taken_back_in_the_midst_of_data_is_left_alone(start, chunk) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        go_on = threading.Event()
        slow = fake.Reply(data=bytes(range(256)) * 1024, chunk_bytes=chunk, go_on=go_on)
        target.rules.append(lambda command: slow if command.is_read else None)
        probe.say("read 0 262144 1 iov=5")
        while not target.data_commands():
            time.sleep(0.01)  # until it is there
        with pytest.raises(queue.Empty):
            probe.lines.get(timeout=0.3)  # half of it has come by then
        probe.say("divert")
        assert probe.ask("poisoned") == "poisoned 0 touched 0"  # the divert was carried out
        go_on.set()
        assert probe.line() == "read 0 262144 0 diverted"
        assert probe.ask("poisoned") == "poisoned 1 touched 0"
        target.rules.clear()
        assert result(probe.ask("write 0 4096 1")) == 0
        assert probe.ask("read 0 4096 1") == "read 0 4096 0 same"


def test_a_diverted_read_that_only_a_busy_target_answered_says_nothing(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(lambda command: fake.BUSY if command.is_read else None)
        probe.say("read 0 4096 1")
        while not target.data_commands():
            time.sleep(0.01)  # until it is there
        probe.say("divert")
        assert result(probe.line()) == ECANCELED
        target.rules.clear()
        assert result(probe.ask("read 0 4096 0")) == 0


def test_a_diverted_read_that_is_never_answered_costs_the_session_and_no_memory(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        target.rules.append(lambda command: fake.SILENCE if command.is_read else None)
        probe.say("read 0 4096 1")
        while not target.data_commands():
            time.sleep(0.01)  # until it is there
        probe.say("divert")
        assert result(probe.line()) == ENOTCONN
        assert probe.line().startswith("closed ETIMEDOUT")
        assert probe.ask("poisoned") == "poisoned 1 touched 0"


def test_a_target_that_splits_its_login_is_understood(start) -> None:
    with FakeTarget(login_pause_seconds=0.02) as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 4096 1")) == 0


LOGIN_END = b"\x23\x87\0\0"  # transit to the full-feature phase


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff" * 48,
        b"\x23" * 48,
        LOGIN_END + b"\0\0\0",
        LOGIN_END + b"\0\xff\xff\xff" + bytes(40),
        LOGIN_END + b"\xff\0\0\0" + bytes(40 + 1020),
        LOGIN_END + b"\0\0\x40\0" + bytes(40 + 0x4000),
        LOGIN_END + b"\0\0\x20\0" + bytes(40) + b"MaxBurstLength=" * 400,
        b"\x25\x81\0\0\0\0\x10\0" + bytes(40 + 4096),
    ],
    ids=["nothing", "ones", "nonsense", "half a header", "longest data", "longest AHS", "too much text", "cut off text", "data"],
)  # fmt: skip
def test_garbage_during_the_login_ends_the_attempt_and_nothing_else(start, answer) -> None:
    with FakeTarget(login_answer=answer) as target:
        probe = start(target.member, "connect_ms=3000")
        assert probe.ask("open").startswith("closed E")
        target.login_answer = None
        probe.open()
        assert result(probe.ask("write 0 4096 1")) == 0


def test_a_redirection_is_followed(start) -> None:
    with FakeTarget() as real, FakeTarget(redirect=real.portal) as door:
        probe = opened(start, door, f"portal={real.portal}")
        assert result(probe.ask("write 0 4096 1")) == 0
        assert real.disk[:4096] == pattern(0, 4096, 1)


def test_redirections_in_a_circle_end(start) -> None:
    with FakeTarget() as door:
        door.redirect = door.portal
        assert "portal to portal" in start(door.member).ask("open")
        assert len(door.isids) == 4


def test_every_session_has_the_same_isid(start) -> None:
    with FakeTarget() as target:
        probe = start(target.member, "isid=9")
        for _ in range(2):
            probe.open()
            assert probe.ask("close").startswith("closed ECANCELED")
        assert target.isids == [bytes([0x80, 1, 2, 3, 4, 9])] * 2
