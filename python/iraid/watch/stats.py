"""volume.stats (docs/design/control.md), and what two of its answers say about the time between them.

All counters begin anew with the volume, which `started_ms` tells; between answers of two lives there are no rates.
"""

from dataclasses import dataclass, field

from iraid.control.client import Client

OPERATIONS = ("read", "write", "flush", "zero", "compare")


@dataclass
class Counter:
    count: int = 0
    bytes: int = 0
    errors: int = 0
    sum_us: int = 0
    buckets: list[int] = field(default_factory=list)  # by bounds_us, not cumulated; the last is for what is above


@dataclass
class Commands:
    read: Counter = field(default_factory=Counter)
    write: Counter = field(default_factory=Counter)
    flush: Counter = field(default_factory=Counter)
    zero: Counter = field(default_factory=Counter)
    compare: Counter = field(default_factory=Counter)


@dataclass
class Step:
    step: str
    count: int = 0
    sum_us: int = 0
    max_us: int = 0


@dataclass
class Thread:
    """What the volume's thread did with its time."""

    turns: int = 0
    idle_us: int = 0
    receive_us: int = 0
    engine_us: int = 0
    code_us: int = 0
    send_us: int = 0


@dataclass
class Connection:
    rtt_us: int = 0
    rtt_var_us: int = 0
    min_rtt_us: int = 0
    cwnd_bytes: int = 0
    mss_bytes: int = 0
    in_flight_bytes: int = 0
    retransmits: int = 0
    lost: int = 0
    delivery_bytes_per_second: int = 0
    pacing_bytes_per_second: int = 0
    send_queue_bytes: int = 0
    receive_queue_bytes: int = 0
    congestion_control: str = ""


@dataclass
class Session:
    portal: str = ""
    in_flight: int = 0
    tcp: Connection | None = None


@dataclass
class MemberStats:
    member: str
    role: int | None = None
    state: str = "unknown"
    link: str = "closed"
    in_flight: int = 0
    reads: Counter = field(default_factory=Counter)
    writes: Counter = field(default_factory=Counter)
    flushes: Counter = field(default_factory=Counter)
    sessions: list[Session] = field(default_factory=list)


@dataclass
class Runner:
    pid: int = 0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    resident_bytes: int = 0
    threads: int = 0


@dataclass
class Stats:
    name: str
    time_ms: int = 0
    started_ms: int = 0
    state: str = "unknown"
    bounds_us: list[int] = field(default_factory=list)
    queue: int = 0
    commands: Commands = field(default_factory=Commands)
    steps: list[Step] = field(default_factory=list)
    thread: Thread = field(default_factory=Thread)
    members: list[MemberStats] = field(default_factory=list)
    runner: Runner = field(default_factory=Runner)


def ask(client: Client, name: str) -> Stats:
    return client._ask(Stats, "volume.stats", {"name": name})


# --- between two answers ---


@dataclass
class Flow:
    """One kind of command over an interval; None: nothing was done, or it is not known."""

    per_second: float = 0.0
    bytes_per_second: float = 0.0
    errors_per_second: float = 0.0
    mean_us: float | None = None
    p99_us: float | None = None  # upper bound of its bucket; infinite beyond the last bound


def flow(before: Counter, after: Counter, bounds_us: list[int], seconds: float) -> Flow | None:
    """None: the counters have begun anew in between."""
    count = after.count - before.count
    if count < 0 or after.bytes < before.bytes or after.sum_us < before.sum_us or seconds <= 0:
        return None
    made = Flow(count / seconds, (after.bytes - before.bytes) / seconds, (after.errors - before.errors) / seconds)
    if count:
        made.mean_us = (after.sum_us - before.sum_us) / count
        made.p99_us = percentile(difference(before.buckets, after.buckets), bounds_us, 0.99)
    return made


def difference(before: list[int], after: list[int]) -> list[int]:
    padded = before + [0] * (len(after) - len(before))
    return [max(new - old, 0) for new, old in zip(after, padded, strict=False)]


def percentile(buckets: list[int], bounds_us: list[int], share: float) -> float | None:
    """Upper bound of the bucket that the value lies in."""
    total = sum(buckets)
    if total == 0:
        return None
    seen = 0
    for count, bound in zip(buckets, [*map(float, bounds_us), float("inf")], strict=False):
        seen += count
        if seen >= share * total:
            return bound
    return float("inf")


def summed(counters: list[Counter]) -> Counter:
    """As if they were one kind of command."""
    length = max((len(one.buckets) for one in counters), default=0)
    return Counter(
        sum(one.count for one in counters),
        sum(one.bytes for one in counters),
        sum(one.errors for one in counters),
        sum(one.sum_us for one in counters),
        [sum(one.buckets[i] for one in counters if i < len(one.buckets)) for i in range(length)],
    )


def retransmits(before: MemberStats | None, after: MemberStats) -> int:
    """Segments sent again since; of a connection made meanwhile all."""
    known: dict[tuple[int, str], int] = {}
    if before is not None:
        known = {(i, one.portal): one.tcp.retransmits for i, one in enumerate(before.sessions) if one.tcp}
    total = 0
    for index, session in enumerate(after.sessions):
        if session.tcp is not None:
            old = known.get((index, session.portal), 0)
            now = session.tcp.retransmits
            total += now - old if now >= old else now
    return total
