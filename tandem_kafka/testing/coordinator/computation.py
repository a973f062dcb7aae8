"""A target that a member computes: who does, for how long, and whether what it brings will do.

    chosen    a member is told with each heartbeat's answer that it is to compute
    told      it asked for the group's state; the assignment has to fit what it was told
    installed the target is made; if the group has changed since, the next one is computed

Who does not bring anything in time, brings what does not fit or says that it failed is passed over
until there is a target. When all have been, the group waits for the timeout and begins anew. The
step it stands at is in the group's log, so that the next coordinator goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from kafka import errors

from tandem_kafka.errors import InvalidAssignmentError
from tandem_kafka.testing.coordinator.client_assignors import Announced, HandedOver, able
from tandem_kafka.testing.coordinator.context import GroupContext
from tandem_kafka.testing.coordinator.members import ConsumerGroupMember, Partitions
from tandem_kafka.testing.coordinator.records import (
    ConsumerGroupAssignmentComputation,
    ConsumerGroupTargetAssignmentMetadata,
)
from tandem_kafka.testing.coordinator.requests import (
    InstallAssignment,
    PrepareAssignment,
    PrepareResult,
)
from tandem_kafka.testing.coordinator.server_assignors import flaw_of
from tandem_kafka.testing.coordinator.step import Error

__all__ = ["Computations", "ComputedGroup"]


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
        along: Mapping[str, HandedOver] | None = None,
    ) -> None:
        """Make this the target of an epoch of the group."""
        ...


class Computations:
    """Those of one group, one at a time.

    Attributes:
        current: Where the computation stands; None while there is none.
    """

    def __init__(self, context: GroupContext, group: ComputedGroup) -> None:
        self._context = context
        self._group = group
        self._step = context.step
        self.current: ConsumerGroupAssignmentComputation | None = None
        self._attempt = 0

    def is_chosen(self, member_id: str) -> bool:
        """Tell whether this member is to compute."""
        return self.current is not None and self.current.member_id == member_id != ""

    # --- what happens to the group -------------------------------------------------------------

    def wanted(self, assignor: str) -> None:
        """The group has a new epoch: have a target computed for it.

        Who has been told of an epoch goes on: what it brings is a target, too, and in a group that
        never rests there would be none else.
        """
        current = self.current
        able_now = able(self._group.announced, assignor)
        if current is None or current.member_id not in able_now or current.assignor != assignor:
            failed = current.failed if current is not None else frozenset[str]()
            self._choose(assignor, failed)
        elif current.told is None:
            self._note(replace(current, epoch=self._group.epoch))

    def member_gone(self, member_id: str) -> None:
        """A member left, was removed, or is away for a while."""
        if self.is_chosen(member_id):
            self.begin_anew()

    def begin_anew(self) -> None:
        """What was told does not hold any more."""
        if self.current is not None:
            self._choose(self.current.assignor, self.current.failed)

    def end(self) -> None:
        """The coordinator assigns by itself, or the target is made."""
        self._attempt += 1
        self.current = None
        self._context.log.end(ConsumerGroupAssignmentComputation)

    def reload(self) -> None:
        """Another coordinator goes on from what was written; the time begins anew."""
        self._attempt += 1
        self.current = self._context.log.group(ConsumerGroupAssignmentComputation)
        if self.current is not None:
            self._give_up_later()

    # --- who computes --------------------------------------------------------------------------

    def _choose(self, assignor: str, failed: frozenset[str]) -> None:
        group = self._group
        candidates = [
            member_id
            for member_id in able(group.announced, assignor)
            if member_id in group.members and not group.members[member_id].away
        ]
        left = [member_id for member_id in candidates if member_id not in failed]
        made = self._context.log.group(ConsumerGroupTargetAssignmentMetadata)
        if made is not None and made.computed_by in left:
            left = [made.computed_by]  # it has shown that it can
        chosen = left[0] if left else ""
        kept = failed if left else frozenset[str]()
        self._note(ConsumerGroupAssignmentComputation(group.epoch, assignor, chosen, kept))
        self._give_up_later()

    def _note(self, computation: ConsumerGroupAssignmentComputation) -> None:
        if computation != self.current:
            self._step.note(_told(computation))
        self.current = computation
        self._context.log.write(computation)

    def _give_up_later(self) -> None:
        self._attempt += 1
        patience_ms = self._context.settings.computation_timeout_ms
        self._step.set_timer(self._step.now_ms + patience_ms, "computation", number=self._attempt)

    def give_up_waiting(self, attempt: int) -> None:
        """The member may not have done its part in time."""
        if attempt == self._attempt:
            self._failed()

    def _failed(self) -> None:
        current = self.current
        if current is not None:
            self._choose(current.assignor, (current.failed | {current.member_id}) - {""})

    # --- what it asks and brings ---------------------------------------------------------------

    def handle_prepare(self, request: PrepareAssignment) -> None:
        """A member asks for the state of the group."""
        error = self._no_group() or self.check(request.member_id, request.epoch)
        computation = self.prepare() if error is None else None
        self._step.respond(request, PrepareResult(error, computation))

    def handle_install(self, request: InstallAssignment) -> None:
        """A member brings an assignment."""
        error = self._no_group() or self.check(request.member_id, request.epoch)
        if error is None:
            error = self.install(request)
        self._step.respond(request, error)

    def _no_group(self) -> Error:
        return None if self._group.exists else errors.GroupIdNotFoundError

    def check(self, member_id: str, epoch: int) -> Error:
        """Return the error for who asks or brings, if it is not to."""
        refusal = self._group.check(member_id, epoch)
        if refusal is None and not self.is_chosen(member_id):
            return errors.UnknownMemberIdError
        return refusal

    def prepare(self) -> ConsumerGroupAssignmentComputation:
        """Tell the chosen member of the group as it is now."""
        group = self._group
        told = tuple(
            (member_id, frozenset(wanted))
            for member_id, wanted in group.wanted.items()
            if member_id in group.members
        )
        if self.current is None:
            raise AssertionError("nobody is to compute")  # `check` was not asked
        prepared = replace(self.current, epoch=group.epoch, told=told)
        self._note(prepared)
        self._give_up_later()
        return prepared

    def install(self, request: InstallAssignment) -> Error:
        """Take what the chosen member brings; no assignment says that it could not."""
        current, group, assignment = self.current, self._group, request.assignment
        if current is None or current.told is None or current.epoch != request.group_epoch:
            return errors.StaleMemberEpochError
        if assignment is None:
            self._failed()
            return None
        if flaw_of(assignment, dict(current.told)) is not None:
            self._failed()
            return InvalidAssignmentError
        self.end()
        target = {member_id: frozenset(tps) for member_id, tps in assignment.items()}
        along = {
            member_id: HandedOver(current.assignor, *request.metadata.get(member_id, ()))
            for member_id, _ in current.told
        }
        group.install(target, current.epoch, current.assignor, current.member_id, along)
        if group.epoch > current.epoch:
            self.wanted(current.assignor)
        return None


def _told(computation: ConsumerGroupAssignmentComputation) -> str:
    who = computation.member_id or "nobody"
    step = "was told and computes" if computation.told is not None else "is to compute"
    return f"{who} {step} epoch {computation.epoch} with {computation.assignor!r}"
