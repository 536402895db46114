"""Sizes as people write and read them: binary units only, so that 64K is 65536 everywhere."""

import re
from datetime import datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE = re.compile(r"([0-9]+)\s*(?:([kmgtpe])(?:i?b)?|b)?", re.IGNORECASE)
_DECIMAL = re.compile(r"[0-9]+\s*([kmgtpe])b", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of "65536", "64K", "64KiB", "1 MiB".

    "64KB" is refused: to some it is 64000.  Raises ValueError with a text for a person.
    """
    text = text.strip()
    if decimal := _DECIMAL.fullmatch(text):
        letter = decimal[1].upper()
        raise ValueError(f"'{text}' is ambiguous: write {letter}iB (1024) instead of {letter}B")
    matched = _SIZE.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not a size: write bytes, or a number with K, M, G or T")
    power = "bkmgtpe".index((matched[2] or "b").lower())
    return int(matched[1]) << 10 * power


def format_size(size_bytes: int) -> str:
    """ "64 KiB", "1.5 TiB": the largest unit that leaves a number of at least 1."""
    power = 0
    while power + 1 < len(_UNITS) and size_bytes >= 1024 ** (power + 1):
        power += 1
    number = size_bytes / 1024**power
    # Rounding may reach the next unit: 1023.99 MiB is 1 GiB for a reader.
    if round(number, 1) >= 1024 and power + 1 < len(_UNITS):
        power += 1
        number = size_bytes / 1024**power
    return f"{round(number, 1):g} {_UNITS[power]}"


def percent_done(done: int, total: int) -> float:
    """0.0 to 100.0; 100 only when all of it is done, so that 99.96 doesn't look finished."""
    if total <= 0 or done >= total:
        return 100.0
    return min(99.9, round(100.0 * done / total, 1))


def format_duration(seconds: int) -> str:
    """ "45 s", "2 min 10 s", "3 h 5 min", "2 d 4 h": the two largest units."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def local_time(time_ms: int) -> datetime:
    """Of milliseconds since 1970; what is in no calendar is the beginning of 1970."""
    try:
        return datetime.fromtimestamp(time_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0).astimezone()
