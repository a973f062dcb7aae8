"""Members of a group assign the partitions themselves, by their capacity.

No released broker supports this part of KIP-848. So the example needs no broker: it runs on the
simulated cluster of `tandem_kafka_testing`, in simulated time, and ends after a second.

    pip install tandem-kafka
    python local_assignor.py
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.assignors import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka_testing import Simulation

PARTITIONS = 12
RECORDS = 1_000


class ByCapacity(PartitionAssignor):
    """Each member publishes its capacity, and learns the capacity of the whole group."""

    name = "by-capacity"

    def __init__(self, member: str, capacity: int) -> None:
        self.member = member
        self.capacity = capacity

    def metadata(self) -> bytes:
        """Return what the computing member sees of this one. A change starts a rebalance."""
        return str(self.capacity).encode()

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, MemberAssignment]:
        """Compute the assignment of the group. Runs in one member, on a thread of its own."""
        capacity = {member_id: int(member.metadata) for member_id, member in members.items()}
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic, count in topics.items():
            for number in range(count):
                least = min(capacity, key=lambda m: ((len(given[m]) + 1) / capacity[m], m))
                given[least].append(TopicPartition(topic, number))
        total = str(sum(capacity.values())).encode()
        return {member_id: MemberAssignment(given[member_id], total) for member_id in members}

    def on_assignment(self, assignment: MemberAssignment) -> None:
        """Receive this member's part. Runs in every member."""
        count, total = len(assignment.partitions), int(assignment.metadata)
        print(f"{self.member}: {count} partitions for {self.capacity} of {total}")


class Group:
    """The members, polled in turn."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.processed = 0

    def join(self, member: str, capacity: int) -> KafkaConsumer:
        """Return one more member."""
        return self._simulation.consumer(
            "numbers",
            group_id="example",
            group_protocol="consumer",
            group_local_assignors=[ByCapacity(member, capacity)],
            auto_offset_reset="earliest",
        )

    def poll(self, members: Collection[KafkaConsumer]) -> None:
        """Poll each member once."""
        self.processed += sum(member.poll(50).count for member in members)

    def poll_until(self, shares: Mapping[KafkaConsumer, int]) -> None:
        """Poll until each member has its share of the partitions."""
        while any(len(member.assignment()) != share for member, share in shares.items()):
            self.poll(shares)

    def poll_all(self, members: Collection[KafkaConsumer]) -> None:
        """Poll until every record is processed."""
        while self.processed < RECORDS:
            self.poll(members)


def main() -> None:
    """Run three members of different capacity, then close the largest."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C needs no clean end: nothing is open
    with Simulation(seed="local assignor") as simulation:
        simulation.cluster.create_topic("numbers", PARTITIONS)
        for number in range(RECORDS):
            partition = TopicPartition("numbers", number % PARTITIONS)
            simulation.cluster.produce(partition, str(number).encode())
        group = Group(simulation)
        small, medium, large = (
            group.join("small", 1),
            group.join("medium", 1),
            group.join("large", 4),
        )
        group.poll_until({small: 2, medium: 2, large: 8})
        print("large closes")
        large.close()
        group.poll_until({small: 6, medium: 6})
        group.poll_all([small, medium])
    print(f"processed {group.processed}")


if __name__ == "__main__":
    main()
