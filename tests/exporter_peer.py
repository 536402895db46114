"""volume.stats as the handler gives it (docs/design/control.md), for tests of the exporter: with control_peer's volume()."""

from __future__ import annotations

from typing import Any

from control_peer import VERSION, event, member, page, volume

BOUNDS_US = [1 << power for power in range(4, 26)]
STARTED_MS = 1767225000000


def commands(count: int = 0, size: int = 0, mean_us: int = 0, errors: int = 0) -> dict[str, Any]:
    """All of them in the bucket of their mean."""
    buckets = [0] * (len(BOUNDS_US) + 1)
    buckets[next((i for i, bound in enumerate(BOUNDS_US) if mean_us <= bound), len(BOUNDS_US))] = count
    return {"count": count, "bytes": count * size, "errors": errors, "sum_us": count * mean_us, "buckets": buckets}


def session(portal: str, **changes: Any) -> dict[str, Any]:
    tcp = {
        "rtt_us": 250,
        "rtt_var_us": 40,
        "min_rtt_us": 180,
        "cwnd_bytes": 14480,
        "mss_bytes": 1448,
        "in_flight_bytes": 4096,
        "retransmits": 3,
        "lost": 1,
        "delivery_bytes_per_second": 100 << 20,
        "pacing_bytes_per_second": 200 << 20,
        "send_queue_bytes": 512,
        "receive_queue_bytes": 0,
        "congestion_control": "cubic",
        **changes,
    }
    return {"portal": portal, "in_flight": 2, "tcp": tcp}


def stats(name: str = "v0", time_ms: int = STARTED_MS + 60_000, members: int = 4, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "time_ms": time_ms,
        "started_ms": STARTED_MS,
        "state": "active",
        "bounds_us": BOUNDS_US,
        "queue": 3,
        "commands": {
            "read": commands(100, 65536, 300),
            "write": commands(50, 4096, 2000, errors=1),
            "flush": commands(5, 0, 9000),
            "zero": commands(),
            "compare": commands(),
        },
        "steps": [
            {"step": "wait", "count": 150, "sum_us": 3000, "max_us": 900},
            {"step": "write", "count": 50, "sum_us": 90000, "max_us": 5000},
        ],
        "thread": {
            "turns": 900,
            "idle_us": 50_000_000,
            "receive_us": 1_000_000,
            "engine_us": 500_000,
            "code_us": 20_000,
            "send_us": 300_000,
        },
        "members": [
            {
                "member": member(i)["member"],
                "role": i,
                "state": "in sync",
                "link": "open",
                "in_flight": i,
                "reads": commands(40, 65536, 200),
                "writes": commands(20, 4096, 400),
                "flushes": commands(2, 0, 5000),
                "sessions": [session(f"10.0.0.{i + 1}:3260")],
            }
            for i in range(members)
        ],
        "runner": {"pid": 4711, "user_seconds": 1.5, "system_seconds": 0.5, "resident_bytes": 64 << 20, "threads": 7},
        **changes,
    }


def answers(
    volumes: list[dict[str, Any]] | None = None,
    events: dict[str, Any] | None = None,
    figures: Any = None,
    spares: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A whole handler."""
    volumes = [volume()] if volumes is None else volumes
    by_name = {one["name"]: one for one in volumes}
    return {
        "version": VERSION,
        "volume.list": {"volumes": volumes},
        "volume.status": lambda asked: by_name[asked["name"]],
        "volume.stats": figures or (lambda asked: stats(asked["name"])),
        "pool.list": {"spares": spares or []},
        "events": events or page(event(1)),
    }
