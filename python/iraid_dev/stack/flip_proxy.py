"""A TCP proxy before a target that flips one bit of a PDU when it is told to: what TCP's checksum lets pass.

with FlipProxy(("127.0.0.1", port)) as proxy:
    probe.open()                             # the login goes through as it is
    proxy.arm(TO_GATEWAY, "data", seed=7)    # the next PDU that way that has data

Where the target is not there, connections end; one that is stopped or cut off is silent here, too.
"""

from __future__ import annotations

import random
import socket
import threading

TO_GATEWAY, TO_TARGET = "to the gateway", "to the target"
HEADER_BYTES, DIGEST_BYTES = 48, 4
CONNECT_SECONDS_MAX = 30
LOGIN_RESPONSE, FULL_FEATURE = 0x23, 0x83


class Session:
    """What a login agrees to, as the target's answers say."""

    def __init__(self) -> None:
        self.full = False
        self.text = b""

    def hears(self, header: bytes, data: bytes) -> None:
        self.text += data
        self.full = header[1] & FULL_FEATURE == FULL_FEATURE

    @property
    def digests(self) -> tuple[int, int]:
        """Bytes behind a header, and behind data."""
        if not self.full:
            return 0, 0
        keys = self.text.split(b"\0")
        return DIGEST_BYTES * (b"HeaderDigest=CRC32C" in keys), DIGEST_BYTES * (b"DataDigest=CRC32C" in keys)


class FlipProxy:
    def __init__(self, target: tuple[str, int]) -> None:
        """target: address and port."""
        self.target = target
        self.injected = self.logins = 0
        self._lock = threading.Lock()
        self._armed: tuple[str, str, random.Random] | None = None
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def portal(self) -> str:
        return "{}:{}".format(*self._listener.getsockname())

    def __enter__(self) -> FlipProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.end_all()

    def end_all(self) -> None:
        """All sessions."""
        for one in list(self._sockets):
            self._end(one)

    def arm(self, way: str, part: str, seed: int) -> None:
        """part: "header" (with its digest) or "data" (with padding and digest); once."""
        with self._lock:
            self._armed = (way, part, random.Random(seed))

    def disarm(self) -> bool:
        """True: it was still armed, no such PDU has passed."""
        with self._lock:
            armed, self._armed = self._armed, None
        return armed is not None

    def _accept(self) -> None:
        while True:
            try:
                gateway, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(gateway,), daemon=True).start()

    def _connect(self, gateway: socket.socket) -> None:
        self._sockets.add(gateway)
        try:
            target = socket.create_connection(self.target, CONNECT_SECONDS_MAX)
        except OSError:
            self._end(gateway)
            return
        target.settimeout(None)
        self._sockets.add(target)
        session = Session()
        threading.Thread(target=self._pass_on, args=(TO_TARGET, gateway, target, session), daemon=True).start()
        self._pass_on(TO_GATEWAY, target, gateway, session)

    def _pass_on(self, way: str, source: socket.socket, sink: socket.socket, session: Session) -> None:
        try:
            while True:
                header = _exactly(source, HEADER_BYTES)
                header_digest, data_digest = session.digests
                length = int.from_bytes(header[5:8], "big")
                more = _exactly(source, header[4] * 4 + header_digest)
                data = _exactly(source, length + -length % 4 + (data_digest if length else 0))
                if session.full:
                    header, data = self._maybe_flip(way, header + more, data)
                elif header[0] & 0x3F == LOGIN_RESPONSE:
                    session.hears(header, data)
                    self.logins += session.full
                sink.sendall(header + data)
        except OSError:
            for one in (source, sink):
                self._end(one)

    def _end(self, one: socket.socket) -> None:
        self._sockets.discard(one)
        _close(one)

    def _maybe_flip(self, way: str, header: bytes, data: bytes) -> tuple[bytes, bytes]:
        with self._lock:
            if self._armed is None or self._armed[0] != way or (self._armed[1] == "data" and not data):
                return header, data
            _, part, rng = self._armed
            self._armed = None
            self.injected += 1
        if part == "header":
            return _flip(header, rng), data
        return header, _flip(data, rng)


def _flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _close(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()


def _exactly(source: socket.socket, length: int) -> bytes:
    got = bytearray()
    while len(got) < length:
        part = source.recv(length - len(got))
        if not part:
            raise ConnectionResetError
        got += part
    return bytes(got)
