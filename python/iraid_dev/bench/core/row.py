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
    "md-ppl": "md over open-iscsi with a partial parity log, re-exported by LIO",
    "md-journal": "md over open-iscsi with a journal on one more target, re-exported by LIO",
    "lvm": "LVM's RAID over open-iscsi, re-exported by LIO",
    "plain": "one target of the same kind",
    "ceiling": "a handler that completes at once and touches no data",
    "engine": "the engine driven directly, no kernel in between",
    "raw": "plain libiscsi sessions to as many targets",
    "spdk": "SPDK's bdev_raid on bdev_iscsi, one polled core",
}
PATTERNS = ("write", "read", "randwrite", "randread")


class RowError(Exception):
    """A file that holds no rows; the message names it."""


@dataclass(frozen=True)
class Row:
    kernel: str  # one of KERNELS
    system: str  # one of SYSTEMS, or of those that a profile has itself
    level: int | None  # None: the system has no level
    members: int
    pattern: str  # one of PATTERNS
    block_bytes: int
    mb_per_s: float  # 10^6 bytes
    iops: float
    p50_ms: float
    p99_ms: float
    # Of the gateway, kernel included; in the lab's one kernel: of all that runs there but fio itself.  None: not told
    # apart from the load's.
    cpu_s_per_gib: float | None
    p999_ms: float | None = None
    round: int = 0
    depth: int = 16
    conditions: dict[str, Any] = field(default_factory=dict)  # what else was set: {"rtt_ms": 8, "link_mbit": 1000}
    cpu_user_s_per_gib: float | None = None  # the part of cpu_s_per_gib in user mode
    process_cpu_s_per_gib: float | None = None  # of the gateway's own process alone, user and kernel


def write(path: Path, head: dict[str, Any], rows: Iterable[Row]) -> None:
    """head: "date", "commit", "command", "machine" and what else belongs to the run as a whole."""
    new = path.with_name(path.name + ".new")  # a reader, or a run that is killed, never sees half a file
    new.write_text(json.dumps({**head, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    new.rename(path)


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    try:
        value = json.loads(path.read_text())
        rows = [Row(**row) for row in value.pop("rows")]
        if strange := [row.pattern for row in rows if row.pattern not in PATTERNS]:
            raise ValueError(f"pattern {strange[0]!r}")
    except OSError as error:
        raise RowError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RowError(f"{path} holds no rows of a benchmark ({error}); name a file that --json wrote") from None
    return value, rows
