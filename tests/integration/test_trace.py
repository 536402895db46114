"""The probes, traced by scripts/trace/steps.bt in this machine's kernel, where that can: what is traced is what is counted.

tests/end_to_end/test_trace.py does the like in the lab, through the kernel and with perf.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import ROOT, Gateway, Served, call, wait_until

BLOCK = 4096
COMMANDS = 50
# In a mount namespace of its own, since tracefs may not be mounted here.
MOUNTED = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"',
    "sh",
)

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _uprobes() -> None:
    there = subprocess.run(
        [*MOUNTED, "test", "-e", "/sys/kernel/tracing/uprobe_events"], check=False, capture_output=True
    )
    if there.returncode != 0:
        pytest.skip("this kernel has no uprobes")


class Traced:
    output = ""

    def steps(self) -> dict[str, tuple[int, int]]:
        """Step -> count and microseconds."""
        return {
            name: (int(count), int(total))
            for name, count, total in re.findall(
                r"^@(\w+)_us: count (\d+), average \d+, total (\d+)", self.output, re.MULTILINE
            )
        }


@contextmanager
def tracing(library: Path) -> Iterator[Traced]:
    if shutil.which("bpftrace") is None:
        pytest.skip("bpftrace is not installed: scripts/deps --long")
    program = subprocess.Popen(
        [*MOUNTED, "bpftrace", "-B", "line", str(ROOT / "scripts/trace/steps.bt"), str(library)],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    traced = Traced()
    said = []
    try:
        assert program.stdout is not None
        for line in program.stdout:
            said.append(line)
            if line.startswith("Tracing"):  # all probes are attached
                break
        else:
            pytest.fail(f"bpftrace ended with {program.wait()}: {''.join(said)}")
        yield traced
        program.send_signal(signal.SIGINT)
        traced.output, _ = program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()


def served(gateway: Gateway, farm: TargetFarm) -> Served:
    gateway.create("v0", farm.members(), 5, "64K")
    gateway.must("stop", "v0")
    return gateway.serve("v0")


def library(volume: Served) -> Path:
    (path,) = (word for word in volume.process.words if word.endswith("nbdkit-iraid-plugin.so"))
    return Path(path)


def counted(volume: Served) -> dict[str, tuple[int, int]]:
    """Step -> count and microseconds, when nothing is under way."""

    def settled() -> dict[str, tuple[int, int]] | None:
        answer = call(volume.control, "volume.stats", name="v0")
        return {one["step"]: (one["count"], one["sum_us"]) for one in answer["steps"]} if answer["queue"] == 0 else None

    return wait_until(settled, "all to be counted")


def test_bpftrace_sees_what_the_handler_counts(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    with served(gateway, make_farm(4)) as volume:
        handle = volume.connect()
        volume.wait_resynced()
        with tracing(library(volume)) as traced:
            before = counted(volume)
            for number in range(COMMANDS):
                handle.pwrite(os.urandom(BLOCK), number * 3 * BLOCK)
                handle.pread(BLOCK, number * 3 * BLOCK)
            handle.flush()
            handle.zero(1 << 20, 8 << 20)
            after = counted(volume)
        print(traced.output)
        expected = {step: (after[step][0] - before[step][0], after[step][1] - before[step][1]) for step in after}
        found = traced.steps()
        assert {step: count for step, (count, _) in found.items()} == {
            step: count for step, (count, _) in expected.items() if count
        }
        assert expected["ring"][0] == expected["complete"][0] == 2 * COMMANDS + 2
        # The tracer's clock and ours are read at places that are a little apart.
        for step in ("read", "write", "flush"):
            assert found[step][1] == pytest.approx(expected[step][1], rel=0.3, abs=500 * found[step][0]), step


def test_perf_counts_them_too(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed: scripts/deps --long")
    with served(gateway, make_farm(4)) as volume:
        handle = volume.connect()
        volume.wait_resynced()
        before = counted(volume)
        program = subprocess.Popen(
            [*MOUNTED, str(ROOT / "scripts/trace/steps-perf"), "--seconds", "2", "--handler", str(library(volume))],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        while program.poll() is None:  # before, while and after it records
            handle.pwrite(os.urandom(BLOCK), 0)
            handle.pread(BLOCK, 1 << 20)
        assert program.stdout is not None
        output = program.stdout.read()
        assert program.returncode == 0, output
        after = counted(volume)
    print(output)
    rows = {words[0]: int(words[1]) for words in (line.split() for line in output.splitlines()[1:])}
    assert list(rows) == list(after)
    for step in ("ring", "wait", "read", "code", "write", "complete"):
        assert 0 < rows[step] < after[step][0] - before[step][0], step
    # It begins and ends anywhere in the life of a command.
    assert abs(rows["ring"] - rows["complete"]) <= 1
