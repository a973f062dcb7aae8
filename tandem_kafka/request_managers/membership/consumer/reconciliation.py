"""From the target of a KIP-848 coordinator to partitions taken over, step by step.

    1. name the topics of the target's ids, by metadata, else as they were named when they were
       assigned: a broker that lags may not know for a moment what we own; the rest waits
    2. revoked: mark them (nothing of them is fetched or handed out), then commit and listener
    3. assigned: the application thread, inside poll(), takes the assignment over, then listener
    4. acknowledge: the next heartbeat says what is owned

Steps 2 and 3 run on the application thread; a target that comes in between waits for its turn.

A coordinator gives a partition to another member as soon as a heartbeat of ours that says what we
own does not name it. So from step 2 on a heartbeat that repeats everything names what is being
taken over too (`claimed`), and nothing is begun while such a heartbeat is unanswered. One gap is
the protocol's own: a heartbeat that we gave up as lost may still reach the coordinator after the
one that followed it on another connection. It may then free what was begun since; the epoch has
moved on without us, so that our commits are refused and our next heartbeat has us fenced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.request_managers.membership.consumer.target import (
    NO_PARTITIONS,
    Assignment,
    AssignorMetadata,
    Resolved,
    assignor_metadata,
    by_topic_id,
)
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.types import TopicPartition, named

__all__ = ["Reconciliation"]

log = logging.getLogger(__name__)


class Reconciliation:
    """Works off one target at a time."""

    def __init__(
        self,
        context: ManagerContext,
        callbacks: CallbackRunner,
        metadata: MetadataRefresher,
        acknowledge: Callable[[], None],
        notify_assignor: Callable[
            [frozenset[TopicPartition], AssignorMetadata | None, Callable[[], None]], None
        ],
    ) -> None:
        self._context = context
        self._subscription = context.subscription
        self._callbacks = callbacks
        self._metadata = metadata
        self._acknowledge = acknowledge
        self._notify_assignor = notify_assignor
        #: What the coordinator wants.
        self.target = Assignment()
        #: What has been taken over.
        self.owned = Assignment()
        #: What the application may be taking over just now, or will once it gave the rest back.
        self._pending = NO_PARTITIONS
        #: The topics of what has been taken over.
        self._names: Mapping[UUID, str] = {}
        #: What came along with the target, and with what is being taken over.
        self._metadata_for_assignor: AssignorMetadata | None = None
        self._pending_metadata: AssignorMetadata | None = None
        #: What has been taken over has another name by now: the one it had was wrong.
        self._misnamed = False
        self._names_seen = -1
        #: An assignor is told of what is about to be taken over; the number tells of which.
        self._notifying_assignor = False
        self._membership_number = 0

    def reset(self) -> None:
        """Membership is over."""
        self.target = self.owned = Assignment()
        self._names, self._misnamed = {}, False
        self._pending = NO_PARTITIONS
        self._notifying_assignor = False
        self._membership_number += 1

    def take_target(self, sent: Any) -> None:
        """The coordinator sent a target, and maybe something for an assignor."""
        self.target = self.target.next(by_topic_id(sent.topic_partitions))
        self._metadata_for_assignor = assignor_metadata(sent)
        self._notify_if_settled()

    def _notify_if_settled(self) -> None:
        """What comes along may change while the partitions do not."""
        if self.settled:
            self._notify_assignor(
                frozenset(self._subscription.assigned), self._metadata_for_assignor, lambda: None
            )

    @property
    def claimed(self) -> Assignment:
        """What has been taken over, and what may be by the time the coordinator hears of it.

        A coordinator that is told of less would give a partition to another while the application
        is about to begin with it.
        """
        partitions = dict(self.owned.partitions)
        for topic_id, numbers in self._pending.items():
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | numbers
        return Assignment(self.owned.local_epoch, partitions)

    @property
    def settled(self) -> bool:
        """True when the whole target has been taken over and acknowledged."""
        return self.owned == self.target and not self._misnamed

    def check_names(self) -> bool:
        """Tell whether metadata contradict a name under which partitions were taken over.

        Nothing protects a name on its way; under a wrong one they would be silent for ever.
        """
        snapshot = self._context.metadata.snapshot
        if snapshot.version != self._names_seen:
            self._names_seen = snapshot.version
            known = snapshot.topic_names
            self._misnamed = any(known.get(i, name) != name for i, name in self._names.items())
        return self._misnamed

    def step(self) -> None:
        """Begin with the target, unless a callback is still running."""
        if self._callbacks.busy or self._notifying_assignor or self.settled:
            return
        target = self.target
        known = self._context.metadata.snapshot.topic_names
        resolved = Resolved.of(target.partitions, known, self._names)
        if resolved.unknown:
            self._metadata.need_ids(resolved.unknown)
        partial = Assignment(target.local_epoch, resolved.by_id)
        if resolved.unknown and partial == self.owned:
            return  # all that can be named has been acknowledged; the rest waits for metadata
        if resolved.unknown and resolved.partitions == frozenset(self._subscription.assigned):
            # Nothing to tell the listener of yet, but the coordinator hears that we are at it.
            self.owned, self._names = partial, resolved.names
            self._acknowledge()
            return
        self._revoke(partial, resolved)

    def _revoke(self, assignment: Assignment, resolved: Resolved) -> None:
        self._pending, self._pending_metadata = assignment.partitions, self._metadata_for_assignor
        revoked = frozenset(self._subscription.assigned) - resolved.partitions
        for tp in revoked:
            self._subscription.assigned[tp].pending_revocation = True
        if not revoked:
            self._assign(assignment, resolved)
            return
        log.info("group %s: giving back %s", self._context.config.group_id, sorted(revoked))
        self._callbacks.run(PartitionsRevoked(revoked), lambda: self._revoked(assignment, resolved))

    def _revoked(self, assignment: Assignment, resolved: Resolved) -> None:
        # In the order that there was: a set of names has another with every start of Python.
        kept = [tp for tp in self._subscription.assigned if tp in resolved.partitions]
        self._subscription.set_assigned(kept)
        self._assign(assignment, resolved)

    def _assign(self, assignment: Assignment, resolved: Resolved) -> None:
        self._notifying_assignor = True
        number = self._membership_number

        def notified() -> None:
            if number == self._membership_number:  # else the membership is over
                self._notifying_assignor = False
                self._call_listener(assignment, resolved)

        self._notify_assignor(resolved.partitions, self._pending_metadata, notified)

    def _call_listener(self, assignment: Assignment, resolved: Resolved) -> None:
        added = resolved.partitions - frozenset(self._subscription.assigned)
        log.info(
            "group %s: assigned %s, added %s",
            self._context.config.group_id,
            named(resolved.partitions),
            named(added),
        )
        self._callbacks.run(
            PartitionsAssigned(resolved.partitions, added),
            lambda: self._assigned(assignment, resolved),
        )

    def _assigned(self, assignment: Assignment, resolved: Resolved) -> None:
        for state in self._subscription.assigned.values():
            state.awaiting_callback = False
        self.owned, self._pending = assignment, NO_PARTITIONS
        self._names, self._misnamed = resolved.names, False
        self._notify_if_settled()
        self._acknowledge()
