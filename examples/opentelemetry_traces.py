"""Print a span for each poll, record and commit.

Run it with Python 3.11 or newer, after `pip install 'tandem-kafka[otel]' opentelemetry-sdk`:

    python examples/opentelemetry_traces.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

from arguments import parser
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from stopping import Stop

from tandem_kafka.opentelemetry import TracedKafkaConsumer


def main() -> None:
    """Read; the exporter prints each span on one line."""
    arguments = parser(__doc__).parse_args()
    stop = Stop(arguments.stop_after)
    exporter = ConsoleSpanExporter(formatter=lambda span: f"span {span.name}\n")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    read = 0
    with TracedKafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        tracer_provider=provider,
    ) as consumer:
        while not stop.due(read):
            records = consumer.poll(timeout_ms=1_000)
            for batch in records.values():
                for record in batch:
                    with consumer.process(record):
                        read += 1
            if records:
                consumer.commit()
    print(f"read {read}")


if __name__ == "__main__":
    main()
