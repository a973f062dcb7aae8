"""Decodes values that the serializers of a schema registry wrote, one Arrow array at a time."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tandem_kafka import tables
from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.tables.storage import storage
from tandem_kafka.types import ArrowDecoder

#: A byte 0 and the schema id.
HEADER: Final = 5
#: What a column of Spark stores.
SPARK: Final = storage("Spark")


class DecodingError(KafkaError):
    """A value cannot be decoded."""


class Protobuf(tables.Protobuf):
    """A decoder of Protobuf that keeps wrappers such as Int64Value, as Spark's own does.

    And like Spark's own, it cuts times to microseconds, the finest that Spark has.
    """

    as_spark = True


@dataclass(frozen=True, slots=True)
class Registry:
    """The configuration of the registry client; sent to the workers, never shown."""

    settings: tuple[tuple[str, Any], ...] = field(repr=False)

    def __hash__(self) -> int:
        """Return a hash, even if a setting is not hashable."""
        return hash(repr(self.settings))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Registry:
        """Check the configuration of confluent-kafka's registry client.

        Raises:
            InvalidArgumentError: The url is missing, a name is unknown, or a value has the wrong
                type.
        """
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise InvalidArgumentError(f'registry must be like {{"url": "..."}}, got: {kind}')
        if not isinstance(given.get("url"), str) or not given["url"].strip():
            names = ", ".join(sorted(map(str, given))) or "nothing"
            raise InvalidArgumentError(f"registry must have a url (a string), got: {names}")
        found = cls(tuple(sorted(given.items())))
        found.connect()
        return found

    def connect(self) -> tables.SchemaRegistry:
        """Return a new client, which has not connected yet.

        Raises:
            InvalidArgumentError: The client rejects its configuration, or is not installed.
        """
        try:
            from confluent_kafka.schema_registry import (  # noqa: PLC0415 - an extra
                SchemaRegistryClient,
            )
        except ImportError as error:
            raise InvalidArgumentError(
                "a schema registry needs more packages: run pip install 'tandem-kafka[spark-avro]' "
                f"or 'tandem-kafka[spark-protobuf]' ({error})"
            ) from None
        try:
            client: tables.SchemaRegistry = SchemaRegistryClient(dict(self.settings))
        except (ValueError, TypeError, OSError) as error:
            raise InvalidArgumentError(f"registry: {error}") from None
        return client


@dataclass(frozen=True, slots=True)
class Registered:
    """What a worker makes a decoder of.

    Attributes:
        registry: The registry with the writers' schemas.
        schema: The reader's schema in Avro, as JSON, or the name of a message.
        descriptors: A FileDescriptorSet with the message; None for Avro.
    """

    registry: Registry
    schema: str
    descriptors: bytes | None = field(default=None, repr=False)

    @functools.cache  # noqa: B019 - a process has one for each configuration, until its end
    def decoder(self) -> tables.Avro | Protobuf:
        """Return the decoder of this process, which fetches each schema once."""
        client = self.registry.connect()
        if self.descriptors is None:
            return tables.Avro(self.schema, registry=client)
        return Protobuf(self.descriptors, self.schema, confluent=client)


def decode_array(column: pa.Array, decoder: ArrowDecoder, *, permissive: bool) -> pa.Array:
    """Decode a column to what Spark stores; nulls stay null.

    Args:
        column: An Arrow array of binary.
        decoder: How to decode it.
        permissive: Return null for a value that cannot be decoded, or has no place in Spark.

    Raises:
        DecodingError: There is such a value, and `permissive` is False.
        SchemaRegistryError: The request to the registry failed.
    """
    decoded, failures = decoder.decode(column)
    stored, unplaced = SPARK.column(decoded, "the value")
    if not permissive and (problems := [*failures, *unplaced]):
        row, reason = problems[0]
        raise DecodingError(f"{_named(column[row].as_py())}: {reason}")
    return stored


def _named(value: bytes) -> str:
    """Return the size of a value, and the schema id that it begins with."""
    if value[:1] != b"\0" or len(value) < HEADER:
        return f"a value of {len(value)} bytes"
    return f"schema id {int.from_bytes(value[1:HEADER], 'big')}, a value of {len(value)} bytes"
