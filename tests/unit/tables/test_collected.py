"""What a landing has read and not yet written."""

from __future__ import annotations

import pytest

from tandem_kafka.errors import SchemaMismatchError

pa = pytest.importorskip("pyarrow")

from tandem_kafka.tables.landing import Collected  # noqa: E402 - it imports pyarrow


def test_many_small_batches_become_few_tables() -> None:
    collected = Collected()
    batch = pa.record_batch({"topic": pa.array(["t"]).dictionary_encode(), "offset": [1]})
    for _ in range(1_700):
        collected.add(batch)
    assert len(collected._tables) <= 501
    assert (collected.rows, collected.size_bytes) == (1_700, 1_700 * batch.nbytes)
    assert collected.table().num_rows == 1_700
    collected.clear()
    assert (collected.rows, collected.size_bytes) == (0, 0)


def test_a_column_has_the_type_that_a_later_record_tells() -> None:
    collected = Collected()
    collected.add(pa.record_batch({"a": pa.nulls(1), "b": pa.nulls(1)}))
    collected.add(pa.record_batch({"a": [1], "b": pa.nulls(1), "c": ["x"]}))
    assert collected.table().to_pylist() == [{"a": None, "c": None}, {"a": 1, "c": "x"}]


def test_a_column_with_several_types() -> None:
    collected = Collected()
    collected.add(pa.record_batch({"a": [{"b": 1}]}))
    collected.add(pa.record_batch({"a": [{"b": "x"}]}))
    with pytest.raises(
        SchemaMismatchError, match=r"another type in later records: .* int64 vs str"
    ):
        collected.table()
