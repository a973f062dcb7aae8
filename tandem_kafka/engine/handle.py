"""What the application thread holds of the engine: queues, shared state and the loop's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tandem_kafka.engine.loop import NetworkLoop
from tandem_kafka.events.queues import ApplicationQueue, BackgroundQueue
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.transport import Transport
from tandem_kafka.shared.fetch_buffer import FetchBuffer
from tandem_kafka.shared.group import GroupIdentity
from tandem_kafka.shared.metadata import ClusterMetadata
from tandem_kafka.shared.polls import Polls
from tandem_kafka.shared.subscription import SubscriptionState

__all__ = ["EngineHandle"]


@dataclass(frozen=True, slots=True)
class EngineHandle:
    """The application thread's end: queues to speak through, shared state to read."""

    loop: NetworkLoop
    queue: ApplicationQueue
    background: BackgroundQueue
    buffer: FetchBuffer
    subscription: SubscriptionState
    metadata: ClusterMetadata
    group: GroupIdentity
    polls: Polls
    transport: Transport
    metrics: ConsumerMetrics
    #: Returns the release of Kafka that brokers speak, None before the first contact.
    release: Callable[[], tuple[int, ...] | None]

    @property
    def coordinator_unreachable(self) -> bool:
        """True when the group's coordinator does not answer, or cannot be found, as of now."""
        node = self.group.coordinator
        if node is None:
            return self.group.coordinator_missing
        return node.node_id in self.metadata.unreachable
