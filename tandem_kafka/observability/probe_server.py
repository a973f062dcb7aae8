"""The web server of a probe: one thread, few connections, and a time limit for each request."""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio import Task
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from io import BytesIO
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from tandem_kafka import Health
from tandem_kafka.logs import client_logger
from tandem_kafka.observability.health_history import INTERVAL_MS, SHARE, History
from tandem_kafka.observability.health_page import View, page
from tandem_kafka.runtime import Clock

log = client_logger(__name__)

_PATHS: Final = ("/live", "/ready")
#: A browser loads nothing besides the page, and runs no script in it.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
#: From the connection to the end of the response, however slowly the client sends and reads.
REQUEST_TIMEOUT_S: Final = 5.0
#: As many file descriptors at most. One more connection closes the oldest.
CONNECTIONS: Final = 64
#: The longest request.
_REQUEST_BYTES: Final = 16_384
#: The consumer of an event loop starts meanwhile.
_FIRST_SAMPLE_S: Final = 0.5
#: The system has no descriptor or memory for a connection.
_ACCEPT_PAUSE_S: Final = 1.0


class Checked(Protocol):
    """A `KafkaConsumer`, a `ShareConsumer`, or one of those for asyncio."""

    def health(self) -> Health:
        """Return the health."""
        ...


class _Response(NamedTuple):
    status: int
    text: str
    kind: str = "application/json"


class Server:
    """The server, with the past of each consumer.

    All of it runs in one thread. Invariant: a client takes neither the descriptors nor the threads
    of the process, which the consumer needs for its brokers.
    """

    def __init__(self, consumers: Sequence[Checked], clock: Clock, *, public_page: bool) -> None:
        self._past = [(consumer, History()) for consumer in consumers]
        self._clock = clock
        self._public_page = public_page
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        #: The requests being answered, the oldest first.
        self._requests: dict[Task[None], None] = {}

    def run(self, listener: socket.socket) -> None:
        """Answer requests until ``stop()``."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(listener))

    def stop(self) -> None:
        """End the server; any thread may call this, and again."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._end.set)

    async def _serve(self, listener: socket.socket) -> None:
        tasks = [self._loop.create_task(each) for each in (self._accept(listener), self._sample())]
        await self._end.wait()
        for task in tasks:  # what is left, asyncio cancels as well
            task.cancel()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, address = await self._loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            task = self._loop.create_task(self._answer(client, str(address[0])))
            self._requests[task] = None
            task.add_done_callback(self._requests.pop)
            # A client that has sent its request gets its response now, however many come behind it.
            await asyncio.sleep(0)
            if len(self._requests) > CONNECTIONS:
                oldest = next(iter(self._requests))
                oldest.cancel()
                await asyncio.wait([oldest])

    async def _answer(self, client: socket.socket, address: str) -> None:
        try:
            client.setblocking(False)
            # A client that is slow or leaves is no error.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    request = await self._request(client)
                    if request:
                        await self._loop.sock_sendall(client, self._response(request, address))
        except Exception as error:
            log.exception("a request to the probe failed: %r", error)  # noqa: TRY401 - one line says it
        finally:
            client.close()

    async def _request(self, client: socket.socket) -> bytes:
        """Return a request up to its empty line, or more than one may have; empty without one."""
        received = b""
        while b"\r\n\r\n" not in received and len(received) <= _REQUEST_BYTES:
            part = await self._loop.sock_recv(client, 4_096)
            if not part:
                return b""
            received += part
        return received

    async def _sample(self) -> None:
        await asyncio.sleep(_FIRST_SAMPLE_S)
        while True:
            begin_ms = self._clock.now_ms()
            try:
                for consumer, history in self._past:
                    history.add(consumer.health(), begin_ms)
            except Exception:
                # Invariant: an error here would end the samples of all consumers.
                log.exception("the page of the probe has no sample of the health")
            took_ms = self._clock.now_ms() - begin_ms
            await asyncio.sleep(max(INTERVAL_MS, took_ms / SHARE) / 1_000)

    def _response(self, request: bytes, address: str) -> bytes:
        line, _, headers = request.partition(b"\r\n")
        method, _, target = line.decode("latin-1").partition(" ")
        try:
            host = parse_headers(BytesIO(headers)).get("Host", "")
        except HTTPException:
            host = None
        if host is None or len(request) > _REQUEST_BYTES:
            found = _json(431, {"error": "the request has too many or too long headers"})
        elif " HTTP/" not in target:
            found = _json(400, {"error": "this is no request of HTTP/1"})
        elif method not in {"GET", "HEAD"}:
            found = _json(405, {"error": "the methods are GET and HEAD"})
        else:
            found = self._found(target.partition(" ")[0].partition("?")[0], address, host)
        reason = HTTPStatus(found.status).phrase
        content = found.text.encode(errors="replace")
        head = "\r\n".join(
            (
                f"HTTP/1.0 {found.status} {reason}",
                f"Content-Type: {found.kind}",
                f"Content-Length: {len(content)}",
                f"Content-Security-Policy: {_POLICY}",
                "Cache-Control: no-store",
                "\r\n",
            )
        ).encode()
        return head if method == "HEAD" else head + content

    def _found(self, path: str, address: str, host: str) -> _Response:
        if path in _PATHS:
            reasons = self._reasons(path)
            ok = not any(reasons.values())
            return _json(200 if ok else 503, {"ok": ok, "reasons": reasons})
        if path != "/":
            return _json(404, {"error": f"the paths are {', '.join(('/', *_PATHS))}"})
        # The host is checked as well: by a name that leads here, another site could read the page.
        if self._public_page or (_is_loopback(address) and _is_local(host)):
            views = [View(consumer.health(), history) for consumer, history in self._past]
            return _Response(200, page(views, self._clock.now_ms()), "text/html; charset=utf-8")
        advice = "only this machine gets the page: Probe(..., public_page=True) serves it to all"
        return _json(403, {"error": advice})

    def _reasons(self, path: str) -> dict[str, Sequence[str]]:
        """Return why each consumer is not what the path says."""
        found: dict[str, Sequence[str]] = {}
        for consumer, _ in self._past:
            health = consumer.health()
            reasons = health.not_alive if path == "/live" else health.not_ready
            found[str(health.client_id)] = [*found.get(str(health.client_id), ()), *reasons]
        return found


def _json(status: int, body: dict[str, Any]) -> _Response:
    return _Response(status, json.dumps(body))


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
