"""Inside a rebalance listener: long work, commits, a wakeup."""

from __future__ import annotations

import threading
import time

import pytest

from tandem_kafka import KafkaConsumer, SubscriptionPattern, TopicPartition
from tandem_kafka.errors import WakeupError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import PROTOCOLS, Member, options_of, owned, rebalance_calls
from tests.integration.polling import Consume, Listener, poll_until
from tests.waiting import wait_until

pytestmark = [pytest.mark.both_clusters, pytest.mark.partitions(2)]

SHORT_SESSION_MS = 1_000
#: Longer than the session of a classic member here.
LONG_S = 2.0


class Slow(Listener):
    """Is slow in both methods, and commits in `on_partitions_revoked`."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        super().__init__()
        self._consumer = consumer

    def _note(self, what: str, partitions: set[TopicPartition]) -> None:
        if partitions:
            time.sleep(LONG_S)
            if what == "revoked":
                self._consumer.commit_sync()
        super()._note(what, partitions)


@pytest.mark.full("takes long on a real broker")
@pytest.mark.real_cluster("it allows a session of a second")
@pytest.mark.behaviour(74, 80, 88)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_listener_keeps_its_membership_and_can_commit(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=n) for n in (0, 1)])
    options = options_of(protocol)
    if protocol != "consumer":
        options.update(session_timeout_ms=SHORT_SESSION_MS, heartbeat_interval_ms=200)
    consumer = consume(group_id=f"group-{topic}", **options)
    listener = Slow(consumer)
    consumer.subscribe([topic], listener=listener)
    assert len(poll_until(consumer, lambda: _positions(consumer) == 2)) == 2
    other = Member(consume(group_id=f"group-{topic}", **options), [topic])
    poll_until(consumer, lambda: len(owned(other)) == 1 and len(consumer.assignment()) == 1)
    assert "lost" not in [what for what, _ in rebalance_calls(listener)]
    assert listener.threads == {threading.current_thread()}
    wait_until(lambda: kafka.admin.committed(f"group-{topic}", topic) >= 1)
    assert other.records == []
    other.stop()


@pytest.mark.behaviour(79)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wakeup_inside_a_listener_leaves_poll_and_the_rebalance_continues(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=n) for n in (0, 1)])
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))

    class Woken(Listener):
        def _note(self, what: str, partitions: set[TopicPartition]) -> None:
            super()._note(what, partitions)
            if what == "assigned" and len(rebalance_calls(self)) == 1 and partitions:
                consumer.wakeup()
                consumer.position(next(iter(partitions)))

    consumer.subscribe([topic], listener=Woken())
    with pytest.raises(WakeupError):
        poll_until(consumer, lambda: False)
    assert len(consumer.assignment()) == 2
    assert len(poll_until(consumer, lambda: _positions(consumer) == 2)) == 2


def _positions(consumer: KafkaConsumer) -> int:
    """How far the consumer is, over all of its partitions."""
    return sum(consumer.position(tp) for tp in consumer.assignment())


@pytest.mark.behaviour(51)
def test_offsets_of_other_topics_while_subscribed_by_regex(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    other = kafka.admin.create_topic(f"other-{topic}", 1)
    kafka.admin.produce(other, [b"x"])
    consumer = consume(group_id=f"group-{topic}", **options_of("consumer"))
    consumer.subscribe(pattern=SubscriptionPattern(topic))
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    other_partition = TopicPartition(other, 0)
    assert consumer.end_offsets([other_partition]) == {other_partition: 1}
    kafka.admin.produce(topic, [b"y"])
    assert len(poll_until(consumer, lambda: _positions(consumer) == 1)) == 1


@pytest.mark.behaviour(20)
def test_enforce_rebalance_warns_that_it_has_no_effect(
    topic: str, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consume(topic, group_id=f"group-{topic}", **options_of("consumer"))
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    epoch = consumer.group_metadata().generation_id
    with caplog.at_level("WARNING"):
        consumer.enforce_rebalance("just so")
    assert "no effect" in caplog.text
    consumer.poll(timeout_ms=500)
    assert consumer.group_metadata().generation_id == epoch
