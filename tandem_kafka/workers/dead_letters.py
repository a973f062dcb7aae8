"""`DeadLetters` sends records that could not be handled to another topic."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from collections.abc import Callable
from typing import Any, Final, NoReturn

from kafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from tandem_kafka.errors import ArgumentTypeError, KafkaError, KafkaTimeoutError
from tandem_kafka.runtime import Clock, MonotonicClock

#: How long one call of a producer's poll() waits for acknowledgements.
POLL_S = 0.1
#: A longer text of an exception, which may quote the record, is cut: the letter must not grow much.
_REASON_CHARACTERS: Final = 4_000
_TOO_LARGE: Final = frozenset({MessageSizeTooLargeError.errno, RecordListTooLargeError.errno})

Serializer = Callable[[Any], bytes | None]


class DeadLetters:
    """Sends a record to a topic and waits until the broker has acknowledged it.

    Pass it as ``exhausted``, or to share workers as ``otherwise``. A record counts as done only
    after the acknowledgement. If sending fails, it is repeated as ``retry`` says; then ``run()``
    raises, and share workers release the record. The dead letter has the key, the value and the
    headers of the record, and these headers in UTF-8:

    - ``dead-letter-reason``: class and text of the handler's exception, up to 4,000 characters
    - ``dead-letter-attempts``: how often the handler was called
    - ``dead-letter-topic``, ``dead-letter-partition``, ``dead-letter-offset``,
      ``dead-letter-timestamp``: where the record is, and its timestamp in milliseconds

    Args:
        producer: A ``confluent_kafka.Producer`` or a ``KafkaProducer`` of kafka-python. Use
            ``acks=all``. Several threads use it at the same time. A ``KafkaProducer`` refuses some
            records, so a record without key and value gets an empty value, and a header without a
            value an empty one. A ``confluent_kafka.Producer`` sends both as they are.
        topic: The topic of the dead letters.
        key_serializer: Converts keys to bytes. Needed if the consumer has a ``key_deserializer``
            whose result is not ``bytes``, unless the producer has a serializer for it.
        value_serializer: The same for values.
        timeout_ms: How long to wait for the acknowledgement, in milliseconds. If it arrives later,
            the repetition has sent a second copy.

    Raises:
        ArgumentTypeError: ``producer`` has neither ``produce()`` nor ``send()``.
    """

    def __init__(
        self,
        producer: Any,
        topic: str,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        timeout_ms: float = 30_000,
    ) -> None:
        self._confluent = callable(getattr(producer, "produce", None))
        if not self._confluent and not callable(getattr(producer, "send", None)):
            msg = (
                "producer must be a confluent_kafka.Producer or a KafkaProducer of kafka-python, "
                f"got {producer!r}"
            )
            raise ArgumentTypeError(msg)
        if not topic or not isinstance(topic, str):
            raise ArgumentTypeError(f"topic must be the name of a topic, got {topic!r}")
        self._producer = producer
        self._topic = topic
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._timeout_ms = timeout_ms
        self._clock: Clock = MonotonicClock()

    def __call__(self, record: Any, error: Exception, attempts: int) -> None:
        """Send a record and wait for the acknowledgement.

        Args:
            record: The record.
            error: The last exception of the handler.
            attempts: How often the handler was called.

        Raises:
            KafkaTimeoutError: No acknowledgement within ``timeout_ms``.
            MessageSizeTooLargeError: The dead letter is larger than the producer or the topic
                allows. The message names the options.
            ArgumentTypeError: The producer takes only bytes, and the record has a key or value of
                another type, because the consumer has deserializers.
            Exception: The error of the producer.
        """
        key = _serialized(self._key_serializer, record.key)
        value = _serialized(self._value_serializer, record.value)
        headers = [*record.headers, *_headers_of(record, error, attempts)]
        try:
            if self._confluent:
                self._produce(key, value, headers)
            else:
                self._send(key, value, headers)
        except TypeError as refusal:
            msg = (
                f"the producer cannot send the dead letter of {_place(record)}: {refusal}; use a "
                "producer without serializers, and pass key_serializer and value_serializer to "
                "DeadLetters"
            )
            raise ArgumentTypeError(msg) from refusal
        except Exception as refusal:
            if _code_of(refusal) in _TOO_LARGE:
                self._raise_too_large(record, refusal)
            raise

    def _raise_too_large(self, record: Any, refusal: Exception) -> NoReturn:
        option = "message.max.bytes" if self._confluent else "max_request_size"
        msg = (
            f"the dead letter of {_place(record)} is too large; raise {option} of the producer, or "
            f"max.message.bytes of the topic {self._topic!r}: {refusal}"
        )
        raise MessageSizeTooLargeError(msg) from refusal

    def _send(self, key: Any, value: Any, headers: list[tuple[str, bytes | None]]) -> None:
        # kafka-python sends neither nulls in headers, nor a record without key and value.
        if key is None and value is None:
            value = b""
        present = [(name, b"" if data is None else data) for name, data in headers]
        future = self._producer.send(self._topic, key=key, value=value, headers=present)
        future.get(timeout=self._timeout_ms / 1_000)

    def _produce(self, key: Any, value: Any, headers: list[tuple[str, bytes | None]]) -> None:
        outcome: list[Any] = []
        self._producer.produce(
            self._topic,
            key=key,
            value=value,
            headers=headers,
            on_delivery=lambda failure, _message: outcome.append(failure),
        )
        deadline_ms = self._clock.after_ms(self._timeout_ms)
        while not outcome and self._clock.now_ms() < deadline_ms:
            self._producer.poll(POLL_S)  # runs on_delivery; another thread may run it as well
        if not outcome:
            msg = (
                f"the producer did not acknowledge a dead letter for {self._topic!r} within "
                f"timeout_ms={self._timeout_ms}"
            )
            raise KafkaTimeoutError(msg)
        if outcome[0] is not None:
            msg = f"the producer could not send a dead letter to {self._topic!r}: {outcome[0]}"
            kind = MessageSizeTooLargeError if _code_of(outcome[0]) in _TOO_LARGE else KafkaError
            raise kind(msg)


def _serialized(serializer: Serializer | None, data: Any) -> Any:
    return data if serializer is None or data is None else serializer(data)


def _code_of(failure: Any) -> int | None:
    """Return the number of an error of kafka-python or confluent-kafka."""
    given = failure.args[0] if getattr(failure, "args", ()) else failure
    code = getattr(given, "code", None)
    return code() if callable(code) else getattr(failure, "errno", None)


def _place(record: Any) -> str:
    return f"{record.topic}-{record.partition} at offset {record.offset}"


def _headers_of(record: Any, error: Exception, attempts: int) -> list[tuple[str, bytes | None]]:
    named = {
        "reason": _reason_of(error),
        "attempts": attempts,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    return [
        # Characters that UTF-8 does not have, such as those of file names, are escaped.
        (f"dead-letter-{name}", str(value).encode(errors="backslashreplace"))
        for name, value in named.items()
    ]


def _reason_of(error: Exception) -> str:
    try:
        text = str(error)
    except Exception as failed:  # noqa: BLE001 - of the application, and no reason to keep the record
        text = f"(its text raises {type(failed).__name__})"
    return f"{type(error).__name__}: {text}"[:_REASON_CHARACTERS]
