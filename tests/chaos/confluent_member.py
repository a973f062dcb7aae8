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


def take(consumer: Consumer, *, singly: bool) -> bool:
    """Read once and report the records; returns whether there were any."""
    one = consumer.poll(0.2) if singly else None
    messages = [one] if one is not None else [] if singly else consumer.consume(2_000, 0.2)
    offsets: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            handle(consumer, error)
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
    return bool(offsets)


def handle(consumer: Consumer, error: KafkaError) -> None:
    """Report an error; fetch records damaged in transit again."""
    report("error", error.name(), error.str())
    if error.fatal():
        raise KafkaException(error)
    if error == KafkaError._BAD_MSG:
        assigned = consumer.assignment()
        committed = consumer.committed(assigned, timeout=10)
        for read, resumed in zip(consumer.position(assigned), committed, strict=True):
            offset = max(read.offset, resumed.offset, 0) if read.offset < 0 else read.offset
            consumer.seek(TopicPartition(read.topic, read.partition, offset))


def noting(what: str) -> Any:
    """Return a callback that reports its partitions."""
    return lambda _, partitions: report(what, sorted(each.partition for each in partitions))


def main(bootstrap: str, topic: str, protocol: str, commits: str) -> None:
    """Read until SIGTERM."""
    consumer = Consumer(
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
        }
    )
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    consumer.subscribe(
        [topic],
        on_assign=noting("assigned"),
        on_revoke=noting("revoked"),
        on_lost=noting("lost"),
    )
    report("began")
    calls = 0
    while not ending:
        calls += 1
        if take(consumer, singly=calls % 3 == 0) and commits == "by hand":
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                report("commit failed", error.args[0].name())
    report("closing")
    consumer.close()
    report("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
