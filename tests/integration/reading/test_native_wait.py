"""How the usual poll() waits: it looks again at once, and says that the application is alive."""

from __future__ import annotations

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.consumer.reading import poller
from tandem_kafka.consumer.reading.poller import Poller
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import WakeupError
from tandem_kafka.runtime.native import native
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.served import ServedKafka
from tests.integration.polling import ENDLESS_MS, Consume, when_blocked
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(native is None, reason="without it, Python waits")
#: Every day, on the served cluster.
both_clusters = pytest.mark.both_clusters(everyday="simulated")


ORDERS = TopicPartition("orders", 0)
#: Longer than what is tested takes.
LONG_MS = 30_000


@pytest.fixture
def interval_ms() -> int:
    """How long poll() may wait before it looks again."""
    return ENDLESS_MS


@pytest.fixture
def idle(
    interval_ms: int, monkeypatch: pytest.MonkeyPatch, topic: str, consume: Consume
) -> KafkaConsumer:
    """Has read its partition to the end, so that the next poll() is a usual one."""
    monkeypatch.setattr(poller, "ALIVE_INTERVAL_MS", interval_ms)
    consumer = consume(max_poll_interval_ms=min(4 * ENDLESS_MS, 2**31 - 1))
    consumer.assign([TopicPartition(topic, 0)])
    assert consumer.position(TopicPartition(topic, 0)) == 0
    for _ in range(3):
        assert consumer.poll(1) == {}
    return consumer


@both_clusters
def test_a_wakeup_ends_the_wait(idle: KafkaConsumer) -> None:
    with when_blocked(idle, idle.wakeup), pytest.raises(WakeupError):
        idle.poll(LONG_MS)


@both_clusters
@pytest.mark.parametrize("interval_ms", [1])
def test_the_application_is_alive_while_it_waits(idle: KafkaConsumer) -> None:
    def lives() -> None:
        began_ms = idle._core.engine.polls.polled_ms
        try:
            wait_until(lambda: idle._core.engine.polls.polled_ms > began_ms, "a sign of life")
        finally:
            idle.wakeup()

    with when_blocked(idle, lives), pytest.raises(WakeupError):
        idle.poll(LONG_MS)


@both_clusters
def test_python_goes_on_until_the_same_end(
    idle: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, polls = idle._core.clock, idle._core.engine.polls
    left_ms: list[int] = []

    async def goes_on(_: Poller, deadline_ms: int, *_more: object, begun: bool) -> ConsumerRecords:
        assert begun
        left_ms.append(deadline_ms - clock.now_ms())
        return ConsumerRecords()

    def later() -> None:
        seen_ms = clock.now_ms()
        wait_until(lambda: clock.now_ms() > seen_ms + 5, "a moment")
        polls.request_attention()

    monkeypatch.setattr(Poller, "poll", goes_on)
    with when_blocked(idle, later):
        assert idle.poll(ENDLESS_MS) == {}
    assert left_ms[0] < ENDLESS_MS


def test_a_loop_commits_while_nothing_but_positions_moves() -> None:
    """It returns nothing, because all that arrives are aborted transactions."""

    def abort(cluster: SimCluster) -> None:
        transaction = cluster.transaction()
        transaction.produce(ORDERS, b"aborted")
        transaction.abort()

    with ServedKafka() as served:
        served.create_topic("orders", partitions=1)
        consumer: KafkaConsumer = KafkaConsumer(
            "orders",
            bootstrap_servers=served.bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            auto_commit_interval_ms=ENDLESS_MS,
        )

        def committed() -> int:
            return served.perform(lambda cluster: cluster.committed("readers", ORDERS)) or 0

        def moves() -> None:
            try:
                commits = consumer._parts.commits
                for due_ms in (ENDLESS_MS, 0):
                    before = consumer.position(ORDERS)
                    commits.auto_commit_ms = consumer._core.clock.now_ms() + due_ms
                    served.perform(abort)
                    wait_until(lambda: consumer.position(ORDERS) > before, "a position")  # noqa: B023
                wait_until(lambda: committed() > 0, "a commit")
            finally:
                consumer.wakeup()

        with consumer:
            served.produce("orders", b"first", b"second")
            assert next(consumer).offset == 0
            consumer.poll(ENDLESS_MS)
            for _ in range(3):
                assert consumer.poll(1) == {}
            with when_blocked(consumer, moves), pytest.raises(WakeupError):
                next(consumer)
