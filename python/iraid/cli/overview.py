"""`iraid --help`: the commands by what they are for.  `iraid` alone: how this gateway is, and what to type next."""

import click

from iraid.control import model
from iraid.control.client import Client, status_of_all
from iraid.control.errors import IraidError
from iraid.lio import target
from iraid.watch import verdict

from . import mistakes
from .report import Report

# In the order in which a new user comes to need them.
SECTIONS: dict[str, dict[str, str]] = {
    "Make a volume, change it, delete it": {
        "discover": "show the LUNs of a portal, and what each holds",
        "examine": "show what a member is: disk, session, superblock",
        "create": "make a volume from LUNs, and start it",
        "import": "write the configuration of a volume made elsewhere",
        "set": "change limits, write log and digests while it runs",
        "grow": "use the space that was added to its members",
        "delete": "wipe its superblocks, and forget it",
    },
    "Give it to initiators": {
        "export": "export a volume through LIO",
        "unexport": "take it away from initiators",
    },
    "See how it is": {
        "status": "verdict, next step, members, work, counters",
        "list": "all volumes in a table",
        "top": "live: commands and bytes a second, latency",
        "events": "what happened",
        "lost": "parts whose content is no longer known",
        "steps": "where the time of commands goes",
        "advise": "what limits a volume, which target is badly tuned",
        "doctor": "look for faults of this gateway, and of a pair",
    },
    "Start and stop it": {
        "start": "assemble a volume and start it",
        "stop": "stop it cleanly",
        "wait": "wait until all members are in sync",
        "activate": "of two gateways: serve it from this one",
        "standby": "of two gateways: leave it to the other one",
    },
    "Care for its members": {
        "add-spare": "add a spare, of a volume or of the gateway",
        "replace": "put another device in the place of a member",
        "fail": "take a member out of service",
        "rebuild": "take one back that was out, and fill it",
        "remove": "remove a spare, or a member that is out",
        "scrub": "compare parity, or copies, with data",
    },
    "Run the gateway": {
        "config": "check, show or apply configuration files",
        "monitor": "send mail when something happens",
        "exporter": "metrics for Prometheus, and a page",
        "support": "gather all that a report of a fault needs",
        "version": "versions of this command and the handler",
    },
}


class ByPurpose(click.Group):
    """A group that lists its commands in SECTIONS, and names them to who mistypes one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise mistakes.unknown_command(args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for section in SECTIONS.values() for name in section)
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])


def show(socket: str | None) -> None:
    """What to type next, as this gateway is now."""
    report = Report()
    try:
        volumes = sorted(status_of_all(Client(socket)), key=lambda volume: volume.name)
    except IraidError as error:
        more = "iraid doctor looks for the cause, iraid --help lists all commands"
        raise IraidError(error.message, "; ".join(filter(None, [error.remedy, more])), kind=error.kind) from error
    if not volumes:
        report.line("This gateway has no volume yet.")
        _steps(report, _FIRST)
        return
    report.verdicts([verdict.judge(volume) for volume in volumes])
    _steps(report, _next(volumes))


_FIRST = [
    ("iraid discover PORTAL", "shows the LUNs of a target, and what each holds"),
    ("iraid create NAME PORTAL/IQN/LUN PORTAL/IQN/LUN ...", "makes a volume, and says which level fits"),
    ("iraid import PORTAL/IQN/LUN ...", "takes one that another gateway made"),
]


def _next(volumes: list[model.Volume]) -> list[tuple[str, str]]:
    """Verdicts name what a volume itself needs; here is what it lacks beside that."""
    lonely = [volume.name for volume in volumes if volume.state in ("active", "degraded") and not _is_used(volume)]
    steps = [(f"iraid export {name} --help", f"shows how initiators get {name}, which nobody uses") for name in lonely]
    steps.append((f"iraid status {volumes[0].name}", "shows members, work and counters"))
    return steps


def _is_used(volume: model.Volume) -> bool:
    return bool(volume.users) or bool(target.exported_as(volume.name))


def _steps(report: Report, steps: list[tuple[str, str]]) -> None:
    report.line()
    report.line("Next:")
    for typed, what in [*steps, ("iraid --help", "lists all commands")]:
        report.line(f"  {typed}")
        report.line(f"      {what}")
