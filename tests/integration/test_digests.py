"""CRC32C digests between the backend and targets: what is agreed on, and what becomes of broken bytes."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import fake_target as fake
import pytest
from backend_probe import pattern, result
from fake_target import DATA_OUT, FakeTarget, LoginAnswer, sense

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.flip_proxy import TO_GATEWAY, TO_TARGET, FlipProxy
from iraid_dev.stack.private_gateway import RpcError, call, wait_until

pytestmark = pytest.mark.timeout(120)
ENODATA, ENOTCONN = -61, -107
CRC = {"HeaderDigest": "CRC32C", "DataDigest": "CRC32C"}
WORDS = {"none": "None", "preferred": "CRC32C,None", "required": "CRC32C"}


class Answering(FakeTarget):
    """Answers both digests with one word, and remembers what it was offered."""

    def __init__(self, word: str | None):
        super().__init__(keys={"HeaderDigest": word, "DataDigest": word} if word else {})
        if word is None:
            del self.keys["HeaderDigest"]
        self.offered: dict[str, str] = {}
        self.on_login = self._answer

    def _answer(self, _: object, flags: int, asked: dict[str, str]) -> LoginAnswer:
        self.offered = asked
        return LoginAnswer(flags, self.keys, 0)


def options(wanted: str) -> tuple[str, str]:
    return f"header_digest={wanted}", f"data_digest={wanted}"


# The login


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ("none", "None"), ("none", None), ("none", "Reject"), ("preferred", "None"), ("preferred", None),
        ("preferred", "NotUnderstood"), ("preferred", "CRC32C"), ("required", "CRC32C"),
    ],
)  # fmt: skip
def test_what_the_target_agrees_to_is_used(start, wanted, word) -> None:
    with Answering(word) as target:
        probe = start(target.member, *options(wanted))
        probe.open()
        assert target.offered["HeaderDigest"] == target.offered["DataDigest"] == WORDS[wanted]
        assert result(probe.ask("write 512 65536 5 iov=37")) == 0  # the target checks digests
        assert target.disk[512 : 512 + 65536] == pattern(512, 65536, 5)
        assert probe.ask("read 512 65536 5 iov=11") == "read 512 65536 0 same"


@pytest.mark.parametrize(
    ("wanted", "word", "reason"),
    [
        ("required", "None", "header_digest is required, but the target has no HeaderDigest=CRC32C: .* = preferred"),
        ("required", None, "header_digest is required"),
        ("required", "Reject", "header_digest is required"),
        ("none", "CRC32C", "insists on HeaderDigest=CRC32C, which was not offered: set header_digest = preferred"),
        ("preferred", "SHA", "a digest that was not offered: set CRC32C or None on the target"),
        ("none", "CRC32C,None", "a digest that was not offered"),
    ],
)  # fmt: skip
def test_a_target_that_agrees_to_something_else_is_not_used(start, wanted, word, reason) -> None:
    with Answering(word) as target:
        probe = start(target.member, *options(wanted))
        closed = probe.ask("open")
        assert re.match(rf"closed EACCES .*{reason}", closed), closed
        assert target.commands == []


@pytest.mark.parametrize("alone", ["header_digest", "data_digest"])
def test_each_of_the_two_can_be_required_alone(start, alone) -> None:
    with Answering("None") as target:
        closed = start(target.member, f"{alone}=required").ask("open")
        assert closed.startswith("closed EACCES ") and f"{alone} is required" in closed, closed


# One command


def damaged(start, reply: fake.Reply, times: int, wanted: Callable[[fake.Command], bool]):
    """A target whose first so many answers to the wanted commands are this one, and an open session with it."""
    target = FakeTarget(keys=CRC)
    left = iter(range(times))
    target.rules.append(lambda command: reply if wanted(command) and next(left, None) is not None else None)
    target.disk[:65536] = pattern(0, 65536, 1)
    return target, start(target.member, *options("required"))


def reads(command: fake.Command) -> bool:
    return command.is_read


def writes(command: fake.Command) -> bool:
    return command.is_write


WRONG = bytes(65536)


@pytest.mark.parametrize("chunk", [512, 4096, 65536], ids=["many small ones", "in the buffer", "straight to memory"])
@pytest.mark.parametrize("apart", [False, True], ids=["status with the data", "status apart"])
def test_damaged_data_is_read_again_and_never_taken(start, chunk, apart) -> None:
    length = min(65536, 8 * chunk)
    reply = fake.Reply(data=WRONG[:length], chunk_bytes=chunk, status_apart=apart)
    target, probe = damaged(start, fake.Reply(**{**vars(reply), "wrong_data_digest": True}), 1, reads)
    with target:
        probe.open()
        target.commands.clear()
        assert probe.ask(f"read 0 {length} 1 iov=3") == f"read 0 {length} 0 same"
        assert len(target.data_commands()) == 2
        assert probe.ask("read 0 4096 1") == "read 0 4096 0 same"  # by the same session
        assert len(target.connections) == 1


def test_a_command_that_is_always_damaged_ends_the_session_and_fails_nothing_for_good(start) -> None:
    target, probe = damaged(start, fake.Reply(data=WRONG[:4096], wrong_data_digest=True), 4, reads)
    with target:
        probe.open()
        probe.say("read 0 4096 1")
        assert result(probe.line()) == ENOTCONN
        closed = probe.line()
        assert closed.startswith("closed EPROTO ") and "a wrong digest 4 times" in closed, closed
        probe.open()
        assert probe.ask("read 0 4096 1") == "read 0 4096 0 same"


def test_sixteen_wrong_digests_end_the_session(start) -> None:
    target, probe = damaged(start, fake.Reply(data=WRONG[:4096], wrong_data_digest=True), 0, reads)
    with target:
        times = iter(range(40))
        target.rules.append(
            lambda command: (
                fake.Reply(data=WRONG[:4096], wrong_data_digest=True)
                if command.is_read and next(times, 1) % 2 == 0
                else None
            )
        )
        probe.open()
        lines = [probe.ask("read 0 4096 1") for _ in range(15)]
        assert set(lines) == {"read 0 4096 0 same"}
        assert result(probe.ask("read 0 4096 1")) == ENOTCONN
        assert "16 wrong digests in one session" in probe.line()


def test_what_else_the_target_says_of_damaged_data_counts_more(start) -> None:
    """A medium error is no digest's affair, and a failure of before is told once only."""
    for said, error in ((sense(3, 0x1100), ENODATA), (sense(4, 0x4400, response_code=0x71), ENOTCONN)):
        reply = fake.Reply(data=WRONG[:4096], wrong_data_digest=True, status_apart=True, then=said)
        target, probe = damaged(start, reply, 1, reads)
        with target:
            probe.open()
            assert result(probe.ask("read 0 4096 1")) == error


def test_damaged_sense_data_ends_the_session(start) -> None:
    """It may have said what a target says once: that a cache was lost."""
    reply = fake.Reply(**{**vars(sense(6, 0x2901)), "wrong_data_digest": True})
    target, probe = damaged(start, reply, 1, writes)
    with target:
        probe.open()
        probe.say("write 0 4096 1")
        assert result(probe.line()) == ENOTCONN
        assert "wrong digest" in probe.line()


@pytest.mark.parametrize("reply", [sense(0xB, 0x4705), fake.Reply()], ids=["told", "GOOD all the same"])
def test_data_that_arrived_damaged_is_sent_again(start, reply) -> None:
    """The target rejects a Data-Out; a GOOD behind that is not believed."""
    target, probe = damaged(start, fake.Reply(**{**vars(reply), "rejected": DATA_OUT}), 1, writes)
    with target:
        probe.open()
        target.commands.clear()
        assert result(probe.ask("write 0 262144 7")) == 0
        assert len(target.data_commands()) == 262144 // 65536 + 1
        assert bytes(target.disk[:262144]) == pattern(0, 262144, 7)
        assert len(target.connections) == 1


@pytest.mark.parametrize("opcode", [0x01, 0x00], ids=["a command", "a ping's answer"])
def test_a_rejected_command_ends_the_session(start, opcode) -> None:
    """Whether it has used up its number, and is ever answered, nobody knows."""
    target, probe = damaged(start, fake.Reply(silent=True, rejected=opcode), 1, writes)
    with target:
        probe.open()
        probe.say("write 0 4096 1")
        assert result(probe.line()) == ENOTCONN
        assert re.match(r"closed EPROTO .*reason 0x02 \(wrong data digest\)", probe.line())


# Bits that flip on the way to and from a real target

FLIP_BYTES = 65536


def digesting(farm: TargetFarm, value: str) -> tuple[str, int]:
    """Has target 0 agree to what is offered, or to nothing; where it is."""
    for name in ("HeaderDigest", "DataDigest"):
        farm.admin(
            0, "--mode", "target", "--op", "update", "--tid", str(farm.targets[0].tid), "--name", name,
            "--value", value,
        )  # fmt: skip
    return "127.0.0.1", farm.targets[0].ports[0]


def through(farm: TargetFarm, proxy: FlipProxy) -> str:
    return f"{proxy.portal}/{farm.member(0).partition('/')[2]}"


def errors_so_far(probe) -> int:
    return int(probe.ask("digest_errors").split()[1])


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_every_flipped_bit_is_found(farm, start, seed, figure) -> None:
    """In headers and data, both ways; what is read is always what was written, and so is what lies on the disk."""
    rng = random.Random(seed)
    found = {"repeated": 0, "session ended": 0}
    with FlipProxy(digesting(farm, "CRC32C")) as proxy:
        probe = start(through(farm, proxy), *options("required"))
        probe.open()
        assert result(probe.ask(f"write 0 {FLIP_BYTES} 0")) == 0
        kinds = list(itertools.product((TO_GATEWAY, TO_TARGET), ("header", "data"))) * 10
        rng.shuffle(kinds)
        here = 0
        for number, (way, part) in enumerate(kinds):
            io = "write" if way == TO_TARGET and (part == "data" or rng.random() < 0.5) else "read"
            if io == "write":
                here = number + 1
            before = errors_so_far(probe)
            proxy.arm(way, part, rng.randrange(1 << 32))
            said = probe.ask(f"{io} 0 {FLIP_BYTES} {here}")
            assert not proxy.disarm(), (way, part, io)
            if result(said) == 0:
                assert io == "write" or said.endswith(" same"), said
                assert errors_so_far(probe) == before + 1, (way, part, io)
                found["repeated"] += 1
                continue
            assert result(said) == ENOTCONN, said
            assert probe.line().startswith("closed E")
            assert errors_so_far(probe) == before + (way == TO_GATEWAY), (way, part, io)
            found["session ended"] += 1
            probe.open()
            if io == "write":  # it may have happened or not
                assert result(probe.ask(f"write 0 {FLIP_BYTES} {here}")) == 0
            assert probe.ask(f"read 0 {FLIP_BYTES} {here}") == f"read 0 {FLIP_BYTES} 0 same"
        assert sum(found.values()) == proxy.injected == len(kinds)
        assert found["repeated"] > 0 < found["session ended"]
        assert farm.backing(0).read_bytes()[:FLIP_BYTES] == pattern(0, FLIP_BYTES, here)
    figure(f"bits flipped and found, seed {seed}", f"{proxy.injected}: {found}")


@pytest.mark.parametrize("way", [TO_GATEWAY, TO_TARGET])
def test_without_digests_a_flipped_bit_falsifies_data(farm, start, way) -> None:
    """The other side of the same coin: the proxy does what it is believed to do."""
    with FlipProxy(digesting(farm, "None")) as proxy:
        probe = start(through(farm, proxy), *options("none"))
        probe.open()
        if way == TO_TARGET:
            proxy.arm(way, "data", 1)
        assert result(probe.ask(f"write 0 {FLIP_BYTES} 1")) == 0
        if way == TO_GATEWAY:
            proxy.arm(way, "data", 1)
        said = probe.ask(f"read 0 {FLIP_BYTES} 1")
        assert proxy.injected == 1
        assert result(said) == 0 and not said.endswith(" same"), said


# The setting of a volume


def test_a_volume_is_told_and_its_next_sessions_have_them(gateway, make_farm) -> None:
    """Set while it runs; a member whose target has none is out, and the reason says what to do."""
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    file = gateway.config / "volumes/v0.conf"
    before = file.read_text()
    with pytest.raises(RpcError, match='"data_digest" is "CRC32C", none of none, preferred and required'):
        call(gateway.socket, "volume.set", name="v0", data_digest="CRC32C")
    assert file.read_text() == before
    for name in ("HeaderDigest", "DataDigest"):
        for number in (0, 1):
            farm.admin(
                number, "--mode", "target", "--op", "update", "--tid", str(farm.targets[number].tid), "--name", name,
                "--value", "CRC32C",
            )  # fmt: skip

    said = gateway.must("set", "v0", "--header-digest", "required", "--data-digest", "required").out
    assert "headers required, data required, from the next login to each member on" in said
    assert "\nheader_digest = required\n" in file.read_text()

    def digests() -> list[tuple[bool, bool] | None]:
        found = call(gateway.socket, "volume.path", name="v0")["members"]
        agreed = [one["path"] and one["path"]["negotiated"] for one in found]
        return [one and (one["header_digest"], one["data_digest"]) for one in agreed]

    assert digests() == [(False, False)] * 3, "the sessions that are there stay"
    for number in (0, 2):
        farm.kill(number)
        wait_until(lambda: None in digests(), "a lost session")
        farm.restart(number)
        if number == 0:
            for name in ("HeaderDigest", "DataDigest"):
                farm.admin(
                    0, "--mode", "target", "--op", "update", "--tid", str(farm.targets[0].tid), "--name", name,
                    "--value", "CRC32C",
                )  # fmt: skip
            wait_until(lambda: digests()[0] == (True, True), "a session with digests")
    wait_until(
        lambda: "header_digest is required, but the target has no" in str(gateway.status("v0")["members"][2]["reason"]),
        "the reason of the third",
    )
    assert digests()[2] is None
