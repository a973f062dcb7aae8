"""May this user read the topic, and be a member of the group? Do the clocks agree?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tandem_kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    acl_command,
    reason_of,
)
from tandem_kafka.types import TopicPartition
from tandem_kafka_cli.connection import near_topic
from tandem_kafka_cli.doctor.finding import Finding, Step, failed, passed, warned
from tandem_kafka_cli.doctor.share_groups import examine_share_group
from tandem_kafka_cli.lags import existing
from tandem_kafka_cli.output import counted
from tandem_kafka_cli.times import shown_time

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.types import ClusterSnapshot, OffsetAndMetadata, TopicInfo
    from tandem_kafka_cli.administration import Administration
    from tandem_kafka_cli.connection import Connection


#: A record of this much later than now is no accident of two good clocks.
_TOLERATED_MS: Final = 2_000
_RETRY_MS: Final = 200


class Access:
    """Examines a topic and a group.

    Args:
        connection: Makes the clients.
        timeout_ms: The limit of each call.
    """

    def __init__(self, connection: Connection, timeout_ms: int) -> None:
        self._connection = connection
        self._environment = connection.environment
        self._timeout_ms = timeout_ms

    def topic(self, snapshot: ClusterSnapshot, topic: str) -> Iterator[Finding]:
        """Examine whether a topic exists, has leaders and can be read."""
        found = snapshot.topics.get(topic)
        if found is None:
            yield _missing(snapshot, topic)
            return
        without = sorted(number for number, each in found.partitions.items() if each.leader_id < 0)
        if without:
            yield failed(
                Step.TOPIC, topic, f"no leader of {_partitions(without)}",
                "start the brokers with the replicas of these partitions",
            )  # fmt: skip
        readable = [number for number in found.partitions if number not in without]
        if readable:
            yield from self._read(found, readable)

    def _read(self, topic: TopicInfo, numbers: list[int]) -> Iterator[Finding]:
        partitions = [TopicPartition(topic.name, number) for number in sorted(numbers)]
        try:
            with self._connection.consumer(
                default_api_timeout_ms=self._timeout_ms, fetch_max_wait_ms=100
            ) as consumer:
                ends = consumer.end_offsets(partitions, timeout_ms=self._timeout_ms)
                consumer.assign(partitions)
                consumer.seek_to_beginning(*partitions)
                # The broker checks the right to read with each fetch, also of an empty partition.
                consumer.poll(timeout_ms=1_000, max_records=1)
                text = f"{_partitions(numbers)} readable, {sum(ends.values()):,} records written"
                yield passed(Step.TOPIC, topic.name, text)
                yield self._clocks(consumer, partitions)
        except TopicAuthorizationFailedError:
            yield failed(
                Step.TOPIC, topic.name, "this user may describe the topic, but not read it",
                acl_command("Read", "topic", topic.name),
            )  # fmt: skip
        except KafkaError as error:
            yield failed(
                Step.TOPIC, topic.name, reason_of(error),
                "look at the brokers that lead its partitions: `tandem-kafka partitions`",
            )  # fmt: skip

    def _clocks(self, consumer: KafkaConsumer, partitions: list[TopicPartition]) -> Finding:
        """Look for records of the future; Kafka has no request for a broker's time."""
        now_ms = self._environment.clock.wall_ms()
        times = dict.fromkeys(partitions, now_ms + _TOLERATED_MS)
        found = consumer.offsets_for_times(times, timeout_ms=self._timeout_ms)
        later = [(each.timestamp, tp) for tp, each in found.items() if each is not None]
        if not later:
            return passed(
                Step.CLOCK, partitions[0].topic, "no record is later than this machine's time"
            )
        timestamp, tp = max(later)
        return warned(
            Step.CLOCK, tp.topic,
            f"a record in partition {tp.partition} is {(timestamp - now_ms) / 1000:.0f} s in the "
            f"future ({shown_time(timestamp)})",
            "compare the clocks of this machine, the brokers and the producers (NTP)",
        )  # fmt: skip

    def group(self, group_id: str, *, shared: bool) -> Iterator[Finding]:
        """Examine whether the group's coordinator is known, and whether this user may join.

        Args:
            group_id: The group.
            shared: Whether it must be a share group.
        """
        try:
            with self._connection.administration() as administration:
                node = self._coordinator(administration, group_id)
                yield passed(Step.COORDINATOR, group_id, f"broker {node}")
                may_join = administration.may_join(group_id, node)
                share_group = [*examine_share_group(administration, group_id, wanted=shared)]
                yield from share_group
                committed = {} if share_group else administration.committed(group_id)
        except GroupAuthorizationFailedError:
            yield _forbidden(group_id, "describe")
        except KafkaError as error:
            yield failed(
                Step.COORDINATOR, group_id, reason_of(error),
                "look at the brokers with partitions of __consumer_offsets; it may be loading",
            )  # fmt: skip
        else:
            yield (
                passed(Step.GROUP, group_id, "this user may join and commit")
                if may_join
                else _forbidden(group_id, "read (join)")
            )
            if committed:
                yield self._committed(group_id, committed)

    def _committed(
        self, group_id: str, committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Finding:
        """Look for committed offsets that their partitions do not have."""
        try:
            # The end of "read_committed" may be lower than what other consumers have read.
            with self._connection.consumer(
                isolation_level="read_uncommitted", default_api_timeout_ms=self._timeout_ms
            ) as consumer:
                partitions = existing(committed, consumer)
                first = consumer.beginning_offsets(partitions)
                ends = consumer.end_offsets(partitions)
        except KafkaError as error:
            return warned(
                Step.COMMITTED, group_id, f"not compared with the partitions: {reason_of(error)}",
                "look at the brokers that lead them: `tandem-kafka partitions`",
            )  # fmt: skip
        outside = [
            f"{tp.topic} {tp.partition}: {committed[tp].offset:,} is committed, "
            f"but the partition has {first[tp]:,} to {ends[tp]:,}"
            for tp in partitions
            if not first[tp] <= committed[tp].offset <= ends[tp]
        ]
        if not outside:
            seen = f"in {counted(len(partitions), 'partition')}, all within their offsets"
            return passed(Step.COMMITTED, group_id, seen)
        more = f", and {len(outside) - 1} more" if len(outside) > 1 else ""
        return warned(
            Step.COMMITTED, group_id, f"{outside[0]}{more}",
            "a consumer that starts there resets its position as auto_offset_reset says; "
            "`tandem-kafka offsets reset` moves the offset",
        )  # fmt: skip

    def _coordinator(self, administration: Administration, group_id: str) -> int:
        """Return the coordinator; a new cluster has none until its topic has been created."""
        deadline_ms = self._environment.clock.now_ms() + self._timeout_ms
        while True:
            try:
                return administration.coordinator(group_id)
            except KafkaError as error:
                if not error.retriable or self._environment.clock.now_ms() >= deadline_ms:
                    raise
            self._environment.sleep_ms(_RETRY_MS)


def _forbidden(group_id: str, what: str) -> Finding:
    return failed(
        Step.GROUP, group_id, f"this user may not {what} the group",
        acl_command("Read", "group", group_id),
    )  # fmt: skip


def _missing(snapshot: ClusterSnapshot, topic: str) -> Finding:
    error = snapshot.topic_errors.get(topic)
    if error is not None:
        return failed(
            Step.TOPIC, topic, f"the broker says {error.__name__}",
            "look at the log of the controller",
        )  # fmt: skip
    return failed(
        Step.TOPIC, topic, "the topic does not exist, or this user may not describe it",
        near_topic(snapshot, topic),
    )  # fmt: skip


def _partitions(numbers: list[int]) -> str:
    return f"partition {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} partitions"
