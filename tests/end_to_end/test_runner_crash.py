"""tcmu-runner dies under load: the initiator recovers by itself, and nothing acknowledged is lost."""

from __future__ import annotations

import pytest

from iraid_dev.stack.load import AckWriter, Fio
from iraid_dev.stack.tools import wait_for

KIB = 1 << 10


@pytest.mark.parametrize(("level", "count"), [(0, 3), (5, 4)], ids=["level 0", "level 5"])
@pytest.mark.timeout(280)
def test_what_was_acknowledged_is_there_after_the_runner_was_killed(
    gateway, lio_members, memory_folder, level, count, capsys
):
    volume = gateway.create(level, lio_members(count))
    disk = volume.login()
    writer = AckWriter(disk, memory_folder / "journal", slot_bytes=20 * KIB, slots=1024, seconds=12, depth=8)

    gateway.runner.kill()
    gateway.runner.start()
    result = writer.result()
    checked = writer.check()

    with capsys.disabled():
        print(
            f"\n    runner killed and restarted: longest stall of a write "
            f"{result['longest_seconds']:.1f} s, {result['writes']} writes acknowledged"
        )
    assert result["errors"] == []
    assert checked["checked"] > 0 and checked["lost"] == []
    volume.wait_until("active")


@pytest.mark.timeout(280)
def test_parity_is_right_after_the_runner_was_killed(gateway, farm, memory_folder):
    """Killed under load, resynchronised, then a member lost: every acknowledged write is still there,
    so the parity written over the crash was put right."""
    targets = farm(4)
    volume = gateway.create(5, targets.members())
    disk = volume.login()
    writer = AckWriter(disk, memory_folder / "journal", slot_bytes=20 * KIB, slots=1024, seconds=10, depth=8)
    gateway.runner.kill()
    gateway.runner.start()
    assert writer.result()["errors"] == []
    volume.wait_resynced()

    targets.kill(0)
    Fio(disk, rw="read", bs="64k", offset=64 << 20, size="1M", verify=0).result()
    checked = writer.check()

    assert checked["checked"] > 0 and checked["lost"] == []
    wait_for(lambda: volume.status()["state"] == "degraded", "the volume to notice")
