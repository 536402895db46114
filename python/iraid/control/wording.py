"""What several commands say in the same words."""

from collections import Counter

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


def describe_holder(holder: model.Holder) -> str:
    """Who has a volume that is on standby here.  Where members say different things, all of it."""
    answers = [one for one in holder.members if not one.error]
    if not answers:
        errors = [one.error for one in holder.members if one.error]
        return f"unknown: no member could be asked ({errors[0]})" if errors else "unknown: nobody was asked"
    count = Counter(one.key for one in answers)
    said = [_holder_in_words(key, number, len(holder.members), holder.own_key) for key, number in count.most_common()]
    return "; ".join(said)


def _holder_in_words(key: str | None, number: int, total: int, own_key: str) -> str:
    where = f"{number} of {total} members"
    if key is None:
        return f"nobody, say {where}"
    return f"{'this gateway' if key == own_key else 'the gateway with key ' + key}, say {where}"
