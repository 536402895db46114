"""What export and unexport decide, carried out on a model of LIO.  The kernel's own is tested end to end."""

import copy
import dataclasses

import pytest
from control_peer import UUID
from hypothesis import given, settings
from hypothesis import strategies as st
from lio_model import ALICE, IQN, LioModel, request

from iraid.control.errors import IraidError, UsageFault
from iraid.lio import access, export_plan
from iraid.lio.chap import Credentials
from iraid.lio.configuration import CREDENTIALS
from iraid.lio.export_plan import parse_iqn, parse_portal, plan_export, plan_unexport
from iraid.lio.steps import (
    CreateAcl,
    CreateGroup,
    CreateTarget,
    Portal,
    SetGroupAttribute,
    SetStorageAttribute,
    carry_out,
)

BOB = "iqn.1993-08.org.debian:01:bob"
SECRET = Credentials("client", "wolf-howls-42")


def second(**changes):
    """Another volume."""
    return request("v1", uuid="0" + UUID[1:], **changes)


def export(lio, wanted):
    plan = plan_export(wanted, lio.dump())
    carry_out(plan.steps, lio.apply)
    return plan


def unexport(lio, name, iqn=None):
    for step in plan_unexport(name, iqn, lio.dump()).steps:
        lio.apply(step)


def refused(lio, wanted):
    """The error; nothing was changed."""
    before = lio.dump()
    with pytest.raises(IraidError) as caught:
        export(lio, wanted)
    assert lio.dump() == before
    assert caught.value.remedy
    return caught.value


@pytest.fixture
def lio():
    return LioModel()


# --- what is made ---


def test_a_fresh_export_makes_a_whole_target(lio):
    export(lio, request())
    (storage,) = lio.config["storage_objects"]
    assert storage["config"] == "iraid/v0"
    assert storage["wwn"] == UUID
    assert storage["size"] == 300 << 30
    assert storage["attributes"]["emulate_write_cache"] == 1
    group = lio.group(IQN)
    assert group["enable"]
    assert group["luns"] == [{"index": 0, "storage_object": "/backstores/user/v0"}]
    assert group["portals"] == [{"ip_address": "10.0.0.9", "port": 3260}]
    assert lio.acls(IQN)[ALICE]["mapped_luns"] == [{"index": 0, "tpg_lun": 0, "write_protect": False}]


def test_nobody_but_the_named_gets_in(lio):
    export(lio, request())
    attributes = lio.group(IQN)["attributes"]
    assert attributes["generate_node_acls"] == attributes["cache_dynamic_acls"] == 0
    assert attributes["demo_mode_write_protect"] == 1
    assert attributes["demo_mode_discovery"] == 0
    assert attributes["authentication"] == 0
    assert set(lio.acls(IQN)) == {ALICE}


def test_limits_are_raised_beyond_the_kernels(lio):
    export(lio, request())
    (storage,) = lio.config["storage_objects"]
    assert storage["hw_max_sectors"] * 512 == export_plan.TRANSFER_BYTES_MAX > 64 * 1024
    assert storage["control"] == ("hw_block_size=512,max_data_area_mb=64,data_pages_per_blk=16,cmd_ring_size_mb=1")
    parameters = lio.group(IQN)["parameters"]
    assert parameters["InitialR2T"] == "No"
    assert int(parameters["FirstBurstLength"]) <= int(parameters["MaxBurstLength"])


def test_an_acl_gets_the_queue_depth_of_the_group(lio):
    """The kernel copies it when the ACL is made, so the order counts."""
    plan = export(lio, request())
    assert lio.acls(IQN)[ALICE]["depth"] == export_plan.QUEUE_DEPTH <= 512
    kinds = [type(step) for step in plan.steps]
    last_setting = max(i for i, kind in enumerate(kinds) if kind is SetGroupAttribute)
    assert last_setting < kinds.index(CreateAcl)


def test_blocks_of_4096_are_told_to_the_kernel(lio):
    export(lio, request(block_bytes=4096))
    (storage,) = lio.config["storage_objects"]
    assert "hw_block_size=4096" in storage["control"]
    assert storage["hw_max_sectors"] * 4096 == export_plan.TRANSFER_BYTES_MAX


def test_a_volume_without_volatile_caches_says_so(lio):
    export(lio, request(write_cache=False))
    assert lio.config["storage_objects"][0]["attributes"]["emulate_write_cache"] == 0


def test_chap_is_asked_of_every_initiator(lio):
    export(lio, request(initiators=(ALICE, BOB), credentials=SECRET))
    assert lio.group(IQN)["attributes"]["authentication"] == 1
    assert [(a["chap_userid"], a["chap_password"]) for a in lio.acls(IQN).values()] == [("client", "wolf-howls-42")] * 2


def test_secrets_are_not_in_what_is_reported(lio):
    plan = plan_export(request(credentials=SECRET), lio.dump())
    assert SECRET.secret not in " ".join(map(str, plan.steps)) + repr(plan.steps)


def test_without_a_portal_it_listens_everywhere_and_warns(lio):
    plan = export(lio, request(portals=()))
    assert lio.group(IQN)["portals"] == [{"ip_address": "0.0.0.0", "port": 3260}]
    assert "every address" in plan.warnings[0]


def test_demo_mode_lets_anybody_write(lio):
    export(lio, request(initiators=(), demo_mode=True, credentials=SECRET))
    attributes = lio.group(IQN)["attributes"]
    assert attributes["generate_node_acls"] == 1
    assert attributes["demo_mode_write_protect"] == 0
    assert attributes["authentication"] == 1
    assert lio.group(IQN)["chap_userid"] == "client"


# --- again, and more ---


@pytest.mark.parametrize(
    "wanted",
    [
        request(),
        request(portals=()),
        request(credentials=SECRET),
        request(write_cache=False),
        request(initiators=(), demo_mode=True),
        request(initiators=(ALICE, BOB, ALICE)),
        request(portals=(Portal("[::]", 3260), Portal("[::]", 3260))),
    ],
)
def test_the_same_export_again_changes_nothing(lio, wanted):
    first = export(lio, wanted)
    again = plan_export(wanted, lio.dump())
    assert again.steps == []
    assert again.lun == first.lun


def test_another_initiator_and_portal_are_added_to_those_there(lio):
    export(lio, request())
    export(lio, request(initiators=(BOB,), portals=(Portal("10.0.1.9", 3260),)))
    assert set(lio.acls(IQN)) == {ALICE, BOB}
    assert len(lio.group(IQN)["portals"]) == 2


def test_an_initiator_need_not_be_named_again(lio):
    export(lio, request())
    assert plan_export(request(initiators=()), lio.dump()).steps == []


def test_a_changed_secret_is_updated(lio):
    export(lio, request(credentials=SECRET))
    export(lio, request(credentials=Credentials("client", "another-secret")))
    assert lio.acls(IQN)[ALICE]["chap_password"] == "another-secret"


def test_volumes_share_a_target_as_luns(lio):
    export(lio, request())
    plan = export(lio, second())
    assert plan.lun == 1
    assert lio.acls(IQN)[ALICE]["mapped_luns"] == [
        {"index": 0, "tpg_lun": 0, "write_protect": False},
        {"index": 1, "tpg_lun": 1, "write_protect": False},
    ]


def test_the_lowest_free_lun_is_taken(lio):
    export(lio, request())
    export(lio, second())
    unexport(lio, "v0")
    assert export(lio, request()).lun == 0


def test_a_number_the_initiator_uses_already_is_avoided(lio):
    export(lio, request())
    lio.acls(IQN)[ALICE]["mapped_luns"] = [{"index": 1, "tpg_lun": 0, "write_protect": False}]
    export(lio, second())
    assert lio.acls(IQN)[ALICE]["mapped_luns"][1] == {"index": 0, "tpg_lun": 1, "write_protect": False}


def test_an_export_made_by_targetcli_is_recognised(lio):
    """Its storage object may have any name."""
    export(lio, request())
    lio.config["storage_objects"][0]["name"] = "disk"
    lio.group(IQN)["luns"][0]["storage_object"] = "/backstores/user/disk"
    assert plan_export(request(), lio.dump()).steps == []
    unexport(lio, "v0")
    assert lio.config == {"storage_objects": [], "targets": []}


def test_a_slow_export_made_by_targetcli_is_warned_of(lio):
    export(lio, request())
    lio.config["storage_objects"][0]["hw_max_sectors"] = 128
    assert "128 blocks per command" in plan_export(request(), lio.dump()).warnings[0]


# --- refused ---


def test_without_an_initiator_it_says_where_to_find_the_name(lio):
    error = refused(lio, request(initiators=()))
    assert "no --acl" in error.message
    for place in ("/etc/iscsi/initiatorname.iscsi", "iscsicli", "--demo-mode"):
        assert place in error.remedy


def test_a_recreated_volume_does_not_take_over_the_old_ones_identity(lio):
    export(lio, request())
    assert "serial" in refused(lio, request(uuid="1" + UUID[1:])).message
    error = refused(lio, request(size_bytes=100 << 30))
    assert str(300 << 30) in error.message
    assert "iraid unexport v0" in error.remedy


def test_a_lun_that_did_not_grow_with_its_volume_is_grown_not_made_again(lio):
    export(lio, request())
    assert "iraid grow v0" in refused(lio, request(size_bytes=400 << 30)).remedy
    assert "iraid grow" not in refused(lio, request(size_bytes=400 << 30, uuid="1" + UUID[1:])).remedy


def test_a_name_that_another_handlers_object_has_is_refused(lio):
    export(lio, request())
    lio.config["storage_objects"][0]["config"] = "qcow/image"
    error = refused(lio, request(iqn="iqn.2026-01.org.example:other"))
    assert "made of qcow/image" in error.message


def test_demo_mode_of_other_luns_is_neither_ended_nor_begun(lio):
    export(lio, request(initiators=(), demo_mode=True))
    assert "is in demo mode" in refused(lio, second()).message
    other = LioModel()
    export(other, request())
    assert "named initiators" in refused(other, second(initiators=(), demo_mode=True)).message


def test_settings_of_a_target_with_other_luns_are_left_alone(lio):
    export(lio, request())
    lio.group(IQN)["attributes"]["default_cmdsn_depth"] = 32
    lio.group(IQN)["parameters"]["MaxBurstLength"] = "65536"
    export(lio, second())
    assert lio.group(IQN)["attributes"]["default_cmdsn_depth"] == 32
    assert lio.group(IQN)["parameters"]["MaxBurstLength"] == "65536"


@pytest.mark.parametrize(("wanted", "value"), [("none", "None"), ("preferred", "CRC32C,None"), ("required", "CRC32C")])
def test_digests_are_set_as_asked_for_and_again_only_if_they_differ(lio, wanted, value):
    export(lio, request(header_digest=wanted, data_digest=wanted))
    parameters = lio.group(IQN)["parameters"]
    assert parameters["HeaderDigest"] == parameters["DataDigest"] == value
    assert access.digest_of(lio.group(IQN), "DataDigest") == wanted
    assert plan_export(request(header_digest=wanted, data_digest=wanted), lio.dump()).steps == []
    assert plan_export(request(), lio.dump()).steps == [], "without the options they stay as they are"


def test_digests_of_a_target_with_other_luns_are_not_changed(lio):
    export(lio, request(header_digest="preferred"))
    export(lio, second(header_digest="preferred"))
    said = refused(lio, request("v2", uuid="2" + UUID[1:], data_digest="required"))
    assert "DataDigest CRC32C,None, not CRC32C" in said.message and "--iqn" in said.remedy
    assert lio.group(IQN)["parameters"]["DataDigest"] == "CRC32C,None"


def test_chap_locks_nobody_out_by_surprise(lio):
    export(lio, request(initiators=(ALICE, BOB)))
    error = refused(lio, request(credentials=SECRET))
    assert BOB in error.message
    assert f"--acl {BOB}" in error.remedy
    export(lio, request(initiators=(ALICE, BOB), credentials=SECRET))


def test_an_initiator_without_a_secret_is_not_added_to_a_target_with_chap(lio):
    export(lio, request(credentials=SECRET))
    assert "--chap-file" in refused(lio, request(initiators=(BOB,), no_chap=False)).remedy
    assert "--chap-file" in refused(lio, second(initiators=(BOB,), no_chap=False)).remedy


def test_chap_stays_on_when_it_is_not_named_again(lio):
    export(lio, request(credentials=SECRET))
    assert plan_export(request(no_chap=False), lio.dump()).steps == []


OTHER_SECRET = Credentials("other", "another-secret")


def open_to_all(wanted=request, **changes):
    return wanted(**{"initiators": (), "demo_mode": True, "credentials": SECRET, "no_chap": False, **changes})


def demo_chap(lio):
    group = lio.group(IQN)
    return group["attributes"]["authentication"], group.get("chap_userid"), group.get("chap_password")


def test_chap_stays_on_in_demo_mode_when_it_is_not_named_again(lio):
    export(lio, open_to_all())
    assert plan_export(open_to_all(credentials=None), lio.dump()).steps == []
    export(lio, open_to_all(credentials=None, portals=(Portal("10.0.1.9", 3260),)))
    assert demo_chap(lio) == (1, "client", "wolf-howls-42")


def test_a_second_lun_in_demo_mode_leaves_the_credentials_of_the_first(lio):
    export(lio, open_to_all())
    export(lio, open_to_all(second, credentials=None))
    assert demo_chap(lio) == (1, "client", "wolf-howls-42")
    assert plan_export(open_to_all(second), lio.dump()).steps == []


def test_credentials_that_other_luns_use_in_demo_mode_are_not_replaced(lio):
    export(lio, open_to_all())
    error = refused(lio, open_to_all(second, credentials=OTHER_SECRET))
    assert f"target {IQN} has other LUNs" in error.message and "another user or secret" in error.message
    assert "without --chap-file" in error.remedy and "--iqn" in error.remedy
    assert OTHER_SECRET.secret not in error.message and SECRET.secret not in error.message


def test_a_second_lun_does_not_lock_those_out_who_use_the_first_in_demo_mode(lio):
    export(lio, open_to_all(credentials=None, no_chap=True))
    assert f"target {IQN} has other LUNs and asks for no CHAP" in refused(lio, open_to_all(second)).message


def test_a_changed_secret_of_demo_mode_is_updated(lio):
    export(lio, open_to_all())
    export(lio, open_to_all(credentials=OTHER_SECRET))
    assert demo_chap(lio) == (1, "other", "another-secret")


def test_chap_of_demo_mode_without_a_secret_can_be_completed_beside_other_luns(lio):
    """Nobody gets in by it."""
    export(lio, open_to_all())
    del lio.group(IQN)["chap_userid"], lio.group(IQN)["chap_password"]
    export(lio, open_to_all(second))
    assert demo_chap(lio) == (1, "client", "wolf-howls-42")


def test_from_demo_mode_with_chap_to_named_initiators_a_secret_is_asked_for(lio):
    export(lio, open_to_all())
    error = refused(lio, request(no_chap=False))
    assert f"target {IQN} asks for CHAP, and {ALICE} has no secret" in error.message
    assert "--chap-file" in error.remedy
    export(lio, request(credentials=SECRET))
    assert lio.group(IQN)["attributes"]["authentication"] == 1


def test_from_named_initiators_with_chap_to_demo_mode_a_secret_is_asked_for(lio):
    export(lio, request(credentials=SECRET))
    error = refused(lio, open_to_all(credentials=None))
    assert f"target {IQN} asks for CHAP" in error.message and "--chap-file" in error.remedy
    export(lio, open_to_all())
    assert demo_chap(lio) == (1, "client", "wolf-howls-42")


def test_chap_stays_on_when_the_last_initiator_that_had_a_secret_was_removed(lio):
    export(lio, request(credentials=SECRET))
    lio.group(IQN)["node_acls"].clear()
    for wanted in (request(initiators=(BOB,), no_chap=False), open_to_all(credentials=None)):
        error = refused(lio, wanted)
        assert f"target {IQN} asks for CHAP" in error.message and "--chap-file" in error.remedy
    export(lio, open_to_all(credentials=OTHER_SECRET))
    assert demo_chap(lio) == (1, "other", "another-secret")


@pytest.mark.parametrize("first", [request(credentials=SECRET), open_to_all()], ids=["named", "demo"])
def test_chap_stays_on_where_its_secrets_were_taken_away(lio, first):
    """Nobody gets in until somebody says how."""
    export(lio, first)
    for holder in (lio.group(IQN), *lio.acls(IQN).values()):
        holder.pop("chap_userid", None), holder.pop("chap_password", None)
    export(lio, dataclasses.replace(first, credentials=None, initiators=()))
    assert demo_chap(lio) == (1, None, None)


def test_a_target_restored_without_its_luns_does_not_lose_chap_of_demo_mode(lio):
    export(lio, open_to_all())
    saved, partly = lio.dump(), LioModel()
    an_empty_target(partly)
    with pytest.raises(IraidError, match="asks for CHAP"):
        plan_export(open_to_all(credentials=None), partly.dump(), saved)


def test_a_target_that_was_made_read_only_stays_so(lio):
    export(lio, request())
    lio.group(IQN)["attributes"]["prod_mode_write_protect"] = 1
    assert plan_export(request(), lio.dump()).steps == []


def test_a_target_that_is_saved_with_chap_of_demo_mode_does_not_come_back_without(lio):
    export(lio, open_to_all())
    saved, fresh = lio.dump(), LioModel()
    with pytest.raises(IraidError, match="asks for CHAP"):
        plan_export(open_to_all(credentials=None), fresh.dump(), saved)
    assert plan_export(open_to_all(), fresh.dump(), saved).lun == 0
    with pytest.raises(IraidError, match="saved and do not run") as caught:
        plan_export(open_to_all(second, credentials=OTHER_SECRET), fresh.dump(), saved)
    assert "give the file of the others" in caught.value.remedy


# --- closed, unless somebody says otherwise ---

MUTUAL = Credentials("client", "wolf-howls-42", "gateway", "owl-hoots-4242")
FINDER = Credentials("finder", "cat-purrs-4242")


@pytest.mark.parametrize(
    "changes", [{}, {"demo_mode": True, "initiators": ()}, {"initiators": (), "readers": (ALICE,)}]
)
def test_without_a_secret_nothing_is_exported_unless_that_is_wanted(lio, changes):
    error = refused(lio, request(no_chap=False, **changes))
    assert f"nothing would prove who logs in to target {IQN}" in error.message
    assert "--chap-file FILE" in error.remedy and "--no-chap" in error.remedy
    export(lio, request(no_chap=True, **changes))
    assert lio.group(IQN)["attributes"]["authentication"] == 0


def test_more_is_not_added_to_a_target_without_chap_unless_that_is_wanted(lio):
    export(lio, request(no_chap=True))
    assert "--no-chap" in refused(lio, request(initiators=(BOB,), no_chap=False)).remedy
    assert "--no-chap" in refused(lio, second(no_chap=False)).remedy


def test_chap_is_not_ended_by_a_command_that_does_without(lio):
    export(lio, request(credentials=SECRET))
    for wanted in (request(no_chap=True), second(no_chap=True), open_to_all(credentials=None, no_chap=True)):
        error = refused(lio, wanted)
        assert "asks for CHAP, and --no-chap does not switch that off" in error.message
    assert "--no-chap and --chap-file" in refused(lio, request(credentials=SECRET, no_chap=True)).message


def test_demo_mode_is_loud(lio):
    (warning,) = export(lio, open_to_all(credentials=None, no_chap=True)).warnings
    assert "EVERY initiator that reaches a portal" in warning and "WRITE" in warning
    (warning,) = plan_export(open_to_all(), LioModel().dump()).warnings
    assert "EVERY initiator that has the secret" in warning and SECRET.secret not in warning


# --- mutual CHAP, discovery, and who may only read ---


def test_the_target_proves_itself_to_initiators_of_a_mutual_file(lio):
    export(lio, request(initiators=(ALICE, BOB), credentials=MUTUAL))
    for acl in lio.acls(IQN).values():
        assert [acl[f"chap_{name}"] for name in CREDENTIALS] == list(MUTUAL)
    assert MUTUAL.mutual_secret not in repr(plan_export(request(credentials=MUTUAL), LioModel().dump()).steps)
    assert plan_export(request(initiators=(ALICE, BOB), credentials=MUTUAL), lio.dump()).steps == []


def test_one_initiator_may_have_mutual_chap_and_another_not(lio):
    export(lio, request(credentials=MUTUAL))
    export(lio, request(initiators=(BOB,), credentials=SECRET))
    assert "chap_mutual_userid" in lio.acls(IQN)[ALICE] and "chap_mutual_userid" not in lio.acls(IQN)[BOB]


@pytest.mark.parametrize("first", [{}, {"demo_mode": True, "initiators": ()}], ids=["named", "demo"])
def test_mutual_chap_is_not_ended_by_a_file_of_two_lines(lio, first):
    export(lio, request(credentials=MUTUAL, **first))
    error = refused(lio, request(credentials=OTHER_SECRET, **first))
    assert "mutual CHAP, which the file of --chap-file would end" in error.message and "lines 3 and 4" in error.remedy
    export(lio, request(credentials=dataclasses.replace(MUTUAL, secret="another-secret"), **first))


def test_discovery_asks_for_a_secret_on_the_whole_gateway(lio):
    plan = export(lio, request(discovery=FINDER))
    (module,) = lio.config["fabric_modules"]
    assert module == {
        "name": "iscsi",
        "discovery_enable_auth": True,
        "discovery_userid": "finder",
        "discovery_password": "cat-purrs-4242",
    }
    assert FINDER.secret not in repr(plan.steps) + " ".join(map(str, plan.steps))
    assert plan_export(request(discovery=FINDER), lio.dump()).steps == []
    export(lio, second())
    assert lio.config["fabric_modules"] == [module]
    export(lio, request(discovery=MUTUAL))
    assert "discovery has mutual CHAP" in refused(lio, request(discovery=FINDER)).message


def test_who_may_only_read_is_mapped_so(lio):
    export(lio, request(initiators=(ALICE,), readers=(BOB,)))
    protected = {name: acl["mapped_luns"][0]["write_protect"] for name, acl in lio.acls(IQN).items()}
    assert protected == {ALICE: False, BOB: True}
    assert plan_export(request(readers=(BOB,)), lio.dump()).steps == []
    assert plan_export(request(initiators=()), lio.dump()).steps == []


def test_who_may_write_can_be_made_to_read_only_and_not_the_other_way_round(lio):
    export(lio, request())
    export(lio, request(initiators=(), readers=(ALICE,)))
    assert lio.acls(IQN)[ALICE]["mapped_luns"][0]["write_protect"]
    error = refused(lio, request())
    assert f"{ALICE} may only read LUN 0 of {IQN}" in error.message
    assert f"/acls/{ALICE} delete 0" in error.remedy
    export(lio, second())  # another LUN
    assert not lio.acls(IQN)[ALICE]["mapped_luns"][1]["write_protect"]


def test_an_initiator_that_is_saved_read_only_does_not_come_back_writing(lio):
    export(lio, request(initiators=(), readers=(ALICE,)))
    saved, fresh = lio.dump(), LioModel()
    with pytest.raises(IraidError, match="may only read"):
        plan_export(request(), fresh.dump(), saved)


def test_an_initiator_is_not_given_as_both(lio):
    assert "--acl and by --acl-read-only" in refused(lio, request(readers=(ALICE,))).message


# --- undone ---

WANTED = [
    request(initiators=(), readers=(ALICE, BOB)),
    request(credentials=MUTUAL, discovery=FINDER),
    request(credentials=SECRET),
    request(portals=()),
    second(),
    second(iqn=IQN + "b"),
    request(initiators=(BOB,), portals=(Portal("10.0.1.9", 3260),)),
    request(initiators=(ALICE, BOB), credentials=SECRET),
    request(initiators=(), demo_mode=True),
]


def an_empty_target(lio):
    """As targetcli makes it, with the kernel's settings."""
    for step in (CreateTarget(IQN), CreateGroup(IQN), CreateAcl(IQN, ALICE)):
        lio.apply(step)


BEFORE = [lambda lio: None, an_empty_target, lambda lio: export(lio, request())]


@settings(deadline=None, max_examples=300)
@given(before=st.sampled_from(BEFORE), wanted=st.sampled_from(WANTED), fail_at=st.integers(0, 30))
def test_an_export_that_fails_anywhere_leaves_nothing_behind(before, wanted, fail_at):
    lio = LioModel()
    before(lio)
    there = lio.dump()
    plan = plan_export(wanted, there)
    lio.fail_at = lio.applied + fail_at
    if fail_at >= len(plan.steps) or isinstance(plan.steps[fail_at], SetStorageAttribute):
        carry_out(plan.steps, lio.apply)
        return
    with pytest.raises(IraidError, match="LIO refused"):
        carry_out(plan.steps, lio.apply)
    assert lio.dump() == there


def test_a_handler_that_refuses_an_attribute_is_warned_of(lio):
    """It answers initiators itself; the kernel's attribute is for show."""
    plan = plan_export(request(), lio.dump())
    lio.fail_at = next(i for i, s in enumerate(plan.steps) if isinstance(s, SetStorageAttribute))
    warnings = carry_out(plan.steps, lio.apply)
    assert warnings == ["LIO refused: emulate_write_cache=1 of storage object v0"]
    assert lio.group(IQN)["enable"]


def test_an_interrupt_is_undone_too(lio):
    plan = plan_export(request(), lio.dump())

    def apply(step):
        if isinstance(step, CreateAcl):
            raise KeyboardInterrupt
        lio.apply(step)

    with pytest.raises(KeyboardInterrupt):
        carry_out(plan.steps, apply)
    assert lio.config == {"storage_objects": [], "targets": []}


def test_what_cannot_be_undone_is_named_and_the_rest_is_undone(lio):
    plan = plan_export(request(), lio.dump())
    failing = False

    def apply(step):
        nonlocal failing
        if isinstance(step, CreateAcl):
            failing = True
            raise IraidError("LIO refused: ACL", "r", kind="kernel")
        if failing and str(step).startswith("portal 10.0.0.9:3260"):
            raise OSError(16, "Device or resource busy")
        lio.apply(step)

    with pytest.raises(IraidError) as caught:
        carry_out(plan.steps, apply)
    assert "LIO refused: ACL" in caught.value.message
    assert "portal 10.0.0.9:3260" in caught.value.message
    assert "busy" in caught.value.message
    assert lio.config == {"storage_objects": [], "targets": []}


# --- unexport ---


def test_unexport_removes_all_that_export_made(lio):
    export(lio, request(credentials=SECRET))
    unexport(lio, "v0")
    assert lio.config == {"storage_objects": [], "targets": []}


def test_unexport_leaves_other_luns_of_the_target(lio):
    export(lio, request())
    export(lio, second())
    unexport(lio, "v0")
    assert [lun["index"] for lun in lio.group(IQN)["luns"]] == [1]
    assert lio.acls(IQN)[ALICE]["mapped_luns"] == [{"index": 1, "tpg_lun": 1, "write_protect": False}]
    assert [s["name"] for s in lio.config["storage_objects"]] == ["v1"]


def test_unexport_from_one_target_keeps_the_others_and_the_storage_object(lio):
    other = "iqn.2026-01.org.example:second"
    export(lio, request())
    export(lio, request(iqn=other, portals=(Portal("10.0.1.9", 3260),)))
    unexport(lio, "v0", other)
    assert [t["wwn"] for t in lio.config["targets"]] == [IQN]
    assert lio.config["storage_objects"]
    unexport(lio, "v0")
    assert lio.config == {"storage_objects": [], "targets": []}


def test_a_storage_object_without_a_target_is_removed(lio):
    export(lio, request())
    lio.config["targets"].clear()
    unexport(lio, "v0")
    assert lio.config["storage_objects"] == []


OTHER_IQN = IQN + "-other"


def export_twice(lio, same_target=False):
    """Once more by targetcli, by a storage object of its own: under another target, or as another LUN."""
    export(lio, request())
    lio.config["storage_objects"].append({**lio.config["storage_objects"][0], "name": "by-hand"})
    path = "/backstores/user/by-hand"
    if same_target:
        lio.group(IQN)["luns"].append({"index": 1, "storage_object": path})
        return
    other = copy.deepcopy(lio.config["targets"][0]) | {"wwn": OTHER_IQN}
    other["tpgs"][0]["luns"][0]["storage_object"] = path
    lio.config["targets"].append(other)


@pytest.mark.parametrize("same_target", [False, True])
def test_unexport_removes_all_storage_objects_of_the_volume(lio, same_target):
    export_twice(lio, same_target)
    unexport(lio, "v0")
    assert lio.config == {"storage_objects": [], "targets": []}


def test_unexport_from_one_target_removes_the_storage_object_that_it_alone_had(lio):
    export_twice(lio)
    unexport(lio, "v0", OTHER_IQN)
    assert [s["name"] for s in lio.config["storage_objects"]] == ["v0"]
    assert [t["wwn"] for t in lio.config["targets"]] == [IQN]


def test_initiators_of_all_storage_objects_hold_the_volume(lio):
    export_twice(lio)
    sessions = {IQN: [ALICE], OTHER_IQN: [BOB]}
    assert export_plan.users_of("v0", None, lio.dump(), sessions) == [ALICE, BOB]
    assert export_plan.users_of("v0", OTHER_IQN, lio.dump(), sessions) == [BOB]


def in_loopback(lio):
    export(lio, request())
    lio.config["targets"].append(
        {
            "wwn": "naa.5001405000000001",
            "fabric": "loopback",
            "tpgs": [{"tag": 1, "luns": [{"index": 0, "storage_object": "/backstores/user/v0"}]}],
        }
    )


def test_a_volume_that_another_fabric_has_too_is_left_as_it_is(lio):
    in_loopback(lio)
    before = lio.dump()
    for iqn, kind in ((None, "busy"), ("naa.5001405000000001", "not_found")):
        with pytest.raises(IraidError) as caught:
            unexport(lio, "v0", iqn)
        assert caught.value.kind == kind and lio.dump() == before
    with pytest.raises(IraidError) as caught:
        unexport(lio, "v0")
    assert "volume v0 is also in use by loopback target naa.5001405000000001" in caught.value.message
    assert "targetcli /loopback delete naa.5001405000000001" in caught.value.remedy


def test_a_volume_that_another_fabric_has_too_can_be_taken_from_its_iscsi_target(lio):
    in_loopback(lio)
    unexport(lio, "v0", IQN)
    assert [t["fabric"] for t in lio.config["targets"]] == ["loopback"]
    assert [s["name"] for s in lio.config["storage_objects"]] == ["v0"]


def test_unexport_of_what_is_not_exported_says_so(lio):
    with pytest.raises(IraidError, match="volume v0 is not exported"):
        plan_unexport("v0", None, lio.dump())
    export(lio, request())
    with pytest.raises(IraidError) as caught:
        plan_unexport("v0", "iqn.2026-01.org.example:none", lio.dump())
    assert IQN in caught.value.remedy


def test_only_initiators_that_see_the_volume_hold_it(lio):
    export(lio, request())
    export(lio, second(initiators=(BOB,)))
    sessions = {IQN: [ALICE, BOB]}
    assert export_plan.users_of("v0", None, lio.dump(), sessions) == [ALICE]
    assert export_plan.users_of("v1", IQN, lio.dump(), sessions) == [BOB]
    assert export_plan.users_of("v0", None, lio.dump(), {IQN: []}) == []
    assert export_plan.users_of("v0", "iqn.2026-01.org.example:x", lio.dump(), sessions) == []


def test_an_initiator_let_in_by_demo_mode_holds_it(lio):
    export(lio, request(initiators=(), demo_mode=True))
    assert export_plan.users_of("v0", None, lio.dump(), {IQN: [BOB]}) == [BOB]


# --- what is typed ---


@pytest.mark.parametrize(
    ("text", "portal"),
    [
        ("10.0.0.9", Portal("10.0.0.9", 3260)),
        ("10.0.0.9:860", Portal("10.0.0.9", 860)),
        ("[fd00:0::9]:3261", Portal("[fd00::9]", 3261)),
        ("[::0]", Portal("[::]", 3260)),
    ],
)
def test_portals_are_read_in_one_form(text, portal):
    assert parse_portal(text) == portal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "10.0.0",
        "10.0.0.9:0",
        "10.0.0.9:65536",
        "fd00::9",
        "[10.0.0.9]:3260",
        "10.0.0.9:",
        "10.0.0.9:x",
        "[fd00::9",
    ],
)
def test_what_is_no_portal_is_refused_and_named(text):
    with pytest.raises(UsageFault, match=f"'{text}'".replace("[", r"\[")):
        parse_portal(text)


@pytest.mark.parametrize(
    "text",
    [
        "iqn.2026-01.org.example:v0",
        "iqn.1991-05.com.microsoft:host-1",
        "iqn.2026-01.org.example",
        "IQN.2026-01.org.Example:V0",
        "eui.0123456789abcdef",
        "naa.5001405012345678",
    ],
)
def test_iscsi_names_are_read_in_lower_case(text):
    assert parse_iqn(text) == text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "iqn",
        "iqn.2026-13.org.example:v0",
        "iqn.2026-01.org:v0",
        "iqn.2026-01.org.example:a_b",
        "iqn.2026-01.org.example:a b",
        "iqn.2026-01.org.example:a/b",
        "eui.123",
        "naa.9001405012345678",
        "iqn.2026-01.org.example:" + "x" * 210,
    ],
)
def test_what_is_no_iscsi_name_is_refused(text):
    with pytest.raises(UsageFault):
        parse_iqn(text)
