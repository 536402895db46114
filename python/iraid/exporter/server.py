"""HTTP for metrics and page, read-only: GET and HEAD of five paths, one request per connection.

What it does not trust, and how it is bounded:

    who connects         CONNECTIONS_MAX at a time, the next is told 503; REQUEST_SECONDS_MAX each, however slowly it
                         talks; no body is read
    a foreign page       the Host header must be an address, localhost, this machine's name or one that was allowed, so
                         that no name of somebody else's can be pointed here (DNS rebinding); nothing is offered across
                         origins, nor in a frame
    names of volumes     go out as JSON and metrics only; the page puts them in as text, and its policy runs no script
                         but its own file

It has no logins and no TLS: it is for loopback, or for a network that may know what it shows; a proxy can add both.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import socket
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from .gather import Gatherer
from .history import History
from .view import page_data

CONNECTIONS_MAX = 32
REQUEST_SECONDS_MAX = 30.0
IDLE_SECONDS_MAX = 10.0
GZIP_BYTES_MIN = 1024
PAGE = Path(__file__).parent / "page"
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Hosts:
    """The Host headers that are answered."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower().rstrip(".") for name in allowed)}

    def accept(self, header: str | None) -> bool:
        """An address says nothing about the asker, but no foreign page can have made it mean us."""
        if not header:  # HTTP/1.0 without one: no browser
            return True
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
            return True
        except ValueError:
            return name.rstrip(".") in self._names


class Request(BaseHTTPRequestHandler):
    server: Server
    server_version = "iraid"
    sys_version = ""
    timeout = IDLE_SECONDS_MAX  # of each read and write

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET  # noqa: N815

    def _answer(self) -> None:
        if not self.server.hosts.accept(self.headers.get("Host")):
            return self.send_error(
                421, "the host name in this request is not allowed; allow it with: iraid exporter --allow-host NAME"
            )
        try:
            parts = urlsplit(self.path)
            kind, content = self.server.content(parts.path, parse_qs(parts.query), self.headers.get("Accept", ""))
        except KeyError:
            return self.send_error(404, "no such page: there are /, /metrics and /api/v1/status")
        except ValueError as error:
            return self.send_error(400, str(error))
        except Exception:  # noqa: BLE001 - one request must not end the server; the log says what it was
            traceback.print_exc()
            return self.send_error(500, "the exporter failed: its log has the reason (journalctl -u iraid-exporter)")
        self._send(200, kind, content)

    def _send(self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        headers = {"Content-Type": kind, **HEADERS, **(more or {})}
        if len(content) >= GZIP_BYTES_MIN and _takes_gzip(self.headers.get("Accept-Encoding", "")):
            content = gzip.compress(content, compresslevel=1)
            headers |= {"Content-Encoding": "gzip"}
        headers |= {"Vary": "Accept, Accept-Encoding", "Content-Length": str(len(content)), "Connection": "close"}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Also what http.server itself objects to.  Methods that we don't have come as 501."""
        if not hasattr(self, "headers"):
            self.headers = self.MessageClass()  # the request line was bad
        more = {}
        if code == 501:
            code, message, more = 405, "only GET and HEAD", {"Allow": "GET, HEAD"}
        self._send(code, "text/plain; charset=utf-8", f"{message or self.responses[code][0]}\n".encode(), more)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: Prometheus asks all day long."""


def _takes_gzip(header: str) -> bool:
    return any(one.split(";")[0].strip().lower() == "gzip" for one in header.split(","))


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        address: str,
        port: int,
        gatherer: Gatherer,
        history: History,
        registry: CollectorRegistry,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        """Listens at once; OSError if it can't."""
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.hosts = Hosts(allowed_hosts)
        self._gatherer, self._history, self._registry = gatherer, history, registry
        self._files = {path: (kind, (PAGE / name).read_bytes()) for path, (name, kind) in PAGE_FILES.items()}
        self._open: dict[socket.socket, float] = {}  # connection -> until when
        self._open_lock = threading.Lock()
        super().__init__((address, port), Request)

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def content(self, path: str, query: dict[str, list[str]], accept: str) -> tuple[str, bytes]:
        """Type and bytes.  KeyError: there is no such path; ValueError: bad query."""
        if path == "/metrics":
            encode, kind = choose_encoder(accept)
            return kind, encode(self._registry)
        if path == "/api/v1/status":
            data = page_data(self._gatherer.snapshot(), self._gatherer.last_good, self._history, _after(query))
            return "application/json", json.dumps(data, separators=(",", ":")).encode()
        return self._files[path]

    # --- bounds ---

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            full = len(self._open) >= CONNECTIONS_MAX
            if not full:
                self._open[request] = time.monotonic() + REQUEST_SECONDS_MAX
        if not full:
            return super().process_request(request, client_address)
        request.setblocking(False)
        try:
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 2\r\n\r\n")
        except OSError:
            pass
        self.shutdown_request(request)

    def close_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.pop(request, None)
        super().close_request(request)

    def service_actions(self) -> None:
        """Twice a second: end those who take too long.  Their threads see the end of the connection."""
        now = time.monotonic()
        with self._open_lock:
            late = [request for request, until in self._open.items() if until < now]
            for request in late:
                try:
                    request.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone, or took too long."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _after(query: dict[str, list[str]]) -> int:
    text = query.get("after", ["0"])[-1]
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ValueError("after: milliseconds since 1970")
    return int(text)
