"""Real brokers behind a SOCKS5 or HTTP proxy, with and without a password."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.ports import free_ports
from tests.integration.logins import allow_all, sasl
from tests.integration.polling import Consume, read_all
from tests.unit.network.proxy_server import ProxyServer

pytestmark = pytest.mark.full("takes long on a real broker")

LOGIN = ("alice", "s3cret")
#: Long enough for a refusal on a busy machine: the constructor repeats attempts until then.
TIMEOUT_MS = 2_000

Serve = Callable[..., ProxyServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[ProxyServer] = []

    def start(*arguments: Any) -> ProxyServer:
        started.append(ProxyServer(*arguments))
        return started[-1]

    yield start
    for proxy in started:
        proxy.close()


@pytest.mark.parametrize("login", [None, LOGIN], ids=["open", "password"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_a_member_reads_and_commits(
    kafka: RealKafka, serve: Serve, consume: Consume, scheme: str, login: Any
) -> None:
    """Only the proxy knows the name, except for `socks5`, where the client resolves it."""
    topic = kafka.admin.create_topic(f"proxied-{uuid.uuid4().hex[:8]}")
    kafka.admin.produce(topic, [b"1", b"2"])
    proxy = serve(login)
    bootstrap = kafka.bootstrap()
    if scheme != "socks5":
        proxy.names["kafka.inside"] = "127.0.0.1"
        bootstrap = bootstrap.replace("127.0.0.1", "kafka.inside")
    consumer = consume(
        topic, group_id=topic, bootstrap_servers=bootstrap, proxy_url=proxy.url(scheme)
    )
    assert [record.value for record in read_all(consumer, 2)] == [b"1", b"2"]
    consumer.commit()
    targets = {host for host, _ in proxy.take_event}
    assert targets == ({"127.0.0.1"} if scheme == "socks5" else {"127.0.0.1", "kafka.inside"})


@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_tls_and_a_login_with_the_broker_behind_the_proxy(
    guarded: RealKafka, serve: Serve, consume: Consume, scheme: str
) -> None:
    topic = guarded.admin.create_topic(f"proxied-{uuid.uuid4().hex[:8]}")
    allow_all(guarded, topic)
    guarded.admin.produce(topic, [b"1"])
    proxy = serve(LOGIN)
    options = sasl(guarded, "SASL_SSL", "SCRAM-SHA-512", proxy_url=proxy.url(scheme))
    consumer = consume(topic, group_id=topic, **options)
    assert len(read_all(consumer, 1)) == 1
    assert len(proxy.take_event) >= 2


REFUSALS: dict[str, tuple[str, Any, str]] = {
    "SOCKS5 password": ("socks5", (LOGIN, 0), "it rejected the user or password"),
    "SOCKS5 target": ("socks5", (None, 2), "it cannot connect: "),
    "HTTP password": ("http", (LOGIN, 0), "it responded with 'HTTP/1.1 407 Proxy"),
    "HTTP target": ("http", (None, 502), "it responded with 'HTTP/1.1 502 Bad Gateway'"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_the_constructor_says_what_the_proxy_refused(
    kafka: RealKafka, serve: Serve, refusal: str
) -> None:
    scheme, arguments, words = REFUSALS[refusal]
    proxy = serve(*arguments)
    if proxy.login is not None:
        proxy.login, right = ("alice", "wrong"), proxy.login
        url, proxy.login = proxy.url(scheme), right
    else:
        url = proxy.url(scheme)
    assert words in failure(kafka, url)
    assert not proxy.take_event, "no broker was reached"


def test_the_constructor_says_that_the_proxy_is_down(kafka: RealKafka) -> None:
    (port,) = free_ports(1)
    words = f"through the proxy 127.0.0.1:{port}: Connection refused"
    assert words in failure(kafka, f"socks5://a:s3cret@127.0.0.1:{port}")


def failure(kafka: RealKafka, url: str) -> str:
    with pytest.raises(KafkaTimeoutError) as caught:
        KafkaConsumer(
            bootstrap_servers=kafka.bootstrap(), proxy_url=url, bootstrap_timeout_ms=TIMEOUT_MS
        )
    text = str(caught.value)
    assert "s3cret" not in text
    assert "wrong" not in text
    return text
