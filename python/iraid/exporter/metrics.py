"""The metrics: what they are called (METRICS, which docs/operating/monitoring.md lists too), and where their values
come from.

Names follow Prometheus' conventions: base units (seconds, bytes), _total for counters, histograms as histograms.  A
state is a metric with a label `state` that is 1 for one value and 0 for the others.  Counters of a volume begin anew
when it is started, which rate() knows how to take.

Nothing is remembered here: a scrape shows one Snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.utils import floatToGoString

from iraid import __version__
from iraid.control import model
from iraid.watch.stats import Connection, Counter, MemberStats, Stats
from iraid.watch.verdict import expendable

from .gather import SEVERITIES, Gatherer, Snapshot, VolumeView, redundancy

VOLUME_ROLES = ("active", "standby", "fenced")
VOLUME_STATES = ("active", "degraded", "assembling", "suspended", "failed", "stopping", "stopped", "standby")
MEMBER_STATES = ("in sync", "rebuilding", "out of date", "faulty", "missing", "spare", "unknown")
WORKS = ("resync", "rebuild", "scrub")

_go_string: Callable[[float], str] = floatToGoString  # which says nothing of its types
_FAMILIES: dict[str, Callable[..., Metric]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
    "info": InfoMetricFamily,
}


@dataclass(frozen=True)
class Definition:
    name: str  # as it is asked for: counters with _total, information with _info
    kind: str
    labels: tuple[str, ...]
    help: str

    def family(self) -> Any:
        name = self.name.removesuffix("_info") if self.kind == "info" else self.name
        return _FAMILIES[self.kind](name, self.help, labels=self.labels)


def _define(name: str, kind: str, labels: str, text: str) -> Definition:
    return Definition(f"iraid_{name}", kind, tuple(labels.split()), text)


METRICS: tuple[Definition, ...] = (
    # the gateway
    _define("up", "gauge", "", "1: the handler answered; 0: it did not, and most other metrics are absent."),
    _define("answer_seconds", "gauge", "", "Time the handler needed to answer all requests of a scrape."),
    _define("failed_calls_total", "counter", "method", "Calls to the handler that failed, since the exporter's start."),
    _define("exporter_info", "info", "", "Version of the exporter."),
    _define("handler_info", "info", "", "Version of the handler, and the program it is in."),
    _define(
        "runner_cpu_seconds_total", "counter", "mode", "Processor time of the handler's process; mode user or system."
    ),
    _define("runner_resident_memory_bytes", "gauge", "", "Memory of the handler's process."),
    _define("runner_threads", "gauge", "", "Threads of the handler's process."),
    _define("gateway_spares", "gauge", "", "Spares that all volumes share."),
    _define("gateway_spare_size_bytes", "gauge", "device", "Size of a shared spare."),
    _define(
        "events_total",
        "counter",
        "volume severity",
        "Events since the exporter's start; volume is empty for the gateway's.",
    ),
    _define("events_missed_total", "counter", "", "Events that were overwritten before the exporter read them."),
    # a volume
    _define("volume_up", "gauge", "volume", "1: the volume answered; 0: only its name and state are known."),
    _define("volume_info", "info", "volume", "What a volume is: uuid, level, level_name."),
    _define("volume_state", "gauge", "volume state", "1 for its state, 0 for all others."),
    _define("volume_role", "gauge", "volume role", "1 for its role on this gateway, 0 for all others."),
    _define("volume_role_since_seconds", "gauge", "volume", "When it got that role (Unix time)."),
    _define(
        "volume_role_changes_total",
        "counter",
        "volume",
        "How often it became active on this gateway, or ceased to be.",
    ),
    _define(
        "volume_redundancy", "gauge", "volume", "Any so many members may still be lost; only while active or degraded."
    ),
    _define(
        "volume_expendable_members",
        "gauge",
        "volume",
        "Members in sync of which any single one may be lost: all or none, on level 10 also some.",
    ),
    _define("volume_size_bytes", "gauge", "volume", "Size that initiators see."),
    _define("volume_chunk_bytes", "gauge", "volume", "Size of a chunk."),
    _define("volume_members", "gauge", "volume state", "Devices in each state, spares included."),
    _define("volume_empty_roles", "gauge", "volume", "Roles that have no device."),
    _define("volume_users", "gauge", "volume", "Number of users: LUNs of tcmu, nbdkit."),
    _define(
        "volume_regions", "gauge", "volume state", "Regions that are dirty, suspect (parity to be verified) or stale."
    ),
    _define("volume_lost_bytes", "gauge", "volume", "Data that is no longer known; reads as medium errors."),
    _define("volume_lost_extents", "gauge", "volume", "Number of lost extents."),
    _define("volume_started_timestamp_seconds", "gauge", "volume", "Start of the volume."),
    _define("volume_buffer_bytes", "gauge", "volume", "Memory that its buffers use."),
    _define("volume_buffer_limit_bytes", "gauge", "volume", "Upper limit of the memory of its buffers."),
    _define("volume_rows_written_total", "counter", "volume how", "Rows written, by method."),
    _define("volume_requests_merged_total", "counter", "volume", "Requests that were merged with another."),
    _define(
        "volume_reads_reconstructed_total",
        "counter",
        "volume",
        "Reads computed from the other members because one was out.",
    ),
    _define(
        "volume_reads_hedged_total", "counter", "volume", "Reads answered from the other members because one was slow."
    ),
    _define(
        "volume_reads_saved_total",
        "counter",
        "volume",
        "Reads of members that were not needed, because their rows were in memory.",
    ),
    _define("volume_medium_repaired_total", "counter", "volume", "Unreadable sectors that were rebuilt and rewritten."),
    # the write log, of levels 5 and 6
    _define("log_open", "gauge", "volume", "1: writes are logged."),
    _define("log_given_up", "gauge", "volume", "1: the write log could not be written, and is not used."),
    _define("log_bytes", "gauge", "volume", "Size of the records that a start would replay now."),
    _define("log_records_total", "counter", "volume", "Records written since the log was opened."),
    # work in the background
    _define("work_pending", "gauge", "volume work", "1: there is work, running or waiting."),
    _define("work_running", "gauge", "volume work", "1: the work runs."),
    _define("work_done_rows", "gauge", "volume work", "Rows that are done."),
    _define("work_total_rows", "gauge", "volume work", "Rows in all."),
    _define("work_bytes_per_second", "gauge", "volume work", "Rate, bytes a second of each member."),
    _define("work_remaining_seconds", "gauge", "volume work", "Time left at this rate; absent if not known."),
    _define(
        "work_rate_limit_bytes_per_second",
        "gauge",
        "volume bound",
        "Limits of the work, of each member: min while initiators are busy, max while they are idle.",
    ),
    _define("resync_corrected_rows", "gauge", "volume", "Rows whose parity the resync had to correct."),
    _define(
        "scrub_mismatched_rows",
        "gauge",
        "volume mode",
        "Rows that did not match in the last scrub; mode check or repair.",
    ),
    # commands of initiators
    _define("command_duration_seconds", "histogram", "volume op", "Duration of initiators' commands."),
    _define("command_bytes_total", "counter", "volume op", "Data of initiators' commands."),
    _define("command_errors_total", "counter", "volume op", "Commands of initiators that failed."),
    _define("commands_active", "gauge", "volume", "Commands of initiators in flight."),
    _define("step_duration_seconds", "summary", "volume step", "Duration of the steps of commands; they may overlap."),
    _define("step_duration_max_seconds", "gauge", "volume step", "Longest duration since the volume was started."),
    _define(
        "volume_thread_seconds_total",
        "counter",
        "volume activity",
        "Time of the volume's thread: idle, receive, engine, code (parity), send.",
    ),
    _define("volume_thread_turns_total", "counter", "volume", "Turns of the volume's thread."),
    # members
    _define("member_info", "info", "volume member", "A member's role, empty for a spare, and its portals."),
    _define("member_state", "gauge", "volume member state", "1 for its state, 0 for all others."),
    _define("member_link_up", "gauge", "volume member", "1: there is a session."),
    _define("member_slow", "gauge", "volume member", "1: it is slow, so reads avoid it."),
    _define("member_size_bytes", "gauge", "volume member", "Size of the LUN."),
    _define("member_stale_rows", "gauge", "volume member", "Rows whose current data it does not have yet."),
    _define("member_errors_total", "counter", "volume member", "Commands that it failed."),
    _define("member_medium_errors_total", "counter", "volume member", "Sectors it could not read."),
    _define(
        "member_medium_repaired_total", "counter", "volume member", "Sectors it could not read that were rewritten."
    ),
    _define(
        "member_digest_errors_total", "counter", "volume member", "Wrong digests: data or headers broken on the way."
    ),
    _define("member_commands_active", "gauge", "volume member", "Commands it has not answered yet."),
    _define(
        "member_command_duration_seconds",
        "histogram",
        "volume member op",
        "Duration of commands to a member: read, write, flush.",
    ),
    _define("member_command_bytes_total", "counter", "volume member op", "Data of commands to a member."),
    _define(
        "member_command_errors_total", "counter", "volume member op", "Commands to a member that failed, by operation."
    ),
    # their sessions: the kernel's TCP_INFO
    _define("session_info", "info", "volume member session", "A session's portal and congestion control."),
    _define("session_commands_active", "gauge", "volume member session", "Commands in flight on a session."),
    _define("session_rtt_seconds", "gauge", "volume member session", "Smoothed round-trip time."),
    _define("session_rtt_variation_seconds", "gauge", "volume member session", "Variation of the round-trip time."),
    _define("session_rtt_min_seconds", "gauge", "volume member session", "Shortest round trip of the connection."),
    _define("session_congestion_window_bytes", "gauge", "volume member session", "Congestion window."),
    _define("session_segment_bytes", "gauge", "volume member session", "Maximum segment size."),
    _define("session_in_flight_bytes", "gauge", "volume member session", "Bytes sent and not acknowledged."),
    _define("session_lost_segments", "gauge", "volume member session", "Segments that are considered lost at present."),
    _define(
        "session_retransmits_total",
        "counter",
        "volume member session",
        "Segments sent again, since the connection was made.",
    ),
    _define(
        "session_delivery_bytes_per_second",
        "gauge",
        "volume member session",
        "Rate at which data arrived at the target lately.",
    ),
    _define(
        "session_pacing_bytes_per_second", "gauge", "volume member session", "Rate at which the kernel sends at most."
    ),
    _define(
        "session_send_queue_bytes",
        "gauge",
        "volume member session",
        "Bytes written to the socket and not acknowledged.",
    ),
    _define("session_receive_queue_bytes", "gauge", "volume member session", "Bytes received and not read."),
)
_BY_NAME = {one.name.removeprefix("iraid_"): one for one in METRICS}


class Values:
    """Families by their short name, filled one sample at a time, in the order of METRICS."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}

    def add(self, name: str, labels: Sequence[str], *values: Any) -> None:
        if name not in self._families:
            self._families[name] = _BY_NAME[name].family()
        self._families[name].add_metric(labels, *values)

    def one_of(self, name: str, labels: Sequence[str], known: Iterable[str], current: str) -> None:
        """A sample for each known value, and for one that this version does not know."""
        for value in dict.fromkeys([*known, current]):
            self.add(name, [*labels, value], float(value == current))

    def families(self) -> Iterator[Metric]:
        return (self._families[name] for name in _BY_NAME if name in self._families)


class Collector:
    """What the client library asks at each scrape; it may come from several threads at once."""

    def __init__(self, gatherer: Gatherer) -> None:
        self._gatherer = gatherer

    def describe(self) -> list[Metric]:
        return [one.family() for one in METRICS]

    def collect(self) -> Iterator[Metric]:
        return values_of(self._gatherer.snapshot()).families()


def registry_of(gatherer: Gatherer) -> CollectorRegistry:
    """Ours, and the exporter's own process (process_*)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(Collector(gatherer))  # type: ignore[arg-type]  # not all versions have the class it might be of
    return registry


def values_of(snapshot: Snapshot) -> Values:
    values = Values()
    values.add("up", [], float(snapshot.up))
    values.add("answer_seconds", [], snapshot.seconds)
    values.add("exporter_info", [], {"version": __version__})
    for method, count in sorted(snapshot.failed_calls.items()):
        values.add("failed_calls_total", [method], count)
    _add_events(values, snapshot)
    if not snapshot.up:
        return values
    if snapshot.version is not None:
        values.add("handler_info", [], {"version": snapshot.version.version, "program": snapshot.version.program})
    for spare in snapshot.spares or ():
        values.add("gateway_spare_size_bytes", [spare.device], spare.size_bytes)
    if snapshot.spares is not None:
        values.add("gateway_spares", [], len(snapshot.spares))
    _add_runner(values, snapshot)
    for view in snapshot.volumes:
        _add_volume(values, view)
    return values


def _add_events(values: Values, snapshot: Snapshot) -> None:
    names = {view.status.name for view in snapshot.volumes} | {volume for volume, _ in snapshot.events_counted} | {""}
    for name in sorted(names):
        severities = dict.fromkeys([*SEVERITIES, *(s for volume, s in snapshot.events_counted if volume == name)])
        for severity in severities:
            values.add("events_total", [name, severity], snapshot.events_counted.get((name, severity), 0))
    values.add("events_missed_total", [], snapshot.events_missed)


def _add_runner(values: Values, snapshot: Snapshot) -> None:
    """All volumes of a handler are in one process, so each says the same."""
    runner = next((view.figures.runner for view in snapshot.volumes if view.figures and view.figures.runner.pid), None)
    if runner is None:
        return
    values.add("runner_cpu_seconds_total", ["user"], runner.user_seconds)
    values.add("runner_cpu_seconds_total", ["system"], runner.system_seconds)
    values.add("runner_resident_memory_bytes", [], runner.resident_bytes)
    values.add("runner_threads", [], runner.threads)


def _add_volume(values: Values, view: VolumeView) -> None:
    volume, labels = view.status, [view.status.name]
    values.add("volume_up", labels, float(view.answered))
    values.one_of("volume_state", labels, VOLUME_STATES, volume.state)
    if volume.role is not None:
        values.one_of("volume_role", labels, VOLUME_ROLES, volume.role)
    if volume.role_since_ms is not None:
        values.add("volume_role_since_seconds", labels, volume.role_since_ms / 1000)
        values.add("volume_role_changes_total", labels, volume.role_changes)
    level = "" if volume.level is None else str(volume.level)
    values.add("volume_info", labels, {"uuid": volume.uuid, "level": level, "level_name": volume.level_name})
    bears = redundancy(volume)
    if bears is not None:
        values.add("volume_redundancy", labels, bears)
        values.add("volume_expendable_members", labels, len(expendable(volume)))
    for state in dict.fromkeys([*MEMBER_STATES, *(member.state for member in volume.members)]):
        values.add("volume_members", [*labels, state], sum(member.state == state for member in volume.members))
    for member in volume.members:
        _add_member(values, volume.name, member, counters=view.answered)
    if not view.answered:
        return  # zeros would look like a restart of all counters
    _add_gauges(values, volume, labels)
    _add_counters(values, volume, labels)
    _add_log(values, volume, labels)
    _add_work(values, volume, labels)
    if view.figures is not None and view.figures.started_ms:
        _add_figures(values, view.figures, labels)


def _add_gauges(values: Values, volume: model.Volume, labels: list[str]) -> None:
    simple = {
        "volume_size_bytes": volume.size_bytes,
        "volume_chunk_bytes": volume.chunk_bytes,
        "volume_empty_roles": len(volume.empty_roles),
        "volume_users": len(volume.users),
        "volume_lost_bytes": volume.lost.bytes,
        "volume_lost_extents": volume.lost.extents,
        "volume_buffer_bytes": volume.memory.buffer_bytes,
        "volume_buffer_limit_bytes": volume.memory.buffer_bytes_max,
    }
    for name, value in simple.items():
        values.add(name, labels, value)
    for state in ("dirty", "suspect", "stale"):
        values.add("volume_regions", [*labels, state], getattr(volume.regions, state))


def _add_counters(values: Values, volume: model.Volume, labels: list[str]) -> None:
    for how in fields(volume.rows):
        values.add("volume_rows_written_total", [*labels, how.name], getattr(volume.rows, how.name))
    for name in ("requests_merged", "reads_reconstructed", "reads_hedged", "reads_saved", "medium_repaired"):
        values.add(f"volume_{name}_total", labels, getattr(volume, name))


def _add_log(values: Values, volume: model.Volume, labels: list[str]) -> None:
    if volume.level not in (5, 6):
        return
    values.add("log_open", labels, float(volume.log.open))
    values.add("log_given_up", labels, float(volume.log.given_up))
    values.add("log_bytes", labels, volume.log.bytes)
    values.add("log_records_total", labels, volume.log.records)


def is_pending(volume: model.Volume, work: str) -> bool:
    """Is there something to do, even if nothing is done just now?"""
    if work == "resync":
        return volume.resync.running or (volume.regions.suspect > 0 and volume.level not in (0, None))
    if work == "rebuild":
        return volume.rebuild.running or volume.rebuild.member is not None
    return volume.scrub.active


def _add_work(values: Values, volume: model.Volume, labels: list[str]) -> None:
    works: dict[str, model.Work] = {"resync": volume.resync, "rebuild": volume.rebuild, "scrub": volume.scrub}
    for name, work in works.items():
        values.add("work_pending", [*labels, name], float(is_pending(volume, name)))
        values.add("work_running", [*labels, name], float(work.running))
        values.add("work_done_rows", [*labels, name], work.done_rows)
        values.add("work_total_rows", [*labels, name], work.total_rows)
        values.add("work_bytes_per_second", [*labels, name], work.bytes_per_second)
        if work.seconds_left is not None:
            values.add("work_remaining_seconds", [*labels, name], work.seconds_left)
    values.add("work_rate_limit_bytes_per_second", [*labels, "min"], volume.sync_rate_min_bytes)
    values.add("work_rate_limit_bytes_per_second", [*labels, "max"], volume.sync_rate_max_bytes)
    values.add("resync_corrected_rows", labels, volume.resync.corrected_rows)
    for mode in ("check", "repair"):
        found = volume.scrub.mismatches if volume.scrub.mode == mode else 0
        values.add("scrub_mismatched_rows", [*labels, mode], found)


def _add_member(values: Values, volume: str, member: model.Member, counters: bool) -> None:
    labels = [volume, member.member]
    values.add(
        "member_info",
        labels,
        {"role": "" if member.role is None else str(member.role), "portals": ",".join(member.portals)},
    )
    values.one_of("member_state", labels, MEMBER_STATES, member.state)
    values.add("member_link_up", labels, float(member.link == "open"))
    values.add("member_slow", labels, float(member.slow))
    values.add("member_size_bytes", labels, member.size_bytes)
    values.add("member_stale_rows", labels, member.stale_rows)
    if counters:
        values.add("member_errors_total", labels, member.errors)
        values.add("member_medium_errors_total", labels, member.medium_errors)
        values.add("member_medium_repaired_total", labels, member.medium_repaired)
        values.add("member_digest_errors_total", labels, member.digest_errors)


# --- volume.stats ---


def _add_figures(values: Values, figures: Stats, labels: list[str]) -> None:
    values.add("volume_started_timestamp_seconds", labels, figures.started_ms / 1000)
    values.add("commands_active", labels, figures.queue)
    for op in fields(figures.commands):
        _add_commands(values, "command", [*labels, op.name], getattr(figures.commands, op.name), figures.bounds_us)
    for step in figures.steps:
        values.add("step_duration_seconds", [*labels, step.step], step.count, step.sum_us / 1e6)
        values.add("step_duration_max_seconds", [*labels, step.step], step.max_us / 1e6)
    for activity in ("idle", "receive", "engine", "code", "send"):
        spent_us = getattr(figures.thread, f"{activity}_us")
        values.add("volume_thread_seconds_total", [*labels, activity], spent_us / 1e6)
    values.add("volume_thread_turns_total", labels, figures.thread.turns)
    for member in figures.members:
        _add_member_figures(values, member, [*labels, member.member], figures.bounds_us)


def _add_commands(values: Values, what: str, labels: list[str], commands: Counter, bounds_us: list[int]) -> None:
    values.add(f"{what}_duration_seconds", labels, cumulated(bounds_us, commands), commands.sum_us / 1e6)
    values.add(f"{what}_bytes_total", labels, commands.bytes)
    values.add(f"{what}_errors_total", labels, commands.errors)


def cumulated(bounds_us: list[int], commands: Counter) -> list[tuple[str, float]]:
    """Prometheus' buckets: each counts what the smaller ones do, too; the last has all.

    A handler whose buckets don't match its bounds gets one bucket, which is right.
    """
    if len(commands.buckets) != len(bounds_us) + 1:
        return [("+Inf", commands.count)]
    pairs, below = [], 0
    for bound_us, count in zip(bounds_us, commands.buckets[:-1], strict=True):
        below += count
        pairs.append((_go_string(bound_us / 1e6), below))
    return [*pairs, ("+Inf", below + commands.buckets[-1])]


def _add_member_figures(values: Values, member: MemberStats, labels: list[str], bounds_us: list[int]) -> None:
    values.add("member_commands_active", labels, member.in_flight)
    for op, commands in (("read", member.reads), ("write", member.writes), ("flush", member.flushes)):
        _add_commands(values, "member_command", [*labels, op], commands, bounds_us)
    for number, session in enumerate(member.sessions):
        # Two sessions may go to one portal: a number tells them apart.
        one = [*labels, str(number)]
        control = session.tcp.congestion_control if session.tcp else ""
        values.add("session_info", one, {"portal": session.portal, "congestion_control": control})
        values.add("session_commands_active", one, session.in_flight)
        if session.tcp is not None:
            _add_tcp(values, session.tcp, one)


_TCP: dict[str, Callable[[Connection], float]] = {
    "session_rtt_seconds": lambda tcp: tcp.rtt_us / 1e6,
    "session_rtt_variation_seconds": lambda tcp: tcp.rtt_var_us / 1e6,
    "session_rtt_min_seconds": lambda tcp: tcp.min_rtt_us / 1e6,
    "session_congestion_window_bytes": lambda tcp: tcp.cwnd_bytes,
    "session_segment_bytes": lambda tcp: tcp.mss_bytes,
    "session_in_flight_bytes": lambda tcp: tcp.in_flight_bytes,
    "session_lost_segments": lambda tcp: tcp.lost,
    "session_retransmits_total": lambda tcp: tcp.retransmits,
    "session_delivery_bytes_per_second": lambda tcp: tcp.delivery_bytes_per_second,
    "session_pacing_bytes_per_second": lambda tcp: tcp.pacing_bytes_per_second,
    "session_send_queue_bytes": lambda tcp: tcp.send_queue_bytes,
    "session_receive_queue_bytes": lambda tcp: tcp.receive_queue_bytes,
}


def _add_tcp(values: Values, tcp: Connection, labels: list[str]) -> None:
    for name, value in _TCP.items():
        values.add(name, labels, value(tcp))
