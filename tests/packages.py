"""What a machine has on which scripts/deps has put its packages, and nobody anything else.

Tests run where much more may be installed: that a program is found there proves nothing.  A minimal Debian has the
packages that are called essential, and apt; each package brings what it depends on, not what it recommends.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORMAT = "${db:Status-Abbrev}\t${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
FILES = Path("/var/lib/dpkg/info")
PLACES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")


def _names(relations: str) -> list[list[str]]:
    """ "a (>= 1), b:any | c" -> [["a"], ["b", "c"]]"""
    return [
        [re.split(r"[ :(]", one.strip())[0] for one in relation.split("|")]
        for relation in relations.split(",")
        if relation.strip()
    ]


@cache
def brought(*options: str) -> frozenset[str]:
    """Packages that are there after scripts/deps OPTIONS, as far as they are installed here."""
    text = subprocess.run(["dpkg-query", "-W", "-f", FORMAT], check=True, capture_output=True, text=True).stdout
    installed = {
        words[1]: words for words in (line.split("\t") for line in text.splitlines()) if words[0].startswith("ii")
    }
    providers: dict[str, list[str]] = {}
    for name, words in installed.items():
        for provided in _names(words[4]):
            providers.setdefault(provided[0], []).append(name)
    listed = subprocess.run([ROOT / "scripts/deps", "--list", *options], check=True, capture_output=True, text=True)
    waiting = ["apt", *listed.stdout.split(), *(name for name, words in installed.items() if words[2] == "yes")]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in installed:
            continue
        found.add(name)
        for alternatives in _names(installed[name][3]):
            first = next((one for one in alternatives if one in installed or one in providers), None)
            if first is not None:
                waiting += [first] if first in installed else providers[first]
    return frozenset(found)


@cache
def programs(*options: str) -> frozenset[str]:
    """Names of the programs in these packages."""
    found = set()
    for name in brought(*options):
        for file in (FILES / f"{name}.list", *FILES.glob(f"{name}:*.list")):
            if file.exists():
                found |= {path.name for path in map(Path, file.read_text().splitlines()) if str(path.parent) in PLACES}
    # cc, awk and their like are links that a package's installation makes to one of its programs.
    links = (path for place in PLACES for path in Path(place).iterdir() if path.is_symlink())
    return frozenset(found | {path.name for path in links if path.resolve().name in found})
