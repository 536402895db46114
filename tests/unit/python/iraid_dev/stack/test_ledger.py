"""ledger.py must see what it is there to see.  A file stands for the disk; what it lacks at its end can't be read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.ledger import BLOCK_BYTES, Ledger

MIB = 1 << 20
SIZE, OFFSET = 4 * MIB, MIB


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.write_bytes(bytes(SIZE))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} has no O_DIRECT")
    return path


@pytest.fixture
def ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """It has written for a while."""
    monkeypatch.setattr(Ledger, "_state", lambda *_: None)
    made = Ledger(Disk("iqn", "portal", str(path)), OFFSET, SIZE - OFFSET, seed=1)
    made.start()
    time.sleep(0.2)
    made.stop()
    assert made.acknowledged > 0 and made.unanswered == 0
    yield made
    made.close()


def change(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_what_was_acknowledged_is_there(ledger: Ledger, path: Path) -> None:
    before = path.read_bytes()
    assert any(before[OFFSET:]) and not any(before[:OFFSET])
    found = ledger.check()
    assert (found.blocks, found.wrong, found.unreadable) == ((SIZE - OFFSET) // BLOCK_BYTES, [], [])


def test_a_changed_sector_is_wrong(ledger: Ledger, path: Path) -> None:
    change(path, OFFSET + 512 * 100, b"?" * 512)
    assert [text.partition(",")[0] for text in ledger.check().wrong] == [f"byte {512 * 100} holds nothing known"]


def test_blocks_that_cannot_be_read_are_named(ledger: Ledger, path: Path) -> None:
    os.truncate(path, SIZE - 2 * BLOCK_BYTES)
    assert ledger.check().unreadable == [SIZE - 2 * BLOCK_BYTES, SIZE - BLOCK_BYTES]


@pytest.mark.parametrize("landed", [0, 512, 4096])
def test_a_write_that_was_not_answered_may_be_old_or_new(ledger: Ledger, path: Path, landed: int) -> None:
    write = ledger._drawn()
    change(path, OFFSET + write.begin, bytes(write.data[:landed]))
    assert ledger.check().wrong == []
    # What was found is what must stay.
    change(path, OFFSET + write.begin, b"?" * 512)
    assert ledger.check().wrong
