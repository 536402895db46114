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
    (folder / unit).write_text(
        "[Service]\nType=oneshot\nExecStart=/bin/true\n" if "targetctl" in unit else "[Service]\nExecStart=/bin/true\n"
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", folder / unit],
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:"},
    )
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


JOBS = {
    "stopped": " 1234 tcmu-runner.service stop running\n",
    "shut down": " 7 tcmu-runner.service stop waiting\n",
    "restarted": " 1234 tcmu-runner.service restart running\n",
    "crashed": "",
}


@pytest.mark.parametrize("end", JOBS)
def test_commands_are_refused_only_after_a_runner_that_nobody_follows(tmp_path, end):
    """What the kernel was told, in order, is in the files; reset_ring and block_dev of both kinds of LUN."""
    parameters, backstores = tmp_path / "parameters", tmp_path / "core"
    parameters.mkdir()
    actions = [backstores / name / "action" for name in ("user_0/v0", "user_1/other")]
    for action in [*actions, backstores / "fileio_0/file/action"]:
        action.mkdir(parents=True)
        if "user" in str(action):
            (action / "block_dev").touch()
    systemctl = tmp_path / "bin/systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(f"#!/bin/sh\n[ \"$1 $4\" = 'list-jobs tcmu-runner.service' ] && printf %s '{JOBS[end]}'\n")
    systemctl.chmod(0o755)

    subprocess.run(
        [ROOT / "scripts/runner-ended", parameters, backstores],
        check=True,
        timeout=60,
        env=os.environ | {"PATH": f"{systemctl.parent}:{os.environ['PATH']}"},
    )

    assert {file.name: file.read_text() for file in parameters.iterdir()} == {
        "block_netlink": "1\n",
        "reset_netlink": "1\n",
    }
    told = {"block_dev": "1\n", "reset_ring": "1\n"} if end in ("stopped", "shut down") else {"block_dev": ""}
    for action in actions:
        assert {file.name: file.read_text() for file in action.iterdir()} == told
    assert not any((backstores / "fileio_0/file/action").iterdir())
