"""LIO as far as export and unexport see it: steps change a dump as they change the kernel's, with its
rules (nothing is made twice, nothing hangs in the air, what is in use can't be removed).
"""

import copy
import dataclasses
from typing import Any

from control_peer import UUID

from iraid.control.errors import IraidError
from iraid.lio import pair, steps
from iraid.lio.configuration import CREDENTIALS, find_group, find_storage, find_target, storage_path
from iraid.lio.access import ExportRequest
from iraid.lio.steps import Portal

IQN = "iqn.2026-01.org.example:v0"
ALICE = "iqn.1993-08.org.debian:01:alice"

# As a kernel 6.1 makes a portal group.
NEW_GROUP = {
    "tag": 1,
    "enable": False,
    "luns": [],
    "portals": [],
    "node_acls": [],
    "attributes": {
        "authentication": 1,
        "generate_node_acls": 0,
        "cache_dynamic_acls": 0,
        "demo_mode_write_protect": 1,
        "demo_mode_discovery": 1,
        "prod_mode_write_protect": 0,
        "default_cmdsn_depth": 64,
    },
    "parameters": {
        "HeaderDigest": "CRC32C,None",
        "DataDigest": "CRC32C,None",
        "InitialR2T": "Yes",
        "ImmediateData": "Yes",
        "MaxRecvDataSegmentLength": "8192",
        "MaxXmitDataSegmentLength": "262144",
        "FirstBurstLength": "65536",
        "MaxBurstLength": "262144",
        "MaxConnections": "1",
    },
}


def request(name="v0", **changes):
    base = ExportRequest(
        volume=name,
        uuid=UUID,
        size_bytes=300 << 30,
        block_bytes=512,
        write_cache=True,
        iqn=IQN,
        portals=(Portal("10.0.0.9", 3260),),
        initiators=(ALICE,),
        no_chap=changes.get("credentials") is None,
    )
    return dataclasses.replace(base, **changes)


def named(prefix, credentials):
    """As rtslib dumps them: what is not set is left out."""
    values = zip(CREDENTIALS, credentials or (), strict=False)
    return {f"{prefix}_{name}": value for name, value in values if value}


class LioModel:
    def __init__(self, fail_at: int | None = None) -> None:
        self.config: dict[str, Any] = {"storage_objects": [], "targets": []}
        self.fail_at = fail_at
        self.applied = 0

    def dump(self) -> dict[str, Any]:
        return copy.deepcopy(self.config)

    def apply(self, step: steps.Step) -> None:
        if self.applied == self.fail_at:
            self.fail_at = None
            raise IraidError(f"LIO refused: {step}", "try again", kind="kernel")
        self.applied += 1
        self._apply(step)

    def _apply(self, step: steps.Step) -> None:
        match step:
            case steps.CreateStorage():
                assert find_storage(self.config, step.name) is None
                self.config["storage_objects"].append(
                    {
                        "plugin": "user",
                        "name": step.name,
                        "config": step.config,
                        "wwn": step.serial,
                        "size": step.size_bytes,
                        "hw_max_sectors": step.hw_max_sectors,
                        "control": step.control,
                        "attributes": {"emulate_write_cache": 0},
                    }
                )
            case steps.SetStorageAttribute(name, attribute, value):
                find_storage(self.config, name)["attributes"][attribute] = int(value)
            case steps.ResizeStorage(name, size_bytes):
                storage = find_storage(self.config, name)
                assert size_bytes > storage["size"]  # the handler refuses to shrink it
                storage["size"] = size_bytes
                if "dev_size" in storage["attributes"]:
                    storage["attributes"]["dev_size"] = size_bytes
            case steps.CreateTarget(iqn):
                assert find_target(self.config, iqn) is None
                self.config["targets"].append({"wwn": iqn, "fabric": "iscsi", "tpgs": []})
            case steps.CreateGroup(iqn, tag):
                assert find_group(self.config, iqn, tag) is None
                find_target(self.config, iqn)["tpgs"].append({**copy.deepcopy(NEW_GROUP), "tag": tag})
            case steps.SetGroupAttribute(iqn, attribute, value, _, tag):
                assert attribute in self.group(iqn, tag)["attributes"]
                self.group(iqn, tag)["attributes"][attribute] = int(value)
            case steps.SetGroupParameter(iqn, parameter, value, _, tag):
                assert parameter in self.group(iqn, tag)["parameters"]
                self.group(iqn, tag)["parameters"][parameter] = value
            case steps.CreateLun(iqn, lun, storage, tag):
                assert find_storage(self.config, storage) is not None
                assert lun not in [other["index"] for other in self.group(iqn, tag)["luns"]]
                self.group(iqn, tag)["luns"].append({"index": lun, "storage_object": storage_path(storage)})
            case steps.CreateAlua(storage, name, number):
                groups = find_storage(self.config, storage).setdefault("alua_tpgs", [])
                assert name not in [group["name"] for group in groups]
                assert number not in [group["tg_pt_gp_id"] for group in groups]
                group = {"name": name, "tg_pt_gp_id": number}
                groups.append({**group, "alua_access_type": pair.IMPLICIT, "alua_access_state": pair.STANDBY})
            case steps.SetAlua(iqn, lun, name, tag):
                (entry,) = (other for other in self.group(iqn, tag)["luns"] if other["index"] == lun)
                storage = find_storage(self.config, entry["storage_object"].rpartition("/")[2])
                assert name in [group["name"] for group in storage["alua_tpgs"]]
                entry["alua_tg_pt_gp_name"] = name
            case steps.CreatePortal(iqn, portal, tag):
                entry = {"ip_address": portal.ip, "port": portal.port}
                assert entry not in self.group(iqn, tag)["portals"]
                self.group(iqn, tag)["portals"].append(entry)
            case steps.CreateAcl(iqn, initiator, tag):
                assert initiator not in self.acls(iqn, tag)
                depth = self.group(iqn, tag)["attributes"]["default_cmdsn_depth"]
                self.group(iqn, tag)["node_acls"].append({"node_wwn": initiator, "mapped_luns": [], "depth": depth})
            case steps.SetCredentials(iqn, initiator, credentials, _, tag):
                holder = self.acls(iqn, tag)[initiator] if initiator else self.group(iqn, tag)
                for name in CREDENTIALS:
                    holder.pop(f"chap_{name}", None)
                holder |= named("chap", credentials)
            case steps.SetDiscovery(credentials):
                self.config.pop("fabric_modules", None)
                if credentials:
                    module = {"name": "iscsi", "discovery_enable_auth": True, **named("discovery", credentials)}
                    self.config["fabric_modules"] = [module]
            case steps.SetReadOnly(iqn, initiator, index, value, tag):
                (entry,) = (m for m in self.acls(iqn, tag)[initiator]["mapped_luns"] if m["index"] == index)
                assert entry["write_protect"] != value
                entry["write_protect"] = value
            case steps.MapLun(iqn, initiator, index, lun, read_only, tag):
                mapped = self.acls(iqn, tag)[initiator]["mapped_luns"]
                assert index not in [m["index"] for m in mapped]
                assert lun in [entry["index"] for entry in self.group(iqn, tag)["luns"]]
                mapped.append({"index": index, "tpg_lun": lun, "write_protect": read_only})
            case steps.EnableGroup(iqn, tag):
                assert self.group(iqn, tag)["portals"]
                self.group(iqn, tag)["enable"] = True
            case steps.DisableGroup(iqn, tag):
                self.group(iqn, tag)["enable"] = False
            case steps.Delete(made):
                self._delete(made)

    def _delete(self, made: Any) -> None:
        match made:
            case steps.CreateStorage():
                path = storage_path(made.name)
                assert not [
                    lun
                    for target in self.config["targets"]
                    for group in target["tpgs"]
                    for lun in group["luns"]
                    if lun["storage_object"] == path
                ]
                self.config["storage_objects"].remove(find_storage(self.config, made.name))
            case steps.CreateAlua(storage, name):
                groups = find_storage(self.config, storage)["alua_tpgs"]
                groups.remove(next(group for group in groups if group["name"] == name))
            case steps.CreateTarget(iqn):
                self.config["targets"].remove(find_target(self.config, iqn))
            case steps.CreateGroup(iqn, tag):
                find_target(self.config, iqn)["tpgs"].remove(self.group(iqn, tag))
            case steps.CreateLun(iqn, lun, _, tag):
                (entry,) = (other for other in self.group(iqn, tag)["luns"] if other["index"] == lun)
                self.group(iqn, tag)["luns"].remove(entry)
                for acl in self.group(iqn, tag)["node_acls"]:
                    acl["mapped_luns"] = [m for m in acl["mapped_luns"] if m["tpg_lun"] != lun]
            case steps.CreatePortal(iqn, portal, tag):
                self.group(iqn, tag)["portals"].remove({"ip_address": portal.ip, "port": portal.port})
            case steps.CreateAcl(iqn, initiator, tag):
                self.group(iqn, tag)["node_acls"].remove(self.acls(iqn, tag)[initiator])
            case steps.MapLun(iqn, initiator, index, tag=tag):
                mapped = self.acls(iqn, tag)[initiator]["mapped_luns"]
                (entry,) = (m for m in mapped if m["index"] == index)
                mapped.remove(entry)
            case _:
                raise AssertionError(f"{made} can't be removed")

    def group(self, iqn: str, tag: int = steps.GROUP_TAG) -> dict[str, Any]:
        return find_group(self.config, iqn, tag)

    def acls(self, iqn: str, tag: int = steps.GROUP_TAG) -> dict[str, dict[str, Any]]:
        return {acl["node_wwn"]: acl for acl in self.group(iqn, tag)["node_acls"]}
