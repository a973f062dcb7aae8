"""Damaged batches among the locked ones: each offset is given to the application or given back."""

from __future__ import annotations

import uuid
from collections import deque
from itertools import islice
from typing import Any

import pytest

from tandem_kafka.config import Config
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.share.unpacking import Chunk, Rest, Unpacker, Unreadable
from tandem_kafka.errors import CorruptRecordError
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    AcknowledgeType,
    LockedPartition,
)
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.clock import SimClock
from tests.unit.records.making import ZSTD, Rec, batch

FIRST, SECOND, THIRD = (batch([Rec() for _ in range(10)], base) for base in (0, 10, 20))
RELEASE, REJECT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT

#: First and last offset, and what becomes of them: "got", or how they are given back.
Found = list[tuple[int, int, object]]


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def without_an_end(data: bytes) -> bytes:
    """Damage the length of a batch: more bytes than there are."""
    return data[:8] + b"\x7f" + data[9:]


def unpacked(data: bytes, *ranges: tuple[int, int, int]) -> tuple[Found, int]:
    """Return what becomes of each offset, and the number of errors."""
    records = LockedRecords(SimClock())
    locked = LockedPartition(TopicPartition("t", 0), uuid.uuid4(), 1, data, ranges, records)
    at_once = unpacked_by(locked, 1 << 26)
    assert unpacked_by(locked, 1) == at_once
    return at_once


def unpacked_by(locked: LockedPartition, most_bytes: int) -> tuple[Found, int]:
    """Unpack in parts of `most_bytes`; return the same as `unpacked`."""
    config, found, errors = Config(fetch_buffer_max_bytes=most_bytes), Found(), 0
    unpacker, left = Unpacker(config, Deserializers(config)), deque[Any]([locked])
    while left:
        each = left.popleft()
        if isinstance(each, LockedPartition | Rest):
            assert not left
            left.extend(islice(unpacker.unpack(each), 50))
        elif isinstance(each, Unreadable):
            assert isinstance(each.error, CorruptRecordError)
            errors += 1
        elif isinstance(each, Chunk):
            begin = found.pop()[0] if found and found[-1][1:] == before(each) else each.run.first
            found.append((begin, each.run.last, "got"))
        else:
            found.append((each.first, each.last, each.how))
    return found, errors


def before(chunk: Chunk) -> tuple[int, object]:
    return chunk.run.first - 1, "got"


@pytest.mark.parametrize(("count", "how"), [(1, RELEASE), (2, REJECT)])
def test_the_batches_around_a_damaged_one_are_read(count: int, how: AcknowledgeType) -> None:
    got = unpacked(FIRST + damaged(SECOND) + THIRD, (0, 29, count))
    assert got == ([(0, 9, "got"), (10, 19, how), (20, 29, "got")], 1)
    got = unpacked(damaged(FIRST) + damaged(SECOND) + THIRD, (0, 29, count))
    assert got == ([(0, 9, how), (10, 19, how), (20, 29, "got")], 2)
    got = unpacked(FIRST + damaged(SECOND), (0, 19, count))
    assert got == ([(0, 9, "got"), (10, 19, how)], 1)


def test_a_damaged_batch_without_a_locked_record_does_not_matter() -> None:
    assert unpacked(damaged(FIRST) + SECOND, (10, 19, 1)) == ([(10, 19, "got")], 0)
    assert unpacked(FIRST + damaged(SECOND), (0, 9, 1)) == ([(0, 9, "got")], 0)


def test_each_range_of_a_damaged_batch_is_given_back() -> None:
    got = unpacked(damaged(FIRST) + SECOND, (2, 3, 1), (6, 12, 2))
    assert got == ([(2, 3, RELEASE), (6, 9, REJECT), (10, 12, "got")], 2)


def test_a_range_that_begins_where_batches_were_compacted_away_is_intact() -> None:
    """It was rejected, with the records behind it."""
    gap = AcknowledgeType.GAP
    got = unpacked(FIRST + THIRD, (0, 3, 1), (12, 29, 2))
    assert got == ([(0, 3, "got"), (12, 19, gap), (20, 29, "got")], 0)
    assert unpacked(FIRST + THIRD, (12, 29, 2)) == ([(12, 19, gap), (20, 29, "got")], 0)
    got = unpacked(damaged(FIRST) + THIRD, (0, 3, 1), (12, 29, 2))
    assert got == ([(0, 3, RELEASE), (12, 19, REJECT), (20, 29, "got")], 2)


def test_a_damaged_batch_lasts_until_the_next_one() -> None:
    """Of a batch with a damaged number of records, those behind it counted as missing."""
    short = FIRST[:26] + b"\x04" + FIRST[27:]
    assert unpacked(short + SECOND, (0, 19, 1)) == ([(0, 9, RELEASE), (10, 19, "got")], 1)


def test_a_batch_that_is_cut_short_is_no_gap() -> None:
    got = unpacked(FIRST + without_an_end(SECOND) + THIRD, (0, 29, 1))
    assert got == ([(0, 9, "got"), (10, 29, RELEASE)], 1)
    got = unpacked(FIRST + SECOND[:-3], (0, 19, 2))
    assert got == ([(0, 9, "got"), (10, 19, REJECT)], 1)


@pytest.mark.parametrize("size", [1, 11, 12, 40])
def test_a_batch_that_is_cut_short_behind_a_damaged_one(size: int) -> None:
    """poll() raised `struct.error` for as long as the records were locked."""
    negative = SECOND[:57] + b"\x80" + SECOND[58:]  # its number of records
    found, _ = unpacked(negative + THIRD[:size], (5, 29, 1))
    assert {how for _, _, how in found} == {RELEASE}
    assert (found[0][0], found[-1][1]) == (5, 29)


def test_a_damaged_header_does_not_lead_back_to_what_was_read() -> None:
    """The records before the damaged batch were handed out again."""
    old = bytes(8) + THIRD[8:16] + b"\0" + THIRD[17:]
    found, errors = unpacked(FIRST + SECOND + old, (0, 29, 1))
    assert found[0] == (0, 19, "got")
    assert [how for _, _, how in found[1:]] == [RELEASE]
    assert (found[-1][1], errors) == (29, 1)


def test_offsets_that_are_missing_at_the_end_are_gaps() -> None:
    gap = AcknowledgeType.GAP
    assert unpacked(FIRST, (0, 12, 1)) == ([(0, 9, "got"), (10, 12, gap)], 0)
    assert unpacked(b"", (0, 2, 1)) == ([(0, 2, gap)], 0)


@pytest.mark.parametrize("damaged_header", [False, True])
def test_a_small_response_that_decompresses_to_much_is_not_unpacked_at_once(
    *, damaged_header: bool
) -> None:
    """100 kB became 3 GiB for the first record. What is handed out is freed before the rest."""
    size, count = 1 << 20, 20
    data = b"".join(batch([Rec(value=bytes(size))], at, codec=ZSTD) for at in range(count))
    if damaged_header:
        data = data[:57] + b"\x80" + data[58:]  # the number of records of the first batch
    assert len(data) < size // 100
    records, tp = LockedRecords(SimClock()), TopicPartition("t", 0)
    given: Any = LockedPartition(tp, uuid.uuid4(), 1, data, ((0, count - 1, 1),), records)
    config, offsets = Config(fetch_buffer_max_bytes=4 * size), list[int]()
    while given is not None:
        chunks: list[Any] = [*Unpacker(config, Deserializers(config)).unpack(given)]
        given = chunks.pop() if chunks and isinstance(chunks[-1], Rest) else None
        runs = [each.run for each in chunks if isinstance(each, Chunk)]
        found = [at for run in runs for at in range(run.first, run.last + 1)]
        assert len(found) <= 4
        offsets += found
    assert offsets == list(range(damaged_header, count))


@pytest.mark.parametrize("last", [10, 14, 19, 22, 27])
def test_a_range_behind_a_batch_with_a_damaged_offset_is_unpacked_in_parts_too(last: int) -> None:
    """`unpacked` compares both."""
    for base in (0, 7, 15, 25, 1_000):
        elsewhere = base.to_bytes(8, "big") + SECOND[8:]
        for damage in (elsewhere, without_an_end(SECOND), damaged(SECOND)):
            found, _ = unpacked(FIRST + damage + THIRD, (0, last, 1), (last + 1, 29, 1))
            assert {how for _, _, how in found} <= {"got", RELEASE, AcknowledgeType.GAP}
