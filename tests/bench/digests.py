#!/usr/bin/python3
"""What digests cost: processor time of our side and of the target for each GiB, and how fast one session is.

    tests/bench/digests.py [--build DIR] [--seconds N] [--rounds N] [--json FILE]

backend_probe, which is a member's session without an engine, and a tgtd on loopback with a file in memory.  Without
digests, with that of headers, with both; all of them in turn, round by round, and the median of each.  A report, not a
test.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

import common
from common import KIB, MIB

sys.path.insert(0, str(common.ROOT / "tests"))

LOADS = (("read", 256 * KIB), ("write", 256 * KIB), ("read", 4 * KIB), ("write", 4 * KIB))
DIGESTS = {"none": ("None", "None"), "header": ("CRC32C", "None"), "header and data": ("CRC32C", "CRC32C")}
DEPTH = 16
GIB = 1024 * MIB
ANSWER = re.compile(r"bench (\d+) iops ([\d.]+) MB/s cpu user ([\d.]+) system ([\d.]+) .*failed 0")


def cpu_seconds(pid: int) -> float:
    """Of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(member: str, pid: int, digests: tuple[str, str], load: tuple[str, int], seconds: int) -> dict[str, float]:
    from backend_probe import Probe

    words = ["required" if digest == "CRC32C" else "none" for digest in digests]
    probe = Probe(member, f"header_digest={words[0]}", f"data_digest={words[1]}")
    probe.open()
    before = cpu_seconds(pid)
    said = probe.ask(f"bench {load[0]} {DEPTH} {load[1]} {seconds}")
    target = cpu_seconds(pid) - before
    probe.end()
    found = ANSWER.match(said)
    if not found:
        raise SystemExit(f"the load failed: {said}")
    gib = float(found[2]) * 1e6 * seconds / GIB
    ours = float(found[3]) + float(found[4])
    return {"mb_per_second": float(found[2]), "ours_per_gib": ours / gib, "target_per_gib": target / gib}


def main() -> None:
    from iraid_dev.stack.farm import TargetFarm

    parser = common.parser(__doc__ or "")
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    arguments: argparse.Namespace = parser.parse_args()
    head = common.begin("digests", arguments, "one session, depth 16, tgtd on loopback")
    rows = []
    with tempfile.TemporaryDirectory(dir=common.MEMORY) as name, TargetFarm(Path(name), size_bytes=512 * MIB) as farm:
        target = farm.targets[0]
        assert target.process is not None
        found: dict[tuple[str, tuple[str, int]], list[dict[str, float]]] = {}
        for _ in range(arguments.rounds):
            for name, digests in DIGESTS.items():
                for key, value in zip(("HeaderDigest", "DataDigest"), digests, strict=True):
                    farm.admin(
                        0, "--mode", "target", "--op", "update", "--tid", str(target.tid), "--name", key,
                        "--value", value,
                    )  # fmt: skip
                for load in LOADS:
                    one = measure(farm.member(0), target.process.pid, digests, load, arguments.seconds)
                    found.setdefault((name, load), []).append(one)
    print(f"{'load':>12}  {'digests':>16}  {'MB/s':>6}  {'our CPU s/GiB':>13}  {'target CPU s/GiB':>16}")
    for (name, load), ones in sorted(found.items(), key=lambda item: LOADS.index(item[0][1])):
        row = {key: statistics.median(one[key] for one in ones) for key in ones[0]}
        rows.append({"load": load[0], "bytes": load[1], "digests": name, **row})
        print(
            f"{load[0] + ' ' + str(load[1] // KIB) + 'k':>12}  {name:>16}  {row['mb_per_second']:6.0f}  "
            f"{row['ours_per_gib']:13.3f}  {row['target_per_gib']:16.3f}"
        )
    common.write(arguments.json, head, rows=rows)


if __name__ == "__main__":
    main()
