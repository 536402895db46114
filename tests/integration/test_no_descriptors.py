"""No file descriptor is free: who asks is told, a member that went comes back by itself once there are some."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from test_control import Connection, kind, request

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, call
from iraid_dev.stack.shadow import Load, Shadow, read_all

REFUSED = 200
REMEDY = "LimitNOFILE"


@contextmanager
def limited(pid: int, count: int = 3) -> Iterator[None]:
    """Numbers from `count` on can't be given to a new descriptor; those that are open stay."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def all_used(pid: int, path: Path) -> Iterator[None]:
    """Every number below the limit is that of an open descriptor."""
    used = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    with ExitStack() as stack:
        for _ in range(max(used) + 1 - len(used)):
            filling = stack.enter_context(Connection(path))
            filling.send(request("version"))
            assert "result" in filling.answer()
        with limited(pid, max(used) + 1):
            yield


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("name", ["control.sock", "monitor.sock"])
def test_who_connects_is_told_and_the_log_names_the_remedy(gateway: Gateway, name: str) -> None:
    assert gateway.engine is not None
    path = gateway.socket.with_name(name)
    with all_used(gateway.engine.pid, gateway.socket):
        for _ in range(REFUSED):
            with Connection(path) as connection:
                answer = connection.answer()
                assert kind(answer) == "busy" and connection.ended()
        assert "Too many open files" in answer["error"]["message"]
        assert REMEDY in answer["error"]["data"]["remedy"]
        told = gateway.iraid("--socket", path, "status")
        assert told.status != 0 and "Too many open files" in told.err and REMEDY in told.err
    assert call(path, "version")["pid"] == gateway.engine.pid
    lines = [line for line in gateway.engine.said().splitlines() if REMEDY in line]
    assert len(lines) == 1 and name.partition(".")[0] in lines[0], gateway.engine.said()


@pytest.mark.no_sanitizer
def test_a_caller_who_can_not_even_be_refused_waits_and_nothing_turns(gateway: Gateway) -> None:
    """What a loop that turns would cost is measured by a loop of our own."""
    assert gateway.engine is not None
    with ExitStack() as stack:
        with limited(gateway.engine.pid):
            waiting = [stack.enter_context(Connection(gateway.socket)) for _ in range(10)]
            before, begin = processor_seconds(gateway.engine.pid), time.process_time()
            while time.process_time() - begin < 0.5:
                pass
            assert processor_seconds(gateway.engine.pid) - before <= 0.1
        for connection in waiting:
            connection.send(request("version"))
            assert "result" in connection.answer()


@pytest.mark.parametrize("level, count", [(5, 3), pytest.param(1, 2, marks=pytest.mark.long)])
def test_a_member_that_went_comes_back_once_there_are_descriptors(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int
) -> None:
    """Of level 1 its eviction waits until the epoch is on record."""
    farm = make_farm(count)
    gateway.create("v0", farm.members(), level, "64K", "--give-up", "2")
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        shadow = Shadow(handle.get_size())
        load = Load(handle, shadow, seed=1)
        with Connection(volume.control) as held:
            held.send(request("version"))
            assert "result" in held.answer()
            with limited(volume.process.pid):
                farm.kill(1)
                farm.restart(1)
                load.run(300)
                load.check()
                held.send(request("volume.status", name="v0"))
                status = held.answer()["result"]
        assert status["state"] == "degraded"
        assert "Too many open files" in (reason := status["members"][1]["reason"]) and REMEDY in reason
        assert REMEDY in volume.process.said()
        volume.wait_status(lambda status: status["state"] == "active", "the member's return")
        farm.kill(0)
        shadow.check(read_all(handle))
