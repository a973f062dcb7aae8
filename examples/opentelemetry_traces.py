"""Print a span for each poll, record and commit.

pip install 'tandem-kafka[otel]' opentelemetry-sdk
python opentelemetry_traces.py
"""

from __future__ import annotations

import os
import signal
import threading

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from tandem_kafka import ConsumerRecord
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka.observability import TracedKafkaConsumer

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


def handle(record: ConsumerRecord) -> None:
    """Stand for the work. Spans that it opens are children of the span of the record."""


def main() -> None:
    """Read until Ctrl-C or SIGTERM; the exporter prints a line for each span."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(formatter=lambda span: f"span {span.name}\n")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with TracedKafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        tracer_provider=provider,
    ) as consumer:
        while not stopping.is_set():
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    with consumer.process(record):
                        handle(record)
            try:
                consumer.commit()
            except (CommitFailedError, KafkaTimeoutError) as error:
                print(f"not committed: {error}")  # the records may be handled again
    provider.shutdown()  # exports the last spans


if __name__ == "__main__":
    main()
