"""What the Python programs get of the gateway's file: sections without faults, also beside those with."""

import os
from pathlib import Path

import pytest
from control_peer import ROOT

from iraid.control import settings
from iraid.control.errors import IraidError


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """Write gateway.conf."""
    engine = Path(os.environ.get("IRAID_BUILD_DIR") or ROOT / "build") / "handler/adapters/iraid-engine"
    if not engine.exists():
        pytest.skip(f"{engine} is not built")
    monkeypatch.setenv("IRAID_CONFIG_DIR", str(tmp_path))
    return (tmp_path / "gateway.conf").write_text


def test_without_a_file_there_are_the_defaults(conf):
    seen = settings.gateway()
    assert seen["notify"] == {"mail": [], "command": "", "severity": "warning"}
    assert seen["exporter"] == {"address": "127.0.0.1", "port": 9723}
    assert (seen["spares"], seen["file"], seen["volumes"]["give_up_seconds"]) == ([], None, 5)


def test_a_fault_holds_up_its_own_section_only(conf):
    conf("[volumes]\ngive_up = 5\n[notify]\nmail = a@example.org\nmail = b\n")
    seen = settings.gateway()
    assert seen["notify"]["mail"] == ["a@example.org", "b"]
    with pytest.raises(IraidError, match=r"gateway.conf:2: give_up: \"5\" has no unit"):
        seen["volumes"]
    assert settings.gateway(tolerant=True)["volumes"]["give_up_seconds"] == 5


@pytest.mark.parametrize("text", ["[notfy]\nmail = a\n", "mail = a\n", "[notify\nmail = a\n"])
def test_what_may_have_been_meant_for_a_section_holds_it_up(conf, text):
    conf(text)
    with pytest.raises(IraidError, match="gateway.conf:"):
        settings.gateway()["notify"]


def test_the_program_is_named_if_it_is_not_there(monkeypatch):
    monkeypatch.setenv("IRAID_ENGINE", "/nowhere/iraid-engine")
    with pytest.raises(IraidError, match="/nowhere/iraid-engine can't be run"):
        settings.gateway()


@pytest.mark.parametrize("answer", [r'{"file": "/a\377"}', r"\377"])
def test_an_answer_that_is_not_utf_8_is_no_reason_to_give_up(tmp_path, monkeypatch, answer):
    engine = tmp_path / "engine"
    engine.write_text(f"#!/bin/sh\nprintf '{answer}'\nprintf 'it \\377 failed' >&2\n")
    engine.chmod(0o755)
    monkeypatch.setenv("IRAID_ENGINE", str(engine))
    if answer.startswith("{"):
        assert settings.keys() == {"file": "/a\ufffd"}
    else:
        with pytest.raises(IraidError, match="failed: it \ufffd failed"):
            settings.keys()
