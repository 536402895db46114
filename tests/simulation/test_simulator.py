"""scripts/simulate: repeatable, able to see what it is for, and able to say how to see it again."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIMULATE = ROOT / "scripts" / "simulate"
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
QUICK_SEEDS = 1000  # every mutant is caught within that many; most within ten
BUILD_SECONDS = 240


def simulate(*arguments: str, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SIMULATE, *arguments], capture_output=True, text=True, check=False, timeout=seconds)


@pytest.fixture(scope="module")
def built() -> None:
    """Both builds are there; a test's own time is not spent on them."""
    assert simulate("--seeds", "1", "--steps", "1", "--quiet", seconds=BUILD_SECONDS).returncode == 0
    assert simulate("--list-mutants", seconds=BUILD_SECONDS).returncode == 0


pytestmark = [pytest.mark.usefixtures("built"), pytest.mark.no_sanitizer, pytest.mark.timeout(600)]


def test_the_same_seed_is_the_same_life():
    first, second = (simulate("--seeds", "7", "--verbose", "--verbose", "--quiet").stderr for _ in range(2))

    assert first.count("\n") > 1000
    assert first == second


def test_leaving_a_step_out_leaves_the_others_as_they_were():
    whole = simulate("--seeds", "7", "--verbose", "--quiet").stderr
    less = simulate("--seeds", "7", "--drop", "3,10-20", "--verbose", "--quiet").stderr

    def submitted(trace: str, step: int) -> list[str]:
        return re.findall(rf"^ +{step} +\S+ +submit (.*) number", trace, re.MULTILINE)

    assert not any(submitted(less, step) for step in (3, *range(10, 21)))
    for step in (0, 1, 2, 4, 5, 21, 22, 30):
        assert submitted(less, step) == submitted(whole, step)


def test_every_seed_does_and_suffers_enough():
    """At least 200 requests and 3 faults each, which `seeds a minute` is worth little without."""
    out = simulate("--seeds", "1..40").stdout
    for seed in range(1, 41, 8):
        assert int(re.search(r"^  requests +(\d+)$", simulate("--seeds", str(seed)).stdout, re.MULTILINE)[1]) >= 200
    for kind in ("session cut", "link down", "hang", "power lost", "medium error", "gateway crash", "blackout"):
        assert int(re.search(rf"^  {kind} +(\d+)$", out, re.MULTILINE)[1]) > 0, kind
    assert float(re.search(r"([\d.]+) faults a seed", out)[1]) >= 3


def test_a_failing_seed_is_made_small_and_can_be_repeated():
    run = simulate("--mutant", "flush-skipped", "--seeds", "1..3", "--quiet", seconds=300)

    assert run.returncode == 1
    seed = min(re.findall(r"^FAILED seed (\d+): ", run.stdout, re.MULTILINE), key=int)  # as they came, of two at a time
    small = re.search(rf"^seed {seed}, made small: (\d+) of 300 steps$", run.stdout, re.MULTILINE)
    assert small and int(small[1]) < 150
    again = re.search(r"^again: +scripts/simulate (.*)$", run.stdout, re.MULTILINE)[1].split()
    assert "--mutant" in again
    repeated = simulate(*again)
    assert repeated.returncode == 1
    assert f"FAILED seed {seed}: " in repeated.stdout


def test_every_known_mistake_is_caught():
    run = simulate("--mutants", "--within", str(QUICK_SEEDS), seconds=500)

    assert run.returncode == 0, run.stdout
    assert "MISSED" not in run.stdout
    assert f"mutants are caught within {QUICK_SEEDS} seeds, or by a unit test" in run.stdout


def test_unknown_mutants_and_bad_ranges_are_named():
    run = simulate("--mutant", "nonsense", "--seeds", "1")
    assert run.returncode == 2
    assert "'nonsense' is unknown; see --list-mutants" in run.stderr
    run = simulate("--seeds", "9..3")
    assert run.returncode == 2
    assert "'9..3' is not a range" in run.stderr


@pytest.mark.skipif(not (BUILD / "handler/libiraid_engine.a").exists(), reason="no product build here")
def test_the_product_holds_no_mistake_that_can_be_switched_on():
    names = subprocess.run(
        ["nm", BUILD / "handler/libiraid_engine.a"], capture_output=True, text=True, check=True
    ).stdout
    assert "engine_run" in names
    assert "mutant_active" not in names


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thousands_of_seeds_are_clean():
    run = simulate("--seeds", "1..20000", seconds=3500)
    assert run.returncode == 0, run.stdout[-4000:]


def test_steered_lives_meet_what_others_hardly_ever_do():
    """Faults of members while a volume is being stopped: nothing but steering makes them meet."""

    def met(*options: str) -> list[int]:
        out = simulate("--seeds", "1..100", "--coverage", "--quiet", *options).stdout
        return [
            sum(map(int, row.split()[:10])) for row in re.findall(r"^stop: [a-z ]+?((?: +\d+)+)$", out, re.MULTILINE)
        ]

    assert sum(met("--without", "steered")) < 5
    steered = met("--with", "steered")
    assert len(steered) == 5
    assert min(steered) > 5
