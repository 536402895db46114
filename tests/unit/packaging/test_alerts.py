"""Alert rules: they ask for metrics that there are, none is untried, and promtool agrees.  Dashboard: test_dashboard.py."""

import re
import subprocess

import prometheus
import pytest
from control_peer import ROOT

from iraid.exporter.metrics import METRICS

RULES = prometheus.RULES.read_text()
TRIED = (ROOT / "packaging/prometheus/alerts_test.yml").read_text()
ALERTS = re.findall(r"- alert: (\w+)\n(.*?)(?=\n      - alert|\n  - name|\Z)", RULES, re.DOTALL)


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
