"""A coordinator without a cluster: a test passes requests and time, and reads the results."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator import requests
from tandem_kafka_testing.coordinator.coordinator import GroupCoordinator
from tandem_kafka_testing.coordinator.settings import GroupSettings
from tandem_kafka_testing.coordinator.step import Outcome, Request, Timer

__all__ = ["Driven", "assignment_of", "orders", "subscription"]


def orders(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of `orders`."""
    return frozenset(TopicPartition("orders", number) for number in numbers)


def subscription(
    *numbers: int, topics: Iterable[str] = ("orders",), rack: str | None = None
) -> bytes:
    """Return the metadata of a classic member that owns these partitions."""
    entry = ConsumerProtocolSubscription.TopicPartition
    has = [entry(topic="orders", partitions=list(numbers))] if numbers else []
    said = ConsumerProtocolSubscription(
        version=3,
        topics=list(topics),
        user_data=b"",
        owned_partitions=has,
        generation_id=-1,
        rack_id=rack,
    )
    return bytes(said.encode())


def assignment_of(*numbers: int) -> bytes:
    """Return an encoded assignment."""
    return bytes(ConsumerProtocolAssignment(0, [("orders", list(numbers))], b"").encode())


class Driven:
    """One coordinator of a cluster with topic `orders`, which has four partitions.

    Attributes:
        results: The results of requests, in order.
    """

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.topics = {"orders": 4}
        self.coordinator = GroupCoordinator(lambda: self.topics, GroupSettings(**settings))
        self.results: dict[Request, Any] = {}
        self._timers: list[tuple[int, int, Timer]] = []
        self._ids = 0

    # --- turns ---------------------------------------------------------------------------------

    def ask(self, request: Request) -> Any:
        """Handle a request; returns its result, None if it is parked."""
        self._take(self.coordinator.handle(request, self.now_ms))
        return self.results.get(request)

    def sleep(self, duration_ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + duration_ms
        while self._timers and self._timers[0][0] <= until_ms:
            self.now_ms, _, timer = heapq.heappop(self._timers)
            self._take(self.coordinator.expire(timer, self.now_ms))
        self.now_ms = until_ms

    def fail_over(self, lost: int = 0) -> None:
        """Continue with a new coordinator that has read the log."""
        before = self.coordinator
        self.coordinator = GroupCoordinator(lambda: self.topics, before.settings)
        self.coordinator.log = before.log
        self._timers.clear()
        self._take(self.coordinator.take_over(self.now_ms, lost))

    def _take(self, outcome: Outcome) -> None:
        self.results.update(outcome.responses)
        for timer in outcome.timers:
            self._ids += 1
            heapq.heappush(self._timers, (timer.when_ms, self._ids, timer))

    # --- classic members -----------------------------------------------------------------------

    def join(self, member_id: str, said: bytes | None = None, **fields: Any) -> requests.JoinGroup:
        """Send JoinGroup of a classic member; `results` has its result in the end."""
        fields.setdefault("protocols", {"range": subscription() if said is None else said})
        fields.setdefault("session_ms", 10_000)
        fields.setdefault("rebalance_ms", 60_000)
        self._ids += 1
        fields.setdefault("new_id", f"new-{self._ids}")
        request = requests.JoinGroup(member_id=member_id, **fields)
        self.ask(request)
        return request

    def sync(self, member_id: str, generation: int, **assigned: bytes) -> requests.SyncGroup:
        """Send SyncGroup of a classic member, with assignments for a leader."""
        request = requests.SyncGroup(
            member_id=member_id, generation=generation, assignments=assigned
        )
        self.ask(request)
        return request

    def heartbeat(self, member_id: str, generation: int) -> Any:
        """Send a heartbeat of a classic member; returns the error."""
        return self.ask(requests.Heartbeat(member_id=member_id, generation=generation))

    def alone(self, *numbers: int) -> str:
        """Let one classic member join and sync; returns its id."""
        request = self.join("")
        joined = self.results[request]
        self.sync(
            joined.member_id, joined.generation, **{joined.member_id: assignment_of(*numbers)}
        )
        return str(joined.member_id)

    # --- KIP-848 members -----------------------------------------------------------------------

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        """Send a heartbeat of a KIP-848 member."""
        if epoch == 0:
            fields.setdefault("owned", frozenset())
            fields.setdefault("topics", frozenset(["orders"]))
            fields.setdefault("rebalance_ms", 60_000)
        return self.ask(requests.ConsumerHeartbeat(member_id=member_id, epoch=epoch, **fields))

    # --- offsets -------------------------------------------------------------------------------

    def commit(
        self, member_id: str, generation: int, producer_id: int | None = None, **offsets: int
    ) -> Any:
        """Commit offsets of partitions of `orders`, by `p0=5`; returns the error."""
        named = {TopicPartition("orders", int(name[1:])): o for name, o in offsets.items()}
        request = requests.CommitOffsets(
            member_id=member_id,
            generation=generation,
            producer_id=producer_id,
            offsets={tp: (offset, -1, "") for tp, offset in named.items()},
        )
        return self.ask(request)

    def committed(self) -> dict[int, int]:
        """The committed offsets of `orders`."""
        fetched = self.ask(requests.FetchOffsets())
        return {tp.partition: commit.offset for tp, commit in fetched.offsets.items()}

    def unstable(self) -> set[int]:
        """The partitions of `orders` with withheld offsets."""
        fetched = self.ask(requests.FetchOffsets(require_stable=True))
        return {tp.partition for tp in fetched.unstable}

    def end(self, producer_id: int, *, committed: bool) -> None:
        """End a transaction."""
        self.ask(requests.EndTransaction(producer_id=producer_id, committed=committed))
