"""Looks up committed offsets (OffsetFetch); equal lookups share one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import BrokerResponseError, for_code
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.group_errors import group_error
from tandem_kafka.request_managers.reactions import OFFSET_FETCH, Reaction, reaction_to
from tandem_kafka.types import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import OffsetFetchRequest
from tandem_kafka.wire.topic_partitions import by_topic, raise_error_of, requested_entries

log = client_logger(__name__)

Committed = dict[TopicPartition, OffsetAndMetadata | None]

#: From these versions on, requests have a list of groups and identify topics by id, respectively.
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_WITH_IDS = 10


class _Waiting(NamedTuple):
    """One caller of a lookup; see `look_up`."""

    future: Completion[Committed]
    errors: dict[TopicPartition, Exception]
    on_found: Callable[[Committed], None]


@dataclass(eq=False)
class _Lookup:
    """A lookup; `found` has the partitions that are done, `pending` the others."""

    partitions: frozenset[TopicPartition]
    state: RequestState
    waiting: list[_Waiting]
    pending: frozenset[TopicPartition]
    found: Committed = field(default_factory=dict)


class CommittedOffsetsRequestManager(RequestManager):
    """One lookup per set of partitions, retried while a caller waits for it.

    A partition has no committed offset only if the response says so. If the broker does not know
    the partition, or the response omits it, the lookup is retried. Otherwise the reset policy
    would skip records.
    """

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorRequestManager,
        refresh_metadata: Callable[[Iterable[str]], None],
    ) -> None:
        self._context = context
        self._coordinator = coordinator
        self._refresh_metadata = refresh_metadata
        self._lookups: list[_Lookup] = []
        coordinator.on_fatal(self._fail_all)

    def look_up(
        self,
        partitions: frozenset[TopicPartition],
        future: Completion[Committed],
        errors: dict[TopicPartition, Exception] | None = None,
        on_found: Callable[[Committed], None] = lambda _: None,
    ) -> None:
        """Look up committed offsets; None for a partition without one.

        Args:
            partitions: The partitions.
            future: Completed with all of them.
            errors: Gets the last error of each partition that is not done.
            on_found: Called with those that are found, also while others fail.
        """
        if not partitions:
            future.complete({})
            return
        waiting = _Waiting(future, {} if errors is None else errors, on_found)
        for lookup in self._lookups:
            if lookup.partitions == partitions and not lookup.found:
                lookup.waiting.append(waiting)
                return
        state = self._context.request_state()
        self._lookups.append(_Lookup(partitions, state, [waiting], partitions))

    def poll(self, now_ms: int) -> PollResult:
        """Send every lookup whose backoff is over."""
        if not self._lookups:
            return IDLE
        self._lookups = [lk for lk in self._lookups if not all(w.future.done for w in lk.waiting)]
        destination = self._coordinator.offsets_destination() if self._lookups else None
        if destination is None:
            return IDLE
        unsent = tuple(
            [
                self._send(lookup, destination)
                for lookup in self._lookups
                if lookup.state.can_send(now_ms)
            ]
        )
        wait_ms = min((lk.state.wait_ms(now_ms) for lk in self._lookups), default=FOREVER_MS)
        return PollResult(unsent, wait_ms)

    def close(self, now_ms: int) -> PollResult:
        """Continue, because a listener that runs during close may look up committed offsets."""
        return self.poll(now_ms)

    # --- the request ---------------------------------------------------------------------------

    def _send(self, lookup: _Lookup, destination: ToNode) -> UnsentRequest:
        snapshot = self._context.metadata.snapshot
        topics = {tp.topic for tp in lookup.pending}
        # Kept with the request, because later metadata may no longer contain all topics.
        names = {snapshot.topic_id(topic): topic for topic in topics}
        return self._context.request(
            self._message(lookup.pending, names),
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
            raise group_error(group.error_code, self._context.config)
        asked = lookup.pending
        entries = requested_entries(
            group.topics, asked, names if version >= FIRST_VERSION_WITH_IDS else None
        )
        self._found(lookup, {tp: _offset(e) for tp, e in entries.items() if not e.error_code})
        failed = {tp: for_code(e.error_code)() for tp, e in entries.items() if e.error_code}
        for waiting in lookup.waiting:
            waiting.errors.update(failed)
        different = {type(error): tp for tp, error in failed.items()}
        for tp in tuple(different.values())[1:]:  # for example, another one needs a new coordinator
            self._react(lookup, failed[tp])
        raise_error_of(entries, asked)

    def _found(self, lookup: _Lookup, found: Committed) -> None:
        """Pass on what is found. Invariant: one partition's error does not delay the others."""
        lookup.found.update(found)
        lookup.pending -= found.keys()
        if not lookup.pending:
            self._forget(lookup)
        for waiting in lookup.waiting:
            for tp in found:
                waiting.errors.pop(tp, None)
            waiting.on_found(found)
            if not lookup.pending:
                waiting.future.complete(dict(lookup.found))

    def _handle_error(self, lookup: _Lookup, error: Exception) -> None:
        if not isinstance(error, BrokerResponseError):  # of the request
            for waiting in lookup.waiting:
                waiting.errors.update(dict.fromkeys(lookup.pending, error))
        self._react(lookup, error)

    def _react(self, lookup: _Lookup, error: Exception) -> None:
        reaction = reaction_to(OFFSET_FETCH, error)
        if reaction is Reaction.FAIL:
            self._fail(lookup, error)
        elif reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        elif reaction is Reaction.REFRESH:
            self._refresh_metadata({tp.topic for tp in lookup.pending})
        log.debug("retrying the lookup of committed offsets: %s", error)

    def _fail(self, lookup: _Lookup, error: Exception) -> None:
        self._forget(lookup)
        for waiting in lookup.waiting:
            waiting.future.fail(error)

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
