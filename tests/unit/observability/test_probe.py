"""The probe says by HTTP what `health()` says."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import struct
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, AsyncShareConsumer, Health, PartitionHealth
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.observability import Probe
from tandem_kafka.observability.health_history import PARTITIONS, SAMPLES, History, Rebalance
from tandem_kafka.observability.health_page import View, page
from tandem_kafka.observability.probe_server import CONNECTIONS, _is_loopback
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation, simulated_consumer

pytestmark = pytest.mark.real_time

A = TopicPartition("orders", 0)


def get(probe: Probe, path: str | urllib.request.Request) -> tuple[int, Any]:
    request = f"http://127.0.0.1:{probe.port}{path}" if isinstance(path, str) else path
    try:
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310 - http
            return response.status, content_of(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, content_of(error)


def content_of(response: Any) -> Any:
    text = response.read().decode()
    return json.loads(text) if response.headers["Content-Type"] == "application/json" else text


def test_the_status_follows_the_health() -> None:
    consumer = simulated_consumer(client_id="one")
    other = simulated_consumer(client_id="two")
    with Probe(consumer, other, port=0, host="127.0.0.1") as probe:
        assert get(probe, "/live") == (200, {"ok": True, "reasons": {"one": [], "two": []}})
        missing = ["there is no subscription: call subscribe() or assign()"]
        assert get(probe, "/ready?full") == (
            503,
            {"ok": False, "reasons": {"one": missing, "two": missing}},
        )
        consumer.close()
        closed = ["the consumer has been closed"]
        status, body = get(probe, "/live")
        assert (status, body["reasons"]) == (503, {"one": closed, "two": []})
        assert get(probe, "/live/") == (404, {"error": "the paths are /, /live, /ready"})
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{probe.port}/live", timeout=5)
    other.close()


@pytest.mark.parametrize("kind", [AsyncKafkaConsumer, AsyncShareConsumer])
def test_a_consumer_that_has_not_started_is_not_ready(kind: Any) -> None:
    """Its request had no response."""
    consumer = kind("orders", group_id="g", client_id="one")
    with Probe(consumer, port=0) as probe:
        assert get(probe, "/live") == (200, {"ok": True, "reasons": {"one": []}})
        status, body = get(probe, "/ready")
        assert (status, body["ok"]) == (503, False)
        assert "has not been started" in body["reasons"]["one"][0]
        assert "has not been started" in get(probe, "/")[1]
        asyncio.run(consumer.close())
        status, body = get(probe, "/live")
        assert (status, body["ok"]) == (503, False)
        assert "was closed before" in body["reasons"]["one"][0]


def test_head_has_the_status_and_no_body() -> None:
    consumer = simulated_consumer()
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        with closing(http.client.HTTPConnection("127.0.0.1", probe.port, timeout=20)) as client:
            client.request("HEAD", "/ready")
            response = client.getresponse()
            assert (response.status, response.read()) == (503, b"")
            assert int(response.headers["Content-Length"]) > 0
        with socket.create_connection(("127.0.0.1", probe.port), timeout=20) as plain:
            plain.sendall(b"HEAD /live HTTP/1.0\r\n\r\n")
            with plain.makefile("rb") as answer:
                assert answer.read().endswith(b"\r\n\r\n")
    consumer.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork()")
def test_a_fork_closes_the_probe_at_once_and_the_parent_keeps_it() -> None:
    consumer = simulated_consumer()
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        forked = os.fork()
        if not forked:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            probe.close()
            os._exit(0)
        assert os.waitpid(forked, 0)[1] == 0
        assert get(probe, "/live")[0] == 200
    consumer.close()


def test_the_page_has_what_people_look_for() -> None:
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 2)
        simulation.cluster.produce(A, *(b"secret" for _ in range(1_234)))
        consumer = simulation.consumer(group_id="<billing>", auto_offset_reset="earliest")
        consumer.subscribe(["orders"])
        with Probe(consumer, port=0, host="127.0.0.1") as probe:
            while sum(map(len, consumer.poll(1_000).values())) == 0:
                pass
            consumer.pause(TopicPartition("orders", 1))
            status, page = get(probe, "/")
    assert status == 200
    for text in ("&lt;billing&gt;", "orders-0", ">734<", "the application has paused it", "ready"):
        assert text in page
    assert "secret" not in page
    assert "<billing>" not in page


def test_the_page_is_for_this_machine_unless_the_application_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = simulated_consumer()
    monkeypatch.setattr("tandem_kafka.observability.probe_server._is_loopback", lambda _: False)
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        status, body = get(probe, "/")
        assert (status, "public_page=True" in body["error"]) == (403, True)
        assert get(probe, "/live")[0] == 200
    with Probe(consumer, port=0, host="127.0.0.1", public_page=True) as probe:
        assert get(probe, "/")[0] == 200
    consumer.close()


def test_another_site_cannot_read_the_page_by_a_name_that_leads_here() -> None:
    consumer = simulated_consumer()
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        for host, status in (
            ("evil.example", 403),
            ("evil.example:80", 403),
            ("[evil", 403),
            ("localhost", 200),
            ("[::1]", 200),
            ("[::1]:80", 200),
        ):
            request = urllib.request.Request(
                f"http://127.0.0.1:{probe.port}/", headers={"Host": host}
            )
            assert get(probe, request)[0] == status, host
    consumer.close()


class Failing:
    """A consumer whose health cannot be had now and then."""

    def __init__(self, health: Health) -> None:
        self.calls = 0
        self._health = health

    def health(self) -> Health:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("no health")
        return self._health


def test_a_failing_sample_does_not_end_the_probe(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Failing(health())
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        for _ in range(100):
            if consumer.calls:
                break
            threading.Event().wait(0.1)
        assert get(probe, "/live")[0] == 200
    assert "no health" in caplog.text


def test_a_client_that_leaves_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    consumer = simulated_consumer()
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        with socket.create_connection(("127.0.0.1", probe.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /live HTTP/1.0\r\n")
        assert get(probe, "/live")[0] == 200
    consumer.close()
    assert capsys.readouterr().err == ""


def test_only_this_machine_reaches_a_probe_without_a_host() -> None:
    consumer = simulated_consumer()
    with Probe(consumer, port=0) as probe:
        assert probe._listener.getsockname() == ("127.0.0.1", probe.port)
        assert get(probe, "/live")[0] == 200
    consumer.close()


def test_clients_that_hold_connections_take_no_more_than_their_number() -> None:
    consumer = simulated_consumer()
    with ExitStack() as held, Probe(consumer, port=0) as probe:
        address = ("127.0.0.1", probe.port)
        begun = [
            held.enter_context(socket.create_connection(address, timeout=20))
            for _ in range(CONNECTIONS + 20)
        ]
        for client in begun:
            client.sendall(b"GET /live HTTP/1.1\r\nX: ")
        assert get(probe, "/live")[0] == 200
        with suppress(ConnectionResetError):  # what it had sent was not read yet
            assert begun[0].recv(1) == b""
        begun[-1].sendall(b"\r\n\r\n")
        assert begun[-1].recv(15) == b"HTTP/1.0 200 OK"
        assert len(probe._server._requests) <= CONNECTIONS
    consumer.close()


def drip(address: tuple[str, int]) -> None:
    """Send a byte at a time, as long as the server listens."""
    with socket.create_connection(address, timeout=0.05) as client:
        while True:
            client.sendall(b"G")
            with suppress(TimeoutError):
                client.recv(1)


def test_a_request_ends_at_its_time_limit_however_often_a_byte_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tandem_kafka.observability.probe_server.REQUEST_TIMEOUT_S", 0.3)
    consumer = simulated_consumer()
    with Probe(consumer, port=0) as probe:
        with pytest.raises(ConnectionError):
            drip(("127.0.0.1", probe.port))
        assert get(probe, "/live")[0] == 200
    consumer.close()


@pytest.mark.parametrize(
    ("request_sent", "status"),
    [
        (b"POST /live HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /live\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + 200 * b"X: y\r\n" + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + 20_000 * b"y", 431),
    ],
)
def test_what_is_no_request_of_a_probe_has_a_status_of_its_own(
    request_sent: bytes, status: int
) -> None:
    consumer = simulated_consumer()
    with (
        Probe(consumer, port=0) as probe,
        socket.create_connection(("127.0.0.1", probe.port), timeout=20) as client,
    ):
        client.sendall(request_sent)
        assert client.recv(12) == f"HTTP/1.0 {status}".encode()
    consumer.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_a_probe_can_listen_on_ipv6() -> None:
    consumer = simulated_consumer()
    try:
        probe = Probe(consumer, port=0, host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with probe, urllib.request.urlopen(f"http://[::1]:{probe.port}/live", timeout=20) as response:
        assert response.status == 200
    consumer.close()


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_loopback_addresses(address: str, *, local: bool) -> None:
    assert _is_loopback(address) is local


def health(generation_id: int = 3, lag: int | None = 0, partitions: int = 1) -> Health:
    each = PartitionHealth(position=7, lag=lag, paused=False, stuck=None)
    consumer = simulated_consumer(group_id="billing")
    with closing(consumer):
        found = consumer.health()
    assigned = {TopicPartition("orders", number): each for number in range(partitions)}
    return replace(found, generation_id=generation_id, partitions=assigned)


def test_the_history_has_the_lag_and_the_rebalances() -> None:
    history = History()
    for at_ms, each in enumerate(
        [health(lag=None), health(lag=5), health(4, 1, 3), health(4, 1, 2), health(5, 1, 2)]
    ):
        history.add(each, at_ms)
    assert history.total() == [0, 5, 3, 2, 2]
    assert history.of(TopicPartition("orders", 0)) == [None, 5, 1, 1, 1]
    assert history.of(TopicPartition("orders", 2)) == [None, None, 1, None, None]
    added, removed, neither = Rebalance(2, 4, 2, 0), Rebalance(3, 4, 0, 1), Rebalance(4, 5, 0, 0)
    assert history.rebalances == (neither, removed, added)
    text = page([View(health(4), history)], now_ms=90_002)
    assert "2 min ago: generation 4, 2 partitions added, 0 removed" in text


def test_the_history_is_bounded() -> None:
    history, large = History(), health(partitions=PARTITIONS + 1)
    for at_ms in range(2 * SAMPLES):
        history.add(large, at_ms)
    assert len(history.samples) == SAMPLES
    assert history.of(TopicPartition("orders", 0)) == [None] * SAMPLES
    assert f"The {PARTITIONS} with most lag of {PARTITIONS + 1}." in page([View(large, history)], 0)


def test_a_probe_needs_a_consumer() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one consumer"):
        Probe()
