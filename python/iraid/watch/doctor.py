"""iraid doctor: what is wrong with a gateway, and what to type.  Facts in, findings out: nothing is asked or run here.

Each check is a function of the facts that gives findings; one that gives none found all well, and says what it looked
at.  A fact that is not known makes no finding, but that it could not be looked at.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from iraid.control import model
from iraid.control.units import format_size
from iraid.lio import export_plan, lio_tree, target

from . import advice, verdict
from .facts import MODULES, Facts, split_portal

GRADES = ("ok", "unknown", "note", "warning", "bad")
# A handler made for 1.5.4 runs in these (scripts/tcmu-requires).
RUNNER_FROM, RUNNER_BEFORE = "1.5.4", "1.6.3"
OPEN_FILES_MIN = 65536
OOM_SCORE_ADJUST_MAX = -500
DATA_AREA_MIB_MAX = 2 * export_plan.DATA_AREA_MIB
FREE_BYTES_MIN = 64 << 20
WINDOW_LEFT_MIN = 1 / 8  # of the commands that a session may send
LINK_BYTES_PER_SECOND = 118e6  # what iSCSI has of 1 Gbit/s
UPGRADE = "/usr/libexec/iraid/upgrade-runner"
TARGETCTL = ("rtslib-fb-targetctl.service", "target.service")  # Debian's, and others'
SAVE = "targetcli saveconfig"
_SHOWN_MAX = 5


@dataclass
class Finding:
    check: str
    grade: str  # of GRADES
    text: str
    remedies: list[str] = field(default_factory=list)


Check = Callable[[Facts], Iterator[Finding]]
Missing = Callable[[Facts], str]  # why there is nothing to look at, or ""
CHECKS: list[tuple[str, str, Missing, Check]] = []  # name, what is said when all is well


def _nothing_missing(_facts: Facts) -> str:
    return ""


def _no_handler(facts: Facts) -> str:
    return "the handler does not answer" if facts.handler is None else ""


def _no_volumes(facts: Facts) -> str:
    return _no_handler(facts) or (
        f"the handler does not say which volumes there are: {facts.volumes_error}" if facts.volumes_error else ""
    )


def check(name: str, well: str, missing: Missing = _nothing_missing) -> Callable[[Check], Check]:
    def add(function: Check) -> Check:
        CHECKS.append((name, well, missing, function))
        return function

    return add


def examine(facts: Facts) -> list[Finding]:
    """At least one for each check."""
    found: list[Finding] = []
    for name, well, missing, function in CHECKS:
        mine = list(function(facts))
        for one in mine:
            one.check = name
        why = missing(facts)
        found += mine or [Finding(name, "unknown", f"not looked at: {why}") if why else Finding(name, "ok", well)]
    return found


def exit_status(found: list[Finding]) -> int:
    """0, 1 with a warning, 2 when something is bad."""
    grades = {one.grade for one in found}
    return 2 if "bad" in grades else 1 if "warning" in grades else 0


def _finding(grade: str, text: str, *remedies: str) -> Finding:
    return Finding("", grade, text, list(remedies))


def _bad(text: str, *remedies: str) -> Finding:
    return _finding("bad", text, *remedies)


def _warning(text: str, *remedies: str) -> Finding:
    return _finding("warning", text, *remedies)


def _note(text: str, *remedies: str) -> Finding:
    return _finding("note", text, *remedies)


def _through_lio(facts: Facts) -> bool:
    """Not so where a program without a kernel serves volumes: iraid-engine, nbdkit."""
    return facts.handler is None or facts.handler.program == target.RUNNER


# --- programs ---


@check("handler", "the handler answers, and has the same version as this command")
def _handler(facts: Facts) -> Iterator[Finding]:
    if facts.handler is None:
        if facts.process is not None:
            yield _bad(
                f"{target.RUNNER} runs (pid {facts.process.pid}), but the iraid handler in it does not answer: "
                f"{facts.handler_error}",
                f"journalctl -b -u {target.RUNNER}",
                f"systemctl restart {target.RUNNER}",
            )
        else:
            yield _bad(
                f"{target.RUNNER} does not run: {facts.handler_error}",
                f"systemctl start {target.RUNNER}",
                f"journalctl -b -u {target.RUNNER}",
            )
        return
    if facts.handler_error:
        yield _bad(f"the handler answers, but some requests failed: {facts.handler_error}", "iraid version")
    if facts.handler.program != target.RUNNER:
        yield _note(
            f"volumes are served by {facts.handler.program}, which exports nothing through LIO", "iraid version"
        )
    if facts.handler.version != facts.version:
        yield _warning(f"the handler is version {facts.handler.version}, this command {facts.version}", UPGRADE)
    if facts.process is not None and facts.process.replaced:
        names = ", ".join(Path(name).name for name in facts.process.replaced)
        yield _warning(f"{names} was replaced on the disk after the runner started: the old version runs", UPGRADE)


@check(
    "runner",
    "tcmu-runner has a supported version and the limits that it needs",
    lambda facts: "it does not run" if facts.process is None else "",
)
def _runner(facts: Facts) -> Iterator[Finding]:
    if not _through_lio(facts):
        return
    if facts.runner_version is not None and not (
        _version(RUNNER_FROM) <= _version(facts.runner_version) < _version(RUNNER_BEFORE)
    ):
        yield _warning(
            f"tcmu-runner is {facts.runner_version}, the handler supports versions from {RUNNER_FROM} to before "
            f"{RUNNER_BEFORE}",
            "apt install --reinstall iraid tcmu-runner",
        )
    process = facts.process
    if process is None:
        return
    if process.open_files is not None and process.open_files < OPEN_FILES_MIN:
        yield _warning(
            f"tcmu-runner may open only {process.open_files} files, and each session needs one (LimitNOFILE)",
            "systemctl daemon-reload",
            UPGRADE,
        )
    if process.oom_score_adjust is not None and process.oom_score_adjust > OOM_SCORE_ADJUST_MAX:
        yield _warning(
            f"when memory is short the kernel may kill tcmu-runner (oom_score_adj {process.oom_score_adjust}), "
            "and every initiator depends on it",
            "systemctl daemon-reload",
            UPGRADE,
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


@check("kernel", "the kernel has TCMU and the iSCSI target, configfs is mounted")
def _kernel(facts: Facts) -> Iterator[Finding]:
    if not _through_lio(facts):
        return
    missing = [name for name in MODULES if facts.modules is not None and name not in facts.modules]
    if missing:
        yield _bad(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not loaded (kernel {facts.kernel}): "
            "nothing can be exported",
            f"modprobe -a {' '.join(missing)}",
        )
    if facts.configfs is False:
        yield _bad("configfs is not mounted: LIO can't be configured", "mount -t configfs configfs /sys/kernel/config")


@check(
    "d-bus",
    "tcmu-runner has its name on the system bus",
    lambda facts: "busctl does not answer" if facts.bus is None and _through_lio(facts) else "",
)
def _bus(facts: Facts) -> Iterator[Finding]:
    if not _through_lio(facts):
        return
    if facts.bus is False:
        yield _bad(
            "tcmu-runner has no name on the system bus: targetcli and targetctl do not find the handler",
            "systemctl status dbus",
            f"systemctl restart {target.RUNNER}",
        )


@check(
    "units",
    "units are enabled, their drop-ins are used, none has failed",
    lambda facts: "systemd does not run here" if facts.units is None else "",
)
def _units(facts: Facts) -> Iterator[Finding]:
    if facts.units is None:
        return
    restore = next((name for name in TARGETCTL if facts.units.get(name, {}).get("LoadState") == "loaded"), None)
    if restore is None and _through_lio(facts):
        yield _bad("no unit restores LIO at boot: exports would be missing", "apt install python3-rtslib-fb")
    wanted = [f"{target.RUNNER}.service", *([restore] if restore else [])] if _through_lio(facts) else []
    for name in wanted:
        # Its start clears LIO before it restores, exports that nobody has saved along with it.
        yield from _unit(name, facts.units.get(name, {}), clears=name == restore and bool(facts.lio.names))
    for name, unit in facts.units.items():
        if unit.get("ActiveState") == "failed" and name not in wanted:
            yield _warning(
                f"{name} has failed ({unit.get('Result', 'no reason')})",
                f"journalctl -b -u {name}",
                f"systemctl restart {name}",
            )
    if any(unit.get("NeedDaemonReload") == "yes" for unit in facts.units.values()):
        yield _warning("unit files were changed, and systemd has not read them yet", "systemctl daemon-reload")


def _unit(name: str, unit: dict[str, str], clears: bool) -> Iterator[Finding]:
    if unit.get("LoadState") != "loaded":
        return (yield _bad(f"{name} is not installed", "apt install tcmu-runner python3-rtslib-fb"))
    if unit.get("UnitFileState") not in ("enabled", "enabled-runtime", "static", "indirect", "generated", "alias"):
        yield _bad(
            f"{name} is {unit.get('UnitFileState') or 'not enabled'}: it does not start at boot",
            f"systemctl enable {name}",
        )
    later = (
        "; its start would first remove all exports that run: start it when no initiator uses them" if clears else ""
    )
    if unit.get("ActiveState") == "failed":
        yield _bad(
            f"{name} has failed ({unit.get('Result', 'no reason')}){later}",
            f"journalctl -b -u {name}",
            *([] if clears else [f"systemctl restart {name}"]),
        )
    elif unit.get("ActiveState") != "active":
        yield _bad(
            f"{name} is {unit.get('ActiveState', 'unknown')}{later}",
            f"journalctl -b -u {name}" if clears else f"systemctl start {name}",
        )
    if not any(path.endswith("/iraid.conf") for path in unit.get("DropInPaths", "").split()):
        yield _bad(
            f"the drop-in iraid.conf of {name} is not used: the order at boot and the restarts are wrong",
            "systemctl daemon-reload",
            "apt install --reinstall iraid",
        )
    restarts = unit.get("NRestarts", "0")
    if restarts.isdecimal() and int(restarts) > 0:
        yield _warning(f"{name} died and was restarted {restarts} times", f"journalctl -b -u {name}")


# --- volumes ---


@check("volumes", "all volumes are ok", _no_volumes)
def _volumes(facts: Facts) -> Iterator[Finding]:
    if not facts.volumes and not _no_volumes(facts):
        yield _finding("ok", "there are no volumes")
    for volume in facts.volumes:
        one = verdict.judge(volume, len(facts.spares))
        if one.grade == verdict.FAILED:
            yield _bad(f"{one.name} is {one.word}: {one.text}", *one.remedies)
        elif one.word == "WORK":
            yield _note(f"{one.name}: {one.text}", *one.remedies)
        elif one.grade != verdict.GOOD:
            yield _warning(f"{one.name} is {one.word}: {one.text}", *one.remedies)


@check("redundancy", "members are on different machines, volumes have spares and are scrubbed", _no_volumes)
def _redundancy(facts: Facts) -> Iterator[Finding]:
    redundant = [volume for volume in facts.volumes if volume.level not in (0, None) and volume.state != "stopped"]
    for volume in redundant:
        yield from _shared_hosts(volume)
        if not facts.spares and not any(member.state == "spare" for member in volume.members):
            yield _note(
                f"{volume.name} has no spare: after a loss it has less redundancy until somebody replaces the member",
                f"iraid add-spare {volume.name} DEVICE",
            )
        if volume.log.too_small and volume.log.mode != "off":
            yield _warning(
                f"{volume.name}: its members have too little room for the write log, so writes are not logged, and a "
                "crash of the gateway while members are out may cost data; a volume with smaller chunks or larger "
                "members has the room",
                f"iraid set {volume.name} --log off",
            )
    yield from _spares_too_small(facts, redundant)
    timer = (facts.units or {}).get("iraid-scrub.timer", {})
    if redundant and timer.get("LoadState") == "loaded" and timer.get("ActiveState") != "active":
        yield _warning(
            "no volume is scrubbed regularly: silent errors of targets stay undetected",
            "systemctl enable --now iraid-scrub.timer",
        )
    monitor = (facts.units or {}).get("iraid-monitor.service", {})
    if facts.volumes and monitor.get("LoadState") == "loaded" and monitor.get("ActiveState") != "active":
        yield _note(
            "iraid-monitor does not run: it would report failed members by mail",
            "iraid monitor --test",
            "systemctl enable --now iraid-monitor",
        )


def _shared_hosts(volume: model.Volume) -> Iterator[Finding]:
    """By the first portal: two LUNs of one machine go with it."""
    hosts: dict[str, list[model.Member]] = {}
    for member in volume.members:
        if member.role is not None and member.role >= 0 and member.state == "in sync":
            hosts.setdefault(split_portal((member.portals or [member.member.split("/")[0]])[0])[0], []).append(member)
    count = len(verdict.roles(volume))
    borne = {5: 1, 6: 2, 1: count - 1}.get(volume.level or 0, 0)
    for host, members in hosts.items():
        if host in ("127.0.0.1", "::1", "localhost"):
            continue
        roles = sorted({member.role for member in members if member.role is not None})
        if volume.level == 10:
            roles = [role for role in roles if verdict.copies_of(count, role) & set(roles)]
            why = "if it fails, both copies of their chunks are lost"
        else:
            why = f"if it fails, all of them are lost, and the level survives the loss of {borne}"
        if len(roles) > (1 if volume.level == 10 else borne):
            yield _warning(
                f"{volume.name}: members {', '.join(map(str, roles))} are on the same machine, {host}: {why}",
                f"iraid replace {volume.name} {roles[-1]} DEVICE",
            )


def _spares_too_small(facts: Facts, redundant: list[model.Volume]) -> Iterator[Finding]:
    for volume in redundant:
        sizes = [member.size_bytes for member in volume.members if member.state == "in sync" and member.size_bytes]
        if not sizes:
            continue
        small = [
            (member.member, member.size_bytes, f"iraid remove {volume.name} {member.member}")
            for member in volume.members
            if member.state == "spare" and 0 < member.size_bytes < min(sizes)
        ]
        if facts.spares and all(0 < spare.size_bytes < min(sizes) for spare in facts.spares):
            small += [
                (spare.device, spare.size_bytes, f"iraid remove --gateway {spare.device}") for spare in facts.spares
            ]
        for device, size, remedy in small:
            yield _warning(
                f"spare {device} has {format_size(size)}, less than the smallest member of {volume.name}, "
                f"{format_size(min(sizes))}: it may be too small",
                remedy,
                f"iraid add-spare {volume.name} DEVICE",
            )


# --- the way to members ---


@check(
    "portals",
    "all portals of members and spares accept connections",
    lambda facts: "" if facts.portals else _no_volumes(facts),
)
def _portals(facts: Facts) -> Iterator[Finding]:
    users: dict[str, list[str]] = {}
    for spare in facts.spares:
        for portal in spare.device.split("/")[0].split(","):
            users.setdefault(portal, []).append("the gateway's spares")
    for volume in facts.volumes:
        for member in volume.members:
            who = f"{volume.name} {member.role if member.role is not None else 'spare'}"
            for portal in member.portals or [member.member.split("/")[0]]:
                users.setdefault(portal, []).append(who)
    for portal, error in facts.portals.items():
        if error is not None:
            yield _bad(
                f"portal {portal} accepts no connection: {error} (for {', '.join(users.get(portal, ['no session in use']))})",
                f"ping -c 3 {split_portal(portal)[0]}",
                f"iraid discover {portal}",
            )


@check("tuning", "settings of targets and of the gateway's TCP are good (iraid advise NAME measures more)", _no_volumes)
def _tuning(facts: Facts) -> Iterator[Finding]:
    for volume in facts.volumes:
        paths = facts.paths.get(volume.name)
        if paths is None:
            continue
        known = {one.member: one.path for one in paths.members}
        measured = [
            advice.Measured(
                member.member, member.role, member.state, path=known.get(member.member), initiator=paths.initiator
            )
            for member in volume.members
        ]
        for one in advice.find(volume, measured, facts.gateway):
            if one.kind in ("out", "empty"):
                continue  # said of the volume already
            roles = [str(m.role) for m in volume.members if m.member in one.members and m.role is not None]
            whom = f" member {', '.join(roles)}:" if roles else ""
            yield _finding(
                "warning" if one.severity == "warning" else "note",
                f"{volume.name}{whom} {one.text}",
                *one.commands,
                f"iraid advise {volume.name}",
            )

        yield from _windows(volume, paths, facts.gateway)


def _windows(volume: model.Volume, paths: model.Paths, gateway: advice.Gateway) -> Iterator[Finding]:
    """TCP's buffers against the round trip, as if the link had 1 Gbit/s: nothing was measured here."""
    far = (
        max(
            (one.path.tcp.min_rtt_us or one.path.tcp.rtt_us for one in paths.members if one.path and one.path.tcp),
            default=0,
        )
        / 1e6
    )
    if far < advice.LONG_ROUND_TRIP:
        return
    for name, low, most, what in (
        ("tcp_rmem", "4096 131072", gateway.rmem_max, "read from"),
        ("tcp_wmem", "4096 16384", gateway.wmem_max, "written to"),
    ):
        # Half of a buffer is window (tcp_adv_win_scale 1), or data: the rest is what the kernel needs for it.
        if 0 < most and most / 2 < LINK_BYTES_PER_SECOND * far:
            wanted = 1 << (int(2 * LINK_BYTES_PER_SECOND * far) - 1).bit_length()
            yield _warning(
                f"{volume.name}: over {far * 1000:.3g} ms no more than {format_size(int(most / 2 / far))}/s can "
                f"be {what} a member in one session (net.ipv4.{name} ends at {format_size(most)})",
                f'sysctl -w net.ipv4.{name}="{low} {wanted}"',
                f"iraid advise {volume.name}",
            )


# --- LIO ---


@check("exports", "LUNs accept long commands, and LIO's saved configuration matches what runs")
def _exports(facts: Facts) -> Iterator[Finding]:
    for lun in facts.lio.luns:
        yield from _lun(lun, facts)
    yield from _targets(facts)
    if facts.saved_error is not None:
        yield _bad(f"LIO's saved configuration: {facts.saved_error}", f"ls -l {facts.saved_file}")
    elif facts.saved is None:
        if facts.lio.luns:
            yield _bad("LIO's configuration is not saved: a reboot removes all exports", SAVE)
    else:
        different = lio_tree.differences(facts.saved, facts.lio)
        for missing, remedies in ((True, _bring_back(facts)), (False, _save(facts))):
            texts = [one.text for one in different if one.missing == missing]
            if texts:
                but = (
                    ""
                    if missing or remedies[0] == SAVE
                    else ("; do not save now: what is saved and does not run would be removed from it")
                )
                yield _warning(
                    f"LIO's saved configuration {facts.saved_file} differs from what runs: {_few(texts)}{but}",
                    *remedies,
                )
        yield from _saved_at_rest(facts)


def _saved_at_rest(facts: Facts) -> Iterator[Finding]:
    for name, commands in sorted(lio_tree.exports_at_rest(facts.saved or {}, facts.lio).items()):
        yield _warning(
            f"LIO's saved configuration {facts.saved_file} says of LUN {name} which gateway serves it, as targetcli "
            "saveconfig writes it down: after a boot this gateway would say so before that is decided",
            *commands,
        )


def _bring_back(facts: Facts) -> list[str]:
    """`targetctl restore` clears all of LIO first: sessions of what runs would go, and what is not saved."""
    if not facts.lio.names:
        return [f"journalctl -b -u {TARGETCTL[0]}", "targetctl restore"]
    return [f"journalctl -b -u {TARGETCTL[0]}", *lio_tree.exports_again(facts.saved or {}, facts.lio)]


def _save(facts: Facts) -> list[str]:
    """`targetcli saveconfig` writes what runs: what is missing would be dropped for good, so it must come back first."""
    if facts.saved_error is not None:
        return [f"ls -l {facts.saved_file}"]
    saved = facts.saved or {}
    missing = any(one.missing for one in lio_tree.differences(saved, facts.lio))
    if missing or lio_tree.missing_of_others(saved, facts.lio):
        return [f"journalctl -b -u {TARGETCTL[0]}", "targetcli ls", "iraid doctor"]
    # of a pair it writes the states of this moment, too, which doctor says then
    return [SAVE, "iraid doctor"] if any(lun.pair for lun in facts.lio.luns) else [SAVE]


def _lun(lun: lio_tree.Lun, facts: Facts) -> Iterator[Finding]:
    # What is exported under which target and to whom stays in LIO's file; both commands are needed.
    again = [f"iraid unexport {lun.volume}", f"iraid export {lun.volume} --help"]
    most = lun.transfer_sectors * (lun.sector_bytes or 512)
    if most and most < export_plan.TRANSFER_BYTES_MAX:
        yield _warning(
            f"LUN {lun.name} accepts {format_size(most)} a command; initiators split longer requests "
            f"(hw_max_sectors; iraid export sets {format_size(export_plan.TRANSFER_BYTES_MAX)})",
            *again,
        )
    if lun.data_area_mib > DATA_AREA_MIB_MAX:
        yield _note(
            f"LUN {lun.name} may use {lun.data_area_mib} MiB of memory for data in flight (max_data_area_mb; "
            f"{export_plan.DATA_AREA_MIB} MiB are as fast)",
            *again,
        )
    if not lun.active:
        yield _bad(
            f"LUN {lun.name} is not activated: initiators get errors", f"journalctl -b -u {target.RUNNER}", *again
        )
    volume = next((one for one in facts.volumes if one.name == lun.volume), None)
    if facts.handler is not None and not facts.handler_error and volume is None:
        yield _bad(
            f"LUN {lun.name} belongs to volume {lun.volume}, which does not exist: bring its file back from its members if "
            "that was lost; an export that is not wanted any more is ended by iraid unexport",
            "iraid list",
            "iraid import MEMBER...",
        )
    elif (
        volume is not None
        and facts.handler is not None
        and facts.handler.program == target.RUNNER
        and not any(user.startswith("tcmu: ") for user in volume.users)
    ):
        yield _bad(
            f"LUN {lun.name} has no volume behind it, and initiators get NOT READY: "
            f"{volume.reason or f'volume {volume.name} is {volume.state}'}",
            f"iraid config check {volume.name}",
            f"iraid start {volume.name}",
        )
    elif volume is not None and volume.size_bytes and lun.size_bytes and lun.size_bytes < volume.size_bytes:
        yield _note(
            f"LUN {lun.name} has {format_size(lun.size_bytes)}, but its volume has {format_size(volume.size_bytes)}",
            f"iraid grow {lun.volume}",
        )


def _command_windows(export: lio_tree.Export, facts: Facts) -> Iterator[Finding]:
    """Places of a window that neither are left nor have a command under way are lost for the session's life."""
    names = {lun.volume for lun in facts.lio.luns if lun.name in export.luns.values()}
    active = sum(volume.requests_active for volume in facts.volumes if volume.name in names)
    for initiator, window in export.windows.items():
        if window.left <= window.granted * WINDOW_LEFT_MIN and active < (window.granted - window.left) / 2:
            yield _warning(
                f"initiator {initiator} may send {window.left} of {window.granted} commands to target {export.iqn} at a "
                f"time, though {active} are under way: aborts and resets used the others up. With none left its I/O "
                "stands still without an error. On the initiator, if it is Linux, this makes the session anew",
                "sg_reset --target DISK",
            )


def _targets(facts: Facts) -> Iterator[Finding]:
    for export in facts.lio.exports:
        yield from _command_windows(export, facts)
        where = f"/iscsi/{export.iqn}/tpg{export.group}"
        if not export.enabled:
            yield _bad(
                f"target {export.iqn} is disabled: no initiator can log in", f"targetcli {where} enable", *_save(facts)
            )
        if not export.portals:
            yield _bad(
                f"target {export.iqn} has no portal: no initiator can reach it",
                f"targetcli {where}/portals create 0.0.0.0",
                *_save(facts),
            )
        if export.demo_mode:
            yield _note(
                f"target {export.iqn} lets any initiator log in, to read and write",
                f"targetcli {where} set attribute generate_node_acls=0",
            )
        elif not export.initiators:
            yield _warning(
                f"target {export.iqn} has no ACL: no initiator can log in",
                f"targetcli {where}/acls create INITIATOR",
                *_save(facts),
            )


# --- the machine ---


@check("secrets", "files with secrets are readable by root only")
def _secrets(facts: Facts) -> Iterator[Finding]:
    for secret in facts.secrets:
        whose = f" of {', '.join(secret.volumes)}" if secret.volumes else ""
        if secret.mode is None:
            yield _bad(
                f"secrets file {secret.path}{whose} does not exist: the next login to its targets fails",
                f"install -m 0600 /dev/null {secret.path}",
            )
        elif secret.mode & 0o077:
            yield _bad(
                f"secrets file {secret.path}{whose} has mode {secret.mode:04o}: others can read it, and the "
                "handler refuses it",
                f"chmod 0600 {secret.path}",
            )
        elif secret.uid != 0 and facts.root:
            yield _bad(f"secrets file {secret.path}{whose} belongs to user {secret.uid}", f"chown root {secret.path}")
    if facts.saved_mode is not None and facts.saved_mode & 0o077:
        yield _bad(
            f"LIO's saved configuration {facts.saved_file} has mode {facts.saved_mode:04o}: others can read its secrets",
            f"chmod 0600 {facts.saved_file}",
        )


@check(
    "configuration",
    "the configuration files have no fault",
    lambda facts: "iraid-engine, which checks it, does not answer" if facts.configuration is None else "",
)
def _configuration(facts: Facts) -> Iterator[Finding]:
    for fault in facts.configuration or []:
        yield _bad(fault, "iraid config check")


@check("clock", "the clock is synchronised", lambda facts: "the kernel does not say" if facts.clock is None else "")
def _clock(facts: Facts) -> Iterator[Finding]:
    if facts.clock is False:
        yield _warning(
            "the clock is not synchronised: times of events and logs differ from those of targets and initiators",
            "timedatectl set-ntp true",
            "apt install chrony",
        )


@check("space", "the disk has space for the gateway's state")
def _space(facts: Facts) -> Iterator[Finding]:
    for path, free in facts.free_bytes.items():
        if free < FREE_BYTES_MIN:
            yield _bad(f"{path} has {format_size(free)} left: the gateway may fail to write its state", f"df -h {path}")


@check("log", "no errors since the boot", lambda facts: "there is no journal" if facts.journal is None else "")
def _log(facts: Facts) -> Iterator[Finding]:
    if facts.journal:
        yield _warning(
            f"{len(facts.journal)} errors of {target.RUNNER} since the boot, the last: {_few(facts.journal[-2:])}",
            f"journalctl -b -p err -u {target.RUNNER}",
        )
    if facts.kernel_journal:
        yield _warning(
            f"{len(facts.kernel_journal)} errors of the kernel about disks and targets since the boot, the "
            f"last: {_few(facts.kernel_journal[-2:])}",
            "journalctl -b -k -p err",
        )


def _few(texts: list[str]) -> str:
    more = f"; and {len(texts) - _SHOWN_MAX} more" if len(texts) > _SHOWN_MAX else ""
    return "; ".join(text.strip()[:300] for text in texts[:_SHOWN_MAX]) + more


def counted(found: list[Finding]) -> str:
    """ "2 bad, 1 warning, 9 ok"."""
    count = Counter(one.grade for one in found)
    words = {"warning": ("warning", "warnings"), "note": ("note", "notes")}  # others have no plural
    return ", ".join(
        f"{count[grade]} {words.get(grade, (grade, grade))[count[grade] > 1]}"
        for grade in reversed(GRADES)
        if count[grade]
    )
