"""Where things of this source tree are, and how one of its modules is started as a program."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
PYTHON = "/usr/bin/python3"  # the one that has the modules


def module_words(module: str) -> list[str]:
    """What to type before its arguments; no folder has to be on anybody's path."""
    return [PYTHON, "-B", "-u", str(ROOT / "python"), module]
