"""A consumer with the options and the events of Kafka's VerifiableConsumer."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tandem_kafka import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from tandem_kafka.errors import FencedInstanceIdError, KafkaError, WakeupError

#: The classes of Java's assignors, by which the system tests name them.
_JAVA = "org.apache.kafka.clients.consumer."
_ASSIGNORS = {
    f"{_JAVA}RangeAssignor": "range",
    f"{_JAVA}RoundRobinAssignor": "roundrobin",
    f"{_JAVA}StickyAssignor": "sticky",
    f"{_JAVA}CooperativeStickyAssignor": "cooperative-sticky",
}
_POLL_MS = 1_000


def emit(name: str, **fields: object) -> None:
    """Write an event at once, in one piece."""
    event = {"timestamp": int(time.time() * 1_000), "name": name, **fields}
    os.write(1, (json.dumps(event) + "\n").encode())


def for_events(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    """Return partitions as they are written in events."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


class Listener(ConsumerRebalanceListener):
    """Writes an event for each callback; Java's listener gets lost partitions as revoked ones."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Write the new partitions."""
        emit("partitions_assigned", partitions=for_events(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Write the revoked partitions."""
        emit("partitions_revoked", partitions=for_events(revoked))


class VerifiableConsumer:
    """Reads a topic in a group, and commits each batch unless commits are automatic."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._topic = chosen.topic
        self._left = chosen.max_messages
        self._verbose = chosen.verbose
        self._commits = not chosen.enable_autocommit
        self.consumer = KafkaConsumer(**_options(chosen))

    def run(self) -> None:
        """Read until a signal, or until there are enough records."""
        emit("startup_complete")
        try:
            self.consumer.subscribe([self._topic], listener=Listener())
            while self._left != 0:
                offsets = self._take(self.consumer.poll(_POLL_MS))
                if self._commits and offsets:
                    self._commit(offsets)
        except WakeupError:
            pass
        except KafkaError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            self.consumer.close()
            emit("shutdown_complete")

    def _take(
        self, batch: Mapping[TopicPartition, Sequence[ConsumerRecord]]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Write events for records; returns the offsets behind them."""
        offsets, summaries, count = {}, [], 0
        for tp, found in batch.items():
            records = found if self._left < 0 else found[: self._left]
            if not records:
                break
            self._left -= len(records) if self._left > 0 else 0
            count += len(records)
            first, last = records[0].offset, records[-1].offset
            offsets[tp] = OffsetAndMetadata(last + 1, "", -1)
            where = {"topic": tp.topic, "partition": tp.partition, "count": len(records)}
            summaries.append({**where, "minOffset": first, "maxOffset": last})
            for record in records if self._verbose else ():
                emit(
                    "record_data",
                    key=_text(record.key),
                    value=_text(record.value),
                    topic=tp.topic,
                    partition=tp.partition,
                    offset=record.offset,
                )
        if count:
            emit("records_consumed", count=count, partitions=summaries)
        return offsets

    def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        written = [
            {"topic": tp.topic, "partition": tp.partition, "offset": each.offset}
            for tp, each in offsets.items()
        ]
        try:
            self.consumer.commit(offsets)
        except WakeupError:
            self._commit(offsets)  # a signal: there is no second one
            raise
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            emit("offsets_committed", offsets=written, error=str(error), success=False)
        else:
            emit("offsets_committed", offsets=written, success=True)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _options(chosen: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": chosen.bootstrap_server,
        "group_id": chosen.group_id,
        "group_instance_id": chosen.group_instance_id,
        "auto_offset_reset": chosen.reset_policy,
        "enable_auto_commit": chosen.enable_autocommit,
        "group_protocol": chosen.group_protocol.lower(),
    }
    if options["group_protocol"] == "consumer":
        options["group_remote_assignor"] = chosen.group_remote_assignor
    else:
        names = chosen.assignment_strategy.split(",")
        options["partition_assignment_strategy"] = [_ASSIGNORS.get(name, name) for name in names]
        options["session_timeout_ms"] = chosen.session_timeout
    return options


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m tests.verifiable_consumer", description=__doc__)
    made.add_argument("--bootstrap-server", "--broker-list", required=True)
    made.add_argument("--topic", required=True)
    made.add_argument("--group-id", required=True)
    made.add_argument("--group-protocol", default="classic")
    made.add_argument("--group-remote-assignor")
    made.add_argument("--group-instance-id")
    made.add_argument("--max-messages", type=int, default=-1)
    made.add_argument("--session-timeout", type=int, default=30_000)
    made.add_argument("--verbose", action="store_true")
    made.add_argument("--enable-autocommit", action="store_true")
    made.add_argument("--reset-policy", default="earliest")
    made.add_argument("--assignment-strategy", default="range")
    return made


def main() -> None:
    """Run the program; SIGTERM and Ctrl-C end it."""
    program = VerifiableConsumer(parser().parse_args())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: program.consumer.wakeup())
    program.run()


if __name__ == "__main__":
    main()
