"""Advice from given figures: the model, what is mistuned, what is to be set; and the command against a socket."""

import json
import re
from types import SimpleNamespace

import pytest
from control_peer import ControlPeer, Failure, member, volume, write_log

from iraid.cli import main as cli
from iraid.control import model
from iraid.watch import advice, sysctls, throughput
from iraid.watch.throughput import Shape, Way

MIB = 1 << 20
MS = 1e-3
TUNED = {
    "target_segment_bytes": 262144,
    "first_burst_bytes": 262144,
    "max_burst_bytes": 262144,
    "initial_r2t": False,
    "immediate_data": True,
    "header_digest": False,
    "data_digest": False,
    "portal_group": 1,
}
TCP = {
    "rtt_us": 300,
    "rttvar_us": 50,
    "min_rtt_us": 200,
    "cwnd_segments": 10,
    "mss_bytes": 8948,
    "path_mtu_bytes": 9000,
    "segments_out": 100000,
    "retransmits": 0,
    "busy_us": 5000000,
}
TGT, LIO = "IET", "LIO-ORG"
ACL = "/sys/kernel/config/target/iscsi/iqn.2026-01.org.example:disk0/tpgt_1/acls/iqn.2026-01.org.example:gw"


def path(index=0, vendor=TGT, tcp=None, **changes):
    negotiated = TUNED | {key: value for key, value in changes.items() if key in TUNED}
    rest = {key: value for key, value in changes.items() if key not in TUNED}
    return {
        "portal": f"10.0.0.{index + 1}:3260",
        "vendor": vendor,
        "product": "DISK",
        "negotiated": negotiated,
        "window_commands": 128,
        "window_commands_max": 64,
        "in_flight": 0,
        "data_in_bytes": 262144,
        "read_bytes_max": 4 * MIB,
        "write_bytes_max": 262144,
        "tcp": TCP | (tcp or {}),
        **rest,
    }


def measured(index=0, latency=0.5 * MS, rate=100 * MIB, state="in sync", **changes):
    changes = {"path": model.read(model.Path, path(index)), "initiator": "iqn.2026-01.org.example:gw"} | changes
    return advice.Measured(member(index)["member"], index, state, "", latency=latency, rate=rate, **changes)


def one_with(gateway=None, rate=100 * MIB, **changes):
    """What is found of a volume of which member 0 differs."""
    first = measured(0, rate=rate, path=model.read(model.Path, path(0, **changes)))
    return find([first, *(measured(i, rate=rate) for i in (1, 2, 3))], gateway)


def find(members, gateway=None, **changes):
    status = model.read(model.Volume, volume(**changes))
    return advice.find(status, members, gateway or advice.Gateway(32 * MIB, 32 * MIB, True))


# --- the model ---


@pytest.mark.parametrize(
    ("latency", "depth", "block", "expected"),
    [
        # The fourth paper's requests and round trips, by its own formula.
        (8 * MS, 1, 10 * 1000 * 1000, 108.7e6),
        (16 * MS, 1, 10 * 1000 * 1000, 100e6),
        (32 * MS, 1, 10 * 1000 * 1000, 86.2e6),
        (64 * MS, 1, 10 * 1000 * 1000, 67.6e6),
        (10 * MS, 1, 4096, 0.408e6),
        (10 * MS, 16, 4096, 6.53e6),
        (10 * MS, 1000, 65536, 119e6),
        (0.0, 1, 4096, 119e6),
    ],
)
def test_one_member_is_the_papers_model_and_no_faster_than_its_rate(latency, depth, block, expected):
    ways = [Way("m", latency, 119e6)]
    found = throughput.estimate(Shape(0, 1, 64 * MIB), ways, 0.0, "read", block, depth)
    assert found.bytes_per_second == pytest.approx(expected, rel=0.003)
    assert found.limit == ("member" if found.bytes_per_second == 119e6 else "round trips")


@pytest.mark.parametrize(
    ("level", "members", "missing", "reads", "writes"),
    [
        (0, 4, 0, 4, 4),
        (5, 4, 0, 4, 3),
        (6, 6, 0, 6, 4),
        (1, 2, 0, 2, 1),
        (10, 4, 0, 4, 2),
        (10, 3, 0, 3, 1),
        (5, 4, 1, 2, 2.25),
        (6, 6, 1, 5 / 1.5, 5 * 4 / 6),
    ],
)
def test_many_at_a_time_use_every_member(level, members, missing, reads, writes):
    """In rates of one member; those that are missing cost the others their share."""
    ways = [Way(str(i), MS, 100.0) for i in range(members - missing)]
    shape = Shape(level, members, 65536, missing)
    for operation, share in (("read", reads), ("write", writes)):
        most, limit, _ = throughput.ceiling(shape, ways, 0.0, operation)
        assert (most, limit) == (pytest.approx(100.0 * share), "member")


def test_the_slowest_member_counts_for_all():
    ways = [Way("a", MS, 100e6), Way("b", MS, 30e6), Way("c", MS, 100e6)]
    assert throughput.ceiling(Shape(0, 3, 65536), ways, 0.0, "read") == (90e6, "member", "b")


@pytest.mark.parametrize(("together", "limit"), [(0.0, "member"), (390e6, "member"), (110e6, "gateway")])
def test_members_that_are_slower_together_show_the_gateway(together, limit):
    ways = [Way(str(i), MS, 100e6) for i in range(4)]
    most, found, _ = throughput.ceiling(Shape(0, 4, 65536), ways, together, "read")
    assert found == limit and most == (110e6 if limit == "gateway" else 400e6)


@pytest.mark.parametrize(
    ("level", "block", "unasked", "trips"),
    [
        (0, 4096, 262144, 1),
        (1, 4096, 262144, 1),
        (10, 4096, 262144, 1),
        (5, 4096, 262144, 2),
        (6, 4096, 262144, 2),
        (5, 3 * 65536, 262144, 1),  # a whole row needs nothing read
        (5, 3 * 65536, 8192, 2),
        (0, 65536, 8192, 2),
        (0, 8192, 8192, 1),
        (5, 65536, 8192, 3),
    ],
)  # R2T costs one more
def test_a_write_takes_as_many_round_trips_as_its_level_needs(level, block, unasked, trips):
    ways = [Way(str(i), 10 * MS, 0.0, 10 * MS, unasked) for i in range(4)]
    seconds = throughput.request_seconds(Shape(level, 4, 65536), ways, "write", block)
    assert seconds == pytest.approx(trips * 10 * MS)


def test_a_write_that_the_log_answers_takes_one_round_trip():
    ways = [Way(str(i), 10 * MS, 0.0, 10 * MS) for i in range(4)]
    shape = Shape(5, 4, 65536, always_logged=True)
    assert throughput.request_seconds(shape, ways, "write", 4096) == pytest.approx(10 * MS)


def test_a_large_read_is_spread_over_the_members():
    ways = [Way(str(i), 0.0, 100e6) for i in range(4)]
    alone = throughput.request_seconds(Shape(0, 4, 65536), ways, "read", 65536)
    assert throughput.request_seconds(Shape(0, 4, 65536), ways, "read", 4 * 65536) == pytest.approx(alone)


def test_the_depth_that_is_needed_is_enough_and_one_less_is_not():
    shape, ways = Shape(5, 4, 65536), [Way(str(i), 10 * MS, 100e6) for i in range(4)]
    for block in (4096, 65536, MIB):
        depth = throughput.depth_needed(shape, ways, 0.0, "read", block)
        assert throughput.estimate(shape, ways, 0.0, "read", block, depth).limit == "member"
        assert depth == 1 or throughput.estimate(shape, ways, 0.0, "read", block, depth - 1).limit == "round trips"


def test_without_rates_nothing_is_made_up():
    ways = [Way("a", MS, 0.0)]
    assert throughput.ceiling(Shape(0, 1, 65536), ways, 0.0, "read")[1] == "unknown"
    assert throughput.depth_needed(Shape(0, 1, 65536), ways, 0.0, "read", 4096) is None


# --- what is mistuned ---


@pytest.mark.parametrize(
    ("changes", "kind", "severity", "settings"),
    [
        ({"target_segment_bytes": 8192}, "segment", "warning", {"MaxRecvDataSegmentLength": "262144"}),
        ({"target_segment_bytes": 65535}, "segment", "warning", {"MaxRecvDataSegmentLength": "262144"}),
        ({"data_in_bytes": 8192}, "data-in", "warning", {"MaxXmitDataSegmentLength": "262144"}),
        ({"initial_r2t": True}, "r2t", "warning", {"InitialR2T": "No"}),
        ({"immediate_data": False}, "immediate", "warning", {"ImmediateData": "Yes"}),
        ({"first_burst_bytes": 65536}, "first-burst", "note", {"FirstBurstLength": "262144"}),
        ({"first_burst_bytes": 32768}, "first-burst", "warning", {"FirstBurstLength": "262144"}),
        ({"max_burst_bytes": 131072}, "max-burst", "warning", {"MaxBurstLength": "1048576"}),
        ({"window_commands": 16}, "depth", "warning", {"depth": "128"}),
        ({"window_commands": 47}, "depth", "warning", {"depth": "128"}),
        ({"data_digest": True}, "data-digest", "note", {}),
        ({"header_digest": True}, "header-digest", "note", {}),
        ({"read_bytes_max": 65536}, "transfer", "note", {}),
        ({"tcp": {"retransmits": 200}}, "loss", "warning", {}),
        ({"tcp": {"mss_bytes": 1400}}, "mtu-differs", "warning", {}),
        ({"tcp": {"sndbuf_limited_us": 2500000}}, "send-buffer", "warning", {}),
        ({"tcp": {"peer_limited_us": 2500000}}, "peer-buffer", "warning", {}),
        ({"tcp": {"min_rtt_us": 6000}}, "slow-start", "note", {}),
    ],
)
def test_each_fault_is_found_and_nothing_else(changes, kind, severity, settings):
    (found,) = one_with(**changes)
    assert (found.kind, found.severity, found.settings) == (kind, severity, settings)
    assert found.members == [member(0)["member"]]
    assert settings or found.advice or found.commands  # nobody is left without a remedy


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target_segment_bytes": 65536},
        {"window_commands": 48},
        {"window_commands": 0},
        {"data_in_bytes": 0},
        {"read_bytes_max": 262144},
        {"tcp": {"retransmits": 49}},
        {"tcp": {"retransmits": 99, "segments_out": 100000}},
        {"tcp": {"sndbuf_limited_us": 400000}},
        {"tcp": {"sndbuf_limited_us": 900000, "busy_us": 999999}},
        {"tcp": {"min_rtt_us": 900}},
        {"tcp": {"mss_bytes": 7300}},
    ],
)
def test_what_is_good_enough_is_not_mentioned(changes):
    assert one_with(**changes) == []


def test_a_kernel_that_does_not_tell_is_no_fault():
    members = [measured(i, path=model.read(model.Path, path(i, tcp=None) | {"tcp": None})) for i in range(3)]
    assert find(members, advice.Gateway()) == []
    assert members[0].round_trip == 0.0


def test_a_chunk_that_does_not_go_out_at_once_is_worse():
    first = measured(0, path=model.read(model.Path, path(0, first_burst_bytes=65536)))
    (found,) = find([first], chunk_bytes=262144)
    assert found.severity == "warning"


def test_the_same_of_several_targets_is_one_finding():
    members = [measured(i, path=model.read(model.Path, path(i, initial_r2t=True))) for i in range(4)]
    (found,) = find(members)
    assert found.members == [member(i)["member"] for i in range(4)]


def test_warnings_come_first():
    found = one_with(first_burst_bytes=65536, data_digest=True, target_segment_bytes=8192)
    assert [one.severity for one in found] == ["warning", "note", "note"]


@pytest.mark.parametrize(("rate", "expected"), [(30, ["slow-rate"]), (59, ["slow-rate"]), (61, []), (300, [])])
def test_a_member_that_is_slower_than_the_others_is_found(rate, expected):
    found = find([measured(0, rate=rate * MIB), *(measured(i) for i in (1, 2, 3))])
    assert [one.kind for one in found] == expected


@pytest.mark.parametrize(
    ("latency", "usual", "expected"),
    [
        (3 * MS, 0.5 * MS, ["slow-latency"]),
        (0.9 * MS, 0.3 * MS, ["slow-latency"]),
        (0.7 * MS, 0.3 * MS, []),
        (9 * MS, 8 * MS, ["target-time"]),
    ],
)
def test_a_member_that_answers_later_is_found(latency, usual, expected):
    found = find([measured(0, latency=latency), *(measured(i, latency=usual) for i in (1, 2, 3))])
    assert sorted({one.kind for one in found if member(0)["member"] in one.members}) == expected


def test_large_packets_pay_only_where_much_is_moved():
    tcp = {"mss_bytes": 1448, "path_mtu_bytes": 1500}

    def kinds(rate):
        members = [measured(i, rate=rate, path=model.read(model.Path, path(i, tcp=tcp))) for i in range(3)]
        return [(one.kind, one.severity) for one in find(members)]

    assert kinds(110 * MIB) == []
    assert set(kinds(900 * MIB)) == {("mtu", "note")}


@pytest.mark.parametrize(
    ("rtt_us", "rate", "found"), [(64000, 40, True), (64000, 10, False), (300, 4000, False), (10000, 2000, True)]
)
def test_a_receive_window_that_is_too_small_for_the_way_is_found(rtt_us, rate, found):
    gateway = advice.Gateway(rmem_max=6 * MIB, wmem_max=4 * MIB, slow_start_after_idle=False)
    kinds = {one.kind: one for one in one_with(gateway, rate * MIB, tcp={"min_rtt_us": rtt_us})}
    assert ("receive-buffer" in kinds) is found
    if found:
        assert kinds["receive-buffer"].commands == [f'sysctl -w net.ipv4.tcp_rmem="4096 131072 {24 * MIB}"']


FAR, SMALL_WRITES = {"min_rtt_us": 4000}, {"full": 100, "read_modify_write": 5000}


@pytest.mark.parametrize(
    ("tcp", "rows", "log", "found"),
    [
        (FAR, SMALL_WRITES, {}, True),
        ({}, SMALL_WRITES, {}, False),
        (FAR, {"full": 6000, "read_modify_write": 5000}, {}, False),
        (FAR, {"full": 1, "read_modify_write": 500}, {}, False),
        (FAR, SMALL_WRITES, {"mode": "always"}, False),
        (FAR, SMALL_WRITES, {"mode": "off"}, False),  # somebody's choice, or a level without a log
        (FAR, SMALL_WRITES, {"too_small": True}, False),
        (FAR, SMALL_WRITES, None, False),  # a handler that has none
    ],
)
def test_small_writes_over_a_long_way_are_for_the_write_log(tcp, rows, log, found):
    members = [measured(0, path=model.read(model.Path, path(0, tcp=tcp))), measured(1)]
    shown = find(members, rows=rows, log={} if log is None else write_log(**log))
    commands = [command for one in shown if one.kind == "log" for command in one.commands]
    assert commands == ["iraid set v0 --log always"] * found


def test_who_is_out_is_said_first_and_not_tuned():
    gone = advice.Measured(member(1)["member"], 1, "faulty", "no route")
    silent = advice.Measured(member(2)["member"], 2, "in sync", "")
    hung = measured(3, error="it did not answer in time")
    found = find([measured(0), gone, silent, hung], state="degraded", empty_roles=[4])
    assert [(one.kind, one.members) for one in found] == [
        ("out", [gone.member]),
        ("out", [silent.member]),
        ("unmeasured", [hung.member]),
        ("empty", []),
    ]
    assert "faulty: no route" in found[0].text and "not answering" in found[1].text
    assert found[3].commands == ["iraid replace v0 4 DEVICE"]


# --- what to set ---


def remedies(members, **changes):
    status = model.read(model.Volume, volume(**changes))
    return advice.remedies(status, members, advice.find(status, members, advice.Gateway()))


def mistuned(index=0, vendor=TGT, **changes):
    changes = {"target_segment_bytes": 8192, "initial_r2t": True} | changes
    return measured(index, path=model.read(model.Path, path(index, vendor, **changes)))


def test_nothing_to_do_is_nothing_said():
    assert remedies([measured(i) for i in range(4)]) == []


def test_tgt_gets_tgtadm():
    first = mistuned(max_burst_bytes=65536, first_burst_bytes=65536, window_commands=8)
    target, after = remedies([first, measured(1)], users=[])
    assert target.where == "target 10.0.0.1 (tgt)" and target.members == [member(0)["member"]]
    find_tid, *updates = target.commands
    assert re.search(r"'s/\^Target \\\(\[0-9\]\*\\\): iqn\\\.2026-01\\\.org\\\.example:disk0\$/", find_tid)
    update = re.compile(r'tgtadm --lld iscsi --mode target --op update --tid "\$tid" --name (\w+) --value (\w+)')
    set_to = [update.fullmatch(one).groups() for one in updates]
    assert set_to[0] == ("MaxBurstLength", "1048576")  # else the first burst would be refused
    assert dict(set_to) == {
        "MaxBurstLength": "1048576",
        "FirstBurstLength": "262144",
        "InitialR2T": "No",
        "MaxRecvDataSegmentLength": "262144",
        "MaxQueueCmd": "128",
    }
    assert "targets.conf: MaxBurstLength 1048576; " in target.text and "MaxQueueCmd 128" in target.text
    assert after.commands == ["iraid stop v0", "iraid start v0"]


def test_lio_gets_targetcli_in_its_own_portal_group():
    target, _ = remedies([mistuned(vendor=LIO, portal_group=3), measured(1)])
    assert target.where == "target 10.0.0.1 (LIO)"
    assert target.commands == [
        "targetcli /iscsi/iqn.2026-01.org.example:disk0/tpg3 set parameter MaxRecvDataSegmentLength=262144 "
        "InitialR2T=No MaxXmitDataSegmentLength=262144",
        "targetcli saveconfig",
    ]
    target, _ = remedies([mistuned(vendor=LIO, target_segment_bytes=262144, initial_r2t=False, window_commands=16)])
    assert target.commands == [
        "targetcli /iscsi/iqn.2026-01.org.example:disk0/tpg1 set attribute default_cmdsn_depth=128",
        f"[ ! -d {ACL} ] || echo 128 > {ACL}/cmdsn_depth",
        "targetcli saveconfig",
    ]
    assert "one target after the other" in target.text


def test_any_other_target_gets_words():
    target, _ = remedies([mistuned(vendor="ACME")])
    assert target.where == "target 10.0.0.1 (ACME DISK)" and target.commands == []
    assert "MaxRecvDataSegmentLength 262144, InitialR2T No" in target.text


def test_each_target_is_told_only_its_own():
    done = remedies([mistuned(0), measured(1), mistuned(2, initial_r2t=False)])
    assert [one.members for one in done[:2]] == [[member(0)["member"]], [member(2)["member"]]]
    assert "InitialR2T" in " ".join(done[0].commands) and "InitialR2T" not in " ".join(done[1].commands)


def test_a_target_with_two_members_is_set_once():
    first = mistuned(0)
    second = advice.Measured(first.member.removesuffix("0") + "1", 1, "in sync", path=first.path)
    target, after = remedies([first, second, measured(2)])
    assert target.members == [first.member, second.member] == after.members
    assert len(after.commands) == 6


@pytest.mark.parametrize(
    ("level", "users", "words"),
    [
        (5, [], ["stop", "start"]),
        (5, ["tcmu: v0"], ["fail", "rebuild", "wait"] * 2),
        (0, ["tcmu: v0"], ["stop", "start"]),
    ],
)
def test_how_sessions_come_to_be_logged_in_anew(level, users, words):
    after = remedies([mistuned(0), mistuned(1), measured(2)], level=level, users=users)[-1]
    assert [command.split()[1] for command in after.commands] == words
    assert "one member after the other" in after.text or "fail" not in words
    assert "first end the use of the volume" in after.text or level != 0


def test_a_spare_is_not_failed_to_have_it_log_in():
    spare = advice.Measured(member(3)["member"], None, "spare", path=mistuned(3).path)
    done = remedies([mistuned(0), measured(1), measured(2), spare])
    assert [one.members for one in done] == [[member(0)["member"]], [spare.member], [member(0)["member"], spare.member]]
    assert not any(spare.member in command for command in done[-1].commands)
    assert any(member(0)["member"] in command for command in done[-1].commands)


def test_a_degraded_volume_is_made_whole_before_members_are_taken_out_for_tuning():
    after = remedies([mistuned(0), mistuned(1)], state="degraded")[-1]
    assert "first bring back" in after.text


def test_an_mtu_is_set_before_sessions_are_logged_in_anew():
    """A session keeps the size of packets that its link had when it connected."""
    tcp = {"mss_bytes": 1448, "path_mtu_bytes": 1500}
    slow = [measured(i, rate=900 * MIB, path=model.read(model.Path, path(i, tcp=tcp))) for i in range(2)]
    link, after = remedies(slow, users=[])
    assert "mtu 9000" in link.commands[-1]
    assert after.commands == ["iraid stop v0", "iraid start v0"] and after.members == link.members
    target, link, after = remedies([mistuned(0), *slow[1:]], users=[])
    assert target.where.startswith("target") and "mtu 9000" in link.commands[-1] and after.findings == ["login"]


def test_addresses_of_version_6_are_taken_apart():
    assert measured(0, path=model.read(model.Path, path() | {"portal": "[fd00::1]:3260"})).address == "fd00::1"
    assert advice.Measured("10.0.0.1:3260,10.1.0.1:3260/iqn.x/0", 0, "faulty").address == "10.0.0.1"


# --- the command ---


@pytest.fixture
def iraid(tmp_path, capsys, monkeypatch):
    socket = tmp_path / "control.sock"
    monkeypatch.setenv("IRAID_SOCKET", str(socket))

    def run(answers, *arguments):
        socket.unlink(missing_ok=True)
        with ControlPeer(socket, answers) as peer:
            status = cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, calls=peer.calls, json=lambda: json.loads(out))

    return run


def probe(answers_of=None):
    """Members that answer a small read after 2 ms and give 100 MiB/s each, 250 together."""

    def answer(parameters):
        members = [member(i)["member"] for i in range(4)] if "member" not in parameters else [parameters["member"]]
        found = []
        for one in members:
            small = parameters["depth"] == 1
            reads = 500 if small else 200
            moved = reads * parameters["block_bytes"] // (1 if len(members) == 1 else 2)
            found.append(
                {
                    "member": one,
                    "error": "",
                    "reads": reads,
                    "bytes": moved,
                    "other_bytes": 0,
                    "elapsed_ms": 1000,
                    "unanswered": 0,
                    **((answers_of or {}).get(one, {})),
                }
            )
        return {"name": "v0", "members": found}

    return answer


def answers(paths=None, **changes):
    given = paths or [path(i) for i in range(4)]
    return {
        "volume.status": volume(**changes),
        "volume.probe": probe(),
        "volume.path": {
            "name": "v0",
            "members": [{"member": member(i)["member"], "path": one} for i, one in enumerate(given)],
        },
    }


def test_members_are_probed_one_after_the_other_and_then_at_once(iraid):
    ran = iraid(
        answers(), "advise", "v0", "--seconds", "3", "--block", "256K", "--depth", "8", "--rate-max", "50M", "--json"
    )
    assert ran.status == 0 and not ran.err
    asked = [parameters for method, parameters in ran.calls if method == "volume.probe"]
    assert [parameters.get("member") for parameters in asked] == [member(i // 2)["member"] for i in range(8)] + [None]
    small = {"name": "v0", "duration_ms": 1500, "block_bytes": 4096, "depth": 1, "rate_max_bytes": 50 * MIB}
    large = small | {"block_bytes": 262144, "depth": 8}
    assert asked[0] == small | {"member": member(0)["member"]}
    assert asked[1] == large | {"member": member(0)["member"]}
    assert asked[-1] == large
    found = ran.json()
    assert found["members"][0]["small_read_us"] == 2000
    assert found["members"][0]["read_bytes_per_second"] == 200 * 262144
    assert found["together_bytes_per_second"] == 4 * 100 * 262144
    assert {row["limit"] for row in found["model"]} == {"round trips", "gateway"}
    assert [method for method, _ in ran.calls][-1] == "volume.path"  # afterwards: it knows what the probe has shown


def test_what_the_volume_does_meanwhile_counts_as_rate(iraid):
    given = answers()
    given["volume.probe"] = probe({member(0)["member"]: {"other_bytes": 50 * MIB}})
    found = iraid(given, "advise", "v0", "--json").json()
    assert found["members"][0]["read_bytes_per_second"] == 200 * 524288 + 50 * MIB


def test_a_person_sees_figures_limits_findings_and_commands(iraid):
    paths = [path(i, initial_r2t=True, target_segment_bytes=8192) for i in range(4)]
    ran = iraid(answers(paths, users=[]), "advise", "v0")
    assert ran.status == 0 and not ran.err
    assert re.search(
        r"^0 +10\.0\.0\.1\S+ +in sync +0\.2 ms +2 ms +100 MiB/s +8 KiB +yes +yes +256 KiB +128$", ran.out, re.MULTILINE
    )
    assert re.search(r"^read 64 KiB .* round trips .* gateway$", ran.out, re.MULTILINE)
    assert "All at once: 200 MiB/s" in ran.out
    assert "warning: members 0, 1, 2, 3: InitialR2T is Yes" in ran.out
    assert ran.out.count("On the target 10.0.0.") == 4 and "    iraid stop v0\n" in ran.out


def test_a_well_tuned_volume_is_told_so(iraid):
    ran = iraid(answers(), "advise", "v0")
    assert "No badly tuned setting" in ran.out and "On the" not in ran.out


def test_without_a_probe_nothing_is_read_and_no_figures_are_made_up(iraid):
    ran = iraid(answers(), "advise", "v0", "--no-probe", "--json")
    assert {method for method, _ in ran.calls} == {"volume.status", "volume.path"}
    found = ran.json()
    assert found["model"] == [] and found["together_bytes_per_second"] is None
    assert found["members"][0]["round_trip_us"] == 200 and found["members"][0]["read_bytes_per_second"] is None
    assert "Not measured." in iraid(answers(), "advise", "v0", "--no-probe").out


def test_spares_and_members_that_are_out_are_not_probed(iraid):
    members = [
        member(0),
        member(1, state="faulty", link="closed", reason="no route"),
        member(2),
        member(3, role=None, state="spare"),
    ]
    given = answers([path(0), None, path(2), path(3, initial_r2t=True)], state="degraded", members=members)
    ran = iraid(given, "advise", "v0", "--json")
    asked = {parameters.get("member") for method, parameters in ran.calls if method == "volume.probe"}
    assert asked == {member(0)["member"], member(2)["member"], None}
    found = {one["kind"]: one["members"] for one in ran.json()["findings"]}
    assert found["out"] == [member(1)["member"]] and found["r2t"] == [member(3)["member"]]


def test_a_member_that_goes_meanwhile_is_named(iraid):
    given = answers()
    away = Failure(4, "unreachable", "there is no session with it", "see its status")
    given["volume.probe"] = lambda parameters: (
        away if parameters.get("member") == member(2)["member"] else probe()(parameters)
    )
    found = iraid(given, "advise", "v0", "--json").json()
    assert found["members"][2]["error"] == "there is no session with it"
    assert [one["members"] for one in found["findings"] if one["kind"] == "unmeasured"] == [[member(2)["member"]]]


@pytest.mark.parametrize(
    ("changes", "arguments", "status", "said"),
    [
        ({"state": "stopped", "level": None, "members": []}, [], 1, "volume v0 is stopped"),
        ({"state": "assembling", "reason": "2 of 4 members are there"}, [], 1, "2 of 4 members are there"),
        ({}, ["--seconds", "0.1"], 2, "--seconds"),
        ({}, ["--block", "6000"], 2, "multiple of 4 KiB"),
        ({}, ["--block", "2M"], 2, "between 4 KiB and 1 MiB"),
        ({}, ["--depth", "0"], 2, "--depth"),
        ({}, ["--rate-max", "100"], 2, "--rate-max"),
        ({}, ["--rate-max", "fast"], 2, "not a size"),
    ],
)
def test_what_can_not_be_is_said_before_anything_is_read(iraid, changes, arguments, status, said):
    ran = iraid(answers(**changes), "advise", "v0", *arguments)
    assert ran.status == status and said in ran.err and "remedy:" in ran.err
    assert not any(method == "volume.probe" for method, _ in ran.calls)


def test_a_probe_that_fails_as_a_whole_ends_it(iraid):
    given = answers()
    given["volume.probe"] = Failure(8, "busy", 'volume "v0": its members are being probed already', "wait")
    ran = iraid(given, "advise", "v0", "--json")
    assert ran.status == 1 and ran.json()["error"]["type"] == "busy"


def test_the_kernels_limits_are_read_where_there_are_any(tmp_path):
    assert sysctls.gateway(tmp_path) == advice.Gateway(0, 0, None)
    (tmp_path / "tcp_rmem").write_text("4096\t131072\t6291456\n")
    (tmp_path / "tcp_wmem").write_text("4096\t16384\t4194304\n")
    (tmp_path / "tcp_slow_start_after_idle").write_text("1\n")
    assert sysctls.gateway(tmp_path) == advice.Gateway(6291456, 4194304, True)
