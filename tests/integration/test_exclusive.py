"""One user at a time: on this machine by a lock, between gateways by reservations on the members."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import nbd
import pytest
from fake_target import FakeTarget

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, call, wait_until
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

MIB = 1 << 20
PATTERN = b"written by the gateway that lost its place " * 24 + bytes(16)  # blocks of 512
# A refused start ends at once; on a loaded machine a member may be slow to be asked.
REFUSED_SECONDS = "30"


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(3)


@pytest.fixture
def reader(farm: TargetFarm, gateway: Gateway) -> VolumeReader:
    """Of volume v0, made and stopped; the first gateway knows it."""
    gateway.create("v0", farm.members(), 5, "64K", "--give-up", "2")
    wait_until(
        lambda: (status := gateway.status("v0"))["state"] == "active" and status["regions"]["suspect"] == 0,
        "the first resync",
    )
    gateway.must("stop", "v0")
    return VolumeReader([farm.backing(number) for number in range(len(farm))])


@pytest.fixture
def other(make_gateway: Callable[[], Gateway], gateway: Gateway, reader: VolumeReader) -> Gateway:
    """Another gateway that knows v0 too, with an id and an initiator name of its own."""
    made = make_gateway()
    shutil.copytree(gateway.config, made.config, dirs_exist_ok=True)
    made.configure("v0", initiator="iqn.2026-01.org.iraid:other:v0")
    made.start()
    return made


def test_what_iraid_engine_uses_is_refused_to_nbdkit(gateway: Gateway, reader: VolumeReader) -> None:
    gateway.must("start", "v0")
    assert gateway.engine is not None
    pid = gateway.engine.pid
    served = gateway.serve("v0")
    served.process.wait(status=1)
    assert f"in use by iraid-engine pid {pid}" in served.process.said()
    assert gateway.status("v0")["state"] == "active"


def test_what_nbdkit_uses_is_refused_to_iraid_engine(gateway: Gateway, reader: VolumeReader) -> None:
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        holder = f"in use by nbdkit pid {volume.process.pid}"
        for words in (("start", "v0"), ("delete", "v0", "--yes")):
            ran = gateway.iraid(*words)
            assert ran.status == 1 and holder in ran.err and "remedy:" in ran.err, ran
        assert gateway.status("v0")["state"] == "stopped"
        # Nor may it be stopped under its user.
        ran = gateway.iraid("--socket", volume.control, "stop", "v0")
        assert ran.status == 1 and "nbdkit: v0" in ran.err, ran
        second = gateway.serve("v0")
        second.process.wait(status=1)
        assert holder in second.process.said()
        handle.pwrite(bytes(512), 0)
    gateway.must("start", "v0")


def test_a_delete_that_is_refused_logs_in_nowhere(gateway: Gateway) -> None:
    """A log-in as the volume's, which it has to be where it stopped without giving back, ends the volume's session."""
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(FakeTarget(size_bytes=32 * MIB)) for _ in range(2)]
        gateway.create("v0", [target.member for target in targets], 1, "64K")
        gateway.must("stop", "v0")
        with gateway.serve("v0") as volume:
            volume.connect().pread(512, 0)
            before = [list(target.isids) for target in targets]
            ran = gateway.iraid("delete", "v0", "--yes")
            assert ran.status == 1 and f"in use by nbdkit pid {volume.process.pid}" in ran.err, ran
            assert [target.isids for target in targets] == before


def test_another_gateway_is_refused_and_disturbs_nothing(
    gateway: Gateway, other: Gateway, reader: VolumeReader
) -> None:
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow = Shadow(reader.size, read_all(handle))
        before = reader.superblocks()
        sessions = [member["errors"] for member in volume.status()["members"]]

        def intrude() -> None:
            ran = other.iraid("start", "v0", "--timeout", REFUSED_SECONDS)
            assert ran.status == 1
            for words in ("another gateway", "reservation key", "--take-over"):
                assert words in ran.err, ran

        load = Load(handle, shadow, seed=1).at(100, intrude)
        load.run(300)
        load.check()
        status = volume.status()
        assert status["state"] == "active"
        assert [member["errors"] for member in status["members"]] == sessions
        after = reader.superblocks()
        assert [s.order for s in after.values()] == [s.order for s in before.values()]
        # Neither may it make something new of them.
        members = [member["member"] for member in status["members"]]
        ran = other.iraid("create", "v1", "--level", "5", "--force", *members)
        assert ran.status == 1, ran
        assert not (other.config / "volumes/v1.conf").exists()
        shadow.check(read_all(handle))
    other.must("stop", "v0")
    other.must("start", "v0")  # given back: nothing has to be taken over
    ran = gateway.iraid("start", "v0", "--timeout", REFUSED_SECONDS)
    assert ran.status == 1 and "another gateway" in ran.err, ran


def test_a_cloned_gateway_is_another_one(
    gateway: Gateway, make_gateway: Callable[[], Gateway], reader: VolumeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all files of the first, but the machine's id, and knows nothing of the first one's being alive."""
    clone = make_gateway()
    for copied, into in ((gateway.config, clone.config), (gateway.state, clone.state)):
        shutil.copytree(copied, into, dirs_exist_ok=True)
    machine = clone.folder / "machine-id"
    machine.write_text("0123456789abcdef0123456789abcdef\n")
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        handle.pwrite(PATTERN[:512], 0)
        with monkeypatch.context() as on_the_clone:
            on_the_clone.setenv("IRAID_MACHINE_ID", str(machine))
            clone.start()
        ran = clone.iraid("start", "v0", "--timeout", REFUSED_SECONDS)
        assert ran.status == 1 and "another gateway" in ran.err and "--take-over" in ran.err, ran
        handle.flush()
        assert handle.pread(512, 0) == PATTERN[:512]
        assert volume.status()["state"] == "active"


def test_take_over_fences_the_first_gateway(gateway: Gateway, other: Gateway, reader: VolumeReader) -> None:
    """What it had acknowledged is there; what it writes afterwards fails, and none of it lands."""
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow = Shadow(reader.size, read_all(handle))
        load = Load(handle, shadow, seed=2)
        load.run(200)
        load.check()
        other.must("start", "v0", "--take-over")
        assert other.status("v0")["state"] == "active"
        failures = 0
        for attempt in range(30):
            try:
                handle.pwrite(PATTERN[:512] * 128, attempt * MIB, nbd.CMD_FLAG_FUA)
            except nbd.Error:
                failures += 1
        assert failures == 30
        with pytest.raises(nbd.Error):
            handle.flush()
        status = volume.wait_status(lambda status: status["state"] == "standby", "it to see the fence")
        assert "another gateway" in status["reason"]
        owner = reader.superblocks()[0].owner
        assert "iraid-engine" in owner and "nbdkit" not in owner
    # Its orderly stop has written nothing either.
    assert all(superblock.owner == owner and not superblock.clean for superblock in reader.superblocks().values())
    assert other.status("v0")["state"] == "active"
    other.must("stop", "v0")
    content = reader.content()
    assert PATTERN[:512] not in bytes(content)
    shadow.check(content)
    assert reader.wrong_rows() == []


def stopped(pid: int) -> bool:
    """Whether no thread of the process runs any more: SIGSTOP is sent before it has arrived everywhere."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(state == "T" for state in states)


def test_after_a_take_over_no_write_of_a_gateway_that_hung_lands(
    gateway: Gateway, other: Gateway, reader: VolumeReader
) -> None:
    """It is stopped with writes in flight, and continues when another has written the same places:
    its writes must not land late."""
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        errors: list[int] = []
        volume.process.popen.send_signal(signal.SIGSTOP)
        wait_until(lambda: stopped(volume.process.pid), "all of its threads to stop")
        late = PATTERN[:512] * 128
        for number in range(16):
            handle.aio_pwrite(late, number * MIB, completion=lambda e: errors.append(e.value) or 1)
        while handle.poll(0) > 0:
            pass  # as much as goes into the socket
        other.must("start", "v0", "--take-over")
        other.must("stop", "v0")
        with other.serve("v0") as successor:
            second = successor.connect()
            fresh = random.Random(3).randbytes(16 * MIB)
            second.pwrite(fresh, 0)
            volume.process.popen.send_signal(signal.SIGCONT)
            wait_until(lambda: handle.poll(100) >= 0 and len(errors) == 16, "its writes' answers")
            assert all(errors), errors
            assert second.pread(16 * MIB, 0) == fresh
        assert reader.content()[: 16 * MIB] == fresh
        assert reader.wrong_rows() == []


def test_a_killed_gateway_needs_no_take_over_by_itself(gateway: Gateway, other: Gateway, reader: VolumeReader) -> None:
    """Its reservations outlive it: it comes back to them at once, and another must ask for them."""
    with gateway.serve("v0") as volume:
        volume.connect().pwrite(bytes(512), 0)
        volume.kill()
    ran = other.iraid("start", "v0", "--timeout", REFUSED_SECONDS)
    assert ran.status == 1 and "another gateway" in ran.err, ran
    other.must("stop", "v0")
    gateway.must("start", "v0")
    gateway.kill()
    other.must("start", "v0", "--take-over")
    assert other.status("v0")["state"] == "active"


def test_status_of_a_refused_volume_says_who_has_it(gateway: Gateway, other: Gateway, reader: VolumeReader) -> None:
    with gateway.serve("v0") as volume:
        volume.connect()
        refused = other.iraid("start", "v0", "--timeout", REFUSED_SECONDS)
        assert refused.status == 1 and "another gateway" in refused.err, refused
        status = other.must("status", "v0", "--json").json
        assert status["state"] == "failed"
        assert "another gateway" in status["reason"]
        assert json.dumps(status).count(gateway.configuration("v0")["uuid"]) == 1
        with pytest.raises(RpcError) as unknown:
            call(other.socket, "volume.status", name="v1")
        assert unknown.value.kind == "not_found"


def test_a_half_is_started_by_who_stopped_the_volume_alone(
    gateway: Gateway, make_gateway: Callable[[], Gateway], make_farm: Callable[..., TargetFarm]
) -> None:
    """It may have started the other half since, which nobody can tell who does not reach that."""
    farm = make_farm(2)
    gateway.create("v0", farm.members(), 1, "64K", "--give-up", "2")
    gateway.must("wait", "v0")
    gateway.must("stop", "v0")
    second = make_gateway()
    shutil.copytree(gateway.config, second.config, dirs_exist_ok=True)
    second.configure("v0", initiator="iqn.2026-01.org.iraid:other:v0")
    second.start()
    farm.kill(0)
    fresh = random.Random(9).randbytes(MIB)
    with gateway.serve("v0") as volume:
        volume.connect().pwrite(fresh, 0, nbd.CMD_FLAG_FUA)
        volume.kill()
    gateway.stop()
    farm.kill(1)
    farm.restart(0)
    for how in ([], ["--take-over"]):
        ran = second.iraid("start", "v0", *how, "--timeout", REFUSED_SECONDS)
        assert ran.status == 1 and "1 of 2 in sync do, 2 are needed" in ran.err and "--force" in ran.err, ran
    second.must("stop", "v0")
    farm.restart(1)
    second.must("start", "v0", "--take-over")
    second.must("wait", "v0")
    second.must("stop", "v0")
    second.stop()
    assert VolumeReader([farm.backing(number) for number in range(len(farm))]).content()[:MIB] == fresh
