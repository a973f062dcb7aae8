"""Records as Arrow record batches: the same from both implementations."""

from __future__ import annotations

import datetime as dt
from functools import partial
from operator import methodcaller
from signal import ITIMER_REAL, setitimer
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.records import ARROW_COLUMNS, check_arrow_columns, to_record_batch
from tandem_kafka.runtime.native import native
from tests.alarms import alarms
from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.unit.records.making import GZIP, LOG_APPEND_TIME, Rec, batch, message, reader, using

pa = pytest.importorskip("pyarrow")

RECORDS = [
    Rec(b"a value that is not short", b"key", [(b"h", b"1"), (b"\xc3\xa4", None)]),
    Rec(None, b"k"),
    Rec(b"", None, timestamp_delta=-1_001),
    Rec(b"short", b"a key that is not short"),
]
DATA = batch(RECORDS) + batch(RECORDS, 4, codec=GZIP) + batch([Rec()], 8, flags=LOG_APPEND_TIME)


def rows(data=DATA, columns=ARROW_COLUMNS, *, view=False):
    return to_record_batch((reader(data).take(100),), columns, binary_view=view)


@pytest.mark.parametrize("view", [False, True])
def test_the_columns(view):
    found = rows(view=view)
    found.validate(full=True)
    assert found.schema.names == list(ARROW_COLUMNS)
    binary = pa.binary_view() if view else pa.binary()
    assert (found.schema.field("key").type, found.schema.field("value").type) == (binary, binary)
    first = found.slice(0, 1).to_pylist()[0]
    assert first == {
        "topic": "topic",
        "partition": 3,
        "offset": 0,
        "timestamp": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        "timestamp_type": 0,
        "key": b"key",
        "value": b"a value that is not short",
        "headers": [{"key": "h", "value": b"1"}, {"key": "ä", "value": None}],
        "leader_epoch": 5,
    }
    assert found.column("value").to_pylist()[:4] == [
        b"a value that is not short",
        None,
        b"",
        b"short",
    ]
    assert found.column("timestamp").null_count == 2
    assert found.column("timestamp_type").to_pylist() == [0] * 8 + [1]
    assert found.column("headers").to_pylist()[1] == []


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("data", [DATA, b"", batch([Rec(b"x", b"y")])])
def test_the_implementations_agree(data, view):
    require_implementation("native")
    found = []
    for implementation in IMPLEMENTATIONS:
        with using(implementation):
            found.append(rows(data, view=view))
    assert found[0].schema == found[1].schema
    assert found[0].equals(found[1])


def test_some_columns_in_the_requested_order():
    found = rows(columns=("value", "offset"))
    assert found.schema.names == ["value", "offset"]
    assert found.num_rows == 9
    assert rows(columns=()).num_columns == 0


def test_several_partitions_and_parts_of_them():
    source = reader(DATA)
    parts = (source.take(2), source.take(3), source.take(4)[1:3])
    found = to_record_batch(parts, ("topic", "offset"), binary_view=True)
    assert found.column("offset").to_pylist() == [0, 1, 2, 3, 4, 6, 7]
    assert found.column("topic").dictionary.to_pylist() == ["topic"]


def test_old_and_new_formats_together_in_arrow():
    old = reader(message(0, b"v", magic=0)).take(5)
    found = to_record_batch((old, reader(DATA).take(1)), ARROW_COLUMNS, binary_view=False)
    assert found.column("timestamp_type").to_pylist() == [None, 0]
    assert found.column("timestamp").to_pylist()[0] is None


def test_a_view_keeps_its_memory():
    found = rows(batch([Rec(b"v" * 5_000)] * 20), view=True)
    for _ in range(20):
        rows(batch([Rec(b"x" * 5_000)] * 20))
    assert found.column("value").to_pylist() == [b"v" * 5_000] * 20


@pytest.mark.parametrize(
    ("columns", "problem"),
    [(["values"], "'values' does not exist; columns are topic"), ("value", "a sequence")],
)
def test_an_unknown_column(columns, problem):
    with pytest.raises(InvalidArgumentError, match=problem):
        check_arrow_columns(columns)


@pytest.mark.skipif(native is None, reason="it is about the native extension")
def test_a_signal_handler_that_is_due_changes_no_topic() -> None:
    def pressed(*_: Any) -> None:
        raise KeyboardInterrupt

    with using("native"):
        taken = reader(batch([Rec()])).take(1)
    # No handler runs between these calls; the signal comes during the second.
    calls = [
        partial(setitimer, ITIMER_REAL, 1e-6),
        partial(sum, range(500_000)),
        partial(native.to_arrow, [taken], ("topic",), binary_view=False),  # type: ignore[union-attr]
    ]
    with alarms(pressed), pytest.raises(KeyboardInterrupt):
        list(map(methodcaller("__call__"), calls))
