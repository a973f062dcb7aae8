"""`Landing`: reads records, and commits them to a table with their offsets."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from tandem_kafka import KafkaConsumer
from tandem_kafka.config.offset_reset import parse_offset_reset
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    NoGroupError,
    NoOffsetForPartitionError,
    RecordDeserializationError,
    SchemaMismatchError,
    SinkFencedError,
)
from tandem_kafka.logs import LinesOf, client_logger
from tandem_kafka.runtime import Clock, MonotonicClock
from tandem_kafka.runtime.signals import handled_signals
from tandem_kafka.tables.progress import Progress
from tandem_kafka.tables.sink import Sink, Topics, TopicSink
from tandem_kafka.tables.storage import Storage
from tandem_kafka.types import (
    ARROW_COLUMNS,
    ArrowDecoder,
    OffsetAndMetadata,
    OffsetOfTopic,
    TopicPartition,
    names_of,
)

log = client_logger(__name__)

_MIB: Final = 1 << 20
#: The columns that tell each record from all others.
_PLACE: Final = ("topic", "partition", "offset")
#: The longest poll: `stop()` and `until()` are looked at in between.
_POLL_MS: Final = 100
#: So many tables are joined to one: each takes kilobytes, even with a single record.
_TABLES: Final = 500
#: A member that was removed from its group is told so within this time. A member that is fenced and
#: still has the partition then is in another group than the writer that fenced it.
_FENCED_MS: Final = 30_000


class Landing:
    """Writes the records of topics to a table, each exactly once.

    The table keeps the next offset of each partition, and gets it in the same commit as the
    records. Reading begins there, at the start and after each rebalance; a partition that the table
    does not know begins as ``auto_offset_reset`` says. Whatever stops the process at whatever
    moment, the next one continues after the last record in the table. A process that lost its
    partitions without noticing cannot commit them: the sink fences it.

    Offsets are committed to Kafka as well, afterwards, so that lag can be watched there; they are
    never read.

    Args:
        consumer: A consumer with topics or a pattern, ``group_id``, ``enable_auto_commit=False``
            and ``isolation_level="read_committed"``, without deserializers. Without that level,
            records of open and aborted transactions are landed too; a WARNING says so, unless the
            consumer names ``"read_uncommitted"``. While ``run()`` runs, do not poll,
            seek or commit. Its rebalance listener is replaced.
        sink: The table: `ParquetDirectory`, `DeltaLake`, `Database`, or an object with the methods
            of `Sink`.
        every: The time from the first record to its commit.
        rows: Commit earlier when so many records are there.
        size_bytes: Commit earlier when the records take so much memory, in bytes. The last batch
            may exceed it.
        columns: Columns as for ``KafkaConsumer.poll_arrow()``, at least topic, partition and
            offset; all by default.
        key: Decodes keys; see `tandem_kafka.tables`.
        value: Decodes values, such as ``Json(schema, flatten=True)``.

    Raises:
        NoGroupError: The consumer has no ``group_id``.
        InvalidArgumentError: An argument has an invalid value, or ``enable_auto_commit`` is True.
        ArgumentTypeError: An argument has the wrong type.

    Example::

        with KafkaConsumer("orders", group_id="orders-to-parquet", enable_auto_commit=False,
                           auto_offset_reset="earliest",
                           isolation_level="read_committed") as consumer:
            landing = Landing(consumer, ParquetDirectory("orders"), value=Json(schema))
            landing.run(signals=[signal.SIGTERM, signal.SIGINT])
    """

    def __init__(  # noqa: PLR0913 - options, all with a name
        self,
        consumer: KafkaConsumer[Any, Any],
        sink: Sink,
        *,
        every: timedelta = timedelta(minutes=1),
        rows: int = 1_000_000,
        size_bytes: int = 256 * _MIB,
        columns: Sequence[str] | None = None,
        key: ArrowDecoder | None = None,
        value: ArrowDecoder | None = None,
    ) -> None:
        _check_consumer(consumer)
        for method in ("acquire", "write", "commit", "abort"):
            if not callable(getattr(sink, method, None)):
                raise ArgumentTypeError(f"sink must have the method {method}(), got {sink!r}")
        _check_bounds(every, {"rows": rows, "size_bytes": size_bytes})
        if "isolation_level" not in consumer._config.named:  # noqa: SLF001 - given, or the default?
            log.warning(
                "The landing copies records of open and aborted transactions too; create the "
                "consumer with isolation_level='read_committed', or with 'read_uncommitted' to "
                "accept it",
                client=consumer.log_names,
            )
        missing = [] if columns is None else [name for name in _PLACE if name not in columns]
        if missing:
            msg = f"columns must have {', '.join(_PLACE)}; {', '.join(missing)} is missing"
            raise InvalidArgumentError(msg)
        self._consumer = consumer
        self._sink = sink
        self._every_ms = every / timedelta(milliseconds=1)
        self._rows = rows
        self._size_bytes = size_bytes
        storage = getattr(sink, "storage", None)
        self._storage = storage if isinstance(storage, Storage) else None
        if self._storage is not None:
            key, value = self._storage.decoder(key, "key"), self._storage.decoder(value, "value")
        self._form: dict[str, Any] = {"columns": columns, "key": key, "value": value}
        self._clock: Clock = MonotonicClock()
        self._running = self._stop_requested = False
        self._collected = Collected()
        self._since_ms: float | None = None
        #: The next offset in the table of each partition of this process, without `_fenced`.
        self._landed: dict[TopicPartition, int] = {}
        #: The topics that these belong to, as numbers; see `_number_of`.
        self._topics: dict[TopicPartition, int] = {}
        self._fenced: dict[TopicPartition, float] = {}
        #: What this object has paused, perhaps in a run that was interrupted.
        self._paused: set[TopicPartition] = set()
        self._fence: SinkFencedError | None = None
        #: Offsets that are in the table, and not yet committed to Kafka.
        self._untold: dict[TopicPartition, int] = {}
        self._total = self._total_bytes = 0
        self._progress: Callable[[Progress], object] | None = None

    @property
    def total(self) -> int:
        """How many records this object has committed to the table."""
        return self._total

    def __repr__(self) -> str:
        """Show the consumer and the table, and what has been committed."""
        if not hasattr(self, "_total"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without a consumer>"
        runs = "running" if self._running else "not running"
        return (
            f"<{type(self).__name__} of {self._consumer!r} into {self._sink!r}: {runs}, records "
            f"committed: {self._total}>"
        )

    def stop(self) -> None:
        """End ``run()`` after a last commit. Any thread or signal handler may call this.

        Before ``run()``, this ends the next run as soon as it begins.
        """
        self._stop_requested = True

    def run(
        self,
        until: Callable[[], object] | None = None,
        *,
        signals: Iterable[signal.Signals] = (),
        progress: Callable[[Progress], object] | None = None,
    ) -> None:
        """Land records until ``stop()``, ``until()`` or an error; commit what was read at the end.

        After an error, what was not committed is dropped; the next run reads it again. The consumer
        stays open and in the group, and its positions are those of the table.

        Args:
            until: A function that returns True when the run must end. It is called after each
                poll, at least every 100 ms.
            signals: Signals that end the run, such as ``[signal.SIGTERM, signal.SIGINT]``. Only the
                main thread can handle signals. Without them, Ctrl-C raises KeyboardInterrupt.
            progress: Called after each commit, with the sums of this object.

        Raises:
            RecordDeserializationError: A record cannot be decoded. Those before it are committed.
            SinkFencedError: A landing of another group writes the same partitions.
            SchemaMismatchError: A column has another type than in the table, or in earlier records.
            NoOffsetForPartitionError: The table does not know a partition, and
                ``auto_offset_reset`` is "none".
            RebalanceCallbackError: The sink or the consumer failed during a rebalance.
            IllegalStateError: The consumer has no topics, or ``run()`` is in progress.
            KafkaError: As for ``poll()``. Exceptions of the sink are raised as they are.
        """
        if self._running:
            raise IllegalStateError("run() is already in progress; call it again after it returns")
        try:
            self._running, self._progress = True, progress
            with LinesOf(self._consumer.log_names), handled_signals(signals, self.stop):
                self._begin()
                while not (self._stop_requested or (until is not None and until())):
                    self._step()
                self._land()
        except BaseException as error:
            try:
                self._forget()
            except Exception as later:  # noqa: BLE001 - a sink that failed may fail again
                error.add_note(f"Then the sink or the consumer failed again: {later!r}")
            raise
        finally:
            self._running = self._stop_requested = False
            self._resume()

    def _begin(self) -> None:
        self._resume()
        self._landed, self._topics, self._fenced, self._fence = {}, {}, {}, None
        # An interrupt at the end of the last run may have left them.
        self._clear()
        if self._consumer.subscription() is not None:
            self._consumer._listen(_Listener(self))  # noqa: SLF001 - also of a pattern
            self._settle()
        elif not self._consumer.assignment():
            msg = (
                "the consumer has no topics: name them in its constructor, or call subscribe() or "
                "assign()"
            )
            raise IllegalStateError(msg)
        self.take(self._consumer.assignment() - self._landed.keys())

    def _settle(self) -> None:
        former = self._consumer.assignment() - self._consumer.paused()
        if former:
            # Invariant: partitions that were lost before this run are reported before others are
            # taken over. Their new owner would be fenced otherwise.
            self._pause(former)
            self._step()
            self._resume()

    def _pause(self, partitions: set[TopicPartition]) -> None:
        self._paused |= partitions
        self._consumer.pause(*(partitions & self._consumer.assignment()))

    def _resume(self) -> None:
        if self._paused:
            self._consumer.resume(*(self._paused & self._consumer.assignment()))
            self._paused = set()

    def _step(self) -> None:
        """Poll once, and commit if it is time."""
        now_ms = self._clock.now_ms()
        self._check_fenced(now_ms)
        wait_ms: float = _POLL_MS
        if self._since_ms is not None:
            wait_ms = min(wait_ms, max(0, self._since_ms + self._every_ms - now_ms))
        room = self._rows - self._collected.rows
        try:
            batch = self._consumer.poll_arrow(wait_ms, room, **self._form)
        except RecordDeserializationError:
            self._land()
            raise
        now_ms = self._clock.now_ms()
        if self._since_ms is None:
            # Positions also move without records, over those that were aborted or dropped.
            self._since_ms = now_ms
        if batch.num_rows:
            self._collected.add(batch)
        if (
            now_ms - self._since_ms >= self._every_ms
            or batch.num_rows >= room
            or self._collected.size_bytes >= self._size_bytes
        ):
            self._land()

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Become the writer of partitions, and continue them behind their last record."""
        taken = sorted(partitions)
        if not taken or not self._running:
            return
        known = self._sink.acquire(taken)
        ids = self._topic_ids(taken)
        topics = _numbers_of(ids)
        sink = self._sink
        stored = sink.topics(taken) if isinstance(sink, TopicSink) else {}
        recreated = {tp for tp in topics if stored.get(tp) not in (None, topics[tp])}
        if recreated:
            log.warning(
                "The table has offsets of a deleted topic for %s, which was created again: reading "
                "begins as auto_offset_reset says",
                names_of(recreated),
            )
        landed = {tp: None if tp in recreated else known[tp] for tp in taken}
        found = {tp: offset for tp, offset in landed.items() if offset is not None}
        begun = self._first_offsets([tp for tp in taken if tp not in found])
        # Offsets that somebody has written by hand have no topics.
        unnamed = {tp: found[tp] for tp in found if tp in topics and stored.get(tp, 0) is None}
        if begun or unnamed:
            # Invariant: a partition begins once. Without this, "latest" would be a later place
            # after a crash, and records in between would be missing.
            self._commit(begun | unnamed, topics)
        self._seek(found | begun, ids)
        self._landed |= found | begun
        self._topics |= topics
        self._untold |= found | begun

    def _present_topics(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the topics that the positions belong to, as numbers."""
        return _numbers_of(self._topic_ids(partitions))

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, UUID]:
        return {tp: self._consumer._topic_id(tp) for tp in partitions}  # noqa: SLF001

    def _seek(self, offsets: dict[TopicPartition, int], ids: dict[TopicPartition, UUID]) -> None:
        """Continue at these offsets of these topics, which may be deleted by now."""
        for tp, at in offsets.items():
            self._consumer.seek(tp, OffsetOfTopic(at, topic_id=ids[tp]))

    def _commit(self, offsets: dict[TopicPartition, int], topics: Topics) -> None:
        """Commit to the table, with the topics that it does not have."""
        changed = {tp: topics[tp] for tp in offsets if tp in topics}
        if changed and isinstance(self._sink, TopicSink):
            self._sink.commit(offsets, changed)
        else:
            self._sink.commit(offsets)

    def _positions(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the positions, and the topics that they belong to."""
        while True:
            topics = self._present_topics(self._landed)
            positions = {tp: self._consumer.position(tp) for tp in self._landed}
            if self._present_topics(self._landed) == topics:  # none was made anew in between
                return positions, topics

    def give_up(self, partitions: Iterable[TopicPartition], *, lost: bool) -> None:
        """Commit what was read if partitions are revoked, and drop it if they are lost."""
        if not self._running:
            return
        try:
            if lost:
                self._landed = {tp: at for tp, at in self._landed.items() if tp not in partitions}
                self._forget()
            else:
                self._land()
        finally:
            for tp in partitions:
                self._landed.pop(tp, None)
                self._fenced.pop(tp, None)

    def _land(self) -> None:
        """Commit what was read since the last time."""
        positions, topics = self._positions()
        moved = self._moved_topics(topics)
        offsets = {tp: at for tp, at in positions.items() if at != self._landed[tp] or tp in moved}
        rows, size_bytes = self._collected.rows, self._collected.size_bytes
        began_ms = self._clock.now_ms()
        try:
            if rows:
                self._sink.write(self._placed(self._collected.table()))
            if offsets:
                self._commit(offsets, moved)
        except SinkFencedError as error:
            self._note_fenced(error)
            return
        if offsets:
            log.info(
                "Committed %d records of %d partitions, %d bytes in memory, to the table in %d ms",
                rows,
                len(offsets),
                size_bytes,
                self._clock.now_ms() - began_ms,
                fields={"records": rows, "partitions": len(offsets), "size_bytes": size_bytes},
            )
        self._total += rows
        self._landed |= offsets
        self._topics |= topics
        self._clear()
        self._untold |= offsets
        self._tell()
        self._total_bytes += size_bytes
        if offsets and self._progress is not None:
            self._progress(Progress(self._total, self._total_bytes, self._share()))

    def _share(self) -> float:
        """Return the share of the records that is in the table, of those that are known."""
        assigned = self._consumer.assignment() & self._landed.keys()
        behind = sum(self._consumer.current_lag(tp) or 0 for tp in assigned)
        return self._total / (self._total + behind) if behind else 1.0

    def _placed(self, table: pa.Table) -> pa.Table:
        """Return records of which the table can store all but keys and values.

        These have decoders, whose `errors` say what happens. Anything else comes from the producer
        as well: without this, one timestamp would stop each landing at the same record.
        """
        if self._storage is None:
            return table
        table, unplaced = self._storage.placed(table, ARROW_COLUMNS)
        for name, failures in unplaced.items():
            row, reason = failures[0]
            first = "{}-{} at offset {}".format(*(table[each][row] for each in _PLACE))
            log.warning(
                "The table has no place for %d values of the column %s, which are null there; the "
                "first is of %s: %s",
                len(failures),
                name,
                first,
                reason,
            )
        return table

    def _tell(self) -> None:
        """Commit to Kafka as well."""
        offsets = {tp: at for tp, at in self._untold.items() if tp in self._landed}
        self._untold = {}
        if offsets:
            told = {tp: OffsetAndMetadata(at, "", -1) for tp, at in offsets.items()}
            self._consumer.commit_async(told, lambda _, error: self._note_told(offsets, error))

    def _note_told(self, offsets: dict[TopicPartition, int], error: object) -> None:
        if isinstance(error, BaseException):
            self._untold = offsets | self._untold
            log.warning(
                "The table has the records, but their offsets were not committed to Kafka, where "
                "lag is watched: %s",
                error,
            )

    def _clear(self) -> None:
        self._collected.clear()
        self._since_ms = None

    def _forget(self) -> None:
        """Drop what was read since the last commit, and read it again."""
        self._clear()
        try:
            self._sink.abort()
        finally:
            self._seek_back()

    def _seek_back(self) -> None:
        """Continue behind the last record in the table, or where a new topic begins."""
        assigned = self._consumer.assignment()
        landed = {tp: at for tp, at in self._landed.items() if tp in assigned}
        ids = self._topic_ids(landed)
        recreated = self._moved_topics(_numbers_of(ids))
        self._seek(landed | self._first_offsets(sorted(recreated)), ids)

    def _moved_topics(self, topics: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return those that are not the ones of `_landed`."""
        return {tp: topic for tp, topic in topics.items() if self._topics.get(tp) != topic}

    def _note_fenced(self, error: SinkFencedError) -> None:
        """Stop reading what others have acquired. If they did so rightly, it is revoked soon."""
        self._fence = error
        log.warning("Another writer has taken over %s in the table", names_of(error.partitions))
        for tp in error.partitions:
            self._landed.pop(tp, None)
            self._fenced[tp] = self._clock.now_ms()
        self._forget()
        self._pause({*self._fenced})

    def _check_fenced(self, now_ms: float) -> None:
        if self._fence is not None and any(
            now_ms - at_ms > _FENCED_MS for at_ms in self._fenced.values()
        ):
            raise self._fence

    def _first_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions begin that the table does not know."""
        if not partitions:
            return {}
        reset = parse_offset_reset(self._consumer.config["auto_offset_reset"])
        if reset.kind == "earliest":
            return self._consumer.beginning_offsets(partitions)
        if reset.kind == "latest":
            return self._consumer.end_offsets(partitions)
        if reset.kind == "none":
            msg = (
                f"the table has no offset for {names_of(partitions)}, and auto_offset_reset is "
                "'none'; commit one to the sink, or choose 'earliest' or 'latest'"
            )
            raise NoOffsetForPartitionError(msg)
        ends = self._consumer.end_offsets(partitions)
        since_ms = self._clock.wall_ms() - reset.duration_ms
        found = self._consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        return {tp: ends[tp] if at is None else at.offset for tp, at in found.items()}


class _Listener:
    """Tells a landing of rebalances."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Acquire partitions."""
        self._landing.take(assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit partitions while they are still ours."""
        self._landing.give_up(revoked, lost=False)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Forget partitions that others have already."""
        self._landing.give_up(lost, lost=True)


def _numbers_of(ids: dict[TopicPartition, UUID]) -> dict[TopicPartition, int]:
    """Return numbers of the topics that have an id."""
    return {tp: number for tp, topic_id in ids.items() if (number := _number_of(topic_id))}


def _number_of(topic_id: UUID) -> int:
    """Return a number of 63 bits that tells a topic from others, 0 if it has no id."""
    return topic_id.int >> 65


def _check_consumer(consumer: KafkaConsumer[Any, Any]) -> None:
    if not isinstance(consumer, KafkaConsumer):
        msg = f"consumer must be a KafkaConsumer of tandem_kafka, got {consumer!r}"
        raise ArgumentTypeError(msg)
    if consumer.config["group_id"] is None:
        msg = "the consumer has no group_id; create it with one, such as the name of the table"
        raise NoGroupError(msg)
    if consumer.config["enable_auto_commit"]:
        msg = (
            "the consumer has enable_auto_commit=True, which would commit records that are not in "
            "the table; create it with enable_auto_commit=False"
        )
        raise InvalidArgumentError(msg)


def _check_bounds(every: timedelta, numbers: dict[str, int]) -> None:
    if not isinstance(every, timedelta):
        msg = f"every must be a timedelta such as timedelta(seconds=30), got {every!r}"
        raise ArgumentTypeError(msg)
    if every < timedelta(0):
        raise InvalidArgumentError(f"every must not be negative, got {every}")
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int):
            raise ArgumentTypeError(f"{name} must be an int, got {number!r}")
        if number < 1:
            raise InvalidArgumentError(f"{name} must be at least 1, got {number}")


class Collected:
    """The records that a landing has read and not yet written.

    Their schemas may differ in columns whose type no record has told yet.

    Attributes:
        rows: The number of records.
        size_bytes: Their memory.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all records."""
        self._tables: list[pa.Table] = []
        self.rows = self.size_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records."""
        self._tables.append(pa.Table.from_batches([batch]))
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes
        if len(self._tables) > _TABLES:
            self._tables = [self._joined()]

    def table(self) -> pa.Table:
        """Return all records, without columns whose type is not known.

        Raises:
            SchemaMismatchError: A column has several types.
        """
        table = self._joined()
        unknown = [field.name for field in table.schema if pa.types.is_null(field.type)]
        return table.drop_columns(unknown)

    def _joined(self) -> pa.Table:
        try:
            return pa.concat_tables(self._tables, promote_options="default").combine_chunks()
        except pa.ArrowException as error:
            msg = f"a column has another type in later records: {error}; give its decoder a schema"
            raise SchemaMismatchError(msg) from error
