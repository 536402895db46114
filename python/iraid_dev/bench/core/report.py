"""From rows to tables.

Rows of one kernel, level, number of members and set of conditions are a section; systems without a level stand in every
section of their kernel.  Each figure is the median over rounds; in brackets are the least and the greatest.  A ratio is
that of the medians; in brackets the least and the greatest of what single rounds give, in which both systems were
measured one after the other.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .cells import Cell
from .row import PATTERNS, SYSTEMS, Row

BESIDE_IRAID = ("md", "md-nobitmap", "md-ppl", "md-journal", "lvm", "plain", "ceiling")
PAIRS = (*(("iraid", name) for name in BESIDE_IRAID), ("engine", "raw"), ("engine", "spdk"))
NO_FIGURE = "-"


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float
    count: int

    def text(self, number: Callable[[float], str]) -> str:
        if self.count == 1:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}-{number(self.high)})"


def spread(values: Iterable[float]) -> Spread | None:
    """None of no values."""
    values = list(values)
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of no values, and where one is not above 0 (no logarithm)."""
    values = list(values)
    if not values or min(values) <= 0:
        return None
    return math.exp(statistics.fmean(math.log(value) for value in values))


def number_text(value: float) -> str:
    """Three digits that tell something."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(max(digits, 0), 3)}f}"


def ratio_text(value: float) -> str:
    return f"{value:.2f}"


def pooled(files: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows of several runs, with the rounds counted on from one to the next."""
    rows: list[Row] = []
    for file in files:
        begin = 1 + max((row.round for row in rows), default=-1)
        rows += [replace(row, round=begin + row.round) for row in file]
    return rows


@dataclass(frozen=True)
class Section:
    kernel: str
    level: int | None
    members: int
    depth: int
    conditions: dict[str, Any]
    rows: list[Row] = field(repr=False)

    @property
    def title(self) -> str:
        words = ["no kernel" if self.kernel == "none" else self.kernel]
        if self.level is not None:
            words.append(f"level {self.level} on {self.members} members")
        words.append(f"depth {self.depth}")
        words += [f"{name} {value}" for name, value in self.conditions.items()]
        return ", ".join(words)

    @property
    def slug(self) -> str:
        """For names of files."""
        words = [self.kernel] + ([f"level{self.level}", f"members{self.members}"] if self.level is not None else [])
        words += [f"depth{self.depth}"] if self.depth != Row.depth else []
        words += [f"{name}-{value}" for name, value in self.conditions.items()]
        return "-".join(
            "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in word) for word in words
        )

    @cached_property
    def systems(self) -> list[str]:
        found = {row.system for row in self.rows}
        return [name for name in SYSTEMS if name in found] + sorted(found - set(SYSTEMS))

    @cached_property
    def cells(self) -> list[Cell]:
        return sorted(
            {Cell(row.pattern, row.block_bytes) for row in self.rows},
            key=lambda cell: (PATTERNS.index(cell.pattern), cell.block_bytes),
        )

    def values(self, system: str, cell: Cell, figure: str) -> dict[int, float]:
        """By round; without those that have none."""
        return {
            row.round: value
            for row in self.rows
            if row.system == system
            and row.pattern == cell.pattern
            and row.block_bytes == cell.block_bytes
            and (value := getattr(row, figure)) is not None
        }

    def figure(self, system: str, cell: Cell, figure: str) -> Spread | None:
        return spread(self.values(system, cell, figure).values())

    def has(self, figure: str) -> bool:
        return any(getattr(row, figure) is not None for row in self.rows)

    def ratio(self, over: str, under: str, cell: Cell, figure: str = "mb_per_s") -> Spread | None:
        """Of `over` to `under`; None if one of them was not measured, or has 0."""
        above, below = self.values(over, cell, figure), self.values(under, cell, figure)
        if not above or not below or min(below.values()) <= 0:
            return None
        single = [above[number] / below[number] for number in above if number in below]
        middle = statistics.median(above.values()) / statistics.median(below.values())
        return Spread(middle, min(single, default=middle), max(single, default=middle), max(len(single), 1))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [pair for pair in PAIRS if set(pair) <= set(self.systems)]


def sections(rows: Iterable[Row]) -> list[Section]:
    levelled: dict[tuple, list[Row]] = {}
    without: dict[tuple, list[Row]] = {}
    for row in rows:
        place = (row.kernel, row.depth, json.dumps(row.conditions, sort_keys=True))
        if row.level is None:
            without.setdefault(place, []).append(row)
        else:
            levelled.setdefault((*place, row.level, row.members), []).append(row)
    found = []
    for (*shared, level, members), those in levelled.items():
        found.append(_section(shared, level, members, those + without.get(tuple(shared), [])))
    taken = {tuple(shared) for *shared, _, _ in levelled}
    found += [_section(place, None, 1, those) for place, those in without.items() if place not in taken]
    return sorted(
        found,
        key=lambda one: (
            one.kernel == "none",
            one.kernel,
            -1 if one.level is None else one.level,
            one.members,
            one.depth,
        ),
    )


def _section(place: Sequence, level: int | None, members: int, rows: list[Row]) -> Section:
    kernel, depth, conditions = place
    return Section(kernel, level, members, depth, json.loads(conditions), rows)


# --- Markdown ---


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(rows + ["| " + " | ".join(line) + " |" for line in lines])


def throughput_table(section: Section, figure: str = "mb_per_s", head: str = "MB/s") -> str:
    return markdown_table(
        [head, *section.systems],
        [
            [str(cell)] + [_text(section.figure(system, cell, figure)) for system in section.systems]
            for cell in section.cells
        ],
    )


def ratio_table(section: Section) -> str:
    """Empty where there is nothing to compare."""
    if not section.pairs:
        return ""
    lines, means = [], ["geometric mean"]
    columns = [[section.ratio(*pair, cell) for cell in section.cells] for pair in section.pairs]
    for number, cell in enumerate(section.cells):
        lines.append([str(cell)] + [_text(column[number], ratio_text) for column in columns])
    for column in columns:
        there = [one.median for one in column if one]
        mean = geometric_mean(there)
        text = NO_FIGURE if mean is None else f"**{ratio_text(mean)}**"
        means.append(text if len(there) == len(column) else f"{text} ({len(there)} of {len(column)} cells)")
    return markdown_table(["throughput", *(f"{over} : {under}" for over, under in section.pairs)], [*lines, means])


def latency_table(section: Section) -> str:
    figures = ["p50_ms", "p99_ms", *(["p999_ms"] if section.has("p999_ms") else [])]
    head = "ms, " + " / ".join(name.removesuffix("_ms").replace("p999", "p99.9") for name in figures)
    return markdown_table(
        [head, *section.systems],
        [
            [str(cell)] + [_medians(section, system, cell, figures, " / ") for system in section.systems]
            for cell in section.cells
        ],
    )


def processor_table(section: Section) -> str:
    """Empty where nobody counted."""
    if not section.has("cpu_s_per_gib"):
        return ""
    split = section.has("cpu_user_s_per_gib")
    of_process = [
        system
        for system in section.systems
        if any(row.system == system and row.process_cpu_s_per_gib is not None for row in section.rows)
    ]
    lines = []
    for cell in section.cells:
        line = [str(cell)]
        for system in section.systems:
            total = section.figure(system, cell, "cpu_s_per_gib")
            user = section.figure(system, cell, "cpu_user_s_per_gib")
            text = NO_FIGURE if total is None else number_text(total.median)
            line.append(text if user is None else f"{text} ({number_text(user.median)})")
        line += [_medians(section, system, cell, ["process_cpu_s_per_gib"], "") for system in of_process]
        lines.append(line)
    return markdown_table(
        [
            "CPU s/GiB" + (" (of it user mode)" if split else ""),
            *section.systems,
            *(f"{system}: the runner alone" for system in of_process),
        ],
        lines,
    )


def _medians(section: Section, system: str, cell: Cell, figures: Sequence[str], between: str) -> str:
    found = [section.figure(system, cell, figure) for figure in figures]
    if not any(found):
        return NO_FIGURE
    return between.join(number_text(one.median) if one else NO_FIGURE for one in found)


def _text(found: Spread | None, number: Callable[[float], str] = number_text) -> str:
    return found.text(number) if found else NO_FIGURE


def head_lines(head: dict[str, Any]) -> Iterator[str]:
    """Where a run's figures come from."""
    machine = head.get("machine") or {}
    if isinstance(machine, dict):
        machine = ", ".join(
            f"{value} {name}" if name == "processors" else str(value) for name, value in machine.items()
        )
    yield (
        f"`{head.get('command', 'unknown command')}`, {head.get('date', 'no date')}, commit "
        f"{head.get('commit') or 'unknown'}; {machine or 'unknown machine'}"
    )
    if built := head.get("spdk"):
        yield str(built)
    if lab := head.get("lab"):
        yield ", ".join(f"{name} {value}" for name, value in lab.items())
    if not head.get("ok", True):
        yield "This run was cut short: what is missing below was not measured."


def markdown(heads: Sequence[dict[str, Any]], found: Sequence[Section], pictures: dict[str, list[str]]) -> str:
    """pictures: names of files by section's slug."""
    parts = ["# Figures of scripts/bench"]
    parts += ["\n".join(["- " + "\n  ".join(head_lines(head)) for head in heads])]
    if len({head.get("commit") for head in heads}) > 1:
        parts.append("The runs are of different commits; their rounds are pooled all the same.")
    parts.append(
        "Medians over rounds; in brackets the least and the greatest round. A ratio above 1 means that the first "
        "is faster. What is measured how: docs/design/benchmarks.md."
    )
    parts.append(
        markdown_table(
            ["system", "what it is"],
            [[name, text] for name, text in SYSTEMS.items() if any(name in section.systems for section in found)],
        )
    )
    for section in found:
        parts.append(f"## {section.title}")
        parts += [f"![{name}]({name})" for name in pictures.get(section.slug, [])]
        parts += [
            table
            for table in (
                ratio_table(section),
                throughput_table(section),
                throughput_table(section, "iops", "IOPS"),
                latency_table(section),
                processor_table(section),
            )
            if table
        ]
    return "\n\n".join(parts) + "\n"


def summary(found: Sequence[Section]) -> str:
    """For the terminal at the end of a run."""
    return "\n\n".join(
        f"{section.title}\n\n{throughput_table(section)}" + (f"\n\n{table}" if (table := ratio_table(section)) else "")
        for section in found
    )
