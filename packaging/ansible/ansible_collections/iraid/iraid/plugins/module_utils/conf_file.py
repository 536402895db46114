"""Configuration files of iraid, which its handler changes too (docs/design/config.md)."""

import contextlib
import fcntl
import os
import stat
import tempfile
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
        raise ValueError(
            f"the lock {path} can't be opened: {error.strerror}; run this as root (become), and see "
            f"whether {folder} is a folder that can be written to"
        ) from error
    try:
        _wait_for(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def rewrite(path, text):
    """A file that is there keeps its mode, owner and group, and where a link leads to it, the link stays.  A new one is
    its maker's alone.
    """
    real = os.path.realpath(path) if os.path.exists(path) else os.fspath(path)
    before = os.stat(real) if os.path.exists(real) else None
    folder = os.path.dirname(real)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(real)}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            if before:
                _take_after(file.fileno(), before)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(folder)


def _take_after(descriptor, before):
    """Whose it is first: nobody who could not read the file that was there may read this one."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except PermissionError:
        mode &= 0o700
    os.fchmod(descriptor, mode)


def _sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _wait_for(descriptor, path):
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the lock {path} was not free for {WAIT_SECONDS} s; fuser {path} shows which process "
                    "has it; run this again when it has ended"
                ) from None
        time.sleep(LOOK_SECONDS)
