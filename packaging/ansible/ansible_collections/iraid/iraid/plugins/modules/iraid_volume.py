#!/usr/bin/python3
"""Ansible module: make, start, change and grow a volume of iraid."""

DOCUMENTATION = r"""
---
module: iraid_volume
short_description: Make, start, change and grow a volume of iraid
description:
  - Compares a volume of this gateway with the parameters, and runs the C(iraid) commands for the difference.
  - Level and chunk of a volume are never changed. To replace a member needs I(replace), to delete a volume needs
    I(confirm_delete), to format devices of an iraid volume needs I(confirm_overwrite). Other volumes are not touched.
options:
  name:
    description: Name of the volume.
    type: str
    required: true
  state:
    description: C(absent) deletes the volume and its data; it needs I(confirm_delete).
    type: str
    choices: [started, stopped, absent]
    default: started
  create:
    description: C(false) refuses to make the volume, because it is known that there is one.
    type: bool
    default: true
  level:
    description: 0, 1, 5, 6 or 10; at creation.
    type: int
    choices: [0, 1, 5, 6, 10]
  members:
    description: PORTAL/IQN/LUN of each.
    type: list
    elements: str
    default: []
  spares:
    description: Spares of this volume. They are added, never removed.
    type: list
    elements: str
    default: []
  chunk:
    description: Size, for example 64K; at creation.
    type: str
  region_size:
    description: Data of each member that one bit of the write-intent bitmap covers; at creation.
    type: str
  rate_min:
    description: Lower limit of resync, rebuild and scrub, bytes a second of each member.
    type: str
  rate_max:
    description: Upper limit of resync, rebuild and scrub, bytes a second of each member.
    type: str
  log:
    description: When writes are logged on the members before they change rows; C(degraded) and C(always) need level 5 or
      6.
    type: str
    choices: ["off", "degraded", "always"]
  header_digest:
    description: CRC32C of headers between gateway and targets; at creation.
    type: str
    choices: [none, preferred, required]
  data_digest:
    description: The same of data.
    type: str
    choices: [none, preferred, required]
  initiator:
    description: Initiator name for the login to the targets; at creation.
    type: str
  chap_file:
    description: Secrets file on the gateway for the login to the targets; at creation.
    type: path
  replace:
    description: Members to replace. An entry that is done may stay.
    type: list
    elements: dict
    default: []
    suboptions:
      old:
        description: The member that leaves.
        type: str
        required: true
      new:
        description: The device that takes its place.
        type: str
        required: true
  grow:
    description: Use the space that was added to the members.
    type: bool
    default: false
  wait:
    description: Wait until the members of a new volume, or a replaced member, are in sync.
    type: bool
    default: false
  overwrite:
    description: Format devices even if they hold data, which destroys it. Does not include iraid volumes.
    type: bool
    default: false
  confirm_overwrite:
    description: Format devices even if they hold an iraid volume; for one run. Implies I(overwrite).
    type: bool
    default: false
  confirm_delete:
    description: Confirms C(state=absent).
    type: bool
    default: false
  wipe:
    description: C(false) with C(state=absent) only forgets the volume here; its members are not touched.
    type: bool
    default: true
  command:
    description: The iraid command.
    type: str
    default: iraid
author: iraid maintainers
"""

EXAMPLES = r"""
- name: A P-iRAID volume
  iraid.iraid.iraid_volume:
    name: v0
    level: 5
    members:
      - 10.0.0.1/iqn.2026-01.org.example:disk/0
      - 10.0.0.2/iqn.2026-01.org.example:disk/0
      - 10.0.0.3/iqn.2026-01.org.example:disk/0
"""

RETURN = r"""
commands:
  description: What was done, or would be, in words.
  returned: always
  type: list
  elements: str
volume:
  description: The volume's status, as in C(iraid status --json); empty if there is no volume.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import volume_plan
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Failure, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import size

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["started", "stopped", "absent"], "default": "started"},
    "create": {"type": "bool", "default": True},
    "level": {"type": "int", "choices": [0, 1, 5, 6, 10]},
    "members": {"type": "list", "elements": "str", "default": []},
    "spares": {"type": "list", "elements": "str", "default": []},
    "chunk": {"type": "str"},
    "region_size": {"type": "str"},
    "rate_min": {"type": "str"},
    "rate_max": {"type": "str"},
    "log": {"type": "str", "choices": ["off", "degraded", "always"]},
    "header_digest": {"type": "str", "choices": ["none", "preferred", "required"]},
    "data_digest": {"type": "str", "choices": ["none", "preferred", "required"]},
    "initiator": {"type": "str"},
    "chap_file": {"type": "path"},
    "replace": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"old": {"type": "str", "required": True}, "new": {"type": "str", "required": True}},
    },
    "grow": {"type": "bool", "default": False},
    "wait": {"type": "bool", "default": False},
    "overwrite": {"type": "bool", "default": False},
    "confirm_overwrite": {"type": "bool", "default": False},
    "confirm_delete": {"type": "bool", "default": False},
    "wipe": {"type": "bool", "default": True},
    "command": {"type": "str", "default": "iraid"},
}


def wanted(given):
    sizes = {
        key: None if given[key] is None else size(given[key])
        for key in ("chunk", "region_size", "rate_min", "rate_max")
    }
    return volume_plan.Wanted(
        name=given["name"],
        state=given["state"],
        create=given["create"],
        level=given["level"],
        members=tuple(given["members"]),
        spares=tuple(given["spares"]),
        chunk_bytes=sizes["chunk"],
        region_bytes=sizes["region_size"],
        rate_min_bytes=sizes["rate_min"],
        rate_max_bytes=sizes["rate_max"],
        log=given["log"],
        header_digest=given["header_digest"],
        data_digest=given["data_digest"],
        replace=tuple((one["old"], one["new"]) for one in given["replace"]),
        grow=given["grow"],
        wait=given["wait"],
        overwrite=given["overwrite"],
        confirm_overwrite=given["confirm_overwrite"],
        confirm_delete=given["confirm_delete"],
        wipe=given["wipe"],
        chap_file=given["chap_file"],
        initiator=given["initiator"],
    )


def login(want):
    words = []
    for option, value in (("--initiator", want.initiator), ("--chap-file", want.chap_file)):
        words += [option, value] if value else []
    return words


def look_first(module, iraid, want, action):
    """What a permission of the inventory does not cover is found before anything is formatted."""
    if not action.looked_at:
        return
    try:
        seen = iraid.run("examine", *login(want), *action.looked_at)["members"]
    except (Absent, Failure) as failure:
        if not module.check_mode:
            raise
        # Its secrets file may be one that is still to be written.
        module.warn(
            f"check mode can't tell what is on the devices of volume {want.name}: "
            f"{getattr(failure, 'text', 'the command iraid is not here yet')}"
        )
        return
    if module.check_mode:
        for one in seen:
            if one.get("error"):
                module.warn(f"check mode can't tell what is on {one['member']}: {one['error'].get('message')}")
        seen = [one for one in seen if not one.get("error")]
    volume_plan.check_devices(want, seen)


def would_change(module, iraid, want, have, action):
    """In check mode: only whether a volume can grow is not certain from its status."""
    if action.words[0] != "grow":
        return True
    members = [one["member"] for one in have["members"] if one.get("state") == "in sync"]
    try:
        seen = iraid.run("examine", *login(want), *members)["members"]
    except Failure as failure:
        module.warn(f"check mode can't tell whether volume {want.name} can grow: {failure.text}")
        return False
    sizes = {one["member"]: (one.get("device") or {}).get("size_bytes", 0) for one in seen}
    return volume_plan.can_grow(have, sizes)


def did_change(action, answer):
    if action.words[0] == "grow":
        luns = answer.get("luns", ())
        return answer["size_bytes"] != answer["before_bytes"] or any(
            lun["size_bytes"] != lun["before_bytes"] for lun in luns
        )
    return action.words[0] != "wait"


def run(module):
    want = wanted(module.params)
    iraid = Iraid(module, module.params["command"])
    try:
        have = iraid.status(want.name)
    except Absent:
        if not module.check_mode:
            raise
        module.warn("the command iraid is not here yet: check mode takes it that there are no volumes")
        have = None
    plan = volume_plan.plan_volume(want, have)
    for warning in plan.warnings:
        module.warn(warning)
    before = volume_plan.describe(have)
    for action in plan.actions:
        look_first(module, iraid, want, action)
    if module.check_mode:
        plan.actions = [one for one in plan.actions if would_change(module, iraid, want, have, one)]
        after = volume_plan.describe(have, (want, plan))
        module.exit_json(
            changed=bool(plan.actions),
            commands=[one.text for one in plan.actions],
            volume=have or {},
            diff={"before": before, "after": after},
        )
    done = []
    for action in plan.actions:
        try:
            answer = iraid.run(*action.words)
        except Failure as failure:
            if failure.kind == "in_use" and action.words[0] in ("create", "replace") and "--force" not in action.words:
                failure.text += (
                    f"; in the inventory that is overwrite: true of volume {want.name}, which destroys it "
                    "unless it is a volume of iraid"
                )
            raise
        if did_change(action, answer):
            done.append(action.text)
    now = iraid.status(want.name) if plan.actions else have
    module.exit_json(
        changed=bool(done), commands=done, volume=now or {}, diff={"before": before, "after": volume_plan.describe(now)}
    )


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run, refused=(volume_plan.Refused, ValueError))


if __name__ == "__main__":
    main()
