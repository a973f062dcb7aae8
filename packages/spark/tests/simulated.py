"""The source on a simulated cluster: its consumers, waits and clocks are simulated."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

import packages.spark.tests.session  # noqa: F401 - skips what imports this without pyspark
import tandem_kafka
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.cluster.produced import Produced, with_append_time

import pyspark_tandem_kafka.cluster as clusters  # isort: skip - see session
from pyspark_tandem_kafka import consumers, reading  # isort: skip
from pyspark_tandem_kafka.consumers import ConsumerCache  # isort: skip

__all__ = ["Stored", "append", "simulated"]


class _Waits:
    """A driver whose waits let simulated time pass."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def wait(self, _ready: Callable[[], bool], until_ms: int) -> None:
        self._simulation.sleep(max(0, until_ms - self._simulation.clock.now_ms()))


@contextmanager
def simulated(seed: object = 0, **options: Any) -> Iterator[Simulation]:
    """Begin a simulation that the source's consumers connect to."""
    with Simulation(seed, **options) as simulation, pytest.MonkeyPatch.context() as patch:
        runtime: Any = SimpleNamespace(clock=simulation.clock, driver=_Waits(simulation))
        for module in (clusters, reading):
            patch.setattr(module, "Runtime", SimpleNamespace(threaded=lambda: runtime))
        for module in (tandem_kafka, consumers):
            patch.setattr(module, "KafkaConsumer", simulation.consumer)
        # There is neither a thread that closes idle consumers nor a gc.freeze.
        cache = ConsumerCache(_pid=os.getpid(), _runtime=runtime, _closing=True, _frozen=True)
        patch.setattr(consumers, "cache", cache)
        yield simulation


@dataclass(frozen=True, slots=True)
class Stored:
    """A record at an offset of its batch."""

    offset: int
    value: bytes | None = b"v"
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 1_000


def append(
    cluster: SimCluster,
    tp: TopicPartition,
    *records: Stored,
    offsets: int | None = None,
    append_time_ms: int | None = None,
) -> int:
    """Append records as one batch, and return the offset of the batch.

    Args:
        cluster: The cluster.
        tp: The partition.
        records: The records, in order.
        offsets: How many offsets the batch has: more than records if it was compacted.
        append_time_ms: The time of the broker, if the topic has that.
    """
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31,
    )
    for each in records:
        headers = list(each.headers)
        builder.append(each.offset, each.timestamp_ms, each.key, each.value, headers)
    data = bytearray(builder.build())
    count = records[-1].offset + 1 if offsets is None else offsets
    # Compaction keeps the last offset of a batch; it is the field behind the attributes.
    at = DefaultRecordBatch.ATTRIBUTES_OFFSET
    struct.pack_into(">i", data, at + 2, count - 1)
    struct.pack_into(">I", data, DefaultRecordBatch.CRC_OFFSET, calc_crc32c(bytes(data[at:])))
    times = [each.timestamp_ms for each in records]
    produced = Produced(bytes(data), count, times[0], max(times), None, transactional=False)
    if append_time_ms is not None:
        produced = with_append_time(produced, append_time_ms)
    partition = cluster.at(tp)
    base = partition.log.append_produced(produced, partition.epoch)
    cluster.changed()
    return base
