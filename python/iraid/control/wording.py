"""What several commands say in the same words."""

from . import model
from .units import format_duration, format_size, percent_done


def describe_replay(replay: model.Replay) -> str:
    """ "is replayed, 120 of 400 chunks"; of one that is under way."""
    progress = f", {replay.done_chunks} of {replay.total_chunks} chunks" if replay.total_chunks else ""
    return f"{replay.step}{progress}"


def describe(work: model.Work) -> str:
    """ "43.1 %, 120 MiB/s per member, 2 min 10 s left" or why it waits."""
    parts = [f"{percent_done(work.done_rows, work.total_rows):.1f} %"] if work.total_rows else []
    if work.running and work.bytes_per_second:
        parts.append(f"{format_size(work.bytes_per_second)}/s of each member")
    if work.running and work.seconds_left is not None:
        parts.append(f"{format_duration(work.seconds_left)} left")
    if not work.running and work.reason:
        parts.append(work.reason)
    return ", ".join(parts)
