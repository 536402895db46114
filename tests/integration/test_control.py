"""The control socket of iraid-engine: who may speak, what malformed requests get, how connections end,
and that calls which are refused leave members and configuration as they were.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import Gateway, Process, RpcError, build_folder, call, wait_until
from iraid_dev.stack.reader import digest

LINE_BYTES_MAX = 1 << 20
CONNECTIONS_MAX = 32
SUPERBLOCK_OFFSETS = (8 << 10, 512 << 10)
MIB = 1 << 20


class Connection:
    """One connection, lines as they are."""

    def __init__(self, path: Path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))  # with a time limit it would not wait while others queue
        self.socket.settimeout(30)
        self.lines = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> dict[str, Any]:
        line = self.lines.readline()
        assert line.endswith(b"\n"), f"closed after {line!r}"
        return json.loads(line)

    def ended(self) -> bool:
        return self.lines.read(1) == b""


def request(method: str, number: int = 1, **parameters: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
    return json.dumps(body).encode() + b"\n"


def kind(answer: dict[str, Any]) -> str:
    assert answer["error"]["data"]["remedy"], answer
    return answer["error"]["data"]["type"]


@pytest.fixture
def connection(gateway: Gateway):
    with Connection(gateway.socket) as made:
        yield made


# Requests


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"{", "parse"),
        (b"nonsense", "parse"),
        (b"\xff\xfe", "parse"),
        (b'{"jsonrpc":"2.0","id":1,"method":"version"}\0', "parse"),
        (b"[]", "request"),
        (b'{"jsonrpc":"1.0","id":1,"method":"version"}', "request"),
        (b'{"jsonrpc":"2.0","id":1,"method":"volume.explode"}', "method"),
        (b'{"jsonrpc":"2.0","id":1,"method":"version","params":{"verbose":true}}', "params"),
        (b'{"jsonrpc":"2.0","id":1,"method":"volume.status","params":{"name":5}}', "params"),
        (b'{"jsonrpc":"2.0","id":1,"method":"volume.status","params":{}}', "params"),
        (b'{"jsonrpc":"2.0","id":1,"method":"volume.status","params":{"name":"a/b"}}', "invalid"),
        (b'{"jsonrpc":"2.0","id":1,"method":"volume.status","params":{"name":"nobody"}}', "not_found"),
    ],
)
def test_a_bad_request_is_answered_and_the_connection_goes_on(connection, line, expected):
    connection.send(line + b"\n")
    assert kind(connection.answer()) == expected
    connection.send(request("version", 2))
    assert connection.answer()["id"] == 2


def test_calls_in_one_packet_are_answered_in_order_and_notifications_not_at_all(connection):
    notification = b'{"jsonrpc":"2.0","method":"version"}\n'
    connection.send(
        b"".join(request("version", n) for n in range(50)) + notification + b"\r\n\n" + request("volume.list", 99)
    )
    assert [connection.answer()["id"] for _ in range(51)] == [*range(50), 99]


def test_a_request_in_single_bytes_is_understood(connection):
    for byte in request("version", 3):
        connection.send(bytes([byte]))
    assert connection.answer()["result"]["program"] == "iraid-engine"


def test_a_line_above_the_limit_is_refused_and_hung_up(connection):
    try:
        connection.send(b"x" * (4 * LINE_BYTES_MAX))
    except (BrokenPipeError, ConnectionResetError):
        pass  # it hung up before it was all sent
    assert kind(connection.answer()) == "request"


def test_a_long_line_below_the_limit_is_served(connection):
    padded = request("version", 4)[:-1] + b" " * (LINE_BYTES_MAX - 4096) + b"\n"
    connection.send(padded)
    assert connection.answer()["id"] == 4


# Connections


def test_the_socket_is_roots_alone(gateway):
    assert stat.S_IMODE(gateway.socket.stat().st_mode) == 0o600


def test_another_user_is_refused_even_where_the_mode_would_let_him_in(gateway):
    for folder in (gateway.socket, *gateway.socket.parents[:2]):
        folder.chmod(0o777)
    program = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1])\n"
        "print(s.makefile().readline())\n"
    )
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
         "/usr/bin/python3", "-c", program, str(gateway.socket)],
        capture_output=True, text=True, timeout=30, check=False, cwd="/")  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert kind(answer) == "request" and "root" in answer["error"]["message"]


def answers(gateway: Gateway) -> bool:
    with Connection(gateway.socket) as connection:
        try:
            connection.send(request("version"))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return "result" in connection.answer()


def test_connections_are_bounded_and_room_comes_back(gateway):
    held = [Connection(gateway.socket) for _ in range(CONNECTIONS_MAX)]
    for connection in held:
        connection.send(request("version"))
        assert "result" in connection.answer()
    with Connection(gateway.socket) as one_more:
        assert kind(one_more.answer()) == "busy"
        assert one_more.ended()
    held.pop().__exit__()
    wait_until(lambda: answers(gateway), "room for a connection")
    for connection in held:
        connection.__exit__()


def test_clients_that_vanish_in_the_middle_do_no_harm(gateway):
    for _ in range(100):
        with Connection(gateway.socket) as connection:
            try:
                connection.send(request("volume.list") * 20 + b'{"half')
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused, as so many are open
    wait_until(lambda: answers(gateway), "room for a connection")


WORKING_MAX = 24


def assembling(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """v0 waits for members that do not come."""
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    for number in (1, 2):
        farm.kill(number)
    gateway.configure("v0", assembly_wait_seconds=600)


def all_answer(gateway: Gateway, count: int) -> bool:
    """So many connections at once."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(Connection(gateway.socket)) for _ in range(count)]
        try:
            for connection in made:
                connection.send(request("version"))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return all("result" in connection.answer() for connection in made)


def test_who_waits_for_a_volume_and_goes_gives_its_connection_back(gateway, make_farm):
    assembling(gateway, make_farm)
    with contextlib.ExitStack() as stack:
        for _ in range(WORKING_MAX):
            connection = stack.enter_context(Connection(gateway.socket))
            connection.send(request("volume.start", name="v0", wait_seconds=600))
    wait_until(lambda: all_answer(gateway, CONNECTIONS_MAX), "room for all connections")
    wait_until(lambda: answers(gateway), "the end of these")
    assert call(gateway.socket, "volume.status", name="v0")["state"] == "assembling"  # it goes on


def test_a_client_that_has_said_all_and_listens_is_waited_for(gateway, make_farm):
    assembling(gateway, make_farm)
    with Connection(gateway.socket) as connection:
        connection.send(request("volume.start", name="v0", wait_seconds=3))
        connection.socket.shutdown(socket.SHUT_WR)
        begin = time.monotonic()
        assert connection.answer()["result"]["state"] == "assembling"
        assert time.monotonic() - begin >= 3


def test_status_is_answered_whatever_waits_for_its_turn(gateway, make_farm):
    call(gateway.socket, "volume.create", name="v0", level=5, members=make_farm(3).members())
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        device = f"127.0.0.1:{silent.getsockname()[1]}/iqn.2026-01.org.example:t/0"
        waiting = [stack.enter_context(Connection(gateway.socket)) for _ in range(CONNECTIONS_MAX - 1)]
        for connection in waiting:
            connection.send(request("pool.add", device=device))
        refused = CONNECTIONS_MAX - 1 - WORKING_MAX
        wait_until(lambda: len(readable(waiting)) == refused, "the others to be refused")
        for connection in readable(waiting):
            answer = connection.answer()
            assert kind(answer) == "busy" and str(WORKING_MAX) in answer["error"]["message"]
            connection.__exit__()
            waiting.remove(connection)
        wait_until(lambda: all_answer(gateway, CONNECTIONS_MAX - WORKING_MAX), "room for those that read")
        wait_until(lambda: answers(gateway), "the end of their connections")
        assert call(gateway.socket, "volume.status", name="v0")["state"] == "active"
        assert not readable(waiting)


def readable(connections: list[Connection]) -> list[Connection]:
    ready = select.select([connection.socket for connection in connections], [], [], 0)[0]
    return [connection for connection in connections if connection.socket in ready]


def test_a_call_whose_client_went_before_its_turn_is_not_carried_out(gateway, make_farm):
    call(gateway.socket, "volume.create", name="v0", level=5, members=make_farm(3).members())
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        device = f"127.0.0.1:{silent.getsockname()[1]}/iqn.2026-01.org.example:t/0"
        first = stack.enter_context(Connection(gateway.socket))
        first.send(request("pool.add", device=device))
        with silent.accept()[0]:  # it is its turn, and its device says nothing
            idle = [stack.enter_context(Connection(gateway.socket)) for _ in range(CONNECTIONS_MAX - 2)]
            for connection in idle:
                connection.send(request("version"))
                assert "result" in connection.answer()
            with Connection(gateway.socket) as second:
                second.send(request("volume.delete", name="v0", wipe=False))
            wait_until(lambda: answers(gateway), "the connection of the one that went")
        assert kind(first.answer()) == "unreachable"
    assert call(gateway.socket, "volume.status", name="v0")["state"] == "active"


# Beginning and end


def test_the_socket_of_a_dead_engine_is_replaced(gateway):
    gateway.kill()
    assert gateway.socket.exists()
    gateway.start()
    assert call(gateway.socket, "version")["pid"] == gateway.engine.pid


def second_engine(gateway: Gateway) -> Process:
    return Process([build_folder() / "handler/adapters/iraid-engine"], gateway.environment(),
                   gateway.folder / "second.log")  # fmt: skip


def test_a_socket_that_is_served_is_not_taken_over(gateway):
    second = second_engine(gateway)
    second.wait(status=1)
    assert "is served by another program" in second.said()
    assert call(gateway.socket, "version")["pid"] == gateway.engine.pid


def test_a_file_in_the_sockets_place_is_not_removed(gateway):
    gateway.stop()
    gateway.socket.write_text("precious")
    second = second_engine(gateway)
    second.wait(status=1)
    assert "not a socket" in second.said()
    assert gateway.socket.read_text() == "precious"


def test_it_ends_in_order_with_connections_open(gateway):
    with Connection(gateway.socket) as connection:
        connection.send(request("version"))
        connection.answer()
        gateway.stop()
        assert connection.ended()
    assert not gateway.socket.exists()


# Calls that are refused change nothing


def fingerprint(farm: TargetFarm) -> list[str]:
    return [digest(farm.backing(n)) for n in range(len(farm))]


def fill(farm: TargetFarm) -> None:
    """Something that no tool knows, so that what was overwritten shows."""
    for number in range(len(farm)):
        with farm.backing(number).open("r+b") as file:
            file.write(bytes([0x51 + number]) * (4 * MIB))


class Case:
    """Refused creations: what is done before, what is asked, what is answered."""

    def __init__(
        self,
        expected: str,
        words: str,
        before: Callable[[TargetFarm], object] = lambda _: 0,
        options: dict[int, TargetOptions] | None = None,
        members: Callable[[TargetFarm], list[str]] = TargetFarm.members,
        **parameters: Any,
    ):
        self.expected, self.words, self.before, self.members = expected, words, before, members
        self.options, self.parameters = options or {}, parameters


def lun0(farm: TargetFarm) -> list[str]:
    return [farm.member(0), farm.member(1), farm.member(2).rsplit("/", 1)[0] + "/0"]


CASES = {
    "target killed": Case("unreachable", "refused", lambda farm: farm.kill(2)),
    "no such target": Case(
        "login",
        "nobody",
        members=lambda farm: [*farm.members()[:2], f"{farm.portal(2)}/iqn.2026-01.org.iraid.test:nobody/1"],
    ),
    "CHAP is missing": Case("login", "t2", lambda farm: farm.set_chap(2, "user", "secretsecret12")),
    "a controller": Case("unfit", "not a disk", members=lun0),
    "a CD drive": Case("unfit", "not a disk", options={2: TargetOptions(device_type="cd")}),
    "read-only": Case("unfit", "read-only", lambda farm: farm.set_readonly(2)),
    "too small": Case("unfit", "8388608", options={2: TargetOptions(size_bytes=8 * MIB)}),
    "other blocks": Case("unfit", "4096", options={2: TargetOptions(block_bytes=4096)}),
    "one LUN under two portals": Case(
        "in_use",
        "same LUN",
        options={1: TargetOptions(portals=2)},
        members=lambda farm: [farm.member(0), farm.member(1), farm.member(1, 1)],
    ),
    "the same by force": Case(
        "in_use",
        "same LUN",
        options={1: TargetOptions(portals=2)},
        force=True,
        members=lambda farm: [farm.member(0), farm.member(1), farm.member(1, 1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refused_creation_leaves_the_members_as_they_were(gateway, make_farm, name):
    case = CASES[name]
    usual = TargetOptions(size_bytes=32 * MIB)
    farm = make_farm(options=[case.options.get(n, usual) for n in range(3)])
    if "a CD drive" != name:
        fill(farm)
    case.before(farm)
    before = fingerprint(farm)
    with pytest.raises(RpcError) as refused:
        call(gateway.socket, "volume.create", name="v0", level=5, members=case.members(farm), **case.parameters)
    assert refused.value.kind == case.expected, str(refused.value)
    assert case.words in str(refused.value)
    assert refused.value.remedy
    assert fingerprint(farm) == before
    assert call(gateway.socket, "volume.list")["volumes"] == []


@pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="needs mkfs.ext4")
def test_a_file_system_is_overwritten_by_force_alone(gateway, make_farm):
    farm = make_farm(3)
    subprocess.run(["mkfs.ext4", "-q", "-F", farm.backing(1)], check=True)
    before = fingerprint(farm)
    with pytest.raises(RpcError, match="ext4") as refused:
        call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    assert refused.value.kind == "in_use" and farm.member(1) in str(refused.value)
    assert fingerprint(farm) == before
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members(), force=True)
    found = call(gateway.socket, "examine", member=farm.member(1))
    assert found["superblock"]["role"] == 1 and found["copies"] == {"a": "ok", "b": "ok"}


def test_members_of_a_volume_are_refused_also_by_force_until_it_is_deleted(gateway, make_farm):
    farm = make_farm(4)
    call(gateway.socket, "volume.create", name="v0", level=0, members=farm.members()[:3])
    for force in (False, True):
        with pytest.raises(RpcError, match='volume "v0"') as refused:
            call(gateway.socket, "volume.create", name="v1", level=0, members=farm.members()[2:], force=force)
        assert refused.value.kind == "in_use"
    call(gateway.socket, "volume.delete", name="v0")
    call(gateway.socket, "volume.create", name="v1", level=0, members=farm.members()[2:])


def test_who_may_be_a_member_by_a_file_that_can_not_be_read_is_refused_also_by_force(gateway, make_farm):
    """One control character, and nothing of a file is read."""
    farm = make_farm(5)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members()[:3])
    call(gateway.socket, "volume.stop", name="v0")
    gateway.stop()
    file = gateway.config / "volumes/v0.conf"
    good = file.read_text()
    file.write_text(good + "\x01\n")
    gateway.start()
    with pytest.raises(RpcError, match='of volume "v0" the file can\'t be read') as refused:
        call(gateway.socket, "volume.create", name="v1", level=1, members=farm.members()[2:4], force=True)
    assert refused.value.kind == "in_use" and farm.member(2) in str(refused.value)
    call(gateway.socket, "volume.create", name="v1", level=1, members=farm.members()[3:])
    file.write_text(good)
    assert call(gateway.socket, "volume.start", name="v0", wait_seconds=20)["state"] == "active"


def test_a_volume_of_another_gateway_needs_force(make_gateway, make_farm):
    farm = make_farm(3)
    first, second = make_gateway(), make_gateway()
    first.start()
    second.start()
    call(first.socket, "volume.create", name="v0", level=5, members=farm.members())
    with pytest.raises(RpcError) as refused:
        call(second.socket, "volume.create", name="v1", level=5, members=farm.members(), force=True)
    assert refused.value.kind == "in_use", str(refused.value)  # running: reserved
    call(first.socket, "volume.stop", name="v0")
    with pytest.raises(RpcError, match="v0") as refused:
        call(second.socket, "volume.create", name="v1", level=5, members=farm.members())
    assert refused.value.kind == "in_use"
    call(second.socket, "volume.create", name="v1", level=5, members=farm.members(), force=True)


def test_sizes_that_differ_are_warned_of_and_the_smallest_counts(gateway, make_farm):
    farm = make_farm(options=[TargetOptions(size_bytes=size * MIB) for size in (32, 48, 64)])
    made = call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    assert any(str(32 * MIB) in w and str(64 * MIB) in w for w in made["warnings"]), made["warnings"]
    assert made["size_bytes"] < 2 * 32 * MIB


def test_mistuned_targets_are_warned_of(gateway, make_farm):
    farm = make_farm(3, tuned=False)
    made = call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    assert any("3 of 3 targets" in w and "MaxRecvDataSegmentLength" in w for w in made["warnings"])


def test_a_volume_that_is_stopped_is_deleted(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    assert call(gateway.socket, "volume.delete", name="v0")["warnings"] == []
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())


def test_delete_wipes_what_it_can_reach_and_tells_what_not(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    farm.kill(2)
    done = call(gateway.socket, "volume.delete", name="v0")
    assert len(done["warnings"]) == 1 and farm.member(2) in done["warnings"][0]
    for number in range(2):
        content = farm.backing(number).read_bytes()
        for offset in SUPERBLOCK_OFFSETS:
            assert not any(content[offset : offset + 4096])
    farm.restart(2)
    assert call(gateway.socket, "examine", member=farm.member(2))["superblock"]["name"] == "v0"
    assert call(gateway.socket, "volume.list")["volumes"] == []


@pytest.mark.parametrize(
    ("damage", "copies"), [([0], ("corrupt", "ok")), ([1], ("ok", "corrupt")), ([0, 1], ("corrupt", "corrupt"))]
)
def test_examine_tells_damaged_copies_apart(gateway, make_farm, damage, copies):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    with farm.backing(0).open("r+b") as file:
        for copy in damage:
            file.seek(SUPERBLOCK_OFFSETS[copy] + 200)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x40]))
    found = call(gateway.socket, "examine", member=farm.member(0))
    assert (found["copies"]["a"].split(":")[0], found["copies"]["b"].split(":")[0]) == copies
    assert (found["superblock"] is None) == (len(damage) == 2)


# Volumes


def test_start_after_a_failed_one_works_when_the_members_are_back(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    whole = [farm.backing(number).read_bytes()[:MIB] for number in range(3)]
    for number in (1, 2):
        with farm.backing(number).open("r+b") as file:
            file.write(bytes(MIB))
    status = call(gateway.socket, "volume.start", name="v0", wait_seconds=5)
    assert status["state"] in ("failed", "assembling")
    assert status["reason"] or any(member["reason"] for member in status["members"])
    for number in (1, 2):
        with farm.backing(number).open("r+b") as file:
            file.write(whole[number])
    status = call(gateway.socket, "volume.start", name="v0", force=True, wait_seconds=20)
    assert status["state"] == "active", status


def test_a_volume_waits_for_its_members_and_goes_on_by_itself(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    for number in (1, 2):
        farm.kill(number)
    gateway.configure("v0", assembly_wait_seconds=30)
    status = call(gateway.socket, "volume.start", name="v0", wait_seconds=1)
    assert status["state"] == "assembling"
    assert farm.portal(1) in json.dumps(status)  # says who is missing
    for number in (1, 2):
        farm.restart(number)
    status = call(gateway.socket, "volume.start", name="v0", wait_seconds=20)
    assert status["state"] == "active", status


def test_who_waits_for_a_volume_does_not_hold_up_the_end(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    for number in (1, 2):
        farm.kill(number)
    gateway.configure("v0", assembly_wait_seconds=600)
    with Connection(gateway.socket) as waiting:
        waiting.send(request("volume.start", name="v0", wait_seconds=600))
        wait_until(lambda: call(gateway.socket, "volume.status", name="v0")["state"] == "assembling", "the start")
        gateway.stop()  # fails after 30 s
        assert waiting.answer()["result"]["state"] in ("stopping", "stopped")


@pytest.mark.long
def test_an_import_of_silent_devices_does_not_hold_up_the_end(gateway):
    with socket.create_server(("127.0.0.1", 0)) as silent, Connection(gateway.socket) as waiting:
        portal = f"127.0.0.1:{silent.getsockname()[1]}"
        waiting.send(request("volume.import", members=[f"{portal}/iqn.2026-01.org.example:t{n}/0" for n in range(6)]))
        with silent.accept()[0]:
            gateway.stop()  # fails after 30 s, half of what all six take
        answer = waiting.answer()
    assert answer["error"]["data"]["type"] == "busy" and "is ending" in answer["error"]["message"]


def test_what_nbdkit_uses_is_named_and_left_alone(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    call(gateway.socket, "volume.stop", name="v0")
    with gateway.serve("v0") as volume:
        volume.connect()
        assert volume.status()["users"] == ["nbdkit: v0"]
        for method in ("volume.start", "volume.delete"):
            with pytest.raises(RpcError, match=f"nbdkit pid {volume.process.pid}") as refused:
                call(gateway.socket, method, name="v0")
            assert refused.value.kind == "in_use"
        with pytest.raises(RpcError, match="nbdkit: v0") as refused:
            call(volume.control, "volume.stop", name="v0")
        assert refused.value.kind == "busy"
    assert call(gateway.socket, "volume.start", name="v0")["state"] == "active"


def test_the_lock_of_a_killed_process_is_free(gateway, make_farm):
    farm = make_farm(3)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members())
    gateway.kill()
    gateway.start()
    assert call(gateway.socket, "volume.start", name="v0")["state"] == "active"


def test_volumes_start_with_the_program_only_if_enabled(gateway, make_farm):
    farm = make_farm(6)
    call(gateway.socket, "volume.create", name="on", level=5, members=farm.members()[:3])
    call(gateway.socket, "volume.create", name="off", level=5, members=farm.members()[3:])
    gateway.stop()
    gateway.configure("off", enabled=False)
    gateway.start("--start-all")
    call(gateway.socket, "volume.start", name="on")
    assert call(gateway.socket, "volume.status", name="on")["state"] == "active"
    assert call(gateway.socket, "volume.status", name="off")["state"] == "stopped"


def test_a_hung_target_does_not_hold_up_other_calls(gateway, make_farm):
    farm = make_farm(1)
    farm.stop(0)
    with Connection(gateway.socket) as slow:
        slow.send(request("examine", member=farm.member(0)))
        assert call(gateway.socket, "version")["program"] == "iraid-engine"
        assert not select.select([slow.socket], [], [], 0)[0]  # it hung all the while
        farm.kill(0)  # what a hung one costs by itself: test_iscsi_admin.py
        assert kind(slow.answer()) == "unreachable"


def test_secrets_are_in_no_log_and_no_answer(gateway, make_farm, tmp_path):
    farm = make_farm(3)
    secret = "A1b2C3d4E5f6G7"
    for number in range(3):
        farm.set_chap(number, "operator", secret)
    chap = tmp_path / "chap"
    chap.write_text(f"operator\n{secret}\n")
    chap.chmod(0o644)
    with pytest.raises(RpcError) as refused:
        call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members(), chap_file=str(chap))
    assert refused.value.kind == "invalid" and str(chap) in str(refused.value)
    chap.chmod(0o600)
    call(gateway.socket, "volume.create", name="v0", level=5, members=farm.members(), chap_file=str(chap))
    status = call(gateway.socket, "volume.start", name="v0")
    assert status["state"] == "active", status["reason"]
    gateway.engine.popen.send_signal(signal.SIGTERM)
    gateway.engine.wait()
    assert secret not in gateway.logs()
    assert secret not in json.dumps(status)
    assert secret not in json.dumps(gateway.configuration("v0"))


def test_a_fault_in_its_file_is_no_failure_of_a_stop(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    gateway.create("v0", make_farm(3).members(), 5, "64K")
    gateway.must("wait", "v0")
    file = gateway.config / "volumes" / "v0.conf"
    file.write_text(file.read_text() + "hegde = 1\n")
    gateway.must("stop", "v0")
