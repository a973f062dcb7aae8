"""Workers on a simulated cluster: order, commits, retries, back-pressure, the end of a run."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    KafkaTimeoutError,
    RecordFailedError,
)
from tandem_kafka.runtime import Random
from tandem_kafka.types import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from tandem_kafka.workers import Retry
from tandem_kafka_testing.simulation import Simulation
from tests.simulation.simulated_workers import KINDS, OPTIONS, keyed_workers, simulated_workers

TP = TopicPartition("orders", 0)


def filled(simulation: Simulation, count: int, partitions: int = 1) -> None:
    simulation.cluster.create_topic("orders", partitions)
    for partition in range(partitions):
        values = [b"%d" % number for number in range(count)]
        simulation.cluster.produce(TopicPartition("orders", partition), *values)


def key_of(record: Any) -> int:
    """Return the key of a record: simulated records have none of their own."""
    return int(record.value) % 7


def reader(simulation: Simulation, **options: Any) -> KafkaConsumer:
    return simulation.consumer("orders", **OPTIONS, **options)


def committed(simulation: Simulation, tp: TopicPartition = TP) -> Any:
    return simulation.cluster.committed("billing", tp)


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_a_key_are_handled_in_order_and_others_in_parallel(kind: str) -> None:
    with Simulation() as simulation:
        filled(simulation, 300)
        random, handled = Random(1), []
        busy = most_busy = 0

        def duration_ms() -> int:
            nonlocal busy, most_busy
            busy += 1
            most_busy = max(most_busy, busy)
            return random.randrange(1, 50)

        def handle(record: Any) -> None:
            nonlocal busy
            busy -= 1
            handled.append(record.offset)

        options: dict[str, Any] = {"key": key_of, "duration_ms": duration_ms}
        with keyed_workers(kind, simulation, handle, **options) as workers:
            workers.run(until=lambda: workers.done == 300)
        for key in range(7):
            offsets = [offset for offset in handled if offset % 7 == key]
            assert offsets == sorted(offsets)
        assert most_busy == 4
        assert handled != sorted(handled)
        assert committed(simulation) == 300


def test_a_crash_repeats_only_what_no_commit_marks() -> None:
    """Offset 0 is never done, the others are: the next owner handles offset 0 and what is new."""
    with Simulation() as simulation:
        filled(simulation, 40)
        first = reader(simulation, session_timeout_ms=6_000)
        seen: list[int] = []

        def handle(record: Any) -> None:
            if record.offset == 0:
                raise ValueError("not yet")
            seen.append(record.offset)

        workers = simulated_workers(
            simulation, first, handle, order="none", retry=Retry(None), commit_interval_ms=500
        )
        until_ms = simulation.clock.now_ms() + 5_000
        crashed = RuntimeError("the process is killed")

        def crash() -> bool:
            if simulation.clock.now_ms() < until_ms:
                return False
            workers._settings.workers.killed = True  # type: ignore[union-attr]
            kill(simulation, first)
            raise crashed

        with pytest.raises(RuntimeError, match="killed"):
            workers.run(until=crash)
        assert sorted(seen) == list(range(1, 40))
        assert committed(simulation) == 0
        simulation.cluster.produce(TP, b"40")
        again: list[int] = []
        others = simulated_workers(
            simulation, reader(simulation), lambda record: again.append(record.offset), order="none"
        )
        others.run(until=lambda: committed(simulation) == 41 or len(again) > 2)
        assert sorted(again) == [0, 40]
        assert committed(simulation) == 41


def kill(simulation: Simulation, consumer: KafkaConsumer) -> None:
    """End a process: its network thread does nothing more."""
    parked: Any = consumer._core.driver.parked  # type: ignore[attr-defined]
    parked.stalled_until_ms = 2**60
    consumer._core.closed = True
    simulation.consumers.remove(consumer)


def test_a_record_that_fails_is_retried_while_other_keys_go_on() -> None:
    with Simulation() as simulation:
        filled(simulation, 70)
        calls: Counter[int] = Counter()
        handled: list[int] = []

        def handle(record: Any) -> None:
            calls[record.offset] += 1
            if record.offset == 3 and calls[3] < 4:
                raise ValueError("try again")
            handled.append(record.offset)

        workers = simulated_workers(
            simulation,
            reader(simulation),
            handle,
            key=key_of,
            retry=Retry(4, backoff_ms=(100, 400)),
        )
        began_ms = simulation.clock.now_ms()
        workers.run(until=lambda: len(handled) == 70)
        assert calls[3] == 4
        assert simulation.clock.now_ms() - began_ms >= (100 + 200 + 400) * 0.8
        key = [offset for offset in handled if offset % 7 == 3]
        assert key == list(range(3, 70, 7)), "the key waits for its record"
        assert handled[-10:] == key, "no other key waits"
        assert committed(simulation) == 70


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_further_attempts_stops_the_run(kind: str) -> None:
    with Simulation() as simulation:
        filled(simulation, 20)
        handled: list[int] = []

        def handle(record: Any) -> None:
            if record.offset == 5:
                raise ValueError("broken")
            handled.append(record.offset)

        making = keyed_workers(kind, simulation, handle, key=key_of)
        with making as workers, pytest.raises(RecordFailedError) as caught:
            workers.run()
        assert caught.value.record.offset == 5
        assert caught.value.attempts == 1
        assert isinstance(caught.value.__cause__, ValueError)
        assert 5 not in handled
        assert committed(simulation) == 5


def test_a_skipped_record_counts_as_done() -> None:
    with Simulation() as simulation:
        filled(simulation, 20)
        handled: list[int] = []

        def handle(record: Any) -> None:
            if record.offset == 5:
                raise ValueError("broken")
            handled.append(record.offset)

        workers = simulated_workers(
            simulation, reader(simulation), handle, key=key_of, exhausted="skip"
        )
        workers.run(until=lambda: len(handled) == 19)
        assert committed(simulation) == 20


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_a_dead_letter_counts_when_its_function_returns(refusals: int) -> None:
    with Simulation() as simulation:
        filled(simulation, 20)
        letters: list[tuple[int, str, int]] = []
        handled: list[int] = []
        left = [refusals]

        def handle(record: Any) -> None:
            if record.offset == 5:
                raise ValueError("broken")
            handled.append(record.offset)

        def to_dead_letters(record: Any, error: Exception, attempts: int) -> None:
            if left[0]:
                left[0] -= 1
                raise ConnectionError("no broker")
            letters.append((record.offset, str(error), attempts))

        workers = simulated_workers(
            simulation,
            reader(simulation),
            handle,
            key=key_of,
            retry=Retry(2),
            exhausted=to_dead_letters,
        )
        if refusals == 2:
            with pytest.raises(RecordFailedError, match="2 times") as caught:
                workers.run(until=lambda: bool(letters))
            assert isinstance(caught.value.__cause__, ConnectionError)
            assert committed(simulation) == 5
        else:
            workers.run(until=lambda: len(handled) == 19 and bool(letters))
            assert letters == [(5, "broken", 2)]
            assert committed(simulation) == 20


def test_no_more_records_are_handed_out_than_allowed_and_polling_continues() -> None:
    with Simulation() as simulation:
        filled(simulation, 500)
        consumer = reader(simulation, max_poll_interval_ms=10_000, max_poll_records=40)
        handled: list[int] = []
        most = [0]

        def handle(record: Any) -> None:
            handled.append(record.offset)
            most[0] = max(most[0], workers.progress()[TP].in_work)

        workers = simulated_workers(
            simulation,
            consumer,
            handle,
            order="none",
            at_once=1,
            duration_ms=lambda: 300,
            max_in_flight=50,
            drain_timeout_ms=5_000,
        )
        workers.run(until=lambda: len(handled) == 300)
        assert 40 < most[0] <= 50
        assert consumer.paused() == set()
        assert consumer.position(TP) == committed(simulation) == len(handled)


def test_a_poll_ends_as_soon_as_there_is_room() -> None:
    with Simulation() as simulation:
        filled(simulation, 400)
        consumer = reader(simulation)

        def handle(record: Any) -> None:
            if record.offset == 399:
                workers.stop()

        workers = simulated_workers(simulation, consumer, handle, order="none", max_in_flight=10)
        workers.run()
        assert committed(simulation) == 400
        assert simulation.clock.now_ms() < 10_000, "400 calls of 5 ms, four at once"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("failing", "keys"), [(49, 2_000), (51, 2_000), (99, 2_000), (30, 700)])
def test_records_in_backoff_hold_up_no_other_key(kind: str, failing: int, keys: int) -> None:
    """With more than half of `max_in_flight` in backoff, no other record was handled."""
    handled, most = handled_beside(kind, failing, keys)
    assert handled == [n for n in range(failing, 1_000) if n % keys >= failing]
    assert most <= 200


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_in_backoff_have_a_limit_too(kind: str) -> None:
    handled, most = handled_beside(kind, 300, 2_000)
    assert not handled
    assert 100 <= most <= 200


def handled_beside(kind: str, failing: int, keys: int) -> tuple[list[int], int]:
    """Return what is handled of 1,000 records while the first wait, and the most in work."""
    with Simulation() as simulation:
        filled(simulation, 1_000)
        handled: list[int] = []
        most = [0]

        def handle(record: Any) -> None:
            most[0] = max(most[0], workers.progress()[TP].in_work)
            if record.offset < failing:
                raise ValueError("a service is down")
            handled.append(record.offset)

        options: dict[str, Any] = {
            "key": lambda record: record.offset % keys,
            "max_in_flight": 100,
            "retry": Retry(None, backoff_ms=(600_000, 600_000)),
            "drain_timeout_ms": 100,
        }
        until_ms = simulation.clock.now_ms() + 60_000
        with keyed_workers(kind, simulation, handle, **options) as workers:
            workers.run(until=lambda: simulation.clock.now_ms() > until_ms)
        return sorted(handled), most[0]


def test_intake_stops_before_the_metadata_is_too_long() -> None:
    """Every second record is never done; the map has room for few of them."""
    with Simulation() as simulation:
        filled(simulation, 3_000)
        consumer = reader(simulation)
        handled: list[int] = []
        read = [0]

        def over() -> bool:
            read[0] = max(read[0], consumer.position(TP) if handled else 0)
            return simulation.clock.now_ms() > until_ms

        def handle(record: Any) -> None:
            if record.offset % 2 == 0:
                raise ValueError("never")
            handled.append(record.offset)

        workers = simulated_workers(
            simulation,
            consumer,
            handle,
            order="none",
            retry=Retry(None, backoff_ms=(10_000, 10_000)),
            metadata_limit_bytes=64,
            max_in_flight=200,
            commit_interval_ms=500,
        )
        until_ms = simulation.clock.now_ms() + 20_000
        workers.run(until=over)
        assert 100 < len(handled) < 300, "34 bytes of a bitset"
        assert read[0] <= 2 * len(handled) + 200, "no more is read than is handed out"
        commits = simulation.cluster.coordination.of("billing").offsets.committed
        assert 0 < len(commits[TP].metadata) <= 64


def test_foreign_metadata_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation() as simulation:
        filled(simulation, 10, partitions=2)
        other = reader(simulation)
        other.poll(2_000)
        both = [TopicPartition("orders", number) for number in range(2)]
        other.commit({tp: OffsetAndMetadata(4, "written by hand", -1) for tp in both})
        other.close()
        handled: list[int] = []
        workers = simulated_workers(
            simulation, reader(simulation), lambda record: handled.append(record.offset)
        )
        workers.run(until=lambda: len(handled) == 12)
        assert sorted(handled) == sorted([*range(4, 10)] * 2)
        assert caplog.text.count("is ignored") == 1


def test_the_end_of_a_transaction_is_committed_although_no_record_follows() -> None:
    """Otherwise the group has a lag until somebody writes again."""
    with Simulation() as simulation:
        filled(simulation, 10)
        consumer = reader(simulation, isolation_level="read_committed")
        workers = simulated_workers(
            simulation, consumer, lambda _: None, order="none", commit_interval_ms=100
        )
        workers.run(until=lambda: committed(simulation) == 10)
        transaction = simulation.cluster.transaction()
        transaction.produce(TP, b"dropped")
        transaction.abort()
        until_ms = simulation.clock.now_ms() + 5_000
        ended = [lambda: committed(simulation) == 12, lambda: simulation.clock.now_ms() > until_ms]
        workers.run(until=lambda: any(each() for each in ended))
        assert committed(simulation) == 12, "behind the dropped record and the marker"
        assert simulation.clock.now_ms() < until_ms


PROTOCOLS = [
    pytest.param({}, id="eager"),
    pytest.param({"partition_assignment_strategy": [CooperativeStickyAssignor]}, id="cooperative"),
    pytest.param({"group_protocol": "consumer"}, id="consumer"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_drains_and_hands_over_what_is_done(protocol: dict[str, Any]) -> None:
    with Simulation() as simulation:
        filled(simulation, 200, partitions=4)
        handled: Counter[tuple[int, int]] = Counter()
        calls: list[str] = []

        class Listener:
            def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
                progress = workers.progress()
                assert not revoked & progress.keys(), "the workers have drained them before"
                calls.append("revoked")

            def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                calls.append(f"assigned {len(assigned)}")

        def handle(record: Any) -> None:
            handled[record.partition, record.offset] += 1

        first = reader(simulation, **protocol)
        workers = simulated_workers(
            simulation, first, handle, order="none", at_once=2, listener=Listener()
        )
        workers.run(until=lambda: len(handled) > 100)
        other = simulation.consumer("orders", **OPTIONS, **protocol)
        at_join = len(handled)

        def shared() -> bool:
            other.poll(0)
            if other.assignment():
                other.pause(*other.assignment())
            return len(other.assignment()) == 2 and len(first.assignment()) == 2

        workers.run(until=shared)
        assert "revoked" in calls
        other.close()
        workers.run(until=lambda: len(handled) == 800)
        assert at_join < 800
        assert set(handled.values()) == {1}, "nothing is repeated, since all commits succeeded"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["orders.*", SubscriptionPattern("orders.*")])
def test_workers_take_over_a_pattern(kind: str, pattern: Any) -> None:
    """The application has subscribed to it; a topic that appears later is read too."""
    with Simulation() as simulation:
        filled(simulation, 10)
        handled: Counter[tuple[str, int]] = Counter()
        listened: list[TopicPartition] = []

        class Listener:
            def on_partitions_revoked(self, _: set[TopicPartition]) -> None: ...

            def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                listened.extend(assigned)

        def handle(record: Any) -> None:
            handled[record.topic, record.offset] += 1

        options = {**OPTIONS, "group_protocol": "consumer"}
        how = {"pattern": pattern, "consumer_options": options, "listener": Listener()}
        with keyed_workers(kind, simulation, handle, **how) as workers:
            workers.run(until=lambda: len(handled) == 10)
            simulation.cluster.create_topic("orders-of-today", 1)
            new = TopicPartition("orders-of-today", 0)
            simulation.cluster.produce(new, *[b"new"] * 10)
            workers.run(until=lambda: len(handled) == 20)
        assert {*handled.values()} == {1}
        assert {*listened} == {TP, new}
        assert [committed(simulation, tp) for tp in (TP, new)] == [10, 10]


def test_lost_partitions_are_fenced_at_once() -> None:
    """A call that ends after the loss changes nothing; the record is handled again."""
    with Simulation() as simulation:
        filled(simulation, 4)
        consumer = reader(simulation)
        handled: list[int] = []
        slow = iter([9_000])
        workers = simulated_workers(
            simulation,
            consumer,
            lambda record: handled.append(record.offset),
            order="partition",
            duration_ms=lambda: next(slow, 5),
            commit_interval_ms=100,
        )
        expelled: list[int] = []

        def over() -> bool:
            if workers.progress().get(TP) and not expelled and workers.progress()[TP].running:
                identity = consumer.group_metadata()
                simulation.cluster.expel("billing", identity.member_id)
                expelled.append(1)
            return len(handled) == 5

        workers.run(until=over)
        assert handled == [0, 0, 1, 2, 3]
        assert committed(simulation) == 4


def test_running_again_continues_where_the_consumer_is() -> None:
    """The last run has given back what it had not handled, once."""
    with Simulation() as simulation:
        filled(simulation, 100)
        consumer = reader(simulation)
        handled: list[int] = []
        workers = simulated_workers(
            simulation, consumer, lambda record: handled.append(record.offset), key=key_of
        )
        workers.run(until=lambda: len(handled) >= 30)
        assert committed(simulation) == consumer.position(TP) <= len(handled)
        handled += [record.offset for record in consumer.poll(1_000, 10)[TP]]
        workers.run(until=lambda: len(handled) >= 100)
        assert sorted(handled) == list(range(100))


def test_a_stop_ends_one_run_only() -> None:
    with Simulation() as simulation:
        filled(simulation, 40)
        handled: list[int] = []

        def handle(record: Any) -> None:
            handled.append(record.offset)
            if len(handled) == 10:
                workers.stop()

        workers = simulated_workers(simulation, reader(simulation), handle, order="none")
        workers.run()
        assert 10 <= len(handled) < 40
        workers.run(until=lambda: len(handled) == 40)
        assert sorted(handled) == list(range(40))


def test_an_exception_that_is_not_an_error_ends_the_run_and_is_raised() -> None:
    with Simulation() as simulation:
        filled(simulation, 10)

        def handle(record: Any) -> None:
            if record.offset == 4:
                raise SystemExit("enough")

        workers = simulated_workers(
            simulation, reader(simulation), handle, key=key_of, retry=Retry(None)
        )
        with pytest.raises(SystemExit, match="enough"):
            workers.run()
        assert committed(simulation) == 4


class FullDisk(logging.Handler):
    """A handler of logging that does not handle its own errors."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            raise OSError("no space left on device")


@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_handler_of_logging_ends_the_run_and_is_raised(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the record that is skipped would never be done, while run() goes on."""
    with Simulation() as simulation:
        filled(simulation, 10)

        def handle(record: Any) -> None:
            if record.offset == 4:
                raise ValueError("broken")

        with keyed_workers(kind, simulation, handle, key=key_of, exhausted="skip") as workers:
            monkeypatch.setattr(logging.getLogger("tandem_kafka"), "handlers", [FullDisk()])
            ends_ms = simulation.clock.now_ms() + 30_000
            with pytest.raises(OSError, match="no space"):
                workers.run(until=lambda: simulation.clock.now_ms() > ends_ms)
            assert committed(simulation) == 4
            monkeypatch.undo()
            workers.run(until=lambda: workers.done == 10)
        assert committed(simulation) == 10


async def coroutine(*_: Any) -> None:
    """Do nothing."""


def broken(_: Any) -> None:
    raise ValueError


@pytest.mark.parametrize(
    ("handle", "options", "told"),
    [
        (lambda _: coroutine(), {}, "use AsyncKeyedWorkers"),
        (broken, {"exhausted": coroutine}, "exhausted must be an ordinary function"),
    ],
)
def test_a_function_that_returns_a_coroutine_is_an_error(
    handle: Any, options: dict[str, Any], told: str
) -> None:
    """Nobody would await it, and its record would count as done."""
    with Simulation() as simulation:
        filled(simulation, 3)
        workers = simulated_workers(simulation, reader(simulation), handle, **options)
        with pytest.raises(ArgumentTypeError, match=told):
            workers.run()
        assert committed(simulation) == 0


def test_an_executor_that_was_shut_down_ends_the_run() -> None:
    with Simulation() as simulation:
        filled(simulation, 30)
        executor = ThreadPoolExecutor(1)
        executor.shutdown()
        workers = simulated_workers(simulation, reader(simulation), lambda _: None)
        workers._settings = dataclasses.replace(workers._settings, workers=executor)
        with pytest.raises(IllegalStateError, match="ThreadPoolExecutor accepts no more calls"):
            workers.run()
        assert workers.done == 0
        assert committed(simulation) == 0


@pytest.mark.parametrize("committed_before", [True, False])
def test_a_last_commit_that_fails_is_an_error_only_if_there_is_something_new(
    *, committed_before: bool
) -> None:
    with Simulation() as simulation:
        filled(simulation, 10)
        handled: list[int] = []
        workers = simulated_workers(
            simulation,
            reader(simulation),
            lambda record: handled.append(record.offset),
            commit_interval_ms=100 if committed_before else 60_000,
        )
        stopped: list[int] = []

        def over() -> bool:
            if committed(simulation) == (10 if committed_before else None) and len(handled) == 10:
                stopped.append(simulation.clock.now_ms())
                if len(stopped) == 5:  # the response to the commit has arrived, too
                    for node_id in simulation.cluster.brokers:
                        simulation.cluster.stop(node_id)
                    return True
            return False

        if committed_before:
            workers.run(until=over)
        else:
            with pytest.raises(KafkaTimeoutError, match="commit"):
                workers.run(until=over)
