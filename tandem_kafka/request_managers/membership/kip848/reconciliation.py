"""Applies the target assignment of a KIP-848 coordinator, step by step.

    1. resolve   topic ids to names by the metadata, else by the names of owned partitions, because
                 a stale broker may not know an owned topic; unresolved topics wait, and so do
                 partitions that the metadata lack and that are not owned
    2. revoke    stop fetching and returning the revoked partitions, then commit, then listener
    3. assign    the application thread applies the assignment inside poll(), then listener
    4. acknowledge   the next heartbeat has the owned partitions

Steps 2 and 3 run on the application thread. A target that arrives meanwhile is applied afterwards.

If a heartbeat lists the owned partitions without a certain partition, the coordinator may
immediately assign this partition to another member. Invariant: from step 2 on, a heartbeat that
repeats all fields includes the partitions that are being applied (`claimed`). No new assignment is
started while the response to such a heartbeat is pending.

One gap remains in the protocol itself. A heartbeat that was given up as lost may still reach the
coordinator after its successor on another connection, and free partitions that were applied since.
The coordinator then has a newer epoch, so it rejects this member's commits and fences it with the
next heartbeat. tests/integration/groups/test_group_heartbeats.py compares a real coordinator with
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.request_managers.membership.kip848.target import (
    NO_PARTITIONS,
    AssignorMetadata,
    Resolved,
    TargetAssignment,
    assignor_metadata,
    by_topic_id,
)
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.types import TopicPartition, names_of

log = client_logger(__name__)


class Reconciliation:
    """Applies one target at a time."""

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
        #: The target assignment of the coordinator.
        self.target = TargetAssignment()
        #: The applied assignment.
        self.owned = TargetAssignment()
        #: The partitions that are being applied, or will be after the revocation.
        self._pending = NO_PARTITIONS
        #: Topic names of the applied assignment.
        self._names: Mapping[UUID, str] = {}
        #: Assigned topics without a subscription, for the log.
        self._foreign: frozenset[str] = frozenset()
        #: The target, metadata and subscription with which nothing could be done but wait.
        self._waited_with: tuple[object, ...] = ()
        #: The data for an assignor, of the target and of the assignment that is being applied.
        self._metadata_for_assignor: AssignorMetadata | None = None
        self._pending_metadata: AssignorMetadata | None = None
        #: Whether the name of an applied topic was wrong, as newer metadata show.
        self._misnamed = False
        self._names_seen = -1
        #: Whether an assignor is being notified, and the number of the membership at that time.
        self._notifying_assignor = False
        self._membership_number = 0

    def reset(self) -> None:
        """Forget all assignments, because the membership is over."""
        self.target = self.owned = TargetAssignment()
        self._names, self._misnamed = {}, False
        self._pending = NO_PARTITIONS
        self._notifying_assignor = False
        self._waited_with = ()
        self._metadata.need_ids(frozenset())
        self._metadata.need_partitions(frozenset())
        self._membership_number += 1

    def take_target(self, sent: Any) -> None:
        """Set the target that the coordinator has sent, with optional data for an assignor."""
        self.target = self.target.next(by_topic_id(sent.topic_partitions))
        self._metadata_for_assignor = assignor_metadata(sent)
        self._notify_if_settled()

    def _notify_if_settled(self) -> None:
        """Notify the assignor if its data may have changed although the partitions have not."""
        if self.settled:
            self._notify_assignor(
                frozenset(self._subscription.assigned), self._metadata_for_assignor, lambda: None
            )

    @property
    def claimed(self) -> TargetAssignment:
        """The applied assignment, and the partitions that are being applied.

        With fewer partitions in a heartbeat, the coordinator could assign a partition to another
        member while this application starts to process it.
        """
        partitions = dict(self.owned.partitions)
        for topic_id, numbers in self._pending.items():
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | numbers
        return TargetAssignment(self.owned.local_epoch, partitions)

    @property
    def settled(self) -> bool:
        """True if the whole target has been applied."""
        return self.owned == self.target and not self._misnamed

    def check_names(self) -> bool:
        """Tell whether the metadata contradict the topic name of an applied partition.

        A name may be corrupted in transit. A partition with a wrong name would never return
        records.
        """
        snapshot = self._context.metadata.snapshot
        if snapshot.version != self._names_seen:
            self._names_seen = snapshot.version
            known = snapshot.topic_names
            self._misnamed = any(known.get(i, name) != name for i, name in self._names.items())
        return self._misnamed

    def step(self) -> None:
        """Start to apply the target, unless a callback is running."""
        if self._callbacks.busy or self._notifying_assignor or self.settled:
            return
        target, snapshot = self.target, self._context.metadata.snapshot
        subscription = self._subscription
        present = target.local_epoch, snapshot.version, subscription.kind, subscription.topics
        # Invariant: once for each of them. It takes long if a target has many partitions, and this
        # method is called in each iteration.
        if present == self._waited_with:
            return
        resolved = Resolved.of(
            target.partitions,
            snapshot,
            self._names,
            self.owned.partitions,
            subscription.may_assign,
        )
        self._metadata.need_ids(resolved.unknown)
        self._metadata.need_partitions(resolved.short)
        if resolved.foreign != self._foreign:
            self._foreign = resolved.foreign
            if resolved.foreign:
                names = ", ".join(sorted(resolved.foreign))
                group = self._context.config.group_id
                log.info("group %s: assigned without a subscription, so not read: %s", group, names)
        waiting = bool(resolved.unknown or resolved.short or resolved.foreign)
        partial = TargetAssignment(target.local_epoch, resolved.by_id)
        if waiting and partial == self.owned:
            self._waited_with = present
            return  # what is resolved has been acknowledged; the rest waits for metadata
        if waiting and resolved.partitions == frozenset(self._subscription.assigned):
            # No callback is needed yet, but the coordinator must see progress.
            self.owned, self._names = partial, resolved.names
            self._acknowledge()
            return
        self._revoke(partial, resolved)

    def _revoke(self, assignment: TargetAssignment, resolved: Resolved) -> None:
        self._pending, self._pending_metadata = assignment.partitions, self._metadata_for_assignor
        revoked = frozenset(self._subscription.assigned) - resolved.partitions
        for tp in revoked:
            self._subscription.assigned[tp].pending_revocation = True
        if not revoked:
            self._assign(assignment, resolved)
            return
        log.info("group %s: revoking %s", self._context.config.group_id, names_of(revoked))
        self._callbacks.run(PartitionsRevoked(revoked), lambda: self._revoked(assignment, resolved))

    def _revoked(self, assignment: TargetAssignment, resolved: Resolved) -> None:
        # Keep the order: the order of a set differs between runs of Python.
        kept = [tp for tp in self._subscription.assigned if tp in resolved.partitions]
        self._subscription.set_assigned(kept)
        self._assign(assignment, resolved)

    def _assign(self, assignment: TargetAssignment, resolved: Resolved) -> None:
        self._notifying_assignor = True
        number = self._membership_number

        def notified() -> None:
            if number == self._membership_number:  # otherwise the membership is over
                self._notifying_assignor = False
                self._call_listener(assignment, resolved)

        self._notify_assignor(resolved.partitions, self._pending_metadata, notified)

    def _call_listener(self, assignment: TargetAssignment, resolved: Resolved) -> None:
        added = resolved.partitions - frozenset(self._subscription.assigned)
        log.info(
            "group %s: assigned %s, added %s",
            self._context.config.group_id,
            names_of(resolved.partitions),
            names_of(added),
        )
        self._callbacks.run(
            PartitionsAssigned(resolved.partitions, added),
            lambda: self._assigned(assignment, resolved),
        )

    def _assigned(self, assignment: TargetAssignment, resolved: Resolved) -> None:
        for state in self._subscription.assigned.values():
            state.awaiting_callback = False
        self.owned, self._pending = assignment, NO_PARTITIONS
        self._names, self._misnamed = resolved.names, False
        self._notify_if_settled()
        self._acknowledge()
