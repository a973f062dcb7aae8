"""The batches of a read, which have one schema."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.tables import Long
from tandem_kafka.tables import batches as module
from tandem_kafka.tables.batches import Form


def read(*keys: pa.Array) -> Iterator[pa.RecordBatch]:
    for number, key in enumerate(keys):
        taken.append(number)
        yield pa.record_batch({"key": key, "value": pa.array([b"v"] * len(key))})


taken: list[int] = []


@pytest.fixture(autouse=True)
def _none_is_taken() -> None:
    taken.clear()


def test_batches_wait_for_the_type_of_a_key() -> None:
    made = Form(None, Long(), None).typed(
        read(pa.nulls(1), pa.nulls(1), pa.array([7]), pa.nulls(1))
    )
    assert next(made)["key"].type == pa.int64()
    assert taken == [0, 1, 2]
    assert [each["key"].to_pylist() for each in made] == [[None], [7], [None]]


def test_batches_without_a_key_do_not_wait_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole range was in memory."""
    monkeypatch.setattr(module, "_UNTYPED_BYTES", 2)
    nothing = [pa.nulls(1)] * 50
    made = Form(None, Long(), None).typed(read(*nothing))
    assert next(made)["key"].type == pa.null()
    assert taken == [0]
    assert sum(each.num_rows for each in made) == 49
    made = Form(None, Long(), None).typed(read(*nothing, pa.array([7])))
    with pytest.raises(InvalidArgumentError, match=r"key: its type is not known, as the first"):
        list(made)


def test_no_batch() -> None:
    assert [*Form(None, Long(), None).typed(read())] == []
