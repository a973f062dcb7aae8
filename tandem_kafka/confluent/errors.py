"""The conversion of our errors to `confluent_kafka`'s."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tandem_kafka import errors

_Classes = type[Exception] | tuple[type[Exception], ...]

_BY_CLASS: Final[tuple[tuple[_Classes, int], ...]] = (
    (errors.LOGIN_ERRORS, KafkaError._AUTHENTICATION),
    (errors.NetworkThreadError, KafkaError._FATAL),
    (errors.NoOffsetForPartitionError, KafkaError._AUTO_OFFSET_RESET),
    (errors.OffsetOutOfRangeError, KafkaError._AUTO_OFFSET_RESET),
    (errors.LogTruncationError, KafkaError._LOG_TRUNCATION),
    (errors.CorruptRecordError, KafkaError._BAD_MSG),
    (errors.UnsupportedCodecError, KafkaError._BAD_COMPRESSION),
    (errors.KafkaTimeoutError, KafkaError._TIMED_OUT),
    (errors.NoGroupError, KafkaError._UNKNOWN_GROUP),
    (errors.CommitDuringRebalanceError, KafkaError.REBALANCE_IN_PROGRESS),
    (errors.for_code(100), KafkaError.UNKNOWN_TOPIC_OR_PART),  # librdkafka commits by names
)

_BY_DEFAULT: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.CommitFailedError, KafkaError.UNKNOWN_MEMBER_ID),
    (errors.KafkaConnectionError, KafkaError._TRANSPORT),
    (errors.InvalidArgumentError, KafkaError._INVALID_ARG),
    (errors.KafkaConfigurationError, KafkaError._INVALID_ARG),
    (errors.IllegalStateError, KafkaError._STATE),
)


def words(code: int) -> str:
    """Return librdkafka's description of a code."""
    return KafkaError(code).str()


def failure(code: int, reason: str) -> KafkaException:
    """Return an exception for a code."""
    return KafkaException(KafkaError(code, reason))


def refusal(what: str, code: int) -> KafkaException:
    """Return an exception for a code, with librdkafka's description behind what has failed."""
    return failure(code, f"{what}: {words(code)}")


def invalid(reason: str) -> KafkaException:
    """Return an exception for an argument or a property that is not allowed."""
    return failure(KafkaError._INVALID_ARG, reason)


def kafka_error(error: BaseException, prefix: str = "") -> KafkaError:
    """Convert an error of our consumer."""
    fatal = isinstance(error, errors.NetworkThreadError | errors.FencedInstanceIdError)
    text = prefix + (str(error) or type(error).__name__)
    retriable = bool(getattr(error, "retriable", False))
    return KafkaError(_code(error), text, fatal=fatal, retriable=retriable)


@contextmanager
def raising(what: str) -> Iterator[None]:
    """Convert errors of our consumer to a `KafkaException`; `what` is the prefix of its message."""
    try:
        yield
    except errors.KafkaError as error:
        raise KafkaException(kafka_error(error, f"{what}: ")) from error


def _code(error: BaseException) -> int:
    for classes, code in _BY_CLASS:
        if isinstance(error, classes):
            return code
    for each in (error, error.__cause__):
        # An OSError has a number of the system, which is another error in Kafka.
        number = getattr(each, "errno", None) if isinstance(each, errors.KafkaError) else None
        if isinstance(number, int):
            return number
    return next((code for known, code in _BY_DEFAULT if isinstance(error, known)), KafkaError._FAIL)
