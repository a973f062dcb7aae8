"""The lazy sequence of records."""

from __future__ import annotations

import pytest

from tandem_kafka.types import ConsumerRecord
from tests.unit.records.making import Rec, batch, reader


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
def test_slices_are_records_too(records, part):
    assert type(records[part]) is type(records)
    assert records[part] == list(records)[part]


def test_it_equals_a_list_of_the_same(records):
    assert records == list(records)
    assert records == tuple(records)
    assert records == records[:]
    assert records != list(records)[:-1]
    assert records != [*list(records)[:-1], None]
    assert records != 5
    with pytest.raises(TypeError):
        hash(records)


def test_it_shows_little(records):
    assert repr(records) == "<10 records of topic-3, offsets 20 to 29>"
    assert repr(records[:0]) == "<no records of topic-3>"
    assert (records.topic, records.partition) == ("topic", 3)


def test_columns_join():
    data = batch([Rec(b"a")]) + batch([Rec(b"b", headers=[(b"h", b"")])], 1)
    columns = reader(data).take(5).columns
    assert columns.values == [b"a", b"b"]
    assert columns.headers == [[], [("h", b"")]]
    assert columns.checksums is None
