"""Checks of arguments, and their errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tandem_kafka.consumer.arguments import (
    check_limit,
    check_offset,
    check_offsets,
    check_partition,
    check_partitions,
    check_timestamps,
    check_topics,
    compile_pattern,
    each_partition,
)
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

TP = TopicPartition("orders", 0)
COMMIT = OffsetAndMetadata(5, "note", 3)


@pytest.mark.parametrize(
    "options", [{"sasl.password": "Hidden-7"}, {"sasl_plain_password": "Hidden-7"}]
)
def test_options_in_place_of_topics_show_no_password(options: Any) -> None:
    """Other clients take a dict of options."""
    for topics in ([options], [[options]]):
        with pytest.raises(TypeError) as caught:
            check_topics(topics)
        assert "Hidden-7" not in str(caught.value)


def test_topics() -> None:
    assert check_topics(["b", "a", "b"]) == {"a", "b"}
    assert check_topics(name for name in ("a",)) == {"a"}
    assert check_topics(()) == frozenset()


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("topics", ["a", b"a", 5, None])
def test_topics_must_be_a_collection(topics: Any) -> None:
    with pytest.raises(TypeError, match="topics"):
        check_topics(topics)


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("topics", [[None], [""], [" "], ["a", 5]])
def test_topics_must_be_names(topics: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        check_topics(topics)


def test_patterns() -> None:
    compiled = re.compile("a")
    assert compile_pattern(compiled) is compiled
    assert compile_pattern("a.*").match("abc")


@pytest.mark.parametrize("pattern", ["", None, 5, "("])
def test_invalid_patterns(pattern: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="pattern"):
        compile_pattern(pattern)


@pytest.mark.behaviour(13)
@pytest.mark.parametrize(
    ("partition", "error"),
    [
        ("orders", TypeError),
        (("orders", 0), TypeError),
        (TopicPartition("", 0), InvalidArgumentError),
        (TopicPartition(None, 0), InvalidArgumentError),
        (TopicPartition("orders", -1), InvalidArgumentError),
        (TopicPartition("orders", "0"), InvalidArgumentError),
    ],
)
def test_invalid_partitions_are_rejected(partition: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_partition(partition)
    with pytest.raises(error):
        check_partitions([partition])
    with pytest.raises(error):
        each_partition([partition])


@pytest.mark.behaviour(13)
def test_collections_of_partitions_are_checked() -> None:
    other = TopicPartition("orders", 1)
    assert check_partitions([other, TP, other]) == (other, TP)
    assert check_partitions([]) == ()
    assert each_partition([TP]) == (TP,)
    with pytest.raises(InvalidArgumentError):
        check_partitions(None)
    for wrong in (TP, "orders", 5):
        with pytest.raises(TypeError):
            check_partitions(wrong)


@pytest.mark.behaviour(16)
def test_offsets_to_seek_to() -> None:
    assert check_offset(7) == OffsetAndMetadata(7, "", -1)
    assert check_offset(COMMIT) is COMMIT
    for wrong in (-1, OffsetAndMetadata(-1, "", -1)):
        with pytest.raises(InvalidArgumentError, match="negative"):
            check_offset(wrong)
    for wrong in ("7", 7.0, None, True):
        with pytest.raises(TypeError):
            check_offset(wrong)


@pytest.mark.behaviour(19)
def test_offsets_to_commit_are_copied() -> None:
    given = {TP: COMMIT}
    copy = check_offsets(given)
    given.clear()
    assert copy == {TP: COMMIT}
    unset = check_offsets({TP: OffsetAndMetadata(5, None, None)})
    assert unset == {TP: OffsetAndMetadata(5, "", -1)}


@pytest.mark.behaviour(16)
@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ([TP], TypeError),
        ({TP: 5}, TypeError),
        ({"orders": COMMIT}, TypeError),
        ({TP: OffsetAndMetadata(-1, "", -1)}, InvalidArgumentError),
    ],
)
def test_offsets_that_cannot_be_committed(offsets: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_offsets(offsets)


def test_limits() -> None:
    assert check_limit(None, 500) == 500
    assert check_limit(1, 500) == 1
    for wrong in (0, -1):
        with pytest.raises(InvalidArgumentError, match="max_records"):
            check_limit(wrong, 500)
    with pytest.raises(TypeError):
        check_limit("5", 500)


@pytest.mark.behaviour(18)
def test_timestamps_are_checked() -> None:
    assert check_timestamps({TP: 5.9}) == {TP: 5}
    with pytest.raises(InvalidArgumentError, match="negative"):
        check_timestamps({TP: -1})
    with pytest.raises(TypeError):
        check_timestamps([TP])
