#!/usr/bin/python3
"""Ansible module: export a volume of iraid through LIO, or end the export."""

DOCUMENTATION = r"""
---
module: iraid_export
short_description: Export a volume of iraid to initiators
description:
  - Runs C(iraid export), which adds what is missing and changes nothing else, or C(iraid unexport).
  - ACLs and portals that are not named stay; a warning names them.
options:
  name:
    description: Name of the volume.
    type: str
    required: true
  state:
    description: C(absent) ends the export. Refused while an initiator is logged in. The volume stays.
    type: str
    choices: [present, absent]
    default: present
  iqn:
    description: Name of the target that initiators will see; required for C(present).
    type: str
  pair:
    description: This gateway's number in a pair; without it the volume has one gateway.
    type: int
    choices: [1, 2]
  no_reservations:
    description: Refuse reservations of initiators, which would not follow an address to the other gateway.
    type: bool
    default: false
  lun:
    description: Its number in the target; without it the number that it has, or the lowest that is free.
    type: int
  probe:
    description: Change nothing, and say in I(needs) what would have to be done.
    type: bool
    default: false
  portals:
    description: IP:PORT of each address to listen on.
    type: list
    elements: str
    default: []
  initiators:
    description: Names of the initiators that may use it.
    type: list
    elements: str
    default: []
  read_only_initiators:
    description: Names of the initiators that may read it, and not write.
    type: list
    elements: str
    default: []
  no_chap:
    description: Let initiators log in without a secret. C(chap_file) or this has to be there for a new export.
    type: bool
    default: false
  demo_mode:
    description: Let any initiator log in.
    type: bool
    default: false
  chap_file:
    description: Secrets file on the gateway; initiators must log in with its user and secret.
    type: path
  discovery_chap_file:
    description: Secrets file on the gateway; discovery of all of its targets must log in with its user and secret.
    type: path
  header_digest:
    description: CRC32C of headers, from the next login of an initiator on; without it the target's stays as it is.
    type: str
    choices: [none, preferred, required]
  data_digest:
    description: The same of data.
    type: str
    choices: [none, preferred, required]
  command:
    description: The iraid command.
    type: str
    default: iraid
author: iraid maintainers
"""

EXAMPLES = r"""
- name: Export the volume to one initiator
  iraid.iraid.iraid_export:
    name: v0
    iqn: iqn.2026-01.org.example:v0
    portals: ["10.1.0.9:3260"]
    initiators: ["iqn.1993-08.org.debian:01:abc"]
    chap_file: /etc/iraid/secrets/clients
"""

RETURN = r"""
changes:
  description: What was made or removed, or would be.
  returned: always
  type: list
  elements: str
needs:
  description: C(nothing); C(export), which can be done as it is; C(turn), the volume has to be active here for it.
  returned: with I(probe)
  type: str
export:
  description: What C(iraid export --json) answered.
  returned: when the volume is exported
  type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Failure, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import iqn, listen
from ansible_collections.iraid.iraid.plugins.module_utils.shown import diff

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "iqn": {"type": "str"},
    "pair": {"type": "int", "choices": [1, 2]},
    "no_reservations": {"type": "bool", "default": False},
    "lun": {"type": "int"},
    "probe": {"type": "bool", "default": False},
    "portals": {"type": "list", "elements": "str", "default": []},
    "initiators": {"type": "list", "elements": "str", "default": []},
    "read_only_initiators": {"type": "list", "elements": "str", "default": []},
    "no_chap": {"type": "bool", "default": False},
    "demo_mode": {"type": "bool", "default": False},
    "chap_file": {"type": "path"},
    "discovery_chap_file": {"type": "path"},
    "header_digest": {"type": "str", "choices": ["none", "preferred", "required"]},
    "data_digest": {"type": "str", "choices": ["none", "preferred", "required"]},
    "command": {"type": "str", "default": "iraid"},
}


def words_of(given, check_mode):
    words = ["export" if given["state"] == "present" else "unexport", given["name"]]
    if given["iqn"]:
        words += ["--iqn", iqn(given["iqn"])]
    if given["state"] == "present":
        if given["pair"]:
            words += ["--pair", str(given["pair"])]
        if given["no_reservations"]:
            words.append("--no-reservations")
        if given["lun"] is not None:
            words += ["--lun", str(given["lun"])]
        for portal in given["portals"]:
            words += ["--portal", listen(portal)]
        for initiator in given["initiators"]:
            words += ["--acl", iqn(initiator)]
        for initiator in given["read_only_initiators"]:
            words += ["--acl-read-only", iqn(initiator)]
        if given["no_chap"]:
            words.append("--no-chap")
        if given["demo_mode"]:
            words.append("--demo-mode")
        for key in ("chap_file", "discovery_chap_file", "header_digest", "data_digest"):
            if given[key]:
                words += [f"--{key.replace('_', '-')}", given[key]]
    return [*words, "--dry-run"] if check_mode else words


def strangers(given, answer):
    """Texts about what stands in the target and not in the inventory: it stays, since others may have put it there."""
    texts = []
    known = {iqn(one) for one in (*given["initiators"], *given["read_only_initiators"])}
    where = f"/iscsi/{answer['iqn']}/tpg{given['pair'] or 1}"
    for one in answer.get("initiators", ()):
        if not given["demo_mode"] and one not in known:
            texts.append(
                f"initiator {one} has an ACL in {answer['iqn']}, but it is not in the inventory; to remove "
                f"it: targetcli {where}/acls delete {one}; targetcli saveconfig"
            )
    ports = {listen(one) for one in given["portals"]}
    for one in answer.get("portals", ()):
        if ports and listen(one) not in ports:
            texts.append(
                f"target {answer['iqn']} listens on {one}, which is not in the inventory; to remove it: "
                f"targetcli {where}/portals delete {' '.join(one.rsplit(':', 1))}; targetcli saveconfig"
            )
    return texts


def unwritten(given):
    """Secrets files that a task before this one would have written, were it not for check mode."""
    files = [given["chap_file"], given["discovery_chap_file"]] if given["state"] == "present" else []
    return any(one and not os.path.exists(one) for one in files)


def not_there_yet(module, given):
    """Check mode, and the volume, or a secrets file, would have been made by a task before this one."""
    made = [f"target {given['iqn']} with volume {given['name']}"] if given["state"] == "present" else []
    module.exit_json(changed=bool(made), changes=made, diff=diff([], made))


def probe(module, given):
    """Of a volume that is on standby here."""
    iraid = Iraid(module, given["command"])
    needs = "turn"
    try:
        if not unwritten(given):
            needs = "export" if iraid.run(*words_of(given, check_mode=True))["changes"] else "nothing"
    except Absent:
        if not module.check_mode:
            raise
    except Failure as failure:
        if failure.kind == "busy":
            needs = _needs_of(module, iraid, given["name"], failure)
        elif failure.kind != "not_found" or not module.check_mode:
            raise
    module.exit_json(changed=False, changes=[], needs=needs)


def _needs_of(module, iraid, name, failure):
    """What has no LUN here needs a turn; of what has one it is not known."""
    users = (iraid.status(name) or {}).get("users", ())
    if not any(str(user).startswith("tcmu") for user in users):
        return "turn"
    module.warn(f"whether the export of volume {name} is as the inventory says can't be seen here: {failure.text}")
    return "nothing"


def run(module):
    given = module.params
    if given["state"] == "present" and not given["iqn"]:
        module.fail_json(
            msg=f"export of volume {given['name']}: iqn is missing: give the name of the target that "
            "initiators will see"
        )
    if given["probe"]:
        return probe(module, given)
    if module.check_mode and unwritten(given):
        return not_there_yet(module, given)
    try:
        answer = Iraid(module, given["command"]).run(*words_of(given, module.check_mode))
    except Absent:
        if module.check_mode:
            return not_there_yet(module, given)
        raise
    except Failure as failure:
        if failure.kind != "not_found":
            raise
        if given["state"] == "absent":
            module.exit_json(changed=False, changes=[])
        if module.check_mode:
            return not_there_yet(module, given)
        raise
    changes = answer["changes"]
    if given["state"] == "absent":
        return module.exit_json(changed=bool(changes), changes=changes, diff=diff([], changes))
    if not module.check_mode:
        for text in strangers(given, answer):
            module.warn(text)
    return module.exit_json(changed=bool(changes), changes=changes, export=answer, diff=diff([], changes))


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run, about=f"export of volume {module.params['name']}: ")


if __name__ == "__main__":
    main()
