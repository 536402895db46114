"""An iSCSI target that misbehaves on request: for what a real one can't be made to say.

    with FakeTarget() as target:
        target.rules.append(lambda command: BUSY if command.is_write else None)
        target.member        # "127.0.0.1:PORT/iqn.../0"
        target.commands      # what was asked, in order

A rule sees each SCSI command before the built-in disk (in memory, 512-byte blocks) does, and answers with
a Reply, or None to leave it to the next rule.  Just enough of RFC 7143 for an initiator, digests included;
one thread for each connection.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Sequence

from iraid_dev.stack.checksum import crc32c

BLOCK_BYTES = 512
GOOD_STATUS, CHECK_CONDITION, BUSY_STATUS, CONFLICT, TASK_SET_FULL = 0x00, 0x02, 0x08, 0x18, 0x28
FINAL, STATUS = 0x80, 0x01
OVERFLOW, UNDERFLOW = 0x04, 0x02
NO_TAG = 0xFFFFFFFF
NOP_OUT, DATA_OUT = 0x00, 0x05
REGISTER, RESERVE, RELEASE, PREEMPT, PREEMPT_AND_ABORT, REGISTER_AND_IGNORE = 0, 1, 2, 4, 5, 6  # PERSISTENT RESERVE OUT
READ_KEYS, READ_RESERVATION, READ_FULL_STATUS = 0, 1, 3  # PERSISTENT RESERVE IN


def digest(data: bytes) -> bytes:
    """As it goes over the wire."""
    return struct.pack("<I", crc32c(data))


@dataclasses.dataclass(frozen=True)
class Reply:
    """What the target answers; data only for commands that read."""

    status: int = GOOD_STATUS
    data: bytes = b""
    sense: bytes = b""
    response: int = 0  # iSCSI response code: not 0 means that there is no SCSI status
    silent: bool = False  # no answer at all
    chunk_bytes: int = 65536  # of Data-In
    pause_seconds: float = 0.0  # before each chunk
    go_on: threading.Event | None = None  # waited for in the middle of the data, in the middle of a PDU
    # How Data-In is wrong
    skipped_sequence: int = 0  # this many DataSN before the last chunk
    tag_flip: int = 0  # on the last chunk
    extra: bytes = b""  # more than was asked for
    wrong_data_digest: bool = False  # of the first one
    wrong_header_digest: bool = False
    rejected: int | None = None  # opcode of what had a wrong data digest: a Reject goes before the answer
    cut_off_bytes: int | None = None  # of the answer, then the connection ends
    residual: tuple[int, int] | None = None  # flags (OVERFLOW, UNDERFLOW) and bytes, whatever is true
    status_apart: bool = False  # in a PDU of its own, not in the last Data-In
    then: Reply | None = None  # the status, apart, that comes behind the data
    places: tuple[tuple[int, int], ...] = ()  # offset and length of each Data-In, instead of chunks
    sense_length: int | None = None  # that is claimed, whatever comes


def sense(key: int, code: int, *, response_code: int = 0x70) -> Reply:
    """CHECK CONDITION with fixed-format sense data; code is ASC << 8 | ASCQ."""
    data = bytes([response_code, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code >> 8, code & 0xFF, 0, 0, 0, 0])
    return Reply(status=CHECK_CONDITION, sense=data)


def sense_segment(reply: Reply) -> bytes:
    """The data of a response: how much sense data there is, and that."""
    if not reply.sense and reply.sense_length is None:
        return b""
    length = len(reply.sense) if reply.sense_length is None else reply.sense_length
    return struct.pack(">H", length) + reply.sense


BUSY = Reply(status=BUSY_STATUS)
QUEUE_FULL = Reply(status=TASK_SET_FULL)
RESERVED = Reply(status=CONFLICT)
SILENCE = Reply(silent=True)
ILLEGAL = sense(5, 0x2000)
NOT_READY = sense(2, 0x0401)


@dataclasses.dataclass
class Command:
    cdb: bytes
    data: bytes  # that came with it
    expected_bytes: int

    @property
    def opcode(self) -> int:
        return self.cdb[0]

    @property
    def is_read(self) -> bool:
        return self.opcode in (0x28, 0x88)

    @property
    def is_write(self) -> bool:
        return self.opcode in (0x2A, 0x8A)

    @property
    def is_capacity(self) -> bool:
        return self.opcode == 0x25 or (self.opcode == 0x9E and self.cdb[1] == 0x10)

    @property
    def is_sync(self) -> bool:
        return self.opcode in (0x35, 0x91)

    @property
    def offset(self) -> int:
        form, at = (">Q", 2) if self.opcode >= 0x80 else (">I", 2)
        return struct.unpack_from(form, self.cdb, at)[0] * BLOCK_BYTES


@dataclasses.dataclass(frozen=True)
class LoginAnswer:
    """flags: TRANSIT, the stage and the next one, as in the PDU's second byte."""

    flags: int
    keys: dict[str, str]
    status: int


Rule = Callable[[Command], Reply | None]

ONLY_WHAT_IS_ASKED_FOR = {"ImmediateData": "No", "InitialR2T": "Yes"}  # keys: no data of a write goes before an R2T


def to_reads(reply: Reply) -> Rule:
    return lambda command: reply if command.is_read else None


def after(seconds: float, reply: Reply) -> Rule:
    """To everything, each time after so long."""
    return lambda command: threading.Event().wait(seconds) or reply


class Reservations:
    """A rule: who wants one gets it.  It outlives sessions, and tells of `others` who are registered."""

    def __init__(self, *others: int) -> None:
        self.holder, self.kind = bytes(8), 0
        self.own = bytes(8)  # the key that was registered last
        self.others = list(others)
        self.ports: dict[int, str] = {}  # initiator ports by key, for READ FULL STATUS
        self.relative_ports: dict[str, int] = {}  # of the target, by initiator port
        self.preempted: list[int] = []

    def __call__(self, command: Command) -> Reply | None:
        if command.opcode == 0x5E:
            answers = {READ_KEYS: self.keys, READ_RESERVATION: self.reservation, READ_FULL_STATUS: self.full_status}
            return Reply(data=answers[command.cdb[1] & 0x1F]())
        if command.opcode == 0x5F:
            self._change(command)
            return Reply()
        return None

    def reservation(self) -> bytes:
        held = self.holder + bytes([0, 0, 0, 0, 0, self.kind, 0, 0]) if any(self.holder) else b""
        return bytes(4) + len(held).to_bytes(4, "big") + held

    def full_status(self) -> bytes:
        """Of all who are registered, as far as `ports` has a transport id of them, each by relative port 1."""
        out = b""
        for key in (self.own, *(other.to_bytes(8, "big") for other in self.others)):
            if text := self.ports.get(int.from_bytes(key, "big")):
                name = text.encode() + bytes(4 - len(text) % 4)
                identity = bytes([0x45, 0]) + len(name).to_bytes(2, "big") + name
                out += key + bytes(10) + self.relative_ports.get(text, 1).to_bytes(2, "big")
                out += len(identity).to_bytes(4, "big") + identity
        return bytes(4) + len(out).to_bytes(4, "big") + out

    def keys(self) -> bytes:
        listed = b"".join(key for key in (self.own, *(other.to_bytes(8, "big") for other in self.others)) if any(key))
        return bytes(4) + len(listed).to_bytes(4, "big") + listed

    def _change(self, command: Command) -> None:
        action, own, other = command.cdb[1] & 0x1F, command.data[:8], command.data[8:16]
        if action in (REGISTER, REGISTER_AND_IGNORE):
            self.own = other
        if action in (RESERVE, PREEMPT, PREEMPT_AND_ABORT) and (action == RESERVE or self.holder in (other, bytes(8))):
            self.holder, self.kind = own, command.cdb[2] & 15
        if action == RELEASE:
            self.holder = bytes(8)
        if action in (PREEMPT, PREEMPT_AND_ABORT):
            self.preempted.append(int.from_bytes(other, "big"))
            self.others = [key for key in self.others if key != self.preempted[-1]]


def vendor(name: bytes) -> Callable[[Command], Reply | None]:
    """A rule: INQUIRY tells this vendor, of eight characters."""
    inquiry = Reply(data=bytes([0, 0, 6, 2, 31, 0, 0, 2]) + name + b"FAKE            0001")
    return lambda command: inquiry if command.cdb[:2] == b"\x12\0" else None


class FakeTarget:
    iqn = "iqn.2026-01.org.iraid.test:fake"

    def __init__(
        self,
        *,
        size_bytes: int = 1 << 20,
        fua: bool = True,
        write_cache: bool = True,
        transfer_blocks_max: int = 0,
        reset_response: int = 0,
        keys: dict[str, str] | None = None,
        redirect: str | None = None,
        r2t_bytes: Sequence[int] = (),
        r2ts_at_once: int = 1,
        ping_in_writes: bool = False,
        asks_for_data: bool = True,
        login_pause_seconds: float = 0.0,
        login_answer: bytes | None = None,
        login_postscript: Callable[[int], bytes] = lambda tag: b"",
        host: str = "127.0.0.1",
    ) -> None:
        """r2t_bytes: how much each R2T asks for, over and over; none: all at once."""
        self.disk = bytearray(size_bytes)
        self.fua, self.write_cache = fua, write_cache
        self.transfer_blocks_max, self.reset_response = transfer_blocks_max, reset_response
        self.keys = {
            "HeaderDigest": "None", "MaxRecvDataSegmentLength": "65536", "FirstBurstLength": "65536",
        } | (keys or {})  # fmt: skip
        self.redirect = redirect
        self.r2t_bytes, self.r2ts_at_once = r2t_bytes, r2ts_at_once
        self.ping_in_writes = ping_in_writes
        self.asks_for_data = asks_for_data  # else a write is answered with what came by itself
        self.login_answer = login_answer  # instead of a sensible one, then the connection ends
        self.login_pause_seconds = login_pause_seconds  # between a few bytes and the next
        self.login_instead = False  # there is nothing but:
        self.login_postscript = login_postscript  # goes behind each answer, in the same packet
        self.window: int | None = 64  # commands beyond the last one; None: MaxCmdSN stays what it was
        self.r2t_pause_seconds = 0.0  # before each R2T
        self.pings_sent, self.pings_answered = 0, 0
        self.r2ts_sent, self.data_outs = 0, 0
        self.reading = threading.Event()  # cleared: what comes in stays in the sockets' buffers
        self.reading.set()
        self.rules: list[Rule] = []
        self.on_reset: Callable[[], None] = lambda: None  # before LOGICAL UNIT RESET is answered
        self.on_login: Callable[[Connection, int, dict[str, str]], LoginAnswer] | None = None  # else no CHAP is wanted
        self.on_text: Callable[[Connection, int, bytes], None] = Connection.list_targets
        # Sees each PDU (header, data) before anybody else; says whether it has dealt with it
        self.on_pdu: Callable[[Connection, bytes, bytes], bool] | None = None
        # sends what is sent instead of each answer to a login: its tag, the answer
        self.say_login: Callable[[Connection, int, bytes], None] | None = None
        self.commands: list[Command] = []
        self.isids: list[bytes] = []
        self.connections: list[Connection] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)

    @property
    def portal(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def member(self) -> str:
        return f"{self.portal}/{self.iqn}/0"

    def resize(self, size_bytes: int) -> None:
        """As if the LUN had been made larger or smaller; nobody is told."""
        size_now = len(self.disk)
        if size_bytes < size_now:
            del self.disk[size_bytes:]
        else:
            self.disk += bytes(size_bytes - size_now)

    def data_commands(self) -> list[Command]:
        return [command for command in self.commands if command.is_read or command.is_write]

    def __enter__(self) -> FakeTarget:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            connection = Connection(self, peer)
            self.connections.append(connection)
            threading.Thread(target=connection.serve, daemon=True).start()

    def answer(self, command: Command) -> Reply:
        self.commands.append(command)
        for rule in self.rules:
            reply = rule(command)
            if reply is not None:
                return reply
        return self._disk_answer(command)

    def _disk_answer(self, command: Command) -> Reply:
        opcode, cdb = command.opcode, command.cdb
        blocks = len(self.disk) // BLOCK_BYTES
        if opcode == 0x00 or command.is_sync:
            return Reply()
        if opcode == 0x12 and cdb[1] & 1 == 0:
            return Reply(data=bytes([0, 0, 6, 2, 31, 0, 0, 2]) + b"IRAID   FAKE            0001")
        if opcode == 0x12 and cdb[2] == 0xB0:
            return Reply(data=struct.pack(">BBHHHII", 0, 0xB0, 12, 0, 0, self.transfer_blocks_max, 0))
        if opcode == 0x9E:
            return Reply(data=struct.pack(">QI20x", blocks - 1, BLOCK_BYTES))
        if opcode == 0x25:
            return Reply(data=struct.pack(">II", blocks - 1, BLOCK_BYTES))
        if opcode == 0xA0:  # REPORT LUNS: one, number 0
            return Reply(data=struct.pack(">I4x8x", 8))
        if opcode == 0x1A:
            page = bytes([0x08, 0x12, 4 if self.write_cache else 0]) + bytes(17)
            return Reply(data=bytes([23, 0, 0x10 if self.fua else 0, 0]) + page)
        if command.is_read:
            return Reply(data=bytes(self.disk[command.offset : command.offset + command.expected_bytes]))
        if command.is_write:
            self.disk[command.offset : command.offset + len(command.data)] = command.data
            return Reply()
        return ILLEGAL


class Connection:
    def __init__(self, target: FakeTarget, peer: socket.socket) -> None:
        self.target, self.peer = target, peer
        self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn = 1, 0, 0
        self.last_tag = NO_TAG  # of a command
        self.lock = threading.Lock()  # one PDU at a time
        self.header_digest = self.data_digest = False  # in force from the end of the login
        self.backlog: collections.deque[tuple[bytes, bytes]] = collections.deque()

    def close(self) -> None:
        try:
            self.peer.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.peer.close()

    def serve(self) -> None:
        handlers = {
            0x00: self._nop, 0x01: self._scsi, 0x02: self._management, 0x03: self._login, 0x04: self._text,
            0x06: self._logout,
        }  # fmt: skip
        try:
            while True:
                header, data = self.backlog.popleft() if self.backlog else self._receive()
                if self.target.on_pdu is None or not self.target.on_pdu(self, header, data):
                    handlers[header[0] & 0x3F](header, data)
        except (OSError, EOFError, KeyError):
            self.close()
        except AssertionError:
            self.close()
            raise

    def encode(self, header: bytes, data: bytes = b"", reply: Reply | None = None) -> bytes:
        """header: 48 bytes whose length field is filled in here."""
        header = header[:4] + struct.pack(">I", len(data)) + header[8:]
        out = header
        if self.header_digest:
            out += digest(header)
        if reply is not None and reply.wrong_header_digest:
            out = out[:-1] + bytes([out[-1] ^ 1])
        padded = data + bytes(-len(data) % 4)
        out += padded
        if self.data_digest and data:
            right = digest(padded)
            out += bytes([right[0] ^ 1]) + right[1:] if reply and reply.wrong_data_digest else right
        return out

    def send(self, header: bytes, data: bytes = b"") -> None:
        with self.lock:
            self.peer.sendall(self.encode(header, data))

    def drip(self, opcode: int, tag: int, length: int, step_bytes: int, pause_seconds: float) -> None:
        """A PDU of which data comes step by step, until the other side has had enough."""
        pause = threading.Event()
        out = self.encode(self._header(opcode, FINAL, tag), bytes(length))
        with self.lock:
            try:
                self.peer.sendall(out[:48])
                for at in range(48, len(out), step_bytes):
                    self.peer.sendall(out[at : at + step_bytes])
                    pause.wait(pause_seconds)
            except OSError:
                pass

    def last_words(self, *parts: bytes) -> None:
        """These bytes and nothing behind them; what the other side still says is heard to its end."""
        for part in parts:
            self.peer.sendall(part)
        self.peer.shutdown(socket.SHUT_WR)
        while self.peer.recv(65536):
            pass
        raise EOFError

    def ping(self) -> None:
        self.target.pings_sent += 1
        header = self._header(0x20, FINAL, NO_TAG)
        self.send(header[:20] + struct.pack(">I", self.target.pings_sent) + header[24:])

    def reject(self, *, reason: int = 4, rejected: bytes = bytes(48)) -> None:
        self.send(self._header(0x3F, FINAL, NO_TAG, byte2=reason), rejected)
        self.stat_sn += 1

    def ask_for_logout(self) -> None:
        """Asynchronous message, event 1."""
        header = self._header(0x32, FINAL, tag=NO_TAG)
        self.send(header[:36] + struct.pack(">BBHHH4x", 1, 0, 0, 0, 1))

    # What comes in

    def _exactly(self, length: int) -> bytes:
        got = bytearray()
        while len(got) < length:
            self.target.reading.wait()
            part = self.peer.recv(length - len(got))
            if not part:
                raise EOFError
            got += part
        return bytes(got)

    def _receive(self) -> tuple[bytes, bytes]:
        header = self._exactly(48)
        if self.header_digest:
            assert self._exactly(4) == digest(header)
        length = int.from_bytes(header[5:8], "big")
        padded = self._exactly(length + -length % 4)
        data = padded[:length]
        if self.data_digest and length:
            assert self._exactly(4) == digest(padded)
        immediate = header[0] & 0x40
        if header[0] & 0x3F != 0x05:
            command_sn = struct.unpack_from(">I", header, 24)[0]
            self.exp_cmd_sn = command_sn if immediate else (command_sn + 1) & 0xFFFFFFFF
        return header, data

    def _header(self, opcode: int, flags: int, tag: int, *, byte2: int = 0, byte3: int = 0) -> bytes:
        if self.target.window is not None:
            self.max_cmd_sn = (self.exp_cmd_sn + self.target.window - 1) & 0xFFFFFFFF
        numbers = (self.stat_sn & 0xFFFFFFFF, self.exp_cmd_sn, self.max_cmd_sn)
        return (
            struct.pack(">BBBB4x8xII", opcode, flags, byte2, byte3, tag, NO_TAG)
            + struct.pack(">III", *numbers)
            + bytes(12)
        )

    def _respond(self, *arguments: object, data: bytes = b"", **options: int) -> None:
        self.send(self._header(*arguments, **options), data)  # type: ignore[arg-type]
        self.stat_sn += 1

    def _login(self, header: bytes, data: bytes) -> None:
        target = self.target
        target.isids.append(header[8:14])
        if target.login_answer is not None:
            self.peer.sendall(target.login_answer)
            raise EOFError
        tag = struct.unpack_from(">I", header, 16)[0]
        flags, keys, status = header[1] & 0x8F, dict(target.keys), 0
        if target.redirect:
            keys, status = {"TargetAddress": f"{target.redirect},1"}, 0x0101
        elif target.on_login:
            asked = dict(one.decode().split("=", 1) for one in data.split(b"\0") if one)
            answered = target.on_login(self, flags, asked)
            flags, keys, status = answered.flags, answered.keys, answered.status
        text = b"".join(f"{key}={value}".encode() + b"\0" for key, value in keys.items())
        answer = self._header(0x23, flags, tag)
        self.stat_sn += 1
        out = self.encode(answer[:8] + header[8:14] + b"\0\1" + answer[16:36] + struct.pack(">H10x", status), text)
        if target.say_login is not None:
            target.say_login(self, tag, out)
            out = b""
        if target.login_instead:
            out = b""
        out += target.login_postscript(tag)
        step = 7 if target.login_pause_seconds else len(out)
        for at in range(0, len(out), step or 1):
            threading.Event().wait(target.login_pause_seconds)
            self.peer.sendall(out[at : at + step])
        if flags & 0x83 == 0x83:  # on to the full-feature phase
            self.header_digest = keys.get("HeaderDigest") == "CRC32C"
            self.data_digest = keys.get("DataDigest") == "CRC32C"

    def _logout(self, header: bytes, _: bytes) -> None:
        self._respond(0x26, FINAL, struct.unpack_from(">I", header, 16)[0])

    def _text(self, header: bytes, data: bytes) -> None:
        self.target.on_text(self, struct.unpack_from(">I", header, 16)[0], data)

    def list_targets(self, tag: int, _: bytes) -> None:
        self.text(tag, f"TargetName={self.target.iqn}\0TargetAddress={self.target.portal},1\0".encode())

    def text(self, tag: int, text: bytes, *, flags: int = FINAL, target_tag: int = NO_TAG) -> None:
        header = self._header(0x24, flags, tag)
        self.send(header[:20] + struct.pack(">I", target_tag) + header[24:], text)
        self.stat_sn += 1

    def ask_for_data(self, tag: int, length: int) -> None:
        header = self._header(0x31, FINAL, tag)
        self.send(header[:20] + struct.pack(">I", 1) + header[24:36] + struct.pack(">III", 0, 0, length))

    def _nop(self, header: bytes, _: bytes) -> None:
        tag = struct.unpack_from(">I", header, 16)[0]
        if tag != NO_TAG:
            self._respond(0x20, FINAL, tag)
        else:
            assert header[0] & 0x40  # immediate: it takes no command number
            self.target.pings_answered += 1

    def _management(self, header: bytes, _: bytes) -> None:
        tag = struct.unpack_from(">I", header, 16)[0]
        self.target.on_reset()
        self._respond(0x22, FINAL, tag, byte2=self.target.reset_response)

    def _scsi(self, header: bytes, data: bytes) -> None:
        tag, expected = struct.unpack_from(">II", header, 16)
        self.last_tag = tag
        if header[1] & 0x20:
            data = self._all_of_write(tag, expected, data, unsolicited=not header[1] & FINAL)
        command = Command(header[32:48], data, expected)
        reply = self.target.answer(command)
        if reply.rejected is not None:
            self.reject(reason=2, rejected=bytes([reply.rejected]) + header[1:])
        if reply.silent:
            return
        if header[1] & 0x40 and reply.status == GOOD_STATUS and reply.response == 0:
            self._data_in(tag, reply, expected)
            return
        if reply.cut_off_bytes is not None:
            raise EOFError
        self._status(tag, reply, 0, sense_segment(reply))

    def _status(self, tag: int, reply: Reply, missing: int, data: bytes = b"") -> None:
        flags, residual = reply.residual or (UNDERFLOW if missing else 0, missing)
        header = self._header(0x21, FINAL | flags, tag, byte2=reply.response, byte3=reply.status)
        with self.lock:
            self.peer.sendall(self.encode(header[:44] + struct.pack(">I", residual), data, reply if data else None))
        self.stat_sn += 1

    def _data_out(self, tag: int) -> tuple[bytes, bytes]:
        """The next Data-Out of this command; what else comes waits, but for answers to pings."""
        while True:
            header, data = self._receive()
            opcode = header[0] & 0x3F
            if opcode == NOP_OUT:
                self._nop(header, data)
            elif opcode == DATA_OUT and struct.unpack_from(">I", header, 16)[0] == tag:
                self.target.data_outs += 1
                assert len(data) <= int(self.target.keys["MaxRecvDataSegmentLength"])
                return header, data
            else:
                self.backlog.append((header, data))

    def _burst(self, tag: int, target_tag: int, at: int, data: bytearray) -> int:
        """Data-Out up to the final one; returns where it ended."""
        for number in itertools.count():
            header, part = self._data_out(tag)
            assert struct.unpack_from(">I", header, 20)[0] == target_tag
            assert struct.unpack_from(">II", header, 36) == (number, at)
            data[at : at + len(part)] = part
            at += len(part)
            if header[1] & FINAL:
                return at
        raise AssertionError

    def _all_of_write(self, tag: int, expected: int, first: bytes, *, unsolicited: bool) -> bytes:
        data = bytearray(expected)
        data[: len(first)] = first
        at = len(first)
        if unsolicited:
            at = self._burst(tag, NO_TAG, at, data)
            assert at <= int(self.target.keys["FirstBurstLength"])
        if not self.target.asks_for_data:
            return bytes(data[:at])
        wanted = itertools.cycle(self.target.r2t_bytes or (expected,))
        number = 0
        while at < expected:
            bursts = []
            asked = at
            while asked < expected and len(bursts) < self.target.r2ts_at_once:
                length = min(next(wanted), expected - asked)
                threading.Event().wait(self.target.r2t_pause_seconds)
                ready = self._header(0x31, FINAL, tag)
                place = struct.pack(">III", number, asked, length)
                self.send(ready[:20] + struct.pack(">I", number + 1) + ready[24:36] + place)
                bursts.append((number + 1, length))
                asked += length
                number += 1
                self.target.r2ts_sent += 1
            if self.target.ping_in_writes:
                self.ping()
            for target_tag, length in bursts:
                assert self._burst(tag, target_tag, at, data) == at + length
                at += length
        return bytes(data)

    def _data_in(self, tag: int, reply: Reply, expected: int) -> None:
        pause = threading.Event()
        data = reply.data[:expected] + reply.extra
        step = reply.chunk_bytes
        places = reply.places or [(at, min(step, len(data) - at)) for at in range(0, len(data) or 1, step)]
        missing = max(0, expected - sum(length for _, length in places))
        for number, (at, length) in enumerate(places):
            pause.wait(reply.pause_seconds)
            last = number + 1 == len(places)
            flags = residual = 0
            if last and not reply.status_apart:
                flags, residual = reply.residual or (UNDERFLOW if missing else 0, missing)
                flags |= STATUS
            header = self._header(0x25, flags | (FINAL if last else 0), tag ^ (reply.tag_flip if last else 0))
            sequence = number + (reply.skipped_sequence if last else 0)
            place = struct.pack(">III", sequence, at, residual)
            marked = reply if number == 0 or not reply.wrong_data_digest else None
            out = self.encode(header[:36] + place, data[at : at + length], marked)
            if reply.cut_off_bytes is not None:
                self.peer.sendall(out[: reply.cut_off_bytes])
                raise EOFError
            if reply.go_on and last:
                half = len(out) // 2
                self.peer.sendall(out[:half])
                reply.go_on.wait()
                out = out[half:]
            self.peer.sendall(out)
        if reply.then is not None:
            self._status(tag, reply.then, missing, sense_segment(reply.then))
        elif reply.status_apart:
            self._status(tag, reply, missing)
        else:
            self.stat_sn += 1
