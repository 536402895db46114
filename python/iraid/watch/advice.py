"""What is wrong on the way to a volume's members, and what to set.  Figures in, findings out: nothing is asked or run.

A finding of a target carries the settings that end it; remedies() gathers them, one block of commands for each
target, in the words of the target's own tool as far as its INQUIRY says what it is.
"""

from dataclasses import dataclass, field
from statistics import median

from iraid.control import model
from iraid.control.units import format_size

# libiscsi, which logs in, offers no more than this: what a target allows beyond it gains nothing.
OFFERED_BYTES = 262144
SEGMENT_BYTES_MIN = 65536
MAX_BURST_BYTES = 1 << 20
WINDOW_MIN = 48  # of the 64 that we would use; LIO's default is 64
WINDOW_WANTED = 128
TRANSFER_BYTES_MIN = 262144
SLOW_RATE_SHARE = 0.6
SLOW_LATENCY_FACTOR, SLOW_LATENCY_SECONDS = 2.0, 0.5e-3
OWN_TIME_SHARE, OWN_TIME_SECONDS = 0.5, 2e-3
RETRANSMIT_SHARE, RETRANSMITS_MIN = 1e-3, 50
LIMITED_SHARE, BUSY_SECONDS_MIN = 0.1, 1.0
LONG_ROUND_TRIP, IDLE_ROUND_TRIP = 1e-3, 5e-3
BUFFER_SHARE = 0.6
JUMBO_RATE, JUMBO_MSS_MAX = 400 << 20, 1460
MTU_SHARE = 0.8
PARTIAL_ROWS_MIN = 1000


@dataclass(frozen=True)
class Measured:
    """A member, and what is known of it."""

    member: str
    role: int | None
    state: str
    reason: str | None = None
    path: model.Path | None = None
    latency: float | None = None  # seconds, of a small read at depth 1
    rate: float | None = None  # bytes a second, of large reads at depth, with what it did for others meanwhile
    error: str | None = None  # why there is no figure
    initiator: str = ""  # our name

    @property
    def round_trip(self) -> float:
        """Of the network alone; 0: not known."""
        tcp = self.path.tcp if self.path else None
        return (tcp.min_rtt_us or tcp.rtt_us) / 1e6 if tcp else 0.0

    @property
    def unasked_bytes(self) -> int:
        """Of a write that goes out at once."""
        if self.path is None:
            return 0
        n = self.path.negotiated
        immediate = min(n.first_burst_bytes, n.target_segment_bytes) if n.immediate_data else 0
        return immediate if n.initial_r2t else n.first_burst_bytes

    @property
    def iqn(self) -> str:
        return self.member.split("/")[1]

    @property
    def address(self) -> str:
        """Of the portal in use, without its port."""
        portal = (self.path.portal if self.path else "") or self.member.split("/")[0].split(",")[0]
        return portal.rpartition(":")[0].strip("[]") or portal


@dataclass(frozen=True)
class Gateway:
    """Of this machine's kernel; 0 or None: not known."""

    rmem_max: int = 0  # third value of net.ipv4.tcp_rmem
    wmem_max: int = 0
    slow_start_after_idle: bool | None = None


@dataclass
class Finding:
    kind: str
    severity: str  # "warning": costs throughput or safety now; "note": may
    text: str
    members: list[str] = field(default_factory=list)  # none: the gateway
    settings: dict[str, str] = field(default_factory=dict)  # of a target
    commands: list[str] = field(default_factory=list)  # for the gateway
    advice: str = ""  # where no command can be given


@dataclass
class Remedy:
    where: str  # "target 10.0.0.1 (LIO)", "gateway"
    members: list[str]
    findings: list[str]
    commands: list[str]
    text: str = ""


def find(volume: model.Volume, measured: list[Measured], gateway: Gateway) -> list[Finding]:
    there = [one for one in measured if one.path is not None]
    found = _out(volume, measured)
    for one in there:
        found += _session(one, volume.chunk_bytes or SEGMENT_BYTES_MIN)
        found += _network(one, gateway)
    found += _compared([one for one in there if one.state == "in sync"])
    found += _log(volume, [one.round_trip for one in there if one.state == "in sync"])
    return sorted(_merged(found), key=lambda finding: finding.severity != "warning")


# --- members that are out ---


def _out(volume: model.Volume, measured: list[Measured]) -> list[Finding]:
    found = []
    for one in measured:
        if one.state in ("in sync", "spare") and one.path is not None:
            if one.error:
                found.append(
                    Finding(
                        "unmeasured",
                        "warning",
                        f"it could not be measured: {one.error}",
                        [one.member],
                        advice=f"iraid status {volume.name} shows what it does",
                    )
                )
            continue
        what = one.state if one.state != "in sync" else "not answering"
        why = f": {one.reason}" if one.reason else ""
        cost = "the others do its work" if one.state != "spare" else "it can't take the place of a member"
        found.append(
            Finding(
                "out",
                "warning",
                f"it is {what}{why}; {cost}",
                [one.member],
                advice=f"iraid status {volume.name} shows what it needs",
            )
        )
    for role in volume.empty_roles:
        found.append(
            Finding(
                "empty",
                "warning",
                f"role {role} has no device: its data is computed from the other members",
                commands=[f"iraid replace {volume.name} {role} DEVICE"],
            )
        )
    return found


# --- the write log ---


def _log(volume: model.Volume, round_trips: list[float]) -> list[Finding]:
    """It answers a write of a part of a row after one round trip; off was somebody's choice."""
    rows, far = volume.rows, max(round_trips, default=0.0)
    partial = rows.read_modify_write + rows.reconstruct + rows.read_all
    if volume.log.mode != "degraded" or volume.log.too_small or far < LONG_ROUND_TRIP:
        return []
    if partial < max(PARTIAL_ROWS_MIN, rows.full):
        return []
    return [
        Finding(
            "log",
            "note",
            f"most rows are written in part, and such a write waits for two round trips of up to {_ms(far)}; with the "
            "write log always open it waits for one, but members have more to write",
            commands=[f"iraid set {volume.name} --log always"],
        )
    ]


# --- what was negotiated ---


def _session(one: Measured, chunk_bytes: int) -> list[Finding]:
    assert one.path is not None
    path, agreed = one.path, one.path.negotiated
    found = []

    def add(kind: str, severity: str, text: str, **more: object) -> None:
        found.append(Finding(kind, severity, text, [one.member], **more))  # type: ignore[arg-type]

    if agreed.target_segment_bytes < SEGMENT_BYTES_MIN:
        pieces = -(-OFFERED_BYTES // agreed.target_segment_bytes)
        add(
            "segment",
            "warning",
            f"MaxRecvDataSegmentLength is {agreed.target_segment_bytes}: a write of "
            f"{format_size(OFFERED_BYTES)} needs {pieces} PDUs",
            settings={"MaxRecvDataSegmentLength": str(OFFERED_BYTES)},
        )
    if 0 < path.data_in_bytes < SEGMENT_BYTES_MIN:
        add(
            "data-in",
            "warning",
            f"the target sends no more than {path.data_in_bytes} bytes of a read in one PDU "
            "(its MaxXmitDataSegmentLength)",
            settings={"MaxXmitDataSegmentLength": str(OFFERED_BYTES)},
        )
    if agreed.initial_r2t:
        add(
            "r2t",
            "warning",
            f"InitialR2T is Yes: data of a write beyond {format_size(one.unasked_bytes)} waits a "
            "round trip until the target asks for it",
            settings={"InitialR2T": "No"},
        )
    if not agreed.immediate_data:
        add(
            "immediate",
            "warning",
            "ImmediateData is No: no write command carries its data",
            settings={"ImmediateData": "Yes"},
        )
    if agreed.max_burst_bytes < OFFERED_BYTES:
        add(
            "max-burst",
            "warning",
            f"MaxBurstLength is {agreed.max_burst_bytes}: longer writes are split",
            settings={"MaxBurstLength": str(MAX_BURST_BYTES)},
        )
    if agreed.first_burst_bytes < OFFERED_BYTES:
        short = agreed.first_burst_bytes < min(max(chunk_bytes, SEGMENT_BYTES_MIN), OFFERED_BYTES)
        wait = "wait for the target, or " if agreed.initial_r2t else ""
        add(
            "first-burst",
            "warning" if short else "note",
            f"FirstBurstLength is {agreed.first_burst_bytes}: larger writes {wait}are split",
            settings={"FirstBurstLength": str(OFFERED_BYTES)},
        )
    if agreed.data_digest:
        add(
            "data-digest",
            "note",
            "data carries a CRC32C, because the volume's configuration asks for it: both sides compute it",
            advice="to end that, write data_digest = none in the volume's file; it applies after iraid config reload, at "
            "the next login",
        )
    if agreed.header_digest:
        add(
            "header-digest",
            "note",
            "headers carry a CRC32C, because the volume's configuration asks for it",
            advice="to end that, write header_digest = none in the volume's file; it applies after iraid config reload, at "
            "the next login",
        )
    if 0 < path.window_commands < min(WINDOW_MIN, path.window_commands_max or WINDOW_MIN):
        add(
            "depth",
            "warning",
            f"the target allows {path.window_commands} commands in flight, the gateway could use "
            f"{path.window_commands_max}",
            settings={"depth": str(WINDOW_WANTED)},
        )
    if 0 < path.read_bytes_max < TRANSFER_BYTES_MIN:
        add(
            "transfer",
            "note",
            f"its LUN accepts {format_size(path.read_bytes_max)} a command at most (block limits, VPD B0)",
            advice="raise the limit on the target; for LIO it is hw_max_sectors of the backstore",
        )
    return found


# --- the network ---


def _network(one: Measured, gateway: Gateway) -> list[Finding]:
    assert one.path is not None
    tcp = one.path.tcp
    if tcp is None:
        return []
    found = _losses(one, tcp) + _write_buffers(one, tcp, gateway) + _long_way(one, gateway)
    if one.rate is not None and one.rate >= JUMBO_RATE and 0 < tcp.mss_bytes <= JUMBO_MSS_MAX:
        found.append(
            Finding(
                "mtu",
                "note",
                f"packets of {tcp.path_mtu_bytes} bytes at {_rate(one.rate)}: larger ones cost less CPU",
                [one.member],
                commands=[_mtu_command(one)],
                advice="first set the same MTU on the target's interface and on every switch between",
            )
        )
    return found


def _mtu_command(one: Measured) -> str:
    device = f"$(ip -o route get {one.address} | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')"
    return f'ip link set dev "{device}" mtu 9000'


def _losses(one: Measured, tcp: model.Tcp) -> list[Finding]:
    if tcp.retransmits < RETRANSMITS_MIN or tcp.retransmits < RETRANSMIT_SHARE * tcp.segments_out:
        return []
    share = 100 * tcp.retransmits / max(tcp.segments_out, 1)
    text = f"{tcp.retransmits} of {tcp.segments_out} packets to it were sent again ({share:.2g} %)"
    return [
        Finding(
            "loss",
            "warning",
            text,
            [one.member],
            advice="look for errors and drops of the interfaces and switches between (ip -s link, ethtool -S)",
        )
    ]


def _write_buffers(one: Measured, tcp: model.Tcp, gateway: Gateway) -> list[Finding]:
    """What the kernel says it waited for while it had something to send."""
    if tcp.busy_us < BUSY_SECONDS_MIN * 1e6:
        return []
    found = []
    if tcp.sndbuf_limited_us > LIMITED_SHARE * tcp.busy_us:
        share = round(100 * tcp.sndbuf_limited_us / tcp.busy_us)
        text = f"the gateway's send buffer was full for {share} % of the time that there was something to send"
        found.append(
            Finding(
                "send-buffer",
                "warning",
                text,
                [one.member],
                commands=[_sysctl("tcp_wmem", "4096 16384", 4 * gateway.wmem_max)],
            )
        )
    if tcp.peer_limited_us > LIMITED_SHARE * tcp.busy_us:
        share = round(100 * tcp.peer_limited_us / tcp.busy_us)
        text = f"for {share} % of the time that there was something to send the target's receive buffer was full"
        found.append(
            Finding(
                "peer-buffer",
                "warning",
                text,
                [one.member],
                advice="its disk is the limit, or, over a long link, its net.ipv4.tcp_rmem",
            )
        )
    return found


def _long_way(one: Measured, gateway: Gateway) -> list[Finding]:
    found = []
    under_way = (one.rate or 0.0) * one.round_trip
    # Half of a receive buffer is offered as window (tcp_adv_win_scale 1).
    window = gateway.rmem_max // 2
    if one.round_trip >= LONG_ROUND_TRIP and window and under_way > BUFFER_SHARE * window:
        found.append(
            Finding(
                "receive-buffer",
                "warning",
                f"{format_size(int(under_way))} are in flight from it at a time, but the gateway's receive window is "
                f"{format_size(window)} at most",
                [one.member],
                commands=[_sysctl("tcp_rmem", "4096 131072", 4 * gateway.rmem_max)],
            )
        )
    if one.round_trip >= IDLE_ROUND_TRIP and gateway.slow_start_after_idle:
        found.append(
            Finding(
                "slow-start",
                "note",
                f"after each pause the connection starts slowly again, and with a round trip of {_ms(one.round_trip)} it "
                "needs long to reach its full rate",
                [one.member],
                commands=["sysctl -w net.ipv4.tcp_slow_start_after_idle=0"],
                advice="set it on the target, too: for reads the target is the sender",
            )
        )
    return found


def _sysctl(name: str, low: str, most: int) -> str:
    return f'sysctl -w net.ipv4.{name}="{low} {max(most, 16 << 20)}"'


# --- one against the others ---


def _compared(members: list[Measured]) -> list[Finding]:
    found = []
    rates = [one.rate for one in members if one.rate]
    latencies = [one.latency for one in members if one.latency]
    segments = [one.path.tcp.mss_bytes for one in members if one.path and one.path.tcp and one.path.tcp.mss_bytes]
    for one in members:
        if one.rate and len(rates) > 1 and one.rate < SLOW_RATE_SHARE * median(rates):
            found.append(
                Finding(
                    "slow-rate",
                    "warning",
                    f"it reads {_rate(one.rate)}, the others {_rate(median(rates))}: rows are spread over all members, so "
                    "the slowest one limits the volume",
                    [one.member],
                    advice="check its link (ethtool) and its disks, or replace it: iraid replace",
                )
            )
        if one.latency and len(latencies) > 1:
            found += _latency(one, median(latencies))
        mss = one.path.tcp.mss_bytes if one.path and one.path.tcp else 0
        if mss and mss < MTU_SHARE * max(segments):
            found.append(
                Finding(
                    "mtu-differs",
                    "warning",
                    f"packets to it carry {mss} bytes, to others {max(segments)}: on the way to it an MTU is smaller",
                    [one.member],
                    advice=f"compare the MTU of its interfaces and switches: tracepath {one.address}",
                )
            )
    return found


def _latency(one: Measured, usual: float) -> list[Finding]:
    assert one.latency is not None
    if one.latency > SLOW_LATENCY_FACTOR * usual and one.latency - usual > SLOW_LATENCY_SECONDS:
        text = (
            f"it answers a small read after {_ms(one.latency)}, the others after {_ms(usual)}; "
            f"the network takes {_ms(one.round_trip)} of it"
        )
        return [
            Finding(
                "slow-latency",
                "warning",
                text,
                [one.member],
                advice="the way is longer (traceroute) or its disk is busy; to replace it: iraid replace",
            )
        ]
    own = one.latency - one.round_trip
    if one.round_trip and own > OWN_TIME_SECONDS and own > OWN_TIME_SHARE * one.latency:
        text = (
            f"of the {_ms(one.latency)} of a small read, the target itself takes {_ms(own)}: its disks, or other work"
        )
        return [
            Finding(
                "target-time",
                "note",
                text,
                [one.member],
                advice="more commands in flight hide it; look at the target's load (iostat)",
            )
        ]
    return []


def _merged(found: list[Finding]) -> list[Finding]:
    """The same of several members is one finding."""
    merged: dict[tuple[str, ...], Finding] = {}
    for one in found:
        key = (one.kind, one.severity, one.text, one.advice, *one.commands)
        if key in merged:
            merged[key].members += one.members
        else:
            merged[key] = one
    return list(merged.values())


# --- what to do ---


def remedies(volume: model.Volume, measured: list[Measured], findings: list[Finding]) -> list[Remedy]:
    wanted: list[Remedy] = []
    for remedy in filter(None, (_target(one, findings) for one in measured)):
        same = next(
            (one for one in wanted if one.where == remedy.where and one.commands == remedy.commands != []), None
        )
        if same:  # two LUNs of one target
            same.members += remedy.members
        else:
            wanted.append(remedy)
    commands: dict[str, list[str]] = {}
    for finding in findings:
        for command in finding.commands:
            commands.setdefault(command, []).append(finding.kind)
    told = {member for remedy in wanted for member in remedy.members}
    told |= {member for finding in findings if finding.kind == "mtu" for member in finding.members}
    if commands:
        kinds = sorted({kind for why in commands.values() for kind in why})
        members = sorted({member for f in findings if f.commands for member in f.members})
        keep = any(command.startswith("sysctl") for command in commands)
        wanted.append(
            Remedy(
                "gateway",
                members,
                kinds,
                list(commands),
                "write the sysctl settings to /etc/sysctl.d/ to keep them after a boot" if keep else "",
            )
        )
    if told:  # last: a session takes the size of its packets along, too
        wanted.append(_log_in_again(volume, [one for one in measured if one.member in told]))
    return wanted


def _target(one: Measured, findings: list[Finding]) -> Remedy | None:
    mine = [finding for finding in findings if one.member in finding.members and finding.settings]
    settings = {key: value for finding in mine for key, value in finding.settings.items()}
    if not settings or one.path is None:
        return None
    # A target refuses a first burst above the longest one.
    ordered = dict(sorted(settings.items(), key=lambda item: item[0] != "MaxBurstLength"))
    kind = target_kind(one.path)
    make = {"tgt": _tgt, "LIO": _lio}.get(kind, _other)
    commands, text = make(one, ordered)
    return Remedy(f"target {one.address} ({kind})", [one.member], [finding.kind for finding in mine], commands, text)


def target_kind(path: model.Path) -> str:
    if path.vendor == "IET":
        return "tgt"
    return "LIO" if path.vendor == "LIO-ORG" else f"{path.vendor} {path.product}".strip() or "unknown"


def _tgt(one: Measured, settings: dict[str, str]) -> tuple[list[str], str]:
    names = {"depth": "MaxQueueCmd"}
    pattern = one.iqn.replace(".", "\\.")
    target = "tgtadm --lld iscsi --mode target"
    commands = [f"tid=$({target} --op show | sed -n 's/^Target \\([0-9]*\\): {pattern}$/\\1/p')"]
    commands += [
        f'{target} --op update --tid "$tid" --name {names.get(key, key)} --value {value}'
        for key, value in settings.items()
    ]
    lines = "; ".join(f"{names.get(key, key)} {value}" for key, value in settings.items())
    return commands, f"to keep it, add to this target's block in /etc/tgt/targets.conf: {lines}"


def _lio(one: Measured, settings: dict[str, str]) -> tuple[list[str], str]:
    assert one.path is not None
    group = one.path.negotiated.portal_group or 1
    # What LIO declares as the segment it receives is what it is told for those it sends (iscsi_check_acceptor_state()).
    if "MaxRecvDataSegmentLength" in settings:
        settings = settings | {"MaxXmitDataSegmentLength": settings["MaxRecvDataSegmentLength"]}
    where = f"/iscsi/{one.iqn}/tpg{group}"
    parameters = " ".join(f"{key}={value}" for key, value in settings.items() if key != "depth")
    commands = [f"targetcli {where} set parameter {parameters}"] if parameters else []
    text = ""
    if "depth" in settings:
        commands.append(f"targetcli {where} set attribute default_cmdsn_depth={settings['depth']}")
        acl = f"/sys/kernel/config/target/iscsi/{one.iqn}/tpgt_{group}/acls/{one.initiator}"
        commands.append(f"[ ! -d {acl} ] || echo {settings['depth']} > {acl}/cmdsn_depth")
        text = (
            "a new depth of an ACL ends its session, so change one target after the other, with iraid wait between; an "
            "initiator that LIO admitted without an ACL keeps its depth until LIO's configuration is loaded "
            "again"
        )
    return [*commands, "targetcli saveconfig"], text


def _other(_one: Measured, settings: dict[str, str]) -> tuple[list[str], str]:
    words = ", ".join(
        f"{'commands under way in a session' if key == 'depth' else key} {value}" for key, value in settings.items()
    )
    return [], f"set {words}; the manual of the target says how"


def _log_in_again(volume: model.Volume, told: list[Measured]) -> Remedy:
    """What is set on a target, and a link's MTU, hold from the next login on."""
    name, members = volume.name, [one.member for one in told]
    if not volume.users or volume.level == 0:
        text = "the settings apply from the next login on" + (
            "; first end the use of the volume: iraid unexport, or stop the program that serves it"
            if volume.users
            else ""
        )
        return Remedy("gateway, then", members, ["login"], [f"iraid stop {name}", f"iraid start {name}"], text)
    # Others than those in sync can't be failed: they wait for the volume's next start, or are filled anew.
    commands = [
        f"iraid {words}"
        for one in told
        if one.state == "in sync"
        for words in (f"fail {name} {one.member}", f"rebuild {name} {one.member}", f"wait {name}")
    ]
    first = "" if volume.state == "active" else "first bring back the members that are out; "
    return Remedy(
        "gateway, then",
        members,
        ["login"],
        commands,
        f"the settings apply from the next login on; {first}the volume is in use, so do one member "
        "after the other, and wait until each is in sync; when it is not in use, iraid stop and start do all "
        "at once",
    )


def _rate(rate: float) -> str:
    return f"{format_size(int(rate))}/s"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
