"""Settings of open-iscsi that its defaults hide figures behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SETTINGS = Path("/etc/iscsi/iscsid.conf")  # the lab's own copy
# By default 32 commands in flight, which would hide what deeper queues do, and socket buffers of 512 KiB, which at RTT 64 ms
# let 3 MB/s through (run: 7.5 write, 3.1 read).  The baseline gets what it needs.
DEEP_QUEUES = {
    "node.session.cmds_max": "256",
    "node.session.queue_depth": "128",
    "node.conn[0].tcp.window_size": str(32 << 20),
}


def deepen_queues() -> None:
    """Of the sessions that the initiator begins from now on."""
    _change(DEEP_QUEUES)


@contextmanager
def changed(settings: Mapping[str, str]) -> Iterator[None]:
    """Of the sessions that the initiator begins meanwhile."""
    before = SETTINGS.read_text()
    _change(settings)
    try:
        yield
    finally:
        SETTINGS.write_text(before)


def _change(settings: Mapping[str, str]) -> None:
    lines = [line for line in SETTINGS.read_text().splitlines() if line.split(" ")[0] not in settings]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    SETTINGS.write_text("\n".join(lines) + "\n")
