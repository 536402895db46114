"""Debian's Prometheus with our rules, and our exporter, as processes of a test.

    with Exporter(socket, folder) as exporter, Prometheus(folder, exporter.address, hasten=True) as prometheus:
        prometheus.query("iraid_up")          # [({labels}, 1.0)]
        prometheus.firing()                   # {("IraidVolumeDegraded", "v0"), ...}

The rules are those that are shipped.  `hasten`: what they wait for ("for:") becomes two seconds, and Prometheus looks each
second, so that a test does not take half an hour; conditions stay as they are.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")

ROOT = Path(__file__).resolve().parents[1]
IRAID = ROOT / "scripts/iraid"
PYTHON = "/usr/bin/python3"
RULES = ROOT / "packaging/prometheus/alerts.yml"
DASHBOARD = ROOT / "packaging/grafana/iraid.json"
HASTY_SECONDS = 2


def missing() -> str:
    """Which program there is not; empty if there are all."""
    absent = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"no {' and no '.join(absent)}: apt install prometheus (scripts/deps --long)" if absent else ""


def wait_for(found: Callable[[], Value], what: str, seconds: float) -> Value:
    deadline = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.2)


def fetch(url: str, seconds: float = 30.0) -> bytes:
    with urllib.request.urlopen(url, timeout=seconds) as answer:
        return answer.read()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    def __init__(self, words: list[str | Path], log: Path, **options: Any) -> None:
        self.words, self.log, self.options = [str(word) for word in words], log, options
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.options)

    def check(self) -> None:
        assert self.popen is not None
        assert self.popen.poll() is None, (
            f"{self.words[0]} ended with {self.popen.returncode}:\n{self.log.read_text(errors='replace')[-3000:]}"
        )

    def stop(self) -> None:
        if self.popen is None:
            return
        self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(60)
        finally:
            self.popen.kill()
            self.popen = None


class Exporter:
    def __init__(self, control_socket: Path | str, folder: Path) -> None:
        self.log = folder / "exporter.log"
        self._process = Process(
            [PYTHON, IRAID, "exporter", "--socket", control_socket, "--address", "127.0.0.1", "--port", "0", "--json"],
            self.log,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.url = ""

    def __enter__(self) -> Exporter:
        self._process.start()
        self.url = wait_for(self._said_url, "the exporter to listen", 60)
        return self

    def _said_url(self) -> str:
        self._process.check()
        said = re.search(r'\{"url": "([^"]+)"\}', self.log.read_text())
        return said[1] if said else ""

    @property
    def address(self) -> str:
        return urllib.parse.urlsplit(self.url).netloc

    def status(self) -> dict[str, Any]:
        return json.loads(fetch(f"{self.url}api/v1/status"))

    def __exit__(self, *_: object) -> None:
        self._process.stop()
        said = self.log.read_text(errors="replace")
        assert "Traceback" not in said, said


class Prometheus:
    def __init__(self, folder: Path, target: str, hasten: bool = False, interval_seconds: int = 1) -> None:
        self.folder = folder / "prometheus"
        self.folder.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        self.began = time.time()
        rules = RULES.read_text()
        if hasten:
            rules = re.sub(r"\bfor: \w+", f"for: {HASTY_SECONDS}s", rules)
        (self.folder / "alerts.yml").write_text(rules)
        (self.folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {interval_seconds}s, evaluation_interval: {interval_seconds}s}}\n"
            "rule_files: [alerts.yml]\n"
            f"scrape_configs: [{{job_name: iraid, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        self._process = Process(
            [
                "prometheus",
                f"--config.file={self.folder}/prometheus.yml",
                f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address={self.url.removeprefix('http://')}",
                "--log.level=warn",
            ],
            self.folder / "prometheus.log",
            cwd=self.folder,
        )

    def __enter__(self) -> Prometheus:
        self._process.start()
        wait_for(self._ready, "Prometheus to be ready", 120)
        self.began = time.time()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def _ready(self) -> bool:
        self._process.check()
        try:
            return b"Ready" in fetch(f"{self.url}/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False

    def _get(self, what: str, **parameters: Any) -> Any:
        try:
            answer = json.loads(fetch(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what} {parameters}: {error.read().decode(errors='replace')}") from error
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        return [(one["metric"], float(one["value"][1])) for one in self._get("query", query=expression)["result"]]

    def query_since_start(self, expression: str) -> list[dict[str, Any]]:
        """Series that had a value at any time."""
        return self._get("query_range", query=expression, start=self.began, end=time.time(), step=1)["result"]

    def alerts(self) -> list[dict[str, Any]]:
        return self._get("alerts")["alerts"]

    def firing(self) -> set[tuple[str, str]]:
        """(alert, volume or instance)"""
        return {
            (one["labels"]["alertname"], one["labels"].get("volume", one["labels"].get("instance", "")))
            for one in self.alerts()
            if one["state"] == "firing"
        }

    def targets(self) -> list[dict[str, Any]]:
        return self._get("targets")["activeTargets"]


class Timeline:
    """What happened when: alerts that begin and end, and what the test did."""

    def __init__(self, prometheus: Prometheus, show: Callable[[str], None]) -> None:
        self._prometheus, self._show = prometheus, show
        self._begin = time.monotonic()
        self._firing: set[tuple[str, str]] = set()
        self.fired: list[str] = []

    def note(self, what: str) -> None:
        self._show(f"    {time.monotonic() - self._begin:6.1f} s  {what}")

    def look(self) -> set[tuple[str, str]]:
        now = self._prometheus.firing()
        for name, what in sorted(now - self._firing):
            self.note(f"FIRES   {name} {what}")
            self.fired.append(name)
        for name, what in sorted(self._firing - now):
            self.note(f"clears  {name} {what}")
        self._firing = now
        return now

    def wait(self, condition: Callable[[set[str]], bool], what: str, seconds: float) -> None:
        wait_for(lambda: condition({name for name, _ in self.look()}), f"{what}; firing are {self._firing}", seconds)


def dashboard_queries() -> list[str]:
    """Every query of the dashboard, with its variables filled in as Grafana does."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    found += [one["expr"] for one in dashboard["annotations"]["list"] if "expr" in one]
    return [fill_in(expression) for expression in found]


def fill_in(expression: str) -> str:
    for variable, content in (("$__rate_interval", "4s"), ("$instance", ".*"), ("$volume", ".*")):
        expression = expression.replace(variable, content)
    return expression
