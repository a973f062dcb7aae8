"""The records of a partition behave like the list that kafka-python returns."""

from __future__ import annotations

import bisect
import copy
import dataclasses
import functools
import gc
import heapq
import importlib
import json
import operator
import pickle
import pprint
import random
import weakref
from collections import UserList, abc, deque

import kafka.consumer.fetcher
import numpy as np
import pandas as pd
import polars as pl
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
    """Return the same records as kafka-python does."""
    return [kafka.consumer.fetcher.ConsumerRecord(*record) for record in taken(implementation)]


def result(doing, records):
    """Return the result of an operation, or the type of its exception."""
    try:
        return doing(records)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error)


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


def double(records):
    records.extend(records)
    records += records
    return records[:]


def replace_a_slice_by_itself(records):
    records[2:4] = records
    return records[:]


def compare_pairs(records):
    return [a is b for a in records for b in records]


def go_on_with_a_copied_iterator(records):
    iterator = iter(records)
    first = next(iterator)
    second = copy.copy(iterator)
    rest = list(iterator)
    loaded = pickle.loads(pickle.dumps(iterator))
    return [first, rest, list(second), list(loaded), list(copy.copy(iterator))]


def fields(holder):
    return dataclasses.make_dataclass("Holder", ["records"])(holder)


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
    lambda records: [isinstance(records, abc.MutableSequence), callable(records.append)],
    lambda records: json.dumps([record._replace(key=1, value=2, headers=[]) for record in records]),
    deque,
    lambda records: dict(enumerate(records)),
    lambda records: pd.DataFrame(records).to_dict(),
    lambda records: pa.array([record.value for record in records]),
    lambda records: [record.value for record in records for _ in records],
    lambda records: next(iter(records)),
    lambda records: operator.lt([], records),
    lambda records: max(records, key=lambda record: record.offset),
    double,
    replace_a_slice_by_itself,
    compare_pairs,
    go_on_with_a_copied_iterator,
    lambda records: [a is b for a, b in zip(records, records, strict=True)],
    lambda records: [a is b for a, b in zip(records, records[:], strict=True)],
    lambda records: [a is b for a, b in zip(records, sorted(records), strict=True)],
    lambda records: dataclasses.asdict(fields(records)),
    lambda records: dataclasses.astuple(fields(records)),
    lambda records: [type(each(records)) for each in (copy.copy, copy.deepcopy)],
    lambda records: json.dumps(records, default=repr, indent=1),
    json.dumps,
    lambda records: [isinstance(records, getattr(abc, name)) for name in ABSTRACT],
    lambda records: [records[True], records[np.int64(1)], records * np.int64(2)],
    lambda records: records[1.0],
    lambda records: records[None],
    lambda records: records[-COUNT - 1],
    lambda records: records[10**30],
    lambda records: operator.setitem(records, 99, 1),
    lambda records: operator.setitem(records, slice(0, 4, 2), [1]),
    lambda records: operator.setitem(records, slice(0, 4), 5),
    lambda records: operator.delitem(records, 99),
    lambda records: operator.delitem(records, slice(0, 6, 2)) or records[:],
    lambda records: records.pop(99),
    lambda records: records.remove(77),
    lambda records: records.index(77),
    lambda records: records.index(records[2], 3),
    lambda records: records.insert("a", 5),
    lambda records: records.append(),
    lambda records: records.extend(5),
    lambda records: records.sort(key=lambda record: record.nothing),
    lambda records: records + (1,),  # noqa: RUF005
    lambda records: (1,) + records,  # noqa: RUF005
    lambda records: records + None,
    lambda records: records * 1.5,
    lambda records: records < 5,
    lambda records: [1] < records,  # noqa: SIM300
    lambda records: operator.iadd(records, 5),
    lambda records: operator.iadd(records, (1, 2)),
    lambda records: operator.imul(records, "a"),
    lambda records: "%s %s %s %s %s %s" % records,  # noqa: UP031
    lambda records: [f"{records}", f"{records!s}"],
    hash,
    set,
    dict,
    next,
    int,
    b"".join,
    vars,
    weakref.ref,
    lambda records: setattr(records, "a", 1),
    lambda records: bisect.bisect_left(records, 3, key=lambda record: record.offset),
    lambda records: random.Random(1).sample(records, 2),  # noqa: S311
    lambda records: random.Random(1).shuffle(records) or records[:],  # noqa: S311
    lambda records: heapq.nlargest(2, records),
    lambda records: list(heapq.merge(records, records)),
    lambda records: UserList(records).data,
    lambda records: np.array(records, dtype=object).tolist(),
    lambda records: pd.Series(records).tolist(),
    lambda records: pl.DataFrame(records, orient="row").columns,
]

ABSTRACT = [name for name in abc.__all__ if name != "Callable"]

# These need a list by its type. The manual lists them under "Coming from kafka-python".
DOINGS_OF_REAL_LISTS = [
    lambda records: json.dumps(records, default=repr),
    heapq.heappop,
    lambda records: list.append(records, 1),
    lambda records: operator.concat([1], records),
    pprint.pformat,
]


@pytest.mark.parametrize("number", range(len(DOINGS)))
def test_all_operations_of_a_list_work_alike(records, plain, number):
    assert type(plain) is list
    assert result(DOINGS[number], records) == result(DOINGS[number], plain)
    assert list(records) == plain
    assert records == plain
    assert plain == records


@pytest.mark.parametrize("number", range(len(DOINGS_OF_REAL_LISTS)))
def test_a_list_of_them_serves_where_the_type_counts(records, plain, number):
    doing = DOINGS_OF_REAL_LISTS[number]
    assert doing(list(records)) == doing(plain)


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
