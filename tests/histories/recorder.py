"""A workload on a served cluster under faults, recorded as a history.

A transactional producer writes values that no other record has. The members of one group, of all
kinds that this package has, read and commit them in threads of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Iterable
from typing import Any

import confluent_kafka

from tandem_kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.aio import AsyncKafkaConsumer
from tandem_kafka.confluent import Consumer as ConfluentConsumer
from tandem_kafka.errors import KafkaError
from tests.histories.operations import (
    Assigned,
    Committed,
    Operation,
    Outcome,
    Polled,
    Produced,
    Released,
)

_TIMEOUT_S = 60.0
_POLL_MS = 100


class Recorder:
    """The history so far; threads may add to it at any time."""

    def __init__(self) -> None:
        self.history: list[Operation] = []
        self._read: set[str] = set()

    def add(self, operation: Operation) -> None:
        """Add an operation that has ended."""
        self.history.append(operation)
        if isinstance(operation, Polled):
            self._read.update(value for _, _, value in operation.records)

    @property
    def unread(self) -> set[str]:
        """The acknowledged values that no member has read."""
        written = {
            each.value
            for each in tuple(self.history)
            if isinstance(each, Produced) and each.outcome == "acknowledged"
        }
        return written - self._read


class Listener(ConsumerRebalanceListener):
    """Records the callbacks of a member."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record them."""
        self._recorder.add(Assigned(self._name, time.monotonic(), _numbers(assigned)))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Record them: they are owned until the end of this call."""
        self._recorder.add(Released(self._name, time.monotonic(), _numbers(revoked)))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Record them: another member may have owned them before."""
        now = time.monotonic()
        self._recorder.add(Released(self._name, now, _numbers(lost), certain=False))


def _numbers(partitions: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted(each.partition for each in partitions))


class Workload:
    """A producer and the members of one group."""

    def __init__(self, bootstrap: str, topic: str, protocol: str, partitions: int) -> None:
        self.recorder = Recorder()
        self.ending = threading.Event()
        self.errors: list[BaseException] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._options: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": f"{topic}-{protocol}",
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "reconnect_backoff_max_ms": 200,
        }

    def run(self, duration_s: float) -> list[Operation]:
        """Produce for some time, let the members read everything, and return the history."""
        members = (self._read, self._read, self._read_confluent, self._read_async)
        threads = [
            threading.Thread(target=self._guarded, args=(member, f"member {number}"), daemon=True)
            for number, member in enumerate(members, 1)
        ]
        for thread in threads:
            thread.start()
        self._produce(time.monotonic() + duration_s)
        until = time.monotonic() + _TIMEOUT_S
        while (unread := self.recorder.unread) and not self.errors:
            assert time.monotonic() < until, f"not read: {sorted(unread)[:5]}"
            time.sleep(0.05)
        self.ending.set()
        for thread in threads:
            thread.join(_TIMEOUT_S)
            assert not thread.is_alive()
        assert not self.errors, self.errors
        return self.recorder.history

    def _guarded(self, member: Any, name: str) -> None:
        try:
            member(name)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.errors.append(error)

    # --- the producer --------------------------------------------------------------------------

    def _produce(self, until: float) -> None:
        producer = self._new_producer()
        number = 0
        while time.monotonic() < until:
            values = [f"{number + each}" for each in range(5)]
            number += len(values)
            begin = time.monotonic()
            offsets: dict[str, int] = {}
            outcome = self._transact(producer, values, offsets, abort=number % 3 == 0)
            for value in values:
                partition = int(value) % self._partitions
                operation = Produced(
                    *("producer", begin, time.monotonic(), partition, value, outcome),
                    offset=offsets.get(value) if outcome == "acknowledged" else None,
                )
                self.recorder.add(operation)
            if outcome == "unknown":
                producer = self._new_producer()  # which ends the transaction

    def _new_producer(self) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._topic,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        producer.init_transactions(_TIMEOUT_S)
        return producer

    def _transact(
        self,
        producer: confluent_kafka.Producer,
        values: list[str],
        offsets: dict[str, int],
        *,
        abort: bool,
    ) -> Outcome:
        """Write values in a transaction; returns what became of them."""

        def delivered(error: object, message: Any) -> None:
            if error is None:
                offsets[message.value().decode()] = message.offset()

        try:
            producer.begin_transaction()
            for value in values:
                producer.produce(
                    self._topic,
                    value,
                    partition=int(value) % self._partitions,
                    on_delivery=delivered,
                )
            producer.flush(_TIMEOUT_S)
            if abort:
                producer.abort_transaction(_TIMEOUT_S)
                return "aborted"
            producer.commit_transaction(_TIMEOUT_S)
        except confluent_kafka.KafkaException:
            return "unknown"
        return "acknowledged"

    # --- the members ---------------------------------------------------------------------------

    def _read(self, name: str) -> None:
        listener = Listener(self.recorder, name)
        with KafkaConsumer(**self._options) as consumer:
            consumer.subscribe([self._topic], listener=listener)
            while not self.ending.is_set():
                begin = time.monotonic()
                batch = consumer.poll(timeout_ms=_POLL_MS)
                self._polled(name, begin, (record for some in batch.values() for record in some))
                positions = {tp: consumer.position(tp) for tp in batch}
                begin = time.monotonic()
                try:
                    if positions:
                        consumer.commit(
                            {tp: OffsetAndMetadata(at, "", -1) for tp, at in positions.items()}
                        )
                except KafkaError:
                    continue
                self._committed(name, begin, positions)

    def _read_async(self, name: str) -> None:
        async def read() -> None:
            listener = Listener(self.recorder, name)
            async with AsyncKafkaConsumer(**self._options) as consumer:
                await consumer.subscribe([self._topic], listener=listener)
                while not self.ending.is_set():
                    begin = time.monotonic()
                    batch = await consumer.poll(timeout_ms=_POLL_MS)
                    records = (record for some in batch.values() for record in some)
                    self._polled(name, begin, records)
                    positions = {tp: await consumer.position(tp) for tp in batch}
                    begin = time.monotonic()
                    try:
                        if positions:
                            await consumer.commit(
                                {tp: OffsetAndMetadata(at, "", -1) for tp, at in positions.items()}
                            )
                    except KafkaError:
                        continue
                    self._committed(name, begin, positions)

        asyncio.run(read())

    def _read_confluent(self, name: str) -> None:
        listener = Listener(self.recorder, name)
        options = {
            "bootstrap.servers": self._options["bootstrap_servers"],
            "group.id": self._options["group_id"],
            "group.protocol": self._options["group_protocol"],
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        consumer = ConfluentConsumer(options)
        consumer.subscribe(
            [self._topic],
            on_assign=lambda _, partitions: listener.on_partitions_assigned(partitions),
            on_revoke=lambda _, partitions: listener.on_partitions_revoked(partitions),
            on_lost=lambda _, partitions: listener.on_partitions_lost(partitions),
        )
        try:
            while not self.ending.is_set():
                begin = time.monotonic()
                messages = [m for m in consumer.consume(50, _POLL_MS / 1_000) if m.error() is None]
                records = tuple((m.partition(), m.offset(), m.value().decode()) for m in messages)
                if records:
                    self.recorder.add(Polled(name, begin, time.monotonic(), records))
                positions = {partition: offset + 1 for partition, offset, _ in records}
                begin = time.monotonic()
                try:
                    if positions:
                        consumer.commit(
                            offsets=[
                                confluent_kafka.TopicPartition(self._topic, partition, offset)
                                for partition, offset in positions.items()
                            ],
                            asynchronous=False,
                        )
                except confluent_kafka.KafkaException:
                    continue
                if positions:
                    committed = tuple(positions.items())
                    self.recorder.add(Committed(name, begin, time.monotonic(), committed))
        finally:
            consumer.close()

    def _polled(self, name: str, begin: float, records: Iterable[Any]) -> None:
        found = tuple((each.partition, each.offset, each.value.decode()) for each in records)
        if found:
            self.recorder.add(Polled(name, begin, time.monotonic(), found))

    def _committed(self, name: str, begin: float, positions: dict[TopicPartition, int]) -> None:
        if positions:
            offsets = tuple((tp.partition, offset) for tp, offset in positions.items())
            self.recorder.add(Committed(name, begin, time.monotonic(), offsets))
