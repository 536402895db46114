"""The clock of the day may jump by years: whatever reads it in the handler stands here, with why a jump does no harm.

All that waits or decides uses CLOCK_MONOTONIC.
"""

from __future__ import annotations

import re

from iraid_dev.places import ROOT

HANDLER = ROOT / "handler"
# What reads the clock of the day, or waits by it unless it is told another clock.
WALL = re.compile(
    r"\b(CLOCK_REALTIME\w*|CLOCK_TAI|TIME_UTC|time\s*\(\s*(?:NULL|0|&\w+)\s*\)|gettimeofday\s*\(|realtime_ms\s*\("
    r"|timer_create\s*\(|timerfd_create\s*\(|pthread_mutex_timedlock\s*\(|sem_timedwait\s*\(|mq_timed\w+\s*\()"
)
TIMED_WAIT = re.compile(r"\bpthread_cond_timedwait\s*\(\s*&[\w.>-]*?(\w+)\s*,")
INIT = re.compile(r"\bpthread_cond_init\s*\(\s*&[\w.>-]*?(\w+)\s*,\s*(NULL|&\w+)\s*\)")
MONOTONIC = re.compile(r"\bpthread_condattr_setclock\s*\([^;]*\bCLOCK_MONOTONIC\s*\)")
# file, how often, why it does no harm
KNOWN = {
    "adapters/base/event_ring.c": (2, "the time that an event shows; a number where getrandom() fails"),
    "adapters/base/reactor.c": (2, "realtime_ms() itself"),
    "adapters/base/reactor.h": (1, "its declaration"),
    "adapters/device/member_format.c": (1, "created_s of a spare's superblock, which is shown only"),
    "adapters/drivers/offline.c": (1, "since when a volume is on standby, which is shown only"),
    "adapters/rpc/create.c": (1, "created_s of a volume's superblocks, which is shown only"),
    "adapters/rpc/stats.c": (1, "time_ms of the figures, which is shown only"),
    "adapters/volume/driver.c": (1, "started_ms of the figures, which is shown only"),
    "adapters/volume/role.c": (2, "since when the role is as it is, which is shown only"),
}


def code(text: str) -> str:
    """Without comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def sources() -> dict[str, str]:
    return {
        str(path.relative_to(HANDLER)): code(path.read_text())
        for pattern in ("*.c", "*.h")
        for path in sorted(HANDLER.rglob(pattern))
    }


def test_who_reads_the_clock_of_the_day_is_known_and_why_that_does_no_harm() -> None:
    found = {name: len(WALL.findall(text)) for name, text in sources().items() if WALL.search(text)}
    assert found == {name: count for name, (count, _) in KNOWN.items()}


def test_who_waits_for_a_condition_with_a_time_limit_does_so_by_the_monotonic_clock() -> None:
    """A condition has the clock of the attributes that it is made with; without any, the clock of the day."""
    texts = sources()
    timed = {name for text in texts.values() for name in TIMED_WAIT.findall(text)}
    assert timed
    made = [(path, *found) for path, text in texts.items() for found in INIT.findall(text) if found[0] in timed]
    assert {name for _, name, _ in made} == timed
    for path, name, attributes in made:
        assert attributes != "NULL" and MONOTONIC.search(texts[path]), f"{path}: {name}"


def test_times_that_superblocks_hold_decide_nothing() -> None:
    """Not even which of two is newer: that is (epoch, event count)."""
    used = {
        name: re.findall(r"\b(?:created_s|updated_s)\b[^\n]*", text)
        for name, text in sources().items()
        if name.startswith(("state/", "engine/", "pure/"))
    }
    decides = [f"{name}: {line}" for name, lines in used.items() for line in lines if re.search(r"[<>]|[!=]=", line)]
    assert decides == []
