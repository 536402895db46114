"""export and unexport beside LIO's saved configuration: what of it stays, and how what was interrupted is finished."""

import contextlib
import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from control_peer import UUID, ControlPeer
from lio_model import LioModel

from iraid.cli import main as cli
from iraid.lio import pair, saved, steps, target

IQN = "iqn.2026-01.org.example:v0"
ALICE, BOB = "iqn.1993-08.org.debian:01:alice", "iqn.1993-08.org.debian:01:bob"
EXPORT = ["export", "v0", "--iqn", IQN, "--portal", "10.0.0.9:3260", "--acl", ALICE, "--no-chap"]
VOLUME = {"state": "active", "size_bytes": 1 << 30, "block_bytes": 512}


class SavingLio(LioModel):
    """The model, with a saved configuration in a real file."""

    save = target.Lio.save

    def __init__(self, save_file: Path) -> None:
        super().__init__()
        self.save_file = save_file
        self.is_old = False  # the handler

    def _apply(self, step):
        super()._apply(step)
        # As the handler does that serves the volume.
        if isinstance(step, steps.SetAlua) and not self.is_old:
            for storage in self.config["storage_objects"]:
                for group in storage.get("alua_tpgs", ()):
                    group["alua_access_state"] = 0 if group["name"] == steps.HERE else pair.STANDBY

    def sessions(self):
        return {}

    def saved(self):
        return json.loads(self.save_file.read_text())

    def group_saved(self):
        return self.saved()["targets"][0]["tpgs"][0]

    def names_saved(self):
        config = self.saved()
        return [s["name"] for s in config["storage_objects"]], [t["wwn"] for t in config["targets"]]

    @contextlib.contextmanager
    def change_saved(self):
        config = self.saved()
        yield config
        self.save_file.write_text(json.dumps(config))


@pytest.fixture
def lio(tmp_path, monkeypatch):
    made = SavingLio(tmp_path / "saveconfig.json")
    monkeypatch.setattr(target, "Lio", lambda: made)
    monkeypatch.setattr(target, "check_root", lambda *_: None)
    monkeypatch.setenv("IRAID_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("IRAID_SOCKET", str(tmp_path / "control.sock"))
    answers = {
        "version": {"version": "0.1.0", "program": "tcmu-runner"},
        "volume.status": lambda p: {**VOLUME, "name": p["name"], "uuid": uuid(p["name"])},
    }
    with ControlPeer(tmp_path / "control.sock", answers):
        yield made


@pytest.fixture
def iraid(lio, capsys):
    """iraid(*words) -> status, out, err."""

    def run(*words):
        status = cli.main([*map(str, words)])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, json=lambda: json.loads(out))

    return run


def uuid(name):
    return f"{name[1:]}{UUID[1:]}"


@pytest.fixture
def exported(lio, iraid):
    """v0 is exported and saved."""
    assert iraid(*EXPORT).status == 0
    return lio


def save_what_does_not_run(lio):
    """v1 as LUN 1 of v0's target, a portal and an initiator: as of a boot before its disks and addresses were there."""
    with lio.change_saved() as config:
        storage = {**copy.deepcopy(config["storage_objects"][0]), "name": "v1", "config": "iraid/v1", "wwn": uuid("v1")}
        config["storage_objects"].append(storage)
        group = config["targets"][0]["tpgs"][0]
        group["luns"].append({"index": 1, "storage_object": "/backstores/user/v1"})
        group["portals"].append({"ip_address": "10.0.1.9", "port": 3260})
        group["node_acls"][0]["mapped_luns"].append({"index": 1, "tpg_lun": 1})
        group["node_acls"].append(
            {
                "node_wwn": BOB,
                "mapped_luns": [{"index": 0, "tpg_lun": 0}, {"index": 7, "tpg_lun": 1, "write_protect": False}],
            }
        )
    return lio.save_file.read_text()


# --- what does not run stays ---


def test_an_export_with_nothing_to_change_leaves_the_file_as_it_is(exported, iraid):
    before = save_what_does_not_run(exported)
    done = iraid(*EXPORT, "--json")
    assert done.json()["changes"] == []
    assert exported.save_file.read_text() == before


def test_another_lun_does_not_take_the_number_of_one_that_was_not_restored(exported, iraid):
    before = json.loads(save_what_does_not_run(exported))["targets"][0]["tpgs"][0]
    assert iraid("export", "v2", "--iqn", IQN, "--acl", ALICE, "--no-chap", "--json").json()["lun"] == 2
    group = exported.group_saved()
    assert [(lun["index"], lun["storage_object"]) for lun in group["luns"]] == [
        (0, "/backstores/user/v0"),
        (1, "/backstores/user/v1"),
        (2, "/backstores/user/v2"),
    ]
    assert group["node_acls"][0]["mapped_luns"] == [
        *before["node_acls"][0]["mapped_luns"],
        {"index": 2, "tpg_lun": 2, "write_protect": False},
    ]
    assert group["node_acls"][1] == before["node_acls"][1] and group["portals"] == before["portals"]


def test_a_lun_that_was_not_restored_comes_back_by_its_numbers(exported, iraid):
    before = save_what_does_not_run(exported)
    assert (
        iraid("export", "v1", "--iqn", IQN, "--portal", "10.0.1.9:3260", "--acl", BOB, "--no-chap", "--json").json()[
            "lun"
        ]
        == 1
    )
    assert exported.acls(IQN)[BOB]["mapped_luns"] == [{"index": 7, "tpg_lun": 1, "write_protect": False}]
    luns, group = json.loads(before)["targets"][0]["tpgs"][0]["luns"], exported.group_saved()
    assert group["luns"] == luns
    assert group["node_acls"][1]["mapped_luns"] == [
        {"index": 0, "tpg_lun": 0},
        {"index": 7, "tpg_lun": 1, "write_protect": False},
    ]


def test_a_number_that_the_initiator_has_in_the_file_is_avoided(exported, iraid):
    save_what_does_not_run(exported)
    with exported.change_saved() as config:
        config["targets"][0]["tpgs"][0]["node_acls"][0]["mapped_luns"][1]["index"] = 2
    assert iraid("export", "v2", "--iqn", IQN, "--acl", ALICE, "--no-chap").status == 0
    assert [m["index"] for m in exported.acls(IQN)[ALICE]["mapped_luns"]] == [0, 1]


def test_unexport_takes_its_own_lun_out_of_the_file_and_no_other(exported, iraid):
    save_what_does_not_run(exported)
    assert iraid("unexport", "v0").status == 0
    assert exported.config == {"storage_objects": [], "targets": []}
    assert exported.names_saved() == (["v1"], [IQN])
    group = exported.group_saved()
    assert [lun["index"] for lun in group["luns"]] == [1]
    assert [acl["mapped_luns"] for acl in group["node_acls"]] == [
        [{"index": 1, "tpg_lun": 1}],
        [{"index": 7, "tpg_lun": 1, "write_protect": False}],
    ]
    assert len(group["portals"]) == 2


def test_a_target_of_which_nothing_runs_keeps_its_other_luns_when_one_is_exported_again(exported, iraid):
    before = save_what_does_not_run(exported)
    exported.config["storage_objects"].clear(), exported.config["targets"].clear()
    assert iraid(*EXPORT).status == 0
    luns = json.loads(before)["targets"][0]["tpgs"][0]["luns"]
    assert exported.group_saved()["luns"] == luns
    assert len(exported.group_saved()["node_acls"]) == 2


def test_saved_luns_are_not_opened_to_any_initiator(exported, iraid):
    """The group's settings will be theirs when they run again."""
    before = save_what_does_not_run(exported)
    open_to_all = ["export", "v0", "--iqn", IQN, "--portal", "10.0.0.9:3260", "--demo-mode", "--no-chap"]
    for _ in ("beside the running target", "beside none"):
        done = iraid(*open_to_all)
        assert done.status == 1
        assert (
            f"target {IQN} has other LUNs, which are saved and do not run, and lets named initiators in only"
            in done.err
        )
        assert exported.save_file.read_text() == before
        exported.config["storage_objects"].clear(), exported.config["targets"].clear()


def test_a_target_that_is_saved_with_chap_does_not_come_back_without(exported, iraid):
    """Its other initiators would come in by name alone."""
    save_what_does_not_run(exported)
    with exported.change_saved() as config:
        group = config["targets"][0]["tpgs"][0]
        group["attributes"]["authentication"] = 1
        group["node_acls"][1] |= {"chap_userid": "client", "chap_password": "wolf-howls-42"}
    exported.config["storage_objects"].clear(), exported.config["targets"].clear()
    assert f"target {IQN} asks for CHAP, and --no-chap does not" in iraid(*EXPORT).err
    done = iraid(*(word for word in EXPORT if word != "--no-chap"))
    assert done.status == 1 and f"target {IQN} asks for CHAP, and {ALICE} has no secret" in done.err
    assert "--chap-file" in done.err


def test_chap_of_discovery_is_saved_with_the_export_that_asks_for_it(exported, iraid, tmp_path):
    secrets = tmp_path / "discovery"
    secrets.write_text("finder\nowl-hoots-4242\n")
    secrets.chmod(0o600)
    assert iraid(*EXPORT, "--discovery-chap-file", str(secrets)).status == 0
    saved = json.loads(exported.save_file.read_text())
    module = {
        "name": "iscsi",
        "discovery_enable_auth": True,
        "discovery_userid": "finder",
        "discovery_password": "owl-hoots-4242",
    }
    assert saved["fabric_modules"] == [module]
    with exported.change_saved() as config:
        config["fabric_modules"][0]["discovery_userid"] = "somebody-else's"
    assert iraid(*EXPORT, "--portal", "10.0.3.9:3260").status == 0
    saved = json.loads(exported.save_file.read_text())
    assert saved["fabric_modules"][0]["discovery_userid"] == "somebody-else's"


def test_a_saved_lun_whose_number_another_one_runs_by_is_named(exported, iraid):
    """targetcli, or --no-save, gave it away."""
    save_what_does_not_run(exported)
    assert iraid("export", "v2", "--iqn", IQN, "--acl", ALICE, "--no-chap", "--no-save", "--json").json()["lun"] == 1
    done = iraid(*EXPORT)
    assert done.status == 0
    assert (
        f"LUN 1 of {IQN} was saved as /backstores/user/v1, which does not run, and is /backstores/user/v2 now"
        in done.err
    )
    group = exported.group_saved()
    assert [lun["storage_object"] for lun in group["luns"]] == ["/backstores/user/v0", "/backstores/user/v2"]
    assert group["node_acls"][1]["mapped_luns"] == [{"index": 0, "tpg_lun": 0}]  # BOB may not use v2


# --- an unexport that came only half way ---

NOTHING = {"storage_objects": [], "targets": []}


@contextlib.contextmanager
def full_disk(monkeypatch):
    def write(path, _content):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(saved, "_write", write)
        yield


def test_an_unexport_that_could_not_be_saved_is_finished_by_the_same_command(exported, iraid, monkeypatch):
    with full_disk(monkeypatch):
        failed = iraid("unexport", "v0")
    assert failed.status == 1 and exported.config == NOTHING
    assert f"volume v0 is no longer exported under {IQN}, but would be again after a reboot" in failed.err
    assert "same command again" in failed.err and "export works" not in failed.err
    assert exported.names_saved() == (["v0"], [IQN])
    done = iraid("unexport", "v0", "--json").json()
    assert done["iqns"] == [IQN] and done["changes"] == [
        f"saved LUN of storage object v0 in target {IQN} removed",
        "saved storage object v0 removed",
    ]
    assert exported.names_saved() == ([], [])
    assert "volume v0 is not exported" in iraid("unexport", "v0").err


def test_an_export_that_could_not_be_saved_says_what_a_reboot_does(lio, iraid, monkeypatch):
    with full_disk(monkeypatch):
        failed = iraid(*EXPORT)
    assert failed.status == 1 and "the export works, but is lost with a reboot" in failed.err


@pytest.mark.parametrize("which", [[], ["--iqn", IQN]])
def test_an_unexport_that_was_interrupted_after_the_target_is_finished_by_the_same_command(
    exported, iraid, monkeypatch, which
):
    def interrupted(made):
        if isinstance(made, steps.CreateStorage):
            raise KeyboardInterrupt
        LioModel._delete(exported, made)

    with monkeypatch.context() as patch:
        patch.setattr(exported, "_delete", interrupted)
        assert iraid("unexport", "v0", *which).status != 0
    assert exported.names_saved() == (["v0"], [IQN]) and exported.config["targets"] == []
    done = iraid("unexport", "v0", *which)
    assert done.status == 0 and f"no longer exported under {IQN}" in done.out
    assert exported.config == NOTHING and exported.names_saved() == ([], [])


def test_what_is_only_saved_is_said_by_a_dry_run_and_stays(exported, iraid):
    exported.config["storage_objects"].clear(), exported.config["targets"].clear()
    before = exported.save_file.read_text()
    done = iraid("unexport", "v0", "--dry-run")
    assert "Would change: saved storage object v0 removed." in done.out
    assert exported.save_file.read_text() == before
    assert "volume v0 is not exported" in iraid("unexport", "v0", "--no-save").err


def test_a_target_that_is_only_saved_is_left_too(exported, iraid):
    """The volume runs under another one."""
    other = f"{IQN}-other"
    assert iraid("export", "v0", "--iqn", other, "--acl", ALICE, "--no-chap").status == 0
    for target_ in [t for t in exported.config["targets"] if t["wwn"] == other]:
        exported.config["targets"].remove(target_)
    before = exported.save_file.read_text()
    assert iraid("unexport", "v0", "--json").json()["iqns"] == [IQN, other]
    assert exported.config == NOTHING and exported.names_saved() == ([], [])
    exported.save_file.write_text(before)
    assert iraid(*EXPORT).status == 0
    assert iraid("unexport", "v0", "--iqn", other).status == 0
    assert exported.names_saved() == (["v0"], [IQN]) and len(exported.config["targets"]) == 1


def test_the_saved_storage_object_stays_while_a_saved_target_needs_it(exported, iraid):
    """That target could not be restored at boot."""
    other = f"{IQN}-other"
    assert iraid("export", "v0", "--iqn", other, "--acl", ALICE, "--no-chap").status == 0
    exported.config["targets"].pop()
    assert iraid("unexport", "v0", "--iqn", IQN).status == 0
    assert exported.config == NOTHING and exported.names_saved() == (["v0"], [other])


# --- a pair of gateways ---


def test_a_pairs_export_says_what_it_is_and_is_saved_on_standby(lio, iraid):
    done = iraid(*EXPORT, "--pair", "2")
    assert done.status == 0 and not done.err
    assert "gateway 2 of 2 (tpg2)" in done.out
    assert "refused: they would not move with the volume" in done.out
    (storage,) = lio.saved()["storage_objects"]
    assert [group["alua_access_state"] for group in storage["alua_tpgs"]] == [pair.STANDBY] * 2
    assert [group["tag"] for group in lio.saved()["targets"][0]["tpgs"]] == [1, 2]
    again = iraid(*EXPORT, "--json").json()
    assert (again["pair"], again["reservations"], again["changes"]) == (2, False, [])
    assert iraid("unexport", "v0").status == 0
    assert lio.saved()["storage_objects"] == lio.saved()["targets"] == []


def test_a_pair_is_not_made_by_a_dry_run(lio, iraid):
    done = iraid(*EXPORT, "--pair", "1", "--dry-run")
    assert "Would change: target port group 1 (iraid_here) of storage object v0." in done.out
    assert f"Would change: LUN 0 of {IQN} (tpg2) in target port group iraid_peer." in done.out
    assert lio.config == {"storage_objects": [], "targets": []} and not lio.save_file.exists()


def test_a_handler_that_knows_of_no_pairs_is_told_of(lio, iraid, monkeypatch):
    """The package is new, and the runner has not been restarted."""
    monkeypatch.setattr(target, "HANDLER_SECONDS", 0.0)
    lio.is_old = True
    done = iraid(*EXPORT, "--pair", "1")
    assert done.status == 0 and "the handler has not told LIO" in done.err


def test_a_pair_has_two_gateways(iraid):
    done = iraid(*EXPORT, "--pair", "3")
    assert done.status != 0 and "--pair" in done.err
