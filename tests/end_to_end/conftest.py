"""Fixtures of the end-to-end tests.  They need root and a kernel with LIO and TCMU: run them by

scripts/lab tests/end_to_end [-k WORD]        or        scripts/test tests/end_to_end
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import backend_probe
import pytest

if os.environ.get("IRAID_BUILD_DIR") == "installed":
    sys.path.insert(0, "/usr/share/iraid")  # before the source tree's

HERE = Path(__file__).parent
_numbers = itertools.count()
start = backend_probe.start  # a fixture


def missing() -> str:
    """Why these tests can't run here; empty where they can."""
    if os.geteuid() != 0:
        return "not root"
    for path in ("/sys/module/target_core_user", "/sys/module/iscsi_target_mod", "/sys/kernel/config/target"):
        if not os.path.isdir(path):
            return f"this kernel has no {path}; run scripts/lab tests/end_to_end"
    if not os.environ.get("IRAID_LAB"):
        return "this kernel's LIO may be in use; run scripts/lab --kernel host tests/end_to_end"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    reason = missing() if mine else ""
    if reason and os.environ.get("IRAID_LAB"):
        raise pytest.UsageError(f"the lab is not fit for its tests: {reason}")
    if reason:
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept by the lab when the run fails."""
    state = os.environ.get("IRAID_LAB_STATE")
    folder = Path(state) / "log" if state else tmp_path_factory.mktemp("log")
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A place on a plain tmpfs: quick, and no overlay below it."""
    folder = Path(f"/dev/shm/iraid-test-{next(_numbers)}")
    folder.mkdir()
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


@pytest.fixture(scope="module")
def running_gateway(log_folder: Path) -> Iterator[object]:
    from iraid_dev.stack.gateway import Gateway
    from iraid_dev.stack.runner import Runner

    runner = Runner(log_folder)
    runner.start()
    yield Gateway(runner)
    runner.stop()


@pytest.fixture
def lio_members(memory_folder: Path) -> Iterator[Callable[..., list[str]]]:
    """lio_members(4, size_bytes=..., block_bytes=...) gives that many members on LIO targets of this kernel."""
    from iraid_dev.stack.lio_targets import LioTargets

    made = []

    def make(count: int, size_bytes: int = 128 << 20, block_bytes: int = 512) -> list[str]:
        targets = LioTargets(memory_folder / f"lio{next(_numbers)}", count, size_bytes, block_bytes=block_bytes)
        made.append(targets.__enter__())
        return targets.members()

    yield make
    for targets in reversed(made):
        targets.close()


@pytest.fixture
def growing_targets(memory_folder: Path) -> Iterator[Callable[..., object]]:
    """growing_targets(4) gives LIO targets whose LUNs can be enlarged while in use."""
    from iraid_dev.stack.lio_targets import GrowingTargets

    made = []

    def make(count: int, size_bytes: int = 128 << 20) -> GrowingTargets:
        targets = GrowingTargets(memory_folder / f"growing{next(_numbers)}", count, size_bytes)
        made.append(targets.__enter__())
        return targets

    yield make
    for targets in reversed(made):
        targets.close()


@pytest.fixture
def farm(memory_folder: Path) -> Iterator[Callable[..., object]]:
    """farm(4, block_bytes=...) gives python/iraid_dev/stack/farm.py's targets: processes that can be killed and stopped."""
    from iraid_dev.stack.farm import TargetFarm

    made = []

    def make(count: int, size_bytes: int = 128 << 20, **options: object) -> TargetFarm:
        targets = TargetFarm(memory_folder / f"farm{next(_numbers)}", count, size_bytes, **options)
        made.append(targets.__enter__())
        return targets

    yield make
    for targets in reversed(made):
        targets.close()


@pytest.fixture
def gateway(lio_members: object, growing_targets: object, farm: object, running_gateway: object) -> Iterator[object]:
    """The gateway, whose volumes go away before the members they are made of.

    It asks for the members' fixtures only to be taken down before them.
    """
    before = list(running_gateway.volumes)
    yield running_gateway
    if running_gateway.runner.process is None:
        running_gateway.runner.start()
    running_gateway.remove([v for v in running_gateway.volumes if v not in before])


@pytest.fixture(scope="module")
def shared_volume(running_gateway: object) -> Iterator[Callable[[int, int], object]]:
    """shared_volume(level, members): one for the module, logged in, for tests that only use its disk."""
    from iraid_dev.stack.lio_targets import LioTargets

    made: dict[tuple[int, int], object] = {}
    backends: list[LioTargets] = []
    volumes: list[object] = []

    def get(level: int, count: int) -> object:
        if (level, count) not in made:
            targets = LioTargets(Path(f"/dev/shm/shared{next(_numbers)}"), count, 128 << 20)
            backends.append(targets.__enter__())
            volumes.append(running_gateway.create(level, targets.members()))
            volumes[-1].login()
            made[level, count] = volumes[-1]
        return made[level, count]

    yield get
    running_gateway.remove(volumes)
    for targets in backends:
        targets.close()
