"""scripts/releases: what works on which release of Debian, as a table with date and commit.

For each release the smallest Debian of it is made, and in it what is committed is built and tested part by part, long
tests too; its guests have that release's own kernel.  So a column of the table is a command that can be typed there.

    releases -- CleanRoot -- scripts/deps --long, scripts/build, then the commands of PARTS
    build/releases/DATE-COMMIT/     table.md, and of each release SUITE.log and results/ of what failed
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.lab import clean_debian
from iraid_dev.lab.run import LabError
from iraid_dev.places import ROOT

from .clean_root import SUM, CleanRoot, Committed, Interrupted, check, interrupt

TEST = ("scripts/test", "--no-deps", "--no-build")
ALL = (*TEST, "-m", "long or not long")
PACKAGES = "tests/lab/test_packages.py"
PARTS: dict[str, tuple[str, ...]] = {
    "package": (*ALL, "-k", "not quick_start", PACKAGES),
    "quick start": (*ALL, "-k", "quick_start", PACKAGES),
    "boot": (*ALL, "tests/lab/test_boot.py", "tests/lab/test_reboot.py"),
    "conformance": ("scripts/conformance", "--no-build", "--levels", "0,5"),
    "end to end": (*TEST, "tests/end_to_end"),
    "role": (*ALL, "tests/lab/test_ansible.py", "tests/lab/test_ansible_pair.py"),
    "upgrade": (*ALL, "tests/lab/test_debian_upgrade.py"),
}
# Two gateways go from the first release to the second, which is tested where they begin.
BEGINS = ("upgrade", clean_debian.SUITES[0])
PREPARED_BY = (("scripts/deps", "--long"), ("scripts/build",))

EPILOG = """\
A part that skips a test says so in its cell: the reason is in the release's log.
exit status: 0 if no part of any release failed, 1 otherwise.
examples:
  scripts/releases
  scripts/releases --suite trixie --part "quick start" --part boot
"""


@dataclass(frozen=True)
class Outcome:
    """Of one part: its cell, and whether it failed."""

    cell: str
    failed: bool


def outcome(status: int, last: str, seconds: float) -> Outcome:
    """From the exit status and the last line of the command."""
    minutes = f"{seconds / 60:.0f} min"
    if SUM.match(last):
        passed, failed, skipped = map(int, re.findall(r"\d+", last))
        if failed or status or not passed:
            return Outcome(f"**{failed} of {passed + failed} failed**, {minutes}", True)
        return Outcome(f"{passed} passed{f', {skipped} skipped' if skipped else ''}, {minutes}", False)
    if status:
        return Outcome(f"**failed**, status {status}, {minutes}", True)
    return Outcome(f"good, {minutes}", False)


def table(outcomes: dict[str, dict[str, Outcome]], parts: list[str]) -> str:
    """Markdown: a row for each release, a column for each part."""
    lines = ["| | " + " | ".join(parts) + " |", "|---" * (len(parts) + 1) + "|"]
    for suite, of_suite in outcomes.items():
        cells = [of_suite[part].cell if part in of_suite else "not run" for part in parts]
        lines.append(f"| {suite} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def say(text: str) -> None:
    print(f"releases: {text}", flush=True)


def run_release(suite: str, parts: list[str], commit: str, folder: Path, outcomes: dict[str, Outcome]) -> None:
    """Adds what came out to `outcomes`, part by part."""
    with (folder / f"{suite}.log").open("w") as log:
        root = CleanRoot(log, suite, "clean-releases", "scripts/releases")
        try:
            say(f"making the smallest Debian {suite} in {root.root}")
            root.make()
            root.clone(commit)
            for words in PREPARED_BY:
                status, _ = root.run(*words)
                if status != 0:
                    raise LabError(f"{words[0]} ended with status {status} on {suite}; the log is {log.name}")
            for part in parts:
                if part == BEGINS[0] and suite != BEGINS[1]:
                    outcomes[part] = Outcome(f"from {BEGINS[1]}", False)
                    continue
                say(f"{suite}, {part}: {' '.join(PARTS[part])}")
                begin = time.monotonic()
                status, last = root.run(*PARTS[part])
                outcomes[part] = outcome(status, last, time.monotonic() - begin)
                if outcomes[part].failed:
                    root.keep_results(folder / f"{suite}-{part.replace(' ', '-')}")
        finally:
            root.close()


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/releases",
        description="Builds what is committed on each release of Debian, runs the parts of the table there, and prints the table. "
        "Hours; as root.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--suite",
        action="append",
        choices=clean_debian.SUITES,
        help="this release (default: each that iraid is made for)",
    )
    parser.add_argument("--part", action="append", choices=list(PARTS), help="this column (default: all)")
    return parser.parse_args(words)


def run(suites: list[str], parts: list[str]) -> int:
    committed = Committed.of_this_tree()
    if committed.changed:
        say(f"{committed.changed} changed files are not committed, and not tested: only what is committed is")
    date = time.strftime("%Y-%m-%d %H:%M")
    folder = ROOT / "build/releases" / f"{time.strftime('%Y%m%dT%H%M%S')}-{committed.commit[:9]}"
    folder.mkdir(parents=True)
    outcomes: dict[str, dict[str, Outcome]] = {suite: {} for suite in suites}
    try:
        for suite in suites:
            run_release(suite, parts, committed.commit, folder, outcomes[suite])
    finally:
        text = f"{date}, commit {committed.commit}\n\n{table(outcomes, parts)}\n"
        (folder / "table.md").write_text(text)
        print(f"\n{text}")
        say(f"it is in {folder}, with the logs")
    return int(any(one.failed for of_suite in outcomes.values() for one in of_suite.values()))


def main(words: list[str]) -> int:
    given = parse(words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        check("scripts/releases")
        return run(given.suite or list(clean_debian.SUITES), given.part or list(PARTS))
    except LabError as error:
        print(f"releases: {error}", file=sys.stderr)
        return 1
    except Interrupted as signalled:
        say(f"ended by signal {signalled.number}")
        return 128 + signalled.number
