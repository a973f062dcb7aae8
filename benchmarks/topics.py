"""The topics to read; each is written once, on first use."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from confluent_kafka import Producer

from benchmarks.plan import Plan
from benchmarks.readers.base import Source
from benchmarks.ways.documents import encoded
from tandem_kafka_testing.kafka import RealKafka

__all__ = ["PARTITIONS", "Sources"]

PARTITIONS = 4
_BUSY = 8
_FLUSH_S = 120.0
_DIFFERENT = 997
_KEYS = 10_000


class Sources:
    """The topics of one cluster.

    Args:
        cluster: The cluster.
        plan: The numbers of records.
        batch_bytes: Size of the producer's batches.

    """

    def __init__(self, cluster: RealKafka, plan: Plan, batch_bytes: int) -> None:
        self._cluster = cluster
        self._plan = plan
        self._batch_bytes = batch_bytes
        self._known: dict[str, Source] = {}

    def plain(self, size: int) -> Source:
        """Records without compression."""
        return self._filled(f"plain-{size}", size, self._plan.records[size])

    def compressed(self, size: int, codec: str) -> Source:
        """Compressible records."""
        return self._filled(f"{codec}-{size}", size, self._plan.compressed[size], codec)

    def encrypted(self, size: int) -> Source:
        """The topic of `plain`, over TLS."""
        return replace(
            self.plain(size),
            bootstrap=self._cluster.bootstrap("SSL"),
            authority=str(self._cluster.certificates.authority),
        )

    def documents(self, encoding: str = "json", size: int = 80, share: float = 1) -> Source:
        """A part of the plan's documents, with keys."""
        name = f"{encoding}-{size}"
        if name not in self._known:
            source = replace(self._create(name, PARTITIONS), size=size)
            self._known[name] = source
            count = int(self._plan.documents * share)
            self._fill(source, count, {}, partial(encoded, encoding), _key)
        return self._known[name]

    def keyed(self) -> Source:
        """Records with 10,000 keys, for the only member of a new group."""
        if "keyed" not in self._known:
            self._known["keyed"] = replace(self._create("keyed", PARTITIONS), size=100)
            self._fill(self._known["keyed"], self._plan.records[100], {}, key=_one_of_many)
        return replace(self._known["keyed"], group=f"keyed-{uuid.uuid4().hex}")

    def backlog(self) -> Source:
        """A backlog larger than the buffer of any reader."""
        return self._filled("backlog", self._plan.backlog_size, self._plan.backlog)

    def empty(self, name: str, partitions: int = PARTITIONS, *, eager: bool = False) -> Source:
        """A new topic without records, read from its end."""
        source = self._create(f"{name}-{uuid.uuid4().hex}", partitions)
        return replace(source, from_end=True, eager=eager)

    def many_idle(self) -> Source:
        """Many partitions without records, for a member of a new group."""
        return replace(self._many(), group=f"many-{uuid.uuid4().hex}")

    def many_busy(self, *, among: bool) -> Source:
        """Some busy partitions of many; with the idle ones assigned, too, or without."""
        if "busy" not in self._known:
            self._known["busy"] = replace(self._many(), partitions=_BUSY, size=1000)
            self._fill(self._known["busy"], self._plan.busy, {})
        return replace(self._known["busy"], beside=self._plan.many - _BUSY if among else 0)

    def _many(self) -> Source:
        """One topic for both: a broker with twice as many runs out of memory maps."""
        if "many" not in self._known:
            self._known["many"] = self._create("many", self._plan.many)
        return self._known["many"]

    def _filled(self, name: str, size: int, count: int, codec: str | None = None) -> Source:
        if name not in self._known:
            self._known[name] = replace(self._create(name, PARTITIONS), size=size)
            self._fill(self._known[name], count, {"compression.type": codec} if codec else {})
        return self._known[name]

    def _create(self, name: str, partitions: int) -> Source:
        self._cluster.admin.create_topic(name, partitions)
        return Source(self._cluster.bootstrap(), name, partitions)

    def _fill(
        self,
        source: Source,
        count: int,
        options: Mapping[str, str],
        make: Callable[[int], bytes] | None = None,
        key: Callable[[int], bytes | None] = lambda _: None,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap(),
                "linger.ms": 50,
                "batch.size": self._batch_bytes,
                "queue.buffering.max.messages": 1_000_000,
                **options,
            }
        )
        make = make or (_text if options else os.urandom)
        values = [make(source.size) for _ in range(_DIFFERENT)]
        for number in range(count):
            partition, value = number % source.partitions, values[number % _DIFFERENT]
            while True:
                try:
                    producer.produce(source.topic, value, key(number), partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(_FLUSH_S):
            raise TimeoutError(f"{source.topic} could not be filled")


def _key(number: int) -> bytes:
    return b"account-%d" % (number % _DIFFERENT)


def _one_of_many(number: int) -> bytes:
    return b"%d" % (number % _KEYS)


def _text(size: int) -> bytes:
    """Text like JSON: repeated names, and random numbers."""
    text = ""
    while len(text) < size:
        number = os.urandom(6)
        account = int.from_bytes(number[:3])
        text += f'{{"account": {account}, "state": "open", "token": "{number.hex()}"}}'
    return text[:size].encode()
