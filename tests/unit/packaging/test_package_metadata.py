"""debian/ and the spec against what CMake installs and the code uses: what is new is in a package, and a package
asks for what its files need.  The packages themselves: tests/lab/test_packages.py.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import iraid
from iraid_dev.places import ROOT

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
RULES = (ROOT / "debian/rules").read_text()
SPEC = (ROOT / "packaging/rpm/iraid.spec").read_text()
COLLECTION = ROOT / "packaging/ansible/ansible_collections/iraid/iraid"
COMPONENTS = dict(re.findall(r"^component_(\S+) := (\S+)$", RULES, re.MULTILINE))  # package -> component
# Modules that are not Python's own, and Debian's names of them.
MODULES = {
    "click": "python3-click",
    "rich": "python3-rich",
    "rtslib_fb": "python3-rtslib-fb",
    "dbus": "python3-dbus",
    "prometheus_client": "python3-prometheus-client",
}
# Of the build tools, what is part of every Debian build, and what the tests alone need.
NOT_ASKED_FOR = {"build-essential", "ca-certificates", "dpkg-dev", "xz-utils"}


def stanzas() -> dict[str, dict[str, str]]:
    """Package (the source too) -> its fields, as debian/control has them."""
    found = {}
    for text in (ROOT / "debian/control").read_text().split("\n\n"):
        fields = {
            name: " ".join(value.split())
            for name, value in re.findall(r"^([A-Z][A-Za-z-]*):((?:.*\n?)(?:^ .*\n?)*)", text, re.MULTILINE)
        }
        found["source" if "Source" in fields else fields["Package"]] = fields
    return found


def names_in(relations: str) -> set[str]:
    """Package names of a field such as "a (>= 1), b | c <!nocheck>"."""
    return {re.split(r"[\s(:<]", one.strip())[0] for one in re.split(r"[,|]", relations) if one.strip()}


CONTROL = stanzas()


def test_every_package_is_a_component_of_cmake_s_install():
    packages = set(CONTROL) - {"source"}
    assert packages == set(COMPONENTS)

    lists = [
        path
        for folder in ("handler", "scripts", "docs", "packaging")
        for path in (ROOT / folder).rglob("CMakeLists.txt")
    ]
    named = {component for path in lists for component in re.findall(r"\bCOMPONENT (\w+)", path.read_text())}
    assert "nbdkit" in named
    assert named <= set(COMPONENTS.values())


@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="there is no build: run scripts/build")
def test_nothing_is_installed_that_is_in_no_package():
    installed = {
        component
        for path in BUILD.rglob("cmake_install.cmake")
        for component in re.findall(r'CMAKE_INSTALL_COMPONENT STREQUAL "(\w+)"', path.read_text())
    }
    assert installed and installed <= set(COMPONENTS.values())


@pytest.mark.skipif(
    not (BUILD / "handler/adapters/iraid-engine").exists(), reason="there is no build: run scripts/build"
)
def test_the_look_at_foreign_bytes_is_installed_where_it_is_looked_for():
    """And what serves volumes has no libblkid in it."""
    text = (BUILD / "handler/adapters/cmake_install.cmake").read_text()
    installed = re.search(r'DESTINATION "\$\{CMAKE_INSTALL_PREFIX\}/(\S+)" .*/iraid-look"\)', text)[1]
    engine = (BUILD / "handler/adapters/iraid-engine").read_bytes()
    prefix = re.search(r'set\(CMAKE_INSTALL_PREFIX "(\S+)"\)', text)[1]
    assert f"{prefix}/{installed}\0".encode() in engine
    assert b"libblkid" not in engine


def test_the_spec_has_the_same_packages():
    (components,) = re.findall(r"^for component in (.*); do$", SPEC, re.MULTILINE)
    packages = {"iraid"} | {f"iraid-{name}" for name in re.findall(r"^%package (\S+)$", SPEC, re.MULTILINE)}
    assert packages == set(COMPONENTS)
    assert set(components.split()) == set(COMPONENTS.values())


def test_all_say_the_same_version():
    said = {
        "CMakeLists.txt": re.search(r"project\(iraid VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1],
        "debian/changelog": re.match(r"iraid \(([\d.]+)-", (ROOT / "debian/changelog").read_text())[1],
        "iraid.spec": re.search(r"global iraid_version ([\d.]+)", SPEC)[1],
        "iraid": iraid.__version__,
        "galaxy.yml": yaml.safe_load((COLLECTION / "galaxy.yml").read_text())["version"],
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
    return names - set(sys.stdlib_module_names) - {"iraid"}


def test_packages_ask_for_the_python_modules_they_import():
    everything = imported(ROOT / "python/iraid")
    assert everything <= set(MODULES), "a module is new: name its package here and in debian/control"
    asked = names_in(CONTROL["iraid"]["Depends"]) | names_in(CONTROL["iraid-exporter"]["Depends"])
    assert {MODULES[name] for name in everything} <= asked
    assert {"python3-click", "python3-rich", "python3-rtslib-fb", "python3-dbus"} <= names_in(
        CONTROL["iraid"]["Depends"]
    )


@pytest.mark.parametrize(
    "path",
    sorted(
        path.relative_to(ROOT)
        for folder in ("systemd", "tmpfiles.d", "sysusers.d", "dbus-1")
        for path in (ROOT / "config" / folder).iterdir()
        if path.is_file()
    ),
    ids=str,
)
def test_what_other_services_read_is_installed(path):
    assert str(path).removesuffix(".in") in (ROOT / "scripts/CMakeLists.txt").read_text()


@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="there is no build: run scripts/build")
def test_tmpfiles_d_makes_the_folders_that_lio_lacks(tmp_path):
    if shutil.which("systemd-tmpfiles") is None or os.geteuid() != 0:
        pytest.skip("systemd-tmpfiles is not installed, or this is not root")
    (tmp_path / "etc/rtslib-fb-target").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    made = BUILD / "scripts/iraid-tmpfiles.conf"
    subprocess.run(["systemd-tmpfiles", f"--root={tmp_path}", "--create", made], check=True, timeout=60)
    for folder in ("etc/rtslib-fb-target/pr", "etc/rtslib-fb-target/alua", "var/target/pr", "var/target/alua"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


def test_sysusers_d_makes_the_group_that_the_handler_looks_for(tmp_path):
    if shutil.which("systemd-sysusers") is None or os.geteuid() != 0:
        pytest.skip("systemd-sysusers is not installed, or this is not root")
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group", "shadow", "gshadow"):
        (tmp_path / "etc" / name).touch()
    made = ROOT / "config/sysusers.d/iraid.conf"
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", made], check=True, timeout=60)
    assert re.match(r"iraid-monitor:x:\d+:", (tmp_path / "etc/group").read_text())
    assert '"iraid-monitor"' in (ROOT / "handler/adapters/config/config.c").read_text()
    assert "SupplementaryGroups=iraid-monitor\n" in (ROOT / "config/systemd/iraid-exporter.service.in").read_text()


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ("1.5.4-4.1", "tcmu-runner (>= 1.5.4), tcmu-runner (<< 1.6.3~)"),
        ("1.5.4 from /a-b/c", "tcmu-runner (>= 1.5.4), tcmu-runner (<< 1.6.3~)"),
        ("1.6.1", "tcmu-runner (>= 1.6.1), tcmu-runner (<< 1.6.3~)"),
        ("1.5.3-1", "tcmu-runner (>= 1.5.3), tcmu-runner (<< 1.5.4~)"),  # another struct tcmur_handler
        ("1.7.0-2", "tcmu-runner (>= 1.7.0), tcmu-runner (<< 1.7.1~)"),  # not compared yet
    ],
)
def test_a_handler_runs_in_runners_whose_interface_is_the_one_it_was_built_with(tmp_path, headers, said):
    (tmp_path / ".version").write_text(headers + "\n")
    done = subprocess.run(
        [ROOT / "scripts/tcmu-requires", "--debian", tmp_path / ".version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == said + "\n"


def test_maintainer_scripts_are_shell_that_parses():
    scripts = [path for path in (ROOT / "debian").iterdir() if path.suffix in (".postinst", ".prerm", ".postrm")]
    assert len(scripts) == 3
    for path in scripts:
        subprocess.run(["sh", "-n", path], check=True)
        assert "#DEBHELPER#" in path.read_text()


# --- what the scripts of both do, on a machine that is a folder ---

PREVIOUS = "run/systemd/system/tcmu-runner.service.d/iraid-previous-handler.conf"
DEBIAN = {
    "post": ("postinst", {1: ["configure", ""], 2: ["configure", "0.0.9"]}),
    "preun": ("prerm", {0: ["remove"]}),
    "postun": ("postrm", {0: ["remove"]}),
}


def scriptlet(when: str, package: str = "") -> str:
    """Of the spec, as rpm would run it."""
    head = f"%{when} {package}".strip()
    found = re.search(rf"^{head}\n(.*?)^%(?:post|preun|postun|files)\b", SPEC, re.MULTILINE | re.DOTALL)
    assert found, f"the spec has no {head}"
    return found[1].replace("%%", "%").replace("%{_libexecdir}", "/usr/libexec")


class Machine:
    """systemctl and upgrade-runner are noted in `did`; `active` and `enabled` are units."""

    def __init__(self, root: Path, active: str = "", enabled: str = "", luns: str = ""):
        self.root, self.notes = root, root / "notes"
        for folder in ("bin", "usr/libexec/iraid", Path(PREVIOUS).parent, "sys/kernel/config/target/core"):
            (root / folder).mkdir(parents=True)
        (root / PREVIOUS).touch()
        self.notes.touch()
        if luns:
            lun = root / f"sys/kernel/config/target/core/user_0/{luns}"
            lun.mkdir(parents=True)
            (lun / "info").write_text(f"Status: ACTIVATED\n        Config: iraid/{luns} Size: 1\n")
        says = {"bin/systemd-sysusers": 'sysusers "$@"', "usr/libexec/iraid/upgrade-runner": "upgrade-runner"}
        for name in (
            "bin/systemctl",
            "bin/deb-systemd-invoke",
            "bin/systemd-sysusers",
            "usr/libexec/iraid/upgrade-runner",
        ):
            (root / name).write_text(f"""#!/bin/sh
for unit; do :; done
case $1 in
is-active) case " {active} " in *" $unit "*) exit 0 ;; esac; exit 3 ;;
is-enabled) case " {enabled} " in *" $unit "*) exit 0 ;; esac; exit 1 ;;
esac
echo {says.get(name, '"$@"')} | sed 's/--no-reload //; s/[.]service//g' >>{self.notes}
""")
            (root / name).chmod(0o755)

    def run(self, text: str, words: list[str]) -> subprocess.CompletedProcess[str]:
        for folder in ("/run/systemd", "/sys/kernel", "/usr/libexec"):
            text = text.replace(folder, f"{self.root}{folder}")
        script = self.root / "script"
        script.write_text(text)
        return subprocess.run(
            ["sh", script, *words],
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin"},
            text=True,
            capture_output=True,
            check=False,
        )

    def did(self, *verbs: str) -> list[str]:
        return [line for line in self.notes.read_text().splitlines() if line.split()[0] in verbs]


def runs(machine: Machine, kind: str, when: str, count: int) -> subprocess.CompletedProcess[str]:
    """The package's script; count: rpm's argument, of packages that are there afterwards."""
    if kind == "rpm":
        return machine.run(scriptlet(when), [str(count)])
    suffix, words = DEBIAN[when]
    return machine.run((ROOT / f"debian/iraid.{suffix}").read_text(), words[count])


@pytest.mark.parametrize("kind", ["deb", "rpm"])
@pytest.mark.parametrize(
    ("count", "state", "expected", "previous"),
    [
        (1, {}, [], False),
        (1, {"enabled": "tcmu-runner.service"}, ["start tcmu-runner"], False),
        (1, {"active": "tcmu-runner.service"}, ["restart tcmu-runner"], False),
        (2, {"active": "tcmu-runner.service"}, ["restart tcmu-runner"], False),
        (1, {"active": "tcmu-runner.service", "luns": "v0"}, [], True),
        (2, {"active": "tcmu-runner.service", "luns": "v0"}, ["upgrade-runner"], True),  # which forgets it itself
    ],
)
def test_a_package_that_is_installed_loads_its_handler(tmp_path, kind, count, state, expected, previous):
    machine = Machine(tmp_path, **state)
    done = runs(machine, kind, "post", count)
    assert done.returncode == 0
    assert machine.did("start", "restart", "upgrade-runner") == expected
    assert machine.did("sysusers", "start", "restart", "upgrade-runner") == ["sysusers iraid.conf", *expected]
    assert (tmp_path / PREVIOUS).exists() == previous
    assert ("was not restarted" in done.stderr) == (not expected and bool(state))


@pytest.mark.parametrize("kind", ["deb", "rpm"])
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, []),
        ({"active": "tcmu-runner.service"}, ["restart tcmu-runner"]),
        ({"active": "tcmu-runner.service", "luns": "other"}, []),
    ],
)
def test_a_package_that_is_removed_leaves_no_way_to_the_previous_handler(tmp_path, kind, state, expected):
    machine = Machine(tmp_path, **state)
    assert runs(machine, kind, "postun", 0).returncode == 0
    assert machine.did("start", "restart") == expected and not (tmp_path / PREVIOUS).exists()


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_a_package_whose_volumes_are_exported_is_not_removed(tmp_path, kind):
    exported = runs(Machine(tmp_path / "exported", luns="v0"), kind, "preun", 0)
    assert exported.returncode == 1 and "initiators: v0" in exported.stderr and "remedy" in exported.stderr
    assert runs(Machine(tmp_path / "free"), kind, "preun", 0).returncode == 0


def test_an_rpm_upgrade_restarts_the_services_that_run_and_keeps_the_way_back(tmp_path):
    machine = Machine(tmp_path)
    assert machine.run(scriptlet("post"), ["2"]).returncode == 0
    assert machine.run(scriptlet("post", "exporter"), ["2"]).returncode == 0
    assert machine.did("try-restart") == ["try-restart iraid-monitor iraid-scrub.timer", "try-restart iraid-exporter"]
    (tmp_path / PREVIOUS).touch()
    assert machine.run(scriptlet("postun"), ["1"]).returncode == 0  # of the old package, after the new one's
    assert machine.run(scriptlet("preun", "exporter"), ["1"]).returncode == 0
    assert (tmp_path / PREVIOUS).exists() and machine.did("disable", "restart", "start") == []


def test_an_rpm_that_is_installed_starts_what_the_distribution_enables_and_a_removal_stops_it(tmp_path):
    machine = Machine(tmp_path, enabled="iraid-exporter.service iraid-scrub.timer")
    for package in ("", "exporter"):
        assert machine.run(scriptlet("post", package), ["1"]).returncode == 0
        assert machine.run(scriptlet("preun", package), ["0"]).returncode == 0
        assert machine.run(scriptlet("postun", package), ["0"]).returncode == 0
    assert machine.did("preset", "start") == [
        "preset iraid-scrub.timer",
        "start iraid-scrub.timer",
        "preset iraid-exporter",
        "start iraid-exporter",
    ]
    assert machine.did("disable") == [
        "disable --now iraid-scrub.timer iraid-scrub iraid-monitor",
        "disable --now iraid-exporter",
    ]


@pytest.mark.skipif(shutil.which("rpmspec") is None, reason="rpmspec is not installed; run scripts/deps --long")
def test_rpm_reads_the_spec(tmp_path):
    done = subprocess.run(
        ["rpmspec", "--parse", ROOT / "packaging/rpm/iraid.spec"], text=True, capture_output=True, check=True
    )
    assert "-printf '%f '" in done.stdout and "%{_libexecdir}" not in done.stdout


# --- two releases of Debian ---


@pytest.mark.parametrize(
    ("debhelper", "folder"),
    [
        ("13.11.4", "/lib/systemd/system"),  # Debian 12
        ("13.11.6~bpo12+1", "/usr/lib/systemd/system"),
        ("13.24.2", "/usr/lib/systemd/system"),  # Debian 13
    ],
)
@pytest.mark.skipif(not Path("/usr/share/dpkg/architecture.mk").exists(), reason="dpkg-dev is not installed")
def test_units_are_where_this_debhelper_looks_for_them(tmp_path, debhelper, folder):
    said = tmp_path / "dpkg-query"
    said.write_text(f"#!/bin/sh\nprintf %s '{debhelper}'\n")
    said.chmod(0o755)
    show = "shown: ; @echo $(unit_folder)"
    done = subprocess.run(
        ["make", "--silent", "--file", "debian/rules", f"--eval={show}", "shown"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stdout.split() == [folder]
    assert "-DIRAID_UNITDIR=$(unit_folder)" in RULES
