"""Serves the health of consumers by HTTP, for the probes of Kubernetes and load balancers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

from tandem_kafka import Health
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.runtime import Runtime

__all__ = ["Probe"]

PATHS = ("/live", "/ready")
#: How long a client may take to send its request.
REQUEST_TIMEOUT_S = 5.0


class _Checked(Protocol):
    """A `KafkaConsumer` or an `AsyncKafkaConsumer`."""

    def health(self) -> Health:
        """Return the health."""
        ...


class Probe:
    """A small web server in a thread, until ``close()`` or the end of a ``with`` block.

    ``GET /live`` has the status 200 if all consumers are alive, ``GET /ready`` if all are ready,
    and 503 otherwise. The body is JSON: ``ok``, and the reasons by ``client_id``. A request never
    waits for a consumer.

    Args:
        *consumers: The consumers, of either kind.
        port: The port; 0 takes a free one.
        host: The address to listen on. All addresses of the machine by default, because probes
            come from outside of a container.

    Attributes:
        port: The port.

    Raises:
        InvalidArgumentError: There is no consumer.
        OSError: The port is taken.
    """

    def __init__(self, *consumers: _Checked, port: int = 8080, host: str = "") -> None:
        if not consumers:
            raise InvalidArgumentError("Probe() needs at least one consumer")
        self._server = ThreadingHTTPServer((host, port), _handler_of(consumers))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        Runtime.threaded().driver.offload(self._server.serve_forever, lambda _: None)

    def close(self) -> None:
        """Stop the server and close its socket."""
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


def _handler_of(consumers: Sequence[_Checked]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path not in PATHS:
                self._respond(404, {"error": f"the paths are {' and '.join(PATHS)}"})
                return
            reasons = _reasons(consumers, path)
            ok = not any(reasons.values())
            self._respond(200 if ok else 503, {"ok": ok, "reasons": reasons})

        def _respond(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes come every few seconds."""

    return Handler


def _reasons(consumers: Sequence[_Checked], path: str) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for consumer in consumers:
        health = consumer.health()
        reasons = health.not_alive if path == "/live" else health.not_ready
        found[str(health.client_id)] = [*found.get(str(health.client_id), ()), *reasons]
    return found
