#!/usr/bin/python3
"""The engine beside plain libiscsi sessions to the same kind of targets, without a kernel in between.

    tests/bench/native.py [--build DIR] [--members N] [--level L] [--depth N] [--seconds N] [--rounds N]
                          [--only NAME,NAME] [--json FILE]

tgtd on loopback, files on a tmpfs; two sets of targets, one with the volume, one for the plain sessions, of which only one has work
at a time.  native_load drives both, in turn, round by round: the engine with all requests on its volume's thread, libiscsi
with one session a target on one thread and as many commands in flight.  A write of the engine counts as the data it
stores; in the column "of members' traffic" parity and copies are added, which is what the sessions move.  A report, not a test.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/integration")]

KIB = 1024
MIB = KIB * KIB
MEMBER_BYTES = 512 * MIB
CHUNK = 64 * KIB


def data_chunks(level: int, members: int) -> int:
    return {0: members, 1: 1, 10: members // 2, 5: members - 1, 6: members - 2}[level]


def cells(level: int, members: int) -> dict[str, tuple[str, int]]:
    """Name -> pattern, bytes of a command."""
    stripe = CHUNK * data_chunks(level, members)
    return {
        "4k random read": ("randread", 4 * KIB), "64k random read": ("randread", 64 * KIB),
        "64k read": ("read", 64 * KIB), "1M read": ("read", MIB),
        f"full stripes ({stripe // KIB}k) write": ("write", stripe), "1M write": ("write", MIB),
        "64k write": ("write", 64 * KIB), "64k random write": ("randwrite", 64 * KIB),
        "4k random write": ("randwrite", 4 * KIB),
    }


class Bench:
    def __init__(self, arguments: argparse.Namespace, folder: Path):
        from farm import TargetFarm
        from private_gateway import Gateway

        self.arguments = arguments
        self.program = Path(arguments.build) / "tests/bench/native_load"
        if not self.program.exists():
            raise SystemExit(f"native: {self.program} is not there: scripts/build, or --build DIR")
        self.farms = [TargetFarm(folder / name, count=arguments.members, size_bytes=MEMBER_BYTES)
                      for name in ("members", "plain")]
        self.gateway = Gateway(folder / "gateway", folder / "sockets")

    def __enter__(self) -> Bench:
        for farm in self.farms:
            farm.__enter__()
        self.gateway.start()
        self.gateway.create("v0", self.farms[0].members(), self.arguments.level, "64K")
        self.gateway.configure("v0", assembly_wait_seconds=1)
        self.gateway.must("wait", "v0", "--timeout", "120")
        self.gateway.must("stop", "v0")
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.close()
        for farm in reversed(self.farms):
            farm.close()

    def measure(self, system: str, pattern: str, block_bytes: int) -> dict:
        where = ["v0"] if system == "engine" else self.farms[1].members()
        words = [str(self.program), system, *where, "--pattern", pattern, "--block", str(block_bytes),
                 "--depth", str(self.arguments.depth), "--seconds", str(self.arguments.seconds)]
        result = subprocess.run(words, env=self.gateway.environment(), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"native: {' '.join(words)}: {result.stderr}")
        return json.loads(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--level", type=int, default=5, choices=(0, 1, 5, 6, 10))
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of rows, or parts of them")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ["IRAID_BUILD_DIR"] = arguments.build
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], check=False,
                            capture_output=True, text=True).stdout.strip()
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    print(f"native, {date}, commit {commit}: level {arguments.level}, {arguments.members} members, chunk 64 KiB, depth "
          f"{arguments.depth}, {arguments.rounds} rounds of {arguments.seconds:g} s, medians")
    chosen = cells(arguments.level, arguments.members)
    if arguments.only:
        parts = arguments.only.split(",")
        chosen = {name: cell for name, cell in chosen.items() if any(part in name for part in parts)}
    rows: list[dict] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, Bench(arguments, Path(name)) as bench:
        for number in range(arguments.rounds):
            print(f"native: round {number + 1}", file=sys.stderr, flush=True)
            for cell, (pattern, block_bytes) in chosen.items():
                for system in ("engine", "raw"):
                    rows.append({"cell": cell, "pattern": pattern, "block_bytes": block_bytes, "kernel": "none",
                                 "level": arguments.level, "members": arguments.members,
                                 **bench.measure(system, pattern, block_bytes)})
    report(rows, list(chosen), arguments.members / data_chunks(arguments.level, arguments.members))
    if arguments.json:
        arguments.json.write_text(json.dumps({"date": date, "commit": commit, "rows": rows}, indent=1))


def report(rows: list[dict], chosen: list[str], traffic: float) -> None:
    """traffic: what members get of a full stripe, for a byte of data."""
    print("| | engine MB/s | raw MB/s | engine : raw | of members' traffic | engine p50, p99 ms | engine CPU s/GiB | raw |")
    print("|---|" + "---:|" * 7)
    for cell in chosen:
        def median(system: str, figure: str, cell: str = cell) -> float:
            return statistics.median(row[figure] for row in rows if row["cell"] == cell and row["system"] == system)

        engine, raw = median("engine", "mb_per_s"), median("raw", "mb_per_s")
        moved = f"{engine * traffic / raw:.2f}" if cell.startswith(("full", "1M write")) else "-"
        print(f"| {cell} | {engine:.0f} | {raw:.0f} | {engine / raw:.2f} | {moved} | {median('engine', 'p50_ms'):.2f}, "
              f"{median('engine', 'p99_ms'):.2f} | {median('engine', 'cpu_s_per_gib'):.2f} | "
              f"{median('raw', 'cpu_s_per_gib'):.2f} |")


if __name__ == "__main__":
    main()
