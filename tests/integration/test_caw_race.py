"""end_to_end/caw_race.c judges others, so it is judged here: what loses increments must not hold."""

from __future__ import annotations

import subprocess

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import build_folder

HELD, WRONG, UNSUPPORTED, TROUBLE = range(4)
INITIATORS = ("iqn.2026-01.org.iraid.test:a", "iqn.2026-01.org.iraid.test:b")


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """tgtd has no COMPARE AND WRITE."""
    with TargetFarm(tmp_path_factory.mktemp("farm"), count=1, size_bytes=8 << 20) as farm:
        yield farm


def race(target: TargetFarm, *options: str, sessions: int = 2, seconds: int = 2) -> subprocess.CompletedProcess:
    words = [f"{name}:iscsi://{target.member(0)}" for name in INITIATORS[:sessions]]
    return subprocess.run(
        [build_folder() / "tests/caw_race", "--seconds", str(seconds), *options, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_one_worker_without_rivals_loses_nothing(target):
    done = race(target, "--plain-writes", "--depth", "1", sessions=1, seconds=1)
    assert done.returncode == HELD, done.stderr
    assert done.stdout.splitlines()[-1].startswith("held: counter ")


@pytest.mark.parametrize(("depth", "sessions"), [("32", 2), ("2", 1), ("1", 2)])
def test_plain_writes_lose_increments_and_it_is_told(target, depth, sessions):
    done = race(target, "--plain-writes", "--depth", depth, sessions=sessions)
    assert done.returncode == WRONG and "told GOOD" in done.stderr, done.stdout + done.stderr


def test_a_target_without_the_command_is_told_apart(target):
    done = race(target)
    assert done.returncode == UNSUPPORTED and "refuses COMPARE AND WRITE" in done.stderr


def test_a_session_that_is_lost_is_a_failure(target):
    process = subprocess.Popen(
        [
            build_folder() / "tests/caw_race",
            "--plain-writes",
            "--depth",
            "1",
            "--seconds",
            "30",
            f"{INITIATORS[0]}:iscsi://{target.member(0)}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        process.stdout.readline()
        target.kill(0)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        target.restart(0)
    assert process.returncode == WRONG and ("was lost" in errors or "is not known" in errors), errors


def test_a_race_ends_when_it_is_told_to(target):
    process = subprocess.Popen(
        [
            build_folder() / "tests/caw_race",
            "--plain-writes",
            "--depth",
            "1",
            "--seconds",
            "3600",
            "--until-told",
            f"{INITIATORS[0]}:iscsi://{target.member(0)}",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        process.stdout.readline()
        assert process.poll() is None
        said, _ = process.communicate("enough\n", timeout=50)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == HELD and said.splitlines()[-1].startswith("held: counter "), said


@pytest.mark.parametrize("words", [["no-url"], ["--depth", "0"], ["--depth", "33"], ["--seconds", "1x"], []])
def test_arguments_that_mean_nothing_are_refused(words):
    done = subprocess.run(
        [build_folder() / "tests/caw_race", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == TROUBLE and done.stderr.startswith("caw_race: ")
