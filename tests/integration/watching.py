"""Records the requests of a consumer, and corrupts batches on a broker's disk."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.network.request import ToNode, UnsentRequest
from tandem_kafka.wire.fetch_request import ConsumerFetch
from tandem_kafka_testing.kafka import RealKafka

__all__ = ["Sent", "break_batch", "partition_metrics"]


class Sent:
    """Records the requests of a consumer from now on; the network thread still sends them.

    It sees no fetches that the transport repeats by itself, so there are none from now on.

    Attributes:
        crowd: The highest number of fetches in flight at one broker.
        doubled: Partitions in two fetches in flight (known without fetch sessions only).
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._requests: list[UnsentRequest] = []
        self.most_in_flight = 0
        self.fetched_twice: set[tuple[str, int]] = set()
        self._fetching: Counter[int] = Counter()
        self._asked: set[tuple[str, int]] = set()
        engine = consumer._core.engine
        client = engine.loop._client  # type: ignore[attr-defined]
        client._pool._standing._transport = None
        engine.subscription.version += 1  # a change, which ends the present ones
        engine.transport.wakeup()
        add = client.add

        def note(request: UnsentRequest) -> None:
            self._requests.append(request)
            if isinstance(request.message, ConsumerFetch):
                self._note_fetch(request)
            add(request)

        client.add = note

    def _note_fetch(self, request: UnsentRequest) -> None:
        node_id = _node_id(request)
        asked = set(_partitions(request.message))
        self.fetched_twice |= self._asked & asked
        self._asked |= asked
        self._fetching[node_id] += 1
        self.most_in_flight = max(self.most_in_flight, self._fetching[node_id])

        def ended(_: object) -> None:
            self._fetching[node_id] -= 1
            self._asked.difference_update(asked)

        request.future.then(ended)

    def of(self, kind: type) -> list[Any]:
        """Return the messages of one kind."""
        return [each.message for each in list(self._requests) if isinstance(each.message, kind)]

    def asked(self) -> list[set[int]]:
        """Return the partitions of each fetch: those in the request and those in its session.

        By number, so for a consumer of one topic. Each broker and purpose has one session.
        """
        remembered: dict[Any, set[int]] = defaultdict(set)
        asked = []
        for request in list(self._requests):
            if not isinstance(request.message, ConsumerFetch):
                continue
            session = remembered[request.destination]
            if request.message.session_epoch <= 0:
                session.clear()
            session.difference_update(
                number
                for topic in request.message.forgotten_topics_data
                for number in topic.partitions
            )
            session.update(number for _, number in _partitions(request.message))
            asked.append(set(session))
        return asked

    def fetched_from(self) -> list[int]:
        """Return the brokers of the fetches that name a partition."""
        fetches = [each for each in list(self._requests) if isinstance(each.message, ConsumerFetch)]
        return [_node_id(each) for each in fetches if each.message.topics]

    def fetch_offsets(self) -> dict[int, list[int]]:
        """Return the requested offsets by partition number."""
        offsets: dict[int, list[int]] = defaultdict(list)
        for message in self.of(ConsumerFetch):
            for topic in message.topics:
                for each in topic.partitions:
                    offsets[each.partition].append(each.fetch_offset)
        return offsets


def _node_id(request: UnsentRequest) -> int:
    assert isinstance(request.destination, ToNode)
    return request.destination.node.node_id


def _partitions(message: Any) -> list[tuple[str, int]]:
    return [(topic.topic, each.partition) for topic in message.topics for each in topic.partitions]


def partition_metrics(consumer: KafkaConsumer, tp: TopicPartition) -> dict[str, float]:
    """Return the metrics of one partition, if there are any."""
    group = f"consumer-fetch-manager-metrics.topic-{tp.topic}.partition-{tp.partition}"
    found: dict[str, float] = consumer.metrics().get(group, {})
    return found


def break_batch(cluster: RealKafka, tp: TopicPartition, index: int) -> None:
    """Flip a bit in the last byte of a batch, on the disk of the only broker."""
    (log,) = cluster._folder.glob(f"broker-1/data/{tp.topic}-{tp.partition}/*.log")
    start = _batch_start(log, index)
    data = bytearray(log.read_bytes())
    # The last byte counts the headers of the last record; the byte before it ends the value.
    at = start + 12 + int.from_bytes(data[start + 8 : start + 12], "big") - 2
    with log.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))


def _batch_start(log: Path, index: int) -> int:
    data, start = log.read_bytes(), 0
    for _ in range(index):
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    return start
