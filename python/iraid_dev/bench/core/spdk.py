"""SPDK's bdev_raid on bdev_iscsi beside the engine: configuration and figures of its own load, bdevperf.

Somebody else has built SPDK; only its program is run, as a process for each cell, so that nothing polls while another
system is measured.  It runs without huge pages, so nothing of the machine has to be set up for it.  bdevperf begins to
count with its first command, native_load 0.5 s later.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cells import CHUNK_BYTES, GIB, KIB, MIB, Cell, Shape, ValueFault, size_text
from .processor import read_stat
from .report import NO_FIGURE, Section, markdown_table, number_text, ratio_text
from .row import Row

SYSTEM = "spdk"
LEVELS = {0: "raid0", 1: "raid1", 5: "raid5f"}
PROGRAM = Path("build/examples/bdevperf")
SETTINGS = Path("include/spdk/config.h")  # written by its make: what was built in
REMEDY = "build SPDK there: ./configure --with-iscsi-initiator --with-raid5f, then make"
VOLUME = "r0"
INITIATOR = "iqn.2026-01.org.iraid:bench"
MEMORY_MIB = 512  # its pools, without the buffers of commands
POLLED = "SPDK's core polls: its processor seconds are all that it got, whether there was work in them or not."
BEGUN, ENDED = "Running I/O for", "Latency summary"


class SpdkError(Exception):
    """bdevperf failed, or what it printed has no figures."""


def find_program(tree: Path, level: int) -> Path:
    """Of a tree that is built and can do this level, else ValueFault."""
    if level not in LEVELS:
        raise ValueFault(f"SPDK has no level {level}; choose from {', '.join(map(str, LEVELS))}")
    program = tree / PROGRAM
    if not os.access(program, os.X_OK) or not program.is_file():
        raise ValueFault(f"{program} is not there, or is no program: {REMEDY}")
    try:
        settings = (tree / SETTINGS).read_text()
    except OSError as error:
        raise ValueFault(f"{tree / SETTINGS} can't be read ({error.strerror}): {REMEDY}") from None
    for name in ("ISCSI_INITIATOR", *(["RAID5F"] if level == 5 else [])):
        if f"#define SPDK_CONFIG_{name} 1" not in settings:
            raise ValueFault(f"{program} was built without {name}: {REMEDY}")
    return program


def version(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def refusal(shape: Shape, cell: Cell) -> str | None:
    """Why SPDK does not do this cell; None: it does."""
    stripe = int(CHUNK_BYTES * shape.data_chunks)
    if LEVELS[shape.level] == "raid5f" and "write" in cell.pattern and cell.block_bytes % stripe != 0:
        return f"raid5f takes writes of whole stripes only ({size_text(stripe)})"
    return None


def configuration(shape: Shape, members: Sequence[str]) -> dict[str, Any]:
    """members: PORTAL/IQN/LUN.  No superblock: what the last cell wrote means nothing to the next."""
    names = [f"m{number}" for number in range(len(members))]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("bdev_iscsi_create", {"name": name, "initiator_iqn": INITIATOR, "url": f"iscsi://{member}"})
        for name, member in zip(names, members, strict=True)
    ]
    volume: dict[str, Any] = {"name": VOLUME, "raid_level": LEVELS[shape.level], "base_bdevs": names}
    if shape.level != 1:  # copies have no chunks: raid1 refuses to be told a size
        volume["strip_size_kb"] = CHUNK_BYTES // KIB
    calls += [("bdev_raid_create", volume), ("bdev_wait_for_examine", {})]
    return {
        "subsystems": [
            {
                "subsystem": "bdev",
                "config": [{"method": method, **({"params": params} if params else {})} for method, params in calls],
            }
        ]
    }


def command(program: Path, file: Path, cell: Cell, depth: int, seconds: int, processor: int) -> list[str]:
    """file: the configuration; processor: the one that polls."""
    memory_mib = MEMORY_MIB + -(-2 * depth * cell.block_bytes // MIB)
    return [
        str(program),
        *("--no-huge", "--no-pci", "--iova-mode", "va", "-s", str(memory_mib), "-m", f"[{processor}]"),
        *("-c", str(file), "-T", VOLUME, "-l"),
        *("-w", cell.pattern, "-o", str(cell.block_bytes), "-q", str(depth), "-t", str(seconds)),
    ]


@dataclass(frozen=True)
class Figures:
    seconds: float
    iops: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


def parse(printed: str) -> Figures:
    """Of what bdevperf -l prints about one volume."""
    runtime = re.search(rf"^\s*{VOLUME}\s*:\s+([\d.]+)\s", printed, re.MULTILINE)
    total = re.search(r"^\s*Total\s*:\s+([\d.]+)\s+[\d.]+\s+([\d.]+)", printed, re.MULTILINE)
    latency_us = {
        float(share): float(value)
        for share, value in re.findall(r"^\s*([\d.]+)% :\s+([\d.]+)us", printed, re.MULTILINE)
    }
    if not runtime or not total or not latency_us.keys() >= {50.0, 99.0, 99.9}:
        raise SpdkError(f"bdevperf printed no figures that are known:\n{printed.strip()[-800:]}")
    if float(total[2]) > 0:
        raise SpdkError(f"commands failed, {total[2]} a second:\n{printed.strip()[-800:]}")
    return Figures(float(runtime[1]), float(total[1]), *(latency_us[share] / 1e3 for share in (50.0, 99.0, 99.9)))


def _processor_seconds(process: subprocess.Popen[str]) -> float:
    """Also of one that has ended and is not waited for yet."""
    return read_stat(Path(f"/proc/{process.pid}/stat").read_text())[2].seconds


def measure(words: Sequence[str], folder: Path) -> tuple[Figures, float]:
    """Runs command(); the figures, and processor seconds between bdevperf's first command and its last.

    folder: for what DPDK leaves behind, and for bdevperf's log.
    """
    begun = spent = None
    printed = ""
    log = folder / "bdevperf.log"
    with (
        log.open("w") as faults,
        subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=faults,
            text=True,
            env=os.environ | {"RUNTIME_DIRECTORY": str(folder)},
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                printed += line
                if line.startswith(BEGUN):
                    begun = _processor_seconds(process)
                elif begun is not None and ENDED in line:
                    spent = _processor_seconds(process) - begun
            process.wait()
        finally:
            process.kill()
    if process.returncode != 0 or spent is None:
        said = "\n".join([*printed.splitlines()[:5], *log.read_text().splitlines()[-10:]])
        raise SpdkError(f"{' '.join(words)}: status {process.returncode}\n{said}")
    return parse(printed), spent


class Spdk:
    """A volume on targets of its own, which bdevperf puts up anew for each cell."""

    def __init__(self, program: Path, shape: Shape, members: Sequence[str], folder: Path):
        self.program, self.shape = program, shape
        self.folder = folder
        self.file = folder / "bdevperf.json"
        self.file.write_text(json.dumps(configuration(shape, members), indent=1))

    def measure(self, cell: Cell, depth: int, seconds: int, number: int) -> Row | None:
        """None: SPDK does not do that (refusal)."""
        if refusal(self.shape, cell):
            return None
        processor = max(os.sched_getaffinity(0))
        figures, spent = measure(command(self.program, self.file, cell, depth, seconds, processor), self.folder)
        bytes_per_s = figures.iops * cell.block_bytes
        total_gib = bytes_per_s * figures.seconds / GIB
        return Row(
            "none",
            SYSTEM,
            self.shape.level,
            self.shape.members,
            cell.pattern,
            cell.block_bytes,
            mb_per_s=bytes_per_s / 1e6,
            iops=figures.iops,
            p50_ms=figures.p50_ms,
            p99_ms=figures.p99_ms,
            p999_ms=figures.p999_ms,
            cpu_s_per_gib=spent / total_gib if total_gib > 0 else None,
            round=number,
            depth=depth,
        )


def table(rows: Sequence[Row], cells: Mapping[str, Cell], shape: Shape) -> str:
    """Medians; below it, why cells have none, and what the processor's figure is."""
    section = Section("none", shape.level, shape.members, Row.depth, {}, list(rows))
    lines, reasons = [], []
    for name, cell in cells.items():

        def text(figure: str, cell: Cell = cell) -> str:
            found = section.figure(SYSTEM, cell, figure)
            return number_text(found.median) if found else NO_FIGURE

        ratio = section.ratio("engine", SYSTEM, cell)
        lines.append(
            [
                name,
                text("mb_per_s"),
                text("iops"),
                ratio_text(ratio.median) if ratio else NO_FIGURE,
                NO_FIGURE if refusal(shape, cell) else f"{text('p50_ms')}, {text('p99_ms')}",
                text("cpu_s_per_gib"),
            ]
        )
        if reason := refusal(shape, cell):
            reasons.append(f"{name}: none of SPDK, {reason}")
    head = ["", "spdk MB/s", "IOPS", "engine : spdk", "spdk p50, p99 ms", "spdk CPU s/GiB"]
    return "\n".join([markdown_table(head, lines), "", *reasons, POLLED])
