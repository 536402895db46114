"""Proxies in front of the members that count, for each gateway, the commands that its targets carried out.

    with MemberSpy(farm, addresses) as spy:
        spy.members()                  # what the volume is made of
        ...
        spy.late("10.77.1.11")         # commands of this gateway that ended well at a member behind the fence of another
        spy.forgive("10.77.1.11")      # it is to have the volume again

The fence is the PREEMPT of another gateway for what comes here when that was answered.  What was under way then may end
well until the LOGICAL UNIT RESET that follows is answered; only then does that gateway look at the member.

A command counts when the target answered GOOD to it: until then it has changed nothing that anybody may rely on, but it
may have.  The order at a member is that in which its answers came to this machine, not that in which threads looked at
them: what was here when the fence's answer was looked at had been answered before.
"""

from __future__ import annotations

import collections
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import BinaryIO

from iraid_dev.stack.farm import LUN, TargetFarm

PORT = 3260
HEADER_BYTES, BUFFER_BYTES = 48, 256 << 10
SCSI_COMMAND, SCSI_RESPONSE, DATA_IN = 0x01, 0x21, 0x25
TASK_REQUEST, TASK_RESPONSE = 0x02, 0x22
LOGICAL_UNIT_RESET = 5
HAS_STATUS = 0x01  # of a Data-In PDU
GOOD = 0
CDB = 32
TCP_INFO_BYTES, BYTES_RECEIVED = 136, 128  # struct tcp_info of linux/tcp.h: tcpi_bytes_received
WRITES = {0x0A, 0x2A, 0x8A, 0xAA, 0x2E, 0x8E, 0x41, 0x93, 0x42, 0x89}  # WRITE, WRITE AND VERIFY, WRITE SAME, UNMAP, CAW
READS = {0x08, 0x28, 0x88, 0xA8}
PERSISTENT_RESERVE_OUT, PREEMPT, PREEMPT_AND_ABORT = 0x5F, 4, 5


@dataclass(frozen=True)
class Late:
    """A command of a gateway that was fenced at this member already."""

    member: int
    opcode: int
    block: int
    seconds: float  # behind the fence
    sent_before: bool  # it had come here before the fence

    @property
    def is_write(self) -> bool:
        return self.opcode in WRITES


@dataclass(frozen=True)
class Command:
    cdb: bytes
    came: float

    @property
    def block(self) -> int:
        at = slice(2, 10) if self.cdb[0] >= 0x80 else slice(2, 6)
        return int.from_bytes(self.cdb[at], "big")


class MemberSpy:
    def __init__(self, farm: TargetFarm, addresses: list[str], port: int = PORT):
        self.farm = farm
        self.reads: collections.Counter[str] = collections.Counter()  # by the gateway's address
        self.writes: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        self._gateways: set[str] = set()
        self._fenced: dict[tuple[str, int], float] = {}
        self._fenced_by: dict[tuple[str, int], str] = {}
        self._reset: set[tuple[str, int]] = set()  # as well
        self._sessions: set[_Session] = set()
        self._late: dict[str, list[Late]] = collections.defaultdict(list)
        self._listeners = [socket.create_server((address, port)) for address in addresses]

    def __enter__(self) -> MemberSpy:
        for number in range(len(self._listeners)):
            threading.Thread(target=self._accept, args=(number,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.close()

    def members(self) -> list[str]:
        return [
            "{}:{}/{}/{}".format(*listener.getsockname(), self.farm.iqn(number), LUN)
            for number, listener in enumerate(self._listeners)
        ]

    def late(self, gateway: str) -> list[Late]:
        with self._lock:
            return list(self._late[gateway])

    def fenced_at(self, gateway: str) -> int:
        """Number of members."""
        with self._lock:
            return sum(address == gateway for address, _ in self._fenced)

    def forgive(self, gateway: str) -> None:
        with self._lock:
            self._late[gateway] = []
            for of in (self._fenced, self._fenced_by):
                for key in [key for key in of if key[0] == gateway]:
                    of.pop(key)
            self._reset = {key for key in self._reset if key[0] != gateway}

    def _accept(self, number: int) -> None:
        while True:
            try:
                near, (gateway, _) = self._listeners[number].accept()
            except OSError:
                return
            with self._lock:
                self._gateways.add(gateway)
            threading.Thread(target=self._connect, args=(number, gateway, near), daemon=True).start()

    def _connect(self, number: int, gateway: str, near: socket.socket) -> None:
        target = self.farm.targets[number]
        with near:
            try:
                far = socket.create_connection((target.options.address, target.ports[0]), timeout=10)
            except OSError:
                return
            with far:
                far.settimeout(None)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                session = _Session(self, number, gateway, far)
                with self._lock:
                    self._sessions.add(session)
                session.run(near, far)
                with self._lock:
                    self._sessions.remove(session)

    def _ended(self, session: _Session, command: Command) -> None:
        now = time.monotonic()
        number, gateway = session.number, session.gateway
        opcode = command.cdb[0]
        with self._lock:
            if opcode == PERSISTENT_RESERVE_OUT and command.cdb[1] & 0x1F in (PREEMPT, PREEMPT_AND_ABORT):
                for other in self._gateways - {gateway}:
                    self._fenced.setdefault((other, number), now)
                    self._fenced_by.setdefault((other, number), gateway)
                return
            if opcode not in WRITES | READS:
                return
            (self.writes if opcode in WRITES else self.reads)[gateway] += 1
            fenced = self._fenced.get((gateway, number))
            if fenced is None:
                return
            sent_before = command.came < fenced
            was_reset = (gateway, number) in self._reset and session.is_behind_reset()
            if not sent_before or was_reset:
                self._late[gateway].append(Late(number, opcode, command.block, now - fenced, sent_before))

    def _was_reset(self, number: int, gateway: str) -> None:
        with self._lock:
            reset = {key for key, by in self._fenced_by.items() if by == gateway and key[1] == number} - self._reset
            for session in self._sessions:
                if (session.gateway, number) in reset and session.number == number:
                    session.note_reset()
            self._reset |= reset


class _Session:
    """One connection of a gateway to a member."""

    def __init__(self, spy: MemberSpy, number: int, gateway: str, far: socket.socket):
        self._spy, self.number, self.gateway, self._far = spy, number, gateway, far
        self._open: dict[bytes, Command] = {}  # by task tag
        self._resets: set[bytes] = set()
        self._answered_bytes = 0  # of what came from the target, looked at
        self._came_before_reset = 0

    def note_reset(self) -> None:
        """It was answered on another connection."""
        info = self._far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        (self._came_before_reset,) = struct.unpack_from("=Q", info, BYTES_RECEIVED)

    def is_behind_reset(self) -> bool:
        """What is looked at now."""
        return self._answered_bytes > self._came_before_reset

    def run(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._copy, args=(far, near, self._answer), daemon=True)
        back.start()
        self._copy(near, far, self._request)
        back.join()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket, look: object) -> None:
        assert callable(look)
        try:
            with source.makefile("rb", BUFFER_BYTES) as stream:
                while pdu := _next(stream):
                    look(pdu)
                    sink.sendall(pdu)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its other side was faster

    def _request(self, pdu: bytes) -> None:
        if pdu[0] & 0x3F == SCSI_COMMAND:
            self._open[pdu[16:20]] = Command(pdu[CDB : CDB + 16], time.monotonic())
        elif pdu[0] & 0x3F == TASK_REQUEST and pdu[1] & 0x7F == LOGICAL_UNIT_RESET:
            self._resets.add(pdu[16:20])

    def _answer(self, pdu: bytes) -> None:
        self._answered_bytes += len(pdu)
        kind = pdu[0] & 0x3F
        if kind == SCSI_RESPONSE or (kind == DATA_IN and pdu[1] & HAS_STATUS):
            command = self._open.pop(pdu[16:20], None)
            if command is not None and pdu[3] == GOOD:
                self._spy._ended(self, command)
        elif kind == TASK_RESPONSE and pdu[16:20] in self._resets:
            self._spy._was_reset(self.number, self.gateway)


def _next(stream: BinaryIO) -> bytes:
    """Empty at the end."""
    header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return b""
    length = int.from_bytes(header[5:8], "big")
    rest = 4 * header[4] + length + -length % 4
    more = stream.read(rest) if rest else b""
    return header + more if len(more) == rest else b""
