"""Looks up committed offsets (OffsetFetch); equal lookups share one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import for_code
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator import CoordinatorManager
from tandem_kafka.request_managers.reactions import OFFSET_FETCH, Reaction, reaction_to
from tandem_kafka.types import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import OffsetFetchRequest
from tandem_kafka.wire.topic_partitions import by_topic, raise_error_of, requested_entries

log = client_logger(__name__)

Committed = dict[TopicPartition, OffsetAndMetadata | None]

#: From these versions on, requests have a list of groups and identify topics by id, respectively.
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_WITH_IDS = 10


@dataclass(slots=True, eq=False)
class _Lookup:
    partitions: frozenset[TopicPartition]
    state: RequestState
    waiting: list[Completion[Committed]]


class CommittedOffsetsManager(RequestManager):
    """One lookup per set of partitions, retried while a caller waits for it.

    A partition has no committed offset only if the response says so. If the broker does not know
    the partition, or the response omits it, the lookup is retried. Otherwise the reset policy
    would skip records.
    """

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

    def look_up(self, partitions: frozenset[TopicPartition], future: Completion[Committed]) -> None:
        """Look up committed offsets; None for a partition without one."""
        if not partitions:
            future.complete({})
            return
        for lookup in self._lookups:
            if lookup.partitions == partitions:
                lookup.waiting.append(future)
                return
        self._lookups.append(_Lookup(partitions, self._context.request_state(), [future]))

    def poll(self, now_ms: int) -> PollResult:
        """Send every lookup whose backoff is over."""
        if not self._lookups:
            return IDLE
        self._lookups = [lk for lk in self._lookups if any(not f.done for f in lk.waiting)]
        destination = self._coordinator.offsets_destination() if self._lookups else None
        if destination is None:
            return IDLE
        unsent = tuple(
            self._send(lookup, destination)
            for lookup in self._lookups
            if lookup.state.can_send(now_ms)
        )
        wait_ms = min((lk.state.wait_ms(now_ms) for lk in self._lookups), default=FOREVER_MS)
        return PollResult(unsent, wait_ms)

    def close(self, now_ms: int) -> PollResult:
        """Continue, because a listener that runs during close may look up committed offsets."""
        return self.poll(now_ms)

    # --- the request ---------------------------------------------------------------------------

    def _send(self, lookup: _Lookup, destination: ToNode) -> UnsentRequest:
        snapshot = self._context.metadata.snapshot
        topics = {tp.topic for tp in lookup.partitions}
        # Kept with the request, because later metadata may no longer contain all topics.
        names = {snapshot.topic_id(topic): topic for topic in topics}
        return self._context.request(
            self._message(lookup.partitions, names),
            destination,
            on_response=partial(self._handle_response, lookup, names),
            on_error=partial(self._handle_error, lookup),
            state=lookup.state,
        )

    def _message(
        self, partitions: frozenset[TopicPartition], names: dict[UUID, str]
    ) -> OffsetFetchRequest:
        numbers = by_topic(dict.fromkeys(sorted(partitions)), lambda tp, _: tp.partition)
        ids = {name: topic_id for topic_id, name in names.items()}
        group_entry = OffsetFetchRequest.OffsetFetchRequestGroup
        group_id = self._context.group.metadata.group_id
        grouped = [
            group_entry.OffsetFetchRequestTopics(
                name=topic, topic_id=ids.get(topic, NO_TOPIC_ID), partition_indexes=indexes
            )
            for topic, indexes in numbers.items()
        ]
        plain = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in numbers.items()
        ]
        return OffsetFetchRequest(
            group_id=group_id,
            topics=plain,
            groups=[
                group_entry(group_id=group_id, member_id=None, member_epoch=-1, topics=grouped)
            ],
            # Retry while a transaction with offsets is open (KIP-447).
            require_stable=True,
            max_version=FIRST_VERSION_WITH_IDS - 1 if NO_TOPIC_ID in names else None,
        )

    # --- the response --------------------------------------------------------------------------

    def _handle_response(
        self, lookup: _Lookup, names: dict[UUID, str], response: ClientResponse
    ) -> None:
        message, version = response.message, response.version
        group = message.groups[0] if version >= FIRST_VERSION_WITH_GROUPS else message
        if group.error_code:
            raise for_code(group.error_code)(self._context.group.metadata.group_id)
        entries = requested_entries(
            group.topics, lookup.partitions, names if version >= FIRST_VERSION_WITH_IDS else None
        )
        raise_error_of(entries)
        self._forget(lookup)
        for future in lookup.waiting:
            future.complete({tp: _offset(entry) for tp, entry in entries.items()})

    def _handle_error(self, lookup: _Lookup, error: Exception) -> None:
        reaction = reaction_to(OFFSET_FETCH, error)
        if reaction is Reaction.FAIL:
            self._fail(lookup, error)
        elif reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        elif reaction is Reaction.REFRESH:
            self._refresh_metadata({tp.topic for tp in lookup.partitions})
        log.debug("retrying the lookup of committed offsets: %s", error)

    def _fail(self, lookup: _Lookup, error: Exception) -> None:
        self._forget(lookup)
        for future in lookup.waiting:
            future.fail(error)

    def _forget(self, lookup: _Lookup) -> None:
        if lookup in self._lookups:
            self._lookups.remove(lookup)

    def _fail_all(self, error: Exception) -> None:
        for lookup in tuple(self._lookups):
            self._fail(lookup, error)


def _offset(entry: Any) -> OffsetAndMetadata | None:
    if entry.committed_offset < 0:
        return None
    epoch = -1 if entry.committed_leader_epoch is None else entry.committed_leader_epoch
    return OffsetAndMetadata(entry.committed_offset, entry.metadata or "", epoch)
