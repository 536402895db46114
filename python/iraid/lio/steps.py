"""The steps that export and unexport are made of: values that say what to do to LIO, what undoes
each, and how a list of them is carried out: all, or none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iraid.control.errors import IraidError

from .chap import Credentials

GROUP_TAG = 1  # the portal group of a target; of a pair of gateways there are two, tagged 1 and 2

# Target port groups of a storage object (ALUA), which the handler looks for by these names: the portal group of this
# gateway of a pair, and that of the other.
HERE, PEER = "iraid_here", "iraid_peer"


def _where(iqn: str, tag: int) -> str:
    return iqn if tag == GROUP_TAG else f"{iqn} (tpg{tag})"


@dataclass(frozen=True)
class Portal:
    ip: str  # IPv6 in brackets, as LIO wants it
    port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}"


@dataclass(frozen=True)
class CreateStorage:
    name: str
    config: str
    size_bytes: int
    serial: str
    hw_max_sectors: int
    control: str

    def __str__(self) -> str:
        return f"storage object {self.name}"


@dataclass(frozen=True)
class SetStorageAttribute:
    name: str
    attribute: str
    value: str
    previous: str | None

    def __str__(self) -> str:
        return f"{self.attribute}={self.value} of storage object {self.name}"


@dataclass(frozen=True)
class ResizeStorage:
    name: str
    size_bytes: int

    def __str__(self) -> str:
        return f"storage object {self.name} of {self.size_bytes} bytes"


@dataclass(frozen=True)
class CreateTarget:
    iqn: str

    def __str__(self) -> str:
        return f"target {self.iqn}"


@dataclass(frozen=True)
class CreateGroup:
    iqn: str
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"portal group {self.tag} of {self.iqn}"


@dataclass(frozen=True)
class SetGroupAttribute:
    iqn: str
    attribute: str
    value: str
    previous: str | None
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"{self.attribute}={self.value} of {_where(self.iqn, self.tag)}"


@dataclass(frozen=True)
class SetGroupParameter:
    iqn: str
    parameter: str
    value: str
    previous: str | None
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"{self.parameter}={self.value} of {_where(self.iqn, self.tag)}"


@dataclass(frozen=True)
class CreateLun:
    iqn: str
    lun: int
    storage: str
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"LUN {self.lun} of {_where(self.iqn, self.tag)}"


@dataclass(frozen=True)
class CreateAlua:
    """A target port group of a storage object, on standby until the handler says who serves the volume."""

    storage: str
    name: str
    number: int

    def __str__(self) -> str:
        return f"target port group {self.number} ({self.name}) of storage object {self.storage}"


@dataclass(frozen=True)
class SetAlua:
    """Which target port group a LUN is in; it leaves the group with the LUN."""

    iqn: str
    lun: int
    name: str
    tag: int

    def __str__(self) -> str:
        return f"LUN {self.lun} of {_where(self.iqn, self.tag)} in target port group {self.name}"


@dataclass(frozen=True)
class CreatePortal:
    iqn: str
    portal: Portal
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"portal {self.portal} of {_where(self.iqn, self.tag)}"


@dataclass(frozen=True)
class CreateAcl:
    iqn: str
    initiator: str
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"ACL of {self.initiator} in {_where(self.iqn, self.tag)}"


@dataclass(frozen=True)
class SetCredentials:
    """initiator None: of the portal group, for demo mode."""

    iqn: str
    initiator: str | None
    credentials: Credentials | None
    previous: Credentials | None
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"CHAP of {self.initiator or 'any initiator'} in {_where(self.iqn, self.tag)}"


@dataclass(frozen=True)
class MapLun:
    iqn: str
    initiator: str
    index: int
    lun: int
    read_only: bool = False
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        read_only = ", read-only" if self.read_only else ""
        return f"LUN {self.index} of {self.initiator} in {_where(self.iqn, self.tag)}{read_only}"


@dataclass(frozen=True)
class SetReadOnly:
    """Of a LUN that is mapped; its sessions live on."""

    iqn: str
    initiator: str
    index: int
    value: bool
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        access = "read-only" if self.value else "writable"
        return f"LUN {self.index} of {self.initiator} in {_where(self.iqn, self.tag)} {access}"


@dataclass(frozen=True)
class SetDiscovery:
    """What discovery asks for, of all targets of the gateway."""

    credentials: Credentials | None
    previous: Credentials | None

    def __str__(self) -> str:
        return "CHAP of discovery, of all targets"


@dataclass(frozen=True)
class EnableGroup:
    iqn: str
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"target {_where(self.iqn, self.tag)} enabled"


@dataclass(frozen=True)
class Delete:
    """Remove what `made` made, with all that is below it."""

    made: CreateStorage | CreateAlua | CreateTarget | CreateGroup | CreateLun | CreatePortal | CreateAcl | MapLun

    def __str__(self) -> str:
        return f"{self.made} removed"


@dataclass(frozen=True)
class DisableGroup:
    iqn: str
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"target {_where(self.iqn, self.tag)} disabled"


Step = (
    CreateStorage
    | SetStorageAttribute
    | ResizeStorage
    | CreateTarget
    | CreateGroup
    | SetGroupAttribute
    | SetGroupParameter
    | CreateLun
    | CreateAlua
    | SetAlua
    | CreatePortal
    | CreateAcl
    | SetCredentials
    | SetDiscovery
    | MapLun
    | SetReadOnly
    | EnableGroup
    | DisableGroup
    | Delete
)


def inverse(step: Step) -> Step | None:
    """What undoes a step that has been done; None where nothing can or need be."""
    match step:
        case CreateStorage() | CreateTarget() | CreateGroup() | CreateLun() | CreatePortal() | CreateAcl() | MapLun():
            return Delete(step)
        case CreateAlua():
            return Delete(step)
        case SetStorageAttribute(name, attribute, _, previous):
            return None if previous is None else SetStorageAttribute(name, attribute, previous, None)
        case SetGroupAttribute(iqn, attribute, _, previous, tag):
            return None if previous is None else SetGroupAttribute(iqn, attribute, previous, None, tag)
        case SetGroupParameter(iqn, parameter, _, previous, tag):
            return None if previous is None else SetGroupParameter(iqn, parameter, previous, None, tag)
        case SetCredentials(iqn, initiator, _, previous, tag):
            return SetCredentials(iqn, initiator, previous, None, tag)
        case SetDiscovery(_, previous):
            return SetDiscovery(previous, None)
        case SetReadOnly(iqn, initiator, index, value, tag):
            return SetReadOnly(iqn, initiator, index, not value, tag)
        case EnableGroup(iqn, tag):
            return DisableGroup(iqn, tag)
        # What has grown initiators may use already.  A LUN leaves its target port group with either of them.
        case DisableGroup() | Delete() | ResizeStorage() | SetAlua():
            return None


Apply = Callable[[Step], None]


def carry_out(steps: Sequence[Step], apply: Apply) -> list[str]:
    """Apply the steps in order.  When one fails, or the user interrupts, those before it are undone
    in reverse, and the error is raised with what could not be undone, if anything.

    Returns warnings: an attribute of the storage object that the handler doesn't take is one, since
    it is the handler that answers initiators, not the kernel.
    """
    done: list[Step] = []
    warnings: list[str] = []
    try:
        for step in steps:
            try:
                apply(step)
            except IraidError as error:
                if not isinstance(step, SetStorageAttribute):
                    raise
                warnings.append(error.message)
                continue
            done.append(step)
    except BaseException as error:
        left = _undo(done, apply)
        if not left:
            raise
        message = error.message if isinstance(error, IraidError) else repr(error)
        raise IraidError(
            f"{message}; these earlier steps could not be undone: {'; '.join(left)}",
            "see targetcli ls, and remove them there",
            kind="kernel",
        ) from error
    return warnings


def _undo(done: Sequence[Step], apply: Apply) -> list[str]:
    left = []
    for step in reversed(done):
        undo = inverse(step)
        if undo is None:
            continue
        try:
            apply(undo)
        except Exception as error:  # noqa: BLE001 - the others must be undone whatever this was
            left.append(f"{step} ({error})")
    return left
