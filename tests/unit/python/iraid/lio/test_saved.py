"""LIO's saved configuration: only what is ours changes, and the file is never half written."""

import copy
import gzip
import json
import os
import stat

import pytest

from iraid.control.errors import IraidError
from iraid.lio import saved

IQN = "iqn.2026-01.org.example:v0"


def storage(name, plugin="user", **more):
    return {"plugin": plugin, "name": name, **more}


def target(iqn, *paths):
    return {
        "wwn": iqn,
        "fabric": "iscsi",
        "tpgs": [{"tag": 1, "luns": [{"index": i, "storage_object": p} for i, p in enumerate(paths)]}],
    }


SAVED = {
    "fabric_modules": [{"name": "iscsi", "discovery_userid": "u"}],
    "storage_objects": [storage("not-restored", "block"), storage("v0", size=1), storage("last")],
    "targets": [target("iqn.a", "/backstores/block/not-restored"), target(IQN, "/backstores/user/v0")],
}


def test_what_could_not_be_restored_at_boot_stays_in_the_file():
    running = {
        "storage_objects": [storage("v0", size=2)],
        "targets": [target(IQN, "/backstores/user/v0")],
        "fabric_modules": [],
    }
    merged = saved.merge(SAVED, running, {"v0"}, {IQN})
    assert merged["storage_objects"] == [storage("not-restored", "block"), storage("v0", size=2), storage("last")]
    assert merged["targets"] == SAVED["targets"]
    assert merged["fabric_modules"] == SAVED["fabric_modules"]


def test_what_was_removed_is_removed_from_the_file():
    merged = saved.merge(SAVED, {"storage_objects": [], "targets": []}, {"v0"}, {IQN})
    assert [s["name"] for s in merged["storage_objects"]] == ["not-restored", "last"]
    assert [t["wwn"] for t in merged["targets"]] == ["iqn.a"]


def test_a_target_brings_all_storage_objects_it_needs():
    running = {
        "storage_objects": [storage("v0"), storage("disk", "block"), storage("other")],
        "targets": [target(IQN, "/backstores/user/v0", "/backstores/block/disk")],
    }
    merged = saved.merge(None, running, {"v0"}, {IQN})
    assert [s["name"] for s in merged["storage_objects"]] == ["v0", "disk"]
    assert merged["targets"] == running["targets"]


def test_a_disk_of_another_kind_with_the_same_name_is_left_alone():
    config = {"storage_objects": [storage("v0", "fileio")], "targets": []}
    merged = saved.merge(config, {"storage_objects": [], "targets": []}, {"v0"}, {IQN})
    assert merged["storage_objects"] == config["storage_objects"]


def test_merging_does_not_change_what_it_was_given():
    before = copy.deepcopy(SAVED)
    saved.merge(SAVED, {"storage_objects": [storage("v0", size=9)], "targets": []}, {"v0"}, {IQN})
    assert SAVED == before


def test_the_file_is_private_whole_and_the_old_one_kept(tmp_path):
    path = tmp_path / "saveconfig.json"
    path.write_text(json.dumps(SAVED))
    path.chmod(0o644)
    changed = {**SAVED, "targets": []}
    os.umask(0o022)
    assert saved.store(path, changed, SAVED)
    assert json.loads(path.read_text()) == changed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (backup,) = (tmp_path / "backup").iterdir()
    assert json.loads(gzip.decompress(backup.read_bytes())) == SAVED
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["backup", "saveconfig.json"]


def test_nothing_changed_writes_nothing(tmp_path):
    path = tmp_path / "saveconfig.json"
    assert not saved.store(path, SAVED, copy.deepcopy(SAVED))
    assert list(tmp_path.iterdir()) == []


def test_the_first_file_makes_its_folder(tmp_path):
    path = tmp_path / "rtslib-fb-target" / "saveconfig.json"
    assert saved.load(path) is None
    assert saved.store(path, SAVED, None)
    assert saved.load(path) == SAVED


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "saveconfig.json"
    path.write_text(json.dumps(SAVED))

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved.os, "fsync", full)
    with pytest.raises(IraidError) as caught:
        saved.store(path, {}, SAVED)
    assert "No space left" in caught.value.message
    assert "same command again" in caught.value.remedy
    assert json.loads(path.read_text()) == SAVED
    assert not list(tmp_path.glob("*.iraid-*"))


@pytest.mark.parametrize("content", ["{", "[]", "null", "\x00", "[" * 200000], ids=lambda text: text[:4])
def test_a_damaged_file_is_refused_before_anything_is_done(tmp_path, content):
    path = tmp_path / "saveconfig.json"
    path.write_text(content)
    with pytest.raises(IraidError) as caught:
        saved.load(path)
    assert str(path) in caught.value.message
    assert "--no-save" in caught.value.remedy


def test_an_empty_file_is_an_empty_configuration(tmp_path):
    path = tmp_path / "saveconfig.json"
    path.write_text("\n")
    assert saved.load(path) == {}


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"storage_objects": None}, "storage_objects is null, not a list"),
        ({"targets": {"wwn": IQN}}, "targets is an object, not a list"),
        ({"storage_objects": ["x"]}, 'storage_objects[0] is "x", not an object'),
        (
            {"storage_objects": [storage("v0"), {"plugin": "user", "config": "iraid/v0"}]},
            "storage_objects[1] has no name",
        ),
        ({"storage_objects": [{"name": "v0"}]}, "storage_objects[0] has no plugin"),
        ({"storage_objects": [storage("v0", size="1G")]}, 'storage_objects[0].size is "1G", not a number'),
        ({"targets": [{"tpgs": []}]}, "targets[0] has no wwn"),
        ({"targets": [{"wwn": IQN, "tpgs": None}]}, "targets[0].tpgs is null, not a list"),
        (
            {"targets": [{"wwn": IQN, "tpgs": [{"luns": [{"index": 0}]}]}]},
            "targets[0].tpgs[0].luns[0] has no storage_object",
        ),
        (
            {"targets": [target(IQN, "v0")]},
            'targets[0].tpgs[0].luns[0].storage_object is "v0", not /backstores/PLUGIN/NAME',
        ),
        (
            {"targets": [{"wwn": IQN, "tpgs": [{"tag": 1, "node_acls": [{}]}]}]},
            "targets[0].tpgs[0].node_acls[0] has no node_wwn",
        ),
        (
            {
                "targets": [
                    {"wwn": IQN, "tpgs": [{"tag": 1, "node_acls": [{"node_wwn": "i", "mapped_luns": [{"index": 0}]}]}]}
                ]
            },
            "targets[0].tpgs[0].node_acls[0].mapped_luns[0] has no tpg_lun",
        ),
        (
            {"targets": [{"wwn": IQN, "tpgs": [{"tag": 1, "portals": ["10.0.0.9:3260"]}]}]},
            'targets[0].tpgs[0].portals[0] is "10.0.0.9:3260", not an object',
        ),
        ({"targets": ["x" * 99]}, f'targets[0] is "{"x" * 39}..., not an object'),
    ],
)
def test_a_file_of_an_odd_shape_is_refused_with_the_place(tmp_path, config, fault):
    """Somebody has edited it."""
    path = tmp_path / "saveconfig.json"
    path.write_text(json.dumps(config))
    with pytest.raises(IraidError) as caught:
        saved.load(path)
    assert caught.value.message == f"{path} is not a saved configuration: {fault}"
    assert f"{tmp_path}/backup" in caught.value.remedy


def test_what_rtslib_does_without_may_be_absent(tmp_path):
    path = tmp_path / "saveconfig.json"
    config = {"targets": [{"wwn": IQN, "tpgs": [{}]}, {"wwn": "iqn.b"}]}
    path.write_text(json.dumps(config))
    assert saved.merge(saved.load(path), {}, {"v0"}, {"iqn.c"})["targets"] == config["targets"]
