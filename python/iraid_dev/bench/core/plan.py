"""What a run measures, and how long it will take: profiles, groups, the estimate.

A group is what is up at the same time and measured cell by cell in turn: all systems of one level, and those that have no
level (the plain target, the ceiling) beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from .cells import CELLS, GIB, MIB, Cell, Shape, ValueFault, parse_shapes

IN_LAB = ("plain", "iraid", "md", "md-nobitmap", "md-ppl", "md-journal", "lvm", "ceiling")  # in the order of tables
NATIVE = ("engine", "raw")
WITHOUT_LEVEL = ("plain", "ceiling")
MEMBER_BYTES = 192 * MIB
PLAIN_BYTES = 2 * MEMBER_BYTES
JOURNAL_BYTES = 256 * MIB  # of md-journal, beside its members
LEVELS = {"md-nobitmap": (1, 5, 6, 10), "md-ppl": (5,), "md-journal": (5, 6), "lvm": (5, 6)}  # others have all
GUEST_BYTES = 1024 * MIB  # of the lab, beside the disks
KERNELS = ("uml", "qemu", "host")
# Seconds, as seen on two cores without KVM: the kernel's start and end, a system put up, and fio's start and end.
BOOT = {"uml": 15, "qemu": 60, "host": 2}
PUT_UP = {"uml": 15, "qemu": 55, "host": 3}
FIO = {"uml": 1.0, "qemu": 2.7, "host": 0.3}
NATIVE_PUT_UP, NATIVE_CELL = 8, 0.7


@dataclass(frozen=True)
class Plan:
    kernel: str
    systems: tuple[str, ...]
    shapes: tuple[Shape, ...]
    cells: tuple[Cell, ...]
    seconds: float
    rounds: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        value = json.loads(text)
        return cls(
            **value
            | {
                "systems": tuple(value["systems"]),
                "shapes": tuple(Shape(**shape) for shape in value["shapes"]),
                "cells": tuple(Cell(**cell) for cell in value["cells"]),
            }
        )

    @property
    def in_lab(self) -> tuple[str, ...]:
        return tuple(name for name in IN_LAB if name in self.systems)

    @property
    def native(self) -> tuple[str, ...]:
        return tuple(name for name in NATIVE if name in self.systems)

    def groups(self) -> Iterator[list[tuple[str, Shape | None]]]:
        """Of systems in the lab."""
        without: list[tuple[str, Shape | None]] = [(name, None) for name in self.in_lab if name in WITHOUT_LEVEL]
        if len(without) == len(self.in_lab):
            if without:
                yield without
            return
        for shape in self.shapes:
            levelled: list[tuple[str, Shape | None]] = [
                (name, shape) for name in self.in_lab if name not in WITHOUT_LEVEL and exists(name, shape.level)
            ]
            if levelled:
                yield without + levelled

    def check(self) -> None:
        if not any(self.groups()) and not self.native:
            names = ",".join(self.systems)
            there = "; ".join(f"{name} has level {', '.join(map(str, LEVELS[name]))}" for name in self.in_lab)
            levels = ",".join(str(shape.level) for shape in self.shapes)
            raise ValueFault(f"--systems {names} --levels {levels}: there is nothing to measure: {there}")

    def disk_bytes(self) -> int:
        """Memory that the disks of the largest group take."""
        return max((sum(disk_bytes(name, shape) for name, shape in group) for group in self.groups()), default=0)

    def check_memory(self, available_bytes: int) -> None:
        if 0 < available_bytes < self.disk_bytes() + GUEST_BYTES:
            raise ValueFault(
                f"the targets' disks take {self.disk_bytes() / GIB:.1f} GiB of memory and the lab "
                f"{GUEST_BYTES / GIB:.1f}, {available_bytes / GIB:.1f} are free: choose fewer systems or members"
            )


def exists(name: str, level: int) -> bool:
    return level in LEVELS.get(name, (level,))


def disk_bytes(name: str, shape: Shape | None) -> int:
    """Memory that a system's disks take."""
    if name in WITHOUT_LEVEL:
        return PLAIN_BYTES if name == "plain" else 0
    assert shape is not None
    return shape.members * MEMBER_BYTES + (JOURNAL_BYTES if name == "md-journal" else 0)


@dataclass(frozen=True)
class Profile:
    about: str
    kernel: str
    systems: tuple[str, ...]
    levels: str
    seconds: float
    rounds: int
    cells: tuple[Cell, ...] = CELLS

    def shapes(self) -> tuple[Shape, ...]:
        return parse_shapes(self.levels)


PROFILES = {
    "short": Profile("iraid and md on 4 targets beside one such target", "uml", ("plain", "iraid", "md"), "0,5", 1, 2),
    "quick": Profile("iraid and md, level 5 on 4 targets, in Debian's kernel", "qemu", ("iraid", "md"), "5", 3, 3),
    "peers": Profile("whatever has parity, and a null handler, level 5, in Debian's kernel", "qemu", IN_LAB, "5", 3, 3),
    "full": Profile(
        "all levels", "uml", ("plain", "iraid", "md", "md-nobitmap", "ceiling") + NATIVE, "0,1,5,6,10", 4, 3
    ),
}


def estimate_seconds(plan: Plan) -> float:
    total = 0.0
    for group in plan.groups():
        total += len(group) * PUT_UP[plan.kernel]
        total += len(group) * len(plan.cells) * plan.rounds * (plan.seconds + FIO[plan.kernel])
    if total > 0:
        total += BOOT[plan.kernel]
    if plan.native:
        cells = len(plan.cells) * plan.rounds * len(plan.native)
        total += len(plan.shapes) * (NATIVE_PUT_UP + cells * (plan.seconds + NATIVE_CELL))
    return total


def duration_text(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
