"""iraid doctor: each fault that can be seen is found, with commands that can be typed; and nothing is found on a gateway
without one."""

import re
import json
import socket
import subprocess
from copy import deepcopy

import pytest
from control_peer import ROOT, VERSION, ControlPeer, Failure, member, volume, write_log
from remedies import assert_parses

from iraid.cli import main as cli
from iraid.control import model
from iraid.lio import lio_tree
from iraid.watch import advice, doctor, facts
from iraid.watch.facts import Facts, Process, Secret

IQN, INITIATOR = "iqn.2026-01.org.example:v0", "iqn.1993-08.org.debian:01:abc"
NEGOTIATED = {
    "target_segment_bytes": 262144,
    "first_burst_bytes": 262144,
    "max_burst_bytes": 1 << 20,
    "initial_r2t": False,
    "immediate_data": True,
}
SESSION = """InitiatorName: iqn.x
LIO Session ID: 17   ISID: 0x00 02 3d 00 00 01  TSIH: 1  SessionType: Normal
---------------------[iSCSI Session Values]-----------------------
  CmdSN/WR  :  CmdSN/WC  :  ExpCmdSN  :  MaxCmdSN  :     ITT    :     TTT
 0x00000080   0x00000044   0x00008b53   0x00008b96   0x00000025   0x00000023
"""
UNIT = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NRestarts": "0",
    "DropInPaths": "/etc/a.conf /usr/lib/systemd/system/x.service.d/iraid.conf",
    "NeedDaemonReload": "no",
}
SAVED = {
    "storage_objects": [
        {"plugin": "user", "name": "v0", "config": "iraid/v0", "size": 300 << 30},
        {"plugin": "fileio", "name": "other"},
    ],
    "targets": [
        {
            "wwn": IQN,
            "tpgs": [
                {
                    "luns": [{"index": 0, "storage_object": "/backstores/user/v0"}],
                    "portals": [{"ip_address": "0.0.0.0", "port": 3260}],
                    "node_acls": [
                        {
                            "node_wwn": INITIATOR,
                            "chap_password": "x",
                            "mapped_luns": [{"index": 0, "tpg_lun": 0, "write_protect": False}],
                        }
                    ],
                }
            ],
        }
    ],
}


def a_path(name, **changes):
    return {
        "member": name,
        "path": {
            "portal": name.split("/")[0],
            "negotiated": NEGOTIATED | changes,
            "window_commands": 64,
            "window_commands_max": 64,
        },
    }


def healthy():
    """All is well, and all is known."""
    one = model.read(
        model.Volume, volume(members=[*(member(i) for i in range(4)), member(9, role=None, state="spare")])
    )
    return Facts(
        handler=model.Version(facts.__version__, "tcmu-runner", 4711),
        process=Process(4711, 1_000_000, -900),
        kernel="6.1.0",
        modules=set(facts.MODULES),
        configfs=True,
        bus=True,
        runner_version="1.5.4",
        units={name: dict(UNIT) for name in facts.UNITS if name != "target.service"},
        gateway=advice.Gateway(6 << 20, 4 << 20, True),
        volumes=[one],
        paths={"v0": model.read(model.Paths, {"name": "v0", "members": [a_path(m.member) for m in one.members]})},
        portals={m.portals[0]: None for m in one.members},
        lio=lio_tree.Tree(
            [lio_tree.Lun("v0", "v0", 300 << 30, 512, 8192, 64)],
            [lio_tree.Export(IQN, 1, True, {0: "v0"}, ["0.0.0.0:3260"], [INITIATOR])],
            {"v0", "other", IQN},
        ),
        saved_file="/etc/rtslib-fb-target/saveconfig.json",
        saved_mode=0o600,
        saved=deepcopy(SAVED),
        secrets=[Secret("/etc/iraid/secrets/v0", ["v0"], 0o600)],
        clock=True,
        journal=[],
        kernel_journal=[],
        configuration=[],
        free_bytes={"/var/lib/iraid": 1 << 30},
    )


def test_a_healthy_gateway_is_told_that_it_is():
    found = doctor.examine(healthy())
    assert [one for one in found if one.grade != "ok"] == []
    assert len(found) == len(doctor.CHECKS) and doctor.exit_status(found) == 0


def unit(name, **changes):
    return lambda f: f.units[name].update(changes)


def with_log(**changes):
    return lambda f: setattr(f.volumes[0], "log", model.read(model.Log, write_log(**changes)))


def of_volume(**changes):
    return lambda f: setattr(f, "volumes", [model.read(model.Volume, volume(**changes))])


def put(**changes):
    def change(f):
        for name, value in changes.items():
            setattr(f, name, value)

    return change


def on_lun(**changes):
    return lambda f: [setattr(f.lio.luns[0], name, value) for name, value in changes.items()]


def on_export(**changes):
    return lambda f: [setattr(f.lio.exports[0], name, value) for name, value in changes.items()]


def path_of(index, **changes):
    def change(f):
        for name, value in changes.items():
            setattr(f.paths["v0"].members[index].path.negotiated, name, value)

    return change


def no_handler(f):
    f.handler, f.handler_error, f.process = None, "control socket /run/iraid/control.sock does not exist", None
    f.volumes, f.paths, f.portals = [], {}, {}


def silent_handler(f):
    no_handler(f)
    f.process = Process(4711)


def far_away(f):
    """64 ms, and half of 6 MiB as window: 48 MiB/s."""
    f.paths["v0"].members[2].path.tcp = model.Tcp(rtt_us=70_000, min_rtt_us=64_000)
    f.gateway = advice.Gateway(6 << 20, 64 << 20, False)


def two_on_one_host(f):
    f.volumes[0].members[3].portals = ["10.0.0.1:3261"]


def small_spare(f):
    f.volumes[0].members[4].size_bytes = 1 << 30


EXPORT = f"iraid export v0 --iqn {IQN} --portal 0.0.0.0:3260 --acl {INITIATOR} --no-chap"


def idle(change):
    """And LIO runs nothing, nor is anything saved."""

    def both(f):
        change(f)
        f.lio, f.saved = lio_tree.Tree(), {}

    return both


# name of the check, what is wrong, grade, a part of the text, a part of a remedy
CASES = [
    ("handler", no_handler, "bad", "tcmu-runner does not run", "systemctl start tcmu-runner"),
    ("handler", silent_handler, "bad", "does not answer", "systemctl restart tcmu-runner"),
    ("handler", put(handler_error="volume.status: no"), "bad", "some requests failed", "iraid version"),
    ("handler", put(handler=model.Version("0.0.9", "tcmu-runner")), "warning", "is version 0.0.9", "upgrade-runner"),
    (
        "handler",
        put(process=Process(1, replaced=["/usr/lib/x/handler_iraid.so"])),
        "warning",
        "handler_iraid.so was replaced",
        "upgrade-runner",
    ),
    (
        "handler",
        put(handler=model.Version(facts.__version__, "iraid-engine")),
        "note",
        "served by iraid-engine",
        "iraid version",
    ),
    ("runner", put(runner_version="1.10.0"), "warning", "tcmu-runner is 1.10.0", "apt install"),
    ("runner", put(process=Process(1, 1024, -900)), "warning", "may open only 1024 files", "upgrade-runner"),
    ("runner", put(process=Process(1, 1 << 20, 0)), "warning", "oom_score_adj 0", "daemon-reload"),
    (
        "kernel",
        put(modules={"target_core_mod"}),
        "bad",
        "target_core_user, iscsi_target_mod are not loaded",
        "modprobe -a target_core_user iscsi_target_mod",
    ),
    ("kernel", put(configfs=False), "bad", "configfs is not mounted", "mount -t configfs"),
    ("d-bus", put(bus=False), "bad", "no name on the system bus", "systemctl status dbus"),
    (
        "units",
        unit("tcmu-runner.service", UnitFileState="disabled"),
        "bad",
        "does not start at boot",
        "systemctl enable tcmu-runner.service",
    ),
    ("units", unit("tcmu-runner.service", DropInPaths="/etc/other.conf"), "bad", "drop-in iraid.conf", "daemon-reload"),
    (
        "units",
        unit("tcmu-runner.service", NRestarts="3"),
        "warning",
        "restarted 3 times",
        "journalctl -b -u tcmu-runner",
    ),
    (
        "units",
        unit("rtslib-fb-targetctl.service", ActiveState="failed", Result="exit-code"),
        "bad",
        "has failed (exit-code)",
        "journalctl -b -u rtslib-fb-targetctl",
    ),
    (
        "units",
        idle(unit("rtslib-fb-targetctl.service", ActiveState="inactive")),
        "bad",
        "is inactive",
        "systemctl start",
    ),
    ("units", unit("rtslib-fb-targetctl.service", LoadState="not-found"), "bad", "no unit restores LIO", "apt install"),
    (
        "units",
        unit("iraid-monitor.service", ActiveState="failed", Result="exit-code"),
        "warning",
        "iraid-monitor.service has failed",
        "journalctl",
    ),
    (
        "units",
        unit("iraid-scrub.timer", NeedDaemonReload="yes"),
        "warning",
        "unit files were changed",
        "systemctl daemon-reload",
    ),
    ("volumes", of_volume(state="failed", reason="2 members are out"), "bad", "v0 is FAILED: 2 members", "iraid start"),
    (
        "volumes",
        of_volume(
            state="degraded", members=[member(0), member(1), member(2), member(3, state="missing", link="closed")]
        ),
        "warning",
        "v0 is DEGRADED",
        "iraid replace v0 3 DEVICE",
    ),
    (
        "redundancy",
        two_on_one_host,
        "warning",
        "members 0, 3 are on the same machine, 10.0.0.1",
        "iraid replace v0 3 DEVICE",
    ),
    ("redundancy", lambda f: f.volumes[0].members.pop(), "note", "v0 has no spare", "iraid add-spare v0 DEVICE"),
    (
        "redundancy",
        small_spare,
        "warning",
        "has 1 GiB, less than the smallest member of v0, 100 GiB",
        "iraid remove v0 10.0.0.10",
    ),
    (
        "redundancy",
        put(spares=[model.Spare("10.0.0.8:3260/iqn.x:y/0", 1 << 30)]),
        "warning",
        "has 1 GiB",
        "iraid remove --gateway 10.0.0.8",
    ),
    (
        "redundancy",
        with_log(too_small=True),
        "warning",
        "v0: its members have too little room for the write log",
        "iraid set v0 --log off",
    ),
    (
        "redundancy",
        with_log(mode="always", too_small=True),
        "warning",
        "v0: its members have too little room for the write log, so writes are not logged",
        "iraid set v0 --log off",
    ),
    (
        "volumes",
        with_log(given_up=True),
        "warning",
        "v0 is ATTENTION: the write log was GIVEN UP",
        "iraid set v0 --log degraded",
    ),
    (
        "redundancy",
        unit("iraid-scrub.timer", ActiveState="inactive"),
        "warning",
        "no volume is scrubbed regularly",
        "systemctl enable --now iraid-scrub.timer",
    ),
    (
        "redundancy",
        unit("iraid-monitor.service", ActiveState="inactive"),
        "note",
        "iraid-monitor does not run",
        "systemctl enable --now iraid-monitor",
    ),
    (
        "portals",
        lambda f: f.portals.update({"10.0.0.2:3260": "Connection refused"}),
        "bad",
        "portal 10.0.0.2:3260 accepts no connection: Connection refused (for v0 1)",
        "iraid discover 10.0.0.2:3260",
    ),
    ("tuning", path_of(1, initial_r2t=True), "warning", "v0 member 1: InitialR2T is Yes", "iraid advise v0"),
    (
        "tuning",
        far_away,
        "warning",
        "over 64 ms no more than 46.9 MiB/s can be read from a member",
        'sysctl -w net.ipv4.tcp_rmem="4096 131072 16777216"',
    ),
    ("exports", on_lun(transfer_sectors=128), "warning", "accepts 64 KiB a command", "iraid unexport v0"),
    ("exports", on_lun(data_area_mib=1024), "note", "1024 MiB of memory", "iraid unexport v0"),
    ("exports", on_lun(active=False), "bad", "is not activated", "journalctl"),
    ("exports", on_lun(volume="gone"), "bad", "belongs to volume gone, which does not exist", "iraid import"),
    ("exports", of_volume(users=[]), "bad", "LUN v0 has no volume behind it", "iraid config check v0"),
    (
        "exports",
        on_lun(size_bytes=200 << 30),
        "note",
        "LUN v0 has 200 GiB, but its volume has 300 GiB",
        "iraid grow v0",
    ),
    ("exports", on_export(enabled=False), "bad", "is disabled", f"targetcli /iscsi/{IQN}/tpg1 enable"),
    ("exports", on_export(portals=[]), "bad", "has no portal", "portals create"),
    (
        "exports",
        on_export(windows={INITIATOR: lio_tree.Window(64, 8)}),
        "warning",
        f"initiator {INITIATOR} may send 8 of 64 commands to target {IQN} at a time, though",
        "sg_reset --target DISK",
    ),
    ("exports", on_export(demo_mode=True), "note", "lets any initiator log in", "generate_node_acls=0"),
    ("exports", on_export(initiators=[]), "warning", "has no ACL", "acls create"),
    ("exports", put(saved=None), "bad", "is not saved", "targetcli saveconfig"),
    ("exports", put(saved=None, saved_error="it is not JSON"), "bad", "it is not JSON", "ls -l"),
    ("exports", put(saved={}), "warning", "LUN v0 is not in it", "targetcli saveconfig"),
    ("exports", put(lio=lio_tree.Tree()), "warning", "LUN v0 is in it, and does not run", "targetctl restore"),
    (
        "exports",
        on_export(initiators=[INITIATOR, "iqn.x:other"]),
        "warning",
        f"target {IQN} has other initiators in it",
        "targetcli saveconfig",
    ),
    ("exports", on_export(initiators=["iqn.x:other"]), "warning", f"target {IQN} has other initiators in it", EXPORT),
    (
        "secrets",
        put(secrets=[Secret("/etc/iraid/secrets/v0", ["v0"], 0o640)]),
        "bad",
        "mode 0640",
        "chmod 0600 /etc/iraid/secrets/v0",
    ),
    ("secrets", put(secrets=[Secret("/etc/iraid/secrets/v0", ["v0"])]), "bad", "does not exist", "install -m 0600"),
    (
        "secrets",
        put(secrets=[Secret("/etc/iraid/secrets/v0", ["v0"], 0o600, 1000)]),
        "bad",
        "belongs to user 1000",
        "chown root",
    ),
    ("secrets", put(saved_mode=0o644), "bad", "has mode 0644: others can read its secrets", "chmod 0600"),
    (
        "configuration",
        put(configuration=["/etc/iraid/volumes/v0.conf:3: give_upp: is not known; correct it"]),
        "bad",
        "v0.conf:3",
        "iraid config check",
    ),
    ("clock", put(clock=False), "warning", "not synchronised", "timedatectl set-ntp true"),
    ("space", put(free_bytes={"/var/lib/iraid": 1000}), "bad", "has 1000 B left", "df -h /var/lib/iraid"),
    (
        "log",
        put(journal=["a", "b", "c"]),
        "warning",
        "3 errors of tcmu-runner since the boot, the last: b; c",
        "journalctl -b -p err",
    ),
    ("log", put(kernel_journal=["INFO: task blocked"]), "warning", "1 errors of the kernel", "journalctl -b -k"),
]


@pytest.mark.parametrize(("name", "change", "grade", "text", "remedy"), CASES)
def test_what_is_wrong_is_found_with_what_to_type(name, change, grade, text, remedy):
    given = healthy()
    change(given)
    found = [one for one in doctor.examine(given) if one.check == name and one.grade != "ok"]
    mine = [one for one in found if text in one.text]
    assert mine, found
    assert mine[0].grade == grade
    assert any(remedy in one for one in mine[0].remedies)
    for one in mine[0].remedies:
        assert_parses(one)


def test_each_check_has_a_fault_that_it_finds():
    assert {case[0] for case in CASES} == {name for name, *_ in doctor.CHECKS}


@pytest.mark.parametrize("change", [case[1] for case in CASES if case[0] not in ("handler", "volumes", "redundancy")])
def test_a_fault_is_found_once(change):
    given = healthy()
    change(given)
    assert len({one.check for one in doctor.examine(given) if one.grade in ("warning", "bad")}) <= 1


def test_what_is_not_known_is_no_fault():
    found = doctor.examine(Facts(handler=model.Version(facts.__version__, "tcmu-runner")))
    assert {one.grade for one in found} == {"ok", "unknown"}
    assert doctor.exit_status(found) == 0


def test_volumes_that_could_not_be_asked_for_are_not_told_to_be_well():
    given = healthy()
    put(volumes=[], paths={}, portals={}, handler_error="no memory", volumes_error="no memory")(given)
    grades = {one.check: (one.grade, one.text) for one in doctor.examine(given)}
    for name in ("volumes", "redundancy", "portals", "tuning"):
        assert grades[name] == ("unknown", "not looked at: the handler does not say which volumes there are: no memory")
    assert grades["handler"][0] == "bad"


def test_a_log_that_is_switched_off_needs_no_room():
    given = healthy()
    with_log(mode="off", too_small=True)(given)
    assert [one for one in doctor.examine(given) if one.grade != "ok"] == []


def test_a_gateway_without_volumes_is_told_that_it_has_none():
    given = healthy()
    put(volumes=[], lio=lio_tree.Tree(), saved={})(given)
    assert [(one.grade, one.text) for one in doctor.examine(given) if one.check == "volumes"] == [
        ("ok", "there are no volumes")
    ]


def beside_others(f):
    """Of LIO only what others have made runs; one of it is not saved."""
    f.lio = lio_tree.Tree(names={"other", "iqn.2026-01.org.example:other"})


def without_other(f):
    f.lio.names.discard("other")


@pytest.mark.parametrize(
    "change",
    [
        beside_others,
        on_export(luns={}),
        on_export(portals=[]),
        lambda f: f.lio.luns.clear(),
        lambda f: f.lio.exports.clear(),
    ],
)
def test_what_is_missing_comes_back_without_an_end_of_what_runs(change):
    """targetctl restore clears all of LIO first; saveconfig drops what does not run."""
    given = healthy()
    change(given)
    remedies = [remedy for one in doctor.examine(given) for remedy in one.remedies]
    assert EXPORT in remedies
    assert not [one for one in remedies if "restore" in one or "saveconfig" in one]


@pytest.mark.parametrize("missing", [without_other, on_export(portals=["10.0.0.9:3260"])])
def test_what_runs_is_saved_only_when_nothing_that_is_saved_is_missing(missing):
    given = healthy()
    given.lio.luns.append(lio_tree.Lun("v1", "v1", 0, 512, 8192, 64))
    given.volumes.append(model.read(model.Volume, volume("v1")))
    found = next(one for one in doctor.examine(given) if "LUN v1 is not in it" in one.text)
    assert found.remedies == ["targetcli saveconfig"] and "dropped" not in found.text
    missing(given)
    found = next(one for one in doctor.examine(given) if "LUN v1 is not in it" in one.text)
    assert "targetcli saveconfig" not in found.remedies and "would be removed" in found.text
    for remedy in found.remedies:
        assert_parses(remedy)


@pytest.mark.parametrize("refuses", [False, True])
def test_what_is_brought_back_refuses_reservations_as_before(refuses):
    given = healthy()
    given.lio.luns, given.lio.exports = [], []
    given.lio.names.add("something")
    given.saved["storage_objects"][0]["attributes"] = {"emulate_pr": int(not refuses)}
    commands = [remedy for one in doctor.examine(given) for remedy in one.remedies if "iraid export v0 --iqn" in remedy]
    assert commands and all(("--no-reservations" in one) == refuses for one in commands)


@pytest.mark.parametrize("here", [0, 2], ids=["active", "standby"])
def test_a_pair_is_saved_on_standby(here):
    """targetcli writes the states of the moment: after a boot both gateways would say that they serve it."""
    given = healthy()
    given.lio.luns[0].pair = 1
    given.saved["storage_objects"][0]["alua_tpgs"] = [
        {"name": "iraid_here", "tg_pt_gp_id": 1, "alua_access_state": here},
        {"name": "iraid_peer", "tg_pt_gp_id": 2, "alua_access_state": 2},
    ]
    found = [one for one in doctor.examine(given) if "says of LUN v0 which gateway serves it" in one.text]
    assert [one.grade for one in found] == ["warning"] * (here == 0)
    for one in found:
        (remedy,) = one.remedies
        assert f"iraid export v0 --iqn {IQN}" in remedy and "--pair 1" in remedy
        assert_parses(remedy)


def test_what_runs_is_saved_again_without_its_secrets():
    given = healthy()
    given.lio.luns[0].pair = 1
    given.saved["storage_objects"][0]["alua_tpgs"] = [
        {"name": "iraid_here", "tg_pt_gp_id": 1, "alua_access_state": 0},
        {"name": "iraid_peer", "tg_pt_gp_id": 2, "alua_access_state": 2},
    ]
    given.saved["targets"][0]["tpgs"][0]["attributes"] = {"authentication": 1, "generate_node_acls": 0}
    (remedy,) = [remedy for one in doctor.examine(given) for remedy in one.remedies if "--pair" in remedy]
    assert remedy.endswith(f"--acl {INITIATOR} --pair 1")


def test_a_configuration_that_can_not_be_read_is_not_overwritten():
    given = healthy()
    given.saved, given.saved_error = None, "it is not JSON"
    given.lio.exports[0].enabled = False
    assert not [remedy for one in doctor.examine(given) for remedy in one.remedies if remedy == doctor.SAVE]


def test_an_export_that_asks_for_secrets_comes_back_with_them():
    given = healthy()
    given.saved["targets"][0]["tpgs"][0]["attributes"] = {"authentication": 1, "generate_node_acls": 0}
    given.lio.luns, given.lio.exports = [], []
    remedies = [remedy for one in doctor.examine(given) for remedy in one.remedies]
    assert EXPORT.replace("--no-chap", "--chap-file FILE") in remedies
    for remedy in remedies:
        assert_parses(remedy)


def secret(number):
    return {"chap_userid": f"user{number}", "chap_password": "twelve or more"}


def test_a_lun_comes_back_for_those_who_had_it_and_no_other_initiator_of_its_target():
    """Two that write to one disk destroy what is on it."""
    given = healthy()
    given.saved["storage_objects"].append({"plugin": "user", "name": "v1", "config": "iraid/v1", "size": 1 << 30})
    group = given.saved["targets"][0]["tpgs"][0]
    group["attributes"] = {"authentication": 1, "generate_node_acls": 0}
    group["luns"].append({"index": 1, "storage_object": "/backstores/user/v1"})
    group["node_acls"] = [
        {"node_wwn": "iqn.2026-01.org.example:a", "mapped_luns": [{"index": 0, "tpg_lun": 0}], **secret(1)},
        {"node_wwn": "iqn.2026-01.org.example:b", "mapped_luns": [{"index": 0, "tpg_lun": 1}], **secret(2)},
        {"node_wwn": "iqn.2026-01.org.example:c", "mapped_luns": [{"index": 3, "tpg_lun": 1}], **secret(2)},
        {"node_wwn": "iqn.2026-01.org.example:d", "mapped_luns": [{"index": 0, "tpg_lun": 1}], **secret(3)},
    ]
    given.lio.luns, given.lio.exports = [], []
    told = [remedy for one in doctor.examine(given) for remedy in one.remedies if "iraid export" in remedy]
    assert [(words.split()[2], re.findall(r"--acl (\S+)", words)) for words in told] == [
        ("v0", ["iqn.2026-01.org.example:a"]),
        ("v1", ["iqn.2026-01.org.example:b", "iqn.2026-01.org.example:c"]),
        ("v1", ["iqn.2026-01.org.example:d"]),
    ]
    for remedy in told:
        assert "--chap-file FILE" in remedy
        assert_parses(remedy)


def test_an_initiator_that_may_only_read_comes_back_as_such():
    given = healthy()
    (acl,) = given.saved["targets"][0]["tpgs"][0]["node_acls"]
    index = given.saved["targets"][0]["tpgs"][0]["luns"][0]["index"]
    acl["mapped_luns"] = [{"index": 5, "tpg_lun": index, "write_protect": True}]
    given.lio.luns, given.lio.exports = [], []
    remedies = [remedy for one in doctor.examine(given) for remedy in one.remedies]
    assert EXPORT.replace("--acl ", "--acl-read-only ") in remedies
    for remedy in remedies:
        assert_parses(remedy)


def test_all_units_of_the_packages_are_looked_at():
    ours = {path.name.removesuffix(".in") for path in (ROOT / "config/systemd").iterdir() if path.is_file()}
    assert ours and ours <= set(facts.UNITS)


@pytest.mark.parametrize("changes", [{"ActiveState": "failed", "Result": "exit-code"}, {"ActiveState": "inactive"}])
def test_lio_is_not_restored_under_exports_that_run(changes):
    """With none the unit is started: CASES."""
    given = healthy()
    unit("rtslib-fb-targetctl.service", **changes)(given)
    found = next(one for one in doctor.examine(given) if one.grade == "bad")
    assert found.remedies == ["journalctl -b -u rtslib-fb-targetctl.service"]
    assert "when no initiator uses them" in found.text


def test_without_a_kernel_nothing_is_asked_of_lio():
    given = healthy()
    given.handler.program, given.modules, given.configfs, given.bus = "iraid-engine", set(), False, False
    given.units["rtslib-fb-targetctl.service"]["LoadState"] = "not-found"
    assert doctor.exit_status(doctor.examine(given)) == 0


@pytest.mark.parametrize(
    ("grades", "status"),
    [(["ok", "unknown", "note"], 0), (["ok", "warning"], 1), (["warning", "bad", "ok"], 2), ([], 0)],
)
def test_the_exit_status_is_that_of_the_worst(grades, status):
    assert doctor.exit_status([doctor.Finding("x", grade, "") for grade in grades]) == status


@pytest.mark.parametrize(("version", "status"), [("1.5.3", 1), ("1.5.4", 0), ("1.6.2", 0), ("1.6.3", 1), ("1.5", 1)])
def test_the_runner_is_one_that_the_package_asks_for(tmp_path, version, status):
    given = healthy()
    given.runner_version = version
    assert doctor.exit_status(doctor.examine(given)) == status
    (tmp_path / "version").write_text("1.5.4-4.1\n")
    asked = subprocess.run(
        [ROOT / "scripts/tcmu-requires", "--debian", tmp_path / "version"], capture_output=True, text=True, check=True
    ).stdout
    assert asked == f"tcmu-runner (>= {doctor.RUNNER_FROM}), tcmu-runner (<< {doctor.RUNNER_BEFORE}~)\n"


@pytest.mark.parametrize(
    ("left", "active", "told"),
    [(9, 0, False), (8, 0, True), (0, 31, True), (0, 32, False), (0, 64, False), (64, 0, False)],
)
def test_a_window_that_commands_use_is_told_from_one_that_is_lost(left, active, told):
    given = healthy()
    given.lio.exports[0].windows = {INITIATOR: lio_tree.Window(64, left)}
    given.volumes[0].requests_active = active
    found = [one for one in doctor.examine(given) if "aborts and resets" in one.text]
    assert bool(found) == told


def test_two_disks_of_one_machine_are_well_where_the_level_bears_both():
    given = healthy()
    two_on_one_host(given)
    given.volumes[0].level = 6
    assert doctor.exit_status(doctor.examine(given)) == 0


@pytest.mark.parametrize(
    ("count", "together", "named"),
    [
        (4, {0, 1}, "0, 1"),
        (4, {0, 3}, None),
        (4, {1, 2}, None),
        (4, {0, 2, 3}, "2, 3"),
        (6, {0, 2, 4}, None),
        (5, {1, 2}, "1, 2"),
        (5, {0, 4}, "0, 4"),
        (5, {0, 2}, None),
        (5, {0, 2, 3}, "2, 3"),
    ],
)
def test_two_of_level_10_are_well_on_one_machine_unless_they_hold_the_same_chunks(count, together, named):
    given = healthy()
    members = [member(i, portals=["10.9.9.9:3260" if i in together else f"10.0.0.{i}:3260"]) for i in range(count)]
    given.volumes = [model.read(model.Volume, volume(level=10, members=members))]
    found = [one.text for one in doctor.examine(given) if "same machine" in one.text]
    assert [text.partition(" are on")[0] for text in found] == ([f"v0: members {named}"] if named else [])


# --- finding out ---


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The files of a gateway, below a folder of its own."""
    for name in ("IRAID_CONFIG_DIR", "IRAID_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def file(path, text="", mode=0o644):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(mode)

    file("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n")
    file("proc/mounts", "sysfs /sys sysfs rw 0 0\nconfigfs /sys/kernel/config configfs rw 0 0\n")
    file("proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456\n")
    file("proc/4711/limits", "Limit   Soft Limit  Hard Limit Units\nMax open files            1024   524288  files\n")
    file("proc/4711/oom_score_adj", "-900\n")
    file("proc/4711/comm", "tcmu-runner\n")
    file(
        "proc/4711/maps",
        "7f00-7f01 r-xp 0 08:01 9 /usr/lib/x/tcmu-runner/handler_iraid.so (deleted)\n"
        "7f02-7f03 r-xp 0 08:01 9 /usr/lib/x/libc.so.6\n",
    )
    for module in ("target_core_mod", "target_core_user"):
        (tmp_path / "sys/module" / module).mkdir(parents=True)
    core = "sys/kernel/config/target/core/user_1/v0"
    file(
        f"{core}/info",
        "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 8192\n        "
        "Config: iraid/v0 Size: 322122547200 MaxDataAreaMB: 64 DataPagesPerBlk: 16 CmdRingSizeMB: 1\n",
    )
    file("sys/kernel/config/target/core/user_2/f/info", "Status: ACTIVATED Config: file/x Size: 1\n")
    group = tmp_path / f"sys/kernel/config/target/iscsi/{IQN}/tpgt_1"
    for folder in ("lun/lun_0", "np/0.0.0.0:3260", f"acls/{INITIATOR}", "attrib"):
        (group / folder).mkdir(parents=True)
    file(f"{group}/acls/{INITIATOR}/info", SESSION)
    (group / "lun/lun_0/abc").symlink_to("../../../../../../core/user_1/v0")
    file(f"{group}/enable", "1\n")
    file("etc/rtslib-fb-target/saveconfig.json", json.dumps(SAVED), 0o640)
    file(
        "etc/iraid/volumes/v0.conf",
        f"[volume]\nchap_file = {tmp_path}/etc/iraid/secrets/v0\n"
        "member = 127.0.0.1:1,[::1]:2/iqn.2026-01.org.example:a/0\n",
    )
    file(
        "etc/iraid/volumes/v1.conf",
        f"[volume]\nchap_file = {tmp_path}/etc/iraid/secrets/none\nmember = 127.0.0.1/iqn.2026-01.org.example:b/0\n",
    )
    file("etc/iraid/secrets/v0", "user\nsecret\n", 0o644)
    (tmp_path / "var/lib/iraid").mkdir(parents=True)
    return tmp_path


def no_programs(_words):
    return None


def test_facts_are_read_from_the_machine(machine, monkeypatch):
    monkeypatch.setattr(facts, "reachable", lambda portals: dict.fromkeys(portals))
    answers = {
        "version": VERSION,
        "volume.list": {"volumes": [volume()]},
        "volume.status": volume(),
        "pool.list": {"spares": []},
        "volume.path": {"name": "v0", "members": []},
    }
    with ControlPeer(machine / "s", answers):
        seen = facts.gather(facts.Client(machine / "s"), machine, no_programs, lambda: None)
    assert (seen.kernel, seen.modules, seen.configfs) == (
        "6.1.0-9-amd64",
        {"target_core_mod", "target_core_user"},
        True,
    )
    assert seen.process == Process(4711, 1024, -900, ["/usr/lib/x/tcmu-runner/handler_iraid.so"])
    assert seen.gateway.rmem_max == 6291456
    assert seen.lio == lio_tree.Tree(
        [lio_tree.Lun("v0", "v0", 300 << 30, 512, 8192, 64)],
        [
            lio_tree.Export(
                IQN, 1, True, {0: "v0"}, ["0.0.0.0:3260"], [INITIATOR], windows={INITIATOR: lio_tree.Window(128, 68)}
            )
        ],
        {"v0", "f", IQN},
    )
    assert lio_tree.differences(seen.saved, seen.lio) == []
    assert seen.saved_mode == 0o640
    assert [(one.path.rpartition("/")[2], one.volumes, one.mode) for one in seen.secrets] == [
        ("none", ["v1"], None),
        ("v0", ["v0"], 0o644),
    ]
    assert (seen.units, seen.bus, seen.journal) == (None, None, None)
    assert list(seen.free_bytes) == [f"{machine}/var/lib/iraid", f"{machine}/etc/iraid"]
    assert list(seen.portals)[0] == "10.0.0.1:3260"


FILE_FAULT = Failure(1, "invalid", "/etc/iraid/volumes/v1.conf:58: give_upp: there is no such key", "correct the file")


def of_handler(machine, monkeypatch, **answers):
    """What is found out with volumes v0 and v1, and these answers: METHOD, with _ for its dot."""
    monkeypatch.setattr(facts, "reachable", lambda portals: dict.fromkeys(portals))
    usual = {
        "version": VERSION,
        "volume.list": {"volumes": [volume("v0"), volume("v1")]},
        "pool.list": {"spares": []},
        "volume.status": lambda p: volume(p["name"]),
        "volume.path": lambda p: {"name": p["name"], "members": []},
    }
    with ControlPeer(machine / "s", usual | {name.replace("_", "."): given for name, given in answers.items()}):
        return facts.gather(facts.Client(machine / "s"), machine, no_programs, lambda: None)


def test_a_volume_whose_file_has_a_fault_hides_no_other(machine, monkeypatch):
    seen = of_handler(
        machine,
        monkeypatch,
        volume_status=lambda p: FILE_FAULT if p["name"] == "v1" else volume("v0"),
        volume_list={"volumes": [volume("v0"), {"name": "v1", "state": "failed", "reason": str(FILE_FAULT)}]},
    )
    assert [(one.name, one.state) for one in seen.volumes] == [("v0", "active"), ("v1", "failed")]
    assert (list(seen.paths), seen.handler_error) == (["v0"], "")
    found = [(one.grade, one.text, one.remedies) for one in doctor.examine(seen) if one.check == "volumes"]
    assert found == [("bad", f"v1 is FAILED: {FILE_FAULT}", ["iraid config check v1", "iraid start v1"])]


def test_a_volume_without_sessions_hides_no_other(machine, monkeypatch):
    stopped = Failure(8, "busy", "volume v0 is not running here", "iraid start v0")
    seen = of_handler(
        machine, monkeypatch, volume_path=lambda p: stopped if p["name"] == "v0" else {"name": "v1", "members": []}
    )
    assert (list(seen.paths), seen.handler_error) == (["v1"], "")


def test_a_list_that_can_not_be_read_is_said_and_files_say_which_portals_there_are(machine, monkeypatch):
    seen = of_handler(machine, monkeypatch, volume_list=Failure(10, "internal", "no memory", "free some memory"))
    assert (seen.volumes_error, seen.handler_error) == ("no memory", "no memory")
    assert list(seen.portals) == ["127.0.0.1:1", "[::1]:2", "127.0.0.1:3260"]


def test_programs_are_asked_for_the_rest(machine):
    def run(words):
        if words[0] == "systemctl":
            return 0, "LoadState=loaded\nDropInPaths=/a/iraid.conf /b.conf\nNRestarts=2\n"
        if words[0] == "journalctl":
            return (
                (1, "")
                if "-k" in words
                else (
                    0,
                    "2026-01-01 gw tcmu-runner[1]: main:1302: Starting...\n2026-01-01 gw tcmu-runner[1]: no memory\n\n",
                )
            )
        if words[0] == "busctl":
            return 0, "b false\n"
        return 0, "tcmu-runner 1.5.4\n"

    seen = facts.gather(facts.Client(machine / "none"), machine, run, lambda: [])
    assert seen.units["tcmu-runner.service"] == {
        "LoadState": "loaded",
        "DropInPaths": "/a/iraid.conf /b.conf",
        "NRestarts": "2",
    }
    assert (seen.journal, seen.kernel_journal) == (["2026-01-01 gw tcmu-runner[1]: no memory"], [])
    assert (seen.bus, seen.runner_version, seen.configuration) == (False, "1.5.4", [])


def test_with_a_dead_handler_the_files_say_which_portals_there_are(machine):
    seen = facts.gather(facts.Client(machine / "none"), machine, no_programs, lambda: None)
    assert "does not exist" in seen.handler_error
    assert seen.process.pid == 4711  # by its name
    assert list(seen.portals) == ["127.0.0.1:1", "[::1]:2", "127.0.0.1:3260"]
    assert seen.portals["127.0.0.1:1"] == "Connection refused"


def test_a_portal_that_listens_is_told_from_one_that_does_not():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        portal = f"127.0.0.1:{listener.getsockname()[1]}"
        assert facts.reachable([portal, "127.0.0.1:1"]) == {portal: None, "127.0.0.1:1": "Connection refused"}


@pytest.mark.parametrize(
    ("portal", "expected"),
    [
        ("10.0.0.1:3261", ("10.0.0.1", 3261)),
        ("[fd00::1]:3260", ("fd00::1", 3260)),
        ("[fd00::1]", ("fd00::1", 3260)),
        ("disk.example.org", ("disk.example.org", 3260)),
    ],
)
def test_portals_are_split_as_they_are_written(portal, expected):
    assert facts.split_portal(portal) == expected


# --- as it is shown ---


@pytest.fixture
def shown(tmp_path, capsys, monkeypatch):
    def run(given, *options):
        monkeypatch.setattr(facts, "gather", lambda _client: given)
        status = cli.main(["doctor", "--socket", str(tmp_path / "s"), *options])
        return status, capsys.readouterr().out

    return run


def test_findings_are_shown_with_their_remedies(shown):
    given = healthy()
    given.clock, given.configfs = False, False
    status, out = shown(given)
    assert status == 2
    assert "bad     kernel        configfs is not mounted" in out
    assert "                      -> mount -t configfs configfs /sys/kernel/config\n" in out
    assert out.splitlines()[-1] == f"1 bad, 1 warning, {len(doctor.CHECKS) - 2} ok"
    _, quiet = shown(given, "--quiet")
    assert not any(line.startswith("ok") for line in quiet.splitlines())
    status, out = shown(given, "--quiet", "--json")
    assert (status, json.loads(out)["worst"], len(json.loads(out)["findings"])) == (2, "bad", 2)


def test_a_healthy_gateway_ends_with_0(shown):
    assert shown(healthy())[0] == 0
    assert json.loads(shown(healthy(), "--json")[1])["worst"] == "ok"
