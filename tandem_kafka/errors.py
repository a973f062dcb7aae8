"""Every error a user may meet: kafka-python's own classes, and ours beside them.

`KafkaError` is the root of them all. An error whose `retriable` is true went away or will go away
by itself; the consumer retries it where it can and raises it only when a deadline passed.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tandem_kafka._kafka import (
        BrokerResponseError,
        CommitFailedError,
        CorruptRecordError,
        FencedInstanceIdError,
        GroupAuthorizationFailedError,
        GroupMaxSizeReachedError,
        IllegalArgumentError,
        IllegalStateError,
        InconsistentGroupProtocolError,
        InvalidGroupIdError,
        InvalidReceiveError,
        InvalidTopicError,
        KafkaConfigurationError,
        KafkaConnectionError,
        KafkaError,
        KafkaProtocolError,
        KafkaTimeoutError,
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetOutOfRangeError,
        RebalanceInProgressError,
        RetriableError,
        SaslAuthenticationFailedError,
        TopicAuthorizationFailedError,
        UnreleasedInstanceIdError,
        UnsupportedAssignorError,
        UnsupportedCodecError,
        UnsupportedSaslMechanismError,
        UnsupportedVersionError,
        for_code,
    )
    from tandem_kafka.types import TopicPartition
else:
    # kafka-python's, which have no types.
    from kafka.errors import (
        BrokerResponseError,
        CommitFailedError,
        CorruptRecordError,
        FencedInstanceIdError,
        GroupAuthorizationFailedError,
        GroupMaxSizeReachedError,
        IllegalArgumentError,
        IllegalStateError,
        InconsistentGroupProtocolError,
        InvalidGroupIdError,
        InvalidReceiveError,
        InvalidTopicError,
        KafkaConfigurationError,
        KafkaConnectionError,
        KafkaError,
        KafkaProtocolError,
        KafkaTimeoutError,
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetOutOfRangeError,
        RebalanceInProgressError,
        RetriableError,
        SaslAuthenticationFailedError,
        TopicAuthorizationFailedError,
        UnreleasedInstanceIdError,
        UnsupportedAssignorError,
        UnsupportedCodecError,
        UnsupportedSaslMechanismError,
        UnsupportedVersionError,
        for_code,
    )

__all__ = [
    "LOGIN_ERRORS",
    "ArgumentTypeError",
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
    "GroupMaxSizeReachedError",
    "IllegalArgumentError",
    "IllegalStateError",
    "IncompleteResponseError",
    "InconsistentGroupProtocolError",
    "InvalidArgumentError",
    "InvalidAssignmentError",
    "InvalidGroupIdError",
    "InvalidOptionError",
    "InvalidReceiveError",
    "InvalidRegularExpressionError",
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
    "OffsetOutOfRangeError",
    "RebalanceCallbackError",
    "RebalanceInProgressError",
    "RecordDeserializationError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SaslAuthenticationFailedError",
    "TlsAuthenticationError",
    "TopicAuthorizationFailedError",
    "UnexpectedResponseError",
    "UnreleasedInstanceIdError",
    "UnsupportedAssignorError",
    "UnsupportedCodecError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "WakeupError",
    "for_code",
]


class AuthenticationError(KafkaError):
    """The broker did not accept who we are, or we did not accept who it is."""


class TlsAuthenticationError(AuthenticationError):
    """The TLS handshake failed: an untrusted certificate, a wrong host name, no common cipher."""


#: We were not let in. Trying again may help, once somebody has mended the credentials.
LOGIN_ERRORS = (AuthenticationError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError)


class ConcurrentModificationError(KafkaError, RuntimeError):
    """A second thread called the consumer while the first was inside one of its methods."""


class ConsumerClosedError(IllegalStateError):
    """The consumer has been closed."""


class ForkedConsumerError(IllegalStateError):
    """The consumer was made in another process; a child must make its own after `fork()`."""


class InvalidRegularExpressionError(BrokerResponseError):
    """The coordinator cannot read a `SubscriptionPattern` (KIP-848)."""

    errno = 128
    message = "INVALID_REGULAR_EXPRESSION"
    description = "The regular expression is not valid."


class InvalidAssignmentError(BrokerResponseError):
    """The coordinator does not take what one of `group_local_assignors` computed.

    The number is ours, from a private range: no released broker answers with such an error.
    """

    errno = 31001
    message = "INVALID_ASSIGNMENT"
    description = "The assignment does not fit the members and topics it was computed of."


class LocalAssignorError(KafkaError):
    """One of `group_local_assignors` raised, or returned what is no assignment; see the cause."""


class InvalidArgumentError(IllegalArgumentError, ValueError):
    """An argument is outside what is allowed."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument is of a type that cannot be used."""


class NoGroupError(IllegalStateError, InvalidGroupIdError):
    """The call needs a group, and the consumer has no `group_id`."""


class NotAssignedError(IllegalStateError, ValueError, KeyError):
    """The partition is not assigned to this consumer."""

    def __str__(self) -> str:
        """Show the message, which a KeyError would put in quotes."""
        return RuntimeError.__str__(self)


class RebalanceCallbackError(KafkaError):
    """A rebalance listener raised; the cause is its exception."""


class CommitDuringRebalanceError(CommitFailedError, RebalanceInProgressError):
    """The group is rebalancing and takes no commit: `poll()`, then commit what is still yours.

    Unlike after other failed commits the member is in the group (classic protocol only).
    """


class RetriableCommitFailedError(RetriableError):
    """An asynchronous commit failed for a passing reason; the cause tells which."""


class NetworkThreadError(KafkaError):
    """The network thread ended or never started; see the cause. Make a new consumer."""


class UnexpectedResponseError(KafkaProtocolError):
    """A broker's response can be decoded but not used; see the cause. The request is retried."""


class IncompleteResponseError(UnexpectedResponseError):
    """A broker's response leaves out what it was asked for."""

    retriable = True


class WakeupError(KafkaError):
    """`wakeup()` ended the call."""


class RecordDeserializationError(KafkaError):
    """A deserializer raised; seek behind `offset` to leave the record out.

    The error that is raised is an instance of the type that the deserializer raised too, with its
    arguments and attributes; those that stand here come first. If there can be no such type, it is
    not; the deserializer's exception is the cause (`__cause__`) in any case.

    Attributes:
        origin: ``"key"`` or ``"value"``.
        partition: Topic and partition of the record.
        offset: Its offset.
        timestamp: Its timestamp in milliseconds, -1 if it has none.
        key: Its raw key.
        value: Its raw value.
        headers: Its headers.
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
        """Return one that is of the type of `error` too, if it can be.

        Args:
            error: What the deserializer raised.
            *record: What the constructor takes.
        """
        plain = cls(*record)
        plain.__cause__ = error
        known: Any = type(error)  # its types in typeshed have no hash
        kind = _combined(known)
        if kind is None:
            return plain
        try:
            return kind.copied(error, plain)
        except Exception:  # noqa: BLE001 - theirs may be as awkward as it likes
            return plain

    @classmethod
    def copied(cls, error: Exception, plain: RecordDeserializationError) -> Self:
        """Return what both of them are, without the constructor of either.

        Raises:
            Exception: They cannot be brought together.
        """
        builtin = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
        made = builtin.__new__(cls, *error.args)
        # Of a builtin type only its own constructor sets what is no attribute of the instance.
        builtin.__init__(made, *error.args)  # type: ignore[misc]  # it is a base of its type
        for name in _fields(type(error)):
            value = getattr(error, name, None)
            if value is not None:
                with contextlib.suppress(AttributeError):  # what is read-only, `__new__` has set
                    setattr(made, name, value)
        made.__dict__.update(error.__dict__)
        for name, value in plain.__dict__.items():
            setattr(made, name, value)
        made.__cause__ = error
        return made

    def __str__(self) -> str:
        """Say which record it was and what its deserializer raised."""
        text = (
            f"cannot deserialize the {self.origin} of "
            f"{self.partition.topic}-{self.partition.partition} at offset {self.offset}"
        )
        cause = (
            ""
            if self.__cause__ is None
            else f" ({type(self.__cause__).__name__}: {self.__cause__})"
        )
        return f"{text}{cause}; seek to offset {self.offset + 1} to go on behind it"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it is made of: a combined type has no name to be found by."""
        record = (self.origin, self.partition, self.offset, self.timestamp)
        return _again, (self.__cause__, (*record, self.key, self.value, self.headers))


def _again(error: Exception | None, record: tuple[Any, ...]) -> RecordDeserializationError:
    if error is None:
        return RecordDeserializationError(*record)
    return RecordDeserializationError.caused_by(error, *record)


def _fields(kind: type) -> list[str]:
    """Return the names of what an exception has beside its arguments and its `__dict__`."""
    described = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return [
        name
        for each in kind.__mro__
        for name, found in vars(each).items()
        if isinstance(found, described) and name != "args" and not name.startswith("__")
    ]


@functools.lru_cache(maxsize=64)
def _combined(kind: Any) -> type[RecordDeserializationError] | None:
    """Return a type that is `RecordDeserializationError` and another one; None if none can be.

    To Python, StopIteration is no error: in a loop it would be the end of the records.
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
    except Exception:  # noqa: BLE001 - two layouts or metaclasses, a type that is final
        return None
    return made


class InvalidOptionError(KafkaConfigurationError, ValueError, TypeError):
    """An option has a value that is not allowed; kafka-python raises one of the three."""
