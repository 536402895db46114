"""--dry-run of export and unexport: what would change, of what LIO has, and nothing is touched."""

import contextlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from control_peer import UUID, ControlPeer
from lio_model import LioModel

from iraid.cli.main import cli
from iraid.lio import target

IQN, ALICE = "iqn.2026-01.org.example:v0", "iqn.1993-08.org.debian:01:alice"
EXPORT = ["export", "v0", "--iqn", IQN, "--portal", "10.0.0.9:3260", "--acl", ALICE, "--no-chap"]
VOLUME = {"name": "v0", "uuid": UUID, "state": "active", "size_bytes": 1 << 30, "block_bytes": 512}


class FakeLio(LioModel):
    """The model, with what target.Lio has beside a dump."""

    def __init__(self, save_file: Path):
        super().__init__()
        self.save_file = save_file
        self.saves = 0

    def sessions(self):
        return {}

    def save(self, *_what):
        self.saves += 1
        return str(self.save_file)


@pytest.fixture
def lio(tmp_path, monkeypatch):
    made = FakeLio(tmp_path / "saveconfig.json")
    monkeypatch.setattr(target, "Lio", lambda: made)
    monkeypatch.setattr(target, "check_root", lambda: None)
    monkeypatch.setattr(target, "_locked", contextlib.nullcontext)
    monkeypatch.setenv("IRAID_SOCKET", str(tmp_path / "control.sock"))
    answers = {"version": {"version": "0.1.0", "program": "tcmu-runner"}, "volume.status": VOLUME}
    with ControlPeer(tmp_path / "control.sock", answers):
        yield made


def run(*words):
    done = CliRunner().invoke(cli, words, prog_name="iraid")
    assert done.exit_code == 0, done.output
    return done.output


def test_the_changes_are_those_that_the_export_then_makes(lio):
    predicted = json.loads(run(*EXPORT, "--dry-run", "--json"))
    assert lio.config == {"storage_objects": [], "targets": []} and lio.saves == 0
    assert predicted["saved"] is None
    made = json.loads(run(*EXPORT, "--json"))
    assert made["changes"] == predicted["changes"] != []
    assert json.loads(run(*EXPORT, "--dry-run", "--json"))["changes"] == []
    assert "Nothing would change" in run(*EXPORT, "--dry-run")


def test_taking_it_away_is_only_said(lio):
    run(*EXPORT)
    before, saves = lio.dump(), lio.saves
    assert f"target {IQN} removed" in run("unexport", "v0", "--dry-run")
    assert (lio.dump(), lio.saves) == (before, saves)
