"""Probes for tracers: those in the handler are those that are documented, and that the scripts use."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest
from control_peer import ROOT

BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
HEADER = (ROOT / "handler/ports/trace.h").read_text()
STEPS = re.findall(r"\[STEP_\w+\] = \"(\w+)\"", (ROOT / "handler/engine/core/figures.c").read_text())
PROBES = {f"{step}__{border}" for step in STEPS for border in ("begin", "end")}
SCRIPT = ROOT / "scripts/trace/steps-perf"


@pytest.fixture(scope="module")
def steps_perf():
    loader = importlib.machinery.SourceFileLoader("steps_perf", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("steps_perf", loader))
    loader.exec_module(module)
    return module


def notes(library):
    """Probe -> the sizes of its arguments, for each place where it stands."""
    text = subprocess.run(["readelf", "--notes", "--wide", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for provider, name, arguments in re.findall(
        r"Provider: (\w+)\n\s*Name: (\w+)\n\s*Location:.*\n\s*Arguments: (.*)", text
    ):
        if provider == "iraid":
            found.setdefault(name, []).append([int(one.split("@")[0]) for one in arguments.split()])
    return found


def constants(library):
    """Arguments that perf would leave out."""
    text = subprocess.run(["readelf", "--notes", "--wide", library], capture_output=True, text=True, check=True).stdout
    return [line for line in re.findall(r"Provider: iraid\n.*\n.*\n\s*Arguments: (.*)", text) if "@$" in line]


def test_steps_are_those_of_the_handler():
    assert STEPS[0] == "ring" and STEPS[-1] == "complete" and len(STEPS) == 8


def test_the_handler_has_all_probes_with_their_arguments():
    library = BUILD / "handler/adapters/handler_iraid.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    if not Path("/usr/include/x86_64-linux-gnu/sys/sdt.h").exists() and not Path("/usr/include/sys/sdt.h").exists():
        pytest.skip("sys/sdt.h is not installed (systemtap-sdt-dev): the handler is built without probes")
    found = notes(library)
    assert set(found) == PROBES
    for name, places in found.items():
        for sizes in places:
            assert [abs(size) for size in sizes] == [8, 8, 4, 8, 8, 4], name
            assert sizes[2] < 0 < sizes[5], name  # an int, an unsigned
    assert not constants(library)


def test_the_header_describes_them():
    assert set(re.findall(r"\b\w+__(?:begin|end)\b", HEADER)) == PROBES


def test_the_scripts_use_them(steps_perf):
    program = (ROOT / "scripts/trace/steps.bt").read_text()
    assert set(re.findall(r"^usdt:\$1:iraid:(\w+)$", program, re.MULTILINE)) == PROBES
    assert list(steps_perf.STEPS) == STEPS


def test_perf_lines_become_a_table(steps_perf):
    def line(at, probe, number, offset):
        return (
            f" iraid v0  4711 {at:.6f}: sdt_iraid:{probe}: (7f0a) arg1=139 arg2={number} arg3=1 arg4={offset}"
            " arg5=4096 arg6=1"
        )

    steps = steps_perf.summed(
        [
            line(10.0, "wait__end", 9, 0),  # began before
            line(10.1, "wait__begin", 1, 0),
            line(10.2, "wait__begin", 1, 65536),  # two pieces of one command
            line(10.4, "wait__end", 1, 0),
            line(10.3, "wait__end", 1, 65536),
            line(10.5, "read__begin", 1, 0),  # does not end
            "something else",
        ]
    )
    assert steps["wait"].count == 2
    assert steps["wait"].seconds == pytest.approx(0.4)
    assert steps["wait"].longest == pytest.approx(0.3)
    assert steps["read"].count == 0
    shown = steps_perf.table(steps).splitlines()
    assert [row.split()[0] for row in shown[1:]] == STEPS
    assert shown[2].split() == ["wait", "2", "200000.0", "100.0%", "300000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0"], "--seconds is 0"),
        (["--handler", "/nowhere/handler.so"], "no handler at /nowhere/handler.so"),
    ],
)
def test_bad_arguments_are_named(arguments, said):
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert said in done.stderr
