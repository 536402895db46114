"""What Pacemaker is to have for the volumes of a pair: decisions only, made of its configuration (CIB, an XML text)
and of corosync.conf.

    wanted + CIB --> plan(): commands of pcs, each with a text       or Refused
                        |
                        `-> the module runs them on a copy of the CIB, and pushes the difference at once

    v0-clone    promotable ocf:iraid:volume: promoted on the gateway that serves the volume, on standby on the other
    v0-ip       IPaddr2, where v0-clone is promoted, and not before

The same as docs/operating/pair.md has it.  What is there stays as it is where it does not contradict; nothing is removed
but a preference of ours for the other gateway.  Fencing is switched off only where there is nothing to fence with.  Of the
standard library only.
"""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

# The members fence: a gateway that takes over locks the other one out, so nothing has to be switched off for the data.
PROPERTIES = {"stonith-enabled": "false"}
PROMOTED = ("Promoted", "Master")  # the second one before Pacemaker 2.1
META = ("migration-threshold=3", "failure-timeout=10min")
# Less than the agent's score for the gateway that has the volume: a preference decides where it begins, and moves nothing.
PREFERENCE = 10


class Refused(Exception):
    """The text says what is in the way, and what to do."""


@dataclass(frozen=True)
class Volume:
    name: str
    preferred: str  # name of the node
    address: str = None  # IP
    prefix: int = None


@dataclass(frozen=True)
class Step:
    words: tuple  # of pcs
    text: str


def step(text, *words):
    return Step(tuple(str(word) for word in words), text)


def plan(volumes, cib, properties=None):
    """properties: what is asked for, whatever else the cluster has."""
    root = ElementTree.fromstring(cib)
    steps = _plan_properties((properties or {}) if _can_fence(root) else PROPERTIES | (properties or {}), root)
    for volume in volumes:
        steps += _plan_volume(volume, root)
    return steps


def _can_fence(root):
    """Somebody has given it devices to fence with, perhaps for other resources: that is not ours to switch off."""
    return any(one.get("class") == "stonith" for one in root.iter("primitive"))


def _plan_properties(wanted, root):
    now = {pair.get("name"): pair.get("value") for pair in root.iterfind(".//crm_config/cluster_property_set/nvpair")}
    missing = {name: value for name, value in wanted.items() if now.get(name) != str(value)}
    return [step(f"property {name}: {value}", "property", "set", f"{name}={value}") for name, value in missing.items()]


# --- a volume ---


def _plan_volume(volume, root):
    clone, steps = _clone_of(volume, root), []
    if clone is None:
        clone = f"{volume.name}-clone"
        steps.append(
            step(
                f"resource {clone}, which serves volume {volume.name}",
                *(
                    "resource",
                    "create",
                    volume.name,
                    "ocf:iraid:volume",
                    f"volume={volume.name}",
                    "meta",
                    *META,
                    "promotable",
                ),
            )
        )
    steps += _plan_preference(volume, clone, root)
    if volume.address:
        steps += _plan_address(volume, clone, root)
    return steps


def _clone_of(volume, root):
    """Name of the promotable clone that has the volume, None if there is none.  Raises Refused."""
    for resources in root.iter("resources"):
        for parent in resources.iter():
            for primitive in parent.findall("primitive"):
                if not _is_of(primitive, "iraid", "volume") or _attributes(primitive).get("volume") != volume.name:
                    continue
                if parent.tag != "clone" or _meta(parent).get("promotable") != "true":
                    raise Refused(
                        f"resource {primitive.get('id')} has volume {volume.name}, and is no promotable clone: only one "
                        f"gateway would know the volume; remove it (pcs resource delete {primitive.get('id')}) and run this "
                        "again"
                    )
                return parent.get("id")
    taken = _by_id(root, volume.name)
    if taken is not None or _by_id(root, f"{volume.name}-clone") is not None:
        raise Refused(
            f"there is a resource {volume.name} that is not volume {volume.name}: give one of them another name "
            f"(pcs resource config {volume.name})"
        )
    return None


def _plan_preference(volume, clone, root):
    steps, there = [], False
    for constraint in root.iterfind(".//constraints/rsc_location"):
        node = _preferred_by(constraint) if constraint.get("rsc") == clone else None
        if node == volume.preferred:
            there = True
        elif node is not None:
            steps.append(step(f"{clone} no longer prefers {node}", "constraint", "delete", constraint.get("id")))
    if not there:
        rule = ("rule", "role=Promoted", f"score={PREFERENCE}", "#uname", "eq", volume.preferred)
        steps.append(step(f"{clone} prefers {volume.preferred}", "constraint", "location", clone, *rule))
    return steps


def _preferred_by(constraint):
    """The node that a constraint of our shape prefers for the promoted role; None if it is another one."""
    rules = constraint.findall("rule")
    if len(rules) != 1 or rules[0].get("score") != str(PREFERENCE) or rules[0].get("role") not in PROMOTED:
        return None
    terms = list(rules[0])
    if len(terms) != 1 or (terms[0].get("attribute"), terms[0].get("operation")) != ("#uname", "eq"):
        return None
    return terms[0].get("value")


def _plan_address(volume, clone, root):
    name = f"{volume.name}-ip"
    wanted = {"ip": volume.address, "cidr_netmask": str(volume.prefix)}
    there = _by_id(root, name)
    if there is None:
        steps = [
            step(
                f"resource {name}: address {volume.address}/{volume.prefix} with volume {volume.name}",
                *(
                    "resource",
                    "create",
                    name,
                    "ocf:heartbeat:IPaddr2",
                    *_words(wanted),
                ),
            )
        ]
    elif not _is_of(there, "heartbeat", "IPaddr2"):
        raise Refused(
            f"resource {name} is no address (ocf:heartbeat:IPaddr2), and the address of volume {volume.name} is to have that "
            "name: give it another one"
        )
    else:
        now = _attributes(there)
        other = {key: value for key, value in wanted.items() if now.get(key) != value}
        steps = (
            [step(f"address {volume.address}/{volume.prefix} of {name}", "resource", "update", name, *_words(other))]
            if other
            else []
        )
    if not any(_is_colocation(one, name, clone) for one in root.iterfind(".//constraints/rsc_colocation")):
        steps.append(
            step(
                f"{name} is where {clone} is promoted",
                *("constraint", "colocation", "add", name, "with", "Promoted", clone),
            )
        )
    if not any(_is_order(one, clone, name) for one in root.iterfind(".//constraints/rsc_order")):
        steps.append(step(f"{name} after {clone}", "constraint", "order", "promote", clone, "then", "start", name))
    return steps


def _is_colocation(one, name, clone):
    return (
        (one.get("rsc"), one.get("with-rsc")) == (name, clone)
        and one.get("with-rsc-role") in PROMOTED
        and one.get("score") == "INFINITY"
    )


def _is_order(one, clone, name):
    return (one.get("first"), one.get("then")) == (clone, name) and one.get("first-action") == "promote"


# --- corosync.conf ---


@dataclass(frozen=True)
class Corosync:
    name: str
    nodes: dict  # first address by name


def corosync_of(text):
    """Of a corosync.conf: name of the cluster and its nodes."""
    name, nodes, node = None, {}, None
    for line in text.splitlines():
        words = line.split("#")[0].strip()
        if words.replace(" ", "") == "node{":
            node = {}
        elif words == "}":
            if node:
                nodes[node.get("name", node.get("ring0_addr"))] = node.get("ring0_addr")
            node = None
        elif ":" in words:
            key, value = (word.strip() for word in words.split(":", 1))
            if node is not None:
                node[key] = value
            elif key == "cluster_name":
                name = value
    return Corosync(name, nodes)


def is_formed(name, nodes, text):
    """Whether the host is in the cluster: text of its corosync.conf, "" if there is none.  Raises Refused if it is in
    another one.
    """
    now = corosync_of(text)
    if not text or _is_default(now):
        return False
    if now.name == name and set(nodes) <= set(now.nodes):
        return True
    listed = ", ".join(f"{node} ({address})" for node, address in now.nodes.items())
    raise Refused(
        f"this host is in the cluster '{now.name}' of {listed or 'no nodes'} (/etc/corosync/corosync.conf), not in '{name}' of "
        f"{', '.join(nodes)}: write its name and its names of nodes (iraid_cluster_name, iraid_cluster_node), or take the host "
        "out of it (pcs cluster destroy, which forgets its resources)"
    )


def _is_default(now):
    """As Debian's package has it."""
    return now.name == "debian" and set(now.nodes.values()) <= {"127.0.0.1"}


# --- the CIB ---


def _is_of(primitive, provider, kind):
    return (primitive.get("provider"), primitive.get("type")) == (provider, kind)


def _attributes(holder):
    return {pair.get("name"): pair.get("value") for pair in holder.iterfind("instance_attributes/nvpair")}


def _meta(holder):
    return {pair.get("name"): pair.get("value") for pair in holder.iterfind("meta_attributes/nvpair")}


def _by_id(root, name):
    return next((one for one in root.iterfind(".//resources//*") if one.get("id") == name), None)


def _words(values):
    return [f"{key}={value}" for key, value in values.items()]
