"""A member that lies with its sessions, one kind of lie at a time, until it is told to be honest again.

    with HostileMember(size_bytes=24 << 20, seed=1) as target:
        target.tell("sense data")
        target.cut()                     # its session; what comes is a new one
        target.told                      # lies so far
        target.honest()

What it stores is what it was given: its lies are about sizes, names, lengths, order, time and states, never about the
bytes of the volume that a read returns with GOOD (nobody could know).  Reads of its superblock are the exception.
"""

from __future__ import annotations

import dataclasses
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import fake_target as fake
from fake_target import FINAL, NO_TAG, OVERFLOW, UNDERFLOW, Command, Connection, FakeTarget, Reply, Reservations

from iraid_dev.stack.checksum import crc32c
from iraid_dev.stack.reader import COPIES, SUPERBLOCK_BYTES

SCSI, DATA_OUT, NOP_IN, ASYNC, R2T = 0x01, 0x05, 0x20, 0x32, 0x31
INQUIRY = 0x12
SESSION_COMMANDS_MAX = 40  # where a lie is told at the login only, the session ends after so many
CLAIMS = [
    (OVERFLOW, 32),
    (OVERFLOW, 0xFFFFFFFF),
    (UNDERFLOW, 0),
    (UNDERFLOW, 512),
    (UNDERFLOW | OVERFLOW, 1),
    (0, 4096),
]
LENGTHS = (0, 1, 2, 7, 8, 13, 18, 252, 4096)
EDGES = (0, 1, 511, 512, 4096, 65536, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 512, (1 << 32) - 1)


class HostileMember(FakeTarget):
    """Takes reservations; forgets what it was asked, so that it can be asked for hours."""

    def __init__(self, *, size_bytes: int, seed: int) -> None:
        super().__init__(size_bytes=size_bytes)
        self.chance = random.Random(seed)
        self.reservations = Reservations()
        self.rules.append(self.reservations)
        self.told = 0
        self.ending = threading.Event()  # nobody drips any more

    def answer(self, command: Command) -> Reply:
        reply = super().answer(command)
        self.commands.clear()
        return reply

    def tell(self, kind: str) -> None:
        self.honest()
        self.told = 0
        self.ending = threading.Event()
        KINDS[kind](self)

    def honest(self) -> None:
        """From the next session on; those that heard lies end."""
        self.ending.set()
        self.rules[:] = [self.reservations]
        self.on_pdu = None
        self.cut()

    def cut(self) -> None:
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.close()

    def may(self, share: float) -> bool:
        """Whether now is the time for a lie, which then counts."""
        if self.chance.random() >= share:
            return False
        self.told += 1
        return True


def is_scsi(header: bytes) -> bool:
    return header[0] & 0x3F == SCSI


def short_sessions(target: HostileMember) -> None:
    """For lies that a session hears at its beginning only."""
    heard: Counter[Connection] = Counter()

    def end(peer: Connection, header: bytes, data: bytes) -> bool:
        heard[peer] += is_scsi(header)
        if heard[peer] > SESSION_COMMANDS_MAX:
            del heard[peer]
            raise EOFError
        return False

    target.on_pdu = end


# At the login, and in what it reads first


def sizes(target: HostileMember) -> None:
    right = len(target.disk) // fake.BLOCK_BYTES

    def rule(command: Command) -> Reply | None:
        if not command.is_capacity or not target.may(0.8):
            return None
        chance = target.chance
        last = chance.choice((right // 2, right * 2, right, 0, 1, (1 << 32) - 1, (1 << 64) - 1, chance.getrandbits(64)))
        block = chance.choice((512, 512, 512, 4096, 0, 1, 513, 1 << 31, (1 << 32) - 1))
        if command.opcode == 0x25:
            return Reply(data=struct.pack(">II", last & 0xFFFFFFFF, block))
        return Reply(data=struct.pack(">QI20x", last, block)[: chance.choice((32, 32, 32, 12, 11, 0))])

    target.rules.insert(0, rule)
    short_sessions(target)


def names(target: HostileMember) -> None:
    """Vendor, serial number and designators: another one each time, in lengths that lie."""

    def rule(command: Command) -> Reply | None:
        if command.opcode != INQUIRY or not target.may(1.0):
            return None
        chance = target.chance
        noise = chance.randbytes(chance.choice((0, 1, 4, 20, 251, 4096)))
        if command.cdb[1] & 1 == 0:
            return Reply(
                data=bytes([chance.choice((0, 0, 0, 5, 31)), 0, 6, 2, chance.choice((31, 0, 255)), 0, 0, 2]) + noise
            )
        claimed = chance.choice((len(noise), 0, 1, 0xFFFF))
        page = chance.choice((command.cdb[2], command.cdb[2], 0xFF))
        return Reply(data=struct.pack(">BBH", 0, page, claimed & 0xFFFF) + noise)

    target.rules.insert(0, rule)
    short_sessions(target)


def sealed(block: bytearray) -> bytes:
    """With a CRC that is right."""
    struct.pack_into("<I", block, 8, 0)
    struct.pack_into("<I", block, 8, crc32c(bytes(block)))
    return bytes(block)


def false_superblock(chance: random.Random, true: bytes) -> bytes:
    """Of another volume, another member, another epoch or write count, of another form, or none."""
    block = bytearray(true)
    what = chance.randrange(7)
    if what == 0:
        return bytes(len(true))
    if what == 1:
        return chance.randbytes(len(true))
    if what == 2:
        block[48:64] = chance.randbytes(16)  # volume
    elif what == 3:
        block[64:80] = chance.choice(
            (block[768:784], block[784:800], chance.randbytes(16))
        )  # member: another of the volume
    elif what == 4:
        epoch, event = chance.choice((0, 1, 1 << 40, (1 << 64) - 1)), chance.choice((0, 1, (1 << 64) - 1))
        struct.pack_into("<QQ", block, 176, epoch, event)
    elif what == 5:
        struct.pack_into("<Q", block, 40, chance.choice((0, 1, (1 << 64) - 1)))
    else:
        for _ in range(chance.randrange(1, 5)):
            block[chance.randrange(12, SUPERBLOCK_BYTES)] = chance.randrange(256)
    return sealed(block)


def superblocks(target: HostileMember) -> None:
    def rule(command: Command) -> Reply | None:
        begin, end = command.offset if command.is_read else 0, 0
        end = begin + command.expected_bytes
        hit = [at for at in COPIES.values() if command.is_read and begin <= at and at + SUPERBLOCK_BYTES <= end]
        if not hit or not target.may(0.9):
            return None
        data = bytearray(target.disk[begin:end])
        for at in hit:
            there = slice(at - begin, at - begin + SUPERBLOCK_BYTES)
            data[there] = false_superblock(target.chance, bytes(data[there]))
        return Reply(data=bytes(data))

    target.rules.insert(0, rule)
    short_sessions(target)


# In answers to commands


def senses(target: HostileMember) -> None:
    def rule(command: Command) -> Reply | None:
        if not target.may(0.25):
            return None
        chance = target.chance
        form = chance.choice((0x70, 0x70, 0x71, 0x72, 0x73, 0x00, 0x7F, 0xF0))
        text = bytearray(fake.sense(chance.randrange(16), chance.getrandbits(16), response_code=form).sense)
        text[7] = chance.choice((10, 0, 255))
        text = (text + chance.randbytes(4096))[: chance.choice(LENGTHS)]
        claimed = chance.choice((None, None, 0, 1, 18, 252, 0xFFFF))
        status = chance.choice((fake.CHECK_CONDITION,) * 6 + (0x04, 0x08, 0x10, 0x18, 0x28, 0x30, 0x40, 0xFF))
        return Reply(
            status=status, sense=bytes(text), sense_length=claimed, response=chance.choice((0, 0, 0, 0, 1, 0x80))
        )

    target.rules.insert(0, rule)


def residuals(target: HostileMember) -> None:
    def rule(command: Command) -> Reply | None:
        if not (command.is_read or command.is_write) or not target.may(0.3):
            return None
        chance = target.chance
        claim, apart = chance.choice(CLAIMS), chance.random() < 0.5
        if command.is_write:
            target._disk_answer(command)
            return Reply(residual=claim)
        whole = target._disk_answer(command).data
        return Reply(
            data=whole[: chance.choice((len(whole), 0, 512, len(whole) - 1))], residual=claim, status_apart=apart
        )

    target.rules.insert(0, rule)


def torn_data(target: HostileMember) -> None:
    """Data-In twice, overlapping, turned round, with holes, too much, too little, elsewhere."""

    def rule(command: Command) -> Reply | None:
        if not command.is_read or not target.may(0.3):
            return None
        chance, length = target.chance, command.expected_bytes
        half, right = length // 2, Reply(data=target._disk_answer(command).data, status_apart=chance.random() < 0.5)
        places = chance.choice((
            ((0, length), (0, length)), ((0, half), (0, half)), ((half, half), (0, half)), ((0, half), (half + 512, half)),
            ((half, half),), ((0, length), (length, 512)), ((0, half), ((1 << 32) - 512, 512)),
            tuple((chance.choice(EDGES), chance.choice((0, 512, half))) for _ in range(chance.randrange(1, 6))),
        ))  # fmt: skip
        return chance.choice((  # wrong in one way only: what would be refused for another would hide it
            *[dataclasses.replace(right, places=places)] * 6,
            dataclasses.replace(right, skipped_sequence=chance.choice((1, 5)), chunk_bytes=4096),
            dataclasses.replace(right, tag_flip=chance.choice((1, 1 << 31))),
            dataclasses.replace(right, extra=bytes(chance.choice((512, 65536)))),
        ))  # fmt: skip

    target.rules.insert(0, rule)


# PDUs that nobody asked for


def instead(target: HostileMember, share: float, lie: Callable[[Connection, bytes], bool]) -> None:
    """lie(connection, header of a SCSI command) sends something; says whether that is all the answer there is."""

    def on_pdu(peer: Connection, header: bytes, data: bytes) -> bool:
        if header[0] & 0x3F == DATA_OUT:  # of a write whose answer was a lie
            return True
        return is_scsi(header) and target.may(share) and lie(peer, header)

    target.on_pdu = on_pdu


def r2ts(target: HostileMember) -> None:
    def lie(peer: Connection, header: bytes) -> bool:
        chance = target.chance
        tag, expected = struct.unpack_from(">II", header, 16)
        for _ in range(chance.choice((1, 1, 9, 300))):
            place = struct.pack(
                ">III", chance.choice((0, 1, 7)), chance.choice((expected, *EDGES)), chance.choice((expected, *EDGES))
            )
            out = peer._header(R2T, FINAL, tag ^ chance.choice((0, 0, 0, 1)))
            own = struct.pack(">I", chance.choice((1, NO_TAG)))
            peer.send(out[:20] + own + out[24:36] + place)
        return True

    instead(target, 0.2, lie)


def pings(target: HostileMember) -> None:
    """Floods, that want an answer and that want none."""

    def lie(peer: Connection, header: bytes) -> bool:
        chance = target.chance
        out = peer._header(NOP_IN, FINAL, chance.choice((NO_TAG, NO_TAG, NO_TAG, 5)))
        own = struct.pack(">I", chance.choice((NO_TAG, 77)))
        ping = peer.encode(out[:20] + own + out[24:], bytes(chance.choice((0, 0, 4096))))
        with peer.lock:
            peer.peer.sendall(ping * chance.choice((1, 40, 3000)))
        return False

    instead(target, 0.05, lie)


def messages(target: HostileMember) -> None:
    """Asynchronous messages of all events, with times and sense data that make no sense."""

    def lie(peer: Connection, header: bytes) -> bool:
        chance = target.chance
        out = peer._header(ASYNC, FINAL, NO_TAG)
        event = chance.choice((0, 1, 2, 3, 4, 5, 6, 248, 255, chance.randrange(256)))
        times = [chance.choice((0, 1, 0x7FFF, 0xFFFF)) for _ in range(3)]
        noise = chance.randbytes(chance.choice((0, 2, 20, 300)))
        peer.send(out[:36] + struct.pack(">BBHHH4x", event, chance.randrange(256), *times), noise)
        return False

    instead(target, 0.1, lie)


def rejects(target: HostileMember) -> None:
    def lie(peer: Connection, header: bytes) -> bool:
        chance = target.chance
        rejected = chance.choice((header, header[:16], b"", bytes([DATA_OUT]) + header[1:], chance.randbytes(48)))
        peer.reject(reason=chance.randrange(16), rejected=rejected)
        return True

    instead(target, 1.0, lie)


# Time


class Wire:
    """In the place of a connection's socket: does something else with what is sent."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.peer, name)


class Dripping(Wire):
    def __init__(self, peer: socket.socket, seconds: float, ending: threading.Event) -> None:
        super().__init__(peer)
        self.seconds, self.ending = seconds, ending

    def sendall(self, out: bytes) -> None:
        for at in range(len(out)):
            self.peer.sendall(out[at : at + 1])
            if self.ending.wait(self.seconds):
                raise EOFError


class Broken(Wire):
    """Sends a part; then FIN, or RST.  What the other side still says is heard to its end."""

    def __init__(self, peer: socket.socket, chance: random.Random) -> None:
        super().__init__(peer)
        self.chance = chance

    def sendall(self, out: bytes) -> None:
        self.peer.sendall(out[: self.chance.randrange(len(out))])
        if self.chance.random() < 0.3:
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise EOFError
        self.peer.shutdown(socket.SHUT_WR)
        while self.peer.recv(65536):
            pass
        raise EOFError


def rewired(target: HostileMember, wire: Callable[[socket.socket], Any]) -> None:
    """Each session from its login on, or from some command on."""
    left: dict[Connection, int] = {}

    def on_pdu(peer: Connection, header: bytes, data: bytes) -> bool:
        left.setdefault(peer, target.chance.choice((0, 0, 1, 2, 5, 12, 30)))
        left[peer] -= 1
        if left[peer] == -1:
            target.told += 1
            peer.peer = wire(peer.peer)
        return header[0] & 0x3F == DATA_OUT

    target.on_pdu = on_pdu


def drips(target: HostileMember) -> None:
    rewired(target, lambda peer: Dripping(peer, target.chance.choice((0.01, 0.1, 1.0, 1.0)), target.ending))


def half_ends(target: HostileMember) -> None:
    rewired(target, lambda peer: Broken(peer, target.chance))


def silence(target: HostileMember) -> None:
    """From the login on, behind it, or behind some commands; the connection stays."""
    left: dict[Connection, int] = {}

    def on_pdu(peer: Connection, header: bytes, data: bytes) -> bool:
        left.setdefault(peer, target.chance.choice((0, 1, 2, 3, 9, 30)))
        left[peer] -= 1
        target.told += left[peer] == -1
        return left[peer] < 0

    target.on_pdu = on_pdu


def hang_ups(target: HostileMember) -> None:
    """Each session ends at its login, just behind it, or when the member may be in use again: that ends its grace."""
    left: dict[Connection, int] = {}

    def on_pdu(peer: Connection, header: bytes, data: bytes) -> bool:
        left.setdefault(peer, target.chance.choice((0, 2, 9, 40, 40, 60)))
        left[peer] -= 1
        if left[peer] >= 0:
            return False
        del left[peer]
        target.told += 1
        raise EOFError

    target.on_pdu = on_pdu


KINDS: dict[str, Callable[[HostileMember], None]] = {
    "size, block size": sizes,
    "vendor, serial number, designators": names,
    "superblock": superblocks,
    "sense data, statuses": senses,
    "residuals": residuals,
    "Data-In in wrong places": torn_data,
    "R2T": r2ts,
    "NOP-In floods": pings,
    "asynchronous messages": messages,
    "Reject of everything": rejects,
    "a byte at a time": drips,
    "silence": silence,
    "FIN or RST in a PDU": half_ends,
    "hanging up": hang_ups,
}
