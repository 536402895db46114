"""Fixtures: real targets, a private gateway, volumes served by nbdkit.

Members are files in memory where there is room, since tgtd's flushes would else measure this
machine's disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import backend_probe
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway

MEMBER_BYTES = 24 << 20  # enough for several regions of 64K chunks, and quick to compare
ROOM_BYTES_MIN = 2 << 30
_figures = pytest.StashKey[list[str]]()
_failed = pytest.StashKey[bool]()
start = backend_probe.start  # a fixture


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_figures] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:  # tgtd's control socket, and the product's, are root's
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    if outcome.get_result().failed:
        item.stash[_failed] = True


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[_figures]:
        terminalreporter.section("figures")
        for line in config.stash[_figures]:
            terminalreporter.line(line)


@pytest.fixture
def figure(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[str, str], None]:
    """figure("longest stall", "2.1 s"): shown at the end also when all is well, and in the JUnit file."""

    def show(name: str, value: str) -> None:
        record_property(name, value)
        request.config.stash[_figures].append(f"{request.node.name}: {name} {value}")

    return show


@pytest.fixture
def folder() -> Iterator[Path]:
    """For backing files; gone after the test."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES_MIN
    with tempfile.TemporaryDirectory(prefix="iraid-", dir=memory if roomy else None) as path:
        yield Path(path)


@pytest.fixture
def make_farm(folder: Path) -> Iterator[Callable[..., TargetFarm]]:
    """make_farm(4), make_farm(options=[...]): as TargetFarm, in a folder of its own."""
    with ExitStack() as stack:
        made = 0

        def make(count: int = 4, **more: Any) -> TargetFarm:
            nonlocal made
            made += 1
            more.setdefault("size_bytes", MEMBER_BYTES)
            return stack.enter_context(TargetFarm(folder / f"farm{made}", count, **more))

        yield make


@pytest.fixture
def make_gateway(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Gateway]]:
    """Gateways that know nothing of each other.  Their sockets have short paths of their own."""
    made: list[Gateway] = []
    sockets = Path(tempfile.mkdtemp(prefix="iraid-"))

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
def gateway(make_gateway: Callable[[], Gateway]) -> Gateway:
    """One, with iraid-engine running."""
    made = make_gateway()
    made.start()
    return made


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[TargetFarm]:
    """One target."""
    with TargetFarm(tmp_path) as farm:
        yield farm
