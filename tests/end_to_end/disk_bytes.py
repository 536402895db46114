"""Bytes of a disk, written through and read anew."""

from __future__ import annotations

import os

from iraid_dev.stack.tools import run


def put(disk: str, data: bytes, offset: int) -> None:
    fd = os.open(disk, os.O_RDWR | os.O_SYNC)
    try:
        assert os.pwrite(fd, data, offset) == len(data)
    finally:
        os.close(fd)


def get(disk: str, length: int, offset: int) -> bytes:
    run("blockdev", "--flushbufs", disk)
    fd = os.open(disk, os.O_RDONLY)
    try:
        return os.pread(fd, length, offset)
    finally:
        os.close(fd)
