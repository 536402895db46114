"""A member on LIO whose disk is full: what it had acknowledged is lost when its cache is written back, and LIO says so once.

Whoever hears GOOD from a flush after that is told a lie.  The backstore is a file on a tmpfs that is too small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from backend_probe import result

from iraid_dev.stack import lio_targets
from iraid_dev.stack.tools import run

pytestmark = pytest.mark.timeout(120)
MIB = 1 << 20
FULL_MIB, WRITTEN_MIB = 8, 16


@pytest.fixture
def member(memory_folder: Path) -> Iterator[str]:
    small = memory_folder / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={FULL_MIB}m", "tmpfs", small)
    try:
        with lio_targets.GrowingTargets(small / "member", 1, 64 * MIB) as targets:
            yield targets.member(0)
    finally:
        run("umount", "-l", small)


def is_there(probe, at: int) -> bool:
    return probe.ask(f"read {at * MIB} {MIB} {at + 1}").endswith("same")


@pytest.mark.parametrize("fua", ["", " fua"], ids=["written back", "with FUA"])
def test_what_a_full_disk_lost_is_told(member: str, start, fua: str) -> None:
    probe = start(member, "key=aa11", "deadline_ms=5000")
    probe.open()
    asked = [f"write {at * MIB} {MIB} {at + 1}{fua}" for at in range(WRITTEN_MIB)]
    told = any(result(probe.ask(command)) != 0 for command in [*asked, "flush"])  # ends at the first
    probe.end()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    again = start(member, "key=aa11", "deadline_ms=5000")
    again.open()
    assert told or all(is_there(again, at) for at in range(WRITTEN_MIB))
    assert not all(is_there(again, at) for at in range(FULL_MIB, WRITTEN_MIB))  # or nothing was shown
