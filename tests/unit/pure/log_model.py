"""A small volume that loses gateways, caches and members, with the write log as docs/design/write-log.md has it.

No code of the product: it proves the rules, not the engine.  A chunk is a number, P and Q are sums of numbers, and
whatever happens happens between two writes to members.  `Model(level, seed, RULES - {"heal"}).run()` leaves a rule out.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from iraid_dev.stack.log_reader import Record, decide

MODULUS = 65521
ROWS, WIDTH = 3, 4
RULES = frozenset(
    {
        "entering",  # unlogged writes are finished and flushed before the key is recorded
        "ahead",  # a record is durable before its row is touched
        "in order",  # so are all before it
        "flushed",  # a record is live until its row is flushed
        "live rows logged",  # a row with a live record is written by logged writes only
        "known rows rest",  # one with a live known record is flushed first
        "emptied",  # the log is empty when a member returns
        "key removed",  # giving up removes the key before anything is written without a record
        "heal",  # a replay first makes its records whole on as many members as are needed
        "merged",  # a replay writes a row once, with what all of its records make of it
        "hole",  # nothing is replayed before a hole
        "newest",  # the newest durable record may be in a log that can't be read
        "known if bare",  # whole rows have known pieces only while no further member can be lost
    }
)
Steps = Generator[None, None, None]


class Wrong(Exception):
    """What was read is not what it may be."""


@dataclass
class Logged:
    """A copy of a record."""

    sequence: int
    tail: int
    durable: int
    row: int
    pieces: dict[int, int]  # by position: chunk
    known: bool


@dataclass
class Member:
    media: list[int] = field(default_factory=lambda: [0] * ROWS)
    cache: list[tuple[int, int]] = field(default_factory=list)  # (row, chunk), in order
    log: dict[int, Logged] = field(default_factory=dict)  # of this key, by sequence
    rotten: bool = False  # there are blocks of the log that can't be read

    def read(self, row: int) -> int:
        return next((chunk for at, chunk in reversed(self.cache) if at == row), self.media[row])

    def write(self, row: int, chunk: int) -> None:
        self.cache.append((row, chunk))

    def flush(self) -> None:
        for row, chunk in self.cache:
            self.media[row] = chunk
        self.cache.clear()


class Model:
    def __init__(self, level: int, seed: int, rules: frozenset[str] = RULES):
        self.rng, self.rules = random.Random(seed), rules
        self.bears, self.data = (1, 3) if level == 5 else (2, 2)
        self.members = [Member() for _ in range(WIDTH)]
        self.number = 0
        # by row and position of data: the numbers of writes
        self.submitted = [[{0} for _ in range(self.data)] for _ in range(ROWS)]
        self.acknowledged = [[0] * self.data for _ in range(ROWS)]
        self.flushed = [[0] * self.data for _ in range(ROWS)]
        # what superblocks say, each change in one step
        self.out: set[int] = set()
        self.key = False
        self.forget()

    def forget(self) -> None:
        """The gateway's memory."""
        self.steps: list[Steps] = []
        self.busy: set[int] = set()
        self.suspended = self.gave_up = False
        self.sequence = 1
        self.complete: set[int] = set()
        self.live: dict[int, tuple[int, bool]] = {}  # by sequence: row, known
        self.written: set[int] = set()
        self.retired: set[int] = set()

    # --- rows ---

    def role(self, row: int, position: int) -> int:
        return (position + row) % WIDTH

    def member(self, row: int, position: int) -> Member | None:
        """None: it is out."""
        role = self.role(row, position)
        return None if role in self.out else self.members[role]

    def redundancy(self, data: list[int]) -> list[int]:
        sums = [sum(data), sum((i + 2) * chunk for i, chunk in enumerate(data))]
        return [sum_ % MODULUS for sum_ in sums[: self.bears]]

    def there(self, row: int) -> dict[int, int]:
        """By position: what members in sync hold."""
        return {at: member.read(row) for at in range(WIDTH) if (member := self.member(row, at))}

    def content(self, row: int) -> list[int]:
        """The row's data; what is out is made from the rest."""
        there = self.there(row)
        data = [there.get(at, 0) for at in range(self.data)]
        missing = [at for at in range(self.data) if at not in there]
        left = {
            at - self.data: (there[at] - sum_) % MODULUS
            for at, sum_ in enumerate(self.redundancy(data), self.data)
            if at in there
        }
        if len(missing) == 2:
            a, b = missing
            data[b] = (left[1] - (a + 2) * left[0]) * pow(b - a, -1, MODULUS) % MODULUS
            data[a] = (left[0] - data[b]) % MODULUS
        elif missing:
            which, rest = next(iter(left.items()))
            data[missing[0]] = rest * pow(1 if which == 0 else missing[0] + 2, -1, MODULUS) % MODULUS
        return data

    def fits(self, row: int) -> bool:
        data = self.content(row)
        whole = data + self.redundancy(data)
        return all(whole[at] == chunk for at, chunk in self.there(row).items())

    def in_sync(self) -> list[Member]:
        return [member for role, member in enumerate(self.members) if role not in self.out]

    def shuffled(self, what: Iterable) -> list:
        what = list(what)
        return self.rng.sample(what, len(what))

    # --- what the gateway does, a step at a time ---

    @property
    def copies(self) -> int:
        return self.bears + 1 - len(self.out)

    @property
    def durable(self) -> int:
        sequence = 0
        while sequence + 1 in self.complete:
            sequence += 1
        return sequence

    def log(
        self, row: int = -1, pieces: dict[int, int] | None = None, known: bool = False, more: int = 0
    ) -> Generator[None, None, int]:
        """It and all before it are durable on return.  Without pieces: a tail record.  `more`: copies beyond need."""
        sequence, self.sequence = self.sequence, self.sequence + 1
        retired = self.retired if "flushed" in self.rules else self.written
        tail = min((live for live in self.live if live not in retired), default=sequence)
        if pieces:
            self.live[sequence] = (row, known)
        record = Logged(sequence, tail, max(self.durable, tail - 1), row, pieces or {}, known)
        for role in self.rng.sample([role for role in range(WIDTH) if role not in self.out], self.copies + more):
            yield
            if role not in self.out:
                self.members[role].log[sequence] = record
        self.complete.add(sequence)
        while "in order" in self.rules and self.durable < sequence:
            yield
        for old in [old for old in self.live if old < tail]:
            del self.live[old]
        return sequence

    def flush(self) -> Steps:
        covered, written = [row[:] for row in self.acknowledged], set(self.written)
        for member in self.shuffled(self.in_sync()):
            yield
            member.flush()
        self.flushed = [
            [max(pair) for pair in zip(*rows, strict=True)] for rows in zip(covered, self.flushed, strict=True)
        ]
        self.retired |= written

    def flush_and_tail(self) -> Steps:
        yield from self.flush()
        yield from self.log()

    def is_live(self, row: int, known: bool = False) -> bool:
        return any(at == row and (is_known or not known) for at, is_known in self.live.values())

    def write(self, row: int, positions: list[int]) -> Steps:
        """Some of a row's data, or all."""
        while "known rows rest" in self.rules and self.is_live(row, known=True):
            yield from self.flush_and_tail()
        data = self.content(row)
        for at in positions:
            self.number += 1
            data[at] = self.number
            self.submitted[row][at].add(self.number)
        whole = data + self.redundancy(data)
        chunks = {at: whole[at] for at in (*positions, *range(self.data, self.data + self.bears))}
        record = self.record_of(row, whole, chunks)
        sequence = (yield from self.log(row, *record)) if record and "ahead" in self.rules else 0
        for at in self.shuffled(chunks):
            yield
            if member := self.member(row, at):
                member.write(row, chunks[at])
        if record and not sequence:
            sequence = yield from self.log(row, *record)
        self.written.add(sequence)
        for at in positions:
            self.acknowledged[row][at] = data[at]
        self.busy.remove(row)

    def record_of(self, row: int, whole: list[int], chunks: dict[int, int]) -> tuple[dict[int, int], bool] | None:
        """Pieces, and whether they are known ones; None: it needs no record."""
        lacking = [at for at in range(self.data) if not self.member(row, at)]
        bare = len(self.out) == self.bears
        live = self.is_live(row)
        if not self.out or not self.key or self.gave_up:
            return None
        if bare and not lacking and not (live and "live rows logged" in self.rules):
            return None
        if len(chunks) == WIDTH and lacking and not live and (bare or "known if bare" not in self.rules):
            return {at: whole[at] for at in lacking}, True
        return {at: chunk for at, chunk in chunks.items() if self.member(row, at)}, False

    # --- members that go and come, and the log with them ---

    def evict(self) -> None:
        self.out.add(self.rng.choice([role for role in range(WIDTH) if role not in self.out]))
        if not self.key and not self.gave_up:
            self.suspended = True
            self.steps.append(self.enter(list(self.steps)))

    def enter(self, before: list[Steps]) -> Steps:
        while "entering" in self.rules and any(step in self.steps for step in before):
            yield
        if "entering" in self.rules:
            yield from self.flush()
        self.open_log()
        self.suspended = False

    def open_log(self) -> None:
        self.key = True
        for member in self.members:
            member.log, member.rotten = {}, False

    def settle(self) -> None:
        """Nothing is under way."""
        while self.steps:
            self.turn()

    def come_back(self, role: int) -> Steps:
        if "emptied" in self.rules:  # also of writes that needed no record, and would need one now
            yield from self.flush()
            yield from self.log(more=1)  # for then one more can be lost
        for row in range(ROWS):
            data = self.content(row)
            whole = data + self.redundancy(data)
            self.members[role].write(row, whole[(role - row) % WIDTH])
        self.members[role].flush()
        self.members[role].log, self.members[role].rotten = {}, False
        self.out.discard(role)
        self.key = self.key and bool(self.out)
        self.suspended = False

    def give_up(self) -> Steps:
        yield from self.flush()
        self.gave_up, self.suspended = True, False
        self.key = self.key and "key removed" not in self.rules

    # --- the gateway dies, and starts again ---

    def crash(self) -> None:
        """With it go caches, a record of a log, and a member, if one can be lost."""
        caches = self.rng.random() < 0.5
        for member in self.members:
            if caches and self.rng.random() < 0.5:
                member.cache = [write for write in member.cache if self.rng.random() < 0.5]
                member.flush()
                self.caches_lost = True
            if member.log and self.rng.random() < 0.05:  # a record rots
                del member.log[self.rng.choice(list(member.log))]
                member.rotten = True
        if len(self.out) < self.bears and self.rng.random() < 0.3:
            self.out.add(self.rng.choice([role for role in range(WIDTH) if role not in self.out]))
        self.forget()

    def start(self) -> Steps:
        """Replays, and looks at everything."""
        torn: set[int] = set()  # rows that may be, and nobody knows
        if self.key:
            unread = sum(member.rotten for member in self.in_sync())
            copies = [record for member in self.in_sync() for record in member.log.values()]
            found = decide(map(self.as_record, copies), "newest" in self.rules and unread >= self.copies)
            records = found.records
            if found.missing:
                torn = self.unflushed()
                if "hole" not in self.rules:
                    records = tuple(self.as_record(copy) for copy in sorted(copies, key=lambda copy: copy.sequence))
                    records = tuple(record for record in records if record.sequence < found.missing[0])
            yield from self.replay([next(c for c in copies if c.sequence == r.sequence) for r in records])
        elif self.out or self.was_out:
            torn = self.unflushed()
        if not self.out:
            for row in range(ROWS):
                self.resync(row)
        self.look(torn)
        for member in self.in_sync():
            member.flush()
        self.caches_lost = False
        self.was_out = False
        self.key = False
        if self.out:
            self.open_log()

    caches_lost = was_out = False

    def as_record(self, copy: Logged) -> Record:
        return Record(
            copy.sequence, copy.tail, copy.durable, copy.sequence - 1, 1, copy.sequence, (), True, copy.sequence
        )

    def unflushed(self) -> set[int]:
        return {
            row
            for row in range(ROWS)
            for at in range(self.data)
            if max(self.submitted[row][at]) > self.flushed[row][at]
        }

    def replay(self, copies: list[Logged]) -> Steps:
        for copy in copies if "heal" in self.rules else ():
            holding = [member for member in self.in_sync() if copy.sequence in member.log]
            for member in [member for member in self.in_sync() if member not in holding][: self.copies - len(holding)]:
                yield
                member.log[copy.sequence] = copy
        for row, pieces in self.merged(copies) if "merged" in self.rules else map(self.pieces_of, copies):
            for at, chunk in pieces.items():
                yield
                if member := self.member(row, at):
                    member.write(row, chunk)
        for member in self.in_sync():
            yield
            member.flush()

    def pieces_of(self, copy: Logged) -> tuple[int, dict[int, int]]:
        """The row, and what is written to it."""
        if not copy.known:
            return copy.row, copy.pieces
        there = self.there(copy.row) | copy.pieces
        if any(at not in there for at in range(self.data)):
            raise Wrong(f"row {copy.row}: what is known of it is not enough")
        return copy.row, dict(enumerate(self.redundancy([there[at] for at in range(self.data)]), self.data))

    def merged(self, copies: list[Logged]) -> list[tuple[int, dict[int, int]]]:
        rows: dict[int, dict[int, int]] = {}
        for row, pieces in map(self.pieces_of, copies):
            rows[row] = rows.get(row, {}) | pieces
        return list(rows.items())

    def resync(self, row: int) -> None:
        for at, chunk in enumerate(self.redundancy(self.content(row)), self.data):
            if member := self.member(row, at):
                member.write(row, chunk)

    def look(self, torn: set[int]) -> None:
        """Every chunk is what it may be; from here on it is what it is."""
        for row in range(ROWS):
            data = self.content(row)
            for at in range(self.data):
                least = (self.flushed if self.caches_lost else self.acknowledged)[row][at]
                if row in torn and not self.member(row, at):
                    self.number += 1
                    data[at] = self.number  # lost, with an error, and written anew
                    self.submitted[row][at] = {data[at]}
                elif data[at] not in self.submitted[row][at] or data[at] < least:
                    raise Wrong(f"row {row}, chunk {at}: {data[at]}, and may be {least} or later")
                self.acknowledged[row][at] = self.flushed[row][at] = data[at]
                self.submitted[row][at] = {data[at]}
            for at, chunk in enumerate(data + self.redundancy(data)):
                member = self.member(row, at)
                if row in torn and member:
                    member.write(row, chunk)
            if not self.fits(row):
                raise Wrong(f"row {row}: P or Q does not fit")

    # --- a life ---

    def turn(self) -> None:
        step = self.rng.choice(self.steps)
        try:
            next(step)
        except StopIteration:
            self.steps.remove(step)

    def something(self) -> None:
        drawn = self.rng.random()
        if drawn < 0.25 and not self.suspended:
            free = [row for row in range(ROWS) if row not in self.busy]
            if free:
                row = self.rng.choice(free)
                self.busy.add(row)
                whole = self.rng.random() < 0.4
                positions = list(range(self.data)) if whole else [self.rng.randrange(self.data)]
                self.steps.append(self.write(row, positions))
        elif drawn < 0.29:
            self.steps.append(self.flush())
        elif drawn < 0.31 and len(self.out) < self.bears and not self.suspended:
            self.was_out = True
            self.evict()
        elif drawn < 0.32 and self.out and not self.suspended:
            self.settle()
            self.suspended = True
            self.steps.append(self.come_back(self.rng.choice(sorted(self.out))))
        elif drawn < 0.325 and self.key and not self.suspended:
            self.settle()
            self.suspended = True
            self.steps.append(self.give_up())
        elif drawn < 0.36:
            self.crash()
            self.restart()
        elif self.steps:
            self.turn()

    def restart(self) -> None:
        """Again and again, if it is interrupted."""
        while True:
            for _ in self.start():
                if self.rng.random() < 0.1:
                    self.crash()
                    break
            else:
                return

    def run(self, events: int = 120) -> None:
        for _ in range(events):
            self.something()
        self.crash()
        self.restart()
