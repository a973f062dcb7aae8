"""KIP-848 members: their heartbeats and the responses."""

from __future__ import annotations

import re

from kafka import errors

from tandem_kafka.errors import InvalidRegularExpressionError
from tandem_kafka_testing.coordinator.client_assignors import ClientAssignor
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.members import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    Partitions,
)
from tandem_kafka_testing.coordinator.migration import Migration
from tandem_kafka_testing.coordinator.requests import ConsumerHeartbeat, ConsumerHeartbeatResult
from tandem_kafka_testing.coordinator.step import Error


class Kip848Members:
    """Handles the heartbeats of the KIP-848 members of one group."""

    def __init__(self, context: GroupContext, group: ConsumerGroup, migration: Migration) -> None:
        self._context = context
        self._group = group
        self._migration = migration
        self._step = context.step

    def handle_heartbeat(self, request: ConsumerHeartbeat) -> None:
        """Handle a heartbeat: the member joins, continues or leaves."""
        self._step.respond(request, self._answer(request))

    def _answer(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        error = self._request_error(request) or self._migration.make_room(request)
        if error is not None:
            return ConsumerHeartbeatResult(error)
        if request.epoch < JOIN_EPOCH:
            error = self._group.leave(request.member_id, request.instance_id, request.epoch)
            return ConsumerHeartbeatResult(error, 0 if error else request.epoch)
        if self._group.is_full_for(request.member_id):
            return ConsumerHeartbeatResult(errors.GroupMaxSizeReachedError)
        error = self._error(
            request.member_id, request.instance_id, request.epoch, request.owned
        ) or _expression_error(request.regex)
        if error is None and request.member_id not in self._group.members:
            error = self._group.add(request.member_id, request.instance_id)
        if error is not None:
            return ConsumerHeartbeatResult(error)
        member = self._group.members[request.member_id]
        self._group.touch(member)
        _subscribe(member, request)
        self._group.update_target()
        before = member.assigned, member.assignor_metadata
        self._group.advance(member, request.owned)
        everything = request.rebalance_ms > 0 and request.owned is not None
        changed = member.assignment_changed or before != (member.assigned, member.assignor_metadata)
        included = everything or request.epoch == JOIN_EPOCH or changed
        member.assignment_changed = False
        self._group.write(member)
        return ConsumerHeartbeatResult(
            epoch=member.epoch,
            interval_ms=self._context.settings.heartbeat_interval_ms,
            assigned=member.assigned if included else None,
            assignor_metadata=member.assignor_metadata,
            compute=self._group.computations.is_chosen(member.member_id),
        )

    def _request_error(self, request: ConsumerHeartbeat) -> Error:
        """Return the error for a request that is invalid in any group."""
        if _announcement_error(request) is not None or _owns_at_join(request):
            return errors.InvalidRequestError
        name = request.server_assignor
        offered = {assignor.name for assignor in self._context.settings.assignors}
        return None if name is None or name in offered else errors.UnsupportedAssignorError

    def _error(
        self, member_id: str, instance_id: str | None, epoch: int, owned: Partitions | None
    ) -> Error:
        """Return the error for a heartbeat with this member id and epoch, None if it is valid."""
        member = self._group.members.get(member_id)
        if epoch == JOIN_EPOCH:
            return _join_error(member)
        if self._group.held_by_another(member_id, instance_id):
            return errors.FencedInstanceIdError
        if member is None:
            return errors.UnknownMemberIdError
        if epoch == member.epoch:
            return None
        # The previous response may have been lost; the heartbeat then has the previous epoch.
        behind = epoch == member.previous_epoch and epoch < member.epoch
        if behind and owned is not None and owned <= member.assigned:
            return None
        return errors.FencedMemberEpochError


def _owns_at_join(request: ConsumerHeartbeat) -> bool:
    """Return whether a joining member fails to report that it owns no partitions."""
    return request.epoch == JOIN_EPOCH and (request.owned is None or bool(request.owned))


def _join_error(member: ConsumerGroupMember | None) -> Error:
    """Return the error for a joining member: a static one must have left before."""
    static = member is not None and member.instance_id is not None
    if static and member is not None and member.epoch != STATIC_LEAVE_EPOCH:
        return errors.UnreleasedInstanceIdError
    return None


def _announcement_error(request: ConsumerHeartbeat) -> Error:
    announced = request.assignors
    if announced is None:
        return None
    sound = len({each.name for each in announced}) == len(announced) and all(_sound(announced))
    both = announced and request.server_assignor is not None
    return None if sound and not both else errors.InvalidRequestError


def _sound(announced: tuple[ClientAssignor, ...]) -> list[bool]:
    return [
        bool(each.name) and each.minimum_version <= each.version <= each.maximum_version
        for each in announced
    ]


def _expression_error(regex: str | None) -> Error:
    try:
        re.compile(regex or "")
    except re.error:
        return InvalidRegularExpressionError
    return None


def _subscribe(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> None:
    """Take over the changed fields of a heartbeat."""
    if request.rebalance_ms > 0:
        member.rebalance_ms = request.rebalance_ms
    if request.rack is not None:
        member.rack = request.rack
    if request.topics is not None:
        member.topics = request.topics
    if request.server_assignor is not None:
        member.server_assignor = request.server_assignor
    if request.assignors is not None:
        member.assignors = request.assignors
    member.classic = None
    if request.regex is not None:
        member.regex = request.regex
