"""iraid exporter: what Prometheus and the page get, with any handler: well, silent, gone, half-answering."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from control_peer import IRAID, ROOT, ControlPeer, Failure, event, member, page, running, volume, work, write_log
from exporter_peer import STARTED_MS, answers, commands, session, stats
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from iraid.cli import exporter as cli_exporter
from iraid.cli.main import main
from iraid.control import model
from iraid.control.client import Client
from iraid.exporter import gather, history, metrics, server, view
from iraid.exporter.run import Service
from iraid.watch.stats import Stats

MONITORING = ROOT / "docs/operating/monitoring.md"
UNIT = ROOT / "config/systemd/iraid-exporter.service.in"
PAGE = ROOT / "python/iraid/exporter/page"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control.sock"


def scraped(path, gatherer=None) -> dict[tuple[str, frozenset], float]:
    """(name, labels) -> value, read by the client library's own parser."""
    text = generate_latest(metrics.registry_of(gatherer or gather.Gatherer(path))).decode()
    found: dict[tuple[str, frozenset], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} twice: Prometheus would refuse the whole scrape"
            found[key] = sample.value
    return found


def value(found, name, **labels) -> float | None:
    return found.get((f"iraid_{name}", frozenset(labels.items())))


# --- metrics ---


def test_the_documentation_lists_the_metrics_that_there_are():
    rows = re.findall(r"^    (iraid_\w+) +(\w+) +([\w,-]+)", MONITORING.read_text(), re.MULTILINE)
    documented = [(name, kind, tuple(re.findall(r"\w+", labels))) for name, kind, labels in rows]
    assert documented == [(one.name, one.kind, one.labels) for one in metrics.METRICS]


@pytest.mark.parametrize("one", metrics.METRICS, ids=lambda one: one.name)
def test_names_are_as_prometheus_wants_them(one):
    assert re.fullmatch(r"iraid(_[a-z]+)+", one.name)
    assert one.name.endswith("_total") == (one.kind == "counter")
    assert one.name.endswith("_info") == (one.kind == "info")
    assert (one.kind in ("histogram", "summary")) <= one.name.endswith("_seconds")
    assert not re.search(r"_(us|ms|kb|mb|percent|count|sum|bucket)\b", one.name)


def test_all_metrics_of_a_handler_that_is_well_are_there(path):
    well = answers(
        [volume(rebuild=running(member="m"))],
        spares=[{"device": "10.0.0.9:3260/iqn.x:s/0", "size_bytes": 1 << 30, "block_bytes": 512}],
    )
    with ControlPeer(path, well | {"events": Failure(10, "internal", "no", "")}):  # or failed_calls would not be there
        names = {name for name, _ in scraped(path)}
    for one in metrics.METRICS:
        suffix = {"histogram": "_count", "summary": "_count"}.get(one.kind, "")
        assert one.name + suffix in names


def test_a_scrape_has_the_figures_of_the_handler(path):
    with ControlPeer(path, answers()):
        found = scraped(path)
    m0 = member(0)["member"]
    assert value(found, "up") == 1
    assert value(found, "handler_info", version="0.1.0", program="tcmu-runner") == 1
    assert value(found, "runner_cpu_seconds_total", mode="user") == 1.5
    assert value(found, "volume_size_bytes", volume="v0") == 300 << 30
    assert value(found, "volume_started_timestamp_seconds", volume="v0") == STARTED_MS / 1000
    assert value(found, "commands_active", volume="v0") == 3
    assert value(found, "command_bytes_total", volume="v0", op="read") == 100 * 65536
    assert value(found, "command_errors_total", volume="v0", op="write") == 1
    assert value(found, "step_duration_seconds_sum", volume="v0", step="write") == pytest.approx(0.09)
    assert value(found, "step_duration_max_seconds", volume="v0", step="write") == pytest.approx(0.005)
    assert value(found, "member_commands_active", volume="v0", member=member(3)["member"]) == 3
    assert value(found, "member_command_bytes_total", volume="v0", member=m0, op="write") == 20 * 4096
    assert value(found, "session_rtt_seconds", volume="v0", member=m0, session="0") == pytest.approx(250e-6)
    assert value(found, "session_retransmits_total", volume="v0", member=m0, session="0") == 3
    assert (
        value(
            found,
            "session_info",
            volume="v0",
            member=m0,
            session="0",
            portal="10.0.0.1:3260",
            congestion_control="cubic",
        )
        == 1
    )
    assert value(found, "volume_rows_written_total", volume="v0", how="read_modify_write") == 4


def test_openmetrics_is_given_to_who_asks_for_it(path):
    with ControlPeer(path, answers()), Service(path, "127.0.0.1", 0) as service:
        kind, _, body = get(service, "/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})[1:4]
    assert kind.startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics_parser.text_string_to_metric_families(body.decode())}
    assert {"iraid_up", "iraid_volume", "iraid_command_duration_seconds", "iraid_command_bytes"} <= names


def test_a_histogram_counts_in_each_bucket_what_is_below_it(path):
    with ControlPeer(path, answers()):
        found = scraped(path)

    def bucket(bound):
        return value(found, "command_duration_seconds_bucket", volume="v0", op="read", le=bound)

    assert [bucket(le) for le in ("1.6e-05", "0.000256", "0.000512", "0.001024", "33.554432", "+Inf")] == [
        0,
        0,
        100,
        100,
        100,
        100,
    ]
    assert value(found, "command_duration_seconds_count", volume="v0", op="read") == 100
    assert value(found, "command_duration_seconds_sum", volume="v0", op="read") == pytest.approx(0.03)


def test_what_is_longer_than_the_last_bound_counts_as_well(path):
    slow = stats(commands={"read": commands(7, 512, 60_000_000)})
    with ControlPeer(path, answers(figures=slow)):
        found = scraped(path)
    assert value(found, "command_duration_seconds_bucket", volume="v0", op="read", le="33.554432") == 0
    assert value(found, "command_duration_seconds_bucket", volume="v0", op="read", le="+Inf") == 7


def test_buckets_that_do_not_fit_their_bounds_are_not_guessed_at():
    one = model.read(Stats, stats(bounds_us=[16, 32]))
    assert metrics.cumulated(one.bounds_us, one.commands.read) == [("+Inf", 100)]


@pytest.mark.parametrize("state", [*metrics.VOLUME_STATES, "a state of tomorrow"])
def test_exactly_one_state_of_a_volume_holds(path, state):
    with ControlPeer(path, answers([volume(state=state)])):
        found = scraped(path)
    states = {dict(labels)["state"]: number for (name, labels), number in found.items() if name == "iraid_volume_state"}
    assert {name for name, number in states.items() if number} == {state}
    assert set(states) == {*metrics.VOLUME_STATES, state}


def test_a_member_that_changed_its_state_has_left_the_old_one(path):
    members = [member(0), member(1, state="faulty", link="closed", slow=True)]
    with ControlPeer(path, answers([volume(state="degraded", members=members)])):
        found = scraped(path)
    m1 = members[1]["member"]
    assert value(found, "member_state", volume="v0", member=m1, state="faulty") == 1
    assert value(found, "member_state", volume="v0", member=m1, state="in sync") == 0
    assert value(found, "member_link_up", volume="v0", member=m1) == 0
    assert value(found, "member_slow", volume="v0", member=m1) == 1
    assert value(found, "volume_members", volume="v0", state="faulty") == 1
    assert value(found, "volume_members", volume="v0", state="spare") == 0


def test_two_sessions_by_one_portal_are_told_apart(path):
    figures = stats(members=1)
    figures["members"][0]["sessions"] = [session("10.0.0.1:3260"), session("10.0.0.1:3260", rtt_us=9000)]
    with ControlPeer(path, answers(figures=figures)):
        found = scraped(path)
    m0 = member(0)["member"]
    assert value(found, "session_rtt_seconds", volume="v0", member=m0, session="1") == pytest.approx(0.009)


def test_work_in_the_background_is_told_with_its_progress(path):
    waiting = work(member=member(1)["member"], total_rows=1000, done_rows=10, reason="no session")
    one = volume(
        rebuild=waiting,
        resync=running(corrected_rows=2),
        scrub=work(active=False, mode="check", mismatches=5, mismatch_offsets=[]),
    )
    with ControlPeer(path, answers([one])):
        found = scraped(path)
    assert [
        value(found, f"work_{what}", volume="v0", work="rebuild")
        for what in ("pending", "running", "done_rows", "total_rows", "remaining_seconds")
    ] == [1, 0, 10, 1000, None]
    assert value(found, "work_remaining_seconds", volume="v0", work="resync") == 130
    assert value(found, "work_bytes_per_second", volume="v0", work="resync") == 120 << 20
    assert value(found, "work_pending", volume="v0", work="scrub") == 0
    assert value(found, "scrub_mismatched_rows", volume="v0", mode="check") == 5
    assert value(found, "scrub_mismatched_rows", volume="v0", mode="repair") == 0


def test_parity_to_be_verified_is_work_that_waits():
    regions = {"total": 10, "dirty": 0, "suspect": 3, "stale": 0, "region_bytes": 1}
    assert metrics.is_pending(model.read(model.Volume, volume(regions=regions)), "resync")
    assert not metrics.is_pending(model.read(model.Volume, volume(regions=regions, level=0)), "resync")


@pytest.mark.parametrize(
    ("level", "states", "empty", "bears"),
    [
        (5, ["in sync"] * 4, [], 1),
        (5, ["in sync"] * 3 + ["faulty"], [], 0),
        (5, ["in sync"] * 3 + ["rebuilding"], [], 0),
        (5, ["in sync"] * 3, [3], 0),
        (6, ["in sync"] * 4, [], 2),
        (6, ["in sync"] * 3 + ["missing"], [], 1),
        (1, ["in sync"] * 3, [], 2),
        (1, ["in sync", "faulty"], [], 0),
        (0, ["in sync"] * 3, [], 0),
        (10, ["in sync"] * 4, [], 1),
        (10, ["in sync"] * 3 + ["out of date"], [], 0),
    ],
)
def test_redundancy_is_how_many_more_members_may_be_lost(level, states, empty, bears):
    members = [member(role, state=state) for role, state in enumerate(states)]
    members.append(member(9, state="spare", role=None))
    one = volume(level=level, members=members, empty_roles=empty)
    assert gather.redundancy(model.read(model.Volume, one)) == bears


@pytest.mark.parametrize(
    ("level", "out", "redundancy", "expendable"),
    [
        (5, [], 1, 6),
        (5, [0], 0, 0),
        (6, [0], 1, 5),
        (1, [0], 4, 5),
        (0, [], 0, 0),
        (10, [], 1, 6),
        (10, [0], 0, 4),
        (10, [0, 2], 0, 2),
        (10, [0, 2, 4], 0, 0),
    ],
)
def test_each_member_that_may_be_lost_alone_counts_as_expendable(path, level, out, redundancy, expendable):
    """Level 10 with one of six out survives the loss of any other than its partner."""
    members = [member(role, state="faulty" if role in out else "in sync") for role in range(6)]
    one = volume(level=level, members=members, state="degraded" if out else "active")
    with ControlPeer(path, answers([one])):
        found = scraped(path)
    assert value(found, "volume_redundancy", volume="v0") == redundancy
    assert value(found, "volume_expendable_members", volume="v0") == expendable


def test_the_write_log_is_told_of_levels_that_have_one(path):
    log = write_log(open=True, given_up=True, records=1234, bytes=8192)
    with ControlPeer(path, answers([volume(log=log), volume("copies", level=10, log=write_log(mode="off"))])):
        found = scraped(path)
    shown = ("log_open", "log_given_up", "log_records_total", "log_bytes")
    assert [value(found, name, volume="v0") for name in shown] == [1, 1, 1234, 8192]
    assert [value(found, name, volume="copies") for name in shown] == [None] * 4


@pytest.mark.parametrize("state", ["suspended", "failed", "assembling", "stopped"])
def test_nothing_is_claimed_of_a_volume_that_does_not_work(state):
    assert gather.redundancy(model.read(model.Volume, volume(state=state))) is None


# --- a handler that does not do what it should ---


def test_without_a_handler_there_is_a_scrape_that_says_so(path):
    gatherer = gather.Gatherer(path)
    found = scraped(path, gatherer)
    assert value(found, "up") == 0
    assert value(found, "failed_calls_total", method="version") == 1
    assert not any(name.startswith("iraid_volume") for name, _ in found)


def test_a_handler_that_hangs_costs_a_bounded_time_and_many_askers_wait_once(path, monkeypatch):
    monkeypatch.setattr(gather, "CALL_SECONDS_MAX", 0.2)
    gatherer = gather.Gatherer(path)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(path))
        hung.listen(64)
        seen: list[gather.Snapshot] = []
        askers = [threading.Thread(target=lambda: seen.append(gatherer.snapshot())) for _ in range(10)]
        begin = time.monotonic()
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        took = time.monotonic() - begin
    assert [one.up for one in seen] == [False] * 10
    assert len({id(one) for one in seen}) == 1
    assert "no answer to version within 0.2 s" in seen[0].error
    assert took < 1.5


def test_a_handler_that_trickles_gains_no_time(path, monkeypatch):
    monkeypatch.setattr(gather, "CALL_SECONDS_MAX", 0.3)
    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as slow:
        slow.bind(str(path))
        slow.listen(1)

        def trickle() -> None:
            connection, _ = slow.accept()
            with connection:
                while not ended.wait(0.05):
                    try:
                        connection.send(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=trickle)
        thread.start()
        begin = time.monotonic()
        found = gather.Gatherer(path).snapshot()
        took = time.monotonic() - begin
        ended.set()
        thread.join()
    assert not found.up and took < 1.5


def test_all_of_it_has_one_limit(path, monkeypatch):
    """A hundred volumes that take their time one after the other don't add up."""
    now = [0.0]

    def slow_answer(asked):
        now[0] += 1.0
        return volume(asked["name"])

    many = answers([volume(f"v{i}") for i in range(20)])
    with ControlPeer(path, many | {"volume.status": slow_answer}) as peer:
        found = gather.Gatherer(path, clock=lambda: now[0]).snapshot()
    asked = [method for method, _ in peer.calls].count("volume.status")
    assert asked <= gather.SECONDS_MAX + 1
    assert found.up and len(found.volumes) == 20
    assert "was not asked" in found.volumes[-1].error


def test_a_volume_that_does_not_answer_hides_no_other(path):
    broken = Failure(10, "internal", "its thread hangs", "restart it")
    both = answers([volume("good"), volume("stuck")])
    with ControlPeer(
        path, both | {"volume.status": lambda asked: broken if asked["name"] == "stuck" else volume(asked["name"])}
    ):
        found = scraped(path)
    assert [value(found, "volume_up", volume=name) for name in ("good", "stuck")] == [1, 0]
    assert value(found, "volume_state", volume="stuck", state="active") == 1
    assert value(found, "volume_requests_merged_total", volume="good") == 3
    # Zeros would look like a restart.
    assert value(found, "volume_requests_merged_total", volume="stuck") is None
    assert value(found, "failed_calls_total", method="volume.status") == 1


def test_a_volume_that_was_deleted_meanwhile_is_no_fault(path):
    gone = Failure(2, "not_found", "no volume v1", "iraid list")
    both = answers([volume("v0"), volume("v1")])
    with ControlPeer(path, both | {"volume.stats": lambda asked: gone if asked["name"] == "v1" else stats("v0")}):
        found = gather.Gatherer(path).snapshot()
    assert [one.status.name for one in found.volumes] == ["v0"]
    assert not found.failed_calls


def test_a_stopped_volume_has_a_state_and_no_figures(path):
    stopped = volume(state="stopped", level=None, members=[member(0, state="unknown", role=None)])
    with ControlPeer(path, answers([stopped], figures=stats(started_ms=0, members=0, runner={}))):
        found = scraped(path)
    assert value(found, "volume_state", volume="v0", state="stopped") == 1
    assert value(found, "commands_active", volume="v0") is None


def test_the_sampler_goes_on_after_a_fault_of_ours(path, capsys):
    seen = []

    def fail_once(snapshot):
        seen.append(snapshot)
        if len(seen) == 1:
            raise ZeroDivisionError
        again.set()

    again = threading.Event()
    sampler = gather.Sampler(gather.Gatherer(path), 0.01, fail_once)
    sampler.start()
    assert again.wait(10)
    sampler.stop()
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_answer_is_shared_for_a_second_and_no_longer(path):
    now = [100.0]
    with ControlPeer(path, answers()) as peer:
        gatherer = gather.Gatherer(path, clock=lambda: now[0])
        first = gatherer.snapshot()
        now[0] += gather.SHARED_SECONDS / 2
        assert gatherer.snapshot() is first
        now[0] += gather.SHARED_SECONDS
        assert gatherer.snapshot() is not first
    assert [method for method, _ in peer.calls].count("version") == 2


# --- events ---


def followed(path, log, answer):
    path.unlink(missing_ok=True)
    with ControlPeer(path, {"events": answer}) as peer:
        log.follow(Client(path))
    return [parameters["after"] for _, parameters in peer.calls]


def test_events_are_counted_once_and_from_the_exporters_start_on(path):
    log = gather.EventLog()
    followed(path, log, page(event(1), event(2, severity="error")))
    assert not log.counted and len(log.kept) == 2
    assert followed(path, log, page(event(3), event(4, severity="error"), event(5))) == [2]
    assert followed(path, log, {**page(), "oldest": 1, "next": 5}) == [5]
    assert log.counted == {("v0", "warning"): 2, ("v0", "error"): 1}


def test_a_handler_that_was_restarted_has_its_events_counted_from_one(path):
    log = gather.EventLog()
    followed(path, log, page(*(event(i) for i in range(1, 8))))
    anew = page(event(1, kind="assembled", severity="notice"), event(2), instance="another")
    asked = followed(path, log, lambda given: anew if given["after"] == 0 else {**anew, "events": [], "next": 7})
    assert asked == [7, 0]
    assert log.counted == {("v0", "notice"): 1, ("v0", "warning"): 1}
    assert log.missed == 0


def test_events_that_came_too_fast_are_counted_as_missed(path):
    log = gather.EventLog()
    followed(path, log, page(event(1)))
    followed(path, log, page(event(1501), event(1502), oldest=1501))
    assert log.missed == 1499 and log.counted == {("v0", "warning"): 2}


def test_severities_are_there_before_their_first_event(path):
    """Else rate() would not see the first."""
    with ControlPeer(path, answers()):
        found = scraped(path)
    assert value(found, "events_total", volume="v0", severity="error") == 0
    assert value(found, "events_total", volume="", severity="critical") == 0


# --- the page's history ---


def figures(**changes):
    return model.read(Stats, stats(**changes))


def test_a_point_is_made_of_two_looks():
    before = figures(time_ms=STARTED_MS)
    after = figures(
        time_ms=STARTED_MS + 5000, commands={"read": commands(200, 65536, 300), "write": commands(50, 4096, 2000)}
    )
    point = history.between(before, after)
    assert point.reads_per_second == 20 and point.read_bytes_per_second == 20 * 65536
    assert point.read_us == 300
    assert point.writes_per_second == 0 and point.write_us is None


@pytest.mark.parametrize(
    "after",
    [
        {"started_ms": STARTED_MS + 1},
        {"started_ms": 0},
        {"time_ms": STARTED_MS + 60_000},
        {"commands": {"read": commands(1, 512, 10)}},
    ],
)
def test_a_volume_that_was_started_anew_makes_no_jump(after):
    assert history.between(figures(), figures(**{"time_ms": STARTED_MS + 65_000, **after})) is None


FIGURES = model.read(Stats, stats())


def snapshot_of(*shown: dict[str, Any], at_ms: int) -> gather.Snapshot:
    views = tuple(
        gather.VolumeView(
            model.Volume(one["name"], "active"), replace(FIGURES, name=one["name"], time_ms=one["time_ms"])
        )
        for one in shown
    )
    return gather.Snapshot(at_ms / 1000, up=True, volumes=views)


def test_the_history_is_an_hour_at_most_and_forgets_volumes_that_are_gone():
    kept = history.History()
    step_ms = int(history.INTERVAL_SECONDS * 1000)
    for i in range(history.POINTS_MAX + 50):
        at = STARTED_MS + i * step_ms
        names = ["v0", "old"] if i < 3 else ["v0"]
        kept.add(snapshot_of(*({"name": name, "time_ms": at} for name in names), at_ms=at))
    points = kept.points("v0")
    assert len(points) <= history.POINTS_MAX
    assert points[-1].time_ms - points[0].time_ms <= history.KEPT_SECONDS * 1000
    assert not kept.points("old") and "old" not in kept._last
    assert len(kept.points("v0", after_ms=points[-3].time_ms)) == 2


def test_the_history_is_bounded_in_volumes(monkeypatch):
    monkeypatch.setattr(history, "VOLUMES_MAX", 3)
    kept = history.History()
    for i in range(3):
        at = STARTED_MS + 5000 * i
        kept.add(snapshot_of(*({"name": f"v{n}", "time_ms": at} for n in range(9)), at_ms=at))
    assert [bool(kept.points(f"v{n}")) for n in range(4)] == [True, True, True, False]


def test_the_page_shows_the_last_known_volumes_without_a_handler(path):
    gatherer = gather.Gatherer(path)
    with ControlPeer(path, answers()):
        gatherer.snapshot()
    path.unlink()
    data = view.page_data(gatherer.snapshot(age_seconds_max=0), gatherer.last_good, history.History())
    assert data["up"] is False and "does not exist" in data["error"] and "systemctl" in data["remedy"]
    assert [one["name"] for one in data["volumes"]] == ["v0"]
    assert data["known_ms"] <= data["time_ms"]


# --- HTTP ---


def get(service, target="/", headers=None, method="GET"):
    """Status, type, headers, body."""
    connection = http.client.HTTPConnection(*service._server.server_address[:2], timeout=10)
    connection.request(method, target, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers.get("Content-Type", ""), answer.headers, body


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("service") / "control.sock"
    with ControlPeer(path, answers()), Service(path, "127.0.0.1", 0, ["gw1.example.org"]) as running_service:
        yield running_service


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
        ("/metrics", "text/plain"),
        ("/api/v1/status", "application/json"),
        ("/api/v1/status?after=17", "application/json"),
    ],
)
def test_what_is_served_and_that_nothing_else_may_run(service, target, kind):
    status, got, headers, body = get(service, target)
    assert status == 200 and got.startswith(kind) and body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    head_status, _, head_headers, head_body = get(service, target, method="HEAD")
    assert (head_status, head_body) == (200, b"") and head_headers["Content-Type"] == got


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_nothing_but_get_and_head_is_answered(service, method):
    status, _, headers, _ = get(service, "/", method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/nothing", 404),
        ("/../client.py", 404),
        ("/page/index.html", 404),
        ("//etc/passwd", 404),
        ("/api/v1/status?after=x", 400),
        ("/api/v1/status?after=-1", 400),
        ("/api/v1/status?after=" + "9" * 30, 400),
        ("/api/v1/status?after=%C2%B2", 400),
        ("/" + "x" * 70000, 414),
    ],
)
def test_bad_requests_get_their_status_and_a_text(service, target, expected):
    status, kind, _, body = get(service, target)
    assert (status, kind) == (expected, "text/plain; charset=utf-8") and body


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("127.0.0.1:9723", True),
        ("127.0.0.1", True),
        ("localhost:9723", True),
        ("[::1]:9723", True),
        ("10.0.0.9:1", True),
        (f"{socket.gethostname()}:9723", True),
        ("gw1.example.org:9723", True),
        ("GW1.Example.org.", True),
        ("evil.example:9723", False),
        ("gw1.example.org.evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[::1", False),
        ("@127.0.0.1:x@evil.example", False),
    ],
)
def test_a_name_of_somebody_else_that_points_here_gets_nothing(service, host, accepted):
    for target in ("/", "/metrics", "/api/v1/status"):
        status, _, _, body = get(service, target, {"Host": host})
        assert status == (200 if accepted else 421)
        assert accepted or b"iraid_" not in body


def test_an_address_that_is_none_is_refused_and_not_logged(path, capfd):
    with ControlPeer(path, answers()), Service(path, "127.0.0.1", 0) as service:
        assert get(service, "http://[x", {"Host": "localhost"})[0] == 400
    assert "Traceback" not in capfd.readouterr().err


def test_names_are_data_and_never_markup(path):
    evil = "<script>alert(1)</script>"
    members = [member(0, member=f"{evil}/iqn.x/0", reason=evil)]
    with (
        ControlPeer(path, answers([volume(members=members, reason=evil)], events=page(event(1, text=evil)))),
        Service(path, "127.0.0.1", 0) as service,
    ):
        assert evil not in get(service, "/")[3].decode()
        _, kind, _, body = get(service, "/api/v1/status")
        assert kind == "application/json" and json.loads(body)["volumes"][0]["reason"] == evil
        scrape = get(service, "/metrics")[3].decode()
    assert [family for family in text_string_to_metric_families(scrape) if family.name == "iraid_member_state"]


def test_the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_data():
    html, script, style = ((PAGE / name).read_text() for name in ("index.html", "page.js", "page.css"))
    for text in (html, script, style):
        uncommented = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z]", uncommented)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)
    assert not re.search(r"<script(?! src=\"page.js\")|<style|style=|\son[a-z]+=", html)
    assert "url(" not in style and "@import" not in style


def test_large_answers_are_compressed_for_who_can_take_that(service):
    _, _, headers, body = get(service, "/metrics", {"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip" and b"iraid_up 1.0" in gzip.decompress(body)
    assert "Content-Encoding" not in get(service, "/metrics")[2]


def test_a_fault_of_ours_is_500_and_the_next_request_is_answered(service, monkeypatch, capsys):
    monkeypatch.setattr(server, "page_data", lambda *_: 1 / 0)
    assert get(service, "/api/v1/status")[0] == 500
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert get(service, "/metrics")[0] == 200


@contextmanager
def connected(service) -> Iterator[socket.socket]:
    with socket.create_connection(service._server.server_address[:2], timeout=10) as connection:
        yield connection


def test_connections_are_bounded_and_room_comes_back(path, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)
    with ControlPeer(path, answers()), Service(path, "127.0.0.1", 0) as service:
        with connected(service), connected(service):
            status, _, headers, _ = get(service, "/page.css")
            assert (status, headers["Retry-After"]) == (503, "2")
        deadline = time.monotonic() + 10
        while get(service, "/page.css")[0] != 200:
            assert time.monotonic() < deadline, "room did not come back"


def test_a_client_that_takes_its_time_is_ended(path, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.3)
    with ControlPeer(path, answers()), Service(path, "127.0.0.1", 0) as service, connected(service) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(100) == b""


# --- the command and its unit ---


@contextmanager
def exporter_process(path, *words, environment=None):
    """Yields the process and the URL it said."""
    process = subprocess.Popen(
        [sys.executable, IRAID, "exporter", "--socket", path, "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
    )
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.communicate()


def test_the_command_serves_says_so_to_systemd_and_ends_on_sigterm(path, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, ControlPeer(path, answers()):
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        with exporter_process(
            path, "--address", "127.0.0.1", "--port", "0", environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}
        ) as (process, url):
            assert systemd.recv(100) == b"READY=1"
            port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", url)[1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/metrics")
            assert b"iraid_up 1.0" in connection.getresponse().read()
            process.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert process.wait(20) == 0
            assert process.stderr.read() == ""


def test_once_prints_the_metrics_and_needs_no_handler(path, capsys):
    assert main(["exporter", "--once", "--socket", str(path)]) == 0
    assert "iraid_up 0.0" in capsys.readouterr().out
    with ControlPeer(path, answers()):
        assert main(["exporter", "--once", "--json", "--socket", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["volumes"][0]["redundancy"] == 1


def test_a_port_that_is_taken_is_named(path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["exporter", "--socket", str(path), "--address", "127.0.0.1", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"127.0.0.1 port {port}: Address already in use" in said and "ss -ltnp" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--address", "gw1", "--port", "0"], "'gw1' is not an IP address to listen on"),
        (["--address", "", "--port", "0"], "'' is not an IP address"),
        (["--port", "70000"], "70000"),
    ],
)
def test_wrong_usage_ends_with_2_and_is_named(words, said, capsys):
    assert main(["exporter", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def gateway_file(tmp_path, monkeypatch):
    """gateway_file(address, port): what the parser says of gateway.conf."""

    def write(faults=(), **exporter):
        engine = tmp_path / "iraid-engine"
        said = json.dumps({"exporter": exporter, "faults": list(faults)})
        engine.write_text(f"#!/bin/sh\n[ \"$*\" = '--print-config gateway' ] && cat <<'END'\n{said}\nEND\n")
        engine.chmod(0o755)
        monkeypatch.setenv("IRAID_ENGINE", str(engine))

    return write


def test_where_to_listen_is_in_gateway_conf(path, gateway_file):
    gateway_file(address="127.0.0.3", port=0)
    with exporter_process(path) as (_, url):
        assert url.startswith("http://127.0.0.3:")


def test_options_override_gateway_conf(path, gateway_file):
    gateway_file(address="127.0.0.3", port=1)
    with exporter_process(path, "--port", "0") as (_, url):
        assert url.startswith("http://127.0.0.3:")
    with exporter_process(path, "--address", "::1", "--port", "0") as (_, url):
        assert url.startswith("http://[::1]:")


def test_a_fault_in_gateway_conf_is_told_and_nothing_is_served(path, gateway_file, capsys):
    gateway_file(
        [
            {
                "file": "/etc/iraid/gateway.conf",
                "line": 7,
                "section": "exporter",
                "key": "port",
                "what": "99999 is above 65535",
                "remedy": "1 to 65535",
            }
        ],
        address="127.0.0.1",
        port=9723,
    )
    assert main(["exporter", "--socket", str(path)]) == 1
    assert "/etc/iraid/gateway.conf:7: port: 99999 is above 65535" in capsys.readouterr().err


def test_an_exporter_that_is_not_installed_says_what_to_install(monkeypatch, capsys):
    from iraid import exporter

    monkeypatch.delattr(exporter, "run", raising=False)
    monkeypatch.setitem(sys.modules, "iraid.exporter.run", None)
    assert main(["exporter", "--once"]) == 1
    assert "apt install iraid-exporter" in capsys.readouterr().err


def test_the_unit_runs_a_command_that_there_is_and_is_shut_in(tmp_path):
    text = UNIT.read_text().replace("@CMAKE_INSTALL_FULL_SBINDIR@/iraid", str(IRAID))
    assert "@" not in re.sub(r"SystemCallFilter=.*", "", text)
    assert re.search(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)[1] == cli_exporter.exporter.name
    unit = tmp_path / "iraid-exporter.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if "iraid-exporter" in line]
    assert (done.returncode, said) == (0, []), done.stderr
    # Of 100, the less the better.
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
