"""export and unexport: a volume handed to initiators through LIO, and taken away."""

from pathlib import Path

import click

from iraid.control import model
from iraid.control.client import Client
from iraid.lio import access, chap, export_plan, target
from iraid.lio.steps import Portal

from .commands import NAME, SAVE, checked, command, print_json, warn
from .report import Report

DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")


@command(
    NAME,
    click.option(
        "--iqn",
        required=True,
        callback=checked(export_plan.parse_iqn),
        help="Name of the target that initiators will see.",
    ),
    click.option(
        "--portal",
        "portals",
        multiple=True,
        metavar="IP:PORT",
        callback=checked(export_plan.parse_portal),
        help=f"Address to listen on; repeatable [{export_plan.PORTAL_DEFAULT}].",
    ),
    click.option(
        "--acl",
        "initiators",
        multiple=True,
        metavar="INITIATOR",
        callback=checked(export_plan.parse_iqn),
        help="Initiator that may use it; repeatable.",
    ),
    click.option(
        "--acl-read-only",
        "readers",
        multiple=True,
        metavar="INITIATOR",
        callback=checked(export_plan.parse_iqn),
        help="Initiator that may read it, and not write; repeatable.",
    ),
    click.option(
        "--chap-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Initiators must log in with this user (line 1) and secret (line 2), and the target proves itself by the "
        "user and secret of lines 3 and 4, if there are any; mode 0600.",
    ),
    click.option("--no-chap", is_flag=True, help="Let initiators log in without a secret."),
    click.option(
        "--discovery-chap-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The same for the discovery of all targets of this gateway.",
    ),
    click.option("--demo-mode", is_flag=True, help="Let any initiator log in, to read and write."),
    click.option(
        "--header-digest",
        type=click.Choice(list(access.DIGESTS)),
        help="CRC32C of headers between initiators and this gateway [as it is].",
    ),
    click.option(
        "--data-digest",
        type=click.Choice(list(access.DIGESTS)),
        help="The same of data; required: initiators without it can't log in.",
    ),
    click.option(
        "--lun",
        type=click.IntRange(0, access.LUN_INDEX_MAX),
        help="Its number in the target [as it is, or the lowest that is free].",
    ),
    click.option(
        "--pair",
        type=click.IntRange(1, 2),
        help="This gateway is the first or the second of two that have the volume; the other one gets the other number "
        "[as it is].",
    ),
    click.option(
        "--no-reservations",
        is_flag=True,
        help="Refuse reservations of initiators, which would not follow an address to another gateway; --pair does.",
    ),
    SAVE,
    DRY_RUN,
    examples="""\
cat /etc/iscsi/initiatorname.iscsi        # on the initiator: its name
iraid export v0 --iqn iqn.2026-01.org.example:v0 --portal 10.0.0.9:3260 \\
    --acl iqn.1993-08.org.debian:01:abc --chap-file /etc/iraid/secrets/clients
iraid export v0 --iqn iqn.2026-01.org.example:v0 --acl-read-only iqn.1993-08.org.debian:01:def \\
    --chap-file /etc/iraid/secrets/clients
iraid export v0 --iqn iqn.2026-01.org.example:v0 --portal 10.0.0.9:3260 --pair 1 \\
    --acl iqn.1993-08.org.debian:01:abc --chap-file /etc/iraid/secrets/clients""",
)
def export(
    client: Client,
    report: Report | None,
    name: str,
    iqn: str,
    portals: tuple[Portal, ...],
    initiators: tuple[str, ...],
    readers: tuple[str, ...],
    chap_file: Path | None,
    no_chap: bool,
    discovery_chap_file: Path | None,
    demo_mode: bool,
    header_digest: str | None,
    data_digest: str | None,
    lun: int | None,
    pair: int | None,
    no_reservations: bool,
    save: bool,
    dry_run: bool,
) -> None:
    """Export a volume to initiators, through LIO.

    Makes the target, or adds what it lacks.  What is there stays as it is, so the same command may be run again.
    If a step fails, what was made before is removed.
    """
    target.check_root()
    target.check_runner(client.version())
    volume = client.status(name)
    standby = volume.state == "standby"
    if not standby:
        export_plan.check_exportable(volume)
    request = access.ExportRequest(
        volume=name,
        uuid=volume.uuid,
        size_bytes=volume.size_bytes,
        block_bytes=volume.block_bytes,
        write_cache=volume.write_cache,
        iqn=iqn,
        portals=portals,
        initiators=initiators,
        readers=readers,
        demo_mode=demo_mode,
        credentials=chap.read_credentials(chap_file) if chap_file else None,
        no_chap=no_chap,
        discovery=chap.read_credentials(discovery_chap_file) if discovery_chap_file else None,
        header_digest=header_digest,
        data_digest=data_digest,
        standby=standby,
        pair=pair or 0,
        no_reservations=no_reservations,
        lun=lun,
    )
    done = target.export(request, save, dry_run)
    warn(done.warnings)
    if report is None:
        return print_json(model.to_json(done))
    if dry_run:
        return _report_changes(report, done.changes)
    _report_export(report, done)


def _report_changes(report: Report, changes: list[str]) -> None:
    for change in changes:
        report.line(f"Would change: {change}.")
    if not changes:
        report.line("Nothing would change.")


def _report_export(report: Report, done: target.Exported) -> None:
    names = [f"{name} (read-only)" if name in done.read_only else name for name in done.initiators]
    access = "any initiator" if done.demo_mode else ", ".join(names)
    mutual = f", mutual with {', '.join(done.mutual_authentication)}" if done.mutual_authentication else ""
    report.properties(
        [
            ("Volume", done.name),
            ("Target", done.iqn),
            ("LUN", str(done.lun)),
            ("Portals", ", ".join(done.portals)),
            ("Access", access),
            ("CHAP", f"required{mutual}" if done.authentication else "no"),
            ("CHAP of discovery", "required" if done.discovery_authentication else "no"),
            ("Digests", f"header {done.header_digest or 'unknown'}, data {done.data_digest or 'unknown'}"),
            *_pair_properties(done),
            ("Changed", f"{len(done.changes)} settings" if done.changes else "nothing"),
            ("Saved", done.saved or "no: lost with a reboot"),
        ]
    )


def _pair_properties(done: target.Exported) -> list[tuple[str, str]]:
    refused = "refused: they would not move with the volume to the other gateway"
    if not done.pair:
        return [] if done.reservations else [("Reservations", refused)]
    return [
        ("Pair", f"gateway {done.pair} of 2 (tpg{done.pair})"),
        (
            "Reservations",
            "taken by this gateway alone: they do not move with the volume" if done.reservations else refused,
        ),
    ]


@command(
    NAME,
    click.option("--iqn", callback=checked(export_plan.parse_iqn), help="Remove the volume from this target only."),
    click.option("--force", is_flag=True, help="Remove it even while initiators are logged in."),
    SAVE,
    DRY_RUN,
    examples="iraid unexport v0\niraid unexport v0 --iqn iqn.2026-01.org.example:v0",
)
def unexport(
    client: Client, report: Report | None, name: str, iqn: str | None, force: bool, save: bool, dry_run: bool
) -> None:
    """Take a volume away from initiators.

    Removes its LUN and its storage object, and the target if nothing else is in it.  Removes them from the saved
    configuration, too.  The volume and its data stay.
    """
    target.check_root()
    target.check_runner(client.version())
    done = target.unexport(name, iqn, force, save, dry_run)
    warn(done.warnings)
    if report is None:
        return print_json(model.to_json(done))
    if dry_run:
        return _report_changes(report, done.changes)
    under = f" under {', '.join(done.iqns)}" if done.iqns else ""
    report.line(f"Volume {name} is no longer exported{under}.")
