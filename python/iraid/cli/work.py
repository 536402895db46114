"""Work in the background and what became of it: scrub, lost, set, wait."""

from typing import Any

import click

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import IraidError, UsageFault
from iraid.control.units import format_size

from . import completion, progress
from .commands import NAME, SizeType, ask, command, print_json, warn
from .report import Report

MISMATCHES_STATUS = 3


# --- scrub ---


@command(
    click.argument("action", type=click.Choice(["start", "stop", "status"])),
    click.argument("name", required=False, shell_complete=completion.volumes),
    click.option(
        "--all", "all_volumes", is_flag=True, help="Start on every active volume that has redundancy; give no NAME."
    ),
    click.option("--repair", is_flag=True, help="Rewrite parity that does not match the data."),
    click.option("--resume", is_flag=True, help="Continue where the last scrub was stopped."),
    click.option("--wait", is_flag=True, help="Wait until the scrub has ended; show progress."),
    examples="""\
iraid scrub start v0 --wait
iraid scrub start v0 --repair
iraid scrub status v0
iraid scrub start --all --wait""",
)
def scrub(
    client: Client,
    report: Report | None,
    action: str,
    name: str | None,
    all_volumes: bool,
    repair: bool,
    resume: bool,
    wait: bool,
) -> None:
    """Read all of a volume and compare parity with data.

    start begins a scrub in the background.  stop ends it.  status shows its progress and what it found.  Sectors that
    can't be read are rebuilt and rewritten.  With --wait, and with status, the exit status is 3 if rows did not match
    and were not repaired.
    """
    _check_scrub_words(action, name, all_volumes, repair, resume, wait)
    if all_volumes:
        return _scrub_all(client, report, repair, resume, wait)
    assert name is not None
    if action == "start":
        volume = client.scrub_start(name, repair, resume)
        if wait:
            volume = progress.wait_for(client, name, progress.scrubbed, quiet=report is None)
    else:
        volume = client.scrub_stop(name) if action == "stop" else client.status(name)
    if report is None:
        print_json({"name": name, "scrub": model.to_json(volume.scrub)})
    else:
        report.scrub(volume)
    if (wait or action == "status") and _unrepaired(volume):
        raise click.exceptions.Exit(MISMATCHES_STATUS)


def _check_scrub_words(
    action: str, name: str | None, all_volumes: bool, repair: bool, resume: bool, wait: bool
) -> None:
    help_words = "see iraid scrub --help"
    if all_volumes and (name is not None or action != "start"):
        raise UsageFault("--all needs the action start and no NAME", help_words)
    if not all_volumes and name is None:
        raise UsageFault(f"scrub {action} needs the NAME of a volume", help_words)
    if action != "start" and (repair or resume or wait):
        raise UsageFault(f"--repair, --resume and --wait need the action start, not {action}", help_words)


def _unrepaired(volume: model.Volume) -> bool:
    return volume.scrub.mismatches > 0 and volume.scrub.mode != "repair"


def _scrub_all(client: Client, report: Report | None, repair: bool, resume: bool, wait: bool) -> None:
    """Those that can't be scrubbed now are named and passed over; one that fails does not stop the others."""
    started: list[str] = []
    passed: list[dict[str, str]] = []
    failures: list[dict[str, Any]] = []
    for volume in sorted(client.volumes(), key=lambda one: one.name):
        why = _why_not_scrubbed(volume)
        if why:
            passed.append({"name": volume.name, "reason": why})
            continue
        try:
            client.scrub_start(volume.name, repair, resume)
            started.append(volume.name)
        except IraidError as error:
            failures.append({"name": volume.name, "error": error.to_json()})
    ended = []
    for one in started if wait else []:
        try:
            ended.append(progress.wait_for(client, one, progress.scrubbed, quiet=report is None))
        except IraidError as error:
            failures.append({"name": one, "error": error.to_json()})
    if report is None:
        print_json(
            {
                "started": started,
                "passed_over": passed,
                "failed": failures,
                "ended": [{"name": volume.name, "scrub": model.to_json(volume.scrub)} for volume in ended],
            }
        )
    else:
        _report_all(report, started, passed, ended)
    warn([f"volume {one['name']}: {one['error']['message']}" for one in failures])
    if failures:
        raise click.exceptions.Exit(1)
    if any(_unrepaired(volume) for volume in ended):
        raise click.exceptions.Exit(MISMATCHES_STATUS)


def _why_not_scrubbed(volume: model.Volume) -> str | None:
    if volume.state != "active":
        return f"it is {volume.state}"
    if volume.level == 0:
        return "level 0 has no redundancy"
    return "a scrub is under way" if volume.scrub.active else None


def _report_all(report: Report, started: list[str], passed: list[dict[str, str]], ended: list[model.Volume]) -> None:
    for one in passed:
        report.line(f"Volume {one['name']} is skipped: {one['reason']}.")
    for volume in ended:
        report.scrub(volume)
    if not ended:
        report.line(f"Scrub started: {', '.join(started)}." if started else "There is nothing to scrub.")


# --- lost extents ---


@command(
    NAME,
    click.option("--accept", is_flag=True, help="Accept what the members hold there as the data."),
    click.option(
        "--offset", type=SizeType(), default=0, metavar="SIZE", help="Accept only from this byte of the volume on."
    ),
    click.option("--length", type=SizeType(), metavar="SIZE", help="Accept only this many bytes."),
    click.option("--yes", is_flag=True, help="Don't ask."),
    examples="iraid lost v0\niraid lost v0 --accept --yes\niraid lost v0 --accept --offset 1M --length 64K",
)
def lost(
    client: Client, report: Report | None, name: str, accept: bool, offset: int, length: int | None, yes: bool
) -> None:
    """List the parts of a volume whose content is no longer known.

    They read as medium errors until they are overwritten.  --accept makes them readable as they are on the members: old
    data, or a mixture of old and new.
    """
    if not accept:
        if offset or length is not None or yes:
            raise UsageFault("--offset, --length and --yes need --accept", "see iraid lost --help")
        extents = _all_lost(client, name)
        if report is None:
            return print_json(
                {
                    "name": name,
                    "extents": [model.to_json(one) for one in extents],
                    "bytes": sum(one.length_bytes for one in extents),
                }
            )
        return report.lost(name, extents)
    if not yes:
        ask(
            f"Accept what the members hold in the lost parts of volume {name} as its data?",
            f"lost parts of volume {name} were not accepted, because this needs a confirmation",
            report,
        )
    done = client.accept_lost(name, offset, length)
    if report is None:
        return print_json(model.to_json(done))
    report.line(f"{format_size(done.accepted_bytes)} of volume {name} are accepted as they are.")


def _all_lost(client: Client, name: str) -> list[model.Extent]:
    extents: list[model.Extent] = []
    offset = 0
    while True:
        page = client.lost(name, offset)
        extents += page.extents
        if not page.more or not page.extents:
            return extents
        offset = page.extents[-1].offset_bytes + page.extents[-1].length_bytes


# --- settings ---

_LOG_WORDS = {
    "off": "off, no write is logged",
    "degraded": "degraded, writes are logged while members are out",
    "always": "always, writes are logged also while all members are there",
}

_DIGESTS = ["none", "preferred", "required"]


@command(
    NAME,
    click.option(
        "--rate-min",
        type=SizeType(),
        metavar="SIZE",
        help="Lower limit, bytes a second of each member: also while initiators are busy.",
    ),
    click.option("--rate-max", type=SizeType(), metavar="SIZE", help="Upper limit, bytes a second of each member."),
    click.option(
        "--log",
        type=click.Choice([*_LOG_WORDS]),
        help="Levels 5 and 6: log writes while members are out (degraded), also while all are there (always), or never "
        "(off).",
    ),
    click.option(
        "--header-digest",
        type=click.Choice(_DIGESTS),
        help="CRC32C of headers between gateway and targets; required: targets without it are not used.",
    ),
    click.option("--data-digest", type=click.Choice(_DIGESTS), help="The same of data."),
    examples="iraid set v0\niraid set v0 --rate-min 20M --rate-max 200M\niraid set v0 --log degraded\n"
    "iraid set v0 --header-digest required --data-digest required",
)
def set_(
    client: Client,
    report: Report | None,
    name: str,
    rate_min: int | None,
    rate_max: int | None,
    log: str | None,
    header_digest: str | None,
    data_digest: str | None,
) -> None:
    """Set the limits of resync, rebuild and scrub, the write log, and digests; without an option, show them.

    Between the limits, background work yields to I/O of initiators.  A change applies at once, and after a restart.
    --log degraded and --log always also try a log again that was given up.
    Digests hold from the next login to each member on.
    """
    settings = client.change_settings(name, rate_min, rate_max, log, header_digest, data_digest)
    if report is None:
        return print_json(model.to_json(settings))
    report.line(
        f"Background work of volume {name}: {format_size(settings.sync_rate_min_bytes)}/s to "
        f"{format_size(settings.sync_rate_max_bytes)}/s of each member."
    )
    if settings.log:
        report.line(f"Write log of volume {name}: {_LOG_WORDS.get(settings.log, settings.log)}.")
    if settings.header_digest:
        when = ", from the next login to each member on" if header_digest or data_digest else ""
        report.line(f"Digests of volume {name}: headers {settings.header_digest}, data {settings.data_digest}{when}.")


# --- wait ---


@command(
    NAME,
    click.option(
        "--for",
        "what",
        type=click.Choice(sorted(progress.LOOKS)),
        default="in-sync",
        show_default=True,
        help="What to wait for.",
    ),
    click.option("--timeout", type=click.IntRange(min=1), metavar="SECONDS", help="Longest time to wait."),
    examples="iraid wait v0\niraid wait v0 --for rebuild --timeout 3600",
)
def wait(client: Client, report: Report | None, name: str, what: str, timeout: int | None) -> None:
    """Wait until a volume's members are all in sync, or until a rebuild, resync or scrub has ended.

    Shows progress while it waits.  Work that is not under way counts as ended.
    """
    volume = progress.wait_for(client, name, progress.LOOKS[what], quiet=report is None, seconds=timeout)
    if report is None:
        return print_json(model.to_json(volume))
    words = "all members are in sync" if what == "in-sync" else f"no {what} is under way"
    report.line(f"Volume {name} is {volume.state}: {words}.")
