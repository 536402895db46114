"""A member's size asked anew on an open session, and unit attentions; the target is fake_target.py, or tgtd."""

from __future__ import annotations

import re
import struct
import time

import fake_target as fake
import pytest
from backend_probe import on_disk, pattern, result
from fake_target import FakeTarget, sense
from test_backend_statuses import ALWAYS, DEADLINE_MS, EIO, ENOTCONN, first, opened

pytestmark = pytest.mark.timeout(60)
SIZE = 1 << 20
CHANGED = sense(6, 0x2A09)


def capacity(command: fake.Command) -> bool:
    return command.is_capacity


def capacity_16(blocks: int, block_bytes: int = 512) -> fake.Reply:
    return fake.Reply(data=struct.pack(">QI20x", (blocks - 1) & 0xFFFFFFFFFFFFFFFF, block_bytes))


def measured(line: str) -> tuple[int, int]:
    word, error, size = line.split()
    assert word == "measure", line
    return int(error), int(size)


def works(probe) -> bool:
    return result(probe.ask("write 4096 4096 9")) == 0 and probe.ask("read 4096 4096 9").endswith("0 same")


def test_a_size_that_has_not_changed_is_told(start) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        assert measured(probe.ask("measure")) == (0, SIZE)
        assert [command.cdb[0] for command in target.commands] == [0x9E]


@pytest.mark.parametrize("ten", [False, True], ids=["READ CAPACITY(16)", "READ CAPACITY(10)"])
def test_what_a_device_has_grown_by_can_be_used_once_it_is_measured(start, capfd, ten) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        if ten:
            target.rules.append(lambda command: fake.ILLEGAL if command.opcode >= 0x80 else None)
        probe = opened(start, target)
        target.resize(3 * SIZE)
        assert result(probe.ask(f"write {SIZE} 4096 1")) == EIO  # as far as we know it is not there
        assert target.data_commands() == []
        assert measured(probe.ask("measure")) == (0, 3 * SIZE)
        assert [command.opcode for command in target.commands] == [0x25 if ten else 0x9E]
        last = 3 * SIZE - 4096
        assert result(probe.ask(f"write {SIZE - 4096} 8192 1")) == 0
        assert result(probe.ask(f"write {last} 4096 2")) == 0
        assert probe.ask(f"read {last} 4096 2").endswith("0 same")
        assert target.disk[last:] == pattern(last, 4096, 2)
        assert result(probe.ask(f"write {last} 8192 1")) == EIO
        probe.ask("close")
        assert f"capacity={3 * SIZE} " in probe.open()
        grown = f"member {target.member} has grown from {SIZE} to {3 * SIZE} bytes"
        assert capfd.readouterr().err.count(grown) == 1


def test_a_device_that_shrank_keeps_the_size_it_had_and_its_io(start, capfd) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        reply = capacity_16(SIZE // 512 - 1)
        target.rules.append(lambda command: reply if command.is_capacity else None)
        assert measured(probe.ask("measure")) == (EIO, SIZE - 512)
        assert result(probe.ask(f"write {SIZE - 4096} 4096 1")) == 0
        assert works(probe)
        said = capfd.readouterr().err
        assert re.search(rf"now has {SIZE - 512} bytes instead of {SIZE};", said), said
        assert said.count("\n") == 1
        target.rules.clear()
        assert measured(probe.ask("measure")) == (0, SIZE)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (capacity_16(SIZE // 4096, 4096), "now has blocks of 4096 bytes instead of 512"),
        (capacity_16(SIZE // 512, 520), "is invalid"),
        (capacity_16(SIZE // 512, 0), "is invalid"),
        (capacity_16(0), "is invalid"),
        (capacity_16(1 << 63), "is invalid"),
        (fake.Reply(data=bytes(11)), "is invalid"),
        (fake.Reply(data=b""), "is invalid"),
        (fake.Reply(data=bytes(32)), "is invalid"),
        (fake.ILLEGAL, r"READ CAPACITY\(16\): check condition, ILLEGAL.REQUEST 20/00"),
        (sense(4, 0x4400), r"READ CAPACITY\(16\): check condition, HARDWARE.ERROR 44/00"),
        (sense(3, 0x1100), "check condition, MEDIUM.ERROR 11/00"),
        (sense(0xB, 0x4700), "check condition, ABORTED.COMMAND 47/00"),
        (fake.BUSY, r"READ CAPACITY\(16\): busy"),
        (fake.Reply(response=1), "status 0x"),
        (fake.Reply(status=0x22), "status 0x22"),
        (CHANGED, "check condition, UNIT.ATTENTION 2a/09"),
    ],
    ids=[
        "other blocks", "no power of two", "no block size", "highest number", "too large", "cut short", "nothing",
        "zeros", "unknown command", "hardware error", "medium error", "aborted for ever", "busy for ever",
        "response code 1", "unknown status", "attentions for ever",
    ],
)  # fmt: skip
def test_an_answer_that_is_none_changes_nothing_and_is_told(start, capfd, reply, words) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.rules.append(lambda command: reply if command.is_capacity else None)
        target.resize(2 * SIZE)
        assert measured(probe.ask("measure")) == (EIO, 0)
        said = capfd.readouterr().err
        assert re.search(words, said), said
        assert len(re.findall("is invalid|size of member|has blocks", said)) == 1, said
        assert works(probe)
        assert result(probe.ask(f"write {SIZE} 4096 1")) == EIO
        target.rules.clear()
        assert measured(probe.ask("measure")) == (0, 2 * SIZE)


def test_a_ten_byte_device_that_outgrew_its_command_is_told_apart(start, capfd) -> None:
    beyond = fake.Reply(data=struct.pack(">II", 0xFFFFFFFF, 512))
    with FakeTarget(size_bytes=SIZE) as target:
        target.rules.append(lambda command: fake.ILLEGAL if command.opcode >= 0x80 else None)
        probe = opened(start, target)
        target.rules.insert(0, lambda command: beyond if command.is_capacity else None)
        assert measured(probe.ask("measure"))[0] == EIO
        assert "the LUN is too large for this command" in capfd.readouterr().err
        assert works(probe)


@pytest.mark.parametrize(
    "reply", [CHANGED, sense(6, 0x3F0E), sense(0xB, 0x4700), fake.BUSY, fake.NOT_READY],
    ids=["capacity changed", "LUNs changed", "aborted", "busy", "not ready"],
)  # fmt: skip
def test_the_question_is_repeated_as_any_other_command(start, reply) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.resize(2 * SIZE)
        target.rules.append(first(2, reply, capacity))
        assert measured(probe.ask("measure")) == (0, 2 * SIZE)
        assert len(target.commands) == 3


def test_no_answer_ends_the_session_within_its_deadline(start) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.rules.append(first(1, fake.SILENCE, capacity))
        begun = time.monotonic()
        assert measured(probe.ask("measure")) == (ENOTCONN, 0)
        assert time.monotonic() - begun < 2 * DEADLINE_MS / 1000
        assert re.match(r"closed ETIMEDOUT .*no progress", probe.line())
        probe.open()
        assert measured(probe.ask("measure")) == (0, SIZE)


def test_a_session_that_ends_meanwhile_answers_for_it(start) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.rules.append(first(ALWAYS, fake.BUSY, capacity))
        probe.say("measure")
        assert probe.ask("close") == f"measure {ENOTCONN} 0"
        assert probe.line().startswith("closed ECANCELED")
        assert measured(probe.ask("measure")) == (ENOTCONN, 0)


def test_a_reset_that_it_meets_ends_the_session(start) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.rules.append(first(1, sense(6, 0x2900), capacity))
        assert measured(probe.ask("measure")) == (ENOTCONN, 0)
        assert re.match(r"closed ECONNRESET .* was reset", probe.line())


def test_several_at_once_have_each_their_own_answer(start) -> None:
    sizes = iter([2, 3, 4])
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.rules.append(lambda command: capacity_16(next(sizes) * SIZE // 512) if command.is_capacity else None)
        for _ in range(3):
            probe.say("measure")
        assert [measured(probe.line()) for _ in range(3)] == [(0, 2 * SIZE), (0, 3 * SIZE), (0, 4 * SIZE)]


def test_it_goes_beside_reads_and_writes(start) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        probe.say("load 16 4096")
        sizes = [SIZE + grown * 4096 for grown in range(1, 21)]
        for size in sizes:
            target.resize(size)
            assert measured(probe.ask("measure")) == (0, size)
        probe.say("unload")
        assert probe.ask("flush") == "flush 0 0 0"
        assert probe.ask("poisoned").endswith("touched 0")


@pytest.mark.parametrize("io", ["read 4096 4096 0", "write 4096 4096 1", "flush", "zero 4096 4096"])
@pytest.mark.parametrize("code", [0x2A09, 0x3F0E, 0x2A01], ids=["size", "LUNs", "mode parameters"])
def test_attentions_are_told_once_and_harm_nothing(start, capfd, io, code) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        for _ in range(3):
            target.rules[:] = [first(2, sense(6, code), lambda _: True)]
            assert result(probe.ask(io)) == 0
        said = capfd.readouterr().err
        assert said.count(f"unit attention {code >> 8:02x}/{code & 0xFF:02x}") == 1, said
        assert ("its size has changed" in said) == (code == 0x2A09), said


def test_an_attention_that_the_keep_alive_meets_is_told(start, capfd) -> None:
    with FakeTarget(size_bytes=SIZE) as target:
        probe = opened(start, target)
        target.rules.append(first(1, CHANGED, lambda command: command.opcode == 0))
        deadline = time.monotonic() + 10
        while not any(command.opcode == 0 for command in target.commands):
            assert time.monotonic() < deadline, "no keep-alive within 10 s"
            time.sleep(0.02)
        assert works(probe)
        assert "unit attention 2a/09, its size has changed" in capfd.readouterr().err


# tgtd


@pytest.mark.parametrize("loaded", [False, True], ids=["idle", "loaded"])
def test_a_real_target_grows_under_its_session(farm, start, loaded) -> None:
    old, new = 64 << 20, 96 << 20
    probe = start(farm.member(0), "key=7")
    probe.open()
    if loaded:
        probe.say("load 16 65536")
    farm.resize(0, new)
    assert measured(probe.ask("measure")) == (0, new)
    if loaded:
        probe.say("unload")
        assert probe.ask("flush") == "flush 0 0 0"
        assert probe.ask("poisoned").endswith("touched 0")
    assert result(probe.ask(f"write {old - 4096} 8192 3")) == 0
    assert result(probe.ask(f"write {new - 4096} 4096 3")) == 0
    assert result(probe.ask("flush")) == 0
    assert on_disk(farm, old - 4096, 8192) == pattern(old - 4096, 8192, 3)
    assert on_disk(farm, new - 4096, 4096) == pattern(new - 4096, 4096, 3)


def test_a_real_target_that_shrank_is_refused(farm, start, capfd) -> None:
    probe = start(farm.member(0), "key=7")
    probe.open()
    farm.resize(0, 48 << 20)
    assert measured(probe.ask("measure"))[0] == EIO
    assert f"now has {48 << 20} bytes instead of {64 << 20};" in capfd.readouterr().err
    assert works(probe)
