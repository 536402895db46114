"""How a member comes to hold zeros: by WRITE SAME where it can, with UNMAP where that is safe, else by writes."""

from __future__ import annotations

import struct

import fake_target as fake
import pytest
from backend_probe import on_disk, pattern
from fake_target import BLOCK_BYTES, Command, FakeTarget, sense

pytestmark = pytest.mark.timeout(60)
EIO = -5
UNMAP = 0x08


class Zeroing:
    """A rule that knows WRITE SAME(16), and says of itself what it is told to."""

    def __init__(
        self,
        target: FakeTarget,
        *,
        thin: bool = False,
        unmaps: bool = True,
        limit: int = 0,
        refuses_unmap: bool = False,
        refuses: bool = False,
    ) -> None:
        self.target, self.thin, self.unmaps, self.limit = target, thin, unmaps, limit
        self.refuses_unmap, self.refuses = refuses_unmap, refuses
        self.fails: list[fake.Reply] = []
        self.ranges: list[tuple[int, int, bool]] = []  # blocks, and whether unmapped
        target.rules.append(self)

    def __call__(self, command: Command) -> fake.Reply | None:
        cdb = command.cdb
        blocks = len(self.target.disk) // BLOCK_BYTES
        if command.opcode == 0x9E:
            return fake.Reply(data=struct.pack(">QIxxBB16x", blocks - 1, BLOCK_BYTES, 0xC0 * self.thin, 0))
        if command.opcode == 0x12 and cdb[1] & 1 and cdb[2] == 0xB0:
            return fake.Reply(data=struct.pack(">BBH32xQ20x", 0, 0xB0, 0x3C, self.limit))
        if command.opcode == 0x12 and cdb[1] & 1 and cdb[2] == 0xB2:
            return fake.Reply(data=struct.pack(">BBHBBxx", 0, 0xB2, 4, 0, 0xE4 if self.unmaps else 0x84))
        if command.opcode != 0x93:
            return None
        unmap = bool(cdb[1] & UNMAP)
        if self.refuses or (unmap and self.refuses_unmap):
            return sense(5, 0x2400 if unmap else 0x2000)
        if self.fails:
            return self.fails.pop(0)
        first, count = struct.unpack_from(">QI", cdb, 2)
        assert command.data == bytes(BLOCK_BYTES)
        self.ranges.append((first, count, unmap))
        self.target.disk[first * BLOCK_BYTES : (first + count) * BLOCK_BYTES] = bytes(count * BLOCK_BYTES)
        return fake.Reply()

    def opcodes(self) -> list[int]:
        return [command.opcode for command in self.target.commands if command.opcode in (0x93, 0x8A)]


def dirty(target: FakeTarget) -> None:
    target.disk[:] = b"\xa5" * len(target.disk)


def check(target: FakeTarget, first: int, end: int) -> None:
    assert not any(target.disk[first:end])
    assert set(target.disk[:first]) | set(target.disk[end:]) == {0xA5}


@pytest.mark.parametrize(("thin", "unmaps", "asked", "unmapped"), [
    (True, True, True, True), (True, True, False, False), (True, False, True, False),
    (False, True, True, False),
])  # fmt: skip
def test_unmap_is_sent_only_where_it_is_asked_for_and_reads_as_zeros(start, thin, unmaps, asked, unmapped):
    with FakeTarget() as target:
        rule = Zeroing(target, thin=thin, unmaps=unmaps)
        dirty(target)
        probe = start(target.member)
        probe.open()
        word = " deallocate" if asked else ""
        assert probe.ask(f"zero 8192 65536{word}") == "zero 8192 65536 0"
        assert rule.ranges == [(16, 128, unmapped)]
        check(target, 8192, 8192 + 65536)


def test_long_ranges_are_cut_at_the_members_limit(start):
    with FakeTarget() as target:
        rule = Zeroing(target, limit=100)
        dirty(target)
        probe = start(target.member)
        assert " zero=51200" in probe.open()
        assert probe.ask("zero 0 131072") == "zero 0 131072 0"
        assert sorted(rule.ranges) == [(0, 100, False), (100, 100, False), (200, 56, False)]
        check(target, 0, 131072)


def test_a_member_without_write_same_gets_writes_and_is_not_asked_again(start):
    with FakeTarget() as target:
        rule = Zeroing(target, refuses=True)
        dirty(target)
        probe = start(target.member)
        assert " zero=16777216" in probe.open()
        assert probe.ask("zero 4096 300032") == "zero 4096 300032 0"
        check(target, 4096, 4096 + 300032)
        assert rule.opcodes().count(0x93) == 1
        assert set(rule.opcodes()) == {0x93, 0x8A}
        assert probe.ask("close").startswith("closed")
        target.commands.clear()
        assert " zero=0" in probe.open()
        assert probe.ask("zero 0 1048576") == "zero 0 1048576 0"
        assert set(rule.opcodes()) == {0x8A}
        assert not any(target.disk)


def test_a_refused_unmap_becomes_a_write_same_without(start):
    with FakeTarget() as target:
        rule = Zeroing(target, thin=True, refuses_unmap=True)
        dirty(target)
        probe = start(target.member)
        probe.open()
        assert probe.ask("zero 0 65536 deallocate") == "zero 0 65536 0"
        assert probe.ask("zero 65536 65536 deallocate") == "zero 65536 65536 0"
        assert rule.ranges == [(0, 128, False), (128, 128, False)]
        assert len(rule.opcodes()) == 3
        check(target, 0, 131072)


def test_an_error_is_an_error_and_a_busy_member_is_asked_again(start):
    with FakeTarget() as target:
        rule = Zeroing(target)
        probe = start(target.member)
        probe.open()
        rule.fails = [fake.BUSY, fake.QUEUE_FULL]
        assert probe.ask("zero 0 4096") == "zero 0 4096 0"
        rule.fails = [sense(3, 0x0C00)]
        assert probe.ask("zero 0 4096") == f"zero 0 4096 {EIO}"
        assert probe.ask("zero 1000 4096") == f"zero 1000 4096 {EIO}"  # not whole blocks
        assert probe.ask("zero 0 4096") == "zero 0 4096 0"
        assert set(rule.opcodes()) == {0x93}


@pytest.mark.parametrize("thin", [False, True], ids=["thick", "thin"])
def test_tgtd_zeroes_what_it_is_told_to(farm, start, thin):
    if thin:
        farm.admin(0, "--mode", "logicalunit", "--op", "update", "--tid", str(farm.targets[0].tid),
                   "--lun", "1", "--params", "thin_provisioning=1")  # fmt: skip
    probe = start(farm.member(0), "key=1")
    probe.open()
    length = 20 << 20
    assert probe.ask(f"write 0 {4 << 20} 7") == f"write 0 {4 << 20} 0"
    assert probe.ask(f"write {length} 65536 7") == f"write {length} 65536 0"
    assert probe.ask(f"zero 4096 {length - 4096} deallocate") == f"zero 4096 {length - 4096} 0"
    assert on_disk(farm, 0, 4096) == pattern(0, 4096, 7)
    assert not any(on_disk(farm, 4096, length - 4096))
    assert on_disk(farm, length, 65536) == pattern(length, 65536, 7)
    backing = farm.backing(0).stat()
    assert not thin or backing.st_blocks * 512 < 1 << 20  # the holes are real


@pytest.mark.parametrize("fua", [False, True])
def test_no_write_of_zeros_is_longer_than_a_command_may_be(start, fua):
    with FakeTarget(transfer_blocks_max=16, fua=fua) as target:
        dirty(target)
        probe = start(target.member)  # knows no WRITE SAME at all
        probe.open()
        assert probe.ask("zero 0 100352") == "zero 0 100352 0"
        lengths = {command.expected_bytes for command in target.data_commands()}
        assert max(lengths) <= 16 * BLOCK_BYTES
        check(target, 0, 100352)
