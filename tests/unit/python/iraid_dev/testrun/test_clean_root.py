"""scripts/test --clean-root: what it refuses, what it passes on, how it ends.  Here a script stands for the scripts/test
inside; that a Debian is made and that all tests pass in it, scripts/test --clean-root itself shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iraid_dev.places import ROOT
from iraid_dev.testrun import clean_root

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are root's")


def git(folder: Path, *words: str) -> str:
    name = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *name, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "committed").write_text("yes\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "one")
    return folder


@pytest.fixture
def main(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """--clean-root with a folder instead of a Debian, in which a script does what scripts/test would."""
    cache = tmp_path / "cache"
    cache.mkdir()
    enter = tmp_path / "enter-root"

    def run(*words: str, inside: str = "echo 3 passed, 0 failed, 1 skipped") -> int:
        enter.write_text(f"#!/bin/bash\n{inside}\n")
        enter.chmod(0o755)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            return clean_root.main(["--clean-root", *words])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    monkeypatch.setattr(clean_root, "ROOT", tree)
    monkeypatch.setattr(clean_root, "ENTER", enter)
    monkeypatch.setattr(clean_root, "cache_directory", lambda: cache)
    monkeypatch.setattr(clean_root, "check", lambda: None)
    monkeypatch.setattr(clean_root.CleanRoot, "make", lambda self: self.root.mkdir())
    return run


@pytest.mark.parametrize(
    ("words", "inner"),
    [
        (["--clean-root"], []),
        (["--clean-root", "--"], []),
        (["--clean-root", "--", "--quick"], ["--quick"]),
        (["--clean-root", "--", "tests/docs", "-k", "mail"], ["tests/docs", "-k", "mail"]),
    ],
)
def test_what_stands_behind_two_dashes_is_for_the_test_inside(words, inner):
    assert clean_root.parse(words) == (None, inner)


@pytest.mark.parametrize("words", [["--suite", "trixie", "--clean-root"], ["--clean-root", "--suite=trixie"]])
def test_a_suite_stands_before_the_two_dashes(words):
    assert clean_root.parse([*words, "--", "--quick"]) == ("trixie", ["--quick"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--clean-root", "--quick"], "scripts/test --clean-root -- --quick"),
        (["--clean-root", "tests/unit"], "'tests/unit' does not go with --clean-root"),
        (["--no-deps", "--clean-root"], "'--no-deps' does not go with --clean-root"),
        (["--clean-root", "--", "--no-deps"], "'--no-deps' makes no sense inside"),
        (["--clean-root", "--", "--clean-root"], "'--clean-root' makes no sense inside"),
        (["--clean-root", "--suite", "etch"], "unknown suite 'etch': known are bookworm, trixie"),
        (["--clean-root", "--suite"], "unknown suite ''"),
        (["--clean-root", "--suite", "trixie", "--quick"], "'--quick' does not go with --clean-root"),
        (["--clean-root", "--", "--suite"], "'--suite' makes no sense inside"),
    ],
)
def test_what_it_does_not_know_is_refused_before_anything_is_done(words, says):
    done = subprocess.run([ROOT / "scripts/test", *words], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_a_suite_without_a_clean_root_is_refused():
    words = [ROOT / "scripts/test", "--no-deps", "--suite", "trixie"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "goes with --clean-root only" in done.stderr


def test_help_is_shown_with_it_too():
    done = subprocess.run([ROOT / "scripts/test", "--clean-root", "--help"], capture_output=True, text=True, check=True)
    assert "--clean-root" in done.stdout


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    assert clean_root.main(["--clean-root"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    return said.err


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has all it takes."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(clean_root.shutil, "which", lambda program: f"/usr/bin/{program}")
    return monkeypatch


def test_who_is_not_root_is_told(able, capsys):
    able.setattr(os, "geteuid", lambda: 1000)
    assert "needs root: run it as root" in refusal(capsys)


@pytest.mark.parametrize(
    ("program", "remedy"),
    [("mmdebstrap", "scripts/deps --long"), ("git", "apt-get install git"), ("unshare", "apt-get install util-linux")],
)
def test_a_program_that_is_missing_is_named_with_its_remedy(able, capsys, program, remedy):
    able.setattr(clean_root.shutil, "which", lambda name: None if name == program else f"/usr/bin/{name}")
    said = refusal(capsys)
    assert f"needs {program}" in said
    assert remedy in said


def test_mmdebstrap_is_in_the_list_that_the_remedy_names():
    listed = subprocess.run([ROOT / "scripts/deps", "--list", "--long"], capture_output=True, text=True, check=True)
    assert "mmdebstrap" in listed.stdout.split()


def test_too_little_room_is_said_before_it_is_used(able, capsys):
    able.setattr(clean_root, "FREE_BYTES_MIN", 1 << 60)
    assert "make room" in refusal(capsys)


def test_a_tree_without_commits_is_refused(able, tmp_path, capsys):
    able.setattr(clean_root, "ROOT", tmp_path)
    assert "--clean-root tests what is committed" in refusal(capsys)


def test_changes_that_are_not_committed_are_counted(tree, monkeypatch):
    monkeypatch.setattr(clean_root, "ROOT", tree)
    assert clean_root.Committed.of_this_tree().changed == 0
    (tree / "new").touch()
    (tree / "committed").write_text("no\n")
    assert clean_root.Committed.of_this_tree() == clean_root.Committed(git(tree, "rev-parse", "HEAD"), 2)


@needs_root
def test_the_sum_is_the_last_line_and_the_log_has_date_and_commit(main, tree, capsys):
    assert main(inside='echo "in it: $*"; echo 3 passed, 0 failed, 1 skipped') == 0
    *_, about, last = capsys.readouterr().out.splitlines()
    assert last == "3 passed, 0 failed, 1 skipped"
    assert re.match(
        r"test: clean root, [a-z]+, 20\d\d-\d\d-\d\d \d\d:\d\d, commit [0-9a-f]{40}, \d+ s; the log is ", about
    )
    log = Path(about.rpartition(" ")[2])
    assert log.parent == tree / "build/clean-root"
    assert log.read_text().splitlines()[-2:] == [about, last]
    assert "/root/iraid/scripts/test" in log.read_text()


@needs_root
def test_the_suite_is_made_and_named_in_the_log(main, tree, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(clean_root.CleanRoot, "make", lambda self: (made.append(self.suite), self.root.mkdir()))
    assert main("--suite", "trixie") == 0
    assert made == ["trixie"]
    *_, about, _last = capsys.readouterr().out.splitlines()
    assert about.startswith("test: clean root, trixie, ")
    (log,) = (tree / "build/clean-root").glob("*-trixie-*.log")
    assert log.read_text().startswith("Debian trixie, commit ")


@needs_root
def test_what_is_tested_is_the_commit_and_the_options_arrive(main, tree, capsys):
    (tree / "committed").write_text("no\n")
    assert (
        main(
            "--",
            "-k",
            "word",
            inside='cat "$1/root/iraid/committed"; echo "${@:3}"; echo 1 passed, 0 failed, 0 skipped',
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "1 changed files are not committed, and not tested" in said
    assert "\nyes\n-k word\n" in said


@needs_root
@pytest.mark.parametrize(
    ("inside", "status", "last"),
    [
        ("echo 3 passed, 2 failed, 1 skipped; exit 1", 1, "3 passed, 2 failed, 1 skipped"),
        ("echo nothing; exit 0", 1, "0 passed, 1 failed, 0 skipped"),
        ("echo 3 passed, 0 failed, 0 skipped; exit 7", 7, "3 passed, 0 failed, 0 skipped"),
        ("kill -KILL $$", 1, "0 passed, 1 failed, 0 skipped"),
    ],
    ids=["failed", "no sum", "status", "killed"],
)
def test_what_is_not_good_has_a_status_and_its_results_are_kept(main, tree, tmp_path, capsys, inside, status, last):
    left = 'mkdir -p "$1/root/iraid/build/test-results"; echo kept >"$1/root/iraid/build/test-results/part.xml"\n'
    result = main(inside=left + inside)
    assert result == status or (inside.startswith("kill") and result != 0)
    assert capsys.readouterr().out.splitlines()[-1] == last
    (kept,) = (tree / "build/clean-root").glob("*/part.xml")
    assert kept.read_text() == "kept\n"
    assert not (tmp_path / "cache/clean-root/root").exists()


@needs_root
def test_a_second_one_is_refused_while_the_first_is_at_work(main, tmp_path, capsys):
    folder = tmp_path / "cache/clean-root"
    folder.mkdir()
    with (folder / "lock").open("w") as lock:
        clean_root.fcntl.flock(lock, clean_root.fcntl.LOCK_EX)
        assert main() == 1
    assert "another scripts/test --clean-root is at work" in capsys.readouterr().err


@needs_root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_all_that_was_started_and_no_mount_stays(tree, tmp_path, number):
    inside = tmp_path / "enter-root"
    inside.write_text(f'#!/bin/bash\nmount -t tmpfs tmpfs "$1/mnt"\n(sleep 1000.{os.getpid()} & wait)\n')
    inside.chmod(0o755)
    (tmp_path / "cache").mkdir()
    script = f"""
import sys
from pathlib import Path
from iraid_dev.testrun import clean_root
clean_root.ROOT, clean_root.ENTER = Path({str(tree)!r}), Path({str(inside)!r})
clean_root.cache_directory = lambda: Path({str(tmp_path / "cache")!r})
clean_root.check = lambda: None
clean_root.CleanRoot.make = lambda self: (self.root / "mnt").mkdir(parents=True)
sys.exit(clean_root.main(["--clean-root"]))
"""
    with subprocess.Popen(
        [sys.executable, "-B", "-u", "-c", script],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    ) as process:
        wait_for_sleepers(1)
        process.send_signal(number)
        assert process.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
        wait_for_sleepers(0)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    # Who was killed could not remove the folder; the next run does.
    assert (tmp_path / "cache/clean-root/root").exists() == (number == signal.SIGKILL)


def wait_for_sleepers(count: int) -> None:
    end = time.monotonic() + 60
    while len(sleepers()) != count:
        assert time.monotonic() < end, sleepers()
        time.sleep(0.05)


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"1000.{os.getpid()}".encode() in words:
            found.append(str(path))
    return found


@needs_root
def test_what_runs_inside_can_have_mounts_of_its_own(tmp_path):
    """As this very file does, when it is run inside."""
    root = tmp_path / "root"
    for folder in ("usr", "proc", "sys", "dev", "run", "root"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    enter = ROOT / "python/iraid_dev/testrun/enter-root"
    script = f"mount --rbind /usr {root}/usr && {enter} {root} unshare --mount true"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
