"""iraid support: all that helps to find out what is wrong on a gateway, in one archive that can be handed to others.

Every part is made by itself: one that fails leaves a line that says why, and the others are there.  What goes in passes
redact.py, all of it, and printable(), for targets and initiators choose their names.  Secrets files are never put in;
names of users to log in with are removed where a key says that they are some.
"""

import errno
import io
import json
import lzma
import os
import re
import socket
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from iraid import __version__
from iraid.control import model
from iraid.control.client import Client, status_of_all
from iraid.control.errors import IraidError
from iraid.lio import lio_tree

from . import doctor, facts, follow, redact, stats, verdict

TEXT_BYTES_MAX = 8 << 20  # of one part; of a log the end is kept
ERROR_TEXT_MAX = 1000
TREE_FILES_MAX, TREE_TEXT_MAX = 20_000, 4096
CONFIG_TREE = "sys/kernel/config/target"


@dataclass
class Part:
    path: str  # in the archive
    what: str  # for the list of contents
    make: Callable[[], str]


@dataclass
class Kept:
    path: str
    what: str
    bytes: int
    error: str | None = None


class Collector:
    def __init__(self, client: Client, root: Path = Path("/"), run: facts.Run = facts.run) -> None:
        self.client, self.root, self.run = client, root, run
        self.known = redact.Known(self._secrets())

    # --- secrets ---

    def _secrets(self) -> set[str]:
        found: set[str] = set()
        configuration = facts.configured(self.root)
        folder = Path(os.environ.get("IRAID_CONFIG_DIR") or self.root / "etc/iraid") / "secrets"
        files = [*map(Path, facts.chap_files(configuration)), *(folder.rglob("*") if folder.is_dir() else [])]
        for path in files:
            if path.is_file():
                found |= redact.secrets_of_file(path)
        for text in [*configuration.values(), *(facts.read_text(path) for path in self._saved_files())]:
            try:
                found |= redact.secrets_in(json.loads(text))
            except (ValueError, RecursionError):  # no JSON, broken, or nested too deeply
                found |= redact.secrets_in_settings(text)
        for path in (self.root / CONFIG_TREE).glob("iscsi/**/*"):
            if redact.is_secret(path.name) and path.is_file():
                found.add(facts.read_text(path).strip())
        return found - {"", "NULL"}

    def _saved_files(self) -> list[Path]:
        return [self.root / name for name in facts.SAVED_FILES if (self.root / name).is_file()]

    # --- parts ---

    def parts(self) -> Iterator[Part]:
        yield Part("versions.txt", "versions of command, handler, packages, kernel", self._versions)
        yield Part("doctor.json", "what iraid doctor found", self._doctor)
        yield Part("status.json", "iraid status --json, with verdicts", self._status)
        yield Part("stats.json", "counters, histograms, TCP connections (volume.stats)", lambda: self._each(stats.ask))
        yield Part("paths.json", "what sessions negotiated (volume.path)", lambda: self._each(Client.paths))
        yield Part("events.txt", "events since the handler's start", self._events)
        yield Part("superblocks.json", "superblocks of all members (iraid examine)", self._superblocks)
        yield Part("spares.json", "the gateway's spares", lambda: _json(asdict(self.client.pool())))
        for path, text in facts.configured(self.root).items():
            name = one_line(Path(path).name)
            yield Part(f"config/{name}", f"{one_line(path)}, without secrets", partial(redact.settings, text))
        for saved in self._saved_files():
            yield Part(f"config/lio-{saved.name}", f"{saved}, without secrets", partial(self._saved, saved))
        yield Part("lio-tree.txt", "LIO's settings as they run, without secrets", self._tree)
        for path, what, words in _COMMANDS:
            yield Part(path, what, partial(self._command, words))
        yield Part(
            "system/units.txt",
            "units and their drop-ins as systemd has them, without secrets",
            lambda: redact.units(self._command(_UNITS)),
        )
        yield Part("sysctl.txt", "net.ipv4.tcp_*, net.core.*, vm.*", self._sysctls)
        yield Part("process.txt", "limits, memory and threads of the runner", self._process)

    def _versions(self) -> str:
        lines = [f"iraid {__version__}", f"made {time.strftime('%Y-%m-%d %H:%M:%S %z')} on {socket.gethostname()}"]
        try:
            handler = self.client.version()
            lines.append(f"handler {handler.version} in {handler.program}, pid {handler.pid}")
        except IraidError as error:
            lines.append(f"handler: {error.message}")
        lines.append(f"kernel {facts.read_text(self.root / 'proc/version').strip()}")
        for words in (
            ["tcmu-runner", "--version"],
            [
                "dpkg-query",
                "-W",
                "iraid*",
                "tcmu-runner",
                "python3-rtslib-fb",
                "targetcli-fb",
                "libiscsi7",
                "nbdkit",
                "systemd",
            ],
            ["rpm", "-q", "iraid", "tcmu-runner", "python3-rtslib"],
        ):
            shown = self.run(words)
            if shown is not None:
                lines += ["", *shown[1].splitlines()]
        return "\n".join(lines) + "\n"

    def _doctor(self) -> str:
        seen = facts.gather(self.client, self.root, self.run)
        return _json({"findings": [asdict(one) for one in doctor.examine(seen)]})

    def _names(self) -> list[str]:
        return sorted(volume.name for volume in self.client.volumes())

    def _status(self) -> str:
        return _json(
            {
                "volumes": [
                    model.to_json(one) | {"health": asdict(verdict.judge(one))} for one in status_of_all(self.client)
                ]
            }
        )

    def _each(self, ask: Callable[[Client, str], Any]) -> str:
        shown: dict[str, Any] = {}
        for name in self._names():
            try:
                shown[name] = asdict(ask(self.client, name))
            except IraidError as error:
                shown[name] = {"error": error.to_json()}
        return _json(shown)

    def _events(self) -> str:
        page = self.client.events(None, 0, 0)
        return "\n".join([f"instance {page.instance}", *map(follow.line, page.events)]) + "\n"

    def _superblocks(self) -> str:
        """Of members that have a session: others would each take the time of a login that fails."""
        shown: dict[str, Any] = {}
        for volume in status_of_all(self.client):
            login = self._login(volume.name)
            for member in volume.members:
                if member.link != "open":
                    shown[member.member] = {"error": f"there is no session with it: {member.reason or member.state}"}
                    continue
                try:
                    shown[member.member] = asdict(self.client.examine(member=member.member, **login))
                except IraidError as error:
                    shown[member.member] = {"error": error.message}
        return _json(shown)

    def _login(self, volume: str) -> dict[str, str]:
        """Those of the volume's own file: targets may let nobody else in."""
        files = {path: text for path, text in facts.configured(self.root).items() if Path(path).stem == volume}
        chap = next(iter(facts.chap_files(files)), None)
        try:
            initiator = self.client.paths(volume).initiator
        except IraidError:  # a stopped volume has no sessions
            initiator = ""
        return {key: value for key, value in (("chap_file", chap), ("initiator", initiator)) if value}

    def _saved(self, path: Path) -> str:
        text = facts.read_text(path)
        try:
            return _json(redact.json_value(json.loads(text)))
        except (ValueError, RecursionError):
            return redact.settings(text)

    def _tree(self) -> str:
        """Every attribute of configfs below target, as FILE: TEXT; of those that hold secrets only whether they are
        set."""
        root = self.root / CONFIG_TREE
        lines = [f"{lun}" for lun in lio_tree.read(self.root).luns]
        for count, path in enumerate(sorted(root.rglob("*"))):
            if count >= TREE_FILES_MAX:
                lines.append("... and more")
                break
            name = path.relative_to(root)
            if path.is_symlink():
                lines.append(f"{name} -> {path.readlink()}")
            elif path.is_file() and os.access(path, os.R_OK) and path.stat().st_mode & 0o444:
                lines.append(f"{name}: {self._attribute(path)}")
        return "\n".join(lines) + "\n" if lines else "LIO is not loaded, or has nothing\n"

    def _attribute(self, path: Path) -> str:
        text = facts.read_text(path).replace("\0", " ").strip()[:TREE_TEXT_MAX]
        if redact.is_removed(path.name):
            return redact.REMOVED if text not in ("", "NULL") else "not set"
        return text.replace("\n", " | ")

    def _command(self, words: list[str]) -> str:
        shown = self.run(words)
        if shown is None:
            raise IraidError(f"{words[0]} is not installed, or did not end", kind="internal")
        status, text = shown
        return text if status == 0 else f"{text}\n(exit status {status})\n"

    def _sysctls(self) -> str:
        lines = []
        for pattern in ("net/ipv4/tcp_*", "net/core/*", "vm/*"):
            for path in sorted((self.root / "proc/sys").glob(pattern)):
                if path.is_file():
                    name = ".".join(path.relative_to(self.root / "proc/sys").parts)
                    lines.append(f"{name} = {' '.join(facts.read_text(path).split())}")
        return "\n".join(lines) + "\n"

    def _process(self) -> str:
        pid = facts.pid_of(self.root, "tcmu-runner")
        try:
            pid = self.client.version().pid or pid
        except IraidError:
            pass
        if not pid:
            raise IraidError("tcmu-runner does not run", kind="unavailable")
        folder = self.root / "proc" / str(pid)
        return "\n".join(
            f"== {name}\n{facts.read_text(folder / name)}" for name in ("status", "limits", "oom_score_adj", "maps")
        )


_UNITS = [
    "systemctl",
    "--no-pager",
    "cat",
    "tcmu-runner",
    "rtslib-fb-targetctl",
    "iraid-scrub.timer",
    "iraid-scrub",
    "iraid-monitor",
    "iraid-exporter",
]
_COMMANDS = (
    (
        "logs/tcmu-runner.log",
        "journal of tcmu-runner, its last 20000 lines",
        ["journalctl", "--no-pager", "--output=short-iso", "--lines=20000", "-u", "tcmu-runner"],
    ),
    (
        "logs/iraid.log",
        "journal of the iraid units, and of events",
        [
            "journalctl",
            "--no-pager",
            "--output=short-iso",
            "--lines=20000",
            "-u",
            "iraid-*",
            "-u",
            "rtslib-fb-targetctl",
        ],
    ),
    (
        "logs/events.log",
        "events in the journal, with their fields",
        ["journalctl", "--no-pager", "--output=json", "--lines=5000", "-t", "iraid"],
    ),
    (
        "logs/kernel.log",
        "kernel log of this boot",
        ["journalctl", "--no-pager", "--output=short-iso", "--lines=20000", "-k"],
    ),
    ("logs/dmesg.txt", "kernel's ring buffer", ["dmesg", "--ctime"]),
    (
        "system/unit-states.txt",
        "states of units",
        ["systemctl", "--no-pager", "list-units", "--all", "tcmu*", "rtslib*", "iraid*", "iscsi*", "tgt*"],
    ),
    ("system/sockets.txt", "TCP connections with figures (ss -tinp)", ["ss", "-tinp"]),
    ("system/addresses.txt", "addresses, links and their counters", ["ip", "-s", "-d", "address"]),
    ("system/routes.txt", "routes", ["ip", "route", "show", "table", "all"]),
    (
        "system/disks.txt",
        "disks that this machine sees",
        ["lsblk", "-o", "NAME,SIZE,TYPE,VENDOR,MODEL,TRAN,MOUNTPOINTS"],
    ),
    ("system/memory.txt", "memory", ["free", "-m"]),
    ("system/space.txt", "free space of file systems", ["df", "-h"]),
    ("system/time.txt", "the clock", ["timedatectl"]),
)


_ODD = re.compile(r"[^\n\t -~]")


def printable(text: str) -> str:
    """What would command a terminal, or can't be seen, as an escape of Python: who reads a log sees what stands in it."""
    return _ODD.sub(lambda odd: odd[0] if odd[0].isprintable() else ascii(odd[0])[1:-1], text)


def one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


# --- the archive ---


def write(collector: Collector, path: Path, name: str) -> list[Kept]:
    """path must not exist; readable by its owner only.  Raises IraidError, and leaves nothing then."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            with lzma.open(file, "wb", preset=3) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
                kept = _fill(archive, collector, name)
            file.flush()
            os.fsync(file.fileno())  # some file systems say only now that there is no room
        return kept
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _refused(path, error) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _refused(path: Path, error: OSError) -> IraidError:
    remedy = "name another file with --output"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"make room (df -h {path.parent}; df -i {path.parent}), or {remedy}, on a disk with room"
    return IraidError(f"{path}: {error.strerror}", remedy, kind="io")


def _fill(archive: tarfile.TarFile, collector: Collector, name: str) -> list[Kept]:
    kept = []
    for part in collector.parts():
        error = None
        try:
            text = part.make()
        except IraidError as failed:
            error = failed.message
        except OSError as failed:
            error = f"{failed.filename or ''}: {failed.strerror}".lstrip(": ")
        except Exception as failed:  # noqa: BLE001 - the other parts may say why
            error = f"{type(failed).__name__}: {failed}"
        if error is not None:
            said = one_line(collector.known.remove(error))[:ERROR_TEXT_MAX]
            kept.append(Kept(part.path, part.what, 0, said))
            continue
        content = _bounded(printable(collector.known.remove(text)))
        _add(archive, f"{name}/{part.path}", content)
        kept.append(Kept(part.path, part.what, len(content)))
    _add(archive, f"{name}/CONTENTS.txt", contents(kept).encode())
    return kept


def contents(kept: list[Kept]) -> str:
    lines = [f"{one.path:28} {one.what}{f': NOT THERE: {one.error}' if one.error else ''}" for one in kept]
    said = "Passwords and other secrets were removed wherever they stood, names of users from settings."
    return "\n".join([said, "", *lines]) + "\n"


def _bounded(text: str) -> bytes:
    content = text.encode(errors="replace")
    if len(content) <= TEXT_BYTES_MAX:
        return content
    return b"... the beginning is left out\n" + content[-TEXT_BYTES_MAX:]


def _add(archive: tarfile.TarFile, path: str, content: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(content))
