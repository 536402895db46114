"""upgrade-runner: what it decides, from what it is shown.  tests/lab/test_boot.py runs it."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from control_peer import ROOT

from iraid.cli import upgrade
from iraid.control import model
from iraid.control.errors import IraidError

ENGINE = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build")) / "handler/adapters/iraid-engine"
GOOD_FILE = """\
[volume]
uuid = d30c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10
initiator = iqn.2026-01.org.example:gw
member = 10.0.0.1:3260/iqn.2026-01.org.example:d/0
member = 10.0.0.2:3260/iqn.2026-01.org.example:d/0
"""
MAPS = """\
7f1c2a400000-7f1c2a428000 r--p 00000000 fd:01 4242                       /usr/lib/x86_64-linux-gnu/libc.so.6
7f1c2a600000-7f1c2a60b000 r--p 00000000 fd:01 1717                       /usr/lib/x86_64-linux-gnu/tcmu-runner/handler_iraid.so{}
7f1c2a60b000-7f1c2a68b000 r-xp 0000b000 fd:01 1717                       /usr/lib/x86_64-linux-gnu/tcmu-runner/handler_iraid.so{}
7ffd5c3f2000-7ffd5c413000 rw-p 00000000 00:00 0                          [stack]
7ffd5c3f2000-7ffd5c413000 rw-p 00000000 00:00 0
"""


@pytest.mark.parametrize("mark", ["", " (deleted)"])
def test_the_handler_of_a_process_is_found_also_when_its_file_was_replaced(mark):
    loaded = upgrade.find_loaded(MAPS.replace("{}", mark))
    assert loaded is not None
    assert str(loaded.path) == "/usr/lib/x86_64-linux-gnu/tcmu-runner/handler_iraid.so"
    assert loaded.mapping == "7f1c2a600000-7f1c2a60b000"


def test_a_process_without_the_handler_has_none():
    assert upgrade.find_loaded(MAPS.replace("handler_iraid", "handler_rbd")) is None


def test_a_file_that_was_replaced_is_new_and_one_that_is_gone_is_told(tmp_path):
    file, mapped = tmp_path / "handler_iraid.so", tmp_path / "mapped"
    file.write_text("old")
    os.link(file, mapped)
    assert not upgrade.is_new(file, mapped)
    (tmp_path / "next").write_text("old")
    (tmp_path / "next").rename(file)
    assert upgrade.is_new(file, mapped)
    file.unlink()
    with pytest.raises(IraidError, match="could not load it"):
        upgrade.is_new(file, mapped)


def test_what_the_runner_gives_to_its_handlers_is_not_missing():
    found = "\tlibiscsi.so.7 => /lib/x86_64-linux-gnu/libiscsi.so.7 (0x00007f6a0e137000)\n"
    symbols = "".join(
        f"undefined symbol: {name}\t(/x/handler_iraid.so)\n"
        for name in ("tcmur_cmd_complete", "tcmu_err_message", "ec_encode_data")
    )
    assert upgrade.missing_parts(found + symbols) == ["ec_encode_data"]
    assert upgrade.missing_parts(found + "\tlibisal.so.3 => not found\n" + symbols) == ["libisal.so.3"]
    assert upgrade.missing_parts(found) == []


def volume(state="active", users=("tcmu: v0",), **more):
    return model.Volume(name="v0", state=state, users=list(users), **more)


@pytest.mark.parametrize(
    ("state", "word"),
    [("suspended", "silent"), ("assembling", "not assembled"), ("active", None), ("degraded", None), ("failed", None)],
)
def test_a_volume_whose_commands_may_not_end_stands_in_the_way(state, word):
    why = upgrade.why_not_now(volume(state))
    assert (why is None) == (word is None) and (word or "") in (why or "")


def test_a_volume_that_nobody_uses_stands_in_nobodys_way():
    assert upgrade.why_not_now(volume("suspended", users=())) is None


@pytest.mark.skipif(not ENGINE.exists(), reason="there is no build: run scripts/build")
@pytest.mark.parametrize(
    ("text", "users", "said"),
    [
        (GOOD_FILE, ["tcmu: v0"], None),
        (GOOD_FILE + "give_up_seconds = soon\n", ["tcmu: v0"], "v0.conf:6: give_up_seconds"),
        (GOOD_FILE + "give_up_seconds = soon\n", [], None),
        ("", ["tcmu: v0"], "uuid: it is missing"),
        (None, ["tcmu: v0"], "there is no volume"),
    ],
)
def test_a_volume_in_use_that_would_not_start_again_stands_in_the_way(monkeypatch, tmp_path, text, users, said):
    (tmp_path / "volumes").mkdir()
    if text is not None:
        (tmp_path / "volumes/v0.conf").write_text(text)
    (tmp_path / "volumes/v1.conf").write_text("nonsense")  # nobody uses it
    (tmp_path / "gateway.conf").write_text("[exporter]\nport = none\n")
    monkeypatch.setenv("IRAID_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("IRAID_ENGINE", str(ENGINE))
    volumes = [volume(users=users)]
    if said is None:
        return upgrade._check_files(volumes)
    with pytest.raises(IraidError, match=said) as caught:
        upgrade._check_files(volumes)
    assert "nothing was changed" in caught.value.message and caught.value.remedy


def test_work_under_way_is_told_of():
    busy = volume(
        resync=model.Resync(running=True), rebuild=model.Rebuild(running=True), scrub=model.Scrub(active=True)
    )
    assert [word for word in ("resync", "rebuild", "scrub") if word not in " ".join(upgrade.notes_on(busy))] == []
    assert upgrade.notes_on(volume()) == []


def test_of_the_runners_log_only_what_is_new_and_of_the_handler_is_told(tmp_path):
    log = tmp_path / "log"
    old = "2026-01-01 10:00:00.1 7 [ERROR] open_handlers:188: Could not open handler at /x/handler_iraid.so: old\n"
    log.write_text(old + "2026-01-01 10:00:01.1 9 [CRIT] main:1302: Starting...\n" + old.replace("old", "no libisal"))
    assert upgrade.said_since(log, len(old)) == "Could not open handler at /x/handler_iraid.so: no libisal"
    assert upgrade.said_since(tmp_path / "none", 0) == ""


@pytest.mark.parametrize("seconds", ["0", "26"])
def test_a_time_that_the_kernel_would_not_wait_is_refused(seconds):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/upgrade-runner"), "--stop-seconds", seconds],
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and f"--stop-seconds {seconds}" in done.stderr and "remedy:" in done.stderr


class Machine:
    """A runner and its client, for what upgrade-runner does with them; `new` says what the new handler does."""

    def __init__(self, monkeypatch, tmp_path, new, old_works=True):
        self.new, self.old_works, self.starts = new, old_works, []
        self.pid = 100
        self.running_new = False
        monkeypatch.setattr(upgrade, "KEPT", tmp_path / "kept")
        monkeypatch.setattr(upgrade, "GO_BACK", tmp_path / "dropin/back.conf")
        monkeypatch.setattr(upgrade, "LOG", tmp_path / "no-log")
        monkeypatch.setattr(upgrade, "restart", self.restart)
        monkeypatch.setattr(upgrade, "_run", self.run)
        monkeypatch.setattr(upgrade, "ANSWER_SECONDS", 0.0)
        monkeypatch.setattr(upgrade, "OPEN_SECONDS", 0.0)
        monkeypatch.setattr(upgrade, "READY_SECONDS", 0.0)

    def restart(self, pid, stop_seconds, start_seconds=8):
        assert pid == self.pid, "another process would be killed when it does not end"
        if self.starts:
            assert stop_seconds <= 5
            self.pid, self.running_new = 102, False
            self.starts.append("old" if upgrade.GO_BACK.exists() else "installed")
            return False
        self.pid, self.running_new = 101, True
        self.starts.append("new")
        if self.new == "does not start":
            raise IraidError("it does not start", kind="unavailable")
        return False

    def run(self, *words):
        assert words[:2] != ("systemctl", "restart"), "it would wait for what does not end"
        said = f"MainPID={self.pid}\n" if words[:2] == ("systemctl", "show") else ""
        return subprocess.CompletedProcess(words, 0, said, "")

    def version(self):
        if (self.running_new and self.new == "is silent") or (self.starts[-1:] == ["old"] and not self.old_works):
            raise IraidError("nobody answers", kind="unavailable")
        return model.Version("2.0" if self.running_new else "1.0", "tcmu-runner", self.pid)

    def volumes(self):
        if self.running_new and self.new == "crashes":
            raise IraidError("the connection ended", kind="unavailable")
        if self.running_new and self.new == "has no volume":
            return []
        states = {"fails": "failed", "leaves it stopped": "stopped", "never assembles it": "assembling"}
        return [volume(states.get(self.new, "active") if self.running_new else "active")]

    def take(self):
        report = upgrade.Upgrade("possible", "/x/handler_iraid.so", "1.0")
        upgrade._restart(self, 100, [volume()], 15, report)
        return report


def test_a_handler_that_works_is_taken(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, "works")
    report = machine.take()
    assert (report.outcome, report.after, machine.starts) == ("taken", "2.0", ["new"])


@pytest.mark.parametrize(
    "new",
    ["does not start", "is silent", "crashes", "fails", "has no volume", "leaves it stopped", "never assembles it"],
)
def test_a_handler_that_does_not_work_makes_room_for_the_old_one(monkeypatch, tmp_path, new):
    machine = Machine(monkeypatch, tmp_path, new)
    with pytest.raises(IraidError, match=r"The old handler, version 1\.0, runs again"):
        machine.take()
    assert machine.starts == ["new", "old"]
    assert "handler-path" in upgrade.GO_BACK.read_text()


@pytest.mark.parametrize("found", [[], [volume("stopped")]])
def test_a_volume_that_is_not_begun_is_not_waited_for_as_one_that_is_assembled(monkeypatch, tmp_path, found):
    """After 30 s its initiators' commands would fail."""
    machine = Machine(monkeypatch, tmp_path, "works")
    monkeypatch.setattr(upgrade, "OPEN_SECONDS", 0.2)
    monkeypatch.setattr(upgrade, "READY_SECONDS", 60.0)
    machine.volumes = lambda: found
    assert upgrade.wait_for_volumes(machine, ["v0"]) == found
    seen = iter([[volume("stopped")], [volume("assembling")], [volume("active")]])
    machine.volumes = lambda: next(seen)
    assert upgrade.wait_for_volumes(machine, ["v0"])[0].state == "active"


def test_a_volume_on_standby_is_not_waited_for(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, "works")
    monkeypatch.setattr(upgrade, "READY_SECONDS", 1.0)
    passive = volume("standby")
    passive.name = "v1"
    asked = []
    machine.volumes = lambda: asked.append(1) or [volume("active"), passive]
    report = upgrade.Upgrade("possible", "/x/handler_iraid.so", "1.0")
    upgrade._restart(machine, 100, [volume("active"), passive], 15, report)
    assert report.outcome == "taken" and report.notes == [] and len(asked) == 1


def test_a_volume_that_the_other_gateway_took_meanwhile_is_no_fault_of_the_handler(monkeypatch, tmp_path):
    """Pacemaker moved it while the old runner was stopping."""
    machine = Machine(monkeypatch, tmp_path, "works")
    machine.volumes = lambda: [volume("standby")]
    report = upgrade.Upgrade("possible", "/x/handler_iraid.so", "1.0")
    upgrade._restart(machine, 100, [volume("active")], 15, report)
    assert report.outcome == "taken" and "volume v0 is standby" in report.notes[0]


def test_it_is_told_which_volume_the_new_handler_did_not_have(monkeypatch, tmp_path):
    with pytest.raises(IraidError, match="volume v0 is missing"):
        Machine(monkeypatch, tmp_path, "has no volume").take()
    with pytest.raises(IraidError, match="volume v0 is stopped"):
        Machine(monkeypatch, tmp_path, "leaves it stopped").take()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (volume("active", users=()), volume("stopped", users=())),  # nobody starts it again
        (volume("suspended"), volume("suspended")),  # taken by --force
    ],
)
def test_what_did_not_work_before_or_is_not_used_needs_not_work_after(monkeypatch, tmp_path, before, after):
    machine = Machine(monkeypatch, tmp_path, "works")
    machine.volumes = lambda: [after]
    report = upgrade.Upgrade("possible", "/x/handler_iraid.so", "1.0")
    upgrade._restart(machine, 100, [before], 15, report)
    assert report.outcome == "taken" and bool(report.notes) == bool(before.users)


def running_machine(monkeypatch, tmp_path, new):
    """With all that upgrade() looks at; the runner is this process."""
    machine = Machine(monkeypatch, tmp_path, new)
    installed = tmp_path / upgrade.HANDLER
    installed.write_text("new")
    machine.pid = os.getpid()
    monkeypatch.setattr(upgrade, "_unit", lambda *names: {"MainPID": str(machine.pid)})
    monkeypatch.setattr(upgrade, "find_loaded", lambda maps: upgrade.Loaded(installed, "1-2"))
    monkeypatch.setattr(upgrade, "is_new", lambda installed, mapped: True)
    monkeypatch.setattr(upgrade, "keep_old", lambda mapped, path: upgrade.KEPT.mkdir())
    monkeypatch.setattr(upgrade, "check_loads", lambda path: None)
    monkeypatch.setattr(upgrade, "_check_files", lambda volumes: None)
    return machine


GIVEN = argparse.Namespace(check=False, again=False, force=False, stop_seconds=15)


@pytest.mark.parametrize("number", upgrade.INTERRUPTIONS)
@pytest.mark.parametrize("new", ["works", "is silent"])
def test_nobody_interrupts_it_while_the_runner_is_down(monkeypatch, tmp_path, number, new):
    """Ctrl-C goes to the commands that it runs, too."""
    machine = running_machine(monkeypatch, tmp_path, new)
    real = machine.restart

    def interrupted(pid, stop_seconds, *more):
        os.kill(os.getpid(), number)
        subprocess.run(["sh", "-c", f"kill -{int(number)} $$"], check=True)
        return real(pid, stop_seconds, *more)

    monkeypatch.setattr(upgrade, "restart", interrupted)
    before = signal.getsignal(number)
    if new == "works":
        assert upgrade.upgrade(machine, GIVEN).outcome == "taken"
    else:
        with pytest.raises(IraidError, match="runs again"):
            upgrade.upgrade(machine, GIVEN)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(5, "Input/output error"), ValueError("no JSON")])
def test_whatever_goes_wrong_while_the_runner_is_down_brings_the_old_handler_back(monkeypatch, tmp_path, fault):
    machine = Machine(monkeypatch, tmp_path, "works")
    real = machine.version

    def version():
        if machine.running_new:
            raise fault
        return real()

    machine.version = version
    with pytest.raises(IraidError, match=r"version 1\.0, runs again"):
        machine.take()
    assert machine.starts == ["new", "old"]


def test_a_way_back_that_can_not_be_written_is_told_with_what_to_write(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, "is silent")
    upgrade.GO_BACK.parent.write_text("in the way")
    with pytest.raises(IraidError, match="can't be told to take the old one") as told:
        machine.take()
    assert f"--handler-path={upgrade.KEPT}" in told.value.remedy and str(upgrade.GO_BACK) in told.value.message


def test_a_runner_that_has_just_ended_is_told(monkeypatch, tmp_path):
    machine = running_machine(monkeypatch, tmp_path, "works")
    monkeypatch.setattr(upgrade, "_unit", lambda *names: {"MainPID": str(2**22 + 1)})  # no such process
    with pytest.raises(IraidError, match=f"pid {2**22 + 1}.* has just ended") as told:
        upgrade.upgrade(machine, GIVEN)
    assert "systemctl status" in told.value.remedy
    monkeypatch.undo()
    with pytest.raises(IraidError, match="has just ended"):
        upgrade.is_new(tmp_path / upgrade.HANDLER, upgrade.Path(f"/proc/{2**22 + 1}/map_files/1-2"))


def test_a_folder_for_the_old_handler_that_can_not_be_made_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(upgrade, "KEPT", tmp_path / "file/lib/kept")
    with pytest.raises(IraidError, match="nothing was changed: the old handler can't be kept in") as told:
        upgrade.check_room()
    assert "can be written to" in told.value.remedy


def test_without_either_the_next_start_takes_what_is_installed(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, "is silent", old_works=False)
    with pytest.raises(IraidError, match="neither"):
        machine.take()
    assert not upgrade.GO_BACK.exists()


def test_a_place_that_programs_can_not_be_loaded_from_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(upgrade, "KEPT", tmp_path / "kept")
    upgrade.check_room()
    flags = argparse.Namespace(f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(upgrade.os, "statvfs", lambda path: flags)
    with pytest.raises(IraidError, match="noexec"):
        upgrade.check_room()


def test_a_runner_that_hangs_at_its_start_is_not_waited_for(monkeypatch):
    killed = []
    monkeypatch.setattr(upgrade, "START_SECONDS", 0.2)
    monkeypatch.setattr(upgrade, "_kill_runner", lambda: killed.append(True))
    real = subprocess.Popen
    monkeypatch.setattr(upgrade.subprocess, "Popen", lambda words, **more: real(["sleep", "60"], **more))
    with pytest.raises(IraidError, match="did not start within"):
        upgrade.restart(2**22 + 1, 15)  # no such process: it has ended
    assert killed == [True]


@pytest.mark.parametrize("check", [False, True])
def test_a_runner_that_does_not_run_takes_what_is_installed(monkeypatch, tmp_path, check):
    machine = Machine(monkeypatch, tmp_path, "works")
    upgrade.GO_BACK.parent.mkdir()
    upgrade.GO_BACK.write_text("[Service]\n")
    monkeypatch.setattr(upgrade, "_unit", lambda *names: {"MainPID": "0"})
    assert upgrade.upgrade(machine, argparse.Namespace(check=check)).outcome == "not running"
    assert upgrade.GO_BACK.exists() == check


def test_what_was_kept_stays_until_the_next_is_whole(monkeypatch, tmp_path):
    """A runner that went back would otherwise find no handler at its next start."""
    monkeypatch.setattr(upgrade, "KEPT", tmp_path / "kept")
    handlers = tmp_path / "handlers"
    handlers.mkdir()
    for name in (upgrade.HANDLER, "handler_rbd.so"):
        (handlers / name).write_text("installed")
    mapped = tmp_path / "mapped"
    mapped.write_text("running")
    upgrade.keep_old(mapped, handlers / upgrade.HANDLER)
    assert (upgrade.KEPT / upgrade.HANDLER).read_text() == "running"
    assert (upgrade.KEPT / "handler_rbd.so").read_text() == "installed"

    mapped.unlink()
    with pytest.raises(IraidError, match="can't be kept"):
        upgrade.keep_old(mapped, handlers / upgrade.HANDLER)
    assert (upgrade.KEPT / upgrade.HANDLER).read_text() == "running"
