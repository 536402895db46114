"""The exhaustive crash test must be able to fail: a gateway with a known mistake is recorded, and the crash that
shows the mistake is found.  The mistakes are those of handler/pure/mutant.h, in a build of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_crash_exhaustive import RUNS, Run, make_run  # noqa: F401

from iraid_dev.stack.private_gateway import ROOT, SANITIZED

CASES_MAX = 30000  # the first one that fails ends it
# Mistake, the run that shows it, whether the engine that recovers must have it too.
MUTANTS = [
    ("mark-unawaited", "member_killed", False), ("mark-skipped", "healthy", False),
    ("flush-skipped", "healthy", False), ("fua-skipped", "healthy", False),
    ("cleaned-unflushed", "healthy", False), ("evict-unrecorded", "member_killed", False),
    ("rmw-on-suspect", "gateway_killed", True), ("stale-trusted", "member_killed", True),
    ("loss-forgotten", "member_killed", True),
]  # fmt: skip
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(SANITIZED, reason="a build with mutants is made for it, without sanitizers"),
]


@pytest.fixture(scope="module")
def mutant_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IRAID_MUTANT_BUILD_DIR, or made now."""
    given = os.environ.get("IRAID_MUTANT_BUILD_DIR")
    build = Path(given) if given else tmp_path_factory.mktemp("mutants")
    for words in (
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DIRAID_MUTANTS=ON"],
        ["ninja", "-C", build, "crash_replay", "nbdkit-iraid-plugin", "iraid-engine"],
    ):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return build


@pytest.mark.parametrize(("mutant", "name", "recovering"), MUTANTS)
def test_a_mistake_is_found(
    mutant_build: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    figure: Callable[[str, str], None],
    mutant: str,
    name: str,
    recovering: bool,
) -> None:
    monkeypatch.setenv("IRAID_BUILD_DIR", str(mutant_build))
    run: Run = request.getfixturevalue("make_run")(50)
    if not recovering:
        monkeypatch.setenv("IRAID_MUTANT", mutant)
    RUNS[name](run, 60)
    monkeypatch.setenv("IRAID_MUTANT", mutant if recovering else "")
    with pytest.raises(AssertionError, match="crash_replay: ") as found:
        run.replay("--cases", str(CASES_MAX))
    said = next(line for line in str(found.value).splitlines() if line.startswith("crash_replay: "))
    figure(mutant, said)
