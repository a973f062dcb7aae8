"""Groups of each protocol in one cluster; their members are polled in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID, uuid4

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.integration.brokers import Brokers
from tests.integration.group_members import (
    PROTOCOLS,
    SESSION_TIMEOUT_MS,
    options_of,
    rebalance_calls,
)
from tests.integration.groups.hosted import join_or_sync_in_flight
from tests.integration.groups.hosts import Host, RealHost
from tests.integration.heartbeating import RawMember
from tests.integration.joining import RawClassicMember
from tests.integration.polling import Listener
from tests.waiting import until

__all__ = ["Group", "Member", "Scene", "World", "check_commits", "states_of"]

_POLL_MS = 50
#: Many members share a thread, so each poll is short.
_SHORT_POLL_MS = 20


class Member:
    """A consumer and the calls of its listener; in a host process or in this one."""

    def __init__(self, consumer: KafkaConsumer, host: Host | None) -> None:
        self.consumer = consumer
        self.listener = Listener()
        self.host = host

    @property
    def rebalance_events(self) -> list[str]:
        """The kinds of its rebalance calls: assigned, revoked, lost."""
        return [what for what, _ in rebalance_calls(self.listener)]

    @property
    def membership(self) -> tuple[str, int]:
        """Its member id, and its generation or epoch."""
        known = self.consumer.group_metadata()
        return known.member_id, known.generation_id

    @property
    def join_or_sync_in_flight(self) -> bool:
        """Whether JoinGroup or SyncGroup of a classic member is in flight."""
        if isinstance(self.host, RealHost):
            far: Any = self.consumer
            return bool(far.join_or_sync_in_flight())
        return join_or_sync_in_flight(self.consumer)

    @property
    def state(self) -> object:
        """Everything that a rebalance would change."""
        return self.membership, self.rebalance_events, self.consumer.assignment()


class World:
    """The actions of scripts with consumers.

    Attributes:
        brokers: The brokers.
        read: The records that the consumers read, in order.
    """

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.wait_until = brokers.wait_until
        self.name = f"world-{uuid4().hex[:8]}"
        self.read: list[ConsumerRecord] = []

    def topic(self, partitions: int, suffix: str = "orders") -> list[TopicPartition]:
        """Create a topic; returns its partitions."""
        name = f"{self.name}-{suffix}"
        self.brokers.create_topic(name, partitions)
        return [TopicPartition(name, number) for number in range(partitions)]

    def consumer(self, **options: Any) -> KafkaConsumer:
        """Return a consumer without auto-commit; by default in the group of this world."""
        defaults = {
            "group_id": self.name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        return self.brokers.consumer(**{**defaults, **options})

    def poll_until(self, done: Callable[[], object], *consumers: KafkaConsumer) -> None:
        """Poll the consumers in turn until `done()`."""
        for _ in until(done, now_s=self.brokers.now_s):
            for consumer in consumers:
                self.poll(consumer)

    def poll(self, consumer: KafkaConsumer, timeout_ms: int = _POLL_MS) -> None:
        """Poll once."""
        for records in consumer.poll(timeout_ms=timeout_ms).values():
            self.read += records

    def settle(self, partitions: list[TopicPartition], *consumers: KafkaConsumer) -> None:
        """Poll until each consumer has partitions, and all partitions are assigned."""

        def fully_assigned() -> bool:
            shares = [consumer.assignment() for consumer in consumers]
            return (
                all(shares)
                and sum(map(len, shares)) == len(partitions)
                and set().union(*shares) == set(partitions)
            )

        self.poll_until(fully_assigned, *consumers)

    def expel(self, consumer: KafkaConsumer, protocol: str) -> None:
        """Make the member leave without its knowledge: send its leave request from here."""
        identity = consumer.group_metadata()
        group_id, member_id = identity.group_id, identity.member_id
        if protocol == "consumer":
            raw = RawMember(self.brokers.connect(), group_id, "")
            raw.member_id = member_id
            assert raw.beat(-1).error is None
            return
        members = [LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None)]
        request = LeaveGroupRequest(group_id=group_id, members=members)
        self.brokers.connect().exchange(request, LeaveGroupResponse, 4)


class Group(World):
    """A group of one protocol with topics of its own.

    Attributes:
        members: Those that are polled, in the order in which they joined.
        partitions: All partitions that the members share.
        sent: The number of records in each partition.
        options: Defaults for its members.
    """

    def __init__(self, brokers: Brokers, protocol: str) -> None:
        super().__init__(brokers)
        self.protocol = protocol
        self.members: list[Member] = []
        self.partitions: list[TopicPartition] = []
        self.sent: Counter[TopicPartition] = Counter()
        self.options = options_of(protocol)

    def __repr__(self) -> str:
        return f"{self.protocol} group {self.name}"

    def create_topic(self, partitions: int, replicas: int = 1, suffix: str = "orders") -> None:
        """Create a topic for the members."""
        name = f"{self.name}-{suffix}"
        self.brokers.create_topic(name, partitions, replicas)
        self.partitions += [TopicPartition(name, number) for number in range(partitions)]

    def fill(self, partitions: Iterable[TopicPartition] | None = None, count: int = 5) -> None:
        """Produce `count` records to each of the partitions; by default to all."""
        for tp in self.partitions if partitions is None else partitions:
            first = self.sent[tp]
            self.brokers.produce(tp, [b"%d" % number for number in range(first, first + count)])
            self.sent[tp] += count

    def join(self, host: Host | None = None, **options: Any) -> Member:
        """Add a member that subscribes to all topics so far."""
        member = self.add_member(host, **options)
        topics = sorted({tp.topic for tp in self.partitions})
        member.consumer.subscribe(topics, listener=member.listener)
        return member

    def add_member(self, host: Host | None = None, **options: Any) -> Member:
        """Add a member without a subscription."""
        options = {
            "group_id": self.name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "reconnect_backoff_max_ms": 500,
            **self.options,
            **options,
        }
        make = self.brokers.consumer if host is None else host.consumer
        member = Member(make(**options), host)
        self.members.append(member)
        return member

    def poll_each(self) -> None:
        """Poll each member once."""
        for member in self.members:
            self.poll(member.consumer, _SHORT_POLL_MS)

    @property
    def fully_assigned(self) -> bool:
        """Whether each partition has one owner, in shares of one size, and all are in one epoch.

        While partitions still move, each may have an owner too.
        """
        shares = [member.consumer.assignment() for member in self.members]
        held = Counter(tp for share in shares for tp in share)
        sizes = sorted(map(len, shares))
        return (
            sizes[0] > 0
            and sizes[-1] - sizes[0] <= 1
            and held == Counter(self.partitions)
            and len({member.membership[1] for member in self.members}) == 1
        )

    @property
    def read_counts(self) -> Counter[tuple[TopicPartition, int]]:
        """How often each record was read."""
        return Counter(
            (TopicPartition(each.topic, each.partition), each.offset) for each in self.read
        )

    @property
    def all_read(self) -> bool:
        """Whether each record was read at least once."""
        return set(self.read_counts) == {
            (tp, n) for tp, end in self.sent.items() for n in range(end)
        }

    @property
    def committed(self) -> int:
        """The sum of the committed offsets."""
        offsets = (self.members[0].consumer.committed(tp) for tp in self.partitions)
        return sum(offset or 0 for offset in offsets)


def states_of(groups: list[Group]) -> list[object]:
    """Everything that a rebalance would change."""
    return [member.state for group in groups for member in group.members]


def check_commits(groups: list[Group]) -> None:
    """Every member can commit, and each record was read once."""
    for group in groups:
        for member in group.members:
            member.consumer.commit()
        assert group.committed == sum(group.sent.values()), group
        assert len(group.read) == len(group.read_counts), f"{group}: a record was read twice"


class Scene:
    """Groups in one cluster, and requests to its brokers.

    Attributes:
        silent: Brokers that are down or paused; they get no requests.
    """

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.wait_until = brokers.wait_until
        self.silent: set[int] = set()

    # --- groups --------------------------------------------------------------------------------

    def groups(
        self,
        *protocols: str,
        coordinator: int | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        **options: Any,
    ) -> list[Group]:
        """Create a group without members for each protocol.

        Args:
            *protocols: By default all.
            coordinator: The broker that coordinates them; by default that of the first.
            session_timeout_ms: The session timeout of their members.
            **options: Other options of their members.
        """
        made: list[Group] = []
        for protocol in protocols or PROTOCOLS:
            group = Group(self.brokers, protocol)
            while coordinator is not None and self.coordinator_of(group) != coordinator:
                group = Group(self.brokers, protocol)
            coordinator = coordinator or self.coordinator_of(group)
            group.options.update(options)
            if protocol == "consumer":
                timeout = str(session_timeout_ms)
                self.brokers.configure_group(group.name, consumer_session_timeout_ms=timeout)
            else:
                group.options["session_timeout_ms"] = session_timeout_ms
            made.append(group)
        return made

    def poll_until(self, done: Callable[[Group], object], *groups: Group) -> None:
        """Poll all members in turn until `done` holds for each group."""
        for _ in until(lambda: all(map(done, groups)), now_s=self.brokers.now_s):
            for group in groups:
                group.poll_each()

    def settle(self, *groups: Group) -> None:
        """Poll until each group has assigned its partitions and read all records."""
        self.poll_until(lambda group: group.fully_assigned and group.all_read, *groups)

    def read_more(self, *groups: Group) -> None:
        """Produce to every partition and poll until everything is read."""
        for group in groups:
            group.fill()
        self.settle(*groups)

    def is_rebalancing(self, group: Group) -> bool:
        """Whether the newest member waits for other members.

        A classic coordinator reports it to a heartbeat of the second member. The newest member of
        a KIP-848 group has an epoch, but no partition.
        """
        if group.protocol == "consumer":
            newest = group.members[-1]
            return newest.membership[1] > 0 and not newest.consumer.assignment()
        return self.heartbeat_as(group, group.members[1].membership) == "RebalanceInProgressError"

    def heartbeat_as(self, group: Group, membership: tuple[str, int]) -> str | None:
        """Send a heartbeat as a member; returns the name of the error."""
        member_id, generation = membership
        connection = self.brokers.connect(self.coordinator_of(group))
        if group.protocol == "consumer":
            modern = RawMember(connection, group.name, "")
            modern.member_id = member_id
            return modern.beat(generation).error
        classic = RawClassicMember(connection, group.name)
        classic.member_id = member_id
        return classic.beat(generation)

    # --- brokers -------------------------------------------------------------------------------

    def coordinator_of(self, group: Group, other_than: int | None = None) -> int:
        """Return the coordinator of a group; wait until it is not `other_than`."""
        found: list[int] = []

        def known() -> bool:
            for node_id in self._asked():
                request = FindCoordinatorRequest(
                    key=group.name, key_type=0, coordinator_keys=[group.name]
                )
                response = self._exchange(node_id, request, FindCoordinatorResponse, 4)
                (entry,) = response.coordinators
                if not entry.error_code and entry.node_id != other_than:
                    found.append(entry.node_id)
            return bool(found)

        self.wait_until(known)
        return found[0]

    def partitions_led_by(self, node_id: int, group: Group) -> list[TopicPartition]:
        """Return the partitions of a group that a broker leads, by its own metadata."""
        topics = sorted({tp.topic for tp in group.partitions})
        entry = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=[entry(name=name, topic_id=UUID(int=0)) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        response = self._exchange(node_id, request, MetadataResponse, 12)
        return [
            TopicPartition(topic.name, partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
            if partition.leader_id == node_id
        ]

    def _asked(self) -> list[int]:
        return [node_id for node_id in self.brokers.node_ids if node_id not in self.silent]

    def _exchange(self, node_id: int, request: Any, response: Any, version: int) -> Any:
        return self.brokers.connect(node_id).exchange(request, response, version)

    def stop(self, node_id: int) -> None:
        """Shut a broker down cleanly."""
        self.silent.add(node_id)
        self.brokers.stop(node_id)

    def kill(self, *node_ids: int) -> None:
        """Kill brokers."""
        self.silent.update(node_ids)
        self.brokers.kill(*node_ids)

    def start(self) -> None:
        """Start all brokers that are not running."""
        self.brokers.start()
        self.silent.clear()

    def pause(self, node_id: int) -> None:
        """Pause a broker; its connections stay open."""
        self.silent.add(node_id)
        self.brokers.pause(node_id)

    def resume(self, node_id: int) -> None:
        """Resume a paused broker."""
        self.brokers.resume(node_id)
        self.silent.discard(node_id)
