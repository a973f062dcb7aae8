"""A simulated Kafka for tests: no broker, no threads, no waiting, and the same every time.

from tandem_kafka.testing import Simulation

def test_reads_everything():
    with Simulation(seed=1) as simulation:
        simulation.cluster.create_topic("orders")
        partition = TopicPartition("orders", 0)
        simulation.cluster.produce(partition, b"one", b"two")
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([partition])
        records = consumer.poll(1_000)[partition]

Stories of whole groups under faults are in `stories`, fixtures for pytest in `pytest_plugin`.
"""

from __future__ import annotations

from tandem_kafka.testing.clock import SimClock
from tandem_kafka.testing.cluster import CUT, DROP, Call, SimCluster
from tandem_kafka.testing.driver import SteppedDriver
from tandem_kafka.testing.lockstep import DeadlockError, Lockstep, LockstepLock
from tandem_kafka.testing.network import Conditions, SimNetwork, SimTransport
from tandem_kafka.testing.scheduler import LivelockError, Scheduler
from tandem_kafka.testing.simulation import Simulation, simulated_consumer

__all__ = [
    "CUT",
    "DROP",
    "Call",
    "Conditions",
    "DeadlockError",
    "LivelockError",
    "Lockstep",
    "LockstepLock",
    "Scheduler",
    "SimClock",
    "SimCluster",
    "SimNetwork",
    "SimTransport",
    "Simulation",
    "SteppedDriver",
    "simulated_consumer",
]
