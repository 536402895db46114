#!/usr/bin/python3
"""Ansible module: write secrets files of iraid."""

DOCUMENTATION = r"""
---
module: iraid_secrets
short_description: Write secrets files of iraid
description:
  - Line 1 is the user, line 2 the secret; lines 3 and 4, if given, are those of the target (mutual CHAP). The file
    belongs to root and has mode 0600. Its content is never shown, not by C(--diff) either, and never put on a command
    line.
  - The handler reads a secret when it is told to. So after a change it is told (C(iraid config reload)), and logs in with
    the new one from then on, for an hour with the former one if that is refused. If it refuses, the files are put back.
options:
  command:
    description: The iraid command.
    type: str
    default: iraid
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Path of the file. Its folder is made, mode 0700.
        type: path
        required: true
      user:
        description: The user.
        type: str
        required: true
      secret:
        description: The secret.
        type: str
        required: true
      target_user:
        description: The user by which targets prove who they are.
        type: str
      target_secret:
        description: Their secret, another one.
        type: str
author: iraid maintainers
"""

EXAMPLES = r"""
- name: User and secret for the login of volume v0 to its targets
  iraid.iraid.iraid_secrets:
    files:
      - path: /etc/iraid/secrets/v0
        user: gateway1
        secret: "{{ vault_targets_secret }}"
"""

RETURN = r"""
paths:
  description: Files that were written, or would be.
  returned: always
  type: list
  elements: str
"""

import os
import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import files
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Failure, Iraid
from ansible_collections.iraid.iraid.plugins.module_utils.names import secret_text

ARGUMENTS = {
    "command": {"type": "str", "default": "iraid"},
    "files": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "no_log": False,
        "options": {
            "path": {"type": "path", "required": True},
            "user": {"type": "str", "required": True},
            "secret": {"type": "str", "required": True, "no_log": True},
            "target_user": {"type": "str"},
            "target_secret": {"type": "str", "no_log": True},
        },
        "required_together": [("target_user", "target_secret")],
    },
}


def is_right(path, text):
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and stat.S_IMODE(status.st_mode) == 0o600
        and status.st_uid == os.geteuid()
        and path.read_text() == text
    )


def text_of(module, one):
    lines = [what for what in ("user", "secret", "target_user", "target_secret") if one[what] is not None]
    for what in lines:
        try:
            secret_text(one[what])
        except ValueError as error:
            module.fail_json(msg=f"the {what} of {one['path']} {error}: write another one")
    return "".join(f"{one[what]}\n" for what in lines)


def put_back(before):
    """before: what files of these paths held; None: there was none."""
    for path, text in before.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            files.write(path, text)


def tell_handler(module, before):
    try:
        Iraid(module, module.params["command"]).run("config", "reload")
    except Absent:
        pass  # it comes with the packages, and reads them then
    except Failure as failure:
        if failure.kind == "unavailable":  # so does one that is started
            return
        if not before:
            module.warn(failure.text)
            return
        put_back(before)
        module.fail_json(msg=f"the secrets are as they were: {failure.text}", type=failure.kind)


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    wanted = {Path(one["path"]): text_of(module, one) for one in module.params["files"]}
    changed = {path: text for path, text in wanted.items() if not is_right(path, text)}
    before = {path: path.read_text() if path.is_file() else None for path in changed}
    if changed and not module.check_mode:
        for path, text in changed.items():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write(path, text)
    # Also if nothing changed: a run that ended between the files and this would leave the handler with the former secrets.
    if not module.check_mode:
        tell_handler(module, before)
    module.exit_json(changed=bool(changed), paths=[str(path) for path in changed])


if __name__ == "__main__":
    main()
