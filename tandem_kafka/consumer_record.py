"""The record that consumers return.

Its base is a class of kafka-python's fetcher, which needs a third of kafka-python. Nobody can have
that class before the fetcher has run, so until then, the base is a class with the same fields.
"""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import when_run

import sys
from collections import namedtuple
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    from typing_extensions import TypeVar

#: The types of keys and values: bytes, or the return type of their deserializer.
KeyT = TypeVar("KeyT", default=bytes | None)
ValueT = TypeVar("ValueT", default=bytes | None)

if TYPE_CHECKING:

    class _RecordFields(NamedTuple, Generic[KeyT, ValueT]):
        topic: str
        partition: int
        leader_epoch: int
        offset: int
        timestamp: int
        timestamp_type: int | None
        key: KeyT
        value: ValueT
        headers: list[tuple[str, bytes | None]]
        checksum: int | None
        serialized_key_size: int
        serialized_value_size: int
        serialized_header_size: int

else:
    _RecordFields = namedtuple(  # noqa: PYI024 - without types, like kafka-python's
        "_RecordFields",
        "topic partition leader_epoch offset timestamp timestamp_type key value headers checksum "
        "serialized_key_size serialized_value_size serialized_header_size",
    )


class ConsumerRecord(_RecordFields[KeyT, ValueT]):
    """One record of a partition: a tuple, and an instance of kafka-python's ``ConsumerRecord``.

    Attributes:
        topic: Name of the topic.
        partition: Partition number.
        leader_epoch: Leader epoch of the record's batch, -1 if unknown (KIP-320).
        offset: Offset in the partition.
        timestamp: Milliseconds since the Unix epoch (UTC), -1 if there is none.
        timestamp_type: 0 if the producer set the timestamp, 1 if the broker did (log append
            time), None for message format v0.
        key: The result of the key deserializer. Without one, ``bytes`` or None.
        value: The result of the value deserializer. Without one, ``bytes``, or None for a
            tombstone.
        headers: Pairs of name and value. The list belongs to this record and may be modified.
        checksum: CRC of the record in message formats v0 and v1; None for v2, where the CRC
            covers the whole batch.
        serialized_key_size: Size of the serialized key in bytes, -1 for None.
        serialized_value_size: Size of the serialized value in bytes, -1 for None.
        serialized_header_size: Size of all header names and values in bytes, -1 if there are
            none.
    """

    __slots__ = ()

    @property
    def key_view(self) -> memoryview | None:
        """The key as a read-only memoryview, or None."""
        key: Any = self.key
        return None if key is None else memoryview(key)

    @property
    def value_view(self) -> memoryview | None:
        """The value as a read-only memoryview, or None."""
        value: Any = self.value
        return None if value is None else memoryview(value)


# It is part of the public module, also for pickle.
ConsumerRecord.__module__ = "tandem_kafka.types"


def _derive(fetcher: Any) -> None:
    """Replace the base, because programs check isinstance() against kafka-python's class."""
    ConsumerRecord.__bases__ = (fetcher.ConsumerRecord,)


when_run("kafka.consumer.fetcher", _derive)
