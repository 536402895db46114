"""What the silent profile measures: the longest command while one of four targets, level 5, is silent and comes back.

Nothing is refused or closed: packets of its link are lost, as behind a switch that reloads.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from iraid_dev.bench.core import plan
from iraid_dev.bench.core.cells import KIB, Cell, Shape, ValueFault

SHAPE = Shape(5, 4)
SILENT = 2  # the target
IMPATIENT = {  # our choice: open-iscsi's README advises shorter ones below multipath, too
    "node.session.timeo.replacement_timeout": "5",
    "node.conn[0].timeo.noop_out_interval": "2",
    "node.conn[0].timeo.noop_out_timeout": "2",
}
SYSTEMS = {
    "iraid": "iraid, as `iraid create` makes it",
    "md": "md with its bitmap over open-iscsi, with open-iscsi's defaults",
    "md-impatient": "the same with a replacement_timeout of 5 s and a NOP each 2 s",
    "lvm": "LVM's RAID over open-iscsi, with open-iscsi's defaults",
    "lvm-impatient": "the same with a replacement_timeout of 5 s and a NOP each 2 s",
}
JOBS = (Cell("randread", 4 * KIB), Cell("randwrite", 4 * KIB))  # at the same time
DEPTH, IOPS = 4, 100  # of each; a rate, so that no system is measured by how fast it is
BEFORE_SECONDS, AFTER_SECONDS = 5.0, 15.0  # of load, when the target answers
SECONDS_MIN_MAX, ROUNDS_MAX = (1, 900), 20


@dataclass(frozen=True)
class Settings:
    kernel: str = "uml"
    systems: tuple[str, ...] = tuple(SYSTEMS)
    seconds: float = 180  # of silence: open-iscsi waits 120 for a session
    rounds: int = 3

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        value = json.loads(text)
        return cls(**value | {"systems": tuple(value["systems"])})

    def check(self) -> None:
        least, most = SECONDS_MIN_MAX
        if not least <= self.seconds <= most:
            raise ValueFault(f"--seconds {self.seconds:g} is not in {least}..{most}")
        if not 1 <= self.rounds <= ROUNDS_MAX:
            raise ValueFault(f"--rounds {self.rounds} is not in 1..{ROUNDS_MAX}")

    @property
    def load_seconds(self) -> float:
        return BEFORE_SECONDS + self.seconds + AFTER_SECONDS

    def disk_bytes(self) -> int:
        """Memory that the members take; one system is up at a time."""
        return plan.disk_bytes("md", SHAPE)


def estimate_seconds(settings: Settings) -> float:
    once = plan.PUT_UP[settings.kernel] + settings.load_seconds
    return plan.BOOT[settings.kernel] + settings.rounds * len(settings.systems) * once


def settings_of(typed: dict[str, Any]) -> Settings:
    """typed: by option, None where nothing was typed."""
    given = {name: value for name, value in typed.items() if value is not None}
    if "systems" in given:
        names = given["systems"].split(",")
        if unknown := [name for name in names if name not in SYSTEMS]:
            raise ValueFault(f"--systems {unknown[0]}: there is none of that name; choose from {', '.join(SYSTEMS)}")
        given["systems"] = tuple(name for name in SYSTEMS if name in names)
    settings = Settings(**given)
    settings.check()
    return settings
