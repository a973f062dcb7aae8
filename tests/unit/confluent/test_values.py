"""Errors, partitions and messages, beside those of `confluent_kafka`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import confluent_kafka
import pytest

from tandem_kafka import confluent, errors
from tandem_kafka.confluent.errors import kafka_error
from tandem_kafka.confluent.lookups import group_bytes
from tandem_kafka.types import ConsumerGroupMetadata

BOTH = (confluent_kafka, confluent)


def codes(error: Any) -> dict[str, int]:
    return {
        n: getattr(error, n) for n in dir(error) if n.isupper() and n.strip("_") and n[:2] != "__"
    }


def test_every_code_has_its_name_and_number() -> None:
    theirs, ours = codes(confluent_kafka.KafkaError), codes(confluent.KafkaError)
    assert ours == theirs
    for code in theirs.values():
        assert confluent.KafkaError(code).name() == confluent_kafka.KafkaError(code).name()


@pytest.mark.parametrize(
    "name",
    ["_PARTITION_EOF", "_NO_OFFSET", "_STATE", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "NO_ERROR"],
)
def test_the_text_of_common_errors(name: str) -> None:
    code = getattr(confluent.KafkaError, name)
    assert confluent.KafkaError(code).str() == confluent_kafka.KafkaError(code).str()
    assert repr(confluent.KafkaError(code)) == repr(confluent_kafka.KafkaError(code))


def error_of(api: ModuleType) -> Any:
    return api.KafkaError(-191, "why", fatal=True, retriable=True)


@pytest.mark.parametrize(
    "look",
    [
        lambda e: (e.code(), e.name(), e.str(), e.fatal(), e.retriable(), e.txn_requires_abort()),
        lambda e: (e == -191, e == -190, e != -191, hash(e) == hash(-191)),
        str,
        repr,
        lambda e: isinstance(e, Exception),
    ],
)
def test_an_error(look: Any) -> None:
    theirs, ours = (look(error_of(api)) for api in BOTH)
    assert ours == theirs


def test_an_exception() -> None:
    theirs, ours = (api.KafkaException(error_of(api)) for api in BOTH)
    assert (str(ours), repr(ours)) == (str(theirs), repr(theirs))
    assert ours.args[0].code() == theirs.args[0].code()


@pytest.mark.parametrize("arguments", [("t",), ("t", 1), ("t", 1, 5), ("t", 1, -2, "m", 4)])
def test_a_partition(arguments: tuple[Any, ...]) -> None:
    theirs, ours = (api.TopicPartition(*arguments) for api in BOTH)
    assert repr(ours) == repr(theirs)
    assert (ours.metadata, ours.leader_epoch, ours.error) == (
        theirs.metadata,
        theirs.leader_epoch,
        theirs.error,
    )


def test_partitions_are_equal_by_topic_and_number() -> None:
    one = confluent.TopicPartition
    assert one("t", 1, 5) == one("t", 1, 9)
    assert len({one("t", 1, 5), one("t", 1, 9), one("t", 2)}) == 2
    assert min([one("t", 2), one("s", 3), one("t", 1)]) == one("s", 3)
    assert one("t", 1) != ("t", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"topic": "t", "value": b"v", "key": b"k", "headers": [("a", b"b")], "offset": 3},
        {"timestamp": (1, 17), "leader_epoch": 2, "partition": 1, "latency": 0.5},
        {"headers": []},
    ],
)
def test_a_message(arguments: dict[str, Any]) -> None:
    theirs, ours = (api.Message(**arguments) for api in BOTH)
    for name in ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "latency"):
        assert getattr(ours, name)() == getattr(theirs, name)(), name
    assert (len(ours), bool(ours)) == (len(theirs), bool(theirs))
    assert (ours.leader_epoch(), ours.error()) == (theirs.leader_epoch(), theirs.error())


def test_a_message_can_be_changed() -> None:
    message = confluent.Message("t", value=b"v")
    message.set_topic("u")
    message.set_key(1)
    message.set_value({"a": 1})
    message.set_headers([("h", b"")])
    message.set_error(confluent.KafkaError(3))
    assert (message.topic(), message.key(), message.value()) == ("u", 1, {"a": 1})
    assert (message.headers(), message.error()) == ([("h", b"")], 3)


def test_constants() -> None:
    for name in dir(confluent_kafka):
        if name.startswith(("OFFSET_", "TIMESTAMP_")):
            assert getattr(confluent, name) == getattr(confluent_kafka, name)


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
    assert found.name() == code
    fatal = isinstance(error, errors.NetworkThreadError | errors.FencedInstanceIdError)
    assert found.fatal() is fatal


def test_group_metadata_is_accepted_by_a_transactional_producer() -> None:
    static = ConsumerGroupMetadata("g", 7, "m", "i")
    assert group_bytes(static) == b"CGMDv2:\x07\x00\x00\x00g\x00m\x00\x00i\x00"
    dynamic = ConsumerGroupMetadata("g", -1, "", None)
    assert group_bytes(dynamic) == b"CGMDv2:\xff\xff\xff\xffg\x00\x00\x01"
