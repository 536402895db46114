"""The closing tables: plain text for steps, Markdown for figures (the README has them)."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

from .progress import Report

WIDTH_MIN = 80
FAILURE_LINES = 8


def steps_table(report: Report) -> str:
    width = max(WIDTH_MIN, min(shutil.get_terminal_size((100, 24)).columns, 120))
    name_width = max(len(step.name) for step in report.steps)
    lines = [f"{'step':<{name_width}}  {'result':<6}  {'time':>8}", "-" * width]
    for step in report.steps:
        result = "ok" if step.ok else "FAILED"
        lines.append(f"{step.name:<{name_width}}  {result:<6}  {step.seconds:6.1f} s")
        for text in step.detail.splitlines()[: 1 if step.ok else FAILURE_LINES]:
            lines += textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ")[:4]
    return "\n".join(lines)


def figures_table(rows: list[dict[str, Any]]) -> str:
    """One line per pattern and block size, write / read: what the first label reached, and the others as times that."""
    first, *others = [key for key in rows[0] if key not in ("pattern", "block", "way")]
    cells = {(row["pattern"], row["block"], row["way"]): row for row in rows}
    head = ["write / read", first, *others]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for pattern, block in dict.fromkeys((row["pattern"], row["block"]) for row in rows):
        both = [cells.get((pattern, block, way), {}) for way in ("write", "read")]
        plain = " / ".join(_number(one.get(first)) for one in both) + " MB/s"
        times = [" / ".join(_times(one.get(label), one.get(first)) for one in both) for label in others]
        lines.append(f"| {pattern} {block} | {plain} | " + " | ".join(times) + " |")
    return "\n".join(lines)


def _times(value: float | None, of: float | None) -> str:
    return "-" if value is None or not of else f"{value / of:.1f} x"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
