"""scripts/releases: what a cell says, and that nothing that failed looks green.  A script stands for what runs inside."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_clean_root import tree

from iraid_dev.testrun import clean_root, releases

__all__ = ["tree"]


@pytest.mark.parametrize(
    ("status", "last", "cell", "failed"),
    [
        (0, "12 passed, 0 failed, 0 skipped", "12 passed, 2 min", False),
        (0, "12 passed, 0 failed, 3 skipped", "12 passed, 3 skipped, 2 min", False),
        (1, "11 passed, 1 failed, 0 skipped", "**1 of 12 failed**, 2 min", True),
        (1, "12 passed, 0 failed, 0 skipped", "**0 of 12 failed**, 2 min", True),
        (0, "0 passed, 0 failed, 5 skipped", "**0 of 0 failed**, 2 min", True),
        (0, "conformance: no failure that neither the reference has nor is known", "good, 2 min", False),
        (1, "conformance: FAILED", "**failed**, status 1, 2 min", True),
        (137, "", "**failed**, status 137, 2 min", True),
    ],
)
def test_a_cell_says_what_came_out(status, last, cell, failed):
    assert releases.outcome(status, last, 130.0) == releases.Outcome(cell, failed)


def test_each_part_s_tests_are_there():
    for words in releases.PARTS.values():
        for word in words:
            assert not word.startswith(("tests/", "scripts/")) or (releases.ROOT / word).exists()


@pytest.fixture
def run(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    enter = tmp_path / "enter-root"
    monkeypatch.setattr(clean_root, "ROOT", tree)
    monkeypatch.setattr(releases, "ROOT", tree)
    monkeypatch.setattr(clean_root, "ENTER", enter)
    monkeypatch.setattr(clean_root, "cache_directory", lambda: cache)
    monkeypatch.setattr(releases, "check", lambda option: None)
    monkeypatch.setattr(clean_root.CleanRoot, "make", lambda self: self.root.mkdir())

    def run(inside: str, *words: str) -> int:
        enter.write_text(f"#!/bin/bash\n{inside}\n")
        enter.chmod(0o755)
        return releases.main(list(words))

    return run


def table_of(tree: Path) -> list[str]:
    (path,) = (tree / "build/releases").glob("*/table.md")
    return path.read_text().splitlines()


GOOD = 'case $2 in *conformance) echo "conformance: good" ;; *) echo "3 passed, 0 failed, 0 skipped" ;; esac'


def test_the_table_has_a_row_for_each_release(run, tree):
    assert run(GOOD) == 0
    head, _, names, line, *rows = table_of(tree)
    assert head.endswith(f"commit {clean_root.Committed.of_this_tree().commit}")
    assert names == "| | package | quick start | boot | conformance | end to end | role | upgrade |"
    assert line == "|---|---|---|---|---|---|---|---|"
    assert [row.split(" | ")[0] for row in rows] == ["| bookworm", "| trixie"]
    assert [row.count("3 passed") for row in rows] == [6, 5] and all(row.count("good") == 1 for row in rows)
    assert rows[1].endswith("| from bookworm |")


def test_a_part_that_fails_is_told_and_the_others_are_run(run, tree):
    inside = 'case "$*" in *test_boot*) echo "1 passed, 1 failed, 0 skipped"; exit 1 ;; esac\n' + GOOD
    assert run(inside, "--suite", "trixie", "--part", "boot", "--part", "role") == 1
    assert table_of(tree)[-1] == "| trixie | **1 of 2 failed**, 0 min | 3 passed, 0 min |"


def test_a_release_that_does_not_build_leaves_its_row_empty_and_fails(run, tree, capsys):
    assert run('case "$2" in *build) exit 4 ;; esac', "--suite", "trixie", "--part", "boot") == 1
    assert table_of(tree)[-1] == "| trixie | not run |"
    assert "scripts/build ended with status 4 on trixie; the log is " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--suite", "etch"], ["--part", "boots"]])
def test_what_it_does_not_know_is_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        releases.main(words)
    assert ended.value.code == 2
    assert f"invalid choice: '{words[1]}'" in capsys.readouterr().err
