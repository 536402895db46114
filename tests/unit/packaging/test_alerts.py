"""Alert rules and dashboard: they ask for metrics that there are, none is untried, and promtool agrees."""

import json
import re
import subprocess

import prometheus
import pytest
from control_peer import ROOT

from iraid.exporter.metrics import METRICS

RULES = prometheus.RULES.read_text()
TRIED = (ROOT / "packaging/prometheus/alerts_test.yml").read_text()
DASHBOARD = json.loads(prometheus.DASHBOARD.read_text())
ALERTS = re.findall(r"- alert: (\w+)\n(.*?)(?=\n      - alert|\n  - name|\Z)", RULES, re.DOTALL)
EXPRESSIONS = prometheus.dashboard_queries() + [
    one["definition"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"
]
PANELS = {"row", "stat", "timeseries", "table", "heatmap", "bargauge", "state-timeline"}


def unknown_names(text):
    """Metrics of ours, without what Prometheus appends to those of histograms and summaries."""
    known = {one.name for one in METRICS}
    known |= {
        one.name + suffix
        for one in METRICS
        if one.kind in ("histogram", "summary")
        for suffix in ("_bucket", "_sum", "_count")
    }
    return set(re.findall(r"\biraid_\w+", text)) - known


def test_rules_ask_for_metrics_that_there_are():
    assert not unknown_names(RULES) and not unknown_names(TRIED)


@pytest.mark.parametrize(("name", "text"), ALERTS, ids=[name for name, _ in ALERTS])
def test_an_alert_says_what_it_means_and_is_tried(name, text):
    assert re.search(r"severity: (critical|warning|info)\b", text)
    assert re.search(r'summary: ".+"', text) and re.search(r'description: ".+"', text)
    assert f"runbook_url: docs/operating/alarms.md#{name.lower()}\n" in text + "\n"
    cases = re.findall(rf"alertname: {name}\b[^\n]*?(exp_alerts: \[\])?\}}?\n(\s+exp_alerts:\n)?", TRIED)
    assert any(fires for _, fires in cases), "no case in which it fires"
    waits = re.search(r"\bfor: ", text) is not None
    assert not waits or any(quiet for quiet, _ in cases), "no case in which it does not"


def test_the_dashboard_asks_for_metrics_that_there_are():
    assert len(EXPRESSIONS) > 40
    for expression in EXPRESSIONS:
        assert not unknown_names(expression), expression


def test_the_dashboard_is_one_that_grafana_can_load():
    panels = DASHBOARD["panels"]
    assert DASHBOARD["uid"] == "iraid" and DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["title"]
    assert "id" not in DASHBOARD and "__inputs" not in DASHBOARD  # of one installation
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] in PANELS and panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["description"] and panel["targets"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert all(target["datasource"] == panel["datasource"] and target["expr"] for target in panel["targets"])
        assert {"defaults", "overrides"} <= set(panel["fieldConfig"])


def test_variables_of_the_dashboard_are_defined():
    defined = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval", "__all"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used <= defined and {"datasource", "instance", "volume"} <= used


@pytest.mark.long
@pytest.mark.skipif(bool(prometheus.missing()), reason=prometheus.missing() or "-")
@pytest.mark.parametrize(
    "words", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]], ids=lambda words: words[0]
)
def test_promtool_agrees(words):
    done = subprocess.run(
        ["promtool", *words], cwd=prometheus.RULES.parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr
