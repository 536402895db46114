"""What `iraid export`, `iraid unexport` and `iraid grow` do to LIO: decisions only, no LIO.

    request + dump of LIO's configuration --> list of steps --> target.py carries them out
                                                  |
                                                  `-> undone in reverse when one fails

The dump is RTSRoot().dump(), the form of saveconfig.json.  A step that LIO is already through with is
not in the list, so a second run has nothing to do.  Settings of a portal group that other LUNs use are
left alone; where that can't be (authentication, demo mode) the export is refused.  LUNs that are saved
and don't run (they could not be restored at boot) count as there: they keep their numbers.
"""

import ipaddress
import re
from dataclasses import dataclass, field

from iraid.control.errors import IraidError, UsageFault
from iraid.control.model import Volume

from . import pair
from .access import ExportRequest, Group, check_access, plan_access, plan_discovery, warnings_of
from .configuration import (
    Dump,
    PLUGIN,
    acls_of,
    alua_of,
    config_of,
    discovery_of,
    find_group,
    find_storage,
    find_target,
    has_other_luns,
    luns_of,
    storage_of_volume,
    storage_path,
    storages_of_volume,
    targets_of_storage,
    targets_of_volume,
)
from .steps import (
    GROUP_TAG,
    CreateGroup,
    CreateLun,
    CreatePortal,
    CreateStorage,
    CreateTarget,
    Delete,
    DisableGroup,
    EnableGroup,
    Portal,
    ResizeStorage,
    SetAlua,
    SetGroupAttribute,
    SetGroupParameter,
    SetStorageAttribute,
    Step,
)

# --- limits of what is exported, as measured: docs/design/tcmu.md ---

# The kernel's own default is 128 sectors: initiators then cut everything into 64 KiB commands.
TRANSFER_BYTES_MAX = 4 * 1024 * 1024
# Measured to be as fast as the default of 1 GiB; every LUN may fill its own.
DATA_AREA_MIB = 64
DATA_PAGES_PER_BLOCK = 16
# The runner goes round all of the ring, so all of it becomes resident: 1 MiB (the default is 8) holds
# the commands of several sessions at QUEUE_DEPTH.
COMMAND_RING_MIB = 1
# Commands in flight per session; LIO's default is 64, its bound 512.
QUEUE_DEPTH = 128

GROUP_PARAMETERS = {
    "InitialR2T": "No",
    "ImmediateData": "Yes",
    "MaxRecvDataSegmentLength": "262144",
    "MaxXmitDataSegmentLength": "262144",
    "FirstBurstLength": "262144",
    "MaxBurstLength": "1048576",
}

STORAGE_DEFAULTS = {"emulate_write_cache": "0", "emulate_pr": "1"}  # the kernel's

PORTAL_DEFAULT = "0.0.0.0:3260"

_IQN = re.compile(
    r"iqn\.[0-9]{4}-(0[1-9]|1[0-2])\.[a-z0-9][a-z0-9.-]*\.[a-z0-9][a-z0-9.-]*(:[a-z0-9:.-]+)?"
    r"|eui\.[0-9a-f]{16}|naa\.[125][0-9a-f]{15}"
)
_IQN_MAX = 223  # RFC 7143 4.2.7.1


@dataclass
class ExportPlan:
    lun: int
    pair: int  # 0: of a single gateway
    tag: int  # of the portal group that initiators of this gateway use
    steps: list[Step] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


# --- what was typed ---


def parse_iqn(text: str) -> str:
    """An iSCSI name in its normal form (lower case).  Raises UsageFault."""
    name = text.strip().lower()
    if len(name) > _IQN_MAX or not _IQN.fullmatch(name):
        raise UsageFault(
            f"'{text}' is not an iSCSI name", "write iqn.YYYY-MM.DOMAIN:NAME, for example iqn.2026-01.org.example:v0"
        )
    return name


def parse_portal(text: str) -> Portal:
    """IP, IP:PORT, [IPv6] or [IPv6]:PORT.  Raises UsageFault."""
    remedy = "write IP:PORT, for example 10.0.0.9:3260 or [fd00::9]:3260"
    matched = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[0-9.]+)(?::([0-9]{1,5}))?", text.strip())
    if not matched:
        raise UsageFault(f"'{text}' is not a portal to listen on", remedy)
    port = int(matched[2] or 3260)
    try:
        address = ipaddress.ip_address(matched[1].strip("[]"))
    except ValueError as error:
        raise UsageFault(f"'{text}': {error}", remedy) from error
    if (address.version == 6) != matched[1].startswith("["):
        raise UsageFault(f"'{text}': write IPv6 addresses in brackets, others without", remedy)
    if not 1 <= port <= 65535:
        raise UsageFault(f"'{text}': port {port} is not between 1 and 65535", remedy)
    return Portal(f"[{address}]" if address.version == 6 else str(address), port)


def check_exportable(volume: Volume) -> None:
    if volume.state in ("active", "degraded") and volume.size_bytes > 0:
        return
    why = f" ({volume.reason})" if volume.reason else ""
    remedy = {
        "stopped": f"start it first: iraid start {volume.name}",
        "assembling": f"wait until its members are there: iraid start {volume.name} --wait",
        "suspended": f"bring its members back first: iraid status {volume.name}",
        "failed": f"see which members it lacks: iraid status {volume.name}",
    }.get(volume.state, f"see iraid status {volume.name}")
    raise IraidError(
        f"volume {volume.name} is {volume.state}{why}: it can't be exported, because its size is not known",
        remedy,
        kind="busy",
    )


# --- export ---


def plan_export(request: ExportRequest, dump: Dump, saved: Dump | None = None) -> ExportPlan:
    """saved: LIO's saved configuration, if the export will be saved.
    Raises IraidError when LIO's present configuration stands against it.
    """
    storage = storage_of_volume(dump, request.volume)
    name = storage["name"] if storage else request.volume
    ours = {name, *(s["name"] for s in storages_of_volume(saved or {}, request.volume))}
    number = pair.decide(request, dump, saved or {})

    def group_of(tag: int) -> Group:
        now, before = find_group(dump, request.iqn, tag) or {}, find_group(saved or {}, request.iqn, tag) or {}
        return Group(request.iqn, now, before, set(map(storage_path, ours)), tag)

    group = group_of(number or GROUP_TAG)
    lun, _ = _lun_index(group, name, request.lun)
    discovery = discovery_of(dump)
    check_access(request, group, lun, discovery)
    _check_digests(request, group)

    plan = ExportPlan(lun, number, group.tag)
    plan.warnings += warnings_of(request)
    plan.steps += plan_discovery(request, discovery)
    _plan_storage(request, dump, storage, plan)
    if find_target(dump, request.iqn) is None:
        plan.steps.append(CreateTarget(request.iqn))
    for tag in pair.NUMBERS if number else (GROUP_TAG,):
        _plan_group(request, group if tag == group.tag else group_of(tag), group, name, plan)
    if not group.running.get("enable"):
        plan.steps.append(EnableGroup(request.iqn, group.tag))
    return plan


def _plan_group(request: ExportRequest, group: Group, here: Group, storage: str, plan: ExportPlan) -> None:
    """here: the one that initiators of this gateway use; that of the other gateway of a pair is made like it."""
    iqn, tag = request.iqn, group.tag
    if not group.running:
        plan.steps.append(CreateGroup(iqn, tag))
    _plan_settings(request, group, here, plan)
    _, is_new = _lun_index(group, storage, plan.lun)
    if is_new:
        plan.steps.append(CreateLun(iqn, plan.lun, storage, tag))
    if plan.pair:
        wanted = pair.group_of(plan.pair, tag)
        if is_new or alua_of(group.running, plan.lun) != wanted:
            plan.steps.append(SetAlua(iqn, plan.lun, wanted, tag))
    if group is here:
        _plan_portals(request, group, plan)
    plan.steps += plan_access(request, group, plan.lun, here.running)
    if group is not here and group.running.get("enable"):
        plan.steps.append(DisableGroup(iqn, tag))


def _lun_index(group: Group, storage: str, wanted: int | None) -> tuple[int, bool]:
    """And whether it is to be made: by the wanted number, its saved one if that is free, or the lowest that is."""
    taken, saved = luns_of(group.running), luns_of(group.saved)
    for index, path in taken.items():
        if path == storage_path(storage):
            if wanted not in (None, index):
                raise IraidError(
                    f"storage object {storage} is LUN {index} of {group.iqn} (tpg{group.tag}), not {wanted}",
                    f"leave it as it is: --lun {index}; or unexport it first",
                    kind="in_use",
                )
            return index, False
    others = {index: path for index, path in (saved | taken).items() if index in taken or path not in group.ours}
    if wanted is not None:
        if wanted in others:
            raise IraidError(
                f"LUN {wanted} of {group.iqn} (tpg{group.tag}) is {others[wanted]}",
                "choose another --lun, or another --iqn",
                kind="in_use",
            )
        return wanted, True
    had = [index for index, path in saved.items() if path in group.ours and index not in taken]
    numbers = taken.keys() | saved.keys()
    return next(i for i in (*had, *range(len(numbers) + 1)) if i in had or i not in numbers), True


def _check_digests(request: ExportRequest, group: Group) -> None:
    """They hold for a whole portal group: initiators of other LUNs may have none."""
    now = group.now.get("parameters", {})
    for parameter, value in request.digests.items():
        if group.others and now.get(parameter) != value:
            raise IraidError(
                f"target {request.iqn} has {group.others} and {parameter} {now.get(parameter, 'unknown')}, not {value}",
                "export under another --iqn, or leave the option out",
                kind="in_use",
            )


def _plan_storage(request: ExportRequest, dump: Dump, storage: Dump | None, plan: ExportPlan) -> None:
    attributes: dict[str, str] = {}
    if request.standby:
        _check_there(request, storage)
    else:
        _plan_what_is_known(request, dump, storage, plan)
        attributes["emulate_write_cache"] = str(int(request.write_cache))
    name = storage["name"] if storage else request.volume
    groups = pair.plan_groups(plan.pair, storage, name) if plan.pair else []
    if groups or request.no_reservations:
        # Reservations of initiators live in one kernel, and would not move with the volume.
        attributes["emulate_pr"] = "0"
    for attribute, wanted in attributes.items():
        now = str((storage or {}).get("attributes", {}).get(attribute, STORAGE_DEFAULTS[attribute]))
        if now != wanted:
            plan.steps.append(SetStorageAttribute(name, attribute, wanted, now if storage else None))
    plan.steps += groups


def _check_there(request: ExportRequest, storage: Dump | None) -> None:
    """Of a volume that is on standby here."""
    if storage is None:
        raise IraidError(
            f"volume {request.volume} is on standby on this gateway, and is not exported here yet: its size is not known",
            f"activate it once: iraid activate {request.volume}",
            kind="busy",
        )
    _check_serial(request, storage)


def _plan_what_is_known(request: ExportRequest, dump: Dump, storage: Dump | None, plan: ExportPlan) -> None:
    sectors = TRANSFER_BYTES_MAX // request.block_bytes
    if storage is None:
        _check_name_free(request, dump)
        plan.steps.append(
            CreateStorage(
                request.volume,
                config_of(request.volume),
                request.size_bytes,
                request.uuid,
                sectors,
                _control(request.block_bytes),
            )
        )
    else:
        _check_same_volume(request, storage)
        if storage.get("hw_max_sectors") != sectors:
            plan.warnings.append(
                f"storage object {storage['name']} takes {storage.get('hw_max_sectors')} blocks per "
                f"command instead of {sectors}; unexport and export it to change that"
            )


def _control(block_bytes: int) -> str:
    return (
        f"hw_block_size={block_bytes},max_data_area_mb={DATA_AREA_MIB},"
        f"data_pages_per_blk={DATA_PAGES_PER_BLOCK},cmd_ring_size_mb={COMMAND_RING_MIB}"
    )


def _check_name_free(request: ExportRequest, dump: Dump) -> None:
    other = find_storage(dump, request.volume)
    if other is not None:
        raise IraidError(
            f"a storage object {request.volume} is there already, made of {other.get('config')}",
            f"remove it: targetcli /backstores/user:* delete {request.volume}; or give the volume another name",
            kind="exists",
        )


def _check_serial(request: ExportRequest, storage: Dump) -> None:
    """Initiators must not be handed another disk under the identity of the one they knew."""
    if storage.get("wwn") != request.uuid:
        raise IraidError(
            f"storage object {storage['name']} has serial {storage.get('wwn')}, volume "
            f"{request.volume} is {request.uuid}",
            f"iraid unexport {request.volume}, then export it again",
            kind="exists",
        )


def _check_same_volume(request: ExportRequest, storage: Dump) -> None:
    _check_serial(request, storage)
    remedy = f"iraid unexport {request.volume}, then export it again"
    size_bytes = storage.get("size") or 0
    if size_bytes < request.size_bytes:
        remedy = f"let it grow, which initiators need not log out for: iraid grow {request.volume}"
    if size_bytes != request.size_bytes:
        raise IraidError(
            f"storage object {storage['name']} has {size_bytes} bytes, volume "
            f"{request.volume} has {request.size_bytes}",
            remedy,
            kind="exists",
        )


def group_attributes(request: ExportRequest) -> dict[str, str]:
    demo = str(int(request.demo_mode))
    return {
        "generate_node_acls": demo,
        "cache_dynamic_acls": demo,
        "demo_mode_write_protect": "0" if request.demo_mode else "1",
        "demo_mode_discovery": demo,
        "default_cmdsn_depth": str(QUEUE_DEPTH),
    }


def _plan_settings(request: ExportRequest, group: Group, here: Group, plan: ExportPlan) -> None:
    """Before any ACL is made: an ACL takes its queue depth from the group when it is made."""
    are_others = bool(group.running and group.others)
    iqn, tag = request.iqn, group.tag
    wanted = {} if are_others else group_attributes(request)
    if request.credentials is not None or (group is not here and here.asks_chap):
        wanted["authentication"] = "1"
    elif not are_others and not group.asks_chap:
        wanted["authentication"] = "0"  # the kernel's default is 1
    now = group.running.get("attributes", {})
    for attribute, value in wanted.items():
        if str(now.get(attribute)) != value:
            previous = str(now[attribute]) if attribute in now else None
            plan.steps.append(SetGroupAttribute(iqn, attribute, value, previous, tag))
    if are_others:
        return
    now = group.running.get("parameters", {})
    for parameter, value in (GROUP_PARAMETERS | request.digests).items():
        if now.get(parameter) != value:
            plan.steps.append(SetGroupParameter(iqn, parameter, value, now.get(parameter), tag))


def _plan_portals(request: ExportRequest, group: Group, plan: ExportPlan) -> None:
    there = {parse_portal(f"{p['ip_address']}:{p['port']}") for p in group.running.get("portals", ())}
    wanted = list(dict.fromkeys(request.portals))
    if not wanted and not there:
        wanted = [parse_portal(PORTAL_DEFAULT)]
        plan.warnings.append(f"listening on every address of this machine ({PORTAL_DEFAULT}), as no --portal was given")
    plan.steps += [CreatePortal(request.iqn, p, group.tag) for p in wanted if p not in there]


# --- grow ---


@dataclass
class GrowPlan:
    steps: list[ResizeStorage] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan_grow(volume: str, size_bytes: int, dump: Dump) -> GrowPlan:
    """Every storage object of the volume gets its size; those that have it are left alone."""
    plan = GrowPlan()
    for storage in storages_of_volume(dump, volume):
        has = storage.get("size") or 0
        if has < size_bytes:
            plan.steps.append(ResizeStorage(storage["name"], size_bytes))
        elif has > size_bytes:
            plan.warnings.append(
                f"storage object {storage['name']} has {has} bytes, more than volume {volume} with {size_bytes}: "
                f"initiators can't use it; iraid unexport {volume}, then export it again"
            )
    return plan


def grown(dump: Dump, steps: list[ResizeStorage]) -> Dump:
    """The dump as it will be after the steps."""
    sizes = {step.name: step.size_bytes for step in steps}
    objects = []
    for storage in dump.get("storage_objects", ()):
        if storage["plugin"] == PLUGIN and storage["name"] in sizes:
            size_bytes = sizes[storage["name"]]
            storage = {**storage, "size": size_bytes}
            # A restore writes attributes last, so this one would undo the other.
            if "dev_size" in storage.get("attributes", {}):
                storage["attributes"] = {**storage["attributes"], "dev_size": size_bytes}
        objects.append(storage)
    return {**dump, "storage_objects": objects}


# --- unexport ---


@dataclass
class UnexportPlan:
    steps: list[Step]
    iqns: list[str]  # of targets that the volume leaves, running or saved
    unsaved: list[str]  # in words: what leaves the saved configuration, and does not run


def plan_unexport(volume: str, iqn: str | None, dump: Dump, saved: Dump | None = None) -> UnexportPlan:
    """What removes the volume from `iqn`, or from all targets.  saved: LIO's saved configuration, if it is to leave
    that, too: an unexport before may have come no further than LIO.  Raises IraidError.
    """
    running, kept = storages_of_volume(dump, volume), storages_of_volume(saved or {}, volume)
    if not running and not kept:
        raise IraidError(f"volume {volume} is not exported", "see what is: targetcli ls", kind="not_found")
    now, before = targets_of_volume(dump, volume), targets_of_volume(saved or {}, volume)
    everywhere = list(
        dict.fromkeys(
            [
                *(target for target in now if find_target(dump, target)),
                *(target for target in before if find_target(saved or {}, target)),
            ]
        )
    )
    if iqn is not None and iqn not in everywhere:
        under = ", ".join(everywhere) or "no target"
        raise IraidError(f"volume {volume} is not exported under {iqn}", f"it is under {under}", kind="not_found")
    if iqn is None:
        _check_fabrics(volume, everywhere, dump)
    chosen = list(dict.fromkeys([*now, *before])) if iqn is None else [iqn]
    return UnexportPlan(
        _plan_removal(volume, running, [target for target in now if target in chosen], dump),
        chosen,
        _unsaved(kept, [target for target in before if target in chosen], dump, saved or {}),
    )


def _plan_removal(volume: str, storages: list[Dump], iqns: list[str], dump: Dump) -> list[Step]:
    names = {storage["name"] for storage in storages}
    steps: list[Step] = []
    for iqn in iqns:
        steps += _plan_leave(find_target(dump, iqn) or {}, iqn, names)
    return steps + [
        Delete(
            CreateStorage(storage["name"], config_of(volume), storage.get("size") or 0, storage.get("wwn") or "", 0, "")
        )
        for storage in storages
        if set(targets_of_storage(dump, storage["name"])) <= set(iqns)
    ]


def _unsaved(storages: list[Dump], iqns: list[str], dump: Dump, saved: Dump) -> list[str]:
    names = [storage["name"] for storage in storages]
    luns = [
        f"saved LUN of storage object {name} in target {iqn} removed"
        for name in names
        for iqn in iqns
        if iqn in targets_of_storage(saved, name) and iqn not in targets_of_storage(dump, name)
    ]
    return luns + [
        f"saved storage object {name} removed"
        for name in names
        if find_storage(dump, name) is None and set(targets_of_storage(saved, name)) <= set(iqns)
    ]


def _check_fabrics(volume: str, iqns: list[str], dump: Dump) -> None:
    """Before anything is removed: a storage object can't be while a target of another fabric has it."""
    paths = {storage_path(storage["name"]) for storage in storages_of_volume(dump, volume)}
    others = [
        (target["fabric"], target["wwn"])
        for target in dump.get("targets", ())
        if target.get("fabric") != "iscsi"
        and any(path in paths for group in target.get("tpgs", ()) for path in luns_of(group).values())
    ]
    if others:
        names = ", ".join(f"{fabric} target {wwn}" for fabric, wwn in others)
        commands = "; ".join(f"targetcli /{fabric} delete {wwn}" for fabric, wwn in others)
        single = "".join(
            f"; or take the volume from one target only: iraid unexport {volume} --iqn {iqn}" for iqn in iqns[:1]
        )
        raise IraidError(
            f"volume {volume} is also in use by {names}, which iraid unexport does not remove",
            f"remove it first: {commands}{single}",
            kind="busy",
        )


def _plan_leave(target: Dump, iqn: str, names: set[str]) -> list[Step]:
    groups, ours = target.get("tpgs", ()), set(map(storage_path, names))
    if any(has_other_luns(group, ours) for group in groups):
        return [
            Delete(CreateLun(iqn, index, path.rpartition("/")[2], group["tag"]))
            for group in groups
            for index, path in luns_of(group).items()
            if path in ours
        ]
    return [Delete(CreateTarget(iqn))]


def users_of(volume: str, iqn: str | None, dump: Dump, sessions: dict[str, list[str]]) -> list[str]:
    """Initiators with a session (sessions: IQN -> names) that can see the volume."""
    paths = {storage_path(storage["name"]) for storage in storages_of_volume(dump, volume)}
    seen = []
    for target in targets_of_volume(dump, volume):
        if iqn not in (None, target):
            continue
        for group in (find_target(dump, target) or {}).get("tpgs", ()):
            ours = {index for index, path in luns_of(group).items() if path in paths}
            # One that has no ACL of its own came in by demo mode and sees every LUN.
            blind = {
                name
                for name, acl in acls_of(group).items()
                if not ours & {m["tpg_lun"] for m in acl.get("mapped_luns", ())}
            }
            seen += [name for name in sessions.get(target, ()) if name not in blind]
    return list(dict.fromkeys(seen))
