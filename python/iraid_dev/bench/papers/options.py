"""What may be typed as an option of the papers' experiments; what may not is refused with the value and what would do."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEVELS = (0, 5, 10)


def list_of(kind: Callable[[str], Any], low: float, high: float) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        try:
            values = [kind(word) for word in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers; write them as 8,16") from None
        for value in values:
            if not low <= value <= high:
                raise argparse.ArgumentTypeError(f"{value:g} is not in {low:g}..{high:g}")
        return values

    return parse


def names_of(known: list[str], what: str) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"there is no {what} '{name}'; there are {', '.join(known)}")
        return names

    return parse


def levels(text: str) -> list[int]:
    words = text.split(",")
    for word in words:
        if word not in map(str, LEVELS):
            raise argparse.ArgumentTypeError(
                f"'{word}' is no level of these experiments; there are {', '.join(map(str, LEVELS))}"
            )
    return [int(word) for word in words]


def throughput(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no throughput in MB/s; an earlier run's rows have it as unshaped_mb_per_s"
        )
    return value


def rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"'{text}' is no speed of a link in 1..100000 Mbit/s")
    return value


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds in 0..3600")
    return value


def file_to_write(text: str) -> Path:
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path}: there is no directory {path.absolute().parent}; make it first")
    return path
