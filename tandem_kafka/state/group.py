"""The group membership that requests and commits carry. Writer: the network thread."""

from __future__ import annotations

from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime.tuples import replaced
from tandem_kafka.types import ConsumerGroupMetadata, Node

NO_GENERATION = -1

_UNJOINED = "<unjoined>"
#: The state of a classic member from before JoinGroup until the SyncGroup response.
REBALANCING = "<rebalancing>"


class GroupIdentity:
    """The newest `ConsumerGroupMetadata`, replaced as a whole.

    Attributes:
        client: The names of this consumer, for the log.
    """

    def __init__(
        self,
        group_id: str | None,
        instance_id: str | None,
        client_id: str | None = None,
        *,
        login_name: str | None = None,
    ) -> None:
        self.client = ClientNames(client_id, group_id, login_name=login_name)
        #: Number of the pending rebalance callback, 0 for none.
        self.callback = 0
        #: The error that prevents membership. Every poll() raises it until the subscription ends.
        self.fatal: Exception | None = None
        #: Other members may own the assigned partitions although our generation has not been
        #: fenced yet. The partitions are lost, so they must not be released as revoked.
        self.lost = False
        #: The group coordinator, if known.
        self.coordinator: Node | None = None
        #: Whether the last search for the coordinator failed, or the coordinator was lost.
        self.coordinator_missing = False
        self.metadata = ConsumerGroupMetadata(group_id, NO_GENERATION, "", instance_id)
        #: When the rebalance in progress began, None without one.
        self.rebalancing_since_ms: int | None = None
        #: When and why the coordinator removed this member last; None if that was the first time.
        self.removed_again: tuple[int, str] | None = None
        #: Why the assignor of this member keeps it outside of a classic group, None if it does not.
        self.assignor_failure: str | None = None
        self._last: ConsumerGroupMetadata | None = None

    def joined(self, generation: int, member_id: str) -> None:
        """Set the generation (or member epoch) and member id of a membership."""
        self.lost = False
        metadata = replaced(self.metadata, generation_id=generation, member_id=member_id)
        if generation != NO_GENERATION:
            self._last = metadata
        self.metadata = metadata
        self.client.member_id = member_id

    def fenced(self, member_id: str) -> None:
        """End the membership; the next one has this member id."""
        self.joined(NO_GENERATION, member_id)
        self.set_state(_UNJOINED)

    def left(self) -> None:
        """End the membership."""
        self.rebalancing_since_ms = None
        self.fenced("")

    def forget(self) -> None:
        """Forget the last membership, because the application has ended it."""
        self._last = None

    @property
    def last(self) -> ConsumerGroupMetadata:
        """The newest membership, even if it was lost, until the application ends it.

        The coordinator rejects offsets that a producer commits for a lost membership. It would
        accept offsets without member id and generation. These could overwrite later offsets of
        the partition's next owner.
        """
        now = self.metadata
        last = self._last if now.generation_id == NO_GENERATION else None
        return now if last is None else replaced(last, state=now.state)

    def set_state(self, state: str) -> None:
        """Set the member state, by kafka-python's name."""
        self.metadata = replaced(self.metadata, state=state)

    def rebalanced_since(self, then: ConsumerGroupMetadata) -> bool:
        """Tell whether the same member is rebalancing, or has rebalanced since `then`."""
        now = self.metadata
        if now.member_id != then.member_id or now.generation_id == NO_GENERATION:
            return False
        return bool(now.state == REBALANCING or now.generation_id != then.generation_id)
