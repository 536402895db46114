"""What a portal may answer to SendTargets: it ends in time, and never the program; the portal is fake_target.py."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable

import fake_target as fake
import pytest
from fake_target import Connection, FakeTarget
from test_iscsi_admin import LOGIN, UNREACHABLE, admin

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, call, wait_until

pytestmark = pytest.mark.timeout(60)
CONTINUES = 0x40
PDU_BYTES = 200_000
TARGETS_MAX = 4096
MEMBER_BYTES = 64 << 20
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


def test_thousands_of_targets_are_listed_up_to_the_limit(gateway: Gateway) -> None:
    """Those of other hosts are not asked; the list comes in as many PDUs as it needs."""
    listed = b"".join(b"TargetName=iqn.a:%05d\0TargetAddress=192.0.2.1:3260,1\0" % number for number in range(5000))
    parts = [listed[at : at + PDU_BYTES] for at in range(0, len(listed), PDU_BYTES)]

    def answer(peer: Connection, tag: int, _: bytes) -> None:
        part = parts.pop(0)
        peer.text(tag, part, **({"flags": CONTINUES, "target_tag": 5} if parts else {}))

    with FakeTarget() as target:
        target.on_text = answer
        targets = call(gateway.socket, "discover", portal=target.portal)["targets"]
        assert len(target.connections) == 1
    assert [one["iqn"] for one in targets] == [f"iqn.a:{number:05}" for number in range(TARGETS_MAX)]
    assert {one["skipped"] for one in targets} == {"other hosts"}


HOSTILE = {
    "ESC": b"iqn.x:\x1b[2J", "C1": b"iqn.x:\xc2\x9b2J", "bytes": b"iqn.x:\xff\xfe", "line": b"iqn.x:a\nb", "space": b"iqn.x:a b",
    "shell": b"iqn.x:$(reboot)", "quote": b"iqn.x:'\"`;|&<>", "path": b"iqn.x/../../etc/passwd", "bidi": "iqn.x:\u202ea".encode(),
    "option": b"--force", "markup": b"<script>", "long": b"iqn.x:" + b"a" * 218, "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_name_that_is_none_is_shown_harmless_and_not_asked_for(gateway: Gateway, name: bytes) -> None:
    with FakeTarget() as target:
        text = b"TargetName=%s\0TargetAddress=%s,1\0TargetName=iqn.a:good\0" % (name, target.portal.encode())
        target.on_text = lambda peer, tag, _: peer.text(tag, text + b"TargetAddress=$(reboot),1\0")
        bad, good = call(gateway.socket, "discover", portal=target.portal)["targets"]
        assert re.fullmatch(r"[\w.:?-]*", bad["iqn"], re.A) and len(bad["iqn"]) < 224
        assert bad["luns"] == [] and "it can't be a member" in bad["error"]
        assert good["iqn"] == "iqn.a:good" and good["portals"] == ["??reboot?"]
        assert len(target.connections) == 1, "it was asked for"
        shown = gateway.must("discover", target.portal).out
    assert all(line.isascii() and line.isprintable() for line in (shown + gateway.engine.said()).splitlines())


@pytest.mark.parametrize(
    "name", [b"\x1b]0;owned\x07", b"\xc2\x9b2J\xff\xfe\0", b"a\r\nb\tc\x7fd\x80"], ids=["OSC", "C1", "lines"]
)
def test_what_a_disk_says_of_itself_is_harmless_wherever_it_is_shown(gateway: Gateway, name: bytes) -> None:
    """Vendor, product and revision, serial number, designator."""

    def answer(command: fake.Command) -> fake.Reply | None:
        if command.opcode != 0x12:
            return None
        if command.cdb[1] & 1 == 0:
            return fake.Reply(data=bytes([0, 0, 6, 2, 31, 0, 0, 2]) + (name * 9)[:28])
        if command.cdb[2] == 0x80:
            return fake.Reply(data=bytes([0, 0x80, 0, len(name)]) + name)
        if command.cdb[2] == 0x83:
            return fake.Reply(data=bytes([0, 0x83, 0, 4 + len(name), 3, 8, 0, len(name)]) + name)
        return None

    with FakeTarget() as target:
        target.rules.append(answer)
        found = call(gateway.socket, "discover", portal=target.portal)["targets"][0]["luns"][0]
        for key in ("vendor", "product", "revision", "serial", "identity"):
            assert found[key].isascii() and found[key].isprintable()
        assert found["vendor"] and found["serial"]
        shown = gateway.must("discover", target.portal).out + str(gateway.iraid("examine", target.member))
    assert all(line.isascii() and line.isprintable() for line in (shown + gateway.engine.said()).splitlines())


# Where it looks


def names(*targets: tuple[str, list[str]]) -> Callable[[Connection, int, bytes], None]:
    """SendTargets: these targets on these portals."""
    text = "".join(
        f"TargetName={iqn}\0" + "".join(f"TargetAddress={at},1\0" for at in portals) for iqn, portals in targets
    )
    return lambda peer, tag, _: peer.text(tag, text.encode())


def seen(gateway: Gateway, target: FakeTarget, **more: bool) -> dict[str, tuple[int, str | None]]:
    """How many LUNs were looked at, and why not."""
    found = call(gateway.socket, "discover", portal=target.portal, **more)["targets"]
    return {one["iqn"]: (len(one["luns"]), one.get("skipped") or one.get("error")) for one in found}


def test_only_the_host_that_was_asked_is_looked_at(gateway: Gateway) -> None:
    with FakeTarget() as target, FakeTarget(host="127.0.0.2") as other:
        here, there = target.portal, other.portal
        port = here.split(":")[1]
        target.on_text = names(
            ("iqn.a:asked", [here]), ("iqn.a:other", [there]), ("iqn.a:both", [there, here]), ("iqn.a:none", []),
            ("iqn.a:many", [there] * 12 + [here]), ("iqn.a:odd", [f"[127.0.0.1]evil:{port}", f"127.0.0.1:{port}.evil:1"]),
            ("iqn.a:name", [f"no-such-host.invalid:{port}"]), ("iqn.a:mapped", [f"[::ffff:127.0.0.2]:{port}"]),
            ("iqn.a:hex", [f"0x7f.1:{port}"]), ("iqn.a:any", [f"0.0.0.0:{port}"]),
        )  # fmt: skip
        away = (0, "other hosts")
        assert seen(gateway, target) == {
            "iqn.a:asked": (1, None), "iqn.a:other": away, "iqn.a:both": (1, None), "iqn.a:none": (1, None),
            "iqn.a:many": (1, None), "iqn.a:odd": away, "iqn.a:name": away, "iqn.a:mapped": away, "iqn.a:hex": (1, None),
            "iqn.a:any": away,
        }  # fmt: skip
        assert not other.connections
        target.on_text = names(("iqn.a:other", [there]), ("iqn.a:both", [there, here]))
        assert seen(gateway, target, all_portals=True) == {"iqn.a:other": (1, None), "iqn.a:both": (1, None)}
        assert other.connections
        said = gateway.must("discover", here).out
        assert there in said and f"iraid discover --all-portals {here}" in said
        assert "--all-portals" not in gateway.must("discover", "--all-portals", here).out


def test_a_host_that_was_asked_by_its_name_is_the_same_by_its_addresses(gateway: Gateway) -> None:
    with FakeTarget() as target:
        port = target.portal.split(":")[1]
        target.on_text = names(("iqn.a:1", [target.portal]), ("iqn.a:2", [f"LOCALHOST:{port}"]))
        found = call(gateway.socket, "discover", portal=f"localhost:{port}")["targets"]
        assert [len(one["luns"]) for one in found] == [1, 1]


@pytest.mark.parametrize("of", ["discovery", "target"])
def test_a_redirection_leads_to_no_other_host(gateway: Gateway, of: str) -> None:
    with FakeTarget() as target, FakeTarget(host="127.0.0.2") as other:

        def ask(**more: bool) -> object:
            target.redirect = None
            if of == "discovery":
                target.redirect = other.portal
            else:
                target.on_text = lambda peer, tag, _: (
                    setattr(target, "redirect", other.portal), peer.list_targets(tag, b""),
                )  # fmt: skip
            return seen(gateway, target, **more)

        if of == "discovery":
            with pytest.raises(RpcError, match=f"another host, {other.portal}"):
                ask()
        else:
            ((count, why),) = ask().values()  # type: ignore[attr-defined]
            assert count == 0 and f"another host, {other.portal}" in why
        assert not other.connections
        assert ask(all_portals=True) and other.connections


@pytest.mark.long
@pytest.mark.timeout(150)
def test_a_discovery_of_many_targets_that_hang_ends_in_time(gateway: Gateway) -> None:
    """4,000 of them, 10 s each."""
    with FakeTarget() as target:
        begun = time.monotonic()

        def answer(peer: Connection, tag: int, text: bytes) -> None:
            target.login_instead = True
            names(*((f"iqn.a:{number}", [target.portal]) for number in range(4000)))(peer, tag, text)

        target.on_text = answer
        found = gateway.must("discover", target.portal, "--json", seconds=120).json["targets"]
        assert 55 < time.monotonic() - begun < 75
        assert len(found) == 4000 and [one["skipped"] for one in found].count("time") > 3990


# What it says in a session

SAID = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b2J\r\nforged: all is well\xff\xfe\0" * 3


def message(peer: Connection, event: int, text: bytes) -> None:
    """An asynchronous message; a SCSI event's data is sense data with its length before it (RFC 7143, 11.9.4)."""
    header = peer._header(0x32, fake.FINAL, tag=fake.NO_TAG)
    data = len(text).to_bytes(2, "big") + text if event == 0 else text
    peer.send(header[:36] + bytes([event, 0x1B, 0x9B, 0x0A, 0x1B, 0x5B, 0, 1]) + bytes(4), data)


@pytest.mark.parametrize(
    "say, why",
    [
        (lambda peer: peer.reject(reason=4, rejected=SAID), "rejected a PDU, reason 0x04"),
        (lambda peer: peer.reject(reason=0x1B, rejected=SAID[:20]), "rejected a PDU, reason 0x1b"),
        (lambda peer: peer.reject(reason=2, rejected=bytes([fake.DATA_OUT]) + SAID), "reason 0x02 (wrong data digest)"),
        (lambda peer: message(peer, 0, SAID), None),
        (lambda peer: message(peer, 1, SAID), "asks for a logout"),
        (lambda peer: message(peer, 3, SAID), "drops the session"),
        (lambda peer: message(peer, 0x9B, SAID), None),
        (lambda peer: message(peer, 255, SAID), None),
    ],
    ids=["rejected", "rejected for no reason", "wrong digest", "SCSI", "logout", "drop", "unknown", "of a vendor"],
)
def test_what_a_target_rejects_or_announces_is_harmless_wherever_it_is_shown(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], say: Callable[[Connection], None], why: str | None
) -> None:
    with FakeTarget(size_bytes=MEMBER_BYTES) as target:
        gateway.create("v0", [make_farm(1).member(0), target.member], 1)
        peer, before = target.connections[-1], len(target.connections)
        answered = target.pings_answered
        say(peer)
        if why:
            wait_until(lambda: len(target.connections) > before, "the next login")
        else:
            peer.ping()
            wait_until(lambda: target.pings_answered > answered, "an answer")
        shown = gateway.must("events").out + gateway.must("status", "v0").out
        texts = json.dumps([call(gateway.socket, "events"), gateway.status("v0")], ensure_ascii=False)
    assert (why or "") in shown + gateway.engine.said() + texts
    for line in (shown + gateway.engine.said() + texts).splitlines():
        assert line.isascii() and line.isprintable() and "owned" not in line and "forged" not in line, line
