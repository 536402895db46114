"""Boots, shutdowns and restarts of a gateway with systemd, as they go wrong: members that do not answer, services that stop in
another order than they should, a runner that dies.

Every test boots a copy of one image: the gateway as it was built, with a LUN that its own initiator uses.
"""

from __future__ import annotations

import pytest
import systems

pytestmark = [
    pytest.mark.skipif(systems.missing() is not None, reason=str(systems.missing())),
    pytest.mark.long,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    systems.make(folder / "disk.img", folder / "made").good()
    yield folder / "disk.img"
    (folder / "disk.img").unlink()


@pytest.fixture
def image(gateway, tmp_path, request):
    """Kept when the test failed: journalctl reads what debugfs -R "rdump /upper/var/log/journal DIR" takes out of it."""
    image = systems.copy(gateway, tmp_path / "disk.img")
    failed = request.session.testsfailed
    yield image
    if request.session.testsfailed == failed:
        image.unlink()


@pytest.fixture
def show(capsys):
    def show(boot: systems.Boot) -> None:
        with capsys.disabled():
            print(f"\n    {boot.figures}, off after {boot.off_seconds} s")

    return show


STOP_SECONDS_MAX = 75
SHUTDOWN_SECONDS_MAX = 90


@pytest.mark.parametrize("members", ["answering", "silent"])
@pytest.mark.parametrize(
    "unit", ["none", "tcmu-runner", "rtslib-fb-targetctl", "own-initiator", "members-network", "dbus"]
)
def test_a_shutdown_ends_whichever_service_stops_first(image, tmp_path, show, unit, members):
    """Under load; and the gateway is whole when it is booted again."""
    first = systems.boot(image, tmp_path / "first", "stop-first", unit, members).good()
    show(first)
    assert first.figures["stop_seconds"] < STOP_SECONDS_MAX
    assert first.off_seconds < SHUTDOWN_SECONDS_MAX
    systems.boot(image, tmp_path / "second", "check-volume", 2).good()


def test_members_that_are_silent_at_boot_delay_nothing_and_the_lun_heals(image, tmp_path, show):
    usual = systems.boot(image, tmp_path / "usual", "check-volume", 2).good()
    prepared = systems.boot(image, tmp_path / "prepared", "silent-boot", "prepare").good()
    silent = systems.boot(image, tmp_path / "silent", "silent-boot", "heal").good()
    for boot in (usual, prepared, silent):
        show(boot)
    assert silent.figures["boot_seconds"] < usual.figures["boot_seconds"] * 1.3 + 5
    assert silent.figures["restore_seconds"] < usual.figures["restore_seconds"] * 1.5 + 2


def test_a_runner_that_dies_is_back_and_one_that_cannot_start_is_given_up(image, tmp_path, show):
    boot = systems.boot(image, tmp_path / "boot", "kill-runner").good()
    show(boot)
    assert boot.figures["back_seconds"] < 10
    assert boot.figures["tries"] >= 5
    assert boot.figures["clear_seconds"] < 45


def test_a_handler_is_replaced_under_load(image, tmp_path, show):
    """By upgrade-runner; also by handlers that do not work, and while members are silent."""
    boot = systems.boot(image, tmp_path / "boot", "upgrade").good()
    show(boot)
    assert boot.figures["stall_seconds"] < 5
    assert boot.figures["stall_going_back_seconds"] < 25
