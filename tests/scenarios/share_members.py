"""Members of a share group, and what their applications do with records."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from tandem_kafka import ShareConsumer
from tandem_kafka.consumer.share.columns import _runs_of
from tandem_kafka.consumer.share.options import share_options
from tandem_kafka.errors import KafkaError, KafkaTimeoutError, RecordLockLostError
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.invariants import LATE_MS
from tests.scenarios.share_ledger import Place, ShareLedger
from tests.scenarios.violation import Violation

__all__ = ["ShareMember", "share_consumer"]

HAS_ARROW = find_spec("pyarrow") is not None
#: For how long a loop waits for a record.
ITERATION_MS = 50
#: The longest close() without a reachable broker.
CLOSING_MS = 30_000 + 10_000


def share_consumer(
    simulation: Simulation,
    *topics: str,
    acknowledgement: str = "implicit",
    renew: str = "off",
    max_processing_ms: int = 600_000,
    **options: Any,
) -> ShareConsumer[Any, Any]:
    """Return a real share consumer on the simulated network."""
    options.setdefault("bootstrap_servers", simulation.cluster.bootstrap())
    options.setdefault("client_id", f"simulated-{len(simulation.drivers) + 1}")
    config, how = share_options(options, acknowledgement, renew, max_processing_ms)
    runtime, transport = simulation._environment()
    consumer: ShareConsumer[Any, Any] = ShareConsumer.__new__(ShareConsumer)
    consumer._start(config, how, runtime, topics, transport)
    return consumer


class _Row:
    """A row of a record batch, which the application treats as a record."""

    def __init__(self, consumer: ShareConsumer[Any, Any], row: Any) -> None:
        [fields] = row.to_pylist()
        self.topic, self.partition = fields["topic"], fields["partition"]
        self.offset, self.delivery_count = fields["offset"], fields["delivery_count"]
        self.value = fields["value"]
        place = self.topic, self.partition, self.offset, self.delivery_count
        runs = _runs_of(consumer._parts.records, [place])
        self._origin = runs[TopicPartition(self.topic, self.partition)][self.offset]
        for how in ("accept", "release", "reject", "renew"):
            setattr(self, how, partial(consumer.acknowledge, row, how))


class ShareMember:
    """One process: its consumer, and the records that it works on.

    Attributes:
        consumer: The consumer.
        number: The number of the member.
        explicit: Whether the application acknowledges each record.
        busy_until_ms: Until when a handler runs. Meanwhile, the application does not poll.
        alive: Whether the process runs or is stopped for a while.
        work: Explicit only: when a handler ends, and its record.
        renews_ms: For how long the locks of its records are renewed; 0 for not at all.
        ended: Whether the application has done what it was started for.
    """

    ended = False

    #: As for the listeners of other members: they have none.
    slept_ms = 0

    def __init__(
        self,
        simulation: Simulation,
        ledger: ShareLedger,
        number: int,
        topic: str,
        options: dict[str, Any],
    ) -> None:
        self._simulation = simulation
        self._clock = simulation.clock
        self._ledger = ledger
        self.number = number
        self.explicit = options["acknowledgement"] == "explicit"
        self.random = Random(f"{simulation.seed}/share member {number}")
        lock_ms = options.pop("lock_ms")
        self._durations_ms = self.random.choice(
            [(0, 1), (1, 300), (300, 4_000), (1_000, 2 * lock_ms)]
        )
        self._way = self.random.choice(("loop", "loop", "poll", "poll", "arrow"))
        self.consumer = share_consumer(
            simulation, topic, consumer_timeout_ms=ITERATION_MS, **options
        )
        self._renews_long = (
            options["renew"] == "auto" and options["max_processing_ms"] > 2 * lock_ms
        )
        self.renews_ms = options["max_processing_ms"] * (options["renew"] == "auto")
        self.busy_until_ms = 0
        self.alive = True
        self.work: list[tuple[int, Any]] = []
        #: Implicit only: what the next call accepts.
        self._given: list[Place] = []
        #: What was accepted since the last commit().
        self._pending: set[Place] = set()
        self.quick = False

    @property
    def _core(self) -> Any:
        """The core, where faults find the process."""
        return self.consumer._core

    @property
    def member_id(self) -> str:
        """The member id, which stays the same."""
        managers: Any = self._core.engine.loop._managers
        member_id: str = managers.membership.member_id
        return member_id

    def _note(self, what: str) -> None:
        self._simulation.trace.note(f"member {self.number}: {what}")

    def timed(self, limit_ms: int, call: Any) -> Any:
        """Make a call, and check its duration."""
        began_ms = self._clock.now_ms()
        try:
            return call()
        finally:
            took_ms = self._clock.now_ms() - began_ms
            if took_ms > limit_ms + LATE_MS:
                raise Violation(f"member {self.number}: a call of {limit_ms} ms took {took_ms} ms")

    # --- reading -------------------------------------------------------------------------------

    def step(self, timeout_ms: int, *, fails: bool) -> None:
        """Let handlers end, and get records unless the application works on one.

        Args:
            timeout_ms: For poll().
            fails: Whether calls may raise.
        """
        self._end_work()
        if self._clock.now_ms() < self.busy_until_ms:
            return
        try:
            records = self._get(timeout_ms)
        except KafkaError:
            if not fails:
                raise
            return
        for record in records:
            self._handed_out(record)

    def _get(self, timeout_ms: int) -> list[Any]:
        match self._way:
            case "loop":
                return self._iterate()
            case "arrow" if HAS_ARROW:
                return self._poll_arrow(timeout_ms)
            case _:
                return self._poll(timeout_ms)

    def _poll(self, timeout_ms: int, max_records: int | None = None) -> list[Any]:
        self._done()
        batch = self.timed(timeout_ms, lambda: self.consumer.poll(timeout_ms, max_records))
        return [record for records in batch.values() for record in records]

    def _poll_arrow(self, timeout_ms: int) -> list[Any]:
        self._done()
        batch = self.timed(timeout_ms, lambda: self.consumer.poll_arrow(timeout_ms))
        return [_Row(self.consumer, batch.slice(row, 1)) for row in range(batch.num_rows)]

    def _iterate(self) -> list[Any]:
        self._done()
        record = self.timed(ITERATION_MS, lambda: next(self.consumer, None))
        return [] if record is None else [record]

    def _done(self) -> None:
        """Note that the next call accepts what the one before returned."""
        if self.explicit:
            return
        for place in self._given:
            self._ledger.acknowledged(self, place, "accept")
            self._pending.add(place)
        self._given = []

    def _handed_out(self, record: Any) -> None:
        place = TopicPartition(record.topic, record.partition), record.offset
        self._note(f"gets {place[0].partition}-{place[1]} for the {record.delivery_count}. time")
        self._ledger.handed_out(self, record)
        now_ms = self._clock.now_ms()
        duration_ms = 1 if self.quick else self._draw_duration_ms()
        if self.explicit:
            self.work.append((now_ms + duration_ms, record))
            return
        self.busy_until_ms = max(now_ms, self.busy_until_ms) + duration_ms
        decision = self.random.random()
        if self.quick or decision < 0.8:
            self._given.append(place)
        else:  # some records of a batch are decided on
            self._acknowledge(record, "release" if decision < 0.9 else "reject")

    def _draw_duration_ms(self) -> int:
        return self.random.randint(*self._durations_ms)

    def _end_work(self) -> None:
        now_ms = self._clock.now_ms()
        ended = [record for due_ms, record in self.work if due_ms <= now_ms]
        self.work = [each for each in self.work if each[0] > now_ms]
        for record in ended:
            choices = ["accept"] * 14 + ["release", "release", "reject", "renew", "forget"]
            how = "accept" if self.quick else self.random.choice(choices)
            if how == "forget" and self._renews_long:
                how = "accept"
            if how == "renew":
                self.work.append((now_ms + self.random.randint(1, 5_000), record))
            if how != "forget":
                self._acknowledge(record, how)

    def _acknowledge(self, record: Any, how: str) -> None:
        place = TopicPartition(record.topic, record.partition), record.offset
        self._note(f"{how} {place[0].partition}-{place[1]}")
        holder = self._ledger._holders.get(place)
        self._ledger.acknowledged(self, place, how)
        try:
            getattr(record, how)()
        except RecordLockLostError:
            self._ledger.check_lost(self, place)
            run, sure_ms = record._origin, record._origin.lock_times(record.offset)[0]
            if not run.partition.lost and self._clock.now_ms() < sure_ms:
                raise
            if holder is not None and how == "renew":
                self._ledger._holders.pop(place, None)
            return
        if how == "accept":
            self._pending.add(place)

    # --- calls ---------------------------------------------------------------------------------

    def commit(self, timeout_ms: int, *, fails: bool) -> None:
        """Call commit(), and note what it confirms."""
        self._note(f"commits within {timeout_ms} ms")
        try:
            outcome = self.timed(timeout_ms, lambda: self.consumer.commit(timeout_ms))
        except KafkaTimeoutError:
            if not fails:
                raise
            return  # the next one tells
        pending, self._pending = self._pending, set()
        for place in sorted(pending):
            if place[0] not in outcome:
                raise Violation(f"commit() says nothing of {place}: {outcome}")
            if outcome[place[0]] is None:
                self._ledger.confirm(place)

    def resubscribe(self) -> None:
        """Unsubscribe, and subscribe again."""
        self._note("unsubscribes")
        topics = self.consumer.subscription()
        self._ledger.let_go(self)
        with suppress(KafkaError):
            self.timed(CLOSING_MS, self.consumer.unsubscribe)
        self.consumer.subscribe(topics)

    def release_all(self) -> None:
        """Release everything; the next call accepts nothing."""
        self._note("releases all")
        self._drop()
        self._ledger.released_all(self)  # also those that the application has forgotten
        self.timed(CLOSING_MS, self.consumer.release_all)

    def _drop(self) -> None:
        """Note that all records in work are about to be released."""
        for place in self._given:
            self._ledger.acknowledged(self, place, "release")
        for _, record in self.work:
            place = TopicPartition(record.topic, record.partition), record.offset
            self._ledger.acknowledged(self, place, "release")
        self._given, self.work = [], []

    def close(self, limit_ms: int = CLOSING_MS) -> None:
        """Close the consumer; what was handed out last is accepted."""
        self._note("closes")
        self._done()
        self._drop()
        self._ledger.let_go(self)
        self.alive = False
        self.timed(limit_ms, self.consumer.close)

    def kill(self) -> None:
        """End the process: its threads do nothing more, and its connections break or not."""
        self._note("is killed")
        self.alive = False
        parked = self._core.driver.parked
        parked.stalled_until_ms = 2**60
        self._core.closed = True
        if self.random.random() < 0.5:
            parked.transport.close()
        else:
            self._simulation.network.freeze(parked.transport)
