"""All errors that the consumer raises: classes of kafka-python and additional ones.

`KafkaError` is the base class of them all. An error whose `retriable` attribute is true is
transient. The consumer retries such an error where it can, and raises it only after a deadline.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import contextlib
import functools
import shlex
import types
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Self

from tandem_kafka.logs import login_name

if TYPE_CHECKING:
    from tandem_kafka._kafka import (
        BrokerResponseError,
        CommitFailedError,
        FencedInstanceIdError,
        GroupAuthorizationFailedError,
        GroupIdNotFoundError,
        GroupMaxSizeReachedError,
        IllegalArgumentError,
        IllegalStateError,
        InconsistentGroupProtocolError,
        InvalidCommitOffsetSizeError,
        InvalidGroupIdError,
        InvalidReceiveError,
        InvalidRecordStateError,
        InvalidRequestError,
        InvalidSessionTimeoutError,
        InvalidTopicError,
        KafkaConfigurationError,
        KafkaConnectionError,
        KafkaError,
        KafkaProtocolError,
        KafkaTimeoutError,
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetMetadataTooLargeError,
        OffsetOutOfRangeError,
        RebalanceInProgressError,
        RetriableError,
        SaslAuthenticationFailedError,
        ShareSessionNotFoundError,
        TopicAuthorizationFailedError,
        UnknownError,
        UnknownTopicIdError,
        UnknownTopicOrPartitionError,
        UnreleasedInstanceIdError,
        UnsupportedAssignorError,
        UnsupportedSaslMechanismError,
        UnsupportedVersionError,
        for_code,
    )
    from tandem_kafka._kafka import CorruptRecordError as _CorruptRecordError
    from tandem_kafka._kafka import UnsupportedCodecError as _UnsupportedCodecError
    from tandem_kafka.types import ConsumerRecord, TopicPartition
else:
    # The classes of kafka-python, which have no type annotations.
    from kafka.errors import (
        BrokerResponseError,
        CommitFailedError,
        FencedInstanceIdError,
        GroupAuthorizationFailedError,
        GroupIdNotFoundError,
        GroupMaxSizeReachedError,
        IllegalArgumentError,
        IllegalStateError,
        InconsistentGroupProtocolError,
        InvalidCommitOffsetSizeError,
        InvalidGroupIdError,
        InvalidReceiveError,
        InvalidRecordStateError,
        InvalidRequestError,
        InvalidSessionTimeoutError,
        InvalidTopicError,
        KafkaConfigurationError,
        KafkaConnectionError,
        KafkaError,
        KafkaProtocolError,
        KafkaTimeoutError,
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetMetadataTooLargeError,
        OffsetOutOfRangeError,
        RebalanceInProgressError,
        RetriableError,
        SaslAuthenticationFailedError,
        ShareSessionNotFoundError,
        TopicAuthorizationFailedError,
        UnknownError,
        UnknownTopicIdError,
        UnknownTopicOrPartitionError,
        UnreleasedInstanceIdError,
        UnsupportedAssignorError,
        UnsupportedSaslMechanismError,
        UnsupportedVersionError,
        for_code,
    )
    from kafka.errors import CorruptRecordError as _CorruptRecordError
    from kafka.errors import UnsupportedCodecError as _UnsupportedCodecError
    from kafka.structs import TopicPartition

__all__ = [
    "LOGIN_ERRORS",
    "ArgumentTypeError",
    "AssignorError",
    "AuthenticationError",
    "BrokerResponseError",
    "CommitDuringRebalanceError",
    "CommitFailedError",
    "ConcurrentModificationError",
    "ConsumerClosedError",
    "CorruptRecordError",
    "FencedInstanceIdError",
    "ForkedConsumerError",
    "GroupAuthorizationFailedError",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "IllegalArgumentError",
    "IllegalStateError",
    "IncompleteResponseError",
    "InconsistentGroupProtocolError",
    "InvalidArgumentError",
    "InvalidAssignmentError",
    "InvalidCommitOffsetSizeError",
    "InvalidGroupIdError",
    "InvalidOptionError",
    "InvalidReceiveError",
    "InvalidRecordStateError",
    "InvalidRegularExpressionError",
    "InvalidRequestError",
    "InvalidSessionTimeoutError",
    "InvalidTopicError",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaProtocolError",
    "KafkaTimeoutError",
    "LocalAssignorError",
    "LogTruncationError",
    "NetworkThreadError",
    "NoGroupError",
    "NoOffsetForPartitionError",
    "NotAssignedError",
    "OffsetMetadataTooLargeError",
    "OffsetOutOfRangeError",
    "PositionOutOfRangeError",
    "RebalanceCallbackError",
    "RebalanceInProgressError",
    "RecordDeserializationError",
    "RecordFailedError",
    "RecordLockLostError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SaslAuthenticationFailedError",
    "SchemaMismatchError",
    "SchemaRegistryError",
    "ShareSessionNotFoundError",
    "SinkFencedError",
    "TlsAuthenticationError",
    "TopicAuthorizationFailedError",
    "TopicsDeniedError",
    "UnexpectedResponseError",
    "UnknownError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnreleasedInstanceIdError",
    "UnsupportedAssignorError",
    "UnsupportedCodecError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "WakeupError",
    "acl_command",
    "for_code",
    "reason_of",
]


def reason_of(error: Exception) -> str:
    """Return the text of an error; that of a KafkaError would begin with the name of its class."""
    if isinstance(error, KafkaError) and error.args:
        return RuntimeError.__str__(error)
    return str(error) or type(error).__name__


class AuthenticationError(KafkaError):
    """The broker rejected the client's credentials, or the client rejected the broker's."""


class TlsAuthenticationError(AuthenticationError):
    """The TLS handshake failed: untrusted certificate, wrong host name or no common cipher."""


#: The login failed. A retry may succeed once the credentials have been corrected.
LOGIN_ERRORS = (AuthenticationError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError)


class ConcurrentModificationError(KafkaError, RuntimeError):
    """A thread tried to poll or iterate while another thread was doing so.

    Use one consumer per thread. All other methods may be called from any thread.
    """


class ConsumerClosedError(IllegalStateError):
    """The consumer has been closed and cannot be used."""


class ForkedConsumerError(IllegalStateError):
    """The consumer was created before a ``fork()``; the child process must create its own."""

    @classmethod
    def between(cls, made_in: int, here: int) -> Self:
        """Return the error for a consumer of one process in another one, by their ids."""
        return cls(
            f"the consumer was created in process {made_in} and cannot be used in its fork "
            f"{here}, which has neither its network thread nor its connections; "
            "create a consumer in each process"
        )


class InvalidRegularExpressionError(BrokerResponseError):
    """The coordinator cannot parse a ``SubscriptionPattern`` (KIP-848)."""

    errno = 128
    message = "INVALID_REGULAR_EXPRESSION"
    description = "The regular expression is not valid."


class InvalidAssignmentError(BrokerResponseError):
    """The coordinator rejected an assignment that one of ``group_local_assignors`` computed.

    No released broker uses this error; its code is from a private range.
    """

    errno = 31001
    message = "INVALID_ASSIGNMENT"
    description = "The assignment does not match the members and topics it was computed for."


class AssignorError(KafkaError):
    """An assignor of ``partition_assignment_strategy`` raised an exception; see the cause.

    The member has left its classic group, so that another member leads it, and joins again after a
    pause that grows with each failure.
    """


class LocalAssignorError(KafkaError):
    """One of ``group_local_assignors`` raised or returned an invalid assignment; see the cause."""


class InvalidArgumentError(IllegalArgumentError, ValueError):
    """An argument has an invalid value."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument has the wrong type."""


class NoGroupError(IllegalStateError, InvalidGroupIdError):
    """The call needs a group, but the consumer has no ``group_id``."""


class RecordLockLostError(InvalidRecordStateError):
    """The lock of a record of a share group has ended, so it is delivered again.

    Its time was over, the connection to the leader of its partition was lost, or the leader moved.
    What the handler has done may be done a second time, by this consumer or by another one.
    """


class NotAssignedError(IllegalStateError, ValueError, KeyError):
    """The partition is not assigned to this consumer."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return RuntimeError.__str__(self)


class PositionOutOfRangeError(OffsetOutOfRangeError):
    """A log does not contain a position. The argument maps partitions to positions."""

    def __str__(self) -> str:
        """Name the positions, and the next step."""
        positions: dict[TopicPartition, int] = self.args[0]
        names = (f"offset {at} of {tp.topic}-{tp.partition}" for tp, at in positions.items())
        return (
            f"{type(self).__name__}: {', '.join(names)} is not in the log (too old, beyond its "
            "end, or the topic was recreated), and auto_offset_reset='none': call seek(), or set "
            "auto_offset_reset; beginning_offsets() and end_offsets() return the range"
        )


class RebalanceCallbackError(KafkaError):
    """A rebalance listener raised an exception, which is the cause of this error."""


class CommitDuringRebalanceError(CommitFailedError, RebalanceInProgressError):
    """The commit was rejected because the group is rebalancing (classic protocol only).

    Unlike after other failed commits, the consumer is still a member. Call ``poll()`` to complete
    the rebalance, then commit the partitions that are still assigned.
    """


class RetriableCommitFailedError(RetriableError):
    """An asynchronous commit failed with a transient error, which is the cause of this error."""


class NetworkThreadError(KafkaError):
    """The network thread failed or could not start; see the cause. Create a new consumer."""


class SchemaRegistryError(KafkaError):
    """A schema registry did not return a schema; its client's error is the cause.

    Positions have not moved: the next poll asks again.

    Attributes:
        schema_id: The id of the schema, or its GUID as text.
        retriable: False if the registry refused the request, for example without a login.
    """

    def __init__(self, message: str, schema_id: int | str, *, retriable: bool) -> None:
        super().__init__(message)
        self.schema_id = schema_id
        self.retriable = retriable  # type: ignore[misc]  # of this error alone


class SchemaMismatchError(KafkaError):
    """Records have a column that is another one, or missing, in the table they are written to."""


class SinkFencedError(KafkaError):
    """Another writer has acquired partitions of the table since; nothing was committed.

    Attributes:
        partitions: Those that the other writer has.
    """

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = sorted(partitions)
        names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in self.partitions)
        super().__init__(
            f"another writer has acquired {names} in the table: two groups write to it, or this "
            "member was removed from its group and has not been told yet"
        )


class UnexpectedResponseError(KafkaProtocolError):
    """A broker's response was decoded but is invalid; see the cause. The request is retried."""


class IncompleteResponseError(UnexpectedResponseError):
    """A broker's response lacks data that was requested."""

    retriable = True


class TopicsDeniedError(TopicAuthorizationFailedError):
    """This client may not describe or read topics. The argument is the set of their names."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: The text is often made on another thread, which knows no login.
        self._login_name = login_name()

    def __str__(self) -> str:
        """Return the names of the topics, and the command that grants the right to read them."""
        names = sorted(self.args[0])
        commands = (acl_command("Read", "topic", name, self._login_name) for name in names)
        why = "this client lacks the right to read; grant it"
        return f"{super().__str__()}: {why}: {'; '.join(commands)}"


def acl_command(operation: str, kind: str, name: str, user: str | None = None) -> str:
    """Return the command that grants an operation on a resource ("topic" or "group").

    Args:
        operation: The operation.
        kind: The kind of the resource.
        name: Its name.
        user: Who needs it; by default the login of the consumer that `LinesOf` names.
    """
    principal = shlex.quote(f"User:{user or login_name() or '...'}")
    command = f"kafka-acls.sh --add --allow-principal {principal}"
    return f"{command} --operation {operation} --{kind} {shlex.quote(name)}"


class WakeupError(KafkaError):
    """``wakeup()`` interrupted the call."""


class InvalidOptionError(KafkaConfigurationError, ValueError, TypeError):
    """An option has an invalid value. kafka-python raises one of the base classes."""


class _UnreadableBatchError(KafkaError):
    """A record batch that cannot be read.

    Attributes:
        partition: Topic and partition, None if unknown.
        offset: The offset of the next record, None if unknown.
        next_offset: The offset after the batch. Seek there to skip it. None if the end of the batch
            is unknown, because its header is damaged or the broker could not read it.
        advice: What to do, the end of the text.
    """

    partition: TopicPartition | None = None
    offset: int | None = None
    next_offset: int | None = None
    advice = ""

    @classmethod
    def at(
        cls, topic: str, partition: int, offset: int, problem: str, next_offset: int | None
    ) -> Self:
        """Return the error of a reader at `offset`, which found `problem` in a batch."""
        error = cls(f"cannot read {topic}-{partition} at offset {offset}: {problem}")
        error.advice = "seek past it to continue"
        if next_offset is not None:
            error.advice = f"seek to offset {next_offset} to skip the batch"
        error.partition = TopicPartition(topic, partition)
        error.offset = offset
        error.next_offset = next_offset
        return error

    def __str__(self) -> str:
        """Name the batch and the next step."""
        return "; ".join(filter(None, (super().__str__(), self.advice)))


class CorruptRecordError(_UnreadableBatchError, _CorruptRecordError):
    """A batch fails its CRC, is malformed or exceeds a limit. Seek past it to continue.

    Attributes:
        partition: Topic and partition, None if unknown.
        offset: The offset of the next record, None if unknown.
        next_offset: The offset after the batch. Seek there to skip it. None if the end of the batch
            is unknown, because its header is damaged or the broker could not read it.
        advice: What to do, the end of the text.
    """


class UnsupportedCodecError(_UnreadableBatchError, _UnsupportedCodecError):
    """The compression of a batch is unknown. Seek past it to continue.

    Attributes:
        partition: Topic and partition, None if unknown.
        offset: The offset of the next record, None if unknown.
        next_offset: The offset after the batch. Seek there to skip it.
        advice: What to do, the end of the text.
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
        advice: What to do, the end of the text.
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
        self.advice = f"seek to offset {offset + 1} to skip the record"

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
        return f"{text}{cause}; {self.advice}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts of the error, because a combined class cannot be found by name."""
        record = (self.origin, self.partition, self.offset, self.timestamp)
        parts = self.__cause__, (*record, self.key, self.value, self.headers)
        return _again, parts, {"advice": self.advice}


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
