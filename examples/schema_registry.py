"""Decode Avro values with a schema registry, through the deserializer of confluent-kafka.

pip install tandem-kafka 'confluent-kafka[avro,schemaregistry]'
TOPIC=payments REGISTRY_URL=http://localhost:8081 python schema_registry.py
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError, RecordDeserializationError

#: What deserializers raise for bytes that have no schema id or do not match their schema.
WRONG_BYTES = (SerializationError, EOFError, LookupError, ValueError)

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


class FromRegistry:
    """Calls a deserializer of confluent-kafka with the context that it needs."""

    def __init__(self, deserializer: AvroDeserializer) -> None:
        self._deserializer = deserializer

    def deserialize(self, topic: str, headers: list[Any], data: bytes | None) -> Any:
        """Return the decoded value; None for a tombstone."""
        return self._deserializer(data, SerializationContext(topic, MessageField.VALUE, headers))


def main() -> None:
    """Print the values until Ctrl-C or SIGTERM; skip those that cannot be decoded."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    url = os.environ.get("REGISTRY_URL", "http://localhost:8081")
    registry = SchemaRegistryClient.new_client({"url": url})
    with KafkaConsumer(
        os.environ.get("TOPIC", "payments"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        value_deserializer=FromRegistry(AvroDeserializer(registry)),
    ) as consumer:
        while not stopping.is_set():
            try:
                batch = consumer.poll(timeout_ms=1_000)
            except RecordDeserializationError as error:
                print(f"not decoded: {error}")
                if isinstance(error.__cause__, WRONG_BYTES):
                    consumer.seek(error.partition, error.offset + 1)
                else:
                    time.sleep(1)  # the registry failed: the next poll() decodes the record again
                continue
            for records in batch.values():
                for record in records:
                    print(record.value)
            try:
                consumer.commit()
            except (CommitFailedError, KafkaTimeoutError) as error:
                print(f"not committed: {error}")  # the records may be handled again


if __name__ == "__main__":
    main()
