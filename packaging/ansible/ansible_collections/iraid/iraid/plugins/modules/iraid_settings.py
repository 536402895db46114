#!/usr/bin/python3
"""Ansible module: set keys in the configuration file of a gateway or of a volume."""

DOCUMENTATION = r"""
---
module: iraid_settings
short_description: Set keys in configuration files of iraid
description:
  - Changes single lines of gateway.conf or of a volume's file. Comments and all other lines stay. The handler then
    applies the changes that are possible during I/O. The new file is checked first (C(iraid config check)); if it has
    a fault, nothing changes.
  - The keys are those of iraid.conf(5).
options:
  volume:
    description: Name of the volume; without it the file of the gateway is changed.
    type: str
  settings:
    description: For a volume, keys; for the gateway, sections with keys. A list makes a line for each entry. null
      removes the key, so that its default applies.
    type: dict
    required: true
  existing_only:
    description: Do nothing where the file is not there yet, as with keys that C(iraid create) writes.
    type: bool
    default: false
  config_dir:
    description: Folder of the files.
    type: path
    default: /etc/iraid
  command:
    description: The iraid command.
    type: str
    default: iraid
author: iraid maintainers
"""

EXAMPLES = r"""
- name: Recipients of events, and the time to wait for a silent member
  iraid.iraid.iraid_settings:
    settings:
      notify:
        mail: [storage@example.org]
      volumes:
        give_up: 8s
"""

RETURN = r"""
pending:
  description: Changes that need more than a reload, each with what to do.
  returned: when something was changed
  type: list
  elements: str
"""

import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iraid.iraid.plugins.module_utils import conf_file, conf_text, files
from ansible_collections.iraid.iraid.plugins.module_utils.command import Absent, Failure, Iraid, run_told
from ansible_collections.iraid.iraid.plugins.module_utils.names import volume_name

ARGUMENTS = {
    "volume": {"type": "str"},
    "settings": {"type": "dict", "required": True},
    "existing_only": {"type": "bool", "default": False},
    "config_dir": {"type": "path", "default": "/etc/iraid"},
    "command": {"type": "str", "default": "iraid"},
}
TRIES_MAX = 10
SECTIONS = ("volumes", "notify", "exporter")  # of the gateway; its spares are the handler's


def wanted_keys(given):
    """(section, key, lines) of each."""
    if given["volume"]:
        sections = {"volume": given["settings"]}
    else:
        sections = given["settings"]
        for section, keys in sections.items():
            if section not in SECTIONS or not isinstance(keys, dict):
                raise ValueError(f"settings.{section}: write keys below {', '.join(SECTIONS)}")
    return [
        (section, key, lines(f"{section}.{key}", value))
        for section, keys in sections.items()
        for key, value in keys.items()
    ]


def lines(where, value):
    if value is None:
        return []
    texts = []
    for one in value if isinstance(value, list) else [value]:
        text = {True: "yes", False: "no"}[one] if isinstance(one, bool) else str(one).strip()
        if not text or "\n" in text:
            raise ValueError(f"settings.{where}: '{one}' is not a value of one line; null removes a key")
        texts.append(text)
    return texts


def without_unwritten(text, sections):
    """In check mode a secrets file may be one that is still to be written: that is no fault."""
    for section in sections:
        if any(not Path(path).exists() for path in conf_text.get_key(text, section, "chap_file")):
            text = conf_text.set_key(text, section, "chap_file", [])
    return text


def check(module, iraid, path, text):
    """Of a copy, so that a fault changes nothing."""
    if module.check_mode:
        text = without_unwritten(text, {"volume", "volumes"})
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name if path.name == "gateway.conf" else Path(folder) / "volumes" / path.name
        copy.parent.mkdir(exist_ok=True)
        files.write(copy, text)
        faults = iraid.run("config", "check", environment={"IRAID_CONFIG_DIR": folder})["faults"]
        if faults:
            module.fail_json(
                msg="; ".join(f"{path}:{one['line']}: {one['key']}: {one['what']}; {one['remedy']}" for one in faults)
            )


def content(path):
    """All that is no "\\n" stays as it is."""
    with path.open(newline="") as file:
        return file.read()


def read(path, volume, check_mode):
    if path.exists():
        return content(path)
    if volume and not check_mode:
        raise ValueError(f"{path} does not exist: see whether there is a volume {volume}: iraid list")
    return ""


def reload(module, iraid, volume):
    try:
        return iraid.run("config", "reload", *([volume] if volume else []))
    except Failure as failure:
        if failure.kind != "unavailable":
            raise
        module.warn(f"no handler runs: the change applies when it is started: {failure.text}")
        return {}


def replace(path, before, text, lock):
    """False: the handler, or somebody else, has changed the file since it was read."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with conf_file.locked(lock):
        if (content(path) if path.exists() else "") != before:
            return False
        conf_file.rewrite(path, text)
    return True


def change(module, iraid, path, volume):
    """The file's text before and after; in check mode it is not written."""
    keys = wanted_keys(module.params)
    lock = conf_file.VOLUMES_LOCK if volume else conf_file.SPARES_LOCK
    for _ in range(TRIES_MAX):
        before = text = read(path, volume, module.check_mode)
        for section, key, values in keys:
            text = conf_text.set_key(text, section, key, values)
        # A new volume's file is not there yet in check mode, and without the command nothing can be checked.
        if text != before and (before or not volume):
            try:
                check(module, iraid, path, text)
            except Absent:
                if not module.check_mode:
                    raise
        if text == before or module.check_mode or replace(path, before, text, lock):
            return before, text
    raise ValueError(
        f"{path} was changed by another program in each of {TRIES_MAX} attempts: see which one (iraid events), "
        "and run this again"
    )


def run(module):
    given = module.params
    volume = volume_name(given["volume"]) if given["volume"] else None
    folder = Path(given["config_dir"])
    path = folder / "volumes" / f"{volume}.conf" if volume else folder / "gateway.conf"
    if given["existing_only"] and not path.exists():
        module.exit_json(changed=False, diff={"before": "", "after": ""}, pending=[])
    iraid = Iraid(module, given["command"])
    before, text = change(module, iraid, path, volume)
    result = {"changed": text != before, "diff": {"before": before, "after": text}, "pending": []}
    if text != before and not module.check_mode:
        reloaded = reload(module, iraid, volume)
        result["pending"] = [
            f"{one['name']}: {change['key']}: {change['remedy']}"
            for one in reloaded.get("volumes", ())
            for change in one.get("pending", ())
        ]
        for text in result["pending"]:
            module.warn(f"not applied yet: volume {text}")
    module.exit_json(**result)


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    run_told(module, run)


if __name__ == "__main__":
    main()
