"""The steps that export and unexport are made of: values that say what to do to LIO, what undoes
each, and how a list of them is carried out: all, or none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iraid.control.errors import IraidError

from .chap import Credentials

GROUP_TAG = 1  # the one portal group of a target


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

    def __str__(self) -> str:
        return f"portal group {GROUP_TAG} of {self.iqn}"


@dataclass(frozen=True)
class SetGroupAttribute:
    iqn: str
    attribute: str
    value: str
    previous: str | None

    def __str__(self) -> str:
        return f"{self.attribute}={self.value} of {self.iqn}"


@dataclass(frozen=True)
class SetGroupParameter:
    iqn: str
    parameter: str
    value: str
    previous: str | None

    def __str__(self) -> str:
        return f"{self.parameter}={self.value} of {self.iqn}"


@dataclass(frozen=True)
class CreateLun:
    iqn: str
    lun: int
    storage: str
    tag: int = GROUP_TAG

    def __str__(self) -> str:
        return f"LUN {self.lun} of {self.iqn}"


@dataclass(frozen=True)
class CreatePortal:
    iqn: str
    portal: Portal

    def __str__(self) -> str:
        return f"portal {self.portal} of {self.iqn}"


@dataclass(frozen=True)
class CreateAcl:
    iqn: str
    initiator: str

    def __str__(self) -> str:
        return f"ACL of {self.initiator} in {self.iqn}"


@dataclass(frozen=True)
class SetCredentials:
    """initiator None: of the portal group, for demo mode."""

    iqn: str
    initiator: str | None
    credentials: Credentials | None
    previous: Credentials | None

    def __str__(self) -> str:
        return f"CHAP of {self.initiator or 'any initiator'} in {self.iqn}"


@dataclass(frozen=True)
class MapLun:
    iqn: str
    initiator: str
    index: int
    lun: int
    read_only: bool = False

    def __str__(self) -> str:
        return f"LUN {self.index} of {self.initiator} in {self.iqn}{', read-only' if self.read_only else ''}"


@dataclass(frozen=True)
class SetReadOnly:
    """Of a LUN that is mapped; its sessions live on."""

    iqn: str
    initiator: str
    index: int
    value: bool

    def __str__(self) -> str:
        return f"LUN {self.index} of {self.initiator} in {self.iqn} {'read-only' if self.value else 'writable'}"


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

    def __str__(self) -> str:
        return f"target {self.iqn} enabled"


@dataclass(frozen=True)
class Delete:
    """Remove what `made` made, with all that is below it."""

    made: CreateStorage | CreateTarget | CreateGroup | CreateLun | CreatePortal | CreateAcl | MapLun

    def __str__(self) -> str:
        return f"{self.made} removed"


@dataclass(frozen=True)
class DisableGroup:
    iqn: str

    def __str__(self) -> str:
        return f"target {self.iqn} disabled"


Step = (
    CreateStorage
    | SetStorageAttribute
    | ResizeStorage
    | CreateTarget
    | CreateGroup
    | SetGroupAttribute
    | SetGroupParameter
    | CreateLun
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
        case SetStorageAttribute(name, attribute, _, previous):
            return None if previous is None else SetStorageAttribute(name, attribute, previous, None)
        case SetGroupAttribute(iqn, attribute, _, previous):
            return None if previous is None else SetGroupAttribute(iqn, attribute, previous, None)
        case SetGroupParameter(iqn, parameter, _, previous):
            return None if previous is None else SetGroupParameter(iqn, parameter, previous, None)
        case SetCredentials(iqn, initiator, _, previous):
            return SetCredentials(iqn, initiator, previous, None)
        case SetDiscovery(_, previous):
            return SetDiscovery(previous, None)
        case SetReadOnly(iqn, initiator, index, value):
            return SetReadOnly(iqn, initiator, index, not value)
        case EnableGroup(iqn):
            return DisableGroup(iqn)
        # What has grown initiators may use already.
        case DisableGroup() | Delete() | ResizeStorage():
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
