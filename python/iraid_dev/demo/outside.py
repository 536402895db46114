"""scripts/demo, from the point on where the packages are there.

Builds, starts the lab with the part that runs inside, and closes with a table, the JSON file and
the exit status.  The part inside leaves its report in a directory that the lab shares.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from iraid_dev.places import module_words
from iraid_dev.steps import host
from iraid_dev.steps.host import Failure
from iraid_dev.steps.progress import REPORT_NAME, Progress, Report
from iraid_dev.steps.table import figures_table, steps_table

LAB_MEMORY = "3G"  # half of it is what /dev/shm holds
LAB_SECONDS_MAX = {"uml": 900, "host": 900, "qemu": 2400}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", add_help=False)
    parser.add_argument("--packages-status", type=int, default=0)
    parser.add_argument("--packages-seconds", type=float, default=0.0)
    parser.add_argument("--kernel", choices=tuple(LAB_SECONDS_MAX), default="uml")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    given = parser.parse_args(words)
    if given.json and not given.json.resolve().parent.is_dir():
        parser.error(f"--json {given.json}: its directory is not there; make it first")
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


def prepare(given: argparse.Namespace, progress: Progress) -> None:
    try:
        if not given.no_deps:
            with progress.step("Packages") as step:
                step.seconds = given.packages_seconds
                if given.packages_status != 0:
                    raise Failure(f"scripts/deps ended with status {given.packages_status}")
        if not given.no_build:
            host.build(progress)
    except OSError as error:
        raise Failure from error


def run_inside(given: argparse.Namespace, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="iraid-demo-") as results:
        words = [
            "--kernel",
            given.kernel,
            "--memory",
            LAB_MEMORY,
            "--timeout",
            str(LAB_SECONDS_MAX[given.kernel]),
            "--share",
            results,
            *(["--keep"] if given.keep else []),
            "--",
            *module_words("iraid_dev.demo.inside"),
        ]
        status = host.run_lab(words, os.environ | {"IRAID_DEMO_RESULTS": results})
        inside = Report.read(Path(results, REPORT_NAME))
    host.take_over(progress, inside, status)


def close(given: argparse.Namespace, report: Report, seconds: float) -> None:
    print(f"\n{steps_table(report)}\n")
    if rows := report.figures.get("throughput_mb_s"):
        print(
            f"Targets behind links of a fixed rate: a volume has the links of all its targets.\n\n{figures_table(rows)}\n"
        )
    if given.json:
        value = asdict(report) | {
            "seconds": round(seconds, 1),
            "kernel": given.kernel,
            "date": time.strftime("%Y-%m-%d"),
            "commit": host.commit(),
        }
        if report.ok and not given.keep:
            value["logs"] = ""
        given.json.write_text(json.dumps(value, indent=2) + "\n")
    if report.ok:
        print(f"demo: all {len(report.steps)} steps held, {seconds:.0f} s")
        return
    failed = next((step.name for step in report.steps if not step.ok), "interrupted")
    print(f"demo: FAILED after {seconds:.0f} s: {failed}")
    host.show_logs(report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
