"""Who may use a target: what is asked for, what is there, and why it may not be had.

Nobody is let in, or locked out, by surprise: authentication and demo mode are of a whole portal group.
"""

from dataclasses import dataclass

from iraid.control.errors import IraidError

from .chap import Credentials
from .configuration import (
    Dump,
    acls_of,
    credentials_of,
    has_other_luns,
    has_secret,
    is_on,
    luns_of,
)
from .steps import CreateAcl, MapLun, Portal, SetCredentials, Step

LUN_INDEX_MAX = 255  # of a mapped LUN


@dataclass(frozen=True)
class ExportRequest:
    volume: str
    uuid: str
    size_bytes: int
    block_bytes: int
    write_cache: bool
    iqn: str
    portals: tuple[Portal, ...] = ()
    initiators: tuple[str, ...] = ()
    demo_mode: bool = False
    credentials: Credentials | None = None


@dataclass
class Group:
    """The target's portal group, as it runs and as it is saved; empty where it is not."""

    iqn: str
    running: Dump
    saved: Dump
    ours: set[str]  # paths of the volume's storage objects

    @property
    def now(self) -> Dump:
        """Whose settings count."""
        return self.running or self.saved

    @property
    def acls(self) -> dict[str, Dump]:
        return acls_of(self.saved) | acls_of(self.running)

    @property
    def has_secrets(self) -> bool:
        return any(map(has_secret, (self.running, self.saved, *self.acls.values())))

    @property
    def asks_chap(self) -> bool:
        """By somebody's wish: the kernel's default is on, too, so it says nothing where there is no LUN and no secret.
        The secrets may have gone with the initiators that had them.
        """
        is_used = self.has_secrets or self.others or luns_of(self.now)
        return is_on(self.now, "authentication") and bool(is_used)

    @property
    def others(self) -> str:
        """Its other LUNs in words, empty if there are none."""
        if has_other_luns(self.running, self.ours):
            return "other LUNs"
        return "other LUNs, which are saved and do not run," if has_other_luns(self.saved, self.ours) else ""


def check_access(request: ExportRequest, group: Group) -> None:
    if not request.initiators and not request.demo_mode and not acls_of(group.running):
        raise IraidError(
            f"no initiator may use target {request.iqn}: no --acl was given",
            "give --acl INITIATOR for each initiator; its name is in /etc/iscsi/initiatorname.iscsi "
            "(Linux), `iscsicli` (Windows) or the adapter's properties (ESXi); or --demo-mode, which "
            "lets any initiator log in",
            kind="invalid",
        )
    is_open = is_on(group.now, "generate_node_acls")
    if group.others and is_open != request.demo_mode:
        state = "is in demo mode" if is_open else "lets named initiators in only"
        raise IraidError(
            f"target {request.iqn} has {group.others} and {state}", "export under another --iqn", kind="in_use"
        )
    _check_secrets(request, group)


def _check_secrets(request: ExportRequest, group: Group) -> None:
    """CHAP is on or off for a whole portal group: nobody may be locked out, or let in, by surprise."""
    if request.demo_mode:
        _check_demo_secret(request, group)
        return
    if request.credentials is None and group.asks_chap:
        acls = acls_of(group.running)
        without = [i for i in request.initiators if not has_secret(acls.get(i, {}))]
        if without:
            raise IraidError(
                f"target {request.iqn} asks for CHAP, and {without[0]} has no secret",
                "give --chap-file",
                kind="invalid",
            )
    if request.credentials is not None and not is_on(group.now, "authentication"):
        without = [i for i, acl in group.acls.items() if i not in request.initiators and not has_secret(acl)]
        if without:
            raise IraidError(
                f"with --chap-file target {request.iqn} would refuse {without[0]}, which has an ACL and no secret",
                f"give --acl {without[0]}, too",
                kind="invalid",
            )


def _check_demo_secret(request: ExportRequest, group: Group) -> None:
    """All who have no ACL log in by one user and secret, that of the group."""
    asks_chap, there = is_on(group.now, "authentication"), credentials_of(group.now)
    if request.credentials is None:
        was_open = is_on(group.running, "generate_node_acls")
        if group.asks_chap and not was_open and not has_secret(group.running):
            raise IraidError(
                f"target {request.iqn} asks for CHAP, and there is no secret for any initiator",
                "give --chap-file",
                kind="invalid",
            )
    elif group.others and not (asks_chap and there in (None, request.credentials)):
        asks = "another user or secret than those of --chap-file" if asks_chap else "no CHAP"
        stays = group.running or not asks_chap
        remedy = "export without --chap-file, which leaves that as it is" if stays else "give the file of the others"
        raise IraidError(
            f"target {request.iqn} has {group.others} and asks for {asks}",
            f"{remedy}; or export under another --iqn",
            kind="in_use",
        )


def plan_access(request: ExportRequest, group: Group, lun: int) -> list[Step]:
    steps: list[Step] = []
    there = credentials_of(group.running)
    if request.demo_mode and request.credentials not in (None, there):
        steps.append(SetCredentials(request.iqn, None, request.credentials, there))
    acls, saved = acls_of(group.running), acls_of(group.saved)
    for initiator in dict.fromkeys(request.initiators):
        acl = acls.get(initiator, {})
        if not acl:
            steps.append(CreateAcl(request.iqn, initiator))
        before = credentials_of(acl)
        if request.credentials is not None and request.credentials != before:
            steps.append(SetCredentials(request.iqn, initiator, request.credentials, before))
        index = _mapped_index(acl, saved.get(initiator, {}), lun)
        if index is not None:
            steps.append(MapLun(request.iqn, initiator, index, lun))
    return steps


def _mapped_index(acl: Dump, saved: Dump, lun: int) -> int | None:
    """None if it is mapped; else its saved number or the same number if that is free, or the lowest that is."""
    mapped = {m["index"]: m["tpg_lun"] for m in acl.get("mapped_luns", ())}
    if lun in mapped.values():
        return None
    had = [m["index"] for m in saved.get("mapped_luns", ()) if m["tpg_lun"] == lun]
    taken = mapped.keys() | {m["index"] for m in saved.get("mapped_luns", ()) if m["tpg_lun"] != lun}
    free: int | None = next(
        (i for i in (*had, lun, *range(LUN_INDEX_MAX + 1)) if i not in taken and i <= LUN_INDEX_MAX), None
    )
    if free is None:
        raise IraidError(
            f"initiator {acl.get('node_wwn')} has {len(taken)} LUNs, and no number is free", "unmap one", kind="in_use"
        )
    return free
