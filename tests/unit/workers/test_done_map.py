"""The done-map: what is encoded comes back, and the text always fits."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.done_map import DoneMap, ForeignMetadataError, decode, encode, fits

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
    return base, DoneMap(tuple(ranges), draw(st.integers(-1, 2**31 - 1)))


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
        assert found.leader_epoch == done.leader_epoch


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
    _, left_out = encode(TP, 0, DoneMap(tuple(ranges), 5), limit)
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
