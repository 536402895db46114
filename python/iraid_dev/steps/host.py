"""What scripts/demo and scripts/bench do on the host: packages, the build, the lab, where a run comes from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from iraid_dev.places import ROOT, SCRIPTS

from .progress import Progress, Report

LOG_LINES = 15
LOGS = ("tcmu-runner.output", "tcmu-runner.log")
LOOK_SECONDS = 2


class Failure(Exception):
    """A step failed, and it says so itself."""


def build_folder() -> Path:
    return Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build")).resolve()


def build(progress: Progress) -> None:
    with progress.step("Build"):
        status = subprocess.run([SCRIPTS / "build", "--directory", build_folder()], check=False).returncode
        if status != 0:
            raise Failure(f"scripts/build ended with status {status}")


def run_lab(words: list[str], environment: dict[str, str], look: Callable[[], None] = lambda: None) -> int:
    """Exit status of scripts/lab.  look() is called every now and then while it runs."""
    lab = subprocess.Popen([str(SCRIPTS / "lab"), *words], env=environment, stdin=subprocess.DEVNULL)
    while True:
        try:
            return lab.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            look()
        except KeyboardInterrupt:  # the lab got it as well, and ends the guest
            lab.terminate()
            print("waiting for the lab to end", flush=True)


def take_over(progress: Progress, inside: Report, status: int) -> None:
    """The steps of the part inside, whatever became of it."""
    report = progress.report
    report.steps += inside.steps
    report.figures, report.logs = inside.figures, inside.logs
    if status == 0 and inside.ok:
        return
    if all(step.ok for step in inside.steps):
        with progress.step("The lab"):
            raise Failure(
                f"scripts/lab ended with status {status}" + ("" if inside.steps else " before anything ran inside")
            )
    raise Failure


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
        done = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def processor() -> str:
    return next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown CPU",
    )
