"""What a LUN needs runs out, or jumps, beside a load that verifies: no error, no hang, and it goes on afterwards."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from iraid.lio import export_plan
from iraid_dev.stack import initiator
from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.load import Fio
from iraid_dev.stack.raw_initiator import RawInitiator

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MIB = 1 << 20
YEAR_SECONDS = 365 * 86400
LOGINS = 300
TEST_UNIT_READY = bytes(6)


@contextmanager
def clock_restored() -> Iterator[None]:
    real, since = time.time(), time.monotonic()
    try:
        yield
    finally:
        time.clock_settime(time.CLOCK_REALTIME, real + time.monotonic() - since)


def events() -> list[dict]:
    return json.loads(iraid("events", "--json"))["events"]


def test_the_clock_of_the_day_jumps_by_years_and_nobody_minds(gateway, lio_members) -> None:
    volume = gateway.create(5, lio_members(4))
    disk = volume.login()
    volume.wait_resynced()
    before = volume.status()
    with clock_restored():
        load = Fio(disk, rw="randwrite", bs="16k", size="32M", iodepth=8, time_based=None, runtime=20, rate="4m")
        jumps = 0
        while load.running():
            step = (10, -20, 15, -5)[jumps % 4] * YEAR_SECONDS
            time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
            jumps += 1
            with suppress(subprocess.TimeoutExpired):
                load.process.wait(0.5)
        assert jumps >= 8
        assert load.result().written_bytes > 0
        after = volume.status()
        assert after["state"] == "active" and after["epoch"] == before["epoch"]
        assert [member["errors"] for member in after["members"]] == [0] * 4
        told = [event["text"] for event in events() if event["volume"] == volume.name]
        assert not [text for text in told if "lost" in text or "evicted" in text or "silent" in text]
        time.clock_settime(time.CLOCK_REALTIME, time.time() + 30 * YEAR_SECONDS)
        iraid("fail", volume.name, "1")
        told = [event for event in events() if event["kind"] == "member evicted" or "evicted" in event["text"]]
        assert abs(told[-1]["time_ms"] / 1000 - time.time()) < 3600
        iraid("rebuild", volume.name, "1")
        volume.wait_until("active")


def test_more_in_flight_than_the_data_area_holds_waits_and_goes_on(gateway, lio_members, monkeypatch) -> None:
    monkeypatch.setattr(export_plan, "DATA_AREA_MIB", 2)
    volume = gateway.create(5, lio_members(4, size_bytes=128 * MIB))
    disk = volume.login()
    (area,) = Path("/sys/kernel/config/target/core").glob(f"user_*/{volume.name}/attrib/max_data_area_mb")
    assert area.read_text().strip() == "2"
    for rw in ("write", "randrw"):
        done = Fio(disk, rw=rw, bs="1M", size="128M", iodepth=256).result(seconds=400)
        assert done.written_bytes > 0
    small = Fio(disk, rw="randwrite", bs="4k", size="4M", iodepth=32).result()
    assert small.written_bytes == 4 * MIB
    assert volume.status()["requests_active"] == 0
    assert volume.status()["state"] == "active"


def test_hundreds_of_sessions_that_stay_open_stand_in_nobodys_way(gateway, lio_members) -> None:
    volume = gateway.create(5, lio_members(4))
    disk = volume.login()
    with ExitStack() as stack:
        load = Fio(disk, rw="randwrite", bs="16k", size="32M", iodepth=8, time_based=None, runtime=60)
        sessions = [
            stack.enter_context(RawInitiator(volume.portal, volume.iqn, initiator.name())) for _ in range(LOGINS)
        ]
        assert load.running()
        for session in sessions:
            session.ask(TEST_UNIT_READY)  # the first may be a unit attention
            assert session.ask(TEST_UNIT_READY).status == 0
        assert load.result().written_bytes > 0
    assert Fio(disk, rw="randwrite", bs="16k", size="4M").result().written_bytes == 4 * MIB
    assert volume.status()["state"] == "active"
