#!/usr/bin/python3
"""Levels side by side: full stripes, random writes, reads, and reads without as many members as the level bears.

    tests/bench/levels.py [--build DIR] [--seconds N] [--rounds N] [--json FILE]

tgtd on loopback (files on a tmpfs), one volume a level in nbdkit, depth 16; no kernel in between.  Levels take turns, round
by round; medians.  A report, not a test: one core has all the targets, so more members cost it more.
"""

from __future__ import annotations

import random
import statistics
import sys

import common
from common import KIB, MIB
from nbd_load import NbdLoad, after

MEMBER_BYTES = 384 * MIB
SHAPES = ((0, 4), (1, 2), (10, 4), (5, 4), (6, 4))  # level, members
BEARS = {0: 0, 1: 1, 10: 1, 5: 1, 6: 2}
STRIPES = 4  # full stripes of one command


class Sequence:
    """Commands one behind the other, from the start again at the end."""

    def __init__(self, write: bool, command_bytes: int, volume_bytes: int):
        self.write, self.command_bytes = write, command_bytes
        self.commands = volume_bytes // command_bytes
        self.at = 0

    def __call__(self) -> tuple[bool, int]:
        self.at += 1
        return self.write, self.at % self.commands * self.command_bytes


def at_random(write: bool, command_bytes: int, volume_bytes: int):
    commands = volume_bytes // command_bytes
    return lambda: (write, random.randrange(commands) * command_bytes)


def patterns(status: dict) -> dict[str, tuple]:
    """Name of a column -> (draw, bytes of a command), while all members are there."""
    size = status["size_bytes"]
    stripe = STRIPES * status["chunk_bytes"] * data_chunks(status)
    return {
        "full stripes, write": (Sequence(True, stripe, size), stripe),
        "64k random write": (at_random(True, 64 * KIB, size), 64 * KIB),
        "4k random write": (at_random(True, 4 * KIB, size), 4 * KIB),
        "full stripes, read": (Sequence(False, stripe, size), stripe),
        "64k random read": (at_random(False, 64 * KIB, size), 64 * KIB),
    }


def data_chunks(status: dict) -> int:
    members, level = len(status["members"]), status["level"]
    return {0: members, 1: 1, 10: members // 2, 5: members - 1, 6: members - 2}[level]


def measure(level: int, members: int, seconds: float) -> dict[str, float]:
    with common.served(level, members, MEMBER_BYTES) as bench:
        volume = bench.volume
        handle = volume.connect()
        volume.wait_resynced()
        status = volume.status()
        figures = {}
        for name, (draw, command_bytes) in patterns(status).items():
            load = NbdLoad(handle, draw, command_bytes)
            load.run(after(0.3))
            figures[name] = load.run(after(seconds))
        for out in range(BEARS[level]):
            bench.farm.kill(out)
            volume.wait_status(
                lambda now, out=out: sum(member["state"] != "in sync" for member in now["members"]) > out, "an eviction"
            )
            load = NbdLoad(handle, at_random(False, 64 * KIB, status["size_bytes"]), 64 * KIB)
            load.run(after(0.3))
            figures[f"64k random read, {out + 1} out"] = load.run(after(seconds))
    return figures


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    head = common.begin(
        "levels",
        arguments,
        f"members of {MEMBER_BYTES // MIB} MiB, chunk 64 KiB, depth 16, "
        f"{arguments.rounds} rounds of {arguments.seconds:g} s, medians, MB/s",
    )
    found: dict[tuple[int, int], dict[str, list[float]]] = {shape: {} for shape in SHAPES}
    for number in range(arguments.rounds):
        for level, members in SHAPES:
            print(f"levels: round {number + 1}, level {level}", file=sys.stderr, flush=True)
            for column, rate in measure(level, members, arguments.seconds).items():
                found[level, members].setdefault(column, []).append(rate)
    columns = list(dict.fromkeys(column for shape in SHAPES for column in found[shape]))
    print("| MB/s | " + " | ".join(f"level {level} ({members})" for level, members in SHAPES) + " |")
    print("|---|" + "---:|" * len(SHAPES))
    for column in columns:
        cells = [found[shape].get(column) for shape in SHAPES]
        print(f"| {column} | " + " | ".join(f"{statistics.median(cell):.0f}" if cell else "-" for cell in cells) + " |")
    common.write(
        arguments.json,
        head,
        rows=[
            {"level": level, "members": members, "pattern": column, "mb_per_s": rates}
            for (level, members), all_rates in found.items()
            for column, rates in all_rates.items()
        ],
    )


if __name__ == "__main__":
    main()
