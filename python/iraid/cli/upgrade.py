"""upgrade-runner: tcmu-runner takes the handler that is installed now, while initiators go on.

    check      will the new handler load, and the volumes' files; could a volume not finish what it has begun
    keep       the old handler, out of the memory of the running process: its file may be gone
    restart    the runner: SIGTERM lets commands under way end, marks the volumes clean and ends it; the kernel keeps
               what initiators send meanwhile, up to 30 s; the next runner has them send it again (BUSY)
    go back    to the old handler, if the new one does not start, does not answer, ends again, or does not have all volumes
               at work that the old one had

From keep on signals are ignored, by the commands that are run, too: whoever interrupted it would leave no runner.

What has begun must have ended before the kernel's 30 s are over.  So a runner that does not end in STOP_SECONDS is
killed: its volumes are then as after a crash, which costs a resync of what was being written and no error.  On the way
back, when one that hangs keeps all volumes waiting, it has BACK_STOP_SECONDS.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from iraid.control import model, settings
from iraid.control.client import Client
from iraid.control.errors import IraidError, UsageFault

UNIT = "tcmu-runner.service"
HANDLER = "handler_iraid.so"
KEPT = Path("/var/lib/iraid/previous-handler")  # /run is mounted noexec by initramfs-tools
GO_BACK = Path(f"/run/systemd/system/{UNIT}.d/iraid-previous-handler.conf")
STOP_SECONDS = 15
START_SECONDS = 8
BACK_STOP_SECONDS = 5  # of a handler that does not work; initiators have waited for one
BACK_START_SECONDS = 90  # the last one that there is
ANSWER_SECONDS = 1.5  # it answers before systemd says that the runner is up
OPEN_SECONDS = (
    5  # the runner opens all LUNs before it is up; of a volume that it has not, commands would fail after 30 s
)
READY_SECONDS = 25
LOOK_SECONDS = 0.05
LOG = Path("/var/log/tcmu-runner.log")
LOG_LINES = 3
WORKS = ("active", "degraded")
STANDBY = "standby"
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_EPILOG = """\
exit status: 0 the new handler runs, or nothing was to be done; 1 failed, and the message says which handler runs;
2 wrong usage.
Other handlers of tcmu-runner are restarted, too.
examples:
  upgrade-runner --check        # would it work?  Nothing is changed
  upgrade-runner                # after a new package was installed
  upgrade-runner --again        # also if the installed handler is the one that runs
"""


@dataclass
class Upgrade:
    outcome: str  # "not running", "runs already", "possible" (--check) or "taken"
    handler: str = ""  # its file
    before: str = ""  # versions
    after: str = ""
    seconds: float = 0.0  # from the runner's stop until all volumes were back
    killed: bool = False
    not_clean: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# --- the running process ---


@dataclass(frozen=True)
class Loaded:
    """The handler's file as a process has it mapped."""

    path: Path
    mapping: str  # "START-END", a name in /proc/PID/map_files


def find_loaded(maps: str) -> Loaded | None:
    """Of the text of /proc/PID/maps."""
    for line in maps.splitlines():
        span, _, _, _, _, *path = line.split(maxsplit=5)
        name = path[0].removesuffix(" (deleted)") if path else ""
        if Path(name).name == HANDLER:
            return Loaded(Path(name), span)
    return None


def loaded_by(pid: int) -> Loaded | None:
    try:
        return find_loaded(Path(f"/proc/{pid}/maps").read_text())
    except OSError as error:
        raise _ended(pid) from error


def _ended(pid: int) -> IraidError:
    return IraidError(
        f"nothing was changed: tcmu-runner (pid {pid}) has just ended",
        f"systemctl status {UNIT}; when it runs, or is stopped for good, run upgrade-runner",
        kind="unavailable",
    )


def _unit(*properties: str) -> dict[str, str]:
    done = _run("systemctl", "show", UNIT, *(f"--property={name}" for name in properties))
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines())


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def is_new(installed: Path, mapped: Path) -> bool:
    """The file in its place is another than the one that is mapped."""
    try:
        return not os.path.samefile(installed, mapped)
    except FileNotFoundError:
        if installed.exists():
            raise _ended(int(mapped.parts[2])) from None
        raise IraidError(
            f"{installed} does not exist, so a restarted runner could not load it",
            "install iraid again, then run upgrade-runner",
            kind="unfit",
        ) from None


# --- before anything is touched ---


def missing_parts(ldd: str) -> list[str]:
    """What `ldd -r` finds missing, without what the runner itself gives to its handlers."""
    libraries = [line.split()[0] for line in ldd.splitlines() if line.endswith("=> not found")]
    symbols = [name for name in re.findall(r"undefined symbol: (\S+)", ldd) if not name.startswith("tcmu")]
    return libraries or symbols  # a missing library's symbols say nothing more


def check_loads(path: Path) -> None:
    done = _run("ldd", "-r", str(path))
    missing = missing_parts(done.stdout + done.stderr)
    if done.returncode != 0 and not missing:
        missing = [(done.stderr or done.stdout).strip() or f"ldd ends with {done.returncode}"]
    if missing:
        raise IraidError(
            f"{path} can't be loaded: {', '.join(missing)}",
            "the running handler goes on; install iraid and what it depends on again (apt --fix-broken install)",
            kind="unfit",
        )


def why_not_now(volume: model.Volume) -> str | None:
    """Why the commands of a volume's initiators might not end soon."""
    if not volume.users:
        return None
    if volume.state == "suspended":
        return "it waits for members that are silent"
    if volume.state == "assembling":
        return "it waits for members and is not assembled yet"
    return None


def notes_on(volume: model.Volume) -> list[str]:
    notes = []
    if volume.resync.running or volume.regions.suspect:
        notes.append(f"volume {volume.name}: its resync continues afterwards; until then the stop may take 5 s longer")
    if volume.rebuild.running:
        notes.append(f"volume {volume.name}: its rebuild continues afterwards")
    if volume.scrub.active:
        notes.append(f"volume {volume.name}: its scrub continues afterwards")
    return notes


def check_room() -> None:
    """The old handler can be loaded from where it is kept."""
    folder = KEPT.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        noexec = os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError as error:
        raise IraidError(
            f"nothing was changed: the old handler can't be kept in {folder}: {error.strerror}",
            f"see that {folder} is a folder that can be written to, then run upgrade-runner",
            kind="io",
        ) from error
    if noexec:
        raise IraidError(
            f"nothing was changed: {folder} is mounted noexec, so there would be no way back to the old handler",
            "mount it without noexec during the upgrade; or use --force and have no way back",
            kind="unfit",
        )


# --- the restart ---


def keep_old(mapped: Path, path: Path) -> None:
    """A folder of handlers with the old one instead of the new; the one of before stays until this one is whole."""
    fresh = KEPT.with_name(f"{KEPT.name}.new")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True, mode=0o700)
        shutil.copyfile(mapped, fresh / HANDLER)
        for other in path.parent.glob("handler_*.so"):
            if other.name != HANDLER:
                (fresh / other.name).symlink_to(other)
        shutil.rmtree(KEPT, ignore_errors=True)
        fresh.rename(KEPT)
    except OSError as error:
        raise IraidError(
            f"nothing was changed: the old handler can't be kept in {KEPT}: {error.strerror}",
            f"make room in {KEPT.parent}, then run upgrade-runner",
            kind="io",
        ) from error


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def restart(pid: int, stop_seconds: float, start_seconds: float = START_SECONDS) -> bool:
    """True if the runner had to be killed.  Raises IraidError if it does not come back, start_seconds after its end at the latest."""
    process = subprocess.Popen(
        ["systemctl", "restart", UNIT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + stop_seconds
    killed = False
    gone = None
    while process.poll() is None:
        now = time.monotonic()
        if Path(f"/proc/{pid}").exists():
            if not killed and now > deadline:
                _kill_runner()
                killed = True
        else:
            gone = gone or now
            if now > gone + start_seconds:
                process.kill()
                process.wait()
                _kill_runner()
                raise IraidError(
                    f"{UNIT} did not start within {start_seconds:.0f} s", f"journalctl -u {UNIT}", kind="unavailable"
                )
        time.sleep(LOOK_SECONDS)
    assert process.stderr is not None
    said = process.stderr.read().strip()
    if process.returncode != 0:
        raise IraidError(f"{UNIT} does not start: {said}", f"journalctl -u {UNIT}", kind="unavailable")
    return killed


def _kill_runner() -> None:
    _run("systemctl", "kill", "--signal=SIGKILL", "--kill-who=main", UNIT)


def wait_for_handler(client: Client, not_pid: int) -> model.Version:
    """The version of a handler in another process."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            version = client.version()
            if version.pid != not_pid:
                return version
        except IraidError as error:
            if time.monotonic() > deadline:
                raise IraidError(f"no handler answers: {error.message}", kind="unavailable") from error
        time.sleep(LOOK_SECONDS)


def wait_for_volumes(client: Client, names: list[str]) -> list[model.Volume]:
    """All that there are, when those of these names are assembled or have failed, one is not even begun after
    OPEN_SECONDS, or READY_SECONDS are over.
    """
    begin = time.monotonic()
    while True:
        volumes = client.volumes()
        found = {volume.name: volume.state for volume in volumes}
        states = {found.get(name, "stopped") for name in names}
        patience = OPEN_SECONDS if "stopped" in states else READY_SECONDS
        if states.issubset((*WORKS, STANDBY, "failed")) or time.monotonic() > begin + patience:
            return volumes
        time.sleep(LOOK_SECONDS)


def go_back(client: Client, not_pid: int) -> None:
    """tcmu-runner with the kept handler, until the next upgrade or boot."""
    words = re.search(r"argv\[\]=(.*?) ;", _unit("ExecStart").get("ExecStart", ""))
    command = words[1] if words else "/usr/bin/tcmu-runner"
    _write_go_back(
        "# iraid: the installed handler did not load. upgrade-runner wrote this file and removes it.\n"
        f"[Service]\nExecStart=\nExecStart={command} --handler-path={shlex.quote(str(KEPT))}\n"
    )
    _run("systemctl", "daemon-reload")
    _run("systemctl", "reset-failed", UNIT)
    try:
        restart(int(_unit("MainPID").get("MainPID") or 0), BACK_STOP_SECONDS, BACK_START_SECONDS)
        wait_for_handler(client, not_pid)
        return
    except IraidError as error:
        why = error.message
    _forget_kept()  # whoever starts the runner next gets what is installed by then
    raise IraidError(
        f"neither the new handler nor the old one works: {why}",
        f"journalctl -u {UNIT}; LUNs answer with errors until there is a handler",
        kind="unavailable",
    )


def _write_go_back(text: str) -> None:
    try:
        GO_BACK.parent.mkdir(parents=True, exist_ok=True)
        GO_BACK.write_text(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            GO_BACK.unlink()  # half of it could keep the runner from starting
        raise IraidError(
            f"the new handler does not work, and the runner can't be told to take the old one: {GO_BACK}: "
            f"{error.strerror}",
            f"make room in {GO_BACK.parent} and write there what follows, then systemctl "
            f"daemon-reload; systemctl restart {UNIT}:\n{text}",
            kind="io",
        ) from error


def _forget_kept() -> None:
    """The runner's next start takes the installed handler."""
    if GO_BACK.exists():
        GO_BACK.unlink()
        _run("systemctl", "daemon-reload")


def said_since(log: Path, offset: int) -> str:
    """What the runner's log says about the handler's file since it had `offset` bytes."""
    try:
        with log.open("rb") as file:
            file.seek(offset)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "; ".join(line.split(": ", 1)[-1] for line in lines if HANDLER in line or "dlopen" in line)[-600:]


def _log_bytes() -> int:
    try:
        return LOG.stat().st_size
    except OSError:
        return 0


# --- all of it ---


def upgrade(client: Client, given: argparse.Namespace) -> Upgrade:
    pid = int(_unit("MainPID").get("MainPID") or 0)
    if pid == 0:
        if not given.check:
            _forget_kept()
        return Upgrade("not running")
    loaded = loaded_by(pid)
    if loaded is None:
        if not given.check:
            _forget_kept()  # or the restart that is proposed would load the old one
        raise IraidError(
            f"tcmu-runner (pid {pid}) runs without the iraid handler",
            "systemctl restart tcmu-runner",
            kind="unavailable",
        )
    before = client.version()
    mapped = Path(f"/proc/{pid}/map_files/{loaded.mapping}")
    installed = installed_handler() if GO_BACK.exists() else loaded.path
    report = Upgrade("runs already", str(installed), before.version, before.version)
    if not is_new(installed, mapped) and not given.again:
        return report
    check_loads(installed)
    volumes = client.volumes()
    if not given.force:
        _check_files(volumes)
    _check_volumes(volumes, given.force)
    if not given.force:
        check_room()
    report.notes = [note for volume in volumes for note in notes_on(volume)]
    report.outcome = "possible"
    if given.check:
        return report
    with uninterrupted():
        keep_old(mapped, installed)
        _forget_kept()
        _restart(client, pid, volumes, given.stop_seconds, report)
    return report


def installed_handler() -> Path:
    """Where tcmu-runner looks for handlers if nobody tells it otherwise."""
    places = [
        *sorted(Path("/usr/lib").glob("*/tcmu-runner")),
        Path("/usr/lib64/tcmu-runner"),
        Path("/usr/lib/tcmu-runner"),
    ]
    for folder in places:
        if (folder / HANDLER).exists():
            return folder / HANDLER
    raise IraidError(
        f"{HANDLER} was not found in {places[0]}", "install iraid again, then run upgrade-runner", kind="unfit"
    )


def _check_files(volumes: list[model.Volume]) -> None:
    """The next runner reads them: a volume whose file has a fault would not start."""
    faults = [
        settings.fault_line(fault)
        for volume in volumes
        if volume.users
        for fault in settings.check(volume.name)["faults"]
        if Path(fault["file"]).stem == volume.name
    ]
    if faults:
        raise IraidError(
            f"nothing was changed, because initiators would lose their disks: {'; '.join(faults)}",
            "correct that file (iraid config check), then run upgrade-runner; or --force",
            kind="invalid",
        )


def _check_volumes(volumes: list[model.Volume], force: bool) -> None:
    stuck = [f"volume {volume.name}: {why}" for volume in volumes if (why := why_not_now(volume))]
    if stuck and not force:
        raise IraidError(
            f"nothing was changed, because commands of initiators could fail: {'; '.join(stuck)}",
            "wait until iraid status shows it active or degraded; or --force",
            kind="busy",
        )


def _restart(client: Client, pid: int, volumes: list[model.Volume], stop_seconds: float, report: Upgrade) -> None:
    suspect = {volume.name: volume.regions.suspect for volume in volumes}
    passive = {volume.name for volume in volumes if volume.state == STANDBY}
    running = [volume.name for volume in volumes if volume.users]
    log_bytes = _log_bytes()
    begin = time.monotonic()
    try:
        report.killed = restart(pid, stop_seconds)
        report.after = wait_for_handler(client, pid).version
        back = wait_for_volumes(client, running)
        _check_back(volumes, back)
    except BaseException as error:  # whatever it is, the runner may be down
        why = said_since(LOG, log_bytes) or (error.message if isinstance(error, IraidError) else repr(error))
        go_back(client, pid)
        with contextlib.suppress(IraidError):  # what the new one did is to be told
            wait_for_volumes(client, running)
        raise IraidError(
            f"{report.handler} does not work: {why}. The old handler, version {report.before}, runs again after "
            f"{time.monotonic() - begin:.1f} s",
            "install another version and run upgrade-runner; a reboot would take the new one",
            kind="unfit",
        ) from error
    shutil.rmtree(KEPT, ignore_errors=True)
    report.outcome = "taken"
    report.seconds = round(time.monotonic() - begin, 2)
    used = [volume for volume in back if volume.name in running]
    report.not_clean = [volume.name for volume in used if volume.regions.suspect > suspect.get(volume.name, 0)]
    late = [
        f"volume {volume.name} is {volume.state}: {volume.reason or 'see iraid status'}"
        for volume in used
        if volume.state not in WORKS and not (volume.state == STANDBY and volume.name in passive)
    ]
    report.notes += late


def _check_back(before: list[model.Volume], back: list[model.Volume]) -> None:
    """What worked is there, and works if somebody uses it: nobody starts the others.  Or the other gateway has it since."""
    found = {volume.name: volume for volume in back}
    lost = []
    for volume in before:
        now = found.get(volume.name)
        if volume.state not in WORKS or (
            now and (now.state in (*WORKS, STANDBY) or (not volume.users and now.state != "failed"))
        ):
            continue
        lost.append(
            f"volume {volume.name} is {now.state}: {now.reason or 'the reason is not known'}"
            if now
            else f"volume {volume.name} is missing"
        )
    if lost:
        raise IraidError("; ".join(lost), kind="unfit")


def _print(report: Upgrade, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report), indent=2))
        return
    for note in report.notes:
        print(f"note: {note}")
    print(
        {
            "not running": "tcmu-runner does not run: it loads the installed handler when it is started.",
            "runs already": f"The installed handler, version {report.before}, runs already.",
            "possible": f"{report.handler} can be loaded now.",
            "taken": f"Handler {report.before} -> {report.after}; initiators waited about {report.seconds:.1f} s.",
        }[report.outcome]
    )
    if report.killed:
        print("note: commands in flight did not end in time, so the runner was killed")
    for name in report.not_clean:
        print(f"note: volume {name} was not marked clean; regions with recent writes are resynchronised")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="upgrade-runner",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
        description="Make tcmu-runner load the iraid handler that is installed now.  Initiators see a pause, but no error.",
    )
    parser.add_argument("--check", action="store_true", help="say whether the upgrade would work, and change nothing")
    parser.add_argument("--again", action="store_true", help="restart even if the installed handler runs already")
    parser.add_argument("--force", action="store_true", help="restart even while a volume waits for its members")
    parser.add_argument(
        "--stop-seconds",
        type=float,
        default=STOP_SECONDS,
        metavar="N",
        help=f"kill the runner if it has not ended after N seconds (default {STOP_SECONDS}, at most 25)",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    given = parser.parse_args(words)
    try:
        if not 1 <= given.stop_seconds <= 25:
            raise UsageFault(
                f"--stop-seconds {given.stop_seconds:g} is not between 1 and 25",
                "give 1 to 25: after 30 s the kernel fails the commands that wait",
            )
        if os.geteuid() != 0:
            raise IraidError("only root can restart tcmu-runner", "run it as root", kind="permission")
        _print(upgrade(Client(), given), given.json)
    except IraidError as error:
        if given.json:
            print(json.dumps({"error": error.to_json()}, indent=2))
        print(f"upgrade-runner: {error.message}", file=sys.stderr)
        if error.remedy:
            print(f"  remedy: {error.remedy}", file=sys.stderr)
        return error.exit_status
    return 0
