"""Rebuild, return, replace and scrub on levels 1, 6 and 10: what is other there than on level 5.

test_members.py has the commands themselves; here it counts that more than one member can be out, that what
is made again comes from copies, P or Q, and that a scrub knows who is wrong.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from test_members import (
    CHUNK, MIB, Command, all_in_sync, by_member, fill, lose, prepare, spoil, wait_configured, wait_in_sync,
)  # fmt: skip

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = pytest.mark.once


def long(*values: object) -> object:
    """A case for scripts/test --all."""
    return pytest.param(*values, marks=pytest.mark.long)


def shape_id(value: object) -> str | None:
    return "+".join(map(str, value)) if isinstance(value, tuple) else None


def gone_sets(reader: VolumeReader) -> list[tuple[int, ...]]:
    """All sets of members that the volume can do without."""
    count = reader.truth.count
    return [
        gone
        for size in range(1, count)
        for gone in itertools.combinations(range(count), size)
        if reader.shape.bears(gone)
    ]


def check_every_loss(farm: TargetFarm, numbers: tuple[int, ...], shadow: Shadow) -> None:
    """On the files: copies, P and Q fit, and the content is there whoever is left out."""
    reader = VolumeReader([farm.backing(number) for number in numbers])
    assert reader.wrong_rows() == []
    for gone in gone_sets(reader):
        shadow.check(reader.content(without=gone))


@pytest.mark.parametrize(
    "level, count, lost",
    [(6, 5, (1, 3)), long(10, 4, (0, 3)), long(1, 3, (0, 2)), long(10, 5, (4, 1)), long(6, 4, (2, 3))],
    ids=shape_id,
)
def test_spares_take_the_places_of_members_that_die_under_load(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int, lost: tuple[int, ...]
) -> None:
    """Two die, one after the other; both spares are filled without a command, the load goes on."""
    farm = make_farm(count + 2)
    spares = (count, count + 1)
    reader = prepare(
        gateway,
        farm,
        *(word for n in spares for word in ("--spare", farm.member(n))),
        numbers=tuple(range(count)),
        level=level,
    )
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        load = Load(handle, shadow, seed=level)
        load.at(200, lambda: farm.kill(lost[0])).at(300, lambda: farm.kill(lost[1]))
        load.run(900, seconds_min=2.0)
        load.check()
        status = wait_in_sync(volume, 90)
        roles = {member["member"]: member["role"] for member in status["members"]}
        assert {roles[farm.member(n)] for n in spares} == set(lost)
        Load(handle, shadow, seed=level + 1).run(200)
        volume.wait_resynced()
    numbers = tuple(n for n in range(count) if n not in lost) + spares
    check_every_loss(farm, numbers, shadow)


@pytest.mark.parametrize("level, count", [(6, 5), long(1, 2), long(10, 3)])
def test_a_working_member_is_replaced_under_load(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int
) -> None:
    farm = make_farm(count + 1)
    reader = prepare(gateway, farm, numbers=tuple(range(count)), level=level)
    shadow = Shadow(reader.size)
    numbers = (count, *range(1, count))
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        states: list[str] = []

        def replace() -> None:
            iraid.must("replace", "v0", "0", farm.member(count))
            states.append(volume.status()["state"])

        Load(handle, shadow, seed=8).at(200, replace).run(800, seconds_min=1.0)
        assert states == ["active"]
        iraid.must("wait", "v0", "--for", "rebuild")
        wait_configured(gateway, {farm.member(n) for n in numbers})
        volume.wait_status(all_in_sync, "the replacement")
        volume.wait_resynced()
    check_every_loss(farm, numbers, shadow)


@pytest.mark.parametrize("level, count, away", [(6, 5, (0, 3)), long(1, 3, (1, 2)), long(10, 4, (1, 3))], ids=shape_id)
def test_members_that_return_are_sent_only_what_they_lack(
    gateway: Gateway,
    make_farm: Callable[..., TargetFarm],
    figure: Callable[[str, str], None],
    level: int,
    count: int,
    away: tuple[int, ...],
) -> None:
    """Two are out, the second for less of it."""
    farm = make_farm(count)
    reader = prepare(gateway, farm, numbers=tuple(range(count)), level=level)
    row = reader.data_chunks * CHUNK
    with gateway.serve("v0") as volume:
        handle = volume.connect()
        content = fill(handle, reader.size)

        def write(region: int) -> None:
            place = slice(region * 64 * row, region * 64 * row + 2 * row)
            content[place] = random.Random(region).randbytes(2 * row)
            handle.pwrite(bytes(content[place]), place.start)

        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        lose(volume, farm, away[0])
        write(2)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the mark to be cleared")
        lose(volume, farm, away[1])
        write(7)
        before = {n: by_member(volume.status())[farm.member(n)]["written_bytes"] for n in away}
        for number in away:
            farm.restart(number)
        status = wait_in_sync(volume)
        for number, regions in zip(away, (2, 1)):
            written = by_member(status)[farm.member(number)]["written_bytes"] - before[number]
            figure(f"written to the member that lacked {regions} regions", f"{written} bytes")
            assert 2 * CHUNK <= written <= regions * 64 * CHUNK + MIB
        assert read_all(handle) == content
    check_every_loss(farm, tuple(range(count)), Shadow(reader.size, content))


@pytest.mark.parametrize(
    "level, count, culprit_known", [(6, 5, True), (1, 3, True), long(1, 2, False), long(10, 4, False), long(6, 4, True)]
)
def test_scrub_tells_who_is_wrong_where_it_can_be_told(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, count: int, culprit_known: bool
) -> None:
    """A byte of one member changed behind everybody's back: a check names it, a repair gives it what it must
    hold.  Every position of a row has its turn; with two copies the first one counts."""
    farm = make_farm(count)
    reader = prepare(gateway, farm, numbers=tuple(range(count)), level=level)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        assert iraid("scrub", "start", "v0", "--wait").status == 0
        begin = 0 if culprit_known else reader.data_chunks
        wrong = {}
        for position in range(begin, reader.shape.width):
            row = 7 + 131 * position
            role, _ = reader.shape.places(row)[position]
            spoil(reader.by_role[role].path, reader.offset(row, role) + 77)
            wrong[row] = farm.member(next(n for n in range(count) if reader.files[n] is reader.by_role[role]))
        found = iraid("scrub", "start", "v0", "--wait", "--json")
        assert found.status == 3, found
        row_bytes = reader.data_chunks * CHUNK
        assert found.json["scrub"]["mismatch_offsets"] == [row * row_bytes for row in wrong]
        assert reader.wrong_rows() == list(wrong)  # a check changes nothing
        said = [
            event["text"]
            for event in iraid.must("events", "v0", "--json").json["events"]
            if event["kind"] == "scrub mismatch"
        ]
        assert len(said) == len(wrong)
        for text, (row, member) in zip(said, wrong.items()):
            assert text.startswith(f"scrub: parity or copies of row {row} "), text
            assert (f"the others agree against {member}" in text) == culprit_known, text
        repaired = iraid.must("scrub", "start", "v0", "--repair", "--wait")
        assert f"{len(wrong)} rows did not match and were corrected" in repaired.out
        assert reader.wrong_rows() == []
        assert read_all(handle) == content
        assert iraid("scrub", "start", "v0", "--wait", "--json").json["scrub"]["mismatches"] == 0
    check_every_loss(farm, tuple(range(count)), Shadow(reader.size, content))


def test_scrub_of_level_6_does_not_guess_when_two_are_wrong(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    """It takes the data as right, and says that it doesn't know."""
    farm = make_farm(5)
    reader = prepare(gateway, farm, numbers=tuple(range(5)), level=6)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        content = fill(handle, reader.size)
        volume.wait_status(lambda s: s["regions"]["dirty"] == 0, "the marks to be cleared")
        for position in (3, 4):  # P and Q, in different bytes
            role, _ = reader.shape.places(9)[position]
            spoil(reader.by_role[role].path, reader.offset(9, role) + 100 * position)
        assert iraid("scrub", "start", "v0", "--repair", "--wait").status == 0
        (text,) = [
            event["text"]
            for event in iraid.must("events", "v0", "--json").json["events"]
            if event["kind"] == "scrub mismatch"
        ]
        assert "against" not in text
        assert reader.wrong_rows() == [] and read_all(handle) == content


@pytest.mark.parametrize("level, refused_at", [(6, 2), (1, 2), (10, None)])
def test_as_many_members_are_failed_by_hand_as_the_level_bears(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, refused_at: int | None
) -> None:
    """The next one is refused; on level 10 it depends on which."""
    farm = make_farm(3 if level == 1 else 4)
    prepare(gateway, farm, numbers=tuple(range(len(farm))), level=level)
    gateway.must("start", "v0")
    order = (0, 1, 2) if level != 10 else (0, 1, 3, 2)  # 0 and 1 hold the same, so do 2 and 3
    failed = []
    for number in order:
        ran = gateway.iraid("fail", "v0", str(number))
        bears = number != 1 and len(failed) < 2 if level == 10 else len(failed) < refused_at
        assert (ran.status == 0) == bears, ran
        if bears:
            failed.append(number)
            wait_until(
                lambda number=number: gateway.status("v0")["members"][number]["state"] == "faulty", "the failure"
            )
        else:
            assert "can't bear another" in ran.err and "remedy: " in ran.err, ran
    assert len(failed) == 2
