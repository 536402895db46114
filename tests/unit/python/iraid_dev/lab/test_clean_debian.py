"""Which Debian scripts/clean-debian makes, and from where.  Here lines stand for what apt has: nothing is fetched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iraid_dev.lab import clean_debian
from iraid_dev.lab.run import LabError
from iraid_dev.places import ROOT

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
BOOKWORM = f"""\
http://mirror.example/debian/ bookworm main {KEYRING}
http://mirror.example/debian/ bookworm-updates main {KEYRING}
http://mirror.example/debian-security/ bookworm-security main
https://vendor.example/tools stable main
"""
TRIXIE = "http://mirror.example/debian/ trixie main\n"
SIGNED = f"deb [signed-by={KEYRING}] http://mirror.example/debian/"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One with Debian 12, whose apt has what is in BOOKWORM."""
    monkeypatch.setattr(clean_debian, "code_name", lambda: "bookworm")
    monkeypatch.setattr(clean_debian, "output_of", lambda *words: BOOKWORM)
    return monkeypatch


def serves(machine: pytest.MonkeyPatch, *suites: str) -> list[str]:
    """The repositories have these suites alone; returns what they were asked for."""
    asked: list[str] = []

    def is_served(line: str) -> bool:
        asked.append(line.split()[-2])
        return asked[-1] in suites

    machine.setattr(clean_debian, "is_served", is_served)
    return asked


def test_without_a_suite_it_is_this_machine_s_own(machine):
    assert clean_debian.suite_or_own(None) == "bookworm"
    machine.setattr(clean_debian, "code_name", lambda: "forky")
    assert clean_debian.suite_or_own(None) == "forky"


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_known_suite_is_taken(machine, suite):
    assert clean_debian.suite_or_own(suite) == suite


@pytest.mark.parametrize("suite", ["", "sid", "Trixie", "trixie-security", "13"])
def test_an_unknown_suite_is_named_with_the_known_ones(machine, suite):
    with pytest.raises(LabError, match=f"unknown suite '{suite}': known are bookworm, trixie"):
        clean_debian.suite_or_own(suite)


def test_the_command_refuses_it_too():
    words = [ROOT / "scripts/clean-debian", "--suite", "sid"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "unknown suite 'sid': known are bookworm, trixie" in done.stderr


def test_this_machine_s_own_suite_is_taken_as_apt_has_it_and_nobody_is_asked(machine):
    asked = serves(machine)
    assert clean_debian.served_sources("bookworm") == [
        f"{SIGNED} bookworm main",
        f"{SIGNED} bookworm-updates main",
        "deb http://mirror.example/debian-security/ bookworm-security main",
    ]
    assert asked == []


def test_another_suite_comes_from_the_same_repositories(machine):
    serves(machine, "trixie", "trixie-updates", "trixie-security")
    assert clean_debian.served_sources("trixie") == [
        f"{SIGNED} trixie main",
        f"{SIGNED} trixie-updates main",
        "deb http://mirror.example/debian-security/ trixie-security main",
    ]


def test_what_is_not_served_of_it_is_left_out_and_said(machine, capsys):
    serves(machine, "trixie", "trixie-updates")
    assert [line.split()[-2] for line in clean_debian.served_sources("trixie")] == ["trixie", "trixie-updates"]
    said = capsys.readouterr().err
    assert "not served, left out: deb http://mirror.example/debian-security/ trixie-security main" in said


def test_a_suite_that_nobody_has_is_an_error_that_names_who_was_asked(machine):
    serves(machine, "trixie-updates")
    with pytest.raises(LabError, match=r"no repository of this machine's apt has the suite trixie: .*mirror\.example"):
        clean_debian.served_sources("trixie")


def test_lines_that_apt_has_of_the_other_suite_itself_are_preferred(machine):
    serves(machine, "trixie")
    machine.setattr(clean_debian, "output_of", lambda *words: BOOKWORM + TRIXIE)
    assert clean_debian.served_sources("trixie") == ["deb http://mirror.example/debian/ trixie main"]


def test_apt_without_lists_is_told_what_to_do(machine):
    machine.setattr(clean_debian, "output_of", lambda *words: "")
    with pytest.raises(LabError, match="apt has no package lists of bookworm: run apt-get update as root"):
        clean_debian.apt_sources("trixie")


def test_what_a_repository_has_apt_itself_says(machine, tmp_path):
    """By what it downloads of it: here apt's way to a file."""
    (tmp_path / "dists/trixie").mkdir(parents=True)
    (tmp_path / "dists/trixie/InRelease").write_text("Suite: trixie\n")
    if not Path(clean_debian.APT_HELPER).exists():
        pytest.skip(f"{clean_debian.APT_HELPER} is not there")
    tmp_path.chmod(0o755)
    assert clean_debian.is_served(f"deb [trusted=yes] file:{tmp_path}/ trixie main")
    assert not clean_debian.is_served(f"deb file:{tmp_path} trixie-updates main")


def test_each_suite_has_a_folder_of_its_own(machine, tmp_path):
    machine.setattr(clean_debian, "cache_directory", lambda: tmp_path)
    folders = {clean_debian.CleanDebian([], [], suite).folder for suite in (None, "bookworm", "trixie")}
    assert len(folders) == 2


def test_one_with_packages_installed_is_another_one_for_each_of_their_versions(machine, tmp_path):
    """Without, what they ask for is all that counts."""
    machine.setattr(clean_debian, "apt_sources", lambda suite: [suite])
    deb = tmp_path / "one.deb"

    def folder(content: str, installed: bool) -> Path:
        deb.write_text(content)
        return clean_debian.CleanDebian([deb], [], "bookworm", installed=installed).folder

    assert folder("first", False) == folder("second", False)
    assert len({folder("first", False), folder("first", True), folder("second", True)}) == 3
