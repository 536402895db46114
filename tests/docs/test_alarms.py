"""docs/operating/alarms.md has every event that the handler can raise and every alert, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shown import ROOT

PAGE = (ROOT / "docs/operating/alarms.md").read_text()
SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")
ALERTS = ROOT / "packaging/prometheus/alerts.yml"


def section(heading: str) -> str:
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def described_events() -> list[str]:
    cells = re.findall(r"^\| ([a-z][a-z, ]*) \| [a-z]+(?:, [a-z]+)* \|", section("Events"), re.MULTILINE)
    return [name for cell in cells if cell != "event" for name in cell.split(", ")]


def raised_events() -> set[str]:
    """Of the engine by their table, of the adapters where each is noted."""
    engine = re.search(
        r"^event_kind_name\(.*?^}", (ROOT / "handler/engine/life/status.c").read_text(), re.DOTALL | re.MULTILINE
    )[0]
    kinds = set(re.findall(r'\[EVENT_\w+\] = "([^"]+)"', engine))
    for source in sorted((ROOT / "handler/adapters").rglob("*.c")):
        kinds |= set(re.findall(r'volume_note\([^;"]*?LOG_\w+,\s*"([^"]+)"', source.read_text()))
    return kinds


def test_every_event_is_described_once() -> None:
    described = described_events()
    assert len(described) == len(set(described))
    assert set(described) == raised_events()
    assert len(described) > 30
    severities = re.findall(r"^\| [a-z][a-z, ]* \| ([a-z]+(?:, [a-z]+)*) \|", section("Events"), re.MULTILINE)[1:]
    assert {word for cell in severities for word in cell.split(", ")} <= set(SEVERITIES)


def alerts() -> list[str]:
    return re.findall(r"^\s*- alert: (\w+)", ALERTS.read_text(), re.MULTILINE)


def test_every_alert_is_described_and_its_link_leads_there() -> None:
    headings = re.findall(r"^### (\w+)$", section("Alerts"), re.MULTILINE)
    assert sorted(headings) == sorted(alerts()) and len(headings) > 20
    links = re.findall(r"runbook_url:.*?alarms\.md#(\w+)", ALERTS.read_text())
    assert links == [name.lower() for name in alerts()]


@pytest.mark.parametrize(
    "state", ["active", "degraded", "suspended", "assembling", "failed", "stopping", "stopped", "standby"]
)
def test_every_state_of_a_volume_is_described(state: str) -> None:
    assert re.search(rf"^\| (volume)? ?\| .*\b{state}\b", section("States"), re.MULTILINE)
    assert f'"{state}"' in "".join(path.read_text() for path in Path(ROOT / "handler").rglob("*.c"))
