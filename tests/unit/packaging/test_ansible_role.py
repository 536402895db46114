"""The Ansible collection: the role's variables, its page, its modules.  With Ansible itself: tests/integration/test_ansible.py,
test_ansible_collection.py.
"""

import ast
import fcntl
import json
import os
import re
import stat
import threading

import pytest
import yaml
from ansible_role import COLLECTION, COLLECTIONS, ROLE, filters, run_module
from control_peer import IRAID, ControlPeer, Failure
from ansible_collections.iraid.iraid.plugins.module_utils import conf_file

EXAMPLE = COLLECTIONS / "example"
SPECS = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
README = (COLLECTION / "README.md").read_text()
MODULES = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py"))
DISK = "iqn.2026-01.org.example:disk"
MEMBERS = [f"10.0.0.{n}/{DISK}/0" for n in (1, 2, 3)]
SECRET = "wolf-howls-42"


def all_options():
    return {name: option for one in SPECS.values() for name, option in one["options"].items()}


# --- the page, the specification and the defaults agree ---


def readme_table(heading):
    """First column of the table after a line."""
    text = README.split(heading, 1)[1].lstrip("\n").split("\n\n")[0]
    rows = [line.split("|")[1] for line in text.splitlines()[2:]]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_the_page_has_every_variable_once():
    main = readme_table("## Variables of gateways\n")
    backend = readme_table("## Variables of backend hosts\n")
    pair = readme_table("Of moves, upgrades and Pacemaker:\n") + readme_table("Of Pacemaker:\n")
    assert sorted(pair) == sorted(SPECS["move"]["options"] | SPECS["upgrade"]["options"] | SPECS["cluster"]["options"])
    assert sorted(main) == sorted(SPECS["main"]["options"])
    assert sorted(backend) == sorted(SPECS["backend"]["options"])


@pytest.mark.parametrize(
    "heading, options",
    [
        ("Of each volume in `iraid_volumes`:\n", all_options()["iraid_volumes"]["options"]),
        ("Of `export`:\n", all_options()["iraid_volumes"]["options"]["export"]["options"]),
        ("Of each target:\n", all_options()["iraid_backend_targets"]["options"]),
    ],
)
def test_the_page_has_every_key_once(heading, options):
    assert sorted(readme_table(heading)) == sorted(options)


def test_every_variable_has_the_default_that_the_specification_names():
    assert {name: option["default"] for name, option in all_options().items()} == DEFAULTS


def test_every_secret_is_specified_as_one():
    def secrets(options):
        for name, option in options.items():
            if name == "secret":
                yield option
            yield from secrets(option.get("options", {}))

    assert SPECS["cluster"]["options"]["iraid_cluster_password"]["no_log"] is True
    found = list(secrets(all_options()))
    assert len(found) == 5 and all(option["no_log"] is True for option in found)


def constants(module):
    tree = ast.parse((COLLECTION / f"plugins/modules/{module}.py").read_text())
    return {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}


def names_of(options):
    """{option: {...}} as nested names, for a specification and for a documentation."""
    return {name: names_of(one.get("options") or one.get("suboptions") or {}) for name, one in options.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_s_documentation_has_its_arguments(module):
    found = constants(module)
    documented = yaml.safe_load(ast.literal_eval(found["DOCUMENTATION"]))
    assert documented["module"] == module
    keys = {
        ast.literal_eval(key): value
        for key, value in zip(found["ARGUMENTS"].keys, found["ARGUMENTS"].values, strict=True)
    }
    assert sorted(documented["options"]) == sorted(keys)
    for name, value in keys.items():
        given = {ast.literal_eval(k): v for k, v in zip(value.keys, value.values, strict=True)}
        assert documented["options"][name]["type"] == ast.literal_eval(given["type"]), name
    for text in ("EXAMPLES", "RETURN"):
        assert yaml.safe_load(ast.literal_eval(found[text]))


def tasks_in(tasks):
    for task in tasks:
        yield task
        for key in ("block", "rescue", "always"):
            yield from tasks_in(task.get(key, []))


TASK_FILES = sorted((ROLE / "tasks").glob("*.yml"))
PREFIX = "iraid.iraid."  # where the collection is installed is nothing that a short name finds


def test_tasks_give_modules_arguments_that_they_have():
    used = set()
    for file in TASK_FILES:
        for task in tasks_in(yaml.safe_load(file.read_text())):
            assert not set(task) & set(MODULES), f"{file.name}: {task['name']}: a short name: write {PREFIX} before it"
            for name in (key for key in task if key.startswith(PREFIX)):
                known = {ast.literal_eval(key) for key in constants(name.removeprefix(PREFIX))["ARGUMENTS"].keys}
                assert set(task[name]) <= known, task["name"]
                used.add(name)
    assert used == {PREFIX + name for name in MODULES}


def test_tasks_call_filters_by_their_whole_names():
    called = {name for file in TASK_FILES for name in re.findall(r"\|\s*([\w.]*iraid_\w+)", file.read_text())}
    assert called == {PREFIX + name for name in filters.FilterModule().filters()}


@pytest.mark.parametrize("module", MODULES)
def test_an_example_calls_the_module_by_its_whole_name(module):
    for task in yaml.safe_load(ast.literal_eval(constants(module)["EXAMPLES"])):
        assert PREFIX + module in task, task["name"]


def test_the_example_of_a_pair_is_accepted():
    example = COLLECTIONS / "example-pair"
    given = yaml.safe_load((example / "group_vars/gateways.yml").read_text())
    hosts = yaml.safe_load((example / "inventory.yml").read_text())["all"]["children"]["gateways"]["hosts"]
    assert given["iraid_pair"] == list(hosts)
    told = {}
    for name, host in hosts.items():
        text = json.dumps(given["iraid_volumes"]).replace("{{ inventory_hostname }}", name)
        volumes = json.loads(text.replace("{{ ansible_host }}", host["ansible_host"]))
        assert problems(volumes, pair=given["iraid_pair"]) == []
        told[name] = filters.pair_told(volumes, given["iraid_pair"])
    for name in hosts:
        assert filters.pair_plan.pair_problems(given["iraid_pair"], name, told) == []


def test_the_example_is_accepted():
    gateways = yaml.safe_load((EXAMPLE / "group_vars/gateways.yml").read_text())
    backends = yaml.safe_load((EXAMPLE / "group_vars/backends.yml").read_text())
    assert problems(gateways["iraid_volumes"]) == []
    backends["iraid_backend_targets"][0].update(portals=["10.0.0.1:3260"], iqn="iqn.2026-01.org.example:backend1")
    assert backend_problems(backends["iraid_backend_targets"]) == []
    assert yaml.safe_load((EXAMPLE / "inventory.yml").read_text())["all"]["children"]["backends"]["hosts"]


# --- bad variables ---


def problems(volumes, **more):
    return filters.gateway_problems(
        {"volumes": volumes, "replace": [], "confirm_delete": [], "spares": [], "discovery_chap": {}} | more
    )


def backend_problems(targets, kind="lio", shown=False):
    return filters.backend_problems({"kind": kind, "targets": targets, "tgt_secrets_shown": shown})


def volume(**changes):
    return {"name": "v0", "level": 5, "members": MEMBERS} | changes


def test_a_good_volume_has_no_problems():
    assert problems([volume(log="degraded")]) == problems([volume(log="always")]) == []
    assert problems([volume(level=1, log=False)]) == []  # what YAML makes of off
    assert problems([volume(chunk="64K", rate_min="10M", rate_max="100M", chap={"user": "u", "secret": SECRET})]) == []


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"name": "a/b"}, ["iraid_volumes[0] (a/b).name", "A-Z"]),
        ({"members": MEMBERS[:2]}, ["members", "there are 2", "3 to 32"]),
        ({"members": [*MEMBERS[:2], MEMBERS[0]]}, ["members[2]", "10.0.0.1:3260", "already"]),
        ({"members": [*MEMBERS[:2], "disk"]}, ["members[2]", "'disk'", "PORTAL/IQN/LUN"]),
        ({"chunk": "100K"}, ["chunk", "100K", "power of two"]),
        ({"chunk": "64KB"}, ["chunk", "64KB"]),
        ({"rate_min": "1G", "rate_max": "1M"}, ["rate_min", "1G", "1M"]),
        ({"rate_min": "1K"}, ["rate_min", "1K", "64K"]),
        ({"level": 0, "spares": [MEMBERS[2]], "members": MEMBERS[:2]}, ["spares", "level 0"]),
        ({"settings": {"member": "x"}}, ["settings.member", "write members"]),
        (
            {"settings": {"data_digest": "none"}, "data_digest": "required"},
            ["settings.data_digest", "write it there only"],
        ),
        ({"settings": {"log": "off"}}, ["settings.log", "write log beside settings"]),
        ({"level": 10, "log": "degraded"}, ["log", "degraded", "level 5 or 6", "level 10", "remove it"]),
        ({"level": 0, "log": "always"}, ["log", "always", "level 5 or 6", "level 0", "remove it"]),
        ({"initiator": "me"}, ["initiator", "'me'"]),
        ({"state": "absent"}, ["state", "destroys", "iraid_confirm_delete"]),
        ({"export": {"iqn": DISK, "no_chap": True}}, ["export.initiators", "no initiator may use"]),
        ({"export": {"iqn": DISK, "initiators": [DISK]}}, ["export.chap", "no_chap: true"]),
        (
            {"export": {"iqn": DISK, "initiators": [DISK], "no_chap": True, "chap": {"user": "u", "secret": SECRET}}},
            ["export.chap", "either"],
        ),
        ({"export": {"iqn": "x", "demo_mode": True, "no_chap": True}}, ["export.iqn", "'x'"]),
        (
            {"export": {"iqn": DISK, "demo_mode": True, "no_chap": True, "portals": ["here:1"]}},
            ["export.portals[0]", "'here:1'"],
        ),
        (
            {"export": {"iqn": DISK, "read_only_initiators": ["me"], "no_chap": True}},
            ["export.read_only_initiators[0]", "'me'"],
        ),
    ],
)
def test_a_bad_variable_is_named_with_its_value_and_what_to_write(changes, words):
    found = problems([volume(**changes)])
    assert len(found) == 1, found
    assert all(word in found[0] for word in words), found


def test_a_bad_secret_is_not_shown():
    found = problems([volume(chap={"user": "u", "secret": f" {SECRET}"})])
    assert len(found) == 1 and "chap.secret" in found[0] and SECRET not in found[0]


def test_a_target_proves_itself_by_a_user_and_another_secret():
    chap = {"user": "u", "secret": SECRET, "target_user": "t", "target_secret": f"another {SECRET}"}
    target = {"iqn": DISK, "luns": [{"device": "/dev/vg0/iraid"}], "initiators": [DISK], "chap": chap}
    assert problems([volume(chap=chap)]) == backend_problems([target]) == []
    for changes, word in (({"target_secret": None}, "both"), ({"target_secret": SECRET}, "different"),
                          ({"target_user": ""}, "target_user")):  # fmt: skip
        for found in (problems([volume(chap=chap | changes)]), backend_problems([target | {"chap": chap | changes}])):
            assert len(found) == 1 and word in found[0] and SECRET not in found[0], found
    written = filters.secret_files([volume(chap=chap)], [{"device": MEMBERS[0], "chap": chap}], "/etc/iraid", chap)
    assert len(written) == 3 and all(one.items() >= chap.items() for one in written)


def test_a_device_has_one_place_in_all_volumes_and_spares():
    second = volume(name="v1")
    assert len(problems([volume(), second])) == 3
    assert "iraid_volumes[0] (v0).members[0]" in problems([volume()], spares=[{"device": MEMBERS[0]}])[0]


def test_an_entry_of_replace_for_no_volume_is_named():
    found = problems([volume()], replace=[{"volume": "v9", "old": MEMBERS[0], "new": MEMBERS[1]}])
    assert found == ["iraid_replace[0].volume: 'v9' is not in iraid_volumes: it has v0"]


def test_a_confirmed_absent_volume_needs_nothing_else():
    assert problems([{"name": "v0", "state": "absent"}], confirm_delete=["v0"]) == []


@pytest.mark.parametrize(
    "kind, changes, words",
    [
        ("lio", {"luns": []}, ["luns", "there are none"]),
        ("lio", {"luns": [{"device": "/dev/sda", "file": "/a"}]}, ["luns[0]", "either"]),
        ("lio", {"luns": [{"file": "/a", "size": "lots"}]}, ["luns[0].size", "lots"]),
        ("lio", {"initiators": []}, ["initiators", "no initiator may use"]),
        ("lio", {"addresses": ["10.0.0.9"]}, ["addresses"]),
        ("tgt", {"portals": ["10.0.0.1:3260"]}, ["portals", "tgt listens"]),
        ("tgt", {"chap": {"user": "u", "secret": SECRET}}, ["chap", "command line", "iraid_backend_tgt_secrets_shown"]),
    ],
)
def test_a_bad_target_is_named_with_what_to_write(kind, changes, words):
    target = {"iqn": DISK, "luns": [{"device": "/dev/vg0/iraid"}], "initiators": [DISK]} | changes
    found = backend_problems([target], kind)
    assert len(found) == 1, found
    assert all(word in found[0] for word in words) and SECRET not in found[0], found


def test_what_tasks_loop_over_holds_no_secret():
    chap = {"user": "u", "secret": SECRET}
    volumes = [volume(chap=chap, export={"iqn": DISK, "initiators": [DISK], "chap": chap})]
    shown = filters.volume_arguments(volumes, "/etc/iraid", [], [], [], True)
    spares = filters.spare_arguments([{"device": MEMBERS[0], "chap": chap}], "/etc/iraid")
    assert SECRET not in json.dumps([shown, spares])
    files = filters.secret_files(volumes, [{"device": MEMBERS[0], "chap": chap}], "/etc/iraid", chap)
    export = shown[0]["export"]
    assert {one["path"] for one in files} == {
        shown[0]["chap_file"], export["chap_file"], export["discovery_chap_file"], spares[0]["chap_file"]
    }  # fmt: skip
    assert len(files) == 4


def test_discovery_asks_for_a_whole_login_or_for_none():
    chap = {"user": "u", "secret": SECRET}
    assert problems([], discovery_chap=chap) == []
    for wrong, word in (({"user": "u"}, "secret"), (chap | {"target_user": "t"}, "both")):
        (found,) = problems([], discovery_chap=wrong)
        assert found.startswith("iraid_discovery_chap.") and word in found and SECRET not in found


def test_keys_of_the_file_that_have_names_of_their_own_are_written_there():
    given = volume(header_digest="required", redirects=False, settings={"give_up": "8s"}, initiator=DISK)
    (shown,) = filters.volume_arguments([given], "/etc/iraid", [], [], [], False)
    assert shown["settings"] == {"give_up": "8s", "header_digest": "required", "redirects": False}
    assert shown["login"] == {"initiator": DISK} and shown["export"]["discovery_chap_file"] is None
    (shown,) = filters.volume_arguments([volume()], "/etc/iraid", [], [], [], False)
    assert shown["settings"] == shown["login"] == {}


# --- modules, with the real command and a handler that answers as told ---

STATUS = {
    "name": "v0",
    "state": "active",
    "level": 5,
    "chunk_bytes": 65536,
    "size_bytes": 2 << 30,
    "sync_rate_min_bytes": 10 << 20,
    "sync_rate_max_bytes": 1 << 30,
    "members": [
        {"member": f"10.0.0.{n}:3260/{DISK}/0", "role": n - 1, "state": "in sync", "size_bytes": 1 << 30}
        for n in (1, 2, 3)
    ],
}
NO_VOLUME = Failure(2, "not_found", "there is no volume v0", "iraid list")


@pytest.fixture
def handler(tmp_path, monkeypatch):
    def start(**answers):
        path = tmp_path / "control.sock"
        monkeypatch.setenv("IRAID_SOCKET", str(path))
        return ControlPeer(path, {name.replace("_", "."): answer for name, answer in answers.items()})

    return start


def volume_module(check_mode=False, **changes):
    return run_module(
        "iraid_volume", {"name": "v0", "level": 5, "members": MEMBERS, "command": str(IRAID)} | changes, check_mode
    )


def test_a_volume_as_wanted_is_unchanged(handler):
    with handler(volume_status=STATUS) as peer:
        result = volume_module()
    assert result["changed"] is False and result["commands"] == [] and not result["warnings"]
    assert result["diff"]["before"] == result["diff"]["after"]
    assert {method for method, _ in peer.calls} <= {"volume.status", "volume.holder", "pool.list"}


def test_check_mode_asks_and_changes_nothing(handler):
    with handler(volume_status=NO_VOLUME) as peer:
        result = volume_module(check_mode=True)
    assert result["changed"] is True and "create volume v0" in result["commands"][0]
    assert result["diff"]["before"] == {} and len(result["diff"]["after"]["members"]) == 3
    assert {method for method, _ in peer.calls} <= {"volume.status", "volume.holder", "pool.list"}


@pytest.fixture
def tgt(tmp_path, monkeypatch):
    """Stands for tgtd and its tools: serves the files of a folder, but fails on "bad" and while `broken` is there."""
    tools, folder = tmp_path / "bin", tmp_path / "conf.d"
    tools.mkdir()
    folder.mkdir()
    (tools / "tgtadm").write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/serves ] || echo 'Target 1: {DISK}'\n")
    (tools / "tgt-admin").write_text(f"""#!/bin/sh
echo "$1" >>{tmp_path}/asked
rm -f {tmp_path}/serves
[ "$1" != --delete ] && [ -n "$(ls {folder})" ] || exit 0
cat {folder}/* >{tmp_path}/serves
grep incominguser {tmp_path}/serves
echo "tgtadm: no" >&2
! grep -q bad {tmp_path}/serves && [ ! -e {tmp_path}/broken ]
""")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return folder


def tgt_module(folder, **changes):
    given = {
        "iqn": DISK,
        "luns": [{"file": str(folder.parent / "a.img"), "size": "1M"}],
        "open_to_all": True,
        "folder": str(folder),
    }
    return run_module("iraid_tgt_target", given | changes)


def test_a_target_that_tgt_does_not_take_is_tried_again_by_the_next_run(tgt):
    for _ in range(2):
        result = tgt_module(tgt, parameters={"bad": "1"})
        assert result["failed"] and "refused the new configuration" in result["msg"] and "tgtadm: no" in result["msg"]
        assert not list(tgt.iterdir()) and not (tgt.parent / "serves").exists()
    assert tgt_module(tgt)["changed"] is True
    assert tgt_module(tgt)["changed"] is False


def test_a_change_that_tgt_does_not_take_leaves_the_target_as_it_was(tgt):
    tgt_module(tgt)
    text = next(tgt.iterdir()).read_text()
    assert tgt_module(tgt, parameters={"bad": "1"})["failed"]
    assert next(tgt.iterdir()).read_text() == text == (tgt.parent / "serves").read_text()
    assert SECRET not in tgt_module(tgt, parameters={"bad": "1"}, user="u", secret=SECRET)["msg"]


def test_a_target_that_tgt_took_by_half_is_loaded_again(tgt):
    tgt_module(tgt)
    (tgt.parent / "serves").unlink()
    (tgt.parent / "broken").touch()
    assert tgt_module(tgt)["failed"] and tgt_module(tgt)["failed"]
    (tgt.parent / "broken").unlink()
    assert tgt_module(tgt)["changed"] is True
    assert len(list(tgt.iterdir())) == 1


TWINS = ["iqn.2026-01.org.example:disk.1", "iqn.2026-01.org.example:disk-1"]
OLD_NAME = "iraid-iqn-2026-01-org-example-disk-1.conf"  # of both


@pytest.fixture
def two_tgt(tmp_path, monkeypatch):
    """Tools of a tgt that takes whatever it is told to update."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "conf.d").mkdir()
    (tools / "tgtadm").write_text(f"#!/bin/sh\ncat {tmp_path}/serves 2>/dev/null || true\n")
    (tools / "tgt-admin").write_text(f'#!/bin/sh\necho "Target 1: $2" >>{tmp_path}/serves\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return tmp_path / "conf.d"


def serve_twins(folder):
    return [
        tgt_module(folder, iqn=iqn, luns=[{"file": f"{folder.parent}/{number}.img", "size": "1M"}])["changed"]
        for number, iqn in enumerate(TWINS)
    ]


def test_targets_with_like_names_have_a_file_each(two_tgt):
    assert serve_twins(two_tgt) == [True, True]
    text = "".join(path.read_text() for path in two_tgt.iterdir())
    assert all(f"<target {iqn}>" in text for iqn in TWINS) and len(list(two_tgt.iterdir())) == 2
    assert serve_twins(two_tgt) == [False, False]


def test_a_file_with_the_name_that_the_role_gave_before_is_taken_over(two_tgt):
    serve_twins(two_tgt)
    mine = next(path for path in two_tgt.iterdir() if f"<target {TWINS[1]}>" in path.read_text())
    text = mine.read_text()
    mine.rename(two_tgt / OLD_NAME)
    given = {
        "iqn": TWINS[1],
        "luns": [{"file": f"{two_tgt.parent}/1.img", "size": "1M"}],
        "open_to_all": True,
        "folder": str(two_tgt),
    }
    assert run_module("iraid_tgt_target", given, check_mode=True)["changed"] is True and not mine.exists()
    result = run_module("iraid_tgt_target", given)
    assert result["changes"] == [f"{two_tgt / OLD_NAME} renamed to {mine}"]
    assert mine.read_text() == text and not (two_tgt / OLD_NAME).exists()
    assert serve_twins(two_tgt) == [False, False]


def test_a_file_with_the_name_of_before_stays_where_it_is_another_s(two_tgt):
    (two_tgt / OLD_NAME).write_text(
        f"<target {TWINS[1]}>\n</target>\n<target iqn.2026-01.org.example:more>\n</target>\n"
    )
    before = (two_tgt / OLD_NAME).read_text()
    assert serve_twins(two_tgt)[0] is True
    assert (two_tgt / OLD_NAME).read_text() == before


def examined(superblock=None, copies="absent"):
    """Of any device."""
    return lambda asked: {
        "member": asked["member"],
        "device": {"size_bytes": 1 << 30},
        "session": {},
        "signature": None,
        "superblock": superblock,
        "copies": {"a": copies, "b": copies},
    }


SUPERBLOCK = {"name": "v0", "role": 1, "volume_uuid": "12345678-0000-4000-8000-000000000000"}


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    "seen, words",
    [
        (
            examined(SUPERBLOCK, "ok"),
            [
                "holds member 1 of the iraid volume",
                SUPERBLOCK["volume_uuid"],
                "iraid import --initiator iqn.2026-01.org.e:me 10.0.0.1/",
            ],
        ),
        (examined(copies="unsupported: version 9"), ["holds an iraid superblock that can't be read"]),
    ],
)
def test_overwrite_in_the_inventory_does_not_destroy_what_iraid_made(handler, check_mode, seen, words):
    """The gateway was installed anew: it knows no volume, its members hold one."""
    with handler(volume_status=NO_VOLUME, examine=seen) as peer:
        result = volume_module(check_mode, overwrite=True, initiator="iqn.2026-01.org.e:me")
    assert result["failed"] and all(word in result["msg"] for word in [*words, "iraid_confirm_overwrite"]), result
    assert {method for method, _ in peer.calls} <= {"volume.status", "volume.holder", "pool.list", "examine"}


def test_overwrite_takes_what_others_made_and_looks_at_spares_too(handler):
    spare = f"10.0.0.9/{DISK}/0"
    enough = Failure(9, "busy", "far enough", "")
    with handler(volume_status=NO_VOLUME, examine=examined(), volume_create=enough) as peer:
        result = volume_module(overwrite=True, spares=[spare])
    assert "far enough" in result["msg"]
    assert [asked["member"] for method, asked in peer.calls if method == "examine"] == [*MEMBERS, spare]
    assert [asked["force"] for method, asked in peer.calls if method == "volume.create"] == [True]


def test_what_cannot_be_seen_is_not_formatted(handler):
    away = Failure(5, "unreachable", "no answer", "bring it back")
    with handler(volume_status=NO_VOLUME, examine=away) as peer:
        result = volume_module(overwrite=True)
        expected = volume_module(check_mode=True, overwrite=True)
    assert result["failed"] and "no answer" in result["msg"] and "bring it back" in result["msg"]
    assert expected["changed"] is True and len(expected["warnings"]) == 3
    assert "volume.create" not in {method for method, _ in peer.calls}


def test_the_word_of_one_run_formats_without_looking(handler):
    with handler(volume_status=NO_VOLUME, volume_create=Failure(9, "busy", "far enough", "")) as peer:
        result = volume_module(confirm_overwrite=True)
    assert "far enough" in result["msg"]
    assert [asked["force"] for method, asked in peer.calls if method == "volume.create"] == [True]


def test_a_replacement_is_looked_at_as_well(handler):
    new = f"10.0.0.9/{DISK}/0"
    given = {"members": [*MEMBERS[:2], new], "replace": [{"old": MEMBERS[2], "new": new}], "overwrite": True}
    with handler(volume_status=STATUS, examine=examined(SUPERBLOCK, "ok")) as peer:
        result = volume_module(**given)
    assert "holds member 1 of the iraid volume" in result["msg"]
    assert {method for method, _ in peer.calls} <= {"volume.status", "volume.holder", "pool.list", "examine"}


def test_a_rate_is_set_once(handler):
    rates = {"name": "v0", "sync_rate_min_bytes": 20 << 20, "sync_rate_max_bytes": 1 << 30}
    with handler(volume_status=STATUS, volume_set=rates) as peer:
        result = volume_module(rate_min="20M")
    assert result["changed"] is True
    assert ("volume.set", {"name": "v0", "sync_rate_min_bytes": 20 << 20}) in peer.calls


def test_the_write_log_is_set_once(handler):
    settings = {"name": "v0", "sync_rate_min_bytes": 20 << 20, "sync_rate_max_bytes": 1 << 30, "log": "off"}
    with handler(volume_status=STATUS | {"log": {"mode": "degraded"}}, volume_set=settings) as peer:
        result = volume_module(log="off")
    assert result["changed"] is True
    assert ("volume.set", {"name": "v0", "log": "off"}) in peer.calls


def test_a_write_log_that_is_as_wanted_is_not_set(handler):
    with handler(volume_status=STATUS | {"log": {"mode": "off"}}) as peer:
        assert volume_module(log="off")["changed"] is False
    assert "volume.set" not in [method for method, _ in peer.calls]


def test_what_the_handler_says_is_handed_on_with_its_remedy(handler):
    with handler(volume_status=Failure(8, "busy", "volume v0 is busy", "wait a little")):
        result = volume_module()
    assert result["failed"] and "volume v0 is busy; remedy: wait a little" in result["msg"]


def test_without_the_command_check_mode_goes_on_and_the_rest_says_what_to_install():
    assert volume_module(check_mode=True, command="/nowhere/iraid")["changed"] is True
    assert "iraid_packages" in volume_module(command="/nowhere/iraid")["msg"]


EXPORTED = {"iqn": DISK, "changes": ["CHAP of discovery, of all targets"], "initiators": [DISK], "portals": []}


@pytest.fixture
def export_command(tmp_path):
    command = tmp_path / "iraid"
    command.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/asked\necho '{json.dumps(EXPORTED)}'\n")
    command.chmod(0o755)
    return command


def export_module(command, check_mode=False, **more):
    given = {"name": "v0", "iqn": DISK, "initiators": [DISK], "command": str(command)}
    return run_module("iraid_export", given | more, check_mode)


def test_digests_and_files_of_an_export_are_options_of_the_command(export_command):
    asked_for = export_command.parent / "asked"
    files = {"chap_file": export_command.parent / "chap", "discovery_chap_file": export_command.parent / "discovery"}
    given = {key: str(path) for key, path in files.items()} | {"header_digest": "preferred", "data_digest": "required"}
    for path in files.values():  # check mode: not asked about before both are written
        assert export_module(export_command, check_mode=True, **given)["changed"] is True and not asked_for.exists()
        path.touch()
    assert export_module(export_command, check_mode=True, **given)["changed"] is True
    assert asked_for.read_text().split()[-2:] == ["--dry-run", "--json"]
    assert export_module(export_command, **given)["changes"] == EXPORTED["changes"]
    words = asked_for.read_text()
    assert words == (
        f"export v0 --iqn {DISK} --acl {DISK} --chap-file {files['chap_file']} --discovery-chap-file "
        f"{files['discovery_chap_file']} --header-digest preferred --data-digest required --json\n"
    )
    export_module(export_command)
    assert "digest" not in asked_for.read_text() and "chap" not in asked_for.read_text()


def test_shared_spares_are_added_once(handler):
    everything = {"volume_list": {"volumes": [{"name": "v0", "state": "active"}]}, "volume_status": STATUS}
    spare = f"10.0.0.9:3260/{DISK}/0"
    given = {"spares": [{"device": f"10.0.0.9/{DISK}/0"}, {"device": MEMBERS[0]}], "command": str(IRAID)}
    with handler(**everything, pool_list={"spares": []}, pool_add={"device": spare, "size_bytes": 1 << 30}) as peer:
        result = run_module("iraid_gateway_spares", given)
    assert result["added"] == [spare] and [m for m, _ in peer.calls].count("pool.add") == 1


@pytest.fixture
def config_command(tmp_path, monkeypatch):
    """Stands for `iraid config`, whose parser is the handler's: notes what it was asked for, finds a fault in "bad".
    `meanwhile`, if it is there, is run once while files are checked.
    """
    monkeypatch.setenv("IRAID_RUN_DIR", str(tmp_path / "run"))
    command = tmp_path / "iraid"
    command.write_text(f"""#!/bin/sh
echo "$1 $2 $3 $IRAID_CONFIG_DIR" >>{tmp_path}/asked
fault='{{"file": "gateway.conf", "line": 2, "key": "severity", "what": "bad is no severity", "remedy": "warning"}}'
if [ $2 = check ] && [ -e {tmp_path}/meanwhile ]; then mv {tmp_path}/meanwhile {tmp_path}/once; sh {tmp_path}/once; fi
if [ $2 = check ] && grep -rq bad "$IRAID_CONFIG_DIR"; then echo '{{"faults": ['"$fault"']}}'; exit 1; fi
echo '{{"faults": [], "volumes": [{{"name": "v0", "pending": [{{"key": "member", "remedy": "iraid replace"}}]}}]}}'
""")
    command.chmod(0o755)
    return command


def settings_module(config_command, settings, check_mode=False, **more):
    given = {"settings": settings, "config_dir": str(config_command.parent / "etc"), "command": str(config_command)}
    return run_module("iraid_settings", given | more, check_mode)


def asked(config_command):
    return [" ".join(line.split()[:2]) for line in (config_command.parent / "asked").read_text().splitlines()]


def test_keys_are_checked_then_written_then_applied_once(config_command):
    file = config_command.parent / "etc/gateway.conf"
    wanted = {
        "notify": {"mail": ["a@example.org", "b@example.org"], "severity": None},
        "volumes": {"header_digest": True},
    }
    assert settings_module(config_command, wanted, check_mode=True)["changed"] is True
    assert not file.exists() and asked(config_command) == ["config check"]
    result = settings_module(config_command, wanted)
    assert file.read_text() == (
        "[notify]\nmail = a@example.org\nmail = b@example.org\n\n[volumes]\nheader_digest = yes\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert asked(config_command)[1:] == ["config check", "config reload"]
    assert "iraid replace" in result["warnings"][0]
    assert settings_module(config_command, wanted)["changed"] is False
    assert len(asked(config_command)) == 3


def test_a_fault_changes_nothing_and_is_handed_on(config_command):
    file = config_command.parent / "etc/gateway.conf"
    result = settings_module(config_command, {"notify": {"severity": "bad"}})
    assert result["failed"] and "bad is no severity; warning" in result["msg"] and not file.exists()
    assert "exporter" in settings_module(config_command, {"spares": {"spare": "x"}})["msg"]
    assert settings_module(config_command, {"notify": {"mail": ["a\nb"]}})["failed"]


def test_a_volume_s_file_is_changed_and_never_made(config_command):
    assert "iraid list" in settings_module(config_command, {"give_up": "8s"}, volume="v0")["msg"]
    file = config_command.parent / "etc/volumes/v0.conf"
    file.parent.mkdir(parents=True)
    file.write_text("[volume]\n#give_up = 5s\nuuid = x\n")
    assert settings_module(config_command, {"give_up": "8s"}, volume="v0")["changed"] is True
    assert file.read_text() == "[volume]\n#give_up = 5s\ngive_up = 8s\nuuid = x\n"


def test_a_login_that_comes_later_is_a_line_of_the_file_and_applied(config_command):
    file, secrets = config_command.parent / "etc/volumes/v0.conf", config_command.parent / "etc/secrets/v0"
    login = {"chap_file": str(secrets), "initiator": DISK}
    given = {"volume": "v0", "existing_only": True}
    assert settings_module(config_command, login, **given)["changed"] is False  # create writes it
    assert not file.exists()
    file.parent.mkdir(parents=True)
    file.write_text("[volume]\nuuid = x\n")
    # As the handler's parser: a secrets file that is not there is a fault.
    config_command.write_text(
        config_command.read_text().replace("grep -rq bad", f"[ ! -e {secrets} ] && grep -rq chap_file")
    )
    assert settings_module(config_command, login, check_mode=True, **given)["changed"] is True
    assert "chap_file" not in file.read_text()
    assert settings_module(config_command, login, **given)["failed"] and "chap_file" not in file.read_text()
    secrets.parent.mkdir()
    secrets.touch()
    assert settings_module(config_command, login, **given)["warnings"]
    assert file.read_text() == f"[volume]\nuuid = x\nchap_file = {secrets}\ninitiator = {DISK}\n"
    assert asked(config_command)[-1] == "config reload"
    assert settings_module(config_command, login, **given)["changed"] is False


def test_what_the_handler_changes_while_a_file_is_checked_stays(config_command):
    file = config_command.parent / "etc/volumes/v0.conf"
    file.parent.mkdir(parents=True)
    file.write_text("[volume]\nmember = failed\n")
    (config_command.parent / "meanwhile").write_text(f"sed -i s/failed/spare/ {file}\n")
    result = settings_module(config_command, {"give_up": "8s"}, volume="v0")
    assert file.read_text() == "[volume]\nmember = spare\ngive_up = 8s\n"
    assert result["changed"] is True and "member = spare" in result["diff"]["before"]
    assert asked(config_command) == ["config check", "config check", "config reload"]


@pytest.mark.parametrize(
    "volume, name, lock", [("v0", "volumes/v0.conf", "volumes.lock"), (None, "gateway.conf", "spares.lock")]
)
def test_a_file_that_the_handler_is_changing_is_waited_for(config_command, volume, name, lock):
    file, locked = config_command.parent / "etc" / name, config_command.parent / "run" / lock
    file.parent.mkdir(parents=True)
    file.write_text("[notify]\n")
    locked.parent.mkdir()
    with locked.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)

        def end():
            file.write_text("[notify]\nfrom = handler\n")
            fcntl.flock(holder, fcntl.LOCK_UN)

        threading.Timer(0.5, end).start()
        settings = {"mail": "a@example.org"} if volume else {"notify": {"mail": "a@example.org"}}
        assert settings_module(config_command, settings, volume=volume)["changed"] is True
    assert "from = handler" in file.read_text() and "mail = a@example.org" in file.read_text()


def test_a_lock_that_is_never_free_is_named(config_command, monkeypatch):
    monkeypatch.setattr(conf_file, "WAIT_SECONDS", 0.1)
    locked = config_command.parent / "run/spares.lock"
    locked.parent.mkdir()
    with locked.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        result = settings_module(config_command, {"volumes": {"give_up": "8s"}})
    assert result["failed"] and f"fuser {locked}" in result["msg"]
    assert not (config_command.parent / "etc/gateway.conf").exists()


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o644])
def test_a_link_to_a_configuration_file_stays_and_so_do_its_mode_and_owner(config_command, mode):
    file, real = config_command.parent / "etc/gateway.conf", config_command.parent / "srv/gateway.conf"
    for folder in (file.parent, real.parent):
        folder.mkdir()
    real.write_text("[volumes]\ngive_up = 5s\n")
    real.chmod(mode)
    owner = (1, 2) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(real, *owner)
    file.symlink_to("../srv/gateway.conf")
    assert settings_module(config_command, {"volumes": {"give_up": "8s"}})["changed"] is True
    assert file.is_symlink() and real.read_text() == "[volumes]\ngive_up = 8s\n"
    status = real.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (mode, *owner)
    assert [path.name for path in real.parent.iterdir()] == ["gateway.conf"]


def test_a_secrets_file_does_not_take_after_what_was_there(tmp_path):
    path, real = tmp_path / "v0", tmp_path / "real"
    real.write_text("shown to all\n")
    real.chmod(0o644)
    path.symlink_to(real)
    given = {"files": [{"path": str(path), "user": "u", "secret": SECRET}]}
    assert run_module("iraid_secrets", given)["changed"] is True
    assert not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o600 and SECRET not in real.read_text()


def test_a_comment_with_a_carriage_return_in_it_stays_as_it_is(config_command):
    file = config_command.parent / "etc/gateway.conf"
    file.parent.mkdir()
    comment = b"[notify]\n# old:\rcommand = none\nmail = a\r\n"
    file.write_bytes(comment)
    assert settings_module(config_command, {"notify": {"severity": "error"}})["changed"] is True
    assert file.read_bytes() == comment + b"severity = error\n"


def test_a_handler_is_told_of_secrets_that_changed(config_command, tmp_path):
    """It logs in with what it has read."""
    path = tmp_path / "secrets/v0"
    given = {"files": [{"path": str(path), "user": "u", "secret": SECRET}], "command": str(config_command)}
    for check_mode, changed in ((True, True), (False, True), (False, False)):
        assert run_module("iraid_secrets", given, check_mode)["changed"] is changed
    # The second time for a run that ended before it came to that.
    assert asked(config_command) == ["config reload"] * 2


@pytest.mark.parametrize("before", [None, "u\nthe one of before\n"])
@pytest.mark.parametrize(("kind", "kept"), [("invalid", False), ("unavailable", True)])
def test_secrets_that_are_not_taken_are_put_back(tmp_path, before, kind, kept):
    """Else the next run would find nothing to do, and the handler would never hear of them."""
    path, command = tmp_path / "secrets/v0", tmp_path / "iraid"
    command.write_text(f"""#!/bin/sh\necho '{{"error": {{"type": "{kind}", "message": "no"}}}}'; exit 1\n""")
    command.chmod(0o755)
    path.parent.mkdir()
    if before:
        path.write_text(before)
    given = {"files": [{"path": str(path), "user": "u", "secret": SECRET}], "command": str(command)}
    told = run_module("iraid_secrets", given)
    assert told.get("failed", False) is not kept
    assert (path.read_text() if path.exists() else None) == (f"u\n{SECRET}\n" if kept else before)
    assert SECRET not in str(told)


def test_secrets_files_are_root_s_alone_and_written_once(tmp_path):
    path = tmp_path / "secrets/v0"
    given = {"files": [{"path": str(path), "user": "u", "secret": SECRET}]}
    assert run_module("iraid_secrets", given, check_mode=True)["changed"] is True
    assert not path.parent.exists()
    assert run_module("iraid_secrets", given)["paths"] == [str(path)]
    assert path.read_text() == f"u\n{SECRET}\n" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert run_module("iraid_secrets", given)["changed"] is False
    path.chmod(0o644)
    assert run_module("iraid_secrets", given)["changed"] is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
