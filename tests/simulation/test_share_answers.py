"""Fetches of a share group that fail now and then, or for one partition, for ever."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import ShareConsumer, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka.wire.messages import ShareFetchResponse
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.call import Call
from tests.simulation.changing import Change, changing
from tests.simulation.sharing import sharing
from tests.simulation.test_mixed_answers import FIRST, SECOND, produce

NOTHING: Change = lambda message: setattr(message, "responses", [])  # noqa: E731


def read(simulation: Simulation, consumer: ShareConsumer[Any, Any], seconds: int) -> Counter[Any]:
    """Poll on and catch errors; return how many records there were of each partition."""
    counts: Counter[TopicPartition] = Counter()
    end_ms = simulation.clock.now_ms() + seconds * 1_000
    while simulation.clock.now_ms() < end_ms:
        try:
            batch = consumer.poll(500)
        except KafkaError:
            simulation.sleep(1)
            continue
        counts.update({tp: len(records) for tp, records in batch.items()})
    return counts


def refusing(simulation: Simulation, code: int, *, whole: bool = False) -> Change:
    """Return a change that refuses the first partition, or all."""
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    topic_id = simulation.cluster.topics["orders"].topic_id

    def change(message: Any) -> None:
        if whole:
            message.error_code, message.responses = code, []
            return
        part = topic.PartitionData
        refused = part(partition_index=0, error_code=code, current_leader=part.LeaderIdAndEpoch())
        for each in message.responses:
            each.partitions = [one for one in each.partitions if one.partition_index]
        message.responses.append(topic(topic_id=topic_id, partitions=[refused]))

    return change


@pytest.mark.parametrize("code", [-1, 6, 42, 9_999])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("empty", [1, 3])
def test_fetches_that_fail_and_find_nothing_in_turn_are_named(
    code: int, whole: bool, empty: int
) -> None:
    """Each response without an error had ended the failure."""
    with sharing("turns", brokers=1) as (simulation, start):
        consumer = start()
        produce(simulation, FIRST)
        refuse, count = refusing(simulation, code, whole=whole), itertools.count()
        turn = lambda _: NOTHING if next(count) % (empty + 1) else refuse  # noqa: E731
        with changing(simulation, ShareFetchResponse, turn) as received:
            assert not read(simulation, consumer, 30)
            for _ in range(20):
                assert "ShareFetch has failed for" in consumer.health().not_ready[0]
                assert not read(simulation, consumer, 1)
            assert received.total() < 50 * 5
        assert read(simulation, consumer, 1)[FIRST]
        assert consumer.health().ready


def test_a_failure_ends_if_there_is_nothing_to_read() -> None:
    with sharing("quiet", brokers=1, count=0) as (simulation, start):
        consumer = start()
        refuse = refusing(simulation, 9_999)
        with changing(simulation, ShareFetchResponse, lambda _: refuse):
            read(simulation, consumer, 20)
            assert "ShareFetch has failed for" in consumer.health().not_ready[0]
        read(simulation, consumer, 4)
        assert consumer.health().ready


@pytest.mark.parametrize("code", [-1, 42, 9_999])
def test_a_partition_that_fails_is_named_while_others_are_read(code: int) -> None:
    """The fetches of the others, while it is not asked for, had ended the failure."""
    with sharing("one", brokers=1, partitions=2) as (simulation, start):
        consumer = start()
        produce(simulation, FIRST, SECOND)
        refuse = refusing(simulation, code)

        def change_for(call: Call) -> Callable[[Any], None] | None:
            names = [one for each in call.request.topics for one in each.partitions]
            forgets = any(0 in each.partitions for each in call.request.forgotten_topics_data)
            if any(one.partition_index == 0 for one in names):
                asked.add(0)
            elif forgets:
                asked.discard(0)
            return refuse if asked else None

        asked: set[int] = set()
        with changing(simulation, ShareFetchResponse, change_for):
            counts = read(simulation, consumer, 30)
            for _ in range(20):
                assert "ShareFetch has failed for" in consumer.health().not_ready[0]
                counts += read(simulation, consumer, 1)
        assert counts[SECOND] > 50
        assert FIRST not in counts
        assert read(simulation, consumer, 4)[FIRST]
        assert consumer.health().ready
