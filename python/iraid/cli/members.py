"""Members and spares: fail, rebuild, replace, add-spare, remove."""

from pathlib import Path

import click

from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import UsageFault
from iraid.control.units import format_size

from . import completion, progress
from .commands import CHAP_FILE, INITIATOR, NAME, absolute, command, print_json, warn
from .report import Report

MEMBER = click.argument("member", shell_complete=completion.members)
FORCE = click.option("--force", is_flag=True, help="Overwrite whatever is on the device. DESTROYS IT.")


@command(
    NAME,
    MEMBER,
    click.option("--wait", is_flag=True, help="Wait until a spare has taken its place; show progress."),
    examples="iraid fail v0 2\niraid fail v0 10.0.0.3/iqn.2026-01.org.example:disk/0 --wait",
)
def fail(client: Client, report: Report | None, name: str, member: str, wait: bool) -> None:
    """Take a member out of service.

    MEMBER is a role number, an address, or a part of an address that only one device has.  A spare takes its place.
    Without a spare the volume goes on with less redundancy.  The member stays out until iraid rebuild or iraid replace.
    """
    done = client.fail(name, member)
    if wait:
        shared = bool(client.pool().spares)
        progress.wait_for(client, name, progress.redundant_without(done.member, shared), quiet=report is None)
    if report is None:
        return print_json({"name": name, "member": done.member, "failed": True, "in_sync": wait})
    report.line(f"{done.member} is taken out of volume {name}.")
    report.line("All other members are in sync." if wait else f"See what takes its place: iraid status {name}")


@command(
    NAME,
    MEMBER,
    click.option("--wait", is_flag=True, help="Wait until it is in sync; show progress."),
    examples="iraid rebuild v0 2 --wait",
)
def rebuild(client: Client, report: Report | None, name: str, member: str, wait: bool) -> None:
    """Take a faulty member back, and bring it up to date.

    If it is known what was written while the member was out, only that is copied.
    """
    done = client.rebuild(name, member)
    in_sync = False
    if wait:
        volume = progress.wait_for(client, name, _back(done.member), quiet=report is None)
        in_sync = any(m.member == done.member and m.state == "in sync" for m in volume.members)
    if report is None:
        return print_json({"name": name, "member": done.member, "in_sync": in_sync})
    report.line(f"{done.member} is {'in sync again' if in_sync else 'taken back'} in volume {name}.")


def _back(label: str) -> progress.Look:
    """A spare that was given up is a spare again, if it has no place to go to."""

    def look(volume: model.Volume, seen: list[model.Event]) -> progress.Step:
        member = next((m for m in volume.members if m.member == label), None)
        state = member.state if member else "no longer there"
        waiting = model.Work(reason=(member.reason if member else None) or f"it is {state}")
        work = volume.rebuild if volume.rebuild.member == label else waiting
        return progress.Step(state in ("in sync", "spare"), f"rebuild of {label}", work)

    return look


@command(
    NAME,
    click.argument("member", metavar="OLD", shell_complete=completion.members),
    click.argument("device", metavar="NEW"),
    FORCE,
    click.option("--wait", is_flag=True, help="Wait until NEW is in sync; show progress."),
    examples="""\
iraid replace v0 2 10.0.0.9/iqn.2026-01.org.example:new/0 --wait
iraid replace v0 10.0.0.3/iqn.2026-01.org.example:disk/0 10.0.0.9/iqn.2026-01.org.example:new/0""",
)
def replace(
    client: Client, report: Report | None, name: str, member: str, device: str, force: bool, wait: bool
) -> None:
    """Put NEW in the place of the member OLD.

    OLD works until NEW holds everything, so redundancy is never less than before.  Then OLD leaves the volume and its
    configuration.  NEW is a spare of the volume, a spare of the gateway, or another device; --force is needed if that
    device holds a known signature.
    """
    done = client.replace(name, member, device, force)
    warn(done.warnings)
    if wait:
        progress.wait_for(client, name, progress.replaced_by(done.device, done.role or 0), quiet=report is None)
    if report is None:
        return print_json(
            {"name": name, "member": done.member, "role": done.role, "device": done.device, "in_sync": wait}
        )
    if wait:
        report.line(f"{done.device} has taken the place of {done.member} in volume {name}.")
        return
    report.line(f"{done.device} is being filled to take the place of {done.member} in volume {name}.")
    report.line(f"See how far it is: iraid wait {name} --for rebuild")


@command(
    click.argument("name", required=False),
    click.argument("device", required=False),
    click.option("--gateway", is_flag=True, help="Make it a spare of all volumes of this gateway; give no NAME."),
    FORCE,
    click.option(
        "--wait",
        is_flag=True,
        help="If it takes the place of a member at once, wait until it is in sync; show progress.",
    ),
    CHAP_FILE,
    INITIATOR,
    examples="""\
iraid add-spare v0 10.0.0.9/iqn.2026-01.org.example:spare/0
iraid add-spare --gateway 10.0.0.9/iqn.2026-01.org.example:spare/1""",
)
def add_spare(
    client: Client,
    report: Report | None,
    name: str | None,
    device: str | None,
    gateway: bool,
    force: bool,
    wait: bool,
    chap_file: Path | None,
    initiator: str | None,
) -> None:
    """Add a spare to a volume, or to all volumes of the gateway.

    The spare takes the place of a member that fails; no command is needed.  A volume that has no spare of its own takes
    the smallest spare of the gateway that is large enough.  --chap-file and --initiator are for --gateway only: a volume
    logs in to its spares as it does to its members.
    """
    volume, wanted = _volume_and_device(name, device, gateway, chap_file, initiator, "add-spare")
    if gateway and wait:
        raise UsageFault("--wait needs the NAME of a volume", "see iraid add-spare --help")
    if volume is None:
        done = client.pool_add(device=wanted, force=force, chap_file=absolute(chap_file), initiator=initiator)
        if report is None:
            return print_json({"device": done.device, "size_bytes": done.size_bytes, "gateway": True})
        return report.line(f"{done.device} ({format_size(done.size_bytes)}) is a spare of all volumes of this gateway.")
    done = client.add_spare(volume, wanted, force)
    if wait:
        waited = progress.wait_for(client, volume, progress.settled(done.device), quiet=report is None)
        done.state = next(m.state for m in waited.members if m.member == done.device)
    if report is None:
        return print_json({"name": volume, "device": done.device, "state": done.state, "size_bytes": done.size_bytes})
    if done.state == "unknown":
        warn([f"volume {volume} could not examine {done.device} yet{': ' + done.reason if done.reason else ''}"])
    words = {
        "rebuilding": f"was added to volume {volume} and is taking the place of a member",
        "in sync": f"has taken the place of a member of volume {volume}",
    }
    report.line(f"{done.device} {words.get(done.state, f'is a spare of volume {volume}')}.")


def _volume_and_device(
    first: str | None,
    second: str | None,
    gateway: bool,
    chap_file: Path | None,
    initiator: str | None,
    command_name: str,
) -> tuple[str | None, str]:
    """NAME DEVICE, or --gateway DEVICE."""
    help_words = f"see iraid {command_name} --help"
    if gateway:
        if first is None or second is not None:
            raise UsageFault("--gateway takes a DEVICE and no NAME", help_words)
        return None, first
    if first is None or second is None:
        raise UsageFault("a NAME and a DEVICE are needed, or --gateway and a DEVICE", help_words)
    if chap_file is not None or initiator is not None:
        raise UsageFault("--chap-file and --initiator need --gateway: for a volume they are in its file", help_words)
    return first, second


@command(
    click.argument("name", required=False),
    click.argument("member", required=False, shell_complete=completion.members),
    click.option("--gateway", is_flag=True, help="Remove a spare of this gateway; give no NAME."),
    click.option(
        "--wipe", is_flag=True, help="Wipe the superblock of a former member.  The mark of a spare is always wiped."
    ),
    CHAP_FILE,
    INITIATOR,
    examples="""\
iraid remove v0 10.0.0.9/iqn.2026-01.org.example:spare/0
iraid remove v0 2 --wipe
iraid remove --gateway 10.0.0.9/iqn.2026-01.org.example:spare/1""",
)
def remove(
    client: Client,
    report: Report | None,
    name: str | None,
    member: str | None,
    gateway: bool,
    wipe: bool,
    chap_file: Path | None,
    initiator: str | None,
) -> None:
    """Remove a spare, or a faulty or out-of-date member, from a volume and its configuration.

    A member that is in sync is refused: fail it first, or replace it.
    """
    volume, wanted = _volume_and_device(name, member, gateway, chap_file, initiator, "remove")
    if volume is None:
        done = client.pool_remove(device=wanted, chap_file=absolute(chap_file), initiator=initiator)
        warn(done.warnings)
        if report is None:
            return print_json({"device": done.device, "gateway": True, "removed": True})
        return report.line(f"{done.device} is no longer a spare of this gateway.")
    done = client.remove(volume, wanted, wipe)
    warn(done.warnings)
    if report is None:
        return print_json({"name": volume, "member": done.member, "removed": True})
    report.line(f"{done.member} is removed from volume {volume}.")
