"""What crosses the control socket (docs/design/control.md), as dataclasses.

Reading is strict about types and lenient about fields: one that is absent or null gets its default,
one that is unknown is left out, so that `--json` shows the same keys whatever the handler's version.
"""

import json
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from math import isfinite
from types import UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
LEVEL_NAMES = {0: "S-iRAID", 1: "mirror", 5: "P-iRAID", 6: "P+Q-iRAID", 10: "striped mirror"}
TEXT_MAX = 4096  # characters of one text of an answer; the handler sends no longer one


class ShapeError(ValueError):
    """A value has not the type that the protocol says; the text names the field."""


def decode(text: bytes | str) -> Any:
    """JSON, strictly: what no number, no text or too deep is would only be noticed when it is shown.  Raises ValueError.

    Texts are made harmless.  The handler does that, too; but an older one, or another program at the socket, may not,
    and what comes from here goes to terminals, mails, programs' arguments, metrics and pages.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half a character is no text
        value = _harmless(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def harmless(text: str) -> str:
    """One line, of characters that can be seen, TEXT_MAX of them at most: '?' stands for the others."""
    if text.isprintable() and len(text) <= TEXT_MAX:
        return text
    return "".join(char if char.isprintable() else "?" for char in text[:TEXT_MAX])


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, list):
        return [_harmless(one) for one in value]
    if isinstance(value, dict):
        return {harmless(key): _harmless(one) for key, one in value.items()}
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def read(kind: type[T], value: Any, where: str = "result") -> T:
    """Make a `kind` (a dataclass of this file) of decoded JSON.  Raises ShapeError."""
    if not isinstance(value, dict):
        raise ShapeError(f"{where} is {_json_type(value)}, not an object")
    hints = get_type_hints(kind)
    arguments = {}
    for known in _fields(kind):
        if value.get(known.name) is not None:
            place = f"{where}.{known.name}"
            arguments[known.name] = _read_value(hints[known.name], value[known.name], place)
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ShapeError(f"{where} lacks {_required(kind, arguments)}") from error


def _fields(kind: Any) -> tuple[Field[Any], ...]:
    """Of a dataclass, which a type alone does not say to be one."""
    return fields(kind)


def _required(kind: type, given: dict[str, Any]) -> str:
    return ", ".join(
        f.name for f in _fields(kind) if f.name not in given and f.default is MISSING and f.default_factory is MISSING
    )


def _read_value(hint: Any, value: Any, where: str) -> Any:
    kind, origin = hint, get_origin(hint)
    if origin in (Union, UnionType):  # only ever "X | None"
        return _read_value(get_args(hint)[0], value, where)
    if origin is list:
        if not isinstance(value, list):
            raise ShapeError(f"{where} is {_json_type(value)}, not a list")
        inner = get_args(hint)[0]
        return [_read_value(inner, v, f"{where}[{i}]") for i, v in enumerate(value)]
    if is_dataclass(hint):
        return read(kind, value, where)
    wanted = origin or hint
    _check_number(value, where)
    if wanted is float and type(value) is int:  # 3.0 is written 3
        return float(value)
    # bool is an int to Python, and not to the protocol.
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ShapeError(f"{where} is {_json_type(value)}, not {wanted.__name__}")
    return value


def _check_number(value: Any, where: str) -> None:
    """None is longer than the protocol's, so that all of them can be calculated with and shown."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ShapeError(f"{where} is a number of more than 64 bits")
    if isinstance(value, float) and not isfinite(value):
        raise ShapeError(f"{where} is not finite")


def _json_type(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def to_json(value: Any) -> dict[str, Any]:
    return asdict(value)


@dataclass
class Version:
    version: str
    program: str
    pid: int = 0


@dataclass
class Created:
    name: str
    uuid: str
    size_bytes: int
    region_bytes: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass
class ImportedMember:
    """role: None for a spare, for one that did not answer and for one that is no member any more."""

    member: str
    state: str
    role: int | None = None


@dataclass
class Imported:
    name: str
    uuid: str
    level: int = 0
    member_count: int = 0
    owner: str = ""
    members: list[ImportedMember] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Changed:
    """What was done to a device of a volume; fields that mean nothing to a command keep their defaults."""

    name: str = ""
    member: str = ""
    role: int | None = None
    device: str = ""
    state: str = ""
    reason: str | None = None
    size_bytes: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass
class Deleted:
    """warnings: of members whose superblock is still there."""

    warnings: list[str] = field(default_factory=list)


@dataclass
class Settings:
    name: str
    sync_rate_min_bytes: int
    sync_rate_max_bytes: int
    log: str = ""  # off, degraded, always; empty: the handler has no write log yet
    header_digest: str = ""  # none, preferred, required; empty: the handler has no such setting yet
    data_digest: str = ""


@dataclass
class Grown:
    name: str
    before_bytes: int = 0
    size_bytes: int = 0
    note: str = ""


@dataclass
class Spare:
    device: str
    size_bytes: int = 0
    block_bytes: int = 0


@dataclass
class Pool:
    spares: list[Spare] = field(default_factory=list)


@dataclass
class Extent:
    offset_bytes: int
    length_bytes: int


@dataclass
class LostPage:
    extents: list[Extent] = field(default_factory=list)
    more: bool = False


@dataclass
class Accepted:
    name: str
    accepted_bytes: int = 0


@dataclass
class Event:
    number: int
    time_ms: int
    severity: str = "notice"
    kind: str = ""
    volume: str = ""
    member: str = ""
    text: str = ""


@dataclass
class EventPage:
    instance: str
    oldest: int = 0
    next: int = 0
    events: list[Event] = field(default_factory=list)


@dataclass
class Regions:
    total: int = 0
    dirty: int = 0
    suspect: int = 0
    stale: int = 0
    region_bytes: int = 0


@dataclass
class Work:
    """A resync, a rebuild or a scrub."""

    running: bool = False
    done_rows: int = 0
    total_rows: int = 0
    bytes_per_second: int = 0  # of each member
    seconds_left: int | None = None
    reason: str | None = None  # why it does not run, though there is something to do


@dataclass
class Resync(Work):
    corrected_rows: int = 0


@dataclass
class Rebuild(Work):
    member: str | None = None  # that is filled


@dataclass
class Scrub(Work):
    active: bool = False  # started, and neither finished nor stopped: it may wait
    mode: str = "none"
    mismatches: int = 0
    mismatch_offsets: list[int] = field(default_factory=list)


@dataclass
class Lost:
    extents: int = 0
    bytes: int = 0


@dataclass
class Replay:
    """What a start does with the write log that a crash left."""

    step: str | None = None  # "is read", "is replayed", ...; null: there is nothing to do
    done_chunks: int = 0
    total_chunks: int = 0


@dataclass
class Log:
    """The write log of levels 5 and 6."""

    mode: str = ""  # off, degraded, always; empty: the handler has none yet
    open: bool = False  # writes are logged now
    given_up: bool = False  # it can't be written
    too_small: bool = False  # members have too little room for it
    records: int = 0  # since it was opened
    bytes: int = 0  # that a start would replay now
    replay: Replay = field(default_factory=Replay)


@dataclass
class Memory:
    buffer_bytes: int = 0
    buffer_bytes_max: int = 0


@dataclass
class Rows:
    full: int = 0
    read_modify_write: int = 0
    reconstruct: int = 0
    read_all: int = 0
    data_only: int = 0


@dataclass
class Member:
    member: str
    role: int | None = None
    state: str = "unknown"
    link: str = "closed"
    reason: str | None = None
    size_bytes: int = 0
    stale_rows: int = 0
    slow: bool = False
    portals: list[str] = field(default_factory=list)
    reads: int = 0
    writes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    errors: int = 0
    medium_errors: int = 0
    medium_repaired: int = 0
    digest_errors: int = 0
    latency_ms: int = 0


@dataclass
class Volume:
    name: str
    state: str
    uuid: str = ""
    reason: str | None = None
    role: str | None = None  # active, standby, fenced; none: it does not run here
    role_since_ms: int | None = None  # since 1970-01-01 UTC
    role_changes: int = 0  # to active and from it, since the volume was loaded
    role_changes_hour: int = 0  # of these in the last hour
    level: int | None = None
    chunk_bytes: int = 0
    block_bytes: int = 0
    size_bytes: int = 0
    epoch: int = 0
    event: int = 0
    # Not there: true, since a flush too many costs little and one too few costs data.
    write_cache: bool = True
    regions: Regions = field(default_factory=Regions)
    resync: Resync = field(default_factory=Resync)
    rebuild: Rebuild = field(default_factory=Rebuild)
    scrub: Scrub = field(default_factory=Scrub)
    lost: Lost = field(default_factory=Lost)
    users: list[str] = field(default_factory=list)
    requests_active: int = 0
    memory: Memory = field(default_factory=Memory)
    rows: Rows = field(default_factory=Rows)
    reads_saved: int = 0  # of members, because their rows were known
    reads_reconstructed: int = 0
    reads_hedged: int = 0
    medium_repaired: int = 0
    requests_merged: int = 0
    sync_rate_min_bytes: int = 0
    sync_rate_max_bytes: int = 0
    log: Log = field(default_factory=Log)
    members: list[Member] = field(default_factory=list)
    empty_roles: list[int] = field(default_factory=list)  # no device is there for them

    @property
    def level_name(self) -> str:
        if self.level is None or self.level < 0:
            return "unknown"
        return LEVEL_NAMES.get(self.level, f"level {self.level}")


@dataclass
class MemberHolder:
    member: str
    key: str | None = None  # of the gateway that has it reserved; none: nobody, or there is an error
    error: str | None = None  # it could not be asked


@dataclass
class Holder:
    """Which gateway has a volume, by its members' reservations; without members: it runs here."""

    name: str
    own_key: str = ""
    members: list[MemberHolder] = field(default_factory=list)


@dataclass
class VolumeList:
    volumes: list[Volume] = field(default_factory=list)


@dataclass
class Lun:
    lun: int
    vendor: str = ""
    product: str = ""
    serial: str = ""
    size_bytes: int = 0
    block_bytes: int = 0
    device_type: int = 0  # SCSI's; 0 is a disk
    writable: bool = True
    signature: str | None = None
    error: str | None = None  # it could not be looked at


@dataclass
class Target:
    iqn: str
    portals: list[str] = field(default_factory=list)
    luns: list[Lun] = field(default_factory=list)
    error: str | None = None
    skipped: str | None = None  # "other hosts", "time"


@dataclass
class Discovery:
    targets: list[Target] = field(default_factory=list)


@dataclass
class Device:
    vendor: str = ""
    product: str = ""
    serial: str = ""
    size_bytes: int = 0
    block_bytes: int = 0
    writable: bool = True
    write_cache: bool = True


@dataclass
class Examination:
    member: str
    device: Device = field(default_factory=Device)
    session: dict[str, Any] = field(default_factory=dict)
    signature: str | None = None
    superblock: dict[str, Any] | None = None
    copies: dict[str, Any] = field(default_factory=dict)


# --- the way to members ---


@dataclass
class Negotiated:
    """What holds for a session; RFC 7143, 13."""

    target_segment_bytes: int = 8192
    first_burst_bytes: int = 65536
    max_burst_bytes: int = 262144
    initial_r2t: bool = True
    immediate_data: bool = True
    header_digest: bool = False
    data_digest: bool = False
    portal_group: int = 0
    chap: bool = False
    target_proven: bool = False  # by mutual CHAP


@dataclass
class Tcp:
    """Of a session's connection; 0 where the kernel does not say."""

    rtt_us: int = 0
    rttvar_us: int = 0
    min_rtt_us: int = 0
    cwnd_segments: int = 0
    mss_bytes: int = 0
    path_mtu_bytes: int = 0
    segments_out: int = 0
    retransmits: int = 0
    busy_us: int = 0
    peer_limited_us: int = 0
    sndbuf_limited_us: int = 0
    delivery_bytes_per_second: int = 0
    pacing_bytes_per_second: int = 0
    sndbuf_bytes: int = 0
    rcvbuf_bytes: int = 0
    congestion: str = ""


@dataclass
class Path:
    portal: str = ""
    vendor: str = ""
    product: str = ""
    negotiated: Negotiated = field(default_factory=Negotiated)
    window_commands: int = 0
    window_commands_max: int = 0
    in_flight: int = 0
    data_in_bytes: int = 0
    read_bytes_max: int = 0
    write_bytes_max: int = 0
    tcp: Tcp | None = None


@dataclass
class MemberPath:
    member: str
    path: Path | None = None  # null: there is no session


@dataclass
class Paths:
    name: str
    initiator: str = ""  # the name that the volume logs in with
    members: list[MemberPath] = field(default_factory=list)


@dataclass
class Probed:
    member: str
    error: str | None = None
    reads: int = 0
    bytes: int = 0
    other_bytes: int = 0
    elapsed_ms: int = 0
    unanswered: int = 0


@dataclass
class Probe:
    name: str
    members: list[Probed] = field(default_factory=list)


@dataclass
class ConfigChange:
    """A key of a volume's file that differs from what the volume ran with."""

    key: str
    before: str = ""  # empty: a member that was not there
    after: str = ""  # empty: a member that is no longer there
    when: str = ""  # applied: when it shows
    remedy: str = ""  # not applied: what to do


@dataclass
class Reloaded:
    name: str
    running: bool = False
    note: str = ""
    applied: list[ConfigChange] = field(default_factory=list)
    pending: list[ConfigChange] = field(default_factory=list)


@dataclass
class ReloadedList:
    volumes: list[Reloaded] = field(default_factory=list)
