#!/usr/bin/python3
"""Ansible module: a target of tgt whose LUNs become members."""

DOCUMENTATION = r"""
---
module: iraid_tgt_target
short_description: Serve LUNs for iraid by tgt
description:
  - Writes the target to a file of its own in tgt's configuration, with parameters that are good for iraid, and makes
    tgt read it. If tgt refuses it, the change is undone, and the next run tries again. While initiators are logged in
    to the target only the file is changed; the change applies when tgt is restarted.
  - LUNs are numbered from 1. tgt passes secrets to its own tools on their command line.
options:
  iqn:
    description: Name of the target.
    type: str
    required: true
  luns:
    description: Backing of LUN 1, 2, ...
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: Block device.
        type: path
      file:
        description: File. It is made as a sparse file, and enlarged if it is too small, but never made smaller.
        type: path
      size:
        description: Size of the file.
        type: str
      write_back:
        description: Let the target cache writes. Flushes of iraid always reach the disk.
        type: bool
        default: true
  initiators:
    description: Initiator names of the gateways.
    type: list
    elements: str
    default: []
  addresses:
    description: Addresses and networks of the gateways; an empty list means any.
    type: list
    elements: str
    default: []
  open_to_all:
    description: Let any initiator log in.
    type: bool
    default: false
  user:
    description: CHAP user.
    type: str
  secret:
    description: CHAP secret.
    type: str
  target_user:
    description: The target's own CHAP user, by which it proves who it is to initiators that ask.
    type: str
  target_secret:
    description: Its secret, another one.
    type: str
  parameters:
    description: Parameters of the target. They override those of the module.
    type: dict
    default: {}
  folder:
    description: Folder from which tgt reads its configuration.
    type: path
    default: /etc/tgt/conf.d
author: iraid maintainers
"""

EXAMPLES = r"""
- name: A file as a member
  iraid.iraid.iraid_tgt_target:
    iqn: iqn.2026-01.org.example:disk
    luns:
      - file: /srv/iraid.img
        size: 1T
    initiators: ["iqn.2026-01.org.example:gateway1"]
"""

RETURN = r"""
changes:
  description: What was made, or would be.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import backing, files, lio_plan, tgt_config
from ansible_collections.iraid.iraid.plugins.module_utils.names import iqn, size
from ansible_collections.iraid.iraid.plugins.module_utils.shown import diff

ARGUMENTS = {
    "iqn": {"type": "str", "required": True},
    "luns": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "device": {"type": "path"},
            "file": {"type": "path"},
            "size": {"type": "str"},
            "write_back": {"type": "bool", "default": True},
        },
        "mutually_exclusive": [("device", "file")],
        "required_one_of": [("device", "file")],
        "required_by": {"file": ("size",)},
    },
    "initiators": {"type": "list", "elements": "str", "default": []},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "open_to_all": {"type": "bool", "default": False},
    "user": {"type": "str"},
    "secret": {"type": "str", "no_log": True},
    "target_user": {"type": "str"},
    "target_secret": {"type": "str", "no_log": True},
    "parameters": {"type": "dict", "default": {}},
    "folder": {"type": "path", "default": "/etc/tgt/conf.d"},
}


def running_targets(module):
    """{iqn: in use}; raises Refused if tgtd does not answer."""
    status, out, err = module.run_command(["tgtadm", "--lld", "iscsi", "--mode", "target", "--op", "show"])
    if status != 0:
        raise lio_plan.Refused(
            f"tgtd does not answer ({err.strip() or out.strip()}): systemctl start tgt, and see journalctl -u tgt"
        )
    return tgt_config.targets_in_use(out)


def load(module, name):
    # Not verbose; where there is a secret its output holds it, and is not shown.
    status, out, err = module.run_command(["tgt-admin", "--update", name])
    if status != 0 or name not in running_targets(module):
        said = "" if module.params["secret"] else " ".join(f"{err} {out}".split())
        raise lio_plan.Refused(
            f"tgt-admin refused the new configuration, so the old one is back{said and ': '}"
            f"{said}; see the log of tgt (journalctl -u tgt), and whether another program uses the "
            "backing files"
        )


def undo(module, name, path, before, written):
    """After a load that failed, so that the next run finds the same to do again and does not take it for done."""
    if not written:
        module.run_command(["tgt-admin", "--delete", name])  # what was made of it by half
        return
    if before is None:
        path.unlink()
    else:
        files.write(path, before)
    # tgt-admin serves what the old file says, and takes away a target that stands in no file; none that is in use.
    module.run_command(["tgt-admin", "--update", name])


def run(module):
    given = module.params
    name = iqn(given["iqn"])
    if not (given["initiators"] or given["addresses"] or given["open_to_all"]):
        raise lio_plan.Refused(
            "no initiator may use it: give initiators, the names of the gateways, addresses, or open_to_all: true"
        )
    luns = [
        lio_plan.Backing("", one["device"], one["file"], size(one["size"]) if one["size"] else 0, one["write_back"])
        for one in given["luns"]
    ]
    short = backing.short_files(luns)
    changes = [f"file {path} of {size_bytes} bytes" for path, size_bytes in short]
    path = Path(given["folder"]) / tgt_config.file_name(name)
    old = tgt_config.file_before(path.parent, name)
    text = tgt_config.text(
        name,
        [(one.device or one.file, one.write_back) for one in luns],
        given["initiators"],
        given["addresses"],
        [
            (key, given[user], given[secret])
            for key, user, secret in (
                ("incominguser", "user", "secret"),
                ("outgoinguser", "target_user", "target_secret"),
            )
            if given[secret]
        ],
        given["parameters"],
    )
    there = old or path
    before = there.read_text() if there.exists() else None
    written = before != text
    if old:
        changes.append(f"{old} renamed to {path}")
    if written:
        changes.append(f"target {name} in {path}")
    if not module.check_mode:
        running = running_targets(module)
        for file, size_bytes in short:
            backing.enlarge(file, size_bytes)
        if short and name in running:
            module.warn(
                f"tgt still serves files of {name} with their old size: systemctl restart tgt, "
                "one host after the other, with iraid wait in between"
            )
        if old:
            old.replace(path)
        if written:
            files.write(path, text)
        if name not in running or (written and not running[name]):
            try:
                load(module, name)
            except lio_plan.Refused:
                undo(module, name, path, before, written)
                raise
            changes = changes or [f"target {name}"]
        elif written:
            module.warn(
                f"initiators are logged in to {name}: the change applies after a restart of tgt (systemctl "
                "restart tgt, one host after the other, with iraid wait in between)"
            )
    module.exit_json(changed=bool(changes), changes=changes, diff=diff([], changes))


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_together=[("user", "secret"), ("target_user", "target_secret")],
        required_by={"target_user": ("user",)},
    )
    try:
        run(module)
    except (lio_plan.Refused, ValueError) as refused:
        module.fail_json(msg=f"target {module.params['iqn']}: {refused}")


if __name__ == "__main__":
    main()
