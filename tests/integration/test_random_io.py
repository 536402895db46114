"""Random reads and writes against a shadow copy, and against what the members hold by format.md."""

from __future__ import annotations

import errno
import functools
import itertools
import re
import subprocess
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from collections.abc import Iterator

import nbd
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, Served, wait_until
from iraid_dev.stack.reader import DIRTY, VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

MIB = 1 << 20
REQUESTS = 500 if SANITIZED else 1000
GIVE_UP_SECONDS = 2
# From the moment a member fails to the answer of the last request that waited for it: its deadline,
# then the eviction's two superblock writes.  The rest is for a slow machine.
STALL_SECONDS_MAX = GIVE_UP_SECONDS + (8 if SANITIZED else 4)


def reader_of(farm: TargetFarm) -> VolumeReader:
    return VolumeReader([farm.backing(number) for number in range(len(farm))])


def prepare(
    gateway: Gateway,
    farm: TargetFarm,
    level: int = 5,
    chunk: str = "64K",
    resynced: bool = False,
    give_up_seconds: int = GIVE_UP_SECONDS,
) -> None:
    """A volume v0, stopped in iraid-engine."""
    gateway.create("v0", farm.members(), level, chunk, "--give-up", str(give_up_seconds))
    gateway.configure("v0", assembly_wait_seconds=1)
    if resynced:
        wait_until(
            lambda: (status := gateway.status("v0"))["state"] == "active" and status["regions"]["suspect"] == 0,
            "the first resync",
        )
    gateway.must("stop", "v0")


def crowd(handle: nbd.NBD, shadow: Shadow, reader: VolumeReader, seed: int) -> None:
    """Small requests on few rows, 32 at a time: whatever of a row isn't kept in order shows here."""
    span = (0, 4 * reader.data_chunks * reader.truth.chunk)
    load = Load(
        handle,
        shadow,
        seed=seed,
        span=span,
        flush_share=0,
        fua_share=0,
        request_bytes_max=max(reader.truth.block, reader.truth.chunk // 2),
    )
    load.run(REQUESTS)
    load.check()


def shape_id(value: object) -> str | None:
    return "+".join(map(str, value)) if isinstance(value, tuple) else None


def long(*values: object) -> object:
    """A case for scripts/test --all."""
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    "level, chunk, count, block",
    [(5, "64K", 4, 512), (5, "4K", 3, 512), (5, "1M", 5, 512), (5, "16K", 4, 4096),
     (0, "64K", 3, 512), (0, "4K", 2, 4096),
     (1, "64K", 2, 512), long(1, "4K", 4, 4096), long(1, "1M", 3, 512),
     (6, "16K", 5, 4096), long(6, "64K", 6, 512), long(6, "4K", 4, 512),
     (10, "16K", 5, 512), long(10, "64K", 4, 512), long(10, "4K", 3, 4096)],
)  # fmt: skip
def test_healthy(
    gateway: Gateway,
    make_farm: Callable[..., TargetFarm],
    figure: Callable[..., None],
    level: int,
    chunk: str,
    count: int,
    block: int,
) -> None:
    """The load runs while the first resync does; all is as it must be on the members, then and later."""
    farm = make_farm(count, block_bytes=block)
    prepare(gateway, farm, level, chunk)
    reader = reader_of(farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert handle.get_size() == reader.size
        shadow = Shadow(reader.size)
        stats = Load(handle, shadow, seed=count).run(REQUESTS)
        figure("longest request", str(stats))
        assert not stats.failed and not stats.wrong, (stats.failed[:3], stats.wrong[:3])
        crowd(handle, shadow, reader, seed=50 + count)
        shadow.check_and_settle(reader.content())
        status = volume.wait_resynced()
        assert status["state"] == "active"
        assert read_all(handle) == reader.content()
    shadow.check(reader.content())
    assert not reader.flagged(DIRTY) or level == 0
    assert all(superblock.clean and not superblock.owner for superblock in reader.superblocks().values())
    assert reader.wrong_rows() == []


ABSENT = [
    *((5, 4, (lost,)) for lost in range(4)),
    long(1, 2, (0,)), long(1, 2, (1,)), long(1, 3, (0, 2)), (1, 4, (0, 1, 2)),
    (10, 4, (0, 3)), *(long(10, 5, (lost,)) for lost in range(5)),
    (6, 5, (2,)), (6, 5, (0, 4)), *(long(6, 5, pair) for pair in itertools.combinations(range(5), 2) if pair != (0, 4)),
]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("level, count, lost", ABSENT, ids=shape_id)
def test_members_missing_at_start(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int, lost: tuple[int, ...]
) -> None:
    """Each of them; of level 6 each pair; of levels 1 and 10 also as many as can be."""
    farm = make_farm(count)
    prepare(gateway, farm, level, resynced=True)
    reader = reader_of(farm)
    roles = [reader.files[number].superblock().role for number in lost]
    with gateway.serve("v0") as volume:
        shadow = Shadow(reader.size)
        Load(volume.connect(), shadow, seed=lost[0]).run(REQUESTS // 4)
        volume.wait_resynced()
    for number in lost:
        farm.kill(number)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        status = volume.status()
        assert status["state"] == "degraded"
        assert [number for number in range(count) if status["members"][number]["state"] == "missing"] == list(lost)
        load = Load(handle, shadow, seed=10 + lost[0])
        load.run(REQUESTS // 2)
        load.check()
        crowd(handle, shadow, reader, seed=60 + lost[0])
        content = reader.content(without=roles)
        shadow.check_and_settle(content)
        assert read_all(handle) == content
        if level in (5, 6):
            assert volume.status()["reads_reconstructed"] > 0
        check_survivors(reader, roles, "missing")


def check_survivors(reader: VolumeReader, roles: list[int], state: str) -> None:
    """Their superblocks say what became of the lost ones, whose own are older and don't know all of it."""
    superblocks = reader.superblocks()
    lost = {role: superblocks.pop(role) for role in roles}
    for role in roles:
        assert all(superblock.states[role] == state for superblock in superblocks.values())
        assert all(superblock.order > lost[role].order for superblock in superblocks.values())
        assert lost[role].states[role] == "in sync"


LOST_UNDER_LOAD = [
    *((how, *case) for how in ("SIGKILL", "SIGSTOP") for case in ((5, 4, (0,), "64K"), (5, 4, (3,), "4K"))),
    ("SIGKILL", 1, 2, (0,), "64K"), long("SIGSTOP", 1, 2, (1,), "64K"),
    long("SIGKILL", 1, 3, (1, 2), "16K"), long("SIGSTOP", 1, 3, (1, 2), "16K"),
    long("SIGKILL", 10, 3, (2,), "64K"), ("SIGSTOP", 10, 3, (2,), "64K"),
    long("SIGKILL", 10, 4, (0, 2), "4K"), long("SIGSTOP", 10, 4, (0, 2), "4K"),
    long("SIGKILL", 6, 5, (1,), "64K"), long("SIGSTOP", 6, 5, (1,), "64K"),
    long("SIGKILL", 6, 6, (0, 4), "16K"), long("SIGSTOP", 6, 6, (0, 4), "16K"),
]  # fmt: skip


@pytest.mark.parametrize("how, level, count, lost, chunk", LOST_UNDER_LOAD, ids=shape_id)
def test_members_lost_under_load(
    gateway: Gateway,
    make_farm: Callable[..., TargetFarm],
    figure: Callable[..., None],
    how: str,
    level: int,
    count: int,
    lost: tuple[int, ...],
    chunk: str,
) -> None:
    """No request fails, none waits for long; the lost members catch up when they come back."""
    farm = make_farm(count)
    prepare(gateway, farm, level, chunk=chunk, resynced=True)
    reader = reader_of(farm)
    with gateway.serve("v0") as volume:
        shadow = Shadow(reader.size)
        load = lose_under_load(volume, farm, reader, shadow, how, lost)
        figure(f"longest stall, {how}", str(load.stats))
        if lost == (3,):  # once for each way will do: an absent member is looked for only now and then
            return
        for number in lost:
            farm.restart(number) if how == "SIGKILL" else farm.cont(number)
        load.run(REQUESTS // 5)
        load.check()
        volume.wait_status(lambda status: status["state"] == "active", "the members to have caught up")
        load.run(REQUESTS // 5)
        load.check()
        volume.wait_resynced()
        volume.stop()
    assert reader.wrong_rows() == []
    # Whoever is left out now: those that returned make up for it.
    others = [role for role in range(count) if role not in lost]
    for gone in [(role,) for role in range(count)] + [tuple(others)]:
        if reader.shape.bears(gone):
            shadow.check(reader.content(without=gone))


def lose_under_load(
    volume: Served,
    farm: TargetFarm,
    reader: VolumeReader,
    shadow: Shadow,
    how: str,
    lost: tuple[int, ...],
    seed: int = 0,
    together: bool = False,
) -> Load:
    """One after the other, or at once, in the midst of a load that must not notice but for a pause."""
    roles = [reader.files[number].superblock().role for number in lost]
    handle = volume.connect()
    load = Load(handle, shadow, seed=seed + lost[0])
    for nth, number in enumerate(lost):
        moment = REQUESTS // 3 + (0 if together else nth * REQUESTS // 4)
        load.at(moment, functools.partial(farm.kill if how == "SIGKILL" else farm.stop, number))
    stats = load.run(REQUESTS)
    load.check()
    assert stats.longest_seconds < STALL_SECONDS_MAX
    status = volume.status()
    assert status["state"] == "degraded"
    for number in lost:
        assert status["members"][number]["state"] == "faulty" and status["members"][number]["reason"]
    check_survivors(reader, roles, "faulty")
    content = reader.content(without=roles)
    shadow.check_and_settle(content)
    assert read_all(handle) == content
    return load


@pytest.mark.parametrize(
    "level, silent", [(5, (1, 2)), (0, (1,)), long(1, (0, 1, 2, 3)), (6, (0, 1, 3)), long(10, (0, 1))], ids=shape_id
)
def test_too_many_members_away_for_a_moment(
    gateway: Gateway,
    make_farm: Callable[..., TargetFarm],
    figure: Callable[..., None],
    level: int,
    silent: tuple[int, ...],
) -> None:
    """More than the level bears, as when a switch reloads: I/O waits, nobody is evicted, no read or
    write fails, and nothing is lost."""
    farm = make_farm(4)
    # However long it takes to start the last of them, which is left alone then.
    prepare(gateway, farm, level=level, resynced=True, give_up_seconds=60)
    reader = reader_of(farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow = Shadow(reader.size)

        def away() -> None:
            for number in silent:
                farm.stop(number)
            for number in silent:
                farm.kill(number)
            volume.wait_status(lambda status: status["state"] == "suspended", "the suspension")
            for number in silent:
                farm.restart(number)

        load = Load(handle, shadow, seed=level).at(REQUESTS // 4, away)
        figure("longest stall", str(load.run(REQUESTS // 2)))
        # A lost session may have been a lost cache: the next flush fails for it, as fsync does.
        load.check(may_fail="flush|FUA write")
        status = volume.wait_status(lambda status: status["state"] == "active", "all members")
        assert [member["state"] for member in status["members"]] == ["in sync"] * 4
        shadow.check_and_settle(reader.content())
        volume.wait_resynced()
        assert read_all(handle) == reader.content()
        assert reader.wrong_rows() == []


def flush_error(handle: nbd.NBD) -> int:
    with pytest.raises(nbd.Error) as failed:
        handle.flush()
    return failed.value.errnum


@pytest.mark.parametrize("in_flight", [False, True])
def test_flushes_after_a_lost_cache_fail(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], in_flight: bool
) -> None:
    """Two of four targets die with an acknowledged write unflushed, and come back: what their caches
    held may be gone, so the flush that should have saved it must not succeed; also not one that was
    under way when they died and is repeated afterwards.  Nor may the next one, which another initiator
    could have sent, also not if iraid was started anew behind its back."""
    farm = make_farm(4)
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        handle.pwrite(b"x" * MIB, 0)
        results: list[int] = []
        for number in (1, 2):  # both silent before one is dead, or that one alone would be evicted
            farm.stop(number)
        if in_flight:
            before = volume.status()["requests_active"]
            handle.aio_flush(completion=lambda error: results.append(error.value) or 1)
            volume.wait_status(lambda status: status["requests_active"] > before, "the flush to begin")
        for number in (1, 2):
            farm.kill(number)
        volume.wait_status(lambda status: status["state"] == "suspended", "the suspension")
        for number in (1, 2):
            farm.restart(number)
        volume.wait_status(lambda status: status["state"] == "active", "all members")
        if in_flight:
            wait_until(lambda: handle.poll(0) >= 0 and results, "the flush's answer")
            assert results == [errno.EIO]
        else:
            assert flush_error(handle) == errno.EIO
        assert flush_error(handle) == errno.EIO
        assert volume.status()["regions"]["suspect"] == 0 or volume.wait_resynced()
        assert handle.pread(MIB, 0) == b"x" * MIB
    with gateway.serve("v0") as volume:
        assert flush_error(volume.connect()) == errno.EIO


@pytest.mark.no_sanitizer
def test_a_hung_member_with_default_limits_stalls_less_than_eight_seconds(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], figure: Callable[..., None]
) -> None:
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        shadow = Shadow(handle.get_size())
        load = Load(handle, shadow, seed=5).at(100, lambda: farm.stop(1))
        stats = load.run(REQUESTS // 2)
        figure("longest stall, SIGSTOP", str(stats))
        load.check()
        assert 3 < stats.longest_seconds < 8  # below 3 it wasn't hung, or not noticed


@contextmanager
def syncs_of(farm: TargetFarm, folder: Path) -> Iterator[Callable[[], list[int]]]:
    """Yields a function: how often each target's tgtd has synced its file to disk so far."""
    traces = []
    for target in farm.targets:
        assert target.process is not None
        output = folder / f"syncs{target.number}"
        process = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-e",
                "trace=fsync,fdatasync,sync_file_range",
                "-o",
                str(output),
                "-p",
                str(target.process.pid),
            ]
        )
        traces.append((process, output))
        tasks = Path(f"/proc/{target.process.pid}/task")
        wait_until(
            lambda tasks=tasks: all(
                not re.search(r"^TracerPid:\s+0$", (task / "status").read_text(), re.MULTILINE)
                for task in tasks.iterdir()
            ),
            "strace to see all threads of tgtd",
        )
    try:
        yield lambda: [len(re.findall(r"sync\w*\(", path.read_text())) for _, path in traces]
    finally:
        for process, _ in traces:
            process.terminate()
            process.wait()


@pytest.mark.parametrize("level", [0, 5, 6, long(1), long(10)])
def test_flush_and_fua_reach_the_members(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path, level: int
) -> None:
    """A flush syncs every member that was written to; FUA at least the members that hold the write, on levels 5
    and 6 all of its row, since the others are what it would be rebuilt from; a plain write none, in a
    region that is dirty already."""
    farm = make_farm(4)
    prepare(gateway, farm, level=level)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        reader = reader_of(farm)
        holders = {role for role, _ in reader.shape.places(0)}
        row = bytes(range(256)) * (4 * reader.truth.chunk // 256)  # some of every member, whatever the level
        handle.pwrite(row, 0)
        handle.flush()
        with syncs_of(farm, tmp_path) as syncs:
            before = syncs()
            handle.pwrite(row, 0)
            assert syncs() == before
            handle.flush()
            flushed = syncs()
            assert all(now > then for now, then in zip(flushed, before))
            handle.pwrite(row, 0)
            assert syncs() == flushed
            handle.pwrite(row[:512], 4096, nbd.CMD_FLAG_FUA)
            synced = {number for number, then in enumerate(flushed) if syncs()[number] > then}
            assert reader.place(4096)[0] in synced if level == 0 else synced >= holders


def test_requests_that_are_not_whole_blocks_are_refused(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        handle.set_strict_mode(handle.get_strict_mode() & ~(nbd.STRICT_ALIGN | nbd.STRICT_BOUNDS))
        for offset, length in ((100, 512), (512, 100), (511, 1)):
            for request in (lambda: handle.pread(length, offset), lambda: handle.pwrite(bytes(length), offset)):
                with pytest.raises(nbd.Error) as refused:
                    request()
                assert refused.value.errnum == errno.EINVAL
        assert handle.pread(512, 0) == bytes(512)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_long_load_with_a_member_lost(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], figure: Callable[..., None], seed: int
) -> None:
    chunk = ("4K", "8K", "32K", "128K", "512K", "1M")[seed]
    count = 3 + seed
    farm = make_farm(count)
    prepare(gateway, farm, chunk=chunk, resynced=True)
    reader = reader_of(farm)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow = Shadow(reader.size)
        lose = farm.stop if seed % 2 else farm.kill
        load = Load(handle, shadow, seed=100 + seed).at(4000, lambda: lose(seed % count))
        figure("longest stall", str(load.run(8000)))
        load.check()
        role = reader.files[seed % count].superblock().role
        shadow.check_and_settle(reader.content(without=role))
        assert read_all(handle) == reader.content(without=role)


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, marks=pytest.mark.long, id=shape_id(pair)) for pair in itertools.combinations(range(6), 2)],
)
def test_any_two_members_of_level_6_lost_at_once(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], figure: Callable[..., None], pair: tuple[int, int]
) -> None:
    """Killed in the same moment under a verifying load, then brought back, then both again, hanging this time."""
    farm = make_farm(6)
    prepare(gateway, farm, 6, resynced=True)
    reader = reader_of(farm)
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        for how, back in (("SIGKILL", farm.restart), ("SIGSTOP", farm.cont)):
            load = lose_under_load(volume, farm, reader, shadow, how, pair, seed=sum(pair), together=True)
            figure(f"members {pair[0]} and {pair[1]}, {how}, longest stall", str(load.stats))
            for number in pair:
                back(number)
            load.run(REQUESTS // 10)
            load.check()
            volume.wait_status(lambda status: status["state"] == "active", "both to have caught up")
        volume.wait_resynced()
    assert reader.wrong_rows() == []
    shadow.check(reader.content(without=tuple(role for role in range(4) if role not in pair)[:2]))
