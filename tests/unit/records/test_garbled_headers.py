"""Corrupted fields that the CRC of a batch does not cover: offset and length.

A batch with a wrong offset must not move the position: its records, or others, would be lost.
"""

from __future__ import annotations

import struct

import pytest

from tandem_kafka.errors import CorruptRecordError
from tests.unit.records.making import Rec, batch, message, reader


def three(base_offset, **settings):
    return batch([Rec(b"a"), Rec(b"b"), Rec(b"c")], base_offset, **settings)


def at(data, offset):
    """Return the batch with another base offset, as after corruption."""
    return struct.pack(">q", offset) + data[8:]


def offsets(records):
    return [record.offset for record in records]


@pytest.mark.parametrize(
    ("data", "begin", "told"),
    [
        *(
            (three(0) + three(3) + at(three(6), wrong) + three(9), 0, f"offsets 3 and {wrong} over")
            for wrong in (0, 2, 5)
        ),
        (three(0) + at(three(3), 7) + three(6), 0, "offsets 7 and 6 overlap"),
        (three(3) + three(0), 3, "the batches at offsets 3 and 0 ove"),
        (
            at(three(10), 2) + three(13),
            10,
            "the batch at offset 2 is before offset 10, and the next one begins at",
        ),
    ],
)
def test_batches_that_overlap_are_not_returned(data, begin, told):
    """An offset that is too high is detected by the next batch."""
    source = reader(data, begin)
    end = source.end_offset
    assert end == (begin or 3)
    if begin < end:
        assert offsets(source.take(100)) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=f"at offset {end}: .*{told}"):
            source.take(100)
    assert (source.next_offset, source.exhausted) == (end, False)


@pytest.mark.parametrize("far", [9, 13, 2**40])
def test_a_gap_up_to_the_high_watermark_is_rejected(far):
    source = reader(three(0) + three(3) + at(three(6), far), high_watermark=9)
    assert source.end_offset == 6
    assert offsets(source.take(100)) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(CorruptRecordError, match=f"offset {far} is not below the high watermark 9"):
        source.take(100)
    first = reader(at(three(0), far), high_watermark=9)
    assert (first.end_offset, first.exhausted) == (0, False)
    with pytest.raises(CorruptRecordError, match=f"at offset 0: the batch at offset {far} is not"):
        first.take(1)


def test_records_beyond_the_high_watermark_without_a_gap_are_new_ones():
    # The broker reads its high watermark before it reads the log.
    source = reader(three(0) + three(3) + three(6), high_watermark=2)
    assert len(source.take(100)) == 9
    assert len(reader(three(5), 5, high_watermark=2).take(100)) == 3


@pytest.mark.parametrize("unknown", [-1, 0])
def test_an_unknown_high_watermark_is_no_limit(unknown):
    assert len(reader(three(0) + three(300), high_watermark=unknown).take(100)) == 6


def test_a_gap_below_the_high_watermark_is_accepted():
    source = reader(three(10) + three(300), 4, high_watermark=303)
    assert offsets(source.take(100)) == [10, 11, 12, 300, 301, 302]


def test_batches_before_the_fetch_offset_are_skipped():
    source = reader(three(0) + three(3) + three(6), 7)
    assert offsets(source.take(100)) == [7, 8]
    # Nothing indicates an error: the next fetch starts at the same offset.
    source = reader(at(three(10), 2), 10)
    assert source.end_offset == 10
    assert source.take(100) == []
    assert (source.next_offset, source.exhausted) == (10, True)


def test_a_wrong_length_is_detected():
    data = three(3)
    for change in (-1, 1, 40, -40):
        (length,) = struct.unpack_from(">i", data, 8)
        wrong = data[:8] + struct.pack(">i", length + change) + data[12:]
        source = reader(three(0) + wrong + three(6))
        assert offsets(source.take(100)) == [0, 1, 2]
        with pytest.raises(CorruptRecordError):
            source.take(100)


@pytest.mark.parametrize(("known", "expected"), [(5, [4, 5, -1]), (9, [4, 5, 9]), (-1, [4, 5, 9])])
def test_a_leader_epoch_above_that_of_the_leader_is_unknown(known, expected):
    data = three(0, epoch=4) + three(3, epoch=5) + three(6, epoch=9)
    source, epochs = reader(data, leader_epoch=known), []
    while not source.exhausted:
        records = source.take(3)
        epochs.append(source.leader_epoch)
        assert {record.leader_epoch for record in records} == {source.leader_epoch}
    assert epochs == expected


def test_the_order_of_old_messages_is_not_checked():
    source = reader(message(5, b"a") + message(4, b"b") + message(6, b"c"), 5)
    assert offsets(source.take(100)) == [5, 6]
