"""After a real broker changes, health, probe, log and diagnosis soon tell the truth."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.observability import Probe
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.kafka.proxy import Proxy
from tandem_kafka_testing.kafka.settings import BrokerAddress
from tests.integration.polling import Clock, Consume

pytestmark = pytest.mark.full("starts brokers of its own")

LISTENER = "RELAYED"
#: `tests/simulation` holds it to five seconds of its own time; a busy machine takes longer.
TRUTH_S = 30.0
CANNOT = "has been unusable"
SLOW = "is slow"
#: How much later the responses of a slow broker come. A fetch counts as late after a second beyond
#: `MAX_WAIT_MS`, because the broker may park it for so long.
DELAY_S = 1.3
MAX_WAIT_MS = 100


class Relay(Proxy):
    """A proxy that can delay responses."""

    delay_s = 0.0

    def passed(self, data: bytes, *, to_client: bool) -> bytes:
        if to_client:
            time.sleep(self.delay_s)
        return data


class Relayed:
    """A broker that clients reach through a relay."""

    def __init__(self) -> None:
        self.cluster = RealKafka(listeners={LISTENER: "PLAINTEXT"}, advertise=self._relay)

    def _relay(self, address: BrokerAddress) -> dict[str, int]:
        self._target = f"127.0.0.1:{address.ports[LISTENER]}"
        self.relay = Relay(self._target)
        return {LISTENER: self.relay.port}

    def refuse(self) -> None:
        (nowhere,) = free_ports(1)
        self.relay.lead_to(f"127.0.0.1:{nowhere}")
        self.relay.cut()

    def accept(self) -> None:
        self.relay.lead_to(self._target)

    def close(self) -> None:
        self.relay.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def relayed() -> Iterator[Relayed]:
    relayed = Relayed()
    try:
        relayed.cluster.start()
        yield relayed
    finally:
        relayed.close()


@pytest.fixture
def world(
    relayed: Relayed, implementation: str, consume: Consume, request: pytest.FixtureRequest
) -> Iterator[tuple[KafkaConsumer, Probe]]:
    """A consumer with a partition, and its probe."""
    case = "".join(char if char.isalnum() else "-" for char in request.node.name)
    topic = relayed.cluster.admin.create_topic(case)
    consumer = consume(
        topic,
        bootstrap_servers=relayed.relay.address,
        group_id=f"group-of-{case}",
        client_id=implementation,
        fetch_max_wait_ms=MAX_WAIT_MS,
        reconnect_backoff_max_ms=200,
        retry_backoff_max_ms=200,
    )
    with Probe(consumer, port=0, host="127.0.0.1") as probe:
        poll_within(consumer, lambda: consumer.health().ready, 60.0)
        yield consumer, probe


def poll_within(
    consumer: KafkaConsumer, told: Callable[[], object], limit_s: float = TRUTH_S
) -> None:
    """Poll until the truth is told."""
    clock = Clock()
    while not told():
        consumer.poll(50)
        assert clock.within(limit_s), consumer.diagnose()


def asked(probe: Probe, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{probe.port}{path}") as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def all_well(consumer: KafkaConsumer, probe: Probe) -> bool:
    """Whether everyone says that the consumer works."""
    health = consumer.health()
    return (
        health.ready
        and health.troubles == ()
        and asked(probe, "/ready") == (200, {"ok": True, "reasons": {health.client_id: []}})
        and "ready: yes" in consumer.diagnose()
    )


def unusable(consumer: KafkaConsumer, probe: Probe, log: str) -> bool:
    """Whether everyone says that the broker cannot be used, and that the consumer lives."""
    health, diagnosis = consumer.health(), consumer.diagnose()
    status, body = asked(probe, "/ready")
    return (
        health.alive
        and not health.ready
        and any(CANNOT in reason for reason in health.not_ready)
        and any(CANNOT in trouble for trouble in health.troubles)
        and asked(probe, "/live")[0] == 200
        and (status, body["ok"]) == (503, False)
        and any(CANNOT in reason for reason in body["reasons"][health.client_id])
        and "ready: NO, " in diagnosis
        and CANNOT in diagnosis
        and "cannot use broker 1 " in log
    )


def test_a_stopped_broker_and_its_restart_are_known(
    relayed: Relayed, world: tuple[KafkaConsumer, Probe], caplog: pytest.LogCaptureFixture
) -> None:
    consumer, probe = world
    poll_within(consumer, lambda: all_well(consumer, probe))
    relayed.cluster.kill()
    try:
        poll_within(consumer, lambda: unusable(consumer, probe, caplog.text))
        assert "is back after" not in caplog.text
    finally:
        relayed.cluster.start_again()
    poll_within(consumer, lambda: all_well(consumer, probe) and "is back after" in caplog.text)


def test_a_refusing_broker_is_known(
    relayed: Relayed, world: tuple[KafkaConsumer, Probe], caplog: pytest.LogCaptureFixture
) -> None:
    consumer, probe = world
    poll_within(consumer, lambda: all_well(consumer, probe))
    relayed.refuse()
    try:
        poll_within(consumer, lambda: unusable(consumer, probe, caplog.text))
        assert "is back after" not in caplog.text
    finally:
        relayed.accept()
    poll_within(consumer, lambda: all_well(consumer, probe) and "is back after" in caplog.text)


def test_a_slow_broker_is_known(
    relayed: Relayed, world: tuple[KafkaConsumer, Probe], caplog: pytest.LogCaptureFixture
) -> None:
    """Records flow meanwhile: without a response, nobody can tell that a broker is slow."""
    consumer, probe = world
    poll_within(consumer, consumer.assignment, 60.0)
    (tp,) = consumer.assignment()

    def flows() -> bool:
        relayed.cluster.admin.produce(tp.topic, [b"1"])
        return consumer.position(tp) > 5

    def known() -> bool:
        return (
            flows()
            and any(
                "broker 1" in trouble and SLOW in trouble for trouble in consumer.health().troubles
            )
            and SLOW in consumer.diagnose()
            and asked(probe, "/live")[0] == 200
            and any("broker 1" in line and SLOW in line for line in caplog.messages)
        )

    poll_within(consumer, lambda: flows() and all_well(consumer, probe))
    relayed.relay.delay_s = DELAY_S
    try:
        poll_within(consumer, known)
    finally:
        relayed.relay.delay_s = 0.0
    poll_within(consumer, lambda: all_well(consumer, probe))
