"""Everything the product creates is root's alone, whatever umask it was started with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.stack.private_gateway import Gateway, call, wait_until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path, mine: tuple[Path, ...]) -> list[str]:
    """Files, sockets and folders below that group or others may do anything with, but for what the test made."""
    found = []
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if path not in mine and not stat.S_ISLNK(mode) and mode & 0o077:
            found.append(f"{path.relative_to(folder)}: {stat.filemode(mode)}")
    return found


def test_nothing_that_a_gateway_creates_is_open_to_others(
    no_umask: None, tmp_path: Path, folder: Path, make_farm: Any
) -> None:
    """A volume's whole life, with a restart, an event, a spare of the gateway's, a support archive."""
    farm = make_farm(4)
    sockets = folder / "sockets"
    sockets.mkdir(mode=0o700)
    gateway = Gateway(tmp_path / "gateway", sockets)
    try:
        gateway.start()
        gateway.create("v0", farm.members()[:3])
        gateway.must("add-spare", "--gateway", farm.member(3))
        gateway.must("set", "v0", "--rate-min", "2M")
        archive = tmp_path / "gateway/run/support.tar.xz"
        gateway.must("support", "--output", archive)
        gateway.stop()
        gateway.start()
        gateway.must("start", "v0")
        wait_until(lambda: call(gateway.socket, "volume.status", name="v0")["state"] == "active", "the volume")
        made = open_to_others(gateway.folder, (gateway.folder / "engine.log",)) + open_to_others(sockets, ())
        seen = {path.name for path in gateway.folder.rglob("*")} | {path.name for path in sockets.rglob("*")}
        assert {"v0.conf", "support.tar.xz", "control.sock"} <= seen  # else the walk saw nothing
        gateway.stop()
    finally:
        gateway.close()
    assert made == []
