"""No room in the folders of configuration and locks: what is refused names folder and remedy, and changes nothing."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_full_state import fill, small_disk

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import IRAID, Gateway, Ran

FULL = "No space left on device"
INODES = 64


def content(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "filler")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def told_of(folder: Path, said: Ran) -> bool:
    return said.status != 0 and FULL in said.err and f"df -h {folder}" in said.err


def test_files_of_configuration_stay_whole_where_there_is_no_room_for_new_ones(
    make_gateway: Callable[[], Gateway], make_farm: Callable[..., TargetFarm]
) -> None:
    gateway, farm = make_gateway(), make_farm(8)
    gateway.start(prefix=small_disk(gateway.config))
    assert gateway.engine is not None
    members = farm.members()
    gateway.create("v0", members[:3])
    gateway.must("add-spare", "--gateway", members[6])
    commands = [
        ("set", "v0", "--rate-min", "20M"),
        ("remove", "--gateway", members[6]),
        ("replace", "v0", "1", members[3]),
        ("add-spare", "--gateway", members[3]),
        ("add-spare", "v0", members[7]),
        ("create", "v1", "--level", "1", *members[4:6]),
    ]
    filler = fill(gateway.engine, gateway.config)
    folder = filler.parent
    before, devices = content(folder), farm.digests()[3:]
    for words in commands:
        said = gateway.iraid(*words)
        assert told_of(gateway.config, said), said
        assert content(folder) == before
        if words[0] != "create":  # that takes its superblocks back, or it would need --force below
            assert farm.digests()[3:] == devices, said
    gateway.must("config", "reload")
    filler.unlink()
    for words in commands[-2:]:
        gateway.must(*words)
    assert len(content(folder)) == len(before) + 1


def test_no_room_for_locks_and_none_for_what_is_in_them(
    make_gateway: Callable[[], Gateway], make_farm: Callable[..., TargetFarm]
) -> None:
    """Whom a lock belongs to is not needed; the lock is."""
    gateway = make_gateway()
    run = gateway.folder / "run"
    gateway.start(prefix=small_disk(run, f"size=128k,nr_inodes={INODES}"))
    assert gateway.engine is not None
    gateway.create("v0", make_farm(3).members())
    gateway.must("stop", "v0")

    def without_locks() -> None:
        for lock in Path(f"/proc/{gateway.engine.pid}/root{run}").glob("*.lock"):
            lock.unlink()

    without_locks()
    filler = fill(gateway.engine, run)
    gateway.must("start", "v0")
    assert FULL in gateway.engine.said()
    gateway.must("stop", "v0")
    without_locks()
    with pytest.raises(OSError, match=FULL):
        for number in itertools.count():
            (filler.parent / f"empty{number}").touch()
    said = gateway.iraid("start", "v0")
    assert told_of(run, said), said
    (filler.parent / "empty0").unlink()
    gateway.must("start", "v0")


@pytest.mark.parametrize("room", ["size=4k", "size=8k", "size=1m,nr_inodes=1"])
def test_an_archive_for_support_that_has_no_room_leaves_nothing(tmp_path: Path, room: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o {room} none {disk} && export TMPDIR={disk}; "
        f"{IRAID} support --socket {tmp_path}/none --output {disk}/a.tar.xz; echo status $?; ls -A {disk}"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "status 1\n", done
    assert f"{disk}/a.tar.xz: {FULL}" in done.stderr and f"df -h {disk}" in done.stderr and "--output" in done.stderr
