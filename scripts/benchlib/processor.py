"""Processor time, as the kernel counts it."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Times:
    user_seconds: float
    kernel_seconds: float

    def __sub__(self, other: Times) -> Times:
        return Times(self.user_seconds - other.user_seconds, self.kernel_seconds - other.kernel_seconds)


def of_machine(text: str) -> Times:
    """From the contents of /proc/stat.  Interrupts count as the kernel's; waiting for a disk is idle."""
    user, nice, system, _idle, _iowait, irq, softirq = (int(word) for word in text.split("\n", 1)[0].split()[1:8])
    return Times((user + nice) / TICKS_PER_SECOND, (system + irq + softirq) / TICKS_PER_SECOND)


def of_process(text: str) -> Times:
    """From the contents of /proc/PID/stat: all threads, also those that have ended."""
    words = text.rpartition(")")[2].split()  # the name before it may have blanks
    return Times(int(words[11]) / TICKS_PER_SECOND, int(words[12]) / TICKS_PER_SECOND)


def machine() -> Times:
    return of_machine(Path("/proc/stat").read_text())


def process(pid: int) -> Times:
    return of_process(Path(f"/proc/{pid}/stat").read_text())


def own() -> Times:
    """Of this process and of its children that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Times(sum(one.ru_utime for one in both), sum(one.ru_stime for one in both))
