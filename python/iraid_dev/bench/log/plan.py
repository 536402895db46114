"""What the log profile measures: small writes on iraid with each mode of its write log, and on md with each of its own means.

Level 5 on four targets; md's journal is on a fifth.  The members are large and sparse, for iraid's log has a share of them, and
only the first AREA_BYTES of each disk are loaded.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from iraid_dev.bench.core import plan
from iraid_dev.bench.core.cells import GIB, KIB, MIB, Cell, Shape, ValueFault

SHAPE = Shape(5, 4)
LINKS = SHAPE.members + 1
OUT = 2  # the member that is out
AREA_BYTES = 256 * MIB
HOT_BYTES = 64 * MIB
WHOLE = {
    "iraid-off": "iraid, log = off",
    "iraid-degraded": "iraid, log = degraded: nothing is logged while all members are there",
    "iraid-always": "iraid, log = always",
    "md": "md over open-iscsi with its internal bitmap, re-exported by LIO",
    "md-ppl": "the same with a partial parity log (PPL) instead",
    "md-journal": "the same with a journal on a fifth target, write-back (write-through while a member is out)",
}
SYSTEMS = WHOLE | {f"{name}-out": f"{name} with one member out" for name in WHOLE}
SECONDS_MAX, ROUNDS_MAX, RTT_MS_MAX = 60, 20, 100.0
MEMBER_MIB_MIN_MAX = (192, 65536)
# Memory: of a system, what is written to its members, with parity, logs and maps; of a journal, all of it.
SYSTEM_BYTES = AREA_BYTES * SHAPE.members // (SHAPE.members - 1) + 64 * MIB
QUIET_SECONDS = 1.0  # after a cell, until nothing is written any more
RESYNC_BYTES_PER_S = {"uml": 100 * MIB, "qemu": 20 * MIB, "host": 400 * MIB}  # of one member


@dataclass(frozen=True)
class Workload(Cell):
    name: str
    about: str
    depth: int = 1
    size_bytes: int = AREA_BYTES  # from the start of the disk
    options: tuple[str, ...] = ()  # of fio

    def __str__(self) -> str:
        return self.name


def _random(block: str, block_bytes: int, depth: int) -> Workload:
    about = f"{block} at random, depth {depth}"
    return Workload("randwrite", block_bytes, f"{block}-d{depth}", about, depth)


def _hot(depth: int) -> Workload:
    about = f"4k in {HOT_BYTES // MIB} MiB, few places most often (zipf), depth {depth}"
    return Workload("randwrite", 4 * KIB, f"hot-d{depth}", about, depth, HOT_BYTES, ("--random_distribution=zipf",))


CELLS = (
    *(_random("4k", 4 * KIB, depth) for depth in (1, 4, 32)),
    *(_random("64k", 64 * KIB, depth) for depth in (1, 4, 32)),
    *(_hot(depth) for depth in (1, 16)),
    Workload("write", 8 * KIB, "database", "8k in sequence, each flushed", options=("--fdatasync=1",)),
)
CELLS_BY_NAME = {cell.name: cell for cell in CELLS}


@dataclass(frozen=True)
class Settings:
    kernel: str = "qemu"
    systems: tuple[str, ...] = (*WHOLE, "iraid-off-out", "iraid-degraded-out")
    rtts_ms: tuple[float, ...] = (0.0,)
    cells: tuple[str, ...] = tuple(CELLS_BY_NAME)
    seconds: float = 3
    rounds: int = 3
    member_mib: int = 1024
    cache: str = "back"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        return cls(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
        )

    @property
    def workloads(self) -> list[Workload]:
        return [CELLS_BY_NAME[name] for name in self.cells]

    def check(self) -> None:
        for option, value, (least, most) in (
            ("seconds", self.seconds, (0.1, SECONDS_MAX)),
            ("rounds", self.rounds, (1, ROUNDS_MAX)),
            ("member-mib", self.member_mib, MEMBER_MIB_MIN_MAX),
        ):
            if not least <= value <= most:
                raise ValueFault(f"--{option} {value:g} is not in {least:g}..{most:g}")

    def disk_bytes(self) -> int:
        """Memory that the members take; all systems are up at the same time."""
        return sum(SYSTEM_BYTES + ("journal" in name) * plan.JOURNAL_BYTES for name in self.systems)

    def check_memory(self, available_bytes: int) -> None:
        wanted = self.disk_bytes() + plan.GUEST_BYTES
        if 0 < available_bytes < wanted:
            raise ValueFault(
                f"{len(self.systems)} systems take {wanted / GIB:.1f} GiB of memory, {available_bytes / GIB:.1f} are "
                "free: choose fewer (--systems)"
            )


def estimate_seconds(settings: Settings) -> float:
    resync = settings.member_mib * MIB / RESYNC_BYTES_PER_S[settings.kernel]
    once = sum(plan.PUT_UP[settings.kernel] + (resync if name.startswith("iraid") else 0) for name in settings.systems)
    cell = settings.seconds + plan.FIO[settings.kernel] + QUIET_SECONDS
    measured = settings.rounds * len(settings.cells) * len(settings.systems) * cell
    return plan.BOOT[settings.kernel] + once + len(settings.rtts_ms) * measured


# --- what was typed ---


def _names(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of `known`."""
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise ValueFault(f"--{option} {unknown[0]}: there is none of that name; choose from {', '.join(known)}")
    return tuple(name for name in known if name in names)


def _rtts(text: str) -> tuple[float, ...]:
    try:
        found = tuple(dict.fromkeys(float(word) for word in text.split(",")))
    except ValueError:
        raise ValueFault(f"--rtt {text} is no list of milliseconds; write them as 0,1,8") from None
    if wrong := [rtt for rtt in found if not 0 <= rtt <= RTT_MS_MAX]:
        raise ValueFault(f"--rtt {wrong[0]:g} is not in 0..{RTT_MS_MAX:g}")
    return found


def settings_of(typed: dict[str, Any]) -> Settings:
    """typed: by option, None where nothing was typed."""
    given = {name: value for name, value in typed.items() if value is not None}
    if "systems" in given:
        given["systems"] = _names("systems", given["systems"], tuple(SYSTEMS))
    if "cells" in given:
        given["cells"] = _names("cells", given["cells"], tuple(CELLS_BY_NAME))
    if "rtt" in given:
        given["rtts_ms"] = _rtts(given.pop("rtt"))
    settings = Settings(**given)
    settings.check()
    return settings
