"""The dashboard is one that Grafana 10.3 and later take as it is, and it asks for what the exporter has.

Grafana drops what it does not know and says nothing: a wrong name of an option, a unit or a label is a plot that looks
odd, or is empty.  So what is used is compared with the names that Grafana has, which stand here; its own schema of
dashboards, of which each release has another one, is not part of this repository.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import prometheus
import pytest

from iraid.exporter.metrics import METRICS

Json = dict[str, Any]

DASHBOARD: Json = json.loads(prometheus.DASHBOARD.read_text())
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
# Older ones are changed when they are loaded; of newer ones an older Grafana says nothing, and may show half.
SCHEMA_VERSIONS = range(36, 40)
# What is used of Grafana, by its own names; "a.b" is a key in a key.
UNITS = {"binBps", "bytes", "ops", "percentunit", "pps", "s", "short", "wps"}
LEGEND = {
    "legend",
    "legend.displayMode",
    "legend.placement",
    "legend.showLegend",
    "tooltip",
    "tooltip.mode",
    "tooltip.sort",
}
REDUCED = {"reduceOptions", "reduceOptions.calcs", "reduceOptions.fields", "reduceOptions.values", "orientation"}
OPTIONS: dict[str, set[str]] = {
    "stat": {*REDUCED, "colorMode", "graphMode", "justifyMode", "textMode"},
    "bargauge": {*REDUCED, "displayMode", "showUnfilled"},
    "timeseries": LEGEND,
    "state-timeline": {*LEGEND, "mergeValues", "rowHeight", "showValue"},
    "heatmap": {"calculate", "cellGap", "color", "exemplars", "legend", "showValue", "tooltip", "yAxis"}
    | {"color.exponent", "color.fill", "color.mode", "color.reverse", "color.scheme", "color.steps"}
    | {"exemplars.color", "legend.show", "tooltip.mode", "tooltip.yHistogram", "yAxis.unit"},
    "table": {"showHeader"},
}
# What Grafana has no default for.
NEEDED = {
    "stat": {"orientation", "reduceOptions.calcs"},
    "bargauge": {"orientation", "reduceOptions.calcs"},
    "timeseries": {"legend.showLegend", "tooltip.mode", "tooltip.sort"},
    "state-timeline": {"legend.showLegend", "tooltip.mode", "tooltip.sort"},
    "heatmap": {
        "color.exponent",
        "color.fill",
        "color.reverse",
        "color.scheme",
        "color.steps",
        "tooltip.mode",
        "yAxis",
    },
    "table": set[str](),
}
CUSTOM = {"drawStyle", "fillOpacity", "lineWidth", "showPoints", "spanNulls", "stacking", "stacking.group"} | {
    "stacking.mode",
    "axisPlacement",
}
PANEL = {"datasource", "description", "fieldConfig", "gridPos", "id", "options", "targets", "title", "type"}
FIELD = {"custom", "mappings", "max", "min", "thresholds", "unit"}
TARGET = {"datasource", "expr", "format", "instant", "legendFormat", "refId"}
FORMATS = {"time_series", "table", "heatmap"}
# Variables that Grafana itself defines.
BUILT_IN = {"__all", "__rate_interval"}
LABELS_OF_A_SCRAPE = {"instance", "job"}


def keys(of: Json, prefix: str = "") -> Iterator[str]:
    for key, value in of.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{key}.")


# --- what is wrong with a dashboard ---


def problems(dashboard: Json) -> Iterator[str]:
    yield from problems_of_the_whole(dashboard)
    yield from problems_of_the_grid(dashboard["panels"])
    yield from problems_of_variables(dashboard)
    for panel in dashboard["panels"]:
        for problem in problems_of_a_row(panel) if panel["type"] == "row" else problems_of_a_panel(panel):
            yield f"panel {panel['id']}: {problem}"
    for expression, legend in asked_for(dashboard):
        for problem in problems_of_a_query(expression, legend):
            yield f"{expression}: {problem}"


def problems_of_the_whole(dashboard: Json) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", dashboard.get("uid", "")) or not dashboard.get("title"):
        yield "it has no uid that Grafana takes, or no title"
    if dashboard.get("schemaVersion") not in SCHEMA_VERSIONS:
        yield f"schemaVersion {dashboard.get('schemaVersion')} is none of {SCHEMA_VERSIONS}"
    for key in {"id", "__inputs", "__requires", "gnetId"} & set(dashboard):
        yield f"{key} is of one installation, or of grafana.com"
    for name in ("refresh", "time", "timezone"):
        if not dashboard.get(name):
            yield f"{name} is not set"
    for one in dashboard["annotations"]["list"]:
        if not {"name", "enable", "iconColor"} <= set(one):
            yield f"annotation {one.get('name')} lacks name, enable or iconColor"
        if not one.get("builtIn") and one.get("datasource") != SOURCE:
            yield f"annotation {one.get('name')} is not of the data source that was chosen"


def problems_of_the_grid(panels: list[Json]) -> Iterator[str]:
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids) or not all(isinstance(one, int) and one > 0 for one in ids):
        yield f"ids of panels are not unique: {ids}"
    taken: dict[tuple[int, int], int] = {}
    for panel in panels:
        x, y, width, height = (panel["gridPos"][key] for key in "xywh")
        if min(x, y) < 0 or min(width, height) < 1 or x + width > COLUMNS:
            yield f"panel {panel['id']} is not inside the {COLUMNS} columns"
        for cell in ((a, b) for a in range(x, x + width) for b in range(y, y + height)):
            if taken.setdefault(cell, panel["id"]) != panel["id"]:
                yield f"panel {panel['id']} lies over panel {taken[cell]}"
                break


def problems_of_variables(dashboard: Json) -> Iterator[str]:
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - BUILT_IN
    for name in used - set(variables):
        yield f"variable {name} is used and not defined"
    for name in set(variables) - used:
        yield f"variable {name} is defined and not used"
    for name, one in variables.items():
        if one["type"] == "query":
            if one["datasource"] != SOURCE or one["query"]["query"] != one["definition"]:
                yield f"variable {name}: data source, or query and definition"
            if one["refresh"] not in (1, 2):
                yield f"variable {name} is never asked for again"
        elif (one["type"], one["query"]) != ("datasource", "prometheus"):
            yield f"variable {name} is neither of Prometheus nor a data source"
        if "current" in one and not {"text", "value"} <= set(one["current"]):
            yield f"variable {name}: current lacks text or value"


def problems_of_a_row(row: Json) -> Iterator[str]:
    if set(row) != {"collapsed", "gridPos", "id", "panels", "title", "type"} or row["collapsed"] or row["panels"]:
        yield "a row has its panels below it, not in it"
    if row["gridPos"]["w"] != COLUMNS or row["gridPos"]["h"] != 1:
        yield "a row is a line of the whole width"


def problems_of_a_panel(panel: Json) -> Iterator[str]:
    if panel["type"] not in OPTIONS:
        yield f"type {panel['type']}"
        return
    if set(panel) - {"transformations"} != PANEL or not panel["title"] or not panel["description"]:
        yield f"its keys: {set(panel) ^ PANEL}, title or description"
        return
    options = set(keys(panel["options"]))
    for key in sorted(options - OPTIONS[panel["type"]]):
        yield f"option {key} is none of a {panel['type']}"
    for key in sorted(NEEDED[panel["type"]] - options):
        yield f"option {key} has no default"
    yield from problems_of_fields(panel)
    yield from problems_of_targets(panel)


def problems_of_fields(panel: Json) -> Iterator[str]:
    config = panel["fieldConfig"]
    if set(config) != {"defaults", "overrides"} or not set(config["defaults"]) <= FIELD:
        yield f"fieldConfig: {config}"
        return
    custom = set(keys(config["defaults"].get("custom", {})))
    units = {config["defaults"].get("unit", "short"), panel["options"].get("yAxis", {}).get("unit", "short")}
    for override in config["overrides"]:
        for one in override["properties"]:
            if one["id"] == "unit":
                units.add(one["value"])
            else:
                custom.add(one["id"].removeprefix("custom."))
        matcher = override["matcher"]
        named = {target["refId"] for target in panel["targets"]} if matcher["id"] == "byFrameRefID" else columns(panel)
        if matcher["options"] not in named:
            yield f"an override is for {matcher['options']}, which there is not"
    for unit in sorted(units - UNITS):
        yield f"unit {unit}"
    for key in sorted(custom - CUSTOM):
        yield f"custom {key}"


def columns(panel: Json) -> set[str]:
    """Names that a table's columns are given."""
    return {
        name for one in panel.get("transformations", ()) for name in one["options"].get("renameByName", {}).values()
    }


def problems_of_targets(panel: Json) -> Iterator[str]:
    targets = panel["targets"]
    if panel["datasource"] != SOURCE or any(target.get("datasource") != SOURCE for target in targets):
        yield "it is not of the data source that was chosen"
    if not targets or len({target["refId"] for target in targets}) != len(targets):
        yield "its refIds are not unique, or it asks for nothing"
    for target in targets:
        if not set(target) <= TARGET or not target.get("expr") or target.get("format", "time_series") not in FORMATS:
            yield f"target {target}"


# --- what it asks for ---


def asked_for(dashboard: Json) -> Iterator[tuple[str, str]]:
    """Each query, and the text in which Grafana puts labels of its answer."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target.get("legendFormat", "")
    for one in dashboard["annotations"]["list"]:
        if "expr" in one:
            yield one["expr"], ""  # of ALERTS, whose labels are the alerts'
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", one["definition"])
            yield (asked[1], f"{{{{{asked[2]}}}}}") if asked else (one["definition"], "")


def labels_of_metrics() -> dict[str, set[str]]:
    """By the name that is asked for: histograms and summaries have three."""
    found = {}
    for one in METRICS:
        labels = {*one.labels, *LABELS_OF_A_SCRAPE}
        found[one.name] = labels
        if one.kind in ("histogram", "summary"):
            found |= {one.name + suffix: labels for suffix in ("_sum", "_count")}
            found[f"{one.name}_bucket"] = labels | {"le"}
    return found


def problems_of_a_query(expression: str, legend: str) -> Iterator[str]:
    known = labels_of_metrics()
    there: set[str] = set()
    for name in re.findall(r"\biraid_\w+", expression):
        if name not in known:
            yield f"there is no metric {name}"
        there |= known.get(name, set())
    for name, matchers in re.findall(r"\b(iraid_\w+)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers):
            if label not in known.get(name, {label}):
                yield f"{name} has no label {label}"
    groups = [re.findall(r"\w+", inside) for inside in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)]
    for label in sorted({label for group in groups for label in group} - there):
        yield f"nothing has a label {label}"
    kept = re.search(r"\bby \(([^)]*)\)", expression)
    for label in re.findall(r"\{\{(\w+)\}\}", legend):
        if label not in (re.findall(r"\w+", kept[1]) if kept else there):
            yield f"the answer has no label {label}, which the legend shows"


def test_grafana_takes_it_as_it_is() -> None:
    assert list(problems(DASHBOARD)) == []
    assert len(list(asked_for(DASHBOARD))) > 40


def panel_of(dashboard: Json, kind: str) -> Json:
    return next(panel for panel in dashboard["panels"] if panel["type"] == kind)


def plot(dashboard: Json) -> Json:
    return panel_of(dashboard, "timeseries")


def query(dashboard: Json) -> Json:
    found: Json = plot(dashboard)["targets"][0]
    return found


BROKEN: dict[str, tuple[Callable[[Json], Any], str]] = {
    "id of an installation": (lambda d: d.update(id=7), "id is of one installation"),
    "a newer schema": (lambda d: d.update(schemaVersion=99), "schemaVersion 99"),
    "no uid": (lambda d: d.pop("uid"), "no uid"),
    "an id twice": (lambda d: plot(d).update(id=1), "not unique"),
    "too far right": (lambda d: plot(d)["gridPos"].update(x=20), "not inside the 24 columns"),
    "over another": (lambda d: plot(d)["gridPos"].update(y=plot(d)["gridPos"]["y"] + 1), "lies over panel"),
    "a half row": (lambda d: panel_of(d, "row")["gridPos"].update(w=12), "whole width"),
    "a type of plugin": (lambda d: plot(d).update(type="graph"), "type graph"),
    "an option of before": (
        lambda d: panel_of(d, "heatmap")["options"].update(tooltip={"show": True}),
        "option tooltip.show is none of a heatmap",
    ),
    "an option that is needed": (lambda d: plot(d)["options"].pop("tooltip"), "option tooltip.mode has no default"),
    "a unit": (lambda d: plot(d)["fieldConfig"]["defaults"].update(unit="MiB/s"), "unit MiB/s"),
    "an override for nothing": (
        lambda d: plot(d)["fieldConfig"]["overrides"].append(
            {"matcher": {"id": "byFrameRefID", "options": "Z"}, "properties": []}
        ),
        "an override is for Z",
    ),
    "a field's option": (lambda d: plot(d)["fieldConfig"]["defaults"]["custom"].update(fill=1), "custom fill"),
    "a fixed data source": (lambda d: query(d).update(datasource={"type": "prometheus", "uid": "p"}), "data source"),
    "a refId twice": (lambda d: plot(d)["targets"].append(plot(d)["targets"][0]), "refIds are not unique"),
    "an undefined variable": (lambda d: query(d).update(expr="iraid_up * $factor"), "factor is used and not defined"),
    "a variable for nothing": (
        lambda d: d["templating"]["list"][1].update(name="node"),
        "node is defined and not used",
    ),
    "a variable without a choice": (lambda d: d["templating"]["list"][0].update(current={}), "lacks text or value"),
    "another metric": (lambda d: query(d).update(expr="iraid_uptime"), "there is no metric iraid_uptime"),
    "another label": (lambda d: query(d).update(expr='iraid_up{volume="v0"}'), "iraid_up has no label volume"),
    "grouped by a label that there is not": (
        lambda d: query(d).update(expr="sum by (gateway) (iraid_up)"),
        "nothing has a label gateway",
    ),
    "a label that the sum has not": (
        lambda d: query(d).update(expr="sum by (instance) (iraid_volume_up)"),
        "no label volume, which the legend shows",
    ),
}


@pytest.mark.parametrize(("breaks", "said"), BROKEN.values(), ids=list(BROKEN))
def test_what_would_show_nothing_is_seen(breaks: Callable[[Json], Any], said: str) -> None:
    broken = copy.deepcopy(DASHBOARD)
    breaks(broken)
    assert any(said in problem for problem in problems(broken)), list(problems(broken))


def parse(expressions: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """By promtool of Debian 12, which reads expressions in rules only."""
    rules = [{"record": f"query{number}", "expr": one} for number, one in enumerate(expressions)]
    (folder / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    return subprocess.run(
        ["promtool", "check", "rules", folder / "rules.yml"], check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed; run scripts/deps --long")
def test_prometheus_parses_each_query(tmp_path: Path) -> None:
    expressions = [prometheus.fill_in(expression) for expression, _ in asked_for(DASHBOARD)]
    done = parse(expressions, tmp_path)
    assert done.returncode == 0 and f"{len(expressions)} rules found" in done.stdout + done.stderr, done
    assert parse([*expressions, "sum by volume (iraid_up)"], tmp_path).returncode != 0
