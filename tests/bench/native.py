#!/usr/bin/python3
"""The engine beside plain libiscsi sessions to the same kind of targets, without a kernel in between.

    tests/bench/native.py [--build DIR] [--members N] [--level L] [--depth N] [--seconds N] [--rounds N]
                          [--only NAME,NAME | --cells PATTERN:BYTES,...] [--systems engine,raw] [--json FILE]
                          [--member-mib N] [--filled] [--spdk DIR]

tgtd on loopback, files on a tmpfs; two sets of targets, one with the volume, one for the plain sessions, of which only one has work
at a time.  native_load drives both, in turn, round by round: the engine with all requests on its volume's thread, libiscsi
with one session a target on one thread and as many commands in flight.  A write of the engine counts as the data it
stores; in the column "of members' traffic" parity and copies are added, which is what the sessions move.  A report, not a test.
The file of --json has rows as python/iraid_dev/bench/core/row.py says (processor time is that of native_load, its load included), after each
round those that there are; scripts/bench --profile full calls it for them.

--spdk adds SPDK's RAID over its own iSCSI initiator (python/iraid_dev/bench/core/spdk.py), on a third set of targets, in turn
with the others.  DIR is a tree of SPDK that is built (24.01 or later).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common
from common import KIB, MIB

from iraid_dev.bench.core import row, spdk
from iraid_dev.bench.core.cells import Cell, Shape, ValueFault, size_text
from iraid_dev.bench.core.row import Row

MEMBER_MIB = 512
CHUNK = 64 * KIB


SYSTEMS = ("engine", "raw")


def named_cells(shape: Shape) -> dict[str, Cell]:
    stripe = int(CHUNK * shape.data_chunks)
    return {
        "4k random read": Cell("randread", 4 * KIB),
        "64k random read": Cell("randread", 64 * KIB),
        "64k read": Cell("read", 64 * KIB),
        "1M read": Cell("read", MIB),
        f"full stripes ({size_text(stripe)}) write": Cell("write", stripe),
        "1M write": Cell("write", MIB),
        "64k write": Cell("write", 64 * KIB),
        "64k random write": Cell("randwrite", 64 * KIB),
        "4k random write": Cell("randwrite", 4 * KIB),
    }


class Bench:
    def __init__(self, arguments: argparse.Namespace, folder: Path):
        from iraid_dev.stack.farm import TargetFarm
        from iraid_dev.stack.private_gateway import Gateway

        self.arguments = arguments
        self.program = Path(arguments.build) / "tests/bench/native_load"
        if not self.program.exists():
            raise SystemExit(f"native: {self.program} is not there: scripts/build, or --build DIR")
        self.farms = [
            TargetFarm(folder / name, count=arguments.members, size_bytes=arguments.member_mib * MIB)
            for name in ("members", "plain", *(["spdk"] if arguments.spdk else []))
        ]
        self.gateway = Gateway(folder / "gateway", folder / "sockets")
        self.folder = folder

    def __enter__(self) -> Bench:
        for farm in self.farms:
            farm.__enter__()
            if self.arguments.filled:
                for target in farm.targets:
                    with target.backing.open("r+b") as backing:
                        os.posix_fallocate(backing.fileno(), 0, target.options.size_bytes)
        self.gateway.start()
        self.gateway.create("v0", self.farms[0].members(), self.arguments.level, "64K")
        self.gateway.configure("v0", assembly_wait_seconds=1)
        self.gateway.must("wait", "v0", "--timeout", "120")
        self.gateway.must("stop", "v0")
        if self.arguments.spdk:
            shape = Shape(self.arguments.level, self.arguments.members)
            self.spdk = spdk.Spdk(self.arguments.spdk, shape, self.farms[2].members(), self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.close()
        for farm in reversed(self.farms):
            farm.close()

    def measure(self, system: str, cell: Cell, number: int) -> Row | None:
        arguments = self.arguments
        if system == spdk.SYSTEM:
            try:
                return self.spdk.measure(cell, arguments.depth, int(arguments.seconds), number)
            except spdk.SpdkError as error:
                raise SystemExit(f"native: {error}") from None
        where = ["v0"] if system == "engine" else self.farms[1].members()
        words = [
            str(self.program),
            system,
            *where,
            "--pattern",
            cell.pattern,
            "--block",
            str(cell.block_bytes),
            "--depth",
            str(arguments.depth),
            "--seconds",
            str(arguments.seconds),
        ]
        result = subprocess.run(words, env=self.gateway.environment(), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"native: {' '.join(words)}: {result.stderr}")
        return Row(
            "none",
            level=arguments.level,
            members=arguments.members,
            pattern=cell.pattern,
            block_bytes=cell.block_bytes,
            round=number,
            depth=arguments.depth,
            **json.loads(result.stdout),
        )


def parse() -> argparse.Namespace:
    parser = common.parser(__doc__)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--level", type=int, default=5, choices=(0, 1, 5, 6, 10))
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--member-mib", type=int, default=MEMBER_MIB, help="MiB of a target (default: %(default)s)")
    parser.add_argument("--filled", action="store_true", help="the targets' files have all their pages from the start")
    parser.add_argument("--only", help="names of lines, or parts of them")
    parser.add_argument("--cells", help="these instead of the usual ones")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument(
        "--spdk", type=Path, metavar="DIR", help="measure SPDK as well, which somebody has built in DIR"
    )
    arguments = parser.parse_args()
    arguments.systems = arguments.systems.split(",")
    known = SYSTEMS
    if arguments.spdk:
        known += (spdk.SYSTEM,)
        if spdk.SYSTEM not in arguments.systems:
            arguments.systems.append(spdk.SYSTEM)
        if arguments.seconds < 1 or arguments.seconds != int(arguments.seconds):
            parser.error(f"--seconds {arguments.seconds:g}: SPDK's bdevperf takes whole seconds")
        try:
            arguments.spdk = spdk.find_program(arguments.spdk, arguments.level)
        except ValueFault as fault:
            parser.error(f"--spdk: {fault}")
    if unknown := [name for name in arguments.systems if name not in known]:
        parser.error(f"--systems {unknown[0]}: choose from {', '.join(known)}")
    chosen = named_cells(Shape(arguments.level, arguments.members))
    if arguments.cells:
        try:
            pairs = [word.split(":") for word in arguments.cells.split(",")]
            chosen = {str(cell): cell for cell in (Cell(pattern, int(size)) for pattern, size in pairs)}
        except ValueError:
            parser.error(f"--cells {arguments.cells}: words such as randwrite:4096, with commas between")
    if arguments.only:
        parts = arguments.only.split(",")
        chosen = {name: cell for name, cell in chosen.items() if any(part in name for part in parts)}
    if not chosen:
        parser.error(f"--only {arguments.only}: no line has that in its name")
    arguments.chosen = chosen
    return arguments


def main() -> None:
    arguments = parse()
    head = common.begin(
        "native",
        arguments,
        f"level {arguments.level}, {arguments.members} members, chunk 64 KiB, depth "
        f"{arguments.depth}, {arguments.rounds} rounds of {arguments.seconds:g} s, medians",
    )
    head |= {"command": shlex.join(sys.argv), "machine": platform.platform()}
    if arguments.spdk:
        head["spdk"] = spdk.version(arguments.spdk)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=common.MEMORY) as name, Bench(arguments, Path(name)) as bench:
        for number in range(arguments.rounds):
            print(f"native: round {number + 1}", file=sys.stderr, flush=True)
            for cell in arguments.chosen.values():
                for system in arguments.systems:
                    if found := bench.measure(system, cell, number):
                        rows.append(found)
            if arguments.json:
                row.write(arguments.json, head, rows)
    shape = Shape(arguments.level, arguments.members)
    if set(arguments.systems) >= set(SYSTEMS):
        report(rows, arguments.chosen, arguments.members / shape.data_chunks)
    if arguments.spdk:
        print(f"\n{head['spdk']}\n\n{spdk.table(rows, arguments.chosen, shape)}")


def report(rows: list[Row], chosen: dict[str, Cell], traffic: float) -> None:
    """traffic: what members get of a full stripe, for a byte of data."""
    print(
        "| | engine MB/s | raw MB/s | engine : raw | of members' traffic | engine p50, p99 ms | engine CPU s/GiB | raw |"
    )
    print("|---|" + "---:|" * 7)
    for name, cell in chosen.items():

        def median(system: str, figure: str, cell: Cell = cell) -> float:
            return statistics.median(
                getattr(one, figure)
                for one in rows
                if one.system == system and Cell(one.pattern, one.block_bytes) == cell
            )

        engine, raw = median("engine", "mb_per_s"), median("raw", "mb_per_s")
        moved = f"{engine * traffic / raw:.2f}" if name.startswith(("full", "1M write")) else "-"
        print(
            f"| {name} | {engine:.0f} | {raw:.0f} | {engine / raw:.2f} | {moved} | {median('engine', 'p50_ms'):.2f}, "
            f"{median('engine', 'p99_ms'):.2f} | {median('engine', 'cpu_s_per_gib'):.2f} | "
            f"{median('raw', 'cpu_s_per_gib'):.2f} |"
        )


if __name__ == "__main__":
    main()
