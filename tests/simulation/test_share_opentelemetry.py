"""Spans and metrics of share consumers: poll(), iteration, outcomes, asyncio and workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tandem_kafka import ShareRecord, TopicPartition
from tandem_kafka.consumer.share.options import share_options
from tandem_kafka.errors import (
    ConcurrentModificationError,
    KafkaTimeoutError,
    RecordLockLostError,
    WakeupError,
)
from tandem_kafka.workers import AsyncShareWorkers, ShareWorkers
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.served import ServedKafka
from tests.simulation.sharing import TP, sharing, started, take

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.semconv._incubating.attributes import messaging_attributes as conventions
from opentelemetry.semconv._incubating.metrics import messaging_metrics

from tandem_kafka.observability import TracedAsyncShareConsumer, TracedShareConsumer
from tandem_kafka.observability.telemetry import Telemetry
from tests.simulation.test_opentelemetry import Exported


class Observed(Exported):
    """A share group of a simulation, and what its members report."""

    def __init__(self, simulation: Any) -> None:
        super().__init__()
        self.simulation = simulation
        self._started: list[TracedShareConsumer] = []

    def consumer(self, acknowledgement: str = "explicit", **options: Any) -> TracedShareConsumer:
        given = {
            "bootstrap_servers": self.simulation.cluster.bootstrap(),
            "client_id": "billing",
            "group_id": "g",
            **options,
        }
        config, how = share_options(given, acknowledgement, "off", 0)
        consumer = TracedShareConsumer.__new__(TracedShareConsumer)
        consumer._telemetry = Telemetry(**self.providers)
        runtime, transport = self.simulation._environment()
        consumer._start(config, how, runtime, ("orders",), transport)
        self._started.append(consumer)
        return consumer

    def close(self) -> None:
        for consumer in self._started:
            consumer.close()


@pytest.fixture
def observed() -> Iterator[Observed]:
    with sharing("telemetry", partitions=2) as (simulation, _):
        found = Observed(simulation)
        yield found
        found.close()


def test_poll_and_commit_have_spans_and_metrics(observed: Observed) -> None:
    consumer = observed.consumer()
    for record in take(consumer, 6):
        record.accept()
    assert consumer.commit() == {TP: None, TopicPartition("orders", 1): None}
    poll, *others = observed.spans("poll orders")
    attributes = dict(poll.attributes or {})
    for name in (
        conventions.MESSAGING_DESTINATION_PARTITION_ID,
        conventions.MESSAGING_BATCH_MESSAGE_COUNT,
    ):
        attributes.pop(name, None)
    assert attributes == {
        conventions.MESSAGING_SYSTEM: "kafka",
        conventions.MESSAGING_CLIENT_ID: "billing",
        conventions.MESSAGING_CONSUMER_GROUP_NAME: "g",
        conventions.MESSAGING_OPERATION_NAME: "poll",
        conventions.MESSAGING_OPERATION_TYPE: "receive",
        conventions.MESSAGING_DESTINATION_NAME: "orders",
    }
    [commit] = observed.spans("commit orders")
    assert (commit.attributes or {})[conventions.MESSAGING_OPERATION_TYPE] == "settle"
    assert "error.type" not in (commit.attributes or {})
    consumed = observed.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES)
    assert [point.value for point in consumed] == [3, 3]
    durations = observed.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    counts: dict[str, int] = {}
    for point in durations:
        name = point.attributes[conventions.MESSAGING_OPERATION_NAME]
        counts[name] = counts.get(name, 0) + point.count
    assert counts == {"commit": 1, "poll": 1 + len(others)}


def test_a_poll_of_two_partitions_counts_all_records(observed: Observed) -> None:
    consumer = observed.consumer()
    first, *others = sorted(take(consumer, 6), key=lambda each: each.partition)[2:5]
    both = {TP: [first], TopicPartition("orders", 1): others}
    before = len(observed.spans("poll orders"))
    consumer._telemetry.on_consume(both)
    [poll] = observed.spans("poll orders")[before:]
    assert (poll.attributes or {})[conventions.MESSAGING_BATCH_MESSAGE_COUNT] == 3
    assert conventions.MESSAGING_DESTINATION_PARTITION_ID not in (poll.attributes or {})


def test_a_poll_that_raises_has_its_error(observed: Observed) -> None:
    consumer = observed.consumer()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll()
    [poll] = observed.spans("poll")
    assert (poll.attributes or {})["error.type"] == "WakeupError"
    assert not poll.status.is_ok


def test_the_span_of_a_poll_begins_with_it_though_another_task_calls_poll() -> None:
    """It began with the call that was rejected."""
    exported = Exported()

    async def use(simulation: Simulation) -> None:
        consumer = await started(
            simulation, partial(TracedAsyncShareConsumer, **exported.providers)
        )
        try:
            polling = asyncio.ensure_future(consumer.poll(60_000))
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentModificationError):
                await consumer.poll()
            assert await polling
        finally:
            await consumer.close()

    with sharing("two callers", brokers=1) as (simulation, _):
        simulation.run(use(simulation))
    [rejected] = exported.spans("poll")
    [poll] = exported.spans("poll orders")
    assert (poll.start_time or 0) < (rejected.start_time or 0)


def test_a_commit_names_the_partitions_that_failed(observed: Observed) -> None:
    consumer = observed.consumer()
    records = take(consumer, 6)
    for record in records:
        record.accept()
    observed.simulation.cluster.move_leader(TP, 2)
    outcome = consumer.commit()
    assert [tp for tp, error in outcome.items() if error is not None] == [TP]
    [commit] = observed.spans("commit orders")
    assert not commit.status.is_ok
    assert (commit.attributes or {})["error.type"] == "RecordLockLostError"
    [event] = commit.events
    assert (event.attributes or {})[conventions.MESSAGING_DESTINATION_PARTITION_ID] == "0"
    [point] = [
        point
        for point in observed.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
        if point.attributes[conventions.MESSAGING_OPERATION_NAME] == "commit"
    ]
    assert point.attributes["error.type"] == "RecordLockLostError"


def test_a_commit_that_raises_has_its_error(observed: Observed) -> None:
    consumer = observed.consumer()
    record, *_ = take(consumer, 6)
    record.accept()
    for node_id in (1, 2):
        observed.simulation.cluster.pause(node_id)
    with pytest.raises(KafkaTimeoutError):
        consumer.commit(timeout_ms=100)
    for node_id in (1, 2):
        observed.simulation.cluster.resume(node_id)
    [span] = observed.spans("commit")
    assert (span.attributes or {})["error.type"] == "KafkaTimeoutError"
    assert not span.status.is_ok


def test_iteration_counts_records(observed: Observed) -> None:
    consumer = observed.consumer("implicit", consumer_timeout_ms=500)
    for record in consumer:
        with consumer.process(record):
            pass
    points = observed.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES)
    assert sum(point.value for point in points) == 6
    assert len(observed.spans("poll orders")) == len(observed.spans("process orders")) == 6


@pytest.mark.parametrize("iterates", [False, True])
def test_nothing_is_accepted_that_a_report_kept_from_the_application(
    observed: Observed, monkeypatch: pytest.MonkeyPatch, iterates: bool
) -> None:
    consumer = observed.consumer("implicit", consumer_timeout_ms=500)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Telemetry, "on_consume", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(consumer) if iterates else take(consumer, 1)
    found = list(consumer)
    assert sorted((record.partition, record.offset) for record in found) == [
        (partition, offset) for partition in (0, 1) for offset in (0, 1, 2)
    ]


def test_the_next_commit_tells_what_a_report_kept_from_the_application(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that Ctrl-C ended did not return the error, nor did the next one."""
    consumer = observed.consumer()
    for record in take(consumer, 6):
        record.accept()
    observed.simulation.cluster.move_leader(TP, 2)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Telemetry, "committed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.commit()
    outcome = consumer.commit()
    assert isinstance(outcome.pop(TP), RecordLockLostError)
    assert outcome == {TopicPartition("orders", 1): None}


def test_workers(observed: Observed) -> None:
    consumer = observed.consumer()
    handled: list[int] = []
    workers = ShareWorkers(consumer, consumer.traced(lambda each: handled.append(each.offset)))
    with observed.around():
        workers.run(until=lambda: len(handled) == 6)
    assert [span.parent for span in observed.spans("process orders")] == [None] * 6
    assert all(observed.children("poll orders"))
    assert observed.spans("commit orders")


def test_the_span_of_an_object_that_is_awaited_lasts_until_its_end(observed: Observed) -> None:
    """It ended before the handler began, and never had its error."""

    class Handler:
        async def __call__(self, _: ShareRecord) -> None:
            await asyncio.sleep(0)
            assert trace.get_current_span().get_span_context().is_valid
            raise ValueError("bad")

    consumer = observed.consumer()
    record, *_ = take(consumer, 1)
    with pytest.raises(ValueError, match="bad"):
        asyncio.run(consumer.traced(Handler())(record))
    [span] = observed.spans("process orders")
    assert (span.attributes or {})["error.type"] == "ValueError"


def test_asyncio() -> None:
    exported, handled = Exported(), []

    async def main(bootstrap: str) -> None:
        async with TracedAsyncShareConsumer(
            "orders",
            group_id="g",
            client_id="billing",
            acknowledgement="explicit",
            bootstrap_servers=bootstrap,
            **exported.providers,
        ) as consumer:

            @consumer.traced
            async def handle(record: ShareRecord) -> None:
                handled.append(record.offset)

            record = await anext(consumer)
            record.release()
            assert await consumer.commit() == {TP: None}
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await consumer.poll()
            with exported.around():
                await AsyncShareWorkers(consumer, handle).run(until=lambda: len(handled) == 3)

    with ServedKafka() as served:
        served.create_topic("orders", 1)
        served.perform(
            lambda cluster: cluster.configure_group("g", share_auto_offset_reset="earliest")
        )
        served.produce("orders", b"0", b"1", b"2")
        asyncio.run(main(served.bootstrap))
    assert [(each.attributes or {})["error.type"] for each in exported.spans("poll")] == [
        "WakeupError"
    ]
    poll = exported.spans("poll orders")[0]
    assert (poll.attributes or {})[conventions.MESSAGING_CLIENT_ID] == "billing"
    assert [span.parent for span in exported.spans("process orders")] == [None] * 3
    assert len(exported.spans("commit orders")) >= 2
