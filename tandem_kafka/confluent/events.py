"""Events that `poll()` returns as messages: errors, ends of partitions, late polls."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError

from tandem_kafka.confluent.errors import kafka_error, words
from tandem_kafka.confluent.messages import error_message
from tandem_kafka.confluent.partitions import Part
from tandem_kafka.confluent.rebalancing import Rebalances
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.errors import (
    LOGIN_ERRORS,
    ConcurrentModificationError,
    ConsumerClosedError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    NotAssignedError,
    OffsetOutOfRangeError,
)
from tandem_kafka.errors import KafkaError as OurKafkaError
from tandem_kafka.types import TopicPartition as Key

#: Milliseconds after which a persisting error is reported again.
_REPEAT_MS: Final = 10_000
#: Maximum number of errors in that time: a broker may send a new text with each.
_MOST_ERRORS: Final = 10
#: Milliseconds that `poll()` waits after a repeated error, before it polls our consumer again.
_ERROR_PAUSE_MS: Final = 100
#: Milliseconds without a first connection after which `error_cb` is called.
_CONNECT_MS: Final = 3_000
#: Maximum milliseconds of a lookup inside `poll()`.
_LOOKUP_MS: Final = 1_000


class Events:
    """Adds events to what was taken for the application, and passes errors to `error_cb`."""

    def __init__(self, shared: Shared, assignment: Rebalances) -> None:
        self._kafka, self._assigned, self._taken = shared.kafka, shared.assigned, shared.taken
        self._clock, self._driver, self._changes = shared.clock, shared.driver, shared.changes
        self._assignment, self._call = assignment, shared.callbacks.run
        settings = shared.settings
        self._error_cb = settings.callbacks.get("error_cb")
        self.ends = settings.get("enable.partition.eof", False)
        self._creates_topics = settings.get("allow.auto.create.topics", False)
        self._max_poll_ms = settings.get("max.poll.interval.ms", 300_000)
        self._polled_ms = self._began_ms = self._clock.now_ms()
        self._connected = False
        self._servers = len(settings.get("bootstrap.servers", "").split(","))
        self._reported_ms: dict[tuple[int, str], int] = {}
        self._unchecked_topics: list[str] = []

    def subscribed(self, topics: list[str]) -> None:
        """Note the topics, to check later whether they exist."""
        self._unchecked_topics = (
            [] if self._creates_topics else [name for name in topics if name[0] != "^"]
        )

    def polled(self) -> bool:
        """Tell whether the application did not poll for longer than `max.poll.interval.ms`.

        The event comes alone. What still waited may belong to others by now, and is fetched again
        if it does not.
        """
        now_ms = self._clock.now_ms()
        late_ms = now_ms - self._polled_ms - self._max_poll_ms
        self._polled_ms = now_ms
        if late_ms <= 0 or not self._assignment.subscribed:
            return False
        reason = (
            f"Application maximum poll interval ({self._max_poll_ms}ms) exceeded by {late_ms}ms"
        )
        event = error_message(KafkaError(KafkaError._MAX_POLL_EXCEEDED, reason))
        self._changes.make(self._assignment.rewind)
        self._taken.items.append(event)
        return True

    def returned(self) -> None:
        """Note that a call of the application ends now."""
        self._polled_ms = self._clock.now_ms()

    def _add(self, error: KafkaError, *where: Any) -> None:
        self._taken.items.append(error_message(error, *where))

    # --- errors --------------------------------------------------------------------------------

    def failed(self, error: OurKafkaError, wait_ms: float) -> None:
        """Make an event from an error of our consumer's `poll()`."""
        if isinstance(error, ConcurrentModificationError):
            raise error
        if isinstance(error, ConsumerClosedError):
            raise RuntimeError("Consumer closed") from error  # noqa: TRY004 - as confluent_kafka's
        if isinstance(error, NoOffsetForPartitionError | OffsetOutOfRangeError):
            self._stop_without_position(error)
            return
        found = kafka_error(error)
        if self._is_new(found):
            if isinstance(error, LOGIN_ERRORS):
                self._call_error_cb(found)
            else:
                self._add(found)
        else:
            pause_ms = int(min(wait_ms, _ERROR_PAUSE_MS))
            self._driver.wait(lambda: False, self._clock.now_ms() + pause_ms)

    def _is_new(self, error: KafkaError) -> bool:
        now_ms, identity = self._clock.now_ms(), (error.code(), error.str())
        recent = {each: at for each, at in self._reported_ms.items() if now_ms - at < _REPEAT_MS}
        self._reported_ms = recent
        if identity in recent or len(recent) >= _MOST_ERRORS:
            return False
        recent[identity] = now_ms
        return True

    def _call_error_cb(self, error: KafkaError) -> None:
        if self._error_cb is not None:
            self._call(self._error_cb, error)

    def _stop_without_position(self, error: OurKafkaError) -> None:
        found = error.args[0] if isinstance(error, OffsetOutOfRangeError) else None
        tps = list(found) if isinstance(found, dict) else self._without_position()
        for tp in tps:
            part = self._assigned.get(tp)
            if part is not None and "stopped" not in part.inactive:
                event = KafkaError(KafkaError._AUTO_OFFSET_RESET, f"{error}")
                offset = found[tp] if isinstance(found, dict) else part.start
                self._add(event, *tp, offset)
                # Last: Ctrl-C before this repeats the event.
                self._changes.make(partial(self._assignment.stop, part))

    def _without_position(self) -> list[Key]:
        return [part.tp for part in self._assigned if not self._has_position(part)]

    def _has_position(self, part: Part) -> bool:
        try:
            if self._kafka.position(part.tp, timeout_ms=0) is not None:
                return True
            # The lookup has failed, or is under way.
            return self._kafka.committed(part.tp, timeout_ms=_LOOKUP_MS) is not None
        except NoOffsetForPartitionError:
            return False
        except OurKafkaError:
            return True  # or unknown: the error comes again

    # --- topics, brokers -----------------------------------------------------------------------

    def check_cluster(self) -> None:
        """Check whether the cluster is reachable and the topics exist."""
        if not self._connected:
            self._connected = self._kafka.bootstrap_connected()
            down = KafkaError(KafkaError._ALL_BROKERS_DOWN, retriable=True)
            if not self._connected and self._unreachable() and self._is_new(down):
                self._call_error_cb(down)
        elif self._unchecked_topics:
            topics, self._unchecked_topics = self._unchecked_topics, []
            for topic in topics:
                self._check_topic(topic)

    def _unreachable(self) -> bool:
        """Tell whether each bootstrap server has failed, or none has responded for long."""
        if self._clock.now_ms() - self._began_ms > _CONNECT_MS:
            return True
        return len(self._kafka.health().troubles) >= self._servers

    def _check_topic(self, topic: str) -> None:
        try:
            found = self._kafka.partitions_for_topic(topic, timeout_ms=_LOOKUP_MS)
        except KafkaTimeoutError:
            return
        except OurKafkaError as error:
            self.failed(error, 0)
            return
        if not found:
            code = KafkaError.UNKNOWN_TOPIC_OR_PART
            reason = f"Subscribed topic not available: {topic}: {words(code)}"
            self._add(KafkaError(code, reason), topic)

    # --- ends of partitions --------------------------------------------------------------------

    def check_ends(self) -> None:
        """Add an event for each partition that was read to its end, once per end."""
        for part in self._assigned:
            if not part.inactive:
                end = self._end(part)
                if end is not None and end != part.eof_at:
                    reason = f"Reached end of partition at offset {end}"
                    error = KafkaError(KafkaError._PARTITION_EOF, reason)
                    self._add(error, *part.tp, end)
                    part.eof_at = end  # last: Ctrl-C before this repeats the event

    def _end(self, part: Part) -> int | None:
        """Return the position if it is the end of the partition, otherwise None."""
        try:
            if self._kafka.current_lag(part.tp) != 0:
                return None
            return self._kafka.position(part.tp, timeout_ms=0)
        except (NotAssignedError, NoOffsetForPartitionError, KafkaTimeoutError):
            return None
