"""`iraid exporter`: what iraid-exporter.service runs.  The work is in the package exporter, which is installed on its own."""

import contextlib
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import click

from iraid.control import settings
from iraid.control.client import Client
from iraid.control.errors import IraidError, UsageFault

from .commands import command
from .report import Report

ADDRESS, PORT = "127.0.0.1", 9723  # the handler's defaults, for --help
_PACKAGE_REMEDY = "install it: apt install iraid-exporter (it needs python3-prometheus-client)"


@command(
    click.option("--address", metavar="IP", help=f"Address to listen on [{ADDRESS}]; :: and 0.0.0.0: all addresses."),
    click.option(
        "--port", type=click.IntRange(0, 65535), metavar="PORT", help=f"Port to listen on [{PORT}]; 0: any free port."
    ),
    click.option(
        "--allow-host",
        "allowed_hosts",
        multiple=True,
        metavar="NAME",
        help="Host name of this machine that browsers and Prometheus may use; repeatable.",
    ),
    click.option("--once", is_flag=True, help="Print the metrics, and exit."),
    examples="""\
iraid exporter
iraid exporter --address 10.0.0.9 --allow-host gw1.example.org
iraid exporter --once""",
)
def exporter(
    client: Client,
    report: Report | None,
    address: str | None,
    port: int | None,
    allowed_hosts: tuple[str, ...],
    once: bool,
) -> None:
    """Serve metrics for Prometheus at /metrics, and a page that shows this gateway at /.

    It asks the handler and changes nothing.  It goes on without a handler, and says so.  There is no login: anyone who
    reaches the address can read it.  Options override [exporter] of /etc/iraid/gateway.conf.
    """
    run = _exporter()
    if once:
        text = run.metrics_once(client.path) if report else run.page_data_once(client.path)
        return click.echo(text, nl=False)
    address, port = _listen_on(address, port)
    try:
        service = run.Service(client.path, address, port, allowed_hosts)
    except OSError as error:
        raise IraidError(
            f"{address} port {port}: {error.strerror or error}",
            "choose another with --address and --port, or see which program uses it: ss -ltnp",
            kind="busy",
        ) from error
    with service, _ended_by_signals() as ended:
        if report is None:
            click.echo(json.dumps({"url": service.url}))
        else:
            report.line(f"Page at {service.url}, metrics at {service.url}metrics.")
        sys.stdout.flush()
        notify_systemd("READY=1")
        ended.wait()
        notify_systemd("STOPPING=1")


def _exporter() -> Any:
    """The module exporter.run: it, or the client library, may not be installed."""
    try:
        from iraid.exporter import run
    except ImportError as error:  # a folder that only caches are left in is a package, too
        raise IraidError(
            f"the exporter is not installed: there is no {error.name}", _PACKAGE_REMEDY, kind="unavailable"
        ) from error
    return run


def _listen_on(address: str | None, port: int | None) -> tuple[str, int]:
    """The file is not looked at when both are given, so that one with faults does not stand in the way."""
    if address is None or port is None:
        configured = settings.gateway()["exporter"]
        address = configured["address"] if address is None else address
        port = configured["port"] if port is None else port
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise UsageFault(
            f"'{address}' is not an IP address to listen on",
            "give an address of this machine, for example 127.0.0.1 or ::1",
        ) from error
    return address, port


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[threading.Event]:
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def notify_systemd(state: str) -> None:
    """sd_notify(3), for a unit of Type=notify; nothing when nobody wants to know."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        with contextlib.suppress(OSError):  # systemd's own time limit tells what comes of it
            channel.connect("\0" + path[1:] if path.startswith("@") else path)
            channel.sendall(state.encode())
