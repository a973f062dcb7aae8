"""A workload on a served cluster under faults, recorded as a history.

A transactional producer writes values that no other record has. The members of one group, of all
kinds, read and commit them in threads of their own.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import confluent_kafka

from tandem_kafka import KafkaConsumer, TopicPartition
from tests.histories.members import KINDS, Member
from tests.histories.operations import Committed, Operation, Outcome, Polled, Produced
from tests.waiting import wait_until

_TIMEOUT_S = 60.0


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
        threads = [
            threading.Thread(target=self._guarded, args=(kind, f"{kind} {number}"), daemon=True)
            for number, kind in enumerate(["plain", *KINDS])
        ]
        for thread in threads:
            thread.start()
        self._produce(time.monotonic() + duration_s)
        wait_until(
            lambda: self.errors or not self.recorder.unread,
            lambda: f"not read: {sorted(self.recorder.unread)[:5]}",
        )
        self.ending.set()
        for thread in threads:
            thread.join(_TIMEOUT_S)
            assert not thread.is_alive()
        assert not self.errors, self.errors
        self._note_commits()
        return self.recorder.history

    def _note_commits(self) -> None:
        """Record what the group has committed, also by its workers."""
        begin = time.monotonic()
        with KafkaConsumer(**self._options) as observer:
            tps = [TopicPartition(self._topic, number) for number in range(self._partitions)]
            found = {tp.partition: observer.committed(tp) for tp in tps}
        offsets = tuple((number, at) for number, at in found.items() if at is not None)
        self.recorder.add(Committed("the group", begin, time.monotonic(), offsets))

    def _guarded(self, kind: str, name: str) -> None:
        member = Member(name, self._topic, self._options, self.recorder.add, self.ending)
        try:
            KINDS[kind](member)
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
