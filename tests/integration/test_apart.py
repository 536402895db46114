"""One volume's trouble is not another's, nor is one program's."""

from __future__ import annotations

import fcntl
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, Process, RpcError, build_folder, call, wait_until

SPARE_BYTES = 24 << 20
SILENT = 6


@contextmanager
def portals_that_say_nothing() -> Iterator[list[str]]:
    """They take connections, and answer no login."""
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=50) for _ in range(SILENT)]
    try:
        yield [f"127.0.0.1:{one.getsockname()[1]}" for one in listeners]
    finally:
        for one in listeners:
            one.close()


def answer_to(gateway: Gateway, method: str, **parameters: object) -> list[dict | Exception]:
    """Filled by a thread when there is one."""
    answers: list[dict | Exception] = []

    def ask() -> None:
        try:
            answers.append(call(gateway.socket, method, **parameters))
        except (RpcError, OSError, ValueError) as error:
            answers.append(error)

    threading.Thread(target=ask, daemon=True).start()
    return answers


def test_a_search_among_silent_spares_holds_up_no_other_volume(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    members = make_farm(8).members()
    gateway.create("v0", members[:4])
    call(gateway.socket, "volume.create", name="v1", level=5, members=members[4:7], spares=[members[7]])
    gateway.configure("v0", spare_wait_seconds=1)
    with portals_that_say_nothing() as portals:
        lines = [
            f"spare = {portal}/iqn.2026-01.org.iraid.test:s{number}/1 size={SPARE_BYTES} block=512"
            for number, portal in enumerate(portals)
        ]
        (gateway.config / "gateway.conf").write_text("\n".join(["[spares]", *lines, ""]))
        call(gateway.socket, "config.reload")
        call(gateway.socket, "member.fail", name="v0", member="1")
        wait_until(
            lambda: any(
                event["kind"] == "spare wanted" or "spare" in event["text"]
                for event in call(gateway.socket, "events")["events"]
                if event["volume"] == "v0"
            ),
            "a spare to be looked for",
        )
        removed = answer_to(gateway, "member.remove", name="v1", member=members[7])
        wait_until(lambda: removed, "the removal from the other volume")  # each silent one takes 10 s
        assert isinstance(removed[0], dict), removed
        assert members[7] not in (gateway.config / "volumes/v1.conf").read_text()


def test_who_holds_the_lock_of_files_holds_up_no_volume(gateway: Gateway, make_farm: Callable[..., TargetFarm]) -> None:
    """A program that was stopped in the midst of an edit, say."""
    members = make_farm(8).members()
    gateway.create("v0", members[:4])
    gateway.create("v1", members[4:])
    gateway.must("stop", "v1")
    with (gateway.folder / "run/volumes.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = answer_to(gateway, "volume.set", name="v0", sync_rate_min_bytes=2 << 20)
        started = answer_to(gateway, "volume.start", name="v1", wait_seconds=10)
        wait_until(lambda: started, "the other volume's start")
        assert isinstance(started[0], dict) and started[0]["state"] == "active", started
        wait_until(lambda: changed, "an answer to who wanted to change the file")
        assert "volumes.lock" in str(changed[0])


def test_a_delete_that_can_not_have_the_lock_of_files_is_done_by_the_same_command(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    gateway.create("v0", make_farm(4).members())
    with (gateway.folder / "run/volumes.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = gateway.iraid("delete", "v0", "--yes")
        assert ran.status == 1 and "volumes.lock" in ran.err and "run the same command again" in ran.err, ran
    gateway.must("delete", "v0", "--yes")
    assert not list((gateway.config / "volumes").glob("v0*"))


def test_of_two_programs_that_create_one_name_one_is_told_that_it_exists(
    gateway: Gateway, make_farm: Callable[..., TargetFarm]
) -> None:
    members = make_farm(8).members()
    socket_path = gateway.socket.with_name("other.sock")
    other = Process(
        [build_folder() / "handler/adapters/iraid-engine", "--socket", socket_path],
        gateway.environment(),
        gateway.folder / "second.log",
    )
    try:
        wait_until(lambda: "ready" in other.said(), "the second engine")
        answers: list[dict | RpcError] = []

        def create(path: object, devices: list[str]) -> None:
            try:
                answers.append(call(path, "volume.create", name="v0", level=5, members=devices))
            except RpcError as error:
                answers.append(error)

        threads = [
            threading.Thread(target=create, args=(gateway.socket, members[:4])),
            threading.Thread(target=create, args=(socket_path, members[4:])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        other.stop()
    refused = [answer for answer in answers if isinstance(answer, RpcError)]
    assert len(answers) == 2 and len(refused) == 1 and "there is already a volume" in str(refused[0]), answers
