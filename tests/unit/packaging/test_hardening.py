"""What was built has what makes a mistake in C harder to exploit: handler/hardening.cmake.

Looked up in the built objects, not in the build's files, by binutils.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from iraid_dev.stack.private_gateway import SANITIZED, build_folder

PROGRAMS = ["iraid-engine", "iraid-look"]
LOADED = ["handler_iraid.so", "nbdkit-iraid-plugin.so", "iraid-cdb-length.so"]
BUILT = PROGRAMS + LOADED
COMPILED_WITH = ["-fstack-protector-strong", "-fstack-clash-protection"] + {
    "x86_64": ["-fcf-protection=full"],
    "aarch64": ["-mbranch-protection=standard"],
}.get(platform.machine(), [])


def built(name: str) -> Path:
    path = build_folder() / "handler/adapters" / name
    assert path.exists(), f"{path} is not there: run scripts/build"
    return path


def readelf(name: str, *options: str) -> str:
    return subprocess.run(
        ["readelf", "--wide", *options, built(name)], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("name", BUILT)
def test_it_can_be_loaded_anywhere(name):
    """A program is a shared object to the loader: its address is one of chance."""
    assert re.search(r"Type:\s+DYN ", readelf(name, "--file-header"))


@pytest.mark.parametrize("name", BUILT)
def test_addresses_of_functions_are_read_only_once_it_runs(name):
    """Full RELRO: a segment that becomes read-only, and all functions looked up before that."""
    assert " GNU_RELRO " in readelf(name, "--program-headers")
    assert re.search(r"BIND_NOW|Flags:.*\bNOW\b", readelf(name, "--dynamic"))


@pytest.mark.parametrize("name", BUILT)
def test_no_segment_can_be_written_and_executed(name):
    segments = re.findall(
        r"^\s+(\w+)\s+0x\w+ 0x\w+ 0x\w+ 0x\w+ 0x\w+ ([R ][W ][E ])", readelf(name, "--program-headers"), re.MULTILINE
    )
    assert {"LOAD", "GNU_STACK"} <= {kind for kind, _ in segments}
    assert [found for found in segments if "WE" in found[1]] == []
    assert dict(segments)["GNU_STACK"].strip() == "RW"


@pytest.mark.parametrize("name", BUILT)
def test_every_source_was_compiled_with_the_flags(name):
    """The compiler wrote its options beside each source's debugging information."""
    said = readelf(name, "--debug-dump=info", "--dwarf-depth=1")
    ours = [line for line in said.splitlines() if "DW_AT_producer" in line and "GNU C" in line]
    if not ours:
        pytest.skip(f"{name} was built without debugging information, or not by gcc")
    for flag in COMPILED_WITH:
        assert [line for line in ours if flag not in line] == [], flag


@pytest.mark.skipif(SANITIZED, reason="sanitizers have checks of their own instead")
@pytest.mark.parametrize("name", ["iraid-engine", "handler_iraid.so", "nbdkit-iraid-plugin.so"])
def test_calls_of_the_c_library_are_bounded(name):
    """FORTIFY: copies whose bounds only the running program knows are checked by level 3 alone."""
    symbols = readelf(name, "--dyn-syms")
    assert " __stack_chk_fail" in symbols
    assert re.findall(r" (__(?:memcpy|memset|memmove)_chk)", symbols), "level 3 was not in force"
