"""--help and iraid.8 say the same: commands, options, and the same in both directions."""

import re

import pytest
from click.testing import CliRunner
from control_peer import ROOT
from iraidlib.cli import cli

MAN_PAGE = (ROOT / "docs" / "man" / "iraid.8").read_text()
_OPTION = re.compile(r"--[a-z][a-z-]*[a-z]")


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
    found = re.search(rf"^\.SH {heading}\n(.*?)(?=^\.SH |\Z)", MAN_PAGE, re.DOTALL | re.MULTILINE)
    return found[1]


def man_commands():
    """Command -> its text in the manual page."""
    parts = re.split(r"^\.SS ([\w\\-]+).*\n", man_section("COMMANDS"), flags=re.MULTILINE)
    names = [name.replace("\\-", "-") for name in parts[1::2]]
    return dict(zip(names, parts[2::2], strict=True))


def options_of_man(text):
    """Only what stands as a term: the line after .TP."""
    terms = re.findall(r"^\.TP\n(.*)$", text, re.MULTILINE)
    return {option for term in terms for option in _OPTION.findall(term.replace("\\-", "-"))}


COMMON = {"--json", "--socket", "--help"}


def test_both_have_the_same_commands():
    assert set(man_commands()) == set(cli.commands)
    listed = re.findall(r"^  ([\w-]+)  ", help_of().split("Commands:\n")[1].split("\n\n")[0], re.MULTILINE)
    assert set(listed) == set(cli.commands)


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
    for words in re.findall(r"^    iraid (.*)", man_section("EXAMPLES"), re.MULTILINE):
        assert words.split()[0].replace("\\-", "-") in cli.commands
