"""iraid doctor --peer: what is wrong with two gateways together is found, with what is so on each and what to type; and
nothing is found on a pair without a fault.  No secret is told."""

import pathlib
import unittest.mock
import json
import os
from copy import deepcopy
from dataclasses import asdict

import pytest
from control_peer import VERSION, ControlPeer, volume
from remedies import assert_parses

from iraid.cli import main as cli
from iraid.control import settings
from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.watch import doctor
from iraid.watch import peer as pair
from iraid.watch.peer import Export, Pair, PairFacts, Setting, Volume

NONCE = b"a random text of those who ask"
SECRET = "clients\nnever-in-any-output\n"
UUID = "12345678-1234-1234-1234-123456789abc"
# Targets on several machines may have one name, as in the documentation.
MEMBERS = [f"10.0.0.{number}:3260/iqn.2026-01.org.example:disk/0" for number in range(1, 4)]
MEMBERS += ["10.0.0.4:3260,10.2.0.4:3260/iqn.2026-01.org.example:alone/0"]


def gateway(number):
    return PairFacts(
        1,
        host=f"gw{number}",
        root=True,
        boot=f"boot {number}",
        time_ms=1_000_000,
        version="0.2.0",
        handler="0.2.0",
        runner="1.5.4",
        machine=f"digest {number}",
        key=f"{number:016x}",
        spares=["10.0.0.9:3260/iqn.2026-01.org.example:disk/0"],
        volumes=[
            Volume(
                "v0",
                UUID,
                "active" if number == 1 else "standby",
                "active" if number == 1 else "standby",
                f"iqn.2026-01.org.iraid:gw{number}:v0",
                list(MEMBERS),
                [Setting("give_up", "5s"), Setting("log", "degraded")],
                "the same digest",
            )
        ],
        exports=[
            Export(
                "v0",
                "iqn.2026-01.org.example:v0",
                0,
                number,
                300 << 30,
                [f"10.1.0.{number}:3260"],
                ["iqn.1993-08.org.debian:01:abc"],
                "the same digest",
            )
        ],
    )


@pytest.fixture
def two():
    return Pair(gateway(1), gateway(2), 999_990, 1_000_010)


def findings(two):
    return [one for one in pair.examine(two) if one.grade != "ok"]


def test_a_pair_without_a_fault_has_no_finding(two):
    found = pair.examine(two)
    assert [one.check for one in found] == [name for name, *_ in pair.CHECKS]
    assert findings(two) == [] and doctor.exit_status(found) == 0


def change(two, **changes):
    """there: facts; volume, export: of the other gateway; both_*: of both."""
    for name, value in changes.items():
        where, _, key = name.partition("__")
        facts = {
            "there": [two.there],
            "here": [two.here],
            "volume": two.there.volumes,
            "mine": two.here.volumes,
            "export": two.there.exports,
        }[where]
        for one in facts:
            assert hasattr(one, key)
            setattr(one, key, value)


CASES = {
    "itself": (
        {"there__boot": "boot 1", "there__key": f"{1:016x}", "there__machine": "digest 1"},
        "gateways",
        "bad",
        ["itself"],
    ),
    "clone": ({"there__machine": "digest 1"}, "gateways", "bad", ["same machine id", "clone"]),
    "key": ({"there__key": f"{1:016x}"}, "gateways", "bad", ["same key", f"{1:016x}"]),
    "handler silent": ({"there__handler_error": "no answer"}, "gateways", "bad", ["handler of gw2", "no answer"]),
    "no root": ({"there__root": False}, "gateways", "unknown", ["gw2", "root"]),
    "version": ({"there__version": "0.3.0"}, "versions", "warning", ["0.2.0 here", "0.3.0 on gw2"]),
    "loaded": ({"there__handler": "0.1.0"}, "versions", "warning", ["loaded", "0.1.0 on gw2"]),
    "runner": ({"there__runner": "1.6.0"}, "versions", "warning", ["tcmu-runner", "1.6.0 on gw2"]),
    "clock": ({"there__time_ms": 1_005_010}, "clocks", "warning", ["5 s apart"]),
    "clock behind": ({"there__time_ms": 930_000}, "clocks", "warning", ["70 s apart"]),
    "another volume": ({"volume__uuid": "other"}, "volumes", "bad", ["v0", f"{UUID} here", "other on gw2"]),
    "another name": ({"volume__name": "w0"}, "volumes", "warning", ["v0 here", "w0 on gw2"]),
    "two active": (
        {"volume__role": "active", "volume__state": "degraded"},
        "roles",
        "bad",
        ["v0", "both say", "active here, active on gw2"],
    ),
    "started anew": (
        {"volume__role": "active", "volume__state": "failed"},
        "roles",
        "bad",
        ["active here, active (failed) on gw2", "ssh gw2 iraid standby v0"],
    ),
    "none active": (
        {"mine__role": "standby", "mine__state": "standby"},
        "roles",
        "bad",
        ["nobody serves", "standby here, standby on gw2"],
    ),
    "stopped": (
        {"volume__role": None, "volume__state": "stopped"},
        "roles",
        "warning",
        ["no gateway stands by", "stopped on gw2", "ssh gw2 iraid standby v0"],
    ),
    "faulty file": ({"volume__fault": "line 3"}, "configuration", "bad", ["on gw2", "line 3"]),
    "members": (
        {"volume__members": [*MEMBERS[:3], "10.0.0.7:3260/iqn.2026-01.org.example:other/0"]},
        "configuration",
        "bad",
        ["members of volume v0 differ", "only: 10.0.0.4:3260,", "iqn.2026-01.org.example:other/0 on gw2"],
    ),
    "another machine": (
        {"volume__members": [MEMBERS[3], *MEMBERS[:2], MEMBERS[2].replace("10.0.0.3", "10.0.0.7")]},
        "configuration",
        "bad",
        [
            "only: 10.0.0.3:3260/iqn.2026-01.org.example:disk/0 here",
            "10.0.0.7:3260/iqn.2026-01.org.example:disk/0 on gw2",
        ],
    ),
    "portals": (
        {"volume__members": [*MEMBERS[:3], MEMBERS[3].replace("10.0.0.4", "10.9.0.4")]},
        "configuration",
        "note",
        ["different portals", "10.0.0.4:3260,10.2.0.4:3260/", "10.9.0.4:3260,10.2.0.4:3260/"],
    ),
    "setting": (
        {"volume__settings": [Setting("give_up", "9s"), Setting("log", "degraded")]},
        "configuration",
        "warning",
        ["give_up differs: 5s here, 9s on gw2"],
    ),
    "secret": ({"volume__chap": "another digest"}, "configuration", "bad", ["CHAP", "another one on gw2"]),
    "no secret": ({"volume__chap": ""}, "configuration", "bad", ["CHAP", "one here, none on gw2"]),
    "secret missing": ({"volume__chap": "missing"}, "configuration", "bad", ["CHAP", "not there or empty on gw2"]),
    "secret not told": ({"volume__chap": None}, "configuration", "unknown", ["--nonce"]),
    "spares": ({"there__spares": []}, "configuration", "warning", ["spares", "none on gw2"]),
    "initiator": (
        {"volume__initiator": "iqn.2026-01.org.iraid:gw1:v0"},
        "initiators",
        "bad",
        ["one initiator name", "shuts nobody out", "iqn.2026-01.org.iraid:gw1:v0 on gw2"],
    ),
    "not exported": ({"there__exports": []}, "exports", "bad", ["exported here only"]),
    "number": ({"export__pair": 1}, "exports", "bad", ["--pair", "number: 1 here, 1 on gw2"]),
    "no number": ({"export__pair": 0}, "exports", "bad", ["--pair", "none on gw2"]),
    "target": ({"export__iqn": "iqn.2026-01.org.example:x"}, "exports", "bad", ["target", "example:x on gw2"]),
    "lun": ({"export__lun": 3}, "exports", "bad", ["LUN: 0 here, 3 on gw2"]),
    "acl": ({"export__initiators": []}, "exports", "bad", ["admitted", "none on gw2"]),
    "size": ({"export__size_bytes": 200 << 30}, "exports", "warning", ["bytes of the LUN"]),
    "portal": ({"export__portals": ["10.1.0.1:3260"]}, "exports", "warning", ["same portal", "10.1.0.1"]),
    "initiators' secret": ({"export__chap": "other"}, "exports", "bad", ["CHAP of initiators differs"]),
    "initiators' secret not told": ({"export__chap": None}, "exports", "unknown", ["not compared"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_with_what_is_so_on_each(two, name):
    changes, check, grade, words = CASES[name]
    change(two, **changes)
    mine = [one for one in findings(two) if one.check == check]
    assert [one.grade for one in mine] == [grade], mine
    said = " ".join([mine[0].text, *mine[0].remedies])
    assert all(word in said for word in words), said
    for remedy in mine[0].remedies:
        assert_parses(remedy.replace("ssh gw2 iraid", "iraid"))
    if grade in ("bad", "warning") and name != "itself":
        assert mine[0].remedies


def test_a_volume_on_one_gateway_only_is_noted_and_none_on_both_is_no_pair(two):
    two.here.volumes.append(Volume("v1", "u1"))
    (found,) = findings(two)
    assert (found.check, found.grade) == ("volumes", "note") and "v1 is not configured on gw2" in found.text
    two.here.volumes = [Volume("v1", "u1")]
    assert "no pair" in next(one.text for one in findings(two) if one.grade == "bad")


def test_where_an_address_moves_there_are_no_numbers_and_reservations_are_refused(two):
    for facts in (two.here, two.there):
        facts.exports[0].pair = 0
        facts.exports[0].reservations = False
    assert findings(two) == []
    two.here.exports[0].reservations = True
    (found,) = findings(two)
    assert found.grade == "warning" and "may reserve it on this gateway" in found.text
    assert found.remedies == ["iraid export v0 --iqn iqn.2026-01.org.example:v0 --no-reservations ..."]
    two.there.exports[0].reservations = True
    assert ["ssh gw2" in one.remedies[0] for one in findings(two)] == [False, True]


def test_each_may_listen_at_all_of_its_own_addresses(two):
    change(two, export__portals=["0.0.0.0:3260"])
    two.here.exports[0].portals = ["0.0.0.0:3260"]
    assert findings(two) == []


def test_the_order_of_members_and_portals_says_nothing(two):
    change(
        two,
        volume__members=[
            MEMBERS[3].replace("10.0.0.4:3260,10.2.0.4:3260", "10.2.0.4:3260,10.0.0.4:3260"),
            *MEMBERS[:3],
        ],
    )
    assert findings(two) == []


def test_from_a_file_the_clocks_are_not_compared(two):
    two.before_ms = None
    (found,) = findings(two)
    assert (found.check, found.grade) == ("clocks", "unknown")


# --- what is told, and how it is read ---


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A root with LIO, and the handler's parser as it answers."""
    for path, text in {
        "proc/sys/kernel/hostname": "gw1\n",
        "proc/sys/kernel/random/boot_id": "b\n",
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "secret": SECRET,
        "sys/kernel/config/target/core/user_0/v0/info": "Status: ACTIVATED Config: iraid/v0 Size: 1024 SectorSize: 512",
        "sys/kernel/config/target/core/user_0/v0/alua/iraid_here/tg_pt_gp_id": "2\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    storage = tmp_path / "sys/kernel/config/target/core/user_0/v0"
    for number in (1, 2):
        group = tmp_path / f"sys/kernel/config/target/iscsi/iqn.2026-01.org.example:v0/tpgt_{number}"
        (group / "lun/lun_5").mkdir(parents=True)
        (group / "lun/lun_5/x").symlink_to(storage)
        (group / "lun/lun_5/alua_tg_pt_gp").write_text(
            f"TG Port Alias: iraid_{'here' if number == 2 else 'peer'}\nTG Port Group ID: {number}\n"
        )
        (group / "enable").write_text(f"{number - 1}\n")
        (group / "np/10.1.0.2:3260").mkdir(parents=True)
        auth = group / "acls/iqn.1993-08.org.debian:01:abc/auth"
        auth.mkdir(parents=True)
        (auth / "password").write_text("never-in-any-output\n")
    monkeypatch.delenv("IRAID_MACHINE_ID", raising=False)
    shown = {
        "keys": [{"key": "give_up", "value": "5s"}, {"key": "chap_file", "value": str(tmp_path / "secret")}],
        "values": {"initiator": "iqn.x:gw1", "members": MEMBERS, "chap_file": str(tmp_path / "secret")},
    }
    monkeypatch.setattr(settings, "volume", lambda name: deepcopy(shown))
    return tmp_path


ANSWERS = {
    "version": VERSION,
    "volume.list": {"volumes": [volume()]},
    "volume.status": volume(),
    "volume.holder": {"name": "v0", "own_key": "00000000000000aa", "members": []},
    "pool.list": {"spares": []},
}


@pytest.fixture
def tell(machine, tmp_path):
    def told(nonce=NONCE):
        (tmp_path / "control.sock").unlink(missing_ok=True)
        with ControlPeer(tmp_path / "control.sock", ANSWERS):
            return pair.gather(Client(tmp_path / "control.sock"), nonce, machine, lambda words: None)

    return told


def test_what_is_told_is_what_is_compared_and_no_secret(tell):
    told = tell()
    assert (told.host, told.key, told.boot) == ("gw1", "00000000000000aa", "b")
    (one,) = told.volumes
    assert (one.members, one.initiator, one.settings) == (MEMBERS, "iqn.x:gw1", [Setting("give_up", "5s")])
    (export,) = told.exports
    assert (export.lun, export.pair, export.portals) == (5, 2, ["10.1.0.2:3260"])
    text = pair.to_json(told)
    for secret in ("never-in-any-output", "0123456789abcdef", NONCE.decode()):
        assert secret not in text
    assert all(len(digest) == 64 for digest in (told.machine, one.chap, export.chap))
    assert pair.read(text, "FILE") == told


def test_digests_tell_same_from_other_and_differ_by_nonce(tell, machine):
    before = tell()
    assert (tell().machine, tell().volumes[0].chap) == (before.machine, before.volumes[0].chap)
    other = tell(b"another random text than that before")
    assert other.machine != before.machine and other.volumes[0].chap != before.volumes[0].chap
    (machine / "secret").write_text("clients\nanother\n")
    assert tell().volumes[0].chap != before.volumes[0].chap
    acl = (
        machine / "sys/kernel/config/target/iscsi/iqn.2026-01.org.example:v0/tpgt_2/acls/iqn.1993-08.org.debian:01:abc"
    )
    (acl / "auth/password").write_text("another\n")
    assert tell().exports[0].chap != before.exports[0].chap
    silent = tell(None)
    assert (silent.machine, silent.volumes[0].chap, silent.exports[0].chap) == (None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"Permission denied",
        b"[]",
        b'{"format": 2}',
        b'{"format": "1"}',
        b'{"format": 1, "volumes": [{}]}',
        b'{"format": 1, "volumes": {}}',
        b" " * (pair.ANSWER_BYTES_MAX + 1),
    ],
)
def test_what_is_no_facts_is_refused_by_name(text):
    with pytest.raises(IraidError) as refused:
        pair.read(text, "gateway gw2")
    assert "gateway gw2" in refused.value.message and refused.value.remedy


def test_a_secret_that_can_t_be_read_is_not_taken_for_none(tell, machine, monkeypatch):
    (machine / "secret").write_text("\n")
    assert tell().volumes[0].chap == "missing"
    (machine / "secret").unlink()
    assert tell().volumes[0].chap == "missing"
    monkeypatch.setattr(pathlib.Path, "read_text", unittest.mock.Mock(side_effect=PermissionError))
    assert tell().volumes[0].chap is None


def test_texts_of_the_other_gateway_are_made_harmless():
    assert pair.read(json.dumps({"format": 1, "host": "gw\x1b[2J2"}), "x").host == "gw?[2J2"


# --- the command ---


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """A program of this name that runs `script` with the words it was given."""

    def install(script):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return install


def test_the_other_gateway_is_asked_by_ssh_and_told_the_nonce_on_its_input_only(ssh, tmp_path):
    (tmp_path / "facts").write_text(pair.to_json(gateway(2)))
    ssh(f'echo "$@" > {tmp_path}/words; cat > {tmp_path}/input; cat {tmp_path}/facts')
    assert asdict(pair.ask("root@gw2", NONCE)) == asdict(gateway(2))
    words = (tmp_path / "words").read_text()
    assert "-o BatchMode=yes" in words and words.endswith("-- root@gw2 iraid doctor --facts --nonce -\n")
    assert (tmp_path / "input").read_bytes() == NONCE + b"\n" and NONCE.decode() not in words


@pytest.mark.parametrize(
    ("host", "script", "word"),
    [
        ("gw2", "echo 'Host key verification failed.' >&2; exit 255", "Host key verification failed."),
        ("gw2", "echo nonsense", "no facts"),
        ("-oProxyCommand=x", "exit 0", "is no host"),
        ("gw2 reboot", "exit 0", "is no host"),
        ("", "exit 0", "is no host"),
    ],
)
def test_who_can_t_be_asked_is_named_with_a_remedy(ssh, host, script, word):
    ssh(script)
    with pytest.raises(IraidError) as refused:
        pair.ask(host, NONCE)
    assert word in refused.value.message and refused.value.remedy


def iraid(monkeypatch, capsys, path, *words):
    monkeypatch.setenv("IRAID_SOCKET", str(path))
    status = cli.main(list(words))
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_the_command_compares_with_a_file(two, tmp_path, monkeypatch, capsys, machine):
    change(two, volume__initiator="iqn.x:gw1")
    (tmp_path / "facts").write_text(pair.to_json(two.there))
    with ControlPeer(tmp_path / "s", ANSWERS):
        status, out, _ = iraid(monkeypatch, capsys, tmp_path / "s", "doctor", "--peer-facts", str(tmp_path / "facts"))
    assert status == 2 and "bad" in out and "->" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--facts", "--peer", "gw2"),
        ("--peer", "gw2", "--peer-facts", "x"),
        ("--nonce", "x"),
        ("--peer", "gw2", "--nonce", "x"),
    ],
)
def test_options_that_exclude_each_other_are_refused(monkeypatch, capsys, tmp_path, words):
    assert iraid(monkeypatch, capsys, tmp_path / "s", "doctor", *words)[0] == 2


def test_a_short_nonce_and_a_missing_file_are_refused(monkeypatch, capsys, tmp_path):
    (tmp_path / "short").write_text("abc\n")
    for words in (("--facts", "--nonce", str(tmp_path / "short")), ("--peer-facts", str(tmp_path / "none"))):
        status, out, err = iraid(monkeypatch, capsys, tmp_path / "s", "doctor", *words)
        assert status == 1 and "remedy:" in err and not out


def test_facts_are_told_without_a_handler(monkeypatch, capsys, tmp_path):
    status, out, _ = iraid(monkeypatch, capsys, tmp_path / "none", "doctor", "--facts")
    assert status == 0 and pair.read(out, "x").handler_error
