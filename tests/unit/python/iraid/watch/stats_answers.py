"""Answers to volume.stats (docs/design/control.md), for tests of what reads them."""

BOUNDS_US = [16 << i for i in range(22)]


def counter(count=0, bytes_each=4096, each_us=1000, errors=0):
    """So many commands of one size that took the same time."""
    buckets = [0] * (len(BOUNDS_US) + 1)
    buckets[next((i for i, bound in enumerate(BOUNDS_US) if each_us <= bound), len(BOUNDS_US))] = count
    return {
        "count": count,
        "bytes": count * bytes_each,
        "errors": errors,
        "sum_us": count * each_us,
        "buckets": buckets,
    }


def session(portal="10.0.0.1:3260", **tcp):
    return {
        "portal": portal,
        "in_flight": 1,
        "tcp": {
            "rtt_us": 850,
            "rtt_var_us": 100,
            "min_rtt_us": 700,
            "cwnd_bytes": 65536,
            "mss_bytes": 1448,
            "in_flight_bytes": 0,
            "retransmits": 0,
            "lost": 0,
            "delivery_bytes_per_second": 100 << 20,
            "pacing_bytes_per_second": 200 << 20,
            "send_queue_bytes": 0,
            "receive_queue_bytes": 0,
            "congestion_control": "cubic",
            **tcp,
        },
    }


def member_stats(index, reads=0, writes=0, **changes):
    return {
        "member": f"10.0.0.{index + 1}:3260/iqn.2026-01.org.example:disk{index}/0",
        "role": index,
        "state": "in sync",
        "link": "open",
        "in_flight": 2,
        "reads": counter(reads),
        "writes": counter(writes),
        "flushes": counter(),
        "sessions": [session(f"10.0.0.{index + 1}:3260")],
        **changes,
    }


def stats(name="v0", reads=0, writes=0, members=None, **changes):
    """After so many reads of 4 KiB that took 1 ms, and so many writes of 64 KiB that took 5 ms."""
    commands = {
        "read": counter(reads),
        "write": counter(writes, 65536, 5000),
        "flush": counter(0, 0),
        "zero": counter(),
        "compare": counter(),
    }
    return {
        "name": name,
        "time_ms": 1795341234567,
        "started_ms": 1795341000000,
        "state": "active",
        "bounds_us": BOUNDS_US,
        "queue": 3,
        "commands": commands,
        "steps": [],
        "members": [member_stats(i, reads, writes) for i in range(4)] if members is None else members,
        "runner": {"pid": 4711, "user_seconds": 1.5, "system_seconds": 1, "resident_bytes": 50 << 20, "threads": 5},
        **changes,
    }
