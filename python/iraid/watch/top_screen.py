"""iraid top on a terminal.  curses rather than rich: it reads keys as well as it draws, sends only what has changed,
which matters over a slow line, and is part of Python.

One thread asks the handler, so that keys work also while it hangs; it passes frames over a queue and a byte over a
pipe.  The screen's thread waits for keys, frames and changes of the size in one place.
"""

from __future__ import annotations

import contextlib
import curses
import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from iraid.control.errors import IraidError, UsageFault
from iraid.control.units import local_time

from . import top

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_HELP = """\
q          end
s, S       sort by the next, the last: name, IOPS, throughput, latency, queue
v          show volumes and members, volumes alone, members alone
space, p   pause: figures stand still, and go on from now afterwards
+, -       longer, shorter intervals
up, down   move what is shown, when it is longer than the screen
h, ?       this help; any key ends it

r/s w/s o/s        reads, writes, others (flush, zero, compare) a second
rMiB/s wMiB/s      moved by them
r ms w ms          mean time they took
r p99< w p99<      99 of 100 took less (upper bound of the histogram's bucket)
QUEUE              under way now
RTT ms CWND K      round trip (the longest of its sessions), congestion windows
RETR/s DELIV       packets sent again a second; MiB/s the kernel saw delivered"""


@dataclass
class Choices:
    """What keys change."""

    interval: float = 1.0
    sort: str = "name"
    view: str = "all"
    paused: bool = False
    help: bool = False
    first: int = 0  # row at the top
    done: bool = False


def press(key: str, chosen: Choices) -> None:
    """What a key does; those that mean nothing do nothing."""
    if key == "KEY_RESIZE":
        return
    if chosen.help:
        chosen.help = False
    elif key in ("q", "Q", "\x03"):
        chosen.done = True
    elif key in ("s", "S"):
        step = 1 if key == "s" else -1
        chosen.sort = top.SORTS[(top.SORTS.index(chosen.sort) + step) % len(top.SORTS)]
    elif key == "v":
        chosen.view = top.VIEWS[(top.VIEWS.index(chosen.view) + 1) % len(top.VIEWS)]
        chosen.first = 0
    elif key in (" ", "p"):
        chosen.paused = not chosen.paused
    elif key == "+":
        chosen.interval = next((one for one in INTERVALS if one > chosen.interval), chosen.interval)
    elif key == "-":
        chosen.interval = next((one for one in reversed(INTERVALS) if one < chosen.interval), chosen.interval)
    elif key in ("KEY_DOWN", "j"):
        chosen.first += 1
    elif key in ("KEY_UP", "k"):
        chosen.first = max(chosen.first - 1, 0)
    elif key in ("h", "?"):
        chosen.help = True


def page(made: top.Frame | None, chosen: Choices, width: int, height: int) -> list[top.Line]:
    """All lines of the screen, none wider than it, no more than fit."""
    if chosen.help:
        return [[(line[:width], "")] for line in _HELP.splitlines()[:height]]
    state = f"iraid top  {_clock(made)}  every {chosen.interval:g} s  by {chosen.sort}"
    if chosen.paused:
        state += "  PAUSED"
    shown: list[top.Line] = [[(state[:width], "bold")]]
    if made is None:
        return shown[:height]
    if made.error is not None:
        shown.append([(made.error[:width], "red")])
        shown.append([("waiting for it to answer again"[:width], "")])
        return shown[:height]
    said = top.summary(made) + ("; the handler was restarted" if made.restarted else "")
    shown.append([(said[:width], "")])
    rows = top.ordered(made, chosen.sort, chosen.view)
    if not rows:
        shown.append([("No volumes.  Make one: iraid create --help"[:width], "")])
        return shown[:height]
    head, *body = top.lines(rows, width, chosen.view)
    room = max(height - len(shown) - 1, 0)
    chosen.first = min(chosen.first, max(len(body) - room, 0))
    return [*shown, head, *body[chosen.first : chosen.first + room]][:height]


def _clock(made: top.Frame | None) -> str:
    at = local_time(made.time_ms) if made else datetime.now()
    return f"{at:%H:%M:%S}"


# --- the terminal ---


class Asker(threading.Thread):
    """Asks once an interval; what it raised, if anything but a handler that is away, ends the screen."""

    def __init__(self, watch: Any, chosen: Choices, wake: int) -> None:
        super().__init__(daemon=True)
        self.watch, self.chosen, self.wake = watch, chosen, wake
        self.frames: queue.SimpleQueue[top.Frame | IraidError] = queue.SimpleQueue()
        self.sooner = threading.Event()  # the interval was changed, or it is over

    def run(self) -> None:
        while not self.chosen.done:
            due = time.monotonic() + self.chosen.interval
            try:
                self.frames.put(self.watch.next())
            except IraidError as error:
                self.frames.put(error)
            with contextlib.suppress(BlockingIOError):  # full: the other side will look anyway
                os.write(self.wake, b"f")
            self.sooner.wait(max(due - time.monotonic(), 0.05))
            self.sooner.clear()


def run(watch: Any, chosen: Choices, count: int | None) -> None:
    """Until q, or for `count` intervals.  watch.next() gives frames.  Raises IraidError."""
    try:
        curses.setupterm()
    except curses.error as error:
        raise UsageFault(
            f"the terminal '{os.environ.get('TERM', '')}' is not known: {error}", "set TERM, or use --batch"
        ) from error
    # Never closed: the thread that asks may still be waiting for an answer, and writes to it later.
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with _signals(writing):
        curses.wrapper(_loop, watch, chosen, count, reading, writing)


@contextlib.contextmanager
def _signals(wake: int) -> Iterator[None]:
    """A new size wakes the loop; an end by signal leaves the terminal as it was."""

    def resized(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(wake, b"r")

    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    handlers = {signal.SIGTERM: ended, signal.SIGHUP: ended, signal.SIGWINCH: resized}
    kept = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _loop(screen: Any, watch: Any, chosen: Choices, count: int | None, reading: int, writing: int) -> None:
    styles = _styles()
    screen.nodelay(True)
    asker = Asker(watch, chosen, writing)
    asker.start()
    shown: top.Frame | None = None
    left = count
    try:
        while not chosen.done:
            _draw(screen, page(shown, chosen, *_size(screen)), styles)
            select.select([sys.stdin.fileno(), reading], [], [])
            _swallow(reading)
            interval = chosen.interval
            for key in _keys(screen):
                press(key, chosen)
            for made in _frames(asker):
                if not chosen.paused:
                    shown = made
                if left is not None and made.seconds is not None:
                    left -= 1
                    chosen.done = chosen.done or left <= 0
            if chosen.done or interval != chosen.interval:
                asker.sooner.set()
    except KeyboardInterrupt:
        pass
    finally:
        chosen.done = True
        asker.sooner.set()
        asker.join(0.2)  # one that waits for a handler that hangs ends with the process


def _frames(asker: Asker) -> Iterator[top.Frame]:
    while True:
        try:
            made = asker.frames.get_nowait()
        except queue.Empty:
            return
        if isinstance(made, IraidError):
            raise made
        yield made


def _swallow(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, 4096)


def _keys(screen: Any) -> Iterator[str]:
    while True:
        try:
            yield screen.getkey()
        except curses.error:  # no more
            return


def _size(screen: Any) -> tuple[int, int]:
    """Width and height.  curses' own handler for changes is replaced by ours, so it is told here."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        height, width = screen.getmaxyx()
        return width, height
    if (size.lines, size.columns) != screen.getmaxyx() and size.lines and size.columns:
        curses.resizeterm(size.lines, size.columns)
    return size.columns, size.lines


def _styles() -> dict[str, int]:
    styles = {
        "": 0,
        "bold": curses.A_BOLD,
        "dim": curses.A_DIM,
        "head": curses.A_REVERSE,
        "green": 0,
        "yellow": curses.A_BOLD,
        "red": curses.A_BOLD,
    }
    with contextlib.suppress(curses.error):
        curses.curs_set(0)
    if curses.has_colors() and "NO_COLOR" not in os.environ:
        curses.use_default_colors()
        for number, (name, colour) in enumerate(
            (("green", curses.COLOR_GREEN), ("yellow", curses.COLOR_YELLOW), ("red", curses.COLOR_RED)), start=1
        ):
            curses.init_pair(number, colour, -1)
            styles[name] = curses.color_pair(number) | (curses.A_BOLD if name == "red" else 0)
    return styles


def _draw(screen: Any, lines: list[top.Line], styles: dict[str, int]) -> None:
    screen.erase()
    height, width = screen.getmaxyx()
    for y, line in enumerate(lines[:height]):
        x = 0
        for text, style in line:
            if x >= width:
                break
            # The last cell of the screen can't be written without an error, though it is.
            with contextlib.suppress(curses.error):
                screen.addnstr(y, x, text, width - x, styles.get(style, 0))
            x += len(text)
    screen.refresh()
