"""What the benchmarks of this folder have in common: where a run comes from, targets and a volume on them without a kernel."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delays import Delays

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

if TYPE_CHECKING:
    from iraid_dev.stack.farm import TargetFarm
    from iraid_dev.stack.private_gateway import Gateway, Served

KIB = 1024
MIB = KIB * KIB
MEMORY = "/dev/shm"


def parser(about: str) -> argparse.ArgumentParser:
    """With what all of them take; begin() does what it says."""
    result = argparse.ArgumentParser(description=about.splitlines()[0])
    result.add_argument("--build", default=str(ROOT / "build"), help="build tree (default: %(default)s)")
    result.add_argument("--json", type=Path, metavar="FILE", help="the figures")
    return result


def begin(name: str, arguments: argparse.Namespace, about: str) -> dict[str, str]:
    """Says what is measured, and where it comes from: the head of what --json writes."""
    os.environ["IRAID_BUILD_DIR"] = str(arguments.build)
    head = provenance()
    print(f"{name}, {head['date']}, commit {head['commit']}: {about}", flush=True)
    return head


def provenance() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    return {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "commit": commit}


def write(path: Path | None, head: dict[str, str], **figures: Any) -> None:
    if path:
        path.write_text(json.dumps({**head, **figures}, indent=1) + "\n")


@dataclass
class Bench:
    farm: TargetFarm
    gateway: Gateway
    volume: Served
    delays: Delays | None


@contextmanager
def served(level: int, members: int, member_bytes: int, *, spares: int = 0, delayed: bool = False) -> Iterator[Bench]:
    """tgtd on loopback, files on a tmpfs; volume v0 on them in nbdkit, which libnbd can connect to.

    delayed: through proxies, whose delay can be set.
    """
    from iraid_dev.stack.farm import TargetFarm
    from iraid_dev.stack.private_gateway import Gateway

    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as name,
        TargetFarm(Path(name, "farm"), count=members + spares, size_bytes=member_bytes) as farm,
    ):
        gateway = Gateway(Path(name, "gateway"), Path(name, "sockets"))
        delays = Delays(farm.members()) if delayed else None
        try:
            gateway.start()
            targets = delays.members if delays else farm.members()
            options = [word for spare in targets[members:] for word in ("--spare", spare)]
            gateway.create("v0", targets[:members], level, "64K", *options)
            gateway.must("stop", "v0")
            with gateway.serve("v0") as volume:
                yield Bench(farm, gateway, volume, delays)
        finally:
            if delays:
                delays.close()
            gateway.close()
