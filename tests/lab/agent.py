"""Commands for a guest of the lab that go on being given while it runs, through files in a shared folder: a guest has
no network to the machine it runs on.  The other end is tests/lab/guest/agent.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path


class GuestGone(Exception):
    """No answer, or the guest has ended."""


def call(
    folder: Path, command: str, given: bytes = b"", seconds: float = 120.0, alive: Callable[[], bool] = lambda: True
) -> tuple[int, bytes, bytes]:
    """Exit status, output and errors of a command, which is given to bash."""
    name = folder / uuid.uuid4().hex
    name.with_suffix(".input").write_bytes(given)
    name.with_suffix(".command").write_text(command)
    name.with_suffix(".ready").touch()
    wait_for(name.with_suffix(".status"), f"the end of {command[:200]}", seconds, alive)
    return (
        int(name.with_suffix(".status").read_text()),
        name.with_suffix(".output").read_bytes(),
        name.with_suffix(".error").read_bytes(),
    )


def wait_for(path: Path, what: str, seconds: float, alive: Callable[[], bool] = lambda: True) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        if not alive():
            raise GuestGone(f"the guest ended before {what}")
        if time.monotonic() > deadline:
            raise GuestGone(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


def put(folder: Path, source: Path, to: str, seconds: float = 120.0) -> None:
    """A file of the machine becomes one of the guest."""
    way = folder / f"{uuid.uuid4().hex}.file"
    shutil.copyfile(source, way)
    status, _, errors = call(folder, f"cp {way} {to} && rm {way}", seconds=seconds)
    if status != 0:
        raise GuestGone(f"{source} could not be put to {to}: {errors.decode(errors='replace')}")
