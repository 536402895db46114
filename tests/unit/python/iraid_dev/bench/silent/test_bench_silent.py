"""scripts/bench --profile silent, outside of the lab: what is set, what is refused, what the tables say."""

from __future__ import annotations

import pytest

from iraid_dev.bench import cli
from iraid_dev.bench.core import initiator_settings, row
from iraid_dev.bench.core.row import Row
from iraid_dev.bench.silent import plan, report, systems
from iraid_dev.bench.silent import run as silent_run
from iraid_dev.bench.silent.plan import SYSTEMS, Settings, settings_of


def figure(system: str, pattern: str, longest_s: float, errors: int, number: int = 0, seconds: float = 180) -> Row:
    measured = {"longest_s": longest_s, "errors": errors}
    conditions = {"experiment": "silent", "seconds": seconds, "measured": measured}
    return Row("uml", system, 5, 4, pattern, 4096, 0.4, 100.0, 1.0, 2.0, None, round=number, conditions=conditions)


def test_settings_survive_their_file():
    settings = Settings(systems=("md",), seconds=3)
    assert Settings.from_json(settings.to_json()) == settings


def test_the_load_is_there_before_the_silence_and_after_it():
    assert Settings(seconds=60).load_seconds == 60 + plan.BEFORE_SECONDS + plan.AFTER_SECONDS


def test_the_estimate_counts_each_round_of_each_system():
    one = plan.estimate_seconds(Settings(systems=("md",), rounds=1))
    assert plan.estimate_seconds(Settings(systems=("md", "iraid"), rounds=3)) > 5.5 * (one - plan.plan.BOOT["uml"])


def test_each_system_is_of_a_kind_that_can_be_put_up():
    assert {name.partition("-")[0] for name in SYSTEMS} == set(systems.KINDS)


def test_what_was_typed_is_put_in_order():
    assert settings_of({"systems": "md,iraid", "seconds": None}).systems == ("iraid", "md")


@pytest.mark.parametrize(
    "words, named",
    [
        (["--systems", "plain"], "--systems plain"),
        (["--seconds", "0"], "--seconds 0"),
        (["--seconds", "nan"], "--seconds nan"),
        (["--rounds", "0"], "--rounds 0"),
        (["--kernel", "none"], "'none'"),
        (["--report", "rows.json"], "--out"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_starts(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(silent_run, "_measure", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["--profile", "silent", *words])
    assert ended.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]


def test_the_initiators_settings_are_changed_for_a_while_only(tmp_path, monkeypatch):
    file = tmp_path / "iscsid.conf"
    file.write_text("a = 1\nnode.x = 2\n")
    monkeypatch.setattr(initiator_settings, "SETTINGS", file)
    with initiator_settings.changed({"node.x": "9"}):
        assert file.read_text() == "a = 1\nnode.x = 9\n"
    assert file.read_text() == "a = 1\nnode.x = 2\n"


def test_a_line_for_each_system_has_medians_and_errors():
    rows = [figure("md", "randread", longest, 0, number) for number, longest in enumerate((119.0, 121.0, 123.0))]
    rows += [figure("iraid", "randread", 0.5, 0), figure("iraid", "randwrite", 5.5, 2)]
    lines = report.tables(rows).splitlines()
    assert lines[0].startswith("| uml, silent for 180 s | longest read, s | longest write, s |")
    assert lines[2:] == ["| iraid | 0.500 | 5.50 | 0 | 2 |", "| md | 121 (119-123) | - | 0 (0-0) | - |"]


def test_times_of_silence_are_told_apart():
    rows = [figure("md", "randread", 1.0, 0, seconds=seconds) for seconds in (20, 180)]
    assert report.tables(rows).count("silent for") == 2


def test_a_report_is_made_of_what_a_run_left(tmp_path):
    row.write(tmp_path / "rows.json", {"ok": True, "commit": "abc"}, [figure("md", "randread", 121.0, 3)])
    words = ["--profile", "silent", "--report", str(tmp_path / "rows.json"), "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    text = (tmp_path / "out/silent.md").read_text()
    assert "| md | 121 | - | 3 | - |" in text and SYSTEMS["md"] in text
