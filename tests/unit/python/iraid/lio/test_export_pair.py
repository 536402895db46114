"""A pair of gateways: what export makes of it in LIO, on a model, and what it refuses."""

import copy

import pytest
from control_peer import UUID
from lio_model import ALICE, IQN, LioModel, request

from iraid.control.errors import IraidError
from iraid.lio import lio_tree, pair
from iraid.lio.access import Group
from iraid.lio.chap import Credentials
from iraid.lio.export_plan import plan_export, plan_unexport
from iraid.lio.steps import HERE, PEER, SetStorageAttribute, carry_out

BOB = "iqn.1993-08.org.debian:01:bob"
SECRET = Credentials("client", "wolf-howls-42")
NEIGHBOUR = {"name": "v1", "uuid": "0" + UUID[1:]}


def export(lio, saved=None, **changes):
    plan = plan_export(request(**changes), lio.dump(), saved)
    carry_out(plan.steps, lio.apply)
    return plan


def refused(lio, saved=None, **changes):
    before = lio.dump()
    with pytest.raises(IraidError) as caught:
        export(lio, saved, **changes)
    assert lio.dump() == before
    assert caught.value.remedy
    return caught.value.message


def unexport(lio, name):
    for step in plan_unexport(name, None, lio.dump()).steps:
        lio.apply(step)


@pytest.fixture
def lio():
    return LioModel()


@pytest.mark.parametrize("number", pair.NUMBERS)
def test_both_portal_groups_have_the_lun_and_one_is_enabled(lio, number):
    export(lio, pair=number)
    other = pair.peer_of(number)
    here, peer = lio.group(IQN, number), lio.group(IQN, other)
    assert here["enable"] and not peer["enable"]
    assert here["portals"] == [{"ip_address": "10.0.0.9", "port": 3260}] and peer["portals"] == []
    for group, name in ((here, HERE), (peer, PEER)):
        assert group["luns"] == [
            {"index": 0, "storage_object": "/backstores/user/v0", "alua_tg_pt_gp_name": name},
        ]
        assert lio.acls(IQN, group["tag"])[ALICE]["mapped_luns"] == [{"index": 0, "tpg_lun": 0, "write_protect": False}]
    assert here["attributes"] == peer["attributes"] and here["parameters"] == peer["parameters"]
    (storage,) = lio.config["storage_objects"]
    assert pair.groups_of(storage) == {HERE: number, PEER: other}


def test_two_gateways_tell_the_same_story(lio):
    """A group has the same number on both, and the LUNs of tpg1 are made first, so that they get the same ids."""
    other = LioModel()
    orders = []
    for gateway, number in ((lio, 1), (other, 2)):
        steps = export(gateway, pair=number).steps
        orders.append(
            [str(step) for step in steps if str(step).startswith("LUN 0 of iqn") and "group" not in str(step)]
        )
    assert orders[0] == orders[1] and "(tpg2)" in orders[0][-1]
    for tag in pair.NUMBERS:
        numbers = set()
        for gateway in (lio, other):
            (lun,) = gateway.group(IQN, tag)["luns"]
            (storage,) = gateway.config["storage_objects"]
            numbers.add(pair.groups_of(storage)[lun["alua_tg_pt_gp_name"]])
        assert numbers == {tag}


def test_both_groups_are_on_standby_until_the_handler_knows_better(lio):
    export(lio, pair=1)
    (storage,) = lio.config["storage_objects"]
    assert [group["alua_access_state"] for group in storage["alua_tpgs"]] == [pair.STANDBY] * 2
    assert [group["alua_access_type"] for group in storage["alua_tpgs"]] == [pair.IMPLICIT] * 2


def test_reservations_of_initiators_are_refused_in_a_pair_only(lio):
    export(lio, pair=2)
    assert lio.config["storage_objects"][0]["attributes"]["emulate_pr"] == 0
    lio.config["storage_objects"][0]["attributes"]["emulate_pr"] = 1  # by somebody's wish
    assert export(lio, pair=2).steps == []
    single = LioModel()
    export(single)
    assert single.config["storage_objects"][0]["attributes"].get("emulate_pr") in (None, 1)


def test_reservations_are_refused_where_an_address_moves(lio):
    export(lio, no_reservations=True)
    assert lio.config["storage_objects"][0]["attributes"]["emulate_pr"] == 0
    assert export(lio, no_reservations=True).steps == []
    assert export(lio).steps == []  # as it is
    later = LioModel()
    export(later)
    (step,) = export(later, no_reservations=True).steps
    assert "emulate_pr" in str(step)


@pytest.mark.parametrize("again", [{"pair": 2}, {}])
@pytest.mark.parametrize("more", [{}, {"credentials": SECRET, "no_chap": False}, {"demo_mode": True, "initiators": ()}])
def test_the_same_export_again_changes_nothing(lio, again, more):
    first = export(lio, pair=2, **more)
    plan = plan_export(request(**{**more, **again}), lio.dump())
    assert plan.steps == [] and plan.pair == plan.tag == 2 and plan.lun == first.lun


def test_a_later_initiator_and_portal_come_where_they_belong(lio):
    export(lio, pair=2, credentials=SECRET, no_chap=False)
    portal = request().portals[0].__class__("10.0.1.9", 3260)
    export(lio, initiators=(BOB,), portals=(portal,), credentials=SECRET, no_chap=False)
    assert set(lio.acls(IQN, 1)) == set(lio.acls(IQN, 2)) == {ALICE, BOB}
    assert len(lio.group(IQN, 2)["portals"]) == 2 and not lio.group(IQN, 1)["portals"]


def test_chap_is_asked_in_both_groups_also_if_one_was_made_later(lio):
    export(lio, pair=1, credentials=SECRET, no_chap=False)
    lio.config["targets"][0]["tpgs"].pop()
    export(lio, no_chap=False)
    group = lio.group(IQN, 2)
    assert group["attributes"]["authentication"] == 1
    assert lio.acls(IQN, 2)[ALICE]["chap_password"] == SECRET.secret


def test_a_peer_group_that_somebody_enabled_is_disabled(lio):
    export(lio, pair=1)
    lio.group(IQN, 2)["enable"] = True
    assert [str(step) for step in export(lio, pair=1).steps] == [f"target {IQN} (tpg2) disabled"]
    assert not lio.group(IQN, 2)["enable"]


def test_a_number_is_not_changed_under_initiators(lio):
    export(lio, pair=1)
    assert "as gateway 1 of a pair, not as gateway 2" in refused(lio, pair=2)
    saved = lio.dump()
    lio.config = {"storage_objects": [], "targets": []}  # the boot failed
    assert "as gateway 1 of a pair, not as gateway 2" in refused(lio, saved, pair=2)
    export(lio, saved)
    assert lio.group(IQN, 1)["enable"] and not lio.group(IQN, 2)["enable"]


def test_a_single_gateways_export_does_not_become_a_pairs_under_initiators(lio):
    export(lio)
    assert "by a single gateway" in refused(lio, pair=1)
    unexport(lio, "v0")
    export(lio, pair=1)
    unexport(lio, "v0")
    assert lio.config == {"storage_objects": [], "targets": []}
    assert export(lio).pair == 0


def test_all_luns_of_a_target_are_of_one_pair(lio):
    export(lio, pair=1)
    assert "which is of gateway 1 of a pair" in refused(lio, pair=2, **NEIGHBOUR)
    assert "which is of gateway 1 of a pair" in refused(lio, **NEIGHBOUR)
    assert export(lio, pair=1, **NEIGHBOUR).lun == 1
    unexport(lio, "v0")
    assert [lun["index"] for lun in lio.group(IQN, 1)["luns"] + lio.group(IQN, 2)["luns"]] == [1, 1]
    single = LioModel()
    export(single)
    assert "which is of no pair of gateways" in refused(single, pair=1, **NEIGHBOUR)


def test_the_number_of_a_lun_may_be_chosen_so_that_both_gateways_have_the_same(lio):
    export(lio, pair=1, lun=7)
    assert [lun["index"] for tag in pair.NUMBERS for lun in lio.group(IQN, tag)["luns"]] == [7, 7]
    assert export(lio, pair=1, lun=7).steps == []
    assert "is LUN 7 of" in refused(lio, pair=1, lun=3)
    assert "is /backstores/user/v0" in refused(lio, pair=1, lun=7, **NEIGHBOUR)
    assert export(lio, pair=1, lun=3, **NEIGHBOUR).lun == 3


def test_what_fails_half_way_leaves_nothing(lio):
    wanted = {"pair": 1, "credentials": SECRET, "no_chap": False}
    steps = plan_export(request(**wanted), lio.dump()).steps
    fatal = [number for number, step in enumerate(steps) if not isinstance(step, SetStorageAttribute)]
    for number in fatal:
        model = LioModel(fail_at=number)
        with pytest.raises(IraidError):
            export(model, **wanted)
        assert model.config == {"storage_objects": [], "targets": []}, str(steps[number])
    assert len(fatal) > 20


def test_a_storage_object_that_was_left_without_a_lun_becomes_a_pairs(lio):
    export(lio)
    lio.config["targets"].clear()
    export(lio, pair=1)
    assert pair.number_of(lio.config["storage_objects"][0]) == 1


def test_it_is_saved_on_standby_whoever_serves_the_volume_now(lio):
    export(lio, pair=1)
    dump = lio.dump()
    dump["storage_objects"].append({"plugin": "fileio", "name": "other"})
    dump["storage_objects"][0]["alua_tpgs"][0]["alua_access_state"] = 0
    dump["targets"][0]["tpgs"].reverse()  # as rtslib lists them
    before = copy.deepcopy(dump)
    saved = pair.at_rest(dump)
    assert [group["tag"] for group in saved["targets"][0]["tpgs"]] == [1, 2]
    assert dump == before
    assert [group["alua_access_state"] for group in saved["storage_objects"][0]["alua_tpgs"]] == [pair.STANDBY] * 2
    assert saved["storage_objects"][1] == before["storage_objects"][1]


def test_messages_name_the_portal_group(lio):
    export(lio, pair=2, initiators=(), readers=(ALICE,))
    with pytest.raises(IraidError) as caught:
        export(lio, initiators=(ALICE,))
    assert "/tpg2/acls/" in caught.value.remedy
    assert Group(IQN, {}, {}, set()).tag == 1


# --- as it is looked at ---


@pytest.fixture
def configfs(tmp_path):
    """The tree of gateway 2 of a pair."""

    def file(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    core = "sys/kernel/config/target/core/user_1/v0"
    file(f"{core}/info", "Status: ACTIVATED  Config: iraid/v0  Size: 1024\n")
    file(f"{core}/attrib/emulate_pr", "0\n")
    for name, number, state in ((HERE, 2, 0), (PEER, 1, 2)):
        file(f"{core}/alua/{name}/tg_pt_gp_id", f"{number}\n")
        file(f"{core}/alua/{name}/alua_access_state", f"{state}\n")
    for tag in pair.NUMBERS:
        group = f"sys/kernel/config/target/iscsi/{IQN}/tpgt_{tag}"
        file(f"{group}/enable", f"{int(tag == 2)}\n")
        file(f"{group}/lun/lun_0/alua_tg_pt_gp", f"TG Port Alias: {pair.group_of(2, tag)}\nTG Port Group ID: {tag}\n")
        (tmp_path / group / "lun/lun_0/abc").symlink_to("../../../../../../core/user_1/v0")
        file(f"{group}/acls/{ALICE}/info", "")
    file(f"sys/kernel/config/target/iscsi/{IQN}/tpgt_2/np/10.0.0.9:3260/iser", "0\n")
    return lio_tree.read(tmp_path)


def test_the_group_of_the_other_gateway_is_no_export_of_this_one(configfs):
    (lun,) = configfs.luns
    assert (lun.pair, lun.states, lun.reservations) == (2, {HERE: 0, PEER: 2}, False)
    (export,) = configfs.exports
    assert (export.iqn, export.group, export.enabled, export.portals) == (IQN, 2, True, ["10.0.0.9:3260"])


def test_what_is_saved_of_a_pair_is_what_runs_and_comes_back_as_one(lio, configfs):
    export(lio, pair=2)
    saved = {**lio.dump()}
    saved["storage_objects"][0]["size"] = 1024
    assert lio_tree.differences(saved, configfs) == []
    (command,) = lio_tree.exports_again(saved, lio_tree.Tree())
    assert command.endswith(f"--portal 10.0.0.9:3260 --acl {ALICE} --pair 2 --no-chap")


# What the control socket says of a volume on standby: nothing of what its members know.
STANDBY = {"standby": True, "size_bytes": 0, "block_bytes": 0, "write_cache": False}


@pytest.mark.parametrize("number", [0, 2])
def test_on_standby_an_export_that_is_there_takes_another_initiator(lio, number):
    export(lio, pair=number)
    (before,) = copy.deepcopy(lio.config["storage_objects"])
    assert export(lio, pair=number, **STANDBY).steps == []
    export(lio, pair=number, initiators=(ALICE, BOB), **STANDBY)
    assert BOB in lio.acls(IQN, number or 1)
    assert lio.config["storage_objects"] == [before]


def test_on_standby_nothing_is_exported_first_and_no_other_volume_gets_its_identity(lio):
    refusal = refused(lio, pair=2, **STANDBY)
    assert "on standby" in refusal and "size is not known" in refusal
    export(lio, pair=2)
    assert "has serial" in refused(lio, pair=2, uuid="0" + UUID[1:], **STANDBY)
