"""What is to be done to LIO on a backend host so that it serves one target: decisions only, no LIO.

    wanted + dump of LIO's configuration (RTSRoot().dump(), the form of saveconfig.json) --> list of Step

A step that LIO is already through with is not in the list.  Nothing is removed: LUNs, ACLs and portals that are not
wanted stay, since they may be somebody's.
"""

import hashlib
from dataclasses import dataclass, field, replace

from . import names

GROUP_TAG = 1
# What `iraid advise` would ask for: bursts and segments as large as the gateway's initiator offers, data sent at once.
PARAMETERS = {
    "InitialR2T": "No",
    "ImmediateData": "Yes",
    "MaxRecvDataSegmentLength": "262144",
    "MaxXmitDataSegmentLength": "262144",
    "FirstBurstLength": "262144",
    "MaxBurstLength": "1048576",
}
QUEUE_DEPTH = 128
PORTAL_DEFAULT = "0.0.0.0:3260"


class Refused(Exception):
    """What LIO has stands against it; the text says what, and what to do."""


@dataclass(frozen=True)
class Backing:
    """A LUN's storage: a block device, or a file of size_bytes (which is made)."""

    name: str
    device: str = None
    file: str = None
    size_bytes: int = 0
    write_back: bool = True

    @property
    def plugin(self):
        return "block" if self.device else "fileio"

    @property
    def path(self):
        return f"/backstores/{self.plugin}/{self.name}"


@dataclass(frozen=True)
class Target:
    iqn: str
    luns: tuple = ()
    portals: tuple = ()
    initiators: tuple = ()
    user: str = None
    secret: str = field(default=None, repr=False)
    target_user: str = None
    target_secret: str = field(default=None, repr=False)
    open_to_all: bool = False
    parameters: dict = field(default_factory=dict)
    queue_depth: int = QUEUE_DEPTH


@dataclass(frozen=True)
class Step:
    verb: str
    text: str
    values: tuple = field(default=(), repr=False)  # may hold the secret


@dataclass
class Plan:
    steps: list = field(default_factory=list)
    warnings: list = field(default_factory=list)

    def add(self, verb, text, *values):
        self.steps.append(Step(verb, text, values))


def storage_name(iqn, lun):
    """LIO's storage objects have names without dots and slashes.  Two targets may have the same: see with_own_names()."""
    return f"{iqn.rpartition(':')[2] if ':' in iqn else iqn}-{lun}".replace(":", "-").replace(".", "-")


def with_own_names(want, *configurations):
    """`want`, with a digest of the target's name in those of storage objects that are another target's already.

    configurations: LIO's, of what runs and of what is saved.  What has a digest keeps it when the other target is gone.
    """
    return replace(want, luns=tuple(_with_own_name(want.iqn, one, configurations) for one in want.luns))


def _with_own_name(iqn, backing, configurations):
    digest = hashlib.sha256(iqn.encode()).hexdigest()[:8]
    longer = replace(backing, name=f"{backing.name}-{digest}")
    for one in configurations:
        if _find_storage(longer, one) or _is_anothers(iqn, backing, one):
            return longer
    return backing


def _is_anothers(iqn, backing, configuration):
    """Another disk's, which another target serves.  One disk in two targets has one storage object."""
    users = {
        target["wwn"]
        for target in configuration.get("targets", ())
        for group in target.get("tpgs", ())
        for lun in group.get("luns", ())
        if lun["storage_object"] == backing.path
    }
    there = _find_storage(backing, configuration)
    return bool(users - {iqn}) and (there or {}).get("dev") != (backing.device or backing.file)


def _find_storage(backing, configuration):
    return next(
        (
            one
            for one in configuration.get("storage_objects", ())
            if (one["plugin"], one["name"]) == (backing.plugin, backing.name)
        ),
        None,
    )


def plan_target(want, dump, saved=None):
    """dump: what runs.  saved: a storage object that could not be restored at boot has its serial from there."""
    plan = Plan()
    for backing in want.luns:
        _plan_storage(backing, dump, saved or {}, plan)
    target = next(
        (one for one in dump.get("targets", ()) if one.get("fabric") == "iscsi" and one["wwn"] == want.iqn), None
    )
    groups = (target or {}).get("tpgs", ())
    group = next((one for one in groups if one["tag"] == GROUP_TAG), {})
    if target is None:
        plan.add("target", f"target {want.iqn}")
    if not group:
        plan.add("group", f"portal group {GROUP_TAG} of {want.iqn}")
    _plan_settings(want, group, plan)
    _plan_luns(want, group, plan)
    _plan_portals(want, group, plan)
    _plan_access(want, group, plan)
    if not group.get("enable"):
        plan.add("enable", f"target {want.iqn} enabled")
    return plan


def _plan_storage(backing, dump, saved, plan):
    where = backing.device or backing.file
    there = _find_storage(backing, dump)
    if there is None:
        before = _find_storage(backing, saved) or {}
        serial = before.get("wwn") if before.get("dev") == where else None
        plan.add("storage", f"storage object {backing.name} of {where}", backing, serial)
        return
    if there.get("dev") != where:
        raise Refused(
            f"storage object {backing.name} uses {there.get('dev')}, not {where}: write the device or file "
            "that it uses, or first remove the storage object (targetcli)"
        )
    size = there.get("size") or 0
    if backing.file and size < backing.size_bytes:
        plan.warnings.append(
            f"{where} should have {backing.size_bytes} bytes, but LIO serves {size}: LIO reads the "
            "size of a file only when it opens it; restart the targets (docs/operating/grow.md), one "
            "after the other, or use block devices"
        )


def _plan_settings(want, group, plan):
    """Before any ACL: an ACL takes its queue depth from the group when it is made."""
    demo = str(int(want.open_to_all))
    attributes = {
        "authentication": str(int(want.secret is not None)),
        "generate_node_acls": demo,
        "cache_dynamic_acls": demo,
        "demo_mode_write_protect": str(int(not want.open_to_all)),
        "default_cmdsn_depth": str(want.queue_depth),
    }
    now = group.get("attributes", {})
    for name, value in attributes.items():
        if str(now.get(name)) != value:
            plan.add("attribute", f"{name}={value} of {want.iqn}", name, value)
    now = group.get("parameters", {})
    for name, value in {**PARAMETERS, **want.parameters}.items():
        if str(now.get(name)) != str(value):
            plan.add("parameter", f"{name}={value} of {want.iqn}", name, str(value))


def _plan_luns(want, group, plan):
    there = {one["index"]: one["storage_object"] for one in group.get("luns", ())}
    for index, backing in enumerate(want.luns):
        if index not in there:
            plan.add("lun", f"LUN {index} of {want.iqn}", index, backing)
        elif there[index] != backing.path:
            raise Refused(
                f"LUN {index} of {want.iqn} is {there[index]}, not {backing.path}: list the LUNs in the "
                "order in which they were made"
            )


def _plan_portals(want, group, plan):
    there = {names.listen(f"{one['ip_address']}:{one['port']}") for one in group.get("portals", ())}
    wanted = [names.listen(one) for one in want.portals] or ([] if there else [PORTAL_DEFAULT])
    for one in dict.fromkeys(wanted):
        if one not in there:
            address, _, port = one.rpartition(":")
            plan.add("portal", f"portal {one} of {want.iqn}", address, int(port))
    if want.portals:
        for one in sorted(there - set(wanted)):
            plan.warnings.append(f"target {want.iqn} also listens on {one}, which is not in the inventory")


def _plan_access(want, group, plan):
    if want.open_to_all:
        _plan_secret(want, group, None, plan)
    acls = {one["node_wwn"]: one for one in group.get("node_acls", ())}
    for initiator in dict.fromkeys(map(names.iqn, want.initiators)):
        acl = acls.get(initiator, {})
        if not acl:
            plan.add("acl", f"ACL of {initiator} in {want.iqn}", initiator)
        _plan_secret(want, acl, initiator, plan)
        mapped = {one["tpg_lun"] for one in acl.get("mapped_luns", ())}
        for index in range(len(want.luns)):
            if index not in mapped:
                plan.add("map", f"LUN {index} of {initiator} in {want.iqn}", initiator, index)
    for initiator in acls:
        if initiator not in map(names.iqn, want.initiators):
            plan.warnings.append(f"initiator {initiator} has an ACL in {want.iqn}, but it is not in the inventory")


def _plan_secret(want, holder, initiator, plan):
    wanted = tuple(one or "" for one in (want.user, want.secret, want.target_user, want.target_secret))
    keys = ("chap_userid", "chap_password", "chap_mutual_userid", "chap_mutual_password")
    if tuple(holder.get(key) or "" for key in keys) != wanted:
        plan.add("secret", f"CHAP of {initiator or 'any initiator'} in {want.iqn}", initiator, *wanted)


def merge_saved(saved, running, wanted):
    """`saved` (saveconfig.json) with this target and its storage objects as they run now.

    Not all that runs, as rtslib's save_to_file() writes it: what could not be restored at boot would be dropped then.
    """
    merged = dict(saved or {})
    ours = {(one.plugin, one.name) for one in wanted.luns}
    merged["storage_objects"] = _replace(
        merged.get("storage_objects", []),
        running.get("storage_objects", []),
        lambda one: (one["plugin"], one["name"]),
        ours,
    )
    there = {f"/backstores/{one['plugin']}/{one['name']}" for one in running.get("storage_objects", ())}
    before = {one["wwn"]: one for one in merged.get("targets", ())}
    merged["targets"] = _replace(
        merged.get("targets", []),
        [_with_what_is_missing(one, before.get(one["wwn"], {}), there) for one in running.get("targets", ())],
        lambda one: one["wwn"],
        {wanted.iqn},
    )
    merged.setdefault("fabric_modules", running.get("fabric_modules", []))
    return merged


def _with_what_is_missing(target, saved, there):
    """With its LUNs that could not be restored, for want of their storage objects, and who is to see them.

    there: paths of the storage objects that run.
    """
    groups = {group.get("tag"): group for group in saved.get("tpgs", ())}
    return {
        **target,
        "tpgs": [_group_with_missing(one, groups.get(one.get("tag"), {}), there) for one in target.get("tpgs", ())],
    }


def _group_with_missing(group, saved, there):
    numbers = {one["index"] for one in group.get("luns", ())}
    missing = [
        one for one in saved.get("luns", ()) if one["storage_object"] not in there and one["index"] not in numbers
    ]
    if not missing:
        return group
    lost, before = {one["index"] for one in missing}, {one["node_wwn"]: one for one in saved.get("node_acls", ())}
    return {
        **group,
        "luns": [*group.get("luns", ()), *missing],
        "node_acls": [_acl_with(one, before.get(one["node_wwn"], {}), lost) for one in group.get("node_acls", ())],
    }


def _acl_with(acl, saved, lost):
    taken = {one["index"] for one in acl.get("mapped_luns", ())}
    kept = [one for one in saved.get("mapped_luns", ()) if one["tpg_lun"] in lost and one["index"] not in taken]
    return {**acl, "mapped_luns": [*acl.get("mapped_luns", ()), *kept]} if kept else acl


def _replace(saved, running, key, wanted):
    fresh = {key(one): one for one in running if key(one) in wanted}
    kept = [fresh.pop(key(one)) if key(one) in fresh else one for one in saved]
    return kept + list(fresh.values())
