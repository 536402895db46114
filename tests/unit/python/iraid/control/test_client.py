"""Every way in which the control socket can fail names the socket and the remedy."""

import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import control_peer
import pytest
from control_peer import ControlPeer, Failure

from iraid.control import client as client_module
from iraid.control.client import Client, status_of_all
from iraid.control.errors import IraidError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control.sock"


def failure_of(path, call=lambda client: client.version()):
    with pytest.raises(IraidError) as caught:
        call(Client(path))
    assert str(path) in caught.value.message or caught.value.kind not in ("unavailable", "permission", "answer")
    assert caught.value.remedy
    return caught.value


def test_an_answer_becomes_a_dataclass(path):
    with ControlPeer(path, {"version": control_peer.VERSION}):
        version = Client(path).version()
    assert (version.version, version.program, version.pid) == ("0.1.0", "tcmu-runner", 4711)


def test_the_socket_is_taken_from_the_environment(path, monkeypatch):
    monkeypatch.setenv("IRAID_SOCKET", str(path))
    assert Client().path == path
    monkeypatch.delenv("IRAID_SOCKET")
    assert str(Client().path) == "/run/iraid/control.sock"


def test_a_missing_socket_asks_for_the_runner(path):
    error = failure_of(path)
    assert error.kind == "unavailable"
    assert error.message == f"control socket {path} does not exist"
    assert "systemctl status tcmu-runner" in error.remedy


def test_a_socket_nobody_listens_on_says_that_the_program_ended(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert "no program listens" in failure_of(path).message


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_a_socket_without_permission_asks_for_root():
    """In a child process, which gives up root: 65534 is nobody."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "control.sock"
        with ControlPeer(path, {"version": control_peer.VERSION}):
            path.chmod(0o600)
            kind, message, remedy = _version_as_nobody(path)
    assert kind == "permission"
    assert message == f"control socket {path}: permission denied"
    assert "root" in remedy


def _version_as_nobody(path):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        text = "||"
        try:
            Client(path).version()
        except IraidError as error:
            text = f"{error.kind}|{error.message}|{error.remedy}"
        finally:
            os.write(writing, text.encode())
            os._exit(0)
    os.waitpid(child, 0)
    answer = os.read(reading, 4096).decode()
    os.close(reading)
    os.close(writing)
    return answer.split("|")


def test_who_finds_a_queue_before_the_socket_waits_for_his_turn(path):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        waiting = []
        asking = threading.Thread(target=lambda: waiting.append(Client(path)._connect(10)))
        asking.start()
        asking.join(0.1)
        assert asking.is_alive() and not waiting
        listener.accept()[0].close()
        asking.join(10)
        assert waiting
        waiting[0].close()


def test_a_queue_that_does_not_move_is_given_up(path):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        begun = time.monotonic()
        with pytest.raises(IraidError, match="no connection within 0.2 s"):
            Client(path)._connect(0.2)
        assert time.monotonic() - begun > 0.1


def test_a_path_too_long_for_a_socket_is_an_error_not_a_crash(tmp_path):
    assert "too long" in failure_of(tmp_path / ("x" * 200)).message


def test_a_server_that_hangs_up_is_named_with_the_call(path):
    with ControlPeer(path, raw=b""):
        error = failure_of(path)
    assert "closed the connection without an answer to version" in error.message
    assert "journalctl" in error.remedy or "root" in error.remedy


def test_an_answer_cut_off_in_the_middle_is_told_from_no_answer(path):
    with ControlPeer(path, raw=b'{"jsonrpc"'):
        assert "after 10 bytes of its answer" in failure_of(path).message


def test_who_is_refused_before_he_asks_reads_why(path, monkeypatch):
    """As when the handler has no room for another connection: it closes without reading a request."""
    refusal = {"code": 8, "message": "32 connections are open", "data": {"type": "busy", "remedy": "close one"}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": refusal})
    connect = Client._connect
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def refused(client, seconds):
            connection = connect(client, seconds)
            with listener.accept()[0] as other_end:
                other_end.sendall(body.encode() + b"\n")
            return connection

        monkeypatch.setattr(Client, "_connect", refused)
        error = failure_of(path)
    assert (error.kind, error.message, error.remedy) == ("busy", "32 connections are open", "close one")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 400\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b'"text"\n',
        b'{"id": 1, "result": {}}\n',
        b'{"jsonrpc": "1.0", "id": 1, "result": {}}\n',
        b'{"jsonrpc": "2.0", "id": 7, "result": {}}\n',
        b'{"jsonrpc": "2.0", "id": 1}\n',
        b'{"jsonrpc": "2.0", "id": 1, "error": "no"}\n',
        b'{"jsonrpc": "2.0", "id": 1, "result": []}\n',
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n',
        b'{"jsonrpc": "2.0", "id": 1, "result": {"version": 1, "program": "x"}}\n',
        b"\n",
        pytest.param(b"[" * 200000 + b"\n", id="deeper than Python goes"),
        b'{"jsonrpc": "2.0", "id": 1, "result": {"version": "\\ud800", "program": "x"}}\n',
        b'{"jsonrpc": "2.0", "id": 1, "result": {"version": "1", "program": "x", "pid": 18446744073709551616}}\n',
    ],
)
def test_nonsense_is_an_invalid_answer(path, raw):
    with ControlPeer(path, raw=raw):
        error = failure_of(path)
    assert error.kind == "answer"
    assert "invalid answer to version" in error.message


def test_an_endless_answer_is_given_up(path, monkeypatch):
    monkeypatch.setattr(client_module, "ANSWER_BYTES_MAX", 1000)
    with ControlPeer(path, raw=b"x" * 5000):
        assert "longer than 1000 bytes" in failure_of(path).message


def test_a_handler_that_does_not_answer_is_given_up(path):
    release = threading.Event()

    def answer(_parameters):
        release.wait(10)
        return control_peer.VERSION

    with ControlPeer(path, {"version": answer}):
        with pytest.raises(IraidError) as caught:
            Client(path)._call("version", {}, seconds=0.05)
        release.set()
    assert "no answer to version within 0.05 s" in caught.value.message


def test_a_typed_error_keeps_type_message_and_remedy(path):
    failure = Failure(7, "in_use", "member X holds an ext4 file system", "use --force to overwrite it")
    with ControlPeer(path, {"volume.status": failure}):
        error = failure_of(path, lambda client: client.status("v0"))
    assert (error.kind, error.message, error.remedy) == (
        "in_use",
        "member X holds an ext4 file system",
        "use --force to overwrite it",
    )


def test_an_error_without_data_gets_its_type_from_the_code(path):
    body = {"jsonrpc": "2.0", "id": 1, "error": {"code": 2, "message": "no volume v9"}}
    with ControlPeer(path, raw=json.dumps(body).encode() + b"\n"):
        with pytest.raises(IraidError) as caught:
            Client(path).status("v9")
    assert caught.value.kind == "not_found"


def test_an_error_whose_code_is_no_number_keeps_its_message(path):
    with ControlPeer(path, raw=b'{"jsonrpc": "2.0", "id": 1, "error": {"message": "no", "code": []}}\n'):
        with pytest.raises(IraidError) as caught:
            Client(path).version()
    assert (caught.value.message, caught.value.kind) == ("no", "internal")


def test_an_answer_in_many_pieces_is_put_together(path):
    many = {"volumes": [control_peer.volume(f"v{i}") for i in range(200)]}
    with ControlPeer(path, {"volume.list": many}):
        assert len(Client(path).volumes()) == 200


def test_fields_that_are_absent_null_or_new_do_not_break_the_client(path):
    answer = {"name": "v0", "state": "stopped", "uuid": None, "members": None, "invented": 1}
    with ControlPeer(path, {"volume.status": answer}):
        volume = Client(path).status("v0")
    assert (volume.uuid, volume.members, volume.level) == ("", [], None)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"members": {}}, "result.members is dict, not a list"),
        ({"members": [{"member": 5}]}, "result.members[0].member is int, not str"),
        ({"size_bytes": "big"}, "result.size_bytes is str, not int"),
        ({"size_bytes": True}, "result.size_bytes is bool, not int"),
        ({"regions": []}, "result.regions is list, not an object"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(path, change, where):
    with ControlPeer(path, {"volume.status": control_peer.volume(**change)}):
        error = failure_of(path, lambda client: client.status("v0"))
    assert error.message.endswith(f"invalid answer to volume.status: {where}")


# --- all volumes ---

FAULT = "/etc/iraid/volumes/v1.conf:58: give_upp: there is no such key"


def listed(*failures):
    """A handler with volumes v2, v1 and v0, of which volume.status fails as given: name -> Failure."""
    failing = dict(failures)
    names = ("v2", "v1", "v0")
    return {
        "volume.list": {
            "volumes": [
                {"name": name, "state": "failed" if name == "v1" else "active", "reason": FAULT if name == "v1" else ""}
                for name in names
            ]
        },
        "volume.status": lambda p: failing.get(p["name"]) or control_peer.volume(p["name"]),
    }


def test_a_volume_whose_file_has_a_fault_is_as_the_list_has_it_and_hides_no_other(path):
    with ControlPeer(path, listed(("v1", Failure(1, "invalid", FAULT, "correct the file")))):
        volumes = status_of_all(Client(path))
    assert [(one.name, one.state, one.reason) for one in volumes] == [
        ("v0", "active", ""),
        ("v1", "failed", FAULT),
        ("v2", "active", ""),
    ]
    assert [len(one.members) for one in volumes] == [4, 0, 4]


def test_a_volume_that_was_deleted_since_it_was_listed_is_left_out(path):
    with ControlPeer(path, listed(("v1", Failure(2, "not_found", "no volume v1", "iraid list")))):
        assert [one.name for one in status_of_all(Client(path))] == ["v0", "v2"]


@pytest.mark.parametrize("kind", ["unavailable", "permission", "answer"])
def test_a_handler_that_does_not_answer_is_no_fault_of_a_volume(path, kind):
    with ControlPeer(path, listed(("v2", Failure(10, kind, "no answer", "iraid version")))):
        with pytest.raises(IraidError) as caught:
            status_of_all(Client(path))
    assert caught.value.kind == kind
