"""The systems of the silent profile, with target N behind link N."""

from __future__ import annotations

from iraid_dev.bench.core.network import NetworkTargets
from iraid_dev.bench.core.systems import Iraid, Lvm, Md, System


class _OnLinks(System):
    target_kind = NetworkTargets


class IraidOnLinks(_OnLinks, Iraid):
    pass


class MdOnLinks(_OnLinks, Md):
    pass


class LvmOnLinks(_OnLinks, Lvm):
    pass


KINDS: dict[str, type[System]] = {"iraid": IraidOnLinks, "md": MdOnLinks, "lvm": LvmOnLinks}
