"""iraid steps: two answers of volume.stats, and what the time between them was spent with."""

import json
from types import SimpleNamespace

import pytest
from control_peer import ControlPeer

from iraid.cli import main as cli
from iraid.cli import steps as cli_steps

BOUNDS_US = [16 << i for i in range(22)]
STEPS = ("ring", "wait", "mark", "read", "code", "write", "flush", "complete")


def histogram(*took_us):
    buckets = [0] * (len(BOUNDS_US) + 1)
    for us in took_us:
        buckets[next((i for i, bound in enumerate(BOUNDS_US) if us <= bound), len(BOUNDS_US))] += 1
    return {
        "count": len(took_us),
        "bytes": 4096 * len(took_us),
        "errors": 0,
        "sum_us": sum(took_us),
        "buckets": buckets,
    }


def stats(seconds=0.0, steps=None, read=(), write=(), **changes):
    """So many seconds after it was started; steps: name -> (count, sum_us, max_us)."""
    commands = {
        "read": histogram(*read),
        "write": histogram(*write),
        "flush": histogram(),
        "zero": histogram(),
        "compare": histogram(),
    }
    counted = [
        dict(zip(("step", "count", "sum_us", "max_us"), (step, *(steps or {}).get(step, (0, 0, 0))), strict=True))
        for step in STEPS
    ]
    return {
        "name": "v0",
        "time_ms": 1795341234000 + round(seconds * 1000),
        "started_ms": 1795341234000,
        "state": "active",
        "bounds_us": BOUNDS_US,
        "queue": 0,
        "commands": commands,
        "steps": counted,
        "thread": {"turns": 1, "idle_us": 0, "receive_us": 0, "engine_us": 0, "code_us": 0, "send_us": 0},
        "members": [],
        "runner": {"pid": 1, "user_seconds": 0.0, "system_seconds": 0.0, "resident_bytes": 0, "threads": 3},
        **changes,
    }


@pytest.fixture
def iraid(tmp_path, capsys, monkeypatch):
    path = tmp_path / "control.sock"
    monkeypatch.setenv("IRAID_SOCKET", str(path))
    slept = []
    monkeypatch.setattr(cli_steps.time, "sleep", slept.append)

    def run(answers, *arguments):
        left = list(answers)
        with ControlPeer(path, {"volume.stats": lambda _parameters: left.pop(0)}) as peer:
            status = cli.main([str(a) for a in ("steps", "v0", *arguments)])
        path.unlink()
        out, err = capsys.readouterr()
        assert peer.calls == [("volume.stats", {"name": "v0"})] * len(peer.calls)
        return SimpleNamespace(status=status, out=out, err=err, slept=slept, left=left, json=lambda: json.loads(out))

    return run


def test_without_an_interval_all_since_the_start_is_shared_out(iraid):
    done = iraid(
        [stats(100, {"wait": (4, 400, 150), "read": (2, 1200, 700), "code": (0, 0, 0)}, read=[300, 500])], "--json"
    )
    assert done.status == 0
    assert done.slept == []
    found = done.json()
    assert found["seconds"] == 100
    assert found["process"] is None  # it may have run long before the volume did
    by_step = {one["step"]: one for one in found["steps"]}
    assert list(by_step) == list(STEPS)
    assert by_step["wait"] == {"step": "wait", "count": 4, "mean_us": 100, "share": 0.25, "max_us": 150}
    assert by_step["read"]["share"] == 0.75
    assert by_step["code"] == {"step": "code", "count": 0, "mean_us": None, "share": 0, "max_us": 0}


def test_with_an_interval_only_what_was_done_in_it_counts(iraid):
    before = stats(
        100,
        {"write": (10, 10000, 4000)},
        write=[1000] * 10,
        thread={"turns": 5, "idle_us": 1000, "receive_us": 500, "engine_us": 0, "code_us": 0, "send_us": 0},
        runner={"user_seconds": 7.0, "system_seconds": 3.0},
    )
    after = stats(
        102,
        {"write": (12, 10600, 4000)},
        write=[1000] * 10 + [200, 400],
        thread={"turns": 9, "idle_us": 1600, "receive_us": 700, "engine_us": 100, "code_us": 60, "send_us": 40},
        runner={"user_seconds": 8.0, "system_seconds": 3.5},
    )
    done = iraid([before, after], "--interval", "2", "--json")
    assert done.slept == [2.0]
    found = done.json()
    assert found["seconds"] == 2
    write = next(one for one in found["steps"] if one["step"] == "write")
    assert (write["count"], write["mean_us"], write["share"]) == (2, 300, 1)
    command = next(one for one in found["commands"] if one["command"] == "write")
    assert command == {
        "command": "write",
        "count": 2,
        "errors": 0,
        "bytes": 8192,
        "mean_us": 300,
        "p50_us": 256,
        "p95_us": 512,
        "p99_us": 512,
        "p99_9_us": 512,
    }
    assert found["thread"] == {"idle": 0.6, "receive": 0.2, "engine": 0.1, "code": 0.06, "send": 0.04}
    assert found["process"] == {"user": 0.5, "system": 0.25}


def test_a_person_sees_tables(iraid):
    done = iraid(
        [
            stats(
                3700,
                {"ring": (1000, 12345, 900), "read": (1000, 2_500_000, 1_200_000)},
                read=[2000] * 989 + [40_000_000] * 11,
            )
        ]
    )
    assert "Volume v0, active, since it was started 1 h 1 min ago" in done.out
    lines = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    assert lines["ring"] == ["ring", "1000", "12.3", "us", "0.5%", "900", "us"]
    assert lines["mark"] == ["mark", "0", "-", "0.0%", "-"]
    assert " ".join(lines["read"]).startswith("read 1000 0 442 ms 2.05 ms 2.05 ms longer longer")
    assert "write" not in done.out.split("COMMAND")[1]


def test_where_nothing_was_done_yet_that_is_said(iraid):
    done = iraid([stats(1)])
    assert done.status == 0
    assert "No commands." in done.out
    assert "nan" not in done.out


def test_a_volume_that_does_not_run_has_no_figures(iraid):
    done = iraid([stats(0, started_ms=0, state="stopped")])
    assert done.status == 1
    assert "volume v0 is stopped: it has no figures" in done.err
    assert "remedy: start it: iraid start v0" in done.err


def test_a_restart_meanwhile_is_told(iraid):
    done = iraid([stats(9), stats(1, started_ms=1795341240000)], "--interval", "5")
    assert done.status == 1
    assert "was restarted" in done.err


@pytest.mark.parametrize("value", ["0", "-1", "1h", "4000"])
def test_an_interval_that_is_none_is_refused(iraid, value):
    done = iraid([], "--interval", value)
    assert done.status == 2
    assert "--interval" in done.err
