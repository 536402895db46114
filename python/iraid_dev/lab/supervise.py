"""Starts a guest and makes sure that it ends.

The guest's programs (user-mode Linux is one process per guest process, QEMU one with
helpers) stay in one session of their own.  It is killed as a whole
  - when the time is over, or the caller interrupts us,
  - when the guest told its exit status but does not switch itself off,
  - by the guard, a process that does nothing else, when we die ourselves (SIGKILL).
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PR_SET_CHILD_SUBREAPER = 36
DRAIN_SECONDS = 2


@dataclass(frozen=True)
class Ended:
    how: str  # "by itself", "time", "signal", "not off"
    signal_number: int = 0
    off_seconds: float | None = None  # from the told exit status to the end, where it got there by itself


class Interrupted(Exception):
    def __init__(self, number: int):
        self.number = number


def _interrupt(number: int, _frame: object) -> None:
    raise Interrupted(number)


def kill_session(session: int) -> None:
    """SIGKILL for every process of a session, until none is left to be killed."""
    for _ in range(100):
        members = [pid for pid in _processes() if _session_of(pid) == session]
        if not members:
            return
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _reap()
        time.sleep(0.05)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def lives(pid: int) -> bool:
    return _session_of(pid) != -1


def _session_of(pid: int) -> int:
    """The session of a living process, else -1."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if after_name[0] in "ZX" else int(after_name[3])


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Guard:
    """Kills the guest's session when the pipe to us breaks before we said good-bye."""

    def __init__(self, session: int):
        read_end, self._write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._write_end)
            self._watch(read_end, session)
        os.close(read_end)

    @staticmethod
    def _watch(read_end: int, session: int) -> None:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.dup2(read_end, 3)
            os.closerange(4, 1024)
            if os.read(3, 1) == b"":
                kill_session(session)
        finally:
            os._exit(0)

    def dismiss(self) -> None:
        os.write(self._write_end, b"x")
        os.close(self._write_end)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass


class Guest:
    """A guest's process with two pipes from which its command's output comes."""

    def __init__(self, start: Callable[[int, int], subprocess.Popen[bytes]]):
        """`start(stdout_fd, stderr_fd)` starts it in a new session."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self._process = start(out_write, err_write)
        self._guard = Guard(self._process.pid)
        os.close(out_write)
        os.close(err_write)
        self._pipes = {out_read: 1, err_read: 2}

    def run(self, timeout_seconds: int, off_seconds: int, told: Callable[[], bool], copy: BinaryIO) -> Ended:
        """Passes output on until the guest ended, one way or the other.

        off_seconds: how long it may take from the told exit status to its end."""
        try:
            return self._pump(timeout_seconds, off_seconds, told, copy)
        except Interrupted as interrupted:
            return Ended("signal", interrupted.number)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            kill_session(self._process.pid)
            self._guard.dismiss()
            _reap()

    def _pump(self, timeout_seconds: int, off_seconds: int, told: Callable[[], bool], copy: BinaryIO) -> Ended:
        told_at: float | None = None
        ended_at = 0.0
        deadline = time.monotonic() + timeout_seconds
        off_deadline = drain_deadline = float("inf")
        why = "time"
        with selectors.DefaultSelector() as selector:
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(timeout=0.2):
                    if not self._pass_on(key.fd, copy):
                        selector.unregister(key.fd)
                now = time.monotonic()
                if told_at is None and told():
                    told_at = now
                    off_deadline = now + off_seconds
                    why = "not off"
                if drain_deadline == float("inf") and self._process.poll() is not None:
                    ended_at = now
                    drain_deadline = now + DRAIN_SECONDS
                if now >= drain_deadline or (drain_deadline != float("inf") and not selector.get_map()):
                    return Ended("by itself", off_seconds=None if told_at is None else ended_at - told_at)
                if now >= min(deadline, off_deadline):
                    return Ended(why)

    def _pass_on(self, pipe: int, copy: BinaryIO) -> bool:
        data = os.read(pipe, 65536)
        copy.write(data)
        copy.flush()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._pipes[pipe], rest) :]
            except BlockingIOError:
                time.sleep(0.01)  # the caller's end is non-blocking and full
            except OSError:
                break  # nobody reads any more: the copy has it
        return bool(data)
