"""scripts/test: what is run where, how it is counted, and that nothing counts as success by accident."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from iraid_dev.places import ROOT
from iraid_dev.testrun import lint
from iraid_dev.testrun import main as test_main


@pytest.fixture
def parts(tmp_path, monkeypatch):
    monkeypatch.setenv("IRAID_TEST_RESULTS", str(tmp_path / "results"))

    def make(*words: str) -> test_main.Parts:
        return test_main.Parts(test_main.parse(list(words)))

    return make


def result_of(parts, status: int, junit: str | None) -> test_main.Result:
    file = parts.folder / "part.xml"
    if junit is not None:
        file.write_text(junit)
    parts.tests("part", [sys.executable, "-c", f"raise SystemExit({status})"], file)
    return parts.results[-1]


SUITE = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


@pytest.mark.parametrize(
    ("words", "native", "lab", "options"),
    [
        (["tests/unit/python/iraid/control/test_units.py"], ["tests/unit/python/iraid/control/test_units.py"], [], []),
        (
            ["tests/end_to_end/test_verify.py::test_x", "-k", "tests"],
            [],
            ["tests/end_to_end/test_verify.py::test_x"],
            ["-k", "tests"],
        ),
        (["--maxfail=1", "tests/lab", "tests/end_to_end"], ["tests/lab"], ["tests/end_to_end"], ["--maxfail=1"]),
    ],
)
def test_a_selection_goes_to_where_it_can_run(words, native, lab, options):
    choice = test_main.parse(words)
    assert (choice.native, choice.lab, choice.options) == (native, lab, options)
    assert choice.selected


@pytest.mark.parametrize("word", ["tests/unit/test_no_such.py", "/etc/passwd", "nonsense"])
def test_what_is_no_test_is_refused(word):
    with pytest.raises(SystemExit, match=word):
        test_main.parse([word])


@pytest.mark.parametrize("words", [["--quik"], ["tests/unit", "-k", "x", "--maxfial=1"], ["--maxfail", "many"]])
def test_an_option_that_pytest_does_not_know_is_refused_before_anything_is_built(words):
    with pytest.raises(SystemExit, match=words[-1]):
        test_main.parse(words)


def test_counts_of_several_suites_are_added(tmp_path):
    file = tmp_path / "junit.xml"
    file.write_text(
        '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/>'
        '<testsuite tests="3" failures="0" errors="0" skipped="0"/></testsuites>'
    )
    result = test_main.counted("x", file)
    assert (result.passed, result.failed, result.skipped) == (5, 2, 1)


@pytest.mark.parametrize(
    ("status", "junit", "failed"),
    [
        (0, SUITE.format(3, 0, 0, 0), 0),
        (1, SUITE.format(3, 1, 0, 0), 1),
        (1, SUITE.format(3, 0, 0, 0), 1),  # it failed and names no test
        (139, None, 1),  # it crashed
        (5, SUITE.format(0, 0, 0, 0), 1),  # no tests ran
    ],
    ids=["good", "one failed", "unnamed", "crashed", "nothing ran"],
)
def test_a_part_that_is_not_good_has_a_failure(parts, status, junit, failed):
    assert result_of(parts(), status, junit).failed == failed


def test_a_part_left_empty_by_a_selection_is_no_failure_but_an_empty_sum_is(parts, capsys):
    some = parts("-k", "nothing")
    assert result_of(some, 5, SUITE.format(0, 0, 0, 0)).failed == 0
    assert test_main.closing(some) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(("words", "counts"), [(["true"], (1, 0, 0)), (["false"], (0, 1, 0)), ([], (0, 0, 1))])
def test_a_check_of_the_source_is_one_test(parts, words, counts):
    made = parts()
    made.program("python, x", words, "" if words else "it is not installed")
    result = made.results[-1]
    assert (result.passed, result.failed, result.skipped) == counts
    assert bool(result.note) == (words != ["true"])


def test_the_source_is_checked_by_ruff_where_it_is(monkeypatch):
    monkeypatch.setattr(lint.shutil, "which", lambda name: f"/opt/{name}")
    assert [check.name for check in lint.checks()] == ["mypy", "ruff"]
    monkeypatch.setattr(lint.shutil, "which", lambda name: None)
    assert [check.name for check in lint.checks()] == ["mypy", "flake8"]
    assert "ruff is not" in lint.checks()[1].why or "neither ruff" in lint.checks()[1].why
    assert "scripts/check-layers" in lint.sources()


def test_the_sum_is_the_last_line_and_decides_the_status(parts, capsys):
    some = parts()
    some.results += [test_main.Result("a", passed=2, skipped=1), test_main.Result("b", passed=3)]
    assert test_main.closing(some) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "5 passed, 0 failed, 1 skipped"
    some.results.append(test_main.Result("c", failed=1))
    assert test_main.closing(some) == 1


FAILURES = (
    '<testsuites><testsuite tests="3" failures="2">'
    '<testcase classname="tests.a" name="test_good"/>'
    '<testcase classname="tests.a" name="test_bad"><failure message="m">def x():\n\nE  no &lt;data&gt;</failure></testcase>'
    '<testcase classname="c" name="crashed"><failure message=""/><system-out>1\nAborted</system-out></testcase>'
    "</testsuite></testsuites>"
)


def test_what_failed_is_named_again_at_the_end_with_what_it_said(parts, capsys):
    some = parts()
    result_of(some, 1, FAILURES)
    assert test_main.closing(some) == 1
    said = capsys.readouterr().out
    assert "part: tests.a::test_bad\n    def x():\n    E  no <data>\npart: c::crashed\n    1\n    Aborted\n" in said
    assert "test_good" not in said
    some.results[-1].failures *= 20
    test_main.closing(some)
    assert "part: 20 more failures" in capsys.readouterr().out


def test_a_part_that_does_not_end_is_ended_and_counts_as_failed(parts, monkeypatch):
    some = parts()
    monkeypatch.setattr(test_main.Choice, "limit_seconds", lambda self: -59)
    some.tests("slow", [sys.executable, "-c", "import time; time.sleep(100)"], Path("none"))
    assert some.results[-1].failed == 1
    assert "not finished" in some.results[-1].note


def test_packages_are_listed_once_and_are_names():
    listed = subprocess.run(
        [ROOT / "scripts/deps", "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(listed) == len(set(listed)) > 30
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name) for name in listed)


def collects(words: list[str]) -> bool:
    """Whether a part has any test that its marks leave in."""
    done = subprocess.run([*words, "--collect-only", "-q"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in (0, test_main.NOTHING_COLLECTED), done.stdout.decode()
    return done.returncode == 0


def test_threads_are_looked_at_in_a_build_of_their_own(parts, monkeypatch, tmp_path):
    """What is run, without running it: the C tests that have threads, and files that exist."""
    ran = []
    monkeypatch.setattr(test_main.Parts, "tests", lambda _self, name, words, *_rest: ran.append((name, words)))
    monkeypatch.setattr(test_main, "thread_sanitizer_environment", lambda build: {"IRAID_BUILD_DIR": str(build)})
    monkeypatch.setenv("IRAID_BUILD_DIR", "elsewhere")
    monkeypatch.setenv("IRAID_TSAN_DIR", str(tmp_path))
    test_main.run(parts("--thread-sanitize", "--no-build"))
    (name, words), *files = ran
    assert name == "threads in C"
    assert words[words.index("--test-dir") + 1] == str(tmp_path)
    assert re.search(words[words.index("--tests-regex") + 1], "test_reactor")
    assert [path for path, _ in files if not (ROOT / path.split("::")[0]).exists()] == []
    assert all(any("not no_sanitizer" in word for word in words) for _, words in files)
    assert [name for name, words in files if not collects(words)] == []


def test_the_lab_has_no_build_with_thread_sanitizer():
    with pytest.raises(SystemExit, match="runs in the lab"):
        test_main.parse(["--thread-sanitize", "tests/end_to_end/test_verify.py"])


def test_what_runs_sanitized_alone_does_run_there():
    """A test with both marks would run nowhere."""
    words = ["--collect-only", "-q", "-p", "no:cacheprovider", "tests/integration", "-m"]
    nowhere, alone = (
        subprocess.run(
            [sys.executable, "-B", "-m", "pytest", *words, which], cwd=ROOT, capture_output=True, check=False
        )
        for which in ("sanitized_alone and (no_sanitizer or once)", "sanitized_alone and not long")
    )
    assert nowhere.returncode == test_main.NOTHING_COLLECTED, nowhere.stdout.decode()
    assert alone.returncode == 0, alone.stdout.decode()


def test_of_pythons_tests_only_those_with_c_code_in_them_run_sanitized():
    chosen = test_main.loading_c("tests/unit")
    assert "tests/unit/pure/test_pure_properties.py" in chosen
    assert "tests/unit/python/iraid/cli/test_cli.py" not in chosen


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ([], 1500),
        (["--quick"], 120),
        (["--all"], 7200),
        (["-m", "long"], 7200),
        (["-m", "not long"], 1500),
        (["tests/integration/test_crash_exhaustive.py", "-m", "long"], 7200),
    ],
)
def test_a_part_that_was_selected_for_its_long_tests_has_hours(words, seconds):
    assert test_main.parse(words).limit_seconds() == seconds
