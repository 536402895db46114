"""debian/ and the spec against what CMake installs and the code uses: what is new is in a package, and a package
asks for what its files need.  The packages themselves: tests/lab/test_packages.py.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import iraidlib
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
RULES = (ROOT / "debian/rules").read_text()
SPEC = (ROOT / "packaging/rpm/iraid.spec").read_text()
COMPONENTS = dict(re.findall(r"^component_(\S+) := (\S+)$", RULES, re.MULTILINE))  # package -> component
# Modules that are not Python's own, and Debian's names of them.
MODULES = {"click": "python3-click", "rich": "python3-rich", "rtslib_fb": "python3-rtslib-fb",
           "dbus": "python3-dbus", "prometheus_client": "python3-prometheus-client"}
# Of the build tools, what is part of every Debian build, and what the tests alone need.
NOT_ASKED_FOR = {"build-essential", "ca-certificates", "dpkg-dev", "xz-utils"}


def stanzas() -> dict[str, dict[str, str]]:
    """Package (the source too) -> its fields, as debian/control has them."""
    found = {}
    for text in (ROOT / "debian/control").read_text().split("\n\n"):
        fields = {name: " ".join(value.split())
                  for name, value in re.findall(r"^([A-Z][A-Za-z-]*):((?:.*\n?)(?:^ .*\n?)*)", text, re.MULTILINE)}
        found["source" if "Source" in fields else fields["Package"]] = fields
    return found


def names_in(relations: str) -> set[str]:
    """Package names of a field such as "a (>= 1), b | c <!nocheck>"."""
    return {re.split(r"[\s(:<]", one.strip())[0] for one in re.split(r"[,|]", relations) if one.strip()}


CONTROL = stanzas()


def test_every_package_is_a_component_of_cmake_s_install():
    packages = set(CONTROL) - {"source"}
    assert packages == set(COMPONENTS)

    lists = [path for folder in ("handler", "scripts", "docs", "packaging")
             for path in (ROOT / folder).rglob("CMakeLists.txt")]
    named = {component for path in lists for component in re.findall(r"\bCOMPONENT (\w+)", path.read_text())}
    assert "nbdkit" in named
    assert named <= set(COMPONENTS.values())


@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="there is no build: run scripts/build")
def test_nothing_is_installed_that_is_in_no_package():
    installed = {component for path in BUILD.rglob("cmake_install.cmake")
                 for component in re.findall(r'CMAKE_INSTALL_COMPONENT STREQUAL "(\w+)"', path.read_text())}
    assert installed and installed <= set(COMPONENTS.values())


def test_the_spec_has_the_same_packages():
    components, = re.findall(r"^for component in (.*); do$", SPEC, re.MULTILINE)
    packages = {"iraid"} | {f"iraid-{name}" for name in re.findall(r"^%package (\S+)$", SPEC, re.MULTILINE)}
    assert packages == set(COMPONENTS)
    assert set(components.split()) == set(COMPONENTS.values())


def test_all_say_the_same_version():
    said = {
        "CMakeLists.txt": re.search(r"project\(iraid VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1],
        "debian/changelog": re.match(r"iraid \(([\d.]+)-", (ROOT / "debian/changelog").read_text())[1],
        "iraid.spec": re.search(r"global iraid_version ([\d.]+)", SPEC)[1],
        "iraidlib": iraidlib.__version__,
    }
    assert len(set(said.values())) == 1, said


def test_a_package_is_built_with_what_a_build_needs():
    text = (ROOT / "scripts/deps").read_text()
    needed = set(re.search(r"^build=\(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL)[1].split()) - NOT_ASKED_FOR
    assert needed <= names_in(CONTROL["source"]["Build-Depends"])


def imported(folder: Path) -> set[str]:
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"iraidlib"}


def test_packages_ask_for_the_python_modules_they_import():
    everything = imported(ROOT / "scripts/iraidlib")
    assert everything <= set(MODULES), "a module is new: name its package here and in debian/control"
    asked = names_in(CONTROL["iraid"]["Depends"]) | names_in(CONTROL["iraid-exporter"]["Depends"])
    assert {MODULES[name] for name in everything} <= asked
    assert {"python3-click", "python3-rich", "python3-rtslib-fb", "python3-dbus"} <= names_in(CONTROL["iraid"]["Depends"])


@pytest.mark.parametrize("unit", sorted(path.name.removesuffix(".in") for path in (ROOT / "config/systemd").iterdir()
                                        if path.is_file()))
def test_a_unit_is_installed(unit):
    assert unit in (ROOT / "scripts/CMakeLists.txt").read_text()


@pytest.mark.parametrize(("headers", "said"), [
    ("1.5.4-4.1", "tcmu-runner (>= 1.5.4), tcmu-runner (<< 1.6.3~)"),
    ("1.5.4 from /a-b/c", "tcmu-runner (>= 1.5.4), tcmu-runner (<< 1.6.3~)"),
    ("1.6.1", "tcmu-runner (>= 1.6.1), tcmu-runner (<< 1.6.3~)"),
    ("1.5.3-1", "tcmu-runner (>= 1.5.3), tcmu-runner (<< 1.5.4~)"),  # another struct tcmur_handler
    ("1.7.0-2", "tcmu-runner (>= 1.7.0), tcmu-runner (<< 1.7.1~)"),  # not compared yet
])
def test_a_handler_runs_in_runners_whose_interface_is_the_one_it_was_built_with(tmp_path, headers, said):
    (tmp_path / ".version").write_text(headers + "\n")
    done = subprocess.run([ROOT / "scripts/tcmu-requires", "--debian", tmp_path / ".version"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == said + "\n"


def test_maintainer_scripts_are_shell_that_parses():
    scripts = [path for path in (ROOT / "debian").iterdir() if path.suffix in (".postinst", ".prerm", ".postrm")]
    assert len(scripts) == 3
    for path in scripts:
        subprocess.run(["sh", "-n", path], check=True)
        assert "#DEBHELPER#" in path.read_text()
