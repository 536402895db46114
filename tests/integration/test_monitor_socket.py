"""monitor.sock: a group that is not root may ask, may change nothing, and stands in nobody's way."""

from __future__ import annotations

import contextlib
import grp
import json
import re
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from test_control import Connection, answers, kind, request

from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import SANITIZED, Gateway, call, wait_until

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(90)]
GROUP = "nogroup"  # every Debian has it
NOBODY = 65534
CONNECTIONS = 1000
CONNECTIONS_MAX = 32
OF_ONE_USER_MAX = 16
OTHER_DESCRIPTORS_MAX, OTHER_THREADS_MAX = 40, 20
LINE_BYTES_MAX = 64 << 10
ABOUT_ALL = ("version", "volume.list", "pool.list")
QUESTIONS = {
    "version", "volume.list", "volume.status", "volume.stats", "volume.path", "pool.list", "lost.list", "events",
}  # fmt: skip


@pytest.fixture
def gateway(make_gateway: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> Gateway:
    monkeypatch.setenv("IRAID_MONITOR_GROUP", GROUP)
    gateway = make_gateway()
    gateway.start()
    return gateway


def monitor_of(gateway: Gateway) -> Path:
    return gateway.socket.with_name("monitor.sock")


def as_member(gateway: Gateway, program: str, *, group: int = NOBODY) -> subprocess.CompletedProcess[str]:
    """Runs Python as nobody; `made()` is a connection to the monitor socket, `ask(connection, line)` its answer."""
    for folder in gateway.socket.parents[:2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    begin = (
        "import json,socket,sys\n"
        "def made(path=sys.argv[1]):\n"
        "    one = socket.socket(socket.AF_UNIX); one.connect(path); one.settimeout(20); return one\n"
        "def ask(one, line):\n"
        "    one.sendall(line); return one.makefile().readline()\n"
    )
    return subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups",
         "/usr/bin/python3", "-c", begin + program, str(monitor_of(gateway))],
        capture_output=True, text=True, timeout=60, check=False, cwd="/")  # fmt: skip


def methods() -> set[str]:
    """All that the handler has."""
    table = (ROOT / "handler/adapters/rpc/rpc.c").read_text().partition("methods[] = {")[2].partition("};")[0]
    names = set(re.findall(r'^\t\{ "([\w.]+)", rpc_', table, re.M))
    assert len(names) == table.count("READS") + table.count("WORKS") > len(QUESTIONS)
    return names


def asked(method: str) -> bytes:
    return request(method) if method in ABOUT_ALL else request(method, name="v0")


# Who may


def test_the_group_may_ask_and_nobody_else(gateway):
    status = monitor_of(gateway).stat()
    assert stat.S_IMODE(status.st_mode) == 0o660
    assert (status.st_uid, status.st_gid) == (0, grp.getgrnam(GROUP).gr_gid)
    asks = f"print(ask(made(), {request('version')!r}))"
    said = as_member(gateway, asks)
    assert json.loads(said.stdout)["result"]["program"] == "iraid-engine", said
    assert "PermissionError" in as_member(gateway, asks, group=NOBODY - 1).stderr
    assert "PermissionError" in as_member(gateway, f"made({str(gateway.socket)!r})").stderr


def test_without_the_group_the_socket_is_roots_and_the_log_says_so(make_gateway, monkeypatch):
    monkeypatch.setenv("IRAID_MONITOR_GROUP", "no-such-group")
    gateway = make_gateway()
    gateway.start()
    assert stat.S_IMODE(monitor_of(gateway).stat().st_mode) == 0o600
    assert "/etc/group has no group no-such-group" in gateway.engine.said()
    assert call(monitor_of(gateway), "version")


def test_the_iraid_command_shows_status_by_it_and_is_refused_what_changes(gateway, make_farm):
    gateway.create("v0", make_farm(3).members())
    assert gateway.must("--socket", monitor_of(gateway), "status", "v0").out
    refused = gateway.iraid("--socket", monitor_of(gateway), "stop", "v0")
    assert refused.status != 0 and "volume.stop" in refused.err and "as root" in refused.err
    assert gateway.status("v0")["state"] == "active"


def test_both_sockets_go_with_the_program_and_come_back_after_a_crash(gateway):
    gateway.kill()
    assert monitor_of(gateway).exists()
    gateway.start()
    assert call(monitor_of(gateway), "version")["pid"] == gateway.engine.pid
    gateway.stop()
    assert not monitor_of(gateway).exists()


def test_a_file_in_its_place_costs_the_monitor_socket_alone(gateway):
    gateway.stop()
    monitor_of(gateway).write_text("precious")
    gateway.start()
    assert call(gateway.socket, "version") and monitor_of(gateway).read_text() == "precious"
    assert f"{monitor_of(gateway)} exists but is not a socket" in gateway.engine.said()


# What may be asked


@pytest.mark.parametrize("method", sorted(methods()))
def test_a_method_that_changes_something_is_refused_by_its_name(gateway, method):
    with Connection(monitor_of(gateway)) as connection:
        connection.send(asked(method))
        answer = connection.answer()
    if method in QUESTIONS:
        assert "result" in answer or kind(answer) == "not_found", answer
    else:
        assert kind(answer) == "request" and method in answer["error"]["message"]


def test_no_answer_has_a_secret(gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path) -> None:
    gateway.create("v0", make_farm(3).members())
    gateway.must("stop", "v0")
    secrets = tmp_path / "secrets"
    secrets.write_text("sesame-user\nsesame-secret\n")
    secrets.chmod(0o600)
    gateway.configure("v0", chap_file=secrets)
    call(gateway.socket, "volume.start", name="v0", wait_seconds=0)
    for method in sorted(QUESTIONS):
        with Connection(monitor_of(gateway)) as connection:
            connection.send(asked(method))
            assert "sesame" not in json.dumps(connection.answer())


# What clients do


def root_is_served(gateway: Gateway) -> None:
    assert answers(gateway), "root is locked out"


def is_busy(gateway: Gateway) -> bool:
    with Connection(monitor_of(gateway)) as one:
        return one.answer()["error"]["data"]["type"] == "busy"


def test_two_thousand_connections_cost_what_the_limits_allow_and_root_gets_in(gateway):
    """To both sockets, all open at once; whoever finds no room is told, nobody is forgotten."""
    assert gateway.engine is not None
    process = Path(f"/proc/{gateway.engine.pid}")
    with contextlib.ExitStack() as stack:
        held = [
            stack.enter_context(Connection(path))
            for path in (gateway.socket, monitor_of(gateway))
            for _ in range(CONNECTIONS)
        ]
        for connection in held:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(request("version"))
        said = [connection.answer() for connection in held]
        served = sum("result" in answer for answer in said)
        assert all("result" in answer or kind(answer) == "busy" for answer in said)
        assert served == CONNECTIONS_MAX + OF_ONE_USER_MAX
        assert len(list((process / "fd").iterdir())) < served + OTHER_DESCRIPTORS_MAX
        assert len(list((process / "task").iterdir())) < served + OTHER_THREADS_MAX
        held[0].__exit__()
        wait_until(lambda: answers(gateway), "room for root")
    wait_until(lambda: call(monitor_of(gateway), "version"), "room for a monitor")


def test_clients_that_stall_keep_neither_root_nor_another_user_out(gateway):
    """All that one user may have, each in the middle of a request or of an answer."""
    with contextlib.ExitStack() as stack:
        for number in range(OF_ONE_USER_MAX):
            connection = stack.enter_context(Connection(monitor_of(gateway)))
            connection.send(b'{"jsonrpc":' if number % 2 else request("volume.list") * 50)
        assert is_busy(gateway)
        for _ in range(3):
            root_is_served(gateway)
        said = as_member(gateway, f"print(ask(made(), {request('version')!r}))")
        assert "result" in json.loads(said.stdout)
    wait_until(lambda: call(monitor_of(gateway), "version"), "room for a connection")


def test_hundreds_of_clients_are_refused_at_once(gateway):
    program = (
        "held = [made() for _ in range(300)]\n"
        "said = [one.makefile().readline() for one in held[20:]]\n"
        "print(sum('busy' in line for line in said))\n"
    )
    assert as_member(gateway, program).stdout == "280\n"
    root_is_served(gateway)


def test_a_flood_of_requests_keeps_nobody_else_out(gateway):
    stop = threading.Event()
    answered = 0

    def flood() -> None:
        nonlocal answered
        with Connection(monitor_of(gateway)) as one:
            one.send(request("version") * 600)
            while not stop.is_set() and answered < 600:
                one.answer()
                answered += 1

    # The second of these has spent what one user may ask at once.
    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        root_is_served(gateway)
    assert "result" in json.loads(as_member(gateway, f"print(ask(made(), {request('version')!r}))").stdout)
    stop.set()
    for thread in threads:
        thread.join()


def test_the_end_of_the_program_does_not_wait_for_a_flood(gateway):
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(Connection(monitor_of(gateway))).send(request("version") * 900)
        gateway.stop()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"[" * 40000 + b"\n", "parse"),
        (b'{"a":' * 17 + b"1" + b"}" * 17 + b"\n", "parse"),
        (b"x" * (LINE_BYTES_MAX + 8192), "request"),
        (b'{"jsonrpc":"2.0","id":1,"method":"version","params":{"a":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}}\n', "parse"),
        (b'{"jsonrpc":"2.0","id":[1],"method":"version"}\n', "request"),
        (b"\xff" * 100 + b"\n", "parse"),
    ],
    ids=["brackets", "nested", "long", "nested parameters", "odd id", "bytes"],
)  # fmt: skip
def test_a_request_that_is_too_much_is_refused(gateway, line, expected):
    with Connection(monitor_of(gateway)) as connection:
        connection.send(line)
        assert kind(connection.answer()) == expected
    root_is_served(gateway)


def test_no_client_makes_it_use_much_memory(gateway):
    def megabytes() -> int:
        status = Path(f"/proc/{gateway.engine.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) >> 10

    before = megabytes()
    with contextlib.ExitStack() as stack:
        for _ in range(OF_ONE_USER_MAX):
            stack.enter_context(Connection(monitor_of(gateway))).send(b"x" * (LINE_BYTES_MAX - 1))
        root_is_served(gateway)
        assert megabytes() - before < 16 * (4 if SANITIZED else 1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["control.sock", "monitor.sock"])
def test_a_request_that_never_ends_costs_its_client_the_connection(gateway, name):
    """30 s; also one that drips."""
    with Connection(gateway.socket.with_name(name)) as connection:
        done = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not done.wait(1):
                    connection.send(b" ")

        dripping = threading.Thread(target=drip)
        dripping.start()
        connection.socket.settimeout(60)
        answer = connection.answer()
        done.set()
        dripping.join()
        assert kind(answer) == "request" and "30 s" in answer["error"]["message"]
