"""Calls of the user's assignors for a classic member, which never run on the network thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tandem_kafka.assignors.classic import ClassicAssignors
from tandem_kafka.errors import AssignorError
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.user_code import PendingCall
from tandem_kafka.types import TopicPartition


def assignor_error(what: str, error: Exception) -> AssignorError:
    """Return the error to raise for one of user code."""
    failure = AssignorError(f"partition_assignment_strategy: {what} failed: {error!r}")
    failure.__cause__ = error
    return failure


class MemberView(NamedTuple):
    """The data from which an assignor describes the member in JoinGroup."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    generation: int
    rack: str


class AssignorCalls:
    """Starts each call when its result is first requested.

    Args:
        context: Runs the calls.
        assignors: The assignors of this consumer.
        on_error: Called with the name of the call that failed, and its exception.
    """

    def __init__(
        self,
        context: ManagerContext,
        assignors: ClassicAssignors,
        on_error: Callable[[str, Exception], None],
    ) -> None:
        self._context = context
        self._assignors = assignors
        self._view: MemberView | None = None
        self._description: Mapping[str, bytes] | None = None
        self._assignments: Mapping[str, bytes] | None = None
        self._on_error = on_error
        code, failed = context.user_code, self._failed
        self._description_call = PendingCall(code, self._set_description, failed("metadata()"))
        self._assignment_call = PendingCall(code, self._set_assignments, failed("assign()"))
        self._install_call: PendingCall[Callable[[], None]]
        self._install_call = PendingCall(code, lambda done: done(), failed("on_assignment()"))

    @property
    def installing(self) -> bool:
        """True while an assignor is notified of its assignment."""
        return self._install_call.running

    def description(self, view: MemberView) -> Mapping[str, bytes] | None:
        """Return each assignor's description of the member; None while they compute it."""
        if self._view != view:
            self._view, self._description = view, None
            self._description_call.start(lambda: self._assignors.describe(*view))
        return self._description

    def assignments(
        self, plan: Callable[[], Callable[[], Mapping[str, bytes]]]
    ) -> Mapping[str, bytes] | None:
        """Return the result of the function that `plan` returns; None while it runs."""
        if self._assignments is None and not self._assignment_call.running:
            self._assignment_call.start(plan())
        return self._assignments

    def install(
        self, name: str, assignment: Any, generation: int, done: Callable[[], None]
    ) -> None:
        """Notify an assignor of this member's assignment, then call `done`."""

        def install() -> Callable[[], None]:
            self._assignors.on_assignment(name, assignment, generation)
            return done

        self._install_call.start(install)

    def lost(self) -> None:
        """Notify all assignors that the member has lost its partitions."""
        self._context.user_code.run(self._assignors.lost, lambda _: None, self._report)

    def _report(self, error: Exception) -> None:
        self._context.raise_in_poll(assignor_error("on_assignment() of an assignor", error))

    def forget(self) -> None:
        """Drop all results, because the round is over."""
        self._view = self._description = self._assignments = None
        self._description_call.cancel()
        self._assignment_call.cancel()

    def cancel(self) -> None:
        """Drop all results and calls, because the membership is over."""
        self.forget()
        self._install_call.cancel()

    def _set_description(self, description: Mapping[str, bytes]) -> None:
        self._description = description

    def _set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        self._assignments = assignments

    def _failed(self, call: str) -> Callable[[Exception], None]:
        def handle(error: Exception) -> None:
            self.forget()
            self._on_error(f"{call} of an assignor", error)

        return handle
