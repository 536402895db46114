"""scripts/bench --profile papers: the papers' experiments in the lab, then their report, from outside."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from iraid_dev.places import PYTHON, ROOT, SCRIPTS

PROGRAM = ROOT / "tests/bench/papers.py"
LAB_SECONDS_MAX = 3 * 3600


def parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What is the host's, and what the experiments take (tests/bench/papers.py --help)."""
    parser = argparse.ArgumentParser(prog="scripts/bench --profile papers", add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", choices=("papers",))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    given, others = parser.parse_known_args(words)
    if given.json and not given.json.resolve().parent.is_dir():
        parser.error(f"--json {given.json}: its directory is not there; make it first")
    return given, others


def main(words: list[str]) -> int:
    given, others = parse(words)
    if {"-h", "--help"} & set(others):
        return subprocess.run([PYTHON, "-B", PROGRAM, "--help"], check=False).returncode
    for step, left_out in (("deps", given.no_deps), ("build", given.no_build)):
        if not left_out and subprocess.run([SCRIPTS / step], check=False).returncode != 0:
            print(f"bench: scripts/{step} failed, nothing was measured", file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory(prefix="iraid-papers-") as name:
        rows = Path(name, "papers.json")
        status = subprocess.run(
            [
                SCRIPTS / "lab",
                "--timeout",
                str(LAB_SECONDS_MAX),
                "--share",
                name,
                "--",
                PYTHON,
                "-B",
                "-u",
                PROGRAM,
                *others,
                "--json",
                rows,
            ],
            check=False,
            env=os.environ,
        ).returncode
        if not rows.exists():  # it says why itself
            return status or 1
        if given.json:
            shutil.copyfile(rows, given.json)
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            report = subprocess.run([PYTHON, "-B", PROGRAM, "--report", rows, "--out", given.out], check=False)
            status = status or report.returncode
    return status
