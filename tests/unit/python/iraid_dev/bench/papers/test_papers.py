"""The papers' experiments outside of the lab: links, jobs, what is refused before anything starts."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from iraid_dev.bench.core.network import Link
from iraid_dev.bench.papers import experiments as papers
from iraid_dev.bench.papers.rig import Figure, Job, figure_of, run_load, windows_of
from iraid_dev.stack.tools import StackError


def test_half_of_the_round_trip_is_each_directions_delay():
    words = " ".join(Link(rtt_ms=8, rate_mbit=1000, loss_percent=2.7).netem())

    assert "delay 4ms" in words and "rate 1000mbit" in words and "loss 2.7%" in words
    assert Link().netem() == []


@pytest.mark.parametrize("bad", [{"mtu": 100}, {"rtt_ms": -1}, {"loss_percent": 101}, {"reorder_percent": 2}])
def test_a_link_that_can_not_be_is_refused(bad):
    with pytest.raises(ValueError, match="not in|negative|percentage|overtake"):
        Link(**bad)


def test_windows_are_those_of_the_members_alone():
    text = (
        "ESTAB 0 0 10.77.0.1:1 10.77.0.2:3260 cubic rtt:17.2/2.1 cwnd:2212 retrans:0/32 x\n"
        "ESTAB 0 0 10.77.1.1:1 10.77.1.2:3260 cubic rtt:1/1 cwnd:10\n"
    )

    assert windows_of(text, ["10.77.0.2"]) == [{"cwnd": 2212, "rtt": 17.2, "retransmitted": 32}]


def test_a_verifying_job_writes_each_block_once_and_checks_it():
    words = Job("randwrite", 65536, verify=True, size_bytes=1 << 20).words("/dev/sdx")

    assert "--verify=crc32c" in words and "--verify_fatal=1" in words
    assert "--norandommap" not in words and not any(word.startswith("--runtime") for word in words)


def test_a_figure_is_in_millions_of_bytes_and_milliseconds():
    side = {
        "bw_bytes": 12_500_000,
        "iops": 190.7,
        "clat_ns": {"percentile": {"50.000000": 2_000_000, "99.000000": 9_000_000}},
    }

    figure = figure_of({"jobs": [{"read": side}]}, "read", 50)

    assert (figure.mb_per_s, figure.p50_ms, figure.p99_ms) == (12.5, 2, 9)


def test_processor_time_is_of_what_was_moved():
    side = {"bw_bytes": 64 << 20, "iops": 1, "io_bytes": 128 << 20, "runtime": 2000, "clat_ns": {}}

    figure = figure_of({"jobs": [{"write": side}]}, "write", 50, cpu_seconds=0.5)

    assert figure.cpu_s_per_gib == 4
    assert figure.cpu_percent == pytest.approx(25 / (os.cpu_count() or 1), abs=0.1)
    assert figure_of({"jobs": [{"write": side}]}, "write", 50).cpu_s_per_gib is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--only", "distance,nothing"], "no experiment 'nothing'"),
        (["--rtts", "8,x"], "'8,x' is not a list of numbers"),
        (["--counts", "9"], "9 is not in 1..8"),
        (["--seconds", "-1"], "'-1' is no number of seconds"),
        (["--json", "/nowhere/file.json"], "no directory /nowhere"),
        (["--congestion", "vegas"], "no congestion control 'vegas'"),
        (["--levels", "5,6"], "'6' is no level of these experiments; there are 0, 5, 10"),
        (["--unshaped", "0"], "'0' is no throughput in MB/s"),
        (["--front", "nbd"], "'nbd'"),
        (["--distance-mbit", "0.5"], "'0.5' is no speed of a link in 1..100000 Mbit/s"),
    ],
)
def test_what_can_not_be_measured_is_refused_by_name(words, named, capsys):
    with pytest.raises(SystemExit) as ended:
        papers.parser().parse_args(words)

    assert ended.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--only", "targets", "--levels", "10", "--systems", "iraid"],
        ["--only", "request-size", "--systems", "iraid", "--levels", "10"],
        ["--only", "targets", "--systems", "iraid", "--counts", "1"],
    ],
)
def test_an_experiment_of_which_nothing_is_left_is_named(words, capsys):
    assert papers.main(words) == 2
    assert f"--only {words[1]}: of --systems iraid" in capsys.readouterr().err


def test_a_part_of_an_experiment_takes_less_time():
    whole, part = papers.Settings(), papers.Settings(levels=[5])
    for name in ("targets", "request-size", "cern"):
        assert papers.estimate_seconds([name], part, None, None) < papers.estimate_seconds([name], whole, None, None), (
            name
        )


def test_a_buffered_job_goes_through_the_page_cache_and_ends_on_the_disk():
    words = Job("write", 8192, buffered=True, size_bytes=1 << 20).words("/dev/sdx")

    assert "--direct=0" in words and "--end_fsync=1" in words and "--direct=1" not in words
    assert not any(word.startswith(("--runtime", "--iodepth")) for word in words)
    assert "--end_fsync=1" not in Job("read", 8192, buffered=True, size_bytes=1 << 20).words("/dev/sdx")


@pytest.mark.parametrize(("size", "count"), [(1 << 20, 64), (64 << 20, 1)])
def test_files_of_all_sizes_are_as_many_bytes(size, count):
    words = papers.files.file_words(Path("/mnt"), "write", size)

    assert f"--nrfiles={count}" in words and f"--size={64 << 20}" in words
    assert "--fsync_on_close=1" in words and "--fsync_on_close=1" not in papers.files.file_words(
        Path("/mnt"), "read", size
    )


def test_a_row_has_the_link_what_was_set_and_what_it_was_of():
    """ "job" is a parameter of note() as well."""
    rig = SimpleNamespace(network=SimpleNamespace(link=Link(rate_mbit=40)))
    run = papers.Run(papers.Settings(), rig, lambda rows: None)
    run.experiment = "cern"

    run.note(
        "md",
        5,
        4,
        Job("write", 8192, depth=1),
        Figure(9, 1, 0, 0, 0, 0, 2.5, 12),
        {"cpu_percent": 12},
        job="block output",
    )

    (row,) = run.rows
    assert (row.system, row.level, row.depth, row.cpu_s_per_gib) == ("md", 5, 1, 2.5)
    assert row.conditions["job"] == "block output" and row.conditions["link_mbit"] == 40
    assert row.conditions["measured"] == {"cpu_percent": 12}


def test_a_load_that_fails_is_quoted():
    assert run_load(["echo", "done"], 60) == "done\n"
    with pytest.raises(StackError, match=r"status 3\n.*no such disk"):
        run_load(["sh", "-c", "echo no such disk >&2; exit 3"], 60)


def test_outside_of_the_lab_it_says_where_it_runs(monkeypatch, capsys):
    monkeypatch.delenv("IRAID_LAB", raising=False)

    assert papers.main(["--only", "targets"]) == 2
    assert "scripts/lab" in capsys.readouterr().err


def test_each_experiment_says_what_it_is_and_has_an_estimate():
    settings = papers.Settings()
    for name, experiment in papers.EXPERIMENTS.items():
        assert experiment.about, name
        assert papers.estimate_seconds([name], settings, None, None) > papers.SET_UP_SECONDS
    once = papers.estimate_seconds(["distance"], settings, 4, 2)
    assert papers.estimate_seconds(["distance"], settings, 8, 2) > once


def test_bench_hands_the_papers_profile_over(monkeypatch):
    from iraid_dev.bench import cli
    from iraid_dev.bench.papers import run as papers_run

    seen = []
    monkeypatch.setattr(papers_run, "main", lambda words: seen.append(words) or 7)
    assert cli.main(["--profile", "papers", "--only", "distance"]) == 7
    assert cli.main(["--profile=papers"]) == 7
    assert seen == [["--profile", "papers", "--only", "distance"], ["--profile=papers"]]


def test_papers_profile_refuses_a_file_that_can_not_be_written(tmp_path, capsys):
    from iraid_dev.bench.papers import run as papers_run

    with pytest.raises(SystemExit):
        papers_run.main(["--profile", "papers", "--json", str(tmp_path / "no" / "file")])
    assert "make it first" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["papers", "growth", "log"])
def test_help_of_bench_has_profiles_with_own_options_among_the_others(name, capsys):
    from iraid_dev.bench import cli

    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    profiles = text[text.index("profiles:") : text.index("A level is")]

    assert f"  {name} " in profiles and f"scripts/bench --profile {name} --help" in profiles
    assert name in text[text.index("--profile {") : text.index("}")].split("{")[1].split(",")


def test_an_abbreviated_profile_option_says_how_to_reach_the_papers(capsys):
    from iraid_dev.bench import cli

    with pytest.raises(SystemExit) as ended:
        cli.main(["--prof", "papers"])
    assert ended.value.code == 2
    assert "write --profile in full" in capsys.readouterr().err
