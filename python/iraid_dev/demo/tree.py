"""A source tree on the volume: copied, listed with checksums, compiled, and a program of it run.

    TREE/iraid      this repository
    TREE/include    the C library's, the kernel's, isa-l's and cmocka's headers of this machine
    TREE/build      what is compiled

The compiler is told to take no header from anywhere but TREE (and its own), and it works without
optimising: it is the disk that is shown, and every process costs in user-mode Linux.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.places import ROOT
from iraid_dev.stack.tools import PATIENCE, StackError, run
from iraid_dev.steps.progress import Progress

HEADER_PACKAGES = re.compile(r"(libc6|linux-libc|libstdc\+\+-\d+|libisal|libcmocka)-dev(:\w+)?")
LEFT_OUT = re.compile(r"(build.*|\.(git|lab|hypothesis|pytest_cache)|__pycache__)")
COMPILE_SECONDS_MAX = 240 * PATIENCE
SHOWN_EVERY = 8  # files
TESTS = ("test_geometry", "test_parity", "test_layout", "test_plan")

MAKEFILE = """\
SOURCE := ../iraid
CFLAGS := -O0 -D_GNU_SOURCE -nostdinc -isystem {compiler} -isystem ../include/{machine} \\
	-isystem ../include -I$(SOURCE)/handler
LIBRARY := $(foreach layer,pure state engine/*,$(wildcard $(SOURCE)/handler/$(layer)/*.c))
OBJECTS := $(patsubst $(SOURCE)/handler/%.c,%.o,$(LIBRARY))
TESTS := {tests}

all: $(TESTS)
libengine.a: $(OBJECTS)
	@$(AR) cr $@ $^
$(TESTS): %: %.o libengine.a
	@echo $@
	@$(CC) -o $@ $^ -lisal -lcmocka
$(OBJECTS): %.o: $(SOURCE)/handler/%.c
	@echo $<
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -c -o $@ $<
%.o: $(SOURCE)/tests/unit/pure/%.c
	@echo $<
	@$(CC) $(CFLAGS) -c -o $@ $<
"""


@dataclass(frozen=True)
class Manifest:
    sums: dict[str, str]
    total_bytes: int

    def difference(self, other: Manifest) -> str:
        """Empty when both have the same files with the same contents."""
        names = sorted(set(self.sums) | set(other.sums))
        differing = [name for name in names if self.sums.get(name) != other.sums.get(name)]
        if not differing:
            return ""
        return f"{len(differing)} of {len(names)} files differ, the first is {differing[0]}"


def _repository_files() -> Iterator[tuple[Path, str]]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not LEFT_OUT.fullmatch(name)]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path, f"iraid/{path.relative_to(ROOT)}"


def _header_files() -> Iterator[tuple[Path, str]]:
    installed = run("dpkg-query", "-W", "-f", "${binary:Package}\\n").split()
    packages = [name for name in installed if HEADER_PACKAGES.fullmatch(name)]
    for line in run("dpkg-query", "-L", *packages).splitlines():
        if line.startswith("/usr/include/") and (path := Path(line)).is_file():
            yield path, f"include/{path.relative_to('/usr/include')}"


def copy(target: Path) -> Manifest:
    """Copies the tree.  Returns the checksums of the originals."""
    sums, total_bytes = {}, 0
    for path, name in [*_repository_files(), *_header_files()]:
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
        data = path.read_bytes()
        sums[name] = hashlib.sha256(data).hexdigest()
        total_bytes += len(data)
    return Manifest(sums, total_bytes)


def read_all(target: Path) -> Manifest:
    """Checksums of what is on the disk now."""
    sums, total_bytes = {}, 0
    for top in ("iraid", "include"):
        for path in (target / top).rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                sums[str(path.relative_to(target))] = hashlib.sha256(data).hexdigest()
                total_bytes += len(data)
    return Manifest(sums, total_bytes)


def compile_tests(target: Path, progress: Progress) -> int:
    """Engine library and unit tests, from the volume to the volume.  Returns how many sources."""
    build = target / "build"
    build.mkdir()
    compiler = run("gcc", "-print-file-name=include").strip()
    machine = run("gcc", "-print-multiarch").strip()
    (build / "Makefile").write_text(MAKEFILE.format(compiler=compiler, machine=machine, tests=" ".join(TESTS)))
    make = subprocess.Popen(
        ["timeout", str(COMPILE_SECONDS_MAX), "make", "-C", str(build), "CC=gcc"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert make.stdout is not None
    output, sources = [], 0
    for line in make.stdout:
        output.append(line)
        if line.strip().endswith(".c"):
            sources += 1
            if sources % SHOWN_EVERY == 0:
                progress.say(f"{sources} compiled, now {Path(line.strip()).name}")
    if make.wait() != 0:
        raise StackError(f"make ended with status {make.returncode}:\n{''.join(output[-20:])}")
    return sources


def run_tests(target: Path) -> int:
    """Runs the compiled unit tests from the volume.  Returns how many tests passed."""
    passed = 0
    for name in TESTS:
        program = target / "build" / name
        done = subprocess.run(
            [program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120 * PATIENCE,
            check=False,
        )
        counted = re.search(r"PASSED\s*\]\s*(\d+) test", done.stdout)
        if done.returncode != 0 or not counted:
            raise StackError(f"{name}, compiled on the volume: status {done.returncode}\n{done.stdout[-1500:]}")
        passed += int(counted[1])
    return passed
