from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.errors import InvalidReceiveError
from tandem_kafka.network.frames import FrameReader


def reader(scratch: int = 64, limit: int = 10_000) -> FrameReader:
    return FrameReader(memoryview(bytearray(scratch)), limit, "broker:9092")


def feed(frames: FrameReader, data: bytes, cuts: list[int]) -> list[bytes]:
    """Let `data` arrive in parts of the given sizes, then as much as the reader accepts."""
    out: list[bytes] = []
    pieces = iter(cuts)
    while data:
        buffer = frames.buffer()
        count = min(len(buffer), len(data), next(pieces, len(data)))
        buffer[:count] = data[:count]
        data = data[count:]
        out += [bytes(frame) for frame in frames.advance(count)]
    return out


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


@given(
    payloads=st.lists(st.binary(max_size=300), max_size=8),
    cuts=st.lists(st.integers(1, 120), max_size=60),
    scratch=st.integers(5, 200),
)
def test_frames_can_be_split_anywhere(payloads: list[bytes], cuts: list[int], scratch: int) -> None:
    frames = reader(scratch)
    assert feed(frames, framed(*payloads), cuts) == payloads
    assert not frames.inside


def test_the_rest_of_a_large_frame_is_received_in_place() -> None:
    frames = reader()
    data = framed(b"x" * 1000)
    frames.buffer()[:64] = data[:64]
    assert list(frames.advance(64)) == []
    assert frames.inside
    assert len(frames.buffer()) == 940
    frames.buffer()[:] = data[64:]
    (frame,) = frames.advance(940)
    assert bytes(frame) == b"x" * 1000
    assert isinstance(frame.obj, bytearray)
    assert len(frame.obj) == 1000


def test_a_frame_keeps_its_memory() -> None:
    frames = reader()
    frames.buffer()[:8] = framed(b"abcd")
    (first,) = frames.advance(8)
    frames.buffer()[:8] = framed(b"efgh")
    list(frames.advance(8))
    assert bytes(first) == b"abcd"


def test_a_frame_over_the_limit_names_size_limit_and_option() -> None:
    with pytest.raises(InvalidReceiveError, match=r"10001 .*10000.*receive_message_max_bytes"):
        feed(reader(), struct.pack(">i", 10_001), [])


def test_a_negative_size_is_rejected() -> None:
    with pytest.raises(InvalidReceiveError, match="negative size -2"):
        feed(reader(), struct.pack(">i", -2), [])


def test_frames_before_an_invalid_one_are_returned() -> None:
    frames = reader()
    data = framed(b"good") + struct.pack(">i", -1)
    frames.buffer()[: len(data)] = data
    out: list[bytes] = []
    with pytest.raises(InvalidReceiveError):
        out.extend(bytes(frame) for frame in frames.advance(len(data)))
    assert out == [b"good"]
