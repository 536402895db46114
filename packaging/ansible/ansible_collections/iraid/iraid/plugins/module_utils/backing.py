"""Files and devices behind the LUNs of a backend host."""

import os
import stat
from pathlib import Path

from .lio_plan import Refused


def short_files(backings):
    """(path, bytes) of files that are not there, or too small.  backings: objects with device, file, size_bytes."""
    short = []
    for one in backings:
        path = Path(one.device or one.file)
        try:
            status = path.stat()
        except FileNotFoundError:
            if one.device:
                raise Refused(f"{path} does not exist: make it first (lvcreate), or correct luns") from None
            status = None
        if one.device and not stat.S_ISBLK(status.st_mode):
            raise Refused(f"{path} is not a block device: write file: {path} and its size, or name a device")
        if one.file and (status is None or status.st_size < one.size_bytes):
            short.append((path, one.size_bytes))
    return short


def enlarge(path, size_bytes):
    """Sparse; never smaller."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size < size_bytes:
            os.ftruncate(descriptor, size_bytes)
    finally:
        os.close(descriptor)
