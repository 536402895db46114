"""--help and iraid.8 say the same: commands, options, and the same in both directions.  Every page's source
(docs/man/*.scd) makes a page that groff and mandoc find nothing wrong with."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from control_peer import ROOT

from iraid.cli.main import cli

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
PAGES = sorted((ROOT / "docs" / "man").glob("*.scd"))
MAN_PAGE = (ROOT / "docs" / "man" / "iraid.8.scd").read_text()
_OPTION = re.compile(r"--[a-z][a-z-]*[a-z]")
COMMON = {"--json", "--socket", "--help"}
# What scdoc itself always writes, and mandoc remarks upon; none of it shows.
SCDOC_HABITS = (
    "skipping paragraph macro: PP empty",
    "skipping paragraph macro: PP after S",
    "lower case character in document title",
    "input text line longer than 80 bytes",
    "undefined escape, printing literally: \\\\",
    "referenced manual not found",
)


def help_of(*command):
    result = CliRunner().invoke(cli, [*command, "--help"], prog_name="iraid")
    assert result.exit_code == 0
    return result.output


def options_of_help(text):
    """The left column of the list of options; the examples and explanations are not looked at."""
    block = text.split("Options:\n")[1].split("\n\n")[0]
    lines = [line[2:].split("  ")[0] for line in block.splitlines() if line.startswith("  -")]
    return {option for line in lines for option in _OPTION.findall(line)}


def man_section(heading):
    found = re.search(rf"^# {heading}\n(.*?)(?=^# |\Z)", MAN_PAGE, re.DOTALL | re.MULTILINE)
    return found[1]


def man_commands():
    """Command -> its text in the manual page."""
    parts = re.split(r"^## ([\w-]+).*\n", man_section("COMMANDS"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def options_of_man(text):
    """Only what stands as a term: a line whose explanation follows, indented."""
    terms = re.findall(r"^(\*.*)\n\t", text, re.MULTILINE)
    return {option for term in terms for option in _OPTION.findall(term)}


def test_both_have_the_same_commands():
    assert set(man_commands()) == set(cli.commands)
    sections = help_of().split("Show this message and exit.\n")[1].split("Examples:")[0]
    listed = re.findall(r"^  ([\w-]+) +\w", sections, re.MULTILINE)
    assert sorted(listed) == sorted(cli.commands)
    # Each in a line of its own, of 80 characters.
    assert len(sections.strip().splitlines()) == len(listed) + 2 * sections.count(":\n") - 1


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_both_have_the_same_options(command):
    assert options_of_help(help_of(command)) == options_of_man(man_commands()[command]) | COMMON


def test_the_options_of_all_commands_are_described_once():
    assert options_of_man(man_section("COMMON OPTIONS")) == COMMON


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_help_has_examples_that_are_right(command):
    """Every example parses: its command and its options exist."""
    examples = help_of(command).split("Examples:\n")[1].replace("\\\n", " ")
    lines = [line.split("|")[0].split("#")[0] for line in examples.splitlines() if "iraid" in line]
    used = [line.split("iraid ", 1)[1].split() for line in lines if line.strip().startswith("iraid ")]
    assert command in {words[0] for words in used}
    for words in used:
        assert set(_OPTION.findall(" ".join(words))) <= options_of_help(help_of(words[0]))


def test_the_manual_page_uses_the_commands_it_describes():
    used = re.findall(r"^iraid ([\w-]+)", man_section("EXAMPLES"), re.MULTILINE)
    assert len(used) > 5 and set(used) <= set(cli.commands)


@pytest.mark.parametrize("source", PAGES, ids=lambda page: page.stem)
def test_every_page_is_made_and_shown_without_a_complaint(source, tmp_path):
    made = subprocess.run(["scdoc"], stdin=source.open(), capture_output=True, text=True, timeout=60)
    assert (made.returncode, made.stderr) == (0, "")
    page = tmp_path / source.stem
    page.write_text(made.stdout)
    shown = subprocess.run(
        ["groff", "-Tutf8", "-t", "-man", "-ww", "-P-c", "-rLL=100n", page], capture_output=True, text=True, timeout=60
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    # Formatting that was not meant: a star or a tab's literal block that scdoc took as text.
    assert not re.search(r"(?<![\w/.])\*\w|\w\*(?![\w/.])|```", shown.stdout)
    lint = subprocess.run(["mandoc", "-Tlint", page], capture_output=True, text=True, timeout=60)
    said = [line for line in lint.stdout.splitlines() if not any(habit in line for habit in SCDOC_HABITS)]
    assert said == []


def test_each_page_is_built_and_installed():
    built = re.findall(r"^manual_page\((\S+) \w+\)", (ROOT / "docs/CMakeLists.txt").read_text(), re.MULTILINE)
    assert sorted(built) == [page.stem for page in PAGES]


@pytest.mark.parametrize("source", PAGES, ids=lambda page: page.stem)
def test_every_built_page_says_that_it_has_tables(source):
    """As man-pages(7) wants it: groff 1.23 warns of tables otherwise, and scdoc leaves it out."""
    page = BUILD / "docs/man" / source.stem
    if not page.exists():
        pytest.skip(f"{page} is not built")
    assert page.read_text().startswith('\'\\" t\n.\\" Generated by scdoc')
