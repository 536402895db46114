"""A round trip to each target that can be set: proxies in a process of their own."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import socket
from multiprocessing.connection import Connection


class Delays:
    """In front of members ("host:port/iqn[/lun]"): every byte leaves half of `ms` later, either way."""

    def __init__(self, members: list[str]):
        ours, theirs = multiprocessing.Pipe()
        self._half = multiprocessing.RawValue(ctypes.c_double, 0.0)
        ports = [int(member.split("/")[0].rpartition(":")[2]) for member in members]
        self._process = multiprocessing.Process(target=_serve, args=(ports, self._half, theirs), daemon=True)
        self._process.start()
        theirs.close()
        try:
            fronts: list[int] = ours.recv()
        except EOFError:
            raise SystemExit("delays: the proxies did not start") from None
        self.members = [
            member.replace(f":{port}/", f":{front}/", 1)
            for member, port, front in zip(members, ports, fronts, strict=True)
        ]

    def set(self, ms: float) -> None:
        """From now on."""
        self._half.value = ms / 2000

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def _serve(ports: list[int], half: ctypes.c_double, pipe: Connection) -> None:
    async def run() -> None:
        fronts = []
        for port in ports:
            server = await asyncio.start_server(lambda r, w, port=port: _pair(r, w, port, half), "127.0.0.1", 0)
            fronts.append(server.sockets[0].getsockname()[1])
        pipe.send(fronts)
        await asyncio.Event().wait()

    asyncio.run(run())


async def _pair(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    port: int,
    half: ctypes.c_double,
) -> None:
    try:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    for end in (writer, back_writer):
        end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await asyncio.gather(_way(reader, back_writer, half), _way(back_reader, writer, half))


async def _way(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    half: ctypes.c_double,
) -> None:
    """What was read leaves in order, or at once when the delay is taken away."""
    loop = asyncio.get_running_loop()
    last = 0.0
    data = b"-"
    while data:
        try:
            data = await reader.read(1 << 18)
        except OSError:
            data = b""
        last = max(last, loop.time() + half.value)
        loop.call_at(last, _send, writer, data)


def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    if writer.is_closing():
        return
    if data:
        writer.write(data)
    else:
        writer.close()
