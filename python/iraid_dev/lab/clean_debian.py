"""A clean Debian in a folder, and beside it, in it, all that given packages need.

What the smallest installation has (priority "required" and "important", systemd as init) and python3, which
Debian's installer adds unless told not to and which takes a guest minutes to unpack and compile; and in
/srv/repository an apt repository with what the given packages depend on and recommend, which is the only source in
/etc/apt: so `apt install ./PACKAGE.deb` works inside as it does for a user, without a network.  With --next SUITE
there is also, in /srv/next, all that `apt full-upgrade` to that release then wants.  All comes from the repositories
that this machine's apt is set up with, in the way it is set up to reach them; of another suite than this machine's,
from the same repositories under that suite's name, as far as they have it.

The folder is kept, and made anew only when what it is made of changes: this file, the sources, or
what the packages ask for.  The packages themselves are in it with --install only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .run import LabError, cache_directory

SUITES = ("bookworm", "trixie")  # releases of Debian that iraid is made for
REPOSITORY = "srv/repository"
NEXT_REPOSITORY = "srv/next"
APT_HELPER = "/usr/lib/apt/apt-helper"
RELATIONS = "${Depends}|${Pre-Depends}|${Recommends}\n"
KEEP_SECONDS = 24 * 3600  # others' folders that were not asked for so long
# What of this machine's apt settings the way to its repositories may depend on.
APT_OPTIONS = re.compile(r"^Acquire::(Check-|Retries|https?::)")
# Downloads, in the new system and with its package lists, what would be installed.
DOWNLOAD = """\
set -e
mkdir "$1/tmp/packages" "$1/srv/repository"
cp -- $DEBS "$1/tmp/packages/" 2>/dev/null || [ -z "$DEBS" ]
local=
for deb in $DEBS; do local="$local /tmp/packages/${deb##*/}"; done
[ -z "$local$WITH" ] || chroot "$1" apt-get -q -y --download-only install $local $WITH
mv "$1"/var/cache/apt/archives/*.deb "$1/srv/repository/" 2>/dev/null || true
rm -r "$1/tmp/packages"
"""
DOWNLOAD_NEXT = Path(__file__).with_name("download-next")


def say(text: str) -> None:
    print(f"clean-debian: {text}", file=sys.stderr, flush=True)


def output_of(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"'{' '.join(words)}' failed: {done.stderr.strip()[-400:]}")
    return done.stdout


def code_name() -> str:
    text = Path("/etc/os-release").read_text()
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', text, re.MULTILINE)
    if not found or not re.search(r"^ID=debian$", text, re.MULTILINE):
        raise LabError(
            "this machine is no release of Debian (/etc/os-release): it has no sources to make a clean one from"
        )
    return found[1]


def suite_or_own(given: str | None) -> str:
    """The suite that was asked for; without one this machine's."""
    if given is None:
        return code_name()
    if given not in SUITES:
        raise LabError(f"unknown suite '{given}': known are {', '.join(SUITES)}")
    return given


def apt_sources(suite: str) -> list[str]:
    """Lines of a sources.list: what this machine has of the suite, else what it has of its own, with the suite's name."""
    text = output_of(
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)",
        "Created-By: Packages",
    )
    if lines := lines_of(text, suite, suite):
        return lines
    own = code_name()
    if lines := lines_of(text, own, suite):
        return lines
    raise LabError(f"apt has no package lists of {own}: run apt-get update as root")


def lines_of(targets: str, release_of: str, suite: str) -> list[str]:
    """Of apt's targets those of one release and its updates, as those of the suite."""
    lines = set()
    for line in targets.splitlines():
        uri, release, component, *key = line.split()
        if release == release_of or release.startswith(f"{release_of}-"):
            signed = f"[signed-by={key[0]}] " if key and key[0].startswith("/") else ""
            lines.add(f"deb {signed}{uri} {suite}{release.removeprefix(release_of)} {component}")
    return sorted(lines)


def served_sources(suite: str) -> list[str]:
    """The same, without repositories that do not have the suite: they are asked if it is not this machine's own."""
    lines = apt_sources(suite)
    if suite == code_name():
        return lines
    served = [line for line in lines if is_served(line)]
    if not any(line.split()[-2] == suite for line in served):
        raise LabError(f"no repository of this machine's apt has the suite {suite}: {'; '.join(lines)}")
    for line in lines:
        if line not in served:
            say(f"not served, left out: {line}")
    return served


def is_served(line: str) -> bool:
    """Whether apt, in the way it is set up, gets what a repository says of the suite."""
    uri, suite, _component = line.split()[-3:]
    with tempfile.TemporaryDirectory() as folder:
        words = [APT_HELPER, "download-file", f"{uri.rstrip('/')}/dists/{suite}/InRelease", f"{folder}/InRelease"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0


def apt_options() -> list[str]:
    return [line for line in output_of("apt-config", "dump").splitlines() if APT_OPTIONS.match(line)]


class CleanDebian:
    def __init__(
        self,
        debs: list[Path],
        others: list[str],
        suite: str | None = None,
        next_suite: str | None = None,
        next_debs: list[Path] | None = None,
        installed: bool = False,
    ):
        self.debs = [deb.resolve() for deb in debs]
        self.next_suite = suite_or_own(next_suite) if next_suite else None
        self.next_debs = [deb.resolve() for deb in next_debs or []]
        self.installed = installed
        self.others = sorted(others)
        self.suite = suite_or_own(suite)
        self.sources = apt_sources(self.suite)
        self.folder = cache_directory() / "debian" / self._key()
        self.root = self.folder / "root"

    def _key(self) -> str:
        debs = (*self.debs, *self.next_debs)
        relations = [output_of("dpkg-deb", "--show", f"--showformat={RELATIONS}", str(deb)) for deb in debs]
        if self.installed:
            relations += [hashlib.sha256(deb.read_bytes()).hexdigest() for deb in self.debs]
        suites = [self.suite, self.next_suite or ""]
        made_of = [
            Path(__file__).read_text(),
            DOWNLOAD_NEXT.read_text(),
            *suites,
            *self.sources,
            *self.others,
            *sorted(relations),
        ]
        return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]

    def get(self) -> Path:
        """The root folder; made if it is not there."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._remove_old()
            if not (self.folder / "complete").exists():
                self._make()
            os.utime(self.folder)
        return self.root

    def _remove_old(self) -> None:
        for other in self.folder.parent.iterdir():
            if other.is_dir() and other != self.folder and time.time() - other.stat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(other)

    def _make(self) -> None:
        if os.geteuid() != 0:
            raise LabError("to make a Debian needs root: run scripts/clean-debian as root once")
        if shutil.which("mmdebstrap") is None:
            raise LabError("mmdebstrap is not installed; run scripts/deps --long, or apt-get install mmdebstrap")
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir()
        sources = served_sources(self.suite)
        say(f"making a small Debian {self.suite}")
        with tempfile.TemporaryDirectory() as work:
            self._run_mmdebstrap(Path(work), sources)
        say("making its repository")
        self._make_repository()
        if self.next_suite:
            say(f"downloading an upgrade to {self.next_suite}")
            self._make_next_repository(self.next_suite)
        if self.installed:
            say("installing the packages")
            self._install()
        (self.folder / "complete").touch()

    def _run_mmdebstrap(self, work: Path, lines: list[str]) -> None:
        options, sources, hook = work / "apt.conf", work / "sources.list", work / "download"
        options.write_text("\n".join(apt_options()) + "\n")
        sources.write_text("\n".join(lines) + "\n")
        hook.write_text("#!/bin/sh\n" + DOWNLOAD)
        hook.chmod(0o755)
        log = self.folder / "mmdebstrap.log"
        with log.open("w") as file:
            status = subprocess.run(
                [
                    "mmdebstrap",
                    "--mode=root",
                    "--variant=important",
                    "--include=python3",
                    f"--aptopt={options}",
                    f"--customize-hook={hook}",
                    self.suite,
                    str(self.root),
                    str(sources),
                ],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                env=os.environ | {"DEBS": " ".join(map(str, self.debs)), "WITH": " ".join(self.others)},
            ).returncode
        if status != 0:
            raise LabError(f"mmdebstrap ended with status {status}: {log.read_text()[-1500:]}\nthe whole log is {log}")

    def _make_repository(self) -> None:
        apt = self.root / "etc/apt"
        for path in (*apt.glob("sources.list.d/*"), *apt.glob("apt.conf.d/99mmdebstrap")):
            path.unlink()
        (apt / "sources.list").write_text(f"deb [trusted=yes] file:/{REPOSITORY} ./\n")
        for name in ("resolv.conf", "hostname"):
            (self.root / "etc" / name).unlink(missing_ok=True)
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 lab\n::1 localhost ip6-localhost\n")
        index_packages(self.root / REPOSITORY)
        subprocess.run(["chroot", str(self.root), "apt-get", "-qq", "update"], check=True)

    def _make_next_repository(self, suite: str) -> None:
        work = self.folder / "next"
        work.mkdir()
        (work / "apt.conf").write_text("\n".join(apt_options()) + "\n")
        (work / "sources.list").write_text("\n".join(served_sources(suite)) + "\n")
        log = self.folder / "next.log"
        environment = {
            "DEBS": " ".join(map(str, self.debs)),
            "WITH": " ".join(self.others),
            "NEXT_DEBS": " ".join(map(str, self.next_debs)),
        }
        with log.open("w") as file:
            status = subprocess.run(
                ["unshare", "--mount", "--pid", "--fork", str(DOWNLOAD_NEXT), str(self.root), str(work)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                env=os.environ | environment,
            ).returncode
        if status != 0:
            raise LabError(
                f"no upgrade to {suite} (status {status}): {log.read_text()[-1500:]}\nthe whole log is {log}"
            )
        shutil.rmtree(work)
        index_packages(self.root / NEXT_REPOSITORY)

    def _install(self) -> None:
        """As in an installer: nothing is started, what is enabled starts with the system."""
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        packages = self.root / "root/packages"
        packages.mkdir()
        for deb in self.debs:
            shutil.copy(deb, packages)
        inside = [f"/root/packages/{deb.name}" for deb in self.debs]
        log = self.folder / "install.log"
        with log.open("w") as file:
            status = subprocess.run(
                ["unshare", "--mount", "--pid", "--fork", "chroot", str(self.root), "apt-get", "-q", "-y", "install"]
                + self.others
                + inside,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            ).returncode
        if status != 0:
            raise LabError(f"not installed (status {status}): {log.read_text()[-1500:]}\nthe whole log is {log}")
        shutil.rmtree(packages)
        policy.unlink()


def index_packages(folder: Path) -> None:
    """What apt asks a repository for that is a folder."""
    with (folder / "Packages").open("w") as index:
        subprocess.run(
            ["dpkg-scanpackages", "--multiversion", "."],
            cwd=folder,
            check=True,
            stdout=index,
            stderr=subprocess.DEVNULL,
        )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/clean-debian",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Makes a clean Debian for scripts/lab --root, with a repository of the packages that the\n"
        "given packages need, and prints its folder.  The first run takes minutes; later runs reuse it.",
        epilog="example:\n"
        "  scripts/package\n"
        "  root=$(scripts/clean-debian --with open-iscsi build-packages/*.deb)\n"
        '  scripts/lab --systemd --root "$root" --share build-packages -- \\\n'
        "      sh -c 'cd /.../build-packages && apt install -y ./iraid_*.deb && iraid version'\n",
    )
    parser.add_argument(
        "--with",
        dest="others",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="add this package and its dependencies to the repository; repeatable",
    )
    parser.add_argument(
        "--suite", metavar="NAME", help=f"release of Debian: {' or '.join(SUITES)} [this machine's own]"
    )
    parser.add_argument(
        "--next",
        metavar="NAME",
        help="a later release: what an upgrade to it takes is in a repository too, /srv/next",
    )
    parser.add_argument(
        "--next-deb",
        dest="next_debs",
        action="append",
        default=[],
        type=Path,
        metavar="DEB",
        help="the packages of that release, as they will be installed by the upgrade; repeatable",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="install the packages in it, and those of --with, which takes a guest minutes",
    )
    parser.add_argument("debs", nargs="*", type=Path, metavar="DEB", help="packages that will be installed in it")
    given = parser.parse_args(words)
    if given.next_debs and not given.next:
        parser.error("--next-deb means something with --next SUITE only")
    for deb in (*given.debs, *given.next_debs):
        if not deb.is_file():
            parser.error(f"{deb} is no file; scripts/package makes packages")
        if " " in str(deb.resolve()):
            parser.error(f"the path '{deb.resolve()}' has a blank in it; put the package somewhere else")
    try:
        print(CleanDebian(given.debs, given.others, given.suite, given.next, given.next_debs, given.install).get())
    except LabError as error:
        say(str(error))
        return 1
    return 0
