"""SPDK beside the engine: what bdevperf is told, what is read from it, and what it is not asked for."""

from __future__ import annotations

import subprocess
from dataclasses import astuple
from pathlib import Path

import pytest

from iraid_dev.bench import cli
from iraid_dev.bench.core import report, row, spdk
from iraid_dev.bench.core.cells import KIB, MIB, Cell, Shape, ValueFault
from iraid_dev.bench.core.row import Row
from iraid_dev.bench.core.spdk import SpdkError
from iraid_dev.places import ROOT

LEVEL_5 = Shape(5, 4)
READ, STRIPE = Cell("read", 64 * KIB), Cell("write", 192 * KIB)
MEMBERS = [f"127.0.0.1:{port}/iqn.2026-01.org.iraid.test:t/1" for port in (4001, 4002, 4003, 4004)]
PRINTED = """\
Running I/O for 2 seconds...
\r     5531.00 IOPS,   345.69 MiB/s\r     7037.50 IOPS,   439.84 MiB/s
                                                                                                Latency(us)
\r
\r Device Information          : runtime(s)       IOPS      MiB/s     Fail/s     TO/s    Average        min        max
\rJob: r0 (Core Mask 0x2, workload: read, depth: 16, IO size: 65536)
\r\t r0                  :       2.01    7029.27     439.33       0.00     0.00    2275.76      49.82   28634.19
\r =================================================================================
\r Total                       :               7029.27     439.33       0.00     0.00    2275.76      49.82   28634.19

 Latency summary
\r =============================================
\r Job: r0 (Core Mask 0x2)
 25.00000% :  1020.849us
 50.00000% :  1587.988us
 99.00000% :  9326.277us
 99.50000% : 11040.295us
 99.90000% : 17644.308us
 99.99000% : 28634.191us

"""


def make_tree(folder: Path, program: str = "exit 0", *, without: tuple[str, ...] = ()) -> Path:
    """What is looked at of a tree of SPDK that is built."""
    file = folder / spdk.PROGRAM
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(0o755)
    settings = folder / spdk.SETTINGS
    settings.parent.mkdir(parents=True)
    settings.write_text(
        "".join(
            f"#undef SPDK_CONFIG_{name}\n" if name in without else f"#define SPDK_CONFIG_{name} 1\n"
            for name in ("ISCSI_INITIATOR", "RAID5F")
        )
    )
    return folder


def printing(folder: Path, text: str, status: int = 0, fault: str = "") -> list[str]:
    """A program that prints as bdevperf does."""
    (folder / "printed").write_text(text, newline="")
    program = folder / "bdevperf"
    program.write_text(f"#!/bin/sh\ncat {folder}/printed\necho '{fault}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return [str(program)]


# --- what it is told ---


def calls(level: int, members: list[str]) -> list[tuple[str, dict]]:
    (only,) = spdk.configuration(Shape(level, len(members)), members)["subsystems"]
    assert only["subsystem"] == "bdev"
    return [(call["method"], call.get("params", {})) for call in only["config"]]


@pytest.mark.parametrize(("level", "name"), [(0, "raid0"), (5, "raid5f")])
def test_the_volume_has_every_target_in_order_and_our_chunk(level, name):
    *sessions, volume, last = calls(level, MEMBERS)
    assert [params["url"] for _, params in sessions] == [f"iscsi://{member}" for member in MEMBERS]
    assert {method for method, _ in sessions} == {"bdev_iscsi_create"}
    names = [params["name"] for _, params in sessions]
    assert volume == (
        "bdev_raid_create",
        {"name": "r0", "raid_level": name, "base_bdevs": names, "strip_size_kb": 64},
    )
    assert len(set(names)) == 4
    assert last == ("bdev_wait_for_examine", {})


def test_copies_have_no_chunk():
    _, params = calls(1, MEMBERS[:2])[2]
    assert params["raid_level"] == "raid1" and "strip_size_kb" not in params


def test_the_program_needs_no_huge_pages_and_polls_on_one_processor():
    words = spdk.command(Path("bdevperf"), Path("c.json"), Cell("randread", 4 * KIB), 16, 3, 1)
    text = " ".join(words)
    assert "--no-huge" in words and "--no-pci" in words and "-m [1]" in text
    assert "-c c.json -T r0 -l -w randread -o 4096 -q 16 -t 3" in text


def test_large_commands_get_memory_for_their_buffers():
    def memory(block: int, depth: int) -> int:
        words = spdk.command(Path("bdevperf"), Path("c.json"), Cell("read", block), depth, 1, 0)
        return int(words[words.index("-s") + 1])

    assert memory(4 * KIB, 16) == 513
    assert memory(MIB, 64) == 512 + 128


# --- what it is not asked for ---


@pytest.mark.parametrize(
    ("shape", "cell", "asked"),
    [
        (LEVEL_5, STRIPE, True),
        (LEVEL_5, Cell("randwrite", 384 * KIB), True),
        (LEVEL_5, Cell("write", MIB), False),
        (Shape(5, 5), Cell("write", MIB), True),
        (LEVEL_5, Cell("randwrite", 4 * KIB), False),
        (LEVEL_5, Cell("randread", 4 * KIB), True),
        (Shape(0, 4), Cell("randwrite", 4 * KIB), True),
        (Shape(1, 2), Cell("write", MIB), True),
    ],
)
def test_parity_takes_whole_stripes_only(shape, cell, asked):
    assert (spdk.refusal(shape, cell) is None) == asked


def test_a_cell_that_is_refused_starts_nothing(tmp_path):
    volume = spdk.Spdk(tmp_path / "no-program", LEVEL_5, MEMBERS, tmp_path)
    assert volume.measure(Cell("write", 64 * KIB), 16, 1, 0) is None


def test_the_table_says_why_a_cell_has_no_figure():
    partial = Cell("write", 64 * KIB)
    rows = [
        Row("none", system, 5, 4, cell.pattern, cell.block_bytes, mb_per_s, 100.0, 1.5, 9.0, 0.5)
        for system, cell, mb_per_s in (("engine", READ, 300), ("spdk", READ, 200), ("engine", partial, 90))
    ]
    text = spdk.table(rows, {"64k read": READ, "64k write": partial}, LEVEL_5)
    assert "| 64k read | 200 | 100 | 1.50 | 1.50, 9.00 | 0.500 |" in text
    assert "| 64k write | - | - | - | - | - |" in text
    assert "64k write: none of SPDK, raid5f takes writes of whole stripes only (192k)" in text
    assert "64k read: none" not in text and "polls" in text


def test_the_report_says_which_spdk_it_was():
    lines = list(report.head_lines({"command": "native.py", "spdk": "SPDK v24.09 git sha1 19524ad453"}))
    assert "SPDK v24.09 git sha1 19524ad453" in lines


# --- what is read from it ---


def test_figures_are_read_from_what_it_prints():
    found = astuple(spdk.parse(PRINTED.replace("\r", "\n")))
    assert found == pytest.approx((2.01, 7029.27, 1.587988, 9.326277, 17.644308))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (" Total ", " Sum ", "no figures"),
        ("% :", "%:", "no figures"),
        (" 99.90000%", " 99.80000%", "no figures"),
        ("\r\t r0 ", "\r\t r1 ", "no figures"),
        ("439.33       0.00     0.00", "439.33       3.50     0.00", "commands failed, 3.50 a second"),
    ],
)
def test_what_is_missing_is_told_and_not_made_up(old, new, fault):
    assert old in PRINTED
    with pytest.raises(SpdkError, match=fault):
        spdk.parse(PRINTED.replace(old, new).replace("\r", "\n"))


def test_processor_time_is_that_of_the_measurement(tmp_path, monkeypatch):
    """Not that of the start, in which SPDK polls as well."""
    clock = iter((3.0, 7.5))
    monkeypatch.setattr(spdk, "_processor_seconds", lambda process: next(clock))
    figures, spent = spdk.measure(printing(tmp_path, PRINTED), tmp_path)
    assert (figures.iops, spent) == (7029.27, 4.5)


def test_a_row_has_bytes_of_the_time_that_it_really_took(tmp_path, monkeypatch):
    clock = iter((0.0, 2.01))
    monkeypatch.setattr(spdk, "_processor_seconds", lambda process: next(clock))
    program = Path(printing(tmp_path, PRINTED)[0])
    found = spdk.Spdk(program, LEVEL_5, MEMBERS, tmp_path).measure(READ, 16, 2, 1)
    assert found is not None
    assert (found.system, found.level, found.members, found.round, found.depth) == ("spdk", 5, 4, 1, 16)
    assert found.system in row.SYSTEMS
    assert found.mb_per_s == pytest.approx(460.67, abs=0.01)
    assert found.cpu_s_per_gib == pytest.approx(1 / (7029.27 * 64 / 1024 / 1024), rel=1e-6)


@pytest.mark.parametrize(("text", "status"), [(PRINTED, 1), ("", 0)])
def test_a_failure_shows_what_it_said(tmp_path, text, status):
    with pytest.raises(SpdkError, match="Unable to initialize"):
        spdk.measure(printing(tmp_path, text, status, "app.c: Unable to initialize SPDK env"), tmp_path)


# --- the tree ---


def test_a_tree_that_is_built_has_its_program(tmp_path):
    assert spdk.find_program(make_tree(tmp_path), 5) == tmp_path / "build/examples/bdevperf"


@pytest.mark.parametrize(
    ("without", "level", "fault"),
    [
        (("ISCSI_INITIATOR",), 0, "without ISCSI_INITIATOR"),
        (("RAID5F",), 5, "without RAID5F"),
        ((), 6, "no level 6; choose from 0, 1, 5"),
    ],
)
def test_what_a_tree_cannot_do_is_told_before_anything_starts(tmp_path, without, level, fault):
    with pytest.raises(ValueFault, match=fault):
        spdk.find_program(make_tree(tmp_path, without=without), level)


def test_level_0_needs_no_parity(tmp_path):
    spdk.find_program(make_tree(tmp_path, without=("RAID5F",)), 0)


def run_native(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/usr/bin/python3", "-B", ROOT / "tests/bench/native.py", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("there", ["nothing", "sources"])
def test_a_folder_that_is_not_built_is_named_with_the_remedy(tmp_path, there):
    tree = tmp_path / "spdk"
    if there == "sources":
        (tree / "examples/bdev/bdevperf").mkdir(parents=True)
    done = run_native("--spdk", tree)
    assert done.returncode == 2
    assert f"{tree}/build/examples/bdevperf is not there" in done.stderr
    assert "./configure --with-iscsi-initiator --with-raid5f" in done.stderr
    assert "Traceback" not in done.stderr


def test_parts_of_a_second_are_refused(tmp_path):
    done = run_native("--spdk", make_tree(tmp_path), "--seconds", 1.5)
    assert done.returncode == 2 and "bdevperf takes whole seconds" in done.stderr


def test_spdk_is_not_measured_without_a_tree():
    done = run_native("--systems", "engine,spdk")
    assert done.returncode == 2 and "--systems spdk" in done.stderr


def test_scripts_bench_does_not_offer_what_it_cannot_measure(capsys):
    with pytest.raises(SystemExit):
        cli.parse(["--systems", "spdk"])
    assert "'spdk' is no system" in capsys.readouterr().err
