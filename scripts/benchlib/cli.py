#!/usr/bin/python3
"""scripts/bench: what was asked for, on the host; measuring in the lab is inside.py's."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[1]
ROOT = SCRIPTS.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPTS))

from benchlib import plan as plans  # noqa: E402
from benchlib import papers_run, report, row  # noqa: E402
from benchlib.cells import MEMBERS_DEFAULT, MIB, ValueFault, parse_cells, parse_shapes  # noqa: E402
from benchlib.plan import KERNELS, PROFILES, Plan  # noqa: E402
from benchlib.row import Row, RowError  # noqa: E402
from demolib import host  # noqa: E402
from demolib.host import Failure  # noqa: E402
from demolib.progress import REPORT_NAME, Progress, Report  # noqa: E402
from demolib.table import steps_table  # noqa: E402

MEMORY_MIN_MIB = 3072
LAB_SECONDS_SPARE, LAB_TIMES = 900, 3  # a busy machine may take this much longer than the estimate
SECONDS_MAX, ROUNDS_MAX = 600, 100
PAPERS = "papers"  # a profile with a program of its own: papers_run.py

EPILOG = f"""\
systems:
{{systems}}
profiles:
{{profiles}}
A level is LEVEL or LEVEL:MEMBERS ({', '.join(f'{level}:{members}' for level, members in MEMBERS_DEFAULT.items())} unless
told otherwise); a cell is SIZE:PATTERN, or only one of them.  docs/design/benchmarks.md: what is measured how.

examples:
  scripts/bench
  scripts/bench --profile quick --json quick.json --out quick
  scripts/bench --profile papers --only distance --out distance
  scripts/bench --systems iraid,md --levels 6:5 --cells 4k:randwrite,1M --rounds 5
  scripts/bench --report quick.json full.json --out figures
"""


# --- what was typed ---

def _parser() -> argparse.ArgumentParser:
    text = EPILOG.format(
        systems="".join(f"  {name:<12} {about}\n" for name, about in row.SYSTEMS.items()),
        profiles="".join(
            f"  {name:<6} {one.about}; {one.kernel}, levels {one.levels}, {len(one.cells)} cells, {one.rounds} rounds "
            f"of {one.seconds:g} s\n" for name, one in PROFILES.items())
        + f"  {PAPERS:<6} the papers' experiments on shaped links; options of its own: scripts/bench --profile {PAPERS} --help\n")
    parser = argparse.ArgumentParser(
        prog="scripts/bench", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=text,
        description="Measures iraid beside its peers with fio at depth 16: the same kind of targets, the same kernel\n"
                    "and initiator, in turn cell by cell.  Installs packages (as root) and builds first.")
    add = parser.add_argument
    add("--profile", choices=(*PROFILES, PAPERS), default="short", help="what the options below begin with (default: short)")
    add("--kernel", choices=KERNELS, help="the lab's kernel: see scripts/lab --help")
    add("--systems", metavar="NAME,...", help="systems to measure")
    add("--levels", metavar="LEVEL[:MEMBERS],...", help="levels to measure")
    add("--cells", metavar="CELL,...", help="cells to measure")
    add("--seconds", type=float, metavar="N", help="time of a cell in each round")
    add("--rounds", type=int, metavar="N", help="times that each cell is measured")
    add("--json", type=Path, metavar="FILE", help="the figures, also of a run that is cut short")
    add("--out", type=Path, metavar="DIR", help="a report with plots; the folder is made")
    add("--report", type=Path, nargs="+", metavar="FILE",
        help="measure nothing: a report in --out of files that --json wrote")
    add("--keep", action="store_true", help="keep the lab's logs and state after a good run too")
    add("--no-deps", action="store_true", help="look for no packages")
    add("--no-build", action="store_true", help="use what is built")
    return parser


def parse(words: list[str]) -> tuple[argparse.Namespace, Plan]:
    parser = _parser()
    given = parser.parse_args(words)
    if given.profile == PAPERS:  # abbreviated, or it would not have come here (wants_papers)
        parser.error(f"--profile {PAPERS} has options of its own; write --profile in full")
    try:
        if given.report:
            _check_report(given)
        plan = _plan(given)
        _check_files(given)
    except ValueFault as fault:
        parser.error(str(fault))
    return given, plan


def _plan(given: argparse.Namespace) -> Plan:
    profile = PROFILES[given.profile]
    systems, shapes, cells = profile.systems, profile.shapes(), profile.cells
    try:
        option = "--systems"
        if given.systems is not None:
            systems = tuple(dict.fromkeys(given.systems.split(",")))
            if unknown := [name for name in systems if name not in row.SYSTEMS]:
                raise ValueFault(f"{unknown[0]!r} is no system; choose from {', '.join(row.SYSTEMS)}")
        option = "--levels"
        if given.levels is not None:
            shapes = parse_shapes(given.levels)
        option = "--cells"
        if given.cells is not None:
            cells = parse_cells(given.cells)
    except ValueFault as fault:
        raise ValueFault(f"{option} {fault}") from None
    seconds = profile.seconds if given.seconds is None else given.seconds
    rounds = profile.rounds if given.rounds is None else given.rounds
    if not 0.1 <= seconds <= SECONDS_MAX:
        raise ValueFault(f"--seconds {seconds:g} is not in 0.1..{SECONDS_MAX}")
    if not 1 <= rounds <= ROUNDS_MAX:
        raise ValueFault(f"--rounds {rounds} is not in 1..{ROUNDS_MAX}")
    plan = Plan(given.kernel or profile.kernel, systems, shapes, cells, seconds, rounds)
    plan.check()
    if not given.report:
        plan.check_memory(available_bytes())
    return plan


def _check_report(given: argparse.Namespace) -> None:
    if not given.out:
        raise ValueFault("--report needs --out DIR, where the report goes")
    for name in ("kernel", "systems", "levels", "cells", "seconds", "rounds", "json"):
        if getattr(given, name) is not None:
            raise ValueFault(f"--report measures nothing: leave --{name} out")


def _check_files(given: argparse.Namespace) -> None:
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
        if (given.report or given.no_deps) and importlib.util.find_spec("matplotlib") is None:
            raise ValueFault("--out draws plots, and matplotlib is not there: apt-get install python3-matplotlib")


# --- a run ---

class Run:
    """Rows and steps, wherever they come from; what is there goes into the JSON file while the run goes on."""

    def __init__(self, given: argparse.Namespace, words: list[str], progress: Progress):
        self.given = given
        self.progress = progress
        self.rows: list[Row] = []
        self.head: dict[str, Any] = {
            "ok": False, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": host.commit(), "command": shlex.join(["scripts/bench", *words]),
            "machine": {"cpu": host.processor(), "processors": os.cpu_count(), "kernel": f"Linux {os.uname().release}"}}
        self._written = -1

    def prepare(self) -> None:
        if not self.given.no_deps:
            with self.progress.step("Packages"):
                status = subprocess.run([SCRIPTS / "deps"], check=False).returncode
                if status != 0:
                    raise Failure(f"scripts/deps ended with status {status}")
        if not self.given.no_build:
            host.build(self.progress)

    def in_lab(self, program: Path, kernel: str, memory_mib: int, seconds_max: float, files: dict[str, str]) -> None:
        """Runs a program of ours in the lab.  It appends its rows to the file "rows", one a line, in the directory
        IRAID_DEMO_RESULTS, where it finds `files` (name -> contents), and leaves its steps as progress.py has them."""
        with tempfile.TemporaryDirectory(prefix="iraid-bench-") as name:
            results = Path(name)
            for file, text in files.items():
                (results / file).write_text(text)
            before = list(self.rows)

            def look() -> None:
                self.rows = before + read_lines(results / "rows")
                self.keep()

            words = ["--kernel", kernel, "--memory", f"{memory_mib}M", "--timeout", str(round(seconds_max)),
                     "--share", name, *(["--keep"] if self.given.keep else []), "--",
                     "/usr/bin/python3", "-B", "-u", str(program)]
            try:
                status = host.run_lab(words, os.environ | {"IRAID_DEMO_RESULTS": name,
                                                           "IRAID_BUILD_DIR": str(host.build_folder())}, look)
            finally:
                look()
            inside = Report.read(results / REPORT_NAME)
        if lab := inside.figures.get("lab"):
            self.head["lab"] = lab
        host.take_over(self.progress, inside, status)

    def natively(self, plan: Plan) -> None:
        """The engine and plain sessions, by tests/bench/native.py."""
        for shape in plan.shapes:
            with self.progress.step(f"No kernel, level {shape.level}, {shape.members} members: "
                                    f"{', '.join(plan.native)}"), tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "rows.json")
                words = [ROOT / "tests/bench/native.py", "--build", host.build_folder(), "--level", shape.level,
                         "--members", shape.members, "--systems", ",".join(plan.native), "--seconds", plan.seconds,
                         "--rounds", plan.rounds, "--json", file, "--cells",
                         ",".join(f"{cell.pattern}:{cell.block_bytes}" for cell in plan.cells)]
                done = subprocess.Popen(["/usr/bin/python3", "-B", *(str(word) for word in words)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True)
                try:
                    fault = done.communicate()[1]
                finally:  # interrupted, it got the signal as well
                    if done.poll() is None:
                        done.terminate()
                        done.wait()
                    if file.exists():
                        self.rows += row.read(file)[1]
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
            found = report.sections(self.rows)
            print(report.summary(found) + "\n\n" + "\n".join(report.head_lines(self.head)) + "\n")
            if self.given.out:
                write_report(self.given.out, [self.head], self.rows)
        if report_.ok:
            print(f"bench: {len(self.rows)} figures, {plans.duration_text(seconds)}")
            return
        failed = next((step.name for step in report_.steps if not step.ok), "interrupted")
        print(f"bench: FAILED after {plans.duration_text(seconds)}, with {len(self.rows)} figures: {failed}")
        host.show_logs(report_)


def read_lines(path: Path) -> list[Row]:
    """Rows that are being written: the last line may be half a line yet."""
    try:
        lines = path.read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [Row(**json.loads(line)) for line in lines]


def memory_mib(plan: Plan) -> int:
    """The lab's: half of it is what its tmpfs holds."""
    return max(MEMORY_MIN_MIB, (2 * plan.disk_bytes() + plans.GUEST_BYTES) // MIB)


def available_bytes() -> int:
    """Memory of this machine that nobody uses.  0: it doesn't say."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def write_report(folder: Path, heads: list[dict[str, Any]], rows: list[Row]) -> None:
    from benchlib import plots  # matplotlib is wanted by nothing else

    folder.mkdir(exist_ok=True)
    found = report.sections(rows)
    pictures = {section.slug: plots.draw_all(section, folder) for section in found}
    path = folder / "report.md"
    path.write_text(report.markdown(heads, found, pictures))
    print(f"bench: {path}, and {sum(map(len, pictures.values()))} plots beside it (PNG and SVG)")


def only_report(given: argparse.Namespace) -> int:
    try:
        files = [row.read(path) for path in given.report]
    except RowError as error:
        print(f"scripts/bench: --report {error}", file=sys.stderr)
        return 1
    rows = report.pooled([rows for _, rows in files])
    if not rows:
        print(f"scripts/bench: --report {' '.join(map(str, given.report))}: no figures in there; was the run ended "
              "before its first?", file=sys.stderr)
        return 1
    write_report(given.out, [head for head, _ in files], rows)
    return 0


def measure(run: Run, plan: Plan) -> None:
    run.head |= {"profile": run.given.profile, "plan": json.loads(plan.to_json())}
    seconds = plans.estimate_seconds(plan)
    run.progress.line(f"about {plans.duration_text(seconds)} to measure, on a quiet machine")
    run.prepare()
    if plan.in_lab:
        run.in_lab(SCRIPTS / "benchlib/inside.py", plan.kernel, memory_mib(plan),
                   LAB_SECONDS_SPARE + LAB_TIMES * seconds, {"plan.json": plan.to_json()})
    if plan.native:
        run.natively(plan)


def wants_papers(words: list[str]) -> bool:
    return f"--profile={PAPERS}" in words or ("--profile", PAPERS) in zip(words, words[1:], strict=False)


def main(words: list[str]) -> int:
    if wants_papers(words):
        return papers_run.main(words)
    given, plan = parse(words)
    if given.report:
        return only_report(given)
    signal.signal(signal.SIGTERM, _terminated)
    begin = float(os.environ.setdefault("IRAID_DEMO_BEGIN", repr(time.time())))
    progress = Progress(begin)
    run = Run(given, words, progress)
    try:
        measure(run, plan)
        progress.report.ok = True
    except Failure:
        pass
    except KeyboardInterrupt:
        progress.line("interrupted")
    run.close(time.time() - begin)
    return 0 if progress.report.ok else 1


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
