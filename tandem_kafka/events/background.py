"""Events from the network thread to the application thread, processed inside poll().

Rebalance events are numbered, and `CallbackCompleted` repeats the number. An event is cancelled if
`GroupIdentity.callback` has a different number; its callback then does not run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tandem_kafka.dataclass import dataclass
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import TopicPartition

#: Maximum number of errors that wait and differ only in their texts.
_MOST_SIMILAR: Final = 3


@dataclass(frozen=True)
class ErrorEvent:
    """An error that poll() raises.

    Attributes:
        about: The partitions and positions that the error concerns; None for a partition without
            one. Once all of these positions have changed, for example by a seek, or the partitions
            are not assigned any more, the error is no longer raised.
        topics: The topics that the error concerns, if any. Once none of them is subscribed or
            assigned, the error is no longer raised.
        subscription: The number of the subscription that the error concerns, if any. Once that has
            ended, the error is no longer raised.
    """

    error: Exception
    about: tuple[tuple[AssignedPartition, Position | None], ...] = ()
    topics: frozenset[str] = frozenset()
    subscription: int | None = None

    @property
    def outdated(self) -> bool:
        """True if all of the positions that it concerns have changed."""
        return bool(self.about) and all(state.position is not at for state, at in self.about)

    def repeats(self, other: ErrorEvent) -> bool:
        """Tell whether poll() would raise the same error twice."""
        error = other.error
        return (
            type(self.error) is type(error)
            and self.error.args == error.args
            and self.subscription == other.subscription
            and not other.outdated
        )

    def adds_to(self, waiting: Collection[ErrorEvent]) -> bool:
        """Tell whether poll() must raise this error, too.

        Invariant: each poll() raises one error, and a broker may send another text with each.
        Without a limit, poll() would raise errors long after they have ended.
        """
        similar = sum(map(self._resembles, waiting))
        return similar < _MOST_SIMILAR and not any(map(self.repeats, waiting))

    def _resembles(self, other: ErrorEvent) -> bool:
        if type(self.error) is not type(other.error) or self.subscription != other.subscription:
            return False
        return self.about == other.about and self.topics == other.topics

    def concerns(self, subscription: SubscriptionState) -> bool:
        """Tell whether it concerns something that is read, or nothing in particular."""
        if self.subscription not in (None, subscription.number):
            return False
        assigned = subscription.assigned
        if self.about and not any(
            assigned.get(state.tp) is state and not state.dropped for state, _ in self.about
        ):
            return False
        return not self.topics or not self.topics.isdisjoint(subscription.topics_of_interest())


@dataclass(frozen=True)
class PartitionsAssigned:
    """The group assigned partitions: apply them, then call `on_partitions_assigned(added)`.

    Attributes:
        assignment: All partitions of the new assignment.
        added: The partitions for the listener.
    """

    assignment: frozenset[TopicPartition]
    added: frozenset[TopicPartition]
    number: int = 0


@dataclass(frozen=True)
class PartitionsRevoked:
    """The group revokes partitions: auto-commit if enabled, then call `on_partitions_revoked`."""

    partitions: frozenset[TopicPartition]
    number: int = 0


@dataclass(frozen=True)
class PartitionsLost:
    """The membership ended, and others may own its partitions: call `on_partitions_lost`."""

    partitions: frozenset[TopicPartition]
    number: int = 0


BackgroundEvent = ErrorEvent | PartitionsAssigned | PartitionsRevoked | PartitionsLost
