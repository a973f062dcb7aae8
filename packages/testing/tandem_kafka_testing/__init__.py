"""A simulated Kafka for tests: no broker, no threads, no waiting, and the same run every time.

from tandem_kafka_testing import Simulation

def test_reads_everything():
    with Simulation(seed=1) as simulation:
        simulation.cluster.create_topic("orders")
        partition = TopicPartition("orders", 0)
        simulation.cluster.produce(partition, b"one", b"two")
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([partition])
        records = consumer.poll(1_000)[partition]

`simulation.py` puts the parts together: `cluster`, `coordinator`, and network, time and threads.
The fixtures for pytest are in `pytest_plugin`. pytest imports it in every project, so this module
imports a name when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tandem_kafka_testing.clock import SimClock
    from tandem_kafka_testing.cluster import CUT, DROP, Call, SimCluster
    from tandem_kafka_testing.driver import SteppedDriver
    from tandem_kafka_testing.network import Conditions, SimNetwork, SimTransport
    from tandem_kafka_testing.scheduler import LivelockError, Scheduler
    from tandem_kafka_testing.simulation import Simulation, simulated_consumer

__all__ = [
    "CUT",
    "DROP",
    "Call",
    "Conditions",
    "LivelockError",
    "Scheduler",
    "SimClock",
    "SimCluster",
    "SimNetwork",
    "SimTransport",
    "Simulation",
    "SteppedDriver",
    "simulated_consumer",
]

#: The module of each name.
_HOMES: Final = {
    "CUT": "tandem_kafka_testing.cluster",
    "Call": "tandem_kafka_testing.cluster",
    "Conditions": "tandem_kafka_testing.network",
    "DROP": "tandem_kafka_testing.cluster",
    "LivelockError": "tandem_kafka_testing.scheduler",
    "Scheduler": "tandem_kafka_testing.scheduler",
    "SimClock": "tandem_kafka_testing.clock",
    "SimCluster": "tandem_kafka_testing.cluster",
    "SimNetwork": "tandem_kafka_testing.network",
    "SimTransport": "tandem_kafka_testing.network",
    "Simulation": "tandem_kafka_testing.simulation",
    "SteppedDriver": "tandem_kafka_testing.driver",
    "simulated_consumer": "tandem_kafka_testing.simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
