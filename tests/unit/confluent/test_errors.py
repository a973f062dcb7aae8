"""The classes of confluent_kafka, and the conversion of our errors."""

from __future__ import annotations

import subprocess
import sys

import confluent_kafka
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, Message

from tandem_kafka import confluent, errors
from tandem_kafka.confluent.errors import kafka_error
from tandem_kafka.confluent.lookups import group_bytes
from tandem_kafka.confluent.messages import message_of
from tandem_kafka.types import ConsumerGroupMetadata, ConsumerRecord


def test_every_name_but_those_of_the_consumer_is_confluent_kafkas() -> None:
    for name in set(confluent.__all__) - {"Consumer", "DeserializingConsumer"}:
        theirs = (confluent_kafka, confluent_kafka.error, confluent_kafka.serialization)
        assert any(getattr(confluent, name) is getattr(each, name, None) for each in theirs), name


@pytest.mark.parametrize("stand_in", ["None", "types.ModuleType('confluent_kafka')"])
def test_without_confluent_kafka_the_import_says_what_to_install(stand_in: str) -> None:
    code = f"import sys, types; sys.modules['confluent_kafka'] = {stand_in}"
    statement = f"{code}; import tandem_kafka.confluent"
    ran = subprocess.run(
        [sys.executable, "-c", statement], capture_output=True, check=False, text=True
    )
    assert "ImportError: tandem_kafka.confluent uses the classes of confluent-kafka" in ran.stderr
    assert "pip install 'tandem-kafka[confluent]'" in ran.stderr


def test_a_record_becomes_a_message() -> None:
    record = ConsumerRecord(
        "t", 1, 4, 7, 99, 0, b"k", b"v", [("h", b"1"), ("i", None)], None, 1, 1, 3
    )
    message = message_of(record)
    assert type(message) is Message
    assert (message.topic(), message.partition(), message.offset()) == ("t", 1, 7)
    assert (message.key(), message.value(), message.leader_epoch()) == (b"k", b"v", 4)
    assert message.headers() == [("h", b"1"), ("i", None)]
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 99)
    assert (message.error(), message.latency()) == (None, None)
    old = record._replace(timestamp=-1, timestamp_type=None, headers=[], leader_epoch=-1)
    assert message_of(old).timestamp() == (confluent_kafka.TIMESTAMP_NOT_AVAILABLE, -1)
    assert (message_of(old).headers(), message_of(old).leader_epoch()) == (None, None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.KafkaTimeoutError("x"), "_TIMED_OUT"),
        (errors.NoOffsetForPartitionError("x"), "_AUTO_OFFSET_RESET"),
        (errors.TopicAuthorizationFailedError("x"), "TOPIC_AUTHORIZATION_FAILED"),
        (errors.SaslAuthenticationFailedError("x"), "_AUTHENTICATION"),
        (errors.CommitFailedError("x"), "UNKNOWN_MEMBER_ID"),
        (errors.CommitDuringRebalanceError("x"), "REBALANCE_IN_PROGRESS"),
        (errors.FencedInstanceIdError("x"), "FENCED_INSTANCE_ID"),
        (errors.NotAssignedError("x"), "_STATE"),
        (errors.NetworkThreadError("x"), "_FATAL"),
        (errors.InvalidArgumentError("x"), "_INVALID_ARG"),
        (errors.KafkaError("x"), "_FAIL"),
    ],
)
def test_errors_of_our_consumer_have_a_code(error: Exception, code: str) -> None:
    found = kafka_error(error)
    assert type(found) is KafkaError
    assert found.name() == code
    fatal = isinstance(error, errors.NetworkThreadError | errors.FencedInstanceIdError)
    assert found.fatal() is fatal


def test_group_metadata_has_the_bytes_of_librdkafka() -> None:
    static = ConsumerGroupMetadata("g", 7, "m", "i")
    assert group_bytes(static) == b"CGMDv2:\x07\x00\x00\x00g\x00m\x00\x00i\x00"
    dynamic = ConsumerGroupMetadata("g", -1, "", None)
    assert group_bytes(dynamic) == b"CGMDv2:\xff\xff\xff\xffg\x00\x00\x01"
