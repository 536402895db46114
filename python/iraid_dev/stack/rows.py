"""Where a row's chunks stand, and what they make of each other: docs/design/format.md in Python.

    shape = Shape(level=6, count=5, member_chunks=384)
    shape.rows, shape.data_chunks, shape.width
    shape.places(row)         # [(role, chunk of that member)], by position: data, then copies or P or P and Q
    shape.data(chunks)        # by position, None where one is missing: the data chunks, all of them
    shape.fits(chunks)        # do copies, P, Q fit the data?

Nothing of it is taken from pure/geometry.c or pure/code.c, whose errors it is to find: places are dealt out,
and lost chunks are solved for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Chunk = bytes | None


class Unknown(Exception):
    """More chunks of a row are missing than the level makes up for."""


# Arithmetic in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1; g = 2


def times(a: int, b: int) -> int:
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product


@functools.cache
def power(exponent: int) -> int:
    """Of g, whose order is 255."""
    return functools.reduce(lambda value, _: times(value, 2), range(exponent % 255), 1)


@functools.cache
def inverse(value: int) -> int:
    return next(other for other in range(1, 256) if times(value, other) == 1)


@functools.cache
def _table(factor: int) -> bytes:
    return bytes(times(factor, value) for value in range(256))


def scaled(factor: int, chunk: bytes) -> bytes:
    return chunk if factor == 1 else chunk.translate(_table(factor))


def xor(chunks: Iterable[bytes], length: int) -> bytes:
    total = 0
    for chunk in chunks:
        total ^= int.from_bytes(chunk, "little")
    return total.to_bytes(length, "little")


@dataclass(frozen=True)
class Shape:
    level: int
    count: int  # of members
    member_chunks: int

    @property
    def width(self) -> int:
        """Chunks of a row, one on a member each."""
        return 2 if self.level == 10 else self.count

    @property
    def redundancy(self) -> int:
        """Chunks that a row can lose."""
        return {0: 0, 1: self.count - 1, 5: 1, 6: 2, 10: 1}[self.level]

    @property
    def data_chunks(self) -> int:
        return self.width - self.redundancy

    @property
    def rows(self) -> int:
        return self.member_chunks * self.count // 2 if self.level == 10 else self.member_chunks

    def places(self, row: int) -> list[tuple[int, int]]:
        count = self.count
        if self.level == 10:  # two copies of each chunk, dealt to the members in turn
            return [(slot % count, slot // count) for slot in (2 * row, 2 * row + 1)]
        if self.level in (0, 1):
            return [(role, row) for role in range(count)]
        parity = count - 1 - row % count  # P's; the others follow it: Q if there is one, then the data
        others = [(parity + step) % count for step in range(1, count)]
        behind = [parity, others.pop(0)] if self.level == 6 else [parity]
        return [(role, row) for role in others + behind]

    def position(self, row: int, role: int) -> int | None:
        roles = [place[0] for place in self.places(row)]
        return roles.index(role) if role in roles else None

    def bears(self, roles: Iterable[int]) -> bool:
        """Can it do without all of these members?"""
        gone = set(roles)
        rows = range(min(self.rows, self.count))  # who is together in a row repeats
        return all(sum(role in gone for role, _ in self.places(row)) <= self.redundancy for row in rows)

    def data(self, chunks: Sequence[Chunk]) -> list[bytes]:
        """Raises Unknown."""
        data = list(chunks[: self.data_chunks])
        missing = [number for number, chunk in enumerate(data) if chunk is None]
        if not missing:
            return data  # type: ignore[return-value]
        if self.level in (1, 10):
            copy = next((chunk for chunk in chunks if chunk is not None), None)
            if copy is not None:
                return [copy]
        if self.level in (5, 6):
            return self._solved(chunks, missing)
        raise Unknown(f"chunks {missing} of a row of level {self.level}")

    def _solved(self, chunks: Sequence[Chunk], missing: list[int]) -> list[bytes]:
        data = list(chunks[: self.data_chunks])
        known = [(number, chunk) for number, chunk in enumerate(data) if chunk is not None]
        p = chunks[self.data_chunks]
        q = chunks[self.data_chunks + 1] if self.level == 6 else None
        length = max(len(chunk or b"") for chunk in chunks)
        # What the missing ones add up to, plainly and weighed
        plain = None if p is None else xor([p, *(chunk for _, chunk in known)], length)
        weighed = (
            None
            if q is None or (len(missing) == 1 and plain is not None)
            else xor([q, *(scaled(power(number), chunk) for number, chunk in known)], length)
        )
        if len(missing) == 1 and plain is not None:
            data[missing[0]] = plain
        elif len(missing) == 1 and weighed is not None:
            data[missing[0]] = scaled(inverse(power(missing[0])), weighed)
        elif len(missing) == 2 and plain is not None and weighed is not None:
            x, y = missing
            rest = xor([weighed, scaled(power(y), plain)], length)  # (g^x + g^y) Dx
            data[x] = scaled(inverse(power(x) ^ power(y)), rest)
            data[y] = xor([plain, data[x]], length)  # type: ignore[list-item]
        else:
            raise Unknown(f"chunks {missing} of a row of level {self.level}")
        return data  # type: ignore[return-value]

    def redundant(self, data: Sequence[bytes]) -> list[bytes]:
        """What has to stand behind the data: copies, or P, or P and Q."""
        if self.level in (1, 10):
            return [data[0]] * self.redundancy
        length = len(data[0])
        both = [xor(data, length)]
        if self.level == 6:
            both.append(xor((scaled(power(number), chunk) for number, chunk in enumerate(data)), length))
        return both[: self.redundancy]

    def fits(self, chunks: Sequence[bytes]) -> bool:
        data = chunks[: self.data_chunks]
        return list(chunks[self.data_chunks :]) == self.redundant(data)
