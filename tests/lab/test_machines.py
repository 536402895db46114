"""scripts/lab --machines itself: several kernels, joined by networks, and the command beside them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest
from test_lab import LAB, ROOT, gone, kept_directory, lab, processes_of

pytestmark = [
    pytest.mark.skipif(shutil.which("linux.uml") is None, reason="user-mode-linux is not installed; run scripts/deps"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: no network namespaces"),
    pytest.mark.timeout(400),
]

API = "/usr/bin/python3 -c 'from iraid_dev.lab.machines import Machines; Machines.of_this_lab()'"


def test_machines_hear_each_other_stand_still_and_die(tmp_path):
    """One boot for all that can be asked at once: the tests of machines_inside.py."""
    inside = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/lab/machines_inside.py"]
    done = lab("--machines", "a,b", "--state", tmp_path / "state", "--timeout", "300", "--", *inside, timeout=330)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout
    assert gone(tmp_path / "state")
    assert "Linux version" in (tmp_path / "state" / "a" / "kernel.log").read_text(errors="replace")


def test_output_and_exit_status_pass_and_each_machine_s_state_is_kept():
    done = lab("--machines", "a,b", "--", "sh", "-c", f"{API} && echo to out; echo to err >&2; exit 7")

    assert (done.returncode, done.stdout) == (7, "to out\n"), done.stderr
    assert done.stderr.startswith("to err\n")
    kept = kept_directory(done.stderr)
    assert kept is not None, done.stderr
    try:
        for name in ("a", "b"):
            assert (kept / name / "after" / "ps").stat().st_size > 0
            assert (kept / name / "log").is_dir()
        assert not list(kept.glob("*.disk"))
        assert gone(kept)
    finally:
        shutil.rmtree(kept)


def test_a_command_that_does_not_end_is_ended(tmp_path):
    done = lab("--machines", "a", "--state", tmp_path / "state", "--timeout", "65", "--", "sleep", "1000")

    assert done.returncode == 124, done.stderr
    assert (tmp_path / "state" / "a" / "after" / "ps").exists()
    assert gone(tmp_path / "state")


def test_a_second_run_in_the_same_directory_has_machines_as_new(tmp_path):
    for _ in range(2):
        command = f'{API[:-1]}["a"].run("! [ -e /root/x ] && touch /root/x && sync").good()\''
        done = lab("--machines", "a", "--state", tmp_path / "state", "--", "sh", "-c", command)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_lab_is_killed(tmp_path, number):
    """Not even what its command had started in a session of its own."""
    state = tmp_path / "state"
    process = subprocess.Popen(
        [str(LAB), "--machines", "a,b", "--state", str(state), "--", "sh", "-c"]
        + [f"setsid sleep 1000 {state} & echo begun; sleep 1000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        assert len(processes_of(state)) > 4
        process.send_signal(number)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert gone(state)


def test_a_machine_that_does_not_boot_is_named(tmp_path):
    """512K is no memory for a kernel."""
    done = lab("--machines", "a", "--memory", "512K", "--state", tmp_path / "state", "--", "true")

    assert done.returncode == 125
    assert "machine a" in done.stderr and "kernel.log" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--machines", "a,a", "--", "true"], "'a' must be"),
        (["--machines", "a,,b", "--", "true"], "'' must be"),
        (["--machines", "gateway", "--", "true"], "'gateway' must be"),
        (["--machines", "a", "--kernel", "qemu", "--", "true"], "--machines"),
        (["--machines", "a", "--persist", "/tmp/x", "--", "true"], "--persist"),
    ],
)
def test_mistakes_are_told_before_anything_boots(words, said):
    done = lab(*words)
    assert done.returncode == 2
    assert said in done.stderr
