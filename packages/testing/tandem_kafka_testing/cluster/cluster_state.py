"""The state of the simulated cluster: brokers, topics and groups, and their faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID
from zlib import crc32

from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.broker_state import BrokerState
from tandem_kafka_testing.cluster.coordination import Coordination
from tandem_kafka_testing.cluster.releases import release_named
from tandem_kafka_testing.cluster.telemetry import TelemetryReceiver
from tandem_kafka_testing.cluster.topics import SimPartition, SimTopic
from tandem_kafka_testing.cluster.transaction_coordinator import TransactionCoordinator
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.requests import Commit, CommitOffsets, EndTransaction
from tandem_kafka_testing.network import SimNetwork
from tandem_kafka_testing.share.persisted import PersistedState

#: No broker has this id.
NOBODY = -1


class ClusterState(ABC):
    """The state that the brokers share.

    Attributes:
        kafka: The release that new brokers simulate: "0.11", "2.8", "3.9" or "4.3". With None they
            support everything that is simulated.
        racks: Racks of the brokers, in turn. With racks, a leader sends consumers to a replica in
            their rack (KIP-392), as with Kafka's RackAwareReplicaSelector.
        auto_create: Whether a metadata request for an unknown topic creates it.
        users: Passwords by user; clients must log in if there are any.
        disabled: Keys of APIs that the brokers do not offer.
        telemetry: Receives the metrics of clients (KIP-714); None if the brokers do not offer that.
        commit_log: Every accepted commit, in order, with the id of the member.
        coordination: The coordinators of the groups.
        transactions: The coordinators of transactions, which share their state.
        share_states: The durable states of share partitions, by group, topic and number.
    """

    def __init__(
        self,
        network: SimNetwork,
        random: Random,
        kafka: str | None = None,
        racks: Sequence[str] = (),
    ) -> None:
        self.network = network
        self.clock = network.clock
        self.trace = network.trace
        self.random = random
        self.kafka = kafka
        self.racks = tuple(racks)
        self.auto_create = False
        self.brokers: dict[int, BrokerState] = {}
        self.topics: dict[str, SimTopic] = {}
        self.coordination = Coordination(network, self._partition_counts, self._is_served)
        self.transactions = TransactionCoordinator(self, self.clock.wall_ms, self._after)
        self.users: dict[str, str] = {}
        self.disabled: set[int] = set()
        self.telemetry: TelemetryReceiver | None = None
        self.share_states: dict[tuple[str, UUID, int], PersistedState] = {}
        self.commit_log: list[tuple[TopicPartition, Commit, str]] = []
        self._committed_for: dict[tuple[str, int], str] = {}
        self._coordinators: dict[str, int] = {}
        self._waiting: list[Callable[[], bool]] = []

    # --- brokers -------------------------------------------------------------------------------

    @abstractmethod
    def add_broker(self, node_id: int) -> BrokerState:
        """Start a new broker."""

    def next_rack(self) -> str | None:
        """Return the rack of the next broker: the racks take turns."""
        return self.racks[len(self.brokers) % len(self.racks)] if self.racks else None

    def bootstrap(self) -> str:
        """Return `bootstrap_servers`."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers.values())

    def stop(self, node_id: int, *, elect: bool = False) -> None:
        """Stop a broker; with `elect`, its partitions and groups move to other brokers."""
        broker = self.brokers[node_id]
        broker.end()
        self.trace.note(f"broker {node_id} goes down")
        self.network.stop(broker.address)
        if elect:
            self.elect(node_id)
        self.changed()

    def start(self, node_id: int) -> None:
        """Start a stopped broker; it loads its groups from their logs."""
        broker = self.brokers[node_id]
        was_up, broker.up = broker.up, True
        self.trace.note(f"broker {node_id} comes up")
        self.network.listen(broker.address, broker)
        if not was_up:
            for group_id in self._coordinated_by(node_id):
                self.coordination.take_over(group_id)
        self._serves_again()

    def pause(self, node_id: int) -> None:
        """Stop the process of a broker (SIGSTOP): its connections stay open, nothing is handled."""
        self.brokers[node_id].paused = True
        self.trace.note(f"broker {node_id} is paused")

    def resume(self, node_id: int) -> None:
        """Continue a paused broker, which then handles everything that has arrived."""
        self.trace.note(f"broker {node_id} continues")
        self.brokers[node_id].continue_after_pause()
        self._serves_again()

    def upgrade(self, node_id: int, kafka: str) -> None:
        """Restart a broker with another release; its partitions move to other brokers."""
        self.stop(node_id, elect=True)
        self.brokers[node_id].release = release_named(kafka)
        self.start(node_id)

    def elect(self, gone: int) -> None:
        """Move the partitions and groups of a failed broker, as a controller does.

        They move to brokers that are up and not paused; without such a broker, nothing moves.
        """
        for partition in self.all_partitions():
            if partition.leader == gone:
                others = [n for n in partition.replicas if n != gone and self.brokers[n].serves]
                if others:
                    self.move_leader(TopicPartition(partition.topic, partition.number), others[0])
        serving = [n for n, broker in self.brokers.items() if n != gone and broker.serves]
        for group_id in self._coordinated_by(gone):
            if serving:
                self.fail_over(group_id, serving[0])

    def _coordinated_by(self, node_id: int) -> list[str]:
        return [group_id for group_id, mine in self._coordinators.items() if mine == node_id]

    def _is_served(self, group_id: str) -> bool:
        broker = self.brokers.get(self.coordinator_of(group_id))
        return broker is not None and broker.serves

    def _serves_again(self) -> None:
        self.coordination.catch_up()
        self.changed()

    # --- topics --------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        internal: bool = False,
        replicas: int | None = None,
    ) -> SimTopic:
        """Create a topic; its leaders are the brokers in turn, by default with a replica on each.

        Raises:
            ValueError: There are fewer brokers than `replicas`.
        """
        if replicas is not None and not 1 <= replicas <= len(self.brokers):
            msg = (
                f"replicas={replicas}: must be from 1 to {len(self.brokers)}, the number of brokers"
            )
            raise ValueError(msg)
        topic = SimTopic(name, UUID(int=self.random.getrandbits(128)), [], internal, replicas)
        self.topics[name] = topic
        self.add_partitions(name, partitions)
        return topic

    def add_partitions(self, name: str, total: int) -> None:
        """Increase the number of partitions of a topic."""
        nodes, partitions = list(self.brokers), self.topics[name].partitions
        count = self.topics[name].replicas or len(nodes)
        for number in range(len(partitions), total):
            replicas = tuple([nodes[(number + i) % len(nodes)] for i in range(count)])
            partition = SimPartition(name, number, replicas[0], 0, replicas)
            partition.log.begin_epoch(partition.epoch)
            partitions.append(partition)
        self.trace.note(f"topic {name} with {total} partitions")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and the committed offsets of groups for it."""
        del self.topics[name]
        self.coordination.forget_topic(name)
        self.trace.note(f"topic {name} is deleted")
        self.changed()

    def recreate_topic(self, name: str) -> SimTopic:
        """Delete a topic, and create one with the same name and number of partitions."""
        old = self.topics[name]
        self.delete_topic(name)
        return self.create_topic(
            name, len(old.partitions), internal=old.internal, replicas=old.replicas
        )

    def partition(self, tp: TopicPartition) -> SimPartition | None:
        """Return a partition, if it exists."""
        topic = self.topics.get(tp.topic)
        number: int = tp.partition
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def at(self, tp: TopicPartition) -> SimPartition:
        """Return a partition that exists.

        Raises:
            KeyError: The partition does not exist.
        """
        found = self.partition(tp)
        if found is None:
            raise KeyError(tp)
        return found

    def all_partitions(self) -> Iterable[SimPartition]:
        """Return the partitions of every topic."""
        return [p for topic in self.topics.values() for p in topic.partitions]

    def topic_named(self, name: str | None, topic_id: UUID | None) -> SimTopic | None:
        """Return a topic by its name, or without one by its id."""
        if name:
            return self.topics.get(name)
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)

    def produce(
        self,
        tp: TopicPartition,
        *values: bytes | None,
        keys: Sequence[bytes] = (),
        timestamp: int = -1,
        producer_id: int = -1,
    ) -> int:
        """Append records, with or without keys, as one batch; returns the offset of the first.

        With a producer id, they belong to its transaction; see `transaction`.
        """
        partition = self.at(tp)
        when = self.clock.wall_ms() if timestamp < 0 else timestamp
        base = partition.log.append(values, partition.epoch, when, keys, producer_id)
        self.changed()
        return base

    def move_leader(self, tp: TopicPartition, node_id: int, truncate_to: int | None = None) -> None:
        """Elect a leader; with `truncate_to`, an unclean election loses the records from there on.

        If the new leader was lagging, the records that it lacks are lost, too.
        """
        partition = self.at(tp)
        partition.leader = node_id
        partition.epoch += 1
        lacks_from = partition.lagging.pop(node_id, None)
        truncate_to = lacks_from if truncate_to is None else truncate_to
        if truncate_to is not None:
            partition.log.truncate(truncate_to)
        partition.log.begin_epoch(partition.epoch)
        self.trace.note(f"{tp.topic}-{tp.partition}: leader {node_id} epoch {partition.epoch}")
        self.changed()

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Drop the records before an offset, as retention and DeleteRecords do."""
        partition = self.at(tp)
        partition.log.delete_before(before)
        self.trace.note(f"{tp.topic}-{tp.partition}: begins at {partition.log.start_offset}")
        self.changed()

    def fall_behind(self, tp: TopicPartition, node_id: int) -> None:
        """Let a follower stop copying, so that it is no longer in sync.

        Raises:
            ValueError: The broker is the leader, or has no replica.
        """
        partition = self.at(tp)
        if node_id == partition.leader or node_id not in partition.replicas:
            msg = f"broker {node_id} is not a follower of {tp.topic}-{tp.partition}"
            raise ValueError(msg)
        partition.lagging[node_id] = partition.log.end_offset
        self.changed()

    def catch_up(self, tp: TopicPartition, node_id: int) -> None:
        """Let a lagging follower copy everything from its leader."""
        self.at(tp).lagging.pop(node_id, None)
        self.changed()

    def in_sync(self, partition: SimPartition) -> list[int]:
        """Return the replicas that are up and complete."""
        return [
            node_id
            for node_id in partition.replicas
            if self.brokers[node_id].up and node_id not in partition.lagging
        ]

    # --- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> ClassicGroup:
        """Return the members of a group under the classic protocol."""
        return self.coordination.of(group_id).classic

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the members of a KIP-848 group."""
        return self.coordination.of(group_id).consumer

    def configure_group(self, group_id: str, **changes: Any) -> None:
        """Change settings of a group: fields of `GroupSettings`."""
        self.coordination.of(group_id).configure(**changes)

    def expel(self, group_id: str, member_id: str) -> bool:
        """Let the coordinator remove a member, as after a session timeout.

        Returns:
            Whether there was a member with that id.
        """
        return self.coordination.expel(group_id, member_id)

    def _partition_counts(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self.topics.items()}

    def coordinator_of(self, group_id: str) -> int:
        """Return the coordinator of a group, -1 without one."""
        return self._coordinators.setdefault(group_id, next(iter(self.brokers)))

    def transaction_coordinator_of(self, transactional_id: str) -> int:
        """Return the coordinator of a transactional id, -1 without one."""
        serving = [node_id for node_id, broker in self.brokers.items() if broker.up]
        return serving[crc32(transactional_id.encode()) % len(serving)] if serving else NOBODY

    def _after(self, delay_ms: int, action: Callable[[], object]) -> None:
        self.network.at(self.clock.now_ms() + delay_ms, action)

    def orphan(self, group_id: str) -> None:
        """Leave a group without a coordinator until it moves to a broker.

        In Kafka, this is the case while its partition of the offsets topic has no leader.
        """
        self._place(group_id, NOBODY)

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Move a group to another broker, with its members and offsets in memory."""
        self._place(group_id, node_id)
        self.coordination.catch_up()

    def _place(self, group_id: str, node_id: int) -> None:
        self.trace.note(f"group {group_id}: coordinator {node_id}")
        self._coordinators[group_id] = node_id

    def fail_over(self, group_id: str, node_id: int, lost_records: int = 0) -> None:
        """Move a group to another broker, which loads it from the log; parked requests are lost.

        With `lost_records`, the last records of the log were not replicated: commits or members.
        """
        self._place(group_id, node_id)
        if lost_records:
            self.trace.note(f"group {group_id}: the last {lost_records} records are lost")
        self.coordination.take_over(group_id, lost_records)
        self.coordination.catch_up()

    def commit_in_transaction(
        self,
        group_id: str,
        producer_id: int,
        offsets: Mapping[TopicPartition, int | Commit],
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
    ) -> Any:
        """Commit in a transaction of a producer; applied when the transaction is committed.

        An offset may have a leader epoch and metadata with it. Member id, generation (or epoch) and
        instance id identify the member, if they are given.

        Returns:
            The class of the error, None if the commit was accepted.
        """
        request = CommitOffsets(
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
            producer_id=producer_id,
            offsets={tp: (it, -1, "") if isinstance(it, int) else it for tp, it in offsets.items()},
        )
        error = self.coordination.execute(group_id, request)
        if error is None:
            self._committed_for[group_id, producer_id] = member_id
        return error

    def end_transaction(self, group_id: str, producer_id: int, *, commit: bool = True) -> None:
        """End a transaction for a group: its commits are applied or dropped."""
        request = EndTransaction(producer_id=producer_id, committed=commit)
        applied = self.coordination.execute(group_id, request)
        member_id = self._committed_for.pop((group_id, producer_id), "")
        for tp, stored in applied.items():
            self.commit_log.append((tp, stored, member_id))
            self.trace.note(f"committed {tp.topic}-{tp.partition} at {stored[0]} in a transaction")

    def committed(self, group_id: str, tp: TopicPartition) -> int | None:
        """Return the committed offset, None without a commit."""
        commit = self.coordination.of(group_id).offsets.committed.get(tp)
        return None if commit is None else commit.offset

    # --- waiting -------------------------------------------------------------------------------

    def wait_for_change(self, again: Callable[[], bool], late_ms: int) -> None:
        """Call `again()` after each change, and at a time, until it returns True."""

        def late() -> None:
            if again() and again in self._waiting:
                self._waiting.remove(again)

        self._waiting.append(again)
        self.network.at(late_ms, late)

    def changed(self) -> None:
        """Note a change that a parked request may be waiting for."""
        waiting, self._waiting = self._waiting, []
        self._waiting = [again for again in waiting if not again()] + self._waiting
