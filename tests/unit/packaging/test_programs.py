"""Each program that a test or a script starts comes with a package that scripts/deps names.

Seen from a machine on which more is installed: of what is found here, everything that stands where a program stands
is in one of those packages.  What is not found here either fails where it is started.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import packages
import pytest

from iraid_dev.places import ROOT

FOLDERS = ("python", "scripts", "tests", "packaging", "debian")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Words that happen to be a program's name as well, where they are the first of a list or of arguments.
NO_PROGRAMS = {
    "GET",
    "HEAD",
    "POST",
    "ansible",
    "display",
    "edit",
    "file",
    "import",
    "node",
    "open",
    "red",
    "time",
    "view",
    "write",
}
KEYWORD = "then|do|else|if|while|until|exec|env|command -v"
IN_SHELL = re.compile(
    rf"(?:^|[|;&(`]|!\s|\b(?:{KEYWORD}|chroot \S+)\s)\s*(?:\w+=[^\s$(`]*\s+)*"
    rf"(?!(?:{KEYWORD}|fi|done)\b)([a-z][\w.+-]*)(?=\s|$|[;)|&])",
    re.MULTILINE,
)
CASE_PATTERNS = re.compile(r"^\s*[\w*.-]+(?:\s*\|\s*[\w*.-]+)*\)", re.MULTILINE)
NO_SOURCE = {"scripts/deps"}  # a list of packages
COLLECTION = "packaging/ansible/ansible_collections/iraid/iraid"
DOES_WITHOUT = {
    ("python/iraid/watch/support.py", "rpm"),  # what is not there is left out of the archive
    ("tests/docs/pair_stage.py", "ssh"),  # it makes them
    ("tests/lab/guest_boots.py", "qemu-system-x86_64"),  # it asks for what it needs before it begins
    ("tests/lab/guest_boots.py", "qemu-img"),
    ("tests/lab/guest_boots.py", "qemu-io"),
    ("tests/lab/ansible_pair_inside.py", "ansible-playbook"),  # whoever begins it asks
    # The role installs it on the gateways.
    (f"{COLLECTION}/plugins/modules/iraid_cluster.py", "pcs"),
    (f"{COLLECTION}/plugins/modules/iraid_cluster_node.py", "pcs"),
    (f"{COLLECTION}/plugins/module_utils/cib.py", "cibadmin"),
    *(  # test_pacemaker.py asks for them
        ("tests/integration/pacemaker_pair.py", word)
        for word in ("corosync", "corosync-cfgtool", "crm_mon", "crm_node", "crm_resource", "pacemakerd", "pcs")
    ),
}


def sources() -> list[Path]:
    found = []
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))):
        if (
            path.is_file()
            and "__pycache__" not in path.parts
            and kind(path)
            and str(path.relative_to(ROOT)) not in NO_SOURCE
        ):
            found.append(path)
    return found


def kind(path: Path) -> str:
    """ "python", "shell" or nothing."""
    if path.suffix == ".py":
        return "python"
    if path.suffix:
        return ""
    first = path.read_bytes()[:100].partition(b"\n")[0]
    if first.startswith(b"#!"):
        return "python" if b"python" in first else "shell" if re.search(rb"/(ba)?sh\b", first) else ""
    return "shell" if path.parent.name == "guest" else ""


def words_of_python(text: str) -> Iterator[str]:
    """First texts of lists, tuples and arguments: ["mkfs.ext4", "-q", disk], run("mkfs.ext4", disk)."""
    for node in ast.walk(ast.parse(text)):
        first = (
            node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
        )[:1]
        if first and isinstance(first[0], ast.Constant) and isinstance(first[0].value, str):
            yield first[0].value


def words_of_shell(text: str) -> set[str]:
    return set(IN_SHELL.findall(CASE_PATTERNS.sub("", re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE))))


def words_of(path: Path) -> set[str]:
    text = path.read_text()
    if kind(path) == "python":
        words = set(words_of_python(text))
    else:
        words = words_of_shell(text)
    return {Path(word).name if word.startswith("/") else word for word in words if word}


def is_asked_for(program: str, text: str) -> bool:
    """Whether it does without, or says that it can't: then --long and --qemu may bring it."""
    return (
        f'"{program}"' in text
        and ("which(" in text or "FileNotFoundError" in text)
        or re.search(rf"\b(need|command -v) {program}\b", text) is not None
    )


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_program_comes_with_a_package_that_is_listed(path: Path) -> None:
    text = path.read_text()
    for word in sorted(words_of(path) - NO_PROGRAMS):
        if "/" in word or shutil.which(word, path=PATH) is None or word in packages.programs():
            continue
        long = word in packages.programs("--long", "--qemu")
        assert long and may_be_long(path, word, text), (
            f"{path.relative_to(ROOT)} uses {word}, which no package brings that scripts/deps installs"
            + (
                " without --long: ask for it (shutil.which) and skip, or move its package"
                if long
                else "; add its package, or if it is no program a line in NO_PROGRAMS"
            )
        )


def may_be_long(path: Path, word: str, text: str) -> bool:
    return (
        is_asked_for(word, text)
        or "pytest.mark.long" in text
        or path.parent.name == "guest"
        or (str(path.relative_to(ROOT)), word) in DOES_WITHOUT
    )


def test_a_program_that_is_started_is_seen() -> None:
    assert {"mkfs.ext4", "tc", "ip"} <= set(words_of_python('run("mkfs.ext4", x); f(["tc", "-s"]); a = ("ip", y)'))
    assert words_of_shell("case $1 in\n\tdeb | rpm) tgtd ;;\nesac") & {"deb", "rpm", "tgtd"} == {"tgtd"}
    assert {"tgtd", "mount", "sed", "curl"} <= set(
        IN_SHELL.findall("A=1 tgtd -f\nif mount /x; then :; fi\na=$(sed p) && ! curl")
    )


def test_what_the_list_brings_is_known() -> None:
    """Listed itself, of a package that a listed one depends on, essential, and a link that the installation made."""
    assert {"tgtd", "iscsiadm", "gcc", "sed", "mount", "cc", "awk"} <= packages.programs()
    assert not {"vi", "mail", "chromium"} & packages.programs()
