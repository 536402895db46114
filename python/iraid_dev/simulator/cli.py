"""simulate --seeds A..B - runs the engine's simulator, one random life of a volume per seed.

First builds what it needs, optimised and with assertions, in build-simulate/ (build-mutants/ for mutants).
A seed that fails is repeated with fewer steps until all that are left are needed.  Then the trace of these is
printed, with the command that repeats it.  docs/design/simulator.md says what is simulated and checked.

    scripts/simulate --seeds 1..3000             all cores; exit status 1 if any seed fails
    scripts/simulate --seeds 17 --verbose        one seed, everything it does
    scripts/simulate --mutants                   every known mistake must be caught
    scripts/simulate --mutant flush-skipped --seeds 1..200
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from iraid_dev.places import ROOT

STEPS = 300
SEEDS_PER_MUTANT = 1000  # each has to be caught within that many
SHRINK_SECONDS = 60
TRACE_LINES = 60
FAILED = re.compile(r"^FAILED seed (\d+): (.*)$", re.MULTILINE)


@dataclass
class Program:
    """The simulator, built; and how it is called."""

    path: Path
    mutant: str | None = None
    level: str | None = None
    abilities: tuple[str, ...] = ()  # --with X, --without Y

    def options(self) -> list[str]:
        mutant = ["--mutant", self.mutant] if self.mutant else []
        return [*mutant, *(["--level", self.level] if self.level else []), *self.abilities]

    def command(self, *arguments: str) -> list[str]:
        return [str(self.path), *self.options(), *arguments]

    def fails(self, case: Case) -> str | None:
        """What fails in one seed with some steps left out; None if nothing does."""
        result = subprocess.run(
            self.command(*case.arguments(), "--quiet", "--limit", "10"), text=True, capture_output=True, check=False
        )
        found = FAILED.search(result.stdout)
        return found[2] if found else None


@dataclass
class Case:
    """A seed, without some of its steps."""

    seed: int
    steps: int
    dropped: set[int] = field(default_factory=set)

    def drop_list(self) -> str:
        runs: list[list[int]] = []
        for step in sorted(self.dropped):
            if runs and runs[-1][1] == step - 1:
                runs[-1][1] = step
            else:
                runs.append([step, step])
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)

    def arguments(self) -> list[str]:
        drop = ["--drop", self.drop_list()] if self.dropped else []
        return ["--seeds", str(self.seed), "--steps", str(self.steps), *drop]


def build(mutants: bool, quiet: bool) -> Path:
    directory = Path(os.environ.get("IRAID_SIMULATE_DIR", ROOT)) / ("build-mutants" if mutants else "build-simulate")
    configure = [
        "cmake",
        "-G",
        "Ninja",
        "-S",
        str(ROOT),
        "-B",
        str(directory),
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DIRAID_TCMU=OFF",
        "-DIRAID_NBDKIT=OFF",
        f"-DIRAID_MUTANTS={'ON' if mutants else 'OFF'}",
    ]
    if not quiet:
        print(f"simulate: builds {directory.name}", file=sys.stderr, flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # until this process ends or is done building
    targets = ["simulate", *(["engine_tests"] if mutants else [])]
    for command in (configure, ["cmake", "--build", str(directory), "--target", *targets]):
        result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if result.returncode != 0:
            print(result.stdout[-4000:], file=sys.stderr)
            sys.exit(f"simulate: `{' '.join(command)}` failed")
    lock.close()
    return directory / "tests" / "simulate"


# --- a failing seed, made small ---


def shrink(program: Program, case: Case) -> Case:
    """Leave out as much as can be while it still fails: the tail first, then ever smaller runs of steps."""
    deadline = time.monotonic() + SHRINK_SECONDS
    message = program.fails(case)
    at = re.match(r"step (\d+),", message or "")
    if at and int(at[1]) < case.steps:
        shorter = Case(case.seed, int(at[1]) + 1)
        if program.fails(shorter):
            case = shorter
    width = case.steps // 2
    while width >= 1:
        changed = False
        for first in range(0, case.steps, width):
            run = set(range(first, min(first + width, case.steps))) - case.dropped
            if not run or time.monotonic() > deadline:
                continue
            smaller = Case(case.seed, case.steps, case.dropped | run)
            if program.fails(smaller):
                case, changed = smaller, True
        if time.monotonic() > deadline:
            break
        width = width if changed and width == 1 else width // 2
    return case


def show(program: Program, seed: int, steps: int) -> None:
    case = shrink(program, Case(seed, steps))
    left = case.steps - len(case.dropped)
    print(f"\nseed {seed}, made small: {left} of {steps} steps")
    print(f"fails with: {program.fails(case)}")
    with tempfile.TemporaryFile("w+") as trace:
        subprocess.run(
            program.command(*case.arguments(), "--quiet", "--trace", "--limit", "10"),
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=trace,
        )
        trace.seek(0)
        lines = trace.read().splitlines()
    cut = len(lines) - TRACE_LINES
    if cut > 0:
        print(f"  ... {cut} lines, then")
    for line in lines[-TRACE_LINES:]:
        print("  " + line)
    options = "".join(f" {option}" for option in program.options())
    print(f"again:    scripts/simulate {' '.join(case.arguments())}{options} --verbose")
    if case.dropped:
        print(f"in full:  scripts/simulate --seeds {seed} --steps {steps}{options} --verbose")


# --- what is asked for ---


def run_seeds(program: Program, arguments: argparse.Namespace) -> int:
    command = program.command(
        "--seeds", arguments.seeds, "--steps", str(arguments.steps), "--jobs", str(arguments.jobs)
    )
    if arguments.drop:
        command += ["--drop", arguments.drop]
    if arguments.verbose:
        command += ["--trace"] * arguments.verbose
    if arguments.quiet:
        command += ["--quiet"]
    if arguments.first:
        command += ["--first"]
    if arguments.coverage:
        command += ["--coverage"]
    if arguments.wanted:
        command += ["--wanted"]
    failed: list[int] = []
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := FAILED.match(line.rstrip("\n")):
                failed.append(int(found[1]))
    commit = (
        subprocess.run(
            ["git", "-C", str(ROOT), "log", "-1", "--format=%h"], text=True, capture_output=True, check=False
        ).stdout.strip()
        or "unknown"
    )
    print(
        f"{time.strftime('%Y-%m-%d %H:%M:%S')}, commit {commit}, seeds {arguments.seeds}, "
        f"{arguments.steps} steps each{', mutant ' + program.mutant if program.mutant else ''}"
    )
    if failed and not arguments.verbose and not arguments.drop and arguments.shrink:
        show(program, min(failed), arguments.steps)
    return process.returncode


@dataclass
class Mutant:
    """A known mistake, and who has to catch it: volumes of one level, or a unit test."""

    name: str
    rule: str
    level: str | None
    unit_test: tuple[str, str] | None  # program, test

    @classmethod
    def listed(cls, line: str) -> Mutant:
        found = re.fullmatch(r"(\S+) +rule (\d+) +(?:level (\d+)|(\w+): (\w+)); .*", line)
        if not found:
            sys.exit(f'simulate: handler/pure/mutant.h: who catches \'{line}\'?  Say "level L" or "PROGRAM: TEST"')
        return cls(found[1], found[2], found[3], (found[4], found[5]) if found[4] else None)


def mutants(path: Path) -> list[Mutant]:
    listed = subprocess.run([str(path), "--list-mutants"], text=True, capture_output=True, check=True).stdout
    return [Mutant.listed(line) for line in listed.splitlines()]


def caught_by_seed(path: Path, mutant: Mutant, arguments: argparse.Namespace) -> str | None:
    """The first seed that fails, and how."""
    program = Program(path, mutant.name, mutant.level)
    result = subprocess.run(
        program.command(
            "--seeds", f"1..{arguments.within}", "--first", "--quiet", "--limit", "60", "--jobs", str(arguments.jobs)
        ),
        text=True,
        capture_output=True,
        check=False,
    )
    found = FAILED.search(result.stdout)
    return f"seed {found[1]:>4}: {found[2][:90]}" if found else None


def unit_test_fails(path: Path, program: str, test: str, mutant: str) -> bool:
    """Does the test, run alone, begin and not end well?"""
    output = subprocess.run(
        [str(path.parent / "unit" / program)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=120,
        env=os.environ | {"IRAID_MUTANT": mutant, "IRAID_TEST": test},
    ).stdout
    if f"[ RUN      ] {test}" not in output:
        sys.exit(f"simulate: {program} has no test {test}")
    return f"[       OK ] {test}" not in output


def caught_by_unit_test(path: Path, mutant: Mutant) -> str | None:
    assert mutant.unit_test is not None
    program, test = mutant.unit_test
    if unit_test_fails(path, program, test, ""):
        sys.exit(f"simulate: {program}: {test} fails without any mistake")
    return f"{program}: {test}" if unit_test_fails(path, program, test, mutant.name) else None


def run_mutants(path: Path, arguments: argparse.Namespace) -> int:
    missed = []
    chosen = mutants(path)
    for mutant in chosen:
        begin = time.monotonic()
        caught = caught_by_seed(path, mutant, arguments) if mutant.level else caught_by_unit_test(path, mutant)
        if caught is None:
            missed.append(mutant.name)
        took = time.monotonic() - begin
        seeds = re.match(r"seed +(\d+):", caught or f"seed {arguments.within}:") if mutant.level else None
        rate = f"{int(seeds[1]) * 60 / took:6.0f} seeds a minute" if seeds else ""
        print(f"{mutant.name:<28} rule {mutant.rule:<2} {took:5.1f} s {rate:<21}  {caught or 'MISSED'}", flush=True)
    if missed:
        print(f"not caught within {arguments.within} seeds, or by their unit test: {', '.join(missed)}")
        return 1
    print(f"all {len(chosen)} mutants are caught within {arguments.within} seeds, or by a unit test")
    return 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", metavar="A..B", help="seeds to run: one number, or a range")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"steps of each run ({STEPS})")
    parser.add_argument("--level", choices=["0", "1", "5", "6", "10"], help="volumes of this level only")
    parser.add_argument("--drop", metavar="LIST", help="leave out these steps: 3,7-12")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="worker processes")
    parser.add_argument(
        "--mutant",
        metavar="NAME",
        help="run with this known mistake in the engine (default of --seeds: 1 to the number of --within)",
    )
    parser.add_argument("--mutants", action="store_true", help="run all known mistakes: each must be caught")
    parser.add_argument(
        "--within",
        type=int,
        default=SEEDS_PER_MUTANT,
        metavar="N",
        help=f"seeds within which a mutant must be caught ({SEEDS_PER_MUTANT})",
    )
    parser.add_argument("--list-mutants", action="store_true")
    parser.add_argument(
        "--with",
        dest="having",
        action="append",
        default=[],
        metavar="NAME",
        help="give this ability to all lives; it may be off or rare otherwise",
    )
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="run no life with this ability")
    parser.add_argument("--list-abilities", action="store_true")
    parser.add_argument("--coverage", action="store_true", help="show which states of the engine met which faults")
    parser.add_argument(
        "--wanted",
        action="store_true",
        help="show what steered lives look for (tests/simulation/sim_wanted.h), after these lives",
    )
    parser.add_argument("--first", action="store_true", help="stop at the first seed that fails")
    parser.add_argument(
        "--verbose", action="count", default=0, help="print the trace; twice: also the commands of members"
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress and no sums")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="don't make a failing seed small")
    arguments = parser.parse_args(words)
    if arguments.mutant and not arguments.seeds:
        arguments.seeds = f"1..{arguments.within}"
    if not (arguments.seeds or arguments.mutants or arguments.list_mutants or arguments.list_abilities):
        parser.error("say which --seeds, or --mutants")
    if arguments.verbose and not re.fullmatch(r"\d+", arguments.seeds or ""):
        parser.error("--verbose is for one seed")
    return arguments


def main(words: list[str]) -> int:
    arguments = parse(words)
    with_mutants = bool(arguments.mutant or arguments.mutants or arguments.list_mutants)
    path = build(with_mutants, arguments.quiet)
    if arguments.list_mutants:
        return subprocess.run([str(path), "--list-mutants"], check=False).returncode
    if arguments.list_abilities:
        return subprocess.run([str(path), "--list-abilities"], check=False).returncode
    if arguments.mutants:
        return run_mutants(path, arguments)
    abilities = tuple(
        word
        for option in ("with", "without")
        for name in getattr(arguments, {"with": "having"}.get(option, option))
        for word in (f"--{option}", name)
    )
    return run_seeds(Program(path, arguments.mutant, arguments.level, abilities), arguments)
