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
    mapped_lun,
)
from .steps import GROUP_TAG, CreateAcl, MapLun, Portal, SetCredentials, SetDiscovery, SetReadOnly, Step

LUN_INDEX_MAX = 255  # of a mapped LUN


# CRC32C between LIO and initiators, as LIO's parameters have it.  An initiator's own wish decides under "preferred".
DIGESTS = {"none": "None", "preferred": "CRC32C,None", "required": "CRC32C"}
HEADER_DIGEST, DATA_DIGEST = "HeaderDigest", "DataDigest"


@dataclass(frozen=True)
class ExportRequest:
    volume: str
    uuid: str
    size_bytes: int
    block_bytes: int
    write_cache: bool
    iqn: str
    portals: tuple[Portal, ...] = ()
    initiators: tuple[str, ...] = ()  # may read and write
    readers: tuple[str, ...] = ()  # may read only
    demo_mode: bool = False
    credentials: Credentials | None = None
    no_chap: bool = False
    discovery: Credentials | None = None  # of the whole gateway
    header_digest: str | None = None  # of DIGESTS; None: as it is
    data_digest: str | None = None
    standby: bool = (
        False  # not active here, so size, blocks and cache are not known: only what is there can be added to
    )
    pair: int = 0  # which gateway of a pair this is, 1 or 2; 0: as it is
    no_reservations: bool = False  # of initiators; they are refused in a pair anyway
    lun: int | None = None  # None: as it is, or the lowest that is free

    @property
    def digests(self) -> dict[str, str]:
        """LIO's parameters that were asked for."""
        wanted = {HEADER_DIGEST: self.header_digest, DATA_DIGEST: self.data_digest}
        return {parameter: DIGESTS[digest] for parameter, digest in wanted.items() if digest is not None}

    @property
    def everybody(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.initiators, *self.readers)))


def digest_of(group: Dump, parameter: str) -> str:
    """In our words, LIO's own where we have none; empty: not known."""
    value = str(group.get("parameters", {}).get(parameter, ""))
    return next((word for word, text in DIGESTS.items() if text == value), value)


@dataclass
class Group:
    """A portal group of the target, as it runs and as it is saved; empty where it is not."""

    iqn: str
    running: Dump
    saved: Dump
    ours: set[str]  # paths of the volume's storage objects
    tag: int = GROUP_TAG

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


def check_access(request: ExportRequest, group: Group, lun: int, discovery: Credentials | None) -> None:
    """lun: its number in the group.  discovery: what discovery asks for now, on the whole gateway."""
    if not request.everybody and not request.demo_mode and not acls_of(group.running):
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
    _check_readers(request, group, lun)
    _check_closed(request, group)
    _check_secrets(request, group)
    if request.discovery is not None:
        _check_mutual(request.discovery, discovery, "discovery", "--discovery-chap-file")


def _check_readers(request: ExportRequest, group: Group, lun: int) -> None:
    """Who may only read does not begin to write because a command is repeated."""
    for initiator in request.initiators:
        if initiator in request.readers:
            raise IraidError(
                f"{initiator} is given by --acl and by --acl-read-only",
                "leave out one of them: --acl lets it write, --acl-read-only does not",
                kind="invalid",
            )
        entry = mapped_lun(group.acls.get(initiator, {}), lun)
        if entry.get("write_protect"):
            raise IraidError(
                f"{initiator} may only read LUN {entry['index']} of {request.iqn}",
                f"give --acl-read-only {initiator}; or to let it write, first targetcli "
                f"/iscsi/{request.iqn}/tpg{group.tag}/acls/{initiator} delete {entry['index']}",
                kind="in_use",
            )


def _check_closed(request: ExportRequest, group: Group) -> None:
    """No CHAP only by somebody's wish; and who does not wish for it does not end it."""
    if request.no_chap and request.credentials is not None:
        raise IraidError(
            "--no-chap and --chap-file were given",
            "leave out one of them: a target asks for CHAP or not",
            kind="invalid",
        )
    if request.no_chap and group.asks_chap:
        raise IraidError(
            f"target {request.iqn} asks for CHAP, and --no-chap does not switch that off",
            "leave out --no-chap; or export under another --iqn; or unexport what is in the target first",
            kind="in_use",
        )
    if request.credentials is None and not request.no_chap and not group.asks_chap:
        raise IraidError(
            f"nothing would prove who logs in to target {request.iqn}: no --chap-file was given",
            "give --chap-file FILE with a user on line 1 and a secret of 12 to 16 characters on line 2, mode 0600; or "
            "--no-chap, if only those whom you trust can reach the portal: names of initiators are no secret",
            kind="invalid",
        )


def _check_mutual(wanted: Credentials, there: Credentials | None, whose: str, option: str) -> None:
    if there is not None and there.mutual_user and not wanted.mutual_user:
        raise IraidError(
            f"{whose} has mutual CHAP, which the file of {option} would end",
            "write the user and secret by which the target proves itself on lines 3 and 4 of the file",
            kind="invalid",
        )


def _check_secrets(request: ExportRequest, group: Group) -> None:
    """CHAP is on or off for a whole portal group: nobody may be locked out, or let in, by surprise."""
    if request.demo_mode:
        _check_demo_secret(request, group)
        return
    if request.credentials is not None:
        for initiator in request.everybody:
            there = credentials_of(group.acls.get(initiator, {}))
            _check_mutual(request.credentials, there, initiator, "--chap-file")
    if request.credentials is None and group.asks_chap:
        acls = acls_of(group.running)
        without = [i for i in request.everybody if not has_secret(acls.get(i, {}))]
        if without:
            raise IraidError(
                f"target {request.iqn} asks for CHAP, and {without[0]} has no secret",
                "give --chap-file",
                kind="invalid",
            )
    if request.credentials is not None and not is_on(group.now, "authentication"):
        without = [i for i, acl in group.acls.items() if i not in request.everybody and not has_secret(acl)]
        if without:
            raise IraidError(
                f"with --chap-file target {request.iqn} would refuse {without[0]}, which has an ACL and no secret",
                f"give --acl {without[0]}, too",
                kind="invalid",
            )


def _check_demo_secret(request: ExportRequest, group: Group) -> None:
    """All who have no ACL log in by one user and secret, that of the group."""
    asks_chap, there = is_on(group.now, "authentication"), credentials_of(group.now)
    if request.credentials is not None:
        _check_mutual(request.credentials, there, "demo mode", "--chap-file")
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


def warnings_of(request: ExportRequest) -> list[str]:
    """What was asked for, and is better not."""
    warnings = [advice for one in (request.credentials, request.discovery) if one for advice in one.advice()]
    if request.demo_mode:
        proof = "that has the secret of --chap-file" if request.credentials else "that reaches a portal"
        warnings.append(
            f"demo mode: EVERY initiator {proof} can log in to {request.iqn}, and read and WRITE; "
            "for more than a trial name initiators by --acl"
        )
    return warnings


def plan_discovery(request: ExportRequest, there: Credentials | None) -> list[Step]:
    """there: what discovery asks for now."""
    return [SetDiscovery(request.discovery, there)] if request.discovery not in (None, there) else []


def plan_access(request: ExportRequest, group: Group, lun: int, like: Dump | None = None) -> list[Step]:
    """like: a portal group that has the secrets which are not given."""
    steps: list[Step] = []
    iqn, tag, known = request.iqn, group.tag, acls_of(like or {})
    there = credentials_of(group.running)
    wanted = request.credentials or credentials_of(like or {})
    if request.demo_mode and wanted not in (None, there):
        steps.append(SetCredentials(iqn, None, wanted, there, tag))
    acls, saved = acls_of(group.running), acls_of(group.saved)
    for initiator in request.everybody:
        acl = acls.get(initiator, {})
        if not acl:
            steps.append(CreateAcl(iqn, initiator, tag))
        before = credentials_of(acl)
        wanted = request.credentials or credentials_of(known.get(initiator, {}))
        if wanted not in (None, before):
            steps.append(SetCredentials(iqn, initiator, wanted, before, tag))
        reads = initiator in request.readers
        index = _mapped_index(acl, saved.get(initiator, {}), lun)
        if index is not None:
            steps.append(MapLun(iqn, initiator, index, lun, reads, tag))
            continue
        entry = mapped_lun(acl, lun)
        if reads and not entry.get("write_protect"):
            steps.append(SetReadOnly(iqn, initiator, entry["index"], True, tag))
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
