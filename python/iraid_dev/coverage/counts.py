"""How often each line of C ran, as gcov tells it, and what is made of that: rooms and ranges.

An object writes its counts beside itself (.gcda) when its process ends in order. A source that stands in several
objects, a header's function for one, has counts in each: a line is covered if it ran in any of them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# What decides what becomes of data after a fault. Adapters carry it out.
RECOVERY = ("handler/engine/", "handler/state/", "handler/pure/")


@dataclass
class Source:
    """path is relative to the tree; runs has the lines that hold code, by number from 1."""

    path: str
    runs: dict[int, int] = field(default_factory=dict)

    def missed(self) -> list[int]:
        return sorted(line for line, runs in self.runs.items() if runs == 0)

    def ranges(self) -> list[tuple[int, int]]:
        """First and last of each run of missed lines; lines without code do not part them."""
        found: list[tuple[int, int]] = []
        previous_missed = False
        for line in sorted(self.runs):
            missed = self.runs[line] == 0
            if missed and previous_missed:
                found[-1] = (found[-1][0], line)
            elif missed:
                found.append((line, line))
            previous_missed = missed
        return found


@dataclass
class Sum:
    """Of a room or of several; lines are lines with code."""

    name: str
    lines: int = 0
    covered: int = 0

    def add(self, source: Source) -> None:
        self.lines += len(source.runs)
        self.covered += len(source.runs) - len(source.missed())

    def percent(self) -> float:
        return 100.0 * self.covered / self.lines if self.lines else 0.0


def room(path: str) -> str:
    """The folder that holds a source: handler/engine/io, handler/pure."""
    return str(PurePosixPath(path).parent)


def is_recovery(path: str) -> bool:
    return path.startswith(RECOVERY)


def sums(sources: Iterable[Source]) -> list[Sum]:
    """By name of the room."""
    rooms: dict[str, Sum] = {}
    for source in sources:
        rooms.setdefault(room(source.path), Sum(room(source.path))).add(source)
    return [rooms[name] for name in sorted(rooms)]


def merge(reports: Iterable[dict], root: Path, build: Path) -> list[Source]:
    """Of gcov's reports those sources that lie in root/handler, by path. Objects are compiled in build: gcov tells
    paths as the compiler got them."""
    sources: dict[str, Source] = {}
    for report in reports:
        for told in report["files"]:
            path = (build / told["file"]).resolve()
            if not path.is_relative_to(root / "handler"):
                continue
            name = str(path.relative_to(root))
            runs = sources.setdefault(name, Source(name)).runs
            for line in told["lines"]:
                number = int(line["line_number"])
                runs[number] = max(runs.get(number, 0), int(line["count"]))
    return [sources[name] for name in sorted(sources)]


def reports(build: Path) -> Iterator[dict]:
    """What gcov says of all objects of handler/ in a build tree, the simulator's own included, which can be refused
    memory; those that never ran have .gcno alone.  subprocess.CalledProcessError: gcov refuses one of them."""
    for notes in sorted(path for path in build.rglob("*.gcno") if "handler" in path.relative_to(build).parts):
        words = ["gcov", "--json-format", "--stdout", str(notes)]
        done = subprocess.run(words, cwd=build, check=True, text=True, capture_output=True)
        yield from (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def any_ran(objects: Path) -> bool:
    """A line of any object below that folder: processes that end by _exit() leave counts of zero, or none."""
    return any(
        line["count"] > 0 for report in reports(objects) for source in report["files"] for line in source["lines"]
    )


def forget(build: Path) -> None:
    """Counts of earlier runs."""
    for counts in build.rglob("*.gcda"):
        counts.unlink()
