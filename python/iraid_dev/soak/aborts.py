"""A load of one session that aborts what it asked for, and resets the LUN, at random; it knows what each command
must come to.

A command ends once: by its answer, or by an abort or reset that says it is gone.  A write that was
aborted is there or it is not, and does not land later.  The initiator's own limit for an abort is 15 s.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from iraid_dev.stack.raw_initiator import (
    ABORT_TASK, FUNCTION_COMPLETE, LUN_RESET, TASK_DOES_NOT_EXIST, Answer, RawInitiator,
)  # fmt: skip

BLOCK_BYTES = 4096
BLOCKS = 256
DEPTH = 32
GOOD, CHECK_CONDITION, BUSY, TASK_SET_FULL, TASK_ABORTED = 0x00, 0x02, 0x08, 0x28, 0x40
AGAIN = (BUSY, TASK_SET_FULL, TASK_ABORTED)
UNIT_ATTENTION = 6
READ_10, WRITE_10 = 0x28, 0x2A


class Broken(Exception):
    """An answer that no command may come to."""


@dataclass
class Counts:
    commands: int = 0
    aborted: int = 0  # gone without an answer
    answered_first: int = 0  # the abort came too late
    resets: int = 0
    behind_reset: int = 0  # answered behind a reset that ended it: LIO had completed it, and not yet said so
    again: int = 0  # statuses that ask to send it again
    longest_task_seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.commands} commands, {self.aborted} aborted, {self.answered_first} answered before their abort, "
            f"{self.resets} resets ({self.behind_reset} answers behind them), "
            f"longest task function {self.longest_task_seconds:.2f} s, lost 0, twice 0"
        )


@dataclass
class _Flying:
    block: int
    writes: bytes | None  # None: it reads
    abort_sent: bool = False


@dataclass
class _Task:
    tag: int | None  # the command to be aborted; None: a reset
    sent: float
    ends: list[int] = field(default_factory=list)  # what a reset ends


class Aborts:
    """first_block: of BLOCKS blocks of 4 KiB that nobody else writes; sector: the LUN's, in bytes.

    LIO never gives back the place in its window that an aborted command had, so sessions are used up: log_in makes
    the next."""

    def __init__(self, log_in: Callable[[], RawInitiator], first_block: int, chance: random.Random, sector: int = 512):
        self.log_in, self.first_block, self.chance, self.sector = log_in, first_block, chance, sector
        self.counts = Counts()
        self.content: list[set[bytes]] = [set() for _ in range(BLOCKS)]  # what may be there; empty: anything
        self.flying: dict[int, _Flying] = {}
        self.tasks: dict[int, _Task] = {}
        self.ended_by_reset: set[int] = set()  # tags
        self.resetting = False
        self.round = 0

    def run(self, seconds: float) -> None:
        """Raises Broken, or OSError when the target ends a session."""
        try:
            self._run(time.monotonic() + seconds)
        except TimeoutError:
            raise Broken(
                f"never answered: {self.flying}, {self.tasks}; room: {self.session.room}; {self.counts}"
            ) from None

    def _run(self, end: float) -> None:
        while time.monotonic() < end:
            self.ended_by_reset.clear()
            with self.log_in() as self.session:
                self._use_up(end)

    def _use_up(self, end: float) -> None:
        while time.monotonic() < end:
            while len(self.flying) < DEPTH and self.session.room and not self.resetting:
                self._send()
            if not self.flying and not self.tasks:
                return
            self._order()
            self._take(self.session.receive())
        while self.flying or self.tasks:
            self._take(self.session.receive())

    def _free_block(self) -> int:
        taken = {flying.block for flying in self.flying.values()}
        return self.chance.choice([block for block in range(BLOCKS) if block not in taken])

    def _send(self) -> None:
        block = self._free_block()
        place, sectors = (self.first_block + block) * BLOCK_BYTES // self.sector, BLOCK_BYTES // self.sector
        self.round += 1
        self.counts.commands += 1
        if self.chance.random() < 0.5:
            data = struct.pack("<QQ", self.round, block) * (BLOCK_BYTES // 16)
            cdb = struct.pack(">BBIBHB", WRITE_10, 0, place, 0, sectors, 0)
            self.flying[self.session.send(cdb, data)] = _Flying(block, data)
        else:
            cdb = struct.pack(">BBIBHB", READ_10, 0, place, 0, sectors, 0)
            self.flying[self.session.send(cdb, read_bytes=BLOCK_BYTES)] = _Flying(block, None)

    def _order(self) -> None:
        """Perhaps an abort, perhaps a reset."""
        if self.resetting:
            return
        drawn = self.chance.random()
        if drawn < 0.001:
            self.resetting = True
            self.tasks[self.session.manage(LUN_RESET)] = _Task(None, time.monotonic(), list(self.flying))
        elif drawn < 0.3:
            tags = [tag for tag, flying in self.flying.items() if not flying.abort_sent]
            if tags:
                tag = self.chance.choice(tags)
                self.flying[tag].abort_sent = True
                self.tasks[self.session.manage(ABORT_TASK, tag)] = _Task(tag, time.monotonic())

    def _take(self, answer: Answer) -> None:
        if answer.is_management:
            self._task_ended(answer)
        else:
            self._answered(answer)

    def _answered(self, answer: Answer) -> None:
        flying = self.flying.pop(answer.tag, None)
        if flying is None and answer.tag in self.ended_by_reset:
            self.ended_by_reset.remove(answer.tag)
            self.counts.behind_reset += 1
            return
        if flying is None:
            raise Broken(f"command {answer.tag} was answered though it had ended: status {answer.status:#x}")
        if answer.status == GOOD:
            self._settle(flying, answer.data)
        elif answer.status in AGAIN or self._is_attention(answer):
            self.counts.again += 1
            self._unsure(flying)
        else:
            raise Broken(f"block {flying.block}: status {answer.status:#x}, sense {answer.sense.hex()}")

    @staticmethod
    def _is_attention(answer: Answer) -> bool:
        return answer.status == CHECK_CONDITION and answer.sense_key == UNIT_ATTENTION

    def _settle(self, flying: _Flying, data: bytes) -> None:
        may = self.content[flying.block]
        if flying.writes is not None:
            self.content[flying.block] = {flying.writes}
        elif may and data not in may:
            raise Broken(f"block {flying.block} holds what was not written last: {data[:16].hex()}")
        else:
            self.content[flying.block] = {data}  # what may have been written was, or never will be

    def _unsure(self, flying: _Flying) -> None:
        if flying.writes is not None and self.content[flying.block]:
            self.content[flying.block].add(flying.writes)

    def _task_ended(self, answer: Answer) -> None:
        task = self.tasks.pop(answer.tag, None)
        if task is None:
            raise Broken(f"task function {answer.tag} was answered twice")
        self.counts.longest_task_seconds = max(self.counts.longest_task_seconds, time.monotonic() - task.sent)
        if task.tag is None:
            self._reset_ended(answer, task)
        elif answer.response == FUNCTION_COMPLETE and task.tag in self.flying:
            self.counts.aborted += 1
            self._gone(task.tag)
        elif answer.response in (FUNCTION_COMPLETE, TASK_DOES_NOT_EXIST):
            self.counts.answered_first += task.tag not in self.flying
        else:
            raise Broken(f"an abort got response {answer.response}")

    def _reset_ended(self, answer: Answer, task: _Task) -> None:
        if answer.response != FUNCTION_COMPLETE:
            raise Broken(f"a reset of the LUN got response {answer.response}")
        self.resetting = False
        self.counts.resets += 1
        self.tasks.clear()  # LIO answers no abort that a reset overtakes
        for tag in task.ends:
            if tag in self.flying:
                self.counts.aborted += 1
                self.ended_by_reset.add(tag)
                self._gone(tag)

    def _gone(self, tag: int) -> None:
        self._unsure(self.flying.pop(tag))
        self.session.tasks.pop(tag, None)
