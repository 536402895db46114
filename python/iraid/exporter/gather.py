"""Asks the handler for all that is shown: one asker at a time, and never longer than SECONDS_MAX.

    scrape, page, sampler --> Gatherer.snapshot() --(one at a time)--> handler
                                   |
                                   `--> a snapshot that is young enough is shared

Ten browsers and three Prometheus servers cost the handler no more than one of them.  A handler that hangs costs
SECONDS_MAX; who waited for the same answer meanwhile gets it, and doesn't begin anew.  A volume that does not answer
does not hide the others.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.watch import stats

T = TypeVar("T")

SECONDS_MAX = 6.0  # of one look at everything; Prometheus waits for 10 s
CALL_SECONDS_MAX = 2.0
SHARED_SECONDS = 1.0  # so old may an answer be
EVENTS_KEPT = 200
# All of what the handler says, so that rate() sees the first event of a kind: a counter must have been there before.
SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")


@dataclass(frozen=True)
class VolumeView:
    """A volume as the handler showed it.  `status` is the list's, without counters, if it did not answer for itself."""

    status: model.Volume
    figures: stats.Stats | None = None
    error: str = ""  # why it, or its figures, did not come

    @property
    def answered(self) -> bool:
        return not self.error


@dataclass(frozen=True)
class Snapshot:
    taken_at: float  # seconds since 1970
    seconds: float = 0.0  # that the answer took
    up: bool = False
    error: str = ""
    remedy: str = ""
    version: model.Version | None = None
    volumes: tuple[VolumeView, ...] = ()
    spares: tuple[model.Spare, ...] | None = None  # None: the list can't be read
    events_counted: dict[tuple[str, str], int] = field(default_factory=dict)  # (volume, severity) -> how many
    events_missed: int = 0
    events: tuple[model.Event, ...] = ()  # the newest, oldest first
    failed_calls: dict[str, int] = field(default_factory=dict)  # method -> how often it failed since the start


class EventLog:
    """Follows the handler's events over its restarts.

    What happened before the exporter's own start is shown and not counted: else each restart of the exporter would
    look like all of it happening again.
    """

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        self.missed = 0
        self.kept: deque[model.Event] = deque(maxlen=EVENTS_KEPT)
        self._instance: str | None = None
        self._after = 0

    def follow(self, client: Client) -> None:
        page = client.events(None, self._after, 0)
        if page.instance != self._instance and self._after:
            page = client.events(None, 0, 0)
        first = self._instance is None
        if page.instance != self._instance:
            self._instance, self._after = page.instance, 0
        new = [event for event in page.events if event.number > self._after]
        if not first:
            self.missed += max(0, page.oldest - self._after - 1) if page.oldest else 0
            self.counted.update((event.volume, event.severity) for event in new)
        self.kept.extend(new)
        self._after = max([page.next, *(event.number for event in new)])


class Gatherer:
    """Thread-safe."""

    def __init__(self, socket: Path | str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket = socket
        self._clock = clock
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._last_good: Snapshot | None = None
        self._last_at = 0.0
        self._events = EventLog()
        self._failed_calls: Counter[str] = Counter()

    def snapshot(self, age_seconds_max: float = SHARED_SECONDS) -> Snapshot:
        """The handler's answer, at most so old.  Waits for somebody else's question rather than ask twice."""
        if not self._lock.acquire(timeout=2 * SECONDS_MAX):  # never: whoever has it is bounded
            return Snapshot(time.time(), error="the exporter waits for an earlier question to the handler")
        try:
            if self._last is None or self._clock() - self._last_at > age_seconds_max:
                self._last = self._ask()
                self._last_at = self._clock()
                if self._last.up:
                    self._last_good = self._last
            return self._last
        finally:
            self._lock.release()

    @property
    def last_good(self) -> Snapshot | None:
        """The last one for which there was a handler."""
        return self._last_good

    def _ask(self) -> Snapshot:
        begin = self._clock()
        deadline = begin + SECONDS_MAX
        found = Snapshot(time.time())
        try:
            version = self._call(deadline, "version", Client.version)
            listed = self._call(deadline, "volume.list", Client.volumes)
            volumes = tuple(self._look(deadline, one) for one in sorted(listed, key=lambda one: one.name))
            found = replace(
                found, up=True, version=version, volumes=tuple(filter(None, volumes)), spares=self._spares(deadline)
            )
            self._follow_events(deadline)
        except IraidError as error:
            found = replace(found, error=error.message, remedy=error.remedy)
        return replace(
            found,
            seconds=self._clock() - begin,
            events_counted=dict(self._events.counted),
            events_missed=self._events.missed,
            events=tuple(self._events.kept),
            failed_calls=dict(self._failed_calls),
        )

    def _call(self, deadline: float, method: str, ask: Callable[[Client], T]) -> T:
        left = deadline - self._clock()
        try:
            if left <= 0:
                raise IraidError(
                    f"{method} was not asked: the handler took {SECONDS_MAX:g} s for what came before",
                    "see why in its log: journalctl -u tcmu-runner",
                    kind="unavailable",
                )
            return ask(Client(self._socket, seconds_max=min(left, CALL_SECONDS_MAX)))
        except IraidError as error:
            if error.kind != "not_found":
                self._failed_calls[method] += 1
            raise

    def _look(self, deadline: float, listed: model.Volume) -> VolumeView | None:
        """None: it was deleted meanwhile."""
        name, status, figures = listed.name, listed, None
        try:
            status = self._call(deadline, "volume.status", lambda client: client.status(name))
            figures = self._call(deadline, "volume.stats", lambda client: stats.ask(client, name))
        except IraidError as error:
            return None if error.kind == "not_found" else VolumeView(status, error=error.message)
        return VolumeView(status, figures)

    def _spares(self, deadline: float) -> tuple[model.Spare, ...] | None:
        try:
            return tuple(self._call(deadline, "pool.list", lambda client: client.pool()).spares)
        except IraidError:
            return None

    def _follow_events(self, deadline: float) -> None:
        try:
            self._call(deadline, "events", self._events.follow)
        except IraidError:
            pass  # counted as a failed call; volumes are shown all the same


def redundancy(volume: model.Volume) -> int | None:
    """How many more members may be lost, whichever they are; None where nothing is known of them.

    Parity that is still to be verified is not looked at: regions are shown beside it.
    """
    if volume.state not in ("active", "degraded") or volume.level is None:
        return None
    roles = {m.role for m in volume.members if m.role is not None} | set(volume.empty_roles)
    in_sync = {m.role for m in volume.members if m.role is not None and m.state == "in sync"}
    borne = {0: 0, 1: len(roles) - 1, 5: 1, 6: 2, 10: 1}.get(volume.level, 0)
    return max(0, borne - (len(roles) - len(in_sync)))


class Sampler:
    """A thread that looks at the handler every so often, also when nobody asks, and hands on what it saw."""

    def __init__(self, gatherer: Gatherer, interval_seconds: float, seen: Callable[[Snapshot], None]) -> None:
        self._gatherer = gatherer
        self._interval = interval_seconds
        self._seen = seen
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(2 * SECONDS_MAX)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            try:
                self._seen(self._gatherer.snapshot())
            except Exception:  # noqa: BLE001 - a fault of ours: the log says what it was, and the next look may be better
                traceback.print_exc()
            # After a long answer the next look is a whole interval away: a slow handler is not asked all the time.
            due = max(due + self._interval, time.monotonic() + self._interval / 2)
