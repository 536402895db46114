"""The exporter's parts put together, for cli/exporter.py and tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.exposition import generate_latest

from .gather import Gatherer, Sampler
from .history import INTERVAL_SECONDS, History
from .metrics import registry_of
from .server import Server
from .view import page_data


class Service:
    """Listens from its making on (OSError if it can't), answers as a context manager."""

    def __init__(
        self,
        socket: Path | str,
        address: str,
        port: int,
        allowed_hosts: Iterable[str] = (),
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        gatherer, history = Gatherer(socket), History()
        self._server = Server(address, port, gatherer, history, registry_of(gatherer), allowed_hosts)
        self._sampler = Sampler(gatherer, interval_seconds, history.add)
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> Service:
        self._sampler.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._sampler.stop()


def metrics_once(socket: Path | str) -> str:
    return generate_latest(registry_of(Gatherer(socket))).decode()


def page_data_once(socket: Path | str) -> str:
    return json.dumps(page_data(Gatherer(socket).snapshot(), None, History()), indent=2) + "\n"
