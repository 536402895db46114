"""What a service of ours may do: systemd takes each line of its unit, and its exposure does not grow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from control_peer import ROOT

SYSTEMD = ROOT / "config/systemd"
# systemd-analyze's exposure, 0 (nothing to be had) to 10, in tenths; Debian 12's systemd.  Who takes a protection away
# changes this figure, and says why in docs/design/security.md.
EXPOSURE_MAX = {"iraid-monitor": 48, "iraid-scrub": 11, "iraid-exporter": 18, "tcmu-runner": 53}
# As Debian has it: there the drop-in is all that confines it.
RUNNER = "[Service]\nLimitNOFILE=1000000\nType=dbus\nBusName=org.kernel.TCMUService1\nKillMode=process\nExecStart=/bin/true\n"

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@pytest.fixture
def unit(tmp_path):
    """unit(name) -> the unit's file, in a folder of its own; a drop-in stands beside a unit as Debian has it."""

    def made(name, edit=lambda text: text):
        path = tmp_path / f"{name}.service"
        if name == "tcmu-runner":
            path.write_text(RUNNER)
            (tmp_path / f"{name}.service.d").mkdir(exist_ok=True)
            (tmp_path / f"{name}.service.d/iraid.conf").write_text(
                edit((SYSTEMD / f"{name}.service.d/iraid.conf").read_text())
            )
        else:
            text = (SYSTEMD / f"{name}.service.in").read_text()
            path.write_text(edit(re.sub(r"@CMAKE_INSTALL_FULL_SBINDIR@/iraid", "/bin/true", text)))
        return path

    return made


def analyzed(path, *words):
    return subprocess.run(
        ["systemd-analyze", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{path.parent}:", "LC_ALL": "C", "SYSTEMD_COLORS": "0"},
    )


def exposure_tenths(path):
    said = analyzed(path, "security", "--offline=true", path.name).stdout
    return round(float(re.search(r"exposure level for \S+: ([\d.]+)", said).group(1)) * 10)


@pytest.mark.parametrize("name", EXPOSURE_MAX)
def test_it_may_do_no_more_than_it_could(unit, name):
    assert exposure_tenths(unit(name)) <= EXPOSURE_MAX[name]


@pytest.mark.parametrize("name", EXPOSURE_MAX)
def test_a_protection_that_is_taken_away_shows(unit, name):
    full = exposure_tenths(unit(name))
    without = unit(name, lambda text: re.sub(r"^(SystemCallFilter|RestrictNamespaces)=.*\n", "", text, flags=re.M))
    assert exposure_tenths(without) > full


@pytest.mark.parametrize("name", EXPOSURE_MAX)
def test_systemd_takes_every_line(unit, name):
    path = unit(name)
    said = analyzed(path, "verify", "--man=no", "--recursive-errors=no", str(path)).stderr
    assert [line for line in said.splitlines() if name in line or "iraid.conf" in line] == []
    wrong = unit(name, lambda text: text.replace("RestrictRealtime=", "RestrictRealTime="))
    assert "RestrictRealTime" in analyzed(wrong, "verify", "--man=no", "--recursive-errors=no", str(wrong)).stderr


def test_units_that_are_shipped_are_looked_at():
    shipped = {path.name.partition(".service")[0] for path in SYSTEMD.glob("*.service.in")}
    drop_ins = {path.parent.name.partition(".service")[0] for path in SYSTEMD.glob("*.service.d/*.conf")}
    # targetctl only reads and writes LIO's configuration, in a process of targetcli's that has ended by then.
    assert shipped | drop_ins == {*EXPOSURE_MAX, "rtslib-fb-targetctl"}
