"""The driver's queries to the cluster: existing partitions and their offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

import tandem_kafka
from pyspark_tandem_kafka.client import consumer_options, servers_of, what_to_check
from pyspark_tandem_kafka.failures import MistakeError
from pyspark_tandem_kafka.offsets import (
    EARLIEST,
    At,
    Edge,
    Limit,
    PartitionOffsets,
    Since,
    StreamOffset,
)
from pyspark_tandem_kafka.options import SourceOptions
from tandem_kafka import config
from tandem_kafka.errors import (
    InvalidArgumentError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition, names_of

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer

log = client_logger(__name__)

R = TypeVar("R")

#: Partitions, each with the id of its topic.
Existing = dict[TopicPartition, UUID]


class DataLossError(MistakeError):
    """Records in the requested range no longer exist in Kafka."""


class UnknownTopicError(MistakeError):
    """A requested topic or partition does not exist."""


class NoBrokerError(MistakeError, KafkaTimeoutError):
    """None of the given brokers responded."""


class Cluster:
    """A consumer that reads no records; it connects on the first query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._runtime = Runtime.threaded()
        self._consumer: KafkaConsumer | None = None
        #: After a first response, lost connections are retried. Before it, planning fails at once:
        #: the addresses are probably wrong.
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
        """Close the connection; the next query opens a new one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False)

    def now_ms(self) -> int:
        """Return the milliseconds of a monotonic clock."""
        return self._runtime.clock.now_ms()

    # --- partitions ----------------------------------------------------------------------------

    def partitions(self, *, lenient: bool = False, known: StreamOffset | None = None) -> Existing:
        """Return the partitions to read now.

        Args:
            lenient: Skip partitions that do not exist.
            known: What existed before. If a partition is missing or a topic has a different id,
                the query is repeated, because the broker's metadata may be stale.

        Raises:
            UnknownTopicError: A topic or partition requested by name does not exist.
        """
        known = known or StreamOffset()
        found = self._retried(lambda: self._partitions(lenient=lenient))
        for _ in range(self._options.retries):
            if found.keys() >= known.ends.keys() and not known.recreated(topic_ids(found)):
                break
            self._pause()
            found = self._retried(lambda: self._partitions(lenient=lenient))
        return found

    def _partitions(self, *, lenient: bool) -> Existing:
        topics, consumer = self._options.topics, self._connected()
        if topics.pattern is not None:
            # A part of the name is enough, as for Spark's connector.
            pattern = re.compile(topics.pattern)
            found = _existing(consumer).items()
            return {tp: known for tp, known in found if pattern.search(tp.topic)}
        if topics.assigned:
            existing = _existing(consumer, {tp.topic for tp in topics.assigned})
            missing = set(topics.assigned) - existing.keys()
        else:
            existing = _existing(consumer, topics.names)
            missing_names = set(topics.names) - {tp.topic for tp in existing}
            missing = {TopicPartition(name, 0) for name in missing_names}
        if missing and not lenient:
            raise UnknownTopicError(self._unknown_message(missing, existing, consumer))
        if topics.assigned:
            return {tp: existing[tp] for tp in topics.assigned if tp in existing}
        return existing

    def _unknown_message(
        self,
        missing: Collection[TopicPartition],
        existing: Collection[TopicPartition],
        consumer: KafkaConsumer,
    ) -> str:
        """Return the missing partitions, similar topic names, and advice."""
        option = "assign" if self._options.topics.assigned else "subscribe"
        names = sorted({tp.topic for tp in missing} - {tp.topic for tp in existing})
        if not names:
            numbers = sorted({tp.partition for tp in existing if tp.topic == min(missing).topic})
            return (
                f"{option}: there is no {names_of(missing)}; {min(missing).topic} has the "
                f"partitions {', '.join(map(str, numbers))}: correct the option"
            )
        others = {tp.topic for tp in _existing(consumer)}
        found = (each for name in names for each in get_close_matches(name, others))
        near = list(dict.fromkeys(found))
        hint = f"did you mean {', '.join(near)}? If not, " if near else ""
        return (
            f"{option}: there is no {names_of(missing)}, because there is no topic "
            f"{', '.join(names)} at {servers_of(self._options.kafka)}; "
            f"{hint}create it or correct the option"
        )

    # --- offsets -------------------------------------------------------------------------------

    def earliest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Return the first offset of each partition."""
        found: PartitionOffsets = self._retried(
            lambda: self._connected().beginning_offsets(partitions)
        )
        return found

    def latest(
        self,
        partitions: Collection[TopicPartition],
        known: Mapping[TopicPartition, int] | None = None,
    ) -> PartitionOffsets:
        """Return the end offset of each partition.

        If an offset is below one in `known`, the query is repeated: the broker may be behind.
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
    ) -> PartitionOffsets:
        """Convert a limit to offsets.

        Raises:
            InvalidArgumentError: The limit does not name exactly the partitions to read, or no
                record is at or after its time.
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

    def _at_edge(self, edge: Edge, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return self.earliest(partitions) if edge == EARLIEST else self.latest(partitions)

    def first_since(self, limit: Since, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Return the first offset at or after a time, or the end offset if there is none."""
        found = self._matching(limit, partitions)
        without = [tp for tp in partitions if tp not in found]
        return found | (self.latest(without) if without else {})

    def _matching(self, limit: Since, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        times = limit.timestamp_ms
        if isinstance(times, int):
            times = dict.fromkeys(partitions, times)
        _check_names(times, partitions)
        response = self._retried(lambda: self._connected().offsets_for_times(times))
        return {tp: each.offset for tp, each in response.items() if each is not None}

    def _at_times(
        self, limit: Since, partitions: Collection[TopicPartition], *, starting: bool
    ) -> PartitionOffsets:
        found = self._matching(limit, partitions)
        without = [tp for tp in partitions if tp not in found]
        if without and starting and self._options.error_without_match:
            raise InvalidArgumentError(
                f"no record of {names_of(without)} is at or after the starting time; to start at "
                "the end of these partitions, set startingOffsetsByTimestampStrategy to latest"
            )
        return found | (self.latest(without) if without else {})

    # --- the group -----------------------------------------------------------------------------

    def commit(self, group: str, offsets: PartitionOffsets) -> None:
        """Commit offsets to a group without members; a failure is only logged."""
        fixed = {"group_id": group, "enable_auto_commit": False}
        options = config.sealed({**_client_options(self._options), **fixed})
        try:
            with tandem_kafka.KafkaConsumer(**options) as consumer:
                consumer.commit({tp: OffsetAndMetadata(at, "", None) for tp, at in offsets.items()})
        except KafkaError as error:
            log.warning("offsets of group %s were not committed: %s", group, error)

    # --- the connection ------------------------------------------------------------------------

    def _connected(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = self._connect()
            self._reached = True
        return self._consumer

    def _connect(self) -> KafkaConsumer:
        options = _client_options(self._options)
        try:
            return tandem_kafka.KafkaConsumer(**options)
        except KafkaTimeoutError as error:
            waited_ms = options.get("bootstrap_timeout_ms", config.Config().bootstrap_timeout_ms)
            raise NoBrokerError(
                f"no broker of {servers_of(self._options.kafka)} responded within {waited_ms:.0f} "
                f"ms (kafka.bootstrap.timeout.ms): {what_to_check('this machine')}"
            ) from error

    def _retried(self, query: Callable[[], R]) -> R:
        for _ in range(self._options.retries):
            try:
                return query()
            except (InvalidArgumentError, KafkaConfigurationError, DataLossError):
                raise
            except KafkaError as error:
                if isinstance(error, NoBrokerError) and not self._reached:
                    raise
                log.info("retrying the lookup of offsets: %s", error)
                self.close()
                self._pause()
        return query()

    def _pause(self) -> None:
        until_ms = self.now_ms() + self._options.retry_interval_ms
        self._runtime.driver.wait(lambda: False, until_ms)


def recreation(topic: str, was: UUID, now: UUID) -> str:
    """Return how to say that a topic has a different id."""
    return f"topic {topic} was deleted and created again (its id was {was}, and is {now})"


def topic_ids(existing: Existing) -> dict[str, UUID]:
    """Return the ids of topics by name; a broker before Metadata v10 gives none."""
    return {tp.topic: known for tp, known in existing.items() if known != NO_TOPIC_ID}


def _existing(consumer: KafkaConsumer, names: Collection[str] | None = None) -> Existing:
    """Look up the partitions of these topics, or of all but internal ones, in the cluster.

    The consumer's own metadata may be minutes old, and a batch reflects the topics of its time.
    """
    found = consumer.cluster(topics=names).topics.values()
    return {
        TopicPartition(topic.name, number): topic.topic_id
        for topic in found
        if names is not None or not topic.internal
        for number in topic.partitions
    }


def _client_options(options: SourceOptions) -> dict[str, Any]:
    found = consumer_options(options.kafka)
    found.setdefault("allow_auto_create_topics", False)
    if options.group_id_prefix is not None:
        found.setdefault("client_id", f"{options.group_id_prefix}-driver")
    return config.sealed(found)


def _check_names(given: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    differing = set(given) ^ set(partitions)
    if differing:
        raise InvalidArgumentError(
            "offsets and times must be given for exactly the partitions to read; "
            f"these differ: {names_of(differing)}"
        )
