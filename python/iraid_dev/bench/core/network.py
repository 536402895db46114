"""Networks that a benchmark makes for itself: a namespace for each target, a shaped link to the gateway's.

    gateway (the namespace we are in)                      "target0"
        gw0  10.77.0.1/30  ----- veth, netem both ways -----  tg0  10.77.0.2/30
        gw1  10.77.1.1/30  ---------------------------------  ...

netem's `rate` is the link's speed and half of the RTT is its delay, in each direction.  The queue has room for everything
(`limit`): what is lost is what `loss` says, never a buffer of ours that was too small.

Packets leave in slots of a millisecond.  A timer for each packet is what netem does otherwise, and in user-mode Linux, where an
interrupt costs 100 us, eight such queues used half of the processor: a volume on four links of 1 Gbit/s and RTT 8 ms went from
93 to 157 MB/s.  The price: a shaped link's RTT is up to 3 ms above what was asked for.  What TCP measures is in each row.
Where single round trips are measured, a link has no slots.
"""

from __future__ import annotations

import ctypes
import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rtslib_fb as rtslib

from iraid_dev.stack.lio_targets import LioTargets
from iraid_dev.stack.tools import StackError, run

LIMIT_PACKETS = 100_000
SLOT = "1ms"
BUFFER_BYTES_MAX = 128 << 20
CONGESTION_CONTROLS = ("reno", "bic", "westwood", "htcp", "cubic", "bbr")
MTU_MAX = 65535
SYSCTL = Path("/proc/sys")
NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
STREAM_PORT = 5001
CLOSED_PORT = 9
ROUND_TRIPS = 9
STREAM_BYTES = 1 << 20  # of one call: in user-mode Linux a call costs 76 us


@dataclass(frozen=True)
class Link:
    """What a link is like.  0 Mbit/s: as fast as the machine moves it."""

    rtt_ms: float = 0.0
    rate_mbit: float = 0.0
    mtu: int = 1500
    loss_percent: float = 0.0
    reorder_percent: float = 0.0
    corrupt_percent: float = 0.0
    # Segments of MTU size from TCP on.  Otherwise the kernel passes 64 KiB at once, as cards do, and one "packet" lost is 64 KiB
    # lost.
    single_segments: bool = False
    slots: bool = True

    def __post_init__(self) -> None:
        if not 576 <= self.mtu <= MTU_MAX:
            raise ValueError(f"an MTU of {self.mtu} is not in 576..{MTU_MAX}")
        if min(self.rtt_ms, self.rate_mbit) < 0:
            raise ValueError(f"{self}: neither RTT nor rate can be negative")
        for percent in (self.loss_percent, self.reorder_percent, self.corrupt_percent):
            if not 0 <= percent <= 100:
                raise ValueError(f"{self}: {percent} is no percentage")
        if self.reorder_percent and not self.rtt_ms:
            raise ValueError(f"{self}: only on a link with a delay can a packet overtake others")

    @property
    def bytes_per_s(self) -> float:
        return self.rate_mbit * 1e6 / 8

    def netem(self) -> list[str]:
        """Arguments of one direction; [] where there is nothing to shape."""
        words = []
        if self.rtt_ms:
            words += ["delay", f"{self.rtt_ms / 2:g}ms"]
        if self.reorder_percent:
            words += ["reorder", f"{self.reorder_percent:g}%"]
        if self.loss_percent:
            words += ["loss", f"{self.loss_percent:g}%"]
        if self.corrupt_percent:
            words += ["corrupt", f"{self.corrupt_percent:g}%"]
        if self.rate_mbit:
            words += ["rate", f"{self.rate_mbit:g}mbit"]
        slot = ["slot", SLOT] if self.slots else []
        return [*words, *slot, "limit", str(LIMIT_PACKETS)] if words else []


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is in the namespace meanwhile: sockets that it makes belong there, also those that a write to configfs
    makes the kernel open."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(descriptor: int) -> None:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns({namespace}): {os.strerror(number)}")

    home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    try:
        there = os.open(NAMESPACES / namespace, os.O_RDONLY)
        try:
            enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(home)


def set_sysctl(name: str, value: str) -> None:
    """Of the namespace that this thread is in."""
    (SYSCTL / name.replace(".", "/")).write_text(value)


class Network:
    """Context manager over `count` namespaces with a link each."""

    def __init__(self, count: int):
        self.count = count
        self.link = Link()

    def __enter__(self) -> Network:
        for module in (
            "veth",
            "sch_netem",
            *(f"tcp_{name}" for name in CONGESTION_CONTROLS if name not in ("reno", "cubic")),
        ):
            run("modprobe", module)
        try:
            for number in range(self.count):
                self._make(number)
            self._everywhere(self._tune)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for number in range(self.count):
            if (NAMESPACES / self.namespace(number)).exists():
                run("ip", "netns", "del", self.namespace(number))  # the link goes with it

    @staticmethod
    def namespace(number: int) -> str:
        return f"target{number}"

    @staticmethod
    def address(number: int) -> str:
        return f"10.77.{number}.2"

    @staticmethod
    def device(number: int) -> str:
        return f"gw{number}"

    def _make(self, number: int) -> None:
        name, near, far = self.namespace(number), self.device(number), f"tg{number}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        run("ip", "addr", "add", f"10.77.{number}.1/30", "dev", near)
        run("ip", "link", "set", near, "up")
        run("ip", "-n", name, "addr", "add", f"{self.address(number)}/30", "dev", far)
        run("ip", "-n", name, "link", "set", far, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")

    def _everywhere(self, action: Callable[[], None]) -> None:
        action()
        for number in range(self.count):
            with inside(self.namespace(number)):
                action()

    @staticmethod
    def _tune() -> None:
        # What one connection learned of a link must not be the next one's start on another link.
        set_sysctl("net.ipv4.tcp_no_metrics_save", "1")

    def set_buffers(self, bytes_max: int | None) -> None:
        """For long links: TCP's automatic buffers may grow to this, and silence does not close the window; None: the kernel's
        own settings."""
        send, receive = (bytes_max, bytes_max) if bytes_max else (4 << 20, 6 << 20)

        def action() -> None:
            set_sysctl("net.ipv4.tcp_wmem", f"4096 16384 {send}")
            set_sysctl("net.ipv4.tcp_rmem", f"4096 131072 {receive}")
            # By default a connection that was silent for an RTO (280 ms at RTT 64) begins with ten segments again.  Commands
            # come in bursts, so on a long link a volume took 15 s to get going (run).
            set_sysctl("net.ipv4.tcp_slow_start_after_idle", "0" if bytes_max else "1")

        self._everywhere(action)
        set_sysctl("net.core.netdev_max_backlog", str(LIMIT_PACKETS))  # between the two ends of a link; 1000 by default
        for name in ("rmem_max", "wmem_max"):  # of those that ask for a size; for all namespaces
            set_sysctl(f"net.core.{name}", str(bytes_max or 212992))

    def set_congestion_control(self, name: str) -> None:
        """Of connections that are made from now on."""
        self._everywhere(lambda: set_sysctl("net.ipv4.tcp_congestion_control", name))

    def shape(self, link: Link) -> None:
        """All links, at once and in both directions.  Connections stay."""
        for number in range(self.count):
            self.shape_one(number, link)
        self.link = link

    def shape_one(self, number: int, link: Link) -> None:
        """In both directions.  Whoever shapes one link shapes it back before all are shaped."""
        segments = "1" if link.single_segments else "65535"
        near: list[str] = []
        far = ["-n", self.namespace(number)]
        for place, device in ((near, self.device(number)), (far, f"tg{number}")):
            run("ip", *place, "link", "set", "dev", device, "mtu", str(link.mtu), "gso_max_segs", segments)
            words = link.netem()
            if words:
                run("tc", *place, "qdisc", "replace", "dev", device, "root", "netem", *words)
            elif "netem" in run("tc", *place, "qdisc", "show", "dev", device):
                run("tc", *place, "qdisc", "del", "dev", device, "root")

    def bytes_moved(self, number: int) -> tuple[int, int]:
        """Sent and received by the gateway over a link, headers included."""
        folder = Path("/sys/class/net", self.device(number), "statistics")
        return int((folder / "tx_bytes").read_text()), int((folder / "rx_bytes").read_text())

    def round_trip_ms(self, number: int) -> float:
        """To a target: the median of connections to a port where nobody listens, each of one round trip."""
        found = []
        for _ in range(ROUND_TRIPS):
            with socket.socket() as probe:
                begin = time.monotonic()
                probe.connect_ex((self.address(number), CLOSED_PORT))
                found.append(1000 * (time.monotonic() - begin))
        return statistics.median(found)

    def connections(self) -> str:
        """TCP_INFO of what the gateway has open to targets, for people."""
        return run("ss", "-tinHmO", "dst", "10.77.0.0/16")

    def stream(self, number: int, seconds: float, warm_up_seconds: float = 0.0) -> float:
        """MB/s of one plain TCP connection from the gateway to a target, nothing else in it."""
        with inside(self.namespace(number)):
            listener = socket.create_server((self.address(number), STREAM_PORT))
        child = os.fork()
        if child == 0:
            _receive_all(listener)
            os._exit(0)
        listener.close()
        try:
            return _send_for(self.address(number), seconds, warm_up_seconds)
        finally:
            os.waitpid(child, 0)


class NetworkTargets(LioTargets):
    """LIO targets, each listening in its namespace of a Network."""

    first = 0  # the namespace of target 0

    def address(self, number: int) -> str:
        return Network.address(self.first + number)

    def _listen(self, group: rtslib.TPG, number: int) -> None:
        # The kernel opens the socket in the namespace of the process that asks for the portal.
        with inside(Network.namespace(self.first + number)):
            super()._listen(group, number)


def _receive_all(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    buffer = bytearray(STREAM_BYTES)
    while connection.recv_into(buffer):
        pass


def _acknowledged(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    acknowledged: int = struct.unpack_from("Q", info, 120)[0]  # tcpi_bytes_acked
    return acknowledged


def _send_for(address: str, seconds: float, warm_up_seconds: float) -> float:
    """What the other side has acknowledged counts, not what our own kernel has taken."""
    data = bytes(STREAM_BYTES)
    with socket.create_connection((address, STREAM_PORT)) as connection:
        started = begin = time.monotonic()
        first = 0
        warm = warm_up_seconds == 0
        while (now := time.monotonic()) < started + warm_up_seconds + seconds:
            if not warm and now >= started + warm_up_seconds:
                warm, begin, first = True, now, _acknowledged(connection)
            connection.sendall(data)
        moved = _acknowledged(connection) - first
        elapsed = time.monotonic() - begin
    if moved <= 0:
        raise StackError(f"nothing of a stream to {address} was acknowledged in {elapsed:.1f} s")
    return moved / elapsed / 1e6
