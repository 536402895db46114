"""scripts/lab itself, started natively as a user or CI starts it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "scripts" / "lab"
BOOT_SECONDS_MAX = 90  # on a busy machine

pytestmark = [
    pytest.mark.skipif(shutil.which("linux.uml") is None, reason="user-mode-linux is not installed; run scripts/deps"),
    pytest.mark.timeout(300),
]


def lab(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    given = dict(
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=BOOT_SECONDS_MAX + 120, cwd=ROOT
    )
    return subprocess.run([str(LAB), *map(str, words)], **(given | options))


def processes_of(state: Path) -> list[int]:
    """Living processes that have the run's directory in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            continue
        if alive and str(state).encode() in words and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def gone(state: Path, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while processes_of(state):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def kept_directory(stderr: str) -> Path | None:
    found = re.search(r"are in (\S+)$", stderr, re.MULTILINE)
    return Path(found.group(1)) if found else None


def test_output_and_exit_status_pass_through_and_a_failed_run_is_kept():
    done = lab("--", "sh", "-c", "echo to out; echo to err >&2; exit 7")

    assert done.returncode == 7
    assert done.stdout == "to out\n"
    assert done.stderr.startswith("to err\n")
    kept = kept_directory(done.stderr)
    assert kept is not None, done.stderr
    try:
        assert "Linux version" in (kept / "kernel.log").read_text(errors="replace")
        assert (kept / "after" / "ps").stat().st_size > 0
        assert (kept / "log").is_dir()
        assert gone(kept)
    finally:
        shutil.rmtree(kept)


def test_the_guest_has_what_the_stack_needs_and_a_good_run_leaves_nothing():
    """One boot for all that can be asked at once."""
    token = uuid.uuid4().hex
    checks = [
        f"set -e; : {token}",
        f'test "$PWD" = {ROOT}; test -x scripts/lab; test -t 1 && exit 3',
        "for m in target_core_user iscsi_target_mod iscsi_tcp; do test -d /sys/module/$m; done",
        "test -d /sys/kernel/config/target",
        "for d in /etc/iscsi /etc/rtslib-fb-target /etc/iraid /var/lib/iraid /run/lock/iscsi /tmp $HOME; do"
        " touch $d/lab-was-here; done",
        "dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId >/dev/null",
        "ip -o addr show lo | grep -q 127.0.0.1",
        "cat <(echo process substitution works)",
        "head -c 3000000 /dev/zero | tr '\\0' x; echo",
        "echo all is there",
    ]
    done = lab("--timeout", "150", "--", "bash", "-c", "\n".join(checks))

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    lines = done.stdout.split("\n")
    assert lines[0] == "process substitution works" and lines[2] == "all is there"
    assert lines[1] == "x" * 3_000_000
    assert kept_directory(done.stderr) is None
    assert not [path for path in (ROOT / ".lab").glob("*/command") if token in path.read_text()]


def test_nothing_of_the_host_is_touched(tmp_path):
    """What the guest writes, removes and configures stays inside, but for shared directories."""
    private, shared = tmp_path / "private", tmp_path / "shared"
    for folder in (private, shared):
        folder.mkdir()
        (folder / "file").write_text("the host's\n")
    watched = [
        path
        for path in map(
            Path,
            (
                "/etc/iscsi/initiatorname.iscsi",
                "/etc/iscsi/iscsid.conf",
                "/etc/rtslib-fb-target/saveconfig.json",
                "/etc/fstab",
            ),
        )
        if path.exists()
    ]
    before = {path: path.read_bytes() for path in watched}
    script = (
        f"for d in {private} {shared}; do echo guest >$d/file; echo guest >$d/new; done;"
        "rm -rf /etc/iscsi /etc/fstab; echo x >/root/lab-was-here; echo x >/etc/lab-was-here;"
        "targetcli /backstores/ramdisk create r0 8M; targetcli saveconfig"
    )

    done = lab("--share", shared, "--", "sh", "-c", script)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (private / "file").read_text() == "the host's\n" and not (private / "new").exists()
    assert (shared / "file").read_text() == "guest\n" and (shared / "new").exists()
    assert {path: path.read_bytes() for path in watched} == before
    assert not Path("/root/lab-was-here").exists() and not Path("/etc/lab-was-here").exists()
    assert not Path("/sys/kernel/config/target/core/rd_mcp_0/r0").exists()


@pytest.mark.parametrize("seconds", [4, 30], ids=["while it boots", "while the command runs"])
def test_the_time_limit_ends_everything(tmp_path, seconds):
    state = tmp_path / "state"
    begin = time.monotonic()

    done = lab(
        "--state",
        state,
        "--timeout",
        seconds,
        "--",
        "sh",
        "-c",
        "echo begun; sleep 1000 & trap '' TERM; while :; do sleep 1000; done",
    )

    assert done.returncode == 124, done.stderr
    assert str(seconds) in done.stderr
    assert time.monotonic() - begin < seconds + 15
    assert gone(state)
    assert (state / "kernel.log").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_no_process_is_left_when_the_lab_is_ended(tmp_path, number):
    state = tmp_path / "state"
    process = subprocess.Popen(
        [str(LAB), "--state", str(state), "--", "sh", "-c", "echo begun; sleep 1000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        assert len(processes_of(state)) > 2
        process.send_signal(number)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert gone(state)


def test_two_labs_run_at_the_same_time(tmp_path):
    """Each waits until it sees that the other has begun too, by a shared directory."""
    script = 'touch "$1"/"$2"; for i in $(seq 300); do [ -e "$1/$3" ] && exit 0; sleep 0.2; done; exit 9'
    both = [
        subprocess.Popen(
            [
                str(LAB),
                "--memory",
                "1G",
                "--timeout",
                "150",
                "--share",
                str(tmp_path),
                "--",
                "sh",
                "-c",
                script,
                "sh",
                str(tmp_path),
                mine,
                other,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for mine, other in (("a", "b"), ("b", "a"))
    ]
    for process in both:
        output = process.communicate(timeout=200)[0]
        assert process.returncode == 0, output


def test_a_kernel_that_stops_is_told_with_its_log(tmp_path):
    done = lab("--state", tmp_path / "state", "--", "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60")

    assert done.returncode == 125
    assert "panic" in done.stderr and str(tmp_path / "state") in done.stderr
    assert gone(tmp_path / "state")


def test_a_pytest_selection_is_run_by_pytest(tmp_path):
    test = ROOT / "tests" / "lab" / "test_lab.py"
    done = lab("--", f"{test.relative_to(ROOT)}::test_mistakes_are_told_before_anything_boots", "-q")

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--"], "no command"),
        (["--kernel", "vax", "--", "true"], "vax"),
        (["--timeout", "0", "--", "true"], "--timeout 0"),
        (["--off-timeout", "0", "--", "true"], "--off-timeout 0"),
        (["--memory", "much", "--", "true"], "'much' is not a size"),
        (["--kernel", "qemu", "--systemd", "--", "true"], "--systemd"),
        (["--power-cut", "--", "true"], "--power-cut"),
        (["--share", "/no/such/directory", "--", "true"], "/no/such/directory"),
        (["--root", "/no/such/system", "--", "true"], "--root /no/such/system"),
        (["--root", "/", "--kernel", "qemu", "--", "true"], "--root"),
        (["--show", "/tmp", "--", "true"], "--show"),
        (["--state", "/tmp/with a blank", "--", "true"], "blank"),
    ],
)
def test_mistakes_are_told_before_anything_boots(words, said):
    begin = time.monotonic()
    done = lab(*words)
    assert done.returncode in (2, 125)
    assert said in done.stderr
    assert kept_directory(done.stderr) is None
    assert time.monotonic() - begin < 20


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
@pytest.mark.skipif(
    Path("/lib/modules", os.uname().release, "modules.dep").exists(),
    reason="this machine's kernel has modules, and its LIO may be in use",
)
def test_the_host_s_kernel_is_refused_where_it_has_no_lio():
    done = lab("--kernel", "host", "--", "true")
    assert done.returncode == 125
    assert "no module" in done.stderr and "--kernel uml" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: QEMU's packages can't be installed")
@pytest.mark.timeout(900)
def test_qemu_gives_the_same(tmp_path):
    """Installs what is missing; software emulation where no KVM boots."""
    done = lab(
        "--kernel",
        "qemu",
        "--timeout",
        "400",
        "--state",
        tmp_path / "state",
        "--",
        "sh",
        "-c",
        "test -d /sys/module/target_core_user && echo to out; echo to err >&2; exit 7",
        timeout=800,
    )
    assert (done.returncode, done.stdout) == (7, "to out\n"), done.stderr
    assert "to err\n" in done.stderr
    assert gone(tmp_path / "state")

    done = lab("--kernel", "qemu", "--timeout", "12", "--state", tmp_path / "late", "--", "sleep", "1000", timeout=100)
    assert done.returncode == 124, done.stderr
    assert gone(tmp_path / "late")


def test_the_interpreter_of_the_lab_needs_nothing_installed():
    """The lab must start where only Python itself is there."""
    done = subprocess.run([sys.executable, "-I", "-S", str(LAB), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--kernel" in done.stdout
