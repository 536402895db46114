"""iraid grow: what it asks of the handler, what it does to a model of LIO and to the saved configuration, and
what it tells."""

import copy
import json
from types import SimpleNamespace

import pytest
from control_peer import UUID, VERSION, ControlPeer, Failure, member, volume
from lio_model import ALICE, IQN, LioModel, request

from iraid.cli import main as cli
from iraid.control.errors import IraidError
from iraid.lio import export_plan, saved, steps, target
from iraid.lio.export_plan import plan_export, plan_grow

OLD, NEW = 300 << 30, 600 << 30
GROWN = {"name": "v0", "before_bytes": OLD, "size_bytes": NEW, "note": ""}
SAME = {"name": "v0", "before_bytes": NEW, "size_bytes": NEW, "note": "member 10.0.0.2 limits it"}


class Kernel(LioModel):
    """The model with what target.py asks besides: a saved configuration and sessions."""

    def __init__(self, folder):
        super().__init__()
        self.save_file = folder / "saveconfig.json"
        self.order = []

    def _apply(self, step):
        super()._apply(step)
        self.order.append(str(step))

    def sessions(self):
        return {IQN: [ALICE]}

    def save(self, before, running, storage, targets):
        saved.store(self.save_file, saved.merge(before, running, storage, targets), before)
        self.order.append("saved")
        return str(self.save_file)

    def saved_sizes(self):
        return [s["size"] for s in json.loads(self.save_file.read_text())["storage_objects"]]

    def sizes(self):
        return [s["size"] for s in self.config["storage_objects"]]


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """LIO with volume v0 of the old size exported, and saved."""
    lio = Kernel(tmp_path)
    for step in plan_export(request(size_bytes=OLD), lio.dump()).steps:
        lio.apply(step)
    lio.config["storage_objects"][0]["attributes"]["dev_size"] = OLD
    lio.save(None, lio.dump(), {"v0"}, {IQN})
    lio.order.clear()
    info = tmp_path / "configfs" / "target" / "core" / "user_0" / "v0" / "info"
    info.parent.mkdir(parents=True)
    info.write_text("Status: ACTIVATED\n        Config: iraid/v0  Size: 1 MaxDataAreaMB: 64\n")
    monkeypatch.setattr(target, "CONFIGFS", tmp_path / "configfs")
    monkeypatch.setattr(target, "Lio", lambda: lio)
    monkeypatch.setattr(target, "check_root", lambda: None)
    monkeypatch.setenv("IRAID_RUN_DIR", str(tmp_path / "run"))
    return lio


@pytest.fixture
def iraid(tmp_path, capsys, monkeypatch):
    """iraid(answers, *arguments) -> status, out, err, calls."""
    path = tmp_path / "control.sock"
    monkeypatch.setenv("IRAID_SOCKET", str(path))
    if target.CONFIGFS != tmp_path / "configfs":
        monkeypatch.setattr(target, "CONFIGFS", tmp_path / "none")

    def run(answers, *arguments):
        path.unlink(missing_ok=True)
        with ControlPeer(path, answers) as peer:
            status = cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(
            status=status, out=out, err=err, calls=[name for name, _ in peer.calls], json=lambda: json.loads(out)
        )

    return run


def answers(grown=GROWN):
    """Members of 100 GiB that have 200 GiB once the volume has looked."""
    views = iter([volume(), volume(size_bytes=NEW, members=[member(i, size_bytes=200 << 30) for i in range(4)])])
    return {"version": VERSION, "volume.grow": grown, "volume.status": lambda _parameters: next(views)}


# --- volume, LUN and file ---


def test_the_volume_its_lun_and_the_saved_configuration_get_the_new_size(iraid, kernel):
    done = iraid(answers(), "grow", "v0")
    assert (done.status, done.err) == (0, "")
    assert kernel.sizes() == kernel.saved_sizes() == [NEW]
    (storage,) = json.loads(kernel.save_file.read_text())["storage_objects"]
    assert storage["attributes"]["dev_size"] == NEW  # a restore writes it after the size
    assert "Volume v0 has grown from 300 GiB to 600 GiB." in done.out
    assert f"The LUN of {IQN} (storage object v0) has grown from 300 GiB to 600 GiB." in done.out
    assert done.out.count("100 GiB") == done.out.count("200 GiB") == 4
    assert f"iscsiadm -m node -T {IQN} -R" in done.out
    assert ALICE in done.out


def test_the_file_is_written_before_an_initiator_can_use_more(iraid, kernel):
    """A reboot in between must not take away what an initiator has begun to use."""
    assert iraid(answers(), "grow", "v0").status == 0
    assert kernel.order == ["saved", f"storage object v0 of {NEW} bytes"]


def test_when_the_file_can_not_be_written_the_lun_stays_as_it_is(iraid, kernel, monkeypatch):
    monkeypatch.setattr(saved, "_write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    done = iraid(answers(), "grow", "v0")
    assert done.status == 1
    assert "No space left on device; the LUN stays as it is" in done.err
    assert "--no-save" in done.err
    assert kernel.sizes() == [OLD]
    assert iraid(answers(SAME), "grow", "v0", "--no-save").status == 0
    assert kernel.sizes() == [NEW] and kernel.saved_sizes() == [OLD]


def test_a_lun_that_was_left_behind_is_finished_though_the_volume_has_nothing_to_gain(iraid, kernel):
    done = iraid(answers(SAME), "grow", "v0")
    assert done.status == 0
    assert kernel.sizes() == kernel.saved_sizes() == [NEW]
    assert "Volume v0 has 600 GiB, as before." in done.out
    assert "member 10.0.0.2 limits it" in done.out
    assert "Update-HostStorageCache" in done.out


def test_run_again_it_changes_nothing_but_a_file_that_was_left_behind(iraid, kernel):
    assert iraid(answers(), "grow", "v0", "--no-save").status == 0
    kernel.order.clear()
    again = iraid(answers(SAME), "grow", "v0")
    assert (again.status, kernel.order, kernel.saved_sizes()) == (0, ["saved"], [NEW])
    assert "has that size already" in again.out
    assert "Update-HostStorageCache" not in again.out
    content = kernel.save_file.read_bytes()
    assert iraid(answers(SAME), "grow", "v0").status == 0
    assert kernel.save_file.read_bytes() == content


def test_an_export_that_was_not_saved_is_not_saved_by_growing(iraid, kernel):
    kernel.save_file.write_text('{"storage_objects": [], "targets": []}')
    done = iraid(answers(), "grow", "v0")
    assert (done.status, kernel.saved_sizes(), kernel.sizes()) == (0, [], [NEW])
    assert "it will be missing after a reboot" in done.out
    kernel.save_file.unlink()
    assert iraid(answers(SAME), "grow", "v0").status == 0
    assert not kernel.save_file.exists()


def test_every_storage_object_of_the_volume_grows_and_no_other(iraid, kernel):
    second, other = (copy.deepcopy(kernel.config["storage_objects"][0]) for _ in range(2))
    kernel.config["storage_objects"] += [second | {"name": "by-hand"}, other | {"name": "v1", "config": "iraid/v1"}]
    shown = iraid(answers(), "grow", "v0", "--json").json()
    assert kernel.sizes() == [NEW, NEW, OLD]
    assert shown["luns"] == [
        {"storage_object": "v0", "iqns": [IQN], "before_bytes": OLD, "size_bytes": NEW},
        {"storage_object": "by-hand", "iqns": [], "before_bytes": OLD, "size_bytes": NEW},
    ]


def test_a_lun_that_is_larger_than_its_volume_is_warned_of(iraid, kernel):
    kernel.config["storage_objects"][0]["size"] = 2 * NEW
    done = iraid(answers(), "grow", "v0")
    assert done.status == 0
    assert f"has {2 * NEW} bytes, more than volume v0 with {NEW}" in done.err
    assert kernel.sizes() == [2 * NEW]


def test_a_handler_that_refuses_the_size_fails_the_command(iraid, kernel):
    kernel.fail_at = kernel.applied
    done = iraid(answers(), "grow", "v0")
    assert (done.status, done.out) == (1, "")
    assert "LIO refused" in done.err
    assert iraid(answers(SAME), "grow", "v0").status == 0
    assert kernel.sizes() == [NEW]


# --- what it does not do ---


def test_a_volume_that_can_not_grow_leaves_lio_alone(iraid, kernel):
    refusal = Failure(8, "busy", 'volume "v0": member 2 is missing', "iraid wait waits until all are in sync")
    done = iraid(answers(refusal), "grow", "v0")
    assert (done.status, done.out, kernel.order) == (1, "", [])
    assert done.err == ('iraid: volume "v0": member 2 is missing\n  remedy: iraid wait waits until all are in sync\n')


def test_an_exported_volume_is_not_touched_unless_the_runner_answers(iraid, kernel):
    """The kernel may hang when its runner is dead, and the volume would be larger than its LUN."""
    done = iraid(answers() | {"version": VERSION | {"program": "iraid-engine"}}, "grow", "v0")
    assert (done.status, done.calls, kernel.order) == (1, ["version"], [])


def test_a_volume_that_is_not_exported_needs_no_lio(iraid, monkeypatch):
    monkeypatch.setattr(target, "Lio", lambda: pytest.fail("LIO was touched"))
    done = iraid(answers(), "grow", "v0")
    assert (done.status, done.calls) == (0, ["volume.status", "volume.grow", "volume.status"])
    assert "LIO does not export it" in done.out


def test_root_is_asked_for_before_anything_changes(iraid, kernel, monkeypatch):
    monkeypatch.setattr(target, "check_root", lambda: (_ for _ in ()).throw(IraidError("root only", "be root")))
    done = iraid(answers(), "grow", "v0")
    assert (done.status, done.calls) == (1, [])


# --- what it tells ---


def test_json_has_members_luns_and_initiators(iraid, kernel):
    shown = iraid(answers(), "grow", "v0", "--json").json()
    assert shown == {
        **GROWN,
        "initiators": [ALICE],
        "saved": str(kernel.save_file),
        "warnings": [],
        "luns": [{"storage_object": "v0", "iqns": [IQN], "before_bytes": OLD, "size_bytes": NEW}],
        "members": [
            {"member": member(i)["member"], "role": i, "before_bytes": 100 << 30, "size_bytes": 200 << 30}
            for i in range(4)
        ],
    }


@pytest.mark.parametrize(("size", "warned"), [(150 << 30, True), (200 << 30, False)])
def test_a_spare_that_is_smaller_than_the_members_now_is_warned_of(iraid, size, warned):
    spare = member(4, role=None, state="spare", size_bytes=size)
    given = answers()
    given["volume.status"] = volume(members=[member(i, size_bytes=200 << 30) for i in range(4)] + [spare])
    done = iraid(given, "grow", "v0")
    assert done.status == 0
    assert (f"warning: spare {spare['member']} has 150 GiB" in done.err) == warned == bool(done.err)
    assert len(iraid(given, "grow", "v0", "--json").json()["warnings"]) == warned


def test_sizes_that_round_to_the_same_are_told_in_bytes(iraid):
    little = GROWN | {"size_bytes": OLD + 65536}
    assert f"from {OLD} B to {OLD + 65536} B." in iraid(answers(little), "grow", "v0").out


def test_a_handler_that_is_too_old_is_named(iraid):
    given = answers()
    del given["volume.grow"]
    done = iraid(given, "grow", "v0")
    assert done.status == 1
    assert "no method volume.grow" in done.err


# --- decisions ---


def test_the_plan_makes_nothing_smaller():
    lio = LioModel()
    for step in plan_export(request(size_bytes=OLD), lio.dump()).steps:
        lio.apply(step)
    assert plan_grow("v0", NEW, lio.dump()).steps == [steps.ResizeStorage("v0", NEW)]
    for size in (OLD, OLD - 512):
        assert plan_grow("v0", size, lio.dump()).steps == []
    assert plan_grow("v9", NEW, lio.dump()).steps == []
    before = lio.dump()
    after = export_plan.grown(before, [steps.ResizeStorage("v0", NEW)])
    assert before == lio.dump()
    assert [s["size"] for s in after["storage_objects"]] == [NEW]
    assert steps.inverse(steps.ResizeStorage("v0", NEW)) is None
    assert UUID == after["storage_objects"][0]["wwn"]


def test_the_kernels_attribute_is_written(monkeypatch):
    written = []
    lio = object.__new__(target.Lio)
    lio.rtslib = SimpleNamespace(
        RTSLibError=RuntimeError,
        UserBackedStorageObject=lambda name: SimpleNamespace(
            set_attribute=lambda attribute, value: written.append((name, attribute, value))
        ),
    )
    lio.apply(steps.ResizeStorage("v0", NEW))
    assert written == [("v0", "dev_size", str(NEW))]
    refusal = SimpleNamespace(set_attribute=lambda *_: (_ for _ in ()).throw(RuntimeError("Cannot set: [Errno 28]")))
    lio.rtslib.UserBackedStorageObject = lambda _name: refusal
    with pytest.raises(IraidError, match="Errno 28") as caught:
        lio.apply(steps.ResizeStorage("v0", NEW))
    assert "journalctl -u tcmu-runner" in caught.value.remedy
