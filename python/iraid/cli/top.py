"""top: what volumes and members do, live on a terminal, or as lines for logs and programs."""

import json
import sys
import time

import click

from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.control.units import local_time
from iraid.watch import stats, top

from . import completion
from .commands import command, warn
from .report import Report


class Watch:
    """Looks at the volumes again and again.  A handler that goes away is waited for; one that was never there is an
    error, as is a volume that was asked for and never was."""

    def __init__(self, client: Client, names: tuple[str, ...]) -> None:
        self.client, self.names = client, names
        self.last: top.Look | None = None

    def next(self) -> top.Frame:
        now = self._look()
        if now.error is not None and self.last is None:
            raise IraidError(
                now.error, "systemctl status tcmu-runner; or name its socket with --socket", kind="unavailable"
            )
        made = top.frame(self.last, now)
        self.last = now if now.error is None else self.last
        return made

    def _look(self) -> top.Look:
        look = top.Look(time.monotonic(), time.time_ns() // 1_000_000)
        try:
            volumes = self.client.volumes()
            look.volumes = [one for one in volumes if not self.names or one.name in self.names]
            self._check_names({one.name for one in volumes})
            for volume in look.volumes:
                self._add(look, volume.name)
        except IraidError as error:
            if error.kind != "unavailable":
                raise
            return top.Look(look.seconds, look.time_ms, error=error.message)
        return look

    def _check_names(self, there: set[str]) -> None:
        missing = [name for name in self.names if name not in there]
        if missing and self.last is None:
            raise IraidError(
                f"there is no volume {', '.join(missing)}", "see what there is: iraid list", kind="not_found"
            )

    def _add(self, look: top.Look, name: str) -> None:
        try:
            look.stats[name] = stats.ask(self.client, name)
        except IraidError as error:
            if error.kind not in ("not_found", "invalid"):  # deleted since it was listed; its file has a fault
                raise


@command(
    click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.volumes),
    click.option(
        "--interval",
        type=click.FloatRange(0.1, 3600),
        default=1.0,
        show_default=True,
        metavar="SECONDS",
        help="Time between two updates.",
    ),
    click.option("--count", type=click.IntRange(min=1), metavar="NUMBER", help="End after this many intervals."),
    click.option(
        "--sort",
        type=click.Choice(top.SORTS),
        default="name",
        show_default=True,
        help="Sort order; by a figure, the largest comes first.",
    ),
    click.option(
        "--view",
        type=click.Choice(top.VIEWS),
        default="all",
        show_default=True,
        help="Show volumes and members, or only one of them.",
    ),
    click.option(
        "--batch", is_flag=True, help="Print plain lines, as for a log.  The default if the output is not a terminal."
    ),
    examples="iraid top\niraid top v0 --interval 5 --view members\niraid top --batch --interval 10 >> /var/log/iraid-top\n"
    "iraid top --json --count 3 | jq '.volumes[].read.bytes_per_second'",
)
def top_(
    client: Client,
    report: Report | None,
    names: tuple[str, ...],
    interval: float,
    count: int | None,
    sort: str,
    view: str,
    batch: bool,
) -> None:
    """Show live what volumes and members do: commands and bytes a second, times, queues and TCP connections.

    Keys: q ends, s changes the order, v selects volumes or members, p pauses, + and - change the interval, h shows help.
    With --json each interval is one line.
    """
    watch = Watch(client, names)
    if report is not None and not batch and sys.stdin.isatty() and report.terminal:
        from iraid.watch import top_screen  # curses is not needed for lines

        top_screen.run(watch, top_screen.Choices(interval, sort, view), count)
        return
    try:
        _lines(watch, report, interval, count, sort, view)
    except KeyboardInterrupt:  # the usual end
        pass


def _lines(watch: Watch, report: Report | None, interval: float, count: int | None, sort: str, view: str) -> None:
    due = time.monotonic()
    left = count
    away = False
    while left is None or left > 0:
        made = watch.next()
        if made.restarted:
            warn(["the handler was restarted"])
        if made.error is not None and not away and report is not None:
            warn([f"{made.error}; waiting for it"])
        away = made.error is not None
        if made.seconds is not None or away and report is None:
            _show(report, made, sort, view)
            left = left - 1 if left is not None and not away else left
        if left == 0:
            return
        due = max(due + interval, time.monotonic())
        time.sleep(due - time.monotonic())


def _show(report: Report | None, made: top.Frame, sort: str, view: str) -> None:
    if report is None:
        return click.echo(json.dumps(top.to_json(made)))
    at = local_time(made.time_ms).isoformat(" ", "seconds")
    report.line(f"{at}  {top.summary(made)}")
    for line in top.lines(top.ordered(made, sort, view), None, view):
        report.line("".join(text for text, _ in line).rstrip())
    report.line()
