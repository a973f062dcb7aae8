"""The records of a partition behave like the list that kafka-python returns."""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import json
import operator
import pickle
from collections import deque
from collections.abc import MutableSequence

import kafka.consumer.fetcher
import pandas as pd
import pyarrow as pa
import pytest

from tandem_kafka.types import ConsumerRecord
from tests.unit.records.making import Rec, batch, reader

COUNT = 6


def taken(implementation, count=COUNT):
    """Return records as poll() does."""
    rows = [Rec(b"%d" % i, b"k", [(b"h", b"v")] if i == 4 else (), i) for i in range(count)]
    module = {"python": "python", "native": "native_reader"}[implementation]
    join = importlib.import_module(f"tandem_kafka.records.{module}").join_records
    return join([reader(batch(rows)).take(100)])


@pytest.fixture
def records(implementation):
    return taken(implementation)


@pytest.fixture
def plain(implementation):
    """Return the same records as a list."""
    return [record for record in taken(implementation)]  # noqa: C416 - without the iterator's hint


def pop(records):
    return [records.pop(), records.pop(0), len(records)]


def assign(records):
    records[0] = records[-1]
    records[1:3] = [1, 2, 3]
    del records[-1]
    return records[:]


def change(records):
    records.append(1)
    records.insert(0, 2)
    records.extend([3, 4])
    records.remove(2)
    records.reverse()
    return records[:]


def grow(records):
    other = records
    records += [1]
    records *= 2
    assert other is records
    return records[:]


def clear(records):
    records.clear()
    return [bool(records), len(records), list(records)]


def change_in_a_loop(records):
    seen = []
    for record in records:
        seen.append(record.offset)
        if record.offset in {1, 3}:
            records.remove(record)
    return seen


def match(records):
    match records:
        case [first, *rest]:
            return [first, len(rest)]
    return None


DOINGS = [
    pop,
    assign,
    change,
    grow,
    clear,
    change_in_a_loop,
    match,
    len,
    bool,
    list,
    tuple,
    repr,
    str,
    copy.copy,
    copy.deepcopy,
    lambda records: pickle.loads(pickle.dumps(records)),
    lambda records: sorted(records, key=lambda record: -record.offset),
    lambda records: records.sort(key=lambda record: -record.offset) or records[:],
    lambda records: [*reversed(records)],
    lambda records: [records[0], records[-1], records[2:4], records[::-2], records[10:]],
    lambda records: [records.index(records[3]), records.count(records[3]), records[3] in records],
    lambda records: records + [1],  # noqa: RUF005
    lambda records: [1] + records,  # noqa: RUF005
    lambda records: records + records,
    lambda records: sum([records, records], []),  # noqa: RUF017
    lambda records: functools.reduce(operator.iadd, [records, records], []),
    lambda records: [*records, 1],
    lambda records: records * 2 + 2 * records,
    lambda records: records.copy(),
    lambda records: [records == records[:], records != records[:], records == (), records == 5],
    lambda records: [records < records[:1], records >= records[:1], records > []],
    lambda records: [hasattr(records, "dtype"), isinstance(records, list)],
    lambda records: [isinstance(records, MutableSequence), callable(records.append)],
    lambda records: json.dumps([record._replace(key=1, value=2, headers=[]) for record in records]),
    deque,
    lambda records: dict(enumerate(records)),
    lambda records: pd.DataFrame(records).to_dict(),
    lambda records: pa.array([record.value for record in records]),
    lambda records: [record.value for record in records for _ in records],
    lambda records: next(iter(records)),
    lambda records: operator.lt([], records),
    lambda records: max(records, key=lambda record: record.offset),
]


@pytest.mark.parametrize("number", range(len(DOINGS)))
def test_all_operations_of_a_list_work_alike(records, plain, number):
    assert type(plain) is list
    assert DOINGS[number](records) == DOINGS[number](plain)
    assert list(records) == plain
    assert records == plain
    assert plain == records


def test_a_list_that_grows_by_it_is_the_same_list(records, plain):
    whole = other = []
    whole += records
    whole += records
    assert whole is other
    assert other == plain + plain
    holder = {"all": other}
    holder["all"] += records
    assert len(other) == 3 * COUNT
    sums = other + records
    assert sums is not other
    assert (len(sums), len(other)) == (4 * COUNT, 3 * COUNT)


def test_other_sequences_accept_it_like_a_list(records, plain):
    queue = deque()
    queue += records
    assert list(queue) == plain
    with pytest.raises(TypeError):
        () + records  # noqa: RUF005
    with pytest.raises(TypeError):
        records + ()  # noqa: RUF005
    with pytest.raises(TypeError):
        hash(records)
    with pytest.raises(TypeError):
        records["a"]
    with pytest.raises(AttributeError, match="nothing"):
        records.nothing  # noqa: B018
    with pytest.raises(IndexError, match="list index out of range"):
        records[COUNT]


@pytest.mark.parametrize(
    "touch",
    [
        lambda _: None,
        list,
        lambda records: [record for record in records],  # noqa: C416
        lambda records: records.append(1) or records.pop(),
    ],
    ids=["untouched", "a list of it", "a loop", "changed"],
)
def test_a_referenced_record_stays_the_record_of_its_index(records, touch):
    third = records[3]
    for record in records:
        if record.offset in {0, 2}:
            record.headers.append(("seen", b"1"))
        if record.offset == 4:
            record.headers[0] = ("h", b"other")
            kept = record
    touch(records)
    assert records[3] is third
    assert records[4] is kept
    assert next(record for record in records if record.offset == 4) is kept
    assert [len(record.headers) for record in records] == [1, 0, 1, 0, 1, 0]
    assert kept.headers == [("h", b"other")]


def test_the_record_of_a_loop_is_the_one_at_its_index(records):
    previous = None
    for index, record in enumerate(records):
        assert records[index] is record  # noqa: PLR1736 - not the same for an iterator
        assert previous is None or records[index - 1] is previous
        assert (record is records[-1]) == (index == COUNT - 1)
        previous = record
    assert records[-1] is previous


def test_the_record_of_a_loop_is_the_one_in_the_list(records):
    for record in records:
        if record.offset == 3:
            break
    records.append(1)
    assert records[3] is record


def test_it_is_lazy_while_it_is_counted(implementation):
    if implementation == "python":
        pytest.skip("the Python implementation makes a list at once")
    records = taken(implementation)
    part = records.part(0, 3)  # an error once it has become a list
    assert (len(records), bool(records), records[0].offset, len(part)) == (COUNT, True, 0, 3)
    assert [record.offset for record in records] == list(range(COUNT))
    assert len(records.part(0, 3)) == 3
    records.append(1)
    with pytest.raises(ValueError, match="list"):
        records.part(0, 3)


def test_a_record_is_an_instance_of_kafka_pythons_class(records):
    for record in (records[0], next(iter(records)), list(records)[0]):  # noqa: RUF015
        assert type(record) is ConsumerRecord
        assert isinstance(record, kafka.consumer.fetcher.ConsumerRecord)
        theirs = kafka.consumer.fetcher.ConsumerRecord(*record)
        assert record == theirs
        assert theirs == record
        assert repr(record) == repr(theirs)
        assert record._asdict() == theirs._asdict()
        assert record._fields == theirs._fields
        assert pickle.loads(pickle.dumps(record)) == theirs
        assert copy.deepcopy(record) == theirs
        assert type(record._replace(value=1)) is ConsumerRecord
        assert "%s %s" % record[:2] == "topic 3"  # noqa: UP031 - C code that reads the tuple
        decoded = record._replace(key=None, value={"a": 1})
        assert json.loads(json.dumps(decoded)) == [
            *theirs[:6],
            None,
            {"a": 1},
            [],
            None,
            *theirs[10:],
        ]
        assert type(record.headers) is list


def test_records_of_bytes_cost_the_garbage_collection_nothing(implementation):
    if implementation == "python":
        pytest.skip("the Python implementation makes ordinary tuples")
    for record in taken(implementation).copy():
        assert not gc.is_tracked(record)
        assert not gc.is_tracked(record.headers)
