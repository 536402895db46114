"""docs/operating/pair.md: each of its sections is typed on two gateways, after what it is for has happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pair_stage import PairStage

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway

pytestmark = [pytest.mark.long, pytest.mark.no_sanitizer]

SECTIONS: set[tuple[str, str]] = set()


def section(heading: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    SECTIONS.add(("docs/operating/pair.md", heading))
    return lambda function: function


@pytest.fixture
def pair(farm: TargetFarm, make_gateway: Callable[[], Gateway], tmp_path: Path) -> Iterator[PairStage]:
    made = PairStage(farm, make_gateway, tmp_path)
    made.make_volume()
    yield made


@section("Set-up")
@section("A planned move")
def test_the_set_up_and_a_planned_move_are_as_the_page_shows(pair: PairStage) -> None:
    shown = re.findall(r"initiator +(iqn\S+)", pair.said())
    assert shown and shown[0] not in (pair.gateways["gw1"].config / "volumes/v0.conf").read_text()
    pair.follow("A planned move")
    key = re.search(r"Active on +the gateway with key (0x\w+), say 4 of 4", pair.last())
    assert key, pair.last()
    pair.check("gw2")


@section("Fail-over by hand")
@section("The other gateway is back")
def test_a_gateway_that_died_is_replaced_by_the_other_and_comes_back(pair: PairStage) -> None:
    pair.die("gw1")
    pair.follow("Fail-over by hand")
    pair.boot("gw1")
    pair.follow("The other gateway is back")
    assert pair.gateways["gw1"].status("v0")["role"] == "standby"
    pair.check("gw2")


@section("Replacing a gateway")
def test_a_new_machine_takes_the_place_of_one_that_is_gone(pair: PairStage) -> None:
    pair.die("gw1")
    pair.follow("Fail-over by hand")
    pair.new_gateway("gw1")
    pair.follow("Replacing a gateway")
    pair.must("ssh gw2 iraid standby v0 && ssh gw1 iraid activate v0")
    pair.check("gw1")


def test_doctor_tells_what_is_forgotten_in_the_set_up(pair: PairStage) -> None:
    """The page's third line left out, and a clone of the machine."""
    first, second = pair.gateways["gw1"], pair.gateways["gw2"]
    name = first.configuration("v0")["initiator"]
    second.configure("v0", initiator=name)
    assert first.machine and second.machine
    second.machine.write_text(first.machine.read_text())
    said = pair.must("ssh gw1 iraid doctor --peer gw2    # (exit status 2)")
    assert f"initiator: {name} here, {name} on" in said and "same machine id" in said
