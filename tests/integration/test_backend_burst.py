"""Answers that arrive together with a reason to end the session: those behind it are worth nothing.

A device loses its cache while commands queue in front of it.  The first is answered with UNIT ATTENTION (or a deferred error),
the flush behind it with GOOD, for there is nothing left to be flushed; and both are in one segment."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import fake_target as fake
import nbd
import pytest
from backend_probe import result
from fake_target import FakeTarget, sense
from test_backend_statuses import opened

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until

pytestmark = pytest.mark.timeout(120)
MEMBER_BYTES = 24 << 20
CHUNK = 65536
FUA = 8
REASONS = {"power on": sense(6, 0x2901), "reset": sense(6, 0x2900), "deferred": sense(3, 0x0C00, response_code=0x71)}


class Burst:
    """In place of a connection's socket: while it holds, what is sent waits, and goes out as one."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer, self.holding, self.held = peer, False, b""

    def sendall(self, data: bytes) -> None:
        self.held += data
        if not self.holding:
            self.peer.sendall(self.held)
            self.held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.peer, name)


WANTED = {
    "read": lambda command: command.is_read,
    "flush": lambda command: command.is_sync,
    "keep-alive": lambda command: command.opcode == 0,
}


class CachingTarget(FakeTarget):
    """Writes without FUA stay in a volatile cache until a flush."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.cache: list[tuple[int, bytes]] = []
        self.lost: list[tuple[int, bytes]] = []
        self.burst: Burst | None = None
        self.reason: fake.Reply | None = None
        self.hears: Callable[[fake.Command], bool] = WANTED["read"]
        self.rules.append(self._answer)

    def hold(self) -> Burst:
        connection = self.connections[-1]
        connection.peer = self.burst = Burst(connection.peer)
        return self.burst

    def arm(self, reason: fake.Reply, hears: str = "read") -> None:
        """The next such command that finds something cached loses it, and is answered together with the flush behind it."""
        self.hold()
        self.hears, self.reason = WANTED[hears], reason

    def _content(self) -> bytes:
        disk = bytearray(self.disk)
        for at, data in self.cache:
            disk[at : at + len(data)] = data
        return bytes(disk)

    def _answer(self, command: fake.Command) -> fake.Reply | None:
        if self.reason and self.cache and self.hears(command):
            reason, self.reason = self.reason, None
            self.burst.holding = True
            self.lost, self.cache = self.cache, []
            return reason
        if command.is_sync:
            self.disk[:] = self._content()
            self.cache = []
            if self.burst:
                self.burst.holding = False
            return fake.Reply()
        if command.is_write and not command.cdb[1] & FUA:
            self.cache.append((command.offset, command.data))
            return fake.Reply()
        if command.is_read and self.cache:
            return fake.Reply(data=self._content()[command.offset : command.offset + command.expected_bytes])
        return None


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)
def test_a_flush_behind_a_lost_cache_is_not_believed(start, reason) -> None:
    with CachingTarget() as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 4096 1")) == 0
        target.arm(reason)
        probe.say("read 65536 4096 0")
        probe.say("flush")
        lines = [probe.line() for _ in range(3)]
        assert target.lost
        assert "flush 0 0 0" not in lines


def test_a_flush_behind_one_that_failed_is_not_believed(start) -> None:
    with CachingTarget(fua=False) as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 4096 1")) == 0
        target.arm(sense(3, 0x0C00), "flush")
        probe.say("flush")
        probe.say("flush")
        lines = [probe.line() for _ in range(3)]
        assert target.lost
        assert "flush 0 0 0" not in lines


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)
def test_nor_behind_a_keep_alive_that_hears_of_a_lost_cache(start, reason) -> None:
    with CachingTarget() as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 4096 1")) == 0
        target.arm(reason, "keep-alive")
        wait_until(lambda: target.lost, "a keep-alive", 10)
        probe.say("flush")
        assert "flush 0 0 0" not in [probe.line() for _ in range(2)]


def test_a_write_behind_a_keep_alive_that_hears_of_a_new_cache_is_not_taken_for_safe(start) -> None:
    with FakeTarget(write_cache=False) as target:
        probe = opened(start, target)
        connection = target.connections[-1]
        burst = connection.peer = Burst(connection.peer)
        seen: list[fake.Command] = []

        def late(command: fake.Command) -> fake.Reply | None:
            if command.opcode == 0 and not seen:
                seen.append(command)
                burst.holding = True
                return sense(6, 0x2A01)
            if command.is_write:
                burst.holding = False
            return None

        target.rules.insert(0, late)
        wait_until(lambda: seen, "a keep-alive", 10)
        assert "write 0 4096 0" not in [probe.ask("write 0 4096 1"), probe.line()]


def test_a_flush_that_is_answered_before_the_read_that_was_sent_first_is_not_believed(start) -> None:
    """In one segment: the order of answers is the target's."""
    with CachingTarget() as target:
        probe = opened(start, target)
        assert result(probe.ask("write 0 4096 1")) == 0
        connection = target.connections[-1]
        tags: list[int] = []

        def late(command: fake.Command) -> fake.Reply | None:
            if command.is_read and not tags:
                tags.append(connection.last_tag)
                return fake.SILENCE
            if command.is_sync and tags:
                reason = REASONS["power on"]
                target.hold().holding = True
                connection._status(connection.last_tag, fake.Reply(), 0)
                target.burst.holding = False
                connection._status(tags[0], reason, 0, len(reason.sense).to_bytes(2, "big") + reason.sense)
                return fake.SILENCE
            return None

        target.rules.insert(0, late)
        probe.say("read 65536 4096 0")
        wait_until(lambda: tags, "the read", 10)
        probe.say("flush")
        assert "flush 0 0 0" not in [probe.line() for _ in range(3)]


def completed(handle: nbd.NBD, commands: set[int]) -> bool:
    """Take the commands that are done out of the set; is it empty?"""
    handle.poll(0)
    commands.difference_update([command for command in commands if handle.aio_command_completed(command)])
    return not commands


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)
def test_a_volume_makes_up_for_what_such_a_device_lost(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], reason: fake.Reply
) -> None:
    farm = make_farm(2, size_bytes=MEMBER_BYTES)
    with CachingTarget(size_bytes=MEMBER_BYTES) as target:
        gateway.create("v0", [*farm.members(), target.member], 5, "64K")
        gateway.configure("v0", hedge_milliseconds=0)  # on a busy machine it is slow, and would not be asked
        gateway.must("stop", "v0")
        with gateway.serve("v0") as volume:
            handle = volume.connect()
            volume.wait_resynced()
            row = 2 * CHUNK
            size = 16 * row
            handle.pwrite(b"old!" * (size // 4), 0)
            handle.flush()
            new = b"new!" * (size // 4)
            while not target.lost:  # the volume flushes on its own, too: then nothing is cached, and all begins again
                handle.pwrite(new, 0)
                target.arm(reason)
                # Far from it.  One of three chunks in a row is the device's; its answer waits for that of the flush.
                commands = {handle.aio_pread(nbd.Buffer(CHUNK), 100 * row + number * CHUNK) for number in range(3)}
                wait_until(lambda: completed(handle, commands) or target.lost, "the device to be asked", 30)
            commands.add(handle.aio_flush())
            wait_until(lambda: completed(handle, commands), "the flush", 60)
            assert target.lost
            wait_until(lambda: volume.status()["state"] == "active", "the member to be back", 30)
            volume.wait_resynced()
            assert handle.pread(size, 0) == new
