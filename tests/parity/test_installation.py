"""`tandem_kafka.install()`: programs that import from kafka-python, and agents that patch it."""

from __future__ import annotations

import json
import subprocess
import sys

import kafka as kafka_python
import pytest

import tandem_kafka
from tandem_kafka_testing.kafka import RealKafka

#: A program that is not written for this library.
PROGRAM = """
import json, sys
servers, topic = sys.argv[1:]

import tandem_kafka
tandem_kafka.install()

from opentelemetry.instrumentation.kafka import KafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
KafkaInstrumentor().instrument(tracer_provider=provider)

import kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.group import KafkaConsumer as again

producer = KafkaProducer(bootstrap_servers=servers)
for value in (b"a", b"b"):
    producer.send(topic, value).get(30)
producer.close()
values = []
with KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
    for record in consumer:
        values.append(record.value.decode())
        if len(values) == 2:
            break
    ours = isinstance(consumer, kafka.KafkaConsumer) and again is KafkaConsumer
finished = exporter.get_finished_spans()
spans = [[span.name, span.kind.name, span.context.trace_id] for span in finished]
print(json.dumps([values, ours and type(consumer).__module__, spans]))
"""


def test_a_program_and_its_instrumentation(kafka: RealKafka, topic: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kafka.bootstrap(), topic],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    values, module, spans = json.loads(done.stdout)
    assert (values, module) == (["a", "b"], "tandem_kafka.consumer.consumer")
    kinds = [(name, kind) for name, kind, _ in spans]
    assert kinds == [(f"{topic} send", "PRODUCER")] * 2 + [(f"{topic} receive", "CONSUMER")] * 2
    produced = {trace for _, kind, trace in spans if kind == "PRODUCER"}
    consumed = {trace for _, kind, trace in spans if kind == "CONSUMER"}
    assert produced == consumed, "the headers have the trace context"


def test_uninstall_restores_kafka_pythons_consumer() -> None:
    before = kafka_python.KafkaConsumer
    tandem_kafka.install()
    tandem_kafka.install()
    assert kafka_python.KafkaConsumer is tandem_kafka.KafkaConsumer
    assert kafka_python.consumer.KafkaConsumer is tandem_kafka.KafkaConsumer
    assert kafka_python.consumer.group.KafkaConsumer is tandem_kafka.KafkaConsumer
    tandem_kafka.uninstall()
    assert kafka_python.KafkaConsumer is kafka_python.consumer.group.KafkaConsumer is before


@pytest.mark.parametrize("name", kafka_python.__all__)
def test_one_line_of_imports_changes(name: str) -> None:
    """`from tandem_kafka import ...` has every name that `from kafka import ...` has."""
    ours, theirs = getattr(tandem_kafka, name), getattr(kafka_python, name)
    assert ours is theirs or name == "KafkaConsumer"
