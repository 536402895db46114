"""What all commands of iraid have in common: options, how they are declared, what they print, how they ask.

The commands themselves are in main.py (volumes) and the modules called as they are.
"""

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from iraid import __version__
from iraid.control.client import SOCKET_DEFAULT, Client
from iraid.control.errors import IraidError, UsageFault
from iraid.control.units import parse_size
from iraid.lio import export_plan

from . import completion, overview
from .report import Report

_SETTINGS = {"help_option_names": ["--help", "-h"], "max_content_width": 100}


def fail(error: IraidError, as_json: bool) -> int:
    """Say what went wrong; returns the exit status."""
    if as_json:
        print_json({"error": error.to_json()})
    click.echo(f"iraid: {error.message}", err=True)
    if error.remedy:
        click.echo(f"  remedy: {error.remedy}", err=True)
    return error.exit_status


def warn(texts: list[str]) -> None:
    for text in texts:
        click.echo(f"iraid: warning: {text}", err=True)


def print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))


def ask(question: str, refusal: str, report: Report | None) -> None:
    """Go on only after a yes at a terminal; without one: UsageFault, whose remedy is --yes."""
    if report is None or not sys.stdin.isatty():
        raise UsageFault(refusal, "give --yes to confirm")
    if not click.confirm(question, err=True):
        raise IraidError("nothing was done", kind="interrupted")


class SizeType(click.ParamType):
    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def checked(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """A click callback that parses an option, given once or several times."""

    def callback(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(parse(one) for one in value)
        return None if value is None else parse(value)

    return callback


@click.group(
    cls=overview.ByPurpose,
    context_settings=_SETTINGS,
    invoke_without_command=True,
    epilog="""\b
Examples:
  iraid discover 10.0.0.1
  iraid create v0 10.0.0.{1,2,3,4}/iqn.2026-01.org.example:disk/0
  iraid export v0 --iqn iqn.2026-01.org.example:v0 --acl iqn.1993-08.org.debian:01:abc \\
      --chap-file /etc/iraid/secrets/clients
  iraid status v0""",
)
@click.version_option(__version__, message="iraid %(version)s")
@click.option("--socket", metavar="PATH", help=f"Control socket [IRAID_SOCKET, {SOCKET_DEFAULT}].")
@click.pass_context
def cli(context: click.Context, socket: str | None) -> None:
    """Present LUNs of several iSCSI targets as one redundant LUN.

    Without a command: how this gateway's volumes are, and what to type next.
    """
    context.obj = socket
    if context.invoked_subcommand is None:
        overview.show(socket)


def command(*options: Any, examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """A subcommand with its options, and those that every command has."""

    def decorate(function: Callable[..., None]) -> click.Command:
        def run(context: click.Context, socket: str | None, as_json: bool, **given: Any) -> None:
            client = Client(socket or context.obj)
            try:
                function(client, None if as_json else Report(), **given)
            except KeyboardInterrupt as error:
                if client.sent_about is None:
                    raise
                click.echo(err=True)  # below ^C
                raise _goes_on(context.info_name or "", client.sent_about) from error

        named: Any = wraps(function)(run)
        decorated: Any = click.pass_context(named)
        common = [
            click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
            click.option("--socket", metavar="PATH", help="Control socket."),
        ]
        for option in reversed([*options, *common]):
            decorated = option(decorated)
        name = function.__name__.rstrip("_").replace("_", "-")
        epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.splitlines())
        return cli.command(name, epilog=epilog)(decorated)

    return decorate


def _goes_on(command_name: str, volume: str) -> IraidError:
    """Interrupted, when the handler had the request."""
    whose = f" of volume {volume}" if volume else ""
    return IraidError(
        f"interrupted: the handler goes on with {command_name}{whose}",
        f"see how it ends: iraid list; iraid status {volume}".rstrip(),
        kind="interrupted",
    )


NAME = click.argument("name", shell_complete=completion.volumes)
CHAP_FILE = click.option(
    "--chap-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Secrets file for the targets: line 1 user, line 2 secret, mode 0600.",
)
INITIATOR = click.option(
    "--initiator",
    metavar="IQN",
    callback=checked(export_plan.parse_iqn),
    help="Initiator name for the login to the targets.",
)
SAVE = click.option(
    "--save/--no-save",
    default=True,
    show_default=True,
    help="Save the change in LIO's configuration, for the next boot (saveconfig.json).",
)


def absolute(path: Path | None) -> str | None:
    """The handler has another working directory."""
    return None if path is None else str(path.absolute())
