"""LIO's saved configuration (saveconfig.json), from which it is restored at boot.

Only what belongs to the export is replaced, and what doesn't run stays.  rtslib's own save_to_file() writes all that
runs: when something could not be restored at boot, that would drop it from the file for good.
"""

import gzip
import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from iraid.control.errors import IraidError

from . import saved_shape

Config = dict[str, Any]
Key = Callable[[Config], Any]


def load(path: Path) -> Config | None:
    """None if there is none.  Raises IraidError if it can't be read or is odd: it is never overwritten then."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IraidError(f"{path}: {error.strerror}", "run the command as root", kind="permission") from error
    try:
        config = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError) as error:  # nested too deeply
        config = error
    if isinstance(config, dict):
        fault = saved_shape.fault(config)
    else:
        fault = str(config) if config else "no object"
    if fault:
        raise IraidError(
            f"{path} is not a saved configuration: {fault}",
            f"repair it from {path.parent}/backup, or use --no-save",
            kind="invalid",
        ) from None
    read: Config = config
    return read


def merge(
    saved: Config | None,
    running: Config,
    storage: Collection[str],
    targets: Collection[str],
    modules: Collection[str] = (),
) -> Config:
    """`saved` with the user storage objects, targets and fabric modules of these names as they run now, and with the
    storage objects those targets need.

    Of what doesn't run, these storage objects and their LUNs in these targets are left out.  All else stays, also in
    these targets: it may be what could not be restored at boot.
    """
    merged = dict(saved or {})
    gone = {_path(name) for name in storage}
    merged["targets"] = _merge_targets(merged.get("targets", []), running.get("targets", []), set(targets), gone)
    needed = {("user", name) for name in storage}
    for target in running.get("targets", ()):
        if target["wwn"] in targets:
            needed |= _storage_of(target)
    used = set().union(*map(_storage_of, merged["targets"]))
    merged["storage_objects"] = _join(
        merged.get("storage_objects", []),
        [s for s in running.get("storage_objects", ()) if _storage_key(s) in needed],
        _storage_key,
        lambda s: _storage_key(s) not in needed or _storage_key(s) in used,
    )
    unknown = "fabric_modules" not in merged
    merged["fabric_modules"] = _join(
        merged.get("fabric_modules", []),
        [m for m in running.get("fabric_modules", ()) if unknown or m.get("name") in modules],
        lambda module: module.get("name"),
        lambda _: True,
    )
    return merged


def displaced(saved: Config | None, running: Config, storage: Collection[str], targets: Collection[str]) -> list[str]:
    """LUNs that merge() would keep but can't, in words: another one runs by their number."""
    gone = {_path(name) for name in storage}
    now = {_target_key(target): target for target in running.get("targets", ())}
    found = []
    for target in (saved or {}).get("targets", ()):
        if target["wwn"] not in targets:
            continue
        groups = {group.get("tag"): _luns(group) for group in now.get(_target_key(target), {}).get("tpgs", ())}
        for group in target.get("tpgs", ()):
            runs = groups.get(group.get("tag"), {})
            found += [
                f"LUN {index} of {target['wwn']} was saved as {path}, which does not run, and is {runs[index]} "
                f"now: {path} is no longer saved as a LUN there"
                for index, path in _luns(group).items()
                if index in runs and path not in gone | set(runs.values())
            ]
    return found


def _path(name: str) -> str:
    return f"/backstores/user/{name}"


def _storage_of(target: Config) -> set[tuple[str, str]]:
    paths = [path for group in target.get("tpgs", ()) for path in _luns(group).values()]
    return {(plugin, name) for _, _, plugin, name in (path.split("/", 3) for path in paths)}


def _luns(group: Config) -> dict[int, str]:
    return {lun["index"]: lun["storage_object"] for lun in group.get("luns", ())}


def _storage_key(storage: Config) -> tuple[str, str]:
    return storage["plugin"], storage["name"]


def _target_key(target: Config) -> tuple[str | None, str]:
    return target.get("fabric"), target["wwn"]


def _join(saved: list[Config], running: list[Config], key: Key, stays: Callable[[Config], bool]) -> list[Config]:
    """All that runs, at its old place where it had one, and of the others those that stay."""
    fresh = {key(entry): entry for entry in running}
    kept = []
    for entry in saved:
        if key(entry) in fresh:
            kept.append(fresh.pop(key(entry)))
        elif stays(entry):
            kept.append(entry)
    return kept + list(fresh.values())


def _merge_targets(saved: list[Config], running: list[Config], names: set[str], gone: set[str]) -> list[Config]:
    now = {_target_key(target): target for target in running if target["wwn"] in names}
    before = [
        _merge_target(target, now.get(_target_key(target), {}), gone) if target["wwn"] in names else target
        for target in saved
    ]
    there = {_target_key(target) for target in saved}
    fresh = [target for key, target in now.items() if key not in there]
    return [target for target in before if target is not None] + fresh


def _merge_target(saved: Config, running: Config, gone: set[str]) -> Config | None:
    """None if it doesn't run, and nothing is left in it."""
    now = {group.get("tag"): group for group in running.get("tpgs", ())}
    groups = [_merge_group(group, now.pop(group.get("tag"), {}), gone) for group in saved.get("tpgs", ())]
    if not running and not any(map(_luns, groups)):
        return None
    return {**(running or saved), "tpgs": groups + list(now.values())}


def _merge_group(saved: Config, running: Config, gone: set[str]) -> Config:
    runs = set(_luns(running).values())

    def portal(entry: Config) -> tuple[str, str]:
        return entry["ip_address"], str(entry["port"])

    lists = {
        "luns": _join(
            saved.get("luns", []),
            running.get("luns", []),
            lambda lun: lun["index"],
            lambda lun: lun["storage_object"] not in gone | runs,
        ),
        "portals": _join(saved.get("portals", []), running.get("portals", []), portal, lambda _: True),
    }
    lists["node_acls"] = _merge_acls(saved, running, _luns(lists))
    return {**(running or saved), **{name: entries for name, entries in lists.items() if name in saved or entries}}


def _merge_acls(saved: Config, running: Config, luns: dict[int, str]) -> list[Config]:
    """luns: of the group, as they will be saved.  A number stays mapped only if it is the same LUN's."""
    before = _luns(saved)
    now = {acl["node_wwn"]: acl for acl in running.get("node_acls", ())}
    merged = []
    for acl in saved.get("node_acls", ()):
        runs = now.pop(acl["node_wwn"], {})
        mapped = {entry["tpg_lun"] for entry in runs.get("mapped_luns", ())}
        entries = _join(
            acl.get("mapped_luns", []),
            runs.get("mapped_luns", []),
            lambda entry: entry["index"],
            lambda entry: (
                entry["tpg_lun"] not in mapped  # noqa: B023 - it is called in this turn
                and luns.get(entry["tpg_lun"]) == before.get(entry["tpg_lun"])
            ),
        )
        merged.append({**(runs or acl), "mapped_luns": entries})
    return merged + list(now.values())


def store(path: Path, config: Config, before: Config | None) -> bool:
    """Write atomically, mode 0600 (it holds secrets), the old one kept as targetcli keeps it.
    False if nothing has changed.
    """
    if config == before:
        return False
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if before is not None:
            _back_up(path)
        _write(path, json.dumps(config, sort_keys=True, indent=2).encode() + b"\n")
    except OSError as error:
        raise IraidError(
            f"{error.filename or path}: {error.strerror}",
            "remove this cause, then run the same command again",
            kind="io",
        ) from error
    return True


def _back_up(path: Path) -> None:
    folder = path.parent / "backup"
    folder.mkdir(mode=0o755, exist_ok=True)
    name = time.strftime("saveconfig-%Y%m%d-%H:%M:%S-json.gz")
    _write(folder / name, gzip.compress(path.read_bytes()))


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.iraid-{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
