#!/usr/bin/python3
"""Ansible module: the role of a volume on this gateway, set or awaited."""

DOCUMENTATION = r"""
---
module: iraid_role
short_description: The role of a volume on this gateway, set or awaited
description:
  - Runs C(iraid activate) or C(iraid standby) where the role is another one; never with C(--take-over) or C(--force).
  - With I(set=false) it only waits until the role is there, for Pacemaker or another gateway to bring it about.
options:
  name:
    description: Name of the volume.
    type: str
    required: true
  role:
    description: The role that it is to have.
    type: str
    choices: [active, standby]
    required: true
  set:
    description: C(false) only waits.
    type: bool
    default: true
  released:
    description: Before it is activated, wait until no other gateway has its members reserved.
    type: bool
    default: false
  timeout:
    description: Longest time to wait, seconds.
    type: int
    default: 60
  command:
    description: The iraid command.
    type: str
    default: iraid
author: iraid maintainers
"""

EXAMPLES = r"""
- name: Serve it from here
  iraid.iraid.iraid_role:
    name: v0
    role: active
"""

RETURN = r"""
before:
  description: Its role before; null if it did not run here.
  returned: always
  type: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import volume_name

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "role": {"type": "str", "choices": ["active", "standby"], "required": True},
    "set": {"type": "bool", "default": True},
    "released": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 60},
    "command": {"type": "str", "default": "iraid"},
}
LOOK_SECONDS = 0.2
# States in which a volume has its role.
WORKS = {"active": ("active", "degraded"), "standby": ("standby",)}


def has_role(status, role):
    return status is not None and status.get("role") == role and status["state"] in WORKS[role]


def await_role(iraid, name, role, seconds):
    deadline = time.monotonic() + seconds
    while True:
        status = iraid.status(name)
        if has_role(status, role):
            return
        if time.monotonic() > deadline:
            now = (
                "not known here"
                if status is None
                else f"{status['state']} ({status.get('reason') or 'no reason given'})"
            )
            raise ValueError(
                f"volume {name} is not {role} on this gateway after {seconds} s: it is {now}; see iraid events {name}"
            )
        time.sleep(LOOK_SECONDS)


def others(status):
    """Members that another gateway has reserved; none where it can't be told."""
    holder = (status or {}).get("holder") or {}
    return [
        one["member"] for one in holder.get("members", ()) if one.get("key") and one["key"] != holder.get("own_key")
    ]


def await_release(iraid, name, status, seconds):
    deadline = time.monotonic() + seconds
    while held := others(status):
        if time.monotonic() > deadline:
            raise ValueError(
                f"volume {name} was not activated: after {seconds} s another gateway has {', '.join(held)} reserved still; see "
                f"iraid status {name} there"
            )
        time.sleep(LOOK_SECONDS)
        status = iraid.status(name)


def run(module):
    given = module.params
    name, role = volume_name(given["name"]), given["role"]
    iraid = Iraid(module, given["command"])
    try:
        status = iraid.status(name)
    except Absent:
        if not module.check_mode:
            raise
        status = None
    before = status.get("role") if status else None
    if has_role(status, role):
        return module.exit_json(changed=False, before=before)
    shown = {"before": f"{before}\n", "after": f"{role}\n"}
    if module.check_mode:
        return module.exit_json(changed=given["set"], before=before, diff=shown)
    if given["set"] and role == "active":
        if given["released"]:
            await_release(iraid, name, status, given["timeout"])
        iraid.run("activate", name, "--timeout", str(given["timeout"]))
    elif given["set"]:
        iraid.run("standby", name)
    await_role(iraid, name, role, given["timeout"])
    return module.exit_json(changed=given["set"], before=before, diff=shown)


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run)


if __name__ == "__main__":
    main()
