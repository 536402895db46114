"""What the runs of scripts/fuzz have tried: each leaves a line in build-fuzz/runs.jsonl, and the table sums them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RUNS = "runs.jsonl"
HEADINGS = ("target", "executions", "a second", "edges", "crashes", "hangs", "MiB", "commit", "date")


@dataclass(frozen=True)
class Run:
    name: str
    commit: str
    date: str
    executions: int
    seconds: float
    edges: int
    crashes: int
    hangs: int
    peak_mib: int

    def append_to(self, path: Path) -> None:
        """Begins a line of its own, also behind one that a killed run left half."""
        with path.open("a") as file:
            file.write("\n" + json.dumps(asdict(self)) + "\n")


def read_runs(path: Path) -> list[Run]:
    """What is no whole line is passed over."""
    runs = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            runs.append(Run(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return runs


def span(values: Sequence[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]}..{values[-1]}"


def row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    seconds = sum(run.seconds for run in runs)
    executions = sum(run.executions for run in runs)
    return (
        name, f"{executions}", f"{executions / seconds if seconds else 0:.0f}",
        f"{max(run.edges for run in runs)}", f"{sum(run.crashes for run in runs)}",
        f"{sum(run.hangs for run in runs)}", f"{max(run.peak_mib for run in runs)}",
        span([run.commit for run in runs]), span([run.date for run in runs]),
    )  # fmt: skip


def table(runs: Sequence[Run], names: Sequence[str]) -> str:
    """In Markdown; targets that never ran are named below it."""
    ran = sorted({run.name for run in runs})
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for name in ran:
        lines.append("| " + " | ".join(row(name, [run for run in runs if run.name == name])) + " |")
    hours = sum(run.seconds for run in runs) / 3600
    lines.append(
        f"\n{sum(run.executions for run in runs)} executions in {hours:.1f} hours of one processor, "
        f"{sum(run.crashes for run in runs)} crashes, {sum(run.hangs for run in runs)} hangs"
    )
    never = [name for name in names if name not in ran]
    if never:
        lines.append(f"never run: {', '.join(never)}")
    return "\n".join(lines)
