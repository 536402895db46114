"""Who does what for a volume of two gateways: decisions only, made of what both have said of themselves.

    inventory + what each gateway has --> turn(): who makes, changes, activates it       or `refused`, a text
                                     `--> moves(): which volumes change the gateway      or texts of what is against it

Roles (active, standby) are never changed here for a volume that Pacemaker has.  A volume that is anywhere is never made
again: a gateway that lost its configuration gets the file of the other one.  It runs on the controller, by the filters.
"""

# What may differ between the two: the first is compared as present or not, the others have rules of their own.
SECRETS = ("chap",)
OWN = ("initiator", "portals")


def preferred(volume, pair):
    return volume.get("preferred") or pair[0]


def number(host, pair):
    """As in `iraid export --pair`."""
    return pair.index(host) + 1


# --- both gateways have the same inventory ---


def told(volumes):
    """What a gateway tells the other one of its volumes, without secrets."""
    return [_without_secrets(volume) for volume in volumes]


def _without_secrets(holder):
    shown = {}
    for key, value in holder.items():
        if key in SECRETS:
            shown[key] = "given" if value else "not given"
        else:
            shown[key] = _without_secrets(value) if isinstance(value, dict) else value
    return shown


def pair_problems(pair, here, told_by):
    """told_by: {inventory name: told()} of the gateways that play along.  Texts of what is wrong."""
    if len(pair) != 2 or pair[0] == pair[1]:
        return [f"iraid_pair: {_listed(pair)}: write the inventory names of two gateways, the first one first"]
    if here not in pair:
        return [
            f"iraid_pair: {_listed(pair)} does not name {here}: write it, or give {here} an iraid_pair of its own, or []"
        ]
    absent = [host for host in pair if host not in told_by]
    if absent:
        return [
            f"iraid_pair: {absent[0]} does not take part in this play, or has failed before; a pair is set up together: run "
            "it for both (without --limit, serial, and the strategy free), and see the first error above"
        ]
    first, second = (told_by[host] for host in pair)
    if first["pair"] != second["pair"]:
        return [
            f"iraid_pair: {_listed(first['pair'])} on {pair[0]}, {_listed(second['pair'])} on {pair[1]}: write it once, "
            "for both (group_vars)"
        ]
    return _volume_problems(pair, first["volumes"], second["volumes"])


def _volume_problems(pair, first, second):
    names = [[volume["name"] for volume in volumes] for volumes in (first, second)]
    problems = []
    for host, missing in zip(
        pair, ([n for n in names[1] if n not in names[0]], [n for n in names[0] if n not in names[1]])
    ):
        problems += [
            f"iraid_volumes: {host} has no volume {name}: both gateways have the same volumes; write them once, for both "
            "(group_vars)"
            for name in missing
        ]
    if not problems and names[0] != names[1]:
        problems.append("iraid_volumes: the order of the volumes differs: write them once, for both (group_vars)")
    if problems:
        return problems
    for one, two in zip(first, second):
        where = f"iraid_volumes ({one['name']})"
        problems += _differences(where, pair, one, two)
        if one.get("initiator") and one.get("initiator") == two.get("initiator"):
            problems.append(
                f"{where}.initiator: '{one['initiator']}' on both gateways: targets tell gateways apart by it; give each "
                "its own (host_vars)"
            )
        # Those of a volume whose address moves are not told apart by initiators.
        shared = set() if one.get("address") else _portals(one) & _portals(two)
        problems += [
            f"{where}.export.portals: {portal} on both gateways: each listens on its own address (host_vars)"
            for portal in sorted(shared)
        ]
    return problems


def _portals(volume):
    return {str(one) for one in (volume.get("export") or {}).get("portals") or ()}


def _differences(where, pair, one, two):
    problems = []
    for key in dict.fromkeys((*one, *two)):
        a, b = one.get(key), two.get(key)
        if key in OWN or a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            problems += _differences(f"{where}.{key}", pair, a, b)
            continue
        problems.append(
            f"{where}.{key}: {_shown(a)} on {pair[0]}, {_shown(b)} on {pair[1]}: only initiator and export.portals may "
            "differ; write it once, for both (group_vars)"
        )
    return problems


def _shown(value):
    return "nothing" if value is None else str(value)


def _listed(hosts):
    return "[" + ", ".join(map(str, hosts)) + "]"


# --- what is to be done ---


def turn(volume, pair, seen):
    """seen: {inventory name: {"volumes": {name: None or {uuid, state, role, exported}}, "managed": [names]}} of both.

    {home: who makes and changes it, and has it at the end (null: nobody may), other, create, begin: it is to be
    activated at home first, managed: Pacemaker has it, refused, warning: texts or null}
    """
    name = volume["name"]
    at = {host: seen[host]["volumes"].get(name) for host in pair}
    there = [host for host in pair if at[host]]
    active = [host for host in there if at[host]["role"] == "active"]
    managed = any(name in seen[host]["managed"] for host in pair)
    wanted_at = preferred(volume, pair)
    home = active[0] if active else wanted_at if wanted_at in there or not there else there[0]
    done = {
        "home": home,
        "other": pair[1 - pair.index(home)],
        "create": not there,
        "begin": bool(there) and not active and not managed,
        "managed": managed,
        "refused": _refused(name, volume, pair, at, there, active, managed),
        "warning": None,
    }
    if managed and there and not active and not done["refused"]:
        done["home"] = None
        done["warning"] = (
            f"Pacemaker has volume {name}, and it is active on neither gateway: nothing of it was changed; see pcs status, "
            "and run this again"
        )
    return done


def _refused(name, volume, pair, at, there, active, managed):
    if len({at[host]["uuid"] for host in there}) > 1:
        both = " and ".join(f"{at[host]['uuid']} on {host}" for host in pair)
        return (
            f"volume {name} is {both}: these are two volumes of one name; see which one holds the data (iraid examine), and "
            f"take the other one out of its gateway: iraid delete {name} --no-wipe"
        )
    if len(active) > 1:
        return (
            f"volume {name} says on both gateways that it is active: one of them has been taken over and does not know it "
            "yet; wait until it is on standby (iraid list), and run this again"
        )
    if volume.get("state") == "absent":
        if managed:
            return (
                f"volume {name} is to be deleted, but Pacemaker has it: first take its resource out: see pcs resource, then "
                "pcs resource delete"
            )
        return None
    if managed and not there:
        return (
            f"Pacemaker has volume {name}, and neither gateway knows it: both have lost their configuration, and it is not "
            f"made anew over its data; get it back: iraid import {' '.join(map(str, volume.get('members') or ()))}"
        )
    return None


def moves(volumes, pair, seen, names, to):
    """Of the volumes with these names (none: of all) those that are not active on the gateway `to`.

    Returns {"moves": [{name, from, to, managed}], "refused": [texts]}
    """
    known = [volume["name"] for volume in volumes if volume.get("state") != "absent"]
    if to not in pair:
        return {"moves": [], "refused": [f"iraid_move_to: '{to}' is not of this pair: write {pair[0]} or {pair[1]}"]}
    refused = [
        f"iraid_move: '{name}' is not in iraid_volumes: it has {', '.join(known) or 'none'}"
        for name in names
        if name not in known
    ]
    source, planned = pair[1 - pair.index(to)], []
    for name in [one for one in known if one in names or not names]:
        here, there = (seen[host]["volumes"].get(name) for host in (source, to))
        if there and there["role"] == "active" and not (here and here["role"] == "active"):
            continue
        why = _not_movable(name, source, to, here, there)
        if why:
            refused.append(why)
            continue
        managed = any(name in seen[host]["managed"] for host in pair)
        planned.append({"name": name, "from": source, "to": to, "managed": managed})
    return {"moves": planned, "refused": refused}


def _not_movable(name, source, to, here, there):
    begin = f"volume {name} was not moved to {to}, and stays where it is: "
    if not here and not there:
        return f"{begin}neither gateway has it: run the role for both first"
    if not there:
        return f"{begin}{to} does not know it: run the role for both gateways, which brings it there"
    if not here or here["role"] != "active":
        if there["role"] == "active":
            return None
        state = here["state"] if here else "unknown"
        return f"{begin}it is not active on {source} either ({state}): activate it there first: iraid activate {name}"
    if there["role"] == "active":
        return f"{begin}both say that it is active: wait until one of them is on standby (iraid list)"
    if there["role"] != "standby" or there["state"] != "standby":
        what = there["role"] if there["role"] == "fenced" else there["state"]
        return f"{begin}on {to} it is {what}, not on standby: there: iraid standby {name}"
    if here["exported"] and not there["exported"]:
        return f"{begin}{to} does not export it, so initiators would lose it: run the role for both gateways first"
    return None


def unfit(volumes, pair, seen):
    """Before a gateway is taken out of work: texts of what the pair lacks, none if each may serve all."""
    texts = []
    for volume in volumes:
        name = volume["name"]
        if volume.get("state") == "absent":
            continue
        roles = {host: (seen[host]["volumes"].get(name) or {}) for host in pair}
        active = [host for host in pair if roles[host].get("role") == "active"]
        if len(active) != 1:
            texts.append(f"volume {name} is active on {' and '.join(active) or 'neither gateway'}: iraid list on both")
            continue
        other = pair[1 - pair.index(active[0])]
        now = roles[active[0]]
        if now["health"]["word"] not in ("OK", "WORK"):
            texts.append(f"volume {name} on {active[0]} is {now['health']['word']}: {now['health']['text']}")
        why = _not_movable(name, active[0], other, now, roles[other] or None)
        if why:
            texts.append(why)
    return texts


def unready(volumes, pair, seen):
    """Before Pacemaker gets the volumes, which it may then serve from either gateway: texts of what is missing."""
    texts = []
    for volume in volumes:
        if volume.get("state") == "absent":
            continue
        at = {host: seen[host]["volumes"].get(volume["name"]) for host in pair}
        for host in pair:
            if not at[host]:
                texts.append(f"volume {volume['name']} is not known on {host}: first run the role for both gateways")
            elif not at[host]["exported"] and any(one and one["exported"] for one in at.values()):
                texts.append(f"volume {volume['name']} is not exported by {host}: first run the role for both gateways")
    return texts
