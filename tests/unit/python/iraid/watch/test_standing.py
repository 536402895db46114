"""What the resource agent is told about a volume, and what that costs the targets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iraid.watch import standing


@pytest.mark.parametrize(
    ("member", "portals"),
    [
        ("10.0.0.1/iqn.2026-01.org.example:t/0", [("10.0.0.1", 3260)]),
        ("10.0.0.1:3261,disk.example/iqn.x:y/1", [("10.0.0.1", 3261), ("disk.example", 3260)]),
        ("[fd00::1],[fd00::2]:3262/iqn.x/0", [("fd00::1", 3260), ("fd00::2", 3262)]),
    ],
)
def test_a_member_s_portals(member: str, portals: list[tuple[str, int]]) -> None:
    assert standing.portals_of(member) == portals


def test_a_portal_is_reached_and_its_server_hears_nothing_of_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        open_, closed = (f"127.0.0.1:{one.getsockname()[1]}" for one in (server, deaf))
        assert standing.reached([f"{open_}/iqn.x/0", f"{closed}/iqn.x/0", f"{closed},{open_}/iqn.y/0"]) == 2
        # Whoever comes now is the first one that the server sees.
        with socket.create_connection(server.getsockname()) as visitor:
            _, address = server.accept()
            assert address == visitor.getsockname()


def test_who_does_not_answer_is_waited_for_no_longer_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRAID_SOCKET", str(tmp_path / "socket"))
    dead = standing.ask("v0", seconds=0.3, patience=0.0)
    assert dead.word == "dead" and standing.line(dead) == "dead" and "socket" in dead.text
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert standing.ask("v0", seconds=0.3, patience=0.3).word == "dead"  # nobody listens yet
        server.listen()
        assert standing.ask("v0", seconds=0.3, patience=0.0).word == "hangs"


def answering(path: Path, text: bytes) -> Callable[[], None]:
    def serve() -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            server.settimeout(10.0)  # nobody may come
            with server.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(text)

    return serve


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b'{"name": "v0", "state": "standby", "role": "standby", "reason": "so"}', "answers standby standby 0 0"),
        (b'{"name": "v0", "state": "stopped", "role": null}', "answers none stopped 0 0"),
    ],
)
def test_one_that_is_back_in_time_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, line: str
) -> None:
    monkeypatch.setenv("IRAID_SOCKET", str(tmp_path / "socket"))
    serve = answering(tmp_path / "socket", b'{"jsonrpc": "2.0", "id": 1, "result": ' + answer + b"}\n")
    late = threading.Timer(0.2, serve)
    late.start()
    told = standing.ask("v0", seconds=60.0, patience=60.0)
    late.join()
    assert standing.line(told) == line


def test_a_volume_that_the_handler_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRAID_SOCKET", str(tmp_path / "socket"))
    error = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 2, "message": "no volume \\"v9\\"", "data": {}}}\n'
    thread = threading.Thread(target=answering(tmp_path / "socket", error))
    thread.start()
    told = standing.ask("v9", seconds=60.0, patience=60.0)
    thread.join()
    assert (told.word, told.text) == ("unknown", 'no volume "v9"')


@pytest.mark.parametrize("code", [8, 10])
def test_a_handler_that_can_not_tell_now_may_have_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("IRAID_SOCKET", str(tmp_path / "socket"))
    error = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": %d, "message": "too many", "data": {}}}\n' % code
    thread = threading.Thread(target=answering(tmp_path / "socket", error))
    thread.start()
    told = standing.ask("v0", seconds=0.0, patience=60.0)  # until it listens
    thread.join()
    assert (told.word, told.text, standing.line(told)) == ("refuses", "too many", "refuses")


@pytest.mark.parametrize("words", [[], ["v0"], ["v0", "1"], ["v0", "x", "1"], ["v0", "1", "1", "1"]])
def test_bad_arguments(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert standing.main(words) == 2
    assert "usage: volume-standing" in capsys.readouterr().err
