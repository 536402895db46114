"""The load that aborts: what it says of a target that keeps its word, and of each that does not."""

from __future__ import annotations

import itertools
import random
import struct

import pytest

from iraid_dev.soak import aborts
from iraid_dev.soak.aborts import BLOCK_BYTES, BLOCKS, Aborts, Broken
from iraid_dev.stack.raw_initiator import FUNCTION_COMPLETE, LUN_RESET, TASK_DOES_NOT_EXIST, Answer

LIES = ("answers twice", "answers what it aborted", "writes what it aborted", "forgets", "reads another block")


class Target:
    """A disk in memory that answers in any order, and aborts half of what it is asked to."""

    def __init__(self, seed: int, lie: str = ""):
        self.chance, self.lie = random.Random(seed), lie
        self.tags = itertools.count(1)
        self.disk = [bytes(BLOCK_BYTES)] * BLOCKS
        self.flying: dict[int, tuple[int, bytes]] = {}
        self.answers: list[Answer] = []
        self.later: list[tuple[int, bytes]] = []  # writes that were aborted, and come all the same
        self.room = True
        self.tasks: dict[int, object] = {}

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, cdb: bytes, data: bytes = b"", read_bytes: int = 0) -> int:
        tag = next(self.tags)
        self.flying[tag] = (struct.unpack_from(">I", cdb, 2)[0] * 512 // BLOCK_BYTES, data)
        return tag

    def manage(self, function: int, tag: int = 0) -> int:
        ends = list(self.flying) if function == LUN_RESET else [tag] if self.chance.random() < 0.5 else []
        gone = [self._gone(tag) for tag in ends if tag in self.flying]
        mine = next(self.tags)
        if tag in self.flying and function != LUN_RESET:
            self.answers.append(self._answer(tag))  # it was too late
        done = gone or function == LUN_RESET
        response = FUNCTION_COMPLETE if done else TASK_DOES_NOT_EXIST
        self.answers.append(Answer(mine, response=response, is_management=True))
        return mine

    def _gone(self, tag: int) -> bool:
        block, data = self.flying.pop(tag)
        if self.lie == "answers what it aborted":
            self.later.append((tag, b""))
        elif self.lie == "writes what it aborted" and data:
            self.later.append((block, data))
        return True

    def receive(self) -> Answer:
        if self.answers:
            return self.answers.pop(0)
        if self.lie == "answers what it aborted" and self.later:
            return Answer(self.later.pop(0)[0])
        if not self.flying:
            raise TimeoutError
        return self._answer(self.chance.choice(list(self.flying)))

    def _answer(self, tag: int) -> Answer:
        block, data = self.flying.pop(tag)
        if self.lie == "writes what it aborted" and len(self.later) > 20:
            late, old = self.later.pop(0)
            self.disk[late] = old
        if self.lie == "forgets" and self.chance.random() < 0.01:
            return self.receive()
        if data:
            self.disk[block] = data
        if self.lie == "answers twice" and self.chance.random() < 0.01:
            self.answers.append(Answer(tag))
        other = (block + 1) % BLOCKS if self.lie == "reads another block" else block
        return Answer(tag, data=b"" if data else self.disk[other])


@pytest.fixture
def load(monkeypatch):
    """Each look at the clock is a hundredth of a second later."""
    seconds = itertools.count()
    monkeypatch.setattr(aborts.time, "monotonic", lambda: next(seconds) / 100)
    return lambda lie="": Aborts(lambda: Target(1, lie), 0, random.Random(2))


def test_a_target_that_keeps_its_word_passes_and_is_counted(load):
    made = load()
    made.run(100)
    counts = made.counts
    assert counts.commands > 5000 and counts.aborted > 500 and counts.answered_first > 100 and counts.resets > 2
    assert not made.flying and not made.tasks
    assert "lost 0" in counts.line()


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_found(load, lie):
    with pytest.raises(Broken):
        load(lie).run(100)
