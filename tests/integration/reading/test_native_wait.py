"""How the usual poll() waits: it looks again at once, and says that the application is alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.consumer.reading import poller
from tandem_kafka.errors import WakeupError
from tandem_kafka.runtime.native import native
from tandem_kafka_testing.served import ServedKafka
from tests.integration.polling import ENDLESS_MS, when_blocked
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(native is None, reason="without it, Python waits")

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def interval_ms() -> int:
    """How long poll() may wait before it looks again."""
    return ENDLESS_MS


@pytest.fixture
def idle(interval_ms: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaConsumer]:
    """Has read its partition to the end, so that the next poll() is a usual one."""
    monkeypatch.setattr(poller, "ALIVE_INTERVAL_MS", interval_ms)
    with ServedKafka() as served:
        served.create_topic("orders", partitions=1)
        consumer: KafkaConsumer = KafkaConsumer(
            bootstrap_servers=served.bootstrap,
            auto_offset_reset="earliest",
            max_poll_interval_ms=4 * ENDLESS_MS,
        )
        with consumer:
            consumer.assign([ORDERS])
            assert consumer.position(ORDERS) == 0
            for _ in range(3):
                assert consumer.poll(1) == {}
            yield consumer


def test_a_wakeup_ends_the_wait(idle: KafkaConsumer) -> None:
    with when_blocked(idle, idle.wakeup), pytest.raises(WakeupError):
        idle.poll(ENDLESS_MS)


@pytest.mark.parametrize("interval_ms", [1])
def test_the_application_is_alive_while_it_waits(idle: KafkaConsumer) -> None:
    def lives() -> None:
        began_ms = idle._core.engine.polls.polled_ms
        try:
            wait_until(lambda: idle._core.engine.polls.polled_ms > began_ms, "a sign of life")
        finally:
            idle.wakeup()

    with when_blocked(idle, lives), pytest.raises(WakeupError):
        idle.poll(ENDLESS_MS)
