"""What soak runs found out: one JSON file per run, or one that goes on over several (--resume).

{"runs": [{"date", "commit", "seed", "where", "level", "log", "seconds", "verified_bytes", "written_bytes",
           "faults": {"member killed": {"times", "longest_seconds"}}, "errors": [...], "ended": true,
           "hostile", "memory": [bytes after each fault], "notes": [...]}]}
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path


class ReportError(Exception):
    """A file that is no report."""


@dataclass
class Row:
    times: int = 0
    longest_seconds: float = 0.0


@dataclass
class Run:
    date: str
    commit: str
    seed: int
    where: str  # "lab" or "native"
    seconds: float = 0.0
    verified_bytes: int = 0
    written_bytes: int = 0
    faults: dict[str, Row] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    ended: bool = False  # by itself, not by a crash of the soak
    level: int = 5
    log: str = "degraded"
    hostile: bool = False
    memory: list[int] = field(default_factory=list)  # the runner's resident bytes, after each fault
    notes: list[str] = field(default_factory=list)  # for the table

    @property
    def good(self) -> bool:
        return self.ended and not self.errors

    def survived(self, fault: str, longest_seconds: float) -> None:
        row = self.faults.setdefault(fault, Row())
        row.times += 1
        row.longest_seconds = max(row.longest_seconds, longest_seconds)

    @classmethod
    def from_json(cls, value: dict) -> Run:
        faults = {name: Row(**row) for name, row in value.pop("faults").items()}
        return cls(**value, faults=faults)


def read(path: Path) -> list[Run]:
    try:
        return [Run.from_json(run) for run in json.loads(path.read_text())["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path} is no report of scripts/soak ({error}); name another file") from None


def write(path: Path, runs: list[Run]) -> None:
    """Whole or not at all: the run may be killed at any time."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps({"runs": [asdict(run) for run in runs]}, indent=1) + "\n")
    os.replace(new, path)


def memory_notes(memory: list[int]) -> list[str]:
    """Means of quarters: the first has what a process takes once."""
    if len(memory) < 4:
        return []
    quarter = len(memory) // 4
    means = [sum(memory[n * quarter : (n + 1) * quarter]) / quarter / (1 << 20) for n in range(4)]
    return ["the runner's memory, MiB, quarter by quarter: " + ", ".join(f"{mean:.1f}" for mean in means)]


def table(runs: list[Run]) -> str:
    """Over all runs."""
    faults: dict[str, Row] = {}
    for run in runs:
        for name, row in run.faults.items():
            total = faults.setdefault(name, Row())
            total.times += row.times
            total.longest_seconds = max(total.longest_seconds, row.longest_seconds)
    lines = [f"{'fault':34} {'survived':>8} {'longest stall':>14}"]
    lines += [f"{name:34} {row.times:8} {row.longest_seconds:12.2f} s" for name, row in sorted(faults.items())]
    longest = max((row.longest_seconds for row in faults.values()), default=0.0)
    lines.append(f"{'all':34} {sum(row.times for row in faults.values()):8} {longest:12.2f} s")
    errors = [error for run in runs for error in run.errors]
    lines.append("")
    for run in runs:
        state = "clean" if run.good else "NOT CLEAN" if run.errors else "cut short"
        lines.append(
            f"{run.date}  commit {run.commit}  seed {run.seed}  {run.where}  "
            f"level {run.level}  log {run.log}  {run.seconds / 60:.1f} min  {state}"
        )
        lines += [f"  {note}" for note in (*run.notes, *memory_notes(run.memory))]
    lines.append(
        f"together: {sum(run.seconds for run in runs) / 3600:.2f} hours, "
        f"{sum(run.written_bytes for run in runs) / 1e9:.2f} GB written, "
        f"{sum(run.verified_bytes for run in runs) / 1e9:.2f} GB verified, {len(errors)} errors"
    )
    lines += [f"error: {error}" for error in errors]
    return "\n".join(lines)
