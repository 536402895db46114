"""Levels, as they are typed, and which one fits where none is."""

from dataclasses import dataclass
from typing import Any

import click

_TYPED = {"0": 0, "1": 1, "5": 5, "6": 6, "10": 10, "s-iraid": 0, "mirror": 1, "p-iraid": 5, "p+q-iraid": 6}
# From so many on a second member is likely to fail before a spare is full.
_MANY = 8


class LevelType(click.ParamType):
    name = "{0,1,5,6,10}"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        level = _TYPED.get(str(value).lower())
        if level is None:
            self.fail(
                f"'{value}' is not a level: 0 (S-iRAID, striped), 1 (copies), 5 (P-iRAID, parity), "
                "6 (two parities) or 10 (striped copies)",
                param,
                ctx,
            )
        return level


@dataclass(frozen=True)
class Fitting:
    """A level for so many members: what it bears, and how much of their space is left."""

    level: int
    how: str
    bears: str
    space: str

    def __str__(self) -> str:
        return f"{self.how}; {self.bears}; {self.space} of the members' space"


def fitting(members: int) -> list[Fitting]:
    """Those that so many members allow, the one to be taken first; none for less than two, or more than 32."""
    if not 2 <= members <= 32:
        return []
    stripes = Fitting(0, "stripes", "no member may be lost", "all")
    one = "one member may be lost"
    if members == 2:
        return [Fitting(1, "two copies", one, "1/2"), stripes]
    parity = Fitting(5, "parity", one, f"{members - 1}/{members}")
    copies = Fitting(10, "stripes of two copies", f"{one}, small writes cost less", "1/2")
    if members == 3:
        return [parity, Fitting(1, "three copies", "two members may be lost", "1/3"), copies, stripes]
    two = Fitting(6, "two parities", "any two members may be lost", f"{members - 2}/{members}")
    return [two, parity, copies, stripes] if members >= _MANY else [parity, two, copies, stripes]


def explain(name: str, members: int) -> list[str]:
    """Why a level was taken that was not given, in lines, and how to take another."""
    taken, *others = fitting(members)
    lines = [
        f"Its level, {taken.level}, is what fits {members} members: {taken}.",
        f"Another one, as long as it holds no data: iraid delete {name}, then iraid create {name} with",
    ]
    return lines + [f"  --level {one.level:<2}  {one}" for one in others]
