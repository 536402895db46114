"""What a portal may answer to SendTargets: it ends in time, and never the program; the portal is fake_target.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from fake_target import Connection, FakeTarget
from test_iscsi_admin import LOGIN, UNREACHABLE, admin

from iraid_dev.stack.private_gateway import Gateway, call

pytestmark = pytest.mark.timeout(60)
CONTINUES = 0x40
TWO = b"TargetName=iqn.a:1\0TargetAddress=127.0.0.1:1,1\0TargetAddress=127.0.0.1:2,2\0TargetName=iqn.b:2\0"


def discovered(answer: Callable[[Connection, int, bytes], None], *options: str) -> dict[str, str]:
    with FakeTarget() as target:
        target.on_text = answer
        return admin(*options, "discover", target.portal)


def test_targets_come_with_their_portals_in_order() -> None:
    assert discovered(lambda peer, tag, _: peer.text(tag, TWO))["target"] == "iqn.b:2"  # the last line
    first = TWO[: TWO.index(b"TargetName=iqn.b")]
    assert discovered(lambda peer, tag, _: peer.text(tag, first))["target"] == "iqn.a:1 127.0.0.1:1 127.0.0.1:2"
    assert discovered(lambda peer, tag, _: peer.text(tag, b"")) == {}


@pytest.mark.parametrize("cut", [1, 11, 30, len(TWO) - 1])
@pytest.mark.parametrize("flags", [0, CONTINUES])
def test_a_list_may_come_in_parts(cut, flags) -> None:
    asked = []

    def answer(peer: Connection, tag: int, text: bytes) -> None:
        asked.append(text)
        if len(asked) == 1:
            peer.text(tag, TWO[:cut], flags=flags, target_tag=5)
        else:
            peer.text(tag, TWO[cut:])

    assert discovered(answer)["target"] == "iqn.b:2"
    assert asked == [b"SendTargets=All\0", b""]


def test_pings_meanwhile_are_answered() -> None:
    def answer(peer: Connection, tag: int, _: bytes) -> None:
        for _ping in range(40):
            peer.ping()
        peer.list_targets(tag, b"")
        peers.append(peer)

    peers: list[Connection] = []
    assert "target" in discovered(answer)
    assert peers[0].target.pings_answered == 40


@pytest.mark.parametrize(
    "answer",
    [
        lambda peer, tag, _: peer.ask_for_data(tag, 4096),
        lambda peer, tag, _: peer.ask_for_data(tag, 0xFFFFFFFF),
        lambda peer, tag, _: (peer.ping(), peer.ask_for_data(tag, 4096)),
        lambda peer, tag, _: peer.drip(0x25, tag, 4096, 4096, 0),
        lambda peer, tag, _: peer.drip(0x21, tag, 4096, 4096, 0),
        lambda peer, tag, _: peer.drip(0x24, tag, 262148, 65536, 0),
        lambda peer, tag, _: peer.text(tag + 1, TWO),
        lambda peer, tag, _: peer.text(tag, TWO, flags=0),
        lambda peer, tag, _: peer.text(tag, bytes(262144), flags=0, target_tag=5),
        lambda peer, tag, _: peer.text(tag, b"TargetAddress=127.0.0.1:1,1\0"),
        lambda peer, tag, _: peer.reject(),
        lambda peer, tag, _: peer.ask_for_logout(),
    ],
    ids=[
        "R2T", "R2T for 4 GiB", "R2T behind a ping", "Data-In", "response", "too long", "another tag", "parts without a tag",
        "without end", "an address of nobody", "reject", "logout",
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_an_error_and_no_more(answer) -> None:
    said = discovered(answer)
    assert said["error"] == LOGIN and "discovery failed" in said["message"]


def storm(peer: Connection, tag: int, _: bytes) -> None:
    try:
        while True:
            peer.ping()
    except OSError:
        pass


def parts(peer: Connection, tag: int, _: bytes) -> None:
    peer.text(tag, b"", flags=CONTINUES, target_tag=5)


@pytest.mark.parametrize(
    "answer",
    [lambda peer, tag, _: None, lambda peer, tag, _: peer.drip(0x24, tag, 4096, 1, 0.05), storm, parts],
    ids=["silent", "drips", "pings", "empty parts"],
)
def test_an_answer_without_end_ends_at_the_time_limit(answer) -> None:
    begun = time.monotonic()
    assert discovered(answer, "timeout_ms=1000")["error"] == UNREACHABLE
    assert time.monotonic() - begun < 3


def test_a_portal_that_ends_the_connection_is_unreachable() -> None:
    assert discovered(lambda peer, tag, _: peer.close())["error"] == UNREACHABLE


def test_no_answer_to_the_logout_costs_half_a_second() -> None:
    begun = time.monotonic()

    def answer(peer: Connection, tag: int, _: bytes) -> None:
        peer.list_targets(tag, b"")
        threading.Event().wait(3)

    assert "target" in discovered(answer)
    assert time.monotonic() - begun < 2


def test_what_a_portal_says_is_text_on_the_control_socket(gateway: Gateway) -> None:
    """One bad address hides no target, and no terminal sees what it may not."""
    with FakeTarget() as target:
        target.on_text = lambda peer, tag, _: peer.text(tag, b"TargetName=iqn.a:1\0TargetAddress=\xff\xfe\x1b[2J:1,1\0")
        targets = call(gateway.socket, "discover", portal=target.portal)["targets"]
    assert [one["iqn"] for one in targets] == ["iqn.a:1"]
    assert all(text.isascii() and text.isprintable() for one in targets for text in one["portals"])
