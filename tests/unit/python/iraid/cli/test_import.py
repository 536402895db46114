"""iraid import: what is asked of the handler, and what is said of its answer."""

import json
from types import SimpleNamespace

import pytest
from control_peer import ControlPeer

from iraid.cli import main as cli

MEMBERS = [f"10.0.0.{n}:3260/iqn.2026-01.org.example:disk/0" for n in (1, 2, 3)]
FOUND = {
    "name": "v0",
    "uuid": "6f2b",
    "level": 5,
    "member_count": 3,
    "owner": "",
    "warnings": [],
    "members": [{"member": member, "role": role, "state": "in sync"} for role, member in enumerate(MEMBERS)],
}


@pytest.fixture
def iraid(tmp_path, capsys, monkeypatch):
    path = tmp_path / "control.sock"
    monkeypatch.setenv("IRAID_SOCKET", str(path))

    def run(answer, *arguments):
        path.unlink(missing_ok=True)
        with ControlPeer(path, {"volume.import": answer}) as peer:
            status = cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, calls=peer.calls)

    return run


def test_it_sends_what_was_typed_and_nothing_else(iraid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert iraid(FOUND, "import", *MEMBERS).calls == [("volume.import", {"members": MEMBERS})]
    done = iraid(
        FOUND, "import", "--name", "v9", "--chap-file", "secret", "--initiator", "iqn.2026-01.org.example:gw", *MEMBERS
    )
    assert done.calls == [
        (
            "volume.import",
            {
                "members": MEMBERS,
                "name": "v9",
                "chap_file": str(tmp_path / "secret"),
                "initiator": "iqn.2026-01.org.example:gw",
            },
        )
    ]


def test_a_volume_that_was_given_back_is_to_be_started(iraid):
    done = iraid(FOUND, "import", *MEMBERS)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "Volume v0 is known here: P-iRAID, 3 members, uuid 6f2b."
    assert done.out.endswith("Start it: iraid start v0\n")
    assert "has role" not in done.out
    assert json.loads(iraid(FOUND, "import", *MEMBERS, "--json").out) == FOUND


def test_who_has_the_members_and_which_are_missing_is_said(iraid):
    found = FOUND | {
        "owner": "gw1 0badcafe",
        "warnings": ["the third is silent"],
        "members": [*FOUND["members"][:2], {"member": MEMBERS[2], "state": "unknown"}],
    }
    done = iraid(found, "import", *MEMBERS)
    assert done.err == "iraid: warning: the third is silent\n"
    assert "No device that answered has role 2." in done.out
    assert "gw1 0badcafe" in done.out
    assert "iraid start v0 --take-over" in done.out
