"""The gateway's files: config check, show, reload.  check and show need no handler that runs."""

from typing import Any

import click

from iraid.control import model, settings
from iraid.control.client import Client

from . import completion
from .commands import command, print_json
from .report import Report

FAULTS_STATUS = 1
PENDING_STATUS = 3


@command(
    click.argument("action", type=click.Choice(["check", "show", "reload"])),
    click.argument("name", required=False, shell_complete=completion.volumes),
    examples="""\
iraid config check
iraid config show v0
iraid config reload v0
iraid config check && iraid config reload""",
)
def config(client: Client, report: Report | None, action: str, name: str | None) -> None:
    """Check, show or apply the gateway's configuration files.

    check lists all faults of all files, or of the files of NAME and the gateway: file, line, key, remedy.  The exit status
    is 1 if there is a fault.  show lists the settings of volume NAME, or of the gateway, and where each is set.  Neither
    needs a running handler.  reload makes the handler read the files again.  Changes that are possible during I/O apply
    at once.  Others are listed with what to do, and the exit status is 3.  If any file has a fault, nothing changes.
    """
    if action == "check":
        _check(report, name)
    elif action == "show":
        _show(report, name)
    else:
        _reload(client, report, name)


def _check(report: Report | None, name: str | None) -> None:
    checked = settings.check(name)
    if report is None:
        print_json(checked)
    else:
        for fault in checked["faults"]:
            report.line(settings.fault_line(fault))
        if not checked["faults"]:
            files = len(checked["files"])
            report.line(
                f"No faults in {files} {'file' if files == 1 else 'files'}."
                if files
                else "There are no configuration files yet."
            )
    if checked["faults"]:
        raise click.exceptions.Exit(FAULTS_STATUS)


def _show(report: Report | None, name: str | None) -> None:
    shown = settings.volume(name) if name else settings.gateway(tolerant=True)
    if not name and shown["faults"]:
        raise settings.fault_error(shown["faults"])
    if report is None:
        return print_json(shown)
    report.line(shown["file"] or "There is no gateway.conf: these are the defaults.")
    rows = []
    for key in shown["keys"]:
        section = [] if name else [key["section"]]
        rows += [[*section, key["key"], value, _source(key), key["applies"]] for value in _values(key["value"])]
    report.table(
        [*([] if name else ["SECTION"]), "KEY", "VALUE", "FROM", "APPLIES WITH"], rows, wide=(1,) if name else (2,)
    )


def _values(value: Any) -> list[str]:
    """One for each line of a list; of a list without any, one that says so."""
    if not isinstance(value, list):
        return [value]
    return [
        one if isinstance(one, str) else f"{one['device']} size={one['size_bytes']} block={one['block_bytes']}"
        for one in value
    ] or ["none"]


def _source(key: dict[str, Any]) -> str:
    return f"{key['source']}:{key['line']}" if key["line"] else str(key["source"])


def _reload(client: Client, report: Report | None, name: str | None) -> None:
    reloaded = client.reload(name)
    pending = any(volume.pending for volume in reloaded.volumes)
    if report is None:
        print_json(model.to_json(reloaded))
    else:
        for volume in reloaded.volumes:
            _report_reload(report, volume)
        if not reloaded.volumes:
            report.line("There are no volumes.")
    if pending:
        raise click.exceptions.Exit(PENDING_STATUS)


def _report_reload(report: Report, volume: model.Reloaded) -> None:
    for change in volume.applied:
        when = f", {change.when}" if change.when else ""
        report.line(f"Volume {volume.name}: {change.key} is {change.after}, was {change.before}{when}.")
    for change in volume.pending:
        report.line(f"Volume {volume.name}: {change.key} {_difference(change)}: not applied; {change.remedy}.")
    if volume.note:
        report.line(f"Volume {volume.name}: {volume.note}.")
    elif not volume.running:
        report.line(f"Volume {volume.name} is not running: its file is read when it is started.")
    elif not volume.applied and not volume.pending:
        report.line(f"Volume {volume.name}: nothing has changed.")


def _difference(change: model.ConfigChange) -> str:
    if not change.before:
        return f"{change.after} was added"
    if not change.after:
        return f"{change.before} was removed"
    return f"is {change.before}, in the file {change.after}"
