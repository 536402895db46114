"""Secrets files: line 1 the user, line 2 the secret; for mutual CHAP the user and secret by which the target proves itself
on lines 3 and 4.  Readable by their owner, root, only.
"""

import os
import stat
from collections.abc import Iterator
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
    mutual_user: str = ""  # empty: no mutual CHAP
    mutual_secret: str = field(default="", repr=False)

    def __iter__(self) -> Iterator[str]:
        return iter((self.user, self.secret, self.mutual_user, self.mutual_secret))

    def advice(self) -> list[str]:
        lengths = {len(secret) for secret in (self.secret, self.mutual_secret) if secret}
        advice = []
        if min(lengths) < SECRET_MIN:
            advice.append(f"the CHAP secret is shorter than {SECRET_MIN} characters: several initiators refuse it")
        if max(lengths) > SECRET_WINDOWS_MAX:
            advice.append(
                f"the CHAP secret is longer than {SECRET_WINDOWS_MAX} characters: the initiator of Windows refuses it"
            )
        return advice


def read_credentials(path: Path) -> Credentials:
    """Raises IraidError; no message ever holds a part of the content."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise IraidError(
            f"secrets file {path}: {error.strerror}",
            "write the user on line 1 and the secret on line 2 (for mutual CHAP the target's own on 3 and 4), mode 0600",
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
    remedy = (
        "line 1 is the user, line 2 the secret; for mutual CHAP lines 3 and 4 are the target's own; nothing follows"
    )
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise IraidError(f"secrets file {path} has characters that are not ASCII", remedy, kind="invalid") from error
    if len(content) > FILE_BYTES_MAX or len(lines) not in (2, 4):
        raise IraidError(f"secrets file {path} does not have two or four lines", remedy, kind="invalid")
    texts = [line.strip() for line in lines]
    for what, text in zip(("user", "secret", "target's user", "target's secret"), texts, strict=False):
        # LIO takes the text NULL for "none".
        if not text or len(text) > TEXT_MAX or text == "NULL" or not text.isprintable():
            raise IraidError(
                f"secrets file {path}: the {what} is empty, longer than {TEXT_MAX} "
                "characters, not printable, or the word NULL",
                remedy,
                kind="invalid",
            )
    if len(texts) == 4 and texts[1] == texts[3]:
        raise IraidError(
            f"secrets file {path} has the same secret for both sides: who hears one proof could send it back",
            "choose another secret for line 4",
            kind="invalid",
        )
    return Credentials(*texts)
