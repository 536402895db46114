"""What is typed: commands, options, exit status (0 done, 1 failed, 2 wrong usage).

Every command builds one JSON object; with --json that is printed, else report.py shows the same
objects to a person.  Errors go to stderr as "iraid: MESSAGE" and "  remedy: REMEDY"; with --json
also to stdout as {"error": {type, message, remedy}}.

Here are main() and the commands about whole volumes.
"""

import sys
from pathlib import Path
from typing import Any

import click

from iraid import __version__
from iraid.control import model
from iraid.control.client import NO_ANSWER, Client, status_of_all
from iraid.control.errors import IraidError, UsageFault
from iraid.control.units import format_size
from iraid.lio import target
from iraid.watch import verdict

from . import (
    advise,
    completion,
    config,
    doctor,
    events,
    export,
    exporter,
    grow,
    import_volume,
    levels,
    members,
    mistakes,
    monitor,
    progress,
    steps,
    support,
    top,
    work,
)
from .commands import (
    CHAP_FILE,
    INITIATOR,
    NAME,
    SizeType,
    absolute,
    ask,
    cli,
    command,
    fail,
    print_json,
    warn,
)
from .levels import LevelType
from .report import Report, describe_role

# To be loaded makes their commands known.
WITH_COMMANDS = (
    advise,
    config,
    doctor,
    events,
    export,
    exporter,
    grow,
    import_volume,
    members,
    monitor,
    steps,
    support,
    top,
    work,
)
START_WAIT_SECONDS = 20
_FORCE_COST = (
    "--force starts from the members as they are, even if newer ones are known to exist or too many are out of date. "
    "What was written since they left is LOST.  It can't be recovered, even if the newer members return.  If the "
    "record of parts that were lost before can't be read (iraid status says so), those parts read as whatever the "
    "members hold."
)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        return cli.main(args=arguments, prog_name="iraid", standalone_mode=False) or 0
    except IraidError as error:
        return fail(error, "--json" in arguments)
    except click.UsageError as error:
        return fail(mistakes.fault_of(error), "--json" in arguments)
    except (click.Abort, KeyboardInterrupt):
        return fail(IraidError("interrupted: nothing more was done", kind="interrupted"), False)
    except BrokenPipeError:  # `iraid list | head`
        sys.stderr.close()
        return 1


@command(
    NAME,
    click.argument("members", nargs=-1, required=True, metavar="MEMBER..."),
    click.option(
        "--level",
        type=LevelType(),
        help="By default what fits the number of members: 1 for two, 5 for three to seven, 6 for more.  "
        "0 (s-iraid: stripes, no redundancy), 1 (2 to 4 copies), 5 (p-iraid: parity, one member may be lost), "
        "6 (two parities, any two may be lost) or 10 (stripes of two copies).",
    ),
    click.option("--chunk", type=SizeType(), default="64K", show_default=True, help="Power of two, 4K to 1M."),
    click.option(
        "--region-size",
        type=SizeType(),
        metavar="SIZE",
        help="Size of a region: data of each member that one bit of the write-intent bitmap covers [64 chunks].",
    ),
    click.option(
        "--spare", "spares", multiple=True, metavar="DEVICE", help="LUN that replaces a member that fails; repeatable."
    ),
    click.option("--force", is_flag=True, help="Overwrite whatever is on the members. DESTROYS IT."),
    CHAP_FILE,
    INITIATOR,
    click.option(
        "--give-up",
        type=click.IntRange(min=1),
        metavar="SECONDS",
        help="Go on without a member that has been silent for this time [5].",
    ),
    click.option("--wait", is_flag=True, help="Wait until all parity, or all copies, are made; show progress."),
    examples="""\
iraid create v0 --level 5 --chunk 64K 10.0.0.{1,2,3,4}/iqn.2026-01.org.example:disk/0
iraid create fast --level s-iraid --chap-file /etc/iraid/secrets/fast \\
    10.0.0.1/iqn.2026-01.org.example:a/0 10.0.0.2/iqn.2026-01.org.example:b/0""",
)
def create(
    client: Client,
    report: Report | None,
    name: str,
    members: tuple[str, ...],
    level: int | None,
    chunk: int,
    region_size: int | None,
    spares: tuple[str, ...],
    force: bool,
    chap_file: Path | None,
    initiator: str | None,
    give_up: int | None,
    wait: bool,
) -> None:
    """Make a volume from LUNs on iSCSI targets, and start it.

    MEMBER is PORTAL/IQN/LUN, for example 10.0.0.1:3260/iqn.2026-01.org.example:disk/0; a LUN with several
    portals is PORTAL,PORTAL/IQN/LUN.  Without --force a member is refused if it holds a known signature: a file
    system, a partition table, RAID, iraid.
    """
    chosen = _fitting_level(len(members)) if level is None else level
    created = client.create(
        name=name,
        level=chosen,
        chunk_bytes=chunk,
        members=list(members),
        force=force,
        region_bytes=region_size,
        spares=list(spares) or None,
        chap_file=absolute(chap_file),
        initiator=initiator,
        give_up_seconds=give_up,
    )
    warn(created.warnings)
    if wait:
        progress.wait_for(client, name, progress.resynced, quiet=report is None)
    if report is None:
        return print_json(model.to_json(created))
    report.line(
        f"Volume {created.name} is made and started: {model.LEVEL_NAMES[chosen]}, "
        f"{len(members)} members, {_spares_in_words(len(spares))}"
        f"{format_size(created.size_bytes)}, uuid {created.uuid}."
    )
    if level is None:
        for line in levels.explain(created.name, len(members)):
            report.line(line)
    if chosen != 0 and not wait:
        what = "copies are made equal" if chosen in (1, 10) else "parity is computed"
        report.line(f"Its {what} in the background.  See progress: iraid status {created.name}")
    report.line(f"Export it to initiators: iraid export {created.name} --iqn IQN --acl INITIATOR --chap-file FILE")


def _fitting_level(members: int) -> int:
    fits = levels.fitting(members)
    if not fits:
        raise UsageFault(f"a volume has 2 to 32 members, and {members} is given", "see iraid create --help")
    return fits[0].level


def _spares_in_words(count: int) -> str:
    return "" if count == 0 else "1 spare, " if count == 1 else f"{count} spares, "


@command(examples="iraid list\niraid list --json | jq -r '.volumes[].name'")
def list_(client: Client, report: Report | None) -> None:
    """List all volumes, also stopped ones."""
    volumes = sorted(client.volumes(), key=lambda volume: volume.name)
    if report is None:
        return print_json({"volumes": [model.to_json(volume) for volume in volumes]})
    report.volumes(volumes)


@command(
    click.argument("name", required=False, shell_complete=completion.volumes),
    click.option(
        "--health",
        is_flag=True,
        help="Show only the verdicts.  Exit status 0: good; 1: degraded, or needs attention; 2: does not "
        "work, or the handler does not answer.",
    ),
    examples="iraid status\niraid status v0\niraid status --health || mail -s gateway root\n"
    "iraid status v0 --json | jq -r .health.word",
)
def status(client: Client, report: Report | None, name: str | None, health: bool) -> None:
    """Show a volume, or all: first a verdict with the next step, then state, members, work and counters.

    Without --health the exit status says only whether the handler answered.
    """
    try:
        _status(client, report, name, health)
    except IraidError as error:
        if not health or error.kind not in ("unavailable", "invalid"):  # of one volume: its file has a fault
            raise
        raise click.exceptions.Exit(max(fail(error, report is None), verdict.FAILED)) from error


def _status(client: Client, report: Report | None, name: str | None, health: bool) -> None:
    volumes = [client.status(name)] if name else status_of_all(client)
    spares = _shared_spares(client, quiet=name is not None)
    verdicts = [verdict.judge(volume, len(spares)) for volume in volumes]
    holder = _holder(client, volumes[0]) if name and not health else None
    if report is None:
        _status_json(name, volumes, [] if name else spares, verdicts, health, holder)
    else:
        report.verdicts(verdicts)
        if not health:
            _status_text(report, volumes, [] if name else spares, holder)
    if health and verdicts and (worst := max(one.grade for one in verdicts)):
        raise click.exceptions.Exit(worst)


def _holder(client: Client, volume: model.Volume) -> model.Holder | None:
    """Of one that is on standby it takes a log-in to each member, so it is asked for one volume only.  Of one that runs
    here nobody is asked: it tells this gateway's key, by which the other one's status names it."""
    if volume.state not in ("standby", "active", "degraded", "suspended"):
        return None  # it has no role here, or can't have the one that it wants: the reason says who has it
    try:
        return client.holder(volume.name)
    except IraidError:
        return None  # a handler that has no such method yet, or too much to do: the status is what was asked for


def _status_json(
    name: str | None,
    volumes: list[model.Volume],
    spares: list[model.Spare],
    verdicts: list[verdict.Verdict],
    health: bool,
    holder: model.Holder | None,
) -> None:
    if health:
        return print_json({"volumes": [model.to_json(one) for one in verdicts]})
    shown = [
        model.to_json(volume) | {"health": model.to_json(one)} for volume, one in zip(volumes, verdicts, strict=True)
    ]
    if name:
        return print_json(shown[0] | {"holder": model.to_json(holder) if holder else None})
    print_json({"volumes": shown, "spares": [model.to_json(spare) for spare in spares]})


def _status_text(
    report: Report, volumes: list[model.Volume], spares: list[model.Spare], holder: model.Holder | None
) -> None:
    for volume in volumes:
        report.line()
        report.status(volume, holder)
    if not volumes:
        report.volumes([])
    if spares:
        report.line()
        report.spares(spares)


def _shared_spares(client: Client, quiet: bool) -> list[model.Spare]:
    """Volumes are shown also when the list of spares can't be read."""
    try:
        return client.pool().spares
    except IraidError as error:
        if error.kind in NO_ANSWER:
            raise
        if not quiet:
            warn([f"the gateway's spares are not shown: {error.message}"])
        return []


@command(
    click.argument("portal"),
    click.option("--all-portals", is_flag=True, help="Also log in to other hosts that the portal names."),
    CHAP_FILE,
    INITIATOR,
    examples="iraid discover 10.0.0.1\niraid discover [fd00::1]:3260 --json",
)
def discover(
    client: Client,
    report: Report | None,
    portal: str,
    all_portals: bool,
    chap_file: Path | None,
    initiator: str | None,
) -> None:
    """Show the targets and LUNs of a portal, and what each LUN holds."""
    found = client.discover(
        portal=portal, all_portals=all_portals or None, chap_file=absolute(chap_file), initiator=initiator
    )
    if report is None:
        return print_json({"portal": portal, **model.to_json(found)})
    report.discovery(portal, found, absolute(chap_file))


@command(
    click.argument("members", nargs=-1, required=True, metavar="MEMBER..."),
    CHAP_FILE,
    INITIATOR,
    examples="iraid examine 10.0.0.1/iqn.2026-01.org.example:disk/0",
)
def examine(
    client: Client, report: Report | None, members: tuple[str, ...], chap_file: Path | None, initiator: str | None
) -> None:
    """Show what a member is: its disk, its session, its superblock.

    All members are examined, even if one of them fails.
    """
    seen: list[dict[str, Any]] = []
    failures = []
    for member in members:
        try:
            one = client.examine(member=member, chap_file=absolute(chap_file), initiator=initiator)
        except IraidError as error:
            if error.kind in NO_ANSWER:
                raise
            failures.append(error)
            seen.append({"member": member, "error": error.to_json()})
            continue
        seen.append({**model.to_json(one), "error": None})
        if report is not None:
            report.examination(one)
            report.line()
    if report is None:
        print_json({"members": seen})
    for failure in failures[:-1]:
        fail(failure, False)
    if failures:
        raise click.exceptions.Exit(fail(failures[-1], False))


@command(
    NAME,
    click.option(
        "--force", is_flag=True, help="Start from members that are older or out of date.  LOSES newer writes."
    ),
    click.option("--yes", is_flag=True, help="Don't ask before --force."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Take the members over from another gateway, which must not run the volume any more.",
    ),
    click.option(
        "--wait/--no-wait",
        default=True,
        show_default=True,
        help="Wait until the volume is assembled, or return at once.",
    ),
    click.option(
        "--timeout",
        type=click.IntRange(1, 3600),
        default=START_WAIT_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Longest time to wait.",
    ),
    examples="iraid start v0\niraid start v0 --timeout 60\niraid start v0 --take-over\niraid start v0 --force --yes",
)
def start(
    client: Client, report: Report | None, name: str, force: bool, yes: bool, take_over: bool, wait: bool, timeout: int
) -> None:
    """Assemble a volume from its members, and start it.

    Refused while too few members are known to hold everything that was written: bring the absent members back first.
    --force starts from the members that are there.  It asks first.
    """
    if force and not yes:
        ask(
            f"{_FORCE_COST}\nStart volume {name} anyway?",
            f"volume {name} was not started, because --force needs a confirmation: {_FORCE_COST}",
            report,
        )
    volume = client.start(name, force, take_over, timeout if wait else 0)
    if volume.state == "standby":
        raise IraidError(
            f"volume {name} is on standby on this gateway, and a start does not change that",
            f"iraid activate {name}{' --take-over' if take_over else ''}",
            kind="busy",
        )
    if volume.state == "failed" or (wait and volume.state not in ("active", "degraded")):
        after = "" if volume.state == "failed" else f" after {timeout} s"
        raise IraidError(
            f"volume {name} is {volume.state}{after}: {volume.reason or 'the reason is not known'}",
            f"see the reason for each member: iraid status {name}",
            kind="io",
        )
    if report is None:
        return print_json(model.to_json(volume))
    why = f" ({volume.reason})" if volume.reason else ""
    size = f", {format_size(volume.size_bytes)}" if volume.size_bytes else ""
    report.line(f"Volume {name} is {volume.state}{why}{size}.")


@command(
    NAME,
    click.option(
        "--take-over",
        is_flag=True,
        help="Take the members over from the gateway that has the volume: it is fenced off, and what it writes "
        "afterwards goes nowhere.",
    ),
    click.option(
        "--force", is_flag=True, help="Activate from members that are older or out of date.  LOSES newer writes."
    ),
    click.option("--yes", is_flag=True, help="Don't ask before --force."),
    click.option(
        "--timeout",
        type=click.IntRange(1, 3600),
        default=START_WAIT_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Longest time to wait; then the volume is on standby again.",
    ),
    examples="iraid activate v0\niraid activate v0 --take-over --timeout 60",
)
def activate(
    client: Client, report: Report | None, name: str, take_over: bool, force: bool, yes: bool, timeout: int
) -> None:
    """Serve a volume from this gateway, also after restarts.  Does nothing if it is active.

    If it can't be assembled it stays on standby.  Without --take-over it is refused while another gateway has it.
    """
    if force and not yes:
        ask(
            f"{_FORCE_COST}\nActivate volume {name} anyway?",
            f"volume {name} was not activated, because --force needs a confirmation: {_FORCE_COST}",
            report,
        )
    _show_role(report, client.activate(name, force, take_over, timeout))


@command(NAME, examples="iraid standby v0")
def standby(client: Client, report: Report | None, name: str) -> None:
    """Leave a volume to another gateway, also after restarts.  Does nothing if it is on standby.

    What is under way ends, members are flushed and released as by iraid stop, but the LUN stays: it answers NOT READY
    (standby) until iraid activate.
    """
    _show_role(report, client.standby(name))


def _show_role(report: Report | None, volume: model.Volume) -> None:
    if report is None:
        return print_json(model.to_json(volume))
    state = "" if volume.state == volume.role else f", {volume.state}"
    report.line(f"Volume {volume.name}: {describe_role(volume)}{state}.")


@command(NAME, examples="iraid stop v0")
def stop(client: Client, report: Report | None, name: str) -> None:
    """Stop a volume cleanly.  Refused while it is exported or in use otherwise."""
    client.stop(name)
    if report is None:
        return print_json({"name": name, "state": "stopped"})
    report.line(f"Volume {name} is stopped.")


@command(
    NAME,
    click.option("--yes", is_flag=True, help="Don't ask."),
    click.option(
        "--wipe/--no-wipe",
        default=True,
        show_default=True,
        help="Wipe the superblocks of the members, or keep them and only forget the volume.",
    ),
    examples="iraid delete v0\niraid delete v0 --yes --no-wipe",
)
def delete(client: Client, report: Report | None, name: str, yes: bool, wipe: bool) -> None:
    """Stop a volume, wipe its members' superblocks, and forget it.

    Its data can't be recovered.  Refused while it is exported, and where another gateway has it.  A warning names each
    member that could not be wiped.
    """
    _check_unused(client.status(name))
    if not yes:
        what = "and all of its data" if wipe else "from this gateway (members keep their superblocks)"
        ask(
            f"Delete volume {name} {what}?", f"volume {name} was not deleted, because this needs a confirmation", report
        )
    done = client.delete(name, wipe)
    warn(done.warnings)
    if report is None:
        return print_json(
            {"name": name, "deleted": True, "wiped": wipe and not done.warnings, "warnings": done.warnings}
        )
    report.line(f"Volume {name} is deleted.")
    if done.warnings:
        report.line(
            "A member that was not wiped still has the superblock (iraid examine MEMBER).  To use it again, give "
            "--force to create, replace or add-spare."
        )


def _check_unused(volume: model.Volume) -> None:
    exported = target.exported_as(volume.name)
    if exported:
        raise IraidError(
            f"volume {volume.name} is exported (storage object {', '.join(exported)})",
            f"iraid unexport {volume.name}",
            kind="busy",
        )
    if volume.users:
        raise IraidError(
            f"volume {volume.name} is in use by {', '.join(volume.users)}",
            f"end this use first; if it is tcmu: iraid unexport {volume.name}",
            kind="busy",
        )


@command(examples="iraid version\niraid version --json")
def version(client: Client, report: Report | None) -> None:
    """Show the versions of this command and of the handler."""
    handler = client.version()
    if report is None:
        return print_json({"version": __version__, "handler": model.to_json(handler)})
    report.line(f"iraid {__version__}")
    report.line(f"handler {handler.version} in {handler.program}, pid {handler.pid}")
