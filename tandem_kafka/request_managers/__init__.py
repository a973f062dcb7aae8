"""Request managers: one state machine per subject, which the loop polls for requests.

`base.py` is their interface, `exchange.py` brings the outcome of each request, and `reactions.py`
has the tables of errors. `fetching`, `membership` and `telemetry` are folders; the other modules
find positions, commit, and keep metadata and coordinator current.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
