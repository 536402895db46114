"""scripts/test --clean-root: scripts/test where nothing is installed, as on a machine that somebody has just set up.

What makes a test pass here may be a package that no list of ours names.  So: the smallest Debian that has apt
(mmdebstrap, from this machine's own apt sources; --suite names another release than its own), a clone of what is
committed, and in there scripts/test, which installs, builds and tests.  Nothing is mounted in this machine's own
namespace, and no process outlives us:

    test --clean-root -- unshare, setpriv (ends it with us) -- enter-root (process 1) -- scripts/test

    .lab/clean-root/lock      held by the run
    .lab/clean-root/root/     the system; removed at the end, or at the beginning of the next run
    build/clean-root/         of each run DATE-SUITE-COMMIT.log; of a failed one a folder of that name too: its results
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from iraid_dev.lab import clean_debian
from iraid_dev.lab.run import LabError, cache_directory
from iraid_dev.places import ROOT

ENTER = Path(__file__).with_name("enter-root")
CLONE = "root/iraid"
# The base system, of which Debian says that no package need name it, and apt.
VARIANT = "apt"
NEEDED = {
    "mmdebstrap": "mmdebstrap: run scripts/deps --long, or apt-get install mmdebstrap",
    "git": "git, which copies what is committed: apt-get install git",
    "unshare": "unshare: apt-get install util-linux",
    "setpriv": "setpriv: apt-get install util-linux",
}
FREE_BYTES_MIN = 5 << 30
SUM = re.compile(r"^\d+ passed, \d+ failed, \d+ skipped$")


class Interrupted(Exception):
    def __init__(self, number: int):
        self.number = number


def say(text: str) -> None:
    print(f"test: {text}", flush=True)


def parse(words: list[str]) -> tuple[str | None, list[str]]:
    """The suite, if one is named, and what is given to the scripts/test inside: all behind --."""
    own, inner = words, []
    if "--" in words:
        own, inner = words[: words.index("--")], words[words.index("--") + 1 :]
    suite = None
    rest = iter(own)
    for word in rest:
        if word == "--suite" or word.startswith("--suite="):
            given = next(rest, "") if word == "--suite" else word.removeprefix("--suite=")
            suite = clean_debian.suite_or_own(given)
        elif word != "--clean-root":
            raise LabError(
                f"'{word}' does not go with --clean-root; what the scripts/test inside is to get stands "
                f"behind --: scripts/test --clean-root -- {word}"
            )
    for word in inner:
        if word in ("--clean-root", "--no-deps", "--suite"):
            raise LabError(
                f"'{word}' makes no sense inside: a clean root has no packages, and is no place to make another"
            )
    return suite, inner


def check(option: str = "--clean-root") -> None:
    if os.geteuid() != 0:
        raise LabError(f"{option} makes a Debian, mounts and changes into it, which needs root: run it as root")
    for program, remedy in NEEDED.items():
        if shutil.which(program) is None:
            raise LabError(f"{option} needs {remedy}")
    free = shutil.disk_usage(cache_directory()).free
    if free < FREE_BYTES_MIN:
        raise LabError(
            f"{cache_directory()} has {free >> 20} MiB free, and a clean root with two builds takes up to "
            f"{FREE_BYTES_MIN >> 20} MiB; make room"
        )


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(
            f"'git {' '.join(words)}' failed: {done.stderr.strip()[-400:]}; --clean-root tests what is "
            f"committed in {ROOT}"
        )
    return done.stdout.strip()


@dataclass(frozen=True)
class Committed:
    commit: str
    changed: int  # files with changes that are in no commit

    @staticmethod
    def of_this_tree() -> Committed:
        return Committed(git("rev-parse", "--verify", "HEAD"), len(git("status", "--porcelain").splitlines()))


class CleanRoot:
    """The folder, and what is done in it; `close` removes it."""

    def __init__(self, log: TextIO, suite: str, name: str = "clean-root", what: str = "scripts/test --clean-root"):
        self.log = log
        self.suite = suite
        self.folder = cache_directory() / name
        self.root = self.folder / "root"
        self.folder.mkdir(exist_ok=True)
        self.lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another {what} is at work in {self.folder}: wait for its end") from None
        self._remove()

    def _remove(self) -> None:
        # What is mounted in it is so in another namespace; should that ever be wrong, this stops there.
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.root), str(self.folder / "setup")], check=False)

    def close(self) -> None:
        self._remove()
        self.lock.close()

    def make(self) -> None:
        setup = self.folder / "setup"
        setup.mkdir()
        sources = clean_debian.served_sources(self.suite)
        (setup / "apt.conf").write_text("\n".join(clean_debian.apt_options()) + "\n")
        (setup / "sources.list").write_text("\n".join(sources) + "\n")
        over_tls = ["--include=ca-certificates"] if any(" https:" in line for line in sources) else []
        self._must(
            "mmdebstrap",
            self._isolated(
                "mmdebstrap",
                "--mode=root",
                f"--variant={VARIANT}",
                *over_tls,
                f"--aptopt={setup / 'apt.conf'}",
                self.suite,
                str(self.root),
                str(setup / "sources.list"),
            ),
        )
        for name in ("resolv.conf", "hosts"):  # how names are found is the network's, not the system's
            shutil.copyfile(Path("/etc") / name, self.root / "etc" / name)
        # What a package's installation would start would run beside this machine's own.
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def clone(self, commit: str) -> None:
        target = self.root / CLONE
        self._must("git clone", ["git", "clone", "--quiet", "--no-checkout", f"file://{ROOT}", str(target)])
        self._must("git checkout", ["git", "-C", str(target), "checkout", "--quiet", "--detach", commit])

    def run(self, script: str, *options: str) -> tuple[int, str]:
        """Status of a script of the clone, and its last line."""
        last = ""
        process = subprocess.Popen(
            self._isolated(str(ENTER), str(self.root), f"/{CLONE}/{script}", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            assert process.stdout
            for line in process.stdout:
                self.log.write(line)
                self.log.flush()
                print(line, end="", flush=True)
                last = line.strip() or last
            return process.wait(), last
        finally:
            process.kill()  # with it goes all that is in its namespaces
            process.wait()

    def keep_results(self, where: Path) -> None:
        made = self.root / CLONE / "build/test-results"
        if made.is_dir():
            shutil.copytree(
                made,
                where,
                symlinks=True,
                ignore=lambda folder, names: [
                    name for name in names if not (Path(folder, name).is_dir() or Path(folder, name).is_file())
                ],
            )
            say(f"what it left is in {where}")

    @staticmethod
    def _isolated(*words: str) -> list[str]:
        return ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", *words]

    def _must(self, what: str, words: list[str]) -> None:
        self.log.flush()
        begin = self.log.tell()
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait()
        finally:
            process.kill()
            process.wait()
        if status != 0:
            said = Path(self.log.name).read_text(errors="replace")[begin:].strip()[-1500:]
            raise LabError(f"{what} ended with status {status}: {said}\nthe whole log is {self.log.name}")


def run(committed: Committed, suite: str, options: list[str], log: TextIO) -> int:
    begin, date = time.monotonic(), time.strftime("%Y-%m-%d %H:%M")
    root = CleanRoot(log, suite)
    try:
        say(f"making the smallest Debian {suite} in {root.root}")
        root.make()
        root.clone(committed.commit)
        say(f"commit {committed.commit}, in it: scripts/test {' '.join(options)}".rstrip())
        status, last = root.run("scripts/test", *options)
        if not SUM.match(last):
            last = "0 passed, 1 failed, 0 skipped"
            status = status or 1
            say(f"the scripts/test inside ended with status {status} and without its sum")
        if status != 0:
            root.keep_results(Path(log.name).with_suffix(""))
    finally:
        root.close()
    for line in (
        f"test: clean root, {suite}, {date}, commit {committed.commit}, {time.monotonic() - begin:.0f} s; "
        f"the log is {log.name}",
        last,
    ):
        print(line, file=log)
        print(line, flush=True)
    return status


def interrupt(number: int, _frame: object) -> None:
    raise Interrupted(number)


def main(words: list[str]) -> int:
    try:
        named, options = parse(words)
    except LabError as error:
        print(f"test: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        check()
        suite = clean_debian.suite_or_own(named)
        committed = Committed.of_this_tree()
        if committed.changed:
            say(f"{committed.changed} changed files are not committed, and not tested: only what is committed is")
        name = f"{time.strftime('%Y%m%dT%H%M%S')}-{suite}-{committed.commit[:9]}"
        logs = ROOT / "build/clean-root"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{name}.log").open("w") as log:
            print(f"Debian {suite}, commit {committed.commit}, scripts/test {' '.join(options)}".rstrip(), file=log)
            return run(committed, suite, options, log)
    except LabError as error:
        print(f"test: {error}", file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    except Interrupted as signalled:
        say(f"ended by signal {signalled.number}")
        return 128 + signalled.number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
