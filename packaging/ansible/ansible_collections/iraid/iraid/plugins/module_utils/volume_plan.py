"""What is to be done so that a volume is as the inventory says: decisions only, made of `iraid status --json`.

    wanted + status --> list of actions (commands of iraid), warnings      or Refused
                             |
                             `-> the module runs them; in check mode it shows them

A volume that is as wanted has no actions.  Nothing is ever destroyed without a word of its own: replacing wants an
entry in `replace`, deleting the volume's name once more; devices that the inventory does not know stay, with a warning.
`overwrite`, which stays in inventories for years, is no word for what iraid itself wrote: a gateway that lost its
configuration would make its volumes anew over their data (check_devices).
"""

from dataclasses import dataclass, field

from . import names


class Refused(Exception):
    """The volume can't become what is wanted, or not without a word more.  The text says what, and what to do."""


@dataclass(frozen=True)
class Wanted:
    name: str
    state: str = "started"  # started, stopped, absent
    create: bool = True
    level: int = None
    members: tuple = ()
    spares: tuple = ()
    chunk_bytes: int = None
    region_bytes: int = None
    rate_min_bytes: int = None
    rate_max_bytes: int = None
    log: str = None  # off, degraded, always
    header_digest: str = None  # none, preferred, required; at creation
    data_digest: str = None
    replace: tuple = ()  # of (old, new)
    grow: bool = False
    wait: bool = False
    overwrite: bool = False
    confirm_overwrite: bool = False
    confirm_delete: bool = False
    wipe: bool = True
    chap_file: str = None
    initiator: str = None


@dataclass(frozen=True)
class Action:
    words: tuple  # of the iraid command
    text: str
    looked_at: tuple = ()  # devices that it formats whatever is on them: check_devices() comes first


@dataclass
class Plan:
    actions: list = field(default_factory=list)
    warnings: list = field(default_factory=list)

    def add(self, text, *words, looked_at=()):
        self.actions.append(Action(tuple(str(word) for word in words), text, tuple(looked_at)))


def plan_volume(want, have):
    """have: the volume's status, None if there is none."""
    plan = Plan()
    if have is None:
        if want.state != "absent":
            _plan_create(want, plan)
        return plan
    if want.state == "absent":
        _plan_delete(want, plan)
        return plan
    _check_same(want, have)
    stopped = have["state"] in ("stopped", "stopping")
    if want.state == "stopped":
        if not stopped:
            plan.add(f"stop volume {want.name}", "stop", want.name)
        return plan
    if stopped:
        plan.add(f"start volume {want.name}", "start", want.name)
    _plan_devices(want, have, plan)
    _plan_settings(want, have, plan)
    if want.grow:
        _plan_grow(want, have, plan)
    return plan


def _plan_create(want, plan):
    if not want.create:
        raise Refused(
            f"volume {want.name} was here a moment ago, or is on the other gateway, and this one does not know it now: it is "
            f"not made anew; see what became of it (iraid list, iraid events {want.name}), and run this again"
        )
    if want.level is None or not want.members:
        raise Refused(f"volume {want.name} does not exist, and can't be made without level and members: give both")
    options = []
    for option, value in (
        ("--chunk", want.chunk_bytes),
        ("--region-size", want.region_bytes),
        ("--chap-file", want.chap_file),
        ("--initiator", want.initiator),
    ):
        if value is not None:
            options += [option, value]
    for spare in want.spares:
        options += ["--spare", spare]
    plan.add(
        f"create volume {want.name}, level {want.level}, of {len(want.members)} members",
        "create",
        want.name,
        "--level",
        want.level,
        *options,
        *_force(want),
        *want.members,
        looked_at=_unconfirmed(want, (*want.members, *want.spares)),
    )
    # create returns before the volume is assembled; start waits for it, and exporting needs it.
    plan.add(f"start volume {want.name}", "start", want.name)
    _plan_settings(want, {}, plan)
    _plan_digests(want, plan)
    if want.wait:
        plan.add(f"wait until volume {want.name} is in sync", "wait", want.name)
    if want.state == "stopped":
        plan.add(f"stop volume {want.name}", "stop", want.name)


def _plan_digests(want, plan):
    """They hold from the next login on, and nobody uses the volume yet: no byte of an initiator goes without them."""
    digests = [("--header-digest", want.header_digest), ("--data-digest", want.data_digest)]
    options = [word for option, value in digests if value not in (None, "none") for word in (option, value)]
    if options:
        plan.add(f"set digests of volume {want.name}", "set", want.name, *options)
        plan.add(f"stop volume {want.name}, for logins with digests", "stop", want.name)
        plan.add(f"start volume {want.name} with digests", "start", want.name)


def _force(want):
    return ("--force",) if want.overwrite or want.confirm_overwrite else ()


def _unconfirmed(want, devices):
    return devices if want.overwrite and not want.confirm_overwrite else ()


def check_devices(want, examined):
    """Before they are formatted whatever is on them; examined: `members` of `iraid examine --json`.

    Raises Refused if one holds what iraid wrote of a volume, or if it isn't known what it holds.
    """
    found, readable = [], False
    for one in examined:
        if one.get("error"):
            raise Refused(
                f"overwrite: true of volume {want.name} is refused, because {one['member']} can't be "
                f"examined ({one['error'].get('message')}); remedy: {one['error'].get('remedy')}"
            )
        held = one.get("superblock")
        if held:
            found.append(
                f'{one["member"]} holds member {held.get("role")} of the iraid volume "{held.get("name")}" '
                f"({held.get('volume_uuid')})"
            )
            readable = True
        elif any(not str(verdict).startswith("absent") for verdict in (one.get("copies") or {}).values()):
            found.append(f"{one['member']} holds an iraid superblock that can't be read")
    if not found:
        return
    options = "".join(
        f" {option} {value}"
        for option, value in (("--initiator", want.initiator), ("--chap-file", want.chap_file))
        if value
    )
    back = (
        (
            "; a gateway that has lost its configuration has the volume back by: iraid import"
            f"{options} {' '.join(want.members)}"
        )
        if readable and want.members
        else ""
    )
    raise Refused(
        f"overwrite: true of volume {want.name} does not allow to destroy an iraid volume: "
        f"{'; '.join(found)}{back}; if the data on them is no longer needed, for one run: "
        f'-e \'{{"iraid_confirm_overwrite": ["{want.name}"]}}\''
    )


def _plan_delete(want, plan):
    if not want.confirm_delete:
        raise Refused(
            f"state absent of volume {want.name} destroys its data: confirm it with "
            f"iraid_confirm_delete: [{want.name}]; to keep the volume, remove it from "
            "iraid_volumes"
        )
    if want.wipe:
        plan.add(f"delete volume {want.name} and all of its data", "delete", want.name, "--yes")
    else:
        plan.add(f"forget volume {want.name} on this gateway", "delete", want.name, "--yes", "--no-wipe")


def _check_same(want, have):
    """What a volume was made with, and can't be changed."""
    regions = have.get("regions") or {}
    for what, wanted, is_now in (
        ("level", want.level, have.get("level")),
        ("chunk", want.chunk_bytes, have.get("chunk_bytes")),
        ("region_size", want.region_bytes, regions.get("region_bytes")),
    ):
        # A stopped volume may not know (null, or 0): its superblocks do.
        unknown = is_now is None or is_now < 0 or (what != "level" and is_now == 0)
        if wanted is not None and not unknown and wanted != is_now:
            raise Refused(
                f"volume {want.name} has {what} {is_now}, the inventory has {wanted}: this can't be "
                f"changed; write {what}: {is_now}, or make another volume"
            )


def _plan_devices(want, have, plan):
    devices = {one["member"]: one for one in have.get("members", ())}
    members = {names.member(one): one for one in want.members}
    spares = {names.member(one): one for one in want.spares}
    replaced = _plan_replace(want, devices, members, plan)

    absent = [one for one in members if one not in devices and one not in replaced.values()]
    strange = [one for one in devices if one not in members and one not in spares and one not in replaced]
    serving = [one for one in strange if _has_place(devices[one])]
    if absent:
        raise Refused(
            _absent_text(want, absent, serving, [one for one in spares if one in devices and _has_place(devices[one])])
        )
    away = [one for one in members if one in devices and not _serves(devices[one])]
    for one in serving:
        if not members:
            continue
        if not away:
            raise Refused(
                f"volume {want.name} has member {one}, which is not in the inventory: a member can't be "
                "removed from a volume; add it to the members, or replace it (iraid_replace)"
            )
        plan.warnings.append(
            f"{one} is a member of volume {want.name}, but it is not in the inventory; "
            f"{', '.join(away)} is out: iraid status {want.name}"
        )
    for one in strange:
        if one not in serving:
            plan.warnings.append(
                f"volume {want.name} has {one} ({devices[one].get('state')}), which is not in the "
                f"inventory; it stays; to remove it: iraid remove {want.name} {one}"
            )
    for label, spare in spares.items():
        if label not in devices:
            plan.add(f"add spare {label} to volume {want.name}", "add-spare", want.name, spare)


def _plan_replace(want, devices, members, plan):
    """Returns {old: new} of what has begun, or is to."""
    replaced = {}
    for old_text, new_text in want.replace:
        old, new = names.member(old_text), names.member(new_text)
        if new not in members:
            raise Refused(
                f"iraid_replace puts {new} into volume {want.name}, but it is not among its members in the "
                f"inventory: write it there in place of {old}"
            )
        if old in members:
            raise Refused(
                f"iraid_replace removes {old} from volume {want.name}, but it is still among its members in the "
                f"inventory: write {new} in its place"
            )
        held = devices.get(new)
        if held is not None and held.get("state") != "spare":
            replaced[old] = new  # under way, or done: the entry may stay
            continue
        if old not in devices:
            raise Refused(
                f"iraid_replace names {old}, which is not a member of volume {want.name}: it has "
                f"{', '.join(sorted(devices)) or 'none'}"
            )
        replaced[old] = new
        wait = ("--wait",) if want.wait else ()
        plan.add(
            f"put {new} in the place of {old} in volume {want.name}",
            "replace",
            want.name,
            old,
            new_text,
            *_force(want),
            *wait,
            looked_at=_unconfirmed(want, (new_text,)),
        )
    return replaced


def _has_place(device):
    return device.get("role") is not None and device.get("state") != "spare"


def _serves(device):
    return _has_place(device) and device.get("state") in ("in sync", "rebuilding")


def _absent_text(want, absent, serving, risen):
    one = absent[0]
    if risen:
        return (
            f"volume {want.name} has no member {one}; spare {risen[0]} has taken the place of a member: exchange "
            "both in the inventory (write the spare under members, and the old member under spares or nowhere)"
        )
    if serving:
        return (
            f"volume {want.name} has member {serving[0]}, the inventory has {one} instead: to replace "
            f"it, give iraid_replace: [{{volume: {want.name}, old: '{serving[0]}', new: '{one}'}}]; else write "
            "the old one again"
        )
    return (
        f"volume {want.name} has all its members, but the inventory also has {one}: members can't "
        "be added; remove it, or write it under spares"
    )


def _plan_settings(want, have, plan):
    options, words = [], []
    for option, key, wanted in (
        ("--rate-min", "sync_rate_min_bytes", want.rate_min_bytes),
        ("--rate-max", "sync_rate_max_bytes", want.rate_max_bytes),
    ):
        if wanted is not None and have.get(key) != wanted:
            options += [option, wanted]
            words.append(f"{option[2:]} {wanted}")
    if want.log is not None and _log_of(have) != want.log:
        options += ["--log", want.log]
        words.append(f"log {want.log}")
    if options:
        plan.add(f"set {' and '.join(words)} of volume {want.name}", "set", want.name, *options)


def _log_of(have):
    return (have.get("log") or {}).get("mode")


def _plan_grow(want, have, plan):
    out = [one["member"] for one in have.get("members", ()) if _has_place(one) and one.get("state") != "in sync"]
    if have["state"] != "active" or out:
        plan.warnings.append(
            f"volume {want.name} was not grown: it is {have['state']}, and to grow "
            f"it needs all members in sync; wait (iraid wait {want.name}) and run this again"
        )
        return
    plan.add(f"grow volume {want.name} to the size of its members", "grow", want.name)


def can_grow(have, examined):
    """For check mode: whether `iraid grow` would find all members larger than the volume takes them to be.

    examined: {member: bytes it has now}.  The smallest member counts for all.
    """
    known = {one["member"]: one.get("size_bytes") or 0 for one in have.get("members", ()) if _serves(one)}
    return (
        bool(known)
        and all(examined.get(one, 0) > 0 for one in known)
        and (min(examined[one] for one in known) > min(known.values()))
    )


def describe(have, predicted=None):
    """What --diff compares; predicted: a Wanted and its Plan, for check mode."""
    if have is None and predicted is None:
        return {}
    shown = {}
    if have is not None:
        shown = {
            "state": "stopped" if have["state"] in ("stopped", "stopping") else "started",
            "level": have.get("level"),
            "chunk_bytes": have.get("chunk_bytes"),
            "size_bytes": have.get("size_bytes"),
            "members": sorted(one["member"] for one in have.get("members", ()) if _has_place(one)),
            "spares": sorted(one["member"] for one in have.get("members", ()) if one.get("state") == "spare"),
            "sync_rate_min_bytes": have.get("sync_rate_min_bytes"),
            "sync_rate_max_bytes": have.get("sync_rate_max_bytes"),
            "log": _log_of(have),
        }
    if predicted is None:
        return shown
    return _predict(shown, *predicted)


def _predict(shown, want, plan):
    if want.state == "absent" and plan.actions:
        return {}
    shown = dict(shown)
    verbs = [action.words[0] for action in plan.actions]
    if "create" in verbs:
        shown.update(
            level=want.level,
            members=sorted(map(names.member, want.members)),
            spares=sorted(map(names.member, want.spares)),
        )
    if verbs:
        shown["state"] = want.state
    for action in plan.actions:
        if action.words[0] == "replace":
            _, _, old, new = action.words[:4]
            shown["members"] = sorted([one for one in shown["members"] if one != old] + [names.member(new)])
        if action.words[0] == "add-spare":
            shown["spares"] = sorted([*shown["spares"], names.member(action.words[2])])
        if action.words[0] == "grow":
            shown["size_bytes"] = "what the members have grown to"
    for key, value in (
        ("sync_rate_min_bytes", want.rate_min_bytes),
        ("sync_rate_max_bytes", want.rate_max_bytes),
        ("log", want.log),
    ):
        if "set" in verbs and value is not None:
            shown[key] = value
    return shown
