"""The handler's probes, traced by the scripts that are there for it, under load: what they count is what the handler counts.

    scripts/lab --kernel qemu --timeout 1500 tests/end_to_end/test_trace.py -m long

User-mode Linux has no uprobes, so this needs Debian's own kernel.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

from iraid_dev.stack.gateway import Volume, iraid
from iraid_dev.stack.runner import HANDLER
from iraid_dev.stack.tools import PATIENCE, ROOT, run

BLOCK = 4096
COMMANDS = 40
STEPS = ("ring", "wait", "mark", "read", "code", "write", "flush", "complete")

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def _tracing() -> None:
    if os.environ.get("IRAID_LAB") == "uml":
        pytest.skip("user-mode Linux has no uprobes: scripts/lab --kernel qemu")
    for kind, place in (("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug")):
        if not os.path.ismount(place):
            run("mount", "-t", kind, kind, place)
    if not os.path.exists("/sys/kernel/tracing/uprobe_events"):
        pytest.skip("this kernel has no uprobes")


@pytest.fixture
def volume(gateway: object, lio_members: object) -> Volume:
    made = gateway.create(5, lio_members(3, size_bytes=32 << 20), "--chunk", "64K")  # little to resync
    made.wait_resynced()
    made.login()
    return made


def handler(volume: Volume) -> str:
    return str(volume.gateway.runner.folder / HANDLER)


def one_after_the_other(volume: Volume, count: int = COMMANDS) -> None:
    """Writes and reads of places that are far from each other, past the page cache: nothing joins."""
    assert volume.disk is not None
    buffer = mmap.mmap(-1, BLOCK)
    buffer[:] = os.urandom(BLOCK)
    disk = os.open(volume.disk.path, os.O_RDWR | os.O_DIRECT)
    try:
        for number in range(count):
            offset = number * 3 * 131072 % (32 << 20)
            assert os.pwritev(disk, [buffer], offset) == BLOCK
            assert os.preadv(disk, [buffer], offset) == BLOCK
    finally:
        os.close(disk)


def counted(volume: Volume) -> dict[str, int]:
    return {one["step"]: one["count"] for one in json.loads(iraid("steps", volume.name, "--json"))["steps"]}


def test_bpftrace_sees_what_the_handler_counts(volume: Volume) -> None:
    if shutil.which("bpftrace") is None:
        pytest.skip("bpftrace is not installed: scripts/deps --long")
    outer_before = counted(volume)
    program = subprocess.Popen(
        ["bpftrace", "-B", "line", str(ROOT / "scripts/trace/steps.bt"), handler(volume)],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said = []
    try:
        assert program.stdout is not None
        for line in program.stdout:
            said.append(line)
            if line.startswith("Tracing"):  # all probes are attached
                break
        else:
            pytest.fail(f"bpftrace ended with {program.wait()}:\n{''.join(said)}")
        before = counted(volume)
        one_after_the_other(volume)
        after = counted(volume)
        program.send_signal(signal.SIGINT)
        output, _ = program.communicate(timeout=120 * PATIENCE)
    finally:
        program.kill()
        program.wait()
    outer_after = counted(volume)
    print(output)
    traced = {
        name: (int(count), int(total))
        for name, count, total in re.findall(r"^@(\w+)_us: count (\d+), average \d+, total (\d+)", output, re.MULTILINE)
    }
    expected = {step: after[step] - before[step] for step in STEPS if after[step] > before[step]}
    # udev looks at the disk whenever it was closed, also between a count and the tracer's begin or end.
    for step in STEPS:
        count = traced.get(step, (0, 0))[0]
        assert after[step] - before[step] <= count <= outer_after[step] - outer_before[step], step
    assert min(expected["ring"], expected["complete"]) >= 2 * COMMANDS
    assert traced["read"][1] > 0 and traced["write"][1] > 0


def test_perf_sees_them_too(volume: Volume) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed: scripts/deps --long")
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            one_after_the_other(volume, 4)

    thread = threading.Thread(target=load)
    before = counted(volume)
    thread.start()
    try:
        output = run(
            ROOT / "scripts/trace/steps-perf", "--seconds", "5", "--handler", handler(volume), seconds=150 * PATIENCE
        )
    finally:
        ended.set()
        thread.join()
    print(output)
    after = counted(volume)
    rows = {words[0]: int(words[1]) for words in (line.split() for line in output.splitlines()[1:])}
    assert list(rows) == list(STEPS)
    for step in ("ring", "wait", "read", "code", "write", "complete"):
        assert 0 < rows[step] <= after[step] - before[step], step
    assert abs(rows["ring"] - rows["complete"]) <= 2  # it began and ended within a command
    assert "sdt_iraid" not in run("perf", "probe", "--list")
