"""A target that never tells the truth: at the login, in place of it, and behind it.  It never serves a block, so what
it costs is what lies cost.

    python3 -m iraid_dev.stack.lying_target ADDRESS PORT SEED

Each connection gets one kind of lie, drawn by the seed, and is closed after LIES of them.  Prints the connections
taken when its standard input ends.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import sys
import threading

HEADER_BYTES = 48
LOGIN, TEXT, COMMAND = 0x03, 0x04, 0x01
LOGIN_RESPONSE, RESPONSE, DATA_IN, R2T = 0x23, 0x21, 0x25, 0x31
FULL_FEATURE = 0x87
LIES = 32
CONNECTIONS_MAX = 64  # beside each other
SLOW_SECONDS = 0.2


class LyingTarget:
    """Listens until close(); one thread for each connection."""

    def __init__(self, address: str, port: int, seed: int):
        self.chance = random.Random(seed)
        self.connections = 0
        self._ending = threading.Event()
        self._room = threading.Semaphore(CONNECTIONS_MAX)
        self._listener = socket.create_server((address, port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            lie = self.chance.choice((self._garbage, self._mutated, self._honest_login, self._slow, self._silent))
            chance = random.Random(self.chance.random())
            self._room.acquire()
            threading.Thread(target=self._serve, args=(connection, lie, chance), daemon=True).start()

    def _serve(self, connection: socket.socket, lie: object, chance: random.Random) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(10)
            lie(connection, chance)  # type: ignore[operator]
        self._room.release()

    def _garbage(self, connection: socket.socket, chance: random.Random) -> None:
        connection.recv(65536)
        for _ in range(LIES):
            connection.sendall(chance.randbytes(chance.randrange(1, 4096)))

    def _mutated(self, connection: socket.socket, chance: random.Random) -> None:
        """A login's answer, or another PDU for its tag, with some bytes that are others."""
        for _ in range(LIES):
            head = self._request(connection)
            answer = bytearray(_login_answer(head))
            answer[0] = chance.choice((LOGIN_RESPONSE, RESPONSE, DATA_IN, R2T, chance.randrange(64)))
            for _ in range(chance.randrange(6)):
                answer[chance.randrange(HEADER_BYTES)] = chance.randrange(256)
            connection.sendall(answer + chance.randbytes(chance.randrange(64)))

    def _honest_login(self, connection: socket.socket, chance: random.Random) -> None:
        """Lies from the first command on."""
        connection.sendall(_login_answer(self._request(connection)))
        for _ in range(LIES):
            head = self._request(connection)
            length = struct.unpack_from(">I", head, 20)[0]
            answer = bytearray(HEADER_BYTES)
            answer[0], answer[1] = chance.choice((RESPONSE, DATA_IN, R2T, chance.randrange(64))), chance.randrange(256)
            data = chance.randbytes(min(length, 4096) & ~3) if answer[0] == DATA_IN else b""
            answer[5:8] = len(data).to_bytes(3, "big")
            answer[8:20] = head[8:20]
            for place in range(20, HEADER_BYTES, 4):
                value = chance.choice((0, 1, length, 0xFFFFFFFF, chance.randrange(1 << 32)))
                struct.pack_into(">I", answer, place, value)
            connection.sendall(answer + data)

    def _slow(self, connection: socket.socket, chance: random.Random) -> None:
        """A byte at a time."""
        for byte in _login_answer(self._request(connection)):
            if self._ending.wait(SLOW_SECONDS):
                return
            connection.sendall(bytes([byte]))

    def _silent(self, connection: socket.socket, chance: random.Random) -> None:
        """Takes all, says nothing; until the other end is tired of it."""
        with contextlib.suppress(TimeoutError):
            while connection.recv(65536):
                pass

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        head = _exactly(connection, HEADER_BYTES)
        length = int.from_bytes(head[5:8], "big")
        _exactly(connection, length + -length % 4)
        return head


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionError("the initiator closed the connection")
        parts += part
    return bytes(parts)


def _login_answer(head: bytes) -> bytes:
    """Into the full-feature phase at once."""
    answer = bytearray(HEADER_BYTES)
    answer[0], answer[1] = LOGIN_RESPONSE, FULL_FEATURE
    answer[8:16], answer[16:20] = head[8:14] + b"\x00\x01", head[16:20]
    struct.pack_into(">III", answer, 24, 1, *struct.unpack_from(">I", head, 24), 64)
    return bytes(answer)


def main(words: list[str]) -> int:
    address, port, seed = words
    target = LyingTarget(address, int(port), int(seed))
    print("ready", flush=True)
    sys.stdin.read()
    target.close()
    print(target.connections, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
