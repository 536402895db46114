"""What is measured: cells (pattern, bytes of a command), and shapes (level, number of members)."""

from __future__ import annotations

from dataclasses import dataclass

from .row import PATTERNS

KIB = 1024
MIB = KIB * KIB
GIB = KIB * MIB
CHUNK_BYTES = 64 * KIB  # of all volumes and arrays that are measured
BLOCKS = (4 * KIB, 64 * KIB, MIB)
BLOCK_BYTES_MAX = 16 * MIB
MEMBERS_MIN_MAX = {0: (2, 32), 1: (2, 4), 5: (3, 32), 6: (4, 32), 10: (3, 32)}
MEMBERS_DEFAULT = {0: 4, 1: 2, 5: 4, 6: 4, 10: 4}
UNITS = {"k": KIB, "m": MIB}


class ValueFault(Exception):
    """A value that was typed; the message says which, and what would do."""


def size_text(size_bytes: int) -> str:
    return f"{size_bytes // MIB}M" if size_bytes % MIB == 0 else f"{size_bytes // KIB}k"


@dataclass(frozen=True)
class Cell:
    pattern: str  # one of PATTERNS, fio's names
    block_bytes: int

    def __str__(self) -> str:
        return f"{size_text(self.block_bytes)} {self.pattern}"


CELLS = tuple(Cell(pattern, block) for pattern in PATTERNS for block in BLOCKS)


@dataclass(frozen=True)
class Shape:
    level: int
    members: int

    @property
    def data_chunks(self) -> float:
        """Of a stripe; a row of level 10 holds half as many as it has members."""
        return {0: self.members, 1: 1, 10: self.members / 2, 5: self.members - 1, 6: self.members - 2}[self.level]


def _block_bytes(word: str) -> int | None:
    number, unit = word[:-1], word[-1:].lower()
    if unit not in UNITS or not number.isdecimal():
        return None
    return int(number) * UNITS[unit]


def parse_cells(text: str) -> tuple[Cell, ...]:
    """Words with commas between: SIZE:PATTERN, or SIZE (with all patterns), or PATTERN (with all sizes)."""
    found: list[Cell] = []
    for word in text.split(","):
        blocks: tuple[int, ...] = BLOCKS
        patterns: tuple[str, ...] = PATTERNS
        parts = word.split(":")
        for part in parts:
            if part in PATTERNS:
                patterns = (part,)
            elif (block := _block_bytes(part)) is not None:
                if block == 0 or block % (4 * KIB) != 0 or block > BLOCK_BYTES_MAX:
                    raise ValueFault(f"{word}: a command has a multiple of 4k, at most {size_text(BLOCK_BYTES_MAX)}")
                blocks = (block,)
            else:
                raise ValueFault(
                    f"{word}: '{part}' is neither a size, such as 4k, 64k or 1M, nor one of {', '.join(PATTERNS)}"
                )
        if len(parts) > 2 or (len(parts) == 2 and (len(blocks) != 1 or len(patterns) != 1)):
            raise ValueFault(f"{word}: a cell is one size and one pattern, such as 4k:randwrite")
        found += [Cell(pattern, block) for pattern in patterns for block in blocks]
    return tuple(dict.fromkeys(found))


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Words with commas between: LEVEL, or LEVEL:MEMBERS."""
    found: list[Shape] = []
    for word in text.split(","):
        level_text, colon, members_text = word.partition(":")
        if not level_text.isdecimal() or int(level_text) not in MEMBERS_MIN_MAX:
            raise ValueFault(
                f"{word}: '{level_text}' is no level; choose from {', '.join(str(level) for level in MEMBERS_MIN_MAX)}"
            )
        level = int(level_text)
        least, most = MEMBERS_MIN_MAX[level]
        if colon and not members_text.isdecimal():
            raise ValueFault(f"{word}: '{members_text}' is no number of members; level {level} has {least} to {most}")
        members = int(members_text) if colon else MEMBERS_DEFAULT[level]
        if not least <= members <= most:
            raise ValueFault(f"{word}: level {level} has {least} to {most} members, not {members}")
        if any(shape.level == level for shape in found):
            raise ValueFault(f"{word}: level {level} is there twice; one number of members a run")
        found.append(Shape(level, members))
    return tuple(found)
