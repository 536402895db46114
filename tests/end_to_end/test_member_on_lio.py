"""Members on the kernel's own target: what it does otherwise than tgt.

LIO pings every session each 15 s, distinguishes initiators by name only, and has real
persistent reservations.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from backend_probe import SECOND, Probe

from iraid_dev.stack.private_gateway import Gateway
from iraid_dev.stack.raw_initiator import RawInitiator

PING_SECONDS = 15


@pytest.fixture(params=["tuned", pytest.param("usual limits", marks=pytest.mark.long)])
def member(request, memory_folder: Path, monkeypatch) -> Iterator[str]:
    from iraid_dev.stack import lio_targets

    if request.param != "tuned":
        monkeypatch.setattr(lio_targets, "PARAMETERS", {})
    with lio_targets.LioTargets(memory_folder / "member", 1, 64 << 20) as targets:
        yield targets.member(0)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("chap", "proof", "closed"),
    [
        (("joe", "secret of joe 12"), None, None),
        (("joe", "secret of joe 12"), ("target", "secret of it 123"), None),
        (("joe", "another secret 1"), None, "authentication failed"),
        (None, None, "asks for no CHAP"),
    ],
    ids=["one way", "mutual", "wrong secret", "none"],
)
def test_chap_is_required_and_both_sides_prove_themselves(memory_folder, tmp_path, start, chap, proof, closed) -> None:
    from iraid_dev.stack.lio_targets import LioTargets

    def secrets(lines: str) -> str:
        path = tmp_path / "chap-file"
        path.write_text(lines)
        path.chmod(0o600)
        return f"secrets={path}"

    one_way = secrets("joe\nsecret of joe 12\n")
    with LioTargets(memory_folder / "chap", 1, 64 << 20, chap=chap, proof=proof) as targets:
        if closed:
            answer = start(targets.member(0), one_way).ask("open")
            assert answer.startswith("closed EACCES") and closed in answer, answer
        elif proof is None:
            start(targets.member(0), one_way).open()
        if chap and not closed:
            wrong = secrets("joe\nsecret of joe 12\ntarget\nanother secret\n")
            assert "did not prove who it is" in start(targets.member(0), wrong).ask("open")
        if proof:
            start(targets.member(0), secrets("joe\nsecret of joe 12\ntarget\nsecret of it 123\n")).open()


@pytest.mark.timeout(120)
def test_pings_are_survived_under_load(member, start) -> None:
    probe = start(member, "key=aa11", "deadline_ms=10000")
    probe.open()
    probe.say(f"bench write 32 1048576 {PING_SECONDS + 3}")
    answer = probe.line()
    assert answer.startswith("bench ") and answer.endswith("failed 0"), answer
    assert probe.ask("flush") == "flush 0 0 0"


@pytest.mark.timeout(120)
def test_one_gateway_at_a_time_has_the_member(member, start) -> None:
    first = start(member, "key=aa11", "deadline_ms=10000")
    opened = first.open()
    assert "reservation=1" in opened and opened.endswith("taken=1 predecessor=0")
    second = start(member, *SECOND, "deadline_ms=10000")
    closed = second.ask("open")  # although LIO does not even tell its size
    assert "in use by another gateway, reservation key 0x000000000000aa11" in closed
    assert first.ask("write 0 4096 1") == "write 0 4096 0"

    usurper = start(member, *SECOND, "take_over_ms=60000", "deadline_ms=10000")
    assert usurper.open().endswith("taken=1 predecessor=aa11")
    assert usurper.ask("write 0 4096 2") == "write 0 4096 0"
    assert first.line().startswith("closed ")  # LIO has ended its session
    assert "reservation key 0x000000000000bb22" in first.ask("open")
    assert usurper.ask("read 0 4096 2") == "read 0 4096 0 same"
    assert usurper.ask("release").startswith("closed ECANCELED")

    third = start(member, "key=cc33", "isid=3", "initiator=iqn.2026-01.org.iraid.test:third")
    assert third.open().endswith("taken=1 predecessor=0")


@pytest.mark.timeout(120)
def test_the_same_gateway_gets_its_member_again_after_a_crash(member, start) -> None:
    crashed = Probe(member, "key=aa11")
    crashed.open()
    crashed.process.kill()
    crashed.process.wait()
    again = start(member, "key=aa11", "deadline_ms=10000")
    assert again.open().endswith("taken=1 predecessor=0")
    assert again.ask("write 0 4096 1") == "write 0 4096 0"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("isid", [b"\x80\x01\x02\x03\x04\x05", b"\x80\x01\x02\x03\x04\x09"], ids=["ours", "another"])
def test_a_reservation_that_an_earlier_release_left_is_taken(member, start, isid) -> None:
    """Of the kind that barred writers only, by our key; LIO tells a registrant by its ISID, too."""
    portal, iqn, _ = member.split("/")
    initiator = "iqn.2026-01.org.iraid.test:probe"
    old = RawInitiator(portal, iqn, initiator)
    old._isid = isid
    with old:
        for action, key, action_key in ((6, 0, 0xAA11), (1, 0xAA11, 0)):  # REGISTER AND IGNORE, RESERVE
            cdb = bytes([0x5F, action, 5, 0, 0, 0, 0, 0, 24, 0])
            while old.ask(cdb, struct.pack(">QQ8x", key, action_key)).status != 0:
                pass  # unit attentions
    probe = start(member, "key=aa11", f"initiator={initiator}", "deadline_ms=10000")
    assert probe.open().endswith("taken=1 predecessor=0")
    with RawInitiator(portal, iqn, "iqn.2026-01.org.iraid.test:stranger") as stranger:
        while (status := stranger.ask(bytes.fromhex("28000000000000000100"), read_bytes=512).status) == 2:
            pass
        assert status == 0x18


@pytest.mark.timeout(120)
def test_a_lun_that_was_unmapped_under_its_session_is_opened_anew(member, start) -> None:
    """With the mapping LIO forgets reservation and key, and the session lives on."""
    import rtslib_fb as rtslib

    probe = start(member, "key=aa11", "deadline_ms=10000")
    assert "reservation=1" in probe.open()
    group = next(rtslib.Target(rtslib.FabricModule("iscsi"), member.split("/")[1], mode="lookup").tpgs)
    lun = next(group.luns)
    storage = lun.storage_object
    lun.delete()
    rtslib.LUN(group, 0, storage_object=storage)
    closed = probe.line()
    assert closed.startswith("closed ECONNRESET") and "its reservation is gone" in closed, closed
    assert probe.open().endswith("taken=1 predecessor=0")
    assert probe.ask("write 0 4096 1") == "write 0 4096 0"


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[tuple[Gateway, Gateway]]:
    with tempfile.TemporaryDirectory(prefix="iraid-") as sockets:
        made = tuple(Gateway(tmp_path / name, Path(sockets) / name) for name in ("one", "two"))
        for gateway in made:
            gateway.start()
        yield made
        for gateway in made:
            gateway.close()


def keys(member: str) -> set[int]:
    portal, iqn, _ = member.split("/")
    with RawInitiator(portal, iqn, "iqn.2026-01.org.iraid.test:stranger") as session:
        while (answer := session.ask(bytes.fromhex("5e000000000000040000"), read_bytes=1024)).status != 0:
            pass
        listed = int.from_bytes(answer.data[4:8], "big")
        return {int.from_bytes(answer.data[8 + at : 16 + at], "big") for at in range(0, listed, 8)}


@pytest.mark.timeout(240)
def test_members_in_use_are_looked_at_all_the_same(memory_folder: Path, gateways) -> None:
    """LIO tells nothing of them but their names: to this gateway not by another session, to another one as a registrant."""
    from iraid_dev.stack.lio_targets import LioTargets

    one, two = gateways
    other_name = ("--initiator", "iqn.2026-01.org.iraid.test:two")
    with LioTargets(memory_folder / "used", 3, 64 << 20) as targets:
        members = targets.members()
        one.must("create", "v0", "--level", "5", *members)
        held = keys(members[0])
        assert len(held) == 1
        for gateway, options in ((one, ()), (two, other_name)):
            seen = gateway.must("examine", *options, members[0], "--json").json["members"][0]
            assert (seen["superblock"]["name"], seen["superblock"]["role"]) == ("v0", 0)
            assert seen["device"]["size_bytes"] == 64 << 20
            assert "iraid volume v0, member 1" in gateway.must("discover", *options, targets.portal(1)).out
            assert keys(members[0]) == keys(members[1]) == held  # who looked has left
        assert one.status("v0")["state"] == "active"
        refused = one.iraid("create", "v1", "--level", "5", "--force", *members)
        assert refused.status == 1 and 'is a member of volume "v0"' in refused.err, refused
        refused = two.iraid("create", "v1", "--level", "5", "--force", *other_name, *members)
        assert refused.status == 1, refused
        assert f"is in use by another gateway, reservation key 0x{held.pop():016x}" in refused.err, refused
        one.kill()
        two.must("import", *other_name, *members)
        assert "active" in two.must("start", "v0", "--take-over").out
        two.must("stop", "v0")


@pytest.mark.timeout(240)
def test_a_member_in_use_has_the_size_that_it_was_given_since(memory_folder: Path, gateways) -> None:
    """examine says what `iraid grow` would find; check mode of the Ansible role asks it."""
    from iraid_dev.stack.lio_targets import GrowingTargets

    one, _ = gateways
    with GrowingTargets(memory_folder / "enlarged", 3, 64 << 20) as targets:
        one.must("create", "v0", "--level", "5", *targets.members())
        before = one.status("v0")
        for number, size_bytes in enumerate((96 << 20, 80 << 20, 64 << 20)):
            targets.grow(number, size_bytes)
        seen = one.must("examine", *targets.members(), "--json").json["members"]
        assert [member["device"]["size_bytes"] for member in seen] == [96 << 20, 80 << 20, 64 << 20]
        now = one.status("v0")
        assert now["size_bytes"] == before["size_bytes"] and now["state"] == "active"
        targets.grow(2, 80 << 20)
        one.must("grow", "v0")
        assert one.status("v0")["size_bytes"] > before["size_bytes"]


@pytest.mark.timeout(240)
def test_what_a_dead_gateway_left_reserved_is_its_own_again(memory_folder: Path, gateways) -> None:
    """It could not give it back, and LIO lets nobody read, clear or wipe it who has another ISID."""
    from iraid_dev.stack.lio_targets import LioTargets

    one, _ = gateways
    with LioTargets(memory_folder / "left", 3, 64 << 20) as targets:
        members = targets.members()
        one.must("create", "v0", "--level", "5", *members)
        one.kill()
        one.start()
        assert len(keys(members[0])) == 1
        one.must("delete", "v0", "--yes")
        assert [keys(member) for member in members] == [set()] * 3
        one.must("create", "v1", "--level", "5", *members)
