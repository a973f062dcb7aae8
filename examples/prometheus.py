"""Export the consumer's metrics to Prometheus.

Run it with Python 3.11 or newer, after `pip install 'tandem-kafka[prometheus]'`:

    python examples/prometheus.py --bootstrap localhost:9092 --topic numbers --port 9100
"""

from __future__ import annotations

from arguments import parser
from prometheus_client import REGISTRY, start_http_server
from stopping import Stop

from tandem_kafka import KafkaConsumer
from tandem_kafka.prometheus import ConsumerCollector


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
