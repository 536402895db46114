"""Locks are root's alone: a user who can read such a file can hold up who waits for its lock."""

import fcntl
import os

import pytest

from iraid.control.locking import open_lock
from iraid.lio import target
from iraid.watch import monitor


@pytest.fixture(autouse=True)
def any_mode():
    """No mask that hides what was asked for."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path):
    return path.stat().st_mode & 0o7777


def test_it_is_made_for_its_owner_alone_and_can_be_locked(tmp_path):
    with open_lock(tmp_path / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open_lock(tmp_path / "lock") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert mode_of(tmp_path / "lock") == 0o600


def test_one_that_others_can_read_is_taken_from_them(tmp_path):
    (tmp_path / "lock").write_text("mine\n")
    (tmp_path / "lock").chmod(0o666)
    open_lock(tmp_path / "lock").close()
    assert (mode_of(tmp_path / "lock"), (tmp_path / "lock").read_text()) == (0o600, "mine\n")


def test_it_is_no_link_to_somewhere_else(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        open_lock(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


def test_the_monitor_and_an_export_can_t_be_held_up_by_others(tmp_path, monkeypatch):
    monkeypatch.setenv("IRAID_RUN_DIR", str(tmp_path / "run"))
    monitor.StateFile(tmp_path / "state/monitor.json")
    with target._locked():
        assert mode_of(tmp_path / "run/export.lock") == 0o600
    assert mode_of(tmp_path / "state/monitor.lock") == 0o600
