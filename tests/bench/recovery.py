#!/usr/bin/python3
"""How recovery goes: rebuild rate against the foreground's throughput, and what a resync after a crash touches.

    tests/bench/recovery.py [--build DIR] [--seconds N] [--json FILE]

Four tgtd on loopback (files on a tmpfs) and a spare, a P-iRAID volume in nbdkit.  A report, not a test:

 1. for three throttle settings: random 64 KiB writes and reads (half each, depth 16) alone, then beside a
    rebuild onto the spare; the rebuild's rate is what the spare was written;
 2. the gateway is killed under load; the resync that follows is compared with the dirty regions.
"""

from __future__ import annotations

import random
import time

import common
from common import KIB, MIB
from nbd_load import NbdLoad, after

MEMBER_BYTES = 1024 * MIB
MEMBERS = 4
CHUNK = 64 * KIB
DEPTH = 16
RATES = (("20M", "1G"), ("100M", "1G"), ("1G", "1G"))  # minimum (while requests are active), maximum
SIZES = {"M": MIB, "G": 1024 * MIB}


def half_writes(volume_bytes: int):
    """Random 64 KiB commands, half of them writes."""
    blocks = volume_bytes // CHUNK
    return lambda: (random.random() < 0.5, random.randrange(blocks) * CHUNK)


def rebuild_beside_load(minimum: str, maximum: str, seconds: float) -> dict:
    from iraid_dev.stack.private_gateway import call

    with common.served(5, MEMBERS, MEMBER_BYTES, spares=1) as bench:
        volume = bench.volume
        load = NbdLoad(volume.connect(), half_writes(volume.status()["size_bytes"]), CHUNK, DEPTH)
        volume.wait_resynced()
        call(
            volume.control,
            "volume.set",
            name="v0",
            sync_rate_min_bytes=int(minimum[:-1]) * SIZES[minimum[-1]],
            sync_rate_max_bytes=int(maximum[:-1]) * SIZES[maximum[-1]],
        )
        load.run(after(1))
        alone = load.run(after(seconds))
        call(volume.control, "member.fail", name="v0", member="0")
        volume.wait_status(lambda status: status["rebuild"]["running"], "the rebuild's start")
        first, begun = volume.status()["rebuild"]["done_rows"], time.monotonic()

        def over() -> bool:
            return enough() or not volume.status()["rebuild"]["running"]

        enough = after(seconds)
        beside = load.run(over)
        last, took = volume.status(), time.monotonic() - begun
        rows = last["rebuild"]["done_rows"] if last["rebuild"]["running"] else MEMBER_BYTES // CHUNK
        begun, first_idle = time.monotonic(), last["rebuild"].get("done_rows", 0)
        idle = None
        if last["rebuild"]["running"]:
            last = volume.wait_status(lambda status: status["state"] == "active", "the rebuild's end", 300)
            idle = round((MEMBER_BYTES // CHUNK - first_idle) * CHUNK / (time.monotonic() - begun) / 1e6, 1)
    return {
        "rate_min": minimum,
        "rate_max": maximum,
        "alone_mb_s": round(alone, 1),
        "beside_mb_s": round(beside, 1),
        "rebuild_mb_s": round((rows - first) * CHUNK / took / 1e6, 1),
        "rebuild_idle_mb_s": idle,
    }


def resync_after_crash() -> dict:
    with common.served(5, MEMBERS, MEMBER_BYTES) as bench:
        volume = bench.volume
        load = NbdLoad(volume.connect(), half_writes(48 * MIB), CHUNK, DEPTH)
        volume.wait_status(lambda status: status["regions"]["dirty"] == 0, "a clean map", 60)
        load.run(after(1))
        volume.kill()
        with bench.gateway.serve("v0") as volume:
            volume.connect()
            status = volume.wait_resynced()
    regions = status["regions"]
    return {
        "regions": regions["total"],
        "region_bytes": regions["region_bytes"],
        "resynced_rows": status["resync"]["done_rows"],
        "resynced_regions": status["resync"]["done_rows"] * CHUNK // regions["region_bytes"],
        "corrected_rows": status["resync"]["corrected_rows"],
        "read_bytes": [member["read_bytes"] for member in status["members"]],
        "written_bytes": [member["written_bytes"] for member in status["members"]],
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    arguments = parser.parse_args()
    head = common.begin(
        "recovery", arguments, f"{MEMBERS} members of {MEMBER_BYTES // MIB} MiB, chunk {CHUNK // KIB} KiB, level 5"
    )
    rows = []
    print(
        f"{'throttle min..max':>18} {'load alone':>11} {'load beside':>12} {'rebuild':>9} "
        f"{'rebuild, no load':>17}   MB/s"
    )
    for minimum, maximum in RATES:
        row = rebuild_beside_load(minimum, maximum, arguments.seconds)
        rows.append(row)
        print(
            f"{minimum + '..' + maximum:>18} {row['alone_mb_s']:11} {row['beside_mb_s']:12} "
            f"{row['rebuild_mb_s']:9} {row['rebuild_idle_mb_s'] or '-':>17}",
            flush=True,
        )
    crash = resync_after_crash()
    whole = crash["regions"] * crash["region_bytes"]
    print(
        f"resync after a crash: {crash['resynced_regions']} of {crash['regions']} regions, "
        f"{crash['corrected_rows']} rows corrected; read of each member "
        f"{max(crash['read_bytes']) / MIB:.1f} MiB of {whole / MIB:.0f}, "
        f"written {max(crash['written_bytes']) / MIB:.1f} MiB"
    )
    common.write(arguments.json, head, rebuild=rows, resync=crash)


if __name__ == "__main__":
    main()
