"""Looks offsets up by timestamp (ListOffsets): for the user's calls and for position resets."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem_kafka.errors import TopicAuthorizationFailedError, for_code
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import NEEDED_MS, MetadataRefresher
from tandem_kafka.request_managers.reactions import LIST_OFFSETS, Reaction, reaction_to
from tandem_kafka.types import UNKNOWN_EPOCH, Node, OffsetAndTimestamp, TopicPartition
from tandem_kafka.wire.messages import ListOffsetsRequest

__all__ = ["EARLIEST", "LATEST", "ListOffsetsManager", "OffsetLookup"]

log = logging.getLogger(__name__)

#: Timestamps that stand for the end and the beginning of a partition.
LATEST = -1
EARLIEST = -2

CONSUMER_REPLICA = -1

#: The leader of each partition and its epoch.
Leaders = Mapping[TopicPartition, tuple[Node | None, int]]


@dataclass(slots=True, eq=False)
class OffsetLookup:
    """Some partitions whose offsets are wanted.

    Attributes:
        pending: Timestamps still to be looked up.
        on_offset: Told each result; None where no record is that young.
        on_error: Told an error that trying again will not mend; ends the look-up.
        alive: False when nobody waits any more.
    """

    pending: dict[TopicPartition, int]
    on_offset: Callable[[TopicPartition, OffsetAndTimestamp | None], None]
    on_error: Callable[[BaseException], None]
    alive: Callable[[], bool]
    backoff: Backoff
    in_flight: set[TopicPartition] = field(default_factory=set)
    next_send_ms: int = 0
    #: The leaders, as far as known, with which the last attempt failed.
    blocked_by: Leaders | None = None


class ListOffsetsManager:
    """Asks each partition's leader, again and again until all have answered."""

    def __init__(self, context: ManagerContext, metadata: MetadataRefresher) -> None:
        self._context = context
        self._metadata = metadata
        self._lookups: list[OffsetLookup] = []

    def look_up(
        self,
        timestamps: Mapping[TopicPartition, int],
        on_offset: Callable[[TopicPartition, OffsetAndTimestamp | None], None],
        on_error: Callable[[BaseException], None],
        alive: Callable[[], bool],
    ) -> None:
        """Begin a look-up."""
        backoff = self._context.backoff()
        self._lookups.append(OffsetLookup(dict(timestamps), on_offset, on_error, alive, backoff))
        self._need_topics(timestamps)

    def collect(
        self,
        timestamps: Mapping[TopicPartition, int],
        future: Completion[dict[TopicPartition, OffsetAndTimestamp | None]],
    ) -> None:
        """Look all up and complete `future` with the whole."""
        if not timestamps:
            future.complete({})
            return
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}

        def take(tp: TopicPartition, offset: OffsetAndTimestamp | None) -> None:
            found[tp] = offset
            if len(found) == len(timestamps):
                future.complete(found)

        self.look_up(timestamps, take, future.fail, lambda: not future.done)

    def poll(self, now_ms: int) -> PollResult:
        """Send to every leader that can be asked now."""
        if not self._lookups:
            return IDLE
        self._lookups = [lookup for lookup in self._lookups if lookup.pending and lookup.alive()]
        unsent: list[UnsentRequest] = []
        wait_ms = FOREVER_MS
        for lookup in self._lookups:
            if not lookup.pending.keys() - lookup.in_flight:
                continue
            self._unblock(lookup)
            if now_ms >= lookup.next_send_ms:
                unsent.extend(self._send(lookup, now_ms))
            if lookup.pending.keys() - lookup.in_flight:
                wait_ms = min(wait_ms, max(0, lookup.next_send_ms - now_ms))
        return PollResult(tuple(unsent), wait_ms)

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """Nothing to say at the end."""
        return IDLE

    # --- the request ---------------------------------------------------------------------------

    def _need_topics(self, timestamps: Mapping[TopicPartition, int]) -> None:
        until_ms = self._context.clock.now_ms() + NEEDED_MS
        self._metadata.need({tp.topic for tp in timestamps}, until_ms)

    def _unblock(self, lookup: OffsetLookup) -> None:
        """Look again at once, and not after the back-off, when the metadata tell of new leaders."""
        blocked_by = lookup.blocked_by
        if blocked_by is not None and blocked_by != self._leaders(blocked_by):
            lookup.blocked_by = None
            lookup.next_send_ms = 0

    def _leaders(self, partitions: Iterable[TopicPartition]) -> Leaders:
        snapshot = self._context.metadata.snapshot
        return {tp: (snapshot.leader(tp), snapshot.leader_epoch(tp)) for tp in partitions}

    def _send(self, lookup: OffsetLookup, now_ms: int) -> Iterator[UnsentRequest]:
        snapshot = self._context.metadata.snapshot
        by_leader: dict[Node, list[TopicPartition]] = defaultdict(list)
        missing = False
        # In the order asked for: a set of partitions has another with every start of Python.
        for tp in [tp for tp in lookup.pending if tp not in lookup.in_flight]:
            leader = snapshot.leader(tp)
            if leader is None:
                missing = True
            else:
                by_leader[leader].append(tp)
        if missing:
            self._again_later(lookup, now_ms)
        for leader, partitions in by_leader.items():
            lookup.in_flight.update(partitions)
            yield self._request(lookup, leader, partitions)

    def _request(
        self, lookup: OffsetLookup, leader: Node, partitions: list[TopicPartition]
    ) -> UnsentRequest:
        asked = {tp: lookup.pending[tp] for tp in partitions}
        request = self._context.request(self._message(asked), ToNode(leader))
        request.future.then(lambda future: self._answered(lookup, asked, future))
        return request

    def _message(self, timestamps: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topic_entry = ListOffsetsRequest.ListOffsetsTopic
        snapshot = self._context.metadata.snapshot
        by_topic = defaultdict(list)
        for tp, timestamp in sorted(timestamps.items()):
            by_topic[tp.topic].append(
                topic_entry.ListOffsetsPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=snapshot.leader_epoch(tp),
                    timestamp=timestamp,
                )
            )
        read_committed = self._context.read_committed
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=1 if read_committed else 0,
            topics=[topic_entry(name=name, partitions=ps) for name, ps in by_topic.items()],
            timeout_ms=self._context.config.request_timeout_ms,
            # Isolation levels came with version 2; without them "latest" would be too late.
            min_version=2 if read_committed else 1,
        )

    # --- the answer ----------------------------------------------------------------------------

    def _answered(
        self,
        lookup: OffsetLookup,
        asked: Mapping[TopicPartition, int],
        future: Completion[ClientResponse],
    ) -> None:
        lookup.in_flight.difference_update(asked)
        if future.error is not None:
            if self._react(lookup, future.error):
                self._again_later(lookup, self._context.clock.now_ms())
        elif self._read(lookup, asked, future.result().message):
            # Once for the whole answer: the pause grows with failures, not with partitions.
            self._again_later(lookup, self._context.clock.now_ms())

    def _read(
        self, lookup: OffsetLookup, asked: Mapping[TopicPartition, int], message: Any
    ) -> bool:
        """Take in what was answered; True if something is to be tried again."""
        unauthorized = set()
        again = False
        for tp, entry in _entries(message):
            if tp not in asked or lookup.pending.get(tp) != asked[tp]:
                continue
            error_type = for_code(entry.error_code) if entry.error_code else None
            if error_type is None:
                del lookup.pending[tp]
                lookup.on_offset(tp, _offset(entry))
            elif error_type is TopicAuthorizationFailedError:
                unauthorized.add(tp.topic)
            else:
                again |= self._react(lookup, error_type(f"{tp.topic}-{tp.partition}"), tp)
        if unauthorized:
            self._fail(lookup, TopicAuthorizationFailedError(unauthorized))
        return again and not unauthorized

    def _react(
        self, lookup: OffsetLookup, error: BaseException, tp: TopicPartition | None = None
    ) -> bool:
        """Deal with an error; True if it is to be tried again."""
        reaction = reaction_to(LIST_OFFSETS, error)
        if reaction is Reaction.FAIL:
            self._fail(lookup, error)
        elif reaction is Reaction.NONE and tp is not None:
            del lookup.pending[tp]
            lookup.on_offset(tp, None)
        else:
            log.debug("looking offsets up again: %s", error)
            return True
        return False

    def _again_later(self, lookup: OffsetLookup, now_ms: int) -> None:
        self._need_topics(lookup.pending)
        self._metadata.request_update()
        lookup.next_send_ms = now_ms + lookup.backoff.next_ms()
        lookup.blocked_by = self._leaders(lookup.pending)

    def _fail(self, lookup: OffsetLookup, error: BaseException) -> None:
        lookup.pending.clear()
        lookup.on_error(error)


def _entries(message: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in message.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry


def _offset(entry: Any) -> OffsetAndTimestamp | None:
    if entry.offset < 0:
        return None
    epoch = UNKNOWN_EPOCH if entry.leader_epoch is None else entry.leader_epoch
    return OffsetAndTimestamp(entry.offset, entry.timestamp, epoch)
