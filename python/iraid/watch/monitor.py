"""iraid monitor: who must know of an event is told once, over restarts of the handler, of this program, of the machine.

What is certain stands in one file, replaced atomically: up to which event everything was passed on, and what waits to
be mailed.  A program is run, or a mail sent, before that is written: who crashes in between repeats it, and loses
nothing.  A file that can't be written, on a full disk, stops nobody from being told: what is certain is in memory then,
and is written as soon as it can be.

Beside events there is a look at the volumes, at the start, after an assembly and each minute: a volume may have become
degraded where nobody saw the event, at boot, or in the last moment of a handler that died.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from iraid.control import model
from iraid.control.client import Client, status_of_all
from iraid.control.errors import IraidError
from iraid.control.locking import open_lock

from . import follow, notify, verdict

LOOK_SECONDS = 60.0
AWAY_SECONDS = 30.0  # a restart, as for an upgrade, is nothing to tell
BURST_SECONDS = 10.0
BURSTS_MAX = 6  # a storm of events is told after so many bursts, though it goes on
RETRY_SECONDS, RETRY_SECONDS_MAX = 30.0, 3600.0
PENDING_MAX = 1000


@dataclass
class Settings:
    mail: list[str] = field(default_factory=list)
    command: Path | None = None
    severity: str = "warning"
    sender: str = ""
    sendmail: Path = notify.SENDMAIL
    burst: float = BURST_SECONDS


@dataclass
class State:
    instance: str = ""  # empty: this is the first start
    next: int = 0
    pending: list[model.Event] = field(default_factory=list)  # to be mailed
    dropped: int = 0  # of those, the oldest, when no mail could be sent for very long
    told: list[str] = field(default_factory=list)  # volumes whose trouble is known to who was told


class StateFile:
    """Of one monitor at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._lock: IO[str] = open_lock(path.with_suffix(".lock"))
        except OSError as error:
            raise IraidError(
                f"{error.filename}: {error.strerror}", "run the command as root", kind="permission"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise IraidError(
                f"another monitor runs with {path}", "systemctl status iraid-monitor", kind="busy"
            ) from error

    def load(self) -> State:
        """What can't be read is as if it was the first start: nothing old is told again."""
        try:
            return model.read(State, model.decode(self.path.read_bytes()))
        except FileNotFoundError:
            return State()
        except (OSError, ValueError) as error:
            _say(f"{self.path} can't be read ({error}): only events from now on are reported")
            return State()

    def save(self, state: State) -> None:
        """Raises OSError, and the file stays as it was."""
        temporary = self.path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(state), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)


def _say(text: str) -> None:
    print(f"iraid monitor: {text}", file=sys.stderr, flush=True)


class Monitor:
    def __init__(
        self,
        client: Client,
        settings: Settings,
        file: StateFile,
        host: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client, self.settings, self.file, self.host, self.clock = client, settings, file, host, clock
        self.state = file.load()
        self.follower = follow.Follower(client, None, follow.Position(self.state.instance, self.state.next))
        self.first_pending = self.last_pending = clock()
        self.not_before = 0.0  # the next try to mail
        self.wait = RETRY_SECONDS
        self.away_since: float | None = None
        self.away_told = False
        self.look_at = 0.0
        self.waiting: set[str] = set()  # volumes that were still being assembled at the last look
        self.failures = 0
        self.unsaved = False
        self.save_at = 0.0  # the next try, while unsaved

    # --- one step ---

    def step(self, wait_seconds: float = follow.WAIT_SECONDS) -> None:
        """Wait for events, no longer than until something else is due; pass on what there is."""
        now = self.clock()
        due = [self._mail_due()] if self.state.pending else []
        if self.away_since is None:
            due.append(self.look_at)
        if self.unsaved:
            due.append(self.save_at)
        limit = max(min([wait_seconds, *(at - now for at in due)]), 0.0)
        # The handler counts whole seconds.
        self._take(self.follower.next(min(float(-(-limit // 1)), wait_seconds)))
        if self.away_since is None and self.clock() >= self.look_at:
            self._look()
        if self.state.pending and self.clock() >= self._mail_due():
            self.send()
        if self.unsaved and self.clock() >= self.save_at:
            self._save()

    def _save(self) -> None:
        self.save_at = self.clock() + RETRY_SECONDS
        try:
            self.file.save(self.state)
        except OSError as error:
            if not self.unsaved:
                _say(
                    f"{self.file.path} can't be written ({error.strerror}): a restart of the monitor would repeat "
                    "events; make room on the disk, the write is tried again"
                )
            self.unsaved = True
            return
        if self.unsaved:
            _say(f"{self.file.path} is written again")
        self.unsaved = False

    def _take(self, batch: follow.Batch) -> None:
        if batch.away is not None:
            return self._away(batch.away)
        if self.away_since is not None:
            self._back()
        if not self.state.instance:
            batch.events = []  # of before the first start
        if batch.missed:
            self._own("events missed", "warning", f"{batch.missed} events are missing: they came too fast to be kept")
        if batch.restarted:
            self.state.instance, self.state.next = self.follower.position.instance, 0
        for event in batch.events:
            self._pass_on(event)
            if event.kind == "assembled":
                self.look_at = 0.0
        position = self.follower.position
        if (position.instance, position.next) != (self.state.instance, self.state.next):
            self.state.instance, self.state.next = position.instance, position.next
            self._save()

    def _pass_on(self, event: model.Event) -> None:
        if follow.at_least(event.severity, self.settings.severity):
            if event.volume and follow.at_least(event.severity, "warning") and event.volume not in self.state.told:
                self.state.told.append(event.volume)
            self._tell(event)
        if event.number:
            self.state.next = event.number
            self._save()

    def _tell(self, event: model.Event) -> None:
        _say(f"{event.severity} {f'{event.volume}: ' if event.volume else ''}{event.text}")
        if self.settings.command is not None:
            try:
                notify.run_command(self.settings.command, event, self.state.instance)
            except IraidError as error:
                self.failures += 1
                _say(f"{error.message} (remedy: {error.remedy})")
        if self.settings.mail:
            self.last_pending = self.clock()
            if not self.state.pending:
                self.first_pending = self.last_pending
            self.state.pending.append(event)
            if len(self.state.pending) > PENDING_MAX:
                del self.state.pending[0]
                self.state.dropped += 1

    def _own(self, kind: str, severity: str, text: str, volume: str = "") -> None:
        """Something that the monitor itself has seen."""
        event = model.Event(0, time.time_ns() // 1_000_000, severity, kind, volume, "", text)
        if follow.at_least(severity, self.settings.severity):
            self._tell(event)
            self._save()

    # --- a handler that is away ---

    def _away(self, message: str) -> None:
        now = self.clock()
        if self.away_since is None:
            self.away_since = now
            _say(f"{message}; waiting for it")
        if not self.away_told and now - self.away_since >= AWAY_SECONDS:
            self.away_told = True
            self._own(
                "handler away",
                "critical",
                f"the handler has not answered for {now - self.away_since:.0f} s, I/O of its volumes waits: {message}",
            )

    def _back(self) -> None:
        self.away_since = None
        self.look_at = 0.0
        if self.away_told:
            self.away_told = False
            self._own("handler back", "warning", "the handler answers again")

    # --- how the volumes are ---

    def _look(self, only: bool = False) -> None:
        """only: there is no second look."""
        self.look_at = self.clock() + LOOK_SECONDS
        try:
            found = self.verdicts()
        except IraidError as error:
            self.failures += 1
            return _say(f"the volumes can't be examined: {error.message} (remedy: {error.remedy})")
        names = {one.name for one in found}
        self.state.told = [name for name in self.state.told if name in names]
        waiting = {one.name for one in found if one.word == "WAITING"}
        for one in found:
            if one.word == "WAITING" and one.name not in self.waiting and not only:
                continue  # it may have just been started
            if one.word in ("OK", "WORK", "STOPPED", "STANDBY"):
                self._fine(one)
            elif one.name not in self.state.told:
                self.state.told.append(one.name)
                self._own(
                    f"volume {one.word.lower()}",
                    "critical" if one.grade == verdict.FAILED else "warning",
                    one.text,
                    one.name,
                )
        self.waiting = waiting

    def _fine(self, one: verdict.Verdict) -> None:
        if one.name in self.state.told and one.word != "WORK":
            self.state.told.remove(one.name)
            self._save()

    def verdicts(self) -> list[verdict.Verdict]:
        try:
            spares = len(self.client.pool().spares)
        except IraidError as error:
            if error.kind == "unavailable":
                raise
            spares = 0
        return [verdict.judge(volume, spares) for volume in status_of_all(self.client)]

    # --- mail ---

    def _mail_due(self) -> float:
        burst = self.settings.burst
        return max(min(self.last_pending + burst, self.first_pending + BURSTS_MAX * burst), self.not_before)

    def send(self) -> None:
        """What is pending, as one mail.  One that can't be sent stays, and is tried again later and later."""
        pending = self.state.pending
        if self.state.dropped:
            text = f"{self.state.dropped} earlier events are left out, because no mail could be sent: iraid events"
            pending = [model.Event(0, pending[0].time_ms, "warning", "events left out", "", "", text), *pending]
        mail = notify.compose(
            pending,
            self._verdicts_of({event.volume for event in pending}),
            self.host,
            self.settings.mail,
            self.settings.sender,
        )
        try:
            notify.send(mail, self.host, self.settings.sendmail, self.settings.sender)
        except IraidError as error:
            self.failures += 1
            _say(f"{error.message} (remedy: {error.remedy}); tried again in {self.wait:.0f} s")
            self.not_before = self.clock() + self.wait
            self.wait = min(2 * self.wait, RETRY_SECONDS_MAX)
            return
        self.wait, self.not_before = RETRY_SECONDS, 0.0
        self.state.pending, self.state.dropped = [], 0
        self._save()

    def _verdicts_of(self, names: set[str]) -> list[verdict.Verdict]:
        try:
            return [one for one in self.verdicts() if one.name in names]
        except IraidError:  # the mail goes without
            return []

    # --- once, and a test ---

    def once(self) -> int:
        """What is new since the last time, and how the volumes are; how many could not be told, nor looked at."""
        self._take(self.follower.next(0))
        if self.away_since is not None:
            self._own("handler away", "critical", "the handler does not answer, I/O of its volumes waits")
        else:
            self._look(only=True)
        if self.state.pending:
            self.send()
        self._save()
        return self.failures + self.unsaved


def test_event(host: str) -> model.Event:
    return model.Event(
        0,
        time.time_ns() // 1_000_000,
        "notice",
        "test message",
        "",
        "",
        f"this is a test of iraid monitor on {host}: events of volumes will arrive like this",
    )


def from_settings(given: dict[str, Any]) -> Settings:
    """[notify] of gateway.conf."""
    command = given.get("command") or ""
    return Settings(
        list(given.get("mail") or []), Path(command) if command else None, given.get("severity") or "warning"
    )
