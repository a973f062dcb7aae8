"""A member's process: read, report each step as a line of JSON, commit once a second."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Collection
from types import FrameType

from tandem_kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from tandem_kafka.errors import CommitFailedError
from tandem_kafka_cli.demo.cluster import SESSION_TIMEOUT_MS

_COMMIT_EVERY_S = 1.0


class Consume(ConsumerRebalanceListener):
    """One member of the group, until SIGTERM or SIGKILL."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._ending = False
        self._owned: list[int] = []
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=500,
            # Cooperative: a member keeps reading the partitions that it keeps.
            partition_assignment_strategy=["cooperative-sticky"],
        )
        self.consumer.subscribe([topic], listener=self)

    def end(self, _number: int, _frame: FrameType | None) -> None:
        """Signal handler: leave the loop after this iteration."""
        self._ending = True

    def run(self) -> None:
        """Read and commit; leave the group at the end."""
        next_commit = time.monotonic() + _COMMIT_EVERY_S
        while not self._ending:
            self.read()
            if time.monotonic() >= next_commit:
                self._commit()
                next_commit = time.monotonic() + _COMMIT_EVERY_S
        self.consumer.close()  # `on_partitions_revoked` commits
        _report(closed=True)

    def on_partitions_assigned(self, _assigned: Collection[TopicPartition]) -> None:
        """Report all partitions owned, the new ones included."""
        self._report_owned(set())

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit, so that the next owner continues here."""
        self._commit()
        self._report_owned(set(revoked))

    def _report_owned(self, without: set[TopicPartition]) -> None:
        owned = sorted(each.partition for each in self.consumer.assignment() - without)
        if owned != self._owned:
            self._owned = owned
            _report(owns=owned)

    def read(self) -> None:
        """Poll once, and report the records."""
        batches = self.consumer.poll(timeout_ms=100)
        for partition, records in batches.items():
            _report(
                read=partition.partition,
                offset=records[0].offset,
                numbers=[int(record.value or b"") for record in records],
            )
        if not batches:
            _report(idle=True)  # fails if the demo has ended

    def _commit(self) -> None:
        mine = self.consumer.assignment()
        if not mine:
            return
        try:
            self.consumer.commit()
        except CommitFailedError:  # during a rebalance; the next commit covers these records
            return
        offsets = {each.partition: self.consumer.committed(each) for each in mine}
        _report(committed={number: offset or 0 for number, offset in offsets.items()})


def _report(**entry: object) -> None:
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


def main(make: type[Consume] = Consume) -> None:
    """Run as `python -m tandem_kafka_cli.demo.consume`."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "group", "topic"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    consume = make(arguments.bootstrap, arguments.group, arguments.topic)
    signal.signal(signal.SIGTERM, consume.end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo handles Ctrl-C and ends its members
    with contextlib.suppress(BrokenPipeError):  # the demo has ended
        consume.run()


if __name__ == "__main__":
    main()
