"""The arithmetic of the papers: their figures, their model, their averages.  Functions of their arguments.

Papers, by short name:

    raid      He, Beedanagari, Zhou: Performance Evaluation of Distributed iSCSI RAID
    layers    Higa, Matsubara, Okamoto, Yamaguchi, Sugita: Optimization of iSCSI Remote Storage Access through Multiple Layers
    aiken     Aiken, Grunwald, Pleszkun, Willeke: A Performance Analysis of the iSCSI Protocol
    chadda    Chadda, Palekar, McClure, ...: Design, Implementation and Performance Analysis of iSCSI
    cern      iSCSI beside other block transports, hardware and software RAID at CERN
"""

from __future__ import annotations

from collections.abc import Mapping

MB = 1e6
OPERATIONS = ("write", "read", "randwrite", "randread")

# raid: against one plain target, mean of the four operations and the best of them
RAID_TARGETS_4 = {"S-iRAID": {"mean": 5.34, "best": 6.6}, "P-iRAID": {"mean": 1.71, "best": 2.17}}
RAID_ONE_TARGET_64K_MB = 11.7
RAID_THREE_TARGETS_64K_MB = 46.1
RAID_UTILISATION = {10: 0.72, 1000: 0.12}  # Mbit/s -> share of the link in use
# layers: RTT in ms -> MB/s, sequential, 10 MB at a time, 1 Gbit/s, tuned parameters
LAYERS_TUNED_MB = {8: 80.0, 16: 46.0, 32: 24.0, 64: 12.0}
LAYERS_BLOCK_BYTES = 10_000_000
LAYERS_GAIN_AT_32_MS = 4.0  # tuned against default
LAYERS_DEFAULT = {
    "InitialR2T": "Yes",
    "ImmediateData": "No",
    "FirstBurstLength": "65536",
    "MaxBurstLength": "262144",
    "MaxRecvDataSegmentLength": "8192",
    "MaxXmitDataSegmentLength": "131072",
}
LAYERS_TUNED = {
    "InitialR2T": "No",
    "ImmediateData": "Yes",
    "FirstBurstLength": "1048576",
    "MaxBurstLength": "1048576",
    "MaxRecvDataSegmentLength": "262144",
    "MaxXmitDataSegmentLength": "262144",
}

# cern: MB/s of Linux' software RAID on six disks; 10 is their 0+1.  CPU load 8 to 25 % (level 0), 7 to 30 % (5).
CERN_JOBS = ("block output", "block input", "write, 1.5 MB", "read, 1.5 MB", "random read, 1.5 MB")
CERN_MB = {
    0: dict(zip(CERN_JOBS, (170.0, 166.0, 166.0, 170.0, 61.0), strict=True)),
    5: dict(zip(CERN_JOBS, (85.0, 131.0, 79.0, 140.0, 62.0), strict=True)),
    10: dict(zip(CERN_JOBS, (84.0, 54.0, 80.0, 56.0, 40.0), strict=True)),
}
# Columns of what bonnie++ 2.00 prints: KiB/s, and its own processor time in percent in the next one.
BONNIE_COLUMNS = {"output": 11, "rewrite": 13, "input": 17}
BONNIE_VERSIONS = ("1.97", "1.98")  # of the line's format
BONNIE_TOO_QUICK = "+++++"

# The link's share of which the machine must be able to move the double, before a figure is one of the link.
HOST_BOUND_SHARE = 0.5


def link_mb_per_s(rate_mbit: float) -> float:
    return rate_mbit / 8


def model_mb_per_s(block_bytes: float, depth: int, rtt_ms: float, rate_mbit: float) -> float:
    """layers, with a depth: `depth` blocks each round trip, but never more than the link has."""
    if block_bytes <= 0 or depth <= 0 or rate_mbit <= 0 or rtt_ms < 0:
        raise ValueError(f"no throughput for {block_bytes} bytes at depth {depth}, {rtt_ms} ms, {rate_mbit} Mbit/s")
    bandwidth = link_mb_per_s(rate_mbit) * MB
    once = rtt_ms / 1e3 + block_bytes / bandwidth
    return min(depth * block_bytes / once, bandwidth) / MB


def depth_for(mb_per_s: float, block_bytes: float, rtt_ms: float) -> int:
    """How many blocks have to be under way (bandwidth times delay)."""
    return max(1, -int(-(mb_per_s * MB * rtt_ms / 1e3) // block_bytes))


def mean_of_operations(mb_per_s: Mapping[str, float]) -> float:
    """raid's "average": the arithmetic mean of the four operations."""
    missing = [name for name in OPERATIONS if name not in mb_per_s]
    if missing:
        raise ValueError(f"no mean of the four operations: {', '.join(missing)} missing")
    return sum(mb_per_s[name] for name in OPERATIONS) / len(OPERATIONS)


def gain(mb_per_s: Mapping[str, float], plain: Mapping[str, float]) -> float:
    """raid's figure of merit: mean against the mean of one plain target."""
    return mean_of_operations(mb_per_s) / mean_of_operations(plain)


def data_members(level: int, members: int) -> int:
    """How many members' links a sequential write has for data."""
    redundant = {0: 0, 5: 1, 6: 2}[level]
    if members <= redundant:
        raise ValueError(f"level {level} on {members} members has no room for data")
    return members - redundant


def whole_rows_bytes(level: int | None, members: int, chunk_bytes: int, wanted_bytes: int) -> int:
    """The shortest request of whole rows that has the wanted length; None: no rows."""
    row_bytes = wanted_bytes if level is None else data_members(level, members) * chunk_bytes
    return -(-wanted_bytes // row_bytes) * row_bytes


def utilisation(wire_bytes: float, seconds: float, rate_mbit: float) -> float:
    """Share of a link, 0..1, in the direction that has more."""
    return wire_bytes / seconds / (link_mb_per_s(rate_mbit) * MB)


def host_bound(links: int, rate_mbit: float, unshaped_mb_per_s: float) -> bool:
    """The links together have more than the share of what the machine moves without shaping: such a figure tells
    of the machine, not of the links."""
    return links * link_mb_per_s(rate_mbit) > HOST_BOUND_SHARE * unshaped_mb_per_s


def shares_of_level_0(mb_per_s: Mapping[int, Mapping[str, float]]) -> dict[int, dict[str, float]]:
    """cern: what each level has of level 0, job by job; only jobs that both have."""
    base = mb_per_s.get(0, {})
    return {
        level: {job: value / base[job] for job, value in jobs.items() if base.get(job)}
        for level, jobs in mb_per_s.items()
        if level != 0
    }


def read_bonnie(text: str) -> dict[str, tuple[float, float]]:
    """MB/s and processor time (percent, of bonnie++ itself) of each test, from what bonnie++ -q printed."""
    line = text.strip().rpartition("\n")[2].split(",")
    if line[0] not in BONNIE_VERSIONS or len(line) <= max(BONNIE_COLUMNS.values()) + 1:
        raise ValueError(f"bonnie++ printed {text.strip()!r}, no line in format {' or '.join(BONNIE_VERSIONS)}")
    found = {}
    for name, column in BONNIE_COLUMNS.items():
        if line[column] == BONNIE_TOO_QUICK:
            raise ValueError(
                f"bonnie++ was through with {name} in less than half a second and gives no figure: its file is too small"
            )
        found[name] = (round(int(line[column]) * 1024 / MB, 2), float(line[column + 1]))
    return found
