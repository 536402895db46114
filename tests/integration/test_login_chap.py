"""A configured secret is required, and with a second one the target has to prove who it is: real tgtd and a fake target.

Whoever fails gets no command at all, so nothing of it is read and nothing written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_chap import MD5, SHA1, SHA3_256, SHA256, TRANSIT, Chap, Proof, answer_to
from fake_target import Connection, FakeTarget, LoginAnswer
from test_iscsi_admin import LOGIN, UNREACHABLE, admin

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, call

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(60)]
USER, SECRET = "joe", "secret of joe 12"
TARGET_USER, TARGET_SECRET = "backend", "secret of the target"
ONE_WAY = f"{USER}\n{SECRET}\n"
MUTUAL = f"{ONE_WAY}{TARGET_USER}\n{TARGET_SECRET}\n"
DECLINED = "asks for no CHAP"
UNPROVEN = "did not prove who it is"
LoginRule = Callable[[Connection, int, dict[str, str]], LoginAnswer]


@pytest.fixture
def secrets(tmp_path: Path) -> Callable[[str], str]:
    def make(text: str) -> str:
        path = tmp_path / "chap-file"
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    return make


def refused(start, member: str, chap_file: str, words: str) -> None:
    """By both ways into a target: a volume's and the administrator's."""
    closed = start(member, f"secrets={chap_file}").ask("open")
    assert closed.startswith("closed EACCES") and words in closed, closed
    said = admin(f"secrets={chap_file}", "open", member)
    assert said["error"] == LOGIN and words in said["message"], said
    assert member in said["message"]
    for shown in (closed, str(said)):
        assert SECRET not in shown and TARGET_SECRET not in shown


def admitted(start, member: str, chap_file: str) -> None:
    start(member, f"secrets={chap_file}").open()
    assert admin(f"secrets={chap_file}", "open", member)["type"] == "0"


# Required, not offered


@pytest.mark.parametrize("text", [ONE_WAY, MUTUAL], ids=["one way", "mutual"])
def test_a_tgtd_without_an_account_is_not_opened(tmp_path, start, secrets, text) -> None:
    with TargetFarm(tmp_path / "farm") as farm:
        before = farm.digests()
        refused(start, farm.member(0), secrets(text), DECLINED)
        assert "chap_file = none" in admin(f"secrets={secrets(text)}", "open", farm.member(0))["remedy"]
        assert farm.digests() == before
        start(farm.member(0)).open()  # who configures no secret gets in as ever


def at_once(stage: int, *extra: tuple[str, str]) -> LoginRule:
    """The first question is answered by a step into another stage; stage as CSG << 2 | NSG."""
    return lambda connection, flags, asked: LoginAnswer(
        TRANSIT | stage, connection.target.keys | {"AuthMethod": "None"} | dict(extra), 0
    )


ZERO_PROOF = (("CHAP_N", TARGET_USER), ("CHAP_R", "0x" + "00" * 16))


@pytest.mark.parametrize(
    "rule",
    [
        Chap(USER, SECRET, goes_on=True), Chap(USER, SECRET, method="None"),
        Chap(USER, SECRET, method="Reject"), Chap(USER, SECRET, method="CHAP,None"),
        lambda connection, flags, asked: LoginAnswer(flags & ~TRANSIT, {}, 0),
        at_once(0b0001), at_once(0b0011), at_once(0b0111), at_once(0b0001, *ZERO_PROOF), at_once(0b0111, *ZERO_PROOF),
    ],
    ids=[
        "goes on", "none", "reject", "a list", "silence", "next stage", "full-feature phase", "another stage",
        "next stage and zeros as a proof", "another stage and zeros as a proof",
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", [ONE_WAY, MUTUAL], ids=["one way", "mutual"])
def test_a_target_that_declines_chap_is_not_opened(start, secrets, rule, text) -> None:
    with FakeTarget() as target:
        target.on_login = rule
        chap_file = secrets(text)
        closed = start(target.member, f"secrets={chap_file}").ask("open")
        assert re.match(rf"closed (EACCES .*{DECLINED}|EPROTO )", closed), closed
        assert admin(f"secrets={chap_file}", "open", target.member)["error"] in (LOGIN, UNREACHABLE)
        assert target.commands == []


@pytest.mark.parametrize("algorithm", [MD5, SHA1, SHA256, SHA3_256])
def test_the_digest_is_one_that_the_target_knows(start, secrets, algorithm) -> None:
    with FakeTarget() as target:
        target.on_login = Chap(USER, SECRET, (algorithm,), Proof(TARGET_USER, TARGET_SECRET))
        admitted(start, target.member, secrets(MUTUAL))
        target.on_login = Chap(USER, "another secret", (algorithm,))
        refused(start, target.member, secrets(ONE_WAY), "authentication failed")


def test_the_strongest_digest_comes_first(start, secrets) -> None:
    with FakeTarget() as target:
        for known, used in (((MD5, SHA1, SHA256, SHA3_256), SHA3_256), ((MD5, SHA1), SHA1)):
            target.on_login = chap = Chap(USER, SECRET, known)
            admitted(start, target.member, secrets(ONE_WAY))
            assert set(chap.used) == {used}
        target.on_login = Chap(USER, SECRET, ("9",))
        refused(start, target.member, secrets(ONE_WAY), "none of CHAP's digests")
        assert not any("CHAP_N" in asked for asked in target.on_login.asked)


@pytest.mark.parametrize(
    "challenge", ["", "0x", "0xabc", "0xzz", "0b=", "0bA", "123", "0x" + "00" * 1025, "0b" + "A" * 4000],
)  # fmt: skip
@pytest.mark.parametrize("number", ["1", "256", "-1", "", "x"])
def test_what_is_no_challenge_ends_the_login(secrets, number, challenge) -> None:
    sound = "0x" + "ab" * 16 if number != "1" else challenge
    with FakeTarget() as target:
        keys = {"CHAP_A": MD5, "CHAP_I": number, "CHAP_C": sound}
        target.on_login = lambda connection, flags, asked: LoginAnswer(
            flags & ~TRANSIT, keys if "CHAP_A" in asked else {"AuthMethod": "CHAP"}, 0
        )
        said = admin(f"secrets={secrets(ONE_WAY)}", "open", target.member)
        assert said["error"] == LOGIN and "not understood" in said["message"]


def test_a_challenge_in_base64_is_understood(secrets) -> None:
    plain = "0x" + b"a challenge of 23 bytes".hex()
    answers = []

    def rule(connection: Connection, flags: int, asked: dict[str, str]) -> LoginAnswer:
        if "CHAP_R" in asked:
            answers.append(asked["CHAP_R"].lower())
        if "CHAP_A" in asked:
            keys = {"CHAP_A": SHA256, "CHAP_I": "0x7f", "CHAP_C": "0bYSBjaGFsbGVuZ2Ugb2YgMjMgYnl0ZXM="}
            return LoginAnswer(flags & ~TRANSIT, keys, 0)
        return LoginAnswer(flags & ~TRANSIT, {"AuthMethod": "CHAP"}, 0)

    with FakeTarget() as target:
        target.on_login = rule
        admin(f"secrets={secrets(ONE_WAY)}", "open", target.member)
    assert answers == [answer_to(SHA256, "127", SECRET, plain)]


# Mutual


@pytest.mark.parametrize(
    ("proof", "opens"),
    [
        (Proof(TARGET_USER, TARGET_SECRET), True),
        (Proof(TARGET_USER, TARGET_SECRET, str.upper), True),  # "0X" and capitals
        (None, False),
        (Proof("somebody", TARGET_SECRET), False),
        (Proof(TARGET_USER, "another secret 12"), False),
        (Proof(TARGET_USER, SECRET), False),
        (Proof(TARGET_USER, TARGET_SECRET, lambda right: "0x" + "00" * 16), False),
        (Proof(TARGET_USER, TARGET_SECRET, lambda right: right[:-2]), False),
        (Proof(TARGET_USER, TARGET_SECRET, lambda right: right + "00"), False),
        (Proof(TARGET_USER, TARGET_SECRET, lambda right: "0x"), False),
        (Proof(TARGET_USER, TARGET_SECRET, lambda right: ""), False),
    ],
    ids=["right", "capitals", "none", "user", "secret", "our secret", "zeros", "short", "long", "nothing", "empty"],
)  # fmt: skip
def test_only_a_target_with_its_secret_is_opened(start, secrets, proof, opens) -> None:
    with FakeTarget() as target:
        target.on_login = Chap(USER, SECRET, proof=proof)
        if opens:
            admitted(start, target.member, secrets(MUTUAL))
        else:
            refused(start, target.member, secrets(MUTUAL), UNPROVEN)
            assert target.commands == []
        admitted(start, target.member, secrets(ONE_WAY))  # who asks for no proof needs none


def test_no_challenge_comes_twice(secrets) -> None:
    with FakeTarget() as target:
        target.on_login = chap = Chap(USER, SECRET, proof=Proof(TARGET_USER, TARGET_SECRET))
        for _ in range(3):
            admin(f"secrets={secrets(MUTUAL)}", "open", target.member)
        challenges = [(asked["CHAP_I"], asked["CHAP_C"]) for asked in chap.asked if "CHAP_C" in asked]
    assert len({challenge for _, challenge in challenges}) == len(challenges) == 3
    assert all(len(challenge) == 2 + 64 for _, challenge in challenges)


@pytest.mark.parametrize("proof", [None, (TARGET_USER, "another secret 12"), ("somebody", TARGET_SECRET)])
def test_a_tgtd_without_that_outgoing_account_is_not_opened(tmp_path, start, secrets, proof) -> None:
    with TargetFarm(tmp_path / "farm", chap=(USER, SECRET), proof=proof) as farm:
        closed = start(farm.member(0), f"secrets={secrets(MUTUAL)}").ask("open")
        assert closed.startswith("closed EACCES"), closed
        assert UNPROVEN in closed or "authentication failed" in closed
        start(farm.member(0), f"secrets={secrets(ONE_WAY)}").open()


def test_a_tgtd_with_its_outgoing_account_is_opened(tmp_path, start, secrets) -> None:
    with TargetFarm(tmp_path / "farm", chap=(USER, SECRET), proof=(TARGET_USER, TARGET_SECRET)) as farm:
        admitted(start, farm.member(0), secrets(MUTUAL))
        assert admin(f"secrets={secrets(MUTUAL)}", "open", farm.member(0))["block"] == "512"


# A volume


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:  # it has ended
            pass
    return found


def test_a_member_that_asks_no_more_for_chap_stays_out(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], secrets
) -> None:
    farm = make_farm(3, chap=(USER, SECRET), proof=(TARGET_USER, TARGET_SECRET))
    gateway.create("v0", farm.members(), 5, "64K", "--chap-file", secrets(MUTUAL))
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        disk = volume.connect()
        paths = call(volume.control, "volume.path", name="v0")["members"]
        assert all(one["path"]["negotiated"]["chap"] for one in paths)
        assert all(one["path"]["negotiated"]["target_proven"] for one in paths)
        disk.pwrite(bytes(65536), 0)
        farm.kill(1)
        volume.wait_status(lambda status: status["state"] == "degraded", "the member to be left out")
        farm.forget_chap(1)
        farm.restart(1)
        before = farm.digests()[1]
        shown = volume.wait_status(lambda status: DECLINED in str(status["members"][1]), "the member to be refused")[
            "members"
        ][1]
        assert shown["state"] != "active" and farm.member(1) in str(shown)
        disk.pwrite(b"1" * 65536, 0)
        assert farm.digests()[1] == before
        shown_anywhere = [gateway.logs(), str(volume.status()), gateway.iraid("status", "v0").out, *command_lines()]
        shown_anywhere += [path.read_text() for path in gateway.config.rglob("*.conf")]
    for text in shown_anywhere:
        assert SECRET not in text and TARGET_SECRET not in text


NEW_SECRET = "new secret of joe"
FORMER_TAKEN = "takes the former user and secret"


def break_session(volume, farm: TargetFarm, number: int) -> None:
    """It ends, and the member comes back by a login of its own."""
    farm.kill(number)
    volume.wait_status(lambda status: status["members"][number]["link"] != "open", "the session to break")
    farm.restart(number)


def is_open(number: int):
    return lambda status: status["members"][number]["link"] == "open"


def test_a_new_secret_costs_no_member_whichever_side_has_it_first(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], secrets
) -> None:
    """The gateway first, as sessions break before the targets have it; then the targets, one by one."""
    farm = make_farm(3, chap=(USER, SECRET))
    chap_file = secrets(ONE_WAY)
    gateway.create("v0", farm.members(), 5, "64K", "--chap-file", chap_file)
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        disk = volume.connect()
        disk.pwrite(b"1" * 65536, 0)
        secrets(f"{USER}\n{NEW_SECRET}\n")
        gateway.must("config", "reload", "v0", "--socket", volume.control)
        assert all(is_open(number)(volume.status()) for number in range(3))

        break_session(volume, farm, 0)
        volume.wait_status(is_open(0), "the member to be back by the former secret")
        assert FORMER_TAKEN in gateway.logs()

        farm.change_chap(0, USER, NEW_SECRET)
        break_session(volume, farm, 0)
        volume.wait_status(is_open(0), "the member to be back by the new secret")

        farm.change_chap(0, USER, SECRET)  # it was forgotten, since the new one had been taken
        break_session(volume, farm, 0)
        volume.wait_status(
            lambda status: "authentication failed" in str(status["members"][0]), "the former secret to be of no use"
        )
        disk.pwrite(b"2" * 65536, 0)
        assert disk.pread(65536, 0) == b"2" * 65536
        for secret in (SECRET, NEW_SECRET):
            assert secret not in gateway.logs() + str(volume.status())


def test_create_and_examine_name_the_member_that_asks_for_no_chap(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], secrets
) -> None:
    farm = make_farm(3, chap=(USER, SECRET))
    farm.kill(1)
    farm.forget_chap(1)
    farm.restart(1)
    before = farm.digests()
    for command in (("create", "v0", "--level", "5"), ("examine",)):
        ran = gateway.iraid(*command, "--chap-file", secrets(ONE_WAY), *farm.members())
        assert ran.status == 1 and farm.member(1) in ran.err and DECLINED in ran.err, ran
        assert "bind an account" in ran.err and SECRET not in ran.err + ran.out
    assert farm.digests() == before


# Discovery


def test_a_portal_may_list_its_targets_without_chap(tmp_path, secrets) -> None:
    """As most do; what it lists is asked again, each for itself."""
    chap_file = secrets(MUTUAL)
    with TargetFarm(tmp_path / "farm", chap=(USER, SECRET), proof=(TARGET_USER, TARGET_SECRET)) as farm:
        assert admin(f"secrets={chap_file}", "discover", farm.portal(0))["target"].startswith(farm.iqn(0))
    with FakeTarget() as target:
        target.on_login = Chap(USER, SECRET, method="None")
        assert admin(f"secrets={chap_file}", "discover", target.portal)["target"].startswith(target.iqn)
        target.on_login = Chap(USER, SECRET, method="CHAP", goes_on=True)
        assert admin(f"secrets={chap_file}", "discover", target.portal)["target"].startswith(target.iqn)
        said = admin(f"secrets={chap_file}", "luns", target.member)
        assert said["error"] == LOGIN and DECLINED in said["message"]
        assert target.commands == []


@pytest.mark.parametrize(
    ("rule", "words"),
    [(Chap(USER, SECRET, proof=Proof(TARGET_USER, "another secret 12")), UNPROVEN), (Chap(USER, SECRET), UNPROVEN),
     (Chap(USER, "another secret 12"), "authentication failed")],
)  # fmt: skip
def test_a_portal_that_asks_for_chap_has_to_do_it_right(secrets, rule, words) -> None:
    with FakeTarget() as target:
        target.on_login = rule
        said = admin(f"secrets={secrets(MUTUAL)}", "discover", target.portal)
        assert said["error"] == LOGIN and words in said["message"]
        target.on_login = Chap(USER, SECRET, proof=Proof(TARGET_USER, TARGET_SECRET))
        assert "target" in admin(f"secrets={secrets(MUTUAL)}", "discover", target.portal)
