"""Processes of a private gateway: iraid-engine, nbdkit with our plugin, the iraid command.

    gateway = Gateway(folder, sockets)
    gateway.start()                                   # iraid-engine
    gateway.create("v0", farm.members(), level=5)     # scripts/iraid create
    gateway.iraid("stop", "v0")
    with gateway.serve("v0") as volume:               # nbdkit
        handle = volume.connect()                     # libnbd
        volume.status()                               # through nbdkit's control socket

Everything it reads and writes is in its folder (IRAID_CONFIG_DIR and its like), so two gateways on
one machine are two machines to the targets.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import nbd

from iraid_dev.places import PYTHON, ROOT

Value = TypeVar("Value")

IRAID = ROOT / "scripts/iraid"
NBDKIT_THREADS = 32  # as many requests as libnbd has in flight reach the plugin
COMMAND_SECONDS_MAX = 60.0
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
END_SECONDS_MAX = 30.0
SOCKET_PATH_BYTES_MAX = 107

# scripts/test preloads the sanitizer's library for this interpreter.  Of the children only
# nbdkit needs it (a plain program that loads a sanitized plugin); tgtd must not have it.
# ThreadSanitizer's library can't be loaded into the interpreter, so it comes by a name of its own.
PRELOAD = os.environ.pop("LD_PRELOAD", "") or os.environ.get("IRAID_NBDKIT_PRELOAD", "")
SANITIZED = os.environ.get("IRAID_SANITIZED") == "1"
# What a sanitizer says before it ends the process.
SANITIZER_WORDS = ("ERROR: AddressSanitizer", "runtime error:", "LeakSanitizer", "ThreadSanitizer")


def build_folder() -> Path:
    return Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))


# Beside the programs that start it, also where no gateway is made; "installed" stands for no folder.
if build_folder().is_dir():
    os.environ.setdefault("IRAID_LIBEXEC_DIR", str(build_folder().resolve() / "handler/adapters"))


def wait_until(found: Callable[[], Value | None], what: str, seconds: float = 20.0) -> Value:
    """Ask until the answer is true; the only way in which these tests wait for something."""
    deadline = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"{' '.join(self.words)}: status {self.status}\n{self.out}{self.err}"


class RpcError(Exception):
    def __init__(self, error: dict[str, Any]):
        super().__init__(error["message"])
        self.kind, self.remedy = error["data"]["type"], error["data"]["remedy"]


def call(path: Path, method: str, **parameters: Any) -> Any:
    """One JSON-RPC call, without the product's client: for questions that are asked often."""
    request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(COMMAND_SECONDS_MAX)
        connection.connect(str(path))
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(connection.makefile("rb").readline())
    assert answer["jsonrpc"] == "2.0" and answer["id"] == 7, answer
    if "error" in answer:
        raise RpcError(answer["error"])
    return answer["result"]


def die_with_parent() -> None:
    """In the child: SIGKILL when the tests' own process ends, however it does."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A program with its log; SIGTERM must end it in order."""

    def __init__(self, words: list[str | Path], environment: dict[str, str], log: Path):
        self.log = log
        self.words = [str(word) for word in words]
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self) -> bool:
        return self.popen.poll() is not None

    def check_running(self) -> None:
        assert not self.ended(), f"{self.words[0]} ended with {self.popen.returncode}:\n{self.said()}"

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self.popen.kill()
        self.popen.wait()
        self.check_log()

    def stop(self) -> None:
        self.popen.send_signal(signal.SIGTERM)
        self.wait()

    def wait(self, status: int = 0) -> None:
        """Until it ends by itself."""
        try:
            self.popen.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.popen.send_signal(signal.SIGABRT)
            self.popen.wait()
            raise AssertionError(f"{self.words[0]} did not end within {END_SECONDS_MAX:g} s:\n{self.said()}") from None
        assert self.popen.returncode == status, f"{self.words[0]} ended with {self.popen.returncode}:\n{self.said()}"
        self.check_log()

    def check_log(self) -> None:
        said = self.said()
        assert not any(word in said for word in SANITIZER_WORDS), said


class Served:
    """A volume in nbdkit."""

    def __init__(self, gateway: Gateway, name: str, number: int, prefix: tuple[str, ...] = ()):
        self.name = name
        self.socket = gateway.sockets / f"nbd{number}"
        self.control = gateway.sockets / f"control{number}"
        self.gateway = gateway
        environment = gateway.environment()
        if PRELOAD:
            first = build_folder() / "tests/integration/libsanitizer_first.so"
            assert first.exists(), f"{first} is not there: is it a build with sanitizers?"
            environment["LD_PRELOAD"] = f"{PRELOAD}:{first}"
        self.process = Process(
            [*prefix, "nbdkit", "--foreground", "--exit-with-parent", "--unix", self.socket,
             "--threads", str(NBDKIT_THREADS), build_folder() / "handler/adapters/nbdkit-iraid-plugin.so",
             f"volume={name}", f"control={self.control}"],
            environment, gateway.folder / f"nbdkit{number}.log")  # fmt: skip
        self.handles: list[nbd.NBD] = []

    def __enter__(self) -> Served:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if self.process.ended():
            return
        if kind is None:
            self.stop()
        else:
            self.process.kill()

    def connect(self) -> nbd.NBD:
        """Waits for assembly, as nbdkit does before it answers the handshake."""

        def connected() -> nbd.NBD | None:
            self.process.check_running()
            handle = nbd.NBD()
            try:
                handle.connect_unix(str(self.socket))
            except nbd.Error as error:
                if error.errnum in (errno.ENOENT, errno.ECONNREFUSED):  # not bound yet, not listening yet
                    return None
                raise
            return handle

        handle: nbd.NBD = wait_until(connected, "nbdkit to listen")
        assert handle is not None
        self.handles.append(handle)
        return handle

    def status(self) -> dict[str, Any]:
        def answer() -> dict[str, Any] | None:
            self.process.check_running()
            try:
                return call(self.control, "volume.status", name=self.name)
            except (FileNotFoundError, ConnectionRefusedError):  # nbdkit has not come so far yet
                return None

        return wait_until(answer, "nbdkit's control socket")

    def wait_status(self, good: Callable[[dict[str, Any]], object], what: str, seconds: float = 30.0) -> dict[str, Any]:
        last: dict[str, Any] = {}

        def found() -> bool:
            nonlocal last
            last = self.status()
            return bool(good(last))

        try:
            wait_until(found, what, seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}; the last status:\n{json.dumps(last, indent=1)}") from None
        return last

    def wait_resynced(self, seconds: float = 60.0) -> dict[str, Any]:
        return self.wait_status(lambda status: status["regions"]["suspect"] == 0, "the resync's end", seconds)

    def stop(self) -> None:
        self._leave()
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()
        self._leave()

    def _leave(self) -> None:
        for handle in self.handles:
            try:
                handle.shutdown()
            except nbd.Error:
                pass  # it is dead already
        self.handles.clear()


class Gateway:
    """Folders of one gateway and the processes that use them."""

    def __init__(self, folder: Path, sockets: Path):
        self.folder, self.sockets = folder, sockets
        for name in ("config", "state", "run"):
            (folder / name).mkdir(parents=True, mode=0o700)
        sockets.mkdir(parents=True, exist_ok=True)
        self.config, self.state = folder / "config", folder / "state"
        self.socket = sockets / "control.sock"
        assert len(str(self.socket)) < SOCKET_PATH_BYTES_MAX, self.socket
        self.engine: Process | None = None
        self.served: list[Served] = []
        self.machine: Path | None = None  # a file with a machine's id of its own

    def environment(self) -> dict[str, str]:
        """The iraid command's modules are compiled once, beside the build: it is run a thousand times."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return inherited | {
            "PYTHONPYCACHEPREFIX": str(build_folder() / "tests/pycache"),
            "IRAID_CONFIG_DIR": str(self.config), "IRAID_STATE_DIR": str(self.state),
            "IRAID_RUN_DIR": str(self.folder / "run"), "IRAID_SOCKET": str(self.socket),
            "IRAID_JOURNAL_SOCKET": "",  # the machine's journal is not to fill with what tests do
        } | ({} if self.machine is None else {"IRAID_MACHINE_ID": str(self.machine)})  # fmt: skip

    # iraid-engine

    def start(self, *arguments: str, prefix: tuple[str, ...] = ()) -> None:
        """prefix: as in serve()."""
        assert self.engine is None, "iraid-engine runs already"
        program = build_folder() / "handler/adapters/iraid-engine"
        log = self.folder / "engine.log"
        before = log.read_text().count("ready") if log.exists() else 0
        self.engine = Process([*prefix, program, *arguments], self.environment(), log)

        def ready() -> bool:
            assert self.engine is not None
            self.engine.check_running()
            return self.engine.said().count("ready") > before

        wait_until(ready, "iraid-engine to be ready")

    def stop(self) -> None:
        if self.engine is not None:
            engine, self.engine = self.engine, None
            engine.stop()

    def kill(self) -> None:
        assert self.engine is not None
        self.engine.kill()
        self.engine = None

    # the command

    def iraid(self, *words: str | Path, prefix: tuple[str, ...] = (), seconds: float = COMMAND_SECONDS_MAX) -> Ran:
        command = [*prefix, PYTHON, str(IRAID), *map(str, words)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=seconds,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(tuple(map(str, words)), done.returncode, done.stdout, done.stderr)

    def must(self, *words: str | Path, seconds: float = COMMAND_SECONDS_MAX) -> Ran:
        ran = self.iraid(*words, seconds=seconds)
        assert ran.status == 0, ran
        return ran

    def create(self, name: str, members: list[str], level: int = 5, chunk: str = "64K", *more: str) -> dict[str, Any]:
        return self.must("create", name, "--level", str(level), "--chunk", chunk, "--json", *more, *members).json

    def status(self, name: str) -> dict[str, Any]:
        return call(self.socket, "volume.status", name=name)

    def configuration(self, name: str) -> dict[str, Any]:
        """What holds for a volume, as the handler reads its file; the names are those of the control socket."""
        ran = subprocess.run(
            [build_folder() / "handler/adapters/iraid-engine", "--print-config", "volume", name],
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert ran.returncode == 0, ran
        return json.loads(ran.stdout)["values"]

    def configure(self, name: str, **values: Any) -> None:
        """Edit a volume's file, as an administrator may: names as configuration() has them."""
        path = self.config / f"volumes/{name}.conf"
        lines = path.read_text().splitlines()
        for key, value in values.items():
            if key == "members":
                key, written = "member", list(value)
            elif key.endswith("_milliseconds"):
                key, written = key.removesuffix("_milliseconds"), [f"{value}ms"]
            elif key.endswith("_seconds"):
                key, written = key.removesuffix("_seconds"), [f"{value}s"]
            else:
                key, written = key.removesuffix("_bytes"), [("no", "yes")[value] if isinstance(value, bool) else value]
            lines = [line for line in lines if not re.match(rf"{key}\s*=", line)]
            lines += [f"{key} = {one}" for one in written]
        path.write_text("\n".join(lines) + "\n")

    # nbdkit

    def serve(self, name: str, prefix: tuple[str, ...] = ()) -> Served:
        """prefix: words of a command that becomes nbdkit at its end."""
        served = Served(self, name, len(self.served), prefix)
        self.served.append(served)
        return served

    def close(self) -> None:
        """At a test's end, whatever became of it."""
        for served in self.served:
            if not served.process.ended():
                served.process.popen.kill()
                served.process.popen.wait()
        if self.engine is not None:
            self.engine.popen.kill()
            self.engine.popen.wait()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def logs(self) -> str:
        texts = [f"--- {log.name}\n{log.read_text(errors='replace')}" for log in sorted(self.folder.glob("*.log"))]
        return "\n".join(texts)
