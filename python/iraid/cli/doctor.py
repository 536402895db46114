"""doctor: what is wrong with this gateway, and what to type."""

import os
from dataclasses import asdict

import click

from iraid.control.client import Client

from .commands import command, print_json, warn
from .report import Report, Styled

_STYLES = {"ok": "green", "unknown": "", "note": "cyan", "warning": "yellow", "bad": "red"}


@command(
    click.option("--quiet", is_flag=True, help="Leave out checks that are ok."),
    examples="iraid doctor\niraid doctor --quiet\niraid doctor --json | jq -r '.findings[] | select(.grade == \"bad\").text'",
)
def doctor_(client: Client, report: Report | None, quiet: bool) -> None:
    """Look for faults of this gateway, and show the commands that mend them.

    Checks handler, kernel, units, limits, volumes, portals, tuning, exports, secrets, clock and log.  Changes nothing.
    Works without a handler, too.  Exit status 0: ok; 1: there are warnings; 2: something is bad.
    """
    from iraid.watch import doctor, facts  # no other command need wait for them

    found = doctor.examine(facts.gather(client))
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
