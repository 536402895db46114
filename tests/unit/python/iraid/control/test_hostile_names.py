"""Names that a target made to do harm, at each place where a program of ours hands them on.

The handler makes them harmless itself; here it is one that does not.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from control_peer import VERSION, ControlPeer, event, member, page, volume

from iraid.cli.main import main
from iraid.control import model
from iraid.control.client import Client
from iraid.watch import notify

HOSTILE = {
    "ESC": "iqn.x:\x1b]0;owned\x07\x1b[2J",
    "C1": "iqn.x:\x9b2J\x9d0;owned\x9c",
    "lines": "iqn.x:a\nBcc: other@example.org\r\niraid_up 0\n",
    "NUL": "iqn.x:\0PATH=/tmp",
    "bidi": "iqn.x:\u202egnp.exe\u2066\u200b",
    "separators": "iqn.x:\u2028next\u2029\x85",
    "tabs": "iqn.x:\t\v\f\b\b\b",
    "long": "iqn.x:" + "a" * 200_000,
    "markup": "<script>alert(1)</script>\x1b",
    "shell": "$(reboot)`reboot`;reboot|reboot\n",
    "label": 'a"} 1\niraid_up{b="\\',
}
OUTPUT_MAX = 60_000


def answers(name: str) -> dict:
    devices = [member(0, member=f"10.0.0.1:3260/{name}/0", reason=name), member(1), member(2), member(3)]
    status = volume("v0", members=devices, reason=name)
    lun = {
        "lun": 0,
        "vendor": name,
        "product": name,
        "serial": name,
        "identity": name,
        "size_bytes": 1,
        "signature": name,
    }
    return {
        "version": VERSION,
        "volume.list": {"volumes": [status]},
        "volume.status": status,
        "pool.list": {"spares": []},
        "events": page(event(1, "member evicted", member=name, text=name)),
        "discover": {
            "targets": [{"iqn": name, "portals": [name], "luns": [lun]}, {"iqn": name, "error": name, "luns": []}]
        },
    }


def seen(text: str) -> None:
    """Nothing but lines of what can be seen, and not without end."""
    assert text and all(line.isprintable() for line in text.split("\n")), ascii(text)[:2000]
    assert len(text) < OUTPUT_MAX


def command(*words: str) -> Callable[[Path, Path, pytest.CaptureFixture[str]], None]:
    def run(socket: Path, _: Path, capture: pytest.CaptureFixture[str]) -> None:
        capture.readouterr()
        main([*words, "--socket", str(socket)])
        said = capture.readouterr()
        seen(said.out + said.err)

    return run


def told(socket: Path) -> model.Event:
    return Client(socket).events(None, 0, 0).events[0]


def mail(socket: Path, *_: object) -> None:
    composed = notify.compose([told(socket)], [], "gateway1", ["root@localhost"])
    assert "Bcc" not in composed and composed.as_bytes().count(b"Subject:") == 1
    seen(composed.get_content())


def program(socket: Path, folder: Path, _: object) -> None:
    """What a notify script is started with."""
    script = folder / "script"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"json.dump([sys.argv[1:], {{k: v for k, v in os.environ.items() if 'IRAID_EVENT' in k}}],"
        f" open({str(folder / 'got')!r}, 'w'))\n"
    )
    script.chmod(0o755)
    notify.run_command(script, told(socket), "a" * 16)
    arguments, environment = json.loads((folder / "got").read_text())
    for text in (*arguments, *environment.values()):
        assert text == "" or (text.isprintable() and len(text) <= model.TEXT_MAX)


EXITS = {
    "status": command("status", "v0"), "list": command("list"), "events": command("events"), "health": command("status", "--health"),
    "json": command("status", "v0", "--json"), "discover": command("discover", "10.0.0.1"),
    "metrics": command("exporter", "--once"), "page": command("exporter", "--once", "--json"), "mail": mail, "program": program,
}  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("leave", EXITS.values(), ids=EXITS)
def test_a_hostile_name_leaves_as_one_line_that_can_be_seen(tmp_path, capfd, leave, hostile):
    socket = tmp_path / "s"
    with ControlPeer(socket, answers(hostile)):
        leave(socket, tmp_path, capfd)


def test_metrics_stay_what_they_are(tmp_path, capfd):
    pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    for hostile in HOSTILE.values():
        socket = tmp_path / "s"
        with ControlPeer(socket, answers(hostile)):
            main(["exporter", "--once", "--socket", str(socket)])
        socket.unlink()
        families = list(text_string_to_metric_families(capfd.readouterr().out))
        assert [sample.value for family in families for sample in family.samples if sample.name == "iraid_up"] == [1.0]


def test_harmless_texts_stay_as_they_are():
    for text in ("", "10.0.0.1:3260/iqn.2026-01.org.example:disk/0", "Größe", "a" * model.TEXT_MAX):
        assert model.harmless(text) == text
    assert model.harmless("a\0b") == "a?b"
