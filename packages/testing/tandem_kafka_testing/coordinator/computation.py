"""A target assignment that a member computes: the choice of the member, timeouts, the result.

    chosen     each heartbeat response requests the computation from the member
    prepared   the member has fetched the state of the group; the assignment must fit that state
    installed  the assignment is the target; if the group has changed, the next one is computed

A member that sends no assignment in time, an invalid one, or a failure is skipped until there is a
target. When all members were skipped, the group waits for the timeout and begins again. The state
of the computation is in the log, so that the next coordinator continues with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from kafka import errors

from tandem_kafka.errors import InvalidAssignmentError
from tandem_kafka_testing.coordinator.client_assignors import (
    Announced,
    AssignorMetadata,
    capable_members,
)
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.members import ConsumerGroupMember, Partitions
from tandem_kafka_testing.coordinator.records import (
    ConsumerGroupAssignmentComputation,
    ConsumerGroupTargetAssignmentMetadata,
)
from tandem_kafka_testing.coordinator.requests import (
    InstallAssignment,
    PrepareAssignment,
    PrepareResult,
)
from tandem_kafka_testing.coordinator.server_assignors import find_flaw
from tandem_kafka_testing.coordinator.step import Error


class ComputedGroup(Protocol):
    """The group for which a member computes: what `Computations` needs of it."""

    epoch: int
    members: dict[str, ConsumerGroupMember]
    wanted: dict[str, Partitions]
    announced: dict[str, Announced]

    @property
    def exists(self) -> bool:
        """True from the first member on, until the group is forgotten."""
        ...

    def check(self, member_id: str, epoch: int) -> Error:
        """Return the error for a request with this member id and epoch, None if it is valid."""
        ...

    def install(
        self,
        target: Mapping[str, Partitions],
        epoch: int,
        assignor: str,
        computed_by: str = "",
        assignor_metadata: Mapping[str, AssignorMetadata] | None = None,
    ) -> None:
        """Make this the target of an epoch of the group."""
        ...


class Computations:
    """The computations of one group, one at a time.

    Attributes:
        current: The state of the computation; None without one.
    """

    def __init__(self, context: GroupContext, group: ComputedGroup) -> None:
        self._context = context
        self._group = group
        self._step = context.step
        self.current: ConsumerGroupAssignmentComputation | None = None
        self._attempt = 0

    def is_chosen(self, member_id: str) -> bool:
        """Return whether this member must compute."""
        return self.current is not None and self.current.member_id == member_id != ""

    # --- what happens to the group -------------------------------------------------------------

    def request_target(self, assignor: str) -> None:
        """Request a target for the new epoch of the group.

        A prepared member continues with its older epoch: its result is also a target, and a group
        that changes all the time would get no other.
        """
        current = self.current
        capable = capable_members(self._group.announced, assignor)
        if current is None or current.member_id not in capable or current.assignor != assignor:
            failed = current.failed if current is not None else frozenset[str]()
            self._choose(assignor, failed)
        elif current.prepared_for is None:
            self._note(replace(current, epoch=self._group.epoch))

    def member_gone(self, member_id: str) -> None:
        """Note that a member left, was removed, or is away."""
        if self.is_chosen(member_id):
            self.restart()

    def restart(self) -> None:
        """Begin again: the prepared state is invalid."""
        if self.current is not None:
            self._choose(self.current.assignor, self.current.failed)

    def end(self) -> None:
        """End the computation: there is a target, or the coordinator assigns by itself."""
        self._attempt += 1
        self.current = None
        self._context.log.end(ConsumerGroupAssignmentComputation)

    def reload(self) -> None:
        """Read the log, as another coordinator does; the timeout begins again."""
        self._attempt += 1
        self.current = self._context.log.group(ConsumerGroupAssignmentComputation)
        if self.current is not None:
            self._give_up_later()

    # --- the member ----------------------------------------------------------------------------

    def _choose(self, assignor: str, failed: frozenset[str]) -> None:
        group = self._group
        candidates = [
            member_id
            for member_id in capable_members(group.announced, assignor)
            if member_id in group.members and not group.members[member_id].away
        ]
        left = [member_id for member_id in candidates if member_id not in failed]
        made = self._context.log.group(ConsumerGroupTargetAssignmentMetadata)
        if made is not None and made.computed_by in left:
            left = [made.computed_by]  # it has succeeded before
        chosen = left[0] if left else ""
        kept = failed if left else frozenset[str]()
        self._note(ConsumerGroupAssignmentComputation(group.epoch, assignor, chosen, kept))
        self._give_up_later()

    def _note(self, computation: ConsumerGroupAssignmentComputation) -> None:
        if computation != self.current:
            self._step.note(_describe(computation))
        self.current = computation
        self._context.log.write(computation)

    def _give_up_later(self) -> None:
        self._attempt += 1
        patience_ms = self._context.settings.computation_timeout_ms
        self._step.set_timer(self._step.now_ms + patience_ms, "computation", number=self._attempt)

    def give_up_waiting(self, attempt: int) -> None:
        """Skip a member that has not sent its request in time."""
        if attempt == self._attempt:
            self._failed()

    def _failed(self) -> None:
        current = self.current
        if current is not None:
            self._choose(current.assignor, (current.failed | {current.member_id}) - {""})

    # --- its requests --------------------------------------------------------------------------

    def handle_prepare(self, request: PrepareAssignment) -> None:
        """Handle the request for the state of the group."""
        error = self._no_group() or self.check(request.member_id, request.epoch)
        computation = self.prepare() if error is None else None
        self._step.respond(request, PrepareResult(error, computation))

    def handle_install(self, request: InstallAssignment) -> None:
        """Handle the computed assignment."""
        error = self._no_group() or self.check(request.member_id, request.epoch)
        if error is None:
            error = self.install(request)
        self._step.respond(request, error)

    def _no_group(self) -> Error:
        return None if self._group.exists else errors.GroupIdNotFoundError

    def check(self, member_id: str, epoch: int) -> Error:
        """Return the error unless this member must compute."""
        error = self._group.check(member_id, epoch)
        if error is None and not self.is_chosen(member_id):
            return errors.UnknownMemberIdError
        return error

    def prepare(self) -> ConsumerGroupAssignmentComputation:
        """Return the present state of the group for the chosen member."""
        group = self._group
        members = tuple(
            [
                (member_id, frozenset(wanted))
                for member_id, wanted in group.wanted.items()
                if member_id in group.members
            ]
        )
        if self.current is None:
            raise AssertionError("there is no computation")  # `check` was not called
        prepared = replace(self.current, epoch=group.epoch, prepared_for=members)
        self._note(prepared)
        self._give_up_later()
        return prepared

    def install(self, request: InstallAssignment) -> Error:
        """Install the assignment of the chosen member; without one, the member has failed."""
        current, group, assignment = self.current, self._group, request.assignment
        if current is None or current.prepared_for is None or current.epoch != request.group_epoch:
            return errors.StaleMemberEpochError
        if assignment is None:
            self._failed()
            return None
        if find_flaw(assignment, dict(current.prepared_for)) is not None:
            self._failed()
            return InvalidAssignmentError
        self.end()
        target = {member_id: frozenset(tps) for member_id, tps in assignment.items()}
        assignor_metadata = {
            member_id: AssignorMetadata(current.assignor, *request.metadata.get(member_id, ()))
            for member_id, _ in current.prepared_for
        }
        group.install(target, current.epoch, current.assignor, current.member_id, assignor_metadata)
        if group.epoch > current.epoch:
            self.request_target(current.assignor)
        return None


def _describe(computation: ConsumerGroupAssignmentComputation) -> str:
    who = computation.member_id or "nobody"
    step = "computes" if computation.prepared_for is not None else "must compute"
    return f"{who} {step} epoch {computation.epoch} with {computation.assignor!r}"
