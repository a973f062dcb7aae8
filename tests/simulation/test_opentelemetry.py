"""Spans and metrics of poll(), iteration, commits, outcomes, asyncio and workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import copy_context
from itertools import islice
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest

from tandem_kafka import ConsumerRecord, ShareRecord, TopicPartition
from tandem_kafka.config import Config
from tandem_kafka.consumer.share.options import share_options
from tandem_kafka.errors import (
    ConcurrentModificationError,
    KafkaTimeoutError,
    RecordLockLostError,
    WakeupError,
)
from tandem_kafka.workers import AsyncShareWorkers, ShareWorkers
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import TP, sharing, take
from tests.simulation.simulated_workers import KINDS, simulated_workers, workers_on

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import propagate, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes as conventions
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.trace import SpanKind

from tandem_kafka.observability import (
    TracedAsyncKafkaConsumer,
    TracedAsyncShareConsumer,
    TracedKafkaConsumer,
    TracedShareConsumer,
    telemetry,
)
from tandem_kafka.observability.telemetry import Telemetry

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADERS = [("traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())]
OPTIONS: dict[str, Any] = {
    "group_id": "readers",
    "client_id": "billing",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}


class Exported:
    """What consumers report."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracer_provider = TracerProvider()
        tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.providers: dict[str, Any] = {
            "tracer_provider": tracer_provider,
            "meter_provider": MeterProvider([self._reader], shutdown_on_exit=False),
        }

    def around(self) -> AbstractContextManager[Any]:
        """Return a `with` block of the application, with a span that is the current one inside."""
        tracer = self.providers["tracer_provider"].get_tracer("application")
        block: AbstractContextManager[Any] = tracer.start_as_current_span("around")
        return block

    def children(self, name: str) -> list[bool]:
        """Tell of each span of this name whether the span around it is the parent."""
        [around] = self.spans("around")
        return [span.parent == around.context for span in self.spans(name)]

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


class Observed(Exported):
    """A group of a simulation that reads one topic, and what its consumers report.

    Attributes:
        counts: The number of records of each partition.
        commit: The name of the span of a commit.
    """

    group = "readers"
    counts: ClassVar = [10]
    commit = "commit"

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation
        self.count = sum(self.counts)

    def consumer(self) -> Any:
        telemetry = Telemetry(**self.providers)
        options = {
            **OPTIONS,
            "bootstrap_servers": self.simulation.cluster.bootstrap(),
            "interceptor_classes": [telemetry],
        }
        consumer = TracedKafkaConsumer.__new__(TracedKafkaConsumer)
        consumer._telemetry = telemetry
        runtime, transport = self.simulation._environment()
        consumer._start(Config.from_options(options), runtime, ("orders",), transport)
        self.simulation.consumers.append(consumer)
        return consumer

    def async_consumer(self) -> Any:
        return self._on_network(TracedAsyncKafkaConsumer, **OPTIONS)

    def _on_network(self, make: Callable[..., Any], **options: Any) -> Any:
        servers = self.simulation.cluster.bootstrap()
        consumer = make("orders", bootstrap_servers=servers, **options, **self.providers)
        consumer._run_in(*self.simulation._environment())
        return consumer

    def workers(self, consumer: Any, handle: Any) -> Any:
        return simulated_workers(self.simulation, consumer, handle)

    def async_workers(self, consumer: Any, handle: Any) -> Any:
        return workers_on(self.simulation, consumer, handle)


class ObservedShare(Observed):
    """A share group that reads two partitions."""

    group = "g"
    counts: ClassVar = [3, 3]
    commit = "commit orders"

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.started: list[TracedShareConsumer] = []

    def consumer(self, acknowledgement: str = "explicit", **options: Any) -> Any:
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
        self.started.append(consumer)
        return consumer

    def async_consumer(self) -> Any:
        how = {"group_id": "g", "client_id": "billing", "acknowledgement": "explicit"}
        return self._on_network(TracedAsyncShareConsumer, **how)

    def workers(self, consumer: Any, handle: Any) -> Any:
        return ShareWorkers(consumer, handle)

    def async_workers(self, consumer: Any, handle: Any) -> Any:
        return AsyncShareWorkers(consumer, handle)


@pytest.fixture
def observed() -> Iterator[Observed]:
    with Simulation("telemetry") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        yield Observed(simulation)


@pytest.fixture
def observed_share() -> Iterator[ObservedShare]:
    with sharing("telemetry", partitions=2) as (simulation, _):
        found = ObservedShare(simulation)
        yield found
        for consumer in found.started:
            consumer.close()


@pytest.fixture(params=["observed", "observed_share"], ids=["group", "share"])
def either(request: pytest.FixtureRequest) -> Any:
    """A group, then a share group."""
    return request.getfixturevalue(request.param)


def read(consumer: TracedKafkaConsumer) -> list[ConsumerRecord]:
    return take(consumer, 10)  # type: ignore[arg-type]


def settle(records: list[Any]) -> None:
    """Accept records of a share group."""
    for record in records:
        if isinstance(record, ShareRecord):
            record.accept()


# --- groups and share groups ---------------------------------------------------------------------


def test_poll_and_commit_have_spans_and_metrics(either: Observed) -> None:
    consumer = either.consumer()
    settle(take(consumer, either.count))
    consumer.commit()
    poll, *others = either.spans("poll orders")
    attributes = dict(poll.attributes or {})
    partition = attributes.pop(conventions.MESSAGING_DESTINATION_PARTITION_ID, None)
    count = attributes.pop(conventions.MESSAGING_BATCH_MESSAGE_COUNT)
    if either.counts == [10]:
        assert (partition, count) == ("0", 10)
    assert poll.kind is SpanKind.CLIENT
    assert attributes == {
        conventions.MESSAGING_SYSTEM: "kafka",
        conventions.MESSAGING_CLIENT_ID: "billing",
        conventions.MESSAGING_CONSUMER_GROUP_NAME: either.group,
        conventions.MESSAGING_OPERATION_NAME: "poll",
        conventions.MESSAGING_OPERATION_TYPE: "receive",
        conventions.MESSAGING_DESTINATION_NAME: "orders",
    }
    [commit] = either.spans(either.commit)
    assert (commit.attributes or {})[conventions.MESSAGING_OPERATION_TYPE] == "settle"
    assert "error.type" not in (commit.attributes or {})
    consumed = either.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES)
    assert [point.value for point in consumed] == either.counts
    durations: Counter[str] = Counter()
    for point in either.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION):
        durations[point.attributes[conventions.MESSAGING_OPERATION_NAME]] += point.count
    assert durations == {"commit": 1, "poll": 1 + len(others)}


def test_a_poll_that_raises_has_its_error(either: Observed) -> None:
    consumer = either.consumer()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll()
    [poll] = either.spans("poll")
    assert (poll.attributes or {})["error.type"] == "WakeupError"
    assert not poll.status.is_ok


def test_a_commit_that_raises_has_its_error(either: Observed) -> None:
    consumer = either.consumer()
    settle(take(consumer, either.count))
    brokers = either.simulation.cluster.brokers
    for node_id in brokers:
        either.simulation.cluster.pause(node_id)
    with pytest.raises(KafkaTimeoutError):
        consumer.commit(timeout_ms=100)
    for node_id in brokers:
        either.simulation.cluster.resume(node_id)
    [span] = either.spans("commit")
    assert (span.attributes or {})["error.type"] == "KafkaTimeoutError"
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["exception"]


def test_iteration_counts_records(either: Observed) -> None:
    consumer = either.consumer()
    for record in islice(consumer, either.count):
        with consumer.process(record):
            settle([record])
    points = either.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES)
    assert sum(point.value for point in points) == either.count
    assert len(either.spans("process orders")) == either.count
    polls = len(either.spans("poll orders"))
    assert polls == either.count or (polls and not isinstance(either, ObservedShare))


def test_asyncio(either: Observed) -> None:
    async def run() -> None:
        async with either.async_consumer() as consumer:
            [[record]] = (await consumer.poll(60_000, max_records=1)).values()
            with consumer.process(record):
                settle([record])
            settle([await anext(consumer)])
            await consumer.commit()
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await consumer.poll()

    either.simulation.run(run())
    [failed] = either.spans("poll")
    assert (failed.attributes or {})["error.type"] == "WakeupError"
    assert not failed.status.is_ok
    poll = either.spans("poll orders")[0]
    assert (poll.attributes or {})[conventions.MESSAGING_CLIENT_ID] == "billing"
    assert len(either.spans("process orders")) == 1
    assert len(either.spans(either.commit)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_span_around_workers_is_no_parent_of_what_they_process(
    either: Observed, kind: str
) -> None:
    """It would be the parent of all, as long as `run()` lasts. That of a poll it is."""
    handled: list[int] = []

    def enough() -> bool:
        return len(handled) == either.count

    async def main() -> None:
        async with either.async_consumer() as consumer:

            @consumer.traced  # type: ignore[untyped-decorator]
            async def handle(record: Any) -> None:
                await asyncio.sleep(0)
                handled.append(record.offset)

            with either.around():
                await either.async_workers(consumer, handle).run(until=enough)

    if kind == "asyncio":
        either.simulation.run(main())
    else:
        consumer = either.consumer()
        handle = consumer.traced(lambda record: handled.append(record.offset))
        with either.around():
            either.workers(consumer, handle).run(until=enough)
    assert [span.parent for span in either.spans("process orders")] == [None] * either.count
    assert all(either.children("poll orders"))
    assert either.spans("commit orders")


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_report_that_raises_loses_no_record(
    observed: Observed, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = observed.consumer()
    begin = Mock(side_effect=error)
    with monkeypatch.context() as patched:
        patched.setattr(consumer._telemetry._tracer, "start_span", begin)
        try:
            records = read(consumer)
        except KeyboardInterrupt:
            records = []
    begin.assert_called_once()
    assert [each.offset for each in records or read(consumer)] == list(range(10))


def test_asynchronous_commits_end_with_the_response(observed: Observed) -> None:
    consumer = observed.consumer()
    read(consumer)
    offsets: list[Any] = []
    consumer.commit_async(callback=lambda *outcome: offsets.append(outcome))
    assert observed.spans("commit") == []
    consumer.poll(500)
    assert len(offsets) == 1
    assert len(observed.spans("commit")) == 1


def test_iteration_is_not_timed_by_a_poll_that_has_ended_or_is_of_another_consumer() -> None:
    """A task keeps the context of the poll() in which a rebalance listener has created it."""
    observed = Exported()
    first, second = (Telemetry(**observed.providers) for _ in range(2))
    records = {TP: [Mock(headers=())]}
    with first.poll():
        second.on_consume(records)
        of_task = copy_context()
    of_task.run(first.on_consume, records)
    assert not observed.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    assert len(observed.spans("poll orders")) == 2
    with first.poll():
        of_task.run(first.on_consume, records)
        with first.poll():  # of a rebalance listener
            pass
        first.on_consume(records)
    [timed] = observed.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    assert timed.count == 1


def test_process_links_to_the_span_that_created_the_record(observed: Observed) -> None:
    consumer = observed.consumer()
    record = read(consumer)[3]
    record = ConsumerRecord(**{**_fields(record), "headers": HEADERS, "value": None})
    with consumer.process(record) as current:
        current.set_attribute("mine", 1)
    with pytest.raises(ValueError, match="bad"), consumer.process([record, record]):
        raise ValueError("bad")
    single, batch = observed.spans("process orders")
    [link] = single.links
    assert f"{link.context.trace_id:032x}" == TRACE
    assert link.context.is_remote
    assert single.kind is SpanKind.CONSUMER
    attributes = dict(single.attributes or {})
    assert attributes[conventions.MESSAGING_KAFKA_OFFSET] == 3
    assert attributes[conventions.MESSAGING_KAFKA_MESSAGE_TOMBSTONE] is True
    assert attributes["mine"] == 1
    assert (batch.attributes or {})[conventions.MESSAGING_BATCH_MESSAGE_COUNT] == 2
    assert (batch.attributes or {})["error.type"] == "ValueError"
    points = observed.points(messaging_metrics.MESSAGING_PROCESS_DURATION)
    assert {point.attributes.get("error.type"): point.count for point in points} == {
        None: 1,
        "ValueError": 1,
    }


def test_baggage_is_not_read_for_links(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    record = read(observed.consumer())[3]
    headers = [*HEADERS, ("baggage", b"bad;;=,=;")]
    linked = ConsumerRecord(**{**_fields(record), "headers": headers})
    assert len(telemetry._links([linked])) == 1
    assert not caplog.records


def test_no_header_keeps_the_propagators_busy(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 64 kB took 11 seconds, and four times as long for twice the size."""
    extracted: list[dict[str, str]] = []

    def extract(carrier: dict[str, str]) -> Any:
        extracted.append(carrier)
        return propagate.extract(carrier)

    monkeypatch.setattr(telemetry, "extract", extract)
    consumer = observed.consumer()
    record = read(consumer)[3]
    hostile = [("traceparent", HEADERS[0][1] + b"-" + b" " * 10_000 + b"\nx")]
    many = [*HEADERS, ("tracestate", b"a=b," * 1_000)]
    for headers in (hostile, many):
        with consumer.process(ConsumerRecord(**{**_fields(record), "headers": headers})):
            pass
    assert extracted == [{}, {"traceparent": HEADERS[0][1].decode()}]
    linked = ConsumerRecord(**{**_fields(record), "headers": HEADERS})
    assert len(telemetry._links([linked] * 200)) == 128
    without, with_link = observed.spans("process orders")
    assert not without.links
    assert len(with_link.links) == 1


def _fields(record: ConsumerRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ConsumerRecord._fields}


def test_a_span_around_process_and_commits_is_their_parent(observed: Observed) -> None:
    """An asynchronous commit ends later, in the span of another `poll()`."""
    consumer = observed.consumer()
    records = read(consumer)
    with observed.around():
        with consumer.process(records):
            pass
        consumer.commit()
        consumer.commit_async()
    tracer = observed.providers["tracer_provider"].get_tracer("application")
    with tracer.start_as_current_span("later"):
        consumer.poll(500)
    assert observed.children("process orders") == [True]
    assert observed.children("commit") == [True, True]


def test_traced_keeps_coroutines(observed: Observed) -> None:
    consumer = observed.consumer()
    record = read(consumer)[0]

    @consumer.traced
    async def handle(record: ConsumerRecord) -> int:
        return record.offset

    assert observed.simulation.run(handle(record)) == 0
    assert len(observed.spans("process orders")) == 1


# --- share groups ---------------------------------------------------------------------------------


def test_a_poll_of_two_partitions_counts_all_records(observed_share: ObservedShare) -> None:
    consumer = observed_share.consumer()
    first, *others = sorted(take(consumer, 6), key=lambda each: each.partition)[2:5]
    both = {TP: [first], TopicPartition("orders", 1): others}
    before = len(observed_share.spans("poll orders"))
    consumer._telemetry.on_consume(both)
    [poll] = observed_share.spans("poll orders")[before:]
    assert (poll.attributes or {})[conventions.MESSAGING_BATCH_MESSAGE_COUNT] == 3
    assert conventions.MESSAGING_DESTINATION_PARTITION_ID not in (poll.attributes or {})


def test_the_span_of_a_poll_begins_with_it_though_another_task_calls_poll(
    observed_share: ObservedShare,
) -> None:
    """It began with the call that was rejected."""

    async def use() -> None:
        async with observed_share.async_consumer() as consumer:
            polling = asyncio.ensure_future(consumer.poll(60_000))
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentModificationError):
                await consumer.poll()
            assert await polling

    observed_share.simulation.run(use())
    [rejected] = observed_share.spans("poll")
    poll = observed_share.spans("poll orders")[0]
    assert (poll.start_time or 0) < (rejected.start_time or 0)


def test_a_commit_names_the_partitions_that_failed(observed_share: ObservedShare) -> None:
    consumer = observed_share.consumer()
    records = take(consumer, 6)
    for record in records:
        record.accept()
    observed_share.simulation.cluster.move_leader(TP, 2)
    outcome = consumer.commit()
    assert [tp for tp, error in outcome.items() if error is not None] == [TP]
    [commit] = observed_share.spans("commit orders")
    assert not commit.status.is_ok
    assert (commit.attributes or {})["error.type"] == "RecordLockLostError"
    [event] = commit.events
    assert (event.attributes or {})[conventions.MESSAGING_DESTINATION_PARTITION_ID] == "0"
    [point] = [
        point
        for point in observed_share.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
        if point.attributes[conventions.MESSAGING_OPERATION_NAME] == "commit"
    ]
    assert point.attributes["error.type"] == "RecordLockLostError"


@pytest.mark.parametrize("iterates", [False, True])
def test_nothing_is_accepted_that_a_report_kept_from_the_application(
    observed_share: ObservedShare, monkeypatch: pytest.MonkeyPatch, iterates: bool
) -> None:
    consumer = observed_share.consumer("implicit", consumer_timeout_ms=500)

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
    observed_share: ObservedShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that Ctrl-C ended did not return the error, nor did the next one."""
    consumer = observed_share.consumer()
    for record in take(consumer, 6):
        record.accept()
    observed_share.simulation.cluster.move_leader(TP, 2)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Telemetry, "committed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.commit()
    outcome = consumer.commit()
    assert isinstance(outcome.pop(TP), RecordLockLostError)
    assert outcome == {TopicPartition("orders", 1): None}


def test_the_span_of_an_object_that_is_awaited_lasts_until_its_end(
    observed_share: ObservedShare,
) -> None:
    """It ended before the handler began, and never had its error."""

    class Handler:
        async def __call__(self, _: ShareRecord) -> None:
            await asyncio.sleep(0)
            assert trace.get_current_span().get_span_context().is_valid
            raise ValueError("bad")

    consumer = observed_share.consumer()
    record, *_ = take(consumer, 1)
    with pytest.raises(ValueError, match="bad"):
        asyncio.run(consumer.traced(Handler())(record))
    [span] = observed_share.spans("process orders")
    assert (span.attributes or {})["error.type"] == "ValueError"
