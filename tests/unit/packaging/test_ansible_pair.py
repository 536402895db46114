"""Two gateways in the Ansible role: what each does, what is refused, and the modules that do it without Ansible.

With Ansible and two real engines: tests/integration/test_ansible_pair.py.
"""

import json
import stat

import pytest
from ansible_role import filters, run_module
from ansible_collections.iraid.iraid.plugins.module_utils import cib, pair_plan

PAIR = ["gateway1", "gateway2"]
ONE, TWO = PAIR
DISK = "iqn.2026-01.org.example:disk"
UUID, OTHER_UUID = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
FILE = f"[volume]\nuuid = {UUID}\nmember = a\n#initiator = x\ninitiator = iqn.2026-01.org.example:gateway1\n"
HEALTHY = {"word": "OK", "text": "all members are in sync"}


def volume(number=1, **more):
    return {
        "name": "v0",
        "level": 5,
        "members": [f"10.0.0.{n}/{DISK}/0" for n in (1, 2, 3)],
        "initiator": f"iqn.2026-01.org.example:gateway{number}",
        "export": {"iqn": DISK, "portals": [f"10.1.0.{number}:3260"], "demo_mode": True, "no_chap": True},
    } | more


def told(first=None, second=None, pair=PAIR):
    return {
        ONE: {"pair": pair, "volumes": pair_plan.told([first or volume(1)])},
        TWO: {"pair": PAIR, "volumes": pair_plan.told([second or volume(2)])},
    }


def state(role, **more):
    words = {"active": "active", "standby": "standby", "fenced": "standby", None: "stopped"}
    return {
        "uuid": UUID,
        "role": role,
        "state": words[role],
        "exported": True,
        "health": HEALTHY,
    } | more


def seen(one, two, managed=()):
    """one, two: what each has of v0."""
    return {
        host: {"volumes": {"v0": has}, "managed": {name: f"{name}-clone" for name in managed}}
        for host, has in ((ONE, one), (TWO, two))
    }


def turn(one, two, managed=(), **more):
    return pair_plan.turn(volume(**more), PAIR, seen(one, two, managed))


# --- the inventory of both ---


def test_two_gateways_that_differ_in_name_and_address_only_are_a_pair():
    assert pair_plan.pair_problems(PAIR, ONE, told()) == []
    assert filters.gateway_problems(given([volume()])) == []


def given(volumes, pair=PAIR):
    return {
        "volumes": volumes,
        "replace": [],
        "confirm_delete": ["gone"],
        "spares": [],
        "discovery_chap": {},
        "pair": pair,
    }


@pytest.mark.parametrize(
    "pair, here, told_by, words",
    [
        ([ONE], ONE, {}, ["[gateway1]", "two gateways"]),
        ([ONE, ONE], ONE, {}, ["[gateway1, gateway1]", "two gateways"]),
        (PAIR, "gateway3", {}, ["gateway3", "iraid_pair of its own"]),
        (PAIR, ONE, {ONE: told()[ONE]}, [TWO, "--limit", "serial"]),
        (PAIR, ONE, told(pair=[TWO, ONE]), ["[gateway2, gateway1] on gateway1", "[gateway1, gateway2] on gateway2"]),
        (PAIR, ONE, told(second=volume(2, name="v1")), ["gateway1 has no volume v1"]),
        (PAIR, ONE, told(volume(1, rate_min="10M"), volume(2, rate_min="20M")), ["(v0).rate_min", "10M", "20M"]),
        (PAIR, ONE, told(volume(1, overwrite=True)), ["(v0).overwrite", "True on gateway1", "nothing on gateway2"]),
        (PAIR, ONE, told(volume(1), volume(2, preferred=TWO)), ["(v0).preferred", "nothing", "gateway2"]),
        (
            PAIR,
            ONE,
            told(volume(1) | {"initiator": DISK}, volume(2) | {"initiator": DISK}),
            ["(v0).initiator", DISK, "on both"],
        ),
        (
            PAIR,
            ONE,
            told(volume(1), volume(2, export=volume(1)["export"])),
            ["(v0).export.portals", "10.1.0.1:3260 on both"],
        ),
        (
            PAIR,
            ONE,
            told(volume(1), volume(2, export=volume(2)["export"] | {"initiators": [DISK]})),
            ["(v0).export.initiators", DISK, "on gateway2"],
        ),
    ],
)
def test_what_is_wrong_with_a_pair_is_named_with_what_to_write(pair, here, told_by, words):
    problems = pair_plan.pair_problems(pair, here, told_by)
    assert problems and all(word in problems[0] for word in words), problems


@pytest.mark.parametrize(
    "one, pair, words",
    [
        (volume(preferred="gateway3"), PAIR, [".preferred", "'gateway3'", "gateway1 or gateway2"]),
        (volume(preferred=TWO), [], [".preferred", "iraid_pair is empty"]),
        (volume(address="10.1.0.100"), PAIR, [".address", "'10.1.0.100'", "IP/PREFIX"]),
        (volume(address="10.1.0.100/24"), [], [".address", "iraid_pair is empty"]),
        (volume(state="stopped"), PAIR, [".state", "iraid standby v0"]),
        (volume(initiator=None), PAIR, [".initiator", "is missing"]),
        (volume(export=volume()["export"] | {"portals": []}), PAIR, [".export.portals", "there are none"]),
    ],
)
def test_a_bad_variable_of_one_gateway_is_named_with_what_to_write(one, pair, words):
    problems = filters.gateway_problems(given([one], pair))
    assert len(problems) == 1 and all(word in problems[0] for word in words), problems


def test_a_gateway_that_goes_is_no_problem_and_no_secret_is_told():
    assert filters.gateway_problems(given([{"name": "gone", "state": "absent"}])) == []
    secret = {"user": "u", "secret": "wolf-howls-42"}
    one = volume(chap=secret, export=volume()["export"] | {"chap": secret})
    assert "wolf" not in json.dumps(filters.pair_told([one], PAIR))
    assert pair_plan.pair_problems(PAIR, ONE, told(one, volume(2)))  # given here and not there


def test_names_and_addresses_are_compared_as_they_are_used():
    ours = {"initiator": "IQN.2026-01.org.example:x", "export": {"portals": ["10.1.0.1", "[fd00:0::1]"]}}
    first = filters.pair_told([volume(**ours)], PAIR)
    assert first["volumes"][0]["initiator"] == "iqn.2026-01.org.example:x"
    assert first["volumes"][0]["export"]["portals"] == ["10.1.0.1:3260", "[fd00::1]:3260"]
    short = {"initiator": "iqn.2026-01.org.example:X", "export": {"portals": ["10.1.0.1:3260"]}}
    second = filters.pair_told([volume(**short)], PAIR)
    problems = pair_plan.pair_problems(PAIR, ONE, {ONE: first, TWO: second})
    assert len(problems) == 2 and "initiator" in problems[0] and "10.1.0.1:3260" in problems[1]


def test_a_volume_whose_address_moves_has_no_alua_and_one_portal():
    export = volume()["export"]
    for portals in (["0.0.0.0:3260"], []):
        one = volume(address="10.1.0.100/24", export=export | {"portals": portals})
        two = one | {"initiator": volume(2)["initiator"]}
        assert filters.gateway_problems(given([one])) == pair_plan.pair_problems(PAIR, ONE, told(one, two)) == []
        (shown,) = filters.volume_arguments([one], "/etc/iraid", [], [], [], False, PAIR, TWO)
        assert shown["export"]["pair"] is None and shown["export"]["no_reservations"]
    shared = export | {"portals": ["0.0.0.0:3260"]}
    problems = pair_plan.pair_problems(PAIR, ONE, told(volume(1, export=shared), volume(2, export=shared)))
    assert "0.0.0.0:3260 on both" in problems[0]


def test_hosts_that_failed_are_not_asked():
    hostvars = {host: {"iraid_pair_told": one} for host, one in told().items()}
    assert filters.pair_problems(PAIR, ONE, PAIR, hostvars) == []
    assert TWO in filters.pair_problems(PAIR, ONE, [ONE], hostvars)[0]
    hostvars = {host: {"iraid_pair_seen": one} for host, one in seen(None, None).items()}
    assert filters.pair_turns([volume()], PAIR, PAIR, hostvars)["v0"]["create"]
    with pytest.raises(filters.AnsibleFilterError, match=TWO):
        filters.pair_turns([volume()], PAIR, [ONE], hostvars)


def test_each_gateway_has_its_number():
    arguments = [filters.volume_arguments([volume()], "/etc/iraid", [], [], [], False, PAIR, here)[0] for here in PAIR]
    assert [one["export"]["pair"] for one in arguments] == [1, 2]
    assert filters.volume_arguments([volume()], "/etc/iraid", [], [], [], False)[0]["export"]["pair"] is None


# --- whose turn it is ---


@pytest.mark.parametrize("preferred, home, other", [(None, ONE, TWO), (TWO, TWO, ONE)])
def test_a_new_volume_is_made_once_on_its_preferred_gateway(preferred, home, other):
    made = turn(None, None, preferred=preferred)
    assert (made["home"], made["other"], made["create"], made["begin"]) == (home, other, True, False)


@pytest.mark.parametrize("role", ["active", "standby", "fenced", None])
@pytest.mark.parametrize("preferred", PAIR)
def test_what_is_on_one_gateway_is_never_made_on_the_other(role, preferred):
    """Also if that one lost its configuration and is the preferred one."""
    for one, two, has in ((state(role), None, ONE), (None, state(role), TWO)):
        made = turn(one, two, preferred=preferred)
        assert made["home"] == has and not made["create"]
        assert made["begin"] == (role != "active")


@pytest.mark.parametrize("active", PAIR)
@pytest.mark.parametrize("preferred", PAIR)
def test_a_volume_stays_where_it_is_active(active, preferred):
    roles = ["active" if host == active else "standby" for host in PAIR]
    made = turn(*map(state, roles), preferred=preferred)
    assert made["home"] == active and not made["begin"] and not made["create"] and made["refused"] is None


def test_one_that_is_active_nowhere_is_activated_where_it_is_preferred():
    assert turn(state("standby"), state("standby"), preferred=TWO) | {"home": TWO, "begin": True} == turn(
        state("standby"), state("standby"), preferred=TWO
    )


def test_pacemaker_s_volume_is_never_activated():
    made = turn(state("standby"), state("standby"), managed=["v0"])
    assert made["home"] is None and not made["begin"] and "pcs status" in made["warning"]
    made = turn(state("standby"), state("active"), managed=["v0"])
    assert made["home"] == TWO and made["managed"] and not made["begin"] and made["warning"] is None
    made = turn(None, state("active"), managed=["v0"])
    assert made["home"] == TWO and not made["create"]


@pytest.mark.parametrize(
    "one, two, managed, words",
    [
        (state("active"), state("standby", uuid=OTHER_UUID), [], [UUID, OTHER_UUID, "--no-wipe"]),
        (state("active"), state("active"), [], ["both gateways", "iraid list"]),
        (None, None, ["v0"], ["Pacemaker", "iraid import", f"10.0.0.1/{DISK}/0"]),
    ],
)
def test_what_can_t_be_decided_is_refused(one, two, managed, words):
    text = turn(one, two, managed)["refused"]
    assert text and all(word in text for word in words), text


def test_pacemaker_s_volume_is_not_deleted():
    text = pair_plan.turn({"name": "v0", "state": "absent"}, PAIR, seen(state("active"), None, ["v0"]))["refused"]
    assert "pcs resource delete" in text
    assert pair_plan.turn({"name": "v0", "state": "absent"}, PAIR, seen(None, None))["refused"] is None


# --- moves ---


def moves(one, two, to=TWO, managed=(), names=()):
    return pair_plan.moves([volume()], PAIR, seen(one, two, managed), names, to)


def test_a_volume_moves_once():
    planned = moves(state("active"), state("standby"))
    assert planned == {"moves": [{"name": "v0", "from": ONE, "to": TWO, "managed": False}], "refused": []}
    assert moves(state("standby"), state("active")) == {"moves": [], "refused": []}
    assert moves(state("active"), state("standby"), managed=["v0"])["moves"][0]["managed"]
    # The one that lost it is gone altogether: it is where it is to be.
    assert moves(None, state("active")) == {"moves": [], "refused": []}


@pytest.mark.parametrize(
    "one, two, words",
    [
        (state("active"), None, ["gateway2 does not know it", "stays where it is"]),
        (state("active"), state(None), ["on gateway2 it is stopped", "iraid standby v0"]),
        (state("active"), state("fenced"), ["on gateway2 it is fenced"]),
        (state("active"), state("standby", exported=False), ["gateway2 does not export it"]),
        (state("standby"), state("standby"), ["not active on gateway1 either"]),
        (state("active"), state("active"), ["both"]),
        (None, None, ["neither gateway has it"]),
    ],
)
def test_a_move_to_a_gateway_that_is_not_ready_is_refused_and_says_why(one, two, words):
    planned = moves(one, two)
    assert planned["moves"] == [] and len(planned["refused"]) == 1
    assert all(word in planned["refused"][0] for word in words), planned


def test_a_move_names_what_it_does_not_know():
    assert (
        "'v9' is not in iraid_volumes: it has v0"
        in moves(state("active"), state("standby"), names=["v9"])["refused"][0]
    )
    assert "'gateway3'" in moves(state("active"), state("standby"), to="gateway3")["refused"][0]


def test_a_gateway_is_not_taken_out_of_a_pair_that_is_not_fit():
    def unfit(one, two):
        return pair_plan.unfit([volume()], PAIR, seen(one, two))

    assert unfit(state("standby"), state("active")) == []
    degraded = {"word": "DEGRADED", "text": "member 1 is missing"}
    (text,) = unfit(state("active", health=degraded), state("standby"))
    assert "v0 on gateway1 is DEGRADED: member 1 is missing" in text
    assert "gateway2 does not know it" in unfit(state("active"), None)[0]
    assert "neither gateway" in unfit(state("standby"), state("standby"))[0]


def test_a_gateway_that_can_t_serve_is_named_before_pacemaker_decides():
    def unready(one, two):
        return pair_plan.unready([volume()], PAIR, seen(one, two))

    assert unready(state("active"), state("standby")) == []
    assert unready(state("active", exported=False), state("standby", exported=False)) == []
    assert "not known on gateway2" in unready(state("active"), None)[0]
    assert "not exported by gateway1" in unready(state("active", exported=False), state("standby"))[0]


def test_the_volumes_of_a_gateway():
    volumes = [volume(), volume(name="v1", preferred=TWO), volume(name="v2", preferred=ONE)]
    assert [filters.pair_preferred(volumes, PAIR, host) for host in PAIR] == [["v0", "v2"], ["v1"]]


# --- Pacemaker's configuration ---

CIB = """<cib><configuration><resources>
  <clone id="v0-clone"><primitive id="v0" class="ocf" provider="iraid" type="volume">
    <instance_attributes id="a"><nvpair id="n" name="volume" value="v0"/></instance_attributes></primitive></clone>
  <primitive id="other" class="ocf" provider="iraid" type="volume">
    <instance_attributes id="b"><nvpair id="m" name="volume" value="v1"/></instance_attributes></primitive>
  <primitive id="ip" class="ocf" provider="heartbeat" type="IPaddr2"/>
</resources></configuration></cib>"""


def test_pacemaker_s_volumes_are_read_from_its_configuration():
    assert cib.volumes(CIB) == {"v0": "v0-clone", "v1": "other"}
    assert cib.volumes("<cib><configuration><resources/></configuration></cib>") == cib.volumes(None) == {}


# --- modules ---


@pytest.fixture
def command(tmp_path):
    """Stands for iraid: one volume, whose state is a file of words; what it was asked is in a file."""
    program = tmp_path / "iraid"
    program.write_text(f"""#!/bin/sh
echo "$@" >>{tmp_path}/asked
role=$(cat {tmp_path}/role 2>/dev/null)
case "$1" in
status) if [ -z "$role" ]; then echo '{{"error":{{"message":"no such volume","type":"not_found"}}}}'; exit 1; fi
        state=$role; [ $role = fenced ] && state=standby
        key=$(cat {tmp_path}/key 2>/dev/null || echo null)
        [ -e {tmp_path}/released ] && rm -f {tmp_path}/key
        printf '{{"name":"v0","uuid":"{UUID}","role":"%s","state":"%s","users":[%s],' \\
               $role $state "$(cat {tmp_path}/users 2>/dev/null)"
        echo '"holder":{{"own_key":"0x2","members":[{{"member":"m","key":'$key'}}]}},'
        echo '"health":{{"word":"OK","text":""}}}}';;
activate) [ -e {tmp_path}/held ] && {{ echo '{{"error":{{"message":"held","remedy":"wait","type":"busy"}}}}'; exit 1; }}
          echo active >{tmp_path}/role; echo '{{}}';;
standby) echo standby >{tmp_path}/role; echo '{{}}';;
config) if grep -rq bad $IRAID_CONFIG_DIR; then
          echo '{{"faults":[{{"line":1,"key":"member","what":"bad","remedy":"mend it"}}]}}'
        else echo '{{"faults":[]}}'; fi;;
export) cat {tmp_path}/export; exit $(cat {tmp_path}/status 2>/dev/null || echo 0);;
esac
""")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def run_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("IRAID_RUN_DIR", str(tmp_path / "run"))


def asked(command):
    file = command.parent / "asked"
    return file.read_text().splitlines() if file.exists() else []


def bring(command, text=FILE, check_mode=False, **more):
    arguments = {
        "name": "v0",
        "text": text,
        "initiator": "iqn.2026-01.org.example:gateway2",
        "config_dir": str(command.parent / "etc"),
        "command": str(command),
    }
    return run_module("iraid_pair_file", arguments | more, check_mode)


def test_a_file_is_brought_with_the_names_of_its_gateway_and_begins_on_standby(command):
    file = command.parent / "etc/volumes/v0.conf"
    assert bring(command, text=None, check_mode=True)["changed"] is True
    assert bring(command, check_mode=True)["changed"] is True and not file.exists() and not asked(command)
    assert bring(command, chap_file="/etc/iraid/secrets/v0")["changed"] is True
    assert file.read_text() == FILE.replace("gateway1", "gateway2") + "chap_file = /etc/iraid/secrets/v0\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "standby v0 --json" in asked(command)
    again = bring(command, chap_file="/etc/iraid/secrets/v0")
    assert again["changed"] is False and asked(command).count("standby v0 --json") == 1
    # Another member: the file only; it is read when the volume is activated.
    changed = bring(command, FILE.replace("member = a", "member = b"), chap_file="/etc/iraid/secrets/v0")
    assert changed["changed"] is True and "member = b" in file.read_text()
    assert asked(command).count("standby v0 --json") == 1


def test_pacemaker_s_volume_is_not_begun(command):
    assert bring(command, standby=False)["changed"] is True
    assert not [words for words in asked(command) if words.startswith(("standby", "activate"))]
    assert bring(command, standby=False)["changed"] is False


@pytest.mark.parametrize(
    "before, role, text, words",
    [
        (FILE.replace(UUID, OTHER_UUID), None, FILE, [UUID, OTHER_UUID, "--no-wipe"]),
        (FILE, "active", FILE.replace("= a", "= b"), ["active on this gateway", "not replaced"]),
        ("", None, FILE.replace("= a", "= bad"), ["v0.conf:1: member: bad; mend it"]),
        ("", None, None, ["text is missing"]),
    ],
)
def test_a_file_that_may_not_be_replaced_stays(command, before, role, text, words):
    file = command.parent / "etc/volumes/v0.conf"
    file.parent.mkdir(parents=True)
    if before:
        file.write_text(before)
    if role:
        (command.parent / "role").write_text(role)
    result = bring(command, text)
    assert result.get("failed") and all(word in result["msg"] for word in words), result
    assert (file.read_text() if file.exists() else "") == before


def role(command, wanted, check_mode=False, **more):
    return run_module("iraid_role", {"name": "v0", "role": wanted, "command": str(command)} | more, check_mode)


def test_a_role_is_set_once_and_never_by_force(command):
    (command.parent / "role").write_text("standby\n")
    assert role(command, "active", check_mode=True)["changed"] is True
    assert not [words for words in asked(command) if words.startswith("activate")]
    assert role(command, "active", timeout=9)["changed"] is True
    assert role(command, "active")["changed"] is False
    assert [words for words in asked(command) if words.startswith("activate")] == ["activate v0 --timeout 9 --json"]
    assert role(command, "standby")["changed"] is True
    assert role(command, "standby")["changed"] is False


def test_a_volume_is_taken_when_the_other_gateway_has_given_it_back(command, monkeypatch):
    (command.parent / "role").write_text("standby\n")
    (command.parent / "key").write_text('"0x1"')
    result = role(command, "active", released=True, timeout=0)
    assert result["failed"] and "has m reserved still" in result["msg"]
    (command.parent / "released").touch()  # at the next look
    assert role(command, "active", released=True)["changed"] is True
    verbs = [words.split()[0] for words in asked(command)]
    assert verbs.count("activate") == 1 and verbs.index("activate") > 2
    # One that has it itself waits for nobody.
    (command.parent / "role").write_text("standby\n")
    (command.parent / "key").write_text('"0x2"')
    assert role(command, "active", released=True, timeout=0)["changed"] is True


def test_a_refused_role_is_told_in_the_command_s_words(command):
    (command.parent / "role").write_text("standby\n")
    (command.parent / "held").touch()
    result = role(command, "active")
    assert result["failed"] and "held" in result["msg"] and "remedy: wait" in result["msg"]


def test_a_role_is_awaited_for_a_time(command):
    assert role(command, "active", check_mode=True, set=False)["changed"] is False
    result = role(command, "active", set=False, timeout=0)
    assert result["failed"] and "not known here" in result["msg"] and "iraid events v0" in result["msg"]
    (command.parent / "role").write_text("fenced\n")
    assert "standby" in role(command, "active", set=False, timeout=0)["msg"]
    assert role(command, "standby", set=False, timeout=0)["failed"]  # not yet


def test_what_a_gateway_has_is_told_with_pacemaker_s(command, tmp_path, monkeypatch):
    kept = tmp_path / "cib.xml"
    monkeypatch.setenv("CIB_file", str(kept))
    arguments = {"names": ["v0"], "config_dir": str(tmp_path / "etc"), "command": str(command)}
    result = run_module("iraid_pair_state", arguments)
    assert result["volumes"] == {"v0": None} and result["managed"] == {} and not result["changed"]
    file = tmp_path / "etc/volumes/v0.conf"
    file.parent.mkdir(parents=True)
    file.write_text(FILE)
    assert "iraid config check v0" in run_module("iraid_pair_state", arguments)["msg"]
    kept.write_text(CIB)
    (tmp_path / "role").write_text("active\n")
    (tmp_path / "users").write_text('"tcmu: v0"')
    result = run_module("iraid_pair_state", arguments)
    has = result["volumes"]["v0"]
    assert (has["uuid"], has["role"], has["exported"], has["file"]) == (UUID, "active", True, FILE)
    assert result["managed"]["v0"] == "v0-clone"


def export(command, answer, status=0, **more):
    (command.parent / "export").write_text(json.dumps(answer))
    (command.parent / "status").write_text(str(status))
    arguments = {"name": "v0", "iqn": DISK, "demo_mode": True, "no_chap": True, "pair": 2, "command": str(command)}
    return run_module("iraid_export", arguments | more)


def test_an_export_of_a_pair_has_its_number(command):
    export(command, {"changes": [], "iqn": DISK, "initiators": [], "portals": []})
    assert asked(command)[-1] == f"export v0 --iqn {DISK} --pair 2 --no-chap --demo-mode --json"


def test_an_export_whose_address_moves_refuses_reservations(command):
    export(command, {"changes": [], "iqn": DISK, "initiators": [], "portals": []}, pair=None, no_reservations=True)
    assert asked(command)[-1] == f"export v0 --iqn {DISK} --no-reservations --no-chap --demo-mode --json"


def test_what_an_export_needs_is_told_and_nothing_is_changed(command):
    busy = {"error": {"message": "volume v0 is standby", "type": "busy"}}
    (command.parent / "role").write_text("standby\n")
    assert export(command, {"changes": []}, probe=True)["needs"] == "nothing"
    assert export(command, {"changes": ["an ACL"]}, probe=True)["needs"] == "export"
    assert export(command, busy, 1, probe=True)["needs"] == "turn"
    assert all("--dry-run" in words for words in asked(command) if words.startswith("export"))
    (command.parent / "users").write_text('"tcmu: v0"')
    result = export(command, busy, 1, probe=True)
    assert result["needs"] == "nothing" and "can't be seen" in result["warnings"][0]
    assert export(command, {"error": {"message": "no", "type": "internal"}}, 1, probe=True)["failed"]
