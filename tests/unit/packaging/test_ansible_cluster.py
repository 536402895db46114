"""Pacemaker in the Ansible role: what a cluster lacks, and the modules that add it.  pcs itself works on a file here."""

import json
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from ansible_role import filters, run_module
from control_peer import ROOT
from ansible_collections.iraid.iraid.plugins.module_utils import cib, cluster_plan
from ansible_collections.iraid.iraid.plugins.module_utils.cluster_plan import Refused, Volume

EMPTY = """<cib crm_feature_set="3.16.1" validate-with="pacemaker-3.8" epoch="1" num_updates="0" admin_epoch="0">
  <configuration><crm_config/><nodes><node id="1" uname="gateway1"/><node id="2" uname="gateway2"/></nodes>
  <resources>%s</resources><constraints>%s</constraints></configuration><status/></cib>"""
PRIMITIVE = """<primitive id="%s" class="ocf" provider="iraid" type="volume"><instance_attributes id="%s-a">
  <nvpair id="%s-n" name="volume" value="v0"/></instance_attributes></primitive>"""
CLONE = f"""<clone id="mine">{PRIMITIVE % ("v0", "v0", "v0")}<meta_attributes id="m">
  <nvpair id="p" name="promotable" value="true"/></meta_attributes></clone>"""
V0 = Volume("v0", "gateway1", "10.1.0.100", 24)


def texts(volumes, text, **properties):
    return [one.text for one in cluster_plan.plan(volumes, text, properties)]


def test_an_empty_cluster_lacks_all():
    shown = texts([V0], EMPTY % ("", ""))
    assert shown[-5:] == [
        "resource v0-clone, which serves volume v0",
        "v0-clone prefers gateway1",
        "resource v0-ip: address 10.1.0.100/24 with volume v0",
        "v0-ip is where v0-clone is promoted",
        "v0-ip after v0-clone",
    ]
    assert "property stonith-enabled: false" in shown
    assert not [text for text in texts([Volume("v0", "gateway1")], EMPTY % ("", "")) if "address" in text]


def test_fencing_that_others_have_stays_on():
    device = '<primitive id="f" class="stonith" type="fence_ipmilan"/>'
    assert "property stonith-enabled: false" not in texts([V0], EMPTY % (device, ""))
    assert "property stonith-enabled: false" in texts([V0], EMPTY % (device, ""), **{"stonith-enabled": "false"})


def test_it_is_what_the_page_shows():
    """What an administrator types there, and the role here, is one cluster."""
    page = (ROOT / "docs/operating/pair.md").read_text()
    shown = [shlex.split(line)[1:] for line in re.findall(r"^pcs (?!host|cluster).*", page, re.MULTILINE)]
    made = cluster_plan.plan([Volume("v0", "gw1", "10.1.0.9", 24)], EMPTY % ("", ""))
    assert [list(one.words) for one in made] == shown
    name, *nodes = re.search(r"^pcs cluster setup (.*?)( --.*)?$", page, re.MULTILINE)[1].split()
    assert (name, nodes) == ("pair", "gw1 addr=10.9.0.1 addr=10.1.0.1 gw2 addr=10.9.0.2 addr=10.1.0.2".split())


def test_a_resource_that_somebody_made_is_taken_by_what_it_does():
    shown = texts([Volume("v0", "gateway2")], EMPTY % (CLONE, ""))
    assert "mine prefers gateway2" in shown and not [text for text in shown if text.startswith("resource")]


def test_another_preference_replaces_ours_and_no_other():
    def rule(name, resource="mine", score="10", role="Promoted"):
        return (
            f'<rsc_location id="{name}" rsc="{resource}"><rule id="{name}-r" role="{role}" score="{score}">'
            f'<expression id="{name}-e" attribute="#uname" operation="eq" value="gateway1"/></rule></rsc_location>'
        )

    others = rule("b", score="7") + rule("c", "x") + rule("d", role="Started")
    others += '<rsc_location id="e" rsc="mine" node="gateway1" score="10"/>'
    steps = cluster_plan.plan([Volume("v0", "gateway2")], EMPTY % (CLONE, rule("a") + others))
    words = [" ".join(one.words) for one in steps if one.words[0] == "constraint"]
    assert words == [
        "constraint delete a",
        "constraint location mine rule role=Promoted score=10 #uname eq gateway2",
    ]


@pytest.mark.parametrize(
    "resources, words",
    [
        (PRIMITIVE % ("old", "o", "o"), ["old", "no promotable clone", "pcs resource delete old"]),
        ('<primitive id="v0" class="ocf" provider="heartbeat" type="Dummy"/>', ["v0", "not volume v0"]),
        (
            CLONE + '<primitive id="v0-ip" class="ocf" provider="heartbeat" type="Dummy"/>',
            ["v0-ip is no address"],
        ),
    ],
)
def test_what_is_in_the_way_is_named_and_stays(resources, words):
    with pytest.raises(Refused) as refused:
        cluster_plan.plan([V0], EMPTY % (resources, ""))
    assert all(word in str(refused.value) for word in words), refused.value


# --- corosync.conf ---

DEBIAN = (
    "totem {\n\tcluster_name: debian\n}\nnodelist {\n\tnode {\n\t\tname: node1\n\t\tring0_addr: 127.0.0.1\n\t}\n}\n"
)
FORMED = """totem {
    version: 2
    cluster_name: iraid # ours
}
nodelist {
    node {
        ring0_addr: 10.2.0.1
        name: gateway1
        nodeid: 1
    }
    node {
        ring0_addr: 10.2.0.2
        name: gateway2
        nodeid: 2
    }
}
"""
NODES = [{"name": f"gateway{number}", "addresses": [f"10.2.0.{number}", f"10.1.0.{number}"]} for number in (1, 2)]


def test_a_cluster_is_known_by_its_name_and_nodes():
    names = [node["name"] for node in NODES]
    assert cluster_plan.corosync_of(FORMED).nodes == {"gateway1": "10.2.0.1", "gateway2": "10.2.0.2"}
    assert cluster_plan.is_formed("iraid", names, FORMED)
    assert not cluster_plan.is_formed("iraid", names, "") and not cluster_plan.is_formed("iraid", names, DEBIAN)
    for name, nodes in (("iraid", ["gateway1", "gateway3"]), ("other", names)):
        with pytest.raises(Refused, match=r"gateway1 \(10.2.0.1\).*iraid_cluster_name.*pcs cluster destroy"):
            cluster_plan.is_formed(name, nodes, FORMED)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """pcs and chpasswd that write down what they are asked and told."""
    log = tmp_path / "log"
    for name in ("pcs", "chpasswd"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\n[ "$2" = destroyed ] || echo "{name} $*: $(cat)" >>{log}\n')
        program.chmod(0o755)
    return tmp_path


def node(tools, step, text=None, check_mode=False, **more):
    config = tools / "corosync.conf"
    if text is not None:
        config.write_text(text)
    given = {"cluster": "iraid", "nodes": NODES, "step": step, "password": "wolf-howls-42", "config": str(config)}
    return run_module("iraid_cluster_node", given | more, check_mode, programs=tools)


def test_a_cluster_is_formed_once_and_no_secret_is_an_argument(tools):
    log = tools / "log"
    assert node(tools, "form", DEBIAN, check_mode=True)["changed"] is True and not log.exists()
    assert node(tools, "password")["changed"] is True
    assert node(tools, "form")["changed"] is True
    said = log.read_text().splitlines()
    assert said[0] == "chpasswd : hacluster:wolf-howls-42"
    known = "gateway1 addr=10.2.0.1 gateway2 addr=10.2.0.2"
    assert said[1] == f"pcs host auth {known} -u hacluster: wolf-howls-42"
    nodes = "gateway1 addr=10.2.0.1 addr=10.1.0.1 gateway2 addr=10.2.0.2 addr=10.1.0.2"
    assert said[2] == f"pcs cluster setup iraid {nodes} --start --enable --wait=120 --force: "
    assert not any("wolf" in line.split(": ")[0] for line in said)
    assert node(tools, "password", DEBIAN)["formed"] is False
    for step in ("password", "form"):
        result = node(tools, step, FORMED, password=None)
        assert result["changed"] is False and result["formed"] is True
    assert "iraid_cluster_password" in node(tools, "form", DEBIAN, password=None)["msg"]
    refused = node(tools, "form", FORMED.replace("cluster_name: iraid", "cluster_name: web"))
    assert refused["failed"] and "'web'" in refused["msg"]


# --- pcs on a file ---


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A CIB, and pcs that believes in an agent which is not installed."""
    if shutil.which("pcs") is None or shutil.which("cibadmin") is None:
        pytest.skip("pcs and Pacemaker are not installed; run scripts/deps --long")
    file = tmp_path / "cib.xml"
    newest = subprocess.run(["cibadmin", "--empty"], capture_output=True, text=True, check=True).stdout
    feature = ElementTree.fromstring(newest).get("crm_feature_set")
    file.write_text((EMPTY % ("", "")).replace("3.16.1", feature))
    monkeypatch.setenv("CIB_file", str(file))
    program = tmp_path / "pcs"
    program.write_text(f"""#!/bin/sh
unset CIB_file
case "$*" in *ocf:iraid:volume*) set -- "$@" --force;; esac
exec {shutil.which("pcs")} "$@"
""")
    program.chmod(0o755)
    return file


def resources(cluster, check_mode=False, **changes):
    given = {"volumes": [{"name": "v0", "preferred": "gateway1", "address": "10.1.0.100/24"} | changes]}
    return run_module("iraid_cluster", given, check_mode, programs=cluster.parent)


@pytest.mark.long  # pcs takes seconds for each command
def test_what_pcs_makes_of_it_is_what_was_wanted(cluster):
    before = cluster.read_text()
    predicted = resources(cluster, check_mode=True)
    assert predicted["changed"] is True and cluster.read_text() == before, predicted
    made = resources(cluster)
    assert made["changed"] is True and made["changes"] == predicted["changes"]
    assert resources(cluster)["changed"] is False
    assert cib.volumes(cluster.read_text()) == {"v0": "v0-clone"}

    moved = resources(cluster, preferred="gateway2", address="10.1.0.101/24")
    assert moved["changes"] == [
        "v0-clone no longer prefers gateway1",
        "v0-clone prefers gateway2",
        "address 10.1.0.101/24 of v0-ip",
    ]
    assert resources(cluster, preferred="gateway2", address="10.1.0.101/24")["changed"] is False


@pytest.mark.long
def test_a_command_that_fails_leaves_the_cluster_as_it_was(cluster):
    before = cluster.read_text()
    program = cluster.parent / "pcs"
    program.write_text(
        program.read_text().replace("unset", '[ "$5" != add ] || { echo "no such thing" >&2; exit 1; }\nunset')
    )
    result = resources(cluster)
    assert result["failed"] and "no such thing" in result["msg"] and "colocation" in result["msg"]
    assert cluster.read_text() == before


@pytest.mark.parametrize("refusals, changed", [(0, True), (1, True), (9, None)])
def test_a_push_that_the_cluster_refuses_is_made_anew_from_what_it_has_by_then(
    tmp_path, monkeypatch, refusals, changed
):
    monkeypatch.delenv("CIB_file", raising=False)
    (tmp_path / "cibadmin").write_text(f"#!/bin/sh\necho read >>{tmp_path}/log\ncat <<END\n{EMPTY % ('', '')}\nEND\n")
    (tmp_path / "pcs").write_text(f"""#!/bin/sh
[ "$2" = cib-push ] || exit 0
echo push >>{tmp_path}/log
[ "$(grep -c push {tmp_path}/log)" -gt {refusals} ] || {{ echo "not by the schema" >&2; exit 1; }}
""")
    for name in ("cibadmin", "pcs"):
        (tmp_path / name).chmod(0o755)
    result = run_module("iraid_cluster", {"volumes": [{"name": "v0", "preferred": "gateway1"}]}, programs=tmp_path)
    pushes = min(refusals + 1, 5)
    assert (tmp_path / "log").read_text().split() == ["read", "push"] * pushes
    if changed:
        assert result["changed"] is True
    else:
        assert result["failed"] and "not by the schema" in result["msg"]


def test_without_a_cluster_check_mode_predicts_and_a_run_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("CIB_file", str(tmp_path / "none"))
    given = {"volumes": [{"name": "v0", "preferred": "gateway1"}]}
    assert run_module("iraid_cluster", given, True)["changes"] == ["resource v0-clone"]
    assert "no cluster" in run_module("iraid_cluster", given)["msg"]


# --- variables ---


def test_addresses_are_checked():
    def problems(*addresses, pair=("a", "b")):
        volumes = [{"name": f"v{number}", "address": one} for number, one in enumerate(addresses)]
        return filters.cluster_problems({"volumes": volumes, "pair": list(pair)})

    assert problems("10.1.0.1/24", None, "10.1.0.2/24") == []
    assert "'10.1.0.1' has no prefix" in problems("10.1.0.1")[0]
    assert "IP/PREFIX" in problems("here/24")[0]
    assert "v0).address already" in problems("10.1.0.1/24", "10.1.0.1/16")[0]
    assert "two gateways" in problems(pair=[])[0]


@pytest.mark.parametrize("inside", ["a", "b"])
def test_a_cluster_of_one_of_them_is_not_destroyed(inside):
    """A gateway was replaced: the other one's cluster serves its volumes."""
    hostvars = {
        host: {
            "iraid_cluster_seen": {"formed": host == inside},
            "iraid_cluster_told": {"name": f"node-{host}", "addresses": [f"10.9.0.{host}", f"10.1.0.{host}"]},
        }
        for host in ("a", "b")
    }
    outside = "b" if inside == "a" else "a"
    (problem,) = filters.cluster_split(["a", "b"], hostvars)
    assert f"{outside} is not in the cluster of {inside}" in problem
    assert f"pcs cluster node add node-{outside} addr=10.9.0.{outside} addr=10.1.0.{outside} --start" in problem
    for formed in (False, True):
        hostvars["a"]["iraid_cluster_seen"] = hostvars["b"]["iraid_cluster_seen"] = {"formed": formed}
        assert filters.cluster_split(["a", "b"], hostvars) == []
    hostvars[outside]["iraid_cluster_seen"] = {"failed": True}
    assert filters.cluster_split(["a", "b"], hostvars) == []
    del hostvars[outside]["iraid_cluster_seen"]
    assert filters.cluster_split(["a", "b"], hostvars) == []


def test_preferences_are_by_names_of_nodes():
    hostvars = {host: {"iraid_cluster_told": {"name": f"node-{host}"}} for host in ("a", "b")}
    volumes = [
        {"name": "v0"},
        {"name": "v1", "preferred": "b", "address": "10.1.0.1/24"},
        {"name": "x", "state": "absent"},
    ]
    shown = filters.cluster_volumes(volumes, ["a", "b"], hostvars)
    assert [(one["name"], one["preferred"]) for one in shown] == [("v0", "node-a"), ("v1", "node-b")]
    assert json.dumps(shown)
