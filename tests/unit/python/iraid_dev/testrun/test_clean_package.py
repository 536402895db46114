"""scripts/package --suite: what it refuses, and where it leaves what was built.  Here a script stands for what runs inside;
that it builds packages is seen by tests/lab/test_debian_upgrade.py."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_clean_root import tree

from iraid_dev.places import ROOT
from iraid_dev.testrun import clean_package, clean_root

__all__ = ["tree"]


@pytest.fixture
def build(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """With a folder instead of a Debian: `inside` is what scripts/package does in it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    enter = tmp_path / "enter-root"
    monkeypatch.setattr(clean_root, "ROOT", tree)
    monkeypatch.setattr(clean_root, "ENTER", enter)
    monkeypatch.setattr(clean_root, "cache_directory", lambda: cache)
    monkeypatch.setattr(clean_root.CleanRoot, "make", lambda self: self.root.mkdir())

    def run(inside: str, *options: str) -> int:
        made = f"$1/{clean_root.CLONE}/{clean_package.MADE}"
        enter.write_text(f"#!/bin/bash\ncase $2 in */scripts/package) mkdir {made} && cd {made} && {inside} ;; esac\n")
        enter.chmod(0o755)
        return clean_package.build("trixie", list(options), tmp_path / "output")

    return run


def test_what_was_built_takes_the_place_of_what_was_there(build, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    (output / "old.deb").write_text("old")
    assert build('echo "$3" >new.deb', "rpm") == 0
    assert sorted(path.name for path in output.iterdir()) == ["new.deb", "package.log"]
    assert (output / "new.deb").read_text() == "rpm\n"
    assert not (tmp_path / "cache/clean-package/root").exists()


def test_a_build_that_fails_leaves_what_was_there_and_says_where_its_log_is(build, tmp_path, capsys):
    output = tmp_path / "output"
    output.mkdir()
    (output / "old.deb").write_text("old")
    assert build("echo no compiler; exit 3") == 3
    assert (output / "old.deb").read_text() == "old"
    assert "no compiler" in (output / "package.log").read_text()
    assert (
        f"scripts/package ended with status 3 in there; the whole log is {output}/package.log"
        in capsys.readouterr().out
    )
    assert not (tmp_path / "cache/clean-package/root").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--suite", "etch"], "unknown suite 'etch': known are bookworm, trixie"),
        (["--suite", "trixie", "--headers", "/tmp"], "--headers does not go with --suite"),
    ],
)
def test_what_it_does_not_know_is_refused(words, says):
    done = subprocess.run([ROOT / "scripts/package", *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and says in done.stderr, done.stderr
