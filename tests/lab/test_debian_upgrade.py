"""Two gateways go from Debian 12 to 13, one after the other, without an error at an initiator.  What is done is in
debian_upgrade.py.  IRAID_PACKAGES=DIR and IRAID_NEXT_PACKAGES=DIR take packages that are there (scripts/package, and
scripts/package --suite trixie) instead of building them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from test_lab import ROOT, lab
from test_packages import Packages, packages, run

from iraid_dev.lab.clean_debian import SUITES, code_name

__all__ = ["packages"]

FROM, TO = SUITES
INSTALLED = ("iraid", "iraid-exporter")
SECONDS = 7000

_missing = [name for name in ("linux.uml", "dh", "mmdebstrap") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(_missing), reason=f"{', '.join(_missing)} not installed; run scripts/deps --long"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: a clean Debian can't be made"),
    pytest.mark.timeout(SECONDS + 3000),
]


@pytest.fixture(scope="session")
def following(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    if given := os.environ.get("IRAID_NEXT_PACKAGES"):
        return Packages(Path(given).resolve())
    folder = tmp_path_factory.mktemp("following")
    run("scripts/package", "deb", "--suite", TO, "--output", folder)
    return Packages(folder)


@pytest.mark.skipif(
    code_name() != FROM, reason=f"this machine has not {FROM}: its packages are not those to begin with"
)
def test_two_gateways_go_to_the_next_release_under_an_initiator(packages, following, tmp_path):
    words = [f"--with={name}" for name in ("open-iscsi", "multipath-tools")]
    words += [f"--next-deb={following.deb(name)}" for name in INSTALLED]
    debs = [packages.deb(name) for name in INSTALLED]
    root = run("scripts/clean-debian", "--install", "--suite", FROM, "--next", TO, *words, *debs).splitlines()[-1]
    state = tmp_path / "state"
    done = lab(
        *("--machines", "a,b,i", "--systemd", "--root", root, "--state", state, "--timeout", str(SECONDS), "--"),
        *(ROOT / "tests/lab/debian_upgrade.py", following.folder),
        timeout=SECONDS + 60,
    )
    print(done.stdout)
    for farm in ("pair", "alone"):
        shutil.rmtree(state / farm, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
