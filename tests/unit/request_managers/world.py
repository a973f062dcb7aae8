"""Request managers without a network, with a simulated clock and responses of the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from tandem_kafka.config import Config
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import BackgroundEventQueue
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.managers import GroupManagers, RequestManagers
from tandem_kafka.request_managers.user_code import InlineUserCode, UserCode
from tandem_kafka.runtime import Random
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.metadata import ClusterMetadata
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import ClusterSnapshot, Node, PartitionInfo, TopicInfo, TopicPartition
from tandem_kafka.wire import messages
from tandem_kafka_testing import SimClock

NODE_1 = Node(1, "10.0.0.1", 9092)
NODE_2 = Node(2, "10.0.0.2", 9092)
TOPIC_ID = UUID(int=7)
TP = TopicPartition("orders", 0)
TP1 = TopicPartition("orders", 1)
TP2 = TopicPartition("orders", 2)


def code(error: type[Exception]) -> int:
    return int(error.errno)  # type: ignore[attr-defined]


def has_error_code(error: type[Exception]) -> bool:
    """Tell whether the error has a code, so that it can be in a response."""
    return getattr(error, "errno", -1) > 0


class World:
    """A context, all managers, and helpers for tests."""

    def __init__(
        self,
        *,
        seed: int = 1,
        leaders: Sequence[int] = (1, 1, 2),
        user_code: UserCode | None = None,
        notifier: Any = None,
        **options: Any,
    ):
        options.setdefault("bootstrap_servers", "10.0.0.9:9092")
        self.config = Config.from_options(options)
        self.clock = SimClock()
        self.metadata = ClusterMetadata(self.config.bootstrap_servers)
        self.subscription = SubscriptionState()
        self.buffer = FetchBuffer()
        self.background = BackgroundEventQueue()
        self.identity = GroupIdentity(self.config.group_id, self.config.group_instance_id)
        self.context = ManagerContext(
            config=self.config,
            clock=self.clock,
            random=Random(seed),
            metadata=self.metadata,
            subscription=self.subscription,
            buffer=self.buffer,
            group=self.identity,
            background=self.background,
            metrics=ConsumerMetrics(self.config, self.clock),
            user_code=user_code or InlineUserCode(),
            notifier=notifier,
        )
        #: Keys of the APIs that the brokers offer, as far as managers ask for them.
        self.offered: set[int] = set()
        self.managers = RequestManagers(self.context, self.offered.__contains__)
        self.epoch = 3
        if leaders:
            self.lead(*leaders)

    @property
    def group(self) -> GroupManagers:
        assert self.managers.group is not None
        return self.managers.group

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    # --- the cluster ---------------------------------------------------------------------------

    cluster_id = "cluster"

    def lead(self, *leaders: int, epoch: int | None = None, topic_id: UUID = TOPIC_ID) -> None:
        """Create topic `orders` with these leaders, one per partition."""
        self.epoch = self.epoch if epoch is None else epoch
        partitions = {
            number: PartitionInfo(number, leader, self.epoch, (1, 2), (1, 2))
            for number, leader in enumerate(leaders)
        }
        topic = TopicInfo("orders", topic_id, partitions=partitions)
        nodes = {1: NODE_1, 2: NODE_2}
        snapshot = ClusterSnapshot(
            cluster_id=self.cluster_id, nodes=nodes, topics={"orders": topic}
        )
        self.metadata.update(snapshot, partial=False)

    def assign(self, *partitions: TopicPartition, at: int | None = None) -> list[AssignedPartition]:
        """Assign partitions, at the position `at` if given."""
        self.subscription.assign_by_user(partitions)
        states = [self.subscription.assigned[tp] for tp in partitions]
        if at is not None:
            for state in states:
                info = self.metadata.snapshot.partition(state.tp)
                assert info is not None
                state.leader_id, state.leader_epoch = info.leader_id, info.leader_epoch
                state.set_position(Position(at, self.epoch))
        return states

    def find_coordinator(self) -> None:
        """Make node 1 the known coordinator."""
        self.group.coordinator.destination()
        (unsent,) = self.poll(self.group.coordinator).unsent
        self.respond(unsent, coordinator_response(NODE_1))
        assert self.group.coordinator.known

    def find_coordinator_again(self) -> None:
        """Make node 1 the known coordinator, if there is none."""
        if not self.group.coordinator.known:
            self.find_coordinator()

    def application_polls(self) -> None:
        """Notify the membership, as a poll() with an event does."""
        self.context.polls.polled_ms = self.now_ms
        self.context.polls.event_needed = False
        self.group.membership.application_polled()

    # --- iterations ----------------------------------------------------------------------------

    def poll(self, manager: RequestManager, *, after_ms: int = 0) -> PollResult:
        """Poll a manager; check that it sends something or returns a wait."""
        if after_ms:
            self.clock.advance_to(self.now_ms + after_ms)
        result = manager.poll(self.now_ms)
        assert result.unsent or result.wait_ms > 0, f"{manager} asks for a poll without a wait"
        return result

    def sent(self, manager: RequestManager, *, after_ms: int = 0) -> UnsentRequest:
        """Poll a manager that has one request to send."""
        (unsent,) = self.poll(manager, after_ms=after_ms).unsent
        return unsent

    def wait_and_send(self, manager: RequestManager) -> tuple[int, UnsentRequest]:
        """Wait as long as the manager requests, then poll it; return the wait."""
        result = self.poll(manager)
        waited_ms = 0
        while not result.unsent:
            assert result.wait_ms < 3_600_000, "the manager waits forever"
            waited_ms += result.wait_ms
            result = self.poll(manager, after_ms=result.wait_ms)
        (unsent,) = result.unsent
        return waited_ms, unsent

    # --- responses -----------------------------------------------------------------------------

    def respond(
        self,
        unsent: UnsentRequest,
        message: Any,
        version: int | None = None,
        *,
        latency_ms: int = 5,
    ) -> None:
        """Respond to a request, with the real codec."""
        newest = type(unsent.message).max_version
        bound = getattr(unsent.message, "_max_version", None)
        if version is None:
            version = newest if bound is None else min(newest, bound)
        body = bytes(message.encode(version=version))
        if unsent.decode is not None:
            decoded = unsent.decode(memoryview(body), version)
        else:
            response = getattr(messages, type(message).__name__)
            decoded = response.decode(body, version=version)
        destination = unsent.destination
        node = destination.node if isinstance(destination, ToNode) else NODE_1
        unsent.future.complete(ClientResponse(decoded, version, node, latency_ms))

    # --- outcomes ------------------------------------------------------------------------------

    def raised(self) -> list[Exception]:
        """Return the errors that poll() would raise now."""
        errors = []
        while (event := self.background.take()) is not None:
            if isinstance(event, ErrorEvent) and not event.outdated:
                errors.append(event.error)
        return errors

    def refresh_requested(self) -> bool:
        """Tell whether a metadata refresh is requested, and clear the request."""
        refresher = self.managers.metadata
        wanted = refresher._requested
        refresher._requested = False
        return wanted


class Later:
    """User code that runs immediately, or on demand while it is `held`."""

    def __init__(self, *, held: bool = False) -> None:
        self.held = held
        self.calls: list[Callable[[], None]] = []

    def run(self, work: Any, done: Any, failed: Any) -> None:  # noqa: ARG002 - the interface
        self.calls.append(lambda: done(work()))
        if not self.held:
            self.calls.pop()()

    def deliver(self) -> bool:
        return False


def coordinator_response(node: Node | None, error: type[Exception] | None = None) -> Any:
    entry = messages.FindCoordinatorResponse.Coordinator(
        key="readers",
        node_id=-1 if node is None else node.node_id,
        host="" if node is None else node.host,
        port=-1 if node is None else node.port,
        error_code=0 if error is None else code(error),
        error_message=None,
    )
    return messages.FindCoordinatorResponse(throttle_time_ms=0, coordinators=[entry])


def commit_response(*errors: type[Exception] | None, topic_id: UUID = TOPIC_ID) -> Any:
    """One entry per partition of topic `orders`."""
    topic = messages.OffsetCommitResponse.OffsetCommitResponseTopic
    partitions = [
        topic.OffsetCommitResponsePartition(
            partition_index=number, error_code=0 if error is None else code(error)
        )
        for number, error in enumerate(errors or (None,))
    ]
    entry = topic(name="orders", topic_id=topic_id, partitions=partitions)
    return messages.OffsetCommitResponse(throttle_time_ms=0, topics=[entry])


def committed_response(
    offsets: dict[TopicPartition, int | type[Exception]],
    error: type[Exception] | None = None,
) -> Any:
    """Offsets (-1 for none) or errors by partition of topic `orders`."""
    group = messages.OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    partitions = [
        topic.OffsetFetchResponsePartitions(
            partition_index=tp.partition,
            committed_offset=found if isinstance(found, int) else -1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=0 if isinstance(found, int) else code(found),
        )
        for tp, found in offsets.items()
    ]
    entry = topic(topic_id=TOPIC_ID, partitions=partitions)
    response = group(
        group_id="readers", topics=[entry], error_code=0 if error is None else code(error)
    )
    return messages.OffsetFetchResponse(throttle_time_ms=0, groups=[response])


def offsets_response(
    found: dict[TopicPartition, int | type[Exception]], timestamp: int = -1
) -> Any:
    topic = messages.ListOffsetsResponse.ListOffsetsTopicResponse
    partitions = [
        topic.ListOffsetsPartitionResponse(
            partition_index=tp.partition,
            error_code=0 if isinstance(each, int) else code(each),
            timestamp=timestamp,
            offset=each if isinstance(each, int) else -1,
            leader_epoch=3,
        )
        for tp, each in found.items()
    ]
    entry = topic(name="orders", partitions=partitions)
    return messages.ListOffsetsResponse(throttle_time_ms=0, topics=[entry])


def epoch_response(
    tp: TopicPartition, epoch: int, end_offset: int, error: type[Exception] | None = None
) -> Any:
    topic = messages.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    entry = topic.EpochEndOffset(
        error_code=0 if error is None else code(error),
        partition=tp.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
    response = topic(topic=tp.topic, partitions=[entry])
    return messages.OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[response])
