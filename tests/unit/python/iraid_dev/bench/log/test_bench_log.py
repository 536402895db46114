"""scripts/bench --profile log, outside of the lab: what is measured, how long, what is refused, what the tables say."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from iraid.control.errors import IraidError
from iraid_dev.bench import cli
from iraid_dev.bench.core import load, plan, row
from iraid_dev.bench.core.cells import KIB, MIB, Cell, ValueFault
from iraid_dev.bench.core.network import Link
from iraid_dev.bench.core.row import Row
from iraid_dev.bench.log import plan as log_plan
from iraid_dev.bench.log import report as log_report
from iraid_dev.bench.log import run as log_run
from iraid_dev.bench.log import systems
from iraid_dev.bench.log.plan import CELLS, CELLS_BY_NAME, SYSTEMS, Settings, settings_of
from iraid_dev.stack.initiator import Disk

DISK = Disk("iqn.x:y", "127.0.0.1:3260", "/dev/sdx")


# --- plan ---


def test_all_modes_of_the_log_and_all_means_of_md_are_measured_side_by_side():
    assert set(Settings().systems) >= {"iraid-off", "iraid-degraded", "iraid-always", "md", "md-ppl", "md-journal"}
    assert set(Settings().systems) <= set(SYSTEMS)


def test_small_writes_are_measured_at_several_depths():
    found = {(cell.block_bytes, cell.depth) for cell in CELLS if cell.pattern == "randwrite" and not cell.options}
    assert found == {(block, depth) for block in (4 * KIB, 64 * KIB) for depth in (1, 4, 32)}


def test_each_cell_has_a_name_of_its_own_and_lies_in_what_is_filled():
    assert len(CELLS_BY_NAME) == len(CELLS)
    assert all(cell.size_bytes <= log_plan.AREA_BYTES for cell in CELLS)


def test_settings_survive_their_file():
    settings = Settings(rtts_ms=(0.0, 8.0), cells=("database",))
    assert Settings.from_json(settings.to_json()) == settings


def test_the_estimate_counts_every_cell_of_every_system_at_every_distance():
    once = Settings(systems=("md", "md-ppl"), cells=("4k-d1", "database"), rtts_ms=(0.0, 1.0), rounds=1)
    more = log_plan.estimate_seconds(replace(once, rounds=2)) - log_plan.estimate_seconds(once)
    assert more == pytest.approx(2 * 2 * 2 * (once.seconds + plan.FIO["qemu"] + log_plan.QUIET_SECONDS))


def test_more_systems_than_memory_are_refused():
    settings = Settings(systems=("md", "md-journal"))
    wanted = 2 * log_plan.SYSTEM_BYTES + plan.JOURNAL_BYTES + plan.GUEST_BYTES
    settings.check_memory(wanted)
    settings.check_memory(0)  # the machine doesn't say
    with pytest.raises(ValueFault, match="2 systems take 2.0 GiB"):
        settings.check_memory(wanted - 1)


# --- what was typed ---


def test_what_was_typed_is_put_in_order():
    settings = settings_of({"systems": "md,iraid-off", "rtt": "8,0.5", "cells": "hot-d16,4k-d1", "seconds": None})
    assert settings.systems == ("iraid-off", "md") and settings.cells == ("4k-d1", "hot-d16")
    assert settings.rtts_ms == (8.0, 0.5) and settings.seconds == Settings().seconds


@pytest.mark.parametrize(
    "words, named",
    [
        (["--systems", "iraid"], "--systems iraid"),
        (["--cells", "4k"], "--cells 4k"),
        (["--rtt", "1,x"], "--rtt 1,x"),
        (["--rtt", "-1"], "--rtt"),
        (["--rtt", "nan"], "--rtt nan"),
        (["--rtt", "101"], "--rtt 101"),
        (["--member-mib", "64"], "--member-mib 64"),
        (["--seconds", "0"], "--seconds 0"),
        (["--rounds", "0"], "--rounds 0"),
        (["--kernel", "none"], "'none'"),
        (["--json", "none/there.json"], "none/there.json"),
        (["--out", "taken"], "--out taken"),
        (["--report", "rows.json"], "--out"),
        (["--report", "rows.json", "--out", "new", "--member-mib", "512"], "--member-mib"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_starts(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(log_run, "_measure", lambda *_: pytest.fail("it measures"))
    (tmp_path / "taken").touch()
    with pytest.raises(SystemExit) as ended:
        cli.main(["--profile", "log", *words])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert named in said.err.splitlines()[-1]
    assert said.out == "" and [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_help_names_all_systems_and_cells(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--profile", "log", "--help"])
    words = capsys.readouterr().out.split()
    assert set(SYSTEMS) | set(CELLS_BY_NAME) <= set(words)


# --- systems ---


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("md", "--bitmap=internal"),
        ("md-out", "--bitmap=internal"),
        ("md-ppl", "--consistency-policy=ppl"),
        ("md-journal-out", "--write-journal=/dev/sdx"),
    ],
)
def test_md_has_one_means_against_the_write_hole(name, wanted):
    array = systems.make(None, name, MIB)
    array.journal = DISK if "journal" in name else None
    found = [word for word in array._options() if word.startswith(("--bitmap", "--consistency", "--write-journal"))]
    assert found == [wanted]


@pytest.mark.parametrize("name, mode", [("iraid-off", "off"), ("iraid-degraded-out", "degraded")])
def test_a_volume_has_the_mode_of_its_name(name, mode):
    asked = []
    client = SimpleNamespace(change_settings=lambda volume, log: asked.append((volume, log)))
    volume = systems.make(SimpleNamespace(client=client), name, MIB)
    volume._created()
    assert asked == [(volume.volume, mode)]


@pytest.mark.parametrize("kind, raised", [("invalid", systems.Refused), ("unavailable", IraidError)])
def test_only_a_mode_that_the_handler_refuses_is_left_out_with_its_reason(kind, raised):
    def refuse(volume: str, log: str) -> None:
        raise IraidError(f"log {log!r} is neither off nor degraded", kind=kind)

    volume = systems.make(SimpleNamespace(client=SimpleNamespace(change_settings=refuse)), "iraid-always", MIB)
    with pytest.raises(raised, match="log 'always' is neither off nor degraded"):
        volume._created()


def test_the_journal_is_behind_a_link_of_its_own(tmp_path):
    members = [systems.NetworkTargets(tmp_path, 4, MIB).address(number) for number in range(4)]
    assert systems.JournalTarget(tmp_path, 1, MIB).address(0) not in members


def test_round_trips_are_not_rounded_up_to_slots():
    assert "slot" not in Link(rtt_ms=1, slots=False).netem() and "slot" in Link(rtt_ms=1).netem()


# --- the load ---


def test_a_flush_is_part_of_a_writes_latency():
    def timed(ms: float) -> dict:
        return {"total_ios": 9, "lat_ns": {"percentile": dict.fromkeys(load.PERCENTILES.values(), ms * 1e6)}}

    write = timed(2) | {"io_bytes": 8192, "bw_bytes": 1e6, "iops": 1}
    flushed, alone = ({"write": write, "sync": sync} for sync in (timed(0.5), {"total_ios": 0}))
    cell = Cell("write", 8 * KIB)
    assert load._load(DISK, cell, 1.0, flushed).latency_ms["p99_ms"] == 2.5
    assert load._load(DISK, cell, 1.0, alone).latency_ms["p99_ms"] == 2.0


def test_a_job_has_its_own_options():
    cell = CELLS_BY_NAME["hot-d16"]
    words = load.Jobs(depth=cell.depth, size_bytes=cell.size_bytes, options=cell.options).words(512 * MIB, cell)
    assert {"--random_distribution=zipf", "--iodepth=16", f"--size={64 * MIB}"} <= set(words)


# --- tables ---


def figure(
    system: str, mb_per_s: float, number: int = 0, *, cell: str = "4k-d1", rtt_ms: float = 0, left: float = 0
) -> Row:
    one = CELLS_BY_NAME[cell]
    return Row(
        "qemu",
        system,
        5,
        4,
        one.pattern,
        one.block_bytes,
        mb_per_s,
        mb_per_s * 1e6 / one.block_bytes,
        2.0 + number,
        9.0,
        None,
        round=number,
        depth=one.depth,
        conditions={
            "experiment": "log",
            "cell": cell,
            "rtt_ms": rtt_ms,
            "measured": {"rtt_ms": rtt_ms + 0.25, "left_mib": left},
        },
    )


def lines_of(text: str, head: str) -> dict[str, list[str]]:
    """The table whose first line begins with `head`: first word -> the others."""
    table = next(part for part in text.split("\n\n") if part.startswith(f"| {head} |"))
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in table.splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_cells_that_differ_in_depth_alone_are_told_apart():
    rows = [figure("md", 1), figure("md", 8, cell="4k-d32"), figure("md", 3, cell="hot-d1")]
    found = lines_of(log_report.markdown([{}], rows), "MB/s")
    assert found == {"MB/s": ["md"], "---": ["---:"], "4k-d1": ["1.00"], "4k-d32": ["8.00"], "hot-d1": ["3.00"]}


def test_all_figures_have_their_spread():
    text = log_report.markdown([{}], [figure("md", 1.0 + number, number, left=4.0) for number in range(3)])
    assert lines_of(text, "MB/s")["4k-d1"] == ["2.00 (1.00-3.00)"]
    assert lines_of(text, "p50, ms")["4k-d1"] == ["3.00 (2.00-4.00)"]
    assert lines_of(text, "p99, ms")["4k-d1"] == ["9.00 (9.00-9.00)"]
    assert lines_of(text, "MiB sent after the load")["4k-d1"] == ["4.00 (4.00-4.00)"]


def test_peers_that_were_measured_are_compared():
    rows = [figure(system, mb_per_s) for system, mb_per_s in (("iraid-always", 6), ("md-journal", 2), ("iraid-off", 3))]
    found = lines_of(log_report.tables(rows), "throughput")
    assert found["throughput"] == ["iraid-always : md-journal", "iraid-always : iraid-off"]
    assert found["4k-d1"] == ["3.00", "2.00"]


def test_each_distance_is_a_section_that_says_what_was_seen():
    text = log_report.markdown([{}], [figure("md", 1, rtt_ms=8), figure("md", 5)])
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## qemu, RTT 0 ms (0.25 ms seen)",
        "## qemu, RTT 8 ms (8.25 ms seen)",
    ]


def test_a_report_is_made_of_what_a_run_left(tmp_path):
    head = {"ok": True, "commit": "abc", "date": "today", "lab": {"kernel": "6.1.0"}}
    row.write(tmp_path / "rows.json", head, [figure("md", 10.0), replace(figure("md", 77.0), conditions={})])
    assert cli.main(["--profile", "log", "--report", str(tmp_path / "rows.json"), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out/log.md").read_text()
    assert "today, commit abc" in text and "kernel 6.1.0" in text
    assert lines_of(text, "MB/s")["4k-d1"] == ["10.0"]
