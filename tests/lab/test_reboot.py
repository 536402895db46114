"""A gateway with systemd is rebooted: targetcli's saved configuration brings the LUN back.

Two boots of the lab on one image; the members' files are on it too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).with_name("guest")
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))

pytestmark = [
    pytest.mark.skipif(shutil.which("linux.uml") is None,
                       reason="user-mode-linux is not installed; run scripts/deps"),
    pytest.mark.timeout(600),
]


def boot(image: Path, state: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command, *rest = words
    options = [word for word in rest if str(word).startswith("--")]
    arguments = [str(word) for word in rest if not str(word).startswith("--")]
    return subprocess.run(
        [str(ROOT / "scripts/lab"), "--systemd", "--persist", str(image), "--persist-size", "2G",
         "--memory", "2G", "--state", str(state), "--timeout", "280", *map(str, options), "--",
         str(command), *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("end", [
    pytest.param([], id="shut down in order", marks=pytest.mark.long),
    pytest.param(["--power-cut"], id="power cut", marks=pytest.mark.long),
])
def test_the_lun_is_back_with_its_data_after_a_reboot(tmp_path, end):
    assert list(BUILD.rglob("handler_iraid.so")), f"no handler below {BUILD}: run scripts/build"
    image = tmp_path / "disk.img"

    first = boot(image, tmp_path / "first", GUEST / "make-volume", ROOT, BUILD, *end)
    assert first.returncode == 0, first.stdout + first.stderr
    second = boot(image, tmp_path / "second", GUEST / "check-volume", ROOT)
    assert second.returncode == 0, second.stdout + second.stderr

    image.unlink()  # hundreds of MiB; kept when something failed
