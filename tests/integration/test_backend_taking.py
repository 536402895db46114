"""Who may use a member, and what a take-over proves: nobody but us reads it, writes it, or is registered on it."""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Iterator
from typing import Any

import fake_target as fake
import pytest
from backend_probe import SECOND, Probe, result
from fake_target import PREEMPT, PREEMPT_AND_ABORT, READ_KEYS, REGISTER, REGISTER_AND_IGNORE, RESERVE, FakeTarget, Reply

from iraid_dev.stack.raw_initiator import RawInitiator

pytestmark = pytest.mark.timeout(60)
EACCES, ENOTCONN = -13, -107
GOOD, CONFLICT = 0, 0x18
LUN = 1  # of tgtd's targets
TEST_UNIT_READY, READ = bytes(6), bytes.fromhex("28000000000000000100")
WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS = 5, 6  # both Registrants Only
TAKE_OVER = "take_over_ms=60000"


class Stranger(RawInitiator):
    """An initiator that is not iraid."""

    def settle(self) -> None:
        while self.ask(TEST_UNIT_READY, lun=LUN).status != GOOD:
            pass

    def reads(self) -> int:
        self.settle()
        return self.ask(READ, read_bytes=512, lun=LUN).status

    def reserve_out(self, action: int, key: int, action_key: int, kind: int = WRITE_EXCLUSIVE) -> int:
        self.settle()
        cdb = bytes([0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0])
        return self.ask(cdb, struct.pack(">QQ8x", key, action_key), lun=LUN).status

    def keys(self) -> set[int]:
        self.settle()
        answer = self.ask(bytes([0x5E, READ_KEYS, 0, 0, 0, 0, 0, 4, 0, 0]), read_bytes=1024, lun=LUN).data
        listed = int.from_bytes(answer[4:8], "big")
        return {int.from_bytes(answer[8 + at : 16 + at], "big") for at in range(0, listed, 8)}


@pytest.fixture
def stranger(farm) -> Iterator[Stranger]:
    portal, iqn, _ = farm.member(0).split("/")
    with Stranger(portal, iqn, "iqn.2026-01.org.iraid.test:stranger") as session:
        assert isinstance(session, Stranger)
        yield session


def dies(member: str, *options: str) -> None:
    probe = Probe(member, *options)
    probe.open()
    probe.process.kill()
    probe.process.wait()


# --- on tgtd ---


def test_nobody_else_reads_a_member_in_use(farm, start, stranger) -> None:
    assert stranger.reads() == GOOD
    opened = start(farm.member(0), "key=aa11").open()
    assert "reservation=1" in opened and opened.endswith("taken=1 predecessor=0")
    assert stranger.reads() == CONFLICT
    assert stranger.keys() == {0xAA11}


def test_a_take_over_proves_that_the_other_is_gone(farm, start, stranger) -> None:
    first = start(farm.member(0), "key=aa11", "isid=1")
    first.open()
    second = start(farm.member(0), *SECOND, TAKE_OVER)
    assert second.open().endswith("taken=1 predecessor=aa11")
    assert stranger.keys() == {0xBB22}
    assert result(first.ask("read 0 4096 1")) in (EACCES, ENOTCONN)  # what it could read may be old
    # Also after its session was lost it knows whose it was.
    second.ask("close")
    assert second.open().endswith("taken=1 predecessor=aa11")


@pytest.mark.parametrize("held_by", ["a session that is there", "a session that ended"])
def test_a_reservation_that_an_earlier_release_left_is_taken(farm, start, stranger, held_by) -> None:
    """It barred writers only; the key is ours."""
    portal, iqn, _ = farm.member(0).split("/")
    with Stranger(portal, iqn, "iqn.2026-01.org.iraid.test:probe") as old:
        assert isinstance(old, Stranger)
        assert old.reserve_out(REGISTER_AND_IGNORE, 0, 0xAA11) == GOOD
        assert old.reserve_out(RESERVE, 0xAA11, 0) == GOOD
        if held_by == "a session that ended":
            old._socket.close()
        assert stranger.reads() == GOOD
        probe = start(farm.member(0), "key=aa11")
        assert probe.open().endswith("taken=1 predecessor=0")
        assert stranger.reads() == CONFLICT
        assert stranger.keys() == {0xAA11}


def test_a_member_that_was_away_is_taken_from_the_predecessor_only(farm, start) -> None:
    dies(farm.member(0), "key=aa11", "isid=1")
    returned = start(farm.member(0), *SECOND)
    returned.say("predecessor cc33")
    assert "reservation key 0x000000000000aa11" in returned.ask("open")
    returned.say("predecessor aa11")
    assert returned.open().endswith("taken=1 predecessor=aa11")
    assert returned.ask("write 0 4096 1") == "write 0 4096 0"
    # Who has that key on it later took it from us: two gateways do not take turns.
    start(farm.member(0), "key=aa11", "isid=1", TAKE_OVER).open()
    assert returned.ask("write 0 4096 1") != "write 0 4096 0"
    assert returned.line().startswith("closed ")
    assert "reservation key 0x000000000000aa11" in returned.ask("open")


def test_the_predecessor_may_take_back_one_of_which_nothing_is_proven(farm, start, stranger) -> None:
    dies(farm.member(0), "key=aa11", "isid=1")
    assert stranger.reserve_out(REGISTER_AND_IGNORE, 0, 0xCC33) == GOOD
    returned = start(farm.member(0), *SECOND)
    returned.say("predecessor aa11")
    assert " taken=0 " in returned.open()
    start(farm.member(0), "key=aa11", "isid=1", TAKE_OVER).open()
    assert returned.ask("write 0 4096 1") != "write 0 4096 0"
    assert returned.line().startswith("closed ")
    assert "reservation key 0x000000000000aa11" in returned.ask("open")


@pytest.mark.parametrize(
    ("option", "said", "taken", "left"),
    [
        (None, None, 0, {0xBB22, 0xCC33}),
        (TAKE_OVER, None, 1, {0xBB22}),
        (None, "predecessor cc33", 1, {0xBB22}),
        (None, "predecessor aa11", 0, {0xBB22, 0xCC33}),
    ],
    ids=["no permission", "take-over", "predecessor", "another predecessor"],
)
def test_who_is_registered_beside_us_may_write(farm, start, stranger, option, said, taken, left) -> None:
    """Also without the reservation.  Who may not be expelled is no reason to refuse the member, but it proves nothing."""
    assert stranger.reserve_out(REGISTER_AND_IGNORE, 0, 0xCC33) == GOOD
    probe = start(farm.member(0), *SECOND, *([option] if option else []))
    if said:
        probe.say(said)
    assert f" taken={taken} " in probe.open()
    assert stranger.reads() == (CONFLICT if taken else GOOD)
    assert stranger.keys() == left


def test_who_comes_too_late_leaves_no_key(farm, start, stranger) -> None:
    """It found no holder, and when it came to RESERVE there was one: as a registrant it could write."""
    reservations = fake.Reservations()
    late = True

    def rule(command: fake.Command) -> Reply | None:
        nonlocal late
        if late and command.opcode == 0x5F and command.cdb[1] & 0x1F == RESERVE:
            late = False
            reservations.holder, reservations.kind = (0xDD44).to_bytes(8, "big"), EXCLUSIVE_ACCESS
            return fake.RESERVED
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        assert "0x000000000000dd44" in start(target.member, "key=1").ask("open")
        assert not late and reservations.own == bytes(8)
        assert reservations.holder == (0xDD44).to_bytes(8, "big")


# --- targets that forbid more, and such that lie ---


def barring(reservations: fake.Reservations) -> fake.Rule:
    """As LIO has it: who is not registered is not even told the size."""

    def rule(command: fake.Command) -> Reply | None:
        foreign = any(reservations.holder) and reservations.holder != reservations.own
        if foreign and (command.is_capacity or command.opcode == 0x1A):
            return fake.RESERVED
        return reservations(command)

    return rule


@pytest.mark.parametrize("holder", [1, 0xAA11], ids=["ours", "another's"])
def test_what_a_reservation_forbids_is_asked_when_it_is_ours(start, holder) -> None:
    reservations = fake.Reservations()
    reservations.holder, reservations.kind = holder.to_bytes(8, "big"), EXCLUSIVE_ACCESS
    with FakeTarget() as target:
        target.rules.append(barring(reservations))
        resets = []
        target.on_reset = lambda: resets.append(1)
        if holder != 1:
            closed = start(target.member, "key=1").ask("open")
            assert closed.startswith("closed EBUSY")
            assert "in use by another gateway, reservation key 0x000000000000aa11" in closed
            assert not resets and reservations.own == bytes(8)
        probe = start(target.member, "key=1", TAKE_OVER)
        opened = probe.open()
        assert "capacity=1048576 " in opened and f"taken=1 predecessor={holder if holder > 1 else 0:x}" in opened


def test_a_target_without_keys_that_is_reserved_is_left_alone(start) -> None:
    """By RESERVE of SPC-2, say: our reset would abort the other one's I/O."""
    with FakeTarget() as target:
        target.rules.append(lambda command: fake.RESERVED if command.is_capacity else None)
        resets = []
        target.on_reset = lambda: resets.append(1)
        closed = start(target.member, "key=1").ask("open")
        assert re.match(r"closed EBUSY .*in use by another initiator: READ CAPACITY", closed), closed
        assert not resets


def keys(*listed: int, length: int | None = None, cut: int | None = None) -> Reply:
    data = b"".join(key.to_bytes(8, "big") for key in listed)
    header = bytes(4) + (len(data) if length is None else length).to_bytes(4, "big")
    return Reply(data=(header + data)[:cut])


LIES = {
    "nothing": keys(cut=0),
    "half a header": keys(1, cut=6),
    "cut off in a key": keys(1, 2, cut=20),
    "cut off before a key": keys(1, 2, cut=16),
    "half a key": keys(1, length=12),
    "key zero": keys(1, 0),
    "we are not in it": keys(),
    "more than it sends": keys(*[1] * 511, length=4096),
    "without end": keys(1, length=0xFFFFFFFF),
    "thousands": keys(*range(2, 9000)),
    "refused": fake.ILLEGAL,
    "ours a thousand times": keys(*[1] * 1000),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("option", [None, TAKE_OVER])
def test_keys_that_make_no_sense_prove_nothing(start, lie, option) -> None:
    """And end: a list that never becomes shorter is not asked for ever.  The reservation is enough for all else."""
    reservations = fake.Reservations()

    def rule(command: fake.Command) -> Reply | None:
        if command.opcode == 0x5E and command.cdb[1] & 0x1F == READ_KEYS:
            return LIES[lie]
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        probe = start(target.member, "key=1", *([option] if option else []))
        opened = probe.open()
        assert "reservation=1" in opened and " taken=0 " in opened
        assert len(reservations.preempted) <= 64
        assert bool(reservations.preempted) == (lie == "thousands" and option is not None)
        assert probe.ask("write 0 4096 1") == "write 0 4096 0"


def test_keys_that_fill_the_answer_are_all(start) -> None:
    reservations = fake.Reservations()

    def rule(command: fake.Command) -> Reply | None:
        asked = command.opcode == 0x5E and command.cdb[1] & 0x1F == READ_KEYS
        return keys(*[1] * 511) if asked else reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        assert " taken=1 " in start(target.member, "key=1").open()


def test_who_is_expelled_is_fenced_off_before_the_session_opens(start) -> None:
    """What it had sent may still be on its way: a reset comes behind the last PREEMPT."""
    reservations = fake.Reservations(0xCC33, 0xDD44)
    seen = []

    def rule(command: fake.Command) -> Reply | None:
        if command.opcode == 0x5F:
            seen.append(command.cdb[1] & 0x1F)
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        target.on_reset = lambda: seen.append("reset")
        opened = start(target.member, "key=1", TAKE_OVER).open()
        assert " taken=1 " in opened
        assert seen == [REGISTER_AND_IGNORE, RESERVE, "reset", PREEMPT_AND_ABORT, PREEMPT_AND_ABORT, "reset"]
        assert reservations.preempted == [0xCC33, 0xDD44] and reservations.kind == EXCLUSIVE_ACCESS


@pytest.mark.parametrize("status", [fake.RESERVED, fake.ILLEGAL], ids=["it has left", "only PREEMPT is known"])
def test_a_key_that_goes_another_way_is_gone_too(start, status) -> None:
    reservations = fake.Reservations(0xCC33)

    def rule(command: fake.Command) -> Reply | None:
        if command.opcode == 0x5F and command.cdb[1] & 0x1F == PREEMPT_AND_ABORT:
            if status is fake.RESERVED:
                reservations.others.clear()
            return status
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        assert " taken=1 " in start(target.member, "key=1", TAKE_OVER).open()
        assert reservations.preempted == ([] if status is fake.RESERVED else [0xCC33])


@pytest.mark.parametrize("holder", [0, 0xAA11], ids=["free", "to be preempted"])
def test_a_target_that_can_only_bar_writers_is_used_and_proves_nothing(start, holder) -> None:
    reservations = fake.Reservations()
    reservations.holder = holder.to_bytes(8, "big")

    def rule(command: fake.Command) -> Reply | None:
        reserving = command.opcode == 0x5F and command.cdb[1] & 0x1F in (RESERVE, PREEMPT, PREEMPT_AND_ABORT)
        return fake.ILLEGAL if reserving and command.cdb[2] == EXCLUSIVE_ACCESS else reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        opened = start(target.member, "key=1", TAKE_OVER).open()
        assert "reservation=1" in opened and " taken=0 " in opened
        assert reservations.kind == WRITE_EXCLUSIVE


def test_a_reservation_of_another_kind_than_was_asked_for_proves_nothing(start) -> None:
    reservations = fake.Reservations()

    def rule(command: fake.Command) -> Reply | None:
        reply = reservations(command)
        reservations.kind = WRITE_EXCLUSIVE
        return reply

    with FakeTarget() as target:
        target.rules.append(rule)
        opened = start(target.member, "key=1").open()
        assert "reservation=1" in opened and " taken=0 " in opened


def test_an_opening_that_ends_behind_its_preempt_is_gone_on_with(start) -> None:
    """Its permission is spent with the reservation; what it had preempted it may expel, and it tells of it."""
    reservations = fake.Reservations()
    reservations.holder = (0xAA11).to_bytes(8, "big")
    failing = True

    def rule(command: fake.Command) -> Reply | None:
        if failing and command.opcode == 0x1A:
            return fake.sense(4, 0x4400)
        return reservations(command)

    with FakeTarget() as target:
        target.rules.append(rule)
        probe = start(target.member, "key=1", TAKE_OVER)
        assert probe.ask("open").startswith("closed EINVAL")
        failing = False
        reservations.others = [0xAA11]  # registered by another of its ports
        assert probe.open().endswith("taken=1 predecessor=aa11")
        assert reservations.preempted == [0xAA11, 0xAA11]


def test_register_is_forgotten_after_a_release(farm, start, stranger) -> None:
    probe = start(farm.member(0), "key=aa11")
    probe.open()
    assert probe.ask("release").startswith("closed ECANCELED")
    assert stranger.keys() == set()
    assert stranger.reserve_out(REGISTER, 0, 0xCC33) == GOOD


# --- LIO does not wait for what a session that it is closing has under way; a log-in as its initiator does ---

OTHER_NAME, OTHER_ISID = "iqn.2026-01.org.iraid.test:other", "8000000000aa"
OTHERS_PORT = f"{OTHER_NAME},i,0x{OTHER_ISID}"
OUR_NAME, OUR_ISID = "iqn.2026-01.org.iraid.test:probe", "800102030405"


class FakeLio(FakeTarget):
    """Held by another gateway, whose session it may be closing; says who logged in."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.reservations = fake.Reservations(0xAA11)
        self.reservations.holder = (0xAA11).to_bytes(8, "big")
        self.reservations.ports = {0xAA11: OTHERS_PORT, 1: f"{OUR_NAME},i,0x{OUR_ISID}"}
        self.rules += [fake.vendor(b"LIO-ORG "), self.reservations]
        self.names: list[str] = []
        self.refuses_others = False
        self.on_login = self._answer

    def _answer(self, _: fake.Connection, flags: int, asked: dict[str, str]) -> fake.LoginAnswer:
        if name := asked.get("InitiatorName"):
            self.names.append(name)
        refused = self.refuses_others and name not in (None, OUR_NAME)
        return fake.LoginAnswer(flags, self.keys, 0x0202 if refused else 0)


def test_whom_lio_may_be_closing_is_waited_for(start) -> None:
    with FakeLio() as target:
        target.on_reset = lambda: target.names.append("reset")
        probe = start(target.member, "key=1", TAKE_OVER)
        assert probe.open().endswith("taken=1 predecessor=aa11")
        assert target.names == [OUR_NAME, "reset", OTHER_NAME]
        assert target.isids[-1].hex() == OTHER_ISID
        assert probe.ask("write 0 4096 1") == "write 0 4096 0"
        probe.ask("close")
        assert probe.open().endswith("taken=1 predecessor=aa11")
        assert target.names.count(OTHER_NAME) == 1  # it has ended


def test_nobody_is_waited_for_who_was_not_preempted(start) -> None:
    with FakeLio() as target:
        target.reservations.holder, target.reservations.others = bytes(8), []
        assert start(target.member, "key=1", TAKE_OVER).open().endswith("taken=1 predecessor=0")
        assert target.names == [OUR_NAME]


def test_all_who_are_expelled_are_waited_for(start) -> None:
    with FakeLio() as target:
        target.reservations.others += [0xCC33]
        target.reservations.ports[0xCC33] = f"{OTHER_NAME}2,i,0x{OTHER_ISID}"
        assert " taken=1 " in start(target.member, "key=1", TAKE_OVER).open()
        assert target.names == [OUR_NAME, OTHER_NAME, f"{OTHER_NAME}2"]


FULL_STATUS_LIES = {
    "no port": {},
    "no isid": {0xAA11: OTHER_NAME},
    "no name": {0xAA11: f",i,0x{OTHER_ISID}"},
    "no initiator's name": {0xAA11: f"InitiatorName=\n,i,0x{OTHER_ISID}"},
    "a name without end": {0xAA11: "iqn." + "a" * 300 + f",i,0x{OTHER_ISID}"},
    "an isid without end": {0xAA11: OTHERS_PORT + "a" * 300},
    "our own": {0xAA11: f"{OUR_NAME},i,0x{OUR_ISID}"},
    "an isid of another kind": {0xAA11: f"{OTHER_NAME},i,0x00023d000001"},
}


@pytest.mark.parametrize("lie", FULL_STATUS_LIES)
def test_who_can_t_be_waited_for_proves_nothing(start, lie) -> None:
    with FakeLio() as target:
        target.reservations.ports = {1: f"{OUR_NAME},i,0x{OUR_ISID}"} | FULL_STATUS_LIES[lie]
        probe = start(target.member, "key=1", TAKE_OVER)
        assert probe.open().endswith("taken=0 predecessor=aa11")
        assert target.names == [OUR_NAME]
        assert probe.ask("write 0 4096 1") == "write 0 4096 0"


def test_who_came_by_another_portal_group_can_t_be_waited_for(start) -> None:
    with FakeLio() as target:
        target.reservations.relative_ports = {OTHERS_PORT: 2}
        assert start(target.member, "key=1", TAKE_OVER).open().endswith("taken=0 predecessor=aa11")
        assert target.names == [OUR_NAME]


def test_a_target_that_lets_nobody_in_as_the_other_proves_nothing(start) -> None:
    with FakeLio() as target:
        target.refuses_others = True
        probe = start(target.member, "key=1", TAKE_OVER)
        assert probe.open().endswith("taken=0 predecessor=aa11")
        assert target.names == [OUR_NAME, OTHER_NAME]
        probe.ask("close")
        assert " taken=0 " in probe.open()  # nor does time


def test_a_wait_that_does_not_end_ends_the_opening_and_is_gone_on_with(start) -> None:
    with FakeLio() as target:
        held = threading.Event()
        target.say_login = lambda connection, _, answer: (
            None if target.names[-1] == OTHER_NAME and not held.is_set() else connection.peer.sendall(answer)
        )
        probe = start(target.member, "key=1", TAKE_OVER, "connect_ms=1000")
        closed = probe.ask("open")
        assert re.match(r"closed ETIMEDOUT .*the wait for the end of the session that was preempted", closed), closed
        held.set()
        target.names.append(OUR_NAME)
        assert probe.open().endswith("taken=1 predecessor=aa11")
        assert target.names[-2:] == [OUR_NAME, OTHER_NAME]


# --- and the gateway that preempted it may end before it knows ---


@pytest.mark.parametrize("why", ["refused", "not told"])
def test_what_can_t_be_proven_is_not_forgotten_with_the_session(start, tmp_path, why) -> None:
    """An activation that is refused gives all back, and the next one finds nobody's key."""
    with FakeLio() as target:
        target.refuses_others = why == "refused"
        if why == "not told":
            target.reservations.ports.pop(0xAA11)
        first = start(target.member, "key=1", TAKE_OVER, f"state={tmp_path}")
        assert " taken=0 " in first.open()
        first.ask("release")
        assert target.reservations.holder == bytes(8)
        second = start(target.member, "key=1", TAKE_OVER, f"state={tmp_path}")
        assert " taken=0 " in second.open()
        # That the other one has been there since says nothing: the session that is unknown may be in another portal group.
        second.ask("release")
        target.refuses_others = False
        target.reservations.holder, target.reservations.others = (0xAA11).to_bytes(8, "big"), [0xAA11]
        target.reservations.ports[0xAA11] = OTHERS_PORT
        assert (
            " taken=0 "
            in start(target.member.replace("127.0.0.1", "localhost"), "key=1", TAKE_OVER, f"state={tmp_path}").open()
        )


def test_who_is_waited_for_is_waited_for_after_a_crash(start, tmp_path) -> None:
    with FakeLio() as target:
        held = threading.Event()
        target.say_login = lambda connection, _, answer: (
            None if target.names[-1] == OTHER_NAME and not held.is_set() else connection.peer.sendall(answer)
        )
        first = Probe(target.member, "key=1", TAKE_OVER, "connect_ms=1000", f"state={tmp_path}")
        assert first.ask("open").startswith("closed ETIMEDOUT ")
        first.process.kill()
        first.process.wait()
        second = start(target.member, "key=1", TAKE_OVER, "connect_ms=1000", f"state={tmp_path}")
        assert second.ask("open").startswith("closed ETIMEDOUT ")
        held.set()
        target.names.append(OUR_NAME)
        assert " taken=1 " in second.open()
        assert target.names[-2:] == [OUR_NAME, OTHER_NAME]
        assert not list((tmp_path / "preempted").iterdir())


def test_whose_key_went_with_the_answer_is_waited_for(start, tmp_path) -> None:
    """The target preempts, and the connection breaks: nobody has the other's key any more."""
    with FakeLio() as target:
        broken = False

        def rule(command: fake.Command) -> Reply | None:
            nonlocal broken
            if broken or command.opcode != 0x5F or command.cdb[1] & 0x1F != PREEMPT_AND_ABORT:
                return None
            broken = True
            target.reservations(command)
            target.connections[-1].close()
            return fake.SILENCE

        target.rules.insert(0, rule)
        probe = start(target.member, "key=1", TAKE_OVER, f"state={tmp_path}")
        assert probe.ask("open").startswith("closed ")
        assert broken
        assert " taken=1 " in probe.open()
        assert target.names[-1] == OTHER_NAME


def test_whose_key_went_with_an_abort_is_waited_for(start) -> None:
    """The target preempts, and says that it was aborted: repeated, it finds nobody any more."""
    with FakeLio() as target:
        seen = 0

        def rule(command: fake.Command) -> Reply | None:
            nonlocal seen
            if command.opcode != 0x5F or command.cdb[1] & 0x1F != PREEMPT_AND_ABORT:
                return None
            seen += 1
            if seen > 1:
                return fake.RESERVED if command.data[8:16] == (0xAA11).to_bytes(8, "big") else None
            target.reservations(command)
            return Reply(status=0x40)

        target.rules.insert(0, rule)
        assert " taken=1 " in start(target.member, "key=1", TAKE_OVER).open()
        assert seen > 1
        assert target.names == [OUR_NAME, OTHER_NAME]


def test_the_permission_ends_with_the_first_reservation(start) -> None:
    with FakeLio() as target:
        target.reservations.holder, target.reservations.others = bytes(8), []

        def taken_by_another() -> None:
            target.reservations.holder, target.reservations.others = (0xAA11).to_bytes(8, "big"), [0xAA11]
            target.connections[-1].close()

        target.on_reset = taken_by_another
        probe = start(target.member, "key=1", TAKE_OVER)
        assert probe.ask("open").startswith("closed ")
        target.on_reset = lambda: None
        assert probe.ask("open").startswith("closed EBUSY")


def test_another_portal_group_proves_nothing(start) -> None:
    """The log-in came in elsewhere: the target had nothing to end there."""
    with FakeLio() as target:
        answer = target.on_login

        def elsewhere(connection: fake.Connection, flags: int, asked: dict[str, str]) -> fake.LoginAnswer:
            said = answer(connection, flags, asked)
            group = "2" if target.names[-1] == OTHER_NAME else "1"
            return fake.LoginAnswer(said.flags, said.keys | {"TargetPortalGroupTag": group}, said.status)

        target.on_login = elsewhere
        assert start(target.member, "key=1", TAKE_OVER).open().endswith("taken=0 predecessor=aa11")
        assert target.names == [OUR_NAME, OTHER_NAME]


def test_keys_that_are_told_once_and_then_not_are_expelled_once(start) -> None:
    with FakeLio() as target:
        target.reservations.holder, target.reservations.others = bytes(8), [0xCC33]
        target.reservations.ports[0xCC33] = OTHERS_PORT
        told = 0

        def rule(command: fake.Command) -> Reply | None:
            nonlocal told
            if command.opcode != 0x5E or command.cdb[1] & 0x1F != READ_KEYS:
                return None
            told += 1
            return keys(1, 0xCC33) if told == 1 else fake.ILLEGAL

        target.rules.insert(0, rule)
        assert " taken=0 " in start(target.member, "key=1", TAKE_OVER).open()
        assert target.reservations.preempted == [0xCC33]
