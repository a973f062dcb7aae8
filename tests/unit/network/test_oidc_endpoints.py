"""Token endpoints that do not behave: they drip, repeat the secret, or send control characters."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

import pytest

from tandem_kafka.errors import SaslAuthenticationFailedError
from tandem_kafka.network.oidc import OidcTokens, exchange
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka_testing.clock import SimClock
from tests.unit.network.scripted import Settings

pytestmark = pytest.mark.real_time

CLIENT: Final = "reader: 1"
SECRET: Final = "s3cr3t/with+signs= and spaces"
OK: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Endpoint:
    """Receives requests over plain HTTP, and sends bytes, some of them again and again."""

    def __init__(self, begin: bytes, again: bytes = b"") -> None:
        self.begin, self.again = begin, again
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/token"
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError), self.listener.accept()[0] as client:
            received = b""
            while b"grant_type" not in received:
                received += client.recv(65_536)
            client.sendall(self.begin)
            # An end, so that a client without a limit fails too.
            for _ in range(300 if self.again else 0):
                if self.stopped.wait(0.01):
                    break
                client.sendall(self.again)

    def stop(self) -> None:
        self.stopped.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)


Serve = Callable[..., Endpoint]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[Endpoint] = []

    def serve(*arguments: bytes) -> Endpoint:
        made.append(Endpoint(*arguments))
        return made[-1]

    yield serve
    for endpoint in made:
        endpoint.stop()


def failure(endpoint: Endpoint, timeout_ms: int = 5_000) -> str:
    settings: Any = Settings(
        socket_connection_setup_timeout_ms=timeout_ms,
        sasl_oauthbearer_token_endpoint_url=endpoint.url,
        sasl_oauthbearer_client_id=CLIENT,
        sasl_oauthbearer_client_secret=SECRET,
    )
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        OidcTokens(settings, MonotonicClock()).token()
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 ", b"O"),
        (OK + b"X: ", b"y"),
        (OK + b"Content-Length: 100000\r\n\r\n", b" "),
        (CHUNKED, b"1\r\n \r\n"),
        (CHUNKED + b"0\r\n", b"X: y\r\n"),
    ],
    ids=["interim responses", "status line", "header", "body", "chunks", "trailers"],
)
def test_the_limit_is_one_for_the_whole_exchange(serve: Serve, begin: bytes, again: bytes) -> None:
    endpoint = serve(begin, again)
    text = failure(endpoint, timeout_ms=300)
    assert text.endswith(
        f"no response from the token endpoint {endpoint.url}: timed out after 210 ms"
    )
    assert endpoint.thread.is_alive(), "it gave up before the endpoint did"


def rejection(description: str) -> bytes:
    fields = {"error": "invalid_client", "error_description": description}
    body = json.dumps(fields).encode()
    return b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLINGS: Final = {
    "itself": SECRET,
    "quoted": quote(SECRET),
    "quoted wholly": quote(SECRET, safe=""),
    "quoted as in a form": quote_plus(SECRET),
    "quoted in small letters": quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
    "base64": encoded(SECRET),
    "base64 without its end": encoded(SECRET).rstrip("="),
    "base64 for URLs": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "base64 with the client": encoded(f"{CLIENT}:{SECRET}"),
    "the header": encoded(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}"),
    "base64 of quoted ones": encoded(quote(SECRET, safe="")),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("where", ["description", "status line"])
def test_the_secret_is_not_shown_in_any_encoding(serve: Serve, spelling: str, where: str) -> None:
    text = SPELLINGS[spelling]
    response = rejection(f"bad: {text}!") if where == "description" else text.encode() + b"\r\n\r\n"
    shown = failure(serve(response))
    assert "<hidden>" in shown
    assert not any(each.lower() in shown.lower() for each in SPELLINGS.values())
    assert SECRET[:8] not in shown


@pytest.mark.parametrize(
    "response",
    [rejection("a\x1b[2J\nERROR b\u202e\u2028c\x85"), b"\x1b[2J\x07 a\x1b[1mb\x85c\r\n\r\n"],
    ids=["description", "status line"],
)
def test_its_texts_have_no_control_characters(serve: Serve, response: bytes) -> None:
    shown = failure(serve(response))
    assert shown.isprintable()
    assert "a" in shown.rpartition("/token")[2]


def test_its_texts_are_short(serve: Serve) -> None:
    assert len(failure(serve(rejection("x" * 100_000)))) < 600


class SilentAddress:
    """A socket in simulated time: the first address does not respond, the second one does."""

    clock = SimClock()

    def __init__(self, *_: object) -> None:
        self.timeout_s = 0.0

    def settimeout(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s

    def connect(self, address: tuple[str, int]) -> None:
        if address[0] == "10.0.0.1":
            self.clock.advance_to(self.clock.now_ms() + round(self.timeout_s * 1_000))
            raise TimeoutError

    def close(self) -> None: ...


def test_an_address_that_is_silent_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [(2, 1, 6, "", (ip, 80)) for ip in ("10.0.0.1", "10.0.0.2")]
    monkeypatch.setattr(exchange.socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(exchange.socket, "socket", SilentAddress)
    limit = exchange.TimeLimit(SilentAddress.clock, 1_000)
    connection = exchange.LimitedConnection("tokens", 80, None, limit)
    connection.connect()
    assert limit.left_ms() == 500
