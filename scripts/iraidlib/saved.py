"""LIO's saved configuration (saveconfig.json), from which it is restored at boot.

Only what belongs to the export is replaced.  rtslib's own save_to_file() writes all that runs: when
something could not be restored at boot, that would drop it from the file for good.
"""

import gzip
import json
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .errors import IraidError

Config = dict[str, Any]


def load(path: Path) -> Config | None:
    """None if there is none.  Raises IraidError if it can't be read: it is never overwritten then."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IraidError(f"{path}: {error.strerror}", "run the command as root",
                         kind="permission") from error
    try:
        config = json.loads(content) if content.strip() else {}
    except ValueError as error:
        config = error
    if not isinstance(config, dict):
        raise IraidError(f"{path} is not a saved configuration: {config if config else 'no object'}",
                         f"repair it from {path.parent}/backup, or use --no-save",
                         kind="invalid") from None
    return config


def merge(saved: Config | None, running: Config, storage: Collection[str],
          targets: Collection[str]) -> Config:
    """`saved` with the user storage objects and targets of these names as they run now (or without
    them, if they don't run), and with the storage objects those targets need.
    """
    merged = dict(saved or {})
    needed = {("user", name) for name in storage}
    for target in running.get("targets", ()):
        if target["wwn"] in targets:
            needed |= _storage_of(target)
    merged["storage_objects"] = _replace(
        merged.get("storage_objects", []), running.get("storage_objects", []),
        lambda s: (s["plugin"], s["name"]), needed)
    merged["targets"] = _replace(
        merged.get("targets", []), running.get("targets", []), lambda t: t["wwn"], set(targets))
    merged.setdefault("fabric_modules", running.get("fabric_modules", []))
    return merged


def _storage_of(target: Config) -> set[tuple[str, str]]:
    paths = [lun["storage_object"] for group in target["tpgs"] for lun in group["luns"]]
    return {(plugin, name) for _, _, plugin, name in (path.split("/", 3) for path in paths)}


def _replace(saved: list[Config], running: list[Config], key: Any, names: set[Any]) -> list[Config]:
    """Entries of `names` as they run, at their old places where they had one."""
    fresh = {key(entry): entry for entry in running if key(entry) in names}
    kept = []
    for entry in saved:
        if key(entry) not in names:
            kept.append(entry)
        elif key(entry) in fresh:
            kept.append(fresh.pop(key(entry)))
    return kept + list(fresh.values())


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
        raise IraidError(f"{error.filename or path}: {error.strerror}",
                         "the export works, but is lost with a reboot: mend that, then run "
                         "the same command again", kind="io") from error
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
