#!/usr/bin/python3
"""How long a start replays a full write log: a report, not a test.

    tests/bench/log_replay.py [--build DIR] [--json FILE] [--levels 5,6] [--rounds N] [--rtt MS]

Four tgtd on loopback (files on a tmpfs) behind proxies, a volume in nbdkit with one member out, and deep
writes of 64 KiB.  The round trip is long while they run: so much is logged before a flush has made
room.  Then nbdkit is killed, the round trip is short again, and the next start is timed.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import common
from common import KIB, MIB
from write_log import CHUNK, MEMBERS, OUT, Writer

DEPTH = 1024
MEMBER_BYTES = 8192 * MIB  # whose log may be as full as any
LOAD_SECONDS = 60.0
LEARN_SECONDS = 15.0


def write_until_killed(handle: Any) -> threading.Thread:
    import nbd

    def run() -> None:
        try:
            Writer(handle, 64 * KIB, 3).run(DEPTH, seconds=LOAD_SECONDS)
        except (nbd.Error, SystemExit):
            pass  # its server was killed

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def kill_when_full(volume: Any) -> int:
    """When nearly as much is live as the load ever makes of it; how many bytes."""
    begun = time.monotonic()
    most = 0
    while (passed := time.monotonic() - begun) < LOAD_SECONDS:
        live: int = volume.status()["log"]["bytes"]
        if passed > LEARN_SECONDS and live >= 0.9 * most:
            volume.kill()
            return live
        most = max(most, live)
    raise SystemExit(f"log_replay: the log had {most} live bytes, and never again 0.9 of that")


def replay_seconds(gateway: Any) -> float:
    """A start of the degraded volume: for how long its log is read and replayed, as status tells."""
    seen = []
    with gateway.serve("v0") as volume:
        while (status := volume.status())["state"] not in ("active", "degraded"):
            if status["log"]["replay"]["step"] is not None:
                seen.append(time.monotonic())
        ended = time.monotonic()
        volume.connect()
    return ended - seen[0] if seen else 0.0


def measure(level: int, rtt_ms: float) -> tuple[int, float]:
    """Live bytes at the kill, and seconds of the replay."""
    with common.served(level, MEMBERS, MEMBER_BYTES, delayed=True) as bench:
        volume = bench.volume
        volume.wait_resynced(600)
        bench.farm.kill(OUT)
        volume.wait_status(lambda status: status["log"]["open"], "the write log to be open")
        handle = volume.connect()
        bench.delays.set(rtt_ms)
        writer = write_until_killed(handle)
        live = kill_when_full(volume)
        writer.join()
        bench.delays.set(0)
        return live, replay_seconds(bench.gateway)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--levels", default="5,6", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--rtt", type=float, default=300, help="ms, while it is filled (default: %(default)s)")
    arguments = parser.parse_args()
    about = f"{MEMBERS} members of {MEMBER_BYTES // MIB} MiB, chunk {CHUNK // KIB} KiB, one out"
    head = common.begin("log replay", arguments, about)
    starts = []
    for level in map(int, arguments.levels.split(",")):
        rounds = [measure(level, arguments.rtt) for _ in range(arguments.rounds)]
        starts += [{"level": level, "live_bytes": live, "seconds": seconds} for live, seconds in rounds]
        live, seconds = (statistics.median(figures) for figures in zip(*rounds, strict=True))
        print(
            f"level {level}: {live / MIB:.1f} MiB of records are replayed in {seconds:.2f} s "
            f"(medians of {arguments.rounds}; {min(s for _, s in rounds):.2f} to {max(s for _, s in rounds):.2f})",
            flush=True,
        )
    common.write(arguments.json, head, starts=starts)


if __name__ == "__main__":
    main()
