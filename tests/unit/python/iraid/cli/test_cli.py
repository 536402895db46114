"""The iraid command against a control socket: what it asks, what it prints, how it ends."""

import json
import os
import pty
import re
import signal
import subprocess
import threading
from types import SimpleNamespace

import control_peer
import pytest
from control_peer import IRAID, ROOT, UUID, VERSION, ControlPeer, Failure, volume

from iraid import __version__
from iraid.cli import main as cli
from iraid.lio import target

MEMBERS = [f"10.0.0.{i}/iqn.2026-01.org.example:disk/0" for i in range(1, 5)]
CREATED = {"name": "v0", "uuid": UUID, "size_bytes": 300 << 30, "region_bytes": 4 << 20, "warnings": []}
TARGET_IQN = "iqn.2026-01.org.example:v0"


@pytest.fixture
def iraid(tmp_path, capsys, monkeypatch):
    """Run the command: iraid(answers, *arguments) -> status, out, err, calls."""
    path = tmp_path / "control.sock"
    monkeypatch.setenv("IRAID_SOCKET", str(path))
    monkeypatch.setattr(target, "CONFIGFS", tmp_path / "configfs")

    def run(answers, *arguments):
        path.unlink(missing_ok=True)
        with ControlPeer(path, answers) as peer:
            status = cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, calls=peer.calls, json=lambda: json.loads(out))

    return run


# --- what is asked ---


def test_create_sends_what_was_typed_and_nothing_else(iraid):
    done = iraid({"volume.create": CREATED}, "create", "v0", "--level", "5", *MEMBERS)
    assert done.status == 0
    assert done.calls == [
        ("volume.create", {"name": "v0", "level": 5, "chunk_bytes": 65536, "members": MEMBERS, "force": False})
    ]


def test_create_sends_every_option(iraid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = iraid(
        {"volume.create": CREATED},
        "create",
        "v0",
        "--level",
        "S-iRAID",
        "--chunk",
        "1M",
        "--force",
        "--chap-file",
        "secrets",
        "--initiator",
        "IQN.2026-01.org.Example:gw",
        "--give-up",
        "7",
        "--region-size",
        "8M",
        "--spare",
        "h/iqn.x:s/0",
        "--spare",
        "h/iqn.x:s/1",
        *MEMBERS,
    )
    assert done.calls[0][1] == {
        "name": "v0",
        "level": 0,
        "chunk_bytes": 1 << 20,
        "members": MEMBERS,
        "force": True,
        "region_bytes": 8 << 20,
        "spares": ["h/iqn.x:s/0", "h/iqn.x:s/1"],
        "chap_file": str(tmp_path / "secrets"),
        "initiator": "iqn.2026-01.org.example:gw",
        "give_up_seconds": 7,
    }


@pytest.mark.parametrize(
    ("members", "level", "others"),
    [(2, 1, [0]), (3, 5, [1, 10, 0]), (4, 5, [6, 10, 0]), (7, 5, [6, 10, 0]), (8, 6, [5, 10, 0]), (32, 6, [5, 10, 0])],
)
def test_without_a_level_the_one_that_fits_is_taken_and_explained(iraid, members, level, others):
    given = [f"10.0.0.{i}/iqn.2026-01.org.example:disk/0" for i in range(1, members + 1)]
    done = iraid({"volume.create": CREATED}, "create", "v0", *given)
    assert done.status == 0 and done.calls[0][1]["level"] == level
    assert f"Its level, {level}, is what fits {members} members: " in done.out
    assert [int(one) for one in re.findall(r"^  --level (\d+) ", done.out, re.MULTILINE)] == others
    assert "iraid delete v0" in done.out
    with_level = iraid({"volume.create": CREATED}, "create", "v0", "--level", level, *given)
    assert "what fits" not in with_level.out
    assert iraid({"volume.create": CREATED}, "create", "v0", "--json", *given).json()["name"] == "v0"


@pytest.mark.parametrize(
    ("typed", "level"),
    [("0", 0), ("1", 1), ("5", 5), ("6", 6), ("10", 10), ("s-iraid", 0), ("mirror", 1), ("P-iRAID", 5)],
)
def test_levels_have_numbers_and_names(iraid, typed, level):
    done = iraid({"volume.create": CREATED}, "create", "v0", "--level", typed, *MEMBERS)
    assert done.calls[0][1]["level"] == level


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"force": False, "take_over": False, "wait_seconds": 20}),
        (("--wait",), {"force": False, "take_over": False, "wait_seconds": 20}),
        (
            ("--force", "--yes", "--take-over", "--timeout", "60"),
            {"force": True, "take_over": True, "wait_seconds": 60},
        ),
        (("--no-wait",), {"force": False, "take_over": False, "wait_seconds": 0}),
    ],
)
def test_start_sends_how_to_wait(iraid, options, expected):
    done = iraid({"volume.start": volume()}, "start", "v0", *options)
    assert (done.status, done.calls) == (0, [("volume.start", {"name": "v0", **expected})])


def on_standby(**more):
    reason = "it is on standby on this gateway, and iraid activate makes it active"
    unknown = {"level": None, "chunk_bytes": None, "block_bytes": None, "size_bytes": None}
    return volume() | {"state": "standby", "role": "standby", "reason": reason, "members": []} | unknown | more


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"force": False, "take_over": False, "wait_seconds": 20}),
        (("--take-over", "--timeout", "60"), {"force": False, "take_over": True, "wait_seconds": 60}),
        (("--force", "--yes"), {"force": True, "take_over": False, "wait_seconds": 20}),
    ],
)
def test_activate_sends_how_and_says_the_role(iraid, options, expected):
    done = iraid({"volume.activate": volume()}, "activate", "v0", *options)
    assert (done.status, done.calls) == (0, [("volume.activate", {"name": "v0", **expected})])
    assert "v0: active on this gateway since 2023-11-1" in done.out


def test_activate_by_force_asks_first(iraid):
    done = iraid({"volume.activate": volume()}, "activate", "v0", "--force")
    assert (done.status, done.calls) == (2, []) and "LOST" in done.err


def test_standby_says_since_when_also_as_json(iraid):
    done = iraid({"volume.standby": on_standby()}, "standby", "v0")
    assert (done.status, done.calls) == (0, [("volume.standby", {"name": "v0"})])
    assert "v0: standby on this gateway since 2023-11-1" in done.out
    shown = iraid({"volume.standby": on_standby()}, "standby", "v0", "--json").json()
    assert (shown["role"], shown["role_since_ms"]) == ("standby", 1700000000000)


def test_a_start_of_what_is_on_standby_names_the_command_that_changes_it(iraid):
    done = iraid({"volume.start": on_standby()}, "start", "v0", "--take-over")
    assert done.status == 1 and "on standby" in done.err and "remedy: iraid activate v0 --take-over" in done.err


def test_standby_is_no_trouble(iraid):
    answers = {"volume.list": {"volumes": [on_standby()]}, "volume.status": on_standby(), "pool.list": {"spares": []}}
    done = iraid(answers, "status", "--health")
    assert done.status == 0 and "STANDBY" in done.out and "iraid activate v0" in done.out
    assert "standby on this gateway since" in iraid(answers, "status", "v0").out
    assert "standby" in iraid(answers, "list").out


def test_stop_discover_examine_send_their_parameters(iraid):
    assert iraid({"volume.stop": {}}, "stop", "v0").calls == [("volume.stop", {"name": "v0"})]
    found = iraid({"discover": {"targets": []}}, "discover", "10.0.0.1", "--initiator", TARGET_IQN)
    assert found.calls == [("discover", {"portal": "10.0.0.1", "initiator": TARGET_IQN})]
    found = iraid({"discover": {"targets": []}}, "discover", "--all-portals", "10.0.0.1")
    assert found.calls == [("discover", {"portal": "10.0.0.1", "all_portals": True})]
    seen = iraid({"examine": lambda p: {"member": p["member"]}}, "examine", *MEMBERS[:2])
    assert seen.calls == [("examine", {"member": m}) for m in MEMBERS[:2]]


# --- what is printed ---


def test_create_tells_size_and_what_comes_next_and_warns_on_stderr(iraid):
    answer = CREATED | {"warnings": ["member 2 is larger than the others"]}
    done = iraid({"volume.create": answer}, "create", "v0", "--level", "5", *MEMBERS)
    assert "300 GiB" in done.out
    assert "P-iRAID" in done.out
    assert "iraid export v0" in done.out
    assert done.err == "iraid: warning: member 2 is larger than the others\n"


def test_list_is_sorted_by_name(iraid):
    answer = {"volume.list": {"volumes": [volume("b"), volume("a")]}}
    lines = iraid(answer, "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "a", "b"]


def test_status_without_a_name_shows_all(iraid):
    answers = {
        "volume.list": {"volumes": [volume("b"), volume("a")]},
        "pool.list": {
            "spares": [
                {"device": "10.0.0.9:3260/iqn.2026-01.org.example:s/0", "size_bytes": 1 << 40, "block_bytes": 512}
            ]
        },
        "volume.status": lambda p: volume(p["name"]),
    }
    done = iraid(answers, "status")
    assert "10.0.0.9:3260/iqn.2026-01.org.example:s/0" in done.out
    assert re.findall(r"^Volume +(\w+)$", done.out, re.MULTILINE) == ["a", "b"]


def test_status_shows_the_volumes_also_when_the_spares_can_not_be_read(iraid):
    answers = {
        "volume.list": {"volumes": [volume()]},
        "volume.status": volume(),
        "pool.list": Failure(10, "internal", "gateway.conf:3: the line can't be read", "correct that file"),
    }
    done = iraid(answers, "status")
    assert (done.status, "UUID" in done.out) == (0, True)
    assert "spares are not shown: gateway.conf:3: the line can't be read" in done.err
    assert iraid(answers, "status", "--json").json()["spares"] == []


FILE_FAULT = Failure(1, "invalid", "/etc/iraid/volumes/v1.conf:58: give_upp: there is no such key", "correct the file")
ONE_WITH_A_FAULT = {
    "volume.list": {"volumes": [volume("v0"), {"name": "v1", "state": "failed", "reason": str(FILE_FAULT)}]},
    "volume.status": lambda p: FILE_FAULT if p["name"] == "v1" else volume(p["name"]),
    "pool.list": {"spares": []},
}


def test_status_shows_the_others_beside_a_volume_whose_file_has_a_fault(iraid):
    done = iraid(ONE_WITH_A_FAULT, "status")
    assert (done.status, done.err) == (0, "")
    assert re.findall(r"^Volume +(\w+)$", done.out, re.MULTILINE) == ["v0", "v1"]
    assert "give_upp: there is no such key" in done.out and "iraid config check v1" in done.out
    shown = iraid(ONE_WITH_A_FAULT, "status", "--json").json()["volumes"]
    assert [(one["name"], one["health"]["word"]) for one in shown] == [("v0", "OK"), ("v1", "FAILED")]


def test_health_of_a_volume_whose_file_has_a_fault_is_that_of_one_that_does_not_work(iraid):
    done = iraid(ONE_WITH_A_FAULT, "status", "--health")
    assert (done.status, done.err) == (2, "") and "v0" in done.out and "give_upp" in done.out
    assert iraid(ONE_WITH_A_FAULT, "status", "v0", "--health").status == 0
    named = iraid(ONE_WITH_A_FAULT, "status", "v1", "--health")
    assert named.status == 2 and "give_upp" in named.err


def test_status_ends_well_whatever_the_state(iraid):
    for state in ("active", "failed"):
        assert iraid({"volume.status": volume(state=state)}, "status", "v0").status == 0


def test_version_shows_both_sides(iraid):
    done = iraid({"version": VERSION}, "version")
    assert done.out == f"iraid {__version__}\nhandler 0.1.0 in tcmu-runner, pid 4711\n"


def test_a_terminal_gets_a_table_as_wide_as_it_is(tmp_path):
    path = tmp_path / "control.sock"
    controller, terminal = pty.openpty()
    with ControlPeer(path, {"volume.status": volume()}):
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        environment |= {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "TERM": "xterm"}
        subprocess.run(
            [IRAID, "--socket", path, "status", "v0"], stdout=terminal, check=True, env=environment, timeout=30
        )
    os.close(terminal)
    text = os.read(controller, 65536).decode()
    os.close(controller)
    assert "\x1b[" in text
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in text.splitlines()) <= 80


# --- JSON: the keys are a promise ---

MEMBER_KEYS = [
    "member",
    "role",
    "state",
    "link",
    "reason",
    "size_bytes",
    "stale_rows",
    "slow",
    "portals",
    "reads",
    "writes",
    "read_bytes",
    "written_bytes",
    "errors",
    "medium_errors",
    "medium_repaired",
    "digest_errors",
    "latency_ms",
]
VOLUME_KEYS = [
    "name",
    "state",
    "uuid",
    "reason",
    "role",
    "role_since_ms",
    "role_changes",
    "role_changes_hour",
    "level",
    "chunk_bytes",
    "block_bytes",
    "size_bytes",
    "epoch",
    "event",
    "write_cache",
    "regions",
    "resync",
    "rebuild",
    "scrub",
    "lost",
    "users",
    "requests_active",
    "memory",
    "rows",
    "reads_saved",
    "reads_reconstructed",
    "reads_hedged",
    "medium_repaired",
    "requests_merged",
    "sync_rate_min_bytes",
    "sync_rate_max_bytes",
    "log",
    "members",
    "empty_roles",
]


def test_json_of_status_has_all_keys_of_the_protocol(iraid):
    shown = iraid({"volume.status": volume()}, "status", "v0", "--json").json()
    assert list(shown) == [*VOLUME_KEYS, "health", "holder"]
    assert list(shown["members"][0]) == MEMBER_KEYS
    assert shown.pop("health")["word"] == "OK" and shown.pop("holder") is None
    assert shown | {"write_cache": None} == volume() | {"write_cache": None}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "degraded", "role": "active"}, "this gateway, with key 0xa"),
        ({"state": "failed", "role": "active"}, None),  # it wants to be, and another one is
        ({"state": "stopped", "role": None}, None),
    ],
)
def test_who_is_active_is_said_where_it_is_known(iraid, changes, said):
    answers = {"volume.status": volume(**changes), "volume.holder": {"name": "v0", "own_key": "0xa", "members": []}}
    shown = iraid(answers, "status", "v0").out
    assert said in shown if said else "Active on" not in shown, shown


def test_json_has_the_same_keys_when_the_handler_says_less_or_more(iraid):
    little = {"name": "v0", "state": "stopped", "new_in_2_0": 1}
    shown = iraid({"volume.status": little}, "status", "v0", "--json").json()
    assert list(shown) == [*VOLUME_KEYS, "health", "holder"]


@pytest.mark.parametrize(
    ("arguments", "answers", "expected"),
    [
        (["version"], {"version": VERSION}, {"version": __version__, "handler": VERSION}),
        (["create", "v0", "--level", "5", *MEMBERS], {"volume.create": CREATED}, CREATED),
        (["stop", "v0"], {"volume.stop": {}}, {"name": "v0", "state": "stopped"}),
        (
            ["delete", "v0", "--yes"],
            {"volume.status": volume(users=[]), "volume.delete": {}},
            {"name": "v0", "deleted": True, "wiped": True, "warnings": []},
        ),
        (
            ["discover", "10.0.0.1"],
            {"discover": {"targets": [{"iqn": TARGET_IQN, "luns": [{"lun": 0}]}]}},
            {
                "portal": "10.0.0.1",
                "targets": [
                    {
                        "iqn": TARGET_IQN,
                        "portals": [],
                        "error": None,
                        "skipped": None,
                        "luns": [
                            {
                                "lun": 0,
                                "vendor": "",
                                "product": "",
                                "serial": "",
                                "size_bytes": 0,
                                "block_bytes": 0,
                                "device_type": 0,
                                "writable": True,
                                "signature": None,
                                "error": None,
                            }
                        ],
                    }
                ],
            },
        ),
        (
            ["examine", MEMBERS[0]],
            {"examine": {"member": MEMBERS[0]}},
            {
                "members": [
                    {
                        "member": MEMBERS[0],
                        "session": {},
                        "signature": None,
                        "superblock": None,
                        "copies": {},
                        "error": None,
                        "device": {
                            "vendor": "",
                            "product": "",
                            "serial": "",
                            "size_bytes": 0,
                            "block_bytes": 0,
                            "writable": True,
                            "write_cache": True,
                        },
                    }
                ]
            },
        ),
    ],
)
def test_every_command_has_its_answer_as_json(iraid, arguments, answers, expected):
    done = iraid(answers, *arguments, "--json")
    assert (done.status, done.json(), done.err) == (0, expected, "")


@pytest.mark.parametrize("command", ["list", "status"])
def test_json_of_many_volumes_is_an_object_with_a_list(iraid, command):
    answers = {"volume.list": {"volumes": [volume()]}, "volume.status": volume(), "pool.list": {"spares": []}}
    shown = iraid(answers, command, "--json").json()
    assert list(shown) == (["volumes"] if command == "list" else ["volumes", "spares"])
    assert list(shown["volumes"][0]) == VOLUME_KEYS + ["health"] * (command == "status")


def test_json_of_a_failure_is_on_stdout_and_the_text_on_stderr(iraid):
    failure = Failure(2, "not_found", "no volume v9", "iraid list shows all volumes")
    done = iraid({"volume.status": failure}, "status", "v9", "--json")
    assert done.status == 1
    assert done.json() == {
        "error": {"type": "not_found", "message": "no volume v9", "remedy": "iraid list shows all volumes"}
    }
    assert done.err == "iraid: no volume v9\n  remedy: iraid list shows all volumes\n"


# --- failures ---


def test_an_error_says_what_and_what_to_do(iraid):
    failure = Failure(6, "unfit", "member X is read-only", "make it writable")
    done = iraid({"volume.create": failure}, "create", "v0", "--level", "5", *MEMBERS)
    assert (done.status, done.out) == (1, "")
    assert done.err == "iraid: member X is read-only\n  remedy: make it writable\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "v0", MEMBERS[0]],
        ["create", "v0", *(f"{one}{i}" for i in range(11) for one in MEMBERS[:3])],
        ["create", "v0", "--level", "5"],
        ["create", "v0", "--level", "7", *MEMBERS],
        ["create", "v0", "--level", "5", "--chunk", "64KB", "m"],
        ["create", "v0", "--level", "5", "--give-up", "0", "m"],
        ["nonsense"],
        ["list", "--nonsense"],
        ["start"],
        ["start", "v0", "--timeout", "soon"],
        ["export", "v0"],
        ["export", "v0", "--iqn", "not-an-iqn"],
        ["export", "v0", "--iqn", TARGET_IQN, "--portal", "host"],
        ["create", "v0", "--level", "5", "--initiator", "me", "m"],
        ["delete", "v0", "--json"],
        ["create", "v0", "--level", "5", "--region-size", "8MB", "m"],
        ["start", "v0", "--force"],
        ["start", "v0", "--force", "--json"],
    ],
)
def test_wrong_usage_ends_with_2_and_asks_nothing_of_the_members(iraid, arguments):
    done = iraid({"volume.status": volume(users=[])}, *arguments)
    assert done.status == 2
    assert re.fullmatch(r"iraid: .+\n  remedy: .+\n", done.err)
    assert [method for method, _ in done.calls if method != "volume.status"] == []


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["advise"], "type iraid advise NAME; iraid list shows the names of volumes; see iraid advise --help"),
        (["export", "v0"], "type iraid export --iqn IQN NAME; see iraid export --help"),
        (["replace", "v0"], "type iraid replace NAME OLD NEW; see iraid replace --help"),
        (["examin"], "did you mean iraid examine?  iraid --help lists all commands"),
        (["frobnicate"], "iraid --help lists all commands"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_who_leaves_something_out_or_mistypes_it_is_shown_what_to_type(iraid, arguments, remedy):
    done = iraid({}, *arguments)
    assert (done.status, done.out, done.calls) == (2, "", [])
    assert done.err.splitlines()[1] == f"  remedy: {remedy}", done.err


@pytest.mark.parametrize(("arguments", "says"), [(["help"], "Make a volume"), (["help", "scrub"], "iraid scrub")])
def test_help_is_a_command_to_who_looks_for_one(iraid, arguments, says):
    done = iraid({}, *arguments)
    assert done.status == 0 and says in done.out


def test_alone_it_says_how_to_begin(iraid):
    done = iraid({"volume.list": {"volumes": []}})
    assert done.status == 0
    assert "no volume yet" in done.out
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("  iraid")] == [
        "discover",
        "create",
        "import",
        "--help",
    ]


def test_alone_it_says_how_the_volumes_are_and_what_they_lack(iraid):
    volumes = {
        "idle": volume("idle", users=[]),
        "used": volume("used", users=["tcmu: used"]),
        "off": volume("off", users=[], state="stopped", reason=""),
    }
    answers = {"volume.list": {"volumes": list(volumes.values())}, "volume.status": lambda p: volumes[p["name"]]}
    done = iraid(answers)
    assert done.status == 0, done
    assert re.findall(r"^(\w+) +[A-Z]+:", done.out, re.MULTILINE) == ["idle", "off", "used"]
    assert re.findall(r"^  iraid export (\w+)", done.out, re.MULTILINE) == ["idle"]
    assert "iraid start off" in done.out


def test_alone_without_a_handler_it_says_where_to_look(tmp_path):
    done = subprocess.run([IRAID, "--socket", tmp_path / "none"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert re.fullmatch(r"iraid: control socket .* does not exist\n  remedy: .*iraid doctor.*\n", done.stderr)


def test_no_socket_ends_with_1_and_names_the_runner(tmp_path):
    done = subprocess.run([IRAID, "list", "--socket", tmp_path / "none"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr.startswith(f"iraid: control socket {tmp_path}/none does not exist\n  remedy: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("state", "options", "status"),
    [
        ("active", [], 0),
        ("degraded", [], 0),
        ("assembling", ["--no-wait"], 0),
        ("assembling", [], 1),
        ("suspended", [], 1),
        ("failed", [], 1),
        ("failed", ["--no-wait"], 1),
    ],
)
def test_start_succeeds_only_with_a_volume_that_works(iraid, state, options, status):
    answer = volume(state=state, reason="2 of 4 members are there")
    done = iraid({"volume.start": answer}, "start", "v0", *options)
    assert done.status == status
    assert (status == 0) == (done.err == "")
    assert "2 of 4 members are there" in done.out + done.err


def test_examine_looks_at_all_members_and_fails_if_one_did(iraid):
    gone = Failure(4, "unreachable", f"{MEMBERS[0]}: connection refused", "is the target up?")

    def answer(parameters):
        return gone if parameters["member"] == MEMBERS[0] else {"member": parameters["member"]}

    done = iraid({"examine": answer}, "examine", *MEMBERS[:2])
    assert done.status == 1
    assert MEMBERS[1] in done.out
    assert done.err.startswith(f"iraid: {MEMBERS[0]}: connection refused\n  remedy: is the target up?\n")
    as_json = iraid({"examine": answer}, "examine", *MEMBERS[:2], "--json")
    assert as_json.status == 1
    assert [m["error"] and m["error"]["type"] for m in as_json.json()["members"]] == ["unreachable", None]


@pytest.mark.parametrize(("answer", "started"), [("y\n", True), ("n\n", False)])
def test_start_by_force_says_what_it_costs_and_asks(tmp_path, answer, started):
    controller, terminal = pty.openpty()
    with ControlPeer(tmp_path / "s", {"volume.start": volume()}) as peer:
        os.write(controller, answer.encode())
        done = subprocess.run(
            [IRAID, "start", "v0", "--force", "--socket", tmp_path / "s"],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=30,
        )
    os.close(controller)
    os.close(terminal)
    assert "What was written since they left is LOST" in done.stderr
    assert (done.returncode == 0, bool(peer.calls)) == (started, started)


# --- interrupted ---


def interrupted(tmp_path, answers, waits_for, *arguments):
    """What a command says that is interrupted while the handler works on that method."""
    asked, over = threading.Event(), threading.Event()

    def hang(_parameters):
        asked.set()
        over.wait(30)
        return {}

    with ControlPeer(tmp_path / "s", answers | {waits_for: hang}) as peer:
        running = subprocess.Popen(
            [IRAID, *arguments, "--socket", tmp_path / "s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert asked.wait(30)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
        over.set()
    return SimpleNamespace(status=running.returncode, out=out, err=err.lstrip("\n"), calls=peer.calls)


GOES_ON = (
    "iraid: interrupted: the handler goes on with {0} of volume v0\n"
    "  remedy: see how it ends: iraid list; iraid status v0\n"
)


def test_an_interrupted_command_says_that_the_handler_goes_on_with_it(tmp_path):
    done = interrupted(tmp_path, {"volume.status": volume(users=[])}, "volume.delete", "delete", "v0", "--yes")
    assert (done.status, done.out, done.err) == (1, "", GOES_ON.format("delete"))


def test_who_no_longer_waits_for_a_new_volume_is_told_that_it_is_being_made(tmp_path):
    """It was answered, and its parity is being made."""
    done = interrupted(
        tmp_path,
        {"volume.create": CREATED, "events": control_peer.page()},
        "volume.status",
        "create",
        "v0",
        "--level",
        "5",
        "--wait",
        "--json",
        *MEMBERS,
    )
    assert (done.status, done.err) == (1, GOES_ON.format("create"))
    assert json.loads(done.out)["error"]["type"] == "interrupted"


def test_a_command_about_no_volume_says_where_to_look_when_it_is_interrupted(tmp_path):
    done = interrupted(tmp_path, {}, "pool.add", "add-spare", "--gateway", MEMBERS[0])
    assert done.err == (
        "iraid: interrupted: the handler goes on with add-spare\n  remedy: see how it ends: iraid list; iraid status\n"
    )


@pytest.mark.parametrize("arguments", [["delete", "v0", "--yes"], ["status", "v0"], ["wait", "v0"]])
def test_nothing_goes_on_where_nothing_but_questions_was_sent(tmp_path, arguments):
    answers = {"events": control_peer.page()}
    done = interrupted(tmp_path, answers, "volume.status", *arguments)
    assert (done.status, done.err) == (1, "iraid: interrupted: nothing more was done\n")


# --- delete ---


def test_delete_asks_for_yes_when_nobody_can_be_asked(iraid):
    done = iraid({"volume.status": volume(users=[])}, "delete", "v0")
    assert done.status == 2
    assert "--yes" in done.err
    assert "volume.delete" not in [method for method, _ in done.calls]


@pytest.mark.parametrize(("answer", "deleted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_delete_asks_on_a_terminal(tmp_path, answer, deleted):
    controller, terminal = pty.openpty()
    answers = {"volume.status": volume(users=[]), "volume.delete": {}}
    with ControlPeer(tmp_path / "s", answers) as peer:
        os.write(controller, answer.encode())
        done = subprocess.run(
            [IRAID, "delete", "v0", "--socket", tmp_path / "s"],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=30,
        )
    os.close(controller)
    os.close(terminal)
    assert "Delete volume v0 and all of its data?" in done.stderr
    assert (done.returncode == 0) == deleted
    assert (("volume.delete", {"name": "v0", "wipe": True}) in peer.calls) == deleted


def test_delete_tells_whose_superblock_is_still_there(iraid):
    text = f"the superblock of {MEMBERS[2]} was not wiped: no answer"
    answers = {"volume.status": volume(users=[]), "volume.delete": {"warnings": [text]}}
    done = iraid(answers, "delete", "v0", "--yes")
    assert (done.status, done.err) == (0, f"iraid: warning: {text}\n")
    assert "Volume v0 is deleted" in done.out and "iraid examine" in done.out
    as_json = iraid(answers, "delete", "v0", "--yes", "--json")
    assert as_json.json() == {"name": "v0", "deleted": True, "wiped": False, "warnings": [text]}
    assert as_json.err == done.err


def test_delete_can_keep_the_superblocks(iraid):
    done = iraid({"volume.status": volume(users=[]), "volume.delete": {}}, "delete", "v0", "--yes", "--no-wipe")
    assert done.calls[-1] == ("volume.delete", {"name": "v0", "wipe": False})


def test_delete_refuses_a_volume_in_use(iraid):
    done = iraid({"volume.status": volume(users=["tcmu: v0"])}, "delete", "v0", "--yes")
    assert done.status == 1
    assert "in use by tcmu: v0" in done.err
    assert "iraid unexport v0" in done.err
    assert [method for method, _ in done.calls] == ["volume.status"]


def test_delete_refuses_a_volume_that_lio_still_has(iraid, tmp_path):
    """As the kernel shows a tcmu device; another volume's name that begins alike is no match."""
    for name, config in (("lun-a", "iraid/v0"), ("lun-b", "iraid/v0x"), ("lun-c", "qcow/v0")):
        folder = tmp_path / "configfs" / "target" / "core" / f"user_{name[-1]}" / name
        folder.mkdir(parents=True)
        (folder / "info").write_text(
            f"Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 8192\n"
            f"        Config: {config}  Size: 322122547200 MaxDataAreaMB: 64\n"
        )
    done = iraid({"volume.status": volume(users=[])}, "delete", "v0", "--yes")
    assert done.status == 1
    assert "is exported (storage object lun-a)" in done.err


# --- export: what is checked before LIO is touched ---


@pytest.fixture
def no_lio(monkeypatch):
    """Fails the test if LIO is touched."""
    monkeypatch.setattr(target, "check_root", lambda: None)
    monkeypatch.setattr(target, "Lio", lambda: pytest.fail("LIO was touched"))


EXPORT = ["export", "v0", "--iqn", TARGET_IQN, "--acl", "iqn.1993-08.org.debian:01:abc"]


@pytest.mark.parametrize("arguments", [EXPORT, ["unexport", "v0"]])
def test_lio_is_not_touched_unless_the_runner_answers(iraid, no_lio, arguments):
    """The kernel hangs when its runner is dead: nothing may be tried."""
    other = iraid({"version": VERSION | {"program": "iraid-engine"}}, *arguments)
    assert other.status == 1
    assert "iraid-engine (pid 4711) serves the control socket" in other.err
    assert "tcmu-runner" in other.err
    silent = iraid({}, *arguments)
    assert silent.status == 1


@pytest.mark.parametrize(
    ("state", "size", "remedy"),
    [
        ("stopped", 0, "iraid start v0"),
        ("assembling", 0, "iraid start v0 --wait"),
        ("suspended", 1 << 30, "iraid status v0"),
        ("failed", 0, "iraid status v0"),
        ("active", 0, "iraid status v0"),
    ],
)
def test_export_refuses_a_volume_whose_size_is_not_certain(iraid, no_lio, state, size, remedy):
    answers = {"version": VERSION, "volume.status": volume(state=state, size_bytes=size, reason="R")}
    done = iraid(answers, *EXPORT)
    assert done.status == 1
    assert f"volume v0 is {state} (R)" in done.err
    assert remedy in done.err


def test_export_refuses_secrets_that_others_can_read(iraid, no_lio, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.write_text("user\nvery-secret-words\n")
    secrets.chmod(0o640)
    done = iraid({"version": VERSION, "volume.status": volume()}, *EXPORT, "--chap-file", secrets)
    assert done.status == 1
    assert "mode 0640" in done.err
    assert "chmod 0600" in done.err
    assert "very-secret" not in done.out + done.err


def test_export_needs_root(iraid, monkeypatch):
    monkeypatch.setattr(target.os, "geteuid", lambda: 1000)
    done = iraid({"version": VERSION}, *EXPORT)
    assert (done.status, done.calls) == (1, [])
    assert "root" in done.err


@pytest.mark.skipif(os.path.isdir("/sys/kernel/config"), reason="this kernel may have LIO")
def test_export_on_a_kernel_without_lio_says_what_to_load(iraid, monkeypatch, tmp_path):
    monkeypatch.setenv("IRAID_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(target, "check_root", lambda: None)
    done = iraid({"version": VERSION, "volume.status": volume()}, *EXPORT)
    assert done.status == 1
    assert "this kernel offers no LIO" in done.err
    assert "modprobe" in done.err


# --- the program as installed ---


def test_the_launcher_finds_its_package_when_installed(tmp_path):
    (tmp_path / "sbin").mkdir()
    (tmp_path / "share" / "iraid").mkdir(parents=True)
    (tmp_path / "sbin" / "iraid").write_bytes(IRAID.read_bytes())
    (tmp_path / "sbin" / "iraid").chmod(0o755)
    (tmp_path / "share" / "iraid" / "iraid").symlink_to(ROOT / "python" / "iraid")
    done = subprocess.run([tmp_path / "sbin" / "iraid", "--version"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"iraid {__version__}\n")


def test_the_version_is_the_projects():
    project = re.search(r"project\(iraid VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert project[1] == __version__
    for page in (ROOT / "docs/man").glob("*.scd"):
        assert f'"iraid {__version__}"' in page.read_text().splitlines()[0], page
