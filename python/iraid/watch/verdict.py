"""How a volume is, in one word and a sentence, and what to do next.  Status in, verdict out: nothing is asked.

What to do is always a command that can be typed; where a device must be chosen it says DEVICE.
"""

from dataclasses import dataclass, field

from iraid.control import model
from iraid.control.units import format_size
from iraid.control.wording import describe, describe_replay

# Exit status of `iraid status --health`: the worst of all volumes.
GOOD, ATTENTION, FAILED = 0, 1, 2

_STYLES = {"OK": "green", "STOPPED": "", "STANDBY": "", "WORK": "cyan", "FAILED": "red", "SUSPENDED": "red"}


@dataclass
class Verdict:
    name: str
    word: str  # OK, STOPPED, STANDBY, WORK, WAITING, ATTENTION, DEGRADED, SUSPENDED, FAILED
    grade: int  # GOOD, ATTENTION or FAILED
    text: str
    remedies: list[str] = field(default_factory=list)  # the first is the first to be done
    notes: list[str] = field(default_factory=list)  # what could be better, and hurts nobody now

    @property
    def style(self) -> str:
        return _STYLES.get(self.word, "yellow")


def judge(volume: model.Volume, shared_spares: int = 0) -> Verdict:
    """shared_spares: of the gateway, for all volumes."""
    if volume.state in ("stopped", "stopping"):
        return _stopped(volume)
    if volume.state == "standby":
        return Verdict(
            volume.name,
            "STANDBY",
            GOOD,
            volume.reason or "it is on standby on this gateway",
            [f"iraid activate {volume.name}"],
        )
    if volume.state == "failed":
        # Only of one whose file has a fault no members are known.
        see = "iraid events" if volume.members else "iraid config check"
        # Another start would be refused as well; of a pair it is the other one's turn.
        next_ = "iraid standby" if "another gateway" in (volume.reason or "") else "iraid start"
        return Verdict(
            volume.name,
            "FAILED",
            FAILED,
            volume.reason or "it does not work; the reason is not known",
            [f"{see} {volume.name}", f"{next_} {volume.name}"],
        )
    if volume.state == "suspended":
        return Verdict(
            volume.name,
            "SUSPENDED",
            FAILED,
            f"I/O waits, because too many members are silent: {_named(_silent(volume))}",
            [f"iraid events {volume.name}", "iraid doctor"],
        )
    if volume.log.replay.step:
        why = f"; {volume.reason}" if volume.reason else ""
        return Verdict(
            volume.name,
            "WAITING",
            ATTENTION,
            f"the write log {describe_replay(volume.log.replay)}{why}",
            [f"iraid status {volume.name}"],
        )
    if volume.state not in ("active", "degraded"):
        return Verdict(
            volume.name,
            "WAITING",
            ATTENTION,
            volume.reason or f"it is {volume.state} and waits for {_named(_silent(volume)) or 'its members'}",
            [f"iraid status {volume.name}", f"iraid start {volume.name} --timeout 60"],
        )
    return _running(volume, shared_spares)


def _stopped(volume: model.Volume) -> Verdict:
    if volume.state == "stopping":
        return Verdict(volume.name, "STOPPED", GOOD, "it is being stopped", [f"iraid status {volume.name}"])
    why = f"it is stopped: {volume.reason}" if volume.reason else "it is stopped"
    return Verdict(volume.name, "STOPPED", GOOD, why, [f"iraid start {volume.name}"])


def _running(volume: model.Volume, shared_spares: int) -> Verdict:
    out = roles_out(volume)
    texts: list[str] = []
    remedies: list[str] = []
    word, grade = "OK", GOOD
    if out:
        word, grade = "DEGRADED", ATTENTION
        texts.append("; ".join(_why_out(volume, role) for role in out))
        remedies += _bring_back(volume, out, shared_spares)
    work = _work(volume)
    if work:
        texts.append(work)
        if grade == GOOD:
            word, grade = "WORK", ATTENTION
            remedies.append(f"iraid wait {volume.name}")
    for text, commands in _troubles(volume):
        texts.append(text)
        remedies += commands
        if grade == GOOD or word == "WORK":
            word, grade = "ATTENTION", ATTENTION
    texts.append(bears(volume, out))
    if volume.scrub.active:
        texts.append(f"scrub {describe(volume.scrub)}".rstrip())
    return Verdict(
        volume.name, word, grade, "; ".join(texts), list(dict.fromkeys(remedies)), _notes(volume, shared_spares)
    )


# --- members ---


def roles(volume: model.Volume) -> list[int]:
    """All that the level needs, whether or not a device is there for them."""
    return sorted({m.role for m in volume.members if m.role is not None and m.role >= 0} | set(volume.empty_roles))


def roles_out(volume: model.Volume) -> list[int]:
    held = {m.role for m in volume.members if m.state == "in sync"}
    return [role for role in roles(volume) if role not in held]


def _of_role(volume: model.Volume, role: int) -> model.Member | None:
    """The one that is to hold it: who is being filled comes before who was given up."""
    order = ("in sync", "rebuilding", "out of date", "unknown", "missing", "faulty")
    mine = [m for m in volume.members if m.role == role]

    def rank(member: model.Member) -> int:
        return order.index(member.state) if member.state in order else len(order)

    return min(mine, key=rank) if mine else None


def _silent(volume: model.Volume) -> list[str]:
    return [
        str(m.role) if m.role is not None and m.role >= 0 else m.member
        for m in volume.members
        if m.state != "spare" and m.link != "open"
    ]


def _named(whom: list[str]) -> str:
    if not whom:
        return ""
    return f"member{'s' if len(whom) > 1 else ''} {', '.join(whom)}"


def _why_out(volume: model.Volume, role: int) -> str:
    member = _of_role(volume, role)
    if member is None:
        return f"member {role} has no device"
    why = f" ({member.reason})" if member.reason and member.state != "rebuilding" else ""
    return f"member {role} is {member.state}{why}"


def _bring_back(volume: model.Volume, out: list[int], shared_spares: int) -> list[str]:
    """Each that does not come back by itself needs a command; what does is waited for."""
    wanted = []
    coming = bool(volume.rebuild.member)
    spares = shared_spares + sum(m.state == "spare" for m in volume.members)
    for role in out:
        member = _of_role(volume, role)
        if member is not None and member.state in ("rebuilding", "out of date"):
            coming = True
        elif member is None:
            wanted.append(f"iraid replace {volume.name} {role} DEVICE --wait")
        elif spares > 0 and member.link != "open":
            spares -= 1
            coming = True
        elif member.link == "open":  # it answers: taken out by hand, or for its errors
            wanted.append(f"iraid rebuild {volume.name} {role} --wait")
        else:
            wanted.append(f"iraid examine {member.member}")
            wanted.append(f"iraid replace {volume.name} {role} DEVICE --wait")
    return wanted + ([f"iraid wait {volume.name}"] if coming else [])


# --- what is borne ---


def bears(volume: model.Volume, out: list[int] | None = None) -> str:
    """How many more members may be lost now; of regions whose parity is not verified yet none, which is said.

    Copies cost nothing there: any of them is a possible truth (docs/design/levels.md).
    """
    out = roles_out(volume) if out is None else out
    count = len(roles(volume))
    suspect = volume.regions.suspect if volume.level in (5, 6) else 0
    unproven = (
        f", but of none in {suspect} of {volume.regions.total} regions until they are verified" if suspect else ""
    )
    if volume.level == 10:
        return _bears_of_copies(count, out)
    left = _left(volume.level, count, out)
    if left <= 0:
        return "survives no loss" if volume.level == 0 else "survives no further loss"
    return f"survives the loss of any {'member' if left == 1 else f'{left} members'}{unproven}"


def expendable(volume: model.Volume) -> list[int]:
    """Those in sync of which any one alone may be lost now: all of them or none, but on level 10."""
    everyone, out = roles(volume), roles_out(volume)
    if volume.level == 10:
        needed = _alone(len(everyone), out)
    else:
        needed = [] if _left(volume.level, len(everyone), out) > 0 else everyone
    return [role for role in everyone if role not in out and role not in needed]


def _left(level: int | None, count: int, out: list[int]) -> int:
    return {0: 0, 1: count - len(out) - 1, 5: 1 - len(out), 6: 2 - len(out)}.get(level or 0, 0)


def copies_of(count: int, role: int) -> set[int]:
    """Level 10: who holds chunks that this one holds, too."""
    return {role ^ 1} if count % 2 == 0 else {(role - 1) % count, (role + 1) % count}


def _alone(count: int, out: list[int]) -> list[int]:
    """Of two that hold the same chunks (docs/operating/members.md) one must stay: those that hold some as the last."""
    return sorted({other for role in out for other in copies_of(count, role)} - set(out))


def _bears_of_copies(count: int, out: list[int]) -> str:
    if not out:
        return "survives the loss of any member"
    alone = _alone(count, out)
    if len(alone) + len(out) >= count:
        return "survives no further loss"
    return f"survives the loss of any member except {', '.join(map(str, alone))}"


# --- work and troubles ---


def _work(volume: model.Volume) -> str:
    if volume.rebuild.member:
        return f"rebuild {describe(volume.rebuild)}".rstrip()
    if volume.resync.running:
        return f"resync {describe(volume.resync)}".rstrip()
    if volume.level != 0 and volume.regions.suspect:
        why = f" ({volume.resync.reason})" if volume.resync.reason else ""
        return f"{volume.regions.suspect} regions must be verified{why}"
    return ""


def _troubles(volume: model.Volume) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    if volume.lost.extents:
        found.append(
            (
                f"{format_size(volume.lost.bytes)} are LOST in {volume.lost.extents} places",
                [f"iraid lost {volume.name}"],
            )
        )
    if volume.log.given_up:
        found.append(
            (
                "the write log was GIVEN UP, because it could not be written: a crash of the gateway while members are "
                "out may cost data",
                [f"iraid events {volume.name}", f"iraid set {volume.name} --log {volume.log.mode}"],
            )
        )
    scrub = volume.scrub
    if scrub.mismatches and scrub.mode != "repair":
        found.append(
            (
                f"{scrub.mismatches} rows did not match at the last scrub",
                [f"iraid scrub status {volume.name}", f"iraid scrub start {volume.name} --repair"],
            )
        )
    slow = [m for m in volume.members if m.slow]
    if slow:
        found.append((f"slow: {', '.join(_slow(m) for m in slow)}", [f"iraid advise {volume.name}"]))
    shaky = [m for m in volume.members if m.state == "in sync" and m.link != "open"]
    if shaky:
        found.append((f"no session with {_named([str(m.role) for m in shaky])}", [f"iraid events {volume.name}"]))
    return found


def _slow(member: model.Member) -> str:
    who = member.member if member.role is None else f"member {member.role}"
    return f"{who} ({member.latency_ms} ms a command)"


def _notes(volume: model.Volume, shared_spares: int) -> list[str]:
    notes = []
    if volume.level != 0:
        own = sum(m.state == "spare" for m in volume.members)
        notes.append(
            f"{own + shared_spares} spare{'s' if own + shared_spares > 1 else ''}"
            if own + shared_spares
            else "no spare"
        )
    single = [str(m.role) for m in volume.members if m.role is not None and m.role >= 0 and len(m.portals) < 2]
    if single and len(single) < len(roles(volume)):
        notes.append(f"no second path to {_named(single)}")
    elif single:
        notes.append("one path to each member")
    return notes
