"""What LIO runs of volumes, as configfs shows it.  Looks only: loads no module, needs no rtslib, waits for nobody."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import configuration, pair
from .chap import Credentials
from .steps import HERE, PEER


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
    pair: int = 0  # which gateway of a pair this is; 0: the only one
    states: dict[str, int] = field(default_factory=dict)  # alua_access_state of iraid_here and iraid_peer
    reservations: bool = True  # initiators may reserve it


@dataclass
class Window:
    """Of commands that a session may send, of the newest that an initiator has."""

    granted: int
    left: int  # without what is in flight, and what resets ended: LIO never gives these places back


@dataclass
class Export:
    """A target with such a storage object, by the portal group that initiators of this gateway use."""

    iqn: str
    group: int = 1
    enabled: bool = True
    luns: dict[int, str] = field(default_factory=dict)  # index -> storage object
    portals: list[str] = field(default_factory=list)
    initiators: list[str] = field(default_factory=list)
    demo_mode: bool = False
    windows: dict[str, Window] = field(default_factory=dict)  # by initiator


@dataclass
class Tree:
    luns: list[Lun] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of all storage objects and targets, volumes' or not


@dataclass
class Difference:
    text: str
    missing: bool = False  # saved, and does not run


def read(root: Path) -> Tree:
    """root: the file system's, so /sys/kernel/config is below it."""
    config = root / "sys/kernel/config/target"
    luns = [lun for info in sorted(config.glob("core/user_*/*/info")) if (lun := _lun(info)) is not None]
    names = {lun.name for lun in luns}
    exports = [export for group in sorted(config.glob("iscsi/*/tpgt_*")) if (export := _export(group, names))]
    objects = {path.parent.name for path in config.glob("core/*_*/*/info")}
    return Tree(luns, exports, objects | {path.parent.name for path in config.glob("*/*/tpgt_*")})


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\0", "").strip()
    except OSError:  # it was removed meanwhile
        return ""


def _lun(info: Path) -> Lun | None:
    words = " ".join(_text(info).split())
    config = re.search(rf"Config: {configuration.HANDLER}/(\S+)", words)
    if config is None:
        return None

    def number(name: str) -> int:
        found = re.search(rf"\b{name}: (\d+)", words)
        return int(found[1]) if found else 0

    groups = {name: info.parent / "alua" / name for name in (HERE, PEER)}
    own = _text(groups[HERE] / "tg_pt_gp_id")
    return Lun(
        info.parent.name,
        config[1],
        number("Size"),
        number("SectorSize"),
        number("HwMaxSectors"),
        number("MaxDataAreaMB"),
        "Status: ACTIVATED" in words,
        int(own) if own.isdigit() else 0,
        {name: int(state) for name, path in groups.items() if (state := _text(path / "alua_access_state")).isdigit()},
        _text(info.parent / "attrib/emulate_pr") != "0",
    )


def _export(group: Path, names: set[str]) -> Export | None:
    luns = {}
    for folder in sorted(group.glob("lun/lun_*")):
        for link in folder.iterdir():
            if link.is_symlink() and (name := link.readlink().name) in names:
                luns[int(folder.name.removeprefix("lun_"))] = name
    if not luns or all(_is_peers(group / f"lun/lun_{index}") for index in luns):
        return None
    return Export(
        group.parent.name,
        int(group.name.removeprefix("tpgt_")),
        _text(group / "enable") != "0",
        luns,
        sorted(path.name for path in group.glob("np/*")),
        sorted(path.name for path in group.glob("acls/*")),
        _text(group / "attrib/generate_node_acls") == "1",
        {acl.name: window for acl in sorted(group.glob("acls/*")) if (window := _window(_text(acl / "info")))},
    )


def _window(info: str) -> Window | None:
    """Two columns of a table, in hexadecimal: CmdSN/WR, granted, and CmdSN/WC, left.  None without a session."""
    found = re.search(r"CmdSN/WR\s*:\s*CmdSN/WC.*\n\s*(0x[0-9a-f]+)\s+(0x[0-9a-f]+)", info)
    return Window(int(found[1], 16), int(found[2], 16)) if found else None


def access(root: Path, export: Export) -> str:
    """Who may log in to a target, and what is to be proven: secrets, so to be digested."""
    group = root / f"sys/kernel/config/target/iscsi/{export.iqn}/tpgt_{export.group}"
    names = ("userid", "password", "userid_mutual", "password_mutual")
    folders = [group / "auth", *(group / "acls" / name / "auth" for name in export.initiators)]
    return "\n".join(
        [_text(group / "attrib/authentication"), *(_text(folder / name) for folder in folders for name in names)]
    )


def _is_peers(lun: Path) -> bool:
    """By a line "TG Port Alias: iraid_peer": it is there for the story that both gateways of a pair tell."""
    return f"Alias: {PEER}\n" in f"{_text(lun / 'alua_tg_pt_gp')}\n"


# --- beside what is saved ---


def differences(saved: dict[str, Any], running: Tree) -> list[Difference]:
    """What a reboot would change of volumes' LUNs, in words."""
    found = []
    objects = _saved_luns(saved)
    there = {lun.name: lun for lun in running.luns}
    for name, lun in sorted(there.items()):
        if name not in objects:
            found.append(Difference(f"LUN {name} is not in it, and would be gone"))
        elif lun.size_bytes and objects[name].get("size") not in (None, lun.size_bytes):
            found.append(Difference(f"LUN {name} has {objects[name]['size']} bytes in it, and {lun.size_bytes} now"))
    found += [Difference(f"LUN {name} is in it, and does not run", True) for name in sorted(set(objects) - set(there))]
    return found + _target_differences(saved, running)


def _saved_luns(saved: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        one["name"]: one
        for one in saved.get("storage_objects", [])
        if one.get("plugin") == configuration.PLUGIN
        and str(one.get("config", "")).startswith(f"{configuration.HANDLER}/")
    }


@dataclass
class _Saved:
    """A target with volumes' LUNs, of the saved configuration."""

    group: dict[str, Any]
    luns: dict[int, str]
    portals: list[str]
    initiators: list[str]


def _saved_targets(saved: dict[str, Any], running: Tree) -> dict[str, _Saved]:
    names = set(_saved_luns(saved)) | {lun.name for lun in running.luns}
    kept = {}
    for target in saved.get("targets", []):
        for group in target.get("tpgs", []):
            luns = {
                lun["index"]: lun["storage_object"].rpartition("/")[2]
                for lun in group.get("luns", [])
                if lun.get("alua_tg_pt_gp_name") != PEER
            }
            if set(luns.values()) & names:
                portals = sorted(f"{_bracketed(one['ip_address'])}:{one['port']}" for one in group.get("portals", []))
                kept[target["wwn"]] = _Saved(
                    group,
                    {i: name for i, name in luns.items() if name in names},
                    portals,
                    sorted(acl["node_wwn"] for acl in group.get("node_acls", [])),
                )
    return kept


def _target_differences(saved: dict[str, Any], running: Tree) -> list[Difference]:
    now = {export.iqn: export for export in running.exports}
    kept = _saved_targets(saved, running)
    found = [Difference(f"target {iqn} is not in it, and would be gone") for iqn in sorted(set(now) - set(kept))]
    found += [Difference(f"target {iqn} is in it, and does not run", True) for iqn in sorted(set(kept) - set(now))]
    for iqn in sorted(set(now) & set(kept)):
        one, other = kept[iqn], now[iqn]
        if one.luns != other.luns:
            found.append(
                Difference(f"target {iqn} has other LUNs in it", not set(one.luns.values()) <= set(other.luns.values()))
            )
        found += [
            Difference(f"target {iqn} has other {what} in it", not set(was) <= set(is_))
            for what, was, is_ in (
                ("portals", one.portals, other.portals),
                ("initiators", one.initiators, other.initiators),
            )
            if was != is_
        ]
    return found


def missing_of_others(saved: dict[str, Any], running: Tree) -> list[str]:
    """What is saved beside volumes' LUNs, and does not run."""
    objects = [one["name"] for one in saved.get("storage_objects", []) if one["name"] not in _saved_luns(saved)]
    ours = _saved_targets(saved, running)
    targets = [
        one["wwn"]
        for one in saved.get("targets", [])
        if one.get("fabric", "iscsi") == "iscsi" and one["wwn"] not in ours
    ]
    return sorted(name for name in (*objects, *targets) if name not in running.names)


def exports_at_rest(saved: dict[str, Any], running: Tree) -> dict[str, list[str]]:
    """By LUN of a pair that is saved with the states of a moment, not on standby: commands that save it anew."""
    told = {name: one for name, one in _saved_luns(saved).items() if pair.number_of(one) and pair.is_told(one)}
    commands: dict[str, list[str]] = {name: [] for name in told}
    for iqn, one in sorted(_saved_targets(saved, running).items()):
        for name in set(one.luns.values()) & set(told):
            volume = told[name]["config"].removeprefix(f"{configuration.HANDLER}/")
            commands[name] += _export_commands(volume, name, iqn, one, pair.number_of(told[name]), runs=True)
    return commands


def exports_again(saved: dict[str, Any], running: Tree) -> list[str]:
    """Commands that bring back what is missing, and leave alone what runs."""
    volumes = {
        name: one["config"].removeprefix(f"{configuration.HANDLER}/") for name, one in _saved_luns(saved).items()
    }
    pairs = {name: pair.number_of(one) for name, one in _saved_luns(saved).items()}
    refusing = {
        name
        for name, one in _saved_luns(saved).items()
        if not pairs[name] and str(one.get("attributes", {}).get("emulate_pr", 1)) == "0"
    }
    there = {lun.name for lun in running.luns}
    now = {export.iqn: export for export in running.exports}
    commands, told = [], set()
    for iqn, one in sorted(_saved_targets(saved, running).items()):
        other = now.get(iqn, Export(iqn))
        whole = set(one.portals) <= set(other.portals) and set(one.initiators) <= set(other.initiators)
        for name in one.luns.values():
            if name in volumes and not (whole and name in there and name in other.luns.values()):
                commands += _export_commands(volumes[name], name, iqn, one, pairs[name], name in refusing)
                told.add(name)
    return commands + [f"iraid export {volumes[name]} --help" for name in sorted(set(volumes) - there - told)]


def _export_commands(
    volume: str, name: str, iqn: str, one: _Saved, number: int, refuses: bool = False, runs: bool = False
) -> list[str]:
    """For those who have that LUN, and no other initiator of its target; those of one secret by one command.

    name: of the storage object.  number: of this gateway in a pair.  refuses: reservations, though it is in none.
    runs: initiators there have the secrets that are saved.
    """
    secret = configuration.is_on(one.group, "authentication")
    numbers = [number for number, storage in one.luns.items() if storage == name]
    who: dict[Credentials | None, list[str]] = {}
    for initiator, acl in sorted(configuration.acls_of(one.group).items()):
        entries = [entry for entry in (configuration.mapped_lun(acl, number) for number in numbers) if entry]
        if entries:
            only_reads = any(entry.get("write_protect") for entry in entries)
            proof = None if runs else configuration.credentials_of(acl)
            who.setdefault(proof, []).append(f"--acl{'-read-only' if only_reads else ''} {initiator}")
    chap = (["--chap-file FILE"] if not runs else []) if secret else ["--no-chap"]
    return [
        " ".join(
            (
                "iraid export",
                volume,
                f"--iqn {iqn}",
                *(f"--portal {portal}" for portal in one.portals),
                *acls,
                *(["--demo-mode"] if configuration.is_on(one.group, "generate_node_acls") else []),
                *([f"--pair {number}"] if number else []),
                *(["--no-reservations"] if refuses else []),
                *chap,
            )
        )
        for acls in list(who.values()) or [[]]
    ]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
