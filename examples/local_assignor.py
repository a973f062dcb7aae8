"""Members share out the partitions themselves: who has more room gets more of them.

No released broker lets members compute the assignment of their group (KIP-848 as it was proposed),
so this brings its own: the simulated cluster of `tandem_kafka.testing`, in simulated time.

    python examples/local_assignor.py
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.assignors import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.testing import Simulation

PARTITIONS = 12
RECORDS = 1_000


class ByCapacity(PartitionAssignor):
    """Each member says how much it can take, and is told how much all can."""

    name = "by-capacity"

    def __init__(self, who: str, capacity: int) -> None:
        self.who = who
        self.capacity = capacity

    def metadata(self) -> bytes:
        """Goes to the member that computes. Something new has the group assigned anew."""
        return str(self.capacity).encode()

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, MemberAssignment]:
        """Runs in one member of the group, on its network thread: be quick."""
        room = {member_id: int(each.metadata) for member_id, each in members.items()}
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic, count in topics.items():
            for number in range(count):
                emptiest = min(room, key=lambda m: ((len(given[m]) + 1) / room[m], m))
                given[emptiest].append(TopicPartition(topic, number))
        total = str(sum(room.values())).encode()
        return {member_id: MemberAssignment(given[member_id], total) for member_id in members}

    def on_assignment(self, assignment: MemberAssignment) -> None:
        """Runs in every member, with what was handed to it."""
        has, total = len(assignment.partitions), int(assignment.metadata)
        print(f"{self.who}: {has} partitions for {self.capacity} of {total}")


def join(simulation: Simulation, who: str, capacity: int) -> KafkaConsumer:
    """Return one more member."""
    return simulation.consumer(
        "numbers",
        group_id="example",
        group_protocol="consumer",
        group_local_assignors=[ByCapacity(who, capacity)],
        auto_offset_reset="earliest",
    )


def poll_until(members: Mapping[KafkaConsumer, int]) -> int:
    """Poll until each member has as many partitions as that; returns how many records came."""
    processed = 0
    while any(len(member.assignment()) != share for member, share in members.items()):
        processed += poll(members)
    return processed


def poll(members: Collection[KafkaConsumer]) -> int:
    """Poll each member once; returns how many records came."""
    return sum(len(batch) for member in members for batch in member.poll(50).values())


def main() -> None:
    """Three members of different capacity; then the one that has most of it goes."""
    with Simulation(seed="local assignor") as simulation:
        simulation.cluster.create_topic("numbers", PARTITIONS)
        for number in range(RECORDS):
            partition = TopicPartition("numbers", number % PARTITIONS)
            simulation.cluster.produce(partition, str(number).encode())
        small, other, big = (
            join(simulation, who, capacity)
            for who, capacity in (("small", 1), ("other", 1), ("big", 4))
        )
        processed = poll_until({small: 2, other: 2, big: 8})
        print("big goes")
        big.close()
        processed += poll_until({small: 6, other: 6})
        while processed < RECORDS:
            processed += poll([small, other])
        print(f"processed {processed}")


if __name__ == "__main__":
    main()
