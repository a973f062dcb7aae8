"""Decode Avro values with a schema registry, through the deserializer of confluent-kafka.

Run it with Python 3.11 or newer, after
`pip install tandem-kafka 'confluent-kafka[avro,schemaregistry]'`. `--write` produces some payments
first. The default registry is in memory and knows only the schemas of this run:

    python examples/schema_registry.py --topic payments --write 10 --stop-after 10
    python examples/schema_registry.py --topic payments --registry http://localhost:8081
"""

from __future__ import annotations

import json
from typing import Any

from arguments import parser
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from stopping import Stop

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import RecordDeserializationError

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Payment",
        "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
    }
)


class FromRegistry:
    """Calls a deserializer of confluent-kafka with the context that it needs."""

    def __init__(self, deserializer: AvroDeserializer) -> None:
        self._deserializer = deserializer

    def deserialize(self, topic: str, headers: list[Any], data: bytes | None) -> Any:
        """Return the decoded value; None for a tombstone."""
        context = SerializationContext(topic, MessageField.VALUE, headers)
        return self._deserializer(data, context)


def write(bootstrap: str, topic: str, registry: SchemaRegistryClient, count: int) -> None:
    """Produce payments, and register their schema."""
    serialize = AvroSerializer(registry, SCHEMA)
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, serialize({"id": number, "amount": 42.5}, context))
    producer.flush(30)


def main() -> None:
    """Print payments; skip a value that cannot be decoded."""
    options = parser(__doc__)
    options.add_argument("--registry", default="mock://example", help="its URL")
    options.add_argument("--write", type=int, default=0, help="payments to produce first")
    arguments = options.parse_args()
    stop = Stop(arguments.stop_after)
    registry = SchemaRegistryClient.new_client({"url": arguments.registry})
    write(arguments.bootstrap, arguments.topic, registry, arguments.write)
    decoded = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        value_deserializer=FromRegistry(AvroDeserializer(registry)),
    ) as consumer:
        while not stop.due(decoded):
            try:
                batch = consumer.poll(timeout_ms=1_000)
            except RecordDeserializationError as error:
                print(f"skipped: {error}")
                consumer.seek(error.partition, error.offset + 1)
                continue
            for records in batch.values():
                for record in records:
                    print(record.value)
                    decoded += 1
            if batch:
                consumer.commit_sync()
    print(f"decoded {decoded}")


if __name__ == "__main__":
    main()
