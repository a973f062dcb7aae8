"""A member as `tests.chaos.member` is one, with the consumer of `tandem_kafka.confluent`."""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tandem_kafka.confluent import Consumer
from tandem_kafka.testing.kafka.security import PASSWORD
from tests.chaos.member import report
from tests.chaos.proxy import FILLER

_PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
        "partition.assignment.strategy": "cooperative-sticky",
    },
    "consumer": {"group.protocol": "consumer"},
}


class Member:
    """A consumer, and how far it has read each partition since it was assigned.

    The position is unknown after a seek until a message comes, also when the next damage is
    reported before that.
    """

    def __init__(self, options: dict[str, Any], topic: str) -> None:
        self.consumer = Consumer(options)
        self._reached: dict[int, int] = {}
        self.consumer.subscribe(
            [topic],
            on_assign=self._noting("assigned"),
            on_revoke=self._noting("revoked"),
            on_lost=self._noting("lost"),
        )

    def _noting(self, what: str) -> Any:
        """Return a callback that reports its partitions, which begin or end."""

        def note(_: Consumer, partitions: list[TopicPartition]) -> None:
            report(what, sorted(each.partition for each in partitions))
            for each in partitions:
                self._reached.pop(each.partition, None)

        return note

    def take(self, *, singly: bool) -> bool:
        """Read once and report the records; returns whether there were any."""
        one = self.consumer.poll(0.2) if singly else None
        messages = [one] if one is not None else [] if singly else self.consumer.consume(2_000, 0.2)
        offsets: dict[int, list[int]] = defaultdict(list)
        errors: list[KafkaError] = []
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                errors.append(error)
                continue
            value = message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            if value.rstrip(FILLER) != b"%d" % offset:
                raise AssertionError(f"not what was written: {partition}, {offset}")
            offsets[partition].append(offset)
        for number, read in offsets.items():
            report("read", number, read[0], read[-1], len(read))
            self._reached[number] = read[-1] + 1
        for error in errors:
            self._handle(error)
        return bool(offsets)

    def _handle(self, error: KafkaError) -> None:
        """Report an error; fetch records damaged in transit again."""
        report("error", error.name(), error.str())
        if error.fatal():
            raise KafkaException(error)
        if error == KafkaError._BAD_MSG:
            for each in self.consumer.committed(self.consumer.assignment(), timeout=10):
                offset = self._reached.get(each.partition, max(each.offset, 0))
                self.consumer.seek(TopicPartition(each.topic, each.partition, offset))


def main(bootstrap: str, topic: str, protocol: str, commits: str) -> None:
    """Read until SIGTERM."""
    member = Member(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": PASSWORD,
            "group.id": f"{topic}-{protocol}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commits == "automatic",
            "auto.commit.interval.ms": 500,
            "reconnect.backoff.max.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 10_000,
            **_PROTOCOLS[protocol],
        },
        topic,
    )
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    report("began")
    calls = 0
    while not ending:
        calls += 1
        if member.take(singly=calls % 3 == 0) and commits == "by hand":
            try:
                member.consumer.commit(asynchronous=False)
            except KafkaException as error:
                report("commit failed", error.args[0].name())
    report("closing")
    member.consumer.close()
    report("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
