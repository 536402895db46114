"""What the Ansible role's modules decide, of what there is and what is wanted."""

import copy
import re

import ansible_role  # noqa: F401 - says where ansible_collections is
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ansible_collections.iraid.iraid.plugins.module_utils import lio_plan, names, tgt_config
from ansible_collections.iraid.iraid.plugins.module_utils.volume_plan import (
    Plan,
    Refused,
    Wanted,
    can_grow,
    describe,
    plan_volume,
)

from iraid.control.errors import UsageFault
from iraid.control.units import parse_size
from iraid.lio.export_plan import parse_iqn, parse_portal

A, B, C, D, E = (f"10.0.0.{n}:3260/iqn.2026-01.org.example:disk/0" for n in range(1, 6))


def status(*members, state="active", **more):
    """Of volume v0: roles in the order given; a member may be (device, state) or (device, state, role)."""
    rows = []
    for role, one in enumerate(members):
        device, its_state, *its_role = one if isinstance(one, tuple) else (one, "in sync")
        rows.append(
            {"member": device, "state": its_state, "role": its_role[0] if its_role else role, "size_bytes": 1 << 30}
        )
    return {
        "name": "v0",
        "state": state,
        "level": 5,
        "chunk_bytes": 65536,
        "size_bytes": 3 << 30,
        "members": rows,
        "sync_rate_min_bytes": 10 << 20,
        "sync_rate_max_bytes": 1 << 30,
        "log": {"mode": "degraded", "open": False},
        "regions": {"region_bytes": 4 << 20},
    } | more


def wanted(*members, **more):
    return Wanted(name="v0", level=5, members=members or (A, B, C), **more)


def commands(want, have):
    return [" ".join(action.words) for action in plan_volume(want, have).actions]


def refusal(want, have):
    with pytest.raises(Refused) as caught:
        plan_volume(want, have)
    return str(caught.value)


# --- volumes ---


def test_a_volume_that_is_not_there_is_made_and_waited_for():
    want = wanted(spares=(D,), chunk_bytes=65536, chap_file="/etc/iraid/secrets/v0", rate_min_bytes=20 << 20)
    assert commands(want, None) == [
        f"create v0 --level 5 --chunk 65536 --chap-file /etc/iraid/secrets/v0 --spare {D} {A} {B} {C}",
        "start v0",
        f"set v0 --rate-min {20 << 20}",
    ]


def test_a_volume_that_is_known_to_be_somewhere_is_not_made():
    for more in ({}, {"overwrite": True}, {"confirm_overwrite": True}):
        assert "not made anew" in refusal(wanted(create=False, **more), None)
    assert commands(wanted(create=False), status(A, B, C)) == []


def test_a_new_volume_has_its_digests_before_anybody_uses_it():
    want = wanted(header_digest="required", data_digest="preferred", log="off")
    assert commands(want, None)[1:] == [
        "start v0",
        "set v0 --log off",
        "set v0 --header-digest required --data-digest preferred",
        "stop v0",
        "start v0",
    ]
    assert commands(wanted(header_digest="none"), None)[1:] == ["start v0"]
    assert commands(want, status(A, B, C, log={"mode": "off"})) == []  # lines of its file by then


def test_a_volume_that_is_as_wanted_has_no_actions():
    plan = plan_volume(wanted(C, A, B, chunk_bytes=65536, rate_min_bytes=10 << 20), status(A, B, C))
    assert (plan.actions, plan.warnings) == ([], [])


@pytest.mark.parametrize(
    "want, have, expected",
    [
        (None, {"mode": "off"}, []),
        ("degraded", {"mode": "degraded"}, []),
        ("off", {"mode": "degraded"}, ["set v0 --log off"]),
        ("degraded", {"mode": "off"}, ["set v0 --log degraded"]),
        ("always", {"mode": "degraded"}, ["set v0 --log always"]),
        ("degraded", None, ["set v0 --log degraded"]),
    ],
)
def test_the_write_log_is_set_where_it_differs(want, have, expected):
    assert commands(wanted(log=want), status(A, B, C, log=have)) == expected


def test_rates_and_the_write_log_are_set_together_and_foreseen():
    have, want = status(A, B, C), wanted(rate_max_bytes=1 << 20, log="off")
    assert commands(want, have) == [f"set v0 --rate-max {1 << 20} --log off"]
    assert describe(have, (want, plan_volume(want, have))) == describe(
        status(A, B, C, sync_rate_max_bytes=1 << 20, log={"mode": "off"})
    )


def test_a_member_is_the_same_however_it_is_written():
    short = "10.0.0.1,10.0.1.1/IQN.2026-01.org.example:disk/0"
    assert commands(wanted(short, B, C), status(A, B, C)) == []


def test_force_is_given_for_overwrite_only():
    assert "--force" not in commands(wanted(), None)[0]
    assert "--force" in commands(wanted(overwrite=True), None)[0]
    assert "--force" in commands(wanted(confirm_overwrite=True), None)[0]
    want = wanted(A, B, D, replace=((C, D),), overwrite=True)
    assert [action.looked_at for action in plan_volume(want, status(A, B, C)).actions] == [(D,)]


@pytest.mark.parametrize(
    "change, word",
    [({"level": 6}, "level 5"), ({"chunk_bytes": 4096}, "chunk 65536"), ({"region_bytes": 1 << 20}, "region_size")],
)
def test_what_a_volume_was_made_with_is_not_changed(change, word):
    want = Wanted(**{"name": "v0", "level": 5, "members": (A, B, C)} | change)
    assert word in refusal(want, status(A, B, C))


def test_a_stopped_volume_that_does_not_know_its_level_is_started():
    have = status(A, B, C, state="stopped", level=None, chunk_bytes=0, regions={"region_bytes": 0})
    assert commands(wanted(chunk_bytes=65536), have) == ["start v0"]
    assert commands(wanted(state="stopped"), have) == []
    assert commands(wanted(state="stopped"), status(A, B, C)) == ["stop v0"]


def test_another_member_wants_an_entry_in_replace():
    text = refusal(wanted(A, B, D), status(A, B, C))
    assert "iraid_replace" in text and C in text and D in text
    assert commands(wanted(A, B, D, replace=((C, D),)), status(A, B, C)) == [f"replace v0 {C} {D}"]


@pytest.mark.parametrize(
    "have",
    [status(A, B, C, (D, "rebuilding", 2)), status(A, B, D), status(A, B, D, (C, "out of date", None))],
    ids=["under way", "done", "the old one is still listed"],
)
def test_a_replacement_is_begun_once(have):
    assert commands(wanted(A, B, D, replace=((C, D),)), have) == []


def test_a_spare_of_the_volume_may_be_the_new_member():
    have = status(A, B, C, (D, "spare", None))
    assert commands(wanted(A, B, D, replace=((C, D),)), have) == [f"replace v0 {C} {D}"]


def test_an_entry_that_contradicts_the_members_is_refused():
    assert "still among its members" in refusal(wanted(A, B, C, replace=((C, A),)), status(A, B, C))
    assert "not among its members" in refusal(wanted(A, B, C, replace=((D, E),)), status(A, B, C))
    assert "not a member of volume v0" in refusal(wanted(A, B, D, replace=((E, D),)), status(A, B, C))


def test_a_spare_that_took_a_place_is_to_be_exchanged_in_the_inventory():
    have = status(A, B, D)
    text = refusal(wanted(A, B, C, spares=(D,)), have)
    assert "exchange" in text and D in text and C in text
    assert commands(wanted(A, B, D, spares=()), have) == []


def test_while_the_failed_member_is_listed_a_spare_in_its_place_is_no_fault():
    have = status(A, B, (C, "faulty", None), (D, "in sync", 2))
    assert commands(wanted(A, B, C, spares=(D,)), have) == []
    shared = plan_volume(wanted(A, B, C), have)  # D was a spare of the gateway
    assert shared.actions == [] and D in shared.warnings[0] and C in shared.warnings[0]


def test_members_are_never_taken_out_or_added():
    assert "can't be removed" in refusal(wanted(A, B), status(A, B, C))
    assert "can't be added" in refusal(wanted(A, B, C, D), status(A, B, C))


def test_a_strange_spare_stays_with_a_warning_and_a_new_one_is_added():
    plan = plan_volume(wanted(spares=(E,)), status(A, B, C, (D, "spare", None)))
    assert [action.words for action in plan.actions] == [("add-spare", "v0", E)]
    assert f"iraid remove v0 {D}" in plan.warnings[0]


def test_nothing_is_deleted_without_the_word():
    assert "iraid_confirm_delete" in refusal(wanted(state="absent"), status(A, B, C))
    assert commands(wanted(state="absent", confirm_delete=True), status(A, B, C)) == ["delete v0 --yes"]
    assert commands(wanted(state="absent", confirm_delete=True), None) == []


def test_growing_waits_for_all_members():
    assert commands(wanted(grow=True), status(A, B, C)) == ["grow v0"]
    plan = plan_volume(wanted(grow=True), status(A, B, (C, "rebuilding"), state="degraded"))
    assert plan.actions == [] and "iraid wait v0" in plan.warnings[0]


def test_the_smallest_member_decides_whether_it_can_grow():
    have = status(A, B, C)
    assert can_grow(have, {A: 2 << 30, B: 2 << 30, C: 3 << 30})
    assert not can_grow(have, {A: 2 << 30, B: 2 << 30, C: 1 << 30})
    assert not can_grow(have, {A: 2 << 30, B: 2 << 30})


def test_the_predicted_difference_is_what_comes():
    have, want = status(A, B, C), wanted(A, B, D, replace=((C, D),), rate_min_bytes=1 << 20)
    predicted = describe(have, (want, plan_volume(want, have)))
    assert predicted == describe(status(A, B, D, sync_rate_min_bytes=1 << 20))
    assert describe(have, (wanted(), Plan())) == describe(have)


# --- names: the same as the iraid command's ---


@given(st.text("0123456789kKmMgGtTiIbB -.", max_size=8))
def test_sizes_are_those_of_the_command(text):
    def of(parse):
        try:
            return parse(text)
        except ValueError:
            return "not a size"

    assert of(names.size) == of(parse_size)


@settings(max_examples=40)
@given(
    st.one_of(
        st.text("iqn.2026-01:org aZ", max_size=20),
        st.from_regex(r"iqn\.20[0-9]{2}-[01][0-9]\.[a-zA-Z0-9.-]{3,9}(:[a-z0-9:._-]{0,5})?", fullmatch=True),
        st.from_regex(r"(eui|naa)\.[0-9a-f]{14,18}", fullmatch=True),
    )
)
def test_iscsi_names_are_those_of_the_command(text):
    def of(parse):
        try:
            return parse(text)
        except (ValueError, UsageFault):
            return "no name"

    assert of(names.iqn) == of(parse_iqn)


@settings(max_examples=40)
@given(
    st.one_of(
        st.from_regex(r"[0-9.]{1,9}(:[0-9]{0,6})?", fullmatch=True),
        st.from_regex(r"\[?[0-9a-f:]{2,9}\]?(:[0-9]{1,5})?", fullmatch=True),
        st.sampled_from(["10.0.0.9", "10.0.0.9:1", "[fd00::9]", "[fd00::9]:70000", "[10.0.0.9]:1"]),
    )
)
def test_portals_to_listen_on_are_those_of_the_command(text):
    def of(parse):
        try:
            return str(parse(text))
        except (ValueError, UsageFault):
            return "no portal"

    assert of(names.listen) == of(parse_portal)


@pytest.mark.parametrize(
    "text, word",
    [
        ("10.0.0.1/disk/0", "iSCSI name"),
        ("10.0.0.1/iqn.2026-01.org.e:a", "PORTAL/IQN"),
        ("10.0.0.1/iqn.2026-01.org.e:a/x", "LUN 'x'"),
        ("10.0.0.1:99999/iqn.2026-01.org.e:a/0", "99999"),
    ],
)
def test_a_bad_member_is_named_with_what_to_write(text, word):
    with pytest.raises(ValueError, match=word):
        names.member(text)


# --- targets of backend hosts ---

IQN, GATEWAY = "iqn.2026-01.org.example:disk", "iqn.2026-01.org.example:gateway1"


def target(**changes):
    backing = lio_plan.Backing("disk-0", device="/dev/vg0/iraid")
    return lio_plan.Target(
        **{"iqn": IQN, "luns": (backing,), "portals": ("10.0.0.1:3260",), "initiators": (GATEWAY,)} | changes
    )


def lio(want):
    """LIO's dump when it serves a target."""
    secret = {"chap_userid": want.user or "", "chap_password": want.secret or ""}
    secret |= {"chap_mutual_userid": want.target_user or "", "chap_mutual_password": want.target_secret or ""}
    group = {
        "tag": 1,
        "enable": True,
        "parameters": {**lio_plan.PARAMETERS, **want.parameters},
        "attributes": {
            "authentication": int(want.secret is not None),
            "generate_node_acls": int(want.open_to_all),
            "cache_dynamic_acls": int(want.open_to_all),
            "demo_mode_write_protect": int(not want.open_to_all),
            "default_cmdsn_depth": want.queue_depth,
        },
        "luns": [{"index": n, "storage_object": one.path} for n, one in enumerate(want.luns)],
        "portals": [{"ip_address": "10.0.0.1", "port": 3260}],
        "node_acls": [
            {"node_wwn": one, **secret, "mapped_luns": [{"index": n, "tpg_lun": n} for n in range(len(want.luns))]}
            for one in want.initiators
        ],
    }
    storage = [
        {"plugin": one.plugin, "name": one.name, "dev": one.device or one.file, "size": one.size_bytes}
        for one in want.luns
    ]
    return {"targets": [{"fabric": "iscsi", "wwn": want.iqn, "tpgs": [group]}], "storage_objects": storage}


def verbs(want, dump):
    return [step.verb for step in lio_plan.plan_target(want, dump).steps]


def test_a_target_is_made_in_an_order_that_lio_takes():
    made = verbs(target(user="u", secret="s"), {})
    assert made.index("storage") < made.index("target") < made.index("group") < made.index("lun")
    assert made.index("attribute") < made.index("acl") < made.index("secret") < made.index("map")
    assert made[-1] == "enable"


@pytest.mark.parametrize("changes", [{}, {"user": "u", "secret": "s"}, {"open_to_all": True, "initiators": ()}])
def test_a_target_that_is_as_wanted_has_no_steps(changes):
    plan = lio_plan.plan_target(target(**changes), lio(target(**changes)))
    assert (plan.steps, plan.warnings) == ([], [])


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"initiators": (GATEWAY, "iqn.2026-01.org.example:gateway2")}, ["acl", "map"]),
        ({"portals": ("10.0.0.1:3260", "10.0.1.1")}, ["portal"]),
        ({"user": "u", "secret": "s"}, ["attribute", "secret"]),
        ({"parameters": {"MaxBurstLength": 262144}}, ["parameter"]),
    ],
)
def test_only_what_is_missing_is_made(changes, expected):
    assert verbs(target(**changes), lio(target())) == expected


def test_no_text_of_a_step_holds_the_secret():
    steps = lio_plan.plan_target(target(user="u", secret="wolf-howls-42"), {}).steps
    assert any("wolf-howls-42" in step.values for step in steps)
    assert "wolf-howls-42" not in repr(steps) + repr(target(secret="wolf-howls-42"))


def test_a_storage_object_of_another_disk_is_refused():
    dump = lio(target())
    dump["storage_objects"][0]["dev"] = "/dev/sda"
    with pytest.raises(lio_plan.Refused, match="/dev/sda"):
        lio_plan.plan_target(target(), dump)


OTHER = "iqn.2026-01.org.example:disk-1"


def named(iqn, path, **more):
    return target(
        iqn=iqn, luns=(lio_plan.Backing(lio_plan.storage_name(iqn, 0), file=path, size_bytes=1 << 20),), **more
    )


def both(first, second):
    return {key: lio(first)[key] + lio(second)[key] for key in ("targets", "storage_objects")}


@pytest.mark.parametrize("iqn", ["iqn.2026-01.org.example:disk.1", "iqn.2026-01.com.example:disk-1"])
def test_targets_whose_storage_objects_would_have_one_name_have_two(iqn):
    first, wanted = named(OTHER, "/a.img"), named(iqn, "/b.img")
    assert wanted.luns[0].name == first.luns[0].name == "disk-1-0"
    second = lio_plan.with_own_names(wanted, lio(first), {})
    assert re.fullmatch("disk-1-0-[0-9a-f]{8}", second.luns[0].name)
    assert lio_plan.with_own_names(wanted, {}, lio(first)) == second  # saved, and not restored
    assert "storage" in verbs(second, lio(first))

    dump = both(first, second)
    assert lio_plan.with_own_names(first, dump, dump) == first and verbs(first, dump) == []
    assert lio_plan.with_own_names(wanted, dump, dump) == second and verbs(second, dump) == []
    assert lio_plan.with_own_names(wanted, lio(second), {}) == second  # the first is gone


def test_a_storage_object_keeps_its_name_where_no_other_target_s_disk_has_it():
    wanted = named(OTHER, "/a.img")
    assert lio_plan.with_own_names(wanted, {}, {}) == wanted
    assert lio_plan.with_own_names(wanted, lio(wanted), lio(wanted)) == wanted
    same_disk = lio(named("iqn.2026-01.com.example:disk-1", "/a.img"))
    assert lio_plan.with_own_names(wanted, same_disk, {}) == wanted
    nobodys = lio(wanted) | {"targets": []}
    nobodys["storage_objects"][0]["dev"] = "/other.img"
    with pytest.raises(lio_plan.Refused, match="first remove the storage object"):
        lio_plan.plan_target(lio_plan.with_own_names(wanted, nobodys, {}), nobodys)


def test_others_stay_in_the_saved_configuration_though_they_do_not_run():
    old = {
        "storage_objects": [
            {"plugin": "block", "name": "other", "dev": "/dev/absent"},
            {"plugin": "block", "name": "disk-0", "dev": "/dev/old"},
        ],
        "targets": [{"wwn": "iqn.2026-01.org.example:other", "tpgs": []}],
        "fabric_modules": [],
    }
    before = copy.deepcopy(old)
    merged = lio_plan.merge_saved(old, lio(target()), target())
    assert old == before
    assert [one["name"] for one in merged["storage_objects"]] == ["other", "disk-0"]
    assert merged["storage_objects"][1]["dev"] == "/dev/vg0/iraid"
    assert [one["wwn"] for one in merged["targets"]] == ["iqn.2026-01.org.example:other", IQN]


def test_what_could_not_be_restored_stays_saved_with_who_sees_it():
    """A disk that was late at a boot: its LUN, which somebody made by hand, and that of the inventory, which is made again."""
    old = lio(target())
    (group,) = old["targets"][0]["tpgs"]
    group["luns"].append({"index": 7, "storage_object": "/backstores/block/late"})
    group["luns"].append({"index": 8, "storage_object": "/backstores/block/disk-0"})  # taken away since, it runs
    group["node_acls"][0]["mapped_luns"] += [{"index": 3, "tpg_lun": 7}, {"index": 4, "tpg_lun": 8}]
    old["storage_objects"].append({"plugin": "block", "name": "late", "dev": "/dev/late"})
    (merged,) = lio_plan.merge_saved(old, lio(target()), target())["targets"][0]["tpgs"]
    assert [one["index"] for one in merged["luns"]] == [0, 7]
    assert merged["node_acls"][0]["mapped_luns"] == [{"index": 0, "tpg_lun": 0}, {"index": 3, "tpg_lun": 7}]


@pytest.mark.parametrize(("device", "serial"), [("/dev/vg0/iraid", "abc"), ("/dev/vg0/other", None)])
def test_a_storage_object_that_is_made_again_keeps_its_serial(device, serial):
    saved = {"storage_objects": [{"plugin": "block", "name": "disk-0", "dev": device, "wwn": "abc"}]}
    (step,) = (one for one in lio_plan.plan_target(target(), {}, saved).steps if one.verb == "storage")
    assert step.values == (target().luns[0], serial)


def test_the_block_of_a_tgt_target_has_all_that_was_asked_for():
    text = tgt_config.text(
        IQN,
        [("/srv/a.img", True)],
        [GATEWAY],
        ["10.0.0.0/24"],
        [("incominguser", "u", "s"), ("outgoinguser", "t", "x")],
        {"MaxBurstLength": 1},
    )
    assert text.startswith("# ") and f"<target {IQN}>" in text
    for line in (
        "<backing-store /srv/a.img>",
        "lun 1",
        f"initiator-name {GATEWAY}",
        "initiator-address 10.0.0.0/24",
        "incominguser u s",
        "outgoinguser t x",
        "MaxBurstLength 1",
        "MaxRecvDataSegmentLength 262144",
    ):
        assert line in text.replace("    ", "")


def test_a_target_of_tgt_with_a_session_is_in_use():
    shown = (
        "Target 1: iqn.a\n    System information:\n    I_T nexus information:\n        I_T nexus: 3\n"
        "Target 2: iqn.b\n    I_T nexus information:\n    LUN information:\n"
    )
    assert tgt_config.targets_in_use(shown) == {"iqn.a": True, "iqn.b": False}
