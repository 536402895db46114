"""Client of the control socket: JSON-RPC 2.0, one object per line (docs/design/control.md).

Everything that can go wrong on the way becomes an IraidError that says what to do.  One
connection per call: the command makes few of them, and a handler that was restarted between two
is none of its concern.
"""

import contextlib
import errno
import json
import os
import socket
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from . import model
from .errors import IraidError

T = TypeVar("T")

SOCKET_DEFAULT = "/run/iraid/control.sock"
ANSWER_BYTES_MAX = 16 * 1024 * 1024
CONNECT_SECONDS = 5.0
QUICK_SECONDS = 15.0
# Formatting and looking at members is bounded by the handler, per member; this only ends a
# wait for a handler that hangs.
LONG_SECONDS = 300.0
# Kinds of errors of the way to the handler: they say nothing about what was asked for, and hold for all of it.
NO_ANSWER = ("unavailable", "permission", "answer")
# Calls that change nothing.  What the handler is asked for otherwise it goes on with, whoever waits for its answer.
_QUESTIONS = {
    "version",
    "volume.list",
    "volume.status",
    "volume.stats",
    "volume.path",
    "volume.probe",
    "pool.list",
    "lost.list",
    "events",
    "discover",
    "examine",
}

_RUNNER_REMEDY = (
    "see whether tcmu-runner runs with the iraid handler: systemctl status tcmu-runner "
    "(for another socket, use --socket or IRAID_SOCKET)"
)
_LOG_REMEDY = "its log has the reason: journalctl -u tcmu-runner"

# What the codes mean if the server sends no type of its own.
_TYPES = {
    -32700: "parse",
    -32600: "request",
    -32601: "method",
    -32602: "params",
    1: "invalid",
    2: "not_found",
    3: "exists",
    4: "unreachable",
    5: "login",
    6: "unfit",
    7: "in_use",
    8: "busy",
    9: "io",
    10: "internal",
}


def default_socket() -> Path:
    return Path(os.environ.get("IRAID_SOCKET") or SOCKET_DEFAULT)


class Client:
    def __init__(self, path: Path | str | None = None, seconds_max: float | None = None) -> None:
        """seconds_max: no call takes longer than that, whatever it asks for."""
        # What the last call was about that changes something, answered or not: a volume, or "" for none or all of them.
        self.sent_about: str | None = None
        self.path = Path(path) if path else default_socket()
        self.seconds_max = seconds_max

    def version(self) -> model.Version:
        return self._ask(model.Version, "version", {})

    def volumes(self) -> list[model.Volume]:
        return self._ask(model.VolumeList, "volume.list", {}).volumes

    def status(self, name: str) -> model.Volume:
        return self._ask(model.Volume, "volume.status", {"name": name})

    def create(self, **parameters: Any) -> model.Created:
        return self._ask(model.Created, "volume.create", _given(parameters), LONG_SECONDS)

    def import_(self, **parameters: Any) -> model.Imported:
        return self._ask(model.Imported, "volume.import", _given(parameters), LONG_SECONDS)

    def start(self, name: str, force: bool, take_over: bool, wait_seconds: int) -> model.Volume:
        parameters = {"name": name, "force": force, "take_over": take_over, "wait_seconds": wait_seconds}
        return self._ask(model.Volume, "volume.start", parameters, wait_seconds + LONG_SECONDS)

    def activate(self, name: str, force: bool, take_over: bool, wait_seconds: int) -> model.Volume:
        parameters = {"name": name, "force": force, "take_over": take_over, "wait_seconds": wait_seconds}
        return self._ask(model.Volume, "volume.activate", parameters, wait_seconds + LONG_SECONDS)

    def holder(self, name: str) -> model.Holder:
        return self._ask(model.Holder, "volume.holder", {"name": name})

    def standby(self, name: str) -> model.Volume:
        return self._ask(model.Volume, "volume.standby", {"name": name}, LONG_SECONDS)

    def grow(self, name: str) -> model.Grown:
        return self._ask(model.Grown, "volume.grow", {"name": name}, LONG_SECONDS)

    def paths(self, name: str) -> model.Paths:
        return self._ask(model.Paths, "volume.path", {"name": name})

    def probe(
        self, name: str, member: str | None, duration_ms: int, block_bytes: int, depth: int, rate_max_bytes: int
    ) -> model.Probe:
        parameters = _given(
            {
                "name": name,
                "member": member,
                "duration_ms": duration_ms,
                "block_bytes": block_bytes,
                "depth": depth,
                "rate_max_bytes": rate_max_bytes,
            }
        )
        return self._ask(model.Probe, "volume.probe", parameters, duration_ms / 1000 + QUICK_SECONDS)

    def change_settings(
        self,
        name: str,
        rate_min: int | None = None,
        rate_max: int | None = None,
        log: str | None = None,
        header_digest: str | None = None,
        data_digest: str | None = None,
    ) -> model.Settings:
        """Without any, they are only asked for."""
        parameters = {
            "name": name,
            "sync_rate_min_bytes": rate_min,
            "sync_rate_max_bytes": rate_max,
            "log": log,
            "header_digest": header_digest,
            "data_digest": data_digest,
        }
        return self._ask(model.Settings, "volume.set", _given(parameters))

    def set_rates(self, name: str, rate_min: int | None, rate_max: int | None) -> model.Settings:
        return self.change_settings(name, rate_min, rate_max)

    def fail(self, name: str, member: str) -> model.Changed:
        return self._ask(model.Changed, "member.fail", {"name": name, "member": member})

    def remove(self, name: str, member: str, wipe: bool) -> model.Changed:
        parameters = {"name": name, "member": member, "wipe": wipe}
        return self._ask(model.Changed, "member.remove", parameters, LONG_SECONDS)

    def rebuild(self, name: str, member: str) -> model.Changed:
        return self._ask(model.Changed, "member.rebuild", {"name": name, "member": member})

    def replace(self, name: str, member: str, device: str, force: bool) -> model.Changed:
        parameters = {"name": name, "member": member, "device": device, "force": force}
        return self._ask(model.Changed, "member.replace", parameters, LONG_SECONDS)

    def add_spare(self, name: str, device: str, force: bool) -> model.Changed:
        parameters = {"name": name, "device": device, "force": force}
        return self._ask(model.Changed, "spare.add", parameters, LONG_SECONDS)

    def pool(self) -> model.Pool:
        return self._ask(model.Pool, "pool.list", {})

    def pool_add(self, **parameters: Any) -> model.Changed:
        return self._ask(model.Changed, "pool.add", _given(parameters), LONG_SECONDS)

    def pool_remove(self, **parameters: Any) -> model.Changed:
        return self._ask(model.Changed, "pool.remove", _given(parameters), LONG_SECONDS)

    def scrub_start(self, name: str, repair: bool, resume: bool) -> model.Volume:
        parameters = {"name": name, "repair": repair, "resume": resume}
        return self._ask(model.Volume, "scrub.start", parameters)

    def scrub_stop(self, name: str) -> model.Volume:
        return self._ask(model.Volume, "scrub.stop", {"name": name})

    def lost(self, name: str, offset: int) -> model.LostPage:
        return self._ask(model.LostPage, "lost.list", {"name": name, "offset_bytes": offset})

    def accept_lost(self, name: str, offset: int, length: int | None) -> model.Accepted:
        parameters = _given({"name": name, "offset_bytes": offset, "length_bytes": length})
        return self._ask(model.Accepted, "lost.accept", parameters, LONG_SECONDS)

    def events(self, name: str | None, after: int, wait_seconds: int) -> model.EventPage:
        parameters = _given({"name": name, "after": after, "wait_seconds": wait_seconds})
        return self._ask(model.EventPage, "events", parameters, wait_seconds + QUICK_SECONDS)

    def reload(self, name: str | None) -> model.ReloadedList:
        return self._ask(model.ReloadedList, "config.reload", _given({"name": name}), LONG_SECONDS)

    def stop(self, name: str) -> None:
        self._call("volume.stop", {"name": name}, LONG_SECONDS)

    def delete(self, name: str, wipe: bool) -> model.Deleted:
        return self._ask(model.Deleted, "volume.delete", {"name": name, "wipe": wipe}, LONG_SECONDS)

    def discover(self, **parameters: Any) -> model.Discovery:
        return self._ask(model.Discovery, "discover", _given(parameters), LONG_SECONDS)

    def examine(self, **parameters: Any) -> model.Examination:
        return self._ask(model.Examination, "examine", _given(parameters), LONG_SECONDS)

    def _ask(self, kind: type[T], method: str, parameters: dict[str, Any], seconds: float = QUICK_SECONDS) -> T:
        result = self._call(method, parameters, seconds)
        try:
            return model.read(kind, result)
        except model.ShapeError as error:
            raise self._nonsense(method, str(error)) from error

    def _call(self, method: str, parameters: dict[str, Any], seconds: float) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        if self.seconds_max is not None:
            seconds = min(seconds, self.seconds_max)
        with self._connect(min(seconds, CONNECT_SECONDS)) as connection:
            if method not in _QUESTIONS:
                self.sent_about = str(parameters.get("name") or "")
            line = self._exchange(connection, method, json.dumps(request).encode() + b"\n", seconds)
        return self._result(method, line)

    def _connect(self, seconds: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # While others queue a connect() with Python's time limit, which does not block, fails at once.
        limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6) or 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        try:
            connection.connect(str(self.path))
        except OSError as error:
            connection.close()
            raise self._unreachable(error, seconds) from error
        return connection

    def _unreachable(self, error: OSError, seconds: float) -> IraidError:
        where = f"control socket {self.path}"
        if isinstance(error, PermissionError):
            return IraidError(f"{where}: permission denied", "run the command as root", kind="permission")
        if isinstance(error, FileNotFoundError):
            return IraidError(f"{where} does not exist", _RUNNER_REMEDY, kind="unavailable")
        if error.errno == errno.ECONNREFUSED:
            message = f"{where}: no program listens; the one that served it has ended"
            return IraidError(message, _RUNNER_REMEDY, kind="unavailable")
        if isinstance(error, TimeoutError) or error.errno == errno.EAGAIN:
            message = f"{where}: no connection within {seconds:g} s, the handler hangs"
            return IraidError(message, _LOG_REMEDY, kind="unavailable")
        # Among others a path that is too long has no errno.
        return IraidError(f"{where}: {error.strerror or error}", _RUNNER_REMEDY, kind="unavailable")

    def _exchange(self, connection: socket.socket, method: str, request: bytes, seconds: float) -> bytes:
        """`seconds` is for all of it: a handler that sends a little now and then gains no time."""
        answer = bytearray()
        deadline = time.monotonic() + seconds
        try:
            connection.settimeout(seconds)
            # A refusal does not wait for the request: why it was closed is there to be read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
            while b"\n" not in answer:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                connection.settimeout(left)
                piece = connection.recv(65536)
                if not piece:
                    raise self._closed(method, len(answer))
                answer += piece
                if len(answer) > ANSWER_BYTES_MAX:
                    raise self._nonsense(method, f"longer than {ANSWER_BYTES_MAX} bytes")
        except TimeoutError as error:
            message = f"control socket {self.path}: no answer to {method} within {seconds:g} s"
            raise IraidError(message, _LOG_REMEDY, kind="unavailable") from error
        except (ConnectionError, BrokenPipeError) as error:
            raise self._closed(method, len(answer)) from error
        return bytes(answer).partition(b"\n")[0]

    def _closed(self, method: str, length: int) -> IraidError:
        after = f"after {length} bytes of its answer to {method}" if length else (f"without an answer to {method}")
        message = f"control socket {self.path}: the handler closed the connection {after}"
        if length == 0 and os.geteuid() != 0:
            return IraidError(message, "it serves root only: run the command as root", kind="permission")
        return IraidError(message, _LOG_REMEDY, kind="unavailable")

    def _nonsense(self, method: str, what: str) -> IraidError:
        message = f"control socket {self.path}: invalid answer to {method}: {what}"
        remedy = "see that it is a socket of iraid, of the same version: iraid version"
        return IraidError(message, remedy, kind="answer")

    def _result(self, method: str, line: bytes) -> Any:
        try:
            answer = model.decode(line)
        except ValueError as error:  # bad UTF-8 is one, too
            raise self._nonsense(method, f"not JSON: {_excerpt(line)}") from error
        if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0":
            raise self._nonsense(method, f"not JSON-RPC 2.0: {_excerpt(line)}")
        if "error" in answer:
            raise self._server_error(method, answer["error"])
        if answer.get("id") != 1:
            raise self._nonsense(method, f"id {answer.get('id')!r} instead of 1")
        if "result" not in answer:
            raise self._nonsense(method, "neither a result nor an error")
        return answer["result"]

    def _server_error(self, method: str, error: Any) -> IraidError:
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            return self._nonsense(method, f"an error without a message: {error!r:.80}")
        told = error.get("data")
        data: dict[str, Any] = told if isinstance(told, dict) else {}
        code = error.get("code")
        kind = data.get("type") or _TYPES.get(code if isinstance(code, int) else 0, "internal")
        remedy = data.get("remedy") or ""
        if kind == "method" and not remedy:
            remedy = "the running handler is older than this command: restart it (iraid version)"
        return IraidError(error["message"], str(remedy), kind=str(kind))


def status_of_all(client: Client) -> list[model.Volume]:
    """By name.  One of which the handler can say no more than why, as when its file has a fault, is as the list has it,
    "failed" and with the reason: it hides no other.  One that was deleted meanwhile is left out.

    Raises IraidError when the handler does not answer (NO_ANSWER), or the list can't be read.
    """
    volumes = []
    for listed in sorted(client.volumes(), key=lambda volume: volume.name):
        try:
            volumes.append(client.status(listed.name))
        except IraidError as error:
            if error.kind in NO_ANSWER:
                raise
            if error.kind != "not_found":
                volumes.append(replace(listed, state="failed", reason=error.message))
    return volumes


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _excerpt(line: bytes) -> str:
    return repr(line[:60].decode(errors="replace"))
