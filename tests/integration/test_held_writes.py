"""A target that holds writes and lets them go after their session is gone (DESIGN rule 3): what lands late must not be
what is read, whether it lands before the gateway is back or only when its LOGICAL UNIT RESET asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import fake_target as fake
import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until
from iraid_dev.stack.reader import VolumeReader
from iraid_dev.stack.shadow import Load, Shadow, read_all

MEMBER_BYTES = 24 << 20
REQUESTS = 300


class HoldingTarget(fake.FakeTarget):
    """`hold()`: writes are taken and neither done nor answered; if `mute`, nothing is."""

    def __init__(self) -> None:
        super().__init__(size_bytes=MEMBER_BYTES)
        self.held: list[fake.Command] = []
        self.holding = self.mute = False
        self.landed = 0
        self._lock = threading.Lock()
        self.rules.append(self._rule)
        self.on_reset = self.release

    def hold(self, mute: bool) -> None:
        self.holding, self.mute = True, mute

    def _rule(self, command: fake.Command) -> fake.Reply | None:
        if not self.holding:
            return None
        if command.is_write:
            with self._lock:
                self.held.append(command)
        return fake.SILENCE if command.is_write or self.mute else None

    def release(self) -> None:
        """What is held lands now."""
        self.holding = False
        with self._lock:
            for command in self.held:
                self._disk_answer(command)
            self.landed += len(self.held)
            self.held.clear()


@pytest.mark.parametrize("when", ["before the next session", "when the reset asks for it"])
def test_writes_that_land_late_are_not_what_is_read(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path, when: str
) -> None:
    farm = make_farm(3, size_bytes=MEMBER_BYTES)
    with HoldingTarget() as target:
        gateway.create("v0", [*farm.members(), target.member], 5, "16K", "--give-up", "2")
        gateway.must("stop", "v0")
        with gateway.serve("v0") as volume:
            handle = volume.connect()
            volume.wait_resynced()
            shadow = Shadow(handle.get_size())
            load = Load(handle, shadow, seed=9, flush_share=0.01)
            load.run(REQUESTS)
            load.at(0, lambda: target.hold(mute="before" in when)).run(REQUESTS)
            held = len(target.held) + target.landed
            load.run(REQUESTS)  # over what is held, among other places
            if "before" in when:
                assert volume.status()["state"] == "degraded"
                target.release()
            wait_until(lambda: load.run(20) and volume.status()["state"] == "active", "the member to be back", 60)
            load.check()
            assert held > 0 and target.landed > 0
            farm.kill(0)  # from here on the one that held is needed for a quarter of all there is
            load.run(REQUESTS)
            load.check()
            shadow.check_and_settle(read_all(handle))
            assert volume.status()["state"] == "degraded"
            farm.restart(0)
            volume.wait_status(lambda status: status["state"] == "active", "all members")
            volume.wait_resynced()
        image = tmp_path / "held.img"
        image.write_bytes(target.disk)
        reader = VolumeReader([*(farm.backing(number) for number in range(3)), image])
        assert reader.wrong_rows() == []
        shadow.check(reader.content())
