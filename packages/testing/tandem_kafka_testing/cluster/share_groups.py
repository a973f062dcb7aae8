"""The share partitions that a broker leads, and their durable states in the cluster."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.clock import NEVER_MS
from tandem_kafka_testing.cluster.broker_state import BrokerState, LedShare
from tandem_kafka_testing.cluster.cluster_state import ClusterState
from tandem_kafka_testing.cluster.topics import SimPartition
from tandem_kafka_testing.coordinator.settings import duration_ms
from tandem_kafka_testing.share.partition import SharePartition
from tandem_kafka_testing.share.persisted import PersistedState
from tandem_kafka_testing.share.sessions import MemberKey, PartitionKey


class ShareGroups:
    """The share groups of one broker.

    The records in flight are in the memory of the leader. A new leader, or the same one after a
    restart, begins with what was written.
    """

    def __init__(self, cluster: ClusterState, broker: BrokerState) -> None:
        self._cluster = cluster
        self._broker = broker

    def partition(self, key: PartitionKey) -> tuple[SimPartition | None, Any]:
        """Return a partition of the log, and the error if this broker does not lead it."""
        topic = self._cluster.topic_named(None, key[0])
        if topic is None:
            return None, errors.UnknownTopicIdError
        if not 0 <= key[1] < len(topic.partitions):
            return None, errors.UnknownTopicOrPartitionError
        partition = topic.partitions[key[1]]
        leads = partition.leader == self._broker.node_id
        return partition, None if leads else errors.NotLeaderForPartitionError

    def loaded(self, group_id: str, key: PartitionKey) -> SharePartition | None:
        """Return a share partition that this broker leads and has loaded."""
        led = self._led(group_id, key)
        if led is None:
            return None
        if led.late:
            while led.share.expire(self._cluster.clock.now_ms() - 1):
                pass
        return led.share

    def _led(self, group_id: str, key: PartitionKey) -> LedShare | None:
        partition, error = self.partition(key)
        led = self._broker.share_partitions.get((group_id, *key))
        if led is None:
            return None
        if partition is None or error is not None or led.epoch != partition.epoch:
            del self._broker.share_partitions[group_id, *key]
            return None
        return led

    def load(self, group_id: str, key: PartitionKey) -> SharePartition | None:
        """Return a share partition that this broker leads, None until it is loaded."""
        share = self.loaded(group_id, key)
        if share is None and (group_id, *key) not in self._broker.share_loading:
            self._broker.share_loading.add((group_id, *key))
            now_ms = self._cluster.clock.now_ms()
            self._cluster.network.at(now_ms, lambda: self._end_loading(group_id, key))
        return share

    def is_initialized(self, group_id: str, key: PartitionKey) -> bool:
        """Return whether the share coordinator keeps the state of a partition."""
        topic = self._cluster.topic_named(None, key[0])
        initialized = self._cluster.coordination.of(group_id).share.initialized
        return topic is not None and TopicPartition(topic.name, key[1]) in initialized

    def _end_loading(self, group_id: str, key: PartitionKey) -> None:
        """Begin with what earlier leaders wrote."""
        if (group_id, *key) not in self._broker.share_loading:
            return  # the broker has been restarted
        self._broker.share_loading.discard((group_id, *key))
        partition, error = self.partition(key)
        if partition is not None and error is None:
            saved = self._cluster.share_states.setdefault((group_id, *key), PersistedState())
            coordinator = self._cluster.coordination.of(group_id)
            reset = self._reset_offset(partition, coordinator.settings.share_auto_offset_reset)
            share = SharePartition(saved, reset, lambda: coordinator.settings)
            self._broker.share_partitions[group_id, *key] = LedShare(partition.epoch, share)
        self._cluster.changed()

    def _reset_offset(self, partition: SimPartition, strategy: str) -> int:
        log = partition.log
        if strategy == "latest":
            return partition.end_at(self._broker.node_id)
        if strategy == "earliest":
            return log.start_offset
        found = log.find(self._cluster.clock.wall_ms() - duration_ms(strategy))
        return found[0] if found is not None else log.end_offset

    def release(self, member: MemberKey, partitions: list[PartitionKey]) -> None:
        """Release all records that a member has acquired."""
        group_id, member_id = member
        for key in partitions:
            share = self.loaded(group_id, key)
            if share is not None:
                share.release(member_id)
        self.wake()

    def end_connection(self, number: int) -> None:
        """End the sessions of a closed connection, and release their records."""
        sessions = self._broker.share_sessions
        for member in sessions.of_connection(number):
            partitions = sessions.close(member)
            self.release(member, partitions)
            if not sessions.has_group(member[0]):
                self._forget(member[0])

    def _forget(self, group_id: str) -> None:
        """Drop the share partitions of a group without sessions, which are loaded again."""
        loaded = self._broker.share_partitions
        for key in [key for key in loaded if key[0] == group_id]:
            del loaded[key]

    def await_locks(self, group_id: str, key: PartitionKey) -> None:
        """Release the records of a share partition when their locks end."""
        led = self._broker.share_partitions.get((group_id, *key))
        when_ms = led.share.lock_ends_ms if led is not None else None
        if led is None or when_ms is None or led.timer_ms <= when_ms:
            return
        led.timer_ms = when_ms = max(when_ms, self._cluster.clock.now_ms())

        def expire() -> None:
            led.timer_ms = NEVER_MS
            if self._led(group_id, key) is led:
                led.late = not self._broker.serves  # it is paused
                if led.late:
                    self._broker.postpone(expire)
                    return
                if led.share.expire(self._cluster.clock.now_ms()):
                    self._cluster.changed()
                self.await_locks(group_id, key)

        self._cluster.network.at(when_ms, expire)

    def wake(self) -> None:
        """Let parked fetches look again, after the present request."""
        self._cluster.network.at(self._cluster.clock.now_ms(), self._cluster.changed)
