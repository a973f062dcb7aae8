"""Transactions that commit offsets, by nothing but their requests or of the simulated cluster."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
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

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tests.integration.joining import name_of
from tests.integration.lines import Line
from tests.integration.offsets import entries_of

__all__ = ["RawTransaction", "RealTransaction", "SimulatedTransaction"]

#: The last versions with which a producer itself says what belongs to its transaction.
_VERSION = 3
_TRANSACTIONS = 1


class RawTransaction(ABC):
    """One transaction."""

    @abstractmethod
    def commit(
        self, member_id: str, generation: int, instance: str | None = None, **offsets: int
    ) -> str | None:
        """Commit offsets as a member, or as nobody, by `p0=5`; returns the error."""

    @abstractmethod
    def end(self, *, committed: bool) -> None:
        """Commit or abort it; what it has committed may take a moment to be seen."""


class RealTransaction(RawTransaction):
    """Of a producer of its own at the only broker."""

    def __init__(self, line: Line, group: str, topic: str) -> None:
        self._line = line
        self._group = group
        self._topic = topic
        self._producer: dict[str, Any] = {"transactional_id": f"raw-{uuid.uuid4().hex[:8]}"}

    def begin(self) -> bool:
        """Ask for an id; False as long as there is no coordinator that gives any."""
        name = self._producer["transactional_id"]
        request = FindCoordinatorRequest(key_type=_TRANSACTIONS, coordinator_keys=[name])
        self._line.ask(request, FindCoordinatorResponse, 4)
        asked = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        answer = self._ask(asked, InitProducerIdResponse)
        self._producer["producer_id"] = answer.producer_id
        self._producer["producer_epoch"] = answer.producer_epoch
        return not answer.error_code

    def commit(
        self, member_id: str, generation: int, instance: str | None = None, **offsets: int
    ) -> str | None:
        added = AddOffsetsToTxnRequest(group_id=self._group, **self._producer)
        assert not self._ask(added, AddOffsetsToTxnResponse).error_code
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
        answer = self._ask(request, TxnOffsetCommitResponse)
        (code,) = {p.error_code for told in answer.topics for p in told.partitions}
        return name_of(code)

    def end(self, *, committed: bool) -> None:
        answer = self._ask(EndTxnRequest(committed=committed, **self._producer), EndTxnResponse)
        assert not answer.error_code, name_of(answer.error_code)

    def _ask(self, request: Any, kind: Any) -> Any:
        return self._line.ask(request, kind, _VERSION)


class SimulatedTransaction(RawTransaction):
    """Of a producer that the simulated cluster knows by its id alone."""

    def __init__(self, cluster: Any, producer_id: int, group: str, topic: str) -> None:
        self._cluster = cluster
        self._producer_id = producer_id
        self._group = group
        self._topic = topic

    def commit(
        self, member_id: str, generation: int, instance: str | None = None, **offsets: int
    ) -> str | None:
        named = {TopicPartition(self._topic, int(name[1:])): o for name, o in offsets.items()}
        error = self._cluster.commit_in_transaction(
            self._group, self._producer_id, named, member_id, generation, instance
        )
        return None if error is None else str(error.__name__)

    def end(self, *, committed: bool) -> None:
        self._cluster.end_transaction(self._group, self._producer_id, commit=committed)
