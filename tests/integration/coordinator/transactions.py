"""Transactions that commit offsets, with raw requests."""

from __future__ import annotations

import uuid
from typing import Any

from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from tandem_kafka.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tests.integration.connections import Connection
from tests.integration.joining import name_of
from tests.integration.offsets import entries_of

__all__ = ["RawTransaction"]

#: The last versions in which a producer adds partitions to its transaction itself.
_VERSION = 3
_TRANSACTIONS = 1


class RawTransaction:
    """A transaction of a new producer at the only broker."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._producer: dict[str, Any] = {"transactional_id": f"raw-{uuid.uuid4().hex[:8]}"}

    def begin(self) -> bool:
        """Get a producer id; False as long as there is no transaction coordinator."""
        name = self._producer["transactional_id"]
        request = FindCoordinatorRequest(key_type=_TRANSACTIONS, coordinator_keys=[name])
        self._connection.exchange(request, FindCoordinatorResponse, 4)
        asked = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        response = self._exchange(asked, InitProducerIdResponse)
        self._producer["producer_id"] = response.producer_id
        self._producer["producer_epoch"] = response.producer_epoch
        return not response.error_code

    def commit(
        self, member_id: str, generation: int, instance: str | None = None, **offsets: int
    ) -> str | None:
        """Commit offsets, given as in `p0=5`, with or without membership; returns the error."""
        added = AddOffsetsToTxnRequest(group_id=self._group, **self._producer)
        assert not self._exchange(added, AddOffsetsToTxnResponse).error_code
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        entries = entries_of(topic.TxnOffsetCommitRequestPartition, offsets)
        request = TxnOffsetCommitRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[topic(name=self._topic, partitions=entries)],
            **self._producer,
        )
        response = self._exchange(request, TxnOffsetCommitResponse)
        (code,) = {
            p.error_code for topic_result in response.topics for p in topic_result.partitions
        }
        return name_of(code)

    def end(self, *, committed: bool) -> None:
        """Commit or abort it; committed offsets may become visible a moment later."""
        response = self._exchange(
            EndTxnRequest(committed=committed, **self._producer), EndTxnResponse
        )
        assert not response.error_code, name_of(response.error_code)

    def _exchange(self, request: Any, kind: Any) -> Any:
        return self._connection.exchange(request, kind, _VERSION)
