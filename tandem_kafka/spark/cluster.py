"""What the driver asks the cluster: which partitions there are, and their offsets."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Self, TypeVar

from tandem_kafka.config import Config
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import (
    InvalidArgumentError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
)
from tandem_kafka.runtime import Runtime
from tandem_kafka.spark.client import consumer_options, servers_of, what_to_check
from tandem_kafka.spark.failures import MistakeError
from tandem_kafka.spark.offsets import EARLIEST, At, Edge, Limit, Offsets, Since
from tandem_kafka.spark.options import SourceOptions
from tandem_kafka.spark.topics import PlanningConsumer
from tandem_kafka.types import OffsetAndMetadata, TopicPartition, named

__all__ = ["Cluster", "DataLossError", "NoBrokerError", "UnknownTopicError"]

log = logging.getLogger(__name__)

R = TypeVar("R")


class DataLossError(MistakeError):
    """Records that should have been read are not in Kafka any more."""


class UnknownTopicError(MistakeError):
    """A topic or partition that was asked for does not exist."""


class NoBrokerError(MistakeError, KafkaTimeoutError):
    """No broker of those that were given has answered."""


class Cluster:
    """A consumer that reads nothing; it connects when it is first asked."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._runtime = Runtime.threaded()
        self._consumer: PlanningConsumer | None = None
        #: A cluster that has answered once may come back; one that never did is not waited for.
        self._reached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next question makes a new one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False)

    def now_ms(self) -> int:
        """Milliseconds of a clock that never goes back."""
        return self._runtime.clock.now_ms()

    # --- partitions ----------------------------------------------------------------------------

    def partitions(
        self, *, lenient: bool = False, known: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]:
        """Return the partitions to read now.

        Args:
            lenient: Leave out what does not exist.
            known: What was there before; a broker that has not heard of it is asked again.

        Raises:
            UnknownTopicError: One that was asked for by name does not exist.
        """
        found = self._retried(lambda: self._partitions(lenient=lenient))
        for _ in range(self._options.retries):
            if found.issuperset(known):
                break
            self._pause()
            found = self._retried(lambda: self._partitions(lenient=lenient))
        return found

    def _partitions(self, *, lenient: bool) -> set[TopicPartition]:
        topics, consumer = self._options.topics, self._connected()
        if topics.pattern is not None:
            pattern = re.compile(topics.pattern)
            return {tp for tp in consumer.all_partitions() if pattern.fullmatch(tp.topic)}
        if topics.assigned:
            there = consumer.partitions_of({tp.topic for tp in topics.assigned})
            missing = set(topics.assigned) - there
        else:
            there = consumer.partitions_of(topics.names)
            missing_names = set(topics.names) - {tp.topic for tp in there}
            missing = {TopicPartition(name, 0) for name in missing_names}
        if missing and not lenient:
            raise UnknownTopicError(self._unknown(missing, there, consumer))
        return there & set(topics.assigned) if topics.assigned else there

    def _unknown(
        self,
        missing: Collection[TopicPartition],
        there: Collection[TopicPartition],
        consumer: PlanningConsumer,
    ) -> str:
        """Return what does not exist, what is called like it, and what to do."""
        option = "assign" if self._options.topics.assigned else "subscribe"
        names = sorted({tp.topic for tp in missing} - {tp.topic for tp in there})
        if not names:
            count = sorted({tp.partition for tp in there if tp.topic == min(missing).topic})
            return (
                f"{option}: there is no {named(missing)}; {min(missing).topic} has the partitions "
                f"{', '.join(map(str, count))}: correct the option"
            )
        others = {tp.topic for tp in consumer.all_partitions()}
        found = (each for name in names for each in get_close_matches(name, others))
        near = list(dict.fromkeys(found))
        hint = f"did you mean {', '.join(near)}? If not, " if near else ""
        return (
            f"{option}: there is no {named(missing)}, as there is no topic {', '.join(names)} at "
            f"{servers_of(self._options.kafka)}; {hint}create it or correct the option"
        )

    # --- offsets -------------------------------------------------------------------------------

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        found: Offsets = self._retried(lambda: self._connected().beginning_offsets(partitions))
        return found

    def latest(
        self,
        partitions: Collection[TopicPartition],
        known: Mapping[TopicPartition, int] | None = None,
    ) -> Offsets:
        """Return the offset behind the last record of each partition.

        A broker that is behind may tell less than what is `known` already: it is asked again.
        """
        found = self._retried(lambda: self._connected().end_offsets(partitions))
        for _ in range(self._options.retries):
            if all(found.get(tp, 0) >= offset for tp, offset in (known or {}).items()):
                break
            self._pause()
            found = self._retried(lambda: self._connected().end_offsets(partitions))
        return found

    def resolve(
        self, limit: Limit, partitions: Collection[TopicPartition], *, starting: bool
    ) -> Offsets:
        """Return the offsets that a limit stands for.

        Raises:
            InvalidArgumentError: It does not name exactly the partitions to read, or no record is
                young enough.
        """
        if isinstance(limit, Edge):
            return self._at_edge(limit, partitions)
        if isinstance(limit, At):
            _check_names(limit.offsets, partitions)
            found = {tp: at for tp, at in limit.offsets.items() if isinstance(at, int)}
            for edge in {at for at in limit.offsets.values() if isinstance(at, Edge)}:
                these = [tp for tp, at in limit.offsets.items() if at == edge]
                found.update(self._at_edge(edge, these))
            return found
        return self._at_times(limit, partitions, starting=starting)

    def _at_edge(self, edge: Edge, partitions: Collection[TopicPartition]) -> Offsets:
        return self.earliest(partitions) if edge == EARLIEST else self.latest(partitions)

    def first_since(self, limit: Since, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the first offset that is as young, behind the last where there is none."""
        found = self._matching(limit, partitions)
        without = [tp for tp in partitions if tp not in found]
        return found | (self.latest(without) if without else {})

    def _matching(self, limit: Since, partitions: Collection[TopicPartition]) -> Offsets:
        times = limit.timestamp_ms
        if isinstance(times, int):
            times = dict.fromkeys(partitions, times)
        _check_names(times, partitions)
        answers = self._retried(lambda: self._connected().offsets_for_times(times))
        return {tp: each.offset for tp, each in answers.items() if each is not None}

    def _at_times(
        self, limit: Since, partitions: Collection[TopicPartition], *, starting: bool
    ) -> Offsets:
        found = self._matching(limit, partitions)
        without = [tp for tp in partitions if tp not in found]
        if without and starting and self._options.error_without_match:
            raise InvalidArgumentError(
                f"no record of {named(without)} is as young as the starting time; "
                "to start at the end there, set startingOffsetsByTimestampStrategy to latest"
            )
        return found | (self.latest(without) if without else {})

    # --- the group -----------------------------------------------------------------------------

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets to a group without members; what fails is logged, no more."""
        options = _client_options(self._options) | {"group_id": group, "enable_auto_commit": False}
        try:
            with KafkaConsumer(**options) as consumer:
                consumer.commit({tp: OffsetAndMetadata(at, "", None) for tp, at in offsets.items()})
        except KafkaError as error:
            log.warning("offsets of group %s were not committed: %s", group, error)

    # --- the connection ------------------------------------------------------------------------

    def _connected(self) -> PlanningConsumer:
        if self._consumer is None:
            self._consumer = self._connect()
            self._reached = True
        return self._consumer

    def _connect(self) -> PlanningConsumer:
        options = _client_options(self._options)
        try:
            return PlanningConsumer(**options)
        except KafkaTimeoutError as error:
            waited_ms = options.get("bootstrap_timeout_ms", Config().bootstrap_timeout_ms)
            raise NoBrokerError(
                f"no broker of {servers_of(self._options.kafka)} answered within {waited_ms:.0f} "
                f"ms (kafka.bootstrap.timeout.ms): {what_to_check('this machine')}"
            ) from error

    def _retried(self, ask: Callable[[], R]) -> R:
        for _ in range(self._options.retries):
            try:
                return ask()
            except (InvalidArgumentError, KafkaConfigurationError, DataLossError):
                raise
            except KafkaError as error:
                if isinstance(error, NoBrokerError) and not self._reached:
                    raise
                log.info("looking offsets up again: %s", error)
                self.close()
                self._pause()
        return ask()

    def _pause(self) -> None:
        until_ms = self.now_ms() + self._options.retry_interval_ms
        self._runtime.driver.wait(lambda: False, until_ms)


def _client_options(options: SourceOptions) -> dict[str, Any]:
    found = consumer_options(options.kafka)
    found.setdefault("allow_auto_create_topics", False)
    if options.group_id_prefix is not None:
        found.setdefault("client_id", f"{options.group_id_prefix}-driver")
    return found


def _check_names(given: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    differing = set(given) ^ set(partitions)
    if differing:
        raise InvalidArgumentError(
            "offsets and times must be given for exactly the partitions that are read; "
            f"the difference is {named(differing)}"
        )
