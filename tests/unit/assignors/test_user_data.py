"""The user data in which members of a sticky group send their previous partitions."""

from __future__ import annotations

import pytest
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tandem_kafka.assignors import CooperativeStickyAssignor, StickyPartitionAssignor
from tandem_kafka.assignors.user_data import (
    decode_cooperative_user_data,
    decode_sticky_user_data,
    encode_cooperative_user_data,
    encode_sticky_user_data,
)
from tests.unit.assignors.groups import partitions

OWNED = list(partitions("orders-0, orders-7, zahlungen-ü-3"))
#: Written by Kafka 4.3's StickyAssignor for these partitions and generation 42.
FROM_JAVA = bytes.fromhex(
    "00000002"
    "0006" + b"orders".hex() + "00000002"
    "00000000"
    "00000007"
    "000c" + "zahlungen-ü".encode().hex() + "00000001"
    "00000003"
    "0000002a"
)
FROM_KAFKA_PYTHON = bytes(
    StickyAssignorUserData([("orders", [0, 7]), ("zahlungen-ü", [3])], 42).encode()
)


def test_the_bytes_equal_those_of_the_java_client():
    assert encode_sticky_user_data(reversed(OWNED), 42) == FROM_JAVA


def test_kafka_python_adds_a_version_prefix():
    assert encode_sticky_user_data(OWNED, 42, for_kafka_python=True) == FROM_KAFKA_PYTHON
    assert FROM_KAFKA_PYTHON.endswith(FROM_JAVA)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("data", [FROM_JAVA, FROM_KAFKA_PYTHON])
def test_both_formats_are_decoded(data, kind):
    assert decode_sticky_user_data(kind(data)) == (OWNED, 42)


def test_version_0_has_no_generation():
    assert decode_sticky_user_data(FROM_JAVA[:-4]) == (OWNED, -1)


@pytest.mark.parametrize("data", [None, b""])
def test_a_member_without_user_data_owns_nothing(data):
    assert decode_sticky_user_data(data) == ([], -1)
    assert decode_cooperative_user_data(data) == -1


@pytest.mark.parametrize("data", [FROM_JAVA, FROM_KAFKA_PYTHON], ids=["java", "kafka-python"])
def test_truncated_user_data_is_ignored(data):
    whole = len(data) - 4
    for length in range(1, len(data)):
        if length != whole:
            assert decode_sticky_user_data(data[:length]) == ([], -1)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\xff\xff" + bytes(8),
        b"\x00\x00\x00\x01\x00\x02\xff\xff" + bytes(8),
        b"\x00\x00\x00\x01\x00\x01a\x7f\xff\xff\xff" + bytes(8),
        b"\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff" + bytes(8),
    ],
    ids=["topics", "a name's length", "a name", "partitions", "fewer than no partitions"],
)
def test_invalid_user_data_is_ignored(data):
    assert decode_sticky_user_data(data) == ([], -1)


def test_the_generation_of_a_cooperative_member():
    assert encode_cooperative_user_data(42) == bytes.fromhex("0000002a")
    assert encode_cooperative_user_data(-1) == bytes.fromhex("ffffffff")
    assert decode_cooperative_user_data(bytes.fromhex("0000002a")) == 42


def test_librdkafka_sends_its_generation_like_a_sticky_member():
    assert decode_cooperative_user_data(FROM_JAVA) == 42


def test_a_new_member_sends_no_user_data():
    assert not StickyPartitionAssignor().metadata(["orders"]).user_data
    assert not CooperativeStickyAssignor().metadata(["orders"]).user_data


@pytest.mark.parametrize(
    ("version", "data"), [(0, FROM_KAFKA_PYTHON), (1, FROM_JAVA), (3, FROM_JAVA)]
)
def test_a_member_writes_the_format_of_its_leader(version, data):
    """Leaders write assignments of version 0 (kafka-python), 1 (this package) or 3 (Java)."""
    assignor = StickyPartitionAssignor()
    assigned = [("orders", [7, 0]), ("zahlungen-ü", [3])]
    assignor.on_assignment(ConsumerProtocolAssignment(version, assigned, b""), 42)
    assert assignor.metadata(["orders"]).user_data == data
