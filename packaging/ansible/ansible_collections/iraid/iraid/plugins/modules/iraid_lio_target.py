#!/usr/bin/python3
"""Ansible module: a target of LIO whose LUNs become members."""

DOCUMENTATION = r"""
---
module: iraid_lio_target
short_description: Serve LUNs for iraid by LIO
description:
  - Makes one target of LIO, or adds what it lacks, with parameters that are good for iraid, and saves it in LIO's
    configuration.
  - Nothing is removed. LUNs, ACLs and portals that are not named stay. Needs python3-rtslib-fb.
options:
  iqn:
    description: Name of the target.
    type: str
    required: true
  luns:
    description: Backing of LUN 0, 1, ...
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
        description: Let the target cache writes to a file. Flushes of iraid always reach the disk.
        type: bool
        default: true
  portals:
    description: IP:PORT of each address to listen on; an empty list means all addresses.
    type: list
    elements: str
    default: []
  initiators:
    description: Initiator names of the gateways.
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
    description: The target's own CHAP user, by which it proves who it is; initiators have to ask for that then.
    type: str
  target_secret:
    description: Its secret, another one.
    type: str
  parameters:
    description: Parameters of the portal group. They override those of the module.
    type: dict
    default: {}
  queue_depth:
    description: Commands in flight in a session.
    type: int
    default: 128
author: iraid maintainers
"""

EXAMPLES = r"""
- name: A logical volume as a member
  iraid.iraid.iraid_lio_target:
    iqn: iqn.2026-01.org.example:disk
    luns:
      - device: /dev/vg0/iraid
    initiators: ["iqn.2026-01.org.example:gateway1"]
"""

RETURN = r"""
changes:
  description: What was made, or would be.
  returned: always
  type: list
  elements: str
"""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import backing, files, lio_plan
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
    "portals": {"type": "list", "elements": "str", "default": []},
    "initiators": {"type": "list", "elements": "str", "default": []},
    "open_to_all": {"type": "bool", "default": False},
    "user": {"type": "str"},
    "secret": {"type": "str", "no_log": True},
    "target_user": {"type": "str"},
    "target_secret": {"type": "str", "no_log": True},
    "parameters": {"type": "dict", "default": {}},
    "queue_depth": {"type": "int", "default": lio_plan.QUEUE_DEPTH},
}


CONFIGFS = Path("/sys/kernel/config/target/iscsi")


class Lio:
    """The kernel's configuration, through rtslib-fb."""

    def __init__(self, rtslib, want):
        self.rtslib, self.want = rtslib, want
        self.root = rtslib.RTSRoot()
        self.root.invalidate_caches()
        self.fabric = rtslib.FabricModule("iscsi")
        self.fabric._check_self()  # loads the module; rtslib has no public call for that

    def dump(self):
        return self.root.dump()

    def apply(self, step):
        getattr(self, f"_make_{step.verb}")(*step.values)

    def _target(self):
        return self.rtslib.Target(self.fabric, self.want.iqn, mode="lookup")

    def _group(self):
        return self.rtslib.TPG(self._target(), lio_plan.GROUP_TAG, mode="lookup")

    def _storage(self, lun):
        kind = self.rtslib.BlockStorageObject if lun.plugin == "block" else self.rtslib.FileIOStorageObject
        return kind(lun.name)

    def _make_storage(self, lun, serial):
        """serial: that which initiators know it by; None: a new one."""
        if lun.plugin == "block":
            self.rtslib.BlockStorageObject(lun.name, dev=lun.device, wwn=serial)
        else:
            self.rtslib.FileIOStorageObject(
                lun.name, lun.file, size=lun.size_bytes, wwn=serial, write_back=lun.write_back
            )

    def _make_target(self):
        self.rtslib.Target(self.fabric, self.want.iqn, mode="create")

    def _make_group(self):
        self.rtslib.TPG(self._target(), lio_plan.GROUP_TAG, mode="create")

    def _make_attribute(self, name, value):
        self._group().set_attribute(name, value)

    def _make_parameter(self, name, value):
        self._group().set_parameter(name, value)

    def _make_lun(self, index, lun):
        self.rtslib.LUN(self._group(), index, storage_object=self._storage(lun))

    def _make_portal(self, address, port):
        self.rtslib.NetworkPortal(self._group(), address, port, mode="create")

    def _make_acl(self, initiator):
        self.rtslib.NodeACL(self._group(), initiator, mode="create")

    def _make_secret(self, initiator, user, secret, target_user, target_secret):
        group = self._group()
        holder = group if initiator is None else self.rtslib.NodeACL(group, initiator, mode="lookup")
        holder.chap_userid, holder.chap_password = user, secret
        holder.chap_mutual_userid, holder.chap_mutual_password = target_user, target_secret

    def _make_map(self, initiator, index):
        acl = self.rtslib.NodeACL(self._group(), initiator, mode="lookup")
        self.rtslib.MappedLUN(acl, index, index)

    def _make_enable(self):
        self._group().enable = True


def wanted(given):
    name = iqn(given["iqn"])
    luns = [
        lio_plan.Backing(
            lio_plan.storage_name(name, index),
            one["device"],
            one["file"],
            size(one["size"]) if one["size"] else 0,
            one["write_back"],
        )
        for index, one in enumerate(given["luns"])
    ]
    return lio_plan.Target(
        iqn=name,
        luns=tuple(luns),
        portals=tuple(given["portals"]),
        initiators=tuple(given["initiators"]),
        user=given["user"],
        secret=given["secret"],
        target_user=given["target_user"],
        target_secret=given["target_secret"],
        open_to_all=given["open_to_all"],
        parameters=given["parameters"],
        queue_depth=given["queue_depth"],
    )


def saved(path):
    content = path.read_text() if path.exists() else ""
    return json.loads(content) if content.strip() else {}


def save(path, want, running):
    """True if the file is another one now.  Mode 0600: it holds secrets."""
    before = saved(path)
    merged = lio_plan.merge_saved(before, running, want)
    if merged == before:
        return False
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    files.write(path, json.dumps(merged, sort_keys=True, indent=2) + "\n")
    return True


def run(module):
    want = wanted(module.params)
    if not want.initiators and not want.open_to_all:
        raise lio_plan.Refused(
            "no initiator may use it: give initiators, the names of the gateways, or open_to_all: true"
        )
    short = backing.short_files(want.luns)
    changes = [f"file {path} of {size_bytes} bytes" for path, size_bytes in short]
    try:
        import rtslib_fb
        import rtslib_fb.root
    except ImportError:
        if not module.check_mode:
            raise lio_plan.Refused(
                "python3-rtslib-fb is not installed here: apt install python3-rtslib-fb, or let the "
                "role do it (iraid_backend_install)"
            ) from None
        module.warn("LIO's tools are not installed yet: check mode assumes that nothing is configured")
        changes += [step.text for step in lio_plan.plan_target(want, {}).steps]
        return module.exit_json(changed=True, changes=changes, diff=diff([], changes))
    if module.check_mode and not CONFIGFS.is_dir():  # rtslib would load LIO
        changes += [step.text for step in lio_plan.plan_target(want, {}).steps]
        return module.exit_json(changed=True, changes=changes, diff=diff([], changes))
    lio = Lio(rtslib_fb, want)
    file, running = Path(rtslib_fb.root.default_save_file), lio.dump()
    want = lio_plan.with_own_names(want, running, saved(file))
    plan = lio_plan.plan_target(want, running, saved(file))
    changes += [step.text for step in plan.steps]
    for warning in plan.warnings:
        module.warn(warning)
    if not module.check_mode:
        for path, size_bytes in short:
            backing.enlarge(path, size_bytes)
        for step in plan.steps:
            try:
                lio.apply(step)
            except (rtslib_fb.RTSLibError, OSError) as error:
                module.fail_json(
                    msg=f"LIO refused: {step.text}: {error}: see dmesg | tail; earlier steps stay, and "
                    "the next run continues from there",
                    changes=changes,
                )
        if save(file, want, lio.dump()) and not changes:
            changes.append(f"target {want.iqn} in {file}")
    return module.exit_json(changed=bool(changes), changes=changes, diff=diff([], changes))


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
