"""Events that `poll()` returns as messages: errors, ends of partitions, late polls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tandem_kafka.confluent.codes import Codes
from tandem_kafka.confluent.configuration import Settings
from tandem_kafka.confluent.errors import KafkaError, kafka_error
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.confluent.rebalancing import Assignment
from tandem_kafka.confluent.values import Message, error_message
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import (
    LOGIN_ERRORS,
    ConcurrentModificationError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    NotAssignedError,
    OffsetOutOfRangeError,
)
from tandem_kafka.errors import KafkaError as OurKafkaError
from tandem_kafka.types import TopicPartition as Key

__all__ = ["Events"]

#: Seconds after which a persisting error is reported again.
_REPEAT_S: Final = 10.0
#: Seconds that `poll()` waits after a repeated error, before it polls our consumer again.
_ERROR_PAUSE_S: Final = 0.1
#: Seconds without a first connection after which `error_cb` is called.
_CONNECT_S: Final = 3.0


class Events:
    """Collects the events for `poll()` and the errors for `error_cb`."""

    def __init__(
        self,
        kafka: KafkaConsumer,
        assigned: Assigned,
        assignment: Assignment,
        settings: Settings,
        call: Callable[..., None],
        time: Time,
    ) -> None:
        self._time = time
        self._kafka = kafka
        self._assigned = assigned
        self._assignment = assignment
        self._call = call
        self._error_cb = settings.callbacks.get("error_cb")
        self.ends = settings.get("enable.partition.eof", False)
        self._creates_topics = settings.get("allow.auto.create.topics", False)
        self._max_poll_s = settings.get("max.poll.interval.ms", 300_000) / 1000
        self._polled_s = self._began_s = self._time.now_s()
        self._connected = False
        self._reported_s: dict[tuple[int, str], float] = {}
        self._unchecked_topics: list[str] = []
        self.messages: deque[Message] = deque()

    def subscribed(self, topics: list[str]) -> None:
        """Note the topics, to check later whether they exist."""
        self._unchecked_topics = (
            [] if self._creates_topics else [name for name in topics if name[0] != "^"]
        )

    def polled(self, now_s: float) -> None:
        """Report if the application did not poll for longer than `max.poll.interval.ms`."""
        late_s = now_s - self._polled_s - self._max_poll_s
        self._polled_s = now_s
        if late_s > 0 and self._assignment.subscribed:
            reason = (
                f"Application maximum poll interval ({self._max_poll_s * 1000:.0f}ms) "
                f"exceeded by {late_s * 1000:.0f}ms"
            )
            self.messages.append(error_message(KafkaError(Codes._MAX_POLL_EXCEEDED, reason)))

    # --- errors --------------------------------------------------------------------------------

    def failed(self, error: OurKafkaError, wait_s: float) -> None:
        """Make an event from an error of our consumer's `poll()`."""
        if isinstance(error, ConcurrentModificationError):
            raise error
        if isinstance(error, NoOffsetForPartitionError | OffsetOutOfRangeError):
            self._stop_without_position(error)
            return
        found = kafka_error(error)
        if self._is_new(found):
            if isinstance(error, LOGIN_ERRORS):
                self._call_error_cb(found)
            else:
                self.messages.append(error_message(found))
        else:
            self._time.wait(min(wait_s, _ERROR_PAUSE_S))

    def _is_new(self, error: KafkaError) -> bool:
        now_s, identity = self._time.now_s(), (error.code(), error.str())
        if now_s - self._reported_s.get(identity, -_REPEAT_S) < _REPEAT_S:
            return False
        self._reported_s[identity] = now_s
        return True

    def _call_error_cb(self, error: KafkaError) -> None:
        if self._error_cb is not None:
            self._call(self._error_cb, error)

    def _stop_without_position(self, error: OurKafkaError) -> None:
        found = error.args[0] if isinstance(error, OffsetOutOfRangeError) else None
        tps = list(found) if isinstance(found, dict) else self._without_position()
        for tp in tps:
            part = self._assigned.get(tp)
            if part is not None and not part.stopped:
                self._assignment.stop(part)
                event = KafkaError(Codes._AUTO_OFFSET_RESET, f"{error}")
                offset = found[tp] if isinstance(found, dict) else part.start
                self.messages.append(error_message(event, tp, offset))

    def _without_position(self) -> list[Key]:
        return [part.tp for part in self._assigned if not self._has_position(part)]

    def _has_position(self, part: Part) -> bool:
        try:
            self._kafka.position(part.tp, timeout_ms=0)
        except NoOffsetForPartitionError:
            return False
        except OurKafkaError:
            return True
        return True

    # --- topics, brokers -----------------------------------------------------------------------

    def check_cluster(self, now_s: float) -> None:
        """Check whether the cluster is reachable and the topics exist."""
        if not self._connected:
            self._connected = self._kafka.bootstrap_connected()
            down = KafkaError(Codes._ALL_BROKERS_DOWN, retriable=True)
            if not self._connected and now_s - self._began_s > _CONNECT_S and self._is_new(down):
                self._call_error_cb(down)
        elif self._unchecked_topics:
            topics, self._unchecked_topics = self._unchecked_topics, []
            for topic in topics:
                self._check_topic(topic)

    def _check_topic(self, topic: str) -> None:
        try:
            found: Any = self._kafka.partitions_for_topic(topic, timeout_ms=1_000)
        except KafkaTimeoutError:
            return
        if not found:
            words = KafkaError(Codes.UNKNOWN_TOPIC_OR_PART).str()
            reason = f"Subscribed topic not available: {topic}: {words}"
            error = KafkaError(Codes.UNKNOWN_TOPIC_OR_PART, reason)
            self.messages.append(error_message(error, (topic, None)))

    # --- ends of partitions --------------------------------------------------------------------

    def check_ends(self) -> None:
        """Add an event for each partition that was read to its end, once per end."""
        buffered = self._assigned.buffered()
        for part in self._assigned:
            if not part.inactive and part.tp not in buffered:
                end = self._end(part)
                if end is not None and end != part.eof_at:
                    part.eof_at = end
                    reason = f"Reached end of partition at offset {end}"
                    error = KafkaError(Codes._PARTITION_EOF, reason)
                    self.messages.append(error_message(error, part.tp, end))

    def _end(self, part: Part) -> int | None:
        """Return the position if it is the end of the partition, otherwise None."""
        try:
            if self._kafka.current_lag(part.tp) != 0:
                return None
            return self._kafka.position(part.tp, timeout_ms=0)
        except (NotAssignedError, NoOffsetForPartitionError, KafkaTimeoutError):
            return None
