#!/usr/bin/python3
"""What the write log costs: a report, not a test.

    tests/bench/write_log.py [--build DIR] [--json FILE] [--seconds N] [--levels 5,6] [--member-mib N]

Four tgtd on loopback (files on a tmpfs), a volume in nbdkit, one libnbd handle.  The same writes on a
healthy volume and with one member out, each without the log and with it: commands and bytes that the
members get, MB/s, and latencies, in that order in one run.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from typing import Any

import common
from common import KIB, MIB

MEMBERS = 4
CHUNK = 64 * KIB
OUT = 2
COUNTED = 256
DEPTHS = (1, 16)
HEADINGS = (
    "level  state           KiB depth  reads writes records KiB read  written    MB/s     p50     p99   p99.9     max"
)


@dataclass
class Timed:
    writes: int
    seconds: float
    latencies: list[float]  # seconds, sorted

    def percentile(self, part: float) -> float:
        """Milliseconds."""
        return self.latencies[min(len(self.latencies) - 1, int(part * len(self.latencies)))] * 1000


class Writer:
    """Writes of one size at random multiples of it, in the first half of the volume."""

    def __init__(self, handle: Any, size: int, seed: int):
        import nbd

        self.handle = handle
        self.size = size
        self.places = handle.get_size() // 2 // size
        self.random = random.Random(seed)
        self.buffer = nbd.Buffer.from_bytearray(bytearray(os.urandom(size)))

    def run(self, depth: int, count: int | None = None, seconds: float = 0.0) -> Timed:
        """`count` writes, or as many as begin in `seconds`; `depth` in flight."""
        latencies: list[float] = []
        begun = flying = failed = 0
        start = time.monotonic()

        def submit() -> None:
            nonlocal begun, flying
            sent = time.monotonic()

            def finished(error: Any) -> int:
                nonlocal flying, failed
                failed = failed or error.value
                flying -= 1
                latencies.append(time.monotonic() - sent)
                return 1

            begun += 1
            flying += 1
            self.handle.aio_pwrite(self.buffer, self.random.randrange(self.places) * self.size, finished)

        def wanted() -> bool:
            return begun < count if count is not None else time.monotonic() - start < seconds

        while wanted() or flying:
            while flying < depth and wanted():
                submit()
            if flying:
                self.handle.poll(-1)
            if failed:
                raise SystemExit(f"write_log: a write failed: {os.strerror(failed)}")
        return Timed(begun, time.monotonic() - start, sorted(latencies))


def traffic(status: dict[str, Any]) -> dict[str, int]:
    keys = ("reads", "writes", "read_bytes", "written_bytes")
    return {key: sum(member[key] for member in status["members"]) for key in keys}


def count(volume: Any, handle: Any, size: int) -> dict[str, float]:
    """What members get for one write, one at a time, in regions that are marked; flushes are not in it."""
    Writer(handle, size, 4).run(DEPTHS[-1], count=8 * COUNTED)
    before, logged = traffic(volume.status()), volume.status()["log"]["records"]
    Writer(handle, size, 1).run(1, count=COUNTED)
    after = traffic(volume.status())
    counts = {key: (after[key] - before[key]) / COUNTED for key in after}
    counts["records"] = (volume.status()["log"]["records"] - logged) / COUNTED
    return counts


def measure(volume: Any, handle: Any, level: int, state: str, seconds: float) -> list[dict[str, Any]]:
    rows = []
    row_bytes = (MEMBERS - (level - 4)) * CHUNK
    for size in (4 * KIB, 64 * KIB, row_bytes):
        counts = count(volume, handle, size)
        for depth in DEPTHS:
            timed = Writer(handle, size, 2).run(depth, seconds=seconds)
            rows.append(
                {
                    "level": level, "state": state, "kib": size // KIB, "depth": depth, **counts,
                    "mb_s": timed.writes * size / timed.seconds / 1e6,
                    "p50_ms": timed.percentile(0.5), "p99_ms": timed.percentile(0.99),
                    "p999_ms": timed.percentile(0.999), "max_ms": timed.latencies[-1] * 1000,
                }
            )  # fmt: skip
            show(rows[-1])
    return rows


def show(row: dict[str, Any]) -> None:
    print(
        f"{row['level']:5}  {row['state']:14} {row['kib']:4} {row['depth']:5} {row['reads']:6.2f} {row['writes']:6.2f} "
        f"{row['records']:7.2f} {row['read_bytes'] / KIB:8.1f} {row['written_bytes'] / KIB:8.1f} {row['mb_s']:7.1f} "
        f"{row['p50_ms']:7.2f} {row['p99_ms']:7.2f} {row['p999_ms']:7.2f} {row['max_ms']:7.1f}",
        flush=True,
    )


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each timed load (default: %(default)s)")
    parser.add_argument("--levels", default="5,6", help="(default: %(default)s)")
    parser.add_argument(
        "--member-mib", type=int, default=2048, help="a member's size, which decides the log's (default: %(default)s)"
    )
    arguments = parser.parse_args()
    about = f"{MEMBERS} members of {arguments.member_mib} MiB, chunk {CHUNK // KIB} KiB"
    head = common.begin("write log", arguments, about)
    print(HEADINGS, flush=True)
    rows = []
    for level in map(int, arguments.levels.split(",")):
        with common.served(level, MEMBERS, arguments.member_mib * MIB) as bench:
            volume, gateway = bench.volume, bench.gateway
            handle = volume.connect()
            volume.wait_resynced(600)
            rows += measure(volume, handle, level, "healthy", arguments.seconds)
            gateway.must("set", "v0", "--log", "always", "--socket", volume.control)
            volume.wait_status(lambda status: status["log"]["open"], "the write log to be open")
            rows += measure(volume, handle, level, "healthy, log", arguments.seconds)
            gateway.must("set", "v0", "--log", "off", "--socket", volume.control)
            bench.farm.kill(OUT)
            volume.wait_status(lambda status: status["state"] == "degraded", "the volume to do without the member")
            rows += measure(volume, handle, level, "out, no log", arguments.seconds)
            gateway.must("set", "v0", "--log", "degraded", "--socket", volume.control)
            volume.wait_status(lambda status: status["log"]["open"], "the write log to be open")
            rows += measure(volume, handle, level, "out, logged", arguments.seconds)
    common.write(arguments.json, head, rows=rows)


if __name__ == "__main__":
    main()
