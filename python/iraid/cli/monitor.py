"""monitor: mail, or a program, when something happens.  What iraid-monitor.service runs."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import click

from iraid.control.client import Client
from iraid.control.errors import IraidError, UsageFault
from iraid.watch import follow, monitor, notify

from .commands import command, print_json
from .report import Report

STATE_DEFAULT = "/var/lib/iraid"


@command(
    click.option("--mail", multiple=True, metavar="ADDRESS", help="Send mail to this address; repeatable."),
    click.option(
        "--command",
        "program",
        type=click.Path(path_type=Path),
        metavar="PROGRAM",
        help="Run this program for each event, as PROGRAM KIND VOLUME MEMBER.",
    ),
    click.option(
        "--severity",
        type=click.Choice(follow.SEVERITIES),
        metavar="LEAST",
        help="Only events at least this severe: emergency, alert, critical, error, warning, notice, info [warning].",
    ),
    click.option("--from", "sender", metavar="ADDRESS", default="", help="Sender of mail."),
    click.option(
        "--sendmail",
        type=click.Path(path_type=Path),
        default=notify.SENDMAIL,
        show_default=True,
        metavar="PROGRAM",
        help="Program that sends the mail.",
    ),
    click.option(
        "--burst",
        type=click.FloatRange(0, 600),
        default=monitor.BURST_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Events within this time go into one mail.",
    ),
    click.option("--once", is_flag=True, help="Report what is new since the last time, and exit."),
    click.option("--test", is_flag=True, help="Send a test message, and exit."),
    examples="iraid monitor --test --mail root\niraid monitor --mail storage@example.org --severity notice\n"
    "iraid monitor --once --command /usr/local/sbin/storage-event\nsystemctl enable --now iraid-monitor",
)
def monitor_(
    client: Client,
    report: Report | None,
    mail: tuple[str, ...],
    program: Path | None,
    severity: str | None,
    sender: str,
    sendmail: Path,
    burst: float,
    once: bool,
    test: bool,
) -> None:
    """Send mail, or run a program, when something happens to a volume or when the handler does not answer.

    Recipients are set in gateway.conf, [notify]; --mail or --command replace them.  Each event is reported once, also
    over restarts of the handler and of this program.
    """
    settings = _settings(mail, program, severity)
    settings.sender, settings.sendmail, settings.burst = sender, sendmail, burst
    _check(settings)
    host = socket.gethostname()
    if test:
        return _test(settings, host, report)
    folder = Path(os.environ.get("IRAID_STATE_DIR") or STATE_DEFAULT)
    watching = monitor.Monitor(client, settings, monitor.StateFile(folder / "monitor.json"), host)
    if once:
        failures = watching.once()
        if report is None:
            print_json({"failures": failures, "pending": len(watching.state.pending)})
        if failures:
            raise click.exceptions.Exit(1)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the usual end
    try:
        while True:
            watching.step()
    except KeyboardInterrupt:
        pass


def _settings(mail: tuple[str, ...], program: Path | None, severity: str | None) -> monitor.Settings:
    if mail or program is not None:
        return monitor.Settings(list(mail), program, severity or "warning")
    settings = monitor.from_settings(_notify_of_gateway())
    settings.severity = severity or settings.severity
    return settings


def _notify_of_gateway() -> dict[str, Any]:
    from iraid.control import settings

    section: dict[str, Any] = settings.gateway()["notify"]
    return section


def _check(settings: monitor.Settings) -> None:
    if not settings.mail and settings.command is None:
        raise UsageFault(
            "there is no recipient: neither a mail address nor a program is set",
            "set mail or command in gateway.conf, [notify], or give --mail or --command",
        )
    for address in [*settings.mail, *([settings.sender] if settings.sender else [])]:
        try:
            notify.check_address(address)
        except ValueError as error:
            raise UsageFault(str(error), "see iraid monitor --help") from error
    if settings.mail:
        notify.check_program(
            settings.sendmail,
            "the program that sends mail,",
            "apt install postfix, or msmtp-mta to pass mail on to another machine",
        )
    if settings.command is not None:
        notify.check_program(settings.command, "the program for events,", "name a program by its absolute path")


def _test(settings: monitor.Settings, host: str, report: Report | None) -> None:
    """All ways are tried; the first failure is the one that is raised."""
    event = monitor.test_event(host)
    done: list[str] = []
    failures: list[IraidError] = []
    if settings.mail:
        try:
            notify.send(
                notify.compose([event], [], host, settings.mail, settings.sender),
                host,
                settings.sendmail,
                settings.sender,
            )
            done.append(f"mail to {', '.join(settings.mail)} was passed to {settings.sendmail}")
        except IraidError as error:
            failures.append(error)
    if settings.command is not None:
        try:
            notify.run_command(settings.command, event, "")
            done.append(f"{settings.command} was run")
        except IraidError as error:
            failures.append(error)
    if report is None and not failures:
        return print_json({"done": done})
    if report is not None:
        for text in done:
            report.line(f"Test: {text}.")
    if failures:
        raise failures[0]
