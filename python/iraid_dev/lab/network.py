"""The virtual networks between the machines of a lab, all in the network namespace of its run.

Each network is a bridge of this machine, which has the address .1 in it.  A machine has a card in each; its cable is a
veth pair: one end is a port of the bridge, the other end is what the machine's kernel sends and receives raw packets on.
A cable is cut by taking its port out of the bridge: both ends go on sending and hear nothing, as behind a dead switch.
"""

from __future__ import annotations

import subprocess

from .run import LabError, Nic

CONTROL = "control"  # only the lab's own: it is never cut
NETWORKS = ("front", "back", "peer", CONTROL)  # initiators, members, between the gateways


def address(network: str, host: int) -> str:
    """host 1 is this machine."""
    return f"10.77.{NETWORKS.index(network)}.{host}"


def _mac(network: str, host: int) -> str:
    return f"02:00:00:00:{NETWORKS.index(network):02x}:{host:02x}"


def nic(network: str, machine: str, host: int) -> Nic:
    return Nic(
        network,
        address(network, host),
        f"{machine}.{network}.m",
        _mac(network, host),
    )


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(
            f"'ip {' '.join(words)}' failed: {done.stderr.strip()}; several machines need a kernel with "
            "network namespaces, bridges, veth and policy routing, and CAP_NET_ADMIN"
        )


def make(machines: list[str]) -> None:
    ip("link", "set", "lo", "up")
    # Rules of cut pairs stand before the one that delivers to addresses of this machine.
    ip("rule", "add", "preference", "100", "lookup", "local")
    ip("rule", "del", "preference", "0")
    for network in NETWORKS:
        # An address of its own: else it has that of one of its ports, and another one when that cable is cut.
        ip("link", "add", network, "address", _mac(network, 1), "type", "bridge")
        ip("address", "add", f"{address(network, 1)}/24", "dev", network)
        ip("link", "set", network, "up")
        for machine in machines:
            port, far_end = f"{machine}.{network}", f"{machine}.{network}.m"
            ip("link", "add", port, "type", "veth", "peer", "name", far_end)
            for end in (port, far_end):
                ip("link", "set", end, "up")
            ip("link", "set", port, "master", network)


def cut(network: str, machine: str) -> None:
    ip("link", "set", f"{machine}.{network}", "nomaster")


def heal(network: str, machine: str) -> None:
    ip("link", "set", f"{machine}.{network}", "master", network)


def cut_pair(one: str, other: str) -> None:
    """What an address of this machine and one of a machine say to each other is dropped without a word."""
    for source, destination in ((one, other), (other, one)):
        ip("rule", "add", "preference", "10", "from", source, "to", destination, "blackhole")


def heal_pair(one: str, other: str) -> None:
    for source, destination in ((one, other), (other, one)):
        ip("rule", "del", "preference", "10", "from", source, "to", destination, "blackhole")
