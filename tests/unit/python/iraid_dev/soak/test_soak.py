"""scripts/soak: what a run adds up to, and that a run that is not clean can't look clean."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from iraid_dev.soak import cli, driver, report


class Stage:
    """Faults that are counted; `breaks_at` is the number of the one at which a byte is wrong."""

    def __init__(self, breaks_at: int = -1, breaks_at_end: bool = False):
        self.done: list[str] = []
        self.closed = 0
        self.breaks_at, self.breaks_at_end = breaks_at, breaks_at_end
        self.faults = {"kill": (3, lambda _: self._do("kill")), "scrub": (1, lambda _: self._do("scrub"))}

    def _do(self, name: str) -> None:
        if len(self.done) == self.breaks_at:
            raise driver.Wrong("byte 7 holds 1, written was 2")
        self.done.append(name)

    def mark(self) -> None:
        pass

    def longest_stall(self) -> float:
        return float(len(self.done))

    def counts(self) -> tuple[int, int]:
        return 100 * len(self.done), 10 * len(self.done)

    def settle(self) -> None:
        pass

    def tend(self) -> str:
        return f"tended after {len(self.done)}"

    def finish(self) -> None:
        if self.breaks_at_end:
            raise driver.Wrong("the last scrub found something")

    def close(self, good: bool = False) -> None:
        self.closed += 1


def run() -> report.Run:
    return report.Run("2026-01-01 00:00", "abc", 5, "native")


@pytest.fixture
def clock(monkeypatch):
    """Each look at the clock is a second later."""
    seconds = iter(range(10**6))
    monkeypatch.setattr(driver.time, "monotonic", lambda: float(next(seconds)))


def test_a_clean_run_is_written_down_and_everything_is_closed(clock, tmp_path):
    stage, made = Stage(), run()
    assert driver.drive(lambda: stage, made, 0.5, tmp_path / "result")
    (kept,) = report.read(tmp_path / "result")
    assert kept.good and kept.verified_bytes == 100 * len(stage.done) > 0
    assert sum(row.times for row in kept.faults.values()) == len(stage.done)
    assert stage.closed == 1


def test_the_line_of_a_fault_says_what_was_done_after_it(clock, tmp_path, capsys):
    driver.drive(lambda: Stage(), run(), 0.5, tmp_path / "result")
    told = [line for line in capsys.readouterr().out.splitlines() if "longest stall" in line]
    assert told and all(line.endswith(f"; tended after {number + 1}") for number, line in enumerate(told))


def test_what_a_stage_counted_until_its_end_is_in_the_table(clock, tmp_path):
    made, stage = run(), Stage()
    stage.close = lambda good=False: made.notes.append("7 aborts")
    driver.drive(lambda: stage, made, 0.5, tmp_path / "result")
    assert "  7 aborts" in report.table(report.read(tmp_path / "result")).splitlines()


@pytest.mark.parametrize("stage", [Stage(breaks_at=2), Stage(breaks_at_end=True)])
def test_a_wrong_byte_ends_the_run_at_once(clock, tmp_path, stage):
    made = run()
    assert not driver.drive(lambda: stage, made, 0.5, tmp_path / "result")
    (kept,) = report.read(tmp_path / "result")
    assert not kept.good and len(kept.errors) == 1
    assert stage.closed == 1
    assert "NOT CLEAN" in report.table([kept]) and kept.errors[0] in report.table([kept])


def test_a_seed_draws_the_same_faults_again():
    drawn = [[driver.drawn(Stage(), chance) for _ in range(50)] for chance in (random.Random(3), random.Random(3))]
    assert drawn[0] == drawn[1] and set(drawn[0]) == {"kill", "scrub"}


def test_runs_add_up(tmp_path):
    first, second = run(), run()
    first.survived("kill", 1.5)
    second.survived("kill", 4.25)
    first.seconds, second.seconds, first.ended, second.ended = 1800.0, 5400.0, True, True
    report.write(tmp_path / "sum", [first, second])
    text = report.table(report.read(tmp_path / "sum"))
    assert "2.00 hours" in text and "4.25 s" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("kill")] == ["2"]


def test_a_stage_that_dies_without_a_word_is_an_error(tmp_path):
    assert not cli.outcome(tmp_path, run(), 137).good
    report.write(tmp_path / cli.RESULT, [run()])
    assert "137" in cli.outcome(tmp_path, run(), 137).errors[0]


def test_a_file_that_is_no_report_is_refused(tmp_path, capsys):
    file: Path = tmp_path / "sum"
    file.write_text("{}")
    assert cli.main(["--minutes", "1", "--native", "--resume", str(file), "--no-build"]) == 2
    assert str(file) in capsys.readouterr().err
    assert file.read_text() == "{}"


def test_a_level_without_a_write_log_is_refused_one(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--minutes", "1", "--level", "1", "--log", "always", "--no-build"])
    assert ended.value.code == 2
    assert "level 1 has no write log" in capsys.readouterr().err


def test_a_run_says_what_the_log_was():
    made = run()
    made.log = "always"
    assert "log always" in report.table([made])
