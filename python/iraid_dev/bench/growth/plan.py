"""What the growth profile measures: what a volume costs as members, volumes, jobs and bytes become more.  Figures only."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from iraid_dev.bench.core import plan
from iraid_dev.bench.core.cells import CHUNK_BYTES, GIB, KIB, MEMBERS_MIN_MAX, MIB, Cell, Shape, ValueFault

TIB = 1024 * GIB
MEMBER_BYTES = 64 * MIB
NATIVE_MEMBER_BYTES = 128 * MIB
FOUR = Shape(5, 4)  # where it is not the members that grow
AREA_BYTES = 64 * MIB  # of a large volume that is loaded at one place
JOB_DEPTH = 4  # 32 jobs have 128 commands in flight, as many as a LUN's session takes
SPARSE_BYTES = 512 * MIB  # what a volume of any size takes while it is measured: three areas, random writes, metadata
NATIVE_LOAD_BYTES = 512 * MIB
UNITS = {"G": GIB, "T": TIB}
BOUNDS = {"members": (2, 32), "volumes": (1, 16), "jobs": (1, 32), "sizes": (GIB, 64 * TIB)}
SECONDS_MAX, ROUNDS_MAX = 60, 20
# Seconds in user-mode Linux; other kernels by the relation of their times in plan.py.
RUNNER, SYSTEM, MEMBER, LOGIN = 3.0, 6.0, 0.7, 2.0
PROOF = 4.0  # of the parity of what was filled
MANY_JOBS = 0.06  # of each job beyond the first


@dataclass(frozen=True)
class Settings:
    only: tuple[str, ...]
    kernel: str = "uml"
    levels: tuple[int, ...] = (0, 5, 6)
    members: tuple[int, ...] = (2, 4, 8, 16)
    volumes: tuple[int, ...] = (1, 2, 4, 8)
    jobs: tuple[int, ...] = (1, 4, 16, 32)
    sizes: tuple[int, ...] = (GIB, 64 * GIB, TIB, 16 * TIB, 64 * TIB)  # bytes
    seconds: float = 1.5
    rounds: int = 1

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        return cls(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
        )

    def check(self) -> None:
        if not self.shapes() and {"members", "members-native"} & set(self.only):
            raise ValueFault(
                f"--members {','.join(map(str, self.members))} --levels {','.join(map(str, self.levels))}: none of "
                "these levels has so few members, or so many"
            )
        if not 0.1 <= self.seconds <= SECONDS_MAX:
            raise ValueFault(f"--seconds {self.seconds:g} is not in 0.1..{SECONDS_MAX}")
        if not 1 <= self.rounds <= ROUNDS_MAX:
            raise ValueFault(f"--rounds {self.rounds} is not in 1..{ROUNDS_MAX}")

    def shapes(self) -> list[Shape]:
        """Each level with each number of members that it can have."""
        return [
            Shape(level, count)
            for level in self.levels
            for count in self.members
            if MEMBERS_MIN_MAX[level][0] <= count <= MEMBERS_MIN_MAX[level][1]
        ]

    @property
    def in_lab(self) -> tuple[str, ...]:
        return tuple(name for name in self.only if not EXPERIMENTS[name].native)

    @property
    def native(self) -> tuple[str, ...]:
        return tuple(name for name in self.only if EXPERIMENTS[name].native)

    def disk_bytes(self) -> int:
        """Memory that the disks in the lab take."""
        return max((EXPERIMENTS[name].memory_bytes(self) for name in self.in_lab), default=0)

    def check_memory(self, available_bytes: int) -> None:
        """Of the lab, and of what is measured without it: one after the other."""
        wanted = self.disk_bytes() + plan.GUEST_BYTES if self.in_lab else 0
        for name in self.native:
            wanted = max(wanted, EXPERIMENTS[name].memory_bytes(self) + NATIVE_LOAD_BYTES)
        if 0 < available_bytes < wanted:
            raise ValueFault(
                f"{', '.join(self.only)} take {wanted / GIB:.1f} GiB of memory, {available_bytes / GIB:.1f} are free: "
                "choose fewer members or volumes, or one experiment at a time (--only)"
            )


def cells_of(shape: Shape) -> tuple[Cell, ...]:
    """The last one: commands of one full row."""
    row = Cell("write", int(shape.data_chunks * CHUNK_BYTES))
    small = (Cell("write", 64 * KIB), Cell("read", 64 * KIB), Cell("randread", 4 * KIB), Cell("randwrite", 4 * KIB))
    return tuple(dict.fromkeys((*small, row)))


def places_of(size_bytes: int) -> dict[str, int]:
    """Where a large volume is loaded: name -> offset of AREA_BYTES."""
    last = size_bytes - AREA_BYTES
    return {name: offset // MIB * MIB for name, offset in (("start", 0), ("middle", last // 2), ("end", last))}


def member_bytes_of(volume_bytes: int) -> int:
    """Enough for a volume on FOUR of at least that size: checksums take 4 bytes of 4096, the log and the map up to 64 MiB."""
    data = -(-volume_bytes // int(FOUR.data_chunks))
    return (data + data // 1000 + 64 * MIB + MIB - 1) // MIB * MIB


def size_text(size_bytes: int) -> str:
    return f"{size_bytes / TIB:g} TiB" if size_bytes >= TIB else f"{size_bytes / GIB:g} GiB"


# --- experiments ---


@dataclass(frozen=True)
class Experiment:
    about: str
    memory_bytes: Callable[[Settings], int]
    seconds: Callable[[Settings], float]
    native: bool = False


def _most_members(settings: Settings) -> int:
    return max((shape.members for shape in settings.shapes()), default=0)


def _slow(settings: Settings) -> float:
    return plan.PUT_UP[settings.kernel] / plan.PUT_UP["uml"]


def _cell(settings: Settings, jobs: int = 1) -> float:
    return settings.rounds * (settings.seconds + plan.FIO[settings.kernel] + MANY_JOBS * (jobs - 1) * _slow(settings))


def _put_up(members: int) -> float:
    """Also down again."""
    return SYSTEM + MEMBER * members


def _members_seconds(settings: Settings) -> float:
    total = 0.0
    for shape in settings.shapes():
        beside = _put_up(shape.members) + LOGIN * shape.members  # md
        total += _slow(settings) * (RUNNER + _put_up(shape.members) + beside)
        total += 2 * len(cells_of(shape)) * _cell(settings)
    return total


def _volumes_seconds(settings: Settings) -> float:
    total = _slow(settings) * (RUNNER + max(settings.volumes) * _put_up(FOUR.members))
    return total + sum(len(cells_of(FOUR)) * _cell(settings, count) for count in settings.volumes)


def _jobs_seconds(settings: Settings) -> float:
    total = _slow(settings) * (RUNNER + 2 * _put_up(FOUR.members) + LOGIN * FOUR.members + SYSTEM)
    return total + sum(3 * len(cells_of(FOUR)) * _cell(settings, count) for count in settings.jobs)


def _sizes_seconds(settings: Settings) -> float:
    cells = 3 * (len(cells_of(FOUR)) - 1) + 2  # at three places, and two all over
    once = _slow(settings) * (_put_up(FOUR.members) + PROOF)
    return len(settings.sizes) * (once + cells * _cell(settings))


def _native_seconds(cells: int, settings: Settings) -> float:
    return plan.NATIVE_PUT_UP + 2 * cells * settings.rounds * (settings.seconds + plan.NATIVE_CELL)


EXPERIMENTS = {
    "members": Experiment(
        "iraid and md, levels and members", lambda s: 2 * _most_members(s) * MEMBER_BYTES, _members_seconds
    ),
    "volumes": Experiment(
        "several volumes of one runner, all loaded at once",
        lambda s: max(s.volumes) * FOUR.members * MEMBER_BYTES,
        _volumes_seconds,
    ),
    "jobs": Experiment(
        "iraid, md and a plain target under several jobs",
        lambda s: (2 * FOUR.members + 2) * MEMBER_BYTES,
        _jobs_seconds,
    ),
    "sizes": Experiment(
        "volumes of many TiB, on sparse members", lambda s: len(s.sizes) * SPARSE_BYTES, _sizes_seconds
    ),
    "members-native": Experiment(
        "the engine and plain sessions, levels and members; no kernel",
        lambda s: 2 * _most_members(s) * NATIVE_MEMBER_BYTES,
        lambda s: sum(_native_seconds(len(cells_of(shape)), s) for shape in s.shapes()),
        native=True,
    ),
    "jobs-native": Experiment(
        f"the engine and plain sessions, {JOB_DEPTH} commands in flight for each job; no kernel",
        lambda s: 2 * FOUR.members * NATIVE_MEMBER_BYTES,
        lambda s: sum(_native_seconds(len(cells_of(FOUR)), s) for _ in s.jobs),
        native=True,
    ),
}


def estimate_seconds(settings: Settings) -> float:
    boot = plan.BOOT[settings.kernel] if settings.in_lab else 0
    return boot + sum(EXPERIMENTS[name].seconds(settings) for name in settings.only)


# --- what was typed ---


def parse_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        raise ValueFault(f"--only {unknown[0]}: there is no such experiment; choose from {', '.join(EXPERIMENTS)}")
    return names


def parse_levels(text: str) -> tuple[int, ...]:
    found = _numbers("levels", text)
    if unknown := [level for level in found if level not in MEMBERS_MIN_MAX]:
        raise ValueFault(f"--levels {unknown[0]} is no level; choose from {', '.join(map(str, MEMBERS_MIN_MAX))}")
    return found


def parse_counts(option: str, text: str) -> tuple[int, ...]:
    """In ascending order: volumes are added to those that are there."""
    least, most = BOUNDS[option]
    for count in (found := _numbers(option, text)):
        if not least <= count <= most:
            raise ValueFault(f"--{option} {count} is not in {least}..{most}")
    return tuple(sorted(found))


def parse_sizes(text: str) -> tuple[int, ...]:
    found = []
    for word in text.split(","):
        if word[-1:] not in UNITS or not word[:-1].isdecimal():
            raise ValueFault(f"--sizes {word}: a size is a number with G or T behind it, such as 64G or 16T")
        found.append(int(word[:-1]) * UNITS[word[-1]])
        if not BOUNDS["sizes"][0] <= found[-1] <= BOUNDS["sizes"][1]:
            raise ValueFault(f"--sizes {word} is not in 1G..64T")
    return tuple(sorted(set(found)))


def _numbers(option: str, text: str) -> tuple[int, ...]:
    words = text.split(",")
    if wrong := [word for word in words if not word.isdecimal()]:
        raise ValueFault(f"--{option} {text}: '{wrong[0]}' is no number; write them as 2,4,8")
    return tuple(dict.fromkeys(map(int, words)))


def settings_of(values: dict[str, Any]) -> Settings:
    """values: by option, None where nothing was typed."""
    parse: dict[str, Callable[[str], Any]] = {
        "only": parse_names,
        "levels": parse_levels,
        "sizes": parse_sizes,
        **{name: partial(parse_counts, name) for name in ("members", "volumes", "jobs")},
    }
    given = {
        name: parse[name](value) if name in parse else value for name, value in values.items() if value is not None
    }
    settings = Settings(**{"only": tuple(EXPERIMENTS)} | given)
    settings.check()
    return settings
