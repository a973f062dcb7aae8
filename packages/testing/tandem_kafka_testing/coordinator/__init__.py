"""The simulated coordinator of a group, for both protocols.

`coordinator.py` is a state machine without input and output. `classic*.py` and `kip848*.py` are the
protocols, `migration.py` converts a group, and `offsets.py` has the committed offsets.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
