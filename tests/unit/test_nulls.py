"""Nulls in responses: rejected or accepted, by the schema."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.metadata import MetadataResponse

from tandem_kafka.wire.responses import reject_nulls

_TOPIC = MetadataResponse.MetadataResponseTopic
_PARTITION = _TOPIC.MetadataResponsePartition


def metadata(**changes: Any) -> MetadataResponse:
    partition = {"replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
    partition |= {name: changes.pop(name) for name in partition if name in changes}
    topic = {
        "name": "orders",
        "partitions": [_PARTITION(error_code=0, partition_index=0, leader_id=1, **partition)],
    }
    topic |= {name: changes.pop(name) for name in topic if name in changes}
    return MetadataResponse(
        **{"brokers": [], "controller_id": 1, "cluster_id": "x", "topics": [_TOPIC(**topic)]}
        | changes
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"brokers": None}, "^brokers is null"),
        ({"topics": None}, "^topics is null"),
        ({"partitions": None}, r"^topics\.partitions is null"),
        ({"isr_nodes": None}, r"^topics\.partitions\.isr_nodes is null"),
    ],
)
def test_a_null_is_rejected_with_its_path(changes: dict[str, Any], complaint: str) -> None:
    reject_nulls(metadata(), 9)
    with pytest.raises(ValueError, match=complaint):
        reject_nulls(metadata(**changes), 9)


def test_allowed_nulls_and_absent_fields_are_accepted() -> None:
    reject_nulls(metadata(cluster_id=None), 9)
    reject_nulls(metadata(offline_replicas=None), 4)  # since version 5
    with pytest.raises(ValueError, match="offline_replicas"):
        reject_nulls(metadata(offline_replicas=None), 5)
    with pytest.raises(ValueError, match="name"):
        reject_nulls(metadata(name=None), 9)
    reject_nulls(metadata(name=None), 12)  # a response by id may have no name


def test_all_elements_are_checked() -> None:
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    response = OffsetFetchResponse(
        topics=[topic(name="one", partitions=[]), topic(name=None, partitions=[])], error_code=0
    )
    with pytest.raises(ValueError, match=r"topics\.name is null"):
        reject_nulls(response, 7)
