"""Commands about members, spares and work in the background, against a control socket."""

import json
import os
import pty
import re
import signal
import subprocess
from datetime import datetime
from types import SimpleNamespace

import pytest
from control_peer import IRAID, NO_SCRUB, ControlPeer, Failure, event, member, page, running, volume, work

from iraid.cli import main as cli
from iraid.watch import follow as follow_module

OLD, NEW = member(2)["member"], "10.0.0.9:3260/iqn.2026-01.org.example:new/0"
SPARE = {"device": NEW, "size_bytes": 1 << 40, "block_bytes": 512}
QUIET = {"events": page()}


@pytest.fixture
def iraid(tmp_path, capsys, monkeypatch):
    """Run the command: iraid(answers, *arguments) -> status, out, err, calls."""
    path = tmp_path / "control.sock"
    monkeypatch.setenv("IRAID_SOCKET", str(path))

    def run(answers, *arguments):
        path.unlink(missing_ok=True)
        with ControlPeer(path, answers) as peer:
            status = cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, calls=peer.calls, json=lambda: json.loads(out))

    return run


def in_turn(*answers):
    """One after the other; the last one again and again."""
    left = list(answers)
    return lambda _parameters: left.pop(0) if len(left) > 1 else left[0]


# --- what is asked ---


@pytest.mark.parametrize(
    ("arguments", "method", "parameters"),
    [
        (["fail", "v0", "2"], "member.fail", {"name": "v0", "member": "2"}),
        (["rebuild", "v0", "2"], "member.rebuild", {"name": "v0", "member": "2"}),
        (["remove", "v0", OLD], "member.remove", {"name": "v0", "member": OLD, "wipe": False}),
        (["remove", "v0", OLD, "--wipe"], "member.remove", {"name": "v0", "member": OLD, "wipe": True}),
        (["replace", "v0", "2", NEW], "member.replace", {"name": "v0", "member": "2", "device": NEW, "force": False}),
        (
            ["replace", "v0", "2", NEW, "--force"],
            "member.replace",
            {"name": "v0", "member": "2", "device": NEW, "force": True},
        ),
        (["add-spare", "v0", NEW], "spare.add", {"name": "v0", "device": NEW, "force": False}),
        (["add-spare", "--gateway", NEW, "--force"], "pool.add", {"device": NEW, "force": True}),
        (
            ["add-spare", "--gateway", NEW, "--chap-file", "/s", "--initiator", "iqn.2026-01.org.example:gw"],
            "pool.add",
            {"device": NEW, "force": False, "chap_file": "/s", "initiator": "iqn.2026-01.org.example:gw"},
        ),
        (["remove", "--gateway", NEW], "pool.remove", {"device": NEW}),
        (["scrub", "start", "v0"], "scrub.start", {"name": "v0", "repair": False, "resume": False}),
        (
            ["scrub", "start", "v0", "--repair", "--resume"],
            "scrub.start",
            {"name": "v0", "repair": True, "resume": True},
        ),
        (["scrub", "stop", "v0"], "scrub.stop", {"name": "v0"}),
        (["lost", "v0"], "lost.list", {"name": "v0", "offset_bytes": 0}),
        (["lost", "v0", "--accept", "--yes"], "lost.accept", {"name": "v0", "offset_bytes": 0}),
        (
            ["lost", "v0", "--accept", "--yes", "--offset", "1M", "--length", "64K"],
            "lost.accept",
            {"name": "v0", "offset_bytes": 1 << 20, "length_bytes": 65536},
        ),
        (["set", "v0"], "volume.set", {"name": "v0"}),
        (
            ["set", "v0", "--rate-min", "20M", "--rate-max", "1G"],
            "volume.set",
            {"name": "v0", "sync_rate_min_bytes": 20 << 20, "sync_rate_max_bytes": 1 << 30},
        ),
        (["set", "v0", "--log", "degraded"], "volume.set", {"name": "v0", "log": "degraded"}),
        (
            ["set", "v0", "--header-digest", "required", "--data-digest", "none"],
            "volume.set",
            {"name": "v0", "header_digest": "required", "data_digest": "none"},
        ),
        (["set", "v0", "--log", "always"], "volume.set", {"name": "v0", "log": "always"}),
        (["set", "v0", "--log", "off"], "volume.set", {"name": "v0", "log": "off"}),
        (["events"], "events", {"after": 0, "wait_seconds": 0}),
        (["events", "v0"], "events", {"name": "v0", "after": 0, "wait_seconds": 0}),
    ],
)
def test_each_command_asks_for_what_was_typed_and_nothing_else(iraid, arguments, method, parameters):
    changed = {"name": "v0", "member": OLD, "device": NEW, "role": 2, "state": "spare"}
    answers = {
        **dict.fromkeys(
            (
                "member.fail",
                "member.rebuild",
                "member.remove",
                "member.replace",
                "spare.add",
                "pool.add",
                "pool.remove",
            ),
            changed,
        ),
        **dict.fromkeys(("scrub.start", "scrub.stop"), volume()),
        "lost.list": {"extents": [], "more": False},
        "lost.accept": {"name": "v0", "accepted_bytes": 512},
        **QUIET,
        "volume.set": {"name": "v0", "sync_rate_min_bytes": 1 << 20, "sync_rate_max_bytes": 1 << 30, "log": "off"},
    }
    done = iraid(answers, *arguments)
    assert (done.status, done.calls, done.err) == (0, [(method, parameters)], "")
    again = iraid(answers, *arguments, "--json")
    assert again.calls == [(method, parameters)]
    assert isinstance(again.json(), dict)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ({"log": "degraded"}, "Write log of volume v0: degraded, writes are logged while members are out.\n"),
        ({"log": "always"}, "Write log of volume v0: always, writes are logged also while all members are there.\n"),
        ({"log": "off"}, "Write log of volume v0: off, no write is logged.\n"),
        ({"log": "of a later release"}, "Write log of volume v0: of a later release.\n"),
        ({}, ""),
    ],
)
def test_set_shows_the_write_log_that_the_handler_has(iraid, log, line):
    rates = {"name": "v0", "sync_rate_min_bytes": 1 << 20, "sync_rate_max_bytes": 1 << 30}
    shown = iraid({"volume.set": rates | log}, "set", "v0")
    assert shown.out == f"Background work of volume v0: 1 MiB/s to 1 GiB/s of each member.\n{line}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fail", "v0"],
        ["fail"],
        ["replace", "v0", "2"],
        ["rebuild", "v0"],
        ["add-spare"],
        ["add-spare", "v0"],
        ["add-spare", "v0", NEW, "--gateway"],
        ["add-spare", "--gateway"],
        ["add-spare", "--gateway", NEW, "--wait"],
        ["add-spare", "v0", NEW, "--initiator", "iqn.2026-01.org.example:gw"],
        ["remove", "--gateway"],
        ["remove", "v0"],
        ["scrub"],
        ["scrub", "v0"],
        ["scrub", "start"],
        ["scrub", "pause", "v0"],
        ["scrub", "stop", "v0", "--wait"],
        ["scrub", "status", "v0", "--repair"],
        ["scrub", "stop", "--all"],
        ["scrub", "start", "v0", "--all"],
        ["lost", "v0", "--yes"],
        ["lost", "v0", "--offset", "1"],
        ["lost", "v0", "--accept"],
        ["lost", "v0", "--accept", "--json"],
        ["set", "v0", "--rate-min", "fast"],
        ["set", "v0", "--log", "sometimes"],
        ["set", "v0", "--log"],
        ["wait", "v0", "--for", "nothing"],
        ["wait", "v0", "--timeout", "0"],
    ],
)
def test_wrong_usage_ends_with_2_and_asks_nothing(iraid, arguments):
    done = iraid({}, *arguments)
    assert (done.status, done.calls) == (2, [])
    assert re.fullmatch(r"iraid: .+\n  remedy: .+\n", done.err)


@pytest.mark.parametrize(
    ("arguments", "method"),
    [
        (["fail", "v0", "7"], "member.fail"),
        (["remove", "v0", "7"], "member.remove"),
        (["rebuild", "v0", "7"], "member.rebuild"),
        (["replace", "v0", "7", NEW], "member.replace"),
        (["add-spare", "v0", NEW], "spare.add"),
        (["add-spare", "--gateway", NEW], "pool.add"),
        (["remove", "--gateway", NEW], "pool.remove"),
        (["scrub", "start", "v0"], "scrub.start"),
        (["scrub", "stop", "v0"], "scrub.stop"),
        (["lost", "v0"], "lost.list"),
        (["lost", "v0", "--accept", "--yes"], "lost.accept"),
        (["set", "v0"], "volume.set"),
        (["wait", "v0"], "events"),
        (["events", "v0", "--follow"], "events"),
    ],
)
def test_what_the_handler_refuses_is_said_with_its_remedy(iraid, arguments, method):
    refusal = Failure(8, "busy", f"{method}: it can't be", "do something else first")
    for extra in ([], ["--json"]):
        done = iraid({method: refusal}, *arguments, *extra)
        assert done.status == 1
        assert done.err == f"iraid: {method}: it can't be\n  remedy: do something else first\n"
        assert (done.out == "") == (not extra)


# --- waiting ---

FILLING = volume(
    state="degraded",
    rebuild=running(member=NEW),
    members=[member(0), member(1), member(2), member(8, member=NEW, role=2, state="rebuilding")],
)
FILLED = volume(members=[member(0), member(1), member(8, member=NEW, role=2)])


def test_replace_waits_until_the_new_one_has_the_place_alone(iraid):
    both = volume(members=[member(0), member(1), member(2), member(8, member=NEW, role=2)])
    answers = {
        "member.replace": {"name": "v0", "member": OLD, "role": 2, "device": NEW},
        **QUIET,
        "volume.status": in_turn(
            volume(members=[member(8, member=NEW, role=None, state="spare")]), FILLING, both, FILLED
        ),
    }
    done = iraid(answers, "replace", "v0", "2", NEW, "--wait")
    assert done.status == 0
    assert f"{NEW} has taken the place of {OLD}" in done.out
    assert [name for name, _ in done.calls].count("volume.status") == 4


@pytest.mark.parametrize("gone", [[], [member(8, member=NEW, role=None, state="faulty", reason="session lost")]])
def test_replace_ends_with_an_error_when_the_new_one_is_lost(iraid, gone):
    answers = {
        "member.replace": {"name": "v0", "member": OLD, "role": 2, "device": NEW},
        **QUIET,
        "volume.status": in_turn(FILLING, volume(members=[member(0), *gone])),
    }
    done = iraid(answers, "replace", "v0", "2", NEW, "--wait")
    assert done.status == 1
    assert f"{NEW} does not become member 2: {'session lost' if gone else 'it is no longer a device'}" in done.err


def test_rebuild_waits_until_the_member_is_in_sync(iraid):
    out = volume(state="degraded", members=[member(2, state="out of date", reason="has to catch up")])
    filled = volume(rebuild=running(member=OLD), members=[member(2, state="rebuilding")])
    answers = {"member.rebuild": {"member": OLD}, **QUIET, "volume.status": in_turn(out, filled, volume())}
    done = iraid(answers, "rebuild", "v0", "2", "--wait")
    assert (done.status, done.out) == (0, f"{OLD} is in sync again in volume v0.\n")


def test_fail_waits_until_a_spare_has_the_place(iraid):
    before = volume(members=[member(0), member(1), member(2), member(4, role=None, state="spare")])
    evicted = volume(state="degraded", members=[member(2, state="faulty"), member(4, role=None, state="spare")])
    after = volume(members=[member(0), member(1), member(2, role=None, state="faulty"), member(4, role=2)])
    answers = {
        "member.fail": {"member": OLD},
        "pool.list": {"spares": []},
        **QUIET,
        "volume.status": in_turn(before, evicted, FILLING, after),
    }
    done = iraid(answers, "fail", "v0", "2", "--wait")
    assert (done.status, done.err) == (0, "")
    assert "All other members are in sync." in done.out
    assert [name for name, _ in done.calls].count("volume.status") == 4


def test_fail_does_not_wait_for_a_spare_that_is_not_there(iraid):
    alone = volume(state="degraded", members=[member(0), member(2, state="faulty")])
    answers = {"member.fail": {"member": OLD}, "pool.list": {"spares": []}, **QUIET, "volume.status": alone}
    done = iraid(answers, "fail", "v0", "2", "--wait")
    assert done.status == 1
    assert f"no spare to take the place of {OLD}" in done.err
    assert "iraid replace v0" in done.err
    unfit = page(event(2, "spare unfit", text="spare X of the gateway can't be used: it is dead"))
    answers |= {"pool.list": {"spares": [SPARE]}, "events": in_turn(page(), unfit)}
    assert "spare X of the gateway can't be used: it is dead" in iraid(answers, "fail", "v0", "2", "--wait").err


def test_add_spare_waits_when_it_goes_to_work(iraid):
    spare = {"name": "v0", "device": NEW, "state": "rebuilding"}
    answers = {"spare.add": spare, **QUIET, "volume.status": in_turn(FILLING, FILLED)}
    assert "has taken the place of a member" in iraid(answers, "add-spare", "v0", NEW, "--wait").out
    waiting = volume(members=[member(0), member(8, member=NEW, role=None, state="spare")])
    answers["volume.status"] = waiting
    assert "is a spare of volume v0" in iraid(answers, "add-spare", "v0", NEW, "--wait").out
    answers["volume.status"] = volume(members=[member(0)])
    assert iraid(answers, "add-spare", "v0", NEW, "--wait").status == 1


def test_create_waits_for_parity(iraid):
    created = {"name": "v0", "uuid": "u", "size_bytes": 1 << 30}
    answers = {
        "volume.create": created,
        **QUIET,
        "volume.status": in_turn(volume(resync=running(corrected_rows=0)), volume()),
    }
    done = iraid(answers, "create", "v0", "--level", "5", "--wait", *[m["member"] for m in volume()["members"]])
    assert done.status == 0
    assert "in the background" not in done.out
    assert [name for name, _ in done.calls].count("volume.status") == 2


@pytest.mark.parametrize(
    ("what", "waiting"),
    [
        ("rebuild", FILLING),
        ("resync", volume(resync=running(corrected_rows=0))),
        ("resync", volume(regions={"total": 9, "suspect": 1})),
        ("scrub", volume(scrub=NO_SCRUB | running(active=True, mode="check"))),
        ("in-sync", FILLING),
        ("in-sync", volume(state="assembling", members=[])),
        ("in-sync", volume(resync=running(corrected_rows=0))),
    ],
)
def test_wait_ends_when_that_work_has(iraid, what, waiting):
    answers = {"volume.status": in_turn(waiting, waiting, volume()), **QUIET}
    done = iraid(answers, "wait", "v0", "--for", what)
    assert done.status == 0
    assert [name for name, _ in done.calls].count("volume.status") == 3
    assert iraid(answers, "wait", "v0", "--json").json()["state"] == "active"


def test_between_two_looks_the_next_event_is_waited_for(iraid):
    answers = {
        "volume.status": in_turn(FILLING, FILLING, volume()),
        "events": in_turn(page(event(7)), page(event(9)), page()),
    }
    asked = [parameters for name, parameters in iraid(answers, "wait", "v0").calls if name == "events"]
    assert asked == [
        {"name": "v0", "after": 0, "wait_seconds": 0},
        {"name": "v0", "after": 7, "wait_seconds": 1},
        {"name": "v0", "after": 9, "wait_seconds": 1},
    ]


@pytest.mark.parametrize("state", ["failed", "stopped", "stopping"])
def test_wait_does_not_wait_for_a_volume_that_does_not_work(iraid, state):
    done = iraid({"volume.status": volume(state=state, reason="too many are gone"), **QUIET}, "wait", "v0")
    assert (done.status, done.out) == (1, "")
    assert f"volume v0 is {state}: too many are gone" in done.err


def test_wait_has_an_end_when_one_is_given(iraid, monkeypatch):
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("iraid.cli.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    done = iraid({"volume.status": FILLING, **QUIET}, "wait", "v0", "--timeout", "30")
    assert done.status == 1
    assert "was not complete after 30 s: 43.1 %, 120 MiB/s of each member, 2 min 10 s left" in done.err


def test_without_a_terminal_progress_is_a_line_each_ten_seconds(iraid, monkeypatch):
    clock = iter(range(0, 1000, 4))  # read once at the start and once a look, if no line is due
    monkeypatch.setattr("iraid.cli.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    done = iraid({"volume.status": in_turn(*[FILLING] * 6, volume()), **QUIET}, "wait", "v0")
    assert done.status == 0
    line = f"v0: rebuild of {NEW} 43.1 %, 120 MiB/s of each member, 2 min 10 s left"
    assert done.err.splitlines() == [line, line]


def test_with_json_nothing_is_shown_meanwhile(iraid):
    done = iraid({"volume.status": in_turn(FILLING, FILLING, volume()), **QUIET}, "wait", "v0", "--json")
    assert (done.status, done.err) == (0, "")


def test_a_terminal_gets_a_bar(tmp_path):
    controller, terminal = pty.openpty()
    answers = {"volume.status": in_turn(*[FILLING] * 3, volume()), **QUIET}
    with ControlPeer(tmp_path / "s", answers):
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        done = subprocess.run(
            [IRAID, "--socket", tmp_path / "s", "wait", "v0"],
            stderr=terminal,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            env=environment | {"COLUMNS": "160", "LC_ALL": "C.UTF-8", "TERM": "xterm"},
        )
    os.close(terminal)
    drawn = os.read(controller, 65536).decode()
    os.close(controller)
    assert "43.1 %" in drawn and "\u2501" in drawn
    assert done.stdout == "Volume v0 is active: all members are in sync.\n"


# --- scrub ---

FOUND = NO_SCRUB | work(mode="check", total_rows=1000, mismatches=2, mismatch_offsets=[0, 196608])


@pytest.mark.parametrize(
    ("scrub", "status"),
    [(NO_SCRUB | work(mode="check", total_rows=1000), 0), (FOUND, 3), (FOUND | {"mode": "repair"}, 0)],
)
def test_scrub_that_found_something_ends_with_3(iraid, scrub, status):
    under_way = volume(scrub=NO_SCRUB | running(active=True, mode=scrub["mode"]))
    answers = {"scrub.start": under_way, "volume.status": in_turn(under_way, volume(scrub=scrub)), **QUIET}
    assert iraid(answers, "scrub", "start", "v0", "--wait").status == status
    assert iraid(answers, "scrub", "status", "v0").status == status
    shown = iraid(answers, "scrub", "status", "v0", "--json")
    assert shown.status == status
    assert shown.json()["scrub"]["mismatches"] == scrub["mismatches"]
    assert iraid(answers, "scrub", "start", "v0").status == 0


def test_a_scrub_that_is_stopped_meanwhile_is_an_error_for_who_waits(iraid):
    under_way = volume(scrub=NO_SCRUB | running(active=True, mode="check"))
    answers = {
        "scrub.start": under_way,
        "volume.status": in_turn(under_way, volume()),
        "events": in_turn(page(), page(event(3, "scrub stopped"))),
    }
    done = iraid(answers, "scrub", "start", "v0", "--wait")
    assert done.status == 1
    assert "was stopped before its end" in done.err
    assert "--resume" in done.err


def test_scrub_all_passes_over_what_can_not_be_scrubbed_and_goes_on_after_a_failure(iraid):
    volumes = [
        volume("a"),
        volume("b", state="degraded"),
        volume("c", level=0),
        volume("d"),
        volume("e", scrub=NO_SCRUB | {"active": True}),
    ]

    def start(parameters):
        return Failure(9, "io", "a: no", "try") if parameters["name"] == "a" else volume(parameters["name"])

    answers = {
        "volume.list": {"volumes": volumes},
        "scrub.start": start,
        **QUIET,
        "volume.status": lambda p: volume(p["name"], scrub=FOUND),
    }
    done = iraid(answers, "scrub", "start", "--all", "--wait")
    assert done.status == 1
    assert [p["name"] for method, p in done.calls if method == "scrub.start"] == ["a", "d"]
    for words in (
        "Volume b is skipped: it is degraded",
        "Volume c is skipped: level 0",
        "Volume e is skipped: a scrub is under way",
    ):
        assert words in done.out
    assert "warning: volume a: a: no" in done.err
    good = iraid(answers | {"scrub.start": volume()}, "scrub", "start", "--all", "--wait", "--json")
    assert good.status == 3
    assert [one["name"] for one in good.json()["ended"]] == ["a", "d"]
    assert iraid({"volume.list": {"volumes": []}}, "scrub", "start", "--all").status == 0


# --- lost ---


def test_lost_extents_are_read_page_by_page(iraid):
    pages = {0: ([(0, 512), (4096, 4096)], True), 8192: ([(1 << 20, 512)], False)}

    def answer(parameters):
        extents, more = pages[parameters["offset_bytes"]]
        return {"extents": [{"offset_bytes": o, "length_bytes": n} for o, n in extents], "more": more}

    shown = iraid({"lost.list": answer}, "lost", "v0", "--json").json()
    assert shown["bytes"] == 5120
    assert [extent["offset_bytes"] for extent in shown["extents"]] == [0, 4096, 1 << 20]


def test_lost_data_is_accepted_only_after_a_yes(iraid):
    done = iraid({"lost.accept": {"name": "v0", "accepted_bytes": 512}}, "lost", "v0", "--accept")
    assert (done.status, done.calls) == (2, [])
    assert "--yes" in done.err


# --- events ---


def test_events_are_shown_with_time_severity_volume_and_text(iraid):
    done = iraid({"events": page(event(1), event(2, volume="", severity="notice"))}, "events")
    first, second = done.out.splitlines()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d warning v0: event 1", first)
    assert second.endswith("notice  event 2")
    assert [e["number"] for e in iraid({"events": page(event(1))}, "events", "--json").json()["events"]] == [1]


def follow(tmp_path, answers, lines, *options):
    """The first `lines` lines of `iraid events --follow`, and what it asked for."""
    with ControlPeer(tmp_path / "s", {"events": answers}) as peer:
        process = subprocess.Popen(
            [IRAID, "--socket", tmp_path / "s", "events", "--follow", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        shown = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    return shown, [parameters["after"] for _, parameters in peer.calls], err, process.returncode


def test_follow_goes_on_from_the_last_one_it_saw(tmp_path):
    answers = in_turn(page(event(4), event(5)), page(event(6)), page(event(9)), page(event(10)))
    shown, asked, err, status = follow(tmp_path, answers, 5, "--json")
    assert [json.loads(line)["number"] for line in shown] == [4, 5, 6, 9, 10]
    assert asked[:4] == [0, 5, 6, 9]
    assert (err, status) == ("", 0)


def test_follow_begins_anew_when_the_handler_did_and_says_so(tmp_path):
    again = page(event(1, text="a new life"), instance="f" * 16)
    answers = in_turn(page(event(50)), again, again, page(event(2, text="goes on"), instance="f" * 16))
    shown, asked, err, _ = follow(tmp_path, answers, 3)
    assert [line.split(": ")[1].strip() for line in shown] == ["event 50", "a new life", "goes on"]
    assert asked[:4] == [0, 50, 0, 1]
    assert "the handler was restarted" in err


def test_follow_says_when_events_were_missed(tmp_path):
    answers = in_turn(page(event(5)), page(event(1205), oldest=206), page(event(1206), oldest=207))
    _, _, err, _ = follow(tmp_path, answers, 3)
    assert "200 events are missing: they came too fast" in err


def test_follow_waits_for_a_handler_that_is_away(tmp_path):
    path = tmp_path / "s"
    quiet = {"events": in_turn(page(event(4)), page())}
    with ControlPeer(path, quiet):
        process = subprocess.Popen(
            [IRAID, "--socket", path, "events", "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline().endswith("event 4\n")
    path.unlink()
    assert process.stderr.readline().endswith("; waiting for it\n")
    with ControlPeer(path, {"events": page(event(1, text="a new life"), instance="f" * 16)}):
        assert process.stdout.readline().endswith("a new life\n")
        assert process.stderr.readline() == "iraid: warning: the handler was restarted\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [1, 2, 3, 4]),
        (("--severity", "warning"), [1, 3]),
        (("--severity", "error"), [3]),
        (("--since", "2026-01-01 00:00:00.003+00:00"), [3, 4]),
        (("--since", "1s"), []),
    ],
)
def test_events_are_chosen_by_severity_and_time(iraid, options, expected):
    answer = page(event(1), event(2, severity="notice"), event(3, severity="error"), event(4, severity="info"))
    shown = iraid({"events": answer}, "events", "--json", *options)
    assert [one["number"] for one in shown.json()["events"]] == expected


def test_a_time_that_is_none_is_named(iraid):
    done = iraid({}, "events", "--since", "yesterday")
    assert (done.status, done.calls) == (2, [])
    assert "'yesterday' is not a time: write 10min" in done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", "11:58:30"),
        ("10min", "11:50:00"),
        ("10m", "11:50:00"),
        ("2h", "10:00:00"),
        ("09:15", "09:15:00"),
        ("2026-03-01 09:15:20", "09:15:20"),
        ("2026-03-01", "00:00:00"),
    ],
)
def test_times_are_given_as_people_do(text, expected):
    now = datetime(2026, 3, 1, 12).astimezone()
    assert f"{follow_module.parse_since(text, now):%Y-%m-%d %H:%M:%S}" == f"2026-03-01 {expected}"


# --- completion ---


def complete(tmp_path, line):
    words = line.split(" ")
    environment = os.environ | {
        "IRAID_SOCKET": str(tmp_path / "s"),
        "_IRAID_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([IRAID], env=environment, capture_output=True, text=True, timeout=30)
    return [entry.partition(",")[2] for entry in done.stdout.splitlines() if entry]


def test_the_shell_is_offered_commands_volumes_and_members(tmp_path):
    assert "add-spare" in complete(tmp_path, "iraid add")
    assert complete(tmp_path, "iraid status v") == []  # no handler: nothing, and no complaint
    with ControlPeer(
        tmp_path / "s", {"volume.list": {"volumes": [volume("va"), volume("b")]}, "volume.status": volume()}
    ):
        assert complete(tmp_path, "iraid stop v") == ["va"]
        assert complete(tmp_path, "iraid fail va 10.0.0.3") == [OLD]
