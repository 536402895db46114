#!/usr/bin/python3
"""Ansible module: a volume's file, brought from the other gateway of a pair."""

DOCUMENTATION = r"""
---
module: iraid_pair_file
short_description: A volume's file, brought from the other gateway of a pair
description:
  - The file becomes that of the other gateway, but for I(initiator) and I(chap_file). Nothing is written to members.
  - Refused while the volume is active here, or if this gateway has another volume of that name.
  - A volume that is on standby reads its file when it is activated.
options:
  name:
    description: Name of the volume.
    type: str
    required: true
  text:
    description: Text of the other gateway's file; without it only check mode may run, before there is one.
    type: str
  initiator:
    description: Initiator name of this gateway.
    type: str
    required: true
  chap_file:
    description: Secrets file on this gateway.
    type: path
  standby:
    description: Begin it on standby, if it does not run here. C(false) leaves that to Pacemaker.
    type: bool
    default: true
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
- name: Know the volume here, too
  iraid.iraid.iraid_pair_file:
    name: v0
    text: "{{ hostvars['gateway1'].seen.volumes.v0.file }}"
    initiator: iqn.2026-01.org.example:gateway2
"""

RETURN = r"""
path:
  description: The file.
  returned: always
  type: str
"""

import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import conf_file, conf_text, files
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import iqn, volume_name

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "text": {"type": "str"},
    "initiator": {"type": "str", "required": True},
    "chap_file": {"type": "path"},
    "standby": {"type": "bool", "default": True},
    "config_dir": {"type": "path", "default": "/etc/iraid"},
    "command": {"type": "str", "default": "iraid"},
}


def made_of(given):
    text = conf_text.set_key(given["text"], "volume", "initiator", [iqn(given["initiator"])])
    if given["chap_file"]:
        text = conf_text.set_key(text, "volume", "chap_file", [given["chap_file"]])
    return text


def uuid_of(text):
    return [one.lower() for one in conf_text.get_key(text, "volume", "uuid")]


def check_same(name, path, before, after):
    if before and uuid_of(before) != uuid_of(after):
        raise ValueError(
            f"{path} is of another volume: uuid {', '.join(uuid_of(before)) or 'missing'}, the other gateway has "
            f"{', '.join(uuid_of(after)) or 'none'}; see which one holds the data (iraid examine), and take the other one "
            f"out of its gateway: iraid delete {name} --no-wipe"
        )


def check_idle(iraid, name):
    """The active gateway's file is the one that the handler changes."""
    status = iraid.status(name)
    if status and status.get("role") == "active" and status["state"] not in ("stopped", "stopping"):
        raise ValueError(
            f"volume {name} is active on this gateway now: its file was not replaced by that of the other one; run this again"
        )
    return status


def check_faults(iraid, path, text):
    """Of a copy, so that a fault changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "volumes" / path.name
        copy.parent.mkdir()
        files.write(copy, text)
        faults = iraid.run("config", "check", environment={"IRAID_CONFIG_DIR": folder})["faults"]
    if faults:
        raise ValueError(
            "; ".join(f"{path}:{one['line']}: {one['key']}: {one['what']}; {one['remedy']}" for one in faults)
        )


def replace(name, path, text):
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with conf_file.locked(conf_file.VOLUMES_LOCK):
        check_same(name, path, content(path), text)
        conf_file.rewrite(path, text)


def content(path):
    if not path.exists():
        return ""
    with path.open(newline="") as file:
        return file.read()


def would_be(module, given, path, before):
    after = made_of(given) if given["text"] else before or f"the file of volume {given['name']}\n"
    check_same(given["name"], path, before, after) if given["text"] else None
    module.exit_json(changed=after != before, path=str(path), diff={"before": before, "after": after})


def run(module):
    given = module.params
    name = volume_name(given["name"])
    path = Path(given["config_dir"]) / "volumes" / f"{name}.conf"
    before = content(path)
    if module.check_mode:
        return would_be(module, given, path, before)
    if not given["text"]:
        raise ValueError(f"volume {name}: text is missing: give that of the other gateway's file")
    after = made_of(given)
    iraid = Iraid(module, given["command"])
    if iraid.program is None:
        raise Absent
    status = check_idle(iraid, name)
    if after != before:
        check_faults(iraid, path, after)
        replace(name, path, after)
    runs = status is not None and status.get("role") is not None and status["state"] not in ("stopped", "stopping")
    begin = given["standby"] and not runs
    if begin:
        iraid.run("standby", name)
    return module.exit_json(changed=begin or after != before, path=str(path), diff={"before": before, "after": after})


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run)


if __name__ == "__main__":
    main()
