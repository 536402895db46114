"""What is seen of the Python without running it; pyproject.toml says what is looked for, and the exceptions.

mypy and ruff, each where it is installed.  Debian 12 has no ruff: without it flake8 (pycodestyle and pyflakes) looks for
the mistakes that both know.
"""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.places import PYTHON, ROOT

FOLDERS = ("python", "tests", "scripts", "packaging")
FLAKE8 = (
    "--select",
    "F,E4,E7,E9",
    "--extend-ignore",
    "E704",  # "def f(self) -> None: ..." of a protocol
    "--per-file-ignores",
    "packaging/ansible/ansible_collections/iraid/iraid/plugins/modules/*:E402 tests/lab/*:E402",
)


@dataclass(frozen=True)
class Check:
    name: str
    words: list[str]  # none: it is not installed
    why: str = ""


def checks() -> list[Check]:
    """One part of scripts/test each."""
    mypy = [PYTHON, "-m", "mypy"] if importlib.util.find_spec("mypy") else []
    found = [Check("mypy", mypy, "" if mypy else "mypy is not installed: scripts/deps")]
    if ruff := shutil.which("ruff"):
        return [*found, Check("ruff", [ruff, "check", "--output-format", "concise", "."])]
    flake8 = [PYTHON, "-m", "flake8", *FLAKE8, *sources()] if importlib.util.find_spec("flake8") else []
    return [
        *found,
        Check(
            "flake8",
            flake8,
            "ruff is not installed, which sees more"
            if flake8
            else "neither ruff nor flake8 is installed: scripts/deps",
        ),
    ]


def sources() -> list[str]:
    """Folders, and programs of Python whose names don't say so."""
    programs = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and not path.suffix and _is_python(path)
    ]
    return [*FOLDERS, *(str(path.relative_to(ROOT)) for path in programs)]


def _is_python(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline(80).startswith(b"#!/usr/bin/python3")
