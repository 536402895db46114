"""grow: a volume, and its LUNs, as large as its members have become."""

from dataclasses import asdict, dataclass, field

from iraid.control import model
from iraid.control.client import Client
from iraid.control.units import format_size
from iraid.lio import target

from .commands import NAME, SAVE, command, print_json, warn
from .report import Report


@dataclass
class MemberGrowth:
    member: str
    role: int | None
    before_bytes: int
    size_bytes: int


@dataclass
class Growth:
    """What --json shows; of LUNs nothing where the volume is not exported."""

    name: str
    before_bytes: int
    size_bytes: int
    note: str
    members: list[MemberGrowth]
    luns: list[target.GrownLun] = field(default_factory=list)
    initiators: list[str] = field(default_factory=list)
    saved: str | None = None
    warnings: list[str] = field(default_factory=list)


@command(NAME, SAVE, examples="iraid grow v0\niraid grow v0 --json | jq .size_bytes")
def grow(client: Client, report: Report | None, name: str, save: bool) -> None:
    """Use the space that was added to the members, while the volume is in use.

    First enlarge the LUNs on all targets; the smallest counts for all.  The volume, the LUN that initiators see and the
    saved configuration get the new size.  The command says what to do on initiators.  It may be run again: it finishes
    what was interrupted.
    """
    exported = target.exported_as(name)
    if exported:
        target.check_root()
        target.check_runner(client.version())
    before = client.status(name)
    grown = client.grow(name)
    luns = target.grow(name, grown.size_bytes, save) if exported else target.GrownLuns([], [], None)
    now = client.status(name)
    done = Growth(
        name,
        grown.before_bytes,
        grown.size_bytes,
        grown.note,
        _members(before, now),
        luns.luns,
        luns.initiators,
        luns.saved,
        luns.warnings + _small_spares(now),
    )
    warn(done.warnings)
    if report is None:
        return print_json(asdict(done))
    _report(report, done, save)


def _members(before: model.Volume, now: model.Volume) -> list[MemberGrowth]:
    had = {member.member: member.size_bytes for member in before.members}
    return [
        MemberGrowth(m.member, m.role, had.get(m.member, 0), m.size_bytes)
        for m in sorted(now.members, key=lambda m: (m.role is None, m.role or 0))
    ]


def _small_spares(volume: model.Volume) -> list[str]:
    """Whether one fits is the handler's to say, when it is needed; that is too late to hear of it first."""
    least = min((m.size_bytes for m in volume.members if m.state == "in sync" and m.size_bytes), default=0)
    return [
        f"spare {m.member} has {format_size(m.size_bytes)}, less than any member: it may be too small to replace one; "
        f"add a larger spare (iraid add-spare {volume.name} DEVICE)"
        for m in volume.members
        if m.state == "spare" and 0 < m.size_bytes < least
    ]


def _report(report: Report, done: Growth, save: bool) -> None:
    if done.size_bytes > done.before_bytes:
        report.line(f"Volume {done.name} has grown from {_change(done.before_bytes, done.size_bytes, ' to ')}.")
    else:
        report.line(f"Volume {done.name} has {format_size(done.size_bytes)}, as before.")
    if done.note:
        report.line(done.note)
    report.line()
    report.table(
        ["ROLE", "MEMBER", "BEFORE", "NOW"],
        [
            ["-" if m.role is None or m.role < 0 else m.role, m.member, *_pair(m.before_bytes, m.size_bytes)]
            for m in done.members
        ],
        right=(2, 3),
        wide=(1,),
    )
    report.line()
    for lun in done.luns:
        under = f" of {', '.join(lun.iqns)}" if lun.iqns else ""
        words = (
            "has that size already"
            if lun.size_bytes == lun.before_bytes
            else f"has grown from {_change(lun.before_bytes, lun.size_bytes, ' to ')}"
        )
        report.line(f"The LUN{under} (storage object {lun.storage_object}) {words}.")
    if not done.luns:
        report.line("LIO does not export it on this machine.")
        return
    if done.saved is None:
        report.line(
            "Not saved: after a reboot the LUN is as in the saved configuration, or missing if it is not in it."
            if not save
            else "The saved configuration has no such LUN: it will be missing after a reboot."
        )
    if any(lun.size_bytes != lun.before_bytes for lun in done.luns):
        _report_initiators(report, done)


def _report_initiators(report: Report, done: Growth) -> None:
    """Not all look by themselves, and of several only one is told: docs/operating/grow.md."""
    iqns = [iqn for lun in done.luns for iqn in lun.iqns] or ["IQN"]
    who = f" ({', '.join(done.initiators)})" if done.initiators else ""
    report.line()
    report.line(f"On every initiator{who} rescan the disk, then enlarge what is on it:")
    report.properties(
        [
            ("Linux", "; ".join(f"iscsiadm -m node -T {iqn} -R" for iqn in iqns)),
            ("Windows", "Update-HostStorageCache"),
            ("ESXi", "esxcli storage core adapter rescan --all"),
        ]
    )


def _change(before_bytes: int, now_bytes: int, between: str) -> str:
    return between.join(_pair(before_bytes, now_bytes))


def _pair(before_bytes: int, now_bytes: int) -> tuple[str, str]:
    """In bytes where a person would else read twice the same."""
    before, now = (format_size(size) if size else "-" for size in (before_bytes, now_bytes))
    if before == now and before_bytes != now_bytes:
        return f"{before_bytes} B", f"{now_bytes} B"
    return before, now
