"""A volume under load with the exporter beside it: what tests of metrics, alerts and page look at."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbd
from prometheus import Exporter

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Ran, Served, wait_until

KIB, MIB = 1 << 10, 1 << 20


class Load(threading.Thread):
    """Random reads and writes, one after the other, until it is stopped; errors are kept."""

    def __init__(self, handle: nbd.NBD, pause_seconds: float = 0.005) -> None:
        super().__init__(daemon=True)
        self._handle, self._pause = handle, pause_seconds
        self._end = threading.Event()
        self.errors: list[Exception] = []

    def run(self) -> None:
        rng, size = random.Random(7), self._handle.get_size()
        data = rng.randbytes(64 * KIB)
        while not self._end.wait(self._pause):
            offset = rng.randrange(size // (4 * KIB) - 16) * 4 * KIB
            try:
                if rng.random() < 0.5:
                    self._handle.pwrite(data[: rng.choice((4, 16, 64)) * KIB], offset)
                else:
                    self._handle.pread(64 * KIB, offset)
                if rng.random() < 0.05:
                    self._handle.flush()
            except nbd.Error as error:
                self.errors.append(error)
                return

    def stop(self) -> None:
        self._end.set()
        self.join(60)


@dataclass
class Watched:
    gateway: Gateway
    farm: TargetFarm
    served: Served
    exporter: Exporter

    def iraid(self, *words: str) -> Ran:
        ran = self.gateway.iraid(*words, "--socket", self.served.control)
        assert ran.status == 0, ran
        return ran

    @contextmanager
    def load(self) -> Iterator[Load]:
        load = Load(self.served.connect())
        load.start()
        try:
            yield load
        finally:
            load.stop()
        assert not load.errors, load.errors


@contextmanager
def watched(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], folder: Path, name: str = "v0", member_bytes: int = 64 * MIB
) -> Iterator[Watched]:
    """P-iRAID of four targets with its parity proven, in nbdkit; a fifth target is left over."""
    farm = make_farm(5, size_bytes=member_bytes)
    gateway.create(name, farm.members()[:4], 5, "64K", "--give-up", "1")
    wait_until(
        lambda: (status := gateway.status(name))["state"] == "active" and status["regions"]["suspect"] == 0,
        "the first resync",
        60,
    )
    gateway.must("stop", name)
    with gateway.serve(name) as served:
        served.wait_status(lambda status: status["state"] == "active", "the volume to be active")
        with Exporter(served.control, folder) as exporter:
            yield Watched(gateway, farm, served, exporter)
