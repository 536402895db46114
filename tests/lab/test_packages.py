"""The packages: built without a network, free of lintian's complaints, and used in a clean Debian.

IRAID_PACKAGES=DIR takes the packages that are there instead of building them (scripts/package), IRAID_SUITE=SUITE those
that were built in another release of Debian, and a clean Debian of that release (scripts/clean-debian --suite).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs import shown

from iraid_dev.lab.clean_debian import suite_or_own

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).with_name("guest")
QUICK_START = "docs/operating/quick-start.md"
ON_GATEWAYS = ("iraid", "iraid-exporter", "iraid-nbdkit-plugin")
NAMES = (*ON_GATEWAYS, "iraid-ansible")
# One end-to-end test of each kind, against what the package put into the system.
END_TO_END = ("tests/end_to_end/test_lio_export.py", "tests/end_to_end/test_identity.py")

_missing = [name for name in ("linux.uml", "dh", "lintian", "mmdebstrap") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(_missing), reason=f"{', '.join(_missing)} not installed; run scripts/deps --long"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: a clean Debian can't be made"),
    pytest.mark.timeout(1500),
]


def run(*words: str | Path, seconds: int = 1200, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


@dataclass(frozen=True)
class Packages:
    folder: Path

    def deb(self, name: str) -> Path:
        found = [path for path in self.folder.glob(f"{name}_*.deb")]
        assert len(found) == 1, f"{self.folder} has {found} of {name}"
        return found[0]

    def debs(self) -> list[Path]:
        return [self.deb(name) for name in ON_GATEWAYS]

    def field(self, name: str, field: str) -> str:
        return run("dpkg-deb", "--field", self.deb(name), field).strip()

    def files(self, name: str) -> dict[str, str]:
        """Path without the leading dot -> mode as ls shows it."""
        lines = run("dpkg-deb", "--contents", self.deb(name)).splitlines()
        return {words[5].removeprefix("."): words[0] for words in (line.split(None, 5) for line in lines)}


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    if given := os.environ.get("IRAID_PACKAGES"):
        return Packages(Path(given).resolve())
    folder = tmp_path_factory.mktemp("packages")
    headers = folder / "tcmu-headers"
    run("scripts/tcmu-headers", headers)
    # A build may take nothing from a network: it gets none, not even a loopback.
    run("unshare", "--net", "scripts/package", "deb", "--output", folder, "--headers", headers)
    return Packages(folder)


@pytest.fixture(scope="session")
def clean_debian(packages: Packages) -> Path:
    others = [f"--with={name}" for name in ("open-iscsi", "tgt")]
    suite = [f"--suite={name}"] if (name := os.environ.get("IRAID_SUITE")) else []
    return Path(run("scripts/clean-debian", *suite, *others, *packages.debs()).splitlines()[-1])


@pytest.fixture(scope="session")
def newer(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package iraid as a later version: the same files, another version."""
    folder = tmp_path_factory.mktemp("newer")
    tree = folder / "tree"
    run("dpkg-deb", "--raw-extract", packages.deb("iraid"), tree)
    control = tree / "DEBIAN/control"
    text, count = re.subn(r"^(Version: .*)$", r"\1+newer1", control.read_text(), flags=re.MULTILINE)
    assert count == 1
    control.write_text(text)
    run("dpkg-deb", "--build", "--root-owner-group", tree, folder / "iraid_newer.deb")
    shutil.rmtree(tree)
    return folder


def in_clean_debian(root: Path, state: Path, shown: list[Path], *words: str | Path) -> str:
    shows = [f"--show={path}" for path in (GUEST, *shown)]
    # What it writes is in three quarters of its memory: the system that is added, and 2 GiB of members.
    return run(
        "scripts/lab",
        "--systemd",
        "--root",
        root,
        "--memory",
        "6G",
        "--state",
        state,
        "--timeout",
        "900",
        *shows,
        "--",
        *words,
    )


def test_lintian_has_no_complaint(packages):
    changes = list(packages.folder.glob("iraid_*.changes"))
    assert len(changes) == 1
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "warning,error", changes[0]],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_versions_say_which_release_the_packages_are_for(packages):
    """The later release's are newer, also those with the same dependencies: an upgrade of Debian replaces them all."""
    suite = suite_or_own(os.environ.get("IRAID_SUITE"))
    (changes,) = packages.folder.glob("iraid_*.changes")
    assert f"\nDistribution: {suite}\n" in changes.read_text()
    (number,) = {packages.field(name, "Version").rpartition("~")[2] for name in NAMES}
    assert number == {"bookworm": "deb12u1", "trixie": "deb13u1"}[suite]


def test_no_file_is_in_two_packages(packages):
    seen = [path for name in NAMES for path, mode in packages.files(name).items() if not mode.startswith("d")]
    assert len(seen) == len(set(seen))


def test_each_package_has_what_it_is_for(packages):
    files = {name: packages.files(name) for name in NAMES}
    assert any(re.fullmatch(r"/usr/lib/[^/]+/tcmu-runner/handler_iraid\.so", path) for path in files["iraid"])
    assert any(path.endswith("/nbdkit-iraid-plugin.so") for path in files["iraid-nbdkit-plugin"])
    # Below /usr where debhelper looks for units there, so from Debian 13 on.
    units = [path for path in files["iraid-exporter"] if path.endswith("/lib/systemd/system/iraid-exporter.service")]
    assert units in (["/lib/systemd/system/iraid-exporter.service"], ["/usr/lib/systemd/system/iraid-exporter.service"])
    collection = "/usr/share/ansible/collections/ansible_collections/iraid/iraid"
    assert {f"{collection}/galaxy.yml", f"{collection}/playbooks/move.yml"} <= set(files["iraid-ansible"])
    assert files["iraid"]["/usr/libexec/iraid/iraid-look"] == "-rwxr-xr-x"
    for folder in ("volumes", "secrets"):
        assert files["iraid"][f"/etc/iraid/{folder}/"] == "drwx------"


def test_the_runner_is_of_a_version_whose_interface_is_known(packages):
    depends = packages.field("iraid", "Depends")
    assert re.search(r"tcmu-runner \(>= 1\.5\.4\), tcmu-runner \(<< 1\.6\.3~\)", depends), depends


@pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="rpmbuild is not installed; run scripts/deps --long")
def test_rpm_packages_hold_what_debian_s_do(packages, tmp_path):
    run("scripts/package", "rpm", "--output", tmp_path, "--headers", packages.folder / "tcmu-headers")

    for name in NAMES:
        (rpm,) = (path for path in tmp_path.glob(f"{name}-[0-9]*.rpm") if ".src." not in path.name)
        inside = set(run("rpm", "--query", "--list", "--package", rpm).split())
        wanted = {path for path, mode in packages.files(name).items() if not mode.startswith("d")}
        assert names_of(inside) >= names_of(wanted), name


def names_of(paths: set[str]) -> set[str]:
    """Names without what distributions do differently: compression, their own notes and hooks, where units are."""
    own = ("/usr/share/doc/", "/usr/share/lintian/", "/usr/share/python3/runtime.d/", "/usr/lib/.build-id")
    return {Path(path).name.removesuffix(".gz") for path in paths if not path.startswith(own)}


def test_the_scripts_keep_what_is_the_administrator_s_and_a_purge_leaves_no_trace(packages, newer, clean_debian):
    output = run(
        "unshare", "--mount", "--net", "--pid", "--fork", GUEST / "package-chroot", clean_debian, packages.folder, newer
    )
    assert "package-chroot: all as it must be" in output


def pages_typed() -> list[shown.Block]:
    """What the documentation wants typed in a clean Debian: the quick start whole, then what other pages have."""
    blocks = [block for page in shown.pages() for block in shown.blocks(page) if block.where == "clean"]
    return sorted(blocks, key=lambda block: block.page != QUICK_START)


def test_from_a_clean_debian_to_a_file_system_by_the_quick_start(packages, clean_debian, tmp_path, capsys):
    """Word for word, block after block, in one shell that ends at the first failure."""
    blocks = pages_typed()
    files = " ".join(map(str, packages.debs()))
    script = ["set -e", f"cp {files} /root/", "cd /root", "begin=$(cut -d. -f1 /proc/uptime)"]
    for block in blocks:
        script += [
            f"echo '+++ {block} {block.heading}'",
            block.text,
            'echo "+++ after $(($(cut -d. -f1 /proc/uptime) - begin)) s"',
        ]
    (tmp_path / "typed").write_text("\n".join(script))

    output = in_clean_debian(clean_debian, tmp_path / "state", [packages.folder, tmp_path], "bash", tmp_path / "typed")

    times = re.findall(r"^\+\+\+ (.*)$", output, re.MULTILINE)
    with capsys.disabled():
        print("\nquick start and other pages in a clean Debian (user-mode Linux):")
        for which, after in zip(times[0::2], times[1::2], strict=True):
            print(f"    {after:<14}{which}")
    assert len(times) == 2 * len(blocks)
    assert sum(block.page == QUICK_START for block in blocks) >= 5
    assert re.search(r"^/dev/\S+ .* /mnt$", output, re.MULTILINE), output[-4000:]


def test_installed_upgraded_removed_and_purged(packages, newer, clean_debian, tmp_path):
    begin = time.monotonic()
    output = in_clean_debian(
        clean_debian, tmp_path / "state", [packages.folder, newer], GUEST / "package-cycle", packages.folder, newer
    )
    assert "package-cycle: all as it must be" in output
    print(f"{time.monotonic() - begin:.0f} s")


def test_the_installed_package_passes_end_to_end_tests(packages):
    """In the lab's overlay of this machine, which has what the tests need."""
    install = f"dpkg --install --force-confnew {packages.deb('iraid')}"
    tests = f"/usr/bin/python3 -m pytest -p no:cacheprovider -q -rs {' '.join(END_TO_END)}"
    output = run(
        "scripts/lab",
        "--timeout",
        "900",
        "--env",
        "IRAID_BUILD_DIR=installed",
        "--",
        "sh",
        "-c",
        f"{install} && {tests}",
    )
    assert re.search(r"^\d+ passed", output, re.MULTILINE), output[-4000:]
