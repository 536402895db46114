"""A peer that is nobody yet, and says whatever it likes: before, inside, behind and instead of what it is asked for, at a
login and at a discovery (the portal is fake_target.py).  It may cost this one attempt.  The process, which serves a
volume of other members all the while, goes on, in bounded time and memory.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_target import FINAL, NO_TAG, Connection, FakeTarget, Reservations

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, RpcError, Served, call, wait_until
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(400)]
LIMIT_SECONDS = 10  # of a login, and of a discovery
SLACK_SECONDS = 8  # this machine may be busy
GROWTH_BYTES_MAX = 32 << 20
AT_ONCE = 12  # calls
SEED = int(os.environ.get("IRAID_SEED", "18"))
LENGTH_MAX = 0xFFFFFF
CONTINUES, LOGIN, TEXT_RESPONSE = 0x40, 0x23, 0x24

Say = Callable[[Connection, int, bytes], None]


def pdu(
    opcode: int, tag: int, length: int = 0, data: bytes = b"", flags: int = FINAL, more: bytes = bytes(28)
) -> bytes:
    return struct.pack(">BB2xI8xI", opcode, flags, length, tag) + more + data


HUGE_R2T = struct.pack(">IIIIIII", 1, 1, 0, 64, 0, 0, 0xFFFFFFFF)
INTRUDERS: dict[str, Callable[[int], bytes]] = {
    "bare": lambda opcode: pdu(opcode, 0),
    "with data": lambda opcode: pdu(opcode, 0, 512, bytes(512)),
    "claims 16 MiB": lambda opcode: pdu(opcode, 0, LENGTH_MAX, bytes(100)),
    "asks for 4 GiB": lambda opcode: pdu(opcode, 0, more=HUGE_R2T),
}
PLACES = ("before", "inside", "instead", "behind")


def tagged(intruder: bytes, tag: int) -> bytes:
    """An intruder with this tag; NOP-In and messages that nobody asked for have none."""
    own = NO_TAG if intruder[0] & 0x3F in (0x32, 0x3F) else tag
    return intruder[:16] + struct.pack(">I", own) + intruder[20:]


def placed(place: str, answer: bytes, intruder: bytes) -> bytes:
    middle = 48 if len(answer) == 48 else 53
    return {
        "before": intruder + answer,
        "inside": answer[:middle] + intruder + answer[middle:],
        "instead": intruder,
        "behind": answer + intruder,
    }[place]


def text_answer(peer: Connection, tag: int) -> bytes:
    text = f"TargetName={peer.target.iqn}\0TargetAddress={peer.target.portal},1\0".encode()
    header = peer._header(TEXT_RESPONSE, FINAL, tag)
    return peer.encode(header[:20] + struct.pack(">I", NO_TAG) + header[24:], text)


def memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


class Serving:
    """A process that serves a volume under load, and is asked by its control socket to look at hostile portals."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.handle = served.connect()
        served.wait_resynced()
        self.shadow = Shadow(self.handle.get_size())
        self.load = Load(self.handle, self.shadow, seed=SEED, flush_share=0.02)
        self.outcomes: Counter[str] = Counter()
        self._warm_up()

    def _warm_up(self) -> None:
        """Until the volume has the memory that this load wants of it."""
        before, now = 0, memory_bytes(self.served.process.pid)
        while now - before > 2 << 20:
            self.load.run(2000)
            before, now = now, memory_bytes(self.served.process.pid)

    def ask(self, method: str, target: FakeTarget) -> Any:
        begun = time.monotonic()
        try:
            words = {"portal": target.portal} if method == "discover" else {"member": target.member}
            answer = call(self.served.control, method, **words)
            self.outcomes["answered"] += 1
        except RpcError as error:
            answer = error
            self.outcomes[error.kind] += 1
        self.served.process.check_running()
        # Discovery looks at what it has found: two attempts more.
        limit = LIMIT_SECONDS * (3 if method == "discover" else 1) + SLACK_SECONDS
        assert time.monotonic() - begun < limit, (method, answer)
        return answer

    def sweep(self, calls: list[Callable[[], Any]]) -> None:
        """All of them, many at a time, while the volume works."""
        before, pid = memory_bytes(self.served.process.pid), self.served.process.pid
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = [pool.submit(one) for one in calls]
            while not all(one.done() for one in waiting):
                self.load.run(50)
            for one in waiting:
                one.result()
        self.load.run(200)
        self.load.check()
        self.shadow.check_and_settle(read_all(self.handle))
        # A sanitizer keeps what was freed.
        assert SANITIZED or memory_bytes(pid) - before < GROWTH_BYTES_MAX
        status = self.served.status()
        assert status["state"] == "active", status


@pytest.fixture
def serving(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> Iterator[Serving]:
    gateway.create("v0", make_farm(3).members())
    gateway.must("stop", "v0")
    with gateway.serve("v0") as served:
        yield Serving(served)


def ends_with(method: str, say: Say, serving: Serving) -> Callable[[], Any]:
    """The call against a portal that answers so at a login; discover: at the text request."""

    def ask() -> Any:
        with FakeTarget() as target:
            if method == "discover":
                target.on_text = say
            else:
                target.say_login = say
            return serving.ask(method, target)

    return ask


@pytest.mark.parametrize("method", ["examine", pytest.param("discover", marks=pytest.mark.long)])
def test_any_pdu_in_any_place_costs_one_attempt(serving: Serving, method: str, figure) -> None:
    def case(place: str, intruder: bytes) -> Say:
        def say(peer: Connection, tag: int, answer: bytes) -> None:
            right = answer if method == "examine" else text_answer(peer, tag)
            peer.last_words(placed(place, right, tagged(intruder, tag)))

        return say

    calls = [
        ends_with(method, case(place, INTRUDERS[kind](opcode)), serving)
        for place, kind, opcode in itertools.product(PLACES, INTRUDERS, range(0x40))
    ]
    serving.sweep(calls)
    assert sum(serving.outcomes.values()) == len(calls)
    figure("cases", f"{len(calls)}: {dict(serving.outcomes)}")


@pytest.mark.long
@pytest.mark.parametrize("method", ["examine", "discover"])
def test_random_bytes_cost_one_attempt(serving: Serving, method: str, figure) -> None:
    """Alone, and put over parts of a sensible answer."""
    source = random.Random(SEED)

    def case() -> Say:
        noise, at = source.randbytes(source.choice((1, 4, 48, 300))), source.randrange(48)
        alone = source.random() < 0.2

        def say(peer: Connection, tag: int, answer: bytes) -> None:
            right = bytearray(answer if method == "examine" else text_answer(peer, tag))
            if alone:
                right.clear()
            right[at : at + len(noise)] = noise
            peer.last_words(bytes(right))

        return say

    serving.sweep([ends_with(method, case(), serving) for _ in range(400)])
    figure("cases", f"400: {dict(serving.outcomes)}")


def with_text(answer: bytes, text: bytes) -> bytes:
    return answer[:4] + struct.pack(">I", len(text)) + answer[8:48] + text + bytes(-len(text) % 4)


NUMBERS = ("0", "-1", "1", "511", "4294967296", "18446744073709551616", "0x", "", "99999999999999999999999999", "1e9")
KEYS = (
    "MaxRecvDataSegmentLength", "FirstBurstLength", "MaxBurstLength", "TargetPortalGroupTag", "InitialR2T",
    "InitiatorRecvDataSegmentLength", "TargetRecvDataSegmentLength", "CHAP_A", "CHAP_I",
)  # fmt: skip
TEXTS = [
    *(f"{key}={value}\0".encode() for key, value in itertools.product(KEYS, NUMBERS)),
    b"no end", b"\0", b"\0" * 8192, b"=\0", b"x" * 8192, b"MaxRecvDataSegmentLength", b"MaxRecvDataSegmentLength=0",
    *(b"CHAP_C=0x" + b"a" * length + b"\0" for length in (0, 1, 2, 2047, 2048, 2049, 8000)),
    *(b"AuthMethod=CHAP\0CHAP_A=5\0CHAP_I=9\0CHAP_C=0x" + b"g" * length + b"\0" for length in (1, 2047)),
    *(key + b"=" + b"y" * 8000 + b"\0" for key in (b"TargetAddress", b"TargetName", b"CHAP_N", b"CHAP_R", b"CHAP_C")),
    b"HeaderDigest=CRC32C\0DataDigest=CRC32C\0", b"CHAP_N=\x1b[2J\xff\0", b"CHAP_R=0x\0",
]  # fmt: skip


@pytest.mark.long
def test_absurd_keys_are_no_more_than_that(serving: Serving, figure) -> None:
    def case(text: bytes) -> Say:
        return lambda peer, tag, answer: peer.peer.sendall(with_text(answer, text))

    serving.sweep([ends_with("examine", case(text), serving) for text in TEXTS])
    figure("cases", f"{len(TEXTS)}: {dict(serving.outcomes)}")


@pytest.mark.long
def test_texts_of_16_mib_are_not_waited_for(serving: Serving, figure) -> None:
    def whole(opcode: int) -> Say:
        def say(peer: Connection, tag: int, answer: bytes) -> None:
            peer.last_words(pdu(opcode, tag, LENGTH_MAX, b"A=" + bytes(LENGTH_MAX - 2)))

        return say

    calls = [
        ends_with(method, whole(opcode), serving)
        for method, opcode in (("examine", LOGIN), ("discover", TEXT_RESPONSE))
    ]
    serving.sweep(calls * 4)
    assert serving.outcomes["answered"] == 0
    figure("cases", f"{dict(serving.outcomes)}")


def bit(answer: bytes, flags: int) -> bytes:
    return answer[:1] + bytes([flags]) + answer[2:]


ENDLESS: dict[str, Say] = {
    "a login in parts": lambda peer, tag, answer: peer.peer.sendall(bit(answer, CONTINUES | 4)),
    "a login in empty parts": lambda peer, tag, answer: peer.peer.sendall(with_text(bit(answer, CONTINUES | 4), b"")),
    "a login that gets nowhere": lambda peer, tag, answer: peer.peer.sendall(bit(answer, 4)),
    "a login that begins again": lambda peer, tag, answer: peer.peer.sendall(bit(answer, FINAL | 0)),
    "CHAP again": lambda peer, tag, answer: peer.peer.sendall(with_text(bit(answer, 0), b"AuthMethod=CHAP\0")),
    "half an answer": lambda peer, tag, answer: peer.peer.sendall(answer[:47]),
    "text in parts": lambda peer, tag, _: peer.text(tag, b"A=b\0", flags=CONTINUES, target_tag=5),
    "half a text": lambda peer, tag, _: peer.peer.sendall(text_answer(peer, tag)[:50]),
}


def test_answers_without_end_end_at_the_limit(serving: Serving, figure) -> None:
    calls = [ends_with("discover" if "text" in name else "examine", say, serving) for name, say in ENDLESS.items()]
    serving.sweep(calls)
    assert serving.outcomes["answered"] == 0
    figure("cases", f"{dict(serving.outcomes)}")


def byte_by_byte(peer: Connection, out: bytes) -> None:
    for at in range(len(out)):
        peer.peer.sendall(out[at : at + 1])
        threading.Event().wait(0.0005)  # a packet of its own


@pytest.mark.long
def test_bytes_that_come_one_by_one_are_taken(serving: Serving) -> None:
    with FakeTarget() as target:
        target.say_login = lambda peer, tag, answer: byte_by_byte(peer, answer)
        target.on_text = lambda peer, tag, _: byte_by_byte(peer, text_answer(peer, tag))
        assert serving.ask("examine", target)["device"]["size_bytes"] == len(target.disk)
        assert [one["iqn"] for one in serving.ask("discover", target)["targets"]] == [target.iqn]


def test_a_member_that_turns_hostile_at_its_next_login_costs_itself_only(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """Of a volume of level 5: it is out, and the volume's thread goes on, whatever the member says; then it behaves."""
    source = random.Random(SEED)
    tried: list[int] = []

    def lies(peer: Connection, tag: int, answer: bytes) -> None:
        opcode, place = source.choice((0x25, 0x31, source.randrange(0x40))), source.choice(PLACES)
        intruder = INTRUDERS[source.choice(list(INTRUDERS))](opcode)
        tried.append(opcode)
        peer.last_words(placed(place, answer, tagged(intruder, tag)))

    with FakeTarget(size_bytes=24 << 20) as target:
        target.rules.append(Reservations())
        gateway.create("v0", [*make_farm(3).members(), target.member], 5, "64K", "--give-up", "2")
        gateway.must("stop", "v0")
        with gateway.serve("v0") as volume:
            serving = Serving(volume)
            target.say_login = lies
            target.connections[-1].close()

            def works() -> bool:
                serving.load.run(50)
                return len(tried) >= 20

            wait_until(works, "twenty logins", 200)
            assert volume.status()["state"] == "degraded"
            target.say_login = None
            volume.wait_status(lambda status: status["state"] == "active", "the member", 60)
            serving.load.check()
            serving.shadow.check_and_settle(read_all(serving.handle))
