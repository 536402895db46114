"""scripts/bench: what is measured, what rows add up to, and that a wrong value stops it before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from iraid_dev.bench import cli
from iraid_dev.bench.core import cells, plan, processor, report, row, run
from iraid_dev.bench.core.cells import Cell, Shape, ValueFault, parse_cells, parse_shapes
from iraid_dev.bench.core.plan import Plan
from iraid_dev.bench.core.row import Row
from iraid_dev.places import ROOT

BENCH = ROOT / "scripts/bench"
KIB, MIB = cells.KIB, cells.MIB


def figure(
    system: str,
    mb_per_s: float,
    number: int = 0,
    *,
    level: int | None = 5,
    pattern: str = "write",
    block: int = 4 * KIB,
    **more,
) -> Row:
    members = 1 if level is None else 4
    return Row(
        **{
            "kernel": "qemu",
            "system": system,
            "level": level,
            "members": members,
            "pattern": pattern,
            "block_bytes": block,
            "mb_per_s": mb_per_s,
            "iops": mb_per_s * 1e6 / block,
            "p50_ms": 2.0,
            "p99_ms": 9.0,
            "cpu_s_per_gib": None,
            "round": number,
            **more,
        }
    )


def only_section(rows: list[Row]) -> report.Section:
    (section,) = report.sections(rows)
    return section


# --- maths ---


@pytest.mark.parametrize(
    "values, expected",
    [
        ([3.0, 1.0, 100.0], report.Spread(3.0, 1.0, 100.0, 3)),
        ([4.0, 2.0], report.Spread(3.0, 2.0, 4.0, 2)),
        ([], None),
    ],
)
def test_spread_is_median_least_and_most(values, expected):
    assert report.spread(values) == expected


@pytest.mark.parametrize(
    "values, expected",
    [
        ([2.0, 8.0], 4.0),
        ([0.5, 2.0], 1.0),
        ([7.0], 7.0),
        ([], None),
        ([1.0, 0.0], None),
    ],
)
def test_geometric_mean_is_of_positive_values_only(values, expected):
    assert report.geometric_mean(values) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"),
        (1234.5, "1234"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.1234, "0.123"),
        (0.00123, "0.001"),
    ],
)
def test_numbers_have_three_digits_that_tell_something(value, text):
    assert report.number_text(value) == text


def test_a_ratio_is_that_of_the_medians_and_its_spread_that_of_single_rounds():
    section = only_section(
        [figure("iraid", value, number) for number, value in enumerate((10, 30, 20))]
        + [figure("md", value, number) for number, value in enumerate((10, 10, 40))]
    )
    assert section.ratio("iraid", "md", Cell("write", 4 * KIB)) == report.Spread(2.0, 0.5, 3.0, 3)


def test_a_ratio_needs_both_and_nothing_is_divided_by_zero():
    section = only_section([figure("iraid", 10), figure("md", 0.0), figure("iraid", 10, block=MIB)])
    assert section.ratio("iraid", "md", Cell("write", 4 * KIB)) is None
    assert section.ratio("iraid", "md", Cell("write", MIB)) is None


def test_rounds_of_several_files_are_told_apart():
    first = [figure("iraid", 10, 0), figure("md", 10, 0), figure("iraid", 10, 1)]
    second = [figure("iraid", 90, 0), figure("md", 30, 0)]
    rows = report.pooled([first, second])
    assert [one.round for one in rows] == [0, 0, 1, 2, 2]
    found = only_section(rows).ratio("iraid", "md", Cell("write", 4 * KIB))
    assert (found.low, found.high, found.count) == (1.0, 3.0, 2)


# --- sections ---


def test_systems_without_a_level_stand_in_every_section_of_their_kernel():
    rows = [
        figure("iraid", 10, level=0),
        figure("iraid", 10, level=5),
        figure("plain", 5, level=None),
        figure("engine", 99, level=5, kernel="none"),
    ]
    found = report.sections(rows)
    assert [(one.kernel, one.level, one.systems) for one in found] == [
        ("qemu", 0, ["iraid", "plain"]),
        ("qemu", 5, ["iraid", "plain"]),
        ("none", 5, ["engine"]),
    ]


def test_only_systems_without_a_level_are_a_section_of_their_own():
    section = only_section([figure("plain", 5, level=None), figure("ceiling", 6, level=None)])
    assert (section.level, section.systems) == (None, ["plain", "ceiling"])


def test_what_was_measured_under_other_conditions_is_not_mixed():
    near, far = {"rtt_ms": 0}, {"rtt_ms": 8}
    found = report.sections([figure("iraid", 10, conditions=near), figure("iraid", 1, conditions=far)])
    assert sorted(one.figure("iraid", Cell("write", 4 * KIB), "mb_per_s").median for one in found) == [1, 10]
    assert len({one.slug for one in found}) == 2


# --- tables ---


def lines_of(table: str) -> dict[str, list[str]]:
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in table.splitlines()]
    assert len({len(line) for line in lines}) == 1, table
    return {line[0]: line[1:] for line in lines}


def test_a_cell_that_is_missing_is_a_dash_and_the_mean_says_so():
    section = only_section([figure("iraid", 30), figure("md", 10), figure("iraid", 10, block=MIB)])
    throughput, ratios = lines_of(report.throughput_table(section)), lines_of(report.ratio_table(section))
    assert throughput["1M write"] == ["10.0", "-"]
    assert ratios["4k write"] == ["3.00"] and ratios["1M write"] == ["-"]
    assert ratios["geometric mean"] == ["**3.00** (1 of 2 cells)"]


def test_without_a_pair_there_are_no_ratios():
    assert report.ratio_table(only_section([figure("iraid", 30)])) == ""


def test_cells_stand_in_the_order_of_patterns_and_sizes():
    rows = [
        figure("iraid", 1, pattern=pattern, block=block)
        for pattern in ("randread", "read", "write")
        for block in (MIB, 4 * KIB)
    ]
    assert [str(cell) for cell in only_section(rows).cells] == [
        "4k write",
        "1M write",
        "4k read",
        "1M read",
        "4k randread",
        "1M randread",
    ]


def test_processor_time_of_those_who_have_none_is_a_dash():
    section = only_section(
        [
            figure("iraid", 1, cpu_s_per_gib=4.0, cpu_user_s_per_gib=1.0, process_cpu_s_per_gib=2.5),
            figure("md", 1, cpu_s_per_gib=3.0, cpu_user_s_per_gib=0.0),
        ]
    )
    table = lines_of(report.processor_table(section))
    assert table["4k write"] == ["4.00 (1.00)", "3.00 (0)", "2.50"]
    assert report.processor_table(only_section([figure("iraid", 1)])) == ""


def test_latency_without_the_last_percentile_has_a_dash():
    rows = [figure("iraid", 1, p999_ms=20.0), figure("md", 1)]
    assert lines_of(report.latency_table(only_section(rows)))["4k write"] == ["2.00 / 9.00 / 20.0", "2.00 / 9.00 / -"]


def test_a_run_that_was_cut_short_says_so():
    head = {"ok": False, "date": "2026-01-01", "commit": "abc", "command": "scripts/bench", "machine": {"cpu": "X"}}
    text = report.markdown([head], report.sections([figure("iraid", 1)]), {})
    assert "cut short" in text and "cut short" not in report.markdown(
        [head | {"ok": True}], report.sections([figure("iraid", 1)]), {}
    )


# --- files ---


def test_rows_survive_their_file(tmp_path):
    rows = [figure("iraid", 1.5, 2, conditions={"rtt_ms": 8}, p999_ms=3.0)]
    row.write(tmp_path / "rows.json", {"date": "today"}, rows)
    assert row.read(tmp_path / "rows.json") == ({"date": "today"}, rows)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"rows": 3}', '{"rows": [{"kernel": "uml"}]}', '{"rows": [{"strange": 1}]}']
)
def test_a_file_without_rows_is_named(tmp_path, text):
    file = tmp_path / "some.json"
    file.write_text(text)
    with pytest.raises(row.RowError, match="some.json"):
        row.read(file)


# --- what was typed ---


def test_cells_are_read_as_size_and_pattern():
    assert parse_cells("4k:randwrite") == (Cell("randwrite", 4 * KIB),)
    assert parse_cells("1M") == tuple(Cell(pattern, MIB) for pattern in row.PATTERNS)
    assert parse_cells("read,read:8k") == (*(Cell("read", block) for block in cells.BLOCKS), Cell("read", 8 * KIB))


@pytest.mark.parametrize(
    "text, named",
    [
        ("8q:write", "8q"),
        ("", "''"),
        ("4k:writ", "writ"),
        ("5k:write", "5k"),
        ("0k", "0k"),
        ("32M", "32M"),
        ("4k:64k", "4k:64k"),
        ("read:write", "read:write"),
        ("4k:read:write", "4k:read:write"),
    ],
)
def test_a_cell_that_is_none_is_refused_by_name(text, named):
    with pytest.raises(ValueFault, match=named):
        parse_cells(text)


def test_shapes_are_read_as_level_and_members():
    assert parse_shapes("5,0:3") == (Shape(5, 4), Shape(0, 3))


@pytest.mark.parametrize(
    "text, named",
    [
        ("5:2", "level 5 has 3 to 32 members, not 2"),
        ("1:5", "2 to 4"),
        ("7", "'7' is no level"),
        ("", "'' is no level"),
        ("5:", "no number"),
        ("5:-4", "no number"),
        ("5,5:6", "twice"),
    ],
)
def test_a_level_that_is_none_is_refused_by_name(text, named):
    with pytest.raises(ValueFault, match=named):
        parse_shapes(text)


@pytest.mark.parametrize(
    "shape, chunks",
    [(Shape(0, 4), 4), (Shape(1, 2), 1), (Shape(5, 4), 3), (Shape(6, 4), 2), (Shape(10, 4), 2), (Shape(10, 5), 2.5)],
)
def test_a_stripe_has_the_data_chunks_of_its_level(shape, chunks):
    assert shape.data_chunks == chunks


@pytest.mark.parametrize(
    "words, named",
    [
        (["--levels", "5:2"], "--levels 5:2"),
        (["--cells", "4q"], "--cells 4q"),
        (["--systems", "iraid,mdd"], "mdd"),
        (["--seconds", "0"], "--seconds 0"),
        (["--rounds", "0"], "--rounds 0"),
        (["--json", "none/there.json"], "none/there.json"),
        (["--json", "."], "--json ."),
        (["--out", "none/there"], "none/there"),
        (["--out", "taken"], "--out taken"),
        (
            ["--systems", "md-nobitmap", "--levels", "0"],
            "--levels 0: there is nothing to measure: md-nobitmap has level 1",
        ),
        (["--systems", "md-ppl,lvm", "--levels", "10"], "md-ppl has level 5; lvm has level 5, 6"),
        (["--report", "rows.json"], "--out"),
        (["--report", "rows.json", "--out", "new", "--rounds", "2"], "--rounds"),
        (["--kernel", "vms"], "vms"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_starts(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "measure", lambda *_: pytest.fail("it measures"))
    (tmp_path / "taken").touch()
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert named in said.err.splitlines()[-1]
    assert said.out == "" and [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_report_of_a_file_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / "empty.json").write_text('{"rows": []}')
    for name in ("empty.json", "not-there.json"):
        assert cli.main(["--report", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_report_is_made_of_what_a_run_left(tmp_path):
    rows = [figure("iraid", 10.0 + number, number, p999_ms=9.5) for number in range(3)] + [figure("md", 0.0)]
    row.write(tmp_path / "rows.json", {"ok": False, "commit": "abc"}, rows)
    assert cli.main(["--report", str(tmp_path / "rows.json"), "--out", str(tmp_path / "out")]) == 0
    assert "| 4k write | 11.0 (10.0-12.0) | 0 |" in (tmp_path / "out/report.md").read_text()
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".md", ".png", ".png", ".svg", ".svg"]


def test_the_command_itself_exits_with_2():
    done = subprocess.run([BENCH, "--rounds", "none"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "--rounds" in done.stderr


def test_half_a_line_of_a_run_that_goes_on_is_left_for_later(tmp_path):
    whole = json.dumps(asdict(figure("iraid", 1)))
    (tmp_path / "rows").write_text(f"{whole}\n{whole[:30]}")
    assert run.read_lines(tmp_path / "rows") == [figure("iraid", 1)]
    assert run.read_lines(tmp_path / "none") == []


# --- plan ---


def make_plan(systems: tuple[str, ...], levels: str = "5") -> Plan:
    return Plan("uml", systems, parse_shapes(levels), cells.CELLS, 1.0, 3)


def test_what_has_no_level_is_measured_beside_every_level():
    found = list(make_plan(("md-nobitmap", "plain", "iraid"), "0,5").groups())
    assert found == [
        [("plain", None), ("iraid", Shape(0, 4))],
        [("plain", None), ("iraid", Shape(5, 4)), ("md-nobitmap", Shape(5, 4))],
    ]


def test_a_means_against_the_write_hole_is_measured_where_it_exists():
    found = list(make_plan(("md", "md-ppl", "md-journal", "lvm"), "1,5,6").groups())
    assert [[name for name, _ in group] for group in found] == [
        ["md"],
        ["md", "md-ppl", "md-journal", "lvm"],
        ["md", "md-journal", "lvm"],
    ]


def test_a_journal_takes_memory_as_well():
    assert plan.disk_bytes("md-journal", Shape(5, 4)) == plan.disk_bytes("md", Shape(5, 4)) + plan.JOURNAL_BYTES


def test_what_has_no_level_alone_is_measured_once():
    assert list(make_plan(("ceiling", "plain"), "0,5").groups()) == [[("plain", None), ("ceiling", None)]]


def test_nothing_is_put_up_in_the_lab_for_the_engine():
    made = make_plan(("engine", "raw"))
    assert list(made.groups()) == [] and made.native == ("engine", "raw") and made.in_lab == ()


def test_more_disks_than_memory_are_refused():
    made = make_plan(("iraid", "md"), "5,0:32")
    made.check_memory(2 * 32 * plan.MEMBER_BYTES + plan.GUEST_BYTES)
    with pytest.raises(ValueFault, match="12.0 GiB"):
        made.check_memory(2 * 32 * plan.MEMBER_BYTES + plan.GUEST_BYTES - 1)


def test_a_plan_survives_its_file():
    made = make_plan(("iraid", "md"), "0,6:5")
    assert Plan.from_json(made.to_json()) == made


def test_the_estimate_counts_every_cell():
    once, twice = (Plan("uml", ("iraid", "md"), parse_shapes("5"), cells.CELLS, 1.0, rounds) for rounds in (1, 2))
    more = plan.estimate_seconds(twice) - plan.estimate_seconds(once)
    assert more == pytest.approx(2 * len(cells.CELLS) * (1.0 + plan.FIO["uml"]))


@pytest.mark.parametrize("name", plan.PROFILES)
def test_profiles_can_be_measured(name):
    profile = plan.PROFILES[name]
    Plan(profile.kernel, profile.systems, profile.shapes(), profile.cells, profile.seconds, profile.rounds).check()
    assert set(profile.systems) <= set(row.SYSTEMS)


# --- processor time ---

TICKS = processor.TICKS_PER_SECOND
NOBODY = 1 << 22  # no process has a number above it: not the one that runs the tests either


def make_task(proc: Path, number: int, *, start: int = 5, user: int = 0, kernel: int = 0, thread_ns: int | None = None):
    """A process, or a kernel thread where there is thread_ns."""
    words = [0] * 50
    words[6] = processor.KERNEL_THREAD if thread_ns is not None else 0x400000
    words[11], words[12], words[19] = user, kernel, start
    (proc / str(number)).mkdir(exist_ok=True)
    (proc / str(number) / "stat").write_text(f"{number} (a b) c) {' '.join(map(str, words))}\n")
    if thread_ns is not None:
        (proc / str(number) / "schedstat").write_text(f"{thread_ns} 0 0\n")


def test_processor_time_is_that_of_all_that_are_there_afterwards(tmp_path):
    make_task(tmp_path, NOBODY + 10, user=TICKS, kernel=TICKS)
    make_task(tmp_path, NOBODY + 11, thread_ns=1_000_000_000)
    make_task(tmp_path, NOBODY + 12, user=50 * TICKS)  # a load that ends
    make_task(tmp_path, NOBODY + 13, start=5, user=70 * TICKS)
    (tmp_path / "self").mkdir()
    before = processor.snapshot(tmp_path)
    make_task(tmp_path, NOBODY + 10, user=4 * TICKS, kernel=2 * TICKS)
    make_task(tmp_path, NOBODY + 11, thread_ns=1_250_000_000)
    (tmp_path / f"{NOBODY + 12}/stat").unlink()
    make_task(tmp_path, NOBODY + 13, start=6, user=1 * TICKS)  # another one with that number
    after = processor.snapshot(tmp_path)
    assert processor.spent(before, after) == processor.Times(3.0 + 1.0, 1.0 + 0.25)
    assert processor.spent_by(NOBODY + 10, before, after).seconds == 4.0


def test_a_kernel_without_schedstat_has_ticks(tmp_path):
    make_task(tmp_path, NOBODY + 11, thread_ns=0, user=TICKS, kernel=2 * TICKS)
    (tmp_path / f"{NOBODY + 11}/schedstat").unlink()
    assert list(processor.snapshot(tmp_path).values()) == [processor.Times(0.0, 3.0)]


def test_the_time_of_this_process_does_not_count():
    assert os.getpid() not in {number for number, _ in processor.snapshot()}
