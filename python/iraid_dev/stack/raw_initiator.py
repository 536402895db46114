"""An iSCSI initiator that sends what stock ones don't: aborts and resets at will, CDBs that lie, logins that stop
half way.  Just enough of RFC 7143 for one connection without digests; one command's data fits in one PDU.

    with RawInitiator("127.0.0.1", 3260, name, target) as session:
        tag = session.command(cdb, data)         # in flight
        abort = session.task(ABORT_TASK, tag)
        answer = session.receive()               # Answer(tag=..., kind=...), whichever comes first
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Self

NOP_OUT, COMMAND, TASK, LOGIN = 0x00, 0x01, 0x02, 0x03
NOP_IN, RESPONSE, TASK_RESPONSE, LOGIN_RESPONSE, DATA_IN, R2T, ASYNC, REJECT = (
    0x20,
    0x21,
    0x22,
    0x23,
    0x25,
    0x31,
    0x32,
    0x3F,
)
ABORT_TASK, LUN_RESET = 1, 5  # functions of TASK
COMPLETE, NO_SUCH_TASK = 0, 1  # responses of TASK_RESPONSE
IMMEDIATE, FINAL, READS, WRITES, SIMPLE = 0x40, 0x80, 0x40, 0x20, 1
HAS_STATUS = 0x01  # of Data-In
NO_TAG = 0xFFFFFFFF
HEADER_BYTES = 48
FIRST_TO_FULL_FEATURE = 0x87  # transit, from operational negotiation
DATA_BYTES_MAX = 65536
TIMEOUT_SECONDS = 60.0


class Lost(Exception):
    """The target ended the session, or said what no target may."""


@dataclass(frozen=True)
class Answer:
    kind: int  # RESPONSE (also by the last Data-In), TASK_RESPONSE, ASYNC or REJECT
    tag: int
    status: int = 0  # SCSI status, or the response of TASK_RESPONSE
    data: bytes = b""  # what was read, or the sense data


class RawInitiator:
    """One session with one connection, logged in; lun: 0 to 255."""

    def __init__(self, address: str, port: int, name: str, target: str, lun: int = 0):
        self.lun = lun
        self._tag = self._sequence = 0
        self._expected = 0
        self._read: dict[int, bytearray] = {}
        self._sequences: dict[int, int] = {}  # by tag, of commands that may be aborted
        self.window = 1  # MaxCmdSN + 1: the first sequence that may not be sent
        self.socket = socket.create_connection((address, port), timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._login(name, target)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _login(self, name: str, target: str) -> None:
        keys = {
            "InitiatorName": name, "TargetName": target, "SessionType": "Normal", "HeaderDigest": "None",
            "DataDigest": "None", "InitialR2T": "No", "ImmediateData": "Yes", "FirstBurstLength": DATA_BYTES_MAX,
            "MaxBurstLength": DATA_BYTES_MAX, "MaxRecvDataSegmentLength": DATA_BYTES_MAX, "ErrorRecoveryLevel": 0,
            "MaxConnections": 1, "MaxOutstandingR2T": 1, "DataPDUInOrder": "Yes", "DataSequenceInOrder": "Yes",
            "DefaultTime2Wait": 2, "DefaultTime2Retain": 0,  # all that a target would else propose itself
        }  # fmt: skip
        text = b"".join(f"{key}={value}\0".encode() for key, value in keys.items())
        for _ in range(8):  # a target may want more rounds
            head = bytearray(HEADER_BYTES)
            head[0], head[1] = LOGIN | IMMEDIATE, FIRST_TO_FULL_FEATURE
            head[8:14] = b"\x80\x00\x00\x00\x00\x01"  # ISID: a random one of a vendor's
            struct.pack_into(">I", head, 24, self._sequence)
            self._send(head, text)
            answer, _ = self._receive_pdu()
            if answer[0] & 0x3F != LOGIN_RESPONSE or answer[36]:
                raise Lost(f"the login was refused: class {answer[36]}, detail {answer[37]}")
            if answer[1] & 0x83 == FIRST_TO_FULL_FEATURE & 0x83:
                return
            text = b""
        raise Lost("the login does not end")

    def command(self, cdb: bytes, data: bytes = b"", reads: int = 0) -> int:
        """Sends it; the tag.  data: at most DATA_BYTES_MAX, all of it immediate; reads: bytes expected."""
        head = self._head(COMMAND)
        head[1] = FINAL | SIMPLE | (WRITES if data else 0) | (READS if reads else 0)
        struct.pack_into(">I", head, 20, len(data) or reads)
        head[32:48] = cdb.ljust(16, b"\0")
        self._sequences[self._tag] = self._sequence
        self._sequence += 1
        self._send(head, data)
        return self._tag

    def ended(self, tag: int) -> None:
        """Nobody will abort it any more."""
        self._sequences.pop(tag, None)
        self._read.pop(tag, None)

    def task(self, function: int, tag: int = NO_TAG) -> int:
        """Sends a task management function, past the window as initiators do; its own tag."""
        head = self._head(TASK)
        head[0] |= IMMEDIATE
        head[1] = FINAL | function
        struct.pack_into(">I", head, 20, tag)
        struct.pack_into(">I", head, 32, self._sequences.get(tag, 0))
        self._send(head)
        return self._tag

    def _head(self, opcode: int) -> bytearray:
        self._tag += 1
        head = bytearray(HEADER_BYTES)
        head[0], head[9] = opcode, self.lun
        struct.pack_into(">III", head, 16, self._tag, 0, self._sequence)
        return head

    @property
    def may_send(self) -> bool:
        return (self.window - self._sequence) & 0xFFFFFFFF < 1 << 31 and self.window != self._sequence

    def _send(self, head: bytearray, data: bytes = b"") -> None:
        head[5:8] = len(data).to_bytes(3, "big")
        struct.pack_into(">I", head, 28, self._expected)
        self.socket.sendall(bytes(head) + data + b"\0" * (-len(data) % 4))

    def receive(self) -> Answer:
        """The next that ends something; pings are answered on the way.  Raises Lost, or TimeoutError."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            if time.monotonic() > end:
                raise TimeoutError(f"only pings for {TIMEOUT_SECONDS:.0f} s")
            head, data = self._receive_pdu()
            opcode, (tag,) = head[0] & 0x3F, struct.unpack_from(">I", head, 16)
            if opcode == DATA_IN:
                offset = struct.unpack_from(">I", head, 40)[0]
                read = self._read.setdefault(tag, bytearray())
                read[offset : offset + len(data)] = data
                if head[1] & HAS_STATUS:
                    return Answer(RESPONSE, tag, head[3], bytes(self._read.pop(tag)))
            elif opcode == RESPONSE:
                return Answer(RESPONSE, tag, head[3], bytes(self._read.pop(tag, b"")) or data)
            elif opcode == NOP_IN:
                self._pong(head, data)
            elif opcode in (TASK_RESPONSE, ASYNC, REJECT):
                return Answer(opcode, tag, head[2], data)
            else:
                raise Lost(f"the target sent a PDU of opcode {opcode:#x}")

    def _pong(self, ping: bytes, data: bytes) -> None:
        if ping[20:24] == b"\xff\xff\xff\xff":
            return
        head = bytearray(HEADER_BYTES)
        head[0], head[1], head[8:16] = NOP_OUT | IMMEDIATE, FINAL, ping[8:16]
        struct.pack_into(">I4sI", head, 16, NO_TAG, ping[20:24], self._sequence)
        self._send(head, data)

    def _receive_pdu(self) -> tuple[bytes, bytes]:
        head = self._exactly(HEADER_BYTES)
        length = int.from_bytes(head[5:8], "big")
        if head[4]:
            raise Lost(f"the target sent {4 * head[4]} bytes of additional header")
        data = self._exactly(length + -length % 4)[:length]
        if self._takes_a_status_number(head):
            self._expected = struct.unpack_from(">I", head, 24)[0] + 1
        self.window = struct.unpack_from(">I", head, 32)[0] + 1
        return head, data

    @staticmethod
    def _takes_a_status_number(head: bytes) -> bool:
        opcode = head[0] & 0x3F
        if opcode == DATA_IN:
            return bool(head[1] & HAS_STATUS)
        return opcode != R2T and not (opcode == NOP_IN and head[16:20] == b"\xff\xff\xff\xff")

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise Lost("the target closed the connection")
            parts += part
        return bytes(parts)
