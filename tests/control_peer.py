"""The other end of the control socket, for tests of the iraid command: a real UNIX socket that speaks
as docs/design/control.md says, with answers given by each test.
"""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iraid_dev.places import ROOT

IRAID = ROOT / "scripts" / "iraid"


class Failure(Exception):
    """Answer with a typed error."""

    def __init__(self, code: int, kind: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message, "data": {"type": kind, "remedy": remedy}}


class ControlPeer:
    """answers: method -> result, or Failure, or a function of the parameters that gives either.
    raw: sent instead of any answer, then the connection is closed.
    """

    def __init__(self, path: Path, answers: dict[str, Any] | None = None, raw: bytes | None = None) -> None:
        self.path = path
        self.answers = answers or {}
        self.raw = raw
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "ControlPeer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                try:
                    self._converse(connection, lines)
                except BrokenPipeError:  # a client that gave up waiting
                    pass

    def _converse(self, connection: socket.socket, lines: Any) -> None:
        for line in lines:
            if self.raw is not None:
                connection.sendall(self.raw)
                return
            connection.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        assert request["jsonrpc"] == "2.0"
        method, parameters = request["method"], request["params"]
        self.calls.append((method, parameters))
        answer: Any = self.answers.get(method, Failure(-32601, "method", f"no method {method}", "ask for another"))
        if isinstance(answer, Callable):
            answer = answer(parameters)
        head = {"jsonrpc": "2.0", "id": request["id"]}
        if isinstance(answer, Failure):
            return {**head, "error": answer.body}
        return {**head, "result": answer}


VERSION = {"version": "0.1.0", "program": "tcmu-runner", "pid": 4711}
UUID = "3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10"


def member(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "member": f"10.0.0.{index + 1}:3260/iqn.2026-01.org.example:disk{index}/0",
        "role": index,
        "state": "in sync",
        "link": "open",
        "reason": "",
        "size_bytes": 100 << 30,
        "stale_rows": 0,
        "slow": False,
        "portals": [f"10.0.0.{index + 1}:3260"],
        "reads": 10,
        "writes": 20,
        "read_bytes": 5 << 20,
        "written_bytes": 7 << 30,
        "errors": 0,
        "medium_errors": 0,
        "digest_errors": 0,
        "medium_repaired": 0,
        "latency_ms": 1,
        **changes,
    }


def work(**changes: Any) -> dict[str, Any]:
    """Of a resync, rebuild or scrub; none by default."""
    return {
        "running": False,
        "done_rows": 0,
        "total_rows": 0,
        "bytes_per_second": 0,
        "seconds_left": None,
        "reason": "",
        **changes,
    }


def running(done: int = 431, total: int = 1000, **changes: Any) -> dict[str, Any]:
    return work(running=True, done_rows=done, total_rows=total, bytes_per_second=120 << 20, seconds_left=130, **changes)


def write_log(**changes: Any) -> dict[str, Any]:
    """Closed, as while all members are there."""
    return {
        "mode": "degraded",
        "open": False,
        "given_up": False,
        "too_small": False,
        "records": 0,
        "bytes": 0,
        "replay": {"step": None, "done_chunks": 0, "total_chunks": 0},
        **changes,
    }


NO_SCRUB = {"active": False, "mode": "none", "mismatches": 0, "mismatch_offsets": []}


def volume(name: str = "v0", **changes: Any) -> dict[str, Any]:
    """A status as the handler gives it: P-iRAID, 3+1, all well."""
    return {
        "name": name,
        "uuid": UUID,
        "state": "active",
        "reason": "",
        "role": "active",
        "role_since_ms": 1700000000000,
        "role_changes": 0,
        "role_changes_hour": 0,
        "level": 5,
        "chunk_bytes": 65536,
        "block_bytes": 512,
        "size_bytes": 300 << 30,
        "epoch": 3,
        "event": 17,
        "regions": {"total": 1600, "dirty": 2, "suspect": 0, "stale": 0, "region_bytes": 64 << 20},
        "resync": work(corrected_rows=0),
        "rebuild": work(member=None),
        "scrub": work(**NO_SCRUB),
        "lost": {"extents": 0, "bytes": 0},
        "users": ["tcmu: v0"],
        "requests_active": 1,
        "memory": {"buffer_bytes": 4 << 20, "buffer_bytes_max": 64 << 20},
        "rows": {"full": 9, "read_modify_write": 4, "reconstruct": 2, "read_all": 0, "data_only": 0},
        "reads_saved": 2,
        "reads_reconstructed": 0,
        "reads_hedged": 0,
        "medium_repaired": 0,
        "requests_merged": 3,
        "sync_rate_min_bytes": 10 << 20,
        "sync_rate_max_bytes": 1 << 30,
        "log": write_log(),
        "members": [member(i) for i in range(4)],
        "empty_roles": [],
        **changes,
    }


def event(number: int, kind: str = "member silent", **changes: Any) -> dict[str, Any]:
    return {
        "number": number,
        "time_ms": 1767225600000 + number,
        "severity": "warning",
        "kind": kind,
        "volume": "v0",
        "member": "",
        "text": f"event {number}",
        **changes,
    }


def page(*events: dict[str, Any], instance: str = "0123456789abcdef", oldest: int = 1) -> dict[str, Any]:
    newest = max((one["number"] for one in events), default=0)
    return {"instance": instance, "oldest": oldest, "next": newest, "events": list(events)}
