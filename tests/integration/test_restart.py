"""Crashes, restarts, and members that are not what they were."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import nbd
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, Served, wait_until
from iraid_dev.stack.reader import DIRTY, VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = pytest.mark.once

MIB = 1 << 20
REQUESTS = 200 if SANITIZED else 400


def long(*values: object) -> object:
    """A case for scripts/test --all."""
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(4)


def prepare(gateway: Gateway, farm: TargetFarm, level: int = 5, chunk: str = "16K", *more: str) -> VolumeReader:
    """Volume v0, its parity proven, stopped in order."""
    gateway.create("v0", farm.members(), level, chunk, "--give-up", "2", *more)
    gateway.configure("v0", assembly_wait_seconds=1)
    wait_until(
        lambda: (status := gateway.status("v0"))["state"] == "active" and status["regions"]["suspect"] == 0,
        "the first resync",
    )
    gateway.must("stop", "v0")
    return VolumeReader([farm.backing(number) for number in range(len(farm))])


def spoil(path: Path, seed: int = 1) -> None:
    """Random bytes instead of all that a target held."""
    with path.open("r+b") as file:
        for _ in range(path.stat().st_size // MIB):
            file.write(random.Random(seed).randbytes(4096) * (MIB // 4096))
            seed += 1


def crash_under_load(
    volume: Served, shadow: Shadow, seed: int, span: tuple[int, int], also: Callable[[], None] = lambda: None
) -> Load:
    """SIGKILL of nbdkit with 32 requests in flight."""

    def crash() -> None:
        volume.process.kill()
        also()

    load = Load(volume.connect(), shadow, seed=seed, span=span, flush_share=0.01, fua_share=0.02)
    stats = load.run_until_broken(REQUESTS, crash)
    assert not stats.wrong, stats.wrong[:3]
    assert stats.requests - len(stats.failed) >= REQUESTS // 2, "hardly anything was answered"
    return load


@pytest.mark.parametrize("level", [5, 6, long(0), long(1), long(10)])
def test_killed_under_load(gateway: Gateway, farm: TargetFarm, level: int) -> None:
    """Twice.  What was acknowledged is there; wrong parity or copies are only where the map says dirty, only
    that is resynchronised, and then all of it is right."""
    reader = prepare(gateway, farm, level)
    shadow = Shadow(reader.size)
    for attempt in range(2):
        third = reader.size // 3 // MIB * MIB
        with gateway.serve("v0") as volume:
            crash_under_load(volume, shadow, attempt, (attempt * third, (attempt + 1) * third))
        assert not any(superblock.clean for superblock in reader.superblocks().values())
        with gateway.serve("v0") as volume:
            handle = volume.connect()  # the members are fenced: nothing lands late from here on
            shadow.check_and_settle(read_all(handle))
            status = volume.wait_resynced()
            assert status["state"] == "active"
            assert reader.content() == read_all(handle)
            if level != 0:
                total = status["resync"]["total_rows"]
                assert 0 < total <= reader.truth.rows // 2  # the load was in a third of it
                assert status["resync"]["done_rows"] == total
                assert reader.wrong_rows() == []


@pytest.mark.parametrize("level", [5, 6, long(1), long(10)])
def test_wrong_parity_after_a_crash_is_where_the_map_says_dirty(gateway: Gateway, farm: TargetFarm, level: int) -> None:
    """Or copies that differ."""
    reader = prepare(gateway, farm, level)
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        crash_under_load(volume, shadow, 7, (0, reader.size // 3 // MIB * MIB))
    for number in range(4):  # what the targets had queued is done or gone
        farm.kill(number)
    wrong = reader.regions_of_rows(reader.wrong_rows())
    for role in range(4):
        assert wrong <= reader.flagged(DIRTY, [role])
    for number in range(4):
        farm.restart(number)
    dirty = len(reader.flagged(DIRTY))
    with gateway.serve("v0") as volume:
        volume.connect()
        status = volume.wait_resynced()
        assert 0 < status["resync"]["total_rows"] <= dirty * reader.truth.region_rows
        assert reader.wrong_rows() == []


def test_no_write_before_its_region_is_marked_on_all_members(gateway: Gateway, farm: TargetFarm) -> None:
    """One member hangs before it has the mark: the others get the mark, and no data before it has too."""
    reader = prepare(gateway, farm, 5, "16K", "--give-up", "20")
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        wait_until(lambda: volume.status()["state"] == "active", "the volume to run")
        assert not reader.flagged(DIRTY)
        row = random.Random(4).randbytes(reader.data_chunks * reader.truth.chunk)
        hung = 3
        others = [role for role in range(4) if reader.by_role[role].path != farm.backing(hung)]
        readable = [
            number
            for number in range(reader.data_chunks, 4 * reader.data_chunks)
            if reader.role_of_chunk(number) in others
        ]
        before = [reader.by_role[role].read(reader.truth.data.offset, reader.truth.chunk) for role in others]
        farm.stop(hung)
        answers: list[int] = []
        handle.aio_pwrite(row, 0, completion=lambda error: answers.append(error.value) or 1)
        wait_until(lambda: handle.poll(0) >= 0 and reader.flagged(DIRTY, others) == {0}, "the mark")
        for number in readable * 20:  # commands that came later are answered: there was time for more
            handle.pread(512, number * reader.truth.chunk)
        after = [reader.by_role[role].read(reader.truth.data.offset, reader.truth.chunk) for role in others]
        assert after == before
        assert not answers
        farm.cont(hung)
        wait_until(lambda: handle.poll(100) >= 0 and answers, "the write's answer")
        assert answers == [0]
        assert reader.flagged(DIRTY, [reader.files[hung].superblock().role]) == {0}
        assert reader.content()[: len(row)] == row


@pytest.mark.parametrize("level", [5, long(6), long(1), 10])
def test_first_resync_survives_kills(make_gateway: Callable[[], Gateway], farm: TargetFarm, level: int) -> None:
    """On members full of rubbish every row's parity is wrong, or its copies differ, at first."""
    gateway = make_gateway()
    gateway.start()
    for number in range(4):
        spoil(farm.backing(number), seed=1000 * number)
    slowly = gateway.config / "gateway.conf"
    slowly.write_text("[volumes]\nsync_rate_min = 1M\nsync_rate_max = 1M\n")
    gateway.create("v0", farm.members(), level, "16K")
    gateway.kill()  # with the resync hardly begun
    slowly.unlink()
    reader = VolumeReader([farm.backing(number) for number in range(4)])
    before = reader.content()
    assert reader.wrong_rows()
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow = Shadow(reader.size, before)
        crash_under_load(volume, shadow, 3, (0, reader.size))
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_resynced()
        shadow.check_and_settle(read_all(handle))
        assert reader.wrong_rows() == []
    assert not reader.flagged(DIRTY)


def test_clean_stop_leaves_nothing_dirty(gateway: Gateway, farm: TargetFarm) -> None:
    reader = prepare(gateway, farm)
    epochs = []
    for seed in range(2):
        with gateway.serve("v0") as volume:
            handle = volume.connect()
            status = volume.status()
            assert status["regions"]["suspect"] == 0
            assert status["resync"]["total_rows"] == 0 and not status["resync"]["running"]
            epochs.append(status["epoch"])
            Load(handle, Shadow(reader.size, read_all(handle)), seed=seed).run(REQUESTS // 4)
            assert reader.flagged(DIRTY)
        assert not reader.flagged(DIRTY)
        assert all(superblock.clean for superblock in reader.superblocks().values())
        assert reader.wrong_rows() == []
    assert epochs[1] == epochs[0] + 1


@pytest.mark.parametrize("wiped, level", [long(0, 5), (2, 5), (0, 1), long(2, 6), long(1, 10)])
def test_a_wiped_member_starts_degraded_and_reads_right(
    gateway: Gateway, farm: TargetFarm, wiped: int, level: int
) -> None:
    """As when a disk was replaced, or somebody else wrote over it."""
    reader = prepare(gateway, farm, level)
    role = reader.files[wiped].superblock().role
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        Load(volume.connect(), shadow, seed=wiped).run(REQUESTS)
    spoil(farm.backing(wiped))
    spoiled = farm.backing(wiped).read_bytes()
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow.check_and_settle(read_all(handle))
        status = volume.status()
        assert status["state"] == "degraded"
        assert (status["members"][wiped]["state"], status["empty_roles"]) == ("unknown", [role])
        assert "superblock" in status["members"][wiped]["reason"]
        load = Load(handle, shadow, seed=20 + wiped)
        load.run(REQUESTS // 2)
        load.check()
        shadow.check(reader.content(without=role))
    assert farm.backing(wiped).read_bytes() == spoiled, "something was written to a stranger"


@pytest.mark.parametrize(
    "level, others, said",
    [
        (5, (2,), ("2 of 4 members", "3 are needed")),
        long(6, (2, 3), ("1 of 4 members", "2 are needed")),
        long(10, (0,), ("2 of 4 members", "3 are needed")),
    ],
)
def test_a_stale_member_is_no_help_until_it_has_caught_up(
    gateway: Gateway, farm: TargetFarm, level: int, others: tuple[int, ...], said: tuple[str, ...]
) -> None:
    """Taken away, the volume written, brought back: it does not help a volume to start that lacks others,
    nothing is written to it then, and with those back it is brought up to date."""
    reader = prepare(gateway, farm, level)
    shadow = Shadow(reader.size)
    farm.kill(1)
    with gateway.serve("v0") as volume:
        load = Load(volume.connect(), shadow, seed=1)
        load.run(REQUESTS)
        load.check()
    farm.restart(1)
    for other in others:
        farm.kill(other)
    before = farm.digests()
    ran = gateway.iraid("start", "v0", "--timeout", "3")
    assert ran.status == 1
    assert all(words in ran.err for words in said), ran
    assert gateway.status("v0")["members"][1]["state"] != "in sync"
    gateway.must("stop", "v0")
    assert farm.digests() == before
    for other in others:
        farm.restart(other)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        shadow.check_and_settle(read_all(handle))
        volume.wait_status(
            lambda status: status["state"] == "active" and status["regions"]["suspect"] == 0,
            "the stale member to catch up",
        )
        load = Load(handle, shadow, seed=2)
        load.run(REQUESTS // 2)
        load.check()
        shadow.check(reader.content(without=reader.files[0].superblock().role))
    assert reader.wrong_rows() == []


def test_a_set_older_than_the_gateway_has_run_is_refused(gateway: Gateway, farm: TargetFarm) -> None:
    """As when the targets are reset to a snapshot: their superblocks agree, and only the gateway knows
    that there was more.  --force takes them."""
    reader = prepare(gateway, farm)
    with gateway.serve("v0") as volume:
        volume.connect().pwrite(b"old" + bytes(509), 0)
    snapshot = [farm.backing(number).read_bytes() for number in range(len(farm))]
    digests = farm.digests()
    with gateway.serve("v0") as volume:
        volume.connect().pwrite(b"new" + bytes(509), 0)
    epoch = reader.superblocks()[0].epoch
    for number, content in enumerate(snapshot):
        with farm.backing(number).open("r+b") as file:
            file.write(content)
    ran = gateway.iraid("start", "v0")
    assert ran.status == 1
    assert "newer ones are missing" in ran.err and "--force" in ran.err
    assert gateway.status("v0")["state"] == "failed"
    assert farm.digests() == digests
    gateway.must("start", "v0", "--force", "--yes")
    assert gateway.status("v0")["state"] == "active"
    assert gateway.status("v0")["epoch"] > epoch  # so that the lost one can't win, should it return
    gateway.must("stop", "v0")
    with gateway.serve("v0") as volume:
        assert volume.connect().pread(512, 0)[:3] == b"old"


@pytest.mark.parametrize("level, lost", [(5, (1,)), long(6, (1,)), (6, (0, 3)), long(1, (0,)), long(10, (1,))])
def test_dirty_and_degraded_after_a_crash(
    gateway: Gateway, farm: TargetFarm, level: int, lost: tuple[int, ...]
) -> None:
    """The gateway and members die together under load.  What the missing chunks of rows in flight held can't
    be known from parity: they are errors until overwritten, never silently wrong.  A copy is either."""
    reader = prepare(gateway, farm, level)
    roles = {reader.files[number].superblock().role for number in lost}
    shadow = Shadow(reader.size)

    def die() -> None:
        for number in lost:
            farm.kill(number)

    with gateway.serve("v0") as volume:
        crash_under_load(volume, shadow, 5, (0, reader.size // 2 // MIB * MIB), also=die)
    row_bytes = reader.data_chunks * reader.truth.chunk
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        dirty = reader.flagged(DIRTY, [other for other in range(4) if other not in roles])
        unknown = unreadable_chunks(handle, shadow, reader)
        if level in (1, 10):
            assert not unknown
            return
        assert unknown, "the crash left nothing undecided, so nothing was tested"
        for number in unknown:
            row = number // reader.data_chunks
            assert reader.role_of_chunk(number) in roles
            assert row // reader.truth.region_rows in dirty
        first_row = unknown[0] // reader.data_chunks
        fresh = random.Random(9).randbytes(row_bytes)
        handle.pwrite(fresh, first_row * row_bytes)
        assert handle.pread(row_bytes, first_row * row_bytes) == fresh
        shadow.write_ends(shadow.write_begins(first_row * row_bytes, memoryview(fresh)))
        left = unreadable_chunks(handle, shadow, reader)
        assert set(left) == {number for number in unknown if number // reader.data_chunks != first_row}


# Two sets of members without one in common, each of which would be enough (DESIGN rule 7)


@pytest.mark.parametrize(
    "level, count, lost",
    [(1, 2, (0,)), long(1, 2, (1,)), long(6, 4, (0, 2)), long(10, 4, (1, 2))],
    ids=lambda value: "+".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_the_half_that_was_evicted_is_not_started_alone(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int, lost: tuple[int, ...]
) -> None:
    """It calls itself in sync, and nobody there knows better: only this gateway remembers that the other half
    went on without it.  --force takes it as it stands; the other half is then the one that has to follow."""
    farm = make_farm(count)
    reader = prepare(gateway, farm, level)
    half, others = lost, tuple(number for number in range(count) if number not in lost)
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        handle.pwrite(b"old" + bytes(509), 0)
        volume.wait_status(lambda status: status["regions"]["dirty"] == 0, "the mark to be cleared")
        load = Load(handle, shadow, seed=1, span=(8 * MIB, reader.size))
        load.at(REQUESTS // 2, lambda: [farm.kill(number) for number in half])
        load.run(REQUESTS)
        load.check()
        handle.pwrite(b"new" + bytes(509), 0)
        assert volume.status()["state"] == "degraded"
    for number in others:
        farm.kill(number)
    for number in half:
        farm.restart(number)
    before = farm.digests()
    ran = gateway.iraid("start", "v0", "--timeout", "3")
    assert ran.status == 1 and "newer ones are missing" in ran.err and "--force" in ran.err, ran
    gateway.must("stop", "v0")
    assert farm.digests() == before, "something was written to the half that is refused"

    for number in half:  # the half that went on starts, if the others are there or not
        farm.kill(number)
    for number in others:
        farm.restart(number)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert handle.pread(512, 0)[:3] == b"new"
    for number in others:
        farm.kill(number)
    for number in half:
        farm.restart(number)
    gateway.must("start", "v0", "--force", "--yes")
    gateway.must("stop", "v0")
    for number in others:
        farm.restart(number)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        volume.wait_status(
            lambda status: status["state"] == "active" and status["regions"]["suspect"] == 0, "the other half to follow"
        )
        assert handle.pread(512, 0)[:3] == b"old"
    assert reader.wrong_rows() == []


def unreadable_chunks(handle: nbd.NBD, shadow: Shadow, reader: VolumeReader) -> list[int]:
    """Chunks that are errors; what all others hold is checked."""
    chunk, unreadable = reader.truth.chunk, []
    for number in range(reader.size // chunk):
        began = shadow.read_begins()
        try:
            data = handle.pread(chunk, number * chunk)
        except nbd.Error as error:
            assert error.errnum == errno.EIO
            unreadable.append(number)
            continue
        assert shadow.read_ends(began, number * chunk, bytearray(data)) is None
    return unreadable
