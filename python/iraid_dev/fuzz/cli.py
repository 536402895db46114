"""fuzz --minutes N [--only NAME,...] - runs the fuzz targets under libFuzzer, with sanitizers.

Builds them with clang in build-fuzz/ (scripts/deps --long).  Each gets the same part of the time, and goes on from
the corpus of earlier runs (build-fuzz/corpus/NAME) and from what is kept in tests/corpora/NAME: seeds, and
inputs that once broke something.  An input that breaks something now is left in build-fuzz/broken; copy it to
tests/corpora/NAME when it is mended, and scripts/test tries it each time.

    scripts/fuzz --minutes 10               all of them; exit status 1 if any breaks
    scripts/fuzz --minutes 60 --only iscsi
    scripts/fuzz --list
    scripts/fuzz --table                    what all runs in this tree have tried so far, as Markdown

Without clang, scripts/test tries each with inputs of its own.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from iraid_dev.fuzz.table import RUNS, Run, read_runs, table
from iraid_dev.places import ROOT, commit

BUILD = ROOT / "build-fuzz"
KEPT = ROOT / "tests" / "corpora"
INPUT_SECONDS = 25  # an input that takes longer hangs
MEMORY_MIB = 2048
REPORT = re.compile(r"^stat::(number_of_executed_units|peak_rss_mb):\s+(\d+)$", re.MULTILINE)
SO_FAR = re.compile(r"^#(\d+)\s", re.MULTILINE)  # of one that was killed: it has no last words
COVERAGE = re.compile(r"\bcov: (\d+) ft: (\d+)")
HEADINGS = f"{'target':16} {'executions':>12} {'a second':>9} {'edges':>6} {'MiB':>6} {'broken':>6}"


@dataclass
class Outcome:
    name: str
    executions: int
    seconds: float
    edges: int  # of the code, reached
    peak_mib: int
    broken: list[str]  # files
    output: str

    def as_run(self) -> Run:
        hangs = sum(Path(path).name.startswith(("timeout-", "slow-unit-")) for path in self.broken)
        return Run(
            self.name, commit(), time.strftime("%Y-%m-%d"), self.executions, round(self.seconds, 1),
            self.edges, len(self.broken) - hangs, hangs, self.peak_mib,
        )  # fmt: skip

    def line(self) -> str:
        rate = self.executions / self.seconds if self.seconds else 0.0
        return f"{self.name:16} {self.executions:12} {rate:9.0f} {self.edges:6} {self.peak_mib:6} {len(self.broken):6}"


def names() -> list[str]:
    """Of all fuzz targets: iscsi is tests/unit/adapters/iscsi/fuzz_iscsi.c."""
    return sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tests" / "unit").rglob("fuzz_*.c"))


def choose(only: str | None) -> list[str]:
    known = names()
    wanted = only.split(",") if only else known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"fuzz: no target is called {', '.join(unknown)}; there are {', '.join(known)}")
    return wanted


def build(wanted: list[str]) -> None:
    if shutil.which("clang") is None:
        raise SystemExit("fuzz: libFuzzer comes with clang, which is not installed; apt install clang")
    options = ["-DCMAKE_C_COMPILER=clang", "-DIRAID_LIBFUZZER=ON", "-DIRAID_SANITIZE=ON"]
    steps = (
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(BUILD), *options],
        ["cmake", "--build", str(BUILD), "--target", *(f"fuzz_{name}" for name in wanted)],
    )
    for step in steps:
        result = subprocess.run(step, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"fuzz: {' '.join(step)} failed:\n{result.stdout[-4000:]}{result.stderr[-2000:]}")


def outcome(name: str, seconds: float, output: str, broken: list[str]) -> Outcome:
    """From what libFuzzer prints at its end."""
    figures = {key: int(value) for key, value in REPORT.findall(output)}
    edges = [int(edge) for edge, _ in COVERAGE.findall(output)]
    so_far = max((int(count) for count in SO_FAR.findall(output)), default=0)
    return Outcome(
        name, figures.get("number_of_executed_units", so_far), seconds, max(edges, default=0),
        figures.get("peak_rss_mb", 0), broken, output,
    )  # fmt: skip


def run(name: str, seconds: float) -> Outcome:
    corpus, broken, kept = BUILD / "corpus" / name, BUILD / "broken" / name, KEPT / name
    for folder in (corpus, broken):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(broken.iterdir())
    command = [
        str(BUILD / "tests" / "unit" / f"fuzz_{name}"), f"-max_total_time={max(1, round(seconds))}",
        f"-artifact_prefix={broken}/", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}", "-max_len=8192",
        "-print_final_stats=1", str(corpus), *([str(kept)] if kept.is_dir() else []),
    ]  # fmt: skip
    begun = time.monotonic()
    result = subprocess.run(command, capture_output=True, check=False)
    output = (result.stdout + result.stderr).decode(errors="replace")
    found = sorted(str(path) for path in set(broken.iterdir()) - before)
    if result.returncode != 0 and not found:
        found = [f"exit status {result.returncode}"]
    return outcome(name, time.monotonic() - begun, output, found)


def tell(result: Outcome) -> None:
    print(result.line(), flush=True)
    for path in result.broken:
        print(f"    broken: {path}", flush=True)
    if result.broken:
        print("\n".join(f"    {line}" for line in result.output.splitlines()[-60:]), flush=True)


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--minutes", type=float, default=10.0, help="altogether (default: %(default)s)")
    result.add_argument("--only", metavar="NAME,...", help="these targets")
    result.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time (default: %(default)s)")
    result.add_argument("--json", type=Path, metavar="FILE", help="the figures")
    result.add_argument("--list", action="store_true", help="the targets' names")
    result.add_argument("--table", action="store_true", help="sums of all runs so far")
    return result


def main(words: list[str]) -> int:
    given = parser().parse_args(words)
    if given.list:
        print("\n".join(names()))
        return 0
    if given.table:
        print(table(read_runs(BUILD / RUNS), names()))
        return 0
    if given.minutes <= 0 or given.jobs < 1:
        raise SystemExit(f"fuzz: --minutes {given.minutes} --jobs {given.jobs}: both must be above 0")
    wanted = choose(given.only)
    build(wanted)
    at_a_time = min(given.jobs, len(wanted))
    each = given.minutes * 60 * at_a_time / len(wanted)
    print(f"fuzz, {time.strftime('%Y-%m-%d %H:%M')}, commit {commit()}: {each:.0f} s for each of {len(wanted)} targets")
    print(HEADINGS, flush=True)
    results = []
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, name, each) for name in wanted]):
            results.append(done.result())
            results[-1].as_run().append_to(BUILD / RUNS)
            tell(results[-1])
    total = sum(result.executions for result in results)
    broken = sum(len(result.broken) for result in results)
    print(f"{total} executions, {broken} broken")
    if given.json:
        figures = [{key: value for key, value in asdict(result).items() if key != "output"} for result in results]
        given.json.write_text(json.dumps({"commit": commit(), "targets": figures}, indent=1) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
