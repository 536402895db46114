"""scripts/lab: command line, closing message, exit status."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .run import LabError, Options, RunDirectory
from .supervise import Ended, Guest

if TYPE_CHECKING:
    from .host import Host
    from .qemu import Qemu
    from .several import Several
    from .uml import Uml

EXIT_TIME = 124  # as timeout(1)
EXIT_LAB = 125  # the lab itself failed

EPILOG = """\
exit status: that of the command; 124 after the time limit; 125 if the lab itself failed.
COMMAND may be a pytest selection: tests/end_to_end/test_x.py::test_y -k word
examples:
  scripts/lab -- targetcli ls
  scripts/lab tests/end_to_end -k identity
  scripts/lab --systemd --persist /var/tmp/disk.img -- systemctl is-active tcmu-runner
  scripts/lab --systemd --root "$(scripts/clean-debian)" -- cat /etc/debian_version
  scripts/lab --machines a,b -- ping -c 1 10.77.1.11
"""


def _parse(words: list[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="scripts/lab",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
        description="Runs a command on a real kernel with LIO and TCMU. The guest sees the host's files at "
        "their paths, but its writes do not reach the host (with --kernel host they do).",
    )
    add = parser.add_argument
    add(
        "--kernel",
        choices=("uml", "qemu", "host"),
        default="uml",
        help="user-mode Linux (default); QEMU with Debian's own kernel; this machine's kernel",
    )
    add("--memory", metavar="SIZE", help="the guest's memory (default 4G; 1G for each of --machines)")
    add("--cpus", type=int, default=2, metavar="N", help="QEMU's processors (default 2)")
    add("--timeout", type=int, default=1800, metavar="SECONDS", help="time limit of the run (default 1800)")
    add(
        "--off-timeout",
        type=int,
        default=20,
        metavar="SECONDS",
        help="kill the guest if it is not off this time after its command (default 20)",
    )
    add("--keep", action="store_true", help="keep the run's directory even after a good run")
    add("--state", type=Path, metavar="DIR", help="use DIR as the run's directory, and keep it")
    add("--systemd", action="store_true", help="boot the whole system with systemd, then run the command (UML only)")
    add("--power-cut", action="store_true", help="with --systemd: end without a shutdown, as in a power failure")
    add(
        "--persist",
        type=Path,
        metavar="IMAGE",
        help="keep the guest's writes in this file for the next boot; it is made if absent (UML only)",
    )
    add("--persist-size", default="8G", metavar="SIZE", help="size of that file when it is made (default 8G)")
    add(
        "--root",
        type=Path,
        metavar="DIR",
        help="boot the Debian in this directory instead of this machine's (UML only); see scripts/clean-debian",
    )
    add(
        "--share",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="let the guest write to this directory of the host",
    )
    add(
        "--show",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --root: let the guest read this directory of the host",
    )
    add(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="pass a variable; LANG, LC_*, TERM, TZ, CI, IRAID_*, PYTEST_* and HYPOTHESIS_* are always passed",
    )
    add(
        "--machines",
        default="",
        metavar="A,B,...",
        help="boot so many machines, joined by networks, and run the command on this one, beside them (UML only); "
        "python/iraid_dev/lab/machines.py is how it speaks to them",
    )
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    given = parser.parse_args(words)
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("no command; for example: scripts/lab -- targetcli ls")
    if given.timeout < 1:
        parser.error(f"--timeout {given.timeout} is not a time; give seconds above 0")
    if given.off_timeout < 1:
        parser.error(f"--off-timeout {given.off_timeout} is not a time; give seconds above 0")
    if given.kernel != "uml" and (given.systemd or given.persist or given.root or given.machines):
        parser.error(f"--systemd, --persist, --root and --machines work with --kernel uml only, not {given.kernel}")
    machines = given.machines.split(",") if given.machines else []
    for name in machines:
        if not re.fullmatch("[a-z][a-z0-9]{0,3}", name) or machines.count(name) > 1:
            parser.error(f"--machines {given.machines}: '{name}' must be one to four letters and digits, and once only")
    if machines and (given.persist or given.power_cut):
        parser.error("--persist and --power-cut are for one machine; those of --machines have a disk each, and kill()")
    if given.root and not (given.root / "bin/bash").exists():
        parser.error(f"--root {given.root} is no system: it has no bin/bash; scripts/clean-debian makes one")
    if given.show and not given.root:
        parser.error("--show means something with --root only: else the guest sees all of this machine's files")
    if given.power_cut and not given.systemd:
        parser.error("--power-cut means something with --systemd only: without it nothing is shut down anyway")
    shares, shown = ([path.resolve() for path in paths] for paths in (given.share, given.show))
    for option, paths in (("--share", shares), ("--show", shown)):
        for path in paths:
            if not path.is_dir():
                parser.error(f"{option} {path} is not a directory; make it first")
    environment = {}
    for word in given.env:
        name, equals, value = word.partition("=")
        environment[name] = value if equals else os.environ.get(name, "")
    return Options(
        command,
        given.kernel,
        given.memory or ("1G" if machines else "4G"),
        given.cpus,
        given.timeout,
        given.off_timeout,
        given.keep,
        given.state,
        given.systemd,
        given.power_cut,
        given.persist,
        given.persist_size,
        shares,
        environment,
        given.root.resolve() if given.root else None,
        shown,
        machines,
    )


def _kernel(name: str, machines: list[str]) -> Uml | Qemu | Host | Several:
    if machines:
        from .several import Several

        return Several()
    if name == "uml":
        from .uml import Uml

        return Uml()
    if name == "qemu":
        from .qemu import Qemu

        return Qemu()
    from .host import Host

    return Host()


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def _last_words(log: Path, lines: int = 12) -> str:
    """The end of a kernel's log; from its panic on where there was one, without the stack."""
    try:
        text = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "(none)"
    told = [line for line in text if line.strip() and not line.lstrip().startswith("[<")]
    panic = next((n for n, line in enumerate(told) if "Kernel panic" in line), len(told) - lines)
    return "\n".join(told[max(0, panic) :][:lines])


def _judge(ended: Ended, run: RunDirectory, options: Options) -> int:
    status = run.exit_status()
    if options.kernel == "host" and status is None:
        say(
            "the command was killed; what it made in this machine's kernel may be left: look at "
            "iscsiadm -m session, and remove LIO's part by targetctl clear"
        )
    if ended.how == "signal":
        say(f"interrupted by signal {ended.signal_number}")
        return 128 + ended.signal_number
    if status is not None:
        if ended.how == "not off":
            say("the guest did not switch itself off and was killed")
        if run.time_over():
            say(f"the command did not end in its time (--timeout {options.timeout_seconds}) and was killed")
        return status
    if ended.how == "time":
        say(f"not finished after {options.timeout_seconds} s (--timeout): the guest was killed")
        return EXIT_TIME
    say(f"the guest ended without an exit status: {run.boot_error() or 'its kernel stopped'}")
    say("last lines of the kernel's log:\n" + _last_words(run.kernel_log))
    return EXIT_LAB


def main(words: list[str]) -> int:
    options = _parse(words)
    try:
        kernel = _kernel(options.kernel, options.machines)
        kernel.check(options)
        run = RunDirectory(options)
    except LabError as error:
        say(str(error))
        return EXIT_LAB
    try:
        run.write_settings()
        run.write_command()
        guest = Guest(lambda out, err: kernel.start(options, run, out, err))
    except LabError as error:
        run.finish(good=True)
        say(str(error))
        return EXIT_LAB
    with (run.path / "output.log").open("wb") as copy:
        ended = guest.run(options.timeout_seconds, options.off_seconds, lambda: run.exit_status() is not None, copy)
    if ended.off_seconds is not None:
        run.tell_off_seconds(ended.off_seconds)
    status = _judge(ended, run, options)
    if run.finish(good=status == 0):
        say(f"exit status {status}; output, logs and state are in {run.path}")
    return status
