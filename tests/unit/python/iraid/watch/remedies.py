"""What a person is told to type must be something that can be typed: options and arguments that exist."""

import re
import shlex
import subprocess

import click

from iraid.cli.main import cli

# Programs of Debian's that remedies name; a typo in one would pass for a program.
PROGRAMS = {
    "apt",
    "chmod",
    "chown",
    "chronyc",
    "cmake",
    "dmesg",
    "echo",
    "ip",
    "journalctl",
    "modprobe",
    "mount",
    "sysctl",
    "systemctl",
    "targetcli",
    "targetctl",
    "timedatectl",
    "ss",
    "ssh",
    "df",
    "rm",
    "sg_reset",
    "tgtadm",
    "[",
    "ping",
    "/usr/libexec/iraid/upgrade-runner",
    "install",
    "ls",
}


def assert_parses(remedy):
    checked = subprocess.run(["bash", "-n", "-c", remedy], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 0, (remedy, checked.stderr)
    for command in re.split(r"\s*(?:&&|\|\||;|\|)\s*", remedy):
        words = shlex.split(command)
        if not words or re.fullmatch(r"\w+=.*", words[0]):
            continue
        if words[0] != "iraid":
            assert words[0] in PROGRAMS, remedy
            continue
        _assert_command(words[1:], remedy)


def _assert_command(words, remedy):
    assert words and words[0] in cli.commands, remedy
    command = cli.commands[words[0]]
    try:
        command.make_context(words[0], words[1:], parent=click.Context(cli))
    except click.exceptions.Exit:  # --help
        pass
    except click.UsageError as error:
        raise AssertionError(f"{remedy}: {error.format_message()}") from error
