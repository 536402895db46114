"""IPsec between gateway and targets, which docs/design/security.md advises for networks of others: what passes on the
wire is neither readable nor forged, and what is written comes back.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest
from disk_bytes import get, put

from iraid_dev.stack.faults import FaultFarm

MIB = 1 << 20
ETH_P_ALL, TCP, ESP = 3, 6, 50
MARK = b"what nobody on the way is to read"
CIPHER = "rfc4106(gcm(aes))"


class Tap:
    """All that passes on the gateway's ends of the links."""

    def __init__(self, interfaces: list[str]) -> None:
        self.protocols: Counter[int] = Counter()
        self.marks = 0
        self._ending = threading.Event()
        self._sockets = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) for _ in interfaces]
        for one, interface in zip(self._sockets, interfaces, strict=True):
            one.bind((interface, ETH_P_ALL))
            one.settimeout(0.2)
        self._threads = [threading.Thread(target=self._listen, args=(one,)) for one in self._sockets]

    def __enter__(self) -> Tap:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread, one in zip(self._threads, self._sockets, strict=True):
            thread.join()
            one.close()

    def _listen(self, one: socket.socket) -> None:
        while not self._ending.is_set():
            try:
                frame = one.recv(65536)
            except TimeoutError:
                continue
            if frame[12:14] == b"\x08\x00":
                self.protocols[frame[14 + 9]] += 1
                self.marks += MARK in frame


def protect(number: int) -> None:
    """Both ends of link `number`; keys by standard input, for arguments are everybody's to read."""
    here, there = f"10.77.{number}.1", f"10.77.{number}.2"
    keys = {(here, there): secrets.token_hex(20), (there, here): secrets.token_hex(20)}
    states = [
        f"xfrm state add src {source} dst {sink} proto esp spi {0x100 + way} reqid 1 mode transport aead {CIPHER} 0x{key} 128"
        for way, ((source, sink), key) in enumerate(keys.items())
    ]
    for words, local, remote in ((["ip"], here, there), (["ip", "-n", f"iraid{number}"], there, here)):
        policies = [
            f"xfrm policy add src {source} dst {sink} dir {way} tmpl src {source} dst {sink} proto esp reqid 1 mode transport"
            for source, sink, way in ((local, remote, "out"), (remote, local, "in"))
        ]
        subprocess.run([*words, "-batch", "-"], input="\n".join((*states, *policies)) + "\n", text=True, check=True)


def unprotect() -> None:
    for what in ("policy", "state"):  # those of the namespaces go with them
        subprocess.run(["ip", "xfrm", what, "flush"], check=True)


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("protected", [False, True], ids=["plain", "IPsec"])
def test_with_ipsec_nothing_on_the_wire_is_readable(gateway, memory_folder: Path, protected: bool) -> None:
    """Without it the mark is seen on the wire, so the tap sees what there is to see."""
    with FaultFarm(memory_folder / "farm", 3, size_bytes=96 * MIB) as farm:
        try:
            for number in range(3) if protected else ():
                protect(number)
            volume = gateway.create(5, farm.members())
            disk = volume.login().path
            data = MARK * (MIB // len(MARK)) + os.urandom(MIB % len(MARK))
            with Tap([f"to{number}" for number in range(3)]) as tap:
                put(disk, data, 0)
                assert get(disk, MIB, 0) == data
            if protected:
                assert tap.protocols[ESP] > 100 and tap.protocols[TCP] == 0 and tap.marks == 0, tap.protocols
            else:
                assert tap.protocols[ESP] == 0 and tap.protocols[TCP] > 100 and tap.marks > 10, tap.protocols
            gateway.remove([volume])
        finally:
            unprotect()
