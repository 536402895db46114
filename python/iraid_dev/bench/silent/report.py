"""Tables of what the silent profile measured: a line for each system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iraid_dev.bench.core import report
from iraid_dev.bench.core.report import markdown_table, number_text, spread
from iraid_dev.bench.core.row import Row

from .plan import DEPTH, IOPS, JOBS, SHAPE, SYSTEMS

NUMBERS = {"longest_s": number_text, "errors": "{:g}".format}  # what was measured, and how it is written


def table(rows: Sequence[Row], kernel: str, seconds: float) -> str:
    there = [row for row in rows if (row.kernel, row.conditions["seconds"]) == (kernel, seconds)]

    def text(system: str, pattern: str, name: str) -> str:
        found = spread(
            row.conditions["measured"][name] for row in there if (row.system, row.pattern) == (system, pattern)
        )
        return found.text(NUMBERS[name]) if found else report.NO_FIGURE

    names = [(cell.pattern, name) for name in NUMBERS for cell in JOBS]
    head = ["longest read, s", "longest write, s", "reads that failed", "writes that failed"]
    return markdown_table(
        [f"{kernel}, silent for {seconds:g} s", *head],
        [
            [system] + [text(system, *name) for name in names]
            for system in SYSTEMS
            if any(row.system == system for row in there)
        ],
    )


def tables(rows: Sequence[Row]) -> str:
    """For the terminal."""
    keys = sorted({(row.kernel, row.conditions["seconds"]) for row in rows})
    return "\n\n".join(table(rows, *key) for key in keys)


def markdown(heads: Sequence[dict[str, Any]], rows: Sequence[Row]) -> str:
    there = {row.system for row in rows}
    return (
        "\n\n".join(
            [
                "# A target that falls silent",
                "\n".join("- " + "\n  ".join(report.head_lines(head)) for head in heads),
                f"Level {SHAPE.level} on {SHAPE.members} targets; reads and writes of 4 KiB at random at the same time, {IOPS} "
                f"a second of each at most, {DEPTH} in flight. Medians over rounds, in brackets the least and the greatest. A "
                "command is the initiator's, which waits for the disk as long as its kernel does.",
                markdown_table(
                    ["system", "what it is"], [[name, text] for name, text in SYSTEMS.items() if name in there]
                ),
                tables(rows),
            ]
        )
        + "\n"
    )
