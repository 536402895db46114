"""Records what reaches the targets, and in which order, while a load runs.

    journal = Journal(folder / "record")
    with Recorder(journal, farm) as recorder:         # one proxy in front of each target
        gateway.create("v0", recorder.members())
        journal.recording = True
        ...                                           # the load notes its own requests in the same journal

Bytes are passed on unchanged, each PDU a moment later (a network has a latency), so that commands are in
flight for long enough to be caught in between.  A WRITE is noted when the last of its bytes has come, before
the target gets it; its end, and that of a SYNCHRONIZE CACHE, when the target's answer comes.  So at any
entry of the journal a crash may find on the disk:

    every write whose end is noted      every write that is noted and has not ended, or any part of it

What became of a write whose session ended first is known when LOGICAL UNIT RESET has completed on the next
one: then the proxy looks into the target's file.  crash_replay.c reads the journal.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iraid_dev.stack.farm import LUN, TargetFarm

HEADER_BYTES = 48
FINAL = 0x80
LATENCY_SECONDS = (0.0005, 0.003)
LOGICAL_UNIT_RESET = 5
# The last target answers writes of its superblock late: what is acknowledged without waiting for them shows.
SUPERBLOCKS_END, HELD_SECONDS = 1 << 20, 0.04
# Refused before anything was written: busy, reservation conflict, task set full.
STATUS_GOOD, STATUS_CHECK, STATUS_NOTHING_DONE = 0x00, 0x02, (0x08, 0x18, 0x28)
UNIT_ATTENTION = 6

# Kinds of entries; crash_replay.h has the same.
WRITE_BEGINS, WRITE_ENDS, SYNC_BEGINS, SYNC_ENDS, WRITE_RESOLVED = 1, 2, 3, 4, 5
LOAD_WRITE_BEGINS, LOAD_WRITE_ENDS, LOAD_FLUSH_BEGINS, LOAD_FLUSH_ENDS, LOAD_SAW = 10, 11, 12, 13, 14
FUA, FAILED = 1, 2  # flags
ENTRY = struct.Struct("<HHIQQQQ")


class Journal:
    """Entries in one order over all threads; the bytes they speak of are in a file beside."""

    def __init__(self, path: Path):
        self.path, self.data_path = path, path.with_suffix(".data")
        self.recording = False
        self.entries = 0
        self._lock = threading.Lock()
        self._file, self._data = path.open("wb"), self.data_path.open("wb")
        self._next_id = 0

    def note(
        self,
        kind: int,
        *,
        flags: int = 0,
        member: int = 0,
        number: int = 0,
        offset: int = 0,
        length: int = 0,
        data: bytes | memoryview = b"",
    ) -> None:
        with self._lock:
            if not self.recording:
                return
            self.entries += 1
            position = self._data.tell() if data else 0
            self._data.write(data)
            self._file.write(ENTRY.pack(kind, flags, member, number, offset, length, position))

    def new_id(self) -> int:
        with self._lock:
            self._next_id += 1
            return self._next_id

    def close(self) -> None:
        self._file.close()
        self._data.close()


@dataclass
class Command:
    """A WRITE or SYNCHRONIZE CACHE that is under way."""

    number: int
    offset: int
    length: int
    flags: int
    sync: bool
    data: bytearray = field(default_factory=bytearray)
    noted: bool = False


class Digests:
    """What a login agreed on, as far as it changes how PDUs lie in the stream."""

    def __init__(self) -> None:
        self.header = self.data = 0

    def agreed(self, text: bytes) -> None:
        for pair in text.split(b"\0"):
            key, _, value = pair.partition(b"=")
            if key == b"HeaderDigest" and value == b"CRC32C":
                self.header = 4
            if key == b"DataDigest" and value == b"CRC32C":
                self.data = 4


class Pipe:
    """One direction: what was put in leaves a latency later, in order."""

    def __init__(self, writer: asyncio.StreamWriter, latency: random.Random | None):
        self.writer, self.latency = writer, latency
        self._queue: asyncio.Queue[tuple[float, bytes, Callable[[], None] | None]] = asyncio.Queue()

    def put(self, pdu: bytes, later: Callable[[], None] | None = None) -> None:
        """`later`: the PDU is held back for long, and this is called when it goes."""
        wait = self.latency.uniform(*LATENCY_SECONDS) if self.latency else 0.0
        wait += HELD_SECONDS if later else 0.0
        self._queue.put_nowait((asyncio.get_running_loop().time() + wait, pdu, later))

    async def run(self) -> None:
        while True:
            due, pdu, later = await self._queue.get()
            left = due - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.sleep(left)
            if later:
                later()
            self.writer.write(pdu)
            await self.writer.drain()


class Session:
    """One connection of the gateway with one target."""

    def __init__(self, proxy: Proxy):
        self.proxy = proxy
        self.commands: dict[bytes, Command] = {}  # by initiator task tag
        self.held: list[Command] = []  # done, and the answer is not on its way yet
        self.resets: set[bytes] = set()
        self.digests = Digests()
        self.full_feature = False

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target_writer = None
        tasks: list[asyncio.Task[None]] = []
        try:
            port = self.proxy.farm.targets[self.proxy.number].ports[0]
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", port, limit=8 << 20)
            out, back = Pipe(target_writer, self.proxy.latency), Pipe(writer, None)
            ways: list[Coroutine[Any, Any, None]] = [
                self._way(reader, out, self._to_target),
                self._way(target_reader, back, self._to_gateway),
                out.run(),
                back.run(),
            ]
            tasks = [asyncio.create_task(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the target is not there: the gateway sees its connection closed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for end in (writer, target_writer):
                if end is not None:
                    end.transport.abort()
            self.proxy.ended(self)

    async def _way(self, reader: asyncio.StreamReader, pipe: Pipe, look: Any) -> None:
        try:
            while True:
                header = await reader.readexactly(HEADER_BYTES)
                digests = self.digests if self.full_feature else Digests()
                rest = header[4] * 4 + digests.header
                length = int.from_bytes(header[5:8], "big")
                data_bytes = length + -length % 4 + (digests.data if length else 0)
                more = await reader.readexactly(rest + data_bytes)
                pipe.put(header + more, look(header, more[rest : rest + length]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        except (AssertionError, ValueError, struct.error) as fault:
            self.proxy.faults.append(f"target {self.proxy.number}: {fault!r}")

    # What the gateway sends

    def _to_target(self, header: bytes, data: bytes) -> None:
        opcode, tag = header[0] & 0x3F, header[16:20]
        if opcode == 0x01:
            self._command(tag, header, data)
        elif opcode == 0x05 and tag in self.commands:
            self._more(self.commands[tag], int.from_bytes(header[40:44], "big"), data)
        elif opcode == 0x02 and header[1] & 0x7F == LOGICAL_UNIT_RESET:
            self.resets.add(tag)

    def _command(self, tag: bytes, header: bytes, data: bytes) -> None:
        cdb = header[32:48]
        number = self.proxy.journal.new_id()
        if cdb[0] in (0x35, 0x91):
            self.commands[tag] = Command(number, 0, 0, 0, True, noted=True)
            self.proxy.note(SYNC_BEGINS, number=number)
        elif cdb[0] in (0x2A, 0x8A):
            (lba,) = struct.unpack_from(">Q" if cdb[0] == 0x8A else ">I", cdb, 2)
            block = self.proxy.farm.targets[self.proxy.number].options.block_bytes
            command = Command(
                number, lba * block, int.from_bytes(header[20:24], "big"), FUA if cdb[1] & 8 else 0, False
            )
            self.commands[tag] = command
            self._more(command, 0, data)
        else:
            assert cdb[0] not in (0x41, 0x42, 0x89, 0x93), f"a command that writes is not known: {cdb[0]:#x}"

    def _more(self, command: Command, at: int, data: bytes) -> None:
        assert at == len(command.data), "Data-Out came out of order"
        command.data += data
        if len(command.data) == command.length and not command.noted:
            command.noted = True
            self.proxy.note(
                WRITE_BEGINS,
                flags=command.flags,
                number=command.number,
                offset=command.offset,
                length=command.length,
                data=bytes(command.data),
            )

    # What the target answers

    def _to_gateway(self, header: bytes, data: bytes) -> Callable[[], None] | None:
        opcode, tag = header[0] & 0x3F, header[16:20]
        if opcode == 0x23:
            self.digests.agreed(data)
            self.full_feature = header[1] & (FINAL | 3) == FINAL | 3
        elif opcode == 0x21 and tag in self.commands:
            return self._answered(self.commands.pop(tag), header, data)
        elif opcode == 0x22 and tag in self.resets:
            if header[2] == 0:
                self.proxy.fenced(self)
        return None

    def _answered(self, command: Command, header: bytes, data: bytes) -> Callable[[], None] | None:
        good = header[2] == 0 and header[3] == STATUS_GOOD
        flags = 0 if good else FAILED
        if command.sync:
            self.proxy.note(SYNC_ENDS, flags=flags, number=command.number)
            return None
        if not command.noted:
            assert not good, "a write was answered before all of its data had been sent"
            return None
        nothing_done = header[3] in STATUS_NOTHING_DONE or (
            header[3] == STATUS_CHECK and len(data) > 4 and data[4] & 0xF == UNIT_ATTENTION
        )
        if good and self.proxy.slow and command.offset < SUPERBLOCKS_END:
            self.held.append(command)
            return lambda: self._let_go(command)
        if good or nothing_done:
            self.proxy.note(WRITE_ENDS, flags=flags, number=command.number)
        else:
            self.proxy.unresolved.append(command)  # the reset that follows tells
        return None

    def _let_go(self, command: Command) -> None:
        self.held.remove(command)
        self.proxy.note(WRITE_ENDS, number=command.number)


class Proxy:
    """In front of one target."""

    def __init__(self, journal: Journal, farm: TargetFarm, number: int, seed: int, faults: list[str]):
        self.journal, self.farm, self.number, self.faults = journal, farm, number, faults
        self.latency = random.Random(seed)
        self.slow = number == len(farm) - 1
        self.unresolved: list[Command] = []
        self.sessions: set[Session] = set()
        self.listener = socket.create_server(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def note(self, kind: int, **more: Any) -> None:
        self.journal.note(kind, member=self.number, **more)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(self)
        self.sessions.add(session)
        await session.run(reader, writer)

    def ended(self, session: Session) -> None:
        self.sessions.discard(session)
        self.unresolved += [command for command in session.commands.values() if command.noted and not command.sync]
        for command in session.held:  # nobody hears of it, and it is done all the same
            self.note(WRITE_ENDS, number=command.number)
        session.held.clear()

    def fenced(self, session: Session) -> None:
        """No write of an earlier session can land any more: what is there now stays."""
        for other in self.sessions - {session}:
            assert not other.commands, "a session was reset while another one had commands"
        with self.farm.backing(self.number).open("rb") as file:
            for command in self.unresolved:
                file.seek(command.offset)
                data = file.read(command.length)
                self.note(
                    WRITE_RESOLVED, number=command.number, offset=command.offset, length=command.length, data=data
                )
        self.unresolved.clear()


class Recorder:
    """Context manager: the proxies, on a thread of their own."""

    def __init__(self, journal: Journal, farm: TargetFarm, seed: int = 1):
        self.journal, self.farm = journal, farm
        self.faults: list[str] = []
        self.proxies = [Proxy(journal, farm, number, seed * 100 + number, self.faults) for number in range(len(farm))]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="recorder")

    def members(self) -> list[str]:
        return [f"127.0.0.1:{proxy.port}/{self.farm.iqn(proxy.number)}/{LUN}" for proxy in self.proxies]

    def __enter__(self) -> Recorder:
        self._loop.set_exception_handler(self._failed)
        for proxy in self.proxies:
            self._loop.run_until_complete(asyncio.start_server(proxy.serve, sock=proxy.listener, limit=8 << 20))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        for proxy in self.proxies:
            proxy.listener.close()
        self._loop.close()

    def check(self) -> None:
        """What the proxies did not understand would be missing in the record."""
        assert not self.faults, self.faults

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.faults.append(f"{context.get('message')}: {context.get('exception')!r}")
