"""Configuration files of iraid, which its handler changes too (docs/design/config.md)."""

import contextlib
import fcntl
import os
import time

VOLUMES_LOCK = "volumes.lock"
SPARES_LOCK = "spares.lock"  # of gateway.conf
RUN_DIR = "/run/iraid"
WAIT_SECONDS = 30
LOOK_SECONDS = 0.02


@contextlib.contextmanager
def locked(name):
    """As the handler does it: whoever changes a file reads and replaces it under its lock.

    Raises ValueError if the lock can't be had.
    """
    folder = os.environ.get("IRAID_RUN_DIR") or RUN_DIR
    path = os.path.join(folder, name)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ValueError(f"the lock {path} can't be opened: {error.strerror}; run this as root (become), and see "
                         f"whether {folder} is a folder that can be written to") from error
    try:
        _wait_for(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor, path):
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ValueError(f"the lock {path} was not free for {WAIT_SECONDS} s; fuser {path} shows which process "
                                 "has it; run this again when it has ended") from None
        time.sleep(LOOK_SECONDS)
