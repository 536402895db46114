"""nbdkit unloads a plugin at its end: no thread of ours may still be inside it.

late_threads.c holds one back until the plugin is gone, which else happens once in a great many ends.
"""

from __future__ import annotations

import signal

import pytest
from test_control import Connection, request

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Served, build_folder, wait_until

pytestmark = [pytest.mark.timeout(60), pytest.mark.no_sanitizer]
LIBRARY = build_folder() / "tests/integration/liblate_threads.so"


def served(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Served:
    assert LIBRARY.exists(), f"{LIBRARY} is not there: run scripts/build"
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    made = gateway.serve("v0")
    monkeypatch.delenv("LD_PRELOAD")
    return made


@pytest.fixture
def volume(gateway: Gateway, make_farm) -> TargetFarm:
    farm = make_farm(3)
    gateway.create("v0", farm.members())
    gateway.must("stop", "v0")
    return farm


def test_a_client_s_thread_does_not_outlive_the_plugin(gateway: Gateway, volume: TargetFarm, monkeypatch) -> None:
    with served(gateway, monkeypatch) as nbdkit:
        nbdkit.status()
        with Connection(nbdkit.control) as connection:
            connection.send(request("version"))
            assert "result" in connection.answer()
            nbdkit.process.popen.send_signal(signal.SIGTERM)
            nbdkit.process.wait()
        wait_until(nbdkit.process.ended, "nbdkit's end")
