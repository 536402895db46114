"""Proxies in front of targets that stop at a chosen command, so that a test can look at every step of what the
gateway does.

    with Gate(farm) as gate:
        gateway.create("v0", gate.members())
        gate.close_after(7)                 # seven commands more, of all targets together, then nothing passes
        ...                                 # gate.closed is set when the eighth has come
        volume.kill()
        gate.open()                         # what waited is gone with its connections

    gate.close_after(2, only=1, cut=True)   # target 1 alone, and its connections end: it is dead

Commands are SCSI commands but for TEST UNIT READY, which the gateway sends when it likes.  Answers to commands
that have passed still come back.
"""

from __future__ import annotations

import socket
import threading

from iraid_dev.stack.farm import LUN, TargetFarm

HEADER_BYTES = 48
SCSI_COMMAND, TEST_UNIT_READY, CDB = 0x01, 0x00, 32
PART_BYTES = 1 << 20


class Gate:
    def __init__(self, farm: TargetFarm):
        self.farm = farm
        self.closed = threading.Event()
        self.passed = 0  # since close_after()
        self._lock = threading.Lock()
        self._opened = threading.Condition(self._lock)
        self._left: int | None = None  # None: all pass
        self._only: int | None = None
        self._cut = self._ending = False
        self._sockets: set[tuple[int, socket.socket]] = set()
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in farm.targets]

    def member(self, number: int) -> str:
        return f"127.0.0.1:{self._listeners[number].getsockname()[1]}/{self.farm.iqn(number)}/{LUN}"

    def members(self) -> list[str]:
        return [self.member(number) for number in range(len(self._listeners))]

    def close_after(self, commands: int, only: int | None = None, cut: bool = False) -> None:
        """cut: connections end and new ones are refused; else they stay and are silent."""
        with self._lock:
            self.closed.clear()
            self.passed = 0
            self._left, self._only, self._cut = commands, only, cut

    def open(self) -> None:
        """Commands that waited never reach their targets."""
        with self._lock:
            self._left = None
            if self.closed.is_set():
                self._drop()
            self.closed.clear()
            self._opened.notify_all()

    def __enter__(self) -> Gate:
        for number in range(len(self._listeners)):
            threading.Thread(target=self._accept, args=(number,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ending = True
            self._only = None
            self._drop()
            self._opened.notify_all()
        for listener in self._listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _shut(self, number: int) -> bool:
        return self.closed.is_set() and self._only in (None, number)

    def _drop(self) -> None:
        for number, end in self._sockets:
            if self._only in (None, number):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # its other side was faster

    def _accept(self, number: int) -> None:
        while True:
            try:
                near, _ = self._listeners[number].accept()
            except OSError:
                return
            with self._lock:
                refused = self._shut(number) and self._cut
            if refused:
                near.close()
            else:
                threading.Thread(target=self._connect, args=(number, near), daemon=True).start()

    def _connect(self, number: int, near: socket.socket) -> None:
        target = self.farm.targets[number]
        try:
            far = socket.create_connection((target.options.address, target.ports[0]))
        except OSError:
            near.close()
            return
        ends = {(number, near), (number, far)}
        for _, end in ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets |= ends
        back = threading.Thread(target=self._answers, args=(far, near), daemon=True)
        back.start()
        try:
            self._commands(number, near, far)
        except (OSError, EOFError):
            pass
        for _, end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        back.join()
        with self._lock:
            self._sockets -= ends
        near.close()
        far.close()

    @staticmethod
    def _answers(far: socket.socket, near: socket.socket) -> None:
        try:
            while part := far.recv(PART_BYTES):
                near.sendall(part)
        except OSError:
            pass
        try:
            near.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    @staticmethod
    def _exactly(end: socket.socket, length: int) -> bytes:
        got = bytearray()
        while len(got) < length:
            part = end.recv(length - len(got))
            if not part:
                raise EOFError
            got += part
        return bytes(got)

    def _commands(self, number: int, near: socket.socket, far: socket.socket) -> None:
        while True:
            header = self._exactly(near, HEADER_BYTES)
            length = int.from_bytes(header[5:8], "big")
            more = self._exactly(near, 4 * header[4] + length + -length % 4)
            if header[0] & 0x3F == SCSI_COMMAND and not self._pass(number, header[CDB]):
                return
            far.sendall(header + more)

    def _pass(self, number: int, opcode: int) -> bool:
        """False: the connection is to end."""
        with self._lock:
            if self._left is None or self._only not in (None, number):
                return True
            if not self.closed.is_set() and opcode == TEST_UNIT_READY:
                return True
            if self._left > 0:
                self._left -= 1
                self.passed += 1
                return True
            self.closed.set()
            if self._cut:
                self._drop()
                return False
            self._opened.wait_for(lambda: not self._shut(number) or self._ending)
            return False
