"""What is typed: commands, options, exit status (0 done, 1 failed, 2 wrong usage).

Every command builds one JSON object; with --json that is printed, else report.py shows the same
objects to a person.  Errors go to stderr as "iraid: MESSAGE" and "  remedy: REMEDY"; with --json
also to stdout as {"error": {type, message, remedy}}.
"""

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from . import __version__, chap, export_plan, model, target
from .client import SOCKET_DEFAULT, Client
from .errors import IraidError, UsageFault
from .report import Report
from .units import format_size, parse_size

START_WAIT_SECONDS = 20
_LEVELS = {"0": 0, "5": 5, "s-iraid": 0, "p-iraid": 5}
_SETTINGS = {"help_option_names": ["--help", "-h"], "max_content_width": 100}


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return cli.main(args=arguments, prog_name="iraid", standalone_mode=False) or 0
    except IraidError as error:
        return _fail(error, "--json" in arguments)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "iraid"
        fault = UsageFault(error.format_message().rstrip("."), f"see {path} --help")
        return _fail(fault, "--json" in arguments)
    except (click.Abort, KeyboardInterrupt):
        return _fail(IraidError("interrupted: nothing more was done", kind="interrupted"), False)
    except BrokenPipeError:  # `iraid list | head`
        sys.stderr.close()
        return 1


def _fail(error: IraidError, as_json: bool) -> int:
    if as_json:
        _print_json({"error": error.to_json()})
    click.echo(f"iraid: {error.message}", err=True)
    if error.remedy:
        click.echo(f"  remedy: {error.remedy}", err=True)
    return error.exit_status


def _warn(texts: list[str]) -> None:
    for text in texts:
        click.echo(f"iraid: warning: {text}", err=True)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))


class LevelType(click.ParamType):
    name = "{0,5}"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        level = _LEVELS.get(str(value).lower())
        if level is None:
            self.fail(f"'{value}' is not a level: 0 (S-iRAID) or 5 (P-iRAID)", param, ctx)
        return level


class SizeType(click.ParamType):
    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _checked(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """A click callback that parses an option, given once or several times."""

    def callback(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(parse(one) for one in value)
        return None if value is None else parse(value)

    return callback


@click.group(context_settings=_SETTINGS, no_args_is_help=True, epilog="""\b
Examples:
  iraid discover 10.0.0.1
  iraid create v0 --level 5 10.0.0.{1,2,3,4}/iqn.2026-01.org.example:disk/0
  iraid export v0 --iqn iqn.2026-01.org.example:v0 --acl iqn.1993-08.org.debian:01:abc
  iraid status v0""")
@click.version_option(__version__, message="iraid %(version)s")
@click.option("--socket", metavar="PATH", help=f"Control socket [IRAID_SOCKET, {SOCKET_DEFAULT}].")
@click.pass_context
def cli(context: click.Context, socket: str | None) -> None:
    """Present LUNs of several iSCSI targets as one redundant LUN."""
    context.obj = socket


def _command(*options: Any, examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """A subcommand with its options, and those that every command has."""

    def decorate(function: Callable[..., None]) -> click.Command:
        @click.pass_context
        @wraps(function)
        def run(context: click.Context, socket: str | None, as_json: bool, **given: Any) -> None:
            client = Client(socket or context.obj)
            function(client, None if as_json else Report(), **given)

        decorated: Any = run
        common = [
            click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
            click.option("--socket", metavar="PATH", help="Control socket."),
        ]
        for option in reversed([*options, *common]):
            decorated = option(decorated)
        name = function.__name__.rstrip("_")
        epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.splitlines())
        return cli.command(name, epilog=epilog)(decorated)

    return decorate


_NAME = click.argument("name")
_CHAP_FILE = click.option(
    "--chap-file", type=click.Path(path_type=Path), metavar="FILE",
    help="Secrets file for the targets: line 1 user, line 2 secret, mode 0600.")
_INITIATOR = click.option(
    "--initiator", metavar="IQN", callback=_checked(export_plan.parse_iqn),
    help="Name to log in to the targets with.")
_SAVE = click.option("--save/--no-save", default=True, show_default=True,
                     help="Keep LIO's configuration over reboots (saveconfig.json).")


def _absolute(path: Path | None) -> str | None:
    """The handler has another working directory."""
    return None if path is None else str(path.absolute())


@_command(
    _NAME,
    click.argument("members", nargs=-1, required=True, metavar="MEMBER..."),
    click.option("--level", type=LevelType(), required=True,
                 help="0 (s-iraid: striped, no redundancy) or 5 (p-iraid: parity)."),
    click.option("--chunk", type=SizeType(), default="64K", show_default=True,
                 help="Power of two, 4K to 1M."),
    click.option("--force", is_flag=True,
                 help="Overwrite whatever is on the members. DESTROYS IT."),
    _CHAP_FILE, _INITIATOR,
    click.option("--give-up", type=click.IntRange(min=1), metavar="SECONDS",
                 help="Go on without a member that is silent for so long [5]."),
    examples="""\
iraid create v0 --level 5 --chunk 64K 10.0.0.{1,2,3,4}/iqn.2026-01.org.example:disk/0
iraid create fast --level s-iraid --chap-file /etc/iraid/secrets/fast \\
    10.0.0.1/iqn.2026-01.org.example:a/0 10.0.0.2/iqn.2026-01.org.example:b/0""")
def create(client: Client, report: Report | None, name: str, members: tuple[str, ...], level: int,
           chunk: int, force: bool, chap_file: Path | None, initiator: str | None,
           give_up: int | None) -> None:
    """Make a volume of LUNs on iSCSI targets, and start it.

    MEMBER is PORTAL/IQN/LUN, for example 10.0.0.1:3260/iqn.2026-01.org.example:disk/0.  Members that
    hold anything known are refused without --force.
    """
    created = client.create(
        name=name, level=level, chunk_bytes=chunk, members=list(members), force=force,
        chap_file=_absolute(chap_file), initiator=initiator, give_up_seconds=give_up)
    _warn(created.warnings)
    if report is None:
        return _print_json(model.to_json(created))
    report.line(f"Volume {created.name} is made and started: {model.LEVEL_NAMES[level]}, "
                f"{len(members)} members, {format_size(created.size_bytes)}, uuid {created.uuid}.")
    if level != 0:
        report.line(f"Its parity is computed in the background: iraid status {created.name}")
    report.line(f"Hand it to initiators: iraid export {created.name} --iqn IQN --acl INITIATOR")


@_command(examples="iraid list\niraid list --json | jq -r '.volumes[].name'")
def list_(client: Client, report: Report | None) -> None:
    """List the volumes, stopped ones included."""
    volumes = sorted(client.volumes(), key=lambda volume: volume.name)
    if report is None:
        return _print_json({"volumes": [model.to_json(volume) for volume in volumes]})
    report.volumes(volumes)


@_command(click.argument("name", required=False),
          examples="iraid status\niraid status v0\niraid status v0 --json | jq -r .state")
def status(client: Client, report: Report | None, name: str | None) -> None:
    """Show a volume, or all of them: state, members, resync, counters.

    The exit status says whether the answer came, not how the volume is.
    """
    names = [name] if name else sorted(volume.name for volume in client.volumes())
    volumes = [client.status(one) for one in names]
    if report is None:
        if name:
            return _print_json(model.to_json(volumes[0]))
        return _print_json({"volumes": [model.to_json(volume) for volume in volumes]})
    for index, volume in enumerate(volumes):
        if index:
            report.line()
        report.status(volume)
    if not volumes:
        report.volumes([])


@_command(click.argument("portal"), _CHAP_FILE, _INITIATOR,
          examples="iraid discover 10.0.0.1\niraid discover [fd00::1]:3260 --json")
def discover(client: Client, report: Report | None, portal: str, chap_file: Path | None,
             initiator: str | None) -> None:
    """Show the targets and LUNs of a portal, and what is on them."""
    found = client.discover(portal=portal, chap_file=_absolute(chap_file), initiator=initiator)
    if report is None:
        return _print_json({"portal": portal, **model.to_json(found)})
    report.discovery(portal, found)


@_command(
    click.argument("members", nargs=-1, required=True, metavar="MEMBER..."), _CHAP_FILE, _INITIATOR,
    examples="iraid examine 10.0.0.1/iqn.2026-01.org.example:disk/0")
def examine(client: Client, report: Report | None, members: tuple[str, ...],
            chap_file: Path | None, initiator: str | None) -> None:
    """Show what a member is: its disk, its session, its superblock.

    All members are looked at, also when one of them fails.
    """
    seen: list[dict[str, Any]] = []
    failures = []
    for member in members:
        try:
            one = client.examine(member=member, chap_file=_absolute(chap_file), initiator=initiator)
        except IraidError as error:
            if error.kind in ("unavailable", "permission", "answer"):
                raise
            failures.append(error)
            seen.append({"member": member, "error": error.to_json()})
            continue
        seen.append({**model.to_json(one), "error": None})
        if report is not None:
            report.examination(one)
            report.line()
    if report is None:
        _print_json({"members": seen})
    for failure in failures[:-1]:
        _fail(failure, False)
    if failures:
        raise click.exceptions.Exit(_fail(failures[-1], False))


@_command(
    _NAME,
    click.option("--force", is_flag=True,
                 help="Start from an older set of members than this gateway has seen."),
    click.option("--take-over", is_flag=True,
                 help="Take the members from another gateway, which must not be running it."),
    click.option("--wait/--no-wait", default=True, show_default=True,
                 help="Return when it is assembled, or at once."),
    click.option("--timeout", type=click.IntRange(1, 3600), default=START_WAIT_SECONDS,
                 show_default=True, metavar="SECONDS", help="Longest time to wait."),
    examples="iraid start v0\niraid start v0 --timeout 60\niraid start v0 --take-over")
def start(client: Client, report: Report | None, name: str, force: bool, take_over: bool, wait: bool,
          timeout: int) -> None:
    """Assemble a volume from its members."""
    volume = client.start(name, force, take_over, timeout if wait else 0)
    if volume.state == "failed" or (wait and volume.state not in ("active", "degraded")):
        after = "" if volume.state == "failed" else f" after {timeout} s"
        raise IraidError(f"volume {name} is {volume.state}{after}: {volume.reason or 'no reason given'}",
                         f"see what its members say: iraid status {name}", kind="io")
    if report is None:
        return _print_json(model.to_json(volume))
    why = f" ({volume.reason})" if volume.reason else ""
    size = f", {format_size(volume.size_bytes)}" if volume.size_bytes else ""
    report.line(f"Volume {name} is {volume.state}{why}{size}.")


@_command(_NAME, examples="iraid stop v0")
def stop(client: Client, report: Report | None, name: str) -> None:
    """Stop a volume in order.  Refused while it is exported or otherwise in use."""
    client.stop(name)
    if report is None:
        return _print_json({"name": name, "state": "stopped"})
    report.line(f"Volume {name} is stopped.")


@_command(_NAME,
          click.option("--yes", is_flag=True, help="Don't ask."),
          click.option("--wipe/--no-wipe", default=True, show_default=True,
                       help="Wipe the superblocks of the members, or only forget the volume."),
          examples="iraid delete v0\niraid delete v0 --yes --no-wipe")
def delete(client: Client, report: Report | None, name: str, yes: bool, wipe: bool) -> None:
    """Stop a volume, wipe its members' superblocks, and forget it.

    Its data can't be had back.  Refused while it is exported.
    """
    _check_unused(client.status(name))
    if not yes:
        _ask_to_delete(name, wipe, report)
    client.delete(name, wipe)
    if report is None:
        return _print_json({"name": name, "deleted": True, "wiped": wipe})
    report.line(f"Volume {name} is deleted.")


def _check_unused(volume: model.Volume) -> None:
    exported = target.exported_as(volume.name)
    if exported:
        raise IraidError(f"volume {volume.name} is exported (storage object {', '.join(exported)})",
                         f"iraid unexport {volume.name}", kind="busy")
    if volume.users:
        raise IraidError(f"volume {volume.name} is in use by {', '.join(volume.users)}",
                         f"end that first; if it is tcmu: iraid unexport {volume.name}", kind="busy")


def _ask_to_delete(name: str, wipe: bool, report: Report | None) -> None:
    if report is None or not sys.stdin.isatty():
        raise UsageFault(f"volume {name} is deleted only after a yes", "give --yes")
    what = "and all of its data" if wipe else "from this gateway (members keep their superblocks)"
    if not click.confirm(f"Delete volume {name} {what}?", err=True):
        raise IraidError(f"volume {name} was not deleted", kind="interrupted")


@_command(
    _NAME,
    click.option("--iqn", required=True, callback=_checked(export_plan.parse_iqn),
                 help="Name of the target that initiators will see."),
    click.option("--portal", "portals", multiple=True, metavar="IP:PORT",
                 callback=_checked(export_plan.parse_portal),
                 help=f"Address to listen on; repeatable [{export_plan.PORTAL_DEFAULT}]."),
    click.option("--acl", "initiators", multiple=True, metavar="INITIATOR",
                 callback=_checked(export_plan.parse_iqn),
                 help="Initiator that may use it; repeatable."),
    click.option("--demo-mode", is_flag=True, help="Let any initiator in, with read and write."),
    click.option("--chap-file", type=click.Path(path_type=Path), metavar="FILE",
                 help="Ask initiators for this user (line 1) and secret (line 2); mode 0600."),
    _SAVE,
    examples="""\
cat /etc/iscsi/initiatorname.iscsi        # on the initiator: its name
iraid export v0 --iqn iqn.2026-01.org.example:v0 --portal 10.0.0.9:3260 \\
    --acl iqn.1993-08.org.debian:01:abc --chap-file /etc/iraid/secrets/clients""")
def export(client: Client, report: Report | None, name: str, iqn: str,
           portals: tuple[export_plan.Portal, ...], initiators: tuple[str, ...], demo_mode: bool,
           chap_file: Path | None, save: bool) -> None:
    """Export a volume to initiators, through LIO.

    Makes or completes the target; what is there stays as it is, so the same command may be run again.
    If something fails, what was made is removed.
    """
    target.check_root()
    target.check_runner(client.version())
    volume = client.status(name)
    export_plan.check_exportable(volume)
    request = export_plan.ExportRequest(
        volume=name, uuid=volume.uuid, size_bytes=volume.size_bytes, block_bytes=volume.block_bytes,
        write_cache=volume.write_cache, iqn=iqn, portals=portals, initiators=initiators,
        demo_mode=demo_mode, credentials=chap.read_credentials(chap_file) if chap_file else None)
    done = target.export(request, save)
    _warn(done.warnings)
    if report is None:
        return _print_json(model.to_json(done))
    _report_export(report, done)


def _report_export(report: Report, done: target.Exported) -> None:
    access = "any initiator" if done.demo_mode else ", ".join(done.initiators)
    report.properties([
        ("Volume", done.name), ("Target", done.iqn), ("LUN", str(done.lun)),
        ("Portals", ", ".join(done.portals)), ("Access", access),
        ("CHAP", "required" if done.authentication else "no"),
        ("Changed", f"{len(done.changes)} settings" if done.changes else "nothing, it was so before"),
        ("Saved", done.saved or "no: lost with a reboot"),
    ])


@_command(
    _NAME,
    click.option("--iqn", callback=_checked(export_plan.parse_iqn),
                 help="Remove it from this target only."),
    click.option("--force", is_flag=True, help="Even while initiators are logged in."),
    _SAVE,
    examples="iraid unexport v0\niraid unexport v0 --iqn iqn.2026-01.org.example:v0")
def unexport(client: Client, report: Report | None, name: str, iqn: str | None, force: bool,
             save: bool) -> None:
    """Take a volume away from initiators.

    Removes its LUN, the target if nothing else is in it, and the storage object.  The volume and its
    data stay.
    """
    target.check_root()
    target.check_runner(client.version())
    done = target.unexport(name, iqn, force, save)
    if report is None:
        return _print_json(model.to_json(done))
    under = f" under {', '.join(done.iqns)}" if done.iqns else ""
    report.line(f"Volume {name} is no longer exported{under}.")


@_command(examples="iraid version\niraid version --json")
def version(client: Client, report: Report | None) -> None:
    """Show the versions of this command and of the handler."""
    handler = client.version()
    if report is None:
        return _print_json({"version": __version__, "handler": model.to_json(handler)})
    report.line(f"iraid {__version__}")
    report.line(f"handler {handler.version} in {handler.program}, pid {handler.pid}")
