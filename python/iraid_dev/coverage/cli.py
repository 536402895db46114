"""coverage - which lines of handler/ the tests reach, room by room.

    scripts/coverage                      builds, runs all below, prints the table; 15 minutes of two cores
    scripts/coverage --without integration       only ctest and simulator; may be named twice
    scripts/coverage --seeds 1..1000      of the simulator, default 1..200
    scripts/coverage --keep               runs nothing: the counts of the last run; without it they are forgotten first
    scripts/coverage --show [PATH...]     also the lines that nothing reached: of recovery code (engine, state, pure), or
                                          of these sources and folders

Builds into build-coverage/ (IRAID_COVERAGE_DIR), without optimisation: an optimised line may be none. A process that is
killed leaves no counts, so a kill's own path is counted only where the test's process lives on. A test that fails
is told, and the exit status is 1; the table is printed all the same.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path

from iraid_dev.coverage import counts
from iraid_dev.places import PYTHON, ROOT, SCRIPTS, commit

# Assembly, loss and return of members, restarts, growth, the log, the socket: each takes a minute or two.
INTEGRATION = ("test_members.py", "test_restart.py", "test_write_log.py", "test_control.py", "test_iscsi_admin.py")
PARTS = ("ctest", "simulator", "integration")
# Of ctest: a simulator of its own, and mutations by the thousand; what once broke the fuzz targets is run.
TOO_SLOW = "^(simulate|fuzz_(layout|log_record|config|iscsi|login|scsi_answers|commands|rpc|device|session))$"
AIM_PERCENT = 95.0
# The engine's objects that the simulator links, below the build tree (tests/CMakeLists.txt).
SIMULATED = "tests/CMakeFiles/iraid_engine_simulated.dir"


def build(directory: Path) -> None:
    words = [
        str(SCRIPTS / "build"),
        "--directory",
        str(directory),
        "--",
        "-DIRAID_COVERAGE=ON",
        "-DCMAKE_BUILD_TYPE=Debug",
    ]
    if subprocess.run(words, check=False).returncode != 0:
        sys.exit("coverage: the build failed")


def part_commands(part: str, directory: Path, seeds: str) -> list[list[str]]:
    simulate = str(directory / "tests/simulate")
    if part == "ctest":
        words = ["ctest", "--test-dir", str(directory), "--parallel", str(os.cpu_count()), "--output-on-failure"]
        return [[*words, "--exclude-regex", TOO_SLOW]]
    if part == "simulator":
        plain = [simulate, "--quiet", "--seeds", seeds]
        return [plain, [*plain, "--with", "log"]]
    tests = [str(ROOT / "tests/integration" / name) for name in INTEGRATION]
    return [[PYTHON, "-B", "-m", "pytest", "-q", "-m", "not long and not no_sanitizer", *tests]]


def run_part(part: str, directory: Path, seeds: str) -> bool:
    """Prints how it went; false if something failed."""
    good = True
    for words in part_commands(part, directory, seeds):
        print(f"coverage: runs {' '.join(words)}", flush=True)
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, "IRAID_BUILD_DIR": str(directory)},
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode != 0:
            good = False
            print(done.stdout[-4000:])
            print(f"coverage: ended with status {done.returncode}: {' '.join(words)}", flush=True)
    if part == "simulator" and not counts.any_ran(directory / SIMULATED):
        good = False
        print(f"coverage: the simulator left no counts in {directory / SIMULATED}: the table is without it", flush=True)
    return good


# --- what is printed ---


def table(sources: list[counts.Source], heading: str) -> str:
    lines = [heading, f"{'room':<34}{'lines':>8}{'covered':>9}{'%':>7}"]
    recovery, rest = counts.Sum("recovery (engine, state, pure)"), counts.Sum("the rest")
    for source in sources:
        (recovery if counts.is_recovery(source.path) else rest).add(source)
    for found in (*counts.sums(sources), recovery, rest):
        lines.append(f"{found.name:<34}{found.lines:>8}{found.covered:>9}{found.percent():>7.1f}")
    return "\n".join(lines)


def wanted(source: counts.Source, paths: list[str]) -> bool:
    """No paths: recovery code."""
    if not paths:
        return counts.is_recovery(source.path)
    return any(source.path == path or source.path.startswith(path.rstrip("/") + "/") for path in paths)


def uncovered(sources: list[counts.Source], paths: list[str], root: Path) -> str:
    """Each range of lines that nothing reached, with the text."""
    parts = []
    for source in sources:
        if not wanted(source, paths) or not source.missed():
            continue
        text = (root / source.path).read_text().splitlines()
        parts.append(f"{source.path}: {len(source.missed())} of {len(source.runs)} lines")
        for first, last in source.ranges():
            parts += [f"{number:>6}  {text[number - 1].expandtabs(4)}" for number in range(first, last + 1)]
            parts.append("")
    return "\n".join(parts)


def relative(path: str) -> str:
    """A path as the table names it; SystemExit if it is none of the tree."""
    found = next((base / path for base in (Path.cwd(), ROOT) if (base / path).exists()), None)
    if found is None or not found.resolve().is_relative_to(ROOT / "handler"):
        sys.exit(f"coverage: '{path}' is no source or folder in handler/; name one, such as handler/engine/io")
    return str(found.resolve().relative_to(ROOT))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="coverage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--without", action="append", choices=PARTS, default=[])
    parser.add_argument("--seeds", default="1..200", metavar="A..B")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--show", nargs="*", metavar="PATH")
    choice = parser.parse_args(words)
    show = None if choice.show is None else [relative(path) for path in choice.show]
    directory = Path(os.environ.get("IRAID_COVERAGE_DIR", ROOT / "build-coverage")).resolve()
    if shutil.which("gcov") is None:
        sys.exit("coverage: gcov is not installed; it comes with gcc: run scripts/deps as root")
    good = True
    parts = [part for part in PARTS if part not in choice.without]
    if choice.keep:
        if not any(directory.rglob("*.gcda")):
            sys.exit(f"coverage: {directory} has no counts to keep; run scripts/coverage without --keep first")
    else:
        build(directory)
        counts.forget(directory)
        good = all([run_part(part, directory, choice.seeds) for part in parts])
    try:
        sources = counts.merge(counts.reports(directory), ROOT, directory)
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip() or "no reason given").splitlines()[-1]
        sys.exit(f"coverage: gcov refuses {error.cmd[-1]}: {why}; run scripts/coverage without --keep")
    ran = "counts of an earlier run" if choice.keep else f"{', '.join(parts)}; seeds {choice.seeds}"
    heading = f"coverage: {datetime.date.today().isoformat()}, commit {commit()}, {ran}"
    if show is not None:
        print(uncovered(sources, show, ROOT))
    print(table(sources, heading))
    recovery = counts.Sum("recovery")
    for source in filter(lambda source: counts.is_recovery(source.path), sources):
        recovery.add(source)
    verdict = "reached" if recovery.percent() > AIM_PERCENT else "not reached"
    print(f"recovery code: {recovery.percent():.1f} % of lines; the aim, more than {AIM_PERCENT:.0f} %, is {verdict}")
    return 0 if good else 1
