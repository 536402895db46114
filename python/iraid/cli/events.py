"""events: what happened, and what happens."""

import json
from datetime import datetime

import click

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import UsageFault
from iraid.watch import follow

from . import completion
from .commands import checked, command, print_json, warn
from .report import Report


def _since(text: str) -> datetime:
    try:
        return follow.parse_since(text)
    except ValueError as error:
        raise UsageFault(f"--since: {error}", "see iraid events --help") from error


@command(
    click.argument("name", required=False, shell_complete=completion.volumes),
    click.option("--follow", "following", is_flag=True, help="Show new events as they happen, until interrupted."),
    click.option(
        "--severity",
        type=click.Choice(follow.SEVERITIES),
        default="debug",
        metavar="LEAST",
        help="Only events at least this severe: emergency, alert, critical, error, warning, notice, info.",
    ),
    click.option(
        "--since",
        metavar="TIME",
        callback=checked(_since),
        help="Only events since this time: 10min, 2h or 3d (ago), 14:30, or 2026-01-31 14:30.",
    ),
    examples="iraid events\niraid events v0 --follow\niraid events --severity warning --since 2h\n"
    "iraid events --follow --json | jq -r .text",
)
def events(
    client: Client, report: Report | None, name: str | None, following: bool, severity: str, since: datetime | None
) -> None:
    """Show what happened to a volume, or to all volumes: the last 1000 events since the handler's start.

    --follow continues when the handler is restarted, and says so.  With --follow and --json each event is one line.
    """

    def wanted(all_: list[model.Event]) -> list[model.Event]:
        return [
            event
            for event in all_
            if follow.at_least(event.severity, severity)
            and (since is None or event.time_ms >= since.timestamp() * 1000)
        ]

    page = client.events(name, 0, 0)
    if report is None and not following:
        return print_json(
            {"instance": page.instance, "events": [model.to_json(event) for event in wanted(page.events)]}
        )
    _show(report, wanted(page.events))
    if not following:
        return
    follower = follow.Follower(client, name, follow.Position(page.instance, page.next))
    try:
        away = False
        while True:
            batch = follower.next(follow.WAIT_SECONDS)
            _warn(batch, away)
            away = batch.away is not None
            _show(report, wanted(batch.events))
    except KeyboardInterrupt:  # the usual end
        pass


def _warn(batch: follow.Batch, away: bool) -> None:
    if batch.away is not None and not away:
        warn([f"{batch.away}; waiting for it"])
    if batch.restarted:
        warn(["the handler was restarted"])
    if batch.missed:
        warn([f"{batch.missed} events are missing: they came too fast to be kept"])


def _show(report: Report | None, shown: list[model.Event]) -> None:
    for event in shown:
        if report is None:
            click.echo(json.dumps(model.to_json(event)))
        else:
            report.line(follow.line(event))
