"""Small helpers: waiting, running, free ports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from iraid_dev.places import ROOT

Value = TypeVar("Value")

# IRAID_BUILD_DIR=installed: what a package put into this system is tested, not the build tree.
INSTALLED = os.environ.get("IRAID_BUILD_DIR") == "installed"
IRAID = Path(shutil.which("iraid") or "/nowhere/iraid") if INSTALLED else ROOT / "scripts" / "iraid"
# All waiting is as long as user-mode Linux needs; QEMU's software emulation is slower by far.
PATIENCE = 6 if os.environ.get("IRAID_LAB") == "qemu" else 1
COMMAND_SECONDS_MAX = 90 * PATIENCE  # a fork alone takes 30 ms in user-mode Linux


class StackError(Exception):
    """Some part of the stack did not do what it must; the text says which and what it said."""


def wait_for(found: Callable[[], Value | None], what: str, seconds: float = 30.0) -> Value:
    """Asks again and again until the answer is something."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > deadline:
            raise StackError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)


def run(*words: str | Path, seconds: float = COMMAND_SECONDS_MAX) -> str:
    """Standard output of a command that must succeed."""
    command = [str(word) for word in words]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode != 0:
        raise StackError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def attempt(*words: str | Path, seconds: float = COMMAND_SECONDS_MAX) -> tuple[int, str]:
    """Status and all output of a command that may fail."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
        check=False,
    )
    return done.returncode, done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
