"""Members of one group, a function for each kind of consumer; each records what it does.

Records damaged in transit are fetched again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka

from tandem_kafka import (
    AsyncKafkaConsumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from tandem_kafka.confluent import Consumer as ConfluentConsumer
from tandem_kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    KafkaTimeoutError,
    RetriableCommitFailedError,
)
from tandem_kafka.workers import KeyedWorkers
from tests.histories.operations import Assigned, Committed, Operation, Polled, Released

#: Padding behind a value, which a history leaves out.
FILLER: Final = b"x"

_POLL_MS: Final = 100
_COMMIT_MS: Final = 5_000
#: What a commit may raise while its group or its coordinator changes.
_COMMIT_ERRORS: Final = (CommitFailedError, RetriableCommitFailedError, KafkaTimeoutError)

#: Options that librdkafka names differently; None: it has none.
_NAMES: Final = {
    "bootstrap_timeout_ms": None,
    "partition_assignment_strategy": None,
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}


@dataclass(frozen=True)
class Member:
    """What a member needs.

    Attributes:
        options: Those of `KafkaConsumer`.
        record: Called with each operation that has ended.
        ending: Set when the member is to close its consumer.
    """

    name: str
    topic: str
    options: Mapping[str, Any]
    record: Callable[[Operation], None]
    ending: threading.Event

    @property
    def commits_by_hand(self) -> bool:
        """Whether it commits what it has read, at once."""
        return not self.options["enable_auto_commit"]

    def polled(self, begin: float, records: Iterable[tuple[int, int, bytes]]) -> None:
        """Record what a call has returned: partition, offset and value of each record."""
        found = tuple((p, offset, v.rstrip(FILLER).decode()) for p, offset, v in records)
        if found:
            self.record(Polled(self.name, begin, time.monotonic(), found))

    def committed(self, begin: float, offsets: Mapping[int, int]) -> None:
        """Record a commit that has succeeded."""
        self.record(Committed(self.name, begin, time.monotonic(), tuple(offsets.items())))


class _Listener(ConsumerRebalanceListener):
    """Records the callbacks of a member."""

    def __init__(self, member: Member) -> None:
        self._name = member.name
        self._record = member.record

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record them."""
        self._record(Assigned(self._name, time.monotonic(), _numbers(assigned)))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Record them: they are owned until the end of this call."""
        self._record(Released(self._name, time.monotonic(), _numbers(revoked)))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Record them: another member may have owned them before."""
        self._record(Released(self._name, time.monotonic(), _numbers(lost), certain=False))


def _numbers(partitions: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted(each.partition for each in partitions))


def _places(batch: Mapping[Any, Iterable[ConsumerRecord]]) -> Iterable[tuple[int, int, bytes]]:
    return (_place(record) for records in batch.values() for record in records)


def _place(record: ConsumerRecord) -> tuple[int, int, bytes]:
    return record.partition, record.offset, record.value or b""


def read(member: Member) -> None:
    """Read with `KafkaConsumer`."""
    with KafkaConsumer(**member.options) as consumer:
        consumer.subscribe([member.topic], listener=_Listener(member))
        while not member.ending.is_set():
            begin = time.monotonic()
            try:
                batch = consumer.poll(timeout_ms=_POLL_MS)
            except CorruptRecordError:
                for tp in consumer.assignment():
                    consumer.seek(tp, consumer.position(tp))
                continue
            member.polled(begin, _places(batch))
            if batch and member.commits_by_hand:
                positions = {tp.partition: consumer.position(tp) for tp in batch}
                begin = time.monotonic()
                try:
                    consumer.commit(timeout_ms=_COMMIT_MS)
                except _COMMIT_ERRORS:
                    continue
                member.committed(begin, positions)


def read_async(member: Member) -> None:
    """Read with `AsyncKafkaConsumer`; the longest polls are cancelled."""
    asyncio.run(_read_async(member))


async def _read_async(member: Member) -> None:
    async with AsyncKafkaConsumer[Any, Any](**member.options) as consumer:
        await consumer.subscribe([member.topic], listener=_Listener(member))
        while not member.ending.is_set():
            begin = time.monotonic()
            try:
                async with asyncio.timeout(0.75 * _POLL_MS / 1_000):
                    batch = await consumer.poll(timeout_ms=_POLL_MS)
            except TimeoutError:
                continue
            except CorruptRecordError:
                for tp in consumer.assignment():
                    consumer.seek(tp, await consumer.position(tp))
                continue
            member.polled(begin, _places(batch))
            if batch and member.commits_by_hand:
                positions = {tp: await consumer.position(tp) for tp in batch}
                begin = time.monotonic()
                try:
                    await consumer.commit(
                        {tp: OffsetAndMetadata(at, "", -1) for tp, at in positions.items()},
                        timeout_ms=_COMMIT_MS,
                    )
                except _COMMIT_ERRORS:
                    continue
                member.committed(begin, {tp.partition: at for tp, at in positions.items()})


def read_with_workers(member: Member) -> None:
    """Let workers handle the records of each partition in order; they commit by themselves."""

    def handle(record: ConsumerRecord) -> None:
        member.polled(time.monotonic(), [_place(record)])

    with KafkaConsumer(member.topic, **{**member.options, "enable_auto_commit": False}) as consumer:
        workers = KeyedWorkers(
            consumer,
            handle,
            order="partition",
            workers=4,
            commit_interval_ms=500,
            listener=_Listener(member),
        )
        ended = threading.Event()
        stopping = threading.Thread(target=_stop_workers, args=(member.ending, ended, workers))
        stopping.start()
        try:
            while not member.ending.is_set():
                try:
                    workers.run()
                except CorruptRecordError:
                    continue  # the next run fetches the records again
                except _COMMIT_ERRORS:
                    continue  # the last commit of a run may be that of an expelled member
        finally:
            ended.set()
            stopping.join()


def _stop_workers(
    ending: threading.Event, ended: threading.Event, workers: KeyedWorkers[Any, Any]
) -> None:
    """Stop workers until they have ended: a run that begins afterwards is stopped as well."""
    ending.wait()
    while not ended.wait(_POLL_MS / 1_000):
        workers.stop()


def read_confluent(member: Member) -> None:
    """Read with the consumer of `tandem_kafka.confluent`: single messages and lists of them."""
    reader = _ConfluentReader(member)
    calls = 0
    try:
        while not member.ending.is_set():
            calls += 1
            if reader.take(singly=calls % 3 == 0) and member.commits_by_hand:
                reader.commit()
    finally:
        reader.close()


class _ConfluentReader:
    """A consumer, and how far it has read each partition since it was assigned.

    The position is unknown after a seek until a message comes, also when the next damage is
    reported before that.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._consumer = ConfluentConsumer(_librdkafka_options(member.options))
        self.close = self._consumer.close
        self._reached: dict[int, int] = {}
        listener = _Listener(member)
        self._consumer.subscribe(
            [member.topic],
            on_assign=self._noting(listener.on_partitions_assigned),
            on_revoke=self._noting(listener.on_partitions_revoked),
            on_lost=self._noting(listener.on_partitions_lost),
        )

    def _noting(self, call: Callable[[Any], None]) -> Any:
        """Return a callback that calls a listener with its partitions, which begin or end."""

        def note(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            call(partitions)
            for each in partitions:
                self._reached.pop(each.partition, None)

        return note

    def take(self, *, singly: bool) -> bool:
        """Read once; returns whether there were any messages."""
        begin, timeout_s = time.monotonic(), _POLL_MS / 1_000
        one = self._consumer.poll(timeout_s) if singly else None
        several = [] if singly else self._consumer.consume(2_000, timeout_s)
        messages = [one] if one is not None else several
        places: list[tuple[int, int, bytes]] = []
        errors: list[confluent_kafka.KafkaError] = []
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                errors.append(error)
                continue
            value = message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            places.append((partition, offset, value))
            self._reached[partition] = offset + 1
        self._member.polled(begin, places)
        for error in errors:
            self._handle(error)
        return bool(places)

    def _handle(self, error: confluent_kafka.KafkaError) -> None:
        if error.fatal():
            raise confluent_kafka.KafkaException(error)
        if error == confluent_kafka.KafkaError._BAD_MSG:
            for each in self._consumer.committed(self._consumer.assignment(), timeout=10):
                offset = self._reached.get(each.partition, max(each.offset, 0))
                self._consumer.seek(
                    confluent_kafka.TopicPartition(each.topic, each.partition, offset)
                )

    def commit(self) -> None:
        """Commit the positions."""
        begin = time.monotonic()
        try:
            done = self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException:
            return
        offsets = {each.partition: each.offset for each in done or () if each.error is None}
        if offsets:
            self._member.committed(begin, offsets)


def _librdkafka_options(options: Mapping[str, Any]) -> dict[str, Any]:
    names = {name: _NAMES.get(name, name.replace("_", ".")) for name in options}
    found = {new: options[name] for name, new in names.items() if new is not None}
    if "partition_assignment_strategy" in options:
        found["partition.assignment.strategy"] = "cooperative-sticky"
    return found


KINDS: Final[Mapping[str, Callable[[Member], None]]] = {
    "plain": read,
    "confluent": read_confluent,
    "asyncio": read_async,
    "workers": read_with_workers,
}
