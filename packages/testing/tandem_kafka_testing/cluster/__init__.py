"""A small Kafka cluster in memory, which speaks the real protocol on a simulated network.

`broker.py` decodes the requests that `apis` answers, from `cluster_state.py` and the logs of the
partitions (`log.py`). Groups are in `tandem_kafka_testing.coordinator`.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from tandem_kafka_testing.cluster.call import CUT, DROP, Call
from tandem_kafka_testing.cluster.cluster import SimCluster

__all__ = ["CUT", "DROP", "Call", "SimCluster"]
