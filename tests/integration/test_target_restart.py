"""Target daemons that are started anew under load: no member loses its place, nothing is copied.

Members without a volatile cache: what one that has such a cache may have lost with its daemon is copied, as it has to
be.  The time of grace is long here, for a machine that is busy with other tests starts a daemon slowly; that it
is a second by default, and ends, is tests/unit/engine/members/test_engine_grace.c's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from test_members import MEMBER_BYTES, Command, all_in_sync, prepare

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import Gateway
from iraid_dev.stack.shadow import Load, Shadow, read_all

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]
AWAY_SECONDS = 0.3
COPYING = {"member evicted", "rebuild started", "rebuild finished", "member returned"}


def restart(farm: TargetFarm, number: int) -> None:
    """SIGKILL; a moment without anybody who listens; the same daemon again."""
    farm.kill(number)
    threading.Event().wait(AWAY_SECONDS)
    farm.restart(number)


@pytest.mark.parametrize(("level", "members"), [(5, 4), (10, 4), (6, 4)])
def test_target_daemons_restart_in_turn_and_no_member_loses_its_place(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], level: int, members: int
) -> None:
    farm = make_farm(options=[TargetOptions(size_bytes=MEMBER_BYTES, write_cache=False)] * members)
    reader = prepare(
        gateway, farm, numbers=tuple(range(members)), level=level, grace_milliseconds=30000, queue_limit_seconds=60
    )
    shadow = Shadow(reader.size)
    with gateway.serve("v0") as volume:
        iraid, handle = Command(gateway, volume), volume.connect()
        epoch = volume.status()["epoch"]
        for number in range(members):
            away = threading.Thread(target=restart, args=(farm, number))
            load = Load(handle, shadow, seed=number)
            load.at(100, away.start).run(600, seconds_min=1.0)
            away.join()
            Load(handle, shadow, seed=100 + number).run(200)
            load.check()
        status = volume.status()
        assert all_in_sync(status), status
        kinds = [event["kind"] for event in iraid.must("events", "v0", "--json").json["events"]]
        assert not COPYING & set(kinds), kinds
        assert kinds.count("member silent") <= members
        assert status["epoch"] == epoch, "a member was written off"
        shadow.check(read_all(handle))
