"""Export the consumer's metrics to Prometheus.

Run it with Python 3.11 or newer, after `pip install tandem-kafka prometheus-client`:

    python examples/prometheus.py --bootstrap localhost:9092 --topic numbers --port 9100
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from arguments import parser
from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from stopping import Stop

from tandem_kafka import KafkaConsumer

#: Beginnings of names: of the consumer, of a topic, of a partition.
PREFIXES = {0: "kafka_consumer", 1: "kafka_consumer_topic", 2: "kafka_consumer_partition"}


class ConsumerCollector(Collector):
    """Reads `consumer.metrics()` when Prometheus asks. Any thread may call that method."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def collect(self) -> Iterable[Metric]:
        """Return a family for each metric: of the consumer, its topics and its partitions."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for metric, measured in self._consumer.metrics(raw=True).items():
            value = measured.value()
            if ".node-" in metric.group or not math.isfinite(value):
                continue  # per broker; or the maximum of nothing
            places = [tag for tag in ("topic", "partition") if tag in metric.tags]
            labels = ["client-id", *places]
            name = f"{PREFIXES[len(places)]}_{metric.name.replace('-', '_')}"
            if name not in families:
                family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                names = [label.replace("-", "_") for label in labels]
                families[name] = family(name, metric.description or metric.name, labels=names)
            families[name].add_metric([metric.tags[label] for label in labels], value)
        return families.values()


def main() -> None:
    """Read, while a thread of prometheus_client answers requests."""
    options = parser(__doc__)
    options.add_argument("--port", type=int, default=9100, help="0 takes a free one")
    arguments = options.parse_args()
    stop = Stop(arguments.stop_after)
    read = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
    ) as consumer:
        REGISTRY.register(ConsumerCollector(consumer))
        server, thread = start_http_server(arguments.port, addr="127.0.0.1")
        print(f"http://127.0.0.1:{server.server_port}/metrics", flush=True)
        while not stop.due(read):
            read += consumer.poll(timeout_ms=1_000).count
        server.shutdown()
        thread.join()
        server.server_close()
    print(f"read {read}")


if __name__ == "__main__":
    main()
