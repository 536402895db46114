"""scripts/analyze: what it takes for a finding, and when it fails."""

import json
import shutil

import pytest

from iraid_dev.analyze import cli
from iraid_dev.places import ROOT

LEAK = """#include <stdlib.h>
int leaky(int size);
int
leaky(int size)
{
	char *memory = malloc(size);

	if (!memory)
		return -1;
	return memory[0] = 1;
}
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A build tree with one source, which leaks; the texts of explanations are the caller's."""
    source = tmp_path / "leaky.c"
    source.write_text(LEAK)
    command = f"ccache /usr/bin/cc -O2 -c -MD -MT leaky.o -MF leaky.d {source} -o leaky.o"
    entry = {"file": str(source), "directory": str(tmp_path), "command": command}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    monkeypatch.setenv("IRAID_BUILD_DIR", str(tmp_path))
    monkeypatch.setattr(cli, "ROOT", tmp_path)
    monkeypatch.setattr(cli, "EXPLAINED", tmp_path / "explained.txt")
    (tmp_path / "handler").mkdir()
    source.rename(tmp_path / "handler/leaky.c")
    text = (tmp_path / "compile_commands.json").read_text()
    (tmp_path / "compile_commands.json").write_text(text.replace("leaky.c", "handler/leaky.c"))

    def explain(text):
        (tmp_path / "explained.txt").write_text(text)

    return explain


TOOLS = [
    pytest.param(
        tool, marks=pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed: scripts/deps")
    )
    for tool in ("gcc", "clang")
]
CHECKS = {"gcc": "malloc-leak", "clang": "unix.Malloc"}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_finding_fails(tree, capsys, tool):
    tree("")
    assert cli.main(["--with", tool, "--jobs", "1"]) == 1
    said = capsys.readouterr().out
    assert "handler/leaky.c:" in said and CHECKS[tool] in said


@pytest.mark.parametrize("tool", TOOLS)
def test_one_that_is_explained_does_not(tree, capsys, tool):
    tree(f"# why\n{tool} | handler/leaky.c | {CHECKS[tool]} | leak | it is meant to\n")
    assert cli.main(["--with", tool, "--jobs", "1"]) == 0
    assert cli.main(["--with", tool, "--jobs", "1", "--all-findings"]) == 0
    assert "explained: it is meant to" in capsys.readouterr().out


def test_an_explanation_of_nothing_fails(tree, capsys):
    tree("gcc | handler/leaky.c | malloc-leak | leak | so\ngcc | handler/gone.c | malloc-leak | leak | it was\n")
    assert cli.main(["--with", "gcc", "--jobs", "1"]) == 1
    assert "explains nothing any more: gcc | handler/gone.c" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["gcc | a.c | malloc-leak | leak", "gcc | a.c | malloc-leak | leak | ", "icc|a|b|c|d"])
def test_an_explanation_without_a_reason_is_none(tree, capsys, line):
    tree(line)
    assert cli.main(["--with", "gcc"]) == 1
    assert "explained.txt, line 1" in capsys.readouterr().err


def test_a_tree_that_was_not_built_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IRAID_BUILD_DIR", str(tmp_path))
    assert cli.main(["--with", "gcc"]) == 1
    assert "run scripts/build" in capsys.readouterr().err


def test_what_is_explained_stands_in_files_that_are_there():
    known = cli.explanations((ROOT / "python/iraid_dev/analyze/explained.txt").read_text())
    assert known and [one.path for one in known if not (ROOT / one.path).is_file()] == []
