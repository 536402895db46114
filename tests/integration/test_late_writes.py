"""Nothing more leaves the gateway of a session that was given up; the target is fake_target.py."""

from __future__ import annotations

import socket
import time

import pytest
from fake_target import FakeTarget
from test_backend_statuses import opened

pytestmark = pytest.mark.timeout(60)
WRITE_BYTES, WRITES = 65536, 24  # more than the target's socket takes, less than ours does
LATE_SECONDS = 1.0


@pytest.mark.parametrize("end", ["given up", "closed", "killed"])
def test_what_waits_in_the_kernel_is_not_sent_later(start, end) -> None:
    """The path comes back after the session is over, and the writes would land whatever fences the next one."""
    with FakeTarget() as target:
        target.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # accepted ones have it, too
        probe = opened(start, target)
        target.reading.clear()
        for number in range(WRITES):
            probe.say(f"write {number % 8 * WRITE_BYTES} {WRITE_BYTES} 1")
        if end == "killed":
            time.sleep(0.3)  # so that they are in the kernel
            probe.process.kill()
            probe.process.wait()
            probe.process.returncode = 0  # as it was meant to end
        else:
            if end == "closed":
                time.sleep(0.3)
                probe.say("close")
            while not probe.line().startswith("closed "):
                pass
        target.reading.set()
        time.sleep(LATE_SECONDS)
        # The answer to the first would end it, but until then its session takes what comes.
        assert not [command for command in target.commands if command.is_write]


def test_an_orderly_end_is_no_reset(start) -> None:
    with FakeTarget() as target:
        probe = opened(start, target)
        peer = target.connections[-1].peer
        faults: list[OSError] = []
        recv = target.connections[-1]._exactly

        def watched(length: int) -> bytes:
            try:
                return recv(length)
            except OSError as fault:
                faults.append(fault)
                raise

        target.connections[-1]._exactly = watched
        assert probe.ask("release").startswith("closed ECANCELED")
        time.sleep(0.3)
        assert peer is not None and not faults
