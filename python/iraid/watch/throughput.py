"""What a volume can do, by the model  throughput = depth x block / (latency + block / rate).

latency is what a small read of a member takes at depth 1, rate what the member reads at depth; both are
measured (cli/advise.py) or given.  A volume's request goes to several members at once, each of which has its
part of it, and no member is faster than its rate.

Writes are not measured: a member is taken to write as fast as it reads.  What is added is what the
protocol and the level ask for: a round trip where the target wants to be asked for data (R2T), and a second
one where old data or parity is read first, unless the write log answers.
"""

import math
from dataclasses import dataclass

TOGETHER_SHARE = 0.8  # of the members' rates, when all are read at once: with less the gateway is the limit


@dataclass(frozen=True)
class Way:
    """To one member that takes part."""

    member: str
    latency: float  # seconds
    rate: float  # bytes a second; 0: not known
    round_trip: float = 0.0  # of the network alone
    unasked_bytes: int = 1 << 30  # of a write that goes out without an R2T


@dataclass(frozen=True)
class Shape:
    level: int
    members: int
    chunk_bytes: int
    missing: int = 0  # members that are out
    always_logged: bool = False  # a part of a row is answered once the write log has it

    @property
    def data_members(self) -> int:
        """Chunks of a row that are data."""
        data = {0: self.members, 1: 1, 5: self.members - 1, 6: self.members - 2}.get(self.level, self.members // 2)
        return max(data, 1)

    @property
    def written_share(self) -> float:
        """Bytes written to members for each byte of a volume that is written in whole rows."""
        return self.members / self.data_members

    @property
    def read_share(self) -> float:
        """Bytes read from members for each byte of a volume: a missing chunk is worked out from a row's others."""
        if self.level not in (5, 6):
            return 1.0
        lost = min(self.missing, self.members) / self.members
        return 1.0 - lost + lost * self.data_members

    def read_parts(self, block_bytes: int) -> int:
        """How many members a read is spread over."""
        if self.level == 1:
            return 1
        return max(1, min(math.ceil(block_bytes / self.chunk_bytes), self.members))

    def whole_rows(self, block_bytes: int) -> bool:
        return self.level in (0, 1, 10) or block_bytes >= self.data_members * self.chunk_bytes


@dataclass(frozen=True)
class Estimate:
    operation: str  # "read", "write"
    block_bytes: int
    depth: int
    bytes_per_second: float
    limit: str  # "round trips", "member", "gateway", "unknown"
    member: str | None = None


def slowest(ways: list[Way]) -> Way | None:
    known = [way for way in ways if way.rate > 0]
    return min(known, key=lambda way: way.rate) if known else None


def gateway_limits(ways: list[Way], together: float) -> bool:
    """All members at once give clearly less than each alone would have it."""
    return len(ways) > 1 and 0 < together < TOGETHER_SHARE * len(ways) * min(way.rate for way in ways)


def ceiling(shape: Shape, ways: list[Way], together: float, operation: str) -> tuple[float, str, str | None]:
    """Bytes a second of the volume at any depth, and what sets it."""
    least = slowest(ways)
    if least is None:
        return math.inf, "unknown", None
    member: str | None = least.member
    total, limit = len(ways) * least.rate, "member"
    if gateway_limits(ways, together):
        total, limit, member = together, "gateway", None
    return total / (shape.written_share if operation == "write" else shape.read_share), limit, member


def request_seconds(shape: Shape, ways: list[Way], operation: str, block_bytes: int) -> float:
    """One request with nothing beside it; the slowest member counts."""
    if operation == "read":
        part = block_bytes / shape.read_parts(block_bytes)
        return max(way.latency + _moving(part, way) for way in ways)
    if shape.whole_rows(block_bytes):
        parts = 1 if shape.level == 1 else min(math.ceil(block_bytes / shape.chunk_bytes), shape.data_members)
        return max(_writing(block_bytes / parts, way) for way in ways)
    # The old chunks of a part of a row are read, then data and parity are written: parts of the same length.
    part = min(block_bytes, shape.chunk_bytes)
    if shape.always_logged:
        return max(_writing(part, way) for way in ways)
    return max(way.latency + _moving(part, way) + _writing(part, way) for way in ways)


def _moving(part: float, way: Way) -> float:
    return part / way.rate if way.rate > 0 else 0.0


def _writing(part: float, way: Way) -> float:
    asked = way.round_trip if part > way.unasked_bytes else 0.0
    return way.latency + asked + _moving(part, way)


def estimate(shape: Shape, ways: list[Way], together: float, operation: str, block_bytes: int, depth: int) -> Estimate:
    most, limit, member = ceiling(shape, ways, together, operation)
    by_depth = depth * block_bytes / max(request_seconds(shape, ways, operation, block_bytes), 1e-9)
    if by_depth < most:
        return Estimate(operation, block_bytes, depth, by_depth, "round trips")
    return Estimate(operation, block_bytes, depth, most, limit, member)


def depth_needed(shape: Shape, ways: list[Way], together: float, operation: str, block_bytes: int) -> int | None:
    """Requests at a time from which round trips limit no more; None where no rate is known."""
    most, _, _ = ceiling(shape, ways, together, operation)
    if math.isinf(most):
        return None
    return max(1, math.ceil(most * request_seconds(shape, ways, operation, block_bytes) / block_bytes - 1e-6))
