"""Who we are in the group: what a commit is fenced with. Writer: the network thread."""

from __future__ import annotations

from tandem_kafka.types import ConsumerGroupMetadata, Node

__all__ = ["NO_GENERATION", "REBALANCING", "GroupIdentity"]

NO_GENERATION = -1

_UNJOINED = "<unjoined>"
#: The state of a classic member from before JoinGroup until SyncGroup is answered.
REBALANCING = "<rebalancing>"


class GroupIdentity:
    """The newest `ConsumerGroupMetadata`, replaced as a whole."""

    def __init__(self, group_id: str | None, instance_id: str | None) -> None:
        #: Number of the rebalance callback that is asked for, 0 for none.
        self.callback = 0
        #: Why we cannot be a member: every poll() raises it until the subscription ends.
        self.fatal: Exception | None = None
        #: What is assigned is another's by now, though our generation has not ended by itself:
        #: there is nothing to give back.
        self.lost = False
        #: The broker that coordinates the group, as far as it is known.
        self.coordinator: Node | None = None
        #: It was looked for in vain, or lost, and has not been found since.
        self.coordinator_missing = False
        self.metadata = ConsumerGroupMetadata(group_id, NO_GENERATION, "", instance_id)
        self._last: ConsumerGroupMetadata | None = None

    def joined(self, generation: int, member_id: str) -> None:
        """Take the generation (or member epoch) and id of a membership."""
        self.lost = False
        metadata = self.metadata._replace(generation_id=generation, member_id=member_id)
        if generation != NO_GENERATION:
            self._last = metadata
        self.metadata = metadata

    def fenced(self, member_id: str) -> None:
        """Membership is over; the next one has the same id."""
        self.joined(NO_GENERATION, member_id)
        self.set_state(_UNJOINED)

    def left(self) -> None:
        """Membership is over."""
        self.fenced("")

    def forget(self) -> None:
        """The application has ended its membership."""
        self._last = None

    @property
    def last(self) -> ConsumerGroupMetadata:
        """The newest membership, also when it was lost, until the application has ended it.

        Offsets that a producer commits for it are refused then. For somebody without id and
        generation they would be taken: they could set back what the next owner has committed.
        """
        now = self.metadata
        last = self._last if now.generation_id == NO_GENERATION else None
        return now if last is None else last._replace(state=now.state)

    def set_state(self, state: str) -> None:
        """Take kafka-python's name of the member state."""
        self.metadata = self.metadata._replace(state=state)

    def rebalanced_since(self, then: ConsumerGroupMetadata) -> bool:
        """Tell whether the same member is rebalancing, or has rebalanced since `then`."""
        now = self.metadata
        if now.member_id != then.member_id or now.generation_id == NO_GENERATION:
            return False
        return bool(now.state == REBALANCING or now.generation_id != then.generation_id)
