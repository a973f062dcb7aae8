"""Record batches of share groups."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import pytest

from tandem_kafka import ShareConsumer
from tandem_kafka.consumer.share.columns import acknowledge_rows
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaConnectionError,
    KafkaTimeoutError,
    RecordDeserializationError,
    RecordLockLostError,
)
from tandem_kafka.state.locks import AcknowledgeType, LockedPartition
from tandem_kafka.types import ARROW_COLUMNS, DecodeErrors
from tandem_kafka.wire.messages import ShareAcknowledgeRequest
from tandem_kafka_testing import DROP, Call
from tests.scenarios.numbered_records import produce
from tests.simulation.sharing import LOCK_MS, TP, metric, places, session_of, sharing, take
from tests.unit.consumer.share.test_handing import DATA, World

pa = pytest.importorskip("pyarrow")

GOOD, BAD = b"7", b"no number"


class Numbers(NamedTuple):
    """A decoder."""

    errors: DecodeErrors = "raise"
    flatten: bool = False

    def decode(self, data: Any) -> tuple[Any, list[tuple[int, str]]]:
        texts = [each.as_py() for each in data]
        wrong = [(row, repr(text)) for row, text in enumerate(texts) if not text.isdigit()]
        return pa.array([int(each) if each.isdigit() else None for each in texts]), wrong


def take_batch(consumer: ShareConsumer[Any, Any], **form: Any) -> Any:
    """Poll until there is a record batch."""
    for _ in range(100):
        batch = consumer.poll_arrow(1_000, **form)
        if batch.num_rows:
            return batch
    raise AssertionError("no records")


def rows(batch: Any) -> list[tuple[int, int]]:
    return [(row["offset"], row["delivery_count"]) for row in batch.to_pylist()]


def test_a_batch_has_delivery_counts_and_is_accepted_by_the_next_call() -> None:
    with sharing("counts", brokers=1) as (simulation, start):
        first = start()
        done, *others = take(first, 3)
        done.accept()
        for record in others:
            record.release()
        first.commit()
        consumer = start("implicit")
        batch = take_batch(consumer)
        assert batch.schema.names == [*ARROW_COLUMNS, "delivery_count"]
        assert batch.schema.field("delivery_count").type == pa.int16()
        assert rows(batch) == [(1, 2), (2, 2)]
        assert batch.column("value").to_pylist() == [b"orders-0-1", b"orders-0-2"]
        assert consumer.poll_arrow(columns=["delivery_count", "offset"]).num_columns == 2
        assert consumer.commit() == {TP: None}
        simulation.sleep(LOCK_MS)
        assert consumer.poll(1_000) == {}


def test_rows_are_acknowledged_by_their_columns() -> None:
    with sharing("rows") as (_, start):
        consumer = start()
        fetched = take_batch(consumer)
        batch, other = fetched.slice(0, 2), fetched.slice(2)
        table = pa.Table.from_batches([batch]).select(["offset", "topic", "partition"])
        consumer.acknowledge(table.slice(0, 1), "accept")
        consumer.acknowledge(table.slice(1), "renew")
        consumer.acknowledge(table.slice(1), "release")
        assert consumer.commit() == {TP: None}
        with pytest.raises(IllegalStateError, match="2 of 2 records"):
            consumer.acknowledge(batch, "accept")
        consumer.acknowledge(other, "reject")
        consumer.commit()
        assert places(take(start(), 1)) == [(1, 2)]


def test_rows_without_a_lock_are_named_and_the_others_acknowledged() -> None:
    with sharing("lost rows") as (simulation, start):
        consumer = start()
        batch = take_batch(consumer)
        both = pa.Table.from_batches([batch.slice(0, 1), batch.slice(0, 1)])
        moved = both.set_column(2, "offset", pa.array([0, 7], pa.int64()))
        with pytest.raises(RecordLockLostError, match=r"1 of 2 records.* offset 7 of orders-0"):
            consumer.acknowledge(moved, "accept")
        assert consumer.commit() == {TP: None}
        simulation.sleep(LOCK_MS)
        with pytest.raises(RecordLockLostError, match="3 of 3 records"):
            consumer.acknowledge(batch, "accept")
        assert places(take(consumer, 2)) == [(1, 2), (2, 2)]


def test_an_old_batch_does_not_acknowledge_the_next_delivery() -> None:
    """It released records that were in work again."""
    with sharing("old rows", brokers=1) as (simulation, start):
        consumer = start()
        old = take_batch(consumer)
        simulation.sleep(LOCK_MS + 1_000)
        again = take_batch(consumer)
        with pytest.raises(RecordLockLostError, match="3 of 3 records"):
            consumer.acknowledge(old, "release")
        consumer.acknowledge(again.slice(0, 1), "accept")
        consumer.acknowledge(again.slice(1).drop_columns("delivery_count"), "accept")
        assert consumer.commit() == {TP: None}


def accept_newest(consumer: ShareConsumer, newest: Any, *older: Any) -> None:
    """Accept a batch, after each older one of two records was rejected by both kinds."""
    for old, how in product(older, ("release", "accept")):
        with pytest.raises(RecordLockLostError, match="2 of 2 records"):
            consumer.acknowledge(old, how)
    consumer.acknowledge(newest, "accept")
    assert consumer.commit() == {TP: None}


@pytest.mark.parametrize("acknowledged", [False, True])
def test_an_old_batch_does_not_acknowledge_a_delivery_that_the_broker_counts_the_same(
    *, acknowledged: bool
) -> None:
    """A new leader does not know of deliveries that the one before has not stored."""
    with sharing("moved rows") as (simulation, start):
        consumer = start()
        old = take_batch(consumer, max_records=2)
        simulation.cluster.move_leader(TP, 2)
        if acknowledged:
            consumer.acknowledge(old, "accept")
            assert isinstance(consumer.commit()[TP], RecordLockLostError)
        again = take_batch(consumer)
        assert rows(old) == [(0, 1), (1, 1)]
        assert rows(again) == [(0, 2), (1, 2), (2, 1)]
        accept_newest(consumer, again, old)


def test_an_old_batch_that_was_released_does_not_acknowledge_the_next_delivery() -> None:
    """The broker counts the second delivery as the first, and the third as the second."""
    with sharing("released rows") as (simulation, start):
        consumer = start()
        lost = take_batch(consumer, max_records=2)
        simulation.cluster.move_leader(TP, 2)
        released = take_batch(consumer, max_records=2)
        consumer.acknowledge(released, "release")
        assert consumer.commit() == {TP: None}
        again = take_batch(consumer)
        assert (rows(lost), rows(released)) == ([(0, 1), (1, 1)], [(0, 2), (1, 2)])
        assert rows(again) == [(0, 3), (1, 3), (2, 1)]
        accept_newest(consumer, again, lost, released)


def test_an_old_batch_without_an_answer_does_not_acknowledge_the_next_delivery() -> None:
    """The old leader is silent, so nobody knows yet that its acknowledgements are lost."""

    def answer(call: Call) -> Any:
        return DROP if call.broker.node_id == 1 else call.default()

    with sharing("silent leader") as (simulation, start):
        consumer = start(metadata_max_age_ms=300)
        old = take_batch(consumer, max_records=2)
        simulation.cluster.script(ShareAcknowledgeRequest, answer)
        simulation.cluster.move_leader(TP, 2)
        consumer.acknowledge(old, "accept")
        with pytest.raises(KafkaTimeoutError):
            consumer.commit(timeout_ms=100)
        again = consumer.poll_arrow(1_500)
        assert session_of(consumer).oldest is not None, "it has been answered"
        assert rows(again) == [(0, 2), (1, 2), (2, 1)]
        with pytest.raises(RecordLockLostError, match="2 of 2 records"):
            consumer.acknowledge(old, "release")
        consumer.acknowledge(again, "accept")
        assert isinstance(consumer.commit()[TP], KafkaConnectionError)
        simulation.sleep(LOCK_MS)
        assert consumer.poll(1_000) == {}


def test_an_old_batch_does_not_acknowledge_records_of_a_topic_that_replaced_its_own() -> None:
    """A row has the name of its topic, and not the id."""
    with sharing("recreated rows") as (simulation, start):
        consumer = start()
        old = take_batch(consumer, max_records=2)
        simulation.cluster.recreate_topic(TP.topic)
        produce(simulation, TP, 3)
        new = take_batch(consumer)
        assert rows(new) == [(0, 2), (1, 2), (2, 1)]
        accept_newest(consumer, new, old)


def test_records_of_a_topic_that_replaced_another_count_from_one_if_those_were_done() -> None:
    with sharing("recreated and done") as (simulation, start):
        consumer = start()
        consumer.acknowledge(take_batch(consumer), "accept")
        assert consumer.commit() == {TP: None}
        simulation.cluster.recreate_topic(TP.topic)
        produce(simulation, TP, 3)
        assert rows(take_batch(consumer)) == [(0, 1), (1, 1), (2, 1)]


class Backwards(Numbers):
    """A decoder that names the last value first."""

    def decode(self, data: Any) -> tuple[Any, list[tuple[int, str]]]:
        column, wrong = super().decode(data)
        return column, wrong[::-1]


def test_the_records_before_the_first_that_cannot_be_decoded() -> None:
    with sharing("backwards", brokers=1, count=0) as (simulation, start):
        simulation.cluster.produce(TP, GOOD, BAD, GOOD, BAD)
        before = take_batch(start(), value=Backwards())
        assert rows(before) == [(0, 1)]
        assert before.column("value").to_pylist() == [7]


def test_a_value_that_cannot_be_decoded_stays_locked_until_the_application_decides() -> None:
    with sharing("bad", brokers=1, count=0) as (simulation, start):
        simulation.cluster.produce(TP, GOOD, BAD, GOOD)
        consumer = start()
        value = Numbers()
        before = take_batch(consumer, value=value)
        assert rows(before) == [(0, 1)]
        assert before.column("value").to_pylist() == [7]
        for _ in range(3):
            with pytest.raises(RecordDeserializationError) as raised:
                consumer.poll_arrow(1_000, value=value)
            assert (raised.value.offset, raised.value.value) == (1, BAD)
            assert str(raised.value).endswith(
                "; poll(max_records=1) returns the record, to be rejected"
            )
        [[bad]] = consumer.poll(0, max_records=1).values()
        assert (bad.offset, bad.delivery_count) == (1, 1)
        bad.reject()
        after = take_batch(consumer, value=value)
        assert rows(after) == [(2, 1)]
        consumer.acknowledge(before, "accept")
        consumer.acknowledge(after, "accept")
        assert consumer.commit() == {TP: None}
        assert start().poll(2 * LOCK_MS) == {}


def test_keys_and_values_that_cannot_be_decoded_are_raised_in_the_order_of_records() -> None:
    with sharing("both", brokers=1, count=0) as (simulation, start):
        simulation.cluster.produce(TP, GOOD, BAD, GOOD, keys=(GOOD, GOOD, BAD))
        consumer = start()
        form: dict[str, Any] = {"key": Numbers(), "value": Numbers()}
        batch = take_batch(consumer, **form)
        assert [(row["offset"], row["key"], row["value"]) for row in batch.to_pylist()] == [
            (0, 7, 7)
        ]
        for offset in (1, 2):
            with pytest.raises(RecordDeserializationError) as raised:
                consumer.poll_arrow(1_000, **form)
            assert raised.value.offset == offset
            [[bad]] = consumer.poll(0, max_records=1).values()
            bad.reject()


def test_bad_values_are_null_or_dropped() -> None:
    with sharing("null", brokers=1, count=0) as (simulation, start):
        simulation.cluster.produce(TP, BAD, GOOD, BAD)
        explicit = start()
        batch = take_batch(explicit, value=Numbers("null"))
        assert rows(batch) == [(0, 1), (1, 1), (2, 1)]
        explicit.acknowledge(batch, "release")
        explicit.commit()
        implicit = start("implicit")
        assert rows(take_batch(implicit, value=Numbers("drop"))) == [(1, 2)]
        implicit.poll(0)
        assert implicit.commit() == {TP: None}
        simulation.cluster.produce(TP, BAD, BAD, GOOD)
        assert rows(take_batch(implicit, value=Numbers("drop"))) == [(5, 1)]


def test_one_call_goes_on_behind_a_batch_of_which_all_rows_are_dropped() -> None:
    """And accepts them; they were read again until the end of its time."""
    calls = iter(range(9))

    class Bounded(Numbers):
        def decode(self, data: Any) -> tuple[Any, list[tuple[int, str]]]:
            assert next(calls, None) is not None, "the same records are read again and again"
            return super().decode(data)

    with sharing("all dropped", brokers=1, count=0) as (simulation, start):
        consumer = start("implicit")
        for value in (BAD, BAD, GOOD):
            simulation.cluster.produce(TP, value)
        batch = consumer.poll_arrow(5_000, 2, value=Bounded("drop"))
        assert rows(batch) == [(2, 1)]
        consumer.poll()
        assert consumer.commit() == {TP: None}
        assert metric(consumer, "records-accepted-total") == 3


def test_offsets_that_are_no_integers_are_rejected() -> None:
    """12.0 was found, could not be sent, and ended the session and all its locks."""
    with sharing("floats", brokers=1) as (_, start):
        consumer = start()
        table = pa.Table.from_batches([take_batch(consumer)])
        floats = table.set_column(2, "offset", table["offset"].cast(pa.float64()))
        with pytest.raises(InvalidArgumentError, match="needs integers in offset, got double"):
            consumer.acknowledge(floats, "accept")
        with pytest.raises(InvalidArgumentError, match="offset is twice in topic, partition"):
            consumer.acknowledge(table.append_column("offset", table["offset"]), "accept")
        consumer.acknowledge(table, "accept")
        assert consumer.commit() == {TP: None}


def test_a_lost_lock_is_told_rather_than_a_second_acknowledgement() -> None:
    with sharing("lost rows", brokers=1) as (_, start):
        consumer = start()
        table = pa.Table.from_batches([take_batch(consumer)])
        consumer.acknowledge(table.slice(0, 1), "accept")
        foreign = table.slice(1, 1).set_column(
            0, table.schema.field("topic"), pa.array(["others"], table.schema.field("topic").type)
        )
        both = pa.concat_tables([table.slice(0, 1), foreign])
        with pytest.raises(RecordLockLostError, match=r"2 of 2 records, .* of others-0"):
            consumer.acknowledge(both, "accept")


def test_arguments_are_checked() -> None:
    with sharing("arguments", brokers=1) as (_, start):
        consumer = start()
        with pytest.raises(InvalidArgumentError, match=r"'lag' does not exist.* delivery_count"):
            consumer.poll_arrow(columns=["lag"])
        with pytest.raises(ArgumentTypeError, match="value must be a decoder"):
            consumer.poll_arrow(value=print)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match='errors="drop" leaves out records'):
            consumer.poll_arrow(value=Numbers("drop"))
        with pytest.raises(InvalidArgumentError, match="offset is missing in topic, partition"):
            consumer.acknowledge(take_batch(consumer, columns=["topic", "partition"]), "accept")
        for other in ([], None):
            with pytest.raises(ArgumentTypeError, match="a record batch or table of pyarrow, got"):
                consumer.acknowledge(other, "accept")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="how must be one of accept, release"):
            consumer.acknowledge(pa.table({}), "done")  # type: ignore[arg-type]
        with pytest.raises(IllegalStateError, match="cannot be used with key_deserializer"):
            start(value_deserializer=bytes.decode).poll_arrow()


def test_a_batch_of_several_deliveries_ends_before_what_cannot_be_decoded() -> None:
    with sharing("several", brokers=1, count=0) as (simulation, start):
        simulation.cluster.produce(TP, GOOD, GOOD, GOOD)
        first = start()
        for record in take(first, 3):
            record.release()
        assert first.commit() == {TP: None}
        first.close()
        simulation.cluster.produce(TP, GOOD, BAD, GOOD)
        consumer = start()
        batch = take_batch(consumer, value=Numbers())
        assert rows(batch) == [(0, 2), (1, 2), (2, 2), (3, 1)]
        with pytest.raises(RecordDeserializationError) as raised:
            consumer.poll_arrow(1_000, value=Numbers())
        assert raised.value.offset == 4
        [[bad]] = consumer.poll(0, max_records=1).values()
        bad.reject()
        consumer.acknowledge(batch, "accept")
        assert rows(take_batch(consumer, value=Numbers())) == [(5, 1)]


def test_a_record_that_was_not_handed_out_cannot_be_acknowledged() -> None:
    with sharing("not handed out", brokers=1) as (_, start):
        consumer = start()
        table = pa.Table.from_batches([take_batch(consumer, max_records=2)])
        ahead = table.set_column(2, "offset", pa.array([0, 2], pa.int64()))
        with pytest.raises(RecordLockLostError, match=r"1 of 2 records.* offset 2 of orders-0"):
            consumer.acknowledge(ahead, "accept")
        assert places(take(consumer, 1)) == [(2, 1)]


def test_rows_of_several_partitions_are_acknowledged_where_they_belong() -> None:
    with sharing("partitions", brokers=1, partitions=2) as (_, start):
        consumer = start()
        batches = []
        while sum(each.num_rows for each in batches) < 6:
            batches.append(take_batch(consumer))
        table = pa.Table.from_batches(batches)
        left = pa.array([row["offset"] == row["partition"] for row in table.to_pylist()])
        done = pa.array([not each.as_py() for each in left])
        consumer.acknowledge(table.filter(left), "release")
        consumer.acknowledge(table.filter(done), "accept")
        consumer.close()
        again = take(start(), 2)
        found = [(each.partition, each.offset, each.delivery_count) for each in again]
        assert sorted(found) == [(0, 0, 2), (1, 1, 2)]


def test_rows_without_a_count_mean_the_newest_lock() -> None:
    """A lock has ended at the broker before it has certainly ended here."""
    world = World(implicit=False)
    world.got(world.poll(6))
    newest = LockedPartition(TP, *world.locked.place[:1], 1, DATA, ((0, 5, 2),), world.records)
    newest.requested_ms = newest.received_ms = world.clock.now_ms()
    newest.lock_ms = world.locked.lock_ms
    world.records.add(newest)
    world.got(world.poll(6))
    table = pa.table({"topic": ["orders"], "partition": [0], "offset": [1]})
    acknowledge_rows(world.records, table, AcknowledgeType.ACCEPT)
    found = {each.how: each for each in world.records.take_acknowledgements()}
    assert found[AcknowledgeType.ACCEPT].partition is newest
