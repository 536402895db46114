"""Each disaster of docs/operating/recovery.md: it happens, the guide's commands are typed, and the data is looked at."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import nbd
import pytest
from stage import MIB, Stage, configuration_of

from iraid_dev.stack.reader import LOST_OFFSET

pytestmark = [pytest.mark.long, pytest.mark.no_sanitizer]

RECIPES: set[str] = set()
SPARE, OTHER = 4, 5


def recipe(heading: str):
    RECIPES.add(heading)
    return lambda function: function


@recipe("A member is dead, and there is no spare")
def test_a_member_is_dead_and_there_is_no_spare(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.lose(1)
    stage.write(3 * MIB)
    stage.follow("A member is dead, and there is no spare")
    stage.check((0, SPARE, 2, 3))


@recipe("A member is dead, and there is a spare")
def test_a_member_is_dead_and_there_is_a_spare(stage: Stage) -> None:
    stage.make_volume("--spare", stage.member(SPARE))
    stage.serve()
    stage.lose(1)
    stage.write(3 * MIB)
    stage.follow("A member is dead, and there is a spare")
    assert stage.state_of(OTHER) == "spare"
    assert stage.state_of(1) == "none"
    stage.check((0, SPARE, 2, 3))


@recipe("The wrong target was switched off")
def test_the_wrong_target_was_switched_off(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.lose(1)
    stage.write(5 * MIB)
    stage.farm.restart(1)
    stage.follow("The wrong target was switched off")
    stage.check()


@recipe("The switch reloads, or all targets are away for a moment")
def test_all_targets_are_away_for_a_moment(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    for number in range(4):
        stage.farm.stop(number)
    answers: list[str] = []

    def write() -> None:
        try:
            stage.write(7 * MIB)
            answers.append("written")
        except nbd.Error as error:
            answers.append(str(error))

    writer = threading.Thread(target=write)
    writer.start()
    stage.wait(lambda status: status["state"] == "suspended", "the volume to be suspended")
    for number in range(4):
        stage.farm.cont(number)
    stage.follow("The switch reloads, or all targets are away for a moment")
    writer.join(30)
    assert answers, "the write that waited was never answered"
    assert answers == ["written"] or "flush" in answers[0]
    stage.write(7 * MIB)  # as a file system does that was checked and mounted again
    stage.check()


@recipe("Two members are dead on level 5, and come back")
def test_two_members_are_dead_and_come_back(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.lose(1)
    stage.write(2 * MIB)
    stage.farm.kill(2)
    stage.wait(lambda status: status["state"] == "suspended", "the volume to be suspended")
    for number in (2, 1):
        stage.farm.restart(number)
    stage.follow("Two members are dead on level 5, and come back")
    stage.check()


@recipe("Two members are dead on level 5, and one is gone for good")
def test_two_members_are_dead_and_one_is_gone_for_good(stage: Stage) -> None:
    """What was written after the first one went is lost, and nothing else."""
    stage.make_volume()
    stage.serve()
    stage.lose(1)
    stage.write(2 * MIB)
    stage.end_serving()
    stage.farm.kill(2)
    stage.farm.restart(1)
    refused = stage.gateway.iraid("start", "v0", "--timeout", "5")
    assert refused.status == 1, refused
    stage.follow("Two members are dead on level 5, and one is gone for good")
    assert stage.status()["lost"]["bytes"] > 0
    stage.gateway.must("lost", "v0", "--accept", "--yes")
    region = stage.status()["regions"]["region_bytes"] * 3
    stage.check((0, 1, SPARE, 3), but=(2 * MIB // region * region, -(-3 * MIB // region) * region))


@recipe("A member was overwritten")
def test_a_member_was_overwritten(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.overwrite(1)
    stage.follow("A member was overwritten")
    stage.check()


@recipe("A member that was replaced returns")
def test_a_member_that_was_replaced_returns(stage: Stage) -> None:
    stage.make_volume("--spare", stage.member(SPARE))
    stage.serve()
    stage.lose(1)
    stage.wait(lambda _: stage.state_of(SPARE) == "in sync", "the spare to be in its place")
    stage.farm.restart(1)
    stage.wait(lambda _: stage.state_of(1) == "out of date", "the old member to be seen")
    stage.follow("A member that was replaced returns")
    assert stage.state_of(1) == "spare"
    stage.check((0, SPARE, 2, 3))


@recipe("A member returns after days")
def test_a_member_returns_after_days(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.gateway.must("fail", "v0", "1", "--socket", str(stage.served.control))
    stage.wait(lambda _: stage.state_of(1) == "faulty", "the failure")
    stage.farm.kill(1)
    stage.write(4 * MIB)
    stage.farm.restart(1)
    stage.follow("A member returns after days")
    stage.check()


@recipe("A scrub found mismatches")
def test_a_scrub_found_mismatches(stage: Stage) -> None:
    stage.make_volume()
    reader, row = stage.reader((0, 1, 2, 3)), 7
    role = reader.redundant_roles(row)[0]
    with stage.farm.backing(role).open("r+b") as file:
        file.seek(reader.offset(row, role))
        file.write(b"\xa5" * 4096)
    stage.serve()
    found = stage.gateway.iraid("scrub", "start", "v0", "--wait", "--socket", str(stage.served.control))
    assert found.status == 3, found
    stage.follow("A scrub found mismatches")
    assert "scrub" in stage.said()
    stage.check()


@recipe("Lost extents")
def test_lost_extents(stage: Stage) -> None:
    """Without the write log, or nothing would be lost."""
    stage.make_volume(log="off")
    stage.serve()
    stage.wait(lambda status: status["regions"]["dirty"] == 0, "the marks to be cleared")
    stage.lose(1)
    stage.handle.pwrite(b"\1" * 4096, 0)
    stage.served.kill()
    stage.serve()
    lost = stage.wait(lambda status: status["lost"]["bytes"] > 0, "the lost extents")
    assert lost["state"] == "degraded"
    stage.follow("Lost extents")
    assert stage.status()["lost"] == {"extents": 0, "bytes": 0}
    stage.farm.restart(1)
    region = lost["regions"]["region_bytes"] * 3
    stage.check(but=(0, region))


@recipe("The table of lost extents can't be read")
def test_the_table_of_lost_extents_cant_be_read(stage: Stage) -> None:
    """Something is listed, and its block is damaged on all members that are there."""
    stage.make_volume(log="off")
    stage.serve()
    stage.wait(lambda status: status["regions"]["dirty"] == 0, "the marks to be cleared")
    stage.lose(1)
    stage.handle.pwrite(b"\1" * 4096, 0)
    stage.served.kill()
    stage.serve()
    lost = stage.wait(lambda status: status["lost"]["bytes"] > 0, "the lost extents")
    stage.end_serving()
    for number in (0, 2, 3):
        stage.damage(number, LOST_OFFSET, 4096)
    refused = stage.gateway.iraid("start", "v0", "--timeout", "5")
    assert refused.status == 1, refused
    reason = stage.gateway.status("v0")["reason"]
    assert f"table of lost extents is unreadable at byte {LOST_OFFSET}" in reason and "--force" in reason, reason
    stage.follow("The table of lost extents can't be read")
    assert stage.status()["lost"]["bytes"] == 0
    stage.farm.restart(1)
    stage.check(but=(0, lost["regions"]["region_bytes"] * 3))


@recipe("A member is full of medium errors")
def test_a_member_is_full_of_medium_errors(stage: Stage) -> None:
    """It is replaced while it works: at no moment is the volume without redundancy."""
    stage.make_volume()
    stage.serve()
    states: set[str] = set()
    watching, over = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            states.add(stage.status()["state"])
            watching.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert watching.wait(10)
    try:
        stage.follow("A member is full of medium errors")
    finally:
        over.set()
        watcher.join(30)
    assert states == {"active"}
    stage.check((0, SPARE, 2, 3))


@recipe("The runner died")
def test_the_runner_died(stage: Stage) -> None:
    stage.make_volume()
    stage.start()
    stage.gateway.kill()
    stage.gateway.start()
    stage.follow("The runner died")
    stage.check()


@recipe("All power is gone at once")
def test_all_power_is_gone_at_once(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.write(6 * MIB)
    stage.served.kill()
    stage.served = None
    stage.gateway.kill()
    for number in range(4):
        stage.farm.kill(number)
    stage.gateway.start("--start-all")  # the gateway first: it waits for its members
    for number in range(4):
        stage.farm.restart(number)
    stage.follow("All power is gone at once")
    stage.check()


@recipe("The gateway is dead, another one takes over")
def test_the_gateway_is_dead_and_another_one_takes_over(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.write(6 * MIB)
    stage.served.kill()
    stage.served = None
    uuid = stage.gateway.status("v0")["uuid"]
    stage.gateway.kill()
    stage.another_gateway()
    stage.follow("The gateway is dead, another one takes over")
    assert stage.status()["uuid"] == uuid
    stage.check()


@recipe("The gateway's disk is gone")
def test_the_gateways_disk_is_gone(stage: Stage) -> None:
    stage.make_volume()
    stage.start()
    stage.gateway.kill()
    for folder in (stage.gateway.config, stage.gateway.state, stage.gateway.folder / "run"):
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
    stage.gateway.start()
    assert stage.gateway.must("list", "--json").json == {"volumes": []}
    stage.follow("The gateway's disk is gone")
    stage.check()


@recipe("A volume was deleted by mistake")
def test_a_volume_was_deleted_by_mistake(stage: Stage) -> None:
    stage.make_volume()
    stage.gateway.must("delete", "v0", "--yes")
    stage.follow("A volume was deleted by mistake")
    stage.check(but=(len(stage.content) - 3 * (128 << 10), len(stage.content)))


@recipe("A CHAP secret was changed on a target")
def test_a_chap_secret_was_changed_on_a_target(stage: Stage) -> None:
    secrets = stage.gateway.config / "secrets"
    secrets.mkdir(mode=0o700)
    file = secrets / "v0"
    write_secret(file, "the first secret")
    for number in range(4):
        stage.farm.set_chap(number, "gateway", "the first secret")
    stage.make_volume("--chap-file", str(file))
    stage.start()
    for number in range(4):
        stage.farm.admin(number, "--mode", "account", "--op", "delete", "--user", "gateway")
        stage.farm.set_chap(number, "gateway", "the second secret")
    stage.farm.restart(1)
    stage.wait(lambda _: stage.state_of(1) == "faulty", "the member to be given up")
    refused = stage.gateway.iraid("examine", stage.member(1), "--chap-file", str(file))
    assert refused.status == 1 and "login" in refused.err.lower(), refused
    stage.wait(
        lambda status: any("authentication failed" in (m["reason"] or "") for m in status["members"]),
        "status to say why",
    )
    write_secret(file, "the second secret")
    stage.follow("A CHAP secret was changed on a target")
    stage.check()


def write_secret(file: Path, secret: str) -> None:
    file.write_text(f"gateway\n{secret}\n")
    file.chmod(0o600)


@recipe("A target has moved to another address")
def test_a_target_has_moved_to_another_address(stage: Stage) -> None:
    stage.make_volume()
    stage.start()
    stage.move(1, "10.0.0.12")
    stage.wait(lambda status: status["state"] == "degraded", "the member to be given up")
    stage.follow("A target has moved to another address")
    assert "10.0.0.12" in configuration_of(stage.gateway).read_text()
    stage.check((0, len(stage.farm) - 1, 2, 3))
