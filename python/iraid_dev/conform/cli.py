"""scripts/conformance: command line, the lab around the tests, the closing tables."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from iraid_dev.places import ROOT, SCRIPTS, commit, module_words

from . import tools_run
from .results import Run, differences, table

PACKAGE = "libiscsi-bin"
MIB = 1 << 20

EPILOG = """\
exit status: 0 if each test that fails on our LUNs also fails on the reference, or is known to and why; else 1.
examples:
  scripts/conformance --levels 0,5 --json conformance.json
  scripts/conformance --levels 5 --families iSCSI,Read10,SCSI.WriteSame16.Unmap
  scripts/conformance --tools --levels 5
"""


def _levels(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a list of levels; write numbers with commas, for example 0,5"
        ) from None


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/conformance",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs libiscsi's iscsi-test-cu, one process a test, in the lab against a LUN of each level "
        "and, before them and in the same run, against LIO's own fileio LUN. A test that the tool "
        "skipped counts as skipped, even if the tool counts it as passed. With --tools, tests with the "
        "stock tools of initiators instead.",
    )
    add = parser.add_argument
    add("--levels", type=_levels, default=[0, 5], metavar="N,N", help="levels of the volumes (default 0,5)")
    add(
        "--families",
        default="",
        metavar="NAME,NAME",
        help="families, suites or tests, or patterns of them (default: all); with --tools a pytest -k expression",
    )
    add("--tools", action="store_true", help="stock tools instead of iscsi-test-cu")
    add("--json", type=Path, metavar="FILE", help="write all results to FILE")
    add("--limit", type=float, default=60, metavar="SECONDS", help="time limit of a test (default 60)")
    add("--size", type=int, default=192, metavar="MIB", help="size of the LUNs (default 192)")
    add("--block-bytes", type=int, choices=(512, 4096), default=512, help="block size of the LUNs (default 512)")
    add("--kernel", choices=("uml", "qemu", "host"), default="uml", help="kernel of the lab (default uml)")
    add("--timeout", type=int, default=5400, metavar="SECONDS", help="time limit of the whole run (default 5400)")
    add("--logs", type=Path, metavar="DIR", help="keep the tool's log of each test that did not pass")
    add("--no-build", action="store_true", help="do not build")
    given = parser.parse_args(words)
    if given.json and not given.json.resolve().parent.is_dir():
        parser.error(f"--json {given.json}: its directory is not there; make it first")
    if given.limit <= 0:
        parser.error(f"--limit {given.limit:g} is no time; give a number above 0")
    if not 64 <= given.size <= 512:
        parser.error(f"--size {given.size}: LUNs lie in the lab's memory; give 64 to 512")
    return given


def tool_version() -> str:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", PACKAGE], capture_output=True, text=True, check=False
    )
    return f"iscsi-test-cu of {PACKAGE} {done.stdout.strip() or '(unknown version)'}"


def lab_words(given: argparse.Namespace, folder: Path, inside: list[str]) -> list[str]:
    return [
        str(SCRIPTS / "lab"),
        "--kernel",
        given.kernel,
        "--timeout",
        str(given.timeout),
        "--share",
        str(folder),
        "--",
        *inside,
    ]


def run_lab(words: list[str], environment: dict[str, str] | None = None) -> int:
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=os.environ | (environment or {}))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the lab got it as well, and ends the guest
            print("conformance: waiting for the lab to end", flush=True)


def settings_of(given: argparse.Namespace) -> dict:
    return {
        "levels": given.levels,
        "families": [word for word in given.families.split(",") if word],
        "limit_seconds": given.limit,
        "size_bytes": given.size * MIB,
        "block_bytes": given.block_bytes,
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "tool": tool_version(),
    }


def conformance(given: argparse.Namespace, folder: Path) -> int:
    settings = settings_of(given)
    (folder / "settings.json").write_text(json.dumps(settings))
    status = run_lab(
        lab_words(given, folder, [*module_words("iraid_dev.conform.inside"), str(folder / "settings.json")])
    )
    if given.logs and (folder / "logs").exists():
        shutil.copytree(folder / "logs", given.logs, dirs_exist_ok=True)
    results = folder / "results.json"
    if not results.exists():
        print(f"conformance: the lab ended with status {status} before any test had ended")
        return 1
    run = Run.read(results)
    run.ended = run.ended and status == 0
    print("\n" + closing(run, status))
    if given.json:
        given.json.write_text(json.dumps(asdict(run) | {"ok": run.good}, indent=1) + "\n")
    return 0 if run.good else 1


def closing(run: Run, status: int) -> str:
    lines = [table(run), "", differences(run), "", f"{run.date}, commit {run.commit}, {run.kernel}, {run.tool}"]
    if not run.ended:
        lines.append(f"conformance: NOT all tests were run: the lab ended with status {status}")
    lines.append("conformance: " + ("no failure that neither the reference has nor is known" if run.good else "FAILED"))
    return "\n".join(lines)


def main(words: list[str]) -> int:
    given = parse(words)
    build = os.environ.setdefault("IRAID_BUILD_DIR", str(ROOT / "build"))
    if not given.no_build and subprocess.run([SCRIPTS / "build", "--directory", build], check=False).returncode != 0:
        print("conformance: the build failed, nothing was run", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="iraid-conformance-") as folder:
        if given.tools:
            return tools_run.run(given, Path(folder), commit(), lab_words, run_lab)
        return conformance(given, Path(folder))
