"""LIO's configuration as rtslib dumps it (RTSRoot().dump(), the form of saveconfig.json): where in it what stands."""

from typing import Any

from .chap import Credentials
from .steps import GROUP_TAG

Dump = dict[str, Any]

HANDLER = "iraid"  # the runner's subtype: config strings are iraid/NAME
PLUGIN = "user"
FABRIC = "iscsi"
CREDENTIALS = ("userid", "password", "mutual_userid", "mutual_password")  # as rtslib names them


def find_target(dump: Dump, iqn: str) -> Dump | None:
    return next((t for t in dump.get("targets", ()) if t.get("fabric") == "iscsi" and t["wwn"] == iqn), None)


def find_group(dump: Dump, iqn: str, tag: int = GROUP_TAG) -> Dump | None:
    groups = (find_target(dump, iqn) or {}).get("tpgs", ())
    return next((group for group in groups if group.get("tag") == tag), None)


def find_storage(dump: Dump, name: str) -> Dump | None:
    """The storage object of any runner's handler with this name."""
    return next((s for s in dump.get("storage_objects", ()) if s["plugin"] == PLUGIN and s["name"] == name), None)


def storages_of_volume(dump: Dump, volume: str) -> list[Dump]:
    """Whatever their names: made by targetcli one may have a name of its own, and there may be several."""
    wanted = config_of(volume)
    return [s for s in dump.get("storage_objects", ()) if s["plugin"] == PLUGIN and s.get("config") == wanted]


def storage_of_volume(dump: Dump, volume: str) -> Dump | None:
    return next(iter(storages_of_volume(dump, volume)), None)


def config_of(volume: str) -> str:
    return f"{HANDLER}/{volume}"


def storage_path(name: str) -> str:
    return f"/backstores/{PLUGIN}/{name}"


def targets_of_storage(dump: Dump, name: str) -> list[str]:
    """IQNs under which it is exported, in the dump's order."""
    path = storage_path(name)
    return [
        t["wwn"]
        for t in dump.get("targets", ())
        if any(lun["storage_object"] == path for g in t.get("tpgs", ()) for lun in g.get("luns", ()))
    ]


def targets_of_volume(dump: Dump, volume: str) -> list[str]:
    """IQNs of all of its storage objects, each once."""
    return list(
        dict.fromkeys(
            iqn for storage in storages_of_volume(dump, volume) for iqn in targets_of_storage(dump, storage["name"])
        )
    )


def acls_of(group: Dump) -> dict[str, Dump]:
    return {acl["node_wwn"]: acl for acl in group.get("node_acls", ())}


def has_secret(holder: Dump) -> bool:
    return bool(holder.get("chap_userid") and holder.get("chap_password"))


def credentials_of(holder: Dump) -> Credentials | None:
    if not has_secret(holder):
        return None
    return Credentials(
        holder["chap_userid"],
        holder["chap_password"],
        holder.get("chap_mutual_userid") or "",
        holder.get("chap_mutual_password") or "",
    )


def discovery_of(dump: Dump) -> Credentials | None:
    """What discovery asks for, which is of the whole gateway; None if it asks for nothing."""
    module: Dump = next((m for m in dump.get("fabric_modules", ()) if m.get("name") == FABRIC), {})
    if not module.get("discovery_enable_auth"):
        return None
    return Credentials(*(module.get(f"discovery_{name}") or "" for name in CREDENTIALS))


def mapped_lun(acl: Dump, lun: int) -> Dump:
    """The entry by which an ACL shows a LUN of the group, empty if it does not."""
    return next((entry for entry in acl.get("mapped_luns", ()) if entry["tpg_lun"] == lun), {})


def luns_of(group: Dump) -> dict[int, str]:
    return {lun["index"]: lun["storage_object"] for lun in group.get("luns", ())}


def alua_of(group: Dump, lun: int) -> str | None:
    """The target port group that a LUN of the portal group is in."""
    return next((entry.get("alua_tg_pt_gp_name") for entry in group.get("luns", ()) if entry["index"] == lun), None)


def has_other_luns(group: Dump, ours: set[str]) -> bool:
    return any(path not in ours for path in luns_of(group).values())


def is_on(group: Dump, attribute: str) -> bool:
    return str(group.get("attributes", {}).get(attribute, 0)) == "1"
