"""The Ansible role in a booted Debian with systemd and LIO: from nothing to a file system, then changes under it.

    scripts/test tests/lab/test_ansible.py -m long

One machine is gateway, initiator and five backend hosts (four of LIO, one of tgt); tests/lab/guest/ansible-site has the
steps.  The gateway is installed from the package: that of IRAID_PACKAGES, a folder, or one that is made first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).with_name("guest")
PROGRAMS = ("linux.uml", "ansible-playbook", "jq", "dh")
LAB_SECONDS_MAX, PACKAGE_SECONDS_MAX = 900, 900

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)),
                       reason=f"one of {', '.join(PROGRAMS)} is not installed; run scripts/deps --long"),
    pytest.mark.timeout(PACKAGE_SECONDS_MAX + LAB_SECONDS_MAX),
]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("IRAID_PACKAGES") or tmp_path / "packages")
    if not folder.is_dir():
        subprocess.run([str(ROOT / "scripts/package"), "deb", "--output", str(folder)], cwd=ROOT, check=True)
    found, = folder.glob("iraid_*.deb")
    return found


def test_from_nothing_to_a_file_system_and_changes_under_it(package, tmp_path, record_property):
    done = subprocess.run(
        [str(ROOT / "scripts/lab"), "--systemd", "--memory", "2G", "--state", str(tmp_path / "lab"), "--timeout",
         str(LAB_SECONDS_MAX), "--", str(GUEST / "ansible-site"), str(ROOT), str(package)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in re.findall(r"^played .*|^from nothing .*", done.stdout, re.MULTILINE):
        print(line)
    record_property("from_nothing_to_an_export", re.search(r"from nothing to an export: (\d+) s", done.stdout)[1])
