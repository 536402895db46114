#!/usr/bin/python3
"""scripts/demo and scripts/bench, from the point on where the packages are there.

Builds, starts the lab with the part that runs inside, and closes with a table, the JSON file and
the exit status.  The part inside leaves its report in a directory that the lab shares.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
ROOT = SCRIPTS.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPTS))

from demolib.progress import REPORT_NAME, Progress, Report  # noqa: E402
from demolib.table import figures_table, steps_table  # noqa: E402

LAB_MEMORY = {"demo": "3G", "bench": "6G"}  # half of it is what /dev/shm holds
LAB_SECONDS_MAX = {"uml": 900, "host": 900, "qemu": 2400}
LOG_LINES = 15
LOGS = ("tcmu-runner.output", "tcmu-runner.log")


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"scripts/{words[0]}", add_help=False)
    parser.add_argument("program", choices=("demo", "bench"))
    parser.add_argument("--packages-status", type=int, default=0)
    parser.add_argument("--packages-seconds", type=float, default=0.0)
    parser.add_argument("--kernel", choices=tuple(LAB_SECONDS_MAX), default="uml")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args(words)
    if given.json and not given.json.resolve().parent.is_dir():
        parser.error(f"--json {given.json}: its directory is not there; make it first")
    if not 0 < given.seconds <= 60:
        parser.error(f"--seconds {given.seconds:g} is not in 0..60")
    return given


def main(words: list[str]) -> int:
    given = parse(words)
    begin = float(os.environ.setdefault("IRAID_DEMO_BEGIN", repr(time.time())))
    progress = Progress(begin)
    report = progress.report
    try:
        prepare(given, progress)
        run_inside(given, progress)
        report.ok = all(step.ok for step in report.steps)
    except Failure:
        pass
    except KeyboardInterrupt:
        progress.line("interrupted")
    close(given, report, time.time() - begin)
    return 0 if report.ok else 1


class Failure(Exception):
    """A step failed, and it says so itself."""


def prepare(given: argparse.Namespace, progress: Progress) -> None:
    try:
        if not given.no_deps:
            with progress.step("Packages") as step:
                step.seconds = given.packages_seconds
                if given.packages_status != 0:
                    raise Failure(f"scripts/deps ended with status {given.packages_status}")
        if not given.no_build:
            with progress.step("Build"):
                status = subprocess.run([SCRIPTS / "build"], check=False).returncode
                if status != 0:
                    raise Failure(f"scripts/build ended with status {status}")
    except OSError as error:
        raise Failure from error


def run_inside(given: argparse.Namespace, progress: Progress) -> None:
    """Takes the steps of the part inside over, whatever became of it."""
    with tempfile.TemporaryDirectory(prefix=f"iraid-{given.program}-") as results:
        words = [SCRIPTS / "lab", "--kernel", given.kernel, "--memory", LAB_MEMORY[given.program],
                 "--timeout", str(LAB_SECONDS_MAX[given.kernel]), "--share", results,
                 *(["--keep"] if given.keep else []), "--",
                 "/usr/bin/python3", "-B", "-u", SCRIPTS / f"demolib/{given.program}_inside.py"]
        environment = os.environ | {"IRAID_DEMO_RESULTS": results,
                                    "IRAID_BENCH_SECONDS": f"{given.seconds:g}"}
        status = run_lab([str(word) for word in words], environment)
        inside = Report.read(Path(results, REPORT_NAME))
    report = progress.report
    report.steps += inside.steps
    report.figures, report.logs = inside.figures, inside.logs
    if status == 0 and inside.ok:
        return
    if all(step.ok for step in inside.steps):
        with progress.step("The lab"):
            raise Failure(f"scripts/lab ended with status {status}"
                          + ("" if inside.steps else " before anything ran inside"))
    raise Failure


def run_lab(words: list[str], environment: dict[str, str]) -> int:
    lab = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
    while True:
        try:
            return lab.wait()
        except KeyboardInterrupt:  # the lab got it as well, and ends the guest
            print("waiting for the lab to end", flush=True)


def close(given: argparse.Namespace, report: Report, seconds: float) -> None:
    print(f"\n{steps_table(report)}\n")
    if rows := report.figures.get("throughput_mb_s"):
        print(f"{figures_table(rows)}\n")
    if given.program == "bench":
        print(provenance(given))
    if given.json:
        value = asdict(report) | {"seconds": round(seconds, 1), "kernel": given.kernel,
                                  "date": time.strftime("%Y-%m-%d"), "commit": commit()}
        if report.ok and not given.keep:
            value["logs"] = ""
        given.json.write_text(json.dumps(value, indent=2) + "\n")
    if report.ok:
        print(f"{given.program}: all {len(report.steps)} steps held, {seconds:.0f} s")
        return
    failed = next((step.name for step in report.steps if not step.ok), "interrupted")
    print(f"{given.program}: FAILED after {seconds:.0f} s: {failed}")
    show_logs(report)


def show_logs(report: Report) -> None:
    if not report.logs:
        return
    for name in LOGS:
        path = Path(report.logs, "log", name)
        if path.is_file() and (lines := path.read_text(errors="replace").splitlines()):
            print(f"\n--- the last lines of {path}")
            print("\n".join(lines[-LOG_LINES:]))
    print(f"\nLogs and state: {report.logs}")


def commit() -> str:
    """Empty where there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def provenance(given: argparse.Namespace) -> str:
    model = next((line.partition(":")[2].strip() for line in
                  Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
                 "unknown CPU")
    return (f"scripts/bench --kernel {given.kernel} --seconds {given.seconds:g}, "
            f"{time.strftime('%Y-%m-%d')}, commit {commit() or 'unknown'}, {model}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
