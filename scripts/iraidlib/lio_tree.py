"""What LIO runs of volumes, as configfs shows it.  Looks only: loads no module, needs no rtslib, waits for nobody."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import export_plan


@dataclass
class Lun:
    """A storage object that is made of a volume."""

    name: str
    volume: str
    size_bytes: int = 0
    sector_bytes: int = 0
    transfer_sectors: int = 0  # HwMaxSectors
    data_area_mib: int = 0
    active: bool = True


@dataclass
class Export:
    """A target with such a storage object."""

    iqn: str
    group: int = 1
    enabled: bool = True
    luns: dict[int, str] = field(default_factory=dict)  # index -> storage object
    portals: list[str] = field(default_factory=list)
    initiators: list[str] = field(default_factory=list)
    demo_mode: bool = False


@dataclass
class Tree:
    luns: list[Lun] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)


def read(root: Path) -> Tree:
    """root: the file system's, so /sys/kernel/config is below it."""
    config = root / "sys/kernel/config/target"
    luns = [lun for info in sorted(config.glob("core/user_*/*/info")) if (lun := _lun(info)) is not None]
    names = {lun.name for lun in luns}
    exports = [export for group in sorted(config.glob("iscsi/*/tpgt_*")) if (export := _export(group, names))]
    return Tree(luns, exports)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\0", "").strip()
    except OSError:  # it was removed meanwhile
        return ""


def _lun(info: Path) -> Lun | None:
    words = " ".join(_text(info).split())
    config = re.search(rf"Config: {export_plan.HANDLER}/(\S+)", words)
    if config is None:
        return None

    def number(name: str) -> int:
        found = re.search(rf"\b{name}: (\d+)", words)
        return int(found[1]) if found else 0

    return Lun(info.parent.name, config[1], number("Size"), number("SectorSize"), number("HwMaxSectors"),
               number("MaxDataAreaMB"), "Status: ACTIVATED" in words)


def _export(group: Path, names: set[str]) -> Export | None:
    luns = {}
    for folder in sorted(group.glob("lun/lun_*")):
        for link in folder.iterdir():
            if link.is_symlink() and (name := link.readlink().name) in names:
                luns[int(folder.name.removeprefix("lun_"))] = name
    if not luns:
        return None
    return Export(group.parent.name, int(group.name.removeprefix("tpgt_")), _text(group / "enable") != "0", luns,
                  sorted(path.name for path in group.glob("np/*")), sorted(path.name for path in group.glob("acls/*")),
                  _text(group / "attrib/generate_node_acls") == "1")


# --- beside what is saved ---


def differences(saved: dict[str, Any], running: Tree) -> list[str]:
    """What a reboot would change of volumes' LUNs, in words."""
    found = []
    objects = {one["name"]: one for one in saved.get("storage_objects", []) if one.get("plugin") == export_plan.PLUGIN
               and str(one.get("config", "")).startswith(f"{export_plan.HANDLER}/")}
    there = {lun.name: lun for lun in running.luns}
    for name, lun in sorted(there.items()):
        if name not in objects:
            found.append(f"LUN {name} is not in it, and would be gone")
        elif lun.size_bytes and objects[name].get("size") not in (None, lun.size_bytes):
            found.append(f"LUN {name} has {objects[name]['size']} bytes in it, and {lun.size_bytes} now")
    found += [f"LUN {name} is in it, and does not run" for name in sorted(set(objects) - set(there))]
    return found + _target_differences(saved, running, set(objects) | set(there))


def _target_differences(saved: dict[str, Any], running: Tree, names: set[str]) -> list[str]:
    now = {export.iqn: export for export in running.exports}
    kept = {}
    for target in saved.get("targets", []):
        for group in target.get("tpgs", []):
            luns = {lun["index"]: lun["storage_object"].rpartition("/")[2] for lun in group.get("luns", [])}
            if set(luns.values()) & names:
                kept[target["wwn"]] = (group, {i: name for i, name in luns.items() if name in names})
    found = [f"target {iqn} is not in it, and would be gone" for iqn in sorted(set(now) - set(kept))]
    found += [f"target {iqn} is in it, and does not run" for iqn in sorted(set(kept) - set(now))]
    for iqn in sorted(set(now) & set(kept)):
        group, luns = kept[iqn]
        portals = sorted(f"{_bracketed(one['ip_address'])}:{one['port']}" for one in group.get("portals", []))
        initiators = sorted(acl["node_wwn"] for acl in group.get("node_acls", []))
        found += [f"target {iqn} has other {what} in it"
                  for what, was, is_ in (("LUNs", luns, now[iqn].luns), ("portals", portals, now[iqn].portals),
                                         ("initiators", initiators, now[iqn].initiators)) if was != is_]
    return found


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
