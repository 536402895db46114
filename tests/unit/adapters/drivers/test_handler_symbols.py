"""The handler as tcmu-runner will load it: dlopen(RTLD_NOW) fails on any symbol nobody has, and a library
that exports more than it must can shadow the runner's own functions.  And what its unit preloads.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iraid_dev.places import ROOT

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
HANDLER = BUILD / "handler/adapters/handler_iraid.so"
CDB_LENGTH = HANDLER.with_name("iraid-cdb-length.so")
PLUGIN = BUILD / "handler/adapters/nbdkit-iraid-plugin.so"
RUNNER = shutil.which("tcmu-runner")


def symbols(library: Path | str, *options: str) -> set[str]:
    done = subprocess.run(["nm", "-D", *options, str(library)], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def libraries(program: str) -> list[str]:
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    return [line.split()[2] for line in done.stdout.splitlines() if "=> /" in line]


@pytest.mark.skipif(not HANDLER.exists() or not RUNNER, reason="no handler or no tcmu-runner here")
def test_the_runner_has_every_function_that_the_handler_calls():
    called = {name for name in symbols(HANDLER, "--undefined-only") if name.startswith(("tcmu", "__tcmu"))}
    offered = symbols(RUNNER, "--defined-only")
    for library in libraries(RUNNER):
        if "libtcmu" in library:
            offered |= symbols(library, "--defined-only")
    assert "tcmur_cmd_complete" in called
    assert called <= offered


@pytest.mark.parametrize(
    ("library", "entry"), [(HANDLER, "handler_init"), (PLUGIN, "plugin_init"), (CDB_LENGTH, "tcmu_cdb_get_length")]
)
def test_a_module_exports_its_entry_and_nothing_else(library, entry):
    if not library.exists():
        pytest.skip(f"{library.name} was not built")
    assert symbols(library, "--defined-only") == {entry}


@pytest.mark.parametrize("library", [HANDLER, PLUGIN])
def test_a_module_with_threads_is_never_unloaded(library):
    """A lookup that hangs may return when all else has ended: tests/integration/test_nbdkit_end.py."""
    if not library.exists():
        pytest.skip(f"{library.name} was not built")
    dynamic = subprocess.run(["readelf", "--dynamic", "--wide", library], capture_output=True, text=True, check=True)
    assert re.search(r"\(FLAGS_1\).*\bNODELETE\b", dynamic.stdout)


# --- what the unit preloads ---


@pytest.mark.skipif(not CDB_LENGTH.exists(), reason="no handler here")
def test_each_operation_code_has_the_length_that_the_kernel_gives_it():
    """scsi_command_size() of include/scsi/scsi_common.h."""
    length = ctypes.CDLL(str(CDB_LENGTH)).tcmu_cdb_get_length
    for opcode in range(256):
        kernel = 8 + 0x18 if opcode == 0x7F else (6, 10, 10, 12, 16, 12, 10, 10)[opcode >> 5]
        assert length(bytes([opcode, *6 * [0xFF], 0x18])) == kernel, hex(opcode)


@pytest.mark.skipif(not CDB_LENGTH.exists() or not RUNNER, reason="no handler or no tcmu-runner here")
@pytest.mark.parametrize("preloads", [True, False])
def test_libtcmu_takes_the_length_of_a_vendor_specific_command_from_what_is_preloaded(preloads):
    """tcmu_cdb_get_xfer_length() of the installed one calls it as the reading of the ring does; without a length it aborts."""
    (library,) = [path for path in libraries(RUNNER) if "libtcmu" in path]
    call = f"import ctypes; print(ctypes.CDLL({library!r}).tcmu_cdb_get_xfer_length(bytes([0xc0, *6 * [0], 1, 2, 0])))"
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [sys.executable, "-c", call],
        env=environment | ({"LD_PRELOAD": str(CDB_LENGTH)} if preloads else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0 and done.stdout == "258\n") == preloads, done.stderr
    relocations = subprocess.run(["readelf", "--relocs", "--wide", library], capture_output=True, text=True, check=True)
    assert re.search(r"JUMP_SLO\S* .*\btcmu_cdb_get_length\b", relocations.stdout)


def test_the_unit_preloads_what_is_installed_beside_the_handler():
    drop_in = (ROOT / "config/systemd/tcmu-runner.service.d/iraid.conf").read_text()
    # $LIB is the linker's: lib/x86_64-linux-gnu, lib64
    assert re.findall("LD_PRELOAD=(.*)", drop_in) == [f"/usr/$LIB/tcmu-runner/{CDB_LENGTH.name}"]
    installs = (ROOT / "handler/adapters/CMakeLists.txt").read_text()
    assert (
        f"install(TARGETS handler_iraid {CDB_LENGTH.stem} LIBRARY DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/tcmu-runner)"
        in installs
    )
