"""Two gateways of a volume beside each other: what `iraid doctor --facts` tells of one of them, and what is wrong with
the two together.  Facts in, findings out, as in doctor.py.

What is secret and has to be the same on both is told as a digest, keyed with random bytes that who asks has made and
does not tell to others: who comes by the facts can't try words on them.
"""

from __future__ import annotations

import hmac
import json
import secrets
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from iraid import __version__
from iraid.control import model, settings
from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.lio import lio_tree

from . import facts
from .doctor import Finding

FORMAT = 1
NONCE_BYTES = 32
SSH_SECONDS = 60
ANSWER_BYTES_MAX = 1 << 20
CLOCK_MS_MAX = 2000
# These are compared in words of their own, or may differ.
_OWN_KEYS = ("uuid", "member", "initiator", "chap_file", "enabled")


@dataclass
class Setting:
    key: str
    value: str = ""


@dataclass
class Volume:
    name: str
    uuid: str = ""
    role: str | None = None
    state: str = ""
    initiator: str = ""
    members: list[str] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    chap: str | None = None  # digest; "" for none; null: not told
    fault: str | None = None  # its file can't be read


@dataclass
class Export:
    """Of a volume, by one target."""

    volume: str
    iqn: str
    lun: int = 0
    pair: int = 0  # 1 or 2; 0: of no pair
    size_bytes: int = 0
    portals: list[str] = field(default_factory=list)
    initiators: list[str] = field(default_factory=list)
    chap: str | None = None  # digest of what initiators prove; null: not told
    reservations: bool = True  # initiators may reserve it


@dataclass
class PairFacts:
    format: int
    host: str = ""
    root: bool = False
    boot: str = ""  # of the kernel that runs: no two have the same
    time_ms: int = 0
    version: str = ""
    handler: str = ""
    handler_error: str | None = None
    runner: str = ""
    machine: str | None = None  # digest of the machine's id; null: not told
    key: str = ""  # of its reservations; no secret: targets show it to everybody
    spares: list[str] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)


# --- what one gateway tells ---


def new_nonce() -> bytes:
    return secrets.token_hex(NONCE_BYTES).encode()


MISSING = "missing"  # in place of a digest: a file with secrets that is not there, or has nothing in it


def _digest(nonce: bytes | None, kind: str, text: str) -> str | None:
    if not nonce:
        return None
    return hmac.new(nonce, f"{kind}\0{text}".encode(), "sha256").hexdigest()


def gather(client: Client, nonce: bytes | None, root: Path = Path("/"), run: facts.Run = facts.run) -> PairFacts:
    known = facts.gather_for_pair(client, root, run)
    found = PairFacts(
        FORMAT,
        host=facts.read_text(root / "proc/sys/kernel/hostname").strip(),
        root=known.root,
        boot=facts.read_text(root / "proc/sys/kernel/random/boot_id").strip(),
        version=__version__,
        handler=known.handler.version if known.handler else "",
        handler_error=known.handler_error or known.volumes_error or None,
        runner=known.runner_version or "",
        machine=_digest(nonce, "machine", facts.machine_id(root)),
        spares=[spare.device for spare in known.spares],
    )
    for volume in known.volumes:
        found.volumes.append(_volume(volume, nonce))
        found.key = found.key or _key(client, volume.name)
    found.exports = list(_exports(known.lio, root, nonce))
    found.time_ms = time.time_ns() // 1_000_000  # last, so that it is of the answer
    return found


def _key(client: Client, name: str) -> str:
    try:
        return client.holder(name).own_key
    except IraidError:
        return ""


def _volume(status: model.Volume, nonce: bytes | None) -> Volume:
    told = Volume(status.name, status.uuid, status.role, status.state)
    try:
        shown = settings.volume(status.name)
    except IraidError as error:
        told.fault = error.message
        return told
    told.initiator, told.members = shown["values"]["initiator"], shown["values"]["members"]
    told.settings = [Setting(one["key"], str(one["value"])) for one in shown["keys"] if one["key"] not in _OWN_KEYS]
    told.chap = _chap(shown["values"]["chap_file"], nonce)
    return told


def _chap(path: str, nonce: bytes | None) -> str | None:
    """A digest, "" for no CHAP, MISSING, or None for who may not know."""
    if not path.startswith("/"):
        return ""
    try:
        text = Path(path).read_text(errors="replace").strip()
    except PermissionError:
        return None
    except OSError:
        return MISSING
    return _digest(nonce, "chap", text) if text else MISSING


def _exports(tree: lio_tree.Tree, root: Path, nonce: bytes | None) -> Iterator[Export]:
    luns = {lun.name: lun for lun in tree.luns}
    for export in tree.exports:
        for number, name in export.luns.items():
            yield Export(
                luns[name].volume,
                export.iqn,
                number,
                luns[name].pair,
                luns[name].size_bytes,
                export.portals,
                export.initiators,
                _digest(nonce, "access", lio_tree.access(root, export)),
                luns[name].reservations,
            )


# --- the other one's answer ---


def read(text: bytes | str, source: str) -> PairFacts:
    """Raises IraidError that names the source."""
    remedy = "it must be what 'iraid doctor --facts' prints, on a gateway with this release"
    if len(text) > ANSWER_BYTES_MAX:
        raise IraidError(
            f"{source}: more than {ANSWER_BYTES_MAX} bytes are no facts of a gateway", remedy, kind="invalid"
        )
    try:
        found = model.read(PairFacts, model.decode(text), "facts")
    except ValueError as error:
        raise IraidError(f"{source}: these are no facts of a gateway: {error}", remedy, kind="invalid") from error
    if found.format != FORMAT:
        raise IraidError(
            f"{source}: its facts have format {found.format}, and this release knows {FORMAT}",
            "have the same release of iraid on both gateways",
            kind="invalid",
        )
    return found


def ask(host: str, nonce: bytes, ssh: str = "ssh") -> PairFacts:
    """By ssh, without a question to anybody.  Raises IraidError."""
    words = [ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, "iraid doctor --facts --nonce -"]
    remedy = (
        f"'ssh -o BatchMode=yes {host} iraid doctor --facts' must work as root; or run 'iraid doctor --facts' there, and "
        "give its output here: iraid doctor --peer-facts FILE"
    )
    if not host or host.startswith("-") or any(char.isspace() for char in host):
        raise IraidError(f'--peer "{host}" is no host', "give HOST or USER@HOST, as for ssh", kind="invalid")
    try:
        done = subprocess.run(words, input=nonce + b"\n", capture_output=True, timeout=SSH_SECONDS)
    except FileNotFoundError as error:
        raise IraidError(f"gateway {host} can't be asked: there is no ssh", remedy, kind="unavailable") from error
    except subprocess.TimeoutExpired as error:
        raise IraidError(
            f"gateway {host} did not answer within {SSH_SECONDS} seconds", remedy, kind="unreachable"
        ) from error
    if done.returncode != 0:
        said = model.harmless(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])[:300]
        raise IraidError(
            f"gateway {host} can't be asked: ssh ended with status {done.returncode}: {said}",
            remedy,
            kind="unreachable",
        )
    return read(done.stdout, f"gateway {host}")


def to_json(found: PairFacts) -> str:
    return json.dumps(asdict(found), indent=2)


# --- beside each other ---


@dataclass
class Pair:
    here: PairFacts
    there: PairFacts
    before_ms: int | None = None  # the other one's clock was read between these times of ours; none: no one knows when
    after_ms: int = 0

    @property
    def other(self) -> str:
        return self.there.host or "the other gateway"

    def on_other(self, command: str) -> str:
        return f"ssh {shlex.quote(self.there.host)} {command}" if self.there.host else command

    def volumes(self) -> Iterator[tuple[Volume, Volume]]:
        """Those that both have."""
        theirs = {one.uuid: one for one in self.there.volumes}
        for mine in self.here.volumes:
            if mine.uuid in theirs:
                yield mine, theirs[mine.uuid]

    def differ(self, grade: str, what: str, here: object, there: object, *remedies: str) -> Finding:
        return Finding("", grade, f"{what}: {here} here, {there} on {self.other}", list(remedies))


Check = Callable[[Pair], Iterator[Finding]]
CHECKS: list[tuple[str, str, Check]] = []  # name, what is said when all is well


def check(name: str, well: str) -> Callable[[Check], Check]:
    def add(function: Check) -> Check:
        CHECKS.append((name, well, function))
        return function

    return add


def examine(pair: Pair) -> list[Finding]:
    """At least one for each check."""
    found: list[Finding] = []
    for name, well, function in CHECKS:
        mine = list(function(pair)) or [Finding(name, "ok", well)]
        for one in mine:
            one.check = name
        found += mine
    return found


@check("gateways", "two gateways with ids and reservation keys of their own")
def _gateways(pair: Pair) -> Iterator[Finding]:
    here, there = pair.here, pair.there
    if here.boot and (here.boot, here.key, here.machine) == (there.boot, there.key, there.machine):
        yield Finding("", "bad", f"{pair.other} is this gateway itself: it was asked for its own facts", [])
        return
    for one, whose in ((here, "this gateway"), (there, pair.other)):
        if one.handler_error:
            yield Finding("", "bad", f"the handler of {whose} does not answer: {one.handler_error}", ["iraid doctor"])
        if not one.root:
            yield Finding("", "unknown", f"{whose} was not asked as root: secrets and exports are not compared")
    if here.machine and here.machine == there.machine:
        yield Finding(
            "",
            "bad",
            f"both have the same machine id, as a clone of a machine has: targets take {pair.other} for this gateway, "
            "and a take-over shuts nobody out",
            [
                pair.on_other(f"'{command}'")
                # D-Bus keeps a copy, from which the same one would be made
                for command in ("rm -f /etc/machine-id /var/lib/dbus/machine-id", "systemd-machine-id-setup")
            ],
        )
    elif here.machine is None or there.machine is None:
        yield Finding("", "unknown", "whether both have the same machine id is not known: no --nonce was given")
    if here.key and here.key == there.key:
        yield pair.differ(
            "bad",
            "both reserve members with the same key, so that no member can tell them apart",
            here.key,
            there.key,
            pair.on_other("'rm /var/lib/iraid/gateway-id'"),
            pair.on_other("systemctl restart tcmu-runner"),
        )


@check("versions", "the same versions on both")
def _versions(pair: Pair) -> Iterator[Finding]:
    for what, mine, theirs in (
        ("iraid", pair.here.version, pair.there.version),
        ("the handler that is loaded", pair.here.handler, pair.there.handler),
        ("tcmu-runner", pair.here.runner, pair.there.runner),
    ):
        if mine and theirs and mine != theirs:
            yield pair.differ("warning", f"versions of {what} differ", mine, theirs, "iraid version")


@check("clocks", "the clocks agree")
def _clocks(pair: Pair) -> Iterator[Finding]:
    if pair.before_ms is None:
        yield Finding("", "unknown", "the clocks are not compared: the facts are from a file")
        return
    apart = max(pair.before_ms - pair.there.time_ms, pair.there.time_ms - pair.after_ms, 0)
    if apart > CLOCK_MS_MAX:
        yield Finding(
            "",
            "warning",
            f"the clocks are {apart / 1000:.0f} s apart: times of events and logs can't be compared",
            ["timedatectl set-ntp true", pair.on_other("timedatectl set-ntp true")],
        )


@check("volumes", "the same volumes, by name and UUID")
def _volumes(pair: Pair) -> Iterator[Finding]:
    names = {one.name: one for one in pair.there.volumes}
    uuids = {one.uuid for one in pair.there.volumes}
    both = 0
    for mine, theirs in pair.volumes():
        both += 1
        if mine.name != theirs.name:
            yield pair.differ("warning", f"names of volume {mine.uuid} differ", mine.name, theirs.name, "iraid list")
    for mine in pair.here.volumes:
        other = names.get(mine.name)
        if other is not None and other.uuid != mine.uuid:
            yield pair.differ(
                "bad",
                f"volume {mine.name} is another volume on each: its UUID",
                mine.uuid,
                other.uuid,
                f"iraid config show {mine.name}",
            )
        elif mine.uuid not in uuids:
            yield Finding("", "note", f"volume {mine.name} is not configured on {pair.other}")
    mine_uuids, mine_names = {one.uuid for one in pair.here.volumes}, {one.name for one in pair.here.volumes}
    for theirs in pair.there.volumes:
        if theirs.uuid not in mine_uuids and theirs.name not in mine_names:
            yield Finding("", "note", f"volume {theirs.name} of {pair.other} is not configured here")
    if both == 0 and not any(one.name in names for one in pair.here.volumes):
        yield Finding("", "bad", "no volume is configured on both: this is no pair", ["iraid list"])


def _role(volume: Volume) -> str:
    if volume.role is None:
        return volume.state
    return volume.role if volume.state in (volume.role, "degraded") else f"{volume.role} ({volume.state})"


def _standby(pair: Pair, mine: Volume, theirs: Volume) -> list[str]:
    """For the one that does not work, where that can be told."""
    if theirs.state == "failed":
        return [pair.on_other(f"iraid standby {theirs.name}")]
    if mine.state == "failed":
        return [f"iraid standby {mine.name}"]
    return [f"iraid status {mine.name}", pair.on_other(f"iraid status {theirs.name}")]


@check("roles", "of each volume exactly one gateway is active, and the other stands by")
def _roles(pair: Pair) -> Iterator[Finding]:
    for mine, theirs in pair.volumes():
        roles = {mine.role, theirs.role}
        what = f"roles of volume {mine.name}"
        here, there = _role(mine), _role(theirs)
        if roles == {"active"}:
            yield pair.differ("bad", f"{what}: both say that they have it", here, there, *_standby(pair, mine, theirs))
        elif "active" not in roles:
            yield pair.differ("bad", f"{what}: nobody serves it", here, there, f"iraid activate {mine.name}")
        elif roles != {"active", "standby"}:
            name = mine.name if mine.role != "active" else theirs.name
            command = f"iraid standby {name}"
            yield pair.differ(
                "warning",
                f"{what}: no gateway stands by",
                here,
                there,
                command if mine.role != "active" else pair.on_other(command),
            )


@check("configuration", "members, settings and secrets are the same on both")
def _configuration(pair: Pair) -> Iterator[Finding]:
    for mine, theirs in pair.volumes():
        faulty = False
        for one, whose in ((mine, "here"), (theirs, f"on {pair.other}")):
            if one.fault:
                faulty = True
                yield Finding("", "bad", f"volume {one.name}, {whose}: {one.fault}", [f"iraid config check {one.name}"])
        if not faulty:
            yield from _members(pair, mine, theirs)
            yield from _settings(pair, mine, theirs)
            yield from _secrets(pair, mine, theirs)
    if set(pair.here.spares) != set(pair.there.spares):
        yield pair.differ(
            "warning",
            "spares of the gateway differ",
            ", ".join(pair.here.spares) or "none",
            ", ".join(pair.there.spares) or "none",
            "iraid config show",
        )


def _devices(volume: Volume) -> dict[tuple[str, frozenset[str]], str]:
    """Target and LUN, and portals -> as it is written."""
    parts = [(one.partition("/"), one) for one in volume.members]
    return {(rest, frozenset(portals.split(","))): one for (portals, _, rest), one in parts}


def _members(pair: Pair, mine: Volume, theirs: Volume) -> Iterator[Finding]:
    here, there = _devices(mine), _devices(theirs)
    only_here = {device: name for device, name in here.items() if device not in there}
    only_there = {device: name for device, name in there.items() if device not in here}
    # A target's name that no other member has says that it is one device, to which each gateway may have its own way.
    names = Counter(target for target, _ in [*here, *only_there])
    for target, portals in list(only_here):
        same = next((device for device in only_there if device[0] == target), None)
        if same is not None and names[target] == 2:
            yield pair.differ(
                "note",
                f"volume {mine.name}: {target} is reached by different portals",
                only_here.pop((target, portals)),
                only_there.pop(same),
                f"iraid config show {mine.name}",
            )
    if only_here or only_there:
        yield pair.differ(
            "bad",
            f"members of volume {mine.name} differ; only",
            _listed(list(only_here.values())),
            _listed(list(only_there.values())),
            f"iraid config show {mine.name}",
        )


def _settings(pair: Pair, mine: Volume, theirs: Volume) -> Iterator[Finding]:
    here, there = ({one.key: one.value for one in volume.settings} for volume in (mine, theirs))
    for key in sorted(set(here) & set(there)):
        if here[key] != there[key]:
            yield pair.differ(
                "warning",
                f"volume {mine.name}: {key} differs",
                here[key],
                there[key],
                f"iraid config show {mine.name}",
                f"iraid config reload {mine.name}",
            )


def _secrets(pair: Pair, mine: Volume, theirs: Volume) -> Iterator[Finding]:
    if mine.chap is None or theirs.chap is None:
        yield Finding(
            "",
            "unknown",
            f"volume {mine.name}: CHAP secrets are not compared: without --nonce, or root, they are not told",
        )
    elif mine.chap != theirs.chap:
        words = {
            mine.chap: "one",
            theirs.chap: "another one",
            "": "none",
            MISSING: "one whose file is not there or empty",
        }
        yield pair.differ(
            "bad",
            f"volume {mine.name}: CHAP of its targets differs; secret",
            words[mine.chap],
            words[theirs.chap],
            f"iraid config show {mine.name}",
        )


@check("initiators", "targets know the gateways by different initiator names")
def _initiators(pair: Pair) -> Iterator[Finding]:
    for mine, theirs in pair.volumes():
        if mine.initiator and mine.initiator == theirs.initiator:
            yield pair.differ(
                "bad",
                f"volume {mine.name}: both log in under one initiator name, by which alone LIO tells initiators apart, so "
                "that a take-over shuts nobody out. Take the line `initiator` from its file on one of them (each has a "
                "name of its own then), admit that name on the targets, and start the volume anew; initiator",
                mine.initiator,
                theirs.initiator,
                f"iraid config show {mine.name}",
                f"iraid stop {mine.name}",
            )


@check("exports", "initiators see one LUN by two gateways")
def _exports_compared(pair: Pair) -> Iterator[Finding]:
    for mine, theirs in pair.volumes():
        here = [one for one in pair.here.exports if one.volume == mine.name]
        there = [one for one in pair.there.exports if one.volume == theirs.name]
        if bool(here) != bool(there):
            again = f"iraid export {mine.name} --help"
            yield Finding(
                "",
                "bad",
                f"volume {mine.name} is exported {'here' if here else f'on {pair.other}'} only: initiators lose it with "
                "that gateway",
                [again if there else pair.on_other(again)],
            )
        elif here:
            yield from _one_export(pair, here[0], there[0])


_ANY_ADDRESS = ("0.0.0.0:", "[::]:", "[::0]:")  # each listens at its own


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _moving_address(pair: Pair, here: Export, there: Export) -> Iterator[Finding]:
    """Of a volume without target port groups: initiators need an address that follows it."""
    again = f"iraid export {here.volume} --iqn {here.iqn} --no-reservations ..."
    for one, remedy in ((here, again), (there, pair.on_other(f"'{again}'"))):
        if one.reservations:
            yield Finding(
                "",
                "warning",
                f"export of volume {one.volume}: initiators may reserve it on {'this gateway' if one is here else pair.other}, "
                "and lose that, unheard, when their address moves to the other one",
                [remedy],
            )


def _one_export(pair: Pair, here: Export, there: Export) -> Iterator[Finding]:
    name, again = here.volume, [f"iraid unexport {here.volume}", f"iraid export {here.volume} --help"]
    what = f"export of volume {name}"
    if not here.pair and not there.pair:
        yield from _moving_address(pair, here, there)
    elif 0 in (here.pair, there.pair) or here.pair == there.pair:
        yield pair.differ(
            "bad",
            f"{what}: one must be --pair 1, the other --pair 2; number",
            here.pair or "none",
            there.pair or "none",
            *again,
        )
    for label, mine, theirs in (
        ("target", here.iqn, there.iqn),
        ("LUN", here.lun, there.lun),
        ("initiators that are admitted", _listed(here.initiators), _listed(there.initiators)),
    ):
        if mine != theirs:
            yield pair.differ("bad", f"{what}: {label}", mine, theirs, *again)
    if here.size_bytes != there.size_bytes:
        yield pair.differ(
            "warning", f"{what}: bytes of the LUN", here.size_bytes, there.size_bytes, f"iraid grow {name}"
        )
    same = sorted(one for one in set(here.portals) & set(there.portals) if not one.startswith(_ANY_ADDRESS))
    if same:
        yield pair.differ(
            "warning", f"{what}: both listen at the same portal", ", ".join(same), ", ".join(same), "ip addr", *again
        )
    if here.chap is None or there.chap is None:
        yield Finding(
            "", "unknown", f"{what}: CHAP of initiators is not compared: without --nonce, or root, it is not told"
        )
    elif here.chap != there.chap:
        yield pair.differ("bad", f"{what}: CHAP of initiators differs; accounts", "some", "others", *again)
