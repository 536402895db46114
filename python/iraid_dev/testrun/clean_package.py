"""scripts/package --suite SUITE: packages for a release of Debian that this machine has not.

They are built in the smallest Debian of it, which is made for that and removed, from what is committed: a package is
linked against the libraries of its own release.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path

from iraid_dev.lab.run import LabError
from iraid_dev.lab.clean_debian import suite_or_own
from iraid_dev.testrun.clean_root import CLONE, CleanRoot, Committed, Interrupted, check, interrupt

MADE = "build-packages"


def say(text: str) -> None:
    print(f"package: {text}", flush=True)


def build(suite: str, options: list[str], output: Path) -> int:
    """Status of scripts/package in there; what it made is in `output` then."""
    committed = Committed.of_this_tree()
    if committed.changed:
        say(f"{committed.changed} changed files are not committed, and not in the packages: only what is committed is")
    output.mkdir(parents=True, exist_ok=True)
    with (output / "package.log").open("w") as log:
        root = CleanRoot(log, suite, "clean-package", "scripts/package --suite")
        try:
            say(f"making the smallest Debian {suite} in {root.root}")
            root.make()
            root.clone(committed.commit)
            for script, words in (("scripts/deps", ["--long"]), ("scripts/package", options)):
                status, _ = root.run(script, *words)
                if status != 0:
                    say(f"{script} ended with status {status} in there; the whole log is {log.name}")
                    return status
            move_made(root.root / CLONE / MADE, output)
        finally:
            root.close()
    say(f"commit {committed.commit}, {suite}: the packages are in {output}")
    return 0


def move_made(made: Path, output: Path) -> None:
    """In place of those of an earlier run."""
    for path in output.iterdir():
        if path.name != "package.log" and path.is_file():
            path.unlink()
    for path in made.iterdir():
        if path.name != "package.log" and path.is_file():
            shutil.move(str(path), output / path.name)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/package", add_help=False)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--headers")
    given, options = parser.parse_known_args(words)
    try:
        if given.headers:
            raise LabError("--headers does not go with --suite: the headers are those of that release")
        suite = suite_or_own(given.suite)
        check("--suite")
        output = given.output or Path(f"build-packages-{suite}")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        return build(suite, options, output.resolve())
    except LabError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    except Interrupted as signalled:
        say(f"ended by signal {signalled.number}")
        return 128 + signalled.number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
