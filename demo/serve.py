"""The demo's cluster for other programs: `python -m demo.serve` runs it until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal

from demo.__main__ import BROKERS, TOPIC
from demo.cluster import PARTITIONS, Cluster

RECORDS = 1_000


def main() -> None:
    """Start the cluster, write numbers to a topic, and wait."""
    cluster = Cluster(BROKERS)
    cluster.create_topic(TOPIC)
    for number in range(RECORDS):
        cluster.producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    cluster.producer.flush(10)
    print(cluster.bootstrap, flush=True)
    print(f"topic {TOPIC!r} holds {RECORDS:,} records; Ctrl-C ends it", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    main()
