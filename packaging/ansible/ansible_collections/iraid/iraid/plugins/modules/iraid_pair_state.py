#!/usr/bin/python3
"""Ansible module: what a gateway has of the volumes of a pair."""

DOCUMENTATION = r"""
---
module: iraid_pair_state
short_description: What a gateway has of the volumes of a pair
description:
  - Reads the state of volumes, their files, and which of them Pacemaker has. Changes nothing.
options:
  names:
    description: Names of the volumes.
    type: list
    elements: str
    required: true
  config_dir:
    description: Folder of the gateway's configuration.
    type: path
    default: /etc/iraid
  command:
    description: The iraid command.
    type: str
    default: iraid
author: iraid maintainers
"""

EXAMPLES = r"""
- name: Look
  iraid.iraid.iraid_pair_state:
    names: [v0]
  register: seen
"""

RETURN = r"""
volumes:
  description: Of each name null (it is not known here), or uuid, state, role, size_bytes, exported, health, and the text
    of its file.
  returned: always
  type: dict
managed:
  description: Of the volumes that Pacemaker has, the names of their resources.
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import cib
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import volume_name

ARGUMENTS = {
    "names": {"type": "list", "elements": "str", "required": True},
    "config_dir": {"type": "path", "default": "/etc/iraid"},
    "command": {"type": "str", "default": "iraid"},
}


def of_volume(iraid, folder, name):
    status = iraid.status(name)
    path = folder / "volumes" / f"{name}.conf"
    if status is None:
        if path.exists():
            raise ValueError(
                f"{path} is there, but the handler does not know volume {name}: see what is wrong with it: iraid config "
                f"check {name}"
            )
        return None
    with path.open(newline="") as file:
        text = file.read()
    return {
        "uuid": status["uuid"],
        "state": status["state"],
        # Of one that does not run, the record of its turn counts for nothing here.
        "role": status.get("role") if status["state"] not in ("stopped", "stopping") else None,
        "size_bytes": status.get("size_bytes") or 0,
        "exported": any(str(user).startswith("tcmu") for user in status.get("users", ())),
        "health": {"word": status["health"]["word"], "text": status["health"]["text"]},
        "file": text,
    }


def run(module):
    given = module.params
    names = [volume_name(name) for name in given["names"]]
    iraid = Iraid(module, given["command"])
    try:
        volumes = {name: of_volume(iraid, Path(given["config_dir"]), name) for name in names}
    except Absent:
        if not module.check_mode:
            raise
        module.warn("the command iraid is not here yet: check mode takes it that there are no volumes")
        volumes = dict.fromkeys(names)
    module.exit_json(changed=False, volumes=volumes, managed=cib.volumes(cib.read(module)))


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run)


if __name__ == "__main__":
    main()
