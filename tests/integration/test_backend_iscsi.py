"""One member over iSCSI against a real tgtd: what the engine may rely on.

Each test drives backend_probe (backend_probe.c says its commands) by lines; the backing file of the
target shows what arrived.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backend_probe import DEADLINE_MS, SECOND, Probe, on_disk, pattern

from iraid_dev.stack.farm import TargetFarm


pytestmark = [
    pytest.mark.sanitized_alone,
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0, reason="tgtd's control socket needs root"),
]


# What is written is there


@pytest.mark.parametrize("block", [512, 4096])
@pytest.mark.parametrize("tuned", [True, False], ids=["tuned", "untuned"])
@pytest.mark.parametrize(
    ("length", "entries"),
    [(4096, 1), (8192, 17), (65536, 3), (1 << 20, 200), (4 << 20, 1), (4 << 20, 1900), (12288, 5)],
)
def test_what_is_written_lands_and_is_read_back(tmp_path, start, block, tuned, length, entries) -> None:
    """Any number of iovec entries of odd lengths, longer than one command and than 1024 entries too."""
    offset = 3 * 4096
    with TargetFarm(tmp_path, block_bytes=block, tuned=tuned) as farm:
        probe = start(farm.member(0), "key=1")
        probe.open()
        assert probe.ask(f"write {offset} {length} 7 iov={entries}") == f"write {offset} {length} 0"
        assert on_disk(farm, offset, length) == pattern(offset, length, 7)
        assert not any(on_disk(farm, 0, offset))
        assert not any(on_disk(farm, offset + length, 4096))
        same = f"read {offset} {length} 0 same"
        assert probe.ask(f"read {offset} {length} 7 iov={entries}") == same
        assert probe.ask(f"read {offset} {length} 7 iov=1") == same


def test_flush_and_fua_complete(farm, start) -> None:
    probe = start(farm.member(0))
    opened = probe.open()
    assert "fua=1" in opened and "write_cache=1" in opened
    assert probe.ask("write 0 524288 3 fua") == "write 0 524288 0"
    assert probe.ask("flush") == "flush 0 0 0"
    assert on_disk(farm, 0, 524288) == pattern(0, 524288, 3)


def test_identity_is_what_the_target_has(tmp_path, start) -> None:
    with TargetFarm(tmp_path, size_bytes=48 << 20, block_bytes=4096) as farm:
        opened = start(farm.member(0), "key=5").open()
        assert f"capacity={48 << 20} block=4096" in opened
        assert "reservation=1" in opened


def test_ios_that_cannot_be_are_refused_without_harm(farm, start) -> None:
    probe = start(farm.member(0))
    probe.open()
    assert probe.ask("write 100 512 1") == "write 100 512 -5"
    assert probe.ask("read 0 513 1") == "read 0 513 -5"
    assert probe.ask(f"read {64 << 20} 512 1") == f"read {64 << 20} 512 -5"
    assert probe.ask("write 0 512 1") == "write 0 512 0"


def test_io_before_opening_and_after_closing_says_not_connected(farm, start) -> None:
    probe = start(farm.member(0))
    assert probe.ask("write 0 512 1") == "write 0 512 -107"
    probe.open()
    assert probe.ask("close").startswith("closed ECANCELED")
    assert probe.ask("flush") == "flush 0 0 -107"
    probe.open()
    assert probe.ask("flush") == "flush 0 0 0"


def test_an_idle_session_lives_and_notices_a_dead_target(farm, start) -> None:
    """Longer than two keep-alives; then the end of the target is noticed without any I/O."""
    probe = start(farm.member(0), "key=1")
    probe.open()
    with pytest.raises(queue.Empty):
        probe.lines.get(timeout=5)
    farm.kill(0)
    assert probe.line().startswith(("closed ECONN", "closed EPIPE"))


def test_pings_of_the_target_are_survived_under_load(tmp_path, start) -> None:
    """NOP-Ins come while Data-Out of R2Ts waits, which made libiscsi 1.19 drop the session."""
    with TargetFarm(tmp_path, tuned=False, nop_seconds=1) as farm:
        probe = start(farm.member(0), "key=1")
        probe.open()
        probe.say("bench write 64 1048576 5")
        answer = probe.line()
        assert answer.startswith("bench ") and answer.endswith("failed 0"), answer
        assert probe.ask("flush") == "flush 0 0 0"


# Targets that die, hang, and come back


@pytest.mark.parametrize("kind", ["", " read"])
def test_sigkill_under_load_ends_every_io_before_closed(farm, start, kind) -> None:
    probe = start(farm.member(0), "key=1")
    probe.open()
    probe.say(f"load 32 65536{kind}")
    time.sleep(0.5)  # load for a while
    farm.kill(0)
    load = probe.line()
    match = re.fullmatch(r"load (\d+) done (\d+) failed", load)
    assert match, load
    assert int(match[1]) > 0 and int(match[2]) == 32
    closed = probe.line()
    assert re.match(r"closed (ECONN\w+|EPIPE) -\d+ busy=0 ", closed), closed


def test_refused_while_dead_and_usable_when_back(farm, start) -> None:
    probe = start(farm.member(0), "key=1")
    farm.kill(0)
    assert re.match(r"closed ECONNREFUSED -111 busy=0 portal .*: Connection refused", probe.ask("open"))
    farm.restart(0)
    probe.open()
    assert probe.ask("write 0 4096 9") == "write 0 4096 0"


@pytest.mark.parametrize("kind", ["", " read"])
def test_sigstop_under_load_is_noticed_in_time_and_memory_is_left_alone(farm, start, kind) -> None:
    probe = start(farm.member(0), "key=1")
    probe.open()
    probe.say(f"load 16 262144{kind}")
    time.sleep(0.5)  # load for a while
    farm.stop(0)
    stopped = time.monotonic()
    assert " 16 failed" in probe.line()
    closed = probe.line()
    elapsed = time.monotonic() - stopped
    assert re.match(r"closed ETIMEDOUT -110 busy=0 no progress", closed), closed
    assert DEADLINE_MS / 1000 * 0.9 < elapsed < DEADLINE_MS / 1000 + 1.5
    # The target goes on with what it has got, and its answers find nobody.
    farm.cont(0)
    probe.open()
    assert probe.ask("write 0 4096 3") == "write 0 4096 0"
    assert re.fullmatch(r"poisoned \d+ touched 0", probe.ask("poisoned"))


def test_a_hung_target_is_noticed_although_ever_new_writes_fit_its_socket_buffer(farm, start) -> None:
    """Bytes that its kernel acknowledges are no sign of life once the oldest command was sent."""
    probe = start(farm.member(0), "key=1")
    probe.open()
    farm.stop(0)
    stopped = time.monotonic()
    while probe.lines.empty() and time.monotonic() - stopped < 15:
        probe.say("write 0 512 1")
        time.sleep(0.1)  # a slow stream of writes
    elapsed = time.monotonic() - stopped
    lines = []
    while not lines or not lines[-1].startswith("closed"):
        lines.append(probe.line())
    assert all(line == "write 0 512 -107" for line in lines[:-1])
    assert lines[-1].startswith("closed ETIMEDOUT")
    assert elapsed < DEADLINE_MS / 1000 + 1.5


def test_a_hung_target_is_noticed_when_idle(farm, start) -> None:
    probe = start(farm.member(0), "key=1")
    probe.open()
    farm.stop(0)
    stopped = time.monotonic()
    assert probe.line().startswith("closed ETIMEDOUT")
    assert time.monotonic() - stopped < 2.0 + DEADLINE_MS / 1000 + 1.5  # the keep-alive comes after 2 s


def test_opening_a_hung_target_ends_in_time(farm, start) -> None:
    farm.stop(0)
    probe = start(farm.member(0), "connect_ms=1000")
    begun = time.monotonic()
    closed = probe.ask("open")
    assert closed.startswith("closed ETIMEDOUT") and "the login" in closed
    assert 0.9 < time.monotonic() - begun < 2.5


@contextlib.contextmanager
def one_slow_writer(farm: TargetFarm, seconds: float) -> Iterator[None]:
    """One of the target's disk threads takes so long for each write; the others do not."""
    process = farm.targets[0].process
    assert process is not None
    workers = sorted(int(task) for task in os.listdir(f"/proc/{process.pid}/task"))
    workers.remove(process.pid)
    assert len(workers) > 1
    delay = f"inject=pwrite64:delay_enter={int(seconds * 1e6)}"
    strace = subprocess.Popen(
        ["strace", "-e", "trace=pwrite64", "-e", delay, "-o", "/dev/null", "-p", str(workers[-1])],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert strace.stderr is not None
        assert "attached" in strace.stderr.readline()
        yield
    finally:
        strace.terminate()
        strace.wait()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to slow the target down")
def test_no_write_of_a_dropped_session_lands_after_the_next_one_opened(farm, start) -> None:
    """The fence: a write that the target's disk still works on is finished when the session is open."""
    count = 32
    probe = start(farm.member(0), "key=1")
    probe.open()
    with one_slow_writer(farm, 1.0):
        stuck = False
        while not stuck:  # the other threads may be so fast that they do all
            for _ in range(count):
                probe.say("write 0 4096 66")
            answered = [probe.ask("flush")]
            while not answered[-1].startswith("flush"):
                answered.append(probe.line())
            stuck = len(answered) - 1 < count
        answers = [probe.ask("close")]
        while not answers[-1].startswith("closed"):
            answers.append(probe.line())
        assert "write 0 4096 -107" in answers
        begun = time.monotonic()
        probe.open()
        waited = time.monotonic() - begun
        assert probe.ask("write 0 4096 2") == "write 0 4096 0"
    until = time.monotonic() + 1.5  # longer than the slow writes can take
    while time.monotonic() < until:
        assert on_disk(farm, 0, 4096) == pattern(0, 4096, 2), f"open after {waited:.3f} s"
        time.sleep(0.02)


def test_what_a_stopped_target_held_never_lands_on_what_was_written_after_the_next_opening(farm, start) -> None:
    """SIGSTOP under writes, the session is dropped, SIGCONT: what its socket held must not land late.

    Whether the old writes land at all is the target's affair, but only before the new session is open.
    """
    probe = start(farm.member(0), "key=1")
    probe.open()
    for round_number in range(3):
        probe.say("load 16 65536")  # so that it has some in hand
        time.sleep(0.1)
        farm.stop(0)
        for _ in range(16):
            probe.say("write 0 65536 66")
        lines = [probe.line()]
        while not lines[-1].startswith("closed"):
            lines.append(probe.line())
        assert lines[-1].startswith("closed ETIMEDOUT")
        assert lines.count("write 0 65536 -107") == 16
        probe.say("open")
        farm.cont(0)
        assert probe.line().startswith("opened ")
        new = 2 + round_number
        assert probe.ask(f"write 0 65536 {new}") == "write 0 65536 0"
        until = time.monotonic() + 1.0  # long enough for anything that is still on its way
        while time.monotonic() < until:
            assert on_disk(farm, 0, 65536) == pattern(0, 65536, new)
            time.sleep(0.02)


def test_headers_are_protected_by_digests_where_wanted(farm, start) -> None:
    farm.admin(
        0, "--mode", "target", "--op", "update", "--tid", str(farm.targets[0].tid),
        "--name", "HeaderDigest", "--value", "CRC32C",
    )  # fmt: skip
    probe = start(farm.member(0), "header_digest=preferred", "key=1")
    probe.open()
    assert probe.ask("write 0 1048576 4 iov=300") == "write 0 1048576 0"
    assert probe.ask("read 0 1048576 4") == "read 0 1048576 0 same"
    assert on_disk(farm, 0, 1048576) == pattern(0, 1048576, 4)


# Whose member it is


def test_a_second_gateway_is_told_who_has_it(farm, start) -> None:
    first = start(farm.member(0), "key=aa11", "isid=1")
    first.open()
    first.say("load 8 65536")
    second = start(farm.member(0), *SECOND)
    closed = second.ask("open")
    assert closed.startswith("closed EBUSY -16") and "0x000000000000aa11" in closed
    # and the first did not notice
    first.say("unload")
    time.sleep(0.2)  # let the ios run out
    assert first.ask("flush") == "flush 0 0 0"
    assert first.lines.empty()


def test_the_same_gateway_gets_its_member_again_after_a_crash(farm, start) -> None:
    crashed = Probe(farm.member(0), "key=aa11")
    crashed.open()
    crashed.process.kill()
    crashed.process.wait()
    again = start(farm.member(0), "key=aa11")
    assert "reservation=1" in again.open()
    assert again.ask("write 0 4096 1") == "write 0 4096 0"
    assert again.ask("release").startswith("closed ECANCELED")
    other = start(farm.member(0), *SECOND)
    other.open()


def test_a_takeover_shuts_the_other_gateway_out(farm, start) -> None:
    first = start(farm.member(0), "key=aa11", "isid=1")
    first.open()
    second = start(farm.member(0), *SECOND, "take_over_ms=60000")
    assert "reservation=1" in second.open()
    assert second.ask("write 0 4096 2") == "write 0 4096 0"
    assert first.ask("write 0 4096 1") in ("write 0 4096 -13", "write 0 4096 -107")
    assert on_disk(farm, 0, 4096) == pattern(0, 4096, 2)
    assert first.line().startswith("closed ")
    # it comes back and is refused
    assert "0x000000000000bb22" in first.ask("open")


@pytest.mark.parametrize("held", [False, True])
def test_a_takeover_is_for_the_start_only(farm, start, held) -> None:
    """Whoever took over and stood still while another took over from it does not take it back."""
    if held:
        dead = Probe(farm.member(0), "key=cc33", "isid=3")
        dead.open()
        dead.process.kill()
        dead.process.wait()
    first = start(farm.member(0), "key=aa11", "isid=1", "take_over_ms=60000")
    first.open()
    first.process.send_signal(signal.SIGSTOP)
    second = start(farm.member(0), *SECOND, "take_over_ms=60000")
    second.open()
    assert second.ask("write 0 4096 2") == "write 0 4096 0"
    first.process.send_signal(signal.SIGCONT)
    assert first.line().startswith("closed ")
    closed = first.ask("open")
    assert closed.startswith("closed EBUSY -16") and "0x000000000000bb22" in closed
    assert second.ask("write 0 4096 3") == "write 0 4096 0"


def test_a_takeover_does_not_wait_for_a_member_without_end(farm, start) -> None:
    """It was reached by nobody when the volume was to be started, and is another gateway's since."""
    first = start(farm.member(0), "key=aa11", "isid=1", "take_over_ms=100")
    second = start(farm.member(0), *SECOND)
    second.open()
    time.sleep(0.3)
    closed = first.ask("open")
    assert closed.startswith("closed EBUSY -16") and "0x000000000000bb22" in closed
    assert second.ask("write 0 4096 3") == "write 0 4096 0"


def test_a_takeover_ends_when_the_volume_is_up(farm, start) -> None:
    first = start(farm.member(0), "key=aa11", "isid=1", "take_over_ms=60000")
    second = start(farm.member(0), *SECOND)
    second.open()
    first.say("volume_is_up")
    assert first.ask("open").startswith("closed EBUSY -16")
    assert second.ask("write 0 4096 3") == "write 0 4096 0"


def test_release_gives_the_member_back(farm, start) -> None:
    first = start(farm.member(0), "key=aa11", "isid=1")
    first.open()
    assert first.ask("release").startswith("closed ECANCELED")
    assert "reservation=1" in start(farm.member(0), *SECOND).open()


def test_release_of_a_hung_member_ends_within_a_second_or_so(farm, start) -> None:
    probe = start(farm.member(0), "key=aa11", "deadline_ms=20000")
    probe.open()
    farm.stop(0)
    begun = time.monotonic()
    assert probe.ask("release").startswith("closed ECANCELED")
    assert time.monotonic() - begun < 2.0


def test_a_lun_that_became_read_only_refuses_writes_with_its_own_error(farm, start) -> None:
    probe = start(farm.member(0))
    probe.open()
    farm.set_readonly(0)
    assert probe.ask("write 0 4096 1") == "write 0 4096 -30"
    assert probe.ask("read 0 4096 0").startswith("read 0 4096 0")


# What is no member


def test_a_read_only_lun_is_unfit(tmp_path, start) -> None:
    with TargetFarm(tmp_path, readonly=True) as farm:
        probe = start(farm.member(0), "key=1")
        assert probe.ask("open").startswith("closed EINVAL -22 busy=0 the LUN is read-only")
        # and no reservation was left on it
        assert "EINVAL" in start(farm.member(0), "key=2", "isid=2").ask("open")


def test_what_is_no_disk_is_unfit(tmp_path, start) -> None:
    with TargetFarm(tmp_path, device_type="cd") as farm:
        assert "not a disk but a CD or DVD drive" in start(farm.member(0)).ask("open")


def test_targets_and_luns_that_are_not_there_are_named(farm, start) -> None:
    closed = start(farm.member(0)[:-1] + "5").ask("open")
    assert closed.startswith("closed EINVAL") and "no LUN 5" in closed
    closed = start(farm.member(0).replace(":t0", ":other")).ask("open")
    assert closed.startswith("closed EINVAL") and "no such target" in closed


@pytest.mark.parametrize(("secret", "opens"), [("right secret 12", True), ("wrong secret 12", False), (None, False)])
def test_only_the_right_chap_secret_opens_a_session(tmp_path, start, secret, opens) -> None:
    options = []
    if secret:
        secrets = tmp_path / "secrets"
        secrets.write_text(f"joe\n{secret}\n")
        secrets.chmod(0o600)
        options = [f"secrets={secrets}"]
    with TargetFarm(tmp_path, chap=("joe", "right secret 12")) as farm:
        answer = start(farm.member(0), *options).ask("open")
    if opens:
        assert answer.startswith("opened ")
    else:
        assert answer.startswith("closed EACCES") and "authentication failed" in answer
        assert "secret 12" not in answer


# Names


def test_host_names_are_looked_up(farm, start) -> None:
    """localhost may be ::1 first, where nothing listens: the next address is tried."""
    member = farm.member(0).replace("127.0.0.1", "localhost")
    probe = start(member)
    probe.open()
    assert probe.ask("write 0 4096 1") == "write 0 4096 0"


def test_a_name_that_does_not_exist_is_said_so(start) -> None:
    closed = start("no-such-host.invalid:3260/iqn.2026-01.test:x/0", "connect_ms=15000").ask("open")
    assert re.match(r"closed (EHOSTUNREACH|ETIMEDOUT) ", closed), closed
    assert "no-such-host.invalid" in closed


def test_closing_during_the_lookup_is_at_once(start) -> None:
    probe = start("no-such-host.invalid:3260/iqn.2026-01.test:x/0")
    probe.say("open")
    probe.say("close")
    assert probe.line().startswith("closed ")


# Several paths


def test_the_other_portal_is_tried_when_the_first_is_dead(farm, start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
    member = farm.member(0).replace(farm.portal(0), dead)
    probe = start(member, f"portal={farm.portal(0)}")
    assert probe.ask("open").startswith(f"closed ECONNREFUSED -111 busy=0 portal {dead}")
    probe.open()
    assert probe.ask("write 0 4096 1") == "write 0 4096 0"
    assert probe.ask("close").startswith("closed ECANCELED")
    probe.open()  # an orderly close does not change the path


def connected_to(ports: list[int]) -> list[int]:
    """Those ports of loopback to which somebody has an established connection."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    remote = {int(row[2].split(":")[1], 16) for row in rows if row[3] == "01"}
    return [port for port in ports if port in remote]


def test_a_lost_session_comes_back_through_the_next_portal(tmp_path, start) -> None:
    """Two portals of one target; after each loss the other one is taken, in turn."""
    with TargetFarm(tmp_path, portals=2) as farm:
        probe = start(farm.member(0), f"portal={farm.portal(0, 1)}", "key=1")
        used = []
        for _ in range(3):
            probe.open()
            used += connected_to(farm.targets[0].ports)
            assert probe.ask("write 0 4096 1") == "write 0 4096 0"
            farm.stop(0)
            probe.say("write 0 4096 1")  # so that it is noticed sooner than in an idle session
            assert probe.line() == "write 0 4096 -107"
            assert probe.line().startswith("closed ETIMEDOUT")
            farm.cont(0)
        first, second = farm.targets[0].ports
        assert used == [first, second, first]


# Memory taken back


def test_a_diverted_read_touches_nothing_and_still_completes(farm, start) -> None:
    """Over and over, at whatever point the data is: the buffers stay as they were left."""
    probe = start(farm.member(0))
    probe.open()
    for _ in range(50):
        for number in range(4):
            probe.say(f"read {number << 20} 1048576 1 iov={1 + number * 50}")
        probe.say("divert")
        for _ in range(4):
            # ECANCELED: it was not sent yet
            assert re.fullmatch(r"read \d+ 1048576 (0|-125)( diverted| DIFFERENT)", probe.line())
    assert re.fullmatch(r"poisoned \d+ touched 0", probe.ask("poisoned"))
