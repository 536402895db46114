"""Events one after the other, over restarts of the handler.

A position is the handler's instance and the number of the last event that was seen there.  Another instance counts
from 1 again; what the last one did between its last answer and its end is in the journal only.
"""

import re
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.control.units import local_time

WAIT_SECONDS = 30
RETRY_SECONDS = 2.0
SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")
_AGO = re.compile(r"([0-9]{1,9})\s*(s|min|m|h|d)")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


@dataclass
class Position:
    instance: str = ""  # empty: none was met yet
    next: int = 0


@dataclass
class Batch:
    events: list[model.Event] = field(default_factory=list)
    away: str | None = None  # the handler does not answer
    restarted: bool = False  # these are of another instance than the last ones
    missed: int = 0  # came and went in between


class Follower:
    def __init__(self, client: Client, name: str | None = None, position: Position | None = None) -> None:
        self.client, self.name = client, name
        self.position = position or Position()

    def next(self, wait_seconds: float) -> Batch:
        """What came since, at once; else what comes within this time, if anything.  A handler that is away is
        looked for again before this time is over."""
        try:
            page = self._page(wait_seconds)
        except IraidError as error:
            if error.kind != "unavailable":
                raise
            time.sleep(max(min(RETRY_SECONDS, wait_seconds), 0.0))
            return Batch(away=error.message)
        return page

    def _page(self, wait_seconds: float) -> Batch:
        last = self.position
        page = self.client.events(self.name, last.next, int(wait_seconds))
        restarted = last.instance not in ("", page.instance)
        if restarted and last.next:  # only those above the number were told
            page = self.client.events(self.name, 0, 0)
        missed = 0
        if not restarted and last.next and page.oldest > last.next + 1:
            missed = page.oldest - last.next - 1
        self.position = Position(page.instance, page.next)
        return Batch(page.events, restarted=restarted, missed=missed)


def at_least(severity: str, least: str) -> bool:
    """A word that is not known is kept: better one too many."""
    return severity not in SEVERITIES or SEVERITIES.index(severity) <= SEVERITIES.index(least)


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """ "90s", "10min", "2h", "3d" ago; "14:30" today; "2026-01-31", "2026-01-31 14:30".  Raises ValueError."""
    now = now or datetime.now().astimezone()
    text = text.strip()
    if ago := _AGO.fullmatch(text):
        try:
            return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        except OverflowError:
            raise ValueError(f"'{text}' is too long ago") from None
    if re.fullmatch(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?", text):
        text = f"{now:%Y-%m-%d} {text}"
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ValueError(f"'{text}' is not a time: write 10min, 2h or 3d (ago), 14:30, or 2026-01-31 14:30") from None


def line(event: model.Event) -> str:
    at = local_time(event.time_ms).isoformat(" ", "seconds")
    volume = f"{event.volume}: " if event.volume else ""
    return f"{at} {event.severity:7} {volume}{event.text}"
