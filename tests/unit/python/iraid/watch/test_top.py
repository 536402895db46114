"""iraid top: rates between two looks, lines of any width, keys; and the whole of it in a terminal."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from control_peer import IRAID, ControlPeer, Failure, member, running, volume
from stats_answers import counter, member_stats, session
from stats_answers import stats as answer

from iraid.cli import main as cli
from iraid.cli import top as cli_top
from iraid.control import model
from iraid.control.errors import IraidError
from iraid.watch import stats, top, top_screen


def look(at, *answers, volumes=None):
    given = {one["name"]: model.read(stats.Stats, one) for one in answers}
    shown = volumes or [volume(name) for name in given]
    return top.Look(at, int(at * 1000), [model.read(model.Volume, one) for one in shown], given)


def frame(before, after, seconds=2.0, **changes):
    return top.frame(look(10, before), look(10 + seconds, after, **changes))


# --- figures ---


def test_rates_and_times_are_those_of_the_interval_alone():
    """Before it were commands that took long, which must not show."""
    before = answer(reads=1000, writes=10)
    before["commands"]["read"] = counter(1000, each_us=900_000)
    after = answer(reads=1100, writes=30)
    after["commands"]["read"] = counter(1000, each_us=900_000)
    for key, value in counter(100).items():
        old = after["commands"]["read"][key]
        after["commands"]["read"][key] = [a + b for a, b in zip(old, value)] if key == "buckets" else old + value
    row = frame(before, after).volumes[0][0]
    assert (row.read.per_second, row.read.bytes_per_second) == (50, 50 * 4096)
    assert (row.read.mean_us, row.read.p99_us) == (1000, 1024)
    assert (row.write.per_second, row.write.bytes_per_second, row.write.p99_us) == (10, 10 * 65536, 8192)
    assert row.queue == 3


def test_flushes_zeros_and_compares_are_counted_together():
    before, after = answer(), answer()
    after["commands"] |= {"flush": counter(2, 0, 100), "zero": counter(3, each_us=400), "compare": counter(1)}
    other = frame(before, after).volumes[0][0].other
    assert (other.per_second, other.mean_us) == (3, (2 * 100 + 3 * 400 + 1000) / 6)


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        ([0, 0, 0], 0.99, None),
        ([99, 1, 0], 0.99, 10),
        ([98, 2, 0], 0.99, 20),
        ([0, 0, 5], 0.5, float("inf")),
        ([1, 0, 0], 0.99, 10),
    ],
)
def test_a_percentile_is_the_upper_bound_of_its_bucket(buckets, share, expected):
    assert stats.percentile(buckets, [10, 20], share) == expected


def test_beyond_the_last_bound_is_said_so():
    slow = answer()
    slow["commands"]["read"] = counter(4, each_us=40_000_000)
    made = frame(answer(), slow)
    assert ">33s" in "".join(text for text, _ in top.lines(top.ordered(made, "name", "all"), None)[1])
    json.loads(json.dumps(top.to_json(made), allow_nan=False))


def test_counters_that_began_anew_give_no_rates_and_then_those_of_the_new_life():
    before, after = answer(reads=1000), answer(reads=5, started_ms=1795341999999)
    rows = frame(before, after).volumes[0]
    assert [row.read for row in rows] == [None] * 5
    assert "-" in top.lines(rows, None)[1][2][0]
    rows = frame(answer(reads=3), answer(reads=50, started_ms=1795341999999)).volumes[0]
    assert [row.read for row in rows] == [None] * 5  # though there were more, it is another life
    later = answer(reads=25, started_ms=1795341999999)
    assert frame(after, later).volumes[0][0].read.per_second == 10


def test_a_member_whose_counters_fell_has_no_rates():
    before = answer(members=[member_stats(0, 100), member_stats(1, 100)])
    after = answer(members=[member_stats(0, 3), member_stats(1, 120)])
    assert [row.read.per_second if row.read else None for row in frame(before, after).volumes[0][1:]] == [None, 10]


def test_of_a_members_connections_the_worst_round_trip_and_the_sums_show():
    """The longest round trip; windows and deliveries together; of a new connection all that was sent again."""
    two = [session("a:1", retransmits=10), session("b:1", rtt_us=2000, retransmits=7)]
    then = [session("a:1", retransmits=16), session("b:1", rtt_us=3000, retransmits=2)]
    row = frame(
        answer(members=[member_stats(0, sessions=two)]), answer(members=[member_stats(0, sessions=then)])
    ).volumes[0][1]
    assert (row.rtt_us, row.cwnd_bytes, row.delivery_bytes_per_second) == (3000, 2 * 65536, 200 << 20)
    assert row.retransmits_per_second == (6 + 2) / 2
    alone = frame(answer(), answer(members=[member_stats(0, sessions=[])])).volumes[0][1]
    assert (alone.rtt_us, alone.retransmits_per_second) == (None, None)


def test_the_process_of_the_handler_shows_with_its_share_of_a_cpu():
    now = {"pid": 4711, "user_seconds": 2.25, "system_seconds": 1.25, "resident_bytes": 50 << 20, "threads": 5}
    made = frame(answer(), answer(runner=now))
    assert (made.cpu_share, made.restarted) == (0.5, False)
    assert "50 % of a CPU, 50 MiB, 5 threads" in top.summary(made)
    assert frame(answer(), answer(runner=now | {"pid": 4712})).restarted


def test_work_and_trouble_show_as_the_state():
    filled = member(2)["member"]
    made = frame(
        answer(),
        answer(members=[member_stats(1, link="closed"), member_stats(2, state="rebuilding")]),
        volumes=[volume(state="degraded", rebuild=running(member=filled))],
    )
    assert [(row.state, row.style) for row in made.volumes[0]] == [
        ("rebuild 43%", "yellow"),
        ("silent", "yellow"),
        ("filled", "yellow"),
    ]


# --- order and lines ---


def two_volumes():
    before = look(0, answer("a"), answer("b"))
    return top.frame(
        before,
        look(1, answer("a", 10, 5), answer("b", 20, 1, queue=9, members=[member_stats(0, 1), member_stats(1, 50)])),
    )


@pytest.mark.parametrize(
    ("sort", "view", "expected"),
    [
        ("name", "volumes", ["a", "b"]),
        ("iops", "volumes", ["b", "a"]),
        ("throughput", "volumes", ["a", "b"]),
        ("queue", "volumes", ["b", "a"]),
        ("name", "all", ["a", "a0", "a1", "a2", "a3", "b", "b0", "b1"]),
        ("iops", "all", ["b", "b1", "b0", "a", "a0", "a1", "a2", "a3"]),
        ("iops", "members", ["b1", "a0", "a1", "a2", "a3", "b0"]),
    ],
)
def test_rows_are_sorted_as_asked_for(sort, view, expected):
    rows = top.ordered(two_volumes(), sort, view)
    assert [row.volume + ("" if row.role is None else str(row.role)) for row in rows] == expected


@pytest.mark.parametrize("view", top.VIEWS)
def test_no_line_is_wider_than_the_terminal_and_all_are_aligned(view):
    rows = top.ordered(two_volumes(), "name", view)
    for width in [*range(30, 200, 7), None]:
        texts = ["".join(text for text, _ in line) for line in top.lines(rows, width, view)]
        assert len({len(text) for text in texts}) == 1
        assert width is None or len(texts[0]) <= width
    assert "r/s" in "".join(text for text, _ in top.lines(rows, 50, view)[0])
    assert texts[0].split() == ["NAME", *" ".join(column.head for column in top.COLUMNS).split()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.12345, "0.123"), (5.678, "5.68"), (45.67, "45.7"), (999.6, "1000"), (123456, "123k")],
)
def test_figures_are_short(value, expected):
    assert top._figure(value) == expected


# --- keys ---


def pressed(*keys):
    chosen = top_screen.Choices()
    for key in keys:
        top_screen.press(key, chosen)
    return chosen


def test_keys_change_what_is_shown():
    assert pressed("q").done
    assert (pressed("s").sort, pressed("S").sort, pressed("s", "S").sort) == ("iops", "queue", "name")
    assert (pressed("v").view, pressed("v", "v", "v").view) == ("volumes", "all")
    assert (pressed("p").paused, pressed(" ", "p").paused) == (True, False)
    assert (pressed("+").interval, pressed("-").interval, pressed(*"-----").interval) == (2, 0.5, 0.5)
    assert (pressed("KEY_DOWN", "j", "k").first, pressed("KEY_UP").first) == (1, 0)
    assert pressed("h").help and not pressed("h", "x").help and not pressed("h", "q").done
    assert pressed("h", "KEY_RESIZE").help
    assert pressed("KEY_F(3)", "7", "\x1b") == top_screen.Choices()


def test_a_long_list_can_be_moved_and_not_beyond_its_end():
    chosen = pressed(*["j"] * 50)
    shown = ["".join(text for text, _ in line) for line in top_screen.page(two_volumes(), chosen, 100, 7)]
    assert len(shown) == 7 and chosen.first == 4
    assert [line.split()[0] for line in shown[3:]] == ["3", "b", "0", "1"]


# --- without a terminal ---


@pytest.fixture
def run_top(tmp_path, capsys):
    def run(answers, *options):
        (tmp_path / "s").unlink(missing_ok=True)
        with ControlPeer(tmp_path / "s", answers):
            status = cli.main(["top", "--socket", str(tmp_path / "s"), "--interval", "0.1", *options])
        return SimpleNamespace(status=status, out=capsys.readouterr().out, err=capsys.readouterr().err)

    return run


def growing():
    """More at each look."""
    looks = iter(range(1, 10_000))
    return {
        "volume.list": {"volumes": [volume(), volume("b")]},
        "volume.stats": lambda p: answer(p["name"], reads=100 * next(looks)),
    }


def test_where_the_output_is_no_terminal_there_are_plain_lines(run_top):
    done = run_top(growing(), "--count", "2", "v0")
    assert done.status == 0
    assert [line.split()[0] for line in done.out.splitlines() if line[:4] in ("NAME", "v0  ", "b   ")] == [
        "NAME",
        "v0",
        "NAME",
        "v0",
    ]
    assert "RETR/s" in done.out and "\x1b" not in done.out


def test_json_is_one_object_a_line(run_top):
    shown = [json.loads(line) for line in run_top(growing(), "--json", "--count", "3").out.splitlines()]
    assert [[one["name"] for one in interval["volumes"]] for interval in shown] == [["v0", "b"]] * 3
    assert shown[0]["volumes"][0]["read"]["per_second"] > 0
    assert shown[0]["volumes"][0]["members"][0]["rtt_us"] == 850


def test_a_volume_that_is_not_there_is_named(tmp_path, capsys):
    with ControlPeer(tmp_path / "s", growing()):
        assert cli.main(["top", "--socket", str(tmp_path / "s"), "nix"]) == 1
    assert "there is no volume nix" in capsys.readouterr().err


def test_no_handler_at_all_is_an_error(tmp_path, capsys):
    assert cli.main(["top", "--socket", str(tmp_path / "none"), "--batch"]) == 1
    assert "does not exist" in capsys.readouterr().err


def watched(*answers):
    """A Watch on a client that gives these, one a look; an exception is raised."""
    turn = iter(answers)

    def volumes():
        one = next(turn)
        if isinstance(one, Exception):
            raise one
        client.now = one
        return [model.read(model.Volume, volume())]

    client = SimpleNamespace(
        volumes=volumes, now=None, _ask=lambda kind, _method, _parameters: model.read(kind, client.now)
    )
    return cli_top.Watch(client, ())


def test_a_handler_that_is_started_anew_is_waited_for():
    watch = watched(
        answer(reads=10),
        answer(reads=20),
        IraidError("no program listens", kind="unavailable"),
        answer(reads=3, started_ms=1, runner={"pid": 99}),
        answer(reads=9, started_ms=1, runner={"pid": 99}),
    )
    made = [watch.next() for _ in range(5)]
    assert [one.error for one in made] == [None, None, "no program listens", None, None]
    assert [one.restarted for one in made] == [False, False, False, True, False]
    assert [one.volumes[0][0].read is None for one in made if not one.error] == [True, False, True, False]


def test_a_handler_without_statistics_is_told_apart_from_one_that_is_away(run_top, capsys):
    done = run_top(growing() | {"volume.stats": Failure(-32601, "method", "no method volume.stats", "")}, "--batch")
    assert done.status == 1


# --- on a terminal ---


class Terminal:
    """iraid top in a terminal of a given size: tmux is one that can be read."""

    def __init__(self, folder, columns=150, rows=20, *options):
        self.tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        words = shlex.join([str(IRAID), "--socket", str(folder / "s"), "top", "--interval", "0.2", *options])
        self.run(
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(rows),
            f'echo shell; echo $$ > {folder / "pid"}; {words}; echo "ended with $?"; stty -a; exec cat',
        )

    def run(self, *words):
        return subprocess.run([*self.tmux, *words], capture_output=True, text=True, timeout=20, check=True).stdout

    def press(self, key):
        self.run("send-keys", key)

    def wait_for(self, *texts, without=()):
        """Until all of it is on the screen."""
        deadline = time.monotonic() + 20
        while True:
            shown = self.run("capture-pane", "-p")
            if all(text in shown for text in texts) and not any(text in shown for text in without):
                return shown
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)

    def end(self):
        """What stood there before is back, and the terminal echoes and waits for whole lines again."""
        shown = self.wait_for("ended with", "icanon")
        assert "shell" in shown and " echo " in shown and "-icanon" not in shown
        self.run("kill-server")
        return int(re.search(r"ended with (\d+)", shown)[1])


@pytest.fixture
def terminal(tmp_path):
    made = []

    def make(*arguments):
        made.append(Terminal(tmp_path, *arguments))
        return made[0]

    yield make
    for one in made:
        subprocess.run([*one.tmux, "kill-server"], capture_output=True, timeout=20)


needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@needs_tmux
def test_keys_and_sizes_work_and_the_end_leaves_the_terminal_as_it_was(tmp_path, terminal):
    with ControlPeer(tmp_path / "s", growing()):
        screen = terminal()
        screen.wait_for("0 10.0.0.1 disk0/0", "w p99<", "DELIV", "by name", "commands/s")
        screen.press("s")
        screen.wait_for("by iops")
        screen.press("h")
        screen.wait_for("99 of 100 took less", without=["NAME"])
        screen.press("x")
        screen.wait_for("NAME", without=["99 of 100"])
        screen.press("v")
        screen.wait_for("v0", without=["disk0/0"])
        screen.press("v")
        screen.wait_for("v0 0 10.0.0.1")
        screen.run("resize-window", "-x", "60", "-y", "7")
        shown = screen.wait_for("NAME", "QUEUE", without=["w p99<"])
        assert max(map(len, shown.splitlines())) <= 60 and len(shown.splitlines()) == 7
        before = shown.splitlines()[3]
        screen.press("Down")
        assert screen.wait_for("NAME", without=[before[:20]]).splitlines()[3].startswith(("v0 1", "b 1"))
        screen.run("resize-window", "-x", "130", "-y", "30")
        screen.wait_for("w p99<", "v0 0 10.0.0.1 disk0")
        screen.press("p")
        screen.wait_for("PAUSED")
        screen.press("q")
        assert screen.end() == 0


@needs_tmux
def test_it_ends_after_so_many_intervals(tmp_path, terminal):
    with ControlPeer(tmp_path / "s", growing()):
        assert terminal(100, 20, "--count", "2").end() == 0


@needs_tmux
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path, terminal, how):
    with ControlPeer(tmp_path / "s", growing()):
        screen = terminal()
        screen.wait_for("disk0/0")
        shell = (tmp_path / "pid").read_text().strip()
        child = int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])
        os.kill(child, how)
        assert screen.end() == 0


@needs_tmux
def test_on_a_terminal_the_handlers_restart_is_shown_and_survived(tmp_path, terminal):
    with ControlPeer(tmp_path / "s", growing()):
        screen = terminal()
        screen.wait_for("disk0/0")
    (tmp_path / "s").unlink()
    screen.wait_for("waiting for it to answer again", without=["disk0/0"])
    with ControlPeer(tmp_path / "s", growing()):
        screen.wait_for("disk0/0")
        screen.press("q")
        assert screen.end() == 0


@needs_tmux
def test_keys_work_while_the_handler_hangs(tmp_path, terminal):
    """It has taken the connection and does not answer, which the client bears for 15 s."""
    hangs, over = threading.Event(), threading.Event()

    def slow(_parameters):
        if hangs.is_set():
            over.wait(60)
        return {"volumes": [volume()]}

    with ControlPeer(tmp_path / "s", growing() | {"volume.list": slow}):
        screen = terminal()
        screen.wait_for("disk0/0")
        hangs.set()
        began = time.monotonic()
        screen.press("q")
        assert screen.end() == 0
        assert time.monotonic() - began < 10
        over.set()


def test_a_terminal_that_is_not_known_is_named(tmp_path):
    with ControlPeer(tmp_path / "s", growing()):
        master, slave = pty.openpty()
        done = subprocess.run(
            [IRAID, "--socket", tmp_path / "s", "top"],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env=os.environ | {"TERM": "nothing-like-it"},
            timeout=30,
        )
        os.close(master)
        os.close(slave)
    assert done.returncode == 2
    assert b"terminal 'nothing-like-it'" in done.stderr and b"--batch" in done.stderr
