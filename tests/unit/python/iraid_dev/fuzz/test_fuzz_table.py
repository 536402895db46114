"""scripts/fuzz --table: what its runs have tried, summed up."""

from __future__ import annotations

import pytest

from iraid_dev.fuzz import cli
from iraid_dev.fuzz.table import RUNS, Run, read_runs, table

OUTPUT = """\
#2      INITED cov: 120 ft: 121 corp: 1/1b exec/s: 0 rss: 60Mb
stat::number_of_executed_units: 1000
stat::peak_rss_mb:              77
"""


def cells(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_runs_of_a_target_are_summed_and_the_worst_is_kept(tmp_path):
    path = tmp_path / RUNS
    Run("iscsi", "aaaa", "2026-11-28", 1000, 10.0, 50, 0, 0, 60).append_to(path)
    Run("login", "aaaa", "2026-11-28", 500, 5.0, 20, 1, 2, 40).append_to(path)
    Run("iscsi", "bbbb", "2026-11-29", 3000, 10.0, 60, 1, 0, 55).append_to(path)
    text = table(read_runs(path), ["iscsi", "login", "rpc"])
    assert cells(text, "iscsi") == [
        "iscsi", "4000", "200", "60", "1", "0", "60", "aaaa..bbbb", "2026-11-28..2026-11-29",
    ]  # fmt: skip
    assert cells(text, "login")[1:6] == ["500", "100", "20", "1", "2"]
    assert "4500 executions in 0.0 hours of one processor, 2 crashes, 2 hangs" in text
    assert text.splitlines()[-1] == "never run: rpc"


def test_a_line_that_a_killed_run_left_half_costs_itself_alone(tmp_path):
    path = tmp_path / RUNS
    Run("iscsi", "aaaa", "2026-11-28", 1000, 10.0, 50, 0, 0, 60).append_to(path)
    with path.open("a") as file:
        file.write('{"name": "iscsi", "comm')
    Run("iscsi", "aaaa", "2026-11-28", 2000, 10.0, 50, 0, 0, 60).append_to(path)
    assert [run.executions for run in read_runs(path)] == [1000, 2000]
    assert read_runs(tmp_path / "nothing") == []


def test_hangs_are_told_from_crashes(monkeypatch):
    monkeypatch.setattr(cli, "commit", lambda: "cccc")
    broken = ["/b/crash-12", "/b/timeout-12", "/b/slow-unit-12", "/b/oom-12", "exit status 1"]
    run = cli.outcome("iscsi", 2.0, OUTPUT, broken).as_run()
    assert (run.executions, run.crashes, run.hangs, run.commit) == (1000, 3, 2, "cccc")


def test_the_table_needs_no_build(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cli, "build", lambda _: pytest.fail("it builds"))
    monkeypatch.setattr(cli, "BUILD", tmp_path)
    Run("iscsi", "aaaa", "2026-11-28", 1000, 10.0, 50, 0, 0, 60).append_to(tmp_path / RUNS)
    assert cli.main(["--table"]) == 0
    assert cells(capsys.readouterr().out, "iscsi")[1] == "1000"
