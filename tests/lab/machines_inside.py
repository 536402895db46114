"""What test_machines.py runs beside two machines, a and b."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from iraid_dev.lab.machines import Machine, MachineGone, Machines

SINK = """
import socket
with socket.create_server(("", 5000)) as server:
    print("up", flush=True)
    connection = server.accept()[0]
    count = 0
    while data := connection.recv(1 << 20):
        count += len(data)
    print(count)
"""
SOURCE = """
import socket
with socket.create_connection(("b", 5000)) as connection:
    for _ in range(32):
        connection.sendall(bytes(1 << 20))
"""


@pytest.fixture(scope="module")
def machines() -> Machines:
    return Machines.of_this_lab()


@pytest.fixture
def a(machines: Machines) -> Machine:
    return machines["a"]


@pytest.fixture
def b(machines: Machines) -> Machine:
    return machines["b"]


def hears(machine: Machine, address: str) -> bool:
    return machine.run(f"ping -q -c 1 -W 2 {address}").status == 0


def test_each_is_a_machine_of_its_own(a, b):
    asked = "hostname; cat /etc/machine-id /etc/iscsi/initiatorname.iscsi; id -u; pwd"
    first, second = (machine.run(asked).good().output.split("\n") for machine in (a, b))
    assert first[0] == "a" and second[0] == "b"
    assert first[1] != second[1] and first[2] != second[2]
    assert first[3:5] == ["0", os.getcwd()]


def test_a_command_has_input_output_errors_and_a_status(a):
    done = a.run("cat; echo bad >&2; exit 7", given="text")
    assert (done.status, done.output, done.errors) == (7, "text", "bad\n")


def test_a_command_has_an_end_and_others_go_on_beside_it(a):
    background = a.start("sleep 1000", seconds=3.0)
    assert a.run("echo here").output == "here\n"
    assert background.wait(30.0).status == 124


def test_they_are_neighbours_in_three_networks_and_so_is_the_command(a, b):
    for net in ("front", "back", "peer"):
        assert hears(a, b.address(net))
        assert subprocess.run(["ping", "-q", "-c", "1", "-W", "2", b.address(net)], check=False).returncode == 0
    assert hears(a, "b") and hears(a, "10.77.1.1")


def test_a_stream_goes_from_one_to_the_other(a, b):
    sink = b.start(f"python3 -c '{SINK}' >/tmp/sink; cat /tmp/sink")
    b.run("until [ -s /tmp/sink ]; do sleep 0.05; done").good()
    a.run(f"python3 -c '{SOURCE}'").good()
    assert sink.wait(60.0).output == f"up\n{32 << 20}\n"


def test_a_cable_is_cut_and_healed(a, b):
    """Who hears this machine by its address of the data link goes on doing it."""

    def link() -> str:
        return subprocess.run(["ip", "-br", "link", "show", "back"], capture_output=True, text=True, check=True).stdout

    before = link()
    a.cut("back")
    b.cut("back")
    assert link().split()[2] == before.split()[2]
    b.heal("back")
    assert not hears(a, b.address("back")) and hears(a, b.address("front"))
    a.heal("back")
    assert hears(a, b.address("back"))


def test_two_are_cut_off_from_each_other_only(a, b):
    a.cut_from("back", "10.77.1.1")
    assert not hears(a, "10.77.1.1") and hears(b, "10.77.1.1") and hears(a, b.address("back"))
    a.heal_from("back", "10.77.1.1")
    assert hears(a, "10.77.1.1")


def test_a_cable_is_slow(a, b):
    def milliseconds() -> float:
        line = a.run(f"ping -q -c 1 -W 10 {b.address('peer')}").good().output.splitlines()[-1]
        return float(line.split("=")[1].split("/")[0])

    b.slow("peer", "delay 300ms")
    assert milliseconds() >= 300
    b.quick("peer")
    assert milliseconds() < 300


def test_one_that_stands_still_goes_on_where_it_was(a, b):
    counting = "n=0; while ! [ -e /tmp/end ]; do n=$((n + 1)); echo $n >/tmp/count; sleep 0.01; done"
    background = b.start(counting)
    b.run("until [ -s /tmp/count ]; do sleep 0.05; done").good()
    b.freeze()
    with pytest.raises(MachineGone):
        b.run("true", seconds=2.0)
    assert not hears(a, "b")
    b.thaw()
    before = int(b.run("cat /tmp/count").good().output)
    b.run(f"until [ $(cat /tmp/count) -gt {before} ]; do sleep 0.05; done; touch /tmp/end").good()
    assert background.wait(30.0).status == 0


def test_one_that_is_killed_is_gone_and_comes_back_with_what_it_had_written(a, b):
    b.run("echo kept >/root/kept; sync; echo lost >/dev/shm/lost").good()
    background = b.start("sleep 1000")
    b.kill()
    with pytest.raises(MachineGone):
        background.wait(30.0)
    with pytest.raises(MachineGone):
        b.run("true", seconds=2.0)
    b.boot()
    assert b.run("cat /root/kept; ls /dev/shm").good().output == "kept\n"
    assert hears(a, "b")
    assert len(list(b.state.glob("kernel*.log"))) == 2


def test_threads_of_the_command_may_ask_at_the_same_time(a, b):
    answers: list[str] = []

    def ask(machine: Machine) -> None:
        answers.append(machine.run("hostname").good().output)

    threads = [threading.Thread(target=ask, args=(machine,)) for machine in (a, b) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["a\n"] * 4 + ["b\n"] * 4
