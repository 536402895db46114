"""iraid-exporter.service under a real systemd: sandboxed, with and without a runner, killed, configured wrongly."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import systems

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(systems.missing() is not None, reason=str(systems.missing())),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
    pytest.mark.timeout(400),
]


def test_the_unit_does_what_it_should_and_may_no_more(tmp_path):
    assert list(systems.BUILD.rglob("iraid-engine")), f"no iraid-engine below {systems.BUILD}: run scripts/build"
    done = subprocess.run(
        [
            systems.ROOT / "scripts/lab",
            "--systemd",
            "--memory",
            "2G",
            "--state",
            tmp_path / "state",
            "--timeout",
            "300",
            "--",
            systems.GUEST / "exporter",
            systems.ROOT,
            systems.BUILD,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=systems.ROOT,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
