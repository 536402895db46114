"""The handler as tcmu-runner will load it: dlopen(RTLD_NOW) fails on any symbol nobody has, and a library
that exports more than it must can shadow the runner's own functions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iraid_dev.places import ROOT

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
HANDLER = BUILD / "handler/adapters/handler_iraid.so"
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


@pytest.mark.parametrize(("library", "entry"), [(HANDLER, "handler_init"), (PLUGIN, "plugin_init")])
def test_a_module_exports_its_entry_and_nothing_else(library, entry):
    if not library.exists():
        pytest.skip(f"{library.name} was not built")
    assert symbols(library, "--defined-only") == {entry}
