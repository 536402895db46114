#!/usr/bin/python3
"""Ansible module: resources of Pacemaker for volumes of iraid."""

DOCUMENTATION = r"""
---
module: iraid_cluster
short_description: Resources of Pacemaker for volumes of iraid
description:
  - Adds what the cluster lacks with C(pcs), on a copy of its configuration, and pushes all changes at once. Runs on one
    node. Resources and constraints of others stay.
options:
  volumes:
    description: The volumes.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the volume, and of its resource.
        type: str
        required: true
      preferred:
        description: Node that serves it if both can.
        type: str
        required: true
      address:
        description: IP/PREFIX that is where the volume is active.
        type: str
  properties:
    description: Properties of the cluster, in addition to those of the role.
    type: dict
    default: {}
author: iraid maintainers
"""

EXAMPLES = r"""
- name: Pacemaker decides who serves the volume
  iraid.iraid.iraid_cluster:
    volumes:
      - name: v0
        preferred: gateway1
        address: 10.1.0.100/24
"""

RETURN = r"""
changes:
  description: What was changed, or would be.
  returned: always
  type: list
  elements: str
"""

import os
import shutil
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import cib, cluster_plan
from ansible_collections.iraid.iraid.plugins.module_utils.names import interface, volume_name
from ansible_collections.iraid.iraid.plugins.module_utils.shown import diff

ARGUMENTS = {
    "volumes": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "preferred": {"type": "str", "required": True},
            "address": {"type": "str"},
        },
    },
    "properties": {"type": "dict", "default": {}},
}
TRIES_MAX = 5


def wanted(given):
    volumes = []
    for one in given["volumes"]:
        address, prefix = interface(one["address"]) if one["address"] else (None, None)
        volumes.append(cluster_plan.Volume(volume_name(one["name"]), one["preferred"], address, prefix))
    return volumes


class Changed(ValueError):
    """The cluster took no difference: something else has changed its configuration since it was read, as a cluster that
    has just been formed does by itself.
    """


def pcs(module, *words, refused=ValueError):
    program = module.get_bin_path("pcs", opt_dirs=["/usr/sbin"])
    if program is None:
        raise ValueError("the command pcs is not on this machine: install it (iraid_cluster_packages)")
    status, out, err = module.run_command([program, *words])
    if status != 0:
        raise refused(f"pcs {' '.join(words)}: {' / '.join((err or out).strip().splitlines()[:3])}")


def change(module, before, steps):
    """All of it or nothing: a volume without its constraints would be anywhere."""
    with tempfile.TemporaryDirectory() as folder:
        old, new = os.path.join(folder, "before.xml"), os.path.join(folder, "after.xml")
        for path in (old, new):
            with open(path, "w", encoding="utf-8") as file:
                file.write(before)
        for one in steps:
            pcs(module, "-f", new, *one.words)
        if module.check_mode:
            return
        chosen = os.environ.get("CIB_file")
        if chosen:
            shutil.copyfile(new, chosen)
        else:
            pcs(module, "cluster", "cib-push", new, f"diff-against={old}", refused=Changed)


def bring_about(module, volumes):
    """Texts of what was changed."""
    for left in reversed(range(TRIES_MAX)):
        before = cib.read(module)
        if before is None:
            if module.check_mode:
                return [f"resource {one.name}-clone" for one in volumes]
            raise ValueError("there is no cluster on this host: see systemctl status pacemaker")
        steps = cluster_plan.plan(volumes, before, module.params["properties"])
        try:
            if steps:
                change(module, before, steps)
            return [one.text for one in steps]
        except Changed:
            if left == 0:
                raise
    return []


def run(module):
    try:
        texts = bring_about(module, wanted(module.params))
    except (ValueError, cluster_plan.Refused) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(texts), changes=texts, diff=diff([], texts))


def main():
    run(AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True))


if __name__ == "__main__":
    main()
