"""Fixtures of the tests of the documentation: a network with the addresses that it shows, and what stands on them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stage import IQN, Stage

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import Gateway

MEMBER_BYTES = 24 << 20
ADDRESSES = [f"10.0.0.{number}" for number in range(1, 16)]
ROOM_BYTES_MIN = 2 << 30
CLONE_NEWNET = 0x40000000
_figures = pytest.StashKey[list[str]]()
_failed = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_figures] = []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    if outcome.get_result().failed:
        item.stash[_failed] = True


def pytest_terminal_summary(terminalreporter: object, config: pytest.Config) -> None:
    if config.stash[_figures]:
        terminalreporter.section("commands shown")
        for line in config.stash[_figures]:
            terminalreporter.line(line)


@pytest.fixture
def figure(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[str, object], None]:
    """figure("run by a recipe", 31): shown at the end also when all is well, and in the JUnit file."""

    def show(name: str, value: object) -> None:
        record_property(name, value)
        request.config.stash[_figures].append(f"{name}: {value}")

    return show


@pytest.fixture
def network() -> Iterator[None]:
    """A network namespace of its own with the addresses of the documentation on its loopback.

    Of this thread only, and of what is started by it; the rest of the test run stays where it was.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before:
        if libc.unshare(CLONE_NEWNET) != 0:
            pytest.skip(f"no network namespaces here: {os.strerror(ctypes.get_errno())}")
        try:
            for words in (
                ["link", "set", "lo", "up"],
                *(["address", "add", f"{address}/32", "dev", "lo"] for address in ADDRESSES),
            ):
                subprocess.run(["ip", *words], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture
def farm(network: None) -> Iterator[TargetFarm]:
    """Target n is 10.0.0.{n+1}/iqn.2026-01.org.example:disk, its LUN 1 (tgtd keeps 0 for itself)."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES_MIN
    options = [TargetOptions(size_bytes=MEMBER_BYTES, address=address, port=3260, iqn=IQN) for address in ADDRESSES[:7]]
    with tempfile.TemporaryDirectory(prefix="iraid-", dir=memory if roomy else None) as folder:
        with TargetFarm(Path(folder), options=options) as made:
            yield made


@pytest.fixture
def make_gateway(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Gateway]]:
    sockets = Path(tempfile.mkdtemp(prefix="iraid-"))
    made: list[Gateway] = []

    def make() -> Gateway:
        name = f"gateway{len(made)}"
        made.append(Gateway(tmp_path / name, sockets / name))
        return made[-1]

    yield make
    for gateway in made:
        gateway.close()
    shutil.rmtree(sockets)
    if request.node.stash.get(_failed, False):
        for gateway in made:
            print(gateway.logs())


@pytest.fixture
def stage(farm: TargetFarm, make_gateway: Callable[[], Gateway]) -> Stage:
    return Stage(farm, make_gateway)
