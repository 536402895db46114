"""What a person sees: tables and sentences.

On a terminal: its width, colours, a rule under the heading, long cells folded.  Elsewhere (a pipe, a
log, a mail) one line per row whatever its length, plain ASCII, nothing folded or cut: made for grep.

rich is loaded by those who use it: that takes as long as all else a command does, and most of them, in
scripts above all, print JSON or a sentence.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

from iraid.control import model
from iraid.control.units import format_size, local_time, percent_done
from iraid.control.wording import describe, describe_holder, describe_replay
from iraid.watch.verdict import Verdict

PIPE_WIDTH = 100_000  # never reached: tables are as wide as their content
BAR_CELLS = 20

_ASCII_HEAD = "    \n    \n -- \n    \n    \n    \n    \n    \n"
# A name from a target may hold them: a terminal would obey.  Rich leaves out some.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])

_VOLUME_WORDS = {
    "active": ("active", "green"),
    "degraded": ("degraded: works with less redundancy", "yellow"),
    "assembling": ("assembling: waiting for members", "yellow"),
    "suspended": ("suspended: too many members are silent, I/O waits", "red"),
    "failed": ("failed: does not work", "red"),
    "stopping": ("stopping", "yellow"),
    "stopped": ("stopped", ""),
    "standby": ("standby: another gateway may have it", "cyan"),
}
_MEMBER_WORDS = {
    "in sync": ("in sync", "green"),
    "faulty": ("faulty", "red"),
    "missing": ("missing", "red"),
    "rebuilding": ("rebuilding", "yellow"),
    "out of date": ("out of date", "yellow"),
    "spare": ("spare", "cyan"),
    "unknown": ("unknown", "yellow"),
}


def describe_role(volume: model.Volume) -> str:
    """Of one that runs nowhere here, nothing."""
    if volume.role is None:
        return ""
    since = (
        f" since {local_time(volume.role_since_ms).isoformat(' ', 'seconds')}"
        if volume.role_since_ms is not None
        else ""
    )
    changes = f", {volume.role_changes_hour} changes in the last hour" if volume.role_changes_hour > 1 else ""
    return f"{volume.role} on this gateway{since}{changes}"


def _holder(holder: model.Holder | None) -> str | None:
    if holder is None or not holder.own_key:
        return None
    if not holder.members:  # it runs here
        return f"this gateway, with key {holder.own_key}"
    return f"{describe_holder(holder)} (this one's is {holder.own_key})"


def _since(volume: model.Volume) -> str:
    if volume.role is None or volume.role_since_ms is None:
        return "-"
    return local_time(volume.role_since_ms).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True)
class Styled:
    """A cell with a colour."""

    text: str
    style: str = ""


def _harmless(text: str) -> str:
    return text.translate(_CONTROLS)


def _text(cell: Any) -> Text:
    from rich.text import Text

    if isinstance(cell, Styled):
        return Text(_harmless(cell.text), style=cell.style)
    return Text(_harmless(str(cell)))


class Report:
    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        self.stream = stream or sys.stdout
        self.terminal = self.stream.isatty()
        self.unicode = self.terminal and (self.stream.encoding or "").lower().startswith("utf")
        self.width = width if self.terminal else PIPE_WIDTH

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(
            file=self.stream,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=not self.terminal,
            width=self.width,
            color_system="auto" if self.terminal else None,
        )

    def line(self, text: str = "") -> None:
        if self.terminal:
            self.console.print(_harmless(text))
        else:
            print(_harmless(text).expandtabs(), file=self.stream, flush=True)

    def pieces(self, pieces: list[Styled]) -> None:
        """A line of several colours."""
        if self.terminal:
            from rich.text import Text

            self.console.print(Text.assemble(*((_harmless(one.text), one.style) for one in pieces)))
        else:
            self.line("".join(one.text for one in pieces))

    def table(
        self, headings: list[str], rows: list[list[Any]], right: tuple[int, ...] = (), wide: tuple[int, ...] = (0,)
    ) -> None:
        """right: columns of numbers; wide: columns that are folded when the width is short."""
        from rich.box import SIMPLE_HEAD, Box
        from rich.table import Table

        box = (SIMPLE_HEAD if self.unicode else Box(_ASCII_HEAD, ascii=True)) if self.terminal else None
        # A box has a blank between columns of its own.
        table = Table(box=box, pad_edge=False, padding=(0, 1 if box else 2, 0, 0), header_style="bold", show_edge=False)
        for index, heading in enumerate(headings):
            table.add_column(
                heading, justify="right" if index in right else "left", overflow="fold", no_wrap=index not in wide
            )
        for row in rows:
            table.add_row(*map(_text, row))
        self._print(table)

    def properties(self, pairs: list[tuple[str, Any]]) -> None:
        """ "Name   value" lines; those without a value are left out."""
        from rich.table import Table

        shown = [(name, value) for name, value in pairs if value not in (None, "")]
        width = max((len(name) for name, _ in shown), default=0)
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(min_width=width, no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in shown:
            grid.add_row(_text(Styled(name, "bold")), _text(value))
        self._print(grid)

    def _print(self, grid: Table) -> None:
        if self.terminal:
            self.console.print(grid)
            return
        with self.console.capture() as capture:
            self.console.print(grid, soft_wrap=False)
        for line in capture.get().splitlines():  # cells are padded, which nobody sees in a pipe
            self.line(line.rstrip())

    # --- volumes ---

    def volumes(self, volumes: list[model.Volume]) -> None:
        if not volumes:
            self.line("No volumes.  Make one: iraid create --help")
            return
        rows = [
            [
                v.name,
                v.level_name,
                _state(v.state, short=True),
                v.role or "-",
                _since(v),
                _size(v.size_bytes),
                _members_in_words(v),
                self._resync_short(v),
                ", ".join(v.users) or "-",
            ]
            for v in volumes
        ]
        headings = ["NAME", "LEVEL", "STATE", "ROLE", "SINCE", "SIZE", "IN SYNC", "PARITY", "USED BY"]
        self.table(headings, rows, right=(5,), wide=(0, 8))

    def verdicts(self, verdicts: list[Verdict]) -> None:
        """One line each; what to do next, and what could be better, in lines of their own on a terminal."""
        names = max((len(one.name) for one in verdicts), default=0)
        for one in verdicts:
            said = f"{one.text} ({', '.join(one.notes)})" if one.notes else one.text
            if not self.terminal:
                self.line(
                    "".join([f"{one.name:{names}} {one.word}: {said}", *(f"; {next_}" for next_ in one.remedies)])
                )
                continue
            self.pieces([Styled(f"{one.name:{names}}  ", "bold"), Styled(one.word, one.style), Styled(f"  {said}")])
            for remedy in one.remedies:
                self.line(f"{'':{names}}  -> {remedy}")

    def status(self, volume: model.Volume, holder: model.Holder | None = None) -> None:
        """holder: who has it, where that was asked."""
        self.properties(self._volume_pairs(volume, holder))
        if not volume.members:
            return
        self.line()
        rows = [
            [
                _role(m),
                m.member,
                _member_state(m, volume),
                m.link,
                _size(m.size_bytes),
                format_size(m.read_bytes),
                format_size(m.written_bytes),
                m.errors + m.medium_errors,
            ]
            for m in sorted(volume.members, key=_by_role)
        ]
        self.table(
            ["ROLE", "MEMBER", "STATE", "LINK", "SIZE", "READ", "WRITTEN", "ERRORS"],
            rows,
            right=(4, 5, 6, 7),
            wide=(1,),
        )
        remarks = _remarks(volume)
        if remarks:
            self.line()
        for remark in remarks:
            self.line(remark)

    def spares(self, spares: list[model.Spare]) -> None:
        self.table(
            ["SPARE OF THE GATEWAY", "SIZE", "BLOCK"],
            [[spare.device, _size(spare.size_bytes), spare.block_bytes] for spare in spares],
            right=(1, 2),
        )

    def scrub(self, volume: model.Volume) -> None:
        """What a scrub does, or has done."""
        scrub = volume.scrub
        self.properties([("Volume", volume.name), ("Scrub", self._scrub_line(volume) or "none yet")])
        if not scrub.mismatches:
            return
        where = ", ".join(str(offset) for offset in scrub.mismatch_offsets)
        more = " ..." if scrub.mismatches > len(scrub.mismatch_offsets) else ""
        if where:
            self.line(f"Rows that did not match begin at these bytes of the volume: {where}{more}")
        if scrub.mode != "repair":
            self.line(f"To correct them: iraid scrub start {volume.name} --repair.  {_what_repair_does(volume)}")

    def lost(self, name: str, extents: list[model.Extent]) -> None:
        if not extents:
            self.line(f"Volume {name} has lost nothing.")
            return
        self.table(["OFFSET", "LENGTH"], [[e.offset_bytes, e.length_bytes] for e in extents], right=(0, 1), wide=())
        total = sum(extent.length_bytes for extent in extents)
        self.line()
        self.line(
            f"{format_size(total)} in {len(extents)} places read as medium errors until they are overwritten, "
            "for example from a backup."
        )
        self.line(f"To accept what the members hold there as the data: iraid lost {name} --accept")

    def _volume_pairs(self, volume: model.Volume, holder: model.Holder | None) -> list[tuple[str, Any]]:
        level = volume.level_name
        if volume.level in model.LEVEL_NAMES:
            level += f" (level {volume.level})"
        return [
            ("Volume", volume.name),
            ("State", _state(volume.state)),
            ("Why", volume.reason),
            ("Role", describe_role(volume)),
            ("Active on", _holder(holder)),
            ("Level", level),
            ("Size", _size(volume.size_bytes)),
            (
                "Chunk",
                _size(volume.chunk_bytes) + (f", blocks of {volume.block_bytes} B" if volume.block_bytes else ""),
            ),
            ("UUID", volume.uuid),
            ("Parity", self._resync_long(volume)),
            ("Rebuild", self._rebuild_line(volume)),
            ("Scrub", self._scrub_line(volume)),
            ("Write log", _log(volume)),
            ("LOST", _lost(volume)),
            ("Repaired", _repaired(volume)),
            ("Background", _rates(volume)),
            ("Regions", _regions(volume)),
            ("Used by", ", ".join(volume.users) or "nobody"),
            ("Requests", _requests(volume)),
            ("Rows written", _rows(volume.rows)),
            ("Buffers", _buffers(volume.memory)),
            ("Epoch", f"{volume.epoch}, event {volume.event}" if volume.epoch else None),
        ]

    def bar(self, percent: float) -> str:
        full = int(BAR_CELLS * percent / 100)
        if self.unicode:
            return "\u2588" * full + "\u2591" * (BAR_CELLS - full)
        return "[" + "#" * full + "." * (BAR_CELLS - full) + "]"

    def _progress(self, work: model.Work) -> str:
        percent = percent_done(work.done_rows, work.total_rows)
        return f"{self.bar(percent)} {describe(work)}, {work.done_rows} of {work.total_rows} rows"

    def _resync_long(self, volume: model.Volume) -> str | None:
        if volume.level in (0, None):
            return "none on this level" if volume.level == 0 else None
        resync = volume.resync
        if not resync.running:
            suspect = volume.regions.suspect
            why = f" ({resync.reason})" if resync.reason else ""
            return f"{suspect} regions to verify{why}" if suspect else "verified"
        return f"resync {self._progress(resync)}, {resync.corrected_rows} corrected"

    def _rebuild_line(self, volume: model.Volume) -> str | None:
        rebuild = volume.rebuild
        if not rebuild.member:
            return rebuild.reason or None
        return f"{rebuild.member} {self._progress(rebuild)}"

    def _scrub_line(self, volume: model.Volume) -> str | None:
        scrub = volume.scrub
        found = f"{scrub.mismatches} rows did not match" + (" and were corrected" if scrub.mode == "repair" else "")
        if scrub.active:
            return f"{scrub.mode} {self._progress(scrub)}; {found}"
        if scrub.mode == "none":
            return None
        if 0 < scrub.done_rows < scrub.total_rows:
            percent = percent_done(scrub.done_rows, scrub.total_rows)
            return f"{scrub.mode} stopped at {percent:.1f} %; {found}"
        return f"{scrub.mode} done; {found}" if scrub.mismatches else f"{scrub.mode} done; all rows match"

    def _resync_short(self, volume: model.Volume) -> str:
        if volume.level in (0, None):
            return "-"
        if volume.resync.running:
            percent = percent_done(volume.resync.done_rows, volume.resync.total_rows)
            return f"resync {percent:.1f} %"
        if volume.rebuild.member:
            percent = percent_done(volume.rebuild.done_rows, volume.rebuild.total_rows)
            return f"rebuild {percent:.1f} %"
        if volume.state not in ("active", "degraded"):
            return "-"
        return "to verify" if volume.regions.suspect else "verified"

    # --- targets and members ---

    def discovery(self, portal: str, discovery: model.Discovery, chap_file: str | None = None) -> None:
        if not discovery.targets:
            self.line(f"{portal} shows no target to this initiator.")
            return
        rows: list[list[Any]] = []
        for target in discovery.targets:
            if target.error or target.skipped or not target.luns:
                rows.append([target.iqn, "-", "-", "-", "-", target.error or _skipped(target) or "no LUNs"])
            for lun in target.luns:
                disk = f"{lun.vendor} {lun.product}".strip() or "-"
                rows.append([target.iqn, lun.lun, _size(lun.size_bytes), lun.block_bytes or "-", disk, _lun_use(lun)])
        self.table(["TARGET", "LUN", "SIZE", "BLOCK", "DISK", "HOLDS"], rows, right=(1, 2, 3), wide=(0, 4, 5))
        self.line()
        self.line(f"To name one of them as a member, write {portal}/IQN/LUN.")
        if any("authentication failed" in (target.error or "") for target in discovery.targets):
            self.line(
                f"Authentication failed: compare user and secret in {chap_file} with the account on the target."
                if chap_file
                else f"These targets ask for CHAP: 'iraid discover --chap-file FILE {portal}', with the user in line 1 "
                "and the secret in line 2 of FILE."
            )
        reasons = {target.skipped for target in discovery.targets}
        if "other hosts" in reasons:
            self.line(
                "Targets on other hosts were not looked at: ask those hosts, or 'iraid discover --all-portals "
                f"{portal}' if you trust what this portal says."
            )
        if "time" in reasons:
            self.line("The time was over before all were looked at: 'iraid examine MEMBER' looks at one of them.")

    def examination(self, seen: model.Examination) -> None:
        device = seen.device
        self.properties(
            [
                ("Member", seen.member),
                ("Disk", f"{device.vendor} {device.product}".strip()),
                ("Serial", device.serial),
                ("Size", _size(device.size_bytes)),
                ("Block", f"{device.block_bytes} B" if device.block_bytes else None),
                ("Access", "read and write" if device.writable else "read-only: can't be a member"),
                ("Write cache", "volatile" if device.write_cache else "none"),
                ("Session", _flat(seen.session, leave_out=("advice",))),
                ("Signature", seen.signature or ("none" if seen.superblock is None else None)),
                ("Copies", _flat(seen.copies)),
            ]
        )
        for advice in _advice(seen.session):
            self.line(f"advice: {advice}")
        self.line()
        if seen.superblock is None:
            self.line("It has no iraid superblock.")
            return
        rows = [[name, _flat_value(value)] for name, value in seen.superblock.items()]
        self.table(["SUPERBLOCK", "VALUE"], rows, wide=(1,))


def _what_repair_does(volume: model.Volume) -> str:
    """As docs/operating/members.md has it."""
    if volume.level == 6 or (volume.level == 1 and len(volume.members) > 2):
        return f"Where the others agree against one member it is the one corrected: 'iraid events {volume.name}' says which."
    return "Nobody can tell here which member is wrong: the data is taken as right, and the rest is rewritten."


def _skipped(target: model.Target) -> str | None:
    if target.skipped == "other hosts":
        return f"not looked at: it is on {', '.join(target.portals)}"
    return "not looked at, or not all: the time was over" if target.skipped else None


def _state(state: str, short: bool = False) -> Styled:
    words, style = _VOLUME_WORDS.get(state, (state, ""))
    return Styled(state if short else words, style)


def _member_words(member: model.Member) -> str:
    return _MEMBER_WORDS.get(member.state, (member.state, ""))[0]


def _member_state(member: model.Member, volume: model.Volume) -> Styled:
    words, style = _MEMBER_WORDS.get(member.state, (member.state, ""))
    if volume.rebuild.member == member.member:
        percent = percent_done(volume.rebuild.done_rows, volume.rebuild.total_rows)
        words = f"{words} {percent:.0f} %"
    if member.slow:
        words, style = f"{words}, slow", "yellow"
    return Styled(words, style)


def _remarks(volume: model.Volume) -> list[str]:
    """What a person must know of devices that are not as they should be."""
    remarks = [
        f"{m.member} is {_member_words(m)}: {m.reason or 'the reason is not known'}"
        for m in volume.members
        if m.reason or m.state in ("faulty", "missing")
    ]
    remarks += [f"Role {role} has no device: iraid replace {volume.name} {role} DEVICE" for role in volume.empty_roles]
    remarks += [
        f"{m.member} is slow ({m.latency_ms} ms a command): reads avoid it where they can"
        for m in volume.members
        if m.slow
    ]
    remarks += [
        f"{m.member}: {m.medium_errors} medium errors, {m.medium_repaired} repaired"
        for m in volume.members
        if m.medium_errors
    ]
    remarks += [
        f"{m.member}: {m.digest_errors} wrong digests: the network, or memory at one of its ends, corrupts data"
        for m in volume.members
        if m.digest_errors
    ]
    return remarks


def _log(volume: model.Volume) -> Styled | None:
    """Where it matters: while it is wanted, at a start that replays it, and where it can't do its work."""
    log = volume.log
    if log.replay.step:
        return Styled(f"it {describe_replay(log.replay)}", "yellow")
    if log.given_up:
        return Styled(
            f"GIVEN UP: it could not be written; try it again: iraid set {volume.name} --log {log.mode}", "red"
        )
    if log.open:
        return Styled(f"writes are logged: {log.records} records, {format_size(log.bytes)} to replay after a crash")
    if log.too_small and log.mode != "off":
        return Styled("the members have too little room for it: writes are not logged", "yellow")
    wanted = volume.state == "degraded" or (volume.state == "active" and log.mode == "always")
    if volume.level not in (5, 6) or not wanted or not log.mode:
        return None
    if log.mode == "off":
        return Styled("off: writes are not logged", "yellow")
    why = f": {volume.regions.suspect} regions must be verified first" if volume.regions.suspect else ""
    return Styled(f"writes are not logged yet{why}", "yellow")


def _lost(volume: model.Volume) -> Styled | None:
    if not volume.lost.extents:
        return None
    return Styled(f"{format_size(volume.lost.bytes)} in {volume.lost.extents} places: iraid lost {volume.name}", "red")


def _repaired(volume: model.Volume) -> str | None:
    counted = [
        (volume.medium_repaired, "medium errors rewritten"),
        (volume.reads_hedged, "slow reads answered from the other members"),
    ]
    return ", ".join(f"{count} {what}" for count, what in counted if count) or None


def _rates(volume: model.Volume) -> str | None:
    if not volume.sync_rate_max_bytes or volume.level == 0:
        return None
    return f"{format_size(volume.sync_rate_min_bytes)}/s to {format_size(volume.sync_rate_max_bytes)}/s of each member"


def _by_role(member: model.Member) -> tuple[bool, int]:
    """Spares and former members last; of two for one role, the one that was there first."""
    return member.role is None, member.role or 0


def _role(member: model.Member) -> str:
    return "-" if member.role is None or member.role < 0 else str(member.role)


def _size(size_bytes: int) -> str:
    return format_size(size_bytes) if size_bytes else "-"


def _members_in_words(volume: model.Volume) -> str:
    in_sync = sum(member.state == "in sync" for member in volume.members)
    spares = sum(member.state == "spare" for member in volume.members)
    # Each role counts once, whoever is to take it; a stopped volume knows no roles.
    roles = {m.role for m in volume.members if m.role is not None} | set(volume.empty_roles)
    total = len(roles) or len(volume.members) - spares
    words = f"{in_sync} of {total}" if volume.members else "-"
    return words + (f" + {spares} spare" if spares == 1 else f" + {spares} spares" if spares else "")


def _regions(volume: model.Volume) -> str | None:
    regions = volume.regions
    if not regions.total:
        return None
    size = f" of {format_size(regions.region_bytes)} per member" if regions.region_bytes else ""
    what = [
        (regions.dirty, "dirty (written lately; a crash means to look at these again)"),
        (regions.suspect, "suspect (parity or copies not proven yet)"),
        (regions.stale, "stale (a member that is out lacks them)"),
    ]
    marks = ", ".join(f"{count} {words}" for count, words in what if count)
    return f"{regions.total}{size}: {marks or 'none is dirty, suspect or stale'}"


def _requests(volume: model.Volume) -> str:
    return (
        f"{volume.requests_active} active; since the start {volume.requests_merged} merged, "
        f"{volume.reads_reconstructed} reads reconstructed, {volume.reads_saved} saved"
    )


def _rows(rows: model.Rows) -> str | None:
    counted = [
        ("full", rows.full),
        ("read-modify-write", rows.read_modify_write),
        ("reconstruct", rows.reconstruct),
        ("read-all", rows.read_all),
        ("data only", rows.data_only),
    ]
    return ", ".join(f"{name} {count}" for name, count in counted if count) or None


def _buffers(memory: model.Memory) -> str | None:
    if not memory.buffer_bytes_max:
        return None
    return f"{format_size(memory.buffer_bytes)} of at most {format_size(memory.buffer_bytes_max)}"


def _lun_use(lun: model.Lun) -> str:
    if lun.error:
        return lun.error
    if lun.device_type != 0:
        return "not a disk"
    access = "" if lun.writable else " (read-only)"
    return (lun.signature or "nothing known") + access


def _advice(session: dict[str, Any]) -> list[str]:
    advice = session.get("advice")
    return [str(line) for line in advice] if isinstance(advice, list) else []


def _flat(values: dict[str, Any], leave_out: tuple[str, ...] = ()) -> str:
    return ", ".join(f"{name} {_flat_value(value)}" for name, value in values.items() if name not in leave_out)


def _flat_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return _flat(value)
    if isinstance(value, list):
        return "; ".join(_flat_value(inner) for inner in value)
    return "-" if value is None else str(value)
