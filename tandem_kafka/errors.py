"""All errors that the consumer raises: classes of kafka-python and additional ones.

`KafkaError` is the base class of them all. An error whose `retriable` attribute is true is
transient. The consumer retries such an error where it can, and raises it only after a deadline.
"""

from __future__ import annotations

import tandem_kafka.kafka_python  # noqa: F401 - before any module of kafka-python

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandem_kafka._kafka import (
        BrokerResponseError,
        CommitFailedError,
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
        UnsupportedSaslMechanismError,
        UnsupportedVersionError,
        for_code,
    )
else:
    # The classes of kafka-python, which have no type annotations.
    from kafka.errors import (
        BrokerResponseError,
        CommitFailedError,
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
        UnsupportedSaslMechanismError,
        UnsupportedVersionError,
        for_code,
    )

from tandem_kafka.record_errors import (
    CorruptRecordError,
    RecordDeserializationError,
    RecordFailedError,
    UnsupportedCodecError,
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
    "RecordFailedError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SaslAuthenticationFailedError",
    "TlsAuthenticationError",
    "TopicAuthorizationFailedError",
    "TopicsDeniedError",
    "UnexpectedResponseError",
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


class LocalAssignorError(KafkaError):
    """One of ``group_local_assignors`` raised or returned an invalid assignment; see the cause."""


class InvalidArgumentError(IllegalArgumentError, ValueError):
    """An argument has an invalid value."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument has the wrong type."""


class NoGroupError(IllegalStateError, InvalidGroupIdError):
    """The call needs a group, but the consumer has no ``group_id``."""


class NotAssignedError(IllegalStateError, ValueError, KeyError):
    """The partition is not assigned to this consumer."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return RuntimeError.__str__(self)


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


class UnexpectedResponseError(KafkaProtocolError):
    """A broker's response was decoded but is invalid; see the cause. The request is retried."""


class IncompleteResponseError(UnexpectedResponseError):
    """A broker's response lacks data that was requested."""

    retriable = True


class TopicsDeniedError(TopicAuthorizationFailedError):
    """This client may not describe or read topics. The argument is the set of their names."""

    def __str__(self) -> str:
        """Return the names of the topics, and the command that grants the right to read them."""
        names = sorted(self.args[0])
        commands = (acl_command("Read", "topic", name) for name in names)
        return f"{super().__str__()}; grant it: {'; '.join(commands)}"


def acl_command(operation: str, kind: str, name: str) -> str:
    """Return the command that grants an operation on a resource ("topic" or "group")."""
    command = "kafka-acls.sh --add --allow-principal User:..."
    return f"{command} --operation {operation} --{kind} {name}"


class WakeupError(KafkaError):
    """``wakeup()`` interrupted the call."""


class InvalidOptionError(KafkaConfigurationError, ValueError, TypeError):
    """An option has an invalid value. kafka-python raises one of the base classes."""
