"""Where things of this source tree are, and how one of its modules is started as a program."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
PYTHON = "/usr/bin/python3"  # the one that has the modules


def module_words(module: str) -> list[str]:
    """What to type before its arguments; no folder has to be on anybody's path."""
    return [PYTHON, "-B", "-u", str(ROOT / "python"), module]


def commit() -> str:
    """Of this tree; with a + when what is installed from it differs."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = "+" if git("status", "--porcelain", "--untracked-files=no", "--", "handler", "python/iraid") else ""
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed
