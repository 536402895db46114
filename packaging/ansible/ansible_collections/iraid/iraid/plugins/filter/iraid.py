"""Filters of the role iraid: what is wrong with its variables, and what its tasks need of them without secrets.

They run on the controller.  Types and required keys are argument_specs' business; here is what needs more than one
value: how many members a level takes, a device named twice, an entry that names a volume which is not there.  Each text
names the thing, its value, and what to write; none holds a part of a secret.
"""

try:
    from ansible.errors import AnsibleFilterError
except ImportError:  # in tests without Ansible
    AnsibleFilterError = ValueError

from ansible_collections.iraid.iraid.plugins.module_utils import names, pair_plan

MEMBERS = {0: (2, 32), 1: (2, 4), 5: (3, 32), 6: (4, 32), 10: (3, 32)}
DEVICES_MAX = 40
CHUNK_MIN, CHUNK_MAX = 4096, 1 << 20
RATE_MIN = 64 << 10
LOG_LEVELS = (5, 6)
# Keys of a volume's file that are not set there.
OWN_KEYS = {
    "member": "the handler's: write members and spares",
    "uuid": "the handler's: take it out",
    "initiator": "written at creation: write initiator beside settings",
    "chap_file": "the role's: write chap beside settings",
    "sync_rate_min": "iraid set's: write rate_min beside settings",
    "sync_rate_max": "iraid set's: write rate_max beside settings",
    "log": "iraid set's: write log beside settings",
}
# Keys of a volume that are lines of its file.
FILE_KEYS = ("header_digest", "data_digest", "redirects")


class Problems(list):
    def check(self, where, parse, value):
        """What parse makes of the value; None, and a text more, if nothing."""
        try:
            return parse(value)
        except ValueError as error:
            self.append(f"{where}: {error}")
            return None


def gateway_problems(given):
    """given: {volumes, replace, confirm_delete, spares, discovery_chap, pair} as the role's variables have them."""
    problems = Problems()
    _check_chap("iraid_discovery_chap", given["discovery_chap"], problems)
    seen_names, seen_devices = set(), {}
    for index, volume in enumerate(given["volumes"]):
        where = f"iraid_volumes[{index}] ({volume.get('name')})"
        problems.check(f"{where}.name", names.volume_name, volume.get("name"))
        if volume.get("name") in seen_names:
            problems.append(f"{where}.name: '{volume['name']}' occurs twice: write one entry for each volume")
        seen_names.add(volume.get("name"))
        _check_in_pair(where, volume, given.get("pair") or [], problems)
        if volume.get("state") == "absent":
            _check_absent(where, volume, given["confirm_delete"], problems)
            continue
        _check_volume(where, volume, seen_devices, problems)
        _check_export(f"{where}.export", volume.get("export"), problems)
    for index, spare in enumerate(given["spares"]):
        where = f"iraid_gateway_spares[{index}]"
        _check_device(f"{where}.device", spare.get("device"), seen_devices, problems)
        _check_login(where, spare, problems)
    for index, entry in enumerate(given["replace"]):
        where = f"iraid_replace[{index}]"
        if entry.get("volume") not in seen_names:
            problems.append(
                f"{where}.volume: '{entry.get('volume')}' is not in iraid_volumes: it has "
                f"{', '.join(sorted(map(str, seen_names))) or 'none'}"
            )
        for key in ("old", "new"):
            problems.check(f"{where}.{key}", names.member, entry.get(key))
    return list(problems)


def _check_in_pair(where, volume, pair, problems):
    """What one gateway can tell; what needs both: pair_problems() in pair_plan.py."""
    wanted = volume.get("preferred")
    if not pair:
        problems += [
            f"{where}.{key}: '{volume[key]}' is for a pair of gateways, and iraid_pair is empty: write iraid_pair, or remove it"
            for key in ("preferred", "address")
            if volume.get(key)
        ]
        return
    if volume.get("address"):
        problems.check(f"{where}.address", names.interface, volume["address"])
    if wanted and wanted not in pair:
        problems.append(f"{where}.preferred: '{wanted}' is not of this pair: write {' or '.join(map(str, pair))}")
    if volume.get("state") == "stopped":
        problems.append(
            f"{where}.state: a volume of a pair is not stopped by Ansible, for the other gateway may serve it: write started, "
            f"and put it on standby where it is not to run: iraid standby {volume.get('name')}"
        )
    if volume.get("state") == "absent":
        return
    if not volume.get("initiator"):
        problems.append(
            f"{where}.initiator: it is missing: targets tell the gateways of a pair apart by it; give each its own, for "
            "example from a variable of the host"
        )
    export = volume.get("export")
    if export and export.get("state") != "absent" and not export.get("portals") and not volume.get("address"):
        problems.append(
            f"{where}.export.portals: there are none: in a pair each gateway listens on addresses of its own; name them, for "
            "example from a variable of the host"
        )


def _check_absent(where, volume, confirmed, problems):
    if volume.get("name") not in confirmed:
        problems.append(
            f"{where}.state: absent destroys all data of the volume: confirm it with its name "
            f'(-e \'{{"iraid_confirm_delete": ["{volume.get("name")}"]}}\'); to keep the volume, '
            "remove it from iraid_volumes"
        )


def _check_volume(where, volume, seen, problems):
    level, members = int(volume.get("level", 5)), volume.get("members") or []
    spares = volume.get("spares") or []
    least, most = MEMBERS.get(level, (2, 32))
    if not least <= len(members) <= most:
        problems.append(f"{where}.members: there are {len(members)}, but level {level} needs {least} to {most}")
    if len(members) + len(spares) > DEVICES_MAX:
        problems.append(
            f"{where}.spares: {len(members)} members and {len(spares)} spares are more than {DEVICES_MAX} "
            "devices: remove some"
        )
    if spares and level == 0:
        problems.append(f"{where}.spares: level 0 has no redundancy, so a spare can't be filled: remove them")
    for key, devices in (("members", members), ("spares", spares)):
        for number, device in enumerate(devices):
            _check_device(f"{where}.{key}[{number}]", device, seen, problems)
    _check_sizes(where, volume, problems)
    if volume.get("log") in ("degraded", "always") and level not in LOG_LEVELS:
        problems.append(f"{where}.log: {volume['log']} needs level 5 or 6, and this is level {level}: remove it")
    for key in volume.get("settings") or {}:
        if key in OWN_KEYS:
            problems.append(f"{where}.settings.{key}: that line of the file is {OWN_KEYS[key]}")
        elif key in FILE_KEYS and volume.get(key) is not None:
            problems.append(f"{where}.settings.{key}: {key} stands beside settings, too: write it there only")
    _check_login(where, volume, problems)


def _check_device(where, device, seen, problems):
    label = problems.check(where, names.member, device)
    if label is None:
        return
    if label in seen:
        problems.append(f"{where}: '{label}' is {seen[label]} already: name each LUN only once")
    seen.setdefault(label, where)


def _check_sizes(where, volume, problems):
    sizes = {}
    for key in ("chunk", "region_size", "rate_min", "rate_max"):
        if volume.get(key) is not None:
            sizes[key] = problems.check(f"{where}.{key}", names.size, volume[key])
    chunk = sizes.get("chunk")
    if chunk is not None and not (CHUNK_MIN <= chunk <= CHUNK_MAX and chunk & (chunk - 1) == 0):
        problems.append(f"{where}.chunk: {volume['chunk']} is not a power of two between 4K and 1M")
    low, high = sizes.get("rate_min"), sizes.get("rate_max")
    for key, value in (("rate_min", low), ("rate_max", high)):
        if value is not None and value < RATE_MIN:
            problems.append(f"{where}.{key}: {volume[key]} is less than 64K a second: write 64K or more")
    if low is not None and high is not None and low > high:
        problems.append(f"{where}.rate_min: {volume['rate_min']} is more than rate_max {volume['rate_max']}")


def _check_login(where, holder, problems):
    if holder.get("initiator"):
        problems.check(f"{where}.initiator", names.iqn, holder["initiator"])
    _check_chap(f"{where}.chap", holder.get("chap"), problems)


def _check_chap(where, chap, problems):
    if not chap:
        return
    mutual = [key for key in ("target_user", "target_secret") if chap.get(key) is not None]
    for key in ("user", "secret", *mutual):
        problems.check(f"{where}.{key}", names.secret_text, chap.get(key))
    if len(mutual) == 1:
        problems.append(
            f"{where}.{mutual[0]}: mutual CHAP takes target_user and target_secret: write both, or none of them"
        )
    elif mutual and chap["target_secret"] == chap.get("secret"):
        problems.append(f"{where}.target_secret: it is the same as secret: gateway and target need different ones")


def _check_export(where, export, problems):
    if not export or export.get("state") == "absent":
        return
    problems.check(f"{where}.iqn", names.iqn, export.get("iqn"))
    for key, parse in (("portals", names.listen), ("initiators", names.iqn), ("read_only_initiators", names.iqn)):
        for number, value in enumerate(export.get(key) or []):
            problems.check(f"{where}.{key}[{number}]", parse, value)
    if not (export.get("initiators") or export.get("read_only_initiators") or export.get("demo_mode")):
        problems.append(
            f"{where}.initiators: no initiator may use the volume: name the initiators "
            "(/etc/iscsi/initiatorname.iscsi), or write demo_mode: true, which lets any initiator log in"
        )
    if bool(export.get("chap")) == bool(export.get("no_chap")):
        problems.append(
            f"{where}.chap: write either chap, the user and secret of initiators, or no_chap: true, if only those whom "
            "you trust can reach the portals"
        )
    _check_chap(f"{where}.chap", export.get("chap"), problems)


def backend_problems(given):
    """given: {kind, targets, tgt_secrets_shown} as the role's variables have them."""
    problems = Problems()
    seen = set()
    for index, target in enumerate(given["targets"]):
        where = f"iraid_backend_targets[{index}]"
        name = problems.check(f"{where}.iqn", names.iqn, target.get("iqn"))
        if name in seen:
            problems.append(f"{where}.iqn: '{name}' occurs twice: write one entry for each target")
        seen.add(name)
        _check_luns(where, target.get("luns") or [], problems)
        for key, parse in (("portals", names.listen), ("initiators", names.iqn)):
            for number, value in enumerate(target.get(key) or []):
                problems.check(f"{where}.{key}[{number}]", parse, value)
        if not (target.get("initiators") or target.get("addresses") or target.get("open_to_all")):
            problems.append(
                f"{where}.initiators: no initiator may use the target: name the gateways' initiators, or write "
                "open_to_all: true"
            )
        _check_chap(f"{where}.chap", target.get("chap"), problems)
        (_check_tgt if given["kind"] == "tgt" else _check_lio)(where, target, given, problems)
    return list(problems)


def _check_luns(where, luns, problems):
    if not luns:
        problems.append(f"{where}.luns: there are none: give a device, or a file and its size")
    for number, lun in enumerate(luns):
        place = f"{where}.luns[{number}]"
        if bool(lun.get("device")) == bool(lun.get("file")):
            problems.append(f"{place}: give either device, a block device, or file and size")
        elif lun.get("file"):
            problems.check(f"{place}.size", names.size, lun.get("size"))


def _check_lio(where, target, _given, problems):
    if target.get("addresses"):
        problems.append(f"{where}.addresses: LIO admits initiators by name: write initiators")


def _check_tgt(where, target, given, problems):
    if target.get("portals"):
        problems.append(
            f"{where}.portals: tgt listens on all addresses for all of its targets: remove them, and "
            "write addresses, those of the gateways"
        )
    chap = target.get("chap")
    if not chap:
        return
    if not given["tgt_secrets_shown"]:
        problems.append(
            f"{where}.chap: tgt passes secrets to its own tools on their command line, where every user of "
            "the host can see them for a moment, at each start: use iraid_backend_kind: lio, or accept "
            "that with iraid_backend_tgt_secrets_shown: true"
        )
    for key in ("user", "secret", "target_user", "target_secret"):
        if set(" #<>\\$\"'") & set(str(chap.get(key) or "")):
            problems.append(
                f"{where}.chap.{key}: has one of blank # < > \\ $ \" ', which tgt's configuration does not allow: "
                "choose another one"
            )


def volume_arguments(
    volumes, config_dir, replace, confirm_delete, confirm_overwrite, discovery_chap, pair=(), here=None
):
    """Volumes as the tasks loop over them: no secrets, but the names of their files; what is not given is null."""
    arguments = []
    for volume in volumes:
        export = dict(volume.get("export") or {})
        shown = {key: value for key, value in volume.items() if key not in ("chap", "export")}
        shown["chap_file"] = secret_path(config_dir, volume["name"]) if volume.get("chap") else None
        shown["replace"] = [
            {"old": one["old"], "new": one["new"]} for one in replace if one["volume"] == volume["name"]
        ]
        shown["confirm_delete"] = volume["name"] in confirm_delete
        shown["confirm_overwrite"] = volume["name"] in confirm_overwrite
        login = {"chap_file": shown["chap_file"], "initiator": volume.get("initiator")}
        shown["login"] = {key: value for key, value in login.items() if value}
        lines = {key: volume[key] for key in FILE_KEYS if volume.get(key) is not None}
        shown["settings"] = dict(volume.get("settings") or {}) | lines
        export["chap_file"] = export_path(config_dir, volume["name"]) if export.pop("chap", None) else None
        export["discovery_chap_file"] = discovery_path(config_dir) if discovery_chap else None
        # What follows an address is one target port group wherever it is: initiators keep the group's number.
        export["pair"] = pair_plan.number(here, pair) if pair and not volume.get("address") else None
        export["no_reservations"] = bool(pair and volume.get("address"))
        wanted = bool(volume.get("export")) and volume.get("state", "started") == "started"
        gone = volume.get("state") == "absent" or export.get("state") == "absent"
        shown["export"] = export
        shown["export_state"] = "absent" if gone else "present" if wanted else "as it is"
        arguments.append(shown)
    return arguments


def secret_files(volumes, spares, config_dir, discovery_chap):
    """What iraid_secrets is to write.  Only for tasks with no_log."""
    files = []
    for volume in volumes:
        if volume.get("state") == "absent":
            continue
        if volume.get("chap"):
            files.append({"path": secret_path(config_dir, volume["name"]), **volume["chap"]})
        chap = (volume.get("export") or {}).get("chap")
        if chap:
            files.append({"path": export_path(config_dir, volume["name"]), **chap})
    if discovery_chap:
        files.append({"path": discovery_path(config_dir), **discovery_chap})
    for index, spare in enumerate(spares):
        if spare.get("chap"):
            files.append({"path": spare_path(config_dir, index), **spare["chap"]})
    return files


def spare_arguments(spares, config_dir):
    return [
        {
            "device": spare["device"],
            "initiator": spare.get("initiator"),
            "chap_file": spare_path(config_dir, index) if spare.get("chap") else None,
        }
        for index, spare in enumerate(spares)
    ]


def pair_told(volumes, pair):
    """What the other gateway compares with its own; the volumes have no problems of their own."""
    shown = pair_plan.told(volumes)
    for volume in shown:
        if volume.get("initiator"):
            volume["initiator"] = names.iqn(volume["initiator"])
        if (volume.get("export") or {}).get("portals"):
            volume["export"]["portals"] = [names.listen(one) for one in volume["export"]["portals"]]
        if volume.get("address"):
            volume["address"] = "/".join(map(str, names.interface(volume["address"])))
    return {"pair": list(pair), "volumes": shown}


def pair_problems(pair, here, hosts, hostvars):
    """hosts: that play along and have not failed."""
    told_by = {
        host: hostvars[host]["iraid_pair_told"]
        for host in pair
        if host in hosts and host in hostvars and "iraid_pair_told" in hostvars[host]
    }
    return pair_plan.pair_problems(pair, here, told_by)


def _seen_by(pair, hosts, hostvars):
    for host in pair:
        if host not in hosts or "iraid_pair_seen" not in hostvars[host]:
            raise AnsibleFilterError(
                f"{host} does not take part in this play any more: see the first error above; nothing of the volumes of the "
                f"pair {', '.join(pair)} is changed"
            )
    return {host: hostvars[host]["iraid_pair_seen"] for host in pair}


def pair_turns(volumes, pair, hosts, hostvars):
    """{name of a volume: turn()} of all."""
    seen = _seen_by(pair, hosts, hostvars)
    return {volume["name"]: pair_plan.turn(volume, pair, seen) for volume in volumes}


def pair_moves(volumes, pair, hosts, hostvars, chosen, to):
    return pair_plan.moves(volumes, pair, _seen_by(pair, hosts, hostvars), chosen, to)


def pair_unfit(volumes, pair, hosts, hostvars):
    return pair_plan.unfit(volumes, pair, _seen_by(pair, hosts, hostvars))


def pair_preferred(volumes, pair, host):
    """Names of the volumes that this gateway serves if nothing else is said."""
    return [volume["name"] for volume in volumes if pair_plan.preferred(volume, pair) == host]


def pair_unready(volumes, pair, hosts, hostvars):
    return pair_plan.unready(volumes, pair, _seen_by(pair, hosts, hostvars))


def cluster_problems(given):
    """given: {volumes, pair} as the role's variables have them."""
    problems = Problems()
    if len(given["pair"]) != 2:
        problems.append("iraid_pair: a cluster is made of two gateways: write their inventory names")
    seen = {}
    for index, volume in enumerate(given["volumes"]):
        if not volume.get("address"):
            continue
        where = f"iraid_volumes[{index}] ({volume.get('name')}).address"
        address = problems.check(where, names.interface, volume["address"])
        if address and address[0] in seen:
            problems.append(
                f"{where}: {address[0]} is {seen[address[0]]} already: each volume moves alone, so each has its own"
            )
        elif address:
            seen[address[0]] = where
    return list(problems)


def cluster_split(pair, hostvars):
    """Which gateway is not in the cluster of the other one, and what to do: pcs would destroy that one to make another."""
    # a step that failed says nothing of it
    told = {host: hostvars[host] for host in pair if "formed" in hostvars.get(host, {}).get("iraid_cluster_seen", {})}
    inside = [host for host, one in told.items() if one["iraid_cluster_seen"]["formed"]]
    outside = [host for host in told if host not in inside]
    if not inside or not outside:
        return []
    one = told[outside[0]]["iraid_cluster_told"]
    name, addresses = one["name"], " ".join(f"addr={address}" for address in one["addresses"])
    return [
        f"{outside[0]} is not in the cluster of {inside[0]}, which is left alone; on {inside[0]} take it in: "
        f"pcs cluster node remove {name} --force; pcs host auth {name} addr={one['addresses'][0]} -u hacluster; "
        f"pcs cluster node add {name} {addresses} --start --enable; and run this again"
    ]


def cluster_volumes(volumes, pair, hostvars):
    """What Pacemaker is to have, with its own names of nodes."""
    return [
        {
            "name": volume["name"],
            "preferred": hostvars[pair_plan.preferred(volume, pair)]["iraid_cluster_told"]["name"],
            "address": volume.get("address"),
        }
        for volume in volumes
        if volume.get("state") != "absent"
    ]


def secret_path(config_dir, name):
    return f"{config_dir}/secrets/{name}"


def export_path(config_dir, name):
    """No volume has this name: '+' is not allowed there."""
    return f"{config_dir}/secrets/{name}+initiators"


def discovery_path(config_dir):
    return f"{config_dir}/secrets/gateway+discovery"


def spare_path(config_dir, index):
    return f"{config_dir}/secrets/gateway+spare{index}"


class FilterModule:
    def filters(self):
        return {
            "iraid_gateway_problems": gateway_problems,
            "iraid_backend_problems": backend_problems,
            "iraid_volume_arguments": volume_arguments,
            "iraid_secret_files": secret_files,
            "iraid_spare_arguments": spare_arguments,
            "iraid_pair_told": pair_told,
            "iraid_pair_problems": pair_problems,
            "iraid_pair_turns": pair_turns,
            "iraid_pair_moves": pair_moves,
            "iraid_pair_unfit": pair_unfit,
            "iraid_pair_preferred": pair_preferred,
            "iraid_pair_unready": pair_unready,
            "iraid_cluster_problems": cluster_problems,
            "iraid_cluster_split": cluster_split,
            "iraid_cluster_volumes": cluster_volumes,
        }
