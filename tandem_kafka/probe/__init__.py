"""Serves the health of consumers by HTTP, for probes of Kubernetes, load balancers and people."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from tandem_kafka import Health
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.logs import client_logger
from tandem_kafka.probe.history import INTERVAL_MS, SHARE, History
from tandem_kafka.probe.page import View, page
from tandem_kafka.runtime import Clock, Runtime
from tandem_kafka.runtime.process import PROCESS

__all__ = ["Probe"]

log = client_logger(__name__)

PATHS = ("/live", "/ready")
#: A browser loads nothing besides the page, and runs no script in it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: How long a client may send nothing.
REQUEST_TIMEOUT_S = 5.0


class _Checked(Protocol):
    """A `KafkaConsumer`, a `ShareConsumer`, or one of those for asyncio."""

    def health(self) -> Health:
        """Return the health."""
        ...


class Probe:
    """A small web server in a thread, until ``close()`` or the end of a ``with`` block.

    ``GET /live`` has the status 200 if all consumers are alive, ``GET /ready`` if all are ready,
    and 503 otherwise. The body is JSON: ``ok``, and the reasons by ``client_id``. A request never
    waits for a consumer.

    ``GET /`` is a page for people: group, partitions with position and lag, the lag of the last ten
    minutes, troubles, and the last rebalances. It has no values of records.

    Args:
        *consumers: The consumers, of either kind.
        port: The port; 0 takes a free one.
        host: The address to listen on. All IPv4 addresses of the machine by default, because
            probes come from outside of a container; ``"::"`` takes IPv6, and on most systems both.
        public_page: Serve the page to other machines, too. By default, they get the status 403.

    Attributes:
        port: The port.

    Raises:
        InvalidArgumentError: There is no consumer.
        OSError: The port is taken.
    """

    def __init__(
        self,
        *consumers: _Checked,
        port: int = 8080,
        host: str = "",
        public_page: bool = False,
    ) -> None:
        if not consumers:
            raise InvalidArgumentError("Probe() needs at least one consumer")
        runtime = Runtime.threaded()
        self._server = _Server((host, port), consumers, runtime.clock, public_page=public_page)
        self.port: int = self._server.server_address[1]
        self._pid = PROCESS.pid
        runtime.driver.offload(self._server.serve_forever, lambda _: None)

    def close(self) -> None:
        """Stop the server and close its socket; a fork of the process only has the socket."""
        if self._pid == PROCESS.pid:
            self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """The server, with the past of each consumer.

    Writer: the thread of the server adds samples. Requests have threads of their own.
    """

    daemon_threads = True
    #: Connections that wait: probes and load balancers may come all at once.
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        consumers: Sequence[_Checked],
        clock: Clock,
        *,
        public_page: bool,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)
        self.public_page = public_page
        self._past = [(consumer, History()) for consumer in consumers]
        self._clock = clock
        self._next_ms = 0

    def server_bind(self) -> None:
        """Bind without a question to the resolver, which may hang."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def service_actions(self) -> None:
        """Take a sample if it is time; the server calls this twice a second."""
        begin_ms = self._clock.now_ms()
        if begin_ms < self._next_ms:
            return
        try:
            for consumer, history in self._past:
                history.add(consumer.health(), begin_ms)
        except Exception:
            # Invariant: an error here would end the server, and with it the probes.
            log.exception("the page of the probe has no sample of the health")
        took_ms = self._clock.now_ms() - begin_ms
        self._next_ms = begin_ms + max(INTERVAL_MS, int(took_ms / SHARE))

    def handle_error(self, *_: object) -> None:
        """Log what fails in a request; a client that leaves is no error."""
        error = sys.exception()
        if not isinstance(error, OSError):
            log.error("a request to the probe failed: %r", error, exc_info=error)

    def page(self) -> str:
        """Return the page of this moment."""
        views = [View(consumer.health(), history) for consumer, history in self._past]
        return page(views, self._clock.now_ms())

    def reasons(self, path: str) -> dict[str, Sequence[str]]:
        """Return why each consumer is not what the path says."""
        found: dict[str, Sequence[str]] = {}
        for consumer, _ in self._past:
            health = consumer.health()
            reasons = health.not_alive if path == "/live" else health.not_ready
            found[str(health.client_id)] = [*found.get(str(health.client_id), ()), *reasons]
        return found


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_S

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._respond_with_page()
        elif path in PATHS:
            reasons = self.server.reasons(path)
            ok = not any(reasons.values())
            self._respond_with_json(200 if ok else 503, {"ok": ok, "reasons": reasons})
        else:
            self._respond_with_json(404, {"error": f"the paths are {', '.join(('/', *PATHS))}"})

    do_HEAD = do_GET  # noqa: N815 - the name that the server looks for

    def _respond_with_page(self) -> None:
        # The host is checked as well: by a name that leads here, another site could read the page.
        local = _is_loopback(self.client_address[0]) and _is_local(self.headers.get("Host", ""))
        if self.server.public_page or local:
            self._respond(200, "text/html; charset=utf-8", self.server.page())
        else:
            advice = (
                "only this machine gets the page: Probe(..., public_page=True) serves it to all"
            )
            self._respond_with_json(403, {"error": advice})

    def _respond_with_json(self, status: int, body: dict[str, Any]) -> None:
        self._respond(status, "application/json", json.dumps(body))

    def _respond(self, status: int, kind: str, text: str) -> None:
        content = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: probes come every few seconds."""


def _is_loopback(address: str) -> bool:
    found = ip_address(address.partition("%")[0])
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _is_local(host: str) -> bool:
    """Tell whether a Host header has an address or localhost: no name of somebody else's site."""
    try:
        name = urlsplit(f"//{host}").hostname or "localhost"
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False
