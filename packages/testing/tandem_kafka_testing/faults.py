"""Faults of brokers and connections of a simulated cluster; what is not given is drawn.

The faults only depend on the random numbers, so the same seed causes the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.network import Address

__all__ = ["ClusterFaults"]

#: Requests that quotas throttle; those in the list twice are drawn twice as often.
_THROTTLED = (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)


class ClusterFaults:
    """Causes faults of a cluster, for clients in any language.

    Without a broker that is up, a topic or a group to choose from, a fault has no effect.
    Arguments are the id of a broker (from 1), the names of a topic and a group, the number of a
    partition, and times in milliseconds.
    """

    def __init__(self, cluster: SimCluster, random: Random) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._random = random

    def heal(self) -> None:
        """End all faults; stopped and paused brokers continue."""
        self._network.heal()
        for node_id, broker in self._cluster.brokers.items():
            if broker.paused:
                self._cluster.resume(node_id)
            if not broker.up:
                self._cluster.start(node_id)
            broker.quotas.lift()

    # --- what to choose from -------------------------------------------------------------------

    def _partitions(self) -> Sequence[TopicPartition]:
        partitions = self._cluster.all_partitions()
        return [TopicPartition(each.topic, each.number) for each in partitions]

    def _groups(self) -> Sequence[str]:
        return sorted(self._cluster.coordination.coordinators)

    def _group(self, given: str | None) -> str | None:
        groups = self._groups() if given is None else (given,)
        return self._random.choice(groups) if len(groups) > 1 else next(iter(groups), None)

    def _up(self, given: int | None = None) -> int | None:
        """Return the broker that is given, or one that is up."""
        up = [broker.node_id for broker in self._cluster.brokers.values() if broker.up]
        return self._chosen(given, up)

    def _broker(self, given: int | None) -> int:
        node_id = self._chosen(given, list(self._cluster.brokers))
        if node_id is None:
            raise ValueError("the cluster has no brokers")
        return node_id

    def _chosen(self, given: int | None, brokers: Sequence[int]) -> int | None:
        if given is None:
            return self._random.choice(brokers) if brokers else None
        if given not in self._cluster.brokers:
            known = ", ".join(map(str, self._cluster.brokers))
            raise ValueError(f"broker={given}: the cluster has no such broker, but {known}")
        return given

    def _address(self, broker: int | None = None) -> Address:
        return self._cluster.brokers[self._broker(broker)].address

    def _partition(self, topic: str | None, partition: int | None) -> TopicPartition | None:
        found = [
            tp
            for tp in self._partitions()
            if topic in {None, tp.topic} and partition in {None, tp.partition}
        ]
        if not found and topic is not None:
            which = "" if partition is None else f" {partition}"
            raise ValueError(f"topic={topic!r}: the cluster has no such topic or partition{which}")
        return self._random.choice(found) if found else None

    def _after(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._network.at(self._network.clock.now_ms() + delay_ms, action)

    # --- brokers -------------------------------------------------------------------------------

    def crash(
        self, *, broker: int | None = None, elect: bool | None = None, for_ms: int | None = None
    ) -> None:
        """A broker crashes, usually with new leaders for its partitions; one must remain.

        Args:
            broker: The broker.
            elect: Whether other brokers take over its partitions and groups.
            for_ms: When it starts again; None for never.
        """
        up = [each.node_id for each in self._cluster.brokers.values() if each.up]
        if len(up) == 1 and broker is None:
            return
        node_id = self._chosen(broker, up)
        if node_id is None or node_id not in up:
            return
        self._cluster.stop(node_id, elect=self._random.random() < 0.7 if elect is None else elect)
        if for_ms is not None:
            self._after(for_ms, lambda: self._cluster.start(node_id))

    def restart(self, *, broker: int | None = None) -> None:
        """A crashed broker starts again."""
        down = [each.node_id for each in self._cluster.brokers.values() if not each.up]
        node_id = self._chosen(broker, down)
        if node_id in down:
            self._cluster.start(node_id)

    def pause(self, *, broker: int | None = None, for_ms: int | None = None) -> None:
        """The process of a broker is stopped (SIGSTOP), and handles everything later."""
        node_id = self._up(broker)
        if node_id is None or self._cluster.brokers[node_id].paused:
            return
        self._cluster.pause(node_id)

        def resume() -> None:
            if self._cluster.brokers[node_id].paused:
                self._cluster.resume(node_id)

        self._after(self._duration_ms(for_ms, 500, 4_000, 12_000), resume)

    def throttle(self, *, broker: int | None = None, for_ms: int | None = None) -> None:
        """A broker throttles three of the next requests."""
        quotas = self._cluster.brokers[self._broker(broker)].quotas
        times_ms = [self._duration_ms(for_ms, 50, 700, 3_000) for _ in range(3)]
        quotas.throttle(self._random.choice(_THROTTLED), *times_ms)

    def _duration_ms(self, given: int | None, *usual: int) -> int:
        return self._random.choice(usual) if given is None else given

    # --- partitions ----------------------------------------------------------------------------

    def lead(
        self, *, topic: str | None = None, partition: int | None = None, broker: int | None = None
    ) -> None:
        """A partition gets another leader."""
        tp = self._partition(topic, partition)
        node_id = self._up(broker)
        if tp is not None and node_id is not None:
            self._cluster.move_leader(tp, node_id)

    def expire(self, *, topic: str | None = None, partition: int | None = None) -> None:
        """Retention drops the oldest records of a partition, read or not."""
        tp = self._partition(topic, partition)
        if tp is not None:
            log = self._cluster.at(tp).log
            before = self._random.randint(log.start_offset, log.last_stable_offset)
            self._cluster.delete_records(tp, before)

    # --- groups --------------------------------------------------------------------------------

    def coordinate(self, *, group: str | None = None, broker: int | None = None) -> None:
        """A group moves to another coordinator, with its state in memory."""
        group_id, node_id = self._group(group), self._up(broker)
        if group_id is not None and node_id is not None:
            self._cluster.move_coordinator(group_id, node_id)

    def fail_over(self, *, group: str | None = None, broker: int | None = None) -> None:
        """A group fails over to another coordinator, which reads the log."""
        group_id, node_id = self._group(group), self._up(broker)
        if group_id is not None and node_id is not None:
            self._cluster.fail_over(group_id, node_id)

    def orphan(
        self, *, group: str | None = None, broker: int | None = None, for_ms: int | None = None
    ) -> None:
        """A group has no coordinator for a while; the next one reads the log."""
        group_id, node_id = self._group(group), self._up(broker)
        if group_id is not None and node_id is not None:
            self._cluster.orphan(group_id)
            delay_ms = self._duration_ms(for_ms, 500, 3_000, 9_000)
            self._after(delay_ms, lambda: self._adopt(group_id, node_id))

    def _adopt(self, group_id: str, node_id: int) -> None:
        if self._cluster.coordinator_of(group_id) not in self._cluster.brokers:
            self._cluster.fail_over(group_id, node_id)

    def expel(self, *, group: str | None = None) -> None:
        """The coordinator removes a member, as after a session timeout."""
        name = self._group(group)
        if name is None:
            return
        number = self._random.randrange(3)
        for members in (
            self._cluster.group(name).members,
            self._cluster.consumer_group(name).members,
        ):
            ids = sorted(members)
            if len(ids) > number:
                self._cluster.expel(name, ids[number])

    # --- connections ---------------------------------------------------------------------------

    def cut(self, *, broker: int | None = None) -> None:
        """Every connection to a broker is cut."""
        self._network.cut(self._address(broker))

    def slow_down(self, *, broker: int | None = None, by_ms: int | None = None) -> None:
        """A broker gets a high latency, until `reunite`."""
        delay_ms = self._duration_ms(by_ms, 50, 400, 2_000)
        self._network.slow[self._address(broker)] = delay_ms

    def silence(self, *, broker: int | None = None, for_ms: int | None = None) -> None:
        """Everything to and from a broker is lost for a while; connections stay open."""
        address = self._address(broker)
        self._network.silent.add(address)
        delay_ms = self._duration_ms(for_ms, 500, 4_000, 12_000)
        self._after(delay_ms, lambda: self._network.silent.discard(address))

    def reunite(self) -> None:
        """Unreachable and slow brokers recover."""
        self._network.partitions.clear()
        self._network.slow.clear()
