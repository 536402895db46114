"""One run of the lab: its directory, what the guest is told, and what it told us.

DIR/settings      shell variables for the guest's scripts
DIR/command       the command, its directory and environment, as a shell script
DIR/kernel.log    the guest kernel's console
DIR/log/          the guest's /var/log (tcmu-runner.log, ...), written while it runs
DIR/after/        state of a failed run: processes, configfs, sessions, stuck tasks
DIR/exit-status   the command's, written by the guest when it ends
DIR/off-seconds   from then until the guest was off; absent when it had to be killed
DIR/MACHINE/      with --machines: the same of each machine, and its disk in MACHINE.disk/ beside it
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from iraid_dev.places import ROOT

REPOSITORY = ROOT
GUEST = Path(__file__).resolve().parent / "guest"
INITIATOR = "iqn.2026-01.org.iraid:lab"

# Of the caller's environment only this goes inside: the directory may be kept and shown to
# others, and an environment may hold secrets.
PASSED_NAMES = ("TERM", "LANG", "CI", "TZ")
PASSED_PREFIXES = ("LC_", "IRAID_", "PYTEST_", "HYPOTHESIS_")


class LabError(Exception):
    """Something the caller can mend; the message says what and how."""


@dataclass(frozen=True)
class Nic:
    """A network card of a machine, as its kernel and its system are told."""

    name: str  # in the machine
    address: str
    far_end: str  # the interface of this machine that is its other end
    mac: str


@dataclass(frozen=True)
class Options:
    command: list[str]
    kernel: str = "uml"
    memory: str = "4G"
    cpus: int = 2
    timeout_seconds: int = 1800
    off_seconds: int = 20
    keep: bool = False
    state: Path | None = None
    systemd: bool = False
    power_cut: bool = False
    persist: Path | None = None
    persist_size: str = "8G"
    shares: list[Path] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    root: Path | None = None
    shown: list[Path] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    disk: Path | None = None  # the folder of its disk.img
    name: str = "lab"
    nics: list[Nic] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)

    def working_directory(self) -> str:
        """The caller's, where the command has it: another system has what is shared or shown to it."""
        if self.machines:
            return str(Path.cwd().resolve())  # it runs beside them, on this one
        here = Path.cwd().resolve()
        seen = (here, *here.parents)
        return str(here) if not self.root or any(path in seen for path in self.shares + self.shown) else "/"


def command_words(command: list[str]) -> list[str]:
    """A pytest selection (its first word is in tests/ or a pytest option) gets its pytest."""
    first = command[0]
    path = Path(first.split("::")[0])
    is_test = path.suffix == ".py" and path.name.startswith("test_") and path.exists()
    is_folder = path.is_dir() and (REPOSITORY / "tests") in [path.resolve(), *path.resolve().parents]
    if is_test or is_folder or first.startswith("-"):
        return ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", *command]
    return command


class RunDirectory:
    """Made for a run, removed after a good one unless it is to be kept."""

    def __init__(self, options: Options):
        self.options = options
        self.path = self._make(options.state)
        self.kernel_log = self.path / "kernel.log"

    @staticmethod
    def _make(wanted: Path | None) -> Path:
        if wanted is None:
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
            wanted = cache_directory() / name
        path = wanted.resolve()
        if any(character.isspace() for character in f"{path}{GUEST}"):
            raise LabError(
                f"the path '{path}' or '{GUEST}' has a blank in it, which a kernel "
                "command line cannot carry; use --state with another path"
            )
        path.mkdir(parents=True, exist_ok=True)
        for old in ("exit-status", "boot-error", "time-over", "off-seconds"):
            (path / old).unlink(missing_ok=True)
        return path

    def write_settings(self) -> None:
        options = self.options
        settings = {
            "LAB_STATE": self.path,
            "LAB_GUEST": GUEST,
            "LAB_KERNEL": options.kernel,
            "LAB_INITIATOR": INITIATOR if options.name == "lab" else f"{INITIATOR}-{options.name}",
            "LAB_NAME": options.name,
            "LAB_NICS": "\n".join(f"{nic.name} {nic.address}" for nic in options.nics),
            "LAB_HOSTS": "\n".join(f"{address} {name}" for name, address in options.hosts.items()),
            "LAB_PERSIST": "1" if options.persist else "",
            "LAB_DISK": options.disk or "",
            "LAB_SYSTEMD": "1" if options.systemd else "",
            "LAB_POWER_CUT": "1" if options.power_cut else "",
            "LAB_KEEP": "1" if options.keep or options.state else "",
            "LAB_SHARES": "\n".join(str(path) for path in options.shares),
            "LAB_SHOWN": "\n".join(str(path) for path in options.shown),
            "LAB_ROOT": options.root or "",
            "LAB_SECONDS": options.timeout_seconds,
        }
        lines = [f"{name}={shlex.quote(str(value))}" for name, value in settings.items()]
        (self.path / "settings").write_text("\n".join(lines) + "\n")

    def write_command(self) -> None:
        passed = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)
        }
        passed["IRAID_LAB_STATE"] = str(self.path)
        if self.options.machines:  # the command runs on this machine, beside them
            passed |= {
                "HOME": os.environ.get("HOME", "/root"),
                "IRAID_LAB_MACHINES": ",".join(self.options.machines),
                "PYTHONPATH": str(REPOSITORY / "python"),
            }
        else:
            passed |= {"HOME": "/root", "IRAID_LAB": self.options.kernel}
        passed |= self.options.environment
        lines = ["#!/bin/bash"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in passed.items()]
        lines += [
            f"cd {shlex.quote(self.options.working_directory())} || exit 125",
            "exec " + shlex.join(command_words(self.options.command)),
        ]
        (self.path / "command").write_text("\n".join(lines) + "\n")

    def exit_status(self) -> int | None:
        """What the command gave; None when the guest ended without telling."""
        try:
            return int((self.path / "exit-status").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def tell_off_seconds(self, seconds: float) -> None:
        (self.path / "off-seconds").write_text(f"{seconds:.1f}\n")

    def time_over(self) -> bool:
        """The guest ended its command because its time was over."""
        return (self.path / "time-over").exists()

    def boot_error(self) -> str | None:
        try:
            return (self.path / "boot-error").read_text().strip()
        except FileNotFoundError:
            return None

    def finish(self, good: bool) -> bool:
        """Removes the directory after a good run.  True when it is still there."""
        if not good or self.options.keep or self.options.state:
            return True
        shutil.rmtree(self.path, ignore_errors=True)
        return False


def cache_directory() -> Path:
    """Where runs are kept, and what the lab installs for itself."""
    in_repository = REPOSITORY / ".lab"
    try:
        in_repository.mkdir(exist_ok=True)
    except OSError:
        pass
    if os.access(in_repository, os.W_OK):
        return in_repository
    outside = Path(os.environ.get("TMPDIR", "/tmp")) / f"iraid-lab-{os.getuid()}"
    outside.mkdir(mode=0o700, exist_ok=True)
    return outside
