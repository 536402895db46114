"""A member dies or hangs under load: the initiator sees no error, and a short stall."""

from __future__ import annotations

import pytest

from iraid_dev.stack.load import AckWriter, Fio
from iraid_dev.stack.tools import wait_for

STALL_SECONDS_MAX = 8.0
KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.timeout(240)
def test_the_initiator_sees_no_error_and_a_short_stall(gateway, farm, memory_folder, how, capsys):
    """SIGKILL: the target's session breaks.  SIGSTOP: it stays, and nothing answers."""
    targets = farm(4)
    volume = gateway.create(5, targets.members())
    disk = volume.login()
    slots = 1024
    # The second half of the disk is fio's.
    writer = AckWriter(disk, memory_folder / "journal", slot_bytes=20 * KIB, slots=slots, seconds=16, depth=4)
    fio = Fio(disk, rw="randwrite", bs="64k", iodepth=8, offset=slots * 20 * KIB, size="48M", rate="4m")
    try:
        getattr(targets, how)(1)
        status = wait_for(
            lambda: (s := volume.status())["state"] == "degraded" and s,
            "the volume to go on without the member",
            seconds=20,
        )
        result = writer.result()
        verified = fio.result()
    finally:
        writer.end()
        fio.end()
        if how == "stop":
            targets.cont(1)

    with capsys.disabled():
        print(
            f"\n    member {'killed' if how == 'kill' else 'hung'}: longest stall of a write "
            f"{result['longest_seconds']:.1f} s, of fio's {verified.longest_seconds:.1f} s; "
            f"no write completed for {result['gap_seconds']:.1f} s"
        )
    assert result["errors"] == []
    assert verified.read_bytes > 0
    assert max(result["longest_seconds"], verified.longest_seconds) < STALL_SECONDS_MAX
    assert status["members"][1]["state"] == "faulty"
    assert status["members"][1]["reason"]
    assert writer.check()["lost"] == []


@pytest.mark.timeout(240)
def test_a_member_that_returns_catches_up(gateway, farm, memory_folder):
    targets = farm(3)
    volume = gateway.create(5, targets.members())
    disk = volume.login()
    targets.kill(2)
    Fio(disk, rw="randwrite", bs="16k", size="8M", iodepth=4).result()
    volume.wait_until("degraded")

    targets.restart(2)
    writer = AckWriter(disk, memory_folder / "journal", slot_bytes=12 * KIB, slots=512, seconds=3)
    result = writer.result()

    assert result["errors"] == [] and writer.check()["lost"] == []
    volume.wait_until("active", seconds=60)
    # It is needed now: another one goes, and what was written while it was away must be there.
    targets.kill(0)
    assert writer.check()["lost"] == []
    volume.wait_until("degraded")
    members = volume.status()["members"]
    assert (members[0]["state"], members[2]["state"]) == ("faulty", "in sync")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_level_0_gives_an_error_and_no_wrong_data_when_a_member_is_gone_for_good(gateway, farm, memory_folder):
    targets = farm(3)
    volume = gateway.create(0, targets.members())
    disk = volume.login()
    writer = AckWriter(disk, memory_folder / "journal", slot_bytes=64 * KIB, slots=256, seconds=60)
    targets.kill(0)

    result = writer.result()

    assert result["errors"], "writes to a member that is not there were acknowledged"
    targets.restart(0)
    volume.wait_until("active", seconds=90)
    assert writer.check()["lost"] == []
