"""A counter kept by COMPARE AND WRITE, raced from two sessions of two initiators, 32 deep each (caw_race.c)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from exported_lun import SHAPES, ExportedLun, exported, exported_volume, initiators, names

from iraid_dev.stack.tools import PATIENCE, ROOT, StackError, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(400 * PATIENCE)]

SECONDS = int(os.environ.get("IRAID_CAW_SECONDS", "60"))
MEMBER_BYTES = 96 << 20
UNSUPPORTED = 2
# A block in the midst of a chunk, and the last one of the first row's first chunk.
LBAS = {"first block": 0, "end of a chunk": 127}


class Race:
    """caw_race in the background."""

    def __init__(self, lun: ExportedLun, *options: str, seconds: int = SECONDS):
        found = sorted(Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build")).rglob("caw_race"))
        if not found:
            raise StackError("no caw_race in the build: run scripts/build, or set IRAID_BUILD_DIR")
        urls = [f"{name}:iscsi://{portal}/{lun.iqn}/0" for name, portal in zip(initiators(), lun.portals, strict=True)]
        self.lun, self.seconds = lun, seconds
        self.process = subprocess.Popen(
            [found[0], "--seconds", str(seconds), *options, *urls],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def increments(self) -> int:
        """So far, as its next line tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.fullmatch(r"[\d.]+ (\d+)\n", line)
        if not found:
            self.result()
            raise StackError(f"caw_race ended early: {line}")
        return int(found[1])

    def result(self) -> str:
        """Its closing line; skips where the LUN has no COMPARE AND WRITE."""
        try:
            output, errors = self.process.communicate(timeout=self.seconds + 90 * PATIENCE)
        except subprocess.TimeoutExpired:
            raise StackError(f"caw_race did not end; {self.lun.name}") from None
        if self.process.returncode == UNSUPPORTED:
            pytest.skip(f"{self.lun.name} has no COMPARE AND WRITE")
        assert self.process.returncode == 0, errors
        return output.splitlines()[-1]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module", params=names())
def lun(request: pytest.FixtureRequest, running_gateway: object) -> Iterator[ExportedLun]:
    with exported(request.param, running_gateway) as made:
        yield made


@pytest.mark.parametrize("where", LBAS)
def test_a_counter_raced_from_two_initiators_loses_no_increment(lun, where, capsys):
    race = Race(lun, "--lba", str(LBAS[where]), seconds=SECONDS if where == "first block" else SECONDS // 4)
    try:
        told = race.result()
    finally:
        race.end()
    with capsys.disabled():
        print(f"\n    {lun.name}, {where}: {told}")
    assert re.match(r"held: counter [1-9]", told)
    assert int(re.search(r"(\d+) miscompares", told)[1]) > 0, "nobody was ever second: that was no race"


def test_the_race_notices_increments_that_are_lost(lun):
    """Plain writes instead of COMPARE AND WRITE lose some."""
    race = Race(lun, "--plain-writes", seconds=10)
    try:
        _, errors = race.process.communicate(timeout=60 * PATIENCE)
    finally:
        race.end()
    assert race.process.returncode == 1 and "told GOOD" in errors, errors


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("level", [name for name in names() if name not in ("reference", "level 0")])
def test_a_counter_loses_no_increment_while_a_member_goes(running_gateway, farm, level, how, capsys):
    """The member is killed (its session breaks) or stopped (nothing answers) in the midst, with the counter's block on it."""
    number = int(level.removeprefix("level "))
    targets = farm(SHAPES.get(number, (4, 2))[0], size_bytes=MEMBER_BYTES)
    with exported_volume(running_gateway, number, targets.members()) as made:
        race = Race(made)
        try:
            before = wait_for(lambda: (count := race.increments()) > 20 and count, "20 increments")
            getattr(targets, how)(0)
            volume = running_gateway.volumes[-1]
            volume.wait_until("degraded")
            begin = race.increments()
            after = wait_for(lambda: (count := race.increments()) > begin + 20 and count, "increments to go on")
            told = race.result()
        finally:
            race.end()
            if how == "stop":
                targets.cont(0)
        with capsys.disabled():
            print(f"\n    {level}, member 0 {'killed' if how == 'kill' else 'stopped'}: {told}")
        assert re.match(r"held: counter [1-9]", told) and after > before
