"""Records that the user keeps: they do not change, and keep little other memory."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.records import ReaderOptions
from tests.tier import sample
from tests.unit.records.making import (
    LOG_APPEND_TIME,
    ZSTD,
    Rec,
    batch,
    decode_fetch_response,
    open_reader,
    reader,
    uvarint,
)

HEADERS = [(b"h", b"x" * 9), (b"\xff", None)]
#: Records of every kind, including small ones that are kept, and a large one.
RECORDS = [
    Rec(b"v%d" % i, None if i % 3 else b"k%d" % i, HEADERS if i % 4 == 0 else (), i)
    for i in range(40)
] + [Rec(None, b""), Rec(b"", None, [(b"", b"")]), Rec(b"z" * 100_000, b"large")]
DATA = batch(RECORDS, 7, flags=LOG_APPEND_TIME) + batch(RECORDS, 7 + len(RECORDS), codec=ZSTD)


def everything() -> list[tuple[Any, ...]]:
    """Return the fields of all records, accessed one after the other."""
    records = reader(DATA, 7).take(1_000)
    return [tuple(record) for record in records]


@pytest.mark.parametrize(
    "keep",
    [
        list,
        lambda records: [record for record in records],  # noqa: C416 - not the same for the iterator
        lambda records: [records[index] for index in range(len(records))],
        lambda records: list(reversed(records))[::-1],
        lambda records: [first for first, _ in pairwise(records)] + [records[-1]],
        lambda records: list(dict(enumerate(records)).values()),
        lambda records: [record for record, _ in zip(records, records, strict=True)],
        lambda records: [*islice(records, 50), *records[50:]],
        lambda records: sorted(records, key=lambda record: record.offset),
    ],
)
def test_kept_records_do_not_change(keep: Callable[[Any], list[Any]]) -> None:
    source = reader(DATA, 7)
    records = source.take(1_000)
    kept = keep(records)
    del source, records
    assert [tuple(record) for record in kept] == everything()


@given(
    choices=st.lists(st.sampled_from(["keep", "drop", "keep for a while"]), min_size=1),
    by_index=st.booleans(),
)
def test_any_choice_of_records_may_be_kept(choices: list[str], *, by_index: bool) -> None:
    records = reader(DATA, 7).take(1_000)
    expected = everything()
    kept: dict[int, Any] = {}
    awhile: list[tuple[int, Any]] = []
    source = (records[i] for i in range(len(records))) if by_index else iter(records)
    for index, record in enumerate(source):
        choice = choices[index % len(choices)]
        if choice == "keep":
            kept[index] = record
        elif choice == "keep for a while":
            awhile.append((index, record))
        if len(awhile) > 3:
            assert tuple(awhile[0][1]) == expected[awhile[0][0]]
            del awhile[0]
    del source, records
    assert {index: tuple(record) for index, record in kept.items()} == {
        index: expected[index] for index in kept
    }


def test_a_loop_sees_each_record_once_and_the_last_one_stays() -> None:
    expected = everything()
    found, last = [], None
    for last in reader(DATA, 7).take(1_000):
        found.append(tuple(last))
    assert found == expected
    assert tuple(last) == expected[-1]


@given(kept=st.sets(st.integers(0, 8)))
def test_a_second_loop_sees_each_record_once_whatever_the_first_one_kept(kept: set[int]) -> None:
    """Records kept on both sides of a batch's end made it repeat some, and leave out others."""
    records = reader(b"".join(batch([Rec()] * 3, at, codec=ZSTD) for at in (0, 3, 6))).take(9)
    held = [record for record in records if record.offset in kept]
    assert [record.offset for record in records] == list(range(9))
    assert {record.offset for record in held} == kept


def test_two_iterators_of_the_same_records_are_independent() -> None:
    records = reader(DATA, 7).take(1_000)
    first, second = iter(records), iter(records)
    a, b = next(first), next(second)
    assert a == b
    c, d = next(first), next(first)
    assert (b.offset, c.offset, d.offset, next(second).offset) == (7, 8, 9, 8)


def test_views_and_fields_of_a_record_outlive_it() -> None:
    records = iter(reader(DATA, 7).take(1_000))
    record = next(records)
    key, value, view = record.key, record.value, record.value_view
    del record
    others = [next(records).value for _ in range(10)]
    assert (key, value, bytes(view)) == (b"k0", b"v0", b"v0")
    assert others == [b"v%d" % i for i in range(1, 11)]


def test_a_record_that_settled_has_views_too() -> None:
    kept = list(reader(DATA, 7).take(1_000))
    for record in kept:
        assert (None if record.value is None else bytes(record.value_view)) == record.value
        assert (None if record.key is None else bytes(record.key_view)) == record.key
    assert kept[0].value_view.readonly
    assert kept[40].value_view is None


def test_records_can_be_passed_to_another_thread() -> None:
    found: list[tuple[Any, ...]] = []
    records = list(reader(DATA, 7).take(1_000))
    thread = threading.Thread(target=lambda: found.extend(map(tuple, records)))
    thread.start()
    thread.join()
    assert found == everything()


# --- memory ----------------------------------------------------------------------------------

_STATUS = Path("/proc/self/statm")
needs_proc = pytest.mark.skipif(not _STATUS.exists(), reason="needs /proc to measure memory")

#: The memory if all 300 responses are kept, and a much lower limit.
LARGE = 1_000_000
TIMES = 300
LITTLE = 90_000_000


def resident_bytes() -> int:
    gc.collect()
    with suppress(AttributeError):  # of glibc: returns freed memory to the system
        ctypes.CDLL(None).malloc_trim(0)
    return int(_STATUS.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def of_first(records: Any) -> Any:
    return next(record for record in records if record.offset == 0)


def small_and_large(codec: int) -> bytes:
    """Return a batch with a small record and large ones; random bytes cannot be compressed."""
    return batch([Rec(b"small", b"key", HEADERS), Rec(os.urandom(LARGE))], codec=codec)


KEEPERS = [
    pytest.param(lambda records: [r for r in records if r.offset == 0], id="in a loop"),
    pytest.param(lambda records: list(records)[0], id="of a list"),  # noqa: RUF015
    pytest.param(lambda records: records[0], id="by index"),
    pytest.param(of_first, id="of a generator"),
    pytest.param(lambda records: records[:1], id="as a slice"),
    pytest.param(lambda records: next(iter(records)), id="of an iterator"),
]


@needs_proc
@pytest.mark.parametrize("codec", [0, ZSTD])
@pytest.mark.parametrize("keep", sample(KEEPERS, 1))
def test_a_small_record_does_not_keep_its_response(keep: Callable[[Any], Any], codec: int) -> None:
    data = small_and_large(codec)
    before = resident_bytes()
    kept = [keep(reader(data).take(10)) for _ in range(TIMES)]
    assert resident_bytes() - before < LITTLE
    [one] = {str(each) for each in kept}
    assert "small" in one or "offsets 0 to 0" in one


@needs_proc
def test_records_taken_one_by_one_do_not_keep_their_response() -> None:
    data = small_and_large(0)
    before = resident_bytes()
    kept = [reader(data).take(1) for _ in range(TIMES)]
    assert resident_bytes() - before < LITTLE
    assert {records[0].value for records in kept} == {b"small"}


def response(*partitions: bytes) -> bytes:
    """Return the body of a fetch response of version 12."""
    out = struct.pack(">ihi", 0, 0, 77) + uvarint(2) + uvarint(2) + b"t"
    out += uvarint(len(partitions) + 1)
    for number, data in enumerate(partitions):
        out += struct.pack(">ihqqq", number, 0, 100, 100, 0) + uvarint(1) + struct.pack(">i", -1)
        out += uvarint(len(data) + 1) + data + b"\x00"
    return out + b"\x00\x00"


@needs_proc
def test_buffered_records_do_not_keep_other_partitions_in_memory() -> None:
    small, large = batch([Rec(b"small")]), batch([Rec(os.urandom(LARGE))])
    body = response(large, small)
    before, waiting = resident_bytes(), []
    for _ in range(TIMES):
        partitions = decode_fetch_response(memoryview(bytearray(body)), 12).partitions
        waiting.append(open_reader("t", 1, 0, partitions[1], ReaderOptions()))
    assert resident_bytes() - before < LITTLE
    assert {source.size_bytes for source in waiting} == {len(small)}
    assert {source.take(1)[0].value for source in waiting} == {b"small"}


def test_records_that_fill_most_of_their_response_count_all_of_it() -> None:
    data = batch([Rec(b"v" * 1_000)])
    body = bytearray(response(data))
    [partition] = decode_fetch_response(memoryview(body), 12).partitions
    source = open_reader("t", 0, 0, partition, ReaderOptions())
    assert len(body) <= source.size_bytes <= 2 * len(body)


# --- counted sizes -----------------------------------------------------------------------------


def test_decoded_records_count_until_they_are_returned() -> None:
    data = batch([Rec(b"v" * 1_000)] * 100, codec=ZSTD)
    source = reader(data)
    assert (source.size_bytes, source.open_bytes) == (len(data), 0)
    source.take(1)
    assert source.open_bytes > 100_000
    assert source.size_bytes >= len(data) + source.open_bytes
    source.take(99)
    assert (source.size_bytes, source.open_bytes) == (len(data), 0)


def test_one_batch_at_a_time_is_decompressed() -> None:
    one = batch([Rec(b"\x00" * 5_000_000)] * 2, codec=ZSTD)
    data = b"".join(struct.pack(">q", 2 * i) + one[8:] for i in range(8))
    source = reader(data)
    while not source.exhausted:
        assert len(source.take(1)) == 1
        assert source.size_bytes < len(data) + 12_000_000


@needs_proc
def test_many_batches_of_one_record_have_little_overhead() -> None:
    one = batch([Rec(b"v" * 100)])
    count = 50_000
    data = b"".join(struct.pack(">q", i) + one[8:] for i in range(count))
    before = resident_bytes()
    source = reader(data)
    assert len(source.take(1)) == 1
    held = resident_bytes() - before
    assert held < 1.6 * len(data)
    assert source.size_bytes <= 1.6 * len(data)
    assert len(source.take(count)) == count - 1
