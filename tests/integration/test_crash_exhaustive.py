"""Every crash that a recorded run could have had.

The gateway runs on real targets behind proxies that record what reaches them (recorder.py); then
crash_replay makes the members as a crash at each entry of the record may have left them, and the engine
must keep its promises on each.  Members are as small as they can be, chunks too, so that rows are many and
a case costs a millisecond.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from crash_load import CrashLoad
from recorder import Journal, Recorder

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, Served, build_folder, wait_until

pytestmark = pytest.mark.once

MEMBER_BYTES = 16 << 20
CHUNK = 4096
COUNT = 4
REGION_ROWS = 64
DATA_CHUNKS = {1: 1, 5: 3, 6: 2, 10: 1}  # of a row
WINDOW_CHUNKS = 36
WINDOW_REGIONS = (0, 3, 9)  # a window in each: marks are set and cleared apart from each other
CASES_SHORT = 500 if SANITIZED else 1500
REPLAY_SECONDS_MAX = 3000


@dataclass
class Run:
    """One recorded run: the volume, its load, and what crash_replay needs."""

    gateway: Gateway
    farm: TargetFarm
    folder: Path
    journal: Journal
    recorder: Recorder
    seed: int
    level: int = 5
    log: str = "degraded"
    load: CrashLoad = field(init=False)

    def prepare(self) -> None:
        """The volume, its windows filled, parity proven, stopped; the record begins here.  Until then nothing
        goes through the recorder, which would make the first resync take seconds."""
        self.gateway.create("v0", self.farm.members(), self.level, str(CHUNK), "--give-up", "2")
        self.gateway.configure("v0", assembly_wait_seconds=1, log=self.log)
        self.gateway.must("stop", "v0")
        row_bytes = DATA_CHUNKS[self.level] * CHUNK
        windows = [(region * REGION_ROWS * row_bytes, WINDOW_CHUNKS * CHUNK) for region in WINDOW_REGIONS]
        self.load = CrashLoad(self.journal, windows, row_bytes, CHUNK, self.seed)
        with self.gateway.serve("v0") as volume:
            written = self.load.fill(volume.connect())
            volume.wait_resynced()
        self.gateway.configure("v0", members=self.recorder.members())
        for number in range(COUNT):
            shutil.copy(self.farm.backing(number), self.folder / f"begin{number}")
        self.journal.recording = True
        self.load.note_fill(written)

    def serve(self) -> Served:
        return self.gateway.serve("v0")

    def replay(self, *words: str) -> str:
        """crash_replay's figures; its failure is the test's."""
        self.recorder.check()
        self.journal.recording = False
        self.journal.close()
        begin = [self.folder / f"begin{number}" for number in range(COUNT)]
        end = [self.farm.backing(number) for number in range(COUNT)]
        command = [
            build_folder() / "tests/integration/crash_replay",
            "--record",
            self.journal.path,
            "--end",
            *(["--log-always"] if self.log == "always" else []),
            *words,
            *begin,
            *end,
        ]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False, timeout=REPLAY_SECONDS_MAX
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{self.keep(command)}"
        return done.stdout.strip()

    def keep(self, command: list[Path | str]) -> str:
        """A failed record is kept where IRAID_CRASH_KEEP says."""
        place = os.environ.get("IRAID_CRASH_KEEP")
        if not place:
            return "set IRAID_CRASH_KEEP to a directory to have the record kept"
        kept = Path(place) / f"record-{os.getpid()}-{self.seed}"
        shutil.copytree(self.folder, kept, dirs_exist_ok=True)
        for number in range(COUNT):
            shutil.copy(self.farm.backing(number), kept / f"end{number}")
        return f"kept in {kept}; with --record {kept / self.journal.path.name} and its images repeat it"


@pytest.fixture
def make_run(gateway: Gateway, make_farm: Callable[..., TargetFarm], folder: Path):
    runs: list[Recorder] = []

    def make(seed: int, level: int = 5, log: str = "degraded") -> Run:
        farm = make_farm(COUNT, size_bytes=MEMBER_BYTES)
        place = folder / f"record{seed}"
        place.mkdir()
        journal = Journal(place / "record")
        recorder = Recorder(journal, farm, seed)
        runs.append(recorder.__enter__())
        run = Run(gateway, farm, place, journal, recorder, seed, level, log)
        run.prepare()
        return run

    yield make
    for recorder in runs:
        recorder.__exit__()


def open_handle(run: Run, volume: Served) -> Any:
    """With log = always: what is measured begins when the log is open."""
    if run.log == "always":
        volume.wait_status(lambda status: status["log"]["open"], "the write log to be open")
    return volume.connect()


def cleaned(volume: Served, left: int = 0) -> Callable[[], bool]:
    return lambda: volume.status()["regions"]["dirty"] <= left


def healthy(run: Run, requests: int) -> None:
    """Writes to one region while another one's mark is cleared, and to that one again."""
    with run.serve() as volume:
        handle = open_handle(run, volume)
        run.load.run(handle, requests, (0, 1))
        run.load.run(handle, requests // 4, (2,), until=cleaned(volume, 1))
        run.load.run(handle, requests // 2, (0, 2))
        wait_until(cleaned(volume), "all marks to be cleared")
        run.load.run(handle, requests // 4, (1,))


def member_killed(run: Run, requests: int) -> None:
    """In the midst of the load; the volume goes on without it."""
    with run.serve() as volume:
        handle = open_handle(run, volume)
        run.load.run(handle, requests, (0, 1), midway=lambda: run.farm.kill(1))
        run.load.run(handle, requests // 2, (0, 1, 2))
        assert volume.status()["state"] == "degraded"


def member_returned(run: Run, requests: int) -> None:
    """It dies in the midst of the load and comes back; the load goes on while it catches up, and not before: the
    seconds until then would be most of the record."""
    with run.serve() as volume:
        handle = open_handle(run, volume)
        run.load.run(handle, requests, (0, 1), midway=lambda: run.farm.kill(2))
        volume.wait_status(lambda status: status["state"] == "degraded", "the eviction")
        run.farm.restart(2)
        volume.wait_status(lambda status: status["rebuild"]["running"] or status["state"] == "active", "its return")
        run.load.run(handle, requests // 2, (0, 2), until=lambda: volume.status()["state"] == "active")


def stopped_and_started(run: Run, requests: int) -> None:
    for _ in range(2):
        with run.serve() as volume:
            handle = open_handle(run, volume)
            run.load.run(handle, requests // 2, (0, 1, 2))


def gateway_killed(run: Run, requests: int) -> None:
    """Under load, twice; the load goes on while the new one resynchronises."""
    for _ in range(2):
        with run.serve() as volume:
            handle = open_handle(run, volume)
            run.load.saw(handle)
            run.load.run_until_broken(handle, requests // 3, (0, 1, 2), volume.process.kill)
    with run.serve() as volume:
        handle = open_handle(run, volume)
        run.load.saw(handle)
        run.load.run(handle, requests // 3, (0, 1))
        volume.wait_resynced()


RUNS = {run.__name__: run for run in (healthy, member_killed, member_returned, stopped_and_started, gateway_killed)}


# Level 1 only while all are there: of two halves the one that was evicted is kept out by the gateway's memory
# (DESIGN rule 7), which is none of crash_replay's.
CASES = [
    *((5, name, "degraded") for name in RUNS),
    (6, "healthy", "degraded"),
    (1, "healthy", "degraded"),
    (5, "healthy", "always"),
    (5, "gateway_killed", "always"),
    (10, "healthy", "degraded"),
    (6, "member_killed", "degraded"),
    (6, "gateway_killed", "degraded"),
    (6, "member_returned", "degraded"),
    (10, "member_killed", "degraded"),
    (10, "gateway_killed", "degraded"),
    (1, "gateway_killed", "degraded"),
    (5, "member_killed", "always"),
    (5, "member_returned", "always"),
    (5, "stopped_and_started", "always"),
    *((6, name, "always") for name in RUNS),
]
SHORT = CASES[:9]


@pytest.mark.parametrize(
    "level, name, log", [pytest.param(*case, marks=() if case in SHORT else pytest.mark.long) for case in CASES]
)
def test_some_crashes_of_a_short_run_lose_nothing(
    make_run: Callable[..., Run], figure: Callable[[str, str], None], level: int, name: str, log: str
) -> None:
    run = make_run(list(RUNS).index(name), level, log)
    RUNS[name](run, 40)
    assert run.load.failed == 0 or name == "gateway_killed"
    figure("replayed", run.replay("--cases", str(CASES_SHORT)))


@pytest.mark.long
@pytest.mark.no_sanitizer
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level, name, log", CASES)
def test_no_crash_of_a_very_short_run_loses_anything(
    make_run: Callable[..., Run], figure: Callable[[str, str], None], level: int, name: str, log: str
) -> None:
    run = make_run(200 + list(RUNS).index(name), level, log)
    RUNS[name](run, 16)
    figure("replayed", run.replay())


@pytest.mark.long
@pytest.mark.no_sanitizer
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("log", ["degraded", "always"])
def test_many_crashes_of_a_longer_run_lose_nothing(
    make_run: Callable[..., Run], figure: Callable[[str, str], None], name: str, seed: int, log: str
) -> None:
    run = make_run(seed, log=log)
    RUNS[name](run, 150)
    figure("replayed", run.replay("--cases", "40000"))
