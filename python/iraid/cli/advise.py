"""advise: what limits a volume, and what to set.  Measures by reads alone, on the sessions that there are."""

from dataclasses import asdict, dataclass, field
from typing import Any

import click

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import IraidError, UsageFault
from iraid.control.units import format_size
from iraid.watch import advice, sysctls, throughput

from .commands import NAME, SizeType, command, print_json
from .report import Report

SMALL_BYTES = 4096
BLOCKS = (4096, 65536, 1 << 20)
DEPTHS = (1, 16)
PROBE_BLOCK_BYTES = (4096, 1 << 20)  # of volume.probe
_WORKING = ("active", "degraded", "suspended")


@dataclass
class Advice:
    """What --json shows."""

    name: str
    level: int
    members: list[dict[str, Any]]
    together_bytes_per_second: int | None  # all members read at once
    model: list[dict[str, Any]]
    limits: list[str]
    findings: list[advice.Finding]
    remedies: list[advice.Remedy]
    probed_seconds: float
    settings: dict[str, Any] = field(default_factory=dict)  # of the gateway's kernel


@command(
    NAME,
    click.option(
        "--seconds",
        type=click.FloatRange(0.2, 60),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="Time to read from each member: half of it small reads, one at a time; half of it large reads.",
    ),
    click.option(
        "--block",
        type=SizeType(),
        default="512K",
        show_default=True,
        metavar="SIZE",
        help="Size of a large read, 4K to 1M.",
    ),
    click.option(
        "--depth",
        type=click.IntRange(1, 32),
        default=16,
        show_default=True,
        metavar="NUMBER",
        help="Large reads in flight at a time.",
    ),
    click.option(
        "--rate-max",
        type=SizeType(),
        default="1G",
        show_default=True,
        metavar="SIZE",
        help="Upper limit of these reads, bytes a second of each member.",
    ),
    click.option("--no-probe", is_flag=True, help="Read nothing; say only what is known without reads."),
    examples="iraid advise v0\niraid advise v0 --seconds 10 --rate-max 50M\n"
    "iraid advise v0 --no-probe --json | jq '.findings[].text'",
)
def advise(
    client: Client,
    report: Report | None,
    name: str,
    seconds: float,
    block: int,
    depth: int,
    rate_max: int,
    no_probe: bool,
) -> None:
    """Show what limits a volume, which target is badly tuned, and what to set on targets and gateway.

    Measures round trips and rates by reads: from each member for --seconds, then from all at once, while the volume
    works.  Looks at what each session negotiated.  Writes nothing and changes nothing.
    """
    least, most = PROBE_BLOCK_BYTES
    usage = "see iraid advise --help"
    if not least <= block <= most or block % least:
        raise UsageFault(f"--block {format_size(block)} is not a multiple of 4 KiB between 4 KiB and 1 MiB", usage)
    if rate_max < least:
        raise UsageFault(f"--rate-max {rate_max} bytes a second is less than 4 KiB a second", usage)
    volume = client.status(name)
    if volume.state not in _WORKING or volume.level is None:
        why = f" ({volume.reason})" if volume.reason else ""
        raise IraidError(
            f"volume {name} is {volume.state}: it has no sessions to measure{why}",
            f"start it: iraid start {name}",
            kind="busy",
        )
    order = _Order(seconds, block, depth, rate_max)
    measured, together = _look(client, volume, None if no_probe else order, report)
    found = _advise(volume, measured, together, sysctls.gateway(), 0.0 if no_probe else seconds)
    if report is None:
        return print_json(asdict(found))
    _report(report, volume, found)


# --- measuring ---


@dataclass(frozen=True)
class _Order:
    seconds: float
    block_bytes: int
    depth: int
    rate_max_bytes: int

    def small(self) -> dict[str, int]:
        return {
            "duration_ms": round(self.seconds * 500),
            "block_bytes": SMALL_BYTES,
            "depth": 1,
            "rate_max_bytes": self.rate_max_bytes,
        }

    def large(self) -> dict[str, int]:
        return {
            "duration_ms": round(self.seconds * 500),
            "block_bytes": self.block_bytes,
            "depth": self.depth,
            "rate_max_bytes": self.rate_max_bytes,
        }


def _look(
    client: Client, volume: model.Volume, order: _Order | None, report: Report | None
) -> tuple[list[advice.Measured], float]:
    """Members one after the other, so that none is slowed by another; then all at once, which the gateway must bear."""
    figures: dict[str, tuple[float | None, float | None, str | None]] = {}
    for member in _by_role(volume):
        if order is not None and member.state == "in sync":
            _say(report, f"reading from {member.member}")
            figures[member.member] = _measure(client, volume.name, member.member, order)
    together = 0.0
    if order is not None and sum(error is None for _, _, error in figures.values()) > 1:
        _say(report, "reading from all members at once")
        together = sum(filter(None, map(_rate, _probe(client, volume.name, None, order.large()).values())))
    answer = client.paths(volume.name)
    paths = {one.member: one.path for one in answer.members}
    return [
        advice.Measured(
            member.member,
            member.role,
            member.state,
            member.reason,
            paths.get(member.member),
            *figures.get(member.member, (None, None, None)),
            answer.initiator,
        )
        for member in _by_role(volume)
    ], together


def _by_role(volume: model.Volume) -> list[model.Member]:
    return sorted(volume.members, key=lambda member: (member.role is None, member.role or 0))


def _say(report: Report | None, text: str) -> None:
    """To somebody who waits at a terminal."""
    if report is not None and report.terminal:
        click.echo(f"{text} ...", err=True)


def _measure(client: Client, name: str, member: str, order: _Order) -> tuple[float | None, float | None, str | None]:
    small = _probe(client, name, member, order.small()).get(member)
    if small is None or small.error or not small.reads:
        return None, None, small.error if small and small.error else "there is no session with it"
    large = _probe(client, name, member, order.large()).get(member)
    if large is None or large.error:
        return _latency(small), None, large.error if large else "there is no session with it"
    return _latency(small), _rate(large), None


def _probe(client: Client, name: str, member: str | None, parameters: dict[str, int]) -> dict[str, model.Probed]:
    """A member that is away by now has no figures; anything else that fails ends the command."""
    try:
        return {one.member: one for one in client.probe(name, member, **parameters).members}
    except IraidError as error:
        if error.kind == "unreachable":
            return {}
        raise


def _latency(probed: model.Probed) -> float | None:
    return probed.elapsed_ms / 1000 / probed.reads if probed.reads and probed.elapsed_ms else None


def _rate(probed: model.Probed) -> float | None:
    """Of all that the member moved meanwhile."""
    if not probed.reads or not probed.elapsed_ms:
        return None
    return (probed.bytes + probed.other_bytes) * 1000 / probed.elapsed_ms


# --- working it out ---


def _advise(
    volume: model.Volume, measured: list[advice.Measured], together: float, gateway: advice.Gateway, seconds: float
) -> Advice:
    assert volume.level is not None
    findings = advice.find(volume, measured, gateway)
    count = len({m.role for m in volume.members if m.role is not None} | set(volume.empty_roles))
    ways = [
        throughput.Way(one.member, one.latency or one.round_trip, one.rate or 0.0, one.round_trip, one.unasked_bytes)
        for one in measured
        if one.state == "in sync" and one.path is not None
    ]
    logged = volume.log.open and volume.log.mode == "always"
    shape = throughput.Shape(volume.level, max(count, 2), volume.chunk_bytes, max(count - len(ways), 0), logged)
    known = throughput.slowest(ways) is not None
    rows = [
        throughput.estimate(shape, ways, together, operation, block, depth)
        for operation in ("read", "write")
        for block in BLOCKS
        for depth in DEPTHS
        if known
    ]
    return Advice(
        volume.name,
        volume.level,
        [_member(one) for one in measured],
        round(together) or None,
        [asdict(row) | {"bytes_per_second": round(row.bytes_per_second)} for row in rows],
        _limits(shape, ways, together) if ways else [],
        findings,
        advice.remedies(volume, measured, findings),
        seconds,
        {
            "tcp_rmem_max_bytes": gateway.rmem_max,
            "tcp_wmem_max_bytes": gateway.wmem_max,
            "tcp_slow_start_after_idle": gateway.slow_start_after_idle,
        },
    )


def _member(one: advice.Measured) -> dict[str, Any]:
    return {
        "member": one.member,
        "role": one.role,
        "state": one.state,
        "reason": one.reason,
        "error": one.error,
        "round_trip_us": round(one.round_trip * 1e6) or None,
        "small_read_us": None if one.latency is None else round(one.latency * 1e6),
        "read_bytes_per_second": None if one.rate is None else round(one.rate),
        "target": None if one.path is None else advice.target_kind(one.path),
        "path": None if one.path is None else model.to_json(one.path),
    }


def _limits(shape: throughput.Shape, ways: list[throughput.Way], together: float) -> list[str]:
    """The two of them: how long a request takes, and how much goes through."""
    far = max(ways, key=lambda way: way.latency)
    most, limit, member = throughput.ceiling(shape, ways, together, "read")
    if limit == "unknown":
        return [f"Not measured. The longest round trip is {far.latency * 1000:.3g} ms, to {far.member}."]
    said = [
        f"One request at a time: round trips. {far.member} answers a small read after {far.latency * 1000:.3g} ms"
        + (f", of which {far.round_trip * 1000:.3g} ms are the network." if far.round_trip else ".")
    ]
    by = (
        f"the rate of {member}"
        if limit == "member"
        else ("the gateway, its link or its CPU: reads from all members at once give less than the sum of single reads")
    )
    said.append(f"Many at a time: {by}. Reads reach {format_size(int(most))}/s.")
    needed = [
        f"{throughput.depth_needed(shape, ways, together, 'read', block)} at a time of {format_size(block)}"
        for block in BLOCKS[1:]
    ]
    return [*said, f"That needs {' or '.join(needed)}."]


# --- what a person sees ---


def _report(report: Report, volume: model.Volume, found: Advice) -> None:
    rows = [
        [
            "-" if one["role"] is None else one["role"],
            one["member"],
            one["state"],
            _micro(one["round_trip_us"]),
            _micro(one["small_read_us"]),
            _speed(one["read_bytes_per_second"]),
            *_session_cells(one),
        ]
        for one in found.members
    ]
    report.table(
        ["ROLE", "MEMBER", "STATE", "RTT", "READ 4K", "RATE", "SEGMENT", "R2T", "IMMEDIATE", "FIRST BURST", "DEPTH"],
        rows,
        right=(3, 4, 5, 6, 9, 10),
        wide=(1,),
    )
    if found.together_bytes_per_second:
        report.line(f"All at once: {_speed(found.together_bytes_per_second)}")
    if found.model:
        report.line()
        _model(report, found)
    report.line()
    for text in found.limits:
        report.line(text)
    _findings(report, volume, found)


def _session_cells(one: dict[str, Any]) -> list[str]:
    if one["path"] is None:
        return ["-"] * 5
    agreed = one["path"]["negotiated"]
    return [
        format_size(agreed["target_segment_bytes"]),
        _yes(agreed["initial_r2t"]),
        _yes(agreed["immediate_data"]),
        format_size(agreed["first_burst_bytes"]),
        str(one["path"]["window_commands"]),
    ]


def _model(report: Report, found: Advice) -> None:
    cells: dict[tuple[str, int], list[str]] = {}
    for row in found.model:
        cells.setdefault((row["operation"], row["block_bytes"]), []).extend(
            [_speed(row["bytes_per_second"]), row["limit"]]
        )
    headings = [word for depth in DEPTHS for word in (f"DEPTH {depth}", "LIMIT")]
    report.table(
        ["BY THE MODEL", *headings],
        [[f"{operation} {format_size(block)}", *rest] for (operation, block), rest in cells.items()],
        right=(1, 3),
    )


def _findings(report: Report, volume: model.Volume, found: Advice) -> None:
    report.line()
    if not found.findings:
        return report.line(f"No badly tuned setting was found on the way to the members of {volume.name}.")
    for finding in found.findings:
        whose = _whose(finding, found) or volume.name
        report.line(f"{finding.severity}: {whose}: {finding.text}.")
        if finding.advice:
            report.line(f"    {finding.advice}.")
    for remedy in found.remedies:
        report.line()
        report.line(f"On the {remedy.where}:")
        for line in remedy.commands:
            report.line(f"    {line}")
        if remedy.text:
            report.line(f"  ({remedy.text})")


def _whose(finding: advice.Finding, found: Advice) -> str:
    """By roles, which are short; who has none is named."""
    roles = [str(one["role"]) for one in found.members if one["member"] in finding.members and one["role"] is not None]
    names = [one["member"] for one in found.members if one["member"] in finding.members and one["role"] is None]
    if len(roles) > 1:
        names.insert(0, f"members {', '.join(roles)}")
    elif roles:
        names.insert(0, f"member {roles[0]}")
    return ", ".join(names)


def _micro(microseconds: int | None) -> str:
    return "-" if microseconds is None else f"{microseconds / 1000:.3g} ms"


def _speed(rate: int | None) -> str:
    return "-" if rate is None else f"{format_size(rate)}/s"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
