"""Guests that boot from a LUN while one of its members dies, and initiators of another make.  What is done is in
guest_boots.py.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import guest_boots
import pytest
from guest_boots import MOMENTS, NEVER, WAYS
from test_lab import ROOT, lab

from iraid_dev.stack.private_gateway import build_folder

SET_UP_SECONDS, BOOT_SECONDS, TOOLS_SECONDS = 300, 400, 600

pytestmark = [
    pytest.mark.skipif(shutil.which("linux.uml") is None, reason="user-mode-linux is not installed; run scripts/deps"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: no network namespaces"),
    pytest.mark.no_sanitizer,
    pytest.mark.long,
]


def run(state: Path, seconds: int, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, what was seen, and all that was said."""
    assert list(build_folder().rglob("handler_iraid.so")), f"no handler below {build_folder()}: run scripts/build"
    done = lab(
        *("--machines", "g", "--state", state, "--timeout", str(seconds), "--"),
        *(ROOT / "tests/lab/guest_boots.py", *words),
        timeout=seconds + 60,
    )
    for folder in ("members", "image"):
        shutil.rmtree(state / folder, ignore_errors=True)
    seen = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, seen, done.stdout + done.stderr


def needs(ways: list[str], tools: bool = False) -> None:
    if reason := guest_boots.missing(ways, tools):
        pytest.skip(reason)


@pytest.mark.timeout(SET_UP_SECONDS + (len(MOMENTS) + 1) * BOOT_SECONDS + 60)
@pytest.mark.parametrize("way", WAYS)
def test_a_guest_boots_reads_right_and_writes_whenever_a_member_is_killed(tmp_path, way):
    needs([way])
    status, seen, said = run(tmp_path / "state", SET_UP_SECONDS + (len(MOMENTS) + 1) * BOOT_SECONDS, "--way", way)
    assert status == 0, said
    assert [one["killed_while"] for one in seen] == [NEVER, *MOMENTS]
    assert all(one["faults"] == [] for one in seen)


@pytest.mark.timeout(SET_UP_SECONDS + TOOLS_SECONDS + 60)
def test_tools_of_libiscsi_and_qemu_read_and_write_right_while_a_member_is_killed(tmp_path):
    needs([], tools=True)
    status, seen, said = run(tmp_path / "state", SET_UP_SECONDS + TOOLS_SECONDS, "--tools")
    assert status == 0, said
    assert sum(one["killed"] for one in seen) == 4 and all(one["faults"] == [] for one in seen)


@pytest.mark.timeout(SET_UP_SECONDS + 2 * BOOT_SECONDS + 60)
def test_a_guest_on_a_volume_without_redundancy_does_not_come_up(tmp_path):
    """So that it is known that the others can tell."""
    needs(["bios"])
    status, seen, said = run(
        tmp_path / "state",
        SET_UP_SECONDS + 2 * BOOT_SECONDS,
        *("--level", "0", "--way", "bios", "--moment", NEVER, "--moment", "reading"),
    )
    assert status == 1, said
    never, reading = seen
    assert never["faults"] == [] and never["done_seconds"] > 0
    assert reading["faults"] and reading["done_seconds"] == 0
