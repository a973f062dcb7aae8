"""The wire protocol: messages, their encoding, and the choice of their versions.

`messages.py` has all messages: those of kafka-python, and ours (`*.json`). `fetch_request.py` is a
faster encoding of the most frequent one.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
