"""Spans and metrics of poll(), iteration, commits, asyncio and workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any
from unittest.mock import Mock

import pytest

from tandem_kafka import ConsumerRecord, TopicPartition
from tandem_kafka.config import Config
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing import Simulation
from tests.simulation.ledger import produce, topic
from tests.simulation.simulated_workers import simulated_workers
from tests.simulation.test_async_workers import workers_on

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import propagate
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes as conventions
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.trace import SpanKind

from tandem_kafka.observability import TracedAsyncKafkaConsumer, TracedKafkaConsumer, telemetry
from tandem_kafka.observability.telemetry import Telemetry

TP = TopicPartition("orders", 0)
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
    """A simulation with one topic, and what the consumers on it report."""

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation("telemetry")
        topic(self.simulation, "orders", 1)
        produce(self.simulation, TP, 10)

    def consumer(self) -> TracedKafkaConsumer:
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

    def async_consumer(self) -> TracedAsyncKafkaConsumer:
        servers = self.simulation.cluster.bootstrap()
        consumer = TracedAsyncKafkaConsumer(
            "orders", bootstrap_servers=servers, **OPTIONS, **self.providers
        )
        consumer._run_in(*self.simulation._environment())
        return consumer


@pytest.fixture
def observed() -> Iterator[Observed]:
    observed = Observed()
    with observed.simulation:
        yield observed


def read(consumer: TracedKafkaConsumer) -> list[ConsumerRecord]:
    while not (batch := consumer.poll(500)):
        pass
    return batch[TP]


def test_poll_and_commit_have_spans_and_metrics(observed: Observed) -> None:
    consumer = observed.consumer()
    assert len(read(consumer)) == 10
    consumer.commit()
    [poll] = observed.spans("poll orders")
    assert poll.kind is SpanKind.CLIENT
    assert dict(poll.attributes or {}) == {
        conventions.MESSAGING_SYSTEM: "kafka",
        conventions.MESSAGING_CLIENT_ID: "billing",
        conventions.MESSAGING_CONSUMER_GROUP_NAME: "readers",
        conventions.MESSAGING_OPERATION_NAME: "poll",
        conventions.MESSAGING_OPERATION_TYPE: "receive",
        conventions.MESSAGING_DESTINATION_NAME: "orders",
        conventions.MESSAGING_DESTINATION_PARTITION_ID: "0",
        conventions.MESSAGING_BATCH_MESSAGE_COUNT: 10,
    }
    [commit] = observed.spans("commit")
    assert (commit.attributes or {})[conventions.MESSAGING_OPERATION_TYPE] == "settle"
    [consumed] = observed.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES)
    assert consumed.value == 10
    durations = observed.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    names = [point.attributes[conventions.MESSAGING_OPERATION_NAME] for point in durations]
    assert sorted(names) == ["commit", "poll"]


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


def test_a_failed_commit_has_its_error(observed: Observed) -> None:
    consumer = observed.consumer()
    read(consumer)
    observed.simulation.cluster.stop(1)
    with pytest.raises(KafkaTimeoutError):
        consumer.commit(timeout_ms=100)
    [span] = observed.spans("commit")
    assert (span.attributes or {})["error.type"] == "KafkaTimeoutError"
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["exception"]


def test_iteration_counts_records(observed: Observed) -> None:
    consumer = observed.consumer()
    for number, record in enumerate(consumer, 1):
        with consumer.process(record):
            pass
        if number == 10:
            break
    points = observed.points("messaging.client.consumed.messages")
    assert sum(point.value for point in points) == 10
    assert len(observed.spans("process orders")) == 10
    assert observed.spans("poll orders")


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


def test_asyncio(observed: Observed) -> None:
    async def run() -> None:
        async with observed.async_consumer() as consumer:
            batch = await consumer.poll(5_000)
            with consumer.process(batch[TP]):
                pass
            await consumer.commit()

    observed.simulation.run(run())
    [poll] = observed.spans("poll orders")
    assert (poll.attributes or {})[conventions.MESSAGING_CLIENT_ID] == "billing"
    assert len(observed.spans("process orders")) == 1
    assert len(observed.spans("commit")) == 1


def test_workers(observed: Observed) -> None:
    consumer = observed.consumer()
    handled: list[int] = []
    handle = consumer.traced(lambda record: handled.append(record.offset))
    workers = simulated_workers(observed.simulation, consumer, handle)
    workers.run(until=lambda: len(handled) == 10)
    assert len(observed.spans("process orders")) == 10
    assert observed.spans("poll orders")
    assert observed.spans("commit orders")


def test_a_span_around_workers_is_no_parent_of_what_they_process(observed: Observed) -> None:
    """It would be the parent of all, as long as `run()` lasts. That of a poll it is."""
    consumer = observed.consumer()
    handled: list[int] = []
    handle = consumer.traced(lambda record: handled.append(record.offset))
    workers = simulated_workers(observed.simulation, consumer, handle)
    with observed.around():
        workers.run(until=lambda: len(handled) == 10)
    assert [span.parent for span in observed.spans("process orders")] == [None] * 10
    assert all(observed.children("poll orders"))


def test_a_span_around_workers_for_asyncio_is_no_parent_of_what_they_process(
    observed: Observed,
) -> None:
    handled: list[int] = []

    async def main() -> None:
        async with observed.async_consumer() as consumer:

            @consumer.traced
            async def handle(record: ConsumerRecord) -> None:
                await asyncio.sleep(0)
                handled.append(record.offset)

            with observed.around():
                workers = workers_on(observed.simulation, consumer, handle)
                await workers.run(until=lambda: len(handled) == 10)

    observed.simulation.run(main())
    assert [span.parent for span in observed.spans("process orders")] == [None] * 10
    assert all(observed.children("poll orders"))


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
