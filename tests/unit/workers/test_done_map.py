"""The done-map: what is encoded comes back, and the text always fits."""

from __future__ import annotations

import base64
import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.types import NO_TOPIC_ID, TopicPartition
from tandem_kafka.workers.done_map import (
    DoneMap,
    ForeignMetadataError,
    decode,
    encode,
    fingerprint,
    fits,
)

TP = TopicPartition("orders", 3)
LIMIT = 4_096


@st.composite
def maps(draw: st.DrawFn) -> tuple[int, DoneMap]:
    base = draw(st.integers(0, 2**40))
    lengths = st.one_of(st.integers(1, 3), st.integers(1, 300), st.integers(1, 2**33))
    at = base + draw(st.sampled_from([0, 1, 5]))
    ranges = []
    for undone, done in draw(st.lists(st.tuples(lengths, lengths), max_size=40)):
        ranges.append((at, at + done))
        at += done + undone
    topic = draw(st.integers(0, 2**31 - 1))
    return base, DoneMap(tuple(ranges), draw(st.integers(-1, 2**31 - 1)), topic)


def offsets_of(done: DoneMap) -> set[int]:
    return {offset for start, end in done.ranges for offset in range(start, end)}


@given(maps())
def test_a_map_comes_back_as_it_was(case: tuple[int, DoneMap]) -> None:
    base, done = case
    text, left_out = encode(TP, base, done, LIMIT)
    assert left_out == 0
    assert text.isascii()
    found = decode(TP, base, text)
    assert tuple(found.ranges) == tuple(done.ranges)
    if done.ranges:
        assert found == DoneMap(tuple(done.ranges), done.leader_epoch, done.topic)


def test_an_empty_map_is_empty_metadata() -> None:
    assert encode(TP, 7, DoneMap(), LIMIT) == ("", 0)
    assert decode(TP, 7, "") == DoneMap()


@given(st.sets(st.integers(1, 2_000), max_size=900), st.integers(64, 400))
def test_a_text_never_exceeds_its_limit_and_never_marks_more(done: set[int], limit: int) -> None:
    ranges = tuple((offset, offset + 1) for offset in sorted(done) if offset - 1 not in done)
    text, left_out = encode(TP, 0, DoneMap(ranges), limit)
    assert len(text) <= limit
    found = tuple(decode(TP, 0, text).ranges)
    assert found == ranges[: len(ranges) - left_out]


@given(st.data())
def test_what_fits_fits_for_every_order_of_completion(data: st.DataObject) -> None:
    limit = data.draw(st.integers(64, 200))
    window = data.draw(st.integers(1, 3_000))
    undone = data.draw(st.integers(1, window))
    pending = data.draw(
        st.sets(st.integers(1, window - 1), max_size=undone - 1) if window > 1 else st.just(set())
    )
    if not fits(window, len(pending) + 1, len(pending) + 1, limit):
        return
    still = data.draw(st.sets(st.sampled_from(sorted(pending))) if pending else st.just(set()))
    holes = sorted({0, *still})
    ranges = [
        (hole + 1, following)
        for hole, following in zip(holes, [*holes[1:], window], strict=True)
        if following > hole + 1
    ]
    _, left_out = encode(TP, 0, DoneMap(tuple(ranges), 5, 2**31 - 1), limit)
    assert left_out == 0


def test_the_shorter_form_is_written() -> None:
    stripes = DoneMap(tuple((offset, offset + 1) for offset in range(1, 2_000, 2)))
    stretch = DoneMap(((1, 2_000),))
    assert len(encode(TP, 0, stripes, LIMIT)[0]) < 2_000 / 8 * 4 / 3 + 20
    assert len(encode(TP, 0, stretch, LIMIT)[0]) < 25


def test_the_documented_format() -> None:
    """An encoder written after the module's documentation gives the same text."""
    body = bytes([0, 8, 1, 2, 0x80, 0x01, 1])  # runs, epoch 7, 1 not done, 2 done, 128 not, 1 done
    checksum = zlib.crc32(b"orders/3/100/" + body).to_bytes(4, "big")
    text = "tkw1:" + base64.urlsafe_b64encode(checksum + body).decode().rstrip("=")
    assert encode(TP, 100, DoneMap(((101, 103), (231, 232)), 7), LIMIT) == (text, 0)
    bits = bytes([1, 0, 0b0100_0110])  # a bitset, no epoch: offsets 101, 102 and 106
    checksum = zlib.crc32(b"orders/3/100/" + bits).to_bytes(4, "big")
    text = "tkw1:" + base64.urlsafe_b64encode(checksum + bits).decode().rstrip("=")
    assert decode(TP, 100, text) == DoneMap(((101, 103), (106, 107)), -1)
    # Topic 5 and epoch 7: 5 * 2**32 + 8 in groups of seven bits.
    body = bytes([0, 0x88, 0x80, 0x80, 0x80, 0xD0, 0x00, 1, 2])
    checksum = zlib.crc32(b"orders/3/100/" + body).to_bytes(4, "big")
    text = "tkw1:" + base64.urlsafe_b64encode(checksum + body).decode().rstrip("=")
    assert decode(TP, 100, text) == DoneMap(((101, 103),), 7, 5)


def read_by_the_previous_release(base: int, metadata: str) -> tuple[list[tuple[int, int]], int]:
    """Read a map of runs as members of the previous release do: they know of no topic."""
    text = metadata.removeprefix("tkw1:")
    checked = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    payload = checked[4:]
    assert checked[:4] == zlib.crc32(f"orders/3/{base}/".encode() + payload).to_bytes(4, "big")
    assert payload[0] == 0
    numbers, value, shift = [], 0, 0
    for byte in payload[1:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        assert shift <= 63, "it is refused"
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    epoch, *lengths = numbers
    ranges, at = [], base
    for undone, done in zip(lengths[::2], lengths[1::2], strict=True):
        ranges.append((at + undone, at + undone + done))
        at += undone + done
    return ranges, epoch - 1


@pytest.mark.parametrize("topic_id", [NO_TOPIC_ID, UUID(int=7), UUID(int=2**128 - 1)])
def test_members_of_the_previous_release_read_and_write_it(topic_id: UUID) -> None:
    """In a rolling upgrade, partitions move between members of both releases."""
    written = DoneMap(((101, 200), (500, 900)), 7, fingerprint(topic_id))
    text, _ = encode(TP, 100, written, LIMIT)
    ranges, epoch = read_by_the_previous_release(100, text)
    assert ranges == [(101, 200), (500, 900)]
    assert epoch >= 7, "they believe it"
    assert (epoch == 7) == (topic_id == NO_TOPIC_ID)
    # They write the greatest number again, as the epoch.
    again, _ = encode(TP, 100, DoneMap(tuple(ranges), epoch), LIMIT)
    assert decode(TP, 100, again) == written


def test_a_map_is_of_its_topic() -> None:
    one, other = UUID(int=1), UUID(int=2)
    done = DoneMap(((1, 2),), topic=fingerprint(one))
    assert done.is_of(one)
    assert done.is_of(NO_TOPIC_ID), "the broker has no ids"
    assert not done.is_of(other)
    assert DoneMap(((1, 2),)).is_of(other), "of a release without them"


def test_what_is_beyond_the_end_is_no_claim() -> None:
    done = DoneMap(((3, 5), (8, 12), (20, 30)), 4, 9)
    assert done.before(10) == DoneMap(((3, 5), (8, 10)), 4, 9)
    assert done.before(3).ranges == ()


@pytest.mark.parametrize(
    "metadata",
    [
        "offset of another program",
        "tkw2:AAAA",
        "tkw1:",
        "tkw1:****",
        "tkw1:AAAAAAAA",
        "tkw1:AAA=AA",
    ],
)
def test_metadata_of_others_is_recognized(metadata: str) -> None:
    with pytest.raises(ForeignMetadataError):
        decode(TP, 7, metadata)


@pytest.mark.parametrize(
    ("tp", "base"), [(TP, 101), (TopicPartition("orders", 4), 100), (TopicPartition("b", 3), 100)]
)
def test_a_map_copied_to_another_place_is_ignored(tp: TopicPartition, base: int) -> None:
    text, _ = encode(TP, 100, DoneMap(((102, 104),)), LIMIT)
    with pytest.raises(ForeignMetadataError):
        decode(tp, base, text)


@given(st.binary(max_size=40))
def test_damaged_metadata_marks_nothing(data: bytes) -> None:
    text = "tkw1:" + base64.urlsafe_b64encode(data).decode().rstrip("=")
    with pytest.raises(ForeignMetadataError):
        decode(TP, 7, text)


def signed(base: int, payload: bytes) -> str:
    """Metadata with a good checksum."""
    checksum = zlib.crc32(payload, zlib.crc32(f"orders/3/{base}/".encode()))
    content = checksum.to_bytes(4, "big") + payload
    return "tkw1:" + base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "its kind is unknown"),
        (b"\x02\x01", "its kind is unknown"),
        (b"\x00", "it is incomplete"),
        (b"\x01", "it is incomplete"),
        (b"\x00\x01\x05", "it is incomplete"),
        (b"\x00\x01\x05\x80", "it is incomplete"),
        (b"\x00\x01\x05\x00", "one of its runs is empty"),
        (b"\x00\x01\x05\x01\x00\x01", "one of its runs is empty"),
        (b"\x00" + b"\xff" * 10, "one of its numbers is too large"),
    ],
)
def test_a_damaged_map_with_a_good_checksum_is_foreign(payload: bytes, reason: str) -> None:
    with pytest.raises(ForeignMetadataError, match=reason):
        decode(TP, 5, signed(5, payload))


@given(st.binary(max_size=60))
def test_no_map_raises_anything_else(payload: bytes) -> None:
    try:
        ranges = decode(TP, 5, signed(5, payload)).ranges
    except ForeignMetadataError:
        return
    ends = [5, *(offset for each in ranges for offset in each)]
    assert ends == sorted(ends)


@given(maps(), st.data())
def test_a_truncated_map_marks_nothing_that_is_not_done(
    case: tuple[int, DoneMap], data: st.DataObject
) -> None:
    base, done = case
    text = encode(TP, base, done, LIMIT)[0]
    encoded = text.removeprefix("tkw1:")
    payload = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))[4:]
    kept = payload[: data.draw(st.integers(0, len(payload)))]
    checksum = zlib.crc32(kept, zlib.crc32(f"orders/3/{base}/".encode()))
    short = "tkw1:" + base64.urlsafe_b64encode(checksum.to_bytes(4, "big") + kept).decode()
    try:
        found = decode(TP, base, short.rstrip("="))
    except ForeignMetadataError:
        return
    assert all(any(a <= start and end <= b for a, b in done.ranges) for start, end in found.ranges)
