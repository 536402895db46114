#!/usr/bin/python3
"""Ansible module: add spares that all volumes of a gateway share."""

DOCUMENTATION = r"""
---
module: iraid_gateway_spares
short_description: Add spares for all volumes of a gateway
description:
  - Runs C(iraid add-spare --gateway) for devices that are neither spares of the gateway nor devices of a volume. Spares
    that are not named stay.
options:
  spares:
    description: The devices.
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: PORTAL/IQN/LUN.
        type: str
        required: true
      chap_file:
        description: Secrets file on the gateway for the login.
        type: path
      initiator:
        description: Initiator name for the login.
        type: str
  overwrite:
    description: Take devices even if they hold data, which destroys it.
    type: bool
    default: false
  command:
    description: The iraid command.
    type: str
    default: iraid
author: iraid maintainers
"""

EXAMPLES = r"""
- name: One spare for all volumes
  iraid.iraid.iraid_gateway_spares:
    spares:
      - device: 10.0.0.9/iqn.2026-01.org.example:spare/0
"""

RETURN = r"""
added:
  description: Devices that were added, or would be.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import member
from ansible_collections.iraid.iraid.plugins.module_utils.shown import diff

ARGUMENTS = {
    "spares": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "device": {"type": "str", "required": True},
            "chap_file": {"type": "path"},
            "initiator": {"type": "str"},
        },
    },
    "overwrite": {"type": "bool", "default": False},
    "command": {"type": "str", "default": "iraid"},
}


def known_devices(everything):
    """Spares of the gateway, and whatever volumes have: a shared spare that was taken belongs to a volume."""
    known = {one["device"] for one in everything.get("spares", ())}
    for volume in everything.get("volumes", ()):
        known |= {one["member"] for one in volume.get("members", ())}
    return known


def run(module):
    iraid = Iraid(module, module.params["command"])
    try:
        known = known_devices(iraid.run("status"))
    except Absent:
        if not module.check_mode:
            raise
        known = set()
    before = sorted(known)
    added = []
    for one in module.params["spares"]:
        label = member(one["device"])
        if label in known:
            continue
        words = ["add-spare", "--gateway", one["device"]]
        for option, key in (("--chap-file", "chap_file"), ("--initiator", "initiator")):
            if one[key]:
                words += [option, one[key]]
        if module.params["overwrite"]:
            words.append("--force")
        if not module.check_mode:
            iraid.run(*words)
        known.add(label)
        added.append(label)
    module.exit_json(changed=bool(added), added=added, diff=diff(before, sorted(known)))


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run)


if __name__ == "__main__":
    main()
