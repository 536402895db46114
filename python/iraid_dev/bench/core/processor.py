"""Processor time of all that runs, task by task.

Not /proc/stat: it counts by ticks, which a guest loses while its host does something else, and a load's own time, which would
have to be taken off, comes from the scheduler's clock; the difference of two clocks went below zero.  Tasks all have the
scheduler's.  An interrupt counts as the task's that it came upon; what comes upon an idle processor is nobody's.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD


@dataclass(frozen=True)
class Times:
    user_seconds: float = 0.0
    kernel_seconds: float = 0.0

    def __add__(self, other: Times) -> Times:
        return Times(self.user_seconds + other.user_seconds, self.kernel_seconds + other.kernel_seconds)

    def __sub__(self, other: Times) -> Times:
        return Times(self.user_seconds - other.user_seconds, self.kernel_seconds - other.kernel_seconds)

    @property
    def seconds(self) -> float:
        return self.user_seconds + self.kernel_seconds


Task = tuple[int, int]  # number, start: numbers are used again
Snapshot = dict[Task, Times]


def read_stat(text: str) -> tuple[int, bool, Times]:
    """Of the contents of /proc/PID/stat: start, whether it is the kernel's, times of all threads, also those that ended."""
    words = text.rpartition(")")[2].split()  # the name before it may have blanks
    user, kernel = (int(word) / TICKS_PER_SECOND for word in words[11:13])
    of_kernel = bool(int(words[6]) & KERNEL_THREAD)
    return int(words[19]), of_kernel, Times(0.0, user + kernel) if of_kernel else Times(user, kernel)


def snapshot(proc: Path = Path("/proc")) -> Snapshot:
    """Of all processes and kernel threads but this process."""
    found: Snapshot = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            start, of_kernel, times = read_stat((folder / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a kernel may have no schedstat
            if of_kernel:  # to the ns: there are many, each with little
                times = Times(0.0, int((folder / "schedstat").read_text().split()[0]) / 1e9)
        found[int(folder.name), start] = times
    return found


def spent(before: Snapshot, after: Snapshot) -> Times:
    """By those that are there afterwards: not by the load, which has ended."""
    return sum((times - before.get(task, Times()) for task, times in after.items()), Times())


def spent_by(number: int, before: Snapshot, after: Snapshot) -> Times:
    """By one process."""
    return spent(before, {task: times for task, times in after.items() if task[0] == number})
