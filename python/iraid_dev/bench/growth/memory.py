"""Memory of a process, told apart by what it is: /proc/PID/smaps.

The data areas and command rings of TCMU are the kernel's pages, which a runner maps (/dev/uio*).  They count as resident in it
as soon as it has touched them, and are its LUNs', not its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RING = "/dev/uio"
MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ [0-9a-f]+ \S+ \d+ *(.*)")
FIGURE = re.compile(r"(\w+): +(\d+) kB")


@dataclass(frozen=True)
class Memory:
    rss_kib: int = 0
    pss_kib: int = 0
    ring_kib: int = 0  # resident, of the kernel's rings and data areas
    own_kib: int = 0  # resident, anonymous: heap, stacks, buffers

    def to_json(self) -> dict[str, int]:
        return dict(vars(self))


def read_smaps(text: str) -> Memory:
    rss = pss = ring = own = 0
    name = ""
    for line in text.splitlines():
        if found := FIGURE.match(line):
            key, kib = found[1], int(found[2])
            if key == "Rss":
                rss += kib
                ring += kib if name.startswith(RING) else 0
            elif key == "Pss":
                pss += kib
            elif key == "Anonymous" and not name.startswith(RING):
                own += kib
        elif found := MAPPING.fullmatch(line):
            name = found[1]
    return Memory(rss, pss, ring, own)


def of(pid: int, proc: Path = Path("/proc")) -> Memory:
    return read_smaps((proc / str(pid) / "smaps").read_text())
