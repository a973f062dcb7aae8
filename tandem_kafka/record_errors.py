"""The errors of single records: one that cannot be read, deserialized or handled."""

from __future__ import annotations

import tandem_kafka.kafka_python  # noqa: F401 - before any module of kafka-python

import contextlib
import functools
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tandem_kafka._kafka import CorruptRecordError as _CorruptRecordError
    from tandem_kafka._kafka import KafkaError
    from tandem_kafka._kafka import UnsupportedCodecError as _UnsupportedCodecError
    from tandem_kafka.types import ConsumerRecord, TopicPartition
else:
    from kafka.errors import CorruptRecordError as _CorruptRecordError
    from kafka.errors import KafkaError
    from kafka.errors import UnsupportedCodecError as _UnsupportedCodecError
    from kafka.structs import TopicPartition

__all__ = [
    "CorruptRecordError",
    "RecordDeserializationError",
    "RecordFailedError",
    "UnsupportedCodecError",
]


class _UnreadableBatchError(KafkaError):
    """A record batch that cannot be read.

    Attributes:
        partition: Topic and partition, None if unknown.
        offset: The offset of the next record, None if unknown.
        next_offset: The offset after the batch. Seek there to skip it. None if the end of the batch
            is unknown, because its header is damaged or the broker could not read it.
    """

    partition: TopicPartition | None = None
    offset: int | None = None
    next_offset: int | None = None

    @classmethod
    def at(
        cls, topic: str, partition: int, offset: int, problem: str, next_offset: int | None
    ) -> Self:
        """Return the error of a reader at `offset`, which found `problem` in a batch."""
        advice = "seek past it to continue"
        if next_offset is not None:
            advice = f"seek to offset {next_offset} to skip the batch"
        error = cls(f"cannot read {topic}-{partition} at offset {offset}: {problem}; {advice}")
        error.partition = TopicPartition(topic, partition)
        error.offset = offset
        error.next_offset = next_offset
        return error


class CorruptRecordError(_UnreadableBatchError, _CorruptRecordError):
    """A batch fails its CRC, is malformed or exceeds a limit. Seek past it to continue.

    Attributes:
        partition: Topic and partition, None if unknown.
        offset: The offset of the next record, None if unknown.
        next_offset: The offset after the batch. Seek there to skip it. None if the end of the batch
            is unknown, because its header is damaged or the broker could not read it.
    """


class UnsupportedCodecError(_UnreadableBatchError, _UnsupportedCodecError):
    """The compression of a batch is unknown. Seek past it to continue.

    Attributes:
        partition: Topic and partition, None if unknown.
        offset: The offset of the next record, None if unknown.
        next_offset: The offset after the batch. Seek there to skip it.
    """


class RecordFailedError(KafkaError):
    """A record could not be handled by ``KeyedWorkers``; the handler's exception is the cause.

    Attributes:
        record: The record; with ``batch``, the first one of the call.
        attempts: How often the handler was called for it.
    """

    def __init__(self, message: str, record: ConsumerRecord[Any, Any], attempts: int) -> None:
        super().__init__(message)
        self.record = record
        self.attempts = attempts


class RecordDeserializationError(KafkaError):
    """A deserializer raised an exception. Seek to the offset after the record to skip it.

    If possible, the error is also an instance of the class of the deserializer's exception, with
    its arguments and attributes. The attributes below take precedence. The deserializer's
    exception is always the cause (``__cause__``).

    Attributes:
        origin: ``"key"`` or ``"value"``.
        partition: Topic and partition of the record.
        offset: Offset of the record.
        timestamp: Timestamp of the record in milliseconds since the Unix epoch, -1 if none.
        key: Serialized key, or None.
        value: Serialized value, or None.
        headers: Headers of the record, as pairs of name and value.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the record's coordinates
        self,
        origin: str,
        partition: TopicPartition,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        super().__init__(f"cannot deserialize the {origin}")
        self.origin = origin
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    @classmethod
    def caused_by(cls, error: Exception, *record: Any) -> RecordDeserializationError:
        """Return an error that is also an instance of the class of ``error``, if possible.

        Args:
            error: The deserializer's exception.
            *record: The arguments of the constructor.
        """
        plain = cls(*record)
        plain.__cause__ = error
        known: Any = type(error)  # typeshed declares no hash for exception types
        kind = _combined(known)
        if kind is None:
            return plain
        try:
            return kind.copied(error, plain)
        except Exception:  # noqa: BLE001 - a user's class may raise anything
            return plain

    @classmethod
    def copied(cls, error: Exception, plain: RecordDeserializationError) -> Self:
        """Return an error that combines both, without calling the constructor of either class.

        Raises:
            Exception: The two cannot be combined.
        """
        builtin = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
        made = builtin.__new__(cls, *error.args)
        # Only the constructor of a builtin class sets its internal fields.
        builtin.__init__(made, *error.args)  # type: ignore[misc]  # a base class of its type
        for name in _fields(type(error)):
            value = getattr(error, name, None)
            if value is not None:
                with contextlib.suppress(AttributeError):  # `__new__` has set read-only fields
                    setattr(made, name, value)
        made.__dict__.update(error.__dict__)
        for name, value in plain.__dict__.items():
            setattr(made, name, value)
        made.__cause__ = error
        return made

    def __str__(self) -> str:
        """Name the record, the deserializer's exception and the next step."""
        text = (
            f"cannot deserialize the {self.origin} of "
            f"{self.partition.topic}-{self.partition.partition} at offset {self.offset}"
        )
        cause = (
            ""
            if self.__cause__ is None
            else f" ({type(self.__cause__).__name__}: {self.__cause__})"
        )
        return f"{text}{cause}; seek to offset {self.offset + 1} to skip the record"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts of the error, because a combined class cannot be found by name."""
        record = (self.origin, self.partition, self.offset, self.timestamp)
        return _again, (self.__cause__, (*record, self.key, self.value, self.headers))


def _again(error: Exception | None, record: tuple[Any, ...]) -> RecordDeserializationError:
    if error is None:
        return RecordDeserializationError(*record)
    return RecordDeserializationError.caused_by(error, *record)


def _fields(kind: type) -> list[str]:
    """Return the names of the fields that are neither in `args` nor in `__dict__`."""
    described = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return [
        name
        for each in kind.__mro__
        for name, found in vars(each).items()
        if isinstance(found, described) and name != "args" and not name.startswith("__")
    ]


@functools.lru_cache(maxsize=64)
def _combined(kind: Any) -> type[RecordDeserializationError] | None:
    """Return a subclass of `RecordDeserializationError` and `kind`, or None if impossible.

    StopIteration cannot be combined: in a loop it would mean that there are no more records.
    """
    base = RecordDeserializationError
    if issubclass(kind, (StopIteration, StopAsyncIteration, base)):
        return None
    names = {"__module__": base.__module__}
    made: type[RecordDeserializationError]
    try:
        made = types.new_class(
            base.__name__, (base, kind), exec_body=lambda body: body.update(names)
        )
    except Exception:  # noqa: BLE001 - conflicting layouts or metaclasses, or a final class
        return None
    return made
