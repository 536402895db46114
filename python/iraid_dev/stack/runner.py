"""tcmu-runner with the handler that was built, started and killed at will."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import dbus

from iraid_dev.places import ROOT

from .tools import INSTALLED, StackError, wait_for

BUS_NAME = "org.kernel.TCMUService1"
HANDLER = "handler_iraid.so"
DROP_IN = ROOT / "config/systemd/tcmu-runner.service.d/iraid.conf"
ACTIVATION = Path("/usr/share/dbus-1/system-services/org.kernel.TCMUService1.service")


def handler_folder(handler: str = HANDLER) -> Path:
    build = Path("/usr/lib") if INSTALLED else Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
    found = sorted(build.rglob(handler))
    if not found:
        raise StackError(f"no {handler} below {build}: run scripts/build, or set IRAID_BUILD_DIR")
    return found[0].parent


def preloaded() -> str:
    """LD_PRELOAD as the drop-in has it, with the build tree's library; behind what is there (a sanitizer comes first)."""
    (path,) = re.findall(r"^Environment=LD_PRELOAD=(\S+)$", DROP_IN.read_text(), re.MULTILINE)
    library = handler_folder(Path(path).name) / Path(path).name
    return f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()


class Runner:
    """One tcmu-runner.  Its own log is /var/log/tcmu-runner.log, which the lab keeps."""

    def __init__(self, log_folder: Path, folder: Path | None = None):
        self.folder = folder or handler_folder()
        self.output = log_folder / "tcmu-runner.output"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._forbid_activation()
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                ["tcmu-runner", f"--handler-path={self.folder}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=self._environment(),
            )
        self.wait_until_ready()

    @staticmethod
    def _environment() -> dict[str, str]:
        """What was built is not where it will be installed."""
        environment = os.environ | {"LD_PRELOAD": preloaded()}
        if not INSTALLED:
            environment["IRAID_LIBEXEC_DIR"] = str(handler_folder("iraid-look"))
        return environment

    def wait_until_ready(self) -> None:
        bus = dbus.SystemBus(private=True)
        try:
            wait_for(lambda: self._alive() and bus.name_has_owner(BUS_NAME), "tcmu-runner on D-Bus")
        finally:
            bus.close()

    def _alive(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise StackError(
                f"tcmu-runner ended with {self.process.returncode}: {self.output.read_text(errors='replace')[-2000:]}"
            )
        return True

    def kill(self) -> None:
        """SIGKILL; afterwards nobody serves the rings."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """In order, as systemd does it.  No LUN of tcmu may be left, or it hangs."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise StackError("tcmu-runner did not end within 20 s of SIGTERM") from None
        status, self.process = self.process.returncode, None
        if status not in (0, -signal.SIGTERM):
            raise StackError(f"tcmu-runner ended with status {status} when it was stopped")

    @staticmethod
    def _forbid_activation() -> None:
        """Without this D-Bus starts a runner without our handler as soon as ours was killed."""
        if ACTIVATION.exists():
            ACTIVATION.unlink()
            bus = dbus.SystemBus(private=True)
            bus.get_object("org.freedesktop.DBus", "/org/freedesktop/DBus").ReloadConfig(
                dbus_interface="org.freedesktop.DBus"
            )
            bus.close()
