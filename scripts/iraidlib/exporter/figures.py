"""What volume.stats answers (docs/design/control.md), as dataclasses for model.read()."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Commands:
    """Of one kind.  Times are in a histogram: buckets[i] counts those of at most bounds_us[i], the last the rest."""

    count: int = 0
    bytes: int = 0
    errors: int = 0
    sum_us: int = 0
    buckets: list[int] = field(default_factory=list)


@dataclass
class VolumeCommands:
    read: Commands = field(default_factory=Commands)
    write: Commands = field(default_factory=Commands)
    flush: Commands = field(default_factory=Commands)
    zero: Commands = field(default_factory=Commands)
    compare: Commands = field(default_factory=Commands)


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
class SessionTcp:
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
    tcp: SessionTcp | None = None


@dataclass
class MemberFigures:
    member: str
    role: int | None = None
    state: str = "unknown"
    link: str = "closed"
    in_flight: int = 0
    reads: Commands = field(default_factory=Commands)
    writes: Commands = field(default_factory=Commands)
    flushes: Commands = field(default_factory=Commands)
    sessions: list[Session] = field(default_factory=list)


@dataclass
class Figures:
    """All counters are since the volume was started in the handler's process."""

    name: str
    time_ms: int = 0
    started_ms: int = 0  # 0: it is stopped
    state: str = "unknown"
    bounds_us: list[int] = field(default_factory=list)
    queue: int = 0
    commands: VolumeCommands = field(default_factory=VolumeCommands)
    steps: list[Step] = field(default_factory=list)
    thread: Thread = field(default_factory=Thread)
    members: list[MemberFigures] = field(default_factory=list)
    runner: dict[str, Any] = field(default_factory=dict)  # pid, user_seconds, ...: of the process, not the volume
