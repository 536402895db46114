"""How a volume is, in a word and a sentence; and that what to do next is a command that can be typed."""

import json

import control_peer
import pytest
from control_peer import ControlPeer, member, running, volume, work, write_log
from remedies import assert_parses

from iraid.cli import main as cli
from iraid.control import model
from iraid.watch import verdict

SPARE = member(4, role=None, state="spare")


def judged(shared_spares=0, **changes):
    return verdict.judge(model.read(model.Volume, volume(**changes)), shared_spares)


def members(*states, **of_out):
    """Roles 0, 1, ... in these states; who is not in sync has no session unless told otherwise."""
    return [
        member(role, state=state, **({} if state == "in sync" else {"link": "closed", **of_out}))
        for role, state in enumerate(states)
    ]


OUT = members("in sync", "in sync", "faulty", "in sync", reason="silent for 5.0 s, given up")
CASES = {
    "good": ({}, "OK", 0, "survives the loss of any member", []),
    "out, no spare": (
        {"state": "degraded", "members": OUT},
        "DEGRADED",
        1,
        "member 2 is faulty (silent for 5.0 s, given up); survives no further loss",
        ["iraid examine 10.0.0.3:3260/iqn.2026-01.org.example:disk2/0", "iraid replace v0 2 DEVICE --wait"],
    ),
    "out, and a spare will take over": (
        {"state": "degraded", "members": [*OUT, SPARE]},
        "DEGRADED",
        1,
        "survives no further loss",
        ["iraid wait v0"],
    ),
    "taken out by hand, it answers": (
        {"state": "degraded", "members": members("in sync", "in sync", "faulty", "in sync", link="open")},
        "DEGRADED",
        1,
        "member 2 is faulty; survives no further loss",
        ["iraid rebuild v0 2 --wait"],
    ),
    "a role without a device": (
        {"state": "degraded", "members": members("in sync", "in sync", "in sync"), "empty_roles": [3]},
        "DEGRADED",
        1,
        "member 3 has no device",
        ["iraid replace v0 3 DEVICE --wait"],
    ),
    "being filled": (
        {
            "state": "degraded",
            "members": members("in sync", "in sync", "rebuilding", "in sync", link="open"),
            "rebuild": running(member="10.0.0.3:3260/iqn.2026-01.org.example:disk2/0"),
        },
        "DEGRADED",
        1,
        "member 2 is rebuilding; rebuild 43.1 %, 120 MiB/s of each member, 2 min 10 s left",
        ["iraid wait v0"],
    ),
    "a member is replaced while it works": (
        {
            "members": [*members("in sync", "in sync", "in sync", "in sync"), member(4, role=2, state="rebuilding")],
            "rebuild": running(member=member(4)["member"]),
        },
        "WORK",
        1,
        "survives the loss of any member",
        ["iraid wait v0"],
    ),
    "parity is made": (
        {"resync": running(corrected_rows=0), "regions": volume()["regions"] | {"suspect": 900}},
        "WORK",
        1,
        "but of none in 900 of 1600 regions until they are verified",
        ["iraid wait v0"],
    ),
    "parity of level 6 is made": (
        {"level": 6, "regions": volume()["regions"] | {"suspect": 900}},
        "WORK",
        1,
        "any 2 members, but of none in 900 of 1600 regions until they are verified",
        ["iraid wait v0"],
    ),
    "parity waits": (
        {"resync": work(reason="a member is out", corrected_rows=0), "regions": volume()["regions"] | {"suspect": 9}},
        "WORK",
        1,
        "9 regions must be verified (a member is out)",
        ["iraid wait v0"],
    ),
    "a scrub is routine": (
        {"scrub": running(active=True, mode="check", mismatches=0, mismatch_offsets=[])},
        "OK",
        0,
        "scrub 43.1 %",
        [],
    ),
    "mismatches": (
        {"scrub": work(active=False, mode="check", mismatches=3, mismatch_offsets=[0])},
        "ATTENTION",
        1,
        "3 rows did not match",
        ["iraid scrub status v0", "iraid scrub start v0 --repair"],
    ),
    "mismatches that were corrected": (
        {"scrub": work(active=False, mode="repair", mismatches=3, mismatch_offsets=[0])},
        "OK",
        0,
        "",
        [],
    ),
    "lost": (
        {"lost": {"extents": 2, "bytes": 131072}},
        "ATTENTION",
        1,
        "128 KiB are LOST in 2 places",
        ["iraid lost v0"],
    ),
    "slow": (
        {"members": [*members("in sync", "in sync", "in sync"), member(3, slow=True, latency_ms=870)]},
        "ATTENTION",
        1,
        "slow: member 3 (870 ms a command)",
        ["iraid advise v0"],
    ),
    "in sync but gone": (
        {"members": [*members("in sync", "in sync", "in sync"), member(3, link="closed")]},
        "ATTENTION",
        1,
        "no session with member 3",
        ["iraid events v0"],
    ),
    "the write log can't be written": (
        {"log": write_log(given_up=True)},
        "ATTENTION",
        1,
        "the write log was GIVEN UP",
        ["iraid events v0", "iraid set v0 --log degraded"],
    ),
    "the write log that is always open can't be written": (
        {"log": write_log(mode="always", given_up=True)},
        "ATTENTION",
        1,
        "the write log was GIVEN UP",
        ["iraid events v0", "iraid set v0 --log always"],
    ),
    "the write log can't be written, and it matters": (
        {"state": "degraded", "members": [*OUT, SPARE], "log": write_log(given_up=True)},
        "DEGRADED",
        1,
        "the write log was GIVEN UP, because it could not be written: a crash of the gateway",
        ["iraid wait v0", "iraid events v0", "iraid set v0 --log degraded"],
    ),
    "the write log does its work": (
        {"state": "degraded", "members": [*OUT, SPARE], "log": write_log(open=True, records=7, bytes=4096)},
        "DEGRADED",
        1,
        "survives no further loss",
        ["iraid wait v0"],
    ),
    "the write log is replayed": (
        {
            "state": "assembling",
            "members": OUT,
            "log": write_log(replay={"step": "is replayed", "done_chunks": 120, "total_chunks": 400}),
        },
        "WAITING",
        1,
        "the write log is replayed, 120 of 400 chunks",
        ["iraid status v0"],
    ),
    "the write log can't be read": (
        {
            "state": "assembling",
            "reason": "its write log was written by a later release",
            "log": write_log(replay={"step": "can't be read", "done_chunks": 0, "total_chunks": 0}),
        },
        "WAITING",
        1,
        "the write log can't be read; its write log was written by a later release",
        ["iraid status v0"],
    ),
    "waits": (
        {"state": "assembling", "members": members("in sync", "missing", "missing", "in sync"), "reason": ""},
        "WAITING",
        1,
        "waits for members 1, 2",
        ["iraid status v0", "iraid start v0 --timeout 60"],
    ),
    "suspended": (
        {"state": "suspended", "members": members("in sync", "faulty", "missing", "in sync")},
        "SUSPENDED",
        2,
        "I/O waits, because too many members are silent: members 1, 2",
        ["iraid events v0", "iraid doctor"],
    ),
    "failed": (
        {"state": "failed", "reason": "2 of 3 members are out"},
        "FAILED",
        2,
        "2 of 3 members are out",
        ["iraid events v0", "iraid start v0"],
    ),
    "taken over": (
        {"state": "failed", "reason": "member m0: in use by another gateway, reservation key 0x2"},
        "FAILED",
        2,
        "member m0: in use by another gateway, reservation key 0x2",
        ["iraid events v0", "iraid standby v0"],
    ),
    "its file has a fault": (
        {"state": "failed", "reason": "v0.conf:3: give_upp: there is no such key", "members": []},
        "FAILED",
        2,
        "v0.conf:3: give_upp",
        ["iraid config check v0", "iraid start v0"],
    ),
    "stopped": (
        {"state": "stopped", "members": members("unknown", "unknown")},
        "STOPPED",
        0,
        "it is stopped",
        ["iraid start v0"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_volume_has_a_word_a_sentence_and_what_to_do(case):
    changes, word, grade, text, remedies = CASES[case]
    found = judged(**changes)
    assert (found.word, found.grade, found.remedies) == (word, grade, remedies)
    assert text in found.text
    for remedy in found.remedies:
        assert_parses(remedy)


def test_the_gateways_spares_count_for_a_member_that_is_out():
    assert judged(1, state="degraded", members=OUT).remedies == ["iraid wait v0"]
    assert (judged(1).notes, judged(0).notes) == (
        ["1 spare", "one path to each member"],
        ["no spare", "one path to each member"],
    )


def test_a_second_path_is_missed_where_others_have_one():
    two = {"portals": ["10.0.0.1:3260", "10.0.1.1:3260"]}
    assert judged(members=[member(i, **(two if i < 3 else {})) for i in range(4)]).notes[1] == (
        "no second path to member 3"
    )
    assert judged(members=[member(i, **two) for i in range(4)]).notes == ["no spare"]


@pytest.mark.parametrize(
    ("level", "states", "expected"),
    [
        (0, "iiii", "survives no loss"),
        (1, "iii", "any 2 members"),
        (1, "iio", "any member"),
        (1, "ioo", "no further"),
        (5, "iiii", "any member"),
        (5, "iioi", "no further"),
        (6, "iiiii", "any 2 members"),
        (6, "iiiio", "any member"),
        (6, "iiioo", "no further"),
        (10, "iiii", "any member"),
        (10, "oiii", "any member except 1"),
        (10, "oioi", "no further"),
        (10, "oiiii", "any member except 1, 4"),
        (10, "oii", "no further"),
        (10, "oiiioi", "any member except 1, 5"),
    ],
)
def test_the_sentence_says_how_many_more_may_be_lost(level, states, expected):
    shown = judged(
        level=level,
        state="degraded" if "o" in states else "active",
        members=members(*({"i": "in sync", "o": "faulty"}[one] for one in states)),
    )
    assert expected in shown.text


# --- as it is shown ---


@pytest.fixture
def status(tmp_path, capsys):
    def run(answers, *options):
        with ControlPeer(tmp_path / "s", answers):
            exit_status = cli.main(["status", "--socket", str(tmp_path / "s"), *options])
        (tmp_path / "s").unlink()
        return exit_status, capsys.readouterr().out

    return run


def three(**changes):
    volumes = {"a": volume("a"), "b": volume("b", state="degraded", members=OUT), "c": volume("c", **changes)}
    return {
        "volume.list": {"volumes": list(volumes.values())},
        "volume.status": lambda p: volumes[p["name"]],
        "pool.list": {"spares": []},
    }


def test_status_begins_with_one_line_for_each_volume(status):
    exit_status, out = status(three(state="stopped"))
    assert exit_status == 0
    assert [line.split(":")[0] for line in out.splitlines()[:4]] == ["a OK", "b DEGRADED", "c STOPPED", ""]
    assert "iraid replace b 2 DEVICE --wait" in out.splitlines()[1]


@pytest.mark.parametrize(("changes", "expected"), [({"state": "failed"}, 2), ({}, 1)])
def test_health_ends_as_the_worst_volume_is(status, changes, expected):
    exit_status, out = status(three(**changes), "--health")
    assert (exit_status, len(out.splitlines())) == (expected, 3)
    exit_status, out = status(three(**changes), "--health", "--json")
    assert (exit_status, [one["grade"] for one in json.loads(out)["volumes"]]) == (
        expected,
        [0, 1, expected - (expected == 1)],
    )
    assert status({"volume.status": volume()}, "v0", "--health")[0] == 0


def test_a_handler_that_is_gone_is_as_bad_as_a_failed_volume(tmp_path, capsys):
    words = ["status", "--socket", str(tmp_path / "none")]
    assert [cli.main(words), cli.main([*words, "--health"])] == [1, 2]
    out, err = capsys.readouterr()
    assert err.count("does not exist") == 2 and err.count("remedy: ") == 2
    assert (cli.main([*words, "--health", "--json"]), json.loads(capsys.readouterr().out)["error"]["type"]) == (
        2,
        "unavailable",
    )


def test_json_has_the_verdict_beside_the_status(status):
    shown = json.loads(status(three(), "--json")[1])["volumes"]
    assert [one["health"]["word"] for one in shown] == ["OK", "DEGRADED", "OK"]
    assert set(control_peer.volume()) < set(shown[0])


@pytest.mark.parametrize(
    ("level", "text"), [(1, "survives the loss of any 3 members"), (10, "survives the loss of any member")]
)
def test_copies_that_are_not_verified_bear_what_they_bear(level, text):
    """Nothing is ever lost for a torn row there."""
    given = model.read(model.Volume, volume(level=level, regions=volume()["regions"] | {"suspect": 900}))
    assert verdict.bears(given) == text
    assert "900 regions must be verified" in verdict.judge(given).text
