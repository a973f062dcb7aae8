"""Fetch responses, as encoded by kafka-python's message class."""

from __future__ import annotations

import gc
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_kafka.errors import KafkaProtocolError
from tandem_kafka.wire.hosts import advertised
from tandem_kafka.wire.messages import FetchResponse
from tests.tier import examples
from tests.unit.records.making import decode_fetch_response, using

VERSIONS = range(4, 19)
Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData

int16, int32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
pairs32 = st.none() | st.tuples(st.integers(0, 2**31 - 1), int32)
pairs64 = st.none() | st.tuples(st.integers(0, 2**31 - 1), int64)
partitions = st.fixed_dictionaries(
    {
        "partition_index": int32,
        "error_code": int16,
        "high_watermark": int64,
        "last_stable_offset": int64,
        "log_start_offset": int64,
        "aborted": st.none() | st.lists(st.tuples(int64, int64), max_size=4),
        "preferred_read_replica": int32,
        "records": st.none() | st.binary(max_size=300),
        "leader": pairs32,
        "diverging": pairs64,
        "snapshot": pairs64,
    }
)
topics = st.tuples(st.text(max_size=200), st.uuids(), st.lists(partitions, max_size=4))
nodes = st.tuples(int32, st.text(max_size=20), int32, st.none() | st.text(max_size=5))
responses = st.tuples(
    int32, int16, int32, st.lists(topics, max_size=4), st.lists(nodes, max_size=3)
)


def build_partition(content, version):
    content = dict(content)
    aborted, leader = content.pop("aborted"), content.pop("leader")
    diverging, snapshot = content.pop("diverging"), content.pop("snapshot")
    content["aborted_transactions"] = aborted and [
        Partition.AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in aborted
    ]
    if version >= 12:
        if leader:
            content["current_leader"] = Partition.LeaderIdAndEpoch(
                leader_id=leader[0], leader_epoch=leader[1]
            )
        if diverging:
            content["diverging_epoch"] = Partition.EpochEndOffset(
                epoch=diverging[0], end_offset=diverging[1]
            )
        if snapshot:
            content["snapshot_id"] = Partition.SnapshotId(epoch=snapshot[0], end_offset=snapshot[1])
    return Partition(**content)


def build(content, version):
    throttle, error, session, found, endpoints = content
    response = FetchResponse(
        throttle_time_ms=throttle,
        error_code=error,
        session_id=session,
        responses=[
            Topic(
                topic=name, topic_id=uuid, partitions=[build_partition(p, version) for p in parts]
            )
            for name, uuid, parts in found
        ],
        node_endpoints=[
            FetchResponse.NodeEndpoint(node_id=i, host=host, port=port, rack=rack)
            for i, host, port, rack in endpoints
        ],
    )
    return bytes(response.encode(version=version, header=False, framed=False))


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=examples(60))
@given(content=responses)
def test_a_response_is_decoded_as_it_was_encoded(version, content):
    throttle, error, session, found, endpoints = content
    response = decode_fetch_response(memoryview(build(content, version)), version)
    assert response.throttle_time_ms == throttle
    sessions = (error, session) if version >= 7 else (0, 0)
    assert (response.error_code, response.session_id) == sessions
    expected_nodes = tuple(advertised(*node) for node in endpoints) if version >= 16 else ()
    assert response.node_endpoints == expected_nodes
    flat = [(name, uuid, part) for name, uuid, parts in found for part in parts]
    assert len(response.partitions) == len(flat)
    for got, (name, uuid, requested_offsets) in zip(response.partitions, flat, strict=True):
        assert (got.topic, got.topic_id) == ((None, uuid) if version >= 13 else (name, None))
        check_partition(got, requested_offsets, version)


def check_partition(got, requested_offsets, version):
    assert got.partition == requested_offsets["partition_index"]
    assert got.error_code == requested_offsets["error_code"]
    assert got.high_watermark == requested_offsets["high_watermark"]
    assert got.last_stable_offset == requested_offsets["last_stable_offset"]
    assert got.log_start_offset == (requested_offsets["log_start_offset"] if version >= 5 else -1)
    assert got.aborted_transactions == tuple(requested_offsets["aborted"] or ())
    assert got.preferred_read_replica == (
        requested_offsets["preferred_read_replica"] if version >= 11 else -1
    )
    assert got.current_leader == (requested_offsets["leader"] if version >= 12 else None)
    assert got.diverging_epoch == (requested_offsets["diverging"] if version >= 12 else None)
    assert bytes(got.records or b"") == (requested_offsets["records"] or b"")
    assert got.records is None or len(got.records) > 0


def test_a_memory_profiler_breaks_no_response():
    """It references each object while the objects of a response are made."""
    seen: list[object] = []

    def profile(*_: object) -> None:
        seen[:] = [each for each in gc.get_objects() if type(each) is tuple]

    pairs = [(number, number) for number in range(300)]
    content = {
        "partition_index": 0, "error_code": 0, "high_watermark": 0, "last_stable_offset": 0,
        "log_start_offset": 0, "aborted": pairs, "preferred_read_replica": -1, "records": b"",
        "leader": None, "diverging": None, "snapshot": None,
    }  # fmt: skip
    nodes = [(number, f"host-{number}", 9_092, "rack") for number in range(300)]
    body = memoryview(build((0, 0, 0, [("t", UUID(int=1), [content])], nodes), 16))
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what exists would make each collection slow
    gc.callbacks.append(profile)
    gc.set_threshold(40)
    try:
        response = decode_fetch_response(body, 16)
    finally:
        gc.callbacks.remove(profile)
        gc.set_threshold(*threshold)
        gc.unfreeze()
    assert seen
    assert response.partitions[0].aborted_transactions == tuple(pairs)
    assert response.node_endpoints == tuple(advertised(*node) for node in nodes)


def test_records_of_the_python_implementation_are_a_view_of_the_frame():
    content = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 0,
        "last_stable_offset": 0,
        "log_start_offset": 0,
        "aborted": None,
        "preferred_read_replica": -1,
        "records": b"x" * 1000,
        "leader": None,
        "diverging": None,
        "snapshot": None,
    }
    frame = bytearray(build((0, 0, 0, [("t", UUID(int=1), [content])], []), 12))
    with using("python"):
        [partition] = decode_fetch_response(memoryview(frame), 12).partitions
    frame[:] = b"y" * len(frame)
    assert bytes(partition.records) == b"y" * 1000


def test_unknown_tags_are_skipped():
    # Throttle, error, session, no topics; tags 0 (no endpoints) and 9 (three bytes).
    frame = bytes(10) + b"\x01" + b"\x02\x00\x01\x01\x09\x03abc"
    response = decode_fetch_response(memoryview(frame), 16)
    assert (response.partitions, response.node_endpoints) == ((), ())


def test_a_count_may_take_five_bytes():
    no_topics = b"\x81\x80\x80\x80\x00"
    response = decode_fetch_response(memoryview(bytes(10) + no_topics + b"\x00"), 16)
    assert response.partitions == ()


def test_an_unknown_leader_is_none():
    body = bytes(10) + b"\x02" + bytes(16) + b"\x02" + bytes(4 + 2 + 24) + b"\x01" + bytes(4)
    unknown = b"\xff" * 4 + b"\xff" * 4 + b"\x00"
    body += b"\x00" + b"\x01\x01\x09" + unknown + b"\x00\x00"
    [partition] = decode_fetch_response(memoryview(body), 13).partitions
    assert partition.current_leader is None


def many(name: bytes, count: int, claimed: int | None = None) -> memoryview:
    """A response of version 4 with so many empty partitions of a topic."""
    partition = bytes(4 + 2 + 16) + b"\xff" * 8  # no aborted transactions, no records
    topic = len(name).to_bytes(2, "big") + name
    claimed = count if claimed is None else claimed
    head = bytes(4) + (1).to_bytes(4, "big") + topic + claimed.to_bytes(4, "big")
    return memoryview(head + partition * count)


def test_partitions_share_the_name_of_their_topic():
    """Otherwise a small response could fill the memory with copies of a long name."""
    found = decode_fetch_response(many(b"n" * 30_000, 500), 4).partitions
    assert len(found) == 500
    assert len({id(each.topic) for each in found}) == 1


@pytest.mark.parametrize("claimed", [500 * 30 // 24 + 1, 2**31 - 1])
def test_a_count_beyond_the_bytes_is_rejected_at_once(claimed):
    text = f"an array of {claimed} elements does not fit"
    with pytest.raises(KafkaProtocolError, match=text):
        decode_fetch_response(many(b"n", 500, claimed), 4)
