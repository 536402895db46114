"""What the page gets from /api/v1/status: the same as `iraid status --json`, the same verdicts, and what is shown beside it.

A page asks for all points of the plots once, and later for those after the newest it has.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from iraid import __version__
from iraid.control import model
from iraid.watch import verdict
from iraid.watch.stats import MemberStats

from .gather import Snapshot, VolumeView, redundancy
from .history import INTERVAL_SECONDS, KEPT_SECONDS, History
from .metrics import is_pending

EVENTS_SHOWN = 100


def page_data(now: Snapshot, last_good: Snapshot | None, history: History, after_ms: int = 0) -> dict[str, Any]:
    """Without a handler the volumes are those of `last_good`, and known_ms says how old that is."""
    known = now if now.up else last_good
    spares = known.spares or () if known else ()
    return {
        "time_ms": _ms(now),
        "up": now.up,
        "error": now.error,
        "remedy": now.remedy,
        "exporter": {"version": __version__},
        "handler": model.to_json(known.version) if known and known.version else None,
        "known_ms": _ms(known) if known else None,
        "volumes": [_volume(view, len(spares), history, after_ms) for view in known.volumes] if known else [],
        "spares": [model.to_json(spare) for spare in spares],
        "events": [model.to_json(event) for event in now.events[-EVENTS_SHOWN:]],
        "history": {"interval_ms": int(INTERVAL_SECONDS * 1000), "kept_ms": int(KEPT_SECONDS * 1000)},
    }


def _ms(snapshot: Snapshot) -> int:
    return int(snapshot.taken_at * 1000)


def _volume(view: VolumeView, shared_spares: int, history: History, after_ms: int) -> dict[str, Any]:
    volume = view.status
    figures = {one.member: one for one in view.figures.members} if view.figures else {}
    shown: dict[str, Any] = model.to_json(volume) | {
        "level_name": volume.level_name,
        "redundancy": redundancy(volume),
        "answer_error": view.error,
        "verdict": asdict(verdict.judge(volume, shared_spares)),
        "points": [point.to_json() for point in history.points(volume.name, after_ms)],
    }
    for work in ("resync", "rebuild", "scrub"):
        shown[work]["pending"] = is_pending(volume, work)
    shown["members"].sort(key=lambda member: (member["role"] is None, member["role"] or 0))
    for member in shown["members"]:
        member["paths"] = _paths(figures.get(member["member"]))
        member["in_flight"] = figures[member["member"]].in_flight if member["member"] in figures else None
    return shown


def _paths(figures: MemberStats | None) -> list[dict[str, Any]]:
    """Of each session what tells a slow path from a good one."""
    return (
        [
            {
                "portal": session.portal,
                "rtt_us": session.tcp.rtt_us,
                "retransmits": session.tcp.retransmits,
                "delivery_bytes_per_second": session.tcp.delivery_bytes_per_second,
            }
            for session in figures.sessions
            if session.tcp
        ]
        if figures
        else []
    )
