#!/usr/bin/python3
"""The figures of scripts/bench; runs inside scripts/lab.

One plain target, an S-iRAID volume on three and a P-iRAID volume on four like it, and md's RAID 5 on four more, all
behind the same initiator.  Each cell is measured on all of them before the next one, so that a machine that is
busy for a while doesn't favour one of them.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS.parent / "tests" / "end_to_end")]

from demolib import figures  # noqa: E402
from demolib.md_peer import MdPeer  # noqa: E402
from demolib.progress import Progress, progress_inside  # noqa: E402
from demolib.stack import Stack  # noqa: E402
from initiator import Disk  # noqa: E402
from tools import IRAID  # noqa: E402

MEMBER_BYTES = 192 << 20
VOLUMES = {"S-iRAID": ("s0", "s-iraid", 3), "P-iRAID": ("p0", "p-iraid", 4)}
CELLS = [figures.Cell(pattern, block, way) for pattern in ("sequential", "random")
         for block in ("4k", "64k", "1M") for way in ("write", "read")]


def main() -> int:
    progress = progress_inside()
    with progress.step("A kernel with LIO and TCMU") as step:
        step.detail = f"Linux {os.uname().release}, {os.environ['IRAID_LAB']}, {os.cpu_count()} CPU"
    stack = Stack(progress)
    try:
        measure(progress, stack, float(os.environ["IRAID_BENCH_SECONDS"]))
        progress.report.ok = True
    except Exception:  # noqa: BLE001 - the step has it already; the log gets where it was
        Path(progress.report.logs, "log", "bench.traceback").write_text(traceback.format_exc())
    finally:
        for fault in stack.take_down():
            progress.line(f"tear-down: {fault}")
        progress.keep()
    return 0 if progress.report.ok else 1


def measure(progress: Progress, stack: Stack, seconds: float) -> None:
    disks: dict[str, Disk] = {}
    exports = []
    with progress.step("One plain target"):
        plain = stack.targets("plain", 1, 2 * MEMBER_BYTES)
        disks["plain"] = stack.login_to(plain.iqn(0), f"127.0.0.1:{plain.ports[0]}")
        figures.fill(disks["plain"])
    with progress.step("tcmu-runner with handler_iraid.so"):
        stack.start_runner()
    for label, (name, level, count) in VOLUMES.items():
        with progress.step(f"{label} on {count} targets"):
            targets = stack.targets(name, count, MEMBER_BYTES)
            export = stack.new_export(name, stack.create(name, level, targets.members()))
            stack.export(export)
            exports.append(export)
            disks[label] = stack.login(export)
            stack.wait_resynced(name)
            figures.fill(disks[label])
    with progress.step("md RAID 5 with its bitmap on 4 targets"):
        md = MdPeer(stack, stack.targets("md", 4, MEMBER_BYTES))
        stack.peers.append(md)
        md.__enter__()
        disks["md RAID 5"] = md.disk
        figures.fill(md.disk)
    with progress.step("Throughput") as step:
        rows = progress.report.figures["throughput_mb_s"] = []
        for cell in CELLS:
            row = {"pattern": cell.pattern, "block": cell.block, "way": cell.way}
            row |= {label: figures.measure(disk, cell, seconds) for label, disk in disks.items()}
            rows.append(row)
            progress.say(f"{cell.pattern} {cell.way} of {cell.block}: " + ", ".join(
                f"{label} {row[label]:.0f}" for label in disks) + " MB/s")
        step.detail = f"{len(CELLS)} cells, {seconds:g} s on each of {len(disks)} disks"
    with progress.step("Logout, volumes deleted"):
        stack.close_peers()
        for label in ("plain", *VOLUMES):
            stack.logout(disks[label])
        for export in exports:
            stack.unexport(export)
            stack.command(IRAID, "delete", export.volume, "--yes")


if __name__ == "__main__":
    sys.exit(main())
