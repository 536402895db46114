"""Whole gateways with systemd in the lab: boots of one image, what the guest's scripts measured, and their shutdowns."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).with_name("guest")
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
BOOT_SECONDS_MAX = 280
OFF_SECONDS_MAX = 120  # a shutdown that takes longer counts as one that hangs


def missing() -> str | None:
    """Why no system can be booted here."""
    if shutil.which("linux.uml") is None:
        return "user-mode-linux is not installed; run scripts/deps"
    return None


@dataclass(frozen=True)
class Boot:
    """One boot, its command, and its shutdown."""

    status: int
    output: str
    figures: dict[str, float]
    off_seconds: float | None  # None: it had to be killed

    def good(self) -> Boot:
        assert self.status == 0, self.output
        assert self.off_seconds is not None, f"not off {OFF_SECONDS_MAX} s after its command\n{self.output}"
        return self


def boot(image: Path, state: Path, script: str, *words: str | Path, options: tuple[str, ...] = ()) -> Boot:
    """script: of tests/lab/guest; it is given the repository, then `words`."""
    done = subprocess.run(
        [
            str(ROOT / "scripts/lab"),
            "--systemd",
            "--persist",
            str(image),
            "--persist-size",
            "2G",
            "--memory",
            "2G",
            "--state",
            str(state),
            "--timeout",
            str(BOOT_SECONDS_MAX),
            "--off-timeout",
            str(OFF_SECONDS_MAX),
            *options,
            "--",
            str(GUEST / script),
            str(ROOT),
            *map(str, words),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    figures: dict[str, float] = {}
    for line in done.stdout.splitlines():
        if line.startswith("figures "):
            figures |= json.loads(line.removeprefix("figures "))
    try:
        off_seconds = float((state / "off-seconds").read_text())
    except FileNotFoundError:
        off_seconds = None
    return Boot(done.returncode, done.stdout + done.stderr, figures, off_seconds)


def make(image: Path, state: Path, options: tuple[str, ...] = ()) -> Boot:
    """The first boot: the gateway that was built, four members, a volume and its LUN."""
    assert list(BUILD.rglob("handler_iraid.so")), f"no handler below {BUILD}: run scripts/build"
    return boot(image, state, "make-volume", BUILD, options=options)


def copy(image: Path, to: Path) -> Path:
    """Holes stay holes."""
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", str(image), str(to)], check=True)
    return to
