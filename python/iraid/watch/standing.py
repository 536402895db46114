"""What a cluster manager's agent asks about a volume, in one line of words (packaging/ocf/volume).

    answers ROLE STATE REACHED DEVICES      the handler answers
    unknown                                 it has no such volume, or can't read its file
    dead                                    nobody listens at the control socket
    hangs                                   somebody does, and does not answer
    refuses                                 the handler can't tell now: too many connections, no memory

A second line says why, for a person.  REACHED of DEVICES members and spares have a portal that takes TCP connections:
the same question in all roles, so that two gateways which see the same count the same.  On standby there are no sessions to
count.  It costs the targets nothing: the connection is reset before a target's server hears of it.
"""

import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass

from iraid.control import model
from iraid.control.client import NO_ANSWER, Client
from iraid.control.errors import IraidError

REACH_SECONDS = 2.0
AGAIN_SECONDS = 0.1
CAN_NOT_NOW = ("busy", "internal")
PORT_DEFAULT = 3260


@dataclass(frozen=True)
class Standing:
    word: str  # answers, unknown, dead, hangs, refuses
    text: str = ""
    volume: model.Volume | None = None


def ask(name: str, seconds: float, patience: float) -> Standing:
    """The answer may take that many seconds.  A handler that is dead may be on its way back: it has `patience`."""
    begun = time.monotonic()
    while True:
        standing = _ask_once(Client(seconds_max=max(seconds - (time.monotonic() - begun), AGAIN_SECONDS)), name)
        bound = {"dead": patience, "hangs": seconds, "refuses": seconds}.get(standing.word, 0.0)
        if time.monotonic() - begun + AGAIN_SECONDS > bound:
            return standing
        time.sleep(AGAIN_SECONDS)


def _ask_once(client: Client, name: str) -> Standing:
    try:
        volume = client.status(name)
    except IraidError as error:
        if error.kind in CAN_NOT_NOW:
            return Standing("refuses", error.message)
        if error.kind not in NO_ANSWER:
            return Standing("unknown", error.message)
        nobody = isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError)
        return Standing("dead" if nobody else "hangs", error.message)
    return Standing("answers", volume.reason or "", volume)


def portals_of(member: str) -> list[tuple[str, int]]:
    """PORTAL,PORTAL/IQN/LUN -> hosts and ports."""
    found = []
    for portal in member.partition("/")[0].split(","):
        host, bracket, rest = portal.removeprefix("[").partition("]")
        if not bracket:
            host, _, rest = portal.partition(":")
        port = rest.removeprefix(":")
        found.append((host, int(port) if port.isdigit() else PORT_DEFAULT))
    return found


def takes_connections(host: str, port: int, seconds: float) -> bool:
    """Without the last ACK of the handshake, then a reset: the target's accept() does not return, its log stays empty."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            probe.settimeout(seconds)
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
            try:
                probe.connect(address)
            except OSError:
                continue
            return True
    return False


def reached(members: list[str], seconds: float = REACH_SECONDS) -> int:
    """How many of them have a portal that takes connections, within that time."""
    good: set[str] = set()

    def look(member: str) -> None:
        if any(takes_connections(host, port, seconds) for host, port in portals_of(member)):
            good.add(member)

    threads = [threading.Thread(target=look, args=(member,), daemon=True) for member in members]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:  # a name that does not resolve may take longer, and is not waited for
        thread.join(max(deadline - time.monotonic(), 0))
    return len(good)


def line(standing: Standing) -> str:
    volume = standing.volume
    if volume is None:
        return standing.word
    members = [member.member for member in volume.members]
    return f"{standing.word} {volume.role or 'none'} {volume.state} {reached(members)} {len(members)}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or not all(word.isdigit() for word in arguments[1:]):
        print("usage: volume-standing NAME SECONDS PATIENCE", file=sys.stderr)
        return 2
    standing = ask(arguments[0], float(arguments[1]), float(arguments[2]))
    print(line(standing))
    print(" ".join(standing.text.split()))
    sys.stdout.flush()
    os._exit(0)  # threads may still wait for a name server
