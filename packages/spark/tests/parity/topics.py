"""The topics of the combinations: the same records, offsets and timestamps on every cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.waiting import wait_until

__all__ = ["BASE_MS", "PREFIX", "SECOND_MS", "Topics", "numbered"]

#: All names begin with it; outcomes leave it out.
PREFIX: Final = "parity-"
#: The timestamp of the first record of a topic; each next one is a second later.
BASE_MS: Final = 1_700_000_000_000
SECOND_MS: Final = 1_000
#: The timestamps are years old, and nothing may be deleted for that.
_KEPT: Final = {"retention.ms": "-1"}
_TIMEOUT_S: Final = 60.0
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
#: The records of the compacted topic, and how many of them the log cleaner leaves.
_COMPACTED: Final = 57
_LEFT: Final = 18


@dataclass(frozen=True)
class _Topic:
    records: Sequence[Record] = ()
    partitions: int = 1
    config: Mapping[str, str] | None = None
    #: The records before these offsets are deleted.
    deleted: Mapping[int, int] | None = None


def numbered(numbers: Iterable[int], partitions: int = 1, *, first: int = 0) -> list[Record]:
    """Return plain records, in turn for each partition."""
    return [
        Record(b"v%d" % n, b"k%d" % (n % 5), first + n % partitions, BASE_MS + n * SECOND_MS)
        for n in numbers
    ]


def _odd(number: int, partitions: int) -> Record:
    """Return a record that may have no key, no value, or unusual headers."""
    value = {0: None, 1: b"", 2: b"\x00\xff" * 10}.get(number % 7, b"%d" % number * 20)
    key = {0: None, 1: b""}.get(number % 5, b"%d" % (number % 11))
    headers = {0: [("a", b"1"), ("a", None), ("", b"")], 1: [("b", b"")]}.get(number % 3, [])
    # Every fourth record is older than the one before.
    at_ms = BASE_MS + (number - 5 * (number % 4 == 3)) * SECOND_MS
    return Record(value, key, number % partitions, max(BASE_MS, at_ms), headers)


def _all_odd(count: int, partitions: int) -> list[Record]:
    return [_odd(number, partitions) for number in range(count)]


def _uneven() -> list[Record]:
    """Return 40, 15 and 5 records of three partitions."""
    found = []
    for partition, count in enumerate((40, 15, 5)):
        found += numbered(range(count), first=partition)
    return found


def _fixed() -> dict[str, _Topic]:
    return {
        "plain": _Topic(_uneven(), 3),
        "plain-2": _Topic(numbered(range(6))),
        "more-plain": _Topic(numbered(range(4))),
        "odd": _Topic(_all_odd(50, 2), 2),
        "empty": _Topic((), 2),
        "truncated": _Topic(numbered(range(60), 2), 2, deleted={0: 10, 1: 25}),
        "emptied": _Topic(numbered(range(12)), 1, deleted={0: 12}),
        "appended": _Topic(_all_odd(20, 2), 2, {"message.timestamp.type": "LogAppendTime"}),
        **{codec: _Topic(_all_odd(30, 2), 2, {"compression.type": codec}) for codec in _CODECS},
    }


class Topics:
    """Creates the topics on a cluster, and changes them for streams.

    Attributes:
        began_ms: When the first topic was created; the records of `appended` are newer.
    """

    def __init__(self, kafka: RealKafka) -> None:
        self.kafka = kafka
        self.began_ms = int(time.time() * 1_000)
        self._open: list[Producer] = []
        self._compact()
        for name, topic in _fixed().items():
            self.create(name, topic.partitions, topic.config)
            kafka.admin.produce(PREFIX + name, topic.records)
            if topic.deleted:
                kafka.admin.delete_records(PREFIX + name, topic.deleted)
        self._transactions()

    def create(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic that keeps old records."""
        self.kafka.admin.create_topic(PREFIX + name, partitions, config=_KEPT | dict(config or {}))

    def produce(self, name: str, records: Iterable[Record]) -> None:
        """Produce records into a topic."""
        self.kafka.admin.produce(PREFIX + name, records)

    def _transactions(self) -> None:
        """Committed and aborted ones, and one that stays open."""
        self.create("transactions", 2)
        producer = self._transactional("transactions")
        for number in range(6):
            producer.begin_transaction()
            self._send(producer, "transactions", numbered(range(number * 8, number * 8 + 8), 2))
            finish = producer.abort_transaction if number % 3 == 1 else producer.commit_transaction
            finish(_TIMEOUT_S)
        self.create("open")
        self.produce("open", numbered(range(5)))
        producer = self._transactional("open")
        producer.begin_transaction()
        self._send(producer, "open", numbered(range(5, 10)))
        self.produce("open", numbered(range(10, 15)))
        self._open.append(producer)

    def _transactional(self, name: str) -> Producer:
        config = {
            "bootstrap.servers": self.kafka.bootstrap(),
            "transactional.id": PREFIX + name,
            "transaction.timeout.ms": 900_000,
            "log_level": 0,
        }
        producer = Producer(config)
        producer.init_transactions(_TIMEOUT_S)
        return producer

    @staticmethod
    def _send(producer: Producer, name: str, records: Iterable[Record]) -> None:
        for each in records:
            producer.produce(
                PREFIX + name, each.value, each.key, each.partition, timestamp=each.timestamp_ms
            )
        assert producer.flush(_TIMEOUT_S) == 0

    # --- compaction ----------------------------------------------------------------------------

    def _compact(self) -> None:
        """Every fourth record has a key of its own; the others share three keys.

        The last record is alone in the active segment, which the log cleaner leaves out.
        """
        config = {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0",
            "min.compaction.lag.ms": "0",
        }
        self.create("compacted", config=config)
        for first in range(0, _COMPACTED, 4):
            records = []
            for n in range(first, min(first + 4, _COMPACTED)):
                key = b"hot %d" % (n % 4) if n % 4 else b"%d" % n
                records.append(Record(b"v%d" % n, key, 0, BASE_MS + n * SECOND_MS))
            self.produce("compacted", records)

    def wait_for_the_log_cleaner(self) -> None:
        """Return when the compacted topic has its last form."""
        wait_until(lambda: self._count("compacted") == _LEFT, "what the log cleaner does")

    def _count(self, name: str) -> int:
        config = {
            "bootstrap.servers": self.kafka.bootstrap(),
            "group.id": "counting",
            "enable.partition.eof": True,
        }
        reader = Consumer(config)
        try:
            reader.assign([TopicPartition(PREFIX + name, 0, 0)])
            found = 0
            while (message := reader.poll(_TIMEOUT_S)) is not None and message.error() is None:
                found += 1
            return found
        finally:
            reader.close()
