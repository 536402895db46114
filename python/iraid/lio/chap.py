"""Secrets files: line 1 the user, line 2 the secret; readable by their owner, root, only."""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from iraid.control.errors import IraidError

FILE_BYTES_MAX = 4096
TEXT_MAX = 255  # of LIO's configfs attributes
# RFC 7143 12.1.3 asks for 96 bits; the initiator of Windows takes 12 to 16 characters only.
SECRET_MIN, SECRET_WINDOWS_MAX = 12, 16


@dataclass(frozen=True)
class Credentials:
    user: str
    secret: str = field(repr=False)

    def advice(self) -> list[str]:
        if len(self.secret) < SECRET_MIN:
            return [f"the CHAP secret is shorter than {SECRET_MIN} characters: several initiators refuse it"]
        if len(self.secret) > SECRET_WINDOWS_MAX:
            return [
                f"the CHAP secret is longer than {SECRET_WINDOWS_MAX} characters: the initiator of Windows refuses it"
            ]
        return []


def read_credentials(path: Path) -> Credentials:
    """Raises IraidError; no message ever holds a part of the content."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise IraidError(
            f"secrets file {path}: {error.strerror}",
            "write the user on line 1 and the secret on line 2, mode 0600",
            kind="invalid",
        ) from error
    try:
        # Of the opened file: what is checked is what is read.
        _check_access(path, os.fstat(descriptor))
        return _parse(path, os.read(descriptor, FILE_BYTES_MAX + 1))
    finally:
        os.close(descriptor)


def _check_access(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise IraidError(f"secrets file {path} is not a regular file", "name a file", kind="invalid")
    if status.st_uid not in (0, os.geteuid()):
        raise IraidError(
            f"secrets file {path} belongs to user {status.st_uid}, not to root", f"chown root {path}", kind="permission"
        )
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise IraidError(
            f"secrets file {path} has mode {mode:04o}: others can read it",
            f"chmod 0600 {path}; change the secret if others may have read it",
            kind="permission",
        )


def _parse(path: Path, content: bytes) -> Credentials:
    remedy = "line 1 is the user, line 2 the secret, and nothing follows"
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise IraidError(f"secrets file {path} has characters that are not ASCII", remedy, kind="invalid") from error
    if len(content) > FILE_BYTES_MAX or len(lines) != 2:
        raise IraidError(f"secrets file {path} does not have two lines", remedy, kind="invalid")
    user, secret = (line.strip() for line in lines)
    for what, text in (("user", user), ("secret", secret)):
        # LIO takes the text NULL for "none".
        if not text or len(text) > TEXT_MAX or text == "NULL" or not text.isprintable():
            raise IraidError(
                f"secrets file {path}: the {what} is empty, longer than {TEXT_MAX} "
                "characters, not printable, or the word NULL",
                remedy,
                kind="invalid",
            )
    return Credentials(user, secret)
