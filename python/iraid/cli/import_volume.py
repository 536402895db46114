"""import: the configuration of a volume, written again from what its members say of themselves."""

from pathlib import Path

import click

from iraid.control import model
from iraid.control.client import Client

from .commands import CHAP_FILE, INITIATOR, absolute, command, print_json, warn
from .report import Report


@command(
    click.argument("members", nargs=-1, required=True, metavar="MEMBER..."),
    click.option("--name", metavar="NAME", help="Name of the volume here; default: the name in its superblocks."),
    CHAP_FILE,
    INITIATOR,
    examples="""\
iraid import 10.0.0.{1,2,3,4}/iqn.2026-01.org.example:disk/0
iraid import --chap-file /etc/iraid/secrets/v0 --initiator iqn.2026-01.org.iraid:old:v0 \\
    10.0.0.{1,2,3,4}/iqn.2026-01.org.example:disk/0""",
)
def import_(
    client: Client,
    report: Report | None,
    members: tuple[str, ...],
    name: str | None,
    chap_file: Path | None,
    initiator: str | None,
) -> None:
    """Write the configuration of a volume that was made elsewhere, or whose configuration is lost.

    Name all of its devices, also spares and dead ones.  Their superblocks are read; nothing is written to them.  The
    volume is not started: use iraid start.
    """
    found = client.import_(members=list(members), name=name, chap_file=absolute(chap_file), initiator=initiator)
    warn(found.warnings)
    if report is None:
        return print_json(model.to_json(found))
    report.line(
        f"Volume {found.name} is known here: {model.LEVEL_NAMES.get(found.level, found.level)}, "
        f"{found.member_count} members, uuid {found.uuid}."
    )
    report.table(
        ["ROLE", "MEMBER", "STATE"],
        [["-" if member.role is None else member.role, member.member, member.state] for member in found.members],
        wide=(1,),
    )
    missing = sorted(set(range(found.member_count)) - {member.role for member in found.members})
    if missing:
        report.line(f"No device that answered has role {', '.join(map(str, missing))}.")
    if found.owner:
        report.line(
            f"Its members were last used by {found.owner}, which did not release them.  If you are certain that no "
            f"other gateway runs the volume: iraid start {found.name} --take-over"
        )
    else:
        report.line(f"Start it: iraid start {found.name}")
