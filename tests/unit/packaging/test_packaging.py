"""What is installed beside the programs: units that systemd takes, and completion that bash takes."""

import os
import re
import shutil
import subprocess

import pytest
from click.testing import CliRunner
from control_peer import IRAID, ROOT, ControlPeer, volume

from iraid.cli.main import cli

SYSTEMD = ROOT / "config/systemd"
COMPLETION = ROOT / "packaging/completion/iraid.bash"


def service_text(program, unit="iraid-scrub"):
    return (SYSTEMD / f"{unit}.service.in").read_text().replace("@CMAKE_INSTALL_FULL_SBINDIR@/iraid", str(program))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path):
    shutil.copy(SYSTEMD / "iraid-scrub.timer", tmp_path)
    units = [tmp_path / "iraid-scrub.timer"]
    for name in ("iraid-scrub", "iraid-monitor"):
        units.append(tmp_path / f"{name}.service")
        units[-1].write_text(service_text(IRAID, name))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if "iraid-" in line]
    assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_timer_elapses_once_a_month():
    calendar = re.search(r"^OnCalendar=(.*)$", (SYSTEMD / "iraid-scrub.timer").read_text(), re.MULTILINE)[1]
    done = subprocess.run(["systemd-analyze", "calendar", calendar], capture_output=True, text=True, timeout=60)
    assert "*-*-01 00:00:00" in done.stdout


@pytest.mark.parametrize("unit", ["iraid-scrub", "iraid-monitor"])
def test_a_service_runs_a_command_that_there_is(unit):
    words = re.search(r"^ExecStart=\S+ (.*)$", service_text("/usr/sbin/iraid", unit), re.MULTILINE)[1].split()
    shown = CliRunner().invoke(cli, [words[0], "--help"]).output
    assert shown.startswith("Usage") and all(word in shown for word in words[1:])
    assert not re.search(r"@\w+@", service_text("/usr/sbin/iraid", unit)), "a place that nothing filled"


def completed(tmp_path, line):
    """What bash would offer for the last word, by its own rules."""
    script = f"""
        source {COMPLETION}
        COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _iraid {IRAID} && printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"IRAID_SOCKET": str(tmp_path / "s")},
    )
    assert done.stderr.replace("bash: line 1: compopt", "") == done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_volumes(tmp_path):
    assert completed(tmp_path, "iraid ex") == ["examine", "export", "exporter"]
    assert "--rate-max" in completed(tmp_path, "iraid set v0 --rate-m")
    with ControlPeer(tmp_path / "s", {"volume.list": {"volumes": [volume("va"), volume("vb"), volume("c")]}}):
        assert completed(tmp_path, "iraid scrub start v") == ["va", "vb"]


@pytest.mark.parametrize(
    ("kind", "package"), [("deb", "debhelper"), ("source", "debhelper"), ("rpm", "rpm"), ("collection", "ansible-core")]
)
def test_who_lacks_what_a_package_is_built_with_is_told_how_to_get_it_at_once(tmp_path, kind, package):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "dpkg-parsechangelog", "xz"):
        (programs / name).write_text("#!/bin/sh\nexit 9\n")
        (programs / name).chmod(0o755)
    (programs / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run(
        ["/bin/bash", ROOT / "scripts/package", kind, "--output", tmp_path / "made"],
        capture_output=True,
        text=True,
        env={"PATH": str(programs)},
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"package: [\w-]+ is not installed: scripts/deps --long .*install {package}\)\n", done.stderr)
    assert not (tmp_path / "made").exists()
