"""Commands that a reset ended take places of their session's window with them: LIO's doing, of its own fileio LUN as of
ours.  A session that is made anew has them all, and the load goes on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import rtslib_fb as rtslib

from iraid.lio.export_plan import QUEUE_DEPTH
from iraid_dev.stack import initiator
from iraid_dev.stack.command_window import renew_session, window_of
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.faults import Watch
from iraid_dev.stack.initiator import Disk, Initiator
from iraid_dev.stack.load import Fio
from iraid_dev.stack.raw_initiator import ABORT_TASK, FUNCTION_COMPLETE, LUN_RESET, TASK_DOES_NOT_EXIST, RawInitiator
from iraid_dev.stack.tools import attempt, free_port, wait_for

COMMANDS, ROUNDS = 12, 3
BLOCK = bytes(4096)
WRITE_10, TEST_UNIT_READY = 0x2A, bytes(6)
SMALL, RESETS_MAX = 16, 60
NO_SUCH_TASK = 0x12345678
PEER = "iqn.2026-01.org.iraid.reference:slow"


@contextmanager
def fileio_on(disk: str) -> Iterator[str]:
    """The portal of LIO's own fileio LUN, which passes commands on to a disk and waits for none (aio)."""
    made = [rtslib.FileIOStorageObject("slow", disk, aio=True), rtslib.Target(rtslib.FabricModule("iscsi"), PEER)]
    try:
        group, port = rtslib.TPG(made[1], 1), free_port()
        group.set_attribute("authentication", "0")
        group.set_attribute("default_cmdsn_depth", str(QUEUE_DEPTH))
        lun = rtslib.LUN(group, 0, storage_object=made[0])
        rtslib.NetworkPortal(group, "127.0.0.1", port)
        rtslib.MappedLUN(rtslib.NodeACL(group, initiator.name()), 0, lun)
        group.enable = True
        yield f"127.0.0.1:{port}"
    finally:
        for one in reversed(made):
            one.delete()


def answers_until(session: RawInitiator, tag: int) -> int:
    """To commands, before the one asked for."""
    count = 0
    while (answer := session.receive()).tag != tag:
        count += not answer.is_management
    if answer.is_management:
        assert answer.response in (FUNCTION_COMPLETE, TASK_DOES_NOT_EXIST)
    return count


def reset_with_commands_in_flight(session: RawInitiator, iqn: str, farm: TargetFarm) -> int:
    """How many of them were never answered."""
    before = window_of(iqn).left
    for number in range(len(farm)):
        farm.stop(number)
    for block in range(COMMANDS):
        session.send(struct.pack(">BBIBHB", WRITE_10, 0, 8 * block, 0, 8, 0), BLOCK)
    wait_for(lambda: window_of(iqn).left == before - COMMANDS, "all commands to have arrived")
    reset = session.manage(LUN_RESET)
    answered = answers_until(session, session.manage(ABORT_TASK, NO_SUCH_TASK))  # the reset is under way then
    for number in range(len(farm)):
        farm.cont(number)
    answered += answers_until(session, reset)
    answered += answers_until(session, session.send(TEST_UNIT_READY))
    session.tasks.clear()
    return COMMANDS - answered


def lost_places(what: str, portal: str, iqn: str, farm: TargetFarm) -> tuple[int, int]:
    """And commands that were never answered."""
    with RawInitiator(portal, iqn, initiator.name()) as session:
        session.ask(TEST_UNIT_READY)  # UNIT ATTENTION
        session.ask(TEST_UNIT_READY)
        fresh = window_of(iqn)
        assert fresh.left == fresh.granted
        unanswered = sum(reset_with_commands_in_flight(session, iqn, farm) for _ in range(ROUNDS))
        left = window_of(iqn).left
    print(f"{what}: {ROUNDS} resets, {unanswered} commands unanswered, {left} of {fresh.granted} places left")
    return fresh.granted - left, unanswered


def test_a_reset_costs_our_sessions_what_it_costs_those_of_fileio(
    gateway: object, farm: Callable[..., TargetFarm]
) -> None:
    behind, members = farm(1), farm(3)
    kernel = Initiator()
    disk = kernel.login(behind.iqn(0), behind.portal(0))
    try:
        with fileio_on(disk.path) as portal:
            peers = lost_places("fileio", portal, PEER, behind)
    finally:
        kernel.logout(disk)
    volume = gateway.create(5, members.members())
    volume.wait_resynced()
    volume.export()
    ours = lost_places("iraid", volume.portal, volume.iqn, members)
    for lost, unanswered in (peers, ours):
        assert unanswered > 0, "no command was in flight"
        assert lost in (0, unanswered)
    assert (ours[0] == 0) == (peers[0] == 0)


def test_a_session_made_anew_has_its_whole_window_and_the_load_goes_on(
    gateway: object, lio_members: Callable[..., list[str]]
) -> None:
    volume = gateway.create(5, lio_members(3))
    disk = volume.login()
    before = window_of(volume.iqn)
    load = Fio(disk, rw="randwrite", bs="4k", size="8M", iodepth=8, rate="1m")
    try:
        wait_for(lambda: window_of(volume.iqn).left < QUEUE_DEPTH, "the load to run")
        renew_session(disk)
        assert load.running()
        load.result()
    finally:
        load.end()
    after = window_of(volume.iqn)
    assert after.session != before.session
    assert after.left == after.granted == QUEUE_DEPTH


class Failed(Exception):
    """A test, while the load was running."""


def shut_window(iqn: str, disk: Disk) -> None:
    """By resets under a load."""
    for _ in range(RESETS_MAX):
        attempt("sg_reset", "--no-esc", "--device", disk.path)
        if window_of(iqn).left == 0:
            return
    pytest.skip(f"{RESETS_MAX} resets did not shut a window of {SMALL} places: does this kernel give them back?")


def test_a_load_that_a_shut_window_holds_can_be_ended(gateway: object, lio_members: Callable[..., list[str]]) -> None:
    volume = gateway.create(5, lio_members(3))
    disk = volume.login()
    target = rtslib.Target(rtslib.FabricModule("iscsi"), volume.iqn)
    rtslib.NodeACL(rtslib.TPG(target, 1), initiator.name()).tcq_depth = SMALL
    renew_session(disk)
    wait_for(lambda: window_of(volume.iqn).granted == SMALL, "a session with a small window")
    with pytest.raises(Failed), Watch(disk, rate="100m"):
        shut_window(volume.iqn, disk)
        raise Failed
    assert window_of(volume.iqn).left == SMALL
