"""A collector with a buffer that tests fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector, collect
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.records import FetchedPartition, ReaderOptions, open_reader
from tandem_kafka.state.fetch_buffer import CompletedFetch, FetchBuffer
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import TopicPartition
from tests.unit.records.making import Rec, batch

A, B, C = (TopicPartition(name, 0) for name in "abc")


class Reading:
    """Assigned partitions at offset 0, a buffer and a collector."""

    def __init__(self, *partitions: TopicPartition, **options: Any) -> None:
        self.subscription = SubscriptionState()
        self.buffer = FetchBuffer()
        self.woken = 0
        self.subscription.assign_by_user(partitions)
        for tp in partitions:
            self.state(tp).set_position(Position(0))
        config = Config.from_options(options)
        self.collector = FetchCollector(
            self.subscription,
            self.buffer,
            Deserializers(config),
            self._wake,
            config.fetch_buffer_max_bytes,
        )

    def _wake(self) -> None:
        self.woken += 1

    def state(self, tp: TopicPartition) -> AssignedPartition:
        return self.subscription.get(tp)

    def fetched(
        self,
        tp: TopicPartition,
        offset: int,
        count: int = 3,
        *,
        value: Callable[[int], bytes] = lambda n: b"%d" % n,
        data: bytes | None = None,
        base: Position | None = None,
    ) -> CompletedFetch:
        """Buffer records from `offset` on, as after a fetch; by default one of the present base."""
        if data is None:
            data = batch([Rec(value=value(offset + n)) for n in range(count)], offset, epoch=3)
        partition = FetchedPartition(tp.topic, None, tp.partition, 0, records=memoryview(data))
        records = open_reader(tp.topic, tp.partition, offset, partition, ReaderOptions())
        return self._put(CompletedFetch(self.state(tp), base or self._base(tp), records))

    def failed(
        self, tp: TopicPartition, error: Exception, *, sticky: bool = False
    ) -> CompletedFetch:
        """Buffer an error, as after a fetch."""
        return self._put(CompletedFetch(self.state(tp), self._base(tp), error=error, sticky=sticky))

    def _put(self, chunk: CompletedFetch) -> CompletedFetch:
        self.buffer.add(chunk)
        return chunk

    def _base(self, tp: TopicPartition) -> Position:
        base = self.state(tp).base
        assert base is not None
        return base

    def collect(self, limit: int = 500) -> ConsumerRecords:
        """Collect, and publish as poll() does."""
        batch = collect(self.collector, limit)
        self.collector.publication.done = True
        return batch

    def offsets(self, limit: int = 500) -> dict[str, list[int]]:
        """Collect, and return offsets by topic."""
        return {tp.topic: [r.offset for r in rs] for tp, rs in self.collect(limit).items()}

    def position(self, tp: TopicPartition) -> int | None:
        found = self.state(tp).position
        return None if found is None else found.offset
