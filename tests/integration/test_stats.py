"""volume.stats against real targets: a known load, figure by figure."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import nbd
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, Served, call, wait_until

BLOCK = 4096
STEPS = ["ring", "wait", "mark", "read", "code", "write", "flush", "complete"]
KINDS = ["read", "write", "flush", "zero", "compare"]


def stats(volume: Served) -> dict[str, Any]:
    return call(volume.control, "volume.stats", name=volume.name)


def histograms(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        *answer["commands"].values(),
        *(member[kind] for member in answer["members"] for kind in ("reads", "writes", "flushes")),
    ]


@pytest.fixture
def volume(gateway: Gateway, make_farm: Callable[..., TargetFarm], request: pytest.FixtureRequest):
    farm = make_farm(3)
    request.node.farm = farm
    gateway.create("v0", farm.members(), 5, "64K", "--give-up", "20")
    gateway.must("stop", "v0")
    with gateway.serve("v0") as served:
        handle = served.connect()
        served.wait_resynced()
        yield served, handle


def test_a_known_load_is_counted(volume: Any) -> None:
    served, handle = volume
    data = os.urandom(64 * BLOCK)
    before = stats(served)
    for number in range(10):
        handle.pwrite(data[: 2 * BLOCK], 50000 * BLOCK // 16 + number * 7 * BLOCK)
    for number in range(25):
        handle.pread(BLOCK, number * 7 * BLOCK)
    handle.flush()
    handle.zero(32 * BLOCK, 0)
    # The last answer may be out before it is counted.
    wait_until(lambda: stats(served)["queue"] == 0, "all to be counted")
    after = stats(served)

    assert after["started_ms"] == before["started_ms"] <= before["time_ms"] <= after["time_ms"]
    assert list(after["commands"]) == KINDS
    counts = {kind: after["commands"][kind]["count"] - before["commands"][kind]["count"] for kind in KINDS}
    assert counts == {"read": 25, "write": 10, "flush": 1, "zero": 1, "compare": 0}
    moved = {kind: after["commands"][kind]["bytes"] - before["commands"][kind]["bytes"] for kind in KINDS}
    assert moved == {"read": 25 * BLOCK, "write": 20 * BLOCK, "flush": 0, "zero": 32 * BLOCK, "compare": 0}
    assert sum(one["errors"] for one in histograms(after)) == 0
    for one in histograms(after):
        assert len(one["buckets"]) == len(after["bounds_us"]) + 1 == 23
        assert sum(one["buckets"]) == one["count"]
        # Between the lower and the upper bounds of where they are counted.
        lower = sum(count * bound for count, bound in zip(one["buckets"][1:], after["bounds_us"], strict=True))
        assert lower <= one["sum_us"] + one["count"]
    reads = sum(member["reads"]["bytes"] for member in after["members"]) - sum(
        member["reads"]["bytes"] for member in before["members"]
    )
    assert reads >= 25 * BLOCK

    assert [one["step"] for one in after["steps"]] == STEPS
    step = {new["step"]: new["count"] - old["count"] for old, new in zip(before["steps"], after["steps"], strict=True)}
    assert step["ring"] == step["complete"] == 37
    assert step["write"] >= 11 and step["code"] >= 10 and step["flush"] >= 1
    assert step["read"] >= 25
    for one in after["steps"]:
        assert one["max_us"] <= one["sum_us"] or one["count"] == 0


def test_members_and_their_sessions(volume: Any) -> None:
    served, handle = volume
    handle.pread(1 << 20, 0)
    answer = stats(served)
    assert [one["role"] for one in answer["members"]] == [0, 1, 2]
    for one in answer["members"]:
        assert (one["state"], one["link"], one["in_flight"]) == ("in sync", "open", 0)
        (session,) = one["sessions"]
        assert one["member"].startswith(session["portal"])
        tcp = session["tcp"]
        assert tcp["rtt_us"] > 0 and tcp["mss_bytes"] > 0
        assert tcp["cwnd_bytes"] >= tcp["mss_bytes"]
        assert tcp["congestion_control"]
        assert set(tcp) == {
            "rtt_us",
            "rtt_var_us",
            "min_rtt_us",
            "cwnd_bytes",
            "mss_bytes",
            "in_flight_bytes",
            "retransmits",
            "lost",
            "delivery_bytes_per_second",
            "pacing_bytes_per_second",
            "send_queue_bytes",
            "receive_queue_bytes",
            "congestion_control",
        }


def test_the_process_and_the_thread(volume: Any) -> None:
    served, handle = volume

    def has_timed_a_turn() -> bool:
        handle.pread(BLOCK, 0)
        return stats(served)["thread"]["turns_timed"] > 0

    wait_until(has_timed_a_turn, "a turn to be timed, which one in sixteen is, by chance")
    answer = stats(served)
    runner = answer["runner"]
    assert runner["pid"] == served.process.pid
    assert runner["threads"] >= 2 and runner["resident_bytes"] > 1 << 20
    assert runner["user_seconds"] + runner["system_seconds"] > 0
    thread = answer["thread"]
    spent = sum(thread[f"{part}_us"] for part in ("idle", "receive", "engine", "code", "send")) / 1e6
    assert 0 < thread["turns_timed"] < thread["turns"]
    assert 0 < spent < (answer["time_ms"] - answer["started_ms"]) / 1000


def test_what_a_stopped_member_owes(volume: Any, request: pytest.FixtureRequest) -> None:
    served, handle = volume
    farm = request.node.farm
    row = 2 * 65536
    farm.stop(1)
    try:
        cookies = [
            handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(os.urandom(row))), number * row)
            for number in range(4)
        ]

        def waiting() -> Any:
            handle.poll(10)  # sends the rest of them
            answer = stats(served)
            return answer if answer["queue"] == 4 and answer["members"][1]["in_flight"] > 0 else None

        after = wait_until(waiting, "writes that wait for it")
        assert after["members"][1]["sessions"][0]["in_flight"] > 0
        assert after["commands"]["write"]["count"] == 0
    finally:
        farm.cont(1)
    for cookie in cookies:
        while not handle.aio_command_completed(cookie):
            handle.poll(-1)
    wait_until(lambda: stats(served)["queue"] == 0, "all to be counted")
    answer = stats(served)
    assert answer["commands"]["write"]["count"] == 4
    assert answer["members"][1]["in_flight"] == 0
    assert next(one for one in answer["steps"] if one["step"] == "write")["max_us"] > 0


def test_a_volume_that_does_not_run_has_zeros(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    gateway.create("v0", farm.members(), 5)
    gateway.must("stop", "v0")
    answer = call(gateway.socket, "volume.stats", name="v0")
    assert (answer["state"], answer["started_ms"], answer["queue"]) == ("stopped", 0, 0)
    assert [one["member"] for one in answer["members"]] == farm.members()
    assert all(one["link"] == "closed" and one["sessions"] == [] for one in answer["members"])
    assert sum(one["count"] for one in histograms(answer)) == 0
    with pytest.raises(RpcError) as fault:
        call(gateway.socket, "volume.stats", name="v1")
    assert fault.value.kind == "not_found"
    refused = gateway.iraid("steps", "v0")
    assert refused.status == 1 and "volume v0 is stopped" in refused.err

    gateway.must("start", "v0")
    shown = gateway.must("steps", "v0", "--interval", "0.2", "--json").json
    assert [one["step"] for one in shown["steps"]] == STEPS
    assert shown["seconds"] >= 0.2
    assert gateway.must("steps", "v0").out.startswith("Volume v0, active, since it was started ")
