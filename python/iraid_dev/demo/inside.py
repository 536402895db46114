"""The demonstration itself; runs inside scripts/lab, started by scripts/demo.

Two stories, each from nothing to nothing: a P-iRAID volume that outlives the loss of a target's
contents, and volumes on several targets behind slow links beside one such target.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import traceback
from pathlib import Path

from iraid_dev.bench.core import load
from iraid_dev.bench.core.cells import KIB, MIB, Cell, size_text
from iraid_dev.bench.core.network import Link, Network, NetworkTargets
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.lio_targets import LioTargets
from iraid_dev.stack.tools import IRAID, StackError, attempt, run
from iraid_dev.stack.typed_stack import TARGETS, Export, Stack
from iraid_dev.steps.progress import Progress, progress_inside

from . import tree

PARITY, PARITY_MEMBERS, PARITY_MEMBER_BYTES = "p0", 4, 128 * MIB
LINKED_MEMBERS = {"s0": 3, "p0": 4}  # S-iRAID and P-iRAID of the same size
LINKED_LEVELS = {"s0": "s-iraid", "p0": "p-iraid"}
LINKED_NAMES = {"plain": "one target", "s0": "S-iRAID on 3", "p0": "P-iRAID on 4"}
LINKED_MEMBER_BYTES = 96 * MIB
LINK = Link(rate_mbit=200)  # what one machine can do for all of them at once
LOST = 1  # the target whose LUN is overwritten
MOUNT = Path("/mnt/iraid")
CELL_SECONDS = 4
CELLS = [Cell(way, block) for block in (MIB, 64 * KIB) for way in ("write", "read")]


def main() -> int:
    progress = progress_inside()
    with progress.step("A kernel with LIO and TCMU") as step:
        step.detail = f"Linux {os.uname().release}, {os.environ.get('IRAID_LAB', '?')}, {os.cpu_count()} CPU"
    stack = Stack(progress)
    try:
        ParityStory(progress, stack).tell()
        LinkedStory(progress, stack).tell()
        progress.report.ok = True
    except Exception:  # noqa: BLE001 - the step has it already; the log gets where it was
        Path(progress.report.logs, "log", "demo.traceback").write_text(traceback.format_exc())
    finally:
        with contextlib.suppress(StackError, subprocess.TimeoutExpired):
            attempt("umount", MOUNT)
        for fault in stack.take_down():
            progress.line(f"tear-down: {fault}")
        progress.keep()
    return 0 if progress.report.ok else 1


class ParityStory:
    """Four targets, a source tree, one target's contents lost: the tree is all there."""

    def __init__(self, progress: Progress, stack: Stack):
        self.progress = progress
        self.stack = stack
        self.targets: LioTargets | None = None
        self.export: Export | None = None
        self.disk: Disk | None = None
        self.manifest: tree.Manifest | None = None

    def tell(self) -> None:
        for chapter in (
            self.put_up,
            self.use,
            self.resynced,
            self.stop,
            self.lose,
            self.start_again,
            self.compare,
            self.compile,
            self.clear,
        ):
            chapter()

    def put_up(self) -> None:
        with self.progress.step("Four loopback targets") as step:
            self.targets = self.stack.targets("p", PARITY_MEMBERS, PARITY_MEMBER_BYTES, used=True)
            step.detail = f"LUNs of {PARITY_MEMBER_BYTES // MIB} MiB, full of old bytes"
        with self.progress.step("tcmu-runner with handler_iraid.so"):
            self.stack.start_runner()
        with self.progress.step("P-iRAID volume, by iraid create") as step:
            size_bytes = self.stack.create(PARITY, "p-iraid", self.targets.members())
            step.detail = f"{size_bytes // MIB} MiB usable of {PARITY_MEMBERS} members"
        with self.progress.step("Exported, by targetcli alone") as step:
            self.export = self.stack.new_export(PARITY, size_bytes)
            self.stack.export(self.export)
            self.stack.say_resync(PARITY)
            step.detail = f"{self.export.iqn} at {self.export.portal}"

    def login_and_mount(self, *, fresh: bool) -> str:
        self.disk = self.stack.login(self.export)
        if fresh:
            self.stack.command("mkfs.ext4", "-q", self.disk.path)
        else:
            self.stack.command("e2fsck", "-f", "-n", self.disk.path)
        MOUNT.mkdir(exist_ok=True)
        self.stack.command("mount", self.disk.path, str(MOUNT))
        return f"{self.disk.path} on {MOUNT}"

    def use(self) -> None:
        with self.progress.step("open-iscsi logs in, mkfs, mount") as step:
            step.detail = self.login_and_mount(fresh=True)
            self.stack.say_resync(PARITY)
        with self.progress.step("A source tree is copied on") as step:
            self.manifest = tree.copy(MOUNT)
            run("sync", "-f", MOUNT)
            step.detail = (
                f"{len(self.manifest.sums)} files, {self.manifest.total_bytes / 1e6:.1f} MB, SHA-256 of each recorded"
            )
            self.progress.report.figures["tree"] = {
                "files": len(self.manifest.sums),
                "bytes": self.manifest.total_bytes,
            }

    def resynced(self) -> None:
        with self.progress.step("Wait for the initial resync") as step:
            self.progress.say(
                "parity of a new volume is unknown until every row was gone through; "
                "a target lost before that can't be made up for"
            )
            self.stack.wait_resynced(PARITY)
            status = self.stack.status(PARITY)
            step.detail = (
                f"all {status.resync.total_rows} rows checked, parity of {status.resync.corrected_rows} corrected"
            )
            self.progress.report.figures["resync"] = {
                "rows": status.resync.total_rows,
                "corrected_rows": status.resync.corrected_rows,
            }

    def stop(self) -> None:
        with self.progress.step("Unmount, logout, everything stopped") as step:
            self.stack.command("umount", str(MOUNT))
            self.stack.logout(self.disk)
            self.stack.unexport(self.export)
            self.stack.command(IRAID, "stop", PARITY)
            self.stack.stop_runner()
            self.targets.stop()
            if left := [path.name for path in TARGETS.glob("iqn*")]:
                raise StackError(f"still there: {', '.join(left)}")
            step.detail = "volume, runner and targets are gone; only the targets' files stay"

    def lose(self) -> None:
        backing = self.targets.backing(LOST)
        with self.progress.step(f"Target {LOST}'s LUN is overwritten with random bytes") as step:
            with backing.open("r+b", buffering=0) as file:
                for _ in range(PARITY_MEMBER_BYTES // MIB):
                    file.write(os.urandom(MIB))
            step.detail = f"all {PARITY_MEMBER_BYTES // MIB} MiB, superblocks included"

    def start_again(self) -> None:
        with self.progress.step("Everything is started again") as step:
            self.targets.start()
            self.stack.start_runner()
            self.stack.command(IRAID, "start", PARITY)
            status = self.stack.status(PARITY)
            lost = status.members[LOST]
            if status.state != "degraded" or lost.state == "in sync":
                raise StackError(
                    f"volume {PARITY} is {status.state} and member {LOST} "
                    f"{lost.state}, where the volume should be degraded without it"
                )
            self.progress.say("the same targetcli lines as before")
            self.stack.export(self.export, shown=False)
            step.detail = f"the volume is degraded; member {LOST} is {lost.state}: {lost.reason}"
        with self.progress.step("open-iscsi logs in, file system check, mount") as step:
            step.detail = self.login_and_mount(fresh=False)

    def compare(self) -> None:
        with self.progress.step("The tree's checksums are compared") as step:
            found = tree.read_all(MOUNT)
            if difference := self.manifest.difference(found):
                raise StackError(difference)
            rebuilt = self.stack.status(PARITY).reads_reconstructed
            if rebuilt == 0:
                raise StackError(
                    "the files are right, but no read was made up for from parity: this run has proved nothing"
                )
            step.detail = f"all {len(found.sums)} files are right; {rebuilt} reads were reconstructed from parity"
            self.progress.report.figures["reads_reconstructed"] = rebuilt

    def compile(self) -> None:
        with self.progress.step("The tree is compiled on the degraded volume") as step:
            sources = tree.compile_tests(MOUNT, self.progress)
            step.detail = f"{sources} sources, headers from the volume, {len(tree.TESTS)} programs"
        with self.progress.step("Its unit tests are run from the volume") as step:
            step.detail = f"{tree.run_tests(MOUNT)} tests passed"

    def clear(self) -> None:
        with self.progress.step("Unmount, logout, volume deleted"):
            self.stack.command("umount", str(MOUNT))
            self.stack.logout(self.disk)
            self.stack.unexport(self.export)
            self.stack.command(IRAID, "delete", PARITY, "--yes")
            self.targets.close()


class LinkedStory:
    """What it is for: targets have links of a fixed rate, and a volume has all of its targets' links together."""

    def __init__(self, progress: Progress, stack: Stack):
        self.progress = progress
        self.stack = stack
        self.network = Network(max(LINKED_MEMBERS.values()))
        self.disks: dict[str, Disk] = {}
        self.exports: list[Export] = []

    def tell(self) -> None:
        with self.progress.step("One plain target; S-iRAID on three, P-iRAID on four") as step:
            self.stack.networks.append(self.network.__enter__())
            plain = self.linked_targets("plain", 1, LINKED_MEMBER_BYTES * LINKED_MEMBERS["s0"])
            self.disks["plain"] = self.stack.login_to(plain.iqn(0), plain.portal(0))
            for name, count in LINKED_MEMBERS.items():
                self.make(name, self.linked_targets(name, count, LINKED_MEMBER_BYTES))
            self.stack.wait_resynced("p0")
            step.detail = "each target in a network of its own; the same initiator for all"
        for disk in self.disks.values():
            load.fill(disk)
        with self.progress.step("The gateway itself, links as fast as this machine") as step:
            step.detail = self.gateway_cost()
        with self.progress.step(f"Each target behind {LINK.rate_mbit:g} Mbit/s, fio at depth 16") as step:
            self.network.shape(LINK)
            self.progress.report.figures["throughput_mb_s"] = self.measure()
            self.network.shape(Link())
            step.detail = f"{len(CELLS)} cells of {CELL_SECONDS} s on each"
        with self.progress.step("Logout, volumes deleted"):
            for disk in self.disks.values():
                self.stack.logout(disk)
            for export in list(self.exports):
                self.stack.unexport(export)
                self.stack.command(IRAID, "delete", export.volume, "--yes")

    def linked_targets(self, name: str, count: int, size_bytes: int) -> LioTargets:
        return self.stack.targets(f"link-{name}", count, size_bytes, kind=NetworkTargets)

    def make(self, name: str, targets: LioTargets) -> None:
        size_bytes = self.stack.create(name, LINKED_LEVELS[name], targets.members())
        self.exports.append(self.stack.new_export(name, size_bytes))
        self.stack.export(self.exports[-1])
        self.disks[name] = self.stack.login(self.exports[-1])

    def gateway_cost(self) -> str:
        """The links are no limit here: initiator, gateway and targets share the processors."""
        found = {
            name: [load.run(self.disks[name], Cell(way, MIB), CELL_SECONDS).mb_per_s for way in ("write", "read")]
            for name in ("plain", "s0")
        }
        self.progress.report.figures["unlimited_mb_s"] = found
        return (
            "1 MiB, write / read: "
            + "; ".join(f"{LINKED_NAMES[name]} {write:.0f} / {read:.0f} MB/s" for name, (write, read) in found.items())
            + ". A gateway is a second hop, and here it takes its time from the targets' processors"
        )

    def measure(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for cell in CELLS:
            row: dict[str, object] = {
                "pattern": "sequential",
                "block": size_text(cell.block_bytes),
                "way": cell.pattern,
            }
            for name, disk in self.disks.items():
                row[LINKED_NAMES[name]] = round(load.run(disk, cell, CELL_SECONDS).mb_per_s, 1)
            found.append(row)
            self.progress.say(
                f"{cell}: " + ", ".join(f"{label} {row[label]:.0f} MB/s" for label in LINKED_NAMES.values())
            )
        return found


if __name__ == "__main__":
    sys.exit(main())
