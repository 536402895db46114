"""A pair of gateways: the same target on both, of which each enables its own portal group.

Both make tpg1 and tpg2 below one IQN, with the same LUNs.  Gateway n has its portals in tpg n and enables it; the other
one stays disabled, so that both tell initiators of the same target port groups (ALUA): number n is that of gateway n.
Which of them serves the volume the handler writes into LIO (handler/adapters/drivers/alua.c), which finds the groups by
their names.  docs/design/tcmu.md, "Two gateways".
"""

from collections.abc import Iterator

from iraid.control.errors import IraidError

from .access import ExportRequest
from .configuration import (
    Dump,
    find_storage,
    find_target,
    luns_of,
    storages_of_volume,
    storage_path,
    targets_of_storage,
)
from .steps import HERE, PEER, CreateAlua, Step

STANDBY = 2  # of alua_access_state
IMPLICIT = 1  # of alua_access_type
NUMBERS = (1, 2)


def peer_of(number: int) -> int:
    return 3 - number


def groups_of(storage: Dump) -> dict[str, int]:
    """Numbers of our target port groups, by name."""
    return {
        group["name"]: int(group.get("tg_pt_gp_id") or 0)
        for group in storage.get("alua_tpgs", ())
        if group.get("name") in (HERE, PEER)
    }


def number_of(storage: Dump) -> int:
    """Which gateway of a pair this is for a storage object; 0: of none."""
    return groups_of(storage).get(HERE, 0)


def group_of(number: int, tag: int) -> str:
    """The target port group of the LUNs of a portal group, on gateway `number`."""
    return HERE if number == tag else PEER


def decide(request: ExportRequest, dump: Dump, saved: Dump) -> int:
    """Which gateway this is for the export, 0 for none.  What is there stays as it is: nobody's paths change by surprise.
    Raises IraidError.
    """
    wanted = request.pair
    for storage in (*storages_of_volume(dump, request.volume), *storages_of_volume(saved, request.volume)):
        there = number_of(storage)
        if there and wanted not in (0, there):
            raise IraidError(
                f"volume {request.volume} is exported here as gateway {there} of a pair, not as gateway {wanted}",
                f"give --pair {there}; or, if the other gateway is to be {there}: iraid unexport {request.volume}, and "
                f"export it with --pair {wanted}",
                kind="in_use",
            )
        if wanted and not there and _is_used(storage, dump, saved):
            raise IraidError(
                f"volume {request.volume} is exported here by a single gateway: its initiators would not learn of a second",
                f"log out on the initiators; iraid unexport {request.volume}; export it with --pair {wanted}",
                kind="in_use",
            )
        wanted = wanted or there
    _check_neighbours(request, wanted, dump, saved)
    return wanted


def _is_used(storage: Dump, *configs: Dump) -> bool:
    return any(targets_of_storage(config, storage["name"]) for config in configs)


def _check_neighbours(request: ExportRequest, number: int, dump: Dump, saved: Dump) -> None:
    """All LUNs of a target are of one pair, for it is the portal group that is enabled."""
    for path, storage in _neighbours(request, dump, saved):
        there = number_of(storage)
        if there == number:
            continue
        is_now = f"gateway {there} of a pair" if there else "no pair of gateways"
        option = f"give --pair {there}" if there else "leave out --pair"
        raise IraidError(
            f"target {request.iqn} has {path}, which is of {is_now}",
            f"export {request.volume} under another --iqn; or {option}",
            kind="in_use",
        )


def _neighbours(request: ExportRequest, *configs: Dump) -> Iterator[tuple[str, Dump]]:
    ours = {storage_path(s["name"]) for config in configs for s in storages_of_volume(config, request.volume)}
    for config in configs:
        for group in (find_target(config, request.iqn) or {}).get("tpgs", ()):
            for path in luns_of(group).values():
                if path not in ours:
                    name = path.rpartition("/")[2]
                    yield path, next((s for one in configs if (s := find_storage(one, name))), Dump())


def is_told(storage: Dump) -> bool:
    """The handler has written which gateway serves the volume: one of the groups is not on standby."""
    groups = [group for group in storage.get("alua_tpgs", ()) if group.get("name") in (HERE, PEER)]
    return any(group.get("alua_access_state") != STANDBY for group in groups)


def plan_groups(number: int, storage: Dump | None, name: str) -> list[Step]:
    there = groups_of(storage or {})
    wanted = {HERE: number, PEER: peer_of(number)}
    return [CreateAlua(name, group, of) for group, of in wanted.items() if group not in there]


def at_rest(dump: Dump) -> Dump:
    """As it is saved: after a boot both groups are on standby until the handler knows who serves the volume, and LUNs
    are made in the order of their portal groups, by which kernels before 6.4 number their ports (later ones number
    enabled groups); initiators are told neither, but the gateway's number.
    """
    targets = [
        {**target, "tpgs": sorted(target.get("tpgs", ()), key=lambda group: int(group.get("tag", 0)))}
        for target in dump.get("targets", ())
    ]
    return {**dump, "storage_objects": [_at_rest(s) for s in dump.get("storage_objects", ())], "targets": targets}


def _at_rest(storage: Dump) -> Dump:
    if not number_of(storage):
        return storage
    groups = [
        {**group, "alua_access_state": STANDBY} if group.get("name") in (HERE, PEER) else group
        for group in storage["alua_tpgs"]
    ]
    return {**storage, "alua_tpgs": groups}
