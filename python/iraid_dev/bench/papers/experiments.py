"""The papers' experiments (scripts/bench --profile papers): run in the lab, figures as rows.

One process, one set of namespaces, targets and a tcmu-runner; each experiment makes its volumes on them and shapes the links.
A row's conditions say what was set; conditions["measured"] is what else was seen: share of the links in use, TCP's windows, how
busy the machine was.  report.py makes tables and plots of the rows, model.py knows what the papers had.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from iraid_dev.bench.core import row
from iraid_dev.bench.core.network import BUFFER_BYTES_MAX, CONGESTION_CONTROLS, Link, Network
from iraid_dev.places import ROOT
from iraid_dev.stack.gateway import Volume
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.tools import StackError

from . import files, model, options
from .rig import Figure, Job, Rig, Watch, fill, measure

KIB = 1024
MIB = 1024 * KIB
MEMBER_BYTES = 160 * MIB
SET_UP_SECONDS = 45  # of a run: boot, namespaces, targets, runner
VOLUME_SECONDS = 30  # of a volume: create, resync, export, fill
START_SECONDS = 3  # of a cell: fio's start and end in user-mode Linux
RECONNECT_SECONDS = 6
SYSTEMS = ("iraid", "plain")
FRONTS = ("iscsi", "loop")
# Six rows of three chunks: the LUN's optimal transfer length, and what Linux cuts longer requests into.  1 MiB would begin and end
# within rows, where writes wait for each other, which costs round trips; distance-depth has both.
ROWS_BYTES = 6 * 3 * 64 * KIB


@dataclass
class Settings:
    seconds: float = 4.0
    warm_up_seconds: float = 2.0
    rtts_ms: list[float] = field(default_factory=lambda: [0, 8, 16, 32, 64])
    links_mbit: list[float] = field(default_factory=lambda: [10, 100, 1000])
    counts: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 6, 8])
    depths: list[int] = field(default_factory=lambda: [1, 4, 16, 64, 128])
    controls: list[str] = field(default_factory=lambda: list(CONGESTION_CONTROLS))
    depth: int = 48  # of 1152 KiB each: what the LUN's data area of 64 MiB has room for
    systems: list[str] = field(default_factory=lambda: list(SYSTEMS))
    cc: str = "cubic"
    distance_mbit: float = 1000.0
    levels: list[int] = field(default_factory=lambda: list(options.LEVELS))
    front: str = "iscsi"
    unshaped_mb_per_s: float = 0.0  # 0: not known yet

    def levels_of(self, experiment: Iterable[int]) -> list[int]:
        return [level for level in experiment if level in self.levels]


class Run:
    """What experiments work with: the rig, the settings, and where rows go."""

    def __init__(self, settings: Settings, rig: Rig, keep: Callable[[list[row.Row]], None]):
        self.settings = settings
        self.rig = rig
        self.rows: list[row.Row] = []
        self.unshaped_mb_per_s = settings.unshaped_mb_per_s
        self._keep = keep
        self.experiment = ""
        self.in_use: Volume | None = None
        self.set: dict[str, Any] = {}  # what holds until it is changed: congestion control, parameters

    @property
    def network(self) -> Network:
        return self.rig.network

    def job(self, pattern: str, block_bytes: int, depth: int | None = None) -> Job:
        return Job(
            pattern,
            block_bytes,
            depth=depth or self.settings.depth,
            seconds=self.settings.seconds,
            warm_up_seconds=self.settings.warm_up_seconds,
        )

    def measure(
        self, system: str, level: int | None, members: list[int], disk: Disk, job: Job, /, **conditions: Any
    ) -> Figure:
        """One cell; its row is kept."""
        watch = Watch(self.network, members, job)
        hedged = self._hedged(system)
        with watch:
            figure = measure(disk, job)
        measured = watch.seen() | {"busy_percent": figure.busy_percent}
        if figure.cpu_percent is not None:
            measured["cpu_percent"] = figure.cpu_percent
        if (now := self._hedged(system)) > hedged:
            measured["reads_hedged"] = now - hedged
        self.note(system, level, len(members), job, figure, measured, **conditions)
        return figure

    def _hedged(self, system: str) -> int:
        """Reads that waited too long for one member and were made from the others."""
        if self.in_use is None or system != "iraid":
            return 0
        return self.in_use.status()["reads_hedged"]

    def note(
        self,
        system: str,
        level: int | None,
        members: int,
        job: Job,
        figure: Figure,
        measured: dict[str, Any],
        /,
        **conditions: Any,
    ) -> None:
        link = self.network.link
        said = (
            {
                "experiment": self.experiment,
                "rtt_ms": link.rtt_ms,
                "link_mbit": link.rate_mbit,
                "mtu": link.mtu,
                "cc": "cubic",
            }
            | self.set
            | conditions
            | {"measured": measured}
        )
        self.rows.append(
            row.Row(
                kernel=os.environ.get("IRAID_LAB", "host"),
                system=system,
                level=level,
                members=members,
                pattern=job.pattern,
                block_bytes=job.block_bytes,
                mb_per_s=figure.mb_per_s,
                iops=figure.iops,
                p50_ms=figure.p50_ms,
                p99_ms=figure.p99_ms,
                p999_ms=figure.p999_ms,
                cpu_s_per_gib=figure.cpu_s_per_gib,
                depth=job.depth,
                conditions=said,
            )
        )
        name = system if level is None else f"{system} {level} on {members}"
        print(
            f"    {name:14} {job.pattern:9} {job.block_bytes // KIB:5} KiB depth {job.depth:3}: {figure.mb_per_s:7.1f} MB/s, "
            f"p50 {figure.p50_ms:.1f} ms; "
            + ", ".join(f"{key} {value}" for key, value in {**conditions, **measured}.items()),
            flush=True,
        )
        self._keep(self.rows)

    @contextmanager
    def volume(self, level: int, members: list[int]) -> Iterator[Volume]:
        """Made and filled on links as fast as the machine moves them."""
        self.network.shape(Link())
        with self.rig.volume(level, members) as volume:
            assert volume.disk is not None
            fill(volume.disk)
            self.in_use = volume
            try:
                yield volume
            finally:
                self.in_use = None
                self.network.shape(Link())

    @contextmanager
    def front(self, volume: Volume) -> Iterator[Disk]:
        """The disk that the load is put on."""
        if self.settings.front == "iscsi":
            assert volume.disk is not None
            yield volume.disk
            return
        self.set["front"] = self.settings.front
        try:
            with self.rig.loop(volume) as disk:
                yield disk
        finally:
            self.set.pop("front")

    @contextmanager
    def plain(self, number: int) -> Iterator[Disk]:
        self.network.shape(Link())
        with self.rig.plain(number) as disk:
            fill(disk)
            try:
                yield disk
            finally:
                self.network.shape(Link())


def say(text: str) -> None:
    print(f"{time.monotonic():6.0f} s  {text}", flush=True)


# --- distance ---

FOUR = [0, 1, 2, 3]
SPARE = 4  # the plain target


def distance(run: Run) -> None:
    """Throughput against RTT (layers, figures on RTT): four operations, four members with 1 Gbit/s each, and one plain target."""
    _by_rtt(run, model.OPERATIONS)


def distance_sequential(run: Run) -> None:
    """The same, sequential only: what must show, 100 MB/s at each RTT."""
    _by_rtt(run, ("write", "read"))


def _by_rtt(run: Run, patterns: tuple[str, ...]) -> None:
    run.network.set_congestion_control(run.settings.cc)
    run.set["cc"] = run.settings.cc
    try:
        _by_rtt_each(run, patterns)
    finally:
        run.set.pop("cc")
        run.network.set_congestion_control("cubic")


def _by_rtt_each(run: Run, patterns: tuple[str, ...]) -> None:
    if "iraid" in run.settings.systems:
        with run.volume(5, FOUR) as volume:
            for rtt in run.settings.rtts_ms:
                run.network.shape(Link(rtt_ms=rtt, rate_mbit=run.settings.distance_mbit))
                # New connections: old ones keep what they learned of a link that is no more.
                run.rig.reconnect(volume)
                with run.front(volume) as disk:
                    for pattern in patterns:
                        run.measure("iraid", 5, FOUR, disk, run.job(pattern, ROWS_BYTES))
                run.network.shape(Link())
    if "plain" not in run.settings.systems:
        return
    with run.plain(SPARE):
        pass
    for rtt in run.settings.rtts_ms:
        run.network.shape(Link(rtt_ms=rtt, rate_mbit=run.settings.distance_mbit))
        with run.rig.plain(SPARE) as disk:
            for pattern in patterns:
                run.measure("plain", None, [SPARE], disk, run.job(pattern, ROWS_BYTES))


def distance_depth(run: Run) -> None:
    """Throughput against commands in flight at RTT 32 ms, for the model depth x block / (RTT + block / bandwidth) (layers)."""
    link = Link(rtt_ms=32, rate_mbit=run.settings.distance_mbit)
    if "iraid" in run.settings.systems:
        with run.volume(5, FOUR) as volume:
            run.network.shape(link)
            run.rig.reconnect(volume)
            for depth in run.settings.depths:
                for pattern in ("write", "read"):
                    run.measure("iraid", 5, FOUR, volume.disk, run.job(pattern, ROWS_BYTES, depth))
            for depth in run.settings.depths:
                run.measure("iraid", 5, FOUR, volume.disk, run.job("write", MIB, depth))
    if "plain" not in run.settings.systems:
        return
    with run.plain(SPARE):
        pass
    run.network.shape(link)
    with run.rig.plain(SPARE) as disk:
        for depth in run.settings.depths:
            for pattern in ("write", "read"):
                run.measure("plain", None, [SPARE], disk, run.job(pattern, ROWS_BYTES, depth))


def distance_parameters(run: Run) -> None:
    """Default against tuned parameters of the targets at RTT 32 ms, sequential (layers: tuned was 4 times default)."""
    link = Link(rtt_ms=32, rate_mbit=run.settings.distance_mbit)
    sets = {"default": model.LAYERS_DEFAULT, "tuned": model.LAYERS_TUNED}
    try:
        with run.volume(5, FOUR) as volume:
            run.network.shape(link)
            for name, parameters in sets.items():
                run.set["parameters"] = name
                run.rig.set_parameters(parameters)
                run.rig.reconnect(volume)
                for depth in (1, run.settings.depth):
                    for pattern in ("write", "read"):
                        run.measure("iraid", 5, FOUR, volume.disk, run.job(pattern, ROWS_BYTES, depth), parameters=name)
        run.network.shape(link)
        for name, parameters in sets.items():
            run.set["parameters"] = name
            run.rig.set_parameters(parameters)
            with run.rig.plain(SPARE) as disk:
                for depth in (1, run.settings.depth):
                    for pattern in ("write", "read"):
                        run.measure("plain", None, [SPARE], disk, run.job(pattern, ROWS_BYTES, depth), parameters=name)
    finally:
        run.set.pop("parameters", None)
        run.rig.set_parameters(run.rig.targets.parameters)


def distance_congestion(run: Run) -> None:
    """Six congestion controls at RTT 32 ms, sequential (layers: no difference)."""
    try:
        with run.volume(5, FOUR) as volume:
            run.network.shape(Link(rtt_ms=32, rate_mbit=run.settings.distance_mbit))
            for name in run.settings.controls:
                run.network.set_congestion_control(name)
                run.set["cc"] = name
                run.rig.reconnect(volume)
                for pattern in ("write", "read"):
                    run.measure("iraid", 5, FOUR, volume.disk, run.job(pattern, ROWS_BYTES))
    finally:
        run.set.pop("cc", None)
        run.network.set_congestion_control("cubic")


# --- targets ---


def targets(run: Run) -> None:
    """Number of targets x speed of each target's link, four operations (raid, figures 6 to 8); which points tell of the machine and
    not of the links is marked."""
    _unshaped(run)
    for rate in run.settings.links_mbit if "plain" in run.settings.systems else []:
        run.network.shape(Link(rate_mbit=rate))
        with run.rig.plain(0) as disk:
            for pattern in model.OPERATIONS:
                _target_cell(run, "plain", None, [0], disk, pattern)
    for level, count in volumes_of(run.settings):
        members = list(range(count))
        with run.volume(level, members) as volume:
            for rate in run.settings.links_mbit:
                run.network.shape(Link(rate_mbit=rate))
                run.rig.reconnect(volume)
                for pattern in model.OPERATIONS:
                    _target_cell(run, "iraid", level, members, volume.disk, pattern)
                run.network.shape(Link())


def volumes_of(settings: Settings) -> list[tuple[int, int]]:
    """Level and number of targets; one target is the plain one, and level 5 on two is no RAID 5."""
    if "iraid" not in settings.systems:
        return []
    return [
        (level, count)
        for level, least in ((0, 2), (5, 3))
        if level in settings.levels
        for count in settings.counts
        if count >= least
    ]


def _target_cell(run: Run, system: str, level: int | None, members: list[int], disk: Disk, pattern: str) -> None:
    """Sequential: some 256 KiB, whole rows, depth 16; more in flight would be seconds of a slow link.  Random: by chance some
    members have nothing to do; of four, with 128 commands in flight, some 2 % of the time (128 / (128 + 4 - 1) of it is used)."""
    job = run.job(pattern, 64 * KIB, 128)
    if pattern in ("read", "write"):
        job = run.job(pattern, model.whole_rows_bytes(level, len(members), 64 * KIB, 256 * KIB), 16)
    bound = model.host_bound(len(members), run.network.link.rate_mbit, run.unshaped_mb_per_s)
    run.measure(system, level, members, disk, job, host_bound=bound, unshaped_mb_per_s=run.unshaped_mb_per_s)


def _unshaped(run: Run) -> None:
    """What the machine moves through a volume when no link is in the way: the lowest of a sequential write and read."""
    if run.unshaped_mb_per_s:
        return
    with run.volume(0, FOUR) as volume:
        figures = [
            run.measure("iraid", 0, FOUR, volume.disk, run.job(pattern, MIB), unshaped=True)
            for pattern in ("write", "read")
        ]
    run.unshaped_mb_per_s = min(figure.mb_per_s for figure in figures)


def hedging(run: Run) -> None:
    """No paper's: random reads of a P-iRAID volume whose links are full, with hedge_milliseconds as it is by default, and 0."""
    with run.volume(5, FOUR) as volume:
        for hedge_ms in (500, 0):
            run.network.shape(Link(rate_mbit=20))
            run.rig.reconnect(volume, hedge=f"{hedge_ms}ms")
            for depth in (16, 48):
                run.measure("iraid", 5, FOUR, volume.disk, run.job("randread", 64 * KIB, depth), hedge_ms=hedge_ms)
            run.network.shape(Link())


# --- request size ---

REQUESTS = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB]


def request_size(run: Run) -> None:
    """Throughput against request size, four operations (raid, figures 5, 9, 10): one target, S-iRAID and P-iRAID on four, links of
    20 Mbit/s so that the links are what is compared, at 4 KiB as well."""
    link = Link(rate_mbit=20)
    if "plain" in run.settings.systems:
        with run.plain(SPARE) as disk:
            run.network.shape(link)
            _each_request_size(run, "plain", None, [SPARE], disk)
    for level in run.settings.levels_of((0, 5)) if "iraid" in run.settings.systems else []:
        with run.volume(level, FOUR) as volume:
            run.network.shape(link)
            _each_request_size(run, "iraid", level, FOUR, volume.disk)


def _each_request_size(run: Run, system: str, level: int | None, members: list[int], disk: Disk) -> None:
    for block in REQUESTS:
        for pattern in model.OPERATIONS:
            run.measure(system, level, members, disk, run.job(pattern, block))


# --- raw TCP ---

SEGMENTS = [8 * KIB, 64 * KIB, 256 * KIB, MIB]


def raw_tcp(run: Run) -> None:
    """One plain TCP stream beside what iSCSI makes of the same link, MTU 1500 and 9000, data segments of 8 KiB to 1 MiB (layers,
    aiken); RTT 8 ms, 1 Gbit/s."""
    links = [Link(rtt_ms=8, rate_mbit=1000, mtu=mtu) for mtu in (1500, 9000)]
    try:
        if "plain" in run.settings.systems:
            _stream(run, links)
            with run.plain(SPARE):
                pass
            for segment in _segments(run, links):
                with run.rig.plain(SPARE) as disk:
                    for pattern in ("write", "read"):
                        run.measure("plain", None, [SPARE], disk, run.job(pattern, MIB), segment_bytes=segment)
        if "iraid" in run.settings.systems:
            with run.volume(5, FOUR) as volume:
                for segment in _segments(run, links):
                    run.rig.reconnect(volume)
                    for pattern in ("write", "read"):
                        run.measure("iraid", 5, FOUR, volume.disk, run.job(pattern, ROWS_BYTES), segment_bytes=segment)
    finally:
        run.network.shape(Link())
        run.rig.set_parameters(run.rig.targets.parameters)


def _stream(run: Run, links: list[Link]) -> None:
    for link in links:
        run.network.shape(link)
        mb_per_s = run.network.stream(SPARE, run.settings.seconds, run.settings.warm_up_seconds)
        run.note(
            "plain", None, 1, Job("write", MIB, depth=1), Figure(round(mb_per_s, 2), 0, 0, 0, 0, 0), {}, stream="tcp"
        )


def _segments(run: Run, links: list[Link]) -> Iterator[int]:
    """Each link with each size of the targets' data segments, for sessions that begin then."""
    for link in links:
        for segment in SEGMENTS:
            run.rig.set_parameters({"MaxRecvDataSegmentLength": str(segment), "MaxXmitDataSegmentLength": str(segment)})
            run.network.shape(link)
            yield segment


# --- pathologies ---

VERIFIED_BYTES = 32 * MIB
PATHOLOGIES = {
    "none": Link(rtt_ms=2, rate_mbit=100, single_segments=True),
    "loss": Link(rtt_ms=2, rate_mbit=100, single_segments=True, loss_percent=2.7),
    "reordering": Link(rtt_ms=2, rate_mbit=100, single_segments=True, reorder_percent=2.0),
    "corruption": Link(rtt_ms=2, rate_mbit=100, single_segments=True, corrupt_percent=0.02),
}


def pathologies(run: Run) -> None:
    """Loss of 2.7 %, reordering of 2 %, corruption of 0.02 % on every link in both directions (aiken, who gave up there): throughput,
    and every byte written is read back and compared."""
    with run.volume(5, FOUR) as volume:
        for name, link in PATHOLOGIES.items():
            run.network.shape(link)
            run.rig.reconnect(volume)
            for pattern in ("write", "randwrite"):
                block = 256 * KIB if pattern == "write" else 64 * KIB
                job = Job(pattern, block, depth=run.settings.depth, verify=True, size_bytes=VERIFIED_BYTES)
                run.measure("iraid", 5, FOUR, volume.disk, job, pathology=name, verified=True)
            for pattern in ("read", "randread"):
                run.measure("iraid", 5, FOUR, volume.disk, run.job(pattern, 256 * KIB), pathology=name)
            states = [member["state"] for member in volume.status()["members"]]
            print(f"    members after {name}: {', '.join(states)}", flush=True)
            run.network.shape(Link())


# --- the command ---


@dataclass(frozen=True)
class Experiment:
    run: Callable[[Run], None]
    targets: int
    cells: Callable[[Settings], int]
    volumes: Callable[[Settings], int] = lambda settings: 1
    reconnects: Callable[[Settings], int] = lambda settings: 0
    seconds: float | None = None  # of a cell, where the experiment is about steady state
    warm_up_seconds: float | None = None

    @property
    def about(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


EXPERIMENTS = {
    "distance": Experiment(
        distance,
        5,
        lambda s: 4 * len(s.systems) * len(s.rtts_ms),
        reconnects=lambda s: len(s.systems) * len(s.rtts_ms),
        seconds=30,
        warm_up_seconds=10,
    ),
    "distance-sequential": Experiment(
        distance_sequential,
        5,
        lambda s: 2 * len(s.systems) * len(s.rtts_ms),
        reconnects=lambda s: len(s.systems) * len(s.rtts_ms),
        seconds=30,
        warm_up_seconds=10,
    ),
    "distance-depth": Experiment(
        distance_depth,
        5,
        lambda s: len(s.depths) * (3 * ("iraid" in s.systems) + 2 * ("plain" in s.systems)),
        seconds=8,
        warm_up_seconds=6,
    ),
    "distance-parameters": Experiment(
        distance_parameters, 5, lambda s: 16, reconnects=lambda s: 4, seconds=8, warm_up_seconds=6
    ),
    "distance-congestion": Experiment(
        distance_congestion,
        5,
        lambda s: 2 * len(s.controls),
        reconnects=lambda s: len(s.controls),
        seconds=8,
        warm_up_seconds=6,
    ),
    "request-size": Experiment(
        request_size, 5, lambda s: 20 * _request_systems(s), volumes=lambda s: _request_systems(s)
    ),
    "targets": Experiment(
        targets,
        8,
        lambda s: _target_cells(s) and _target_cells(s) + 2 * (not s.unshaped_mb_per_s),
        volumes=lambda s: (not s.unshaped_mb_per_s) + len(volumes_of(s)),
        reconnects=lambda s: len(s.links_mbit) * len(volumes_of(s)),
    ),
    "hedging": Experiment(hedging, 4, lambda s: 4, reconnects=lambda s: 2, seconds=10, warm_up_seconds=4),
    "raw-tcp": Experiment(
        raw_tcp,
        5,
        lambda s: 4 * len(SEGMENTS) * len(s.systems) + 2 * ("plain" in s.systems),
        reconnects=lambda s: 2 * len(SEGMENTS) * len(s.systems),
        seconds=6,
        warm_up_seconds=12,
    ),
    "pathologies": Experiment(pathologies, 5, lambda s: 16, reconnects=lambda s: 4),
    # Of what bonnie++ takes, the estimate has 30 s for each system.
    "cern": Experiment(
        files.cern,
        files.TARGETS,
        lambda s: 10 * len(s.levels_of(files.LEVELS)),
        volumes=lambda s: 4 * len(s.levels_of(files.LEVELS)),
        seconds=4,
        warm_up_seconds=0,
    ),
    "file-size": Experiment(
        files.file_size,
        files.TARGETS,
        lambda s: 4 * len(files.FILE_SIZES),
        volumes=lambda s: 3,
        seconds=4,
        warm_up_seconds=0,
    ),
    "latency": Experiment(
        files.latency,
        files.TARGETS,
        lambda s: 6 * len(files.LATENCY_BLOCKS) * len(files.LATENCY_RTTS_MS),
        volumes=lambda s: 3,
        reconnects=lambda s: len(files.LATENCY_RTTS_MS),
        seconds=2,
        warm_up_seconds=0.5,
    ),
}


def _target_cells(settings: Settings) -> int:
    return 4 * len(settings.links_mbit) * (("plain" in settings.systems) + len(volumes_of(settings)))


def _request_systems(settings: Settings) -> int:
    return ("plain" in settings.systems) + len(settings.levels_of((0, 5))) * ("iraid" in settings.systems)


def timed(
    experiment: Experiment, settings: Settings, seconds: float | None, warm_up_seconds: float | None
) -> tuple[float, float]:
    """Measured and warm-up seconds of a cell: as asked for, else as the experiment needs."""
    measured = seconds or experiment.seconds or settings.seconds
    warm_up = experiment.warm_up_seconds if experiment.warm_up_seconds is not None else settings.warm_up_seconds
    return measured, warm_up if warm_up_seconds is None else warm_up_seconds


def estimate_seconds(
    names: list[str], settings: Settings, seconds: float | None, warm_up_seconds: float | None
) -> float:
    total: float = SET_UP_SECONDS
    for name in names:
        experiment = EXPERIMENTS[name]
        cell = sum(timed(experiment, settings, seconds, warm_up_seconds)) + START_SECONDS
        total += experiment.cells(settings) * cell + experiment.volumes(settings) * VOLUME_SECONDS
        total += experiment.reconnects(settings) * RECONNECT_SECONDS
    return total


def parser() -> argparse.ArgumentParser:
    defaults = Settings()
    result = argparse.ArgumentParser(
        description="The papers' experiments, in the lab; figures are a report, not a test.",
        epilog="experiments:\n"
        + "\n".join(f"  {name:20} {each.about}" for name, each in EXPERIMENTS.items())
        + "\n\nscripts/bench --profile papers takes also --out DIR (tables and plots), --no-deps and --no-build.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--only",
        type=options.names_of(list(EXPERIMENTS), "experiment"),
        metavar="NAME,NAME",
        default=[name for name in EXPERIMENTS if name != "distance-sequential"],
        help="these experiments (default: all; distance-sequential is a part of distance)",
    )
    result.add_argument(
        "--seconds", type=options.seconds, help="measured per cell (default: as each experiment needs, 4 to 30)"
    )
    result.add_argument("--warm-up", type=options.seconds, help="before that (default: 2 to 10)")
    result.add_argument("--json", type=options.file_to_write, metavar="FILE", help="rows; written after each cell")
    result.add_argument(
        "--rtts", type=options.list_of(float, 0, 1000), default=defaults.rtts_ms, help="ms, for distance"
    )
    result.add_argument(
        "--links", type=options.list_of(float, 1, 100_000), default=defaults.links_mbit, help="Mbit/s, for targets"
    )
    result.add_argument(
        "--distance-mbit",
        type=options.rate,
        default=defaults.distance_mbit,
        metavar="MBIT",
        help="of a link, for distance and what begins with it (default: %(default)g)",
    )
    result.add_argument(
        "--counts", type=options.list_of(int, 1, 8), default=defaults.counts, help="numbers of targets, for targets"
    )
    result.add_argument(
        "--depths", type=options.list_of(int, 1, 128), default=defaults.depths, help="for distance-depth"
    )
    result.add_argument(
        "--depth", type=int, default=defaults.depth, help="commands in flight elsewhere (default: %(default)s)"
    )
    result.add_argument(
        "--systems",
        type=options.names_of(list(SYSTEMS), "system"),
        default=defaults.systems,
        help="for distance, distance-depth, request-size, targets, raw-tcp (default: both)",
    )
    result.add_argument(
        "--levels",
        type=options.levels,
        default=defaults.levels,
        metavar="LEVEL,LEVEL",
        help="for request-size and targets (0, 5) and cern (0, 5, 10); default: all",
    )
    result.add_argument(
        "--front",
        choices=FRONTS,
        default=defaults.front,
        help="for distance: an initiator over iSCSI, or one in the gateway's kernel (default: %(default)s)",
    )
    result.add_argument(
        "--unshaped",
        type=options.throughput,
        default=0.0,
        metavar="MB_PER_S",
        help="for targets: what the machine moves without shaping (default: it is measured first)",
    )
    result.add_argument(
        "--cc", choices=CONGESTION_CONTROLS, default=defaults.cc, help="for distance (default: %(default)s)"
    )
    result.add_argument(
        "--congestion",
        type=options.names_of(list(CONGESTION_CONTROLS), "congestion control"),
        default=defaults.controls,
        help="for distance-congestion",
    )
    return result


def head(complete: bool) -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "command": " ".join(sys.argv),
        "machine": f"{platform.release()}, {os.cpu_count()} CPU",
        "profile": "papers",
        "complete": complete,
    }


def main(words: list[str]) -> int:
    given = parser().parse_args(words)
    if not 1 <= given.depth <= 128:
        print(f"papers: --depth {given.depth} is not in 1..128, what the initiator keeps in flight", file=sys.stderr)
        return 2
    settings = Settings(
        rtts_ms=given.rtts,
        links_mbit=given.links,
        counts=given.counts,
        depths=given.depths,
        controls=given.congestion,
        depth=given.depth,
        systems=given.systems,
        cc=given.cc,
        levels=given.levels,
        front=given.front,
        unshaped_mb_per_s=given.unshaped,
        distance_mbit=given.distance_mbit,
    )
    for name in given.only:
        if EXPERIMENTS[name].cells(settings) == 0:
            print(
                f"papers: --only {name}: of --systems {','.join(settings.systems)}, --levels {','.join(map(str, settings.levels))} "
                f"and --counts {','.join(map(str, settings.counts))} it has nothing to measure; leave one out",
                file=sys.stderr,
            )
            return 2
    minutes = estimate_seconds(given.only, settings, given.seconds, given.warm_up) / 60
    print(f"papers: {', '.join(given.only)}; about {minutes:.0f} minutes", flush=True)
    if "IRAID_LAB" not in os.environ:
        print("papers: this runs in the lab: scripts/lab -- tests/bench/papers.py ...", file=sys.stderr)
        return 2

    first = head(complete=False)

    def keep(rows: list[row.Row], complete: bool = False) -> None:
        if given.json:
            row.write(given.json, first | {"complete": complete}, rows)

    try:
        with Rig(max(EXPERIMENTS[name].targets for name in given.only), MEMBER_BYTES) as rig:
            rig.network.set_buffers(BUFFER_BYTES_MAX)
            run = Run(settings, rig, keep)
            for name in given.only:
                experiment = EXPERIMENTS[name]
                settings.seconds, settings.warm_up_seconds = timed(experiment, Settings(), given.seconds, given.warm_up)
                run.experiment = name.partition("-")[0] if name == "distance-sequential" else name
                say(f"{name}: {experiment.about}")
                experiment.run(run)
            keep(run.rows, complete=True)
    except StackError as error:
        print(f"papers: {error}", file=sys.stderr)
        return 1
    return 0
