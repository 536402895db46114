#!/usr/bin/python3
"""Faults of a pair of gateways, under a load whose every acknowledged write is looked for afterwards; a table of them.

    scripts/lab --machines a,b,i -- tests/lab/pair_faults.py                        all, with dm-multipath
    scripts/lab --machines a,b,i -- tests/lab/pair_faults.py --path address frozen  a single path, whose address moves
    scripts/lab --machines a,b,i -- tests/lab/pair_faults.py --fail-overs 100

A line of JSON for each fault, then the table.  Exit status 1: something was not as it must be.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pair import MEMBER_ADDRESSES, MULTIPATH, PATHS, Gateway, Pair, PairError, Seen

FREEZE_SECONDS = 60.0
SILENCE_SECONDS = 10.0  # longer than a gateway waits for a member, and an initiator for a path
LOOK_AFTER = 10


@dataclasses.dataclass(frozen=True)
class Failure:
    """Of the active gateway: another one takes over, and it comes back when that has the volume."""

    strike: Callable[[Gateway], None]
    cure: Callable[[Gateway], None]
    hears: bool = True  # the cluster manager still reaches it
    at_once: bool = False  # it is back before the others go on


def _cut(*nets: str) -> Failure:
    def strike(gateway: Gateway) -> None:
        for net in nets:
            gateway.machine.cut(net)

    def cure(gateway: Gateway) -> None:
        for net in nets:
            gateway.machine.heal(net)

    return Failure(strike, cure, hears="peer" not in nets)


def _boot(gateway: Gateway) -> None:
    gateway.machine.boot()
    gateway.come_back()


def _thaw(gateway: Gateway) -> None:
    gateway.machine.thaw()
    gateway.give_address()


FAILURES = {
    "killed-runner": Failure(Gateway.kill_runner, Gateway.start_runner, at_once=True),  # as systemd does
    "killed-kernel": Failure(lambda gateway: gateway.machine.kill(), _boot, hears=False),
    "frozen": Failure(lambda gateway: gateway.machine.freeze(), _thaw, hears=False),
    "cut-members": _cut("back"),
    "cut-both": _cut("front", "back"),
    # Nobody needs that link but the cluster manager, which may take the wrong decision.
    "cut-peer": _cut("peer"),
}


def fail_over(pair: Pair, failure: Failure, seconds: float = 0.0) -> None:
    """seconds: so long it is away at least."""
    failing, other = pair.active, pair.other(pair.active)
    failure.strike(failing)
    if failure.at_once:
        failure.cure(failing)
    pair.take_over(other, reaches_other=failure.hears)
    pair.wait_writes(other)
    time.sleep(max(0.0, seconds - pair.seconds()))
    if not failure.at_once:
        failure.cure(failing)
    if not failure.hears:
        failing.give_address()
    pair.step(f"{failing.machine.name} is back")
    pair.wait_role(failing, "standby")


def planned_move(pair: Pair) -> None:
    pair.move(pair.b)
    pair.wait_writes(pair.b)


def cut_from_initiator(pair: Pair) -> None:
    """Both can do all else: that is a planned move."""
    pair.a.machine.cut("front")
    pair.move(pair.b)
    pair.wait_writes(pair.b)
    pair.a.machine.heal("front")


def half_seen_by_each(pair: Pair) -> None:
    """Neither can have the volume: it waits, and goes on where it was."""
    seen_by = {pair.a: MEMBER_ADDRESSES[:2], pair.b: MEMBER_ADDRESSES[2:]}
    for gateway, seen in seen_by.items():
        for address in set(MEMBER_ADDRESSES) - set(seen):
            gateway.machine.cut_from("back", address)
    refused = pair.b.iraid("activate", "v0", "--take-over", "--timeout", "10")
    pair.step("take-over refused")
    pair.spy.forgive(pair.a.members_see)  # it was preempted on half of them, and has the volume all the same
    for gateway, seen in seen_by.items():
        for address in set(MEMBER_ADDRESSES) - set(seen):
            gateway.machine.heal_from("back", address)
    pair.step("healed")
    if refused.status == 0 or "remedy:" not in refused.errors:
        raise PairError(f"a take-over with half of the members was not refused: {refused}")
    pair.take_over(pair.b, reaches_other=True)
    pair.wait_writes(pair.b)


def slow_members(pair: Pair) -> None:
    pair.a.machine.slow("back", "delay 200ms")
    pair.take_over(pair.b, reaches_other=True)
    pair.wait_writes(pair.b)
    pair.a.machine.quick("back")


def killed_standby(pair: Pair) -> None:
    pair.b.machine.kill()
    pair.wait_writes(pair.a)
    pair.b.machine.boot()
    pair.b.come_back()
    pair.move(pair.b)
    pair.wait_writes(pair.b)


FAULTS: dict[str, Callable[[Pair], None]] = {
    "planned-move": planned_move,
    "cut-initiator": cut_from_initiator,
    "half-each": half_seen_by_each,
    "slow-members": slow_members,
    "killed-standby": killed_standby,
} | {
    name: functools.partial(fail_over, failure=failure, seconds=FREEZE_SECONDS if name == "frozen" else SILENCE_SECONDS)
    for name, failure in FAILURES.items()
}


def suffer(pair: Pair, name: str) -> Seen:
    """Begins and ends with a active and b on standby, and all in sync."""
    pair.begin_writing()
    pair.fault(name)
    FAULTS[name](pair)
    pair.wait_role(pair.a, "standby")
    pair.wait_role(pair.b, "active")
    pair.wait_resynced()
    seen = pair.end_writing()
    pair.b.iraid("standby", "v0").good()
    seen.wrong_rows = pair.wrong_rows()
    pair.move(pair.a)
    return seen


def many(pair: Pair, count: int) -> Iterator[Seen]:
    """Fail-overs in a row, to and fro, each by the next failure, under loads of ten, which are looked for behind each."""
    names = list(FAILURES)
    for first in range(0, count, LOOK_AFTER):
        pair.begin_writing()
        for number in range(first, min(first + LOOK_AFTER, count)):
            name = names[number % len(names)]
            pair.fault(f"{number + 1}: {name}")
            fail_over(pair, FAILURES[name])
            pair.note_promotion()
            yield pair.seen
        pair.fault(f"after {number + 1}")
        pair.wait_resynced()
        yield pair.end_writing()


def table(rows: list[Seen]) -> str:
    lines = [
        "| fault | initiator | longest stall | of it iraid | errors | slots checked, wrong | fio | late writes, reads | steps, seconds |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for seen in rows:
        steps = ", ".join(f"{what} {when:.1f}" for what, when in seen.steps)
        lines.append(
            f"| {seen.fault} | {seen.path} | {seen.stall_seconds:.1f} s | {seen.promote_ms} ms | {len(seen.errors)} | {seen.checked}, "
            f"{len(seen.lost) + seen.wrong_rows} | {seen.fio_turns} | {seen.late_writes}, {seen.late_reads} | {steps} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", help=f"of {', '.join(FAULTS)} (default all)")
    parser.add_argument("--path", choices=PATHS, default=MULTIPATH)
    parser.add_argument("--fail-overs", type=int, metavar="N", help="so many in a row instead")
    given = parser.parse_args()
    for name in given.faults:
        if name not in FAULTS:
            parser.error(f"'{name}' is no fault; choose from {', '.join(FAULTS)}")
    rows = []
    with Pair(Path(os.environ["IRAID_LAB_STATE"]), given.path) as pair:
        names = given.faults or FAULTS
        for seen in many(pair, given.fail_overs) if given.fail_overs else (suffer(pair, name) for name in names):
            rows.append(seen)
            print(json.dumps(dataclasses.asdict(seen)), flush=True)
    print(table(rows))
    return 0 if all(seen.clean() for seen in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
