"""The consumer's process: read, report each step as a line of JSON, commit once a second."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from types import FrameType

from tandem_kafka import KafkaConsumer

_COMMIT_EVERY_S = 1.0


class Consume:
    """One member of the group, until it is told to end or is killed."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._ending = False
        self._owned: list[int] = []
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            # The built-in cluster offers JoinGroup version 6 but reads it as if it were 5.
            api_version=(2, 3),
            # The built-in cluster forgets a dead member of the classic protocol after this time.
            group_protocol="classic",
            session_timeout_ms=3000,
            heartbeat_interval_ms=500,
        )
        self._consumer.subscribe([topic])

    def end(self, _number: int, _frame: FrameType | None) -> None:
        """Signal handler: leave the loop after this turn."""
        self._ending = True

    def run(self) -> None:
        """Read and commit; leave the group in order at the end."""
        next_commit = time.monotonic() + _COMMIT_EVERY_S
        while not self._ending:
            self._read()
            if time.monotonic() >= next_commit:
                self._commit()
                next_commit = time.monotonic() + _COMMIT_EVERY_S
        self._commit()
        self._consumer.close()
        _report(closed=True)

    def _read(self) -> None:
        batches = self._consumer.poll(timeout_ms=100)
        owned = sorted(each.partition for each in self._consumer.assignment())
        if owned != self._owned:
            self._owned = owned
            _report(owns=owned)
        for partition, records in batches.items():
            _report(
                read=partition.partition,
                offset=records[0].offset,
                numbers=[int(record.value) for record in records],
            )
        if not batches:
            _report(idle=True)  # also finds out whether anybody still listens

    def _commit(self) -> None:
        if not self._owned:
            return
        self._consumer.commit()
        offsets = {
            each.partition: self._consumer.committed(each) for each in self._consumer.assignment()
        }
        _report(committed={number: offset or 0 for number, offset in offsets.items()})


def _report(**entry: object) -> None:
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run as `python -m demo.consume`."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "group", "topic"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    consume = Consume(arguments.bootstrap, arguments.group, arguments.topic)
    signal.signal(signal.SIGTERM, consume.end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demo, which then ends us
    with contextlib.suppress(BrokenPipeError):  # the demo is gone: nobody to read for
        consume.run()


if __name__ == "__main__":
    main()
