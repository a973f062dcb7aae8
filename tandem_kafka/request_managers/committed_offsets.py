"""Looks committed offsets up (OffsetFetch); equal look-ups share one request."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tandem_kafka.errors import TopicAuthorizationFailedError, for_code
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator import CoordinatorManager
from tandem_kafka.request_managers.reactions import OFFSET_FETCH, Reaction, reaction_to
from tandem_kafka.shared.metadata import NO_TOPIC_ID
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import OffsetFetchRequest

__all__ = ["Committed", "CommittedOffsetsManager"]

log = logging.getLogger(__name__)

Committed = dict[TopicPartition, OffsetAndMetadata | None]

#: How long before its deadline a look-up settles for "none" where a topic stays unknown.
_SETTLE_MS = 100


@dataclass(slots=True, eq=False)
class _Lookup:
    partitions: frozenset[TopicPartition]
    deadline_ms: int
    state: RequestState
    waiting: list[Completion[Committed]]
    found: Committed = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """True when something is known of every partition, if only that its topic is unknown."""
        return self.partitions <= self.found.keys()


class CommittedOffsetsManager:
    """One look-up per set of partitions, retried until its deadline."""

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorManager,
        refresh_metadata: Callable[[Iterable[str]], None],
    ) -> None:
        self._context = context
        self._coordinator = coordinator
        self._refresh_metadata = refresh_metadata
        self._lookups: list[_Lookup] = []
        coordinator.on_fatal(self._fail_all)

    def look_up(
        self, partitions: frozenset[TopicPartition], deadline_ms: int, future: Completion[Committed]
    ) -> None:
        """Find the committed offsets; None for a partition without one."""
        if not partitions:
            future.complete({})
            return
        for lookup in self._lookups:
            if lookup.partitions == partitions:
                lookup.waiting.append(future)
                lookup.deadline_ms = max(lookup.deadline_ms, deadline_ms)
                return
        state = self._context.request_state()
        self._lookups.append(_Lookup(partitions, deadline_ms, state, [future]))

    def poll(self, now_ms: int) -> PollResult:
        """Send every look-up whose back-off is over."""
        if not self._lookups:
            return IDLE
        self._lookups = [lk for lk in self._lookups if any(not f.done for f in lk.waiting)]
        for lookup in tuple(self._lookups):
            self._settle(lookup, now_ms)
        if not self._lookups:
            return IDLE
        destination = self._coordinator.beside_parked()
        if destination is None:
            return PollResult(wait_ms=self._next_deadline_ms(now_ms))
        unsent = tuple(
            self._send(lookup, destination)
            for lookup in self._lookups
            if lookup.state.can_send(now_ms)
        )
        wait_ms = min((lk.state.wait_ms(now_ms) for lk in self._lookups), default=FOREVER_MS)
        return PollResult(unsent, min(wait_ms, self._next_deadline_ms(now_ms)))

    def close(self, now_ms: int) -> PollResult:
        """A listener that runs during close may still ask."""
        return self.poll(now_ms)

    def _next_deadline_ms(self, now_ms: int) -> int:
        deadlines = [lk.deadline_ms - _SETTLE_MS for lk in self._lookups if lk.answered]
        return max(1, min(deadlines) - now_ms) if deadlines else FOREVER_MS

    def _settle(self, lookup: _Lookup, now_ms: int) -> None:
        """Close to the deadline, what stays unknown has no offset (KAFKA-20165)."""
        if lookup.answered and now_ms >= lookup.deadline_ms - _SETTLE_MS:
            self._complete(lookup, {tp: lookup.found.get(tp) for tp in lookup.partitions})

    # --- the request ---------------------------------------------------------------------------

    def _send(self, lookup: _Lookup, destination: ToNode) -> UnsentRequest:
        lookup.state.sent()
        request = self._context.request(self._message(lookup.partitions), destination)
        request.future.then(lambda future: self._answered(lookup, future))
        return request

    def _message(self, partitions: frozenset[TopicPartition]) -> OffsetFetchRequest:
        snapshot = self._context.metadata.snapshot
        by_topic: dict[str, list[int]] = defaultdict(list)
        for tp in sorted(partitions):
            by_topic[tp.topic].append(tp.partition)
        ids_known = all(snapshot.topic_id(topic) != NO_TOPIC_ID for topic in by_topic)
        group_entry = OffsetFetchRequest.OffsetFetchRequestGroup
        group_id = self._context.group.metadata.group_id
        grouped = [
            group_entry.OffsetFetchRequestTopics(
                name=topic, topic_id=snapshot.topic_id(topic), partition_indexes=numbers
            )
            for topic, numbers in by_topic.items()
        ]
        plain = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic.items()
        ]
        return OffsetFetchRequest(
            group_id=group_id,
            topics=plain,
            groups=[
                group_entry(group_id=group_id, member_id=None, member_epoch=-1, topics=grouped)
            ],
            # An open transaction's offsets are waited for (KIP-447).
            require_stable=True,
            max_version=None if ids_known else 9,
        )

    # --- the answer ----------------------------------------------------------------------------

    def _answered(self, lookup: _Lookup, future: Completion[ClientResponse]) -> None:
        error = future.error
        if error is None:
            error = self._read(lookup, future.result())
        if error is None:
            self._complete(lookup, {tp: lookup.found.get(tp) for tp in lookup.partitions})
            return
        reaction = reaction_to(OFFSET_FETCH, error)
        if reaction is Reaction.FAIL:
            self._fail(lookup, error)
            return
        if reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        elif reaction is Reaction.REFRESH:
            self._refresh_metadata({tp.topic for tp in lookup.partitions})
        log.debug("looking committed offsets up again: %s", error)
        lookup.state.failed(self._context.clock.now_ms())

    def _read(self, lookup: _Lookup, response: ClientResponse) -> Exception | None:
        group = response.message.groups[0] if response.version >= 8 else response.message
        if group.error_code:
            return for_code(group.error_code)(self._context.group.metadata.group_id)  # type: ignore[no-any-return]
        lookup.found.clear()  # an answer speaks of every partition
        error: Exception | None = None
        unauthorized = set()
        names = self._context.metadata.snapshot.topic_names if response.version >= 10 else {}
        for tp, entry in _entries(group, names):
            error_type = for_code(entry.error_code) if entry.error_code else None
            if error_type is TopicAuthorizationFailedError:
                unauthorized.add(tp.topic)
            elif error_type is not None:
                error = error_type(f"{tp.topic}-{tp.partition}")
                if reaction_to(OFFSET_FETCH, error) is Reaction.REFRESH:
                    lookup.found[tp] = None
            else:
                lookup.found[tp] = _offset(entry)
        return TopicAuthorizationFailedError(unauthorized) if unauthorized else error

    def _complete(self, lookup: _Lookup, found: Committed) -> None:
        self._forget(lookup)
        for future in lookup.waiting:
            future.complete(dict(found))

    def _fail(self, lookup: _Lookup, error: BaseException) -> None:
        self._forget(lookup)
        for future in lookup.waiting:
            future.fail(error)

    def _forget(self, lookup: _Lookup) -> None:
        if lookup in self._lookups:
            self._lookups.remove(lookup)

    def _fail_all(self, error: Exception) -> None:
        for lookup in tuple(self._lookups):
            self._fail(lookup, error)


def _entries(group: Any, names: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in group.topics:
        name = topic.name or names.get(topic.topic_id)
        if name is not None:
            for entry in topic.partitions:
                yield TopicPartition(name, entry.partition_index), entry


def _offset(entry: Any) -> OffsetAndMetadata | None:
    if entry.committed_offset < 0:
        return None
    epoch = -1 if entry.committed_leader_epoch is None else entry.committed_leader_epoch
    return OffsetAndMetadata(entry.committed_offset, entry.metadata or "", epoch)
