"""A fault in a volume's file when the runner starts anew: the LUN waits for whoever mends it, and no further start is
needed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import scsi_answers

from iraid_dev.stack.gateway import Volume, attempt_iraid
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.load import Fio
from iraid_dev.stack.tools import IRAID, run, wait_for

CONTENT = bytes(range(256)) * 1024


def spoil(file: Path) -> None:
    file.write_text(f"{file.read_text()}give_up_seconds = soon\n")


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {  # and what iraid doctor says of the LUN
    "a typo": (spoil, "has no volume behind it"),
    "an empty file": (lambda file: file.write_text(""), "has no volume behind it"),
    "no file": (Path.unlink, "which does not exist"),
}


def identity(disk: Disk) -> bytes:
    return scsi_answers.page(disk.path, scsi_answers.IDENTIFICATION)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.timeout(280)
def test_a_lun_whose_file_is_mended_works_without_another_start(gateway, lio_members, memory_folder, fault):
    volume: Volume = gateway.create(5, lio_members(3))
    disk = volume.login()
    with open(disk.path, "wb") as device:
        device.write(CONTENT)
    was = identity(disk)
    file = Path(f"/etc/iraid/volumes/{volume.name}.conf")
    good = file.read_text()
    spoiling, said = FAULTS[fault]

    spoiling(file)
    gateway.runner.kill()
    gateway.runner.start()
    status, text = scsi_answers.ask_whether_ready(disk.path)
    assert scsi_answers.is_not_ready(status), (status, text)
    assert said in attempt_iraid("doctor")[1]
    if fault == "a typo":  # who it is can be read
        assert identity(disk) == was

    file.write_text(good)
    wait_for(lambda: scsi_answers.ask_whether_ready(disk.path)[0] == 0, "the LUN to be ready")
    assert identity(disk) == was
    read = memory_folder / "read"
    run("dd", f"if={disk.path}", f"of={read}", "iflag=direct", f"bs={len(CONTENT)}", "count=1")
    assert read.read_bytes() == CONTENT
    assert volume.status()["users"] == [f"tcmu: {volume.name}"]
    assert said not in attempt_iraid("doctor")[1]


@pytest.mark.timeout(280)
def test_a_lun_that_is_restored_beside_a_faulty_file_is_there_when_that_is_mended(gateway, farm):
    """As at boot."""
    volume: Volume = gateway.create(5, farm(3).members())
    volume.login()
    volume.logout()
    file = Path(f"/etc/iraid/volumes/{volume.name}.conf")
    good = file.read_text()

    run("targetctl", "save")  # else what other tests had once is restored, too
    run("targetctl", "clear")
    run(IRAID, "stop", volume.name)
    spoil(file)
    run("targetctl", "restore")
    assert "has no volume behind it" in attempt_iraid("doctor")[1]
    file.write_text(good)

    Fio(volume.login(), rw="write", bs="64k", size="4M").result()
