"""iraid advise against real targets: what is mistuned is found, and the very commands it prints end it."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Ran, RpcError, Served, call, wait_until

pytestmark = pytest.mark.once

TUNING = {"segment", "data-in", "r2t", "immediate", "max-burst", "first-burst", "depth", "data-digest"}
QUICK = ("--seconds", "0.4")
BOUND_SECONDS = 30.0


def findings(ran: Ran, kinds: set[str]) -> dict[str, list[str]]:
    """Those of these kinds: the machine that the tests run on may have others."""
    return {one["kind"]: one["members"] for one in ran.json["findings"] if one["kind"] in kinds}


def run_on_target(farm: TargetFarm, number: int, commands: list[str], folder: Path) -> None:
    """As typed into a shell of the target, whose tgtd is the only one there."""
    folder.mkdir(exist_ok=True)
    real = shutil.which("tgtadm")
    assert real is not None
    wrapper = folder / "tgtadm"
    wrapper.write_text(f'#!/bin/sh\nexec {real} -C {farm.targets[number].control_port} "$@"\n')
    wrapper.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done


def nothing_to_prove(status: dict[str, Any]) -> bool:
    return status["regions"]["suspect"] == status["regions"]["dirty"] == 0


def apply(advice: dict[str, Any], farm: TargetFarm, folder: Path, run: Callable[..., Any]) -> int:
    """Carry out what it says, in its order; returns how many targets were set."""
    targets = 0
    for remedy in advice["remedies"]:
        if remedy["where"].startswith("target"):
            (member,) = remedy["members"]
            run_on_target(farm, farm.members().index(member), remedy["commands"], folder)
            targets += 1
        elif remedy["findings"] == ["login"]:
            for command in remedy["commands"]:
                program, *words = shlex.split(command)
                assert program == "iraid"
                run(*words)
    return targets


def test_what_it_prints_for_tgt_ends_what_it_found(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], folder: Path
) -> None:
    farm = make_farm(3, tuned=False)
    gateway.create("v0", farm.members())

    before = gateway.must("advise", "v0", *QUICK, "--json")
    assert findings(before, TUNING) == dict.fromkeys(["segment", "r2t", "first-burst"], farm.members())
    text = gateway.must("advise", "v0", "--no-probe").out
    for remedy in before.json["remedies"]:
        assert remedy["findings"] != ["login"] or remedy["commands"] == ["iraid stop v0", "iraid start v0"]
        assert all(command in text for command in remedy["commands"] if not command.startswith("sysctl"))

    assert apply(before.json, farm, folder / "bin", gateway.must) == 3

    after = gateway.must("advise", "v0", *QUICK, "--json")
    assert findings(after, TUNING) == {}
    for one in after.json["members"]:
        assert one["target"] == "tgt"
        agreed = one["path"]["negotiated"]
        assert agreed["target_segment_bytes"] == agreed["first_burst_bytes"] == 262144
        assert not agreed["initial_r2t"]
        assert one["path"]["write_bytes_max"] == 262144
        assert one["path"]["data_in_bytes"] >= 65536


class Load(threading.Thread):
    """Writes random blocks and reads them again, until it is told to end."""

    def __init__(self, served: Served, seed: int):
        super().__init__()
        self.handle = served.connect()
        self.random = random.Random(seed)
        self.over = threading.Event()
        self.blocks: dict[int, bytes] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                where = self.random.randrange(512)
                self.blocks[where] = self.random.randbytes(4096)
                self.handle.pwrite(self.blocks[where], where * 4096)
        except BaseException as error:  # noqa: BLE001 - told to who asks
            self.error = error

    def end(self) -> None:
        self.over.set()
        self.join()
        if self.error:
            raise self.error
        assert len(self.blocks) > 20
        for where, written in self.blocks.items():
            assert self.handle.pread(4096, where * 4096) == written, where


def test_a_volume_in_use_is_measured_and_tuned_one_member_after_the_other(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], folder: Path
) -> None:
    farm = make_farm(3, tuned=False)
    gateway.create("v0", farm.members())
    gateway.stop()
    with gateway.serve("v0") as served:
        load = Load(served, seed=7)
        served.wait_resynced()
        load.start()

        def run(*words: str) -> Ran:
            return gateway.must(words[0], "--socket", served.control, *words[1:])

        before = run("advise", "v0", *QUICK, "--json")
        assert set(findings(before, TUNING)) == {"segment", "r2t", "first-burst"}
        assert all(one["read_bytes_per_second"] > 0 and one["small_read_us"] > 0 for one in before.json["members"])
        words = [
            command.split()[1]
            for remedy in before.json["remedies"]
            if remedy["findings"] == ["login"]
            for command in remedy["commands"]
        ]
        assert words == ["fail", "rebuild", "wait"] * 3

        assert apply(before.json, farm, folder / "bin", run) == 3

        after = run("advise", "v0", *QUICK, "--json")
        assert findings(after, TUNING) == {}
        assert served.status()["state"] == "active"
        load.end()


def test_it_writes_nothing_and_changes_nothing(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4)
    gateway.create("v0", farm.members())
    wait_until(lambda: nothing_to_prove(gateway.status("v0")), "proven parity")
    gateway.must("stop", "v0")
    gateway.must("start", "v0")
    before, contents = gateway.status("v0"), farm.digests()
    assert nothing_to_prove(before), "marks that the volume clears by itself would be writes"

    advice = gateway.must("advise", "v0", *QUICK, "--json")

    assert findings(advice, TUNING | {"out", "unmeasured", "empty"}) == {}
    now = gateway.status("v0")
    assert [m["writes"] for m in now["members"]] == [m["writes"] for m in before["members"]]
    assert (now["epoch"], now["event"], now["state"]) == (before["epoch"], before["event"], "active")
    assert farm.digests() == contents
    assert all(now["members"][i]["reads"] > before["members"][i]["reads"] for i in range(4))
    reads = [m["reads"] for m in now["members"]]
    gateway.must("advise", "v0", "--no-probe")
    assert [m["reads"] for m in gateway.status("v0")["members"]] == reads


def test_a_degraded_volume_says_who_is_out(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4)
    gateway.create("v0", farm.members())
    farm.kill(1)
    wait_until(lambda: gateway.status("v0")["state"] == "degraded", "a degraded volume")

    ran = gateway.must("advise", "v0", *QUICK, "--json")

    assert findings(ran, {"out"}) == {"out": [farm.member(1)]}
    by_role = {one["role"]: one for one in ran.json["members"]}
    assert by_role[1]["path"] is None and by_role[1]["read_bytes_per_second"] is None
    assert all(by_role[role]["read_bytes_per_second"] > 0 for role in (0, 2, 3))
    assert {row["operation"] for row in ran.json["model"]} == {"read", "write"}
    assert "member 1: it is" in gateway.must("advise", "v0", "--no-probe").out


def test_a_hung_member_does_not_hold_it_up(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(4)
    gateway.create("v0", farm.members())
    wait_until(lambda: gateway.status("v0")["regions"]["suspect"] == 0, "proven parity")
    farm.stop(2)
    begun = time.monotonic()

    ran = gateway.must("advise", "v0", *QUICK, "--json")

    assert time.monotonic() - begun < BOUND_SECONDS
    assert set(sum(findings(ran, {"out", "unmeasured"}).values(), [])) == {farm.member(2)}
    by_role = {one["role"]: one for one in ran.json["members"]}
    assert by_role[2]["read_bytes_per_second"] is None
    assert all(by_role[role]["read_bytes_per_second"] > 0 for role in (0, 1, 3))
    farm.cont(2)
    wait_until(lambda: gateway.status("v0")["state"] == "active", "the member's return", 60)


def test_what_can_not_be_measured_is_an_error(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    for words, status, said in [
        (("v9",), 1, 'there is no volume "v9"'),
        (("v0", "--seconds", "0"), 2, "--seconds"),
        (("v0", "--block", "5000"), 2, "--block"),
        (("v0", "--depth", "33"), 2, "--depth"),
        (("v0", "--rate-max", "1"), 2, "--rate-max"),
    ]:
        ran = gateway.iraid("advise", *words)
        assert ran.status == status and said in ran.err and "remedy:" in ran.err, ran
    gateway.must("stop", "v0")
    ran = gateway.iraid("advise", "v0")
    assert ran.status == 1 and "volume v0 is stopped" in ran.err and "iraid start v0" in ran.err
    gateway.stop()
    ran = gateway.iraid("advise", "v0", "--json")
    assert ran.status == 1 and ran.json["error"]["type"] == "unavailable"


def test_a_stop_ends_a_probe(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    gateway.create("v0", make_farm(3).members())
    reads = gateway.status("v0")["members"][1]["reads"]
    with ThreadPoolExecutor(1) as pool:
        probe = pool.submit(call, gateway.socket, "volume.probe", name="v0", duration_ms=50000, depth=8)
        wait_until(lambda: gateway.status("v0")["members"][1]["reads"] > reads + 100, "the probe's reads")
        with pytest.raises(RpcError, match="being probed already") as busy:
            call(gateway.socket, "volume.probe", name="v0", duration_ms=100)
        assert busy.value.kind == "busy"
        begun = time.monotonic()
        gateway.must("stop", "v0")
        with pytest.raises(RpcError, match="stopped before the command ended") as ended:
            probe.result()
    assert ended.value.kind == "busy" and time.monotonic() - begun < BOUND_SECONDS
    gateway.must("start", "v0")
    assert gateway.status("v0")["state"] == "active"


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"name": "v9"}, "not_found"),
        ({"name": "v0", "member": "7"}, "not_found"),
        ({"name": "v0", "block_bytes": 5000}, "invalid"),
        ({"name": "v0", "depth": 0}, "invalid"),
        ({"name": "v0", "duration_ms": 10**6}, "invalid"),
    ],
)
def test_the_handler_checks_for_itself(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], parameters: dict[str, Any], kind: str
) -> None:
    gateway.create("v0", make_farm(3).members())
    with pytest.raises(RpcError) as caught:
        call(gateway.socket, "volume.probe", **parameters)
    assert caught.value.kind == kind and caught.value.remedy
