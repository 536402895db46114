"""iraid monitor: who is told of an event is told once, whatever is started anew meanwhile."""

import email
import email.policy
import errno
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from control_peer import IRAID, ControlPeer, event, member, page, volume
from remedies import assert_parses

from iraid.cli import main as cli
from iraid.cli import monitor as cli_monitor
from iraid.control import model
from iraid.control.errors import IraidError
from iraid.watch import monitor, notify

DEGRADED = {"state": "degraded", "members": [member(0), member(1, state="faulty", link="closed"), member(2), member(3)]}


class Handler:
    """What the control socket would answer, without one."""

    def __init__(self):
        self.instance, self.all, self.away = "a" * 16, [], False
        self.states = {"v0": {}}
        self.faults = {}  # of volumes' files

    def happens(self, number, kind="member evicted", severity="error", **changes):
        self.all.append(event(number, kind, **{"severity": severity, "member": "10.0.0.2:3260/iqn.x:y/0", **changes}))

    def restarts(self):
        self.instance, self.all = chr(ord(self.instance[0]) + 1) * 16, []

    def events(self, _name, after, _wait):
        self._check()
        newest = max((one["number"] for one in self.all), default=0)
        told = [one for one in self.all if one["number"] > (after if after <= newest else 0)]
        return model.read(model.EventPage, page(*told, instance=self.instance) | {"next": newest})

    def volumes(self):
        self._check()
        return [
            model.read(
                model.Volume,
                {"name": name, "state": "failed", "reason": self.faults[name]}
                if name in self.faults
                else volume(name, **self.states[name]),
            )
            for name in self.states
        ]

    def status(self, name):
        self._check()
        if name in self.faults:
            raise IraidError(self.faults[name], "correct the file", kind="invalid")
        return model.read(model.Volume, volume(name, **self.states[name]))

    def pool(self):
        return model.Pool()

    def _check(self):
        if self.away:
            raise IraidError("no program listens", kind="unavailable")


@pytest.fixture
def rig(tmp_path, monkeypatch):
    """A handler, a clock, a mail program and a program for events that write down what they got."""
    monkeypatch.setattr("iraid.watch.follow.RETRY_SECONDS", 0)
    (tmp_path / "mails").mkdir()
    sendmail = program(
        tmp_path / "sendmail",
        f'n=$(ls {tmp_path}/mails | wc -l); echo "$@" > {tmp_path}/mail-words\n'
        f"[ ! -e {tmp_path}/broken ] || {{ echo first; echo queue is full; exit 75; }}\n"
        f"cat > {tmp_path}/mails/$n",
    )
    command = program(
        tmp_path / "command",
        f'printf "%s|" "$@" "$IRAID_EVENT_SEVERITY" "$IRAID_EVENT_TEXT" '
        f'"$IRAID_EVENT_NUMBER" >> {tmp_path}/ran; echo >> {tmp_path}/ran',
    )
    handler, now = Handler(), [1000.0]

    def start(**settings):
        given = monitor.Settings(**{"mail": ["root"], "sendmail": sendmail, **settings})
        return monitor.Monitor(
            handler, given, monitor.StateFile(tmp_path / "state" / "monitor.json"), "gw", lambda: now[0]
        )

    def mails():
        files = sorted((tmp_path / "mails").iterdir(), key=lambda path: int(path.name))
        return [email.message_from_bytes(path.read_bytes(), policy=email.policy.default) for path in files]

    def ran():
        return (tmp_path / "ran").read_text().splitlines() if (tmp_path / "ran").exists() else []

    def later(seconds, watching):
        now[0] += seconds
        watching.step(0)

    return SimpleNamespace(
        handler=handler,
        start=start,
        mails=mails,
        ran=ran,
        later=later,
        sendmail=sendmail,
        command=command,
        path=tmp_path,
    )


def program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def running(rig, **settings):
    """One that knows all that was, and has nothing to tell."""
    watching = rig.start(**settings)
    watching.step(0)
    assert (rig.mails(), rig.ran()) == ([], [])
    return watching


# --- mail ---


def test_a_burst_is_one_mail_with_what_to_do(rig):
    watching = running(rig)
    rig.handler.states["v0"] = DEGRADED
    rig.handler.happens(1, "member silent", "warning", text="member 1: session lost")
    rig.later(1, watching)
    rig.handler.happens(2, text="member 1 is given up")
    rig.later(9, watching)
    assert rig.mails() == []
    rig.later(10, watching)
    (mail,) = rig.mails()
    assert mail["Subject"] == "[iraid gw] v0: member evicted and 1 more"
    assert (mail["To"], mail["Auto-Submitted"]) == ("root", "auto-generated")
    text = mail.get_content()
    assert re.search(r"warning v0: member 1: session lost\n.* error   v0: member 1 is given up", text)
    assert "v0 now: DEGRADED: member 1 is faulty" in text
    for remedy in re.findall(r"^    (.*)", text, re.MULTILINE):
        assert_parses(remedy)
    rig.later(300, watching)
    assert len(rig.mails()) == 1


def test_a_storm_is_told_before_it_ends(rig):
    watching = running(rig)
    for number in range(1, 15):
        rig.handler.happens(number)
        rig.later(5, watching)
    assert len(rig.mails()) == 1


def test_what_is_not_severe_enough_is_left_out(rig):
    watching = running(rig, severity="error")
    rig.handler.happens(1, severity="warning")
    rig.handler.happens(2, "scrub finished", "notice")
    rig.later(1, watching)
    rig.later(30, watching)
    assert rig.mails() == []
    rig.handler.happens(3, "fenced", "critical")
    rig.later(1, watching)
    rig.later(30, watching)
    assert [mail["Subject"] for mail in rig.mails()] == ["[iraid gw] v0: fenced"]


def test_names_of_targets_can_not_add_headers_or_lines(rig):
    watching = running(rig)
    rig.handler.happens(1, "bad\nBcc: other@example.org", text="one\r\ntwo\x1b[31m\u202e")
    rig.later(1, watching)
    rig.later(30, watching)
    (mail,) = rig.mails()
    assert mail["Bcc"] is None and "Bcc" in mail["Subject"]
    assert "one  two [31m" in mail.get_content()


def test_a_mail_that_can_not_be_sent_waits_over_a_restart(rig):
    watching = running(rig)
    (rig.path / "broken").touch()
    rig.handler.happens(1)
    rig.later(1, watching)
    rig.later(10, watching)
    rig.handler.happens(2)
    rig.later(30, watching)
    rig.later(10, watching)
    assert rig.mails() == []
    watching.file._lock.close()
    rig.handler.restarts()
    (rig.path / "broken").unlink()
    again = rig.start()
    rig.later(0, again)
    rig.later(30, again)
    (mail,) = rig.mails()
    assert mail.get_content().count("error   v0: event") == 2


def test_tries_to_mail_become_rarer(rig, capsys):
    watching = running(rig)
    (rig.path / "broken").touch()
    rig.handler.happens(1)
    rig.later(1, watching)
    for _ in range(100):
        rig.later(10, watching)
    assert 4 <= capsys.readouterr().err.count("status 75: queue is full") <= 6


def test_too_many_that_wait_are_counted(rig, monkeypatch):
    monkeypatch.setattr(monitor, "PENDING_MAX", 3)
    watching = running(rig)
    for number in range(1, 6):
        rig.handler.happens(number)
    rig.later(1, watching)
    rig.later(30, watching)
    text = rig.mails()[0].get_content()
    assert "2 earlier events are left out" in text and "event 3" in text and "event 2\n" not in text


# --- a program ---


def test_a_program_is_run_for_each_event_as_it_comes_and_by_no_shell(rig):
    watching = running(rig, mail=[], command=rig.command)
    rig.handler.happens(1, "member evicted", text="it's; rm -rf $(x) `y`", volume="v 0;")
    rig.handler.happens(2, "suspended", member="")
    rig.later(0, watching)
    assert rig.ran() == [
        "member evicted|v 0;|10.0.0.2:3260/iqn.x:y/0|error|it's; rm -rf $(x) `y`|1|",
        "suspended|v0||error|event 2|2|",
    ]


def test_a_program_that_fails_is_named_and_not_run_again(rig, capsys):
    bad = program(rig.path / "bad", f"echo ran >> {rig.path}/ran; echo no such pager; exit 3")
    watching = running(rig, mail=[], command=bad)
    rig.handler.happens(1)
    rig.later(0, watching)
    rig.later(100, watching)
    assert len(rig.ran()) == 1
    assert f"{bad} ended with status 3: no such pager" in capsys.readouterr().err


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path):
    hangs = program(tmp_path / "hangs", f"sleep 300 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(IraidError, match="did not end within 0.3 s"):
        notify.run_command(hangs, model.read(model.Event, event(1)), "", 0.3)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "raises"),
    [("sleep 30 &", False), ("setsid sleep 30 & exit 3", True), ("setsid sleep 30 & sleep 31", True)],
)
def test_nobody_waits_for_what_a_program_leaves_in_the_background(tmp_path, script, raises):
    """It holds the output open, and may be in a group of its own."""
    leaves = program(tmp_path / "leaves", script.replace("&", f"& echo $! > {tmp_path}/child;", 1))
    begin = time.monotonic()
    try:
        if raises:
            with pytest.raises(IraidError, match="status 3|did not end within 0.5 s"):
                notify.run_command(leaves, model.read(model.Event, event(1)), "", 0.5)
        else:
            notify.run_command(leaves, model.read(model.Event, event(1)), "", 0.5)
        assert time.monotonic() - begin < 5
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_program_that_does_not_read_and_says_much_is_done(tmp_path):
    """More than a pipe holds, both ways."""
    loud = program(tmp_path / "loud", "head -c 300000 /dev/zero | tr '\\0' 'x'; echo; echo the end; exit 3")
    with pytest.raises(IraidError, match="status 3: the end"):
        notify._run([str(loud)], b"y" * 300_000, dict(os.environ), 10, "test")


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- restarts ---


def test_nothing_is_lost_and_nothing_repeated_over_restarts_of_both(rig):
    watching = running(rig, command=rig.command)
    numbers = []
    for life in range(3):
        for number in range(1, 4):
            rig.handler.happens(number, text=f"life {life} event {number}")
            rig.later(1, watching)
            watching.file._lock.close()
            watching = rig.start(command=rig.command)
            numbers.append(f"life {life} event {number}")
        rig.handler.happens(4, text=f"life {life} while the monitor was away")
        numbers.append(f"life {life} while the monitor was away")
        rig.later(1, watching)
        rig.handler.restarts()
    rig.later(60, watching)
    rig.later(60, watching)
    assert [line.split("|")[4] for line in rig.ran()] == numbers
    assert sum(mail.get_content().count("life ") for mail in rig.mails()) == len(numbers)


def test_who_is_killed_in_the_middle_of_telling_repeats_that_one_and_no_other(rig, monkeypatch):
    watching = running(rig, mail=[], command=rig.command)
    for number in range(1, 5):
        rig.handler.happens(number)
    run = notify.run_command

    def killed(program, event, instance):
        run(program, event, instance)
        if event.number == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(notify, "run_command", killed)
    with pytest.raises(KeyboardInterrupt):
        rig.later(1, watching)
    watching.file._lock.close()
    monkeypatch.setattr(notify, "run_command", run)
    rig.later(1, rig.start(mail=[], command=rig.command))
    assert [line.split("|")[4] for line in rig.ran()] == [f"event {number}" for number in (1, 2, 3, 3, 4)]


def test_a_mail_that_was_sent_is_not_sent_again_after_a_restart(rig):
    watching = running(rig)
    rig.handler.happens(1)
    rig.later(1, watching)
    rig.later(20, watching)
    watching.file._lock.close()
    again = rig.start()
    rig.later(1, again)
    rig.later(100, again)
    assert len(rig.mails()) == 1


def test_a_full_disk_keeps_nobody_from_being_told(rig, monkeypatch, capsys):
    watching = running(rig, command=rig.command)
    full, save = [True], monitor.StateFile.save

    def bounded(self, state):
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(self, state)

    monkeypatch.setattr(monitor.StateFile, "save", bounded)
    rig.handler.happens(1)
    rig.handler.happens(2)
    for _ in range(4):
        rig.later(20, watching)
    assert (len(rig.ran()), len(rig.mails())) == (2, 1)
    assert capsys.readouterr().err.count("monitor.json can't be written (No space left on device)") == 1
    full[0] = False
    rig.later(40, watching)  # nothing happens, and it is tried again
    assert "monitor.json is written again" in capsys.readouterr().err
    watching.file._lock.close()
    rig.later(100, rig.start(command=rig.command))
    assert (len(rig.ran()), len(rig.mails())) == (2, 1)


def test_once_says_by_its_status_that_it_would_repeat_itself(rig, monkeypatch):
    def full(_self, _state):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert rig.start().once() == 0
    monkeypatch.setattr(monitor.StateFile, "save", full)
    (rig.path / "state" / "monitor.lock").unlink()
    assert rig.start().once() == 1


def test_the_first_start_tells_how_volumes_are_and_not_what_was(rig):
    rig.handler.happens(1, "member evicted")
    rig.handler.states = {"bad": DEGRADED, "good": {}, "off": {"state": "stopped"}}
    watching = rig.start(mail=[], command=rig.command)
    watching.step(0)
    rig.later(120, watching)
    assert [line.split("|")[:2] for line in rig.ran()] == [["volume degraded", "bad"]]


def test_a_volume_whose_file_has_a_fault_is_told_and_hides_no_other(rig):
    rig.handler.states |= {"v0": DEGRADED, "v1": {}, "v2": {"state": "suspended"}}
    rig.handler.faults["v1"] = "/etc/iraid/volumes/v1.conf:58: give_upp: there is no such key"
    watching = rig.start()
    watching.step(0)
    rig.later(61, watching)
    (mail,) = rig.mails()
    text = mail.get_content()
    assert re.search(r"warning v0: member 1 is faulty", text) and re.search(r"critical v2: I/O waits", text)
    assert re.search(r"critical v1: .*give_upp: there is no such key", text)
    for remedy in re.findall(r"^    (.*)", text, re.MULTILINE):
        assert_parses(remedy)


def test_once_says_by_its_status_that_it_could_not_look(rig, capsys):
    def refused():
        raise IraidError("/etc/iraid/volumes: Permission denied", "check the permissions of that folder")

    rig.handler.volumes = refused
    assert rig.start().once() == 1
    assert "the volumes can't be examined: /etc/iraid/volumes: Permission denied" in capsys.readouterr().err


def test_once_tells_of_a_volume_that_waits_for_members(rig):
    """There is no second look."""
    rig.handler.states["v0"] = {"state": "assembling"}
    assert rig.start(mail=[], command=rig.command).once() == 0
    assert rig.ran()[0].startswith("volume waiting|v0|")


def test_a_volume_that_came_up_degraded_is_told_once(rig):
    """The handler says "assembled" as a notice, whoever is missing."""
    watching = running(rig, mail=[], command=rig.command)
    rig.handler.restarts()
    rig.handler.states["v0"] = DEGRADED
    rig.handler.happens(1, "assembled", "notice", member="")
    rig.later(1, watching)
    assert [line.split("|")[0] for line in rig.ran()] == ["volume degraded"]  # at once
    rig.later(100, watching)
    rig.later(100, watching)
    assert [line.split("|")[0] for line in rig.ran()] == ["volume degraded"]
    rig.handler.states["v0"] = {}
    rig.later(100, watching)
    rig.handler.states["v0"] = {"state": "failed"}
    rig.later(100, watching)
    assert [line.split("|")[0] for line in rig.ran()][1:] == ["volume failed"]


def test_what_an_event_told_is_not_told_again_as_a_state(rig):
    watching = running(rig, mail=[], command=rig.command)
    rig.handler.states["v0"] = DEGRADED
    rig.handler.happens(1)
    for _ in range(3):
        rig.later(100, watching)
    assert len(rig.ran()) == 1


def test_a_volume_that_waits_for_members_is_told_when_it_goes_on_waiting(rig):
    rig.handler.states["v0"] = {"state": "assembling"}
    watching = running(rig, mail=[], command=rig.command)
    rig.later(30, watching)
    assert rig.ran() == []
    rig.later(61, watching)
    assert rig.ran()[0].startswith("volume waiting|v0|")


def test_a_handler_that_is_gone_is_told_after_a_while_and_that_it_is_back(rig):
    watching = running(rig, mail=[], command=rig.command)
    rig.handler.away = True
    rig.later(1, watching)
    rig.later(20, watching)
    assert rig.ran() == []
    rig.later(15, watching)
    rig.later(100, watching)
    assert [line.split("|")[0] for line in rig.ran()] == ["handler away"]
    rig.handler.away = False
    rig.later(1, watching)
    assert [line.split("|")[0] for line in rig.ran()] == ["handler away", "handler back"]


def test_a_state_file_that_is_broken_is_as_none(rig, capsys):
    (rig.path / "state").mkdir()
    (rig.path / "state" / "monitor.json").write_text('{"instance": 7')
    rig.handler.happens(1)
    running(rig)
    assert "only events from now on are reported" in capsys.readouterr().err
    assert os.stat(rig.path / "state" / "monitor.json").st_mode & 0o777 == 0o600


def test_two_at_a_time_are_refused(rig):
    first = rig.start()
    with pytest.raises(IraidError, match="another monitor runs"):
        rig.start()
    first.file._lock.close()


# --- the command ---


@pytest.fixture
def typed(rig, capsys, monkeypatch):
    monkeypatch.setenv("IRAID_STATE_DIR", str(rig.path / "state"))

    def run(*arguments, answers=None):
        with ControlPeer(rig.path / "s", answers or {}):
            status = cli.main(["monitor", "--socket", str(rig.path / "s"), *map(str, arguments)])
        (rig.path / "s").unlink()
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err)

    return run


def test_a_test_message_goes_both_ways(rig, typed):
    done = typed(
        "--test",
        "--mail",
        "root",
        "--mail",
        "a@example.org",
        "--sendmail",
        rig.sendmail,
        "--command",
        rig.command,
        "--from",
        "gw@example.org",
    )
    assert done.status == 0 and "mail to root, a@example.org was passed to" in done.out
    (mail,) = rig.mails()
    assert (mail["To"], mail["From"]) == ("root, a@example.org", "gw@example.org")
    assert (rig.path / "mail-words").read_text().startswith("-i -t -F iraid on ")
    assert rig.ran()[0].startswith("test message|||notice|this is a test")


def test_a_test_that_fails_says_why(rig, typed):
    (rig.path / "broken").touch()
    done = typed("--test", "--mail", "root", "--sendmail", rig.sendmail)
    assert done.status == 1 and "status 75: queue is full" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mail", "a b"], "'a b' is not a mail address"),
        (["--mail", "-f/etc"], "is not a mail address"),
        (["--mail", "root", "--from", "x\ny"], "is not a mail address"),
        (["--mail", "root", "--sendmail", "/nowhere"], "apt install postfix"),
        (["--command", "event.sh"], "is not an absolute path"),
        (["--command", "/nowhere/x"], "/nowhere/x does not exist"),
        (["--command", "/etc/passwd"], "is not executable"),
        (["--severity", "loud", "--mail", "root"], "'loud' is not"),
    ],
)
def test_what_can_not_be_is_refused_at_the_start(typed, words, said):
    done = typed("--test", *words)
    assert done.status in (1, 2) and said in done.err


def test_a_program_that_others_can_change_is_refused(rig, typed):
    rig.command.chmod(0o777)
    assert "can be changed by others" in typed("--test", "--command", rig.command).err


def test_nobody_to_be_told_is_an_error(typed, monkeypatch):
    monkeypatch.setattr(cli_monitor, "_notify_of_gateway", lambda: {"mail": [], "command": "", "severity": "warning"})
    done = typed()
    assert done.status == 2 and "[notify]" in done.err


def test_whom_to_tell_stands_in_the_gateways_settings(rig, typed, monkeypatch):
    monkeypatch.setattr(
        cli_monitor, "_notify_of_gateway", lambda: {"mail": ["root"], "command": str(rig.command), "severity": "error"}
    )
    answers = {
        "events": page(),
        "volume.list": {"volumes": [volume()]},
        "volume.status": volume(**DEGRADED),
        "pool.list": {"spares": []},
    }
    assert typed("--once", "--sendmail", rig.sendmail, answers=answers).status == 0
    assert (rig.mails(), rig.ran()) == ([], [])  # a warning
    answers["volume.status"] = volume(state="failed")
    (rig.path / "state" / "monitor.json").unlink()
    done = typed("--once", "--json", "--sendmail", rig.sendmail, answers=answers)
    assert json.loads(done.out) == {"failures": 0, "pending": 0}
    assert (len(rig.mails()), len(rig.ran())) == (1, 1)


def test_the_daemon_follows_and_ends_at_once_when_told(rig):
    answers = {
        "events": lambda p: (
            page(*([event(7, "fenced", severity="critical")] if p["after"] == 3 else []))
            | {"next": 7 if p["after"] >= 3 else 3}
        ),
        "volume.list": {"volumes": []},
        "pool.list": {"spares": []},
    }
    environment = os.environ | {"IRAID_STATE_DIR": str(rig.path / "state")}
    with ControlPeer(rig.path / "s", answers):
        process = subprocess.Popen(
            [IRAID, "--socket", rig.path / "s", "monitor", "--command", rig.command],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert "critical v0: event 7" in process.stderr.readline()
        state = rig.path / "state" / "monitor.json"
        deadline = time.monotonic() + 20
        while json.loads(state.read_text())["next"] != 7:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert [line[:10] for line in rig.ran()] == ["fenced|v0|"]
