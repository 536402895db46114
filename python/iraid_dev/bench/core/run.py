"""A run of scripts/bench on the host: build, lab, the JSON file, what is said at the end."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from iraid_dev.places import ROOT, SCRIPTS, module_words
from iraid_dev.steps import host
from iraid_dev.steps.host import Failure
from iraid_dev.steps.progress import REPORT_NAME, Progress, Report
from iraid_dev.steps.table import steps_table

from . import plan as plans
from . import report, row
from .cells import MIB, ValueFault
from .plan import Plan
from .row import Row

MEMORY_MIN_MIB = 3072
LAB_SECONDS_SPARE, LAB_TIMES = 900, 3  # a busy machine may take this much longer than the estimate


def check_files(given: argparse.Namespace) -> None:
    if given.json:
        if not given.json.resolve().parent.is_dir():
            raise ValueFault(f"--json {given.json}: its directory is not there; make it first")
        if given.json.is_dir():
            raise ValueFault(f"--json {given.json} is a directory; name a file")
    if given.out:
        if given.out.exists() and not given.out.is_dir():
            raise ValueFault(f"--out {given.out} is a file; name a directory")
        if not given.out.resolve().parent.is_dir():
            raise ValueFault(f"--out {given.out}: the directory it is to be made in is not there; make it first")


def check_plots(given: argparse.Namespace) -> None:
    if given.out and (given.report or given.no_deps) and importlib.util.find_spec("matplotlib") is None:
        raise ValueFault("--out draws plots, and matplotlib is not there: apt-get install python3-matplotlib")


class Run:
    """Rows and steps, wherever they come from; what is there goes into the JSON file while the run goes on."""

    def __init__(self, given: argparse.Namespace, words: list[str], progress: Progress):
        self.given = given
        self.progress = progress
        self.rows: list[Row] = []
        self.head: dict[str, Any] = {
            "ok": False,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": host.commit(),
            "command": shlex.join(["scripts/bench", *words]),
            "machine": {"cpu": host.processor(), "processors": os.cpu_count(), "kernel": f"Linux {os.uname().release}"},
        }
        self._written = -1

    def prepare(self) -> None:
        if not self.given.no_deps:
            with self.progress.step("Packages"):
                status = subprocess.run([SCRIPTS / "deps"], check=False).returncode
                if status != 0:
                    raise Failure(f"scripts/deps ended with status {status}")
        if not self.given.no_build:
            host.build(self.progress)

    def in_lab(self, module: str, kernel: str, memory_mib: int, seconds_max: float, files: dict[str, str]) -> None:
        """Runs a module of ours in the lab.  It appends its rows to the file "rows", one a line, in the directory
        IRAID_DEMO_RESULTS, where it finds `files` (name -> contents), and leaves its steps as progress.py has them."""
        with tempfile.TemporaryDirectory(prefix="iraid-bench-") as name:
            results = Path(name)
            for file, text in files.items():
                (results / file).write_text(text)
            before = list(self.rows)

            def look() -> None:
                self.rows = before + read_lines(results / "rows")
                self.keep()

            words = [
                "--kernel",
                kernel,
                "--memory",
                f"{memory_mib}M",
                "--timeout",
                str(round(seconds_max)),
                "--share",
                name,
                *(["--keep"] if self.given.keep else []),
                "--",
                *module_words(module),
            ]
            try:
                status = host.run_lab(
                    words, os.environ | {"IRAID_DEMO_RESULTS": name, "IRAID_BUILD_DIR": str(host.build_folder())}, look
                )
            finally:
                look()
            inside = Report.read(results / REPORT_NAME)
        if lab := inside.figures.get("lab"):
            self.head["lab"] = lab
        host.take_over(self.progress, inside, status)

    def natively(self, plan: Plan, options: Sequence[object] = (), conditions: dict[str, Any] | None = None) -> None:
        """The engine and plain sessions, by tests/bench/native.py.  options: more words for it; conditions: what rows get."""
        for shape in plan.shapes:
            title = f"No kernel, level {shape.level}, {shape.members} members: {', '.join(plan.native)}"
            title += "".join(f", {name} {value}" for name, value in (conditions or {}).items() if name != "experiment")
            with self.progress.step(title), tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "rows.json")
                words = [
                    ROOT / "tests/bench/native.py",
                    "--build",
                    host.build_folder(),
                    "--level",
                    shape.level,
                    "--members",
                    shape.members,
                    "--systems",
                    ",".join(plan.native),
                    "--seconds",
                    plan.seconds,
                    "--rounds",
                    plan.rounds,
                    "--json",
                    file,
                    "--cells",
                    ",".join(f"{cell.pattern}:{cell.block_bytes}" for cell in plan.cells),
                    *options,
                ]
                done = subprocess.Popen(
                    ["/usr/bin/python3", "-B", *(str(word) for word in words)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                try:
                    fault = done.communicate()[1]
                finally:  # interrupted, it got the signal as well
                    if done.poll() is None:
                        done.terminate()
                        done.wait()
                    if file.exists():
                        self.rows += [
                            replace(one, conditions=one.conditions | (conditions or {})) for one in row.read(file)[1]
                        ]
                        self.keep()
                if done.returncode != 0:
                    raise Failure(f"tests/bench/native.py ended with status {done.returncode}: {fault.strip()[-800:]}")

    def keep(self) -> None:
        """Writes the JSON file if there is something new."""
        if self.given.json and len(self.rows) != self._written:
            self._write()

    def _write(self) -> None:
        head = self.head | {"steps": [asdict(step) for step in self.progress.report.steps]}
        row.write(self.given.json, head, self.rows)
        self._written = len(self.rows)

    def close(self, seconds: float) -> None:
        report_ = self.progress.report
        self.head |= {"ok": report_.ok, "seconds": round(seconds, 1)}
        if self.given.json:
            self._write()
        print(f"\n{steps_table(report_)}\n" if report_.steps else "")
        if self.rows:
            print(self.summary() + "\n\n" + "\n".join(report.head_lines(self.head)) + "\n")
            if self.given.out:
                self.write_report()
        if report_.ok:
            print(f"bench: {len(self.rows)} figures, {plans.duration_text(seconds)}")
            return
        failed = next((step.name for step in report_.steps if not step.ok), "interrupted")
        print(f"bench: FAILED after {plans.duration_text(seconds)}, with {len(self.rows)} figures: {failed}")
        host.show_logs(report_)

    def summary(self) -> str:
        """Tables for the terminal."""
        return report.summary(report.sections(self.rows))

    def write_report(self) -> None:
        write_report(self.given.out, [self.head], self.rows)


def carry_out(run: Run, measure: Callable[[], None]) -> int:
    """Exit status.  However it ends, what was measured is kept and shown."""

    def terminated(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminated)
    try:
        measure()
        run.progress.report.ok = True
    except Failure:
        pass
    except KeyboardInterrupt:
        run.progress.line("interrupted")
    run.close(time.time() - run.progress.begin)
    return 0 if run.progress.report.ok else 1


def begin() -> Progress:
    """What the lab's part counts its times from, too."""
    return Progress(float(os.environ.setdefault("IRAID_DEMO_BEGIN", repr(time.time()))))


def read_lines(path: Path) -> list[Row]:
    """Rows that are being written: the last line may be half a line yet."""
    try:
        lines = path.read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [Row(**json.loads(line)) for line in lines]


def memory_mib(disk_bytes: int) -> int:
    """The lab's: half of it is what its tmpfs holds."""
    return max(MEMORY_MIN_MIB, (2 * disk_bytes + plans.GUEST_BYTES) // MIB)


def available_bytes() -> int:
    """Memory of this machine that nobody uses.  0: it doesn't say."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def write_report(folder: Path, heads: list[dict[str, Any]], rows: list[Row]) -> None:
    from . import plots  # matplotlib is wanted by nothing else

    folder.mkdir(exist_ok=True)
    found = report.sections(rows)
    pictures = {section.slug: plots.draw_all(section, folder) for section in found}
    path = folder / "report.md"
    path.write_text(report.markdown(heads, found, pictures))
    print(f"bench: {path}, and {sum(map(len, pictures.values()))} plots beside it (PNG and SVG)")
