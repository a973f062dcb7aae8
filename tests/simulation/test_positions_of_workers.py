"""The position of workers is that of their consumer: whatever moves it, none is committed ahead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka.runtime import Random
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.workers import Retry
from tandem_kafka.workers.done_map import DoneMap, decode, encode
from tandem_kafka_testing.cluster.apis import offset_commit
from tandem_kafka_testing.network import Conditions
from tandem_kafka_testing.simulation import Simulation
from tests.simulation.simulated_workers import simulated_workers
from tests.simulation.test_async_workers import workers_on
from tests.simulation.test_workers import OPTIONS, TP, committed, filled, reader

#: Both kinds of workers, as functions that run them until a condition holds.
KINDS = ["threads", "asyncio"]
LATEST: dict[str, Any] = {**OPTIONS, "auto_offset_reset": "latest"}


def run_on(
    kind: str,
    simulation: Simulation,
    options: dict[str, Any],
    handle: Callable[[Any], object],
    until: Callable[[], object],
    **settings: Any,
) -> None:
    """Run workers of a new consumer until a condition holds, and close it."""
    if kind == "threads":
        consumer = simulation.consumer("orders", **options)
        simulated_workers(simulation, consumer, handle, **settings).run(until=until)
        consumer.close()
        return

    async def handle_it(record: Any) -> None:
        await asyncio.sleep(0.005)
        handle(record)

    async def main() -> None:
        async with simulation.async_consumer("orders", **options) as consumer:
            await workers_on(simulation, consumer, handle_it, **settings).run(until=until)

    simulation.run(main())


def after(simulation: Simulation, seconds: int) -> Callable[[], bool]:
    until_ms = simulation.clock.now_ms() + seconds * 1_000
    return lambda: simulation.clock.now_ms() >= until_ms


def check_commit(simulation: Simulation, done: set[int]) -> None:
    """Nothing is committed or marked that was not handled."""
    commit = simulation.cluster.coordination.of("billing").offsets.committed.get(TP)
    if commit is None:
        return
    assert set(range(commit.offset)) <= done, f"{commit.offset} committed"
    ranges = decode(TP, commit.offset, commit.metadata or "").ranges
    assert {offset for first, end in ranges for offset in range(first, end)} <= done


# --- positions that move without records ---------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_where_a_new_group_begins_is_committed_although_no_record_comes(kind: str) -> None:
    """With "latest", what is produced during a rolling restart would be skipped."""
    with Simulation() as simulation:
        filled(simulation, 7)
        done: set[int] = set()
        handle = lambda record: done.add(record.offset)  # noqa: E731
        run_on(kind, simulation, LATEST, handle, after(simulation, 4), commit_interval_ms=300)
        assert committed(simulation) == 7
        simulation.cluster.produce(TP, *[b"1"] * 5)
        run_on(kind, simulation, LATEST, handle, lambda: len(done) == 5)
        assert done == set(range(7, 12))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("at", "deleted"), [(1_000, 0), (10, 80)])
def test_a_committed_offset_out_of_range_is_replaced(kind: str, at: int, deleted: int) -> None:
    with Simulation() as simulation:
        filled(simulation, 100)
        simulation.cluster.delete_records(TP, deleted)
        other = simulation.consumer(**LATEST)
        other.commit({TP: OffsetAndMetadata(at, "", -1)})
        done: set[int] = set()
        handle = lambda record: done.add(record.offset)  # noqa: E731
        run_on(kind, simulation, LATEST, handle, after(simulation, 4), commit_interval_ms=300)
        assert committed(simulation) == 100
        simulation.cluster.produce(TP, *[b"1"] * 5)
        run_on(kind, simulation, LATEST, handle, lambda: len(done) == 5)
        assert done == set(range(100, 105))


def test_what_is_in_work_is_done_before_a_later_position_is_committed() -> None:
    """Retention has overtaken the consumer: what it has read is still handled."""
    with Simulation() as simulation:
        filled(simulation, 20)
        consumer = simulation.consumer("orders", **LATEST)
        done: set[int] = set()
        ready: list[int] = []

        def handle(record: Any) -> None:
            if not ready:
                raise ValueError("not yet")
            done.add(record.offset)

        workers = simulated_workers(
            simulation, consumer, handle, retry=Retry(None), commit_interval_ms=300
        )
        consumer.assignment()
        seen: list[int] = []

        def over() -> bool:
            if not seen and consumer.assignment():
                consumer.seek(TP, 15)
                seen.append(1)
            progress = workers.progress().get(TP)
            if len(seen) == 1 and progress is not None and progress.in_work == 5:
                consumer.seek(TP, 1_000)  # out of range, so that "latest" applies
                simulation.cluster.produce(TP, *[b"1"] * 3)
                seen.append(2)
            if len(seen) == 2 and consumer.position(TP) == 23:
                seen.append(3)
                until_ms.append(simulation.clock.now_ms() + 2_000)
            if len(seen) == 3 and simulation.clock.now_ms() > until_ms[0]:
                assert committed(simulation) == 15
                ready.append(1)
                seen.append(4)
            return len(done) == 5 and committed(simulation) == 23

        until_ms: list[int] = []
        workers.run(until=over)
        assert done == set(range(15, 20))


@pytest.mark.parametrize(
    ("kind", "truncated"), [("threads", False), ("threads", True), ("asyncio", True)]
)
def test_what_is_in_work_before_an_earlier_position_is_done(kind: str, truncated: bool) -> None:
    """The position moves back to 30, by a seek or an unclean election; 10 waits for a retry."""
    with Simulation(brokers=2) as simulation:
        filled(simulation, 0)
        for number in range(50):
            simulation.cluster.produce(TP, b"%d" % number)
        done: list[int] = []
        moved: list[int] = []

        def handle(record: Any) -> None:
            if record.offset == 10 and len(done) < 69:
                raise ValueError("not yet")
            done.append(record.offset)

        def over() -> bool:
            if not moved and len(done) == 49:
                moved.append(1)
                if truncated:
                    leader = simulation.cluster.at(TP).leader
                    simulation.cluster.move_leader(TP, 3 - leader, truncate_to=30)
                    simulation.cluster.produce(TP, *[b"new"] * 20)
                else:
                    simulation.consumers[0].seek(TP, 30)
            assert 10 in done or committed(simulation) in {None, *range(11)}
            return committed(simulation) == 50 or until()

        until = after(simulation, 60)
        settings: dict[str, Any] = {"retry": Retry(None), "commit_interval_ms": 300}
        run_on(kind, simulation, OPTIONS, handle, over, order="none", **settings)
        assert committed(simulation) == 50
        assert sorted(done) == sorted([*range(50), *range(30, 50)])


@pytest.mark.parametrize("lost", [0, 12])
def test_a_truncation_after_a_run_is_noticed_by_the_next_one(lost: int) -> None:
    """The position that is given back has its leader epoch, by which the leader detects it."""
    with Simulation(brokers=2) as simulation:
        filled(simulation, 0)
        for number in range(20):
            simulation.cluster.produce(TP, b"%d" % number)
        done: list[bytes] = []
        consumer = reader(simulation, metadata_max_age_ms=1_000)
        workers = simulated_workers(simulation, consumer, lambda record: done.append(record.value))
        workers.run(until=lambda: len(done) == 20)
        leader = simulation.cluster.at(TP).leader
        simulation.cluster.move_leader(TP, 3 - leader, truncate_to=20 - lost)
        simulation.cluster.produce(TP, *[b"new"] * 30)
        until = after(simulation, 10)
        workers.run(until=lambda: done.count(b"new") == 30 or until())
        assert done.count(b"new") == 30


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("behind", [0, 1])
def test_an_aborted_transaction_of_a_new_leader_is_not_taken_for_a_truncation(
    kind: str, behind: int
) -> None:
    """No handler gets its records. What is committed behind them is not of the epoch before."""
    with Simulation(brokers=2) as simulation:
        filled(simulation, 2)
        simulation.cluster.move_leader(TP, 3 - simulation.cluster.at(TP).leader)
        transaction = simulation.cluster.transaction()
        transaction.produce(TP, b"2")
        transaction.abort()
        simulation.cluster.produce(TP, *[b"4"] * behind)
        options = {**OPTIONS, "isolation_level": "read_committed"}

        def refuse(record: Any) -> None:
            if record.offset == 4:
                raise ValueError("not now")

        run_on(kind, simulation, options, refuse, after(simulation, 6), retry=Retry(None))
        assert committed(simulation) == 4
        simulation.cluster.produce(TP, b"more")
        handled: list[int] = []
        options["auto_offset_reset"] = "none"  # raises if the log seems truncated
        run_on(kind, simulation, options, lambda r: handled.append(r.offset), after(simulation, 6))
        assert handled == list(range(4, 5 + behind))


# --- topics that are made anew -------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gap", [False, True])
def test_nothing_of_a_deleted_topic_counts_for_the_new_one(kind: str, gap: bool) -> None:
    """The topic is still empty when the position is reset, so no record tells of it."""
    with Simulation() as simulation:
        filled(simulation, 50)
        options = {**OPTIONS, "metadata_max_age_ms": 1_000}
        done: set[int] = set()
        recreated: list[int] = []

        def handle(record: Any) -> None:
            if gap and record.offset == 10 and not recreated:
                raise ValueError("slow")
            done.add(record.offset)

        def over() -> bool:
            if not recreated and len(done) == 50 - gap:
                simulation.cluster.recreate_topic("orders")
                recreated.append(simulation.clock.now_ms())
            return bool(recreated) and simulation.clock.now_ms() > recreated[0] + 6_000

        retries: dict[str, Any] = {"retry": Retry(None), "commit_interval_ms": 300, "order": "none"}
        run_on(kind, simulation, options, handle, over, **retries)
        assert committed(simulation) in {0, None}
        done.clear()
        simulation.cluster.produce(TP, *[b"%d" % n for n in range(60)])
        run_on(kind, simulation, options, handle, after(simulation, 10))
        assert done == set(range(60))
        assert committed(simulation) == 60


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0, 1])
def test_a_partition_that_cannot_be_reset_yet_is_not_committed_to_the_new_topic(
    kind: str, missing: int
) -> None:
    """Its leader is down. The other one is committed nevertheless."""
    with Simulation(brokers=2) as simulation:
        filled(simulation, 50, partitions=2)
        options = {**OPTIONS, "metadata_max_age_ms": 1_000}
        there, gone = TopicPartition("orders", 1 - missing), TopicPartition("orders", missing)
        done: list[tuple[int, int]] = []
        recreated: list[int] = []

        def over() -> bool:
            if not recreated and len(done) == 100:
                recreated.append(simulation.clock.now_ms())
                simulation.cluster.recreate_topic("orders")
                leader = simulation.cluster.at(gone).leader
                simulation.cluster.fail_over("billing", 3 - leader)
                simulation.cluster.stop(leader)
                simulation.cluster.produce(there, *[b"new"] * 5)
            return bool(recreated) and simulation.clock.now_ms() > recreated[0] + 8_000

        handle = lambda record: done.append((record.partition, record.offset))  # noqa: E731
        run_on(kind, simulation, options, handle, over, commit_interval_ms=300)
        assert committed(simulation, there) == 5
        assert committed(simulation, gone) is None


@pytest.mark.parametrize("missing", [False, True])
def test_a_run_gives_no_position_of_a_deleted_topic_back(missing: bool) -> None:
    """The run ends before it is told that its topic was made again."""
    with Simulation() as simulation:
        filled(simulation, 30)
        consumer = reader(simulation, metadata_max_age_ms=500)
        done: list[bytes] = []
        workers = simulated_workers(simulation, consumer, lambda record: done.append(record.value))
        workers.run(until=lambda: len(done) == 30)

        def recreate() -> None:
            simulation.cluster.create_topic("orders", 1)
            simulation.cluster.produce(TP, *[b"new"] * 40)

        def over() -> bool:
            if workers.progress()[TP].base is None:
                return False
            simulation.cluster.delete_topic("orders")
            if not missing:
                recreate()
            simulation.sleep(3_000)
            return True

        workers.run(until=over)
        if missing:
            recreate()
        until = after(simulation, 20)
        workers.run(until=lambda: done.count(b"new") == 40 or until())
        assert done.count(b"new") == 40


@pytest.mark.parametrize("kind", KINDS)
def test_marks_beyond_the_end_of_the_log_are_no_marks(kind: str) -> None:
    with Simulation() as simulation:
        filled(simulation, 12)
        metadata, _ = encode(TP, 8, DoneMap(((9, 11), (12, 500)), 40), 4_096)
        other = simulation.consumer(**OPTIONS)
        other.commit({TP: OffsetAndMetadata(8, metadata, -1)})
        done: set[int] = set()
        produced: list[int] = []

        def over() -> bool:
            if not produced and done >= {8, 11}:
                simulation.cluster.produce(TP, *[b"1"] * 40)
                produced.append(1)
            return committed(simulation) == 52

        handle = lambda record: done.add(record.offset)  # noqa: E731
        run_on(kind, simulation, OPTIONS, handle, over, commit_interval_ms=300)
        assert done == {8, *range(11, 52)}


@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_another_topic_are_no_marks(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """An old member may have committed them by name, before it noticed that its topic was gone."""
    with Simulation() as simulation:
        filled(simulation, 12)
        metadata, _ = encode(TP, 2, DoneMap(((3, 10),), 40, topic=12345), 4_096)
        simulation.consumer(**OPTIONS).commit({TP: OffsetAndMetadata(2, metadata, -1)})
        done: set[int] = set()
        handle = lambda record: done.add(record.offset)  # noqa: E731
        run_on(kind, simulation, OPTIONS, handle, lambda: committed(simulation) == 12)
        assert done == set(range(2, 12))
        assert "deleted topic" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_whose_leader_is_missing_holds_up_no_other(kind: str) -> None:
    """Its marks are believed only once the end of its log is known."""
    with Simulation(brokers=2) as simulation:
        filled(simulation, 10, partitions=2)
        other = simulation.consumer(**OPTIONS)
        metadata, _ = encode(TP, 2, DoneMap(((3, 10),), 40), 4_096)
        other.commit({TP: OffsetAndMetadata(2, metadata, -1)})
        leader = simulation.cluster.at(TP).leader
        simulation.cluster.fail_over("billing", 3 - leader)
        simulation.cluster.stop(leader)
        done: set[tuple[int, int]] = set()
        handle = lambda record: done.add((record.partition, record.offset))  # noqa: E731
        until = after(simulation, 12)
        run_on(kind, simulation, OPTIONS, handle, lambda: len(done) == 10 or until())
        assert done == {(1, offset) for offset in range(10)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_whose_leader_is_slow_begins(kind: str) -> None:
    """Each response takes longer than the first lookup of the end of the log."""
    with Simulation(conditions=Conditions(latency_ms=(600, 700))) as simulation:
        filled(simulation, 10)
        metadata, _ = encode(TP, 2, DoneMap(((3, 5),), 40), 4_096)
        simulation.consumer(**OPTIONS).commit({TP: OffsetAndMetadata(2, metadata, -1)})
        done: set[int] = set()
        until = after(simulation, 120)
        handle = lambda record: done.add(record.offset)  # noqa: E731
        run_on(kind, simulation, OPTIONS, handle, lambda: len(done) == 6 or until())
        assert done == {2, *range(5, 10)}


# --- metadata that are too long ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_too_long_for_the_broker_does_not_keep_the_offset(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commit, "_MAX_METADATA", 100)
    with Simulation() as simulation:
        filled(simulation, 600)
        random = Random(1)
        undone = {offset for offset in range(50, 600) if not random.randrange(2)}
        done: set[int] = set()

        def handle(record: Any) -> None:
            if record.offset in undone:
                raise ValueError("not yet")
            done.add(record.offset)

        until = after(simulation, 10)
        settings: dict[str, Any] = {"retry": Retry(None), "order": "none"}
        run_on(kind, simulation, OPTIONS, handle, until, commit_interval_ms=300, **settings)
        assert committed(simulation) == min(undone)
        (line,) = {r.getMessage() for r in caplog.records if "metadata_limit" in r.getMessage()}
        size = re.search(r"(\d+) bytes", line)
        assert size is not None
        assert int(size[1]) > 100
        check_commit(simulation, done)
        commit = simulation.cluster.coordination.of("billing").offsets.committed[TP]
        assert commit.metadata, "a shorter map is committed again"


def test_the_last_commit_of_a_run_needs_no_room_for_its_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_commit, "_MAX_METADATA", 10)
    with Simulation() as simulation:
        filled(simulation, 20)

        def handle(record: Any) -> None:
            if record.offset == 5:
                raise ValueError("not yet")

        workers = simulated_workers(
            simulation, reader(simulation), handle, retry=Retry(None), order="none"
        )
        workers.run(until=lambda: workers.done == 19)
        assert committed(simulation) == 5
