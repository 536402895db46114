"""Each place of the plugin that allocates memory is refused it once, in a life of a volume.

The process goes on, what was refused says so and can be repeated, and nothing that was acknowledged
is lost.  Figures: docs/lab-notes/exhaustion-2026-11-29.md.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import nbd
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, Served, build_folder, call, wait_until

pytestmark = pytest.mark.no_sanitizer

Value = TypeVar("Value")

LIBRARY = build_folder() / "tests/integration/librefuse_memory.so"
PLUGIN = build_folder() / "handler/adapters/nbdkit-iraid-plugin.so"
BLOCK = 4096
ATTEMPTS = 3
SAID = ("memory", "thread can't be started: Resource temporarily unavailable")  # pthread_create(3) says EAGAIN
SAMPLE = 8  # sites in the daily run


class Life:
    """A volume that is started, written, loses a member, fills it again, and stops."""

    def __init__(self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch):
        self.gateway, self.monkeypatch = gateway, monkeypatch
        self.log = gateway.folder / "sites"
        self.refusals: list[str] = []  # what users were told

    def serve(self, site: str | None) -> Served:
        assert LIBRARY.exists(), f"{LIBRARY} is not there: run scripts/build"
        self.log.unlink(missing_ok=True)
        with self.monkeypatch.context() as context:
            context.setenv("LD_PRELOAD", str(LIBRARY))
            context.setenv("IRAID_REFUSE_IN", PLUGIN.name)
            context.setenv("IRAID_REFUSE_LOG", str(self.log))
            if site:
                context.setenv("IRAID_REFUSE_AT", site)
            return self.gateway.serve("v0")

    def noted(self, what: str) -> list[str]:
        if not self.log.exists():
            return []
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [address for word, address in lines if word == what]

    def insist(self, volume: Served, step: Callable[[], Value]) -> Value:
        """A step is refused once at most, and then it works."""
        for _ in range(ATTEMPTS):
            volume.process.check_running()
            try:
                return step()
            except (RpcError, nbd.Error, OSError, ValueError, AssertionError) as refusal:
                assert self.noted("refused"), f"refused though there was memory: {refusal}"
                self.refusals.append(str(refusal))
        raise AssertionError(f"refused {ATTEMPTS} times: {self.refusals}")

    def start(self, site: str | None) -> tuple[Served, nbd.NBD]:
        """A start that is refused says why; the next one works."""
        volume = self.serve(site)
        try:
            return volume, volume.connect()
        except (AssertionError, nbd.Error):
            assert self.noted("refused"), volume.process.said()
            wait_until(volume.process.ended, f"an end or a start: {volume.process.said()}")
            assert any(word in volume.process.said() for word in SAID), volume.process.said()
            self.refusals.append("the start: " + volume.process.said().splitlines()[-1])
        volume = self.gateway.serve("v0")
        return volume, volume.connect()

    def call(self, volume: Served, method: str, **parameters: Any) -> Any:
        return self.insist(volume, lambda: call(volume.control, method, name="v0", **parameters))

    def wait(self, volume: Served, state: str) -> None:
        wait_until(lambda: self.call(volume, "volume.status")["state"] == state, f"state {state}", 30)

    def live(self, site: str | None = None) -> None:
        volume, handle = self.start(site)
        with volume:
            expected: dict[int, bytes] = {}

            def write(offset: int, length: int) -> None:
                nonlocal handle
                data = os.urandom(length)

                def once() -> None:
                    nonlocal handle
                    if handle.aio_is_dead() or handle.aio_is_closed():
                        handle = volume.connect()
                    handle.pwrite(data, offset)
                    handle.flush()

                self.insist(volume, once)
                expected[offset] = data

            write(0, BLOCK)
            write(1 << 20, 1 << 20)
            self.insist(volume, lambda: handle.zero(64 << 10, 4 << 20))
            member = self.call(volume, "volume.status")["members"][1]["member"]
            self.call(volume, "member.fail", member=member)
            self.wait(volume, "degraded")
            write(8 << 20, 256 << 10)
            self.call(volume, "member.rebuild", member=member)
            self.wait(volume, "active")
            self.call(volume, "volume.stats")
            self.call(volume, "lost.list")
            self.call(volume, "scrub.start", repair=False)
            wait_until(lambda: not self.call(volume, "volume.status")["scrub"]["running"], "the scrub's end", 30)
            for offset, data in expected.items():
                assert self.insist(volume, lambda at=offset, of=data: handle.pread(len(of), at)) == data
        assert volume.process.popen.returncode == 0
        if site and self.noted("site").count(site):
            assert self.noted("refused") == [site]


@pytest.fixture
def life(gateway: Gateway, make_farm: Callable[..., TargetFarm], monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    gateway.create("v0", make_farm(3).members(), 5, "16K")
    gateway.must("stop", "v0")
    yield Life(gateway, monkeypatch)


def end_all(life: Life) -> None:
    """Whatever was left behind."""
    for served in life.gateway.served:
        if not served.process.ended():
            served.process.popen.kill()
            served.process.popen.wait()


def name(site: str) -> str:
    """Functions from the site outwards, as far as they were inlined."""
    words = ["addr2line", "-fisC", "-e", str(PLUGIN), hex(int(site, 16) - 1)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return f"{said[0]} ({Path(said[1]).name})"


def live_at(life: Life, sites: list[str]) -> list[str]:
    """What went wrong, by site."""
    wrong = []
    for site in sites:
        life.refusals = []
        try:
            life.live(site)
            print(f"{name(site)}: {life.refusals or 'nobody noticed'}")
        except (AssertionError, OSError, nbd.Error, RpcError, ValueError, LookupError) as error:  # all are shown
            wrong.append(f"{site} {name(site)}: {str(error)[-600:]}")
            end_all(life)
            print("WRONG", wrong[-1])
    return wrong


def test_an_allocation_that_fails_costs_one_request_at_most(life: Life) -> None:
    """Some sites, each time the same."""
    life.live()
    sites = sorted(life.noted("site"))
    assert len(sites) > SAMPLE
    assert not live_at(life, sites[:: len(sites) // SAMPLE])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_site_is_refused_memory_once(life: Life, figure: Callable[[str, str], None]) -> None:
    life.live()
    sites = sorted(life.noted("site"))
    figure("sites", str(len(sites)))
    assert not live_at(life, sites)
