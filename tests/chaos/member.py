"""A member of a group in its own process; it reports its actions on standard output.

Each line is a JSON list: the time on a clock that all processes share, the action and its
arguments. The line of a record precedes its commit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    KafkaTimeoutError,
    RetriableCommitFailedError,
    WakeupError,
)
from tandem_kafka.testing.kafka.security import PASSWORD
from tests.chaos.proxy import FILLER

__all__ = ["PROTOCOLS"]

#: The groups and the options of their members.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {
        "group_protocol": "classic",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 1_000,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
    },
    "consumer": {"group_protocol": "consumer"},
}


#: What a commit may raise while its group or its coordinator changes.
COMMIT_ERRORS = (CommitFailedError, RetriableCommitFailedError, KafkaTimeoutError)


def report(what: str, *about: object) -> None:
    """Write a line at once, in one piece."""
    os.write(1, (json.dumps([time.monotonic(), what, *about]) + "\n").encode())


class ReportingListener:
    """A listener that reports its calls."""

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        report("assigned", sorted(tp.partition for tp in partitions))

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        report("revoked", sorted(tp.partition for tp in partitions))

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        report("lost", sorted(tp.partition for tp in partitions))


def take(consumer: KafkaConsumer) -> bool:
    """Poll once and report the records; returns whether there were any."""
    try:
        batch = consumer.poll(timeout_ms=200)
    except CorruptRecordError as error:
        report("corrupt", str(error))
        for tp in consumer.assignment():
            consumer.seek(tp, consumer.position(tp))  # fetch records damaged in transit again
        return False
    report_read(batch)
    return bool(batch)


def report_read(batch: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
    """Check records and report them."""
    for tp, records in batch.items():
        for record in records:
            if record.value.rstrip(FILLER) != b"%d" % record.offset:
                raise AssertionError(f"not what was written: {record}")
        report("read", tp.partition, records[0].offset, records[-1].offset, len(records))


def options_of(bootstrap: str, topic: str, protocol: str) -> dict[str, Any]:
    """Return the options of a member, except for commits."""
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "admin",
        "sasl_plain_password": PASSWORD,
        "group_id": f"{topic}-{protocol}",
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 500,
        "reconnect_backoff_max_ms": 1_000,
        "metadata_max_age_ms": 10_000,
        "bootstrap_timeout_ms": 60_000,
        **PROTOCOLS[protocol],
    }


def main(bootstrap: str, topic: str, protocol: str, commits: str) -> None:
    """Read until SIGTERM."""
    options = options_of(bootstrap, topic, protocol)
    consumer = KafkaConsumer(**options, enable_auto_commit=commits == "automatic")
    signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
    consumer.subscribe([topic], listener=ReportingListener())
    report("began")
    try:
        while True:
            if take(consumer) and commits == "by hand":
                try:
                    consumer.commit(timeout_ms=5_000)
                except COMMIT_ERRORS as error:
                    report("commit failed", type(error).__name__)
    except WakeupError:
        report("closing")
    consumer.close()
    report("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
