"""`KafkaError` and `KafkaException`, and the conversion of our errors to them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from tandem_kafka import errors
from tandem_kafka.confluent.codes import Codes

__all__ = ["KafkaError", "KafkaException", "failure", "kafka_error"]

#: Descriptions that cannot be derived from the name of the code.
_WORDS: Final = {
    "_PARTITION_EOF": "Broker: No more messages",
    "_NO_OFFSET": "Local: No offset stored",
    "_STATE": "Local: Erroneous state",
    "_INVALID_ARG": "Local: Invalid argument or configuration",
    "_TIMED_OUT": "Local: Timed out",
    "_TRANSPORT": "Local: Broker transport failure",
    "_ALL_BROKERS_DOWN": "Local: All broker connections are down",
    "_AUTHENTICATION": "Local: Authentication failure",
    "_AUTO_OFFSET_RESET": "Local: No offset to automatically reset to",
    "_FATAL": "Local: Fatal error",
    "UNKNOWN": "Unknown broker error",
    "NO_ERROR": "Success",
    "UNKNOWN_TOPIC_OR_PART": "Broker: Unknown topic or partition",
}

_BY_CLASS: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], int], ...]] = (
    (errors.LOGIN_ERRORS, Codes._AUTHENTICATION),
    (errors.NetworkThreadError, Codes._FATAL),
    (errors.NoOffsetForPartitionError, Codes._AUTO_OFFSET_RESET),
    (errors.OffsetOutOfRangeError, Codes._AUTO_OFFSET_RESET),
    (errors.LogTruncationError, Codes._LOG_TRUNCATION),
    (errors.CorruptRecordError, Codes._BAD_MSG),
    (errors.UnsupportedCodecError, Codes._BAD_COMPRESSION),
    (errors.KafkaTimeoutError, Codes._TIMED_OUT),
    (errors.NoGroupError, Codes._UNKNOWN_GROUP),
    (errors.CommitDuringRebalanceError, Codes.REBALANCE_IN_PROGRESS),
)

_BY_DEFAULT: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.CommitFailedError, Codes.UNKNOWN_MEMBER_ID),
    (errors.KafkaConnectionError, Codes._TRANSPORT),
    (errors.InvalidArgumentError, Codes._INVALID_ARG),
    (errors.KafkaConfigurationError, Codes._INVALID_ARG),
    (errors.IllegalStateError, Codes._STATE),
)

#: `str` is a method of KafkaError.
Text = str


@cache
def _names() -> dict[int, str]:
    return {code: name for name, code in vars(Codes).items() if isinstance(code, int)}


def _description(code: int) -> str:
    name = _names().get(code)
    if name is None:
        return f"Err-{code}?"
    words = name.strip("_").replace("_", " ").capitalize()
    return _WORDS.get(name, f"{'Local' if code < 0 else 'Broker'}: {words}")


class KafkaError(Codes):
    """An error or event; it compares equal to its code.

    Args:
        error: One of the codes, which are constants of this class.
        reason: A description; defaults to that of the code.
        fatal: Whether the consumer cannot continue.
        retriable: Whether a retry may help.
        txn_requires_abort: Always False for a consumer.
    """

    __slots__ = ("_abort", "_code", "_fatal", "_reason", "_retriable")

    def __init__(
        self,
        error: int,
        reason: Text | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = error
        self._reason = _description(error) if reason is None else reason
        self._fatal = bool(fatal)
        self._retriable = bool(retriable)
        self._abort = bool(txn_requires_abort)

    def code(self) -> int:
        """Return the code, which is one of the constants."""
        return self._code

    def name(self) -> Text:
        """Return the name of the constant."""
        return _names().get(self._code, f"ERR_{self._code}?")

    def fatal(self) -> bool:
        """Return whether the consumer cannot continue."""
        return self._fatal

    def retriable(self) -> bool:
        """Return whether a retry may help."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Return whether a transaction must be aborted."""
        return self._abort

    def __eq__(self, other: object) -> bool:
        """Compare codes; `other` is a KafkaError or an int."""
        if isinstance(other, KafkaError):
            return self._code == other._code
        return self._code == other

    def __lt__(self, other: Any) -> bool:
        """Compare codes."""
        return self._code < int(getattr(other, "_code", other))

    def __hash__(self) -> int:
        """Return the hash of the code."""
        return hash(self._code)

    def __repr__(self) -> Text:
        """Show all fields."""
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self._reason}"}}'

    def str(self) -> Text:
        """Return the description."""
        return self._reason


class KafkaException(Exception):  # noqa: N818 - the name that programs import
    """The exception that methods raise; `args[0]` is a `KafkaError`."""


def failure(code: int, reason: str | None = None) -> KafkaException:
    """Return an exception for a code."""
    return KafkaException(KafkaError(code, reason))


def kafka_error(error: BaseException) -> KafkaError:
    """Convert an error of our consumer."""
    code = _code(error)
    fatal = isinstance(error, errors.NetworkThreadError | errors.FencedInstanceIdError)
    text = str(error) or type(error).__name__
    return KafkaError(code, text, fatal=fatal, retriable=bool(getattr(error, "retriable", False)))


def _code(error: BaseException) -> int:
    for classes, code in _BY_CLASS:
        if isinstance(error, classes):
            return code
    for each in (error, error.__cause__):
        number = getattr(each, "errno", None)
        if isinstance(number, int) and number in _names():
            return number
    return next((code for known, code in _BY_DEFAULT if isinstance(error, known)), Codes._FAIL)
