"""scripts/bench --profile growth, outside of the lab: what is measured, how long, what is refused, what the tables say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iraid_dev.bench import cli
from iraid_dev.bench.core import load, plan, processor, row, systems
from iraid_dev.bench.core import run as runs
from iraid_dev.bench.core.cells import GIB, KIB, MIB, Cell, Shape, ValueFault
from iraid_dev.bench.core.row import Row
from iraid_dev.bench.growth import memory
from iraid_dev.bench.growth import plan as growth_plan
from iraid_dev.bench.growth import report as growth_report
from iraid_dev.bench.growth import run as growth_run
from iraid_dev.bench.growth.plan import EXPERIMENTS, TIB, Settings, settings_of
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.tools import StackError

ALL = Settings(only=tuple(EXPERIMENTS))


def make_settings(*only: str, **more) -> Settings:
    return replace(ALL, only=only or ALL.only, **more)


# --- plan ---


def test_a_level_is_measured_with_as_many_members_as_it_can_have():
    settings = make_settings(levels=(0, 5, 6, 1), members=(2, 3, 4, 16))
    assert settings.shapes() == [
        Shape(0, 2),
        Shape(0, 3),
        Shape(0, 4),
        Shape(0, 16),
        Shape(5, 3),
        Shape(5, 4),
        Shape(5, 16),
        Shape(6, 4),
        Shape(6, 16),
        Shape(1, 2),
        Shape(1, 3),
        Shape(1, 4),
    ]


def test_a_full_row_grows_with_the_members_and_is_measured_once():
    assert growth_plan.cells_of(Shape(5, 16))[-1] == Cell("write", 15 * 64 * KIB)
    assert growth_plan.cells_of(Shape(6, 4))[-1] == Cell("write", 128 * KIB)
    assert growth_plan.cells_of(Shape(1, 2)).count(Cell("write", 64 * KIB)) == 1


@pytest.mark.parametrize("size", [GIB, 10 * GIB + MIB, 64 * TIB])
def test_places_lie_inside_and_apart(size):
    offsets = list(growth_plan.places_of(size).values())
    assert offsets[0] == 0 and all(offset % MIB == 0 for offset in offsets)
    assert all(later - earlier >= growth_plan.AREA_BYTES for earlier, later in zip(offsets, offsets[1:]))
    assert size - MIB < offsets[-1] + growth_plan.AREA_BYTES <= size


@pytest.mark.parametrize("size", ALL.sizes)
def test_members_hold_a_volume_of_that_size_and_what_stands_beside_the_data(size):
    member = growth_plan.member_bytes_of(size)
    chunks = -(-size // 3)
    assert member - chunks >= chunks // 1024 + 64 * MIB and member % MIB == 0
    assert member < 1.002 * chunks + 66 * MIB


def test_settings_survive_their_file():
    assert Settings.from_json(ALL.to_json()) == ALL


def test_what_is_measured_where():
    settings = make_settings("jobs", "jobs-native")
    assert (settings.in_lab, settings.native) == (("jobs",), ("jobs-native",))


@pytest.mark.parametrize(
    "only, more, cells",
    [
        ("members", {"members": (4,), "levels": (5,)}, 2 * 5),
        ("volumes", {"volumes": (1,)}, 5),
        ("jobs", {"jobs": (1,)}, 3 * 5),
        ("sizes", {"sizes": (GIB,)}, 3 * 4 + 2),
        ("members-native", {"members": (4,), "levels": (0,)}, 2 * 5),
        ("jobs-native", {"jobs": (1,)}, 2 * 5),
    ],
)
def test_the_estimate_counts_every_cell_of_every_round(only, more, cells):
    once = make_settings(only, seconds=1.0, **more)
    longer = growth_plan.estimate_seconds(replace(once, seconds=11.0)) - growth_plan.estimate_seconds(once)
    assert longer == pytest.approx(10 * cells)
    more_rounds = growth_plan.estimate_seconds(replace(once, rounds=3)) - growth_plan.estimate_seconds(once)
    own = plan.NATIVE_CELL if EXPERIMENTS[only].native else plan.FIO["uml"]
    assert more_rounds == pytest.approx(2 * cells * (1.0 + own))


def test_the_whole_profile_takes_half_an_hour_at_most():
    assert growth_plan.estimate_seconds(ALL) <= 30 * 60


def test_more_disks_than_memory_are_refused():
    settings = make_settings("volumes", volumes=(1, 8))
    wanted = 8 * 4 * growth_plan.MEMBER_BYTES + plan.GUEST_BYTES
    settings.check_memory(wanted)
    settings.check_memory(0)  # the machine doesn't say
    with pytest.raises(ValueFault, match=r"volumes take 3.0 GiB.*--only"):
        settings.check_memory(wanted - 1)


def test_what_is_measured_without_a_kernel_needs_its_memory_too():
    settings = make_settings("members-native", members=(16,), levels=(0,))
    with pytest.raises(ValueFault, match="4.5 GiB"):
        settings.check_memory(2 * 16 * growth_plan.NATIVE_MEMBER_BYTES)


# --- what was typed ---


def test_what_was_typed_is_put_in_order():
    settings = settings_of({"only": "sizes,volumes", "sizes": "16T,1G", "volumes": "8,1,2", "seconds": None})
    assert settings.only == ("sizes", "volumes")
    assert settings.sizes == (GIB, 16 * TIB) and settings.volumes == (1, 2, 8)
    assert settings.seconds == ALL.seconds


@pytest.mark.parametrize(
    "words, named",
    [
        (["--only", "members,speed"], "--only speed"),
        (["--members", "1"], "--members 1 is not in 2..32"),
        (["--members", "4,x"], "'x' is no number"),
        (["--volumes", "0"], "--volumes 0"),
        (["--jobs", "64"], "--jobs 64"),
        (["--sizes", "1P"], "--sizes 1P"),
        (["--sizes", "65T"], "--sizes 65T"),
        (["--sizes", "0G"], "--sizes 0G"),
        (["--sizes", "1G,"], "--sizes :"),
        (["--levels", "4"], "--levels 4"),
        (["--levels", "5", "--members", "2"], "--members 2"),
        (["--levels", "1", "--members", "8"], "--levels 1"),
        (["--seconds", "0"], "--seconds 0"),
        (["--rounds", "0"], "--rounds 0"),
        (["--kernel", "none"], "'none'"),
        (["--json", "none/there.json"], "none/there.json"),
        (["--out", "taken"], "--out taken"),
        (["--report", "rows.json"], "--out"),
        (["--report", "rows.json", "--out", "new", "--jobs", "4"], "--jobs"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_starts(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(growth_run, "_measure", lambda *_: pytest.fail("it measures"))
    (tmp_path / "taken").touch()
    with pytest.raises(SystemExit) as ended:
        cli.main(["--profile", "growth", *words])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert named in said.err.splitlines()[-1]
    assert said.out == "" and [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    "words", [["--profile", "growth"], ["--profile=growth"], ["--rounds", "2", "--profile", "growth"]]
)
def test_the_profile_has_options_of_its_own(words):
    assert cli.own_options(words) == "growth"
    assert cli.own_options(["--profile", "quick", "--json", "growth"]) is None


# --- the load ---

DISK = Disk("iqn.x:y", "127.0.0.1:3260", "/dev/sdx")


def test_jobs_in_sequence_have_parts_of_their_own():
    words = load.Jobs(4, 2, offset_bytes=MIB).words(65 * MIB, Cell("write", 192 * KIB))
    part = 16 * MIB // (192 * KIB) * 192 * KIB
    assert {"--numjobs=4", "--iodepth=2", f"--offset={MIB}", f"--size={part}", f"--offset_increment={part}"} <= set(
        words
    )


def test_jobs_at_random_all_have_the_whole():
    words = load.Jobs(4).words(64 * MIB, Cell("randread", 4 * KIB))
    assert f"--size={64 * MIB}" in words and not any(word.startswith("--offset_increment") for word in words)


def test_one_job_is_as_it_always_was():
    assert load.ONE_JOB.words(64 * MIB, Cell("read", MIB)) == ["--iodepth=16", "--offset=0", f"--size={64 * MIB}"]


def test_too_many_jobs_for_a_disk_are_refused():
    with pytest.raises(StackError, match="too few for 32 jobs of 1M write"):
        load.Jobs(32).words(16 * MIB, Cell("write", MIB))


# --- systems, and what of them a row is made of ---


class Fake(systems.System):
    def put_up(self) -> None:
        self.disk = DISK


def test_a_system_has_to_say_how_it_is_put_up():
    with pytest.raises(TypeError, match="put_up"):
        systems.System(None, "iraid", Shape(5, 4))
    assert not any(kind.__abstractmethods__ for kind in systems.KINDS.values())


def test_systems_that_are_alike_are_told_apart():
    first, second = (systems.Iraid(None, "iraid", Shape(5, 4), number=number) for number in (0, 1))
    assert first.volume != second.volume


@pytest.fixture
def inside(monkeypatch, tmp_path):
    monkeypatch.setenv("IRAID_DEMO_RESULTS", str(tmp_path))
    monkeypatch.setenv("IRAID_LAB", "uml")
    from iraid_dev.bench.core import inside as module

    monkeypatch.setattr(module, "ROWS", tmp_path / "rows")
    return module


def test_a_row_of_several_is_their_sum_and_the_slowest_ones_latency(inside, monkeypatch):
    pair = [Fake(None, "iraid", Shape(5, 4), number=number) for number in (0, 1)]
    loads = [
        load.Load(GIB, 10.0, 100.0, {"p50_ms": 1.0, "p99_ms": 9.0, "p999_ms": 10.0}),
        load.Load(3 * GIB, 30.0, 300.0, {"p50_ms": 2.0, "p99_ms": 5.0, "p999_ms": 20.0}),
    ]
    snapshots = iter([{(7, 1): processor.Times(1.0, 1.0)}, {(7, 1): processor.Times(2.0, 8.0)}])
    monkeypatch.setattr(load, "run_together", lambda *_: loads)
    monkeypatch.setattr(load, "settle", lambda: None)
    monkeypatch.setattr(processor, "snapshot", lambda: next(snapshots))
    made = inside.figure_together(
        None, pair, Cell("write", MIB), 1.0, 3, load.Jobs(2, 8), lambda done: {"of": len(done)}
    )
    assert (made.mb_per_s, made.iops, made.p50_ms, made.p99_ms, made.p999_ms) == (40.0, 400.0, 2.0, 9.0, 20.0)
    assert (made.cpu_s_per_gib, made.process_cpu_s_per_gib, made.round, made.depth) == (2.0, None, 3, 8)
    assert made.conditions == {"of": 2}
    assert runs.read_lines(inside.ROWS) == [made]


def test_each_round_begins_with_another_system(inside):
    both = [Fake(None, name, Shape(5, 4)) for name in ("iraid", "md")]
    order = []

    def one(system: systems.System, cell: Cell) -> Row:
        order.append((system.name, cell.pattern))
        return figure("members", 1)

    class Quiet:
        def say(self, text: str) -> None:
            pass

    for number in (0, 1):
        inside.measure_round(Quiet(), both, [Cell("write", MIB), Cell("read", MIB)], number, one)
    assert order == [
        (name, pattern)
        for names in (("iraid", "md"), ("md", "iraid"))
        for pattern in ("write", "read")
        for name in names
    ]


# --- memory ---

SMAPS = """\
60000000-60100000 r-xp 00000000 08:01 1234                       /usr/bin/tcmu-runner
Size:               1024 kB
Rss:                 300 kB
Pss:                 100 kB
Anonymous:             8 kB
VmFlags: rd ex mr mw me
70000000-74000000 rw-s 00000000 00:06 77                         /dev/uio0
Size:              65536 kB
Rss:                2048 kB
Pss:                2048 kB
Anonymous:             0 kB
78000000-78100000 rw-p 00000000 00:00 0                          [heap]
Rss:                 512 kB
Pss:                 512 kB
Anonymous:           512 kB
79000000-79100000 rw-p 00000000 00:00 0
Rss:                  64 kB
Pss:                  64 kB
Anonymous:            64 kB
"""


def test_memory_is_told_apart_by_what_it_is(tmp_path):
    (tmp_path / "10").mkdir()
    (tmp_path / "10/smaps").write_text(SMAPS)
    assert memory.of(10, tmp_path) == memory.Memory(rss_kib=2924, pss_kib=2724, ring_kib=2048, own_kib=584)


# --- tables ---


def figure(
    experiment: str,
    mb_per_s: float,
    number: int = 0,
    *,
    system: str = "iraid",
    pattern: str = "write",
    block: int = 64 * KIB,
    members: int = 4,
    measured: dict | None = None,
    **conditions,
) -> Row:
    conditions |= {"experiment": experiment} | ({"measured": measured} if measured else {})
    return Row(
        "uml",
        system,
        5,
        members,
        pattern,
        block,
        mb_per_s,
        mb_per_s,
        2.0,
        9.0,
        4.0,
        round=number,
        conditions=conditions,
        process_cpu_s_per_gib=1.5 if system == "iraid" else None,
    )


def seen(own: int, rss: int = 30 * KIB, ring: int = 2 * KIB, **more) -> dict:
    empty = {"rss_kib": 8 * KIB, "pss_kib": 4 * KIB, "ring_kib": 0, "own_kib": 2 * KIB}
    after = {"rss_kib": rss, "pss_kib": rss - KIB, "ring_kib": ring, "own_kib": own, "buffers_kib": KIB}
    return {"empty": empty, "idle": empty | {"rss_kib": 13 * KIB}, "after": after} | more


def lines_of(text: str, head: str) -> dict[str, list[str]]:
    """The table whose first line has `head` in it: first word -> the others."""
    table = next(part for part in text.split("\n\n") if part.startswith("|") and head in part.splitlines()[0])
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in table.splitlines()]
    assert len({len(line) for line in lines}) == 1, table
    return {line[0]: line[1:] for line in lines}


def test_members_stand_in_order_with_md_beside_and_full_rows_last():
    rows = [
        figure("members", 30, members=8),
        figure("members", 10),
        figure("members", 20, 1),
        figure("members", 5, block=192 * KIB),
        figure("members", 99, system="md"),
    ]
    text = growth_report.tables(rows)
    table = [line for line in text.splitlines() if line.startswith("|")][:5]
    assert table[0] == "| members | system | 64k write, MB/s | full rows write |"
    assert table[2:] == ["| 4 | iraid | 15.0 | 5.00 |", "| 4 | md | 99.0 | - |", "| 8 | iraid | 30.0 | - |"]
    assert "| 4 | iraid | 4.00 (1.50) | 4.00 (1.50) |" in text and "| 4 | md | 4.00 | - |" in text


def test_a_fair_share_is_the_least_and_most_of_one_volume():
    rows = [
        figure("volumes", 10, volumes=1, measured=seen(4 * KIB, each_mb_per_s=[10.0])),
        figure("volumes", 12, volumes=2, measured=seen(10 * KIB, each_mb_per_s=[8.0, 4.0])),
        figure("volumes", 14, 1, volumes=2, measured=seen(12 * KIB, each_mb_per_s=[5.0, 9.0])),
    ]
    text = growth_report.tables(rows)
    shares = lines_of(text, "64k write, MB/s")
    assert shares["1"] == ["10.0"] and shares["2"] == ["13.0 (4.00-9.00)"]
    assert lines_of(text, "RSS without")["2"] == ["8.0", "13.0", "30.0", "29.0", "2.0", "12.0", "5.0", "1.0"]


def test_systems_without_a_runner_have_no_memory():
    assert "RSS" not in growth_report.tables([figure("jobs", 1, system="md", jobs=1)])


def test_sizes_have_their_times():
    times = {"create": 0.5, "create_assemble": 0.25, "stop": 0.1, "assemble": 2.0, "status": 0.002}
    rows = [
        figure(
            "sizes",
            10,
            size_bytes=size,
            place=place,
            measured={
                "times": times | {"status_after": after},
                "regions": 131072,
                "region_bytes": MIB,
                "added_kib": 3 * KIB,
                "buffers_kib": buffers,
            },
        )
        for place, size, after, buffers in (
            ("start", 16 * TIB, 0.004, 512),
            ("start", GIB, 0.001, 256),
            ("end", 16 * TIB, 0.003, 1024),
        )
    ]
    text = growth_report.tables(rows)
    throughput = [line for line in text.splitlines() if line.endswith("| 10.0 |")]
    assert throughput == ["| 1 GiB | start | 10.0 |", "| 16 TiB | start | 10.0 |", "| 16 TiB | end | 10.0 |"]
    assert lines_of(text, "create, s")["16 TiB"] == [
        "131072",
        "1024 KiB",
        "0.500",
        "0.250",
        "0.100",
        "2.00",
        "2.00",
        "4.00",
        "3.0",
        "1.0",
    ]


def test_a_report_is_made_of_what_a_run_left(tmp_path):
    rows = [figure("jobs", 10.0, jobs=4), replace(figure("jobs", 77.0, jobs=4), conditions={})]
    row.write(tmp_path / "rows.json", {"ok": True, "commit": "abc", "date": "today"}, rows)
    assert (
        cli.main(["--profile", "growth", "--report", str(tmp_path / "rows.json"), "--out", str(tmp_path / "out")]) == 0
    )
    text = (tmp_path / "out/growth.md").read_text()
    assert "| 4 | iraid | 10.0 |" in text and "today, commit abc" in text and "77" not in text


def test_a_report_of_other_figures_is_refused(tmp_path, capsys):
    row.write(tmp_path / "other.json", {}, [replace(figure("jobs", 1.0), conditions={})])
    for name in ("other.json", "none.json"):
        assert cli.main(["--profile", "growth", "--report", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
