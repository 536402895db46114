"""Tables of what the growth profile measured: one line for each number of members, volumes, jobs, or size.

Medians over rounds.  Memory is the largest that was seen at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from iraid_dev.bench.core import report
from iraid_dev.bench.core.cells import KIB, Cell
from iraid_dev.bench.core.report import NO_FIGURE, number_text, spread
from iraid_dev.bench.core.row import SYSTEMS, Row

from . import plan as growth_plan

SMALL_BLOCKS = (4 * KIB, 64 * KIB)
FULL_ROWS = "full rows write"
Key = tuple[Any, ...]


def of_experiment(rows: Iterable[Row], name: str) -> list[Row]:
    return [row for row in rows if row.conditions.get("experiment") == name]


def cell_name(row: Row) -> str:
    return str(Cell(row.pattern, row.block_bytes)) if row.block_bytes in SMALL_BLOCKS else FULL_ROWS


def cell_names(rows: Iterable[Row]) -> list[str]:
    """In the order of measuring, full rows last."""
    names = list(dict.fromkeys(cell_name(row) for row in rows))
    return sorted(names, key=lambda name: name == FULL_ROWS)


def median_text(values: Iterable[float | None]) -> str:
    found = spread(value for value in values if value is not None)
    return NO_FIGURE if found is None else number_text(found.median)


@dataclass(frozen=True)
class Lines:
    """What a line of a table stands for: heads of its first columns, and what they hold for a row."""

    heads: tuple[str, ...]
    key: Callable[[Row], Key]

    def table(self, rows: Sequence[Row], cell: Callable[[list[Row]], str], of_what: str) -> str:
        """A line each key, a column each cell."""
        names = cell_names(rows)
        lines = []
        for key in dict.fromkeys(map(self.key, rows)):
            mine = [row for row in rows if self.key(row) == key]
            found = [[row for row in mine if cell_name(row) == name] for name in names]
            lines.append([*map(str, key), *(cell(those) if those else NO_FIGURE for those in found)])
        return report.markdown_table(
            [*self.heads, *(f"{name}, {of_what}" if number == 0 else name for number, name in enumerate(names))], lines
        )


def throughput(those: list[Row]) -> str:
    return median_text(row.mb_per_s for row in those)


def shares(those: list[Row]) -> str:
    """The sum, and what the volumes got that had least and most."""
    text = throughput(those)
    each = [value for row in those for value in row.conditions["measured"]["each_mb_per_s"]]
    return (
        text
        if len(those[0].conditions["measured"]["each_mb_per_s"]) == 1
        else f"{text} ({number_text(min(each))}-{number_text(max(each))})"
    )


def processor(those: list[Row]) -> str:
    total = median_text(row.cpu_s_per_gib for row in those)
    if those[0].process_cpu_s_per_gib is None:
        return total
    return f"{total} ({median_text(row.process_cpu_s_per_gib for row in those)})"


# --- memory ---


def _mib(kib: int | None) -> str:
    return NO_FIGURE if kib is None else f"{kib / KIB:.1f}"


def memory_table(rows: Sequence[Row], lines: Lines, volumes: Callable[[Row], int] = lambda _: 1) -> str:
    """MiB.  Empty where no runner was looked at."""
    rows = [row for row in rows if "after" in row.conditions.get("measured", {})]
    if not rows:
        return ""
    found = []
    for key in dict.fromkeys(map(lines.key, rows)):
        mine = [row for row in rows if lines.key(row) == key]
        seen = [row.conditions["measured"] for row in mine]
        empty, idle = seen[0]["empty"], seen[0]["idle"]
        most = {name: max(each["after"][name] for each in seen) for name in seen[0]["after"]}
        count = volumes(mine[0])
        found.append(
            [
                *map(str, key),
                _mib(empty["rss_kib"]),
                _mib(idle["rss_kib"]),
                _mib(most["rss_kib"]),
                _mib(most["pss_kib"]),
                _mib(most["ring_kib"]),
                _mib(most["own_kib"]),
                _mib((most["own_kib"] - empty["own_kib"]) // count),
                _mib(most["buffers_kib"]),
            ]
        )
    return report.markdown_table(
        [
            *lines.heads,
            "RSS without a volume, MiB",
            "with an idle one",
            "RSS after load",
            "PSS",
            "of it ring and data area",
            "of it own",
            "own, for each volume",
            "buffers",
        ],
        found,
    )


# --- sections ---


def _members(rows: list[Row]) -> list[str]:
    parts = []
    for level in sorted({row.level for row in rows}, key=lambda level: -1 if level is None else level):
        mine = sorted((row for row in rows if row.level == level), key=lambda row: row.members)
        lines = Lines(("members", "system"), lambda row: (row.members, row.system))
        parts += [
            f"### Level {level}",
            lines.table(mine, throughput, "MB/s"),
            lines.table(mine, processor, "CPU s/GiB"),
            memory_table(mine, lines),
        ]
    return parts


def _volumes(rows: list[Row]) -> list[str]:
    lines = Lines(("volumes",), lambda row: (row.conditions["volumes"],))
    return [
        lines.table(rows, shares, "MB/s"),
        lines.table(rows, processor, "CPU s/GiB"),
        memory_table(rows, lines, lambda row: row.conditions["volumes"]),
    ]


def _jobs(rows: list[Row]) -> list[str]:
    lines = Lines(("jobs", "system"), lambda row: (row.conditions["jobs"], row.system))
    rows = sorted(rows, key=lambda row: (row.conditions["jobs"], list(SYSTEMS).index(row.system)))
    return [
        lines.table(rows, throughput, "MB/s"),
        lines.table(rows, latency, "p50 / p99 ms"),
        lines.table(rows, processor, "CPU s/GiB"),
        memory_table(rows, lines),
    ]


def latency(those: list[Row]) -> str:
    return f"{median_text(row.p50_ms for row in those)} / {median_text(row.p99_ms for row in those)}"


def _sizes(rows: list[Row]) -> list[str]:
    at = Lines(
        ("size", "place"), lambda row: (growth_plan.size_text(row.conditions["size_bytes"]), row.conditions["place"])
    )
    size = Lines(("size",), lambda row: (growth_plan.size_text(row.conditions["size_bytes"]),))
    rows = sorted(rows, key=lambda row: row.conditions["size_bytes"])
    return [at.table(rows, throughput, "MB/s"), at.table(rows, processor, "CPU s/GiB"), _times(rows, size)]


def _times(rows: list[Row], lines: Lines) -> str:
    found = []
    for key in dict.fromkeys(map(lines.key, rows)):
        seen = [row.conditions["measured"] for row in rows if lines.key(row) == key]
        times = seen[0]["times"]
        found.append(
            [
                *key,
                str(seen[0]["regions"]),
                f"{seen[0]['region_bytes'] // KIB} KiB",
                *(number_text(times[name]) for name in ("create", "create_assemble", "stop", "assemble")),
                number_text(1e3 * times["status"]),
                number_text(1e3 * max(each["times"]["status_after"] for each in seen)),
                _mib(seen[0]["added_kib"]),
                _mib(max(each["buffers_kib"] for each in seen)),
            ]
        )
    return report.markdown_table(
        [
            *lines.heads,
            "regions",
            "of (on a member)",
            "create, s",
            "assembled after it, s",
            "stop, s",
            "assemble, s",
            "status, ms",
            "status after load, ms",
            "own memory, idle, MiB",
            "buffers after load",
        ],
        found,
    )


SECTIONS: dict[str, tuple[str, Callable[[list[Row]], list[str]]]] = {
    "members": ("Members", _members),
    "members-native": ("Members, no kernel", _members),
    "volumes": ("Volumes of one runner, all loaded at once: the sum (least and most of one)", _volumes),
    "jobs": (f"Jobs on one volume, {growth_plan.JOB_DEPTH} commands in flight each", _jobs),
    "jobs-native": (f"Commands in flight, {growth_plan.JOB_DEPTH} for each job, no kernel", _jobs),
    "sizes": ("Size of the volume", _sizes),
}


def tables(rows: Sequence[Row]) -> str:
    parts = []
    for name, (title, make) in SECTIONS.items():
        if found := of_experiment(rows, name):
            parts += [f"## {title}", *(part for part in make(found) if part)]
    return "\n\n".join(parts)


def markdown(heads: Sequence[dict[str, Any]], rows: Sequence[Row]) -> str:
    parts = [
        "# Cost as it grows",
        "\n".join(["- " + "\n  ".join(report.head_lines(head)) for head in heads]),
        "Medians over rounds. CPU: of the whole machine without the load, in brackets the runner's process alone; without a kernel: "
        "of the process that has the engine, or the sessions, and makes the load. docs/design/growth.md says what is measured how.",
    ]
    return "\n\n".join([*parts, tables(rows)]) + "\n"
