"""iraid top: what a look at the handler says of the time since the last one, as rows; and how rows become lines of a
given width.  Nothing here asks, waits or draws: cli/top.py asks, top_screen.py draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iraid.control import model
from iraid.control.units import format_size, percent_done

from . import stats
from .stats import Flow, Stats

SORTS = ("name", "iops", "throughput", "latency", "queue")
VIEWS = ("all", "volumes", "members")
NAME_MIN, NAME_GOOD, NAME_MAX = 16, 26, 56
SELDOM = 6  # columns of this rank and above are looked at seldom
_STYLES = {
    "active": "green",
    "in sync": "green",
    "degraded": "yellow",
    "failed": "red",
    "suspended": "red",
    "faulty": "red",
    "missing": "red",
    "stopped": "dim",
    "standby": "dim",
    "spare": "dim",
}


@dataclass
class Look:
    """What was answered at one time."""

    seconds: float  # of a clock that never jumps
    time_ms: int
    volumes: list[model.Volume] = field(default_factory=list)
    stats: dict[str, Stats] = field(default_factory=dict)
    error: str | None = None  # why there is nothing


@dataclass
class Row:
    """A volume, or a member of the volume before it."""

    volume: str
    member: str | None
    label: str
    state: str
    style: str
    queue: int
    read: Flow | None = None  # None: not known
    write: Flow | None = None
    other: Flow | None = None  # flushes; of volumes zeros and compares, too
    rtt_us: int | None = None  # of several sessions the longest
    cwnd_bytes: int | None = None  # together, as is what follows
    retransmits_per_second: float | None = None
    delivery_bytes_per_second: int | None = None
    role: int | None = None
    turn: dict[str, Any] = field(default_factory=dict)  # a volume's role on this gateway, and since when

    @property
    def iops(self) -> float:
        return sum(one.per_second for one in (self.read, self.write, self.other) if one)

    @property
    def throughput(self) -> float:
        return sum(one.bytes_per_second for one in (self.read, self.write) if one)

    @property
    def latency(self) -> float:
        return max((one.mean_us or 0.0 for one in (self.read, self.write, self.other) if one), default=0.0)


@dataclass
class Frame:
    """An interval, or what is known before there is one."""

    time_ms: int
    seconds: float | None
    volumes: list[list[Row]] = field(default_factory=list)  # a volume first, then its members
    error: str | None = None
    restarted: bool = False
    runner: stats.Runner | None = None
    cpu_share: float | None = None  # of one processor


def frame(before: Look | None, now: Look) -> Frame:
    if now.error is not None:
        return Frame(now.time_ms, None, error=now.error)
    old = before if before is not None and before.error is None else None
    seconds = now.seconds - old.seconds if old else None
    made = Frame(now.time_ms, seconds)
    for volume in now.volumes:
        figures = now.stats.get(volume.name)
        made.volumes.append(_rows(volume, old.stats.get(volume.name) if old else None, figures, seconds))
    _add_runner(made, old, now)
    return made


def _add_runner(made: Frame, old: Look | None, now: Look) -> None:
    runner = next((one.runner for one in now.stats.values()), None)
    former = next((one.runner for one in old.stats.values()), None) if old else None
    made.runner = runner
    if runner is None or former is None or not made.seconds:
        return
    made.restarted = runner.pid != former.pid
    if not made.restarted:
        used = runner.user_seconds + runner.system_seconds - former.user_seconds - former.system_seconds
        made.cpu_share = max(used, 0.0) / made.seconds


def _rows(volume: model.Volume, before: Stats | None, now: Stats | None, seconds: float | None) -> list[Row]:
    # That the gateway lost its turn says more than how the rest of it ends.
    state, style = _work(volume) or volume.state, _STYLES.get(volume.state, "yellow")
    if volume.role == "fenced":
        state, style = "fenced", "red"
    row = Row(volume.name, None, volume.name, state, style, now.queue if now else 0)
    row.turn = {name: getattr(volume, name) for name in ("role", "role_since_ms", "role_changes_hour")}
    if now is None:
        return [row]
    known = before if before is not None and before.started_ms == now.started_ms else None
    if known and seconds:
        row.read, row.write = (
            stats.flow(getattr(known.commands, kind), getattr(now.commands, kind), now.bounds_us, seconds)
            for kind in ("read", "write")
        )
        rest = [[getattr(one.commands, kind) for kind in ("flush", "zero", "compare")] for one in (known, now)]
        row.other = stats.flow(stats.summed(rest[0]), stats.summed(rest[1]), now.bounds_us, seconds)
    former = {one.member: one for one in known.members} if known else {}
    filled = volume.rebuild.member
    members = [
        _member_row(volume.name, former.get(one.member), one, now.bounds_us, seconds if known else None, filled)
        for one in now.members
    ]
    if any(one.retransmits_per_second is not None for one in members):
        row.retransmits_per_second = sum(one.retransmits_per_second or 0.0 for one in members)
    return [row, *members]


def _work(volume: model.Volume) -> str:
    for name, work, active in (
        ("rebuild", volume.rebuild, volume.rebuild.member is not None),
        ("resync", volume.resync, volume.resync.running),
        ("scrub", volume.scrub, volume.scrub.active),
    ):
        if active:
            return f"{name} {percent_done(work.done_rows, work.total_rows):.0f}%"
    return ""


def _member_row(
    volume: str,
    before: stats.MemberStats | None,
    now: stats.MemberStats,
    bounds_us: list[int],
    seconds: float | None,
    filled: str | None,
) -> Row:
    state = (
        "filled" if now.member == filled else now.state if now.state != "in sync" or now.link == "open" else "silent"
    )
    role = now.role if now.role is not None and now.role >= 0 else None
    style = _STYLES.get(now.state, "yellow") if state == now.state else "yellow"
    row = Row(volume, now.member, _label(role, now.member), state, style, now.in_flight, role=role)
    if before is not None and seconds:
        row.read, row.write, row.other = (
            stats.flow(getattr(before, kind), getattr(now, kind), bounds_us, seconds)
            for kind in ("reads", "writes", "flushes")
        )
    known = [one.tcp for one in now.sessions if one.tcp is not None]
    if known:
        row.rtt_us = max(one.rtt_us for one in known)
        row.cwnd_bytes = sum(one.cwnd_bytes for one in known)
        row.delivery_bytes_per_second = sum(one.delivery_bytes_per_second for one in known)
        if before is not None and seconds:
            row.retransmits_per_second = stats.retransmits(before, now) / seconds
    return row


def _label(role: int | None, member: str) -> str:
    """ "2 10.0.0.3 disk2/0": the default port and the naming authority's part of the IQN say little."""
    portal, _, rest = member.partition("/")
    iqn, _, lun = rest.rpartition("/")
    name = iqn.partition(":")[2] or iqn
    return f"{'-' if role is None else role} {portal.removesuffix(':3260')} {name}/{lun}"


# --- order ---


def ordered(made: Frame, sort: str, view: str) -> list[Row]:
    """Rows as they are shown.  By figures the largest comes first; members stay with their volume unless alone."""
    if view == "members":
        return _sorted([row for group in made.volumes for row in group[1:]], sort)
    groups = sorted(made.volumes, key=lambda group: _sort_key(group[0], sort))
    return [row for group in groups for row in ([group[0], *_sorted(group[1:], sort)] if view == "all" else group[:1])]


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    return sorted(rows, key=lambda row: _sort_key(row, sort))


def _sort_key(row: Row, sort: str) -> tuple[Any, ...]:
    figure = 0.0 if sort == "name" else -float(getattr(row, sort))
    return figure, row.volume, row.role is None, row.role or 0, row.member or ""


# --- lines ---


@dataclass(frozen=True)
class Column:
    head: str
    width: int
    rank: int  # the highest are left out first where the width is short
    cell: Callable[[Row], str]


Line = list[tuple[str, str]]  # pieces: text and style


def _rate(flow: Flow | None) -> str:
    return "-" if flow is None else _figure(flow.per_second)


def _mib(flow: Flow | None) -> str:
    return "-" if flow is None else _figure(flow.bytes_per_second / (1 << 20))


def _ms(value_us: float | None) -> str:
    if value_us is None:
        return "-"
    return ">33s" if math.isinf(value_us) else _figure(value_us / 1000)


def _figure(value: float) -> str:
    """At most five characters where that can be: 0, 0.123, 12.3, 1234, 123k."""
    if value == 0:
        return "0"
    if value < 10:
        return f"{value:.3f}"[:5] if value < 1 else f"{value:.2f}"
    if value < 100:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 100_000 else f"{value / 1000:.0f}k"


def _optional(value: float | None, scale: float) -> str:
    return "-" if value is None else _figure(value / scale)


COLUMNS = (
    Column("STATE", 12, 1, lambda r: r.state),
    Column("r/s", 6, 0, lambda r: _rate(r.read)),
    Column("w/s", 6, 0, lambda r: _rate(r.write)),
    Column("o/s", 6, 9, lambda r: _rate(r.other)),
    Column("rMiB/s", 6, 0, lambda r: _mib(r.read)),
    Column("wMiB/s", 6, 0, lambda r: _mib(r.write)),
    Column("r ms", 6, 2, lambda r: _ms(r.read.mean_us if r.read else None)),
    Column("w ms", 6, 2, lambda r: _ms(r.write.mean_us if r.write else None)),
    Column("r p99<", 6, 3, lambda r: _ms(r.read.p99_us if r.read else None)),
    Column("w p99<", 6, 3, lambda r: _ms(r.write.p99_us if r.write else None)),
    Column("QUEUE", 5, 1, lambda r: str(r.queue)),
    Column("RTT ms", 6, 4, lambda r: "" if r.member is None else _optional(r.rtt_us, 1000)),
    Column("CWND K", 6, 6, lambda r: "" if r.member is None else _optional(r.cwnd_bytes, 1024)),
    Column("RETR/s", 6, 5, lambda r: _optional(r.retransmits_per_second, 1)),
    Column("DELIV", 6, 7, lambda r: "" if r.member is None else _optional(r.delivery_bytes_per_second, 1 << 20)),
)


def lines(rows: list[Row], width: int | None, view: str = "all") -> list[Line]:
    """A heading, then a line for each row; nothing is wider than width (None: as wide as it comes out)."""
    columns = list(COLUMNS)
    longest = max([NAME_MIN, *(len(_indented(row, view)) for row in rows)])
    if width is not None:
        while len(columns) > 1:
            last = max(columns, key=lambda column: column.rank)
            # Who it is says more than the last columns do.
            if _width(columns) + (min(longest, NAME_GOOD) if last.rank >= SELDOM else NAME_MIN) <= width:
                break
            columns.remove(last)
        longest = max(min(longest, NAME_MAX, width - _width(columns)), 4)
    head = f"{'NAME':{longest}}" + "".join(_cell(column, column.head) for column in columns)
    shown: list[Line] = [[(head[:width], "head")]]
    for row in rows:
        name = _cut(_indented(row, view), longest)
        # The state is the second piece, so that it alone has a colour.
        shown.append(
            [
                (f"{name:{longest}}", "bold" if row.member is None else ""),
                *((_cell(column, column.cell(row)), row.style if column.head == "STATE" else "") for column in columns),
            ]
        )
    return shown


def _width(columns: list[Column]) -> int:
    return sum(column.width + 1 for column in columns)


def _cell(column: Column, text: str) -> str:
    text = text[: column.width]
    return f" {text:<{column.width}}" if column.head == "STATE" else f" {text:>{column.width}}"


def _indented(row: Row, view: str) -> str:
    if row.member is None:
        return row.label
    return f"  {row.label}" if view == "all" else f"{row.volume} {row.label}"


def _cut(text: str, width: int) -> str:
    """The ends say most: role and address, and the LUN."""
    if len(text) <= width:
        return text
    front = (width - 1) * 2 // 3
    return f"{text[:front]}~{text[len(text) - (width - 1 - front) :]}"


def summary(made: Frame) -> str:
    """What the handler's process uses, and all volumes together."""
    parts = []
    volumes = [group[0] for group in made.volumes]
    if made.seconds is not None:
        total = sum(row.throughput for row in volumes)
        parts.append(f"{_figure(sum(row.iops for row in volumes))} commands/s, {format_size(int(total))}/s")
    if made.runner is not None and made.runner.pid:
        cpu = f", {made.cpu_share * 100:.0f} % of a CPU" if made.cpu_share is not None else ""
        parts.append(
            f"runner {made.runner.pid}{cpu}, {format_size(made.runner.resident_bytes)}, {made.runner.threads} threads"
        )
    return "; ".join(parts)


# --- for programs ---


def to_json(made: Frame) -> dict[str, Any]:
    return {
        "time_ms": made.time_ms,
        "seconds": None if made.seconds is None else round(made.seconds, 3),
        "error": made.error,
        "restarted": made.restarted,
        "cpu_share": made.cpu_share,
        "volumes": [
            {**_row_json(group[0]), "members": [_row_json(row) for row in group[1:]]} for group in made.volumes
        ],
    }


def _row_json(row: Row) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": row.volume} if row.member is None else {"member": row.member, "role": row.role}
    shown |= row.turn | {"state": row.state, "queue": row.queue}
    for kind, one in (("read", row.read), ("write", row.write), ("other", row.other)):
        shown[kind] = (
            None
            if one is None
            else {
                "per_second": round(one.per_second, 3),
                "bytes_per_second": round(one.bytes_per_second),
                "errors_per_second": round(one.errors_per_second, 3),
                "mean_us": None if one.mean_us is None else round(one.mean_us),
                # JSON knows no infinity: beyond the last bound it is null, as without a command.
                "p99_us": None if one.p99_us is None or math.isinf(one.p99_us) else round(one.p99_us),
            }
        )
    if row.member is not None:
        shown |= {
            "rtt_us": row.rtt_us,
            "cwnd_bytes": row.cwnd_bytes,
            "delivery_bytes_per_second": row.delivery_bytes_per_second,
        }
    return shown | {"retransmits_per_second": row.retransmits_per_second}
