"""The application thread: `KafkaConsumer` and its parts.

Read `methods/` first, which users call; then `parts.py`, which puts together what is behind it, and
`core.py`, which sends events to the network thread and waits for them; then `reading/`, the way of
records, and `closing.py`. `share/` has `ShareConsumer`, and `aio/` both consumers for asyncio.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
