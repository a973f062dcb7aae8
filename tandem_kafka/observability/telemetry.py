"""Spans and metrics with the names and attributes of the semantic conventions for Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.propagate import extract
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Stopwatch
from tandem_kafka.types import ConsumerRecord, TopicPartition
from tandem_kafka.version import __version__

Attributes = dict[str, Any]
#: The partitions of a commit; None, or the error of one that failed alone.
Outcomes = dict[TopicPartition, Any]

_SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
_NAME: Final = "tandem_kafka"
#: The boundaries that the conventions advise, in seconds.
_BOUNDARIES: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
)  # fmt: skip
#: As many links as a span keeps by default.
_LINKS: Final = 128
#: Longer headers have no links. Invariant: anybody who produces can send them, and the time that
#: propagators need grows with the square of the length: 64 kB kept poll() busy for 11 seconds.
_HEADER_BYTES: Final = 512
#: A link has no baggage. Its propagator takes longer than that of the span, and logs each entry
#: that is invalid.
_BAGGAGE: Final = "baggage"

#: The poll() that this thread or task is in; None in iteration. Other callers have their own. It
#: may be that of another consumer, or have ended: a task keeps the one that it was created in.
_POLL: Final[ContextVar[Stopwatch | None]] = ContextVar("poll", default=None)


class Telemetry:
    """Creates the spans and records the metrics of one consumer."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
    ) -> None:
        self._tracer = trace.get_tracer(_NAME, __version__, tracer_provider, _SCHEMA)
        meter = metrics.get_meter(_NAME, __version__, meter_provider, _SCHEMA)
        self._operations = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of a poll that returned records, or of a commit",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Records returned"
        )
        self._processing = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of the application's work on a record or batch",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._common: Attributes = {"messaging.system": "kafka"}
        #: The calls of poll() of this consumer that have not ended.
        self._polls: set[Stopwatch] = set()

    def belongs_to(self, names: ClientNames) -> None:
        """Add the names of the consumer to all spans and metrics."""
        if names.client_id is not None:
            self._common["messaging.client.id"] = names.client_id
        if names.group_id is not None:
            self._common["messaging.consumer.group.name"] = names.group_id

    # --- reading -------------------------------------------------------------------------------

    @contextmanager
    def poll(self) -> Iterator[None]:
        """Report the poll in a ``with`` block: its records, by `on_consume`, or its error."""
        before = _POLL.get()
        watch = Stopwatch()
        _POLL.set(watch)
        self._polls.add(watch)
        try:
            yield
        except Exception as error:
            self._ended(self._operation("poll", "receive"), [(error, {})], watch)
            raise
        finally:
            _POLL.set(before)
            self._polls.discard(watch)

    def on_consume(self, records: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Report records that are about to be returned; called as an interceptor."""
        count = sum(map(len, records.values()))
        if not count:
            return
        attributes = self._operation("poll", "receive") | _place(list(records))
        for tp, batch in records.items():
            self._consumed.add(len(batch), self._operation("poll", "receive") | _place([tp]))
        poll = _POLL.get()
        if poll not in self._polls:
            poll = None
        if poll is not None:
            self._operations.record(poll.seconds, attributes)
        span = self._tracer.start_span(
            _span_name("poll", attributes),
            kind=SpanKind.CLIENT,
            attributes=attributes | {"messaging.batch.message_count": count},
            links=_links(record for batch in records.values() for record in batch),
            start_time=(poll or Stopwatch()).began_ns,
        )
        span.end()

    # --- commits -------------------------------------------------------------------------------

    def committed(
        self,
        outcomes: Outcomes,
        failure: BaseException | None,
        watch: Stopwatch,
        parent: Context | None = None,
    ) -> None:
        """Report a commit that raised, or what became of its partitions; `parent` as above."""
        attributes = self._operation("commit", "settle") | _place(list(outcomes))
        errors = [(error, _place([tp])) for tp, error in outcomes.items() if error is not None]
        self._ended(attributes, errors if failure is None else [(failure, {})], watch, parent)

    def _ended(
        self,
        attributes: Attributes,
        errors: Sequence[tuple[BaseException, Attributes]],
        watch: Stopwatch,
        parent: Context | None = None,
    ) -> None:
        if errors:
            attributes["error.type"] = type(errors[0][0]).__qualname__
        self._operations.record(watch.seconds, attributes)
        span = self._tracer.start_span(
            _span_name(attributes["messaging.operation.name"], attributes),
            context=parent,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=watch.began_ns,
        )
        for error, place in errors:
            span.record_exception(error, place)
        if errors:
            span.set_status(Status(StatusCode.ERROR, str(errors[0][0])))
        span.end()

    # --- processing ----------------------------------------------------------------------------

    @contextmanager
    def process(
        self, records: Sequence[ConsumerRecord[Any, Any]], parent: Context | None = None
    ) -> Iterator[trace.Span]:
        """Report the application's work on records; the span is the current one meanwhile.

        Args:
            records: The records.
            parent: The context with the span's parent, by default the current one.
        """
        partitions = list({TopicPartition(each.topic, each.partition) for each in records})
        attributes = self._operation("process", "process") | _place(partitions)
        watch = Stopwatch()
        with self._tracer.start_as_current_span(
            _span_name("process", attributes),
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes | _contents(records),
            links=_links(records),
        ) as span:
            try:
                yield span
            except BaseException as error:
                attributes["error.type"] = type(error).__qualname__
                span.set_attribute("error.type", type(error).__qualname__)
                raise
            finally:
                self._processing.record(watch.seconds, attributes)

    def _operation(self, name: str, kind: str) -> Attributes:
        return {
            **self._common,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
        }


def _span_name(operation: str, attributes: Attributes) -> str:
    destination = attributes.get("messaging.destination.name")
    return operation if destination is None else f"{operation} {destination}"


def _place(partitions: Sequence[TopicPartition]) -> Attributes:
    """Return topic and partition, if they are the same for all records."""
    topics = {tp.topic for tp in partitions}
    place: Attributes = {}
    if len(topics) == 1:
        place["messaging.destination.name"] = topics.pop()
        if len(partitions) == 1:
            place["messaging.destination.partition.id"] = str(partitions[0].partition)
    return place


def _contents(records: Sequence[ConsumerRecord[Any, Any]]) -> Attributes:
    if len(records) != 1:
        return {"messaging.batch.message_count": len(records)}
    [record] = records
    found: Attributes = {"messaging.kafka.offset": record.offset}
    if record.value is None:
        found["messaging.kafka.message.tombstone"] = True
    return found


def _links(records: Iterable[ConsumerRecord[Any, Any]]) -> list[Link]:
    """Return links to the spans that created the records, from their headers."""
    links: list[Link] = []
    for record in records:
        if len(links) == _LINKS:
            break
        if record.headers:
            carrier = {
                name: value.decode("utf-8", "replace")
                for name, value in record.headers
                if value and len(value) <= _HEADER_BYTES and name.lower() != _BAGGAGE
            }
            context = trace.get_current_span(extract(carrier)).get_span_context()
            if context.is_valid:
                links.append(Link(context))
    return links
