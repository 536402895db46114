"""The last hour of each volume, for the page's plots: a point every INTERVAL_SECONDS, made of two looks at the handler.

Bounded: POINTS_MAX points of VOLUMES_MAX volumes, some 200 KiB each.  A volume that was started anew in between has no
point there, and nothing is shown as a jump.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import asdict, dataclass

from iraid.watch.stats import Counter, Stats

from .gather import Snapshot

INTERVAL_SECONDS = 5.0
KEPT_SECONDS = 3600.0
POINTS_MAX = int(KEPT_SECONDS / INTERVAL_SECONDS)
VOLUMES_MAX = 256


@dataclass(frozen=True)
class Point:
    """Rates and mean latencies between two looks; latency None: there was no such command."""

    time_ms: int
    read_bytes_per_second: float
    write_bytes_per_second: float
    reads_per_second: float
    writes_per_second: float
    read_us: float | None
    write_us: float | None
    queue: int

    def to_json(self) -> dict[str, float | int | None]:
        return {name: round(value, 1) if isinstance(value, float) else value for name, value in asdict(self).items()}


def between(before: Stats, after: Stats) -> Point | None:
    """None: there is nothing to tell between them."""
    seconds = (after.time_ms - before.time_ms) / 1000
    if after.started_ms == 0 or before.started_ms != after.started_ms or seconds <= 0:
        return None
    reads, writes = _Rate(before.commands.read, after.commands.read), _Rate(before.commands.write, after.commands.write)
    if reads.count < 0 or writes.count < 0:  # another process, in the same millisecond
        return None
    return Point(
        after.time_ms,
        reads.bytes / seconds,
        writes.bytes / seconds,
        reads.count / seconds,
        writes.count / seconds,
        reads.mean_us,
        writes.mean_us,
        after.queue,
    )


class _Rate:
    def __init__(self, before: Counter, after: Counter) -> None:
        self.count = after.count - before.count
        self.bytes = after.bytes - before.bytes
        self.mean_us = (after.sum_us - before.sum_us) / self.count if self.count > 0 else None


class History:
    """Thread-safe: the sampler adds, requests read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, Stats] = {}
        self._points: dict[str, deque[Point]] = {}

    def add(self, snapshot: Snapshot) -> None:
        with self._lock:
            for view in snapshot.volumes:
                if view.figures is not None:
                    self._add(view.status.name, view.figures)
            self._forget(snapshot.taken_at * 1000)

    def _add(self, name: str, figures: Stats) -> None:
        before = self._last.get(name)
        if before is None and len(self._last) >= VOLUMES_MAX:
            return
        self._last[name] = figures
        point = between(before, figures) if before else None
        if point is not None:
            self._points.setdefault(name, deque(maxlen=POINTS_MAX)).append(point)

    def _forget(self, now_ms: float) -> None:
        for name, figures in list(self._last.items()):
            points = self._points.get(name)
            while points and points[0].time_ms < now_ms - KEPT_SECONDS * 1000:
                points.popleft()
            if not points and figures.time_ms < now_ms - KEPT_SECONDS * 1000:
                self._last.pop(name)
                self._points.pop(name, None)

    def points(self, name: str, after_ms: int = 0) -> list[Point]:
        with self._lock:
            return [point for point in self._points.get(name, ()) if point.time_ms > after_ms]
