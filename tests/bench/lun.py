#!/usr/bin/python3
"""The LUN as an initiator sees it: memory of the runner, page faults, and what the export's settings do.

    scripts/lab -- tests/bench/lun.py memory
    scripts/lab -- tests/bench/lun.py settings [--seconds 3]

memory    resident memory of tcmu-runner before there is a volume, with one idle volume of four members, and after a
          load; page faults per command in steady state.
settings  throughput against hw_max_sectors, the data area and the queue depth: what the constants in
          python/iraid/lio/export_plan.py were chosen by.

A report, not a test.  It runs in the lab.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import common

from iraid.lio import export_plan
from iraid_dev.bench.core import load
from iraid_dev.bench.core.cells import KIB, MIB, Cell
from iraid_dev.stack.gateway import Gateway, Volume
from iraid_dev.stack.lio_targets import LioTargets
from iraid_dev.stack.runner import Runner

MEMBERS = 4
MEMBER_BYTES = 192 << 20
CELLS = [Cell("write", MIB), Cell("read", MIB), Cell("write", 64 * KIB), Cell("randread", 4 * KIB)]
SETTINGS = [  # bytes per command, MiB of data area, commands in flight
    (64 << 10, 64, 128),
    (1 << 20, 64, 128),
    (4 << 20, 64, 128),
    (4 << 20, 16, 128),
    (4 << 20, 256, 128),
    (4 << 20, 64, 32),
    (4 << 20, 64, 512),
]


@contextmanager
def stack() -> Iterator[tuple[Gateway, LioTargets]]:
    log = Path("/var/log")
    runner = Runner(log)
    with LioTargets(Path("/dev/shm/lun-bench"), MEMBERS, MEMBER_BYTES) as targets:
        runner.start()
        gateway = Gateway(runner)
        try:
            yield gateway, targets
        finally:
            gateway.remove(list(gateway.volumes))
            runner.stop()


def resident_kib(pid: int) -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1])


def page_faults(pid: int) -> Counter[str]:
    """Minor and major, by thread: the volume's is "iraid NAME", the runner's are "tcmu-runner"."""
    faults: Counter[str] = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except FileNotFoundError:
            continue  # a thread of the control socket that has just ended
        fields = rest.split()
        faults[name.split()[0]] += int(fields[7]) + int(fields[9])
    return faults


def commands(volume: Volume) -> int:
    status = volume.status()
    return sum(member["reads"] + member["writes"] for member in status["members"])


def memory() -> None:
    with stack() as (gateway, targets):
        assert gateway.runner.process is not None
        pid = gateway.runner.process.pid
        empty = resident_kib(pid)
        volume = gateway.create(5, targets.members())
        volume.wait_resynced()
        idle = resident_kib(pid)
        disk = volume.login()
        exported = resident_kib(pid)
        print(
            f"resident: runner {empty} KiB, with a volume of {MEMBERS} members {idle} KiB "
            f"(+{idle - empty}), exported and logged in {exported} KiB (+{exported - empty})"
        )
        load.fill(disk)
        # The ring (1 MiB, some 8000 commands) is gone round once, so that all its pages are touched.
        load.run(disk, Cell("randread", 4 * KIB), 8)
        for cell in (
            Cell("write", MIB),
            Cell("randwrite", 64 * KIB),
            Cell("randwrite", 4 * KIB),
            Cell("randread", 64 * KIB),
        ):
            load.run(disk, cell, 3)  # the arena and the data area grow to what this load needs
            before, faults = commands(volume), page_faults(pid)
            load.run(disk, cell, 3)
            after = page_faults(pid)
            grown = ", ".join(f"{name} {after[name] - faults[name]}" for name in sorted(after))
            print(f"{cell}: page faults by thread: {grown}; {commands(volume) - before} commands to members")
        status = volume.status()
        print(
            f"after the load: {resident_kib(pid)} KiB, of them buffers "
            f"{status['memory']['buffer_bytes'] >> 10} KiB; the ring's data area counts too"
        )


def settings(seconds: float) -> None:
    heads = [str(cell) for cell in CELLS]
    print(f"{'command':>8} {'area':>8} {'depth':>6}  " + "  ".join(f"{head:>15}" for head in heads))
    with stack() as (gateway, targets):
        volume = gateway.create(5, targets.members())
        volume.wait_resynced()
        for transfer, area, depth in SETTINGS:
            export_plan.TRANSFER_BYTES_MAX = transfer
            export_plan.DATA_AREA_MIB = area
            export_plan.QUEUE_DEPTH = depth
            disk = volume.login()
            load.fill(disk)
            values = [load.run(disk, cell, seconds).mb_per_s for cell in CELLS]
            print(
                f"{transfer >> 10:>4} KiB {area:>4} MiB {depth:>6}  "
                + "  ".join(f"{value:>10.1f} MB/s" for value in values),
                flush=True,
            )
            volume.logout()
            volume.unexport()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["memory", "settings"])
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    head = common.provenance()
    print(f"{given.what}, {head['date']}, commit {head['commit']}: depth {load.DEPTH} of fio", flush=True)
    if given.what == "memory":
        memory()
    else:
        settings(given.seconds)


if __name__ == "__main__":
    main()
