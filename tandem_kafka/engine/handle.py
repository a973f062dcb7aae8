"""The application thread's handle to the engine."""

from __future__ import annotations

from collections.abc import Callable

from tandem_kafka.dataclass import dataclass
from tandem_kafka.engine.loop import NetworkLoop
from tandem_kafka.events.queues import ApplicationEventQueue, BackgroundEventQueue
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.transport import Transport
from tandem_kafka.state.failures import Failures
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.metadata import ClusterMetadata
from tandem_kafka.state.polls import Polls
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.state.topic_troubles import TopicTroubles


@dataclass(frozen=True)
class EngineHandle:
    """The queues, the shared state and the loop, as the application thread uses them."""

    loop: NetworkLoop
    queue: ApplicationEventQueue
    background: BackgroundEventQueue
    buffer: FetchBuffer
    subscription: SubscriptionState
    metadata: ClusterMetadata
    group: GroupIdentity
    polls: Polls
    topic_troubles: TopicTroubles
    failures: Failures
    transport: Transport
    metrics: ConsumerMetrics
    #: Returns the Kafka release of the brokers, None before the first contact.
    release: Callable[[], tuple[int, ...] | None]

    @property
    def coordinator_unreachable(self) -> bool:
        """True if the group coordinator currently does not respond or cannot be found."""
        node = self.group.coordinator
        if node is None:
            return self.group.coordinator_missing
        return node.node_id in self.metadata.unreachable
