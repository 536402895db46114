"""The tests' own load: against nbdkit's memory, without the product."""

from __future__ import annotations

from pathlib import Path

import nbd
import pytest

from iraid_dev.stack.shadow import Load, Shadow, read_all

MIB = 1 << 20


def resident_bytes() -> int:
    return next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    )


@pytest.mark.no_sanitizer
def test_what_was_read_and_written_does_not_stay_in_memory() -> None:
    """All integration tests run in one process, and a soak for hours: what each request held would add up."""
    handle = nbd.NBD()
    handle.connect_command(["nbdkit", "-s", "--exit-with-parent", "memory", "32M"])
    shadow = Shadow(handle.get_size())

    def turn(seed: int) -> None:
        load = Load(handle, shadow, seed=seed)
        load.run(500)
        load.check()
        shadow.check_and_settle(read_all(handle))

    turn(0)
    before = resident_bytes()
    for seed in range(1, 6):  # some 80 MiB each
        turn(seed)
    grown = resident_bytes() - before
    handle.shutdown()
    assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB more than before"
