"""Telling somebody: a mail by sendmail's interface, or a program that is run, as mdadm --monitor does.

A program gets KIND VOLUME MEMBER as arguments and more in its environment; no shell sees any of it, since texts of
events hold what targets call themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import EmailMessage

from iraid.control import model
from iraid.control.errors import IraidError
from iraid.control.units import local_time

from . import follow
from .verdict import Verdict

SENDMAIL = Path("/usr/sbin/sendmail")
SENDMAIL_SECONDS = 60
COMMAND_SECONDS = 60
_TEXT_MAX = 400
_SAID_BYTES_MAX = 4096  # the end of what a program said


def check_address(address: str) -> str:
    """Raises ValueError: what could be taken for another header, or an option."""
    if not address or address[0] in '-|/"' or not address.isprintable() or set(address) & set(" ,;<>()\\:"):
        raise ValueError(f"'{address}' is not a mail address: write for example root or someone@example.org")
    return address


def check_program(path: Path, what: str, remedy: str) -> Path:
    if not path.is_absolute():
        raise IraidError(f"{what} {path} is not an absolute path", remedy, kind="invalid")
    if not path.is_file():
        raise IraidError(f"{what} {path} does not exist", remedy, kind="invalid")
    if not os.access(path, os.X_OK):
        raise IraidError(f"{what} {path} is not executable", f"chmod 0755 {path}", kind="invalid")
    if path.stat().st_mode & 0o022:
        raise IraidError(
            f"{what} {path} can be changed by others than its owner", f"chmod go-w {path}", kind="permission"
        )
    return path


# --- mail ---


def compose(
    events: list[model.Event], verdicts: Iterable[Verdict], host: str, recipients: list[str], sender: str = ""
) -> EmailMessage:
    """One mail for all of them: what happened, how the volumes are now, what to do."""
    from email.message import EmailMessage  # no other command need wait for it
    from email.utils import formatdate, make_msgid

    mail = EmailMessage()
    mail["Subject"] = _one_line(_subject(events, host))
    mail["To"] = ", ".join(recipients)
    if sender:
        mail["From"] = sender
    mail["Date"] = formatdate(localtime=True)
    mail["Message-ID"] = make_msgid(domain=_domain(host))
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's vacation program answers
    lines = [follow.line(event) for event in events]
    for verdict in verdicts:
        lines += ["", f"Volume {verdict.name} now: {verdict.word}: {verdict.text}"]
        lines += [f"    {remedy}" for remedy in verdict.remedies]
    lines += ["", f"Gateway {host}.  More: iraid status; iraid events; iraid doctor"]
    mail.set_content("\n".join(_one_line(line) for line in lines) + "\n")
    return mail


def _subject(events: list[model.Event], host: str) -> str:
    worst = min(
        events,
        key=lambda event: (
            follow.SEVERITIES.index(event.severity) if event.severity in follow.SEVERITIES else 0,
            event.number,
        ),
    )
    what = f"{worst.volume}: {worst.kind}" if worst.volume else worst.kind
    more = f" and {len(events) - 1} more" if len(events) > 1 else ""
    return f"[iraid {host}] {what}{more}"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:_TEXT_MAX]


def _domain(host: str) -> str:
    return host if host.isascii() and host.replace("-", "").replace(".", "").isalnum() else "localhost"


def send(mail: EmailMessage, host: str, sendmail: Path = SENDMAIL, sender: str = "") -> None:
    """Raises IraidError."""
    words = [str(sendmail), "-i", "-t", "-F", f"iraid on {host}", *(["-f", sender] if sender else [])]
    _run(words, mail.as_bytes(), dict(os.environ), SENDMAIL_SECONDS, "mail is not sent")


# --- a program ---


def run_command(program: Path, event: model.Event, instance: str, seconds: float = COMMAND_SECONDS) -> None:
    """Raises IraidError if it can't be run, fails or takes too long."""
    environment = {
        "IRAID_EVENT_KIND": event.kind,
        "IRAID_EVENT_VOLUME": event.volume,
        "IRAID_EVENT_MEMBER": event.member,
        "IRAID_EVENT_SEVERITY": event.severity,
        "IRAID_EVENT_TEXT": event.text,
        "IRAID_EVENT_NUMBER": str(event.number),
        "IRAID_EVENT_INSTANCE": instance,
        "IRAID_EVENT_TIME": local_time(event.time_ms).isoformat("T", "seconds"),
    }
    words = [str(program), event.kind, event.volume, event.member]
    words = [word.replace("\0", "") for word in words]
    _run(
        words,
        b"",
        dict(os.environ) | {key: value.replace("\0", "") for key, value in environment.items()},
        seconds,
        f"for '{event.kind}'",
    )


def _run(words: list[str], given: bytes, environment: dict[str, str], seconds: float, what: str) -> None:
    """Waits for the program alone: what it leaves in the background may hold its output open for as long as it likes."""
    # Files in memory, and no pipes: nothing waits for who holds the other end, and a full disk stops no mail.
    with _file_in_memory("input") as source, _file_in_memory("output") as output:
        source.write(given)
        source.seek(0)
        try:
            # A session of its own: what it started ends with it, when it takes too long.
            process = subprocess.Popen(
                words, stdin=source, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        except OSError as error:
            raise IraidError(
                f"{what}: {words[0]}: {error.strerror}", f"see that {words[0]} can be run", kind="io"
            ) from error
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise IraidError(
                f"{what}: {words[0]} did not end within {seconds:g} s and was killed",
                "start longer work in the background",
                kind="timeout",
            ) from None
        if status:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _SAID_BYTES_MAX))
            said = output.read(_SAID_BYTES_MAX).decode(errors="replace")
            last = _one_line(said.strip().rpartition("\n")[2])
            raise IraidError(
                f"{what}: {words[0]} ended with status {status}{': ' if last else ''}{last}",
                "iraid monitor --test",
                kind="io",
            )


def _file_in_memory(name: str) -> IO[bytes]:
    return os.fdopen(os.memfd_create(f"iraid-{name}"), "w+b", buffering=0)
