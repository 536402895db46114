"""Tables of what the log profile measured: a section for each distance, a line for each cell, a column for each system."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from iraid_dev.bench.core import report
from iraid_dev.bench.core.cells import Cell
from iraid_dev.bench.core.report import markdown_table, throughput_table
from iraid_dev.bench.core.row import Row

from .plan import CELLS, OUT, SHAPE, SYSTEMS

PAIRS = (
    ("iraid-degraded", "md"),
    ("iraid-degraded", "md-ppl"),
    ("iraid-always", "md-ppl"),
    ("iraid-always", "md-journal"),
    ("iraid-always", "iraid-off"),
    ("iraid-degraded-out", "iraid-off-out"),
    ("iraid-degraded-out", "md-journal-out"),
    ("iraid-always-out", "md-journal-out"),
)


class LogSection(report.Section):
    """Cells differ in more than pattern and size, so rows name theirs."""

    @property
    def title(self) -> str:
        seen = statistics.median(row.conditions["measured"]["rtt_ms"] for row in self.rows)
        return f"{self.kernel}, RTT {self.conditions['rtt_ms']:g} ms ({seen:g} ms seen)"

    @cached_property
    def systems(self) -> list[str]:
        found = {row.system for row in self.rows}
        return [name for name in SYSTEMS if name in found]

    @cached_property
    def cells(self) -> list[Cell]:
        found = {row.conditions["cell"] for row in self.rows}
        return [cell for cell in CELLS if cell.name in found]

    def values(self, system: str, cell: Cell, figure: str) -> dict[int, float]:
        """figure: of a row, or of what else was measured."""
        return {
            row.round: value
            for row in self.rows
            if row.system == system
            and row.conditions["cell"] == str(cell)
            and (value := row.conditions["measured"].get(figure, getattr(row, figure, None))) is not None
        }

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [pair for pair in PAIRS if set(pair) <= set(self.systems)]


def sections(rows: Sequence[Row]) -> list[LogSection]:
    keys = sorted({(row.kernel, row.conditions["rtt_ms"]) for row in rows})
    return [
        LogSection(
            kernel,
            SHAPE.level,
            SHAPE.members,
            0,
            {"rtt_ms": rtt_ms},
            [row for row in rows if (row.kernel, row.conditions["rtt_ms"]) == (kernel, rtt_ms)],
        )
        for kernel, rtt_ms in keys
    ]


def tables(rows: Sequence[Row]) -> str:
    """For the terminal."""
    return report.summary(sections(rows))


def _tables_of(section: LogSection) -> list[str]:
    return [
        report.ratio_table(section),
        throughput_table(section),
        throughput_table(section, "iops", "IOPS"),
        throughput_table(section, "p50_ms", "p50, ms"),
        throughput_table(section, "p99_ms", "p99, ms"),
        throughput_table(section, "left_mib", "MiB sent after the load"),
        report.processor_table(section),
    ]


def markdown(heads: Sequence[dict[str, Any]], rows: Sequence[Row]) -> str:
    found = sections(rows)
    there = {name for section in found for name in section.systems}
    parts = [
        "# What the write log costs",
        "\n".join("- " + "\n  ".join(report.head_lines(head)) for head in heads),
        f"Level {SHAPE.level} on {SHAPE.members} targets; where a member is out, it is number {OUT}. Medians over rounds, in "
        "brackets the least and the greatest. A ratio above 1 means that the first is faster. Where each write is flushed, "
        "its latency is the write's and the flush's, percentiles added up. The next cell waits for what a system still "
        "sends to its targets after the load; what md keeps in its journal until room gets scarce isn't in that.",
        markdown_table(["system", "what it is"], [[name, text] for name, text in SYSTEMS.items() if name in there]),
        markdown_table(["cell", "writes"], [[cell.name, cell.about] for cell in CELLS]),
    ]
    for section in found:
        parts += [f"## {section.title}", *(table for table in _tables_of(section) if table)]
    return "\n\n".join(parts) + "\n"
