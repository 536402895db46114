"""Waiting for long work, and what is seen meanwhile: on a terminal a bar with rate and time left, elsewhere a line
each ten seconds.

Between two looks at the volume the handler is asked for its next event, which comes at once when something ends; so
nothing is asked in a loop.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.control.wording import describe

LOOK_SECONDS = 1
LINE_SECONDS = 10.0


@dataclass
class Step:
    """One look: is it over, and how far is it."""

    done: bool
    what: str = ""
    work: model.Work = field(default_factory=model.Work)


Look = Callable[[model.Volume, list[model.Event]], Step]


class _Bar:
    """On a terminal, on stderr so that stdout holds the result only."""

    def __init__(self, name: str) -> None:
        # Most commands draw none, and all of them would wait for the import.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.name = name
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[words]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self.task: Any = None
        self.progress.start()

    def show(self, step: Step) -> None:
        words = describe(step.work)
        title = f"{self.name}: {step.what}"
        total = step.work.total_rows or None
        if self.task is None:
            self.task = self.progress.add_task(title, total=total, words=words)
        self.progress.update(self.task, description=title, total=total, completed=step.work.done_rows, words=words)

    def end(self) -> None:
        self.progress.stop()


class _Lines:
    def __init__(self, name: str) -> None:
        self.name = name
        self.due = time.monotonic() + LINE_SECONDS

    def show(self, step: Step) -> None:
        if time.monotonic() >= self.due:
            self.due += LINE_SECONDS
            print(f"{self.name}: {step.what} {describe(step.work)}".rstrip(), file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


class _Silent:
    def show(self, step: Step) -> None:
        pass

    def end(self) -> None:
        pass


def wait_for(client: Client, name: str, look: Look, quiet: bool = False, seconds: float | None = None) -> model.Volume:
    """Until look() says that it is done; it raises IraidError when it can't be any more.

    quiet: nothing is shown (--json).  IraidError when `seconds` are over.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    shown: _Silent | _Bar | _Lines = _Silent() if quiet else _Bar(name) if sys.stderr.isatty() else _Lines(name)
    page = client.events(name, 0, 0)
    seen: list[model.Event] = []
    try:
        while True:
            volume = client.status(name)
            _check_running(volume)
            step = look(volume, seen)
            if step.done:
                return volume
            shown.show(step)
            if deadline is not None and time.monotonic() >= deadline:
                raise IraidError(
                    f"volume {name}: {step.what} was not complete after {seconds:g} s: "
                    f"{describe(step.work) or 'its progress is not known'}",
                    f"it continues; wait longer, or see iraid status {name}",
                    kind="timeout",
                )
            page = client.events(name, page.next, LOOK_SECONDS)
            seen += page.events
    finally:
        shown.end()


def _check_running(volume: model.Volume) -> None:
    if volume.state == "standby":
        raise IraidError(
            f"volume {volume.name} is on standby on this gateway",
            f"ask the gateway that serves it, or make it this one: iraid activate {volume.name}",
            kind="busy",
        )
    if volume.state in ("failed", "stopped", "stopping"):
        raise IraidError(
            f"volume {volume.name} is {volume.state}: {volume.reason or 'the reason is not known'}",
            f"iraid status {volume.name}; iraid start {volume.name}",
            kind="io",
        )


# --- what can be waited for ---


def resynced(volume: model.Volume, _seen: list[model.Event]) -> Step:
    assembled = volume.state in ("active", "degraded", "suspended")
    done = assembled and not volume.resync.running and volume.regions.suspect == 0
    return Step(done, "resync", volume.resync)


def rebuilt(volume: model.Volume, _seen: list[model.Event]) -> Step:
    what = f"rebuild of {volume.rebuild.member}" if volume.rebuild.member else "rebuild"
    assembled = volume.state in ("active", "degraded", "suspended")
    return Step(assembled and volume.rebuild.member is None, what, volume.rebuild)


def scrubbed(volume: model.Volume, seen: list[model.Event]) -> Step:
    if not volume.scrub.active and any(event.kind == "scrub stopped" for event in seen):
        raise IraidError(
            f"the scrub of volume {volume.name} was stopped before its end",
            f"continue it: iraid scrub start {volume.name} --resume",
            kind="busy",
        )
    return Step(not volume.scrub.active, "scrub", volume.scrub)


def in_sync(volume: model.Volume, seen: list[model.Event]) -> Step:
    if volume.rebuild.member:
        return Step(False, *_what_and_work(rebuilt(volume, seen)))
    if volume.regions.suspect or volume.resync.running:
        return Step(False, *_what_and_work(resynced(volume, seen)))
    out = [m.member for m in volume.members if m.role is not None and m.state != "in sync"]
    work = model.Work(reason=volume.reason or ("waits for " + ", ".join(out) if out else None))
    return Step(volume.state == "active" and not out, "in sync", work)


def _what_and_work(step: Step) -> tuple[str, model.Work]:
    return step.what, step.work


def replaced_by(device: str, role: int) -> Look:
    """The device holds the role; its rebuild may not have begun at the first look."""

    def look(volume: model.Volume, seen: list[model.Event]) -> Step:
        member = next((m for m in volume.members if m.member == device), None)
        if member is None or member.state == "faulty":
            why = (member.reason if member else None) or "it is no longer a device of the volume"
            raise IraidError(
                f"volume {volume.name}: {device} does not become member {role}: {why}",
                f"iraid status {volume.name}",
                kind="io",
            )
        done = member.role == role and member.state == "in sync"
        former = any(m.role == role and m.member != device for m in volume.members)
        return Step(done and not former, f"rebuild of {device}", volume.rebuild)

    return look


def redundant_without(label: str, shared_spares: bool) -> Look:
    """All roles are held by others; an error when nothing is there that could take the place."""

    def look(volume: model.Volume, seen: list[model.Event]) -> Step:
        if any(event.kind == "spare unfit" for event in seen) and not volume.rebuild.member:
            why = [event.text for event in seen if event.kind == "spare unfit"][-1]
            raise IraidError(f"volume {volume.name}: {why}", f"iraid replace {volume.name}", kind="unfit")
        hopeful = any(m.state in ("spare", "rebuilding") for m in volume.members)
        step = in_sync(volume, seen)
        out = next((m for m in volume.members if m.member == label), None)
        step.done = step.done and (out is None or out.role is None)
        if not step.done and not hopeful and not shared_spares:
            raise IraidError(
                f"volume {volume.name} has no spare to take the place of {label}",
                f"iraid replace {volume.name} {label} DEVICE",
                kind="busy",
            )
        return step

    return look


def settled(device: str) -> Look:
    """A new spare waits for its turn, or has taken a place."""

    def look(volume: model.Volume, _seen: list[model.Event]) -> Step:
        member = next((m for m in volume.members if m.member == device), None)
        if member is None or member.state == "faulty":
            raise IraidError(
                f"volume {volume.name} has lost {device}: "
                f"{(member.reason if member else None) or 'it is no longer a device of the volume'}",
                f"iraid status {volume.name}",
                kind="io",
            )
        waiting = model.Work(reason=member.reason or f"it is {member.state}")
        work = volume.rebuild if volume.rebuild.member == device else waiting
        return Step(member.state in ("spare", "in sync"), f"rebuild of {device}", work)

    return look


LOOKS: dict[str, Look] = {"in-sync": in_sync, "rebuild": rebuilt, "scrub": scrubbed, "resync": resynced}
