"""ack_writer.py must see what it is there to see: lost, torn, misplaced and damaged writes."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import pytest

from iraid_dev.stack.load import WRITER

SLOT, SLOTS, SECTOR = 4096, 8, 512


def run(what: str, folder: Path, *more: str) -> dict:
    done = subprocess.run(
        [
            "/usr/bin/python3",
            str(WRITER),
            what,
            "--device",
            str(folder / "disk"),
            "--journal",
            str(folder / "journal"),
            "--slot-bytes",
            str(SLOT),
            "--slots",
            str(SLOTS),
            *more,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def written(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(SLOT * SLOTS))
    result = run("write", tmp_path, "--seconds", "0.3", "--depth", "2")
    assert result["errors"] == [] and result["writes"] > SLOTS
    return tmp_path


def change(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def set_journal(folder: Path, slot: int, change_by: tuple[int, int]) -> None:
    data = (folder / "journal").read_bytes()
    issued, acknowledged = struct.unpack_from("<QQ", data, 16 * slot)
    change(folder / "journal", 16 * slot, struct.pack("<QQ", issued + change_by[0], acknowledged + change_by[1]))


def test_what_was_acknowledged_is_found(written):
    result = run("check", written)
    assert result["checked"] == SLOTS and result["lost"] == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: change(f / "disk", 3 * SLOT + SECTOR, bytes(SECTOR)), "holds no write"),
        (lambda f: change(f / "disk", 3 * SLOT + SECTOR + 100, b"\xff\x00\xff"), "is damaged"),
        (lambda f: change(f / "disk", 3 * SLOT, (f / "disk").read_bytes()[:SLOT]), "holds slot 0"),
        (lambda f: set_journal(f, 3, (1, 1)), "acknowledged was"),  # an older write is there
        (lambda f: set_journal(f, 3, (-1, -1)), "issued"),  # a write from nowhere
    ],
    ids=["zeros", "flipped", "misplaced", "older", "from nowhere"],
)
def test_what_is_wrong_is_named(written, spoil, said):
    spoil(written)
    lost = run("check", written)["lost"]
    assert lost and all("slot 3" in text for text in lost)
    assert said in lost[0]


def test_a_write_that_was_not_acknowledged_may_be_there_in_part(written):
    """Issued is one more than acknowledged: either content is right, sector by sector."""
    set_journal(written, 3, (1, 0))
    assert run("check", written)["lost"] == []
    set_journal(written, 3, (-1, -1))  # what is there now was issued, and not acknowledged
    assert run("check", written)["lost"] == []


def test_an_error_of_the_device_is_told(tmp_path):
    (tmp_path / "disk").write_bytes(bytes(SLOT))  # shorter than the slots: reads come up short
    (tmp_path / "journal").write_bytes(struct.pack("<QQ", 1, 1) * SLOTS)
    lost = run("check", tmp_path)["lost"]
    assert any("short read" in text for text in lost)
