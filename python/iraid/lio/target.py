"""LIO through rtslib-fb: carries out the steps that export_plan.py decides on.  The only file
that knows rtslib; kept thin, since it runs only where the kernel has LIO.

Two things hang in the kernel, uninterruptibly, so they are asked before anything is touched:
making or removing a LUN of tcmu while its runner is dead (check_runner).
"""

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iraid.control.errors import IraidError
from iraid.control.locking import open_lock
from iraid.control.model import Version

from . import access, configuration, export_plan, pair, saved, steps
from .chap import Credentials

RUNNER = "tcmu-runner"
HANDLER_SECONDS = 5.0
NOT_TOLD = (
    "the handler has not told LIO by which gateway initiators should come: see journalctl -u tcmu-runner, and whether "
    "iraid version shows a handler as new as this command"
)
CONFIGFS = Path("/sys/kernel/config")
_KERNEL_REMEDY = (
    "load what LIO needs: modprobe -a configfs target_core_mod target_core_user iscsi_target_mod "
    "(a kernel without them can't export; Debian's linux-image-amd64 has them)"
)


@dataclass
class Exported:
    name: str
    iqn: str
    lun: int
    portals: list[str]
    initiators: list[str]
    read_only: list[str]  # of the initiators, those that may not write to this volume
    demo_mode: bool
    authentication: bool
    mutual_authentication: list[str]  # initiators to which the target proves itself
    discovery_authentication: bool  # of all targets of the gateway
    changes: list[str]
    saved: str | None
    header_digest: str = ""
    data_digest: str = ""
    pair: int = 0  # which gateway of a pair this is; 0: the only one
    reservations: bool = True  # initiators may reserve the LUN
    warnings: list[str] = field(default_factory=list)


@dataclass
class GrownLun:
    storage_object: str
    iqns: list[str]
    before_bytes: int
    size_bytes: int


@dataclass
class GrownLuns:
    luns: list[GrownLun]
    initiators: list[str]  # that are logged in and see the volume
    saved: str | None  # None: it is not saved, or there is nothing of it in the file
    warnings: list[str] = field(default_factory=list)


@dataclass
class Unexported:
    name: str
    iqns: list[str]
    changes: list[str]
    saved: str | None
    warnings: list[str] = field(default_factory=list)


def check_runner(version: Version) -> None:
    """version: what the control socket answered just now."""
    if version.program == RUNNER:
        return
    raise IraidError(
        f"{version.program} (pid {version.pid}) serves the control socket, but only "
        f"{RUNNER} can export volumes through LIO",
        f"end {version.program}, then systemctl start {RUNNER}",
        kind="unavailable",
    )


def check_root(what: str = "LIO's configuration can be changed") -> None:
    if os.geteuid() != 0:
        raise IraidError(f"{what} by root only", "run the command as root", kind="permission")


def export(request: access.ExportRequest, save: bool = True, dry_run: bool = False) -> Exported:
    """dry_run: only `changes` and `warnings` say what would be; the rest is as it is now."""
    with _locked():
        lio = Lio()
        before = saved.load(lio.save_file) if save else None
        running = lio.dump()
        plan = export_plan.plan_export(request, running, before)
        file = None
        if not dry_run:
            plan.warnings += steps.carry_out(plan.steps, lio.apply)
            if plan.pair and not _await_handler(lio, request.volume):
                plan.warnings.append(NOT_TOLD)
            running = lio.dump()
        if save and not dry_run:
            names = _names(request.volume, running, before)
            plan.warnings += saved.displaced(before, running, names, {request.iqn})
            modules = {configuration.FABRIC} if request.discovery else set()
            otherwise = "the export works, but is lost with a reboot"
            file = _save(lio, before, running, names, {request.iqn}, otherwise, modules)
    group = configuration.find_group(running, request.iqn, plan.tag) or {}
    acls = configuration.acls_of(group)
    storage = configuration.storage_of_volume(running, request.volume) or {}
    return Exported(
        name=request.volume,
        iqn=request.iqn,
        lun=plan.lun,
        portals=sorted(f"{p['ip_address']}:{p['port']}" for p in group.get("portals", ())),
        initiators=sorted(acls),
        read_only=sorted(i for i, acl in acls.items() if configuration.mapped_lun(acl, plan.lun).get("write_protect")),
        demo_mode=configuration.is_on(group, "generate_node_acls"),
        authentication=configuration.is_on(group, "authentication"),
        mutual_authentication=sorted(
            i for i, acl in acls.items() if (there := configuration.credentials_of(acl)) and there.mutual_user
        ),
        discovery_authentication=configuration.discovery_of(running) is not None,
        changes=[str(step) for step in plan.steps],
        saved=file,
        header_digest=access.digest_of(group, access.HEADER_DIGEST),
        data_digest=access.digest_of(group, access.DATA_DIGEST),
        pair=plan.pair,
        reservations=str(storage.get("attributes", {}).get("emulate_pr", 1)) != "0",
        warnings=plan.warnings,
    )


def _await_handler(lio: "Lio", volume: str) -> bool:
    """Until the handler has said in LIO who serves the volume, so that initiators who log in now find it."""
    until = time.monotonic() + HANDLER_SECONDS
    while not pair.is_told(configuration.storage_of_volume(lio.dump(), volume) or {}):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def unexport(volume: str, iqn: str | None, force: bool, save: bool = True, dry_run: bool = False) -> Unexported:
    with _locked():
        lio = Lio()
        before = saved.load(lio.save_file) if save else None
        dump = lio.dump()
        plan = export_plan.plan_unexport(volume, iqn, dump, before)
        users = export_plan.users_of(volume, iqn, dump, lio.sessions())
        if users and not force:
            raise IraidError(
                f"volume {volume} is in use by {', '.join(users)}",
                "log out there first (iscsiadm -m node -T IQN -u), or use --force: then their I/O fails",
                kind="busy",
            )
        for step in [] if dry_run else plan.steps:
            lio.apply(step)
        file, warnings = None, []
        if save and not dry_run:
            running, names = lio.dump(), _names(volume, dump, before)
            warnings = saved.displaced(before, running, names, plan.iqns)
            under = f" under {', '.join(plan.iqns)}" if plan.iqns else ""
            file = _save(
                lio,
                before,
                running,
                names,
                set(plan.iqns),
                f"volume {volume} is no longer exported{under}, but would be again after a reboot",
            )
    changes = [*map(str, plan.steps), *plan.unsaved]
    return Unexported(volume, sorted(plan.iqns), changes, file, warnings)


def grow(volume: str, size_bytes: int, save: bool = True) -> GrownLuns:
    """Give the volume's LUNs its size.

    The saved configuration comes first: if it came last, a reboot in between would make a LUN smaller again that
    an initiator has begun to use.  Only what stands in it already is changed there.
    """
    with _locked():
        lio = Lio()
        before = saved.load(lio.save_file) if save else None
        dump = lio.dump()
        storages = configuration.storages_of_volume(dump, volume)
        plan = export_plan.plan_grow(volume, size_bytes, dump)
        kept = {s["name"] for s in configuration.storages_of_volume(before or {}, volume)}
        kept &= {s["name"] for s in storages}
        file = None
        if kept:
            file = _save_sizes(lio, before, export_plan.grown(dump, plan.steps), kept)
        for step in plan.steps:
            lio.apply(step)
        sizes = {s["name"]: s["size"] for s in configuration.storages_of_volume(lio.dump(), volume)}
        initiators = export_plan.users_of(volume, None, dump, lio.sessions())
    luns = [
        GrownLun(s["name"], configuration.targets_of_storage(dump, s["name"]), s["size"], sizes[s["name"]])
        for s in storages
    ]
    return GrownLuns(luns, initiators, file, plan.warnings)


def _names(volume: str, *configs: saved.Config | None) -> set[str]:
    """Of the volume's storage objects in any of the configurations."""
    return {s["name"] for config in configs for s in configuration.storages_of_volume(config or {}, volume)}


def _save(
    lio: "Lio",
    before: saved.Config | None,
    running: saved.Config,
    names: set[str],
    targets: set[str],
    otherwise: str,
    modules: Collection[str] = (),
) -> str | None:
    """otherwise: what is so if it can't be saved."""
    try:
        return lio.save(before, running, names, targets, modules)
    except IraidError as error:
        raise IraidError(f"{error.message}; {otherwise}", error.remedy, kind=error.kind) from error


def _save_sizes(lio: "Lio", before: saved.Config | None, wanted: saved.Config, names: set[str]) -> str | None:
    try:
        return lio.save(before, wanted, names, set())
    except IraidError as error:
        raise IraidError(
            f"{error.message}; the LUN stays as it is, since it would be smaller again after a reboot",
            "remove this cause, then run the same command again; or use --no-save",
            kind=error.kind,
        ) from error


def exported_as(volume: str) -> list[str]:
    """Names of LIO's storage objects that are made of this volume; none where LIO isn't loaded.
    Looks only: loads no module, needs no rtslib.
    """
    wanted = f"Config: {configuration.config_of(volume)} "
    names = []
    for info in CONFIGFS.glob("target/core/user_*/*/info"):
        try:
            text = " ".join(info.read_text(errors="replace").split())
        except OSError:  # it was removed meanwhile
            continue
        if wanted in f"{text} ":
            names.append(info.parent.name)
    return sorted(names)


class Lio:
    """The kernel's configuration.  Raises IraidError where something is missing."""

    def __init__(self) -> None:
        try:
            import rtslib_fb
            import rtslib_fb.root
        except ImportError as error:
            raise IraidError(
                f"rtslib-fb is not installed ({error})", "apt install python3-rtslib-fb", kind="kernel"
            ) from error
        self.rtslib: Any = rtslib_fb
        self.save_file = Path(rtslib_fb.root.default_save_file)
        try:
            self.root = rtslib_fb.RTSRoot()
            self.root.invalidate_caches()
            self.fabric = rtslib_fb.FabricModule("iscsi")
            self.fabric._check_self()  # loads the module; rtslib has no public call for that
        except Exception as error:  # RTSLibError, OSError, kmod's own, UnboundLocalError
            raise IraidError(f"this kernel offers no LIO: {_text(error)}", _KERNEL_REMEDY, kind="kernel") from error
        if not Path("/sys/module/target_core_user").is_dir():
            raise IraidError("this kernel has no TCMU (target_core_user is not loaded)", _KERNEL_REMEDY, kind="kernel")

    def dump(self) -> configuration.Dump:
        try:
            dump: configuration.Dump = self.root.dump()
            return dump
        except (self.rtslib.RTSLibError, OSError) as error:
            raise IraidError(
                f"LIO's configuration can't be read: {_text(error)}",
                "a part of it is incomplete: see targetcli ls",
                kind="kernel",
            ) from error

    def sessions(self) -> dict[str, list[str]]:
        """Initiators that are logged in, by target."""
        found: dict[str, list[str]] = {}
        for target in self.fabric.targets:
            for group in target.tpgs:
                names = [acl.node_wwn for acl in group.node_acls if acl.session]
                dynamic = Path(group.path) / "dynamic_sessions"
                if dynamic.is_file():
                    names += dynamic.read_text().replace("\0", "\n").split()
                found.setdefault(target.wwn, []).extend(names)
        return found

    def save(
        self,
        before: saved.Config | None,
        running: saved.Config,
        storage: set[str],
        targets: set[str],
        modules: Collection[str] = (),
    ) -> str | None:
        merged = saved.merge(before, pair.at_rest(running), storage, targets, modules)
        saved.store(self.save_file, merged, before)
        return str(self.save_file)

    def apply(self, step: steps.Step) -> None:
        try:
            self._apply(step)
        except (self.rtslib.RTSLibError, OSError) as error:
            raise IraidError(f"LIO refused: {step}: {_text(error)}", _remedy(step), kind="kernel") from error

    def _apply(self, step: steps.Step) -> None:
        match step:
            case steps.CreateStorage():
                self.rtslib.UserBackedStorageObject(
                    step.name,
                    config=step.config,
                    size=step.size_bytes,
                    wwn=step.serial,
                    hw_max_sectors=step.hw_max_sectors,
                    control=step.control,
                )
            case steps.SetStorageAttribute(name, attribute, value):
                self._storage(name).set_attribute(attribute, value)
            case steps.ResizeStorage(name, size_bytes):
                self._storage(name).set_attribute("dev_size", str(size_bytes))
            case steps.CreateTarget(iqn):
                self.rtslib.Target(self.fabric, iqn, mode="create")
            case steps.CreateGroup(iqn, tag):
                self.rtslib.TPG(self._target(iqn), tag, mode="create")
            case steps.SetGroupAttribute(iqn, attribute, value, _, tag):
                self._group(iqn, tag).set_attribute(attribute, value)
            case steps.SetGroupParameter(iqn, parameter, value, _, tag):
                self._group(iqn, tag).set_parameter(parameter, value)
            case steps.CreateLun(iqn, lun, storage, tag):
                self.rtslib.LUN(self._group(iqn, tag), lun, storage_object=self._storage(storage))
            case steps.CreateAlua(storage, name, number):
                self._create_alua(storage, name, number)
            case steps.SetAlua(iqn, lun, name, tag):
                self._set_alua(iqn, lun, name, tag)
            case steps.CreatePortal(iqn, portal, tag):
                self.rtslib.NetworkPortal(self._group(iqn, tag), portal.ip, portal.port, mode="create")
            case steps.CreateAcl(iqn, initiator, tag):
                self.rtslib.NodeACL(self._group(iqn, tag), initiator, mode="create")
            case steps.SetCredentials(iqn, initiator, credentials, _, tag):
                group = self._group(iqn, tag)
                _set_credentials(self._acl(iqn, initiator, tag) if initiator else group, credentials)
            case steps.SetDiscovery(credentials):
                _set_discovery(self.fabric, credentials)
            case steps.MapLun(iqn, initiator, index, lun, read_only, tag):
                self.rtslib.MappedLUN(self._acl(iqn, initiator, tag), index, lun, write_protect=read_only)
            case steps.SetReadOnly(iqn, initiator, index, value, tag):
                self.rtslib.MappedLUN(self._acl(iqn, initiator, tag), index).write_protect = value
            case steps.EnableGroup(iqn, tag):
                self._group(iqn, tag).enable = True
            case steps.DisableGroup(iqn, tag):
                self._group(iqn, tag).enable = False
            case steps.Delete(made):
                self._find(made).delete()

    def _create_alua(self, storage: str, name: str, number: int) -> None:
        group = self.rtslib.ALUATargetPortGroup(self._storage(storage), name, number)
        try:
            # STPG is not for initiators: who serves the volume, they don't decide.
            group.alua_access_type = pair.IMPLICIT
            group.alua_access_state = pair.STANDBY
        except BaseException:
            group.delete()
            raise

    def _set_alua(self, iqn: str, lun: int, name: str, tag: int) -> None:
        """rtslib says nothing when the kernel refuses."""
        entry = self.rtslib.LUN(self._group(iqn, tag), lun)
        entry.alua_tg_pt_gp_name = name
        if entry.alua_tg_pt_gp_name != name:
            raise self.rtslib.RTSLibError(f"it stays in {entry.alua_tg_pt_gp_name}")

    def _find(self, made: Any) -> Any:
        match made:
            case steps.CreateStorage():
                return self._storage(made.name)
            case steps.CreateAlua(storage, name):
                return self.rtslib.ALUATargetPortGroup(self._storage(storage), name)
            case steps.CreateTarget(iqn):
                return self._target(iqn)
            case steps.CreateGroup(iqn, tag):
                return self._group(iqn, tag)
            case steps.CreateLun(iqn, lun, _, tag):
                return self.rtslib.LUN(self._group(iqn, tag), lun)
            case steps.CreatePortal(iqn, portal, tag):
                return self.rtslib.NetworkPortal(self._group(iqn, tag), portal.ip, portal.port, mode="lookup")
            case steps.CreateAcl(iqn, initiator, tag):
                return self._acl(iqn, initiator, tag)
            case steps.MapLun(iqn, initiator, index, tag=tag):
                return self.rtslib.MappedLUN(self._acl(iqn, initiator, tag), index)
        raise TypeError(f"{made!r} is nothing that can be removed")

    def _storage(self, name: str) -> Any:
        return self.rtslib.UserBackedStorageObject(name)

    def _target(self, iqn: str) -> Any:
        return self.rtslib.Target(self.fabric, iqn, mode="lookup")

    def _group(self, iqn: str, tag: int = steps.GROUP_TAG) -> Any:
        return self.rtslib.TPG(self._target(iqn), tag, mode="lookup")

    def _acl(self, iqn: str, initiator: str, tag: int) -> Any:
        return self.rtslib.NodeACL(self._group(iqn, tag), initiator, mode="lookup")


def _set_credentials(holder: Any, credentials: Credentials | None) -> None:
    """The kernel asks an initiator to have the target prove itself as long as it has both of the second pair."""
    for name, value in zip(configuration.CREDENTIALS, credentials or ("", "", "", ""), strict=True):
        setattr(holder, f"chap_{name}", value)


def _set_discovery(fabric: Any, credentials: Credentials | None) -> None:
    """Asked for last, so that nobody is asked for a secret that is not there yet."""
    if credentials is None:
        fabric.clear_discovery_auth_settings()
        return
    for name, value in zip(configuration.CREDENTIALS, credentials, strict=True):
        setattr(fabric, f"discovery_{name}", value)
    fabric.discovery_enable_auth = True


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _remedy(step: steps.Step) -> str:
    match step:
        case steps.CreateStorage() | steps.SetStorageAttribute():
            return "see why the handler refused: journalctl -u tcmu-runner; dmesg | tail"
        case steps.ResizeStorage():
            return (
                "see why the handler refused: journalctl -u tcmu-runner; dmesg | tail; then run the same command again"
            )
        case steps.CreatePortal(_, portal):
            return (
                f"is {portal.ip} an address of this machine, and does no other program listen "
                f"there? ss -ltnp 'sport = :{portal.port}'"
            )
    return "see what the kernel says: dmesg | tail"


@contextmanager
def _locked() -> Iterator[None]:
    """One export at a time: each decides by what it finds."""
    folder = Path(os.environ.get("IRAID_RUN_DIR") or "/run/iraid")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open_lock(folder / "export.lock")
    except OSError as error:
        raise IraidError(f"{error.filename}: {error.strerror}", "run the command as root", kind="permission") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
