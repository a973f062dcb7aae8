"""Groups whose members are polled in turn, one group of each protocol, in one world of brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.testing import Simulation
from tandem_kafka.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.integration.brokers import Brokers, RealBrokers, SimulatedBrokers
from tests.integration.choice_of_world import chosen
from tests.integration.group_members import PROTOCOLS, SESSION_TIMEOUT_MS, options_of, told
from tests.integration.heartbeating import RawMember
from tests.integration.hosted import awaits_others
from tests.integration.hosts import Host, RealHost
from tests.integration.joining import RawClassicMember
from tests.integration.polling import Listener
from tests.integration.worlds import World, until

__all__ = ["Member", "Scene", "Team", "check_commits", "scene_of", "seen_by"]

#: Many members share a thread: each is to wait little.
_POLL_MS = 20


class Member:
    """A consumer and what its listener was told; in a host or here."""

    def __init__(self, consumer: KafkaConsumer, host: Host | None) -> None:
        self.consumer = consumer
        self.listener = Listener()
        self.host = host

    @property
    def heard(self) -> list[str]:
        """What it was told of partitions, without their names."""
        return [what for what, _ in told(self.listener)]

    @property
    def membership(self) -> tuple[str, int]:
        """Its id, and its generation or epoch."""
        known = self.consumer.group_metadata()
        return known.member_id, known.generation_id

    @property
    def awaits_others(self) -> bool:
        """Whether it has sent JoinGroup or SyncGroup of a classic group and has no answer."""
        if isinstance(self.host, RealHost):
            far: Any = self.consumer
            return bool(far.awaits_others())
        return awaits_others(self.consumer)

    @property
    def seen(self) -> object:
        """What would be different if it had been through a rebalance."""
        return self.membership, self.heard, self.consumer.assignment()


class Team(World):
    """A group of one protocol with topics of its own.

    Attributes:
        members: Those that are polled, the first to come first.
        partitions: What they are to share, of all topics.
        sent: How many records of each partition there are.
        options: Of its members, unless one is told otherwise.
    """

    cluster: Brokers

    def __init__(self, cluster: Brokers, protocol: str) -> None:
        super().__init__(cluster)
        self.protocol = protocol
        self.members: list[Member] = []
        self.partitions: list[TopicPartition] = []
        self.sent: Counter[TopicPartition] = Counter()
        self.options = options_of(protocol)

    def __repr__(self) -> str:
        return f"{self.protocol} group {self.name}"

    def create_topic(self, partitions: int, replicas: int = 1, suffix: str = "orders") -> None:
        """Create a topic that the members are to share."""
        name = f"{self.name}-{suffix}"
        self.cluster.create_topic(name, partitions, replicas)
        self.partitions += [TopicPartition(name, number) for number in range(partitions)]

    def fill(self, partitions: Iterable[TopicPartition] | None = None, count: int = 5) -> None:
        """Produce so many records to each of these partitions; without any named, to all."""
        for tp in self.partitions if partitions is None else partitions:
            first = self.sent[tp]
            self.cluster.produce(tp, [b"%d" % number for number in range(first, first + count)])
            self.sent[tp] += count

    def join(self, host: Host | None = None, **options: Any) -> Member:
        """Let a member begin; it subscribes to the topics there are so far."""
        member = self.newcomer(host, **options)
        topics = sorted({tp.topic for tp in self.partitions})
        member.consumer.subscribe(topics, listener=member.listener)
        return member

    def newcomer(self, host: Host | None = None, **options: Any) -> Member:
        """Add a member that subscribes to nothing yet."""
        options = {
            "group_id": self.name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "reconnect_backoff_max_ms": 500,
            **self.options,
            **options,
        }
        make = self.cluster.consumer if host is None else host.consumer
        member = Member(make(**options), host)
        self.members.append(member)
        return member

    def go_round(self) -> None:
        """Poll each member once."""
        for member in self.members:
            self.poll(member.consumer, _POLL_MS)

    @property
    def shared_out(self) -> bool:
        """Whether each partition is somebody's, and everybody has one."""
        shares = [member.consumer.assignment() for member in self.members]
        held = Counter(tp for share in shares for tp in share)
        return all(shares) and held == Counter(self.partitions)

    @property
    def counted(self) -> Counter[tuple[TopicPartition, int]]:
        """How often each record was read."""
        return Counter(
            (TopicPartition(each.topic, each.partition), each.offset) for each in self.read
        )

    @property
    def all_read(self) -> bool:
        """Whether everything that was sent has been read at least once."""
        return set(self.counted) == {(tp, n) for tp, end in self.sent.items() for n in range(end)}

    @property
    def committed(self) -> int:
        """The sum of what is committed of all partitions."""
        offsets = (self.members[0].consumer.committed(tp) for tp in self.partitions)
        return sum(offset or 0 for offset in offsets)


def seen_by(teams: list[Team]) -> list[object]:
    """What would be different if there had been a rebalance."""
    return [member.seen for team in teams for member in team.members]


def check_commits(teams: list[Team]) -> None:
    """Every member can commit what it has read, and that is everything, once."""
    for team in teams:
        for member in team.members:
            member.consumer.commit()
        assert team.committed == sum(team.sent.values()), team
        assert len(team.read) == len(team.counted), f"{team}: something was read twice"


class Scene:
    """Teams in one world of brokers, and what is asked of those.

    Attributes:
        silent: Brokers that are down or paused: they are not asked.
    """

    def __init__(self, cluster: Brokers) -> None:
        self.cluster = cluster
        self.silent: set[int] = set()

    # --- teams ---------------------------------------------------------------------------------

    def teams(
        self,
        *protocols: str,
        coordinator: int | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        **options: Any,
    ) -> list[Team]:
        """Groups without members yet, one of each protocol.

        Args:
            *protocols: Which; without any, all.
            coordinator: All have this one, else the one that the first happens to have.
            session_timeout_ms: Of their members.
            **options: Others of theirs.
        """
        made: list[Team] = []
        for protocol in protocols or PROTOCOLS:
            team = Team(self.cluster, protocol)
            while coordinator is not None and self.coordinator_of(team) != coordinator:
                team = Team(self.cluster, protocol)
            coordinator = coordinator or self.coordinator_of(team)
            team.options.update(options)
            if protocol == "consumer":
                self.cluster.set_session_timeout(team.name, session_timeout_ms)
            else:
                team.options["session_timeout_ms"] = session_timeout_ms
            made.append(team)
        return made

    def poll_until(self, done: Callable[[Team], object], *teams: Team) -> None:
        """Poll all members in turn until it is so for each of the teams."""
        until(
            self.cluster,
            lambda: all(done(team) for team in teams),
            lambda: [team.go_round() for team in teams],
        )

    def settle(self, *teams: Team) -> None:
        """Poll until every team has shared its partitions out and read everything."""
        self.poll_until(lambda team: team.shared_out and team.all_read, *teams)

    def read_more(self, *teams: Team) -> None:
        """Produce to every partition and poll until all of it is read."""
        for team in teams:
            team.fill()
        self.settle(*teams)

    def wait_until(self, done: Callable[[], object]) -> None:
        """Let time pass until it is so, without touching a member."""
        until(self.cluster, done, self.cluster.sleep)

    def is_rebalancing(self, team: Team) -> bool:
        """Whether the newest member waits for others.

        A classic coordinator says so when it is asked in the second one's name; the newest member
        of a KIP-848 group has an epoch, and no partition.
        """
        if team.protocol == "consumer":
            newest = team.members[-1]
            return newest.membership[1] > 0 and not newest.consumer.assignment()
        return self.beat_as(team, team.members[1].membership) == "RebalanceInProgressError"

    def beat_as(self, team: Team, membership: tuple[str, int]) -> str | None:
        """Send a heartbeat in a member's name; returns the name of the error."""
        member_id, generation = membership
        line = self.cluster.line(self.coordinator_of(team))
        if team.protocol == "consumer":
            modern = RawMember(line, team.name, "")
            modern.member_id = member_id
            return modern.beat(generation).error
        classic = RawClassicMember(line, team.name)
        classic.member_id = member_id
        return classic.beat(generation)

    # --- brokers -------------------------------------------------------------------------------

    def coordinator_of(self, team: Team, besides: int | None = None) -> int:
        """The broker that coordinates a group, as the others say; waits for one `besides`."""
        found: list[int] = []

        def known() -> bool:
            for node_id in self._asked():
                request = FindCoordinatorRequest(
                    key=team.name, key_type=0, coordinator_keys=[team.name]
                )
                answer = self._ask(node_id, request, FindCoordinatorResponse, 4)
                (entry,) = answer.coordinators
                if not entry.error_code and entry.node_id != besides:
                    found.append(entry.node_id)
            return bool(found)

        self.wait_until(known)
        return found[0]

    def led_by(self, node_id: int, team: Team) -> list[TopicPartition]:
        """Those of a team's partitions that a broker leads, as it says itself."""
        topics = sorted({tp.topic for tp in team.partitions})
        entry = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=[entry(name=name, topic_id=UUID(int=0)) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = self._ask(node_id, request, MetadataResponse, 12)
        return [
            TopicPartition(topic.name, partition.partition_index)
            for topic in answer.topics
            for partition in topic.partitions
            if partition.leader_id == node_id
        ]

    def _asked(self) -> list[int]:
        return [node_id for node_id in self.cluster.node_ids if node_id not in self.silent]

    def _ask(self, node_id: int, request: Any, response: Any, version: int) -> Any:
        return self.cluster.line(node_id).ask(request, response, version)

    def stop(self, node_id: int) -> None:
        """End a broker in order."""
        self.silent.add(node_id)
        self.cluster.stop(node_id)

    def kill(self, *node_ids: int) -> None:
        """End brokers without a word."""
        self.silent.update(node_ids)
        self.cluster.kill(*node_ids)

    def start(self) -> None:
        """Start all brokers that are not running."""
        self.cluster.start()
        self.silent.clear()

    def pause(self, node_id: int) -> None:
        """Have a broker do nothing, with all its connections."""
        self.silent.add(node_id)
        self.cluster.pause(node_id)

    def resume(self, node_id: int) -> None:
        """Have it go on."""
        self.cluster.resume(node_id)
        self.silent.discard(node_id)


def scene_of(request: pytest.FixtureRequest, cluster: str) -> Iterator[Scene]:
    """For a fixture with the parameters `simulated` and `real`.

    Args:
        request: Of that fixture.
        cluster: Name of the fixture with the real cluster; the simulated one has as many brokers.
    """
    if chosen(request) == "simulated":
        count = {"kafka": 1, "three": 3}[cluster]
        with Simulation(request.node.name, brokers=count) as simulation:
            yield Scene(SimulatedBrokers(simulation))
        return
    consume = request.getfixturevalue("consume")
    brokers = RealBrokers(request.getfixturevalue(cluster), consume)
    yield Scene(brokers)
    brokers.close()
