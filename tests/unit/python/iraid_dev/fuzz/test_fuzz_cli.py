"""scripts/fuzz: which targets there are, and what it makes of libFuzzer's last lines."""

from __future__ import annotations

import pytest

from iraid_dev.fuzz import cli

OUTPUT = """\
#2      INITED cov: 120 ft: 121 corp: 1/1b exec/s: 0 rss: 60Mb
#4096   pulse  cov: 150 ft: 300 corp: 20/2Kb lim: 8192 exec/s: 2048 rss: 64Mb
stat::number_of_executed_units: 123456
stat::average_exec_per_sec:     2048
stat::peak_rss_mb:              77
"""


def test_its_figures_are_read_from_what_libfuzzer_says_at_the_end():
    result = cli.outcome("iscsi", 2.0, OUTPUT, [])
    assert (result.executions, result.edges, result.peak_mib) == (123456, 150, 77)
    assert result.line().split() == ["iscsi", "123456", "61728", "150", "77", "0"]


def test_one_that_was_killed_has_what_it_told_before():
    assert cli.outcome("iscsi", 2.0, OUTPUT.split("stat")[0], []).executions == 4096


def test_a_target_that_says_nothing_has_no_executions():
    assert cli.outcome("iscsi", 0.0, "", ["exit status 1"]).line().split() == ["iscsi", "0", "0", "0", "0", "1"]


def test_all_targets_of_the_tree_are_known():
    assert {"iscsi", "layout", "log_record", "scsi_answers", "config", "rpc", "commands"} <= set(cli.names())
    assert cli.choose(None) == cli.names()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--only", "iscsi,nothing"], "no target is called nothing; there are "),
        (["--minutes", "0"], "--minutes 0.0"),
        (["--jobs", "0"], "--jobs 0"),
    ],
)
def test_bad_input_is_named_and_nothing_is_built(words, named, monkeypatch):
    monkeypatch.setattr(cli, "build", lambda _: pytest.fail("it builds"))
    with pytest.raises(SystemExit, match=named):
        cli.main(words)


def test_without_clang_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cli.shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="apt install clang"):
        cli.main(["--minutes", "1"])
