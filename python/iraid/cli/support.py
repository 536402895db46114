"""support: one archive of all that helps to find out what is wrong."""

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from iraid.control.client import Client
from iraid.control.units import format_size
from iraid.lio import target

from .commands import command, print_json
from .report import Report


@contextmanager
def unwinding(*numbers: signal.Signals) -> Iterator[None]:
    """What ends a program at once ends it in order here: half an archive is of no use, and holds what nobody looked
    through."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@command(
    click.option(
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Archive to write; it must not exist [iraid-support-HOST-TIME.tar.xz].",
    ),
    examples="iraid support\niraid support --output /root/gateway.tar.xz\ntar -tf /root/gateway.tar.xz",
)
def support_(client: Client, report: Report | None, output: Path | None) -> None:
    """Gather status, statistics, events, superblocks, configuration and logs in one archive, without secrets.

    Without a handler, gathers what it can.  Only its owner can read the archive.  It holds names and addresses of targets
    and initiators, and no data of volumes.
    """
    target.check_root("logs and settings can be gathered")
    from iraid.watch import support  # no other command need wait for it

    name = f"iraid-support-{socket.gethostname()}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = output or Path(f"{name}.tar.xz")
    with unwinding(signal.SIGTERM, signal.SIGHUP):
        kept = support.write(support.Collector(client), path, name)
    if report is None:
        return print_json({"file": str(path), "bytes": path.stat().st_size, "parts": [asdict(one) for one in kept]})
    report.table(
        ["IN IT", "WHAT", "SIZE"],
        [
            [
                one.path,
                one.what if one.error is None else f"not there: {one.error}",
                "-" if one.error else format_size(one.bytes),
            ]
            for one in kept
        ],
        right=(2,),
        wide=(1,),
    )
    report.line()
    report.line(
        f"{path}: {format_size(path.stat().st_size)}.  Passwords, and user names in settings, are removed.  It holds "
        "names and addresses of targets and initiators."
    )
