"""A figure: one cell (pattern, size of a command) of one system, in one round.

All benchmarks write their figures so, whatever kernel or system they come from; medians are taken when they are
reported (report.py), never before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

KERNELS = ("uml", "qemu", "host", "none")
SYSTEMS = {
    "iraid": "iraid: tcmu-runner, LIO",
    "md": "md over open-iscsi with its internal bitmap, re-exported by LIO",
    "md-nobitmap": "md over open-iscsi without a bitmap, re-exported by LIO",
    "plain": "one target of the same kind",
    "ceiling": "a handler that completes at once and touches no data",
    "engine": "the engine driven directly, no kernel in between",
    "raw": "plain libiscsi sessions to as many targets",
}
PATTERNS = ("write", "read", "randwrite", "randread")


@dataclass(frozen=True)
class Row:
    kernel: str  # one of KERNELS
    system: str  # one of SYSTEMS
    level: int | None  # None: the system has no level
    members: int
    pattern: str  # one of PATTERNS
    block_bytes: int
    mb_per_s: float  # 10^6 bytes
    iops: float
    p50_ms: float
    p99_ms: float
    cpu_s_per_gib: float | None  # of the gateway, kernel included; None: not told apart from the load's
    p999_ms: float | None = None
    round: int = 0
    depth: int = 16
    conditions: dict[str, Any] = field(default_factory=dict)  # what else was set: {"rtt_ms": 8, "link_mbit": 1000}


def write(path: Path, head: dict[str, Any], rows: Iterable[Row]) -> None:
    """head: "date", "commit", "command", "machine" and what else belongs to the run as a whole."""
    path.write_text(json.dumps({**head, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    value = json.loads(path.read_text())
    rows = [Row(**row) for row in value.pop("rows")]
    return value, rows
