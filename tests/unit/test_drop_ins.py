"""Drop-ins for units of other packages: systemd takes every line of them."""

import os
import shutil
import subprocess

import pytest
from control_peer import ROOT

SYSTEMD = ROOT / "config/systemd"
UNITS = ("tcmu-runner.service", "rtslib-fb-targetctl.service")


def verify(folder, unit):
    """What systemd says about a oneshot with the drop-in of `unit`."""
    (folder / unit).write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n" if "targetctl" in unit
                               else "[Service]\nExecStart=/bin/true\n")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", folder / unit], text=True,
                          capture_output=True, timeout=60, check=False, env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:"})
    return [line for line in done.stderr.splitlines() if "iraid.conf" in line or unit in line]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_takes_a_drop_in_and_would_say_what_it_does_not(tmp_path, unit):
    folder = tmp_path / f"{unit}.d"
    folder.mkdir()
    text = (SYSTEMD / f"{unit}.d/iraid.conf").read_text()
    (folder / "iraid.conf").write_text(text)
    assert verify(tmp_path, unit) == []
    (folder / "iraid.conf").write_text(text.replace("[Service]", "[Service]\nRestartAlways=yes"))
    assert any("RestartAlways" in line for line in verify(tmp_path, unit))
