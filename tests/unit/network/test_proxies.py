"""Connections through a proxy: SOCKS5 and HTTP CONNECT, with and without TLS and a login."""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaConnectionError, KafkaTimeoutError
from tandem_kafka.network.implementation import open_transport
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.network.proxies import Proxy
from tandem_kafka.network.resolver import Resolver
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import ConnectionOpened, FrameReceived, ServerAddress
from tandem_kafka.records import ReaderOptions
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka_testing.served import ServedKafka
from tests.unit.network.peers import Peer, closed, events_of, frame
from tests.unit.network.proxy_server import ProxyServer
from tests.unit.network.scripted import Settings
from tests.unit.network.tls_server import Server, settings

pytestmark = pytest.mark.real_time

LOGIN = ("alice", "s3cr:et@")
SCHEMES = ["socks5", "socks5h", "http"]

Serve = Callable[..., ProxyServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[ProxyServer] = []

    def serve(*arguments: Any) -> ProxyServer:
        made.append(ProxyServer(*arguments))
        return made[-1]

    yield serve
    for proxy in made:
        proxy.close()


def via(proxy: ProxyServer, address: ServerAddress, ip: str | None = None) -> ServerAddress:
    host = address.ip if ip is None else ip
    return ServerAddress(address.host, host, address.port, ("127.0.0.1", proxy.port))


@pytest.mark.parametrize("login", [None, LOGIN])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_frames_go_through(serve: Serve, peer: Peer, scheme: str, login: Any) -> None:
    proxy = serve(login)
    transport = SelectorTransport(Settings(proxy_url=proxy.url(scheme)))
    number = transport.connect(via(proxy, peer.address))
    transport.send(number, frame(b"before it was open"))
    assert events_of(transport) == [ConnectionOpened(number)]
    broker = peer.accept()
    assert broker.recv(100) == frame(b"before it was open")
    broker.sendall(frame(b"answer"))
    (received,) = events_of(transport)
    assert isinstance(received, FrameReceived)
    assert bytes(received.frame) == b"answer"
    assert transport.received_bytes(number) == len(frame(b"answer"))
    transport.close()


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_the_proxy_resolves_names(serve: Serve, peer: Peer, scheme: str) -> None:
    proxy = serve()
    proxy.names["broker.inside"] = "127.0.0.1"
    transport = SelectorTransport(Settings(proxy_url=proxy.url(scheme)))
    number = transport.connect(via(proxy, peer.address, "broker.inside"))
    assert events_of(transport) == [ConnectionOpened(number)]
    assert proxy.take_event == [("broker.inside", peer.address.port)]
    transport.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tls_is_with_the_broker(serve: Serve, peer: Peer, tmp_path: Path, scheme: str) -> None:
    ca, ca_file = trustme.CA(), tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(ca_file))
    Server(peer, ca)
    proxy = serve()
    transport = SelectorTransport(settings(ssl_cafile=str(ca_file), proxy_url=proxy.url(scheme)))
    number = transport.connect(via(proxy, peer.address))
    transport.send(number, frame(b"hello"))
    first, second = events_of(transport, 2)
    assert first == ConnectionOpened(number)
    assert isinstance(second, FrameReceived)
    transport.close()


@pytest.mark.parametrize(
    ("scheme", "server", "url_login", "words"),
    [
        ("socks5", (None, 5), None, "it cannot connect: connection refused"),
        ("socks5", (None, 99), None, "it cannot connect: error 99"),
        ("socks5", (LOGIN,), None, "it does not accept the login method"),
        ("socks5", (LOGIN,), ("alice", "wrong"), "it rejected the user or password"),
        ("http", (None, 502), None, "it responded with 'HTTP/1.1 502 Bad Gateway'"),
        ("http", (LOGIN,), ("alice", "wrong"), "it responded with 'HTTP/1.1 407 Proxy"),
    ],
)
def test_proxies_that_reject(
    serve: Serve, peer: Peer, scheme: str, server: Any, url_login: Any, words: str
) -> None:
    proxy = serve(*server)
    proxy.login, wanted = url_login, proxy.login
    url = proxy.url(scheme)
    proxy.login = wanted
    transport = SelectorTransport(Settings(proxy_url=url))
    transport.connect(via(proxy, peer.address))
    error = closed(transport)
    assert isinstance(error, KafkaConnectionError)
    assert words in str(error)
    assert f"localhost:{peer.address.port}" in str(error)
    assert f"{scheme}://127.0.0.1:{proxy.port}" in str(error)
    trace = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [frame for frame in trace.stack if "/tandem_kafka/" in frame.filename]
    shown = [str(error), *(text for frame in ours for text in (frame.locals or {}).values())]
    assert "wrong" not in "\n".join(shown)
    assert base64.b64encode(b"alice:wrong").decode() not in "\n".join(shown)
    transport.close()


@pytest.mark.parametrize("echo", ["Basic YWxpY2U6d3Jvbmc=", "alice:wrong", "wrong\x1b[2J"])
def test_a_proxy_that_repeats_the_login(echo: str) -> None:
    proxy = Proxy.of("http://alice:wrong@proxy:1")
    assert proxy is not None
    dialogue = proxy.dialogue(ServerAddress("broker", "10.0.0.1", 9092))
    next(dialogue)
    assert dialogue.send(b"") == 1
    *head, last = f"HTTP/1.1 407 {echo}\r\n\r\n".encode()
    for byte in head:
        dialogue.send(bytes([byte]))
    with pytest.raises(KafkaConnectionError, match=r"HTTP/1.1 407 .*<hidden>") as caught:
        dialogue.send(bytes([last]))
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shown = [
        str(caught.value),
        *(
            text
            for frame in trace.stack
            if "/tandem_kafka/" in frame.filename
            for text in (frame.locals or {}).values()
        ),
    ]
    assert not any(hidden in text for text in shown for hidden in ("wrong", "YWxpY2U6", "\x1b"))


def test_a_server_that_is_not_a_proxy(peer: Peer) -> None:
    transport = SelectorTransport(Settings(proxy_url=f"socks5://127.0.0.1:{peer.address.port}"))
    address = ServerAddress("broker", "10.0.0.1", 9092, ("127.0.0.1", peer.address.port))
    transport.connect(address)
    assert transport.poll(100) == []
    broker = peer.accept()
    broker.sendall(b"SSH-2.0")
    assert "it does not speak SOCKS5" in str(closed(transport))
    transport.connect(address)
    transport.poll(0)
    peer.accept().close()
    assert isinstance(closed(transport), KafkaConnectionError)
    transport.close()


def test_the_python_transport_is_used_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    chosen = Settings(proxy_url="socks5://alice:secret@localhost:1")
    transport = open_transport(chosen, MonotonicClock(), ReaderOptions())
    transport.close()
    assert isinstance(transport, SelectorTransport)
    (line,) = caplog.messages
    assert "using the Python" in line
    assert "secret" not in line


class Inline:
    """Looks up names on the calling thread."""

    def offload(self, work: Any, done: Any) -> None:
        done(work())


def test_the_url_selects_the_side_that_resolves_names() -> None:
    def resolved(scheme: str, host: str) -> list[ServerAddress]:
        offloading = Offloading(Inline(), lambda: None)
        found: list[Any] = []
        proxy = Proxy.of(f"{scheme}://127.0.0.1:1080")
        Resolver(offloading, proxy).resolve(host, 9092, found.append)
        offloading.deliver()
        return list(found[0])

    hop = ("127.0.0.1", 1080)
    assert ServerAddress("localhost", "127.0.0.1", 9092, hop) in resolved("socks5", "localhost")
    for scheme in ("socks5h", "http"):
        (address,) = resolved(scheme, "broker.inside")
        assert address == ServerAddress("broker.inside", "broker.inside", 9092, hop)


def test_a_proxy_shows_no_secret() -> None:
    proxy = Proxy.of("socks5://alice:secret@host:1")
    assert str(proxy) == "socks5://host:1"
    assert "secret" not in repr(proxy)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_consumer_reads_through_a_proxy(
    serve: Serve, kafka_broker: ServedKafka, scheme: str
) -> None:
    topic = kafka_broker.create_topic(f"proxied-{scheme}")
    kafka_broker.produce(topic, b"one", b"two")
    proxy = serve(LOGIN)
    with KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap,
        proxy_url=proxy.url(scheme),
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []
        while len(values) < 2:
            batch = consumer.poll(timeout_ms=5_000)
            assert batch
            values += [record.value for records in batch.values() for record in records]
        assert values == [b"one", b"two"]
        assert LOGIN[1] not in repr(consumer.config)
    assert len(proxy.take_event) >= 2


def test_a_proxy_that_cannot_be_reached() -> None:
    with pytest.raises(KafkaTimeoutError) as caught:
        KafkaConsumer(
            bootstrap_servers="127.0.0.1:9092",
            proxy_url="socks5://alice:secret@127.0.0.1:1",
            bootstrap_timeout_ms=500,
        )
    assert "secret" not in str(caught.value)
