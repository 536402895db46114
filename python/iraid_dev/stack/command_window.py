"""The window of commands that LIO grants a session (RFC 7143, 4.2.2.1: MaxCmdSN), as LIO's configfs shows it.

LIO (6.1) never gives back the place of a command that an abort or a reset of its own session ended: it sends no
answer, and answers are what moves MaxCmdSN.  With no place left Linux' initiator keeps its commands, without a time
limit and without a word.  A new session has all places again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import initiator
from .initiator import Disk
from .tools import StackError, run

_TARGETS = Path("/sys/kernel/config/target/iscsi")
_COLUMNS = "CmdSN/WR"
_SERIAL = "LIO Session ID:"


@dataclass(frozen=True)
class Window:
    """Of the newest session that an initiator has with a target."""

    session: int
    granted: int
    left: int  # without what is in flight and what was lost


def parse(text: str) -> Window:
    """What an ACL's `info` says.  Raises StackError when there is no session."""
    lines = text.splitlines()
    serials = [line for line in lines if line.startswith(_SERIAL)]
    headings = [number for number, line in enumerate(lines) if _COLUMNS in line]
    if not serials or not headings:
        raise StackError(f"LIO shows no session: {text.strip()}")
    granted, left = (int(word, 16) for word in lines[headings[0] + 1].split()[:2])
    return Window(int(serials[0].removeprefix(_SERIAL).split()[0]), granted, left)


def window_of(iqn: str, name: str | None = None) -> Window:
    """name: the initiator's, by default this machine's own."""
    return parse((_TARGETS / iqn / "tpgt_1" / "acls" / (name or initiator.name()) / "info").read_text())


def renew_session(disk: Disk) -> None:
    """Commands wait and go on.  LIO refuses the TARGET WARM RESET, and so the initiator logs in anew."""
    run("sg_reset", "--no-esc", "--target", disk.path)
