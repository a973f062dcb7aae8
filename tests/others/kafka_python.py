"""kafka-python's own tests: which of them, and those that are left out."""

from __future__ import annotations

from typing import Final

from tests.others.suite import LeftOut, Suite

__all__ = ["SUITE"]

_CONSUMER: Final = "test/integration/test_consumer_integration.py"
_PRODUCER: Final = "test/integration/test_producer_integration.py"
_ADMIN: Final = "test/integration/test_admin_integration.py"
_SASL: Final = "test/integration/test_sasl_integration.py"

SUITE: Final = Suite(
    "kafka-python",
    {_CONSUMER: 17, _PRODUCER: 9, _ADMIN: 4, _SASL: 3},
    {
        f"{_CONSUMER}::test_kafka_consumer_unsupported_encoding": LeftOut(
            "expects an error if the library for gzip is missing, which is not needed here"
        ),
        f"{_CONSUMER}::test_group": LeftOut(
            "reads `_coordinator.heartbeat`, after its checks of the assignment"
        ),
        f"{_CONSUMER}::test_heartbeat_thread": LeftOut(
            "reads `_coordinator.state` and `_coordinator.heartbeat`"
        ),
        f"{_CONSUMER}::test_kafka_consumer_offsets_for_time_old": LeftOut(
            "is for brokers before 0.10.1, and skipped"
        ),
        f"{_ADMIN}::test_delete_records": LeftOut(
            "expects the records of six partitions from the first `poll()`", sometimes=True
        ),
    },
)
