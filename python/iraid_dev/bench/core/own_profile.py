"""A profile of scripts/bench that has options of its own: what all of these take, a run, a report of runs that were kept."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import report, row
from . import run as runs
from .cells import ValueFault
from .plan import duration_text
from .row import Row, RowError


@dataclass(frozen=True)
class OwnProfile:
    name: str  # also of the report: NAME.md
    measured_by: tuple[str, ...]  # options that say what is measured
    experiments: tuple[str, ...]  # of its rows' conditions
    tables: Callable[[list[Row]], str]  # for the terminal
    markdown: Callable[[list[dict[str, Any]], list[Row]], str]  # of heads of runs, and rows

    def parser(self, description: str, epilog: str) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"scripts/bench --profile {self.name}",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            description=description,
            epilog=epilog,
        )
        parser.add_argument("--profile", choices=(self.name,))
        return parser

    def add_options(self, parser: argparse.ArgumentParser, seconds: float, rounds: int) -> None:
        """Those that all have, after its own; seconds, rounds: the defaults."""
        add = parser.add_argument
        add("--seconds", type=float, metavar="N", help=f"seconds for each cell in each round (default: {seconds:g})")
        add("--rounds", type=int, metavar="N", help=f"number of measurements of each cell (default: {rounds})")
        add(
            "--json",
            type=Path,
            metavar="FILE",
            help="write the figures to FILE, also those of a run that was interrupted",
        )
        add("--out", type=Path, metavar="DIR", help=f"write tables to DIR/{self.name}.md; the folder is made")
        add(
            "--report",
            type=Path,
            nargs="+",
            metavar="FILE",
            help="measure nothing; make the tables in --out from files that --json wrote",
        )
        add("--keep", action="store_true", help="keep the lab's logs and state even after a good run")
        add("--no-deps", action="store_true", help="do not install packages")
        add("--no-build", action="store_true", help="do not build")

    def typed(self, given: argparse.Namespace) -> dict[str, Any]:
        """What is to be measured, by option; None where nothing was typed.  Raises ValueFault of files that can't be."""
        typed = {name: getattr(given, name) for name in self.measured_by}
        if given.report:
            if not given.out:
                raise ValueFault("--report needs --out DIR, where the tables go")
            for name in (*self.measured_by, "json"):
                if getattr(given, name) is not None:
                    raise ValueFault(f"--report measures nothing: leave --{name.replace('_', '-')} out")
        runs.check_files(given)
        return typed

    def write(self, folder: Path, heads: list[dict[str, Any]], rows: list[Row]) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.name}.md"
        path.write_text(self.markdown(heads, rows))
        print(f"bench: {path}")

    def only_report(self, given: argparse.Namespace) -> int:
        """Exit status."""
        try:
            files = [row.read(path) for path in given.report]
        except RowError as error:
            print(f"scripts/bench: --report {error}", file=sys.stderr)
            return 1
        rows = [
            one
            for one in report.pooled([rows for _, rows in files])
            if one.conditions.get("experiment") in self.experiments
        ]
        if not rows:
            print(
                f"scripts/bench: --report {' '.join(map(str, given.report))}: no figures of --profile {self.name} in "
                "there",
                file=sys.stderr,
            )
            return 1
        self.write(given.out, [head for head, _ in files], rows)
        return 0


class OwnRun(runs.Run):
    def __init__(self, profile: OwnProfile, given: argparse.Namespace, words: list[str]):
        super().__init__(given, words, runs.begin())
        self.profile = profile

    def measure(self, module: str, kernel: str, disk_bytes: int, seconds: float, plan: str) -> None:
        """By a module in the lab, which gets the plan, JSON.  seconds: the estimate."""
        self.head |= {"profile": self.profile.name, "plan": json.loads(plan)}
        self.progress.line(f"about {duration_text(seconds)} to measure, on a quiet machine")
        self.prepare()
        seconds_max = runs.LAB_SECONDS_SPARE + runs.LAB_TIMES * seconds
        self.in_lab(module, kernel, runs.memory_mib(disk_bytes), seconds_max, {"plan.json": plan})

    def summary(self) -> str:
        return self.profile.tables(self.rows)

    def write_report(self) -> None:
        self.profile.write(self.given.out, [self.head], self.rows)
