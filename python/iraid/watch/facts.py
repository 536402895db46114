"""What iraid doctor looks at.  Files are read below a root that tests choose; programs are run by a function that they
replace.  What can't be found out is None, or absent: no check may take that for a fault.
"""

import ctypes
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iraid import __version__
from iraid.control import model, settings
from iraid.control.client import NO_ANSWER, Client, status_of_all
from iraid.control.errors import IraidError
from iraid.lio import lio_tree, saved, target

from . import advice, sysctls

UNITS = (
    "tcmu-runner.service",
    "rtslib-fb-targetctl.service",
    "target.service",
    "iraid-scrub.timer",
    "iraid-scrub.service",
    "iraid-monitor.service",
    "iraid-exporter.service",
)
UNIT_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "DropInPaths",
    "NeedDaemonReload",
    "Result",
    "NRestarts",
    "Restart",
)
MODULES = ("target_core_mod", "target_core_user", "iscsi_target_mod")
BUS_NAME = "org.kernel.TCMUService1"
SAVED_FILES = ("etc/rtslib-fb-target/saveconfig.json", "etc/target/saveconfig.json")
CONNECT_SECONDS = 2.0
COMMAND_SECONDS = 15
_NO_ERROR = re.compile(r"main:\d+: (Starting|Exiting)")  # the runner says these with the severity of an error
CLOCK_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)

# Exit status and output; None: it can't be run here, or hung.
Run = Callable[[list[str]], tuple[int, str] | None]


def run(words: list[str]) -> tuple[int, str] | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stdout.decode(errors="replace")


@dataclass
class Process:
    """Of the runner."""

    pid: int
    open_files: int | None = None  # its limit
    oom_score_adjust: int | None = None
    replaced: list[str] = field(default_factory=list)  # files it runs that are not those on the disk any more


@dataclass
class Secret:
    path: str
    volumes: list[str]
    mode: int | None = None  # None: it is not there
    uid: int = 0


@dataclass
class Facts:
    root: bool = True  # whether all could be read
    version: str = __version__
    handler: model.Version | None = None
    handler_error: str = ""
    process: Process | None = None
    kernel: str = ""
    modules: set[str] | None = None
    configfs: bool | None = None
    bus: bool | None = None
    runner_version: str | None = None
    units: dict[str, dict[str, str]] | None = None  # None: no systemd
    gateway: advice.Gateway = field(default_factory=advice.Gateway)
    volumes: list[model.Volume] = field(default_factory=list)
    volumes_error: str = ""  # why they are not known, though the handler answers
    paths: dict[str, model.Paths] = field(default_factory=dict)
    spares: list[model.Spare] = field(default_factory=list)
    portals: dict[str, str | None] = field(default_factory=dict)  # why it does not answer
    lio: lio_tree.Tree = field(default_factory=lio_tree.Tree)
    saved_file: str | None = None
    saved_mode: int | None = None
    saved: dict[str, Any] | None = None
    saved_error: str | None = None
    secrets: list[Secret] = field(default_factory=list)
    clock: bool | None = None  # synchronised
    journal: list[str] | None = None  # errors of the runner since the boot
    kernel_journal: list[str] | None = None
    free_bytes: dict[str, int] = field(default_factory=dict)
    configuration: list[str] | None = None  # faults that iraid config check finds


def faults() -> list[str] | None:
    """Of the gateway's files, by the handler's own parser."""
    try:
        return [settings.fault_line(fault) for fault in settings.check()["faults"]]
    except IraidError:  # iraid-engine is not there
        return None


def gather(
    client: Client, root: Path = Path("/"), run: Run = run, faults: Callable[[], list[str] | None] = faults
) -> Facts:
    facts = Facts(root=os.geteuid() == 0, configuration=faults())
    _ask_handler(facts, client)
    _look_at_kernel(facts, root)
    _look_at_process(facts, root, run)
    _ask_systemd(facts, run)
    _look_at_lio(facts, root)
    facts.secrets = _secrets(root)
    facts.gateway = sysctls.gateway(root / "proc/sys/net/ipv4")
    facts.clock = _clock()
    # A handler that does not answer leaves what the files say.
    answered = facts.handler is not None and not facts.volumes_error
    facts.portals = reachable(_portals(facts.volumes, facts.spares) if answered else portals_named(configured(root)))
    for folder in (
        os.environ.get("IRAID_STATE_DIR") or "var/lib/iraid",
        os.environ.get("IRAID_CONFIG_DIR") or "etc/iraid",
    ):
        path = root / folder
        if path.is_dir():
            usage = os.statvfs(path)
            facts.free_bytes[str(path)] = usage.f_bavail * usage.f_frsize
    return facts


def gather_for_pair(client: Client, root: Path, run: Run) -> Facts:
    """What two gateways are compared by: none of it waits for a target."""
    facts = Facts(root=os.geteuid() == 0)
    try:
        facts.handler = client.version()
        _ask_volumes(facts, client)
        facts.spares = client.pool().spares
    except IraidError as error:
        facts.handler_error = error.message
    facts.runner_version = _runner_version(run)
    facts.lio = lio_tree.read(root)
    return facts


def machine_id(root: Path) -> str:
    return read_text(Path(os.environ.get("IRAID_MACHINE_ID") or root / "etc/machine-id")).strip()


# --- the handler ---


def _ask_handler(facts: Facts, client: Client) -> None:
    try:
        facts.handler = client.version()
        _ask_volumes(facts, client)
        _ask_paths(facts, client)
        facts.spares = client.pool().spares
    except IraidError as error:
        facts.handler_error = error.message


def _ask_volumes(facts: Facts, client: Client) -> None:
    try:
        facts.volumes = status_of_all(client)
    except IraidError as error:
        facts.volumes_error = error.message
        raise


def _ask_paths(facts: Facts, client: Client) -> None:
    """A volume that was stopped meanwhile has none, and hides no other."""
    for volume in facts.volumes:
        if volume.state not in ("active", "degraded", "suspended"):
            continue
        try:
            facts.paths[volume.name] = client.paths(volume.name)
        except IraidError as error:
            if error.kind in NO_ANSWER:
                raise


def _look_at_process(facts: Facts, root: Path, run: Run) -> None:
    pid = facts.handler.pid if facts.handler else pid_of(root, target.RUNNER)
    folder = root / "proc" / str(pid)
    if pid and folder.is_dir():
        limits = re.search(r"^Max open files\s+(\d+)", read_text(folder / "limits"), re.MULTILINE)
        adjust = read_text(folder / "oom_score_adj").strip()
        mapped = re.findall(
            r"(/\S*(?:handler_iraid\.so|tcmu-runner|iraid-engine)) \(deleted\)", read_text(folder / "maps")
        )
        facts.process = Process(
            pid,
            int(limits[1]) if limits else None,
            int(adjust) if re.fullmatch(r"-?\d+", adjust) else None,
            sorted(set(mapped)),
        )
    facts.runner_version = _runner_version(run)


def _runner_version(run: Run) -> str | None:
    said = run([target.RUNNER, "--version"])
    found = re.search(r"\d+\.\d+(\.\d+)?", said[1]) if said and said[0] == 0 else None
    return found[0] if found else None


def pid_of(root: Path, name: str) -> int:
    for comm in (root / "proc").glob("[0-9]*/comm"):
        if read_text(comm).strip() == name[:15]:
            return int(comm.parent.name)
    return 0


def read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# --- kernel and systemd ---


def _look_at_kernel(facts: Facts, root: Path) -> None:
    facts.kernel = read_text(root / "proc/sys/kernel/osrelease").strip()
    if (root / "sys/module").is_dir():
        facts.modules = {name for name in MODULES if (root / "sys/module" / name).is_dir()}
    mounts = read_text(root / "proc/mounts")
    if mounts:
        facts.configfs = any(line.split()[2:3] == ["configfs"] for line in mounts.splitlines())


def _ask_systemd(facts: Facts, run: Run) -> None:
    owned = run(
        [
            "busctl",
            "--system",
            "call",
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus",
            "NameHasOwner",
            "s",
            BUS_NAME,
        ]
    )
    if owned is not None and owned[0] == 0:
        facts.bus = owned[1].split() == ["b", "true"]
    units = {}
    for unit in UNITS:
        shown = run(["systemctl", "show", unit, *(f"--property={name}" for name in UNIT_PROPERTIES)])
        if shown is None or shown[0] != 0:
            return
        units[unit] = dict(line.split("=", 1) for line in shown[1].splitlines() if "=" in line)
    facts.units = units
    facts.journal = _journal(run, ["-u", target.RUNNER])
    facts.kernel_journal = _journal(run, ["-k", "--grep", "TCMU|iSCSI|target_core|blocked for more than|I/O error"])


def _journal(run: Run, which: list[str]) -> list[str] | None:
    shown = run(
        ["journalctl", "--boot", "--priority=err", "--no-pager", "--quiet", "--output=short-iso", "--lines=200", *which]
    )
    if shown is None or shown[0] not in (0, 1):  # 1: nothing was found
        return None
    return [line for line in shown[1].splitlines() if line.strip() and not _NO_ERROR.search(line)]


def _clock() -> bool | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        # struct timex, all zero: nothing is set.  Larger than on any architecture.
        status = libc.adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return None
    return None if status < 0 else status != CLOCK_UNSYNCHRONISED


# --- LIO, and files that hold secrets ---


def _look_at_lio(facts: Facts, root: Path) -> None:
    facts.lio = lio_tree.read(root)
    path = next((root / name for name in SAVED_FILES if (root / name).is_file()), None)
    if path is None:
        return
    facts.saved_file, facts.saved_mode = str(path), stat.S_IMODE(path.stat().st_mode)
    try:
        facts.saved = saved.load(path)
    except IraidError as error:
        facts.saved_error = error.message


def configured(root: Path) -> dict[str, str]:
    """Files of volumes, and of the gateway, by name; their texts."""
    folder = Path(os.environ.get("IRAID_CONFIG_DIR") or root / "etc/iraid")
    paths = [folder / "gateway.conf", *sorted(folder.glob("volumes/*.conf"))]
    return {str(path): read_text(path) for path in paths if path.is_file()}


def chap_files(configuration: dict[str, str]) -> dict[str, list[str]]:
    """Secrets files that they name, and which volumes do."""
    found: dict[str, list[str]] = {}
    for path, text in configuration.items():
        for name in re.findall(r"^\s*chap_file\s*=\s*(\S+)", text, re.MULTILINE):
            if name.startswith("/"):  # "none" is none
                found.setdefault(name, []).append(Path(path).stem)
    return found


def _secrets(root: Path) -> list[Secret]:
    named = chap_files(configured(root))
    folder = Path(os.environ.get("IRAID_CONFIG_DIR") or root / "etc/iraid") / "secrets"
    for path in sorted(folder.glob("*")):
        if path.is_file():
            named.setdefault(str(path), [])
    secrets = []
    for name, volumes in sorted(named.items()):
        secret = Secret(name, volumes)
        try:
            status = os.stat(name)
            secret.mode, secret.uid = stat.S_IMODE(status.st_mode), status.st_uid
        except OSError:
            pass
        secrets.append(secret)
    return secrets


# --- the network ---


def _portals(volumes: list[model.Volume], spares: list[model.Spare]) -> list[str]:
    found = {
        portal: None
        for volume in volumes
        for member in volume.members
        for portal in member.portals or [member.member.split("/")[0]]
    }
    for spare in spares:
        for portal in spare.device.split("/")[0].split(","):
            found[portal] = None
    return list(found)


def portals_named(configuration: dict[str, str]) -> list[str]:
    """Of all members in these files."""
    members = [
        found
        for text in configuration.values()
        for found in re.findall(r"^\s*(?:member|spare)\s*=\s*(\S+)/(?:iqn|eui|naa)\.", text, re.MULTILINE)
    ]
    portals = [one if re.search(r":\d+$", one) else f"{one}:3260" for member in members for one in member.split(",")]
    return list(dict.fromkeys(portals))


def reachable(portals: list[str]) -> dict[str, str | None]:
    """Whether somebody listens there: a TCP connection, at once closed."""
    if not portals:
        return {}
    with ThreadPoolExecutor(min(len(portals), 32)) as pool:
        return dict(zip(portals, pool.map(_connect, portals), strict=True))


def split_portal(portal: str) -> tuple[str, int]:
    host, _, port = portal.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port):
        return portal.strip("[]"), 3260
    return host.strip("[]"), int(port)


def _connect(portal: str) -> str | None:
    try:
        socket.create_connection(split_portal(portal), CONNECT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error) or "no answer"
    except (ValueError, OverflowError):  # as in a file with a fault
        return "no such address"
    return None
