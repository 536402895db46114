"""A volume takes the size that its members have grown to, while it is used.

What members have grown by is filled with rubbish before the volume sees it, so that what fits afterwards was made
to fit.  Looked at from three sides: what is read, what stands on the members (reader.py), and what is left when
members, or the gateway, go at any moment of it.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import nbd
import pytest
from gate import Gate
from test_levels import gone_sets
from test_members import Command, all_in_sync, by_member, lose, spoil, wait_in_sync

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, RpcError, Served, call, wait_until
from iraid_dev.stack.reader import DIRTY, UNWRITTEN, Superblock, VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = pytest.mark.once

MIB = 1 << 20
CHUNK = 16 << 10
REGION_ROWS = 64
BEGIN = 4 * MIB  # of the data of small members: map, log, checksums before it
OLD_BYTES = BEGIN + (12 * REGION_ROWS + 5) * CHUNK + 512  # the last region is begun, and so is a chunk
NEW_BYTES = BEGIN + 18 * MIB + 3 * CHUNK + 4096
STEP_BYTES = MIB + 3 * CHUNK  # of those that grow again and again
GROW_SECONDS_MAX = 20.0


def long(*values: object) -> object:
    """A case for scripts/test --all."""
    return pytest.param(*values, marks=pytest.mark.long)


def grown_data_bytes(superblock: Superblock, member_bytes: int) -> int:
    """As docs/design/format.md has it."""
    begin, covered, chunk = superblock.data.offset, 1024 * superblock.areas[2].length, superblock.chunk
    room = member_bytes - begin
    if room > covered:
        more = -(-(room - covered) // 1025)
        room = max(member_bytes // MIB * MIB - -(-more // MIB) * MIB - begin, covered)
    return room // chunk * chunk


def volume_bytes(level: int, count: int, member_bytes: int, chunk: int = CHUNK) -> int:
    """Of small members, whose first checksums cover all."""
    chunks = (member_bytes - BEGIN) // chunk
    return {0: chunks * count, 1: chunks, 5: chunks * (count - 1), 6: chunks * (count - 2), 10: chunks * count // 2}[
        level
    ] * chunk


def enlarge(farm: TargetFarm, number: int, size_bytes: int) -> None:
    """What the LUN has grown by holds rubbish."""
    path = farm.backing(number)
    old = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(old)
        file.write(random.Random(f"{number} {size_bytes}").randbytes(size_bytes - old))
    farm.resize(number, size_bytes)


def enlarge_all(farm: TargetFarm, size_bytes: int) -> None:
    for number in range(len(farm)):
        enlarge(farm, number, size_bytes)


def grow(volume: Served) -> dict[str, Any]:
    return call(volume.control, "volume.grow", name="v0")


class Growing(threading.Thread):
    """volume.grow on a thread: `answer`, or `error`, or nothing where the gateway ended first."""

    def __init__(self, volume: Served):
        super().__init__(name="grow", daemon=True)
        self.volume = volume
        self.answer: dict[str, Any] | None = None
        self.error: RpcError | None = None
        self.unexpected: Exception | None = None
        self.seconds = 0.0
        self.start()

    def run(self) -> None:
        begin = time.monotonic()
        try:
            self.answer = grow(self.volume)
        except RpcError as error:
            self.error = error
        except (OSError, ValueError):
            pass  # the gateway ended: no connection, no answer or a part of one
        except Exception as error:  # noqa: BLE001 - shown by wait()
            self.unexpected = error
        self.seconds = time.monotonic() - begin

    def over(self) -> bool:
        return not self.is_alive()

    def wait(self) -> Growing:
        self.join(GROW_SECONDS_MAX)
        assert not self.is_alive(), f"volume.grow did not end within {GROW_SECONDS_MAX:g} s"
        if self.unexpected is not None:
            raise self.unexpected
        return self


def prepare(gateway: Gateway, members: list[str], level: int, *more: str, chunk: str = "16K") -> int:
    """Volume v0, its parity proven, stopped in order; returns its size."""
    size = gateway.create("v0", members, level, chunk, "--give-up", "2", *more)["size_bytes"]
    gateway.configure("v0", assembly_wait_seconds=1, spare_wait_seconds=1)
    wait_until(
        lambda: (status := gateway.status("v0"))["state"] == "active" and status["regions"]["suspect"] == 0,
        "the first resync",
    )
    gateway.must("stop", "v0")
    return size


def read_members(farm: TargetFarm, count: int | None = None) -> VolumeReader:
    reader = VolumeReader([farm.backing(number) for number in range(count or len(farm))])
    for superblock in reader.superblocks().values():
        assert superblock.areas_fault() is None, superblock.areas_fault()
    return reader


def check_members(farm: TargetFarm, shadow: Shadow, losses_max: int = 100) -> None:
    """On the files: everything fits, and the content is there whoever is left out."""
    reader = read_members(farm)
    assert reader.size == shadow.size
    assert reader.wrong_rows() == []
    shadow.check(reader.content())
    for gone in gone_sets(reader)[:losses_max]:
        shadow.check(reader.content(without=gone))


def wait_cleared(farm: TargetFarm) -> None:
    """On the members: the status is a moment old, and may know of no mark yet."""
    wait_until(lambda: not read_members(farm).flagged(DIRTY), "the marks to be cleared", 30)


def longer(shadow: Shadow, handle: nbd.NBD) -> Shadow:
    """The shadow of a volume that has grown: the old part is as it was, what the new one holds must stay."""
    content = read_all(handle)
    assert len(content) >= shadow.size
    shadow.check(content[: shadow.size])
    return Shadow(len(content), content)


def use_the_new_part(handle: nbd.NBD, shadow: Shadow, old: int, seed: int, requests: int = 150) -> None:
    """Over the old end, and up to the last byte."""
    data = memoryview(random.Random(seed).randbytes(3 * CHUNK + 512))
    for place in (old - CHUNK - 512, shadow.size - len(data)):
        write = shadow.write_begins(place, data)
        handle.pwrite(bytes(data), place)
        shadow.write_ends(write)
        assert handle.pread(len(data), place) == data
    Load(handle, shadow, seed, span=(old // 2, shadow.size)).run(requests)
    handle.flush()


@pytest.fixture
def gated(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> Iterator[Callable[..., tuple[TargetFarm, Gate]]]:
    """gated(level, count): v0 on targets behind a gate."""
    gates: list[Gate] = []

    def make(level: int, count: int) -> tuple[TargetFarm, Gate]:
        farm = make_farm(count, size_bytes=OLD_BYTES)
        gate = Gate(farm)
        gates.append(gate.__enter__())
        prepare(gateway, gate.members(), level)
        return farm, gate

    yield make
    for gate in gates:
        gate.__exit__()


# It grows


@pytest.mark.parametrize(
    "level, count",
    [
        (5, 4),
        (0, 3),
        (10, 3),
        *(long(*case) for case in ((1, 2), (6, 5), (10, 4), (1, 4), (5, 3), (6, 4), (0, 2), (5, 7), (10, 5))),
    ],
)
def test_a_volume_grows_under_load(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int
) -> None:
    farm = make_farm(count, size_bytes=OLD_BYTES)
    old = prepare(gateway, farm.members(), level)
    new = volume_bytes(level, count, NEW_BYTES)
    assert old == volume_bytes(level, count, OLD_BYTES)
    shadow = Shadow(old)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        load = Load(handle, shadow, seed=level)
        growing: list[Growing] = []
        load.at(40, lambda: enlarge_all(farm, NEW_BYTES))
        load.at(80, lambda: growing.append(Growing(volume)))
        load.run(160)
        grown = growing[0].wait()
        load.check()
        assert grown.answer == {"name": "v0", "before_bytes": old, "size_bytes": new, "note": ""}, grown.error
        assert volume.status()["size_bytes"] == new
        assert {member["size_bytes"] for member in volume.status()["members"]} == {NEW_BYTES}
        volume.wait_resynced()
        large = volume.connect()
        assert large.get_size() == new
        shadow = longer(shadow, large)
        use_the_new_part(large, shadow, old, seed=level)
        volume.wait_resynced()
        if level != 0:
            lose(volume, farm, count - 1)
            shadow.check(read_all(large))
            farm.restart(count - 1)
    check_members(farm, shadow, losses_max=4)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        assert handle.get_size() == new
        shadow.check(read_all(handle))


@pytest.mark.parametrize("level, count", [(5, 4), long(1, 3), long(6, 5), long(10, 3)])
def test_new_rows_fit_at_once_or_are_marked(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int
) -> None:
    """No resync runs: what the region that was begun has gained reads as zeros and fits, all behind it is on the map."""
    farm = make_farm(count, size_bytes=OLD_BYTES)
    old = prepare(gateway, farm.members(), level)
    rows = read_members(farm).truth.rows
    gateway.configure("v0", sync_rate_min_bytes=65536, sync_rate_max_bytes=65536)
    with gateway.serve("v0") as volume:
        volume.connect()
        enlarge_all(farm, NEW_BYTES)
        assert grow(volume)["size_bytes"] > old
        reader = read_members(farm)
        begun = -(-rows // REGION_ROWS) * REGION_ROWS
        assert rows < begun < reader.truth.rows
        wrong = reader.wrong_rows()
        assert wrong and min(wrong) >= begun  # rubbish does not fit
        assert reader.flagged(UNWRITTEN) >= reader.regions_of_rows(wrong)
        assert reader.flagged(DIRTY) >= reader.regions_of_rows([*wrong, begun])
        row_bytes = reader.data_chunks * CHUNK
        assert not any(reader.content()[rows * row_bytes : begun * row_bytes])


@pytest.mark.long
def test_a_volume_grows_again_and_again(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """By less than a chunk, by a chunk, by much; with a stop in between."""
    farm = make_farm(4, size_bytes=OLD_BYTES)
    size = prepare(gateway, farm.members(), 5)
    shadow = Shadow(size)
    member_bytes = OLD_BYTES
    for round_, gains in enumerate([(512, CHUNK), (CHUNK, MIB + 512), (MIB - 512, 3 * MIB)]):
        with gateway.serve("v0") as volume:
            Load(volume.connect(), shadow, seed=round_).run(40)
            for gained in gains:
                member_bytes += gained
                enlarge_all(farm, member_bytes)
                expected = volume_bytes(5, 4, member_bytes)
                done = grow(volume)
                assert (done["before_bytes"], done["size_bytes"]) == (size, expected)
                assert ("nothing is gained" in done["note"]) == (expected == size)
                volume.wait_resynced()
                handle = volume.connect()
                assert handle.get_size() == expected
                shadow = longer(shadow, handle)
                if expected > size:
                    use_the_new_part(handle, shadow, size, seed=round_, requests=30)
                size = expected
            volume.wait_resynced()
    check_members(farm, shadow)


def test_beyond_one_gibibyte_there_are_more_checksums(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """What the first area of checksums covers ends there; sparse members, and no parity that would be read."""
    farm = make_farm(2, size_bytes=OLD_BYTES)
    prepare(gateway, farm.members(), 0)
    with gateway.serve("v0") as volume:
        volume.connect()
        for member_bytes, areas in ((BEGIN + (1 << 30), 4), (BEGIN + (1 << 30) + CHUNK, 4), (3 << 30, 5), (5 << 30, 5)):
            for number in range(2):
                farm.resize(number, member_bytes)
            grown = grow(volume)
            reader = read_members(farm)
            assert len(reader.truth.areas) == areas
            assert reader.truth.data_bytes == grown_data_bytes(reader.truth, member_bytes)
            assert reader.size == grown["size_bytes"] == 2 * reader.truth.data_bytes
            handle = volume.connect()
            data = random.Random(member_bytes).randbytes(2 * CHUNK)
            handle.pwrite(data, grown["size_bytes"] - len(data))
            handle.flush()
            assert handle.pread(len(data), grown["size_bytes"] - len(data)) == data
            role, place = reader.place(grown["size_bytes"] - CHUNK)
            assert reader.by_role[role].read(place, CHUNK) == data[-CHUNK:]


def test_as_many_regions_as_the_map_has_room_for(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    regions, chunk = 262144, 4096
    most = regions * REGION_ROWS * chunk  # of data on each member
    farm = make_farm(2, size_bytes=OLD_BYTES)
    prepare(gateway, farm.members(), 0, chunk="4K")
    with gateway.serve("v0") as volume:
        volume.connect()
        for _ in range(2):  # the second time there is nothing to gain
            for number in range(2):
                farm.resize(number, most + (16 << 30))
            grown = grow(volume)
            assert grown["size_bytes"] == 2 * most
            assert str(regions) in grown["note"] and "map" in grown["note"], grown
        handle = volume.connect()
        assert handle.get_size() == 2 * most
        handle.pwrite(b"end!" * 256, 2 * most - 1024)
        assert handle.pread(1024, 2 * most - 1024) == b"end!" * 256
    reader = read_members(farm)
    assert reader.truth.regions == regions
    with gateway.serve("v0") as volume:
        assert volume.connect().pread(1024, 2 * most - 1024) == b"end!" * 256


@pytest.mark.long
def test_a_scrub_that_is_under_way_goes_on_over_the_new_rows(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    farm = make_farm(4, size_bytes=OLD_BYTES)
    old = prepare(gateway, farm.members(), 5)
    shadow = Shadow(old)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        Load(handle, shadow, seed=1).run(100)
        iraid.must("set", "v0", "--rate-min", "64K", "--rate-max", "64K")
        iraid.must("scrub", "start", "v0")
        enlarge_all(farm, NEW_BYTES)
        grow(volume)
        assert volume.status()["scrub"]["active"], "it was over before the volume grew"
        reader, row = read_members(farm), old // (3 * CHUNK) + 7  # in what was the last region
        role, _ = reader.shape.places(row)[3]
        spoil(reader.by_role[role].path, reader.offset(row, role) + 77)
        iraid.must("set", "v0", "--rate-min", "1G", "--rate-max", "1G")
        status = volume.wait_status(lambda s: not s["scrub"]["active"], "the scrub's end", 60)
        assert status["scrub"]["mismatch_offsets"] == [row * 3 * CHUNK]
        spoil(reader.by_role[role].path, reader.offset(row, role) + 77)  # as it was
        volume.wait_resynced()
        shadow = longer(shadow, volume.connect())
    check_members(farm, shadow)


# It does not


def refused(volume: Served) -> RpcError:
    size = volume.status()["size_bytes"]
    with pytest.raises(RpcError) as caught:
        grow(volume)
    assert caught.value.remedy
    assert volume.status()["size_bytes"] == size
    return caught.value


def test_it_is_refused_unless_all_members_are_in_sync(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """One is out, then a spare is filled for it; then it may."""
    farm = make_farm(5, size_bytes=OLD_BYTES)
    members = farm.members()[:4]
    old = prepare(gateway, members, 5)
    shadow = Shadow(old)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        Load(handle, shadow, seed=1).run(100)
        enlarge_all(farm, NEW_BYTES)
        lose(volume, farm, 3)
        degraded = refused(volume)
        assert degraded.kind == "busy" and "in sync" in str(degraded), degraded
        iraid.must("set", "v0", "--rate-min", "64K", "--rate-max", "64K")
        iraid.must("add-spare", "v0", farm.member(4))
        volume.wait_status(lambda status: status["rebuild"]["running"], "the rebuild")
        filling = refused(volume)
        assert filling.kind == "busy"
        assert read_members(farm, 3).truth.data_bytes == (OLD_BYTES - BEGIN) // CHUNK * CHUNK
        iraid.must("set", "v0", "--rate-min", "1G", "--rate-max", "1G")
        volume.wait_status(lambda status: status["state"] == "active", "the spare to be filled")
        assert grow(volume)["size_bytes"] == volume_bytes(5, 4, NEW_BYTES)
        volume.wait_resynced()
        shadow = longer(shadow, volume.connect())
    reader = VolumeReader([farm.backing(number) for number in (0, 1, 2, 4)])
    assert reader.wrong_rows() == []
    shadow.check(reader.content())


@pytest.mark.long
def test_one_growth_at_a_time(gateway: Gateway, gated: Callable[..., tuple[TargetFarm, Gate]]) -> None:
    """While a member leaves its size untold, others ask in vain."""
    farm, gate = gated(5, 4)
    with gateway.serve("v0") as volume:
        volume.connect()
        enlarge_all(farm, NEW_BYTES)
        gate.close_after(0, only=1)
        growing = Growing(volume)
        wait_until(gate.closed.is_set, "the first to wait")
        second = refused(volume)
        assert second.kind == "busy" and not growing.over(), second
        assert growing.wait().error is not None
        gate.open()
        wait_in_sync(volume)
        assert grow(volume)["size_bytes"] == volume_bytes(5, 4, NEW_BYTES)


def test_the_smallest_member_counts(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3, size_bytes=OLD_BYTES)
    old = prepare(gateway, farm.members(), 5)
    shadow = Shadow(old)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        Load(handle, shadow, seed=1).run(100)
        before = [farm.backing(number).read_bytes()[: 1 * MIB] for number in range(3)]
        for number in (0, 2):
            enlarge(farm, number, NEW_BYTES)
        said = Command(gateway, volume).must("grow", "v0")
        assert farm.member(1) in said.out and str(OLD_BYTES) in said.out, said
        answer = grow(volume)
        assert (answer["before_bytes"], answer["size_bytes"]) == (old, old)
        assert farm.member(1) in answer["note"] and str(OLD_BYTES) in answer["note"]
        assert [farm.backing(number).read_bytes()[: 1 * MIB] for number in range(3)] == before
        enlarge(farm, 1, OLD_BYTES + MIB)
        assert grow(volume)["size_bytes"] == volume_bytes(5, 3, OLD_BYTES + MIB)
        volume.wait_resynced()
        shadow = longer(shadow, volume.connect())
    check_members(farm, shadow)


def test_a_member_that_shrank_stops_it_and_nothing_else(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """What lies behind its new end is gone, on level 5 not for the volume; it is not used until somebody needs it."""
    farm = make_farm(4, size_bytes=OLD_BYTES)
    old = prepare(gateway, farm.members(), 5)
    shadow = Shadow(old)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        Load(handle, shadow, seed=1).run(100)
        for number in (0, 1, 3):
            enlarge(farm, number, NEW_BYTES)
        farm.resize(2, OLD_BYTES - 4096)
        shrank = refused(volume)
        assert shrank.kind == "io" and farm.member(2) in str(shrank), shrank
        # tgtd's threads may still be busy with the file that was cut off: what counts is that I/O goes on.
        Load(handle, shadow, seed=2, span=(0, old // 2)).run(100)
        log = volume.process.said()
        assert re.search(
            rf"{re.escape(farm.member(2))} now has {OLD_BYTES - 4096} bytes instead of {OLD_BYTES};",
            log,
        ), log
        farm.resize(2, NEW_BYTES)
        assert grow(volume)["size_bytes"] == volume_bytes(5, 4, NEW_BYTES)


@pytest.mark.long
def test_a_spare_of_the_old_size_does_not_fit_any_more(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    small, large = TargetOptions(size_bytes=OLD_BYTES), TargetOptions(size_bytes=NEW_BYTES)
    farm = make_farm(options=[small] * 5 + [large])
    members = farm.members()[:4]
    prepare(gateway, members, 5, "--spare", farm.member(4))
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        for number in range(4):
            enlarge(farm, number, NEW_BYTES)
        new = grow(volume)["size_bytes"]
        volume.wait_resynced()
        shadow = Shadow(new, read_all(volume.connect()))
        farm.kill(0)
        volume.wait_status(lambda s: by_member(s)[farm.member(0)]["state"] == "faulty", "the member to be given up")
        assert by_member(volume.status())[farm.member(4)]["state"] == "spare"
        again = iraid("replace", "v0", farm.member(0), farm.member(4))
        assert again.status != 0 and "can't be used as a member" in again.err, again
        iraid.must("add-spare", "v0", farm.member(5))
        volume.wait_status(lambda status: status["state"] == "active", "the large spare to be filled")
        handle = volume.connect()
        use_the_new_part(handle, shadow, new // 2, seed=3)
        volume.wait_resynced()
    reader = VolumeReader([farm.backing(number) for number in (5, 1, 2, 3)])
    assert reader.wrong_rows() == []
    for gone in gone_sets(reader):
        shadow.check(reader.content(without=gone))


# The gateway is killed


def restarted(gateway: Gateway, volume: Served, shadow: Shadow, sizes: tuple[int, int]) -> tuple[Served, Shadow]:
    """After a SIGKILL: one of these sizes, all that was acknowledged, and everything fits in the end."""
    volume.kill()
    again = gateway.serve("v0").__enter__()
    handle = again.connect()
    assert handle.get_size() in sizes, f"{handle.get_size()} bytes, none of {sizes}"
    again.wait_resynced()
    content = read_all(handle)
    assert len(content) >= shadow.size
    shadow.check_and_settle(content[: shadow.size])
    assert again.status()["state"] == "active"
    return again, Shadow(len(content), content)


@pytest.mark.parametrize(
    "level, count, steps",
    [(5, 4, 2), long(5, 4, None), long(0, 2, None), long(1, 3, None), long(6, 4, None), long(10, 3, None)],
)
def test_a_gateway_may_be_killed_at_any_step_of_growing(
    gateway: Gateway, gated: Callable[..., tuple[TargetFarm, Gate]], level: int, count: int, steps: int | None
) -> None:
    """The first command of it passes, then one more each time, until it is over; or so many of these, chosen at random."""
    farm, gate = gated(level, count)
    old = volume_bytes(level, count, OLD_BYTES)
    member_bytes, new = OLD_BYTES, old
    volume = gateway.serve("v0")
    shadow = Shadow(old)
    Load(volume.connect(), shadow, seed=level).run(60)
    chosen = iter(range(1000)) if steps is None else iter(random.Random(level).sample(range(12), steps) + [1000])
    grown_at: list[int] = []
    interrupted = 0
    for step in chosen:
        size = shadow.size
        if size == new:  # nothing left to gain: on to the next
            member_bytes += STEP_BYTES
            enlarge_all(farm, member_bytes)
            new = volume_bytes(level, count, member_bytes)
        wait_cleared(farm)
        gate.close_after(step)
        growing = Growing(volume)
        wait_until(lambda: gate.closed.is_set() or growing.over(), "the step, or the end", GROW_SECONDS_MAX)
        finished = growing.over()
        volume.process.kill()
        gate.open()
        growing.wait()
        assert growing.error is None, growing.error
        if growing.answer is not None:
            assert growing.answer["size_bytes"] == new
        volume, shadow = restarted(gateway, volume, shadow, (new,) if growing.answer else (size, new))
        if shadow.size == new:
            grown_at.append(step)
            Load(volume.connect(), shadow, seed=step).run(40)
        interrupted += not finished
        if finished:
            assert growing.answer is not None
            break
    volume.wait_resynced()
    volume.stop()
    check_members(farm, shadow, losses_max=4)
    # Of each member at least its size, a block of its map and its superblock
    assert interrupted >= (steps or 3 * count), f"only {interrupted} steps were seen, grown after {grown_at}"


@pytest.mark.long
@pytest.mark.parametrize("level, count", [(5, 4), (1, 3), (10, 3), (6, 4)])
def test_a_gateway_may_be_killed_at_any_step_and_a_member_be_missing_then(
    gateway: Gateway, gated: Callable[..., tuple[TargetFarm, Gate]], level: int, count: int
) -> None:
    """A different one each time: those that are there decide which size it has, and the missing one learns it from them."""
    farm, gate = gated(level, count)
    member_bytes = OLD_BYTES
    new = volume_bytes(level, count, OLD_BYTES)
    shadow = Shadow(new)
    volume = gateway.serve("v0")
    sizes: list[bool] = []
    for step in range(5 * count + 3):
        handle = volume.connect()
        Load(handle, shadow, seed=step).run(30)
        size = shadow.size
        if size == new:
            member_bytes += STEP_BYTES
            enlarge_all(farm, member_bytes)
            new = volume_bytes(level, count, member_bytes)
        wait_cleared(farm)
        gate.close_after(step)
        growing = Growing(volume)
        wait_until(lambda: gate.closed.is_set() or growing.over(), "the step, or the end", GROW_SECONDS_MAX)
        volume.kill()
        farm.kill(step % count)
        gate.open()
        answer = growing.wait().answer
        volume = gateway.serve("v0").__enter__()
        handle = volume.connect()
        assert volume.status()["state"] == "degraded"
        assert handle.get_size() in ((new,) if answer else (size, new))
        shadow = longer(shadow, handle)
        sizes.append(shadow.size == new)
        Load(handle, shadow, seed=step + 100).run(30)
        assert volume.status()["lost"]["extents"] == 0
        farm.restart(step % count)
        wait_in_sync(volume)
        volume.wait_resynced()
    assert set(sizes) == {True, False}, f"grown after which step: {sizes}"
    volume.stop()
    check_members(farm, shadow, losses_max=4)


@pytest.mark.parametrize("level, count, kills", [(5, 4, 2), long(5, 4, 40), long(10, 3, 20), long(6, 5, 20)])
def test_a_gateway_may_be_killed_at_any_moment_of_growing_under_load(
    gateway: Gateway,
    make_farm: Callable[..., TargetFarm],
    figure: Callable[[str, str], None],
    level: int,
    count: int,
    kills: int,
) -> None:
    farm = make_farm(count, size_bytes=OLD_BYTES)
    prepare(gateway, farm.members(), level)
    chance = random.Random(kills)
    member_bytes, new = OLD_BYTES, volume_bytes(level, count, OLD_BYTES)
    volume, shadow = gateway.serve("v0"), Shadow(new)
    usual_seconds, grown = 0.02, 0
    for kill in range(kills):
        size = shadow.size
        if size == new:
            member_bytes += STEP_BYTES
            enlarge_all(farm, member_bytes)
            new = volume_bytes(level, count, member_bytes)
        load = Load(volume.connect(), shadow, seed=kill, flush_share=0.01)
        wait_seconds = chance.uniform(0, 2 * usual_seconds)
        growing: list[Growing] = []

        def crash() -> None:
            growing.append(Growing(volume))
            growing[0].join(wait_seconds)
            volume.process.kill()

        stats = load.run_until_broken(100 if SANITIZED else 200, crash)
        assert not stats.wrong, stats.wrong[:3]
        answer = growing[0].wait().answer
        assert growing[0].error is None, growing[0].error
        if answer is not None:
            usual_seconds = (usual_seconds + growing[0].seconds) / 2
        volume, shadow = restarted(gateway, volume, shadow, (new,) if answer else (size, new))
        grown += shadow.size == new
    figure(
        "kills", f"{kills}, {grown} of them after the size had been recorded; it takes {1000 * usual_seconds:.0f} ms"
    )
    volume.wait_resynced()
    volume.stop()
    check_members(farm, shadow, losses_max=4)


# A member goes


@pytest.mark.parametrize(
    "level, count, step, end",
    [
        (5, 4, 3, "dead"),
        *(
            long(level, count, step, end)
            for level, count in ((5, 4), (1, 2), (10, 3), (6, 4))
            for step in range(6)
            for end in ("dead", "silent")
            if (level, step, end) != (5, 3, "dead")
        ),
    ],
)
def test_a_member_may_be_lost_at_any_step_of_growing(
    gateway: Gateway, gated: Callable[..., tuple[TargetFarm, Gate]], level: int, count: int, step: int, end: str
) -> None:
    """An error and the old size, or success and the new one; it comes back to what it missed."""
    farm, gate = gated(level, count)
    old, new = volume_bytes(level, count, OLD_BYTES), volume_bytes(level, count, NEW_BYTES)
    shadow = Shadow(old)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        load = Load(handle, shadow, seed=step)
        load.run(60)
        enlarge_all(farm, NEW_BYTES)
        wait_cleared(farm)
        gate.close_after(step, only=1, cut=end == "dead")
        growing = Growing(volume).wait()
        met = gate.closed.is_set()
        assert met or step > 1
        assert growing.error is not None or step > 0, "it grew without its member's size"
        if growing.error is not None:
            assert growing.error.kind == "io" and growing.error.remedy, growing.error
            assert gate.member(1) in str(growing.error) or "a member left" in str(growing.error), growing.error
            assert volume.status()["size_bytes"] == old
        else:
            assert growing.answer is not None and growing.answer["size_bytes"] == new
            assert volume.status()["size_bytes"] == new
        now = volume.connect()
        load = Load(handle, shadow, seed=step + 100)
        load.run(60)  # sees to it that the loss is noticed
        load.check()
        if met:
            volume.wait_status(lambda s: by_member(s)[gate.member(1)]["state"] != "in sync", "the loss")
        if growing.answer is not None:
            shadow = longer(shadow, now)  # with the member out: of its parity nothing is known in new regions
            use_the_new_part(now, shadow, old, seed=step, requests=60)
        gate.open()
        wait_in_sync(volume)
        if growing.error is not None:
            assert grow(volume)["size_bytes"] == new
            volume.wait_resynced()
            shadow = longer(shadow, volume.connect())
            use_the_new_part(volume.connect(), shadow, old, seed=step, requests=60)
        volume.wait_resynced()
        assert all_in_sync(volume.status())
    check_members(farm, shadow, losses_max=4)
