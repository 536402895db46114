"""doctor: what is wrong with this gateway, and what to type."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iraid.control.client import Client
from iraid.control.errors import IraidError

from .commands import command, print_json, warn
from .report import Report, Styled

if TYPE_CHECKING:
    from iraid.watch.doctor import Finding

_STYLES = {"ok": "green", "unknown": "", "note": "cyan", "warning": "yellow", "bad": "red"}


@command(
    click.option("--quiet", is_flag=True, help="Leave out checks that are ok."),
    click.option(
        "--peer", metavar="HOST", help="Compare this gateway with the other one of a pair instead, asked by ssh."
    ),
    click.option(
        "--peer-facts",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The same, with what 'iraid doctor --facts' printed there.",
    ),
    click.option("--facts", is_flag=True, help="Print what is compared, as JSON without secrets, and nothing else."),
    click.option(
        "--nonce",
        type=click.Path(path_type=Path, allow_dash=True),
        metavar="FILE",
        help="A random text, - for standard input: with it the facts have digests of secrets.  Give the same to both.",
    ),
    examples="iraid doctor\niraid doctor --quiet\niraid doctor --peer gw2\n"
    "iraid doctor --json | jq -r '.findings[] | select(.grade == \"bad\").text'",
)
def doctor_(
    client: Client,
    report: Report | None,
    quiet: bool,
    peer: str | None,
    peer_facts: Path | None,
    facts: bool,
    nonce: Path | None,
) -> None:
    """Look for faults of this gateway, and show the commands that mend them.

    Checks handler, kernel, units, limits, volumes, portals, tuning, exports, secrets, clock and log.  Changes nothing.
    Works without a handler, too.  Exit status 0: ok; 1: there are warnings; 2: something is bad.
    """
    if sum((peer is not None, peer_facts is not None, facts)) > 1:
        raise click.UsageError("--peer, --peer-facts and --facts exclude each other")
    if nonce is not None and peer_facts is None and not facts:
        raise click.UsageError("--nonce goes with --facts and --peer-facts")
    if facts:
        from iraid.watch import peer as beside

        return click.echo(beside.to_json(beside.gather(client, _read_nonce(nonce))))
    if peer is not None or peer_facts is not None:
        return _show(report, _compare(client, peer, peer_facts, nonce), quiet)
    from iraid.watch import doctor
    from iraid.watch.facts import gather  # no other command need wait for them

    _show(report, doctor.examine(gather(client)), quiet)


def _compare(client: Client, peer: str | None, peer_facts: Path | None, nonce: Path | None) -> list[Finding]:
    from iraid.watch import peer as beside

    if peer is None:
        assert peer_facts is not None
        there = beside.read(_read(peer_facts, beside.ANSWER_BYTES_MAX + 1), str(peer_facts))
        return beside.examine(beside.Pair(beside.gather(client, _read_nonce(nonce)), there))
    key = beside.new_nonce()
    before = time.time_ns() // 1_000_000
    there = beside.ask(peer, key)
    after = time.time_ns() // 1_000_000
    return beside.examine(beside.Pair(beside.gather(client, key), there, before, after))


def _read_nonce(path: Path | None) -> bytes | None:
    if path is None:
        return None
    text = (sys.stdin.buffer.readline(4096) if str(path) == "-" else _read(path, 4096)).strip()
    if len(text) < 16:
        raise IraidError(
            f"--nonce {path}: {len(text)} characters are too few: who has the facts could try all of them",
            "head -c 32 /dev/urandom | base64 > FILE",
            kind="invalid",
        )
    return text


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise IraidError(
            f"{path}: {error.strerror or error}", "name a file that can be read", kind="invalid"
        ) from error


def _show(report: Report | None, found: list[Finding], quiet: bool) -> None:
    from iraid.watch import doctor

    status = doctor.exit_status(found)
    if os.geteuid() != 0:
        warn(["some checks need root: run the command as root to have them all"])
    shown = [one for one in found if not quiet or one.grade != "ok"]
    if report is None:
        print_json(
            {
                "findings": [asdict(one) for one in shown],
                "worst": doctor.GRADES[max(doctor.GRADES.index(one.grade) for one in found)],
            }
        )
    else:
        _report(report, [(one.grade, one.check, one.text, one.remedies) for one in shown])
        report.line(doctor.counted(found))
    if status:
        raise click.exceptions.Exit(status)


def _report(report: Report, shown: list[tuple[str, str, str, list[str]]]) -> None:
    for grade, check, text, remedies in shown:
        report.pieces([Styled(f"{grade:8}", _STYLES[grade]), Styled(f"{check:14}", "bold"), Styled(text)])
        for remedy in remedies:
            report.line(f"{'':22}-> {remedy}")
