"""steps: where the time of commands goes, from counters that the handler keeps anyway (docs/operating/steps.md)."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import click

from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.control.units import format_duration
from iraid.watch import stats

from .commands import NAME, command, print_json
from .report import Report

PERCENTILES = (("p50_us", 0.5), ("p95_us", 0.95), ("p99_us", 0.99), ("p99_9_us", 0.999))
THREAD = ("idle", "receive", "engine", "code", "send")


# --- what --json shows ---


@dataclass
class Times:
    name: str
    state: str
    seconds: float  # that it is about
    steps: list[dict[str, Any]]
    commands: list[dict[str, Any]]
    thread: dict[str, float] | None  # shares of its time; None: there was no time
    process: dict[str, float] | None  # processors; None: also since before the volume was started


@command(
    NAME,
    click.option(
        "--interval",
        type=click.FloatRange(0.1, 3600),
        metavar="SECONDS",
        help="Measure for this time, instead of since the volume was started.",
    ),
    examples="iraid steps v0\niraid steps v0 --interval 10\niraid steps v0 --json | jq '.steps[] | {step, mean_us}'",
)
def steps(client: Client, report: Report | None, name: str, interval: float | None) -> None:
    """Show how long a volume's commands take, and how much of that each step takes.

    The handler always counts this: the command costs nothing, and needs no tracing in the kernel.
    """
    after = _ask(client, name)
    before = _nothing(after)
    if interval is not None:
        before = after
        time.sleep(interval)
        after = _ask(client, name)
        if after.started_ms != before.started_ms:
            raise IraidError(
                f"volume {name} was restarted within these {interval:g} s, which cleared its figures",
                "run it again",
                kind="busy",
            )
    made = _times(before, after, interval is not None)
    if report is None:
        return print_json(asdict(made))
    _report(report, made, interval)


def _ask(client: Client, name: str) -> stats.Stats:
    figures = stats.ask(client, name)
    if figures.started_ms == 0:
        raise IraidError(
            f"volume {name} is {figures.state}: it has no figures", f"start it: iraid start {name}", kind="busy"
        )
    return figures


def _nothing(after: stats.Stats) -> stats.Stats:
    """When it was started."""
    return stats.Stats(
        after.name,
        time_ms=after.started_ms,
        started_ms=after.started_ms,
        steps=[stats.Step(one.step) for one in after.steps],
    )


# --- between two answers ---


def _times(before: stats.Stats, after: stats.Stats, watched: bool) -> Times:
    seconds = max(after.time_ms - before.time_ms, 0) / 1000
    return Times(
        after.name,
        after.state,
        seconds,
        _steps(before.steps, after.steps),
        [
            _command(kind, getattr(before.commands, kind), getattr(after.commands, kind), after.bounds_us)
            for kind in stats.OPERATIONS
        ],
        _thread(before.thread, after.thread),
        _process(before.runner, after.runner, seconds) if watched else None,
    )


def _steps(before: list[stats.Step], after: list[stats.Step]) -> list[dict[str, Any]]:
    sums = [new.sum_us - old.sum_us for old, new in zip(before, after, strict=True)]
    whole = sum(sums)
    return [
        {
            "step": new.step,
            "count": new.count - old.count,
            "mean_us": round(took / (new.count - old.count), 1) if new.count > old.count else None,
            "share": round(took / whole, 4) if whole else 0.0,
            "max_us": new.max_us,
        }
        for old, new, took in zip(before, after, sums, strict=True)
    ]


def _command(kind: str, before: stats.Counter, after: stats.Counter, bounds_us: list[int]) -> dict[str, Any]:
    count = after.count - before.count
    buckets = stats.difference(before.buckets, after.buckets)
    made: dict[str, Any] = {
        "command": kind,
        "count": count,
        "errors": after.errors - before.errors,
        "bytes": after.bytes - before.bytes,
        "mean_us": round((after.sum_us - before.sum_us) / count, 1) if count else None,
    }
    return made | {key: _bound(buckets, bounds_us, share) for key, share in PERCENTILES}


def _bound(buckets: list[int], bounds_us: list[int], share: float) -> int | None:
    """None: there is none, or it is beyond the last bound."""
    bound = stats.percentile(buckets, bounds_us, share)
    return None if bound is None or bound == float("inf") else int(bound)


def _thread(before: stats.Thread, after: stats.Thread) -> dict[str, float] | None:
    spent = {part: getattr(after, f"{part}_us") - getattr(before, f"{part}_us") for part in THREAD}
    whole = sum(spent.values())
    return {part: round(took / whole, 4) for part, took in spent.items()} if whole > 0 else None


def _process(before: stats.Runner, after: stats.Runner, seconds: float) -> dict[str, float] | None:
    if seconds <= 0:
        return None
    return {
        "user": round((after.user_seconds - before.user_seconds) / seconds, 4),
        "system": round((after.system_seconds - before.system_seconds) / seconds, 4),
    }


# --- what a person sees ---


def _report(report: Report, made: Times, interval: float | None) -> None:
    period = (
        f"watched for {made.seconds:.1f} s"
        if interval is not None
        else (f"since it was started {format_duration(int(made.seconds))} ago")
    )
    report.line(f"Volume {made.name}, {made.state}, {period}")
    report.line()
    report.table(
        ["STEP", "COUNT", "MEAN", "SHARE", "LONGEST EVER" if interval is not None else "LONGEST"],
        [
            [
                one["step"],
                one["count"],
                _duration(one["mean_us"]),
                f"{one['share'] * 100:.1f}%",
                _duration(one["max_us"] if one["max_us"] or one["count"] else None),
            ]
            for one in made.steps
        ],
        right=(1, 2, 3, 4),
    )
    report.line()
    done = [one for one in made.commands if one["count"]]
    if not done:
        return report.line("No commands.")
    report.table(
        ["COMMAND", "COUNT", "ERRORS", "MEAN", "P50 <=", "P95 <=", "P99 <=", "P99.9 <="],
        [
            [
                one["command"],
                one["count"],
                one["errors"],
                _duration(one["mean_us"]),
                *(_duration(one[key], "longer") for key, _ in PERCENTILES),
            ]
            for one in done
        ],
        right=tuple(range(1, 8)),
    )
    report.line()
    if made.thread is not None:
        report.line(
            "The volume's thread: "
            + ", ".join(f"{_THREAD_WORDS[part]} {share * 100:.1f}%" for part, share in made.thread.items())
        )
    if made.process is not None:
        report.line(
            f"The handler's process, all volumes: user {made.process['user'] * 100:.1f}%, "
            f"system {made.process['system'] * 100:.1f}% of one processor"
        )


_THREAD_WORDS = {
    "idle": "waits",
    "receive": "receives",
    "engine": "decides",
    "code": "computes parity",
    "send": "sends",
}


def _duration(microseconds: float | None, none: str = "-") -> str:
    """Three digits, in the unit that fits."""
    if microseconds is None:
        return none
    if microseconds < 1000:
        return f"{microseconds:.3g} us"
    if microseconds < 1000000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds / 1000000:.3g} s"
