"""Files that processes lock."""

import os
from pathlib import Path
from typing import IO


def open_lock(path: Path) -> IO[str]:
    """Raises OSError.  For root alone: whoever can read a file can lock it, and hold up who waits for it.  So also one
    that an earlier version left readable.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    file = os.fdopen(descriptor, "r+")
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        file.close()
        raise
    return file
