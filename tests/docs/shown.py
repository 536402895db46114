"""The commands that the documentation shows, and where each of them is run.

    for page in pages():
        for block in blocks(page): ...

A block is a fenced piece of sh, or of another shell.  Where it is run says a comment before it, else its page
(PAGES).  A comment is <!-- run: WHERE --> or <!-- run: WHERE: why -->:

    native     typed against tgtd and iraid-engine, without a kernel: test_recovery.py, which causes each disaster
               first, test_pages.py, and test_two_gateways.py for pair.md
    lab        typed where LIO, tcmu-runner and open-iscsi are: tests/end_to_end/test_shown_commands.py
    clean      it is typed in a clean Debian on which the package is installed
    other      another test runs it, whose file the comment names
    example    not run as it stands; the options of iraid's commands are looked at
    Windows, ESXi    not run: there is no such machine
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXCEPTED = ("example", "Windows", "ESXi")
RUN = ("native", "lab", "clean", "other")
PLACES = (*RUN, *EXCEPTED)
SHELLS = ("sh", "bash", "console", "powershell")
# Of a page's blocks that say nothing themselves.
PAGES = {
    "docs/operating/recovery.md": "native",
    "docs/operating/quick-start.md": "clean",
}
_FENCE = re.compile(r"^```(\w*)\s*$")
_MAN_COMMAND = re.compile(r"(iraid|nbdkit|nbdinfo|qemu-\S+) ")  # other literal text is no command
_MARK = re.compile(r"^<!-- run: (\w+)(?:: (.*))? -->$")


@dataclass(frozen=True)
class Block:
    page: str  # from the top of the tree
    line: int  # of its first command
    heading: str
    language: str
    where: str  # "" if neither the block nor its page says
    why: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def lines(self) -> list[str]:
        """Whole commands of blocks that have one on each line; one that ends with a backslash goes on."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        joined = re.sub(r"(<<-?\s*'?(\w+)'?[^\n]*\n).*?^\2$", r"\1", joined, flags=re.DOTALL | re.MULTILINE)
        return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]

    def commands(self) -> list[list[str]]:
        """The words of every simple command in it, as far as they can be told without running it."""
        found = []
        for line in self.lines():
            found += _simple_commands(line)
        return found


def _simple_commands(line: str) -> Iterator[list[str]]:
    line = re.sub(r'"?\$\([^()]*\)"?', "SUBSTITUTED", line)
    line = re.sub(r"^\s*\((.*)\)\s*$", r"\1", line)  # a subshell
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    skip = False  # what a redirection names
    for token in [*_until_comment(lexer), ";"]:
        if set(token) <= set("<>&") and token not in ("&", "&&"):
            skip = True
        elif set(token) <= set(";&|"):
            while words and (
                words[0] in ("do", "then", "else", "if", "while", "until", "!", "{", "(", "time", "sudo")
                or re.fullmatch(r"\w+=.*", words[0])
            ):
                words.pop(0)
            if words and words[0] not in ("for", "done", "fi", "case", "esac", "}", ")"):
                yield words
            words = []
        elif skip:
            skip = False
        else:
            words.append(token)


def _until_comment(lexer: shlex.shlex) -> Iterator[str]:
    for token in lexer:
        if token.startswith("#"):
            return
        yield token


def pages() -> list[Path]:
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/operating").glob("*.md")),
        *sorted((ROOT / "docs/design").glob("*.md")),
        *sorted((ROOT / "packaging").rglob("*.md")),
        *sorted((ROOT / "docs/man").glob("*.scd")),
    ]


def blocks(page: Path) -> list[Block]:
    name = str(page.relative_to(ROOT))
    if page.suffix == ".scd":
        return list(_man_blocks(name, page.read_text()))
    return list(_markdown_blocks(name, page.read_text()))


def _markdown_blocks(name: str, text: str) -> Iterator[Block]:
    heading, where, why = "", PAGES.get(name, ""), ""
    inside: list[str] | None = None
    language, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        fence, mark = _FENCE.match(line), _MARK.match(line)
        if inside is not None:
            if not fence:
                inside.append(line)
                continue
            if language in SHELLS:
                yield Block(name, first, heading, language, where, why, "\n".join(inside))
            inside, where, why = None, PAGES.get(name, ""), ""
        elif fence:
            inside, language, first = [], fence[1], number + 1
        elif mark:
            where, why = mark[1], mark[2] or ""
        elif line.startswith("#"):
            heading = line.lstrip("# ")
    assert inside is None, f"{name}:{first}: the block has no end"


def _man_blocks(name: str, text: str) -> Iterator[Block]:
    """Literal blocks of a manual page; its comments are "; run: WHERE", or "; no commands" above what is a file or an output."""
    heading, where, why = "", "example", "a manual page's"
    inside: list[str] | None = None
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line == "```":
            if inside is None:
                inside, first = [], number + 1
                continue
            if where and inside and _MAN_COMMAND.match(inside[0]):
                yield Block(name, first, heading, "sh", where, why, "\n".join(inside).replace("\\\\", "\\"))
            inside, where, why = None, "example", "a manual page's"
        elif inside is not None:
            inside.append(line)
        elif line.startswith("; run: "):
            where, why = line.removeprefix("; run: "), ""
        elif line == "; no commands":
            where, why = "", ""
        elif line.startswith("#"):
            heading = line.lstrip("# ")


def tree_commands(page: Path) -> list[list[str]]:
    """Commands of this repository in indented text, "    scripts/lab -- targetcli ls": their words."""
    found = []
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^ {4}((?:scripts|tests)/\S+(?: .*)?)$", text, re.MULTILINE):
        words = re.split(r"  +", line)[0].split()  # what follows wide blanks explains it
        found.append([word.strip("[]") for word in words])
    return found
