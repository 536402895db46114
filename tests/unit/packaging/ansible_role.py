"""The collection's own Python for tests: importable without Ansible, whose part in modules a stand-in plays.

from ansible_role import ROLE, filters, run_module    # before the next one: it says where ansible_collections is
from ansible_collections.iraid.iraid.plugins.module_utils.conf_text import get_key
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from control_peer import ROOT

COLLECTIONS = ROOT / "packaging/ansible"  # what Ansible calls a collections path
COLLECTION = COLLECTIONS / "ansible_collections/iraid/iraid"
ROLE = COLLECTION / "roles/iraid"


def load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _make_folders_importable() -> None:
    """By hand: another ansible_collections, of a package with Ansible, would come first."""
    folder, name = COLLECTIONS, ""
    for part in "ansible_collections.iraid.iraid.plugins.module_utils".split("."):
        folder, name = folder / part, f"{name}.{part}".lstrip(".")
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(folder)]


_make_folders_importable()


class Ended(Exception):
    """exit_json or fail_json was called."""

    def __init__(self, result: dict[str, Any]):
        super().__init__(result.get("msg"))
        self.result = result


def _with_defaults(spec: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    assert set(given) <= set(spec), set(given) - set(spec)
    values = {}
    for name, one in spec.items():
        value = given.get(name, one.get("default"))
        assert value is not None or not one.get("required"), name
        if one.get("options"):
            value = [_with_defaults(one["options"], entry) for entry in value or ()]
        values[name] = value
    return values


class StandInModule:
    """What the modules use of AnsibleModule."""

    def __init__(self, argument_spec: dict[str, Any], supports_check_mode: bool, **_rules: Any) -> None:
        assert supports_check_mode
        self.params = _with_defaults(argument_spec, self.given)
        self.warnings: list[str] = []

    given: dict[str, Any]
    check_mode: bool
    programs: Path | None

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def get_bin_path(self, program: str, opt_dirs: list[str]) -> str | None:
        assert opt_dirs
        path = self.programs / program if self.programs else Path(program)
        return str(path) if path.exists() else None

    def run_command(
        self, words: list[str], environ_update: dict[str, str] | None = None, data: str | None = None
    ) -> tuple[int, str, str]:
        done = subprocess.run(
            words,
            input=data or "",
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | (environ_update or {}),
        )
        return done.returncode, done.stdout, done.stderr

    def exit_json(self, **result: Any) -> None:
        raise Ended(result | {"warnings": self.warnings})

    def fail_json(self, **result: Any) -> None:
        raise Ended(result | {"failed": True, "warnings": self.warnings})


def load_module(name: str) -> types.ModuleType:
    stand_in = types.ModuleType("ansible.module_utils.basic")
    stand_in.AnsibleModule = StandInModule  # type: ignore[attr-defined]
    made = {
        "ansible": types.ModuleType("ansible"),
        "ansible.module_utils": types.ModuleType("ansible.module_utils"),
        "ansible.module_utils.basic": stand_in,
    }
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        return load(COLLECTION / f"plugins/modules/{name}.py")
    finally:
        for known, module in before.items():
            if module is None:
                del sys.modules[known]
            else:
                sys.modules[known] = module


def run_module(
    name: str, given: dict[str, Any], check_mode: bool = False, programs: Path | None = None
) -> dict[str, Any]:
    """What the module answers Ansible.  programs: a folder in the place of PATH."""
    module = load_module(name)
    StandInModule.given, StandInModule.check_mode, StandInModule.programs = given, check_mode, programs
    try:
        module.main()
    except Ended as ended:
        return ended.result
    raise AssertionError(f"{name} ended without an answer")


filters = load(COLLECTION / "plugins/filter/iraid.py")
