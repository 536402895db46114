"""scripts/coverage: what is made of gcov's counts, on a program that is built and run here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from iraid_dev.coverage import cli, counts
from iraid_dev.places import SCRIPTS

HEADER = """\
static inline int half(int number)
{
	return number / 2;
}
"""
ONE = """\
#include "half.h"
int never(void)
{
	return 3;
}
int one(int number)
{
	if (number > 1)
		return half(number);

	number++;
	return number;
}
"""
TWO = """\
#include "half.h"
int one(int number);
int main(int count, char **words)
{
	return one(count + 1) - half(2);
}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of two objects that share a header; built and run once."""
    root: Path = tmp_path_factory.mktemp("coverage").resolve()
    (root / "handler/pure").mkdir(parents=True)
    (root / "handler/engine/io").mkdir(parents=True)
    (root / "build/handler").mkdir(parents=True)
    (root / "handler/pure/half.h").write_text(HEADER)
    (root / "handler/engine/io/one.c").write_text(ONE)
    (root / "handler/pure/two.c").write_text(TWO)
    for source in ("engine/io/one.c", "pure/two.c"):
        subprocess.run(
            ["gcc", "--coverage", "-O0", "-I../handler/pure", "-c", f"../handler/{source}",
             "-o", f"handler/{Path(source).stem}.o"], cwd=root / "build", check=True)  # fmt: skip
    subprocess.run(["gcc", "--coverage", "handler/one.o", "handler/two.o", "-o", "run"], cwd=root / "build", check=True)
    subprocess.run(["./run"], cwd=root / "build", check=True)
    return root


def found(tree: Path) -> dict[str, counts.Source]:
    build = tree / "build"
    return {source.path: source for source in counts.merge(counts.reports(build), tree, build)}


def test_lines_that_never_ran_are_told_by_ranges(tree: Path):
    one = found(tree)["handler/engine/io/one.c"]
    assert one.missed() == [2, 4, 11, 12]
    assert one.ranges() == [(2, 4), (11, 12)]


def test_a_line_of_a_header_is_covered_if_it_ran_in_any_object(tree: Path):
    assert found(tree)["handler/pure/half.h"].missed() == []


def test_an_object_that_never_ran_counts_as_uncovered(tree: Path):
    counts.forget(tree / "build")
    try:
        sources = found(tree)
    finally:
        subprocess.run(["./run"], cwd=tree / "build", check=True)
    assert sources["handler/pure/two.c"].missed() == sorted(sources["handler/pure/two.c"].runs) != []


def simulator_like(tree: Path, scratch: Path, end: str) -> Path:
    """A copy of the build in which another program has objects of its own of handler/, and ends so."""
    shutil.copytree(tree, scratch / "copy")
    build = scratch / "copy/build"
    objects = build / cli.SIMULATED / "__/handler"
    objects.mkdir(parents=True)
    (build / "main.c").write_text(f"#include <unistd.h>\nint one(int number);\nint main(void){{one(0);{end};}}\n")
    subprocess.run(
        ["gcc", "--coverage", "-O0", "-I../handler/pure", "-c", "../handler/engine/io/one.c", "-o", objects / "one.o"],
        cwd=build, check=True)  # fmt: skip
    subprocess.run(["gcc", "--coverage", "main.c", objects / "one.o", "-o", "simulate"], cwd=build, check=True)
    assert subprocess.run(["./simulate"], cwd=build, check=False).returncode == 0
    return build


def test_the_objects_that_the_simulator_has_of_its_own_count(tree: Path, tmp_path: Path):
    """The other program reached lines 5 to 9; this one the rest of that function."""
    build = simulator_like(tree, tmp_path, "return 0")
    assert counts.any_ran(build / cli.SIMULATED)
    assert found(tmp_path / "copy")["handler/engine/io/one.c"].missed() == [2, 4]


def test_a_simulator_whose_counts_are_gone_is_told(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Its workers ended by _exit() once: all passed, and the table was without them."""
    build = simulator_like(tree, tmp_path, "_exit(0)")
    monkeypatch.setattr(cli, "part_commands", lambda part, directory, seeds: [[str(build / "simulate")]])
    assert not cli.run_part("simulator", build, "1..2")
    assert "left no counts" in capsys.readouterr().out
    assert cli.run_part("ctest", build, "1..2")


def test_the_table_sums_by_room_and_by_recovery_code():
    sources = [
        counts.Source("handler/engine/io/piece.c", {1: 1, 2: 0, 3: 4, 4: 1}),
        counts.Source("handler/engine/io/request.c", {1: 1}),
        counts.Source("handler/adapters/rpc/rpc.c", {1: 1, 2: 0}),
    ]
    lines = cli.table(sources, "heading").splitlines()
    assert lines[0] == "heading"
    rows = {line[:34].strip(): line[34:].split() for line in lines[2:]}
    assert rows == {
        "handler/adapters/rpc": ["2", "1", "50.0"],
        "handler/engine/io": ["5", "4", "80.0"],
        "recovery (engine, state, pure)": ["5", "4", "80.0"],
        "the rest": ["2", "1", "50.0"],
    }


def test_uncovered_lines_are_shown_of_what_was_asked_for(tree: Path):
    sources = list(found(tree).values())
    shown = cli.uncovered(sources, [], tree)
    assert "handler/engine/io/one.c: 4 of 7 lines" in shown
    assert "     4      return 3;" in shown.splitlines()
    assert cli.uncovered(sources, ["handler/pure"], tree) == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--keep"], "no counts to keep"),
        (["--show", "docs"], "'docs' is no source or folder in handler/"),
        (["--without", "lab"], "invalid choice: 'lab'"),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_is_built(tmp_path: Path, words: list[str], complaint: str):
    done = subprocess.run(
        [SCRIPTS / "coverage", *words],
        env={"PATH": "/usr/bin:/bin", "IRAID_COVERAGE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert complaint in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_counts_of_another_build_are_refused_with_a_remedy(tree: Path, tmp_path: Path):
    shutil.copytree(tree, tmp_path / "copy")
    build = tmp_path / "copy/build"
    source = tmp_path / "copy/handler/engine/io/one.c"
    source.write_text(source.read_text() + "int another(int n)\n{\n\treturn n ? 1 : 2;\n}\n")
    subprocess.run(
        ["gcc", "--coverage", "-O0", "-I../handler/pure", "-c", f"{source}", "-o", "handler/one.o"],
        cwd=build,
        check=True,
    )
    done = subprocess.run(
        [SCRIPTS / "coverage", "--keep"],
        env={"PATH": "/usr/bin:/bin", "IRAID_COVERAGE_DIR": str(build)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "one.gcno" in done.stderr and "without --keep" in done.stderr
    assert "Traceback" not in done.stderr
