"""The calls of the user's assignors that a classic member waits for, none on the network thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tandem_kafka.assignors.classic import ClassicAssignors
from tandem_kafka.errors import KafkaError
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.user_code import PendingCall
from tandem_kafka.types import TopicPartition

__all__ = ["AssignorCalls", "MemberView"]


class MemberView(NamedTuple):
    """What an assignor is told of the member, to describe it in JoinGroup."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    generation: int
    rack: str


class AssignorCalls:
    """Begins a call when its result is first asked for.

    Args:
        context: Runs the calls.
        assignors: The assignors of this consumer.
        on_error: Takes what an assignor raised.
    """

    def __init__(
        self,
        context: ManagerContext,
        assignors: ClassicAssignors,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._context = context
        self._assignors = assignors
        self._view: MemberView | None = None
        self._description: Mapping[str, bytes] | None = None
        self._assignments: Mapping[str, bytes] | None = None
        self._on_error = on_error
        code = context.user_code
        self._description_call = PendingCall(code, self._set_description, self._handle_error)
        self._assignment_call = PendingCall(code, self._set_assignments, self._handle_error)
        self._install_call: PendingCall[Callable[[], None]]
        self._install_call = PendingCall(code, lambda done: done(), self._handle_error)

    @property
    def installing(self) -> bool:
        """True while an assignor is told of an assignment."""
        return self._install_call.running

    def description(self, view: MemberView) -> Mapping[str, bytes] | None:
        """Return what each assignor says of the member; None while they are asked."""
        if self._view != view:
            self._view, self._description = view, None
            self._description_call.start(lambda: self._assignors.describe(*view))
        return self._description

    def assignments(
        self, plan: Callable[[], Callable[[], Mapping[str, bytes]]]
    ) -> Mapping[str, bytes] | None:
        """Return what the function that `plan` returns computes; None while it does."""
        if self._assignments is None and not self._assignment_call.running:
            self._assignment_call.start(plan())
        return self._assignments

    def install(
        self, name: str, assignment: Any, generation: int, done: Callable[[], None]
    ) -> None:
        """Tell an assignor of this member's assignment, then call `done`."""

        def install() -> Callable[[], None]:
            self._assignors.on_assignment(name, assignment, generation)
            return done

        self._install_call.start(install)

    def lost(self) -> None:
        """Tell all assignors that the member owns nothing any more."""
        self._context.user_code.run(
            self._assignors.lost, lambda _: None, self._context.raise_in_poll
        )

    def forget(self) -> None:
        """A round is over: what was computed for it does not count any more."""
        self._view = self._description = self._assignments = None
        self._description_call.cancel()
        self._assignment_call.cancel()

    def cancel(self) -> None:
        """Membership is over."""
        self.forget()
        self._install_call.cancel()

    def _set_description(self, description: Mapping[str, bytes]) -> None:
        self._description = description

    def _set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        self._assignments = assignments

    def _handle_error(self, error: Exception) -> None:
        self.forget()
        failure = KafkaError(f"an assignor of partition_assignment_strategy on_error: {error!r}")
        failure.__cause__ = error
        self._on_error(failure)
