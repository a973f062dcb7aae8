"""Auto-commit before revocations, and in close()."""

from __future__ import annotations

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.simulation.readers import OPTIONS, Readers, filled

#: No auto-commit is due before.
SELDOM = {"auto_commit_interval_ms": 3_600_000}
PROTOCOLS = ["classic", "consumer"]


class Witness:
    """Records the committed offsets when partitions are revoked."""

    def __init__(self, simulation: Simulation) -> None:
        self._cluster = simulation.cluster
        self.committed: dict[TopicPartition, int | None] = {}

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None: ...

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        for tp in partitions:
            self.committed[tp] = self._cluster.committed(OPTIONS["group_id"], tp)


def read_all(readers: Readers, witness: Witness, protocol: str) -> KafkaConsumer:
    """Return a member that has read five records of each of four partitions."""
    member = readers.join(witness, group_protocol=protocol, **SELDOM)  # type: ignore[arg-type]
    readers.settle()
    assert all(member.position(tp) == 5 for tp in readers.partitions)
    committed = (
        readers.simulation.cluster.committed(OPTIONS["group_id"], tp) for tp in readers.partitions
    )
    assert not any(committed), "nothing is due yet"
    return member


@pytest.mark.behaviour(72)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_returned_records_are_committed_before_a_revocation(protocol: str) -> None:
    with Simulation(72) as simulation:
        readers = Readers(simulation, filled(simulation, partitions=4, count=5))
        witness = Witness(simulation)
        read_all(readers, witness, protocol)
        readers.join(group_protocol=protocol, **SELDOM)
        readers.settle()
        assert witness.committed
        assert set(witness.committed.values()) == {5}


@pytest.mark.behaviour(103)
@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_returned_records_are_committed_when_a_consumer_leaves(protocol: str, how: str) -> None:
    with Simulation(103) as simulation:
        readers = Readers(simulation, filled(simulation, partitions=4, count=5))
        witness = Witness(simulation)
        member = read_all(readers, witness, protocol)
        getattr(member, how)()
        assert witness.committed == dict.fromkeys(readers.partitions, 5)
