"""The version of a package says which release of Debian it was built on, so that an upgrade of the release replaces it.
On real packages: tests/lab/test_packages.py.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import iraid
from iraid_dev.places import ROOT

CHANGELOG = ROOT / "debian/changelog"
(SAID,) = re.findall(r"^iraid \((\S+)\) unstable; ", CHANGELOG.read_text().splitlines()[0])
BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n'
TRIXIE = 'ID=debian\nVERSION_ID="13"\nVERSION="13 (trixie)"\nVERSION_CODENAME=trixie\nDEBIAN_VERSION_FULL=13.2\n'
SID = 'PRETTY_NAME="Debian GNU/Linux forky/sid"\nVERSION_CODENAME=forky\nID=debian\n'
UBUNTU = 'VERSION_ID="24.04"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\n'
DERIVED = 'VERSION_ID="12"\nVERSION_CODENAME=ours\nID=ours\nID_LIKE=debian\n'


def changelog_of(folder: Path, release: str) -> str:
    (folder / "os-release").write_text(release)
    done = subprocess.run(
        [ROOT / "scripts/suite-changelog", folder / "os-release", CHANGELOG], check=True, capture_output=True, text=True
    )
    return done.stdout


def version_of(folder: Path, release: str) -> str:
    (found,) = re.findall(r"^iraid \((\S+)\) ", changelog_of(folder, release).splitlines()[0])
    return str(found)


def is_older(one: str, other: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False).returncode == 0


def test_the_changelog_has_an_entry_more_where_the_release_has_a_number(tmp_path: Path) -> None:
    before = CHANGELOG.read_text()
    for release, name, number in ((BOOKWORM, "bookworm", 12), (TRIXIE, "trixie", 13)):
        entry, _, rest = changelog_of(tmp_path, release).partition("iraid (" + SAID + ")")
        assert f"iraid ({SAID}){rest}" == before
        assert entry.startswith(
            f"iraid ({SAID}~deb{number}u1) {name}; urgency=medium\n\n  * Built on Debian {number}.\n"
        )
    for release in (SID, UBUNTU, DERIVED):
        assert changelog_of(tmp_path, release) == before


def test_the_entry_is_the_same_in_each_build_and_newer_than_the_one_before(tmp_path: Path) -> None:
    times = []
    for text in (CHANGELOG.read_text(), changelog_of(tmp_path, TRIXIE), changelog_of(tmp_path, TRIXIE)):
        (tmp_path / "changelog").write_text(text)
        words = ["dpkg-parsechangelog", "-l", tmp_path / "changelog", "-S", "Timestamp"]
        times.append(int(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    assert times == [times[0], times[0] + 1, times[0] + 1]


def test_an_upgrade_of_the_release_is_one_of_every_package(tmp_path: Path) -> None:
    before, after = version_of(tmp_path, BOOKWORM), version_of(tmp_path, TRIXIE)
    assert is_older(before, after) and is_older(after, version_of(tmp_path, SID))
    assert is_older("0.1.0-0iraid1", before), "packages of before had no suite in their version"
    assert is_older(after, before.replace(SAID, f"{SAID}.1")), "a newer iraid is newer, whatever it was built on"


def test_without_the_suite_it_is_the_version_that_programs_say(tmp_path: Path) -> None:
    """iraid doctor --peer compares those: gateways of Debian 12 and 13 with the same iraid do not differ."""
    for release in (BOOKWORM, TRIXIE):
        assert version_of(tmp_path, release).rpartition("-")[0] == iraid.__version__


def test_what_is_no_changelog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(TRIXIE)
    (tmp_path / "changelog").write_text("* First package\n")
    for changelog, said in (("changelog", "does not begin with an entry"), ("none", "there is no file")):
        done = subprocess.run(
            [ROOT / "scripts/suite-changelog", tmp_path / "os-release", tmp_path / changelog],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (1, "") and said in done.stderr


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no repository: there is nothing to pack")
def test_packages_are_built_from_this_changelog(tmp_path: Path) -> None:
    """dpkg-buildpackage, and what takes time, is replaced: it shows the changelog that it was given."""
    programs, headers = tmp_path / "bin", tmp_path / "headers"
    for folder in (programs, headers):
        folder.mkdir()
    replaced = {"dpkg-buildpackage": "head -n 1 debian/changelog", "dh": "exit 1", "xz": "exec cat"}
    for name, does in replaced.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    for name in (".version", "LICENSE.Apache2"):
        (headers / name).write_text("1.5.4\n")
    done = subprocess.run(
        [ROOT / "scripts/package", "source", "--headers", headers, "--output", tmp_path / "made"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    expected = changelog_of(tmp_path, Path("/etc/os-release").read_text()).splitlines()[0]
    assert expected in (tmp_path / "made/package.log").read_text().splitlines()
