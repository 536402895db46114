"""Tables of the papers' experiments, and the commands that refuse what can't be measured."""

import dataclasses

import pytest

from iraid_dev.bench.core.row import Row
from iraid_dev.bench.core.row import write as write_rows
from iraid_dev.bench.papers import model, report


def row(system="iraid", level=5, members=4, pattern="write", mb_per_s=10.0, depth=16, **conditions):
    return Row(
        kernel="uml",
        system=system,
        level=level,
        members=members,
        pattern=pattern,
        block_bytes=65536,
        mb_per_s=mb_per_s,
        iops=0,
        p50_ms=1,
        p99_ms=2,
        cpu_s_per_gib=None,
        depth=depth,
        conditions=conditions,
    )


def targets_rows(system, level, members, mb_per_s, **conditions):
    return [
        row(system, level, members, pattern, mb_per_s, experiment="targets", link_mbit=100, **conditions)
        for pattern in model.OPERATIONS
    ]


def test_a_gain_is_against_the_plain_target_on_the_same_link():
    rows = targets_rows("plain", None, 1, 10) + targets_rows("iraid", 0, 4, 39)
    rows += [row("plain", None, 1, "read", 1.0, experiment="targets", link_mbit=10)]

    (only,) = report.gains(rows)

    assert (only["system"], only["link_mbit"]) == ("S-iRAID 4", 100)
    assert only["mean"] == pytest.approx(3.9)
    assert not only["host_bound"]


def test_there_is_no_gain_where_an_operation_is_missing():
    rows = targets_rows("plain", None, 1, 10) + targets_rows("iraid", 0, 4, 39)[:3]

    assert report.gains(rows) == []


def test_a_point_that_tells_of_the_machine_is_marked():
    rows = targets_rows("plain", None, 1, 10) + targets_rows("iraid", 0, 4, 39, host_bound=True)

    assert report.tables(rows).count("host-bound") == len(model.OPERATIONS) + 1  # each figure, and their mean


def test_a_cell_measured_twice_counts_as_last_measured_and_a_missing_one_shows():
    rows = [
        row(experiment="distance-congestion", link_mbit=100, cc="reno", mb_per_s=1),
        row(experiment="distance-congestion", link_mbit=100, cc="reno", mb_per_s=77),
        row(experiment="distance-congestion", link_mbit=100, cc="bbr", mb_per_s=88, pattern="read"),
    ]

    text = report.tables(rows)

    assert "| P-iRAID 4 | sequential write | 100 | 77 (cwnd -) | - |" in text
    assert "| P-iRAID 4 | sequential read | 100 | - | 88 (cwnd -) |" in text


def test_a_file_that_is_no_figures_is_named(tmp_path, capsys):
    broken = tmp_path / "rows.json"
    broken.write_text("{}")

    with pytest.raises(SystemExit) as ended:
        report.main(["--report", str(broken), "--out", str(tmp_path)])

    assert ended.value.code == 2
    assert str(broken) in capsys.readouterr().err
    assert not (tmp_path / "papers.md").exists()


def test_plots_have_the_papers_curve(tmp_path):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    rows = [row(experiment="distance", rtt_ms=rtt, mb_per_s=100, measured={"rtt": rtt + 1}) for rtt in (8, 64)]
    figures = tmp_path / "rows.json"
    write_rows(figures, {"date": "now"}, rows)

    assert report.main(["--report", str(figures), "--out", str(tmp_path)]) == 0

    assert "paper: one target" in (tmp_path / "papers-distance.svg").read_text()
    assert "RTT as TCP saw it 9" in (tmp_path / "papers.md").read_text()


def cern_rows():
    return [
        dataclasses.replace(
            row(
                system,
                level,
                4,
                "write",
                mb_per_s,
                experiment="cern",
                job="block output",
                measured={"cpu_percent": 12.4},
            ),
            cpu_s_per_gib=3.25,
        )
        for system, level, mb_per_s in (("iraid", 0, 20), ("iraid", 5, 15), ("md", 0, 20), ("md", 5, 9))
    ]


def test_cerns_levels_are_compared_with_the_same_systems_level_0():
    shares = report.cern_shares(cern_rows())

    assert (shares["iraid"][5], shares["md"][5]) == ({"block output": 0.75}, {"block output": 0.45})
    assert shares["CERN"][5]["block output"] == 0.5


def test_cerns_table_has_the_processor_beside_throughput():
    assert "| P-iRAID 4 | 15.0 (12 %, 3.2) |" in report.tables(cern_rows())


def test_all_plots_are_drawn_and_have_the_papers_beside_ours(tmp_path):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    rows = cern_rows()
    rows += [row(mb_per_s=50, pattern="randread", experiment="latency", rtt_ms=8)]
    rows += [
        row("plain", None, 1, experiment="raw-tcp", mtu=1500, stream="tcp"),
        row("plain", None, 1, experiment="raw-tcp", mtu=1500, segment_bytes=8192),
    ]
    rows += [
        row(pattern=pattern, level=0, experiment="targets", link_mbit=100, measured={"utilisation": 0.9})
        for pattern in model.OPERATIONS
    ]

    made = {path.stem: path.read_text() for path in report.plots(rows, tmp_path)}

    assert "CERN, level 5" in made["papers-cern"]
    assert "P-iRAID 4, random read" in made["papers-latency"]
    assert "one TCP stream, MTU 1500" in made["papers-raw-tcp"]
    assert ">paper<" in made["papers-utilisation"]


def test_latency_is_in_ms_and_throughput_in_mb():
    text = report.tables([row(experiment="latency", rtt_ms=8)])
    assert "| 1.0 (2.0) |" in text and "MB/s" not in text
    assert "MB/s" in report.tables(cern_rows())


def test_cerns_levels_are_in_order_whatever_was_measured_first():
    text = report.tables(list(reversed(cern_rows())))

    assert [line.split(" | ")[0] for line in text.splitlines() if " %, " in line] == [
        "| S-iRAID 4",
        "| md 0 on 4",
        "| P-iRAID 4",
        "| md 5 on 4",
    ]
    assert report.cern_shares(list(reversed(cern_rows())))["md"][5] == {"block output": 0.45}
