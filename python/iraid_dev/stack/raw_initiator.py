"""An iSCSI initiator that says what no driver says: commands at any depth, with parameter lists that lie, aborted and
reset at any moment.  One session with one connection, without digests and without CHAP (RFC 7143).

    with RawInitiator("127.0.0.1:3260", iqn, initiator_name) as session:
        session.ask(bytes.fromhex("120000006000"), read_bytes=96).data
"""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass
from types import TracebackType

ANSWER_SECONDS = 15.0  # then Linux aborts, and later resets
ABORT_TASK, LUN_RESET = 1, 5
TASK_DOES_NOT_EXIST, FUNCTION_COMPLETE = 1, 0
_IMMEDIATE_BYTES = 8192
_NO_TAG = 0xFFFFFFFF
_KEYS = (
    "HeaderDigest=None", "DataDigest=None", "InitialR2T=No", "ImmediateData=Yes", "MaxBurstLength=262144",
    "FirstBurstLength=8192", "DefaultTime2Wait=2", "DefaultTime2Retain=0", "MaxOutstandingR2T=1",
    "ErrorRecoveryLevel=0", "MaxConnections=1", "MaxRecvDataSegmentLength=262144", "DataPDUInOrder=Yes",
    "DataSequenceInOrder=Yes",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """To a command, or with is_management to an ABORT TASK or LOGICAL UNIT RESET: then `response` counts."""

    tag: int
    status: int = 0
    response: int = 0
    data: bytes = b""
    sense: bytes = b""
    is_management: bool = False

    @property
    def sense_key(self) -> int:
        return self.sense[4] & 15 if len(self.sense) > 4 else 0  # behind two bytes of length


@dataclass
class _Task:
    cdb: bytes
    cmd_sn: int
    data: bytes
    read: bytearray


class RawInitiator:
    """Raises OSError when the target closes the connection, TimeoutError when it is silent for `seconds`."""

    def __init__(
        self, portal: str, iqn: str, name: str, seconds: float = ANSWER_SECONDS, source: str | None = None
    ) -> None:
        """source: the address that it comes from."""
        host, _, port = portal.rpartition(":")
        self._seconds = seconds
        self._socket = socket.create_connection((host.strip("[]"), int(port)), seconds, (source, 0) if source else None)
        self._names = [f"InitiatorName={name}", f"TargetName={iqn}", "SessionType=Normal"]
        self._isid = b"\x80" + os.urandom(5)  # a random one: no other session's
        self._tag = 0
        self._cmd_sn, self._stat_sn, self._max_cmd_sn = 1, 0, 1
        self.tasks: dict[int, _Task] = {}  # not answered yet

    def __enter__(self) -> RawInitiator:
        try:
            self._log_in()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._socket.close()

    # --- PDUs ---

    def _send(self, header: bytearray, data: bytes = b"") -> None:
        header[5:8] = len(data).to_bytes(3, "big")
        self._socket.sendall(bytes(header) + data + bytes(-len(data) % 4))

    def _exactly(self, length: int) -> bytes:
        got = b""
        while len(got) < length:
            piece = self._socket.recv(length - len(got))
            if not piece:
                raise ConnectionResetError("the target closed the connection")
            got += piece
        return got

    def _receive(self) -> tuple[bytes, bytes]:
        header = self._exactly(48)
        length = int.from_bytes(header[5:8], "big")
        data = self._exactly(header[4] * 4 + length + -length % 4)[header[4] * 4 :][:length]
        self._max_cmd_sn = struct.unpack_from(">I", header, 32)[0]
        if self._takes_a_status_number(header):
            self._stat_sn = struct.unpack_from(">I", header, 24)[0] + 1
        return header, data

    @staticmethod
    def _takes_a_status_number(header: bytes) -> bool:
        """Not an R2T, not Data-In without status, and not a ping that the target begins."""
        opcode = header[0] & 63
        if opcode == 0x25:
            return bool(header[1] & 1)
        return opcode != 0x31 and not (opcode == 0x20 and header[16:20] == b"\xff\xff\xff\xff")

    def _header(self, opcode: int, flags: int, tag: int) -> bytearray:
        header = bytearray(48)
        header[0], header[1] = opcode, flags
        struct.pack_into(">I", header, 16, tag)
        struct.pack_into(">II", header, 24, self._cmd_sn & 0xFFFFFFFF, self._stat_sn & 0xFFFFFFFF)
        return header

    def _log_in(self) -> None:
        texts = [*self._names, *_KEYS]
        while True:
            header = self._header(0x43, 0x87, 0)  # operational stage, on to full feature
            header[8:14] = self._isid
            self._send(header, "".join(f"{text}\0" for text in texts).encode())
            answer, _ = self._receive()
            if answer[0] & 63 != 0x23 or answer[36:38] != b"\0\0":
                raise ConnectionRefusedError(f"log-in refused: status {answer[36:38].hex()}")
            if answer[1] & 0x83 == 0x83:
                return
            texts = []

    # --- commands ---

    def _next_tag(self) -> int:
        self._tag = (self._tag + 1) % 0xFFFFFF00
        return self._tag

    @property
    def room(self) -> bool:
        """The target's window takes another command."""
        return (self._max_cmd_sn - self._cmd_sn) & 0xFFFFFFFF < 1 << 31

    def send(self, cdb: bytes, data: bytes = b"", read_bytes: int = 0, lun: int = 0) -> int:
        """Without waiting for anything; its tag.  data: sent with the command or as the target asks for it."""
        tag = self._next_tag()
        header = self._header(0x01, 0x80 | (0x20 if data else 0) | (0x40 if read_bytes and not data else 0) | 1, tag)
        header[8:16] = bytes([0, lun]) + bytes(6)
        struct.pack_into(">I", header, 20, len(data) or read_bytes)
        header[32:48] = cdb[:16].ljust(16, b"\0")
        self.tasks[tag] = _Task(cdb, self._cmd_sn, data, bytearray(read_bytes))
        self._send(header, data[:_IMMEDIATE_BYTES])
        self._cmd_sn = (self._cmd_sn + 1) & 0xFFFFFFFF
        return tag

    def manage(self, function: int, task: int = _NO_TAG, lun: int = 0) -> int:
        """ABORT_TASK of a tag, or LUN_RESET, as an immediate command; its tag."""
        tag = self._next_tag()
        header = self._header(0x42, 0x80 | function, tag)
        header[8:16] = bytes([0, lun]) + bytes(6)
        struct.pack_into(">I", header, 20, task)
        if task in self.tasks:
            struct.pack_into(">I", header, 32, self.tasks[task].cmd_sn)
        self._send(header)
        return tag

    def _answer_r2t(self, header: bytes) -> None:
        tag, target_tag = struct.unpack_from(">II", header, 16)
        offset, wanted = struct.unpack_from(">II", header, 40)
        task = self.tasks.get(tag)
        data = task.data[offset : offset + wanted] if task else bytes(wanted)  # it was aborted meanwhile
        for number, at in enumerate(range(0, wanted, _IMMEDIATE_BYTES)):
            part = data[at : at + _IMMEDIATE_BYTES]
            out = self._header(0x05, 0x80 if at + len(part) == wanted else 0, tag)
            struct.pack_into(">I", out, 20, target_tag)
            struct.pack_into(">I", out, 24, 0)
            struct.pack_into(">II", out, 36, number, offset + at)
            self._send(out, part)

    def _answer_ping(self, header: bytes) -> None:
        target_tag = struct.unpack_from(">I", header, 20)[0]
        if target_tag == _NO_TAG:
            return
        out = self._header(0x40, 0x80, _NO_TAG)
        out[8:16] = header[8:16]
        struct.pack_into(">I", out, 20, target_tag)
        self._send(out)

    def _take_data(self, header: bytes, data: bytes) -> None:
        task = self.tasks.get(struct.unpack_from(">I", header, 16)[0])
        offset = struct.unpack_from(">I", header, 40)[0]
        if task is not None:
            task.read[offset : offset + len(data)] = data

    def receive(self) -> Answer:
        """The next answer.  R2Ts and pings on the way there are served."""
        end = time.monotonic() + self._seconds
        while True:
            if time.monotonic() > end:
                raise TimeoutError(f"nothing but pings for {self._seconds:.0f} s")
            header, data = self._receive()
            opcode, tag = header[0] & 63, struct.unpack_from(">I", header, 16)[0]
            if opcode == 0x31:
                self._answer_r2t(header)
            elif opcode == 0x20:
                self._answer_ping(header)
            elif opcode == 0x22:
                return Answer(tag, response=header[2], is_management=True)
            elif opcode in (0x21, 0x25):
                if opcode == 0x25:
                    self._take_data(header, data)
                    if not header[1] & 1:
                        continue
                task = self.tasks.pop(tag, None)
                read = bytes(task.read) if task else b""
                return Answer(tag, header[3], header[2], read, data if opcode == 0x21 else b"")
            else:
                raise ConnectionAbortedError(f"the target says {header.hex()}")

    def ask(self, cdb: bytes, data: bytes = b"", read_bytes: int = 0, lun: int = 0) -> Answer:
        """One command, and its answer."""
        tag = self.send(cdb, data, read_bytes, lun)
        while (answer := self.receive()).tag != tag or answer.is_management:
            pass
        return answer
