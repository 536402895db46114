#!/usr/bin/python3
"""Ansible module: two gateways become a cluster of Pacemaker."""

DOCUMENTATION = r"""
---
module: iraid_cluster_node
short_description: Two gateways become a cluster of Pacemaker
description:
  - Makes a cluster with C(pcs), unless this host is in it. A host that is in another cluster is refused; the file that
    Debian's package brings is none.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  nodes:
    description: Its nodes; this host is one of them.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      addresses:
        description: Addresses by which the nodes reach each other, one in each network.
        type: list
        elements: str
        required: true
  step:
    description:
      - C(password) gives the user hacluster the password, on each host, before one of them C(form)s the cluster.
    type: str
    choices: [password, form]
    required: true
  password:
    description: Password of the user hacluster, needed as long as there is no cluster.
    type: str
  config:
    description: Configuration of corosync.
    type: path
    default: /etc/corosync/corosync.conf
author: iraid maintainers
"""

EXAMPLES = r"""
- name: Form the cluster
  iraid.iraid.iraid_cluster_node:
    cluster: iraid
    nodes:
      - {name: gateway1, addresses: [10.9.0.1, 10.1.0.1]}
      - {name: gateway2, addresses: [10.9.0.2, 10.1.0.2]}
    step: form
    password: "{{ vault_cluster_password }}"
"""

RETURN = r"""
commands:
  description: What was done, or would be, in words.
  returned: always
  type: list
  elements: str
formed:
  description: Whether this host was in the cluster already.
  returned: always
  type: bool
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import cluster_plan
from ansible_collections.iraid.iraid.plugins.module_utils.shown import diff

ARGUMENTS = {
    "cluster": {"type": "str", "required": True},
    "nodes": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
        },
    },
    "step": {"type": "str", "choices": ["password", "form"], "required": True},
    "password": {"type": "str", "no_log": True},
    "config": {"type": "path", "default": "/etc/corosync/corosync.conf"},
}
USER = "hacluster"


def steps_of(given):
    """(text, words, what is typed to it) of each."""
    if given["step"] == "password":
        return [(f"password of user {USER}", ["chpasswd"], f"{USER}:{given['password']}\n")]
    known = [word for node in given["nodes"] for word in (node["name"], f"addr={node['addresses'][0]}")]
    nodes = [word for node in given["nodes"] for word in (node["name"], *(f"addr={one}" for one in node["addresses"]))]
    names = " and ".join(node["name"] for node in given["nodes"])
    # By force over the file that the package brings.  It destroys a cluster of either node: that this host is in one was
    # refused before, and that the other one is by iraid_cluster_split.
    setup = ["pcs", "cluster", "setup", given["cluster"], *nodes, "--start", "--enable", "--wait=120", "--force"]
    return [
        (f"authentication of {names}", ["pcs", "host", "auth", *known, "-u", USER], f"{given['password']}\n"),
        (f"cluster {given['cluster']} of {names}", setup, None),
    ]


def do(module, words, typed):
    program = module.get_bin_path(words[0], opt_dirs=["/usr/sbin"])
    if program is None:
        module.fail_json(msg=f"the command {words[0]} is not on this machine: install it (iraid_cluster_packages)")
    status, out, err = module.run_command([program, *words[1:]], data=typed)
    if status != 0:
        module.fail_json(
            msg=f"{' '.join(words)}: {(err or out).strip()}; remedy: see systemctl status pcsd corosync pacemaker on both hosts"
        )


def run(module):
    given = module.params
    config = Path(given["config"])
    text = config.read_text() if config.exists() else ""
    try:
        formed = cluster_plan.is_formed(given["cluster"], [node["name"] for node in given["nodes"]], text)
    except cluster_plan.Refused as refused:
        module.fail_json(msg=str(refused))
    steps = [] if formed else steps_of(given)
    if steps and not given["password"]:
        module.fail_json(
            msg=f"password is missing: the nodes prove themselves by that of user {USER} once, when the cluster is formed: "
            "write iraid_cluster_password, from a vault"
        )
    if not module.check_mode:
        for _, words, typed in steps:
            do(module, words, typed)
    texts = [text for text, _, _ in steps]
    module.exit_json(changed=bool(texts), commands=texts, formed=formed, diff=diff([], texts))


def main():
    run(AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True))


if __name__ == "__main__":
    main()
