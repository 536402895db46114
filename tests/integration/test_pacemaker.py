"""A real Pacemaker moves a volume between two gateways: by order, when a runner dies or hangs, when nodes no longer see each
other, when one is gone.  It must never move without a reason.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pacemaker_pair
import pytest
from docs.shown import blocks
from pacemaker_pair import ADDRESS, CLUSTER, RESOURCE, STORAGE, Hub, Node, Pair

from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PAGE = ROOT / "docs/operating/pair.md"
SETTLE_SECONDS = 4
MONITOR_SECONDS = 3  # of the passive gateway, the slower one
# What the page's commands have otherwise.  A cluster on a busy machine needs longer than a member's silence.
QUICK = {
    "volume=v0 ": f"volume=v0 answer_timeout=3 settle={SETTLE_SECONDS} op monitor interval=2 role=Promoted"
    f" op monitor interval={MONITOR_SECONDS} role=Unpromoted ",
    "ip=10.1.0.9 ": f"ip={ADDRESS} nic={CLUSTER} ",
}


@pytest.fixture(autouse=True)
def _programs() -> None:
    missing = [name for name in pacemaker_pair.PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: run scripts/deps --long")


@pytest.fixture
def make_pair(
    make_farm: Callable[..., TargetFarm],
    make_gateway: Callable[[], Gateway],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[int], Pair]]:
    """The volume is made and promoted on the first node."""
    hub = Hub()
    pairs: list[Pair] = []

    def make(votes: int = 2) -> Pair:
        farm = make_farm(3, address=f"{pacemaker_pair.NETWORKS[STORAGE]}.{pacemaker_pair.HUB}", prefix=hub.prefix)
        gateways = [make_gateway() for _ in range(votes)]
        first = gateways[0]
        first.start(prefix=hub.prefix)
        first.create("v0", farm.members(), 5, "64K", "--give-up", "2")
        first.must("wait", "v0")
        first.must("standby", "v0")
        first.stop()
        for gateway in gateways[1:2]:
            shutil.copytree(first.config, gateway.config, dirs_exist_ok=True)
            gateway.configure("v0", initiator="iqn.2026-01.org.iraid:other:v0")
            shutil.copytree(first.state / "standby", gateway.state / "standby")
        pairs.append(Pair(hub, gateways, tmp_path, votes))
        for command in shown_commands():
            pairs[0].first.run(*command)
        pairs[0].wait_promoted(pairs[0].first)
        return pairs[0]

    yield make
    for pair in pairs:
        print(pair.logs())  # shown if the test fails
        pair.close()
    hub.close()


def shown_commands() -> list[list[str]]:
    """Of the page, those that this test is to type."""
    commands = []
    for block in blocks(PAGE):
        if block.where == "other" and "test_pacemaker.py" in block.why:
            for line in block.lines():
                for before, after in QUICK.items():
                    line = line.replace(before, after)
                commands.append(shlex.split(line))
    assert len(commands) == 6, commands
    return commands


def stays(pair: Pair, seen_by: Node, where: Node) -> None:
    """Also when scores have settled and both monitors have looked again: nobody wants to move it."""
    for node in pair.nodes.values():
        node.run("crm_resource", "--wait", "--timeout=60", check=False)
    before = {node.name: node.actions() for node in pair.nodes.values()}
    end = time.monotonic() + SETTLE_SECONDS + 3 * MONITOR_SECONDS
    while time.monotonic() < end:
        assert seen_by.promoted() == [where.name]
        assert where.role() == "active"
        time.sleep(1)
    assert {node.name: node.actions() for node in pair.nodes.values()} == before


def test_it_moves_when_it_is_told_to_and_when_its_runner_does_not_come_back(
    make_pair: Callable[..., Pair], figure: Callable[[str, str], None]
) -> None:
    pair = make_pair()
    first, second = pair.first, pair.second
    first.run("pcs", "resource", "move", f"{RESOURCE}-clone", second.name, "--promoted")
    pair.wait_promoted(second)
    assert first.role() == "standby"
    assert ADDRESS in second.run("ip", "-4", "address", "show", "dev", CLUSTER)
    assert ADDRESS not in first.run("ip", "-4", "address", "show", "dev", CLUSTER)
    # It dies, systemd starts it: too short to be worth a move, and the volume is there again.
    pid = second.engine_pid
    second.signal_runner("KILL")
    wait_until(lambda: second.engine_pid != pid and second.role() == "active", "the next runner to have it", 60)
    stays(pair, first, second)
    # It hangs: killed, and the other one has it.  The next runner leaves the volume alone.
    pid = second.engine_pid
    second.signal_runner("STOP")
    pair.wait_promoted(first)
    wait_until(lambda: second.engine_pid != pid and second.role() == "standby", "the next runner to be on standby", 60)
    stays(pair, first, first)
    for node in (first, second):
        figure(f"{node.name} actions, ms", str(node.actions()))


def test_nodes_that_don_t_see_each_other_take_it_once_and_not_in_turn(make_pair: Callable[..., Pair]) -> None:
    """Two nodes, no third vote: each believes that the other is dead."""
    pair = make_pair()
    first, second = pair.first, pair.second
    pair.hub.link(2, CLUSTER, up=False)
    wait_until(
        lambda: second.promoted() == [second.name] and second.role() == "active", "the second one to take it", 60
    )
    wait_until(lambda: "demote" in first.did(), "the first one to be demoted", 60)
    stays(pair, second, second)
    assert first.role() == "standby" and first.promoted() == [] and first.did().count("promote") == 1
    pair.hub.link(2, CLUSTER, up=True)
    pair.wait_online()
    pair.wait_promoted(second, seen_by=first)
    stays(pair, first, second)
    # The first one may be promoted again.
    second.close()
    pair.wait_promoted(first)


def test_a_node_that_was_gone_comes_back_without_the_volume(make_pair: Callable[..., Pair]) -> None:
    """Nothing was recorded there: its runner asks for the volume before the cluster is up, and the members refuse it."""
    pair = make_pair()
    first, second = pair.first, pair.second
    first.close()
    pair.wait_promoted(second)
    first = pair.boot(1)
    pair.wait_online()
    wait_until(lambda: first.role() == "standby", "the first one to be on standby", 120)
    pair.wait_promoted(second, seen_by=first)
    stays(pair, first, second)


def test_a_gateway_that_reaches_fewer_members_loses_the_volume_and_no_more(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair()
    first, second = pair.first, pair.second
    pair.hub.link(1, STORAGE, up=False)
    pair.wait_promoted(second)
    pair.hub.link(1, STORAGE, up=True)
    wait_until(lambda: first.role() == "standby", "the first one to be on standby", 120)
    stays(pair, second, second)


def test_with_a_third_vote_the_lonely_gateway_gives_it_up(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(3)
    first, second, third = pair.first, pair.second, pair.nodes[3]
    second.run("pcs", "node", "standby", third.name)
    pair.hub.link(1, CLUSTER, up=False)
    pair.wait_promoted(second)
    assert third.promoted() == [second.name]
    wait_until(lambda: first.role() == "standby" and "stop" in first.did(), "the first one to be stopped", 60)
    assert "partition WITHOUT quorum" in first.run("crm_mon", "-1")
    pair.hub.link(1, CLUSTER, up=True)
    pair.wait_online()
    pair.wait_promoted(second, seen_by=first)
    stays(pair, first, second)
