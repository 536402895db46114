#!/usr/bin/python3
"""System calls, copies and page faults of the data path, counted, for docs/design/data-path.md.

    tests/bench/data_path.py [--build DIR] [--json FILE]

Four tgtd on loopback (files on a tmpfs), a P-iRAID volume in nbdkit, one libnbd handle.  For each kind of
command: strace counts the system calls of the volume's thread (the one that runs the engine and all
sessions; nbdkit's own threads are left out), /proc counts its page faults, and the engine says
how many commands the members got.  A report, not a test.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import common
from common import KIB, MIB

MEMBER_BYTES = 128 * MIB
COMMANDS = 512
DEPTHS = (1, 16)
MEMBERS = 4
CHUNK = 64 * KIB
ROW = (MEMBERS - 1) * CHUNK


def volume_thread(pid: int) -> int:
    """The thread that runs the engine: it is named after the volume."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("iraid") and name != "iraid keeper":  # which lives for all volumes
            return int(task.name)
    raise SystemExit(f"data_path: process {pid} has no volume thread")


def page_faults(pid: int, thread: int) -> int:
    fields = Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7]) + int(fields[9])  # minor and major


def member_commands(status: dict) -> int:
    return sum(member["reads"] + member["writes"] for member in status["members"])


def run(handle, submit: Callable[[int, Callable], None], count: int, depth: int) -> None:
    """`count` commands, `depth` in flight."""
    done = 0
    next_number = 0
    flying = 0

    def finished(error) -> int:
        nonlocal done, flying
        if error.value:
            raise SystemExit(f"data_path: a command failed: {os.strerror(error.value)}")
        done += 1
        flying -= 1
        return 1

    while done < count:
        while flying < depth and next_number < count:
            flying += 1
            submit(next_number, finished)
            next_number += 1
        handle.poll(-1)


def strace_counts(path: Path) -> dict[str, int]:
    counts = {}
    for line in path.read_text().splitlines():
        match = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
        if match and match[2] != "total":
            counts[match[2]] = int(match[1])
    return counts


def measure(volume, handle, submit, depth: int, folder: Path) -> dict:
    pid = volume.process.pid
    thread = volume_thread(pid)
    for _ in range(3):  # warm: free lists, arena, sockets
        run(handle, submit, COMMANDS, depth)
    log = folder / "strace"
    tracer = subprocess.Popen(["strace", "-c", "-o", log, "-p", str(thread)], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    tracer.stderr.readline()  # "Process N attached"
    before, faults = volume.status(), page_faults(pid, thread)
    run(handle, submit, COMMANDS, depth)
    faults = page_faults(pid, thread) - faults
    after = volume.status()
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    counts = strace_counts(log)
    return {
        "depth": depth,
        "commands": COMMANDS,
        "member_commands": (member_commands(after) - member_commands(before)) / COMMANDS,
        "system_calls": {name: round(n / COMMANDS, 2) for name, n in sorted(counts.items(), key=lambda item: -item[1])},
        "system_calls_total": round(sum(counts.values()) / COMMANDS, 2),
        "page_faults": faults,
    }


def report(rows: list[dict]) -> None:
    print(f"{'command':28} {'depth':>5} {'to members':>10} {'calls':>7} {'faults':>6}  which")
    for row in rows:
        calls = ", ".join(f"{name} {n:g}" for name, n in list(row["system_calls"].items())[:6])
        print(
            f"{row['command']:28} {row['depth']:5} {row['member_commands']:10.2f} "
            f"{row['system_calls_total']:7.2f} {row['page_faults']:6}  {calls}"
        )


def main() -> None:
    arguments = common.parser(__doc__).parse_args()
    head = common.begin("data path", arguments, f"{MEMBERS} members, chunk {CHUNK // KIB} KiB, level 5")
    rows = []
    with tempfile.TemporaryDirectory() as folder, common.served(5, MEMBERS, MEMBER_BYTES) as bench:
        volume = bench.volume
        handle = volume.connect()
        volume.wait_resynced()
        import nbd

        data = nbd.Buffer.from_bytearray(bytearray(os.urandom(ROW)))
        chunk = nbd.Buffer.from_bytearray(bytearray(os.urandom(CHUNK)))
        small = nbd.Buffer.from_bytearray(bytearray(os.urandom(4 * KIB)))
        inside = nbd.Buffer(CHUNK)
        page = nbd.Buffer(4 * KIB)
        # Far apart, so that nothing merges, and within what one region map block says.
        kinds = {
            "read 4 KiB": lambda i, cb: handle.aio_pread(page, i % 256 * ROW, cb),
            "read 64 KiB": lambda i, cb: handle.aio_pread(inside, i % 256 * ROW, cb),
            "write 4 KiB": lambda i, cb: handle.aio_pwrite(small, i % 256 * ROW, cb),
            "write 64 KiB": lambda i, cb: handle.aio_pwrite(chunk, i % 256 * ROW, cb),
            "write full stripe 192 KiB": lambda i, cb: handle.aio_pwrite(data, i % 256 * ROW, cb),
        }  # fmt: skip
        for command, submit in kinds.items():
            for depth in DEPTHS:
                rows.append({"command": command} | measure(volume, handle, submit, depth, Path(folder)))
        rss = Path(f"/proc/{volume.process.pid}/status").read_text()
    report(rows)
    memory = {key: int(re.search(rf"{key}:\s+(\d+) kB", rss)[1]) for key in ("VmRSS", "RssAnon")}
    print(f"nbdkit with the volume, after the load: {memory}")
    common.write(arguments.json, head, rows=rows, memory_kib=memory)


if __name__ == "__main__":
    main()
