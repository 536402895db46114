"""analyze - gcc's and clang's static analyzers over every C source that is shipped.

    scripts/analyze                       both, all of handler/; status 1: a finding that nobody explained
    scripts/analyze --with gcc            or clang (package clang)
    scripts/analyze --jobs 1 handler/adapters/iscsi     only sources below these paths
    scripts/analyze --all-findings        also those that are explained, and why

It takes the compilers' options from the build tree (IRAID_BUILD_DIR, else build/; scripts/build makes it).
What is no mistake stands in python/iraid_dev/analyze/explained.txt with its reason. A line there that explains
nothing any more fails, too, where all was looked at.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.places import ROOT

EXPLAINED = Path(__file__).parent / "explained.txt"
SECONDS_MAX = 600  # of one source
FINDING = re.compile(r"^(?P<path>[^\s:]+):(?P<line>\d+):\d+: warning: (?P<text>.*) \[(?P<check>[\w.,+=-]+)\]$", re.M)
# Of gcc alone, or of no concern to who only reads.
NOT_FOR_CLANG = re.compile(r"-fcf-protection\S*|-mbranch-protection\S*|-flto\S*|-fsanitize\S*|-fno-sanitize\S*")
TOOLS = {
    "gcc": ["gcc", "-fanalyzer", "-S"],
    "clang": ["clang", "--analyze", "-Xclang", "-analyzer-output=text", "-fno-caret-diagnostics"],
}


@dataclass(frozen=True)
class Finding:
    """path is relative to the tree; check is what the analyzer calls it, such as -Wanalyzer-malloc-leak."""

    tool: str
    path: str
    line: int
    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.tool}: {self.text} [{self.check}]"


@dataclass(frozen=True)
class Explanation:
    """Holds for one analyzer's check in one file, where the finding's text contains words."""

    tool: str
    path: str
    check: str
    words: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        same = (self.tool, self.path, self.check) == (finding.tool, finding.path, finding.check)
        return same and self.words in finding.text

    def __str__(self) -> str:
        return f"{self.tool} | {self.path} | {self.check} | {self.words} | {self.reason}"


class AnalyzeError(Exception):
    """Message and remedy, for whoever ran it."""


def explanations(text: str) -> list[Explanation]:
    """Lines "analyzer | file | check | words of its text | reason"; # begins a comment."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|", 4)]
        if len(parts) != 5 or not parts[4] or parts[0] not in TOOLS:
            raise AnalyzeError(
                f"{EXPLAINED.name}, line {number}: '{line}' is not 'gcc or clang | file | check | words | reason'"
            )
        found.append(Explanation(*parts))
    return found


def findings_in(tool: str, said: str) -> list[Finding]:
    """What an analyzer said of a source, its headers included; other warnings are the build's."""
    found = []
    for match in FINDING.finditer(said):
        path = Path(match["path"])
        inside = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        if tool == "gcc" and not match["check"].startswith("-Wanalyzer-"):
            continue
        check = re.sub(r"^-Wanalyzer-(\S+)$", r"\1", match["check"])
        found.append(Finding(tool, inside, int(match["line"]), check, match["text"]))
    return found


def words_of(tool: str, command: str) -> list[str]:
    """The analyzer's command for what the build compiles with command."""
    given = shlex.split(command)
    kept, rest = [], iter(given[1:])
    for word in rest:
        if word in ("-o", "-MF", "-MT", "-MQ"):
            next(rest)
        elif word not in ("-c", "-MD"):
            kept.append(word)
    while kept and not kept[0].startswith("-"):  # the compiler's name behind a launcher
        kept.pop(0)
    if tool == "clang":
        kept = [word for word in kept if not NOT_FOR_CLANG.fullmatch(word)]
    return [*TOOLS[tool], *kept, "-o", "/dev/null"]


def analyze(tool: str, entry: dict[str, str]) -> list[Finding]:
    ran = subprocess.run(
        words_of(tool, entry["command"]),
        cwd=entry["directory"],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
        timeout=SECONDS_MAX,
        check=False,
    )
    if ran.returncode != 0:
        raise AnalyzeError(f"{tool} ended with {ran.returncode} on {entry['file']}:\n{ran.stderr[-2000:]}")
    return findings_in(tool, ran.stderr)


def sources(build: Path, below: list[Path]) -> list[dict[str, str]]:
    """Entries of compile_commands.json, one of each source below the paths."""
    path = build / "compile_commands.json"
    if not path.exists():
        raise AnalyzeError(f"{path} is not there: run scripts/build, or set IRAID_BUILD_DIR")
    entries: dict[str, dict[str, str]] = {}
    for entry in json.loads(path.read_text()):
        if any(Path(entry["file"]).is_relative_to(folder) for folder in below):
            entries.setdefault(entry["file"], entry)
    if not entries:
        raise AnalyzeError(f"nothing below {', '.join(map(str, below))} is compiled: give paths such as handler/engine")
    return list(entries.values())


def report(found: list[Finding], known: list[Explanation], whole: bool, show_all: bool) -> int:
    """Prints; returns the exit status."""
    unexplained = 0
    for finding in found:
        reason = next((one.reason for one in known if one.covers(finding)), "")
        unexplained += not reason
        if not reason or show_all:
            print(f"{finding}\n    explained: {reason}" if reason else str(finding))
    stale = [one for one in known if whole and not any(map(one.covers, found))]
    for one in stale:
        print(f"{EXPLAINED.name}: explains nothing any more: {one}")
    print(f"{len(found)} findings, {unexplained} without an explanation, {len(stale)} explanations of nothing")
    return 1 if unexplained or stale else 0


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="analyze", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--with", dest="tools", action="append", choices=sorted(TOOLS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--all-findings", action="store_true")
    parser.add_argument("paths", nargs="*", type=Path)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = arguments(words)
    below = [path.resolve() for path in given.paths] or [ROOT / "handler"]
    tools = given.tools or sorted(TOOLS)
    for tool in tools:
        if shutil.which(TOOLS[tool][0]) is None:
            print(f"analyze: {tool} is not installed: apt-get install {tool}", file=sys.stderr)
            return 1
    try:
        known = [one for one in explanations(EXPLAINED.read_text()) if one.tool in tools]
        entries = sources(Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build")), below)
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            lists = pool.map(lambda work: analyze(*work), [(tool, entry) for tool in tools for entry in entries])
            found = sorted({finding for some in lists for finding in some}, key=lambda one: (one.path, one.line))
    except (AnalyzeError, subprocess.TimeoutExpired) as error:
        print(f"analyze: {error}", file=sys.stderr)
        return 1
    return report(found, known, not given.paths, given.all_findings)
