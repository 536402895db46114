"""What was typed wrong: the error for it, and what to type instead."""

import difflib

import click

from iraid.control.errors import UsageFault


def fault_of(error: click.UsageError) -> UsageFault:
    """The same, with a remedy of ours: what is missing is shown in its place."""
    path = error.ctx.command_path if error.ctx else "iraid"
    remedy = f"see {path} --help"
    if isinstance(error, click.MissingParameter) and error.ctx is not None:
        remedy = f"type {_usage(error.ctx)}"
        if error.param is not None and error.param.name in ("name", "volume"):
            remedy += "; iraid list shows the names of volumes"
        remedy += f"; see {path} --help"
    return UsageFault(" ".join(error.format_message().split()).rstrip("."), remedy)


def unknown_command(typed: str, known: list[str]) -> UsageFault:
    """typed is none of the commands; those that look like it are named."""
    alike = difflib.get_close_matches(typed, known, n=2)
    meant = f"did you mean {' or '.join(f'iraid {name}' for name in alike)}?  " if alike else ""
    return UsageFault(f'"{typed}" is no command of iraid', f"{meant}iraid --help lists all commands")


def _usage(context: click.Context) -> str:
    """The command with what it can't do without: arguments and required options."""
    required = [param for param in context.command.params if isinstance(param, click.Option) and param.required]
    options = "".join(f"{one.opts[0]} {one.metavar or str(one.name).upper()} " for one in required)
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
    return usage.replace("[OPTIONS] ", options)
