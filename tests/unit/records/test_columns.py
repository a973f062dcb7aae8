"""The lazy sequence of records."""

from __future__ import annotations

import importlib
import pickle

import pytest

from tandem_kafka.types import ConsumerRecord
from tests.unit.records.making import Rec, batch, reader, using


@pytest.fixture
def records():
    return reader(batch([Rec(b"%d" % i) for i in range(10)], 20), 20).take(100)


def test_it_is_a_sequence(records):
    assert len(records) == 10
    assert records[0].offset == 20
    assert records[-1].value == b"9"
    assert isinstance(records[3], ConsumerRecord)
    assert [r.offset for r in reversed(records)] == list(range(29, 19, -1))
    assert records[4] in records
    assert records.index(records[4]) == 4
    with pytest.raises(IndexError):
        records[10]
    with pytest.raises(IndexError):
        records[-11]


@pytest.mark.parametrize("part", [slice(2, 5), slice(None, None, -2), slice(8, 100), slice(3, 3)])
def test_slices(records, part):
    whole = list(records)
    assert list(records[part]) == whole[part]


def test_it_equals_a_list_of_the_same(records):
    assert records == list(records)
    assert records == records[:]
    assert records != list(records)[:-1]
    assert records != [*list(records)[:-1], None]
    assert records != 5
    with pytest.raises(TypeError):
        hash(records)


def test_the_interface_within_the_package(records):
    assert [record.offset for record in records.part(2, 5)] == [22, 23, 24]
    assert len(records.part(0, 100)) == 10
    assert len(records.part(10, 10)) == 0
    assert [records.before(offset) for offset in (0, 20, 21, 29, 30, 99)] == [0, 0, 1, 9, 10, 10]
    assert records.place_of(9) == (29, 5)
    with pytest.raises(IndexError):
        records.place_of(10)


def test_parts_are_joined(implementation):
    data = batch([Rec(b"a")]) + batch([Rec(b"b", headers=[(b"h", b"")])], 1) + batch(base_offset=2)
    source = reader(data)
    parts = [source.take(1), source.take(1), source.take(1)]
    joined = joiner(implementation)(parts)
    assert joined == [record for part in parts for record in part]
    assert [record.headers for record in joined] == [[], [("h", b"")], []]
    assert joiner(implementation)(parts[1:2]) == list(parts[1])
    assert joiner(implementation)([parts[0], list(parts[1])]) == joined[:2]
    alone = list(parts[0])
    assert joiner(implementation)([alone]) is alone


def joiner(implementation):
    module = {"python": "python", "native": "native_reader"}[implementation]
    return importlib.import_module(f"tandem_kafka.records.{module}").join_records


def test_columns_of_the_python_implementation_join():
    data = batch([Rec(b"a")]) + batch([Rec(b"b", headers=[(b"h", b"")])], 1)
    with using("python"):
        columns = reader(data).take(5).columns
    assert columns.values == [b"a", b"b"]
    assert columns.headers == [[], [("h", b"")]]
    assert columns.checksums is None


def test_a_record_is_a_tuple_of_its_fields(records):
    record = records[3]
    assert type(record) is ConsumerRecord
    assert isinstance(record, tuple)
    [plain] = pickle.loads(pickle.dumps([record]))
    assert type(plain) is ConsumerRecord
    assert plain == record
    assert record == plain
    assert record == tuple(plain)
    assert record != records[4]
    assert record < records[4]
    assert record != 5
    assert len(record) == len(ConsumerRecord._fields)
    assert record._fields == ConsumerRecord._fields
    assert (record[3], record[-1], record[6:8]) == (23, -1, (None, b"3"))
    topic, partition, _, offset, *_ = record
    assert (topic, partition, offset) == ("topic", 3, 23)
    for other in ({"value": 5}, {"key": b"k", "value": None}, {"value": 1, "key": 2, "offset": 3}):
        assert record._replace(**other) == plain._replace(**other)
        assert type(record._replace(**other)) is ConsumerRecord
    with pytest.raises(ValueError, match="other"):
        record._replace(key=1, other=2)
    assert record._asdict() == plain._asdict()
    assert repr(record) == repr(plain)
    assert repr(record).startswith("ConsumerRecord(topic='topic', partition=3, leader_epoch=5")
    with pytest.raises(TypeError):
        hash(record)
    with pytest.raises(AttributeError):
        record.value = b"other"
    with pytest.raises(IndexError):
        record[13]


def test_views_of_key_and_value():
    [first, second] = reader(batch([Rec(b"value", b"key"), Rec(None, b"")])).take(2)
    assert bytes(first.value_view) == b"value"
    assert bytes(first.key_view) == b"key"
    assert first.value_view.readonly
    assert second.value_view is None
    assert second.key_view.nbytes == 0


def test_a_view_outlives_everything_else():
    source = reader(batch([Rec(b"v" * 100_000)]))
    view = source.take(1)[0].value_view
    del source
    for _ in range(20):
        reader(batch([Rec(b"x" * 100_000)])).take(1)
    assert view == b"v" * 100_000


def test_an_iterator_has_a_length_hint(records):
    iterator = iter(records)
    next(iterator)
    assert len(list(iterator)) == 9
    assert next(iterator, None) is None
