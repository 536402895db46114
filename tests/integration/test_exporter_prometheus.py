"""A real Prometheus scrapes the real exporter: every query of the dashboard and of the documentation works, and
alerts fire when a member is killed and clear when it is back.

    scripts/test tests/integration/test_exporter_prometheus.py
"""

from __future__ import annotations

import re

import prometheus
import pytest
from prometheus import HASTY_SECONDS, Prometheus, Timeline, wait_for
from watched import watched

from iraid_dev.stack.private_gateway import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(420),
    pytest.mark.skipif(bool(prometheus.missing()), reason=prometheus.missing() or "-"),
]

# Without an answer while all goes well: nothing of the kind has happened.
EMPTY_WHEN_WELL = {"ALERTS", "iraid_command_errors_total"}


def test_alerts_fire_when_a_member_is_killed_and_clear_when_it_is_back(gateway, make_farm, tmp_path, capsys):
    def show(line: str) -> None:
        with capsys.disabled():
            print(line)

    print_head(show)
    with (
        watched(gateway, make_farm, tmp_path) as volume,
        Prometheus(tmp_path, volume.exporter.address, hasten=True) as prom,
        volume.load(),
    ):
        line = Timeline(prom, show)
        wait_for(lambda: prom.query('iraid_volume_state{state="active"} == 1'), "the first scrape", 30)
        line.wait(lambda firing: firing <= {"IraidNoSpare"}, "nothing but the absent spare to be said", 30)
        volume.iraid("set", "v0", "--rate-max", "1M", "--rate-min", "1M")

        line.note(f"member 1 is killed (rules wait for {HASTY_SECONDS} s here)")
        volume.farm.kill(1)
        wanted = {"IraidMemberOut", "IraidVolumeDegraded", "IraidNoRedundancy"}
        line.wait(lambda firing: wanted <= firing, f"{wanted} to fire", 60)

        line.note("member 1 is started again")
        volume.farm.restart(1)
        # What it missed is copied so slowly that it can be seen.
        line.wait(lambda firing: "IraidMemberOut" not in firing, "the member to be filled", 90)
        wait_for(
            lambda: (
                prom.query('iraid_work_pending{work="rebuild"} == 1')
                or not prom.query('iraid_volume_state{state="degraded"} == 1')
            ),
            "the rebuild to be seen",
            60,
        )
        volume.iraid("set", "v0", "--rate-min", "1G", "--rate-max", "1G")
        line.wait(lambda firing: not firing & wanted, "all of them to clear", 120)
        line.note("active again")

        spare = volume.farm.member(4)
        line.note("it is replaced by another target")
        volume.iraid("replace", "v0", "1", spare)
        wait_for(
            lambda: prom.query(f'iraid_member_state{{member="{spare}", state="in sync"}} == 1'),
            "the replacement to be in sync",
            120,
        )
        line.wait(lambda firing: not firing & wanted, "nothing to be wrong", 60)
        check_queries(prom)
    assert wanted <= set(line.fired)


def print_head(show):
    show("\n    seconds since the exporter was first scraped")


def check_queries(prom: Prometheus) -> None:
    """Each is right, and has an answer: a misspelt label gives none."""
    page = (ROOT / "docs/operating/monitoring.md").read_text()
    shown = re.findall(r"^\| [^|`]+ \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(shown) >= 6
    queries = prometheus.dashboard_queries() + [
        query.replace("[5m]", "[20s]").replace("[1m]", "[20s]") for query in shown
    ]
    empty = [
        query
        for query in queries
        if not prom.query_since_start(query) and not any(name in query for name in EMPTY_WHEN_WELL)
    ]
    assert not empty, "no answer to:\n" + "\n".join(empty)
    (target,) = prom.targets()
    assert target["health"] == "up" and not target["lastError"]


def test_the_handler_and_the_exporter_that_go_away_are_told(gateway, make_farm, tmp_path, capsys):
    with watched(gateway, make_farm, tmp_path) as volume:
        with Prometheus(tmp_path, volume.exporter.address, hasten=True) as prom:
            wait_for(lambda: prom.query("iraid_up == 1"), "the first scrape", 30)
            volume.served.stop()
            wait_for(lambda: "IraidHandlerDown" in {name for name, _ in prom.firing()}, "IraidHandlerDown", 60)
            # Not an old figure is shown: it would look like all is well.
            assert not prom.query("iraid_volume_state")
            volume.exporter.__exit__()
            wait_for(lambda: "IraidExporterDown" in {name for name, _ in prom.firing()}, "IraidExporterDown", 60)
