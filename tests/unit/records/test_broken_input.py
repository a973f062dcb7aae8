"""Invalid bytes cause the documented errors only, and reading them ends."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_kafka.errors import CorruptRecordError, KafkaProtocolError, UnsupportedCodecError
from tests.tier import examples
from tests.unit.records.making import (
    GZIP,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    Rec,
    batch,
    compress,
    decode_fetch_response,
    marker,
    message,
    reader,
)

RECORDS = [
    Rec(b"a" * 100, b"key", [(b"h", b"x"), (b"i", None)]),
    Rec(None, timestamp_delta=-70_000),
    Rec(b"b" * 9_000),
    Rec(delta=90),
]
SAMPLES = [
    *(batch(RECORDS, 10, codec=codec) for codec in (0, GZIP, SNAPPY, LZ4, ZSTD)),
    batch(RECORDS, 10, flags=TRANSACTIONAL, producer_id=4) + marker(101, 4, abort=True),
    message(10, b"value", b"key", magic=0) + message(11, b"other"),
    message(12, compress(GZIP, message(0, b"a") + message(2, b"b")), attributes=GZIP),
    message(12, compress(SNAPPY, message(0, b"a") + message(2, b"b")), attributes=SNAPPY),
    message(12, compress(LZ4, message(12, b"a" * 9, magic=0)), magic=0, attributes=LZ4),
]
mutations = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "insert"]), st.integers(0), st.binary(max_size=12)),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, changes) -> bytes:
    for kind, where, new in changes:
        at = where % (len(data) + 1)
        skip = {"set": len(new), "cut": where % 40, "insert": 0}[kind]
        data = data[:at] + (b"" if kind == "cut" else new) + data[at + skip :]
    return data


def read_all(data: bytes, *, read_committed: bool) -> None:
    """Read to the end or to an error, and check that the position never decreases."""
    source = reader(
        data,
        10,
        aborted=((4, 0),),
        read_committed=read_committed,
        check_crcs=False,
        max_batch_bytes=1 << 20,
    )
    position = 10
    for _ in range(1_000):
        if source.exhausted:
            assert source.next_offset == max(position, source.end_offset)
            return
        try:
            records = source.take(3)
        except (CorruptRecordError, UnsupportedCodecError) as error:
            assert "topic-3 at offset" in str(error)  # noqa: PT017 - one of several outcomes
            assert source.next_offset >= position
            return
        found = [record.offset for record in records]
        assert found == sorted(found)
        assert all(position <= offset < source.next_offset for offset in found)
        assert source.next_offset >= position
        position = source.next_offset
    pytest.fail("it does not end")


@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("sample", range(len(SAMPLES)))
@settings(max_examples=examples(150))
@given(changes=mutations)
def test_mutated_batches(sample, read_committed, changes):
    read_all(mutate(SAMPLES[sample], changes), read_committed=read_committed)


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
@settings(max_examples=examples(150))
@given(changes=mutations)
def test_mutated_records_in_a_valid_batch(codec, changes):
    plain = compress(0, batch(RECORDS, 10)[61:])
    data = batch(RECORDS, 10, codec=codec, payload=compress(codec, mutate(plain, changes)))
    read_all(data, read_committed=False)


@given(data=st.binary(max_size=300))
def test_random_bytes(data):
    read_all(data, read_committed=True)


def small_response(version: int) -> bytes:
    """Return the bytes of a response with one partition."""
    flexible = version >= 12
    count = (lambda n: bytes([n + 1])) if flexible else (lambda n: struct.pack(">i", n))
    out = struct.pack(">i", 0)
    if version >= 7:
        out += struct.pack(">hi", 0, 77)
    out += count(1)
    if version >= 13:
        out += bytes(range(16))
    else:
        out += (bytes([3]) if flexible else struct.pack(">h", 2)) + b"ab"
    out += count(1) + struct.pack(">ihqq", 0, 0, 10, 10)
    if version >= 5:
        out += struct.pack(">q", 0)
    out += count(1) + struct.pack(">qq", 1, 2) + (b"\x00" if flexible else b"")
    if version >= 11:
        out += struct.pack(">i", -1)
    out += count(3) + b"xyz"
    # Tags: a diverging epoch and a leader, with their own empty tags.
    leader = struct.pack(">ii", 4, 5) + b"\x00"
    diverging = struct.pack(">iq", 6, 7) + b"\x00"
    if flexible:
        out += b"\x02\x00" + bytes([len(diverging)]) + diverging
        out += b"\x01" + bytes([len(leader)]) + leader
        out += b"\x00\x00"
    return out


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=examples(200))
@given(changes=mutations)
def test_mutated_fetch_responses(version, changes):
    data = mutate(small_response(version), changes)
    try:
        response = decode_fetch_response(memoryview(data), version)
    except KafkaProtocolError:
        return
    assert len(response.partitions) <= len(data)


@pytest.mark.parametrize("version", range(4, 19))
def test_a_truncated_response_or_one_with_extra_bytes(version):
    data = small_response(version)
    [partition] = decode_fetch_response(memoryview(data), version).partitions
    assert bytes(partition.records) == b"xyz"
    for cut in range(len(data)):
        with pytest.raises(KafkaProtocolError, match=f"response v{version}"):
            decode_fetch_response(memoryview(data[:cut]), version)
    with pytest.raises(KafkaProtocolError, match="1 bytes too many"):
        decode_fetch_response(memoryview(data + b"\x00"), version)


@pytest.mark.parametrize("version", [3, 19])
def test_an_unknown_fetch_version(version):
    with pytest.raises(KafkaProtocolError, match=f"version {version} is not supported"):
        decode_fetch_response(memoryview(b""), version)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (4, struct.pack(">ii", 0, 2**31 - 1)),
        (4, struct.pack(">ii", 0, -1)),
        (4, struct.pack(">iih", 0, 1, -1)),
        (12, bytes(10) + b"\xff\xff\xff\xff\x0f"),
        (12, bytes(10) + b"\xff\xff\xff\xff\xff\x0f"),
        (12, bytes(10) + b"\x00"),
        (12, bytes(10) + b"\x01\xff\xff\xff\xff\x0f"),
        (12, bytes(10) + b"\x02\x03\xff\xff\x01\x00\x00"),
    ],
)
def test_false_counts_and_lengths(version, data):
    with pytest.raises(KafkaProtocolError):
        decode_fetch_response(memoryview(data), version)
