"""The application thread: `KafkaConsumer` and its parts.

`consumer.py` and the `*_methods.py` are the facade, `parts.py` puts together what is behind it.
`poller.py` is the loop of `poll()`, `fetch_collector.py` takes records from the fetch buffer, and
`core.py` sends events to the network thread and waits for them. `share/` has `ShareConsumer`, and
`aio/` both consumers for asyncio.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
